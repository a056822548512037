/* SPDX-License-Identifier: Apache-2.0 */

/* Requests over the connection to the switch, a few at a time. */

#include <limits.h>

#include <openvswitch/poll-loop.h>

#include <timeval.h>

#include "stale-private.h"

/* Hears what became of what was sent.  Returns false while that is not known
 * yet. */
static bool
hear(struct stale *st, const struct ofconn *ofconn)
{
    if (!st->sent_us) {
        return true;
    }
    switch (ofconn_ct_state(ofconn)) {
    case OFCONN_CT_OUT: return false;
    case OFCONN_CT_DONE:
        stale_done(st, time_msec(), time_usec() - st->sent_us);
        break;
    case OFCONN_CT_REFUSED: stale_give_up(st); break;
    case OFCONN_CT_IDLE: stale_lost(st); break;
    }
    st->sent_us = 0;
    return true;
}

void
stale_run(struct stale *st, struct ofconn *ofconn)
{
    struct ofconn_ct_flush flushes[OFCONN_CT_MAX];
    size_t n;

    if (!hear(st, ofconn) || !ofconn_is_up(ofconn)) {
        return;
    }
    n = stale_take(st, time_msec(), flushes, OFCONN_CT_MAX);
    if (!n) {
        return;
    }
    if (ofconn_ct_flush(ofconn, flushes, n)) {
        st->sent_us = time_usec();
    } else {
        stale_lost(st);
    }
}

void
stale_wait(const struct stale *st)
{
    long long int next_ms = stale_next_ms(st);

    if (!st->sent_us && next_ms != LLONG_MAX) {
        poll_timer_wait_until(next_ms);
    }
    if (stale_is_unsaved(st)) {
        poll_immediate_wake();
    }
}
