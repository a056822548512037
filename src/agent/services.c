/* SPDX-License-Identifier: Apache-2.0 */

/* Keeps, for every Service that the model knows, the units that it should
 * have, each rendered into the flow table. */

#include "services.h"

#include <openvswitch/shash.h>
#include <openvswitch/vlog.h>

#include <hash.h>
#include <timeval.h>
#include <util.h>

#include "ofproxyd/base/hash.h"
#include "ofproxyd/base/idpool.h"

VLOG_DEFINE_THIS_MODULE(services);

/* Each is about 5 us and 1 kB; the deadline is looked at in between. */
#define DEADLINE_EVERY 16

/* How far an id is from the one that its unit prefers, at most: with 100 000
 * units, one in 10^10 is further. */
#define MAX_ID_DISTANCE 8

struct services {
    struct model *model;
    struct flowtab *flowtab;
    const struct cfg *cfg;
    struct idpool *ids;
    struct shash entries; /* "ns/name" to struct entry. */
    struct hmap units;    /* By object id. */
    uint64_t n_changes;

    /* What services_take_addr_changes() hands out. */
    struct addr_change *changes;
    size_t n_addr_changes, allocated_changes;

    struct ip *node_ips;
    size_t n_node_ips;
};

/* A Service that has units. */
struct entry {
    char *ns, *name;
    const char *full_name; /* "ns/name", the key in 'entries'. */
    struct ovs_list units;
};

struct services *
services_create(struct model *model, struct flowtab *flowtab,
                const struct cfg *cfg)
{
    struct services *s = xzalloc(sizeof *s);

    s->model = model;
    s->flowtab = flowtab;
    s->cfg = cfg;
    s->ids = idpool_create(0, OBJECT_ID_MAX);
    shash_init(&s->entries);
    hmap_init(&s->units);
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

/* Two units may claim one address. */

static void
log_conflict(const struct unit *u, const struct unit *other)
{
    static struct vlog_rate_limit rl = VLOG_RATE_LIMIT_INIT(10, 20);
    struct ds ds = DS_EMPTY_INITIALIZER;

    unit_format(u, &ds);
    ds_put_cstr(&ds, ": an address of it belongs to ");
    if (other) {
        unit_format(other, &ds);
        ds_put_cstr(&ds, ", which comes first");
    } else {
        ds_put_cstr(&ds, "something else");
    }
    VLOG_WARN_RL(&rl, "Service %s", ds_cstr(&ds));
    ds_destroy(&ds);
}

static struct unit *
find_by_owner(const struct services *s, uint64_t owner)
{
    return CONST_CAST(struct unit *, services_find_owner(s, owner));
}

static void
update_conflict(struct services *s, struct unit *u)
{
    uint64_t other = u ? flowtab_conflict(s->flowtab, unit_owner(u)) : 0;

    if (other && !u->conflict) {
        log_conflict(u, find_by_owner(s, other));
    }
    if (u) {
        u->conflict = other != 0;
    }
}

/* Makes 'items' what 'u' wants.  Who had to wait for an address of it may have
 * got that, and another one may have lost one. */
static void
unit_want(struct services *s, struct unit *u, int64_t rank, struct fout *items)
{
    struct flowtab_owner owner = {
        .id = unit_owner(u),
        .rank = rank,
        .name = u->full_name,
    };
    struct unit *before =
        find_by_owner(s, flowtab_successor(s->flowtab, owner.id));

    if (flowtab_want(s->flowtab, &owner, items)) {
        s->n_changes++;
    }
    update_conflict(s, u);
    update_conflict(s, before);
    update_conflict(s,
                    find_by_owner(s, flowtab_successor(s->flowtab, owner.id)));
}

/* Units. */

static void
add_addr_change(struct services *s, const struct unit *u, const struct ip *ip,
                bool gone)
{
    if (ip_is_none(ip) || !s->cfg->antrea_proxy_proxy_all) {
        return;
    }
    if (s->n_addr_changes >= s->allocated_changes) {
        s->changes =
            x2nrealloc(s->changes, &s->allocated_changes, sizeof *s->changes);
    }
    s->changes[s->n_addr_changes++] = (struct addr_change){
        .kind = PIPE_CLUSTER_IP,
        .family = u->family,
        .ip = *ip,
        .proto = u->proto,
        .port = u->port,
        .gone = gone,
    };
}

/* Gives the unit another cluster IP, or takes it away. */
static void
unit_set_ip(struct services *s, struct unit *u, const struct ip *ip)
{
    if (!ip_equals(&u->ip, ip)) {
        add_addr_change(s, u, ip, false);
        add_addr_change(s, u, &u->ip, true);
        u->ip = *ip;
    }
}

static void
unit_destroy(struct services *s, struct unit *u)
{
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
    struct ip no_ip = { 0 };

    unit_want(s, u, 0, &none);
    unit_set_ip(s, u, &no_ip);
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

/* The id that a unit prefers: the same on every node and after every
 * restart. */
static uint32_t
unit_hash(const struct unit *u)
{
    uint8_t tail[2] = { (uint8_t) u->proto, (uint8_t) u->family };
    uint32_t hash = stable_hash(u->ns, strlen(u->ns) + 1, 0);

    hash = stable_hash(u->name, strlen(u->name) + 1, hash);
    hash = stable_hash(u->port_name, strlen(u->port_name) + 1, hash);
    return stable_hash(tail, sizeof tail, hash);
}

/* Returns the object id in the cookie of the flow that the switch has at the
 * address of 'u', or UINT32_MAX. */
static uint32_t
find_installed_id(const struct services *s, const struct unit *u)
{
    struct pipe_frontend frontend = { .ip = u->ip, .port = u->port };
    struct pipe_service svc = {
        .family = u->family,
        .proto = u->proto,
        .frontends = &frontend,
        .n_frontends = 1,
        .targets = { { .verdict = PIPE_DROP } },
    };
    const struct fitem *have;
    struct fout out = FOUT_INIT;
    uint32_t id = UINT32_MAX;

    if (!pipe_render_service(&svc, &out, NULL)) {
        have = flowtab_find_have(s->flowtab, out.items[0]);
        if (have && cookie_is_ours(fitem_cookie(have))
            && cookie_category(fitem_cookie(have)) == COOKIE_SERVICE) {
            id = cookie_object_id(fitem_cookie(have));
        }
    }
    fout_clear(&out);
    free(out.items);
    return id;
}

/* Where two hashes collided, who came first had the id that both prefer.  So
 * that a restart finds things as they were, a unit takes the id that the
 * switch has in the cookie of the unit's flow, if that is one that it can have
 * got: the address may have been another Service's, whose id must not stick
 * to it. */
static bool
take_installed_id(struct services *s, const struct unit *u, uint32_t *ret_id)
{
    uint32_t id = find_installed_id(s, u);

    if (((id - unit_hash(u)) & OBJECT_ID_MAX) >= MAX_ID_DISTANCE
        || !idpool_take(s->ids, id)) {
        return false;
    }
    *ret_id = id;
    return true;
}

static struct unit *
unit_create(struct services *s, struct entry *e, const struct svc *svc,
            const struct svc_port *port, enum ip_family family)
{
    struct unit *u = xzalloc(sizeof *u);

    u->ns = e->ns;
    u->name = e->name;
    u->full_name = e->full_name;
    u->port_name = intern_ref(model_pool(s->model), port->name);
    u->proto = port->proto;
    u->family = family;
    u->port = port->port;
    u->ip = svc->cluster_ips[family];
    if (!take_installed_id(s, u, &u->object_id)
        && !idpool_alloc(s->ids, unit_hash(u), &u->object_id)) {
        static struct vlog_rate_limit rl = VLOG_RATE_LIMIT_INIT(1, 5);

        VLOG_ERR_RL(&rl,
                    "Service %s/%s: port \"%s\" is left out: there are "
                    "more than %u Service ports",
                    e->ns, e->name, port->name, OBJECT_ID_MAX);
        intern_unref(model_pool(s->model), u->port_name);
        free(u);
        return NULL;
    }
    ovs_list_push_back(&e->units, &u->list_node);
    hmap_insert(&s->units, &u->id_node, hash_int(u->object_id, 0));
    add_addr_change(s, u, &u->ip, false);
    return u;
}

/* Rendering. */

static struct pipe_target
make_target(const struct eps_list *list, const struct eps_choice *choice)
{
    struct pipe_target target = { .eps = list->eps, .n_eps = list->n };

    target.verdict = list->n           ? PIPE_SELECT
                     : choice->has_any ? PIPE_DROP
                                       : PIPE_REJECT;
    return target;
}

static bool
is_only_udp_port(const struct svc *svc, const struct svc_port *port)
{
    size_t n = 0;

    for (size_t i = 0; i < svc->n_ports; i++) {
        n += svc->ports[i].proto == PROTO_UDP;
    }
    return port->proto == PROTO_UDP && n == 1;
}

static void
unit_render(struct services *s, const struct model_service *ms,
            const struct svc_port *port, struct unit *u)
{
    struct eps_place here = eps_own_place(s->model);
    struct eps_choice choice;
    struct pipe_frontend frontend = {
        .ip = ms->svc->cluster_ips[u->family],
        .port = port->port,
        .scope = ms->svc->internal_policy == SVC_POLICY_LOCAL
                     ? PIPE_SCOPE_LOCAL
                     : PIPE_SCOPE_CLUSTER,
    };
    struct pipe_service svc = {
        .object_id = u->object_id,
        .family = u->family,
        .proto = u->proto,
        .frontends = &frontend,
        .n_frontends = 1,
        .takes_fragments = is_only_udp_port(ms->svc, port),
    };
    struct fout out = FOUT_INIT;
    struct err err;

    eps_choose(ms, port, u->family, &here, &choice);
    svc.targets[PIPE_SCOPE_CLUSTER] = make_target(&choice.cluster, &choice);
    svc.targets[PIPE_SCOPE_LOCAL] = make_target(&choice.local, &choice);
    if (pipe_render_service(&svc, &out, &err)) {
        static struct vlog_rate_limit rl = VLOG_RATE_LIMIT_INIT(1, 5);

        VLOG_WARN_RL(&rl, "Service %s/%s: port \"%s\": %s", u->ns, u->name,
                     u->port_name, err.msg);
    }
    unit_set_ip(s, u, &frontend.ip);
    u->port = port->port;
    u->verdict = svc.targets[frontend.scope].verdict;
    u->n_cluster = choice.cluster.n;
    u->n_local = choice.local.n;
    eps_choice_uninit(&choice);

    unit_want(s, u, ms->svc->meta.created_s, &out);
    free(out.items);
}

/* Services. */

/* A Service is skipped by its name or by any of its cluster IPs. */
static bool
is_served(const struct services *s, const struct svc *svc)
{
    if (!svc || !svc_is_served(svc) || !s->cfg->antrea_proxy_enable) {
        return false;
    }
    for (int f = 0; f < N_IP_FAMILIES; f++) {
        if (cfg_skips_service(s->cfg, svc->meta.ns, svc->meta.name,
                              &svc->cluster_ips[f])) {
            return false;
        }
    }
    return true;
}

/* The units are kept in the order of the ports: with thousands of ports, the
 * next one that is looked for is nearly always the first.  Those without a
 * port go before others come, which may want the same address. */
static void
entry_render(struct services *s, struct entry *e,
             const struct model_service *ms)
{
    const struct svc *svc = ms->svc;
    size_t n = svc->n_ports * N_IP_FAMILIES;
    struct unit **units = xcalloc(MAX(n, 1), sizeof *units);
    struct ovs_list old;
    struct unit *u;

    ovs_list_move(&old, &e->units);
    ovs_list_init(&e->units);
    for (size_t i = 0; i < n; i++) {
        const struct svc_port *port = &svc->ports[i / N_IP_FAMILIES];
        enum ip_family f = i % N_IP_FAMILIES;

        if (!ip_is_none(&svc->cluster_ips[f])) {
            units[i] = unit_take(&old, port, f);
        }
        if (units[i]) {
            ovs_list_push_back(&e->units, &units[i]->list_node);
        }
    }
    LIST_FOR_EACH_SAFE (u, list_node, &old) {
        unit_withdraw(s, u);
    }
    for (size_t i = 0; i < n; i++) {
        const struct svc_port *port = &svc->ports[i / N_IP_FAMILIES];
        enum ip_family f = i % N_IP_FAMILIES;

        if (ip_is_none(&svc->cluster_ips[f])) {
            continue;
        }
        u = units[i] ? units[i] : unit_create(s, e, svc, port, f);
        if (u) {
            unit_render(s, ms, port, u);
        }
    }
    free(units);
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

    if (!is_served(s, ms->svc)) {
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
    hmap_destroy(&s->units);
    idpool_destroy(s->ids);
    free(s->changes);
    free(s->node_ips);
    free(s);
}

bool
services_run(struct services *s, long long int deadline_ms)
{
    const struct model_service *ms;
    unsigned int n = 0;

    while ((ms = model_pop_dirty(s->model))) {
        services_render(s, ms);
        if (!(++n % DEADLINE_EVERY)) {
            if (time_msec() >= deadline_ms) {
                break;
            }
        }
    }
    return !model_has_dirty(s->model);
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

void
services_set_node_ips(struct services *s, const struct ip *ips, size_t n)
{
    free(s->node_ips);
    s->node_ips = xmemdup(ips, n * sizeof *ips);
    s->n_node_ips = n;
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
