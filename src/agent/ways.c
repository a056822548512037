/* SPDX-License-Identifier: Apache-2.0 */

/* Which routes the host needs. */

#include "ways.h"

#include <util.h>

#include "ofproxyd/pipeline/pipeline.h"

struct ways {
    struct ways_cfg cfg;
    bool set;
    struct ip srcs[N_IP_FAMILIES]; /* As they were set with. */
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
    free(w);
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

/* As make_service_route(), for a cluster IP; false also if the route to all
 * cluster IPs leads there. */
static bool
make_ip_route(const struct ways *w, const struct ip *ip,
              struct host_route *ret)
{
    const struct cfg *cfg = w->cfg.cfg;
    const struct cfg_cidr *all =
        ip_family(ip) == IP_V4 ? &cfg->service_cidr : &cfg->service_cidr_v6;
    struct cidr dst = host_cidr(ip);

    return !(all->present && cidr_contains(&all->cidr, ip))
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

/* What the host asks itself by way of a Service arrives from the virtual
 * address; the answers have to go back to the gateway. */
static void
add_virtual_routes(struct route_list *list)
{
    for (int f = 0; f < N_IP_FAMILIES; f++) {
        struct ip ip = pipe_virtual_ip(f);
        struct cidr dst = host_cidr(&ip);

        list->n += make_service_route(list->ways, &dst, next_route(list));
    }
}

static void
add_service_routes(struct route_list *list)
{
    const struct cfg *cfg = list->ways->cfg.cfg;

    if (!cfg->antrea_proxy_proxy_all) {
        return;
    }
    add_virtual_routes(list);
    if (cfg->service_cidr.present) {
        list->n += make_service_route(list->ways, &cfg->service_cidr.cidr,
                                      next_route(list));
    }
    if (cfg->service_cidr_v6.present) {
        list->n += make_service_route(list->ways, &cfg->service_cidr_v6.cidr,
                                      next_route(list));
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
change_service(struct ways *w, const struct addr_change *change)
{
    struct host_route route;

    if (change->kind != PIPE_CLUSTER_IP
        || !make_ip_route(w, &change->ip, &route)) {
        return;
    } else if (change->gone) {
        host_unwant_route(w->cfg.host, &route.dst);
    } else {
        host_want_route(w->cfg.host, &route);
    }
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

/* True if the sources of routes are others than they were set with. */
static bool
is_stale(const struct ways *w)
{
    return !w->set
           || memcmp(w->srcs, own_node(w)->gateway_ips, sizeof w->srcs);
}

void
ways_run(struct ways *w)
{
    size_t n_services, n_net;
    struct addr_change *services =
        services_take_addr_changes(w->cfg.services, &n_services);
    struct net_route *net = net_take_routes(w->cfg.net, &n_net);

    if (is_stale(w)) {
        set_all(w);
        w->set = true;
        memcpy(w->srcs, own_node(w)->gateway_ips, sizeof w->srcs);
    } else {
        for (size_t i = 0; i < n_services; i++) {
            change_service(w, &services[i]);
        }
        for (size_t i = 0; i < n_net; i++) {
            change_net(w, &net[i]);
        }
    }
    free(services);
    free(net);
}
