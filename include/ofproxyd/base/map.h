/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_BASE_MAP_H
#define OFPROXYD_BASE_MAP_H 1

/* What struct hmap lacks for tables that live as long as the daemon: memory
 * that follows the number of objects, not their largest number ever. */

#include <openvswitch/hmap.h>

/* Gives memory back if 'hmap' has become far too large for what it holds.
 * Moves nodes between buckets, so it may not be called during an
 * iteration. */
static inline void
map_trim(struct hmap *hmap)
{
    if (hmap->mask > 63 && hmap->n < hmap->mask / 8) {
        hmap_shrink(hmap);
    }
}

/* hmap_remove() and map_trim(). */
static inline void
map_remove(struct hmap *hmap, struct hmap_node *node)
{
    hmap_remove(hmap, node);
    map_trim(hmap);
}

#endif /* ofproxyd/base/map.h */
