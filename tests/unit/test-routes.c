/* SPDX-License-Identifier: Apache-2.0 */
/* The difference between wanted and existing routes, against a kernel of a few
 * lines. */

#include <time.h>

#include <openvswitch/vlog.h>

#include "../support/envnum.h"
#include "../support/routeskernel.h"

/* Tests. */

static void
only_what_differs_is_requested(void **state OVS_UNUSED)
{
    assert_true(want(&rs, "10.1.0.0/16,10.2.0.0/16", true));
    run(&rs);
    assert_string_equal(kernel.order, "++");
    assert_string_equal(ours(), "10.1.0.0/16 169.254.0.253 4096,"
                                "10.2.0.0/16 169.254.0.253 4096");

    assert_false(want(&rs, "10.2.0.0/16,10.1.0.0/16", true));
    assert_false(hear(&rs));
    assert_false(routes_pending(&rs));
    run(&rs);
    assert_string_equal(kernel.order, "");

    assert_true(want(&rs, "10.2.0.0/16,10.1.0.0/16 192.0.2.1", true));
    run(&rs);
    assert_string_equal(kernel.order, "+");
}

static void
one_destination_twice_counts_once_and_hides_no_removal(void **state OVS_UNUSED)
{
    want(&rs, "10.1.0.0/16,10.2.0.0/16", true);
    run(&rs);
    assert_true(want(&rs, "10.1.0.0/16,10.1.0.0/16 192.0.2.1", true));
    run(&rs);
    assert_string_equal(ours(), "10.1.0.0/16 169.254.0.253 4096");
}

static void
new_routes_are_added_before_old_ones_are_removed(void **state OVS_UNUSED)
{
    want(&rs, "10.1.0.0/16,10.2.0.0/16", true);
    run(&rs);
    want(&rs, "10.3.0.0/16,10.4.0.0/16", true);
    run(&rs);
    assert_string_equal(kernel.order, "++--");
}

static void
nothing_is_removed_while_the_wish_is_incomplete(void **state OVS_UNUSED)
{
    struct hostnl_route stray = existing("10.5.0.0/16", HOST_RTPROT, 3);

    want(&rs, "10.1.0.0/16", true);
    run(&rs);
    kernel_put(&stray);
    dump(&rs);
    want(&rs, "10.2.0.0/16", false);
    run(&rs);
    assert_string_equal(kernel.order, "+");
    assert_false(routes_pending(&rs));
    want(&rs, "10.2.0.0/16", true);
    assert_true(routes_pending(&rs));
    run(&rs);
    assert_string_equal(kernel.order, "--");
    assert_string_equal(ours(), "10.2.0.0/16 169.254.0.253 4096");
}

static void
c19_route_that_is_gone_already_is_removed(void **state OVS_UNUSED)
{
    static const int errors[] = { ESRCH, ENOENT, ENODEV };

    for (size_t i = 0; i < ARRAY_SIZE(errors); i++) {
        want(&rs, "10.1.0.0/16", true);
        run(&rs);
        want(&rs, "", true);
        kernel.del_error = errors[i];
        run(&rs);
        assert_string_equal(kernel.order, "-");
        assert_false(routes_pending(&rs));
        assert_false(routes_have_failed(&rs));
        kernel.del_error = 0;
        kernel.n = kernel.n_events = 0;
    }
}

static void
c19_removal_that_the_kernel_refuses_is_tried_again(void **state OVS_UNUSED)
{
    want(&rs, "10.1.0.0/16", true);
    run(&rs);
    want(&rs, "", true);
    kernel.del_error = EPERM;
    run(&rs);
    assert_true(routes_have_failed(&rs));
    run(&rs);
    assert_string_equal(kernel.order, "");
    kernel.del_error = 0;
    dump(&rs);
    run(&rs);
    assert_string_equal(kernel.order, "-");
    assert_string_equal(ours(), "");
}

static void
left_over_that_stays_is_a_failure_until_the_next_dump(void **state OVS_UNUSED)
{
    struct hostnl_route stray = existing("10.5.0.0/16", HOST_RTPROT, 3);

    kernel_put(&stray);
    want(&rs, "", true);
    dump(&rs);
    kernel.del_error = EPERM;
    run(&rs);
    assert_true(routes_have_failed(&rs));
    assert_false(routes_pending(&rs));
    kernel.del_error = 0;
    dump(&rs);
    run(&rs);
    assert_false(routes_have_failed(&rs));
    assert_string_equal(ours(), "");
}

static void
one_route_that_fails_blocks_no_other(void **state OVS_UNUSED)
{
    want(&rs, "10.1.0.0/16", true);
    run(&rs);
    kernel.add_error = EINVAL;
    want(&rs, "10.8.0.0/16,10.9.0.0/16,10.10.0.0/16", true);
    run(&rs);
    assert_string_equal(kernel.order, "+++-");
    assert_true(routes_have_failed(&rs));
    assert_false(routes_pending(&rs));
    assert_false(rs.unsure);
    kernel.add_error = 0;
    dump(&rs);
    run(&rs);
    assert_false(routes_have_failed(&rs));
    assert_int_equal(kernel.n, 3);
}

static void
existing_route_at_our_place_asks_for_one_dump(void **state OVS_UNUSED)
{
    struct hostnl_route foreign =
        existing("10.1.0.0/16", RTPROT_STATIC, ROUTES_METRIC);

    kernel_put(&foreign);
    kernel.n_events = 0;
    want(&rs, "10.1.0.0/16", true);
    run(&rs);
    assert_true(rs.unsure);
    for (int i = 0; i < 3; i++) {
        dump(&rs);
        assert_int_equal(rs.n_shadowed, 1);
        run(&rs);
        assert_string_equal(kernel.order, "+");
        assert_false(rs.unsure);
    }
    assert_int_equal(kernel.routes[0].protocol, RTPROT_STATIC);
}

static void
foreign_routes_of_any_metric_are_left(void **state OVS_UNUSED)
{
    struct hostnl_route before = existing("10.1.0.0/16", RTPROT_STATIC, 0);
    struct hostnl_route after = existing("10.1.0.0/16", RTPROT_STATIC, 9999);

    want(&rs, "10.1.0.0/16", true);
    run(&rs);
    hear(&rs);
    kernel_put(&after);
    hear(&rs);
    dump(&rs);
    assert_int_equal(rs.n_shadowed, 0);
    kernel_put(&before);
    assert_true(hear(&rs));
    assert_true(rs.unsure);
    dump(&rs);
    assert_int_equal(rs.n_shadowed, 1);
    assert_false(routes_pending(&rs));
    want(&rs, "", true);
    run(&rs);
    assert_int_equal(kernel.n, 2);
    assert_int_equal(rs.n_shadowed, 0);
}

static void
no_more_is_done_than_the_budget_allows(void **state OVS_UNUSED)
{
    size_t budget = 2;

    want(&rs, "10.1.0.0/16,10.2.0.0/16,10.3.0.0/16", true);
    routes_run(&rs, NULL, &budget);
    assert_int_equal(budget, 0);
    assert_int_equal(kernel.n, 2);
    assert_true(routes_pending(&rs));
    run(&rs);
    assert_int_equal(kernel.n, 3);
}

static void
own_notifications_are_no_drift(void **state OVS_UNUSED)
{
    want(&rs, "10.1.0.0/16,10.2.0.0/16", true);
    run(&rs);
    want(&rs, "10.1.0.0/16 192.0.2.1", true);
    run(&rs);
    want(&rs, "10.1.0.0/16,10.2.0.0/16", true);
    run(&rs);
    hear(&rs);
    assert_false(routes_pending(&rs));
    run(&rs);
    assert_string_equal(kernel.order, "");
}

static void
impossible_wishes_are_left_out(void **state OVS_UNUSED)
{
    static const char *const bad[] = {
        "0.0.0.0/0",
        "::/0",
        "10.1.0.0/16 fc01::1",
        "fd00::/64 192.0.2.1",
    };
    struct host_route other_src = wanted("10.1.0.0/16");

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        want(&rs, bad[i], true);
        assert_false(routes_pending(&rs));
    }
    other_src.src = ip("fd00::1");
    routes_set(&rs, &other_src, 1, true);
    assert_false(routes_pending(&rs));
    assert_int_equal(rs.n_wanted, 0);
}

static void
one_wish_more_or_less_costs_one_request(void **state OVS_UNUSED)
{
    want(&rs, "10.1.0.0/16,10.2.0.0/16", true);
    run(&rs);
    assert_true(want_one("10.3.0.0/16"));
    run(&rs);
    assert_string_equal(kernel.order, "+");
    assert_true(unwant_one("10.1.0.0/16"));
    run(&rs);
    assert_string_equal(kernel.order, "-");
    assert_string_equal(ours(), "10.2.0.0/16 169.254.0.253 4096,"
                                "10.3.0.0/16 169.254.0.253 4096");
    assert_int_equal(rs.n_wanted, 2);
    assert_false(unwant_one("10.1.0.0/16"));
    assert_false(want_one("0.0.0.0/0"));
    assert_int_equal(rs.n_wanted, 2);

    /* It comes back before it was removed. */
    assert_true(unwant_one("10.2.0.0/16"));
    assert_true(want_one("10.2.0.0/16"));
    run(&rs);
    assert_string_equal(kernel.order, "");
}

static void
route_stays_as_long_as_anybody_wants_it(void **state OVS_UNUSED)
{
    want(&rs, "10.1.0.0/16,10.1.0.0/16", true);
    assert_false(want_one("10.1.0.0/16"));
    run(&rs);
    assert_false(unwant_one("10.1.0.0/16"));
    assert_false(unwant_one("10.1.0.0/16"));
    assert_false(routes_pending(&rs));
    assert_true(unwant_one("10.1.0.0/16"));
    run(&rs);
    assert_string_equal(ours(), "");

    /* A whole set counts anew. */
    want_one("10.1.0.0/16");
    want_one("10.1.0.0/16");
    want(&rs, "10.1.0.0/16", true);
    assert_true(unwant_one("10.1.0.0/16"));
}

/* A random set of routes, some with another next hop. */
static void
random_list(char *buf, size_t size)
{
    buf[0] = '\0';
    for (int i = 1; i <= 8; i++) {
        int dice = rand() % 4;

        if (dice) {
            snprintf(buf + strlen(buf), size - strlen(buf), "%s10.%d.0.0/16%s",
                     buf[0] ? "," : "", i,
                     dice == 1   ? " 192.0.2.1"
                     : dice == 2 ? " 192.0.2.1 u"
                                 : "");
        }
    }
}

/* Goes from the set "A,B,C" to another one step by step. */
static void
walk(const char *from, const char *to)
{
    char *copy = xstrdup(to), *save = NULL;

    for (char *s = strtok_r(copy, ",", &save); s;
         s = strtok_r(NULL, ",", &save)) {
        want_one(s);
    }
    free(copy);
    copy = xstrdup(from);
    for (char *s = strtok_r(copy, ",", &save); s;
         s = strtok_r(NULL, ",", &save)) {
        unwant_one(s);
    }
    free(copy);
}

/* Something that others do to our routes. */
static void
random_drift(void)
{
    char s[64];

    snprintf(s, sizeof s, "10.%d.0.0/16%s", rand() % 9 + 1,
             rand() % 3   ? ""
             : rand() % 2 ? " 192.0.2.1"
                          : " 192.0.2.1 u");
    struct hostnl_route r =
        existing(s, HOST_RTPROT, rand() % 4 ? ROUTES_METRIC : 5);
    struct hostnl_route *k = kernel_find(&r);

    if (rand() % 2) {
        kernel_put(&r);
    } else if (k) {
        kernel_remove(k);
    }
}

static void
after_any_sequence_the_kernel_has_what_is_wanted(void **state OVS_UNUSED)
{
    unsigned int seed = envnum("SEED", time(NULL));
    char list[512] = "";

    print_message("SEED=%u\n", seed);
    srand(seed);
    boot();
    dump(&rs);
    for (int i = 0; i < 20000; i++) {
        int dice = rand() % 10;

        if (dice < 1) {
            random_list(list, sizeof list);
            want(&rs, list, rand() % 4 != 0);
        } else if (dice < 2) {
            char old[sizeof list];

            ovs_strlcpy(old, list, sizeof old);
            random_list(list, sizeof list);
            walk(old, list);
        } else if (dice < 5) {
            random_drift();
        } else if (dice < 6) {
            kernel.add_error = rand() % 3 ? 0 : EINVAL;
            kernel.del_error = rand() % 5 ? 0 : EPERM;
        } else {
            hear(&rs);
            if (rs.unsure) {
                dump(&rs);
            }
            run(&rs);
        }
        if (i % 50 == 49) {
            char first[4096];

            kernel.add_error = kernel.del_error = 0;
            rs.complete = true;
            hear(&rs);
            dump(&rs);
            for (int j = 0; j < 3 && (rs.unsure || routes_pending(&rs)); j++) {
                if (rs.unsure) {
                    dump(&rs);
                }
                run(&rs);
                hear(&rs);
            }
            ovs_strlcpy(first, ours(), sizeof first);

            /* A cold start. */
            boot();
            routes_uninit(&rs);
            routes_init(&rs);
            dump(&rs);
            want(&rs, list, true);
            run(&rs);
            kernel.n_events = 0;
            assert_string_equal(first, ours());
        }
    }
}

#define TEST(NAME) cmocka_unit_test_setup_teardown(NAME, setup, teardown)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(only_what_differs_is_requested),
        TEST(one_destination_twice_counts_once_and_hides_no_removal),
        TEST(new_routes_are_added_before_old_ones_are_removed),
        TEST(nothing_is_removed_while_the_wish_is_incomplete),
        TEST(c19_route_that_is_gone_already_is_removed),
        TEST(c19_removal_that_the_kernel_refuses_is_tried_again),
        TEST(left_over_that_stays_is_a_failure_until_the_next_dump),
        TEST(one_route_that_fails_blocks_no_other),
        TEST(existing_route_at_our_place_asks_for_one_dump),
        TEST(foreign_routes_of_any_metric_are_left),
        TEST(no_more_is_done_than_the_budget_allows),
        TEST(own_notifications_are_no_drift),
        TEST(impossible_wishes_are_left_out),
        TEST(one_wish_more_or_less_costs_one_request),
        TEST(route_stays_as_long_as_anybody_wants_it),
        TEST(after_any_sequence_the_kernel_has_what_is_wanted),
    };

    vlog_set_levels(NULL, VLF_ANY_DESTINATION, VLL_OFF);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
