/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_AGENT_SERVICES_PRIVATE_H
#define OFPROXYD_AGENT_SERVICES_PRIVATE_H 1

/* What the files of services.h share: services.c (the node, what others ask),
 * services-render.c (one Service after the other), services-unit.c (one
 * Service port in one family) and services-nesting.c (endpoints that are
 * cluster IPs). */

#include <openvswitch/shash.h>

#include "frontends.h"
#include "services.h"

struct services {
    struct model *model;
    struct kube *kube; /* For Events, or NULL. */
    struct flowtab *flowtab;
    const struct cfg *cfg;
    struct stale *stale; /* Or NULL. */
    struct idpool *ids;
    struct clusterips *cluster_ips;
    struct shash entries;   /* "ns/name" to struct entry. */
    struct ovs_list paused; /* Entries that have more to do. */
    struct hmap units;      /* By object id. */
    struct addrs *addrs;    /* Who of them has which. */
    uint64_t n_changes;
    uint64_t n_affinity_changes;
    size_t n_long;   /* Units with a timeout that no flow can have. */
    bool has_untold; /* There are conflicts to be told. */

    /* What services_take_addr_changes() hands out. */
    struct addr_change *changes;
    size_t n_addr_changes, allocated_changes;

    struct ip *node_ips;
    size_t n_node_ips;
    struct ip gateway_ips[N_IP_FAMILIES];
    struct cidr *nesting; /* As in struct eps_place. */
    size_t n_nesting;
    bool nesting_changed; /* A unit begins or ends to nest, or one that nests
                           * has other addresses. */

    struct ip server; /* As in struct services_cfg. */
    uint16_t server_port;

    services_observer *observer; /* Or NULL. */
    void *observer_aux;
};

/* A Service is rendered in steps of one unit each, so that one of thousands of
 * ports can go on in the next turn. */
enum step {
    /* All units claim their addresses before one is rendered: one may have
     * got the address of another. */
    STEP_CLAIM,
    STEP_RENDER,

    /* Units without port go last, when others have what was theirs. */
    STEP_WITHDRAW,
    STEP_DONE
};

/* A Service that has units. */
struct entry {
    char *ns, *name;
    const char *full_name; /* "ns/name", the key in 'entries'. */
    struct ovs_list units;
    struct ovs_list leaving; /* Units that have no port any more. */
    struct clusterip cluster_ips[N_IP_FAMILIES];

    struct ovs_list paused_node; /* In 'paused' of struct services. */
    uint32_t next;               /* Unit of 'step'. */
    enum step step;
    bool paused;
    bool again;         /* It changed while it was paused. */
    bool uses_node_ips; /* Depends on the node's addresses. */
};

/* services-unit.c */

/* Returns a new unit of 'e', without claims, or NULL if there is no id. */
struct unit *unit_create(struct services *, struct entry *e,
                         const struct svc_port *, const struct pipe_service *);
void unit_destroy(struct services *, struct unit *);

/* Takes back all that a unit wanted, and the unit. */
void unit_withdraw(struct services *, struct unit *);

/* Makes the flow table want what 'u', the unit of 'port' in the family of
 * 'frontends', should have. */
void unit_render(struct services *, const struct model_service *,
                 const struct svc_port *port,
                 const struct frontends *frontends, struct unit *u);

/* Tells of addresses that units have lost to others. */
void units_tell_conflicts(struct services *);

/* services-nesting.c */

/* 'u' is rendered with 'list' for its cluster IP.  Tells its owner of
 * endpoints that lead round. */
void unit_check_nesting(struct services *, struct unit *u,
                        const struct eps_list *list);

/* The same of all units, if 'nesting_changed'. */
void units_check_nesting(struct services *);

/* services-render.c */

/* Destroys an entry without units. */
void entry_destroy(struct services *, struct entry *);

#endif /* src/agent/services-private.h */
