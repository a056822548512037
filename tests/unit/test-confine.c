/* SPDX-License-Identifier: Apache-2.0 */
/* base/confine: which system calls are refused, which are not, and that the
 * list makes sense on other architectures. */

#include "ofproxyd/base/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <netdb.h>
#include <seccomp.h>

#include <util.h>

/* Exit status of a child in which all was as it should be. */
#define FINE 42

/* valgrind makes calls of its own. */
static bool
under_valgrind(void)
{
    const char *preload = getenv("LD_PRELOAD");

    return preload && strstr(preload, "vgpreload");
}

/* Fails unless 'body' returns true in a confined child. */
static void
assert_in_confinement(bool (*body)(void))
{
    int status;
    pid_t pid;

    if (under_valgrind()) {
        skip();
    }
    pid = fork();
    if (!pid) {
        struct err err;

        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || confine_calls(&err)) {
            _exit(EXIT_FAILURE);
        }
        _exit(body() ? FINE : EXIT_FAILURE);
    }
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), FINE);
}

/* Calls. */

struct attempt {
    const char *what;
    long int number;
    long int args[6];
};

/* True if the call is refused by the filter, rather than by what it is called
 * with. */
static bool
is_refused(const struct attempt *a)
{
    const long int *args = a->args;
    long int rc;

    errno = 0;
    rc = syscall(a->number, args[0], args[1], args[2], args[3], args[4],
                 args[5]);
    if (rc == -1 && errno == ENOSYS) {
        return true;
    }
    fprintf(stderr, "%s: %ld, errno %d\n", a->what, rc, errno);
    return false;
}

static bool
are_forbidden_calls_refused(void)
{
    const int rwx = PROT_READ | PROT_WRITE | PROT_EXEC;
    const struct attempt attempts[] = {
        { "execve", SYS_execve, { 0 } },
        { "execveat", SYS_execveat, { 0 } },
        { "ptrace", SYS_ptrace, { PTRACE_TRACEME } },
        { "process_vm_readv", SYS_process_vm_readv, { 0 } },
        { "process_vm_writev", SYS_process_vm_writev, { 0 } },
        { "mount", SYS_mount, { 0 } },
        { "umount2", SYS_umount2, { 0 } },
        { "pivot_root", SYS_pivot_root, { 0 } },
        { "chroot", SYS_chroot, { 0 } },
        { "setns", SYS_setns, { -1 } },
        { "unshare", SYS_unshare, { 0 } },
        { "bpf", SYS_bpf, { -1 } },
        { "perf_event_open", SYS_perf_event_open, { 0 } },
        { "init_module", SYS_init_module, { 0 } },
        { "finit_module", SYS_finit_module, { -1 } },
        { "delete_module", SYS_delete_module, { 0 } },
        { "kexec_load", SYS_kexec_load, { 0 } },
        { "reboot", SYS_reboot, { 0 } },
        { "io_uring_setup", SYS_io_uring_setup, { 0 } },
        { "userfaultfd", SYS_userfaultfd, { 0 } },
        { "keyctl", SYS_keyctl, { -1 } },
        { "setuid", SYS_setuid, { getuid() } },
        { "capset", SYS_capset, { 0 } },
        { "sethostname", SYS_sethostname, { 0 } },
        { "fchownat", SYS_fchownat, { -1 } },
        { "linkat", SYS_linkat, { -1 } },
        { "symlinkat", SYS_symlinkat, { 0 } },
        { "mkdirat", SYS_mkdirat, { -1 } },
        { "mknodat", SYS_mknodat, { -1 } },
        { "kill", SYS_kill, { getppid(), 0 } },
        { "tgkill", SYS_tgkill, { getppid(), getppid(), 0 } },
        { "clone (fork)", SYS_clone, { SIGCHLD } },
        { "clone (namespace)", SYS_clone, { CLONE_NEWUSER | SIGCHLD } },
        { "clone3", SYS_clone3, { 0 } },
        { "socket (packet)", SYS_socket, { AF_PACKET, SOCK_RAW, 0 } },
        { "socket (vsock)", SYS_socket, { AF_VSOCK, SOCK_STREAM, 0 } },
        { "socket (alg)", SYS_socket, { AF_ALG, SOCK_SEQPACKET, 0 } },
        { "mmap (wx)",
          SYS_mmap,
          { 0, 4096, rwx, MAP_PRIVATE | MAP_ANONYMOUS, -1 } },
        { "mprotect (x)", SYS_mprotect, { 0, 0, PROT_EXEC } },
        { "prctl", SYS_prctl, { PR_SET_DUMPABLE, 1 } },
        { "ioctl (TIOCSTI)", SYS_ioctl, { 0, 0x5412 } },
    };
    bool all = true;

    for (size_t i = 0; i < ARRAY_SIZE(attempts); i++) {
        all = is_refused(&attempts[i]) && all;
    }
    return all;
}

static bool
is_new_limit_refused(void)
{
    struct rlimit limit = { 1000, 1000 };

    return !getrlimit(RLIMIT_NOFILE, &limit)
           && setrlimit(RLIMIT_NOFILE, &limit) && errno == ENOSYS;
}

static void *
in_thread(void *ok)
{
    *(bool *) ok = are_forbidden_calls_refused();
    return NULL;
}

static bool
does_a_thread_work_and_is_confined(void)
{
    pthread_t thread;
    bool ok = false;

    return !pthread_create(&thread, NULL, in_thread, &ok)
           && !pthread_join(thread, NULL) && ok;
}

/* A name makes the C library do a lot. */
static bool
does_a_look_up_work(void)
{
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
    struct addrinfo *found = NULL;
    bool ok = !getaddrinfo("localhost", "443", &hints, &found) && found;

    if (found) {
        freeaddrinfo(found);
    }
    return ok;
}

static void
forbidden_calls_are_refused(void **state)
{
    (void) state;
    assert_in_confinement(are_forbidden_calls_refused);
    assert_in_confinement(is_new_limit_refused);
}

static void
threads_work_and_are_confined(void **state)
{
    (void) state;
    assert_in_confinement(does_a_thread_work_and_is_confined);
}

static void
names_are_looked_up(void **state)
{
    (void) state;
    assert_in_confinement(does_a_look_up_work);
}

static void
an_abort_is_none_of_the_filters_business(void **state)
{
    struct err err;
    int status;
    pid_t pid;

    (void) state;
    if (under_valgrind()) {
        skip();
    }
    pid = fork();
    if (!pid) {
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || confine_calls(&err)) {
            _exit(EXIT_FAILURE);
        }
        signal(SIGABRT, SIG_DFL);
        abort();
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
}

/* Other architectures. */

/* What only older ones have, and what the others have instead. */
static const char *const replaced[][2] = {
    { "open", "openat" },
    { "stat", "newfstatat" },
    { "access", "faccessat" },
    { "readlink", "readlinkat" },
    { "rename", "renameat" },
    { "unlink", "unlinkat" },
    { "poll", "ppoll" },
    { "select", "pselect6" },
    { "epoll_wait", "epoll_pwait" },
    { "time", "clock_gettime" },
};

static bool
is_listed(const char *name)
{
    static const char *const names[] = {
#define CALL(NAME)                 #NAME,
#define IF(NAME, ARG, MASK, VALUE) #NAME,
#include "ofproxyd/base/calls.def"
#undef CALL
#undef IF
    };

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        if (!strcmp(names[i], name)) {
            return true;
        }
    }
    return false;
}

static void
a_call_that_arm64_lacks_has_its_successor_listed(void **state)
{
    (void) state;
    for (size_t i = 0; i < ARRAY_SIZE(replaced); i++) {
        int number = seccomp_syscall_resolve_name_arch(SCMP_ARCH_AARCH64,
                                                       replaced[i][1]);

        assert_true(number >= 0);
        assert_true(is_listed(replaced[i][0]));
        assert_true(is_listed(replaced[i][1]));
    }
}

static void
names_are_known(void **state)
{
    (void) state;
#define CALL(NAME) \
    assert_int_not_equal(seccomp_syscall_resolve_name(#NAME), __NR_SCMP_ERROR);
#define IF(NAME, ARG, MASK, VALUE) CALL(NAME)
#include "ofproxyd/base/calls.def"
#undef CALL
#undef IF
}

/* A filter is an array of 8 bytes each, of 4096 at most. */
static void
the_filter_can_be_made_for_arm64(void **state)
{
    int fd = memfd_create("filter", MFD_CLOEXEC);
    off_t size;

    (void) state;
    assert_true(fd >= 0);
    assert_int_equal(confine_export(SCMP_ARCH_AARCH64, fd), 0);
    size = lseek(fd, 0, SEEK_END);
    assert_true(size > 50 * 8 && size < 4096 * 8);
    close(fd);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forbidden_calls_are_refused),
        cmocka_unit_test(threads_work_and_are_confined),
        cmocka_unit_test(names_are_looked_up),
        cmocka_unit_test(an_abort_is_none_of_the_filters_business),
        cmocka_unit_test(a_call_that_arm64_lacks_has_its_successor_listed),
        cmocka_unit_test(names_are_known),
        cmocka_unit_test(the_filter_can_be_made_for_arm64),
    };

    return cmocka_run_group_tests_name("confine", tests, NULL, NULL);
}
