/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_BASE_HEALTH_H
#define OFPROXYD_BASE_HEALTH_H 1

/* Is the node's proxying in good order?
 *
 * kube-proxy's rule (pkg/proxy/healthcheck of 1.36): a family is ill if, and
 * only if, a change has been waiting to be applied for longer than a limit.
 * One that has nothing to do is healthy however long ago it did something, and
 * so is one that is still starting.
 *
 * Pure: times are ms of a monotonic clock, and never 0. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ofproxyd/base/ip.h"

/* Twice kube-proxy's syncPeriod of 30 s. */
#define HEALTH_LIMIT_MS 60000

struct health_family {
    long long int queued_ms;  /* When the oldest change that waits came; 0:
                               * nothing waits. */
    long long int updated_ms; /* When last all was applied; 0: never. */
};

/* All zero at first. */
struct health {
    struct health_family families[N_IP_FAMILIES];
};

/* A change waits in this family.  Only the first call counts until the family
 * is updated. */
void health_queued(struct health *, enum ip_family, long long int now_ms);

/* All that waited in this family has been applied. */
void health_updated(struct health *, enum ip_family, long long int now_ms);

/* True if the family is in good order. */
bool health_is_ok(const struct health *, enum ip_family, long long int now_ms);

/* What is said to those who ask.  Times are us since 1970. */
struct health_state {
    int64_t now_us;
    bool node_eligible; /* The Node is neither to be deleted nor gone. */
    struct {
        bool known;         /* Was updated once, or is ill. */
        bool healthy;       /* Always, if not known. */
        int64_t updated_us; /* 0: never. */
    } families[N_IP_FAMILIES];
};

/* Sets all of '*ret' but 'node_eligible'. */
void health_get_state(const struct health *, long long int now_ms,
                      int64_t now_us, struct health_state *ret);

/* True if every family is healthy, whatever becomes of the Node. */
bool health_state_is_ok(const struct health_state *);

/* What a load balancer asks on a Service's health-check node port. */
struct health_check {
    const char *ns, *name; /* Of the Service. */
    enum ip_family family;
    uint16_t port;  /* healthCheckNodePort; 0: there is none any more. */
    size_t n_local; /* Addresses of ready endpoints on this node. */
};

#endif /* ofproxyd/base/health.h */
