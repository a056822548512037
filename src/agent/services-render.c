/* SPDX-License-Identifier: Apache-2.0 */

/* Renders Services, each by steps of one unit.
 *
 * Most are done at once.  One with very many ports is paused when the time is
 * over, and goes on in the next turn, while others are rendered in between.
 * Nothing is remembered of it but the step and the number of the unit, so that
 * it may change meanwhile, or go: then it goes on as it is by now, and from
 * the start again when it has come to its end.  (To start again at once would
 * leave the last ports of one that changes all the time as they were.) */

#include <limits.h>

#include <openvswitch/vlog.h>

#include <hash.h>
#include <timeval.h>
#include <util.h>

#include "notice.h"
#include "portsvc.h"
#include "served.h"
#include "services-private.h"

VLOG_DEFINE_THIS_MODULE(services);

/* So many steps of a Service, and so many Services, each of about 5 us and 1
 * kB, are done between two looks at the clock. */
#define DEADLINE_EVERY 16

/* So many Services that got or lost an address because of another one are
 * rendered with that one.  It bounds the time; in a round of its own, the
 * address might be nobody's for a moment. */
#define MAX_WITH_ONE 16

static bool
is_served(const struct services *s, const struct svc *svc)
{
    return svc && !served_why_not(s->cfg, svc);
}

/* What is done of one Service at a time. */
struct rendering {
    struct services *s;
    struct entry *e;
    const struct model_service *ms; /* NULL if it isn't served any more. */
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

/* Finding the units of ports. */

struct old_unit {
    struct hmap_node node;
    struct unit *unit;
};

struct old_units {
    struct ovs_list list;
    struct old_unit *index; /* NULL until it is needed. */
    struct hmap by_port;
};

static uint32_t
hash_port(const char *name, enum proto proto, enum ip_family family)
{
    return hash_pointer(name, proto * N_IP_FAMILIES + family);
}

static void
index_units(struct old_units *old)
{
    struct old_unit *o;
    struct unit *u;

    o = old->index = xcalloc(ovs_list_size(&old->list), sizeof *o);
    LIST_FOR_EACH (u, list_node, &old->list) {
        o->unit = u;
        hmap_insert(&old->by_port, &o++->node,
                    hash_port(u->port_name, u->proto, u->family));
    }
}

static bool
is_unit_of(const struct unit *u, const struct svc_port *port,
           enum ip_family family)
{
    return u->port_name == port->name && u->proto == port->proto
           && u->family == family;
}

/* Takes the unit of 'port' and 'family' out of 'old', or returns NULL.  In the
 * order of the ports, in which they are kept, it is nearly always the
 * first. */
static struct unit *
take_unit(struct old_units *old, const struct svc_port *port,
          enum ip_family family)
{
    struct old_unit *o;
    struct unit *u;

    if (ovs_list_is_empty(&old->list)) {
        return NULL;
    }
    u = CONTAINER_OF(ovs_list_front(&old->list), struct unit, list_node);
    if (is_unit_of(u, port, family)) {
        ovs_list_remove(&u->list_node);
        return u;
    } else if (!old->index) {
        index_units(old);
    }
    HMAP_FOR_EACH_WITH_HASH (o, node,
                             hash_port(port->name, port->proto, family),
                             &old->by_port) {
        if (is_unit_of(o->unit, port, family)) {
            ovs_list_remove(&o->unit->list_node);
            return o->unit;
        }
    }
    return NULL;
}

/* Those without a port lose what they claim to whoever claims it, but keep
 * their flows until the others have theirs. */
static void
match_units(struct rendering *r)
{
    struct old_units old = { .by_port = HMAP_INITIALIZER(&old.by_port) };
    struct entry *e = r->e;
    struct unit *u;

    ovs_list_move(&old.list, &e->units);
    ovs_list_push_back_all(&old.list, &e->leaving);
    ovs_list_init(&e->units);
    for (size_t i = 0; i < r->n; i++) {
        if (nth_frontends(r, i)) {
            r->units[i] = take_unit(&old, nth_port(r, i), i % N_IP_FAMILIES);
        }
        if (r->units[i]) {
            ovs_list_push_back(&e->units, &r->units[i]->list_node);
        }
    }
    LIST_FOR_EACH (u, list_node, &old.list) {
        u->claims.rank = INT64_MAX;
    }
    ovs_list_push_back_all(&e->leaving, &old.list);
    hmap_destroy(&old.by_port);
    free(old.index);
}

/* Steps. */

/* Returns the frontends of the i-th unit if it exists, with its claims. */
static const struct frontends *
prepare_unit(struct rendering *r, size_t i)
{
    const struct frontends *frontends = nth_frontends(r, i);
    const struct svc *svc = r->ms->svc;

    if (frontends && !r->units[i]) {
        const struct pipe_service like =
            portsvc_frame(svc, nth_port(r, i), frontends);

        r->units[i] = unit_create(r->s, r->e, nth_port(r, i), &like);
    }
    if (!r->units[i]) {
        return NULL;
    }
    addrs_set(r->s->addrs, &r->units[i]->claims, svc->meta.created_s,
              frontends->frontends, frontends->n);
    r->units[i]->ip = frontends->frontends[0].ip;
    r->units[i]->port = nth_port(r, i)->port;
    return frontends;
}

static void
render_unit(struct rendering *r, size_t i)
{
    /* What it claims may have changed since the step before. */
    const struct frontends *frontends = prepare_unit(r, i);

    if (frontends) {
        unit_render(r->s, r->ms, nth_port(r, i), frontends, r->units[i]);
    }
}

/* After the ports, whose flows are above it. */
static void
set_cluster_ips(const struct rendering *r)
{
    const struct svc *svc = r->ms ? r->ms->svc : NULL;

    for (int f = 0; f < N_IP_FAMILIES; f++) {
        bool served = r->frontends[f].frontends != NULL;

        r->s->n_changes +=
            clusterip_set(r->s->cluster_ips, &r->e->cluster_ips[f],
                          r->e->full_name, svc ? svc->meta.created_s : 0,
                          served ? &svc->cluster_ips[f] : NULL);
    }
}

static void
withdraw_next(struct rendering *r)
{
    struct ovs_list *leaving = &r->e->leaving;

    if (ovs_list_is_empty(leaving)) {
        r->e->step = STEP_DONE;
    } else {
        unit_withdraw(r->s, CONTAINER_OF(ovs_list_front(leaving), struct unit,
                                         list_node));
    }
}

static void
do_step(struct rendering *r)
{
    struct entry *e = r->e;

    switch (e->step) {
    case STEP_CLAIM:
        if (e->next < r->n) {
            prepare_unit(r, e->next++);
        } else {
            e->step = STEP_RENDER;
            e->next = 0;
        }
        break;
    case STEP_RENDER:
        if (e->next < r->n) {
            render_unit(r, e->next++);
        } else {
            set_cluster_ips(r);
            e->step = STEP_WITHDRAW;
        }
        break;
    case STEP_WITHDRAW: withdraw_next(r); break;
    case STEP_DONE: OVS_NOT_REACHED();
    }
}

/* Services. */

static void
do_steps(struct rendering *r, long long int deadline_ms)
{
    for (unsigned int n = 1; r->e->step != STEP_DONE; n++) {
        do_step(r);
        if (n >= DEADLINE_EVERY && time_msec() >= deadline_ms) {
            return;
        }
    }
}

/* Does more steps of 'e', which is served if 'ms' isn't NULL.  Returns true if
 * none is left. */
static bool
entry_continue(struct services *s, struct entry *e,
               const struct model_service *ms, long long int deadline_ms)
{
    struct rendering r = { .s = s, .e = e, .ms = ms };
    long long int start_ms = e->paused ? time_msec() : 0;

    if (ms) {
        r.n = ms->svc->n_ports * N_IP_FAMILIES;
        choose_frontends(&r);
    }
    r.units = xcalloc(MAX(r.n, 1), sizeof(struct unit *));
    match_units(&r);
    if (e->paused && deadline_ms < LLONG_MAX) {
        /* There has to be time for steps, too. */
        deadline_ms += time_msec() - start_ms;
    }
    do_steps(&r, deadline_ms);
    for (int f = 0; f < N_IP_FAMILIES; f++) {
        frontends_uninit(&r.frontends[f]);
    }
    free(r.units);
    return e->step == STEP_DONE;
}

static struct entry *
entry_create(struct services *s, const char *ns, const char *name,
             const char *full_name)
{
    struct entry *e = xzalloc(sizeof *e);

    e->ns = xstrdup(ns);
    e->name = xstrdup(name);
    ovs_list_init(&e->units);
    ovs_list_init(&e->leaving);
    e->full_name = shash_add(&s->entries, full_name, e)->name;
    return e;
}

void
entry_destroy(struct services *s, struct entry *e)
{
    for (int f = 0; f < N_IP_FAMILIES; f++) {
        clusterip_forget(s->cluster_ips, &e->cluster_ips[f]);
    }
    shash_find_and_delete_assert(&s->entries, e->full_name);
    free(e->ns);
    free(e->name);
    free(e);
}

/* Begins or continues with 'e'.  Returns true when it is done; it may be
 * freed then. */
static bool
entry_run(struct services *s, struct entry *e, long long int deadline_ms)
{
    const struct model_service *ms =
        model_find_service(s->model, e->ns, e->name);
    bool served = ms && is_served(s, ms->svc);

    if (!entry_continue(s, e, served ? ms : NULL, deadline_ms)) {
        e->paused = true;
        ovs_list_push_back(&s->paused, &e->paused_node);
        return false;
    }
    e->paused = false;
    if (e->again) {
        model_mark_dirty(s->model, e->ns, e->name);
    } else if (!served) {
        entry_destroy(s, e);
    }
    return true;
}

/* Returns true if the Service is done. */
static bool
services_render(struct services *s, const struct model_service *ms,
                long long int deadline_ms)
{
    char *key = xasprintf("%s/%s", ms->ns, ms->name);
    struct entry *e = shash_find_data(&s->entries, key);
    bool served = is_served(s, ms->svc), done = true;

    if (s->observer) {
        s->observer(ms, served, s->observer_aux);
    }
    if (!e && served) {
        e = entry_create(s, ms->ns, ms->name, key);
    }
    if (e && e->paused) {
        e->again = true;
    } else if (e) {
        e->step = STEP_CLAIM;
        e->next = 0;
        e->again = false;
        done = entry_run(s, e, deadline_ms);
    }
    free(key);
    return done;
}

/* Renders the Services that got or lost an address because of the one that
 * was rendered.  Not while one is paused: its units have claimed what they
 * have no flows for yet. */
static void
render_changed(struct services *s, long long int deadline_ms)
{
    const struct addr_owner *owner;

    for (size_t n = 0; ovs_list_is_empty(&s->paused)
                       && (owner = addrs_pop_changed(s->addrs));
         n++) {
        const struct unit *u = CONTAINER_OF(owner, struct unit, claims);
        const struct model_service *ms =
            model_find_service(s->model, u->ns, u->name);

        if (n < MAX_WITH_ONE && ms) {
            services_render(s, ms, deadline_ms);
        } else {
            model_mark_dirty(s->model, u->ns, u->name);
        }
    }
}

static void
run_dirty(struct services *s, long long int deadline_ms)
{
    const struct model_service *ms;
    unsigned int n = 0;

    while ((ms = model_pop_dirty(s->model))) {
        bool done = services_render(s, ms, deadline_ms);

        render_changed(s, deadline_ms);
        if ((!done || !(++n % DEADLINE_EVERY)) && time_msec() >= deadline_ms) {
            break;
        }
    }
}

static void
run_paused(struct services *s, long long int deadline_ms)
{
    while (!ovs_list_is_empty(&s->paused)) {
        struct entry *e = CONTAINER_OF(ovs_list_pop_front(&s->paused),
                                       struct entry, paused_node);

        if (!entry_run(s, e, deadline_ms)) {
            break;
        }
        render_changed(s, deadline_ms);
    }
}

bool
services_run(struct services *s, long long int deadline_ms)
{
    long long int now_ms = time_msec();
    bool shared = !ovs_list_is_empty(&s->paused);

    /* Half of the time each. */
    run_dirty(s, shared && deadline_ms > now_ms
                     ? now_ms + (deadline_ms - now_ms) / 2
                     : deadline_ms);
    if (shared) {
        run_paused(s, deadline_ms);
    }
    if (services_has_work(s)) {
        return false;
    }
    if (s->has_untold) {
        units_tell_conflicts(s);
    }
    units_check_nesting(s);
    return true;
}

bool
services_has_work(const struct services *s)
{
    return model_has_dirty(s->model) || !ovs_list_is_empty(&s->paused);
}
