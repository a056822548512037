/* SPDX-License-Identifier: Apache-2.0 */

/* The flow table's batches, and the owners that are set aside because the
 * switch refused what they want. */

#include <limits.h>
#include <stdlib.h>
#include <util.h>

#include "flowtab-private.h"

/* Waits between two tries of an owner. */
#define RETRY_MIN_MS 500
#define RETRY_MAX_MS 30000

/* While the culprit of a refusal is being looked for, batches up to this size
 * are limited: above, the search has ended. */
#define SUSPECTS_MAX 2048

/* The message that deletes a group. */
#define GROUP_DELETE_BYTES 24

struct batch {
    struct flowtab_batch up;
    struct ftkey **keys; /* Of the changes; NULL if abandoned. */
    size_t n_bytes;
};

/* Owners that are set aside. */

bool
owner_is_aside(const struct ftowner *owner)
{
    return owner->aside && owner->aside->active;
}

static void
settle_keys(struct flowtab *ft, struct ovs_list *keys)
{
    struct ftkey *key;

    LIST_FOR_EACH_SAFE (key, owner_node, keys) {
        key_lift(ft, key);
        key_settle(ft, key, false);
    }
}

/* Sets whether 'owner', which has a record, is set aside.  A key is counted
 * with its place, so it may not be lifted in between. */
static void
set_active(struct flowtab *ft, struct ftowner *owner, bool active)
{
    ft->n_asides += active - owner->aside->active;
    ft->n_vital_asides += owner->vital ? active - owner->aside->active : 0;
    owner->aside->active = active;
    settle_keys(ft, &owner->keys);
    settle_keys(ft, &owner->leaving);
}

void
owner_retry(struct flowtab *ft, struct ftowner *owner)
{
    if (owner_is_aside(owner)) {
        set_active(ft, owner, false);
    }
}

void
owner_forgive(struct flowtab *ft, struct ftowner *owner)
{
    struct aside *aside = owner->aside;

    if (aside) {
        ft->n_asides -= aside->active;
        ft->n_vital_asides -= owner->vital && aside->active;
        ovs_list_remove(&aside->node);
        free(CONST_CAST(char *, aside->info.reason));
        free(aside);
        owner->aside = NULL;
    }
}

void
owner_forgive_if_well(struct flowtab *ft, struct ftowner *owner)
{
    if (owner->aside && !owner->aside->active && !owner->n_pending
        && ft->known) {
        owner_forgive(ft, owner);
    }
}

static struct aside *
create_aside(struct flowtab *ft, struct ftowner *owner, long long int now_ms)
{
    struct aside *aside = xzalloc(sizeof *aside);

    aside->owner = owner;
    aside->backoff = (struct backoff) BACKOFF_INIT(RETRY_MIN_MS, RETRY_MAX_MS);
    aside->info.owner = owner->id;
    aside->info.since_ms = now_ms;
    ovs_list_push_back(&ft->asides, &aside->node);
    return aside;
}

static void
owner_set_aside(struct flowtab *ft, struct ftowner *owner, bool new_wish,
                const struct flowtab_refusal *refusal)
{
    if (!owner->aside) {
        owner->aside = create_aside(ft, owner, refusal->now_ms);
    }

    struct aside *aside = owner->aside;
    if (new_wish) {
        backoff_reset(&aside->backoff);
    }
    free(CONST_CAST(char *, aside->info.reason));
    aside->info.reason = xstrdup(refusal->reason);
    aside->info.n_tries++;
    aside->info.refusal = ft->stats.n_refused;
    aside->info.retry_ms =
        refusal->now_ms + backoff_next(&aside->backoff, refusal->random);
    ft->retry_ms = MIN(ft->retry_ms, aside->info.retry_ms);
    set_active(ft, owner, true);
}

static void
retry_owners(struct flowtab *ft, long long int now_ms)
{
    struct aside *aside;

    ft->retry_ms = LLONG_MAX;
    LIST_FOR_EACH (aside, node, &ft->asides) {
        if (!aside->active) {
            continue;
        }
        if (aside->info.retry_ms <= now_ms) {
            set_active(ft, aside->owner, false);
        } else {
            ft->retry_ms = MIN(ft->retry_ms, aside->info.retry_ms);
        }
    }
}

/* At each deadline those groups go that have been there since the one before
 * it: so a group needs no time of its own, and lingers once to twice as long
 * as asked for. */
static void
end_lingering(struct flowtab *ft)
{
    struct ftkey *key;

    LIST_FOR_EACH_SAFE (key, queue_node, &ft->leaving) {
        key_lift(ft, key);
        key->lingered = true;
        key_settle(ft, key, false);
    }
    ovs_list_push_back_all(&ft->leaving, &ft->lingering);
    ft->linger_until_ms = LLONG_MAX;
}

static void
run_linger(struct flowtab *ft, long long int now_ms)
{
    if (now_ms >= ft->linger_until_ms) {
        end_lingering(ft);
    }
    if (ft->linger_until_ms == LLONG_MAX && ft->n_places[PLACE_LINGER]) {
        ft->linger_until_ms = now_ms + ft->linger_ms;
    }
}

long long int
flowtab_run(struct flowtab *ft, long long int now_ms)
{
    if (now_ms >= ft->retry_ms) {
        retry_owners(ft, now_ms);
    }
    run_linger(ft, now_ms);
    return MIN(ft->retry_ms, ft->linger_until_ms);
}

void
flowtab_set_linger(struct flowtab *ft, unsigned int ms)
{
    ft->linger_ms = ms;
}

void
flowtab_set_keep(struct flowtab *ft, bool keep)
{
    ft->keep = keep;
}

const struct flowtab_set_aside *
flowtab_find_set_aside(const struct flowtab *ft, uint64_t owner_id)
{
    const struct ftowner *owner = owner_find(ft, owner_id);

    return owner && owner_is_aside(owner) ? &owner->aside->info : NULL;
}

void
flowtab_for_each_set_aside(const struct flowtab *ft,
                           void (*cb)(const struct flowtab_set_aside *,
                                      void *aux),
                           void *aux)
{
    const struct aside *aside;

    LIST_FOR_EACH (aside, node, &ft->asides) {
        if (aside->active) {
            cb(&aside->info, aux);
        }
    }
}

/* Batches. */

static struct batch *
batch_create(size_t max_changes)
{
    struct batch *batch = xzalloc(sizeof *batch);

    batch->up.changes = xmalloc(max_changes * sizeof *batch->up.changes);
    batch->keys = xmalloc(max_changes * sizeof(struct ftkey *));
    return batch;
}

static void
batch_free(struct batch *batch)
{
    for (size_t i = 0; i < batch->up.n; i++) {
        fitem_unref(batch->up.changes[i].item);
    }
    free(batch->up.changes);
    free(batch->keys);
    free(batch);
}

static size_t
change_size(const struct ftkey *key)
{
    return key->want       ? fitem_size(key->want)
           : key->is_group ? GROUP_DELETE_BYTES
                           : fitem_size(key->have);
}

static void
batch_add(struct flowtab *ft, struct batch *batch, struct ftkey *key)
{
    struct flowtab_change *change = &batch->up.changes[batch->up.n];
    bool put = key->want;

    batch->n_bytes += change_size(key);
    change->op = put ? FLOWTAB_PUT : FLOWTAB_DELETE;
    change->item = fitem_ref(put ? key->want : key->have);
    change->owner = key->owner ? key->owner->id : 0;
    batch->keys[batch->up.n++] = key;

    /* First the new users, so that no group loses its last one in between. */
    use_groups(ft, key->want, 1);
    key_lift(ft, key);
    key->place = PLACE_IN_FLIGHT;
    key->flight = (struct flight){ change->item, change->op };
    key_settle(ft, key, false);
    use_groups(ft, key->have, -1);
}

static struct ftkey *
first_queued(const struct flowtab *ft)
{
    size_t last = ft->keep && !ft->taking_over ? LAST_PUT : LAST_QUEUE;

    for (size_t i = FIRST_QUEUE; i <= last; i++) {
        if (!ovs_list_is_empty(&ft->queues[i])) {
            return CONTAINER_OF(ovs_list_front(&ft->queues[i]), struct ftkey,
                                queue_node);
        }
    }
    return NULL;
}

/* A predecessor's pipeline is in force, and what is wanted can't take its
 * place yet. */
static bool
has_to_wait(const struct flowtab *ft)
{
    return ft->taking_over
           && (!ft->complete || !ft->ready || ft->n_vital_asides);
}

struct flowtab_batch *
flowtab_take(struct flowtab *ft, size_t max_changes, size_t max_bytes)
{
    struct ftkey *key = first_queued(ft);

    ovs_assert(!ft->out);
    if (!key || has_to_wait(ft)) {
        return NULL;
    }
    if (ft->taking_over) {
        max_changes = max_bytes = SIZE_MAX;
    } else if (ft->suspects) {
        max_changes = MIN(max_changes, ft->suspects);
    }
    max_changes = MIN(MAX(max_changes, 1), hmap_count(&ft->keys));

    struct batch *batch = batch_create(max_changes);
    do {
        batch_add(ft, batch, key);
        key = first_queued(ft);
    } while (key && batch->up.n < max_changes
             && batch->n_bytes + change_size(key) <= max_bytes);
    ft->out = batch;
    return &batch->up;
}

/* Batches that come back. */

static struct batch *
batch_cast(struct flowtab_batch *up)
{
    return CONTAINER_OF(up, struct batch, up);
}

void
batch_abandon(struct flowtab *ft)
{
    struct batch *batch = ft->out;

    if (!batch) {
        return;
    }
    for (size_t i = 0; i < batch->up.n; i++) {
        struct ftkey *key = batch->keys[i];
        key_lift(ft, key);
        key->place = PLACE_NONE;
        key_settle(ft, key, false);
    }
    free(batch->keys);
    batch->keys = NULL;
    ft->out = NULL;
}

static void
count_change(struct flowtab_stats *stats, const struct flowtab_change *change)
{
    bool put = change->op == FLOWTAB_PUT;

    if (fitem_kind(change->item) == FITEM_GROUP) {
        (*(put ? &stats->n_group_puts : &stats->n_group_deletes))++;
    } else {
        (*(put ? &stats->n_flow_puts : &stats->n_flow_deletes))++;
    }
}

/* The groups' users need no change: they were counted when it was sent.  A
 * deletion names the cookie, so it spares a flow that a foreign hand has put
 * in the meantime with another one. */
static void
change_done(struct flowtab *ft, struct ftkey *key,
            const struct flowtab_change *change)
{
    struct fitem *spared = NULL;

    if (change->op == FLOWTAB_DELETE && key->have
        && fitem_cookie(key->have) != fitem_cookie(change->item)) {
        spared = fitem_ref(key->have);
        use_groups(ft, spared, 1);
    }

    key_lift(ft, key);
    key->place = PLACE_NONE;
    fitem_unref(key->have);
    key->have = change->op == FLOWTAB_PUT ? fitem_ref(change->item) : spared;
    key->sent = change->op == FLOWTAB_PUT;
    key_share(key);
    key_settle(ft, key, false);
    count_change(&ft->stats, change);
}

void
flowtab_batch_done(struct flowtab *ft, struct flowtab_batch *up)
{
    struct batch *batch = batch_cast(up);

    if (ft->out == batch) {
        ft->out = NULL;
        for (size_t i = 0; i < up->n; i++) {
            change_done(ft, batch->keys[i], &up->changes[i]);
        }

        struct aside *aside;
        LIST_FOR_EACH_SAFE (aside, node, &ft->asides) {
            owner_forgive_if_well(ft, aside->owner);
        }
        check_taken_over(ft);
        ft->suspects *= 2;
        if (ft->suspects > SUSPECTS_MAX) {
            ft->suspects = 0;
        }
    }
    batch_free(batch);
}

static void
change_undone(struct flowtab *ft, struct ftkey *key,
              const struct flowtab_change *change)
{
    use_groups(ft, key->have, 1);
    key_lift(ft, key);
    key->place = PLACE_NONE;
    key_settle(ft, key, true);
    if (change->op == FLOWTAB_PUT) {
        use_groups(ft, change->item, -1);
    }
}

/* The switch refused 'change' at 'key'.  Whoever wanted it is set aside if it
 * wants the same still. */
static void
blame(struct flowtab *ft, struct ftkey *key,
      const struct flowtab_change *change,
      const struct flowtab_refusal *refusal)
{
    bool put = change->op == FLOWTAB_PUT;
    struct ftowner *owner = key->owner;

    if (put != !!key->want || (owner ? owner->id : 0) != change->owner) {
        return;
    }
    if (!owner) {
        owner = owner_create(0);
        key->owner = owner;
        owner->n_pending = 1; /* As count_key() would have counted. */
        ovs_list_push_back(&owner->leaving, &key->owner_node);
    }
    owner_set_aside(ft, owner, put && key->want != change->item, refusal);
}

void
flowtab_batch_refused(struct flowtab *ft, struct flowtab_batch *up,
                      const struct flowtab_refusal *refusal)
{
    struct batch *batch = batch_cast(up);

    if (ft->out == batch) {
        size_t bad = refusal->bad;

        ft->out = NULL;
        ft->stats.n_refused++;
        if (bad >= up->n) {
            ft->suspects = MAX(up->n / 2, 1);
            bad = up->n > 1 ? SIZE_MAX : 0;
        }
        if (bad < up->n) {
            blame(ft, batch->keys[bad], &up->changes[bad], refusal);
        }
        for (size_t i = up->n; i-- > 0;) {
            change_undone(ft, batch->keys[i], &up->changes[i]);
        }
    }
    batch_free(batch);
}

void
flowtab_batch_lost(struct flowtab *ft, struct flowtab_batch *up)
{
    struct batch *batch = batch_cast(up);

    if (ft->out == batch) {
        flowtab_forget(ft);
    }
    batch_free(batch);
}
