/* SPDX-License-Identifier: Apache-2.0 */
/* Metrics of Service ports. */

#include <stdlib.h>

#include <util.h>

#include "agent-private.h"
#include "metrics.h"
#include "ofproxyd/model/endpoints.h"

/* Each metric is one walk: the samples of a family stand together. */
struct walk {
    const struct agent *agent;
    struct ds *ds;
    enum metric_id id;
};

static void
add_unit(const struct unit *u, void *units_)
{
    struct metrics_units *us = units_;

    if (us->n == us->allocated) {
        us->units = x2nrealloc(us->units, &us->allocated, sizeof *us->units);
    }
    us->units[us->n++] = u;
}

void
metrics_units_init(struct metrics_units *us, const struct agent *a)
{
    *us = (struct metrics_units){ .agent = a };
    services_for_each(a->services, NULL, NULL, add_unit, us);
}

void
metrics_units_uninit(struct metrics_units *us)
{
    free(us->units);
}

static void
for_each(const struct metrics_units *us,
         void (*cb)(const struct unit *, void *aux), void *aux)
{
    for (size_t i = 0; i < us->n; i++) {
        cb(us->units[i], aux);
    }
}

/* Counters. */

static const struct ofconn_group_stats *
find_group(const struct metrics *m, uint32_t group_id)
{
    size_t low = 0, high = m->n_groups;

    while (low < high) {
        size_t i = (low + high) / 2;

        if (m->groups[i].group_id < group_id) {
            low = i + 1;
        } else {
            high = i;
        }
    }
    return low < m->n_groups && m->groups[low].group_id == group_id
               ? &m->groups[low]
               : NULL;
}

/* Appends one sample for a policy, if 'value' isn't negative. */
static void
put_unit(const struct walk *w, const struct unit *u, bool local, double value)
{
    const struct metric_label labels[] = {
        { "namespace", u->ns },
        { "service", u->name },
        { "port", u->port_name },
        { "protocol", proto_name(u->proto) },
        { "ip_family", ip_family_name(u->family) },
        { "traffic_policy", local ? "Local" : "Cluster" },
    };

    if (value >= 0) {
        metrics_put(w->ds, w->id, labels, ARRAY_SIZE(labels), value);
    }
}

static double
counter_of(const struct walk *w, const struct unit *u, bool local)
{
    const struct ofconn_group_stats *g =
        find_group(&w->agent->metrics, group_id_make(u->object_id, local, 0));

    return !g                                ? -1
           : w->id == METRIC_SVC_CONNECTIONS ? (double) g->n_packets
                                             : (double) g->n_bytes;
}

static void
put_counters(const struct unit *u, void *walk_)
{
    const struct walk *w = walk_;

    put_unit(w, u, false, counter_of(w, u, false));
    put_unit(w, u, true, counter_of(w, u, true));
}

static void
put_endpoints(const struct unit *u, void *walk_)
{
    put_unit(walk_, u, false, u->n_cluster);
    put_unit(walk_, u, true, u->n_local ? (double) u->n_local : -1);
}

void
metrics_put_services(const struct metrics_units *us, struct ds *ds)
{
    struct walk w = { .agent = us->agent, .ds = ds };

    w.id = METRIC_SVC_CONNECTIONS;
    metrics_begin(ds, w.id);
    for_each(us, put_counters, &w);
    w.id = METRIC_SVC_BYTES;
    metrics_begin(ds, w.id);
    for_each(us, put_counters, &w);
    w.id = METRIC_SVC_ENDPOINTS;
    metrics_begin(ds, w.id);
    for_each(us, put_endpoints, &w);
}

/* Numbers. */

struct sums {
    const struct agent *agent;
    size_t n_units[N_IP_FAMILIES], n_endpoints[N_IP_FAMILIES];
    size_t n_conflicts;
    size_t internal[N_IP_FAMILIES], external[N_IP_FAMILIES];
};

static void
count_unit(const struct unit *u, void *sums_)
{
    struct sums *s = sums_;

    s->n_units[u->family]++;
    s->n_endpoints[u->family] += MAX(u->n_cluster, u->n_local);
    s->n_conflicts += u->conflict;
}

void
metrics_put_units(const struct metrics_units *us, struct ds *ds)
{
    static const char *const families[] = { [IP_V4] = "v4", [IP_V6] = "v6" };
    struct sums s = { .agent = us->agent };

    for_each(us, count_unit, &s);
    metrics_begin(ds, METRIC_AN_SERVICES);
    for (int f = 0; f < N_IP_FAMILIES; f++) {
        struct metric_label label = { "ip_family", families[f] };

        metrics_put(ds, METRIC_AN_SERVICES, &label, 1, s.n_units[f]);
    }
    metrics_begin(ds, METRIC_AN_ENDPOINTS);
    for (int f = 0; f < N_IP_FAMILIES; f++) {
        struct metric_label label = { "ip_family", families[f] };

        metrics_put(ds, METRIC_AN_ENDPOINTS, &label, 1, s.n_endpoints[f]);
    }
    metrics_put_one(ds, METRIC_CONFLICTS, s.n_conflicts);
}

/* The Service's port of this name; a unit may have outlived it. */
static const struct svc_port *
find_port(const struct svc *svc, const struct unit *u)
{
    for (size_t i = 0; i < svc->n_ports; i++) {
        if (svc->ports[i].proto == u->proto
            && !strcmp(svc->ports[i].name, u->port_name)) {
            return &svc->ports[i];
        }
    }
    return NULL;
}

static void
count_no_local(const struct unit *u, void *sums_)
{
    struct sums *s = sums_;
    const struct model_service *ms;
    const struct svc_port *port;

    s->internal[u->family] += u->verdict == PIPE_DROP;
    if (u->n_local) {
        return;
    }
    ms = model_find_service(s->agent->model, u->ns, u->name);
    if (!ms || !ms->svc || ms->svc->external_policy != SVC_POLICY_LOCAL
        || ms->svc->type == SVC_CLUSTER_IP) {
        return;
    }
    port = find_port(ms->svc, u);
    s->external[u->family] +=
        port && u->n_cluster && svc_port_is_external(ms->svc, port, u->family);
}

void
metrics_put_no_local(const struct metrics_units *us, struct ds *ds)
{
    struct sums s = { .agent = us->agent };

    for_each(us, count_no_local, &s);
    metrics_begin(ds, METRIC_KP_NO_LOCAL);
    for (int f = 0; f < N_IP_FAMILIES; f++) {
        struct metric_label labels[] = {
            { "ip_family", ip_family_name(f) },
            { "traffic_policy", "internal" },
        };

        metrics_put(ds, METRIC_KP_NO_LOCAL, labels, 2, s.internal[f]);
        labels[1].value = "external";
        metrics_put(ds, METRIC_KP_NO_LOCAL, labels, 2, s.external[f]);
    }
}
