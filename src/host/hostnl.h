/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOST_HOSTNL_H
#define HOST_HOSTNL_H 1

/* rtnetlink for the host layer: requests with their answers, dumps and
 * notifications, in terms of plain structs.
 *
 * The kernel handles a request inside the call that sends it, so nothing here
 * waits: an answer that isn't there at once is an error. */

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

#include <openvswitch/types.h>

#include "ofproxyd/base/err.h"
#include "ofproxyd/base/ip.h"

struct hostnl;

struct hostnl_link {
    int ifindex;
    uint32_t mtu; /* In bytes. */
    bool up;      /* Administratively. */
    bool loopback;
    char name[IFNAMSIZ];
};

struct hostnl_addr {
    int ifindex;
    struct cidr cidr;
    bool global;      /* Of global scope. */
    bool unusable;    /* Duplicate address detection failed. */
    bool tentative;   /* ...or has not ended, and nothing may use it yet. */
    bool deprecated;  /* Not to be used for anything new. */
    bool secondary;   /* IPv4: not the first of its network; IPv6: temporary,
                       * for privacy. */
    uint8_t protocol; /* Who added it; 0 if unknown. */
};

/* Of the main table, or of ours (HOST_RT_TABLE), which are another kind;
 * others are not reported. */
struct hostnl_route {
    int ifindex; /* 0 with 'multipath'; in a request: the kernel finds the
                  * link that 'via' is on. */
    struct cidr dst;
    struct ip via; /* "::" for none. */
    struct ip src; /* "::" for none. */
    uint32_t metric;
    uint8_t protocol;
    uint8_t type; /* RTN_*. */
    uint8_t tos;
    bool own_table; /* Not the main one. */
    bool multipath;
    bool onlink; /* 'via' is taken to be on the link, whatever the addresses
                  * say; needs 'ifindex'. */
};

/* Of those with our protocol number, HOST_RTPROT; others are not reported. */
struct hostnl_rule {
    enum ip_family family;
    uint32_t priority;
    uint32_t mark, mask;
    uint32_t table;
    bool other; /* Something else is there that we don't make. */
};

struct hostnl_neigh {
    int ifindex;
    struct ip ip;
    struct eth_addr mac; /* Zero for none. */
    bool permanent;
    uint8_t protocol; /* Who added it; 0 if unknown. */
};

enum hostnl_kind {
    HOSTNL_LINK,
    HOSTNL_ADDR,
    HOSTNL_ROUTE,
    HOSTNL_NEIGH,
    HOSTNL_OWN_ROUTE, /* In our table; a 'route', too. */
    HOSTNL_RULE
};

/* Something that exists, or a change. */
struct hostnl_event {
    enum hostnl_kind kind;
    bool gone;
    union {
        struct hostnl_link link;
        struct hostnl_addr addr;
        struct hostnl_route route;
        struct hostnl_neigh neigh;
        struct hostnl_rule rule;
    };
};

typedef void hostnl_cb(const struct hostnl_event *, void *aux);

/* What there are notifications of. */
enum hostnl_scope {
    HOSTNL_ALL,
    HOSTNL_LINKS_AND_ADDRS
};

/* Opens the sockets.  Returns 0 or a positive errno value. */
int hostnl_open(enum hostnl_scope, struct hostnl **ret) OVS_WARN_UNUSED_RESULT;
void hostnl_close(struct hostnl *); /* NULL is allowed. */

/* Becomes readable when there are notifications. */
int hostnl_fd(const struct hostnl *);

/* Hands out all notifications that wait.  Returns 0, or ENOBUFS if some were
 * lost, or another positive errno value. */
int hostnl_events(struct hostnl *, hostnl_cb *, void *aux)
    OVS_WARN_UNUSED_RESULT;

/* Hands out all that there is of a kind, of addresses and neighbours only
 * those on 'ifindex' unless it is 0.  Not for HOSTNL_LINK.  Returns 0, or
 * EINTR if the result is inconsistent because it changed meanwhile, or another
 * positive errno value. */
int hostnl_dump(struct hostnl *, enum hostnl_kind, int ifindex, hostnl_cb *,
                void *aux) OVS_WARN_UNUSED_RESULT;

/* Looks up a link.  Returns 0, ENODEV, or another positive errno value. */
int hostnl_link_get(struct hostnl *, const char *name, struct hostnl_link *ret)
    OVS_WARN_UNUSED_RESULT;

/* The same by its index. */
int hostnl_link_get_index(struct hostnl *, int ifindex,
                          struct hostnl_link *ret) OVS_WARN_UNUSED_RESULT;

/* The rest changes the kernel's state.  Each returns 0 or a positive errno
 * value, and then says in 'err', which may be NULL, what the kernel says. */
int hostnl_link_up(struct hostnl *, int ifindex, struct err *)
    OVS_WARN_UNUSED_RESULT;

/* EEXIST if the link has the address.  IPv6 addresses are added without
 * duplicate address detection, so that they are usable at once. */
int hostnl_addr_add(struct hostnl *, const struct hostnl_addr *, struct err *)
    OVS_WARN_UNUSED_RESULT;
int hostnl_addr_del(struct hostnl *, const struct hostnl_addr *, struct err *)
    OVS_WARN_UNUSED_RESULT;

/* Adds a route: with 'replace' in place of one with the same destination and
 * metric, otherwise EEXIST if there is one. */
int hostnl_route_add(struct hostnl *, const struct hostnl_route *,
                     bool replace, struct err *) OVS_WARN_UNUSED_RESULT;
int hostnl_route_del(struct hostnl *, const struct hostnl_route *,
                     struct err *) OVS_WARN_UNUSED_RESULT;

/* Adds a permanent neighbour or makes an existing entry one. */
int hostnl_neigh_set(struct hostnl *, const struct hostnl_neigh *,
                     struct err *) OVS_WARN_UNUSED_RESULT;
int hostnl_neigh_del(struct hostnl *, const struct hostnl_neigh *,
                     struct err *) OVS_WARN_UNUSED_RESULT;

/* Adds a rule with our protocol number, EEXIST if there is the same; or
 * removes exactly that one. */
int hostnl_rule_add(struct hostnl *, const struct hostnl_rule *, struct err *)
    OVS_WARN_UNUSED_RESULT;
int hostnl_rule_del(struct hostnl *, const struct hostnl_rule *, struct err *)
    OVS_WARN_UNUSED_RESULT;

#endif /* host/hostnl.h */
