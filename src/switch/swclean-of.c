/* SPDX-License-Identifier: Apache-2.0 */
/* The OpenFlow side of a clean-up: one short conversation with the bridge.
 *
 * Each step sends its requests and a barrier, and takes in what comes until
 * the barrier's reply: by then all answers and errors are there. */

#include "swclean-private.h"

#include <errno.h>
#include <stdlib.h>

#include <byte-order.h>
#include <openflow/openflow-1.5.h>
#include <openvswitch/match.h>
#include <openvswitch/ofp-connection.h>
#include <openvswitch/ofp-errors.h>
#include <openvswitch/ofp-flow.h>
#include <openvswitch/ofp-group.h>
#include <openvswitch/ofp-meter.h>
#include <openvswitch/ofp-msgs.h>
#include <openvswitch/ofp-util.h>
#include <openvswitch/ofpbuf.h>
#include <openvswitch/poll-loop.h>
#include <openvswitch/vconn.h>
#include <timeval.h>
#include <unaligned.h>
#include <util.h>

#include "ofconn-private.h"
#include "ofproxyd/flow/cookie.h"

struct talk {
    const struct swclean_cfg *cfg;
    struct vconn *vconn;
    long long int end_ms;

    /* What the switch has said in this step. */
    uint64_t n_flows;
    uint32_t *groups;
    size_t n_groups, allocated_groups;
    size_t n_meters;
    enum ofperr refused; /* The first error, or 0. */
};

/* Waits for what 'vconn' waits for.  False when the time is over. */
static bool
block(const struct talk *t, enum vconn_wait_type type)
{
    if (time_msec() >= t->end_ms) {
        return false;
    }
    vconn_run_wait(t->vconn);
    vconn_wait(t->vconn, type);
    poll_timer_wait_until(t->end_ms);
    poll_block();
    return true;
}

static int
send_msg(struct talk *t, struct ofpbuf *msg)
{
    for (;;) {
        int error = vconn_send(t->vconn, msg);

        if (!error) {
            return 0;
        }
        vconn_run(t->vconn);
        if (error != EAGAIN || !block(t, WAIT_SEND)) {
            ofpbuf_delete(msg);
            return error == EAGAIN ? ETIMEDOUT : error;
        }
    }
}

static int
recv_msg(struct talk *t, struct ofpbuf **ret)
{
    for (;;) {
        vconn_run(t->vconn);

        int error = vconn_recv(t->vconn, ret);
        if (error != EAGAIN) {
            return error;
        }
        if (!block(t, WAIT_RECV)) {
            return ETIMEDOUT;
        }
    }
}

/* What is received. */

static void
take_group_ids(struct talk *t, struct ofpbuf *msg)
{
    struct ofpbuf entry;

    ofpraw_pull_assert(msg);
    while (ofconn_pull_entry(msg, &entry)) {
        const struct ofp15_group_desc_stats *ogds =
            ofpbuf_at(&entry, 0, sizeof *ogds);
        uint32_t id =
            ogds ? ntohl(get_unaligned_be32(&ogds->group_id)) : UINT32_MAX;

        if (!group_id_is_ours(id)) {
            continue;
        }
        if (t->n_groups >= t->allocated_groups) {
            t->groups =
                x2nrealloc(t->groups, &t->allocated_groups, sizeof *t->groups);
        }
        t->groups[t->n_groups++] = id;
    }
}

static void
take_meters(struct talk *t, struct ofpbuf *msg)
{
    struct ofputil_meter_config mc;
    uint64_t stub[64 / 8];
    struct ofpbuf bands = OFPBUF_STUB_INITIALIZER(stub);

    while (!ofputil_decode_meter_config(msg, &mc, &bands)) {
        t->n_meters += mc.meter_id - t->cfg->meter_id < t->cfg->n_meters;
    }
    ofpbuf_uninit(&bands);
}

/* Takes in 'msg'.  Returns a positive errno value if the connection can't go
 * on. */
static int
take(struct talk *t, struct ofpbuf *msg)
{
    const struct ofp_header *oh = msg->data;
    struct ofputil_aggregate_stats as;
    enum ofptype type;

    if (ofptype_decode(&type, oh)) {
        return 0;
    } else if (type == OFPTYPE_ERROR) {
        enum ofperr error = ofperr_decode_msg(oh, NULL);

        t->refused = t->refused ? t->refused : error;
    } else if (type == OFPTYPE_ECHO_REQUEST) {
        return send_msg(t, ofputil_encode_echo_reply(oh));
    } else if (type == OFPTYPE_AGGREGATE_STATS_REPLY
               && !ofputil_decode_aggregate_stats_reply(&as, oh)) {
        t->n_flows = as.flow_count;
    } else if (type == OFPTYPE_GROUP_DESC_STATS_REPLY) {
        take_group_ids(t, msg);
    } else if (type == OFPTYPE_METER_CONFIG_STATS_REPLY) {
        take_meters(t, msg);
    }
    return 0;
}

/* Receives all answers to what was sent. */
static int
finish_step(struct talk *t)
{
    struct ofpbuf *barrier = ofputil_encode_barrier_request(OFP15_VERSION);
    ovs_be32 xid = ((struct ofp_header *) barrier->data)->xid;
    int error = send_msg(t, barrier);

    while (!error) {
        struct ofpbuf *msg;
        enum ofptype type;
        bool done;

        error = recv_msg(t, &msg);
        if (error) {
            break;
        }
        const struct ofp_header *oh = msg->data;
        done = oh->xid == xid && !ofptype_decode(&type, oh)
               && type == OFPTYPE_BARRIER_REPLY;
        error = done ? 0 : take(t, msg);
        ofpbuf_delete(msg);
        if (done) {
            break;
        }
    }
    return error;
}

/* Sends 'request' as a step of its own. */
static int
step(struct talk *t, struct ofpbuf *request)
{
    int error = send_msg(t, request);

    t->refused = 0;
    return error ? error : finish_step(t);
}

/* Steps that change something are in vain if the switch refuses. */
static int
check_refused(const struct talk *t, const char *what, struct err *err)
{
    if (!t->refused) {
        return 0;
    }
    err_set(err, "bridge \"%s\": %s can't be removed: %s", t->cfg->bridge,
            what, ofperr_to_string(t->refused));
    return EPROTO;
}

/* The steps. */

static struct ofpbuf *
encode_count(void)
{
    struct ofputil_flow_stats_request fsr = {
        .aggregate = true,
        .cookie = htonll(COOKIE_MAGIC),
        .cookie_mask = htonll(COOKIE_MAGIC_MASK),
        .out_port = OFPP_ANY,
        .out_group = OFPG_ANY,
        .table_id = OFPTT_ALL,
    };

    match_init_catchall(&fsr.match);
    return ofputil_encode_flow_stats_request(&fsr, OFPUTIL_P_OF15_OXM);
}

static struct ofpbuf *
encode_delete_flows(void)
{
    struct ofputil_flow_mod fm = {
        .command = OFPFC_DELETE,
        .cookie = htonll(COOKIE_MAGIC),
        .cookie_mask = htonll(COOKIE_MAGIC_MASK),
        .new_cookie = OVS_BE64_MAX,
        .table_id = OFPTT_ALL,
        .buffer_id = UINT32_MAX,
        .out_port = OFPP_ANY,
        .out_group = OFPG_ANY,
    };

    minimatch_init_catchall(&fm.match);
    struct ofpbuf *msg = ofputil_encode_flow_mod(&fm, OFPUTIL_P_OF15_OXM);
    minimatch_destroy(&fm.match);
    return msg;
}

static int
delete_flows(struct talk *t, struct ds *done, struct err *err)
{
    int error = step(t, encode_count());
    uint64_t n = t->n_flows;

    if (error || !n) {
        return error;
    }
    error = step(t, encode_delete_flows());
    if (!error) {
        error = check_refused(t, "flows", err);
    }
    if (!error) {
        swclean_say(t->cfg, done, n, "flow");
    }
    return error;
}

/* What a packet was about to teach the switch while flows were deleted is
 * there now.  Nothing is said of it. */
static int
delete_late_flows(struct talk *t)
{
    return t->n_flows ? step(t, encode_delete_flows()) : 0;
}

static struct ofpbuf *
encode_delete_group(uint32_t id)
{
    struct ofputil_group_mod gm = {
        .command = OFPGC11_DELETE,
        .group_id = id,
        .command_bucket_id = OFPG15_BUCKET_ALL,
    };

    ovs_list_init(&gm.buckets);
    return ofputil_encode_group_mod(OFP15_VERSION, &gm, NULL, -1);
}

static int
delete_groups(struct talk *t, struct ds *done, struct err *err)
{
    int error =
        step(t, ofputil_encode_group_desc_request(OFP15_VERSION, OFPG_ALL));

    if (error || !t->n_groups) {
        return error;
    }
    t->refused = 0;
    for (size_t i = 0; i < t->n_groups && !error; i++) {
        error = send_msg(t, encode_delete_group(t->groups[i]));
    }
    if (!error) {
        error = finish_step(t);
    }
    if (!error) {
        error = check_refused(t, "groups", err);
    }
    if (!error) {
        swclean_say(t->cfg, done, t->n_groups, "group");
    }
    return error;
}

static struct ofpbuf *
encode_delete_meter(uint32_t id)
{
    struct ofputil_meter_mod mm = {
        .command = OFPMC13_DELETE,
        .meter = { .meter_id = id },
    };

    return ofputil_encode_meter_mod(OFP15_VERSION, &mm);
}

/* It is no error to delete one that is not there. */
static int
delete_meters(struct talk *t, struct ds *done, struct err *err)
{
    int error = step(t, ofputil_encode_meter_request(OFP15_VERSION,
                                                     OFPUTIL_METER_CONFIG,
                                                     OFPM13_ALL));

    if (error || !t->n_meters) {
        return error;
    }
    t->refused = 0;
    for (unsigned int i = 0; i < t->cfg->n_meters && !error; i++) {
        error = send_msg(t, encode_delete_meter(t->cfg->meter_id + i));
    }
    if (!error) {
        error = finish_step(t);
    }
    if (!error) {
        error = check_refused(t, "meters", err);
    }
    if (!error) {
        swclean_say(t->cfg, done, t->n_meters, "meter");
    }
    return error;
}

static int
open_talk(struct talk *t)
{
    /* A Unix socket has no DSCP. */
    int error = vconn_open(t->cfg->target, 1u << OFP15_VERSION, 0, &t->vconn);

    if (error) {
        t->vconn = NULL;
        return error;
    }
    for (;;) {
        vconn_run(t->vconn);
        error = vconn_connect(t->vconn);
        if (error != EAGAIN) {
            return error;
        }
        if (!block(t, WAIT_CONNECT)) {
            return ETIMEDOUT;
        }
    }
}

int
swclean_openflow(const struct swclean_cfg *cfg, bool marked, struct ds *done,
                 bool *ret_up, struct err *err)
{
    struct talk t = { .cfg = cfg, .end_ms = time_msec() + cfg->deadline_ms };
    int error = open_talk(&t);

    *ret_up = !error;
    err_set(err, "%s", "");
    if (error == ENOENT || error == ECONNREFUSED) {
        error = 0; /* Without the switch there are no flows. */
    } else if (!error) {
        error = delete_flows(&t, done, err);
        if (!error) {
            error = delete_groups(&t, done, err);
        }
        if (!error) {
            error = delete_late_flows(&t);
        }
        if (!error && (marked || t.n_flows || t.n_groups)) {
            error = delete_meters(&t, done, err);
        }
    }
    if (error && !err->msg[0]) {
        err_set(err, "bridge \"%s\": %s: %s", cfg->bridge, cfg->target,
                ovs_retval_to_string(error));
    }
    if (t.vconn) {
        vconn_close(t.vconn);
    }
    free(t.groups);
    return error < 0 ? EPIPE : error;
}
