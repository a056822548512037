/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_AGENT_METRICS_H
#define OFPROXYD_AGENT_METRICS_H 1

/* What is counted only to be told to Prometheus, and the page that tells it.
 *
 * The agent says when something happened; durations of "us" are of a monotonic
 * clock, times of "ns" or "wall" count since 1970. */

#include "ofproxyd/base/metric.h"
#include "ofproxyd/model/model.h"

enum metric_id {
#define METRIC(SYM, TYPE, NAME, HELP) METRIC_##SYM,
#include "metrics.def"
    N_METRICS
};

struct metrics {
    int64_t start_ns;
    struct metric_histogram sync, sync_full, sync_partial; /* kube-proxy's. */
    struct metric_histogram antrea_sync;
    struct metric_histogram programming[N_IP_FAMILIES];
    struct metric_histogram turn;

    long long int read_us; /* When the oldest change was read that no round
                            * has taken, or 0... */
    long long int sent_us; /* ...and that was taken but isn't confirmed. */
    bool synced;           /* Once. */
    int64_t queued_wall_us, synced_wall_us; /* 0: never. */

    /* Triggers of what is in the rounds that aren't confirmed. */
    struct model_trigger *triggers;
    size_t n_triggers;

    /* Events of each kind: when the last round was made, and in the last that
     * was confirmed. */
    uint64_t taken[N_MODEL_KINDS], confirmed[N_MODEL_KINDS];

    /* Counters of groups, sorted by id. */
    struct ofconn_group_stats *groups;
    size_t n_groups;
    long long int asked_ms; /* When they were asked for last, or 0. */
};

/* 'start_ns' is now. */
void metrics_init(struct metrics *, int64_t start_ns);
void metrics_uninit(struct metrics *);

/* A change was read. */
void metrics_read(struct metrics *, long long int now_us, int64_t wall_us);

/* A round has taken all that was read so far: events of each kind up to
 * 'n_events'.  Takes the array of triggers, which may be NULL.  Triggers from
 * before the start count for nothing: nobody waited for them here. */
void metrics_taken(struct metrics *, const uint64_t n_events[N_MODEL_KINDS],
                   struct model_trigger *, size_t n);

/* The switch has all that rounds have taken. */
void metrics_confirmed(struct metrics *, long long int now_us,
                       int64_t wall_us);

/* A turn of the loop took so long. */
void metrics_turn(struct metrics *, long long int us);

/* Begins a metric; the name of it; a sample with labels, or without. */
void metrics_begin(struct ds *, enum metric_id);
const char *metrics_name(enum metric_id);
void metrics_put(struct ds *, enum metric_id, const struct metric_label *,
                 size_t n, double value);
void metrics_put_one(struct ds *, enum metric_id, double value);

struct agent;
struct unit;

/* All Service ports, gone through once for the whole page: sorting them costs
 * as much as writing them. */
struct metrics_units {
    const struct agent *agent;
    const struct unit **units;
    size_t n, allocated;
};

/* svcmetrics.c: the ports that are there, until the agent changes. */
void metrics_units_init(struct metrics_units *, const struct agent *);
void metrics_units_uninit(struct metrics_units *);
/* What is told of each Service port. */
void metrics_put_services(const struct metrics_units *, struct ds *);
/* kube-proxy's number of ports that a policy Local leaves without
 * endpoints. */
void metrics_put_no_local(const struct metrics_units *, struct ds *);
/* Antrea's numbers of Services and endpoints, and of conflicts. */
void metrics_put_units(const struct metrics_units *, struct ds *);

/* mcmetrics.c: what is told of other clusters, nothing without
 * multicluster. */
void metrics_put_multicluster(const struct agent *, struct ds *);

/* process.c: what is told of the process. */
void metrics_put_process(struct ds *, int64_t start_ns);

#endif /* src/agent/metrics.h */
