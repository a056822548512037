/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOST_CTFLUSH_H
#define HOST_CTFLUSH_H 1

/* Removes entries of the host's own conntrack zone that a function picks, in
 * passes: each reads the kernel's table in steps, and then removes what was
 * picked. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <netlink/socket.h>

#include "ofproxyd/base/backoff.h"
#include "ofproxyd/base/ip.h"

/* An entry of a protocol with ports. */
struct ctflush_entry {
    struct ip src, dst; /* Of its first packet. */
    struct ip reply_src, reply_dst;
    uint16_t sport, dport;
    uint16_t reply_sport;
    uint8_t proto;
    uint32_t id; /* As the kernel has it. */
};

/* Which part of the table is read. */
struct ctflush_filter {
    uint8_t proto; /* IPPROTO_*. */
    uint16_t port; /* Of the destination; 0: any. */
};

/* What is to go. */
struct ctflush_want {
    const struct ctflush_filter *filters; /* None: nothing. */
    size_t n_filters;
    bool families[N_IP_FAMILIES];
    bool (*is_stale)(const struct ctflush_entry *, const void *aux);
    const void *aux;
};

struct ctflush {
    const char *what;     /* In the log: entries of. */
    struct nl_sock *sock; /* NULL between passes. */
    uint32_t seq;
    bool due;                      /* A pass is. */
    bool dumping;                  /* One is on. */
    size_t step;                   /* Of filters and families. */
    bool unfiltered;               /* The kernel doesn't know about filters. */
    long long int next_ms;         /* No pass before. */
    struct backoff gap;            /* Between two passes. */
    struct ctflush_entry *entries; /* Found, and not removed yet. */
    size_t n, allocated;
    uint64_t n_removed;
    uint8_t *buf; /* To receive into, or NULL. */
};

/* Of passes that are asked for all the time the gap grows up to 'gap_max_ms'.
 * 'what' must stay. */
void ctflush_init(struct ctflush *, const char *what, int gap_max_ms);
void ctflush_uninit(struct ctflush *);

/* Asks for one more pass, soon. */
void ctflush_request(struct ctflush *);

/* Goes on with a pass: with a step of it a turn.  Returns true if one has
 * ended and none is due. */
bool ctflush_run(struct ctflush *, const struct ctflush_want *);
void ctflush_wait(const struct ctflush *);

/* True while a pass is due or on. */
bool ctflush_is_busy(const struct ctflush *);

#endif /* host/ctflush.h */
