/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOST_CTFLUSH_H
#define HOST_CTFLUSH_H 1

/* Removes the conntrack entries of tunnel packets between this node and the
 * other nodes, which were tracked before the NOTRACK rules came: no packet
 * refreshes them any more, and they would be there until they time out.
 *
 * Only entries of the host's own zone, of UDP, to the tunnel's port, between
 * an address of this node and one of the set of nodes.  A pass reads the
 * kernel's table in steps. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <netlink/socket.h>

#include "memberset.h"
#include "ofproxyd/base/backoff.h"
#include "ofproxyd/base/ip.h"

/* What is to go. */
struct ctflush_want {
    uint16_t port; /* 0: nothing. */
    struct ip own[N_IP_FAMILIES];
    const struct memberset *nodes;
};

struct ctflush_entry;

struct ctflush {
    struct nl_sock *sock; /* NULL between passes. */
    uint32_t seq;
    bool due;                      /* A pass is. */
    bool dumping;                  /* One is on. */
    enum ip_family family;         /* That it is at. */
    bool unfiltered;               /* The kernel doesn't know about filters. */
    long long int next_ms;         /* No pass before. */
    struct backoff gap;            /* Between two passes. */
    struct ctflush_entry *entries; /* Found, and not removed yet. */
    size_t n, allocated;
    uint64_t n_removed;
    uint8_t *buf; /* To receive into, or NULL. */
};

void ctflush_init(struct ctflush *);
void ctflush_uninit(struct ctflush *);

/* Asks for one more pass, soon: rules or nodes have come. */
void ctflush_request(struct ctflush *);

/* Goes on with a pass: with a step of it a turn.  Not to be called while a
 * pass is due and there are no nodes, for it would find nothing. */
void ctflush_run(struct ctflush *, const struct ctflush_want *);
void ctflush_wait(const struct ctflush *);

/* True while a pass is due or on. */
bool ctflush_is_busy(const struct ctflush *);

#endif /* host/ctflush.h */
