/* SPDX-License-Identifier: Apache-2.0 */
/* Connections that were tracked before a rule came or went, and so pass it
 * by: of tunnels, which are not to be tracked, and of Services. */

#include <netinet/in.h>
#include <string.h>

#include <openvswitch/util.h>
#include <util.h>

#include "rules-private.h"

/* Nodes come and go slowly; nobody waits for a tunnel's entries to go.  But
 * clients may wait for those of Services. */
#define TUNNEL_GAP_MS  30000
#define SERVICE_GAP_MS 5000

void
rules_init_conntrack(struct rules *r)
{
    ctflush_init(&r->ctflush, "tunnels", TUNNEL_GAP_MS);
    ctstale_init(&r->ctstale, SERVICE_GAP_MS);
}

void
rules_uninit_conntrack(struct rules *r)
{
    ctflush_uninit(&r->ctflush);
    ctstale_uninit(&r->ctstale);
}

/* True for a tunnel packet between this node and another one. */
static bool
is_tunnel(const struct ctflush_entry *e, const void *r_)
{
    const struct rules *r = r_;
    const struct ip *own = &r->transport[ip_family(&e->src)];
    const struct memberset *nodes = &r->sets[RULES_NODES];

    return !ip_is_none(own)
           && ((ip_equals(&e->src, own) && memberset_wants_ip(nodes, &e->dst))
               || (ip_equals(&e->dst, own)
                   && memberset_wants_ip(nodes, &e->src)));
}

/* Only once the rule is there: what is removed would come back.  And not
 * before nodes are known: at the start the table is written first. */
static bool
tunnels_can_run(const struct rules *r)
{
    return rules_table_is_written(r)
           && (r->ctflush.sock || r->sets[RULES_NODES].n_wanted);
}

static void
run_tunnels(struct rules *r)
{
    const struct ctflush_filter filter = { IPPROTO_UDP, r->notrack_port };
    const struct ctflush_want w = {
        .filters = &filter,
        .n_filters = r->notrack_port != 0,
        .families = { !ip_is_none(&r->transport[IP_V4]),
                      !ip_is_none(&r->transport[IP_V6]) },
        .is_stale = is_tunnel,
        .aux = r,
    };

    ignore(ctflush_run(&r->ctflush, &w));
}

void
rules_run_conntrack(struct rules *r)
{
    if (tunnels_can_run(r)) {
        run_tunnels(r);
    }
    if (rules_table_is_written(r)) {
        struct ctstale_want w = { .sets = r->sets };

        memcpy(w.gateway_ips, r->gateway_ips, sizeof w.gateway_ips);
        memcpy(w.node_port_ips, r->node_port_ips, sizeof w.node_port_ips);
        ctstale_run(&r->ctstale, &w);
    }
}

void
rules_wait_conntrack(const struct rules *r)
{
    if (tunnels_can_run(r)) {
        ctflush_wait(&r->ctflush);
    }
    if (rules_table_is_written(r)) {
        ctflush_wait(&r->ctstale.flush);
    }
}

void
rules_flush_for_table(struct rules *r)
{
    ctflush_request(&r->ctflush);
    for (enum rules_set_id id = 0; id < N_RULES_SETS; id++) {
        const struct member *m;

        HMAP_FOR_EACH (m, node, &r->sets[id].members) {
            if (m->installed != member_is_due(m)) {
                rules_flush_for_member(r, id, m);
            }
        }
    }
}

void
rules_flush_for_member(struct rules *r, enum rules_set_id id,
                       const struct member *m)
{
    switch (id) {
    case RULES_POD_CIDRS: break;
    case RULES_NODES:
        if (member_is_due(m)) {
            ctflush_request(&r->ctflush);
        }
        break;
    case RULES_NODE_PORT_ADDRS:
    case RULES_NODE_PORTS:
    case RULES_EXTERNAL: ctstale_note(&r->ctstale, m); break;
    }
}
