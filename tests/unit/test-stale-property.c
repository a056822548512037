/* SPDX-License-Identifier: Apache-2.0 */
/* Random histories of Service ports, against a connection table that does what
 * Open vSwitch's does: connections begin by what the ports say, a request
 * removes what it matches, as far as the table does not shrink under it.
 *
 * After each change and the passes behind it no connection is left that leads
 * nowhere, and none that leads to a living endpoint has been touched. */

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <random.h>
#include <util.h>

#include "../../src/agent/stale-private.h"
#include "../support/envnum.h"
#include "../support/flowtabfix.h"

#define N_PORTS   6
#define N_EPS     8
#define N_ADDRS   5 /* Cluster IPs; fewer than there are ports. */
#define N_IPS     3 /* Of the node. */
#define N_CONNS   300
#define N_STEPS   400
#define NODE_PORT 3000

/* A Service port as the test knows it. */
struct want {
    bool exists;
    unsigned int ip;          /* 0 to N_ADDRS - 1; N_ADDRS: none. */
    unsigned int node_port;   /* NODE_PORT and up, 0: none. */
    unsigned int alive, used; /* Bits. */
};

struct conn {
    struct addr dst;
    int ep; /* -1: not translated; -2: nor begun in this direction. */
};

struct world {
    struct flowtab *ft;
    struct stale *st;
    struct want want[N_PORTS];
    unsigned int node_ips; /* Bits. */
    struct conn conns[N_CONNS];
    size_t n_conns;
    long long int now_ms;
    bool shrinks;    /* As in Open vSwitch 3.1. */
    size_t capacity; /* Slots of the table. */
};

static struct ip
make_ip(unsigned int net, unsigned int n)
{
    return ip_from_v4(htonl(0x0a000000 + net * 65536 + n + 1));
}

static struct eps
make_ep(unsigned int n)
{
    return (struct eps){ .ip = make_ip(1, n), .port = 8080 };
}

static struct eps_list
make_list(unsigned int bits)
{
    struct eps_list list = { .eps = xmalloc(N_EPS * sizeof(struct eps)) };

    for (unsigned int i = 0; i < N_EPS; i++) {
        if (bits & 1u << i) {
            list.eps[list.n++] = make_ep(i);
        }
    }
    return list;
}

static void
tell(struct world *w, unsigned int n)
{
    const struct want *want = &w->want[n];
    struct pipe_frontend frontends[2];
    struct eps_list alive = make_list(want->alive);
    struct eps_choice choice = { .cluster = make_list(want->used) };
    struct stale_port port = {
        .owner = cookie_make(COOKIE_SERVICE, n),
        .family = IP_V4,
        .proto = PROTO_UDP,
        .frontends = frontends,
        .alive = &alive,
        .choice = &choice,
    };

    if (want->ip < N_ADDRS) {
        frontends[port.n_frontends++] =
            (struct pipe_frontend){ .ip = make_ip(96, want->ip), .port = 53 };
    }
    if (want->node_port) {
        frontends[port.n_frontends++] =
            (struct pipe_frontend){ .kind = PIPE_NODE_PORT,
                                    .port = want->node_port };
    }
    if (want->exists) {
        stale_update(w->st, &port);
    } else {
        stale_remove(w->st, port.owner);
    }
    free(alive.eps);
    free(choice.cluster.eps);
}

static void
tell_node_ips(struct world *w)
{
    struct ip ips[N_IPS];
    size_t n = 0;

    for (unsigned int i = 0; i < N_IPS; i++) {
        if (w->node_ips & 1u << i) {
            ips[n++] = make_ip(200, i);
        }
    }
    stale_set_node_ips(w->st, ips, n);
}

/* Does port 'n' have 'dst'? */
static bool
serves(const struct world *w, unsigned int n, const struct addr *dst)
{
    const struct want *want = &w->want[n];
    struct ip ip = make_ip(96, want->ip);

    if (!want->exists) {
        return false;
    } else if (dst->port == 53) {
        return want->ip < N_ADDRS && ip_equals(&ip, &dst->ip);
    }
    if (want->node_port != dst->port) {
        return false;
    }
    for (unsigned int i = 0; i < N_IPS; i++) {
        ip = make_ip(200, i);
        if (w->node_ips & 1u << i && ip_equals(&ip, &dst->ip)) {
            return true;
        }
    }
    ip = pipe_node_port_ip(IP_V4);
    return ip_equals(&ip, &dst->ip);
}

/* Is there a Service port with 'dst'; has one the endpoint alive? */
static bool
is_served(const struct world *w, const struct addr *dst)
{
    for (unsigned int i = 0; i < N_PORTS; i++) {
        if (serves(w, i, dst)) {
            return true;
        }
    }
    return false;
}

static bool
lives(const struct world *w, const struct conn *conn)
{
    for (unsigned int i = 0; conn->ep >= 0 && i < N_PORTS; i++) {
        if (serves(w, i, &conn->dst) && w->want[i].alive & 1u << conn->ep) {
            return true;
        }
    }
    return false;
}

static struct addr
random_dst(void)
{
    struct addr dst;

    if (random_range(2)) {
        dst = (struct addr){ make_ip(96, random_range(N_ADDRS)), 53 };
    } else {
        unsigned int i = random_range(N_IPS + 1);

        dst.ip = i < N_IPS ? make_ip(200, i) : pipe_node_port_ip(IP_V4);
        dst.port = NODE_PORT + random_range(3);
    }
    return dst;
}

/* Packets to any address: the first port that has it chooses; without one they
 * go by untranslated. */
static void
send_packet(struct world *w)
{
    struct conn conn = { random_dst(), -1 - (int) random_range(2) };
    unsigned int i = 0, ep = random_range(N_EPS);

    while (i < N_PORTS && !serves(w, i, &conn.dst)) {
        i++;
    }
    if (i < N_PORTS && !w->want[i].used) {
        return; /* Rejected. */
    }
    if (i < N_PORTS) {
        while (!(w->want[i].used & 1u << ep)) {
            ep = (ep + 1) % N_EPS;
        }
        conn.ep = (int) ep;
    }
    w->conns[w->n_conns++] = conn;
}

static void
send_packets(struct world *w)
{
    for (int i = 0; i < 2 * N_CONNS && w->n_conns < N_CONNS; i++) {
        send_packet(w);
    }
    w->capacity = 5 * w->n_conns; /* The next that goes makes it shrink. */
}

static bool
matches(const struct ofconn_ct_flush *r, const struct conn *conn)
{
    struct ip any = { 0 }, src = conn->dst.ip;
    uint16_t src_port = conn->dst.port;

    if (conn->ep >= 0) {
        struct eps ep = make_ep((unsigned int) conn->ep);

        src = ep.ip;
        src_port = ep.port;
    }
    if (conn->ep == -2) {
        return !memcmp(&r->from, &conn->dst.ip.in6, sizeof r->from)
               && r->from_port == conn->dst.port;
    } else if (r->from_port) {
        return false;
    }
    return (!memcmp(&r->dst, &any, sizeof r->dst)
            || (!memcmp(&r->dst, &conn->dst.ip.in6, sizeof r->dst)
                && r->dst_port == conn->dst.port))
           && (!memcmp(&r->src, &any, sizeof r->src)
               || (!memcmp(&r->src, &src.in6, sizeof r->src)
                   && r->src_port == src_port));
}

/* The table halves when less than a fifth of its slots is used; then the walk
 * finds nothing more. */
static bool
must_shrink(const struct world *w, size_t n_removed)
{
    return w->shrinks && w->capacity > 4
           && (w->n_conns - n_removed) * 5 < w->capacity;
}

static void
carry_out(struct world *w, const struct ofconn_ct_flush *r)
{
    bool stopped = false;
    size_t n = 0;

    for (size_t i = 0; i < w->n_conns; i++) {
        if (stopped || !matches(r, &w->conns[i])) {
            w->conns[n++] = w->conns[i];
            continue;
        }
        assert_false(lives(w, &w->conns[i]));
        if (must_shrink(w, i + 1 - n)) {
            w->capacity /= 2;
            stopped = true;
        }
    }
    w->n_conns = n;
}

/* Until the last pass; 'n' requests at most. */
static void
pass(struct world *w, size_t n)
{
    struct ofconn_ct_flush requests[OFCONN_CT_MAX];
    struct stale_stats stats;

    do {
        size_t taken =
            stale_take(w->st, w->now_ms, requests, MIN(n, OFCONN_CT_MAX));

        for (size_t i = 0; i < taken; i++) {
            carry_out(w, &requests[i]);
        }
        n -= taken;
        if (taken) {
            stale_done(w->st, w->now_ms, 0);
        } else if (stale_next_ms(w->st) != LLONG_MAX) {
            w->now_ms = stale_next_ms(w->st);
        }
        stale_get_stats(w->st, &stats);
    } while (n && (stats.n_active || stats.n_waiting));
}

static void
change(struct world *w)
{
    unsigned int n = random_range(N_PORTS);
    struct want *want = &w->want[n];

    switch (random_range(8)) {
    case 0: want->exists = !want->exists; break;
    case 1: want->ip = random_range(N_ADDRS + 1); break;
    case 2:
        want->node_port = random_range(2) ? NODE_PORT + random_range(3) : 0;
        break;
    case 3: want->alive = 0; break;
    case 4: w->node_ips = random_range(1u << N_IPS); break;
    default: want->alive ^= 1u << random_range(N_EPS); break;
    }
    want->used &= want->alive;
    if (random_range(2)) {
        want->used = want->alive & random_uint32();
    }
    tell(w, n);
    tell_node_ips(w);
}

static void
check(const struct world *w)
{
    for (size_t i = 0; i < w->n_conns; i++) {
        const struct conn *conn = &w->conns[i];

        if (conn->ep >= 0) {
            assert_true(lives(w, conn));
        } else {
            assert_false(is_served(w, &conn->dst));
        }
    }
}

static void
run_history(uint32_t seed, bool shrinks)
{
    struct world w = { .ft = ft_ready(), .shrinks = shrinks };

    random_set_seed(seed);
    w.st = stale_create(w.ft, NULL);
    stale_adopt(w.st);
    stale_done(w.st, 0, 0);
    for (int i = 0; i < N_STEPS; i++) {
        send_packets(&w);
        change(&w);
        if (random_range(4)) {
            pass(&w, SIZE_MAX);
            check(&w);
        } else {
            pass(&w, random_range(20));
            /* A connection that is lost now and then. */
            if (!random_range(3)) {
                stale_lost(w.st);
            }
        }
    }
    pass(&w, SIZE_MAX);
    check(&w);
    stale_destroy(w.st);
    flowtab_destroy(w.ft);
}

static uint32_t
choose_seed(void)
{
    uint32_t seed = envnum("SEED", random_uint32() >> 1);

    printf("SEED=%u\n", seed);
    return seed ? seed : 1;
}

static void
what_leads_nowhere_goes_and_nothing_else(void **state OVS_UNUSED)
{
    uint32_t seed = choose_seed();

    for (uint32_t i = 0; i < 20; i++) {
        run_history(seed + i, false);
    }
}

static void
a_table_that_shrinks_under_the_walk_is_emptied(void **state OVS_UNUSED)
{
    uint32_t seed = choose_seed();

    for (uint32_t i = 0; i < 20; i++) {
        run_history(seed + i, true);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_leads_nowhere_goes_and_nothing_else),
        cmocka_unit_test(a_table_that_shrinks_under_the_walk_is_emptied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
