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
    bool local;  /* On this node. */
    bool nested; /* A cluster IP of this cluster, whose own endpoints are
                  * chosen from in the same pass. */
};

/* Sorted by address, then port; no duplicates. */
struct eps_list {
    struct eps *eps;
    size_t n;
};

/* True if an endpoint of the list is nested. */
bool eps_list_has_nested(const struct eps_list *);

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

    /* Networks of this cluster's Services: an endpoint there is nested.  None,
     * if that is nobody's business. */
    const struct cidr *service_cidrs;
    size_t n_service_cidrs;
};

/* The node that 'model' is of, with the zone that its Node object has now, and
 * without networks of Services.  Valid until the model changes. */
struct eps_place eps_own_place(const struct model *model);

/* Chooses for 'port', one of the ports of 'ms->svc', in 'family', on the node
 * 'here'.  '*ret' is the caller's to eps_choice_uninit(). */
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

/* Why an endpoint is in a list, or isn't, in the order in which they are
 * decided.
 *
 *         symbol        what it is for a list */
#define EPS_REASONS                                                          \
    EPS_REASON(USED, "used")                                                 \
    EPS_REASON(DRAINING, "used, though it terminates: it still serves, and " \
                         "no ready one is left")                             \
    EPS_REASON(UNNEEDED, "no address of this port asks for this policy")     \
    EPS_REASON(OTHER_FAMILY, "its slice is of the other family")             \
    EPS_REASON(NO_PORT, "its slice has no port of this name")                \
    EPS_REASON(OTHER_PROTO, "the slice's port of this name is of another "   \
                            "protocol")                                      \
    EPS_REASON(DUPLICATE, "the same address and port stands elsewhere, in "  \
                          "a better state or a newer slice")                 \
    EPS_REASON(NODELESS, "it doesn't say on which node it is, and policy "   \
                         "Local wants this one")                             \
    EPS_REASON(REMOTE, "it is on another node, and policy Local wants this " \
                       "one")                                                \
    EPS_REASON(ENDED, "it terminates, and doesn't serve any more")           \
    EPS_REASON(UNREADY, "not ready")                                         \
    EPS_REASON(SPARED, "it terminates, and there are ready ones")            \
    EPS_REASON(OTHER_NODE, "hints give this node others: every ready one "   \
                           "has node hints")                                 \
    EPS_REASON(OTHER_ZONE, "hints give this zone others: every ready one "   \
                           "has zone hints")

enum eps_reason {
#define EPS_REASON(SYM, WORDS) EPS_##SYM,
    EPS_REASONS
#undef EPS_REASON
};

/* Returns the words for a reason. */
const char *eps_reason_string(enum eps_reason);

/* True for the reasons to be in a list. */
bool eps_reason_is_used(enum eps_reason);

/* What became of one endpoint of one slice. */
struct eps_verdict {
    struct eps eps; /* Without a port: 0. */
    const struct slice *slice;
    const struct slice_endpoint *endpoint; /* Of 'slice'. */
    enum eps_reason cluster, local;        /* For which list. */
    const struct slice *other;             /* Of a duplicate, where the one
                                            * is that stands for it. */
};

struct eps_explanation {
    struct eps_verdict *verdicts; /* Sorted as struct eps_list, then those of
                                   * slices that don't match. */
    size_t n;
};

/* Tells of all endpoints of 'ms' why eps_choose(), with the same arguments,
 * puts them into its lists or not.  The same code decides.  '*ret', which
 * points into the model, is the caller's to eps_explanation_uninit(). */
void eps_explain(const struct model_service *ms, const struct svc_port *port,
                 enum ip_family family, const struct eps_place *here,
                 struct eps_explanation *ret);
void eps_explanation_uninit(struct eps_explanation *);

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
