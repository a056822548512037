/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_BASE_INTERN_H
#define OFPROXYD_BASE_INTERN_H 1

/* A pool that keeps one reference-counted copy of each string.
 *
 * Zone names, node names and port names come by the hundred thousand and are
 * few: interned, each costs a pointer, and two of one pool are equal exactly
 * if their pointers are. */

#include <stddef.h>

struct intern_pool;

/* Returns an empty pool, the caller's to intern_pool_destroy(). */
struct intern_pool *intern_pool_create(void);

/* Destroys 'pool' (NULL is allowed), whose strings must all have been
 * released. */
void intern_pool_destroy(struct intern_pool *pool);

/* Returns the pool's copy of the 'len' bytes at 's', which hold no null
 * byte, with a reference that the caller owns. */
const char *intern(struct intern_pool *pool, const char *s, size_t len);

/* Returns 's', which must be of 'pool', with another reference. */
const char *intern_ref(struct intern_pool *pool, const char *s);

/* Gives up a reference.  'interned' may be NULL. */
void intern_unref(struct intern_pool *pool, const char *interned);

/* Returns the pool's copy of 's' without taking a reference, or NULL. */
const char *intern_find(const struct intern_pool *pool, const char *s);

/* Number of different strings held. */
size_t intern_count(const struct intern_pool *pool);

#endif /* ofproxyd/base/intern.h */
