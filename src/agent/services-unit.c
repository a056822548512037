/* SPDX-License-Identifier: Apache-2.0 */

/* One Service port in one family: its id, the addresses that it claims, and
 * what it wants of the bridge. */

#include <openvswitch/vlog.h>

#include <hash.h>
#include <util.h>

#include "notice.h"
#include "ofproxyd/base/idpool.h"
#include "portsvc.h"
#include "services-private.h"
#include "stale.h"
#include "unitid.h"

VLOG_DEFINE_THIS_MODULE(services_unit);

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

void
units_tell_conflicts(struct services *s)
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

void
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

void
unit_withdraw(struct services *s, struct unit *u)
{
    struct fout none = FOUT_INIT;

    if (s->stale) {
        stale_remove(s->stale, unit_owner(u));
    }
    unit_want(s, u, 0, &none);
    unit_destroy(s, u);
}

struct unit *
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

void
unit_render(struct services *s, const struct model_service *ms,
            const struct svc_port *port, const struct frontends *frontends,
            struct unit *u)
{
    struct pipe_frontend *own = NULL;
    struct eps_place here = services_place(s);
    struct portsvc p;

    portsvc_make(ms, port, frontends, &here, &p);
    p.svc.nestable = s->n_nesting > 0;
    u->verdict = p.svc.targets[frontends->frontends[0].scope].verdict;
    u->n_cluster = p.choice.cluster.n;
    u->n_local = p.choice.local.n;

    addr_owner_seen(&u->claims);
    update_conflict(s, u);
    unit_check_nesting(s, u,
                       frontends->frontends[0].scope == PIPE_SCOPE_LOCAL
                           ? &p.choice.local
                           : &p.choice.cluster);
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
