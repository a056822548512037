/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_HOST_UPLINK_H
#define OFPROXYD_HOST_UPLINK_H 1

/* The link for traffic between nodes, and this node's addresses on it.
 *
 * It is found, in this order, by the name that is configured, by the blocks
 * of addresses that are, or as the link that has one of the node's addresses;
 * it is followed while the kernel renames it, takes it down, moves its
 * addresses to another link or gives it another MTU.  If there is no such link
 * any more, the last state stays until there is one: what was told to others
 * is not taken back for a flap.
 *
 * Never blocks: rtnetlink answers at once. */

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <openvswitch/compiler.h>
#include <openvswitch/dynamic-string.h>

#include "ofproxyd/base/ip.h"

struct cfg;
struct uplink;

/* What to look for.  The arrays and strings are copied. */
struct uplink_want {
    const char *iface;        /* Its name; NULL or "": not configured. */
    const struct cidr *cidrs; /* It has an address in one of these; an earlier
                               * one goes before a later one. */
    size_t n_cidrs;
    const struct ip *node_ips; /* Of this node, the most important first. */
    size_t n_node_ips;
    const char *not_iface; /* The gateway's; never this one.  Or NULL. */
};

struct uplink_state {
    char name[IFNAMSIZ]; /* "" while none has been found. */
    uint32_t mtu;        /* In bytes; 0 while none has been found. */
    struct cidr addrs[N_IP_FAMILIES]; /* With the link's prefix length, host
                                       * bits kept; "::"/0 if there is none. */
    uint64_t seqno; /* Grows with each change of the above. */
};

/* Returns an uplink that looks for nothing; opens its sockets at the first
 * run. */
struct uplink *uplink_create(void);
void uplink_destroy(struct uplink *); /* NULL is allowed. */

/* Sets what to look for from now on.  Cheap if nothing differs. */
void uplink_set(struct uplink *, const struct uplink_want *);

/* Does what can be done without blocking. */
void uplink_run(struct uplink *);
/* Arranges for poll_block() to wake up when uplink_run() has work. */
void uplink_wait(struct uplink *);

/* The present state; valid until the next uplink_run(). */
const struct uplink_state *uplink_state(const struct uplink *);

/* Appends the state in a line, and whether it is the present or the last
 * one. */
void uplink_format(const struct uplink *, struct ds *);

/* The MTU of the gateway and so of the pods, or 0 if it can't be known yet:
 * defaultMTU, or that of the uplink, 'uplink_mtu' (0 while unknown, taken as
 * 65000 if it is larger), in the modes that use tunnels less what a tunnel
 * adds to an inner packet:
 *
 *   geneve, vxlan   50   IPv4 20, UDP 8, header 8, inner Ethernet 14
 *   gre             42   IPv4 20, header with key 8, inner Ethernet 14
 *   stt             72   IPv4 20, TCP-like 20, header 18, inner Ethernet 14
 *
 * and 20 more if nodes speak IPv6 with each other ('v6_underlay').  It is
 * never below 576, which every IPv4 host takes (RFC 791). */
uint16_t uplink_mtu(const struct cfg *, uint32_t uplink_mtu, bool v6_underlay);

/* Why pods will have trouble with the MTU of uplink_mtu(), in words, or NULL
 * if they won't: one so small that IPv6 does not work ('v6_pods'; RFC 8200
 * says 1280 at least), or that packets of its size don't fit the uplink. */
const char *uplink_mtu_trouble(const struct cfg *, uint32_t uplink_mtu,
                               bool v6_underlay, bool v6_pods);

#endif /* ofproxyd/host/uplink.h */
