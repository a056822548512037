/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_TESTS_FLOWTABFIX_H
#define OFPROXYD_TESTS_FLOWTABFIX_H 1

/* What the tests of the flow table have in common: items in a few words, and a
 * switch that does what it is told. */

#include "ofproxyd/flow/cookie.h"
#include "ofproxyd/flow/flowtab.h"

/* Groups of object 'O': the one that flows name, that of policy Local, and a
 * leaf. */
#define GROUP(O) group_id_make(O, false, 0)
#define LOCAL(O) group_id_make(O, true, 0)
#define LEAF(O)  group_id_make(O, false, 1)

/* Return a new item, as flowtext_make_flow() and flowtext_make_group(); the
 * key of a shared flow does not depend on the object. */
struct fitem *ft_flow(uint32_t object, uint32_t k, uint32_t version,
                      uint32_t group_id);
struct fitem *ft_shared_flow(uint32_t object, uint32_t k);
struct fitem *ft_group(uint32_t group_id, uint16_t version, uint32_t named);

/* Lets 'id' want the items that follow, up to NOTHING. */
size_t ft_want(struct flowtab *, uint64_t id, int64_t rank, ...);
#define NOTHING ((struct fitem *) NULL)

/* Returns a table that has read an empty switch, all objects listed. */
struct flowtab *ft_ready(void);

/* Has all changes done.  Returns how many there were. */
size_t ft_flush(struct flowtab *);

/* Has all changes done, one a time, and compares their kinds: " +leaf +group
 * -flow", each after a space. */
void ft_assert_order(struct flowtab *, const char *expected);

/* Lets the switch refuse a batch for the reason "no". */
void ft_refuse(struct flowtab *, struct flowtab_batch *, size_t bad,
               long long int now_ms);

struct flowtab_stats ft_stats(const struct flowtab *);

#endif /* flowtabfix.h */
