/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_AGENT_FRONTENDS_H
#define OFPROXYD_AGENT_FRONTENDS_H 1

/* By which addresses a Service is reached on this node, in one family:
 * kube-proxy's rules (services.md 1.1 and 1.2), and the configuration's.
 * Pure. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ofproxyd/config/config.h"
#include "ofproxyd/model/objects.h"
#include "ofproxyd/pipeline/pipeline.h"

/* External addresses of all ports of a Service in one family, at most, and
 * source ranges.  An object of the API's size can have thousands of ports and
 * of addresses, and each pair is a flow. */
#define FRONTENDS_MAX 65536

/* What the answer depends on besides the Service. */
struct frontends_env {
    const struct cfg *cfg;
    const struct ip *node_ips; /* Addresses of this node, ascending. */
    size_t n_node_ips;
    /* Of the gateway link, "::" if none: the host's too, though no other host
     * knows the node by them. */
    struct ip gateway_ips[N_IP_FAMILIES];

    /* Where the API server is, as far as it is known by its address ("::" if
     * not).  No Service gets that as an external address: whoever claimed it
     * would cut off this daemon, and the node. */
    struct ip server;
    uint16_t server_port;
};

struct frontends {
    /* The cluster IP; external addresses in ascending order, each once; then,
     * if one of them is an address of this node and the host leads it in,
     * pipe_node_port_ip(), which is what the host makes of it; and last the
     * NodePort, if the port has one. */
    struct pipe_frontend *frontends;
    size_t n;

    /* As in struct pipe_service; empty if no frontend is restricted. */
    struct cidr *source_ranges;
    size_t n_source_ranges;
    bool node_in_ranges;

    size_t n_udp_ports; /* Of the Service. */

    bool uses_node_ips; /* Other addresses of the node might give another
                         * answer. */
    size_t n_left_out;  /* External addresses that are one too many, the API
                         * server's, link-local (IPv6), or that the bridge and
                         * the host need between them; and ranges that are too
                         * many. */

    /* Private. */
    size_t n_of_all_ports;
    bool serves_node_ports;
    enum pipe_scope external_scope;
};

/* Sets '*ret', which is the caller's to frontends_uninit(), for 'svc', which
 * has ports, in 'family', in which it has a cluster IP.  The ports are those
 * of svc->ports[0] until frontends_set_port().
 *
 * A source range that holds all addresses of the family lets in everybody, and
 * so does a list without any of the family.  An address that is external IP
 * and load-balancer address at a time is restricted as the latter; so is
 * pipe_node_port_ip() if one of the addresses that it stands for is. */
void frontends_choose(const struct frontends_env *, const struct svc *svc,
                      enum ip_family family, struct frontends *ret);
void frontends_uninit(struct frontends *);

/* Makes them the frontends of another port of the Service. */
void frontends_set_port(struct frontends *, const struct svc_port *);

#endif /* src/agent/frontends.h */
