/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_HOST_RULES_H
#define OFPROXYD_HOST_RULES_H 1

/* The host's packet rules, as far as they are ours: `table inet ofproxyd`,
 * and two accept rules at the top of iptables' FORWARD chain where there is
 * one, since no table of ours can overrule another's drop.
 *
 * The table is a function of what is wanted.  It is written as a whole, in one
 * transaction, when it is missing or differs; members of its sets are added
 * and removed alone, at a cost that does not grow with the sets.  The kernel's
 * notifications tell when somebody else changed it.
 *
 * Tunnel packets between this node and the other nodes are not tracked.
 * Connections that were tracked before the rule came are removed from the
 * host's own conntrack zone once it is there.
 *
 * NodePorts and external addresses are led into the bridge, by translation or
 * by a mark (docs/decisions/0008), and so are the host's answers to clients
 * that came from there; of UDP and SCTP, connections are removed
 * from that zone that began before and would go on the wrong way.
 *
 * Names in the log, and never removes: what kube-proxy or Antrea have left
 * behind, and a legacy iptables FORWARD policy of DROP.
 *
 * Never blocks but for the kernel's work on a request: well below a
 * millisecond, and with thousands of nodes or ports some tens of milliseconds
 * when the whole table is written in place of another one
 * (docs/decisions/0005). */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <openvswitch/dynamic-string.h>
#include <openvswitch/types.h>

#include "ofproxyd/base/err.h"
#include "ofproxyd/base/ip.h"
#include "ofproxyd/base/proto.h"

struct rules;

/* What is wanted, but for the members of the sets.  All is copied. */
struct rules_want {
    const char *gateway; /* Link name; NULL: nothing is wanted yet. */
    struct ip gateway_ips[N_IP_FAMILIES]; /* "::" for none, also below. */
    struct ip virtual_ips[N_IP_FAMILIES];

    /* What the bridge is sent instead of a NodePort address, or of an external
     * address that is this node's; "::": NodePorts and external addresses are
     * not led into the bridge. */
    struct ip node_port_ips[N_IP_FAMILIES];
    struct eth_addr kept_mac; /* Sender of what the bridge gives back with the
                               * client's address: answers to it are led into
                               * the bridge. */

    const struct cidr *pod_cidrs; /* This node's. */
    size_t n_pod_cidrs;
    bool masquerade;       /* This node's pods to outside the cluster. */
    bool random_ports;     /* Masquerade with random source ports. */
    uint16_t notrack_port; /* UDP port of the tunnel; 0: no NOTRACK. */
    struct ip transport[N_IP_FAMILIES]; /* This node's tunnel addresses. */
    bool complete; /* False: nothing of an earlier run is taken away. */
};

enum rules_set_id {
    RULES_POD_CIDRS, /* Of all nodes: not to be masqueraded. */
    RULES_NODES,     /* Transport addresses of the other nodes, as CIDRs of
                      * full length. */
    RULES_NODE_PORT_ADDRS, /* Of this node, on which NodePorts are served, as
                            * CIDRs of full length.  127.0.0.1 is for this
                            * node only. */
    RULES_NODE_PORTS,      /* Ports, at "0.0.0.0" or "::". */
    RULES_EXTERNAL         /* Ports at external addresses of Services. */
};
#define N_RULES_SETS 5

/* A member of RULES_NODE_PORTS and RULES_EXTERNAL. */
struct rules_port {
    struct ip ip;
    enum proto proto;
    uint16_t port;
};

/* Returns rules that want nothing; opens its sockets at the first run. */
struct rules *rules_create(void);
void rules_destroy(struct rules *); /* NULL is allowed; leaves all in place. */

/* Sets what is wanted from now on.  Cheap if nothing differs from before. */
void rules_set(struct rules *, const struct rules_want *);

/* One more wants this member, or one less: several may want the same.  A
 * member inside another one is allowed.  Removing what is not there does
 * nothing, and so does a network where addresses belong. */
void rules_add_member(struct rules *, enum rules_set_id, const struct cidr *);
void rules_remove_member(struct rules *, enum rules_set_id,
                         const struct cidr *);
void rules_add_port(struct rules *, enum rules_set_id,
                    const struct rules_port *);
void rules_remove_port(struct rules *, enum rules_set_id,
                       const struct rules_port *);

/* True if the table in the kernel has the rules by which nothing but this node
 * itself can reach 127.0.0.1 by the gateway, whatever the link's settings. */
bool rules_guard_localhost(const struct rules *);

/* True if the table in the kernel may be that of an earlier run, which stays
 * as it is until all that is wanted is known. */
bool rules_are_of_earlier_run(const struct rules *);

/* Does what can be done without waiting. */
void rules_run(struct rules *);
/* Arranges for poll_block() to wake up when rules_run() has work. */
void rules_wait(struct rules *);

/* True if the kernel has all that is wanted, and nothing else in our table; or
 * if one of an earlier run stays, with its rules, until all is known. */
bool rules_in_sync(const struct rules *);

/* Appends the present state, what is missing and why. */
void rules_format_state(const struct rules *, struct ds *);

/* Removes our table, and our rules from iptables' chains.  Appends a line to
 * 'done' for each thing that it removed; nothing if there was nothing.
 * Returns 0 or a positive errno value, then with the reason in 'err'; what
 * could be removed is removed then too. */
int rules_cleanup(struct ds *done, struct err *err) OVS_WARN_UNUSED_RESULT;

#endif /* ofproxyd/host/rules.h */
