/* SPDX-License-Identifier: Apache-2.0 */
/* What the API client asks for next, and when. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <util.h>

#include "ofproxyd/kube/reflector.h"

#define NODES    "/api/v1/nodes"
#define WATCHING "?watch=1&allowWatchBookmarks=true&resourceVersion="
#define FIRST    NODES "?limit=500&resourceVersion=0"
#define NEWEST   NODES "?limit=500"
#define WHOLE    NODES
#define PAGE(C)  NODES "?limit=500&continue=" C
#define WATCH(V) NODES WATCHING V "&timeoutSeconds=300"

/* Error bodies. */
static const struct kube_status no_words;
static const struct kube_status expired = { .code = 410, .reason = "Expired" };
static const struct kube_status gone = { .reason = "Gone" };
static const struct kube_status internal = { .code = 500 };
static const struct kube_status later = { .code = 429, .retry_after_s = 4 };
static const struct kube_status future = { .code = 504,
                                           .retry_after_s = 1,
                                           .rv_too_large = true };

/* One request's end and what is to follow. The random number is 0, so that
 * waits are the shortest possible. */
struct step {
    long long int at_ms;
    struct reflector_end end;
    enum kube_cause cause;
    int wait_ms;
    const char *target; /* Of the next request. */
    const char *seen;   /* Version of an event before the end. */
};

#define LISTED(V)                                \
    {                                            \
        200, false, false, NULL, 0, 50, 0, V, "" \
    }
#define PAGED(V, C)                             \
    {                                           \
        200, false, false, NULL, 0, 50, 0, V, C \
    }
#define ENDED(LIVED, N)                      \
    {                                        \
        200, false, false, NULL, 0, LIVED, N \
    }
#define BROKEN(STATUS, LIVED)                  \
    {                                          \
        STATUS, true, false, NULL, 0, LIVED, 0 \
    }
#define GARBLED(LIVED)                      \
    {                                       \
        200, false, true, NULL, 0, LIVED, 0 \
    }
#define REFUSED(STATUS)                           \
    {                                             \
        STATUS, false, false, &no_words, 0, 50, 0 \
    }
#define ERROR(STATUS, BODY)                     \
    {                                           \
        STATUS, false, false, &BODY, 0, 2000, 0 \
    }

#define STEPS_MAX 8

static const struct {
    const char *name;
    struct step steps[STEPS_MAX];
} cases[] = {
    { "pages, then a watch from the list's version, then from the last event",
      {
          { 0, PAGED("7", "to/ken="), KUBE_CAUSE_PAGE, 0, PAGE("to%2Fken%3D"),
            NULL },
          { 1, PAGED("7", "more"), KUBE_CAUSE_PAGE, 0, PAGE("more"), NULL },
          { 2, LISTED("8"), KUBE_CAUSE_LISTED, 0, WATCH("8"), NULL },
          { 3, ENDED(400000, 5), KUBE_CAUSE_ENDED, 0, WATCH("12"), "12" },
          { 4, ENDED(400000, 0), KUBE_CAUSE_ENDED, 0, WATCH("12"), "" },
      } },
    { "a page that is gone makes the list start again in one piece",
      {
          { 0, PAGED("7", "a"), KUBE_CAUSE_PAGE, 0, PAGE("a"), NULL },
          { 1, ERROR(410, expired), KUBE_CAUSE_EXPIRED, 0, WHOLE, NULL },
          { 2, BROKEN(0, 1), KUBE_CAUSE_BROKEN, 800, WHOLE, NULL },
          { 900, LISTED("9"), KUBE_CAUSE_LISTED, 0, WATCH("9"), NULL },
          { 999, ERROR(200, expired), KUBE_CAUSE_EXPIRED, 1600, NEWEST, NULL },
      } },
    { "a version that is gone makes a newest list, at once only when calm",
      {
          { 0, LISTED("7"), KUBE_CAUSE_LISTED, 0, WATCH("7"), NULL },
          { 1, ERROR(410, expired), KUBE_CAUSE_EXPIRED, 0, NEWEST, NULL },
          { 2, LISTED("9"), KUBE_CAUSE_LISTED, 0, WATCH("9"), NULL },
          { 3, ERROR(200, gone), KUBE_CAUSE_EXPIRED, 800, NEWEST, NULL },
          { 900, LISTED("11"), KUBE_CAUSE_LISTED, 0, WATCH("11"), NULL },
          { 10001, ERROR(200, expired), KUBE_CAUSE_EXPIRED, 0, NEWEST, NULL },
      } },
    { "401 is retried at once, then with longer and longer waits",
      {
          { 0, REFUSED(401), KUBE_CAUSE_UNAUTHORIZED, 0, FIRST, NULL },
          { 1, REFUSED(401), KUBE_CAUSE_UNAUTHORIZED, 800, FIRST, NULL },
          { 999, REFUSED(401), KUBE_CAUSE_UNAUTHORIZED, 1600, FIRST, NULL },
          { 90000, REFUSED(401), KUBE_CAUSE_UNAUTHORIZED, 3200, FIRST, NULL },
          { 99000, LISTED("7"), KUBE_CAUSE_LISTED, 0, WATCH("7"), NULL },
          { 99001, REFUSED(401), KUBE_CAUSE_UNAUTHORIZED, 0, WATCH("7"),
            NULL },
      } },
    { "what only an operator can mend is retried slowly",
      {
          { 0, REFUSED(403), KUBE_CAUSE_FORBIDDEN, 30000, FIRST, NULL },
          { 30000, REFUSED(404), KUBE_CAUSE_FORBIDDEN, 30000, FIRST, NULL },
          { 60000, REFUSED(405), KUBE_CAUSE_FORBIDDEN, 30000, FIRST, NULL },
          { 90000, LISTED("7"), KUBE_CAUSE_LISTED, 0, WATCH("7"), NULL },
          { 90001, REFUSED(403), KUBE_CAUSE_FORBIDDEN, 30000, WATCH("7"),
            NULL },
      } },
    { "the server's wish to wait is honoured, within reason",
      {
          { 0,
            { 429, false, false, &no_words, 7, 9, 0 },
            KUBE_CAUSE_BUSY,
            7000,
            FIRST,
            NULL },
          { 1, ERROR(429, later), KUBE_CAUSE_BUSY, 4000, FIRST, NULL },
          { 2, REFUSED(429), KUBE_CAUSE_BUSY, 800, FIRST, NULL },
          { 3,
            { 503, false, false, &no_words, 99999, 9, 0 },
            KUBE_CAUSE_SERVER,
            300000,
            FIRST,
            NULL },
          { 4, REFUSED(500), KUBE_CAUSE_SERVER, 1600, FIRST, NULL },
      } },
    { "a server that lags behind is given a moment, then listed anew",
      {
          { 0, LISTED("70"), KUBE_CAUSE_LISTED, 0, WATCH("70"), NULL },
          { 1, ERROR(504, future), KUBE_CAUSE_FUTURE, 1000, WATCH("70"),
            NULL },
          { 1001, ERROR(504, future), KUBE_CAUSE_FUTURE, 1000, NEWEST, NULL },
          { 2001, LISTED("60"), KUBE_CAUSE_LISTED, 0, WATCH("60"), NULL },
      } },
    { "a continue token that isn't understood starts the list again",
      {
          { 0, PAGED("7", "a"), KUBE_CAUSE_PAGE, 0, PAGE("a"), NULL },
          { 1, REFUSED(400), KUBE_CAUSE_REJECTED, 0,
            WHOLE "?resourceVersion=0", NULL },
          { 2, REFUSED(400), KUBE_CAUSE_REJECTED, 800,
            WHOLE "?resourceVersion=0", NULL },
      } },
    { "a watch that ends at once without an event is a failure",
      {
          { 0, LISTED("7"), KUBE_CAUSE_LISTED, 0, WATCH("7"), NULL },
          { 1, ENDED(999, 0), KUBE_CAUSE_SHORT, 800, WATCH("7"), NULL },
          { 2, ENDED(999, 0), KUBE_CAUSE_SHORT, 1600, WATCH("7"), NULL },
          { 3, ENDED(999, 0), KUBE_CAUSE_SHORT, 3200, NEWEST, NULL },
          { 4, LISTED("7"), KUBE_CAUSE_LISTED, 0, WATCH("7"), NULL },
          { 5, ENDED(999, 1), KUBE_CAUSE_ENDED, 0, WATCH("8"), "8" },
          { 6, ENDED(1000, 0), KUBE_CAUSE_ENDED, 0, WATCH("8"), NULL },
      } },
    { "a list that is garbled starts again",
      {
          { 0, PAGED("7", "a"), KUBE_CAUSE_PAGE, 0, PAGE("a"), NULL },
          { 1, GARBLED(5), KUBE_CAUSE_GARBLED, 800, FIRST, NULL },
      } },
    { "a page that broke off is read again",
      {
          { 0, PAGED("7", "a"), KUBE_CAUSE_PAGE, 0, PAGE("a"), NULL },
          { 1, BROKEN(200, 5), KUBE_CAUSE_BROKEN, 800, PAGE("a"), NULL },
          { 2, REFUSED(500), KUBE_CAUSE_SERVER, 1600, PAGE("a"), NULL },
          { 3, LISTED("7"), KUBE_CAUSE_LISTED, 0, WATCH("7"), NULL },
      } },
    { "a list that would never end is garbled",
      {
          { 0, PAGED("7", "a"), KUBE_CAUSE_PAGE, 0, PAGE("a"), NULL },
          { 1, PAGED("7", "a"), KUBE_CAUSE_GARBLED, 800, FIRST, NULL },
      } },
    { "a version that is too long to be kept is garbled",
      { { 0,
          LISTED("1234567890123456789012345678901234567890"
                 "123456789012345678901234"),
          KUBE_CAUSE_GARBLED, 800, FIRST, NULL } } },
    { "a watch is asked for again from where it broke, the longer it ran the "
      "sooner",
      {
          { 0, LISTED("7"), KUBE_CAUSE_LISTED, 0, WATCH("7"), NULL },
          { 1, BROKEN(0, 1), KUBE_CAUSE_BROKEN, 800, WATCH("7"), NULL },
          { 2, BROKEN(0, 1), KUBE_CAUSE_BROKEN, 1600, WATCH("7"), NULL },
          { 3, BROKEN(200, 9999), KUBE_CAUSE_BROKEN, 3200, WATCH("9"), "9" },
          { 4, BROKEN(200, 10000), KUBE_CAUSE_BROKEN, 800, WATCH("9"), NULL },
          { 5, BROKEN(0, 20000), KUBE_CAUSE_BROKEN, 1600, WATCH("9"), NULL },
      } },
    { "an error that isn't about the version keeps it, but not for ever",
      {
          { 0, LISTED("7"), KUBE_CAUSE_LISTED, 0, WATCH("7"), NULL },
          { 1, ERROR(200, internal), KUBE_CAUSE_SERVER, 800, WATCH("7"),
            NULL },
          { 2, GARBLED(2000), KUBE_CAUSE_GARBLED, 1600, WATCH("7"), NULL },
          { 3, ERROR(200, internal), KUBE_CAUSE_SERVER, 3200, NEWEST, NULL },
      } },
    { "redirections and other surprises are errors of the server",
      {
          { 0, REFUSED(302), KUBE_CAUSE_SERVER, 800, FIRST, NULL },
          { 1, REFUSED(204), KUBE_CAUSE_SERVER, 1600, FIRST, NULL },
          { 2, REFUSED(418), KUBE_CAUSE_SERVER, 3200, FIRST, NULL },
          { 3, BROKEN(503, 1), KUBE_CAUSE_SERVER, 6400, FIRST, NULL },
      } },
};

static struct reflector_cfg
config(enum model_kind kind)
{
    return (struct reflector_cfg){
        .kind = kind,
        .page_limit = 500,
        .watch_timeout_s = 300,
        .backoff_min_ms = 800,
        .backoff_max_ms = 30000,
    };
}

static void
assert_target(const struct reflector *r, const char *expected)
{
    struct ds target = DS_EMPTY_INITIALIZER;

    reflector_request(r, 0, &target);
    assert_string_equal(ds_cstr(&target), expected);
    ds_destroy(&target);
}

static void
run_step(struct reflector *r, const struct step *step)
{
    if (step->seen) {
        reflector_seen(r, step->seen);
    }

    struct reflector_verdict v = reflector_end(r, &step->end, step->at_ms, 0);
    assert_string_equal(kube_cause_meaning(v.cause),
                        kube_cause_meaning(step->cause));
    assert_int_equal(v.wait_ms, step->wait_ms);
    assert_int_equal(r->state == KUBE_BACKOFF, v.wait_ms > 0);
    if (v.wait_ms) {
        reflector_tick(r, step->at_ms + v.wait_ms - 1);
        assert_int_equal(r->state, KUBE_BACKOFF);
        reflector_tick(r, step->at_ms + v.wait_ms);
    }
    assert_target(r, step->target);
}

static void
each_end_of_a_request_leads_to_the_right_next_one(void **state OVS_UNUSED)
{
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct reflector_cfg cfg = config(MODEL_NODES);
        struct reflector r;

        print_message("%s\n", cases[i].name);
        reflector_init(&r, &cfg);
        assert_target(&r, FIRST);
        for (const struct step *step = cases[i].steps;
             step < &cases[i].steps[STEPS_MAX] && step->target; step++) {
            run_step(&r, step);
        }
        reflector_uninit(&r);
    }
}

static void
selectors_are_encoded_and_only_where_they_belong(void **state OVS_UNUSED)
{
#define SERVICES                                                 \
    "/api/v1/services?labelSelector=%21service.kubernetes.io%2F" \
    "headless%2C"
#define SELECTED SERVICES "%21service.kubernetes.io%2F"
    static const struct {
        enum model_kind kind;
        const char *proxy_name;
        const char *target;
    } targets[] = {
        { MODEL_SERVICES, NULL,
          SELECTED "service-proxy-name&fieldSelector=spec.clusterIP%21%3DNone"
                   "&limit=500&resourceVersion=0" },
        { MODEL_SERVICES, "my-proxy",
          SERVICES "service.kubernetes.io%2Fservice-proxy-name%3Dmy-proxy"
                   "&fieldSelector=spec.clusterIP%21%3DNone"
                   "&limit=500&resourceVersion=0" },
        { MODEL_SLICES, "my-proxy",
          "/apis/discovery.k8s.io/v1/endpointslices"
          "?labelSelector=%21service.kubernetes.io%2Fheadless"
          "&limit=500&resourceVersion=0" },
        { MODEL_NODES, "my-proxy", FIRST },
    };

    for (size_t i = 0; i < ARRAY_SIZE(targets); i++) {
        struct reflector_cfg cfg = config(targets[i].kind);
        struct reflector r;

        cfg.proxy_name = targets[i].proxy_name;
        reflector_init(&r, &cfg);
        assert_target(&r, targets[i].target);
        reflector_uninit(&r);
    }
}

static void
kind_that_the_server_need_not_have_is_asked_for_rarely(void **state OVS_UNUSED)
{
    const struct reflector_end absent = REFUSED(404), listed = LISTED("7");
    struct reflector_cfg cfg = config(MODEL_SERVICE_CIDRS);
    struct reflector_verdict v;
    struct reflector r;

    reflector_init(&r, &cfg);
    v = reflector_end(&r, &absent, 0, 0);
    assert_int_equal(v.cause, KUBE_CAUSE_ABSENT);
    assert_true(v.wait_ms >= 10 * cfg.backoff_max_ms);
    reflector_tick(&r, v.wait_ms);
    assert_int_equal(reflector_end(&r, &listed, 1, 0).cause,
                     KUBE_CAUSE_LISTED);

    /* A watch that isn't there any more starts with a list. */
    assert_int_equal(r.state, KUBE_WATCH);
    v = reflector_end(&r, &absent, 2, 0);
    assert_int_equal(v.cause, KUBE_CAUSE_ABSENT);
    reflector_tick(&r, 2 + v.wait_ms);
    assert_int_equal(r.state, KUBE_LIST);
    reflector_uninit(&r);
}

/* Kinds that somebody who has switched us on to use them is about to install:
 * docs/multicluster.md says when they are found. */
static void
kinds_of_multicluster_are_asked_for_every_30_to_60_seconds(
    void **state OVS_UNUSED)
{
    static const enum model_kind kinds[] = { MODEL_MC_GATEWAYS,
                                             MODEL_MC_CLUSTERS };
    const struct reflector_end absent = REFUSED(404);

    for (size_t i = 0; i < 2 * ARRAY_SIZE(kinds); i++) {
        struct reflector_cfg cfg = config(kinds[i / 2]);
        struct reflector_verdict v;
        struct reflector r;

        cfg.ns = "mc";
        reflector_init(&r, &cfg);
        v = reflector_end(&r, &absent, 0, i % 2 ? UINT32_MAX : 0);
        assert_int_equal(v.cause, KUBE_CAUSE_ABSENT);
        assert_in_range(v.wait_ms, i % 2 ? 59000 : 30000,
                        i % 2 ? 60000 : 30000);
        reflector_uninit(&r);
    }
}

static void
an_old_server_is_asked_without_the_field_selector(void **state OVS_UNUSED)
{
    const struct reflector_end rejected = REFUSED(400);
    const struct reflector_end listed = LISTED("7");
    struct reflector_cfg cfg = config(MODEL_SERVICES);
    struct reflector r;

    reflector_init(&r, &cfg);
    assert_int_equal(reflector_end(&r, &rejected, 0, 0).wait_ms, 0);
    assert_target(&r,
                  SELECTED "service-proxy-name&limit=500&resourceVersion=0");

    /* Watch and list choose the same objects. */
    reflector_end(&r, &listed, 1, 0);
    assert_target(&r, SELECTED "service-proxy-name&watch=1"
                               "&allowWatchBookmarks=true&resourceVersion=7"
                               "&timeoutSeconds=300");
    reflector_uninit(&r);
}

static void
waits_and_timeouts_are_spread_by_the_random_number(void **state OVS_UNUSED)
{
    static const struct {
        struct reflector_end end;
        int least_ms, most_ms;
    } waits[] = {
        { BROKEN(0, 1), 800, 1599 },
        { REFUSED(403), 30000, 59999 },
        { { 429, false, false, &no_words, 7, 9, 0 }, 7000, 7999 },
        { ERROR(410, expired), 0, 799 },
        { REFUSED(401), 0, 0 },
    };
    const struct reflector_end listed = LISTED("7");
    struct reflector_cfg cfg = config(MODEL_NODES);

    for (size_t i = 0; i < ARRAY_SIZE(waits); i++) {
        struct reflector least, most;

        reflector_init(&least, &cfg);
        reflector_init(&most, &cfg);
        assert_int_equal(reflector_end(&least, &waits[i].end, 0, 0).wait_ms,
                         waits[i].least_ms);
        assert_int_equal(
            reflector_end(&most, &waits[i].end, 0, UINT32_MAX).wait_ms,
            waits[i].most_ms);
        reflector_uninit(&least);
        reflector_uninit(&most);
    }

    struct ds target = DS_EMPTY_INITIALIZER;
    struct reflector r;

    reflector_init(&r, &cfg);
    assert_int_equal(reflector_request(&r, UINT32_MAX, &target), 0);
    reflector_end(&r, &listed, 0, 0);
    assert_int_equal(reflector_request(&r, 0, &target), 300);
    assert_int_equal(reflector_request(&r, UINT32_MAX, &target), 599);
    reflector_uninit(&r);
    ds_destroy(&target);
}

static void
only_failures_are_failures(void **state OVS_UNUSED)
{
    static const struct {
        struct reflector_end end;
        bool failure, expected;
    } ends[] = {
        { PAGED("7", "a"), false, false }, { LISTED("7"), false, false },
        { BROKEN(0, 1), true, false },     { REFUSED(401), true, true },
        { REFUSED(403), true, false },     { ERROR(410, expired), true, true },
    };
    struct reflector_cfg cfg = config(MODEL_NODES);

    for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
        struct reflector r;

        reflector_init(&r, &cfg);
        struct reflector_verdict v = reflector_end(&r, &ends[i].end, 0, 0);
        assert_int_equal(v.failure, ends[i].failure);
        assert_int_equal(v.expected, ends[i].expected);
        reflector_uninit(&r);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_end_of_a_request_leads_to_the_right_next_one),
        cmocka_unit_test(selectors_are_encoded_and_only_where_they_belong),
        cmocka_unit_test(an_old_server_is_asked_without_the_field_selector),
        cmocka_unit_test(
            kind_that_the_server_need_not_have_is_asked_for_rarely),
        cmocka_unit_test(
            kinds_of_multicluster_are_asked_for_every_30_to_60_seconds),
        cmocka_unit_test(waits_and_timeouts_are_spread_by_the_random_number),
        cmocka_unit_test(only_failures_are_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
