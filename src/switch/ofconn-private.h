/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_SWITCH_OFCONN_PRIVATE_H
#define OFPROXYD_SWITCH_OFCONN_PRIVATE_H 1

/* What the parts of the OpenFlow connection share.
 *
 *    ofconn.c          life, states, dispatch of what is received
 *    ofconn-setup.c    what is asked for once per connection, the meters
 *    ofconn-dump.c     flows and groups read into the flow table
 *    ofconn-watch.c    what others change
 *    ofconn-learned.c  what the switch has learned
 *    ofconn-bundle.c   what is dirty, sent
 *    ofconn-old.c      what a predecessor left, and what is others'
 *    ofconn-packet.c   packets from and to the switch
 *    ofconn-stats.c    counters of groups
 *    ofconn-ct.c       connections that are to be forgotten
 *
 * The switch's replies and notices arrive in the order in which it did the
 * things that they tell of.  So every part only writes down what it hears,
 * when it hears it, and the flow table is right without further bookkeeping,
 * also when a foreign change, a dump and a transaction overlap. */

#include <stdbool.h>
#include <stdint.h>

#include <openvswitch/ofp-errors.h>
#include <openvswitch/ofp-msgs.h>
#include <openvswitch/ofpbuf.h>
#include <openvswitch/rconn.h>

#include "ofproxyd/base/backoff.h"
#include "ofproxyd/base/err.h"
#include "ofproxyd/switch/ofconn.h"

/* The states, each with a run_ and a recv_ function in ofconn.c:
 *
 * BACKOFF: there is no connection; waits for the time of the next attempt.
 *
 * CONNECT: the socket is being opened and HELLOs are exchanged.
 *
 * CONFIGURE: has asked for the messages that are needed later, the flow
 * monitor among them; waits for the barrier behind the requests.  From here
 * on no foreign change goes unseen.
 *
 * DUMP_FLOWS, DUMP_GROUPS: reads what of ours the switch holds, part by part.
 *
 * FOLLOW: knows what the switch holds; takes note of what others change and
 * sends what is dirty. */
#define OFCONN_STATES         \
    OFCONN_STATE(BACKOFF)     \
    OFCONN_STATE(CONNECT)     \
    OFCONN_STATE(CONFIGURE)   \
    OFCONN_STATE(DUMP_FLOWS)  \
    OFCONN_STATE(DUMP_GROUPS) \
    OFCONN_STATE(FOLLOW)

enum ofconn_state {
#define OFCONN_STATE(NAME) S_##NAME,
    OFCONN_STATES
#undef OFCONN_STATE
};

/* Requests of ofconn-setup.c, and what is missing when one is refused. */
#define OFCONN_ASKS                                              \
    OFCONN_ASK(CONFIG, "no notice of anything by the switch")    \
    OFCONN_ASK(PACKET_FORMAT, "packets in the standard format")  \
    OFCONN_ASK(ASYNC, "no notice of groups that others change")  \
    OFCONN_ASK(MONITOR, "no notice of flows that others change") \
    OFCONN_ASK(METER_READ, "no limit on packets to the daemon")  \
    OFCONN_ASK(METER_MOD, "no limit on packets to the daemon")

enum ofconn_ask {
#define OFCONN_ASK(NAME, MISSING) ASK_##NAME,
    OFCONN_ASKS
#undef OFCONN_ASK
};
enum {
#define OFCONN_ASK(NAME, MISSING) +1
    N_ASKS = OFCONN_ASKS
#undef OFCONN_ASK
};

/* A transaction: open, add each message, barrier; and, when no error came
 * before the barrier's reply, commit. */
enum bundle_phase {
    BUNDLE_NONE,
    BUNDLE_OPEN,     /* Messages are being added. */
    BUNDLE_ADDED,    /* Waits for the barrier's reply. */
    BUNDLE_COMMITTED /* Waits for the commit's reply. */
};

/* Larger bundles stop packets for longer (2000 changes: 9 ms, 10 000: 42 ms
 * on OVS 3.1's userspace datapath), and are hardly faster. */
#define OFCONN_MAX_BUNDLE 1000

struct ofconn_bundle {
    enum bundle_phase phase;
    struct flowtab_batch *batch; /* NULL in BUNDLE_NONE. */
    uint32_t id;
    uint32_t open_xid, barrier_xid, commit_xid;
    uint32_t first_xid; /* Of the message for batch->changes[0]. */
    size_t n_added;     /* Changes that are on their way. */
    uint32_t deletes_xid, n_deletes; /* Of ofconn_old_send_deletes(). */
    bool whole;                      /* Takes over from a predecessor. */
    size_t bad;                      /* First refused change, or SIZE_MAX. */
    enum ofperr error;               /* And why. */
    size_t limit;                    /* Changes in the next bundle. */

    /* A refused takeover is not tried again before. */
    struct backoff backoff;
    long long int not_before_ms;
};

/* Numbers that flows and groups of others name, and that therefore have to
 * stay. */
struct ofconn_used {
    uint32_t *ids;
    size_t n, allocated;
};

/* What a predecessor left and what is others', as the dump found it. */
struct ofconn_old {
    struct fout groups; /* Without what is ours. */
    struct ofconn_used used_groups, used_meters;
    uint32_t meters_xid; /* Of the barrier behind the deletion. */
    bool meters_gone;
    uint32_t tables_xid;    /* Of the question for table names. */
    struct backoff backoff; /* Of removing intruders. */
    int wait_ms;
    long long int intruded_ms; /* When the last one was seen. */
};

/* Learned flows that are being looked at. */
struct ofconn_review {
    bool running;
    bool one_group; /* Only those of 'group_id'. */
    uint32_t group_id;
    ofconn_judge *judge;
    void *aux;
    uint32_t xid;  /* Of the request that is out. */
    uint64_t part; /* That it is about. */
    size_t n;      /* Flows seen. */
    long long int due_ms;
};

/* Counters of groups. */
struct ofconn_groups {
    uint32_t xid;                   /* Of the request that is out, or 0. */
    long long int due_ms;           /* When it is given up. */
    struct ofconn_group_stats *new; /* Of the parts that have come. */
    size_t n_new, allocated;
    struct ofconn_group_stats *last; /* The last whole answer. */
    size_t n_last;
};

/* Counters of flows. */
struct ofconn_flows {
    uint32_t xid;                  /* Of the request that is out, or 0. */
    long long int due_ms;          /* When it is given up. */
    struct ofconn_flow_stats *new; /* Of the parts that have come. */
    size_t n_new, allocated;
    struct ofconn_flow_stats *last; /* The last whole answer... */
    size_t n_last;
    bool fresh; /* ...which nobody has taken yet. */
};

/* Packets that are kept.  More are dropped: they come faster than they are
 * taken. */
#define OFCONN_MAX_PACKET_INS 256

struct ofconn {
    /* Configuration. */
    char *target;
    struct flowtab *flowtab;
    uint32_t meter_id;
    unsigned int n_meters;
    uint32_t meter_rate_pps;
    long long int reply_deadline_ms;
    bool (*table_is_ours)(uint8_t table_id);
    unsigned int learned_reg;

    /* Connection. */
    struct rconn *rconn; /* NULL in S_BACKOFF. */
    enum ofconn_state state;
    long long int state_since_ms;
    struct backoff backoff;
    long long int retry_ms; /* In S_BACKOFF: when to connect. */
    long long int due_ms;   /* When the state's next reply is overdue. */
    uint32_t next_xid;      /* Each message has its own, never 0. */
    bool broken;            /* To be given up, for the reason in stats. */
    struct rconn_packet_counter *packet_outs;

    /* ofconn-setup.c */
    uint32_t ask_xids[N_ASKS]; /* 0: not sent.  Of METER_MOD the first... */
    unsigned int n_meter_mods; /* ...of so many in a row. */
    uint32_t meters_there, meters_right; /* Bits, as far as read. */
    uint32_t configured_xid;             /* Of the barrier behind them. */
    bool refused[N_ASKS];                /* Told to the operator already. */

    /* ofconn-dump.c */
    uint32_t dump_xid;
    size_t n_dumped_flows, n_dumped_groups, n_unreadable;
    uint64_t n_foreign_dumped; /* stats.n_foreign when the dump began. */

    /* ofconn-learned.c */
    struct ofconn_review review;

    /* ofconn-bundle.c */
    struct ofconn_bundle bundle;
    bool flush; /* Send what is dirty. */

    /* ofconn-old.c */
    struct ofconn_old old;
    bool redump;

    /* ofconn-watch.c */
    long long int repair_ms; /* When to flush because of foreign changes. */

    /* ofconn-packet.c */
    void *packet_ins[OFCONN_MAX_PACKET_INS]; /* Messages, in a ring. */
    size_t first_packet_in, n_packet_ins;

    /* ofconn-stats.c */
    struct ofconn_groups groups;
    struct ofconn_flows flows;

    /* ofconn-ct.c */
    enum ofconn_ct_state ct_state;
    uint32_t ct_xid; /* Of the first request; the barrier's is behind. */
    size_t n_ct;
    long long int ct_due_ms; /* When the reply is overdue. */

    struct ofconn_stats stats;
};

/* ofconn.c */

/* Does with 'msg' what its contents ask for; 'msg' stays the caller's, its
 * data pointer moves. */
void ofconn_recv(struct ofconn *, struct ofpbuf *msg);
/* Moves the state machine on as far as it goes without the switch. */
void ofconn_run_states(struct ofconn *);
/* Gives 'msg' an xid, sends it, and returns the xid. */
uint32_t ofconn_send(struct ofconn *, struct ofpbuf *msg);
/* Reserves 'n' consecutive xids and returns the first. */
uint32_t ofconn_take_xids(struct ofconn *, size_t n);
/* Notes that the connection can't go on, and why; it is given up at the end
 * of the turn. */
void ofconn_break(struct ofconn *, const char *format, ...)
    OVS_PRINTF_FORMAT(2, 3);
/* Notes an error for those who look at the stats. */
void ofconn_note_error(struct ofconn *, const char *format, ...)
    OVS_PRINTF_FORMAT(2, 3);
/* Splits the entry that begins with its 16-bit length off the front of
 * 'msg', whose headers have been pulled: an entry that can't be decoded then
 * doesn't spoil the ones behind it.  Returns false at the end, or if the
 * length can't be. 'entry' shares memory with 'msg' and isn't to be freed. */
bool ofconn_pull_entry(struct ofpbuf *msg, struct ofpbuf *entry);

/* ofconn-setup.c */
void ofconn_setup_start(struct ofconn *);
void ofconn_setup_reset(struct ofconn *);
bool ofconn_setup_recv_error(struct ofconn *, uint32_t xid, enum ofperr);
void ofconn_setup_recv_meters(struct ofconn *, struct ofpbuf *msg);
/* Reads the meters, and sets those that aren't as they should be. */
void ofconn_setup_check_meters(struct ofconn *);

/* ofconn-dump.c */
void ofconn_dump_start_flows(struct ofconn *);
void ofconn_dump_start_groups(struct ofconn *);
/* Return true if that was the last part. */
bool ofconn_dump_recv_flows(struct ofconn *, struct ofpbuf *msg);
bool ofconn_dump_recv_groups(struct ofconn *, struct ofpbuf *msg);
struct ofputil_group_mod;
/* The group of 'gm' is on the switch. */
void ofconn_have_group(struct ofconn *, const struct ofputil_group_mod *gm);
/* A group of this id is on the switch, its contents are unknown. */
void ofconn_have_some_group(struct ofconn *, uint32_t group_id);

/* ofconn-watch.c */
void ofconn_watch_recv_flows(struct ofconn *, struct ofpbuf *msg);
void ofconn_watch_recv_forward(struct ofconn *, const struct ofp_header *);

/* ofconn-learned.c */
/* True if 'entry' of a reply to a dump, or of the flow monitor, is about a
 * learned flow.  Nothing is decoded. */
bool ofconn_learned_is_stats(const struct ofconn *, const struct ofpbuf *);
bool ofconn_learned_is_update(const struct ofconn *, const struct ofpbuf *);
/* Return true if the message was about a review. */
bool ofconn_learned_recv(struct ofconn *, struct ofpbuf *msg);
bool ofconn_learned_recv_error(struct ofconn *, uint32_t xid, enum ofperr);
void ofconn_learned_reset(struct ofconn *); /* The connection is gone. */

/* ofconn-bundle.c */
/* Adds 'msg', which has its xid and length, to the open bundle. */
void ofconn_bundle_add(struct ofconn *, struct ofpbuf *msg);
void ofconn_bundle_run(struct ofconn *);
void ofconn_bundle_reset(struct ofconn *); /* The connection is gone. */
bool ofconn_bundle_recv_error(struct ofconn *, uint32_t xid, enum ofperr);
void ofconn_bundle_recv_barrier(struct ofconn *, uint32_t xid);
void ofconn_bundle_recv_control(struct ofconn *, const struct ofp_header *);

/* ofconn-old.c */
/* True if the flow table has been told to look for a predecessor. */
bool ofconn_old_is_expected(const struct ofconn *);
void ofconn_old_init(struct ofconn *);
void ofconn_old_uninit(struct ofconn *);
/* A dump begins; it has found a flow or a group (a reference that this takes)
 * that is not ours; it ends. */
void ofconn_old_begin(struct ofconn *);
struct ofputil_flow_stats;
void ofconn_old_note_flow(struct ofconn *, const struct fitem *,
                          const struct ofputil_flow_stats *);
void ofconn_old_note_group(struct ofconn *, struct fitem *);
void ofconn_old_end(struct ofconn *);
/* The connection is gone. */
void ofconn_old_reset(struct ofconn *);
bool ofconn_old_recv_barrier(struct ofconn *, uint32_t xid);
void ofconn_old_recv_tables(struct ofconn *, struct ofpbuf *msg);
/* An agent of Antrea's put a flow.  Returns how long to wait before that is
 * undone, in ms. */
int ofconn_old_note_intruder(struct ofconn *);
/* Adds to the open bundle that all flows of Antrea's go; an error with one of
 * the xids from bundle.deletes_xid on means that they would not. */
void ofconn_old_send_deletes(struct ofconn *);

/* ofconn-stats.c */
void ofconn_stats_recv(struct ofconn *, struct ofpbuf *msg);
/* Returns true if the refused request was the one for counters. */
bool ofconn_stats_recv_error(struct ofconn *, uint32_t xid);
void ofconn_stats_run(struct ofconn *);
void ofconn_stats_reset(struct ofconn *); /* The connection is gone. */
void ofconn_stats_uninit(struct ofconn *);

/* ofconn-flowstats.c */
/* Returns true if 'msg' belongs to the request that is out. */
bool ofconn_flowstats_recv(struct ofconn *, struct ofpbuf *msg);
/* Returns true if the refused request was the one for counters. */
bool ofconn_flowstats_recv_error(struct ofconn *, uint32_t xid);
void ofconn_flowstats_run(struct ofconn *);
void ofconn_flowstats_reset(struct ofconn *); /* The connection is gone. */
void ofconn_flowstats_uninit(struct ofconn *);

/* ofconn-ct.c */
void ofconn_ct_run(struct ofconn *);
void ofconn_ct_reset(struct ofconn *); /* The connection is gone. */
/* Return true if it was about what was sent. */
bool ofconn_ct_recv_error(struct ofconn *, uint32_t xid, enum ofperr);
bool ofconn_ct_recv_barrier(struct ofconn *, uint32_t xid);

/* ofconn-packet.c */
void ofconn_packet_recv(struct ofconn *, const struct ofpbuf *msg);
void ofconn_packet_reset(struct ofconn *);

#endif /* src/switch/ofconn-private.h */
