/* SPDX-License-Identifier: Apache-2.0 */
/* One reference-counted copy of each string. */

#include "ofproxyd/base/intern.h"

#include <stdint.h>
#include <string.h>

#include <hash.h>
#include <openvswitch/hmap.h>
#include <util.h>

#include "ofproxyd/base/map.h"

struct intern_pool {
    struct hmap strings; /* Of struct interned. */
};

struct interned {
    struct hmap_node hmap_node;
    uint32_t n_refs;
    char s[];
};

struct intern_pool *
intern_pool_create(void)
{
    struct intern_pool *pool = xmalloc(sizeof *pool);

    hmap_init(&pool->strings);
    return pool;
}

void
intern_pool_destroy(struct intern_pool *pool)
{
    if (pool) {
        ovs_assert(hmap_is_empty(&pool->strings));
        hmap_destroy(&pool->strings);
        free(pool);
    }
}

static struct interned *
find(const struct intern_pool *pool, const char *s, size_t len, uint32_t hash)
{
    struct interned *i;

    HMAP_FOR_EACH_WITH_HASH (i, hmap_node, hash, &pool->strings) {
        if (!strncmp(i->s, s, len) && !i->s[len]) {
            return i;
        }
    }
    return NULL;
}

const char *
intern(struct intern_pool *pool, const char *s, size_t len)
{
    uint32_t hash = hash_bytes(s, len, 0);
    struct interned *i = find(pool, s, len, hash);

    if (!i) {
        i = xmalloc(sizeof *i + len + 1);
        i->n_refs = 0;
        memcpy(i->s, s, len);
        i->s[len] = '\0';
        hmap_insert(&pool->strings, &i->hmap_node, hash);
    }
    i->n_refs++;
    return i->s;
}

static struct interned *
interned_from_string(const char *s)
{
    return CONTAINER_OF(s, struct interned, s);
}

const char *
intern_ref(struct intern_pool *pool OVS_UNUSED, const char *s)
{
    interned_from_string(s)->n_refs++;
    return s;
}

void
intern_unref(struct intern_pool *pool, const char *interned)
{
    if (interned) {
        struct interned *i = interned_from_string(interned);

        ovs_assert(i->n_refs);
        if (!--i->n_refs) {
            map_remove(&pool->strings, &i->hmap_node);
            free(i);
        }
    }
}

const char *
intern_find(const struct intern_pool *pool, const char *s)
{
    size_t len = strlen(s);
    const struct interned *i = find(pool, s, len, hash_bytes(s, len, 0));

    return i ? i->s : NULL;
}

size_t
intern_count(const struct intern_pool *pool)
{
    return hmap_count(&pool->strings);
}
