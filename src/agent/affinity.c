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

/* A flow that is learned after a review is not due before the next one: a long
 * timeout is more than 18 hours. */
#define HOUR_MS (3600 * 1000LL)

/* A group whose flows end here. */
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
        .hour_ms = LLONG_MIN,
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

    return a->has_long ? MIN(due_ms, a->hour_ms) : due_ms;
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
    a->hour_ms = now_ms + HOUR_MS;
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

int
affinity_judge(struct affinity *a, uint32_t group_id, uint32_t idle_s,
               uint32_t timeout_s, long long int now_ms)
{
    if (idle_s >= timeout_s) {
        return -1;
    }
    if (timeout_s <= PIPE_AFFINITY_MAX_S) {
        return timeout_s;
    }
    note_due(a, group_id, now_ms + (timeout_s - idle_s) * 1000LL);
    return 0;
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
