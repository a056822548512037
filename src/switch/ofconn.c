/* SPDX-License-Identifier: Apache-2.0 */
/* The life of an OpenFlow connection: its states and what each does with what
 * it receives.  The parts that know the messages stand in the other files
 * (ofconn-private.h). */

#include "ofconn-private.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <openvswitch/ofp-util.h>
#include <openvswitch/poll-loop.h>
#include <openvswitch/vconn.h>
#include <openvswitch/vlog.h>
#include <random.h>
#include <socket-util.h>
#include <timeval.h>
#include <unaligned.h>

VLOG_DEFINE_THIS_MODULE(ofconn);

/* The switch may be away for long: its absence is told once a minute. */
static struct vlog_rate_limit absent_rl = VLOG_RATE_LIMIT_INIT(1, 2);
static struct vlog_rate_limit lost_rl = VLOG_RATE_LIMIT_INIT(10, 10);
static struct vlog_rate_limit odd_rl = VLOG_RATE_LIMIT_INIT(5, 5);

/* A try costs one connect() to a socket on this node, and until it succeeds a
 * restarted switch forwards nothing. */
#define MIN_BACKOFF_MS 50
#define MAX_BACKOFF_MS 1000

/* Of a takeover that was refused. */
#define MAX_REFUSED_MS 30000

/* A connection that lasted this long after its dump was a good one.  One that
 * breaks earlier, again and again, is not dumped anew without a pause. */
#define GOOD_AFTER_MS 2000

/* What one turn may receive: some ms of work. */
#define MAX_RECV_MSGS  64
#define MAX_RECV_BYTES ((size_t) 1 << 19)

/* With more than this to be sent (a bundle has a quarter of it), nothing is
 * received: a peer that asks but doesn't read can't fill the memory. */
#define MAX_TX_MSGS 4096

/* What rconn says of a connection is said here, too, but not with every
 * attempt.  An operator who set its level wants to hear it all the same. */
static void
quieten_rconn(void)
{
    struct vlog_module *rconn = vlog_module_from_name("rconn");

    for (int i = 0; rconn && i < VLF_N_DESTINATIONS; i++) {
        if (vlog_get_level(rconn, i) == VLL_INFO) {
            vlog_set_levels(rconn, i, VLL_ERR);
        }
    }
}

struct ofconn *
ofconn_create(const struct ofconn_cfg *cfg)
{
    struct ofconn *c = xzalloc(sizeof *c);

    quieten_rconn();
    c->target = xstrdup(cfg->target);
    c->flowtab = cfg->flowtab;
    c->meter_id = cfg->meter_id;
    c->n_meters = cfg->n_meters;
    c->meter_rate_pps = cfg->meter_rate_pps;
    c->reply_deadline_ms = cfg->reply_deadline_ms;
    c->table_is_ours = cfg->table_is_ours;
    c->learned_reg = cfg->learned_reg;

    c->state = S_BACKOFF;
    c->state_since_ms = time_msec();
    c->backoff = (struct backoff) BACKOFF_INIT(MIN_BACKOFF_MS, MAX_BACKOFF_MS);
    c->retry_ms = LLONG_MIN;
    c->due_ms = LLONG_MAX;
    c->next_xid = 1;
    c->bundle.limit = OFCONN_MAX_BUNDLE;
    c->bundle.backoff =
        (struct backoff) BACKOFF_INIT(MIN_BACKOFF_MS, MAX_REFUSED_MS);
    c->bundle.not_before_ms = LLONG_MIN;
    ofconn_old_init(c);
    ofconn_learned_reset(c);
    c->packet_outs = rconn_packet_counter_create();
    c->repair_ms = LLONG_MAX;
    ofconn_ct_reset(c);
    return c;
}

void
ofconn_destroy(struct ofconn *c)
{
    if (c) {
        ofconn_bundle_reset(c);
        ofconn_packet_reset(c);
        ofconn_stats_uninit(c);
        ofconn_flowstats_uninit(c);
        ofconn_old_uninit(c);
        rconn_destroy(c->rconn);
        rconn_packet_counter_destroy(c->packet_outs);
        free(c->target);
        free(c);
    }
}

/* For the parts. */

uint32_t
ofconn_take_xids(struct ofconn *c, size_t n)
{
    if (n > UINT32_MAX - c->next_xid) {
        c->next_xid = 1;
    }

    uint32_t first = c->next_xid;
    c->next_xid += n;
    return first;
}

uint32_t
ofconn_send(struct ofconn *c, struct ofpbuf *msg)
{
    uint32_t xid = ofconn_take_xids(c, 1);
    struct ofp_header *oh = msg->data;

    oh->xid = htonl(xid);
    rconn_send(c->rconn, msg, NULL);
    return xid;
}

void
ofconn_note_error(struct ofconn *c, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(c->stats.last_error, sizeof c->stats.last_error, format, args);
    va_end(args);
    c->stats.last_error_ms = time_msec();
}

void
ofconn_break(struct ofconn *c, const char *format, ...)
{
    if (!c->broken) {
        char reason[sizeof c->stats.last_error];
        va_list args;

        va_start(args, format);
        vsnprintf(reason, sizeof reason, format, args);
        va_end(args);
        ofconn_note_error(c, "%s", reason);
        c->broken = true;
    }
}

bool
ofconn_pull_entry(struct ofpbuf *msg, struct ofpbuf *entry)
{
    /* The shortest entry of all is an abbreviated flow update. */
    enum {
        MIN_ENTRY = 8
    };

    if (msg->size < MIN_ENTRY) {
        return false;
    }
    size_t length = ntohs(get_unaligned_be16(msg->data));
    if (length < MIN_ENTRY || length > msg->size) {
        return false;
    }
    *entry = *msg;
    entry->size = length;
    ofpbuf_pull(msg, length);
    return true;
}

/* States. */

static void
enter(struct ofconn *c, enum ofconn_state state)
{
    c->state = state;
    c->state_since_ms = time_msec();
    c->due_ms = LLONG_MAX;
}

static const char *
state_name(enum ofconn_state state)
{
    switch (state) {
#define OFCONN_STATE(NAME) \
    case S_##NAME: return #NAME;
        OFCONN_STATES
#undef OFCONN_STATE
    }
    return "?";
}

/* Gives the connection up, whatever it was doing. */
static void
give_up(struct ofconn *c)
{
    if (c->state > S_CONNECT) {
        VLOG_WARN_RL(&lost_rl, "%s: connection given up in state %s: %s",
                     c->target, state_name(c->state), c->stats.last_error);
    } else {
        VLOG_WARN_RL(&absent_rl, "%s: can't connect: %s (still trying)",
                     c->target, c->stats.last_error);
    }
    if (c->state == S_FOLLOW
        && time_msec() >= c->state_since_ms + GOOD_AFTER_MS) {
        backoff_reset(&c->backoff);
    }
    ofconn_bundle_reset(c);
    ofconn_packet_reset(c);
    ofconn_ct_reset(c);
    ofconn_setup_reset(c);
    ofconn_old_reset(c);
    ofconn_learned_reset(c);
    ofconn_stats_reset(c);
    ofconn_flowstats_reset(c);
    flowtab_forget(c->flowtab);
    rconn_destroy(c->rconn);
    c->rconn = NULL;
    c->broken = false;
    c->dump_xid = 0;
    c->repair_ms = LLONG_MAX;
    c->retry_ms = time_msec() + backoff_next(&c->backoff, random_uint32());
    enter(c, S_BACKOFF);
}

static void
run_BACKOFF(struct ofconn *c)
{
    if (time_msec() < c->retry_ms) {
        return;
    }

    struct vconn *vconn;
    int error =
        vconn_open(c->target, 1u << OFP15_VERSION, DSCP_DEFAULT, &vconn);
    enter(c, S_CONNECT);
    if (error) {
        ofconn_break(c, "%s", ovs_strerror(error));
        return;
    }

    /* The library's own reconnecting waits at least a second. */
    c->rconn = rconn_create(0, 0, DSCP_DEFAULT, 1u << OFP15_VERSION);
    rconn_connect_unreliably(c->rconn, vconn, c->target);
}

static bool
recv_BACKOFF(struct ofconn *c OVS_UNUSED, enum ofptype type OVS_UNUSED,
             struct ofpbuf *msg OVS_UNUSED)
{
    return false;
}

static void
run_CONNECT(struct ofconn *c)
{
    if (c->rconn && rconn_is_connected(c->rconn)) {
        c->stats.n_connects++;
        enter(c, S_CONFIGURE);
        c->due_ms = time_msec() + c->reply_deadline_ms;
        ofconn_setup_start(c);
    }
}

static bool
recv_CONNECT(struct ofconn *c OVS_UNUSED, enum ofptype type OVS_UNUSED,
             struct ofpbuf *msg OVS_UNUSED)
{
    return false;
}

static void
run_CONFIGURE(struct ofconn *c OVS_UNUSED)
{
    /* Waits. */
}

static bool
recv_CONFIGURE(struct ofconn *c, enum ofptype type, struct ofpbuf *msg)
{
    const struct ofp_header *oh = msg->data;

    if (type == OFPTYPE_FLOW_MONITOR_STATS_REPLY
        || type == OFPTYPE_REQUESTFORWARD) {
        /* The dump will tell. */
        return true;
    } else if (type == OFPTYPE_BARRIER_REPLY
               && ntohl(oh->xid) == c->configured_xid) {
        enter(c, S_DUMP_FLOWS);
        ofconn_dump_start_flows(c);
        return true;
    }
    return false;
}

/* What others change is noted during the dump and after it. */
static bool
recv_changes(struct ofconn *c, enum ofptype type, struct ofpbuf *msg)
{
    if (type == OFPTYPE_FLOW_MONITOR_STATS_REPLY) {
        ofconn_watch_recv_flows(c, msg);
        return true;
    } else if (type == OFPTYPE_REQUESTFORWARD) {
        ofconn_watch_recv_forward(c, msg->data);
        return true;
    }
    return false;
}

static void
run_DUMP_FLOWS(struct ofconn *c OVS_UNUSED)
{
    /* Waits. */
}

static bool
recv_DUMP_FLOWS(struct ofconn *c, enum ofptype type, struct ofpbuf *msg)
{
    if (type != OFPTYPE_FLOW_STATS_REPLY) {
        return recv_changes(c, type, msg);
    }
    if (ofconn_dump_recv_flows(c, msg)) {
        enter(c, S_DUMP_GROUPS);
        ofconn_dump_start_groups(c);
    }
    return true;
}

static void
run_DUMP_GROUPS(struct ofconn *c OVS_UNUSED)
{
    /* Waits. */
}

static bool
recv_DUMP_GROUPS(struct ofconn *c, enum ofptype type, struct ofpbuf *msg)
{
    if (type != OFPTYPE_GROUP_DESC_STATS_REPLY) {
        return recv_changes(c, type, msg);
    }
    if (ofconn_dump_recv_groups(c, msg)) {
        ofconn_old_end(c);
        flowtab_dump_end(c->flowtab);
        c->stats.n_dumps++;
        c->dump_xid = 0;
        c->flush = true;
        VLOG_INFO("%s: connected, the bridge holds %zu flows and %zu groups "
                  "of ours (%zu unreadable)",
                  c->target, c->n_dumped_flows, c->n_dumped_groups,
                  c->n_unreadable);
        enter(c, S_FOLLOW);
    }
    return true;
}

static void
run_FOLLOW(struct ofconn *c)
{
    if (c->redump && c->bundle.phase == BUNDLE_NONE) {
        enter(c, S_DUMP_FLOWS);
        ofconn_dump_start_flows(c);
        return;
    }
    if (time_msec() >= c->repair_ms) {
        c->repair_ms = LLONG_MAX;
        c->flush = true;
        /* Who takes all flows away may take the meters along. */
        ofconn_setup_check_meters(c);
    }
    ofconn_bundle_run(c);
}

static bool
recv_FOLLOW(struct ofconn *c, enum ofptype type, struct ofpbuf *msg)
{
    const struct ofp_header *oh = msg->data;

    if (type == OFPTYPE_BARRIER_REPLY) {
        if (!ofconn_old_recv_barrier(c, ntohl(oh->xid))) {
            ofconn_bundle_recv_barrier(c, ntohl(oh->xid));
        }
        return true;
    } else if (type == OFPTYPE_BUNDLE_CONTROL) {
        ofconn_bundle_recv_control(c, oh);
        return true;
    } else if (type == OFPTYPE_TABLE_FEATURES_STATS_REPLY) {
        ofconn_old_recv_tables(c, msg);
        return true;
    } else if (type == OFPTYPE_GROUP_STATS_REPLY) {
        ofconn_stats_recv(c, msg);
        return true;
    }
    return recv_changes(c, type, msg);
}

/* Receiving. */

static void
recv_error(struct ofconn *c, const struct ofp_header *oh)
{
    enum ofperr error = ofperr_decode_msg(oh, NULL);
    uint32_t xid = ntohl(oh->xid);

    if (ofconn_stats_recv_error(c, xid) || ofconn_flowstats_recv_error(c, xid)
        || ofconn_bundle_recv_error(c, xid, error)
        || ofconn_setup_recv_error(c, xid, error)
        || ofconn_ct_recv_error(c, xid, error)
        || ofconn_learned_recv_error(c, xid, error)) {
        return;
    }
    if (xid && xid == c->dump_xid) {
        ofconn_break(c, "dump refused: %s", ofperr_to_string(error));
        return;
    }
    VLOG_INFO_RL(&odd_rl, "%s: error %s for message %#" PRIx32, c->target,
                 ofperr_to_string(error), xid);
}

static bool
recv_in_state(struct ofconn *c, enum ofptype type, struct ofpbuf *msg)
{
    if (type == OFPTYPE_FLOW_STATS_REPLY
        && (ofconn_learned_recv(c, msg) || ofconn_flowstats_recv(c, msg))) {
        return true;
    }
    switch (c->state) {
#define OFCONN_STATE(NAME) \
    case S_##NAME: return recv_##NAME(c, type, msg);
        OFCONN_STATES
#undef OFCONN_STATE
    }
    return false;
}

void
ofconn_recv(struct ofconn *c, struct ofpbuf *msg)
{
    const struct ofp_header *oh = msg->data;
    enum ofptype type;
    enum ofperr error = ofptype_decode(&type, oh);

    if (error) {
        VLOG_INFO_RL(&odd_rl, "%s: received a message that can't be read: %s",
                     c->target, ofperr_to_string(error));
    } else if (type == OFPTYPE_ECHO_REQUEST) {
        rconn_send(c->rconn, ofputil_encode_echo_reply(oh), NULL);
    } else if (type == OFPTYPE_ERROR) {
        recv_error(c, oh);
    } else if (type == OFPTYPE_PACKET_IN) {
        ofconn_packet_recv(c, msg);
    } else if (type == OFPTYPE_METER_CONFIG_STATS_REPLY) {
        ofconn_setup_recv_meters(c, msg);
    } else if (type == OFPTYPE_BARRIER_REPLY
               && ofconn_ct_recv_barrier(c, ntohl(oh->xid))) {
        /* In whatever state: a dump may have begun meanwhile. */
    } else if (!recv_in_state(c, type, msg)) {
        VLOG_DBG_RL(&odd_rl, "%s: ignored message of type %s", c->target,
                    ofptype_get_name(type));
    }
}

static bool
may_recv(const struct ofconn *c)
{
    return !c->broken && rconn_count_txqlen(c->rconn) <= MAX_TX_MSGS;
}

static void
recv_some(struct ofconn *c)
{
    size_t n_bytes = 0;

    for (int i = 0; i < MAX_RECV_MSGS && n_bytes < MAX_RECV_BYTES; i++) {
        struct ofpbuf *msg = may_recv(c) ? rconn_recv(c->rconn) : NULL;
        if (!msg) {
            break;
        }
        n_bytes += msg->size;
        ofconn_recv(c, msg);
        ofpbuf_delete(msg);

        /* A dump that just ended lets the first bundle leave, and so on. */
        ofconn_run_states(c);
    }
}

/* Running. */

static void
run_in_state(struct ofconn *c)
{
    switch (c->state) {
#define OFCONN_STATE(NAME) \
    case S_##NAME: run_##NAME(c); break;
        OFCONN_STATES
#undef OFCONN_STATE
    }
}

void
ofconn_run_states(struct ofconn *c)
{
    enum ofconn_state old;

    do {
        old = c->state;
        if (!c->broken) {
            run_in_state(c);
        }
    } while (c->state != old);
}

static void
check_alive(struct ofconn *c)
{
    if (!c->rconn || rconn_is_alive(c->rconn)) {
        return;
    }

    int error = rconn_get_last_error(c->rconn);
    bool refused =
        c->state == S_CONNECT
        && (error == EPROTO || error == EPIPE || error == ECONNRESET);
    ofconn_break(c, "%s%s", ovs_retval_to_string(error),
                 refused ? " (is OpenFlow15 among the \"protocols\" of the "
                           "bridge?)"
                         : "");
}

static void
check_broken(struct ofconn *c)
{
    check_alive(c);
    ofconn_ct_run(c);
    if (time_msec() >= MIN(c->due_ms, c->review.due_ms)) {
        ofconn_break(c, "no reply within %lld ms", c->reply_deadline_ms);
    }
    if (c->broken) {
        give_up(c);
    }
}

void
ofconn_run(struct ofconn *c)
{
    if (c->rconn) {
        rconn_run(c->rconn);
        recv_some(c);
    }
    ofconn_stats_run(c);
    ofconn_flowstats_run(c);
    ofconn_run_states(c);
    check_broken(c);
}

void
ofconn_wait(struct ofconn *c)
{
    if (!c->rconn) {
        poll_timer_wait_until(c->retry_ms);
        return;
    }
    rconn_run_wait(c->rconn);
    if (may_recv(c)) {
        rconn_recv_wait(c->rconn);
    }
    poll_timer_wait_until(MIN(c->due_ms, c->review.due_ms));
    poll_timer_wait_until(c->ct_due_ms);
    if (c->state == S_FOLLOW) {
        poll_timer_wait_until(c->repair_ms);
        if (c->bundle.phase == BUNDLE_NONE && c->redump) {
            poll_immediate_wake();
        } else if (c->bundle.phase == BUNDLE_NONE && c->flush) {
            poll_timer_wait_until(c->bundle.not_before_ms);
        }
    }
}

void
ofconn_flush(struct ofconn *c)
{
    c->flush = true;
}

void
ofconn_redump(struct ofconn *c)
{
    c->redump = true;
}

void
ofconn_kick(struct ofconn *c)
{
    backoff_reset(&c->backoff);
    c->retry_ms = LLONG_MIN;
}

bool
ofconn_is_up(const struct ofconn *c)
{
    return c->state == S_FOLLOW;
}

void
ofconn_get_stats(const struct ofconn *c, struct ofconn_stats *ret)
{
    *ret = c->stats;
    ret->state = state_name(c->state);
    ret->state_since_ms = c->state_since_ms;
}
