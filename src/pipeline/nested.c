/* SPDX-License-Identifier: Apache-2.0 */

/* Cluster IPs as endpoints of other Services, as Antrea Multi-cluster makes
 * them: an imported Service's endpoints are the cluster IPs of the member
 * clusters, this one's among them.
 *
 * A cluster IP of this cluster can't be translated to: nobody would look it
 * up again.  Its bucket, or the flow of a remembered one, puts it into the
 * registers and leads to EndpointDNAT, where the Service that has this
 * cluster IP has a flow, which chooses from its endpoints.  So the connection
 * is translated once, from the first Service's address to the last endpoint.
 *
 * One step is as far as it goes: a Service with a cluster IP among its own
 * endpoints rejects what another one sends, so that no two can send a packet
 * to each other for ever. */

#include "build.h"

#include <flow.h>

bool
nested_has(const struct pipe_target *target)
{
    for (size_t i = 0; i < target->n_eps; i++) {
        if (target->eps[i].nested) {
            return true;
        }
    }
    return false;
}

static void
build_nested_reject(struct build *b)
{
    build_set_field(b, PIPE_F_EP_STATE, PIPE_V_EP_STATE_TO_SELECT);
    build_set_field(b, PIPE_F_SVC_NO_EP, PIPE_V_SVC_NO_EP_YES);
    build_resubmit(b, PIPE_T_ENDPOINT_DNAT);
}

/* A cluster IP that no Service has. */
void
nested_render_node(const struct pipe_node *node, struct build *b)
{
    if (node->nests) {
        build_flow(b, PIPE_T_ENDPOINT_DNAT, PIPE_PRIO_LOW);
        build_match_field(b, PIPE_F_EP_STATE, PIPE_V_EP_STATE_NESTED);
        build_nested_reject(b);
        build_done(b);
    }
}

static void
build_nested_select(const struct pipe_service *svc, uint32_t group_id,
                    struct build *b)
{
    build_set_field(b, PIPE_F_GROUP_ID, group_id);
    if (svc->affinity_s) {
        build_resubmit(b, PIPE_T_AFFINITY);
        build_resubmit(b, PIPE_T_ENDPOINT_DNAT);
    } else {
        build_set_field(b, PIPE_F_EP_STATE, PIPE_V_EP_STATE_SELECTED);
        ofpact_put_GROUP(&b->ofpacts)->group_id = group_id;
    }
}

static void
render_frontend(const struct pipe_service *svc,
                const struct pipe_frontend *frontend, struct build *b)
{
    const struct pipe_target *target = &svc->targets[frontend->scope];

    build_flow(b, PIPE_T_ENDPOINT_DNAT, PIPE_PRIO_HIGH);
    build_match_proto(b, svc->family, svc->proto);
    build_match_chosen(b, &frontend->ip, frontend->port);
    build_match_field(b, PIPE_F_EP_STATE, PIPE_V_EP_STATE_NESTED);
    if (target->verdict == PIPE_SELECT && !nested_has(target)) {
        build_nested_select(svc, build_group_id(svc, frontend->scope), b);
    } else if (target->verdict != PIPE_DROP) {
        build_nested_reject(b);
    }
    build_done(b);
}

void
nested_render(const struct pipe_service *svc, struct build *b)
{
    for (size_t i = 0; svc->nestable && i < svc->n_frontends; i++) {
        if (svc->frontends[i].kind == PIPE_CLUSTER_IP) {
            render_frontend(svc, &svc->frontends[i], b);
        }
    }
}
