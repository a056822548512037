/* SPDX-License-Identifier: Apache-2.0 */

/* From an installed group back to its endpoints: the inverse of group.c, for
 * the groups that another process has left on the switch. */

#include "ofproxyd/pipeline/pipeline.h"

#include <stdlib.h>

#include <openvswitch/ofp-group.h>
#include <openvswitch/ofpbuf.h>
#include <util.h>

#include "ofproxyd/pipeline/tables.h"

/* The endpoint of a bucket that translates by itself. */
static bool
read_ct(const struct ofpact_conntrack *ct, struct eps *eps)
{
    const struct ofpact *a;

    OFPACT_FOR_EACH (a, ct->actions, ofpact_ct_get_action_len(ct)) {
        const struct ofpact_nat *nat;

        if (a->type != OFPACT_NAT) {
            continue;
        }
        nat = ofpact_get_NAT(a);
        if (!(nat->flags & NX_NAT_F_DST) || !nat->range.proto.min) {
            continue;
        }
        if (nat->range_af == AF_INET) {
            eps->ip = ip_from_v4(nat->range.addr.ipv4.min);
        } else if (nat->range_af == AF_INET6) {
            eps->ip.in6 = nat->range.addr.ipv6.min;
        } else {
            continue;
        }
        eps->port = nat->range.proto.min;
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
        if (a->type == OFPACT_CT && read_ct(ofpact_get_CT(a), eps)) {
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
