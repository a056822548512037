/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_AGENT_SVCCIDRS_H
#define OFPROXYD_AGENT_SVCCIDRS_H 1

/* The networks that cluster IPs are of: those of the ServiceCIDR objects, and
 * serviceCIDR and serviceCIDRv6 of the configuration.
 *
 * One with an address in it that is somebody else's is left out, and named:
 * this node's transport address, the API server's (unless a Service is in
 * front of it), a Node's, or a pod network.  A route to it would cut the node
 * off.  (Other addresses of this node may be in it: kube-proxy's mode ipvs and
 * local DNS caches put cluster IPs on links of the host.) */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <openvswitch/dynamic-string.h>

#include "netset.h"
#include "ofproxyd/base/ip.h"
#include "ofproxyd/config/config.h"
#include "ofproxyd/host/uplink.h"
#include "ofproxyd/model/model.h"

struct svccidrs;

/* All must live longer.  'server' is the API server's address, "::" if not
 * known. */
struct svccidrs *svccidrs_create(const struct model *, const struct cfg *,
                                 const struct ip *server);
void svccidrs_destroy(struct svccidrs *); /* NULL is allowed. */

/* Follows the model and the transport link.  To be called only when all
 * objects have been listed.  Cheap when nothing changed. */
void svccidrs_run(struct svccidrs *, const struct uplink_state *);

/* Returns those that can be used, without host bits, in ascending order, none
 * in another one; valid until the next svccidrs_run(). */
const struct cidr *svccidrs_get(const struct svccidrs *, size_t *ret_n);

/* Pushes the addresses and pod networks of all Nodes, which are neither for
 * Services nor another cluster's.  The names are valid until the model
 * changes. */
void svccidrs_push_nodes(const struct svccidrs *, struct netset *);

/* Returns true and appends to 'why' what speaks against the network 'net',
 * without host bits, be it for Services or for another cluster's: something of
 * this cluster other than Services is in it.  'nodes' is what
 * svccidrs_push_nodes() makes. */
bool svccidrs_find_flaw(const struct svccidrs *, const struct netset *nodes,
                        const struct cidr *net, struct ds *why);

/* Increases whenever svccidrs_find_flaw() may have another answer with the
 * same 'nodes'. */
uint64_t svccidrs_flaws_seqno(const struct svccidrs *);

/* Increases whenever svccidrs_get() has another answer. */
uint64_t svccidrs_seqno(const struct svccidrs *);

/* True if 'ip' is in one of them. */
bool svccidrs_contain(const struct svccidrs *, const struct ip *ip);

/* Appends one line that names them, and those that are left out. */
void svccidrs_format(const struct svccidrs *, struct ds *);

#endif /* src/agent/svccidrs.h */
