/* SPDX-License-Identifier: Apache-2.0 */
/* How long to wait after a failure. */

#include "ofproxyd/base/backoff.h"

#include <limits.h>

#include <util.h>

int
backoff_next(struct backoff *b, uint32_t random)
{
    int d = MIN(b->cur_ms ? b->cur_ms : b->min_ms, b->max_ms);

    b->cur_ms = d > b->max_ms / 2 ? b->max_ms : 2 * d;

    /* Scaling, unlike a remainder, favours no value. */
    uint64_t jitter = ((uint64_t) random * d) >> 32;
    return MIN(d + jitter, INT_MAX);
}

void
backoff_reset(struct backoff *b)
{
    b->cur_ms = 0;
}
