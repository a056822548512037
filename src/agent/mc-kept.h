/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_AGENT_MC_KEPT_H
#define OFPROXYD_AGENT_MC_KEPT_H 1

/* Flows between clusters that the switch had when we came.  They stay as long
 * as it is not known which are wanted: Gateways or ClusterInfoImports can't be
 * listed, but Services don't wait for them. */

#include <stdbool.h>
#include <stddef.h>

#include "ofproxyd/flow/flowtab.h"
#include "ofproxyd/pipeline/pipeline.h"

/* Fills '*kept', which is empty, and makes it wanted where nobody else wants
 * anything.  'node' is as rendered, in whatever role. */
void mc_kept_take(struct fout *kept, struct flowtab *,
                  const struct pipe_node *node);

/* True if there are flows of a regular node: from one that is the gateway now
 * they would lead to the gateway of before, which sends all back. */
bool mc_kept_lead_away(const struct fout *kept);

/* Returns true if anything was kept, which is no longer. */
bool mc_kept_release(struct fout *kept, struct flowtab *);

#endif /* src/agent/mc-kept.h */
