/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the flows and groups of ours that the switch holds into the flow
 * table.
 *
 * A reply comes in any number of parts; each is taken in when it comes, none
 * is kept.  An entry that can't be read counts as absent: the flow table then
 * puts it anew, which is right whether or not something is there.  Learned
 * flows, of which there may be very many, are recognized before they are
 * decoded, and passed over.
 *
 * On a bridge that may have had another master everything is read, not only
 * what is ours. */

#include "ofconn-private.h"

#include <byte-order.h>
#include <openflow/openflow-1.5.h>
#include <openvswitch/match.h>
#include <openvswitch/ofp-flow.h>
#include <openvswitch/ofp-group.h>
#include <openvswitch/vlog.h>
#include <timeval.h>
#include <unaligned.h>
#include <util.h>

#include "ofproxyd/flow/cookie.h"

VLOG_DEFINE_THIS_MODULE(ofconn_dump);

static struct vlog_rate_limit rl = VLOG_RATE_LIMIT_INIT(5, 5);

/* More than any bridge can hold in memory: ends a reply that never does. */
#define MAX_DUMPED 10000000

static void
start(struct ofconn *c, struct ofpbuf *request)
{
    c->dump_xid = ofconn_send(c, request);
    c->due_ms = time_msec() + c->reply_deadline_ms;
}

void
ofconn_dump_start_flows(struct ofconn *c)
{
    bool all = ofconn_old_is_expected(c);
    struct ofputil_flow_stats_request fsr = {
        .cookie = all ? 0 : htonll(COOKIE_MAGIC),
        .cookie_mask = all ? 0 : htonll(COOKIE_MAGIC_MASK),
        .out_port = OFPP_ANY,
        .out_group = OFPG_ANY,
        .table_id = OFPTT_ALL,
    };
    match_init_catchall(&fsr.match);

    c->n_dumped_flows = c->n_dumped_groups = c->n_unreadable = 0;
    c->n_foreign_dumped = c->stats.n_foreign;
    c->stats.n_dumped = 0;
    c->redump = false;
    ofconn_old_begin(c);
    flowtab_dump_begin(c->flowtab);
    start(c, ofputil_encode_flow_stats_request(&fsr, OFPUTIL_P_OF15_OXM));
}

void
ofconn_dump_start_groups(struct ofconn *c)
{
    start(c, ofputil_encode_group_desc_request(OFP15_VERSION, OFPG_ALL));
}

/* Begins a part: true if it belongs to the request that is out. */
static bool
begin_part(struct ofconn *c, struct ofpbuf *msg, bool *ret_more)
{
    const struct ofp_header *oh = msg->data;
    if (ntohl(oh->xid) != c->dump_xid) {
        return false;
    }
    *ret_more = ofpmp_more(oh);
    ofpraw_pull_assert(msg);
    c->due_ms = time_msec() + c->reply_deadline_ms;
    return true;
}

/* Ends a part: true if it was the last. */
static bool
end_part(struct ofconn *c, struct ofpbuf *msg, bool more)
{
    if (msg->size) {
        c->n_unreadable++;
    }
    if (c->n_dumped_flows + c->n_dumped_groups > MAX_DUMPED) {
        ofconn_break(c, "more than %d flows and groups of ours", MAX_DUMPED);
        return false;
    }
    return !more;
}

static void
have_flow(struct ofconn *c, const struct ofputil_flow_stats *fs)
{
    struct fitem_flow flow = {
        .table = fs->table_id,
        .priority = fs->priority,
        .cookie = ntohll(fs->cookie),
        .idle_timeout = fs->idle_timeout,
        .hard_timeout = fs->hard_timeout,
        .flags = fs->flags & OFPUTIL_FF_STATE,
        .match = &fs->match,
        .ofpacts = fs->ofpacts,
        .ofpacts_len = fs->ofpacts_len,
    };
    struct fitem *item = fitem_from_flow(&flow);
    c->stats.n_dumped++;
    if (!flowtab_concerns(c->flowtab, item)) {
        ofconn_old_note_flow(c, item, fs);
        fitem_unref(item);
        return;
    }
    c->n_dumped_flows += cookie_is_ours(flow.cookie);
    flowtab_have(c->flowtab, item);
}

bool
ofconn_dump_recv_flows(struct ofconn *c, struct ofpbuf *msg)
{
    bool more;
    if (!begin_part(c, msg, &more)) {
        return false;
    }

    uint64_t stub[1024 / 8];
    struct ofpbuf ofpacts = OFPBUF_STUB_INITIALIZER(stub);
    struct ofpbuf entry;
    while (ofconn_pull_entry(msg, &entry)) {
        struct ofputil_flow_stats fs;

        if (ofconn_learned_is_stats(c, &entry)) {
            c->stats.n_dumped++;
            continue;
        }
        ofpbuf_clear(&ofpacts);
        if (ofputil_decode_flow_stats_reply(&fs, &entry, false, &ofpacts)) {
            c->n_unreadable++;
        } else {
            have_flow(c, &fs);
        }
    }
    ofpbuf_uninit(&ofpacts);
    return end_part(c, msg, more);
}

/* Returns a group that differs from whatever is wanted: no renderer makes one
 * like this. */
static struct fitem *
some_group(uint32_t group_id)
{
    struct ofputil_group_mod gm = {
        .group_id = group_id,
        .type = OFPGT11_FF,
        .command_bucket_id = OFPG15_BUCKET_ALL,
    };
    ovs_list_init(&gm.buckets);

    struct fitem *item = NULL;
    ignore(fitem_from_group(&gm, &item, NULL)); /* It is small. */
    return item;
}

void
ofconn_have_some_group(struct ofconn *c, uint32_t group_id)
{
    flowtab_have(c->flowtab, some_group(group_id));
}

void
ofconn_have_group(struct ofconn *c, const struct ofputil_group_mod *gm)
{
    struct fitem *item;
    struct err err;
    if (!fitem_from_group(gm, &item, &err)) {
        flowtab_have(c->flowtab, item);
    } else {
        VLOG_INFO_RL(&rl, "%s: group %#" PRIx32 " is not as we make them: %s",
                     c->target, gm->group_id, err.msg);
        ofconn_have_some_group(c, gm->group_id);
    }
}

static void
have_group_desc(struct ofconn *c, struct ofputil_group_desc *gd)
{
    /* The buckets are borrowed and given back. */
    struct ofputil_group_mod gm = {
        .type = gd->type,
        .group_id = gd->group_id,
        .command_bucket_id = OFPG15_BUCKET_ALL,
        .props = gd->props,
    };
    ovs_list_move(&gm.buckets, &gd->buckets);
    if (group_id_is_ours(gm.group_id)) {
        ofconn_have_group(c, &gm);
        c->n_dumped_groups++;
    } else {
        struct fitem *item;
        ofconn_old_note_group(c, fitem_from_group(&gm, &item, NULL)
                                     ? some_group(gm.group_id)
                                     : item);
    }
    ovs_list_move(&gd->buckets, &gm.buckets);
}

/* The id in the header of a group description that can't be decoded. */
static void
recv_unreadable_group(struct ofconn *c, const struct ofpbuf *entry)
{
    const struct ofp15_group_desc_stats *ogds =
        ofpbuf_at(entry, 0, sizeof *ogds);

    c->n_unreadable++;
    if (ogds) {
        uint32_t id = ntohl(get_unaligned_be32(&ogds->group_id));
        if (group_id_is_ours(id)) {
            ofconn_have_some_group(c, id);
        } else {
            ofconn_old_note_group(c, some_group(id));
        }
    }
}

bool
ofconn_dump_recv_groups(struct ofconn *c, struct ofpbuf *msg)
{
    bool more;
    if (!begin_part(c, msg, &more)) {
        return false;
    }

    struct ofpbuf entry;
    while (ofconn_pull_entry(msg, &entry)) {
        struct ofpbuf body = entry;
        struct ofputil_group_desc gd;

        if (ofputil_decode_group_desc_reply(&gd, &body, OFP15_VERSION)) {
            recv_unreadable_group(c, &entry);
            continue;
        }
        have_group_desc(c, &gd);
        ofputil_uninit_group_desc(&gd);
    }
    return end_part(c, msg, more);
}
