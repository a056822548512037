/* SPDX-License-Identifier: Apache-2.0 */
/* Routes by way of other nodes, whose link the kernel chooses. */

#include <openvswitch/vlog.h>

#include "../support/routeskernel.h"

static void
route_changes_its_way_in_one_request(void **state OVS_UNUSED)
{
    want(&rs, "10.1.0.0/16,10.2.0.0/16 192.0.2.1 u", true);
    run(&rs);
    assert_string_equal(ours(), "10.1.0.0/16 169.254.0.253 4096,"
                                "10.2.0.0/16 192.0.2.1 4096 up");
    assert_false(hear(&rs));
    assert_int_equal(rs.n_underlay, 1);

    assert_true(want(&rs, "10.2.0.0/16,10.1.0.0/16 192.0.2.1 u", true));
    run(&rs);
    assert_string_equal(kernel.order, "++");
    assert_string_equal(ours(), "10.1.0.0/16 192.0.2.1 4096 up,"
                                "10.2.0.0/16 169.254.0.253 4096");
    assert_false(hear(&rs));
    assert_false(want(&rs, "10.1.0.0/16 192.0.2.1 u,10.2.0.0/16", true));

    /* The same next hop is another way. */
    assert_true(want(&rs, "10.1.0.0/16 192.0.2.1,10.2.0.0/16", true));
    assert_int_equal(rs.n_underlay, 0);
    run(&rs);
    assert_string_equal(kernel.order, "+");
    assert_string_equal(ours(), "10.1.0.0/16 192.0.2.1 4096,"
                                "10.2.0.0/16 169.254.0.253 4096");
}

static void
cost_of_the_underlay_is_a_request_a_route(void **state OVS_UNUSED)
{
    char s[64];

    want(&rs, "", true);
    for (int i = 0; i < 60; i++) {
        snprintf(s, sizeof s, "10.1.%d.0/24 192.0.2.1 u", i);
        want_one(s);
    }
    run(&rs);
    assert_int_equal(kernel.n_requests, 60);
    hear(&rs);
    dump(&rs);
    run(&rs);
    assert_int_equal(kernel.n_requests, 0);
    for (int i = 0; i < 60; i++) {
        snprintf(s, sizeof s, "10.1.%d.0/24 192.0.2.1 u", i);
        unwant_one(s);
    }
    assert_int_equal(rs.n_underlay, 0);
    run(&rs);
    assert_int_equal(kernel.n_requests, 60);
    assert_string_equal(ours(), "");
}

static void
underlay_route_follows_its_next_hop(void **state OVS_UNUSED)
{
    boot();
    want(&rs, "10.1.0.0/16 192.0.2.1 u", true);
    run(&rs);
    dump(&rs);
    assert_false(routes_pending(&rs));

    /* The other link's network is wider. */
    connect_link("192.0.0.0/16", UPLINK + 1);
    assert_true(hear(&rs));
    dump(&rs);
    assert_false(routes_pending(&rs));

    kernel.nexthop = UPLINK + 1;
    connect_link("192.0.2.0/28", UPLINK + 1);
    assert_true(hear(&rs));
    dump(&rs);
    assert_true(routes_pending(&rs));
    run(&rs);
    assert_string_equal(kernel.order, "+");
    assert_string_equal(ours(), "10.1.0.0/16 192.0.2.1 4096 elsewhere");
    assert_false(hear(&rs));
    dump(&rs);
    assert_false(routes_pending(&rs));
}

static void
only_changes_of_links_that_matter_count(void **state OVS_UNUSED)
{
    want(&rs, "10.1.0.0/16", true);
    run(&rs);
    hear(&rs);
    assert_false(routes_link_changed(&rs, UPLINK));
    want(&rs, "10.1.0.0/16,10.2.0.0/16 192.0.2.1 u", true);
    run(&rs);
    hear(&rs);
    assert_true(routes_link_changed(&rs, UPLINK));
    assert_false(routes_link_changed(&rs, UPLINK + 1));
    assert_false(routes_link_changed(&rs, GATEWAY));

    /* Any link may bring what is missing. */
    kernel.nexthop = 0;
    want_one("10.3.0.0/16 198.51.100.1 u");
    run(&rs);
    assert_true(routes_have_failed(&rs));
    assert_true(routes_link_changed(&rs, UPLINK + 1));
    kernel.nexthop = UPLINK + 1;
    dump(&rs);
    run(&rs);
    assert_false(routes_have_failed(&rs));
}

static void
route_that_a_foreign_hand_moves_to_another_link_moves_back(
    void **state OVS_UNUSED)
{
    struct hostnl_route moved =
        existing("10.1.0.0/16 192.0.2.1", HOST_RTPROT, ROUTES_METRIC);

    boot();
    want(&rs, "10.1.0.0/16 192.0.2.1 u", true);
    run(&rs);
    assert_false(hear(&rs));
    dump(&rs);
    kernel_put(&moved);
    assert_true(hear(&rs));
    assert_true(rs.unsure);
    dump(&rs);
    run(&rs);
    assert_string_equal(kernel.order, "+");
    assert_string_equal(ours(), "10.1.0.0/16 192.0.2.1 4096 up");
    assert_false(hear(&rs));
    assert_false(rs.unsure);
}

static void
kernel_that_insists_on_another_link_is_asked_once_a_dump(
    void **state OVS_UNUSED)
{
    boot();
    kernel.nexthop = UPLINK + 1;
    want(&rs, "10.1.0.0/16 192.0.2.1 u", true);
    dump(&rs);
    run(&rs);
    for (int i = 0; i < 3; i++) {
        assert_false(hear(&rs));
        assert_false(rs.unsure);
        assert_false(routes_pending(&rs));
        dump(&rs);
        run(&rs);
        assert_string_equal(kernel.order, "+");
    }
}

#define TEST(NAME) cmocka_unit_test_setup_teardown(NAME, setup, teardown)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(route_changes_its_way_in_one_request),
        TEST(cost_of_the_underlay_is_a_request_a_route),
        TEST(underlay_route_follows_its_next_hop),
        TEST(only_changes_of_links_that_matter_count),
        TEST(route_that_a_foreign_hand_moves_to_another_link_moves_back),
        TEST(kernel_that_insists_on_another_link_is_asked_once_a_dump),
    };

    vlog_set_levels(NULL, VLF_ANY_DESTINATION, VLL_OFF);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
