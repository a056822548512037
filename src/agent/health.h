/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_AGENT_HEALTH_H
#define OFPROXYD_AGENT_HEALTH_H 1

/* Decides, from what the agent's parts say, which families' changes wait. */

#include "ofproxyd/base/health.h"

/* What is known in one turn. */
struct health_facts {
    bool listed;    /* All objects were listed once: before that there is
                     * nothing to apply. */
    bool waits;     /* Something is to be rendered, sent or confirmed, or it is
                     * not known what the switch holds. */
    bool succeeded; /* The switch has confirmed something since the last
                     * turn: what waits now came later, or will come. */
    size_t n_refused[N_IP_FAMILIES]; /* Objects that the switch refuses. */
};

/* Brings 'h' up to date.
 *
 * A single object that the switch refuses is left out, named elsewhere, and no
 * illness of the node: all nodes would fall ill of it at once.  Several are,
 * as long as nothing else is accepted either. */
void health_follow(struct health *h, const struct health_facts *,
                   long long int now_ms);

#endif /* src/agent/health.h */
