/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOST_FWDCHAIN_H
#define HOST_FWDCHAIN_H 1

/* Our two accept rules in iptables' FORWARD chain (iptables-nft: table filter
 * of family ip or ip6): what comes in by the gateway, and what goes out by
 * it.  They belong at the chain's top.  A host without the chain needs none.
 *
 * Ours are the rules with the comment RULES_COMMENT in that chain. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <openvswitch/dynamic-string.h>

#include "nfnl.h"
#include "ofproxyd/base/ip.h"

#define RULES_COMMENT  "ofproxyd"
#define FWDCHAIN_TABLE "filter"
#define FWDCHAIN_NAME  "FORWARD"

/* More of ours than this are removed in several rounds. */
#define FWDCHAIN_MAX_OURS 32

struct fwdchain {
    enum ip_family family;
    bool exists;   /* There is the chain, and packets pass it. */
    bool in_place; /* Both rules are at its top. */
    uint64_t ours[FWDCHAIN_MAX_OURS]; /* Handles of all of ours. */
    size_t n_ours;
};

/* Reads what there is.  Returns 0 or a positive errno value (EINTR: it changed
 * meanwhile).  'gateway' NULL: no rule counts as in place. */
int fwdchain_read(struct fwdchain *, struct nfnl *, const char *gateway)
    OVS_WARN_UNUSED_RESULT;

/* True if there is something to do; 'remove': superfluous rules of ours
 * are. */
bool fwdchain_is_due(const struct fwdchain *, bool remove);

/* Appends nft commands that put both rules at the top, and with 'remove' take
 * away all others of ours. */
void fwdchain_repair(const struct fwdchain *, const char *gateway, bool remove,
                     struct ds *);

/* Appends the removal of all of ours to the batch. */
void fwdchain_remove(const struct fwdchain *, struct nfnl_batch *);

/* "ip" or "ip6". */
const char *fwdchain_family_name(const struct fwdchain *);

#endif /* host/fwdchain.h */
