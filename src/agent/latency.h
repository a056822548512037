/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_AGENT_LATENCY_H
#define OFPROXYD_AGENT_LATENCY_H 1

/* How long changes took from being read to being confirmed by the switch:
 * the last LATENCY_KEPT rounds, and the first one.  Pure: times are us of a
 * monotonic clock. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LATENCY_KEPT 1024

struct latency {
    long long int read_us;     /* When the oldest change was read that no round
                              * has taken yet, or 0. */
    long long int sent_us;     /* And the oldest one that was taken but is not
                              * confirmed, or 0. */
    long long int listed_us;   /* When all had been listed, or 0. */
    long long int first_us;    /* From then to the first time that the switch
                              * had all of it; 0 before. */
    uint32_t us[LATENCY_KEPT]; /* A ring. */
    uint64_t n;                /* Rounds ever; the next one goes to
                                * us[n % LATENCY_KEPT]. */
};

/* A change was read at 'now_us'.  May be called again as long as no round has
 * taken it. */
void latency_read(struct latency *, long long int now_us);

/* A round has taken all that was read so far. */
void latency_sent(struct latency *);

/* The switch has all that rounds have taken.  What was read before the first
 * sync is not counted as a change. */
void latency_confirmed(struct latency *, long long int now_us);

/* All objects have been listed, at 'now_us'; only the first call counts, and
 * returns true. */
bool latency_listed(struct latency *, long long int now_us);

/* The switch has all that was listed; only the first call counts, and returns
 * true. */
bool latency_first_sync(struct latency *, long long int now_us);

/* Returns the smallest time that 'percent' of the kept rounds did not exceed,
 * in microseconds, or 0 if there is none.  100 gives the largest. */
uint32_t latency_quantile(const struct latency *, unsigned int percent);

#endif /* src/agent/latency.h */
