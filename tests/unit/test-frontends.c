/* SPDX-License-Identifier: Apache-2.0 */
/* Which addresses a Service is reached by, case by case: services.md 1.1, 1.2
 * and the first columns of 2.5, KEP-1860 with design.md 8, and what happens to
 * lists that are longer than anybody's. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <openvswitch/dynamic-string.h>
#include <util.h>

#include "../../src/agent/frontends.h"

#define MAX_LIST 8

/* A Service with one TCP port 80, and what it is chosen for.  Lists are
 * separated by blanks. */
struct spec {
    bool no_proxy_all;
    bool no_lb_ips;
    const char *node_ips; /* Ascending. */
    enum ip_family family;
    enum svc_type type;
    bool internal_local, external_local;
    uint16_t node_port;
    const char *external_ips;
    const char *ingress; /* "ADDRESS" or "ADDRESS=Proxy". */
    const char *ranges;
    uint16_t server_port; /* Of an API server at 198.51.100.6. */
};

/* Parses 'list' into at most MAX_LIST elements. */
static size_t
split(const char *list, char elements[MAX_LIST][64])
{
    size_t n = 0;
    int used;

    while (list && sscanf(list, " %63s%n", elements[n], &used) == 1) {
        list += used;
        assert_true(++n < MAX_LIST);
    }
    return n;
}

static struct ip
ip(const char *s)
{
    struct ip ret;

    assert_int_equal(ip_from_string(s, &ret), 0);
    return ret;
}

static size_t
parse_ips(const char *list, struct ip *ips)
{
    char elements[MAX_LIST][64];
    size_t n = split(list, elements);

    for (size_t i = 0; i < n; i++) {
        ips[i] = ip(elements[i]);
    }
    return n;
}

static size_t
parse_ingress(const char *list, struct svc_ingress *ingress)
{
    char elements[MAX_LIST][64];
    size_t n = split(list, elements);

    for (size_t i = 0; i < n; i++) {
        char *mode = strchr(elements[i], '=');

        ingress[i].proxy = mode != NULL;
        if (mode) {
            *mode = '\0';
        }
        ingress[i].ip = ip(elements[i]);
    }
    return n;
}

static size_t
parse_ranges(const char *list, struct cidr *ranges)
{
    char elements[MAX_LIST][64];
    size_t n = split(list, elements);

    for (size_t i = 0; i < n; i++) {
        assert_int_equal(cidr_parse(elements[i], &ranges[i]), 0);
    }
    return n;
}

/* "C" of policy Cluster or "L", with "r" if restricted. */
static void
format_frontend(const struct pipe_frontend *f, struct ds *ds)
{
    char buf[IP_STRLEN];

    switch (f->kind) {
    case PIPE_CLUSTER_IP: ds_put_cstr(ds, "cluster-ip"); break;
    case PIPE_NODE_PORT: ds_put_cstr(ds, "node-port"); break;
    case PIPE_EXTERNAL: ds_put_cstr(ds, ip_to_string(&f->ip, buf)); break;
    }
    ds_put_format(ds, ":%d/%s%s", f->port,
                  f->scope == PIPE_SCOPE_LOCAL ? "L" : "C",
                  f->restricted ? "r" : "");
}

/* Without the cluster IP, which is always first. */
static void
format(const struct frontends *f, struct ds *ds)
{
    char buf[CIDR_STRLEN];

    for (size_t i = 1; i < f->n; i++) {
        ds_put_cstr(ds, i > 1 ? " " : "");
        format_frontend(&f->frontends[i], ds);
    }
    for (size_t i = 0; i < f->n_source_ranges; i++) {
        ds_put_format(ds, "%s%s", i ? "," : " from ",
                      cidr_to_string(&f->source_ranges[i], buf));
    }
    ds_put_cstr(ds, f->node_in_ranges ? ",node" : "");
}

/* What a test looks at besides the text. */
struct result {
    bool uses_node_ips;
    size_t n_left_out;
};

static struct result
check(const struct spec *spec, const char *expected)
{
    struct cfg cfg;
    struct ip node_ips[MAX_LIST], external_ips[MAX_LIST];
    struct svc_ingress ingress[MAX_LIST];
    struct cidr ranges[MAX_LIST];
    struct svc_port port = { .name = "",
                             .port = 80,
                             .node_port = spec->node_port };
    struct svc svc = {
        .type = spec->type,
        .internal_policy = spec->internal_local,
        .external_policy = spec->external_local,
        .cluster_ips = { ip("10.96.0.1"), ip("2001:db8:96::1") },
        .ports = &port,
        .n_ports = 1,
        .external_ips = external_ips,
        .n_external_ips = parse_ips(spec->external_ips, external_ips),
        .ingress = ingress,
        .n_ingress = parse_ingress(spec->ingress, ingress),
        .source_ranges = ranges,
        .n_source_ranges = parse_ranges(spec->ranges, ranges),
    };
    struct frontends_env env = {
        &cfg,
        node_ips,
        parse_ips(spec->node_ips, node_ips),
        { ip("10.10.1.1"), ip("2001:db8:10:1::1") },
        ip("198.51.100.6"),
        spec->server_port,
    };
    struct ds found = DS_EMPTY_INITIALIZER;
    struct frontends f;
    struct result result;

    cfg_init_defaults(&cfg);
    cfg.antrea_proxy_proxy_all = !spec->no_proxy_all;
    cfg.antrea_proxy_proxy_load_balancer_ips = !spec->no_lb_ips;
    frontends_choose(&env, &svc, spec->family, &f);
    assert_int_equal(f.frontends[0].kind, PIPE_CLUSTER_IP);
    assert_true(ip_equals(&f.frontends[0].ip, &svc.cluster_ips[spec->family]));
    assert_int_equal(f.frontends[0].port, 80);
    assert_int_equal(f.frontends[0].scope, spec->internal_local);
    assert_false(f.frontends[0].restricted);
    format(&f, &found);
    assert_string_equal(ds_cstr(&found), expected);
    result = (struct result){ f.uses_node_ips, f.n_left_out };

    ds_destroy(&found);
    frontends_uninit(&f);
    cfg_uninit(&cfg);
    return result;
}

#define CHECK(EXPECTED, ...) \
    check(&(const struct spec){ __VA_ARGS__ }, EXPECTED)

/* Kinds. */

static void
cluster_ip_is_all_that_most_services_have(void **state OVS_UNUSED)
{
    assert_false(CHECK("", .type = SVC_CLUSTER_IP).uses_node_ips);
    CHECK("", .type = SVC_CLUSTER_IP, .internal_local = true);
    CHECK("", .type = SVC_CLUSTER_IP, .family = IP_V6);
}

static void
node_ports_are_served_with_proxy_all(void **state OVS_UNUSED)
{
    CHECK("node-port:30080/C", .type = SVC_NODE_PORT, .node_port = 30080);
    CHECK("node-port:30080/C", .type = SVC_NODE_PORT, .node_port = 30080,
          .family = IP_V6);
    CHECK("node-port:30080/C", .type = SVC_LOAD_BALANCER, .node_port = 30080);
    /* allocateLoadBalancerNodePorts: false. */
    CHECK("", .type = SVC_LOAD_BALANCER);
    CHECK("", .type = SVC_NODE_PORT, .node_port = 30080, .no_proxy_all = true);
}

static void
policies_of_inside_and_outside_are_apart(void **state OVS_UNUSED)
{
    CHECK("192.0.2.5:80/C node-port:30080/C", .type = SVC_LOAD_BALANCER,
          .node_port = 30080, .ingress = "192.0.2.5", .internal_local = true);
    CHECK("192.0.2.5:80/L node-port:30080/L", .type = SVC_LOAD_BALANCER,
          .node_port = 30080, .ingress = "192.0.2.5", .external_local = true);
    CHECK("192.0.2.5:80/L node-port:30080/L", .type = SVC_LOAD_BALANCER,
          .node_port = 30080, .ingress = "192.0.2.5", .external_local = true,
          .internal_local = true);
    CHECK("192.0.2.5:80/L", .type = SVC_CLUSTER_IP,
          .external_ips = "192.0.2.5", .external_local = true);
    /* Without an external IP the policy means nothing to this type, even if a
     * balancer's address is still in the status. */
    CHECK("192.0.2.5:80/C", .type = SVC_CLUSTER_IP, .ingress = "192.0.2.5",
          .external_local = true);
}

static void
external_ips_are_served_with_proxy_all(void **state OVS_UNUSED)
{
    CHECK("192.0.2.5:80/C 192.0.2.6:80/C", .type = SVC_CLUSTER_IP,
          .external_ips = "192.0.2.6 192.0.2.5");
    CHECK("", .type = SVC_CLUSTER_IP, .external_ips = "192.0.2.5",
          .no_proxy_all = true);
    CHECK("192.0.2.5:80/C node-port:30080/C", .type = SVC_NODE_PORT,
          .external_ips = "192.0.2.5", .node_port = 30080, .no_lb_ips = true);
}

static void
each_address_is_there_once(void **state OVS_UNUSED)
{
    CHECK("192.0.2.5:80/C 192.0.2.6:80/C", .type = SVC_LOAD_BALANCER,
          .external_ips = "192.0.2.6 192.0.2.5 192.0.2.6",
          .ingress = "192.0.2.5 192.0.2.6 192.0.2.5");
    CHECK("", .type = SVC_CLUSTER_IP, .external_ips = "10.96.0.1",
          .ingress = "10.96.0.1");
}

static void
g6_each_family_has_its_own(void **state OVS_UNUSED)
{
    static const char ips[] = "192.0.2.5 2001:db8::5";

    CHECK("192.0.2.5:80/C", .external_ips = ips);
    CHECK("2001:db8::5:80/C", .external_ips = ips, .family = IP_V6);
    CHECK("192.0.2.5:80/C", .ingress = ips);
    CHECK("2001:db8::5:80/C", .ingress = ips, .family = IP_V6);
    CHECK("", .external_ips = "2001:db8::5", .ingress = "2001:db8::6");
    CHECK("", .external_ips = "192.0.2.5", .family = IP_V6);
}

static void
what_leads_into_the_bridge_is_nobodys(void **state OVS_UNUSED)
{
    assert_int_equal(CHECK("192.0.2.5:80/C", .external_ips =
                                                 "169.254.0.252 169.254.0.253 "
                                                 "192.0.2.5")
                         .n_left_out,
                     2);
    assert_int_equal(CHECK("",
                           .ingress =
                               "fc01::aabb:ccdd:eefe fc01::aabb:ccdd:eeff",
                           .family = IP_V6)
                         .n_left_out,
                     2);
    assert_int_equal(
        CHECK("", .ingress = "fe80::5", .family = IP_V6).n_left_out, 1);
}

/* KEP-1860. */

static void
h4_mode_of_a_balancers_address_decides(void **state OVS_UNUSED)
{
    static const char mixed[] = "192.0.2.5 192.0.2.6=Proxy 192.0.2.7";

    CHECK("192.0.2.5:80/C", .ingress = "192.0.2.5");
    CHECK("", .ingress = "192.0.2.5=Proxy");
    CHECK("192.0.2.5:80/C 192.0.2.7:80/C", .ingress = mixed);
    CHECK("192.0.2.5:80/C 192.0.2.7:80/C", .ingress = mixed,
          .no_proxy_all = true);
    /* Never, whatever the mode. */
    CHECK("", .ingress = mixed, .no_lb_ips = true);
    CHECK("", .ingress = mixed, .no_lb_ips = true, .no_proxy_all = true);
    /* Of two entries for one address one is enough. */
    CHECK("192.0.2.5:80/C", .ingress = "192.0.2.5=Proxy 192.0.2.5");
    /* It may be an external IP all the same. */
    CHECK("192.0.2.5:80/C", .ingress = "192.0.2.5=Proxy",
          .external_ips = "192.0.2.5");
}

/* Source ranges. */

static void
ranges_restrict_balancers_addresses_only(void **state OVS_UNUSED)
{
    CHECK("192.0.2.5:80/Cr 192.0.2.6:80/C node-port:30080/C "
          "from 203.0.113.0/24",
          .type = SVC_LOAD_BALANCER, .node_port = 30080,
          .ingress = "192.0.2.5", .external_ips = "192.0.2.6",
          .ranges = "203.0.113.0/24");
    CHECK("192.0.2.5:80/Lr from 203.0.113.0/24", .type = SVC_LOAD_BALANCER,
          .external_local = true, .ingress = "192.0.2.5",
          .ranges = "203.0.113.0/24");
    /* Both at a time: restricted. */
    CHECK("192.0.2.5:80/Cr from 203.0.113.0/24", .type = SVC_LOAD_BALANCER,
          .ingress = "192.0.2.5", .external_ips = "192.0.2.5",
          .ranges = "203.0.113.0/24");
    /* Nothing to restrict. */
    CHECK("192.0.2.6:80/C", .external_ips = "192.0.2.6",
          .ranges = "203.0.113.0/24");
    CHECK("192.0.2.6:80/C", .external_ips = "192.0.2.6",
          .ingress = "192.0.2.5=Proxy", .ranges = "203.0.113.0/24");
}

static void
ranges_are_normalised(void **state OVS_UNUSED)
{
    CHECK("192.0.2.5:80/Cr from 198.51.100.7/32,203.0.113.0/24",
          .ingress = "192.0.2.5",
          .ranges = "203.0.113.9/24 203.0.113.0/24 203.0.113.128/25 "
                    "198.51.100.7/32 198.51.100.7/32 203.0.113.0/24");
    CHECK("2001:db8::5:80/Cr from 2001:db8:1::/48,2001:db8:2::1/128",
          .family = IP_V6, .ingress = "2001:db8::5",
          .ranges = "2001:db8:2::1/128 2001:db8:1::ffff/48");
    /* A wider one that begins where a narrower one does. */
    CHECK("192.0.2.5:80/Cr from 203.0.113.0/24", .ingress = "192.0.2.5",
          .ranges = "203.0.113.0/25 203.0.113.0/24");
}

/* As kube-proxy has it (services.md 1.2). */
static void
h8_ranges_without_one_of_the_family_let_all_in(void **state OVS_UNUSED)
{
    static const char mixed[] = "203.0.113.0/24 2001:db8:1::/48";

    CHECK("192.0.2.5:80/Cr from 203.0.113.0/24", .ingress = "192.0.2.5",
          .ranges = mixed);
    CHECK("2001:db8::5:80/Cr from 2001:db8:1::/48", .family = IP_V6,
          .ingress = "2001:db8::5", .ranges = mixed);
    CHECK("192.0.2.5:80/C", .ingress = "192.0.2.5",
          .ranges = "2001:db8:1::/48");
    CHECK("192.0.2.5:80/C", .ingress = "192.0.2.5",
          .ranges = "203.0.113.0/24 0.0.0.0/0");
    CHECK("192.0.2.5:80/C", .ingress = "192.0.2.5", .ranges = "203.0.113.0/0");
    CHECK("2001:db8::5:80/C", .family = IP_V6, .ingress = "2001:db8::5",
          .ranges = "::/0 2001:db8:1::/48");
    /* The other family's doesn't count. */
    CHECK("192.0.2.5:80/Cr from 203.0.113.0/24", .ingress = "192.0.2.5",
          .ranges = "203.0.113.0/24 ::/0");
}

static void
node_in_a_range_is_let_in(void **state OVS_UNUSED)
{
    static const char nodes[] = "127.0.0.1 198.51.100.7 ::1 2001:db8:1::7";

    CHECK("192.0.2.5:80/Cr from 198.51.100.0/24,node", .ingress = "192.0.2.5",
          .node_ips = nodes, .ranges = "198.51.100.0/24");
    CHECK("192.0.2.5:80/Cr from 198.51.100.8/32", .ingress = "192.0.2.5",
          .node_ips = nodes, .ranges = "198.51.100.8/32");
    CHECK("192.0.2.5:80/Cr from 192.0.2.0/24,198.51.100.4/30,node",
          .ingress = "192.0.2.5", .node_ips = nodes,
          .ranges = "198.51.100.4/30 192.0.2.0/24");
    CHECK("2001:db8::5:80/Cr from 2001:db8:1::/48,node", .family = IP_V6,
          .ingress = "2001:db8::5", .node_ips = nodes,
          .ranges = "2001:db8:1::/48");
    /* No packet that leaves the node has this source. */
    CHECK("192.0.2.5:80/Cr from 127.0.0.0/8", .ingress = "192.0.2.5",
          .node_ips = nodes, .ranges = "127.0.0.0/8");
    assert_true(CHECK("192.0.2.5:80/Cr from 198.51.100.8/32",
                      .ingress = "192.0.2.5", .no_proxy_all = true,
                      .ranges = "198.51.100.8/32")
                    .uses_node_ips);
}

/* Addresses of this node. */

static void
external_address_of_the_node_has_another_frontend(void **state OVS_UNUSED)
{
    static const char nodes[] = "127.0.0.1 192.0.2.5 192.0.2.7 2001:db8::5";

    assert_true(CHECK("192.0.2.5:80/C 169.254.0.252:80/C",
                      .external_ips = "192.0.2.5", .node_ips = nodes)
                    .uses_node_ips);
    assert_true(
        CHECK("192.0.2.6:80/C", .external_ips = "192.0.2.6", .node_ips = nodes)
            .uses_node_ips);
    CHECK("2001:db8::5:80/L fc01::aabb:ccdd:eefe:80/L", .family = IP_V6,
          .type = SVC_LOAD_BALANCER, .external_local = true,
          .ingress = "2001:db8::5", .node_ips = nodes);
    CHECK("192.0.2.5:80/C 192.0.2.6:80/C 192.0.2.7:80/C 169.254.0.252:80/C "
          "node-port:30080/C",
          .external_ips = "192.0.2.5 192.0.2.6 192.0.2.7", .node_ips = nodes,
          .node_port = 30080);
    /* So has the gateway's, which is none by which the node is known: its own
     * packets are in no range for that. */
    CHECK("10.10.1.1:80/Cr 169.254.0.252:80/Cr from 10.10.0.0/16",
          .ingress = "10.10.1.1", .node_ips = nodes, .ranges = "10.10.0.0/16");
    CHECK("2001:db8:10:1::1:80/C fc01::aabb:ccdd:eefe:80/C", .family = IP_V6,
          .external_ips = "2001:db8:10:1::1", .node_ips = "");
    /* Without proxyAll nothing comes from the host, and a pod's packet still
     * has the address. */
    assert_false(CHECK("192.0.2.5:80/C", .ingress = "192.0.2.5",
                       .node_ips = nodes, .no_proxy_all = true)
                     .uses_node_ips);
    /* If one of those that it stands for is restricted, it is. */
    CHECK("192.0.2.5:80/C 192.0.2.7:80/Cr 169.254.0.252:80/Cr "
          "from 203.0.113.0/24",
          .external_ips = "192.0.2.5", .ingress = "192.0.2.7",
          .node_ips = nodes, .ranges = "203.0.113.0/24");
}

/* Ports and limits. */

static void
ports_of_a_service_share_all_but_the_number(void **state OVS_UNUSED)
{
    struct svc_port ports[] = { { .port = 80, .node_port = 30080 },
                                { .port = 81 },
                                { .port = 82, .node_port = 30082 } };
    struct ip external = ip("192.0.2.5");
    struct svc svc = { .cluster_ips = { ip("10.96.0.1") },
                       .ports = ports,
                       .n_ports = 3,
                       .external_ips = &external,
                       .n_external_ips = 1 };
    static const char *const expected[] = {
        "192.0.2.5:80/C node-port:30080/C",
        "192.0.2.5:81/C",
        "192.0.2.5:82/C node-port:30082/C",
    };
    struct cfg cfg;
    struct frontends_env env = { .cfg = &cfg };
    struct frontends f;

    cfg_init_defaults(&cfg);
    cfg.antrea_proxy_proxy_all = true;
    frontends_choose(&env, &svc, IP_V4, &f);
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < ARRAY_SIZE(ports); i++) {
            struct ds found = DS_EMPTY_INITIALIZER;

            frontends_set_port(&f, &ports[i]);
            assert_int_equal(f.frontends[0].port, ports[i].port);
            format(&f, &found);
            assert_string_equal(ds_cstr(&found), expected[i]);
            ds_destroy(&found);
        }
    }
    frontends_uninit(&f);
    cfg_uninit(&cfg);
}

static void
product_of_ports_and_addresses_is_bounded(void **state OVS_UNUSED)
{
    enum {
        N_PORTS = 1000,
        N_IPS = 1000,
        N_MAX = FRONTENDS_MAX / N_PORTS
    };
    struct svc_port *ports = xcalloc(N_PORTS, sizeof *ports);
    struct ip *ips = xmalloc(N_IPS * sizeof *ips);
    struct cidr *ranges = xcalloc(N_IPS, sizeof *ranges);
    struct svc_ingress vip = { .ip = ip("192.0.2.5") };
    struct svc svc = { .cluster_ips = { ip("10.96.0.1") },
                       .ports = ports,
                       .n_ports = N_PORTS,
                       .external_ips = ips,
                       .n_external_ips = N_IPS,
                       .ingress = &vip,
                       .n_ingress = 1,
                       .source_ranges = ranges,
                       .n_source_ranges = N_IPS };
    struct cfg cfg;
    struct frontends_env env = { .cfg = &cfg };
    struct frontends f;

    for (size_t i = 0; i < N_IPS; i++) {
        ips[i] = ip_from_v4(htonl(0xc6330000 + i)); /* 198.51.0.0 */
        ranges[i] = (struct cidr){ ips[i], 32 };
    }
    cfg_init_defaults(&cfg);
    cfg.antrea_proxy_proxy_all = true;
    frontends_choose(&env, &svc, IP_V4, &f);
    assert_int_equal(f.n, 1 + N_MAX);
    assert_true(ip_equals(&f.frontends[1].ip, &vip.ip));
    assert_int_equal(f.n_source_ranges, N_MAX);
    assert_int_equal(f.n_left_out, N_IPS + 1 - N_MAX + N_IPS - N_MAX);
    frontends_uninit(&f);

    svc.n_ports = 1;
    frontends_choose(&env, &svc, IP_V4, &f);
    assert_int_equal(f.n, 1 + N_IPS + 1);
    assert_int_equal(f.n_source_ranges, N_IPS);
    assert_int_equal(f.n_left_out, 0);
    frontends_uninit(&f);
    cfg_uninit(&cfg);
    free(ports);
    free(ips);
    free(ranges);
}

/* Whoever claimed it would cut off the daemon for good. */
static void
nobody_gets_the_address_of_the_api_server(void **state OVS_UNUSED)
{
    struct result result;

    result = CHECK("198.51.100.7:80/C", .server_port = 80,
                   .external_ips = "198.51.100.6 198.51.100.7",
                   .ingress = "198.51.100.6");
    assert_int_equal(result.n_left_out, 2);
    result = CHECK("198.51.100.6:80/C", .server_port = 6443,
                   .external_ips = "198.51.100.6");
    assert_int_equal(result.n_left_out, 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cluster_ip_is_all_that_most_services_have),
        cmocka_unit_test(node_ports_are_served_with_proxy_all),
        cmocka_unit_test(policies_of_inside_and_outside_are_apart),
        cmocka_unit_test(external_ips_are_served_with_proxy_all),
        cmocka_unit_test(each_address_is_there_once),
        cmocka_unit_test(g6_each_family_has_its_own),
        cmocka_unit_test(what_leads_into_the_bridge_is_nobodys),
        cmocka_unit_test(h4_mode_of_a_balancers_address_decides),
        cmocka_unit_test(ranges_restrict_balancers_addresses_only),
        cmocka_unit_test(ranges_are_normalised),
        cmocka_unit_test(h8_ranges_without_one_of_the_family_let_all_in),
        cmocka_unit_test(node_in_a_range_is_let_in),
        cmocka_unit_test(external_address_of_the_node_has_another_frontend),
        cmocka_unit_test(ports_of_a_service_share_all_but_the_number),
        cmocka_unit_test(product_of_ports_and_addresses_is_bounded),
        cmocka_unit_test(nobody_gets_the_address_of_the_api_server),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
