/* SPDX-License-Identifier: Apache-2.0 */

/* Capabilities by libcap-ng, system calls by libseccomp. */

#include "ofproxyd/base/confine.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include <cap-ng.h>
#include <seccomp.h>

#include <util.h>

struct cap {
    unsigned int number;
    bool required;
    const char *name;
    const char *why;
};

static const struct cap caps[] = {
#define CAP(NAME, REQUIRED, WHY) { CAP_##NAME, REQUIRED, "CAP_" #NAME, WHY },
    CONFINE_CAPS
#undef CAP
};

struct call {
    const char *name;
    bool conditional;
    struct scmp_arg_cmp cmp;
};

void
confine_files(void)
{
    umask(027);
    ignore(close_range(STDERR_FILENO + 1, UINT_MAX, 0));
}

/* Capabilities. */

/* Fills 'keep' with those that are there, of caps[].  Returns EPERM if one
 * is missing that has to be there. */
static int
find_caps(bool keep[ARRAY_SIZE(caps)], struct err *err)
{
    for (size_t i = 0; i < ARRAY_SIZE(caps); i++) {
        keep[i] = capng_have_capability(CAPNG_PERMITTED, caps[i].number);
        if (!keep[i] && caps[i].required) {
            err_set(err, "capability %s is missing (%s)", caps[i].name,
                    caps[i].why);
            return EPERM;
        }
    }
    return 0;
}

static int
drop_caps(struct err *err)
{
    bool keep[ARRAY_SIZE(caps)];
    bool can_bound;
    int error;

    if (capng_get_caps_process()) {
        err_set(err, "the process's capabilities can't be read");
        return EIO;
    }
    error = find_caps(keep, err);
    if (error) {
        return error;
    }
    /* Without it the bounding set stays, which matters to nobody who gets no
     * new privileges. */
    can_bound = capng_have_capability(CAPNG_EFFECTIVE, CAP_SETPCAP);
    capng_clear(CAPNG_SELECT_ALL);
    for (size_t i = 0; i < ARRAY_SIZE(caps); i++) {
        if (keep[i]) {
            capng_update(CAPNG_ADD, CAPNG_EFFECTIVE | CAPNG_PERMITTED,
                         caps[i].number);
        }
    }
    error = capng_apply(can_bound ? CAPNG_SELECT_ALL
                                  : CAPNG_SELECT_CAPS | CAPNG_SELECT_AMBIENT);
    if (error) {
        err_set(err, "capabilities can't be dropped (%d)", error);
        return EIO;
    }
    return 0;
}

int
confine_privileges(struct err *err)
{
    int error = drop_caps(err);

    if (error) {
        return error;
    }
    /* Last, since a change of privileges may set PR_SET_DUMPABLE.  A limit of
     * 0 for core dumps would say nothing to those that go through a pipe. */
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)) {
        error = errno;
        err_set(err, "prctl: %s", ovs_strerror(error));
    }
    return error;
}

/* System calls. */

/* Libraries have negative numbers for what an architecture doesn't have. */
static int
allow(scmp_filter_ctx filter, const struct call *call, unsigned int arch)
{
    int number = seccomp_syscall_resolve_name_arch(arch, call->name);

    if (number < 0) {
        return 0;
    }
    return -seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, number,
                                   call->conditional,
                                   call->conditional ? &call->cmp : NULL);
}

static int
fill_filter(scmp_filter_ctx filter, unsigned int arch)
{
    const struct call calls[] = {
#define CALL(NAME) { .name = #NAME },
#define IF(NAME, ARG, MASK, VALUE) \
    { #NAME, true, { ARG, SCMP_CMP_MASKED_EQ, MASK, VALUE } },
#include "ofproxyd/base/calls.def"
#undef CALL
#undef IF
    };
    int error = 0;

    if (arch != seccomp_arch_native()) {
        error = -seccomp_arch_remove(filter, SCMP_ARCH_NATIVE);
        error = error ? error : -seccomp_arch_add(filter, arch);
    }
    for (size_t i = 0; i < ARRAY_SIZE(calls) && !error; i++) {
        error = allow(filter, &calls[i], arch);
    }
    return error;
}

/* What is refused is in the kernel's log.  Reads of speculation are no
 * concern where no foreign code runs, and to prevent them (Linux before 5.16
 * does, with a filter) costs time.  The tree makes the filter short. */
static void
set_attributes(scmp_filter_ctx filter)
{
    ignore(seccomp_attr_set(filter, SCMP_FLTATR_CTL_LOG, 1));
    ignore(seccomp_attr_set(filter, SCMP_FLTATR_CTL_SSB, 1));
    ignore(seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2));
}

static int
make_filter(unsigned int arch, scmp_filter_ctx *ret)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));
    int error;

    if (!filter) {
        return ENOMEM;
    }
    error = fill_filter(filter, arch);
    if (error) {
        seccomp_release(filter);
        return error;
    }
    set_attributes(filter);
    *ret = filter;
    return 0;
}

int
confine_calls(struct err *err)
{
    scmp_filter_ctx filter;
    int error = make_filter(seccomp_arch_native(), &filter);

    if (!error) {
        error = -seccomp_load(filter);
        seccomp_release(filter);
    }
    if (error) {
        err_set(err, "seccomp: %s", ovs_strerror(error));
    }
    return error;
}

int
confine_export(unsigned int arch, int fd)
{
    scmp_filter_ctx filter;
    int error = make_filter(arch, &filter);

    if (!error) {
        error = -seccomp_export_bpf(filter, fd);
        seccomp_release(filter);
    }
    return error;
}
