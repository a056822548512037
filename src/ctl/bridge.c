/* SPDX-License-Identifier: Apache-2.0 */

/* Blocking requests; the whole program has a deadline. */

#include "bridge.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <openflow/openflow.h>
#include <openvswitch/ofp-actions.h>
#include <openvswitch/ofp-group.h>
#include <openvswitch/ofp-msgs.h>
#include <openvswitch/ofpbuf.h>
#include <openvswitch/vconn.h>
#include <util.h>

#include "ofproxyd/flow/cookie.h"
#include "ofproxyd/pipeline/tables.h"

/* Of the connection. */
#define CONNECT_MS 5000

/* A group has at most so many parts (cookie.h). */
#define MAX_PARTS GROUP_LEAF_MAX

struct bridge {
    struct vconn *vconn;
};

int
bridge_open(const char *run_dir, const char *name, struct bridge **ret,
            struct err *err)
{
    char *target = xasprintf("unix:%s/%s.mgmt", run_dir, name);
    struct vconn *vconn;
    int error =
        vconn_open_block(target, 1u << OFP15_VERSION, 0, CONNECT_MS, &vconn);

    if (error) {
        err_set(err, "can't connect to %s: %s", target, ovs_strerror(error));
    } else {
        *ret = xzalloc(sizeof **ret);
        (*ret)->vconn = vconn;
    }
    free(target);
    return error;
}

void
bridge_close(struct bridge *b)
{
    if (b) {
        vconn_close(b->vconn);
        free(b);
    }
}

/* Sends 'request', which is taken over; the caller owes 'replies' an
 * ofpbuf_list_delete(). */
static int
transact(struct bridge *b, struct ofpbuf *request, struct ovs_list *replies,
         struct err *err)
{
    struct ovs_list requests;
    int error;

    ovs_list_init(&requests);
    ovs_list_init(replies);
    ovs_list_push_back(&requests, &request->list_node);
    error = vconn_transact_multipart(b->vconn, &requests, replies);
    if (error) {
        err_set(err, "the switch doesn't answer: %s", ovs_strerror(error));
    }
    return error;
}

/* Buckets. */

static bool
read_ct(const struct ofpact_conntrack *ct, struct member *m)
{
    const struct ofpact *a;

    OFPACT_FOR_EACH (a, ct->actions, ofpact_ct_get_action_len(ct)) {
        const struct ofpact_nat *nat =
            a->type == OFPACT_NAT ? ofpact_get_NAT(a) : NULL;

        if (nat && nat->range_af == AF_INET) {
            m->ip = ip_from_v4(nat->range.addr.ipv4.min);
            m->port = nat->range.proto.min;
            return true;
        } else if (nat && nat->range_af == AF_INET6) {
            m->ip.in6 = nat->range.addr.ipv6.min;
            m->port = nat->range.proto.min;
            return true;
        }
    }
    return false;
}

/* Of a bucket that only chooses: the endpoint stands in registers. */
static void
read_set_field(const struct ofpact_set_field *set, struct member *m)
{
    enum mf_field_id id = set->field->id;

    if (id == pipe_fields[PIPE_F_EP_IP].reg) {
        m->ip = ip_from_v4(set->value->be32);
    } else if (id == PIPE_EP_IP6_REG) {
        memcpy(&m->ip.in6, &set->value->be128, sizeof m->ip.in6);
    } else if (id == pipe_fields[PIPE_F_EP_PORT].reg) {
        uint32_t mask = pipe_field_mask(PIPE_F_EP_PORT);

        if ((ntohl(ofpact_set_field_mask(set)->be32) & mask) == mask) {
            m->port = (uint16_t) (ntohl(set->value->be32) & mask);
        }
    }
}

/* Reads what a bucket leads to: an endpoint, or a part in '*ret_part'.
 * Returns false if it is neither (it is there to even out others). */
static bool
read_bucket(const struct ofputil_bucket *bucket, struct member *m,
            uint32_t *ret_part)
{
    const struct ofpact *a;

    *ret_part = 0;
    OFPACT_FOR_EACH (a, bucket->ofpacts, bucket->ofpacts_len) {
        if (a->type == OFPACT_GROUP) {
            *ret_part = ofpact_get_GROUP(a)->group_id;
            return true;
        } else if (a->type == OFPACT_CT && read_ct(ofpact_get_CT(a), m)) {
            return true;
        } else if (a->type == OFPACT_SET_FIELD) {
            read_set_field(ofpact_get_SET_FIELD(a), m);
        }
    }
    return m->port && !ip_is_none(&m->ip);
}

/* Groups. */

struct reading {
    struct bridge *bridge;
    struct group *group;
    size_t allocated;
    uint32_t parts[1 + MAX_PARTS]; /* That are to be read. */
    size_t n_parts;
};

static void
add_member(struct reading *r, const struct member *m)
{
    if (r->group->n >= r->allocated) {
        r->group->members = x2nrealloc(r->group->members, &r->allocated,
                                       sizeof *r->group->members);
    }
    r->group->members[r->group->n++] = *m;
}

static void
take_desc(struct reading *r, const struct ofputil_group_desc *gd)
{
    const struct ofputil_bucket *bucket;

    LIST_FOR_EACH (bucket, list_node, &gd->buckets) {
        struct member m = { .n_packets = 0 };
        uint32_t part;

        if (!read_bucket(bucket, &m, &part)) {
            continue;
        } else if (!part) {
            add_member(r, &m);
        } else if (r->n_parts < ARRAY_SIZE(r->parts)) {
            r->parts[r->n_parts++] = part;
        }
    }
}

/* Returns ENOENT if there is no such group. */
static int
read_desc(struct reading *r, uint32_t id, struct err *err)
{
    struct ovs_list replies;
    struct ofpbuf *reply;
    bool found = false;
    int error = transact(r->bridge,
                         ofputil_encode_group_desc_request(OFP15_VERSION, id),
                         &replies, err);

    LIST_FOR_EACH (reply, list_node, &replies) {
        struct ofputil_group_desc gd;

        while (
            !error
            && !ofputil_decode_group_desc_reply(&gd, reply, OFP15_VERSION)) {
            /* All groups come if the switch doesn't know of one. */
            if (gd.group_id == id) {
                found = true;
                take_desc(r, &gd);
            }
            ofputil_uninit_group_desc(&gd);
        }
    }
    ofpbuf_list_delete(&replies);
    if (!error && !found) {
        err_set(err, "the switch has no group %u", id);
        error = ENOENT;
    }
    return error;
}

/* Bucket counters come in the order of the buckets. */
static int
read_stats(struct reading *r, uint32_t id, size_t first, struct err *err)
{
    struct ovs_list replies;
    struct ofpbuf *reply;
    struct group *group = r->group;
    int error = transact(r->bridge,
                         ofputil_encode_group_stats_request(OFP15_VERSION, id),
                         &replies, err);

    LIST_FOR_EACH (reply, list_node, &replies) {
        struct ofputil_group_stats gs;

        while (!error && !ofputil_decode_group_stats_reply(reply, &gs)) {
            for (size_t i = 0;
                 gs.group_id == id && i < gs.n_buckets && first + i < group->n;
                 i++) {
                group->members[first + i].n_packets =
                    gs.bucket_stats[i].packet_count;
                group->members[first + i].n_bytes =
                    gs.bucket_stats[i].byte_count;
            }
            free(gs.bucket_stats);
        }
    }
    ofpbuf_list_delete(&replies);
    return error;
}

static int
compare_members(const void *a_, const void *b_)
{
    const struct member *a = a_, *b = b_;
    int cmp = ip_compare(&a->ip, &b->ip);

    return cmp ? cmp : (a->port > b->port) - (a->port < b->port);
}

/* A group may have a second bucket for an endpoint, to even out the others. */
static void
merge_members(struct group *group)
{
    struct member *m = group->members;
    size_t n = 0;

    if (group->n) {
        qsort(m, group->n, sizeof *m, compare_members);
    }
    for (size_t i = 0; i < group->n; i++) {
        if (n && !compare_members(&m[n - 1], &m[i])) {
            m[n - 1].n_packets += m[i].n_packets;
            m[n - 1].n_bytes += m[i].n_bytes;
        } else {
            m[n++] = m[i];
        }
    }
    group->n = n;
}

int
bridge_read_group(struct bridge *b, uint32_t id, struct group *ret,
                  struct err *err)
{
    struct reading r = { .bridge = b, .group = ret, .parts = { id } };
    int error = 0;

    *ret = (struct group){ .n = 0 };
    r.n_parts = 1;
    for (size_t i = 0; i < r.n_parts && !error; i++) {
        size_t first = ret->n;

        error = read_desc(&r, r.parts[i], err);
        if (!error) {
            error = read_stats(&r, r.parts[i], first, err);
        }
    }
    if (error) {
        group_uninit(ret);
    }
    merge_members(ret);
    return error;
}

void
group_uninit(struct group *group)
{
    free(group->members);
    *group = (struct group){ .n = 0 };
}
