# SPDX-License-Identifier: Apache-2.0
# ofproxyd: GNU make, one non-recursive file, all output under $(O).
#
#   make                    the daemon, and ofproxyctl
#   make check              unit tests, corpora replayed, all static checks
#   make check-integration  against a real ovs-vswitchd
#   make check-system       with packets between network namespaces
#   make check-asan, check-valgrind    the unit tests once more
#   make check-conformance  a selection of Kubernetes' own tests
#   make conformance        all of them (CONFORMANCE="--rounds 3": options)
#   make bench              costs, as ratios (BENCH="cold latency": some)
#   make install            DESTDIR, PREFIX, SYSCONFDIR, UNITDIR
#   make deb                a Debian package in $(O)
MAKEFLAGS += -rR --no-print-directory
.SUFFIXES:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := all

O          ?= build
# One spelling: what was compiled is found again, and by the .d files.
override O := $(patsubst $(CURDIR)/%,%,$(abspath $(O)))
CC         ?= cc
ifeq ($(origin CC),default)
CC         := cc
endif
PKG_CONFIG ?= pkg-config
INSTALL    ?= install
PYTHON     ?= /usr/bin/python3
PREFIX     ?= /usr/local
SBINDIR    ?= $(PREFIX)/sbin
SYSCONFDIR ?= /etc
DOCDIR     ?= $(PREFIX)/share/doc/ofproxyd
UNITDIR    ?= $(PREFIX)/lib/systemd/system
DESTDIR    ?=
WERROR     ?= 1
SAN        ?=

# libopenvswitch is built once into a cache; ovs.mk says where it is.
ifneq ($(filter-out clean check-layers check-size format-check,$(or $(MAKECMDGOALS),all)),)
-include $(O)/ovs.mk
endif
$(O)/ovs.mk: scripts/build-ovs
	@mkdir -p $(@D); dir=$$(scripts/build-ovs) && echo "OVS := $$dir" >$@

VERSION    := 0.1.0
LIBS       := libcurl yaml-0.1 libnl-3.0 libnftables libmicrohttpd \
              libcap-ng libseccomp

# Users own CFLAGS/CPPFLAGS/LDFLAGS; the project's own flags are never in them.
CFLAGS     ?= -O2 -g
WARN       := -Wall -Wextra -Wshadow -Wpointer-arith -Wstrict-prototypes \
              -Wmissing-prototypes -Wold-style-definition -Wformat=2 -Wundef \
              -Wswitch-enum -Wwrite-strings -Wvla -Wimplicit-fallthrough \
              -Wno-sign-compare -Wno-missing-field-initializers
WARN       += $(if $(filter 1,$(WERROR)),-Werror)
HARDEN     := -fstack-protector-strong -fstack-clash-protection -fPIE \
              $(if $(SAN),,-D_FORTIFY_SOURCE=2)
SANFLAGS   := $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=all)
# config.h is Open vSwitch's: it decides the shape of its lib/ headers.
O_CPPFLAGS  = -Iinclude -isystem $(OVS)/include -isystem $(OVS)/lib \
              -include config.h -DOFPROXYD_VERSION='"$(VERSION)"' $(LIB_CFLAGS)
O_CFLAGS   := -std=gnu11 -fno-common $(WARN) $(HARDEN) $(SANFLAGS)
O_LDFLAGS  := -pie -Wl,-z,relro -Wl,-z,now -Wl,--as-needed $(SANFLAGS)
LIB_CFLAGS := $(patsubst -I%,-isystem %,$(shell $(PKG_CONFIG) --cflags $(LIBS) 2>/dev/null))
LDLIBS      = $(OVS)/libopenvswitch.a $(shell $(PKG_CONFIG) --libs $(LIBS)) -latomic -lm -lpthread

ifneq ($(V),1)
Q := @
say = @printf '  %-7s %s\n' '$(1)' '$(2)'
endif

SRCS    := $(sort $(filter-out src/ctl/%,$(wildcard src/*/*.c)))
CTL     := $(sort $(wildcard src/ctl/*.c))
OBJS    := $(SRCS:%.c=$(O)/%.o)
HDRS    := $(sort $(shell find include src tests -name '*.h'))
SUPPORT := $(sort $(wildcard tests/support/*.c))
TESTS   := $(patsubst tests/unit/%.c,$(O)/tests/%,$(sort $(wildcard tests/unit/test-*.c)))
FUZZ    := $(patsubst tests/fuzz/%.c,$(O)/tests/%,$(sort $(wildcard tests/fuzz/fuzz-*.c)))
TOOLS   := $(patsubst tests/tools/%.c,$(O)/tests/%,$(sort $(wildcard tests/tools/*.c)))
PRELOAD := $(patsubst tests/preload/%.c,$(O)/tests/%.so,$(sort $(wildcard tests/preload/*.c)))
BENCHES := $(patsubst tests/bench/%.c,$(O)/tests/%,$(sort $(wildcard tests/bench/bench-*.c)))
C_FILES := $(SRCS) $(CTL) src/main.c $(HDRS) $(SUPPORT) $(wildcard tests/*/*.c)

all: $(O)/ofproxyd $(O)/ofproxyctl

# Rebuild when flags change, not only when files do.
FLAGS = $(CC) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS) $(O_CPPFLAGS) $(O_CFLAGS) $(O_LDFLAGS)
$(O)/.flags: FORCE
	$(Q)mkdir -p $(@D); printf '%s\n' '$(subst ','\'',$(FLAGS))' | cmp -s - $@ || printf '%s\n' '$(subst ','\'',$(FLAGS))' >$@

$(O)/%.o: %.c $(O)/.flags
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(O_CPPFLAGS) $(CPPFLAGS) $(O_CFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

$(O)/libofproxyd.a: $(OBJS)
	$(call say,AR,$@)
	$(Q)rm -f $@ && ar rcs $@ $^

$(O)/libtest.a: $(SUPPORT:%.c=$(O)/%.o)
	$(call say,AR,$@)
	$(Q)rm -f $@ && ar rcs $@ $^

$(O)/ofproxyd: $(O)/src/main.o $(O)/libofproxyd.a
	$(call say,LD,$@)
	$(Q)$(CC) $(O_LDFLAGS) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LDLIBS)

$(O)/ofproxyctl: $(CTL:%.c=$(O)/%.o) $(O)/libofproxyd.a
	$(call say,LD,$@)
	$(Q)$(CC) $(O_LDFLAGS) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LDLIBS)

$(O)/tests/test-%: $(O)/tests/unit/test-%.o $(O)/libtest.a $(O)/libofproxyd.a
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(O_LDFLAGS) $(CFLAGS) $(LDFLAGS) -o $@ $^ -lcmocka -ljansson $(LDLIBS)

# The fuzz targets with a main() that replays files.  `make fuzz` below builds
# the same targets with libFuzzer.
$(O)/tests/fuzz-%: $(O)/tests/fuzz/fuzz-%.o $(O)/tests/fuzz/replay.o $(O)/libofproxyd.a
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(O_LDFLAGS) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LDLIBS)

$(O)/tests/bench-%: $(O)/tests/bench/bench-%.o $(O)/libtest.a $(O)/libofproxyd.a
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(O_LDFLAGS) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LDLIBS)

# Programs that drive one layer for a test in Python.
$(TOOLS): $(O)/tests/%: $(O)/tests/tools/%.o $(O)/libtest.a $(O)/libofproxyd.a
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(O_LDFLAGS) $(CFLAGS) $(LDFLAGS) -o $@ $^ -lcmocka -ljansson $(LDLIBS)

# For LD_PRELOAD, so neither with sanitizers nor as an executable.
$(O)/tests/%.so: tests/preload/%.c $(O)/.flags
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) -std=gnu11 $(WARN) $(CFLAGS) -fPIC -shared -MMD -MP -o $@ $< -ldl

# Tests.

tests-bin: $(TESTS) $(FUZZ) $(TOOLS) $(PRELOAD)

check-unit: $(TESTS)
	@rc=0; for t in $(TESTS); do $(TEST_WRAPPER) $$t || { echo "FAILED: $$t"; rc=1; }; done; exit $$rc
check-replay: $(FUZZ)
	@rc=0; for t in $(FUZZ); do $(TEST_WRAPPER) $$t tests/data/corpus/$$(basename $$t | sed 's/^fuzz-//') || { echo "FAILED: $$t"; rc=1; }; done; exit $$rc
check-static: check-layers check-size check-headers check-symbols check-docs
check: check-unit check-replay check-static

# Random tests run fewer rounds where each takes long; a seed that they print
# can be given to a plain run.
SHORT := ROUNDS=200 FLOWTAB_RUNS=10 AGENT_RUNS=4

check-asan:
	+@$(SHORT) $(MAKE) O=$(O)/asan SAN=address,undefined CFLAGS='-O1 -g' check-unit check-replay
check-valgrind:
	+@$(SHORT) $(MAKE) TEST_WRAPPER='valgrind -q --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite' check-unit check-replay
# These wait more than they compute, so there are more workers than processors;
# a file is one worker's.  WORKERS=0: one after the other, in one process.
WORKERS ?= $(shell echo $$((2 * $$(nproc))))
PYTEST = $(PYTHON) -m pytest -q -p no:cacheprovider -n $(WORKERS) --dist loadfile
check-integration: all $(TOOLS) $(PRELOAD)
	@$(PYTEST) tests/integration
check-system: all $(TOOLS) $(PRELOAD)
	@$(PYTEST) tests/system
# The cluster's programs take ten minutes to build, so others go first.
conformance-build:
	@[ "$$(id -u)" != 0 ] || nice tests/conformance/build >/dev/null || [ $$? = 3 ]
check-conformance: all
	@O=$(O) scripts/conformance --quick
conformance: all
	@O=$(O) scripts/conformance $(CONFORMANCE)
bench: all $(BENCHES) $(O)/tests/rules-probe $(O)/tests/pipe-probe
	@O=$(O) $(PYTHON) tests/bench/run.py $(BENCH)

check-headers: $(O)/ovs.mk
	@rc=0; for h in $(HDRS); do echo "#include \"$$PWD/$$h\"" | \
	  $(CC) $(O_CPPFLAGS) $(O_CFLAGS) -Wno-unused-function -fsyntax-only -x c - || rc=1; done; \
	  [ $$rc = 0 ] && echo "headers that compile alone: $(words $(HDRS))"; exit $$rc
check-layers:
	@scripts/check-layers
check-size:
	@scripts/check-size
check-symbols: all
	@scripts/check-symbols $(O)/libofproxyd.a $(OVS)/libopenvswitch.a $$(ldd $(O)/ofproxyd | awk '/(curl|yaml|nl-3|nftables|microhttpd|jansson|cap-ng|seccomp)/ {print $$3}')
check-docs: all
	@scripts/check-docs $(O)
	@scripts/kubernetes-conf --check $(O)
docs: all
	@$(O)/ofproxyd --print-config > conf/antrea-agent.conf
	@$(O)/ofproxyd --print-reference > docs/configuration.md
	@scripts/kubernetes-conf $(O)
format-check:
	@clang-format --dry-run -Werror $(C_FILES)
tidy: $(O)/ovs.mk
	@clang-tidy --quiet $(SRCS) $(CTL) src/main.c -- $(O_CPPFLAGS) -std=gnu11

fuzz:
	+@$(MAKE) O=$(O)/fuzz CC=clang SAN=address,undefined,fuzzer-no-link fuzz-bin
fuzz-bin: $(O)/libofproxyd.a $(patsubst tests/fuzz/%.c,$(O)/tests/fuzz/%.o,$(wildcard tests/fuzz/fuzz-*.c))
	@for f in $(basename $(notdir $(wildcard tests/fuzz/fuzz-*.c))); do \
	  $(CC) $(O_LDFLAGS) -fsanitize=address,undefined,fuzzer -o $(O)/$$f $(O)/tests/fuzz/$$f.o $(O)/libofproxyd.a $(LDLIBS) && echo $(O)/$$f; done

install: all
	$(INSTALL) -d $(DESTDIR)$(SBINDIR) $(DESTDIR)$(SYSCONFDIR)/ofproxyd $(DESTDIR)$(DOCDIR)/decisions $(DESTDIR)$(UNITDIR)
	$(INSTALL) -m 0755 $(O)/ofproxyd $(DESTDIR)$(SBINDIR)/ofproxyd
	$(INSTALL) -m 0755 $(O)/ofproxyctl $(DESTDIR)$(SBINDIR)/ofproxyctl
	$(INSTALL) -m 0644 conf/antrea-agent.conf $(DESTDIR)$(SYSCONFDIR)/ofproxyd/antrea-agent.conf
	sed 's|/usr/sbin/|$(SBINDIR)/|' conf/ofproxyd.service >$(DESTDIR)$(UNITDIR)/ofproxyd.service
	chmod 0644 $(DESTDIR)$(UNITDIR)/ofproxyd.service
	$(INSTALL) -m 0644 README.md LICENSE docs/*.md $(DESTDIR)$(DOCDIR)
	$(INSTALL) -m 0644 docs/decisions/*.md $(DESTDIR)$(DOCDIR)/decisions
deb: all
	@scripts/build-deb $(O) $(VERSION)
clean:
	$(Q)rm -rf $(O)

.PHONY: all check check-unit check-replay check-static check-asan check-valgrind check-integration check-system conformance-build check-conformance conformance bench check-headers check-layers check-size check-symbols check-docs docs format-check tidy fuzz fuzz-bin install deb clean tests-bin FORCE
FORCE:
.SECONDARY:
-include $(shell find $(O) -name '*.d' 2>/dev/null)
