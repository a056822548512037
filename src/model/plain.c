/* SPDX-License-Identifier: Apache-2.0 */

/* There are one or two of them in most clusters, some hundreds in the
 * largest. */

#include "plain.h"

#include <string.h>

#include <hash.h>
#include <util.h>

void
plain_init(struct plain *p, enum model_kind kind, struct intern_pool *pool)
{
    *p = (struct plain){ .kind = kind, .pool = pool };
    hmap_init(&p->objects);
}

static uint32_t
hash_name(const char *ns, const char *name)
{
    return hash_string(name, hash_string(ns, 0));
}

static struct model_plain *
find(const struct plain *p, const char *ns, const char *name)
{
    struct model_plain *o;

    HMAP_FOR_EACH_WITH_HASH (o, hmap_node, hash_name(ns, name), &p->objects) {
        if (!strcmp(o->meta->name, name) && !strcmp(o->meta->ns, ns)) {
            return o;
        }
    }
    return NULL;
}

static bool
equals(const struct plain *p, const struct obj_meta *a,
       const struct obj_meta *b)
{
    switch (p->kind) {
    case MODEL_SERVICE_CIDRS:
        return service_cidr_equals(CONTAINER_OF(a, struct service_cidr, meta),
                                   CONTAINER_OF(b, struct service_cidr, meta));
    case MODEL_MC_GATEWAYS:
        return mc_gateway_equals(CONTAINER_OF(a, struct mc_gateway, meta),
                                 CONTAINER_OF(b, struct mc_gateway, meta));
    case MODEL_MC_CLUSTERS:
        return mc_cluster_equals(CONTAINER_OF(a, struct mc_cluster, meta),
                                 CONTAINER_OF(b, struct mc_cluster, meta));
    case MODEL_SERVICES:
    case MODEL_SLICES:
    case MODEL_NODES: break;
    }
    OVS_NOT_REACHED();
}

static void
set(struct plain *p, struct model_plain *o, struct obj_meta *meta)
{
    plain_free(CONST_CAST(struct obj_meta *, o->meta), p->pool);
    o->meta = meta;
}

bool
plain_put(struct plain *p, struct obj_meta *meta, uint64_t generation)
{
    struct model_plain *o = find(p, meta->ns, meta->name);
    bool changed = !o || !equals(p, o->meta, meta);

    if (!o) {
        o = xzalloc(sizeof *o);
        hmap_insert(&p->objects, &o->hmap_node,
                    hash_name(meta->ns, meta->name));
    }
    p->seqno += changed;
    set(p, o, meta);
    o->generation = generation;
    return changed;
}

static void
forget(struct plain *p, struct model_plain *o)
{
    p->seqno++;
    set(p, o, NULL);
    hmap_remove(&p->objects, &o->hmap_node);
    free(o);
}

bool
plain_delete(struct plain *p, const char *ns, const char *name)
{
    struct model_plain *o = find(p, ns, name);

    if (o) {
        forget(p, o);
    }
    return o != NULL;
}

uint64_t *
plain_generation(const struct plain *p, const char *ns, const char *name)
{
    struct model_plain *o = find(p, ns, name);

    return o ? &o->generation : NULL;
}

size_t
plain_sweep(struct plain *p, uint64_t generation)
{
    struct model_plain *o;
    size_t n = 0;

    HMAP_FOR_EACH_SAFE (o, hmap_node, &p->objects) {
        if (o->generation != generation) {
            forget(p, o);
            n++;
        }
    }
    return n;
}

void
plain_uninit(struct plain *p)
{
    plain_sweep(p, UINT64_MAX); /* Nothing is of this generation. */
    hmap_destroy(&p->objects);
}
