/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_AGENT_TAKEOVER_H
#define OFPROXYD_AGENT_TAKEOVER_H 1

/* The bridge changes its master: from Antrea's agent, from an older layout of
 * ours, or from a switch that forwarded by itself.
 *
 * Tells the flow table and the connection what to look for, says what was
 * found, keeps the database from changing what belongs to flows that are still
 * in force, and cleans up behind the flow table, which does the work in one
 * transaction (flowtab.h). */

#include <openvswitch/dynamic-string.h>
#include <stdbool.h>

#include "ofproxyd/flow/flowtab.h"
#include "ofproxyd/switch/ofconn.h"
#include "ofproxyd/switch/ovsdb.h"

struct takeover;

/* All must live longer. */
struct takeover_cfg {
    const char *bridge;
    struct flowtab *flowtab;
    struct ofconn *ofconn;
    struct ovsdb *ovsdb;
};

struct takeover *takeover_create(const struct takeover_cfg *);
void takeover_destroy(struct takeover *); /* NULL is allowed. */

/* To be called in each turn, before the connection runs and after it.
 * 'ready': all that is wanted is rendered, and nothing that it depends on is
 * missing. */
void takeover_run(struct takeover *, bool ready);

/* True if nothing of a predecessor is left. */
bool takeover_is_done(const struct takeover *);

/* A line on the predecessor that is still in force, or nothing. */
void takeover_format(const struct takeover *, struct ds *);

#endif /* src/agent/takeover.h */
