/* SPDX-License-Identifier: Apache-2.0 */

/* Ids by hash, and by the cookies of flows that are there. */

#include "unitid.h"

#include <stdlib.h>
#include <string.h>

#include "ofproxyd/base/hash.h"
#include "ofproxyd/flow/cookie.h"

/* How far an id is from the one that its unit prefers, at most: with 100 000
 * units, one in 10^10 is further. */
#define MAX_ID_DISTANCE 8

/* The id that a unit prefers: the same on every node and after every
 * restart. */
static uint32_t
unit_hash(const struct unit *u)
{
    uint8_t tail[2] = { (uint8_t) u->proto, (uint8_t) u->family };
    uint32_t hash = stable_hash(u->ns, strlen(u->ns) + 1, 0);

    hash = stable_hash(u->name, strlen(u->name) + 1, hash);
    hash = stable_hash(u->port_name, strlen(u->port_name) + 1, hash);
    return stable_hash(tail, sizeof tail, hash);
}

/* An object that wants an id. */
struct applicant {
    enum cookie_category category;
    uint32_t hash; /* The id that it prefers, modulo OBJECT_ID_MAX + 1. */
};

/* Where two hashes collided, who came first had the id that both prefer.  So
 * that a restart finds things as they were, an object takes the id that the
 * switch has in the cookies of its flows, if that is one that it can have got:
 * the address may have been another Service's, whose id must not stick to
 * it. */
static bool
take_id_of(struct idpool *ids, const struct applicant *who,
           const struct fitem *have, uint32_t *ret_id)
{
    uint64_t cookie = have ? fitem_cookie(have) : 0;
    uint32_t id = cookie_object_id(cookie);

    if (!cookie_is_ours(cookie) || cookie_category(cookie) != who->category
        || ((id - who->hash) & OBJECT_ID_MAX) >= MAX_ID_DISTANCE
        || !idpool_take(ids, id)) {
        return false;
    }
    *ret_id = id;
    return true;
}

/* Takes the id that the flow at the key of one of 'items' has, and empties
 * 'items'. */
static bool
take_id_of_items(struct idpool *ids, const struct flowtab *flowtab,
                 const struct applicant *who, struct fout *items,
                 uint32_t *ret_id)
{
    bool taken = false;

    for (size_t i = 0; i < items->n && !taken; i++) {
        taken =
            take_id_of(ids, who, flowtab_find_have(flowtab, items->items[i]),
                       ret_id);
    }
    fout_clear(items);
    free(items->items);
    return taken;
}

/* Looks for flows by their matches, which at an address are the same
 * whatever is wanted there. */
static bool
take_installed_id(struct idpool *ids, const struct flowtab *flowtab,
                  const struct unit *u, const struct pipe_service *like,
                  uint32_t *ret_id)
{
    const struct applicant who = { COOKIE_SERVICE, unit_hash(u) };
    struct pipe_service svc = {
        .family = u->family,
        .proto = u->proto,
        .n_frontends = 1,
        .targets = { { .verdict = PIPE_DROP }, { .verdict = PIPE_DROP } },
    };
    bool taken = false;

    for (size_t i = 0; i < like->n_frontends && !taken; i++) {
        struct fout out = FOUT_INIT;

        svc.frontends = &like->frontends[i];
        if (pipe_render_service(&svc, &out, NULL)) {
            fout_clear(&out);
        }
        taken = take_id_of_items(ids, flowtab, &who, &out, ret_id);
    }
    return taken;
}

bool
unitid_take(struct idpool *ids, const struct flowtab *flowtab,
            const struct unit *u, const struct pipe_service *like,
            uint32_t *ret_id)
{
    return (flowtab_has_found(flowtab)
            && take_installed_id(ids, flowtab, u, like, ret_id))
           || idpool_alloc(ids, unit_hash(u), ret_id);
}

bool
unitid_take_cluster_ip(struct idpool *ids, const struct flowtab *flowtab,
                       const char *full_name, const struct ip *ip,
                       uint32_t *ret_id)
{
    uint8_t family = (uint8_t) ip_family(ip);
    const struct applicant who = {
        COOKIE_CLUSTER_IP,
        stable_hash(&family, 1,
                    stable_hash(full_name, strlen(full_name) + 1, 0)),
    };
    struct fout out = FOUT_INIT;

    pipe_render_cluster_ip(0, ip, &out);
    return take_id_of_items(ids, flowtab, &who, &out, ret_id)
           || idpool_alloc(ids, who.hash, ret_id);
}
