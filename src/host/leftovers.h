/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOST_LEFTOVERS_H
#define HOST_LEFTOVERS_H 1

/* Rules of others that get in the way of ours: what kube-proxy or Antrea left
 * behind, or still keep, and a drop in legacy iptables that no rule of ours
 * can overrule.  They are named in the log, once each, with the command that
 * removes them, and never touched. */

#include "nfnl.h"

struct leftovers {
    unsigned int named; /* Bits; which is known to the implementation. */
};

/* Looks for them. */
void leftovers_check(struct leftovers *, struct nfnl *, const char *gateway);

#endif /* host/leftovers.h */
