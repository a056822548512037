/* SPDX-License-Identifier: Apache-2.0 */
/* The flow table when batches are lost or refused. */

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <util.h>

#include "../support/flowtabfix.h"
#include "ofproxyd/flow/cookie.h"
#include "ofproxyd/flow/flowtab.h"

/* Lost replies. */

static void
c7_lost_reply_is_followed_by_a_dump_and_nothing_twice(void **state OVS_UNUSED)
{
    for (int applied = 0; applied < 2; applied++) {
        for (int forget_first = 0; forget_first < 2; forget_first++) {
            struct flowtab *ft = ft_ready();
            struct flowtab_batch *batch;

            ft_want(ft, 1, 0, ft_group(GROUP(1), 1, 0),
                    ft_flow(1, 0, 0, GROUP(1)), NOTHING);
            batch = flowtab_take(ft, 100, 100000);
            if (forget_first) {
                flowtab_forget(ft);
            }
            flowtab_batch_lost(ft, batch);
            assert_null(flowtab_take(ft, 100, 100000));
            assert_int_equal(ft_stats(ft).n_in_flight, 0);
            flowtab_dump_begin(ft);
            if (applied) {
                flowtab_have(ft, ft_flow(1, 0, 0, GROUP(1)));
                flowtab_have(ft, ft_group(GROUP(1), 1, 0));
            }
            flowtab_dump_end(ft);
            ft_assert_order(ft, applied ? "" : " +group +flow");
            assert_true(flowtab_in_sync(ft));
            flowtab_destroy(ft);
        }
    }
}

static void
batch_that_comes_back_after_a_new_dump_changes_nothing(void **state OVS_UNUSED)
{
    for (int how = 0; how < 3; how++) {
        struct flowtab *ft = ft_ready();
        struct flowtab_batch *batch;

        ft_want(ft, 1, 0, ft_flow(1, 0, 0, 0), NOTHING);
        batch = flowtab_take(ft, 100, 100000);
        flowtab_dump_begin(ft);
        flowtab_dump_end(ft);
        switch (how) {
        case 0: flowtab_batch_done(ft, batch); break;
        case 1: ft_refuse(ft, batch, 0, 0); break;
        case 2: flowtab_batch_lost(ft, batch); break;
        }
        assert_int_equal(ft_stats(ft).n_set_aside, 0);
        ft_assert_order(ft, " +flow");
        flowtab_destroy(ft);
    }
}

/* Refusals. */

static void
b17_refused_owner_is_tried_again_with_growing_waits(void **state OVS_UNUSED)
{
    struct flowtab *ft = ft_ready();
    long long int now_ms = 1000;
    long long int waits[8];

    ft_want(ft, 1, 0, ft_group(GROUP(1), 1, 0), ft_flow(1, 0, 0, GROUP(1)),
            NOTHING);
    for (size_t i = 0; i < ARRAY_SIZE(waits); i++) {
        struct flowtab_batch *batch = flowtab_take(ft, 100, 100000);
        assert_int_equal(batch->n, 2);
        assert_null(flowtab_find_set_aside(ft, 1));
        flowtab_batch_refused(ft, batch,
                              &(const struct flowtab_refusal){ 1, "bad flow",
                                                               now_ms, 0 });
        assert_null(flowtab_take(ft, 100, 100000));

        const struct flowtab_set_aside *aside = flowtab_find_set_aside(ft, 1);
        assert_int_equal(aside->owner, 1);
        assert_string_equal(aside->reason, "bad flow");
        assert_int_equal(aside->since_ms, 1000);
        assert_int_equal(aside->n_tries, i + 1);
        waits[i] = aside->retry_ms - now_ms;
        assert_int_equal(flowtab_run(ft, now_ms), aside->retry_ms);
        now_ms = aside->retry_ms;
        assert_int_equal(flowtab_run(ft, now_ms - 1), now_ms);
        assert_null(flowtab_take(ft, 100, 100000));
        assert_int_equal(flowtab_run(ft, now_ms), LLONG_MAX);
    }
    static const long long int expected[] = { 500,  1000,  2000,  4000,
                                              8000, 16000, 30000, 30000 };
    assert_memory_equal(waits, expected, sizeof waits);

    /* Once all is well, it starts anew. */
    ft_assert_order(ft, " +group +flow");
    assert_true(flowtab_in_sync(ft));
    ft_want(ft, 1, 0, ft_flow(1, 0, 7, 0), NOTHING);
    ft_refuse(ft, flowtab_take(ft, 1, 100000), 0, 9000000);
    assert_int_equal(flowtab_find_set_aside(ft, 1)->retry_ms, 9000500);
    assert_int_equal(flowtab_find_set_aside(ft, 1)->n_tries, 1);
    assert_int_equal(ft_stats(ft).n_refused, 9);
    flowtab_destroy(ft);
}

static void
random_number_spreads_the_waits(void **state OVS_UNUSED)
{
    struct flowtab *ft = ft_ready();

    ft_want(ft, 1, 0, ft_flow(1, 0, 0, 0), NOTHING);
    flowtab_batch_refused(ft, flowtab_take(ft, 1, 100000),
                          &(const struct flowtab_refusal){ 0, "no", 0,
                                                           UINT32_MAX });
    assert_in_range(flowtab_find_set_aside(ft, 1)->retry_ms, 990, 1000);
    flowtab_destroy(ft);
}

static void
one_bad_owner_does_not_block_the_others(void **state OVS_UNUSED)
{
    struct flowtab *ft = ft_ready();
    struct flowtab_batch *batch;

    for (uint32_t i = 1; i <= 5; i++) {
        ft_want(ft, i, 0, ft_group(GROUP(i), 1, 0), ft_flow(i, 0, 0, GROUP(i)),
                NOTHING);
    }
    batch = flowtab_take(ft, 100, 100000);
    assert_int_equal(batch->n, 10);
    size_t bad = 0;
    while (batch->changes[bad].owner != 3) {
        bad++;
    }
    ft_refuse(ft, batch, bad, 0);
    batch = flowtab_take(ft, 100, 100000);
    assert_int_equal(batch->n, 8);
    for (size_t i = 0; i < batch->n; i++) {
        assert_int_not_equal(batch->changes[i].owner, 3);
    }
    flowtab_batch_done(ft, batch);
    assert_null(flowtab_take(ft, 100, 100000));
    assert_int_equal(ft_stats(ft).n_set_aside, 1);
    assert_int_equal(ft_stats(ft).n_dirty, 0);
    assert_false(flowtab_in_sync(ft));
    flowtab_destroy(ft);
}

static void
owner_that_is_set_aside_keeps_what_it_has(void **state OVS_UNUSED)
{
    struct flowtab *ft = ft_ready();
    struct flowtab_batch *batch;

    ft_want(ft, 1, 0, ft_group(GROUP(1), 1, 0), ft_flow(1, 0, 0, GROUP(1)),
            ft_flow(1, 1, 0, GROUP(1)), NOTHING);
    ft_flush(ft);
    ft_want(ft, 1, 0, ft_group(LOCAL(1), 1, 0), ft_flow(1, 0, 0, LOCAL(1)),
            NOTHING);
    batch = flowtab_take(ft, 1, 100000);
    ft_refuse(ft, batch, 0, 0);
    assert_null(flowtab_take(ft, 100, 100000));

    /* When it leaves, all goes. */
    ft_want(ft, 1, 0, NOTHING);
    assert_int_equal(ft_stats(ft).n_set_aside, 0);
    ft_assert_order(ft, " -flow -flow -group");
    assert_true(flowtab_in_sync(ft));
    flowtab_destroy(ft);
}

static void
owner_with_new_wishes_is_tried_at_once(void **state OVS_UNUSED)
{
    struct flowtab *ft = ft_ready();

    ft_want(ft, 1, 0, ft_flow(1, 0, 0, 0), ft_flow(1, 1, 0, 0), NOTHING);
    ft_refuse(ft, flowtab_take(ft, 100, 100000), 0, 0);
    ft_want(ft, 1, 0, ft_flow(1, 0, 0, 0), ft_flow(1, 1, 0, 0), NOTHING);
    assert_null(flowtab_take(ft, 100, 100000));
    ft_want(ft, 1, 0, ft_flow(1, 1, 0, 0), NOTHING);
    ft_assert_order(ft, " +flow");
    assert_true(flowtab_in_sync(ft));
    flowtab_destroy(ft);
}

static void
owner_is_not_blamed_for_a_wish_that_it_has_given_up(void **state OVS_UNUSED)
{
    struct flowtab *ft = ft_ready();
    struct flowtab_batch *batch;

    ft_want(ft, 1, 0, ft_flow(1, 0, 0, 0), NOTHING);
    ft_want(ft, 2, 0, ft_shared_flow(2, 0), NOTHING);
    batch = flowtab_take(ft, 100, 100000);
    ft_want(ft, 1, 0, ft_flow(1, 1, 0, 0), NOTHING);
    ft_refuse(ft, batch, 0, 0);
    assert_int_equal(ft_stats(ft).n_set_aside, 0);

    /* Nor for what another wanted at the same key. */
    batch = flowtab_take(ft, 100, 100000);
    size_t shared = batch->changes[0].owner == 2 ? 0 : 1;
    ft_want(ft, 1, -1, ft_shared_flow(1, 0), NOTHING);
    ft_refuse(ft, batch, shared, 0);
    assert_int_equal(ft_stats(ft).n_set_aside, 0);
    ft_assert_order(ft, " +flow");
    flowtab_destroy(ft);
}

static void
owner_whose_wish_changed_in_flight_waits_shortly(void **state OVS_UNUSED)
{
    struct flowtab *ft = ft_ready();
    struct flowtab_batch *batch;
    long long int now_ms = 0;

    ft_want(ft, 1, 0, ft_flow(1, 0, 0, 0), NOTHING);
    for (uint32_t i = 1; i < 6; i++) {
        batch = flowtab_take(ft, 100, 100000);
        ft_want(ft, 1, 0, ft_flow(1, 0, i, 0), NOTHING);
        ft_refuse(ft, batch, 0, now_ms);
        assert_int_equal(flowtab_find_set_aside(ft, 1)->retry_ms,
                         now_ms + 500);
        now_ms += 500;
        flowtab_run(ft, now_ms);
    }
    flowtab_destroy(ft);
}

static void
refused_leftover_is_set_aside_alone(void **state OVS_UNUSED)
{
    struct flowtab *ft = ft_ready();
    struct flowtab_batch *batch;

    for (uint32_t i = 1; i <= 4; i++) {
        flowtab_have(ft, ft_flow(i, 0, 0, 0));
    }
    batch = flowtab_take(ft, 100, 100000);
    assert_int_equal(batch->n, 4);
    struct fitem *bad = fitem_ref(batch->changes[2].item);
    ft_refuse(ft, batch, 2, 0);
    assert_int_equal(ft_stats(ft).n_set_aside, 1);
    ft_assert_order(ft, " -flow -flow -flow");
    assert_int_equal(ft_stats(ft).n_unwanted, 1);

    flowtab_run(ft, 500);
    batch = flowtab_take(ft, 100, 100000);
    assert_true(fitem_equals(batch->changes[0].item, bad));
    ft_refuse(ft, batch, 0, 500);
    assert_int_equal(flowtab_run(ft, 500), 1500);

    /* It stops being a leftover when somebody wants it. */
    ft_want(ft, 1, 0, fitem_ref(bad), NOTHING);
    assert_int_equal(ft_stats(ft).n_set_aside, 0);
    assert_true(flowtab_in_sync(ft));
    fitem_unref(bad);
    flowtab_destroy(ft);
}

/* Sends batches until one of them does not hold a change of 'guilty', which
 * the switch refuses without saying so.  Returns how many it took until
 * 'guilty' is set aside. */
static size_t
search(struct flowtab *ft, uint64_t guilty)
{
    size_t n = 0;

    while (!flowtab_find_set_aside(ft, guilty)) {
        struct flowtab_batch *batch = flowtab_take(ft, 1000, 1000000);
        bool refused = false;

        assert_non_null(batch);
        for (size_t i = 0; i < batch->n; i++) {
            refused |= batch->changes[i].owner == guilty;
        }
        if (refused) {
            ft_refuse(ft, batch, SIZE_MAX, 0);
        } else {
            flowtab_batch_done(ft, batch);
        }
        n++;
    }
    return n;
}

static void
culprit_without_a_name_is_found_quickly(void **state OVS_UNUSED)
{
    for (uint32_t guilty = 1; guilty <= 1000; guilty += 37) {
        struct flowtab *ft = ft_ready();
        struct flowtab_batch *batch;

        for (uint32_t i = 1; i <= 1000; i++) {
            ft_want(ft, i, 0, ft_flow(i, 0, 0, 0), NOTHING);
        }
        assert_in_range(search(ft, guilty), 1, 60);
        assert_int_equal(ft_stats(ft).n_set_aside, 1);

        /* Then the batches grow again. */
        size_t n_batches = 0;
        while ((batch = flowtab_take(ft, 1000, 1000000))) {
            flowtab_batch_done(ft, batch);
            n_batches++;
        }
        assert_in_range(n_batches, 0, 11);
        assert_int_equal(ft_stats(ft).n_dirty, 0);
        ft_want(ft, 2000, 0, ft_flow(2000, 0, 0, 0), NOTHING);
        ft_assert_order(ft, " +flow");
        flowtab_destroy(ft);
    }
}

static void
refused_changes_are_the_first_to_go_again(void **state OVS_UNUSED)
{
    struct flowtab *ft = ft_ready();
    struct flowtab_batch *batch;

    for (uint32_t i = 0; i < 8; i++) {
        ft_want(ft, 10 + i, 0, ft_flow(10 + i, 0, 0, 0), NOTHING);
    }
    batch = flowtab_take(ft, 4, 100000);
    ft_want(ft, 1, 0, ft_flow(1, 0, 0, 0), NOTHING);
    for (size_t n = 4; n > 1; n /= 2) {
        assert_int_equal(batch->n, n);
        assert_int_equal(batch->changes[0].owner, 10);
        assert_int_equal(batch->changes[n - 1].owner, 10 + n - 1);
        ft_refuse(ft, batch, SIZE_MAX, 0);
        batch = flowtab_take(ft, 4, 100000);
    }
    flowtab_batch_done(ft, batch);
    flowtab_destroy(ft);
}

static void
switch_that_refuses_all_is_asked_once_for_each_owner(void **state OVS_UNUSED)
{
    struct flowtab *ft = ft_ready();
    struct flowtab_batch *batch;
    size_t n = 0;

    for (uint32_t i = 1; i <= 100; i++) {
        ft_want(ft, i, 0, ft_flow(i, 0, 0, 0), NOTHING);
    }
    while ((batch = flowtab_take(ft, 1000, 1000000))) {
        ft_refuse(ft, batch, SIZE_MAX, 0);
        n++;
    }
    assert_in_range(n, 100, 110);
    assert_int_equal(ft_stats(ft).n_set_aside, 100);
    flowtab_destroy(ft);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            c7_lost_reply_is_followed_by_a_dump_and_nothing_twice),
        cmocka_unit_test(
            batch_that_comes_back_after_a_new_dump_changes_nothing),
        cmocka_unit_test(b17_refused_owner_is_tried_again_with_growing_waits),
        cmocka_unit_test(random_number_spreads_the_waits),
        cmocka_unit_test(one_bad_owner_does_not_block_the_others),
        cmocka_unit_test(owner_that_is_set_aside_keeps_what_it_has),
        cmocka_unit_test(owner_with_new_wishes_is_tried_at_once),
        cmocka_unit_test(owner_is_not_blamed_for_a_wish_that_it_has_given_up),
        cmocka_unit_test(owner_whose_wish_changed_in_flight_waits_shortly),
        cmocka_unit_test(refused_leftover_is_set_aside_alone),
        cmocka_unit_test(culprit_without_a_name_is_found_quickly),
        cmocka_unit_test(refused_changes_are_the_first_to_go_again),
        cmocka_unit_test(switch_that_refuses_all_is_asked_once_for_each_owner),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
