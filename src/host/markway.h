/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOST_MARKWAY_H
#define HOST_MARKWAY_H 1

/* The way of marked packets into the bridge: a routing rule for each family
 * that looks up what has the mark HOST_FWMARK in the table HOST_RT_TABLE, and
 * in there a default route to the gateway link.
 *
 * There are few of these, so each check reads and compares all of them.  Ours
 * are the rules with protocol number HOST_RTPROT, and all in that table that
 * has it. */

#include <stdbool.h>

#include <openvswitch/dynamic-string.h>

#include "hostnl.h"
#include "ofproxyd/host/host.h"

struct markway_family {
    struct ip via; /* Wanted; "::": neither rule nor route is. */
    bool has_rule, has_route;
    int error; /* Of the last try; named already. */
};

struct markway {
    struct markway_family families[N_IP_FAMILIES];
    bool complete; /* What is not wanted goes. */
    int ifindex;   /* The gateway link, of the running check. */
    bool has_more; /* There is what has to go. */

    /* Of the running check: what is not wanted. */
    struct hostnl_event *found;
    size_t n_found, allocated_found;
};

void markway_init(struct markway *);
void markway_uninit(struct markway *);

/* Sets what is wanted.  True if that differs from before, so that a check is
 * due. */
bool markway_set(struct markway *, const struct host_want *);

/* Reads rules and routes and repairs them; the link is up.  Returns 0 or a
 * positive errno value if they can't be read. */
int markway_repair(struct markway *, struct hostnl *, int ifindex)
    OVS_WARN_UNUSED_RESULT;

/* Returns true if a notification calls for a check. */
bool markway_changed(const struct markway *, const struct hostnl_event *);

/* True if all that is wanted is there. */
bool markway_in_sync(const struct markway *);

void markway_format(const struct markway *, struct ds *);

#endif /* host/markway.h */
