/* SPDX-License-Identifier: Apache-2.0 */
/* Connections that the switch is to forget: NXT_CT_FLUSH.
 *
 * The messages can't be part of a bundle.  They are sent in small numbers with
 * a barrier behind them: its reply says that they have been carried out, and
 * the time it took is what they cost the switch. */

#include "ofconn-private.h"

#include <limits.h>
#include <openvswitch/ofp-ct.h>
#include <openvswitch/ofp-util.h>
#include <openvswitch/vlog.h>
#include <timeval.h>

VLOG_DEFINE_THIS_MODULE(ofconn_ct);

static struct ofpbuf *
encode(const struct ofconn_ct_flush *flush)
{
    struct ofp_ct_match match = {
        .ip_proto = flush->proto,
        .tuple_orig = {
            .src = flush->from,
            .src_port = htons(flush->from_port),
            .dst = flush->dst,
            .dst_port = htons(flush->dst_port),
        },
        .tuple_reply = {
            .src = flush->src,
            .src_port = htons(flush->src_port),
            .dst = flush->to,
        },
    };
    uint16_t zone = flush->zone;

    ovs_assert(!IN6_IS_ADDR_UNSPECIFIED(&flush->dst)
               || !IN6_IS_ADDR_UNSPECIFIED(&flush->from)
               || !IN6_IS_ADDR_UNSPECIFIED(&flush->src)
               || !IN6_IS_ADDR_UNSPECIFIED(&flush->to));
    return ofp_ct_match_encode(&match, &zone, OFP15_VERSION);
}

bool
ofconn_ct_flush(struct ofconn *c, const struct ofconn_ct_flush *flushes,
                size_t n)
{
    if (c->state != S_FOLLOW || c->broken || c->ct_state == OFCONN_CT_OUT) {
        return false;
    }
    ovs_assert(n && n <= OFCONN_CT_MAX);
    c->ct_xid = ofconn_take_xids(c, n + 1);
    c->n_ct = n;
    for (size_t i = 0; i <= n; i++) {
        struct ofpbuf *msg =
            i < n ? encode(&flushes[i])
                  : ofputil_encode_barrier_request(OFP15_VERSION);
        struct ofp_header *oh = msg->data;

        oh->xid = htonl(c->ct_xid + i);
        rconn_send(c->rconn, msg, NULL);
    }
    c->ct_state = OFCONN_CT_OUT;
    c->ct_due_ms = time_msec() + c->reply_deadline_ms;
    return true;
}

enum ofconn_ct_state
ofconn_ct_state(const struct ofconn *c)
{
    return c->ct_state;
}

void
ofconn_ct_run(struct ofconn *c)
{
    if (time_msec() >= c->ct_due_ms) {
        ofconn_break(c, "no reply within %lld ms", c->reply_deadline_ms);
    }
}

void
ofconn_ct_reset(struct ofconn *c)
{
    c->ct_state = OFCONN_CT_IDLE;
    c->ct_due_ms = LLONG_MAX;
}

bool
ofconn_ct_recv_error(struct ofconn *c, uint32_t xid, enum ofperr error)
{
    static struct vlog_rate_limit rl = VLOG_RATE_LIMIT_INIT(1, 1);

    if (c->ct_state != OFCONN_CT_OUT || xid - c->ct_xid > c->n_ct) {
        return false;
    }
    VLOG_WARN_RL(&rl,
                 "%s: the switch can't forget single connections (%s): those "
                 "of UDP and SCTP to endpoints that are gone stay until they "
                 "time out",
                 c->target, ofperr_to_string(error));
    c->ct_state = OFCONN_CT_REFUSED;
    c->ct_due_ms = LLONG_MAX;
    return true;
}

bool
ofconn_ct_recv_barrier(struct ofconn *c, uint32_t xid)
{
    if (xid != c->ct_xid + c->n_ct || !c->n_ct) {
        return false;
    }
    if (c->ct_state == OFCONN_CT_OUT) {
        c->ct_state = OFCONN_CT_DONE;
        c->ct_due_ms = LLONG_MAX;
    }
    return true;
}
