/* SPDX-License-Identifier: Apache-2.0 */

/* Other clusters, for an operator: this node's part, what is wrong, and what
 * is exchanged with each. */

#include <timeval.h>
#include <util.h>

#include "agent-private.h"

struct view {
    const struct agent *agent;
    struct mc_state state;
    struct ds *ds;
};

/* What is wrong. */

static void
tell_kind(const struct view *v, enum model_kind kind)
{
    struct kube_kind_stats s;

    kube_get_stats(v->agent->kube, kind, &s);
    if (s.last_error[0]) {
        ds_put_format(v->ds, "  %ss can't be read: %s\n",
                      model_kind_name(kind), s.last_error);
    }
    if (s.n_bad_objects) {
        ds_put_format(v->ds,
                      "  of %ss %" PRIu64 " made no sense since the start: "
                      "the log names them\n",
                      model_kind_name(kind), s.n_bad_objects);
    }
}

static bool
has_address(const struct node *node, const struct ip *ip)
{
    for (size_t i = 0; i < N_IP_FAMILIES; i++) {
        if (ip_equals(&node->transport[i], ip)) {
            return true;
        }
    }
    for (size_t i = 0; i < node->n_addresses; i++) {
        if (ip_equals(&node->addresses[i].ip, ip)) {
            return true;
        }
    }
    return false;
}

/* What can't be read may be there. */
static void
tell_absence(const struct view *v)
{
    const struct model *model = v->agent->model;
    const char *ns = agent_multicluster_ns(v->agent->cfg);

    if (!v->state.gateway && model_kind_known(model, MODEL_MC_GATEWAYS)) {
        ds_put_format(v->ds,
                      "  no Gateway in namespace %s: nothing is "
                      "exchanged with other clusters\n",
                      ns);
    }
    if (!v->state.n_clusters && model_kind_known(model, MODEL_MC_CLUSTERS)) {
        ds_put_format(v->ds,
                      "  no ClusterInfoImport in namespace %s: no "
                      "other cluster is known\n",
                      ns);
    }
}

/* An address that isn't the Node's may still lead there, by way of a
 * translation, say: it is named, and used. */
static void
tell_gateway(const struct view *v)
{
    const struct mc_state *s = &v->state;
    const struct node *node =
        s->gateway ? model_find_node(v->agent->model, s->gateway) : NULL;
    char ip[IP_STRLEN];

    if (!s->gateway) {
        return;
    } else if (!node) {
        ds_put_format(v->ds, "  there is no Node %s, that the Gateway names\n",
                      s->gateway);
        return;
    }
    if (!has_address(node, &s->gateway_ip)) {
        ds_put_format(v->ds, "  gatewayIP %s is no address of Node %s\n",
                      ip_to_string(&s->gateway_ip, ip), s->gateway);
    }
    if (!ip_is_none(&s->internal_ip) && !has_address(node, &s->internal_ip)) {
        ds_put_format(v->ds, "  internalIP %s is no address of Node %s\n",
                      ip_to_string(&s->internal_ip, ip), s->gateway);
    }
}

static void
tell_flaws(const struct view *v)
{
    const struct agent *a = v->agent;

    tell_kind(v, MODEL_MC_GATEWAYS);
    tell_kind(v, MODEL_MC_CLUSTERS);
    if (v->state.keeps) {
        ds_put_cstr(v->ds, "  flows that were there stay until Gateways and "
                           "ClusterInfoImports have been listed\n");
    }
    tell_gateway(v);
    tell_absence(v);
    if (!ovsdb_state(a->ovsdb)->tunnel_ofport) {
        ds_put_cstr(v->ds, "  the bridge has no tunnel port\n");
    }
    for (const char *p = v->state.problems; *p; p += strcspn(p, "\n") + 1) {
        ds_put_format(v->ds, "  %.*s\n", (int) strcspn(p, "\n"), p);
    }
}

void
mcview_format(const struct agent *a, struct ds *ds)
{
    struct view v = { .agent = a, .ds = ds };

    if (mc_get_state(a->mc, &v.state)) {
        mc_format_role(&v.state, ds);
        tell_flaws(&v);
    }
}

/* Each cluster. */

static void
put_count(const struct view *v, const struct mc_peer *peer,
          enum mccount_dir dir)
{
    struct mccount_total total =
        mccount_get(v->agent->mccount, peer->owner, dir);

    ds_put_format(v->ds, "%" PRIu64 " packets, %" PRIu64 " bytes",
                  total.n_packets, total.n_bytes);
}

static void
put_peer(const struct mc_peer *peer, void *v_)
{
    const struct view *v = v_;

    mc_format_peer(peer, v->ds);
    ds_put_cstr(v->ds, "    sent: ");
    put_count(v, peer, MCCOUNT_SENT);
    ds_put_cstr(v->ds, "; received: ");
    if (v->state.role == PIPE_MC_GATEWAY) {
        put_count(v, peer, MCCOUNT_RECEIVED);
    } else {
        ds_put_cstr(v->ds, "counted by the gateway only");
    }
    ds_put_char(v->ds, '\n');
}

void
agent_format_clusters(const struct agent *a, struct ds *ds)
{
    long long int read_ms = mccount_read_ms(a->mccount);
    struct view v = { .agent = a, .ds = ds };

    if (!mc_get_state(a->mc, &v.state)) {
        ds_put_cstr(ds, "multicluster: off (multicluster.enableGateway)\n");
        return;
    }
    mcview_format(a, ds);
    mc_for_each(a->mc, put_peer, &v);
    if (!v.state.n_clusters) {
        return;
    } else if (!read_ms) {
        ds_put_cstr(ds, "not counted yet\n");
    } else {
        ds_put_format(ds, "counted %.1f s ago, since ofproxyd started\n",
                      (double) (time_msec() - read_ms) / 1000.0);
    }
}
