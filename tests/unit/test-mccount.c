/* SPDX-License-Identifier: Apache-2.0 */

/* Packets of other clusters, added up over the switch's counters. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <util.h>

#include "../../src/agent/mccount.h"

#define OWNER 7

static int
setup(void **state)
{
    *state = mccount_create();
    return 0;
}

static int
teardown(void **state)
{
    mccount_destroy(*state);
    return 0;
}

/* A flow of 'OWNER_' that has had so many packets, each of 100 bytes. */
#define FLOW(OWNER_, ID, PACKETS)                         \
    (struct ofconn_flow_stats)                            \
    {                                                     \
        .cookie = OWNER_, .id = ID, .n_packets = PACKETS, \
        .n_bytes = 100 * (PACKETS),                       \
    }

static void
add(struct mccount *c, const struct ofconn_flow_stats *flows, size_t n)
{
    mccount_add(c, MCCOUNT_SENT, xmemdup(flows, n * sizeof *flows), n, 1);
}

#define ADD(C, ...)                                     \
    add(C, (struct ofconn_flow_stats[]){ __VA_ARGS__ }, \
        ARRAY_SIZE(((struct ofconn_flow_stats[]){ __VA_ARGS__ })))

static void
check(const struct mccount *c, uint64_t n)
{
    struct mccount_total sent = mccount_get(c, OWNER, MCCOUNT_SENT);
    struct mccount_total received = mccount_get(c, OWNER, MCCOUNT_RECEIVED);

    assert_int_equal(sent.n_packets, n);
    assert_int_equal(sent.n_bytes, 100 * n);
    assert_int_equal(received.n_packets, 0);
}

static void
what_flows_have_counted_adds_up(void **state)
{
    struct mccount *c = *state;

    check(c, 0);
    ADD(c, FLOW(OWNER, 1, 0), FLOW(8, 3, 0));
    ADD(c, FLOW(OWNER, 1, 10), FLOW(OWNER, 2, 1), FLOW(8, 3, 100));
    check(c, 11);
    ADD(c, FLOW(8, 3, 100), FLOW(OWNER, 2, 1), FLOW(OWNER, 1, 15));
    check(c, 16);
    assert_int_equal(mccount_get(c, 8, MCCOUNT_SENT).n_packets, 100);
}

static void
what_was_counted_before_the_start_is_none(void **state)
{
    struct mccount *c = *state;

    ADD(c, FLOW(OWNER, 1, 1000), FLOW(OWNER, 2, 3));
    check(c, 0);
    ADD(c, FLOW(OWNER, 1, 1001), FLOW(OWNER, 2, 3));
    check(c, 1);
}

static void
a_flow_that_is_written_anew_takes_nothing_away(void **state)
{
    struct mccount *c = *state;

    mccount_add(c, MCCOUNT_SENT, NULL, 0, 1);
    ADD(c, FLOW(OWNER, 1, 10), FLOW(OWNER, 2, 100));
    ADD(c, FLOW(OWNER, 1, 4), FLOW(OWNER, 2, 101));
    check(c, 115);
    mccount_add(c, MCCOUNT_SENT, NULL, 0, 1);
    check(c, 115);
    ADD(c, FLOW(OWNER, 1, 20));
    check(c, 135);
}

/* As when the first of two clusters with the same gateway leaves: the switch
 * goes on counting. */
static void
a_flow_that_becomes_anothers_counts_from_then_on(void **state)
{
    struct mccount *c = *state;

    ADD(c, FLOW(OWNER, 1, 0));
    ADD(c, FLOW(OWNER, 1, 10));
    ADD(c, FLOW(8, 1, 12));
    check(c, 10);
    assert_int_equal(mccount_get(c, 8, MCCOUNT_SENT).n_packets, 2);
}

int
main(void)
{
#define TEST(NAME) cmocka_unit_test_setup_teardown(NAME, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(what_flows_have_counted_adds_up),
        TEST(what_was_counted_before_the_start_is_none),
        TEST(a_flow_that_is_written_anew_takes_nothing_away),
        TEST(a_flow_that_becomes_anothers_counts_from_then_on),
    };

    return cmocka_run_group_tests_name("mccount", tests, NULL, NULL);
}
