/* SPDX-License-Identifier: Apache-2.0 */
/* Which connections are stale, case by case: what is asked of the switch,
 * when, and how often.
 *
 * An endpoint is a letter: 'a' is 10.1.1.97:8080.  A request is written
 * "ADDRESS:PORT", of all connections to it, or "ADDRESS:PORT<a", of those to
 * one endpoint, "*<a", to that at any address, "ADDRESS:PORT!", of
 * untranslated ones, or "~ADDRESS:PORT", of those the wrong way round.
 * Cluster IP 'n' is 10.96.0.n and shown as "n"; "np" is the virtual NodePort
 * address. */

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

#include "../../src/agent/stale-private.h"
#include "../support/flowtabfix.h"

#define OWNER(N) cookie_make(COOKIE_SERVICE, N)

struct fixture {
    struct flowtab *ft;
    struct stale *st;
    long long int now_ms;
    struct ds text;
};

static int
setup(void **state)
{
    struct fixture *f = xzalloc(sizeof *f);

    f->ft = ft_ready();
    f->st = stale_create(f->ft, NULL);
    stale_adopt(f->st); /* Of an empty switch. */
    f->now_ms = 1000;
    stale_done(f->st, 0, 0); /* Requests cost nothing. */
    ds_init(&f->text);
    *state = f;
    return 0;
}

static int
teardown(void **state)
{
    struct fixture *f = *state;

    stale_destroy(f->st);
    flowtab_destroy(f->ft);
    ds_destroy(&f->text);
    free(f);
    return 0;
}

static struct ip
cluster_ip(unsigned int n)
{
    return ip_from_v4(htonl(0x0a600000 + n));
}

static struct eps
endpoint(unsigned int n)
{
    return (struct eps){ .ip = ip_from_v4(htonl(0x0a010100 + n)),
                         .port = 8080 };
}

/* Endpoints 'first' to 'last'. */
static struct eps_list
range(unsigned int first, unsigned int last)
{
    struct eps_list list = { .n = last - first + 1 };

    list.eps = xmalloc(list.n * sizeof *list.eps);
    for (size_t i = 0; i < list.n; i++) {
        list.eps[i] = endpoint(first + i);
    }
    return list;
}

static struct eps_list
letters(const char *s)
{
    struct eps_list list = { .n = strlen(s) };

    list.eps = xmalloc((list.n + 1) * sizeof *list.eps);
    for (size_t i = 0; i < list.n; i++) {
        list.eps[i] = endpoint((unsigned char) s[i]);
    }
    return list;
}

/* Where a Service port is: a cluster IP (0: none) with port 53, and a NodePort
 * (0: none). */
#define AT(IP, NODE_PORT) ((const uint16_t[]){ IP, NODE_PORT })

static void
say_lists(struct fixture *f, uint32_t n, const uint16_t at[2],
          const struct eps_list *alive, const struct eps_list *used)
{
    struct pipe_frontend frontends[2];
    struct eps_choice choice = { .cluster = *used };
    struct stale_port port = {
        .owner = OWNER(n),
        .family = IP_V4,
        .proto = PROTO_UDP,
        .frontends = frontends,
        .alive = alive,
        .choice = &choice,
    };

    if (at[0]) {
        frontends[port.n_frontends++] = (struct pipe_frontend){
            .kind = PIPE_CLUSTER_IP, .ip = cluster_ip(at[0]), .port = 53
        };
    }
    if (at[1]) {
        frontends[port.n_frontends++] =
            (struct pipe_frontend){ .kind = PIPE_NODE_PORT, .port = at[1] };
    }
    stale_update(f->st, &port);
}

static void
say(struct fixture *f, uint32_t n, const uint16_t *at, const char *alive_,
    const char *used_)
{
    struct eps_list alive = letters(alive_), used = letters(used_);

    say_lists(f, n, at, &alive, &used);
    free(alive.eps);
    free(used.eps);
}

/* The switch has what was rendered for a Service port. */
static void
have_service(struct fixture *f, uint32_t n, uint16_t ip, const char *eps)
{
    struct pipe_frontend frontend = { .ip = cluster_ip(ip), .port = 53 };
    struct eps_list list = letters(eps);
    struct pipe_service svc = {
        .object_id = n,
        .family = IP_V4,
        .proto = PROTO_UDP,
        .frontends = &frontend,
        .n_frontends = 1,
        .targets = { { list.n ? PIPE_SELECT : PIPE_REJECT, list.eps,
                       list.n } },
    };
    struct fout out = FOUT_INIT;

    assert_int_equal(pipe_render_service(&svc, &out, NULL), 0);
    for (size_t i = 0; i < out.n; i++) {
        flowtab_have(f->ft, fitem_ref(out.items[i]));
    }
    fout_clear(&out);
    free(list.eps);
}

/* Requests as text. */

static void
format_address(const struct in6_addr *in6, uint16_t port, struct ds *ds)
{
    struct ip ip = { *in6 }, virtual_ip = pipe_node_port_ip(IP_V4);
    char buf[IP_STRLEN];

    if (ip_equals(&ip, &virtual_ip)) {
        ds_put_cstr(ds, "np");
    } else if (ntohl(ip_v4(&ip)) >> 8 == 0x0a6000) {
        ds_put_format(ds, "%u", ntohl(ip_v4(&ip)) & 0xff);
    } else {
        ds_put_cstr(ds, ip_to_string(&ip, buf));
    }
    ds_put_format(ds, ":%u", port);
}

static void
format_request(const struct ofconn_ct_flush *r, struct ds *ds)
{
    struct ip src = { r->src };

    ds_put_cstr(ds, ds->length ? " " : "");
    assert_int_equal(r->zone, PIPE_ZONE_V4);
    assert_int_equal(r->proto, 17);
    if (!IN6_IS_ADDR_UNSPECIFIED(&r->from)) {
        ds_put_char(ds, '~');
        format_address(&r->from, r->from_port, ds);
        assert_true(IN6_IS_ADDR_UNSPECIFIED(&r->dst) && ip_is_none(&src));
        return;
    } else if (IN6_IS_ADDR_UNSPECIFIED(&r->dst)) {
        assert_false(ip_is_none(&src));
        ds_put_char(ds, '*');
    } else {
        format_address(&r->dst, r->dst_port, ds);
    }
    if (ip_is_none(&src)) {
        assert_int_equal(r->src_port, 0);
    } else if (!memcmp(&r->src, &r->dst, sizeof r->src)) {
        assert_int_equal(r->src_port, r->dst_port);
        ds_put_char(ds, '!');
    } else {
        assert_int_equal(r->src_port, 8080);
        ds_put_format(ds, "<%c", ntohl(ip_v4(&src)) & 0xff);
    }
}

/* Takes once, after the grace that the connections have. */
static size_t
take(struct fixture *f, struct ofconn_ct_flush *requests)
{
    size_t n = stale_take(f->st, f->now_ms, requests, OFCONN_CT_MAX);

    if (!n && stale_next_ms(f->st) <= f->now_ms + STALE_GRACE_MS) {
        f->now_ms = stale_next_ms(f->st);
        n = stale_take(f->st, f->now_ms, requests, OFCONN_CT_MAX);
    }
    ds_clear(&f->text);
    for (size_t i = 0; i < n; i++) {
        format_request(&requests[i], &f->text);
    }
    if (n) {
        stale_done(f->st, f->now_ms, 0);
    }
    return n;
}

static bool
is_idle(const struct fixture *f)
{
    struct stale_stats stats;

    stale_get_stats(f->st, &stats);
    return !stats.n_active;
}

/* Lets time pass until all passes are through.  Returns how many requests
 * there were. */
static size_t
drain(struct fixture *f)
{
    struct ofconn_ct_flush requests[OFCONN_CT_MAX];
    size_t n = 0;

    for (;;) {
        size_t taken = take(f, requests);

        n += taken;
        if (!taken && is_idle(f)) {
            return n;
        } else if (!taken) {
            assert_true(stale_next_ms(f->st) > f->now_ms);
            f->now_ms = stale_next_ms(f->st);
        }
    }
}

/* The first pass is 'expected'; the others are the same and are let by. */
static void
expect(struct fixture *f, const char *expected)
{
    struct ofconn_ct_flush requests[OFCONN_CT_MAX];

    take(f, requests);
    assert_string_equal(ds_cstr(&f->text), expected);
    drain(f);
}

/* Endpoints. */

static void
an_endpoint_that_is_gone_loses_its_connections(void **state)
{
    struct fixture *f = *state;

    say(f, 1, AT(1, 0), "abc", "abc");
    drain(f);
    say(f, 1, AT(1, 0), "ac", "ac");
    expect(f, "1:53<b");
    expect(f, "");
}

static void
an_endpoint_that_serves_keeps_its_connections_until_it_is_gone(void **state)
{
    struct fixture *f = *state;

    say(f, 1, AT(1, 0), "ab", "ab");
    drain(f);
    say(f, 1, AT(1, 0), "ab", "a"); /* Terminates, or policy or topology. */
    expect(f, "");
    say(f, 1, AT(1, 0), "ac", "ac");
    expect(f, "1:53<b");
}

static void
an_endpoint_that_had_no_connections_costs_nothing(void **state)
{
    struct fixture *f = *state;

    say(f, 1, AT(1, 0), "abz", "ab");
    drain(f);
    say(f, 1, AT(1, 0), "ab", "ab");
    expect(f, "");
}

static void
without_endpoints_the_address_says_it_all(void **state)
{
    struct fixture *f = *state;

    say(f, 1, AT(1, 3000), "abc", "abc");
    drain(f);
    say(f, 1, AT(1, 3000), "", "");
    expect(f, "1:53 np:3000");
}

static void
an_endpoint_that_came_back_is_spared(void **state)
{
    struct fixture *f = *state;

    say(f, 1, AT(1, 0), "ab", "ab");
    drain(f);
    say(f, 1, AT(1, 0), "a", "a");
    say(f, 1, AT(1, 0), "ab", "ab");
    expect(f, "");
}

static void
an_endpoint_that_comes_back_between_passes_is_spared(void **state)
{
    struct ofconn_ct_flush requests[OFCONN_CT_MAX];
    struct fixture *f = *state;

    say(f, 1, AT(1, 0), "ab", "ab");
    drain(f);
    say(f, 1, AT(1, 0), "a", "a");
    take(f, requests);
    assert_string_equal(ds_cstr(&f->text), "1:53<b");
    say(f, 1, AT(1, 0), "ab", "ab");
    expect(f, "");
}

static void
tcp_is_left_alone(void **state)
{
    struct fixture *f = *state;
    struct eps_list list = { NULL, 0 };
    struct eps_choice choice = { .cluster = list };
    struct pipe_frontend frontend = { .ip = cluster_ip(1), .port = 80 };
    struct stale_port port = { OWNER(1), IP_V4, PROTO_TCP, &frontend,
                               1,        &list, &choice };

    stale_update(f->st, &port);
    stale_remove(f->st, OWNER(1));
    expect(f, "");
}

/* Addresses. */

static void
a_port_that_is_gone_loses_all_its_connections(void **state)
{
    struct fixture *f = *state;

    say(f, 1, AT(1, 3000), "ab", "ab");
    drain(f);
    stale_remove(f->st, OWNER(1));
    expect(f, "1:53 np:3000");
    stale_remove(f->st, OWNER(1));
    expect(f, "");
}

static void
the_next_owner_of_an_address_keeps_its_connections(void **state)
{
    struct fixture *f = *state;

    say(f, 1, AT(1, 0), "abc", "abc");
    say(f, 2, AT(1, 0), "bd", "bd"); /* Waits for the address. */
    drain(f);
    stale_remove(f->st, OWNER(1));
    expect(f, "1:53<a 1:53<c");
}

static void
a_port_that_moves_leaves_nothing_behind(void **state)
{
    struct fixture *f = *state;

    say(f, 1, AT(1, 0), "ab", "ab");
    drain(f);
    say(f, 1, AT(2, 0), "ab", "ab");
    expect(f, "1:53 2:53! ~2:53");
}

static void
node_ports_are_those_of_this_node(void **state)
{
    struct fixture *f = *state;
    struct ip ips[] = { ip_from_v4(htonl(0xc0000201)),
                        ip_from_v4(htonl(0xc0000202)) };

    stale_set_node_ips(f->st, ips, 2);
    say(f, 1, AT(1, 3000), "ab", "ab");
    drain(f);
    say(f, 1, AT(1, 3000), "a", "a");
    expect(f, "*<b");
    say(f, 2, AT(2, 0), "xyz", "xyz");
    say(f, 1, AT(1, 3000), "ax", "ax");
    drain(f);
    say(f, 1, AT(1, 3000), "a", "a"); /* Port 2 has it still. */
    expect(f, "1:53<x np:3000<x 192.0.2.1:3000<x 192.0.2.2:3000<x");
    say(f, 1, AT(1, 3001), "a", "a");
    expect(f, "np:3000 192.0.2.1:3000 192.0.2.2:3000"
              " np:3001! ~np:3001 192.0.2.1:3001! ~192.0.2.1:3001"
              " 192.0.2.2:3001! ~192.0.2.2:3001");
}

static void
an_address_that_the_node_loses_is_cleared(void **state)
{
    struct fixture *f = *state;
    struct ip ips[] = { ip_from_v4(htonl(0xc0000201)),
                        ip_from_v4(htonl(0xc0000202)) };

    stale_set_node_ips(f->st, ips, 2);
    say(f, 1, AT(1, 3000), "ab", "ab");
    drain(f);
    stale_set_node_ips(f->st, ips, 1);
    expect(f, "192.0.2.2:3000");
    stale_set_node_ips(f->st, ips, 2);
    expect(f, "192.0.2.2:3000! ~192.0.2.2:3000");
    stale_set_node_ips(f->st, ips, 2);
    expect(f, "");
}

static void
a_new_address_is_freed_of_what_went_by(void **state)
{
    struct fixture *f = *state;

    say(f, 1, AT(1, 0), "a", "a");
    expect(f, "1:53! ~1:53");
    say(f, 1, AT(1, 0), "a", "a");
    expect(f, "");
}

/* Times. */

static void
nothing_goes_before_the_switch_has_the_flows(void **state)
{
    struct fixture *f = *state;
    struct flowtab_batch *batch;

    say(f, 1, AT(1, 0), "ab", "ab");
    ft_want(f->ft, OWNER(1), 0, ft_flow(1, 1, 0, 0), NOTHING);
    ft_flush(f->ft);
    drain(f);

    say(f, 1, AT(1, 0), "a", "a");
    ft_want(f->ft, OWNER(1), 0, ft_flow(1, 1, 1, 0), NOTHING);
    expect(f, "");
    batch = flowtab_take(f->ft, 100, 10000);
    expect(f, "");
    ft_refuse(f->ft, batch, 0, f->now_ms);
    expect(f, ""); /* Set aside: the debt stays. */

    flowtab_forget(f->ft);
    expect(f, "");
    flowtab_dump_begin(f->ft);
    flowtab_have(f->ft, ft_flow(1, 1, 0, 0));
    flowtab_dump_end(f->ft);
    expect(f, "");
    flowtab_run(f->ft, LLONG_MAX - 1);
    ft_flush(f->ft);
    expect(f, "1:53<b");
}

static void
an_address_that_moves_waits_for_the_flow_there(void **state)
{
    struct fixture *f = *state;

    have_service(f, 1, 1, "a");
    say(f, 1, AT(1, 3000), "a", "a");
    say(f, 2, AT(2, 0), "b", "b");
    drain(f);
    say(f, 1, AT(0, 3000), "a", "a");
    say(f, 2, AT(1, 0), "b", "b");
    expect(f, "2:53"); /* Of 2; at address 1 the switch has the old flow. */
    have_service(f, 2, 1, "b");
    expect(f, "1:53<a");
}

static void
a_lost_connection_loses_no_debt(void **state)
{
    struct ofconn_ct_flush requests[OFCONN_CT_MAX];
    struct fixture *f = *state;

    say(f, 1, AT(1, 0), "ab", "ab");
    drain(f);
    say(f, 1, AT(1, 0), "a", "a");
    assert_int_equal(stale_take(f->st, f->now_ms, requests, OFCONN_CT_MAX), 0);
    f->now_ms += STALE_GRACE_MS;
    assert_int_equal(stale_take(f->st, f->now_ms, requests, OFCONN_CT_MAX), 1);
    flowtab_forget(f->ft);
    stale_lost(f->st);
    expect(f, "");
    flowtab_dump_begin(f->ft);
    flowtab_dump_end(f->ft);
    expect(f, "1:53<b");
}

static void
passes_come_at_once_and_over_a_second(void **state)
{
    struct ofconn_ct_flush requests[OFCONN_CT_MAX];
    struct fixture *f = *state;
    long long int start_ms, last_ms = 0;
    unsigned int n_at_once = 0, n;

    say(f, 1, AT(1, 0), "ab", "ab");
    drain(f);
    start_ms = f->now_ms;
    say(f, 1, AT(1, 0), "a", "a");
    while (take(f, requests)) {
        n_at_once++;
    }
    assert_int_equal(n_at_once, 8);
    for (n = n_at_once; !is_idle(f); f->now_ms = stale_next_ms(f->st)) {
        last_ms = f->now_ms;
        n += take(f, requests);
    }
    assert_int_equal(n, 16);
    assert_int_equal(last_ms, start_ms + STALE_GRACE_MS + STALE_SPREAD_MS);
}

/* One of 1000 endpoints stays.  The switch has 'n_others' connections, and
 * 'n_each' to each of those that go. */
static size_t
run_costly(struct fixture *f, size_t n_each, size_t n_others)
{
    struct ofconn_ct_flush requests[OFCONN_CT_MAX];
    struct eps_list all = range(1, 1000), one = range(1, 1);
    long long int busy_us = 0, start_ms;
    size_t n_requests = 0;

    say_lists(f, 1, AT(1, 0), &all, &all);
    drain(f);
    say_lists(f, 1, AT(1, 0), &one, &one);
    start_ms = f->now_ms;
    for (;;) {
        size_t n = stale_take(f->st, f->now_ms, requests, OFCONN_CT_MAX);
        long long int elapsed_us = 0;

        if (!n && is_idle(f)) {
            break;
        } else if (!n) {
            f->now_ms = MAX(f->now_ms + 1, stale_next_ms(f->st));
            continue;
        }
        for (size_t i = 0; i < n; i++) {
            size_t n_gone = MIN(n_requests, 999);

            n_requests++;
            elapsed_us += 10 + ((999 - n_gone) * n_each + n_others) * 35 / 100;
        }
        busy_us += elapsed_us;
        f->now_ms += elapsed_us / 1000;
        stale_done(f->st, f->now_ms, elapsed_us);
        if (n_requests > 1000) {
            assert_true(n <= 1 + 10000 * n / elapsed_us);
        }
    }
    assert_true(busy_us / 1000 * 37 / 10 < f->now_ms - start_ms);
    free(all.eps);
    free(one.eps);
    return n_requests;
}

static void
the_switch_is_busy_for_a_quarter_of_the_time_at_most(void **state)
{
    assert_int_equal(run_costly(*state, 0, 100000), 2 * 999);
}

static void
a_first_pass_that_comes_late_is_not_the_last(void **state)
{
    struct ofconn_ct_flush requests[OFCONN_CT_MAX];
    struct fixture *f = *state;
    size_t n = 0;

    say(f, 1, AT(1, 0), "ab", "ab");
    drain(f);
    say(f, 1, AT(1, 0), "a", "a");
    stale_take(f->st, f->now_ms, requests, OFCONN_CT_MAX);
    f->now_ms += 2 * STALE_SPREAD_MS;
    do {
        if (stale_take(f->st, f->now_ms, requests, OFCONN_CT_MAX)) {
            stale_done(f->st, f->now_ms, 1000000);
            n++;
        }
        f->now_ms += STALE_SPREAD_MS;
    } while (!is_idle(f));
    assert_int_equal(n, 2);
}

static void
passes_go_on_while_the_table_shrinks(void **state)
{
    assert_int_equal(run_costly(*state, 100, 10000), 3 * 999);
}

static void
an_endpoint_that_goes_again_has_its_grace_again(void **state)
{
    struct ofconn_ct_flush requests[OFCONN_CT_MAX];
    struct fixture *f = *state;

    say(f, 1, AT(1, 0), "ab", "ab");
    drain(f);
    say(f, 1, AT(1, 0), "a", "a");
    assert_int_equal(take(f, requests), 1);
    say(f, 1, AT(1, 0), "ab", "ab");
    say(f, 1, AT(1, 0), "a", "a");
    assert_int_equal(stale_take(f->st, f->now_ms, requests, OFCONN_CT_MAX), 0);
    expect(f, "1:53<b");
}

static void
a_thousand_endpoints_to_none_are_one_request(void **state)
{
    struct fixture *f = *state;
    struct eps_list all = range(1, 1000), none = { NULL, 0 };

    say_lists(f, 1, AT(1, 0), &all, &all);
    drain(f);
    say_lists(f, 1, AT(1, 0), &none, &none);
    assert_int_equal(drain(f), 16);
    free(all.eps);
}

static void
what_the_switch_cannot_do_is_given_up(void **state)
{
    struct ofconn_ct_flush requests[OFCONN_CT_MAX];
    struct fixture *f = *state;

    say(f, 1, AT(1, 0), "a", "a");
    stale_take(f->st, f->now_ms, requests, OFCONN_CT_MAX);
    f->now_ms += STALE_GRACE_MS;
    assert_int_equal(stale_take(f->st, f->now_ms, requests, OFCONN_CT_MAX), 2);
    stale_give_up(f->st);
    assert_true(is_idle(f));
    expect(f, "");
}

/* An absence. */

/* A new daemon finds what 'have' puts on the switch. */
static void
restart(struct fixture *f)
{
    stale_destroy(f->st);
    f->st = stale_create(f->ft, NULL);
    stale_done(f->st, 0, 0);
    flowtab_set_complete(f->ft, false);
}

static void
what_is_as_it_was_needs_nothing(void **state)
{
    struct fixture *f = *state;

    restart(f);
    have_service(f, 1, 1, "abc");
    say(f, 1, AT(1, 0), "abcd", "acd");
    stale_adopt(f->st);
    expect(f, "");
    /* And 'b' is known to have connections. */
    say(f, 1, AT(1, 0), "acd", "acd");
    expect(f, "1:53<b");
}

static void
what_went_meanwhile_is_found(void **state)
{
    struct fixture *f = *state;

    restart(f);
    have_service(f, 1, 1, "abc");
    have_service(f, 2, 2, "ab");
    have_service(f, 3, 3, "a");
    say(f, 1, AT(1, 0), "ac", "ac");
    say(f, 2, AT(2, 0), "", "");
    say(f, 4, AT(4, 0), "a", "a");
    stale_adopt(f->st);
    expect(f, "2:53 1:53<b 4:53! ~4:53"); /* The flow of 3 is still there. */
    flowtab_set_complete(f->ft, true);
    ft_flush(f->ft);
    expect(f, "3:53");
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
    struct fixture *f = *state;
    size_t n = 0;

    restart(f);
    flowtab_have(f->ft, ft_flow(1, 1, 0, 0));
    ft_want(f->ft, OWNER(2), 0, ft_flow(2, 2, 0, 0), NOTHING);
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
    struct fixture *f = *state;

    restart(f);
    say(f, 1, AT(1, 0), "a", "a");
    stale_adopt(f->st);
    expect(f, "");
    say(f, 2, AT(2, 0), "a", "a");
    expect(f, "2:53! ~2:53");
}

int
main(void)
{
#define TEST(NAME) cmocka_unit_test_setup_teardown(NAME, setup, teardown)
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
        TEST(passes_come_at_once_and_over_a_second),
        TEST(the_switch_is_busy_for_a_quarter_of_the_time_at_most),
        TEST(a_first_pass_that_comes_late_is_not_the_last),
        TEST(passes_go_on_while_the_table_shrinks),
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
