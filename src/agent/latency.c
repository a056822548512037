/* SPDX-License-Identifier: Apache-2.0 */

/* Quantiles of the last rounds. */

#include "latency.h"

#include <stdlib.h>

#include <util.h>

void
latency_add(struct latency *l, long long int us)
{
    l->us[l->n++ % LATENCY_KEPT] = MIN(MAX(us, 0), UINT32_MAX);
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
