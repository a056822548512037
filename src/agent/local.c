/* SPDX-License-Identifier: Apache-2.0 */

/* The gateway and the pods. */

#include "local.h"

#include <openvswitch/vlog.h>

#include <packets.h>
#include <timeval.h>
#include <util.h>

#include "ofproxyd/flow/cookie.h"
#include "ofproxyd/host/localports.h"
#include "ofproxyd/pipeline/pipeline.h"
#include "peers-way.h"
#include "services.h"

VLOG_DEFINE_THIS_MODULE(local);

/* Nobody notifies of other source ports.  What else there is to check wakes up
 * about as often. */
#define PORTS_CHECK_MS 60000

struct local {
    struct local_cfg cfg;
    uint64_t svccidrs_seqno, mc_seqno;
    uint64_t db_seqno, nodes_seqno, uplink_seqno, ips_seqno; /* Of what was
                                                              * rendered
                                                              * last. */

    /* What flows and host depend on. */
    struct pipe_node node;
    struct cidr pod_cidrs[LOCAL_MAX_POD_CIDRS];
    struct cidr gateway_addrs[N_IP_FAMILIES]; /* "::"/0 if none. */

    /* Flows of the node that the switch had when we came, as long as no Node
     * tells which it should have. */
    struct fout kept;

    uint64_t *pod_owners; /* That want flows, ascending. */
    size_t n_pods;

    /* The host: what 'want' points to. */
    bool complete;
    char uplink[IFNAMSIZ]; /* Or "". */
    struct localports ports;
    long long int ports_ms; /* When they are read again. */
    struct host_want want;
    struct cidr want_addrs[N_IP_FAMILIES + 1];
    struct host_neigh want_neighs[N_IP_FAMILIES];
};

struct local *
local_create(const struct local_cfg *cfg)
{
    struct local *l = xzalloc(sizeof *l);

    l->cfg = *cfg;
    l->db_seqno = UINT64_MAX;
    l->node.mode = cfg->cfg->traffic_encap_mode;
    l->node.meter_id = LOCAL_METER_ID;
    l->node.pod_cidrs = l->pod_cidrs;
    l->node.serves_node_ports = cfg->cfg->antrea_proxy_proxy_all;
    l->node.nests = cfg->cfg->multicluster_enable_gateway;
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

/* What is wrong with 'cidr' as this node's pod network: a network with the
 * node's own address, or the API server's, would cut the node off. */
static enum way_flaw
find_flaw(const struct local *l, const struct node *node,
          const struct uplink_state *up, const struct cidr *cidr)
{
    struct cidr net = cidr_network(cidr);
    struct peers_env env = { .server = l->cfg.server };
    struct ip none[N_IP_FAMILIES] = { 0 };

    memcpy(env.transport, up->addrs, sizeof env.transport);
    for (size_t i = 0; i < node->n_addresses; i++) {
        if (cidr_contains(&net, &node->addresses[i].ip)) {
            return WAY_OWN_ADDRESS;
        }
    }
    return way_find_flaw(&env, none, &net);
}

/* Copies the pod CIDRs that can be used to 'cidrs', and returns how many. */
static size_t
take_pod_cidrs(const struct local *l, const struct node *node,
               const struct uplink_state *up,
               struct cidr cidrs[LOCAL_MAX_POD_CIDRS])
{
    size_t n = 0;

    for (size_t i = 0; i < node->n_pod_cidrs; i++) {
        static struct vlog_rate_limit rl = VLOG_RATE_LIMIT_INIT(1, 4);
        const struct cidr *cidr = &node->pod_cidrs[i];
        enum way_flaw flaw = find_flaw(l, node, up, cidr);
        char buf[CIDR_STRLEN];

        if (flaw != WAY_GOOD) {
            VLOG_WARN_RL(&rl,
                         "Node %s: podCIDR %s can't be a network of pods; it "
                         "is not used: %s",
                         node->meta.name, cidr_to_string(cidr, buf),
                         way_flaw_text(flaw));
        } else if (n >= LOCAL_MAX_POD_CIDRS) {
            VLOG_WARN_RL(&rl,
                         "Node %s: only the first %d of %zu podCIDRs are used",
                         node->meta.name, LOCAL_MAX_POD_CIDRS,
                         node->n_pod_cidrs);
            break;
        } else {
            cidrs[n++] = *cidr;
        }
    }
    return n;
}

static void
set_gateway_addr(struct local *l, const struct ip *ip, unsigned int plen)
{
    enum ip_family f = ip_family(ip);

    if (ip_is_none(&l->node.gateway_ips[f])) {
        l->node.gateway_ips[f] = *ip;
        l->gateway_addrs[f].ip = *ip;
        l->gateway_addrs[f].plen = plen;
    }
}

static void
clear_gateway_addrs(struct local *l)
{
    fout_clear(&l->kept);
    memset(l->gateway_addrs, 0, sizeof l->gateway_addrs);
    memset(l->node.gateway_ips, 0, sizeof l->node.gateway_ips);
}

/* What the Node object says.  A Node that is gone, or lost its pod CIDRs,
 * leaves things as they were: pods don't stop to exist by it.  Returns true if
 * something is different from before. */
static bool
read_pod_cidrs(struct local *l, const struct uplink_state *up)
{
    const struct node *node = model_own_node(l->cfg.model);
    struct cidr cidrs[LOCAL_MAX_POD_CIDRS];
    size_t n = node ? take_pod_cidrs(l, node, up, cidrs) : 0;

    if (!n || cidrs_equal(cidrs, n, l->pod_cidrs, l->node.n_pod_cidrs)) {
        return false;
    }
    clear_gateway_addrs(l);
    memcpy(l->pod_cidrs, cidrs, n * sizeof *cidrs);
    l->node.n_pod_cidrs = n;
    for (size_t i = 0; i < n; i++) {
        struct ip gateway = cidr_host(&cidrs[i], 1);

        set_gateway_addr(l, &gateway, cidrs[i].plen);
    }
    return true;
}

/* Behind a primary CNI there is no network of pods: the gateway has the
 * node's own addresses. */
static bool
read_uplink(struct local *l, const struct uplink_state *up)
{
    struct ip ips[N_IP_FAMILIES];
    bool found = false;

    for (int f = 0; f < N_IP_FAMILIES; f++) {
        ips[f] = up->addrs[f].ip;
        found |= !ip_is_none(&ips[f]);
    }
    if (!found || !memcmp(ips, l->node.gateway_ips, sizeof ips)) {
        return false;
    }
    clear_gateway_addrs(l);
    for (int f = 0; f < N_IP_FAMILIES; f++) {
        if (!ip_is_none(&ips[f])) {
            set_gateway_addr(l, &ips[f], f == IP_V4 ? 32 : 128);
        }
    }
    return true;
}

static bool
read_addresses(struct local *l, const struct uplink_state *up)
{
    return l->node.mode == CFG_NETWORK_POLICY_ONLY ? read_uplink(l, up)
                                                   : read_pod_cidrs(l, up);
}

/* The link's name, which the host is given. */
static bool
read_link(struct local *l, const struct uplink_state *up)
{
    if (!strcmp(l->uplink, up->name)) {
        return false;
    }
    ovs_strlcpy(l->uplink, up->name, sizeof l->uplink);
    return true;
}

/* Returns true if there are other NodePort addresses. */
static bool
read_node_port_ips(struct local *l, const struct nodeips_state *ips)
{
    l->node.node_port_ips = ips->node_ports;
    l->node.n_node_port_ips =
        l->node.serves_node_ports ? ips->n_node_ports : 0;
    if (ips->seqno == l->ips_seqno) {
        return false;
    }
    l->ips_seqno = ips->seqno;
    return l->node.serves_node_ports;
}

/* Returns true if there are other networks of Services. */
static bool
read_service_cidrs(struct local *l)
{
    const struct svccidrs *sc = l->cfg.svccidrs;

    l->node.service_cidrs = NULL;
    l->node.n_service_cidrs = 0;
    if (l->cfg.cfg->antrea_proxy_enable
        && l->cfg.cfg->antrea_proxy_proxy_all) {
        l->node.service_cidrs = svccidrs_get(sc, &l->node.n_service_cidrs);
    }
    if (svccidrs_seqno(sc) == l->svccidrs_seqno) {
        return false;
    }
    l->svccidrs_seqno = svccidrs_seqno(sc);
    return true;
}

/* Returns true if the node's programs have other source ports. */
static bool
read_local_ports(struct local *l)
{
    struct localports used = localports_read();

    l->ports_ms = time_msec() + PORTS_CHECK_MS;
    if (used.first == l->ports.first && used.last == l->ports.last) {
        return false;
    }

    bool apart;
    struct localports left = localports_left(used, &apart);

    if (!apart) {
        VLOG_WARN("net.ipv4.ip_local_port_range is %u to %u, which leaves "
                  "less than %d ports: a client outside and a program of this "
                  "node may get the same source port to one endpoint",
                  used.first, used.last, LOCALPORTS_LEAST);
    }
    l->ports = used;
    l->node.snat_port_min = left.first;
    l->node.snat_port_max = left.last;
    return true;
}

/* Returns true if the node has another role between clusters. */
static bool
read_role(struct local *l)
{
    const struct mc *mc = l->cfg.mc;

    if (mc_seqno(mc) == l->mc_seqno) {
        return false;
    }
    l->mc_seqno = mc_seqno(mc);
    l->node.mc_role = mc_role(mc);
    l->node.mc_gateway_ip = *mc_gateway_ip(mc);
    l->node.mc_internal_ip = *mc_internal_ip(mc);
    return true;
}

static void
read_ports(struct local *l, const struct ovsdb_state *db)
{
    if (db->gateway_ofport) {
        l->node.gateway_ofport = db->gateway_ofport;
        l->node.gateway_mac = db->gateway_mac;
    }
    if (db->tunnel_ofport) {
        l->node.tunnel_ofport = db->tunnel_ofport;
    }
}

/* True if it is known which flows of the node are wanted. */
static bool
has_addresses(const struct local *l)
{
    return !ip_is_none(&l->node.gateway_ips[IP_V4])
           || !ip_is_none(&l->node.gateway_ips[IP_V6]);
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
        if (!fout_has_key(&out, l->kept.items[i])) {
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
        size_t changed;

        owners[i] = cookie_make(COOKIE_POD, db->pods[i].ofport);
        changed = want_pod(l, &db->pods[i], owners[i]);
        if (changed && l->cfg.cfg->ovs_datapath_type == CFG_DATAPATH_NETDEV) {
            host_add_pod_link(l->cfg.host, db->pods[i].iface);
        }
        n += changed;
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

/* The address that the kernel gives a link with this MAC address (RFC 4291,
 * appendix A). */
static struct cidr
link_local(struct eth_addr mac)
{
    struct cidr ret = { .plen = 64 };
    uint8_t *b = ret.ip.in6.s6_addr;

    b[0] = 0xfe;
    b[1] = 0x80;
    memcpy(&b[8], &mac.ea[0], 3);
    b[8] ^= 2;
    b[11] = 0xff;
    b[12] = 0xfe;
    memcpy(&b[13], &mac.ea[3], 3);
    return ret;
}

static void
want_host(struct local *l)
{
    struct host_want *w = &l->want;

    w->complete = l->complete && has_addresses(l);
    w->gateway = l->cfg.cfg->host_gateway;
    w->gateway_ready = l->node.gateway_ofport != 0;
    w->forwarding = true;
    w->uplink = l->node.mode != CFG_ENCAP && l->uplink[0] ? l->uplink : NULL;
    w->addresses = l->want_addrs;
    w->n_addresses = 0;
    w->neighs = l->want_neighs;
    w->n_neighs = 0;
    memset(w->marked_via, 0, sizeof w->marked_via);
    for (int f = 0; f < N_IP_FAMILIES; f++) {
        if (ip_is_none(&l->node.gateway_ips[f])) {
            continue;
        }
        l->want_addrs[w->n_addresses++] = l->gateway_addrs[f];
        if (l->cfg.cfg->antrea_proxy_proxy_all) {
            w->marked_via[f] = pipe_virtual_ip(f);
        }
        l->want_neighs[w->n_neighs].ip = pipe_virtual_ip(f);
        l->want_neighs[w->n_neighs++].mac = pipe_virtual_mac();
    }
    if (!ip_is_none(&l->node.gateway_ips[IP_V6]) && w->gateway_ready) {
        /* Without it the kernel asks for no pod's MAC address to forward what
         * comes from elsewhere, and gives it only once. */
        l->want_addrs[w->n_addresses++] = link_local(l->node.gateway_mac);
    }
    host_set(l->cfg.host, w);
}

bool
local_run(struct local *l, const struct ovsdb_state *db,
          const struct uplink_state *up, const struct nodeips_state *ips,
          bool complete)
{
    bool completed = complete != l->complete;
    bool changed = read_node_port_ips(l, ips);
    size_t n = 0;

    changed |= read_service_cidrs(l);
    changed |= read_role(l);
    if (!db->bridge_ok) {
        l->ips_seqno = 0;
        l->svccidrs_seqno = UINT64_MAX;
        l->mc_seqno = UINT64_MAX;
        return false;
    }
    if (time_msec() >= l->ports_ms || db->seqno != l->db_seqno) {
        changed |= read_local_ports(l);
    }
    if (model_nodes_seqno(l->cfg.model) != l->nodes_seqno
        || up->seqno != l->uplink_seqno) {
        l->nodes_seqno = model_nodes_seqno(l->cfg.model);
        l->uplink_seqno = up->seqno;
        changed |= read_addresses(l, up);
        changed |= read_link(l, up);
    }
    if (changed || completed || db->seqno != l->db_seqno) {
        l->db_seqno = db->seqno;
        read_ports(l, db);
        n += want_node(l);
        n += want_pods(l, db);
        l->complete = complete;
        want_host(l);
    }
    return n > 0;
}

bool
local_is_ready(const struct local *l)
{
    return l->node.gateway_ofport && has_addresses(l)
           && (l->node.tunnel_ofport || !cfg_has_tunnel(l->cfg.cfg));
}

void
local_adopt(struct local *l)
{
    if (!has_addresses(l)) {
        flowtab_for_each_have(l->cfg.flowtab, keep_flow, l);
        want_node(l);
    }
}

const struct pipe_node *
local_node(const struct local *l)
{
    return &l->node;
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
