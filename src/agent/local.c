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

    uint64_t *pod_owners; /* That want flows, ascending. */
    size_t n_pods;

    /* The host's routes: what 'want' points to. */
    struct host_want want;
    struct cidr want_addrs[N_IP_FAMILIES];
    struct host_neigh want_neighs[N_IP_FAMILIES];
    struct host_route *routes;
    size_t allocated_routes;
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
        free(l->pod_owners);
        free(l->routes);
        free(l);
    }
}

/* Sources. */

/* What the Node object says.  A Node that is gone, or lost its pod CIDRs,
 * leaves things as they were: pods don't stop to exist by it. */
static void
read_node(struct local *l)
{
    const struct node *node = model_own_node(l->cfg.model);

    if (!node || !node->n_pod_cidrs) {
        return;
    }
    l->node.n_pod_cidrs = MIN(node->n_pod_cidrs, MAX_POD_CIDRS);
    if (l->node.n_pod_cidrs < node->n_pod_cidrs) {
        static struct vlog_rate_limit rl = VLOG_RATE_LIMIT_INIT(1, 1);

        VLOG_WARN_RL(&rl,
                     "Node %s: only the first %d of %zu podCIDRs are "
                     "used",
                     node->meta.name, MAX_POD_CIDRS, node->n_pod_cidrs);
    }
    memset(l->gateway_addrs, 0, sizeof l->gateway_addrs);
    memset(l->node.gateway_ips, 0, sizeof l->node.gateway_ips);
    for (size_t i = 0; i < l->node.n_pod_cidrs; i++) {
        const struct cidr *cidr = &node->pod_cidrs[i];
        enum ip_family f = ip_family(&cidr->ip);

        l->pod_cidrs[i] = *cidr;
        if (ip_is_none(&l->node.gateway_ips[f])) {
            l->node.gateway_ips[f] = cidr_host(cidr, 1);
            l->gateway_addrs[f].ip = l->node.gateway_ips[f];
            l->gateway_addrs[f].plen = cidr->plen;
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

static size_t
want_node(struct local *l)
{
    struct flowtab_owner owner = { .id = cookie_make(COOKIE_PIPELINE, 0) };
    struct fout out = FOUT_INIT;
    size_t n;

    pipe_render_node(&l->node, &out);
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
    w->routes = l->routes;
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

/* Routes. */

struct route_ctx {
    struct local *l;
    const struct cidr *service_cidrs[N_IP_FAMILIES]; /* Or NULL. */
    size_t n;
};

static void
add_route(struct route_ctx *ctx, const struct cidr *dst)
{
    struct local *l = ctx->l;
    enum ip_family f = ip_family(&dst->ip);

    if (ip_is_none(&l->node.gateway_ips[f])) {
        return; /* The node is not of this family. */
    }
    if (ctx->n >= l->allocated_routes) {
        l->routes =
            x2nrealloc(l->routes, &l->allocated_routes, sizeof *l->routes);
    }
    l->routes[ctx->n].dst = cidr_network(dst);
    l->routes[ctx->n].via = pipe_virtual_ip(f);
    l->routes[ctx->n].src = l->node.gateway_ips[f];
    ctx->n++;
}

static void
add_unit_route(const struct unit *u, void *ctx_)
{
    struct route_ctx *ctx = ctx_;
    const struct cidr *cover = ctx->service_cidrs[u->family];
    struct cidr host = {
        .ip = u->ip,
        .plen = u->family == IP_V4 ? 32 : 128,
    };

    if (!cover || !cidr_contains(cover, &u->ip)) {
        add_route(ctx, &host);
    }
}

static int
compare_routes(const void *a_, const void *b_)
{
    const struct host_route *a = a_, *b = b_;
    int cmp = ip_compare(&a->dst.ip, &b->dst.ip);

    return cmp ? cmp : a->dst.plen - b->dst.plen;
}

void
local_set_routes(struct local *l, const struct services *services,
                 bool complete)
{
    const struct cfg *cfg = l->cfg.cfg;
    struct route_ctx ctx = { .l = l };
    size_t n = 0;

    if (cfg->antrea_proxy_proxy_all) {
        if (cfg->service_cidr.present) {
            ctx.service_cidrs[IP_V4] = &cfg->service_cidr.cidr;
            add_route(&ctx, &cfg->service_cidr.cidr);
        }
        if (cfg->service_cidr_v6.present) {
            ctx.service_cidrs[IP_V6] = &cfg->service_cidr_v6.cidr;
            add_route(&ctx, &cfg->service_cidr_v6.cidr);
        }
        services_for_each(services, NULL, NULL, add_unit_route, &ctx);
    }
    if (ctx.n) {
        qsort(l->routes, ctx.n, sizeof *l->routes, compare_routes);
    }
    for (size_t i = 0; i < ctx.n; i++) {
        if (!n || compare_routes(&l->routes[n - 1], &l->routes[i])) {
            l->routes[n++] = l->routes[i];
        }
    }
    l->want.n_routes = n;
    l->want.complete = complete;
    want_host(l);
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
