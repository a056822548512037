/* SPDX-License-Identifier: Apache-2.0 */

/* From the destination address to the output port.
 *
 * A node is one hop, whether its bridge or its host is the router: the bridge
 * counts what it routes between pods and tunnels, and nothing that enters or
 * leaves by the gateway port, where the host counts, or is the end. */

#include "build.h"

#include <flow.h>
#include <odp-netlink.h>
#include <packets.h>

/* To the host: it routes what is nobody's here. */
static void
build_to_gateway(const struct pipe_node *node, struct build *b)
{
    build_set_eth_dst(b, node->gateway_mac);
    build_set_field(b, PIPE_F_PKT_DEST, PIPE_V_PKT_DEST_GATEWAY);
    build_goto(b, PIPE_T_SNAT_MARK);
}

static void
render_gateway_routes(const struct pipe_node *node, struct build *b,
                      enum ip_family family)
{
    if (!ip_is_none(&node->gateway_ips[family])) {
        build_flow(b, PIPE_T_L3_FORWARDING, PIPE_PRIO_HIGH);
        build_match_dst(b, &node->gateway_ips[family]);
        build_to_gateway(node, b);
        build_done(b);
    }

    /* Answers leave by the gateway if the question came that way, wherever the
     * endpoint is.  Where it came by the tunnel no flow is needed: its source
     * is in a peer's pod network, where pods' own packets find their way. */
    build_flow(b, PIPE_T_L3_FORWARDING, PIPE_PRIO_HIGH);
    build_match_family(b, family);
    build_match_ct_state(b, CS_REPLY_DIR | CS_TRACKED, 0);
    build_match_field(b, PIPE_F_CT_SOURCE, PIPE_V_CT_SOURCE_GATEWAY);
    build_to_gateway(node, b);
    build_done(b);

    /* A Service's endpoint outside the pod network; with networkPolicyOnly
     * everything that is not for a pod of this node. */
    build_flow(b, PIPE_T_L3_FORWARDING, PIPE_PRIO_LOW);
    build_match_family(b, family);
    if (node->mode != CFG_NETWORK_POLICY_ONLY) {
        build_match_field(b, PIPE_F_CT_SERVICE, PIPE_V_CT_SERVICE_YES);
        build_match_field(b, PIPE_F_REWRITE_MAC, PIPE_V_REWRITE_MAC_YES);
    }
    build_to_gateway(node, b);
    build_done(b);
}

/* The virtual addresses are nobody's: what no Service and no connection has
 * translated would go back and forth between host and bridge. */
static void
render_virtual(struct build *b, enum ip_family family)
{
    struct ip ips[] = { pipe_virtual_ip(family), pipe_node_port_ip(family) };

    for (size_t i = 0; i < ARRAY_SIZE(ips); i++) {
        build_flow(b, PIPE_T_L3_FORWARDING, PIPE_PRIO_NORMAL);
        build_match_dst(b, &ips[i]);
        build_done(b);
    }
}

/* A packet of a Service connection that comes here without being marked so was
 * between two tables of a predecessor when ours came into force.  With the MAC
 * addresses that it has it would go to the host, and from there back into the
 * bridge as a connection to the endpoint, whose answers nobody could tell from
 * the Service's. */
static void
render_stranded(struct build *b)
{
    for (int f = 0; f < N_IP_FAMILIES; f++) {
        build_flow(b, PIPE_T_L3_FORWARDING, PIPE_PRIO_HIGH);
        build_match_family(b, f);
        build_match_ct_state(b, CS_TRACKED, 0);
        build_match_field(b, PIPE_F_CT_SERVICE, PIPE_V_CT_SERVICE_YES);
        build_match_field(b, PIPE_F_REWRITE_MAC, PIPE_V_REWRITE_MAC_NO);
        build_set_field(b, PIPE_F_REWRITE_MAC, PIPE_V_REWRITE_MAC_YES);
        build_resubmit(b, PIPE_T_L3_FORWARDING);
        build_done(b);
    }
}

static void
render_l3_miss(struct build *b)
{
    build_flow(b, PIPE_T_L3_FORWARDING, PIPE_PRIO_MISS);
    build_set_field(b, PIPE_F_PKT_DEST, PIPE_V_PKT_DEST_GATEWAY);
    build_goto(b, PIPE_T_L2_FORWARDING);
    build_done(b);
}

/* What the host sent is counted already. */
static void
render_dec_ttl(struct build *b)
{
    build_flow(b, PIPE_T_DEC_TTL, PIPE_PRIO_HIGH);
    build_match_field(b, PIPE_F_PKT_SOURCE, PIPE_V_PKT_SOURCE_GATEWAY);
    build_goto(b, PIPE_T_SNAT_MARK);
    build_done(b);

    for (int f = 0; f < N_IP_FAMILIES; f++) {
        struct ofpact_cnt_ids *ids;
        uint16_t id = 0;

        build_flow(b, PIPE_T_DEC_TTL, PIPE_PRIO_NORMAL);
        build_match_family(b, f);
        ids = ofpact_put_DEC_TTL(&b->ofpacts);
        ofpbuf_put(&b->ofpacts, &id, sizeof id);
        ids = b->ofpacts.header;
        ids->n_controllers = 1;
        ofpact_finish_DEC_TTL(&b->ofpacts, &ids);
        build_goto(b, PIPE_T_SNAT_MARK);
        build_done(b);
    }
}

static void
build_l2_output(struct build *b, uint16_t ofport)
{
    build_set_field(b, PIPE_F_TARGET_PORT, ofport);
    build_set_field(b, PIPE_F_OUTPUT, PIPE_V_OUTPUT_TO_PORT);
    build_goto(b, PIPE_T_CT_COMMIT);
}

static void
render_l2(struct build *b, struct eth_addr mac, uint16_t ofport)
{
    build_flow(b, PIPE_T_L2_FORWARDING, PIPE_PRIO_NORMAL);
    match_set_dl_dst(&b->match, mac);
    build_l2_output(b, ofport);
    build_done(b);
}

/* Only with a tunnel destination: the host uses the same MAC address for
 * Services, also for one that is gone. */
static void
render_l2_tunnel(const struct pipe_node *node, struct build *b)
{
    build_flow(b, PIPE_T_L2_FORWARDING, PIPE_PRIO_NORMAL);
    match_set_dl_dst(&b->match, pipe_virtual_mac());
    build_match_field(b, PIPE_F_PKT_DEST, PIPE_V_PKT_DEST_TUNNEL);
    build_l2_output(b, node->tunnel_ofport);
    build_done(b);
}

/* The virtual MAC address as the source tells the host that this client's
 * address is not the bridge's, and that answers have to come here. */
static void
render_hairpin(struct build *b, bool kept_source)
{
    build_flow(b, PIPE_T_OUTPUT, PIPE_PRIO_HIGH);
    build_match_field(b, PIPE_F_CT_HAIRPIN, PIPE_V_CT_HAIRPIN_YES);
    build_match_field(b, PIPE_F_CT_SNAT,
                      kept_source ? PIPE_V_CT_SNAT_NO : PIPE_V_CT_SNAT_YES);
    build_match_field(b, PIPE_F_OUTPUT, PIPE_V_OUTPUT_TO_PORT);
    if (kept_source) {
        build_set_eth_src(b, pipe_virtual_mac());
    }
    ofpact_put_OUTPUT(&b->ofpacts)->port = OFPP_IN_PORT;
    build_done(b);
}

static void
render_output(struct build *b)
{
    struct ofpact_output_reg *output;

    render_hairpin(b, false);
    render_hairpin(b, true);

    build_flow(b, PIPE_T_OUTPUT, PIPE_PRIO_NORMAL);
    build_match_field(b, PIPE_F_OUTPUT, PIPE_V_OUTPUT_TO_PORT);
    output = ofpact_put_OUTPUT_REG(&b->ofpacts);
    output->max_len = UINT16_MAX;
    output->src.field = mf_from_id(pipe_fields[PIPE_F_TARGET_PORT].reg);
    output->src.n_bits = 32;
    build_done(b);
}

/* Pods of this node among themselves: their MAC addresses are right unless a
 * Service was in between.  Without a pod network of the node's own they are
 * not: each pod has routed to somewhere else. */
static void
render_pod_network(const struct pipe_node *node, struct build *b)
{
    if (node->mode == CFG_NETWORK_POLICY_ONLY) {
        return;
    }
    for (size_t i = 0; i < node->n_pod_cidrs; i++) {
        build_flow(b, PIPE_T_L3_FORWARDING, PIPE_PRIO_NORMAL);
        build_match_dst_cidr(b, &node->pod_cidrs[i]);
        build_match_field(b, PIPE_F_REWRITE_MAC, 0);
        build_goto(b, PIPE_T_L2_FORWARDING);
        build_done(b);
    }
}

void
routing_render_node(const struct pipe_node *node, struct build *b)
{
    render_l3_miss(b);
    render_stranded(b);
    render_dec_ttl(b);
    render_output(b);
    render_pod_network(node, b);
    for (int f = 0; f < N_IP_FAMILIES; f++) {
        render_virtual(b, f);
    }
    if (node->gateway_ofport) {
        for (int f = 0; f < N_IP_FAMILIES; f++) {
            render_gateway_routes(node, b, f);
        }
        render_l2(b, node->gateway_mac, node->gateway_ofport);
    }
    if (node->tunnel_ofport) {
        render_l2_tunnel(node, b);
    }
}

void
routing_render_peer(const struct pipe_node *node, const struct pipe_peer *peer,
                    struct build *b)
{
    build_flow(b, PIPE_T_L3_FORWARDING, PIPE_PRIO_NORMAL);
    build_match_dst_cidr(b, &peer->pod_cidr);
    switch (peer->path) {
    case PIPE_TUNNEL:
        build_set_eth_src(b, node->gateway_mac);
        build_set_eth_dst(b, pipe_virtual_mac());
        build_set_tunnel_dst(b, &peer->tunnel_dst);
        build_set_field(b, PIPE_F_PKT_DEST, PIPE_V_PKT_DEST_TUNNEL);
        build_goto(b, PIPE_T_DEC_TTL);
        break;
    case PIPE_ROUTED: build_to_gateway(node, b); break;
    }
    build_done(b);
}

void
routing_render_pod(const struct pipe_node *node, const struct pipe_pod *pod,
                   struct build *b)
{
    for (size_t i = 0; i < pod->n_ips; i++) {
        build_flow(b, PIPE_T_L3_FORWARDING, PIPE_PRIO_NORMAL);
        build_match_dst(b, &pod->ips[i]);
        if (node->mode != CFG_NETWORK_POLICY_ONLY) {
            build_match_field(b, PIPE_F_REWRITE_MAC, PIPE_V_REWRITE_MAC_YES);
        }
        build_set_eth_src(b, node->gateway_mac);
        build_set_eth_dst(b, pod->mac);
        build_goto(b, PIPE_T_DEC_TTL);
        build_done(b);
    }
    render_l2(b, pod->mac, pod->ofport);
}
