/* SPDX-License-Identifier: Apache-2.0 */
/* antrea-agent.conf: the keys, their defaults, and values of every type. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <openvswitch/dynamic-string.h>
#include <util.h>

#include "../support/cfgfix.h"
#include "ofproxyd/config/config.h"

/* Defaults. */

/* Antrea's keys and their defaults, taken from Antrea and not from
 * options.def. */
static const struct {
    const char *key, *dflt;
} antrea_keys[] = {
    { "clientConnection.kubeconfig", "\"\"" },
    { "clientConnection.acceptContentTypes", "\"\"" },
    { "clientConnection.contentType", "\"\"" },
    { "clientConnection.qps", "0" },
    { "clientConnection.burst", "0" },
    { "antreaClientConnection.kubeconfig", "\"\"" },
    { "antreaClientConnection.acceptContentTypes", "\"\"" },
    { "antreaClientConnection.contentType", "\"\"" },
    { "antreaClientConnection.qps", "0" },
    { "antreaClientConnection.burst", "0" },
    { "kubeAPIServerOverride", "\"\"" },
    { "ovsBridge", "br-int" },
    { "ovsDatapathType", "system" },
    { "ovsRunDir", "/var/run/openvswitch" },
    { "hostGateway", "antrea-gw0" },
    { "hostProcPathPrefix", "/host" },
    { "nodeType", "k8sNode" },
    { "trafficEncapMode", "encap" },
    { "podCIDRs", "\"\"" },
    { "noSNAT", "false" },
    { "snatFullyRandomPorts", "false" },
    { "tunnelType", "geneve" },
    { "tunnelPort", "0" },
    { "tunnelCsum", "false" },
    { "trafficEncryptionMode", "none" },
    { "enableIPSecTunnel", "false" },
    { "wireGuard.port", "51820" },
    { "ipsec.authenticationMode", "psk" },
    { "enableBridgingMode", "false" },
    { "disableTXChecksumOffload", "false" },
    { "defaultMTU", "0" },
    { "packetInRate", "5000" },
    { "transportInterface", "\"\"" },
    { "transportInterfaceCIDRs", "[]" },
    { "serviceCIDR", "\"\"" },
    { "serviceCIDRv6", "\"\"" },
    { "apiPort", "10350" },
    { "clusterPort", "10351" },
    { "memberlist.gossipVerifyIncoming", "true" },
    { "memberlist.gossipVerifyOutgoing", "true" },
    { "enablePrometheusMetrics", "true" },
    { "tlsCipherSuites", "\"\"" },
    { "tlsMinVersion", "\"\"" },
    { "cniSocket", "/var/run/antrea/cni.sock" },
    { "dnsServerOverride", "\"\"" },
    { "fqdnCacheMinTTL", "0" },
    { "egress.exceptCIDRs", "[]" },
    { "egress.maxEgressIPsPerNode", "255" },
    { "egress.snatFullyRandomPorts", "" },
    { "egress.uniqueMACForSubInterfaces", "true" },
    { "multicast.enable", "false" },
    { "multicast.multicastInterfaces", "[]" },
    { "multicast.igmpQueryVersions", "[1, 2, 3]" },
    { "multicast.igmpQueryInterval", "125s" },
    { "multicastInterfaces", "[]" },
    { "nodePortLocal.enable", "false" },
    { "nodePortLocal.portRange", "61000-62000" },
    { "nplPortRange", "\"\"" },
    { "antreaProxy.enable", "true" },
    { "antreaProxy.proxyAll", "false" },
    { "antreaProxy.nodePortAddresses", "[]" },
    { "antreaProxy.skipServices", "[]" },
    { "antreaProxy.proxyLoadBalancerIPs", "true" },
    { "antreaProxy.serviceProxyName", "\"\"" },
    { "antreaProxy.defaultLoadBalancerMode", "nat" },
    { "antreaProxy.disableServiceHealthCheckServer", "false" },
    { "antreaProxy.serviceHealthCheckServerBindAddress", "0.0.0.0:10256" },
    { "multicluster.enable", "false" },
    { "multicluster.enableGateway", "false" },
    { "multicluster.namespace", "\"\"" },
    { "multicluster.enableStretchedNetworkPolicy", "false" },
    { "multicluster.enablePodToPodConnectivity", "false" },
    { "multicluster.trafficEncryptionMode", "none" },
    { "multicluster.wireGuard.port", "51821" },
    { "hostNetworkAcceleration.enable", "true" },
    { "hostNetworkMode", "iptables" },
    { "flowExporter.enable", "false" },
    { "flowExporter.flowCollectorAddr",
      "flow-aggregator/flow-aggregator:4739:tls" },
    { "flowExporter.flowPollInterval", "5s" },
    { "flowExporter.activeFlowExportTimeout", "5s" },
    { "flowExporter.idleFlowExportTimeout", "15s" },
    { "flowExporter.protocolFilter", "[]" },
    { "flowCollectorAddr", "\"\"" },
    { "flowPollInterval", "\"\"" },
    { "activeFlowExportTimeout", "\"\"" },
    { "idleFlowExportTimeout", "\"\"" },
    { "auditLogging.maxSize", "500" },
    { "auditLogging.maxBackups", "3" },
    { "auditLogging.maxAge", "28" },
    { "auditLogging.compress", "true" },
    { "secondaryNetwork.ovsBridges", "[]" },
    { "externalNode.externalNodeNamespace", "default" },
    { "externalNode.policyBypassRules", "[]" },
    { "featureGates.AllAlpha", "false" },
    { "featureGates.AllBeta", "false" },
    { "featureGates.AntreaProxy", "true" },
    { "featureGates.EndpointSlice", "true" },
    { "featureGates.TopologyAwareHints", "true" },
    { "featureGates.ServiceTrafficDistribution", "true" },
    { "featureGates.NodePortLocal", "true" },
    { "featureGates.AntreaPolicy", "true" },
    { "featureGates.Egress", "true" },
    { "featureGates.EgressSeparateSubnet", "true" },
    { "featureGates.CleanupStaleUDPSvcConntrack", "true" },
    { "featureGates.Multicast", "true" },
    { "featureGates.NetworkPolicyStats", "true" },
    { "featureGates.ServiceExternalIP", "true" },
    { "featureGates.Traceflow", "true" },
    { "featureGates.NodeIPAM", "true" },
    { "featureGates.AntreaNodeConfig", "true" },
    { "featureGates.PreferSameTrafficDistribution", "false" },
    { "featureGates.LoadBalancerModeDSR", "false" },
    { "featureGates.Multicluster", "false" },
    { "featureGates.NFTablesHostNetworkMode", "false" },
    { "featureGates.BGPPolicy", "false" },
    { "featureGates.AntreaIPAM", "false" },
    { "featureGates.TrafficControl", "false" },
    { "featureGates.IPsecCertAuth", "false" },
    { "featureGates.L7NetworkPolicy", "false" },
    { "featureGates.L7FlowExporter", "false" },
    { "featureGates.EgressTrafficShaping", "false" },
    { "featureGates.NodeNetworkPolicy", "false" },
    { "featureGates.NodeLatencyMonitor", "false" },
    { "featureGates.FlowExporter", "false" },
    { "featureGates.SecondaryNetwork", "false" },
    { "featureGates.PacketCapture", "false" },
    { "featureGates.SupportBundleCollection", "false" },
    { "featureGates.ExternalNode", "false" },
};

static const struct {
    const char *key, *dflt;
} our_keys[] = {
#define CFG_OPTION(FIELD, KEY, TYPE, CTYPE, DEFAULT, MIN, MAX, ARG, USED, \
                   HELP)                                                  \
    { KEY, DEFAULT },
#include "ofproxyd/config/options.def"
};

static void
every_key_of_antrea_is_known_with_its_default(void **state OVS_UNUSED)
{
    for (size_t i = 0; i < ARRAY_SIZE(antrea_keys); i++) {
        size_t j = 0;
        while (strcmp(our_keys[j].key, antrea_keys[i].key)) {
            if (++j == ARRAY_SIZE(our_keys)) {
                fail_msg("%s is missing", antrea_keys[i].key);
            }
        }
        assert_string_equal(our_keys[j].dflt, antrea_keys[i].dflt);
    }

    /* Keys of our own stand in a section of their own. */
    size_t n = 0;
    for (size_t j = 0; j < ARRAY_SIZE(our_keys); j++) {
        n += strncmp(our_keys[j].key, "ofproxyd.", strlen("ofproxyd.")) != 0;
    }
    assert_int_equal(n, ARRAY_SIZE(antrea_keys));
}

static void
an_empty_file_gives_the_defaults(void **state OVS_UNUSED)
{
    struct cfg cfg;
    cfgfix_load_ok("", &cfg);
    assert_string_equal(cfg.client_connection_kubeconfig, "");
    assert_string_equal(cfg.kube_api_server_override, "");
    assert_string_equal(cfg.ovs_bridge, "br-int");
    assert_string_equal(cfg.ovs_run_dir, "/var/run/openvswitch");
    assert_int_equal(cfg.ovs_datapath_type, CFG_DATAPATH_SYSTEM);
    assert_string_equal(cfg.host_gateway, "antrea-gw0");
    assert_int_equal(cfg.traffic_encap_mode, CFG_ENCAP);
    assert_false(cfg.no_snat);
    assert_false(cfg.service_cidr.present);
    assert_false(cfg.service_cidr_v6.present);
    assert_int_equal(cfg.packet_in_rate, 5000);
    assert_int_equal(cfg.default_mtu, 0);
    assert_true(cfg.antrea_proxy_enable);
    assert_false(cfg.antrea_proxy_proxy_all);
    assert_int_equal(cfg.antrea_proxy_node_port_addresses.n, 0);
    assert_int_equal(cfg.antrea_proxy_skip_services.n, 0);
    assert_true(cfg.antrea_proxy_proxy_load_balancer_ips);
    assert_string_equal(cfg.antrea_proxy_service_proxy_name, "");
    assert_true(cfg.feature_gates_topology_aware_hints);
    assert_false(cfg.feature_gates_prefer_same_traffic_distribution);
    assert_int_equal(cfg.multicast_igmp_query_interval_ns,
                     INT64_C(125000000000));
    assert_int_equal(cfg.multicast_igmp_query_versions.n, 3);
    cfg_uninit(&cfg);
}

static void
what_says_nothing_gives_the_defaults(void **state OVS_UNUSED)
{
    static const char *const texts[] = {
        "# only a comment\n",
        "---\n",
        "{}",
        "ovsBridge:\nantreaProxy:\nfeatureGates: ~\n",
        "antreaProxy: {}\nfeatureGates: {}\n",

        /* As Antrea has it, these stand for the default. */
        "ovsBridge: \"\"\nhostGateway: ''\ntrafficEncapMode: \"\"\n"
        "serviceCIDR: \"\"\npacketInRate: 0\ndefaultMTU: 0\n"
        "ovsRunDir: null\nantreaProxy:\n  enable: null\n"
        "  nodePortAddresses: []\n  skipServices:\n  serviceProxyName: \"\"\n",
    };

    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        cfgfix_assert_defaults(texts[i]);
    }
}

/* Values. */

static void
values_are_read(void **state OVS_UNUSED)
{
    struct cfg cfg;
    cfgfix_load_ok("clientConnection: {kubeconfig: /etc/ofproxyd/kubeconfig}\n"
                   "kubeAPIServerOverride: \"https://[2001:db8::1]:6443\"\n"
                   "ovsBridge: br-x\n"
                   "ovsDatapathType: netdev\n"
                   "ovsRunDir: /run/ovs\n"
                   "hostGateway: gw1\n"
                   "defaultMTU: 1450\n"
                   "packetInRate: 17\n"
                   "trafficEncapMode: NOENCAP\n"
                   "noSNAT: true\n"
                   "serviceCIDR: 198.51.100.0/24\n"
                   "serviceCIDRv6: 2001:db8::/112\n"
                   "antreaProxy:\n"
                   "  proxyAll: true\n"
                   "  nodePortAddresses: [192.0.2.0/24, \"2001:db8:1::/64\"]\n"
                   "  skipServices:\n"
                   "  - ns1/svc-a\n"
                   "  - 198.051.100.010\n"
                   "  - 2001:DB8:0::A\n"
                   "  proxyLoadBalancerIPs: false\n"
                   "  serviceProxyName: my.proxy_1\n"
                   "featureGates:\n"
                   "  TopologyAwareHints: true\n"
                   "  PreferSameTrafficDistribution: true\n",
                   &cfg);

    char buf[CIDR_STRLEN];
    assert_string_equal(cfg.client_connection_kubeconfig,
                        "/etc/ofproxyd/kubeconfig");
    assert_string_equal(cfg.kube_api_server_override,
                        "https://[2001:db8::1]:6443");
    assert_string_equal(cfg.ovs_bridge, "br-x");
    assert_int_equal(cfg.ovs_datapath_type, CFG_DATAPATH_NETDEV);
    assert_string_equal(cfg.ovs_run_dir, "/run/ovs");
    assert_string_equal(cfg.host_gateway, "gw1");
    assert_int_equal(cfg.default_mtu, 1450);
    assert_int_equal(cfg.packet_in_rate, 17);
    assert_int_equal(cfg.traffic_encap_mode, CFG_NO_ENCAP);
    assert_true(cfg.no_snat);
    assert_true(cfg.service_cidr.present);
    assert_string_equal(cidr_to_string(&cfg.service_cidr.cidr, buf),
                        "198.51.100.0/24");
    assert_string_equal(cidr_to_string(&cfg.service_cidr_v6.cidr, buf),
                        "2001:db8::/112");
    assert_true(cfg.antrea_proxy_proxy_all);
    assert_int_equal(cfg.antrea_proxy_node_port_addresses.n, 2);
    assert_string_equal(
        cidr_to_string(&cfg.antrea_proxy_node_port_addresses.cidrs[1], buf),
        "2001:db8:1::/64");
    assert_int_equal(cfg.antrea_proxy_skip_services.n, 3);
    assert_string_equal(cfg.antrea_proxy_skip_services.s[0], "ns1/svc-a");
    assert_string_equal(cfg.antrea_proxy_skip_services.s[1], "198.51.100.10");
    assert_string_equal(cfg.antrea_proxy_skip_services.s[2], "2001:db8::a");
    assert_false(cfg.antrea_proxy_proxy_load_balancer_ips);
    assert_string_equal(cfg.antrea_proxy_service_proxy_name, "my.proxy_1");
    assert_true(cfg.feature_gates_prefer_same_traffic_distribution);
    cfg_uninit(&cfg);
}

static void
unused_values_are_read_all_the_same(void **state OVS_UNUSED)
{
    struct ds messages = DS_EMPTY_INITIALIZER;
    struct cfg cfg;
    assert_int_equal(
        cfgfix_load(
            "antreaProxy:\n"
            "  serviceHealthCheckServerBindAddress: '[2001:db8::1]:80'\n"
            "multicast:\n"
            "  igmpQueryVersions: [2]\n"
            "  igmpQueryInterval: 1h1m1.5s2ms3us4\xc2\xb5s5\xce\xbcs6ns\n"
            "secondaryNetwork:\n"
            "  ovsBridges: [{bridgeName: br1, physicalInterfaces: [eth1]}]\n"
            "tlsMinVersion: VersionTLS12\n"
            "egress: {snatFullyRandomPorts: true}\n",
            &cfg, true, &messages),
        0);
    assert_string_equal(
        ds_cstr(&messages),
        "f:4:3: multicast.igmpQueryVersions: not used by ofproxyd\n"
        "f:5:3: multicast.igmpQueryInterval: not used by ofproxyd\n"
        "f:7:3: secondaryNetwork.ovsBridges: not used by ofproxyd\n"
        "f:8:1: tlsMinVersion: not used by ofproxyd\n"
        "f:9:10: egress.snatFullyRandomPorts: not used by ofproxyd\n");

    const struct cfg_addr *addr =
        &cfg.antrea_proxy_service_health_check_server_bind_address;
    char buf[IP_STRLEN];
    assert_string_equal(ip_to_string(&addr->ip, buf), "2001:db8::1");
    assert_int_equal(addr->port, 80);
    assert_int_equal(cfg.multicast_igmp_query_versions.n, 1);
    assert_int_equal(cfg.multicast_igmp_query_versions.v[0], 2);
    assert_int_equal(cfg.multicast_igmp_query_interval_ns,
                     INT64_C(3661502012006));
    assert_int_equal(cfg.secondary_network_ovs_bridges.n, 1);
    assert_int_equal(cfg.tls_min_version, CFG_TLS_12);
    assert_true(cfg.egress_snat_fully_random_ports);
    cfg_uninit(&cfg);
    ds_destroy(&messages);
}

static void
gates_follow_all_alpha_and_all_beta(void **state OVS_UNUSED)
{
    struct cfg cfg;
    cfgfix_load_ok("featureGates: {AllAlpha: true, AllBeta: false,\n"
                   "  PreferSameTrafficDistribution: false}\n",
                   &cfg);
    assert_true(cfg.feature_gates_multicluster);
    assert_false(cfg.feature_gates_prefer_same_traffic_distribution);
    assert_false(cfg.feature_gates_egress);
    assert_true(cfg.feature_gates_topology_aware_hints);
    assert_true(cfg.feature_gates_antrea_proxy);
    cfg_uninit(&cfg);
}

static void
values_follow_from_others(void **state OVS_UNUSED)
{
    struct cfg cfg;
    char buf[CIDR_STRLEN];

    cfgfix_load_ok("trafficEncapMode: networkPolicyOnly\n", &cfg);
    assert_true(cfg.no_snat);
    cfg_uninit(&cfg);

    cfgfix_load_ok("antreaProxy: {enable: false}\n", &cfg);
    assert_true(cfg.service_cidr.present);
    assert_string_equal(cidr_to_string(&cfg.service_cidr.cidr, buf),
                        "10.96.0.0/12");
    cfg_uninit(&cfg);

    cfgfix_load_ok("antreaProxy: {enable: false}\nserviceCIDR: 192.0.2.0/24\n",
                   &cfg);
    assert_string_equal(cidr_to_string(&cfg.service_cidr.cidr, buf),
                        "192.0.2.0/24");
    cfg_uninit(&cfg);
}

static void
the_gate_of_the_proxy_switches_it_off(void **state OVS_UNUSED)
{
    struct ds messages = DS_EMPTY_INITIALIZER;
    struct cfg cfg;
    assert_int_equal(cfgfix_load("featureGates: {AntreaProxy: false}\n", &cfg,
                                 true, &messages),
                     0);
    assert_string_equal(ds_cstr(&messages),
                        "f:1:29: featureGates.AntreaProxy: deprecated, use "
                        "antreaProxy.enable\n");
    assert_false(cfg.antrea_proxy_enable);
    assert_true(cfg.service_cidr.present);
    cfg_uninit(&cfg);
    ds_destroy(&messages);
}

static void
e18_the_tunnels_udp_port_follows_type_port_and_mode(void **state OVS_UNUSED)
{
    static const struct {
        const char *text;
        bool has_tunnel;
        uint16_t port;
    } cases[] = {
        { "", true, 6081 },
        { "trafficEncapMode: hybrid", true, 6081 },
        { "tunnelType: vxlan", true, 4789 },
        { "tunnelType: VXLAN\ntunnelPort: 8472", true, 8472 },
        { "tunnelPort: 7000", true, 7000 },
        { "tunnelType: gre", true, 0 },
        { "tunnelType: stt", true, 0 },
        { "tunnelType: stt\ntunnelPort: 7000", true, 0 },
        { "trafficEncapMode: noEncap\ntunnelPort: 7000", false, 0 },
        { "trafficEncapMode: networkPolicyOnly", false, 0 },
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct cfg cfg;

        cfgfix_load_ok(cases[i].text, &cfg);
        assert_int_equal(cfg_has_tunnel(&cfg), cases[i].has_tunnel);
        assert_int_equal(cfg_tunnel_udp_port(&cfg), cases[i].port);
        cfg_uninit(&cfg);
    }
    assert_string_equal(cfg_tunnel_type_to_string(CFG_TUNNEL_STT), "stt");
}

static void
tunnels_bypass_conntrack_unless_told_not_to(void **state OVS_UNUSED)
{
    struct cfg cfg;

    cfg_init_defaults(&cfg);
    assert_true(cfg.ofproxyd_tunnel_notrack);
    cfg_uninit(&cfg);
    cfgfix_load_ok("ofproxyd:\n  tunnelNotrack: false\n", &cfg);
    assert_false(cfg.ofproxyd_tunnel_notrack);
    cfg_uninit(&cfg);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_key_of_antrea_is_known_with_its_default),
        cmocka_unit_test(an_empty_file_gives_the_defaults),
        cmocka_unit_test(what_says_nothing_gives_the_defaults),
        cmocka_unit_test(values_are_read),
        cmocka_unit_test(unused_values_are_read_all_the_same),
        cmocka_unit_test(gates_follow_all_alpha_and_all_beta),
        cmocka_unit_test(values_follow_from_others),
        cmocka_unit_test(the_gate_of_the_proxy_switches_it_off),
        cmocka_unit_test(e18_the_tunnels_udp_port_follows_type_port_and_mode),
        cmocka_unit_test(tunnels_bypass_conntrack_unless_told_not_to),
    };
    return cmocka_run_group_tests_name("config-values", tests, NULL, NULL);
}
