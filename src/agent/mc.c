/* SPDX-License-Identifier: Apache-2.0 */

/* A cluster set has some tens of clusters, and they change rarely: what is
 * used of them is worked out anew with each change.  Flows are made only of
 * what has changed. */

#include "mc.h"

#include <stdlib.h>
#include <string.h>

#include <openvswitch/vlog.h>

#include <packets.h>
#include <util.h>

#include "mc-kept.h"
#include "netset.h"
#include "ofproxyd/base/hash.h"
#include "ofproxyd/base/idpool.h"
#include "ofproxyd/flow/cookie.h"

VLOG_DEFINE_THIS_MODULE(multicluster);

static const char this_cluster[] = "this cluster";

/* A cluster set has fewer. */
#define MAX_CLUSTERS 1000

/* Lines about what is left out: there may be thousands of networks. */
#define MAX_PROBLEMS 50

/* What follows from the objects. */
struct picture {
    enum pipe_mc_role role;
    char *gateway; /* Name of the active Gateway, NULL if there is none. */
    struct ip gateway_ip, internal_ip; /* Of the active Gateway. */
    struct mc_peer *clusters;          /* The first comes first. */
    size_t n_clusters;
    size_t n_left_out;  /* Networks. */
    struct ds problems; /* A line each, */
    size_t n_problems;  /* but for those above MAX_PROBLEMS. */
};

struct mc {
    const struct model *model;
    const struct cfg *cfg;
    const struct svccidrs *svccidrs;
    struct flowtab *flowtab;

    /* What 'now' was made of. */
    bool made;
    uint64_t gateways_seqno, clusters_seqno, nodes_seqno;
    uint64_t flaws_seqno, svccidrs_seqno;
    struct netset nodes; /* Their networks; the names are of the past. */
    bool leads_here;     /* A tunnel to the gateway would end here, and begin
                          * again. */

    struct picture now;
    uint64_t seqno;

    /* As rendered. */
    bool rendered;
    struct pipe_node node;
    struct ip internal_ip;
    uint64_t *owners; /* Ascending. */
    size_t n_owners;
    struct fout kept;
};

struct mc *
mc_create(const struct model *model, const struct cfg *cfg,
          const struct svccidrs *svccidrs, struct flowtab *flowtab)
{
    struct mc *mc = xzalloc(sizeof *mc);

    mc->model = model;
    mc->cfg = cfg;
    mc->svccidrs = svccidrs;
    mc->flowtab = flowtab;
    ds_init(&mc->now.problems);
    return mc;
}

static void
picture_uninit(struct picture *p)
{
    for (size_t i = 0; i < p->n_clusters; i++) {
        struct mc_peer *c = &p->clusters[i];

        free(c->name);
        free(c->cluster_id);
        free(c->cidrs);
        free(c->gateways);
    }
    free(p->clusters);
    free(p->gateway);
    ds_destroy(&p->problems);
}

void
mc_destroy(struct mc *mc)
{
    if (mc) {
        picture_uninit(&mc->now);
        netset_clear(&mc->nodes);
        free(mc->owners);
        fout_clear(&mc->kept);
        free(mc->kept.items);
        free(mc);
    }
}

static bool
is_on(const struct mc *mc)
{
    return mc->cfg->multicluster_enable_gateway;
}

/* Is it known what there is? */
static bool
is_known(const struct mc *mc)
{
    return model_kind_known(mc->model, MODEL_MC_GATEWAYS)
           && model_kind_known(mc->model, MODEL_MC_CLUSTERS);
}

/* The gateway. */

static bool
comes_before(const struct obj_meta *a, const struct obj_meta *b)
{
    return a->created_s != b->created_s ? a->created_s < b->created_s
                                        : strcmp(a->name, b->name) < 0;
}

static const struct mc_gateway *
find_gateway(const struct mc *mc)
{
    const struct obj_meta *first = NULL;
    const struct model_plain *mp;

    HMAP_FOR_EACH (mp, hmap_node, model_plain(mc->model, MODEL_MC_GATEWAYS)) {
        if (!first || comes_before(mp->meta, first)) {
            first = mp->meta;
        }
    }
    return first ? CONTAINER_OF(first, struct mc_gateway, meta) : NULL;
}

static void
choose_gateway(const struct mc *mc, struct picture *p)
{
    const struct hmap *all = model_plain(mc->model, MODEL_MC_GATEWAYS);
    const struct mc_gateway *gw = find_gateway(mc);

    if (!gw) {
        return;
    }
    p->gateway = xstrdup(gw->meta.name);
    p->gateway_ip = gw->gateway_ip;
    p->internal_ip = gw->internal_ip;
    p->role = !strcmp(gw->meta.name, model_node_name(mc->model))
                  ? PIPE_MC_GATEWAY
                  : PIPE_MC_REGULAR;
    if (p->role == PIPE_MC_REGULAR && mc->leads_here) {
        p->internal_ip = (struct ip){ .in6 = in6addr_any };
        ds_put_format(&p->problems,
                      "Gateway %s: its internalIP is this node's own\n",
                      p->gateway);
    }
    if (hmap_count(all) > 1) {
        ds_put_format(&p->problems,
                      "of %" PRIuSIZE " Gateways only the oldest, %s, is "
                      "used\n",
                      hmap_count(all), p->gateway);
    }
}

/* Networks of other clusters. */

/* What a new picture is made with. */
struct pass {
    const struct mc *mc;
    struct picture *p;
    struct netset taken; /* Networks of clusters that were there before, */
    struct netset good;  /* and of the one that is looked at. */
    struct netset hosts; /* Gateways of those before, and of this cluster. */
};

/* Notes that 'net' of 'c' is not used. */
static void
add_problem(struct picture *p, const struct mc_peer *c, const char *what,
            const struct cidr *net, const char *why)
{
    char buf[CIDR_STRLEN];

    if (p->n_problems++ < MAX_PROBLEMS) {
        ds_put_format(&p->problems,
                      "ClusterInfoImport %s: %s%s is not used: %s\n", c->name,
                      what, cidr_to_string(net, buf), why);
    }
}

static struct cidr
host_of(const struct ip *ip)
{
    return (struct cidr){ *ip, ip_family(ip) == IP_V4 ? 32 : 128 };
}

/* This cluster's Gateways, which may have addresses that no Node has. */
static void
push_own_gateways(struct pass *pass)
{
    const struct hmap *all = model_plain(pass->mc->model, MODEL_MC_GATEWAYS);
    const struct model_plain *mp;

    HMAP_FOR_EACH (mp, hmap_node, all) {
        const struct mc_gateway *gw =
            CONTAINER_OF(mp->meta, struct mc_gateway, meta);

        struct cidr outside = host_of(&gw->gateway_ip);
        struct cidr inside = host_of(&gw->internal_ip);

        netset_push(&pass->hosts, &outside, this_cluster);
        netset_push(&pass->hosts, &inside, this_cluster);
    }
    netset_compact(&pass->hosts);
}

/* Returns true and says why if 'net' isn't another cluster's. */
static bool
is_own(const struct mc *mc, const struct cidr *net, struct ds *why)
{
    char buf[CIDR_STRLEN];
    size_t n;
    const struct cidr *own = svccidrs_get(mc->svccidrs, &n);

    if (svccidrs_find_flaw(mc->svccidrs, &mc->nodes, net, why)) {
        return true;
    }
    if (cidr_is_link_local(net)) {
        ds_put_cstr(why, "its addresses are those of a link");
        return true;
    }
    for (size_t i = 0; i < n; i++) {
        if (cidr_contains(net, &own[i].ip)
            || cidr_contains(&own[i], &net->ip)) {
            ds_put_format(why, "it overlaps %s, of this cluster's Services",
                          cidr_to_string(&own[i], buf));
            return true;
        }
    }
    return false;
}

/* Returns true and says why if 'net' is that of a cluster which was there
 * before. */
static bool
is_taken(const struct pass *pass, const struct cidr *net, struct ds *why)
{
    const struct netset_item *item = netset_find(&pass->taken, net);
    char buf[CIDR_STRLEN];

    if (item) {
        ds_put_format(why, "it overlaps %s of %s",
                      cidr_to_string(&item->net, buf), item->whose);
    }
    return item != NULL;
}

/* Or holds a gateway: chance would tell where answers go. */
static bool
has_host(const struct pass *pass, const struct cidr *net, struct ds *why)
{
    const struct netset_item *item = netset_find(&pass->hosts, net);
    char buf[IP_STRLEN];

    if (item) {
        ds_put_format(why, "it holds %s, a gateway of %s",
                      ip_to_string(&item->net.ip, buf), item->whose);
    }
    return item != NULL;
}

/* Notes 'net' of 'c' as one of its networks if it is nobody else's. */
static void
judge_cidr(struct pass *pass, const struct mc_peer *c, const struct cidr *net)
{
    struct ds why = DS_EMPTY_INITIALIZER;

    if (!is_own(pass->mc, net, &why) && !is_taken(pass, net, &why)
        && !has_host(pass, net, &why)) {
        if (!c->n_gateways) {
            ds_put_cstr(&why, "the cluster has no gateway");
        } else {
            netset_push(&pass->good, net, c->name);
        }
    }
    if (why.length) {
        pass->p->n_left_out++;
        add_problem(pass->p, c, "", net, ds_cstr(&why));
    }
    ds_destroy(&why);
}

static bool
has_gateway(const struct mc_peer *c, const struct ip *ip)
{
    for (size_t i = 0; i < c->n_gateways; i++) {
        if (ip_equals(&c->gateways[i], ip)) {
            return true;
        }
    }
    return false;
}

/* What is for a Node or pod of this cluster must not be sent to another
 * one. */
static void
judge_gateway(struct pass *pass, struct mc_peer *c, const struct ip *ip)
{
    struct ds why = DS_EMPTY_INITIALIZER;
    struct cidr host = host_of(ip);
    const struct netset_item *other = netset_find(&pass->hosts, &host);

    if (other && other->whose == this_cluster) {
        add_problem(pass->p, c, "gateway ", &host, "it is this cluster's");
    } else if (is_own(pass->mc, &host, &why) || is_taken(pass, &host, &why)) {
        add_problem(pass->p, c, "gateway ", &host, ds_cstr(&why));
    } else if (!has_gateway(c, ip)) {
        c->gateways[c->n_gateways++] = *ip;
    }
    ds_destroy(&why);
}

/* Its networks may be in one another. */
static void
take_good(struct pass *pass, struct mc_peer *c)
{
    netset_compact(&pass->good);
    netset_merge(&pass->taken, &pass->good);
    c->n_cidrs = pass->good.n;
    c->cidrs = xmalloc(MAX(c->n_cidrs, 1) * sizeof *c->cidrs);
    for (size_t i = 0; i < c->n_cidrs; i++) {
        c->cidrs[i] = pass->good.items[i].net;
    }
    pass->good.n = 0;

    /* Its gateways may be in its own networks, or be another one's, too. */
    for (size_t i = 0; i < c->n_gateways; i++) {
        struct cidr host = host_of(&c->gateways[i]);

        if (!netset_find(&pass->hosts, &host)) {
            netset_push(&pass->good, &host, c->name);
        }
    }
    netset_compact(&pass->good);
    netset_merge(&pass->hosts, &pass->good);
    pass->good.n = 0;
}

static void
add_cluster(struct pass *pass, const struct mc_cluster *obj)
{
    bool with_pods =
        pass->mc->cfg->multicluster_enable_pod_to_pod_connectivity;
    struct mc_peer *c = &pass->p->clusters[pass->p->n_clusters++];

    *c = (struct mc_peer){
        .name = xstrdup(obj->meta.name),
        .cluster_id = xstrdup(obj->cluster_id),
        .created_s = obj->meta.created_s,
        .gateways = xmalloc(obj->n_gateway_ips * sizeof *c->gateways),
    };
    for (size_t i = 0; i < obj->n_gateway_ips; i++) {
        judge_gateway(pass, c, &obj->gateway_ips[i]);
    }
    judge_cidr(pass, c, &obj->service_cidr);
    for (size_t i = 0; with_pods && i < obj->n_pod_cidrs; i++) {
        judge_cidr(pass, c, &obj->pod_cidrs[i]);
    }
    take_good(pass, c);
}

static int
compare_metas(const void *a_, const void *b_)
{
    const struct obj_meta *const *a = a_, *const *b = b_;

    return comes_before(*a, *b) ? -1 : comes_before(*b, *a);
}

/* The objects, the first first; the array is the caller's. */
static const struct obj_meta **
sort_objects(const struct mc *mc, size_t *ret_n)
{
    const struct hmap *all = model_plain(mc->model, MODEL_MC_CLUSTERS);
    const struct obj_meta **metas =
        xmalloc(MAX(hmap_count(all), 1) * sizeof *metas);
    const struct model_plain *mp;
    size_t n = 0;

    HMAP_FOR_EACH (mp, hmap_node, all) {
        metas[n++] = mp->meta;
    }
    qsort(metas, n, sizeof *metas, compare_metas);
    *ret_n = n;
    return metas;
}

/* Ids follow from the names, in the order of the clusters where two of them
 * would be equal.  The last is that of kept flows. */
static void
number_clusters(struct picture *p)
{
    struct idpool *ids = idpool_create(0, OBJECT_ID_MAX - 1);

    for (size_t i = 0; i < p->n_clusters; i++) {
        struct mc_peer *c = &p->clusters[i];

        ovs_assert(idpool_alloc(ids, stable_hash(c->name, strlen(c->name), 0),
                                &c->object_id));
        c->owner = cookie_make(COOKIE_MULTICLUSTER, c->object_id);
    }
    idpool_destroy(ids);
}

static void
make_picture(const struct mc *mc, struct picture *p)
{
    struct pass pass = { .mc = mc, .p = p };
    size_t n;
    const struct obj_meta **metas = sort_objects(mc, &n);

    *p = (struct picture){ .role = PIPE_MC_NONE };
    ds_init(&p->problems);
    choose_gateway(mc, p);
    push_own_gateways(&pass);
    if (n > MAX_CLUSTERS) {
        ds_put_format(&p->problems,
                      "of %" PRIuSIZE " ClusterInfoImports only the %d oldest "
                      "are used\n",
                      n, MAX_CLUSTERS);
        n = MAX_CLUSTERS;
    }
    p->clusters = xmalloc(MAX(n, 1) * sizeof *p->clusters);
    for (size_t i = 0; i < n; i++) {
        add_cluster(&pass, CONTAINER_OF(metas[i], struct mc_cluster, meta));
    }
    if (p->n_problems > MAX_PROBLEMS) {
        ds_put_format(&p->problems, "and %" PRIuSIZE " more\n",
                      p->n_problems - MAX_PROBLEMS);
    }
    number_clusters(p);
    netset_clear(&pass.taken);
    netset_clear(&pass.good);
    netset_clear(&pass.hosts);
    free(metas);
}

/* Is 'a', of the same name and age as 'b', made into the same flows? */
static bool
cluster_equals(const struct mc_peer *a, const struct mc_peer *b)
{
    return a->object_id == b->object_id
           && cidrs_equal(a->cidrs, a->n_cidrs, b->cidrs, b->n_cidrs)
           && a->n_gateways == b->n_gateways
           && !memcmp(a->gateways, b->gateways,
                      a->n_gateways * sizeof *a->gateways);
}

static int
compare_clusters(const struct mc_peer *a, const struct mc_peer *b)
{
    return a->created_s != b->created_s ? a->created_s < b->created_s ? -1 : 1
                                        : strcmp(a->name, b->name);
}

/* What is as it was need not be rendered again. */
static void
keep_rendered(const struct picture *old, struct picture *new)
{
    size_t j = 0;

    for (size_t i = 0; i < new->n_clusters; i++) {
        struct mc_peer *c = &new->clusters[i];

        while (j < old->n_clusters
               && compare_clusters(&old->clusters[j], c) < 0) {
            j++;
        }
        c->rendered = j < old->n_clusters && old->clusters[j].rendered
                      && cluster_equals(&old->clusters[j], c);
    }
}

/* Returns true if Nodes have other networks than before, or this one has
 * become, or is no longer, where the Gateway's internalIP leads to. */
static bool
read_nodes(struct mc *mc)
{
    const struct mc_gateway *gw = find_gateway(mc);
    struct netset now = NETSET_INIT;
    bool leads_here =
        gw && node_has_address(model_own_node(mc->model), &gw->internal_ip);
    bool changed;

    svccidrs_push_nodes(mc->svccidrs, &now);
    netset_compact(&now);
    changed = !netset_equals(&mc->nodes, &now) || leads_here != mc->leads_here;
    netset_clear(&mc->nodes);
    mc->nodes = now;
    mc->leads_here = leads_here;
    mc->nodes_seqno = model_nodes_seqno(mc->model);
    return changed;
}

/* A Node's change may be of no interest.  When anything is, the names are
 * read anew, too. */
static bool
has_changed(struct mc *mc)
{
    bool changed = !mc->made
                   || mc->gateways_seqno
                          != model_plain_seqno(mc->model, MODEL_MC_GATEWAYS)
                   || mc->clusters_seqno
                          != model_plain_seqno(mc->model, MODEL_MC_CLUSTERS)
                   || mc->flaws_seqno != svccidrs_flaws_seqno(mc->svccidrs)
                   || mc->svccidrs_seqno != svccidrs_seqno(mc->svccidrs);

    if (changed || mc->nodes_seqno != model_nodes_seqno(mc->model)) {
        changed |= read_nodes(mc);
    }
    return changed;
}

static void
tell(const struct picture *old, const struct picture *new)
{
    static struct vlog_rate_limit rl = VLOG_RATE_LIMIT_INIT(2, 4);
    static const char *const roles[] = {
        [PIPE_MC_NONE] = "there is no gateway to other clusters",
        [PIPE_MC_REGULAR] = "another node is the gateway to other clusters",
        [PIPE_MC_GATEWAY] = "this node is the gateway to other clusters",
    };

    if (old->role != new->role
        || strcmp(old->gateway ? old->gateway : "",
                  new->gateway ? new->gateway : "")
               != 0) {
        VLOG_INFO("%s%s%s", roles[new->role], new->gateway ? ": Node " : "",
                  new->gateway ? new->gateway : "");
    }
    if (new->problems.length
        && strcmp(ds_cstr_ro(&old->problems), ds_cstr_ro(&new->problems))) {
        VLOG_WARN_RL(&rl, "%s", ds_cstr_ro(&new->problems));
    }
}

void
mc_run(struct mc *mc)
{
    struct picture next;

    if (!is_on(mc) || !has_changed(mc)) {
        return;
    }
    mc->made = true;
    mc->gateways_seqno = model_plain_seqno(mc->model, MODEL_MC_GATEWAYS);
    mc->clusters_seqno = model_plain_seqno(mc->model, MODEL_MC_CLUSTERS);
    mc->flaws_seqno = svccidrs_flaws_seqno(mc->svccidrs);
    mc->svccidrs_seqno = svccidrs_seqno(mc->svccidrs);
    make_picture(mc, &next);
    keep_rendered(&mc->now, &next);
    tell(&mc->now, &next);
    if (next.role != mc->now.role
        || !ip_equals(&next.gateway_ip, &mc->now.gateway_ip)
        || !ip_equals(&next.internal_ip, &mc->now.internal_ip)) {
        mc->seqno++;
    }
    picture_uninit(&mc->now);
    mc->now = next;
    mc->rendered = false;
}

enum pipe_mc_role
mc_role(const struct mc *mc)
{
    return mc->now.role;
}

static const struct ip no_ip;

const struct ip *
mc_gateway_ip(const struct mc *mc)
{
    return mc->now.role == PIPE_MC_GATEWAY ? &mc->now.gateway_ip : &no_ip;
}

const struct ip *
mc_internal_ip(const struct mc *mc)
{
    return mc->now.role == PIPE_MC_REGULAR ? &mc->now.internal_ip : &no_ip;
}

uint64_t
mc_seqno(const struct mc *mc)
{
    return mc->seqno;
}

/* The bridge. */

static size_t
want_cluster(const struct mc *mc, const struct mc_peer *c)
{
    struct pipe_mc_peer peer = {
        .cidrs = c->cidrs,
        .n_cidrs = c->n_cidrs,
        .gateways = c->gateways,
        .n_gateways = c->n_gateways,
        .tunnel_dst = mc->node.mc_role == PIPE_MC_REGULAR ? mc->now.internal_ip
                      : c->n_gateways                     ? c->gateways[0]
                                      : (struct ip){ .in6 = in6addr_any },
    };
    struct flowtab_owner owner = {
        .id = c->owner,
        .rank = c->created_s,
    };
    struct fout out = FOUT_INIT;
    size_t changed;

    pipe_render_mc_peer(&mc->node, c->object_id, &peer, &out);
    changed = flowtab_want(mc->flowtab, &owner, &out);
    free(out.items);
    return changed;
}

static int
compare_u64(const void *a_, const void *b_)
{
    const uint64_t *a = a_, *b = b_;

    return *a < *b ? -1 : *a > *b;
}

/* What is new comes before what is not wanted any more.  Without 'all', only
 * clusters that have changed. */
static size_t
want_clusters(struct mc *mc, bool all)
{
    size_t n = mc->now.n_clusters, changed = 0;
    uint64_t *owners = xmalloc(MAX(n, 1) * sizeof *owners);

    for (size_t i = 0; i < n; i++) {
        struct mc_peer *c = &mc->now.clusters[i];

        owners[i] = c->owner;
        if (all || !c->rendered) {
            changed += want_cluster(mc, c);
            c->rendered = true;
        }
    }
    qsort(owners, n, sizeof *owners, compare_u64);
    for (size_t i = 0; i < mc->n_owners; i++) {
        if (!bsearch(&mc->owners[i], owners, n, sizeof *owners, compare_u64)) {
            struct flowtab_owner owner = { .id = mc->owners[i] };
            struct fout none = FOUT_INIT;

            changed += flowtab_want(mc->flowtab, &owner, &none);
        }
    }
    free(mc->owners);
    mc->owners = owners;
    mc->n_owners = n;
    return changed;
}

/* Were the flows made for the same node, and the same Gateway? */
static bool
is_same_node(const struct mc *mc, const struct pipe_node *node)
{
    return mc->node.gateway_ofport == node->gateway_ofport
           && eth_addr_equals(mc->node.gateway_mac, node->gateway_mac)
           && mc->node.tunnel_ofport == node->tunnel_ofport
           && mc->node.mc_role == node->mc_role
           && ip_equals(&mc->node.mc_gateway_ip, &node->mc_gateway_ip)
           && ip_equals(&mc->internal_ip, &mc->now.internal_ip);
}

bool
mc_render(struct mc *mc, const struct pipe_node *node)
{
    bool all, changed = false;

    if (!is_on(mc) || !mc->made) {
        return false;
    }
    all = !is_same_node(mc, node);
    if (!mc->rendered || all) {
        mc->rendered = true;
        mc->node = *node;
        mc->internal_ip = mc->now.internal_ip;
        changed = want_clusters(mc, all) > 0;
    }
    if (is_known(mc)
        || (mc->now.role == PIPE_MC_GATEWAY && mc_kept_lead_away(&mc->kept))) {
        changed |= mc_kept_release(&mc->kept, mc->flowtab);
    }
    return changed;
}

void
mc_adopt(struct mc *mc, const struct pipe_node *node)
{
    if (is_on(mc) && !is_known(mc)) {
        mc_kept_take(&mc->kept, mc->flowtab, node);
    }
}

/* For operators. */

const char *
mc_find_owner(const struct mc *mc, uint64_t owner)
{
    for (size_t i = 0; i < mc->now.n_clusters; i++) {
        const struct mc_peer *c = &mc->now.clusters[i];

        if (owner == c->owner) {
            return c->name;
        }
    }
    return NULL;
}

const char *
mc_find_network(const struct mc *mc, const struct ip *ip)
{
    for (size_t i = 0; i < mc->now.n_clusters; i++) {
        const struct mc_peer *c = &mc->now.clusters[i];

        for (size_t j = 0; j < c->n_cidrs; j++) {
            if (cidr_contains(&c->cidrs[j], ip)) {
                return c->cluster_id;
            }
        }
    }
    return NULL;
}

bool
mc_get_state(const struct mc *mc, struct mc_state *ret)
{
    const struct picture *p = &mc->now;

    *ret = (struct mc_state){
        .role = p->role,
        .gateway = p->gateway,
        .gateway_ip = p->gateway_ip,
        .internal_ip = p->internal_ip,
        .n_clusters = p->n_clusters,
        .n_left_out = p->n_left_out,
        .keeps = mc->kept.n > 0,
        .problems = ds_cstr_ro(&p->problems),
    };
    return is_on(mc);
}

void
mc_for_each(const struct mc *mc, void (*cb)(const struct mc_peer *, void *aux),
            void *aux)
{
    for (size_t i = 0; i < mc->now.n_clusters; i++) {
        cb(&mc->now.clusters[i], aux);
    }
}
