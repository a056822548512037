/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CTL_TRACE_H
#define CTL_TRACE_H 1

/* What becomes of a new connection, as the switch says, in words. */

#include "ofproxyd/base/err.h"

struct trace_cfg {
    const char *daemon;          /* Control socket of ofproxyd. */
    const char *vswitchd;        /* That of ovs-vswitchd; NULL: found. */

    /* As agent_format_trace() takes them; 'peer' is its 'client[1]'. */
    const char *client, *target, *peer;
};

/* Traces and prints.  Returns 0, or a positive errno value with 'err'. */
int trace_run(const struct trace_cfg *, struct err *err)
    OVS_WARN_UNUSED_RESULT;

#endif /* src/ctl/trace.h */
