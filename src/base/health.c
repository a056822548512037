/* SPDX-License-Identifier: Apache-2.0 */
/* The health of each family, from when changes came and were applied. */

#include "ofproxyd/base/health.h"

#include <string.h>

void
health_queued(struct health *h, enum ip_family family, long long int now_ms)
{
    struct health_family *f = &h->families[family];

    if (!f->queued_ms) {
        f->queued_ms = now_ms;
    }
}

void
health_updated(struct health *h, enum ip_family family, long long int now_ms)
{
    struct health_family *f = &h->families[family];

    f->queued_ms = 0;
    f->updated_ms = now_ms;
}

bool
health_is_ok(const struct health *h, enum ip_family family,
             long long int now_ms)
{
    const struct health_family *f = &h->families[family];

    return !f->queued_ms || now_ms - f->queued_ms < HEALTH_LIMIT_MS;
}

void
health_get_state(const struct health *h, long long int now_ms, int64_t now_us,
                 struct health_state *ret)
{
    memset(ret, 0, sizeof *ret);
    ret->now_us = now_us;
    for (int i = 0; i < N_IP_FAMILIES; i++) {
        const struct health_family *f = &h->families[i];
        bool ok = health_is_ok(h, i, now_ms);

        ret->families[i].healthy = ok;
        ret->families[i].known = f->updated_ms || !ok;
        if (f->updated_ms) {
            ret->families[i].updated_us =
                now_us - (now_ms - f->updated_ms) * INT64_C(1000);
        }
    }
}

bool
health_state_is_ok(const struct health_state *state)
{
    for (int i = 0; i < N_IP_FAMILIES; i++) {
        if (!state->families[i].healthy) {
            return false;
        }
    }
    return true;
}
