/* SPDX-License-Identifier: Apache-2.0 */
/* The text of Events, where an API server can't be asked: bytes that no test
 * in Python can hand in, and times. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <util.h>

#include "../../src/kube/evtext.h"

static void
bytes_that_are_no_utf8_are_replaced(void **state OVS_UNUSED)
{
    static const struct {
        const char *note, *clean;
    } rows[] = {
        { "a\xff"
          "b",
          "a?b" },
        { "\xc3", "?" },                /* Cut off. */
        { "\xc3(", "?(" },              /* No second byte. */
        { "\xe2\x82", "??" },           /* Cut off. */
        { "\xc0\x80", "??" },           /* Overlong. */
        { "\xe0\x80\x80", "???" },      /* Overlong. */
        { "\xed\xa0\x80", "???" },      /* A surrogate. */
        { "\xf4\x90\x80\x80", "????" }, /* Beyond U+10FFFF. */
        { "\xf8\x88", "??" },
        { "\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80",
          "\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80" },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        char *clean = event_clean_note(rows[i].note);

        assert_string_equal(clean, rows[i].clean);
        free(clean);
    }
}

static void
an_event_without_namespace_and_uid_leaves_them_out(void **state OVS_UNUSED)
{
    struct event_ref ref = { "v1", "Node", "", "n1", NULL };
    struct ds ds = DS_EMPTY_INITIALIZER;

    event_put_json(
        &(struct event_text){
            .ref = &ref,
            .reason = EVENT_LEFT_OUT,
            .name = "n1.1",
            .note = "a \"note\"",
            .node_name = "n2",
            .first_us = 1700000000000042,
        },
        &ds);
    assert_string_equal(
        ds_cstr(&ds),
        "{\"apiVersion\":\"events.k8s.io/v1\",\"kind\":\"Event\","
        "\"metadata\":{\"namespace\":\"default\",\"name\":\"n1.1\"},"
        "\"eventTime\":\"2023-11-14T22:13:20.000042Z\",\"type\":\"Warning\","
        "\"reason\":\"InvalidPartLeftOut\",\"action\":\"ReadObject\","
        "\"reportingController\":\"ofproxyd\","
        "\"reportingInstance\":\"n2\",\"regarding\":{\"kind\":\"Node\","
        "\"apiVersion\":\"v1\",\"name\":\"n1\"},"
        "\"note\":\"a \\\"note\\\"\"}");
    ds_destroy(&ds);
}

static void
a_count_fits_into_the_api(void **state OVS_UNUSED)
{
    struct ds ds = DS_EMPTY_INITIALIZER;

    event_put_series(UINT64_C(5000000000), 1700000000999999, &ds);
    assert_string_equal(ds_cstr(&ds), "{\"series\":{\"count\":2147483647,"
                                      "\"lastObservedTime\":"
                                      "\"2023-11-14T22:13:20.999999Z\"}}");
    ds_destroy(&ds);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_that_are_no_utf8_are_replaced),
        cmocka_unit_test(an_event_without_namespace_and_uid_leaves_them_out),
        cmocka_unit_test(a_count_fits_into_the_api),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
