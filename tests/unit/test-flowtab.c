/* SPDX-License-Identifier: Apache-2.0 */
/* The flow table: each of its promises by itself.  Its behaviour over long
 * histories is in test-flowtab-property.c. */

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <util.h>

#include "../support/flowtext.h"
#include "ofproxyd/flow/cookie.h"
#include "ofproxyd/flow/flowtab.h"

/* Groups of object 'O': the one that flows name, that of policy Local, and a
 * leaf. */
#define GROUP(O) group_id_make(O, false, 0)
#define LOCAL(O) group_id_make(O, true, 0)
#define LEAF(O)  group_id_make(O, false, 1)

static struct fitem *
flow(uint32_t object, uint32_t k, uint32_t version, uint32_t group_id)
{
    return flowtext_make_flow(cookie_make(COOKIE_SERVICE, object), object, k,
                              version, group_id);
}

/* A flow at a key that does not depend on the object. */
static struct fitem *
shared_flow(uint32_t object, uint32_t k)
{
    return flowtext_make_flow(cookie_make(COOKIE_SERVICE, object), 1000, k, 0,
                              0);
}

static struct fitem *
group(uint32_t group_id, uint16_t version, uint32_t named)
{
    return flowtext_make_group(group_id, version, named);
}

/* Lets 'id' want the items that follow, up to NULL. */
static size_t
want(struct flowtab *ft, uint64_t id, int64_t rank, ...)
{
    const struct flowtab_owner owner = { id, rank, NULL };
    struct fout items = FOUT_INIT;
    struct fitem *item;
    va_list args;

    va_start(args, rank);
    while ((item = va_arg(args, struct fitem *))) {
        fout_add(&items, item);
    }
    va_end(args);
    return flowtab_want(ft, &owner, &items);
}

#define NOTHING ((struct fitem *) NULL)

/* A table that has read an empty switch, all objects listed. */
static struct flowtab *
ready(void)
{
    struct flowtab *ft = flowtab_create();

    flowtab_set_complete(ft, true);
    flowtab_dump_begin(ft);
    flowtab_dump_end(ft);
    return ft;
}

/* Has all changes done.  Returns how many there were. */
static size_t
flush(struct flowtab *ft)
{
    struct flowtab_batch *batch;
    size_t n = 0;

    while ((batch = flowtab_take(ft, 100, 100000))) {
        n += batch->n;
        flowtab_batch_done(ft, batch);
    }
    return n;
}

static char *
describe(const struct flowtab_change *change)
{
    uint32_t group_id = fitem_group_id(change->item);
    const char *op = change->op == FLOWTAB_PUT ? "+" : "-";

    if (!group_id) {
        return xasprintf("%sflow", op);
    }
    return xasprintf("%s%s", op,
                     group_id_is_leaf(group_id) ? "leaf" : "group");
}

/* Has all changes done, one a time, and compares their kinds. */
static void
assert_order(struct flowtab *ft, const char *expected)
{
    struct ds ds = DS_EMPTY_INITIALIZER;
    struct flowtab_batch *batch;

    while ((batch = flowtab_take(ft, 1, 100000))) {
        assert_int_equal(batch->n, 1);
        char *text = describe(&batch->changes[0]);
        ds_put_format(&ds, " %s", text);
        free(text);
        flowtab_batch_done(ft, batch);
    }
    assert_string_equal(ds_cstr(&ds), expected);
    ds_destroy(&ds);
}

static struct flowtab_stats
stats(const struct flowtab *ft)
{
    struct flowtab_stats s;

    flowtab_get_stats(ft, &s);
    return s;
}

/* When things may leave. */

static void
nothing_is_sent_before_a_dump_has_ended(void **state OVS_UNUSED)
{
    struct flowtab *ft = flowtab_create();

    flowtab_set_complete(ft, true);
    assert_int_equal(want(ft, 1, 0, flow(1, 0, 0, 0), NOTHING), 1);
    assert_null(flowtab_take(ft, 100, 100000));
    flowtab_dump_begin(ft);
    flowtab_have(ft, flow(9, 0, 0, 0));
    assert_null(flowtab_take(ft, 100, 100000));
    assert_int_equal(stats(ft).n_dirty, 0);
    assert_false(flowtab_in_sync(ft));
    flowtab_dump_end(ft);
    assert_order(ft, " +flow -flow");
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
    flowtab_have(ft, flow(1, 0, 0, 0));
    assert_int_equal(stats(ft).n_unwanted, 0);
    flowtab_dump_begin(ft);
    flowtab_dump_end(ft);
    assert_int_equal(stats(ft).n_unwanted, 0);
    assert_true(flowtab_in_sync(ft));
    flowtab_destroy(ft);
}

static void
dump_that_broke_off_counts_for_nothing(void **state OVS_UNUSED)
{
    struct flowtab *ft = ready();

    want(ft, 1, 0, flow(1, 0, 0, 0), NOTHING);
    flowtab_dump_begin(ft);
    flowtab_have(ft, flow(1, 0, 0, 0));
    flowtab_have(ft, flow(2, 0, 0, 0));
    flowtab_dump_begin(ft);
    flowtab_dump_end(ft);
    assert_order(ft, " +flow");
    flowtab_destroy(ft);
}

static void
restart_with_unchanged_wishes_sends_nothing(void **state OVS_UNUSED)
{
    struct flowtab *ft = flowtab_create();

    want(ft, 1, 0, group(LEAF(1), 1, 0), group(GROUP(1), 1, LEAF(1)),
         flow(1, 0, 0, GROUP(1)), NOTHING);
    flowtab_dump_begin(ft);
    flowtab_have(ft, flow(1, 0, 0, GROUP(1)));
    flowtab_have(ft, group(GROUP(1), 1, LEAF(1)));
    flowtab_have(ft, group(LEAF(1), 1, 0));
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

    want(ft, 1, 0, group(GROUP(1), 2, 0), flow(1, 0, 2, GROUP(1)),
         flow(1, 1, 0, GROUP(1)), NOTHING);
    flowtab_dump_begin(ft);
    flowtab_have(ft, group(GROUP(1), 1, 0));
    flowtab_have(ft, flow(1, 0, 1, GROUP(1)));
    flowtab_have(ft, group(GROUP(2), 1, 0));
    flowtab_have(ft, flow(2, 0, 1, GROUP(2)));
    flowtab_dump_end(ft);
    assert_order(ft, " +flow");
    assert_int_equal(stats(ft).n_dirty, 0);
    assert_int_equal(stats(ft).n_held, 4);
    assert_int_equal(stats(ft).n_unwanted, 2);
    assert_false(flowtab_in_sync(ft));

    flowtab_set_complete(ft, true);
    assert_order(ft, " +group +flow -flow -group");
    assert_true(flowtab_in_sync(ft));
    flowtab_destroy(ft);
}

/* Order. */

static void
c2_groups_go_before_the_flows_that_name_them(void **state OVS_UNUSED)
{
    struct flowtab *ft = ready();

    want(ft, 1, 0, flow(1, 0, 0, GROUP(1)), group(GROUP(1), 1, LEAF(1)),
         group(LEAF(1), 1, 0), NOTHING);
    assert_order(ft, " +leaf +group +flow");

    /* The switch restarts. */
    flowtab_forget(ft);
    flowtab_dump_begin(ft);
    flowtab_dump_end(ft);
    assert_order(ft, " +leaf +group +flow");

    want(ft, 1, 0, NOTHING);
    assert_order(ft, " -flow -group -leaf");
    assert_true(flowtab_in_sync(ft));
    flowtab_destroy(ft);
}

static void
b1_flow_is_led_to_the_new_group_before_the_old_one_goes(
    void **state OVS_UNUSED)
{
    struct flowtab *ft = ready();

    want(ft, 1, 0, group(GROUP(1), 1, 0), flow(1, 0, 0, GROUP(1)), NOTHING);
    flush(ft);
    want(ft, 1, 0, group(LOCAL(1), 1, 0), flow(1, 0, 0, LOCAL(1)), NOTHING);
    assert_order(ft, " +group +flow -group");
    want(ft, 1, 0, group(GROUP(1), 1, 0), flow(1, 0, 0, GROUP(1)), NOTHING);
    assert_order(ft, " +group +flow -group");
    flowtab_destroy(ft);
}

static void
batch_keeps_to_both_limits_but_holds_one_change(void **state OVS_UNUSED)
{
    struct fitem *sample = flow(1, 0, 0, 0);
    size_t size = fitem_size(sample);
    struct flowtab *ft = ready();
    struct flowtab_batch *batch;

    fitem_unref(sample);
    want(ft, 1, 0, flow(1, 0, 0, 0), flow(1, 1, 0, 0), flow(1, 2, 0, 0),
         flow(1, 3, 0, 0), flow(1, 4, 0, 0), flow(1, 5, 0, 0), NOTHING);
    batch = flowtab_take(ft, 3, 100000);
    assert_int_equal(batch->n, 3);
    assert_int_equal(stats(ft).n_in_flight, 3);
    assert_int_equal(stats(ft).n_dirty, 3);
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
    want(ft, 1, 0, group(LOCAL(1), 1, 0), flow(1, 0, 0, LOCAL(1)), NOTHING);
    flowtab_set_complete(ft, true);
    flowtab_dump_begin(ft);
    flowtab_have(ft, flow(1, 0, 0, GROUP(1)));
    flowtab_have(ft, group(GROUP(1), 1, LEAF(1)));
    flowtab_have(ft, group(LEAF(1), 1, 0));
    flowtab_have(ft, group(LOCAL(1), 1, 0));
    flowtab_dump_end(ft);
    batch = flowtab_take(ft, 1, 100000);
    assert_int_equal(batch->changes[0].owner, 1);
    flowtab_batch_refused(ft, batch, 0, "no", 0, 0);
    assert_null(flowtab_take(ft, 100, 100000));
    assert_int_equal(stats(ft).n_held, 2);

    flowtab_run(ft, 100000);
    assert_order(ft, " +flow -group -leaf");
    flowtab_destroy(ft);
}

static void
group_of_a_refused_batch_is_in_use_again(void **state OVS_UNUSED)
{
    struct flowtab *ft = ready();
    struct flowtab_batch *batch;

    want(ft, 1, 0, group(GROUP(1), 1, 0), flow(1, 0, 0, GROUP(1)), NOTHING);
    flush(ft);
    want(ft, 1, 0, flow(1, 0, 0, 0), NOTHING);
    want(ft, 2, 0, flow(2, 0, 0, 0), NOTHING);
    batch = flowtab_take(ft, 1, 100000);
    assert_int_equal(stats(ft).n_dirty, 2);
    flowtab_batch_refused(ft, batch, SIZE_MAX, "no", 0, 0);
    assert_int_equal(stats(ft).n_set_aside, 1);
    assert_order(ft, " +flow");
    flowtab_destroy(ft);
}

/* Owners. */

static void
unchanged_wishes_are_no_change_in_any_order(void **state OVS_UNUSED)
{
    struct flowtab *ft = ready();

    assert_int_equal(want(ft, 1, 0, flow(1, 0, 0, 0), flow(1, 1, 0, 0),
                          group(GROUP(1), 1, 0), NOTHING),
                     3);
    flush(ft);
    assert_int_equal(want(ft, 1, 0, group(GROUP(1), 1, 0), flow(1, 0, 0, 0),
                          flow(1, 1, 0, 0), NOTHING),
                     0);
    assert_int_equal(want(ft, 1, 0, flow(1, 1, 0, 0), flow(1, 0, 7, 0),
                          flow(1, 2, 0, 0), NOTHING),
                     3);
    assert_int_equal(stats(ft).n_flows, 3);
    assert_int_equal(stats(ft).n_groups, 0);
    assert_int_equal(want(ft, 2, 0, NOTHING), 0);
    assert_int_equal(want(ft, 1, 0, NOTHING), 3);
    flowtab_destroy(ft);
}

static void
b2_deleted_and_wanted_again_at_once_is_no_change(void **state OVS_UNUSED)
{
    struct flowtab *ft = ready();

    want(ft, 1, 0, group(GROUP(1), 1, 0), flow(1, 0, 0, GROUP(1)), NOTHING);
    flush(ft);
    want(ft, 1, 0, NOTHING);
    assert_int_equal(stats(ft).n_dirty, 1);
    assert_int_equal(stats(ft).n_held, 1);
    want(ft, 1, 0, group(GROUP(1), 1, 0), flow(1, 0, 0, GROUP(1)), NOTHING);
    assert_null(flowtab_take(ft, 100, 100000));
    assert_true(flowtab_in_sync(ft));
    flowtab_destroy(ft);
}

static void
b5_key_of_two_owners_stays_until_the_last_one_leaves(void **state OVS_UNUSED)
{
    struct flowtab *ft = ready();

    want(ft, 1, 0, shared_flow(1, 0), NOTHING);
    want(ft, 2, 0, shared_flow(2, 0), NOTHING);
    assert_int_equal(flowtab_conflict(ft, 1), 0);
    assert_int_equal(flowtab_conflict(ft, 2), 1);
    assert_order(ft, " +flow");
    want(ft, 1, 0, NOTHING);
    assert_int_equal(flowtab_conflict(ft, 2), 0);
    assert_order(ft, " +flow");
    want(ft, 2, 0, NOTHING);
    assert_order(ft, " -flow");
    assert_true(flowtab_in_sync(ft));
    flowtab_destroy(ft);
}

static void
b7_thousand_services_come_and_go_without_a_trace(void **state OVS_UNUSED)
{
    struct flowtab *ft = ready();
    size_t n_had = 0;

    for (uint32_t i = 1; i <= 1000; i++) {
        want(ft, i, 0, group(GROUP(i), 1, 0), flow(i, 0, 0, GROUP(i)),
             NOTHING);
        if (i % 2) {
            n_had += flush(ft);
        }
        want(ft, i, 0, NOTHING);
        n_had += flush(ft);
    }
    assert_int_equal(n_had, 2000);
    struct flowtab_stats s = stats(ft);
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
    struct flowtab *ft = ready();
    struct flowtab_batch *batch;

    want(ft, 3, 50, shared_flow(3, 0), NOTHING);
    want(ft, 2, 50, shared_flow(2, 0), NOTHING);
    want(ft, 1, 60, shared_flow(1, 0), NOTHING);
    batch = flowtab_take(ft, 100, 100000);
    assert_int_equal(batch->n, 1);
    assert_int_equal(batch->changes[0].owner, 2);
    flowtab_batch_done(ft, batch);
    assert_int_equal(flowtab_conflict(ft, 1), 2);
    assert_int_equal(flowtab_conflict(ft, 2), 0);
    assert_int_equal(flowtab_conflict(ft, 3), 2);

    /* A new rank moves the key also when the wishes stay. */
    assert_int_equal(want(ft, 2, 70, shared_flow(2, 0), NOTHING), 1);
    assert_int_equal(flowtab_conflict(ft, 2), 3);
    assert_int_equal(want(ft, 1, -1, shared_flow(1, 0), NOTHING), 1);
    assert_int_equal(flowtab_conflict(ft, 3), 1);
    assert_int_equal(want(ft, 3, 50, NOTHING), 0);
    assert_int_equal(want(ft, 1, -1, NOTHING), 1);
    assert_int_equal(flowtab_conflict(ft, 2), 0);
    assert_order(ft, "");
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
    struct flowtab *ft = ready();

    for (size_t i = 0; i < ARRAY_SIZE(owners); i++) {
        struct fout items = FOUT_INIT;
        struct flowtab_batch *batch;

        fout_add(&items, shared_flow(owners[i].id, 0));
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
    struct flowtab *ft = ready();
    struct flowtab_batch *batch;

    want(ft, 1, 0, flow(1, 0, 0, 0), NOTHING);
    flush(ft);
    /* The same key, of another object. */
    flowtab_have(ft, flowtext_make_flow(cookie_make(COOKIE_SERVICE, 77), 1, 0,
                                        0, 0));
    want(ft, 1, 0, NOTHING);
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
    struct flowtab *ft = ready();

    want(ft, 1, 0, group(GROUP(1), 1, 0), flow(1, 0, 0, GROUP(1)), NOTHING);
    flush(ft);
    flowtab_have_not(ft, flow(1, 0, 0, GROUP(1)));
    flowtab_have_not(ft, group(GROUP(1), 1, 0));
    assert_order(ft, " +group +flow");
    flowtab_have(ft, flow(1, 0, 9, 0));
    assert_order(ft, " +flow");
    flowtab_have(ft, group(GROUP(1), 9, 0));
    assert_order(ft, " +group");
    flowtab_have(ft, flow(5, 5, 5, 0));
    flowtab_have(ft, group(GROUP(5), 5, 0));
    assert_order(ft, " -flow -group");
    flowtab_have_not(ft, flow(6, 6, 6, 0));
    assert_true(flowtab_in_sync(ft));
    flowtab_destroy(ft);
}

static void
what_is_not_ours_gives_way_or_is_left_alone(void **state OVS_UNUSED)
{
    struct flowtab *ft = ready();

    want(ft, 1, 0, flow(1, 0, 0, 0), NOTHING);
    flush(ft);
    flowtab_have(ft, flowtext_make_flow(0x1234, 1, 0, 0, 0));
    flowtab_have(ft, flowtext_make_flow(0x1234, 2, 0, 0, 0));
    flowtab_have(ft, group(17, 1, 0));
    assert_int_equal(stats(ft).n_unwanted, 0);
    assert_order(ft, " +flow");
    assert_true(flowtab_in_sync(ft));
    flowtab_destroy(ft);
}

static void
success_overrides_what_was_said_before_it(void **state OVS_UNUSED)
{
    struct flowtab *ft = ready();
    struct flowtab_batch *batch;

    want(ft, 1, 0, flow(1, 0, 0, 0), NOTHING);
    batch = flowtab_take(ft, 100, 100000);
    flowtab_have(ft, flow(1, 0, 7, 0));
    flowtab_have_not(ft, flow(1, 0, 7, 0));
    flowtab_batch_done(ft, batch);
    assert_true(flowtab_in_sync(ft));

    flowtab_have_not(ft, flow(1, 0, 0, 0));
    assert_order(ft, " +flow");
    flowtab_destroy(ft);
}

static void
refusal_leaves_what_was_said_before_it(void **state OVS_UNUSED)
{
    struct flowtab *ft = ready();
    struct flowtab_batch *batch;

    want(ft, 1, 0, flow(1, 0, 0, 0), NOTHING);
    batch = flowtab_take(ft, 100, 100000);
    flowtab_have(ft, flow(1, 0, 0, 0));
    flowtab_batch_refused(ft, batch, 0, "no", 0, 0);
    assert_null(flowtab_take(ft, 100, 100000));
    flowtab_run(ft, 100000);
    assert_true(flowtab_in_sync(ft));
    flowtab_destroy(ft);
}

static void
deletion_does_not_count_for_a_flow_with_another_cookie(void **state OVS_UNUSED)
{
    struct flowtab *ft = ready();
    struct flowtab_batch *batch;

    flowtab_have(ft, group(GROUP(1), 1, 0));
    flowtab_have(ft, flow(1, 0, 0, GROUP(1)));
    batch = flowtab_take(ft, 1, 100000);
    assert_int_equal(batch->changes[0].op, FLOWTAB_DELETE);
    flowtab_have(ft, flowtext_make_flow(cookie_make(COOKIE_SERVICE, 77), 1, 0,
                                        0, GROUP(1)));
    flowtab_batch_done(ft, batch);
    assert_int_equal(stats(ft).n_unwanted, 2);
    assert_order(ft, " -flow -group");
    assert_true(flowtab_in_sync(ft));
    flowtab_destroy(ft);
}

static void
wish_that_changes_while_it_is_in_flight_is_sent_next(void **state OVS_UNUSED)
{
    struct flowtab *ft = ready();
    struct flowtab_batch *batch;

    want(ft, 1, 0, flow(1, 0, 0, 0), flow(1, 1, 0, 0), NOTHING);
    batch = flowtab_take(ft, 100, 100000);
    want(ft, 1, 0, flow(1, 0, 5, 0), NOTHING);
    assert_null(flowtab_find_set_aside(ft, 1));
    assert_int_equal(stats(ft).n_dirty, 0);
    flowtab_batch_done(ft, batch);
    assert_order(ft, " +flow -flow");

    want(ft, 1, 0, NOTHING);
    batch = flowtab_take(ft, 100, 100000);
    assert_int_equal(batch->n, 1);
    want(ft, 1, 0, flow(1, 0, 5, 0), NOTHING);
    flowtab_batch_done(ft, batch);
    assert_order(ft, " +flow");
    flowtab_destroy(ft);
}

/* Lost replies. */

static void
c7_lost_reply_is_followed_by_a_dump_and_nothing_twice(void **state OVS_UNUSED)
{
    for (int applied = 0; applied < 2; applied++) {
        for (int forget_first = 0; forget_first < 2; forget_first++) {
            struct flowtab *ft = ready();
            struct flowtab_batch *batch;

            want(ft, 1, 0, group(GROUP(1), 1, 0), flow(1, 0, 0, GROUP(1)),
                 NOTHING);
            batch = flowtab_take(ft, 100, 100000);
            if (forget_first) {
                flowtab_forget(ft);
            }
            flowtab_batch_lost(ft, batch);
            assert_null(flowtab_take(ft, 100, 100000));
            assert_int_equal(stats(ft).n_in_flight, 0);
            flowtab_dump_begin(ft);
            if (applied) {
                flowtab_have(ft, flow(1, 0, 0, GROUP(1)));
                flowtab_have(ft, group(GROUP(1), 1, 0));
            }
            flowtab_dump_end(ft);
            assert_order(ft, applied ? "" : " +group +flow");
            assert_true(flowtab_in_sync(ft));
            flowtab_destroy(ft);
        }
    }
}

static void
batch_that_comes_back_after_a_new_dump_changes_nothing(void **state OVS_UNUSED)
{
    for (int how = 0; how < 3; how++) {
        struct flowtab *ft = ready();
        struct flowtab_batch *batch;

        want(ft, 1, 0, flow(1, 0, 0, 0), NOTHING);
        batch = flowtab_take(ft, 100, 100000);
        flowtab_dump_begin(ft);
        flowtab_dump_end(ft);
        switch (how) {
        case 0: flowtab_batch_done(ft, batch); break;
        case 1: flowtab_batch_refused(ft, batch, 0, "no", 0, 0); break;
        case 2: flowtab_batch_lost(ft, batch); break;
        }
        assert_int_equal(stats(ft).n_set_aside, 0);
        assert_order(ft, " +flow");
        flowtab_destroy(ft);
    }
}

/* Refusals. */

static void
b17_refused_owner_is_tried_again_with_growing_waits(void **state OVS_UNUSED)
{
    struct flowtab *ft = ready();
    long long int now_ms = 1000;
    long long int waits[8];

    want(ft, 1, 0, group(GROUP(1), 1, 0), flow(1, 0, 0, GROUP(1)), NOTHING);
    for (size_t i = 0; i < ARRAY_SIZE(waits); i++) {
        struct flowtab_batch *batch = flowtab_take(ft, 100, 100000);
        assert_int_equal(batch->n, 2);
        assert_null(flowtab_find_set_aside(ft, 1));
        flowtab_batch_refused(ft, batch, 1, "bad flow", now_ms, 0);
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
    assert_order(ft, " +group +flow");
    assert_true(flowtab_in_sync(ft));
    want(ft, 1, 0, flow(1, 0, 7, 0), NOTHING);
    flowtab_batch_refused(ft, flowtab_take(ft, 1, 100000), 0, "no", 9000000,
                          0);
    assert_int_equal(flowtab_find_set_aside(ft, 1)->retry_ms, 9000500);
    assert_int_equal(flowtab_find_set_aside(ft, 1)->n_tries, 1);
    assert_int_equal(stats(ft).n_refused, 9);
    flowtab_destroy(ft);
}

static void
random_number_spreads_the_waits(void **state OVS_UNUSED)
{
    struct flowtab *ft = ready();

    want(ft, 1, 0, flow(1, 0, 0, 0), NOTHING);
    flowtab_batch_refused(ft, flowtab_take(ft, 1, 100000), 0, "no", 0,
                          UINT32_MAX);
    assert_in_range(flowtab_find_set_aside(ft, 1)->retry_ms, 990, 1000);
    flowtab_destroy(ft);
}

static void
one_bad_owner_does_not_block_the_others(void **state OVS_UNUSED)
{
    struct flowtab *ft = ready();
    struct flowtab_batch *batch;

    for (uint32_t i = 1; i <= 5; i++) {
        want(ft, i, 0, group(GROUP(i), 1, 0), flow(i, 0, 0, GROUP(i)),
             NOTHING);
    }
    batch = flowtab_take(ft, 100, 100000);
    assert_int_equal(batch->n, 10);
    size_t bad = 0;
    while (batch->changes[bad].owner != 3) {
        bad++;
    }
    flowtab_batch_refused(ft, batch, bad, "no", 0, 0);
    batch = flowtab_take(ft, 100, 100000);
    assert_int_equal(batch->n, 8);
    for (size_t i = 0; i < batch->n; i++) {
        assert_int_not_equal(batch->changes[i].owner, 3);
    }
    flowtab_batch_done(ft, batch);
    assert_null(flowtab_take(ft, 100, 100000));
    assert_int_equal(stats(ft).n_set_aside, 1);
    assert_int_equal(stats(ft).n_dirty, 0);
    assert_false(flowtab_in_sync(ft));
    flowtab_destroy(ft);
}

static void
owner_that_is_set_aside_keeps_what_it_has(void **state OVS_UNUSED)
{
    struct flowtab *ft = ready();
    struct flowtab_batch *batch;

    want(ft, 1, 0, group(GROUP(1), 1, 0), flow(1, 0, 0, GROUP(1)),
         flow(1, 1, 0, GROUP(1)), NOTHING);
    flush(ft);
    want(ft, 1, 0, group(LOCAL(1), 1, 0), flow(1, 0, 0, LOCAL(1)), NOTHING);
    batch = flowtab_take(ft, 1, 100000);
    flowtab_batch_refused(ft, batch, 0, "no", 0, 0);
    assert_null(flowtab_take(ft, 100, 100000));

    /* When it leaves, all goes. */
    want(ft, 1, 0, NOTHING);
    assert_int_equal(stats(ft).n_set_aside, 0);
    assert_order(ft, " -flow -flow -group");
    assert_true(flowtab_in_sync(ft));
    flowtab_destroy(ft);
}

static void
owner_with_new_wishes_is_tried_at_once(void **state OVS_UNUSED)
{
    struct flowtab *ft = ready();

    want(ft, 1, 0, flow(1, 0, 0, 0), flow(1, 1, 0, 0), NOTHING);
    flowtab_batch_refused(ft, flowtab_take(ft, 100, 100000), 0, "no", 0, 0);
    want(ft, 1, 0, flow(1, 0, 0, 0), flow(1, 1, 0, 0), NOTHING);
    assert_null(flowtab_take(ft, 100, 100000));
    want(ft, 1, 0, flow(1, 1, 0, 0), NOTHING);
    assert_order(ft, " +flow");
    assert_true(flowtab_in_sync(ft));
    flowtab_destroy(ft);
}

static void
owner_is_not_blamed_for_a_wish_that_it_has_given_up(void **state OVS_UNUSED)
{
    struct flowtab *ft = ready();
    struct flowtab_batch *batch;

    want(ft, 1, 0, flow(1, 0, 0, 0), NOTHING);
    want(ft, 2, 0, shared_flow(2, 0), NOTHING);
    batch = flowtab_take(ft, 100, 100000);
    want(ft, 1, 0, flow(1, 1, 0, 0), NOTHING);
    flowtab_batch_refused(ft, batch, 0, "no", 0, 0);
    assert_int_equal(stats(ft).n_set_aside, 0);

    /* Nor for what another wanted at the same key. */
    batch = flowtab_take(ft, 100, 100000);
    size_t shared = batch->changes[0].owner == 2 ? 0 : 1;
    want(ft, 1, -1, shared_flow(1, 0), NOTHING);
    flowtab_batch_refused(ft, batch, shared, "no", 0, 0);
    assert_int_equal(stats(ft).n_set_aside, 0);
    assert_order(ft, " +flow");
    flowtab_destroy(ft);
}

static void
owner_whose_wish_changed_in_flight_waits_shortly(void **state OVS_UNUSED)
{
    struct flowtab *ft = ready();
    struct flowtab_batch *batch;
    long long int now_ms = 0;

    want(ft, 1, 0, flow(1, 0, 0, 0), NOTHING);
    for (uint32_t i = 1; i < 6; i++) {
        batch = flowtab_take(ft, 100, 100000);
        want(ft, 1, 0, flow(1, 0, i, 0), NOTHING);
        flowtab_batch_refused(ft, batch, 0, "no", now_ms, 0);
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
    struct flowtab *ft = ready();
    struct flowtab_batch *batch;

    for (uint32_t i = 1; i <= 4; i++) {
        flowtab_have(ft, flow(i, 0, 0, 0));
    }
    batch = flowtab_take(ft, 100, 100000);
    assert_int_equal(batch->n, 4);
    struct fitem *bad = fitem_ref(batch->changes[2].item);
    flowtab_batch_refused(ft, batch, 2, "no", 0, 0);
    assert_int_equal(stats(ft).n_set_aside, 1);
    assert_order(ft, " -flow -flow -flow");
    assert_int_equal(stats(ft).n_unwanted, 1);

    flowtab_run(ft, 500);
    batch = flowtab_take(ft, 100, 100000);
    assert_true(fitem_equals(batch->changes[0].item, bad));
    flowtab_batch_refused(ft, batch, 0, "no", 500, 0);
    assert_int_equal(flowtab_run(ft, 500), 1500);

    /* It stops being a leftover when somebody wants it. */
    want(ft, 1, 0, fitem_ref(bad), NOTHING);
    assert_int_equal(stats(ft).n_set_aside, 0);
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
            flowtab_batch_refused(ft, batch, SIZE_MAX, "no", 0, 0);
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
        struct flowtab *ft = ready();
        struct flowtab_batch *batch;

        for (uint32_t i = 1; i <= 1000; i++) {
            want(ft, i, 0, flow(i, 0, 0, 0), NOTHING);
        }
        assert_in_range(search(ft, guilty), 1, 60);
        assert_int_equal(stats(ft).n_set_aside, 1);

        /* Then the batches grow again. */
        size_t n_batches = 0;
        while ((batch = flowtab_take(ft, 1000, 1000000))) {
            flowtab_batch_done(ft, batch);
            n_batches++;
        }
        assert_in_range(n_batches, 0, 11);
        assert_int_equal(stats(ft).n_dirty, 0);
        want(ft, 2000, 0, flow(2000, 0, 0, 0), NOTHING);
        assert_order(ft, " +flow");
        flowtab_destroy(ft);
    }
}

static void
refused_changes_are_the_first_to_go_again(void **state OVS_UNUSED)
{
    struct flowtab *ft = ready();
    struct flowtab_batch *batch;

    for (uint32_t i = 0; i < 8; i++) {
        want(ft, 10 + i, 0, flow(10 + i, 0, 0, 0), NOTHING);
    }
    batch = flowtab_take(ft, 4, 100000);
    want(ft, 1, 0, flow(1, 0, 0, 0), NOTHING);
    for (size_t n = 4; n > 1; n /= 2) {
        assert_int_equal(batch->n, n);
        assert_int_equal(batch->changes[0].owner, 10);
        assert_int_equal(batch->changes[n - 1].owner, 10 + n - 1);
        flowtab_batch_refused(ft, batch, SIZE_MAX, "no", 0, 0);
        batch = flowtab_take(ft, 4, 100000);
    }
    flowtab_batch_done(ft, batch);
    flowtab_destroy(ft);
}

static void
switch_that_refuses_all_is_asked_once_for_each_owner(void **state OVS_UNUSED)
{
    struct flowtab *ft = ready();
    struct flowtab_batch *batch;
    size_t n = 0;

    for (uint32_t i = 1; i <= 100; i++) {
        want(ft, i, 0, flow(i, 0, 0, 0), NOTHING);
    }
    while ((batch = flowtab_take(ft, 1000, 1000000))) {
        flowtab_batch_refused(ft, batch, SIZE_MAX, "no", 0, 0);
        n++;
    }
    assert_in_range(n, 100, 110);
    assert_int_equal(stats(ft).n_set_aside, 100);
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
    struct flowtab *ft = ready();
    struct seen seen = { 0, 0 };
    size_t n = 0;

    flowtab_have(ft, flow(9, 0, 0, 0));
    want(ft, 1, 0, flow(1, 0, 0, 0), shared_flow(1, 0), NOTHING);
    flush(ft);
    want(ft, 2, 0, flow(2, 0, 0, 0), shared_flow(2, 0), NOTHING);
    flowtab_batch_refused(ft, flowtab_take(ft, 1, 100000), 0, "no", 0, 0);

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
    struct flowtab *ft = ready();

    flowtab_have(ft, flow(9, 0, 0, GROUP(9)));
    flowtab_have(ft, flow(8, 0, 0, 0));
    flowtab_batch_refused(ft, flowtab_take(ft, 1, 100000), 0, "no", 0, 0);
    want(ft, 1, 0, flow(1, 0, 0, GROUP(1)), shared_flow(1, 0), NOTHING);
    want(ft, 2, 0, group(GROUP(2), 1, LEAF(2)), shared_flow(2, 0), NOTHING);
    flowtab_batch_refused(ft, flowtab_take(ft, 1, 100000), 0, "no", 0, 0);
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
        cmocka_unit_test(unchanged_wishes_are_no_change_in_any_order),
        cmocka_unit_test(b2_deleted_and_wanted_again_at_once_is_no_change),
        cmocka_unit_test(b5_key_of_two_owners_stays_until_the_last_one_leaves),
        cmocka_unit_test(b7_thousand_services_come_and_go_without_a_trace),
        cmocka_unit_test(lower_rank_then_lower_id_has_the_key),
        cmocka_unit_test(first_name_has_the_key_among_equal_ranks),
        cmocka_unit_test(b8_deletion_carries_what_is_installed),
        cmocka_unit_test(c13_what_a_foreign_hand_changes_is_repaired),
        cmocka_unit_test(what_is_not_ours_gives_way_or_is_left_alone),
        cmocka_unit_test(success_overrides_what_was_said_before_it),
        cmocka_unit_test(refusal_leaves_what_was_said_before_it),
        cmocka_unit_test(
            deletion_does_not_count_for_a_flow_with_another_cookie),
        cmocka_unit_test(wish_that_changes_while_it_is_in_flight_is_sent_next),
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
        cmocka_unit_test(state_can_be_listed),
        cmocka_unit_test(table_can_be_destroyed_in_any_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
