/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_AGENT_SERVED_H
#define OFPROXYD_AGENT_SERVED_H 1

/* Which Services are served at all.  Pure. */

#include "ofproxyd/config/config.h"
#include "ofproxyd/model/objects.h"

/* Returns why nothing of 'svc' is served, in words for an operator, or NULL if
 * it is. */
const char *served_why_not(const struct cfg *, const struct svc *svc);

#endif /* src/agent/served.h */
