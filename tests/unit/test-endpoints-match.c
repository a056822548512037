/* SPDX-License-Identifier: Apache-2.0 */
/* Which endpoints belong to a Service port at all: port names, families,
 * nodes, several slices; when a port is external; and what a choice costs. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <arpa/inet.h>
#include <time.h>

#include <cmocka.h>

#include <util.h>

#include "../support/epsfix.h"
#include "ofproxyd/model/endpoints.h"

/* Makes ns1/svc-a with the Service port and slice with the slice ports given
 * and returns how many endpoints the one of the Service has, and the number of
 * their port. */
static size_t
match_ports(struct svc_port port, const struct slice_port *ports, size_t n,
            uint16_t *ret_port)
{
    struct model *m = model_create("n1");
    struct slice_endpoint ep = { .ip = epsfix_ip(IP_V4, 'a'), .ready = true };

    model_put_svc(m, svc_pack(
                         &(struct svc){
                             .meta = { "ns1", "svc-a", "", 1, 1 },
                             .ports = &port,
                             .n_ports = 1,
                         },
                         model_pool(m)));
    model_put_slice(m, slice_pack(
                           &(struct slice){
                               .meta = { "ns1", "s1", "", 1, 1 },
                               .service = "svc-a",
                               .ports = CONST_CAST(struct slice_port *, ports),
                               .n_ports = n,
                               .endpoints = &ep,
                               .n_endpoints = 1,
                           },
                           model_pool(m)));
    struct eps_choice choice = epsfix_choose(m, IP_V4, "");
    size_t n_chosen = choice.cluster.n;
    *ret_port = n_chosen ? choice.cluster.eps[0].port : 0;
    eps_choice_uninit(&choice);
    model_destroy(m);
    return n_chosen;
}

static void
a17_ports_match_by_name_and_protocol_only(void **state OVS_UNUSED)
{
    static const struct slice_port ports[] = {
        { "web", PROTO_TCP, 80 },
        { "dns", PROTO_UDP, 5353 },
        { "dns", PROTO_TCP, 5354 },
        { "", PROTO_TCP, 9000 },
    };
    static const struct {
        struct svc_port port;
        uint16_t endpoint_port; /* 0 if none may match. */
    } rows[] = {
        { { "http", PROTO_TCP, 80, 0 }, 0 },
        { { "we", PROTO_TCP, 80, 0 }, 0 },
        { { "web", PROTO_TCP, 8888, 0 }, 80 },
        { { "web", PROTO_UDP, 80, 0 }, 0 },
        { { "dns", PROTO_UDP, 53, 0 }, 5353 },
        { { "dns", PROTO_TCP, 53, 0 }, 5354 },
        { { "dns", PROTO_SCTP, 53, 0 }, 0 },
        { { "", PROTO_TCP, 80, 0 }, 9000 },
        { { "", PROTO_UDP, 80, 0 }, 0 },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        uint16_t port;
        size_t n = match_ports(rows[i].port, ports, ARRAY_SIZE(ports), &port);

        if (port != rows[i].endpoint_port || n != (port != 0)) {
            fail_msg("row %zu matches port %d", i, port);
        }
    }

    /* Unnamed against named, and no port at all. */
    uint16_t port;
    assert_int_equal(match_ports(rows[7].port, ports, 3, &port), 0);
    assert_int_equal(match_ports(rows[2].port, NULL, 0, &port), 0);
}

static void
put_slice_at_port(struct model *m, const char *name, uint16_t number)
{
    struct slice_port port = { "http", PROTO_TCP, number };
    struct slice_endpoint ep = { .ip = epsfix_ip(IP_V4, 'a'),
                                 .ready = true,
                                 .serving = true };

    model_put_slice(m, slice_pack(
                           &(struct slice){
                               .meta = { "ns1", name, "", 1, 1 },
                               .service = "svc-a",
                               .ports = &port,
                               .n_ports = 1,
                               .endpoints = &ep,
                               .n_endpoints = 1,
                           },
                           model_pool(m)));
}

static void
a2_one_address_with_two_ports_is_two_endpoints(void **state OVS_UNUSED)
{
    struct model *m = model_create("n1");

    epsfix_put_svc(m, "");
    put_slice_at_port(m, "s1", 8081);
    put_slice_at_port(m, "s2", 8080);
    struct eps_choice choice = epsfix_choose(m, IP_V4, "");
    assert_int_equal(choice.cluster.n, 2);
    assert_int_equal(choice.cluster.eps[0].port, 8080);
    assert_int_equal(choice.cluster.eps[1].port, 8081);
    eps_choice_uninit(&choice);

    model_delete(m, MODEL_SLICES, "ns1", "s2");
    choice = epsfix_choose(m, IP_V4, "");
    assert_int_equal(choice.cluster.n, 1);
    assert_int_equal(choice.cluster.eps[0].port, 8081);
    eps_choice_uninit(&choice);
    model_destroy(m);
}

static void
a22_local_is_a_matter_of_the_node_name(void **state OVS_UNUSED)
{
    static const struct {
        const char *node;
        bool local;
    } rows[] = { { "n1", true }, { "n2", false }, { "n11", false },
                 { "n", false }, { "N1", false }, { "", false },
                 { NULL, false } };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct model *m = model_create("n1");
        struct epsfix_slice ps = {
            .eps = { { .ip = ip_from_v4(htonl(0xc000020c)),
                       .node = rows[i].node,
                       .ready = true } },
            .n = 1,
        };

        epsfix_put_svc(m, "iL x");
        epsfix_put_slice(m, IP_V4, "s1", 1, &ps);
        struct eps_choice choice = epsfix_choose(m, IP_V4, "za");
        assert_int_equal(choice.local.n, rows[i].local);
        assert_int_equal(choice.cluster.n, 1);
        assert_int_equal(choice.cluster.eps[0].local, rows[i].local);
        eps_choice_uninit(&choice);
        model_destroy(m);
    }
}

static void
a23_families_never_mix(void **state OVS_UNUSED)
{
    struct model *m = model_create("n1");
    char v4[] = "a", v6a[] = "b+l", v6b[] = "c:zb";
    struct epsfix_slice four = { .n = 0 }, six = { .n = 0 };
    struct eps_choice choice;

    epsfix_parse(v4, IP_V4, "n1", &four);
    epsfix_parse(v6a, IP_V6, "n1", &six);
    epsfix_parse(v6b, IP_V6, "n1", &six);
    epsfix_put_svc(m, "iL x");
    epsfix_put_slice(m, IP_V4, "s4", 1, &four);
    epsfix_put_slice(m, IP_V6, "s6", 1, &six);

    choice = epsfix_choose(m, IP_V4, "za");
    epsfix_assert_choice("IPv4", &choice, "a", "", true);
    assert_int_equal(ip_family(&choice.cluster.eps[0].ip), IP_V4);
    eps_choice_uninit(&choice);
    choice = epsfix_choose(m, IP_V6, "za");
    epsfix_assert_choice("IPv6", &choice, "b,c", "b", true);
    assert_int_equal(ip_family(&choice.cluster.eps[0].ip), IP_V6);
    eps_choice_uninit(&choice);

    model_delete(m, MODEL_SLICES, "ns1", "s6");
    choice = epsfix_choose(m, IP_V6, "za");
    epsfix_assert_choice("no IPv6 left", &choice, "", "", false);
    eps_choice_uninit(&choice);
    model_destroy(m);
}

static void
b13_endpoint_survives_when_its_first_slice_goes(void **state OVS_UNUSED)
{
    struct model *m = model_create("n1");
    char a[] = "a";
    struct epsfix_slice ps = { .n = 0 };
    struct eps_choice choice;

    epsfix_parse(a, IP_V4, "n1", &ps);
    epsfix_put_svc(m, "");
    epsfix_put_slice(m, IP_V4, "s1", 1, &ps);
    epsfix_put_slice(m, IP_V4, "s2", 2, &ps);
    choice = epsfix_choose(m, IP_V4, "");
    epsfix_assert_choice("in both", &choice, "a", "-", true);
    eps_choice_uninit(&choice);
    model_delete(m, MODEL_SLICES, "ns1", "s1");
    choice = epsfix_choose(m, IP_V4, "");
    epsfix_assert_choice("in one", &choice, "a", "-", true);
    eps_choice_uninit(&choice);
    model_delete(m, MODEL_SLICES, "ns1", "s2");
    choice = epsfix_choose(m, IP_V4, "");
    epsfix_assert_choice("in none", &choice, "", "-", false);
    eps_choice_uninit(&choice);
    model_destroy(m);
}

static void
external_addresses_count_per_family(void **state OVS_UNUSED)
{
    struct ip a4 = ip_from_v4(htonl(0xcb007109));
    struct ip a6 = { .in6.s6_addr = { 0x20, 0x01, 0x0d, 0xb8, [15] = 9 } };
    struct svc_ingress vip4 = { a4, false }, vip6 = { a6, false };
    struct svc_ingress proxied4 = { a4, true };
    const struct {
        struct svc svc;
        uint16_t node_port;
        bool external[N_IP_FAMILIES];
    } rows[] = {
        { .external = { false, false } },
        { .node_port = 30080, .external = { true, true } },
        { { .external_ips = &a4, .n_external_ips = 1 }, 0, { true, false } },
        { { .external_ips = &a6, .n_external_ips = 1 }, 0, { false, true } },
        { { .ingress = &vip4, .n_ingress = 1 }, 0, { true, false } },
        { { .ingress = &vip6, .n_ingress = 1 }, 0, { false, true } },
        { { .ingress = &proxied4, .n_ingress = 1 }, 0, { false, false } },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct svc_port port = { "", PROTO_TCP, 80, rows[i].node_port };

        for (int f = 0; f < N_IP_FAMILIES; f++) {
            if (svc_port_is_external(&rows[i].svc, &port, f)
                != rows[i].external[f]) {
                fail_msg("row %zu is misjudged for %s", i, ip_family_name(f));
            }
        }
    }
}

static void
external_policy_counts_only_for_types_that_have_one(void **state OVS_UNUSED)
{
    struct ip a4 = ip_from_v4(htonl(0xcb007109));
    struct svc_ingress vip = { a4, false };
    const struct {
        struct svc svc;
        uint16_t node_port;
        bool uses_local;
    } rows[] = {
        { { .type = SVC_NODE_PORT }, 30080, true },
        { { .type = SVC_LOAD_BALANCER }, 30080, true },
        { { .type = SVC_NODE_PORT }, 0, false },
        { { .type = SVC_LOAD_BALANCER, .ingress = &vip, .n_ingress = 1 },
          0,
          true },
        { { .type = SVC_CLUSTER_IP }, 0, false },
        { { .type = SVC_CLUSTER_IP, .external_ips = &a4, .n_external_ips = 1 },
          0,
          true },
        /* Left behind by a change of type. */
        { { .type = SVC_CLUSTER_IP, .ingress = &vip, .n_ingress = 1 },
          0,
          false },
        { { .type = SVC_CLUSTER_IP }, 30080, false },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct model_service ms = { .svc = &rows[i].svc };
        struct svc svc = rows[i].svc;
        struct svc_port port = { "", PROTO_TCP, 80, rows[i].node_port };
        struct eps_place here = { "n1", "" };
        struct eps_choice choice;

        svc.external_policy = SVC_POLICY_LOCAL;
        ms.svc = &svc;
        ovs_list_init(&ms.slices);
        eps_choose(&ms, &port, IP_V4, &here, &choice);
        assert_true(choice.uses_cluster);
        if (choice.uses_local != rows[i].uses_local) {
            fail_msg("row %zu is misjudged", i);
        }
        eps_choice_uninit(&choice);
    }
}

static const struct slice_port http_port = { "http", PROTO_TCP, 8080 };

/* Seconds of CPU for one choice among 'n' endpoints in slices of 100, the
 * least of some tries. */
static double
time_choice(size_t n)
{
    struct model *m = model_create("n1");
    double best = 1e9;

    epsfix_put_svc(m, "eL x");
    for (size_t i = 0; i < n; i += 100) {
        struct slice_endpoint eps[100];
        char name[32];

        for (size_t j = 0; j < 100; j++) {
            eps[j] = (struct slice_endpoint){
                .ip = ip_from_v4(htonl(0x0a000000 + (i + j) * 7919 % n)),
                .node = "n1",
                .ready = true,
            };
        }
        snprintf(name, sizeof name, "s%zu", i);
        model_put_slice(m, slice_pack(
                               &(struct slice){
                                   .meta = { "ns1", name, "", i, 1 },
                                   .service = "svc-a",
                                   .ports = CONST_CAST(struct slice_port *,
                                                       &http_port),
                                   .n_ports = 1,
                                   .endpoints = eps,
                                   .n_endpoints = 100,
                               },
                               model_pool(m)));
    }
    for (int i = 0; i < 7; i++) {
        clock_t start = clock();
        struct eps_choice choice = epsfix_choose(m, IP_V4, "");
        double t = (double) (clock() - start) / CLOCKS_PER_SEC;

        assert_int_equal(choice.cluster.n, n);
        assert_int_equal(choice.local.n, n);
        best = MIN(best, t);
        eps_choice_uninit(&choice);
    }
    model_destroy(m);
    return best;
}

static void
cost_is_not_quadratic(void **state OVS_UNUSED)
{
    double t1 = time_choice(2000);
    double t10 = time_choice(20000);

    print_message("2000 endpoints: %.3f ms, 20000: %.3f ms\n", t1 * 1e3,
                  t10 * 1e3);
    assert_true(t10 < 40 * t1 + 1e-3);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a17_ports_match_by_name_and_protocol_only),
        cmocka_unit_test(a2_one_address_with_two_ports_is_two_endpoints),
        cmocka_unit_test(a22_local_is_a_matter_of_the_node_name),
        cmocka_unit_test(a23_families_never_mix),
        cmocka_unit_test(b13_endpoint_survives_when_its_first_slice_goes),
        cmocka_unit_test(external_addresses_count_per_family),
        cmocka_unit_test(external_policy_counts_only_for_types_that_have_one),
        cmocka_unit_test(cost_is_not_quadratic),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
