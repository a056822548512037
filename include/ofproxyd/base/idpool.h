/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_BASE_IDPOOL_H
#define OFPROXYD_BASE_IDPOOL_H 1

/* Hands out small numbers by preference.
 *
 * An object's id is the hash of its name, or the next free one if that is
 * taken, so that nearly every object has the same id on every node and after
 * every restart; the few whose hash collided get theirs back by asking for
 * the one that the switch still holds. */

#include <stdbool.h>
#include <stdint.h>

struct idpool;

/* Ids run from 'first' to 'last', both included. */
struct idpool *idpool_create(uint32_t first, uint32_t last);
void idpool_destroy(struct idpool *); /* NULL is allowed. */

/* Takes exactly 'id'.  Returns false if it is taken or out of range. */
bool idpool_take(struct idpool *, uint32_t id);

/* Takes the first free id at or after 'first' + 'hash' modulo the size of
 * the range, wrapping around.  Returns false if none is free. */
bool idpool_alloc(struct idpool *, uint32_t hash, uint32_t *ret_id);

/* Makes 'id', which must be taken, free again. */
void idpool_free(struct idpool *, uint32_t id);

/* Returns how many ids are taken. */
uint32_t idpool_n_used(const struct idpool *);

#endif /* ofproxyd/base/idpool.h */
