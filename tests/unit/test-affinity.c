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
#include "../support/envnum.h"

#include "ofproxyd/pipeline/pipeline.h"

#define MINUTE    (60 * 1000LL)
#define HOUR      (60 * MINUTE)
#define DAY_S     86400
#define FOREVER_S (PIPE_AFFINITY_MAX_S + 1)

/* What becomes of a flow as it was learned, put at the client's last
 * connection. */
static enum affinity_verdict
judge(struct affinity *a, uint32_t group_id, uint32_t idle_s,
      uint32_t timeout_s, long long int now_ms)
{
    bool is_long = timeout_s > PIPE_AFFINITY_MAX_S;
    struct affinity_flow flow = {
        .group_id = group_id,
        .timeout_s = timeout_s,
        .idle_s = idle_s,
        .age_s = idle_s,
        .idle_timeout = is_long ? 0 : timeout_s,
        .hard_timeout = is_long ? pipe_affinity_hard_s(timeout_s) : 0,
    };

    return affinity_judge(a, &flow, now_ms);
}

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
    assert_int_equal(judge(&a, 1, 5, 10800, 1001), AFFINITY_KEEP);
    affinity_end(&a, 1001, true);
    assert_int_equal(affinity_next_ms(&a), LLONG_MAX);
    affinity_uninit(&a);
}

enum {
    KEEP = AFFINITY_KEEP,
    FORGET = AFFINITY_FORGET,
    PUT = AFFINITY_PUT
};
/* Of a timeout of 86 400 s: the flow's own, and after how many seconds it
 * is put anew. */
enum {
    HARD = PIPE_AFFINITY_MAX_S,
    DUE = DAY_S - HARD
};
/* A flow of a Service with this timeout, and what becomes of it. */
static const struct {
    uint32_t timeout_s, idle_s, age_s;
    uint16_t idle_timeout, hard_timeout;
    int want;
    uint16_t want_idle, want_hard;
} cases[] = {
    /* No affinity any more. */
    { 0, 0, 0, 10, 0, FORGET, 0, 0 },
    { 0, 50000, 50000, 0, HARD, FORGET, 0, 0 },

    /* As it was learned, and over. */
    { 1, 0, 0, 1, 0, KEEP, 0, 0 },
    { 1, 1, 1, 1, 0, FORGET, 0, 0 },
    { 10800, 10799, 20000, 10800, 0, KEEP, 0, 0 },
    { 10800, 10800, 10800, 20000, 0, FORGET, 0, 0 },
    { 65535, 65534, 65534, 65535, 0, KEEP, 0, 0 },

    /* Another timeout, */
    { 10800, 5, 5, 20000, 0, PUT, 10800, 0 },
    { 10800, 5, 5, 0, HARD, PUT, 10800, 0 },
    { DAY_S, 5, 5, 10800, 0, PUT, 0, HARD },
    { 65536, 5, 5, 0, HARD, PUT, 0, 65536 - 3600 },
    /* in the middle of what would be its time, */
    { DAY_S, 50000, 50000, 60000, 0, PUT, 0, DAY_S - 50000 },
    { 70000, 50000, 50000, 0, HARD, PUT, 0, 20000 },
    { 70000, 50000, 50000 - DUE, 0, HARD, PUT, 0, 20000 },
    /* or nobody's. */
    { DAY_S, 5, 5, 0, 0, PUT, 0, HARD },
    { DAY_S, 50000, 50000, 0, 0, PUT, 0, DAY_S - 50000 },

    /* Not yet, now, later than that; put anew already. */
    { DAY_S, DUE - 1, DUE - 1, 0, HARD, KEEP, 0, 0 },
    { DAY_S, DUE - 1, 60000, 0, HARD, KEEP, 0, 0 },
    { DAY_S, DUE, DUE, 0, HARD, PUT, 0, HARD },
    { DAY_S, DUE + 5, DUE + 5, 0, HARD, PUT, 0, HARD },
    { DAY_S, DUE + 5, 60000, 0, HARD, PUT, 0, HARD },
    { DAY_S, DUE + 6, DUE + 6, 0, HARD, PUT, 0, HARD - 6 },
    { DAY_S, DUE + 9, 9, 0, HARD, KEEP, 0, 0 },
    { DAY_S, DUE + 9, 3, 0, HARD - 6, KEEP, 0, 0 },
    { DAY_S, 60000, 60000 - DUE, 0, HARD, KEEP, 0, 0 },

    /* The client has come again since. */
    { DAY_S, 3, 3000, 0, HARD - 6, PUT, 0, HARD },
    { DAY_S, 3, 3000, 0, HARD, KEEP, 0, 0 },

    /* Open vSwitch doesn't say for how long any more. */
    { DAY_S, 65535, 50000, 0, HARD, KEEP, 0, 0 },
    { DAY_S, 65535, 90000, 0, 0, PUT, 0, DUE },
};

static void
flows_get_what_the_service_says(void **state)
{
    (void) state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct affinity_flow flow = {
            .group_id = 1,
            .timeout_s = cases[i].timeout_s,
            .idle_s = cases[i].idle_s,
            .age_s = cases[i].age_s,
            .idle_timeout = cases[i].idle_timeout,
            .hard_timeout = cases[i].hard_timeout,
        };
        struct affinity a;

        print_message("case %zu\n", i);
        affinity_init(&a);
        affinity_connected(&a, 0);
        begin_all(&a, 0);
        assert_int_equal(affinity_judge(&a, &flow, 0), cases[i].want);
        if (cases[i].want == PUT) {
            assert_int_equal(flow.idle_timeout, cases[i].want_idle);
            assert_int_equal(flow.hard_timeout, cases[i].want_hard);
        }
        affinity_end(&a, 0, true);
        affinity_uninit(&a);
    }
}

static void
a_group_is_looked_at_when_its_first_flow_may_be_due(void **state)
{
    const uint32_t due_s = DAY_S - PIPE_AFFINITY_MAX_S;
    struct affinity a;
    uint32_t group_id;
    bool all;

    (void) state;
    affinity_init(&a);
    affinity_set_long(&a, true);
    affinity_connected(&a, 0);
    begin_all(&a, 0);
    judge(&a, 7, due_s - 100, DAY_S, 0);
    judge(&a, 7, due_s - 40, DAY_S, 0);
    judge(&a, 8, due_s - 50, DAY_S, 0);
    affinity_end(&a, 0, true);

    assert_int_equal(affinity_next_ms(&a), 40000);
    assert_false(affinity_begin(&a, 39999, &all, &group_id));
    assert_true(affinity_begin(&a, 40000, &all, &group_id));
    assert_false(all);
    assert_int_equal(group_id, 7);
    assert_int_equal(judge(&a, 7, due_s - 60, DAY_S, 40000), AFFINITY_KEEP);
    assert_int_equal(judge(&a, 7, due_s, DAY_S, 40000), AFFINITY_PUT);
    affinity_end(&a, 40000, true);

    assert_int_equal(affinity_next_ms(&a), 50000);
    assert_true(affinity_begin(&a, 50000, &all, &group_id));
    assert_int_equal(group_id, 8);
    assert_int_equal(judge(&a, 8, due_s, DAY_S, 50000), AFFINITY_PUT);
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
    judge(&a, 7, 20800, DAY_S, 0);
    affinity_end(&a, 0, true);
    assert_true(affinity_begin(&a, 65000, &all, &group_id));
    affinity_end(&a, 65001, false);
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

#define N_CLIENTS 100
#define N_GROUPS  6

struct memory {
    bool there;
    uint32_t group_id;
    long long int used_ms; /* -1: never. */
    long long int put_ms, modified_ms;
    uint16_t idle_timeout, hard_timeout;
};

static const uint32_t timeouts[N_GROUPS] = { 10,    65535, FOREVER_S,
                                             DAY_S, 70000, 69136 };

static uint32_t
switch_age_s(long long int since_ms, long long int now_ms)
{
    return (now_ms - since_ms) / 1000;
}

/* The switch's own expiry (rule_expire() of Open vSwitch). */
static void
expire(struct memory *m, long long int now_ms)
{
    if ((m->hard_timeout && now_ms > m->modified_ms + m->hard_timeout * 1000LL)
        || (m->idle_timeout
            && now_ms > m->used_ms + m->idle_timeout * 1000LL)) {
        m->there = false;
    }
}

/* A new connection: what is there keeps its timeouts, but the hard one begins
 * again. */
static void
learn(struct memory *m, long long int now_ms)
{
    uint32_t timeout_s = timeouts[m->group_id];

    if (!m->there) {
        bool is_long = timeout_s > PIPE_AFFINITY_MAX_S;

        m->there = true;
        m->put_ms = now_ms;
        m->idle_timeout = is_long ? 0 : timeout_s;
        m->hard_timeout = is_long ? pipe_affinity_hard_s(timeout_s) : 0;
    }
    m->used_ms = m->modified_ms = now_ms;
}

static void
review_one(struct affinity *a, struct memory *m, long long int now_ms)
{
    uint32_t idle_s = switch_age_s(m->used_ms, now_ms);
    struct affinity_flow flow = {
        .group_id = m->group_id,
        .timeout_s = timeouts[m->group_id],
        .idle_s = idle_s < UINT16_MAX ? idle_s : UINT16_MAX,
        .age_s = switch_age_s(m->put_ms, now_ms),
        .idle_timeout = m->idle_timeout,
        .hard_timeout = m->hard_timeout,
    };

    switch (affinity_judge(a, &flow, now_ms)) {
    case AFFINITY_KEEP: break;
    case AFFINITY_FORGET: m->there = false; break;
    case AFFINITY_PUT:
        m->put_ms = m->modified_ms = now_ms;
        m->idle_timeout = flow.idle_timeout;
        m->hard_timeout = flow.hard_timeout;
        break;
    }
}

static void
review(struct affinity *a, struct memory *memories, long long int now_ms)
{
    uint32_t group_id;
    bool all;

    if (!affinity_begin(a, now_ms, &all, &group_id)) {
        return;
    }

    bool complete = rand() % 20;
    for (int i = 0; i < N_CLIENTS; i++) {
        struct memory *m = &memories[i];

        if (m->there && (all || m->group_id == group_id)
            && (complete || rand() % 2)) {
            review_one(a, m, now_ms);
        }
    }
    affinity_end(a, now_ms, complete);
}

static void
check(const struct memory *m, long long int now_ms)
{
    long long int end_ms = m->used_ms + timeouts[m->group_id] * 1000LL;

    if (m->used_ms >= 0) {
        assert_true(m->there || now_ms >= end_ms - 2000);
        assert_true(!m->there || now_ms <= end_ms + 7000);
    }
}

/* How often a client comes: now and then, or only after days. */
static bool
comes(const struct memory *m, int i)
{
    return rand() % (m->used_ms < 0 ? 1000 : i % 2 ? 100000 : 20000) == 0;
}

static void
clients_are_forgotten_exactly_in_time(void **state)
{
    struct memory memories[N_CLIENTS] = { 0 };
    unsigned int seed = envnum("SEED", 1);
    struct affinity a;

    (void) state;
    print_message("SEED=%u\n", seed);
    srand(seed);
    for (int i = 0; i < N_CLIENTS; i++) {
        memories[i].group_id = i % N_GROUPS;
        memories[i].used_ms = -1;
    }
    affinity_init(&a);
    affinity_set_long(&a, true);
    affinity_connected(&a, 0);
    for (long long int s = 0; s < 4 * DAY_S; s++) {
        long long int now_ms = s * 1000 + rand() % 1000;

        if (rand() % 200000 == 0) { /* The daemon starts anew. */
            affinity_uninit(&a);
            affinity_init(&a);
            affinity_set_long(&a, true);
            affinity_connected(&a, now_ms);
        }
        for (int i = 0; i < N_CLIENTS; i++) {
            if (comes(&memories[i], i)) {
                learn(&memories[i], now_ms);
            }
            expire(&memories[i], now_ms);
        }
        review(&a, memories, now_ms);
        for (int i = 0; i < N_CLIENTS; i++) {
            check(&memories[i], now_ms);
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
