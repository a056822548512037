/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_MODEL_ENDPOINTS_H
#define OFPROXYD_MODEL_ENDPOINTS_H 1

/* Which endpoints may serve a Service port on this node.
 *
 * kube-proxy's algorithm (pkg/proxy/topology.go of 1.36, KEP-1669
 * terminating endpoints, KEP-2433 and KEP-3015 hints, KEP-2086 internal
 * traffic policy): matching by port name, readiness, the fallback to serving
 * and terminating endpoints, zone and node hints, traffic policies, and one
 * entry per address and port over all slices.  Pure. */

#include <stdbool.h>
#include <stddef.h>

#include "ofproxyd/model/model.h"

struct eps {
    struct ip ip;
    uint16_t port;
    bool local; /* On this node. */
};

/* Sorted by address, then port; no duplicates. */
struct eps_list {
    struct eps *eps;
    size_t n;
};

struct eps_choice {
    /* Which lists the Service port needs.  A list that is not needed is
     * empty. */
    bool uses_cluster, uses_local;
    struct eps_list cluster; /* Policy Cluster, topology applied. */
    struct eps_list local;   /* Policy Local. */
    /* Some node has an endpoint that would do: with an empty list for the
     * policy it decides between a reject (false) and a drop (true). */
    bool has_any;
};

/* Where the choice is made. */
struct eps_place {
    const char *node_name;
    const char *zone; /* "" if unknown. */
};

/* The node that 'model' is of, with the zone that its Node object has now.
 * Valid until the model changes. */
struct eps_place eps_own_place(const struct model *model);

/* Chooses for port 'port' of 'ms->svc', which must not be NULL, in 'family',
 * on the node 'here'.  '*ret' is the caller's to eps_choice_uninit(). */
void eps_choose(const struct model_service *ms, const struct svc_port *port,
                enum ip_family family, const struct eps_place *here,
                struct eps_choice *ret);
void eps_choice_uninit(struct eps_choice *);

/* Sets '*ret' to all endpoints that still serve, or are ready, whether or not
 * policy, topology and other endpoints let new connections go there: those
 * whose connections live on.  '*ret' is the caller's to free 'ret->eps'. */
void eps_list_alive(const struct model_service *ms,
                    const struct svc_port *port, enum ip_family family,
                    struct eps_list *ret);

/* Order of struct eps_list. */
int eps_compare(const struct eps *, const struct eps *);

/* Does 'svc' have any node port, external IP or (served) load-balancer
 * address of 'family' on 'port'?  (services.md 2.2 "ext") */
bool svc_port_is_external(const struct svc *svc, const struct svc_port *port,
                          enum ip_family family);

/* Does externalTrafficPolicy Local mean anything for 'svc', and does it have
 * that?  (services.md 1.2) */
bool svc_external_policy_is_local(const struct svc *svc);

#endif /* ofproxyd/model/endpoints.h */
