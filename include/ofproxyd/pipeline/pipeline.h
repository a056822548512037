/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_PIPELINE_PIPELINE_H
#define OFPROXYD_PIPELINE_PIPELINE_H 1

/* Objects into flows and groups.
 *
 * Each function renders one object, whole, into a list of items; rendering
 * the same object twice gives the same bytes.  Pure: nothing is remembered
 * between calls.  docs/pipeline.md, made from tables.def and fields.def, shows
 * the tables; docs/architecture.md the way of a packet. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <openvswitch/types.h>

#include "ofproxyd/base/err.h"
#include "ofproxyd/base/ip.h"
#include "ofproxyd/base/proto.h"
#include "ofproxyd/config/config.h"
#include "ofproxyd/flow/item.h"
#include "ofproxyd/model/endpoints.h"

/* Connection tracking zones, by family (Antrea's). */
#define PIPE_ZONE_V4      65520
#define PIPE_ZONE_V6      65510
#define PIPE_SNAT_ZONE_V4 65521
#define PIPE_SNAT_ZONE_V6 65511

/* The next hop of the host's Service routes, and the source address of what
 * the gateway port sends to itself: 169.254.0.253, fc01::aabb:ccdd:eeff. */
struct ip pipe_virtual_ip(enum ip_family);

/* What the host turns a NodePort address of its own into, so that the packet
 * comes to the bridge: 169.254.0.252, fc01::aabb:ccdd:eefe. */
struct ip pipe_node_port_ip(enum ip_family);

/* aa:bb:cc:dd:ee:ff, the MAC address of the virtual addresses. */
struct eth_addr pipe_virtual_mac(void);

/* aa:bb:cc:dd:ee:f0, where what goes to another cluster or comes from one is
 * sent to. */
struct eth_addr pipe_mc_mac(void);

/* Identifies reject packet-ins: the first byte of their userdata. */
#define PIPE_USERDATA_REJECT 4

/* Meters that limit packets to the daemon, one for each RejectShare: who is
 * rejected too often uses up the share of the ports whose numbers end like
 * its own, and leaves the others theirs. */
#define PIPE_N_METERS 16

/* What a kernel gives to no program by default, which has 32768 to 60999. */
#define PIPE_SNAT_PORT_MIN 1024
#define PIPE_SNAT_PORT_MAX 32767

/* What the node does for traffic between clusters. */
enum pipe_mc_role {
    PIPE_MC_NONE,    /* Nothing: there is no gateway. */
    PIPE_MC_REGULAR, /* Sends what is for other clusters to the gateway. */
    PIPE_MC_GATEWAY  /* Exchanges it with other clusters' gateways. */
};

/* The node, as far as flows depend on it. */
struct pipe_node {
    enum cfg_encap_mode mode;
    uint16_t gateway_ofport; /* 0 while unknown: flows that name it are left
                              * out. */
    struct eth_addr gateway_mac;
    struct ip gateway_ips[N_IP_FAMILIES]; /* "::" if none. */
    uint16_t tunnel_ofport;               /* 0: there is none (yet). */
    const struct cidr *pod_cidrs;         /* This node's; with
                                           * networkPolicyOnly they mean
                                           * nothing. */
    size_t n_pod_cidrs;
    uint32_t meter_id; /* The first of PIPE_N_METERS. */

    /* Networks of cluster IPs, without host bits, each once, that the host has
     * routes for into the bridge: what it sends to an address in them that no
     * Service has would go round, and is dropped. */
    const struct cidr *service_cidrs;
    size_t n_service_cidrs;

    /* Cluster IPs may be endpoints: see struct eps. */
    bool nests;

    enum pipe_mc_role mc_role;
    struct ip mc_gateway_ip;  /* Of a gateway: its address for other
                               * clusters. */
    struct ip mc_internal_ip; /* Of a regular node: the gateway's for nodes,
                               * or "::" if it is not known. */

    /* Addresses of this node on which NodePorts are served, but for those of
     * the loopback link, which no packet on the bridge has.  With
     * 'serves_node_ports', those of pipe_node_port_ip() are among them without
     * being named. */
    bool serves_node_ports;
    const struct ip *node_port_ips;
    size_t n_node_port_ips;

    /* Source ports of what gets a gateway's address that the host has as
     * well; 0: PIPE_SNAT_PORT_MIN to PIPE_SNAT_PORT_MAX. */
    uint16_t snat_port_min, snat_port_max;
};

/* The flows that are there whatever the objects are. */
void pipe_render_node(const struct pipe_node *, struct fout *);

/* A pod of this node. */
struct pipe_pod {
    uint16_t ofport;
    struct eth_addr mac;
    const struct ip *ips;
    size_t n_ips;
};

/* Of the node 'mode' and 'gateway_mac' are used; nothing is rendered while
 * the gateway is unknown. */
void pipe_render_pod(const struct pipe_node *node, const struct pipe_pod *,
                     struct fout *);

/* Other nodes. */

/* How packets get to a pod network. */
enum pipe_path {
    PIPE_TUNNEL, /* By the tunnel port. */
    PIPE_ROUTED  /* By the host, through the gateway port. */
};

/* A pod network of another node. */
struct pipe_peer {
    struct cidr pod_cidr;
    struct ip gateway; /* Its first address. */
    enum pipe_path path;
    struct ip tunnel_dst; /* Of PIPE_TUNNEL, of either family.  Of PIPE_ROUTED
                           * on a multicluster gateway, "::" if unknown: what
                           * comes from other clusters takes the tunnel in any
                           * mode. */
};

/* The flows of one other node: all its 'n' pod networks, which overlap
 * neither each other nor any other node's.  'object_id' is the caller's for
 * the Node, up to OBJECT_ID_MAX.
 *
 * Of the node 'mode', 'gateway_ofport' and 'gateway_mac' are used, so that
 * these flows stay as they are while the tunnel port comes and goes: without
 * it what they send is dropped, and never leaves unencapsulated.  Nothing is
 * rendered while the gateway is unknown, nor with networkPolicyOnly, where
 * the primary network knows the way; and nothing for a tunnel without
 * destination. */
void pipe_render_peer(const struct pipe_node *, uint32_t object_id,
                      const struct pipe_peer *, size_t n, struct fout *);

/* Another cluster. */
struct pipe_mc_peer {
    const struct cidr *cidrs; /* Of its cluster IPs, and of its pods if they
                               * are reached directly.  They overlap neither
                               * each other nor any other network. */
    size_t n_cidrs;
    const struct ip *gateways; /* The sources that its requests have. */
    size_t n_gateways;
    struct ip tunnel_dst; /* On a gateway the other cluster's gateway, on
                           * another node this cluster's own. */
};

/* The flows of one other cluster.  'object_id' is the caller's, up to
 * OBJECT_ID_MAX.
 *
 * Of the node 'gateway_ofport', 'gateway_mac', 'tunnel_ofport', 'mc_role' and
 * 'mc_gateway_ip' are used.  Nothing is rendered while the gateway is unknown,
 * nor with PIPE_MC_NONE or without a tunnel destination.  Networks of another
 * family than a gateway's 'mc_gateway_ip' get no other source there. */
void pipe_render_mc_peer(const struct pipe_node *, uint32_t object_id,
                         const struct pipe_mc_peer *, struct fout *);

/* True if 'have', which the switch has, is a flow between clusters, whatever
 * role it was made for.  'gateway' are those of the node as a gateway. */
bool pipe_is_mc(const struct fitem *have, const struct fout *gateway);

/* A Service port in one family. */

/* What a new connection gets. */
enum pipe_verdict {
    PIPE_SELECT, /* One of the endpoints. */
    PIPE_REJECT, /* TCP RST or ICMP port unreachable: there is none. */
    PIPE_DROP    /* There is none for it here, but there are others. */
};

/* The two sets of endpoints that a Service port can have. */
enum pipe_scope {
    PIPE_SCOPE_CLUSTER,
    PIPE_SCOPE_LOCAL
};
#define N_PIPE_SCOPES 2

struct pipe_target {
    enum pipe_verdict verdict;
    const struct eps *eps; /* Of PIPE_SELECT, sorted, at least one. */
    size_t n_eps;
};

/* What kind of address a Service port is reached by. */
enum pipe_frontend_kind {
    PIPE_CLUSTER_IP, /* Inside: the source stays as it is. */
    PIPE_NODE_PORT,  /* 'port' of each NodePort address of this node. */
    PIPE_EXTERNAL    /* An external IP, or one of a load balancer. */
};

/* An address of a Service port.  Of PIPE_NODE_PORT and PIPE_EXTERNAL, policy
 * Cluster gives the connection a source address of this node; with policy
 * Local ('scope') the source stays, and local pods and the node itself, who
 * are not from outside, get the cluster target (services.md 2.5). */
struct pipe_frontend {
    enum pipe_frontend_kind kind;
    struct ip ip; /* "::" of PIPE_NODE_PORT. */
    uint16_t port;
    enum pipe_scope scope; /* Whose target it leads to. */
    bool restricted;       /* Only to 'source_ranges' of the Service; others
                            * are dropped.  Of PIPE_EXTERNAL. */
};

struct pipe_service {
    uint32_t object_id; /* Up to OBJECT_ID_MAX. */
    enum ip_family family;
    enum proto proto;
    const struct pipe_frontend *frontends;
    size_t n_frontends;
    struct pipe_target targets[N_PIPE_SCOPES]; /* Those that frontends use;
                                                * with an external frontend of
                                                * scope Local, both. */

    /* Session affinity ClientIP: a client keeps its endpoint until so many
     * seconds have passed since its last new connection, 1 to 86400.  0: no
     * affinity.  Beyond PIPE_AFFINITY_MAX_S the daemon has to help: see
     * pipe_affinity_hard_s(). */
    uint32_t affinity_s;

    /* Its cluster IP may be an endpoint of other Services: what they send here
     * gets what the cluster IP gives; but a reject if one of its own endpoints
     * is a cluster IP, so that there is no going round. */
    bool nestable;

    /* Of restricted frontends: sources that are let in, of 'family', without
     * host bits, each once. */
    const struct cidr *source_ranges;
    size_t n_source_ranges;
    bool node_in_ranges; /* Addresses of this node are. */

    /* The only port of UDP at its cluster IP: fragments, which show no port,
     * are for it.  Other addresses may be other Services', too, and have no
     * flow for fragments. */
    bool takes_fragments;
};

/* The longest timeout that a flow can have, in seconds (OpenFlow 1.5
 * 7.3.4.2: 16 bits). */
#define PIPE_AFFINITY_MAX_S 65535

/* Returns the timeout that learned flows have if the Service's is 'affinity_s'
 * seconds, more than PIPE_AFFINITY_MAX_S: a hard one, which the switch begins
 * anew whenever it learns the flow again, that is, with each new connection of
 * the client.  To make it as long as the Service says, a client's flow has to
 * be put anew, as it is, when the client has been idle for the difference. */
uint16_t pipe_affinity_hard_s(uint32_t affinity_s);

/* Endpoints above this are left out, and pipe_render_service() says so. */
#define PIPE_MAX_ENDPOINTS 100000

/* Returns 0, or E2BIG with 'err' if endpoints were left out. */
int pipe_render_service(const struct pipe_service *, struct fout *,
                        struct err *err) OVS_WARN_UNUSED_RESULT;

/* The flow of a Service's cluster IP for all that no port of it is for: it is
 * rejected.  'object_id' is the caller's for the Service in one family, up to
 * OBJECT_ID_MAX.
 *
 * Fragments are left alone: they show no port, so that one of a port's own
 * can't be told from others. */
void pipe_render_cluster_ip(uint32_t object_id, const struct ip *,
                            struct fout *);

/* Returns how many endpoints the buckets of 'group' lead to, with affinity or
 * without, and sets '*ret' to them, sorted, each once, for the caller to free;
 * what stands in 'local' means nothing.  0 and NULL if there is none: for the
 * top of a group of groups, whose parts have the endpoints, for a flow, and
 * for what a foreign hand made.  Finds out what was on the switch before: the
 * group may be of another process of ofproxyd. */
size_t pipe_group_endpoints(const struct fitem *group, struct eps **ret);

/* The address that a flow of a Service port is for. */
struct pipe_installed {
    enum ip_family family;
    enum proto proto;
    struct ip ip; /* "::": 'port' of each NodePort address of this node. */
    uint16_t port;
};

/* Returns true and sets '*ret' if 'flow' looks up an address in ServiceLB. */
bool pipe_flow_frontend(const struct fitem *flow, struct pipe_installed *ret);

/* Returns true and sets '*ret' if 'flow' says that an address of this node
 * serves NodePorts. */
bool pipe_flow_node_port_ip(const struct fitem *flow, struct ip *ret);

/* Returns true and sets '*ret' if 'flow' gives connections another source. */
bool pipe_flow_source(const struct fitem *flow, struct ip *ret);

/* Rejects. */

/* The largest answer. */
#define PIPE_REJECT_MAX 1294

/* Builds the answer to the Ethernet frame 'packet' that found a Service port
 * without endpoints, or no port at its Service's address: a TCP RST (RFC 9293
 * 3.10.7.1); or an ICMP port unreachable (RFC 792, RFC 4443 3.1) from the
 * Service's address, for whatever else, ICMP queries included.  Returns its
 * length in 'reply', or 0 if none may be sent (a fragment, a RST, ICMP that
 * is no query, a source that is no unicast address, a frame that is cut
 * short, an IPv6 packet with extension headers). */
size_t pipe_build_reject(const void *packet, size_t len,
                         uint8_t reply[PIPE_REJECT_MAX]);

#endif /* ofproxyd/pipeline/pipeline.h */
