/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting times after failures. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <limits.h>

#include <cmocka.h>

#include <util.h>

#include "ofproxyd/base/backoff.h"

static void
wait_doubles_up_to_the_cap(void **state OVS_UNUSED)
{
    static const int base[] = { 800, 1600, 3200, 6400, 12800, 25600, 30000 };
    struct backoff least = BACKOFF_INIT(800, 30000);
    struct backoff most = BACKOFF_INIT(800, 30000);

    for (size_t i = 0; i < ARRAY_SIZE(base); i++) {
        assert_int_equal(backoff_next(&least, 0), base[i]);
        assert_int_equal(backoff_next(&most, UINT32_MAX), 2 * base[i] - 1);
    }
    for (size_t i = 0; i < 100000; i++) {
        assert_int_equal(backoff_next(&least, 0), 30000);
    }
}

static void
jitter_is_proportional_to_the_random_number(void **state OVS_UNUSED)
{
    struct backoff b = BACKOFF_INIT(1000, 1000);

    assert_int_equal(backoff_next(&b, UINT32_MAX / 4 + 1), 1250);
    assert_int_equal(backoff_next(&b, UINT32_MAX / 2 + 1), 1500);
}

static void
reset_forgets_the_failures(void **state OVS_UNUSED)
{
    struct backoff b = BACKOFF_INIT(100, 10000);

    for (int i = 0; i < 5; i++) {
        backoff_next(&b, 0);
    }
    assert_int_equal(backoff_next(&b, 0), 3200);
    backoff_reset(&b);
    assert_int_equal(b.cur_ms, 0);
    assert_int_equal(backoff_next(&b, 0), 100);
    assert_int_equal(backoff_next(&b, 0), 200);
}

static void
extreme_limits_do_not_overflow(void **state OVS_UNUSED)
{
    struct backoff large = BACKOFF_INIT(INT_MAX / 2 + 1, INT_MAX);
    struct backoff zero = BACKOFF_INIT(0, 0);
    struct backoff crossed = BACKOFF_INIT(500, 100);

    for (int i = 0; i < 3; i++) {
        assert_in_range(backoff_next(&large, UINT32_MAX), INT_MAX / 2 + 1,
                        INT_MAX);
        assert_int_equal(backoff_next(&zero, UINT32_MAX), 0);
        assert_int_equal(backoff_next(&crossed, 0), 100);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wait_doubles_up_to_the_cap),
        cmocka_unit_test(jitter_is_proportional_to_the_random_number),
        cmocka_unit_test(reset_forgets_the_failures),
        cmocka_unit_test(extreme_limits_do_not_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
