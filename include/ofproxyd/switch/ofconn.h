/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_SWITCH_OFCONN_H
#define OFPROXYD_SWITCH_OFCONN_H 1

/* The OpenFlow 1.5 connection to the bridge, and the transfer of a flow
 * table's differences over it.
 *
 * A state machine on the poll loop: connects without end, negotiates, asks
 * for the messages it needs (flow monitor, REQUESTFORWARD, packet-ins), sets
 * the reject meter, dumps flows and groups into the flow table, and then
 * follows what others change.  When told to, sends what is dirty in bundles
 * (ATOMIC|ORDERED, barrier before the commit) until nothing is.  A connection
 * that breaks, a reply that does not come within its deadline, a second break
 * during a dump: all start again from the dump.
 *
 * Logs what an operator can act on; never blocks. */

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include <openvswitch/dynamic-string.h>
#include <openvswitch/ofp-packet.h>

#include "ofproxyd/flow/flowtab.h"

struct ofconn;

struct ofconn_cfg {
    const char *target;      /* "unix:/var/run/openvswitch/br-int.mgmt" */
    struct flowtab *flowtab; /* Must live longer than the connection. */
    uint32_t meter_id;       /* The first one of packets to the daemon. */
    unsigned int n_meters;   /* Up to 32. */
    uint32_t meter_rate_pps; /* The limit of each; burst is twice that. */
    long long int reply_deadline_ms;         /* For any reply, e.g. 10000. */
    bool (*table_is_ours)(uint8_t table_id); /* Or NULL: all are. */
    unsigned int learned_reg; /* Register that learned flows match. */
};

/* Returns a connection that is down until ofconn_run() is called. */
struct ofconn *ofconn_create(const struct ofconn_cfg *);
void ofconn_destroy(struct ofconn *); /* NULL is allowed. */

/* Does what can be done without blocking, a bounded amount of it. */
void ofconn_run(struct ofconn *);
/* Arranges for poll_block() to wake up when ofconn_run() has work. */
void ofconn_wait(struct ofconn *);

/* Sends what is dirty in the flow table, in as many bundles as it takes, over
 * the next calls of ofconn_run(); what becomes dirty meanwhile goes along.
 * Remembered while the connection is down.
 *
 * Needs not be called for what others change, and after a dump: the
 * connection then does so itself, at most ten times a second in a fight. */
void ofconn_flush(struct ofconn *);

/* The bridge behind the target may have been made anew: connect at once
 * instead of after the backoff. */
void ofconn_kick(struct ofconn *);

/* Makes the connection read again what the bridge holds: to be called after
 * flowtab_set_predecessor(). */
void ofconn_redump(struct ofconn *);

/* Deletes the 'n' meters from id 'first' on, but for those that flows of
 * others use, which would go with them; and takes back the names that the
 * predecessor gave to tables that are not ours, for a name that stands for two
 * tables is of no use.  Ends when ofconn_meters_are_gone()
 * (without a connection: never; call it again). */
void ofconn_delete_meters(struct ofconn *, uint32_t first, unsigned int n);
bool ofconn_meters_are_gone(const struct ofconn *);

/* Learned flows (cookie.h) are not dumped, and nobody is told of them.  They
 * can be looked at: */
struct ofconn_learned {
    uint64_t cookie;
    uint32_t group_id; /* The value of the 'learned_reg' of its match. */
    uint16_t idle_timeout, hard_timeout; /* In seconds; 0: none. */

    /* Seconds, rounded down, since the last packet (Open vSwitch never says
     * more than 65535), and since the flow was put. */
    uint32_t idle_s, age_s;
};

enum ofconn_verdict {
    OFCONN_KEEP,
    OFCONN_FORGET, /* It has to go. */
    OFCONN_PUT     /* It is put anew, with the timeouts that the judge sets:
                    * the hard timeout begins again, the time that the flow has
                    * been idle goes on. */
};

/* Tells what becomes of a flow.  May not call back. */
typedef enum ofconn_verdict ofconn_judge(struct ofconn_learned *, void *aux);

/* Calls 'judge' for the learned flows of '*group_id', or for all if that is
 * NULL, over the next calls of ofconn_run(), and carries out what it says.
 *
 * Returns false, and does nothing, if that can't be done now: the connection
 * is not up, or a review is under way. */
bool ofconn_review_learned(struct ofconn *, const uint32_t *group_id,
                           ofconn_judge *judge, void *aux)
    OVS_WARN_UNUSED_RESULT;

/* True until the review has ended.  It has got to its end if 'n_reviews' of
 * the stats has grown; else the connection was lost. */
bool ofconn_is_reviewing(const struct ofconn *);

/* True if connected, dumped, and following. */
bool ofconn_is_up(const struct ofconn *);

/* Takes the next packet-in, or returns false.  '*ret_packet' is the caller's
 * to free(); 'pin->packet' points into it. At most a bounded number are kept;
 * more are dropped and counted. */
bool ofconn_pop_packet_in(struct ofconn *, struct ofputil_packet_in *pin,
                          void **ret_packet);

/* Sends 'packet' ('len' bytes of Ethernet) out of 'port', if that is a tunnel
 * to 'tun_dst' (IPv4 as in struct ip; else "::"); dropped when the connection
 * is down or its queue is full. */
void ofconn_packet_out(struct ofconn *, ofp_port_t port,
                       const struct in6_addr *tun_dst, const void *packet,
                       size_t len);

/* What went through a group: the first packets of connections. */
struct ofconn_group_stats {
    uint32_t group_id;
    uint64_t n_packets, n_bytes;
};

/* Asks for the counters of all groups of ours, if the connection is up and
 * this isn't under way already.  The answer grows with the groups and their
 * buckets, so don't ask often. */
void ofconn_ask_group_stats(struct ofconn *);
/* True while there is hope for an answer. */
bool ofconn_awaits_group_stats(const struct ofconn *);
/* Hands out the last answer, in no particular order, without the parts of
 * larger groups: an array that is the caller's to free(), or NULL if there was
 * none since the last call. */
struct ofconn_group_stats *ofconn_take_group_stats(struct ofconn *,
                                                   size_t *ret_n);

/* What matched one flow. */
struct ofconn_flow_stats {
    uint64_t cookie;
    uint64_t id; /* Of its match and priority, in its table. */
    uint64_t n_packets, n_bytes;
};

/* Asks for the counters of the flows of 'table' whose cookies are 'cookie'
 * where 'mask' has ones, as ofconn_ask_group_stats() does.  The switch answers
 * in the order in which it is asked. */
void ofconn_ask_flow_stats(struct ofconn *, uint8_t table, uint64_t cookie,
                           uint64_t mask);
/* Hands out the last answer, an array that is the caller's to free() and may
 * be NULL if it is empty; returns false if there was none since the last
 * call. */
bool ofconn_take_flow_stats(struct ofconn *, struct ofconn_flow_stats **ret,
                            size_t *ret_n);

/* Removal of connections from the switch's connection tracking
 * (NXT_CT_FLUSH): those of 'proto' in 'zone' that were opened to 'dst' and
 * 'dst_port', from 'from' and 'from_port', and are answered from 'src' and
 * 'src_port' to 'to'.  Addresses may be "::", for any, but not all of them. */
struct ofconn_ct_flush {
    uint16_t zone;
    uint8_t proto;       /* IANA's number; 0: any. */
    struct in6_addr dst; /* IPv4 as ::ffff:a.b.c.d. */
    uint16_t dst_port;
    struct in6_addr from;
    uint16_t from_port;
    struct in6_addr src;
    uint16_t src_port;
    struct in6_addr to;
};

/* At most so many go at once. */
#define OFCONN_CT_MAX 32

enum ofconn_ct_state {
    OFCONN_CT_IDLE,   /* Nothing was sent since the connection came up. */
    OFCONN_CT_OUT,    /* Sent, not confirmed. */
    OFCONN_CT_DONE,   /* The switch has done the last that was sent. */
    OFCONN_CT_REFUSED /* It can't (before Open vSwitch 3.1). */
};

/* Sends the 'n' requests, 1 to OFCONN_CT_MAX.  Returns false, and nothing is
 * sent, while what the switch holds is not known or others are out.  What
 * became of them ofconn_ct_state() tells; when the connection is lost, that is
 * OFCONN_CT_IDLE again. */
bool ofconn_ct_flush(struct ofconn *, const struct ofconn_ct_flush *,
                     size_t n);
enum ofconn_ct_state ofconn_ct_state(const struct ofconn *);

struct ofconn_stats {
    const char *state; /* Name of the state, e.g. "FOLLOW". */
    long long int state_since_ms;
    uint64_t n_connects; /* Times that the switch answered. */
    uint64_t n_dumps;    /* Completed. */
    size_t n_dumped;     /* Flows in the last, those of others only where a
                          * predecessor is looked for. */
    uint64_t n_bundles, n_bundles_refused;
    uint64_t n_foreign;   /* Changes by others to what is ours. */
    uint64_t n_intruders; /* Flows that an agent of Antrea's put while ours
                           * were in force. */
    uint64_t n_packet_ins, n_packet_ins_dropped;
    uint64_t n_reviews;   /* Of learned flows, that got to their end. */
    uint64_t n_forgotten; /* Learned flows that were taken away. */
    size_t n_learned;     /* In the last review of all. */
    char last_error[256]; /* "" if none. */
    long long int last_error_ms;
};
/* Sets '*ret' to the present state and numbers. */
void ofconn_get_stats(const struct ofconn *, struct ofconn_stats *ret);

#endif /* ofproxyd/switch/ofconn.h */
