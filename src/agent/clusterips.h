/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_AGENT_CLUSTERIPS_H
#define OFPROXYD_AGENT_CLUSTERIPS_H 1

/* What is sent to a Service's cluster IP, but to none of its ports, is
 * rejected.
 *
 * The flow for that is the whole Service's, in one family, so it has an owner
 * of its own beside the units, with an object id of its own.  Of two Services
 * with one cluster IP the flow table gives it to the one that would get a
 * port, too: the older, then by name.  A Service has it even if others have
 * all of its ports: whoever asks another port there is to be told, too. */

#include <stdbool.h>
#include <stdint.h>

#include <openvswitch/dynamic-string.h>
#include <openvswitch/hmap.h>

#include "ofproxyd/base/ip.h"
#include "ofproxyd/flow/flowtab.h"

/* A Service's in one family; all zeros for none. */
struct clusterip {
    bool exists;
    struct ip ip;
    uint32_t object_id;

    const char *full_name;    /* Of its Service, "ns/name". */
    struct hmap_node id_node; /* By 'object_id'. */
};

struct clusterips;

/* The flow table must live longer. */
struct clusterips *clusterips_create(struct flowtab *);
void clusterips_destroy(struct clusterips *); /* None exists; or NULL. */

/* Makes 'ip' the cluster IP of 'c', or none if NULL.  Returns true if that
 * changed what is wanted of the bridge.  'full_name' stays as long as 'c'
 * exists, 'created_s' is when the Service was made. */
bool clusterip_set(struct clusterips *, struct clusterip *c,
                   const char *full_name, int64_t created_s,
                   const struct ip *ip);

/* The owner id in the flow table of one that exists. */
uint64_t clusterip_owner(const struct clusterip *);

/* Appends "ns/name, other ports (IPv4)" for one that exists. */
void clusterip_format(const struct clusterip *, struct ds *);

/* Forgets 'c', if it exists, without taking anything back. */
void clusterip_forget(struct clusterips *, struct clusterip *c);

/* Returns the one of an owner in the flow table, or NULL. */
const struct clusterip *clusterips_find_owner(const struct clusterips *,
                                              uint64_t owner);

#endif /* src/agent/clusterips.h */
