/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOST_NFTABLE_H
#define HOST_NFTABLE_H 1

/* Our nftables table as the kernel has it. */

#include <openvswitch/dynamic-string.h>

#include "nfnl.h"

/* Appends all that the kernel says of our table but the sets' elements and
 * the counters' values: chains, rules, and how the sets are made.  Equal bytes
 * mean equal tables.  Returns 0, ENOENT if there is no table, EINTR if it
 * changed meanwhile, or another positive errno value. */
int nftable_read(struct nfnl *, struct ds *ret) OVS_WARN_UNUSED_RESULT;

/* Appends the removal of the table, which must exist, to the batch. */
void nftable_remove(struct nfnl_batch *);

#endif /* host/nftable.h */
