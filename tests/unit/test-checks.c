/* SPDX-License-Identifier: Apache-2.0 */
/* Health-check node ports on real sockets of the loopback: where they listen,
 * and what becomes of a port that is in use. */

#include "../../src/serve/checks.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include <arpa/inet.h>

#include <cmocka.h>

#include <openvswitch/poll-loop.h>

#include <timeval.h>
#include <util.h>

#define A    UINT32_C(0x7f000001)
#define B    UINT32_C(0x7f000002)
#define C    UINT32_C(0x7f000003)
#define NONE 0

struct fixture {
    struct httpd *httpd;
    struct checks *checks;
    uint16_t port; /* Free when the test began, as far as can be told. */
    int n_failed;
};

static void
get_health(const void *aux, struct health_state *ret)
{
    struct health health = { 0 };

    (void) aux;
    health_get_state(&health, 1, 1, ret);
}

static void
failed(void *fixture_, const struct health_check *c, const char *why)
{
    struct fixture *f = fixture_;

    assert_string_equal(c->name, "svc-a");
    assert_non_null(strstr(why, "Address already in use"));
    f->n_failed++;
}

static struct ip
address(uint32_t a)
{
    return ip_from_v4(htonl(a));
}

/* Returns a socket that is bound to, or connected with, an address. */
static int
open_socket(uint32_t a, uint16_t port, bool server)
{
    struct sockaddr_in sin = {
        .sin_family = AF_INET,
        .sin_port = htons(port),
        .sin_addr.s_addr = htonl(a),
    };
    const struct sockaddr *sa = (const struct sockaddr *) &sin;
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert_true(fd >= 0);
    if (server ? bind(fd, sa, sizeof sin) || listen(fd, 1)
               : connect(fd, sa, sizeof sin)) {
        close(fd);
        return -1;
    }
    return fd;
}

static int
setup(void **state)
{
    struct fixture *f = xzalloc(sizeof *f);
    struct sockaddr_in sin;
    socklen_t n = sizeof sin;
    struct err err;
    int fd;

    f->httpd = httpd_create(&err);
    assert_non_null(f->httpd);
    f->checks = checks_create(&(struct checks_cfg){
        .httpd = f->httpd,
        .aux = f,
        .get_health = get_health,
        .failed = failed,
    });
    fd = open_socket(A, 0, true);
    assert_int_equal(getsockname(fd, (struct sockaddr *) &sin, &n), 0);
    close(fd);
    f->port = ntohs(sin.sin_port);
    *state = f;
    return 0;
}

static int
teardown(void **state)
{
    struct fixture *f = *state;

    checks_destroy(f->checks);
    httpd_destroy(f->httpd);
    free(f);
    return 0;
}

static void
set_addresses(struct fixture *f, uint32_t a, uint32_t b)
{
    const struct ip ips[] = { address(a), address(b) };

    checks_set_addresses(f->checks, false, ips, (a != NONE) + (b != NONE));
    checks_run(f->checks);
}

static void
set_check(struct fixture *f, uint16_t port, size_t n_local)
{
    checks_set(f->checks, &(struct health_check){
                              .ns = "ns1",
                              .name = "svc-a",
                              .family = IP_V4,
                              .port = port,
                              .n_local = n_local,
                          });
    checks_run(f->checks);
}

static bool
listens(const struct fixture *f, uint32_t a)
{
    int fd = open_socket(a, f->port, false);

    if (fd >= 0) {
        close(fd);
    }
    return fd >= 0;
}

static void
assert_listens(const struct fixture *f, bool a, bool b, bool c)
{
    assert_int_equal(listens(f, A), a);
    assert_int_equal(listens(f, B), b);
    assert_int_equal(listens(f, C), c);
}

/* Turns of the loop until the answer has come, or for 5 s. */
static void
assert_answer(struct fixture *f, int fd, const char *want)
{
    long long int end_ms = time_msec() + 5000;
    char buf[2048];
    ssize_t n;

    while ((n = recv(fd, buf, sizeof buf - 1, MSG_DONTWAIT)) < 0) {
        assert_true(errno == EAGAIN && time_msec() < end_ms);
        httpd_run(f->httpd);
        httpd_wait(f->httpd);
        poll_fd_wait(fd, POLLIN);
        poll_timer_wait_until(end_ms);
        poll_block();
    }
    buf[n] = '\0';
    if (!strstr(buf, want)) {
        fail_msg("no \"%s\" in \"%s\"", want, buf);
    }
}

static void
ask(int fd)
{
    const char *text = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";

    assert_int_equal(send(fd, text, strlen(text), 0), strlen(text));
}

static void
g4_they_listen_where_node_ports_are_served(void **state)
{
    struct fixture *f = *state;

    set_check(f, f->port, 0);
    assert_listens(f, false, false, false);
    set_addresses(f, A, B);
    assert_listens(f, true, true, false);
    checks_set_addresses(f->checks, true, NULL, 0);
    checks_run(f->checks);
    assert_listens(f, true, true, true);
    set_addresses(f, NONE, NONE);
    assert_listens(f, false, false, false);
}

static void
p4_an_address_that_goes_takes_only_its_own_along(void **state)
{
    struct fixture *f = *state;
    int a, b;

    set_addresses(f, A, B);
    set_check(f, f->port, 2);
    a = open_socket(A, f->port, false);
    b = open_socket(B, f->port, false);
    ask(a);
    assert_answer(f, a, "X-Load-Balancing-Endpoint-Weight: 2\r\n");
    ask(b);
    assert_answer(f, b, "HTTP/1.1 200 OK\r\n");

    set_addresses(f, B, C);
    assert_listens(f, false, true, true);
    assert_answer(f, a, ""); /* The end. */
    set_check(f, f->port, 0);
    ask(b);
    assert_answer(f, b, "HTTP/1.1 503 ");
    close(a);
    close(b);
}

static void
p4_a_port_in_use_is_said_once_and_tried_again(void **state)
{
    struct fixture *f = *state;
    long long int end_ms = time_msec() + 20000;
    int taken = open_socket(A, f->port, true);
    size_t n_open, n_failing;

    assert_true(taken >= 0);
    set_addresses(f, A, B);
    set_check(f, f->port, 1);
    checks_run(f->checks);
    checks_count(f->checks, &n_open, &n_failing);
    assert_int_equal(n_open, 1);
    assert_int_equal(n_failing, 1);
    close(taken);
    while (n_failing) {
        assert_true(time_msec() < end_ms);
        checks_wait(f->checks);
        poll_block();
        checks_run(f->checks);
        checks_count(f->checks, &n_open, &n_failing);
    }
    assert_int_equal(f->n_failed, 1);
    assert_listens(f, true, true, false);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            g4_they_listen_where_node_ports_are_served, setup, teardown),
        cmocka_unit_test_setup_teardown(
            p4_an_address_that_goes_takes_only_its_own_along, setup, teardown),
        cmocka_unit_test_setup_teardown(
            p4_a_port_in_use_is_said_once_and_tried_again, setup, teardown),
    };

    return cmocka_run_group_tests_name("checks", tests, NULL, NULL);
}
