/* SPDX-License-Identifier: Apache-2.0 */
/* Who has an address that several claim: cases, and random histories against
 * the rule applied afresh.  ADDRS_SEED=<seed> repeats a history. */

#include <inttypes.h>
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

#include "../../src/agent/addrs.h"
#include "../support/envnum.h"

#define N_OWNERS 8
#define N_ADDRS  5 /* Of each kind, that there are to claim. */
#define N_STEPS  3000

struct fixture {
    struct addrs *addrs;
    struct addr_owner owners[N_OWNERS];
    struct ds log;
};

static struct pipe_frontend
external(uint8_t n)
{
    return (struct pipe_frontend){ .kind = PIPE_EXTERNAL,
                                   .ip = ip_from_v4(htonl(0xc0000200 + n)),
                                   .port = 80 };
}

static struct pipe_frontend
node_port(uint16_t port)
{
    return (struct pipe_frontend){ .kind = PIPE_NODE_PORT, .port = port };
}

/* As "+0:1" for owner 0 and address 1, "-0:n30080" for a NodePort. */
static void
log_change(const struct addr *addr, bool gone, void *f_)
{
    struct fixture *f = f_;

    ds_put_format(&f->log, "%s%c%td:", f->log.length ? " " : "",
                  gone ? '-' : '+', addr->owner - f->owners);
    if (addr->kind == PIPE_NODE_PORT) {
        ds_put_format(&f->log, "n%d", addr->port);
    } else {
        ds_put_format(&f->log, "%d", ntohl(ip_v4(&addr->ip)) & 0xff);
    }
}

static int
setup(void **state)
{
    static const char *const names[N_OWNERS] = { "ns/a", "ns/a", "ns/b",
                                                 "ns/b", "ns/c", "ns/c",
                                                 "ns/d", "ns/d" };
    struct fixture *f = xzalloc(sizeof *f);

    ds_init(&f->log);
    f->addrs = addrs_create(log_change, f);
    for (size_t i = 0; i < N_OWNERS; i++) {
        addr_owner_init(&f->owners[i]);
        f->owners[i].name = names[i];
        f->owners[i].port_name = i % 2 ? "web" : "dns";
        f->owners[i].id = N_OWNERS - i;
    }
    *state = f;
    return 0;
}

static void
unset(struct fixture *f, size_t i)
{
    addrs_set(f->addrs, &f->owners[i], 0, NULL, 0);
}

static int
teardown(void **state)
{
    struct fixture *f = *state;

    for (size_t i = 0; i < N_OWNERS; i++) {
        unset(f, i);
    }
    assert_null(addrs_pop_changed(f->addrs));
    addrs_destroy(f->addrs);
    ds_destroy(&f->log);
    free(f);
    return 0;
}

static void
check_log(struct fixture *f, const char *expected)
{
    assert_string_equal(ds_cstr(&f->log), expected);
    ds_clear(&f->log);
}

/* Owner 'i' claims one address. */
static void
set(struct fixture *f, size_t i, int64_t rank, struct pipe_frontend what)
{
    addrs_set(f->addrs, &f->owners[i], rank, &what, 1);
}

static bool
lost(const struct fixture *f, size_t i)
{
    return f->owners[i].addrs[0].lost;
}

static void
assert_changed(struct fixture *f, const struct addr_owner *owner)
{
    assert_ptr_equal(addrs_pop_changed(f->addrs), owner);
    assert_null(addrs_pop_changed(f->addrs));
}

static void
lower_rank_then_name_comes_first(void **state)
{
    struct fixture *f = *state;

    set(f, 2, 5, external(1));
    set(f, 4, 5, external(1));
    assert_false(lost(f, 2));
    assert_true(lost(f, 4));
    assert_null(addrs_pop_changed(f->addrs));

    set(f, 0, 6, external(1));
    assert_true(lost(f, 0));
    set(f, 0, 5, external(1));
    assert_false(lost(f, 0));
    assert_true(lost(f, 2));
    assert_changed(f, &f->owners[2]);

    set(f, 4, 4, external(1));
    assert_changed(f, &f->owners[0]);
    assert_ptr_equal(addrs_winner(f->addrs, &f->owners[2].addrs[0]),
                     &f->owners[4]);
    unset(f, 4);
    assert_changed(f, &f->owners[0]);
    assert_false(lost(f, 0));
    assert_true(lost(f, 2));
}

static void
ports_of_one_service_go_by_name_then_id(void **state)
{
    struct fixture *f = *state;

    set(f, 1, 5, external(1));
    set(f, 0, 5, external(1));
    assert_true(lost(f, 1));
    assert_changed(f, &f->owners[1]);
    f->owners[2].name = f->owners[0].name;
    set(f, 2, 5, external(1)); /* The id is lower. */
    assert_true(lost(f, 0));
    assert_changed(f, &f->owners[0]);
}

static void
other_port_protocol_family_and_kind_are_other_addresses(void **state)
{
    struct fixture *f = *state;
    struct pipe_frontend other_port = external(1), cluster = external(1);

    other_port.port = 81;
    set(f, 0, 1, external(1));
    set(f, 1, 2, other_port);
    f->owners[2].proto = PROTO_UDP;
    set(f, 2, 3, external(1));
    set(f, 3, 4, node_port(80));
    f->owners[4].family = IP_V6;
    set(f, 4, 5, node_port(80));
    for (size_t i = 0; i < 5; i++) {
        assert_false(lost(f, i));
    }
    set(f, 5, 6, node_port(80));
    assert_true(lost(f, 5));

    /* A cluster IP may be another one's external IP. */
    cluster.kind = PIPE_CLUSTER_IP;
    set(f, 6, 7, cluster);
    assert_true(lost(f, 6));
}

static void
an_owner_keeps_its_other_addresses(void **state)
{
    struct fixture *f = *state;
    struct pipe_frontend mine[] = { external(3), external(2), external(1) };

    set(f, 0, 1, external(2));
    addrs_set(f->addrs, &f->owners[2], 2, mine, ARRAY_SIZE(mine));
    for (size_t i = 0; i < ARRAY_SIZE(mine); i++) {
        assert_int_equal(addr_owner_lost(&f->owners[2], &mine[i]), i == 1);
    }
    unset(f, 0);
    assert_changed(f, &f->owners[2]);
    assert_false(addr_owner_lost(&f->owners[2], &mine[1]));
}

static void
changes_are_told_once_and_no_equal_address_goes(void **state)
{
    struct fixture *f = *state;
    struct pipe_frontend first[] = { external(1), external(2), external(3) };
    struct pipe_frontend second[] = { node_port(30080), external(4),
                                      external(3), external(1) };

    addrs_set(f->addrs, &f->owners[0], 1, first, 3);
    check_log(f, "+0:1 +0:2 +0:3");
    addrs_set(f->addrs, &f->owners[0], 1, first, 3);
    addrs_set(f->addrs, &f->owners[0], 2, first, 3);
    check_log(f, "");
    addrs_set(f->addrs, &f->owners[0], 2, second, 4);
    check_log(f, "+0:n30080 +0:4 -0:2");
    addrs_set(f->addrs, &f->owners[0], 2, second, 1);
    check_log(f, "-0:1 -0:3 -0:4");
    /* Who has lost it claims it nevertheless. */
    set(f, 2, 9, node_port(30080));
    check_log(f, "+2:n30080");
    unset(f, 0);
    check_log(f, "-0:n30080");
}

static void
owner_that_goes_is_not_changed(void **state)
{
    struct fixture *f = *state;

    set(f, 2, 2, external(1));
    set(f, 0, 1, external(1));
    unset(f, 2);
    assert_null(addrs_pop_changed(f->addrs));
}

/* Histories. */

static uint32_t
draw(uint64_t *seed, uint32_t n)
{
    uint64_t z = *seed += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t) ((z ^ z >> 31) % n);
}

/* What each owner was told to claim. */
struct wish {
    int64_t rank;
    bool of[2 * N_ADDRS];
};

static void
draw_wish(struct fixture *f, uint64_t *seed, struct wish *wish, size_t i)
{
    struct pipe_frontend what[2 * N_ADDRS];
    size_t n = 0;

    wish->rank = draw(seed, 3);
    for (uint8_t k = 0; k < 2 * N_ADDRS; k++) {
        wish->of[k] = !draw(seed, 3);
        if (wish->of[k]) {
            what[n++] = k % 2 ? node_port(k) : external(k);
        }
    }
    addrs_set(f->addrs, &f->owners[i], wish->rank, what, n);
}

static bool
precedes(const struct fixture *f, const struct wish *wishes, size_t a,
         size_t b)
{
    const struct addr_owner *x = &f->owners[a], *y = &f->owners[b];
    int cmp = strcmp(x->name, y->name);

    cmp = cmp ? cmp : strcmp(x->port_name, y->port_name);
    return wishes[a].rank != wishes[b].rank ? wishes[a].rank < wishes[b].rank
                                            : cmp < 0;
}

/* Checks owner 'i', and that it was named if anything changed for it but by
 * its own doing.  'had' are the addresses that it had. */
static void
check_owner(struct fixture *f, const struct wish *wishes, size_t i, bool named,
            bool had[2 * N_ADDRS])
{
    for (uint8_t k = 0; k < 2 * N_ADDRS; k++) {
        struct pipe_frontend what = k % 2 ? node_port(k) : external(k);
        bool has = wishes[i].of[k];

        for (size_t j = 0; j < N_OWNERS; j++) {
            has &= !(wishes[j].of[k] && precedes(f, wishes, j, i));
        }
        if (wishes[i].of[k]) {
            assert_int_equal(addr_owner_lost(&f->owners[i], &what), !has);
        }
        assert_true(named || had[k] == has);
        had[k] = has;
    }
}

static void
winners_follow_the_rule_after_any_history(void **state)
{
    struct fixture *f = *state;
    uint64_t seed = envnum("ADDRS_SEED", 1);
    struct wish wishes[N_OWNERS] = { { .rank = 0 } };
    bool had[N_OWNERS][2 * N_ADDRS] = { { false } };

    print_message("ADDRS_SEED=%" PRIu64 "\n", seed);
    for (int step = 0; step < N_STEPS; step++) {
        size_t i = draw(&seed, N_OWNERS);
        bool named[N_OWNERS] = { false };
        const struct addr_owner *owner;

        if (draw(&seed, 4)) {
            draw_wish(f, &seed, &wishes[i], i);
        } else {
            wishes[i] = (struct wish){ .rank = 0 };
            unset(f, i);
        }
        while ((owner = addrs_pop_changed(f->addrs))) {
            named[owner - f->owners] = true;
        }
        assert_false(named[i]);
        named[i] = true;
        for (size_t j = 0; j < N_OWNERS; j++) {
            check_owner(f, wishes, j, named[j], had[j]);
        }
        ds_clear(&f->log);
    }
}

int
main(void)
{
#define TEST(NAME) cmocka_unit_test_setup_teardown(NAME, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(lower_rank_then_name_comes_first),
        TEST(ports_of_one_service_go_by_name_then_id),
        TEST(other_port_protocol_family_and_kind_are_other_addresses),
        TEST(an_owner_keeps_its_other_addresses),
        TEST(changes_are_told_once_and_no_equal_address_goes),
        TEST(owner_that_goes_is_not_changed),
        TEST(winners_follow_the_rule_after_any_history),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
