/* SPDX-License-Identifier: Apache-2.0 */

/* When to look at what the switch has learned, and what to make of it. */

#include "affinity.h"

#include <limits.h>
#include <stdlib.h>

#include <hash.h>
#include <util.h>

#include "ofproxyd/pipeline/pipeline.h"

/* When flows that were being learned while an affinity changed are there. */
#define AGAIN_MS 10000

/* A flow that is learned after a review is not due before the next one: no
 * client has to be idle for less than an hour. */
#define LONG_MS (1800 * 1000LL)

/* The second in which a flow ends is as good as its neighbours.  A flow that
 * is put anew a little late has the timeout that it was learned with; with
 * another one the switch would have to change it with each connection. */
#define NEAR_S 5

/* Group with flows that have to be put anew. */
struct group {
    struct hmap_node node;
    uint32_t id;
    long long int due_ms; /* When its first flow may be due. */
};

void
affinity_init(struct affinity *a)
{
    *a = (struct affinity){
        .groups_ms = LLONG_MAX,
        .all_ms = LLONG_MAX,
        .again_ms = LLONG_MAX,
        .long_ms = LLONG_MIN,
        .pause_ms = LLONG_MIN,
    };
    hmap_init(&a->groups);
}

static void
forget_group(struct affinity *a, struct group *g)
{
    hmap_remove(&a->groups, &g->node);
    free(g);
}

void
affinity_uninit(struct affinity *a)
{
    struct group *g;

    HMAP_FOR_EACH_SAFE (g, node, &a->groups) {
        forget_group(a, g);
    }
    hmap_destroy(&a->groups);
}

static struct group *
find_group(const struct affinity *a, uint32_t id)
{
    struct group *g;

    HMAP_FOR_EACH_WITH_HASH (g, node, hash_int(id, 0), &a->groups) {
        if (g->id == id) {
            return g;
        }
    }
    return NULL;
}

void
affinity_connected(struct affinity *a, long long int now_ms)
{
    a->all_ms = MIN(a->all_ms, now_ms);
}

void
affinity_changed(struct affinity *a, long long int now_ms)
{
    a->all_ms = MIN(a->all_ms, now_ms);
    a->again_ms = now_ms + AGAIN_MS;
}

void
affinity_set_long(struct affinity *a, bool has_long)
{
    a->has_long = has_long;
}

static long long int
all_due_ms(const struct affinity *a)
{
    long long int due_ms = MIN(a->all_ms, a->again_ms);

    return a->has_long ? MIN(due_ms, a->long_ms) : due_ms;
}

/* The group that is due first, or NULL. */
static struct group *
first_group(const struct affinity *a)
{
    struct group *g, *first = NULL;

    HMAP_FOR_EACH (g, node, &a->groups) {
        if (!first || g->due_ms < first->due_ms) {
            first = g;
        }
    }
    return first;
}

long long int
affinity_next_ms(const struct affinity *a)
{
    long long int due_ms = MIN(all_due_ms(a), a->groups_ms);

    if (a->reviewing) {
        return LLONG_MAX;
    }
    return due_ms == LLONG_MAX ? due_ms : MAX(due_ms, a->pause_ms);
}

/* What is known of the flows that are looked at is learned anew. */
static void
begin_all(struct affinity *a, long long int now_ms)
{
    struct group *g;

    a->all_ms = LLONG_MAX;
    if (now_ms >= a->again_ms) {
        a->again_ms = LLONG_MAX;
    }
    a->long_ms = now_ms + LONG_MS;
    HMAP_FOR_EACH (g, node, &a->groups) {
        g->due_ms = LLONG_MAX;
    }
}

bool
affinity_begin(struct affinity *a, long long int now_ms, bool *ret_all,
               uint32_t *ret_group_id)
{
    if (now_ms < affinity_next_ms(a)) {
        return false;
    }
    a->reviewing = true;
    a->began_ms = now_ms;
    a->reviews_all = now_ms >= all_due_ms(a);
    if (a->reviews_all) {
        begin_all(a, now_ms);
        a->group_id = 0;
    } else {
        struct group *g = first_group(a);

        g->due_ms = LLONG_MAX;
        a->group_id = g->id;
    }
    *ret_all = a->reviews_all;
    *ret_group_id = a->group_id;
    return true;
}

static void
note_due(struct affinity *a, uint32_t group_id, long long int due_ms)
{
    struct group *g = find_group(a, group_id);

    if (!g) {
        g = xzalloc(sizeof *g);
        g->id = group_id;
        g->due_ms = LLONG_MAX;
        hmap_insert(&a->groups, &g->node, hash_int(group_id, 0));
    }
    g->due_ms = MIN(g->due_ms, due_ms);
}

static enum affinity_verdict
put(struct affinity_flow *flow, uint32_t idle_timeout, uint32_t hard_timeout)
{
    if (flow->idle_timeout == idle_timeout
        && flow->hard_timeout == hard_timeout) {
        return AFFINITY_KEEP;
    }
    flow->idle_timeout = idle_timeout;
    flow->hard_timeout = hard_timeout;
    return AFFINITY_PUT;
}

/* For how long the client will have been idle when the hard timeout ends the
 * flow: it began when the flow was put, or with the client's last connection,
 * if that came later. */
static uint32_t
idle_at_end(const struct affinity_flow *flow)
{
    return flow->hard_timeout
           + (flow->idle_s > flow->age_s ? flow->idle_s - flow->age_s : 0);
}

static bool
is_near(uint32_t a, uint32_t b)
{
    return a <= b + NEAR_S && b <= a + NEAR_S;
}

/* Of a client that has been idle for so long that the switch doesn't say how
 * long: a flow that was put since then ends as it should. */
static enum affinity_verdict
judge_saturated(struct affinity_flow *flow)
{
    return flow->hard_timeout && !flow->idle_timeout
               ? AFFINITY_KEEP
               : put(flow, 0, flow->timeout_s - PIPE_AFFINITY_MAX_S);
}

/* Of a Service with a long timeout. */
static enum affinity_verdict
judge_long(struct affinity *a, struct affinity_flow *flow,
           long long int now_ms)
{
    uint32_t hard_s = pipe_affinity_hard_s(flow->timeout_s);
    uint32_t due_s = flow->timeout_s - hard_s;

    if (flow->idle_s >= PIPE_AFFINITY_MAX_S) {
        return judge_saturated(flow);
    } else if (flow->idle_s < due_s) {
        note_due(a, flow->group_id, now_ms + (due_s - flow->idle_s) * 1000LL);
        return put(flow, 0, hard_s);
    } else if (!flow->idle_timeout && flow->hard_timeout
               && is_near(idle_at_end(flow), flow->timeout_s)) {
        return AFFINITY_KEEP;
    } else {
        flow->idle_timeout = 0;
        flow->hard_timeout = is_near(flow->idle_s, due_s)
                                 ? hard_s
                                 : flow->timeout_s - flow->idle_s;
        return AFFINITY_PUT;
    }
}

enum affinity_verdict
affinity_judge(struct affinity *a, struct affinity_flow *flow,
               long long int now_ms)
{
    if (flow->idle_s >= flow->timeout_s) {
        return AFFINITY_FORGET;
    } else if (flow->timeout_s <= PIPE_AFFINITY_MAX_S) {
        return put(flow, flow->timeout_s, 0);
    } else {
        return judge_long(a, flow, now_ms);
    }
}

void
affinity_end(struct affinity *a, long long int now_ms, bool complete)
{
    struct group *g;

    a->reviewing = false;
    a->pause_ms = now_ms + (now_ms - a->began_ms) * AFFINITY_REST;
    if (!complete) {
        a->all_ms = MIN(a->all_ms, now_ms);
        return;
    }
    a->groups_ms = LLONG_MAX;
    HMAP_FOR_EACH_SAFE (g, node, &a->groups) {
        if (g->due_ms == LLONG_MAX) {
            forget_group(a, g);
        } else {
            a->groups_ms = MIN(a->groups_ms, g->due_ms);
        }
    }
}
