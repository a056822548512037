/* SPDX-License-Identifier: Apache-2.0 */
/* The flow table: each of its promises by itself.  What follows from lost and
 * refused batches is in test-flowtab-batch.c, how it behaves over long
 * histories in test-flowtab-property.c. */

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <util.h>

#include "../support/flowtabfix.h"
#include "../support/flowtext.h"
#include "ofproxyd/flow/cookie.h"
#include "ofproxyd/flow/flowtab.h"

/* When things may leave. */

static void
nothing_is_sent_before_a_dump_has_ended(void **state OVS_UNUSED)
{
    struct flowtab *ft = flowtab_create();

    flowtab_set_complete(ft, true);
    assert_int_equal(ft_want(ft, 1, 0, ft_flow(1, 0, 0, 0), NOTHING), 1);
    assert_null(flowtab_take(ft, 100, 100000));
    flowtab_dump_begin(ft);
    flowtab_have(ft, ft_flow(9, 0, 0, 0));
    assert_null(flowtab_take(ft, 100, 100000));
    assert_int_equal(ft_stats(ft).n_dirty, 0);
    assert_false(flowtab_in_sync(ft));
    flowtab_dump_end(ft);
    ft_assert_order(ft, " +flow -flow");
    assert_true(flowtab_in_sync(ft));

    flowtab_forget(ft);
    assert_false(flowtab_in_sync(ft));
    assert_null(flowtab_take(ft, 100, 100000));
    flowtab_destroy(ft);
}

static void
what_is_said_before_a_dump_begins_is_not_believed(void **state OVS_UNUSED)
{
    struct flowtab *ft = flowtab_create();

    flowtab_set_complete(ft, true);
    flowtab_have(ft, ft_flow(1, 0, 0, 0));
    assert_int_equal(ft_stats(ft).n_unwanted, 0);
    flowtab_dump_begin(ft);
    flowtab_dump_end(ft);
    assert_int_equal(ft_stats(ft).n_unwanted, 0);
    assert_true(flowtab_in_sync(ft));
    flowtab_have(ft, ft_flow(1, 0, 0, 0));
    assert_false(flowtab_has_found(ft));
    flowtab_dump_begin(ft);
    flowtab_have(ft, ft_flow(1, 0, 0, 0));
    flowtab_dump_end(ft);
    flowtab_forget(ft);
    assert_true(flowtab_has_found(ft));
    flowtab_destroy(ft);
}

static void
dump_that_broke_off_counts_for_nothing(void **state OVS_UNUSED)
{
    struct flowtab *ft = ft_ready();

    ft_want(ft, 1, 0, ft_flow(1, 0, 0, 0), NOTHING);
    flowtab_dump_begin(ft);
    flowtab_have(ft, ft_flow(1, 0, 0, 0));
    flowtab_have(ft, ft_flow(2, 0, 0, 0));
    flowtab_dump_begin(ft);
    flowtab_dump_end(ft);
    ft_assert_order(ft, " +flow");
    flowtab_destroy(ft);
}

static void
restart_with_unchanged_wishes_sends_nothing(void **state OVS_UNUSED)
{
    struct flowtab *ft = flowtab_create();

    ft_want(ft, 1, 0, ft_group(LEAF(1), 1, 0), ft_group(GROUP(1), 1, LEAF(1)),
            ft_flow(1, 0, 0, GROUP(1)), NOTHING);
    flowtab_dump_begin(ft);
    flowtab_have(ft, ft_flow(1, 0, 0, GROUP(1)));
    flowtab_have(ft, ft_group(GROUP(1), 1, LEAF(1)));
    flowtab_have(ft, ft_group(LEAF(1), 1, 0));
    flowtab_dump_end(ft);
    flowtab_set_complete(ft, true);
    assert_null(flowtab_take(ft, 100, 100000));
    assert_true(flowtab_in_sync(ft));
    flowtab_destroy(ft);
}

static void
c26_before_all_is_listed_only_missing_items_are_sent(void **state OVS_UNUSED)
{
    struct flowtab *ft = flowtab_create();

    ft_want(ft, 1, 0, ft_group(GROUP(1), 2, 0), ft_flow(1, 0, 2, GROUP(1)),
            ft_flow(1, 1, 0, GROUP(1)), NOTHING);
    flowtab_dump_begin(ft);
    flowtab_have(ft, ft_group(GROUP(1), 1, 0));
    flowtab_have(ft, ft_flow(1, 0, 1, GROUP(1)));
    flowtab_have(ft, ft_group(GROUP(2), 1, 0));
    flowtab_have(ft, ft_flow(2, 0, 1, GROUP(2)));
    flowtab_dump_end(ft);
    ft_assert_order(ft, " +flow");
    assert_int_equal(ft_stats(ft).n_dirty, 0);
    assert_int_equal(ft_stats(ft).n_held, 4);
    assert_int_equal(ft_stats(ft).n_unwanted, 2);
    assert_false(flowtab_in_sync(ft));

    flowtab_set_complete(ft, true);
    ft_assert_order(ft, " +group +flow -flow -group");
    assert_true(flowtab_in_sync(ft));
    flowtab_destroy(ft);
}

/* Order. */

static void
c2_groups_go_before_the_flows_that_name_them(void **state OVS_UNUSED)
{
    struct flowtab *ft = ft_ready();

    ft_want(ft, 1, 0, ft_flow(1, 0, 0, GROUP(1)),
            ft_group(GROUP(1), 1, LEAF(1)), ft_group(LEAF(1), 1, 0), NOTHING);
    ft_assert_order(ft, " +leaf +group +flow");

    /* The switch restarts. */
    flowtab_forget(ft);
    flowtab_dump_begin(ft);
    flowtab_dump_end(ft);
    ft_assert_order(ft, " +leaf +group +flow");

    ft_want(ft, 1, 0, NOTHING);
    ft_assert_order(ft, " -flow -group -leaf");
    assert_true(flowtab_in_sync(ft));
    flowtab_destroy(ft);
}

static void
b1_flow_is_led_to_the_new_group_before_the_old_one_goes(
    void **state OVS_UNUSED)
{
    struct flowtab *ft = ft_ready();

    ft_want(ft, 1, 0, ft_group(GROUP(1), 1, 0), ft_flow(1, 0, 0, GROUP(1)),
            NOTHING);
    ft_flush(ft);
    ft_want(ft, 1, 0, ft_group(LOCAL(1), 1, 0), ft_flow(1, 0, 0, LOCAL(1)),
            NOTHING);
    ft_assert_order(ft, " +group +flow -group");
    ft_want(ft, 1, 0, ft_group(GROUP(1), 1, 0), ft_flow(1, 0, 0, GROUP(1)),
            NOTHING);
    ft_assert_order(ft, " +group +flow -group");
    flowtab_destroy(ft);
}

static void
batch_keeps_to_both_limits_but_holds_one_change(void **state OVS_UNUSED)
{
    struct fitem *sample = ft_flow(1, 0, 0, 0);
    size_t size = fitem_size(sample);
    struct flowtab *ft = ft_ready();
    struct flowtab_batch *batch;

    fitem_unref(sample);
    ft_want(ft, 1, 0, ft_flow(1, 0, 0, 0), ft_flow(1, 1, 0, 0),
            ft_flow(1, 2, 0, 0), ft_flow(1, 3, 0, 0), ft_flow(1, 4, 0, 0),
            ft_flow(1, 5, 0, 0), NOTHING);
    batch = flowtab_take(ft, 3, 100000);
    assert_int_equal(batch->n, 3);
    assert_int_equal(ft_stats(ft).n_in_flight, 3);
    assert_int_equal(ft_stats(ft).n_dirty, 3);
    flowtab_batch_done(ft, batch);
    batch = flowtab_take(ft, 3, size * 2);
    assert_int_equal(batch->n, 2);
    flowtab_batch_done(ft, batch);
    batch = flowtab_take(ft, 0, 0);
    assert_int_equal(batch->n, 1);
    flowtab_batch_done(ft, batch);
    assert_true(flowtab_in_sync(ft));
    flowtab_destroy(ft);
}

/* Groups in use. */

static void
group_that_a_refused_flow_uses_is_kept(void **state OVS_UNUSED)
{
    struct flowtab *ft = flowtab_create();
    struct flowtab_batch *batch;

    /* After a restart: nobody has ever wanted the old group, so that it can't
     * be known whose it is. */
    ft_want(ft, 1, 0, ft_group(LOCAL(1), 1, 0), ft_flow(1, 0, 0, LOCAL(1)),
            NOTHING);
    flowtab_set_complete(ft, true);
    flowtab_dump_begin(ft);
    flowtab_have(ft, ft_flow(1, 0, 0, GROUP(1)));
    flowtab_have(ft, ft_group(GROUP(1), 1, LEAF(1)));
    flowtab_have(ft, ft_group(LEAF(1), 1, 0));
    flowtab_have(ft, ft_group(LOCAL(1), 1, 0));
    flowtab_dump_end(ft);
    batch = flowtab_take(ft, 1, 100000);
    assert_int_equal(batch->changes[0].owner, 1);
    ft_refuse(ft, batch, 0, 0);
    assert_null(flowtab_take(ft, 100, 100000));
    assert_int_equal(ft_stats(ft).n_held, 2);

    flowtab_run(ft, 100000);
    ft_assert_order(ft, " +flow -group -leaf");
    flowtab_destroy(ft);
}

static void
group_of_a_refused_batch_is_in_use_again(void **state OVS_UNUSED)
{
    struct flowtab *ft = ft_ready();
    struct flowtab_batch *batch;

    ft_want(ft, 1, 0, ft_group(GROUP(1), 1, 0), ft_flow(1, 0, 0, GROUP(1)),
            NOTHING);
    ft_flush(ft);
    ft_want(ft, 1, 0, ft_flow(1, 0, 0, 0), NOTHING);
    ft_want(ft, 2, 0, ft_flow(2, 0, 0, 0), NOTHING);
    batch = flowtab_take(ft, 1, 100000);
    assert_int_equal(ft_stats(ft).n_dirty, 2);
    ft_refuse(ft, batch, SIZE_MAX, 0);
    assert_int_equal(ft_stats(ft).n_set_aside, 1);
    ft_assert_order(ft, " +flow");
    flowtab_destroy(ft);
}

static void
item_has_its_groups_when_the_switch_has_all_of_them(void **state OVS_UNUSED)
{
    struct flowtab *ft = ft_ready();
    struct fitem *flow = ft_flow(1, 0, 0, GROUP(1));
    struct fitem *without = ft_flow(1, 1, 0, 0);
    struct fitem *group = ft_group(GROUP(1), 1, LEAF(1));

    assert_false(flowtab_has_groups_of(ft, flow));
    assert_false(flowtab_has_groups_of(ft, without));
    flowtab_have(ft, fitem_ref(group));
    assert_true(flowtab_has_groups_of(ft, flow));
    assert_false(flowtab_has_groups_of(ft, group));
    flowtab_have(ft, ft_group(LEAF(1), 1, 0));
    assert_true(flowtab_has_groups_of(ft, group));
    flowtab_forget(ft);
    assert_false(flowtab_has_groups_of(ft, flow));
    fitem_unref(flow);
    fitem_unref(without);
    fitem_unref(group);
    flowtab_destroy(ft);
}

static void
group_lingers_when_its_last_user_has_gone(void **state OVS_UNUSED)
{
    struct flowtab *ft = ft_ready();

    flowtab_set_linger(ft, 100);
    ft_want(ft, 1, 0, ft_group(GROUP(1), 1, LEAF(1)), ft_group(LEAF(1), 1, 0),
            ft_flow(1, 0, 0, GROUP(1)), NOTHING);
    ft_flush(ft);
    ft_want(ft, 1, 0, NOTHING);
    ft_assert_order(ft, " -flow");
    assert_int_equal(ft_stats(ft).n_held, 2);
    assert_false(flowtab_in_sync(ft));

    /* It stays at least as long as asked for, and at most twice that after
     * the table has heard of the time. */
    assert_int_equal(flowtab_run(ft, 1000), 1100);
    assert_int_equal(flowtab_run(ft, 1099), 1100);
    flowtab_run(ft, 1100);
    ft_assert_order(ft, "");
    flowtab_run(ft, 1200);
    ft_assert_order(ft, " -group");

    /* The leaf has been in use until now. */
    flowtab_run(ft, 1300);
    flowtab_run(ft, 1400);
    flowtab_run(ft, 1500);
    ft_assert_order(ft, " -leaf");
    assert_true(flowtab_in_sync(ft));
    assert_int_equal(flowtab_run(ft, 2000), LLONG_MAX);
    flowtab_destroy(ft);
}

static void
group_that_is_used_again_lingers_anew(void **state OVS_UNUSED)
{
    struct flowtab *ft = ft_ready();

    flowtab_set_linger(ft, 100);
    ft_want(ft, 1, 0, ft_group(GROUP(1), 1, 0), ft_flow(1, 0, 0, GROUP(1)),
            NOTHING);
    ft_flush(ft);
    ft_want(ft, 1, 0, NOTHING);
    ft_flush(ft);
    flowtab_run(ft, 1000);
    flowtab_run(ft, 1100);
    ft_want(ft, 1, 0, ft_group(GROUP(1), 1, 0), ft_flow(1, 0, 0, GROUP(1)),
            NOTHING);
    ft_assert_order(ft, " +flow");
    ft_want(ft, 1, 0, NOTHING);
    ft_assert_order(ft, " -flow");
    flowtab_run(ft, 1200);
    ft_assert_order(ft, "");
    flowtab_run(ft, 1300);
    ft_assert_order(ft, " -group");
    flowtab_destroy(ft);
}

/* Owners. */

static void
unchanged_wishes_are_no_change_in_any_order(void **state OVS_UNUSED)
{
    struct flowtab *ft = ft_ready();

    assert_int_equal(ft_want(ft, 1, 0, ft_flow(1, 0, 0, 0),
                             ft_flow(1, 1, 0, 0), ft_group(GROUP(1), 1, 0),
                             NOTHING),
                     3);
    ft_flush(ft);
    assert_int_equal(ft_want(ft, 1, 0, ft_group(GROUP(1), 1, 0),
                             ft_flow(1, 0, 0, 0), ft_flow(1, 1, 0, 0),
                             NOTHING),
                     0);
    assert_int_equal(ft_want(ft, 1, 0, ft_flow(1, 1, 0, 0),
                             ft_flow(1, 0, 7, 0), ft_flow(1, 2, 0, 0),
                             NOTHING),
                     3);
    assert_int_equal(ft_stats(ft).n_flows, 3);
    assert_int_equal(ft_stats(ft).n_groups, 0);
    assert_int_equal(ft_want(ft, 2, 0, NOTHING), 0);
    assert_int_equal(ft_want(ft, 1, 0, NOTHING), 3);
    flowtab_destroy(ft);
}

static void
b2_deleted_and_wanted_again_at_once_is_no_change(void **state OVS_UNUSED)
{
    struct flowtab *ft = ft_ready();

    ft_want(ft, 1, 0, ft_group(GROUP(1), 1, 0), ft_flow(1, 0, 0, GROUP(1)),
            NOTHING);
    ft_flush(ft);
    ft_want(ft, 1, 0, NOTHING);
    assert_int_equal(ft_stats(ft).n_dirty, 1);
    assert_int_equal(ft_stats(ft).n_held, 1);
    ft_want(ft, 1, 0, ft_group(GROUP(1), 1, 0), ft_flow(1, 0, 0, GROUP(1)),
            NOTHING);
    assert_null(flowtab_take(ft, 100, 100000));
    assert_true(flowtab_in_sync(ft));
    flowtab_destroy(ft);
}

static void
b5_key_of_two_owners_stays_until_the_last_one_leaves(void **state OVS_UNUSED)
{
    struct flowtab *ft = ft_ready();

    ft_want(ft, 1, 0, ft_shared_flow(1, 0), NOTHING);
    ft_want(ft, 2, 0, ft_shared_flow(2, 0), NOTHING);
    assert_int_equal(flowtab_conflict(ft, 1), 0);
    assert_int_equal(flowtab_conflict(ft, 2), 1);
    ft_assert_order(ft, " +flow");
    ft_want(ft, 1, 0, NOTHING);
    assert_int_equal(flowtab_conflict(ft, 2), 0);
    ft_assert_order(ft, " +flow");
    ft_want(ft, 2, 0, NOTHING);
    ft_assert_order(ft, " -flow");
    assert_true(flowtab_in_sync(ft));
    flowtab_destroy(ft);
}

static void
b7_thousand_services_come_and_go_without_a_trace(void **state OVS_UNUSED)
{
    struct flowtab *ft = ft_ready();
    size_t n_had = 0;

    for (uint32_t i = 1; i <= 1000; i++) {
        ft_want(ft, i, 0, ft_group(GROUP(i), 1, 0), ft_flow(i, 0, 0, GROUP(i)),
                NOTHING);
        if (i % 2) {
            n_had += ft_flush(ft);
        }
        ft_want(ft, i, 0, NOTHING);
        n_had += ft_flush(ft);
    }
    assert_int_equal(n_had, 2000);
    struct flowtab_stats s = ft_stats(ft);
    assert_int_equal(s.n_flows + s.n_groups + s.n_unwanted + s.n_dirty
                         + s.n_held,
                     0);
    assert_int_equal(s.n_flow_puts, 500);
    assert_int_equal(s.n_flow_deletes, 500);
    assert_int_equal(s.n_group_puts, 500);
    assert_int_equal(s.n_group_deletes, 500);
    assert_true(flowtab_in_sync(ft));
    flowtab_destroy(ft);
}

static void
lower_rank_then_lower_id_has_the_key(void **state OVS_UNUSED)
{
    struct flowtab *ft = ft_ready();
    struct flowtab_batch *batch;

    ft_want(ft, 3, 50, ft_shared_flow(3, 0), NOTHING);
    ft_want(ft, 2, 50, ft_shared_flow(2, 0), NOTHING);
    ft_want(ft, 1, 60, ft_shared_flow(1, 0), NOTHING);
    batch = flowtab_take(ft, 100, 100000);
    assert_int_equal(batch->n, 1);
    assert_int_equal(batch->changes[0].owner, 2);
    flowtab_batch_done(ft, batch);
    assert_int_equal(flowtab_conflict(ft, 1), 2);
    assert_int_equal(flowtab_conflict(ft, 2), 0);
    assert_int_equal(flowtab_conflict(ft, 3), 2);

    /* A new rank moves the key also when the wishes stay. */
    assert_int_equal(ft_want(ft, 2, 70, ft_shared_flow(2, 0), NOTHING), 1);
    assert_int_equal(flowtab_conflict(ft, 2), 3);
    assert_int_equal(ft_want(ft, 1, -1, ft_shared_flow(1, 0), NOTHING), 1);
    assert_int_equal(flowtab_conflict(ft, 3), 1);
    assert_int_equal(ft_want(ft, 3, 50, NOTHING), 0);
    assert_int_equal(ft_want(ft, 1, -1, NOTHING), 1);
    assert_int_equal(flowtab_conflict(ft, 2), 0);
    ft_assert_order(ft, "");
    flowtab_destroy(ft);
}

static void
first_name_has_the_key_among_equal_ranks(void **state OVS_UNUSED)
{
    static const struct flowtab_owner owners[] = {
        { 1, 5, "ns2/svc-a" }, { 2, 5, "ns1/svc-b" }, { 3, 5, "ns1/svc-a" },
        { 4, 5, "ns1/svc-a" }, { 6, 5, NULL },        { 5, 5, NULL },
        { 7, 4, "z" },
    };
    static const uint64_t winners[] = { 1, 2, 3, 3, 6, 5, 7 };
    struct flowtab *ft = ft_ready();

    for (size_t i = 0; i < ARRAY_SIZE(owners); i++) {
        struct fout items = FOUT_INIT;
        struct flowtab_batch *batch;

        fout_add(&items, ft_shared_flow(owners[i].id, 0));
        flowtab_want(ft, &owners[i], &items);
        batch = flowtab_take(ft, 100, 100000);
        assert_int_equal(!batch, i && winners[i] == winners[i - 1]);
        if (batch) {
            assert_int_equal(batch->changes[0].owner, winners[i]);
            flowtab_batch_done(ft, batch);
        }
    }
    flowtab_destroy(ft);
}

static void
b8_deletion_carries_what_is_installed(void **state OVS_UNUSED)
{
    struct flowtab *ft = ft_ready();
    struct flowtab_batch *batch;

    ft_want(ft, 1, 0, ft_flow(1, 0, 0, 0), NOTHING);
    ft_flush(ft);
    /* The same key, of another object. */
    flowtab_have(ft, flowtext_make_flow(cookie_make(COOKIE_SERVICE, 77), 1, 0,
                                        0, 0));
    ft_want(ft, 1, 0, NOTHING);
    batch = flowtab_take(ft, 100, 100000);
    assert_int_equal(batch->n, 1);
    assert_int_equal(batch->changes[0].op, FLOWTAB_DELETE);
    assert_int_equal(batch->changes[0].owner, 0);
    assert_int_equal(fitem_cookie(batch->changes[0].item),
                     cookie_make(COOKIE_SERVICE, 77));
    flowtab_batch_done(ft, batch);
    assert_true(flowtab_in_sync(ft));
    flowtab_destroy(ft);
}

/* Foreign hands. */

static void
c13_what_a_foreign_hand_changes_is_repaired(void **state OVS_UNUSED)
{
    struct flowtab *ft = ft_ready();

    ft_want(ft, 1, 0, ft_group(GROUP(1), 1, 0), ft_flow(1, 0, 0, GROUP(1)),
            NOTHING);
    ft_flush(ft);
    flowtab_have_not(ft, ft_flow(1, 0, 0, GROUP(1)));
    flowtab_have_not(ft, ft_group(GROUP(1), 1, 0));
    ft_assert_order(ft, " +group +flow");
    flowtab_have(ft, ft_flow(1, 0, 9, 0));
    ft_assert_order(ft, " +flow");
    flowtab_have(ft, ft_group(GROUP(1), 9, 0));
    ft_assert_order(ft, " +group");
    flowtab_have(ft, ft_flow(5, 5, 5, 0));
    flowtab_have(ft, ft_group(GROUP(5), 5, 0));
    ft_assert_order(ft, " -flow -group");
    flowtab_have_not(ft, ft_flow(6, 6, 6, 0));
    assert_true(flowtab_in_sync(ft));
    flowtab_destroy(ft);
}

static void
what_is_not_ours_gives_way_or_is_left_alone(void **state OVS_UNUSED)
{
    struct flowtab *ft = ft_ready();

    ft_want(ft, 1, 0, ft_flow(1, 0, 0, 0), NOTHING);
    ft_flush(ft);
    flowtab_have(ft, flowtext_make_flow(0x1234, 1, 0, 0, 0));
    flowtab_have(ft, flowtext_make_flow(0x1234, 2, 0, 0, 0));
    flowtab_have(ft, ft_group(17, 1, 0));
    assert_int_equal(ft_stats(ft).n_unwanted, 0);
    ft_assert_order(ft, " +flow");
    assert_true(flowtab_in_sync(ft));
    flowtab_destroy(ft);
}

static void
learned_flows_are_neither_wanted_nor_unwanted(void **state OVS_UNUSED)
{
    struct flowtab *ft = ft_ready();
    uint64_t cookie = cookie_make_affinity(UINT64_MAX);

    /* Without such a table, or elsewhere, they are a foreign hand's. */
    flowtab_have(ft, flowtext_make_flow(cookie, 1, 0, 0, 0));
    ft_assert_order(ft, " -flow");
    flowtab_set_learned_table(ft, 11);
    flowtab_have(ft, flowtext_make_flow(cookie, 1, 0, 0, 0));
    ft_assert_order(ft, " -flow");

    flowtab_set_learned_table(ft, 12);
    flowtab_have(ft, flowtext_make_flow(cookie, 1, 0, 0, 0));
    assert_int_equal(ft_stats(ft).n_unwanted, 0);
    ft_assert_order(ft, "");
    assert_true(flowtab_in_sync(ft));

    /* One that stands where something is wanted gives way. */
    ft_want(ft, 1, 0, ft_flow(1, 0, 0, 0), NOTHING);
    ft_flush(ft);
    flowtab_have(ft, flowtext_make_flow(cookie, 1, 0, 0, 0));
    ft_assert_order(ft, " +flow");
    assert_true(flowtab_is_learned(ft, 12, 200, cookie));
    assert_false(flowtab_is_learned(ft, 12, 0, cookie));
    assert_false(flowtab_is_learned(ft, 12, 200, cookie_make(3, 1)));
    flowtab_destroy(ft);
}

static void
success_overrides_what_was_said_before_it(void **state OVS_UNUSED)
{
    struct flowtab *ft = ft_ready();
    struct flowtab_batch *batch;

    ft_want(ft, 1, 0, ft_flow(1, 0, 0, 0), NOTHING);
    batch = flowtab_take(ft, 100, 100000);
    flowtab_have(ft, ft_flow(1, 0, 7, 0));
    flowtab_have_not(ft, ft_flow(1, 0, 7, 0));
    flowtab_batch_done(ft, batch);
    assert_true(flowtab_in_sync(ft));

    flowtab_have_not(ft, ft_flow(1, 0, 0, 0));
    ft_assert_order(ft, " +flow");
    flowtab_destroy(ft);
}

static void
refusal_leaves_what_was_said_before_it(void **state OVS_UNUSED)
{
    struct flowtab *ft = ft_ready();
    struct flowtab_batch *batch;

    ft_want(ft, 1, 0, ft_flow(1, 0, 0, 0), NOTHING);
    batch = flowtab_take(ft, 100, 100000);
    flowtab_have(ft, ft_flow(1, 0, 0, 0));
    ft_refuse(ft, batch, 0, 0);
    assert_null(flowtab_take(ft, 100, 100000));
    flowtab_run(ft, 100000);
    assert_true(flowtab_in_sync(ft));
    flowtab_destroy(ft);
}

static void
deletion_does_not_count_for_a_flow_with_another_cookie(void **state OVS_UNUSED)
{
    struct flowtab *ft = ft_ready();
    struct flowtab_batch *batch;

    flowtab_have(ft, ft_group(GROUP(1), 1, 0));
    flowtab_have(ft, ft_flow(1, 0, 0, GROUP(1)));
    batch = flowtab_take(ft, 1, 100000);
    assert_int_equal(batch->changes[0].op, FLOWTAB_DELETE);
    flowtab_have(ft, flowtext_make_flow(cookie_make(COOKIE_SERVICE, 77), 1, 0,
                                        0, GROUP(1)));
    flowtab_batch_done(ft, batch);
    assert_int_equal(ft_stats(ft).n_unwanted, 2);
    ft_assert_order(ft, " -flow -group");
    assert_true(flowtab_in_sync(ft));
    flowtab_destroy(ft);
}

static void
wish_that_changes_while_it_is_in_flight_is_sent_next(void **state OVS_UNUSED)
{
    struct flowtab *ft = ft_ready();
    struct flowtab_batch *batch;

    ft_want(ft, 1, 0, ft_flow(1, 0, 0, 0), ft_flow(1, 1, 0, 0), NOTHING);
    batch = flowtab_take(ft, 100, 100000);
    ft_want(ft, 1, 0, ft_flow(1, 0, 5, 0), NOTHING);
    assert_null(flowtab_find_set_aside(ft, 1));
    assert_int_equal(ft_stats(ft).n_dirty, 0);
    flowtab_batch_done(ft, batch);
    ft_assert_order(ft, " +flow -flow");

    ft_want(ft, 1, 0, NOTHING);
    batch = flowtab_take(ft, 100, 100000);
    assert_int_equal(batch->n, 1);
    ft_want(ft, 1, 0, ft_flow(1, 0, 5, 0), NOTHING);
    flowtab_batch_done(ft, batch);
    ft_assert_order(ft, " +flow");
    flowtab_destroy(ft);
}

/* Looking. */

static void
count_set_aside(const struct flowtab_set_aside *aside, void *n_)
{
    size_t *n = n_;

    assert_string_equal(aside->reason, "no");
    assert_int_equal(aside->owner, 2);
    ++*n;
}

struct seen {
    size_t n, n_same;
};

static void
see(const struct fitem *want_, const struct fitem *have_, void *seen_)
{
    struct seen *seen = seen_;

    seen->n++;
    seen->n_same += want_ == have_;
}

static void
see_have(const struct fitem *have_ OVS_UNUSED, void *n)
{
    ++*(size_t *) n;
}

static void
state_can_be_listed(void **state OVS_UNUSED)
{
    struct flowtab *ft = ft_ready();
    struct seen seen = { 0, 0 };
    size_t n = 0;

    flowtab_have(ft, ft_flow(9, 0, 0, 0));
    ft_want(ft, 1, 0, ft_flow(1, 0, 0, 0), ft_shared_flow(1, 0), NOTHING);
    ft_flush(ft);
    ft_want(ft, 2, 0, ft_flow(2, 0, 0, 0), ft_shared_flow(2, 0), NOTHING);
    ft_refuse(ft, flowtab_take(ft, 1, 100000), 0, 0);

    flowtab_for_each(ft, UINT64_MAX, see, &seen);
    assert_int_equal(seen.n, 3);
    /* Equal items are shared. */
    assert_int_equal(seen.n_same, 2);
    seen = (struct seen){ 0, 0 };
    flowtab_for_each(ft, 2, see, &seen);
    assert_int_equal(seen.n, 1);
    assert_int_equal(seen.n_same, 0);
    flowtab_for_each(ft, 3, see, &seen);
    assert_int_equal(seen.n, 1);
    flowtab_for_each_have(ft, see_have, &n);
    assert_int_equal(n, 2);
    n = 0;
    flowtab_for_each_set_aside(ft, count_set_aside, &n);
    assert_int_equal(n, 1);
    assert_null(flowtab_find_set_aside(ft, 1));
    assert_null(flowtab_find_set_aside(ft, 3));
    flowtab_destroy(ft);
}

static void
table_can_be_destroyed_in_any_state(void **state OVS_UNUSED)
{
    struct flowtab *ft = ft_ready();

    flowtab_have(ft, ft_flow(9, 0, 0, GROUP(9)));
    flowtab_have(ft, ft_flow(8, 0, 0, 0));
    ft_refuse(ft, flowtab_take(ft, 1, 100000), 0, 0);
    ft_want(ft, 1, 0, ft_flow(1, 0, 0, GROUP(1)), ft_shared_flow(1, 0),
            NOTHING);
    ft_want(ft, 2, 0, ft_group(GROUP(2), 1, LEAF(2)), ft_shared_flow(2, 0),
            NOTHING);
    ft_refuse(ft, flowtab_take(ft, 1, 100000), 0, 0);
    flowtab_destroy(ft);
    flowtab_destroy(NULL);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_sent_before_a_dump_has_ended),
        cmocka_unit_test(what_is_said_before_a_dump_begins_is_not_believed),
        cmocka_unit_test(dump_that_broke_off_counts_for_nothing),
        cmocka_unit_test(restart_with_unchanged_wishes_sends_nothing),
        cmocka_unit_test(c26_before_all_is_listed_only_missing_items_are_sent),
        cmocka_unit_test(c2_groups_go_before_the_flows_that_name_them),
        cmocka_unit_test(
            b1_flow_is_led_to_the_new_group_before_the_old_one_goes),
        cmocka_unit_test(batch_keeps_to_both_limits_but_holds_one_change),
        cmocka_unit_test(group_that_a_refused_flow_uses_is_kept),
        cmocka_unit_test(group_of_a_refused_batch_is_in_use_again),
        cmocka_unit_test(item_has_its_groups_when_the_switch_has_all_of_them),
        cmocka_unit_test(group_lingers_when_its_last_user_has_gone),
        cmocka_unit_test(group_that_is_used_again_lingers_anew),
        cmocka_unit_test(unchanged_wishes_are_no_change_in_any_order),
        cmocka_unit_test(b2_deleted_and_wanted_again_at_once_is_no_change),
        cmocka_unit_test(b5_key_of_two_owners_stays_until_the_last_one_leaves),
        cmocka_unit_test(b7_thousand_services_come_and_go_without_a_trace),
        cmocka_unit_test(lower_rank_then_lower_id_has_the_key),
        cmocka_unit_test(first_name_has_the_key_among_equal_ranks),
        cmocka_unit_test(b8_deletion_carries_what_is_installed),
        cmocka_unit_test(c13_what_a_foreign_hand_changes_is_repaired),
        cmocka_unit_test(what_is_not_ours_gives_way_or_is_left_alone),
        cmocka_unit_test(learned_flows_are_neither_wanted_nor_unwanted),
        cmocka_unit_test(success_overrides_what_was_said_before_it),
        cmocka_unit_test(refusal_leaves_what_was_said_before_it),
        cmocka_unit_test(
            deletion_does_not_count_for_a_flow_with_another_cookie),
        cmocka_unit_test(wish_that_changes_while_it_is_in_flight_is_sent_next),
        cmocka_unit_test(state_can_be_listed),
        cmocka_unit_test(table_can_be_destroyed_in_any_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
