/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_AGENT_ADDRS_H
#define OFPROXYD_AGENT_ADDRS_H 1

/* Who has which address and port, of several Service ports that claim it.
 *
 * The one whose Service is older has it, of equally old ones the one whose
 * name comes first (design.md 1.11).  The flow table has the same rule, for
 * each flow; but what an address takes may be several flows, and not the same
 * ones for everybody, so that two Service ports could get half of one each.
 * Pure. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <openvswitch/hmap.h>
#include <openvswitch/list.h>

#include "ofproxyd/base/proto.h"
#include "ofproxyd/pipeline/pipeline.h"

struct addr_owner;

struct addr {
    enum pipe_frontend_kind kind;
    struct ip ip; /* "::" of PIPE_NODE_PORT. */
    uint16_t port;
    bool lost; /* Another owner has it. */

    /* Private. */
    struct hmap_node node;
    struct addr_owner *owner;
};

/* A Service port in one family. */
struct addr_owner {
    /* Set before the first addrs_set(). */
    const char *name, *port_name;
    uint32_t id; /* Decides between owners that are equal else. */
    enum proto proto;
    enum ip_family family;

    /* What it claims, ordered by kind and address. */
    struct addr *addrs;
    size_t n;

    /* Private. */
    int64_t rank;
    struct ovs_list changed_node; /* In struct addrs's 'changed', or empty. */
};

struct addrs;

/* Told of each address of an owner that is new or gone, new ones first.  May
 * not change the table. */
typedef void addrs_change_func(const struct addr *, bool gone, void *aux);

struct addrs *addrs_create(addrs_change_func *, void *aux);
void addrs_destroy(struct addrs *); /* No owner claims anything; or NULL. */

/* Must be called before an owner's first addrs_set(). */
void addr_owner_init(struct addr_owner *);

/* Makes the addresses of 'frontends', each of which is there once, all that
 * 'owner' claims, at 'rank': the lower comes first.  Claiming nothing takes
 * the owner out of the table. */
void addrs_set(struct addrs *, struct addr_owner *owner, int64_t rank,
               const struct pipe_frontend *frontends, size_t n);

/* Returns true if another owner has 'frontend', which 'owner' claims. */
bool addr_owner_lost(const struct addr_owner *owner,
                     const struct pipe_frontend *frontend);

/* Returns the first address of 'owner' that another one has, or NULL. */
const struct addr *addr_owner_find_lost(const struct addr_owner *owner);

/* Takes the next owner that got or lost an address because of what another
 * one claims or claims no longer, or returns NULL. */
struct addr_owner *addrs_pop_changed(struct addrs *);

/* What 'owner' got or lost is done: addrs_pop_changed() needn't return it. */
void addr_owner_seen(struct addr_owner *owner);

/* Returns the one that has what 'addr' claims. */
const struct addr_owner *addrs_winner(const struct addrs *,
                                      const struct addr *addr);

/* Returns the claim of the owner that has 'ip' and 'port', or NULL. */
const struct addr *addrs_find(const struct addrs *, enum proto,
                              const struct ip *ip, uint16_t port);

#endif /* src/agent/addrs.h */
