/* SPDX-License-Identifier: Apache-2.0 */

/* From the root to the guards: which kind of packet, from where, and may it
 * claim the addresses that it does?  Also ARP and neighbour discovery, which
 * end here. */

#include "build.h"

#include <netinet/icmp6.h>

#include <flow.h>
#include <packets.h>

static void
render_root(struct build *b)
{
    build_flow(b, PIPE_T_ROOT, PIPE_PRIO_NORMAL);
    match_set_dl_type(&b->match, htons(ETH_TYPE_ARP));
    build_goto(b, PIPE_T_ARP_SPOOF_GUARD);
    build_done(b);

    for (int f = 0; f < N_IP_FAMILIES; f++) {
        build_flow(b, PIPE_T_ROOT, PIPE_PRIO_NORMAL);
        build_match_family(b, f);
        build_goto(b, PIPE_T_CLASSIFIER);
        build_done(b);
    }
}

/* ARP. */

/* Turns a request for 'target', any address if NULL, into its own answer. */
static void
render_arp_answer(struct build *b, const struct ip *target)
{
    struct eth_addr mac = pipe_virtual_mac();
    ovs_be16 reply = htons(ARP_OP_REPLY);
    struct ofpbuf *a = &b->ofpacts;

    build_flow(b, PIPE_T_ARP_RESPONDER, PIPE_PRIO_NORMAL);
    match_set_dl_type(&b->match, htons(ETH_TYPE_ARP));
    match_set_nw_proto(&b->match, ARP_OP_REQUEST);
    build_move(b, MFF_ETH_SRC, MFF_ETH_DST);
    build_set_eth_src(b, mac);
    ofpact_put_set_field(a, mf_from_id(MFF_ARP_OP), &reply, NULL);
    build_move(b, MFF_ARP_SHA, MFF_ARP_THA);
    ofpact_put_set_field(a, mf_from_id(MFF_ARP_SHA), &mac, NULL);
    if (target) {
        ovs_be32 spa = ip_v4(target);

        match_set_nw_dst(&b->match, spa);
        build_move(b, MFF_ARP_SPA, MFF_ARP_TPA);
        ofpact_put_set_field(a, mf_from_id(MFF_ARP_SPA), &spa, NULL);
    } else {
        build_move(b, MFF_ARP_SPA, pipe_fields[PIPE_F_SWAP].reg);
        build_move(b, MFF_ARP_TPA, MFF_ARP_SPA);
        build_move(b, pipe_fields[PIPE_F_SWAP].reg, MFF_ARP_TPA);
    }
    ofpact_put_OUTPUT(a)->port = OFPP_IN_PORT;
    build_done(b);
}

static void
render_arp_responder(const struct pipe_node *node, struct build *b)
{
    if (node->mode == CFG_NETWORK_POLICY_ONLY) {
        /* The bridge is the next hop to everywhere, whatever address the
         * primary network gave to its router. */
        render_arp_answer(b, NULL);
    } else {
        struct ip vip = pipe_virtual_ip(IP_V4);

        render_arp_answer(b, &vip);
    }

    build_flow(b, PIPE_T_ARP_RESPONDER, PIPE_PRIO_LOW);
    match_set_dl_type(&b->match, htons(ETH_TYPE_ARP));
    build_output_normal(b);
    build_done(b);
}

/* A port that asks for its own address announces it, or wants to know whether
 * another has it: answered for any address it would be told so. */
static void
render_arp_announcement(const struct pipe_node *node, struct build *b,
                        uint16_t ofport, const struct ip *ip)
{
    if (node->mode != CFG_NETWORK_POLICY_ONLY) {
        return;
    }
    build_flow(b, PIPE_T_ARP_RESPONDER, PIPE_PRIO_HIGH);
    match_set_in_port(&b->match, u16_to_ofp(ofport));
    match_set_dl_type(&b->match, htons(ETH_TYPE_ARP));
    match_set_nw_proto(&b->match, ARP_OP_REQUEST);
    match_set_nw_dst(&b->match, ip_v4(ip));
    build_output_normal(b);
    build_done(b);
}

static void
render_arp_guard(struct build *b, uint16_t ofport, struct eth_addr mac,
                 const struct ip *ip)
{
    build_flow(b, PIPE_T_ARP_SPOOF_GUARD, PIPE_PRIO_NORMAL);
    match_set_in_port(&b->match, u16_to_ofp(ofport));
    match_set_dl_type(&b->match, htons(ETH_TYPE_ARP));
    match_set_nw_src(&b->match, ip_v4(ip));
    match_set_arp_sha(&b->match, mac);
    build_goto(b, PIPE_T_ARP_RESPONDER);
    build_done(b);
}

/* IP. */

static void
build_nd(struct build *b, uint16_t priority, uint8_t type)
{
    build_flow(b, PIPE_T_IPV6, priority);
    build_match_family(b, IP_V6);
    match_set_nw_proto(&b->match, IPPROTO_ICMPV6);
    match_set_icmp_type(&b->match, type);
    match_set_icmp_code(&b->match, 0);
}

/* What render_arp_responder() does for any address, in IPv6.  An
 * advertisement's fields can be written only when the packet is one: so it
 * comes here twice.  Who has no address yet asks whether another has it, and
 * is not answered. */
static void
render_nd_responder(struct build *b)
{
    struct eth_addr mac = pipe_virtual_mac();
    ovs_be32 flags = htonl(0xe0000000); /* Router, solicited, override. */
    uint8_t option = ND_OPT_TARGET_LINKADDR;
    uint8_t type = ND_NEIGHBOR_ADVERT;
    struct ofpbuf *a = &b->ofpacts;

    build_nd(b, PIPE_PRIO_NORMAL, ND_NEIGHBOR_SOLICIT);
    build_move(b, MFF_ETH_SRC, MFF_ETH_DST);
    build_set_eth_src(b, mac);
    build_move(b, MFF_IPV6_SRC, MFF_IPV6_DST);
    build_move(b, MFF_ND_TARGET, MFF_IPV6_SRC);
    ofpact_put_set_field(a, mf_from_id(MFF_ND_RESERVED), &flags, NULL);
    ofpact_put_set_field(a, mf_from_id(MFF_ND_OPTIONS_TYPE), &option, NULL);
    ofpact_put_set_field(a, mf_from_id(MFF_ICMPV6_TYPE), &type, NULL);
    build_set_field(b, PIPE_F_ND_ANSWER, PIPE_V_ND_ANSWER_YES);
    build_resubmit(b, PIPE_T_IPV6);
    build_done(b);

    build_nd(b, PIPE_PRIO_HIGH, ND_NEIGHBOR_ADVERT);
    build_match_field(b, PIPE_F_ND_ANSWER, PIPE_V_ND_ANSWER_YES);
    ofpact_put_set_field(a, mf_from_id(MFF_ND_TLL), &mac, NULL);
    ofpact_put_OUTPUT(a)->port = OFPP_IN_PORT;
    build_done(b);

    build_nd(b, PIPE_PRIO_HIGH, ND_NEIGHBOR_SOLICIT);
    match_set_ipv6_src(&b->match, &in6addr_any);
    build_output_normal(b);
    build_done(b);
}

/* Neighbour discovery and multicast of IPv6 are for the switch as a plain
 * bridge: nobody routes them. */
static void
render_ipv6(const struct pipe_node *node, struct build *b)
{
    struct cidr multicast = { .plen = 8 };

    if (node->mode == CFG_NETWORK_POLICY_ONLY) {
        render_nd_responder(b);
    } else {
        build_nd(b, PIPE_PRIO_NORMAL, ND_NEIGHBOR_SOLICIT);
        build_output_normal(b);
        build_done(b);
    }
    build_nd(b, PIPE_PRIO_NORMAL, ND_NEIGHBOR_ADVERT);
    build_output_normal(b);
    build_done(b);

    multicast.ip.in6.s6_addr[0] = 0xff;
    build_flow(b, PIPE_T_IPV6, PIPE_PRIO_NORMAL);
    build_match_dst_cidr(b, &multicast);
    build_output_normal(b);
    build_done(b);
}

/* What the gateway port lets in: of this node if the source is the gateway's
 * own address, else from outside. */
static void
render_gateway(const struct pipe_node *node, struct build *b)
{
    for (int f = 0; f < N_IP_FAMILIES; f++) {
        if (ip_is_none(&node->gateway_ips[f])) {
            continue;
        }
        build_flow(b, PIPE_T_CLASSIFIER, PIPE_PRIO_HIGH);
        match_set_in_port(&b->match, u16_to_ofp(node->gateway_ofport));
        build_match_src(b, &node->gateway_ips[f]);
        build_set_field(b, PIPE_F_PKT_SOURCE, PIPE_V_PKT_SOURCE_GATEWAY);
        build_set_field(b, PIPE_F_FROM_LOCAL, PIPE_V_FROM_LOCAL_YES);
        build_goto(b, PIPE_T_SPOOF_GUARD);
        build_done(b);
    }

    build_flow(b, PIPE_T_CLASSIFIER, PIPE_PRIO_NORMAL);
    match_set_in_port(&b->match, u16_to_ofp(node->gateway_ofport));
    build_set_field(b, PIPE_F_PKT_SOURCE, PIPE_V_PKT_SOURCE_GATEWAY);
    build_set_field(b, PIPE_F_FROM_EXTERNAL, PIPE_V_FROM_EXTERNAL_YES);
    build_goto(b, PIPE_T_SPOOF_GUARD);
    build_done(b);

    for (int f = 0; f < N_IP_FAMILIES; f++) {
        build_flow(b, PIPE_T_SPOOF_GUARD, PIPE_PRIO_NORMAL);
        match_set_in_port(&b->match, u16_to_ofp(node->gateway_ofport));
        build_match_family(b, f);
        build_goto(b, f == IP_V4 ? PIPE_T_UNSNAT : PIPE_T_IPV6);
        build_done(b);
    }
    if (!ip_is_none(&node->gateway_ips[IP_V4])) {
        render_arp_guard(b, node->gateway_ofport, node->gateway_mac,
                         &node->gateway_ips[IP_V4]);
        render_arp_announcement(node, b, node->gateway_ofport,
                                &node->gateway_ips[IP_V4]);
    }
}

/* What another node sent has been through its guard and carries MAC addresses
 * of the way between nodes.  Neighbour discovery doesn't come this way. */
static void
render_tunnel(const struct pipe_node *node, struct build *b)
{
    build_flow(b, PIPE_T_CLASSIFIER, PIPE_PRIO_NORMAL);
    match_set_in_port(&b->match, u16_to_ofp(node->tunnel_ofport));
    build_set_field(b, PIPE_F_PKT_SOURCE, PIPE_V_PKT_SOURCE_TUNNEL);
    build_set_field(b, PIPE_F_REWRITE_MAC, PIPE_V_REWRITE_MAC_YES);
    build_goto(b, PIPE_T_UNSNAT);
    build_done(b);
}

void
classify_render_node(const struct pipe_node *node, struct build *b)
{
    render_root(b);
    render_arp_responder(node, b);
    render_ipv6(node, b);
    if (node->gateway_ofport) {
        render_gateway(node, b);
    }
    if (node->tunnel_ofport) {
        render_tunnel(node, b);
    }
}

/* Another node: hosts whose routes name a peer's gateway as the next hop, as
 * Antrea's agent writes them, ask for its address. */
void
classify_render_peer(const struct pipe_peer *peer, struct build *b)
{
    if (peer->path == PIPE_TUNNEL && ip_family(&peer->gateway) == IP_V4) {
        render_arp_answer(b, &peer->gateway);
    }
}

/* A pod. */

static void
render_spoof_guard(struct build *b, const struct pipe_pod *pod,
                   const struct cidr *src)
{
    enum ip_family family = ip_family(&src->ip);

    build_flow(b, PIPE_T_SPOOF_GUARD, PIPE_PRIO_NORMAL);
    match_set_in_port(&b->match, u16_to_ofp(pod->ofport));
    match_set_dl_src(&b->match, pod->mac);
    build_match_src_cidr(b, src);
    build_goto(b, family == IP_V4 ? PIPE_T_UNSNAT : PIPE_T_IPV6);
    build_done(b);
}

void
classify_render_pod(const struct pipe_node *node, const struct pipe_pod *pod,
                    struct build *b)
{
    bool v6 = false;

    build_flow(b, PIPE_T_CLASSIFIER, PIPE_PRIO_LOW);
    match_set_in_port(&b->match, u16_to_ofp(pod->ofport));
    build_set_field(b, PIPE_F_PKT_SOURCE, PIPE_V_PKT_SOURCE_POD);
    build_set_field(b, PIPE_F_FROM_LOCAL, PIPE_V_FROM_LOCAL_YES);
    build_goto(b, PIPE_T_SPOOF_GUARD);
    build_done(b);

    for (size_t i = 0; i < pod->n_ips; i++) {
        const struct ip *ip = &pod->ips[i];
        struct cidr host = {
            .ip = *ip,
            .plen = ip_family(ip) == IP_V4 ? 32 : 128,
        };

        render_spoof_guard(b, pod, &host);
        if (ip_family(ip) == IP_V4) {
            render_arp_guard(b, pod->ofport, pod->mac, ip);
            render_arp_announcement(node, b, pod->ofport, ip);
        } else {
            v6 = true;
        }
    }
    if (v6) {
        struct cidr link_local = { .plen = 10 };

        link_local.ip.in6.s6_addr[0] = 0xfe;
        link_local.ip.in6.s6_addr[1] = 0x80;
        render_spoof_guard(b, pod, &link_local);
    }
}
