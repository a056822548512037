/* SPDX-License-Identifier: Apache-2.0 */

/* Keeps, for every Service that the model knows, the units that it should
 * have, each rendered into the flow table. */

#include "services.h"

#include <inttypes.h>

#include <openvswitch/shash.h>
#include <openvswitch/vlog.h>

#include <hash.h>
#include <timeval.h>
#include <util.h>

#include "clusterips.h"
#include "notice.h"
#include "ofproxyd/base/idpool.h"
#include "portsvc.h"
#include "served.h"
#include "stale.h"
#include "unitid.h"

VLOG_DEFINE_THIS_MODULE(services);

/* Each is about 5 us and 1 kB; the deadline is looked at in between. */
#define DEADLINE_EVERY 16

/* So many Services that got or lost an address because of another one are
 * rendered with that one.  It bounds the time; in a round of its own, the
 * address might be nobody's for a moment. */
#define MAX_WITH_ONE 16

struct services {
    struct model *model;
    struct kube *kube; /* For Events, or NULL. */
    struct flowtab *flowtab;
    const struct cfg *cfg;
    struct stale *stale; /* Or NULL. */
    struct idpool *ids;
    struct clusterips *cluster_ips;
    struct shash entries; /* "ns/name" to struct entry. */
    struct hmap units;    /* By object id. */
    struct addrs *addrs;  /* Who of them has which. */
    uint64_t n_changes;
    uint64_t n_affinity_changes;
    size_t n_long;   /* Units with a timeout that no flow can have. */
    bool has_untold; /* There are conflicts to be told. */

    /* What services_take_addr_changes() hands out. */
    struct addr_change *changes;
    size_t n_addr_changes, allocated_changes;

    struct ip *node_ips;
    size_t n_node_ips;
    struct ip gateway_ips[N_IP_FAMILIES];

    struct ip server; /* As in struct services_cfg. */
    uint16_t server_port;

    services_observer *observer; /* Or NULL. */
    void *observer_aux;
};

/* A Service that has units. */
struct entry {
    char *ns, *name;
    const char *full_name; /* "ns/name", the key in 'entries'. */
    bool uses_node_ips;    /* Depends on the node's addresses. */
    struct ovs_list units;
    struct clusterip cluster_ips[N_IP_FAMILIES];
};

/* Keeps a change for the host, which makes pipe_node_port_ip() by itself of
 * the addresses that it stands for. */
static void
add_addr_change(const struct addr *addr, bool gone, void *s_)
{
    struct services *s = s_;
    struct ip made = pipe_node_port_ip(addr->owner->family);

    if (!s->cfg->antrea_proxy_proxy_all || ip_equals(&addr->ip, &made)) {
        return;
    }
    if (s->n_addr_changes >= s->allocated_changes) {
        s->changes =
            x2nrealloc(s->changes, &s->allocated_changes, sizeof *s->changes);
    }
    s->changes[s->n_addr_changes++] = (struct addr_change){
        .kind = addr->kind,
        .family = addr->owner->family,
        .ip = addr->ip,
        .proto = addr->owner->proto,
        .port = addr->port,
        .gone = gone,
    };
}

struct services *
services_create(const struct services_cfg *cfg)
{
    struct services *s = xzalloc(sizeof *s);

    s->model = cfg->model;
    s->kube = cfg->kube;
    s->flowtab = cfg->flowtab;
    s->cfg = cfg->cfg;
    s->stale = cfg->stale;
    s->observer = cfg->observer;
    s->observer_aux = cfg->observer_aux;
    s->server = cfg->server;
    s->server_port = cfg->server_port;
    s->ids = idpool_create(0, OBJECT_ID_MAX);
    s->cluster_ips = clusterips_create(s->flowtab);
    shash_init(&s->entries);
    hmap_init(&s->units);
    s->addrs = addrs_create(add_addr_change, s);
    return s;
}

uint64_t
unit_owner(const struct unit *u)
{
    return cookie_make(COOKIE_SERVICE, u->object_id);
}

void
unit_format(const struct unit *u, struct ds *ds)
{
    ds_put_format(ds, "%s/%s:%s/%s (%s)", u->ns, u->name, u->port_name,
                  proto_name(u->proto), ip_family_name(u->family));
}

/* Makes 'items' what 'u' wants. */
static void
unit_want(struct services *s, const struct unit *u, int64_t rank,
          struct fout *items)
{
    struct flowtab_owner owner = {
        .id = unit_owner(u),
        .rank = rank,
        .name = u->full_name,
    };

    if (flowtab_want(s->flowtab, &owner, items)) {
        s->n_changes++;
    }
}

/* Addresses. */

static struct unit *
unit_of_claims(const struct addr_owner *owner)
{
    return CONTAINER_OF(owner, struct unit, claims);
}

const struct unit *
services_find_winner(const struct services *s, const struct addr *addr)
{
    return unit_of_claims(addrs_winner(s->addrs, addr));
}

/* Two units may claim one address.  It is told when all have been rendered: an
 * address that moves is for a moment claimed by both. */
static void
update_conflict(struct services *s, struct unit *u)
{
    u->conflict = addr_owner_find_lost(&u->claims) != NULL;
    s->has_untold |= u->conflict && !u->told;
    u->told &= u->conflict;
}

static void
tell_conflicts(struct services *s)
{
    struct unit *u;

    HMAP_FOR_EACH (u, id_node, &s->units) {
        const struct addr *lost = addr_owner_find_lost(&u->claims);

        if (lost && !u->told) {
            notice_conflict(s->kube, s->model, u, lost,
                            services_find_winner(s, lost));
            u->told = true;
        }
    }
    s->has_untold = false;
}

/* Units. */

static bool
is_long(const struct unit *u)
{
    return u->affinity_s > PIPE_AFFINITY_MAX_S;
}

static void
unit_set_affinity(struct services *s, struct unit *u, uint32_t affinity_s)
{
    if (u->affinity_s != affinity_s) {
        s->n_affinity_changes += u->affinity_s != 0;
        s->n_long -= is_long(u);
        u->affinity_s = affinity_s;
        s->n_long += is_long(u);
    }
}

static void
unit_destroy(struct services *s, struct unit *u)
{
    addrs_set(s->addrs, &u->claims, 0, NULL, 0);
    unit_set_affinity(s, u, 0);
    ovs_list_remove(&u->list_node);
    hmap_remove(&s->units, &u->id_node);
    idpool_free(s->ids, u->object_id);
    intern_unref(model_pool(s->model), u->port_name);
    free(u);
}

/* Takes back all that a unit wanted, and the unit. */
static void
unit_withdraw(struct services *s, struct unit *u)
{
    struct fout none = FOUT_INIT;

    if (s->stale) {
        stale_remove(s->stale, unit_owner(u));
    }
    unit_want(s, u, 0, &none);
    unit_destroy(s, u);
}

/* Takes the unit of 'port' and 'family' out of 'units', or returns NULL. */
static struct unit *
unit_take(struct ovs_list *units, const struct svc_port *port,
          enum ip_family family)
{
    struct unit *u;

    LIST_FOR_EACH (u, list_node, units) {
        if (u->port_name == port->name && u->proto == port->proto
            && u->family == family) {
            ovs_list_remove(&u->list_node);
            return u;
        }
    }
    return NULL;
}

static struct unit *
unit_create(struct services *s, struct entry *e, const struct svc_port *port,
            const struct pipe_service *like)
{
    struct unit *u = xzalloc(sizeof *u);

    u->ns = e->ns;
    u->name = e->name;
    u->full_name = e->full_name;
    u->port_name = intern_ref(model_pool(s->model), port->name);
    u->proto = port->proto;
    u->family = like->family;
    if (!unitid_take(s->ids, s->flowtab, u, like, &u->object_id)) {
        static struct vlog_rate_limit rl = VLOG_RATE_LIMIT_INIT(1, 5);

        VLOG_ERR_RL(&rl,
                    "Service %s/%s: port \"%s\" is left out: there are "
                    "more than %u Service ports",
                    e->ns, e->name, port->name, OBJECT_ID_MAX);
        intern_unref(model_pool(s->model), u->port_name);
        free(u);
        return NULL;
    }
    addr_owner_init(&u->claims);
    u->claims.name = u->full_name;
    u->claims.port_name = u->port_name;
    u->claims.id = u->object_id;
    u->claims.proto = u->proto;
    u->claims.family = u->family;
    ovs_list_push_back(&e->units, &u->list_node);
    hmap_insert(&s->units, &u->id_node, hash_int(u->object_id, 0));
    return u;
}

/* Rendering. */

/* Copies those of 'frontends' that the unit has and not another one to
 * 'ret', and returns their number. */
static size_t
copy_own(const struct unit *u, const struct frontends *frontends,
         struct pipe_frontend *ret)
{
    size_t n = 0;

    for (size_t i = 0; i < frontends->n; i++) {
        if (!addr_owner_lost(&u->claims, &frontends->frontends[i])) {
            ret[n++] = frontends->frontends[i];
        }
    }
    return n;
}

/* Connections of UDP and SCTP outlive what they were made for. */
static void
unit_tell_stale(struct services *s, const struct model_service *ms,
                const struct svc_port *port, const struct pipe_service *svc,
                const struct eps_choice *choice)
{
    struct eps_list alive;

    if (!s->stale || svc->proto == PROTO_TCP) {
        return;
    }
    eps_list_alive(ms, port, svc->family, &alive);
    stale_update(s->stale,
                 &(struct stale_port){
                     .owner = cookie_make(COOKIE_SERVICE, svc->object_id),
                     .family = svc->family,
                     .proto = svc->proto,
                     .frontends = svc->frontends,
                     .n_frontends = svc->n_frontends,
                     .alive = &alive,
                     .choice = choice,
                 });
    free(alive.eps);
}

static void
unit_want_service(struct services *s, struct unit *u, int64_t rank,
                  struct pipe_service *svc)
{
    struct fout out = FOUT_INIT;
    struct err err;

    if (pipe_render_service(svc, &out, &err)) {
        notice_left_out(s->kube, s->model, u, err.msg);
    }
    unit_set_affinity(s, u, svc->affinity_s);
    unit_want(s, u, rank, &out);
    free(out.items);
}

static void
unit_render(struct services *s, const struct model_service *ms,
            const struct svc_port *port, const struct frontends *frontends,
            struct unit *u)
{
    struct pipe_frontend *own = NULL;
    struct eps_place here = eps_own_place(s->model);
    struct portsvc p;

    portsvc_make(ms, port, frontends, &here, &p);
    u->ip = frontends->frontends[0].ip;
    u->port = port->port;
    u->verdict = p.svc.targets[frontends->frontends[0].scope].verdict;
    u->n_cluster = p.choice.cluster.n;
    u->n_local = p.choice.local.n;

    update_conflict(s, u);
    if (u->conflict) {
        own = xmalloc(frontends->n * sizeof *own);
        p.svc.n_frontends = copy_own(u, frontends, own);
        p.svc.frontends = own;
    }
    p.svc.object_id = u->object_id;
    unit_tell_stale(s, ms, port, &p.svc, &p.choice);
    unit_want_service(s, u, ms->svc->meta.created_s, &p.svc);
    portsvc_uninit(&p);
    free(own);
}

/* Services. */

static bool
is_served(const struct services *s, const struct svc *svc)
{
    return svc && !served_why_not(s->cfg, svc);
}

/* What is done of one Service at a time. */
struct rendering {
    struct services *s;
    struct entry *e;
    const struct model_service *ms;
    struct frontends frontends[N_IP_FAMILIES];

    /* The unit of ports[i / N_IP_FAMILIES] and family i % N_IP_FAMILIES, or
     * NULL. */
    struct unit **units;
    size_t n;
};

static const struct svc_port *
nth_port(const struct rendering *r, size_t i)
{
    return &r->ms->svc->ports[i / N_IP_FAMILIES];
}

/* Returns the frontends of the i-th unit, valid until the next call, or NULL
 * if the Service isn't of that family. */
static struct frontends *
nth_frontends(struct rendering *r, size_t i)
{
    struct frontends *frontends = &r->frontends[i % N_IP_FAMILIES];

    if (!frontends->frontends) {
        return NULL;
    }
    frontends_set_port(frontends, nth_port(r, i));
    return frontends;
}

static void
choose_frontends(struct rendering *r)
{
    static struct vlog_rate_limit rl = VLOG_RATE_LIMIT_INIT(10, 10);
    const struct services *s = r->s;
    const struct frontends_env env = {
        s->cfg,        s->node_ips,
        s->n_node_ips, { s->gateway_ips[IP_V4], s->gateway_ips[IP_V6] },
        s->server,     s->server_port,
    };
    const struct svc *svc = r->ms->svc;

    r->e->uses_node_ips = false;
    for (int f = 0; f < N_IP_FAMILIES; f++) {
        struct frontends *frontends = &r->frontends[f];

        *frontends = (struct frontends){ .n = 0 };
        if (!svc->n_ports || ip_is_none(&svc->cluster_ips[f])) {
            continue;
        }
        frontends_choose(&env, svc, f, frontends);
        r->e->uses_node_ips |= frontends->uses_node_ips;
        if (frontends->n_left_out) {
            struct err err;

            err_set(&err,
                    "Service %s: %zu external %s addresses or source ranges "
                    "are left out",
                    r->e->full_name, frontends->n_left_out, ip_family_name(f));
            VLOG_WARN_RL(&rl, "%s", err.msg);
            notice_event(s->kube, r->ms, EVENT_LEFT_OUT, err.msg);
        }
    }
}

/* The units are kept in the order of the ports: with thousands of ports, the
 * next one that is looked for is nearly always the first.  Those without a
 * port go before others come, which may want the same address. */
static void
match_units(struct rendering *r)
{
    struct ovs_list old;
    struct unit *u;

    ovs_list_move(&old, &r->e->units);
    ovs_list_init(&r->e->units);
    for (size_t i = 0; i < r->n; i++) {
        if (nth_frontends(r, i)) {
            r->units[i] = unit_take(&old, nth_port(r, i), i % N_IP_FAMILIES);
        }
        if (r->units[i]) {
            ovs_list_push_back(&r->e->units, &r->units[i]->list_node);
        }
    }
    LIST_FOR_EACH_SAFE (u, list_node, &old) {
        unit_withdraw(r->s, u);
    }
}

/* All units claim their addresses before one is rendered: one may have got
 * the address of another. */
static void
claim_addrs(struct rendering *r)
{
    const struct svc *svc = r->ms->svc;

    for (size_t i = 0; i < r->n; i++) {
        const struct frontends *frontends = nth_frontends(r, i);

        if (frontends && !r->units[i]) {
            const struct pipe_service like =
                portsvc_frame(svc, nth_port(r, i), frontends);

            r->units[i] = unit_create(r->s, r->e, nth_port(r, i), &like);
        }
        if (r->units[i]) {
            addrs_set(r->s->addrs, &r->units[i]->claims, svc->meta.created_s,
                      frontends->frontends, frontends->n);
        }
    }
}

/* After the ports, whose flows are above it. */
static void
set_cluster_ips(const struct rendering *r)
{
    for (int f = 0; f < N_IP_FAMILIES; f++) {
        const struct svc *svc = r->ms->svc;
        bool served = r->frontends[f].frontends != NULL;

        r->s->n_changes +=
            clusterip_set(r->s->cluster_ips, &r->e->cluster_ips[f],
                          r->e->full_name, svc->meta.created_s,
                          served ? &svc->cluster_ips[f] : NULL);
    }
}

static void
entry_render(struct services *s, struct entry *e,
             const struct model_service *ms)
{
    struct rendering r = {
        .s = s,
        .e = e,
        .ms = ms,
        .n = ms->svc->n_ports * N_IP_FAMILIES,
    };

    r.units = xcalloc(MAX(r.n, 1), sizeof(struct unit *));
    choose_frontends(&r);
    match_units(&r);
    claim_addrs(&r);
    for (size_t i = 0; i < r.n; i++) {
        if (r.units[i]) {
            unit_render(s, ms, nth_port(&r, i), nth_frontends(&r, i),
                        r.units[i]);
        }
    }
    set_cluster_ips(&r);
    for (int f = 0; f < N_IP_FAMILIES; f++) {
        frontends_uninit(&r.frontends[f]);
    }
    free(r.units);
}

static void
entry_destroy(struct services *s, struct shash_node *node, bool withdraw)
{
    struct entry *e = node->data;
    struct unit *u;

    LIST_FOR_EACH_SAFE (u, list_node, &e->units) {
        if (withdraw) {
            unit_withdraw(s, u);
        } else {
            unit_destroy(s, u);
        }
    }
    for (int f = 0; f < N_IP_FAMILIES; f++) {
        if (withdraw) {
            s->n_changes += clusterip_set(s->cluster_ips, &e->cluster_ips[f],
                                          e->full_name, 0, NULL);
        }
        clusterip_forget(s->cluster_ips, &e->cluster_ips[f]);
    }
    shash_delete(&s->entries, node);
    free(e->ns);
    free(e->name);
    free(e);
}

static void
services_render(struct services *s, const struct model_service *ms)
{
    char *key = xasprintf("%s/%s", ms->ns, ms->name);
    struct shash_node *node = shash_find(&s->entries, key);
    bool served = is_served(s, ms->svc);

    if (s->observer) {
        s->observer(ms, served, s->observer_aux);
    }
    if (!served) {
        if (node) {
            entry_destroy(s, node, true);
        }
    } else {
        if (!node) {
            struct entry *e = xzalloc(sizeof *e);

            e->ns = xstrdup(ms->ns);
            e->name = xstrdup(ms->name);
            ovs_list_init(&e->units);
            node = shash_add(&s->entries, key, e);
            e->full_name = node->name;
        }
        entry_render(s, node->data, ms);
    }
    free(key);
}

void
services_destroy(struct services *s)
{
    struct shash_node *node;

    if (!s) {
        return;
    }
    SHASH_FOR_EACH_SAFE (node, &s->entries) {
        entry_destroy(s, node, false);
    }
    shash_destroy(&s->entries);
    addrs_destroy(s->addrs);
    clusterips_destroy(s->cluster_ips);
    hmap_destroy(&s->units);
    idpool_destroy(s->ids);
    free(s->changes);
    free(s->node_ips);
    free(s);
}

/* Renders the Services that got or lost an address because of the one that
 * was rendered. */
static void
render_changed(struct services *s)
{
    const struct addr_owner *owner;

    for (size_t n = 0; (owner = addrs_pop_changed(s->addrs)); n++) {
        const struct unit *u = unit_of_claims(owner);
        const struct model_service *ms =
            model_find_service(s->model, u->ns, u->name);

        if (n < MAX_WITH_ONE && ms) {
            services_render(s, ms);
        } else {
            model_mark_dirty(s->model, u->ns, u->name);
        }
    }
}

bool
services_run(struct services *s, long long int deadline_ms)
{
    const struct model_service *ms;
    unsigned int n = 0;
    bool done;

    while ((ms = model_pop_dirty(s->model))) {
        services_render(s, ms);
        render_changed(s);
        if (!(++n % DEADLINE_EVERY) && time_msec() >= deadline_ms) {
            break;
        }
    }
    done = !model_has_dirty(s->model);
    if (done && s->has_untold) {
        tell_conflicts(s);
    }
    return done;
}

uint64_t
services_n_changes(const struct services *s)
{
    return s->n_changes;
}

struct addr_change *
services_take_addr_changes(struct services *s, size_t *ret_n)
{
    struct addr_change *changes = s->changes;

    *ret_n = s->n_addr_changes;
    s->changes = NULL;
    s->n_addr_changes = s->allocated_changes = 0;
    return changes;
}

static bool
has_node_ips(const struct services *s, const struct ip *ips, size_t n)
{
    if (s->n_node_ips != n) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if (!ip_equals(&s->node_ips[i], &ips[i])) {
            return false;
        }
    }
    return true;
}

/* Has what depends on the host's addresses rendered anew. */
static void
host_ips_changed(struct services *s)
{
    const struct shash_node *node;

    SHASH_FOR_EACH (node, &s->entries) {
        const struct entry *e = node->data;

        if (e->uses_node_ips) {
            model_mark_dirty(s->model, e->ns, e->name);
        }
    }
}

void
services_set_node_ips(struct services *s, const struct ip *ips, size_t n)
{
    if (!has_node_ips(s, ips, n)) {
        free(s->node_ips);
        s->node_ips = n ? xmemdup(ips, n * sizeof *ips) : NULL;
        s->n_node_ips = n;
        host_ips_changed(s);
    }
}

void
services_set_gateway_ips(struct services *s,
                         const struct ip ips[N_IP_FAMILIES])
{
    if (memcmp(s->gateway_ips, ips, sizeof s->gateway_ips)) {
        memcpy(s->gateway_ips, ips, sizeof s->gateway_ips);
        host_ips_changed(s);
    }
}

/* Look-ups. */

void
services_for_each(const struct services *s, const char *ns, const char *name,
                  void (*cb)(const struct unit *, void *aux), void *aux)
{
    const struct shash_node **nodes = shash_sort(&s->entries);
    size_t n = shash_count(&s->entries);

    for (size_t i = 0; i < n; i++) {
        const struct entry *e = nodes[i]->data;
        const struct unit *u;

        if (ns && (strcmp(ns, e->ns) || strcmp(name, e->name))) {
            continue;
        }
        LIST_FOR_EACH (u, list_node, &e->units) {
            cb(u, aux);
        }
    }
    free(nodes);
}

uint32_t
services_affinity_s(const struct services *s, uint32_t object_id)
{
    const struct unit *u =
        services_find_owner(s, cookie_make(COOKIE_SERVICE, object_id));

    return u ? u->affinity_s : 0;
}

uint64_t
services_n_affinity_changes(const struct services *s)
{
    return s->n_affinity_changes;
}

size_t
services_n_long_affinities(const struct services *s)
{
    return s->n_long;
}

const struct unit *
services_find_owner(const struct services *s, uint64_t owner)
{
    uint32_t id = cookie_object_id(owner);
    const struct unit *u;

    if (!cookie_is_ours(owner) || cookie_category(owner) != COOKIE_SERVICE) {
        return NULL;
    }
    HMAP_FOR_EACH_WITH_HASH (u, id_node, hash_int(id, 0), &s->units) {
        if (u->object_id == id) {
            return u;
        }
    }
    return NULL;
}

const struct clusterip *
services_cluster_ip(const struct services *s, const char *ns, const char *name,
                    enum ip_family family)
{
    char *key = xasprintf("%s/%s", ns, name);
    const struct entry *e = shash_find_data(&s->entries, key);

    free(key);
    return e && e->cluster_ips[family].exists ? &e->cluster_ips[family] : NULL;
}

const struct clusterip *
services_find_cluster_ip(const struct services *s, uint64_t owner)
{
    return clusterips_find_owner(s->cluster_ips, owner);
}
