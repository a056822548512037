/* SPDX-License-Identifier: Apache-2.0 */

/* One Service in words: its addresses, which of them are served and why the
 * others are not, and the same of its endpoints.  What is served comes from
 * the units, and why an endpoint is used from eps_explain(); here are only
 * the reasons for what is not there. */

#include <errno.h>

#include <timeval.h>
#include <util.h>

#include "agent-private.h"
#include "served.h"

/* An answer must not keep the loop: a Service can have thousands of ports, of
 * addresses and of endpoints.  So many ports in a family are explained, and
 * so many addresses and endpoints named in all. */
#define MAX_UNITS 100
#define MAX_NAMED 2000

/* Endpoints of one list. */
#define MAX_NAMED_OF_LIST 1000

/* Source ranges that are named. */
#define MAX_RANGES 16

struct explainer {
    const struct agent *a;
    const struct model_service *ms;
    const struct svc_port *port;
    const struct unit *unit; /* Of 'port', in the family. */
    struct eps_explanation endpoints;
    size_t n_endpoints; /* Without those that is_beside() tells. */
    struct eps_choice choice;
    size_t *room; /* Addresses and endpoints that may still be named. */
    struct ds *ds;
};

/* An address of a Service port. */
struct address {
    const char *kind;
    enum pipe_frontend_kind frontend;
    struct ip ip; /* "::" of a NodePort. */
    uint16_t port;
    const char *why_not;         /* Why it isn't served, or NULL. */
    const struct unit *conflict; /* Whose it is, if it is another's. */
};

typedef void address_cb(const struct explainer *, const struct address *);

/* Is it about the other family, which the Service has, too? */
static bool
is_beside(const struct explainer *e, const struct eps_verdict *v)
{
    return v->cluster == EPS_OTHER_FAMILY
           && !ip_is_none(&e->ms->svc->cluster_ips[v->slice->family]);
}

/* Addresses. */

/* Completes 'address' if the unit claims it; else returns false. */
static bool
find_claim(const struct explainer *e, struct address *address)
{
    const struct addr_owner *claims = &e->unit->claims;

    for (size_t i = 0; i < claims->n; i++) {
        const struct addr *addr = &claims->addrs[i];

        if (addr->kind == address->frontend
            && ip_equals(&addr->ip, &address->ip)) {
            if (addr->lost) {
                address->conflict = services_find_winner(e->a->services, addr);
            }
            return true;
        }
    }
    return false;
}

/* Why an external address isn't claimed, if the configuration lets it be. */
static const char *
why_no_claim(const struct explainer *e, const struct address *address)
{
    struct ip virtual = pipe_virtual_ip(e->unit->family);
    struct ip node_port = pipe_node_port_ip(e->unit->family);

    if (ip_equals(&address->ip, &e->unit->ip)) {
        return "it is the cluster IP, and served as that";
    } else if (ip_equals(&address->ip, &virtual)
               || ip_equals(&address->ip, &node_port)) {
        return "bridge and host use it between them";
    } else if (IN6_IS_ADDR_LINKLOCAL(&address->ip.in6)) {
        return "it is link-local";
    }
    return "it is the API server's, or there are too many";
}

static void
tell_external(const struct explainer *e, const char *kind, const struct ip *ip,
              const char *off, address_cb *cb)
{
    struct address address = {
        .kind = kind,
        .frontend = PIPE_EXTERNAL,
        .ip = *ip,
        .port = e->port->port,
        .why_not = off,
    };

    if (ip_family(ip) != e->unit->family || !*e->room) {
        return;
    }
    --*e->room;
    if (!off && !find_claim(e, &address)) {
        address.why_not = why_no_claim(e, &address);
    }
    cb(e, &address);
}

static const char *
why_not_ingress(const struct cfg *cfg, const struct svc_ingress *ingress)
{
    return !cfg->antrea_proxy_proxy_load_balancer_ips
               ? "antreaProxy.proxyLoadBalancerIPs is false"
           : ingress->proxy ? "its ipMode is Proxy: it is left to the "
                              "external load balancer"
                            : NULL;
}

/* Calls 'cb' with each address of the port in the unit's family. */
static void
for_each_address(const struct explainer *e, address_cb *cb)
{
    const struct cfg *cfg = e->a->cfg;
    const struct svc *svc = e->ms->svc;
    const char *off =
        cfg->antrea_proxy_proxy_all ? NULL : "antreaProxy.proxyAll is false";
    struct address cluster_ip = {
        .kind = "cluster IP",
        .frontend = PIPE_CLUSTER_IP,
        .ip = e->unit->ip,
        .port = e->port->port,
    };
    struct address node_port = {
        .kind = "NodePort",
        .frontend = PIPE_NODE_PORT,
        .port = e->port->node_port,
        .why_not = off,
    };

    find_claim(e, &cluster_ip);
    cb(e, &cluster_ip);
    if (e->port->node_port) {
        if (!off) {
            find_claim(e, &node_port);
        }
        cb(e, &node_port);
    }
    for (size_t i = 0; i < svc->n_external_ips; i++) {
        tell_external(e, "external IP", &svc->external_ips[i], off, cb);
    }
    for (size_t i = 0; i < svc->n_ingress; i++) {
        tell_external(e, "load-balancer IP", &svc->ingress[i].ip,
                      why_not_ingress(cfg, &svc->ingress[i]), cb);
    }
    if (!*e->room) {
        ds_put_cstr(e->ds, "    and perhaps more addresses\n");
    }
}

static void
format_address(const struct address *address, struct ds *ds)
{
    char ip[IP_STRLEN];

    if (address->frontend == PIPE_NODE_PORT) {
        ds_put_format(ds, "*:%u", address->port);
    } else {
        bool v6 = ip_family(&address->ip) == IP_V6;

        ds_put_format(ds, "%s%s%s:%u", v6 ? "[" : "",
                      ip_to_string(&address->ip, ip), v6 ? "]" : "",
                      address->port);
    }
}

/* What a new connection finds in 'list'. */
static void
format_target(const struct explainer *e, const struct eps_list *list,
              struct ds *ds)
{
    if (list->n) {
        ds_put_format(ds, "one of %zu endpoint%s", list->n,
                      list->n == 1 ? "" : "s");
    } else {
        ds_put_cstr(ds, e->choice.has_any
                            ? "dropped: only other nodes have endpoints"
                            : "rejected: no usable endpoint anywhere");
    }
}

static bool
is_local(const struct explainer *e, const struct address *address)
{
    const struct svc *svc = e->ms->svc;

    return address->frontend == PIPE_CLUSTER_IP
               ? svc->internal_policy == SVC_POLICY_LOCAL
               : svc_external_policy_is_local(svc);
}

/* State of the unit in the switch, "" if in order. */
static void
format_set_aside(const struct explainer *e, struct ds *ds)
{
    const struct flowtab_set_aside *aside =
        flowtab_find_set_aside(e->a->flowtab, unit_owner(e->unit));

    if (aside) {
        ds_put_format(ds,
                      "  the switch has refused it (%s); next try in %.1f "
                      "s\n",
                      aside->reason,
                      (double) (aside->retry_ms - time_msec()) / 1000.0);
    }
}

static void
explain_address(const struct explainer *e, const struct address *address)
{
    struct ds *ds = e->ds;

    ds_put_format(ds, "    %s ", address->kind);
    format_address(address, ds);
    ds_put_cstr(ds, ": ");
    if (address->why_not) {
        ds_put_format(ds, "not served: %s\n", address->why_not);
        return;
    } else if (address->conflict) {
        ds_put_cstr(ds, "not served: conflict with ");
        unit_format(address->conflict, ds);
        ds_put_cstr(ds, ", which is older or comes first by name\n");
        return;
    }
    if (!is_local(e, address)) {
        ds_put_cstr(ds, "policy Cluster: ");
        format_target(e, &e->choice.cluster, ds);
    } else {
        ds_put_cstr(ds, "policy Local: ");
        format_target(e, &e->choice.local, ds);
        if (address->frontend != PIPE_CLUSTER_IP) {
            ds_put_cstr(ds, "; from pods of this node and the node itself, as "
                            "with policy Cluster: ");
            format_target(e, &e->choice.cluster, ds);
        }
    }
    ds_put_char(ds, '\n');
}

/* Endpoints. */

static enum eps_reason
reason_of(const struct eps_verdict *v, bool local)
{
    return local ? v->local : v->cluster;
}

/* Where an endpoint that is a cluster IP leads to. */
static void
format_nested(const struct explainer *e, const struct eps *eps)
{
    const struct unit *to;
    enum nesting nesting =
        services_find_nested(e->a->services, e->unit, eps, &to);

    if (nesting == NESTING_NOBODY) {
        ds_put_cstr(e->ds, "; a cluster IP and port that no Service has: "
                           "rejected");
    } else if (nesting == NESTING_ITSELF) {
        ds_put_cstr(e->ds, "; its own cluster IP: rejected");
    } else {
        ds_put_cstr(e->ds, "; the cluster IP of ");
        unit_format(to, e->ds);
        ds_put_cstr(e->ds, nesting == NESTING_ROUND
                               ? ", which has cluster IPs as endpoints "
                                 "itself: rejected"
                               : ", whose endpoints are chosen from in turn");
    }
}

static void
format_verdict(const struct explainer *e, const struct eps_verdict *v,
               bool local)
{
    const char *cluster = mc_find_network(e->a->mc, &v->eps.ip);
    struct ds *ds = e->ds;
    enum eps_reason reason = reason_of(v, local);
    char ip[IP_STRLEN];
    bool v6 = ip_family(&v->eps.ip) == IP_V6;

    ds_put_format(ds, "      %s%s%s", v6 ? "[" : "",
                  ip_to_string(&v->eps.ip, ip), v6 ? "]" : "");
    if (v->eps.port) {
        ds_put_format(ds, ":%u", v->eps.port);
    }
    if (v->endpoint->node) {
        ds_put_format(ds, " on %s%s", v->endpoint->node,
                      v->eps.local ? " (here)" : "");
    }
    ds_put_format(ds, ": %s%s", eps_reason_is_used(reason) ? "" : "not used: ",
                  eps_reason_string(reason));
    if (v->other) {
        ds_put_format(ds, " (%s)", v->other->meta.name);
    }
    if (v->eps.nested && eps_reason_is_used(reason)) {
        format_nested(e, &v->eps);
    } else if (cluster) {
        ds_put_format(ds, "; in cluster %s%s", cluster,
                      mc_role(e->a->mc) == PIPE_MC_NONE
                          ? ", to which there is no gateway"
                          : "");
    }
    ds_put_format(ds, " [%s]\n", v->slice->meta.name);
}

static void
explain_list(const struct explainer *e, bool local)
{
    const struct eps_list *list =
        local ? &e->choice.local : &e->choice.cluster;
    size_t max = MIN(MAX_NAMED_OF_LIST, *e->room);
    size_t n_named = 0;

    ds_put_format(e->ds, "    endpoints for policy %s: %zu of %zu used\n",
                  local ? "Local" : "Cluster", list->n, e->n_endpoints);
    for (size_t i = 0; i < e->endpoints.n && n_named < max; i++) {
        const struct eps_verdict *v = &e->endpoints.verdicts[i];

        if (!is_beside(e, v)) {
            format_verdict(e, v, local);
            n_named++;
        }
    }
    *e->room -= n_named;
    if (n_named < e->n_endpoints) {
        ds_put_format(e->ds, "      and %zu more\n", e->n_endpoints - n_named);
    }
}

/* A Service port in one family. */

static void
explain_unit(const struct explainer *e)
{
    ds_put_format(e->ds, "  port %s%s%u/%s, %s:\n", e->port->name,
                  e->port->name[0] ? " " : "", e->port->port,
                  proto_name(e->port->proto), ip_family_name(e->unit->family));
    format_set_aside(e, e->ds);
    for_each_address(e, explain_address);
    if (e->choice.uses_cluster) {
        explain_list(e, false);
    }
    if (e->choice.uses_local) {
        explain_list(e, true);
    }
}

static const struct svc_port *
find_port(const struct svc *svc, const struct unit *u)
{
    for (size_t i = 0; i < svc->n_ports; i++) {
        if (!strcmp(svc->ports[i].name, u->port_name)
            && svc->ports[i].proto == u->proto) {
            return &svc->ports[i];
        }
    }
    return NULL;
}

/* Calls 'format' about a unit. */
struct unit_ctx {
    const struct agent *a;
    const struct model_service *ms;
    void (*format)(const struct explainer *);
    size_t room;
    size_t n; /* Units. */
    struct ds *ds;
};

static void
with_unit(const struct unit *u, void *ctx_)
{
    struct unit_ctx *ctx = ctx_;
    struct eps_place here = services_place(ctx->a->services);
    struct explainer e = {
        .a = ctx->a,
        .ms = ctx->ms,
        .port = find_port(ctx->ms->svc, u),
        .unit = u,
        .room = &ctx->room,
        .ds = ctx->ds,
    };

    /* Without the port the Service has changed, and is rendered soon. */
    if (ctx->n++ < MAX_UNITS && e.port) {
        eps_choose(e.ms, e.port, u->family, &here, &e.choice);
        eps_explain(e.ms, e.port, u->family, &here, &e.endpoints);
        for (size_t i = 0; i < e.endpoints.n; i++) {
            e.n_endpoints += !is_beside(&e, &e.endpoints.verdicts[i]);
        }
        ctx->format(&e);
        eps_explanation_uninit(&e.endpoints);
        eps_choice_uninit(&e.choice);
    }
}

/* Calls 'format' about each unit of 'ms'; returns how many there are. */
static size_t
format_units(const struct agent *a, const struct model_service *ms,
             void (*format)(const struct explainer *), struct ds *ds)
{
    struct unit_ctx ctx = {
        .a = a,
        .ms = ms,
        .format = format,
        .room = MAX_NAMED,
        .ds = ds,
    };

    services_for_each(a->services, ms->ns, ms->name, with_unit, &ctx);
    if (ctx.n > MAX_UNITS) {
        ds_put_format(ds, "  and %zu more ports\n", ctx.n - MAX_UNITS);
    }
    return ctx.n;
}

/* Services. */

static const char *
type_name(const struct svc *svc)
{
    switch (svc->type) {
    case SVC_CLUSTER_IP: return "ClusterIP";
    case SVC_NODE_PORT: return "NodePort";
    case SVC_LOAD_BALANCER: return "LoadBalancer";
    case SVC_EXTERNAL_NAME: return "ExternalName";
    }
    OVS_NOT_REACHED();
}

static const char *
policy_name(enum svc_policy policy)
{
    switch (policy) {
    case SVC_POLICY_CLUSTER: return "Cluster";
    case SVC_POLICY_LOCAL: return "Local";
    }
    OVS_NOT_REACHED();
}

static void
format_ranges(const struct svc *svc, struct ds *ds)
{
    ds_put_format(ds, "  load-balancer IPs only from %zu source range%s:",
                  svc->n_source_ranges, svc->n_source_ranges == 1 ? "" : "s");
    for (size_t i = 0; i < MIN(svc->n_source_ranges, MAX_RANGES); i++) {
        const struct cidr *range = &svc->source_ranges[i];
        char text[CIDR_STRLEN];

        ds_put_format(ds, " %s", cidr_to_string(range, text));
    }
    ds_put_format(ds, "%s (a family without any lets all in)\n",
                  svc->n_source_ranges > MAX_RANGES ? " ..." : "");
}

static void
explain_head(const struct agent *a, const struct svc *svc, struct ds *ds)
{
    ds_put_format(ds,
                  "Service %s/%s: type %s, internalTrafficPolicy %s, "
                  "externalTrafficPolicy %s%s\n",
                  svc->meta.ns, svc->meta.name, type_name(svc),
                  policy_name(svc->internal_policy),
                  policy_name(svc->external_policy),
                  svc->external_policy == SVC_POLICY_LOCAL
                          && !svc_external_policy_is_local(svc)
                      ? " (which means nothing without external addresses)"
                      : "");
    if (svc->affinity_s) {
        ds_put_format(ds,
                      "  session affinity: a client keeps its endpoint for "
                      "%u s after its last new connection\n",
                      svc->affinity_s);
    }
    if (svc->n_source_ranges) {
        format_ranges(svc, ds);
    }
    if (svc->health_port) {
        ds_put_format(ds, "  health-check node port: %u\n", svc->health_port);
    }
    if (!model_synced(a->model)) {
        ds_put_cstr(ds, "  not all objects have been listed yet\n");
    }
}

static void
explain_missing(const struct model_service *ms, struct ds *ds)
{
    ds_put_format(ds,
                  "Service %s/%s: there are %zu EndpointSlices that name it, "
                  "but not the Service itself: it doesn't exist, or its label "
                  "service.kubernetes.io/service-proxy-name makes it another "
                  "proxy's\n",
                  ms->ns, ms->name, ms->n_slices);
}

int
agent_format_explanation(const struct agent *a, const char *ns,
                         const char *name, struct ds *ds)
{
    const struct model_service *ms = model_find_service(a->model, ns, name);
    const char *why_not;

    if (!ms || (!ms->svc && !ms->n_slices)) {
        return ENOENT;
    } else if (!ms->svc) {
        explain_missing(ms, ds);
        return 0;
    }
    explain_head(a, ms->svc, ds);
    why_not = served_why_not(a->cfg, ms->svc);
    if (why_not) {
        ds_put_format(ds, "  not served: %s\n", why_not);
        return 0;
    }
    if (!format_units(a, ms, explain_unit, ds)) {
        ds_put_cstr(ds, ms->svc->n_ports ? "  not rendered yet\n"
                                         : "  not served: it has no ports\n");
    }
    return 0;
}

/* The table of one Service. */

static const char *
state_of(const struct explainer *e, const struct address *address)
{
    const struct eps_list *list =
        is_local(e, address) ? &e->choice.local : &e->choice.cluster;

    return address->why_not    ? "off"
           : address->conflict ? "conflict"
           : flowtab_find_set_aside(e->a->flowtab, unit_owner(e->unit))
               ? "set-aside"
           : list->n           ? "select"
           : e->choice.has_any ? "drop"
                               : "reject";
}

static void
format_row(const struct explainer *e, const struct address *address)
{
    bool local = is_local(e, address);
    const struct eps_list *list =
        local ? &e->choice.local : &e->choice.cluster;
    struct ds where = DS_EMPTY_INITIALIZER;

    format_address(address, &where);
    ds_put_format(e->ds, "%-12s %-4s %-16s %-45s %-7s %6zu/%-6zu %s\n",
                  e->port->name[0] ? e->port->name : "-",
                  proto_name(e->port->proto), address->kind, ds_cstr(&where),
                  local ? "Local" : "Cluster", list->n, e->n_endpoints,
                  state_of(e, address));
    ds_destroy(&where);
}

static void
format_rows(const struct explainer *e)
{
    for_each_address(e, format_row);
}

int
agent_format_service(const struct agent *a, const char *ns, const char *name,
                     struct ds *ds)
{
    const struct model_service *ms = model_find_service(a->model, ns, name);

    if (!ms || !ms->svc) {
        return ENOENT;
    }
    ds_put_format(ds, "%-12s %-4s %-16s %-45s %-7s %13s %s\n", "PORT", "PROT",
                  "KIND", "ADDRESS", "POLICY", "USED/TOTAL", "STATE");
    format_units(a, ms, format_rows, ds);
    return 0;
}
