/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOST_SETELEM_H
#define HOST_SETELEM_H 1

/* Members of the sets of our table: from the kernel's elements and to them.
 *
 * A set of addresses has an element for each; a set of networks (interval) has
 * two for each, the first address and, marked as an end, the one after the
 * last. */

#include <stdbool.h>
#include <stddef.h>

#include "memberset.h"
#include "nfnl.h"
#include "ofproxyd/host/rules.h"

/* Reads the members that the kernel has of a set into 'ms'.  Returns 0,
 * ENOENT if there is no such set, EINTR if it changed meanwhile, EPROTO if it
 * has what can be no member of ours, or another positive errno value. */
int setelem_read(struct nfnl *, enum rules_set_id, enum ip_family,
                 struct memberset *) OVS_WARN_UNUSED_RESULT;

/* Members of a list that one call of setelem_encode() takes: what makes about
 * a millisecond of work for the kernel. */
#define SETELEM_MAX 250

/* Appends to the batch what removes or adds the first SETELEM_MAX members of
 * this family on the set's list (to_add or to_del), and returns how many. */
size_t setelem_encode(enum rules_set_id, enum ip_family,
                      const struct memberset *, bool add, struct nfnl_batch *);

#endif /* host/setelem.h */
