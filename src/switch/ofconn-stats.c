/* SPDX-License-Identifier: Apache-2.0 */
/* Packets that went through each group of ours, asked for now and then.
 *
 * Nothing depends on the answer: one that doesn't come, or is refused, is
 * forgotten. */

#include "ofconn-private.h"

#include <openvswitch/ofp-group.h>
#include <timeval.h>
#include <util.h>

#include "ofproxyd/flow/cookie.h"

/* More than there are group ids for objects. */
#define MAX_GROUPS (2 * ((size_t) OBJECT_ID_MAX + 1))

void
ofconn_ask_group_stats(struct ofconn *c)
{
    if (c->state == S_FOLLOW && !c->groups.xid) {
        c->groups.n_new = 0;
        c->groups.due_ms = time_msec() + c->reply_deadline_ms;
        c->groups.xid =
            ofconn_send(c, ofputil_encode_group_stats_request(OFP15_VERSION,
                                                              OFPG_ALL));
    }
}

bool
ofconn_awaits_group_stats(const struct ofconn *c)
{
    return c->groups.xid != 0;
}

struct ofconn_group_stats *
ofconn_take_group_stats(struct ofconn *c, size_t *ret_n)
{
    struct ofconn_group_stats *stats = c->groups.last;

    *ret_n = c->groups.n_last;
    c->groups.last = NULL;
    c->groups.n_last = 0;
    return stats;
}

static void
add(struct ofconn_groups *g, const struct ofputil_group_stats *gs)
{
    if (!group_id_is_ours(gs->group_id) || group_id_is_leaf(gs->group_id)
        || g->n_new >= MAX_GROUPS) {
        return;
    }
    if (g->n_new == g->allocated) {
        g->new = x2nrealloc(g->new, &g->allocated, sizeof *g->new);
    }
    g->new[g->n_new++] = (struct ofconn_group_stats){
        .group_id = gs->group_id,
        .n_packets = gs->packet_count,
        .n_bytes = gs->byte_count,
    };
}

void
ofconn_stats_recv(struct ofconn *c, struct ofpbuf *msg)
{
    const struct ofp_header *oh = msg->data;
    struct ofconn_groups *g = &c->groups;
    bool more = ofpmp_more(oh);

    if (!g->xid || ntohl(oh->xid) != g->xid) {
        return;
    }
    for (;;) {
        struct ofputil_group_stats gs;

        if (ofputil_decode_group_stats_reply(msg, &gs)) {
            break;
        }
        add(g, &gs);
        free(gs.bucket_stats);
    }
    g->due_ms = time_msec() + c->reply_deadline_ms;
    if (!more) {
        free(g->last);
        g->last = g->new;
        g->n_last = g->n_new;
        g->new = NULL;
        g->n_new = g->allocated = 0;
        g->xid = 0;
    }
}

bool
ofconn_stats_recv_error(struct ofconn *c, uint32_t xid)
{
    if (!xid || xid != c->groups.xid) {
        return false;
    }
    c->groups.xid = 0;
    return true;
}

void
ofconn_stats_run(struct ofconn *c)
{
    if (c->groups.xid && time_msec() >= c->groups.due_ms) {
        c->groups.xid = 0;
    }
}

void
ofconn_stats_reset(struct ofconn *c)
{
    c->groups.xid = 0;
}

void
ofconn_stats_uninit(struct ofconn *c)
{
    free(c->groups.last);
    free(c->groups.new);
}
