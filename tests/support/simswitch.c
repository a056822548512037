/* SPDX-License-Identifier: Apache-2.0 */
/* A simulated switch: a list of items, checked and changed batch by batch, and
 * a queue of what it says. */

#include "simswitch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <openvswitch/list.h>
#include <util.h>

#include "flowtext.h"
#include "ofproxyd/flow/cookie.h"

struct queued_msg {
    struct ovs_list node;
    struct sim_msg msg;
};

struct refusal {
    struct fitem *item;
    size_t n_times;
    bool nameless;
};

struct simswitch {
    struct fout items;
    bool connected;
    struct ovs_list stream; /* struct queued_msg. */
    uint64_t n_foreign;
    struct refusal *refusals;
    size_t n_refusals, allocated_refusals;
};

struct simswitch *
sim_create(void)
{
    struct simswitch *sim = xzalloc(sizeof *sim);

    ovs_list_init(&sim->stream);
    return sim;
}

void
sim_destroy(struct simswitch *sim)
{
    if (sim) {
        sim_disconnect(sim);
        sim_refuse_no_more(sim);
        fout_clear(&sim->items);
        free(sim->refusals);
        free(sim);
    }
}

/* What it holds. */

static struct fitem **
find(const struct simswitch *sim, const struct fitem *item)
{
    for (size_t i = 0; i < sim->items.n; i++) {
        if (fitem_key_equals(sim->items.items[i], item)) {
            return &sim->items.items[i];
        }
    }
    return NULL;
}

const struct fitem *
sim_find(const struct simswitch *sim, const struct fitem *item)
{
    struct fitem **p = find(sim, item);

    return p ? *p : NULL;
}

size_t
sim_count(const struct simswitch *sim)
{
    return sim->items.n;
}

const struct fitem *
sim_get(const struct simswitch *sim, size_t i)
{
    return sim->items.items[i];
}

/* Takes 'item'. */
static void
put(struct simswitch *sim, struct fitem *item)
{
    struct fitem **p = find(sim, item);

    if (p) {
        fitem_unref(*p);
        *p = item;
    } else {
        fout_add(&sim->items, item);
    }
}

static void
drop(struct simswitch *sim, struct fitem **p)
{
    fitem_unref(*p);
    *p = sim->items.items[--sim->items.n];
}

struct naming {
    const struct simswitch *sim;
    uint32_t group_id;
    bool found;   /* 'group_id' is named. */
    bool missing; /* A group that is named is missing. */
};

static void
check_named_group(uint32_t group_id, void *naming_)
{
    struct naming *naming = naming_;
    bool held = false;

    for (size_t i = 0; i < naming->sim->items.n; i++) {
        const struct fitem *item = naming->sim->items.items[i];
        held |= fitem_kind(item) == FITEM_GROUP
                && fitem_group_id(item) == group_id;
    }
    naming->found |= group_id == naming->group_id;
    naming->missing |= !held;
}

static struct naming
find_naming(const struct simswitch *sim, const struct fitem *item,
            uint32_t group_id)
{
    struct naming naming = { sim, group_id, false, false };

    fitem_for_each_group(item, check_named_group, &naming);
    return naming;
}

/* What it says. */

static void
say(struct simswitch *sim, const struct sim_msg *msg)
{
    if (sim->connected) {
        struct queued_msg *queued = xmalloc(sizeof *queued);
        queued->msg = *msg;
        if (msg->item) {
            queued->msg.item = fitem_ref(msg->item);
        }
        ovs_list_push_back(&sim->stream, &queued->node);
    }
}

static void
say_item(struct simswitch *sim, enum sim_msg_type type, struct fitem *item)
{
    say(sim, &(const struct sim_msg){ .type = type, .item = item });
}

bool
sim_pop(struct simswitch *sim, struct sim_msg *ret)
{
    if (ovs_list_is_empty(&sim->stream)) {
        return false;
    }
    struct queued_msg *queued = CONTAINER_OF(ovs_list_pop_front(&sim->stream),
                                             struct queued_msg, node);
    *ret = queued->msg;
    free(queued);
    return true;
}

void
sim_connect(struct simswitch *sim)
{
    sim->connected = true;
}

void
sim_disconnect(struct simswitch *sim)
{
    struct sim_msg msg;

    while (sim_pop(sim, &msg)) {
        fitem_unref(msg.item);
    }
    sim->connected = false;
}

void
sim_dump(struct simswitch *sim, enum fitem_kind kind)
{
    for (size_t i = 0; i < sim->items.n; i++) {
        if (fitem_kind(sim->items.items[i]) == kind) {
            say_item(sim, SIM_HAVE, sim->items.items[i]);
        }
    }
    say(sim, &(const struct sim_msg){ .type = SIM_DUMPED });
}

/* Foreign hands. */

static bool
is_ours(const struct fitem *item)
{
    return fitem_kind(item) == FITEM_GROUP
               ? group_id_is_ours(fitem_group_id(item))
               : cookie_is_ours(fitem_cookie(item));
}

void
sim_foreign_put(struct simswitch *sim, struct fitem *item)
{
    if (find_naming(sim, item, 0).missing) {
        fitem_unref(item);
        return;
    }
    sim->n_foreign++;
    say_item(sim, SIM_HAVE, item);
    put(sim, item);
}

/* Deletes all flows that name the group.  Returns how many of them were
 * ours. */
static size_t
cascade(struct simswitch *sim, uint32_t group_id)
{
    size_t n = 0;

    for (size_t i = sim->items.n; i-- > 0;) {
        struct fitem *item = sim->items.items[i];
        if (fitem_kind(item) == FITEM_FLOW
            && find_naming(sim, item, group_id).found) {
            say_item(sim, SIM_HAVE_NOT, item);
            n += is_ours(item);
            drop(sim, &sim->items.items[i]);
        }
    }
    return n;
}

void
sim_foreign_delete(struct simswitch *sim, const struct fitem *item)
{
    struct fitem **p = find(sim, item);

    if (!p) {
        return;
    }
    sim->n_foreign++;
    say_item(sim, SIM_HAVE_NOT, *p);
    if (fitem_kind(item) == FITEM_GROUP) {
        cascade(sim, fitem_group_id(item));
    }
    drop(sim, find(sim, item));
}

uint64_t
sim_n_foreign(const struct simswitch *sim)
{
    return sim->n_foreign;
}

/* Batches. */

void
sim_refuse(struct simswitch *sim, const struct fitem *item, size_t n_times,
           bool nameless)
{
    if (sim->n_refusals >= sim->allocated_refusals) {
        sim->refusals = x2nrealloc(sim->refusals, &sim->allocated_refusals,
                                   sizeof *sim->refusals);
    }
    sim->refusals[sim->n_refusals++] =
        (struct refusal){ fitem_ref(item), n_times, nameless };
}

void
sim_refuse_no_more(struct simswitch *sim)
{
    for (size_t i = 0; i < sim->n_refusals; i++) {
        fitem_unref(sim->refusals[i].item);
    }
    sim->n_refusals = 0;
}

static bool
refuses(struct simswitch *sim, const struct fitem *item, bool *ret_nameless)
{
    for (size_t i = 0; i < sim->n_refusals; i++) {
        struct refusal *refusal = &sim->refusals[i];
        if (refusal->n_times && fitem_key_equals(refusal->item, item)) {
            refusal->n_times--;
            *ret_nameless = refusal->nameless;
            return true;
        }
    }
    return false;
}

static void
fail_for(const struct fitem *item, const char *why)
{
    char *text = flowtext_format(item);

    fail_msg("%s: %s", why, text);
}

static bool
do_put(struct simswitch *sim, struct fitem *item, bool disturbed)
{
    if (find_naming(sim, item, 0).missing) {
        if (!disturbed) {
            fail_for(item, "put before a group that it names");
        }
        /* Open vSwitch only checks flows. */
        if (fitem_kind(item) == FITEM_FLOW) {
            return false;
        }
    }
    put(sim, fitem_ref(item));
    return true;
}

static void
do_delete(struct simswitch *sim, const struct fitem *item, bool disturbed)
{
    struct fitem **p = find(sim, item);

    if (fitem_kind(item) == FITEM_FLOW) {
        /* Restricted to the cookie. */
        if (p && fitem_cookie(*p) == fitem_cookie(item)) {
            drop(sim, p);
        } else if (!disturbed) {
            fail_for(item, "deletion of a flow that is not there");
        }
        return;
    }

    uint32_t group_id = fitem_group_id(item);
    if (cascade(sim, group_id) && !disturbed) {
        fail_for(item, "group deleted before its flows");
    }
    for (size_t i = 0; i < sim->items.n; i++) {
        if (find_naming(sim, sim->items.items[i], group_id).found
            && !disturbed) {
            fail_for(item, "group deleted before a group that names it");
        }
    }
    p = find(sim, item);
    if (p) {
        drop(sim, p);
    }
}

/* Returns false if the change is refused. */
static bool
do_change(struct simswitch *sim, const struct flowtab_change *change,
          bool disturbed, bool *ret_nameless)
{
    if (!is_ours(change->item)) {
        fail_for(change->item, "change of what is not ours");
    }
    if (refuses(sim, change->item, ret_nameless)) {
        return false;
    }
    if (change->op == FLOWTAB_PUT) {
        return do_put(sim, change->item, disturbed);
    }
    do_delete(sim, change->item, disturbed);
    return true;
}

static void
copy_items(const struct fout *src, struct fout *dst)
{
    for (size_t i = 0; i < src->n; i++) {
        fout_add(dst, fitem_ref(src->items[i]));
    }
}

/* Unsays what was said after 'last'. */
static void
unsay(struct simswitch *sim, const struct ovs_list *last)
{
    while (sim->stream.prev != last) {
        struct queued_msg *queued =
            CONTAINER_OF(ovs_list_pop_back(&sim->stream), struct queued_msg,
                         node);
        fitem_unref(queued->msg.item);
        free(queued);
    }
}

void
sim_send(struct simswitch *sim, const struct flowtab_batch *batch,
         bool disturbed)
{
    struct sim_msg result = { .type = SIM_RESULT, .bad = SIZE_MAX };
    const struct ovs_list *last = sim->stream.prev;
    struct fout backup = FOUT_INIT;

    copy_items(&sim->items, &backup);
    for (size_t i = 0; i < batch->n && !result.refused; i++) {
        bool nameless = false;
        if (!do_change(sim, &batch->changes[i], disturbed, &nameless)) {
            result.refused = true;
            result.bad = nameless ? SIZE_MAX : i;
        }
    }
    if (result.refused) {
        unsay(sim, last);
        fout_clear(&sim->items);
        sim->items = backup;
    } else {
        fout_clear(&backup);
    }
    say(sim, &result);
}
