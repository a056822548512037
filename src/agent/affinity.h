/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_AGENT_AFFINITY_H
#define OFPROXYD_AGENT_AFFINITY_H 1

/* The clients' memories that the switch has learned: which of them have to go
 * or to stay longer, and when to look.
 *
 * A client's memory is a flow, learned from a flow of its endpoint.  The
 * switch ends it by itself when the endpoint's flow goes, or its timeout has
 * passed.  What is left to do:
 *
 *    - No flow has a timeout above PIPE_AFFINITY_MAX_S.  If the Service's is
 *      longer, the flow has a hard timeout of pipe_affinity_hard_s(), which
 *      begins anew with each connection of the client; when the client has
 *      been idle for the rest of the Service's timeout, the flow is put anew
 *      as it is, and then ends in its second.  (Who would rather look at the
 *      end whether the time is over can't: Open vSwitch tells no idle time
 *      above 65 535 s.)  Without the daemon such a client is forgotten too
 *      early, but not before 17 hours.
 *    - A flow keeps the timeouts with which it was learned, also if it is
 *      learned again: so when that of a Service changes, flows are given the
 *      new one, or end.
 *    - What the switch was about to learn while the endpoint's flow went may
 *      stay behind.  Such flows of Services that have no affinity any more
 *      end.  (Those of an endpoint that is gone lead nowhere, are replaced
 *      when their client comes again, and end by their time like others.)
 *
 * So the flows are looked at: all after each connect, now and once more a
 * little later when an affinity changed, and every half hour while there is a
 * long timeout; and those of one group when the first of them may have been
 * idle long enough.  Everything is seen from the flow, so nothing is lost with
 * the daemon or the connection.
 *
 * Pure: time comes in as an argument, in ms of a monotonic clock. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <openvswitch/hmap.h>

/* Clients that a node remembers, for all Services.  Beyond 100 000 flows in a
 * table with eviction Open vSwitch 3.1 logs a warning every minute
 * (ofproto_run()); they take about 1 kB each there. */
#define AFFINITY_MAX_CLIENTS 100000

struct affinity {
    struct hmap groups;      /* Those with flows that have to be put anew. */
    long long int groups_ms; /* When the first of them is due, or
                              * LLONG_MAX. */

    long long int all_ms;   /* When all are due, or LLONG_MAX. */
    long long int again_ms; /* When all are due once more, or LLONG_MAX. */
    long long int long_ms;  /* When all are due if there is a long timeout. */
    bool has_long;          /* There is one. */
    long long int pause_ms; /* Nothing is looked at before. */

    bool reviewing;
    bool reviews_all;
    uint32_t group_id; /* Else. */
    long long int began_ms;
};

void affinity_init(struct affinity *);
void affinity_uninit(struct affinity *);

/* The switch has been dumped: its flows are looked at as soon as may be. */
void affinity_connected(struct affinity *, long long int now_ms);

/* Affinities have changed, and the switch has the flows that say so. */
void affinity_changed(struct affinity *, long long int now_ms);

/* Tells whether any Service has a timeout above PIPE_AFFINITY_MAX_S. */
void affinity_set_long(struct affinity *, bool has_long);

/* Returns when affinity_begin() will return true, or LLONG_MAX. */
long long int affinity_next_ms(const struct affinity *);

/* Begins a review if one is due: of all flows if '*ret_all', else of those of
 * '*ret_group_id'.  It is to be followed by affinity_end(). */
bool affinity_begin(struct affinity *, long long int now_ms, bool *ret_all,
                    uint32_t *ret_group_id);

/* A flow, and what the Service whose it is says. */
struct affinity_flow {
    uint32_t group_id;
    uint32_t timeout_s;     /* 0: no such Service, or no affinity. */
    uint32_t idle_s, age_s; /* As in struct ofconn_learned. */
    uint16_t idle_timeout, hard_timeout; /* Likewise. */
};

enum affinity_verdict {
    AFFINITY_KEEP,
    AFFINITY_FORGET,
    AFFINITY_PUT /* Put it anew, with the timeouts that are now in 'flow'. */
};

/* Returns what becomes of 'flow'.  To be called only during a review. */
enum affinity_verdict affinity_judge(struct affinity *,
                                     struct affinity_flow *flow,
                                     long long int now_ms);

/* The review has ended; 'complete': it got to its end.  What it took times
 * AFFINITY_REST passes before the next one, so that a flood of flows can't
 * keep switch and daemon busy. */
void affinity_end(struct affinity *, long long int now_ms, bool complete);
#define AFFINITY_REST 20

#endif /* src/agent/affinity.h */
