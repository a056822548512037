/* SPDX-License-Identifier: Apache-2.0 */
/* When learned flows are looked at, and what becomes of them: days pass in a
 * loop. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "../../src/agent/affinity.h"

#include "ofproxyd/pipeline/pipeline.h"

#define MINUTE    (60 * 1000LL)
#define HOUR      (60 * MINUTE)
#define DAY_S     86400
#define FOREVER_S (PIPE_AFFINITY_MAX_S + 1)

/* A review that is due at once and is about all flows. */
static void
begin_all(struct affinity *a, long long int now_ms)
{
    uint32_t group_id;
    bool all;

    assert_true(affinity_begin(a, now_ms, &all, &group_id));
    assert_true(all);
}

static void
costs_nothing_without_affinity(void **state)
{
    struct affinity a;
    uint32_t group_id;
    bool all;

    (void) state;
    affinity_init(&a);
    assert_int_equal(affinity_next_ms(&a), LLONG_MAX);
    assert_false(affinity_begin(&a, 100 * HOUR, &all, &group_id));

    /* Once after a connect, to see what is left. */
    affinity_connected(&a, 1000);
    assert_int_equal(affinity_next_ms(&a), 1000);
    begin_all(&a, 1000);
    assert_int_equal(affinity_next_ms(&a), LLONG_MAX);
    assert_int_equal(affinity_judge(&a, 1, 5, 10800, 1001), 10800);
    affinity_end(&a, 1001, true);
    assert_int_equal(affinity_next_ms(&a), LLONG_MAX);
    affinity_uninit(&a);
}

static void
flows_get_what_the_service_says(void **state)
{
    static const struct {
        uint32_t idle_s, timeout_s;
        int want;
    } cases[] = {
        { 0, 0, -1 },      /* No affinity any more, */
        { 100000, 0, -1 }, /* however old. */
        { 0, 1, 1 },
        { 1, 1, -1 },
        { 10799, 10800, 10800 },
        { 10800, 10800, -1 }, /* It has become shorter. */
        { 0, 65535, 65535 },
        { 65534, 65535, 65535 },
        { 65535, 65535, -1 },
        { 0, 65536, 0 },
        { 65535, 65536, 0 },
        { 65536, 65536, -1 },
        { 0, DAY_S, 0 },
        { DAY_S - 1, DAY_S, 0 },
        { DAY_S, DAY_S, -1 },
        { UINT32_MAX, DAY_S, -1 },
    };

    (void) state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct affinity a;

        affinity_init(&a);
        affinity_connected(&a, 0);
        begin_all(&a, 0);
        assert_int_equal(affinity_judge(&a, 1, cases[i].idle_s,
                                        cases[i].timeout_s, 0),
                         cases[i].want);
        affinity_end(&a, 0, true);
        affinity_uninit(&a);
    }
}

static void
a_group_is_looked_at_when_its_first_flow_may_be_due(void **state)
{
    struct affinity a;
    uint32_t group_id;
    bool all;

    (void) state;
    affinity_init(&a);
    affinity_set_long(&a, true);
    affinity_connected(&a, 0);
    begin_all(&a, 0);
    affinity_judge(&a, 7, DAY_S - 100, DAY_S, 0);
    affinity_judge(&a, 7, DAY_S - 40, DAY_S, 0);
    affinity_judge(&a, 8, DAY_S - 50, DAY_S, 0);
    affinity_end(&a, 0, true);

    assert_int_equal(affinity_next_ms(&a), 40000);
    assert_false(affinity_begin(&a, 39999, &all, &group_id));
    assert_true(affinity_begin(&a, 40000, &all, &group_id));
    assert_false(all);
    assert_int_equal(group_id, 7);
    assert_int_equal(affinity_judge(&a, 7, DAY_S - 60, DAY_S, 40000), 0);
    assert_int_equal(affinity_judge(&a, 7, DAY_S, DAY_S, 40000), -1);
    affinity_end(&a, 40000, true);

    assert_int_equal(affinity_next_ms(&a), 50000);
    assert_true(affinity_begin(&a, 50000, &all, &group_id));
    assert_int_equal(group_id, 8);
    assert_int_equal(affinity_judge(&a, 8, DAY_S, DAY_S, 50000), -1);
    affinity_end(&a, 50000, true);
    assert_int_equal(affinity_next_ms(&a), 100000);
    affinity_uninit(&a);
}

static void
nothing_is_looked_at_while_a_review_is_under_way(void **state)
{
    struct affinity a;
    uint32_t group_id;
    bool all;

    (void) state;
    affinity_init(&a);
    affinity_connected(&a, 0);
    begin_all(&a, 0);
    affinity_changed(&a, 10);
    assert_int_equal(affinity_next_ms(&a), LLONG_MAX);
    assert_false(affinity_begin(&a, 1000, &all, &group_id));
    affinity_end(&a, 20, true);

    /* What changed meanwhile is looked at after a rest, and once more. */
    assert_int_equal(affinity_next_ms(&a), 20 + 20 * AFFINITY_REST);
    begin_all(&a, 1000);
    affinity_end(&a, 1000, true);
    assert_int_equal(affinity_next_ms(&a), 10010);
    begin_all(&a, 10010);
    affinity_end(&a, 10010, true);
    assert_int_equal(affinity_next_ms(&a), LLONG_MAX);
    affinity_uninit(&a);
}

static void
a_review_that_broke_off_is_done_again(void **state)
{
    struct affinity a;
    uint32_t group_id;
    bool all;

    (void) state;
    affinity_init(&a);
    affinity_set_long(&a, true);
    affinity_connected(&a, 0);
    begin_all(&a, 0);
    affinity_judge(&a, 7, DAY_S - 10, DAY_S, 0);
    affinity_end(&a, 0, true);
    assert_true(affinity_begin(&a, 10000, &all, &group_id));
    affinity_end(&a, 10001, false);
    begin_all(&a, affinity_next_ms(&a));
    affinity_uninit(&a);
}

static void
a_rest_follows_each_review(void **state)
{
    struct affinity a;

    (void) state;
    affinity_init(&a);
    affinity_connected(&a, 0);
    begin_all(&a, 0);
    affinity_end(&a, 500, true);
    affinity_changed(&a, 501);
    assert_int_equal(affinity_next_ms(&a), 500 + 500 * AFFINITY_REST);
    affinity_uninit(&a);
}

/* A model of the switch: clients come and go for days, and each has to be
 * forgotten in the second in which its time is over, whatever breaks. */

#define N_CLIENTS 200
#define N_GROUPS  5

struct memory {
    bool there;
    uint32_t group_id;
    long long int used_ms;
    int idle_timeout; /* -1: never learned. */
};

static const uint32_t timeouts[N_GROUPS] = { 10, 65535, FOREVER_S, DAY_S,
                                             70000 };

/* The switch's own expiry. */
static void
expire(struct memory *f, long long int now_ms)
{
    if (f->there && f->idle_timeout
        && now_ms > f->used_ms + f->idle_timeout * 1000LL) {
        f->there = false;
    }
}

static void
review(struct affinity *a, struct memory *flows, long long int now_ms)
{
    uint32_t group_id;
    bool all;

    if (!affinity_begin(a, now_ms, &all, &group_id)) {
        return;
    }
    for (int i = 0; i < N_CLIENTS; i++) {
        struct memory *f = &flows[i];

        if (f->there && (all || f->group_id == group_id)) {
            uint32_t idle_s = (now_ms - f->used_ms) / 1000;
            int timeout = affinity_judge(a, f->group_id, idle_s,
                                         timeouts[f->group_id], now_ms);

            f->there = timeout >= 0;
            f->idle_timeout = timeout;
        }
    }
    affinity_end(a, now_ms, rand() % 20);
}

static void
check(const struct memory *f, long long int now_ms)
{
    long long int end_ms = f->used_ms + timeouts[f->group_id] * 1000LL;

    if (f->idle_timeout < 0) {
        return;
    }
    assert_true(f->there || now_ms >= end_ms);
    assert_true(!f->there || now_ms <= end_ms + 2000);
}

static void
clients_are_forgotten_exactly_in_time(void **state)
{
    struct memory flows[N_CLIENTS] = { 0 };
    const char *env = getenv("SEED");
    unsigned int seed = env ? atoi(env) : 1;
    struct affinity a;

    (void) state;
    affinity_init(&a);
    print_message("SEED=%u\n", seed);
    srand(seed);
    for (int i = 0; i < N_CLIENTS; i++) {
        flows[i].group_id = rand() % N_GROUPS;
        flows[i].idle_timeout = -1;
    }
    affinity_set_long(&a, true);
    affinity_connected(&a, 0);
    for (long long int s = 0; s < 4 * DAY_S; s++) {
        long long int now_ms = s * 1000 + rand() % 1000;

        if (rand() % 500 == 0) {
            struct memory *f = &flows[rand() % N_CLIENTS];
            uint32_t t = timeouts[f->group_id];

            f->idle_timeout = f->there
                                  ? f->idle_timeout
                                  : (int) (t > PIPE_AFFINITY_MAX_S ? 0 : t);
            f->there = true;
            f->used_ms = now_ms;
        }
        if (rand() % 20000 == 0) { /* The daemon starts anew. */
            affinity_uninit(&a);
            affinity_init(&a);
            affinity_set_long(&a, true);
            affinity_connected(&a, now_ms);
        }
        for (int i = 0; i < N_CLIENTS; i++) {
            expire(&flows[i], now_ms);
        }
        review(&a, flows, now_ms);
        for (int i = 0; i < N_CLIENTS; i++) {
            check(&flows[i], now_ms);
        }
    }
    affinity_uninit(&a);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(costs_nothing_without_affinity),
        cmocka_unit_test(flows_get_what_the_service_says),
        cmocka_unit_test(a_group_is_looked_at_when_its_first_flow_may_be_due),
        cmocka_unit_test(nothing_is_looked_at_while_a_review_is_under_way),
        cmocka_unit_test(a_review_that_broke_off_is_done_again),
        cmocka_unit_test(a_rest_follows_each_review),
        cmocka_unit_test(clients_are_forgotten_exactly_in_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
