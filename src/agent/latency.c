/* SPDX-License-Identifier: Apache-2.0 */

/* Quantiles of the last rounds. */

#include "latency.h"

#include <stdlib.h>

#include <util.h>

void
latency_read(struct latency *l, long long int now_us)
{
    if (!l->read_us) {
        l->read_us = now_us;
    }
}

void
latency_sent(struct latency *l)
{
    if (!l->sent_us) {
        l->sent_us = l->read_us;
    }
    l->read_us = 0;
}

void
latency_confirmed(struct latency *l, long long int now_us)
{
    if (l->sent_us && l->first_us) {
        long long int us = MAX(now_us - l->sent_us, 0);

        l->us[l->n++ % LATENCY_KEPT] = MIN(us, UINT32_MAX);
    }
    l->sent_us = 0;
}

bool
latency_listed(struct latency *l, long long int now_us)
{
    if (l->listed_us) {
        return false;
    }
    l->listed_us = now_us;
    return true;
}

bool
latency_first_sync(struct latency *l, long long int now_us)
{
    if (l->first_us) {
        return false;
    }
    l->first_us = MAX(now_us - l->listed_us, 1);
    return true;
}

static int
compare_us(const void *a_, const void *b_)
{
    const uint32_t *a = a_, *b = b_;

    return *a < *b ? -1 : *a > *b;
}

uint32_t
latency_quantile(const struct latency *l, unsigned int percent)
{
    size_t n = MIN(l->n, LATENCY_KEPT);
    uint32_t *sorted;
    uint32_t us;

    if (!n) {
        return 0;
    }
    sorted = xmemdup(l->us, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, compare_us);
    us = sorted[MIN(DIV_ROUND_UP(n * percent, 100), n) - (percent > 0)];
    free(sorted);
    return us;
}
