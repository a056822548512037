/* SPDX-License-Identifier: Apache-2.0 */

/* Collects the networks, and looks for what they must not contain. */

#include "svccidrs.h"

#include <stdlib.h>
#include <string.h>

#include <openvswitch/vlog.h>

#include <util.h>

#include "ofproxyd/pipeline/pipeline.h"
#include "peers-way.h"

VLOG_DEFINE_THIS_MODULE(svccidrs);

/* A shorter prefix is an error: no network for private use is larger. */
#define MIN_PLEN 8

/* A cluster has one or two ServiceCIDRs, or some more. */
#define MAX_CIDRS 256

struct svccidrs {
    const struct model *model;
    const struct cfg *cfg;
    struct ip server;

    /* What the answer was made of. */
    bool made;
    uint64_t cidrs_seqno, nodes_seqno, uplink_seqno;
    struct cidr transport[N_IP_FAMILIES];
    bool server_is_service; /* The API server is reached by a Service. */

    uint64_t flaws_seqno;

    struct cidr *cidrs;
    size_t n;
    uint64_t seqno;
    struct ds left_out; /* What is said of those, a line each. */
};

struct svccidrs *
svccidrs_create(const struct model *model, const struct cfg *cfg,
                const struct ip *server)
{
    struct svccidrs *sc = xzalloc(sizeof *sc);

    sc->model = model;
    sc->cfg = cfg;
    sc->server = *server;
    ds_init(&sc->left_out);
    return sc;
}

void
svccidrs_destroy(struct svccidrs *sc)
{
    if (sc) {
        ds_destroy(&sc->left_out);
        free(sc->cidrs);
        free(sc);
    }
}

/* Flaws. */

static uint8_t
host_plen(const struct ip *ip)
{
    return ip_family(ip) == IP_V4 ? 32 : 128;
}

static void
push_node(struct netset *set, const struct node *node)
{
    for (size_t i = 0; i < node->n_addresses; i++) {
        const struct ip *ip = &node->addresses[i].ip;
        struct cidr host = { *ip, host_plen(ip) };

        netset_push(set, &host, node->meta.name);
    }
    for (size_t i = 0; i < node->n_pod_cidrs; i++) {
        struct cidr pods = cidr_network(&node->pod_cidrs[i]);

        /* What nobody takes for a pod network is none. */
        if (way_find_flaw(NULL, NULL, &pods) == WAY_GOOD) {
            netset_push(set, &pods, node->meta.name);
        }
    }
}

void
svccidrs_push_nodes(const struct svccidrs *sc, struct netset *set)
{
    const struct model_node *mn;

    HMAP_FOR_EACH (mn, hmap_node, model_nodes(sc->model)) {
        push_node(set, mn->node);
    }
}

/* Returns true and says why if 'net' has something of a Node in it. */
static bool
has_part_of_node(const struct netset *nodes, const struct cidr *net,
                 struct ds *why)
{
    const struct netset_item *item = netset_find(nodes, net);
    char buf[CIDR_STRLEN];

    if (!item) {
        return false;
    }
    if (item->net.plen == host_plen(&item->net.ip)) {
        ds_put_format(why, "an address of Node %s is in it", item->whose);
    } else {
        ds_put_format(why, "it overlaps the pod network %s of Node %s",
                      cidr_to_string(&item->net, buf), item->whose);
    }
    return true;
}

static bool
has_transport_address(const struct svccidrs *sc, const struct cidr *net)
{
    const struct ip *ip = &sc->transport[ip_family(&net->ip)].ip;

    return !ip_is_none(ip) && cidr_contains(net, ip);
}

static bool
has_server(const struct svccidrs *sc, const struct cidr *net)
{
    return !sc->server_is_service && !ip_is_none(&sc->server)
           && cidr_contains(net, &sc->server);
}

/* Is an address by which the host leads packets into the bridge in it? */
static bool
has_virtual_address(const struct cidr *net)
{
    struct ip virtual = pipe_virtual_ip(ip_family(&net->ip));
    struct ip node_port = pipe_node_port_ip(ip_family(&net->ip));

    return cidr_contains(net, &virtual) || cidr_contains(net, &node_port);
}

bool
svccidrs_find_flaw(const struct svccidrs *sc, const struct netset *nodes,
                   const struct cidr *net, struct ds *why)
{
    if (net->plen < MIN_PLEN) {
        ds_put_cstr(why, "it is too large");
        return true;
    } else if (!ip_is_unicast(&net->ip) || has_virtual_address(net)) {
        ds_put_cstr(why, "its addresses can't be those of Services");
        return true;
    } else if (has_server(sc, net)) {
        ds_put_cstr(why, "the API server's address is in it");
        return true;
    } else if (has_transport_address(sc, net)) {
        ds_put_cstr(why, "this node's own address is in it");
        return true;
    }
    return has_part_of_node(nodes, net, why);
}

/* Collecting. */

struct list {
    struct cidr cidrs[MAX_CIDRS];
    size_t n;
    struct ds left_out;
    struct netset nodes; /* As long as it is empty they were not read. */
};

static void
add(const struct svccidrs *sc, const char *whose, const struct cidr *cidr,
    struct list *list)
{
    struct cidr net = cidr_network(cidr);
    struct ds why = DS_EMPTY_INITIALIZER;
    char buf[CIDR_STRLEN];

    if (!list->nodes.n) {
        svccidrs_push_nodes(sc, &list->nodes);
    }
    if (list->n == MAX_CIDRS) {
        ds_put_format(&why, "there are more than %d", MAX_CIDRS);
    } else if (!svccidrs_find_flaw(sc, &list->nodes, &net, &why)) {
        list->cidrs[list->n++] = net;
    }
    if (why.length) {
        ds_put_format(&list->left_out, "%s: %s is not used: %s\n", whose,
                      cidr_to_string(&net, buf), ds_cstr(&why));
    }
    ds_destroy(&why);
}

static int
compare_cidrs(const void *a_, const void *b_)
{
    const struct cidr *a = a_, *b = b_;
    int cmp = ip_compare(&a->ip, &b->ip);

    return cmp ? cmp : a->plen - b->plen;
}

/* Sorts, and leaves out what an earlier one holds. */
static void
compact(struct list *list)
{
    size_t n = 0;

    qsort(list->cidrs, list->n, sizeof *list->cidrs, compare_cidrs);
    for (size_t i = 0; i < list->n; i++) {
        if (!n || !cidr_contains(&list->cidrs[n - 1], &list->cidrs[i].ip)) {
            list->cidrs[n++] = list->cidrs[i];
        }
    }
    list->n = n;
}

static void
collect(const struct svccidrs *sc, struct list *list)
{
    const struct model_plain *mp;

    if (sc->cfg->service_cidr.present) {
        add(sc, "serviceCIDR", &sc->cfg->service_cidr.cidr, list);
    }
    if (sc->cfg->service_cidr_v6.present) {
        add(sc, "serviceCIDRv6", &sc->cfg->service_cidr_v6.cidr, list);
    }
    HMAP_FOR_EACH (mp, hmap_node,
                   model_plain(sc->model, MODEL_SERVICE_CIDRS)) {
        const struct service_cidr *object =
            CONTAINER_OF(mp->meta, struct service_cidr, meta);
        char *whose = xasprintf("ServiceCIDR %s", mp->meta->name);

        for (size_t i = 0; i < object->n_cidrs; i++) {
            add(sc, whose, &object->cidrs[i], list);
        }
        free(whose);
    }
    compact(list);
}

/* Pods and, with antreaProxy.proxyAll, hosts may know the API server by its
 * Service's address. */
static bool
server_is_service(const struct svccidrs *sc)
{
    const struct model_service *ms =
        model_find_service(sc->model, "default", "kubernetes");

    return ms && ms->svc
           && ip_equals(&ms->svc->cluster_ips[ip_family(&sc->server)],
                        &sc->server);
}

static bool
has_changed(const struct svccidrs *sc)
{
    return !sc->made
           || sc->cidrs_seqno
                  != model_plain_seqno(sc->model, MODEL_SERVICE_CIDRS)
           || sc->nodes_seqno != model_nodes_seqno(sc->model);
}

/* Returns true if what flaws depend on has changed, but for Nodes. */
static bool
read_own(struct svccidrs *sc, const struct uplink_state *uplink)
{
    bool is_service = server_is_service(sc);
    bool changed = sc->uplink_seqno != uplink->seqno
                   || sc->server_is_service != is_service;

    sc->uplink_seqno = uplink->seqno;
    sc->server_is_service = is_service;
    memcpy(sc->transport, uplink->addrs, sizeof sc->transport);
    sc->flaws_seqno += changed;
    return changed;
}

static bool
is_same(const struct svccidrs *sc, const struct list *list)
{
    if (sc->n != list->n) {
        return false;
    }
    for (size_t i = 0; i < list->n; i++) {
        if (compare_cidrs(&sc->cidrs[i], &list->cidrs[i])) {
            return false;
        }
    }
    return true;
}

static void
use(struct svccidrs *sc, struct list *list)
{
    static struct vlog_rate_limit rl = VLOG_RATE_LIMIT_INIT(2, 4);

    if (!is_same(sc, list)) {
        free(sc->cidrs);
        sc->cidrs = list->n
                        ? xmemdup(list->cidrs, list->n * sizeof *list->cidrs)
                        : NULL;
        sc->n = list->n;
        sc->seqno++;
    }
    if (strcmp(ds_cstr(&sc->left_out), ds_cstr(&list->left_out)) != 0
        && list->left_out.length) {
        VLOG_WARN_RL(&rl, "networks of Services are left out:\n%s",
                     ds_cstr(&list->left_out));
    }
    ds_swap(&sc->left_out, &list->left_out);
}

void
svccidrs_run(struct svccidrs *sc, const struct uplink_state *uplink)
{
    struct list list = { .left_out = DS_EMPTY_INITIALIZER };

    if (!read_own(sc, uplink) && !has_changed(sc)) {
        return;
    }
    sc->made = true;
    sc->cidrs_seqno = model_plain_seqno(sc->model, MODEL_SERVICE_CIDRS);
    sc->nodes_seqno = model_nodes_seqno(sc->model);
    collect(sc, &list);
    use(sc, &list);
    ds_destroy(&list.left_out);
    netset_clear(&list.nodes);
}

/* Answers. */

const struct cidr *
svccidrs_get(const struct svccidrs *sc, size_t *ret_n)
{
    *ret_n = sc->n;
    return sc->cidrs;
}

uint64_t
svccidrs_seqno(const struct svccidrs *sc)
{
    return sc->seqno;
}

uint64_t
svccidrs_flaws_seqno(const struct svccidrs *sc)
{
    return sc->flaws_seqno;
}

bool
svccidrs_contain(const struct svccidrs *sc, const struct ip *ip)
{
    for (size_t i = 0; i < sc->n; i++) {
        if (cidr_contains(&sc->cidrs[i], ip)) {
            return true;
        }
    }
    return false;
}

void
svccidrs_format(const struct svccidrs *sc, struct ds *ds)
{
    char buf[CIDR_STRLEN];

    ds_put_cstr(ds, "Service networks:");
    for (size_t i = 0; i < sc->n; i++) {
        ds_put_format(ds, " %s", cidr_to_string(&sc->cidrs[i], buf));
    }
    ds_put_format(ds, "%s\n%s", sc->n ? "" : " none",
                  ds_cstr_ro(&sc->left_out));
}
