/* SPDX-License-Identifier: Apache-2.0 */

/* What the agent knows, as text for an operator. */

#include <errno.h>

#include <openvswitch/ofp-table.h>
#include <openvswitch/vlog.h>

#include <timeval.h>
#include <util.h>

#include "agent-private.h"
#include "notice.h"
#include "ofproxyd/pipeline/tables.h"

VLOG_DEFINE_THIS_MODULE(report);

static const char *
verdict_name(enum pipe_verdict verdict)
{
    switch (verdict) {
    case PIPE_SELECT: return "select";
    case PIPE_REJECT: return "reject";
    case PIPE_DROP: return "drop";
    }
    return "?";
}

static void
format_pod(const struct agent *a, uint32_t ofport, struct ds *ds)
{
    const struct ovsdb_state *db = ovsdb_state(a->ovsdb);

    ds_put_format(ds, "pod on port %" PRIu32, ofport);
    for (size_t i = 0; i < db->n_pods; i++) {
        if (db->pods[i].ofport == ofport && db->pods[i].name[0]) {
            ds_put_format(ds, " (%s/%s)", db->pods[i].ns, db->pods[i].name);
        }
    }
}

void
report_format_owner(const struct agent *a, uint64_t owner, struct ds *ds)
{
    const struct unit *u = services_find_owner(a->services, owner);
    const struct clusterip *c = services_find_cluster_ip(a->services, owner);

    if (u) {
        ds_put_cstr(ds, "Service ");
        unit_format(u, ds);
    } else if (c) {
        ds_put_cstr(ds, "Service ");
        clusterip_format(c, ds);
    } else if (!cookie_is_ours(owner)) {
        ds_put_cstr(ds, "leftover");
    } else if (net_find_owner(a->net, owner)) {
        ds_put_format(ds, "Node %s", net_find_owner(a->net, owner));
    } else if (mc_find_owner(a->mc, owner)) {
        ds_put_format(ds, "ClusterInfoImport %s", mc_find_owner(a->mc, owner));
    } else if (cookie_category(owner) == COOKIE_POD) {
        format_pod(a, cookie_object_id(owner), ds);
    } else {
        ds_put_cstr(ds, "pipeline");
    }
}

/* Services. */

struct format_ctx {
    const struct agent *agent;
    struct ds *ds;
};

static void
format_unit(const struct unit *u, void *ctx_)
{
    struct format_ctx *ctx = ctx_;
    const struct flowtab_set_aside *aside =
        flowtab_find_set_aside(ctx->agent->flowtab, unit_owner(u));
    char ip[IP_STRLEN];
    char *service = xasprintf("%s/%s", u->ns, u->name);

    ds_put_format(ctx->ds,
                  "%-32s %-12s %-4s %s %5u %-39s %7u %7u %5" PRIu32 " %s%s\n",
                  service, u->port_name[0] ? u->port_name : "-",
                  proto_name(u->proto), ip_family_name(u->family), u->port,
                  ip_to_string(&u->ip, ip), u->object_id, u->n_cluster,
                  u->n_local, verdict_name(u->verdict),
                  aside         ? " SET-ASIDE"
                  : u->conflict ? " CONFLICT"
                                : "");
    free(service);
}

void
agent_format_services(const struct agent *a, struct ds *ds)
{
    struct format_ctx ctx = { a, ds };

    ds_put_format(ds, "%-32s %-12s %-4s %s %5s %-39s %7s %7s %5s %s\n",
                  "SERVICE", "PORT", "PROT", "FAM ", "NUM", "ADDRESS", "ID",
                  "CLUSTER", "LOCAL", "VERDICT");
    services_for_each(a->services, NULL, NULL, format_unit, &ctx);
}

/* Endpoints. */

static void
format_list(const char *title, const struct eps_list *list, struct ds *ds)
{
    char ip[IP_STRLEN];

    ds_put_format(ds, "  %s: %zu\n", title, list->n);
    for (size_t i = 0; i < list->n; i++) {
        const struct eps *e = &list->eps[i];
        bool v6 = ip_family(&e->ip) == IP_V6;

        ds_put_format(ds, "    %s%s%s:%u%s\n", v6 ? "[" : "",
                      ip_to_string(&e->ip, ip), v6 ? "]" : "", e->port,
                      e->local    ? " (local)"
                      : e->nested ? " (a cluster IP)"
                                  : "");
    }
}

int
agent_format_endpoints(const struct agent *a, const char *ns, const char *name,
                       struct ds *ds)
{
    const struct model_service *ms = model_find_service(a->model, ns, name);
    struct eps_place here = services_place(a->services);

    if (!ms || !ms->svc) {
        return ENOENT;
    }
    for (size_t i = 0; i < ms->svc->n_ports; i++) {
        const struct svc_port *port = &ms->svc->ports[i];

        for (int f = 0; f < N_IP_FAMILIES; f++) {
            struct eps_choice choice;

            if (ip_is_none(&ms->svc->cluster_ips[f])) {
                continue;
            }
            eps_choose(ms, port, f, &here, &choice);
            ds_put_format(ds, "%s/%s:%s/%s (%s)%s\n", ns, name, port->name,
                          proto_name(port->proto), ip_family_name(f),
                          choice.has_any ? "" : " no usable endpoint");
            if (choice.uses_cluster) {
                format_list("policy Cluster", &choice.cluster, ds);
            }
            if (choice.uses_local) {
                format_list("policy Local", &choice.local, ds);
            }
            eps_choice_uninit(&choice);
        }
    }
    return 0;
}

/* Flows. */

struct flows_ctx {
    const struct agent *agent;
    struct ofputil_table_map tables;
    struct ds *ds;
};

static void
format_item(const struct fitem *want, const struct fitem *have, void *ctx_)
{
    struct flows_ctx *ctx = ctx_;

    ds_put_cstr(ctx->ds, !have                      ? "missing   "
                         : fitem_equals(want, have) ? "installed "
                                                    : "differs   ");
    fitem_format(want, &ctx->tables, ctx->ds);
    ds_put_char(ctx->ds, '\n');
}

static void
format_unit_flows(const struct unit *u, void *ctx_)
{
    struct flows_ctx *ctx = ctx_;

    unit_format(u, ctx->ds);
    ds_put_char(ctx->ds, '\n');
    flowtab_for_each(ctx->agent->flowtab, unit_owner(u), format_item, ctx);
}

static void
format_cluster_ip_flows(const struct clusterip *c, struct flows_ctx *ctx)
{
    clusterip_format(c, ctx->ds);
    ds_put_char(ctx->ds, '\n');
    flowtab_for_each(ctx->agent->flowtab, clusterip_owner(c), format_item,
                     ctx);
}

int
agent_format_flows(const struct agent *a, const char *ns, const char *name,
                   struct ds *ds)
{
    const struct model_service *ms = model_find_service(a->model, ns, name);
    struct flows_ctx ctx = { .agent = a, .ds = ds };

    if (!ms || !ms->svc) {
        return ENOENT;
    }
    ofputil_table_map_init(&ctx.tables);
    for (size_t i = 0; i < n_pipe_tables; i++) {
        ofputil_table_map_put(&ctx.tables, pipe_tables[i].id,
                              pipe_tables[i].name);
    }
    services_for_each(a->services, ns, name, format_unit_flows, &ctx);
    for (int f = 0; f < N_IP_FAMILIES; f++) {
        const struct clusterip *c =
            services_cluster_ip(a->services, ns, name, f);

        if (c) {
            format_cluster_ip_flows(c, &ctx);
        }
    }
    ofputil_table_map_destroy(&ctx.tables);
    return 0;
}

/* Other nodes. */

void
agent_format_nodes(const struct agent *a, struct ds *ds)
{
    net_format_nodes(a->net, ds);
}

/* State of synchronization. */

static double
seconds_since(long long int ms)
{
    return (double) (time_msec() - ms) / 1000.0;
}

static void
format_kinds(const struct agent *a, struct ds *ds)
{
    for (int kind = 0; kind < N_MODEL_KINDS; kind++) {
        struct kube_kind_stats s;

        kube_get_stats(a->kube, kind, &s);
        if (!s.state) {
            continue;
        }
        ds_put_format(ds,
                      "%ss: %s %s for %.1f s; %" PRIu64 " lists, %" PRIu64
                      " watches, %" PRIu64 " events, %" PRIu64
                      " failures, %" PRIu64 " bad objects; last list %" PRIu64
                      " objects, %" PRIu64 " bytes, decoded in %" PRIu64
                      " us\n",
                      model_kind_name(kind),
                      model_kind_synced(a->model, kind) ? "listed,"
                                                        : "not listed,",
                      s.state, seconds_since(s.state_since_ms), s.n_lists,
                      s.n_watches, s.n_events, s.n_failures, s.n_bad_objects,
                      s.list_objects, s.list_bytes, s.list_decode_us);
        if (s.last_error[0]) {
            ds_put_format(ds, "  failing: %s\n", s.last_error);
        }
    }
}

static void
format_set_aside(const struct flowtab_set_aside *s, void *ctx_)
{
    struct format_ctx *ctx = ctx_;

    ds_put_cstr(ctx->ds, "set aside: ");
    report_format_owner(ctx->agent, s->owner, ctx->ds);
    ds_put_format(ctx->ds, ": %s, for %.1f s, %u tries, next in %.1f s\n",
                  s->reason, seconds_since(s->since_ms), s->n_tries,
                  -seconds_since(s->retry_ms));
}

static void
format_events(const struct agent *a, struct ds *ds)
{
    struct kube_event_stats s;

    kube_get_event_stats(a->kube, &s);
    ds_put_format(ds,
                  "Events: %" PRIu64 " sent, %" PRIu64 " counts sent, %" PRIu64
                  " waiting, %" PRIu64 " dropped, %" PRIu64 " failures\n",
                  s.n_created, s.n_counted, s.n_waiting, s.n_dropped,
                  s.n_failures);
    if (s.last_error[0]) {
        ds_put_format(ds, "  failing: %s\n", s.last_error);
    }
}

static void
format_parts(const struct agent *a, struct ds *ds)
{
    local_format(a->local, ds);
    net_format(a->net, ds);
    svccidrs_format(a->svccidrs, ds);
    mcview_format(a, ds);
    takeover_format(a->takeover, ds);
    ds_put_cstr(ds, "host: ");
    host_format_state(a->host, ds);
    ds_put_cstr(ds, "packet rules: ");
    nodeips_format(a->nodeips, ds);
    rules_format_state(a->rules, ds);
    format_events(a, ds);
}

bool
agent_in_sync(const struct agent *a)
{
    return a->complete && ofconn_is_up(a->ofconn)
           && !services_has_work(a->services) && !a->local_changed
           && flowtab_in_sync(a->flowtab) && takeover_is_done(a->takeover)
           && host_in_sync(a->host) && rules_in_sync(a->rules);
}

static void
format_stale(const struct stale *stale, struct ds *ds)
{
    struct stale_stats stats;

    stale_get_stats(stale, &stats);
    ds_put_format(ds,
                  "stale connections: %zu changes wait, %zu are in passes, "
                  "%" PRIu64 " requests\n",
                  stats.n_waiting, stats.n_active, stats.n_requests);
}

static void
format_switch(const struct ofconn_stats *o, struct ds *ds)
{
    ds_put_format(ds,
                  "switch: %s for %.1f s; %" PRIu64 " connects, %" PRIu64
                  " dumps, %" PRIu64 " bundles (%" PRIu64 " refused), %" PRIu64
                  " foreign changes\n",
                  o->state, seconds_since(o->state_since_ms), o->n_connects,
                  o->n_dumps, o->n_bundles, o->n_bundles_refused,
                  o->n_foreign);
    if (o->last_error[0]) {
        ds_put_format(ds, "  last error, %.1f s ago: %s\n",
                      seconds_since(o->last_error_ms), o->last_error);
    }
    ds_put_format(ds,
                  "learned: %zu flows in the last review of all, %" PRIu64
                  " reviews, %" PRIu64 " removed\n",
                  o->n_learned, o->n_reviews, o->n_forgotten);
}

static void
format_latency(const struct latency *l, struct ds *ds)
{
    ds_put_format(ds, "first in sync: %.1f ms after all had been listed\n",
                  l->first_us / 1000.0);
    ds_put_format(ds,
                  "latency of the last %" PRIu64 " rounds, ms: p50 %.2f, "
                  "p90 %.2f, p99 %.2f, max %.2f\n",
                  MIN(l->n, LATENCY_KEPT), latency_quantile(l, 50) / 1000.0,
                  latency_quantile(l, 90) / 1000.0,
                  latency_quantile(l, 99) / 1000.0,
                  latency_quantile(l, 100) / 1000.0);
}

void
agent_format_sync(const struct agent *a, struct ds *ds)
{
    struct flowtab_stats f;
    struct ofconn_stats o;
    struct model_counts counts;
    struct format_ctx ctx = { a, ds };

    flowtab_get_stats(a->flowtab, &f);
    ofconn_get_stats(a->ofconn, &o);
    model_count(a->model, &counts);
    ds_put_format(ds, "in sync: %s\n", agent_in_sync(a) ? "yes" : "no");
    format_kinds(a, ds);
    ds_put_format(ds,
                  "objects: %zu Services, %zu EndpointSlices, %zu "
                  "endpoints, %zu Nodes\n",
                  counts.n[MODEL_SERVICES], counts.n[MODEL_SLICES],
                  counts.n_endpoints, counts.n[MODEL_NODES]);
    ds_put_format(ds, "database: %s, bridge %s\n",
                  ovsdb_state(a->ovsdb)->connected ? "connected"
                                                   : "not connected",
                  ovsdb_state(a->ovsdb)->bridge_ok ? "there" : "missing");
    format_switch(&o, ds);
    ds_put_format(ds,
                  "wanted: %zu flows, %zu groups; pending %zu, in flight "
                  "%zu, set aside %zu, unwanted %zu\n",
                  f.n_flows, f.n_groups, f.n_dirty, f.n_in_flight,
                  f.n_set_aside, f.n_unwanted);
    ds_put_format(ds,
                  "sent: %" PRIu64 " flow puts, %" PRIu64
                  " flow deletes, %" PRIu64 " group puts, %" PRIu64
                  " group deletes, %" PRIu64 " refused\n",
                  f.n_flow_puts, f.n_flow_deletes, f.n_group_puts,
                  f.n_group_deletes, f.n_refused);
    ds_put_format(ds,
                  "rounds: %" PRIu64 ", rendered changes: %" PRIu64
                  ", rejects: %" PRIu64 " (%" PRIu64 " dropped)\n",
                  a->n_rounds, a->n_rendered, a->n_rejects,
                  o.n_packet_ins_dropped);
    format_latency(&a->latency, ds);
    format_stale(a->stale, ds);
    format_parts(a, ds);
    flowtab_for_each_set_aside(a->flowtab, format_set_aside, &ctx);
}

/* The log. */

/* The owner of a Service that the switch refuses can make it smaller, say. */
static void
emit_set_aside(const struct agent *a, const struct flowtab_set_aside *s)
{
    const struct unit *u = services_find_owner(a->services, s->owner);
    struct ds ds = DS_EMPTY_INITIALIZER;

    if (u) {
        unit_format(u, &ds);
        ds_put_format(&ds, ": the switch refused it: %s", s->reason);
        notice_event(a->kube, model_find_service(a->model, u->ns, u->name),
                     EVENT_REFUSED, ds_cstr(&ds));
        ds_destroy(&ds);
    }
}

static void
log_set_aside(const struct flowtab_set_aside *s, void *a_)
{
    static struct vlog_rate_limit rl = VLOG_RATE_LIMIT_INIT(10, 20);
    const struct agent *a = a_;
    struct ds ds = DS_EMPTY_INITIALIZER;

    if (s->n_tries == 1 && s->refusal > a->n_refused_logged) {
        report_format_owner(a, s->owner, &ds);
        VLOG_WARN_RL(&rl,
                     "%s: the switch refused it (%s); it is left out "
                     "and tried again",
                     ds_cstr(&ds), s->reason);
        ds_destroy(&ds);
        emit_set_aside(a, s);
    }
}

void
report_set_aside(struct agent *a)
{
    struct flowtab_stats stats;

    flowtab_get_stats(a->flowtab, &stats);
    if (stats.n_refused != a->n_refused_logged) {
        flowtab_for_each_set_aside(a->flowtab, log_set_aside, a);
        a->n_refused_logged = stats.n_refused;
    }
}
