/* SPDX-License-Identifier: Apache-2.0 */
/* Connections between clusters: to others, with a source which is not this
 * node's any more; from others, when this node becomes the gateway. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <util.h>

#include "../../src/agent/stale.h"
#include "../support/flowtabfix.h"

/* More than all passes take. */
#define MAX_TURNS 1000

#define OWNER     cookie_make(COOKIE_MULTICLUSTER, 7)

struct fixture {
    struct flowtab *ft;
    struct stale *st;
    long long int now_ms;
    char *path;
};

static struct ip
ip(const char *s)
{
    struct ip result = { 0 };

    assert_int_equal(*s ? ip_from_string(s, &result) : 0, 0);
    return result;
}

/* The flows to another cluster with this source, or "" for those of a node
 * that is no gateway. */
static void
render(const char *source, struct fout *out)
{
    struct cidr cidrs[2];
    struct pipe_node node = {
        .gateway_ofport = 2,
        .tunnel_ofport = 1,
        .mc_role = *source ? PIPE_MC_GATEWAY : PIPE_MC_REGULAR,
        .mc_gateway_ip = ip(source),
    };
    struct pipe_mc_peer peer = {
        .cidrs = cidrs,
        .n_cidrs = 2,
        .tunnel_dst = ip("198.51.100.1"),
    };

    assert_int_equal(cidr_parse("10.97.0.0/16", &cidrs[0]), 0);
    assert_int_equal(cidr_parse("2001:db8:97::/112", &cidrs[1]), 0);
    pipe_render_mc_peer(&node, cookie_object_id(OWNER), &peer, out);
}

static void
want(struct fixture *f, const char *source)
{
    struct flowtab_owner owner = { .id = OWNER };
    struct fout out = FOUT_INIT;

    render(source, &out);
    flowtab_want(f->ft, &owner, &out);
    free(out.items);
}

static void
set_source(struct fixture *f, const char *source)
{
    struct ip now = ip(source);

    stale_set_source(f->st, &now);
}

static int
setup(void **state)
{
    struct fixture *f = xzalloc(sizeof *f);

    f->ft = ft_ready();
    f->path = xasprintf("/tmp/test-stale-source.%d", (int) getpid());
    f->st = stale_create(f->ft, f->path);
    f->now_ms = 1000;
    set_source(f, "192.0.2.11");
    stale_adopt(f->st); /* Of an empty switch. */
    want(f, "192.0.2.11");
    ft_flush(f->ft);
    *state = f;
    return 0;
}

static int
teardown(void **state)
{
    struct fixture *f = *state;

    stale_destroy(f->st);
    flowtab_destroy(f->ft);
    unlink(f->path);
    free(f->path);
    free(f);
    return 0;
}

/* A daemon ends, and another one begins. */
static void
hand_over(struct fixture *f)
{
    stale_save(f->st);
    stale_destroy(f->st);
    f->st = stale_create(f->ft, f->path);
}

/* The role of before is that of the flows that the switch has. */
static void
start_with_flows_of(struct fixture *f, const char *source)
{
    struct fout out = FOUT_INIT;

    hand_over(f);
    render(source, &out);
    flowtab_dump_begin(f->ft);
    for (size_t i = 0; i < out.n; i++) {
        flowtab_have(f->ft, fitem_ref(out.items[i]));
    }
    flowtab_dump_end(f->ft);
    fout_clear(&out);
    free(out.items);
}

/* Says what a request is for: "ZONE:SOURCE", of all protocols and nothing
 * else, or of UDP "from ADDRESS" or "to ADDRESS". */
static char *
describe(const struct ofconn_ct_flush *r)
{
    struct ofconn_ct_flush only = { .zone = r->zone, .to = r->to };
    struct ofconn_ct_flush opened = { .zone = r->zone,
                                      .proto = proto_number(PROTO_UDP),
                                      .dst = r->dst,
                                      .from = r->from };
    struct ip to = { r->to }, from = { r->from }, dst = { r->dst };
    const struct ip *end = ip_is_none(&from) ? &dst : &from;
    char buf[IP_STRLEN];

    if (!ip_is_none(&to)) {
        assert_memory_equal(r, &only, sizeof only);
        return xasprintf("%s:%s",
                         r->zone == PIPE_SNAT_ZONE_V4   ? "4"
                         : r->zone == PIPE_SNAT_ZONE_V6 ? "6"
                                                        : "?",
                         ip_to_string(&to, buf));
    }
    assert_memory_equal(r, &opened, sizeof opened);
    assert_true(ip_is_none(&from) != ip_is_none(&dst));
    assert_int_equal(r->zone,
                     ip_family(end) == IP_V4 ? PIPE_ZONE_V4 : PIPE_ZONE_V6);
    return xasprintf("%s %s", end == &from ? "from" : "to",
                     ip_to_string(end, buf));
}

/* Checks the requests of all passes, each once. */
static void
expect(struct fixture *f, const char *expected)
{
    struct ofconn_ct_flush requests[OFCONN_CT_MAX] = { { .zone = 0 } };
    struct ds ds = DS_EMPTY_INITIALIZER;
    struct stale_stats stats = { .n_active = 1 };

    for (int i = 0; i < MAX_TURNS && stats.n_active; i++) {
        size_t n = stale_take(f->st, f->now_ms, requests, OFCONN_CT_MAX);

        for (size_t j = 0; j < n; j++) {
            char *text = describe(&requests[j]);

            if (!strstr(ds_cstr(&ds), text)) {
                ds_put_format(&ds, "%s%s", ds.length ? " " : "", text);
            }
            free(text);
        }
        if (n) {
            stale_done(f->st, f->now_ms, 0);
        } else {
            f->now_ms += STALE_GRACE_MS;
        }
        stale_get_stats(f->st, &stats);
    }
    assert_int_equal(stats.n_active, 0);
    assert_string_equal(ds_cstr(&ds), expected);
    ds_destroy(&ds);
}

static void
an_old_source_is_forgotten_once_no_flow_gives_it(void **state)
{
    struct fixture *f = *state;

    set_source(f, "192.0.2.12");
    expect(f, "");
    want(f, "192.0.2.12");
    expect(f, ""); /* The switch does not know it yet. */
    ft_flush(f->ft);
    expect(f, "4:192.0.2.11");
    expect(f, "");
}

static void
of_ipv6_as_well(void **state)
{
    struct fixture *f = *state;

    set_source(f, "2001:db8::11");
    want(f, "2001:db8::11");
    ft_flush(f->ft);
    expect(f, "4:192.0.2.11");
    set_source(f, "2001:db8::12");
    want(f, "2001:db8::12");
    ft_flush(f->ft);
    expect(f, "6:2001:db8::11");
}

static void
a_gateway_that_is_none_any_more_forgets_too(void **state)
{
    struct fixture *f = *state;

    set_source(f, "");
    want(f, "");
    ft_flush(f->ft);
    expect(f, "4:192.0.2.11");
    set_source(f, "192.0.2.11");
    want(f, "192.0.2.11");
    ft_flush(f->ft);
    expect(f, "");
}

static void
a_source_that_is_there_again_is_left_alone(void **state)
{
    struct fixture *f = *state;

    set_source(f, "192.0.2.12");
    set_source(f, "192.0.2.11");
    expect(f, "4:192.0.2.12");

    set_source(f, "");
    want(f, "");
    ft_flush(f->ft);
    set_source(f, "192.0.2.11");
    want(f, "192.0.2.11");
    ft_flush(f->ft);
    expect(f, "");
}

static void
what_changed_while_the_daemon_was_away_is_found(void **state)
{
    struct fixture *f = *state;

    start_with_flows_of(f, "192.0.2.11");
    set_source(f, "192.0.2.12");
    want(f, "192.0.2.12");
    stale_adopt(f->st);
    expect(f, "");
    ft_flush(f->ft);
    expect(f, "4:192.0.2.11");
}

static void
what_was_due_at_the_end_is_due_for_the_next(void **state)
{
    struct fixture *f = *state;

    set_source(f, "192.0.2.12");
    hand_over(f);
    want(f, "192.0.2.12");
    ft_flush(f->ft);
    set_source(f, "192.0.2.12");
    stale_adopt(f->st);
    expect(f, "4:192.0.2.11");
}

static void
note_peer(struct fixture *f, const char *peer)
{
    struct ip gateway = ip(peer);

    stale_note_peer(f->st, &gateway);
}

static void
who_becomes_the_gateway_forgets_what_others_opened(void **state)
{
    struct fixture *f = *state;

    assert_false(stale_has_taken_over(f->st));
    set_source(f, "");
    assert_false(stale_has_taken_over(f->st));
    set_source(f, "192.0.2.11");
    assert_true(stale_has_taken_over(f->st));
    assert_false(stale_has_taken_over(f->st));
    note_peer(f, "198.51.100.1");
    note_peer(f, "198.51.100.2");
    hand_over(f);
    set_source(f, "192.0.2.11");
    stale_adopt(f->st);
    expect(f, "from 198.51.100.1 from 198.51.100.2 to 198.51.100.1 to "
              "198.51.100.2");
    note_peer(f, "2001:db8:f::1");
    expect(f, "from 2001:db8:f::1 to 2001:db8:f::1");
    set_source(f, "192.0.2.12"); /* It is the gateway as before. */
    assert_false(stale_has_taken_over(f->st));
}

static void
also_while_the_daemon_was_away(void **state)
{
    struct fixture *f = *state;

    start_with_flows_of(f, "");
    set_source(f, "192.0.2.11");
    stale_adopt(f->st);
    assert_true(stale_has_taken_over(f->st));

    start_with_flows_of(f, "192.0.2.11");
    set_source(f, "192.0.2.11");
    stale_adopt(f->st);
    assert_false(stale_has_taken_over(f->st));

    start_with_flows_of(f, "");
    set_source(f, "");
    stale_adopt(f->st);
    assert_false(stale_has_taken_over(f->st));
}

int
main(void)
{
#define TEST(NAME) cmocka_unit_test_setup_teardown(NAME, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(an_old_source_is_forgotten_once_no_flow_gives_it),
        TEST(of_ipv6_as_well),
        TEST(a_gateway_that_is_none_any_more_forgets_too),
        TEST(a_source_that_is_there_again_is_left_alone),
        TEST(what_changed_while_the_daemon_was_away_is_found),
        TEST(what_was_due_at_the_end_is_due_for_the_next),
        TEST(who_becomes_the_gateway_forgets_what_others_opened),
        TEST(also_while_the_daemon_was_away),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
