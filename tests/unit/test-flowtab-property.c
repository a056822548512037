/* SPDX-License-Identifier: Apache-2.0 */
/* The flow table against a simulated switch, in random histories: owners that
 * want, change and leave, foreign hands, refusals with and without a name,
 * lost replies, connections that break, dumps that break off, restarts.
 *
 * Each step is checked against a model that is as plain as possible, and the
 * switch itself fails the test when a batch breaks the rules of OpenFlow (see
 * simswitch.h).  Each history ends with all trouble gone, and then the switch
 * must hold exactly what is wanted.
 *
 * The last seed that is printed is that of a history that failed;
 * FLOWTAB_SEED=<seed> repeats it, FLOWTAB_RUNS=<n> runs more of them. */

#include <inttypes.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <util.h>

#include "../support/envnum.h"
#include "../support/flowtext.h"
#include "../support/simswitch.h"
#include "ofproxyd/flow/cookie.h"
#include "ofproxyd/flow/flowtab.h"

#define N_OWNERS 8
#define N_SHARED 4 /* Keys that several owners want. */
#define N_STEPS  400

/* By owner id.  Some have none, some the same. */
static const char *const names[N_OWNERS + 1] = { NULL,  "b/b", NULL,
                                                 "a/z", "b/a", NULL,
                                                 "b/b", "c",   "a/z" };

struct model_owner {
    int64_t rank;
    struct fout wants;
};

struct world {
    uint64_t seed;
    struct flowtab *ft;
    struct simswitch *sim;
    struct model_owner owners[N_OWNERS + 1]; /* By id; the first is unused. */

    /* The client. */
    enum {
        DOWN,
        DUMP_FLOWS,
        DUMP_GROUPS,
        UP
    } state;
    struct fout mirror; /* What the switch said that it has, if ours. */
    bool complete;
    struct flowtab_batch *batch;
    bool sent;
    uint64_t n_foreign_seen; /* Foreign changes heard of. */
    uint64_t n_foreign_at_take;
    long long int now_ms;
};

static uint32_t
draw(struct world *w, uint32_t n)
{
    uint64_t z = w->seed += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t) ((z ^ z >> 31) % n);
}

/* Lists of items. */

static struct fitem **
list_find(const struct fout *list, const struct fitem *item)
{
    for (size_t i = 0; i < list->n; i++) {
        if (fitem_key_equals(list->items[i], item)) {
            return &list->items[i];
        }
    }
    return NULL;
}

static void
list_remove(struct fout *list, const struct fitem *item)
{
    struct fitem **p = list_find(list, item);

    if (p) {
        fitem_unref(*p);
        *p = list->items[--list->n];
    }
}

static void
list_set(struct fout *list, const struct fitem *item)
{
    list_remove(list, item);
    fout_add(list, fitem_ref(item));
}

static void
list_copy(struct fout *dst, const struct fout *src)
{
    for (size_t i = 0; i < src->n; i++) {
        fout_add(dst, fitem_ref(src->items[i]));
    }
}

/* Making items. */

/* Of flows, owner 0 stands for the keys that several owners want. */

static uint64_t
cookie_of(uint32_t owner)
{
    return cookie_make(COOKIE_SERVICE, owner);
}

/* Random wishes of 'owner': leaf groups, groups that may name them, flows that
 * may name the groups. */
static void
draw_wishes(struct world *w, uint32_t owner, struct fout *out)
{
    uint32_t groups[3];
    size_t n_groups = 0;

    groups[n_groups++] = 0;
    for (uint32_t local = 0; local < 2; local++) {
        uint32_t leaf = 0;
        if (!draw(w, 2)) {
            leaf = group_id_make(owner, local, 1 + draw(w, 2));
            fout_add(out, flowtext_make_group(leaf, 1 + draw(w, 2), 0));
        }
        if (draw(w, 2)) {
            groups[n_groups] = group_id_make(owner, local, 0);
            fout_add(out, flowtext_make_group(groups[n_groups++],
                                              1 + draw(w, 2), leaf));
        }
    }
    for (uint32_t k = 0; k < 4; k++) {
        if (draw(w, 2)) {
            fout_add(out,
                     flowtext_make_flow(cookie_of(owner), owner, k, draw(w, 2),
                                        groups[draw(w, n_groups)]));
        }
    }
    for (uint32_t k = 0; k < N_SHARED; k++) {
        if (!draw(w, 4)) {
            fout_add(out,
                     flowtext_make_flow(cookie_of(owner), 0, k, draw(w, 2),
                                        groups[draw(w, n_groups)]));
        }
    }
}

/* The model. */

static bool
precedes(const struct world *w, uint32_t a, uint32_t b)
{
    int cmp = strcmp(names[a] ? names[a] : "", names[b] ? names[b] : "");

    return w->owners[a].rank != w->owners[b].rank
               ? w->owners[a].rank < w->owners[b].rank
           : cmp ? cmp < 0
                 : a < b;
}

/* Returns the owner that has the key of 'item', or 0, and its item. */
static uint32_t
model_find(const struct world *w, const struct fitem *item,
           const struct fitem **ret)
{
    uint32_t best = 0;

    *ret = NULL;
    for (uint32_t id = 1; id <= N_OWNERS; id++) {
        struct fitem **p = list_find(&w->owners[id].wants, item);
        if (p && (!best || precedes(w, id, best))) {
            best = id;
            *ret = *p;
        }
    }
    return best;
}

/* All that is wanted. */
static void
model_collect(const struct world *w, struct fout *out)
{
    for (uint32_t id = 1; id <= N_OWNERS; id++) {
        const struct fout *wants = &w->owners[id].wants;
        for (size_t i = 0; i < wants->n; i++) {
            const struct fitem *item;
            if (model_find(w, wants->items[i], &item) == id) {
                fout_add(out, fitem_ref(item));
            }
        }
    }
}

/* Comparing. */

static void
fail_item(const struct fitem *item, const char *why)
{
    char *text = flowtext_format(item);

    fail_msg("%s: %s", why, text);
}

static void
assert_lists_equal(const struct fout *a, const struct fout *b,
                   const char *only_a, const char *only_b)
{
    for (size_t i = 0; i < a->n; i++) {
        struct fitem **p = list_find(b, a->items[i]);
        if (!p || !fitem_equals(*p, a->items[i])) {
            fail_item(a->items[i], only_a);
        }
    }
    for (size_t i = 0; i < b->n; i++) {
        if (!list_find(a, b->items[i])) {
            fail_item(b->items[i], only_b);
        }
    }
    assert_int_equal(a->n, b->n);
}

static void
collect_want(const struct fitem *want, const struct fitem *have OVS_UNUSED,
             void *out)
{
    fout_add(out, fitem_ref(want));
}

static void
collect_have(const struct fitem *have, void *out)
{
    fout_add(out, fitem_ref(have));
}

static void
check_stats(const struct world *w, const struct fout *wanted)
{
    struct flowtab_stats stats;
    size_t n_flows = 0, n_differ = 0, n_unwanted = 0;

    for (size_t i = 0; i < wanted->n; i++) {
        struct fitem **have = list_find(&w->mirror, wanted->items[i]);
        n_flows += fitem_kind(wanted->items[i]) == FITEM_FLOW;
        n_differ += !have || !fitem_equals(*have, wanted->items[i]);
    }
    for (size_t i = 0; i < w->mirror.n; i++) {
        n_unwanted += !list_find(wanted, w->mirror.items[i]);
    }

    flowtab_get_stats(w->ft, &stats);
    assert_int_equal(stats.n_flows, n_flows);
    assert_int_equal(stats.n_groups, wanted->n - n_flows);
    assert_int_equal(stats.n_unwanted, n_unwanted);
    assert_int_equal(stats.n_in_flight, w->batch ? w->batch->n : 0);
    if (w->state != UP) {
        assert_int_equal(stats.n_dirty + stats.n_held, 0);
        assert_false(flowtab_in_sync(w->ft));
    } else if (!w->batch && !stats.n_set_aside) {
        assert_int_equal(stats.n_dirty + stats.n_held, n_differ + n_unwanted);
        assert_int_equal(flowtab_in_sync(w->ft), !(n_differ + n_unwanted));
    }
}

static void
check_state(const struct world *w)
{
    struct fout wanted = FOUT_INIT, wants = FOUT_INIT, haves = FOUT_INIT;

    model_collect(w, &wanted);
    flowtab_for_each(w->ft, UINT64_MAX, collect_want, &wants);
    assert_lists_equal(&wants, &wanted, "wanted for no reason",
                       "wanted, but forgotten");
    flowtab_for_each_have(w->ft, collect_have, &haves);
    assert_lists_equal(&haves, &w->mirror, "not on the switch",
                       "on the switch, but forgotten");
    check_stats(w, &wanted);
    fout_clear(&wanted);
    fout_clear(&wants);
    fout_clear(&haves);

    for (uint32_t id = 1; id <= N_OWNERS; id++) {
        const struct fout *list = &w->owners[id].wants;
        uint64_t conflict = flowtab_conflict(w->ft, id);
        bool in_the_way = !conflict;
        for (size_t i = 0; i < list->n; i++) {
            const struct fitem *item;
            uint32_t winner = model_find(w, list->items[i], &item);
            in_the_way |= winner == conflict;
            assert_true(conflict || winner == id);
        }
        assert_true(in_the_way && conflict != id);
    }
}

/* What can happen. */

static void
want(struct world *w, uint32_t id, int64_t rank, struct fout *items)
{
    struct fout before = FOUT_INIT, after = FOUT_INIT;
    const struct flowtab_owner owner = { id, rank, names[id] };
    size_t n_changed = 0;

    model_collect(w, &before);
    fout_clear(&w->owners[id].wants);
    list_copy(&w->owners[id].wants, items);
    w->owners[id].rank = rank;
    model_collect(w, &after);
    for (size_t i = 0; i < after.n; i++) {
        struct fitem **p = list_find(&before, after.items[i]);
        n_changed += !p || !fitem_equals(*p, after.items[i]);
    }
    for (size_t i = 0; i < before.n; i++) {
        n_changed += !list_find(&after, before.items[i]);
    }

    size_t n = flowtab_want(w->ft, &owner, items);
    assert_int_equal(n, n_changed);
    if (n) {
        assert_null(flowtab_find_set_aside(w->ft, id));
    }
    assert_int_equal(items->n, 0);
    fout_clear(&before);
    fout_clear(&after);
}

static void
step_want(struct world *w)
{
    uint32_t id = 1 + draw(w, N_OWNERS);
    struct fout items = FOUT_INIT;

    switch (draw(w, 8)) {
    case 0: break;
    case 1:
    case 2: list_copy(&items, &w->owners[id].wants); break;
    default: draw_wishes(w, id, &items); break;
    }
    want(w, id, draw(w, 4) ? w->owners[id].rank : draw(w, 3), &items);
}

static void
step_complete(struct world *w)
{
    w->complete = draw(w, 4) != 0;
    flowtab_set_complete(w->ft, w->complete);
}

static void
hear(struct world *w, const struct fitem *item, bool have)
{
    bool ours = fitem_kind(item) == FITEM_GROUP
                    ? group_id_is_ours(fitem_group_id(item))
                    : cookie_is_ours(fitem_cookie(item));

    if (have && ours) {
        list_set(&w->mirror, item);
    } else {
        list_remove(&w->mirror, item);
    }
    if (have) {
        flowtab_have(w->ft, fitem_ref(item));
    } else {
        flowtab_have_not(w->ft, fitem_ref(item));
    }
}

/* The connection breaks. */
static void
go_down(struct world *w)
{
    if (w->batch && !w->sent && !draw(w, 2)) {
        sim_send(w->sim, w->batch,
                 w->n_foreign_at_take != sim_n_foreign(w->sim));
    }
    sim_disconnect(w->sim);
    fout_clear(&w->mirror);
    w->state = DOWN;
    bool forget_first = draw(w, 2);
    if (forget_first) {
        flowtab_forget(w->ft);
    }
    if (w->batch) {
        flowtab_batch_lost(w->ft, w->batch);
        w->batch = NULL;
    } else if (!forget_first) {
        flowtab_forget(w->ft);
    }
}

/* The daemon starts anew, and wants the same. */
static void
restart(struct world *w)
{
    go_down(w);
    flowtab_destroy(w->ft);
    w->ft = flowtab_create();
    flowtab_set_linger(w->ft, draw(w, 2) ? 1000 : 0);
    w->complete = false;
    for (uint32_t id = 1; id <= N_OWNERS; id++) {
        const struct flowtab_owner owner = { id, w->owners[id].rank,
                                             names[id] };
        struct fout items = FOUT_INIT;
        list_copy(&items, &w->owners[id].wants);
        flowtab_want(w->ft, &owner, &items);
    }
}

static void
go_up(struct world *w)
{
    sim_connect(w->sim);
    w->n_foreign_seen = sim_n_foreign(w->sim);
    flowtab_dump_begin(w->ft);
    sim_dump(w->sim, FITEM_FLOW);
    w->state = DUMP_FLOWS;
}

static void
hear_dumped(struct world *w)
{
    if (w->state == DUMP_FLOWS) {
        sim_dump(w->sim, FITEM_GROUP);
        w->state = DUMP_GROUPS;
    } else {
        flowtab_dump_end(w->ft);
        w->state = UP;
    }
}

static void
hear_result(struct world *w, const struct sim_msg *msg)
{
    struct flowtab_batch *batch = w->batch;

    w->batch = NULL;
    if (msg->refused) {
        const struct flowtab_refusal refusal = { msg->bad, "no", w->now_ms,
                                                 draw(w, UINT32_MAX) };
        flowtab_batch_refused(w->ft, batch, &refusal);
        return;
    }
    for (size_t i = 0; i < batch->n; i++) {
        const struct flowtab_change *change = &batch->changes[i];
        struct fitem **have = list_find(&w->mirror, change->item);
        if (change->op == FLOWTAB_PUT) {
            list_set(&w->mirror, change->item);
        } else if (have && fitem_cookie(*have) == fitem_cookie(change->item)) {
            list_remove(&w->mirror, change->item);
        }
    }
    flowtab_batch_done(w->ft, batch);
}

static bool
step_hear(struct world *w)
{
    struct sim_msg msg;

    if (w->state == DOWN) {
        go_up(w);
        return true;
    }
    if (!sim_pop(w->sim, &msg)) {
        w->n_foreign_seen = sim_n_foreign(w->sim);
        return false;
    }
    switch (msg.type) {
    case SIM_HAVE:
    case SIM_HAVE_NOT: hear(w, msg.item, msg.type == SIM_HAVE); break;
    case SIM_DUMPED: hear_dumped(w); break;
    case SIM_RESULT: hear_result(w, &msg); break;
    }
    fitem_unref(msg.item);
    return true;
}

static void
check_change(const struct world *w, const struct flowtab_change *change)
{
    const struct fitem *wanted;
    uint32_t owner = model_find(w, change->item, &wanted);
    struct fitem **have = list_find(&w->mirror, change->item);

    if (change->op == FLOWTAB_PUT) {
        assert_int_equal(change->owner, owner);
        assert_true(wanted && fitem_equals(wanted, change->item));
        assert_true(!have || !fitem_equals(*have, wanted));
    } else {
        assert_int_equal(owner, 0);
        assert_true(have && fitem_equals(*have, change->item));
    }
    if (!w->complete && (change->op != FLOWTAB_PUT || have)) {
        fail_item(change->item, "changed before all was listed");
    }
    if (flowtab_find_set_aside(w->ft, change->owner)) {
        fail_item(change->item, "sent though set aside");
    }
}

static void
step_take(struct world *w)
{
    size_t max_changes = 1 + draw(w, 40);
    size_t max_bytes = draw(w, 4) ? 4000 : draw(w, 400);

    if (w->batch) {
        return;
    }
    w->batch = flowtab_take(w->ft, max_changes, max_bytes);
    if (!w->batch) {
        return;
    }
    w->sent = false;
    w->n_foreign_at_take = w->n_foreign_seen;
    assert_int_equal(w->state, UP);
    assert_in_range(w->batch->n, 1, max_changes);

    size_t n_bytes = 0;
    for (size_t i = 0; i < w->batch->n; i++) {
        const struct flowtab_change *change = &w->batch->changes[i];
        check_change(w, change);
        n_bytes += change->op == FLOWTAB_PUT ? fitem_size(change->item) : 0;
    }
    assert_true(w->batch->n == 1 || n_bytes <= max_bytes);
}

static void
step_send(struct world *w)
{
    if (w->batch && !w->sent) {
        sim_send(w->sim, w->batch,
                 w->n_foreign_at_take != sim_n_foreign(w->sim));
        w->sent = true;
    }
}

/* Something for a foreign hand to put: under our cookies and ids or under its
 * own, at keys of ours or elsewhere. */
static struct fitem *
draw_foreign(struct world *w)
{
    uint32_t owner = draw(w, N_OWNERS + 3);
    uint64_t cookie = draw(w, 2) ? cookie_of(owner) : draw(w, 2) + 5;
    bool local = draw(w, 2);

    if (!draw(w, 3)) {
        return flowtext_make_group(draw(w, 5) ? group_id_make(owner, local,
                                                              draw(w, 3))
                                              : 17,
                                   1 + draw(w, 3), 0);
    }
    return flowtext_make_flow(cookie, owner, draw(w, 5), draw(w, 3),
                              draw(w, 2) ? group_id_make(owner, local, 0) : 0);
}

static void
step_foreign(struct world *w)
{
    if (draw(w, 2)) {
        sim_foreign_put(w->sim, draw_foreign(w));
    } else if (sim_count(w->sim)) {
        size_t i = draw(w, (uint32_t) sim_count(w->sim));
        struct fitem *item = fitem_ref(sim_get(w->sim, i));
        sim_foreign_delete(w->sim, item);
        fitem_unref(item);
    }
}

static void
step_refusal(struct world *w)
{
    uint32_t owner = draw(w, N_OWNERS);
    struct fitem *item =
        draw(w, 2)
            ? flowtext_make_group(group_id_make(owner, draw(w, 2), draw(w, 2)),
                                  1, 0)
            : flowtext_make_flow(0, owner, draw(w, 4), 0, 0);

    sim_refuse(w->sim, item, 1 + draw(w, 5), draw(w, 2));
    fitem_unref(item);
}

static void
step_time(struct world *w)
{
    w->now_ms += draw(w, 2000);
    long long int next = flowtab_run(w->ft, w->now_ms);
    assert_true(next > w->now_ms);
}

/* One random step; 'calm' leaves out the trouble. */
static void
step(struct world *w, bool calm)
{
    uint32_t what = draw(w, calm ? 70 : 100);

    if (what < 30) {
        step_hear(w);
    } else if (what < 45) {
        step_take(w);
    } else if (what < 60) {
        step_send(w);
    } else if (what < 70) {
        step_time(w);
    } else if (what < 84) {
        step_want(w);
    } else if (what < 92) {
        step_foreign(w);
    } else if (what < 96) {
        step_refusal(w);
    } else if (what < 98) {
        step_complete(w);
    } else if (draw(w, 4)) {
        go_down(w);
    } else {
        restart(w);
    }
    check_state(w);
}

/* The end of a history. */

static void
calm_down(struct world *w)
{
    w->complete = true;
    flowtab_set_complete(w->ft, true);
    sim_refuse_no_more(w->sim);
    for (int i = 0; i < 20000; i++) {
        step(w, true);
        if (flowtab_in_sync(w->ft) && !w->batch && !step_hear(w)) {
            return;
        }
    }
    fail_msg("never in sync");
}

/* The switch has what is wanted; the rest of what it has is not ours. */
static void
check_switch(const struct world *w)
{
    struct fout wanted = FOUT_INIT, ours = FOUT_INIT;

    model_collect(w, &wanted);
    for (size_t i = 0; i < sim_count(w->sim); i++) {
        const struct fitem *item = sim_get(w->sim, i);
        if (list_find(&wanted, item)
            || (fitem_kind(item) == FITEM_GROUP
                    ? group_id_is_ours(fitem_group_id(item))
                    : cookie_is_ours(fitem_cookie(item)))) {
            fout_add(&ours, fitem_ref(item));
        }
    }
    assert_lists_equal(&ours, &wanted, "left on the switch",
                       "missing on the switch");
    fout_clear(&wanted);
    fout_clear(&ours);
}

/* A fresh table with the same wishes finds nothing to do. */
static void
check_restart(struct world *w)
{
    restart(w);
    w->complete = true;
    flowtab_set_complete(w->ft, true);
    do {
        step_hear(w);
    } while (w->state != UP);
    check_state(w);
    assert_null(flowtab_take(w->ft, SIZE_MAX, SIZE_MAX));
    assert_true(flowtab_in_sync(w->ft));
}

static void
run_history(uint64_t seed)
{
    struct world w = { .seed = seed };

    w.ft = flowtab_create();
    flowtab_set_linger(w.ft, draw(&w, 2) ? 1000 : 0);
    w.sim = sim_create();
    for (int i = 0; i < 10; i++) {
        step_foreign(&w);
    }
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < N_STEPS; i++) {
            step(&w, false);
        }
        calm_down(&w);
        check_switch(&w);
    }
    check_restart(&w);

    for (uint32_t id = 1; id <= N_OWNERS; id++) {
        fout_clear(&w.owners[id].wants);
    }
    fout_clear(&w.mirror);
    flowtab_destroy(w.ft);
    sim_destroy(w.sim);
}

static void
b17_every_history_ends_with_the_wanted_state(void **state OVS_UNUSED)
{
    uint64_t seed = envnum("FLOWTAB_SEED", 1);
    uint64_t n = envnum("FLOWTAB_RUNS", 150);

    print_message("seeds:");
    for (uint64_t i = 0; i < n; i++) {
        print_message("%s%" PRIu64, i % 20 ? " " : "\n", seed + i);
        run_history(seed + i);
    }
    print_message("\n");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(b17_every_history_ends_with_the_wanted_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
