/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOST_MEMBERSET_H
#define HOST_MEMBERSET_H 1

/* A set of addresses or networks, or of transport ports at an address or at
 * any: what is wanted, what the kernel has, and the difference.
 *
 * Members are counted, since several may want the same.  The kernel's interval
 * sets refuse a network inside another one, so only those are installed that
 * no other one contains; the others are "shadowed" until that one goes.  A
 * change costs a look-up for each prefix length in use, and a walk over the
 * set only where networks of several lengths are wanted.
 *
 * Pure: no socket. */

#include <stdbool.h>
#include <stddef.h>

#include <openvswitch/hmap.h>
#include <openvswitch/list.h>

#include "ofproxyd/base/ip.h"
#include "ofproxyd/host/rules.h"

struct member {
    struct hmap_node node;        /* In 'members'. */
    struct ovs_list pending_node; /* In 'to_add' or 'to_del', or empty. */
    struct cidr cidr;             /* Host bits zero. */
    uint8_t proto;                /* Of a port: its protocol, IPPROTO_*... */
    uint16_t port;                /* ...and number; of others both are 0. */
    unsigned int count;           /* How many want it. */
    bool shadowed;                /* Inside another wanted one. */
    bool installed;               /* The kernel has it. */
};

struct memberset {
    struct hmap members;
    struct ovs_list to_add; /* Members that the kernel lacks, */
    struct ovs_list to_del; /* and those that it should not have. */
    size_t n_wanted;        /* Members with a count. */
    /* Of the wanted ones, how many have this prefix length. */
    unsigned int n_plen[N_IP_FAMILIES][129];
};

void memberset_init(struct memberset *);
void memberset_uninit(struct memberset *);

/* One more or one less wants it; host bits don't count.  memberset_add() is
 * true if it is the first one. */
bool memberset_add(struct memberset *, const struct cidr *);
void memberset_remove(struct memberset *, const struct cidr *);

/* The same for a port. */
bool memberset_add_port(struct memberset *, const struct rules_port *);
void memberset_remove_port(struct memberset *, const struct rules_port *);

/* True if the kernel has to have it. */
static inline bool
member_is_due(const struct member *m)
{
    return m->count && !m->shadowed;
}

/* Says what the kernel has: forgets all, or knows of one (host bits zero). */
void memberset_have_none(struct memberset *);
void memberset_have(struct memberset *, const struct cidr *);
void memberset_have_port(struct memberset *, const struct rules_port *);

/* Says that the kernel has exactly what is due. */
void memberset_have_all(struct memberset *);

/* Says that the kernel has done what a member's list says.  May free it. */
void memberset_done(struct memberset *, struct member *);

/* True if a wanted member contains exactly this address. */
bool memberset_wants_ip(const struct memberset *, const struct ip *);

/* True if this port is wanted. */
bool memberset_wants_port(const struct memberset *, const struct rules_port *);

#endif /* host/memberset.h */
