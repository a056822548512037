/* SPDX-License-Identifier: Apache-2.0 */
/* The endpoint choice: all endpoints of the Service port are collected from
 * its slices, sorted, and each is given a reason to be in either list, or not
 * to be: a reason is all that a list, and an explanation, is made from. */

#include "ofproxyd/model/endpoints.h"

#include <string.h>

#include <util.h>

struct candidate {
    struct eps eps;
    const struct slice_endpoint *from;
    const struct slice *slice;

    /* Filled in by judge(). */
    bool duplicate;    /* Another one stands for it. */
    bool fallback;     /* Serves while it terminates. */
    bool on_our_node;  /* Its node hints name our node. */
    bool for_our_zone; /* Its zone hints name our zone. */

    enum eps_reason cluster, local; /* Filled in by decide(). */
};

struct candidates {
    struct candidate *c;
    size_t n;
    bool any_ready, any_fallback; /* Duplicates don't count. */
    bool any_local_ready;
    struct eps_choice choice; /* Without its lists. */
};

/* Which hints limit the endpoints of policy Cluster. */
enum topology {
    TOPOLOGY_NONE,
    TOPOLOGY_SAME_NODE,
    TOPOLOGY_SAME_ZONE
};

const char *
eps_reason_string(enum eps_reason reason)
{
    switch (reason) {
#define EPS_REASON(SYM, WORDS) \
    case EPS_##SYM: return WORDS;
        EPS_REASONS
#undef EPS_REASON
    }
    OVS_NOT_REACHED();
}

bool
eps_reason_is_used(enum eps_reason reason)
{
    return reason == EPS_USED || reason == EPS_DRAINING;
}

int
eps_compare(const struct eps *a, const struct eps *b)
{
    int cmp = ip_compare(&a->ip, &b->ip);

    return cmp ? cmp : (a->port > b->port) - (a->port < b->port);
}

/* Orders duplicates, the one that stands for all of them first.  A total
 * order: an address that moves between pods or slices must not flap with the
 * order of the events that reported it. */
static int
compare_rank(const struct candidate *a, const struct candidate *b)
{
    const struct slice_endpoint *x = a->from;
    const struct slice_endpoint *y = b->from;

    if (x->terminating != y->terminating) {
        return x->terminating ? 1 : -1;
    } else if (x->ready != y->ready) {
        return x->ready ? -1 : 1;
    } else if (x->serving != y->serving) {
        return x->serving ? -1 : 1;
    } else if (a->slice == b->slice) {
        return (x > y) - (x < y);
    } else if (a->slice->meta.version != b->slice->meta.version) {
        return a->slice->meta.version > b->slice->meta.version ? -1 : 1;
    }
    return strcmp(a->slice->meta.name, b->slice->meta.name);
}

static int
compare_candidates(const void *a_, const void *b_)
{
    const struct candidate *a = a_;
    const struct candidate *b = b_;
    int cmp = eps_compare(&a->eps, &b->eps);

    return cmp ? cmp : compare_rank(a, b);
}

/* The slice's port for 'port', the n-th of its Service, or NULL.  They match
 * by name and protocol; the numbers have nothing to do with each other.  The
 * order is nearly always the same, so that it is found at once also where
 * there are thousands. */
static const struct slice_port *
match_port(const struct slice *slice, const struct svc_port *port, size_t n)
{
    for (size_t i = 0; i < slice->n_ports; i++) {
        const struct slice_port *p = &slice->ports[(n + i) % slice->n_ports];

        if (p->proto == port->proto && !strcmp(p->name, port->name)) {
            return p;
        }
    }
    return NULL;
}

static void
collect(const struct model_service *ms, const struct svc_port *port,
        enum ip_family family, struct candidates *cs)
{
    const struct model_slice *m;
    size_t max = 0;

    LIST_FOR_EACH (m, list_node, &ms->slices) {
        max += m->slice->family == family ? m->slice->n_endpoints : 0;
    }
    if (!max) {
        return;
    }
    cs->c = xmalloc(max * sizeof *cs->c);

    LIST_FOR_EACH (m, list_node, &ms->slices) {
        const struct slice *slice = m->slice;
        const struct slice_port *p;

        p = slice->family == family
                ? match_port(slice, port, port - ms->svc->ports)
                : NULL;
        for (size_t i = 0; p && i < slice->n_endpoints; i++) {
            const struct slice_endpoint *ep = &slice->endpoints[i];

            cs->c[cs->n++] = (struct candidate){
                .eps = { .ip = ep->ip, .port = p->port },
                .from = ep,
                .slice = slice,
            };
        }
    }
}

/* Sorts, and marks all but the first of those with one address and port. */
static void
mark_duplicates(struct candidates *cs)
{
    if (cs->n) {
        qsort(cs->c, cs->n, sizeof *cs->c, compare_candidates);
    }
    for (size_t i = 1; i < cs->n; i++) {
        cs->c[i].duplicate = !eps_compare(&cs->c[i - 1].eps, &cs->c[i].eps);
    }
}

/* Is 'name' among 'names'?  "" stands for an unknown name and never is. */
static bool
names_contain(const char *const *names, size_t n, const char *name)
{
    for (size_t i = 0; *name && i < n; i++) {
        if (!strcmp(names[i], name)) {
            return true;
        }
    }
    return false;
}

static bool
is_cluster_ip(const struct ip *ip, const struct eps_place *here)
{
    for (size_t i = 0; i < here->n_service_cidrs; i++) {
        if (cidr_contains(&here->service_cidrs[i], ip)) {
            return true;
        }
    }
    return false;
}

static void
judge(struct candidates *cs, const struct eps_place *here)
{
    for (size_t i = 0; i < cs->n; i++) {
        struct candidate *c = &cs->c[i];
        const struct slice_endpoint *ep = c->from;

        c->eps.local =
            ep->node && *here->node_name && !strcmp(ep->node, here->node_name);
        c->eps.nested = is_cluster_ip(&c->eps.ip, here);
        if (c->duplicate) {
            continue;
        }
        c->fallback = ep->serving && ep->terminating;
        c->on_our_node =
            names_contain(ep->hint_nodes, ep->n_hint_nodes, here->node_name);
        c->for_our_zone = names_contain(ep->zones, ep->n_zones, here->zone);
        cs->any_ready |= ep->ready;
        cs->any_fallback |= c->fallback;
        cs->any_local_ready |= ep->ready && c->eps.local;
    }
}

/* Hints only count if every ready endpoint has them and one of them is for
 * us: else following them would leave us too few endpoints, or none. */
static enum topology
choose_topology(const struct candidates *cs)
{
    bool all_node_hints = true, any_on_our_node = false;
    bool all_zone_hints = true, any_for_our_zone = false;

    for (size_t i = 0; i < cs->n; i++) {
        const struct candidate *c = &cs->c[i];

        if (c->from->ready && !c->duplicate) {
            all_node_hints &= c->from->n_hint_nodes > 0;
            any_on_our_node |= c->on_our_node;
            all_zone_hints &= c->from->n_zones > 0;
            any_for_our_zone |= c->for_our_zone;
        }
    }
    return all_node_hints && any_on_our_node    ? TOPOLOGY_SAME_NODE
           : all_zone_hints && any_for_our_zone ? TOPOLOGY_SAME_ZONE
                                                : TOPOLOGY_NONE;
}

/* Of one that isn't ready, where 'any_ready' tells whether others are. */
static enum eps_reason
decide_unready(const struct candidate *c, bool any_ready)
{
    return !c->fallback ? (c->from->terminating ? EPS_ENDED : EPS_UNREADY)
           : any_ready  ? EPS_SPARED
                        : EPS_DRAINING;
}

/* For policy Cluster.  Of the ready ones some are always near enough, so that
 * the others don't have to stand in for them. */
static enum eps_reason
decide_cluster(const struct candidates *cs, const struct candidate *c,
               enum topology topology)
{
    if (c->duplicate) {
        return EPS_DUPLICATE;
    } else if (!c->from->ready) {
        return decide_unready(c, cs->any_ready);
    }
    switch (topology) {
    case TOPOLOGY_NONE: return EPS_USED;
    case TOPOLOGY_SAME_NODE: return c->on_our_node ? EPS_USED : EPS_OTHER_NODE;
    case TOPOLOGY_SAME_ZONE:
        return c->for_our_zone ? EPS_USED : EPS_OTHER_ZONE;
    }
    OVS_NOT_REACHED();
}

/* For policy Local. */
static enum eps_reason
decide_local(const struct candidates *cs, const struct candidate *c)
{
    return c->duplicate      ? EPS_DUPLICATE
           : !c->from->node  ? EPS_NODELESS
           : !c->eps.local   ? EPS_REMOTE
           : !c->from->ready ? decide_unready(c, cs->any_local_ready)
                             : EPS_USED;
}

static void
decide(struct candidates *cs, bool uses_cluster, bool uses_local)
{
    enum topology topology = choose_topology(cs);

    for (size_t i = 0; i < cs->n; i++) {
        struct candidate *c = &cs->c[i];

        c->cluster =
            uses_cluster ? decide_cluster(cs, c, topology) : EPS_UNNEEDED;
        c->local = uses_local ? decide_local(cs, c) : EPS_UNNEEDED;
    }
}

static bool
is_for_cluster(const struct candidate *c)
{
    return eps_reason_is_used(c->cluster);
}

static bool
is_for_local(const struct candidate *c)
{
    return eps_reason_is_used(c->local);
}

static bool
is_alive(const struct candidate *c)
{
    return !c->duplicate && (c->from->serving || c->from->ready);
}

static void
pick(const struct candidates *cs, bool (*wanted)(const struct candidate *),
     struct eps_list *list)
{
    size_t n = 0;

    for (size_t i = 0; i < cs->n; i++) {
        n += wanted(&cs->c[i]);
    }
    if (!n) {
        return;
    }
    list->eps = xmalloc(n * sizeof *list->eps);
    for (size_t i = 0; i < cs->n; i++) {
        if (wanted(&cs->c[i])) {
            list->eps[list->n++] = cs->c[i].eps;
        }
    }
}

bool
svc_external_policy_is_local(const struct svc *svc)
{
    if (svc->external_policy != SVC_POLICY_LOCAL) {
        return false;
    }
    switch (svc->type) {
    case SVC_NODE_PORT:
    case SVC_LOAD_BALANCER: return true;
    case SVC_CLUSTER_IP: return svc->n_external_ips > 0;
    case SVC_EXTERNAL_NAME: return false;
    }
    OVS_NOT_REACHED();
}

bool
eps_list_has_nested(const struct eps_list *list)
{
    for (size_t i = 0; i < list->n; i++) {
        if (list->eps[i].nested) {
            return true;
        }
    }
    return false;
}

struct eps_place
eps_own_place(const struct model *model)
{
    const struct node *node = model_own_node(model);

    return (struct eps_place){
        .node_name = model_node_name(model),
        .zone = node ? node->zone : "",
    };
}

/* Collects the endpoints and decides about each.  '*cs' is the caller's to
 * free(cs->c). */
static void
consider(const struct model_service *ms, const struct svc_port *port,
         enum ip_family family, const struct eps_place *here,
         struct candidates *cs)
{
    const struct svc *svc = ms->svc;
    bool external = svc_port_is_external(svc, port, family);
    bool internal_local = svc->internal_policy == SVC_POLICY_LOCAL;

    *cs = (struct candidates){ .c = NULL };
    collect(ms, port, family, cs);
    mark_duplicates(cs);
    judge(cs, here);

    cs->choice = (struct eps_choice){
        .uses_cluster = !internal_local || external,
        .uses_local =
            internal_local || (external && svc_external_policy_is_local(svc)),
        .has_any = cs->any_ready || cs->any_fallback,
    };
    decide(cs, cs->choice.uses_cluster, cs->choice.uses_local);
}

void
eps_choose(const struct model_service *ms, const struct svc_port *port,
           enum ip_family family, const struct eps_place *here,
           struct eps_choice *ret)
{
    struct candidates cs;

    consider(ms, port, family, here, &cs);
    *ret = cs.choice;
    pick(&cs, is_for_cluster, &ret->cluster);
    pick(&cs, is_for_local, &ret->local);
    free(cs.c);
}

void
eps_list_alive(const struct model_service *ms, const struct svc_port *port,
               enum ip_family family, struct eps_list *ret)
{
    struct candidates cs = { .c = NULL };

    collect(ms, port, family, &cs);
    mark_duplicates(&cs);
    *ret = (struct eps_list){ .n = 0 };
    pick(&cs, is_alive, ret);
    free(cs.c);
}

void
eps_choice_uninit(struct eps_choice *choice)
{
    free(choice->cluster.eps);
    free(choice->local.eps);
}

/* Explanations. */

/* Why no endpoint of 'slice' is a candidate, or EPS_USED if they are. */
static enum eps_reason
slice_reason(const struct slice *slice, const struct svc_port *port,
             enum ip_family family)
{
    if (slice->family != family) {
        return EPS_OTHER_FAMILY;
    } else if (match_port(slice, port, 0)) {
        return EPS_USED;
    }
    for (size_t i = 0; i < slice->n_ports; i++) {
        if (!strcmp(slice->ports[i].name, port->name)) {
            return EPS_OTHER_PROTO;
        }
    }
    return EPS_NO_PORT;
}

static void
explain_candidates(const struct candidates *cs, struct eps_explanation *ret)
{
    const struct slice *first = NULL;

    for (size_t i = 0; i < cs->n; i++) {
        const struct candidate *c = &cs->c[i];

        if (!c->duplicate) {
            first = c->slice;
        }
        ret->verdicts[ret->n++] = (struct eps_verdict){
            .eps = c->eps,
            .slice = c->slice,
            .endpoint = c->from,
            .cluster = c->cluster,
            .local = c->local,
            .other = c->duplicate ? first : NULL,
        };
    }
}

static void
explain_slice(const struct slice *slice, enum eps_reason reason,
              struct eps_explanation *ret)
{
    for (size_t i = 0; i < slice->n_endpoints; i++) {
        ret->verdicts[ret->n++] = (struct eps_verdict){
            .eps.ip = slice->endpoints[i].ip,
            .slice = slice,
            .endpoint = &slice->endpoints[i],
            .cluster = reason,
            .local = reason,
        };
    }
}

void
eps_explain(const struct model_service *ms, const struct svc_port *port,
            enum ip_family family, const struct eps_place *here,
            struct eps_explanation *ret)
{
    const struct model_slice *m;
    struct candidates cs;
    size_t max = 0;

    LIST_FOR_EACH (m, list_node, &ms->slices) {
        max += m->slice->n_endpoints;
    }
    *ret = (struct eps_explanation){
        .verdicts = max ? xmalloc(max * sizeof *ret->verdicts) : NULL,
    };
    consider(ms, port, family, here, &cs);
    explain_candidates(&cs, ret);
    free(cs.c);
    LIST_FOR_EACH (m, list_node, &ms->slices) {
        enum eps_reason reason = slice_reason(m->slice, port, family);

        if (reason != EPS_USED) {
            explain_slice(m->slice, reason, ret);
        }
    }
}

void
eps_explanation_uninit(struct eps_explanation *explanation)
{
    free(explanation->verdicts);
}

bool
svc_port_is_external(const struct svc *svc, const struct svc_port *port,
                     enum ip_family family)
{
    if (port->node_port) {
        return true;
    }
    for (size_t i = 0; i < svc->n_external_ips; i++) {
        if (ip_family(&svc->external_ips[i]) == family) {
            return true;
        }
    }
    for (size_t i = 0; i < svc->n_ingress; i++) {
        if (!svc->ingress[i].proxy
            && ip_family(&svc->ingress[i].ip) == family) {
            return true;
        }
    }
    return false;
}
