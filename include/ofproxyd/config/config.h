/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_CONFIG_CONFIG_H
#define OFPROXYD_CONFIG_CONFIG_H 1

/* antrea-agent.conf: every key that Antrea's agent knows, read, checked and
 * given its default, by the table options.def. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ofproxyd/base/err.h"
#include "ofproxyd/base/ip.h"

/* Enumerated values, each with its text in the file: see options.def. */
enum cfg_encap_mode {
    CFG_ENCAP,
    CFG_NO_ENCAP,
    CFG_HYBRID,
    CFG_NETWORK_POLICY_ONLY
};
enum cfg_datapath_type {
    CFG_DATAPATH_SYSTEM,
    CFG_DATAPATH_NETDEV
};

/* Lists. */
struct cfg_strings {
    char **s;
    size_t n;
};
struct cfg_cidrs {
    struct cidr *cidrs;
    size_t n;
};

#endif /* ofproxyd/config/config.h */
