/* SPDX-License-Identifier: Apache-2.0 */

/* Between what is learned and whose it is. */

#include "learned.h"

#include <limits.h>
#include <stdlib.h>

#include <openvswitch/poll-loop.h>
#include <timeval.h>
#include <util.h>

#include "affinity.h"
#include "ofproxyd/flow/cookie.h"
#include "ofproxyd/pipeline/tables.h"

struct learned {
    const struct services *services;
    struct flowtab *flowtab;
    struct ofconn *ofconn;
    struct affinity affinity;
    uint64_t n_dumps;   /* That were noted. */
    uint64_t n_changes; /* Of affinities, that were noted. */
    uint64_t n_reviews; /* Before the one that is under way. */
};

struct learned *
learned_create(const struct services *services, struct flowtab *flowtab,
               struct ofconn *ofconn)
{
    struct learned *l = xzalloc(sizeof *l);

    l->services = services;
    l->flowtab = flowtab;
    l->ofconn = ofconn;
    affinity_init(&l->affinity);
    flowtab_set_learned_table(flowtab, PIPE_T_AFFINITY);
    return l;
}

void
learned_destroy(struct learned *l)
{
    if (l) {
        affinity_uninit(&l->affinity);
        free(l);
    }
}

static uint32_t
timeout_of(const struct services *services, uint32_t group_id)
{
    return group_id_is_ours(group_id)
               ? services_affinity_s(services, group_id_object_id(group_id))
               : 0;
}

static enum ofconn_verdict
judge(struct ofconn_learned *learned, void *l_)
{
    struct learned *l = l_;
    struct affinity_flow flow = {
        .group_id = learned->group_id,
        .timeout_s = timeout_of(l->services, learned->group_id),
        .idle_s = learned->idle_s,
        .age_s = learned->age_s,
        .idle_timeout = learned->idle_timeout,
        .hard_timeout = learned->hard_timeout,
    };

    switch (affinity_judge(&l->affinity, &flow, time_msec())) {
    case AFFINITY_KEEP: return OFCONN_KEEP;
    case AFFINITY_FORGET: return OFCONN_FORGET;
    case AFFINITY_PUT: break;
    }
    learned->idle_timeout = flow.idle_timeout;
    learned->hard_timeout = flow.hard_timeout;
    return OFCONN_PUT;
}

static void
note_end(struct learned *l, const struct ofconn_stats *s)
{
    if (l->affinity.reviewing && !ofconn_is_reviewing(l->ofconn)) {
        affinity_end(&l->affinity, time_msec(), s->n_reviews != l->n_reviews);
    }
}

/* What has changed since the last call.  A change counts when the switch has
 * the flows that say so: what is learned before would be looked at in vain. */
static void
note_changes(struct learned *l, const struct ofconn_stats *s)
{
    uint64_t n_changes = services_n_affinity_changes(l->services);

    if (l->n_dumps != s->n_dumps) {
        l->n_dumps = s->n_dumps;
        affinity_connected(&l->affinity, time_msec());
    }
    if (l->n_changes != n_changes) {
        l->n_changes = n_changes;
        affinity_changed(&l->affinity, time_msec());
    }
    affinity_set_long(&l->affinity,
                      services_n_long_affinities(l->services) > 0);
}

static bool
is_settled(const struct learned *l)
{
    struct flowtab_stats stats;

    flowtab_get_stats(l->flowtab, &stats);
    return !stats.n_dirty && !stats.n_in_flight
           && !flowtab_takes_over(l->flowtab);
}

void
learned_run(struct learned *l, bool complete)
{
    struct ofconn_stats stats;
    uint32_t group_id;
    bool all;

    ofconn_get_stats(l->ofconn, &stats);
    note_end(l, &stats);
    if (!complete || !ofconn_is_up(l->ofconn) || !is_settled(l)) {
        return;
    }
    note_changes(l, &stats);
    if (affinity_begin(&l->affinity, time_msec(), &all, &group_id)) {
        l->n_reviews = stats.n_reviews;
        if (!ofconn_review_learned(l->ofconn, all ? NULL : &group_id, judge,
                                   l)) {
            affinity_end(&l->affinity, time_msec(), false);
        }
    }
}

void
learned_wait(const struct learned *l)
{
    long long int next_ms = affinity_next_ms(&l->affinity);

    if (next_ms != LLONG_MAX && ofconn_is_up(l->ofconn) && is_settled(l)) {
        poll_timer_wait_until(next_ms);
    }
}
