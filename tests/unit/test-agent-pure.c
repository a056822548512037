/* SPDX-License-Identifier: Apache-2.0 */

/* The agent's pure parts: pacing of rounds, and their latency. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../src/agent/latency.h"
#include "../../src/agent/pacer.h"

static void
first_change_after_a_quiet_spell_goes_out_at_once(void **state)
{
    struct pacer p = PACER_INIT;

    (void) state;
    assert_false(pacer_is_due(&p, 1000));
    pacer_ask(&p, 1000);
    assert_false(pacer_is_due(&p, 1000 + PACER_DELAY_MS - 1));
    pacer_ask(&p, 1002); /* What comes later does not put it off. */
    assert_true(pacer_is_due(&p, 1000 + PACER_DELAY_MS));
    _Static_assert(PACER_DELAY_MS <= 5, "design.md 6");
}

static void
storm_is_cut_into_rounds(void **state)
{
    struct pacer p = PACER_INIT;
    int n_rounds = 0;

    (void) state;
    for (long long int now = 0; now < 10000; now++) {
        pacer_ask(&p, now);
        if (pacer_is_due(&p, now)) {
            n_rounds++;
            pacer_done(&p, now);
        }
    }
    assert_in_range(n_rounds, 10000 / PACER_PERIOD_MS - 2,
                    10000 / PACER_PERIOD_MS + 2);
}

static void
round_is_due_only_if_asked_for(void **state)
{
    struct pacer p = PACER_INIT;

    (void) state;
    pacer_ask(&p, 100);
    pacer_done(&p, 110);
    assert_false(pacer_is_due(&p, 100000));
    pacer_ask(&p, 120);
    assert_false(pacer_is_due(&p, 110 + PACER_PERIOD_MS - 1));
    assert_true(pacer_is_due(&p, 110 + PACER_PERIOD_MS));
}

/* A round that takes 'us'. */
static void
add_round(struct latency *l, long long int us)
{
    latency_read(l, 1000);
    latency_sent(l);
    latency_confirmed(l, 1000 + us);
}

static void
quantiles_are_those_of_the_kept_rounds(void **state)
{
    static struct latency l = { .first_us = 1 };

    (void) state;
    assert_int_equal(latency_quantile(&l, 99), 0);
    for (int i = 100; i > 0; i--) {
        add_round(&l, i);
    }
    assert_int_equal(latency_quantile(&l, 1), 1);
    assert_int_equal(latency_quantile(&l, 50), 50);
    assert_int_equal(latency_quantile(&l, 99), 99);
    assert_int_equal(latency_quantile(&l, 100), 100);
    add_round(&l, -5);
    assert_int_equal(latency_quantile(&l, 0), 0);
    for (int i = 0; i < LATENCY_KEPT; i++) {
        add_round(&l, 7);
    }
    assert_int_equal(latency_quantile(&l, 100), 7);
}

static void
latency_runs_from_the_oldest_change_that_is_not_confirmed(void **state)
{
    static struct latency l = { .first_us = 1 };

    (void) state;
    latency_read(&l, 100);
    latency_read(&l, 110);
    latency_confirmed(&l, 120); /* Nothing of it was sent. */
    assert_int_equal(l.n, 0);
    latency_sent(&l);
    latency_read(&l, 130); /* Is in the next round. */
    latency_confirmed(&l, 150);
    latency_sent(&l);
    latency_read(&l, 160);
    latency_sent(&l);
    latency_confirmed(&l, 200);
    latency_confirmed(&l, 300); /* Nothing was sent since. */
    assert_int_equal(l.n, 2);
    assert_int_equal(l.us[0], 50);
    assert_int_equal(l.us[1], 70);
}

static void
first_sync_is_counted_from_the_end_of_the_lists(void **state)
{
    static struct latency l;

    (void) state;
    assert_true(latency_listed(&l, 500));
    assert_false(latency_listed(&l, 600));
    assert_int_equal(l.first_us, 0);
    add_round(&l, 50); /* Counts as part of it. */
    assert_int_equal(l.n, 0);
    assert_true(latency_first_sync(&l, 700));
    assert_false(latency_first_sync(&l, 900));
    assert_int_equal(l.first_us, 200);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_change_after_a_quiet_spell_goes_out_at_once),
        cmocka_unit_test(storm_is_cut_into_rounds),
        cmocka_unit_test(round_is_due_only_if_asked_for),
        cmocka_unit_test(quantiles_are_those_of_the_kept_rounds),
        cmocka_unit_test(
            latency_runs_from_the_oldest_change_that_is_not_confirmed),
        cmocka_unit_test(first_sync_is_counted_from_the_end_of_the_lists),
    };

    return cmocka_run_group_tests_name("agent-pure", tests, NULL, NULL);
}
