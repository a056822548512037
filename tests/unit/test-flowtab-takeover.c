/* SPDX-License-Identifier: Apache-2.0 */
/* The flow table on a bridge that another master programmed. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <openvswitch/match.h>
#include <openvswitch/ofp-actions.h>
#include <util.h>

#include "../support/flowtabfix.h"
#include "ofproxyd/flow/cookie.h"
#include "ofproxyd/flow/flowtab.h"

#define ROUND     7
#define OLD_GROUP 256

/* A flow with this cookie; the key depends on table and 'k'. */
static struct fitem *
flow_of(uint64_t cookie, uint8_t table, uint16_t k, uint32_t group_id)
{
    struct ofpact_group group;
    struct match match;

    ofpact_init_GROUP(&group);
    group.group_id = group_id;
    match_init_catchall(&match);
    return fitem_from_flow(&(struct fitem_flow){
        .table = table,
        .priority = k,
        .cookie = cookie,
        .match = &match,
        .ofpacts = &group.ofpact,
        .ofpacts_len = group_id ? sizeof group : 0,
    });
}

static uint64_t
antrea(uint8_t category)
{
    return (uint64_t) ROUND << 48 | (uint64_t) category << 40;
}

/* A switch with two flows and a group of Antrea's, of which 'entry' says
 * whether one is in table 0. */
static struct flowtab *
create(bool entry)
{
    static const struct flowtab_predecessor p = {
        .rounds = { ROUND },
        .n_rounds = 1,
        .groups = true,
    };
    struct flowtab *ft = flowtab_create();

    flowtab_set_predecessor(ft, &p);
    flowtab_dump_begin(ft);
    flowtab_have(ft, flow_of(antrea(1), entry ? 0 : 1, 200, 0));
    flowtab_have(ft, flow_of(antrea(3), 11, 200, OLD_GROUP));
    flowtab_have(ft, flow_of(0x77, 30, 1, 0));
    flowtab_have(ft, ft_group(OLD_GROUP, 1, 0));
    flowtab_dump_end(ft);
    ft_want(ft, 1, 0, ft_group(GROUP(1), 1, 0), ft_flow(1, 0, 0, GROUP(1)),
            NOTHING);
    return ft;
}

static void
nothing_leaves_before_all_is_there(void **state OVS_UNUSED)
{
    struct flowtab *ft = create(true);

    assert_true(flowtab_takes_over(ft));
    assert_int_equal(ft_stats(ft).n_old_flows, 2);
    assert_int_equal(ft_stats(ft).n_old_groups, 1);
    assert_null(flowtab_take(ft, 100, 100000));
    flowtab_set_ready(ft, true);
    assert_null(flowtab_take(ft, 100, 100000));
    flowtab_set_ready(ft, false);
    flowtab_set_complete(ft, true);
    assert_null(flowtab_take(ft, 100, 100000));
    flowtab_set_ready(ft, true);
    assert_false(flowtab_in_sync(ft));
    assert_int_equal(ft_flush(ft), 5);
    assert_true(flowtab_in_sync(ft));
    flowtab_destroy(ft);
}

static void
then_everything_leaves_at_once_whatever_the_limits(void **state OVS_UNUSED)
{
    struct flowtab *ft = create(true);
    struct flowtab_batch *batch;

    flowtab_set_linger(ft, 100);
    flowtab_set_complete(ft, true);
    flowtab_set_ready(ft, true);
    flowtab_set_keep(ft, true); /* For other times than this. */
    batch = flowtab_take(ft, 1, 1);
    assert_int_equal(batch->n, 4);
    assert_true(flowtab_takes_over(ft));
    flowtab_batch_done(ft, batch);
    assert_false(flowtab_takes_over(ft));
    assert_int_equal(ft_stats(ft).n_old_flows, 0);

    flowtab_set_keep(ft, false);
    /* The group has to linger, as one of ours. */
    assert_null(flowtab_take(ft, 100, 100000));
    assert_int_equal(ft_stats(ft).n_old_groups, 1);
    flowtab_run(ft, 1000);
    flowtab_run(ft, 1100);
    flowtab_run(ft, 1200);
    ft_assert_order(ft, " -group");
    assert_true(flowtab_in_sync(ft));
    flowtab_destroy(ft);
}

static void
pipeline_that_is_not_in_force_goes_as_usual(void **state OVS_UNUSED)
{
    struct flowtab *ft = create(false);

    assert_false(flowtab_takes_over(ft));
    ft_assert_order(ft, " +group +flow");
    flowtab_set_complete(ft, true);
    ft_assert_order(ft, " -flow -flow -group");
    flowtab_destroy(ft);
}

static void
flow_that_comes_later_is_only_an_unwanted_one(void **state OVS_UNUSED)
{
    struct flowtab *ft = create(true);

    flowtab_set_complete(ft, true);
    flowtab_set_ready(ft, true);
    ft_flush(ft);
    flowtab_set_ready(ft, false);
    flowtab_have(ft, flow_of(antrea(1), 0, 200, 0));
    flowtab_have(ft, flow_of(0x77, 31, 1, 0));
    assert_false(flowtab_takes_over(ft));
    ft_assert_order(ft, " -flow");
    assert_true(flowtab_in_sync(ft));
    flowtab_destroy(ft);
}

static void
refused_owner_does_not_keep_the_others(void **state OVS_UNUSED)
{
    struct flowtab *ft = create(true);
    struct flowtab_batch *batch;

    ft_want(ft, 2, 0, ft_flow(2, 0, 0, 0), NOTHING);
    flowtab_set_complete(ft, true);
    flowtab_set_ready(ft, true);
    batch = flowtab_take(ft, 100, 100000);
    for (size_t i = 0; i < batch->n; i++) {
        if (batch->changes[i].owner == 2) {
            ft_refuse(ft, batch, i, 1000);
            break;
        }
    }
    batch = flowtab_take(ft, 1, 1);
    assert_int_equal(batch->n, 5);
    flowtab_batch_done(ft, batch);
    assert_false(flowtab_takes_over(ft));
    flowtab_destroy(ft);
}

static void
refused_vital_owner_keeps_all_of_them(void **state OVS_UNUSED)
{
    static const struct flowtab_owner vital = { .id = 2, .vital = true };
    struct flowtab *ft = create(true);
    struct flowtab_batch *batch;
    struct fout out = FOUT_INIT;

    fout_add(&out, ft_flow(2, 0, 0, 0));
    flowtab_want(ft, &vital, &out);
    free(out.items);
    flowtab_set_complete(ft, true);
    flowtab_set_ready(ft, true);
    batch = flowtab_take(ft, 100, 100000);
    for (size_t i = 0; i < batch->n; i++) {
        if (batch->changes[i].owner == 2) {
            ft_refuse(ft, batch, i, 1000);
            break;
        }
    }
    assert_null(flowtab_take(ft, 100, 100000));
    flowtab_run(ft, 1000000);
    batch = flowtab_take(ft, 1, 1);
    assert_int_equal(batch->n, 6);
    flowtab_batch_done(ft, batch);
    assert_true(flowtab_in_sync(ft));
    flowtab_destroy(ft);
}

static void
batch_that_nobody_is_to_blame_for_is_not_cut_up(void **state OVS_UNUSED)
{
    struct flowtab *ft = create(true);
    struct flowtab_batch *batch;

    flowtab_set_complete(ft, true);
    flowtab_set_ready(ft, true);
    for (int i = 0; i < 4; i++) {
        batch = flowtab_take(ft, 100, 100000);
        assert_int_equal(batch->n, 5);
        ft_refuse(ft, batch, SIZE_MAX, 1000);
    }
    flowtab_destroy(ft);
}

static void
older_layout_is_a_predecessor_too(void **state OVS_UNUSED)
{
    struct flowtab *ft = flowtab_create();

    flowtab_dump_begin(ft);
    flowtab_have(ft, flow_of(COOKIE_MAGIC, 0, 0, 0));
    flowtab_dump_end(ft);
    ft_want(ft, 1, 0, ft_flow(1, 0, 0, 0), NOTHING);
    assert_true(flowtab_takes_over(ft));
    assert_null(flowtab_take(ft, 100, 100000));
    flowtab_have_not(ft, flow_of(COOKIE_MAGIC, 0, 0, 0));
    assert_false(flowtab_takes_over(ft));
    ft_assert_order(ft, " +flow");
    flowtab_destroy(ft);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_leaves_before_all_is_there),
        cmocka_unit_test(then_everything_leaves_at_once_whatever_the_limits),
        cmocka_unit_test(pipeline_that_is_not_in_force_goes_as_usual),
        cmocka_unit_test(flow_that_comes_later_is_only_an_unwanted_one),
        cmocka_unit_test(refused_owner_does_not_keep_the_others),
        cmocka_unit_test(refused_vital_owner_keeps_all_of_them),
        cmocka_unit_test(batch_that_nobody_is_to_blame_for_is_not_cut_up),
        cmocka_unit_test(older_layout_is_a_predecessor_too),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
