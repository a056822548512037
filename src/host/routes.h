/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOST_ROUTES_H
#define HOST_ROUTES_H 1

/* The routes of the host layer: what is wanted, what the kernel has, and the
 * difference.
 *
 * What the kernel has is read by a dump and then followed by notifications
 * and by the answers to our own changes, so that one change among thousands
 * of routes costs one request.  A dump replaces all that was known.
 *
 * Ours are the routes with protocol HOST_RTPROT in the main table, whatever
 * link they are on.  They have a metric of their own, larger than what people
 * and programs use, so that a route to the same destination that isn't ours
 * goes before ours, and neither hides behind nor overwrites the other: it is
 * named, and the moment it goes ours is in use.
 *
 * Those of the underlay are given to the kernel without a link, which it
 * finds by their next hop, once.  It does not move them when the next hop's
 * network moves to another link, and removes them (IPv4 ones silently) when
 * the link goes down; so a change of a link that has some of them, and any
 * change of links while some can't be added, calls for a dump. */

#include <stdbool.h>
#include <stddef.h>

#include <openvswitch/dynamic-string.h>
#include <openvswitch/hmap.h>
#include <openvswitch/list.h>

#include "hostnl.h"
#include "ofproxyd/host/host.h"
#include "onlink.h"

#define ROUTES_METRIC 4096

/* Links whose changes matter; with more of them all do. */
#define ROUTES_MAX_LINKS 16

struct routes {
    struct hmap nodes; /* "struct route_node"s, by destination. */

    /* Where the kernel differs; each node is on one at most. */
    struct ovs_list to_add; /* Or to change. */
    struct ovs_list to_del;
    struct ovs_list failed;

    struct ovs_list strays;      /* Ours, but of no use: to be removed. */
    int ifindex;                 /* The gateway link, or 0. */
    bool stray_failed;           /* One couldn't be removed and is not on the
                             * list any more. */
    bool complete;               /* Removing is allowed. */
    bool unsure;                 /* Something happened that only a dump clears
                             * up. */
    unsigned int generation;     /* Of routes_set(). */
    size_t n_wanted;             /* Destinations. */
    size_t n_underlay;           /* Those of them that are of the underlay. */
    int links[ROUTES_MAX_LINKS]; /* That these were on since the last dump. */
    size_t n_links;
    bool lost_named;      /* That the underlay can't be reached. */
    struct onlink onlink; /* As of the last dump. */
    size_t n_shadowed;    /* A foreign route goes before ours. */
};

void routes_init(struct routes *);
void routes_uninit(struct routes *);

/* See host_set_routes(), host_want_route() and host_unwant_route().  Return
 * true if what is wanted differs from before. */
bool routes_set(struct routes *, const struct host_route *, size_t n,
                bool complete);
bool routes_want(struct routes *, const struct host_route *);
bool routes_unwant(struct routes *, const struct cidr *dst);

/* Forgets what the kernel has.  What it says is to be given to routes_have()
 * and closed by routes_dumped(). */
void routes_start_dump(struct routes *, int ifindex);
void routes_have(struct routes *, const struct hostnl_route *);
void routes_dumped(struct routes *);

/* A notification.  Returns true if it is about our routes and shows a
 * difference that is to be repaired. */
bool routes_changed(struct routes *, const struct hostnl_route *, bool gone);

/* The link, or an address of it, has changed.  Returns true if a dump is due
 * for that. */
bool routes_link_changed(const struct routes *, int ifindex);

/* Makes up to '*budget' changes and takes them off it. */
void routes_run(struct routes *, struct hostnl *, size_t *budget);

/* True if routes_run() has something to do. */
bool routes_pending(const struct routes *);

/* True if something has failed, which is tried again after the next dump. */
bool routes_have_failed(const struct routes *);

void routes_format(const struct routes *, struct ds *);

#endif /* host/routes.h */
