/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_AGENT_LEARNED_H
#define OFPROXYD_AGENT_LEARNED_H 1

/* Carries out on the switch what affinity.h decides: asks for learned flows
 * when they are due, and tells which Service's timeout is theirs. */

#include <stdbool.h>

#include "ofproxyd/flow/flowtab.h"
#include "ofproxyd/switch/ofconn.h"
#include "services.h"

struct learned;

/* Everything must live longer.  Tells the flow table where flows are
 * learned. */
struct learned *learned_create(const struct services *, struct flowtab *,
                               struct ofconn *);
void learned_destroy(struct learned *); /* NULL is allowed. */

/* 'complete': all Services are known and rendered.  Before, nothing is asked
 * for. */
void learned_run(struct learned *, bool complete);
void learned_wait(const struct learned *);

#endif /* src/agent/learned.h */
