/* SPDX-License-Identifier: Apache-2.0 */
/* Metrics of other clusters. */

#include <util.h>

#include "agent-private.h"
#include "metrics.h"

struct walk {
    const struct metrics *metrics;
    struct ds *ds;
    enum metric_id id;
};

static void
put_cluster(const char *cluster_id, uint64_t owner, void *walk_)
{
    const struct walk *w = walk_;
    const struct metric_label label = { "cluster", cluster_id };
    uint64_t sum = 0;

    for (size_t i = 0; i < w->metrics->n_flows; i++) {
        const struct ofconn_flow_stats *f = &w->metrics->flows[i];

        if (f->cookie == owner) {
            sum += w->id == METRIC_MC_PACKETS ? f->n_packets : f->n_bytes;
        }
    }
    metrics_put(w->ds, w->id, &label, 1, (double) sum);
}

void
metrics_put_multicluster(const struct agent *a, struct ds *ds)
{
    struct walk w = { .metrics = &a->metrics, .ds = ds };
    struct mc_counts counts;

    if (!mc_count(a->mc, &counts)) {
        return;
    }
    metrics_put_one(ds, METRIC_MC_GATEWAY, mc_role(a->mc) == PIPE_MC_GATEWAY);
    metrics_put_one(ds, METRIC_MC_CLUSTERS, (double) counts.n_clusters);
    metrics_put_one(ds, METRIC_MC_LEFT_OUT, (double) counts.n_left_out);
    w.id = METRIC_MC_PACKETS;
    metrics_begin(ds, w.id);
    mc_for_each(a->mc, put_cluster, &w);
    w.id = METRIC_MC_BYTES;
    metrics_begin(ds, w.id);
    mc_for_each(a->mc, put_cluster, &w);
}
