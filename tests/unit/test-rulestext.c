/* SPDX-License-Identifier: Apache-2.0 */
/* Our nftables table as text.  That nft takes it is shown by the system
 * tests. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include <openvswitch/util.h>
#include <util.h>

#include "../../src/host/rulestext.h"
#include "../support/golden.h"

static struct ip
ip(const char *s)
{
    struct ip result;

    assert_int_equal(ip_from_string(s, &result), 0);
    return result;
}

static struct cidr
cidr(const char *s)
{
    struct cidr result;

    assert_int_equal(cidr_parse(s, &result), 0);
    return result;
}

/* What a node with both families wants. */
static struct rules_want
dual_stack(void)
{
    static struct cidr pod_cidrs[2];

    pod_cidrs[0] = cidr("10.10.1.0/24");
    pod_cidrs[1] = cidr("2001:db8:10:1::/64");
    return (struct rules_want){
        .gateway = "antrea-gw0",
        .gateway_ips = { ip("10.10.1.1"), ip("2001:db8:10:1::1") },
        .virtual_ips = { ip("169.254.0.253"), ip("fc01::aabb:ccdd:eeff") },
        .pod_cidrs = pod_cidrs,
        .n_pod_cidrs = 2,
        .masquerade = true,
        .notrack_port = 6081,
        .transport = { ip("192.0.2.1"), ip("2001:db8::1") },
        .kept_mac = { { { 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff } } },
    };
}

static void
check(const char *golden, const struct rules_want *w)
{
    struct ds ds = DS_EMPTY_INITIALIZER;

    rulestext_table(w, &ds);
    golden_check(golden, ds_cstr(&ds));
    ds_destroy(&ds);
}

static void
both_families_have_all_rules(void **state OVS_UNUSED)
{
    struct rules_want w = dual_stack();

    check("rules-dual.nft", &w);
}

static void
what_a_node_lacks_has_no_rule(void **state OVS_UNUSED)
{
    struct rules_want w = dual_stack();

    w.gateway_ips[IP_V6] = w.virtual_ips[IP_V6] = w.transport[IP_V6] =
        ip("::");
    w.n_pod_cidrs = 1;
    w.random_ports = true;
    check("rules-ipv4.nft", &w);
}

static void
e18_without_a_udp_tunnel_nothing_bypasses_tracking(void **state OVS_UNUSED)
{
    struct rules_want w = dual_stack();

    w.notrack_port = 0;
    w.masquerade = false;
    check("rules-no-tunnel.nft", &w);
}

static void
node_ports_and_external_addresses_are_led_in(void **state OVS_UNUSED)
{
    struct rules_want w = dual_stack();

    w.node_port_ips[IP_V4] = ip("169.254.0.252");
    w.node_port_ips[IP_V6] = ip("fc01::aabb:ccdd:eefe");
    check("rules-services.nft", &w);
    w.node_port_ips[IP_V6] = ip("::");
    w.notrack_port = 0;
    check("rules-services-ipv4.nft", &w);
}

static void
members_are_those_that_the_kernel_takes(void **state OVS_UNUSED)
{
    struct cidr cidrs[] = { cidr("10.10.0.0/16"), cidr("10.10.1.0/24"),
                            cidr("2001:db8:10::/48") };
    struct cidr node = cidr("192.0.2.2/32");
    struct rules_port node_port = { ip("0.0.0.0"), PROTO_SCTP, 30080 };
    struct rules_port external = { ip("2001:db8::10"), PROTO_UDP, 53 };
    struct memberset sets[N_RULES_SETS];
    struct ds ds = DS_EMPTY_INITIALIZER;

    for (size_t i = 0; i < N_RULES_SETS; i++) {
        memberset_init(&sets[i]);
    }
    for (size_t i = 0; i < ARRAY_SIZE(cidrs); i++) {
        memberset_add(&sets[RULES_POD_CIDRS], &cidrs[i]);
    }
    memberset_add(&sets[RULES_NODES], &node);
    memberset_add(&sets[RULES_NODE_PORT_ADDRS], &node);
    memberset_add_port(&sets[RULES_NODE_PORTS], &node_port);
    memberset_add_port(&sets[RULES_EXTERNAL], &external);
    rulestext_members(sets, false, &ds);
    assert_null(strstr(ds_cstr(&ds), "30080"));
    ds_clear(&ds);
    rulestext_members(sets, true, &ds);
    assert_string_equal(
        ds_cstr(&ds),
        "add element inet ofproxyd pod_cidrs_ipv4 { 10.10.0.0/16 }\n"
        "add element inet ofproxyd pod_cidrs_ipv6 { 2001:db8:10::/48 }\n"
        "add element inet ofproxyd nodes_ipv4 { 192.0.2.2 }\n"
        "add element inet ofproxyd node_port_addrs_ipv4 { 192.0.2.2 }\n"
        "add element inet ofproxyd node_ports_ipv4 { 132 . 30080 }\n"
        "add element inet ofproxyd external_ipv6 { 2001:db8::10 . 17 . 53 "
        "}\n");
    ds_destroy(&ds);
    for (size_t i = 0; i < N_RULES_SETS; i++) {
        memberset_uninit(&sets[i]);
    }
}

static void
only_plain_names_stand_in_rules(void **state OVS_UNUSED)
{
    assert_true(rulestext_name_is_plain("antrea-gw0"));
    assert_true(rulestext_name_is_plain("br_x.1@y"));
    assert_false(rulestext_name_is_plain(""));
    assert_false(rulestext_name_is_plain("gw*"));
    assert_false(rulestext_name_is_plain("a\"b"));
    assert_false(rulestext_name_is_plain("a\nb"));
    assert_false(rulestext_name_is_plain("a\\"));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_families_have_all_rules),
        cmocka_unit_test(what_a_node_lacks_has_no_rule),
        cmocka_unit_test(e18_without_a_udp_tunnel_nothing_bypasses_tracking),
        cmocka_unit_test(node_ports_and_external_addresses_are_led_in),
        cmocka_unit_test(members_are_those_that_the_kernel_takes),
        cmocka_unit_test(only_plain_names_stand_in_rules),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
