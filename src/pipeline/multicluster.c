/* SPDX-License-Identifier: Apache-2.0 */

/* Between clusters: the flows of Antrea Multi-cluster (its names, priorities,
 * marks and MAC address).
 *
 * A node sends what is for another cluster to its own cluster's gateway, and
 * the gateway to the other cluster's, each through the tunnel port and to
 * aa:bb:cc:dd:ee:f0, by which the receiver knows it.  The gateway gives it its
 * own address for other clusters as the source, so that answers come back to
 * it; the other cluster's gateway looks up the cluster IP, and sends it to a
 * pod as anything else.  Answers are for a gateway's address and take the same
 * way back.
 *
 * A node that is no gateway passes on to it what is sent as if it were one: so
 * a gateway that has handed over to another loses nothing of what nodes and
 * clusters send that don't know yet. */

#include "build.h"

#include <flow.h>
#include <odp-netlink.h>
#include <packets.h>

#include "ofproxyd/flow/cookie.h"

/* Sent by another node or another cluster as what goes between clusters. */
static void
match_mc(struct build *b)
{
    match_set_dl_dst(&b->match, pipe_mc_mac());
}

/* Into the tunnel as what goes between clusters. */
static void
build_to(const struct pipe_node *node, const struct ip *tunnel_dst,
         struct eth_addr mac, struct build *b)
{
    build_set_eth_src(b, node->gateway_mac);
    build_set_eth_dst(b, mac);
    build_set_tunnel_dst(b, tunnel_dst);
    build_set_field(b, PIPE_F_PKT_DEST, PIPE_V_PKT_DEST_TUNNEL);
    build_goto(b, PIPE_T_DEC_TTL);
}

/* What comes by the tunnel, from 'src' only unless it is NULL.  Where this
 * node is no gateway it goes on to who is, as it is: what connection tracking
 * still knows would translate it in the gateway's place, and the answer would
 * pass the gateway by. */
static void
render_arrival(const struct pipe_node *node, const struct ip *src,
               struct build *b)
{
    build_flow(b, PIPE_T_CLASSIFIER, src ? PIPE_PRIO_TOP : PIPE_PRIO_HIGH);
    if (src) {
        build_match_tunnel_src(b, src);
    }
    match_set_in_port(&b->match, u16_to_ofp(node->tunnel_ofport));
    match_mc(b);
    if (node->mc_role == PIPE_MC_REGULAR) {
        build_to(node, &node->mc_internal_ip, pipe_mc_mac(), b);
    } else {
        build_set_field(b, PIPE_F_PKT_SOURCE, PIPE_V_PKT_SOURCE_TUNNEL);
        build_set_field(b, PIPE_F_REWRITE_MAC, PIPE_V_REWRITE_MAC_YES);
        build_goto(b, PIPE_T_UNSNAT);
    }
    build_done(b);
}

static void
render_tunnel(const struct pipe_node *node, struct build *b)
{
    if (node->mc_role == PIPE_MC_GATEWAY
        || !ip_is_none(&node->mc_internal_ip)) {
        render_arrival(node, NULL, b);
    }

    /* Only with a tunnel destination: what is for a cluster that this node
     * doesn't know (yet, or any more) has that by which it came, this node's
     * own, and would go round for ever. */
    build_flow(b, PIPE_T_L2_FORWARDING, PIPE_PRIO_NORMAL);
    match_mc(b);
    build_match_field(b, PIPE_F_PKT_DEST, PIPE_V_PKT_DEST_TUNNEL);
    build_set_field(b, PIPE_F_TARGET_PORT, node->tunnel_ofport);
    build_set_field(b, PIPE_F_OUTPUT, PIPE_V_OUTPUT_TO_PORT);
    build_goto(b, PIPE_T_CT_COMMIT);
    build_done(b);

    /* From tunnel to tunnel. */
    build_flow(b, PIPE_T_OUTPUT, PIPE_PRIO_HIGH);
    match_set_in_port(&b->match, u16_to_ofp(node->tunnel_ofport));
    build_match_field(b, PIPE_F_TARGET_PORT, node->tunnel_ofport);
    build_match_field(b, PIPE_F_OUTPUT, PIPE_V_OUTPUT_TO_PORT);
    ofpact_put_OUTPUT(&b->ofpacts)->port = OFPP_IN_PORT;
    build_done(b);
}

/* Another cluster's connection whose endpoint is the host's, or where the host
 * routes to: answers would go straight to the other cluster, where nobody
 * knows them. */
static void
render_to_host(enum ip_family family, struct build *b)
{
    build_flow(b, PIPE_T_SNAT_MARK, PIPE_PRIO_NORMAL);
    build_match_family(b, family);
    build_match_ct_state(b, CS_NEW | CS_TRACKED, 0);
    build_match_field(b, PIPE_F_PKT_SOURCE, PIPE_V_PKT_SOURCE_TUNNEL);
    build_match_field(b, PIPE_F_PKT_DEST, PIPE_V_PKT_DEST_GATEWAY);
    build_match_field(b, PIPE_F_CT_SERVICE, PIPE_V_CT_SERVICE_YES);
    build_snat_commit(b, family, false);
    build_done(b);
}

/* What a pod of this node has sent to the gateway of before, and that has sent
 * it back: to connection tracking it would be a connection of its own, whose
 * answers are those of the pod's. */
static void
render_own_from_tunnel(const struct pipe_node *node, struct build *b)
{
    for (size_t i = 0; i < node->n_pod_cidrs; i++) {
        build_flow(b, PIPE_T_UNSNAT, PIPE_PRIO_HIGH);
        build_match_field(b, PIPE_F_PKT_SOURCE, PIPE_V_PKT_SOURCE_TUNNEL);
        match_mc(b);
        build_match_src_cidr(b, &node->pod_cidrs[i]);
        build_done(b);
    }
}

void
mc_render_node(const struct pipe_node *node, struct build *b)
{
    if (node->mc_role == PIPE_MC_NONE) {
        return;
    }
    if (node->tunnel_ofport) {
        render_tunnel(node, b);
    }
    if (node->mc_role == PIPE_MC_GATEWAY) {
        /* Unlike another node of this cluster, another cluster has not looked
         * up what it sends. */
        build_flow(b, PIPE_T_PRE_ROUTING, PIPE_PRIO_HIGH);
        build_match_field(b, PIPE_F_PKT_SOURCE, PIPE_V_PKT_SOURCE_TUNNEL);
        match_mc(b);
        build_goto(b, PIPE_T_NODE_PORT);
        build_done(b);

        build_unsnat(b, &node->mc_gateway_ip);
        for (int f = 0; f < N_IP_FAMILIES; f++) {
            render_to_host(f, b);
        }
        render_own_from_tunnel(node, b);
    }
}

void
mc_render_node_peer(const struct pipe_node *node, const struct pipe_peer *peer,
                    struct build *b)
{
    if (node->mc_role != PIPE_MC_GATEWAY || peer->path == PIPE_TUNNEL
        || ip_is_none(&peer->tunnel_dst)) {
        return;
    }
    build_flow(b, PIPE_T_L3_FORWARDING, PIPE_PRIO_HIGH);
    build_match_dst_cidr(b, &peer->pod_cidr);
    match_mc(b);
    build_to(node, &peer->tunnel_dst, pipe_virtual_mac(), b);
    build_done(b);
}

/* Also of connections that were made before this node became the gateway, with
 * another address or none: clients use ports of UDP again, and one that never
 * stops would never be answered. */
static void
render_source(const struct pipe_node *node, const struct cidr *cidr,
              struct build *b)
{
    enum ip_family family = ip_family(&cidr->ip);
    static const struct build_mark marks[] = {
        { PIPE_F_CT_SNAT, PIPE_V_CT_SNAT_YES },
    };
    struct build_ct ct = {
        .zone = build_snat_zone(family),
        .commit = true,
        .nat = BUILD_NAT_SRC,
        .nat_ip = node->mc_gateway_ip,
        .next = PIPE_T_L2_FORWARDING,
        .marks = marks,
        .n_marks = ARRAY_SIZE(marks),
    };

    build_flow(b, PIPE_T_SNAT_MARK, PIPE_PRIO_HIGH);
    build_match_dst_cidr(b, cidr);
    build_match_ct_state(b, CS_TRACKED, CS_REPLY_DIR);
    build_match_field(b, PIPE_F_CT_SNAT, PIPE_V_CT_SNAT_NO);
    build_snat_commit(b, family, false);
    build_done(b);

    build_flow(b, PIPE_T_SNAT, PIPE_PRIO_HIGH);
    build_match_dst_cidr(b, cidr);
    build_match_ct_state(b, CS_TRACKED, CS_REPLY_DIR);
    build_ct(&b->ofpacts, &ct);
    build_done(b);
}

/* What a pod sends by a connection that was made while this node was the
 * gateway: answers to this node's address would not come back. */
static void
render_no_source(const struct cidr *cidr, struct build *b)
{
    build_flow(b, PIPE_T_SNAT, PIPE_PRIO_HIGH);
    build_match_dst_cidr(b, cidr);
    build_match_field(b, PIPE_F_PKT_SOURCE, PIPE_V_PKT_SOURCE_POD);
    build_goto(b, PIPE_T_L2_FORWARDING);
    build_done(b);
}

/* Answers for another cluster's gateway. */
static void
render_answers(const struct pipe_node *node, const struct ip *gateway,
               const struct ip *tunnel_dst, struct build *b)
{
    build_flow(b, PIPE_T_L3_FORWARDING, PIPE_PRIO_NORMAL);
    build_match_dst(b, gateway);
    build_match_ct_state(b, CS_REPLY_DIR | CS_TRACKED, 0);
    build_to(node, tunnel_dst, pipe_mc_mac(), b);
    build_done(b);

    if (node->mc_role == PIPE_MC_REGULAR) {
        /* Of a connection that was looked up here when this node was the
         * gateway: the gateway would not know it. */
        build_flow(b, PIPE_T_L3_FORWARDING, PIPE_PRIO_HIGH);
        build_match_dst(b, gateway);
        build_match_ct_state(b, CS_REPLY_DIR | CS_TRACKED, 0);
        build_match_field(b, PIPE_F_CT_SERVICE, PIPE_V_CT_SERVICE_YES);
        build_to(node, gateway, pipe_mc_mac(), b);
        build_done(b);
    }
}

/* What another cluster's gateway sends to a pod itself, as it is when it has
 * been looked up elsewhere: while another node is the gateway, or thinks that
 * it still is.  If the pod has to answer to an address and port to which it
 * answers in a connection that was looked up here, it sees another port.  Open
 * vSwitch accepts two connections with the same answers if the second one is
 * without NAT, and then translates none of those of the first. */
static void
render_looked_up(const struct ip *gateway, struct build *b)
{
    struct build_ct ct = {
        .zone = build_zone(ip_family(gateway)),
        .commit = true,
        .nat = BUILD_NAT_SRC,
        .nat_ip = *gateway,
        .next = PIPE_T_OUTPUT,
        .copy_source = true,
    };

    build_flow(b, PIPE_T_CT_COMMIT, PIPE_PRIO_HIGH);
    build_match_src(b, gateway);
    build_match_ct_state(b, CS_NEW | CS_TRACKED, 0);
    build_match_field(b, PIPE_F_CT_SNAT, PIPE_V_CT_SNAT_NO);
    build_match_field(b, PIPE_F_CT_SERVICE, PIPE_V_CT_SERVICE_NO);
    build_ct(&b->ofpacts, &ct);
    build_done(b);
}

void
mc_render_peer(const struct pipe_node *node, const struct pipe_mc_peer *peer,
               struct build *b)
{
    for (size_t i = 0; i < peer->n_cidrs; i++) {
        build_flow(b, PIPE_T_L3_FORWARDING, PIPE_PRIO_NORMAL);
        build_match_dst_cidr(b, &peer->cidrs[i]);
        build_to(node, &peer->tunnel_dst, pipe_mc_mac(), b);
        build_done(b);

        if (node->mc_role == PIPE_MC_REGULAR) {
            render_no_source(&peer->cidrs[i], b);
        } else if (ip_family(&node->mc_gateway_ip)
                   == ip_family(&peer->cidrs[i].ip)) {
            render_source(node, &peer->cidrs[i], b);
        }
    }
    for (size_t i = 0; i < peer->n_gateways; i++) {
        render_answers(node, &peer->gateways[i], &peer->tunnel_dst, b);
        if (node->mc_role == PIPE_MC_GATEWAY) {
            render_looked_up(&peer->gateways[i], b);
        }

        /* As any between clusters: it is there to count them. */
        if (node->mc_role == PIPE_MC_GATEWAY && node->tunnel_ofport) {
            render_arrival(node, &peer->gateways[i], b);
        }
    }
}

/* What another daemon has left. */

bool
pipe_is_mc(const struct fitem *have, const struct fout *gateway)
{
    uint64_t cookie = fitem_cookie(have);

    if (!cookie_is_ours(cookie) || !cookie_is_current(cookie)) {
        return false;
    }
    switch (cookie_category(cookie)) {
    case COOKIE_MULTICLUSTER: return true;
    case COOKIE_NODE:
        return fitem_table(have) == PIPE_T_L3_FORWARDING
               && fitem_priority(have) == PIPE_PRIO_HIGH;
    case COOKIE_PIPELINE:
        /* In UnSNAT it depends on a Gateway that is not known. */
        return fitem_table(have) == PIPE_T_UNSNAT
               || fout_has_key(gateway, have);
    case COOKIE_POD:
    case COOKIE_SERVICE:
    case COOKIE_AFFINITY:
    case COOKIE_CLUSTER_IP: break;
    }
    return false;
}
