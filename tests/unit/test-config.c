/* SPDX-License-Identifier: Apache-2.0 */
/* antrea-agent.conf: the exact text of every complaint. */

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <openvswitch/dynamic-string.h>
#include <util.h>

#include "../support/cfgfix.h"
#include "../support/tmpdir.h"
#include "ofproxyd/config/config.h"

static void
assert_messages(const char *text, int error, const char *expected)
{
    struct ds messages = DS_EMPTY_INITIALIZER;
    struct cfg cfg;
    int found =
        cfgfix_load(text, &cfg, strstr(expected, "not used"), &messages);
    assert_string_equal(ds_cstr(&messages), expected);
    assert_int_equal(found, error);
    if (!found) {
        cfg_uninit(&cfg);
    }
    ds_destroy(&messages);
}

struct text_case {
    const char *text;
    const char *messages;
};

static void
assert_all(const struct text_case *cases, size_t n, int error)
{
    for (size_t i = 0; i < n; i++) {
        assert_messages(cases[i].text, error, cases[i].messages);
    }
}

/* Errors. */

static const struct text_case wrong_values[] = {
    /* Booleans. */
    { "noSNAT: yes", "f:1:9: noSNAT: found \"yes\", allowed true or false\n" },
    { "noSNAT: on", "f:1:9: noSNAT: found \"on\", allowed true or false\n" },
    { "noSNAT: True",
      "f:1:9: noSNAT: found \"True\", allowed true or false\n" },
    { "noSNAT: 1", "f:1:9: noSNAT: found \"1\", allowed true or false\n" },
    { "noSNAT: 'true'",
      "f:1:9: noSNAT: found \"true\", allowed true or false\n" },
    { "noSNAT: ''", "f:1:9: noSNAT: found \"\", allowed true or false\n" },
    { "noSNAT: [true]",
      "f:1:9: noSNAT: found a list, allowed true or false\n" },
    { "noSNAT:\n  a: b",
      "f:2:3: noSNAT: found a mapping, allowed true or false\n" },

/* Integers. */
#define RATE         "f:1:15: packetInRate: found "
#define RATE_ALLOWED ", allowed an integer from 1 to 1000000\n"
    { "packetInRate: many", RATE "\"many\"" RATE_ALLOWED },
    { "packetInRate: -1", RATE "\"-1\"" RATE_ALLOWED },
    { "packetInRate: 1000001", RATE "\"1000001\"" RATE_ALLOWED },
    { "packetInRate: 10000000000000000000000",
      RATE "\"10000000000000000000000\"" RATE_ALLOWED },
    { "packetInRate: 1.5", RATE "\"1.5\"" RATE_ALLOWED },
    { "packetInRate: 1e3", RATE "\"1e3\"" RATE_ALLOWED },
    { "packetInRate: 0x10", RATE "\"0x10\"" RATE_ALLOWED },
    { "packetInRate: 010", RATE "\"010\"" RATE_ALLOWED },
    { "packetInRate: 1_000", RATE "\"1_000\"" RATE_ALLOWED },
    { "packetInRate: +1", RATE "\"+1\"" RATE_ALLOWED },
    { "packetInRate: '17'", RATE "\"17\"" RATE_ALLOWED },
    { "packetInRate: true", RATE "\"true\"" RATE_ALLOWED },
    { "packetInRate: [1]", RATE "a list" RATE_ALLOWED },
    { "defaultMTU: 575", "f:1:13: defaultMTU: found \"575\", allowed an "
                         "integer from 576 to 65535\n" },
    { "tunnelPort: 65536",
      "f:1:13: tunnelPort: found \"65536\", allowed an integer from 1 to "
      "65535\n" },

    /* Named values. */
    { "trafficEncapMode: tunnel",
      "f:1:19: trafficEncapMode: found \"tunnel\", allowed encap, "
      "noEncap, hybrid or networkPolicyOnly\n" },
    { "ovsDatapathType: dpdk",
      "f:1:18: ovsDatapathType: found \"dpdk\", allowed system or "
      "netdev\n" },
    { "trafficEncapMode: [encap]",
      "f:1:19: trafficEncapMode: found a list, allowed encap, noEncap, "
      "hybrid or networkPolicyOnly\n" },
    { "tlsMinVersion: TLS13",
      "f:1:1: tlsMinVersion: not used by ofproxyd\n"
      "f:1:16: tlsMinVersion: found \"TLS13\", allowed VersionTLS10, "
      "VersionTLS11, VersionTLS12 or VersionTLS13\n" },

    /* Texts. */
    { "ovsRunDir: run/openvswitch",
      "f:1:12: ovsRunDir: found \"run/openvswitch\", allowed an absolute "
      "path\n" },
    { "ovsRunDir: {a: b}",
      "f:1:12: ovsRunDir: found a mapping, allowed an absolute path\n" },
#define NAME_ALLOWED                                                      \
    ", allowed an interface name of up to 15 characters without blanks, " \
    "'/' and ':'\n"
    { "hostGateway: sixteen-letters-",
      "f:1:14: hostGateway: found \"sixteen-letters-\"" NAME_ALLOWED },
    { "hostGateway: a b", "f:1:14: hostGateway: found \"a b\"" NAME_ALLOWED },
    { "hostGateway: a/b", "f:1:14: hostGateway: found \"a/b\"" NAME_ALLOWED },
    { "hostGateway: ..", "f:1:14: hostGateway: found \"..\"" NAME_ALLOWED },
    { "hostGateway: \"a\\nb\"",
      "f:1:14: hostGateway: found \"a?b\"" NAME_ALLOWED },
    { "antreaProxy: {serviceProxyName: 'a,b'}",
      "f:1:33: antreaProxy.serviceProxyName: found \"a,b\", allowed the "
      "value of a Kubernetes label\n" },
    { "antreaProxy: {serviceProxyName: -a}",
      "f:1:33: antreaProxy.serviceProxyName: found \"-a\", allowed the "
      "value of a Kubernetes label\n" },
    { "antreaProxy: {serviceProxyName: a.}",
      "f:1:33: antreaProxy.serviceProxyName: found \"a.\", allowed the "
      "value of a Kubernetes label\n" },
#define SERVER_ALLOWED ", allowed a host, HOST:PORT or an http or https URL\n"
    { "kubeAPIServerOverride: ftp://192.0.2.1",
      "f:1:24: kubeAPIServerOverride: found "
      "\"ftp://192.0.2.1\"" SERVER_ALLOWED },
    { "kubeAPIServerOverride: 192.0.2.1:0",
      "f:1:24: kubeAPIServerOverride: found "
      "\"192.0.2.1:0\"" SERVER_ALLOWED },
    { "kubeAPIServerOverride: https://admin:secret@192.0.2.1",
      "f:1:24: kubeAPIServerOverride: found an address with \"@\" or "
      "\"?\"" SERVER_ALLOWED },

    /* Lists. */
    { "antreaProxy:\n  nodePortAddresses: [192.0.2.1, 192.0.2.0/24, x]\n",
      "f:2:23: antreaProxy.nodePortAddresses[0]: found \"192.0.2.1\", "
      "allowed a CIDR\n"
      "f:2:48: antreaProxy.nodePortAddresses[2]: found \"x\", allowed a "
      "CIDR\n" },
    { "antreaProxy:\n  nodePortAddresses: [[192.0.2.0/24], ~]\n",
      "f:2:23: antreaProxy.nodePortAddresses[0]: found a list, allowed a "
      "CIDR\n"
      "f:2:39: antreaProxy.nodePortAddresses[1]: found nothing, allowed a "
      "CIDR\n" },

    /* Sections. */
    { "antreaProxy: true",
      "f:1:14: antreaProxy: found \"true\", allowed a mapping\n" },
    { "featureGates: [AntreaProxy]",
      "f:1:15: featureGates: found a list, allowed a mapping\n" },
    { "- a\n", "f:1:1: the whole file: found a list, allowed a mapping\n" },
    { "text\n", "f:1:1: the whole file: found \"text\", allowed a mapping\n" },

    /* Gates. */
    { "featureGates: {AntreaProxy: maybe}",
      "f:1:29: featureGates.AntreaProxy: found \"maybe\", allowed true or "
      "false\n" },
    { "featureGates: {EndpointSlice: false}",
      "f:1:31: featureGates.EndpointSlice: found \"false\", allowed "
      "true\n" },
    { "featureGates: {NoSuchGate: 1}",
      "f:1:16: featureGates.NoSuchGate: unknown feature gate, ignored\n"
      "f:1:28: featureGates.NoSuchGate: found \"1\", allowed true or "
      "false\n" },
    { "featureGates: {NoSuchGate: {a: b}}",
      "f:1:16: featureGates.NoSuchGate: unknown feature gate, ignored\n"
      "f:1:28: featureGates.NoSuchGate: found a mapping, allowed true or "
      "false\n" },

    /* No YAML. */
    { "ovsBridge: [\n",
      "f:2:1: not valid YAML: did not find expected node content while "
      "parsing a flow node\n" },
    { "a: 1\na: 2\n", "f:2:1: duplicate key \"a\", first on line 1\n" },
};

static void
a_wrong_value_is_named_with_what_is_allowed(void **state OVS_UNUSED)
{
    assert_all(wrong_values, ARRAY_SIZE(wrong_values), EINVAL);
}

static const struct text_case wrong_unused_values[] = {
    { "flowExporter: {flowPollInterval: 5}",
      "f:1:16: flowExporter.flowPollInterval: not used by ofproxyd\n"
      "f:1:34: flowExporter.flowPollInterval: found \"5\", allowed a "
      "duration such as 5s, 1m30s or 250ms\n" },
    { "flowExporter: {flowPollInterval: 5 s}",
      "f:1:16: flowExporter.flowPollInterval: not used by ofproxyd\n"
      "f:1:34: flowExporter.flowPollInterval: found \"5 s\", allowed a "
      "duration such as 5s, 1m30s or 250ms\n" },
    { "flowExporter: {flowPollInterval: 2562048h}",
      "f:1:16: flowExporter.flowPollInterval: not used by ofproxyd\n"
      "f:1:34: flowExporter.flowPollInterval: found \"2562048h\", allowed "
      "a duration such as 5s, 1m30s or 250ms\n" },
    { "flowExporter: {flowPollInterval: .s}",
      "f:1:16: flowExporter.flowPollInterval: not used by ofproxyd\n"
      "f:1:34: flowExporter.flowPollInterval: found \".s\", allowed a "
      "duration such as 5s, 1m30s or 250ms\n" },
    { "multicast: {igmpQueryVersions: [1, 4, x]}",
      "f:1:13: multicast.igmpQueryVersions: not used by ofproxyd\n"
      "f:1:36: multicast.igmpQueryVersions[1]: found \"4\", allowed an "
      "integer from 1 to 3\n"
      "f:1:39: multicast.igmpQueryVersions[2]: found \"x\", allowed an "
      "integer from 1 to 3\n" },
    { "clientConnection: {qps: fast}",
      "f:1:20: clientConnection.qps: not used by ofproxyd\n"
      "f:1:25: clientConnection.qps: found \"fast\", allowed a number\n" },
    { "multicluster: {namespace: A}",
      "f:1:27: multicluster.namespace: found \"A\", allowed the name of a "
      "namespace\n" },
    { "secondaryNetwork: {ovsBridges: [br1]}",
      "f:1:20: secondaryNetwork.ovsBridges: not used by ofproxyd\n"
      "f:1:33: secondaryNetwork.ovsBridges[0]: found \"br1\", allowed a "
      "mapping\n" },
    { "secondaryNetwork: {ovsBridges: br1}",
      "f:1:20: secondaryNetwork.ovsBridges: not used by ofproxyd\n"
      "f:1:32: secondaryNetwork.ovsBridges: found \"br1\", allowed a "
      "list, each item a mapping\n" },
};

static void
unused_values_of_a_wrong_type_are_errors_too(void **state OVS_UNUSED)
{
    static const char *const addresses[] = {
        "192.0.2.1",  "192.0.2.1:",      ":80",
        "example:80", "2001:db8::1:80",  "[2001:db8::1]",
        "[::1]:0",    "192.0.2.1:65536", "192.0.2.1:80/x",
    };

    assert_all(wrong_unused_values, ARRAY_SIZE(wrong_unused_values), EINVAL);
    for (size_t i = 0; i < ARRAY_SIZE(addresses); i++) {
        char *text = xasprintf(
            "antreaProxy: {serviceHealthCheckServerBindAddress: '%s'}",
            addresses[i]);
        char *messages = xasprintf(
            "f:1:52: antreaProxy.serviceHealthCheckServerBindAddress: found "
            "\"%s\", allowed IP:PORT\n",
            addresses[i]);
        assert_messages(text, EINVAL, messages);
        free(text);
        free(messages);
    }
}

static void
n1_a_scalar_where_a_list_is_expected_is_an_error(void **state OVS_UNUSED)
{
    static const struct text_case cases[] = {
        { "antreaProxy:\n  nodePortAddresses: '192.0.2.0/24'\n",
          "f:2:22: antreaProxy.nodePortAddresses: found \"192.0.2.0/24\", "
          "allowed a list, each item a CIDR\n" },
        { "antreaProxy:\n  skipServices: ns1/svc-a\n",
          "f:2:17: antreaProxy.skipServices: found \"ns1/svc-a\", allowed a "
          "list, each item NAMESPACE/NAME or an IP address\n" },
        { "antreaProxy:\n  skipServices: {ns1: svc-a}\n",
          "f:2:17: antreaProxy.skipServices: found a mapping, allowed a list, "
          "each item NAMESPACE/NAME or an IP address\n" },
        { "antreaProxy:\n  skipServices: ''\n",
          "f:2:17: antreaProxy.skipServices: found \"\", allowed a list, each "
          "item NAMESPACE/NAME or an IP address\n" },
    };

    assert_all(cases, ARRAY_SIZE(cases), EINVAL);
}

static void
n2_an_invalid_cidr_is_an_error_even_where_it_is_not_needed(
    void **state OVS_UNUSED)
{
    static const char *const cidrs[] = {
        "10.96.0.0/33",  "10.96.0.0",   "10.96.0/12",  "10.96.0.0/-1",
        "10.96.0.0/12/", "10.96.0.0/x", "x/12",        "/12",
        "10.96.0.0/",    "fd00::/64",   "256.0.0.0/8",
    };
    static const char *const cidrs_v6[] = {
        "2001:db8::/129", "2001:db8::", "10.96.0.0/12", "::g/64", "/64",
    };

    for (size_t i = 0; i < ARRAY_SIZE(cidrs); i++) {
        char *text = xasprintf("serviceCIDR: %s\n", cidrs[i]);
        char *messages = xasprintf(
            "f:1:14: serviceCIDR: found \"%s\", allowed an IPv4 CIDR\n",
            cidrs[i]);
        assert_messages(text, EINVAL, messages);
        free(text);
        free(messages);
    }
    for (size_t i = 0; i < ARRAY_SIZE(cidrs_v6); i++) {
        char *text = xasprintf("serviceCIDRv6: '%s'\n", cidrs_v6[i]);
        char *messages = xasprintf(
            "f:1:16: serviceCIDRv6: found \"%s\", allowed an IPv6 CIDR\n",
            cidrs_v6[i]);
        assert_messages(text, EINVAL, messages);
        free(text);
        free(messages);
    }
}

static void
n5_entries_of_skip_services_are_names_or_addresses(void **state OVS_UNUSED)
{
    static const char *const entries[] = {
        "svc-a",
        "ns1/",
        "/svc-a",
        "ns1/svc/a",
        "NS1/svc-a",
        "ns1/-a",
        "ns1/a.b",
        "10.96.0.256",
        "10.96.0.10/32",
        "10.96.0.10:80",
        /* 64 characters. */
        "ns1/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    };

    for (size_t i = 0; i < ARRAY_SIZE(entries); i++) {
        char *text =
            xasprintf("antreaProxy: {skipServices: ['%s']}\n", entries[i]);
        char *messages = xasprintf(
            "f:1:30: antreaProxy.skipServices[0]: found \"%.60s%s\", allowed "
            "NAMESPACE/NAME or an IP address\n",
            entries[i], strlen(entries[i]) > 60 ? "..." : "");
        assert_messages(text, EINVAL, messages);
        free(text);
        free(messages);
    }
}

static void
n5_skipped_services_are_found_by_name_and_by_address(void **state OVS_UNUSED)
{
    static const struct {
        const char *namespace, *name, *ip;
        bool skipped;
    } cases[] = {
        { "ns1", "svc-a", NULL, true },
        { "ns1", "svc-a", "192.0.2.7", true },
        { "ns1", "svc-b", "10.96.0.10", true },
        { "ns1", "svc-b", "2001:db8::a", true },
        { "ns1", "svc-b", "10.96.0.1", false },
        { "ns1", "svc-b", NULL, false },
        { "ns", "svc-a", NULL, false },
        { "ns2", "svc-a", NULL, false },
        { "ns11", "svc-a", NULL, false },
        { "ns1", "svc-", NULL, false },
        { "ns1", "svc-aa", NULL, false },
    };
    struct cfg cfg;

    cfgfix_load_ok(
        "antreaProxy:\n"
        "  skipServices: [ns1/svc-a, 10.96.0.10, '2001:db8:0:0::a']\n",
        &cfg);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct ip ip;
        if (cases[i].ip) {
            assert_int_equal(ip_from_string(cases[i].ip, &ip), 0);
        }
        assert_int_equal(cfg_skips_service(&cfg, cases[i].namespace,
                                           cases[i].name,
                                           cases[i].ip ? &ip : NULL),
                         cases[i].skipped);
    }
    cfg_uninit(&cfg);
}

static void
values_that_do_not_go_together_are_errors_with_a_reason(
    void **state OVS_UNUSED)
{
#define NO_ROUTE                                                          \
    "found \"true\", allowed false: other networks have no route to the " \
    "pods unless trafficEncapMode is noEncap or networkPolicyOnly\n"
#define NEED_PROXY ": the other modes need antreaProxy.enable: true\n"
    static const struct text_case cases[] = {
        { "noSNAT: true", "f:1:9: noSNAT: " NO_ROUTE },
        { "trafficEncapMode: hybrid\nnoSNAT: true",
          "f:2:9: noSNAT: " NO_ROUTE },
        { "antreaProxy: {enable: false}\ntrafficEncapMode: noEncap",
          "f:2:19: trafficEncapMode: found \"noEncap\", allowed "
          "encap" NEED_PROXY },
        { "trafficEncapMode: hybrid\nantreaProxy: {enable: false}",
          "f:1:19: trafficEncapMode: found \"hybrid\", allowed "
          "encap" NEED_PROXY },
        { "trafficEncapMode: networkPolicyOnly\n"
          "featureGates: {AntreaProxy: false}",
          "f:1:19: trafficEncapMode: found \"networkPolicyOnly\", allowed "
          "encap" NEED_PROXY
          "f:2:29: featureGates.AntreaProxy: deprecated, use "
          "antreaProxy.enable\n" },
        { "trafficEncapMode: networkPolicyOnly\n"
          "featureGates: {Multicluster: true}\n"
          "multicluster: {enableGateway: true}",
          "f:1:19: trafficEncapMode: found \"networkPolicyOnly\", allowed "
          "encap, noEncap or hybrid: multicluster.enableGateway needs pod "
          "networks of the nodes\n" },
        { "hostGateway: br-int",
          "f:1:14: hostGateway: found \"br-int\", allowed different names: "
          "ovsBridge and hostGateway are two interfaces\n" },
        { "ovsBridge: antrea-gw0",
          "f:1:12: ovsBridge: found \"antrea-gw0\", allowed different names: "
          "ovsBridge and hostGateway are two interfaces\n" },
        { "hostGateway: antrea-tun0",
          "f:1:14: hostGateway: found \"antrea-tun0\", allowed other names: "
          "this is the name of the port for tunnels\n" },
        { "ovsBridge: antrea-tun0",
          "f:1:12: ovsBridge: found \"antrea-tun0\", allowed other names: "
          "this is the name of the port for tunnels\n" },
#define NO_UPLINK \
    ", allowed an interface of the network: this one leads to the pods\n"
        { "transportInterface: antrea-gw0",
          "f:1:21: transportInterface: found \"antrea-gw0\"" NO_UPLINK },
        { "hostGateway: gw7\ntransportInterface: gw7",
          "f:2:21: transportInterface: found \"gw7\"" NO_UPLINK },
        { "transportInterface: br-int",
          "f:1:21: transportInterface: found \"br-int\"" NO_UPLINK },
        { "transportInterface: antrea-tun0",
          "f:1:21: transportInterface: found \"antrea-tun0\"" NO_UPLINK },
    };

    assert_all(cases, ARRAY_SIZE(cases), EINVAL);
}

static void
k3_modes_without_tunnels_need_the_proxy(void **state OVS_UNUSED)
{
    static const char *const modes[] = { "noEncap", "hybrid",
                                         "networkPolicyOnly" };

    for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
        char *text = xasprintf("trafficEncapMode: %s\n"
                               "antreaProxy: {enable: false}\n",
                               modes[i]);
        char *messages = xasprintf(
            "f:1:19: trafficEncapMode: found \"%s\", allowed encap" NEED_PROXY,
            modes[i]);
        assert_messages(text, EINVAL, messages);
        free(messages);
        free(text);

        text = xasprintf("trafficEncapMode: %s\n", modes[i]);
        assert_messages(text, 0, "");
        free(text);
    }
    assert_messages("antreaProxy: {enable: false}", 0, "");
}

static void
what_another_key_makes_useless_is_a_warning(void **state OVS_UNUSED)
{
    static const struct text_case cases[] = {
        { "tunnelType: gre\ntunnelPort: 7000",
          "f:2:13: tunnelPort: ignored, tunnels of type gre have no port\n" },
        { "transportInterfaceCIDRs: [192.0.2.0/24]\n"
          "transportInterface: eth1",
          "f:1:26: transportInterfaceCIDRs: ignored, transportInterface is "
          "given\n" },
        { "tunnelType: gre\ntunnelPort: 0", "" },
        { "tunnelType: stt\ntunnelPort: 7000\ntunnelCsum: true", "" },
        { "transportInterface: eth1\ntransportInterfaceCIDRs: []", "" },
        { "transportInterface: ''\n"
          "transportInterfaceCIDRs: [192.0.2.0/24, '2001:db8::/64']",
          "" },
        { "trafficEncapMode: noEncap\nnoSNAT: true", "" },
        { "trafficEncapMode: networkPolicyOnly\nnoSNAT: true", "" },
        { "trafficEncapMode: networkPolicyOnly\nnoSNAT: false", "" },
    };

    assert_all(cases, ARRAY_SIZE(cases), 0);
}

static void
what_ofproxyd_does_not_support_is_refused(void **state OVS_UNUSED)
{
#define NODES \
    "encryption of traffic between nodes is not supported by ofproxyd\n"
    static const struct text_case cases[] = {
        { "trafficEncryptionMode: ipsec",
          "f:1:24: trafficEncryptionMode: found \"ipsec\", allowed "
          "none: " NODES },
        { "trafficEncryptionMode: wireguard",
          "f:1:24: trafficEncryptionMode: found \"wireguard\", allowed "
          "none: " NODES },
        { "enableIPSecTunnel: true",
          "f:1:20: enableIPSecTunnel: found \"true\", allowed "
          "false: " NODES },
        { "multicluster: {trafficEncryptionMode: wireGuard}",
          "f:1:39: multicluster.trafficEncryptionMode: found \"wireGuard\", "
          "allowed none: encryption of traffic between clusters is not "
          "supported by ofproxyd\n" },
        { "enableBridgingMode: true",
          "f:1:21: enableBridgingMode: found \"true\", allowed false: "
          "bridging mode is not supported by ofproxyd\n" },
        { "antreaProxy: {defaultLoadBalancerMode: dsr}",
          "f:1:40: antreaProxy.defaultLoadBalancerMode: found \"dsr\", "
          "allowed nat: direct server return is not supported by "
          "ofproxyd\n" },
        { "nodeType: externalNode",
          "f:1:11: nodeType: found \"externalNode\", allowed k8sNode: a node "
          "outside the cluster is not supported by ofproxyd\n" },
    };

    assert_all(cases, ARRAY_SIZE(cases), EINVAL);
    cfgfix_assert_defaults(
        "trafficEncryptionMode: None\nenableBridgingMode: false\n"
        "multicluster: {trafficEncryptionMode: none}\n"
        "antreaProxy: {defaultLoadBalancerMode: NAT}\n"
        "nodeType: k8sNode\nenableIPSecTunnel: false\n");
}

static void
unknown_keys_are_warnings_with_a_guess(void **state OVS_UNUSED)
{
    static const struct text_case cases[] = {
        { "noSuchKey: 1\n", "f:1:1: noSuchKey: unknown key, ignored\n" },
        { "antreaProxy:\n  noSuchKey: {a: [b]}\n",
          "f:2:3: antreaProxy.noSuchKey: unknown key, ignored\n" },
        { "nosnat: true\n", "f:1:1: nosnat: unknown key, ignored; did you "
                            "mean \"noSNAT\"?\n" },
        { "proxyAll: true\n", "f:1:1: proxyAll: unknown key, ignored; did "
                              "you mean \"antreaProxy.proxyAll\"?\n" },
        { "AntreaProxy: {}\n", "f:1:1: AntreaProxy: unknown key, ignored; "
                               "did you mean \"antreaProxy\"?\n" },
        /* Not the key inside the section. */
        { "antreaProxy.proxyAll: true\n",
          "f:1:1: antreaProxy.proxyAll: unknown key, ignored; did you mean "
          "\"antreaProxy.proxyAll\"?\n" },
        { "featureGates: {NoSuchGate: true, NoOtherGate: }\n",
          "f:1:16: featureGates.NoSuchGate: unknown feature gate, ignored\n"
          "f:1:34: featureGates.NoOtherGate: unknown feature gate, "
          "ignored\n" },
        { "externalNode:\n  policyBypassRules: [{direction: ingress, foo: 1}]",
          "f:2:3: externalNode.policyBypassRules: not used by ofproxyd\n"
          "f:2:44: externalNode.policyBypassRules[0].foo: unknown key, "
          "ignored\n" },
    };

    assert_all(cases, ARRAY_SIZE(cases), 0);
}

static void
all_errors_are_reported_at_once_in_the_order_of_the_lines(
    void **state OVS_UNUSED)
{
    static const char text[] = "ovsBridge: a/b\n"
                               "noSNAT: true\n"
                               "egress: {exceptCIDRs: []}\n"
                               "antreaProxy:\n"
                               "  enable: 1\n"
                               "  foo: bar\n"
                               "  nodePortAddresses: x\n"
                               "packetInRate: fast\n"
                               "nodeType: externalNode\n"
                               "serviceCIDR: 10.96.0.0/33\n";
    struct cfg_report report;
    struct cfg cfg;
    cfg_report_init(&report);
    assert_int_equal(cfg_load_text("f", text, strlen(text), &cfg, &report),
                     EINVAL);

    struct ds messages = DS_EMPTY_INITIALIZER;
    for (size_t i = 0; i < report.n; i++) {
        const struct cfg_message *m = &report.messages[i];
        ds_put_format(&messages, "%d %d:%d %.*s\n", m->severity, m->line,
                      m->column, 38, m->text);
    }
    assert_string_equal(ds_cstr(&messages),
                        "0 1:12 f:1:12: ovsBridge: found \"a/b\", allowe\n"
                        "0 2:9 f:2:9: noSNAT: found \"true\", allowed f\n"
                        "2 3:10 f:3:10: egress.exceptCIDRs: not used b\n"
                        "0 5:11 f:5:11: antreaProxy.enable: found \"1\",\n"
                        "1 6:3 f:6:3: antreaProxy.foo: unknown key, i\n"
                        "0 7:22 f:7:22: antreaProxy.nodePortAddresses:\n"
                        "0 8:15 f:8:15: packetInRate: found \"fast\", al\n"
                        "0 9:11 f:9:11: nodeType: found \"externalNode\"\n"
                        "0 10:14 f:10:14: serviceCIDR: found \"10.96.0.0\n");
    assert_int_equal(report.n_of[CFG_ERROR], 7);
    assert_int_equal(report.n_of[CFG_WARNING], 1);
    assert_int_equal(report.n_of[CFG_NOTE], 1);
    ds_destroy(&messages);
    cfg_report_uninit(&report);
}

static void
a_report_has_a_limit_and_says_so(void **state OVS_UNUSED)
{
    struct ds text = DS_EMPTY_INITIALIZER;
    for (int i = 0; i < 10000; i++) {
        ds_put_format(&text, "key%d: 1\n", i);
    }
    ds_put_cstr(&text, "antreaProxy: {proxyAll: 1}\n");

    struct cfg_report report;
    struct cfg cfg;
    cfg_report_init(&report);
    assert_int_equal(cfg_load_text("f", ds_cstr(&text), text.length, &cfg,
                                   &report),
                     EINVAL);
    assert_int_equal(report.n_of[CFG_WARNING], 10000);
    assert_int_equal(report.n, 202);
    assert_string_equal(
        report.messages[200].text,
        "f:10001:25: antreaProxy.proxyAll: found \"1\", allowed true or "
        "false");
    assert_string_equal(report.messages[201].text,
                        "more than 200 warnings, the others are left out");
    cfg_report_uninit(&report);
    ds_destroy(&text);
}

/* Files. */

static void
a_file_is_loaded_and_named(void **state)
{
    static const char text[] = "ovsBridge: br1\nfoo: bar\n";
    char *path = tmpdir_write(*state, "good", text, strlen(text));
    char *expected = xasprintf("%s:2:1: foo: unknown key, ignored", path);
    struct cfg_report report;
    struct cfg cfg;

    cfg_report_init(&report);
    assert_int_equal(cfg_load(path, &cfg, &report), 0);
    assert_string_equal(cfg.ovs_bridge, "br1");
    assert_int_equal(report.n, 1);
    assert_string_equal(report.messages[0].text, expected);
    cfg_uninit(&cfg);
    cfg_report_uninit(&report);
    free(expected);
    free(path);
}

static void
a_file_that_can_not_be_read_is_an_error(void **state)
{
    char *big = tmpdir_write(*state, "big", "", 0);
    assert_int_equal(truncate(big, 100 * 1024 * 1024), 0);
    const struct {
        const char *path;
        int error;
        const char *message;
    } cases[] = {
        { "/nonexistent", ENOENT, "No such file or directory" },
        { *state, EINVAL, "not a regular file" },
        { big, EFBIG,
          "the file has 104857600 bytes, allowed at most 1048576" },
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char *expected = xasprintf("%s: %s", cases[i].path, cases[i].message);
        struct cfg_report report;
        struct cfg cfg;
        cfg_report_init(&report);
        assert_int_equal(cfg_load(cases[i].path, &cfg, &report),
                         cases[i].error);
        assert_int_equal(report.n_of[CFG_ERROR], 1);
        assert_string_equal(report.messages[0].text, expected);
        cfg_report_uninit(&report);
        free(expected);
    }
    free(big);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wrong_value_is_named_with_what_is_allowed),
        cmocka_unit_test(unused_values_of_a_wrong_type_are_errors_too),
        cmocka_unit_test(n1_a_scalar_where_a_list_is_expected_is_an_error),
        cmocka_unit_test(
            n2_an_invalid_cidr_is_an_error_even_where_it_is_not_needed),
        cmocka_unit_test(n5_entries_of_skip_services_are_names_or_addresses),
        cmocka_unit_test(n5_skipped_services_are_found_by_name_and_by_address),
        cmocka_unit_test(
            values_that_do_not_go_together_are_errors_with_a_reason),
        cmocka_unit_test(k3_modes_without_tunnels_need_the_proxy),
        cmocka_unit_test(what_another_key_makes_useless_is_a_warning),
        cmocka_unit_test(what_ofproxyd_does_not_support_is_refused),
        cmocka_unit_test(unknown_keys_are_warnings_with_a_guess),
        cmocka_unit_test(
            all_errors_are_reported_at_once_in_the_order_of_the_lines),
        cmocka_unit_test(a_report_has_a_limit_and_says_so),
        cmocka_unit_test(a_file_is_loaded_and_named),
        cmocka_unit_test(a_file_that_can_not_be_read_is_an_error),
    };
    return cmocka_run_group_tests_name("config", tests, tmpdir_setup,
                                       tmpdir_teardown);
}
