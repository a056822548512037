/* SPDX-License-Identifier: Apache-2.0 */
/* The page of metrics: what the agent's parts say, in the order of
 * metrics.def. */

#include <stdlib.h>

#include <timeval.h>
#include <util.h>

#include "agent-private.h"
#include "metrics.h"
#include "ofproxyd/kube/events.h"
#include "ofproxyd/pipeline/tables.h"
#include "stale.h"

/* Counters of groups are not asked for more often. */
#define ASK_EVERY_MS 5000

/* How long a page waits for them. */
#define ASK_WAIT_MS 1000

/* The same value for both families, as one round serves both. */
static void
put_families(struct ds *ds, enum metric_id id, double value)
{
    metrics_begin(ds, id);
    for (int f = 0; f < N_IP_FAMILIES; f++) {
        struct metric_label label = { "ip_family", ip_family_name(f) };

        metrics_put(ds, id, &label, 1, value);
    }
}

/* 'step' is 1 for a histogram a family, 0 for one that serves both. */
static void
put_histograms(struct ds *ds, enum metric_id id,
               const struct metric_histogram *h, int step)
{
    metrics_begin(ds, id);
    for (int f = 0; f < N_IP_FAMILIES; f++) {
        struct metric_label label = { "ip_family", ip_family_name(f) };

        metric_put_histogram(ds, metrics_name(id), &label, 1, &h[f * step]);
    }
}

static uint64_t
n_events(const struct agent *a, enum model_kind kind)
{
    struct kube_kind_stats s;

    kube_get_stats(a->kube, kind, &s);
    return s.n_events;
}

static void
put_events(const struct agent *a, enum model_kind kind, enum metric_id pending,
           enum metric_id total, struct ds *ds)
{
    uint64_t n = n_events(a, kind);

    metrics_put_one(ds, pending, (double) (n - a->metrics.confirmed[kind]));
    metrics_put_one(ds, total, (double) n);
}

static void
put_kube_proxy(const struct agent *a, const struct metrics_units *us,
               struct ds *ds)
{
    const struct metrics *m = &a->metrics;

    put_histograms(ds, METRIC_KP_SYNC, &m->sync, 0);
    put_histograms(ds, METRIC_KP_SYNC_FULL, &m->sync_full, 0);
    put_histograms(ds, METRIC_KP_SYNC_PARTIAL, &m->sync_partial, 0);
    put_families(ds, METRIC_KP_SYNC_LAST, (double) m->synced_wall_us / 1e6);
    put_families(ds, METRIC_KP_QUEUED_LAST, (double) m->queued_wall_us / 1e6);
    put_histograms(ds, METRIC_KP_PROGRAMMING, m->programming, 1);
    put_events(a, MODEL_SLICES, METRIC_KP_EP_PENDING, METRIC_KP_EP_TOTAL, ds);
    put_events(a, MODEL_SERVICES, METRIC_KP_SVC_PENDING, METRIC_KP_SVC_TOTAL,
               ds);
    metrics_put_no_local(us, ds);
}

static void
put_antrea_number(struct ds *ds, enum metric_id id, double value)
{
    struct metric_label label = { "ip_family", "v4" };

    metrics_begin(ds, id);
    metrics_put(ds, id, &label, 1, value);
    label.value = "v6";
    metrics_put(ds, id, &label, 1, value);
}

static void
put_antrea(const struct agent *a, const struct metrics_units *us,
           struct ds *ds)
{
    struct metric_label label = { "ip_family", "v4" };
    struct flowtab_stats f;

    metrics_begin(ds, METRIC_AN_SYNC);
    metric_put_histogram(ds, metrics_name(METRIC_AN_SYNC), &label, 1,
                         &a->metrics.antrea_sync);
    label.value = "v6";
    metric_put_histogram(ds, metrics_name(METRIC_AN_SYNC), &label, 1,
                         &a->metrics.antrea_sync);
    metrics_put_units(us, ds);
    put_antrea_number(ds, METRIC_AN_SERVICE_UPDATES,
                      (double) n_events(a, MODEL_SERVICES));
    put_antrea_number(ds, METRIC_AN_ENDPOINT_UPDATES,
                      (double) n_events(a, MODEL_SLICES));
    flowtab_get_stats(a->flowtab, &f);
    metrics_put_one(ds, METRIC_AN_FLOWS, (double) f.n_flows);
}

/* The API client, a value a kind. */

struct kind_metric {
    enum metric_id id;
    double (*value)(const struct kube_kind_stats *);
};

static double
api_up(const struct kube_kind_stats *s)
{
    return !strcmp(s->state, "WATCH");
}

static double
api_events(const struct kube_kind_stats *s)
{
    return (double) s->n_events;
}

static double
api_lists(const struct kube_kind_stats *s)
{
    return (double) s->n_lists;
}

static double
api_failures(const struct kube_kind_stats *s)
{
    return (double) s->n_failures;
}

static double
api_bad_objects(const struct kube_kind_stats *s)
{
    return (double) s->n_bad_objects;
}

/* A kind that the server need not have, and that was never read, is no trouble
 * to alert anybody of. */
static bool
is_told(enum metric_id id, enum model_kind kind,
        const struct kube_kind_stats *s)
{
    return id != METRIC_API_UP || !model_kind_is_optional(kind) || s->n_lists;
}

static void
put_api(const struct agent *a, struct ds *ds)
{
    static const struct kind_metric metrics[] = {
        { METRIC_API_UP, api_up },
        { METRIC_API_EVENTS, api_events },
        { METRIC_API_LISTS, api_lists },
        { METRIC_API_FAILURES, api_failures },
        { METRIC_BAD_OBJECTS, api_bad_objects },
    };

    for (size_t i = 0; i < ARRAY_SIZE(metrics); i++) {
        metrics_begin(ds, metrics[i].id);
        for (int kind = 0; kind < N_MODEL_KINDS; kind++) {
            struct metric_label label = { "kind", model_kind_name(kind) };
            struct kube_kind_stats s;

            kube_get_stats(a->kube, kind, &s);
            if (s.state && is_told(metrics[i].id, kind, &s)) {
                metrics_put(ds, metrics[i].id, &label, 1,
                            metrics[i].value(&s));
            }
        }
    }
}

static void
put_objects(const struct agent *a, struct ds *ds)
{
    struct model_counts counts;

    model_count(a->model, &counts);
    metrics_begin(ds, METRIC_OBJECTS);
    for (int kind = 0; kind < N_MODEL_KINDS; kind++) {
        struct metric_label label = { "kind", model_kind_name(kind) };
        struct kube_kind_stats s;

        kube_get_stats(a->kube, kind, &s);
        if (s.state) {
            metrics_put(ds, METRIC_OBJECTS, &label, 1,
                        (double) counts.n[kind]);
        }
    }
    metrics_put_one(ds, METRIC_ENDPOINTS, (double) counts.n_endpoints);
}

static void
put_changes(const struct flowtab_stats *f, struct ds *ds)
{
    const struct {
        const char *kind, *operation;
        uint64_t n;
    } changes[] = {
        { "flow", "put", f->n_flow_puts },
        { "flow", "delete", f->n_flow_deletes },
        { "group", "put", f->n_group_puts },
        { "group", "delete", f->n_group_deletes },
    };

    metrics_begin(ds, METRIC_CHANGES);
    for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
        const struct metric_label labels[] = {
            { "kind", changes[i].kind },
            { "operation", changes[i].operation },
        };

        metrics_put(ds, METRIC_CHANGES, labels, 2, (double) changes[i].n);
    }
}

static void
put_bridge(const struct agent *a, struct ds *ds)
{
    struct flowtab_stats f;
    struct ofconn_stats o;

    flowtab_get_stats(a->flowtab, &f);
    ofconn_get_stats(a->ofconn, &o);
    metrics_put_one(ds, METRIC_OVSDB_UP, ovsdb_state(a->ovsdb)->connected);
    metrics_put_one(ds, METRIC_OPENFLOW_UP, ofconn_is_up(a->ofconn));
    metrics_put_one(ds, METRIC_CONNECTS, (double) o.n_connects);
    metrics_put_one(ds, METRIC_BUNDLES, (double) o.n_bundles);
    metrics_put_one(ds, METRIC_BUNDLES_REFUSED, (double) o.n_bundles_refused);
    metrics_put_one(ds, METRIC_FOREIGN, (double) o.n_foreign);
    metrics_put_one(ds, METRIC_FLOWS, (double) f.n_flows);
    metrics_put_one(ds, METRIC_GROUPS, (double) f.n_groups);
    put_changes(&f, ds);
    metrics_put_one(ds, METRIC_PENDING, (double) (f.n_dirty + f.n_in_flight));
    metrics_put_one(ds, METRIC_SET_ASIDE, (double) f.n_set_aside);
    metrics_put_one(ds, METRIC_REJECTS, (double) a->n_rejects);
    metrics_put_one(ds, METRIC_REJECTS_DROPPED,
                    (double) o.n_packet_ins_dropped);
}

static void
put_event_counts(const struct agent *a, struct ds *ds)
{
    struct kube_event_stats e;

    kube_get_event_stats(a->kube, &e);
    const struct {
        const char *outcome;
        uint64_t n;
    } outcomes[] = {
        { "created", e.n_created },
        { "counted", e.n_counted },
        { "failed", e.n_failures },
        { "dropped", e.n_dropped },
    };

    metrics_begin(ds, METRIC_EVENTS);
    for (size_t i = 0; i < ARRAY_SIZE(outcomes); i++) {
        struct metric_label label = { "outcome", outcomes[i].outcome };

        metrics_put(ds, METRIC_EVENTS, &label, 1, (double) outcomes[i].n);
    }
}

/* What is taken from the switch besides flows and groups of ours. */
static void
put_forgotten(const struct agent *a, struct ds *ds)
{
    struct ofconn_stats o;
    struct stale_stats s;

    ofconn_get_stats(a->ofconn, &o);
    stale_get_stats(a->stale, &s);
    metrics_put_one(ds, METRIC_STALE, (double) s.n_requests);
    metrics_put_one(ds, METRIC_FORGOTTEN, (double) o.n_forgotten);
}

static void
put_own(const struct agent *a, struct ds *ds)
{
    const struct metric_label version = { "version", OFPROXYD_VERSION };
    struct health_state health;

    metrics_begin(ds, METRIC_BUILD);
    metrics_put(ds, METRIC_BUILD, &version, 1, 1);
    metrics_put_one(ds, METRIC_IN_SYNC, agent_in_sync(a));
    agent_get_health(a, &health);
    metrics_begin(ds, METRIC_HEALTHY);
    for (int f = 0; f < N_IP_FAMILIES; f++) {
        struct metric_label label = { "ip_family", ip_family_name(f) };

        metrics_put(ds, METRIC_HEALTHY, &label, 1, health.families[f].healthy);
    }
    put_api(a, ds);
    put_objects(a, ds);
    put_bridge(a, ds);
    put_forgotten(a, ds);
    put_event_counts(a, ds);
    metrics_put_one(ds, METRIC_ROUNDS, (double) a->n_rounds);
    metrics_begin(ds, METRIC_TURN);
    metric_put_histogram(ds, metrics_name(METRIC_TURN), NULL, 0,
                         &a->metrics.turn);
}

/* Counters of groups. */

static int
compare_groups(const void *a_, const void *b_)
{
    const struct ofconn_group_stats *a = a_, *b = b_;

    return (a->group_id > b->group_id) - (a->group_id < b->group_id);
}

static void
take(struct agent *a)
{
    struct metrics *m = &a->metrics;
    size_t n;
    struct ofconn_group_stats *groups = ofconn_take_group_stats(a->ofconn, &n);

    if (groups) {
        qsort(groups, n, sizeof *groups, compare_groups);
        free(m->groups);
        m->groups = groups;
        m->n_groups = n;
    }
}

void
agent_count_turn(struct agent *a, long long int us)
{
    metrics_turn(&a->metrics, us);
}

bool
agent_metrics_ready(const struct agent *a)
{
    return !ofconn_awaits_group_stats(a->ofconn)
           || time_msec() >= a->metrics.asked_ms + ASK_WAIT_MS;
}

bool
agent_format_metrics(struct agent *a, struct ds *ds)
{
    struct metrics *m = &a->metrics;
    struct metrics_units us;

    if (!ofconn_awaits_group_stats(a->ofconn)
        && (!m->asked_ms || time_msec() >= m->asked_ms + ASK_EVERY_MS)) {
        m->asked_ms = time_msec();
        ofconn_ask_group_stats(a->ofconn);
    }
    if (!agent_metrics_ready(a)) {
        return false;
    }
    take(a);
    metrics_units_init(&us, a);
    put_kube_proxy(a, &us, ds);
    put_antrea(a, &us, ds);
    put_own(a, ds);
    metrics_put_services(&us, ds);
    metrics_put_multicluster(a, ds);
    metrics_units_uninit(&us);
    metrics_put_process(ds, m->start_ns);
    return true;
}
