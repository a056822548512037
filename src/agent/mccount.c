/* SPDX-License-Identifier: Apache-2.0 */

/* The two tables with flows of clusters' are read one after the other: to read
 * all at once the switch would go through the flows of all Services. */

#include "mccount.h"

#include <stdlib.h>

#include <openvswitch/hmap.h>
#include <openvswitch/poll-loop.h>

#include <hash.h>
#include <timeval.h>
#include <util.h>

#include "ofproxyd/flow/cookie.h"
#include "ofproxyd/pipeline/tables.h"

struct total {
    struct hmap_node node; /* In struct mccount's 'totals', by 'owner'. */
    uint64_t owner;
    struct mccount_total dirs[N_MCCOUNT_DIRS];
};

/* Of one direction. */
struct reading {
    struct ofconn_flow_stats *flows; /* Ordered. */
    size_t n;
    long long int ms; /* When it came, or 0. */
};

struct mccount {
    struct hmap totals;
    struct reading last[N_MCCOUNT_DIRS];
    enum mccount_dir next; /* To be read, */
    long long int next_ms; /* then. */
};

struct mccount *
mccount_create(void)
{
    struct mccount *c = xzalloc(sizeof *c);

    hmap_init(&c->totals);
    return c;
}

void
mccount_destroy(struct mccount *c)
{
    struct total *t;

    if (!c) {
        return;
    }
    HMAP_FOR_EACH_POP (t, node, &c->totals) {
        free(t);
    }
    hmap_destroy(&c->totals);
    for (int dir = 0; dir < N_MCCOUNT_DIRS; dir++) {
        free(c->last[dir].flows);
    }
    free(c);
}

/* Totals. */

static struct total *
find_total(const struct mccount *c, uint64_t owner)
{
    struct total *t;

    HMAP_FOR_EACH_WITH_HASH (t, node, hash_uint64(owner), &c->totals) {
        if (t->owner == owner) {
            return t;
        }
    }
    return NULL;
}

static struct total *
get_total(struct mccount *c, uint64_t owner)
{
    struct total *t = find_total(c, owner);

    if (!t) {
        t = xzalloc(sizeof *t);
        t->owner = owner;
        hmap_insert(&c->totals, &t->node, hash_uint64(owner));
    }
    return t;
}

struct mccount_total
mccount_get(const struct mccount *c, uint64_t owner, enum mccount_dir dir)
{
    const struct total *t = find_total(c, owner);

    return t ? t->dirs[dir] : (struct mccount_total){ 0, 0 };
}

/* Clusters that have left are forgotten. */
static void
prune(struct mccount *c, const struct mc *mc)
{
    struct total *t;

    HMAP_FOR_EACH_SAFE (t, node, &c->totals) {
        if (!mc_find_owner(mc, t->owner)) {
            hmap_remove(&c->totals, &t->node);
            free(t);
        }
    }
}

/* Readings. */

static int
compare_flows(const void *a_, const void *b_)
{
    const struct ofconn_flow_stats *a = a_, *b = b_;

    return (a->id > b->id) - (a->id < b->id);
}

/* Adds what 'f' has counted since it was read last, whosever it was then. */
static void
add_flow(struct mccount *c, enum mccount_dir dir,
         const struct ofconn_flow_stats *f)
{
    const struct reading *last = &c->last[dir];
    struct mccount_total *sum = &get_total(c, f->cookie)->dirs[dir];
    const struct ofconn_flow_stats *was =
        last->n ? bsearch(f, last->flows, last->n, sizeof *f, compare_flows)
                : NULL;

    /* One that has less was written anew. */
    if (was && was->n_packets <= f->n_packets && was->n_bytes <= f->n_bytes) {
        sum->n_packets += f->n_packets - was->n_packets;
        sum->n_bytes += f->n_bytes - was->n_bytes;
    } else {
        sum->n_packets += f->n_packets;
        sum->n_bytes += f->n_bytes;
    }
}

void
mccount_add(struct mccount *c, enum mccount_dir dir,
            struct ofconn_flow_stats *flows, size_t n, long long int now)
{
    struct reading *last = &c->last[dir];

    for (size_t i = 0; i < n && last->ms; i++) {
        add_flow(c, dir, &flows[i]);
    }
    if (n) {
        qsort(flows, n, sizeof *flows, compare_flows);
    }
    free(last->flows);
    *last = (struct reading){ flows, n, now };
}

static bool
can_read(const struct mc *mc, const struct ofconn *ofconn)
{
    struct mc_state state;

    return mc_get_state(mc, &state) && state.n_clusters
           && ofconn_is_up(ofconn);
}

void
mccount_run(struct mccount *c, const struct mc *mc, struct ofconn *ofconn)
{
    static const uint8_t tables[N_MCCOUNT_DIRS] = {
        [MCCOUNT_SENT] = PIPE_T_L3_FORWARDING,
        [MCCOUNT_RECEIVED] = PIPE_T_CLASSIFIER,
    };
    struct ofconn_flow_stats *flows;
    size_t n;

    if (ofconn_take_flow_stats(ofconn, &flows, &n)) {
        mccount_add(c, c->next, flows, n, time_msec());
        if (c->next == MCCOUNT_SENT) {
            c->next = MCCOUNT_RECEIVED;
            c->next_ms = 0;
        } else {
            c->next = MCCOUNT_SENT;
            prune(c, mc);
        }
    }
    if (can_read(mc, ofconn) && time_msec() >= c->next_ms) {
        c->next_ms = time_msec() + MCCOUNT_EVERY_MS;
        ofconn_ask_flow_stats(ofconn, tables[c->next],
                              cookie_make(COOKIE_MULTICLUSTER, 0),
                              ~(uint64_t) UINT32_MAX);
    }
}

void
mccount_wait(const struct mccount *c, const struct mc *mc,
             const struct ofconn *ofconn)
{
    if (can_read(mc, ofconn)) {
        poll_timer_wait_until(c->next_ms);
    }
}

long long int
mccount_read_ms(const struct mccount *c)
{
    return c->last[MCCOUNT_RECEIVED].ms;
}
