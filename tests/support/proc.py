# SPDX-License-Identifier: Apache-2.0
"""Processes of the tests: run to the end, or kept and ended by their id.

What is kept dies with the interpreter that started it, so that a test run
that is itself killed leaves nothing behind.
"""
import signal
import socket
import subprocess

DIE_WITH_US = ("setpriv", "--pdeathsig", "KILL")
GRACE = 10                      # Seconds between SIGTERM and SIGKILL.


class CommandFailed(AssertionError):
    """A command's exit status was not 0; says what it printed."""


def inside(netns, argv):
    """'argv' as a command that runs in a network namespace (None: here)."""
    argv = [str(a) for a in argv]
    if netns is None:
        return argv
    return ["nsenter", "--net=/run/netns/" + netns, *argv]


def run(*argv, netns=None, check=True, timeout=60, **more):
    """The finished process; its output as text in .stdout and .stderr."""
    done = subprocess.run(inside(netns, argv), text=True, timeout=timeout,
                          capture_output=True, check=False, **more)
    if check and done.returncode:
        raise CommandFailed("%s: exit %d\n%s%s" % (
            " ".join(map(str, argv)), done.returncode, done.stdout,
            done.stderr))
    return done


def output(*argv, **more):
    """The standard output of a command."""
    return run(*argv, **more).stdout


def start(*argv, netns=None, **more):
    """A process of ours (subprocess.Popen); end it with stop() or kill().

    To be called by the main thread: the process ends with the thread."""
    return subprocess.Popen([*DIE_WITH_US, *inside(netns, argv)], **more)


def stop(process, signum=signal.SIGTERM, timeout=GRACE):
    """Ends a process and returns its exit status; None if there is none."""
    if process is None:
        return None
    if process.poll() is None:
        process.send_signal(signum)
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    return process.returncode


def accepts(path):
    """Whether something listens on a Unix socket.

    That the file exists says less: it is there before the listening is."""
    with socket.socket(socket.AF_UNIX) as sock:
        try:
            sock.connect(str(path))
        except OSError:
            return False
        return True


def kill(process):
    """kill -9."""
    return stop(process, signal.SIGKILL)
