/* SPDX-License-Identifier: Apache-2.0 */
/* What systemd is told, on a socket that stands for its own. */

#include "ofproxyd/base/sdnotify.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include <openvswitch/poll-loop.h>
#include <openvswitch/vlog.h>

#include <timeval.h>
#include <util.h>

#include "../support/tmpdir.h"

struct fixture {
    void *dir; /* tmpdir's. */
    char *path;
    int fd; /* systemd's side. */
};

static int
listen_at(const char *name, size_t len)
{
    struct sockaddr_un sun = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    memcpy(sun.sun_path, name, len);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *) &sun,
                          offsetof(struct sockaddr_un, sun_path) + len),
                     0);
    return fd;
}

static int
setup(void **state)
{
    struct fixture *f = xzalloc(sizeof *f);

    tmpdir_setup(&f->dir);
    f->path = xasprintf("%s/notify", (char *) f->dir);
    f->fd = listen_at(f->path, strlen(f->path));
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
    setenv("NOTIFY_SOCKET", f->path, 1);
    *state = f;
    return 0;
}

static int
teardown(void **state)
{
    struct fixture *f = *state;

    close(f->fd);
    tmpdir_teardown(&f->dir);
    free(f->path);
    free(f);
    return 0;
}

/* The next datagram, or "" if there is none. */
static const char *
heard(int fd, char buf[64])
{
    ssize_t n = recv(fd, buf, 63, 0);

    buf[MAX(n, 0)] = '\0';
    return buf;
}

static void
what_is_sent_arrives(void **state)
{
    struct fixture *f = *state;
    struct sdnotify *n = sdnotify_create();
    char buf[64];

    assert_null(getenv("NOTIFY_SOCKET"));
    sdnotify_send(n, "READY=1");
    sdnotify_run(n); /* No watchdog was asked for. */
    sdnotify_send(n, "STOPPING=1");
    assert_string_equal(heard(f->fd, buf), "READY=1");
    assert_string_equal(heard(f->fd, buf), "STOPPING=1");
    assert_string_equal(heard(f->fd, buf), "");
    sdnotify_destroy(n);
}

static void
a_sign_of_life_comes_twice_in_the_time_asked_for(void **state)
{
    struct fixture *f = *state;
    struct sdnotify *n;
    char *pid = xasprintf("%d", (int) getpid());
    char buf[64];

    setenv("WATCHDOG_USEC", "40000", 1);
    setenv("WATCHDOG_PID", pid, 1);
    n = sdnotify_create();
    sdnotify_run(n);
    assert_string_equal(heard(f->fd, buf), "WATCHDOG=1");
    for (int i = 0; i < 3; i++) {
        long long int start_ms = time_msec();

        while (heard(f->fd, buf)[0] == '\0') {
            sdnotify_run(n);
            sdnotify_wait(n);
            poll_block();
        }
        assert_string_equal(buf, "WATCHDOG=1");
        assert_true(time_msec() - start_ms >= 18);
    }
    sdnotify_destroy(n);
    free(pid);
}

static void
no_sign_of_life_for_others_or_for_nonsense(void **state)
{
    static const char *const cases[][2] = {
        { "40000", "1" },
        { "0", NULL },
        { "-5", NULL },
        { "often", NULL },
    };
    struct fixture *f = *state;
    char buf[64];

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct sdnotify *n;

        setenv("NOTIFY_SOCKET", f->path, 1);
        setenv("WATCHDOG_USEC", cases[i][0], 1);
        if (cases[i][1]) {
            setenv("WATCHDOG_PID", cases[i][1], 1);
        } else {
            unsetenv("WATCHDOG_PID");
        }
        n = sdnotify_create();
        sdnotify_run(n);
        assert_string_equal(heard(f->fd, buf), "");
        sdnotify_destroy(n);
    }
}

static void
an_abstract_socket_is_found(void **state OVS_UNUSED)
{
    char *name = xasprintf("@ofproxyd-test-%d", (int) getpid());
    struct sdnotify *n;
    char buf[64];
    int fd;

    setenv("NOTIFY_SOCKET", name, 1);
    name[0] = '\0';
    fd = listen_at(name, 1 + strlen(name + 1));
    n = sdnotify_create();
    sdnotify_send(n, "READY=1");
    assert_string_equal(heard(fd, buf), "READY=1");
    sdnotify_destroy(n);
    close(fd);
    free(name);
}

static void
nothing_happens_without_systemd(void **state)
{
    static const char *const names[] = { "", "relative", "vsock:2:1234",
                                         "/no/such/socket", NULL };
    struct fixture *f = *state;
    char *longer = xmalloc(300);
    char buf[64];

    memset(longer, '/', 299);
    longer[299] = '\0';
    for (size_t i = 0; i <= ARRAY_SIZE(names); i++) {
        const char *name = i < ARRAY_SIZE(names) ? names[i] : longer;
        struct sdnotify *n;

        if (name) {
            setenv("NOTIFY_SOCKET", name, 1);
        } else {
            unsetenv("NOTIFY_SOCKET");
        }
        setenv("WATCHDOG_USEC", "1000", 1);
        unsetenv("WATCHDOG_PID");
        n = sdnotify_create();
        sdnotify_send(n, "READY=1");
        sdnotify_run(n);
        sdnotify_destroy(n);
    }
    assert_string_equal(heard(f->fd, buf), "");
    free(longer);
}

static void
a_socket_that_is_full_or_gone_stops_nobody(void **state)
{
    struct fixture *f = *state;
    struct sdnotify *n = sdnotify_create();
    char buf[64];

    for (int i = 0; i < 10000; i++) {
        sdnotify_send(n, "WATCHDOG=1");
    }
    assert_string_equal(heard(f->fd, buf), "WATCHDOG=1");
    close(f->fd);
    f->fd = -1;
    sdnotify_send(n, "STOPPING=1");
    sdnotify_destroy(n);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_sent_arrives, setup, teardown),
        cmocka_unit_test_setup_teardown(
            a_sign_of_life_comes_twice_in_the_time_asked_for, setup, teardown),
        cmocka_unit_test_setup_teardown(
            no_sign_of_life_for_others_or_for_nonsense, setup, teardown),
        cmocka_unit_test_setup_teardown(an_abstract_socket_is_found, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(nothing_happens_without_systemd, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(
            a_socket_that_is_full_or_gone_stops_nobody, setup, teardown),
    };

    vlog_set_levels(NULL, VLF_ANY_DESTINATION, VLL_OFF);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
