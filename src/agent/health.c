/* SPDX-License-Identifier: Apache-2.0 */
/* The health of the daemon's work, and what load balancers ask about. */

#include "health.h"

#include <timeval.h>

#include "agent-private.h"
#include "hchecks.h"
#include "notice.h"

void
health_follow(struct health *h, const struct health_facts *facts,
              long long int now_ms)
{
    if (!facts->listed) {
        return;
    }
    for (int f = 0; f < N_IP_FAMILIES; f++) {
        bool waits = facts->waits || facts->n_refused[f] > 1;

        if (!waits || facts->succeeded) {
            health_updated(h, f, now_ms);
        }
        if (waits) {
            health_queued(h, f, now_ms);
        }
    }
}

/* The facts. */

static void
count_refused(const struct flowtab_set_aside *s, void *a_)
{
    struct agent *a = a_;
    const struct unit *u = services_find_owner(a->services, s->owner);
    const struct clusterip *c =
        services_find_cluster_ip(a->services, s->owner);

    for (int f = 0; f < N_IP_FAMILIES; f++) {
        a->n_refused[f] += u ? u->family == f : c ? ip_family(&c->ip) == f : 1;
    }
}

/* The rules are what leads NodePorts into the bridge; nothing else would tell
 * that they are missing. */
static bool
host_waits(const struct agent *a)
{
    return a->cfg->antrea_proxy_proxy_all && a->complete
           && !rules_in_sync(a->rules);
}

static bool
bridge_waits(const struct agent *a, const struct flowtab_stats *s)
{
    return !a->complete || !ofconn_is_up(a->ofconn) || s->n_dirty
           || s->n_in_flight || services_has_work(a->services)
           || a->local_changed;
}

void
agent_run_health(struct agent *a)
{
    struct health_facts facts = { .listed = model_synced(a->model) };
    struct flowtab_stats s;
    uint64_t n_done;

    flowtab_get_stats(a->flowtab, &s);
    n_done =
        s.n_flow_puts + s.n_flow_deletes + s.n_group_puts + s.n_group_deletes;
    facts.succeeded = n_done != a->n_done && !host_waits(a);
    facts.waits = bridge_waits(a, &s) || host_waits(a);
    if (s.n_refused != a->n_refused_seen
        || s.n_set_aside != a->n_set_aside_seen) {
        memset(a->n_refused, 0, sizeof a->n_refused);
        flowtab_for_each_set_aside(a->flowtab, count_refused, a);
        a->n_refused_seen = s.n_refused;
        a->n_set_aside_seen = s.n_set_aside;
    }
    a->n_done = n_done;
    memcpy(facts.n_refused, a->n_refused, sizeof facts.n_refused);
    health_follow(&a->health, &facts, time_msec());
}

/* Answers. */

/* A Node that was never seen while others are known is gone, too: pods that
 * name it have no endpoints here. */
static bool
node_is_eligible(const struct agent *a)
{
    const struct node *node = model_own_node(a->model);

    if (!node) {
        return !model_kind_synced(a->model, MODEL_NODES);
    }
    return !node->deleting && !node->to_be_deleted;
}

void
agent_get_health(const struct agent *a, struct health_state *ret)
{
    health_get_state(&a->health, time_msec(), time_wall_usec(), ret);
    ret->node_eligible = node_is_eligible(a);
}

void
agent_observe_service(const struct model_service *ms, bool served, void *a_)
{
    struct agent *a = a_;

    hchecks_update(a->hchecks, ms, served, model_node_name(a->model));
}

bool
agent_pop_health_check(struct agent *a, struct health_check *ret)
{
    return hchecks_pop(a->hchecks, ret);
}

const struct ip *
agent_node_port_ips(const struct agent *a, size_t *ret_n)
{
    const struct pipe_node *node = local_node(a->local);

    *ret_n = node->n_node_port_ips;
    return node->node_port_ips;
}

void
agent_check_failed(struct agent *a, const struct health_check *check,
                   const char *why)
{
    char *note = xasprintf("health-check node port %u can't be listened on: "
                           "%s; it will be tried again",
                           check->port, why);

    notice_event(a->kube, model_find_service(a->model, check->ns, check->name),
                 EVENT_HEALTH_PORT, note);
    free(note);
}
