/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_AGENT_WAYS_H
#define OFPROXYD_AGENT_WAYS_H 1

/* What leads packets from the host into the bridge and to other nodes: the
 * routes to cluster IPs and what answers for them, and to the pods of other
 * nodes; and, for NodePorts and external addresses, which no route can tell
 * from other ports of the same address, members of the packet rules' sets.
 * (To the pods of this node the gateway's address leads; with
 * networkPolicyOnly the primary CNI's routes do.)
 *
 * One route leads to each network of Services; a cluster IP in none of them
 * has one of its own.
 *
 * All routes are set when they are known for the first time, and when the
 * gateway's addresses change, which are their sources, or the networks of
 * Services; from then on only changes are passed on. */

#include "local.h"
#include "net.h"
#include "ofproxyd/config/config.h"
#include "ofproxyd/host/host.h"
#include "ofproxyd/host/nodeips.h"
#include "ofproxyd/host/rules.h"
#include "services.h"
#include "svccidrs.h"

struct ways;

/* All must live longer. */
struct ways_cfg {
    struct host *host;
    struct rules *rules;
    const struct nodeips *nodeips;
    struct services *services;
    struct net *net;
    const struct local *local;
    const struct svccidrs *svccidrs;
    const struct cfg *cfg;
};

struct ways *ways_create(const struct ways_cfg *);
void ways_destroy(struct ways *); /* NULL is allowed. */

/* Passes on what has changed.  To be called only when all objects have been
 * listed: routes that are not wanted are removed. */
void ways_run(struct ways *);

#endif /* src/agent/ways.h */
