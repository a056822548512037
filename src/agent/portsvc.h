/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_AGENT_PORTSVC_H
#define OFPROXYD_AGENT_PORTSVC_H 1

/* What the bridge shall do for a Service port in one family: its frontends
 * and the endpoints chosen for them, as the pipeline wants it.  Pure. */

#include "frontends.h"
#include "ofproxyd/model/endpoints.h"
#include "ofproxyd/model/model.h"
#include "ofproxyd/pipeline/pipeline.h"

struct portsvc {
    struct pipe_service svc; /* Without object id. */
    struct eps_choice choice;
};

/* All of it but what depends on the endpoints.  Points to what 'svc' and
 * 'frontends', which are those of 'port', point to. */
struct pipe_service portsvc_frame(const struct svc *svc,
                                  const struct svc_port *port,
                                  const struct frontends *frontends);

/* Sets '*ret', which is the caller's to portsvc_uninit(), for 'port' of
 * 'ms->svc' on the node 'here'.  It points to what its arguments point to.
 *
 * A target without endpoint is rejected if no node has one that would do, else
 * dropped (services.md 2.5). */
void portsvc_make(const struct model_service *ms, const struct svc_port *port,
                  const struct frontends *frontends,
                  const struct eps_place *here, struct portsvc *ret);
void portsvc_uninit(struct portsvc *);

#endif /* src/agent/portsvc.h */
