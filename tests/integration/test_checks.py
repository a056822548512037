# SPDX-License-Identifier: Apache-2.0
"""The checks of scripts/: each finds what it is there to find."""
import importlib.machinery
import importlib.util
import os
import pathlib
import re
import shutil
import signal
import subprocess

import pytest

from support import proc
from support.wait import wait_for

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"
HEAD = """/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_X_H
#define OFPROXYD_X_H 1

/* What this file is for, in a sentence or two. */

"""
SOURCE = """/* SPDX-License-Identifier: Apache-2.0 */

/* What this file is for, in a sentence or two. */

"""
HEADER = HEAD + """#include <stddef.h>

struct x {
    int (*call)(int);
    size_t n;
};

/* Does it; returns 0 or an error. */
int x_do(struct x *, const char *why,
         size_t n) OVS_WARN_UNUSED_RESULT;

/* A group: x_run() and x_wait() are called
 * in turn. */
void x_run(struct x *);
void x_wait(struct x *);

size_t x_count(const struct x *); /* Of all. */

/* Doubles.

   (With an empty line in its comment { and a brace.) */
static inline int
x_double(int n)
{
    int twice = n * 2;

    return twice;
}

#endif /* ofproxyd/x.h */
"""


def function(n_lines, parameters="void"):
    """A C function of so many lines."""
    return "int\nf(%s)\n{\n%s}\n" % (parameters, "    a();\n" * (n_lines - 2))


def check(name, root, *more):
    """The exit status of a check, and what it says."""
    done = subprocess.run([SCRIPTS / name, "--root", root, *more],
                          capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


@pytest.fixture(name="tree")
def _tree(tmp_path):
    """A tree with nothing to complain about."""
    for path, text in {
            "src/base/a.c": SOURCE + function(60, "int a, int b, int (*c)"
                                              "(int, int), int d, int e"),
            "include/ofproxyd/base/x.h": HEADER,
            "tests/unit/test-a.c": SOURCE,
            "scripts/build": "#!/bin/sh\n",
            "README.md": "[text](docs/a.md#one-heading) [web](https://x.y)\n"
                         "    [code](nowhere.md)\n`[code](nowhere.md)`\n",
            "docs/a.md": "# A\n\n## One heading\n[up](../README.md)\n",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path


def change(path, old, new):
    """Replaces text that must be there."""
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_a_good_tree_passes_both_checks(tree):
    """And they say how much they looked at."""
    assert check("check-size", tree) == (
        0, "files within the limits of size: 3\n")
    assert check("check-docs", tree) == (0, "files documented: 5\n")


@pytest.mark.parametrize("path, text, complaint", [
    ("src/base/b.c", SOURCE + function(61),
     "src/base/b.c:5: function of 61 lines, limit 60"),
    ("src/base/b.c", SOURCE + "\n" * 800, "804 lines, limit 800"),
    ("src/base/b.c", SOURCE + "/* " + "x" * 77, ":5: 80 columns, limit 79"),
    ("src/base/b.c", SOURCE + "\t" * 10, ":5: 10 columns, limit 79"),
    ("tests/unit/b.c", SOURCE + function(3, "int a, int b, int c,\n  int d,"
                                         "int e, int f"),
     "tests/unit/b.c:5: 6 parameters, limit 5"),
    ("include/ofproxyd/base/y.h", HEAD + "/* TO" "DO */\n", "y.h:7: /* TO"),
    ("scripts/x", "# FIX" "ME later\n", "scripts/x:1: # FIX"),
    ("tests/support/x.py", "pass  # XX" "X\n", "x.py:1: pass"),
])
def test_check_size_finds(tree, path, text, complaint):
    """Each kind of excess."""
    (tree / path).parent.mkdir(parents=True, exist_ok=True)
    (tree / path).write_text(text)
    status, said = check("check-size", tree)
    assert status == 1
    assert complaint in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("path, old, new, complaint", [
    ("src/base/a.c", "/* SPDX", "/* Licence", "a.c:1: does not begin with"),
    ("src/base/a.c", "/* What this file is for, in a sentence or two. */\n",
     "/* A. */\n", "a.c:3: no introduction"),
    ("include/ofproxyd/base/x.h", "/* What this file is for, in a sentence "
     "or two. */\n", "", "x.h:6: no introduction"),
    ("include/ofproxyd/base/x.h", "/* Does it; returns 0 or an error. */\n",
     "", "x.h:14: x_do() is not documented"),
    ("include/ofproxyd/base/x.h", "in turn. */\n", "in turn. */\n\n",
     "x.h:21: x_run() is not documented"),
    ("include/ofproxyd/base/x.h", " /* Of all. */", "",
     "x_count() is not documented"),
    ("include/ofproxyd/base/x.h", "(With an empty line in its comment { and "
     "a brace.) */\n", "*/\n\n", "x_double() is not documented"),
    ("README.md", "docs/a.md#", "docs/b.md#",
     "README.md:1: no such file: docs/b.md#one-heading"),
    ("README.md", "#one", "#two", "no such heading: docs/a.md#two-heading"),
    ("docs/a.md", "../README.md", "README.md", "docs/a.md:4: no such file"),
])
def test_check_docs_finds(tree, path, old, new, complaint):
    """Each kind of neglect."""
    change(tree / path, old, new)
    status, said = check("check-docs", tree)
    assert status == 1
    assert complaint in said


PROGRAM = """\
#!/bin/sh
case $1 in
--help) echo '  --one-heading FILE, --config' ;;
--print-config) echo 'ovsBridge: br-int' ;;
--print-reference) echo '--config FILE' ;;
esac
"""


CTL = """\
#!/bin/sh
echo '  --other'
"""


@pytest.fixture(name="program_tree")
def _program_tree(tree):
    """A tree with a program and the texts that belong to it."""
    for path, text in {"out/ofproxyd": PROGRAM, "out/ofproxyctl": CTL,
                       "conf/antrea-agent.conf": "ovsBridge: br-int\n",
                       "docs/configuration.md": "--config FILE\n"}.items():
        (tree / path).parent.mkdir(exist_ok=True)
        (tree / path).write_text(text)
    for name in "ofproxyd", "ofproxyctl":
        (tree / "out" / name).chmod(0o755)
    change(tree / "docs/a.md", "[up]", "`--one-heading`, `--other` [up]")
    return tree


def test_check_docs_accepts_the_texts_of_a_program(program_tree):
    """With all of them in place."""
    assert check("check-docs", program_tree, "out")[0] == 0


@pytest.mark.parametrize("path, old, new, complaint", [
    ("docs/a.md", "--one-heading", "--one-heading-more",
     "ofproxyd: --one-heading is not documented"),
    ("docs/a.md", "--other", "--another",
     "ofproxyctl: --other is not documented"),
    ("docs/configuration.md", "FILE", "F",
     "docs/configuration.md: not what `ofproxyd --print-reference` prints"),
    ("conf/antrea-agent.conf", "br-int", "br0",
     "conf/antrea-agent.conf: not what `ofproxyd --print-config` prints"),
])
def test_check_docs_compares_with_the_program(program_tree, path, old, new,
                                              complaint):
    """Options and generated files."""
    change(program_tree / path, old, new)
    status, said = check("check-docs", program_tree, "out")
    assert (status, said) == (1, "check-docs: " + complaint + "\n")


# Counting.

def load_script(name):
    """A script as a module."""
    loader = importlib.machinery.SourceFileLoader(
        name.replace("-", "_"), str(SCRIPTS / name))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


CMOCKA = """\
[==========] Running 3 test(s).
[ RUN      ] one
[       OK ] one
[==========] 3 test(s) run.
[  PASSED  ] 3 test(s).
"""
# Two and a set-up that failed; as newer versions print it.
CMOCKA_BAD = """\
[==========] tests: Running 5 test(s).
[ RUN      ] two
[  FAILED  ] two
[==========] tests: 5 test(s) run.
[  PASSED  ] 2 test(s).
[  SKIPPED ] tests: 1 test(s), listed below:
[  SKIPPED ] three

 1 SKIPPED TEST(S)
[  FAILED  ] tests: 1 test(s), listed below:
[  FAILED  ] two

 2 FAILED TEST(S)
FAILED: build/tests/test-x
"""


@pytest.mark.parametrize("text, counts", [
    (CMOCKA, (3, 0, 0)),
    (CMOCKA + CMOCKA_BAD + CMOCKA, (8, 2, 1)),
    # All tests passed, but valgrind had something to say.
    (CMOCKA + "FAILED: build/tests/test-x\n", (3, 1, 0)),
    # It crashed on the way.
    ("[==========] Running 3 test(s).\n[ RUN      ] one\n"
     "FAILED: build/tests/test-x\n" + CMOCKA, (3, 1, 0)),
    ("build/tests/fuzz-json: 12 files replayed\n", (12, 0, 0)),
    ("", (0, 0, 0)),
])
def test_cmocka_results_are_counted(text, counts):
    """Also of programs that end badly."""
    count = load_script("run-tests").count_cmocka(text)
    assert (count.passed, count.failed, count.skipped) == counts


def test_pytest_results_are_counted(tmp_path):
    """From its report; none is no result."""
    (tmp_path / "x.xml").write_text(
        '<testsuites><testsuite name="pytest" errors="1" failures="2" '
        'skipped="3" tests="10"/></testsuites>')
    script = load_script("run-tests")
    assert str(script.count_junit(tmp_path / "x.xml")) == (
        "4 passed, 3 failed, 3 skipped")
    assert str(script.count_junit(tmp_path / "y")) == "0 passed, 0 failed"


@pytest.mark.parametrize("text, counts", [
    ("1 passed, 0 failed, 0 skipped\n8 passed, 1 failed, 2 skipped\n"
     "make: *** [Makefile:1: x] Error 1\n", (8, 1, 2)),
    ("passed    8 s  9 passed, 0 failed, 0 skipped\n", (0, 0, 0)),
    ("", (0, 0, 0)),
])
def test_told_results_are_counted(text, counts):
    """From the last line of their kind."""
    count = load_script("run-tests").count_told(text)
    assert (count.passed, count.failed, count.skipped) == counts


def test_the_first_failure_and_the_end_of_a_log_are_shown():
    """Of a long log; all of a short one."""
    script = load_script("run-tests")
    group = script.Group("x", (), "pytest")
    lines = ["%d" % n for n in range(1000)]
    assert group.excerpt("\n".join(lines)) == lines[-script.LOG_TAIL:]
    lines[300] = "=== FAILURES ==="
    shown = group.excerpt("\n".join(lines))
    assert shown == (lines[300:300 + script.LOG_HEAD]
                     + lines[-script.LOG_TAIL:])
    assert group.excerpt("\n".join(lines[:310])) == lines[250:310]


@pytest.mark.parametrize("kind",
                         ["cmocka", "pytest", "told", "status", "none"])
def test_a_group_that_ends_badly_has_a_failure(tmp_path, kind):
    """Even if nothing was counted."""
    script = load_script("run-tests")
    group = script.Group("x", (), kind, status=2)
    group.count_results("", tmp_path / "none")
    assert group.count.failed == 1


MAKEFILE = """\
all tests-bin check-layers check-size check-headers check-symbols check-docs:
	@true
conformance-build:
	@true
check-conformance:
	@echo 3 passed, 0 failed, 2 skipped
check-unit check-asan check-valgrind:
	@printf '[==========] Running 2 test(s).\\n[  PASSED  ] 2 test(s).\\n'
check-replay:
	@echo 'fuzz-x: 5 files replayed'
check-integration check-system:
	@file=$${PYTEST_ADDOPTS#--junitxml=}; echo '<testsuite tests="4" \
skipped="1"/>' >$$file; @STATUS@
"""


@pytest.mark.parametrize("status, options, last, code", [
    ("true", [], "25 passed, 0 failed, 4 skipped", 0),
    ("true", ["--quick"], "15 passed, 0 failed, 1 skipped", 0),
    ("false", ["--quick"], "15 passed, 1 failed, 1 skipped", 1),
])
def test_the_last_line_sums_all_up(tmp_path, status, options, last, code):
    """And the exit status says the same."""
    (tmp_path / "scripts").mkdir()
    (tmp_path / "Makefile").write_text(MAKEFILE.replace("@STATUS@", status))
    script = tmp_path / "scripts/run-tests"
    shutil.copy(SCRIPTS / "run-tests", script)
    done = subprocess.run([script, *options], capture_output=True, text=True,
                          check=False, env={**os.environ, "O": "out"})
    assert done.stdout.splitlines()[-1] == last
    assert done.returncode == code


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_interrupted_lets_its_tests_clean_up(tmp_path, number):
    """As at ^C; what has not run yet does not."""
    (tmp_path / "scripts").mkdir()
    (tmp_path / "Makefile").write_text(MAKEFILE.replace("@STATUS@", """\
trap 'touch cleaned; exit 1' INT; touch begun; while :; do sleep 0.1; done"""))
    shutil.copy(SCRIPTS / "run-tests", tmp_path / "scripts")
    run = proc.start(tmp_path / "scripts/run-tests", text=True,
                     stdout=subprocess.PIPE, env={**os.environ, "O": "out"})
    wait_for((tmp_path / "begun").exists, 20, "a group")
    run.send_signal(number)
    text = run.communicate(timeout=60)[0]
    assert (tmp_path / "cleaned").exists()
    assert re.search(r"^system +0 passed, 1 failed", text, re.M), text
    assert re.search(r"^\d+ passed, \d+ failed", text.splitlines()[-1])
    assert run.returncode == 1


def test_a_build_that_fails_is_a_failure(tmp_path):
    """Nothing else is run then; its log is shown."""
    (tmp_path / "scripts").mkdir()
    (tmp_path / "Makefile").write_text("all:\n\t@echo no; false\n")
    shutil.copy(SCRIPTS / "run-tests", tmp_path / "scripts")
    done = subprocess.run([tmp_path / "scripts/run-tests"], text=True,
                          capture_output=True, check=False,
                          env={**os.environ, "O": "out"})
    assert "    no" in done.stdout.splitlines()
    assert done.stdout.endswith("\n0 passed, 1 failed\n")
    assert done.returncode == 1
