/* SPDX-License-Identifier: Apache-2.0 */
/* Sends what is dirty in the flow table, one bundle after the other.
 *
 * A bundle is put together before it is opened, because the switch drops one
 * that is idle for 10 s.  It takes effect as a whole or not at all.  A
 * message that the switch can't decode is just not part of the bundle, and
 * the rest would be committed without it; hence the barrier before the
 * commit. */

#include "ofconn-private.h"

#include <limits.h>
#include <openvswitch/ofp-bundle.h>
#include <openvswitch/ofp-util.h>
#include <openvswitch/vlog.h>
#include <random.h>
#include <timeval.h>

VLOG_DEFINE_THIS_MODULE(ofconn_bundle);

static struct vlog_rate_limit refused_rl = VLOG_RATE_LIMIT_INIT(10, 10);

#define MAX_BYTES ((size_t) 1 << 20)

/* Each refusal costs a whole bundle.  So that thousands of refusals cost
 * little, bundles shrink down to this with each, and grow again with each
 * success. */
#define MIN_CHANGES 16

/* A message inside OFPT_BUNDLE_ADD_MESSAGE has 16 bytes before it, and the
 * library doesn't check that the sum fits into 16 bits. */
#define MAX_MESSAGE (UINT16_MAX - 16)

/* More messages than this are not left to the connection at once: it keeps
 * them all in memory, and in one turn no more shall be encoded than in
 * milliseconds.  A bundle of usual size is queued as a whole. */
#define MAX_QUEUED (2 * OFCONN_MAX_BUNDLE)

/* Of the text of a flow or group in the log. */
#define MAX_TEXT     400

#define BUNDLE_FLAGS (OFPBF_ATOMIC | OFPBF_ORDERED)

static uint32_t
send_control(struct ofconn *c, uint16_t type)
{
    struct ofputil_bundle_ctrl_msg bc = {
        .bundle_id = c->bundle.id,
        .type = type,
        .flags = BUNDLE_FLAGS,
    };
    return ofconn_send(c,
                       ofputil_encode_bundle_ctrl_request(OFP15_VERSION, &bc));
}

static void
finish(struct ofconn *c)
{
    c->due_ms = LLONG_MAX;
    c->bundle.phase = BUNDLE_NONE;
    c->bundle.batch = NULL;
}

static void
finish_refused(struct ofconn *c, size_t bad, const char *reason)
{
    struct ofconn_bundle *b = &c->bundle;

    if (bad < b->batch->n) {
        const struct flowtab_change *change = &b->batch->changes[bad];
        struct ds text = DS_EMPTY_INITIALIZER;

        fitem_format(change->item, NULL, &text);
        ds_truncate(&text, MAX_TEXT);
        VLOG_WARN_RL(&refused_rl, "%s: the switch refuses to %s \"%s\": %s",
                     c->target, change->op == FLOWTAB_PUT ? "take" : "delete",
                     ds_cstr(&text), reason);
        ofconn_note_error(c, "%s: %s", reason, ds_cstr(&text));
        ds_destroy(&text);
    } else {
        VLOG_WARN_RL(&refused_rl, "%s: the switch refuses a bundle: %s",
                     c->target, reason);
        ofconn_note_error(c, "bundle refused: %s", reason);
    }
    if (b->whole) {
        /* Nothing less will do; a bundle of tens of thousands of changes is
         * not sent again and again without a pause. */
        b->not_before_ms =
            time_msec() + backoff_next(&b->backoff, random_uint32());
    } else {
        b->limit = MAX(b->limit / 2, MIN_CHANGES);
    }
    c->stats.n_bundles_refused++;
    const struct flowtab_refusal refusal = { bad, reason, time_msec(),
                                             random_uint32() };
    flowtab_batch_refused(c->flowtab, b->batch, &refusal);
    finish(c);
}

/* Deals with the error in 'bundle'.
 *
 * A switch that misses a group which it had, after others have changed
 * something, was flushed: that takes flows, groups and meters, and only of the
 * flows are we told.  (Open vSwitch does it when the first controller of a
 * bridge is set or the last one removed.)  What is known is worth nothing
 * then. */
static void
take_refusal(struct ofconn *c)
{
    const struct ofconn_bundle *b = &c->bundle;

    if (b->error == OFPERR_OFPBAC_BAD_OUT_GROUP
        && c->stats.n_foreign != c->n_foreign_dumped
        && flowtab_has_groups_of(c->flowtab, b->batch->changes[b->bad].item)) {
        ofconn_break(c, "the switch has lost groups");
    } else {
        finish_refused(c, b->bad, ofperr_to_string(b->error));
    }
}

static struct ofpbuf *
encode_change(const struct flowtab_change *change, uint32_t xid)
{
    struct ofpbuf *msg = change->op == FLOWTAB_PUT
                             ? fitem_encode_put(change->item)
                             : fitem_encode_delete(change->item);
    struct ofp_header *oh = msg->data;

    oh->xid = htonl(xid);
    if (msg->size <= MAX_MESSAGE) {
        ofpmsg_update_length(msg);
        return msg;
    }
    ofpbuf_delete(msg);
    return NULL;
}

void
ofconn_bundle_add(struct ofconn *c, struct ofpbuf *msg)
{
    struct ofputil_bundle_add_msg bam = {
        .bundle_id = c->bundle.id,
        .flags = BUNDLE_FLAGS,
        .msg = msg->data,
    };
    /* Has the xid of the message inside. */
    rconn_send(c->rconn, ofputil_encode_bundle_add(OFP15_VERSION, &bam), NULL);
    ofpbuf_delete(msg);
}

/* Adds the change at 'index'.  Returns false if it is too large. */
static bool
send_change(struct ofconn *c, size_t index)
{
    struct ofconn_bundle *b = &c->bundle;
    const struct flowtab_change *change = &b->batch->changes[index];

    if (b->whole && change->op == FLOWTAB_DELETE
        && flowtab_is_antrea(c->flowtab, change->item)) {
        return true; /* ofconn_old_send_deletes() did. */
    }
    struct ofpbuf *msg = encode_change(change, b->first_xid + index);
    if (msg) {
        ofconn_bundle_add(c, msg);
    }
    return msg;
}

/* Adds as many changes as may be queued. */
static void
send_changes(struct ofconn *c)
{
    struct ofconn_bundle *b = &c->bundle;

    c->due_ms = time_msec() + c->reply_deadline_ms;
    while (b->n_added < b->batch->n) {
        if (rconn_count_txqlen(c->rconn) >= MAX_QUEUED) {
            return;
        }
        if (!send_change(c, b->n_added)) {
            send_control(c, OFPBCT_DISCARD_REQUEST);
            finish_refused(c, b->n_added, "larger than one OpenFlow message");
            return;
        }
        b->n_added++;
    }
    b->phase = BUNDLE_ADDED;
    b->barrier_xid =
        ofconn_send(c, ofputil_encode_barrier_request(OFP15_VERSION));
}

static void
send_batch(struct ofconn *c, struct flowtab_batch *batch)
{
    struct ofconn_bundle *b = &c->bundle;

    b->batch = batch;
    b->id++;
    b->bad = SIZE_MAX;
    b->error = 0;
    b->phase = BUNDLE_OPEN;
    b->n_added = 0;
    b->whole = flowtab_takes_over(c->flowtab);
    c->stats.n_bundles++;

    b->open_xid = send_control(c, OFPBCT_OPEN_REQUEST);
    b->barrier_xid = 0;
    b->first_xid = ofconn_take_xids(c, batch->n);
    b->n_deletes = 0;
    if (b->whole) {
        ofconn_old_send_deletes(c);
    }
    send_changes(c);
}

void
ofconn_bundle_run(struct ofconn *c)
{
    struct ofconn_bundle *b = &c->bundle;

    if (b->phase == BUNDLE_OPEN) {
        send_changes(c);
    } else if (c->flush && b->phase == BUNDLE_NONE
               && time_msec() >= b->not_before_ms) {
        struct flowtab_batch *batch =
            flowtab_take(c->flowtab, b->limit, MAX_BYTES);
        if (batch) {
            send_batch(c, batch);
        } else {
            c->flush = false;
        }
    }
}

void
ofconn_bundle_reset(struct ofconn *c)
{
    if (c->bundle.phase != BUNDLE_NONE) {
        flowtab_batch_lost(c->flowtab, c->bundle.batch);
        finish(c);
    }
}

bool
ofconn_bundle_recv_error(struct ofconn *c, uint32_t xid, enum ofperr error)
{
    struct ofconn_bundle *b = &c->bundle;

    if (b->phase == BUNDLE_NONE) {
        return false;
    } else if (xid - b->first_xid < b->batch->n) {
        if (b->bad == SIZE_MAX) {
            b->bad = xid - b->first_xid;
            b->error = error;
        }
        return true;
    } else if (xid == b->open_xid || (xid && xid == b->barrier_xid)
               || xid - b->deletes_xid < b->n_deletes) {
        /* With the xid of the request to open it: its time ran out. */
        ofconn_break(c, "bundle given up: %s", ofperr_to_string(error));
        return true;
    } else if (b->phase == BUNDLE_COMMITTED && xid == b->commit_xid) {
        if (b->bad != SIZE_MAX) {
            take_refusal(c);
        } else if (error == OFPERR_OFPBFC_MSG_FAILED) {
            finish_refused(c, SIZE_MAX, ofperr_to_string(error));
        } else {
            /* Not because of what is in it; the switch may have dropped it
             * for its age. */
            ofconn_break(c, "bundle given up: %s", ofperr_to_string(error));
        }
        return true;
    }
    return false;
}

void
ofconn_bundle_recv_barrier(struct ofconn *c, uint32_t xid)
{
    struct ofconn_bundle *b = &c->bundle;

    if (b->phase != BUNDLE_ADDED || xid != b->barrier_xid || c->broken) {
        return;
    }
    if (b->bad == SIZE_MAX) {
        b->phase = BUNDLE_COMMITTED;
        c->due_ms = time_msec() + c->reply_deadline_ms;
        b->commit_xid = send_control(c, OFPBCT_COMMIT_REQUEST);
    } else {
        send_control(c, OFPBCT_DISCARD_REQUEST);
        take_refusal(c);
    }
}

void
ofconn_bundle_recv_control(struct ofconn *c, const struct ofp_header *oh)
{
    struct ofconn_bundle *b = &c->bundle;
    struct ofputil_bundle_ctrl_msg bc;

    if (!ofputil_decode_bundle_ctrl(oh, &bc) && b->phase == BUNDLE_COMMITTED
        && bc.type == OFPBCT_COMMIT_REPLY && ntohl(oh->xid) == b->commit_xid
        && bc.bundle_id == b->id) {
        flowtab_batch_done(c->flowtab, b->batch);
        b->limit = MIN(b->limit * 2, OFCONN_MAX_BUNDLE);
        b->not_before_ms = LLONG_MIN;
        backoff_reset(&b->backoff);
        finish(c);
    }
}
