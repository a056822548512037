/* SPDX-License-Identifier: Apache-2.0 */

/* The Service look-up: from (address, protocol, port) to a verdict.
 *
 * What a tunnel brings is not looked up: the sender has chosen, and to choose
 * again could send it on to a third node.  Any other new connection passes
 * NodePortMark (which runs SessionAffinity on the
 * side) to ServiceLB.  A flow there sends it to its group, whose bucket
 * translates and commits it in one action; or marks it as without endpoint,
 * and EndpointDNAT hands it to the daemon for a reject; or drops it.  What
 * is no Service's falls through to L3Forwarding. */

#include "build.h"

#include <flow.h>
#include <odp-netlink.h>

/* The largest part of a rejected packet that the answer quotes. */
#define REJECT_MAX_LEN 1500

static void
render_reject(const struct pipe_node *node, struct build *b)
{
    static const uint8_t userdata[] = { PIPE_USERDATA_REJECT };
    struct ofpact_controller *controller;

    build_flow(b, PIPE_T_ENDPOINT_DNAT, PIPE_PRIO_NORMAL);
    build_match_field(b, PIPE_F_SVC_NO_EP, PIPE_V_SVC_NO_EP_YES);
    controller = ofpact_put_CONTROLLER(&b->ofpacts);
    controller->max_len = REJECT_MAX_LEN;
    controller->controller_id = 0;
    controller->reason = OFPR_ACTION;
    controller->meter_id = node->meter_id;
    controller->provider_meter_id = UINT32_MAX;
    controller->userdata_len = sizeof userdata;
    ofpbuf_put(&b->ofpacts, userdata, sizeof userdata);
    controller = b->ofpacts.header;
    ofpact_finish_CONTROLLER(&b->ofpacts, &controller);
    build_done(b);
}

/* A packet for which an endpoint was selected that nothing here knows: it
 * selects again.  So do packets that were between two tables while the bridge
 * changed hands, which would else leave untranslated. */
static void
render_select_again(struct build *b)
{
    build_flow(b, PIPE_T_ENDPOINT_DNAT, PIPE_PRIO_LOW);
    build_match_field(b, PIPE_F_EP_STATE, PIPE_V_EP_STATE_SELECTED);
    build_set_field(b, PIPE_F_EP_STATE, PIPE_V_EP_STATE_TO_SELECT);
    build_resubmit(b, PIPE_T_SERVICE_LB);
    build_done(b);
}

void
service_render_node(const struct pipe_node *node, struct build *b)
{
    build_flow(b, PIPE_T_PRE_ROUTING, PIPE_PRIO_NORMAL);
    build_match_field(b, PIPE_F_PKT_SOURCE, PIPE_V_PKT_SOURCE_TUNNEL);
    build_goto(b, PIPE_T_L3_FORWARDING);
    build_done(b);

    /* Remembered clients are looked up on the side: a learned flow can't go
     * on to another table. */
    build_flow(b, PIPE_T_NODE_PORT, PIPE_PRIO_MISS);
    build_resubmit(b, PIPE_T_AFFINITY);
    build_goto(b, PIPE_T_SERVICE_LB);
    build_done(b);

    build_flow(b, PIPE_T_AFFINITY, PIPE_PRIO_MISS);
    build_set_field(b, PIPE_F_EP_STATE, PIPE_V_EP_STATE_TO_SELECT);
    build_done(b);

    render_reject(node, b);
    render_select_again(b);
}

static void
match_l4_dst(struct build *b, const struct pipe_service *svc, uint16_t port)
{
    build_match_proto(b, svc->family, svc->proto);
    match_set_tp_dst(&b->match, htons(port));
}

static void
build_select(const struct pipe_service *svc, enum pipe_scope scope,
             struct build *b)
{
    build_set_field(b, PIPE_F_REWRITE_MAC, PIPE_V_REWRITE_MAC_YES);
    build_set_field(b, PIPE_F_EP_STATE, PIPE_V_EP_STATE_SELECTED);
    ofpact_put_GROUP(&b->ofpacts)->group_id =
        group_id_make(svc->object_id, scope == PIPE_SCOPE_LOCAL, 0);
}

static void
render_frontend(const struct pipe_service *svc,
                const struct pipe_frontend *frontend, struct build *b)
{
    build_flow(b, PIPE_T_SERVICE_LB, PIPE_PRIO_NORMAL);
    match_l4_dst(b, svc, frontend->port);
    build_match_dst(b, &frontend->ip);
    build_match_field(b, PIPE_F_EP_STATE, PIPE_V_EP_STATE_TO_SELECT);

    switch (svc->targets[frontend->scope].verdict) {
    case PIPE_SELECT: build_select(svc, frontend->scope, b); break;
    case PIPE_REJECT:
        build_set_field(b, PIPE_F_SVC_NO_EP, PIPE_V_SVC_NO_EP_YES);
        build_goto(b, PIPE_T_ENDPOINT_DNAT);
        break;
    case PIPE_DROP: break;
    }
    build_done(b);
}

/* A datagram's fragments.  Connection tracking has put the datagram together
 * to look it up, and Open vSwitch's userspace datapath then sends the
 * fragments on one by one.  To flows none of them shows a port, and later ones
 * of IPv6 no protocol; the tracked tuple has that.  If the first datagram of a
 * connection is in fragments, all have to reach a ct() action that translates;
 * the one that the last of them comes to counts.  (The kernel's datapath sends
 * the datagram on as a whole.) */
static void
render_fragments(const struct pipe_service *svc,
                 const struct pipe_frontend *frontend, struct build *b)
{
    build_flow(b, PIPE_T_SERVICE_LB, PIPE_PRIO_LOW);
    build_match_family(b, svc->family);
    build_match_ct_state(b, CS_NEW | CS_TRACKED, 0);
    match_set_ct_nw_proto(&b->match, proto_number(svc->proto));
    match_set_nw_frag_masked(&b->match, FLOW_NW_FRAG_ANY,
                             FLOW_NW_FRAG_ANY);
    build_match_dst(b, &frontend->ip);
    build_match_field(b, PIPE_F_EP_STATE, PIPE_V_EP_STATE_TO_SELECT);
    if (svc->targets[frontend->scope].verdict == PIPE_SELECT) {
        build_select(svc, frontend->scope, b);
    }
    build_done(b);
}

static bool
scope_is_used(const struct pipe_service *svc, enum pipe_scope scope)
{
    for (size_t i = 0; i < svc->n_frontends; i++) {
        if (svc->frontends[i].scope == scope) {
            return svc->targets[scope].verdict == PIPE_SELECT;
        }
    }
    return false;
}

int
pipe_render_service(const struct pipe_service *svc, struct fout *out,
                    struct err *err)
{
    struct build b;
    int error = 0;

    build_init(&b, out, cookie_make(COOKIE_SERVICE, svc->object_id));
    for (size_t i = 0; i < svc->n_frontends; i++) {
        render_frontend(svc, &svc->frontends[i], &b);
        if (svc->takes_fragments) {
            render_fragments(svc, &svc->frontends[i], &b);
        }
    }
    build_uninit(&b);

    for (int scope = 0; scope < N_PIPE_SCOPES; scope++) {
        if (scope_is_used(svc, scope)) {
            int retval = group_render(svc, scope, out, err);

            error = error ? error : retval;
        }
    }
    return error;
}
