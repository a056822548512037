/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_AGENT_CLEANUP_H
#define OFPROXYD_AGENT_CLEANUP_H 1

/* `ofproxyd --cleanup`: takes away from bridge and host what ofproxyd has put
 * there, and nothing else.  Needs no API server. */

#include <openvswitch/compiler.h>
#include <openvswitch/dynamic-string.h>

#include "ofproxyd/config/config.h"

/* What a clean-up has to say, a line each. */
struct cleanup_report {
    struct ds done;   /* "removed ..." */
    struct ds left;   /* What is ours and could not go: "left ...". */
    struct ds failed; /* What went wrong, so that another run is needed. */
};

/* Makes a report without lines, for which the caller owes a
 * cleanup_report_uninit(). */
void cleanup_report_init(struct cleanup_report *);
/* Frees the lines. */
void cleanup_report_uninit(struct cleanup_report *);

/* Removes all that is ours, for the bridge and the gateway that 'cfg' names,
 * and fills '*report'.  Each part is done whether or not others succeed; what
 * is gone already is no failure.  Blocks, but each part has a deadline.
 *
 * No daemon may run on the bridge: it would put all of it back.
 *
 * Returns 0, or the positive errno value of the first failure. */
int cleanup_run(const struct cfg *, struct cleanup_report *report)
    OVS_WARN_UNUSED_RESULT;

#endif /* ofproxyd/agent/cleanup.h */
