/* SPDX-License-Identifier: Apache-2.0 */
/* What is counted for Prometheus only. */

#include "metrics.h"

#include <stdlib.h>
#include <string.h>

#include <util.h>

/* kube-proxy's: 1 ms times 2 to the n. */
static const double sync_bounds[] = {
    0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064,  0.128,
    0.256, 0.512, 1.024, 2.048, 4.096, 8.192, 16.384,
};

/* Those of Prometheus' Go library, which Antrea takes as they are. */
static const double default_bounds[] = {
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
};

static const double turn_bounds[] = {
    0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3,
};

/* kube-proxy's: 0.25, 0.5, then by 1, by 5 and by 30. */
#define ONES(T) T##0, T##1, T##2, T##3, T##4, T##5, T##6, T##7, T##8, T##9
static const double programming_bounds[] = {
    0.25, 0.5, 1,       2,       3,       4,       5,       6,   7,
    8,    9,   ONES(1), ONES(2), ONES(3), ONES(4), ONES(5), 60,  65,
    70,   75,  80,      85,      90,      95,      100,     105, 110,
    115,  120, 150,     180,     210,     240,     270,     300,
};
#undef ONES

void
metrics_init(struct metrics *m, int64_t start_ns)
{
    memset(m, 0, sizeof *m);
    m->start_ns = start_ns;
    metric_histogram_init(&m->sync, sync_bounds, ARRAY_SIZE(sync_bounds));
    metric_histogram_init(&m->sync_full, sync_bounds, ARRAY_SIZE(sync_bounds));
    metric_histogram_init(&m->sync_partial, sync_bounds,
                          ARRAY_SIZE(sync_bounds));
    metric_histogram_init(&m->antrea_sync, default_bounds,
                          ARRAY_SIZE(default_bounds));
    metric_histogram_init(&m->turn, turn_bounds, ARRAY_SIZE(turn_bounds));
    for (int f = 0; f < N_IP_FAMILIES; f++) {
        metric_histogram_init(&m->programming[f], programming_bounds,
                              ARRAY_SIZE(programming_bounds));
    }
}

void
metrics_uninit(struct metrics *m)
{
    metric_histogram_uninit(&m->sync);
    metric_histogram_uninit(&m->sync_full);
    metric_histogram_uninit(&m->sync_partial);
    metric_histogram_uninit(&m->antrea_sync);
    metric_histogram_uninit(&m->turn);
    for (int f = 0; f < N_IP_FAMILIES; f++) {
        metric_histogram_uninit(&m->programming[f]);
    }
    free(m->triggers);
    free(m->groups);
}

void
metrics_read(struct metrics *m, long long int now_us, int64_t wall_us)
{
    if (!m->read_us) {
        m->read_us = now_us;
        m->queued_wall_us = wall_us;
    }
}

/* While the switch confirms nothing, the list is bounded as the model's is. */
static void
add_triggers(struct metrics *m, struct model_trigger *triggers, size_t n)
{
    size_t n_new = 0;

    for (size_t i = 0; i < n; i++) {
        if (triggers[i].ns > m->start_ns) {
            triggers[n_new++] = triggers[i];
        }
    }
    n_new = MIN(n_new, MODEL_TRIGGERS_MAX - m->n_triggers);
    if (n_new) {
        m->triggers = xrealloc(m->triggers,
                               (m->n_triggers + n_new) * sizeof *m->triggers);
        memcpy(m->triggers + m->n_triggers, triggers,
               n_new * sizeof *triggers);
        m->n_triggers += n_new;
    }
    free(triggers);
}

void
metrics_taken(struct metrics *m, const uint64_t n_events[N_MODEL_KINDS],
              struct model_trigger *triggers, size_t n)
{
    if (!m->sent_us) {
        m->sent_us = m->read_us;
    }
    m->read_us = 0;
    memcpy(m->taken, n_events, sizeof m->taken);
    add_triggers(m, triggers, n);
}

void
metrics_confirmed(struct metrics *m, long long int now_us, int64_t wall_us)
{
    if (m->sent_us) {
        double s = MAX(now_us - m->sent_us, 0) / 1e6;

        metric_histogram_observe(&m->sync, s);
        metric_histogram_observe(&m->antrea_sync, s);
        metric_histogram_observe(m->synced ? &m->sync_partial : &m->sync_full,
                                 s);
        m->synced = true;
        m->synced_wall_us = wall_us;
        m->sent_us = 0;
        memcpy(m->confirmed, m->taken, sizeof m->confirmed);
    }
    for (size_t i = 0; i < m->n_triggers; i++) {
        double s = (wall_us - m->triggers[i].ns / 1000) / 1e6;

        metric_histogram_observe(&m->programming[m->triggers[i].family],
                                 MAX(s, 0));
    }
    free(m->triggers);
    m->triggers = NULL;
    m->n_triggers = 0;
}

void
metrics_turn(struct metrics *m, long long int us)
{
    metric_histogram_observe(&m->turn, us / 1e6);
}

/* The page. */

const char *
metrics_name(enum metric_id id)
{
    static const char *const names[] = {
#define METRIC(SYM, TYPE, NAME, HELP) [METRIC_##SYM] = NAME,
#include "metrics.def"
    };

    return names[id];
}

void
metrics_begin(struct ds *ds, enum metric_id id)
{
    static const struct {
        enum metric_type type;
        const char *help;
    } metrics[] = {
#define METRIC(SYM, TYPE, NAME, HELP) [METRIC_##SYM] = { METRIC_##TYPE, HELP },
#include "metrics.def"
    };

    metric_begin(ds, metrics_name(id), metrics[id].type, metrics[id].help);
}

void
metrics_put(struct ds *ds, enum metric_id id,
            const struct metric_label *labels, size_t n, double value)
{
    metric_put(ds, metrics_name(id), labels, n, value);
}

void
metrics_put_one(struct ds *ds, enum metric_id id, double value)
{
    metrics_begin(ds, id);
    metrics_put(ds, id, NULL, 0, value);
}
