/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOST_GWLINK_H
#define HOST_GWLINK_H 1

/* The gateway link: up, with its addresses, the routes that come with them,
 * and its neighbours.
 *
 * There are few of these, so each check reads and compares all of them.  What
 * we add is marked with HOST_RTPROT as its protocol where the kernel can keep
 * that (addresses: Linux 5.18), and only what is so marked is removed when it
 * isn't wanted.  The exception is a wanted address with a wrong prefix, which
 * is replaced: the link is ours. */

#include <stdbool.h>
#include <stddef.h>

#include <openvswitch/dynamic-string.h>

#include "hostnl.h"
#include "ofproxyd/host/host.h"

struct gwlink_addr {
    struct cidr cidr;
    bool present;
    bool connected; /* The route to its network is there, or needs not be. */
    int error;      /* Of the last try; named already. */
};

struct gwlink_neigh {
    struct host_neigh neigh;
    bool present;
    int error;
};

struct gwlink {
    /* Wanted. */
    char *name; /* Or NULL. */
    bool complete;
    struct gwlink_addr *addrs;
    size_t n_addrs;
    struct gwlink_neigh *neighs;
    size_t n_neighs;

    /* Found. */
    int ifindex; /* 0 if there is no such link. */
    bool up;
    int error; /* Of the last try to find it or to get it up. */

    /* Of the running check: addresses that are not wanted. */
    struct hostnl_addr *found;
    size_t n_found, allocated_found;
    /* Those that are nobody's business, named already. */
    struct cidr *named;
    size_t n_named;
};

void gwlink_init(struct gwlink *);
void gwlink_uninit(struct gwlink *);

/* Sets what is wanted.  True if that differs from before, so that a check is
 * due. */
bool gwlink_set(struct gwlink *, const struct host_want *);

/* True if there is an IPv6 address among the wanted ones. */
bool gwlink_wants_ipv6(const struct gwlink *);

/* A check is made of the following, in this order.  Each returns 0 or a
 * positive errno value if the rest of the check makes no sense. */

/* Finds the link. */
int gwlink_find(struct gwlink *, struct hostnl *) OVS_WARN_UNUSED_RESULT;

/* Gets it up, unless it is. */
int gwlink_get_up(struct gwlink *, struct hostnl *) OVS_WARN_UNUSED_RESULT;

/* Reads addresses and repairs them. */
int gwlink_repair_addrs(struct gwlink *, struct hostnl *)
    OVS_WARN_UNUSED_RESULT;

/* Is given all routes of the main table. */
void gwlink_have_route(struct gwlink *, const struct hostnl_route *);

/* Repairs the routes that come with the addresses. */
void gwlink_repair_connected(struct gwlink *, struct hostnl *);

/* Reads neighbours and repairs them. */
int gwlink_repair_neighs(struct gwlink *, struct hostnl *)
    OVS_WARN_UNUSED_RESULT;

/* Returns true if a notification calls for a check. */
bool gwlink_changed(struct gwlink *, const struct hostnl_event *);

/* True if all that is wanted is there. */
bool gwlink_in_sync(const struct gwlink *);

void gwlink_format(const struct gwlink *, struct ds *);

#endif /* host/gwlink.h */
