/* SPDX-License-Identifier: Apache-2.0 */

/* There are one or two of them in most clusters. */

#include "cidrs.h"

#include <string.h>

#include <hash.h>
#include <util.h>

void
cidrs_init(struct cidrs *cs, struct intern_pool *pool)
{
    *cs = (struct cidrs){ .pool = pool };
    hmap_init(&cs->cidrs);
}

static struct model_service_cidr *
find(const struct cidrs *cs, const char *name)
{
    struct model_service_cidr *c;

    HMAP_FOR_EACH_WITH_HASH (c, hmap_node, hash_string(name, 0), &cs->cidrs) {
        if (!strcmp(c->cidr->meta.name, name)) {
            return c;
        }
    }
    return NULL;
}

static void
set(struct cidrs *cs, struct model_service_cidr *c, struct service_cidr *cidr)
{
    service_cidr_free(CONST_CAST(struct service_cidr *, c->cidr), cs->pool);
    c->cidr = cidr;
}

bool
cidrs_put(struct cidrs *cs, struct service_cidr *cidr, uint64_t generation)
{
    const char *name = cidr->meta.name;
    struct model_service_cidr *c = find(cs, name);
    bool changed = !c || !service_cidr_equals(c->cidr, cidr);

    if (!c) {
        c = xzalloc(sizeof *c);
        hmap_insert(&cs->cidrs, &c->hmap_node, hash_string(name, 0));
    }
    cs->seqno += changed;
    set(cs, c, cidr);
    c->generation = generation;
    return changed;
}

static void
forget(struct cidrs *cs, struct model_service_cidr *c)
{
    cs->seqno++;
    set(cs, c, NULL);
    hmap_remove(&cs->cidrs, &c->hmap_node);
    free(c);
}

bool
cidrs_delete(struct cidrs *cs, const char *name)
{
    struct model_service_cidr *c = find(cs, name);

    if (c) {
        forget(cs, c);
    }
    return c != NULL;
}

uint64_t *
cidrs_generation(const struct cidrs *cs, const char *name)
{
    struct model_service_cidr *c = find(cs, name);

    return c ? &c->generation : NULL;
}

size_t
cidrs_sweep(struct cidrs *cs, uint64_t generation)
{
    struct model_service_cidr *c;
    size_t n = 0;

    HMAP_FOR_EACH_SAFE (c, hmap_node, &cs->cidrs) {
        if (c->generation != generation) {
            forget(cs, c);
            n++;
        }
    }
    return n;
}

void
cidrs_uninit(struct cidrs *cs)
{
    cidrs_sweep(cs, UINT64_MAX); /* Nothing is of this generation. */
    hmap_destroy(&cs->cidrs);
}
