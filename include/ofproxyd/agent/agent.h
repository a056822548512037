/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_AGENT_AGENT_H
#define OFPROXYD_AGENT_AGENT_H 1

/* The daemon without its process: what the API server and the switch's
 * database say, in; the bridge and the host's routes, out.
 *
 * Owns one of each layer's machines and decides when work flows from one to
 * the next: nothing before the lists and the first dump are complete, the
 * first change after a quiet spell at once, a storm in rounds. */

#include <stdbool.h>

#include <openvswitch/dynamic-string.h>

#include "ofproxyd/base/err.h"
#include "ofproxyd/base/health.h"
#include "ofproxyd/config/config.h"
#include "ofproxyd/config/kubeconfig.h"

struct agent;

struct agent_cfg {
    const struct cfg *cfg;               /* Must outlive the agent. */
    const struct kubeconfig *kubeconfig; /* Read by agent_create() only. */
    const char *node_name;
    uint32_t seed; /* Of all jitter. */
};

/* Returns 0 and sets '*ret', or a positive errno value and says why in
 * 'err'.  Connects to nothing yet. */
int agent_create(const struct agent_cfg *, struct agent **ret, struct err *err)
    OVS_WARN_UNUSED_RESULT;

/* NULL is allowed.  Leaves bridge and host as they are. */
void agent_destroy(struct agent *);

/* Does what can be done without blocking, a bounded amount of it. */
void agent_run(struct agent *);
/* Arranges for poll_block() to wake up when agent_run() has work. */
void agent_wait(struct agent *);

/* Sets '*ret' to how the daemon's work is going. */
void agent_get_health(const struct agent *, struct health_state *ret);

/* Takes the next health check of a Service that has changed, come or gone, or
 * returns false.  Its strings are valid until the next call of a function that
 * changes the agent. */
bool agent_pop_health_check(struct agent *, struct health_check *ret);

/* Addresses of this node on which NodePorts are served.  Valid until the next
 * agent_run(). */
const struct ip *agent_node_port_ips(const struct agent *, size_t *ret_n);

/* A turn of the loop, all that is served included, took 'us': for the
 * metrics. */
void agent_count_turn(struct agent *, long long int us);

/* Appends all metrics of the agent in Prometheus' text format.  Returns false
 * and appends nothing if the switch was asked for some of them: to be called
 * again when agent_metrics_ready() returns true, which is within a second. */
bool agent_format_metrics(struct agent *, struct ds *);
bool agent_metrics_ready(const struct agent *); /* See above. */

/* What an operator asks for, as text that ends in a newline.  Those that take
 * a Service return ENOENT if there is none of that name. */
void agent_format_nodes(const struct agent *, struct ds *);
void agent_format_services(const struct agent *, struct ds *);
int agent_format_endpoints(const struct agent *, const char *ns,
                           const char *name, struct ds *)
    OVS_WARN_UNUSED_RESULT;
int agent_format_flows(const struct agent *, const char *ns, const char *name,
                       struct ds *) OVS_WARN_UNUSED_RESULT;
int agent_format_service(const struct agent *, const char *ns,
                         const char *name, struct ds *) OVS_WARN_UNUSED_RESULT;
int agent_format_explanation(const struct agent *, const char *ns,
                             const char *name, struct ds *)
    OVS_WARN_UNUSED_RESULT;
void agent_format_clusters(const struct agent *, struct ds *);
void agent_format_sync(const struct agent *, struct ds *);

/* A health-check node port can't be listened on: the owner of the Service is
 * told by an Event (kube-proxy's reason). */
void agent_check_failed(struct agent *, const struct health_check *,
                        const char *why);

/* For ofproxyctl, as lines "KEY: VALUE". */

/* How to trace a new connection from 'client[0]', which is "NAMESPACE/POD",
 * the address of a pod of this node, "host", or an address outside, to
 * 'target', "ADDRESS:PORT[/PROTOCOL]" (of IPv6 "[ADDRESS]:PORT").  With
 * 'client[1]', unless it is NULL, 'client[0]' is any address, and the packet
 * comes by the tunnel from that address of another node or of a gateway of
 * another cluster.  Returns EINVAL or ENOENT with 'err' if there is no such
 * thing. */
int agent_format_trace(const struct agent *, const char *const client[2],
                       const char *target, struct ds *, struct err *err)
    OVS_WARN_UNUSED_RESULT;

/* A packet as it leaves the bridge, in text; 'target' as above. */
struct agent_trace_hop {
    const char *port; /* Number of the port. */
    const char *tunnel_dst, *src, *target;
};
/* Where it goes ("to"), and how to trace it there ("next"); nothing unless it
 * leaves by the tunnel port.  Returns EINVAL with 'err' for anything else. */
int agent_format_trace_next(const struct agent *,
                            const struct agent_trace_hop *, struct ds *,
                            struct err *err) OVS_WARN_UNUSED_RESULT;

/* Whose each of 'n' words is: "cookie:0xNUMBER", "group:NUMBER" or
 * "port:NUMBER".  Returns EINVAL with 'err' for another word. */
int agent_format_names(const struct agent *, const char *const words[],
                       size_t n, struct ds *, struct err *err)
    OVS_WARN_UNUSED_RESULT;

/* The groups of a Service, by number; ENOENT as above. */
int agent_format_groups(const struct agent *, const char *ns, const char *name,
                        struct ds *) OVS_WARN_UNUSED_RESULT;

#endif /* ofproxyd/agent/agent.h */
