/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_AGENT_PACER_H
#define OFPROXYD_AGENT_PACER_H 1

/* When the next round of work begins.
 *
 * Changes that belong together come on several watches, a few ms apart:
 * after a quiet spell the first one waits that long, and no longer.  While
 * changes keep coming, one round per PACER_PERIOD_MS takes what has come
 * since.  Pure: times are ms of a monotonic clock. */

#include <limits.h>
#include <stdbool.h>

#define PACER_DELAY_MS  3
#define PACER_PERIOD_MS 50

struct pacer {
    long long int due_ms;  /* Of the round that is asked for; LLONG_MAX if
                            * none. */
    long long int last_ms; /* End of the last round. */
};

#define PACER_INIT               \
    {                            \
        LLONG_MAX, LLONG_MIN / 2 \
    }

/* There is something to do. */
void pacer_ask(struct pacer *, long long int now_ms);

/* True if a round is due. */
bool pacer_is_due(const struct pacer *, long long int now_ms);

/* A round has ended. */
void pacer_done(struct pacer *, long long int now_ms);

#endif /* src/agent/pacer.h */
