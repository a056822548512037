/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_BASE_BACKOFF_H
#define OFPROXYD_BASE_BACKOFF_H 1

/* Exponential backoff with full jitter: each wait is drawn from [d, 2d), d
 * doubles with every failure up to a cap, without end (client-go's reflector:
 * 800 ms, factor 2, cap 30 s, jitter 1.0).  Pure: the caller brings the
 * random number. */

#include <stdint.h>

struct backoff {
    int min_ms; /* First wait. */
    int max_ms; /* Largest base wait, before jitter. */
    int cur_ms; /* Base of the next wait; 0 before the first failure. */
};

#define BACKOFF_INIT(MIN_MS, MAX_MS) \
    {                                \
        (MIN_MS), (MAX_MS), 0        \
    }

/* Counts one failure and returns how long to wait, in ms.  'random' is any
 * uniformly distributed number. */
int backoff_next(struct backoff *, uint32_t random);

/* Forgets all failures. */
void backoff_reset(struct backoff *);

#endif /* ofproxyd/base/backoff.h */
