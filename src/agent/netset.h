/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_AGENT_NETSET_H
#define OFPROXYD_AGENT_NETSET_H 1

/* Networks, none in another one, in the order of their addresses: what
 * overlaps a network is found by a binary search.  Of a set that is not worth
 * the sorting, by looking at all. */

#include <stdbool.h>
#include <stddef.h>

#include "ofproxyd/base/ip.h"

struct netset_item {
    struct cidr net;   /* Without host bits. */
    const char *whose; /* The caller's; not looked at but for the order. */
};

struct netset {
    struct netset_item *items;
    size_t n, allocated;
    bool sorted;
};

#define NETSET_INIT ((struct netset){ .items = NULL })

/* Forgets all, and frees the memory. */
void netset_clear(struct netset *);

/* Adds 'net', which has no host bits, at the end: the set is not sorted any
 * more. */
void netset_push(struct netset *, const struct cidr *net, const char *whose);

/* Sorts, and drops what another one holds; of equal ones the first by
 * 'whose' stays. */
void netset_compact(struct netset *);

/* Adds those of 'more', none of which may overlap one of the set.  Both are
 * sorted. */
void netset_merge(struct netset *, const struct netset *more);

/* Returns one that overlaps 'net', or NULL. */
const struct netset_item *netset_find(const struct netset *,
                                      const struct cidr *net);

/* True if both, which are sorted, have the same networks, whosever they
 * are. */
bool netset_equals(const struct netset *, const struct netset *);

#endif /* src/agent/netset.h */
