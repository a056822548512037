/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_MODEL_OBJECTS_H
#define OFPROXYD_MODEL_OBJECTS_H 1

/* Kubernetes objects as plain data: what a Service proxy reads of a Service,
 * an EndpointSlice, a Node and a ServiceCIDR, and of the objects of Antrea
 * Multi-cluster, and nothing else.
 *
 * An object is one block of memory (its arrays and its own strings stand
 * behind the struct) plus references into an intern pool for the strings that
 * repeat; it never changes after it was packed.  A decoder fills a struct on
 * its stack that points wherever it likes and calls x_pack() to get the
 * object; x_free() takes it back.  Strings that are absent are "" (not
 * NULL) unless said otherwise; arrays without elements may be NULL in what a
 * decoder fills and are NULL in the object. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ofproxyd/base/intern.h"
#include "ofproxyd/base/ip.h"
#include "ofproxyd/base/proto.h"

/* What all kinds carry in metadata. */
struct obj_meta {
    const char *ns;   /* Interned; "" for cluster-scoped kinds. */
    const char *name; /* Never "". */
    const char *uid;
    uint64_t version;  /* resourceVersion if it is a decimal number, else 0.
                         * Used only to order duplicates of one kind. */
    int64_t created_s; /* creationTimestamp, seconds since 1970; 0 unknown. */
};

/* core/v1 Service. */

enum svc_type {
    SVC_CLUSTER_IP,
    SVC_NODE_PORT,
    SVC_LOAD_BALANCER,
    SVC_EXTERNAL_NAME
};

enum svc_policy {
    SVC_POLICY_CLUSTER,
    SVC_POLICY_LOCAL
};

struct svc_port {
    const char *name; /* Interned; may be "". */
    enum proto proto;
    uint16_t port;      /* 1 to 65535. */
    uint16_t node_port; /* 0 if none. */
};

struct svc_ingress {
    struct ip ip;
    bool proxy; /* ipMode is "Proxy" (KEP-1860); else VIP or absent. */
};

struct svc {
    struct obj_meta meta;
    enum svc_type type;
    bool headless;                   /* clusterIP is "None". */
    enum svc_policy external_policy; /* externalTrafficPolicy. */
    enum svc_policy internal_policy; /* internalTrafficPolicy. */
    uint32_t affinity_s;  /* ClientIP affinity timeout; 0 if affinity None. */
    uint16_t health_port; /* healthCheckNodePort, 0 if none. */
    bool publish_not_ready;
    bool mc_imported;       /* Made by Antrea multicluster. */
    const char *proxy_name; /* Label service-proxy-name; NULL if absent. */

    struct ip cluster_ips[N_IP_FAMILIES]; /* "::" if none of that family. */

    struct svc_port *ports;
    size_t n_ports;
    struct ip *external_ips;
    size_t n_external_ips;
    struct svc_ingress *ingress; /* status.loadBalancer.ingress with an ip. */
    size_t n_ingress;
    struct cidr *source_ranges; /* loadBalancerSourceRanges, trimmed. */
    size_t n_source_ranges;
};

/* discovery.k8s.io/v1 EndpointSlice, of address type IPv4 or IPv6. */

struct slice_port {
    const char *name; /* Interned; "" if absent or "". */
    enum proto proto;
    uint16_t port; /* 1 to 65535. */
};

struct slice_endpoint {
    struct ip ip;            /* addresses[0]. */
    const char *node;        /* Interned nodeName, NULL if absent. */
    const char **zones;      /* Interned hints.forZones[].name. */
    const char **hint_nodes; /* Interned hints.forNodes[].name. */
    uint8_t n_zones, n_hint_nodes;
    bool ready, serving, terminating; /* With the API's defaults. */
};

struct slice {
    struct obj_meta meta;
    const char *service; /* Label kubernetes.io/service-name, never "". */
    enum ip_family family;
    int64_t trigger_ns; /* Annotation last-change-trigger-time: when what
                         * this version tells of happened, ns since 1970; 0
                         * unknown.  Not compared, either. */
    struct slice_port *ports;
    size_t n_ports;
    struct slice_endpoint *endpoints;
    size_t n_endpoints;
};

/* core/v1 Node. */

struct node_address {
    struct ip ip;
    bool external; /* ExternalIP; else InternalIP. */
};

struct node {
    struct obj_meta meta;
    const char *zone; /* Interned label topology.kubernetes.io/zone, or "". */
    bool deleting;    /* Has a deletionTimestamp. */
    bool to_be_deleted; /* Carries taint ToBeDeletedByClusterAutoscaler. */
    /* Annotation node.antrea.io/transport-addresses: where the Node wants to
     * be reached by other nodes, "::" where it doesn't say.  Something that
     * stands in it, too, but can't be used is left out. */
    struct ip transport[N_IP_FAMILIES];
    bool transport_is_bad; /* Something was left out. */
    struct cidr *pod_cidrs;
    size_t n_pod_cidrs;
    struct node_address *addresses;
    size_t n_addresses;
};

/* networking.k8s.io/v1 ServiceCIDR.  Cluster IPs are from its networks until
 * it has gone, whatever its condition Ready says: one that is being deleted
 * stays for as long as a Service has an address of it. */

#define SERVICE_CIDR_MAX 2 /* One a family. */

struct service_cidr {
    struct obj_meta meta;
    struct cidr cidrs[SERVICE_CIDR_MAX]; /* Without host bits. */
    size_t n_cidrs;
};

/* multicluster.crd.antrea.io/v1alpha1 Gateway: a Node of this cluster, its
 * name, that exchanges packets with other clusters. */
struct mc_gateway {
    struct obj_meta meta;
    struct ip gateway_ip;  /* For other clusters. */
    struct ip internal_ip; /* For the other nodes of this one. */
};

/* multicluster.crd.antrea.io/v1alpha1 ClusterInfoImport: another cluster. */
struct mc_cluster {
    struct obj_meta meta;
    const char *cluster_id;
    struct cidr service_cidr; /* Networks without host bits. */
    struct ip *gateway_ips;   /* At least one. */
    size_t n_gateway_ips;
    struct cidr *pod_cidrs;
    size_t n_pod_cidrs;
};

/* x_pack() returns a copy of '*tmpl' in one block, its repeating strings
 * interned in 'pool'; 'tmpl' and what it points to stay the caller's.
 * x_free() frees it (NULL is allowed).  x_equals() compares everything but
 * 'meta.version'. */
struct svc *svc_pack(const struct svc *tmpl, struct intern_pool *pool);
void svc_free(struct svc *, struct intern_pool *pool);
bool svc_equals(const struct svc *, const struct svc *);

/* The same for an EndpointSlice. */
struct slice *slice_pack(const struct slice *tmpl, struct intern_pool *pool);
/* The same for an EndpointSlice. */
void slice_free(struct slice *, struct intern_pool *pool);
/* The same for an EndpointSlice. */
bool slice_equals(const struct slice *, const struct slice *);

/* The same for a Node. */
struct node *node_pack(const struct node *tmpl, struct intern_pool *pool);
/* The same for a Node. */
void node_free(struct node *, struct intern_pool *pool);
/* The same for a Node. */
bool node_equals(const struct node *, const struct node *);

/* True if 'ip' is an address of 'node', which may be NULL. */
bool node_has_address(const struct node *node, const struct ip *ip);

/* The same for the kinds of which a cluster has few.  Each begins with its
 * metadata, by which the store holds it, and is freed by plain_free(). */
struct service_cidr *service_cidr_pack(const struct service_cidr *tmpl,
                                       struct intern_pool *pool);
/* The same for one of these kinds. */
bool service_cidr_equals(const struct service_cidr *,
                         const struct service_cidr *);
/* The same for one of these kinds. */
struct mc_gateway *mc_gateway_pack(const struct mc_gateway *tmpl,
                                   struct intern_pool *pool);
/* The same for one of these kinds. */
bool mc_gateway_equals(const struct mc_gateway *, const struct mc_gateway *);
/* The same for one of these kinds. */
struct mc_cluster *mc_cluster_pack(const struct mc_cluster *tmpl,
                                   struct intern_pool *pool);
/* The same for one of these kinds. */
bool mc_cluster_equals(const struct mc_cluster *, const struct mc_cluster *);
/* The same for one of these kinds. */
void plain_free(struct obj_meta *, struct intern_pool *pool);

/* True for what a proxy serves at all: not ExternalName, not headless, with
 * at least one cluster IP (kube-proxy's ShouldSkipService). */
bool svc_is_served(const struct svc *);

#endif /* ofproxyd/model/objects.h */
