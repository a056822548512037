/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_AGENT_MC_H
#define OFPROXYD_AGENT_MC_H 1

/* Other clusters: what this node does between them, and the way to each.
 *
 * The Gateway and ClusterInfoImport objects of Antrea Multi-cluster go in; a
 * role for the node, and one owner in the flow table for each other cluster,
 * come out.  Of several Gateways the oldest is the active one, of equal age
 * the one whose name comes first.
 *
 * A cluster's network that overlaps one of this cluster's (Services, pods,
 * addresses of nodes) or of a cluster that was here before is left out, and
 * named: the first keeps working.  Without multicluster all functions do
 * nothing. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <openvswitch/dynamic-string.h>

#include "ofproxyd/config/config.h"
#include "ofproxyd/flow/flowtab.h"
#include "ofproxyd/model/model.h"
#include "ofproxyd/pipeline/pipeline.h"
#include "svccidrs.h"

struct mc;

/* All must live longer. */
struct mc *mc_create(const struct model *, const struct cfg *,
                     const struct svccidrs *, struct flowtab *);
void mc_destroy(struct mc *); /* NULL is allowed. */

/* Follows the model and the networks of Services.  To be called only when all
 * objects have been listed, after svccidrs_run().  Cheap when nothing
 * changed. */
void mc_run(struct mc *);

/* What mc_run() found; the addresses are "::" unless this node is the gateway
 * or, for the second, a regular node. */
enum pipe_mc_role mc_role(const struct mc *);
const struct ip *mc_gateway_ip(const struct mc *);
const struct ip *mc_internal_ip(const struct mc *);

/* Increases whenever one of those changes. */
uint64_t mc_seqno(const struct mc *);

/* Puts what is wanted for 'node', which has that role, into the flow table.
 * Returns true if the wishes for the bridge changed. */
bool mc_render(struct mc *, const struct pipe_node *node);

/* All else has been listed and the switch was read; what is not wanted goes
 * from now on.  As long as it is not known which Gateways and clusters there
 * are, flows between clusters that are there stay; 'node' is as in
 * mc_render(). */
void mc_adopt(struct mc *, const struct pipe_node *node);

/* Returns the name of the ClusterInfoImport that an owner in the flow table
 * stands for, or NULL. */
const char *mc_find_owner(const struct mc *, uint64_t owner);

/* Returns the ID of the other cluster in one of whose networks 'ip' is, or
 * NULL. */
const char *mc_find_network(const struct mc *, const struct ip *ip);

/* Another cluster, as far as it is used. */
struct mc_peer {
    char *name; /* Of the object. */
    char *cluster_id;
    int64_t created_s;
    uint32_t object_id;
    uint64_t owner;     /* In the flow table. */
    struct cidr *cidrs; /* Ascending, none in another one. */
    size_t n_cidrs;
    struct ip *gateways; /* At least one if there are networks. */
    size_t n_gateways;
    bool rendered;
};

/* Calls 'cb' for each other cluster. */
void mc_for_each(const struct mc *,
                 void (*cb)(const struct mc_peer *, void *aux), void *aux);

/* What there is; valid until the next mc_run(). */
struct mc_state {
    enum pipe_mc_role role;
    const char *gateway; /* Name of the active Gateway, NULL if there is
                          * none... */
    struct ip gateway_ip, internal_ip; /* ...and its addresses. */
    size_t n_clusters;
    size_t n_left_out;    /* Networks that are not used. */
    bool keeps;           /* Flows of before, until all is known. */
    const char *problems; /* A line each. */
};
/* Returns false without multicluster. */
bool mc_get_state(const struct mc *, struct mc_state *ret);

/* mctext.c: append the role, in one line; another cluster, in one line. */
void mc_format_role(const struct mc_state *, struct ds *);
void mc_format_peer(const struct mc_peer *, struct ds *);

#endif /* src/agent/mc.h */
