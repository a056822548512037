/* SPDX-License-Identifier: Apache-2.0 */

/* Connection tracking: the look-up that translates known connections, and
 * the source address that some new ones are given.
 *
 * Destination and source are translated in two zones, since each zone knows
 * one translation of a connection.  A packet of a known Service connection
 * is recognised by its mark alone, whether or not an answer was seen: until
 * then it still counts as new, though it is translated already.  So is a
 * related packet, an ICMP error: it carries its connection's mark. */

#include "build.h"

#include <netinet/icmp6.h>

#include <odp-netlink.h>
#include <packets.h>

static const struct build_mark hairpin_marks[] = {
    { PIPE_F_CT_SNAT, PIPE_V_CT_SNAT_YES },
    { PIPE_F_CT_HAIRPIN, PIPE_V_CT_HAIRPIN_YES }, /* Last. */
};

static const struct build_mark kept_marks[] = {
    { PIPE_F_CT_HAIRPIN, PIPE_V_CT_HAIRPIN_YES },
};

/* In the zone of sources. */
static const struct build_mark snat_marks[] = {
    { PIPE_F_CT_SERVICE, PIPE_V_CT_SERVICE_YES },
    { PIPE_F_CT_SNAT, PIPE_V_CT_SNAT_YES },
    { PIPE_F_CT_HAIRPIN, PIPE_V_CT_HAIRPIN_YES }, /* Last. */
};

void
build_unsnat(struct build *b, const struct ip *ip)
{
    struct build_ct ct = {
        .zone = build_snat_zone(ip_family(ip)),
        .nat = BUILD_NAT_LOOKUP,
        .next = PIPE_T_CT_ZONE,
    };

    build_flow(b, PIPE_T_UNSNAT, PIPE_PRIO_NORMAL);
    build_match_dst(b, ip);
    build_ct(&b->ofpacts, &ct);
    build_done(b);
}

static void
render_zone(struct build *b, enum ip_family family)
{
    struct build_ct ct = {
        .zone = build_zone(family),
        .nat = BUILD_NAT_LOOKUP,
        .next = PIPE_T_CT_STATE,
    };

    build_flow(b, PIPE_T_CT_ZONE, PIPE_PRIO_NORMAL);
    build_match_family(b, family);
    build_ct(&b->ofpacts, &ct);
    build_done(b);
}

/* An ICMPv6 error is looked up first and translated then.  Where Open
 * vSwitch's userspace datapath changes the outer address, it corrects the
 * checksum that the connection's protocol would have, and with ICMPv6 writes
 * into the MTU or the quoted packet's source (nat_packet_ipv6() in its
 * conntrack.c; found in 3.1).  Nothing is corrected if the address is right
 * already: the source of an error about a question to a Service will be the
 * Service's address, which the look-up found.  An error about an answer is
 * translated as it is, since its new destination is not known before. */
static void
render_icmp6_error(struct build *b)
{
    struct build_ct lookup = { .zone = PIPE_ZONE_V6, .next = PIPE_T_CT_STATE };
    struct build_ct translate = lookup;

    for (uint8_t type = ICMP6_DST_UNREACH; type <= ICMP6_PARAM_PROB; type++) {
        build_flow(b, PIPE_T_CT_ZONE, PIPE_PRIO_HIGH);
        build_match_family(b, IP_V6);
        match_set_nw_proto(&b->match, IPPROTO_ICMPV6);
        match_set_icmp_type(&b->match, type);
        build_set_field(b, PIPE_F_ICMP6_ERROR, PIPE_V_ICMP6_ERROR_YES);
        build_ct(&b->ofpacts, &lookup);
        build_done(b);
    }

    translate.nat = BUILD_NAT_LOOKUP;
    for (int about_question = 0; about_question <= 1; about_question++) {
        build_flow(b, PIPE_T_CT_STATE, PIPE_PRIO_HIGH);
        build_match_family(b, IP_V6);
        build_match_field(b, PIPE_F_ICMP6_ERROR, PIPE_V_ICMP6_ERROR_YES);
        build_match_ct_state(b,
                             CS_RELATED | CS_TRACKED
                                 | (about_question ? CS_REPLY_DIR : 0),
                             about_question ? 0 : CS_REPLY_DIR);
        build_match_field(b, PIPE_F_CT_SERVICE, PIPE_V_CT_SERVICE_YES);
        if (about_question) {
            build_move(b, MFF_CT_IPV6_DST, MFF_IPV6_SRC);
        }
        build_set_field(b, PIPE_F_ICMP6_ERROR, PIPE_V_ICMP6_ERROR_NO);
        build_ct(&b->ofpacts, &translate);
        build_done(b);
    }
}

static void
render_state(struct build *b, enum ip_family family)
{
    /* A kernel that can't follow SCTP calls it invalid; a Service of SCTP
     * has to work there as well. */
    build_flow(b, PIPE_T_CT_STATE, PIPE_PRIO_HIGH);
    build_match_proto(b, family, PROTO_SCTP);
    build_match_ct_state(b, CS_INVALID | CS_TRACKED, 0);
    build_goto(b, PIPE_T_PRE_ROUTING);
    build_done(b);

    build_flow(b, PIPE_T_CT_STATE, PIPE_PRIO_NORMAL);
    build_match_family(b, family);
    build_match_ct_state(b, CS_INVALID | CS_TRACKED, 0);
    build_done(b);

    build_flow(b, PIPE_T_CT_STATE, PIPE_PRIO_LOW);
    build_match_family(b, family);
    build_match_ct_state(b, CS_TRACKED, 0);
    build_match_field(b, PIPE_F_CT_SERVICE, PIPE_V_CT_SERVICE_YES);
    build_set_field(b, PIPE_F_REWRITE_MAC, PIPE_V_REWRITE_MAC_YES);
    build_goto(b, PIPE_T_L3_FORWARDING);
    build_done(b);

    build_flow(b, PIPE_T_CT_STATE, PIPE_PRIO_LOW);
    build_match_family(b, family);
    build_match_ct_state(b, CS_TRACKED, CS_NEW);
    build_match_field(b, PIPE_F_CT_SERVICE, PIPE_V_CT_SERVICE_NO);
    build_goto(b, PIPE_T_L3_FORWARDING);
    build_done(b);
}

void
build_snat_commit(struct build *b, enum ip_family family, bool hairpin)
{
    struct build_ct ct = {
        .zone = build_zone(family),
        .commit = true,
        .next = PIPE_T_SNAT,
        .marks = hairpin_marks,
        .n_marks = ARRAY_SIZE(hairpin_marks) - !hairpin,
        .copy_source = true,
    };

    build_ct(&b->ofpacts, &ct);
}

/* What came from the gateway port and is routed back to it: the host would
 * take a packet from its own address for a forgery.  And what came to an
 * address for clients outside, or from outside to a cluster IP with an
 * endpoint behind the tunnel: the answer has to pass this node again.  Other
 * than that, what leaves by the tunnel needs nothing: the host's own source is
 * the gateway's address, which the peer sends answers to by the tunnel. */
static void
render_snat_mark(struct build *b, enum ip_family family)
{
    build_flow(b, PIPE_T_SNAT_MARK, PIPE_PRIO_NORMAL);
    build_match_family(b, family);
    build_match_ct_state(b, CS_NEW | CS_TRACKED, 0);
    build_match_field(b, PIPE_F_FROM_EXTERNAL, PIPE_V_FROM_EXTERNAL_YES);
    build_match_field(b, PIPE_F_PKT_DEST, PIPE_V_PKT_DEST_TUNNEL);
    build_match_field(b, PIPE_F_CT_SERVICE, PIPE_V_CT_SERVICE_YES);
    build_snat_commit(b, family, false);
    build_done(b);

    build_flow(b, PIPE_T_SNAT_MARK, PIPE_PRIO_NORMAL);
    build_match_family(b, family);
    build_match_ct_state(b, CS_NEW | CS_TRACKED, 0);
    build_match_field(b, PIPE_F_PKT_SOURCE, PIPE_V_PKT_SOURCE_GATEWAY);
    build_match_field(b, PIPE_F_PKT_DEST, PIPE_V_PKT_DEST_GATEWAY);
    build_match_field(b, PIPE_F_CT_SERVICE, PIPE_V_CT_SERVICE_YES);
    build_snat_commit(b, family, true);
    build_done(b);

    build_flow(b, PIPE_T_SNAT_MARK, PIPE_PRIO_LOW);
    build_match_family(b, family);
    build_match_ct_state(b, CS_NEW | CS_TRACKED, 0);
    build_match_field(b, PIPE_F_TO_EXTERNAL, PIPE_V_TO_EXTERNAL_YES);
    build_match_field(b, PIPE_F_CT_SERVICE, PIPE_V_CT_SERVICE_YES);
    build_snat_commit(b, family, false);
    build_done(b);
}

/* An endpoint of the host's that is to see its client: what goes back to the
 * gateway port keeps its source, and the host knows by a MAC address
 * (routing.c) that answers have to come here.  Until there is one, each packet
 * is new. */
static void
render_kept_source(struct build *b, enum ip_family family)
{
    struct build_ct ct = {
        .zone = build_zone(family),
        .commit = true,
        .next = PIPE_T_L2_FORWARDING,
        .marks = kept_marks,
        .n_marks = ARRAY_SIZE(kept_marks),
        .copy_source = true,
    };

    build_flow(b, PIPE_T_SNAT_MARK, PIPE_PRIO_HIGH);
    build_match_family(b, family);
    build_match_ct_state(b, CS_NEW | CS_TRACKED, 0);
    build_match_field(b, PIPE_F_PKT_SOURCE, PIPE_V_PKT_SOURCE_GATEWAY);
    build_match_field(b, PIPE_F_PKT_DEST, PIPE_V_PKT_DEST_GATEWAY);
    build_match_field(b, PIPE_F_KEEPS_SOURCE, PIPE_V_KEEPS_SOURCE_YES);
    build_match_field(b, PIPE_F_CT_SERVICE, PIPE_V_CT_SERVICE_YES);
    build_ct(&b->ofpacts, &ct);
    build_done(b);

    build_flow(b, PIPE_T_SNAT_MARK, PIPE_PRIO_HIGH);
    build_match_family(b, family);
    build_match_ct_state(b, CS_NEW | CS_TRACKED, 0);
    build_match_field(b, PIPE_F_CT_HAIRPIN, PIPE_V_CT_HAIRPIN_YES);
    build_match_field(b, PIPE_F_CT_SNAT, PIPE_V_CT_SNAT_NO);
    build_goto(b, PIPE_T_L2_FORWARDING);
    build_done(b);
}

/* Begins a flow of SNAT, for hairpins or for other connections that
 * SNATMark has marked. */
static void
begin_snat(struct build *b, uint16_t priority, enum ip_family family,
           bool hairpin)
{
    build_flow(b, PIPE_T_SNAT, priority);
    build_match_family(b, family);
    build_match_ct_state(b, CS_NEW | CS_TRACKED, 0);
    if (hairpin) {
        build_match_field(b, PIPE_F_CT_HAIRPIN, PIPE_V_CT_HAIRPIN_YES);
    } else {
        build_match_field(b, PIPE_F_CT_SNAT, PIPE_V_CT_SNAT_YES);
        build_match_field(b, PIPE_F_CT_HAIRPIN, PIPE_V_CT_HAIRPIN_NO);
    }
}

static void
finish_snat(struct build *b, const struct ip *source, uint16_t port_min,
            uint16_t port_max, bool hairpin)
{
    enum ip_family family = ip_family(source);
    struct build_ct ct = {
        .zone = build_snat_zone(family),
        .commit = true,
        .nat = BUILD_NAT_SRC,
        .nat_ip = *source,
        .nat_port = port_min,
        .nat_port_max = port_max,
        .next = PIPE_T_L2_FORWARDING,
        .marks = snat_marks,
        .n_marks = ARRAY_SIZE(snat_marks) - !hairpin,
    };

    build_ct(&b->ofpacts, &ct);
    build_done(b);
}

/* The source is the virtual address where the packet goes to the host, which
 * gives it another one on its way out, and would not take one from the
 * gateway's own address; else the gateway's.  That one is a source that the
 * host's own connections have, too, which pass no zone that would keep them
 * apart; so ports are used that the host gives nobody. */
static void
render_snat(struct build *b, enum ip_family family,
            const struct pipe_node *node)
{
    const struct ip *gateway = &node->gateway_ips[family];
    struct ip virtual_ip = pipe_virtual_ip(family);
    uint16_t min = node->snat_port_min, max = node->snat_port_max;

    if (!min) {
        min = PIPE_SNAT_PORT_MIN;
        max = PIPE_SNAT_PORT_MAX;
    }
    begin_snat(b, PIPE_PRIO_NORMAL, family, true);
    build_match_field(b, PIPE_F_PKT_SOURCE, PIPE_V_PKT_SOURCE_GATEWAY);
    finish_snat(b, &virtual_ip, 0, 0, true);

    begin_snat(b, PIPE_PRIO_NORMAL, family, false);
    build_match_field(b, PIPE_F_PKT_DEST, PIPE_V_PKT_DEST_GATEWAY);
    finish_snat(b, &virtual_ip, 0, 0, false);

    if (!ip_is_none(gateway)) {
        begin_snat(b, PIPE_PRIO_NORMAL, family, true);
        build_match_field(b, PIPE_F_PKT_SOURCE, PIPE_V_PKT_SOURCE_POD);
        finish_snat(b, gateway, min, max, true);

        begin_snat(b, PIPE_PRIO_LOW, family, false);
        finish_snat(b, gateway, min, max, false);
    }
}

/* Later packets in the direction of the request. */
static void
render_snat_known(struct build *b, enum ip_family family)
{
    struct build_ct ct = {
        .zone = build_snat_zone(family),
        .nat = BUILD_NAT_LOOKUP,
        .next = PIPE_T_L2_FORWARDING,
    };

    build_flow(b, PIPE_T_SNAT, PIPE_PRIO_NORMAL);
    build_match_family(b, family);
    build_match_ct_state(b, CS_TRACKED, CS_NEW | CS_REPLY_DIR);
    build_match_field(b, PIPE_F_CT_SNAT, PIPE_V_CT_SNAT_YES);
    build_ct(&b->ofpacts, &ct);
    build_done(b);
}

/* Commits with the packet's source.  Connections that SNATMark committed have
 * theirs; a Service connection was committed by its group, where the source
 * is left out to keep the bucket small, and only what came by the gateway
 * needs it. */
static void
render_commit(struct build *b, enum ip_family family, bool service)
{
    struct build_ct ct = {
        .zone = build_zone(family),
        .commit = true,
        .next = PIPE_T_OUTPUT,
        .copy_source = true,
    };

    build_flow(b, PIPE_T_CT_COMMIT, PIPE_PRIO_NORMAL);
    build_match_family(b, family);
    build_match_ct_state(b, CS_NEW | CS_TRACKED, 0);
    build_match_field(b, PIPE_F_CT_SNAT, PIPE_V_CT_SNAT_NO);
    if (service) {
        build_match_field(b, PIPE_F_CT_SERVICE, PIPE_V_CT_SERVICE_YES);
        build_match_field(b, PIPE_F_CT_SOURCE, 0);
        build_match_field(b, PIPE_F_PKT_SOURCE, PIPE_V_PKT_SOURCE_GATEWAY);
    } else {
        build_match_field(b, PIPE_F_CT_SERVICE, PIPE_V_CT_SERVICE_NO);
    }
    build_ct(&b->ofpacts, &ct);
    build_done(b);
}

void
conntrack_render_node(const struct pipe_node *node, struct build *b)
{
    render_icmp6_error(b);
    for (int f = 0; f < N_IP_FAMILIES; f++) {
        const struct ip *gateway_ip = &node->gateway_ips[f];
        struct ip virtual_ip = pipe_virtual_ip(f);

        build_unsnat(b, &virtual_ip);
        render_zone(b, f);
        render_state(b, f);
        render_snat_mark(b, f);
        render_kept_source(b, f);
        render_snat(b, f, node);
        render_snat_known(b, f);
        render_commit(b, f, false);
        render_commit(b, f, true);
        if (!ip_is_none(gateway_ip)) {
            build_unsnat(b, gateway_ip);
        }
    }
}

/* A pod whose Service chose the pod itself. */
void
conntrack_render_pod(const struct pipe_pod *pod, struct build *b)
{
    for (size_t i = 0; i < pod->n_ips; i++) {
        build_flow(b, PIPE_T_SNAT_MARK, PIPE_PRIO_NORMAL);
        build_match_src(b, &pod->ips[i]);
        build_match_dst(b, &pod->ips[i]);
        build_match_ct_state(b, CS_NEW | CS_TRACKED, 0);
        build_snat_commit(b, ip_family(&pod->ips[i]), true);
        build_done(b);
    }
}
