/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_AGENT_CLAIMS_H
#define OFPROXYD_AGENT_CLAIMS_H 1

/* Who has which network, of several that claim networks that overlap.
 *
 * Claims have a rank.  From the highest rank down, each that overlaps none of
 * those that have their network has its own; the others wait, each for one of
 * those in its way.  Adding or removing a claim costs a walk down a prefix
 * tree plus what changes hands.  Pure. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <openvswitch/list.h>

#include "ofproxyd/base/ip.h"

struct claim {
    /* Set before claims_add(), not to be touched until claims_remove(). */
    struct cidr net;    /* Without host bits. */
    void *owner;        /* The caller's; NULL for this node's own, which are
                         * above all others. */
    int64_t created_s;  /* Later is higher... */
    const char *name;   /* ...then by name, the greater is higher... */
    unsigned int index; /* ...then the lower. */

    /* The answer. */
    bool has;
    const struct claim *blocker; /* Has what is in its way; NULL if 'has'. */

    /* Private. */
    struct claims_node *node;
    struct ovs_list waiting;      /* Those that it is the blocker of... */
    struct ovs_list waiting_node; /* ...by this. */
    struct ovs_list changed_node;
    bool queued;
};

struct claims;

struct claims *claims_create(void);
void claims_destroy(struct claims *); /* All must be removed; NULL is ok. */

/* Adds a claim, which stays the caller's memory. */
void claims_add(struct claims *, struct claim *);
void claims_remove(struct claims *, struct claim *);

/* Takes the next claim whose 'has' or 'blocker' has changed, also by being
 * added, or returns NULL. */
struct claim *claims_pop_changed(struct claims *);
bool claims_has_changed(const struct claims *);

/* Steps done so far: nodes of the tree visited, and claims looked at. */
uint64_t claims_n_steps(const struct claims *);

#endif /* src/agent/claims.h */
