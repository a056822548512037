/* SPDX-License-Identifier: Apache-2.0 */

/* The gateway, the pods, and the host's way to Services. */

#include "local.h"

#include <openvswitch/vlog.h>

#include <packets.h>
#include <util.h>

#include "ofproxyd/flow/cookie.h"
#include "ofproxyd/pipeline/pipeline.h"
#include "services.h"

VLOG_DEFINE_THIS_MODULE(local);

/* Of a Node (core/v1: one a family; more are cut off, and said so). */
#define MAX_POD_CIDRS 8

struct local {
    struct local_cfg cfg;
    uint64_t db_seqno, nodes_seqno; /* Of what was rendered last. */

    /* What flows and host depend on. */
    struct pipe_node node;
    struct cidr pod_cidrs[MAX_POD_CIDRS];
    struct cidr gateway_addrs[N_IP_FAMILIES]; /* "::"/0 if none. */

    /* Flows of the node that the switch had when we came, as long as no Node
     * tells which it should have. */
    struct fout kept;

    uint64_t *pod_owners; /* That want flows, ascending. */
    size_t n_pods;

    /* The host: what 'want' points to. */
    struct host_want want;
    struct cidr want_addrs[N_IP_FAMILIES];
    struct host_neigh want_neighs[N_IP_FAMILIES];

    /* Its routes. */
    bool routes_set;
    struct ip routes_src[N_IP_FAMILIES]; /* As they were set with. */
};

struct local *
local_create(const struct local_cfg *cfg)
{
    struct local *l = xzalloc(sizeof *l);

    l->cfg = *cfg;
    l->db_seqno = UINT64_MAX;
    l->node.meter_id = LOCAL_METER_ID;
    l->node.pod_cidrs = l->pod_cidrs;
    return l;
}

void
local_destroy(struct local *l)
{
    if (l) {
        fout_clear(&l->kept);
        free(l->kept.items);
        free(l->pod_owners);
        free(l);
    }
}

/* Sources. */

/* The gateway's address, the first of a pod network, must be one of a host
 * and in the network; and a network of length 0 would take the node's default
 * route away. */
static bool
is_pod_network(const struct cidr *cidr)
{
    struct ip gateway = cidr_host(cidr, 1);

    return cidr->plen > 0 && cidr_contains(cidr, &gateway)
           && ip_is_unicast(&gateway);
}

/* Copies the pod CIDRs that can be used to 'cidrs', and returns how many. */
static size_t
take_pod_cidrs(const struct node *node, struct cidr cidrs[MAX_POD_CIDRS])
{
    size_t n = 0;

    for (size_t i = 0; i < node->n_pod_cidrs; i++) {
        static struct vlog_rate_limit rl = VLOG_RATE_LIMIT_INIT(1, 4);
        const struct cidr *cidr = &node->pod_cidrs[i];
        char buf[CIDR_STRLEN];

        if (!is_pod_network(cidr)) {
            VLOG_WARN_RL(&rl,
                         "Node %s: podCIDR %s can't be a network of pods; it "
                         "is not used",
                         node->meta.name, cidr_to_string(cidr, buf));
        } else if (n >= MAX_POD_CIDRS) {
            VLOG_WARN_RL(&rl,
                         "Node %s: only the first %d of %zu podCIDRs are used",
                         node->meta.name, MAX_POD_CIDRS, node->n_pod_cidrs);
            break;
        } else {
            cidrs[n++] = *cidr;
        }
    }
    return n;
}

/* What the Node object says.  A Node that is gone, or lost its pod CIDRs,
 * leaves things as they were: pods don't stop to exist by it. */
static void
read_node(struct local *l)
{
    const struct node *node = model_own_node(l->cfg.model);
    struct cidr cidrs[MAX_POD_CIDRS];
    size_t n = node ? take_pod_cidrs(node, cidrs) : 0;

    if (!n) {
        return;
    }
    fout_clear(&l->kept);
    memcpy(l->pod_cidrs, cidrs, n * sizeof *cidrs);
    l->node.n_pod_cidrs = n;
    memset(l->gateway_addrs, 0, sizeof l->gateway_addrs);
    memset(l->node.gateway_ips, 0, sizeof l->node.gateway_ips);
    for (size_t i = 0; i < n; i++) {
        enum ip_family f = ip_family(&cidrs[i].ip);

        if (ip_is_none(&l->node.gateway_ips[f])) {
            l->node.gateway_ips[f] = cidr_host(&cidrs[i], 1);
            l->gateway_addrs[f].ip = l->node.gateway_ips[f];
            l->gateway_addrs[f].plen = cidrs[i].plen;
        }
    }
}

static void
read_gateway(struct local *l, const struct ovsdb_state *db)
{
    if (db->gateway_ofport) {
        l->node.gateway_ofport = db->gateway_ofport;
        l->node.gateway_mac = db->gateway_mac;
    }
}

/* The bridge. */

static void
keep_flow(const struct fitem *have, void *l_)
{
    struct local *l = l_;

    if (fitem_cookie(have) == cookie_make(COOKIE_PIPELINE, 0)) {
        fout_add(&l->kept, fitem_ref(have));
    }
}

static bool
has_key(const struct fout *out, const struct fitem *item)
{
    for (size_t i = 0; i < out->n; i++) {
        if (fitem_key_equals(out->items[i], item)) {
            return true;
        }
    }
    return false;
}

static size_t
want_node(struct local *l)
{
    /* No pod takes the gateway's place, whatever the database says of it. */
    struct flowtab_owner owner = {
        .id = cookie_make(COOKIE_PIPELINE, 0),
        .rank = INT64_MIN,
        .vital = true,
    };
    struct fout out = FOUT_INIT;
    size_t n;

    pipe_render_node(&l->node, &out);
    for (size_t i = 0; i < l->kept.n; i++) {
        if (!has_key(&out, l->kept.items[i])) {
            fout_add(&out, fitem_ref(l->kept.items[i]));
        }
    }
    n = flowtab_want(l->cfg.flowtab, &owner, &out);
    free(out.items);
    return n;
}

static size_t
want_pod(struct local *l, const struct ovsdb_pod *pod, uint64_t owner_id)
{
    struct pipe_pod p = {
        .ofport = pod->ofport,
        .mac = pod->mac,
        .ips = pod->ips,
        .n_ips = pod->n_ips,
    };
    /* While the port of a pod that is gone lingers, its successor, with the
     * same address, has the higher port number. */
    struct flowtab_owner owner = { .id = owner_id, .rank = -pod->ofport };
    struct fout out = FOUT_INIT;
    size_t n;

    pipe_render_pod(&l->node, &p, &out);
    n = flowtab_want(l->cfg.flowtab, &owner, &out);
    free(out.items);
    return n;
}

static int
compare_u64(const void *a_, const void *b_)
{
    const uint64_t *a = a_, *b = b_;

    return *a < *b ? -1 : *a > *b;
}

static size_t
want_pods(struct local *l, const struct ovsdb_state *db)
{
    uint64_t *owners = xmalloc(MAX(db->n_pods, 1) * sizeof *owners);
    size_t n = 0;

    for (size_t i = 0; i < db->n_pods; i++) {
        owners[i] = cookie_make(COOKIE_POD, db->pods[i].ofport);
        n += want_pod(l, &db->pods[i], owners[i]);
    }
    qsort(owners, db->n_pods, sizeof *owners, compare_u64);
    for (size_t i = 0; i < l->n_pods; i++) {
        if (!bsearch(&l->pod_owners[i], owners, db->n_pods, sizeof *owners,
                     compare_u64)) {
            struct flowtab_owner owner = { .id = l->pod_owners[i] };
            struct fout none = FOUT_INIT;

            n += flowtab_want(l->cfg.flowtab, &owner, &none);
        }
    }
    free(l->pod_owners);
    l->pod_owners = owners;
    l->n_pods = db->n_pods;
    return n;
}

/* The host. */

static void
want_host(struct local *l)
{
    struct host_want *w = &l->want;

    w->gateway = l->cfg.cfg->host_gateway;
    w->gateway_ready = l->node.gateway_ofport != 0;
    w->forwarding = true;
    w->addresses = l->want_addrs;
    w->n_addresses = 0;
    w->neighs = l->want_neighs;
    w->n_neighs = 0;
    for (int f = 0; f < N_IP_FAMILIES; f++) {
        if (ip_is_none(&l->node.gateway_ips[f])) {
            continue;
        }
        l->want_addrs[w->n_addresses++] = l->gateway_addrs[f];
        l->want_neighs[w->n_neighs].ip = pipe_virtual_ip(f);
        l->want_neighs[w->n_neighs++].mac = pipe_virtual_mac();
    }
    host_set(l->cfg.host, w);
}

bool
local_run(struct local *l, const struct ovsdb_state *db)
{
    uint64_t nodes_seqno = model_nodes_seqno(l->cfg.model);
    size_t n = 0;

    if (!db->bridge_ok
        || (db->seqno == l->db_seqno && nodes_seqno == l->nodes_seqno)) {
        return false;
    }
    l->db_seqno = db->seqno;
    l->nodes_seqno = nodes_seqno;
    read_node(l);
    read_gateway(l, db);
    n += want_node(l);
    n += want_pods(l, db);
    want_host(l);
    return n > 0;
}

bool
local_is_ready(const struct local *l)
{
    return l->node.gateway_ofport && l->node.n_pod_cidrs;
}

void
local_adopt(struct local *l)
{
    if (!l->node.n_pod_cidrs) {
        flowtab_for_each_have(l->cfg.flowtab, keep_flow, l);
        want_node(l);
    }
}

/* Routes. */

/* Fills '*ret' with the route to 'dst'.  Returns false if there can't be
 * one. */
static bool
make_route(const struct local *l, const struct cidr *dst,
           struct host_route *ret)
{
    enum ip_family f = ip_family(&dst->ip);

    ret->dst = *dst;
    ret->via = pipe_virtual_ip(f);
    ret->src = l->node.gateway_ips[f];
    return !ip_is_none(&ret->src); /* Else the node is not of this family. */
}

/* As make_route(), for a cluster IP; false also if the route to all cluster
 * IPs leads there. */
static bool
make_ip_route(const struct local *l, const struct ip *ip,
              struct host_route *ret)
{
    const struct cfg *cfg = l->cfg.cfg;
    bool v4 = ip_family(ip) == IP_V4;
    struct cidr dst = { .ip = *ip, .plen = v4 ? 32 : 128 };

    if ((v4 ? cfg->service_cidr.present : cfg->service_cidr_v6.present)
        && cidr_contains(v4 ? &cfg->service_cidr.cidr
                            : &cfg->service_cidr_v6.cidr,
                         ip)) {
        return false;
    }
    return make_route(l, &dst, ret);
}

struct route_list {
    const struct local *local;
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

    list->n += make_ip_route(list->local, &u->ip, next_route(list));
}

/* What the host asks itself by way of a Service arrives from the virtual
 * address; the answers have to go back to the gateway. */
static void
add_virtual_routes(struct route_list *list)
{
    for (int f = 0; f < N_IP_FAMILIES; f++) {
        struct cidr dst = {
            .ip = pipe_virtual_ip(f),
            .plen = f == IP_V4 ? 32 : 128,
        };

        list->n += make_route(list->local, &dst, next_route(list));
    }
}

static void
set_all_routes(struct local *l, const struct services *services)
{
    const struct cfg *cfg = l->cfg.cfg;
    struct route_list list = { .local = l };

    if (cfg->antrea_proxy_proxy_all) {
        add_virtual_routes(&list);
        if (cfg->service_cidr.present) {
            list.n +=
                make_route(l, &cfg->service_cidr.cidr, next_route(&list));
        }
        if (cfg->service_cidr_v6.present) {
            list.n +=
                make_route(l, &cfg->service_cidr_v6.cidr, next_route(&list));
        }
        services_for_each(services, NULL, NULL, add_unit_route, &list);
    }
    l->want.complete = l->node.n_pod_cidrs > 0;
    want_host(l);
    host_set_routes(l->cfg.host, list.routes, list.n);
    free(list.routes);
}

static void
change_route(struct local *l, const struct ip_change *change)
{
    struct host_route route;

    if (!make_ip_route(l, &change->ip, &route)) {
        return;
    } else if (change->gone) {
        host_unwant_route(l->cfg.host, &route.dst);
    } else {
        host_want_route(l->cfg.host, &route);
    }
}

void
local_set_routes(struct local *l, struct services *services)
{
    size_t n;
    struct ip_change *changes = services_take_ip_changes(services, &n);

    if (!l->routes_set
        || memcmp(l->routes_src, l->node.gateway_ips, sizeof l->routes_src)) {
        set_all_routes(l, services);
        l->routes_set = true;
        memcpy(l->routes_src, l->node.gateway_ips, sizeof l->routes_src);
    } else {
        for (size_t i = 0; i < n; i++) {
            change_route(l, &changes[i]);
        }
    }
    free(changes);
}

void
local_format(const struct local *l, struct ds *ds)
{
    char buf[CIDR_STRLEN];

    ds_put_format(ds, "gateway: %s port %u " ETH_ADDR_FMT,
                  l->cfg.cfg->host_gateway, l->node.gateway_ofport,
                  ETH_ADDR_ARGS(l->node.gateway_mac));
    for (int f = 0; f < N_IP_FAMILIES; f++) {
        if (!ip_is_none(&l->gateway_addrs[f].ip)) {
            ds_put_format(ds, " %s",
                          cidr_to_string(&l->gateway_addrs[f], buf));
        }
    }
    ds_put_format(ds, "\npods: %zu\n", l->n_pods);
}
