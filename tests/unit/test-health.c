/* SPDX-License-Identifier: Apache-2.0 */
/* When the node is healthy, and what is said of it. */

#include "ofproxyd/base/health.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <util.h>

#include "../../src/agent/health.h"
#include "../../src/serve/body.h"

#define LIMIT HEALTH_LIMIT_MS
#define WALL  INT64_C(1764460800000000) /* 2025-11-30T00:00:00Z */

static bool
is_ok(const struct health *h, long long int now_ms)
{
    struct health_state state;

    health_get_state(h, now_ms, WALL, &state);
    return health_state_is_ok(&state);
}

static void
only_a_change_that_waits_for_long_is_an_illness(void **state OVS_UNUSED)
{
    struct health h = { 0 };

    /* At start, and for ever if nothing is queued. */
    assert_true(is_ok(&h, 1));
    assert_true(is_ok(&h, 1000 * LIMIT));

    health_queued(&h, IP_V4, 1000);
    health_queued(&h, IP_V4, 1000 + LIMIT - 1); /* The oldest counts. */
    assert_true(is_ok(&h, 1000 + LIMIT - 1));
    assert_false(is_ok(&h, 1000 + LIMIT));
    assert_false(health_is_ok(&h, IP_V4, 1000 + LIMIT));
    assert_true(health_is_ok(&h, IP_V6, 1000 + LIMIT));

    health_updated(&h, IP_V6, 1000 + LIMIT);
    assert_false(is_ok(&h, 1000 + LIMIT));
    health_updated(&h, IP_V4, 1000 + LIMIT);
    assert_true(is_ok(&h, 1000 * LIMIT));
}

/* Follows the same facts for 'ms', a turn each second. */
static long long int
follow(struct health *h, const struct health_facts *facts,
       long long int now_ms, long long int ms)
{
    long long int end_ms = now_ms + ms;

    for (; now_ms < end_ms; now_ms += 1000) {
        health_follow(h, facts, now_ms);
    }
    return end_ms;
}

static void
p11_what_cannot_be_written_is_an_illness(void **state OVS_UNUSED)
{
    const struct health_facts idle = { .listed = true };
    const struct health_facts stuck = { .listed = true, .waits = true };
    struct health h = { 0 };
    long long int now_ms = follow(&h, &idle, 1000, 100 * LIMIT);

    assert_true(is_ok(&h, now_ms));
    now_ms = follow(&h, &stuck, now_ms, LIMIT);
    assert_false(is_ok(&h, now_ms));
    now_ms = follow(&h, &idle, now_ms, 1000);
    assert_true(is_ok(&h, now_ms));
}

static void
before_the_first_list_nothing_waits(void **state OVS_UNUSED)
{
    const struct health_facts unlisted = { .waits = true };
    struct health h = { 0 };
    long long int now_ms = follow(&h, &unlisted, 1000, 10 * LIMIT);

    assert_true(is_ok(&h, now_ms));
}

static void
changes_without_end_are_no_illness_while_they_are_done(void **state OVS_UNUSED)
{
    const struct health_facts busy = {
        .listed = true,
        .waits = true,
        .succeeded = true,
    };
    struct health h = { 0 };
    long long int now_ms = follow(&h, &busy, 1000, 10 * LIMIT);

    assert_true(is_ok(&h, now_ms));
}

static void
what_is_refused_is_an_illness_if_there_is_much_and_nothing_else(
    void **state OVS_UNUSED)
{
    const struct health_facts one = { .listed = true, .n_refused = { 1, 1 } };
    const struct health_facts two = { .listed = true, .n_refused = { 2, 0 } };
    const struct health_facts some = {
        .listed = true,
        .succeeded = true,
        .n_refused = { 2, 2 },
    };
    struct health h = { 0 };
    long long int now_ms = follow(&h, &one, 1000, 10 * LIMIT);

    assert_true(is_ok(&h, now_ms));
    now_ms = follow(&h, &some, now_ms, 10 * LIMIT);
    assert_true(is_ok(&h, now_ms));
    now_ms = follow(&h, &two, now_ms, LIMIT + 1000);
    assert_false(health_is_ok(&h, IP_V4, now_ms));
    assert_true(health_is_ok(&h, IP_V6, now_ms));
}

/* Texts. */

static void
assert_body(unsigned int (*format)(const struct health_state *, struct ds *),
            const struct health_state *health, unsigned int status,
            const char *text)
{
    struct ds ds = DS_EMPTY_INITIALIZER;

    assert_int_equal(format(health, &ds), status);
    assert_string_equal(ds_cstr(&ds), text);
    ds_destroy(&ds);
}

static void
healthy_is_updated_now(void **state OVS_UNUSED)
{
    struct health h = { 0 };
    struct health_state health;

    health_updated(&h, IP_V4, 1000);
    health_updated(&h, IP_V6, 2000);
    health_get_state(&h, 2500, WALL + 120000, &health);
    health.node_eligible = true;
    assert_body(body_healthz, &health, 200,
                "{\"lastUpdated\":\"2025-11-30T00:00:00.12Z\","
                "\"currentTime\":\"2025-11-30T00:00:00.12Z\","
                "\"nodeEligible\":true,\"healthy\":true,\"status\":{"
                "\"IPv4\":{\"lastUpdated\":\"2025-11-30T00:00:00.12Z\","
                "\"healthy\":true},"
                "\"IPv6\":{\"lastUpdated\":\"2025-11-30T00:00:00.12Z\","
                "\"healthy\":true}}}");
    health.node_eligible = false;
    assert_body(body_livez, &health, 200,
                "{\"lastUpdated\":\"2025-11-30T00:00:00.12Z\","
                "\"currentTime\":\"2025-11-30T00:00:00.12Z\","
                "\"healthy\":true,\"status\":{"
                "\"IPv4\":{\"lastUpdated\":\"2025-11-30T00:00:00.12Z\","
                "\"healthy\":true},"
                "\"IPv6\":{\"lastUpdated\":\"2025-11-30T00:00:00.12Z\","
                "\"healthy\":true}}}");
}

static void
ill_is_updated_when_it_was(void **state OVS_UNUSED)
{
    struct health h = { 0 };
    struct health_state health;

    health_updated(&h, IP_V4, 1000);
    health_queued(&h, IP_V4, 2000);
    health_get_state(&h, 1000 + 2 * LIMIT, WALL, &health);
    health.node_eligible = true;
    assert_body(body_healthz, &health, 503,
                "{\"lastUpdated\":\"2025-11-29T23:58:00Z\","
                "\"currentTime\":\"2025-11-30T00:00:00Z\","
                "\"nodeEligible\":true,\"healthy\":false,\"status\":{"
                "\"IPv4\":{\"lastUpdated\":\"2025-11-29T23:58:00Z\","
                "\"healthy\":false}}}");
}

static void
before_the_first_update_there_is_no_status(void **state OVS_UNUSED)
{
    struct health h = { 0 };
    struct health_state health;

    health_get_state(&h, 1000, WALL, &health);
    assert_body(body_livez, &health, 200,
                "{\"lastUpdated\":\"2025-11-30T00:00:00Z\","
                "\"currentTime\":\"2025-11-30T00:00:00Z\","
                "\"healthy\":true,\"status\":{}}");
}

static void
ready_is_who_has_applied_all_once(void **state OVS_UNUSED)
{
    struct ds ds = DS_EMPTY_INITIALIZER;
    struct health h = { 0 };
    struct health_state health;

    health_get_state(&h, 1000, WALL, &health);
    assert_int_equal(body_readyz(&health, &ds), 503);
    health_updated(&h, IP_V4, 1000);
    health_get_state(&h, 1000, WALL, &health);
    assert_int_equal(body_readyz(&health, &ds), 503);
    health_updated(&h, IP_V6, 1000);
    health_get_state(&h, 1000, WALL, &health);
    assert_int_equal(body_readyz(&health, &ds), 200); /* Without the Node. */
    health_queued(&h, IP_V4, 2000);
    health_get_state(&h, 2000 + LIMIT, WALL, &health);
    assert_int_equal(body_readyz(&health, &ds), 503);
    ds_destroy(&ds);
}

static void
check_says_what_kube_proxy_says(void **state OVS_UNUSED)
{
    struct health_check c = { .ns = "ns1", .name = "a\"\\b", .n_local = 2 };
    struct ds ds = DS_EMPTY_INITIALIZER;

    assert_int_equal(body_check(&c, true, &ds), 200);
    assert_string_equal(ds_cstr(&ds), "{\n"
                                      "\t\"service\": {\n"
                                      "\t\t\"namespace\": \"ns1\",\n"
                                      "\t\t\"name\": \"a\\\"\\\\b\"\n"
                                      "\t},\n"
                                      "\t\"localEndpoints\": 2,\n"
                                      "\t\"serviceProxyHealthy\": true\n"
                                      "}");
    ds_clear(&ds);
    assert_int_equal(body_check(&c, false, &ds), 503);
    assert_non_null(strstr(ds_cstr(&ds), "\"serviceProxyHealthy\": false\n}"));
    c.n_local = 0;
    assert_int_equal(body_check(&c, true, &ds), 503);
    ds_destroy(&ds);
}

static void
dates_are_as_http_has_them(void **state OVS_UNUSED)
{
    struct ds ds = DS_EMPTY_INITIALIZER;

    body_put_date(WALL, &ds);
    assert_string_equal(ds_cstr(&ds), "Sun, 30 Nov 2025 00:00:00 GMT");
    ds_clear(&ds);
    body_put_time(0, &ds);
    assert_string_equal(ds_cstr(&ds), "0001-01-01T00:00:00Z");
    ds_destroy(&ds);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_a_change_that_waits_for_long_is_an_illness),
        cmocka_unit_test(p11_what_cannot_be_written_is_an_illness),
        cmocka_unit_test(before_the_first_list_nothing_waits),
        cmocka_unit_test(
            changes_without_end_are_no_illness_while_they_are_done),
        cmocka_unit_test(
            what_is_refused_is_an_illness_if_there_is_much_and_nothing_else),
        cmocka_unit_test(healthy_is_updated_now),
        cmocka_unit_test(ill_is_updated_when_it_was),
        cmocka_unit_test(before_the_first_update_there_is_no_status),
        cmocka_unit_test(ready_is_who_has_applied_all_once),
        cmocka_unit_test(check_says_what_kube_proxy_says),
        cmocka_unit_test(dates_are_as_http_has_them),
    };

    return cmocka_run_group_tests_name("health", tests, NULL, NULL);
}
