/* SPDX-License-Identifier: Apache-2.0 */

/* Adaptive coalescing of changes into rounds. */

#include "pacer.h"

void
pacer_ask(struct pacer *p, long long int now_ms)
{
    long long int due_ms = now_ms + PACER_DELAY_MS;

    if (due_ms < p->last_ms + PACER_PERIOD_MS) {
        due_ms = p->last_ms + PACER_PERIOD_MS;
    }
    if (due_ms < p->due_ms) {
        p->due_ms = due_ms;
    }
}

bool
pacer_is_due(const struct pacer *p, long long int now_ms)
{
    return now_ms >= p->due_ms;
}

void
pacer_done(struct pacer *p, long long int now_ms)
{
    p->due_ms = LLONG_MAX;
    p->last_ms = now_ms;
}
