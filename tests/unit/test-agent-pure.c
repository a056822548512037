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

static void
quantiles_are_those_of_the_kept_rounds(void **state)
{
    static struct latency l;

    (void) state;
    assert_int_equal(latency_quantile(&l, 99), 0);
    for (int i = 100; i > 0; i--) {
        latency_add(&l, i);
    }
    assert_int_equal(latency_quantile(&l, 0), 1);
    assert_int_equal(latency_quantile(&l, 50), 50);
    assert_int_equal(latency_quantile(&l, 99), 99);
    assert_int_equal(latency_quantile(&l, 100), 100);
    latency_add(&l, -5);
    assert_int_equal(latency_quantile(&l, 0), 0);
    for (int i = 0; i < LATENCY_KEPT; i++) {
        latency_add(&l, 7);
    }
    assert_int_equal(latency_quantile(&l, 100), 7);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_change_after_a_quiet_spell_goes_out_at_once),
        cmocka_unit_test(storm_is_cut_into_rounds),
        cmocka_unit_test(round_is_due_only_if_asked_for),
        cmocka_unit_test(quantiles_are_those_of_the_kept_rounds),
    };

    return cmocka_run_group_tests_name("agent-pure", tests, NULL, NULL);
}
