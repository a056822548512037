/* SPDX-License-Identifier: Apache-2.0 */
/* To be preloaded: a system call that ofproxyd's filter would refuse is told
 * on standard error and ends the process.  Tests are to find calls that are
 * missing from the list, which libraries otherwise put up with in silence. */

#define _GNU_SOURCE 1

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Of seccomp.h, which names the parameter types otherwise. */
#define ACT_TRAP         0x00030000u
#define ACT_ERRNO(ERROR) (0x00050000u | (ERROR))

void *seccomp_init(uint32_t action);
int seccomp_load(void *filter);
int seccomp_syscall_resolve_name(const char *name);
int seccomp_rule_add_array(void *filter, uint32_t action, int call,
                           unsigned int n, const void *conditions);

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

/* These stand before libseccomp's. */

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

/* clone3 is meant to be tried in vain. */
int
seccomp_load(void *filter)
{
    int (*real)(void *);
    void *found = dlsym(RTLD_NEXT, "seccomp_load");
    int error = seccomp_rule_add_array(filter, ACT_ERRNO(ENOSYS),
                                       seccomp_syscall_resolve_name("clone3"),
                                       0, NULL);

    memcpy(&real, &found, sizeof real);
    return error ? error : real(filter);
}
