/* SPDX-License-Identifier: Apache-2.0 */
/* Packets that matched some flows of ours, asked for now and then, as
 * ofconn-stats.c does with groups. */

#include "ofconn-private.h"

#include <openvswitch/ofp-actions.h>
#include <openvswitch/ofp-flow.h>

#include <byte-order.h>
#include <timeval.h>
#include <util.h>

/* More than are asked for. */
#define MAX_FLOWS 65536

void
ofconn_ask_flow_stats(struct ofconn *c, uint8_t table, uint64_t cookie,
                      uint64_t mask)
{
    struct ofputil_flow_stats_request fsr = {
        .cookie = htonll(cookie),
        .cookie_mask = htonll(mask),
        .out_port = OFPP_ANY,
        .out_group = OFPG_ANY,
        .table_id = table,
    };

    if (c->state == S_FOLLOW && !c->flows.xid) {
        match_init_catchall(&fsr.match);
        c->flows.n_new = 0;
        c->flows.due_ms = time_msec() + c->reply_deadline_ms;
        c->flows.xid = ofconn_send(
            c, ofputil_encode_flow_stats_request(&fsr, OFPUTIL_P_OF15_OXM));
    }
}

bool
ofconn_take_flow_stats(struct ofconn *c, struct ofconn_flow_stats **ret,
                       size_t *ret_n)
{
    bool fresh = c->flows.fresh;

    *ret = c->flows.last;
    *ret_n = c->flows.n_last;
    c->flows.last = NULL;
    c->flows.n_last = 0;
    c->flows.fresh = false;
    return fresh;
}

static void
add(struct ofconn_flows *f, const struct ofputil_flow_stats *fs)
{
    if (f->n_new >= MAX_FLOWS) {
        return;
    }
    if (f->n_new == f->allocated) {
        f->new = x2nrealloc(f->new, &f->allocated, sizeof *f->new);
    }
    f->new[f->n_new++] = (struct ofconn_flow_stats){
        .cookie = ntohll(fs->cookie),
        .id = (uint64_t) match_hash(&fs->match, fs->priority) << 32
              | match_hash(&fs->match, ~fs->priority),
        .n_packets = fs->packet_count,
        .n_bytes = fs->byte_count,
    };
}

bool
ofconn_flowstats_recv(struct ofconn *c, struct ofpbuf *msg)
{
    const struct ofp_header *oh = msg->data;
    struct ofconn_flows *f = &c->flows;
    bool more = ofpmp_more(oh);
    uint64_t stub[1024 / 8];
    struct ofpbuf ofpacts = OFPBUF_STUB_INITIALIZER(stub);
    struct ofpbuf entry;

    if (!f->xid || ntohl(oh->xid) != f->xid) {
        return false;
    }
    ofpraw_pull_assert(msg);
    while (ofconn_pull_entry(msg, &entry)) {
        struct ofputil_flow_stats fs;

        ofpbuf_clear(&ofpacts);
        if (!ofputil_decode_flow_stats_reply(&fs, &entry, false, &ofpacts)) {
            add(f, &fs);
        }
    }
    ofpbuf_uninit(&ofpacts);
    f->due_ms = time_msec() + c->reply_deadline_ms;
    if (!more) {
        free(f->last);
        f->last = f->new;
        f->n_last = f->n_new;
        f->fresh = true;
        f->new = NULL;
        f->n_new = f->allocated = 0;
        f->xid = 0;
    }
    return true;
}

bool
ofconn_flowstats_recv_error(struct ofconn *c, uint32_t xid)
{
    if (!xid || xid != c->flows.xid) {
        return false;
    }
    c->flows.xid = 0;
    return true;
}

void
ofconn_flowstats_run(struct ofconn *c)
{
    if (c->flows.xid && time_msec() >= c->flows.due_ms) {
        c->flows.xid = 0;
    }
}

void
ofconn_flowstats_reset(struct ofconn *c)
{
    c->flows.xid = 0;
}

void
ofconn_flowstats_uninit(struct ofconn *c)
{
    free(c->flows.last);
    free(c->flows.new);
}
