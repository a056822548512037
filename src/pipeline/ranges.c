/* SPDX-License-Identifier: Apache-2.0 */

/* Source ranges of a load balancer (loadBalancerSourceRanges), checked before
 * anything else is decided about a new connection, whoever sent it.
 *
 * ServiceLB sends the packet to LBSourceRange with the Service port's number.
 * A range there sends it back as checked, to the flows that decide; what is in
 * none is dropped.  So a range costs one flow, however many addresses and
 * verdicts the Service port has. */

#include "build.h"

void
ranges_build_check(struct build *b, const struct pipe_service *svc)
{
    build_set_field(b, PIPE_F_GROUP_ID,
                    build_group_id(svc, PIPE_SCOPE_CLUSTER));
    build_goto(b, PIPE_T_SOURCE_RANGE);
}

static void
begin(const struct pipe_service *svc, uint16_t priority, struct build *b)
{
    build_flow(b, PIPE_T_SOURCE_RANGE, priority);
    build_match_family(b, svc->family);
    build_match_field(b, PIPE_F_GROUP_ID,
                      build_group_id(svc, PIPE_SCOPE_CLUSTER));
}

static void
build_pass(struct build *b)
{
    build_set_field(b, PIPE_F_EP_STATE, PIPE_V_EP_STATE_CHECKED);
    build_resubmit(b, PIPE_T_SERVICE_LB);
}

/* The node's own packets have the gateway's address here instead of the one
 * that they began with, so that says nothing about them. */
static void
render_node_itself(const struct pipe_service *svc, struct build *b)
{
    begin(svc, PIPE_PRIO_HIGH, b);
    build_match_field(b, PIPE_F_PKT_SOURCE, PIPE_V_PKT_SOURCE_GATEWAY);
    build_match_field(b, PIPE_F_FROM_LOCAL, PIPE_V_FROM_LOCAL_YES);
    if (svc->node_in_ranges) {
        build_pass(b);
    }
    build_done(b);
}

static bool
is_restricted(const struct pipe_service *svc)
{
    for (size_t i = 0; i < svc->n_frontends; i++) {
        if (svc->frontends[i].restricted) {
            return true;
        }
    }
    return false;
}

void
ranges_render(const struct pipe_service *svc, struct build *b)
{
    if (!is_restricted(svc)) {
        return;
    }
    render_node_itself(svc, b);
    for (size_t i = 0; i < svc->n_source_ranges; i++) {
        begin(svc, PIPE_PRIO_NORMAL, b);
        build_match_src_cidr(b, &svc->source_ranges[i]);
        build_pass(b);
        build_done(b);
    }
}
