/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOST_PROCSYS_H
#define HOST_PROCSYS_H 1

/* The kernel's network settings under /proc/sys.
 *
 * A setting is only written if it differs, so a read-only /proc/sys is no
 * harm when somebody else has set it right; a failure is named once. */

#include <stdbool.h>

enum procsys_setting {
    PROCSYS_ARP_ANNOUNCE,
    PROCSYS_ARP_IGNORE,
    PROCSYS_RP_FILTER,
    PROCSYS_ROUTE_LOCALNET,
    PROCSYS_NO_LOCALNET,
    PROCSYS_DISABLE_IPV6,
    PROCSYS_ACCEPT_DAD,
    PROCSYS_IPV4_FORWARD,
    PROCSYS_LINK_FORWARD,
    PROCSYS_IPV6_FORWARD
};
#define PROCSYS_N_SETTINGS 10

struct procsys {
    bool named[PROCSYS_N_SETTINGS]; /* Failures that have been logged. */
    bool uplink_strict;             /* So has this about the uplink, */
    bool uplink_no_forward;         /* and this. */
};

/* Sets what the gateway link 'name' needs, for IPv6 too if 'ipv6'. */
void procsys_tune_link(struct procsys *, const char *name, bool ipv6);

/* Lets 127.0.0.1 talk by the gateway link 'name', or not: the only setting
 * that is taken back, since it opens what is closed else. */
void procsys_set_localhost(struct procsys *, const char *name, bool);

/* Sets what the link 'name' of a pod needs, which the kernel listens on as
 * well as the switch.  A name that no link can have, and one that none has, is
 * passed over: not all interfaces of a switch are the kernel's. */
void procsys_tune_pod_link(struct procsys *, const char *name);

/* Forwards IPv4, also what comes from the gateway link 'name': a link that was
 * made after the node began to forward may not. */
void procsys_forward_ipv4(struct procsys *, const char *name);

/* 'ra_link' is the link of a default route that came from a router
 * advertisement, or NULL.  If the kernel handles those itself, forwarding
 * would make it drop that route: then nothing is set, but named. */
void procsys_forward_ipv6(struct procsys *, const char *ra_link);

/* Says once what is in the way of pods' packets that come in by the link
 * 'name' as they are.  Its settings are the operator's, so they stay. */
void procsys_check_uplink(struct procsys *, const char *name);

#endif /* host/procsys.h */
