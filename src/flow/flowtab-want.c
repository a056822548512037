/* SPDX-License-Identifier: Apache-2.0 */

/* The flow table's owners: what each wants, and who has a key that several
 * want.
 *
 * An owner's keys are listed in the order in which it names its items, so
 * that an unchanged owner, by far the most frequent case, costs one comparison
 * and no look-up for each item.  A key is in the list of the owner that has
 * it; the claims of all others, which are few, wait at the key. */

#include <hash.h>
#include <stdlib.h>
#include <string.h>
#include <util.h>

#include "flowtab-private.h"
#include "ofproxyd/base/map.h"

static uint32_t
hash_owner(uint64_t id)
{
    return hash_uint64(id);
}

struct ftowner *
owner_find(const struct flowtab *ft, uint64_t id)
{
    struct ftowner *owner;

    HMAP_FOR_EACH_WITH_HASH (owner, node, hash_owner(id), &ft->owners) {
        if (owner->id == id) {
            return owner;
        }
    }
    return NULL;
}

struct ftowner *
owner_create(uint64_t id)
{
    struct ftowner *owner = xzalloc(sizeof *owner);

    owner->id = id;
    ovs_list_init(&owner->keys);
    ovs_list_init(&owner->leaving);
    ovs_list_init(&owner->waiting);
    return owner;
}

void
owner_free(struct flowtab *ft, struct ftowner *owner)
{
    owner_forgive(ft, owner);
    free(owner);
}

static bool
owner_precedes(const struct ftowner *a, const struct ftowner *b)
{
    int cmp = 0;

    if (a->rank != b->rank) {
        return a->rank < b->rank;
    }
    if (a->name && b->name) {
        cmp = strcmp(a->name, b->name);
    } else if (a->name || b->name) {
        return b->name;
    }
    return cmp ? cmp < 0 : a->id < b->id;
}

/* Gives 'key' to 'owner', which wants 'item' there (a reference that this
 * takes), whatever it was before. */
static void
key_assign(struct flowtab *ft, struct ftkey *key, struct ftowner *owner,
           struct fitem *item)
{
    key_lift(ft, key);
    key_disown(ft, key);
    fitem_unref(key->want);
    key->want = item;
    key->owner = owner;
    ovs_list_push_back(&owner->keys, &key->owner_node);
    key_share(key);
    key_settle(ft, key, false);
}

/* Claims that wait. */

static struct ftclaim *
find_claim(const struct ftkey *key, const struct ftowner *owner)
{
    struct ftclaim *claim = key->waiting;

    while (claim && claim->owner != owner) {
        claim = claim->next;
    }
    return claim;
}

static struct ftclaim *
find_best_claim(const struct ftkey *key)
{
    struct ftclaim *best = key->waiting;

    for (struct ftclaim *c = best; c; c = c->next) {
        if (owner_precedes(c->owner, best->owner)) {
            best = c;
        }
    }
    return best;
}

/* Lets 'owner' wait for 'key'.  Takes 'item'. */
static void
claim_create(struct ftkey *key, struct ftowner *owner, struct fitem *item)
{
    struct ftclaim *claim = xmalloc(sizeof *claim);

    claim->next = key->waiting;
    key->waiting = claim;
    claim->key = key;
    claim->owner = owner;
    claim->item = item;
    claim->seen = true;
    ovs_list_push_back(&owner->waiting, &claim->node);
}

/* Destroys 'claim' and returns its item, which is the caller's then. */
static struct fitem *
claim_take(struct ftclaim *claim)
{
    struct fitem *item = claim->item;
    struct ftclaim **p = &claim->key->waiting;

    while (*p != claim) {
        p = &(*p)->next;
    }
    *p = claim->next;
    ovs_list_remove(&claim->node);
    free(claim);
    return item;
}

/* Wishes. */

/* 'owner' wants 'item' at 'key', which another owner has.  Like the functions
 * below, this takes a reference and returns how many keys have changed. */
static size_t
want_others_key(struct flowtab *ft, struct ftkey *key, struct ftowner *owner,
                struct fitem *item)
{
    struct ftclaim *claim = find_claim(key, owner);

    if (claim) {
        fitem_unref(claim_take(claim));
    }
    if (owner_precedes(owner, key->owner)) {
        claim_create(key, key->owner, fitem_ref(key->want));
        key_assign(ft, key, owner, item);
        return 1;
    }
    claim_create(key, owner, item);
    return 0;
}

/* 'owner' goes on to want its 'key', now for 'item'. */
static size_t
want_own_key(struct flowtab *ft, struct ftkey *key, struct ftowner *owner,
             struct fitem *item)
{
    struct ftclaim *best = find_best_claim(key);

    /* The owner may have a new rank. */
    if (best && owner_precedes(best->owner, owner)) {
        struct ftowner *successor = best->owner;
        key_assign(ft, key, successor, claim_take(best));
        claim_create(key, owner, item);
        return 1;
    }

    if (fitem_equals(key->want, item)) {
        ovs_list_remove(&key->owner_node);
        ovs_list_push_back(&owner->keys, &key->owner_node);
        fitem_unref(item);
        return 0;
    }
    key_assign(ft, key, owner, item);
    return 1;
}

/* 'owner' wants 'item'.  'old' are those of its keys that have not been named
 * yet. */
static size_t
want_item(struct flowtab *ft, struct ftowner *owner,
          const struct ovs_list *old, struct fitem *item)
{
    struct ftkey *key = NULL;

    if (!ovs_list_is_empty(old)) {
        key = CONTAINER_OF(ovs_list_front(old), struct ftkey, owner_node);
    }
    if (!key || !key_matches(key, item)) {
        key = key_find_or_create(ft, item);
    }

    if (!key->want) {
        key_assign(ft, key, owner, item);
        return 1;
    } else if (key->owner == owner) {
        return want_own_key(ft, key, owner, item);
    } else {
        return want_others_key(ft, key, owner, item);
    }
}

/* The owner of 'key' does not want it any more.  May free 'key'. */
static void
unwant_key(struct flowtab *ft, struct ftkey *key)
{
    struct ftclaim *best = find_best_claim(key);

    if (best) {
        struct ftowner *owner = best->owner;
        key_assign(ft, key, owner, claim_take(best));
        return;
    }

    key_lift(ft, key);
    fitem_unref(key->want);
    key->want = NULL;
    ovs_list_remove(&key->owner_node);
    ovs_list_push_back(&key->owner->leaving, &key->owner_node);
    key_settle(ft, key, false);
}

static size_t
replace_wishes(struct flowtab *ft, struct ftowner *owner,
               const struct fout *items)
{
    size_t n_changed = 0;
    struct ftclaim *claim;
    struct ftkey *key;
    struct ovs_list old;

    ovs_list_move(&old, &owner->keys);
    ovs_list_init(&owner->keys);
    LIST_FOR_EACH (claim, node, &owner->waiting) {
        claim->seen = false;
    }

    for (size_t i = 0; i < items->n; i++) {
        n_changed += want_item(ft, owner, &old, items->items[i]);
    }

    LIST_FOR_EACH_SAFE (key, owner_node, &old) {
        unwant_key(ft, key);
        n_changed++;
    }
    LIST_FOR_EACH_SAFE (claim, node, &owner->waiting) {
        if (!claim->seen) {
            fitem_unref(claim_take(claim));
        }
    }
    return n_changed;
}

/* 'owner' wants nothing any more. */
static void
owner_destroy(struct flowtab *ft, struct ftowner *owner)
{
    struct ftkey *key;

    LIST_FOR_EACH_SAFE (key, owner_node, &owner->leaving) {
        key_lift(ft, key);
        key_disown(ft, key);
        key_settle(ft, key, false);
    }
    map_remove(&ft->owners, &owner->node);
    owner_free(ft, owner);
}

/* 'owner' wants 'items' now, which this takes. */
static size_t
owner_want(struct flowtab *ft, struct ftowner *owner, struct fout *items)
{
    size_t n_changed = replace_wishes(ft, owner, items);

    items->n = 0;
    if (n_changed) {
        owner_retry(ft, owner);
        owner_forgive_if_well(ft, owner);
    }
    if (ovs_list_is_empty(&owner->keys)
        && ovs_list_is_empty(&owner->waiting)) {
        owner_destroy(ft, owner);
    }
    map_trim(&ft->keys);
    return n_changed;
}

size_t
flowtab_want(struct flowtab *ft, const struct flowtab_owner *owner,
             struct fout *items)
{
    struct ftowner *record = owner_find(ft, owner->id);
    size_t n_changed = 0;

    ovs_assert(owner->id && owner->id != UINT64_MAX);
    if (!record && items->n) {
        record = owner_create(owner->id);
        record->vital = owner->vital;
        hmap_insert(&ft->owners, &record->node, hash_owner(owner->id));
    }
    if (record) {
        record->rank = owner->rank;
        record->name = owner->name;
        n_changed = owner_want(ft, record, items);
    }
    fout_clear(items);
    return n_changed;
}

uint64_t
flowtab_conflict(const struct flowtab *ft, uint64_t owner_id)
{
    const struct ftowner *owner = owner_find(ft, owner_id);

    if (!owner || ovs_list_is_empty(&owner->waiting)) {
        return 0;
    }
    const struct ftclaim *claim = CONTAINER_OF(ovs_list_front(&owner->waiting),
                                               const struct ftclaim, node);
    return claim->key->owner->id;
}

uint64_t
flowtab_successor(const struct flowtab *ft, uint64_t owner_id)
{
    const struct ftowner *owner = owner_find(ft, owner_id);
    const struct ftkey *key;

    if (owner) {
        LIST_FOR_EACH (key, owner_node, &owner->keys) {
            if (key->waiting) {
                return find_best_claim(key)->owner->id;
            }
        }
    }
    return 0;
}
