/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_HOST_NODEIPS_H
#define OFPROXYD_HOST_NODEIPS_H 1

/* This node's addresses, and those of them on which NodePorts are served.
 *
 * They are read over rtnetlink, and again when the kernel notifies of one
 * that comes or goes, after a short pause.  If they can't be read the last
 * ones stay.
 *
 * Never blocks: rtnetlink answers at once. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <openvswitch/dynamic-string.h>

#include "ofproxyd/base/ip.h"

struct nodeips;

/* Addresses that are kept; more are left out, and said so. */
#define NODEIPS_MAX 16384

/* What to look for.  The arrays and strings are copied. */
struct nodeips_want {
    const char *const *not_ifaces; /* Links of ours: their addresses don't
                                    * count at all. */
    size_t n_not_ifaces;
    const struct cidr *cidrs; /* Of NodePort addresses; none: all. */
    size_t n_cidrs;
};

/* Without link-local addresses of IPv6 and loopback ones.  In ascending
 * order, each once. */
struct nodeips_state {
    const struct ip *ips; /* All that the kernel takes for its own. */
    size_t n_ips;
    const struct ip *node_ports; /* Those with NodePorts: in one of the CIDRs,
                                  * and not on kube-ipvs0 or a link of
                                  * Antrea's Egress, whose addresses are for
                                  * something else. */
    size_t n_node_ports;
    bool localhost; /* So is 127.0.0.1; "::1" never is. */
    uint64_t seqno; /* Grows with each change of the above; 0 until they have
                     * been read. */
};

/* Returns one that has read nothing; opens its sockets at the first run. */
struct nodeips *nodeips_create(void);
void nodeips_destroy(struct nodeips *); /* NULL is allowed. */

/* Sets what to look for from now on. */
void nodeips_set(struct nodeips *, const struct nodeips_want *);

/* Does what can be done without blocking. */
void nodeips_run(struct nodeips *);
/* Arranges for poll_block() to wake up when nodeips_run() has work. */
void nodeips_wait(struct nodeips *);

/* The present state; its arrays are valid until the next nodeips_run(). */
const struct nodeips_state *nodeips_state(const struct nodeips *);

/* Appends the state in a line. */
void nodeips_format(const struct nodeips *, struct ds *);

#endif /* ofproxyd/host/nodeips.h */
