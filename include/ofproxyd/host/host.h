/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_HOST_HOST_H
#define OFPROXYD_HOST_HOST_H 1

/* The node's own network stack, as far as it is ours: the gateway link's
 * state and addresses, the routes that lead Service addresses into the
 * bridge and those to the pods of other nodes, the neighbour that the
 * former go through, and the routing rule by which marked packets go there.
 *
 * Each is a desired set that is compared with what the kernel has (read over
 * rtnetlink, followed by its notifications and by a slow full check), so that
 * what a foreign hand takes away comes back within a second.
 *
 * Routes, rules, neighbours and (from Linux 5.18 on) addresses carry the
 * protocol number HOST_RTPROT; only those are ever removed, and a wanted
 * address with another prefix.  Our routes have a large metric: a route to
 * the same destination that is not ours is left alone, named once, and goes
 * before ours.  A route to everywhere (prefix length 0) is never made in the
 * main table.
 *
 * Never blocks: rtnetlink answers at once. */

#include <stdbool.h>
#include <stddef.h>

#include <openvswitch/dynamic-string.h>
#include <openvswitch/types.h>

#include "ofproxyd/base/err.h"
#include "ofproxyd/base/ip.h"

/* Of our routes, in rtm_protocol; unassigned in the kernel's rtnetlink.h and
 * iproute2's rt_protos. */
#define HOST_RTPROT 201

/* The bit of a packet's mark that leads it into the bridge whatever its
 * destination is, and the routing table that it is looked up in then.
 * Kubernetes' own marks are bits 14 and 15, Antrea's 0 to 7, 30 and 31; a
 * number as large as that of the table is nobody's by chance. */
#define HOST_FWMARK   0x20000000u
#define HOST_RT_TABLE 2010201

/* What the bridge has translated to an endpoint of the host and given back
 * with the client's address: the bit of the connection's mark that leads the
 * answers into the bridge, and the conntrack zone of the requests, since the
 * same client may have a connection to that very address already.  Between
 * Antrea's zones and the last one. */
#define HOST_KEPT_CTMARK 0x10000000u
#define HOST_KEPT_ZONE   65530

struct host;

struct host_route {
    struct cidr dst; /* Host bits zero. */
    struct ip via;   /* Next hop, taken to be on the gateway link whatever its
                      * addresses say, or "::" for the link itself. */
    struct ip src;   /* Preferred source, or "::" for none. */
    bool underlay;   /* 'via' is another node, on whatever link has its
                      * network; the route follows that. */
};

struct host_neigh {
    struct ip ip;
    struct eth_addr mac;
};

/* The desired state, but for the routes.  The arrays are copied. */
struct host_want {
    const char *gateway; /* Link name. */
    bool gateway_ready;  /* False: the switch has not made it; do nothing. */
    const struct cidr *addresses; /* Of the gateway link, with prefix. */
    size_t n_addresses;
    const struct host_neigh *neighs; /* Permanent, on the gateway link. */
    size_t n_neighs;
    struct ip marked_via[N_IP_FAMILIES]; /* Next hop, on the gateway link, of
                                          * packets that have HOST_FWMARK;
                                          * "::": they are like others. */
    bool complete;   /* False: add what is missing, remove nothing; also of the
                      * routes. */
    bool forwarding; /* The node has to forward IPv4, and IPv6 if there is an
                      * IPv6 address. */
    const char *uplink; /* Link by which pods' packets come from other nodes
                         * as they are, or NULL.  Its settings are not
                         * changed, but named if they are in the way. */
};

/* Returns a host that wants nothing; opens its sockets at the first run. */
struct host *host_create(void);
void host_destroy(struct host *); /* NULL is allowed; leaves all in place. */

/* Sets what is wanted from now on.  Cheap if nothing differs from before. */
void host_set(struct host *, const struct host_want *);

/* Sets the routes that are wanted.  Several may want one, which is named as
 * often then; the first one says how it goes on.
 *
 * A route of the underlay fails while no link has its next hop's network.  It
 * is tried again when links or addresses change.
 *
 * The cost is a look-up for each route, and a request for each that differs;
 * the functions below are for the changes in between. */
void host_set_routes(struct host *, const struct host_route *, size_t n);

/* One more wants this route; it goes on as said here. */
void host_want_route(struct host *, const struct host_route *);

/* One less wants a route to 'dst'. */
void host_unwant_route(struct host *, const struct cidr *dst);

/* A pod of this node is on the link 'link', on a bridge whose datapath is in
 * user space: the kernel sees its packets, too, and is told not to answer its
 * ARP requests.  To be called once for each; a link that the kernel doesn't
 * have, or a name that is none, is passed over. */
void host_add_pod_link(struct host *, const char *link);

/* Whether connections from 127.0.0.1 are let out by the gateway and their
 * answers in (route_localnet); as an earlier run left it until this is called.
 * Only to be set while nobody else can reach that address by the gateway. */
void host_set_localhost(struct host *, bool);

/* Does what can be done without blocking. */
void host_run(struct host *);
/* Arranges for poll_block() to wake up when host_run() has work. */
void host_wait(struct host *);

/* Appends the present state, what is missing and why. */
void host_format_state(const struct host *, struct ds *);

/* True if all addresses, routes and neighbours that are wanted are there.
 * Kernel settings that can't be written don't count: they are only named. */
bool host_in_sync(const struct host *);

/* True if the gateway link was looked for and there is none. */
bool host_gateway_is_lost(const struct host *);

/* Removes what is ours from the host: rules, routes on whatever link, and
 * addresses and neighbours of the link 'gateway', all known by HOST_RTPROT.
 * Kernel settings stay, but for that of host_set_localhost().  Appends a line
 * to 'done' for each thing that is removed, and one to 'left' for what may be
 * ours but can't be told, which stays: addresses of kernels before 5.18.
 * Blocks until that is done; needs no struct host, of which none should run.
 *
 * What can't be removed does not stop the rest.  Returns 0, also if there was
 * nothing, or a positive errno value with 'err' set. */
int host_cleanup(const char *gateway, struct ds *done, struct ds *left,
                 struct err *) OVS_WARN_UNUSED_RESULT;

#endif /* ofproxyd/host/host.h */
