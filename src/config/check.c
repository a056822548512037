/* SPDX-License-Identifier: Apache-2.0 */
/* What can only be judged with the whole file in view: values that follow
 * from others, values that don't go together, and values that ask for what
 * ofproxyd doesn't do.  Rules that only matter to features other than
 * Services are left to Antrea. */

#include <stdlib.h>
#include <string.h>

#include <util.h>

#include "load.h"

#define DEFAULT_SERVICE_CIDR "10.96.0.0/12"

/* Reports the value that the file gives 'id'. */
static void
refuse(struct cfg_loader *l, enum option_id id, const char *allowed,
       const char *reason)
{
    char buf[YDOC_DESCRIBE_MAX];

    cfg_loader_say(l, CFG_ERROR, l->at[id], "%s: found %s, allowed %s: %s",
                   cfg_options[id].key, ydoc_describe(l->at[id], buf), allowed,
                   reason);
}

/* Completing. */

static void
complete_gates(struct cfg_loader *l)
{
    static const struct {
        enum option_id all;
        enum option_stage stage;
    } groups[] = {
        { OPTION_feature_gates_all_alpha, STAGE_ALPHA },
        { OPTION_feature_gates_all_beta, STAGE_BETA },
    };

    for (size_t i = 0; i < ARRAY_SIZE(groups); i++) {
        const struct cfg_option *all = &cfg_options[groups[i].all];
        if (!l->at[groups[i].all]) {
            continue;
        }
        bool value = *(bool *) cfg_option_field(all, l->cfg);
        for (size_t id = 0; id < N_OPTIONS; id++) {
            if (cfg_options[id].stage == groups[i].stage && !l->at[id]) {
                *(bool *) cfg_option_field(&cfg_options[id], l->cfg) = value;
            }
        }
    }
}

static void
complete(struct cfg_loader *l)
{
    struct cfg *cfg = l->cfg;

    complete_gates(l);
    if (!cfg->feature_gates_antrea_proxy) {
        cfg_loader_say(l, CFG_WARNING,
                       l->at[OPTION_feature_gates_antrea_proxy],
                       "featureGates.AntreaProxy: deprecated, use "
                       "antreaProxy.enable");
        cfg->antrea_proxy_enable = false;
    }
    if (!l->at[OPTION_multicluster_enable_gateway]) {
        cfg->multicluster_enable_gateway = cfg->multicluster_enable;
    }
    if (cfg->multicluster_enable_gateway && !cfg->feature_gates_multicluster) {
        cfg_loader_say(l, CFG_WARNING,
                       l->at[OPTION_multicluster_enable_gateway],
                       "multicluster.enableGateway: has no effect without "
                       "featureGates.Multicluster");
        cfg->multicluster_enable_gateway = false;
    }
    if (!l->at[OPTION_egress_snat_fully_random_ports]) {
        cfg->egress_snat_fully_random_ports = cfg->snat_fully_random_ports;
    }
    if (!cfg->antrea_proxy_enable && !cfg->service_cidr.present) {
        cfg->service_cidr.present =
            !cidr_parse(DEFAULT_SERVICE_CIDR, &cfg->service_cidr.cidr);
    }
}

/* Checking. */

static void
check_unsupported(struct cfg_loader *l)
{
    static const struct {
        enum option_id id;
        const char *refused;
        const char *allowed;
        const char *reason;
    } rules[] = {
#define NOT_SUPPORTED " is not supported by ofproxyd"
        { OPTION_traffic_encryption_mode, "ipsec", "none",
          "encryption of traffic between nodes" NOT_SUPPORTED },
        { OPTION_traffic_encryption_mode, "wireGuard", "none",
          "encryption of traffic between nodes" NOT_SUPPORTED },
        { OPTION_enable_ipsec_tunnel, "true", "false",
          "encryption of traffic between nodes" NOT_SUPPORTED },
        { OPTION_multicluster_traffic_encryption_mode, "wireGuard", "none",
          "encryption of traffic between clusters" NOT_SUPPORTED },
        { OPTION_enable_bridging_mode, "true", "false",
          "bridging mode" NOT_SUPPORTED },
        { OPTION_antrea_proxy_default_load_balancer_mode, "dsr", "nat",
          "direct server return" NOT_SUPPORTED },
        { OPTION_node_type, "externalNode", "k8sNode",
          "a node outside the cluster" NOT_SUPPORTED },
#undef NOT_SUPPORTED
    };

    for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
        const struct cfg_option *o = &cfg_options[rules[i].id];
        if (l->at[rules[i].id]
            && !strcmp(cfg_option_value(o, l->cfg), rules[i].refused)) {
            refuse(l, rules[i].id, rules[i].allowed, rules[i].reason);
        }
    }
}

static void
check_encap_mode(struct cfg_loader *l)
{
    struct cfg *cfg = l->cfg;

    if (cfg->traffic_encap_mode != CFG_ENCAP && !cfg->antrea_proxy_enable) {
        refuse(l, OPTION_traffic_encap_mode, "encap",
               "the other modes need antreaProxy.enable: true");
    }
    switch (cfg->traffic_encap_mode) {
    case CFG_ENCAP:
    case CFG_HYBRID:
        if (cfg->no_snat) {
            refuse(l, OPTION_no_snat, "false",
                   "other networks have no route to the pods unless "
                   "trafficEncapMode is noEncap or networkPolicyOnly");
        }
        break;
    case CFG_NETWORK_POLICY_ONLY:
        cfg->no_snat = true;
        if (cfg->multicluster_enable_gateway) {
            refuse(l, OPTION_traffic_encap_mode, "encap, noEncap or hybrid",
                   "multicluster.enableGateway needs pod networks of the "
                   "nodes");
        }
        break;
    case CFG_NO_ENCAP: break;
    }
}

/* The port is passed over as Antrea and the switch do it, so that one file
 * serves for all types. */
static void
check_tunnel(struct cfg_loader *l)
{
    if (l->at[OPTION_tunnel_port] && l->cfg->tunnel_type == CFG_TUNNEL_GRE) {
        cfg_loader_say(l, CFG_WARNING, l->at[OPTION_tunnel_port],
                       "tunnelPort: ignored, tunnels of type gre have no "
                       "port");
    }
}

/* Antrea prefers the name, too. */
static void
check_transport(struct cfg_loader *l)
{
    const struct cfg *cfg = l->cfg;
    const char *name = cfg->transport_interface;

    if (name[0] && l->at[OPTION_transport_interface_cidrs]
        && cfg->transport_interface_cidrs.n) {
        cfg_loader_say(l, CFG_WARNING, l->at[OPTION_transport_interface_cidrs],
                       "transportInterfaceCIDRs: ignored, transportInterface "
                       "is given");
    }
    if (!strcmp(name, cfg->host_gateway) || !strcmp(name, cfg->ovs_bridge)
        || !strcmp(name, CFG_TUNNEL_PORT_NAME)) {
        refuse(l, OPTION_transport_interface, "an interface of the network",
               "this one leads to the pods");
    }
}

/* The tunnel port is a name in the switch like the other two. */
static void
check_not_tunnel(struct cfg_loader *l, enum option_id id, const char *name)
{
    if (!strcmp(name, CFG_TUNNEL_PORT_NAME)) {
        refuse(l, id, "other names",
               "this is the name of the port for tunnels");
    }
}

static void
check_names(struct cfg_loader *l)
{
    check_not_tunnel(l, OPTION_host_gateway, l->cfg->host_gateway);
    check_not_tunnel(l, OPTION_ovs_bridge, l->cfg->ovs_bridge);
    if (!strcmp(l->cfg->ovs_bridge, l->cfg->host_gateway)) {
        refuse(l,
               l->at[OPTION_host_gateway] ? OPTION_host_gateway
                                          : OPTION_ovs_bridge,
               "different names",
               "ovsBridge and hostGateway are two interfaces");
    }
}

void
cfg_check(struct cfg_loader *l)
{
    complete(l);
    check_unsupported(l);
    check_encap_mode(l);
    check_tunnel(l);
    check_transport(l);
    check_names(l);
}
