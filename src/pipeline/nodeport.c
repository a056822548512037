/* SPDX-License-Identifier: Apache-2.0 */

/* Packets to this node, which a NodePort may be meant by.  The node's
 * addresses are marked once, so that a NodePort is one flow in ServiceLB
 * whatever their number. */

#include "build.h"

static void
render_address(struct build *b, const struct ip *ip)
{
    build_flow(b, PIPE_T_NODE_PORT, PIPE_PRIO_NORMAL);
    build_match_dst(b, ip);
    build_set_field(b, PIPE_F_TO_NODE_PORT, PIPE_V_TO_NODE_PORT_YES);
    build_set_field(b, PIPE_F_EP_STATE, PIPE_V_EP_STATE_TO_SELECT);
    build_goto(b, PIPE_T_SERVICE_LB);
    build_done(b);
}

void
nodeport_render_node(const struct pipe_node *node, struct build *b)
{
    build_flow(b, PIPE_T_NODE_PORT, PIPE_PRIO_MISS);
    build_set_field(b, PIPE_F_EP_STATE, PIPE_V_EP_STATE_TO_SELECT);
    build_goto(b, PIPE_T_SERVICE_LB);
    build_done(b);

    if (!node->serves_node_ports) {
        return;
    }
    /* What the host turns its own addresses into. */
    for (int f = 0; f < N_IP_FAMILIES; f++) {
        struct ip ip = pipe_node_port_ip(f);

        render_address(b, &ip);
    }
    for (size_t i = 0; i < node->n_node_port_ips; i++) {
        render_address(b, &node->node_port_ips[i]);
    }
}
