/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_AGENT_MCCOUNT_H
#define OFPROXYD_AGENT_MCCOUNT_H 1

/* Packets to and from other clusters since ofproxyd started.
 *
 * The switch counts for as long as it has a flow; one that is written over an
 * equal match goes on from the old one's numbers.  They are read every
 * MCCOUNT_EVERY_MS, and what they grew by adds up here, so that a total never
 * goes back; what a flow counted between the last reading and its end is
 * lost. */

#include <stdint.h>

#include "mc.h"
#include "ofproxyd/switch/ofconn.h"

#define MCCOUNT_EVERY_MS 5000

struct mccount;

enum mccount_dir {
    MCCOUNT_SENT,
    MCCOUNT_RECEIVED, /* Only by a gateway: other nodes' tunnels bring what
                       * comes from clusters under the MAC address of
                       * everything else. */
    N_MCCOUNT_DIRS
};

struct mccount_total {
    uint64_t n_packets, n_bytes;
};

struct mccount *mccount_create(void);
void mccount_destroy(struct mccount *); /* NULL is allowed. */

/* Reads the counters when it is time to, if there are other clusters. */
void mccount_run(struct mccount *, const struct mc *, struct ofconn *);
void mccount_wait(const struct mccount *, const struct mc *,
                  const struct ofconn *);

/* Takes a reading of all flows of a direction at 'now' (time_msec()); the
 * array is taken over, and may be NULL if it is empty.  The first adds
 * nothing: its packets may be of before the start. */
void mccount_add(struct mccount *, enum mccount_dir,
                 struct ofconn_flow_stats *flows, size_t n, long long int now);

/* Of the cluster with that owner in the flow table. */
struct mccount_total mccount_get(const struct mccount *, uint64_t owner,
                                 enum mccount_dir);

/* When all was read last, or 0. */
long long int mccount_read_ms(const struct mccount *);

#endif /* src/agent/mccount.h */
