/* SPDX-License-Identifier: Apache-2.0 */

/* Which routes the host needs, and which ports at which addresses it leads
 * into the bridge. */

#include "ways.h"

#include <util.h>

#include "ofproxyd/pipeline/pipeline.h"

struct ways {
    struct ways_cfg cfg;
    bool set;
    struct ip srcs[N_IP_FAMILIES]; /* As they were set with... */
    uint64_t svccidrs_seqno;       /* ...and these. */

    /* NodePort addresses that the rules know. */
    uint64_t ips_seqno; /* They are of. */
    struct ip *ips;
    size_t n_ips;
};

struct ways *
ways_create(const struct ways_cfg *cfg)
{
    struct ways *w = xzalloc(sizeof *w);

    w->cfg = *cfg;
    return w;
}

void
ways_destroy(struct ways *w)
{
    if (w) {
        free(w->ips);
        free(w);
    }
}

static const struct pipe_node *
own_node(const struct ways *w)
{
    return local_node(w->cfg.local);
}

/* Fills '*ret' with the route to a Service's addresses.  Returns false if
 * there can't be one. */
static bool
make_service_route(const struct ways *w, const struct cidr *dst,
                   struct host_route *ret)
{
    enum ip_family f = ip_family(&dst->ip);

    *ret = (struct host_route){
        .dst = *dst,
        .via = pipe_virtual_ip(f),
        .src = own_node(w)->gateway_ips[f],
    };
    return !ip_is_none(&ret->src); /* Else the node is not of this family. */
}

static struct cidr
host_cidr(const struct ip *ip)
{
    return (struct cidr){
        .ip = *ip,
        .plen = ip_family(ip) == IP_V4 ? 32 : 128,
    };
}

/* As make_service_route(), for a cluster IP; false also if the route to a
 * network of Services leads there. */
static bool
make_ip_route(const struct ways *w, const struct ip *ip,
              struct host_route *ret)
{
    struct cidr dst = host_cidr(ip);

    return !svccidrs_contain(w->cfg.svccidrs, ip)
           && make_service_route(w, &dst, ret);
}

/* All routes. */

struct route_list {
    const struct ways *ways;
    struct host_route *routes;
    size_t n, allocated;
};

static struct host_route *
next_route(struct route_list *list)
{
    if (list->n >= list->allocated) {
        list->routes =
            x2nrealloc(list->routes, &list->allocated, sizeof *list->routes);
    }
    return &list->routes[list->n];
}

static void
add_unit_route(const struct unit *u, void *list_)
{
    struct route_list *list = list_;

    list->n += make_ip_route(list->ways, &u->ip, next_route(list));
}

static void
add_net_route(const struct host_route *route, void *list_)
{
    struct route_list *list = list_;

    *next_route(list) = *route;
    list->n++;
}

static void
add_virtual_route(struct route_list *list, const struct ip *ip)
{
    struct cidr dst = host_cidr(ip);

    list->n += make_service_route(list->ways, &dst, next_route(list));
}

/* What the host asks itself by way of a Service arrives from the virtual
 * address, and so does what pods ask for by a load balancer's and the host
 * forwards; the answers have to go back to the gateway.  What is sent to a
 * NodePort gets the other one. */
static void
add_virtual_routes(struct route_list *list, bool node_ports)
{
    for (int f = 0; f < N_IP_FAMILIES; f++) {
        struct ip ip = pipe_virtual_ip(f);
        struct ip node_port_ip = pipe_node_port_ip(f);

        add_virtual_route(list, &ip);
        if (node_ports) {
            add_virtual_route(list, &node_port_ip);
        }
    }
}

static void
add_service_routes(struct route_list *list)
{
    const struct ways *w = list->ways;
    const struct cidr *cidrs;
    size_t n;

    if (!w->cfg.cfg->antrea_proxy_proxy_all) {
        if (w->cfg.cfg->antrea_proxy_proxy_load_balancer_ips
            || w->cfg.cfg->multicluster_enable_gateway) {
            add_virtual_routes(list, false);
        }
        return;
    }
    add_virtual_routes(list, true);
    cidrs = svccidrs_get(w->cfg.svccidrs, &n);
    for (size_t i = 0; i < n; i++) {
        list->n += make_service_route(w, &cidrs[i], next_route(list));
    }
    services_for_each(list->ways->cfg.services, NULL, NULL, add_unit_route,
                      list);
}

static void
set_all(struct ways *w)
{
    struct route_list list = { .ways = w };

    add_service_routes(&list);
    net_for_each_route(w->cfg.net, add_net_route, &list);
    host_set_routes(w->cfg.host, list.routes, list.n);
    free(list.routes);
}

/* Changes. */

static void
change_cluster_ip(struct ways *w, const struct addr_change *change)
{
    struct host_route route;

    if (!make_ip_route(w, &change->ip, &route)) {
        return;
    } else if (change->gone) {
        host_unwant_route(w->cfg.host, &route.dst);
    } else {
        host_want_route(w->cfg.host, &route);
    }
}

static void
change_port(struct ways *w, const struct addr_change *change)
{
    bool external = change->kind == PIPE_EXTERNAL;
    struct rules_port port = {
        .ip = external ? change->ip
              : change->family == IP_V4
                  ? ip_from_v4(0)
                  : (struct ip){ .in6 = IN6ADDR_ANY_INIT },
        .proto = change->proto,
        .port = change->port,
    };

    (change->gone ? rules_remove_port : rules_add_port)(
        w->cfg.rules, external ? RULES_EXTERNAL : RULES_NODE_PORTS, &port);
}

static void
change_services(struct ways *w, bool stale)
{
    size_t n;
    struct addr_change *changes =
        services_take_addr_changes(w->cfg.services, &n);

    for (size_t i = 0; i < n; i++) {
        if (changes[i].kind != PIPE_CLUSTER_IP) {
            change_port(w, &changes[i]);
        } else if (!stale) {
            change_cluster_ip(w, &changes[i]);
        }
    }
    free(changes);
}

static void
change_node_port_ip(struct ways *w, const struct ip *ip, bool gone)
{
    struct cidr cidr = host_cidr(ip);

    (gone ? rules_remove_member
          : rules_add_member)(w->cfg.rules, RULES_NODE_PORT_ADDRS, &cidr);
}

/* The NodePort addresses: new ones come before old ones go. */
static void
change_node_port_ips(struct ways *w)
{
    const struct nodeips_state *s = nodeips_state(w->cfg.nodeips);

    if (s->seqno == w->ips_seqno) {
        return;
    }

    size_t n = s->n_node_ports;
    struct ip *ips = xmalloc((n + 1) * sizeof *ips);
    if (n) {
        memcpy(ips, s->node_ports, n * sizeof *ips);
    }
    if (s->localhost) {
        ips[n++] = ip_from_v4(htonl(INADDR_LOOPBACK));
    }
    for (size_t i = 0; i < n; i++) {
        change_node_port_ip(w, &ips[i], false);
    }
    for (size_t i = 0; i < w->n_ips; i++) {
        change_node_port_ip(w, &w->ips[i], true);
    }
    free(w->ips);
    w->ips = ips;
    w->n_ips = n;
    w->ips_seqno = s->seqno;
}

static void
change_net(struct ways *w, const struct net_route *change)
{
    if (change->gone) {
        host_unwant_route(w->cfg.host, &change->route.dst);
    } else {
        host_want_route(w->cfg.host, &change->route);
    }
}

/* True if the sources of routes, or the networks of Services, are others than
 * they were set with. */
static bool
is_stale(const struct ways *w)
{
    return !w->set || w->svccidrs_seqno != svccidrs_seqno(w->cfg.svccidrs)
           || memcmp(w->srcs, own_node(w)->gateway_ips, sizeof w->srcs);
}

/* 127.0.0.1 is served if it is a NodePort address; while the rules are those
 * of an earlier run, as that one has left it. */
static void
set_localhost(struct ways *w)
{
    if (!rules_are_of_earlier_run(w->cfg.rules)) {
        host_set_localhost(w->cfg.host,
                           w->cfg.cfg->antrea_proxy_proxy_all
                               && nodeips_state(w->cfg.nodeips)->localhost
                               && rules_guard_localhost(w->cfg.rules));
    }
}

void
ways_run(struct ways *w)
{
    size_t n_net;
    struct net_route *net = net_take_routes(w->cfg.net, &n_net);
    bool stale = is_stale(w);

    change_services(w, stale);
    if (w->cfg.cfg->antrea_proxy_proxy_all) {
        change_node_port_ips(w);
    }
    set_localhost(w);
    if (stale) {
        set_all(w);
        w->set = true;
        w->svccidrs_seqno = svccidrs_seqno(w->cfg.svccidrs);
        memcpy(w->srcs, own_node(w)->gateway_ips, sizeof w->srcs);
    } else {
        for (size_t i = 0; i < n_net; i++) {
            change_net(w, &net[i]);
        }
    }
    free(net);
}
