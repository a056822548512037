/* SPDX-License-Identifier: Apache-2.0 */
/* The set of ids in use; the memory follows the number of ids, not the size
 * of the range. */

#include "ofproxyd/base/idpool.h"

#include <hash.h>
#include <openvswitch/hmap.h>
#include <util.h>

#include "ofproxyd/base/map.h"

struct idpool {
    struct hmap used; /* Of struct used_id. */
    uint32_t first, last;
};

struct used_id {
    struct hmap_node hmap_node;
    uint32_t id;
};

struct idpool *
idpool_create(uint32_t first, uint32_t last)
{
    ovs_assert(first <= last);

    struct idpool *pool = xmalloc(sizeof *pool);
    hmap_init(&pool->used);
    pool->first = first;
    pool->last = last;
    return pool;
}

void
idpool_destroy(struct idpool *pool)
{
    if (pool) {
        struct used_id *used;

        HMAP_FOR_EACH_POP (used, hmap_node, &pool->used) {
            free(used);
        }
        hmap_destroy(&pool->used);
        free(pool);
    }
}

static struct used_id *
find(const struct idpool *pool, uint32_t id)
{
    struct used_id *used;

    HMAP_FOR_EACH_WITH_HASH (used, hmap_node, hash_int(id, 0), &pool->used) {
        if (used->id == id) {
            return used;
        }
    }
    return NULL;
}

bool
idpool_take(struct idpool *pool, uint32_t id)
{
    if (id < pool->first || id > pool->last || find(pool, id)) {
        return false;
    }

    struct used_id *used = xmalloc(sizeof *used);
    used->id = id;
    hmap_insert(&pool->used, &used->hmap_node, hash_int(id, 0));
    return true;
}

bool
idpool_alloc(struct idpool *pool, uint32_t hash, uint32_t *ret_id)
{
    uint64_t size = (uint64_t) pool->last - pool->first + 1;
    if (hmap_count(&pool->used) >= size) {
        return false;
    }

    uint32_t id = pool->first + hash % size;
    while (!idpool_take(pool, id)) {
        id = id == pool->last ? pool->first : id + 1;
    }
    *ret_id = id;
    return true;
}

void
idpool_free(struct idpool *pool, uint32_t id)
{
    struct used_id *used = find(pool, id);
    ovs_assert(used);

    map_remove(&pool->used, &used->hmap_node);
    free(used);
}

uint32_t
idpool_n_used(const struct idpool *pool)
{
    return hmap_count(&pool->used);
}
