/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CTL_COUNTERS_H
#define CTL_COUNTERS_H 1

/* How many connections went where. */

#include "ofproxyd/base/err.h"

/* Prints, for each group of the Service "NAMESPACE/NAME", how many first
 * packets the switch has sent to each endpoint.  'daemon' is ofproxyd's
 * control socket.  Returns 0, or a positive errno value with 'err'. */
int counters_run(const char *daemon, const char *service, struct err *err)
    OVS_WARN_UNUSED_RESULT;

#endif /* src/ctl/counters.h */
