/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_AGENT_UNITID_H
#define OFPROXYD_AGENT_UNITID_H 1

/* The object id of a unit, and of a cluster IP: the same on every node and
 * after every restart, as far as that goes (docs/decisions/0003). */

#include <stdbool.h>
#include <stdint.h>

#include "ofproxyd/base/idpool.h"
#include "ofproxyd/flow/flowtab.h"
#include "services.h"

/* Takes an id from 'ids' for 'u', whose names, protocol and family are set:
 * the one that the switch has for it, by what 'flowtab' knows of the flows at
 * the frontends of 'like', or else the first free one from that which the
 * names prefer.  Returns false if none is left. */
bool unitid_take(struct idpool *ids, const struct flowtab *flowtab,
                 const struct unit *u, const struct pipe_service *like,
                 uint32_t *ret_id);

/* The same for the Service "ns/name", 'full_name', in the family of its
 * cluster IP 'ip', from another pool. */
bool unitid_take_cluster_ip(struct idpool *ids, const struct flowtab *flowtab,
                            const char *full_name, const struct ip *ip,
                            uint32_t *ret_id);

#endif /* src/agent/unitid.h */
