/* SPDX-License-Identifier: Apache-2.0 */
/* Learned flows: passed over where others are read, and reviewed when told
 * to.
 *
 * The switch encodes the whole of a reply before it forwards the next packet
 * of its userspace datapath.  100 000 learned flows are 90 ms of that, so a
 * review of all of them asks for a part at a time. */

#include "ofconn-private.h"

#include <limits.h>

#include <byte-order.h>
#include <openflow/openflow-1.5.h>
#include <openvswitch/match.h>
#include <openvswitch/ofp-flow.h>
#include <timeval.h>
#include <util.h>

#include "ofproxyd/flow/cookie.h"

/* Parts of a review of all: by the lowest bits of the cookie. */
#define N_PARTS 8

/* A learned flow's memory is ours; this ends a reply that never does. */
#define MAX_REVIEWED 10000000

bool
ofconn_learned_is_stats(const struct ofconn *c, const struct ofpbuf *entry)
{
    const struct ofp15_flow_desc *ofd = ofpbuf_at(entry, 0, sizeof *ofd);

    return ofd
           && flowtab_is_learned(c->flowtab, ofd->table_id,
                                 ntohs(ofd->priority), ntohll(ofd->cookie));
}

bool
ofconn_learned_is_update(const struct ofconn *c, const struct ofpbuf *entry)
{
    const struct ofp_flow_update_full *ofuf =
        ofpbuf_at(entry, 0, sizeof *ofuf);

    /* The other kinds of update are shorter. */
    return ofuf
           && flowtab_is_learned(c->flowtab, ofuf->table_id,
                                 ntohs(ofuf->priority), ntohll(ofuf->cookie));
}

/* Reviews. */

void
ofconn_learned_reset(struct ofconn *c)
{
    c->review.running = false;
    c->review.xid = 0;
    c->review.due_ms = LLONG_MAX;
}

static void
ask_for_part(struct ofconn *c)
{
    struct ofconn_review *r = &c->review;
    uint64_t part = r->one_group ? 0 : r->part;
    uint64_t part_mask = r->one_group ? 0 : N_PARTS - 1;
    struct ofputil_flow_stats_request fsr = {
        .cookie = htonll(cookie_make_affinity(part)),
        .cookie_mask = htonll(COOKIE_LEARNED_MASK | part_mask),
        .out_port = OFPP_ANY,
        .out_group = OFPG_ANY,
        .table_id = flowtab_learned_table(c->flowtab),
    };

    match_init_catchall(&fsr.match);
    if (r->one_group) {
        match_set_reg(&fsr.match, c->learned_reg, r->group_id);
    }
    r->xid =
        ofconn_send(c, ofputil_encode_flow_stats_request(&fsr,
                                                         OFPUTIL_P_OF15_OXM));
    r->due_ms = time_msec() + c->reply_deadline_ms;
}

bool
ofconn_review_learned(struct ofconn *c, const uint32_t *group_id,
                      ofconn_judge *judge, void *aux)
{
    struct ofconn_review *r = &c->review;

    if (c->state != S_FOLLOW || r->running || c->broken
        || flowtab_learned_table(c->flowtab) < 0) {
        return false;
    }
    r->running = true;
    r->one_group = group_id;
    r->group_id = group_id ? *group_id : 0;
    r->judge = judge;
    r->aux = aux;
    r->part = 0;
    r->n = 0;
    ask_for_part(c);
    return true;
}

bool
ofconn_is_reviewing(const struct ofconn *c)
{
    return c->review.running;
}

static void
send_flow_mod(struct ofconn *c, struct ofputil_flow_mod *fm,
              const struct ofputil_flow_stats *fs)
{
    fm->table_id = fs->table_id;
    fm->priority = fs->priority;
    fm->buffer_id = UINT32_MAX;
    fm->out_port = OFPP_ANY;
    fm->out_group = OFPG_ANY;
    minimatch_init(&fm->match, &fs->match);
    ofconn_send(c, ofputil_encode_flow_mod(fm, OFPUTIL_P_OF15_OXM));
    minimatch_destroy(&fm->match);
}

/* Unless its place has been taken by what was learned of another endpoint. */
static void
forget(struct ofconn *c, const struct ofputil_flow_stats *fs)
{
    struct ofputil_flow_mod fm = {
        .command = OFPFC_DELETE_STRICT,
        .cookie = fs->cookie,
        .cookie_mask = OVS_BE64_MAX,
        .new_cookie = OVS_BE64_MAX,
    };

    send_flow_mod(c, &fm, fs);
}

/* Only OFPFC_ADD changes timeouts (OpenFlow 1.5 6.4). */
static void
put(struct ofconn *c, const struct ofputil_flow_stats *fs,
    const struct ofconn_learned *learned)
{
    struct ofputil_flow_mod fm = {
        .command = OFPFC_ADD,
        .new_cookie = fs->cookie,
        .idle_timeout = learned->idle_timeout,
        .hard_timeout = learned->hard_timeout,
        .flags = fs->flags & OFPUTIL_FF_STATE,
        .importance = fs->importance,
        .ofpacts = CONST_CAST(struct ofpact *, fs->ofpacts),
        .ofpacts_len = fs->ofpacts_len,
    };

    send_flow_mod(c, &fm, fs);
}

static void
review(struct ofconn *c, const struct ofputil_flow_stats *fs)
{
    const struct ofconn_review *r = &c->review;
    struct ofconn_learned learned = {
        .cookie = ntohll(fs->cookie),
        .group_id = fs->match.flow.regs[c->learned_reg],
        .idle_timeout = fs->idle_timeout,
        .hard_timeout = fs->hard_timeout,
        .idle_s = MAX(fs->idle_age, 0),
        .age_s = fs->duration_sec,
    };

    switch (r->judge(&learned, r->aux)) {
    case OFCONN_KEEP: break;
    case OFCONN_FORGET:
        forget(c, fs);
        c->stats.n_forgotten++;
        break;
    case OFCONN_PUT: put(c, fs, &learned); break;
    }
}

static void
review_entries(struct ofconn *c, struct ofpbuf *msg)
{
    uint64_t stub[1024 / 8];
    struct ofpbuf ofpacts = OFPBUF_STUB_INITIALIZER(stub);
    struct ofpbuf entry;

    while (ofconn_pull_entry(msg, &entry)) {
        bool learned = ofconn_learned_is_stats(c, &entry);
        struct ofputil_flow_stats fs;

        ofpbuf_clear(&ofpacts);
        if (learned
            && !ofputil_decode_flow_stats_reply(&fs, &entry, false,
                                                &ofpacts)) {
            review(c, &fs);
        }
        c->review.n++;
    }
    ofpbuf_uninit(&ofpacts);
}

bool
ofconn_learned_recv(struct ofconn *c, struct ofpbuf *msg)
{
    struct ofconn_review *r = &c->review;
    const struct ofp_header *oh = msg->data;
    bool more = ofpmp_more(oh);

    if (!r->running || ntohl(oh->xid) != r->xid) {
        return false;
    }
    r->due_ms = time_msec() + c->reply_deadline_ms;
    ofpraw_pull_assert(msg);
    review_entries(c, msg);
    if (r->n > MAX_REVIEWED) {
        ofconn_break(c, "more than %d learned flows", MAX_REVIEWED);
    } else if (!more && !r->one_group && ++r->part < N_PARTS) {
        ask_for_part(c);
    } else if (!more) {
        ofconn_learned_reset(c);
        c->stats.n_reviews++;
        c->stats.n_learned = r->one_group ? c->stats.n_learned : r->n;
    }
    return true;
}

bool
ofconn_learned_recv_error(struct ofconn *c, uint32_t xid, enum ofperr error)
{
    if (!c->review.running || xid != c->review.xid) {
        return false;
    }
    ofconn_note_error(c, "learned flows can't be read: %s",
                      ofperr_to_string(error));
    ofconn_learned_reset(c);
    return true;
}
