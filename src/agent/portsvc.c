/* SPDX-License-Identifier: Apache-2.0 */

/* Brings together frontends, endpoints and what else a Service says. */

#include "portsvc.h"

struct pipe_service
portsvc_frame(const struct svc *svc, const struct svc_port *port,
              const struct frontends *frontends)
{
    return (struct pipe_service){
        .family = ip_family(&frontends->frontends[0].ip),
        .proto = port->proto,
        .frontends = frontends->frontends,
        .n_frontends = frontends->n,
        .affinity_s = svc->affinity_s,
        .source_ranges = frontends->source_ranges,
        .n_source_ranges = frontends->n_source_ranges,
        .node_in_ranges = frontends->node_in_ranges,
        .takes_fragments =
            port->proto == PROTO_UDP && frontends->n_udp_ports == 1,
    };
}

static struct pipe_target
make_target(const struct eps_list *list, const struct eps_choice *choice)
{
    struct pipe_target target = { .eps = list->eps, .n_eps = list->n };

    target.verdict = list->n           ? PIPE_SELECT
                     : choice->has_any ? PIPE_DROP
                                       : PIPE_REJECT;
    return target;
}

void
portsvc_make(const struct model_service *ms, const struct svc_port *port,
             const struct frontends *frontends, const struct eps_place *here,
             struct portsvc *ret)
{
    struct eps_choice *choice = &ret->choice;
    struct pipe_target *targets = ret->svc.targets;

    ret->svc = portsvc_frame(ms->svc, port, frontends);
    eps_choose(ms, port, ret->svc.family, here, choice);
    targets[PIPE_SCOPE_CLUSTER] = make_target(&choice->cluster, choice);
    targets[PIPE_SCOPE_LOCAL] = make_target(&choice->local, choice);
}

void
portsvc_uninit(struct portsvc *p)
{
    eps_choice_uninit(&p->choice);
}
