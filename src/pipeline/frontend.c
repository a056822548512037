/* SPDX-License-Identifier: Apache-2.0 */

/* From an installed flow back to the address that it is for: the inverse of a
 * part of service.c, for the flows that another process has left on the
 * switch. */

#include "ofproxyd/pipeline/pipeline.h"

#include <flow.h>
#include <openvswitch/ofp-flow.h>
#include <openvswitch/ofp-protocol.h>
#include <openvswitch/ofpbuf.h>

#include "ofproxyd/pipeline/tables.h"

static bool
read_match(const struct fitem *flow, struct match *ret)
{
    struct ofpbuf *msg = fitem_encode_put(flow);
    struct ofputil_flow_mod fm;
    uint64_t stub[256 / 8];
    struct ofpbuf ofpacts = OFPBUF_STUB_INITIALIZER(stub);
    enum ofperr error;

    error = ofputil_decode_flow_mod(&fm, msg->data, OFPUTIL_P_OF15_OXM, NULL,
                                    NULL, &ofpacts, OFPP_MAX, UINT8_MAX);
    if (!error) {
        minimatch_expand(&fm.match, ret);
        minimatch_destroy(&fm.match);
    }
    ofpbuf_uninit(&ofpacts);
    ofpbuf_delete(msg);
    return !error;
}

static bool
matches_one(const struct match *match, enum pipe_field field, uint32_t value)
{
    const struct pipe_field_info *info = &pipe_fields[field];
    uint32_t mask = pipe_field_mask(field);
    size_t reg = info->reg - MFF_REG0;

    return (match->wc.masks.regs[reg] & mask) == mask
           && (match->flow.regs[reg] & mask) >> info->ofs == value;
}

static bool
read_family(const struct match *match, enum ip_family *ret)
{
    *ret = match->flow.dl_type == htons(ETH_TYPE_IP) ? IP_V4 : IP_V6;
    return match->wc.masks.dl_type == OVS_BE16_MAX
           && (*ret == IP_V4 || match->flow.dl_type == htons(ETH_TYPE_IPV6));
}

static bool
read_dst(const struct match *match, enum ip_family family, struct ip *ret)
{
    if (family == IP_V4) {
        *ret = ip_from_v4(match->flow.nw_dst);
        return match->wc.masks.nw_dst == OVS_BE32_MAX;
    }
    ret->in6 = match->flow.ipv6_dst;
    return ipv6_mask_is_exact(&match->wc.masks.ipv6_dst);
}

static bool
read_proto(const struct match *match, enum proto *ret)
{
    for (int p = 0; p < N_PROTOS; p++) {
        if (match->wc.masks.nw_proto == UINT8_MAX
            && match->flow.nw_proto == proto_number(p)) {
            *ret = p;
            return true;
        }
    }
    return false;
}

bool
pipe_flow_frontend(const struct fitem *flow, struct pipe_installed *ret)
{
    struct match match;

    if (fitem_kind(flow) != FITEM_FLOW
        || fitem_table(flow) != PIPE_T_SERVICE_LB || !read_match(flow, &match)
        || !read_family(&match, &ret->family)
        || !read_proto(&match, &ret->proto)
        || match.wc.masks.tp_dst != OVS_BE16_MAX) {
        return false;
    }
    ret->port = ntohs(match.flow.tp_dst);
    if (matches_one(&match, PIPE_F_TO_NODE_PORT, PIPE_V_TO_NODE_PORT_YES)) {
        ret->ip = (struct ip){ 0 };
        return true;
    }
    return read_dst(&match, ret->family, &ret->ip);
}

bool
pipe_flow_node_port_ip(const struct fitem *flow, struct ip *ret)
{
    enum ip_family family;
    struct match match;

    return fitem_kind(flow) == FITEM_FLOW
           && fitem_table(flow) == PIPE_T_NODE_PORT && read_match(flow, &match)
           && read_family(&match, &family) && read_dst(&match, family, ret);
}
