/* SPDX-License-Identifier: Apache-2.0 */

/* From an installed group back to its endpoints, and from an installed flow to
 * the source that it gives: the inverse of group.c and of a part of
 * multicluster.c, for what another process has left on the switch. */

#include "ofproxyd/pipeline/pipeline.h"

#include <stdlib.h>

#include <openvswitch/ofp-flow.h>
#include <openvswitch/ofp-group.h>
#include <openvswitch/ofp-protocol.h>
#include <openvswitch/ofpbuf.h>
#include <util.h>

#include "ofproxyd/pipeline/tables.h"

/* What a destination (NX_NAT_F_DST) or a source (NX_NAT_F_SRC) is translated
 * to: port 0 stands for its own. */
static bool
read_ct(const struct ofpact_conntrack *ct, uint16_t flag, struct ip *ip,
        uint16_t *port)
{
    const struct ofpact *a;

    OFPACT_FOR_EACH (a, ct->actions, ofpact_ct_get_action_len(ct)) {
        const struct ofpact_nat *nat;

        if (a->type != OFPACT_NAT) {
            continue;
        }
        nat = ofpact_get_NAT(a);
        if (!(nat->flags & flag)) {
            continue;
        }
        if (nat->range_af == AF_INET) {
            *ip = ip_from_v4(nat->range.addr.ipv4.min);
        } else if (nat->range_af == AF_INET6) {
            ip->in6 = nat->range.addr.ipv6.min;
        } else {
            continue;
        }
        *port = nat->range.proto.min;
        return true;
    }
    return false;
}

/* A part of the endpoint of a bucket that only chooses. */
static void
read_set_field(const struct ofpact_set_field *set, struct eps *eps)
{
    const struct pipe_field_info *port = &pipe_fields[PIPE_F_EP_PORT];
    const struct pipe_field_info *ip4 = &pipe_fields[PIPE_F_EP_IP];

    if (set->field->id == ip4->reg) {
        eps->ip = ip_from_v4(set->value->be32);
    } else if (set->field->id == PIPE_EP_IP6_REG) {
        memcpy(&eps->ip.in6, &set->value->be128, sizeof eps->ip.in6);
    } else if (set->field->id == port->reg) {
        uint32_t mask = pipe_field_mask(PIPE_F_EP_PORT);

        if ((ntohl(ofpact_set_field_mask(set)->be32) & mask) == mask) {
            eps->port = (ntohl(set->value->be32) & mask) >> port->ofs;
        }
    }
}

static bool
read_bucket(const struct ofputil_bucket *bucket, struct eps *eps)
{
    const struct ofpact *a;

    memset(eps, 0, sizeof *eps);
    OFPACT_FOR_EACH (a, bucket->ofpacts, bucket->ofpacts_len) {
        /* The endpoint of a bucket that translates by itself. */
        if (a->type == OFPACT_CT
            && read_ct(ofpact_get_CT(a), NX_NAT_F_DST, &eps->ip, &eps->port)
            && eps->port) {
            return true;
        }
        if (a->type == OFPACT_SET_FIELD) {
            read_set_field(ofpact_get_SET_FIELD(a), eps);
        }
    }
    return eps->port && !ip_is_none(&eps->ip);
}

static int
compare_eps(const void *a, const void *b)
{
    return eps_compare(a, b);
}

static size_t
sort_unique(struct eps *eps, size_t n)
{
    size_t n_unique = 0;

    qsort(eps, n, sizeof *eps, compare_eps);
    for (size_t i = 0; i < n; i++) {
        if (!i || eps_compare(&eps[i], &eps[i - 1])) {
            eps[n_unique++] = eps[i];
        }
    }
    return n_unique;
}

size_t
pipe_group_endpoints(const struct fitem *group, struct eps **ret)
{
    const struct ofputil_bucket *bucket;
    struct ofputil_group_mod gm;
    struct eps *eps = NULL;
    size_t n = 0, allocated = 0;
    struct ofpbuf *msg;

    *ret = NULL;
    if (fitem_kind(group) != FITEM_GROUP) {
        return 0;
    }
    msg = fitem_encode_put(group);
    if (!ofputil_decode_group_mod(msg->data, &gm)) {
        LIST_FOR_EACH (bucket, list_node, &gm.buckets) {
            if (n >= allocated) {
                eps = x2nrealloc(eps, &allocated, sizeof *eps);
            }
            n += read_bucket(bucket, &eps[n]);
        }
        ofputil_uninit_group_mod(&gm);
    }
    ofpbuf_delete(msg);
    if (!n) {
        free(eps);
        return 0;
    }
    *ret = eps;
    return sort_unique(eps, n);
}

bool
pipe_flow_source(const struct fitem *flow, struct ip *ret)
{
    struct ofputil_flow_mod fm;
    uint64_t stub[256 / 8];
    struct ofpbuf ofpacts = OFPBUF_STUB_INITIALIZER(stub);
    const struct ofpact *a;
    bool found = false;
    struct ofpbuf *msg;
    uint16_t port;

    if (fitem_kind(flow) != FITEM_FLOW || fitem_table(flow) != PIPE_T_SNAT) {
        return false;
    }
    msg = fitem_encode_put(flow);
    if (!ofputil_decode_flow_mod(&fm, msg->data, OFPUTIL_P_OF15_OXM, NULL,
                                 NULL, &ofpacts, OFPP_MAX, UINT8_MAX)) {
        OFPACT_FOR_EACH (a, fm.ofpacts, fm.ofpacts_len) {
            found =
                found
                || (a->type == OFPACT_CT
                    && read_ct(ofpact_get_CT(a), NX_NAT_F_SRC, ret, &port));
        }
        minimatch_destroy(&fm.match);
    }
    ofpbuf_uninit(&ofpacts);
    ofpbuf_delete(msg);
    return found;
}
