/* SPDX-License-Identifier: Apache-2.0 */
/* kube-proxy's latencies, and the times that they are made of. */

#include "../../src/agent/metrics.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <util.h>

#include "ofproxyd/kube/decode.h"

#define S       INT64_C(1000000000) /* In ns. */
#define START_S INT64_C(1764460800) /* 2025-11-30T00:00:00Z */

/* A slice of JSON with that annotation into 'm'. */
static void
put_slice(struct model *m, const char *trigger, int port)
{
    char *json = xasprintf(
        "{\"metadata\":{\"name\":\"a\",\"namespace\":\"ns1\",\"labels\":{"
        "\"kubernetes.io/service-name\":\"svc-a\"},\"annotations\":{"
        "\"endpoints.kubernetes.io/last-change-trigger-time\":%s}},"
        "\"addressType\":\"IPv4\",\"endpoints\":[],"
        "\"ports\":[{\"port\":%d}]}",
        trigger, port);
    struct kube_object object = { .kind = MODEL_SLICES };
    struct err err;

    assert_int_equal(kube_decode(json, strlen(json), model_pool(m), &object,
                                 &err),
                     0);
    model_put_slice(m, object.slice);
    free(json);
}

static void
assert_triggers(struct model *m, const int64_t *want, size_t n_want)
{
    size_t n;
    struct model_trigger *triggers = model_take_triggers(m, &n);

    assert_int_equal(n, n_want);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(triggers[i].ns, want[i]);
        assert_int_equal(triggers[i].family, IP_V4);
    }
    free(triggers);
}

static void
triggers_are_those_of_slices_that_changed_something(void **state OVS_UNUSED)
{
    static const int64_t want[] = {
        START_S * S,
        START_S * S + 123456789,
        START_S * S + 500000000,
    };
    static const char *const bad[] = {
        "\"\"",
        "null",
        "\"yesterday\"",
        "\"2025-11-30\"",
        "\"9999-01-01T00:00:00Z\"",
        "\"1960-01-01T00:00:00Z\"",
    };
    struct model *m = model_create("n1");
    int port = 1;

    put_slice(m, "\"2025-11-30T00:00:00Z\"", port++);
    put_slice(m, "\"2025-11-30T01:00:00.123456789999+01:00\"", port++);
    put_slice(m, "\"2025-11-30T00:00:00.5Z\"", port);
    put_slice(m, "\"2025-11-30T00:00:09Z\"", port++); /* Changes nothing. */
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        put_slice(m, bad[i], port++);
    }
    assert_true(model_delete(m, MODEL_SLICES, "ns1", "a"));
    assert_triggers(m, want, ARRAY_SIZE(want));
    assert_triggers(m, NULL, 0);
    put_slice(m, "\"2025-11-30T00:00:00Z\"", port++); /* Left to destroy. */
    model_destroy(m);
}

static struct model_trigger *
triggers(size_t n, const int64_t *ns)
{
    struct model_trigger *t = xcalloc(n, sizeof *t);

    for (size_t i = 0; i < n; i++) {
        t[i] = (struct model_trigger){ IP_V6, ns[i] };
    }
    return t;
}

static void
p8_old_triggers_are_no_latency(void **state OVS_UNUSED)
{
    const int64_t old[] = { (START_S - 3 * 86400) * S, START_S * S };
    const int64_t new[] = { (START_S + 10) * S, (START_S + 11) * S, 1 };
    const uint64_t n_events[N_MODEL_KINDS] = { 5, 6, 7 };
    struct metrics m;

    metrics_init(&m, START_S * S);
    metrics_taken(&m, n_events, triggers(2, old), 2);
    metrics_confirmed(&m, 1, (START_S + 1) * 1000000);
    assert_int_equal(m.programming[IP_V6].n, 0);

    /* Once, when the switch has it, and not before. */
    metrics_taken(&m, n_events, triggers(3, new), 3);
    metrics_taken(&m, n_events, NULL, 0);
    assert_int_equal(m.programming[IP_V6].n, 0);
    metrics_confirmed(&m, 2, (START_S + 12) * 1000000 + 250000);
    metrics_confirmed(&m, 3, (START_S + 99) * 1000000);
    assert_int_equal(m.programming[IP_V6].n, 2);
    assert_int_equal(m.programming[IP_V4].n, 0);
    assert_true(m.programming[IP_V6].sum == 2.25 + 1.25);
    metrics_taken(&m, n_events, triggers(3, new), 3);
    metrics_uninit(&m);
}

static void
sync_lasts_from_the_first_change_to_its_confirmation(void **state OVS_UNUSED)
{
    const uint64_t n_events[N_MODEL_KINDS] = { 5, 6, 7 };
    const uint64_t later[N_MODEL_KINDS] = { 8, 9, 10 };
    struct metrics m;

    metrics_init(&m, START_S * S);
    metrics_confirmed(&m, 1, 1); /* Nothing was read. */
    assert_int_equal(m.sync.n, 0);

    metrics_read(&m, 1000000, START_S * 1000000);
    metrics_read(&m, 1200000, START_S * 1000000 + 200000);
    metrics_taken(&m, n_events, NULL, 0);
    metrics_read(&m, 1300000, START_S * 1000000 + 300000);
    metrics_confirmed(&m, 1500000, START_S * 1000000 + 500000);
    assert_int_equal(m.sync.n, 1);
    assert_true(m.sync.sum == 0.5);
    assert_int_equal(m.sync_full.n, 1);
    assert_int_equal(m.confirmed[MODEL_SLICES], 6);

    metrics_taken(&m, later, NULL, 0);
    metrics_confirmed(&m, 1550000, START_S * 1000000 + 550000);
    assert_true(m.sync.sum == 0.75);
    assert_int_equal(m.sync_full.n, 1);
    assert_int_equal(m.sync_partial.n, 1);
    assert_int_equal(m.confirmed[MODEL_SLICES], 9);
    metrics_uninit(&m);
}

static void
names_are_unique(void **state OVS_UNUSED)
{
    for (int i = 0; i < N_METRICS; i++) {
        for (int j = 0; j < i; j++) {
            assert_string_not_equal(metrics_name(i), metrics_name(j));
        }
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(triggers_are_those_of_slices_that_changed_something),
        cmocka_unit_test(p8_old_triggers_are_no_latency),
        cmocka_unit_test(sync_lasts_from_the_first_change_to_its_confirmation),
        cmocka_unit_test(names_are_unique),
    };

    return cmocka_run_group_tests_name("metrics", tests, NULL, NULL);
}
