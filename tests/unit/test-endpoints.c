/* SPDX-License-Identifier: Apache-2.0 */
/* Which endpoints are chosen, by their state, hints and duplicates, under
 * which policies: in tables, in the notation of epsfix.h. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <util.h>

#include "../support/epsfix.h"
#include "ofproxyd/model/endpoints.h"

/* The vectors of the reference, in its numbering. */
static void
reference_vectors_hold(void **state OVS_UNUSED)
{
    static const struct epsfix_row rows[] = {
        { "1", "", "a:za b:zb c:zc d:za", "a,d", "-", true },
        { "2", "eL x", "a+l:za b+l:zb c:zc d:za", "a,d", "a,b", true },
        { "3", "iL x", "a+l:za b+l:zb c:zc d:za", "a,d", "a,b", true },
        { "4", "", "a:za", "a", "-", true, .zone = "" },
        { "5", "", "a:za", "a", "-", true, .zone = "zb" },
        { "6", "", "a:za b:zb c:zc d(N):za", "a", "-", true },
        { "7", "", "a(N):za b:zb c:zc d(N):za", "b,c", "-", true },
        { "8", "", "a:za b:zb c d:za", "a,b,c,d", "-", true },
        { "9", "", "a:za,zb,zc b:zb,zc c:zb,zd d:zc", "a,b,d", "-", true,
          .zone = "zc" },
        /* There is no gate to turn node hints off: the same without them. */
        { "10", "", "a:za b:zb c:zc d:za", "a,d", "-", true },
        { "11", "", "a:za/n1 b:zb/n2 c:zc/n3 d:za/n4", "a", "-", true },
        { "12", "", "a:za/n1 b c:zc/n3 d:za/n4", "a,b,c,d", "-", true },
        { "13", "", "a:za/n1 b:zb/n2 c:zc/n3 d:za/n4", "a,d", "-", true,
          .node = "n0" },
        { "14", "eL x", "a+l:za b+l:zb c:za d:zb", "a,c", "a,b", true },
        { "15", "iL", "", "-", "", false },
        { "16", "iL", "a b", "-", "", true },
        { "17", "iL", "a+l b+l", "-", "a,b", true },
        { "18", "iL", "a+l b", "-", "a", true },
        { "19", "", "a(N) b(N)", "", "-", false },
        { "20", "", "a(N) b", "b", "-", true },
        { "21", "", "a+l(T) b(T)", "a,b", "-", true },
        { "22", "iL x", "a+l b", "a,b", "a", true },
        { "23", "eL x", "a+l b", "a,b", "a", true },
        { "24", "iL eL x", "a+l b", "a,b", "a", true },
        { "25", "iL eL x", "a b", "a,b", "", true },
        { "26", "iL eL x", "a(T) b(T)", "a,b", "", true },
        { "27", "eL x", "a b+l(N) c+l(T) d(T)", "a", "c", true },
        { "28", "eL", "a b+l", "a,b", "-", true },
        { "29", "iL", "a b+l", "-", "b", true },
        { "30", "", "a(000)", "", "-", false },

        /* Of antrea.md 9.2 those that are none of these. */
        { "zone unlabelled", "", "a:za b", "a,b", "-", true, .zone = "" },
        { "only unready in zone", "", "a(N):za b:zb", "b", "-", true },
        { "node hints, none for us", "", "a:za/n2 b:zb/n3", "a", "-", true },
        { "node hints alone, none for us", "", "a/n2 b/n3", "a,b", "-", true },
        { "neither Local", "x", "a+l b", "a,b", "-", true },
        { "eL, empty", "eL x", "", "", "", false },
        { "eL, remote", "eL x", "a b", "a,b", "", true },
        { "eL, local", "eL x", "a+l b+l", "a,b", "a,b", true },
        { "both L, local", "iL eL x", "a+l b+l", "a,b", "a,b", true },
        { "iL, terminating local", "iL", "a b+l(T)", "-", "b", true },
    };

    EPSFIX_CHECK(rows);
}

/* Each state alone, and next to one that is plainly ready, of which it may
 * only be the fallback. */
static void
each_endpoint_state_lands_in_its_lists(void **state OVS_UNUSED)
{
    static const struct epsfix_row rows[] = {
        { "110", "iL x", "a+l(110)", "a", "a", true },
        { "100", "iL x", "a+l(100)", "a", "a", true },
        { "111", "iL x", "a+l(111)", "a", "a", true },
        { "101", "iL x", "a+l(101)", "a", "a", true },
        { "011", "iL x", "a+l(011)", "a", "a", true },
        { "010", "iL x", "a+l(010)", "", "", false },
        { "001", "iL x", "a+l(001)", "", "", false },
        { "000", "iL x", "a+l(000)", "", "", false },
        { "110 and ready", "iL x", "a+l(110) b+l", "a,b", "a,b", true },
        { "100 and ready", "iL x", "a+l(100) b+l", "a,b", "a,b", true },
        { "111 and ready", "iL x", "a+l(111) b+l", "a,b", "a,b", true },
        { "101 and ready", "iL x", "a+l(101) b+l", "a,b", "a,b", true },
        { "011 and ready", "iL x", "a+l(011) b+l", "b", "b", true },
        { "010 and ready", "iL x", "a+l(010) b+l", "b", "b", true },
        { "001 and ready", "iL x", "a+l(001) b+l", "b", "b", true },
        { "000 and ready", "iL x", "a+l(000) b+l", "b", "b", true },
        /* Which of the states count for "every ready endpoint has a hint". */
        { "hint, 110", "", "a(110) b:za c:zb", "a,b,c", "-", true },
        { "hint, 100", "", "a(100) b:za c:zb", "a,b,c", "-", true },
        { "hint, 111", "", "a(111) b:za c:zb", "a,b,c", "-", true },
        { "hint, 101", "", "a(101) b:za c:zb", "a,b,c", "-", true },
        { "hint, 011", "", "a(011) b:za c:zb", "b", "-", true },
        { "hint, 010", "", "a(010) b:za c:zb", "b", "-", true },
        { "hint, 001", "", "a(001) b:za c:zb", "b", "-", true },
        { "hint, 000", "", "a(000) b:za c:zb", "b", "-", true },
        /* And remote ones are never local. */
        { "110 remote", "iL", "a(110)", "-", "", true },
        { "111 remote", "iL", "a(111)", "-", "", true },
        { "011 remote", "iL", "a(011)", "-", "", true },
        { "010 remote", "iL", "a(010)", "-", "", false },
    };

    EPSFIX_CHECK(rows);
}

static void
publish_not_ready_endpoints_are_used_while_they_terminate(
    void **state OVS_UNUSED)
{
    static const struct epsfix_row rows[] = {
        { "one ready, one not serving", "", "a b(100)", "a,b", "-", true },
        { "one ready, one terminating", "", "a b(111)", "a,b", "-", true },
        { "all terminating", "eL x", "a+l(101) b(111)", "a,b", "a", true },
        { "ready terminating beats fallback", "eL x", "a+l(101) b+l(011)", "a",
          "a", true },
        { "hints apply", "", "a(101):za b(100):zb", "a", "-", true },
    };

    EPSFIX_CHECK(rows);
}

static void
a1_running_pod_wins_over_terminating_one_of_the_same_address(
    void **state OVS_UNUSED)
{
    static const struct epsfix_row rows[] = {
        { "one slice", "", "a(001) a", "a", "-", true },
        { "one slice, other order", "", "a a(001)", "a", "-", true },
        { "two slices", "", "a(001) | a", "a", "-", true },
        { "two slices, other order", "", "a | a(001)", "a", "-", true },
        { "serving", "", "b a(011) | a", "a,b", "-", true },
        { "local is the running one's", "iL", "a+l(001) | a", "-", "", true },
        { "local is the running one's, other order", "iL", "a | a+l(001)", "-",
          "", true },
        { "not ready but running", "", "a(111) | a(010)", "", "-", false },
        { "not ready but running, other order", "", "a(010) | a(111)", "", "-",
          false },
    };

    EPSFIX_CHECK(rows);
}

/* After "terminating" come ready, serving, newer slice, slice name.  Which of
 * the two was taken shows in whether it is local. */
static void
duplicates_have_a_total_order(void **state OVS_UNUSED)
{
    static const struct epsfix_row rows[] = {
        { "ready wins over newer", "iL", "a+l | a(010)", "-", "a", true },
        { "ready wins, other order", "iL", "a+l(010) | a", "-", "", true },
        { "serving wins over newer", "iL", "a+l(110) | a(100)", "-", "a",
          true },
        { "serving wins, other order", "iL", "a+l(100) | a(110)", "-", "",
          true },
        { "newer wins", "iL", "a+l | a", "-", "", true },
        { "newer wins, other order", "iL", "a | a+l", "-", "a", true },
        { "terminating: serving wins", "iL", "a+l(011) | a(001)", "-", "a",
          true },
        { "first in its slice", "iL", "a+l a", "-", "a", true },
        { "first in its slice, other order", "iL", "a a+l", "-", "", true },
        { "three", "iL", "a | a+l | a(010)", "-", "a", true },
    };

    EPSFIX_CHECK(rows);
}

static void
same_version_leaves_the_choice_to_the_slice_name(void **state OVS_UNUSED)
{
    for (int order = 0; order < 2; order++) {
        struct model *m = model_create("n1");
        char local[] = "a+l", remote[] = "a";
        struct epsfix_slice here = { .n = 0 }, there = { .n = 0 };

        epsfix_put_svc(m, "iL");
        epsfix_parse(local, IP_V4, "n1", &here);
        epsfix_parse(remote, IP_V4, "n1", &there);
        epsfix_put_slice(m, IP_V4, order ? "s2" : "s1", 7,
                         order ? &there : &here);
        epsfix_put_slice(m, IP_V4, order ? "s1" : "s2", 7,
                         order ? &here : &there);
        struct eps_choice choice = epsfix_choose(m, IP_V4, "za");
        epsfix_assert_choice("s1 is local", &choice, "-", "a", true);
        eps_choice_uninit(&choice);
        model_destroy(m);
    }
}

static void
newer_version_of_an_equal_slice_takes_over(void **state OVS_UNUSED)
{
    struct model *m = model_create("n1");
    char local[] = "a+l", remote[] = "a";
    struct epsfix_slice here = { .n = 0 }, there = { .n = 0 };
    struct eps_choice choice;

    epsfix_put_svc(m, "iL");
    epsfix_parse(local, IP_V4, "n1", &here);
    epsfix_parse(remote, IP_V4, "n1", &there);
    epsfix_put_slice(m, IP_V4, "s1", 1, &here);
    epsfix_put_slice(m, IP_V4, "s2", 2, &there);
    choice = epsfix_choose(m, IP_V4, "za");
    epsfix_assert_choice("s2 is newer", &choice, "-", "", true);
    eps_choice_uninit(&choice);

    while (model_pop_dirty(m)) {
        continue;
    }
    epsfix_put_slice(m, IP_V4, "s1", 3, &here);
    assert_true(model_has_dirty(m));
    choice = epsfix_choose(m, IP_V4, "za");
    epsfix_assert_choice("s1 is newer", &choice, "-", "a", true);
    eps_choice_uninit(&choice);
    model_destroy(m);
}

static void
a4_internal_and_external_policy_are_independent(void **state OVS_UNUSED)
{
    static const struct epsfix_row rows[] = {
        { "internal Local, remote only", "iL x", "a b", "a,b", "", true },
        { "external Local, remote only", "eL x", "a b", "a,b", "", true },
        { "internal Local, not external", "iL", "a b", "-", "", true },
        { "external Local, not external", "eL", "a b", "a,b", "-", true },
        { "neither", "x", "a b", "a,b", "-", true },
    };

    EPSFIX_CHECK(rows);
}

static void
a5_hints_never_leave_only_unready_endpoints(void **state OVS_UNUSED)
{
    static const struct epsfix_row rows[] = {
        { "our zone's is unready", "", "a(N):za b:zb", "b", "-", true },
        { "our zone's terminates", "", "a(T):za b:zb", "b", "-", true },
        { "our node's is unready", "", "a(N)/n1 b/n2", "b", "-", true },
        { "hints don't bind the fallback", "", "a(T):za b(T):zb", "a,b", "-",
          true },
    };

    EPSFIX_CHECK(rows);
}

static void
a7_zone_of_the_node_may_come_later(void **state OVS_UNUSED)
{
    struct model *m = model_create("n1");
    struct node n1 = { .meta = { "", "n1", "", 1, 1 }, .zone = "" };
    static const struct {
        const char *zone, *cluster;
    } steps[] = { { "", "a,b" }, { "za", "a" }, { "zb", "b" }, { "", "a,b" } };

    epsfix_put_svc(m, "");
    epsfix_put_all(m, IP_V4, "n1", "a:za b:zb");
    while (model_pop_dirty(m)) {
        continue;
    }
    for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
        n1.zone = steps[i].zone;
        model_put_node(m, node_pack(&n1, model_pool(m)));
        assert_int_equal(model_has_dirty(m), i > 0);
        model_pop_dirty(m);

        struct eps_choice choice =
            epsfix_choose(m, IP_V4, eps_own_place(m).zone);
        epsfix_assert_choice(steps[i].zone, &choice, steps[i].cluster, "-",
                             true);
        eps_choice_uninit(&choice);
    }
    model_destroy(m);
}

static void
node_hints_come_before_zone_hints(void **state OVS_UNUSED)
{
    static const struct epsfix_row rows[] = {
        { "zone missing on one", "", "a:za/n1 b/n2", "a", "-", true },
        { "zone of node unknown", "", "a:za/n1 b:zb/n2", "a", "-", true,
          .zone = "" },
        { "node hint missing on one", "", "a:za/n1 b:zb c:za/n3", "a,c", "-",
          true },
        { "node hint missing on an unready one", "", "a:za/n1 b(N):zb c:za/n3",
          "a", "-", true },
        { "no hint for our node, none for our zone", "", "a:zb/n2 b:zc/n3",
          "a,b", "-", true },
        { "several for our node", "", "a/n1,n2 b/n2 c/n2,n1", "a,c", "-",
          true },
        { "nameless node", "", "a/n1 b/n2", "a,b", "-", true, .node = "" },
    };

    EPSFIX_CHECK(rows);
}

static void
empty_names_match_nothing(void **state OVS_UNUSED)
{
    struct model *m = model_create("");
    const char *empty[] = { "" }, *za[] = { "za" }, *n1[] = { "n1" };
    struct epsfix_slice ps = { .n = 2 };

    /* If they did, only one of the two would be left. */
    ps.eps[0] = (struct slice_endpoint){
        .ip = epsfix_ip(IP_V4, 'a'),
        .node = "",
        .ready = true,
        .zones = empty,
        .n_zones = 1,
        .hint_nodes = empty,
        .n_hint_nodes = 1,
    };
    ps.eps[1] = (struct slice_endpoint){
        .ip = epsfix_ip(IP_V4, 'b'),
        .ready = true,
        .zones = za,
        .n_zones = 1,
        .hint_nodes = n1,
        .n_hint_nodes = 1,
    };

    epsfix_put_svc(m, "iL x");
    epsfix_put_slice(m, IP_V4, "s1", 1, &ps);
    struct eps_choice choice = epsfix_choose(m, IP_V4, "");
    epsfix_assert_choice("empty", &choice, "a,b", "", true);
    eps_choice_uninit(&choice);
    model_destroy(m);
}

static void
a8_empty_slices_are_empty_sets(void **state OVS_UNUSED)
{
    static const struct epsfix_row rows[] = {
        { "one", "iL x", "", "", "", false },
        { "three", "iL x", " | | ", "", "", false },
        { "next to a full one", "", " | a:za b:zb | ", "a", "-", true },
    };
    struct model *m = model_create("n1");

    EPSFIX_CHECK(rows);

    epsfix_put_svc(m, "");
    struct eps_choice choice = epsfix_choose(m, IP_V4, "za");
    epsfix_assert_choice("no slice at all", &choice, "", "-", false);
    eps_choice_uninit(&choice);
    model_destroy(m);
}

static void
a11_a13_only_ready_ones_while_there_are_any(void **state OVS_UNUSED)
{
    static const struct epsfix_row rows[] = {
        { "a11 ready and unready", "", "a b(N) c d(010)", "a,c", "-", true },
        { "a11 rolling update", "", "a(011) b(N) | c(N) d", "d", "-", true },
        { "a13 two and two", "", "a b c(T) d(T)", "a,b", "-", true },
        { "a13 none ready", "", "a(N) b(N) c(T) d(T)", "c,d", "-", true },
    };

    EPSFIX_CHECK(rows);
}

static void
a14_draining_local_endpoint_still_serves(void **state OVS_UNUSED)
{
    static const struct epsfix_row rows[] = {
        { "last local one", "eL x", "a+l(T) b", "b", "a", true },
        { "not the last", "eL x", "a+l(T) b c+l", "b,c", "c", true },
        { "last of all", "eL x", "a+l(T)", "a", "a", true },
    };

    EPSFIX_CHECK(rows);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reference_vectors_hold),
        cmocka_unit_test(each_endpoint_state_lands_in_its_lists),
        cmocka_unit_test(
            publish_not_ready_endpoints_are_used_while_they_terminate),
        cmocka_unit_test(
            a1_running_pod_wins_over_terminating_one_of_the_same_address),
        cmocka_unit_test(duplicates_have_a_total_order),
        cmocka_unit_test(same_version_leaves_the_choice_to_the_slice_name),
        cmocka_unit_test(newer_version_of_an_equal_slice_takes_over),
        cmocka_unit_test(a4_internal_and_external_policy_are_independent),
        cmocka_unit_test(a5_hints_never_leave_only_unready_endpoints),
        cmocka_unit_test(a7_zone_of_the_node_may_come_later),
        cmocka_unit_test(node_hints_come_before_zone_hints),
        cmocka_unit_test(empty_names_match_nothing),
        cmocka_unit_test(a8_empty_slices_are_empty_sets),
        cmocka_unit_test(a11_a13_only_ready_ones_while_there_are_any),
        cmocka_unit_test(a14_draining_local_endpoint_still_serves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
