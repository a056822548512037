/* SPDX-License-Identifier: Apache-2.0 */
/* What is due when a daemon ends is due for the next one; and what very many
 * jobs cost.
 *
 * An endpoint is a letter: 'a' is 10.1.1.97:8080.  Cluster IP 'n' is
 * 10.96.0.n.  A request is written "n" of all connections to it, or "n<a", of
 * those to one endpoint; what is untranslated is left out. */

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include <util.h>

#include "../../src/agent/stale-private.h"
#include "../support/flowtabfix.h"

struct fixture {
    struct flowtab *ft;
    struct stale *st;
    enum proto proto;
    long long int now_ms;
    char *path;
};

static int
setup(void **state)
{
    struct fixture *f = xzalloc(sizeof *f);

    f->ft = ft_ready();
    f->path = xasprintf("/tmp/test-stale-file.%d", (int) getpid());
    f->st = stale_create(f->ft, f->path);
    f->proto = PROTO_UDP;
    stale_adopt(f->st); /* Of an empty switch. */
    *state = f;
    return 0;
}

static int
teardown(void **state)
{
    struct fixture *f = *state;

    stale_destroy(f->st);
    flowtab_destroy(f->ft);
    unlink(f->path);
    free(f->path);
    free(f);
    return 0;
}

/* Service port 'n' is at cluster IP 'n' and has endpoints. */
static void
say(struct fixture *f, unsigned int n, const char *letters)
{
    struct pipe_frontend frontend = { .kind = PIPE_CLUSTER_IP,
                                      .ip = ip_from_v4(htonl(0x0a600000 + n)),
                                      .port = 53 };
    struct eps eps[8] = { { .port = 0 } };
    struct eps_list list = { .eps = eps, .n = strlen(letters) };
    struct eps_choice choice = { .cluster = list };

    assert_true(list.n <= ARRAY_SIZE(eps));
    for (size_t i = 0; i < list.n; i++) {
        eps[i].ip = ip_from_v4(htonl(0x0a010100 + letters[i]));
        eps[i].port = 8080;
    }
    stale_update(f->st, &(struct stale_port){
                            .owner = cookie_make(COOKIE_SERVICE, n),
                            .family = IP_V4,
                            .proto = f->proto,
                            .frontends = &frontend,
                            .n_frontends = 1,
                            .alive = &list,
                            .choice = &choice,
                        });
}

static void
remove_port(struct fixture *f, unsigned int n)
{
    stale_remove(f->st, cookie_make(COOKIE_SERVICE, n));
}

/* Ends the daemon; the next is to be told of all ports, and to adopt.  The
 * switch has nothing of before. */
static void
hand_over(struct fixture *f)
{
    stale_save(f->st);
    stale_destroy(f->st);
    f->st = stale_create(f->ft, f->path);
    stale_done(f->st, 0, 0);
}

/* Ends when the first requests are taken, which are 'expected'. */
static void
expect_begun(struct fixture *f, const char *expected)
{
    struct ofconn_ct_flush r[OFCONN_CT_MAX];
    struct ds ds = DS_EMPTY_INITIALIZER;
    size_t n;

    stale_take(f->st, f->now_ms, r, OFCONN_CT_MAX);
    f->now_ms += STALE_GRACE_MS;
    n = stale_take(f->st, f->now_ms, r, OFCONN_CT_MAX);
    for (size_t i = 0; i < n; i++) {
        struct ip dst = { r[i].dst }, src = { r[i].src };

        if (ip_is_none(&dst) || ip_equals(&src, &dst)) {
            continue;
        }
        assert_int_equal(r[i].proto, proto_number(f->proto));
        ds_put_format(&ds, "%s%u", ds.length ? " " : "",
                      ntohl(ip_v4(&dst)) & 0xff);
        if (!ip_is_none(&src)) {
            ds_put_format(&ds, "<%c", ntohl(ip_v4(&src)) & 0xff);
        }
    }
    assert_string_equal(ds_cstr(&ds), expected);
    ds_destroy(&ds);
}

/* Goes on until so many jobs are left. */
static void
drain_to(struct fixture *f, size_t n)
{
    struct ofconn_ct_flush r[OFCONN_CT_MAX];
    struct stale_stats stats;

    do {
        if (stale_take(f->st, f->now_ms, r, OFCONN_CT_MAX)) {
            stale_done(f->st, f->now_ms, 0);
        }
        stale_save(f->st);
        f->now_ms++;
        stale_get_stats(f->st, &stats);
    } while (stats.n_active + stats.n_waiting > n);
}

static void
drain(struct fixture *f)
{
    drain_to(f, 0);
    stale_save(f->st);
}

static void
put_file(const struct fixture *f, const char *text)
{
    FILE *file = fopen(f->path, "w");

    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void
expect_no_file(const struct fixture *f)
{
    assert_int_equal(access(f->path, F_OK), -1);
}

static void
check_hand_over(struct fixture *f)
{
    say(f, 1, "abc");
    say(f, 2, "a");
    drain(f);
    expect_no_file(f);
    say(f, 1, "ac");
    remove_port(f, 2);
    for (int i = 0; i < 3; i++) {
        hand_over(f); /* Before the first pass, in it, and in it again. */
        say(f, 1, "acd");
        stale_adopt(f->st);
        expect_begun(f, "2 1<b");
    }
    hand_over(f);
    say(f, 1, "bcd"); /* One is back. */
    stale_adopt(f->st);
    expect_begun(f, "2");
    drain(f);
    expect_no_file(f);
}

static void
what_was_due_at_the_end_is_due_for_the_next(void **state)
{
    check_hand_over(*state);
}

static void
of_sctp_as_well(void **state)
{
    struct fixture *f = *state;

    f->proto = PROTO_SCTP;
    check_hand_over(f);
}

/* The directory may be another user's. */
static void
a_link_in_its_place_is_not_followed(void **state)
{
    struct fixture *f = *state;
    char *new = xasprintf("%s~", f->path);
    char *victim = xasprintf("%s.victim", f->path);
    struct stat st;

    assert_int_equal(close(creat(victim, 0600)), 0);
    assert_int_equal(truncate(victim, 7), 0);
    assert_int_equal(symlink(victim, new), 0);
    assert_int_equal(symlink(victim, f->path), 0);
    say(f, 1, "ab");
    drain(f);
    say(f, 1, "");
    stale_save(f->st);
    assert_int_equal(stat(victim, &st), 0);
    assert_int_equal(st.st_size, 7);
    assert_int_equal(lstat(f->path, &st), 0);
    assert_true(S_ISREG(st.st_mode));
    unlink(victim);
    free(victim);
    free(new);
}

static void
a_pipe_in_its_place_is_not_waited_for(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(mkfifo(f->path, 0600), 0);
    hand_over(f);
    say(f, 1, "a");
    stale_adopt(f->st);
    drain(f);
    expect_no_file(f);
}

/* An address that is living again: the file is only a hint. */
static void
an_old_file_does_no_harm(void **state)
{
    struct fixture *f = *state;

    say(f, 1, "ab");
    drain(f);
    say(f, 1, "");
    hand_over(f);
    say(f, 1, "ab");
    stale_adopt(f->st);
    expect_begun(f, "");
    drain(f);
    expect_no_file(f);
}

static void
nothing_is_written_before_the_file_was_read(void **state)
{
    struct fixture *f = *state;

    say(f, 1, "ab");
    drain(f);
    say(f, 1, "a");
    hand_over(f);
    say(f, 2, "c");
    say(f, 2, "d");
    hand_over(f);
    say(f, 1, "a");
    stale_adopt(f->st);
    expect_begun(f, "1<b");
}

/* Or thousands of jobs would be written thousands of times. */
static void
the_end_of_one_job_of_several_is_not_written(void **state)
{
    struct fixture *f = *state;
    struct ofconn_ct_flush r;
    FILE *file;

    say(f, 1, "ab");
    say(f, 2, "ab");
    drain(f);
    say(f, 1, "a");
    stale_save(f->st);
    assert_int_equal(stale_take(f->st, f->now_ms, &r, 1), 0); /* Begins. */
    f->now_ms += STALE_SPREAD_MS / 2;
    say(f, 2, "a");
    stale_save(f->st);
    put_file(f, "as it was");
    drain_to(f, 1);
    file = fopen(f->path, "r");
    assert_non_null(file);
    assert_int_equal(fgetc(file), 'a');
    fclose(file);
    drain_to(f, 0);
    expect_no_file(f);
}

/* But the last ones, which are cheap together. */
static void
thousands_of_jobs_have_few_passes(void **state)
{
    struct ofconn_ct_flush r[OFCONN_CT_MAX];
    struct fixture *f = *state;
    const unsigned int n_ports = 3000;
    struct stale_stats stats, before;

    for (unsigned int i = 1; i <= n_ports; i++) {
        say(f, i, "ab");
    }
    drain(f);
    stale_get_stats(f->st, &before);
    for (unsigned int i = 1; i <= n_ports; i++) {
        say(f, i, "a");
    }
    do {
        size_t n = stale_take(f->st, f->now_ms, r, OFCONN_CT_MAX);

        if (n) {
            stale_done(f->st, f->now_ms, n * 20);
        }
        f->now_ms++;
        stale_get_stats(f->st, &stats);
    } while (stats.n_active || stats.n_waiting);
    assert_in_range(stats.n_requests - before.n_requests, 2 * n_ports,
                    10 * n_ports);
}

static void
a_wrong_file_is_not_believed(void **state)
{
#define MAGIC "ofproxyd stale connections 1\n"
    static const char *const texts[] = {
        "",
        "ofproxyd stale connections 2\njob 1 0 1\nat 10.96.0.1 53\n",
        MAGIC "at 10.96.0.1 53\nto 10.1.1.98 8080\n",
        MAGIC "job 1 2 1\nat 10.96.0.1 53\nto 10.1.1.98 8080\n",
        MAGIC "job 1 0 0\nat 10.96.0.1 53\nto 10.1.1.98 8080\n",
        MAGIC "job 1 0 3\nat 10.96.0.1 53\nto 10.1.1.98 8080\n",
        MAGIC "job 1 0 1\nat 10.96.0.1 65536\nto 10.1.1.98 8080\n",
        MAGIC "job 1 0 1\nat 10.96.0.1 53\nto 10.1.1.97 8080\n",
        MAGIC "job 1 0 1\nat 10.96.0.1 53\nto 2001:db8::1 80\nto x\nto",
        MAGIC "job 1 1 1\nat 10.96.0.9 53\nto 10.1.1.98 8080\n",
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        hand_over(f);
        put_file(f, texts[i]);
        say(f, 1, "a");
        stale_adopt(f->st);
        expect_begun(f, "");
        drain(f);
        expect_no_file(f);
    }
}

int
main(void)
{
#define TEST(FUNC) cmocka_unit_test_setup_teardown(FUNC, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(what_was_due_at_the_end_is_due_for_the_next),
        TEST(of_sctp_as_well),
        TEST(an_old_file_does_no_harm),
        TEST(a_link_in_its_place_is_not_followed),
        TEST(a_pipe_in_its_place_is_not_waited_for),
        TEST(nothing_is_written_before_the_file_was_read),
        TEST(the_end_of_one_job_of_several_is_not_written),
        TEST(thousands_of_jobs_have_few_passes),
        TEST(a_wrong_file_is_not_believed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
