/* SPDX-License-Identifier: Apache-2.0 */

/* Items: flows and groups in the form in which they are compared, stored and
 * sent.
 *
 * libopenvswitch encodes; this file decides which parts of a message are the
 * item's and sets all others to one value, so that equal bytes mean equal
 * behaviour.  What was read from a switch goes through the same encoder as
 * what was rendered: that they then compare equal rests on the decoder and
 * encoder of libopenvswitch being inverse for the actions that we use, which
 * the tests check kind by kind.
 *
 * 100 000 endpoints mean some 12 MB of bucket bytes, so an item is a single
 * block with a header of 16 bytes. */

#include "ofproxyd/flow/item.h"

#include <endian.h>
#include <errno.h>
#include <hash.h>
#include <openflow/openflow.h>
#include <openvswitch/ofp-flow.h>
#include <openvswitch/ofp-msgs.h>
#include <openvswitch/ofp-port.h>
#include <openvswitch/ofp-protocol.h>
#include <openvswitch/util.h>
#include <string.h>

#include "ofproxyd/base/ip.h"

struct fitem {
    uint32_t n_refs;
    uint32_t hash; /* Of the key. */
    uint32_t size; /* Of 'bytes'. */
    uint32_t kind; /* enum fitem_kind. */
    uint8_t bytes[];
};

/* What OFPT_BUNDLE_ADD_MESSAGE puts in front of a message. */
#define BUNDLE_OVERHEAD 16
#define MESSAGE_MAX     (UINT16_MAX - BUNDLE_OVERHEAD)

/* The flags that change what a flow does.  OFPFF_CHECK_OVERLAP and
 * OFPFF_RESET_COUNTS are remembered by the switch, too, but only meant the
 * message that brought them. */
#define FLOW_FLAGS                                       \
    (OFPUTIL_FF_SEND_FLOW_REM | OFPUTIL_FF_NO_PKT_COUNTS \
     | OFPUTIL_FF_NO_BYT_COUNTS)

/* Importance of a flow whose actions were left out, see encode_flow(). */
#define IMPORTANCE_CUT UINT16_MAX

/* OFPAT_GROUP of OpenFlow 1.5.  The library has no public name for it. */
#define ACTION_GROUP   22

#define FLOW_BODY_OFS  sizeof(struct ofp_header)
#define FLOW_MATCH_OFS (FLOW_BODY_OFS + sizeof(struct ofp11_flow_mod))
#define GROUP_BODY_OFS sizeof(struct ofp_header)

static uint16_t
get_be16(const uint8_t *p)
{
    return (uint16_t) (p[0] << 8 | p[1]);
}

static uint32_t
get_be32(const uint8_t *p)
{
    return (uint32_t) get_be16(p) << 16 | get_be16(p + 2);
}

static const struct ofp11_flow_mod *
flow_body(const struct fitem *item)
{
    return ALIGNED_CAST(const struct ofp11_flow_mod *,
                        item->bytes + FLOW_BODY_OFS);
}

static const struct ofp15_group_mod *
group_body(const struct fitem *item)
{
    return ALIGNED_CAST(const struct ofp15_group_mod *,
                        item->bytes + GROUP_BODY_OFS);
}

/* Length of a flow's match with its header, without padding. */
static size_t
flow_match_len(const struct fitem *item)
{
    return get_be16(item->bytes + FLOW_MATCH_OFS + 2);
}

static uint32_t
hash_key(const struct fitem *item)
{
    if (item->kind == FITEM_GROUP) {
        return fitem_group_hash(fitem_group_id(item));
    }

    uint32_t basis = fitem_table(item) << 16 | fitem_priority(item);
    return hash_bytes(item->bytes + FLOW_MATCH_OFS, flow_match_len(item),
                      basis);
}

/* Takes 'msg'. */
static struct fitem *
item_from_msg(enum fitem_kind kind, struct ofpbuf *msg)
{
    struct fitem *item = xmalloc(sizeof *item + msg->size);

    item->n_refs = 1;
    item->size = msg->size;
    item->kind = kind;
    memcpy(item->bytes, msg->data, msg->size);
    ofpbuf_delete(msg);

    /* The encoder drew an xid. */
    memset(item->bytes + offsetof(struct ofp_header, xid), 0,
           sizeof(ovs_be32));
    item->hash = hash_key(item);
    return item;
}

static struct ofpbuf *
encode_flow(const struct fitem_flow *flow, size_t ofpacts_len,
            uint16_t importance)
{
    struct ofputil_flow_mod fm = {
        .priority = flow->priority,
        .new_cookie = htobe64(flow->cookie),
        .table_id = flow->table,
        .command = OFPFC_ADD,
        .idle_timeout = flow->idle_timeout,
        .hard_timeout = flow->hard_timeout,
        .buffer_id = UINT32_MAX,
        .out_port = OFPP_ANY,
        .out_group = OFPG_ANY,
        .flags = flow->flags & FLOW_FLAGS,
        .importance = importance,
        .ofpacts = CONST_CAST(struct ofpact *, flow->ofpacts),
        .ofpacts_len = ofpacts_len,
    };

    minimatch_init(&fm.match, flow->match);
    struct ofpbuf *msg = ofputil_encode_flow_mod(&fm, OFPUTIL_P_OF15_OXM);
    minimatch_destroy(&fm.match);
    return msg;
}

struct fitem *
fitem_from_flow(const struct fitem_flow *flow)
{
    struct ofpbuf *msg = encode_flow(flow, flow->ofpacts_len, 0);

    if (msg->size > MESSAGE_MAX) {
        ofpbuf_delete(msg);
        msg = encode_flow(flow, 0, IMPORTANCE_CUT);
    }
    return item_from_msg(FITEM_FLOW, msg);
}

int
fitem_from_group(const struct ofputil_group_mod *gm, struct fitem **ret,
                 struct err *err)
{
    struct ofpbuf *msg = ofputil_encode_group_mod(OFP15_VERSION, gm, NULL, -1);

    if (msg->size > FITEM_GROUP_MAX_BYTES) {
        err_set(err,
                "group %" PRIu32 " takes %" PRIu32 " bytes, %" PRIu32
                " more than the %d that a group may have",
                gm->group_id, msg->size, msg->size - FITEM_GROUP_MAX_BYTES,
                FITEM_GROUP_MAX_BYTES);
        ofpbuf_delete(msg);
        return EMSGSIZE;
    }

    struct ofp15_group_mod *ogm =
        ofpbuf_at_assert(msg, GROUP_BODY_OFS, sizeof *ogm);
    ogm->command = htons(OFPGC11_ADD_OR_MOD);
    ogm->command_bucket_id = htonl(OFPG15_BUCKET_ALL);
    *ret = item_from_msg(FITEM_GROUP, msg);
    return 0;
}

struct fitem *
fitem_ref(const struct fitem *item_)
{
    struct fitem *item = CONST_CAST(struct fitem *, item_);

    item->n_refs++;
    return item;
}

void
fitem_unref(struct fitem *item)
{
    if (item && !--item->n_refs) {
        free(item);
    }
}

enum fitem_kind
fitem_kind(const struct fitem *item)
{
    return item->kind;
}

uint64_t
fitem_cookie(const struct fitem *item)
{
    return item->kind == FITEM_FLOW ? be64toh(flow_body(item)->cookie) : 0;
}

uint32_t
fitem_group_id(const struct fitem *item)
{
    return item->kind == FITEM_GROUP ? ntohl(group_body(item)->group_id) : 0;
}

uint8_t
fitem_table(const struct fitem *item)
{
    return item->kind == FITEM_FLOW ? flow_body(item)->table_id : 0;
}

uint16_t
fitem_priority(const struct fitem *item)
{
    return item->kind == FITEM_FLOW ? ntohs(flow_body(item)->priority) : 0;
}

/* Header of an OXM field of the basic class, without a mask: class, field and
 * length. */
#define OXM_HEADER(FIELD, LEN)        \
    {                                 \
        0x80, 0x00, (FIELD) << 1, LEN \
    }

/* Returns where in the bytes of the flow 'item' the value of the match field
 * with 'header' begins, or 0 if it has none. */
static size_t
find_field(const struct fitem *item, const uint8_t header[4])
{
    size_t end = FLOW_MATCH_OFS + flow_match_len(item);

    for (size_t ofs = FLOW_MATCH_OFS + 4; ofs + 4 < end;
         ofs += 4 + item->bytes[ofs + 3]) {
        if (!memcmp(item->bytes + ofs, header, 4)) {
            return ofs + 4;
        }
    }
    return 0;
}

uint8_t
fitem_nw_proto(const struct fitem *item)
{
    static const uint8_t header[] = OXM_HEADER(10, 1);
    size_t ofs = item->kind == FITEM_FLOW ? find_field(item, header) : 0;

    return ofs ? item->bytes[ofs] : 0;
}

struct fitem *
fitem_with_dst(const struct fitem *like, const struct ip *dst)
{
    static const uint8_t v4[] = OXM_HEADER(12, 4), v6[] = OXM_HEADER(27, 16);
    bool is_v4 = ip_family(dst) == IP_V4;
    size_t ofs = find_field(like, is_v4 ? v4 : v6);
    struct fitem *item = xmemdup(like, sizeof *like + like->size);
    ovs_be32 v4_dst = is_v4 ? ip_v4(dst) : 0;

    ovs_assert(ofs);
    memcpy(item->bytes + ofs, is_v4 ? (void *) &v4_dst : (void *) &dst->in6,
           is_v4 ? sizeof v4_dst : sizeof dst->in6);
    item->n_refs = 1;
    item->hash = hash_key(item);
    return item;
}

size_t
fitem_size(const struct fitem *item)
{
    return item->size;
}

uint32_t
fitem_key_hash(const struct fitem *item)
{
    return item->hash;
}

uint32_t
fitem_group_hash(uint32_t group_id)
{
    return hash_int(group_id, FITEM_GROUP);
}

bool
fitem_key_equals(const struct fitem *a, const struct fitem *b)
{
    if (a->hash != b->hash || a->kind != b->kind) {
        return false;
    }
    if (a->kind == FITEM_GROUP) {
        return group_body(a)->group_id == group_body(b)->group_id;
    }

    size_t len = flow_match_len(a);
    return flow_body(a)->table_id == flow_body(b)->table_id
           && flow_body(a)->priority == flow_body(b)->priority
           && len == flow_match_len(b)
           && !memcmp(a->bytes + FLOW_MATCH_OFS, b->bytes + FLOW_MATCH_OFS,
                      len);
}

bool
fitem_equals(const struct fitem *a, const struct fitem *b)
{
    return a == b
           || (a->hash == b->hash && a->kind == b->kind && a->size == b->size
               && !memcmp(a->bytes, b->bytes, a->size));
}

/* Calls 'cb' for each group named in the 'len' bytes of actions at 'p'.
 * Groups inside of a clone action are not looked for: no flow of ours has
 * one. */
static void
for_each_action_group(const uint8_t *p, size_t len,
                      void (*cb)(uint32_t group_id, void *aux), void *aux)
{
    while (len >= 8) {
        size_t action_len = get_be16(p + 2);

        if (action_len < 8 || action_len > len) {
            return;
        }
        if (get_be16(p) == ACTION_GROUP) {
            cb(get_be32(p + 4), aux);
        }
        p += action_len;
        len -= action_len;
    }
}

static void
for_each_flow_group(const struct fitem *item,
                    void (*cb)(uint32_t group_id, void *aux), void *aux)
{
    size_t ofs = FLOW_MATCH_OFS + ROUND_UP(flow_match_len(item), 8);

    while (ofs + 8 <= item->size) {
        const uint8_t *instruction = item->bytes + ofs;
        uint16_t type = get_be16(instruction);
        size_t len = get_be16(instruction + 2);

        if (len < 8 || len > item->size - ofs) {
            return;
        }
        if (type == OFPIT11_APPLY_ACTIONS || type == OFPIT11_WRITE_ACTIONS) {
            for_each_action_group(instruction + 8, len - 8, cb, aux);
        }
        ofs += len;
    }
}

static void
for_each_bucket_group(const struct fitem *item,
                      void (*cb)(uint32_t group_id, void *aux), void *aux)
{
    size_t ofs = GROUP_BODY_OFS + sizeof(struct ofp15_group_mod);
    size_t end = ofs + ntohs(group_body(item)->bucket_array_len);

    while (ofs + sizeof(struct ofp15_bucket) <= end) {
        const uint8_t *bucket = item->bytes + ofs;
        size_t len = get_be16(bucket);
        size_t actions_len = get_be16(bucket + 2);

        if (len < sizeof(struct ofp15_bucket) + actions_len
            || len > end - ofs) {
            return;
        }
        for_each_action_group(bucket + sizeof(struct ofp15_bucket),
                              actions_len, cb, aux);
        ofs += len;
    }
}

void
fitem_for_each_group(const struct fitem *item,
                     void (*cb)(uint32_t group_id, void *aux), void *aux)
{
    if (item->kind == FITEM_FLOW) {
        for_each_flow_group(item, cb, aux);
    } else {
        for_each_bucket_group(item, cb, aux);
    }
}

static struct ofpbuf *
clone_msg(const struct fitem *item, size_t size)
{
    struct ofpbuf *msg = ofpbuf_clone_data(item->bytes, size);

    msg->header = msg->data;
    ofpmsg_update_length(msg);
    return msg;
}

struct ofpbuf *
fitem_encode_put(const struct fitem *item)
{
    return clone_msg(item, item->size);
}

static struct ofpbuf *
encode_flow_delete(const struct fitem *item)
{
    struct ofpbuf *msg =
        clone_msg(item, FLOW_MATCH_OFS + ROUND_UP(flow_match_len(item), 8));
    struct ofp11_flow_mod *ofm =
        ofpbuf_at_assert(msg, FLOW_BODY_OFS, sizeof *ofm);

    ofm->cookie_mask = OVS_BE64_MAX;
    ofm->command = OFPFC_DELETE_STRICT;
    ofm->idle_timeout = htons(0);
    ofm->hard_timeout = htons(0);
    ofm->flags = htons(0);
    ofm->importance = htons(0);
    return msg;
}

static struct ofpbuf *
encode_group_delete(const struct fitem *item)
{
    struct ofpbuf *msg =
        clone_msg(item, GROUP_BODY_OFS + sizeof(struct ofp15_group_mod));
    struct ofp15_group_mod *ogm =
        ofpbuf_at_assert(msg, GROUP_BODY_OFS, sizeof *ogm);

    ogm->command = htons(OFPGC11_DELETE);
    ogm->type = OFPGT11_ALL; /* Not looked at, but has to be known. */
    ogm->bucket_array_len = htons(0);
    return msg;
}

struct ofpbuf *
fitem_encode_delete(const struct fitem *item)
{
    return item->kind == FITEM_FLOW ? encode_flow_delete(item)
                                    : encode_group_delete(item);
}

static void
format_flow(const struct fitem *item, const struct ofputil_table_map *names,
            struct ds *ds)
{
    struct ofputil_flow_mod fm;
    uint64_t stub[256 / 8];
    struct ofpbuf ofpacts = OFPBUF_STUB_INITIALIZER(stub);
    const struct ofp_header *oh =
        ALIGNED_CAST(const struct ofp_header *, item->bytes);

    enum ofperr error =
        ofputil_decode_flow_mod(&fm, oh, OFPUTIL_P_OF15_OXM, NULL, NULL,
                                &ofpacts, OFPP_MAX, UINT8_MAX);
    if (error) {
        ds_put_format(ds, "flow that can't be decoded: %s",
                      ofperr_get_name(error));
    } else {
        struct ofputil_flow_stats fs = {
            .cookie = fm.new_cookie,
            .table_id = fm.table_id,
            .priority = (uint16_t) fm.priority,
            .idle_timeout = fm.idle_timeout,
            .hard_timeout = fm.hard_timeout,
            .flags = fm.flags,
            .importance = fm.importance,
            .ofpacts = fm.ofpacts,
            .ofpacts_len = fm.ofpacts_len,
        };
        minimatch_expand(&fm.match, &fs.match);
        ofputil_flow_stats_format(ds, &fs, NULL, names, false);
        minimatch_destroy(&fm.match);
    }
    ofpbuf_uninit(&ofpacts);
}

static void
format_group(const struct fitem *item, const struct ofputil_table_map *names,
             struct ds *ds)
{
    struct ofputil_group_mod gm;
    const struct ofp_header *oh =
        ALIGNED_CAST(const struct ofp_header *, item->bytes);

    enum ofperr error = ofputil_decode_group_mod(oh, &gm);
    if (error) {
        ds_put_format(ds, "group %" PRIu32 " that can't be decoded: %s",
                      fitem_group_id(item), ofperr_get_name(error));
        return;
    }

    /* The library prints a message: a line break and the command, then what
     * is wanted here. */
    struct ds text = DS_EMPTY_INITIALIZER;
    ofputil_group_mod_format__(&text, OFP15_VERSION, &gm, NULL, names);
    const char *start = strstr(ds_cstr(&text), "group_id=");
    ds_put_cstr(ds, start ? start : ds_cstr(&text));
    ds_destroy(&text);
    ofputil_uninit_group_mod(&gm);
}

void
fitem_format(const struct fitem *item,
             const struct ofputil_table_map *table_names, struct ds *ds)
{
    if (item->kind == FITEM_FLOW) {
        format_flow(item, table_names, ds);
    } else {
        format_group(item, table_names, ds);
    }
}

void
fout_add(struct fout *out, struct fitem *item)
{
    if (out->n >= out->allocated) {
        out->items =
            x2nrealloc(out->items, &out->allocated, sizeof(struct fitem *));
    }
    out->items[out->n++] = item;
}

bool
fout_has_key(const struct fout *out, const struct fitem *item)
{
    for (size_t i = 0; i < out->n; i++) {
        if (fitem_key_equals(out->items[i], item)) {
            return true;
        }
    }
    return false;
}

void
fout_flow(struct fout *out, const struct fitem_flow *flow)
{
    fout_add(out, fitem_from_flow(flow));
}

int
fout_group(struct fout *out, const struct ofputil_group_mod *gm,
           struct err *err)
{
    struct fitem *item;
    int error = fitem_from_group(gm, &item, err);

    if (!error) {
        fout_add(out, item);
    }
    return error;
}

void
fout_clear(struct fout *out)
{
    for (size_t i = 0; i < out->n; i++) {
        fitem_unref(out->items[i]);
    }
    free(out->items);
    *out = (struct fout) FOUT_INIT;
}
