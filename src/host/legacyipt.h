/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOST_LEGACYIPT_H
#define HOST_LEGACYIPT_H 1

/* What legacy iptables (the kernel's ip_tables, not nf_tables) has, as far as
 * its socket options tell without its tools.  Only tables that exist are asked
 * for: the kernel would make others. */

#include <stdbool.h>

#include "ofproxyd/base/ip.h"

struct legacyipt {
    bool forward_drops; /* The policy of filter's FORWARD is DROP. */
    bool kube_proxy;    /* There are chains KUBE-*, */
    bool antrea;        /* or ANTREA-*. */
};

/* Reads the tables of a family.  What can't be read counts as not there. */
struct legacyipt legacyipt_read(enum ip_family);

#endif /* host/legacyipt.h */
