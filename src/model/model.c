/* SPDX-License-Identifier: Apache-2.0 */
/* The store of objects and its queue of changed Services.
 *
 * A struct model_service exists as long as there is anything under its name or
 * the name stands in the queue; the queue is what tells the agent of the end
 * of a Service, so model_pop_dirty() is where an empty one is taken out. */

#include "ofproxyd/model/model.h"

#include <string.h>

#include <hash.h>
#include <openvswitch/shash.h>
#include <util.h>

#include "ofproxyd/base/map.h"
#include "plain.h"

struct listing {
    /* Every object put gets the present generation.  A list starts the next
     * one; at its end, what is left of older ones was not in it. */
    uint64_t generation;
    bool active; /* Between begin and end. */
    bool synced, given_up, absent;
};

/* A Node in the queue, which may have gone. */
struct dirty_name {
    struct ovs_list list_node;
    struct shash_node *shash_node;
};

struct model {
    char *node_name;
    struct intern_pool *pool;
    struct hmap services;  /* Of struct model_service. */
    struct hmap slices;    /* Of struct model_slice. */
    struct hmap nodes;     /* Of struct model_node. */
    struct ovs_list dirty; /* Of struct model_service, by 'dirty_node', which
                            * points to itself when it is not in here. */
    struct model_service *popped_last; /* Out of 'services' already. */
    struct shash dirty_nodes;    /* Names of Nodes to struct dirty_name... */
    struct ovs_list dirty_names; /* ...in the order of the queue. */
    char *popped_node;           /* What was handed out last. */
    struct listing listings[N_MODEL_KINDS];
    struct plain plain[N_MODEL_KINDS]; /* Of the plain kinds. */
    uint64_t nodes_seqno;
    size_t n_svcs, n_endpoints;

    /* What model_take_triggers() hands out. */
    struct model_trigger *triggers;
    size_t n_triggers, allocated_triggers;
};

const char *
model_kind_name(enum model_kind kind)
{
    switch (kind) {
#define MODEL_KIND(SYM, NAME) \
    case MODEL_##SYM: return NAME;
        MODEL_KINDS
#undef MODEL_KIND
    }
    OVS_NOT_REACHED();
}

bool
model_kind_is_optional(enum model_kind kind)
{
    return kind >= MODEL_SERVICE_CIDRS;
}

struct model *
model_create(const char *node_name)
{
    struct model *m = xzalloc(sizeof *m);

    m->node_name = xstrdup(node_name);
    m->pool = intern_pool_create();
    hmap_init(&m->services);
    hmap_init(&m->slices);
    hmap_init(&m->nodes);
    for (size_t i = 0; i < N_MODEL_KINDS; i++) {
        plain_init(&m->plain[i], i, m->pool);
    }
    ovs_list_init(&m->dirty);
    shash_init(&m->dirty_nodes);
    ovs_list_init(&m->dirty_names);
    return m;
}

struct intern_pool *
model_pool(struct model *m)
{
    return m->pool;
}

const char *
model_node_name(const struct model *m)
{
    return m->node_name;
}

/* Services and the queue. */

static uint32_t
hash_name(const char *ns, const char *name)
{
    return hash_string(name, hash_string(ns, 0));
}

static struct model_service *
find_service(const struct model *m, const char *ns, const char *name)
{
    struct model_service *ms;

    HMAP_FOR_EACH_WITH_HASH (ms, hmap_node, hash_name(ns, name),
                             &m->services) {
        if (!strcmp(ms->name, name) && !strcmp(ms->ns, ns)) {
            return ms;
        }
    }
    return NULL;
}

static struct model_service *
get_service(struct model *m, const char *ns, const char *name)
{
    struct model_service *ms = find_service(m, ns, name);

    if (!ms) {
        /* The name stands behind the struct. */
        size_t size = strlen(name) + 1;

        ms = xzalloc(sizeof *ms + size);
        ms->name = memcpy(ms + 1, name, size);
        ms->ns = intern(m->pool, ns, strlen(ns));
        ovs_list_init(&ms->slices);
        ovs_list_init(&ms->dirty_node);
        hmap_insert(&m->services, &ms->hmap_node, hash_name(ns, name));
    }
    return ms;
}

static bool
service_is_empty(const struct model_service *ms)
{
    return !ms->svc && !ms->n_slices;
}

static void
service_free(struct model *m, struct model_service *ms)
{
    if (ms) {
        intern_unref(m->pool, ms->ns);
        free(ms);
    }
}

static void
enqueue(struct model *m, struct model_service *ms)
{
    if (ovs_list_is_empty(&ms->dirty_node)) {
        ovs_list_push_back(&m->dirty, &ms->dirty_node);
    }
}

const struct model_service *
model_pop_dirty(struct model *m)
{
    service_free(m, m->popped_last);
    m->popped_last = NULL;

    if (ovs_list_is_empty(&m->dirty)) {
        return NULL;
    }
    struct model_service *ms = CONTAINER_OF(ovs_list_pop_front(&m->dirty),
                                            struct model_service, dirty_node);
    ovs_list_init(&ms->dirty_node);
    if (service_is_empty(ms)) {
        /* The caller still reads it, but a Service that comes back under the
         * same name is a new one. */
        map_remove(&m->services, &ms->hmap_node);
        m->popped_last = ms;
    }
    return ms;
}

bool
model_has_dirty(const struct model *m)
{
    return !ovs_list_is_empty(&m->dirty);
}

void
model_mark_dirty(struct model *m, const char *ns, const char *name)
{
    enqueue(m, get_service(m, ns, name));
}

void
model_mark_all_dirty(struct model *m)
{
    struct model_service *ms;

    HMAP_FOR_EACH (ms, hmap_node, &m->services) {
        enqueue(m, ms);
    }
}

const struct model_service *
model_find_service(const struct model *m, const char *ns, const char *name)
{
    const struct model_service *ms = find_service(m, ns, name);

    return ms && !service_is_empty(ms) ? ms : NULL;
}

const struct hmap *
model_services(const struct model *m)
{
    return &m->services;
}

/* Service objects. */

static void
set_svc(struct model *m, struct model_service *ms, struct svc *svc)
{
    m->n_svcs += (svc != NULL) - (ms->svc != NULL);
    svc_free(CONST_CAST(struct svc *, ms->svc), m->pool);
    ms->svc = svc;
}

bool
model_put_svc(struct model *m, struct svc *svc)
{
    struct model_service *ms = get_service(m, svc->meta.ns, svc->meta.name);
    bool changed = !ms->svc || !svc_equals(ms->svc, svc);

    set_svc(m, ms, svc);
    ms->generation = m->listings[MODEL_SERVICES].generation;
    if (changed) {
        enqueue(m, ms);
    }
    return changed;
}

static bool
delete_svc(struct model *m, struct model_service *ms)
{
    if (!ms || !ms->svc) {
        return false;
    }
    set_svc(m, ms, NULL);
    enqueue(m, ms);
    return true;
}

/* EndpointSlices. */

static struct model_slice *
find_slice(const struct model *m, const char *ns, const char *name)
{
    struct model_slice *s;

    HMAP_FOR_EACH_WITH_HASH (s, hmap_node, hash_name(ns, name), &m->slices) {
        if (!strcmp(s->slice->meta.name, name)
            && !strcmp(s->slice->meta.ns, ns)) {
            return s;
        }
    }
    return NULL;
}

/* Puts 's' into its place among the slices of its Service.  Lists come in the
 * order of the names, so the search starts at the end. */
static void
slice_attach(struct model *m, struct model_slice *s)
{
    struct model_service *ms =
        get_service(m, s->slice->meta.ns, s->slice->service);
    struct ovs_list *before = &ms->slices;
    struct model_slice *other;

    LIST_FOR_EACH_REVERSE(other, list_node, &ms->slices)
    {
        if (strcmp(other->slice->meta.name, s->slice->meta.name) < 0) {
            break;
        }
        before = &other->list_node;
    }
    ovs_list_insert(before, &s->list_node);
    ms->n_slices++;
    s->service = ms;
    enqueue(m, ms);
}

static void
slice_detach(struct model *m, struct model_slice *s)
{
    ovs_list_remove(&s->list_node);
    s->service->n_slices--;
    enqueue(m, s->service);
}

static void
set_slice(struct model *m, struct model_slice *s, struct slice *slice)
{
    if (s->slice) {
        m->n_endpoints -= s->slice->n_endpoints;
        slice_free(CONST_CAST(struct slice *, s->slice), m->pool);
    }
    if (slice) {
        m->n_endpoints += slice->n_endpoints;
    }
    s->slice = slice;
}

static int
compare_u64(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

/* Would 's' stand differently among the slices of its Service, ordered by
 * version, if it were of 'version'?  Of two slices with the same endpoint the
 * newer one decides. */
static bool
changes_order(const struct model_slice *s, uint64_t version)
{
    uint64_t old = s->slice->meta.version;
    const struct model_slice *other;

    if (old == version) {
        return false;
    }
    LIST_FOR_EACH (other, list_node, &s->service->slices) {
        uint64_t v = other->slice->meta.version;

        if (other != s && other->slice->family == s->slice->family
            && compare_u64(old, v) != compare_u64(version, v)) {
            return true;
        }
    }
    return false;
}

static void
add_trigger(struct model *m, const struct slice *slice)
{
    if (slice->trigger_ns && m->n_triggers < MODEL_TRIGGERS_MAX) {
        if (m->n_triggers == m->allocated_triggers) {
            m->triggers = x2nrealloc(m->triggers, &m->allocated_triggers,
                                     sizeof *m->triggers);
        }
        m->triggers[m->n_triggers++] = (struct model_trigger){
            .family = slice->family,
            .ns = slice->trigger_ns,
        };
    }
}

struct model_trigger *
model_take_triggers(struct model *m, size_t *ret_n)
{
    struct model_trigger *triggers = m->triggers;

    *ret_n = m->n_triggers;
    m->triggers = NULL;
    m->n_triggers = m->allocated_triggers = 0;
    return triggers;
}

bool
model_put_slice(struct model *m, struct slice *slice)
{
    const char *ns = slice->meta.ns, *name = slice->meta.name;
    struct model_slice *s = find_slice(m, ns, name);
    bool changed = true;

    if (!s) {
        s = xzalloc(sizeof *s);
        hmap_insert(&m->slices, &s->hmap_node, hash_name(ns, name));
        set_slice(m, s, slice);
        slice_attach(m, s);
    } else if (strcmp(s->slice->service, slice->service) != 0) {
        slice_detach(m, s);
        set_slice(m, s, slice);
        slice_attach(m, s);
    } else {
        changed = !slice_equals(s->slice, slice)
                  || changes_order(s, slice->meta.version);
        set_slice(m, s, slice);
        if (changed) {
            enqueue(m, s->service);
        }
    }
    s->generation = m->listings[MODEL_SLICES].generation;
    if (changed) {
        add_trigger(m, slice);
    }
    return changed;
}

/* Leaves it to the caller to call map_trim(). */
static bool
delete_slice(struct model *m, struct model_slice *s)
{
    if (!s) {
        return false;
    }
    slice_detach(m, s);
    set_slice(m, s, NULL);
    hmap_remove(&m->slices, &s->hmap_node);
    free(s);
    return true;
}

/* Nodes. */

static struct model_node *
find_node(const struct model *m, const char *name)
{
    struct model_node *n;

    HMAP_FOR_EACH_WITH_HASH (n, hmap_node, hash_string(name, 0), &m->nodes) {
        if (!strcmp(n->node->meta.name, name)) {
            return n;
        }
    }
    return NULL;
}

const struct node *
model_find_node(const struct model *m, const char *name)
{
    const struct model_node *n = find_node(m, name);

    return n ? n->node : NULL;
}

const struct node *
model_own_node(const struct model *m)
{
    return model_find_node(m, m->node_name);
}

const struct hmap *
model_nodes(const struct model *m)
{
    return &m->nodes;
}

uint64_t
model_nodes_seqno(const struct model *m)
{
    return m->nodes_seqno;
}

static void
enqueue_node(struct model *m, const char *name)
{
    if (!shash_find(&m->dirty_nodes, name)) {
        struct dirty_name *dirty = xmalloc(sizeof *dirty);

        dirty->shash_node = shash_add(&m->dirty_nodes, name, dirty);
        ovs_list_push_back(&m->dirty_names, &dirty->list_node);
    }
}

const char *
model_pop_dirty_node(struct model *m)
{
    struct dirty_name *dirty;

    free(m->popped_node);
    m->popped_node = NULL;
    if (!ovs_list_is_empty(&m->dirty_names)) {
        dirty = CONTAINER_OF(ovs_list_pop_front(&m->dirty_names),
                             struct dirty_name, list_node);
        m->popped_node = shash_steal(&m->dirty_nodes, dirty->shash_node);
        map_trim(&m->dirty_nodes.map);
        free(dirty);
    }
    return m->popped_node;
}

bool
model_has_dirty_node(const struct model *m)
{
    return !ovs_list_is_empty(&m->dirty_names);
}

/* Counts a change of the Node 'name' whose zone was 'old' and is 'new'. */
static void
node_changed(struct model *m, const char *name, const char *old,
             const char *new)
{
    m->nodes_seqno++;
    enqueue_node(m, name);
    if (!strcmp(name, m->node_name) && strcmp(old, new) != 0) {
        model_mark_all_dirty(m);
    }
}

static void
set_node(struct model *m, struct model_node *n, struct node *node)
{
    node_free(CONST_CAST(struct node *, n->node), m->pool);
    n->node = node;
}

bool
model_put_node(struct model *m, struct node *node)
{
    const char *name = node->meta.name;
    struct model_node *n = find_node(m, name);
    bool changed = !n || !node_equals(n->node, node);

    if (!n) {
        n = xzalloc(sizeof *n);
        hmap_insert(&m->nodes, &n->hmap_node, hash_string(name, 0));
    }
    if (changed) {
        node_changed(m, name, n->node ? n->node->zone : "", node->zone);
    }
    set_node(m, n, node);
    n->generation = m->listings[MODEL_NODES].generation;
    return changed;
}

/* Leaves it to the caller to call map_trim(). */
static bool
delete_node(struct model *m, struct model_node *n)
{
    if (!n) {
        return false;
    }
    node_changed(m, n->node->meta.name, n->node->zone, "");
    set_node(m, n, NULL);
    hmap_remove(&m->nodes, &n->hmap_node);
    free(n);
    return true;
}

/* Plain kinds. */

const struct hmap *
model_plain(const struct model *m, enum model_kind kind)
{
    return &m->plain[kind].objects;
}

uint64_t
model_plain_seqno(const struct model *m, enum model_kind kind)
{
    return m->plain[kind].seqno;
}

bool
model_put_plain(struct model *m, enum model_kind kind, struct obj_meta *meta)
{
    return plain_put(&m->plain[kind], meta, m->listings[kind].generation);
}

/* All kinds. */

bool
model_delete(struct model *m, enum model_kind kind, const char *ns,
             const char *name)
{
    bool deleted;

    switch (kind) {
    case MODEL_SERVICES: return delete_svc(m, find_service(m, ns, name));
    case MODEL_SLICES:
        deleted = delete_slice(m, find_slice(m, ns, name));
        map_trim(&m->slices);
        return deleted;
    case MODEL_NODES:
        deleted = delete_node(m, find_node(m, name));
        map_trim(&m->nodes);
        return deleted;
    case MODEL_SERVICE_CIDRS:
    case MODEL_MC_GATEWAYS:
    case MODEL_MC_CLUSTERS: break;
    }
    return plain_delete(&m->plain[kind], ns, name);
}

/* The generation of the stored object of that name, or NULL. */
static uint64_t *
find_generation(struct model *m, enum model_kind kind, const char *ns,
                const char *name)
{
    switch (kind) {
    case MODEL_SERVICES: {
        struct model_service *ms = find_service(m, ns, name);
        return ms ? &ms->generation : NULL;
    }
    case MODEL_SLICES: {
        struct model_slice *s = find_slice(m, ns, name);
        return s ? &s->generation : NULL;
    }
    case MODEL_NODES: {
        struct model_node *n = find_node(m, name);
        return n ? &n->generation : NULL;
    }
    case MODEL_SERVICE_CIDRS:
    case MODEL_MC_GATEWAYS:
    case MODEL_MC_CLUSTERS: break;
    }
    return plain_generation(&m->plain[kind], ns, name);
}

void
model_keep(struct model *m, enum model_kind kind, const char *ns,
           const char *name)
{
    uint64_t *generation = find_generation(m, kind, ns, name);

    if (generation) {
        *generation = m->listings[kind].generation;
    }
}

void
model_relist_begin(struct model *m, enum model_kind kind)
{
    m->listings[kind].generation++;
    m->listings[kind].active = true;
}

static size_t
sweep_services(struct model *m, uint64_t generation)
{
    struct model_service *ms;
    size_t n = 0;

    HMAP_FOR_EACH (ms, hmap_node, &m->services) {
        n += ms->generation != generation && delete_svc(m, ms);
    }
    return n;
}

static size_t
sweep_slices(struct model *m, uint64_t generation)
{
    struct model_slice *s;
    size_t n = 0;

    HMAP_FOR_EACH_SAFE (s, hmap_node, &m->slices) {
        n += s->generation != generation && delete_slice(m, s);
    }
    map_trim(&m->slices);
    return n;
}

static size_t
sweep_nodes(struct model *m, uint64_t generation)
{
    struct model_node *node;
    size_t n = 0;

    HMAP_FOR_EACH_SAFE (node, hmap_node, &m->nodes) {
        n += node->generation != generation && delete_node(m, node);
    }
    map_trim(&m->nodes);
    return n;
}

size_t
model_relist_end(struct model *m, enum model_kind kind)
{
    struct listing *listing = &m->listings[kind];

    ovs_assert(listing->active);
    listing->active = false;
    listing->synced = true;
    switch (kind) {
    case MODEL_SERVICES: return sweep_services(m, listing->generation);
    case MODEL_SLICES: return sweep_slices(m, listing->generation);
    case MODEL_NODES: return sweep_nodes(m, listing->generation);
    case MODEL_SERVICE_CIDRS:
    case MODEL_MC_GATEWAYS:
    case MODEL_MC_CLUSTERS: break;
    }
    return plain_sweep(&m->plain[kind], listing->generation);
}

bool
model_kind_synced(const struct model *m, enum model_kind kind)
{
    return m->listings[kind].synced;
}

bool
model_synced(const struct model *m)
{
    for (size_t i = 0; i < N_MODEL_KINDS; i++) {
        if (!m->listings[i].synced && !model_kind_is_optional(i)) {
            return false;
        }
    }
    return true;
}

void
model_give_up(struct model *m, enum model_kind kind)
{
    m->listings[kind].given_up = true;
}

void
model_set_absent(struct model *m, enum model_kind kind)
{
    m->listings[kind].absent = true;
    model_give_up(m, kind);
}

bool
model_kind_known(const struct model *m, enum model_kind kind)
{
    return m->listings[kind].synced || m->listings[kind].absent;
}

bool
model_settled(const struct model *m)
{
    for (size_t i = 0; i < N_MODEL_KINDS; i++) {
        if (model_kind_is_optional(i) && !m->listings[i].synced
            && !m->listings[i].given_up) {
            return false;
        }
    }
    return model_synced(m);
}

void
model_count(const struct model *m, struct model_counts *ret)
{
    *ret = (struct model_counts){
        .n_endpoints = m->n_endpoints,
    };
    for (size_t i = 0; i < N_MODEL_KINDS; i++) {
        ret->n[i] = hmap_count(&m->plain[i].objects);
    }
    ret->n[MODEL_SERVICES] = m->n_svcs;
    ret->n[MODEL_SLICES] = hmap_count(&m->slices);
    ret->n[MODEL_NODES] = hmap_count(&m->nodes);
}

void
model_destroy(struct model *m)
{
    if (!m) {
        return;
    }

    struct model_service *ms;

    /* Nothing is of this generation. */
    sweep_slices(m, UINT64_MAX);
    sweep_nodes(m, UINT64_MAX);
    for (size_t i = 0; i < N_MODEL_KINDS; i++) {
        plain_uninit(&m->plain[i]);
    }
    HMAP_FOR_EACH_POP (ms, hmap_node, &m->services) {
        svc_free(CONST_CAST(struct svc *, ms->svc), m->pool);
        service_free(m, ms);
    }
    service_free(m, m->popped_last);
    while (model_pop_dirty_node(m)) {
        continue;
    }
    shash_destroy(&m->dirty_nodes);
    hmap_destroy(&m->services);
    hmap_destroy(&m->slices);
    hmap_destroy(&m->nodes);
    intern_pool_destroy(m->pool);
    free(m->triggers);
    free(m->node_name);
    free(m);
}
