/* SPDX-License-Identifier: Apache-2.0 */
/* How often the switch is asked to forget a connection, and over how long a
 * time. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <util.h>

#include "../support/stalefix.h"

static void
passes_come_at_once_and_over_a_second(void **state)
{
    struct ofconn_ct_flush requests[OFCONN_CT_MAX];
    struct stalefix *f = *state;
    long long int start_ms, last_ms = 0;
    unsigned int n_at_once = 0, n;

    sf_say(f, 1, AT(1, 0), "ab", "ab");
    sf_drain(f);
    start_ms = f->now_ms;
    sf_say(f, 1, AT(1, 0), "a", "a");
    while (sf_take(f, requests)) {
        n_at_once++;
    }
    assert_int_equal(n_at_once, 8);
    for (n = n_at_once; !sf_is_idle(f); f->now_ms = stale_next_ms(f->st)) {
        last_ms = f->now_ms;
        n += sf_take(f, requests);
    }
    assert_int_equal(n, 16);
    assert_int_equal(last_ms, start_ms + STALE_GRACE_MS + STALE_SPREAD_MS);
}

/* One of 1000 endpoints stays.  The switch has 'n_others' connections, and
 * 'n_each' to each of those that go. */
static size_t
run_costly(struct stalefix *f, size_t n_each, size_t n_others)
{
    struct ofconn_ct_flush requests[OFCONN_CT_MAX];
    struct eps_list all = sf_range(1, 1000), one = sf_range(1, 1);
    long long int busy_us = 0, start_ms;
    size_t n_requests = 0;

    sf_say_lists(f, 1, AT(1, 0), &all, &all);
    sf_drain(f);
    sf_say_lists(f, 1, AT(1, 0), &one, &one);
    start_ms = f->now_ms;
    for (;;) {
        size_t n = stale_take(f->st, f->now_ms, requests, OFCONN_CT_MAX);
        long long int elapsed_us = 0;

        if (!n && sf_is_idle(f)) {
            break;
        } else if (!n) {
            f->now_ms = MAX(f->now_ms + 1, stale_next_ms(f->st));
            continue;
        }
        for (size_t i = 0; i < n; i++) {
            size_t n_gone = MIN(n_requests, 999);

            n_requests++;
            elapsed_us += 10 + ((999 - n_gone) * n_each + n_others) * 35 / 100;
        }
        busy_us += elapsed_us;
        f->now_ms += elapsed_us / 1000;
        stale_done(f->st, f->now_ms, elapsed_us);
        if (n_requests > 1000) {
            assert_true(n <= 1 + 10000 * n / elapsed_us);
        }
    }
    assert_true(busy_us / 1000 * 37 / 10 < f->now_ms - start_ms);
    free(all.eps);
    free(one.eps);
    return n_requests;
}

static void
the_switch_is_busy_for_a_quarter_of_the_time_at_most(void **state)
{
    assert_int_equal(run_costly(*state, 0, 100000), 2 * 999);
}

/* One of two endpoints stays, and the first pass comes late.  Passes take as
 * long as 'costs_ms' says, the last one of them for ever.  Returns how many
 * there are. */
static size_t
run_late(struct stalefix *f, const int *costs_ms, size_t n_costs)
{
    struct ofconn_ct_flush requests[OFCONN_CT_MAX];
    size_t n = 0;

    sf_say(f, 1, AT(1, 0), "ab", "ab");
    sf_drain(f);
    sf_say(f, 1, AT(1, 0), "a", "a");
    stale_take(f->st, f->now_ms, requests, OFCONN_CT_MAX);
    f->now_ms += 2 * STALE_SPREAD_MS;
    do {
        if (stale_take(f->st, f->now_ms, requests, OFCONN_CT_MAX)) {
            stale_done(f->st, f->now_ms, 1000 * costs_ms[MIN(n, n_costs - 1)]);
            n++;
        }
        f->now_ms += STALE_SPREAD_MS;
    } while (!sf_is_idle(f));
    return n;
}

static void
a_first_pass_that_comes_late_is_not_the_last(void **state)
{
    static const int costs_ms[] = { 1000 };

    assert_int_equal(run_late(*state, costs_ms, ARRAY_SIZE(costs_ms)), 4);
}

/* Some are as slow as those before, since the switch has other things to
 * do. */
static void
slow_passes_are_not_the_last(void **state)
{
    static const int costs_ms[] = { 3200, 400, 400, 400, 200, 200, 200, 100 };

    assert_int_equal(run_late(*state, costs_ms, ARRAY_SIZE(costs_ms)), 12);
}

static void
passes_go_on_while_the_table_shrinks(void **state)
{
    assert_int_equal(run_costly(*state, 100, 10000), 3 * 999);
}

/* Others' requests tell what a walk costs, too. */
static void
many_ports_with_little_to_do_have_few_passes(void **state)
{
    struct ofconn_ct_flush requests[OFCONN_CT_MAX];
    struct stalefix *f = *state;
    size_t n_requests = 0;

    for (uint16_t i = 1; i <= 100; i++) {
        sf_say(f, i, AT(i, 0), "ab", "ab");
    }
    sf_drain(f);
    for (uint16_t i = 1; i <= 100; i++) {
        sf_say(f, i, AT(i, 0), "a", "a");
    }
    for (;;) {
        size_t n = stale_take(f->st, f->now_ms, requests, OFCONN_CT_MAX);

        if (n) {
            n_requests += n;
            f->now_ms += 40 * (long long int) n;
            stale_done(f->st, f->now_ms, 40000 * (long long int) n);
        } else if (sf_is_idle(f)) {
            break;
        } else {
            f->now_ms = MAX(f->now_ms + 1, stale_next_ms(f->st));
        }
    }
    assert_int_equal(n_requests, 2 * 100);
}

int
main(void)
{
#define TEST(NAME) cmocka_unit_test_setup_teardown(NAME, sf_setup, sf_teardown)
    const struct CMUnitTest tests[] = {
        TEST(passes_come_at_once_and_over_a_second),
        TEST(the_switch_is_busy_for_a_quarter_of_the_time_at_most),
        TEST(a_first_pass_that_comes_late_is_not_the_last),
        TEST(slow_passes_are_not_the_last),
        TEST(passes_go_on_while_the_table_shrinks),
        TEST(many_ports_with_little_to_do_have_few_passes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
