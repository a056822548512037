/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_AGENT_LOCAL_H
#define OFPROXYD_AGENT_LOCAL_H 1

/* This node: its gateway and its pods, into the flow table and onto the
 * gateway link.
 *
 * What the Node object says (pod CIDRs) and what the switch's database says
 * (gateway port, pods) become the pipeline's fixed flows, each pod's flows,
 * and the gateway link's addresses.  Everything is rendered anew
 * when either source changed; what comes out equal changes nothing. */

#include <openvswitch/dynamic-string.h>

#include "mc.h"
#include "ofproxyd/config/config.h"
#include "ofproxyd/flow/flowtab.h"
#include "ofproxyd/host/host.h"
#include "ofproxyd/host/nodeips.h"
#include "ofproxyd/host/uplink.h"
#include "ofproxyd/model/model.h"
#include "ofproxyd/pipeline/pipeline.h"
#include "ofproxyd/switch/ovsdb.h"
#include "svccidrs.h"

/* The first of our PIPE_N_METERS meters, and where their ids stand: group and
 * meter ids are apart, any numbers will do that nobody else is likely to
 * choose. */
#define LOCAL_METER_ID 0x0f01

/* Of this node (core/v1: one a family; more are cut off, and said so). */
#define LOCAL_MAX_POD_CIDRS 8

struct local;

/* All must live longer. */
struct local_cfg {
    struct model *model;
    struct flowtab *flowtab;
    struct host *host;
    const struct cfg *cfg;
    const struct svccidrs *svccidrs;
    const struct mc *mc;
    struct ip server; /* The API server's address; "::" if not known. */
};

struct local *local_create(const struct local_cfg *);
void local_destroy(struct local *); /* NULL is allowed. */

/* Follows 'db', the model, the transport link, whose addresses the gateway has
 * in networkPolicyOnly, and the node's addresses.  Cheap when nothing changed.
 * 'complete' tells that all objects have been listed, so that what is not
 * wanted of the host goes.  Returns true if the wishes for the bridge
 * changed. */
bool local_run(struct local *, const struct ovsdb_state *db,
               const struct uplink_state *, const struct nodeips_state *,
               bool complete);

/* All objects have been listed and the switch was read; what is not wanted
 * goes from now on.  A node without a Node object, or without pod CIDRs, keeps
 * what it has: after a restart as while running. */
void local_adopt(struct local *);

/* The node as the pipeline sees it.  Its pod CIDRs stay in place until the
 * next local_run(), and its NodePort addresses until the next
 * nodeips_run(). */
const struct pipe_node *local_node(const struct local *);

/* True if nothing is missing that the node's flows are made of: without it
 * they can't take the place of a predecessor's. */
bool local_is_ready(const struct local *);

/* One line on gateway and pods. */
void local_format(const struct local *, struct ds *);

#endif /* src/agent/local.h */
