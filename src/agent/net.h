/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_AGENT_NET_H
#define OFPROXYD_AGENT_NET_H 1

/* The other nodes: their pods' networks, into the flow table, into the sets
 * of the host's packet rules, and as routes.
 *
 * The transport link (host/uplink.h) and the Node objects go in; peers.h says
 * which way leads to each pod network; what comes out of it is rendered here,
 * one owner in the flow table for each other node. */

#include <openvswitch/dynamic-string.h>

#include "ofproxyd/config/config.h"
#include "ofproxyd/flow/flowtab.h"
#include "ofproxyd/host/host.h"
#include "ofproxyd/host/rules.h"
#include "ofproxyd/host/uplink.h"
#include "ofproxyd/kube/kube.h"
#include "ofproxyd/model/model.h"
#include "ofproxyd/pipeline/pipeline.h"

struct net;

/* All must live longer. */
struct net_cfg {
    struct model *model;
    struct flowtab *flowtab;
    struct rules *rules;
    struct kube *kube;
    const struct cfg *cfg;
    struct ip server; /* The API server's address; "::" if not known. */
};

struct net *net_create(const struct net_cfg *);
void net_destroy(struct net *); /* NULL is allowed. */

/* Follows the transport link; to be called before the others, who want its
 * addresses. */
void net_run_uplink(struct net *);
void net_wait(const struct net *);

/* The transport link as it is now. */
const struct uplink_state *net_uplink(const struct net *);

/* True if it is known which routes and members of sets are wanted: the
 * transport link is, with an address, and net_run() has once taken all that
 * follows from it. */
bool net_is_known(const struct net *);

/* Follows the Nodes; 'node' is this one as the pipeline sees it.  'ready'
 * tells that all Nodes have been listed and, once, the switch was read: it
 * knows the object ids that were in use; 'complete', that what is not wanted
 * goes.  Returns true if the wishes for the bridge changed. */
bool net_run(struct net *, const struct pipe_node *node, bool ready,
             bool complete);

/* True if net_run() has taken all that it was told.  It stops after a while,
 * so that others get their turn. */
bool net_is_drained(const struct net *);

/* What is not wanted goes from now on; but while the transport link or this
 * node's pod networks aren't known, what the switch has for other nodes
 * stays. */
void net_adopt(struct net *);

/* The MTU that the gateway, and so the pods, should have; 0 while unknown. */
uint16_t net_mtu(const struct net *);

/* A route to another node's pods that is wanted, or not any more. */
struct net_route {
    struct host_route route;
    bool gone;
};

/* Hands out what changed since the last call, in order: an array that is the
 * caller's to free(), or NULL. */
struct net_route *net_take_routes(struct net *, size_t *ret_n);

/* Calls 'cb' for each route that is wanted now. */
void net_for_each_route(const struct net *,
                        void (*cb)(const struct host_route *, void *aux),
                        void *aux);

/* Returns the name of the node that an owner in the flow table stands for, or
 * NULL. */
const char *net_find_owner(const struct net *, uint64_t owner);

/* Returns the name of the other node whose transport address 'ip' is, or
 * NULL. */
const char *net_find_by_address(const struct net *, const struct ip *ip);

/* Appends mode, MTU and the state of the transport link. */
void net_format(const struct net *, struct ds *);

/* Appends a line for each pod network of other nodes. */
void net_format_nodes(const struct net *, struct ds *);

#endif /* src/agent/net.h */
