/* SPDX-License-Identifier: Apache-2.0 */

/* Metrics of other clusters. */

#include <util.h>

#include "agent-private.h"
#include "metrics.h"

struct walk {
    const struct agent *agent;
    enum pipe_mc_role role;
    enum metric_id id;
    struct ds *ds;
};

static void
put_peer(const struct mc_peer *peer, void *walk_)
{
    static const char *const directions[] = {
        [MCCOUNT_SENT] = "sent",
        [MCCOUNT_RECEIVED] = "received",
    };
    const struct walk *w = walk_;

    for (int dir = 0; dir < N_MCCOUNT_DIRS; dir++) {
        struct mccount_total total =
            mccount_get(w->agent->mccount, peer->owner, dir);
        const struct metric_label labels[] = {
            { "cluster", peer->name }, /* Ids may be of two. */
            { "direction", directions[dir] },
        };

        if (dir == MCCOUNT_SENT || w->role == PIPE_MC_GATEWAY) {
            metrics_put(w->ds, w->id, labels, ARRAY_SIZE(labels),
                        (double) (w->id == METRIC_MC_PACKETS ? total.n_packets
                                                             : total.n_bytes));
        }
    }
}

void
metrics_put_multicluster(const struct agent *a, struct ds *ds)
{
    struct walk w = { .agent = a, .ds = ds };
    struct mc_state state;

    if (!mc_get_state(a->mc, &state)) {
        return;
    }
    w.role = state.role;
    metrics_put_one(ds, METRIC_MC_GATEWAY, state.role == PIPE_MC_GATEWAY);
    metrics_put_one(ds, METRIC_MC_CLUSTERS, (double) state.n_clusters);
    metrics_put_one(ds, METRIC_MC_LEFT_OUT, (double) state.n_left_out);
    w.id = METRIC_MC_PACKETS;
    metrics_begin(ds, w.id);
    mc_for_each(a->mc, put_peer, &w);
    w.id = METRIC_MC_BYTES;
    metrics_begin(ds, w.id);
    mc_for_each(a->mc, put_peer, &w);
}
