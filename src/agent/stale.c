/* SPDX-License-Identifier: Apache-2.0 */

/* Service ports of UDP and SCTP as they are, and the jobs that come of their
 * changes. */

#include "stale.h"

#include <limits.h>

#include <openvswitch/vlog.h>

#include <hash.h>
#include <util.h>

#include "ofproxyd/base/map.h"
#include "ofproxyd/flow/cookie.h"
#include "stale-private.h"

VLOG_DEFINE_THIS_MODULE(stale);

/* While the switch is away, what is due adds up; these are far more than any
 * switch's table survives its absence with. */
#define MAX_WAITING 100000
#define MAX_ADDRS   ((size_t) 2 * PIPE_MAX_ENDPOINTS)

/* What one request costs until it was measured: much, so that the first goes
 * alone. */
#define GUESSED_COST_US 10000

struct stale *
stale_create(const struct flowtab *ft, const char *path)
{
    struct stale *st = xzalloc(sizeof *st);

    st->flowtab = ft;
    st->path = nullable_xstrdup(path);
    hmap_init(&st->ports);
    hmap_init(&st->claims);
    hmap_init(&st->waiting);
    ovs_list_init(&st->active);
    st->was_warm = -1;
    st->not_before_ms = LLONG_MIN;
    st->cost_us = GUESSED_COST_US;
    stale_set_node_ips(st, NULL, 0);
    return st;
}

/* Ports. */

struct port *
stale_find_port(const struct stale *st, uint64_t owner)
{
    struct port *port;

    HMAP_FOR_EACH_WITH_HASH (port, node, hash_uint64(owner), &st->ports) {
        if (port->owner == owner) {
            return port;
        }
    }
    return NULL;
}

uint32_t
stale_hash_claim(enum ip_family family, enum proto proto,
                 const struct addr *addr)
{
    return ip_hash(&addr->ip, (uint32_t) family << 24 | (uint32_t) proto << 16
                                  | addr->port);
}

static void
withdraw_claims(struct stale *st, struct port *port)
{
    for (size_t i = 0; i < port->addrs.n; i++) {
        map_remove(&st->claims, &port->claims[i].node);
    }
    free(port->claims);
    port->claims = NULL;
}

static void
set_addrs(struct stale *st, struct port *port, struct addrset *addrs)
{
    withdraw_claims(st, port);
    addrset_move(&port->addrs, addrs);
    port->claims = xmalloc(MAX(port->addrs.n, 1) * sizeof *port->claims);
    for (size_t i = 0; i < port->addrs.n; i++) {
        struct claim *claim = &port->claims[i];

        claim->port = port;
        claim->addr = &port->addrs.a[i];
        hmap_insert(&st->claims, &claim->node,
                    stale_hash_claim(port->family, port->proto, claim->addr));
    }
}

static void
add_nested(struct stale *st, struct port *port, const struct eps_list *list)
{
    bool nested = port->nested.n;

    for (size_t i = 0; i < list->n && port->nested.n < MAX_ADDRS; i++) {
        if (list->eps[i].nested) {
            addrset_push(&port->nested, &list->eps[i].ip, list->eps[i].port);
        }
    }
    addrset_sort(&port->nested);
    st->n_nesting += !nested && port->nested.n;
}

/* Leaves it to the caller to call map_trim(). */
static void
port_destroy(struct stale *st, struct port *port)
{
    st->n_nesting -= port->nested.n > 0;
    addrset_clear(&port->nested);
    withdraw_claims(st, port);
    hmap_remove(&st->ports, &port->node);
    addrset_clear(&port->addrs);
    addrset_clear(&port->alive);
    addrset_clear(&port->used);
    free(port);
}

/* Jobs. */

void
stale_job_destroy(struct job *job)
{
    addrset_clear(&job->addrs);
    addrset_clear(&job->eps);
    addrset_clear(&job->fresh);
    addrset_clear(&job->sources);
    addrset_clear(&job->peers);
    free(job);
}

static struct job *
find_job(const struct stale *st, const struct port *like)
{
    struct job *job;

    HMAP_FOR_EACH_WITH_HASH (job, node, hash_uint64(like->owner),
                             &st->waiting) {
        if (job->owner == like->owner && job->family == like->family
            && job->proto == like->proto) {
            return job;
        }
    }
    return NULL;
}

struct job *
stale_get_job(struct stale *st, const struct port *like)
{
    static struct vlog_rate_limit rl = VLOG_RATE_LIMIT_INIT(1, 1);
    struct job *job = find_job(st, like);

    st->dirty = true;
    st->unsaved = true;
    if (job) {
        return job;
    }
    if (hmap_count(&st->waiting) >= MAX_WAITING) {
        VLOG_WARN_RL(&rl,
                     "more than %d changes wait for the switch: stale "
                     "connections of others stay until they time out",
                     MAX_WAITING);
        return NULL;
    }
    job = xzalloc(sizeof *job);
    job->owner = like->owner;
    job->family = like->family;
    job->proto = like->proto;
    hmap_insert(&st->waiting, &job->node, hash_uint64(job->owner));
    return job;
}

static void
add_bounded(struct addrset *set, const struct addrset *more)
{
    if (set->n < MAX_ADDRS) {
        addrset_add(set, more);
    }
}

void
stale_expand(const struct stale *st, struct addrset *set,
             enum ip_family family, bool keep)
{
    struct addrset out = ADDRSET_INIT;

    for (size_t i = 0; i < set->n; i++) {
        const struct addr *addr = &set->a[i];
        bool abstract = ip_is_none(&addr->ip);

        if (!abstract || keep) {
            addrset_push(&out, &addr->ip, addr->port);
        }
        for (size_t j = 0; abstract && j < st->node_ips.n; j++) {
            const struct ip *ip = &st->node_ips.a[j].ip;

            if (ip_family(ip) == family) {
                addrset_push(&out, ip, addr->port);
            }
        }
    }
    addrset_sort(&out);
    addrset_move(set, &out);
}

static void
inherit_at(struct stale *st, const struct port *was, const struct addr *addr)
{
    uint32_t hash = stale_hash_claim(was->family, was->proto, addr);
    struct claim *claim;

    HMAP_FOR_EACH_WITH_HASH (claim, node, hash, &st->claims) {
        struct port *port = claim->port;

        if (port->family != was->family || port->proto != was->proto
            || addr_compare(claim->addr, addr)) {
            continue;
        }
        for (size_t i = 0; i < was->used.n; i++) {
            const struct addr *ep = &was->used.a[i];

            if (addrset_has(&port->alive, ep)) {
                addrset_push(&port->used, &ep->ip, ep->port);
            }
        }
        addrset_sort(&port->used);
    }
}

void
stale_inherit(struct stale *st, const struct port *was)
{
    for (size_t i = 0; i < was->addrs.n; i++) {
        const struct addr *addr = &was->addrs.a[i];
        const struct addr node_port = { .port = addr->port };

        inherit_at(st, was, addr);
        if (stale_is_node_ip(st, &addr->ip)) {
            inherit_at(st, was, &node_port);
        }
    }
}

/* Connections of 'port' from 'addrs' to 'eps' are stale. */
static void
note_stale(struct stale *st, const struct port *port,
           const struct addrset *addrs, const struct addrset *eps)
{
    struct job *job = addrs->n && eps->n ? stale_get_job(st, port) : NULL;

    if (job) {
        add_bounded(&job->addrs, addrs);
        add_bounded(&job->eps, eps);
        stale_expand(st, &job->addrs, job->family, true);
    }
}

void
stale_add_job(struct stale *st, const struct port *was)
{
    bool was_new = !find_job(st, was);
    struct job *job = stale_get_job(st, was);

    if (job) {
        add_bounded(&job->addrs, &was->addrs);
        add_bounded(&job->eps, &was->used);
        stale_expand(st, &job->addrs, job->family, true);
        if (was_new && stale_job_is_void(st, job)) {
            hmap_remove(&st->waiting, &job->node);
            stale_job_destroy(job);
        }
    }
}

/* Untranslated connections to 'addrs' are stale. */
static void
note_fresh(struct stale *st, const struct port *port,
           const struct addrset *addrs)
{
    struct job *job = addrs->n ? stale_get_job(st, port) : NULL;

    if (job) {
        add_bounded(&job->fresh, addrs);
        stale_expand(st, &job->fresh, job->family, true);
    }
}

const struct fitem *
stale_find_flow(const struct stale *st, const struct port *like,
                const struct addr *addr)
{
    struct pipe_frontend frontend = {
        .kind = ip_is_none(&addr->ip) ? PIPE_NODE_PORT : PIPE_CLUSTER_IP,
        .ip = addr->ip,
        .port = addr->port,
    };
    struct pipe_service svc = {
        .family = like->family,
        .proto = like->proto,
        .frontends = &frontend,
        .n_frontends = 1,
        .targets = { { .verdict = PIPE_DROP }, { .verdict = PIPE_DROP } },
    };
    const struct fitem *have = NULL;
    struct fout out = FOUT_INIT;

    if (!pipe_render_service(&svc, &out, NULL)) {
        have = flowtab_find_have(st->flowtab, out.items[0]);
    }
    fout_clear(&out);
    return have;
}

/* Changes. */

static void
note_service_flow(const struct fitem *have, void *was_warm)
{
    if (fitem_kind(have) == FITEM_FLOW
        && cookie_category(fitem_cookie(have)) == COOKIE_SERVICE) {
        *(int *) was_warm = 1;
    }
}

/* Packets can have gone by only through a switch that had flows: where there
 * were none, thousands of new addresses need not be looked for. */
static bool
was_warm(struct stale *st)
{
    if (st->was_warm < 0) {
        st->was_warm = 0;
        flowtab_for_each_have(st->flowtab, note_service_flow, &st->was_warm);
    }
    return st->was_warm || st->adopted;
}

/* 'port' gets 'addrs', those of them that the switch doesn't know are new. */
static void
change_addrs(struct stale *st, struct port *port, struct addrset *addrs)
{
    struct addrset gone = ADDRSET_INIT, added = ADDRSET_INIT;
    struct addrset fresh = ADDRSET_INIT;

    addrset_subtract(&port->addrs, addrs, &gone);
    note_stale(st, port, &gone, &port->used);

    if (was_warm(st)) {
        addrset_subtract(addrs, &port->addrs, &added);
    }
    for (size_t i = 0; i < added.n; i++) {
        if (!stale_find_flow(st, port, &added.a[i])) {
            addrset_push(&fresh, &added.a[i].ip, added.a[i].port);
        }
    }
    note_fresh(st, port, &fresh);

    set_addrs(st, port, addrs);
    addrset_clear(&gone);
    addrset_clear(&added);
    addrset_clear(&fresh);
}

static void
push_eps(struct addrset *set, const struct eps_list *list)
{
    for (size_t i = 0; i < list->n; i++) {
        addrset_push(set, &list->eps[i].ip, list->eps[i].port);
    }
}

/* To be called before the addresses change: connections came by the old
 * ones. */
static void
change_eps(struct stale *st, struct port *port, const struct stale_port *now)
{
    struct addrset alive = ADDRSET_INIT, used = ADDRSET_INIT;
    struct addrset gone = ADDRSET_INIT;

    push_eps(&alive, now->alive);
    addrset_sort(&alive);
    addrset_subtract(&port->used, &alive, &gone);
    note_stale(st, port, &port->addrs, &gone);
    addrset_move(&port->alive, &alive);

    push_eps(&used, &now->choice->cluster);
    push_eps(&used, &now->choice->local);
    for (size_t i = 0; i < port->used.n; i++) {
        if (addrset_has(&port->alive, &port->used.a[i])) {
            addrset_push(&used, &port->used.a[i].ip, port->used.a[i].port);
        }
    }
    addrset_sort(&used);
    addrset_move(&port->used, &used);
    addrset_clear(&gone);
}

void
stale_update(struct stale *st, const struct stale_port *now)
{
    struct addrset addrs = ADDRSET_INIT;
    struct port *port;

    if (now->proto == PROTO_TCP) {
        return;
    }
    port = stale_find_port(st, now->owner);
    if (!port) {
        port = xzalloc(sizeof *port);
        port->owner = now->owner;
        port->family = now->family;
        port->proto = now->proto;
        hmap_insert(&st->ports, &port->node, hash_uint64(port->owner));
    }
    for (size_t i = 0; i < now->n_frontends; i++) {
        addrset_push(&addrs, &now->frontends[i].ip, now->frontends[i].port);
    }
    addrset_sort(&addrs);

    add_nested(st, port, &now->choice->cluster);
    add_nested(st, port, &now->choice->local);
    change_eps(st, port, now);
    change_addrs(st, port, &addrs);
}

void
stale_remove(struct stale *st, uint64_t owner)
{
    struct port *port = stale_find_port(st, owner);

    if (port) {
        note_stale(st, port, &port->addrs, &port->used);
        port_destroy(st, port);
        map_trim(&st->ports);
    }
}

/* Addresses of the node. */

bool
stale_is_node_ip(const struct stale *st, const struct ip *ip)
{
    struct addr addr = { *ip, 0 };

    return addrset_has(&st->node_ips, &addr);
}

/* NodePort 'port' is served on 'ips' no longer, or from now on. */
static void
change_node_port(struct stale *st, const struct port *port,
                 const struct addrset *ips, bool gone)
{
    struct addrset addrs = ADDRSET_INIT;

    for (size_t i = 0; i < port->addrs.n; i++) {
        const struct addr *addr = &port->addrs.a[i];

        for (size_t j = 0; ip_is_none(&addr->ip) && j < ips->n; j++) {
            if (ip_family(&ips->a[j].ip) == port->family) {
                addrset_push(&addrs, &ips->a[j].ip, addr->port);
            }
        }
    }
    addrset_sort(&addrs);
    if (gone) {
        note_stale(st, port, &addrs, &port->used);
    } else {
        note_fresh(st, port, &addrs);
    }
    addrset_clear(&addrs);
}

void
stale_change_node_ips(struct stale *st, const struct addrset *ips, bool gone)
{
    const struct port *port;

    if (ips->n) {
        HMAP_FOR_EACH (port, node, &st->ports) {
            change_node_port(st, port, ips, gone);
        }
    }
}

void
stale_set_node_ips(struct stale *st, const struct ip *ips, size_t n)
{
    struct addrset now = ADDRSET_INIT, gone = ADDRSET_INIT;
    struct addrset added = ADDRSET_INIT;

    for (size_t i = 0; i < n; i++) {
        addrset_push(&now, &ips[i], 0);
    }
    for (int f = 0; f < N_IP_FAMILIES; f++) {
        struct ip ip = pipe_node_port_ip(f);

        addrset_push(&now, &ip, 0);
    }
    addrset_sort(&now);

    addrset_subtract(&st->node_ips, &now, &gone);
    addrset_subtract(&now, &st->node_ips, &added);
    addrset_move(&st->node_ips, &now);
    stale_change_node_ips(st, &gone, true);
    if (st->adopted) {
        stale_change_node_ips(st, &added, false);
    }
    addrset_clear(&gone);
    addrset_clear(&added);
}

/* Between clusters. */

/* Of what depends on the node's role; NULL if too many wait. */
static struct job *
get_role_job(struct stale *st, const struct ip *ip)
{
    const struct port like = {
        .owner = cookie_make(COOKIE_PIPELINE, 0),
        .family = ip_family(ip),
        .proto = PROTO_UDP,
    };

    return stale_get_job(st, &like);
}

static void
add_ip(struct addrset *set, const struct ip *ip)
{
    if (set->n < MAX_ADDRS) {
        addrset_push(set, ip, 0);
        addrset_sort(set);
    }
}

void
stale_note_source(struct stale *st, const struct ip *source)
{
    struct job *job = get_role_job(st, source);

    if (job) {
        add_ip(&job->sources, source);
    }
}

void
stale_note_peer(struct stale *st, const struct ip *peer)
{
    struct job *job = get_role_job(st, peer);

    if (job) {
        add_ip(&job->peers, peer);
    }
}

bool
stale_has_taken_over(struct stale *st)
{
    bool took_over = st->took_over;

    st->took_over = false;
    return took_over;
}

bool
stale_read_source(const struct stale *st, const struct fitem *have,
                  struct ip *source)
{
    return fitem_kind(have) == FITEM_FLOW
           && cookie_category(fitem_cookie(have)) == COOKIE_MULTICLUSTER
           && pipe_flow_source(have, source)
           && !ip_equals(source, &st->source);
}

void
stale_set_source(struct stale *st, const struct ip *source)
{
    struct ip old = st->source;

    st->source = *source;
    if (!st->adopted || ip_equals(&old, source)) {
        return;
    }
    st->took_over |= ip_is_none(&old);
    if (!ip_is_none(&old)) {
        stale_note_source(st, &old);
    }
}

/* The end. */

void
stale_destroy(struct stale *st)
{
    struct port *port;
    struct job *job;

    if (!st) {
        return;
    }
    HMAP_FOR_EACH_SAFE (port, node, &st->ports) {
        port_destroy(st, port);
    }
    HMAP_FOR_EACH_SAFE (job, node, &st->waiting) {
        hmap_remove(&st->waiting, &job->node);
        stale_job_destroy(job);
    }
    LIST_FOR_EACH_SAFE (job, list, &st->active) {
        stale_job_destroy(job);
    }
    hmap_destroy(&st->ports);
    hmap_destroy(&st->claims);
    hmap_destroy(&st->waiting);
    addrset_clear(&st->node_ips);
    free(st->path);
    free(st);
}

void
stale_get_stats(const struct stale *st, struct stale_stats *ret)
{
    ret->n_waiting = hmap_count(&st->waiting);
    ret->n_active = st->n_active;
    ret->n_requests = st->n_requests;
}
