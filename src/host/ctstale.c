/* SPDX-License-Identifier: Apache-2.0 */
/* Which conntrack entries of Services are stale. */

#include "ctstale.h"

#include <netinet/in.h>

#include <openvswitch/util.h>
#include <util.h>

void
ctstale_init(struct ctstale *cs, int gap_max_ms)
{
    memberset_init(&cs->changed);
    cs->sctp = false;
    ctflush_init(&cs->flush, "Services", gap_max_ms);
}

void
ctstale_uninit(struct ctstale *cs)
{
    memberset_uninit(&cs->changed);
    ctflush_uninit(&cs->flush);
}

void
ctstale_note(struct ctstale *cs, const struct member *m)
{
    struct rules_port port = { .ip = m->cidr.ip, .port = m->port };

    if (m->proto == IPPROTO_TCP) {
        return; /* A connection ends when its packets lead nowhere. */
    } else if (!m->proto) {
        ignore(memberset_add(&cs->changed, &m->cidr));
    } else {
        port.proto = m->proto == IPPROTO_UDP ? PROTO_UDP : PROTO_SCTP;
        ignore(memberset_add_port(&cs->changed, &port));
    }
    cs->sctp |= m->proto != IPPROTO_UDP;
    ctflush_request(&cs->flush);
}

/* What is_stale() looks at. */
struct judge {
    const struct ctstale *cs;
    const struct ctstale_want *want;
};

/* 'port' is at an address, 'any' is the same at any. */
static bool
has_changed(const struct memberset *changed, const struct rules_port *port,
            const struct rules_port *any)
{
    return memberset_wants_port(changed, any)
           || memberset_wants_ip(changed, &port->ip)
           || memberset_wants_port(changed, port);
}

static bool
is_stale(const struct ctflush_entry *e, const void *judge_)
{
    const struct judge *j = judge_;
    const struct memberset *sets = j->want->sets, *changed = &j->cs->changed;
    enum ip_family f = ip_family(&e->dst);
    struct rules_port port = {
        .ip = e->dst,
        .proto = e->proto == IPPROTO_UDP ? PROTO_UDP : PROTO_SCTP,
        .port = e->dport,
    };
    struct rules_port any = port;

    any.ip = f == IP_V4 ? ip_from_v4(0) : (struct ip){ .in6 = in6addr_any };
    if (!has_changed(changed, &port, &any)) {
        return false;
    }

    bool own = memberset_wants_ip(&sets[RULES_NODE_PORT_ADDRS], &e->dst);
    bool node_port =
        own && memberset_wants_port(&sets[RULES_NODE_PORTS], &any);
    bool external = memberset_wants_port(&sets[RULES_EXTERNAL], &port);
    if (ip_equals(&e->reply_src, &j->want->node_port_ips[f])) {
        /* Translated; of an external address only if it is the node's. */
        return !node_port
               && (!external
                   || (!own && memberset_wants_ip(changed, &e->dst)));
    } else if (!ip_equals(&e->reply_src, &e->dst)
               || e->reply_sport != e->dport) {
        return false; /* By somebody else. */
    }
    /* To an external address, but for one of the node's, it goes by a mark,
     * and what this node sends gets the gateway's address as its source. */
    bool by_gateway = ip_equals(&e->reply_dst, &j->want->gateway_ips[f]);
    return node_port || (external ? !by_gateway : by_gateway);
}

void
ctstale_run(struct ctstale *cs, const struct ctstale_want *want)
{
    static const struct ctflush_filter filters[] = { { IPPROTO_UDP, 0 },
                                                     { IPPROTO_SCTP, 0 } };
    const struct judge judge = { cs, want };
    const struct ctflush_want w = {
        .filters = filters,
        .n_filters = cs->sctp ? 2 : 1,
        .families = { !ip_is_none(&want->node_port_ips[IP_V4]),
                      !ip_is_none(&want->node_port_ips[IP_V6]) },
        .is_stale = is_stale,
        .aux = &judge,
    };

    if (ctflush_run(&cs->flush, &w)) {
        memberset_uninit(&cs->changed);
        memberset_init(&cs->changed);
        cs->sctp = false;
    }
}
