/* SPDX-License-Identifier: Apache-2.0 */

/* What has gone while the daemon was away.
 *
 * The switch still has the flows and groups of then: they name the addresses
 * that Service ports had, and the endpoints that connections were given.
 * Compared with the ports as they are now, what has gone makes jobs as if it
 * went before our eyes; and endpoints that live, but get no new connections
 * any more, are known to have old ones.
 *
 * An address without any living endpoint is cleared in any case, also if it
 * was so before: the last daemon may have been killed before it came to
 * that, and nothing can be hurt. */

#include <util.h>

#include "ofproxyd/flow/cookie.h"
#include "stale-private.h"

/* A Service port of then, by the object id in cookies and group ids. */
struct relic {
    struct hmap_node node;
    struct port was; /* Without claims. */
    bool other;      /* A second family or protocol: made by a foreign hand. */
};

struct relics {
    const struct stale *st;
    struct hmap by_id;
    struct addrset node_ips, sources;
    bool had_clusters, was_gateway; /* Flows to other clusters; a source. */
};

static struct relic *
find_relic(const struct relics *relics, uint64_t owner)
{
    struct relic *relic;

    HMAP_FOR_EACH_WITH_HASH (relic, node, cookie_object_id(owner),
                             &relics->by_id) {
        if (relic->was.owner == owner) {
            return relic;
        }
    }
    return NULL;
}

static void
note_frontend(struct relics *relics, uint64_t owner,
              const struct pipe_installed *addr)
{
    struct relic *relic = find_relic(relics, owner);

    if (!relic) {
        relic = xzalloc(sizeof *relic);
        relic->was.owner = owner;
        relic->was.family = addr->family;
        relic->was.proto = addr->proto;
        hmap_insert(&relics->by_id, &relic->node, cookie_object_id(owner));
    }
    relic->other |=
        relic->was.family != addr->family || relic->was.proto != addr->proto;
    addrset_push(&relic->was.addrs, &addr->ip, addr->port);
}

static void
note_cluster_flow(const struct fitem *have, struct relics *relics)
{
    struct ip ip;

    relics->had_clusters = true;
    relics->was_gateway |= pipe_flow_source(have, &ip);
    if (stale_read_source(relics->st, have, &ip)) {
        addrset_push(&relics->sources, &ip, 0);
    }
}

static void
note_flow(const struct fitem *have, void *relics_)
{
    struct relics *relics = relics_;
    uint64_t cookie = fitem_cookie(have);
    struct pipe_installed addr;
    struct ip ip;

    if (fitem_kind(have) != FITEM_FLOW || !cookie_is_current(cookie)) {
        return;
    } else if (pipe_flow_node_port_ip(have, &ip)) {
        addrset_push(&relics->node_ips, &ip, 0);
    } else if (cookie_category(cookie) == COOKIE_MULTICLUSTER) {
        note_cluster_flow(have, relics);
    } else if (cookie_category(cookie) == COOKIE_SERVICE
               && fitem_nw_proto(have) != proto_number(PROTO_TCP)
               && pipe_flow_frontend(have, &addr)) {
        note_frontend(relics, cookie, &addr);
    }
}

static void
note_group(const struct fitem *have, void *relics_)
{
    struct relics *relics = relics_;
    uint32_t group_id = fitem_group_id(have);
    struct relic *relic;
    struct eps *eps;
    size_t n;

    if (fitem_kind(have) != FITEM_GROUP || !group_id_is_ours(group_id)) {
        return;
    }
    relic = find_relic(relics, cookie_make(COOKIE_SERVICE,
                                           group_id_object_id(group_id)));
    if (!relic) {
        return;
    }
    n = pipe_group_endpoints(have, &eps);
    for (size_t i = 0; i < n; i++) {
        addrset_push(&relic->was.used, &eps[i].ip, eps[i].port);
    }
    free(eps);
}

/* NodePorts were served on the node's addresses of then. */
static void
adopt(struct stale *st, struct relic *relic, const struct addrset *node_ips)
{
    struct port *was = &relic->was;
    size_t n;

    addrset_sort(&was->addrs);
    addrset_sort(&was->used);
    if (relic->other) {
        return;
    }
    stale_inherit(st, was);

    n = was->addrs.n;
    for (size_t i = 0; i < n; i++) {
        if (!ip_is_none(&was->addrs.a[i].ip)) {
            continue;
        }
        for (size_t j = 0; j < node_ips->n; j++) {
            if (ip_family(&node_ips->a[j].ip) == was->family) {
                addrset_push(&was->addrs, &node_ips->a[j].ip,
                             was->addrs.a[i].port);
            }
        }
    }
    addrset_sort(&was->addrs);
    stale_add_job(st, was);
}

/* 'then' are the addresses that served NodePorts. */
static void
adopt_node_ips(struct stale *st, const struct addrset *then)
{
    struct addrset added = ADDRSET_INIT;

    if (then->n) {
        addrset_subtract(&st->node_ips, then, &added);
        stale_change_node_ips(st, &added, false);
        addrset_clear(&added);
    }
}

void
stale_adopt(struct stale *st)
{
    struct relics relics = { .st = st };
    struct relic *relic;

    st->adopted = true;
    hmap_init(&relics.by_id);
    flowtab_for_each_found(st->flowtab, note_flow, &relics);
    flowtab_for_each_found(st->flowtab, note_group, &relics);
    addrset_sort(&relics.node_ips);
    adopt_node_ips(st, &relics.node_ips);
    addrset_sort(&relics.sources);
    for (size_t i = 0; i < relics.sources.n; i++) {
        stale_note_source(st, &relics.sources.a[i].ip);
    }
    st->took_over =
        relics.had_clusters && !relics.was_gateway && !ip_is_none(&st->source);
    HMAP_FOR_EACH_SAFE (relic, node, &relics.by_id) {
        adopt(st, relic, &relics.node_ips);
        addrset_clear(&relic->was.addrs);
        addrset_clear(&relic->was.used);
        hmap_remove(&relics.by_id, &relic->node);
        free(relic);
    }
    hmap_destroy(&relics.by_id);
    addrset_clear(&relics.node_ips);
    addrset_clear(&relics.sources);
    stale_load(st);
}
