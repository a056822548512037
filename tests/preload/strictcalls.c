/* SPDX-License-Identifier: Apache-2.0 */
/* To be preloaded: a system call that ofproxyd's filter would refuse is told
 * on standard error and ends the process.  Tests are to find calls that are
 * missing from the list, which libraries otherwise put up with in silence. */

#define _GNU_SOURCE 1

#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* SCMP_ACT_TRAP of seccomp.h, which names the parameter types otherwise. */
#define ACT_TRAP 0x00030000u

void *seccomp_init(uint32_t action);

static void
tell(int number, siginfo_t *info, void *context)
{
    char line[80];
    int n = snprintf(line, sizeof line, "system call %d is not in calls.def\n",
                     info->si_syscall);

    (void) number;
    (void) context;
    if (write(STDERR_FILENO, line, n) == n) {
        abort();
    }
    _exit(EXIT_FAILURE);
}

/* Stands before libseccomp's. */
void *
seccomp_init(uint32_t action)
{
    struct sigaction sa = { .sa_flags = SA_SIGINFO, .sa_sigaction = tell };
    void *(*real)(uint32_t);
    void *found = dlsym(RTLD_NEXT, "seccomp_init");

    (void) action;
    memcpy(&real, &found, sizeof real);
    sigaction(SIGSYS, &sa, NULL);
    return real(ACT_TRAP);
}
