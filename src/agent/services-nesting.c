/* SPDX-License-Identifier: Apache-2.0 */

/* Endpoints that are cluster IPs: whose they are, and whether that leads
 * anywhere.  The pipeline goes one step (its nested.c), so an endpoint whose
 * Service nests itself ends in a reject, of which its owner is told. */

#include <util.h>

#include "notice.h"
#include "services-private.h"

struct eps_place
services_place(const struct services *s)
{
    struct eps_place here = eps_own_place(s->model);

    here.service_cidrs = s->nesting;
    here.n_service_cidrs = s->n_nesting;
    return here;
}

enum nesting
services_find_nested(const struct services *s, const struct unit *u,
                     const struct eps *eps, const struct unit **ret_unit)
{
    const struct addr *addr =
        addrs_find(s->addrs, u->proto, &eps->ip, eps->port);

    *ret_unit = NULL;
    if (!addr || addr->kind != PIPE_CLUSTER_IP) {
        return NESTING_NOBODY;
    }
    *ret_unit = services_find_winner(s, addr);
    return *ret_unit == u       ? NESTING_ITSELF
           : (*ret_unit)->nests ? NESTING_ROUND
                                : NESTING_SERVICE;
}

/* Tells of the first endpoint in 'list' that leads round, unless one was told
 * of before. */
static void
tell_round(struct services *s, struct unit *u, const struct eps_list *list)
{
    for (size_t i = 0; i < list->n; i++) {
        const struct unit *to;
        enum nesting nesting =
            list->eps[i].nested
                ? services_find_nested(s, u, &list->eps[i], &to)
                : NESTING_SERVICE;

        if (nesting == NESTING_ITSELF || nesting == NESTING_ROUND) {
            if (!u->told_nesting) {
                notice_loop(s->kube, s->model, u, &list->eps[i], to);
            }
            u->told_nesting = true;
            return;
        }
    }
    u->told_nesting = false;
}

void
unit_check_nesting(struct services *s, struct unit *u,
                   const struct eps_list *list)
{
    bool nests = eps_list_has_nested(list);

    s->nesting_changed |= nests != u->nests;
    u->nests = nests;
    if (nests) {
        tell_round(s, u, list);
    }
}

static void
check_again(struct services *s, struct unit *u)
{
    const struct model_service *ms =
        model_find_service(s->model, u->ns, u->name);
    struct eps_place here = services_place(s);

    for (size_t i = 0; ms && ms->svc && i < ms->svc->n_ports; i++) {
        const struct svc_port *port = &ms->svc->ports[i];
        struct eps_choice choice;

        if (port->name != u->port_name || port->proto != u->proto) {
            continue;
        }
        eps_choose(ms, port, u->family, &here, &choice);
        tell_round(s, u,
                   ms->svc->internal_policy == SVC_POLICY_LOCAL
                       ? &choice.local
                       : &choice.cluster);
        eps_choice_uninit(&choice);
    }
}

void
units_check_nesting(struct services *s)
{
    struct unit *u;

    if (!s->nesting_changed) {
        return;
    }
    s->nesting_changed = false;
    HMAP_FOR_EACH (u, id_node, &s->units) {
        if (u->nests) {
            check_again(s, u);
        }
    }
}
