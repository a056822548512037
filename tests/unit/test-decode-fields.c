/* SPDX-License-Identifier: Apache-2.0 */
/* The fields that are read of Services, EndpointSlices and Nodes: what comes
 * of their values, and which values they refuse. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <util.h>

#include "../support/decoding.h"

/* Fragments. */

static void
check_svc(const char *spec, const char *expected)
{
    char *json = xasprintf("{\"metadata\":{\"name\":\"web\",\"namespace\":"
                           "\"ns1\"},%s}",
                           spec);
    char *text = !strncmp(expected, "error", 5)
                     ? xasprintf("%s\n", expected)
                     : xasprintf("Service ns1/web uid= version=0 created=0\n"
                                 "  %s\n",
                                 expected);

    decoding_check(MODEL_SERVICES, json, text);
    free(text);
    free(json);
}

static void
check_slice(const char *rest, const char *expected)
{
    char *json = xasprintf(
        "{\"metadata\":{\"name\":\"web\",\"namespace\":\"ns1\",\"labels\":{"
        "\"kubernetes.io/service-name\":\"svc-a\"}},\"addressType\":\"IPv4\""
        "%s}",
        rest);
    char *text = !strncmp(expected, "error", 5)
                     ? xasprintf("%s\n", expected)
                     : xasprintf("EndpointSlice ns1/web uid= version=0 "
                                 "created=0\n  of svc-a IPv4%s\n",
                                 expected);

    decoding_check(MODEL_SLICES, json, text);
    free(text);
    free(json);
}

static void
check_node(const char *rest, const char *expected)
{
    char *json = xasprintf("{\"metadata\":{\"name\":\"n1\"},%s}", rest);
    char *text = !strncmp(expected, "error", 5)
                     ? xasprintf("%s\n", expected)
                     : xasprintf("Node /n1 uid= version=0 created=0\n  zone="
                                 "%s\n",
                                 expected);

    decoding_check(MODEL_NODES, json, text);
    free(text);
    free(json);
}

#define BAD      "error: Service ns1/web: "
#define LESS     "\nleft out: Service ns1/web: "
#define POLICIES "ext=Cluster int=Cluster"
#define REST     POLICIES " affinity=0 health=0"

/* Services. */

static const struct {
    const char *spec, *expected;
} cluster_ip_cases[] = {
    { "\"clusterIP\":\"10.96.0.9\",\"clusterIPs\":[\"10.96.0.9\","
      "\"2001:db8::9\"],\"ipFamilies\":[\"IPv4\",\"IPv6\"]",
      "ClusterIP " REST " IPv4=10.96.0.9 IPv6=2001:db8::9" },
    { "\"clusterIP\":\"2001:db8::9\",\"clusterIPs\":[\"2001:db8::9\","
      "\"10.96.0.9\"],\"ipFamilies\":[\"IPv6\",\"IPv4\"]",
      "ClusterIP " REST " IPv4=10.96.0.9 IPv6=2001:db8::9" },
    /* What has no family is not served. */
    { "\"clusterIP\":\"10.96.0.9\",\"clusterIPs\":[\"10.96.0.9\","
      "\"2001:db8::9\"],\"ipFamilies\":[\"IPv4\"]",
      "ClusterIP " REST " IPv4=10.96.0.9" },
    { "\"clusterIP\":\"10.96.0.9\",\"clusterIPs\":[\"10.96.0.9\"],"
      "\"ipFamilies\":[\"IPv4\",\"IPv6\"]",
      "ClusterIP " REST " IPv4=10.96.0.9" },
    { "\"clusterIP\":\"10.96.0.9\",\"clusterIPs\":[\"10.96.0.9\",\"\"],"
      "\"ipFamilies\":[\"IPv4\",\"IPv6\"]",
      "ClusterIP " REST " IPv4=10.96.0.9" },
    /* Without families the one address says. */
    { "\"clusterIP\":\"10.96.0.9\"", "ClusterIP " REST " IPv4=10.96.0.9" },
    { "\"clusterIP\":\"2001:db8::9\",\"ipFamilies\":[],\"clusterIPs\":["
      "\"2001:db8::9\",\"10.96.0.9\"]",
      "ClusterIP " REST " IPv6=2001:db8::9" },
    /* Without the one address there is none. */
    { "\"clusterIPs\":[\"10.96.0.9\"],\"ipFamilies\":[\"IPv4\"]",
      "ClusterIP " REST },
    { "\"clusterIP\":\"\",\"clusterIPs\":[\"10.96.0.9\"],\"ipFamilies\":["
      "\"IPv4\"]",
      "ClusterIP " REST },
    { "\"clusterIP\":\"None\",\"clusterIPs\":[\"None\"],\"ipFamilies\":["
      "\"IPv4\"]",
      "ClusterIP headless " REST },
    /* The sloppy parser's addresses. */
    { "\"clusterIP\":\"010.096.000.009\"",
      "ClusterIP " REST " IPv4=10.96.0.9" },
    { "\"clusterIP\":\"::ffff:10.96.0.9\"",
      "ClusterIP " REST " IPv4=10.96.0.9" },
    /* Contradictions. */
    { "\"clusterIP\":\"10.96.0.9\",\"clusterIPs\":[\"10.96.0.9\","
      "\"10.96.0.10\"],\"ipFamilies\":[\"IPv4\",\"IPv6\"]",
      "ClusterIP " REST " IPv4=10.96.0.9" LESS
      "spec.clusterIPs[1] is no IPv6 address, as ipFamilies has it" },
    { "\"clusterIP\":\"10.96.0.9\",\"clusterIPs\":[\"1\"]",
      BAD "spec.clusterIPs[0]: found \"1\", want the IP address of a "
          "host" },
    { "\"clusterIP\":\"none\"",
      BAD "spec.clusterIP: found \"none\", want the IP address of a "
          "host" },
    { "\"clusterIP\":\"::\"",
      BAD "spec.clusterIP: found \"::\", want the IP address of a host" },
    { "\"clusterIP\":\"127.0.0.1\"",
      BAD "spec.clusterIP: found \"127.0.0.1\", want the IP address of a "
          "host" },
    { "\"ipFamilies\":[\"IPv5\"]",
      BAD "spec.ipFamilies[0]: found \"IPv5\", want \"IPv4\" or "
          "\"IPv6\"" },
    { "\"ipFamilies\":[\"IPv4\",\"IPv6\",\"IPv4\"]",
      BAD "spec.ipFamilies[2]: more than 2 elements" },
    { "\"clusterIPs\":[\"10.96.0.9\",\"10.96.0.9\",\"10.96.0.9\"]",
      BAD "spec.clusterIPs[2]: more than 2 elements" },
};

static void
cluster_ips_go_by_ip_families(void **state OVS_UNUSED)
{
    for (size_t i = 0; i < ARRAY_SIZE(cluster_ip_cases); i++) {
        char *spec = xasprintf("\"spec\":{%s}", cluster_ip_cases[i].spec);

        check_svc(spec, cluster_ip_cases[i].expected);
        free(spec);
    }
}

static void
types_policies_and_affinity_have_the_defaults_of_the_api(
    void **state OVS_UNUSED)
{
    static const struct {
        const char *spec, *expected;
    } cases[] = {
        { "\"type\":\"ExternalName\",\"externalName\":\"x\"",
          "ExternalName " REST },
        { "\"type\":\"NodePort\",\"externalTrafficPolicy\":\"Local\"",
          "NodePort ext=Local int=Cluster affinity=0 health=0" },
        { "\"type\":\"LoadBalancer\",\"externalTrafficPolicy\":\"Cluster\","
          "\"internalTrafficPolicy\":\"Local\",\"healthCheckNodePort\":65535",
          "LoadBalancer ext=Cluster int=Local affinity=0 health=65535" },
        { "\"publishNotReadyAddresses\":true",
          "ClusterIP " REST " not-ready" },
        { "\"publishNotReadyAddresses\":false", "ClusterIP " REST },
        { "\"sessionAffinity\":\"ClientIP\"",
          "ClusterIP " POLICIES " affinity=10800 health=0" },
        { "\"sessionAffinity\":\"ClientIP\",\"sessionAffinityConfig\":{}",
          "ClusterIP " POLICIES " affinity=10800 health=0" },
        { "\"sessionAffinityConfig\":{\"clientIP\":{\"timeoutSeconds\":1}},"
          "\"sessionAffinity\":\"ClientIP\"",
          "ClusterIP " POLICIES " affinity=1 health=0" },
        { "\"sessionAffinity\":\"ClientIP\",\"sessionAffinityConfig\":{"
          "\"clientIP\":{\"timeoutSeconds\":86400}}",
          "ClusterIP " POLICIES " affinity=86400 health=0" },
        { "\"sessionAffinity\":\"None\",\"sessionAffinityConfig\":{"
          "\"clientIP\":{\"timeoutSeconds\":60}}",
          "ClusterIP " REST },
        { "\"sessionAffinity\":\"ClientIP\",\"sessionAffinityConfig\":{"
          "\"clientIP\":{\"timeoutSeconds\":86401}}",
          "ClusterIP " POLICIES " affinity=10800 health=0" LESS
          "spec.sessionAffinityConfig.clientIP.timeoutSeconds: found "
          "86401, want an integer from 1 to 86400" },
        { "\"sessionAffinity\":\"ClientIP\",\"sessionAffinityConfig\":{"
          "\"clientIP\":{\"timeoutSeconds\":0}}",
          "ClusterIP " POLICIES " affinity=10800 health=0" LESS
          "spec.sessionAffinityConfig.clientIP.timeoutSeconds: found 0, "
          "want an integer from 1 to 86400" },
        { "\"sessionAffinity\":\"clientip\"",
          BAD "spec.sessionAffinity: found \"clientip\", want \"None\" or "
              "\"ClientIP\"" },
        { "\"type\":\"Other\"",
          BAD "spec.type: found \"Other\", want \"ClusterIP\" or \"NodePort\" "
              "or \"LoadBalancer\" or \"ExternalName\"" },
        { "\"externalTrafficPolicy\":\"Loc\"",
          BAD "spec.externalTrafficPolicy: found \"Loc\", want \"Cluster\" or "
              "\"Local\"" },
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char *spec = xasprintf("\"spec\":{%s}", cases[i].spec);

        check_svc(spec, cases[i].expected);
        free(spec);
    }
}

static void
service_ports_have_the_defaults_of_the_api(void **state OVS_UNUSED)
{
    check_svc("\"spec\":{\"ports\":[{\"port\":1},{\"name\":\"a\",\"protocol\":"
              "\"UDP\",\"port\":1},{\"protocol\":\"SCTP\",\"port\":65535,"
              "\"nodePort\":30000},{\"name\":\"b\",\"port\":2},{\"name\":"
              "\"c\",\"port\":3}]}",
              "ClusterIP " REST "\n"
              "  port \"\" TCP 1 node=0\n"
              "  port \"a\" UDP 1 node=0\n"
              "  port \"\" SCTP 65535 node=30000\n"
              "  port \"b\" TCP 2 node=0\n"
              "  port \"c\" TCP 3 node=0");
    check_svc("\"spec\":{\"ports\":[{\"name\":\"a\",\"port\":0},{\"name\":"
              "\"b\",\"port\":70000},{\"name\":\"c\",\"port\":3,"
              "\"nodePort\":70000}]}",
              "ClusterIP " REST "\n  port \"c\" TCP 3 node=0" LESS
              "spec.ports[0].port: found 0, want an integer from 1 to 65535");
    /* What is there first stays. */
    check_svc("\"spec\":{\"ports\":[{\"name\":\"b\",\"port\":4},{\"name\":"
              "\"a\",\"port\":3},{\"name\":\"a\",\"port\":2},{\"name\":"
              "\"a\",\"port\":1},{\"name\":\"a\",\"protocol\":\"UDP\","
              "\"port\":2}]}",
              "ClusterIP " REST "\n"
              "  port \"b\" TCP 4 node=0\n"
              "  port \"a\" TCP 3 node=0\n"
              "  port \"a\" UDP 2 node=0" LESS
              "spec.ports: found name \"a\" and protocol TCP more than once");
    check_svc("\"spec\":{\"ports\":[{\"protocol\":\"tcp\",\"port\":1}]}",
              BAD "spec.ports[0].protocol: found \"tcp\", want \"TCP\" or "
                  "\"UDP\" or \"SCTP\"");
    check_svc("\"spec\":{\"ports\":[{\"port\":1},{\"name\":\"a\"}]}",
              BAD "spec.ports[1].port: is missing");
}

static void
last_of_several_values_counts_as_if_it_were_the_only_one(
    void **state OVS_UNUSED)
{
    check_svc("\"spec\":{\"type\":\"NodePort\",\"ports\":[{\"port\":5}]},"
              "\"spec\":{\"ports\":[{\"port\":1},{\"port\":2}],\"ports\":[{"
              "\"port\":3,\"port\":4,\"name\":\"a\",\"name\":null}],"
              "\"externalIPs\":[\"203.0.113.1\"],\"externalIPs\":null}",
              "ClusterIP " REST "\n  port \"\" TCP 4 node=0");
    check_svc("\"spec\":{\"sessionAffinity\":\"ClientIP\","
              "\"sessionAffinityConfig\":{\"clientIP\":{\"timeoutSeconds\":9}}"
              ",\"sessionAffinityConfig\":{}},\"status\":{\"loadBalancer\":{"
              "\"ingress\":[{\"ip\":\"203.0.113.1\"}]},\"loadBalancer\":{}}",
              "ClusterIP " POLICIES " affinity=10800 health=0");
    check_svc("\"spec\":{\"type\":\"NodePort\"},\"spec\":null",
              "ClusterIP " REST);
    check_slice(",\"endpoints\":[{\"addresses\":[\"10.10.1.5\"]}],"
                "\"endpoints\":[{\"addresses\":[\"10.10.1.6\"],\"addresses\":["
                "\"10.10.1.7\"],\"conditions\":{\"ready\":false},"
                "\"conditions\":{},\"hints\":{\"forZones\":[{\"name\":\"za\"}]"
                "},\"hints\":{}}]",
                "\n  endpoint 10.10.1.7 node=(none) RS-");
}

static void
h7_ingress_addresses_keep_their_family_and_mode(void **state OVS_UNUSED)
{
    check_svc("\"status\":{\"loadBalancer\":{\"ingress\":[{\"ip\":"
              "\"2001:db8::10\"},{\"ip\":\"203.0.113.10\",\"ipMode\":\"VIP\"}"
              ",{\"ipMode\":\"Proxy\",\"ip\":\"203.0.113.11\"},{\"ip\":"
              "\"203.0.113.12\",\"ipMode\":\"Later\"},{\"hostname\":\"lb.exam"
              "ple.com\"},{\"ip\":\"\"},{\"ip\":\"203.0.113.10\"}]}}",
              "ClusterIP " REST " ingress=2001:db8::10 ingress=203.0.113.10 "
              "proxied=203.0.113.11 proxied=203.0.113.12 "
              "ingress=203.0.113.10");
    check_svc("\"status\":{\"loadBalancer\":{\"ingress\":[{},{\"ip\":"
              "\"203.0.113\"},{\"ip\":\"127.0.0.1\"},{\"ip\":"
              "\"0203.0.113.09\"}]}}",
              "ClusterIP " REST " ingress=203.0.113.9" LESS
              "status.loadBalancer.ingress[1].ip: found \"203.0.113\", want "
              "the IP address of a host");
}

static void
external_addresses_that_are_none_are_left_out(void **state OVS_UNUSED)
{
    check_svc("\"spec\":{\"externalIPs\":[\"x\",\"192.0.2.5\",\"\","
              "\"224.0.0.1\",\"::ffff:192.0.2.6\",\"192.0.2.007\"]}",
              "ClusterIP " REST " external=192.0.2.5 external=192.0.2.6 "
              "external=192.0.2.7" LESS
              "spec.externalIPs[0]: found \"x\", want the IP address of a "
              "host");
    /* One of a family that the Service hasn't is never served, and said. */
    check_svc("\"spec\":{\"clusterIP\":\"10.96.0.9\",\"externalIPs\":["
              "\"192.0.2.5\",\"2001:db8::5\"]}",
              "ClusterIP " REST " IPv4=10.96.0.9 external=192.0.2.5 "
              "external=2001:db8::5" LESS
              "spec.externalIPs: found \"2001:db8::5\" in a Service without "
              "IPv6 cluster IP");
}

static void
h8_source_ranges_are_trimmed_and_kept_of_both_families(void **state OVS_UNUSED)
{
    static const char *const bad[] = {
        "203.0.113.0/33", "203.0.113.1", " ", "", "2001:db8::/129", "x/8"
    };

    check_svc("\"spec\":{\"loadBalancerSourceRanges\":[\"203.0.113.0/24 \","
              "\"\\t2001:db8::/32\\n\",\"0.0.0.0/0\",\" 010.0.0.1/8\"]}",
              "ClusterIP " REST " from=203.0.113.0/24 from=2001:db8::/32 "
              "from=0.0.0.0/0 from=10.0.0.1/8");
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        char *spec = xasprintf("\"spec\":{\"loadBalancerSourceRanges\":["
                               "\"192.0.2.0/24\",\"%s\",\"192.0.3.0/24\"]}",
                               bad[i]);
        char *expected =
            xasprintf("ClusterIP " REST
                      " from=192.0.2.0/24 from=192.0.3.0/24" LESS
                      "spec.loadBalancerSourceRanges[1]: found \"%s\", want "
                      "ADDRESS/PREFIXLEN",
                      bad[i]);

        check_svc(spec, expected);
        free(expected);
        free(spec);
    }
}

static void
a25_headless_service_with_external_ips_is_headless(void **state OVS_UNUSED)
{
    static const char json[] =
        "{\"metadata\":{\"name\":\"db\",\"namespace\":\"ns1\"},\"spec\":{"
        "\"clusterIP\":\"None\",\"externalIPs\":[\"203.0.113.9\"]}}";
    struct intern_pool *pool = intern_pool_create();
    struct kube_object object = { .kind = MODEL_SERVICES };
    struct err err;

    assert_false(kube_decode(json, strlen(json), pool, &object, &err));
    assert_true(object.svc->headless);
    assert_false(svc_is_served(object.svc));
    svc_free(object.svc, pool);
    intern_pool_destroy(pool);
}

static void
labels_and_annotations_that_matter_are_seen(void **state OVS_UNUSED)
{
    static const struct {
        const char *meta, *expected;
    } cases[] = {
        { "\"labels\":{\"service.kubernetes.io/service-proxy-name\":\"\"}",
          " proxy=\"\"" },
        { "\"labels\":{\"service.kubernetes.io/service-proxy-name\":\"x\"}",
          " proxy=\"x\"" },
        { "\"labels\":{\"service.kubernetes.io\\/service-proxy-nam\\u0065\":"
          "\"x\"}",
          " proxy=\"x\"" },
        { "\"labels\":{\"service.kubernetes.io/service-proxy-name\":null}",
          "" },
        { "\"annotations\":{\"service.kubernetes.io/service-proxy-name\":"
          "\"x\"}",
          "" },
        { "\"annotations\":{\"multicluster.antrea.io/imported-service\":"
          "\"true\"}",
          " imported" },
        { "\"annotations\":{\"multicluster.antrea.io/imported-service\":"
          "null}",
          "" },
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char *json = xasprintf("{\"metadata\":{\"name\":\"web\",\"namespace\":"
                               "\"ns1\",%s}}",
                               cases[i].meta);
        char *expected = xasprintf("Service ns1/web uid= version=0 created=0\n"
                                   "  ClusterIP " REST "%s\n",
                                   cases[i].expected);

        decoding_check(MODEL_SERVICES, json, expected);
        free(expected);
        free(json);
    }
}

/* EndpointSlices. */

#define BAD_SLICE "error: EndpointSlice ns1/web: "

static void
a8_slice_without_endpoints_is_an_empty_one(void **state OVS_UNUSED)
{
    check_slice("", "");
    check_slice(",\"endpoints\":null,\"ports\":null", "");
    check_slice(",\"endpoints\":[],\"ports\":[]", "");
    check_slice(",\"endpoints\":[null,{},{\"addresses\":null},{\"addresses\":"
                "[]},{\"addresses\":[null,\"10.10.1.5\"]}]",
                "");
    check_slice(",\"endpoints\":[{\"addresses\":[\"10.10.1.5\"],"
                "\"addresses\":null}]",
                "");
}

static void
a10_conditions_that_are_missing_have_their_defaults(void **state OVS_UNUSED)
{
    static const struct {
        const char *conditions, *flags;
    } cases[] = {
        { "", "RS-" },
        { ",\"conditions\":null", "RS-" },
        { ",\"conditions\":{}", "RS-" },
        { ",\"conditions\":{\"ready\":null,\"serving\":null,\"terminating\":"
          "null}",
          "RS-" },
        { ",\"conditions\":{\"ready\":false}", "-S-" },
        { ",\"conditions\":{\"serving\":false}", "R--" },
        { ",\"conditions\":{\"terminating\":true}", "RST" },
        { ",\"conditions\":{\"ready\":false,\"serving\":true,\"terminating\":"
          "true}",
          "-ST" },
        { ",\"conditions\":{\"ready\":true,\"serving\":true,\"terminating\":"
          "false}",
          "RS-" },
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char *rest = xasprintf(",\"endpoints\":[{\"addresses\":["
                               "\"10.10.1.5\"]%s}]",
                               cases[i].conditions);
        char *expected =
            xasprintf("\n  endpoint 10.10.1.5 node=(none) %s", cases[i].flags);

        check_slice(rest, expected);
        free(expected);
        free(rest);
    }
}

static void
a19_ports_without_number_are_skipped_and_the_first_address_counts(
    void **state OVS_UNUSED)
{
    check_slice(
        ",\"ports\":[{\"name\":\"a\",\"port\":null},{\"name\":\"b\"},"
        "{\"name\":\"c\",\"port\":0},null,{},{\"name\":null,\"port\":"
        "80},{\"port\":81,\"protocol\":null},{\"name\":\"\",\"port\":"
        "82,\"protocol\":\"UDP\"}]",
        "\n  port \"\" TCP 80\n  port \"\" TCP 81\n  port \"\" UDP 82");
    check_slice(",\"ports\":[{\"port\":65536}]",
                BAD_SLICE "ports[0].port: found 65536, want an integer from 0 "
                          "to 65535");
    check_slice(",\"endpoints\":[{\"addresses\":[\"10.10.1.5\",\"10.10.1.6\","
                "\"junk\"],\"nodeName\":\"\"}]",
                "\n  endpoint 10.10.1.5 node=(none) RS-");
}

static void
hints_are_read(void **state OVS_UNUSED)
{
    check_slice(",\"endpoints\":[{\"nodeName\":\"n2\",\"hints\":{\"forZones\":"
                "[{\"name\":\"za\"},{\"name\":\"\"},{},{\"name\":\"zb\"}],"
                "\"forNodes\":[{\"name\":\"n1\"}]},\"addresses\":["
                "\"10.10.1.5\"]},{\"addresses\":[\"10.10.1.6\"],\"hints\":{"
                "\"forZones\":null}}]",
                "\n  endpoint 10.10.1.5 node=n2 RS- zone=za zone=zb "
                "for-node=n1\n  endpoint 10.10.1.6 node=(none) RS-");
}

static void
address_of_the_other_family_makes_the_slice_bad(void **state OVS_UNUSED)
{
    check_slice(",\"endpoints\":[{\"addresses\":[\"10.10.1.5\"]},{},{"
                "\"addresses\":[\"2001:db8::5\"]}]",
                BAD_SLICE "endpoints[2].addresses[0]: found \"2001:db8::5\", "
                          "want the IPv4 address of a host");
    check_slice(",\"endpoints\":[{\"addresses\":[\"db.example.com\"]}]",
                BAD_SLICE "endpoints[0].addresses[0]: found "
                          "\"db.example.com\", want the IPv4 address of a "
                          "host");
    check_slice(",\"endpoints\":[{\"addresses\":[\"0.0.0.0\"]}]",
                BAD_SLICE "endpoints[0].addresses[0]: found \"0.0.0.0\", want "
                          "the IPv4 address of a host");
    check_slice(",\"endpoints\":[{\"addresses\":[\"010.010.001.005\"]}]",
                "\n  endpoint 10.10.1.5 node=(none) RS-");
}

static void
a20_slice_of_names_or_of_no_service_is_ignored(void **state OVS_UNUSED)
{
    static const char *const jsons[] = {
        "{\"metadata\":{\"name\":\"web\",\"namespace\":\"ns1\",\"labels\":{"
        "\"kubernetes.io/service-name\":\"svc-a\"}},\"addressType\":\"FQDN\","
        "\"endpoints\":[{\"addresses\":[\"db.example.com\"]}],\"ports\":5}",
        /* The type may come last. */
        "{\"endpoints\":[{\"addresses\":[\"db.example.com\"]}],\"metadata\":{"
        "\"name\":\"web\",\"namespace\":\"ns1\",\"labels\":{\"kubernetes.io/"
        "service-name\":\"svc-a\"}},\"addressType\":\"FQDN\"}",
        "{\"metadata\":{\"name\":\"web\",\"namespace\":\"ns1\"},"
        "\"addressType\":\"IPv4\",\"endpoints\":[{\"addresses\":[\"junk\"]}]}",
        "{\"metadata\":{\"name\":\"web\",\"namespace\":\"ns1\",\"labels\":{"
        "\"kubernetes.io/service-name\":\"\"}},\"addressType\":\"IPv4\"}",
        "{\"metadata\":{\"name\":\"web\",\"namespace\":\"ns1\",\"labels\":{"
        "\"kubernetes.io/service-name\":null}},\"addressType\":\"IPv4\"}",
    };

    for (size_t i = 0; i < ARRAY_SIZE(jsons); i++) {
        decoding_check(MODEL_SLICES, jsons[i],
                       "EndpointSlice ns1/web is ignored\n");
    }
}

static void
slice_without_a_known_address_type_is_bad(void **state OVS_UNUSED)
{
#define START                                                            \
    "{\"metadata\":{\"name\":\"web\",\"namespace\":\"ns1\",\"labels\":{" \
    "\"kubernetes.io/service-name\":\"svc-a\"}}"
    decoding_check(MODEL_SLICES, START "}",
                   BAD_SLICE "addressType: is missing\n");
    decoding_check(MODEL_SLICES, START ",\"addressType\":\"\"}",
                   BAD_SLICE "addressType: is missing\n");
    decoding_check(MODEL_SLICES, START ",\"addressType\":\"IPv5\"}",
                   BAD_SLICE "addressType: found \"IPv5\", want \"IPv4\" or "
                             "\"IPv6\" or \"FQDN\"\n");
    decoding_check(MODEL_SLICES,
                   START ",\"endpoints\":[{\"addresses\":[\"2001:db8::5\"]}],"
                         "\"addressType\":\"IPv6\"}",
                   "EndpointSlice ns1/web uid= version=0 created=0\n"
                   "  of svc-a IPv6\n"
                   "  endpoint 2001:db8::5 node=(none) RS-\n");
#undef START
}

static const struct {
    int n;
    const char *start, *element, *end;
    const char *error; /* NULL if that many are allowed. */
} limit_cases[] = {
    { 65536, ",\"endpoints\":[", "{\"addresses\":[\"10.10.1.5\"]}", "]",
      NULL },
    { 65537, ",\"endpoints\":[", "{\"addresses\":[\"10.10.1.5\"]}", "]",
      "endpoints[65536]: more than 65536 elements" },
    { 65537, ",\"ports\":[", "{\"port\":1}", "]",
      "ports[65536]: more than 65536 elements" },
    { 255,
      ",\"endpoints\":[{\"addresses\":[\"10.10.1.5\"],\"hints\":{"
      "\"forZones\":[",
      "{\"name\":\"z\"}", "]}}]", NULL },
    { 256,
      ",\"endpoints\":[{\"addresses\":[\"10.10.1.5\"],\"hints\":{"
      "\"forZones\":[",
      "{\"name\":\"z\"}", "]}}]",
      "endpoints[0].hints.forZones[255]: more than 255 elements" },
    { 256,
      ",\"endpoints\":[{\"addresses\":[\"10.10.1.5\"],\"hints\":{"
      "\"forNodes\":[",
      "{\"name\":\"z\"}", "]}}]",
      "endpoints[0].hints.forNodes[255]: more than 255 elements" },
    { 1001, ",\"endpoints\":[{\"addresses\":[", "\"10.10.1.5\"", "]}]",
      "endpoints[0].addresses[1000]: more than 1000 elements" },
    { 254, ",\"endpoints\":[{\"nodeName\":\"", "", "\"}]",
      "endpoints[0].nodeName: found \"" },
};

static void
lists_have_limits(void **state OVS_UNUSED)
{
    for (size_t i = 0; i < ARRAY_SIZE(limit_cases); i++) {
        struct ds json = DS_EMPTY_INITIALIZER, found = DS_EMPTY_INITIALIZER;

        ds_put_format(&json,
                      "{\"metadata\":{\"name\":\"web\",\"namespace\":\"ns1\","
                      "\"labels\":{\"kubernetes.io/service-name\":\"svc-a\"}},"
                      "\"addressType\":\"IPv4\"%s",
                      limit_cases[i].start);
        for (int j = 0; j < limit_cases[i].n; j++) {
            ds_put_format(&json, "%s%s",
                          !limit_cases[i].element[0] ? "x"
                          : j                        ? ","
                                                     : "",
                          limit_cases[i].element);
        }
        ds_put_format(&json, "%s}", limit_cases[i].end);
        decoding_format(MODEL_SLICES, json.string, json.length, &found);
        if (limit_cases[i].error) {
            char *error = xasprintf(BAD_SLICE "%s", limit_cases[i].error);

            assert_memory_equal(ds_cstr(&found), error, strlen(error));
            free(error);
        } else {
            assert_memory_equal(ds_cstr(&found), "EndpointSlice ns1/web ", 22);
        }
        ds_destroy(&found);
        ds_destroy(&json);
    }
}

/* Nodes. */

static void
i4_pod_cidrs_are_collapsed_and_checked(void **state OVS_UNUSED)
{
    check_node("\"spec\":{\"podCIDR\":\"10.10.2.0/24\",\"podCIDRs\":["
               "\"10.10.2.0/24\",\"10.10.2.0/24\",\"10.10.2.5/24\","
               "\"2001:db8:2::/64\",\"10.10.2.0/25\"]}",
               " pods=10.10.2.0/24 pods=2001:db8:2::/64 pods=10.10.2.0/25");
    check_node("\"spec\":{\"podCIDR\":\"10.10.2.0/24\"}",
               " pods=10.10.2.0/24");
    check_node("\"spec\":{\"podCIDRs\":[],\"podCIDR\":\"10.10.2.0/24\"}",
               " pods=10.10.2.0/24");
    check_node("\"spec\":{\"podCIDRs\":[\"10.10.2.0\"]}",
               "error: Node n1: spec.podCIDRs[0]: found \"10.10.2.0\", want "
               "ADDRESS/PREFIXLEN");
    check_node("\"spec\":{\"podCIDR\":\"10.10.2.0/40\"}",
               "error: Node n1: spec.podCIDR: found \"10.10.2.0/40\", want "
               "ADDRESS/PREFIXLEN");
}

static void
node_addresses_that_are_none_are_left_out(void **state OVS_UNUSED)
{
    check_node("\"status\":{\"addresses\":[{\"type\":\"InternalIP\","
               "\"address\":\"192.0.2.11\"},{\"address\":\"203.0.113.11\","
               "\"type\":\"ExternalIP\"},{\"type\":\"Hostname\",\"address\":"
               "\"192.0.2.12\"},{\"type\":\"ExternalDNS\",\"address\":"
               "\"x.example.com\"},{\"type\":\"ExternalIP\",\"address\":"
               "\"x.example.com\"},{\"type\":\"InternalIP\",\"address\":\"\"}"
               ",{\"type\":\"InternalIP\",\"address\":\"127.0.0.1\"},{\"type\""
               ":\"InternalIP\"},{\"address\":\"192.0.2.13\"},{\"type\":"
               "\"InternalIP\",\"address\":\"2001:db8::11\"}]}",
               " internal=192.0.2.11 external=203.0.113.11 "
               "internal=2001:db8::11");
}

static void
node_that_is_to_go_is_seen(void **state OVS_UNUSED)
{
    check_node("\"spec\":{\"taints\":[{\"key\":\"a\"},{\"effect\":"
               "\"NoSchedule\",\"key\":\"ToBeDeletedByClusterAutoscaler\"},{"
               "\"key\":\"b\"}]}",
               " to-be-deleted");
    check_node("\"spec\":{\"taints\":[{\"key\":\"a\",\"value\":"
               "\"ToBeDeletedByClusterAutoscaler\"}]}",
               "");
    decoding_check(MODEL_NODES,
                   "{\"metadata\":{\"name\":\"n1\",\"deletionTimestamp\":"
                   "\"2026-11-29T13:53:13Z\",\"labels\":{\"topology."
                   "kubernetes.io/zone\":\"za\"}}}",
                   "Node /n1 uid= version=0 created=0\n  zone=za deleting\n");
}

static void
transport_addresses_are_one_of_each_family(void **state OVS_UNUSED)
{
#define LEFT_OUT(WHAT)                                                  \
    "left out: Node n1: metadata.annotations[\"node.antrea.io/"         \
    "transport-addresses\"]: found \"" WHAT "\", want IP addresses of " \
    "hosts, one of each family\n"
    static const struct {
        const char *value, *expected, *left_out;
    } cases[] = {
        { "\"192.0.2.11\"", " transport=192.0.2.11", "" },
        { "\"2001:db8::11\"", " transport=2001:db8::11", "" },
        { "\"192.0.2.11,2001:db8::11\"",
          " transport=192.0.2.11 transport=2001:db8::11", "" },
        { "\" 2001:db8::11 ,\\t192.0.2.11\\n\"",
          " transport=192.0.2.11 transport=2001:db8::11", "" },
        { "\"::ffff:192.0.2.11\"", " transport=192.0.2.11", "" },
        { "\"\"", "", "" },
        { "\" , ,\"", "", "" },
        { "null", "", "" },
        { "\"192.0.2.11,\"", " transport=192.0.2.11", "" },
        { "\",,192.0.2.11\"", " transport=192.0.2.11", "" },
        { "\"192.0.2.11,192.0.2.12\"", " transport=192.0.2.11",
          LEFT_OUT("192.0.2.12") },
        { "\"192.0.2.11,192.0.2.11\"", " transport=192.0.2.11",
          LEFT_OUT("192.0.2.11") },
        { "\"junk\"", "", LEFT_OUT("junk") },
        { "\"junk,more,192.0.2.11\"", " transport=192.0.2.11",
          LEFT_OUT("junk") },
        { "\"192.0.2.11 192.0.2.12\"", "", LEFT_OUT("192.0.2.11 192.0.2.12") },
        { "\"192.0.2.11/24\"", "", LEFT_OUT("192.0.2.11/24") },
        { "\"fe80::1%eth0\"", "", LEFT_OUT("fe80::1%eth0") },
        { "\"0.0.0.0,::\"", "", LEFT_OUT("0.0.0.0") },
        { "\"127.0.0.1,2001:db8::11\"", " transport=2001:db8::11",
          LEFT_OUT("127.0.0.1") },
        { "\"224.0.0.5\"", "", LEFT_OUT("224.0.0.5") },
        { "\"a\\u0001\\u00e9\"", "", LEFT_OUT("a???") },
        { "\"0123456789012345678901234567890123456789012345678901234567890123"
          "456789,192.0.2.11\"",
          " transport=192.0.2.11",
          LEFT_OUT("01234567890123456789012345678901234567890123456789"
                   "01234567890123") },
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char *json = xasprintf("{\"metadata\":{\"name\":\"n1\","
                               "\"annotations\":{\"node.antrea.io/transport-"
                               "addresses\":%s}},\"spec\":{\"podCIDR\":"
                               "\"10.10.2.0/24\"}}",
                               cases[i].value);
        char *expected = xasprintf("Node /n1 uid= version=0 created=0\n"
                                   "  zone=%s pods=10.10.2.0/24\n%s",
                                   cases[i].expected, cases[i].left_out);

        decoding_check(MODEL_NODES, json, expected);
        free(expected);
        free(json);
    }
}

static void
last_annotations_count_as_if_they_were_the_only_ones(void **state OVS_UNUSED)
{
    decoding_check(MODEL_NODES,
                   "{\"metadata\":{\"annotations\":{\"node.antrea.io/"
                   "transport-addresses\":\"192.0.2.11\"},\"name\":\"n1\","
                   "\"annotations\":{}}}",
                   "Node /n1 uid= version=0 created=0\n  zone=\n");
    decoding_check(MODEL_NODES,
                   "{\"metadata\":{\"name\":\"n1\",\"annotations\":{"
                   "\"node.antrea.io/transport-addresses\":\"junk\","
                   "\"node.antrea.io/transport-addresse\\u0073\":"
                   "\"192.0.2.\\u0031\"}}}",
                   "Node /n1 uid= version=0 created=0\n  zone= "
                   "transport=192.0.2.1\n");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cluster_ips_go_by_ip_families),
        cmocka_unit_test(
            types_policies_and_affinity_have_the_defaults_of_the_api),
        cmocka_unit_test(service_ports_have_the_defaults_of_the_api),
        cmocka_unit_test(
            last_of_several_values_counts_as_if_it_were_the_only_one),
        cmocka_unit_test(h7_ingress_addresses_keep_their_family_and_mode),
        cmocka_unit_test(external_addresses_that_are_none_are_left_out),
        cmocka_unit_test(
            h8_source_ranges_are_trimmed_and_kept_of_both_families),
        cmocka_unit_test(a25_headless_service_with_external_ips_is_headless),
        cmocka_unit_test(labels_and_annotations_that_matter_are_seen),
        cmocka_unit_test(a8_slice_without_endpoints_is_an_empty_one),
        cmocka_unit_test(a10_conditions_that_are_missing_have_their_defaults),
        cmocka_unit_test(
            a19_ports_without_number_are_skipped_and_the_first_address_counts),
        cmocka_unit_test(hints_are_read),
        cmocka_unit_test(address_of_the_other_family_makes_the_slice_bad),
        cmocka_unit_test(a20_slice_of_names_or_of_no_service_is_ignored),
        cmocka_unit_test(slice_without_a_known_address_type_is_bad),
        cmocka_unit_test(lists_have_limits),
        cmocka_unit_test(i4_pod_cidrs_are_collapsed_and_checked),
        cmocka_unit_test(node_addresses_that_are_none_are_left_out),
        cmocka_unit_test(node_that_is_to_go_is_seen),
        cmocka_unit_test(transport_addresses_are_one_of_each_family),
        cmocka_unit_test(last_annotations_count_as_if_they_were_the_only_ones),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
