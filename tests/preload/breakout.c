/* SPDX-License-Identifier: Apache-2.0 */
/* To be preloaded: what somebody would try who has got hold of the daemon.  It
 * is tried when the daemon makes its signalfd, which is after it has confined
 * itself and before it has threads; a line for each goes to standard error,
 * "WHAT: refused" or "WHAT: ERRNO", 0 if it was done. */

#define _GNU_SOURCE 1

#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static void
tell(const char *what, int rc)
{
    if (rc < 0 && errno == ENOSYS) {
        fprintf(stderr, "%s: refused\n", what);
    } else {
        fprintf(stderr, "%s: %d\n", what, rc < 0 ? errno : 0);
    }
}

static void
try_fork(void)
{
    pid_t pid = fork();

    if (!pid) {
        _exit(EXIT_SUCCESS);
    }
    tell("fork", pid);
    if (pid > 0) {
        waitpid(pid, NULL, 0);
    }
}

int
signalfd(int fd, const sigset_t *mask, int flags)
{
    char *const argv[] = { NULL };
    int (*real)(int, const sigset_t *, int);
    void *found = dlsym(RTLD_NEXT, "signalfd");

    try_fork();
    tell("execve", execve("/nonexistent", argv, argv));
    tell("mount", mount("none", "/nonexistent", "tmpfs", 0, ""));
    tell("unshare", unshare(CLONE_NEWNS));
    tell("ptrace", (int) ptrace(PTRACE_TRACEME, 0, NULL, NULL));
    tell("packet socket", socket(AF_PACKET, SOCK_RAW, 0));
    tell("kill", kill(getppid(), 0));
    memcpy(&real, &found, sizeof real);
    return real(fd, mask, flags);
}
