/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_AGENT_SERVICES_H
#define OFPROXYD_AGENT_SERVICES_H 1

/* Services, from the model to the flow table.
 *
 * The unit of work is one Service port in one family: it has an object id, at
 * most two groups, and the flows of its addresses; it is rendered whole and
 * is one owner in the flow table, so that what the switch refuses of one unit
 * stops no other, the same port's other family included.  Beside its units
 * a Service has the rest of its cluster IPs (clusterips.h). */

#include <openvswitch/dynamic-string.h>
#include <openvswitch/hmap.h>
#include <openvswitch/list.h>

#include "addrs.h"
#include "clusterips.h"
#include "ofproxyd/config/config.h"
#include "ofproxyd/flow/cookie.h"
#include "ofproxyd/flow/flowtab.h"
#include "ofproxyd/model/endpoints.h"
#include "ofproxyd/model/model.h"
#include "ofproxyd/pipeline/pipeline.h"

struct services;
struct stale;
struct kube;

/* One Service port in one family. */
struct unit {
    struct ovs_list list_node; /* In its Service's list. */
    struct hmap_node id_node;  /* By 'object_id'. */
    const char *ns, *name;     /* Of its Service's entry. */
    const char *full_name;     /* "ns/name", of the same. */
    const char *port_name;     /* Interned. */
    enum proto proto;
    enum ip_family family;
    uint32_t object_id;
    uint32_t n_cluster, n_local; /* Endpoints chosen. */
    uint16_t port;
    uint32_t affinity_s;       /* As in struct pipe_service. */
    struct ip ip;              /* Cluster IP. */
    enum pipe_verdict verdict; /* Of the cluster IP. */
    struct addr_owner claims;  /* All addresses that it is reached by.  Those
                                * that are lost to others are left out of what
                                * is rendered. */
    bool conflict;             /* Some are. */
    bool told;                 /* And the owner has been told. */
    bool nests;                /* Endpoints of the cluster IP are cluster IPs
                                * themselves. */
    bool told_nesting;         /* The owner has been told of one that leads
                                * round. */
};

/* Is told of each Service that is rendered, whether it is served or not; it
 * may have gone altogether. */
typedef void services_observer(const struct model_service *, bool served,
                               void *aux);

/* All must live longer, but for the flow table: it refers to the names of
 * Services and must be destroyed before. */
struct services_cfg {
    struct model *model;
    struct flowtab *flowtab;
    const struct cfg *cfg;
    struct kube *kube;           /* Events go there; NULL: there are none. */
    struct stale *stale;         /* Is told of every change, or NULL. */
    services_observer *observer; /* Or NULL. */
    void *observer_aux;
    struct ip server; /* The API server's, "::" if its address isn't known. */
    uint16_t server_port;
};

struct services *services_create(const struct services_cfg *);
void services_destroy(struct services *); /* NULL is allowed. */

/* Returns the unit whose an address in 'claims' of a unit is. */
const struct unit *services_find_winner(const struct services *,
                                        const struct addr *);

/* Renders Services that changed until none is left or 'deadline_ms' of
 * time_msec() has passed; one with very many ports may then have been rendered
 * in part.  Returns true if none is left. */
bool services_run(struct services *, long long int deadline_ms);

/* True if services_run() has something to do. */
bool services_has_work(const struct services *);

/* Number of units, and of cluster IPs, that changed what they want of the
 * bridge since the creation. */
uint64_t services_n_changes(const struct services *);

/* A unit has got or lost an address that the host must know to lead packets
 * into the bridge.  Several units may have the same. */
struct addr_change {
    enum pipe_frontend_kind kind;
    enum ip_family family;
    struct ip ip; /* "::" of PIPE_NODE_PORT. */
    enum proto proto;
    uint16_t port;
    bool gone;
};

/* Hands out what changed since the last call, in order: an array that is the
 * caller's to free(), or NULL.  Nothing is kept without
 * antreaProxy.proxyAll. */
struct addr_change *services_take_addr_changes(struct services *,
                                               size_t *ret_n);

/* The addresses of this node, copied: all of them, in ascending order (an
 * external IP may be one), whether NodePorts are served there or not.
 * Services that depend on them are rendered anew. */
void services_set_node_ips(struct services *, const struct ip *, size_t n);

/* The addresses of the gateway link by family, copied; "::" if none. The host
 * translates what is sent to them as it does for its other addresses. Services
 * that depend on them are rendered anew. */
void services_set_gateway_ips(struct services *,
                              const struct ip[N_IP_FAMILIES]);

/* The networks of this cluster's Services, copied: an endpoint in one is a
 * cluster IP, and chosen from in turn (nested.c of the pipeline).  All
 * Services are rendered anew when they change. */
void services_set_nesting(struct services *, const struct cidr *, size_t n);

/* The node as endpoints are chosen for it, with these networks.  Valid until
 * the model or they change. */
struct eps_place services_place(const struct services *);

/* What an endpoint that is a cluster IP leads to. */
enum nesting {
    NESTING_SERVICE, /* Another Service's endpoints. */
    NESTING_NOBODY,  /* A reject: no Service has this address and port. */
    NESTING_ITSELF,  /* A reject: the Service itself has it. */
    NESTING_ROUND    /* A reject: another one, which nests, too. */
};

/* Returns what 'eps', a nested endpoint of 'u', leads to, and sets '*ret_unit'
 * to the unit that has its address, NULL if none has. */
enum nesting services_find_nested(const struct services *,
                                  const struct unit *u, const struct eps *eps,
                                  const struct unit **ret_unit);

/* Returns the affinity timeout of the unit with that object id, in seconds; 0
 * if it has no affinity, or there is none. */
uint32_t services_affinity_s(const struct services *, uint32_t object_id);

/* How often affinities of units changed or ended since the creation, and how
 * many units have a timeout above PIPE_AFFINITY_MAX_S. */
uint64_t services_n_affinity_changes(const struct services *);
size_t services_n_long_affinities(const struct services *);

/* Calls 'cb' for each unit of one Service, or of all if 'ns' is NULL, ordered
 * by name; also for those whose port has gone, until the others of the Service
 * are rendered. */
void services_for_each(const struct services *, const char *ns,
                       const char *name,
                       void (*cb)(const struct unit *, void *aux), void *aux);

/* Returns the unit of an owner in the flow table, or NULL. */
const struct unit *services_find_owner(const struct services *,
                                       uint64_t owner);

/* Returns the cluster IP of a Service in that family, or NULL if it isn't
 * served there. */
const struct clusterip *services_cluster_ip(const struct services *,
                                            const char *ns, const char *name,
                                            enum ip_family);

/* Returns the cluster IP of an owner in the flow table, or NULL. */
const struct clusterip *services_find_cluster_ip(const struct services *,
                                                 uint64_t owner);

/* The owner id of a unit in the flow table. */
uint64_t unit_owner(const struct unit *);

/* Appends "ns/name:port/PROTO (IPv4)". */
void unit_format(const struct unit *, struct ds *);

#endif /* src/agent/services.h */
