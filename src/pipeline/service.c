/* SPDX-License-Identifier: Apache-2.0 */

/* The Service look-up: from (address, protocol, port) to a verdict.
 *
 * What a tunnel brings is not looked up: the sender has chosen, and to choose
 * again could send it on to a third node.  Any other new connection passes
 * NodePortMark (nodeport.c) to ServiceLB.  A flow there sends it to its group,
 * whose bucket translates and commits it in one action; or, with session
 * affinity, to the memory of clients (affinity.c); or marks it as without
 * endpoint, and EndpointDNAT hands it to the daemon for a reject; or drops it.
 * What is for a cluster IP and none of its ports is rejected likewise; what
 * the host sends for an address of a ServiceCIDR that no Service has is
 * dropped.
 * Where sources are restricted it goes to the ranges first (ranges.c), and
 * comes back.  What is no Service's falls through to L3Forwarding.
 *
 * A connection from outside to an address for clients outside is marked where
 * the policy is Cluster, and gets a source address of this node (conntrack.c):
 * the endpoint may be anywhere, and its answers have to come back here.  With
 * policy Local the source stays, and is marked to.  Local pods and the node
 * itself are not from outside: with policy Local they get the endpoints of
 * policy Cluster (kube-proxy calls that a short-circuit). */

#include "build.h"

#include <flow.h>
#include <odp-netlink.h>

/* The largest part of a rejected packet that the answer quotes. */
#define REJECT_MAX_LEN 1500

static void
render_reject(const struct pipe_node *node, uint32_t share, struct build *b)
{
    static const uint8_t userdata[] = { PIPE_USERDATA_REJECT };
    struct ofpact_controller *controller;

    build_flow(b, PIPE_T_ENDPOINT_DNAT, PIPE_PRIO_NORMAL);
    build_match_field(b, PIPE_F_SVC_NO_EP, PIPE_V_SVC_NO_EP_YES);
    build_match_field(b, PIPE_F_REJECT_SHARE, share);
    controller = ofpact_put_CONTROLLER(&b->ofpacts);
    controller->max_len = REJECT_MAX_LEN;
    controller->controller_id = 0;
    controller->reason = OFPR_ACTION;
    controller->meter_id = node->meter_id + share;
    controller->provider_meter_id = UINT32_MAX;
    controller->userdata_len = sizeof userdata;
    ofpbuf_put(&b->ofpacts, userdata, sizeof userdata);
    controller = b->ofpacts.header;
    ofpact_finish_CONTROLLER(&b->ofpacts, &controller);
    build_done(b);
}

/* A packet for which an endpoint was selected that nothing here knows: it
 * selects again.  So do packets that were between two tables while the bridge
 * changed hands, which would else leave untranslated.  What rejects or drops
 * the rest in ServiceLB has to let them by. */
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

    for (uint32_t share = 0; share < PIPE_N_METERS; share++) {
        render_reject(node, share, b);
    }
    render_select_again(b);
    for (size_t i = 0; i < node->n_service_cidrs; i++) {
        build_flow(b, PIPE_T_SERVICE_LB, PIPE_PRIO_LAST);
        build_match_field(b, PIPE_F_PKT_SOURCE, PIPE_V_PKT_SOURCE_GATEWAY);
        build_match_field(b, PIPE_F_EP_STATE, PIPE_V_EP_STATE_TO_SELECT);
        build_match_dst_cidr(b, &node->service_cidrs[i]);
        build_done(b);
    }
}

static void
build_reject(struct build *b)
{
    build_set_field(b, PIPE_F_SVC_NO_EP, PIPE_V_SVC_NO_EP_YES);
    build_set_from_in_port(b, PIPE_F_REJECT_SHARE);
    build_goto(b, PIPE_T_ENDPOINT_DNAT);
}

/* What a flow of ServiceLB does for one way to a frontend. */
struct way {
    enum pipe_scope scope; /* Whose target. */
    bool snat, keeps_source;
};

static void
build_select(const struct pipe_service *svc, const struct way *way,
             struct build *b)
{
    uint32_t group_id = build_group_id(svc, way->scope);

    build_set_field(b, PIPE_F_REWRITE_MAC, PIPE_V_REWRITE_MAC_YES);
    if (way->snat) {
        build_set_field(b, PIPE_F_TO_EXTERNAL, PIPE_V_TO_EXTERNAL_YES);
    }
    if (way->keeps_source) {
        build_set_field(b, PIPE_F_KEEPS_SOURCE, PIPE_V_KEEPS_SOURCE_YES);
    }
    /* Also without affinity: the switch may have left the packet for its
     * dp_hash when the group gets the buckets of affinity. */
    build_set_field(b, PIPE_F_GROUP_ID, group_id);
    if (svc->affinity_s) {
        affinity_build_lookup(b);
    } else {
        build_set_field(b, PIPE_F_EP_STATE, PIPE_V_EP_STATE_SELECTED);
        ofpact_put_GROUP(&b->ofpacts)->group_id = group_id;
    }
}

static void
build_verdict(const struct pipe_service *svc, const struct way *way,
              struct build *b)
{
    switch (svc->targets[way->scope].verdict) {
    case PIPE_SELECT: build_select(svc, way, b); break;
    case PIPE_REJECT: build_reject(b); break;
    case PIPE_DROP: break;
    }
}

static bool
is_for_outside(const struct pipe_frontend *frontend)
{
    return frontend->kind != PIPE_CLUSTER_IP;
}

static bool
has_short_circuit(const struct pipe_frontend *frontend)
{
    return is_for_outside(frontend) && frontend->scope == PIPE_SCOPE_LOCAL;
}

static struct way
usual_way(const struct pipe_frontend *frontend)
{
    struct way way = {
        .scope = frontend->scope,
        .snat = is_for_outside(frontend) && !has_short_circuit(frontend),
        .keeps_source = has_short_circuit(frontend),
    };

    return way;
}

/* An address that is named comes before a NodePort: an external IP may be
 * one of this node's addresses. */
static void
begin(const struct pipe_service *svc, const struct pipe_frontend *frontend,
      bool short_circuit, struct build *b)
{
    if (frontend->kind == PIPE_NODE_PORT) {
        build_flow(b, PIPE_T_SERVICE_LB,
                   short_circuit ? PIPE_PRIO_MIDDLE : PIPE_PRIO_LOW);
        build_match_field(b, PIPE_F_TO_NODE_PORT, PIPE_V_TO_NODE_PORT_YES);
    } else {
        build_flow(b, PIPE_T_SERVICE_LB,
                   short_circuit ? PIPE_PRIO_HIGH : PIPE_PRIO_NORMAL);
        build_match_dst(b, &frontend->ip);
    }
    build_match_proto(b, svc->family, svc->proto);
    match_set_tp_dst(&b->match, htons(frontend->port));
    if (short_circuit) {
        build_match_field(b, PIPE_F_FROM_LOCAL, PIPE_V_FROM_LOCAL_YES);
    }
}

static void
render_frontend(const struct pipe_service *svc,
                const struct pipe_frontend *frontend, struct build *b)
{
    enum pipe_value state = PIPE_V_EP_STATE_TO_SELECT;
    struct way way = usual_way(frontend);

    if (frontend->restricted) {
        begin(svc, frontend, false, b);
        build_match_field(b, PIPE_F_EP_STATE, state);
        ranges_build_check(b, svc);
        build_done(b);
        state = PIPE_V_EP_STATE_CHECKED;
    }
    begin(svc, frontend, false, b);
    build_match_field(b, PIPE_F_EP_STATE, state);
    build_verdict(svc, &way, b);
    build_done(b);

    if (has_short_circuit(frontend)) {
        way = (struct way){ .scope = PIPE_SCOPE_CLUSTER };
        begin(svc, frontend, true, b);
        build_match_field(b, PIPE_F_EP_STATE, state);
        build_verdict(svc, &way, b);
        build_done(b);
    }
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
    match_set_nw_frag_masked(&b->match, FLOW_NW_FRAG_ANY, FLOW_NW_FRAG_ANY);
    build_match_dst(b, &frontend->ip);
    build_match_field(b, PIPE_F_EP_STATE, PIPE_V_EP_STATE_TO_SELECT);
    if (svc->targets[frontend->scope].verdict == PIPE_SELECT) {
        struct way way = usual_way(frontend);

        build_select(svc, &way, b);
    }
    build_done(b);
}

/* Does a way of some frontend lead to the endpoints of 'scope'? */
static bool
scope_is_used(const struct pipe_service *svc, enum pipe_scope scope)
{
    if (svc->targets[scope].verdict != PIPE_SELECT) {
        return false;
    }
    for (size_t i = 0; i < svc->n_frontends; i++) {
        const struct pipe_frontend *frontend = &svc->frontends[i];

        if (frontend->scope == scope
            || (has_short_circuit(frontend) && scope == PIPE_SCOPE_CLUSTER)) {
            return true;
        }
    }
    return false;
}

/* Do the two differ by their address alone?  A NodePort has none. */
static bool
differ_by_address(const struct pipe_frontend *a, const struct pipe_frontend *b)
{
    return a->kind == PIPE_EXTERNAL && b->kind == PIPE_EXTERNAL
           && a->port == b->port && a->scope == b->scope
           && a->restricted == b->restricted;
}

static void
render_frontends(const struct pipe_service *svc, struct build *b)
{
    size_t first = 0; /* Of the items of the frontend before. */

    for (size_t i = 0; i < svc->n_frontends; i++) {
        const struct pipe_frontend *frontend = &svc->frontends[i];
        size_t n = b->out->n;

        if (i && differ_by_address(&frontend[-1], frontend)) {
            for (size_t j = first; j < n; j++) {
                fout_add(b->out,
                         fitem_with_dst(b->out->items[j], &frontend->ip));
            }
        } else {
            render_frontend(svc, frontend, b);
            if (svc->takes_fragments && frontend->kind == PIPE_CLUSTER_IP) {
                render_fragments(svc, frontend, b);
            }
        }
        first = n;
    }
}

int
pipe_render_service(const struct pipe_service *svc, struct fout *out,
                    struct err *err)
{
    struct build b;
    int error = 0;

    build_init(&b, out, cookie_make(COOKIE_SERVICE, svc->object_id));
    render_frontends(svc, &b);
    nested_render(svc, &b);
    ranges_render(svc, &b);
    for (int scope = 0; scope < N_PIPE_SCOPES; scope++) {
        if (scope_is_used(svc, scope)) {
            int retval = group_render(svc, scope, out, err);

            error = error ? error : retval;
            if (svc->affinity_s) {
                affinity_render(svc, scope, &b);
            }
        }
    }
    build_uninit(&b);
    return error;
}

void
pipe_render_cluster_ip(uint32_t object_id, const struct ip *ip,
                       struct fout *out)
{
    struct build b;

    build_init(&b, out, cookie_make(COOKIE_CLUSTER_IP, object_id));
    build_flow(&b, PIPE_T_SERVICE_LB, PIPE_PRIO_REST);
    build_match_dst(&b, ip);
    build_match_field(&b, PIPE_F_EP_STATE, PIPE_V_EP_STATE_TO_SELECT);
    match_set_nw_frag_masked(&b.match, 0, FLOW_NW_FRAG_ANY);
    build_reject(&b);
    build_done(&b);
    build_uninit(&b);
}
