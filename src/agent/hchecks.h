/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_AGENT_HCHECKS_H
#define OFPROXYD_AGENT_HCHECKS_H 1

/* Which Services have a health-check node port, and how many endpoints each
 * has on this node: out of the model, as a queue of what changed.  Pure. */

#include "ofproxyd/base/health.h"
#include "ofproxyd/model/model.h"

struct hchecks;

struct hchecks *hchecks_create(void);
void hchecks_destroy(struct hchecks *); /* NULL is allowed. */

/* Looks at a Service that may have changed; 'node_name' is this node. */
void hchecks_update(struct hchecks *, const struct model_service *,
                    bool served, const char *node_name);

/* Takes the next check that changed, one Service and family, or returns false.
 * Its strings are valid until the next call of a function of this module. */
bool hchecks_pop(struct hchecks *, struct health_check *ret);

/* Returns how many different addresses of ready endpoints of 'family' on node
 * 'node_name' stand in the Service's slices, whatever their ports: kube-proxy
 * counts so. */
size_t hchecks_count_local(const struct model_service *, enum ip_family family,
                           const char *node_name);

#endif /* src/agent/hchecks.h */
