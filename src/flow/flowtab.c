/* SPDX-License-Identifier: Apache-2.0 */

/* The flow table's keys: where each queues, and what the switch has.
 *
 * A group may only go when no flow names it any more: deleting a group deletes
 * its flows, silently.  The order of the queues is not enough for that.  A
 * flow that was to be led away from the group may have been refused, and its
 * owner set aside; after a restart nobody may even know whose the group is.
 * So the groups count their users: 'n_users' says how many items that the
 * switch has, or will have when the batch that is out has arrived, name the
 * group, and its deletion is held until that is zero. */

#include "ofproxyd/flow/flowtab.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <util.h>

#include "flowtab-private.h"
#include "ofproxyd/base/map.h"
#include "ofproxyd/flow/cookie.h"

/* The flow that a switch without a controller, in fail_mode standalone, makes
 * for itself. */
static struct fitem *
create_normal(void)
{
    struct ofpact_output output;
    struct match match;

    ofpact_init_OUTPUT(&output);
    output.port = OFPP_NORMAL;
    match_init_catchall(&match);
    return fitem_from_flow(&(struct fitem_flow){
        .match = &match,
        .ofpacts = &output.ofpact,
        .ofpacts_len = sizeof output,
    });
}

struct flowtab *
flowtab_create(void)
{
    struct flowtab *ft = xzalloc(sizeof *ft);

    hmap_init(&ft->keys);
    hmap_init(&ft->owners);
    ovs_list_init(&ft->asides);
    for (size_t i = FIRST_QUEUE; i <= LAST_QUEUE; i++) {
        ovs_list_init(&ft->queues[i]);
    }
    ovs_list_init(&ft->lingering);
    ovs_list_init(&ft->leaving);
    ft->retry_ms = LLONG_MAX;
    ft->linger_until_ms = LLONG_MAX;
    ft->learned_table = -1;
    ft->normal = create_normal();
    return ft;
}

/* Nobody wants anything any more.  The owners are listed first: the table may
 * not be changed while it is gone through, and to look for the first one again
 * and again takes a time that grows with the square of their number. */
static void
want_nothing(struct flowtab *ft)
{
    size_t n = hmap_count(&ft->owners), i = 0;
    struct flowtab_owner *owners = xcalloc(n, sizeof *owners);
    const struct ftowner *owner;

    HMAP_FOR_EACH (owner, node, &ft->owners) {
        owners[i].id = owner->id;
        owners[i++].rank = owner->rank;
    }
    for (i = 0; i < n; i++) {
        struct fout none = FOUT_INIT;

        flowtab_want(ft, &owners[i], &none);
    }
    free(owners);
}

void
flowtab_destroy(struct flowtab *ft)
{
    if (!ft) {
        return;
    }

    want_nothing(ft);
    flowtab_forget(ft);
    ovs_assert(hmap_is_empty(&ft->keys) && ovs_list_is_empty(&ft->asides));
    hmap_destroy(&ft->keys);
    hmap_destroy(&ft->owners);
    fitem_unref(ft->normal);
    free(ft);
}

/* Finding keys. */

static const struct fitem *
key_item(const struct ftkey *key)
{
    return key->want                       ? key->want
           : key->have                     ? key->have
           : key->place == PLACE_IN_FLIGHT ? key->flight.item
                                           : NULL;
}

bool
key_matches(const struct ftkey *key, const struct fitem *item)
{
    if (key->node.hash != fitem_key_hash(item)) {
        return false;
    }
    if (fitem_kind(item) == FITEM_GROUP) {
        return key->is_group && key->group_id == fitem_group_id(item);
    }
    return !key->is_group && fitem_key_equals(key_item(key), item);
}

struct ftkey *
key_find(const struct flowtab *ft, const struct fitem *item)
{
    struct ftkey *key;

    HMAP_FOR_EACH_WITH_HASH (key, node, fitem_key_hash(item), &ft->keys) {
        if (key_matches(key, item)) {
            return key;
        }
    }
    return NULL;
}

static struct ftkey *
find_group(const struct flowtab *ft, uint32_t group_id)
{
    uint32_t hash = fitem_group_hash(group_id);
    struct ftkey *key;

    HMAP_FOR_EACH_WITH_HASH (key, node, hash, &ft->keys) {
        if (key->is_group && key->group_id == group_id) {
            return key;
        }
    }
    return NULL;
}

static struct ftkey *
create_key(struct flowtab *ft, uint32_t hash)
{
    struct ftkey *key = xzalloc(sizeof *key);

    hmap_insert(&ft->keys, &key->node, hash);
    ft->n_places[PLACE_NONE]++;
    return key;
}

static struct ftkey *
create_group_key(struct flowtab *ft, uint32_t group_id)
{
    struct ftkey *key = create_key(ft, fitem_group_hash(group_id));

    key->is_group = true;
    key->group_id = group_id;
    return key;
}

/* A flow's new key can't be found before it has an item. */
struct ftkey *
key_find_or_create(struct flowtab *ft, const struct fitem *item)
{
    struct ftkey *key = key_find(ft, item);

    if (key) {
        return key;
    }
    return fitem_kind(item) == FITEM_GROUP
               ? create_group_key(ft, fitem_group_id(item))
               : create_key(ft, fitem_key_hash(item));
}

/* Placing keys. */

static bool
is_queue(unsigned int place)
{
    return place >= FIRST_QUEUE && place <= LAST_QUEUE;
}

/* The list for keys in 'place', or NULL. */
static struct ovs_list *
place_list(struct flowtab *ft, unsigned int place)
{
    return is_queue(place)         ? &ft->queues[place]
           : place == PLACE_LINGER ? &ft->lingering
                                   : NULL;
}

static enum place
find_queue(const struct ftkey *key)
{
    if (!key->is_group) {
        return key->want ? PLACE_FLOW_PUT : PLACE_FLOW_DELETE;
    } else if (group_id_is_leaf(key->group_id)) {
        return key->want ? PLACE_LEAF_PUT : PLACE_LEAF_DELETE;
    } else {
        return key->want ? PLACE_GROUP_PUT : PLACE_GROUP_DELETE;
    }
}

/* Where 'key', which is not in flight, belongs. */
static enum place
find_place(const struct flowtab *ft, const struct ftkey *key)
{
    /* Equal items are shared: see key_share(). */
    if (!ft->known || key->want == key->have) {
        return PLACE_NONE;
    } else if (key->owner && owner_is_aside(key->owner)) {
        return PLACE_ASIDE;
    } else if ((!ft->complete && key->have) || (!key->want && key->n_users)) {
        return PLACE_HELD;
    } else if (!key->want && key->is_group && ft->linger_ms
               && !key->lingered) {
        return PLACE_LINGER;
    } else {
        return find_queue(key);
    }
}

/* Counts 'have' if it is a predecessor's. */
static void
count_old(struct flowtab *ft, const struct fitem *have, int delta)
{
    if (fitem_kind(have) == FITEM_GROUP) {
        ft->stats.n_old_groups +=
            group_id_is_ours(fitem_group_id(have)) ? 0 : delta;
    } else if (!cookie_is_current(fitem_cookie(have))) {
        ft->stats.n_old_flows += delta;
        ft->n_old_entries += fitem_table(have) ? 0 : delta;
    }
}

static void
count_key(struct flowtab *ft, const struct ftkey *key, int delta)
{
    if (key->have) {
        count_old(ft, key->have, delta);
    }
    if (key->want) {
        *(key->is_group ? &ft->stats.n_groups : &ft->stats.n_flows) += delta;
    } else if (key->have) {
        ft->stats.n_unwanted += delta;
    }
    ft->n_places[key->place] += delta;
    if (key->owner && key->place != PLACE_NONE && key->place != PLACE_ASIDE) {
        key->owner->n_pending += delta;
    }
}

void
key_lift(struct flowtab *ft, struct ftkey *key)
{
    count_key(ft, key, -1);
    if (place_list(ft, key->place)) {
        ovs_list_remove(&key->queue_node);
    }
}

static bool
key_is_empty(const struct ftkey *key)
{
    return !key->want && !key->have && key->place != PLACE_IN_FLIGHT;
}

void
key_settle(struct flowtab *ft, struct ftkey *key, bool front)
{
    if (key_is_empty(key)) {
        key_disown(ft, key);
        if (!key->n_users) {
            hmap_remove(&ft->keys, &key->node);
            free(key);
            return;
        }
    }

    if (key->want || key->n_users) {
        key->lingered = false;
    }
    if (key->place != PLACE_IN_FLIGHT) {
        key->place = find_place(ft, key);

        struct ovs_list *list = place_list(ft, key->place);
        if (list && front) {
            ovs_list_push_front(list, &key->queue_node);
        } else if (list) {
            ovs_list_push_back(list, &key->queue_node);
        }
    }
    count_key(ft, key, 1);
}

/* Moves every key to where it belongs after something changed for all. */
static void
settle_all(struct flowtab *ft)
{
    struct ftkey *key;

    HMAP_FOR_EACH_SAFE (key, node, &ft->keys) {
        key_lift(ft, key);
        key_settle(ft, key, false);
    }
}

void
key_share(struct ftkey *key)
{
    if (key->want && key->have && key->want != key->have
        && fitem_equals(key->want, key->have)) {
        fitem_unref(key->have);
        key->have = fitem_ref(key->want);
    }
}

void
key_disown(struct flowtab *ft, struct ftkey *key)
{
    struct ftowner *owner = key->owner;

    if (owner) {
        ovs_list_remove(&key->owner_node);
        key->owner = NULL;
        if (!owner->id) {
            owner_free(ft, owner);
        }
    }
}

/* Users of groups. */

struct use_aux {
    struct flowtab *ft;
    int delta;
};

static void
use_group(uint32_t group_id, void *aux_)
{
    const struct use_aux *aux = aux_;
    struct ftkey *key = find_group(aux->ft, group_id);

    if (!key) {
        key = create_group_key(aux->ft, group_id);
    }

    /* Only the first and the last user make a difference. */
    uint32_t n_users = key->n_users + aux->delta;
    if (n_users && key->n_users) {
        key->n_users = n_users;
    } else {
        key_lift(aux->ft, key);
        key->n_users = n_users;
        key_settle(aux->ft, key, false);
    }
}

void
use_groups(struct flowtab *ft, const struct fitem *item, int delta)
{
    if (item) {
        struct use_aux aux = { ft, delta };
        fitem_for_each_group(item, use_group, &aux);
    }
}

/* What the switch has. */

void
flowtab_set_complete(struct flowtab *ft, bool complete)
{
    if (ft->complete != complete) {
        ft->complete = complete;
        settle_all(ft);
    }
}

/* Predecessors. */

void
flowtab_set_predecessor(struct flowtab *ft,
                        const struct flowtab_predecessor *predecessor)
{
    ft->predecessor = *predecessor;
}

const struct flowtab_predecessor *
flowtab_predecessor(const struct flowtab *ft)
{
    return &ft->predecessor;
}

void
flowtab_set_ready(struct flowtab *ft, bool ready)
{
    ft->ready = ready;
}

bool
flowtab_takes_over(const struct flowtab *ft)
{
    return ft->taking_over;
}

void
check_taken_over(struct flowtab *ft)
{
    if (!ft->stats.n_old_flows) {
        ft->taking_over = false;
    }
}

bool
flowtab_is_antrea(const struct flowtab *ft, const struct fitem *item)
{
    for (size_t i = 0; i < ft->predecessor.n_rounds; i++) {
        if (cookie_is_antrea(fitem_cookie(item), ft->predecessor.rounds[i])) {
            return true;
        }
    }
    return false;
}

void
flowtab_set_learned_table(struct flowtab *ft, uint8_t table)
{
    ft->learned_table = table;
}

int
flowtab_learned_table(const struct flowtab *ft)
{
    return ft->learned_table;
}

bool
flowtab_is_learned(const struct flowtab *ft, uint8_t table, uint16_t priority,
                   uint64_t cookie)
{
    return table == ft->learned_table && priority && cookie_is_learned(cookie);
}

/* A flow with a cookie of ours. */
static bool
is_ours(const struct flowtab *ft, const struct fitem *flow)
{
    uint64_t cookie = fitem_cookie(flow);

    return cookie_is_ours(cookie)
           && !flowtab_is_learned(ft, fitem_table(flow), fitem_priority(flow),
                                  cookie);
}

bool
flowtab_concerns(const struct flowtab *ft, const struct fitem *item)
{
    if (fitem_kind(item) == FITEM_GROUP) {
        return group_id_is_ours(fitem_group_id(item))
               || ft->predecessor.groups;
    }
    return is_ours(ft, item) || flowtab_is_antrea(ft, item)
           || (ft->predecessor.normal && fitem_equals(item, ft->normal));
}

void
flowtab_forget(struct flowtab *ft)
{
    ft->known = false;
    ft->dumping = false;
    ft->taking_over = false;
    batch_abandon(ft);

    struct ftkey *key;
    HMAP_FOR_EACH_SAFE (key, node, &ft->keys) {
        key_lift(ft, key);
        fitem_unref(key->have);
        key->have = NULL;
        key->n_users = 0;
        key_settle(ft, key, false);
    }
    map_trim(&ft->keys);
}

void
flowtab_dump_begin(struct flowtab *ft)
{
    flowtab_forget(ft);
    ft->dumping = true;
}

void
flowtab_dump_end(struct flowtab *ft)
{
    ft->dumping = false;
    ft->known = true;
    ft->taking_over = ft->n_old_entries > 0;
    settle_all(ft);
}

/* Makes 'have', NULL or a reference that this takes, what the switch has at
 * 'key'.  May free 'key'. */
static void
set_have(struct flowtab *ft, struct ftkey *key, struct fitem *have)
{
    bool in_flight = key->place == PLACE_IN_FLIGHT;
    struct fitem *old = key->have;

    if (!in_flight) {
        use_groups(ft, have, 1);
    }
    key_lift(ft, key);
    key->have = have;
    key->sent = false;
    key_share(key);
    key_settle(ft, key, false);
    if (!in_flight) {
        use_groups(ft, old, -1);
    }
    fitem_unref(old);
    check_taken_over(ft);
}

void
flowtab_have(struct flowtab *ft, struct fitem *item)
{
    if (!flowtab_concerns(ft, item)) {
        flowtab_have_not(ft, item);
    } else if (ft->known || ft->dumping) {
        ft->found |= ft->dumping && cookie_is_ours(fitem_cookie(item));
        set_have(ft, key_find_or_create(ft, item), item);
    } else {
        fitem_unref(item);
    }
}

void
flowtab_have_not(struct flowtab *ft, struct fitem *item)
{
    struct ftkey *key = key_find(ft, item);

    if (key && key->have) {
        set_have(ft, key, NULL);
        map_trim(&ft->keys);
    }
    fitem_unref(item);
}

/* State. */

static size_t
count_queued(const struct flowtab *ft)
{
    size_t n = 0;

    for (size_t i = FIRST_QUEUE; i <= LAST_QUEUE; i++) {
        n += ft->n_places[i];
    }
    return n;
}

void
flowtab_get_stats(const struct flowtab *ft, struct flowtab_stats *ret)
{
    *ret = ft->stats;
    ret->n_dirty = count_queued(ft);
    ret->n_held = ft->n_places[PLACE_HELD] + ft->n_places[PLACE_LINGER];
    ret->n_in_flight = ft->n_places[PLACE_IN_FLIGHT];
    ret->n_set_aside = ft->n_asides;
}

static bool
key_is_settled(const struct ftkey *key)
{
    /* Equal items are shared: see key_share(). */
    return key->want == key->have && key->place != PLACE_IN_FLIGHT;
}

bool
flowtab_is_settled(const struct flowtab *ft, uint64_t owner_id)
{
    const struct ftowner *owner = owner_find(ft, owner_id);
    const struct ftkey *key;

    if (!ft->known || !owner) {
        return ft->known;
    } else if (owner_is_aside(owner)) {
        return false;
    }
    LIST_FOR_EACH (key, owner_node, &owner->keys) {
        if (!key_is_settled(key)) {
            return false;
        }
    }
    LIST_FOR_EACH (key, owner_node, &owner->leaving) {
        if (!key->is_group && !key_is_settled(key)) {
            return false;
        }
    }
    return true;
}

bool
flowtab_in_sync(const struct flowtab *ft)
{
    return ft->known && !ft->n_asides
           && ft->n_places[PLACE_NONE] == hmap_count(&ft->keys);
}

void
flowtab_for_each(const struct flowtab *ft, uint64_t owner_id,
                 void (*cb)(const struct fitem *want, const struct fitem *have,
                            void *aux),
                 void *aux)
{
    const struct ftkey *key;

    if (owner_id == UINT64_MAX) {
        HMAP_FOR_EACH (key, node, &ft->keys) {
            if (key->want) {
                cb(key->want, key->have, aux);
            }
        }
        return;
    }

    const struct ftowner *owner = owner_find(ft, owner_id);
    if (owner) {
        LIST_FOR_EACH (key, owner_node, &owner->keys) {
            cb(key->want, key->have, aux);
        }
    }
}

void
flowtab_for_each_have(const struct flowtab *ft,
                      void (*cb)(const struct fitem *have, void *aux),
                      void *aux)
{
    const struct ftkey *key;

    HMAP_FOR_EACH (key, node, &ft->keys) {
        if (key->have) {
            cb(key->have, aux);
        }
    }
}

void
flowtab_for_each_found(const struct flowtab *ft,
                       void (*cb)(const struct fitem *have, void *aux),
                       void *aux)
{
    const struct ftkey *key;

    HMAP_FOR_EACH (key, node, &ft->keys) {
        if (key->have && !key->sent) {
            cb(key->have, aux);
        }
    }
}

bool
flowtab_has_found(const struct flowtab *ft)
{
    return ft->found;
}

const struct fitem *
flowtab_find_have(const struct flowtab *ft, const struct fitem *item)
{
    const struct ftkey *key = key_find(ft, item);

    return key ? key->have : NULL;
}

struct has_aux {
    const struct flowtab *ft;
    size_t n, n_had;
};

static void
has_group(uint32_t group_id, void *aux_)
{
    struct has_aux *aux = aux_;
    const struct ftkey *key = find_group(aux->ft, group_id);

    aux->n++;
    aux->n_had += key && key->have;
}

bool
flowtab_has_groups_of(const struct flowtab *ft, const struct fitem *item)
{
    struct has_aux aux = { .ft = ft };

    fitem_for_each_group(item, has_group, &aux);
    return aux.n && aux.n_had == aux.n;
}
