/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_AGENT_LATENCY_H
#define OFPROXYD_AGENT_LATENCY_H 1

/* How long changes took from being read to being confirmed by the switch:
 * the last LATENCY_KEPT rounds.  Pure. */

#include <stddef.h>
#include <stdint.h>

#define LATENCY_KEPT 1024

struct latency {
    uint32_t us[LATENCY_KEPT]; /* A ring. */
    uint64_t n;                /* Rounds ever; the next one goes to
                                * us[n % LATENCY_KEPT]. */
};

/* Adds a round that took 'us' microseconds; negative counts as 0. */
void latency_add(struct latency *, long long int us);

/* Returns the smallest time that 'percent' of the kept rounds did not exceed,
 * in microseconds, or 0 if there is none.  100 gives the largest. */
uint32_t latency_quantile(const struct latency *, unsigned int percent);

#endif /* src/agent/latency.h */
