/* SPDX-License-Identifier: Apache-2.0 */

/* Other nodes into flows, routes and sets. */

#include "net.h"

#include <openvswitch/hmap.h>
#include <openvswitch/poll-loop.h>
#include <openvswitch/vlog.h>

#include <hash.h>
#include <packets.h>
#include <timeval.h>
#include <util.h>

#include "local.h"
#include "ofproxyd/flow/cookie.h"
#include "peers.h"

VLOG_DEFINE_THIS_MODULE(net);

/* Of a Node: InternalIPs and ExternalIPs of both families, and some. */
#define MAX_NODE_IPS 16

/* How long one turn may render. */
#define RENDER_MS 20

/* A node with what is wanted for it. */
struct net_node {
    struct hmap_node hmap_node; /* By 'object_id'. */
    char *name;
    uint32_t object_id;
    struct peer *peers;
    size_t n_peers;
};

struct net {
    struct net_cfg cfg;
    struct uplink *uplink;
    struct peers *peers;
    uint64_t uplink_seqno, nodes_seqno; /* Of what was read last. */
    struct hmap nodes;
    struct pipe_node node;                      /* As rendered with. */
    struct cidr own_cidrs[LOCAL_MAX_POD_CIDRS]; /* Members of a set. */
    size_t n_own_cidrs;
    bool mtu_named;      /* That it makes trouble. */
    bool ready;          /* Changes are taken. */
    bool settled;        /* All were, once, with the transport link known. */
    bool rules_due;      /* What the rules are made of has changed. */
    bool rules_complete; /* As they were set with. */

    /* Flows to other nodes that the switch had when we came, as long as it is
     * not known which are wanted. */
    struct fout kept;

    struct net_route *routes; /* Not taken yet. */
    size_t n_routes, allocated_routes;
};

static peers_find_id_fn find_id;

struct net *
net_create(const struct net_cfg *cfg)
{
    struct net *n = xzalloc(sizeof *n);

    n->cfg = *cfg;
    n->uplink = uplink_create();
    n->peers = peers_create(model_node_name(cfg->model));
    peers_set_find_id(n->peers, find_id, n);
    n->uplink_seqno = UINT64_MAX;
    n->nodes_seqno = UINT64_MAX;
    n->rules_due = true;
    hmap_init(&n->nodes);
    return n;
}

static void
free_node(struct net *n, struct net_node *node)
{
    hmap_remove(&n->nodes, &node->hmap_node);
    free(node->name);
    free(node->peers);
    free(node);
}

void
net_destroy(struct net *n)
{
    if (n) {
        struct net_node *node;

        HMAP_FOR_EACH_SAFE (node, hmap_node, &n->nodes) {
            free_node(n, node);
        }
        hmap_destroy(&n->nodes);
        peers_destroy(n->peers);
        uplink_destroy(n->uplink);
        fout_clear(&n->kept);
        free(n->kept.items);
        free(n->routes);
        free(n);
    }
}

/* The transport link. */

static void
set_uplink(struct net *n)
{
    const struct cfg *cfg = n->cfg.cfg;
    const struct node *own = model_own_node(n->cfg.model);
    struct ip ips[MAX_NODE_IPS];
    struct uplink_want want = {
        .iface = cfg->transport_interface,
        .cidrs = cfg->transport_interface_cidrs.cidrs,
        .n_cidrs = cfg->transport_interface_cidrs.n,
        .not_iface = cfg->host_gateway,
        .node_ips = ips,
    };

    /* InternalIPs come first. */
    for (int external = 0; own && external < 2; external++) {
        for (size_t i = 0; i < own->n_addresses; i++) {
            if (own->addresses[i].external == external
                && want.n_node_ips < MAX_NODE_IPS) {
                ips[want.n_node_ips++] = own->addresses[i].ip;
            }
        }
    }
    uplink_set(n->uplink, &want);
}

void
net_run_uplink(struct net *n)
{
    if (model_nodes_seqno(n->cfg.model) != n->nodes_seqno) {
        n->nodes_seqno = model_nodes_seqno(n->cfg.model);
        set_uplink(n);
    }
    uplink_run(n->uplink);
}

void
net_wait(const struct net *n)
{
    uplink_wait(n->uplink);
    if (n->ready && !net_is_drained(n)) {
        poll_immediate_wake();
    }
}

const struct uplink_state *
net_uplink(const struct net *n)
{
    return uplink_state(n->uplink);
}

static bool
has_ip(const struct ip ips[N_IP_FAMILIES])
{
    return !ip_is_none(&ips[IP_V4]) || !ip_is_none(&ips[IP_V6]);
}

/* Others learn of an address that the configuration chose from an annotation;
 * one of an earlier configuration must not mislead them. */
static void
announce(struct net *n)
{
    const struct cfg *cfg = n->cfg.cfg;
    const struct uplink_state *up = net_uplink(n);
    const struct node *own = model_own_node(n->cfg.model);
    struct ip ips[N_IP_FAMILIES];

    memset(ips, 0, sizeof ips);
    if (cfg->transport_interface[0] || cfg->transport_interface_cidrs.n) {
        for (int f = 0; f < N_IP_FAMILIES; f++) {
            ips[f] = up->addrs[f].ip;
        }
        if (!has_ip(ips)) {
            return; /* Not known yet. */
        }
    } else if (!own || !has_ip(own->transport)) {
        return;
    }
    kube_set_transport(n->cfg.kube, ips);
}

/* Tunnels go over IPv6 for pods' IPv6, and if there is nothing else. */
static bool
has_v6_underlay(const struct net *n)
{
    const struct cidr *addrs = net_uplink(n)->addrs;

    return !ip_is_none(&addrs[IP_V6].ip)
           && (ip_is_none(&addrs[IP_V4].ip)
               || !ip_is_none(&n->node.gateway_ips[IP_V6]));
}

/* Not before it is known which families the pods have: a value that changes at
 * once again would have the switch open its ports anew. */
uint16_t
net_mtu(const struct net *n)
{
    return !has_ip(n->node.gateway_ips)
               ? 0
               : uplink_mtu(n->cfg.cfg, net_uplink(n)->mtu,
                            has_v6_underlay(n));
}

/* Says once what is wrong with the MTU. */
static void
name_mtu_trouble(struct net *n)
{
    const char *trouble =
        uplink_mtu_trouble(n->cfg.cfg, net_uplink(n)->mtu, has_v6_underlay(n),
                           !ip_is_none(&n->node.gateway_ips[IP_V6]));

    if (trouble && !n->mtu_named) {
        VLOG_WARN("MTU of pods %u: %s", net_mtu(n), trouble);
    }
    n->mtu_named = trouble != NULL;
}

/* A link without addresses says as little as none; and a Node object without
 * addresses, or none, only that they are yet to come. */
static bool
link_is_known(const struct net *n)
{
    const struct uplink_state *up = net_uplink(n);

    return !ip_is_none(&up->addrs[IP_V4].ip)
           || !ip_is_none(&up->addrs[IP_V6].ip);
}

bool
net_is_known(const struct net *n)
{
    return n->settled && link_is_known(n);
}

bool
net_is_drained(const struct net *n)
{
    return !peers_has_change(n->peers);
}

/* True if it is known which way leads to other nodes: as long as this one has
 * no pod network there is none, but what leads to its pods stays as well. */
static bool
knows_peers(const struct net *n)
{
    return net_is_known(n)
           && (n->n_own_cidrs || n->node.mode == CFG_NETWORK_POLICY_ONLY);
}

/* Flows. */

static void
fill_peers(const struct peer *from, size_t n_from, struct pipe_peer *to)
{
    for (size_t i = 0; i < n_from; i++) {
        const struct peer *p = &from[i];

        to[i] = (struct pipe_peer){
            .pod_cidr = p->cidr,
            .gateway = p->gateway,
            .path = p->path == PEER_TUNNEL ? PIPE_TUNNEL : PIPE_ROUTED,
            .tunnel_dst = p->via,
        };
    }
}

/* A peers_find_id_fn. */
static uint32_t
find_id(const struct peer *peers, size_t n_peers, void *n_)
{
    struct net *n = n_;
    struct pipe_peer *p = xmalloc(n_peers * sizeof *p);
    struct fout out = FOUT_INIT;
    uint32_t id = UINT32_MAX;

    fill_peers(peers, n_peers, p);
    pipe_render_peer(&n->node, 0, p, n_peers, &out);
    for (size_t i = 0; i < out.n && id == UINT32_MAX; i++) {
        const struct fitem *have =
            flowtab_find_have(n->cfg.flowtab, out.items[i]);

        if (have && cookie_is_ours(fitem_cookie(have))
            && cookie_category(fitem_cookie(have)) == COOKIE_NODE) {
            id = cookie_object_id(fitem_cookie(have));
        }
    }
    fout_clear(&out);
    free(out.items);
    free(p);
    return id;
}

static size_t
want_flows(struct net *n, const struct net_node *node)
{
    struct flowtab_owner owner = {
        .id = cookie_make(COOKIE_NODE, node->object_id),
        .name = node->name,
    };
    struct pipe_peer *peers = xmalloc(MAX(node->n_peers, 1) * sizeof *peers);
    struct fout out = FOUT_INIT;
    size_t changed;

    fill_peers(node->peers, node->n_peers, peers);
    pipe_render_peer(&n->node, node->object_id, peers, node->n_peers, &out);
    changed = flowtab_want(n->cfg.flowtab, &owner, &out);
    free(out.items);
    free(peers);
    return changed;
}

/* Flows of other nodes that nobody can tell whether they are wanted. */

static size_t
want_kept(struct net *n)
{
    struct flowtab_owner owner = { .id = cookie_make(COOKIE_NODE,
                                                     OBJECT_ID_MAX) };
    struct fout out = FOUT_INIT;
    size_t changed;

    for (size_t i = 0; i < n->kept.n; i++) {
        fout_add(&out, fitem_ref(n->kept.items[i]));
    }
    changed = flowtab_want(n->cfg.flowtab, &owner, &out);
    free(out.items);
    return changed;
}

static void
keep_flow(const struct fitem *have, void *n_)
{
    struct net *n = n_;

    if (cookie_is_ours(fitem_cookie(have))
        && cookie_category(fitem_cookie(have)) == COOKIE_NODE) {
        fout_add(&n->kept, fitem_ref(have));
    }
}

void
net_adopt(struct net *n)
{
    if (!knows_peers(n)) {
        flowtab_for_each_have(n->cfg.flowtab, keep_flow, n);
        want_kept(n);
    }
}

static size_t
release_kept(struct net *n)
{
    if (!n->kept.n || !knows_peers(n) || !net_is_drained(n)) {
        return 0;
    }
    fout_clear(&n->kept);
    return want_kept(n);
}

/* Routes. */

/* Fills '*ret'.  Returns false if the network has no route of ours: it is
 * where the default route leads, or this node isn't of its family. */
static bool
make_route(const struct net *n, const struct peer *p, struct host_route *ret)
{
    enum ip_family f = ip_family(&p->cidr.ip);

    *ret = (struct host_route){ .dst = p->cidr };
    switch (p->path) {
    case PEER_TUNNEL:
        ret->via = pipe_virtual_ip(f);
        ret->src = n->node.gateway_ips[f];
        return !ip_is_none(&ret->src);
    case PEER_DIRECT:
        ret->via = p->via;
        ret->underlay = true;
        return true;
    case PEER_UNDERLAY: return false;
    }
    return false;
}

static void
change_route(struct net *n, const struct peer *p, bool gone)
{
    struct net_route change = { .gone = gone };

    if (make_route(n, p, &change.route)) {
        if (n->n_routes >= n->allocated_routes) {
            n->routes =
                x2nrealloc(n->routes, &n->allocated_routes, sizeof *n->routes);
        }
        n->routes[n->n_routes++] = change;
    }
}

struct net_route *
net_take_routes(struct net *n, size_t *ret_n)
{
    struct net_route *routes = n->routes;

    *ret_n = n->n_routes;
    n->routes = NULL;
    n->n_routes = n->allocated_routes = 0;
    return routes;
}

void
net_for_each_route(const struct net *n,
                   void (*cb)(const struct host_route *, void *aux), void *aux)
{
    const struct net_node *node;

    HMAP_FOR_EACH (node, hmap_node, &n->nodes) {
        for (size_t i = 0; i < node->n_peers; i++) {
            struct host_route route;

            if (make_route(n, &node->peers[i], &route)) {
                cb(&route, aux);
            }
        }
    }
}

/* Sets of the packet rules. */

static void
change_members(struct net *n, const struct peer *p, bool gone)
{
    struct cidr host = {
        .ip = p->via,
        .plen = ip_family(&p->via) == IP_V4 ? 32 : 128,
    };
    void (*change)(struct rules *, enum rules_set_id, const struct cidr *) =
        gone ? rules_remove_member : rules_add_member;

    change(n->cfg.rules, RULES_POD_CIDRS, &p->cidr);
    if (p->path == PEER_TUNNEL) {
        change(n->cfg.rules, RULES_NODES, &host);
    }
}

static void
set_own_cidrs(struct net *n, const struct pipe_node *node)
{
    for (size_t i = 0; i < node->n_pod_cidrs; i++) {
        rules_add_member(n->cfg.rules, RULES_POD_CIDRS, &node->pod_cidrs[i]);
    }
    for (size_t i = 0; i < n->n_own_cidrs; i++) {
        rules_remove_member(n->cfg.rules, RULES_POD_CIDRS, &n->own_cidrs[i]);
    }
    n->n_own_cidrs = node->n_pod_cidrs;
    memcpy(n->own_cidrs, node->pod_cidrs,
           node->n_pod_cidrs * sizeof *n->own_cidrs);
}

static void
set_rules(struct net *n, bool complete)
{
    const struct cfg *cfg = n->cfg.cfg;
    const struct uplink_state *up = net_uplink(n);
    struct rules_want want = {
        .gateway = cfg->host_gateway,
        .pod_cidrs = n->own_cidrs,
        .n_pod_cidrs = n->n_own_cidrs,
        .masquerade = !cfg->no_snat,
        .random_ports = cfg->snat_fully_random_ports,
        .kept_mac = pipe_virtual_mac(),
        .complete = complete,
    };

    for (int f = 0; f < N_IP_FAMILIES; f++) {
        want.gateway_ips[f] = n->node.gateway_ips[f];
        want.virtual_ips[f] = pipe_virtual_ip(f);
        if (cfg->antrea_proxy_proxy_all && !ip_is_none(&want.gateway_ips[f])) {
            want.node_port_ips[f] = pipe_node_port_ip(f);
        }
        want.transport[f] = up->addrs[f].ip;
    }
    if (cfg->ofproxyd_tunnel_notrack) {
        want.notrack_port = cfg_tunnel_udp_port(cfg);
    }
    rules_set(n->cfg.rules, &want);
    n->rules_due = false;
    n->rules_complete = complete;
}

/* Changes. */

static struct net_node *
find_node(const struct net *n, uint32_t object_id)
{
    struct net_node *node;

    HMAP_FOR_EACH_WITH_HASH (node, hmap_node, hash_int(object_id, 0),
                             &n->nodes) {
        if (node->object_id == object_id) {
            return node;
        }
    }
    return NULL;
}

static struct net_node *
make_node(struct net *n, const struct peers_change *c)
{
    struct net_node *node = xzalloc(sizeof *node);

    node->name = xstrdup(c->name);
    node->object_id = c->object_id;
    hmap_insert(&n->nodes, &node->hmap_node, hash_int(c->object_id, 0));
    return node;
}

static void
log_problem(const struct peers_change *c)
{
    static struct vlog_rate_limit rl = VLOG_RATE_LIMIT_INIT(5, 20);

    if (c->problem[0]) {
        VLOG_WARN_RL(&rl, "Node %s: %s", c->name, c->problem);
    } else {
        VLOG_INFO_RL(&rl, "Node %s: all of its pod networks are used now",
                     c->name);
    }
}

/* What is new comes before what is not wanted any more: what both have is
 * left alone so. */
static size_t
take_change(struct net *n, const struct peers_change *c)
{
    struct net_node *node;
    size_t changed;

    if (c->news) {
        log_problem(c);
    }
    if (!c->n_was && !c->n_now) {
        return 0;
    }
    node = find_node(n, c->object_id);
    if (!node) {
        node = make_node(n, c);
    }
    for (size_t i = 0; i < c->n_now; i++) {
        change_route(n, &c->now[i], false);
        change_members(n, &c->now[i], false);
    }
    for (size_t i = 0; i < c->n_was; i++) {
        change_route(n, &c->was[i], true);
        change_members(n, &c->was[i], true);
    }
    free(node->peers);
    node->peers = c->n_now ? xmemdup(c->now, c->n_now * sizeof *c->now) : NULL;
    node->n_peers = c->n_now;
    changed = want_flows(n, node);
    if (!node->n_peers) {
        free_node(n, node);
    }
    return changed;
}

static void
read_nodes(struct net *n)
{
    const char *name;

    while ((name = model_pop_dirty_node(n->cfg.model))) {
        const struct node *node = model_find_node(n->cfg.model, name);

        if (node) {
            peers_put(n->peers, node);
        } else {
            peers_remove(n->peers, name);
        }
    }
}

static void
set_env(struct net *n, enum cfg_encap_mode mode)
{
    const struct uplink_state *up = net_uplink(n);
    struct peers_env env = {
        .mode = mode,
        .own_cidrs = n->own_cidrs,
        .n_own_cidrs = n->n_own_cidrs,
        .transport_cidrs = n->cfg.cfg->transport_interface_cidrs.cidrs,
        .n_transport_cidrs = n->cfg.cfg->transport_interface_cidrs.n,
    };

    memcpy(env.transport, up->addrs, sizeof env.transport);
    peers_set_env(n->peers, &env);
    n->uplink_seqno = up->seqno;
    n->rules_due = true;
}

/* True if what flows to other nodes depend on has changed. */
static bool
read_own(struct net *n, const struct pipe_node *node)
{
    struct pipe_node old = n->node;
    bool cidrs_changed = !cidrs_equal(node->pod_cidrs, node->n_pod_cidrs,
                                      n->own_cidrs, n->n_own_cidrs);
    bool ips_changed =
        memcmp(old.gateway_ips, node->gateway_ips, sizeof old.gateway_ips)
        != 0;

    if (cidrs_changed) {
        set_own_cidrs(n, node);
    }
    if (cidrs_changed || net_uplink(n)->seqno != n->uplink_seqno) {
        set_env(n, node->mode);
    }
    n->rules_due |= ips_changed;
    n->node = *node;
    n->node.pod_cidrs = n->own_cidrs;
    return ips_changed || old.gateway_ofport != node->gateway_ofport
           || old.tunnel_ofport != node->tunnel_ofport
           || old.mc_role != node->mc_role
           || !eth_addr_equals(old.gateway_mac, node->gateway_mac);
}

/* Takes what has changed, as far as a turn goes. */
static size_t
take_changes(struct net *n)
{
    long long int deadline_ms = time_msec() + RENDER_MS;
    struct peers_change change;
    size_t changed = 0;

    while (time_msec() < deadline_ms && peers_pop_change(n->peers, &change)) {
        changed += take_change(n, &change);
    }
    return changed;
}

bool
net_run(struct net *n, const struct pipe_node *node, bool ready, bool complete)
{
    bool render_all = read_own(n, node);
    size_t changed = 0;

    n->ready = ready;
    read_nodes(n);
    if (ready) {
        changed += take_changes(n);
        n->settled |= link_is_known(n) && net_is_drained(n);
    }
    if (render_all) {
        const struct net_node *other;

        HMAP_FOR_EACH (other, hmap_node, &n->nodes) {
            changed += want_flows(n, other);
        }
    }
    if (ready) {
        announce(n);
    }
    name_mtu_trouble(n);
    changed += release_kept(n);
    complete &= knows_peers(n);
    if (n->rules_due || complete != n->rules_complete) {
        set_rules(n, complete);
    }
    return changed > 0;
}

/* For operators. */

const char *
net_find_owner(const struct net *n, uint64_t owner)
{
    const struct net_node *node = NULL;

    if (cookie_is_ours(owner) && cookie_category(owner) == COOKIE_NODE) {
        node = find_node(n, cookie_object_id(owner));
    }
    return node ? node->name : NULL;
}

const char *
net_find_by_address(const struct net *n, const struct ip *ip)
{
    const struct net_node *node;

    HMAP_FOR_EACH (node, hmap_node, &n->nodes) {
        for (size_t i = 0; i < node->n_peers; i++) {
            if (ip_equals(&node->peers[i].via, ip)) {
                return node->name;
            }
        }
    }
    return NULL;
}

void
net_format(const struct net *n, struct ds *ds)
{
    ds_put_format(ds, "mode: %s, MTU of pods %u, other nodes: %zu\n",
                  cfg_encap_mode_to_string(n->node.mode), net_mtu(n),
                  hmap_count(&n->nodes));
    ds_put_cstr(ds, "transport: ");
    uplink_format(n->uplink, ds);
}

static int
compare_nodes(const void *a_, const void *b_)
{
    const struct net_node *const *a = a_, *const *b = b_;

    return strcmp((*a)->name, (*b)->name);
}

static void
format_node(const struct net_node *node, struct ds *ds)
{
    char cidr[CIDR_STRLEN], via[IP_STRLEN];

    for (size_t i = 0; i < node->n_peers; i++) {
        const struct peer *p = &node->peers[i];

        ds_put_format(ds, "%-32s %-43s %-8s %-39s %7" PRIu32 "\n", node->name,
                      cidr_to_string(&p->cidr, cidr), peer_path_name(p->path),
                      ip_to_string(&p->via, via), node->object_id);
    }
}

void
net_format_nodes(const struct net *n, struct ds *ds)
{
    const struct net_node **nodes =
        xmalloc(MAX(hmap_count(&n->nodes), 1) * sizeof *nodes);
    const struct net_node *node;
    size_t n_nodes = 0;

    HMAP_FOR_EACH (node, hmap_node, &n->nodes) {
        nodes[n_nodes++] = node;
    }
    qsort(nodes, n_nodes, sizeof *nodes, compare_nodes);
    ds_put_format(ds, "%-32s %-43s %-8s %-39s %7s\n", "NODE", "PODS", "BY",
                  "TRANSPORT", "ID");
    for (size_t i = 0; i < n_nodes; i++) {
        format_node(nodes[i], ds);
    }
    free(nodes);
}
