/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes, their claims, and what was handed out.
 *
 * A Node whose networks may have changed is stale.  What it has then is
 * worked out when a change is asked for, so that ten events cost one look.
 * First all stale Nodes give back what is no longer theirs, then they get
 * what is new. */

#include "peers.h"

#include <string.h>

#include <hash.h>
#include <openvswitch/list.h>
#include <openvswitch/shash.h>
#include <util.h>

#include "claims.h"
#include "ofproxyd/base/hash.h"
#include "ofproxyd/base/idpool.h"
#include "ofproxyd/base/map.h"
#include "ofproxyd/flow/cookie.h"
#include "peers-way.h"

/* How far an id is from the one that its Node prefers, at most, so that the
 * id of another Node, which had the network before, doesn't stick to it. */
#define MAX_ID_DISTANCE 8

/* A pod network of a Node.  It is claimed if it is good. */
struct net {
    struct claim claim;
    enum way_flaw flaw;
};

/* A set of networks that is or was handed out. */
struct peer_set {
    struct peer *peers;
    size_t n;
};

/* Where an entry stands. */
enum entry_queue {
    ENTRY_IDLE,
    ENTRY_STALE,  /* What it has must be worked out. */
    ENTRY_GAINING /* It has given back everything, and gets something. */
};

/* A Node, or what is left of one until that was handed out. */
struct entry {
    struct shash_node *shash_node; /* In 'entries', by its name. */
    struct ovs_list list_node;     /* In 'stale' or 'gaining'. */
    enum entry_queue queue;
    bool gone;

    /* Of the Node. */
    int64_t created_s;
    struct ip annotated[N_IP_FAMILIES];
    struct node_address *addresses;
    size_t n_addresses;
    struct cidr *pod_cidrs;
    size_t n_pod_cidrs;

    /* What follows from that and the environment. */
    struct ip transport[N_IP_FAMILIES];
    struct net *nets;
    size_t n_nets;

    /* What was handed out. */
    struct peer_set shown;
    char *told; /* The problem; NULL if none was told. */
    bool has_id;
    uint32_t object_id;
};

struct peers {
    char *own_node;
    struct peers_env env; /* Its arrays are owned. */
    struct claims *claims;
    struct claim *own_claims;
    size_t n_own_claims;
    struct shash entries;           /* Name to struct entry. */
    struct ovs_list stale, gaining; /* Of struct entry. */
    struct idpool *ids;
    peers_find_id_fn *find_id;
    void *find_id_aux;
    uint64_t n_steps;

    struct peer_set last_was; /* Of the last change, to be freed. */
};

const char *
peer_path_name(enum peer_path path)
{
    switch (path) {
#define PEER_PATH(SYM, NAME, MEANING) \
    case PEER_##SYM: return NAME;
        PEER_PATHS
#undef PEER_PATH
    }
    OVS_NOT_REACHED();
}

static const char *
name_of(const struct entry *e)
{
    return e->shash_node->name;
}

/* Queues. */

static void
move_to(struct peers *p, struct entry *e, enum entry_queue queue)
{
    ovs_list_remove(&e->list_node);
    ovs_list_init(&e->list_node);
    if (queue != ENTRY_IDLE) {
        ovs_list_push_back(queue == ENTRY_STALE ? &p->stale : &p->gaining,
                           &e->list_node);
    }
    e->queue = queue;
}

static void
mark_stale(struct peers *p, struct entry *e)
{
    if (e->queue != ENTRY_STALE) {
        move_to(p, e, ENTRY_STALE);
    }
}

static void
mark_changed_claims(struct peers *p)
{
    const struct claim *claim;

    while ((claim = claims_pop_changed(p->claims))) {
        if (claim->owner) {
            mark_stale(p, claim->owner);
        }
    }
}

/* Claims. */

/* Are there peers at all? */
static bool
has_peers(const struct peers *p)
{
    return p->env.mode != CFG_NETWORK_POLICY_ONLY && p->n_own_claims > 0
           && (!ip_is_none(&p->env.transport[IP_V4].ip)
               || !ip_is_none(&p->env.transport[IP_V6].ip));
}

static bool
has_own_network(const struct peers *p, enum ip_family family)
{
    for (size_t i = 0; i < p->n_own_claims; i++) {
        if (ip_family(&p->own_claims[i].net.ip) == family) {
            return true;
        }
    }
    return false;
}

static enum way_flaw
judge_net(const struct peers *p, const struct entry *e, const struct cidr *net)
{
    enum way_flaw flaw = way_find_flaw(&p->env, e->transport, net);

    return flaw == WAY_GOOD && !has_own_network(p, ip_family(&net->ip))
               ? WAY_FAMILY
               : flaw;
}

static void
withdraw(struct peers *p, struct entry *e)
{
    for (size_t i = 0; i < e->n_nets; i++) {
        if (e->nets[i].flaw == WAY_GOOD) {
            claims_remove(p->claims, &e->nets[i].claim);
        }
    }
    free(e->nets);
    e->nets = NULL;
    e->n_nets = 0;
    mark_changed_claims(p);
}

/* Are the claims of 'e' those that it would make? */
static bool
claims_stand(const struct peers *p, const struct entry *e)
{
    if (e->n_nets != (e->gone || !has_peers(p) ? 0 : e->n_pod_cidrs)) {
        return false;
    }
    for (size_t i = 0; i < e->n_nets; i++) {
        const struct net *net = &e->nets[i];
        struct cidr cidr = cidr_network(&e->pod_cidrs[i]);

        if (!ip_equals(&net->claim.net.ip, &cidr.ip)
            || net->claim.net.plen != cidr.plen
            || net->claim.created_s != e->created_s
            || net->flaw != judge_net(p, e, &cidr)) {
            return false;
        }
    }
    return true;
}

static void
make_claims(struct peers *p, struct entry *e)
{
    e->n_nets = e->n_pod_cidrs;
    e->nets = xcalloc(e->n_nets, sizeof *e->nets);
    for (size_t i = 0; i < e->n_nets; i++) {
        struct net *net = &e->nets[i];

        p->n_steps++;
        net->claim = (struct claim){
            .net = cidr_network(&e->pod_cidrs[i]),
            .owner = e,
            .created_s = e->created_s,
            .name = name_of(e),
            .index = i,
        };
        net->flaw = judge_net(p, e, &net->claim.net);
        if (net->flaw == WAY_GOOD) {
            claims_add(p->claims, &net->claim);
        }
    }
    mark_changed_claims(p);
}

/* Works out what follows from the Node and the environment. */
static void
judge(struct peers *p, struct entry *e)
{
    p->n_steps += 1 + e->n_addresses;
    way_choose_transport(&p->env, e->annotated, e->addresses, e->n_addresses,
                         e->transport);
    if (!claims_stand(p, e)) {
        withdraw(p, e);
        if (!e->gone && has_peers(p)) {
            make_claims(p, e);
        }
    }
    mark_stale(p, e);
}

/* Why 'e' hasn't the network of 'claim'. */
static void
describe_blocker(const struct claim *claim, struct ds *ds)
{
    const struct claim *b = claim->blocker;
    bool same = b->net.plen == claim->net.plen;
    char buf[CIDR_STRLEN];

    if (!b->owner) {
        ds_put_format(ds, "it overlaps this node's own %s",
                      cidr_to_string(&b->net, buf));
    } else if (b->owner == claim->owner) {
        ds_put_format(ds, "it overlaps %s of the same node",
                      cidr_to_string(&b->net, buf));
    } else if (same) {
        ds_put_format(ds, "it belongs to node \"%s\", which is newer",
                      b->name);
    } else {
        ds_put_format(ds, "it overlaps %s of node \"%s\", which is newer",
                      cidr_to_string(&b->net, buf), b->name);
    }
}

/* Appends what is wrong with 'net' to 'ds', if anything; else returns true and
 * sets '*ret'. */
static bool
resolve_net(const struct peers *p, const struct entry *e,
            const struct net *net, struct peer *ret, struct ds *ds)
{
    const struct claim *claim = &net->claim;
    char buf[CIDR_STRLEN];

    *ret = (struct peer){
        .cidr = claim->net,
        .gateway = cidr_host(&claim->net, 1),
    };
    if (net->flaw == WAY_GOOD && claim->has
        && way_find(&p->env, e->transport, ret)) {
        return true;
    }
    ds_put_format(ds, "%spod network %s is left out: ", ds->length ? "; " : "",
                  cidr_to_string(&claim->net, buf));
    if (net->flaw != WAY_GOOD) {
        ds_put_cstr(ds, way_flaw_text(net->flaw));
    } else if (!claim->has) {
        describe_blocker(claim, ds);
    } else {
        ds_put_cstr(ds, way_missing_text(&p->env, &claim->net));
    }
    return false;
}

/* Works out what 'e' is to have, and what is wrong with it; both are to be
 * freed. */
static struct peer_set
resolve(struct peers *p, const struct entry *e, struct ds *problem)
{
    struct peer_set set = { NULL, 0 };

    ds_init(problem);
    if (e->n_nets) {
        set.peers = xmalloc(e->n_nets * sizeof *set.peers);
    }
    for (size_t i = 0; i < e->n_nets; i++) {
        p->n_steps++;
        set.n += resolve_net(p, e, &e->nets[i], &set.peers[set.n], problem);
    }
    if (!set.n) {
        free(set.peers);
        set.peers = NULL;
    }
    return set;
}

/* Changes. */

static bool
same_net(const struct peer *a, const struct peer *b)
{
    return cidr_equals(&a->cidr, &b->cidr);
}

static bool
set_has(const struct peer_set *set, const struct peer *peer)
{
    for (size_t i = 0; i < set->n; i++) {
        if (same_net(&set->peers[i], peer)) {
            return true;
        }
    }
    return false;
}

static bool
sets_equal(const struct peer_set *a, const struct peer_set *b)
{
    bool equal = a->n == b->n;

    for (size_t i = 0; equal && i < a->n; i++) {
        equal = same_net(&a->peers[i], &b->peers[i])
                && a->peers[i].path == b->peers[i].path
                && ip_equals(&a->peers[i].via, &b->peers[i].via);
    }
    return equal;
}

/* Those of 'set' whose networks are in 'keep'. */
static struct peer_set
intersect(const struct peer_set *set, const struct peer_set *keep)
{
    struct peer_set ret = { xmalloc(set->n * sizeof *set->peers), 0 };

    for (size_t i = 0; i < set->n; i++) {
        if (set_has(keep, &set->peers[i])) {
            ret.peers[ret.n++] = set->peers[i];
        }
    }
    if (!ret.n) {
        free(ret.peers);
        ret.peers = NULL;
    }
    return ret;
}

/* Gives 'e' an id, if it needs one. */
static void
take_id(struct peers *p, struct entry *e, const struct peer_set *set)
{
    uint32_t hash = stable_hash(name_of(e), strlen(name_of(e)), 0);
    uint32_t found = UINT32_MAX;

    if (e->has_id || !set->n) {
        return;
    }
    if (p->find_id) {
        found = p->find_id(set->peers, set->n, p->find_id_aux);
    }
    e->object_id = found;
    e->has_id = (((found - hash) & OBJECT_ID_MAX) < MAX_ID_DISTANCE
                 && idpool_take(p->ids, found))
                || idpool_alloc(p->ids, hash, &e->object_id);
}

/* Isn't 'problem' what was told last? */
static bool
is_news(const struct entry *e, const char *problem)
{
    return strcmp(problem, e->told ? e->told : "") != 0;
}

/* Hands out 'now', which is taken over, for 'e'.  'problem' NULL means that it
 * is not looked at yet. */
static void
hand_out(struct peers *p, struct entry *e, struct peer_set now,
         const char *problem, struct peers_change *ret)
{
    bool news = problem && is_news(e, problem);

    take_id(p, e, &now);
    p->last_was = e->shown;
    e->shown = now;
    *ret = (struct peers_change){
        .name = name_of(e),
        .object_id = e->has_id ? e->object_id : 0,
        .was = p->last_was.peers,
        .n_was = p->last_was.n,
        .now = now.peers,
        .n_now = now.n,
        .news = news,
    };
    if (news) {
        free(e->told);
        e->told = problem[0] ? xstrdup(problem) : NULL;
    }
    ret->problem = e->told ? e->told : "";
}

/* Leaves it to the caller to call map_trim(). */
static void
entry_destroy(struct peers *p, struct entry *e)
{
    move_to(p, e, ENTRY_IDLE);
    withdraw(p, e);
    if (e->has_id) {
        idpool_free(p->ids, e->object_id);
    }
    shash_delete(&p->entries, e->shash_node);
    free(e->addresses);
    free(e->pod_cidrs);
    free(e->shown.peers);
    free(e->told);
    free(e);
}

/* Looks at 'e', which is stale: hands out what it gives back, if anything, and
 * then returns true. */
static bool
give_back(struct peers *p, struct entry *e, struct peers_change *ret)
{
    struct ds problem;
    struct peer_set now = resolve(p, e, &problem);
    struct peer_set kept = intersect(&e->shown, &now);
    bool loses = kept.n < e->shown.n;
    bool differs = !sets_equal(&kept, &now) || is_news(e, ds_cstr(&problem));

    move_to(p, e, differs || e->gone ? ENTRY_GAINING : ENTRY_IDLE);
    free(now.peers);
    ds_destroy(&problem);
    if (loses) {
        hand_out(p, e, kept, NULL, ret);
    } else {
        free(kept.peers);
    }
    return loses;
}

/* Looks at 'e', which has given back everything.  Returns true if it is handed
 * out. */
static bool
give(struct peers *p, struct entry *e, struct peers_change *ret)
{
    struct ds problem;
    struct peer_set now = resolve(p, e, &problem);
    bool differs =
        !sets_equal(&e->shown, &now) || is_news(e, ds_cstr(&problem));

    move_to(p, e, ENTRY_IDLE);
    if (e->gone) {
        entry_destroy(p, e);
        map_trim(&p->entries.map);
        differs = false;
        free(now.peers);
    } else if (differs) {
        hand_out(p, e, now, ds_cstr(&problem), ret);
    } else {
        free(now.peers);
    }
    ds_destroy(&problem);
    return differs;
}

bool
peers_pop_change(struct peers *p, struct peers_change *ret)
{
    free(p->last_was.peers);
    p->last_was = (struct peer_set){ NULL, 0 };
    while (!ovs_list_is_empty(&p->stale)) {
        if (give_back(p,
                      CONTAINER_OF(ovs_list_front(&p->stale), struct entry,
                                   list_node),
                      ret)) {
            return true;
        }
    }
    while (!ovs_list_is_empty(&p->gaining)) {
        if (give(p,
                 CONTAINER_OF(ovs_list_front(&p->gaining), struct entry,
                              list_node),
                 ret)) {
            return true;
        }
    }
    return false;
}

bool
peers_has_change(const struct peers *p)
{
    return !ovs_list_is_empty(&p->stale) || !ovs_list_is_empty(&p->gaining);
}

/* Nodes. */

static struct entry *
entry_create(struct peers *p, const char *name)
{
    struct entry *e = xzalloc(sizeof *e);

    e->shash_node = shash_add(&p->entries, name, e);
    ovs_list_init(&e->list_node);
    return e;
}

void
peers_put(struct peers *p, const struct node *node)
{
    const char *name = node->meta.name;
    struct entry *e = shash_find_data(&p->entries, name);

    /* So ids never run out. */
    if (!strcmp(name, p->own_node)
        || (!e && shash_count(&p->entries) > OBJECT_ID_MAX)) {
        return;
    }
    if (!e) {
        e = entry_create(p, name);
    }
    e->gone = false;
    e->created_s = node->meta.created_s;
    memcpy(e->annotated, node->transport, sizeof e->annotated);
    free(e->addresses);
    e->n_addresses = node->n_addresses;
    e->addresses =
        xmemdup(node->addresses, node->n_addresses * sizeof *node->addresses);
    free(e->pod_cidrs);
    e->n_pod_cidrs = node->n_pod_cidrs;
    e->pod_cidrs =
        xmemdup(node->pod_cidrs, node->n_pod_cidrs * sizeof *node->pod_cidrs);
    judge(p, e);
}

void
peers_remove(struct peers *p, const char *name)
{
    struct entry *e = shash_find_data(&p->entries, name);

    if (e && !e->gone) {
        e->gone = true;
        judge(p, e);
    }
}

/* Environment. */

static bool
envs_equal(const struct peers_env *a, const struct peers_env *b)
{
    return a->mode == b->mode && ip_equals(&a->server, &b->server)
           && cidrs_equal(a->transport, N_IP_FAMILIES, b->transport,
                          N_IP_FAMILIES)
           && cidrs_equal(a->own_cidrs, a->n_own_cidrs, b->own_cidrs,
                          b->n_own_cidrs)
           && cidrs_equal(a->transport_cidrs, a->n_transport_cidrs,
                          b->transport_cidrs, b->n_transport_cidrs);
}

static void
env_uninit(struct peers_env *env)
{
    free(CONST_CAST(struct cidr *, env->own_cidrs));
    free(CONST_CAST(struct cidr *, env->transport_cidrs));
}

static void
env_copy(struct peers_env *dst, const struct peers_env *src)
{
    *dst = *src;
    dst->own_cidrs =
        xmemdup(src->own_cidrs, src->n_own_cidrs * sizeof *src->own_cidrs);
    dst->transport_cidrs =
        xmemdup(src->transport_cidrs,
                src->n_transport_cidrs * sizeof *src->transport_cidrs);
}

static void
remove_own_claims(struct peers *p)
{
    for (size_t i = 0; i < p->n_own_claims; i++) {
        claims_remove(p->claims, &p->own_claims[i]);
    }
    free(p->own_claims);
    p->own_claims = NULL;
    p->n_own_claims = 0;
}

static void
add_own_claims(struct peers *p)
{
    p->own_claims = xcalloc(p->env.n_own_cidrs, sizeof *p->own_claims);
    for (size_t i = 0; i < p->env.n_own_cidrs; i++) {
        struct cidr net = cidr_network(&p->env.own_cidrs[i]);

        if (way_find_flaw(NULL, NULL, &net) == WAY_GOOD) {
            struct claim *claim = &p->own_claims[p->n_own_claims++];

            *claim =
                (struct claim){ .net = net, .name = p->own_node, .index = i };
            claims_add(p->claims, claim);
        }
    }
}

void
peers_set_env(struct peers *p, const struct peers_env *env)
{
    struct shash_node *node;

    if (envs_equal(&p->env, env)) {
        return;
    }

    struct peers_env old = p->env;
    env_copy(&p->env, env);
    if (!cidrs_equal(old.own_cidrs, old.n_own_cidrs, env->own_cidrs,
                     env->n_own_cidrs)) {
        remove_own_claims(p);
        add_own_claims(p);
        mark_changed_claims(p);
    }
    env_uninit(&old);
    SHASH_FOR_EACH (node, &p->entries) {
        judge(p, node->data);
    }
}

/* Life. */

struct peers *
peers_create(const char *own_node)
{
    struct peers *p = xzalloc(sizeof *p);

    p->own_node = xstrdup(own_node);
    p->claims = claims_create();
    shash_init(&p->entries);
    ovs_list_init(&p->stale);
    ovs_list_init(&p->gaining);
    p->ids = idpool_create(0, OBJECT_ID_MAX);
    return p;
}

void
peers_destroy(struct peers *p)
{
    struct shash_node *node;

    if (!p) {
        return;
    }
    SHASH_FOR_EACH_SAFE (node, &p->entries) {
        entry_destroy(p, node->data);
    }
    shash_destroy(&p->entries);
    remove_own_claims(p);
    claims_destroy(p->claims);
    idpool_destroy(p->ids);
    env_uninit(&p->env);
    free(p->last_was.peers);
    free(p->own_node);
    free(p);
}

void
peers_set_find_id(struct peers *p, peers_find_id_fn *find_id, void *aux)
{
    p->find_id = find_id;
    p->find_id_aux = aux;
}

/* Reports. */

static void
format_entry(const struct entry *e, struct ds *ds)
{
    char buf[CIDR_STRLEN];

    for (size_t i = 0; i < e->shown.n; i++) {
        const struct peer *peer = &e->shown.peers[i];

        ds_put_format(ds, "%s %s", name_of(e),
                      cidr_to_string(&peer->cidr, buf));
        ds_put_format(ds, " %s %s\n", peer_path_name(peer->path),
                      ip_to_string(&peer->via, buf));
    }
    if (e->told) {
        ds_put_format(ds, "%s: %s\n", name_of(e), e->told);
    }
}

void
peers_format(const struct peers *p, struct ds *ds)
{
    const struct shash_node **nodes = shash_sort(&p->entries);
    size_t n = shash_count(&p->entries);

    for (size_t i = 0; i < n; i++) {
        format_entry(nodes[i]->data, ds);
    }
    free(nodes);
}

void
peers_count(const struct peers *p, struct peers_counts *ret)
{
    const struct shash_node *node;

    *ret = (struct peers_counts){ .n_nodes = 0 };
    SHASH_FOR_EACH (node, &p->entries) {
        const struct entry *e = node->data;

        ret->n_nodes += !e->gone;
        ret->n_problems += e->told != NULL;
        for (size_t i = 0; i < e->shown.n; i++) {
            ret->n_networks[e->shown.peers[i].path]++;
        }
    }
}

uint64_t
peers_n_steps(const struct peers *p)
{
    return p->n_steps + claims_n_steps(p->claims);
}
