/* SPDX-License-Identifier: Apache-2.0 */

/* Keeps, for every Service that the model knows, the units that it should
 * have, each rendered into the flow table. */

#include "services.h"

#include <hash.h>
#include <util.h>

#include "ofproxyd/base/idpool.h"
#include "services-private.h"

/* Keeps a change for the host, which makes pipe_node_port_ip() by itself of
 * the addresses that it stands for.  Endpoints may lead to one that nests, or
 * no longer. */
static void
add_addr_change(const struct addr *addr, bool gone, void *s_)
{
    struct services *s = s_;
    struct ip made = pipe_node_port_ip(addr->owner->family);

    s->nesting_changed |=
        CONTAINER_OF(addr->owner, struct unit, claims)->nests;
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
    ovs_list_init(&s->paused);
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

void
services_destroy(struct services *s)
{
    struct shash_node *node;

    if (!s) {
        return;
    }
    SHASH_FOR_EACH_SAFE (node, &s->entries) {
        struct entry *e = node->data;
        struct unit *u;

        ovs_list_push_back_all(&e->units, &e->leaving);
        LIST_FOR_EACH_SAFE (u, list_node, &e->units) {
            unit_destroy(s, u);
        }
        entry_destroy(s, e);
    }
    shash_destroy(&s->entries);
    addrs_destroy(s->addrs);
    clusterips_destroy(s->cluster_ips);
    hmap_destroy(&s->units);
    idpool_destroy(s->ids);
    free(s->changes);
    free(s->node_ips);
    free(s->nesting);
    free(s);
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

void
services_set_nesting(struct services *s, const struct cidr *cidrs, size_t n)
{
    if (!cidrs_equal(cidrs, n, s->nesting, s->n_nesting)) {
        free(s->nesting);
        s->nesting = n ? xmemdup(cidrs, n * sizeof *cidrs) : NULL;
        s->n_nesting = n;
        model_mark_all_dirty(s->model);
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
        LIST_FOR_EACH (u, list_node, &e->leaving) {
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
