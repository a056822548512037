/* SPDX-License-Identifier: Apache-2.0 */
/* Which connections are stale, case by case: what is asked of the switch,
 * and when. */

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <util.h>

#include "../support/flowtabfix.h"
#include "../support/stalefix.h"

/* Endpoints. */

static void
an_endpoint_that_is_gone_loses_its_connections(void **state)
{
    struct stalefix *f = *state;

    sf_say(f, 1, AT(1, 0), "abc", "abc");
    sf_drain(f);
    sf_say(f, 1, AT(1, 0), "ac", "ac");
    sf_expect(f, "1:53<b");
    sf_expect(f, "");
}

static void
an_endpoint_that_serves_keeps_its_connections_until_it_is_gone(void **state)
{
    struct stalefix *f = *state;

    sf_say(f, 1, AT(1, 0), "ab", "ab");
    sf_drain(f);
    sf_say(f, 1, AT(1, 0), "ab", "a"); /* Terminates, or policy or topology. */
    sf_expect(f, "");
    sf_say(f, 1, AT(1, 0), "ac", "ac");
    sf_expect(f, "1:53<b");
}

static void
an_endpoint_that_had_no_connections_costs_nothing(void **state)
{
    struct stalefix *f = *state;

    sf_say(f, 1, AT(1, 0), "abz", "ab");
    sf_drain(f);
    sf_say(f, 1, AT(1, 0), "ab", "ab");
    sf_expect(f, "");
}

static void
without_endpoints_the_address_says_it_all(void **state)
{
    struct stalefix *f = *state;

    sf_say(f, 1, AT(1, 3000), "abc", "abc");
    sf_drain(f);
    sf_say(f, 1, AT(1, 3000), "", "");
    sf_expect(f, "1:53 np:3000");
}

static void
an_endpoint_that_came_back_is_spared(void **state)
{
    struct stalefix *f = *state;

    sf_say(f, 1, AT(1, 0), "ab", "ab");
    sf_drain(f);
    sf_say(f, 1, AT(1, 0), "a", "a");
    sf_say(f, 1, AT(1, 0), "ab", "ab");
    sf_expect(f, "");
}

static void
an_endpoint_that_comes_back_between_passes_is_spared(void **state)
{
    struct ofconn_ct_flush requests[OFCONN_CT_MAX];
    struct stalefix *f = *state;

    sf_say(f, 1, AT(1, 0), "ab", "ab");
    sf_drain(f);
    sf_say(f, 1, AT(1, 0), "a", "a");
    sf_take(f, requests);
    assert_string_equal(ds_cstr(&f->text), "1:53<b");
    sf_say(f, 1, AT(1, 0), "ab", "ab");
    sf_expect(f, "");
}

static void
tcp_is_left_alone(void **state)
{
    struct stalefix *f = *state;
    struct eps_list list = { NULL, 0 };
    struct eps_choice choice = { .cluster = list };
    struct pipe_frontend frontend = { .ip = sf_cluster_ip(1), .port = 80 };
    struct stale_port port = { SF_OWNER(1), IP_V4, PROTO_TCP, &frontend,
                               1,           &list, &choice };

    stale_update(f->st, &port);
    stale_remove(f->st, SF_OWNER(1));
    sf_expect(f, "");
}

/* Addresses. */

static void
a_port_that_is_gone_loses_all_its_connections(void **state)
{
    struct stalefix *f = *state;

    sf_say(f, 1, AT(1, 3000), "ab", "ab");
    sf_drain(f);
    stale_remove(f->st, SF_OWNER(1));
    sf_expect(f, "1:53 np:3000");
    stale_remove(f->st, SF_OWNER(1));
    sf_expect(f, "");
}

static void
the_next_owner_of_an_address_keeps_its_connections(void **state)
{
    struct stalefix *f = *state;

    sf_say(f, 1, AT(1, 0), "abc", "abc");
    sf_say(f, 2, AT(1, 0), "bd", "bd"); /* Waits for the address. */
    sf_drain(f);
    stale_remove(f->st, SF_OWNER(1));
    sf_expect(f, "1:53<a 1:53<c");
}

static void
a_port_that_moves_leaves_nothing_behind(void **state)
{
    struct stalefix *f = *state;

    sf_say(f, 1, AT(1, 0), "ab", "ab");
    sf_drain(f);
    sf_say(f, 1, AT(2, 0), "ab", "ab");
    sf_expect(f, "1:53 2:53! ~2:53");
}

static void
node_ports_are_those_of_this_node(void **state)
{
    struct stalefix *f = *state;
    struct ip ips[] = { ip_from_v4(htonl(0xc0000201)),
                        ip_from_v4(htonl(0xc0000202)) };

    stale_set_node_ips(f->st, ips, 2);
    sf_say(f, 1, AT(1, 3000), "ab", "ab");
    sf_drain(f);
    sf_say(f, 1, AT(1, 3000), "a", "a");
    sf_expect(f, "*<b");
    sf_say(f, 2, AT(2, 0), "xyz", "xyz");
    sf_say(f, 1, AT(1, 3000), "ax", "ax");
    sf_drain(f);
    sf_say(f, 1, AT(1, 3000), "a", "a"); /* Port 2 has it still. */
    sf_expect(f, "1:53<x np:3000<x 192.0.2.1:3000<x 192.0.2.2:3000<x");
    sf_say(f, 1, AT(1, 3001), "a", "a");
    sf_expect(f, "np:3000 192.0.2.1:3000 192.0.2.2:3000"
                 " np:3001! ~np:3001 192.0.2.1:3001! ~192.0.2.1:3001"
                 " 192.0.2.2:3001! ~192.0.2.2:3001");
}

static void
an_address_that_the_node_loses_is_cleared(void **state)
{
    struct stalefix *f = *state;
    struct ip ips[] = { ip_from_v4(htonl(0xc0000201)),
                        ip_from_v4(htonl(0xc0000202)) };

    stale_set_node_ips(f->st, ips, 2);
    sf_say(f, 1, AT(1, 3000), "ab", "ab");
    sf_drain(f);
    stale_set_node_ips(f->st, ips, 1);
    sf_expect(f, "192.0.2.2:3000");
    stale_set_node_ips(f->st, ips, 2);
    sf_expect(f, "192.0.2.2:3000! ~192.0.2.2:3000");
    stale_set_node_ips(f->st, ips, 2);
    sf_expect(f, "");
}

static void
a_new_address_is_freed_of_what_went_by(void **state)
{
    struct stalefix *f = *state;

    sf_say(f, 1, AT(1, 0), "a", "a");
    sf_expect(f, "1:53! ~1:53");
    sf_say(f, 1, AT(1, 0), "a", "a");
    sf_expect(f, "");
}

/* Times. */

static void
nothing_goes_before_the_switch_has_the_flows(void **state)
{
    struct stalefix *f = *state;
    struct flowtab_batch *batch;

    sf_say(f, 1, AT(1, 0), "ab", "ab");
    ft_want(f->ft, SF_OWNER(1), 0, ft_flow(1, 1, 0, 0), NOTHING);
    ft_flush(f->ft);
    sf_drain(f);

    sf_say(f, 1, AT(1, 0), "a", "a");
    ft_want(f->ft, SF_OWNER(1), 0, ft_flow(1, 1, 1, 0), NOTHING);
    sf_expect(f, "");
    batch = flowtab_take(f->ft, 100, 10000);
    sf_expect(f, "");
    ft_refuse(f->ft, batch, 0, f->now_ms);
    sf_expect(f, ""); /* Set aside: the debt stays. */

    flowtab_forget(f->ft);
    sf_expect(f, "");
    flowtab_dump_begin(f->ft);
    flowtab_have(f->ft, ft_flow(1, 1, 0, 0));
    flowtab_dump_end(f->ft);
    sf_expect(f, "");
    flowtab_run(f->ft, LLONG_MAX - 1);
    ft_flush(f->ft);
    sf_expect(f, "1:53<b");
}

static void
an_address_that_moves_waits_for_the_flow_there(void **state)
{
    struct stalefix *f = *state;

    sf_have_service(f, 1, 1, "a");
    sf_say(f, 1, AT(1, 3000), "a", "a");
    sf_say(f, 2, AT(2, 0), "b", "b");
    sf_drain(f);
    sf_say(f, 1, AT(0, 3000), "a", "a");
    sf_say(f, 2, AT(1, 0), "b", "b");
    sf_expect(f, "2:53"); /* Of 2; at address 1 the switch has the old flow. */
    sf_have_service(f, 2, 1, "b");
    sf_expect(f, "1:53<a");
}

static void
a_lost_connection_loses_no_debt(void **state)
{
    struct ofconn_ct_flush requests[OFCONN_CT_MAX];
    struct stalefix *f = *state;

    sf_say(f, 1, AT(1, 0), "ab", "ab");
    sf_drain(f);
    sf_say(f, 1, AT(1, 0), "a", "a");
    assert_int_equal(stale_take(f->st, f->now_ms, requests, OFCONN_CT_MAX), 0);
    f->now_ms += STALE_GRACE_MS;
    assert_int_equal(stale_take(f->st, f->now_ms, requests, OFCONN_CT_MAX), 1);
    flowtab_forget(f->ft);
    stale_lost(f->st);
    sf_expect(f, "");
    flowtab_dump_begin(f->ft);
    flowtab_dump_end(f->ft);
    sf_expect(f, "1:53<b");
}

static void
an_endpoint_that_goes_again_has_its_grace_again(void **state)
{
    struct ofconn_ct_flush requests[OFCONN_CT_MAX];
    struct stalefix *f = *state;

    sf_say(f, 1, AT(1, 0), "ab", "ab");
    sf_drain(f);
    sf_say(f, 1, AT(1, 0), "a", "a");
    assert_int_equal(sf_take(f, requests), 1);
    sf_say(f, 1, AT(1, 0), "ab", "ab");
    sf_say(f, 1, AT(1, 0), "a", "a");
    assert_int_equal(stale_take(f->st, f->now_ms, requests, OFCONN_CT_MAX), 0);
    sf_expect(f, "1:53<b");
}

static void
a_thousand_endpoints_to_none_are_one_request(void **state)
{
    struct stalefix *f = *state;
    struct eps_list all = sf_range(1, 1000), none = { NULL, 0 };

    sf_say_lists(f, 1, AT(1, 0), &all, &all);
    sf_drain(f);
    sf_say_lists(f, 1, AT(1, 0), &none, &none);
    assert_int_equal(sf_drain(f), 16);
    free(all.eps);
}

static void
what_the_switch_cannot_do_is_given_up(void **state)
{
    struct ofconn_ct_flush requests[OFCONN_CT_MAX];
    struct stalefix *f = *state;

    sf_say(f, 1, AT(1, 0), "a", "a");
    stale_take(f->st, f->now_ms, requests, OFCONN_CT_MAX);
    f->now_ms += STALE_GRACE_MS;
    assert_int_equal(stale_take(f->st, f->now_ms, requests, OFCONN_CT_MAX), 2);
    stale_give_up(f->st);
    assert_true(sf_is_idle(f));
    sf_expect(f, "");
}

/* An absence. */

/* A new daemon finds what 'have' puts on the switch. */
static void
restart(struct stalefix *f)
{
    stale_destroy(f->st);
    f->st = stale_create(f->ft, NULL);
    stale_done(f->st, 0, 0);
    flowtab_set_complete(f->ft, false);
}

static void
what_is_as_it_was_needs_nothing(void **state)
{
    struct stalefix *f = *state;

    restart(f);
    sf_have_service(f, 1, 1, "abc");
    sf_say(f, 1, AT(1, 0), "abcd", "acd");
    stale_adopt(f->st);
    sf_expect(f, "");
    /* And 'b' is known to have connections. */
    sf_say(f, 1, AT(1, 0), "acd", "acd");
    sf_expect(f, "1:53<b");
}

static void
what_went_meanwhile_is_found(void **state)
{
    struct stalefix *f = *state;

    restart(f);
    sf_have_service(f, 1, 1, "abc");
    sf_have_service(f, 2, 2, "ab");
    sf_have_service(f, 3, 3, "a");
    sf_say(f, 1, AT(1, 0), "ac", "ac");
    sf_say(f, 2, AT(2, 0), "", "");
    sf_say(f, 4, AT(4, 0), "a", "a");
    stale_adopt(f->st);
    sf_expect(f,
              "2:53 1:53<b 4:53! ~4:53"); /* The flow of 3 is still there. */
    flowtab_set_complete(f->ft, true);
    ft_flush(f->ft);
    sf_expect(f, "3:53");
}

static void
count_found(const struct fitem *have OVS_UNUSED, void *n)
{
    ++*(size_t *) n;
}

/* What may leave before all is listed, addresses of the node before all, is
 * not taken for a predecessor's. */
static void
what_we_have_put_is_no_predecessors(void **state)
{
    struct stalefix *f = *state;
    size_t n = 0;

    restart(f);
    flowtab_have(f->ft, ft_flow(1, 1, 0, 0));
    ft_want(f->ft, SF_OWNER(2), 0, ft_flow(2, 2, 0, 0), NOTHING);
    ft_flush(f->ft);
    flowtab_for_each_found(f->ft, count_found, &n);
    assert_int_equal(n, 1);
    flowtab_dump_begin(f->ft);
    flowtab_have(f->ft, ft_flow(1, 1, 0, 0));
    flowtab_have(f->ft, ft_flow(2, 2, 0, 0));
    flowtab_dump_end(f->ft);
    flowtab_for_each_found(f->ft, count_found, &n);
    assert_int_equal(n, 1 + 2);
}

static void
on_an_empty_switch_nothing_can_have_gone_by(void **state)
{
    struct stalefix *f = *state;

    restart(f);
    sf_say(f, 1, AT(1, 0), "a", "a");
    stale_adopt(f->st);
    sf_expect(f, "");
    sf_say(f, 2, AT(2, 0), "a", "a");
    sf_expect(f, "2:53! ~2:53");
}

int
main(void)
{
#define TEST(NAME) cmocka_unit_test_setup_teardown(NAME, sf_setup, sf_teardown)
    const struct CMUnitTest tests[] = {
        TEST(an_endpoint_that_is_gone_loses_its_connections),
        TEST(an_endpoint_that_serves_keeps_its_connections_until_it_is_gone),
        TEST(an_endpoint_that_had_no_connections_costs_nothing),
        TEST(without_endpoints_the_address_says_it_all),
        TEST(an_endpoint_that_came_back_is_spared),
        TEST(an_endpoint_that_comes_back_between_passes_is_spared),
        TEST(tcp_is_left_alone),
        TEST(a_port_that_is_gone_loses_all_its_connections),
        TEST(the_next_owner_of_an_address_keeps_its_connections),
        TEST(a_port_that_moves_leaves_nothing_behind),
        TEST(node_ports_are_those_of_this_node),
        TEST(an_address_that_the_node_loses_is_cleared),
        TEST(a_new_address_is_freed_of_what_went_by),
        TEST(nothing_goes_before_the_switch_has_the_flows),
        TEST(an_address_that_moves_waits_for_the_flow_there),
        TEST(a_lost_connection_loses_no_debt),
        TEST(an_endpoint_that_goes_again_has_its_grace_again),
        TEST(a_thousand_endpoints_to_none_are_one_request),
        TEST(what_the_switch_cannot_do_is_given_up),
        TEST(what_is_as_it_was_needs_nothing),
        TEST(what_went_meanwhile_is_found),
        TEST(what_we_have_put_is_no_predecessors),
        TEST(on_an_empty_switch_nothing_can_have_gone_by),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
