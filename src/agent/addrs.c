/* SPDX-License-Identifier: Apache-2.0 */

/* All claims in one hash table.  A claim's 'lost' is true unless it is the
 * best one of its address, and is put right for all claims of an address
 * whenever one comes, goes or changes its rank. */

#include "addrs.h"

#include <stdlib.h>
#include <string.h>

#include <hash.h>
#include <util.h>

#include "ofproxyd/base/map.h"

struct addrs {
    struct hmap claims; /* Of struct addr. */
    struct ovs_list changed;
    addrs_change_func *change;
    void *aux;
};

struct addrs *
addrs_create(addrs_change_func *change, void *aux)
{
    struct addrs *a = xzalloc(sizeof *a);

    a->change = change;
    a->aux = aux;

    hmap_init(&a->claims);
    ovs_list_init(&a->changed);
    return a;
}

void
addrs_destroy(struct addrs *a)
{
    if (a) {
        hmap_destroy(&a->claims);
        free(a);
    }
}

void
addr_owner_init(struct addr_owner *owner)
{
    ovs_list_init(&owner->changed_node);
}

/* Claims. */

static uint32_t
hash_addr(const struct addr *addr)
{
    return ip_hash(&addr->ip, hash_2words(addr->port, addr->owner->proto));
}

static bool
same_addr(const struct addr *a, const struct addr *b)
{
    return a->port == b->port && ip_equals(&a->ip, &b->ip)
           && a->owner->proto == b->owner->proto
           && a->owner->family == b->owner->family;
}

static bool
owner_precedes(const struct addr_owner *a, const struct addr_owner *b)
{
    int cmp;

    if (a->rank != b->rank) {
        return a->rank < b->rank;
    }
    cmp = strcmp(a->name, b->name);
    cmp = cmp ? cmp : strcmp(a->port_name, b->port_name);
    return cmp ? cmp < 0 : a->id < b->id;
}

static const struct addr *
find_best(const struct addrs *a, const struct addr *like)
{
    const struct addr *best = NULL, *addr;

    HMAP_FOR_EACH_WITH_HASH (addr, node, like->node.hash, &a->claims) {
        if (same_addr(addr, like)
            && (!best || owner_precedes(addr->owner, best->owner))) {
            best = addr;
        }
    }
    return best;
}

const struct addr_owner *
addrs_winner(const struct addrs *a, const struct addr *addr)
{
    return find_best(a, addr)->owner;
}

const struct addr *
addr_owner_find_lost(const struct addr_owner *owner)
{
    for (size_t i = 0; i < owner->n; i++) {
        if (owner->addrs[i].lost) {
            return &owner->addrs[i];
        }
    }
    return NULL;
}

/* Puts right who has what 'like' claims or claimed.  Owners but 'self' that
 * got or lost it are noted. */
static void
settle(struct addrs *a, const struct addr *like, const struct addr_owner *self)
{
    const struct addr *best = find_best(a, like);
    struct addr *addr;

    HMAP_FOR_EACH_WITH_HASH (addr, node, like->node.hash, &a->claims) {
        if (!same_addr(addr, like) || addr->lost == (addr != best)) {
            continue;
        }
        addr->lost = addr != best;
        if (addr->owner != self
            && ovs_list_is_empty(&addr->owner->changed_node)) {
            ovs_list_push_back(&a->changed, &addr->owner->changed_node);
        }
    }
}

void
addr_owner_seen(struct addr_owner *owner)
{
    ovs_list_remove(&owner->changed_node);
    ovs_list_init(&owner->changed_node);
}

struct addr_owner *
addrs_pop_changed(struct addrs *a)
{
    struct addr_owner *owner;

    if (ovs_list_is_empty(&a->changed)) {
        return NULL;
    }
    owner = CONTAINER_OF(ovs_list_pop_front(&a->changed), struct addr_owner,
                         changed_node);
    ovs_list_init(&owner->changed_node);
    return owner;
}

/* Sets of claims. */

static int
compare_addrs(const void *a_, const void *b_)
{
    const struct addr *a = a_, *b = b_;

    return a->kind != b->kind   ? (a->kind > b->kind) - (a->kind < b->kind)
           : a->port != b->port ? a->port - b->port
                                : ip_compare(&a->ip, &b->ip);
}

static struct addr *
make_addrs(struct addr_owner *owner, const struct pipe_frontend *frontends,
           size_t n)
{
    struct addr *addrs = n ? xcalloc(n, sizeof *addrs) : NULL;

    for (size_t i = 0; i < n; i++) {
        addrs[i].kind = frontends[i].kind;
        addrs[i].ip = frontends[i].ip;
        addrs[i].port = frontends[i].port;
        addrs[i].owner = owner;
    }
    if (n) {
        qsort(addrs, n, sizeof *addrs, compare_addrs);
    }
    return addrs;
}

bool
addr_owner_lost(const struct addr_owner *owner,
                const struct pipe_frontend *frontend)
{
    struct addr key = { .kind = frontend->kind,
                        .ip = frontend->ip,
                        .port = frontend->port };
    const struct addr *addr =
        bsearch(&key, owner->addrs, owner->n, sizeof key, compare_addrs);

    return addr->lost;
}

static bool
claims_same(const struct addr_owner *x, const struct addr_owner *y)
{
    if (x->n != y->n) {
        return false;
    }
    for (size_t i = 0; i < x->n; i++) {
        if (compare_addrs(&x->addrs[i], &y->addrs[i])) {
            return false;
        }
    }
    return true;
}

/* Tells of what 'x' claims and 'y' doesn't. */
static void
tell_difference(const struct addrs *a, const struct addr_owner *x,
                const struct addr_owner *y, bool gone)
{
    size_t j = 0;

    for (size_t i = 0; i < x->n; i++) {
        while (j < y->n && compare_addrs(&y->addrs[j], &x->addrs[i]) < 0) {
            j++;
        }
        if (j == y->n || compare_addrs(&y->addrs[j], &x->addrs[i])) {
            a->change(&x->addrs[i], gone, a->aux);
        }
    }
}

/* Puts 'new' into the table in place of 'old', both of which are copies of
 * 'owner' but for what they claim. */
static void
replace_claims(struct addrs *a, struct addr_owner *owner,
               const struct addr_owner *old, const struct addr_owner *new)
{
    for (size_t i = 0; i < old->n; i++) {
        hmap_remove(&a->claims, &old->addrs[i].node);
    }
    owner->rank = new->rank;
    owner->addrs = new->addrs;
    owner->n = new->n;
    for (size_t i = 0; i < new->n; i++) {
        hmap_insert(&a->claims, &new->addrs[i].node,
                    hash_addr(&new->addrs[i]));
    }
    for (size_t i = 0; i < new->n; i++) {
        settle(a, &new->addrs[i], owner);
    }
    for (size_t i = 0; i < old->n; i++) {
        settle(a, &old->addrs[i], owner);
    }
}

void
addrs_set(struct addrs *a, struct addr_owner *owner, int64_t rank,
          const struct pipe_frontend *frontends, size_t n)
{
    struct addr_owner old = *owner, new = *owner;

    new.rank = rank;
    new.addrs = make_addrs(owner, frontends, n);
    new.n = n;
    if (owner->rank == rank && claims_same(&old, &new)) {
        free(new.addrs);
        return;
    }
    tell_difference(a, &new, &old, false);
    tell_difference(a, &old, &new, true);
    replace_claims(a, owner, &old, &new);
    free(old.addrs);
    map_trim(&a->claims);
    if (!n) {
        addr_owner_seen(owner);
    }
}

const struct addr *
addrs_find(const struct addrs *a, enum proto proto, const struct ip *ip,
           uint16_t port)
{
    struct addr_owner owner = { .proto = proto, .family = ip_family(ip) };
    struct addr addr = { .ip = *ip, .port = port, .owner = &owner };

    addr.node.hash = hash_addr(&addr);
    return find_best(a, &addr);
}
