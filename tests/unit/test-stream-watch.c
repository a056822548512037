/* SPDX-License-Identifier: Apache-2.0 */
/* Watches, cut into events, and Status bodies: recordings of a real API
 * server in pieces of every size, and what is neither. */

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include <util.h>

#include "../support/recording.h"
#include "ofproxyd/kube/stream.h"

static const char *const type_names[] = { "ADDED", "MODIFIED", "DELETED",
                                          "BOOKMARK", "ERROR" };

/* Feeds one piece, from a copy so that no reading beyond its end stays
 * unseen, and appends its events to 'ret', a line each.  Returns false after
 * an error, which is appended too. */
static bool
feed(struct kube_events *events, const char *data, size_t n, struct ds *ret)
{
    char *piece = xmemdup(data, n);
    struct kube_event event;
    struct err err;
    int error;

    error = kube_events_feed(events, piece, n, &err);
    while (!error && kube_events_next(events, &event)) {
        ds_put_format(ret, "%s%s version \"%s\": %.*s\n",
                      type_names[event.type],
                      event.initial_events_end ? " (end)" : "",
                      event.resource_version, (int) event.object_len,
                      event.object);
    }
    free(piece);
    if (error) {
        assert_int_equal(error, EINVAL);
        ds_put_cstr(ret, err.msg);
    }
    return !error;
}

/* Reads a body whose pieces end at 'cut' and then at every 'step' bytes. */
static void
read_events(const char *body, size_t len, size_t cut, size_t step,
            struct ds *ret)
{
    struct kube_events *events = kube_events_create();
    size_t pos = 0;
    bool ok = true;

    while (ok && pos < len) {
        size_t n = pos < cut ? cut - pos : MIN(step, len - pos);

        ok = feed(events, body + pos, n, ret);
        pos += n;
    }
    if (ok && feed(events, "", 0, ret) && kube_events_partial(events)) {
        ds_put_cstr(ret, "partial");
    }
    kube_events_destroy(events);
}

static void
check_events(const char *body, const char *expected)
{
    struct ds found = DS_EMPTY_INITIALIZER;

    read_events(body, strlen(body), 0, SIZE_MAX, &found);
    assert_string_equal(ds_cstr(&found), expected);
    ds_destroy(&found);
}

/* Fails unless 'body' cut into two at each byte, and into single bytes, gives
 * the same as whole. */
static void
check_every_split(const char *body, size_t len)
{
    struct ds once = DS_EMPTY_INITIALIZER;

    read_events(body, len, 0, SIZE_MAX, &once);
    for (size_t cut = 0; cut <= len + 1; cut++) {
        struct ds found = DS_EMPTY_INITIALIZER;

        read_events(body, len, MIN(cut, len), cut > len ? 1 : SIZE_MAX,
                    &found);
        assert_string_equal(ds_cstr(&found), ds_cstr(&once));
        ds_destroy(&found);
    }
    ds_destroy(&once);
}

/* Recordings. */

static const char *const recordings[] = {
    "watch-services-from-now.http",
    "watchlist-services.http",
    "watch-endpointslices.http",
    "watch-services.http",
    "watch-nodes.http",
    "watch-gateways.http",
    "watch-410.http",
};

/* Checks one line that read_events() wrote against what a JSON library sees
 * in the event. */
static void
check_event(const char *line, size_t len, const char *found, size_t n)
{
    json_t *event = json_loadb(line, len, 0, NULL), *cut;
    json_t *object = json_object_get(event, "object");
    json_t *meta = json_object_get(object, "metadata");
    const char *rv =
        json_string_value(json_object_get(meta, "resourceVersion"));
    json_t *ends = json_object_get(json_object_get(meta, "annotations"),
                                   "k8s.io/initial-events-end");
    char *start;

    start = xasprintf("%s%s version \"%s\": ",
                      json_string_value(json_object_get(event, "type")),
                      ends ? " (end)" : "", rv ? rv : "");
    assert_memory_equal(found, start, strlen(start));
    cut = json_loadb(found + strlen(start), n - strlen(start), 0, NULL);
    assert_true(json_equal(cut, object));
    json_decref(cut);
    json_decref(event);
    free(start);
}

static void
recorded_watch_has_the_events_that_a_json_library_sees(void **state OVS_UNUSED)
{
    size_t n_events = 0;

    for (size_t i = 0; i < ARRAY_SIZE(recordings); i++) {
        struct ds body = DS_EMPTY_INITIALIZER, all = DS_EMPTY_INITIALIZER;
        const char *line, *found;

        recording_read(recordings[i], &body);
        read_events(body.string, body.length, 0, SIZE_MAX, &all);
        found = ds_cstr(&all);
        for (line = ds_cstr(&body); *line; line = strchr(line, '\n') + 1) {
            size_t n = strcspn(found, "\n");

            check_event(line, strcspn(line, "\n"), found, n);
            found += n + 1;
            n_events++;
        }
        assert_string_equal(found, "");
        ds_destroy(&all);
        ds_destroy(&body);
    }
    assert_int_equal(n_events, 75);
}

static void
o6_recorded_watch_is_the_same_cut_at_every_byte(void **state OVS_UNUSED)
{
    for (size_t i = 2; i < ARRAY_SIZE(recordings); i++) {
        struct ds body = DS_EMPTY_INITIALIZER;

        recording_read(recordings[i], &body);
        check_every_split(body.string, body.length);
        ds_destroy(&body);
    }
}

static void
recorded_watch_is_the_same_in_pieces_of_any_size(void **state OVS_UNUSED)
{
    for (size_t i = 0; i < ARRAY_SIZE(recordings); i++) {
        struct ds body = DS_EMPTY_INITIALIZER, once = DS_EMPTY_INITIALIZER;

        recording_read(recordings[i], &body);
        read_events(body.string, body.length, 0, SIZE_MAX, &once);
        for (size_t step = 1; step < 3000; step = step * 3 / 2 + 1) {
            struct ds found = DS_EMPTY_INITIALIZER;

            read_events(body.string, body.length, 0, step, &found);
            assert_string_equal(ds_cstr(&found), ds_cstr(&once));
            ds_destroy(&found);
        }
        ds_destroy(&once);
        ds_destroy(&body);
    }
}

/* Made up events. */

static void
event_may_be_written_in_any_way(void **state OVS_UNUSED)
{
    static const struct {
        const char *body, *expected;
    } cases[] = {
        { "{\"type\":\"ADDED\",\"object\":{}}\n", "ADDED version \"\": {}\n" },
        /* Members in any order, blanks, CRLF, empty lines. */
        { "\n\r\n \n{ \"object\" : {\"a\":1} , \"x\":[1], \"type\" : "
          "\"DELETED\" } \r\n\r\n",
          "DELETED version \"\": {\"a\":1}\n" },
        /* Several in a piece; what has no line's end is held. */
        { "{\"type\":\"ADDED\",\"object\":{}}\n{\"type\":\"MODIFIED\","
          "\"object\":{}}\r\n{\"type\":\"ADDED\",\"object\":{}}",
          "ADDED version \"\": {}\nMODIFIED version \"\": {}\npartial" },
        /* The last of several counts, and escapes do. */
        { "{\"type\":\"X\",\"t\\u0079pe\":\"ADD\\u0045D\",\"object\":1,"
          "\"object\":{}}\n",
          "ADDED version \"\": {}\n" },
        { "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\","
          "\"metadata\":{},\"code\":410}}\n",
          "ERROR version \"\": {\"kind\":\"Status\",\"metadata\":{},\"code\":"
          "410}\n" },
        /* Something wrong in an object doesn't hide the next event. */
        { "{\"type\":\"ADDED\",\"object\":{[}]}\n"
          "{\"type\":\"ADDED\",\"object\":{\"a\" \"\xff\x01\\q\"}}\n"
          "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"resourceVersion\":"
          "\"3\"},,}}\n",
          "ADDED version \"\": {[}]\n"
          "ADDED version \"\": {\"a\" \"\xff\x01\\q\"}\n"
          "ADDED version \"3\": {\"metadata\":{\"resourceVersion\":\"3\"},,}"
          "\n" },
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        check_events(cases[i].body, cases[i].expected);
    }
}

static void
version_is_that_of_the_metadata_and_of_nothing_else(void **state OVS_UNUSED)
{
    static const struct {
        const char *object, *version;
    } cases[] = {
        { "{\"metadata\":{\"resourceVersion\":\"12\"}}", "12" },
        { "{ \"metadata\" : { \"name\" : \"x\", \"resourceVersion\" : "
          "\"\\u0031\\u0032\" } }",
          "12" },
        { "{\"resourceVersion\":\"1\",\"spec\":{\"metadata\":{"
          "\"resourceVersion\":\"2\"},\"resourceVersion\":\"3\"},\"x\":"
          "\"\\\"metadata\\\":{\\\"resourceVersion\\\":\\\"4\\\"}\","
          "\"metadata\":{\"managedFields\":[{\"resourceVersion\":\"5\"}],"
          "\"resourceVersion\":\"12\",\"labels\":{\"resourceVersion\":"
          "\"6\"}}}",
          "12" },
        { "{\"metadata\":{\"labels\":{\"resourceVersion\":\"6\"}}}", "" },
        { "{\"metadata\":{\"resourceVersion\":null}}", "" },
        { "{\"metadata\":{\"resourceVersion\":12}}", "" },
        { "{\"metadata\":null}", "" },
        { "{\"metadata\":[]}", "" },
        { "{}", "" },
        /* One that is too long to be kept is none. */
        { "{\"metadata\":{\"resourceVersion\":\"1234567890123456789012345678"
          "90123456789012345678901234567890123\"}}",
          "123456789012345678901234567890123456789012345678901234567890123" },
        { "{\"metadata\":{\"resourceVersion\":\"1234567890123456789012345678"
          "901234567890123456789012345678901234\"}}",
          "" },
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char *body = xasprintf("{\"type\":\"BOOKMARK\",\"object\":%s}\n",
                               cases[i].object);
        char *expected = xasprintf("BOOKMARK version \"%s\": %s\n",
                                   cases[i].version, cases[i].object);

        check_events(body, expected);
        free(expected);
        free(body);
    }
}

static void
o9_only_a_bookmark_that_says_so_ends_the_initial_events(
    void **state OVS_UNUSED)
{
    static const struct {
        const char *type, *annotations;
        bool end;
    } cases[] = {
        { "BOOKMARK", "{\"k8s.io/initial-events-end\":\"true\"}", true },
        { "BOOKMARK", "{\"a\":\"b\",\"k8s.io/initial-events-end\":\"true\"}",
          true },
        { "BOOKMARK", "{\"k8s.io/initial-events-end\":\"false\"}", false },
        { "BOOKMARK", "{\"k8s.io/initial-events-end\":true}", false },
        { "BOOKMARK", "{\"x\":\"k8s.io/initial-events-end\"}", false },
        { "BOOKMARK", "{}", false },
        { "BOOKMARK", "null", false },
        { "BOOKMARK", "[]", false },
        { "ADDED", "{\"k8s.io/initial-events-end\":\"true\"}", false },
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char *object = xasprintf("{\"metadata\":{\"resourceVersion\":\"5\","
                                 "\"annotations\":%s}}",
                                 cases[i].annotations);
        char *body = xasprintf("{\"type\":\"%s\",\"object\":%s}\n",
                               cases[i].type, object);
        char *expected = xasprintf("%s%s version \"5\": %s\n", cases[i].type,
                                   cases[i].end ? " (end)" : "", object);

        check_events(body, expected);
        free(expected);
        free(body);
        free(object);
    }
}

static void
line_that_is_no_event_is_an_error_that_says_what_came(void **state OVS_UNUSED)
{
    static const struct {
        const char *body, *expected;
    } cases[] = {
        { "<html>", "no watch event: \"<html>\"" },
        { "\n  bad gateway\n", "no watch event: \"bad gateway\"" },
        { "[]\n", "no watch event: \"[]\"" },
        { "{}\n", "broken watch event: unknown type \"\"" },
        { "{\"type\":\"ADDED\"}\n", "broken watch event: no object" },
        { "{\"type\":\"ADDED\",\"object\":null}\n",
          "broken watch event: no object" },
        { "{\"type\":\"ADDED\",\"object\":[{}]}\n",
          "broken watch event: no object" },
        { "{\"type\":\"Added\",\"object\":{}}\n",
          "broken watch event: unknown type \"Added\"" },
        { "{\"type\":5,\"object\":{}}\n",
          "broken watch event: type: found 5, want a string" },
        { "{\"type\":\"ADDED\",\"object\":{}\n",
          "broken watch event: object: found the end of the text, want "
          "\",\" or \"}\"" },
        { "{\"type\":\"ADDED\",\"object\":{\n",
          "broken watch event: object: the text ends within this value" },
        { "{\"type\":\"ADDED\",\"object\":\"{}\n",
          "broken watch event: object: the text ends within this value" },
        { "{\"type\":\"ADDED\",\"object\":{}}{\"type\":\"ADDED\",\"object\":"
          "{}}\n",
          "broken watch event: found an object, want the end of the text" },
        { "{\"type\":\"ADDED\",\"object\":{}} x\n",
          "broken watch event: found x, want the end of the text" },
        { "{\"type\":\"ADDED\" \"object\":{}}\n",
          "broken watch event: type: found \"object\", want \",\" or \"}\"" },
        /* Not the end of a line in an object. */
        { "{\"type\":\"ADDED\",\"object\":{\n}}\n",
          "broken watch event: object: the text ends within this value" },
        /* What came before it counts. */
        { "{\"type\":\"ADDED\",\"object\":{}}\nx\n",
          "ADDED version \"\": {}\nno watch event: \"x\"" },
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        check_events(cases[i].body, cases[i].expected);
    }
}

static void
error_sticks(void **state OVS_UNUSED)
{
    static const char event[] = "{\"type\":\"ADDED\",\"object\":{}}\n";
    struct kube_events *events = kube_events_create();
    struct ds found = DS_EMPTY_INITIALIZER;

    feed(events, "<", 1, &found);
    assert_string_equal(ds_cstr(&found), "");
    assert_false(feed(events, "\n", 1, &found));
    assert_false(feed(events, event, strlen(event), &found));
    assert_string_equal(ds_cstr(&found),
                        "no watch event: \"<\"no watch event: \"<\"");
    ds_destroy(&found);
    kube_events_destroy(events);
    kube_events_destroy(NULL);
}

static void
unfinished_line_is_known(void **state OVS_UNUSED)
{
    struct kube_events *events = kube_events_create();
    static const char event[] = "{\"type\":\"ADDED\",\"object\":{}}\n";
    struct ds found = DS_EMPTY_INITIALIZER;
    struct kube_event ret;
    struct err err;

    assert_false(kube_events_partial(events));
    assert_true(feed(events, event, 10, &found));
    assert_true(kube_events_partial(events));
    assert_true(feed(events, event + 10, strlen(event) - 10, &found));
    assert_false(kube_events_partial(events));
    assert_true(feed(events, event, strlen(event), &found));
    assert_false(kube_events_partial(events));

    /* A line that was gathered and is handed out is none that is held. */
    assert_false(kube_events_feed(events, event, 10, &err));
    assert_false(kube_events_next(events, &ret));
    assert_false(
        kube_events_feed(events, event + 10, strlen(event) - 10, &err));
    assert_true(kube_events_next(events, &ret));
    assert_false(kube_events_partial(events));
    ds_destroy(&found);
    kube_events_destroy(events);
}

static void
put_event_of(struct ds *ds, size_t n)
{
    ds_put_cstr(ds, "{\"type\":\"ADDED\",\"object\":{\"s\":\"");
    ds_put_char_multiple(ds, 'x', n - 8);
    ds_put_cstr(ds, "\"}}\n");
}

static void
check_size(size_t n, const char *expected)
{
    struct ds body = DS_EMPTY_INITIALIZER, found = DS_EMPTY_INITIALIZER;

    put_event_of(&body, n);
    ds_put_cstr(&body, "{\"type\":\"MODIFIED\",\"object\":{}}\n");
    read_events(body.string, body.length, 0, 16384, &found);
    assert_non_null(strstr(ds_cstr(&found), expected));
    ds_destroy(&found);
    ds_destroy(&body);
}

static void
o6_event_of_megabytes_is_read_and_one_over_the_limit_is_an_error(
    void **state OVS_UNUSED)
{
    check_size(2 * 1024 * 1024, "\"}\nMODIFIED version \"\": {}\n");
    check_size(5 * 1024 * 1024, "\"}\nMODIFIED version \"\": {}\n");
    check_size(KUBE_OBJECT_MAX, "\"}\nMODIFIED version \"\": {}\n");
    check_size(KUBE_OBJECT_MAX + 1024,
               "broken watch event: more than 8389632 bytes");
}

/* Status. */

static void
status_of_an_error_answer_is_read(void **state OVS_UNUSED)
{
    static const struct {
        const char *file;
        int code;
        const char *reason, *message;
        int retry_after_s;
        bool rv_too_large;
        const char *cont;
    } cases[] = {
        { "error-401.json", 401, "Unauthorized", "Unauthorized" },
        { "error-403.json", 403, "Forbidden",
          "services is forbidden: User \"nobody\" cannot list resource "
          "\"services\" in API group \"\" at the cluster scope" },
        { "error-406.txt", 406, "NotAcceptable",
          "406: Not Acceptable Available representations: application/json, "
          "application/yaml, application/vnd.kubernetes.protobuf, "
          "application/json;stream=watch, "
          "application/vnd.kubernetes.protobuf;stream=watch" },
        { "error-410-exact.json", 410, "Expired", NULL },
        { "error-410-continue.json", 410, "Expired", NULL, 0, false,
          "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiZGVmYXVsdC93"
          "ZWJcdTAwMDAifQ" },
        { "error-504-too-large-rv.json", 504, "Timeout",
          "Timeout: Too large resource version: 99999999, current: 335", 1,
          true },
        { "error-400-continue.json", 400, "BadRequest", NULL },
        { "error-400-field-selector.json", 400, "BadRequest", NULL },
        { "error-400-label-selector.json", 400, "BadRequest", NULL },
        { "error-403-watch.json", 403, "Forbidden", NULL },
        { "error-405.json", 405, "MethodNotAllowed", NULL },
        { "error-422-service.json", 422, "Invalid", NULL },
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct ds body = DS_EMPTY_INITIALIZER;
        struct kube_status status;

        recording_read(cases[i].file, &body);
        assert_int_equal(kube_status_parse(body.string, body.length, &status),
                         0);
        assert_int_equal(status.code, cases[i].code);
        assert_string_equal(status.reason, cases[i].reason);
        assert_true(status.message[0]);
        if (cases[i].message) {
            assert_string_equal(status.message, cases[i].message);
        }
        assert_int_equal(status.retry_after_s, cases[i].retry_after_s);
        assert_int_equal(status.rv_too_large, cases[i].rv_too_large);
        assert_string_equal(status.cont, cases[i].cont ? cases[i].cont : "");
        ds_destroy(&body);
    }
}

static void
what_is_no_status_gives_its_words(void **state OVS_UNUSED)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        { "", "" },
        { "404 page not found\n", "404 page not found" },
        { "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>"
          "<h1>502 Bad Gateway</h1>\n<hr>proxy/1.0</body></html>",
          "502 Bad Gateway 502 Bad Gateway proxy/1.0" },
        { "a\t \x01\x7f"
          "b \xc3\xa9",
          "a b ??" },
        { "{\"kind\":\"Service\",\"message\":\"x\"}",
          "{\"kind\":\"Service\",\"message\":\"x\"}" },
        { "{\"kind\":\"Status\",\"message\":\"x\"",
          "{\"kind\":\"Status\",\"message\":\"x\"" },
        { "{\"kind\":\"Status\"} x", "{\"kind\":\"Status\"} x" },
        { "{}", "{}" },
        { "null", "null" },
    };
    struct kube_status status;
    char *large;

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        assert_int_equal(kube_status_parse(cases[i].text,
                                           strlen(cases[i].text), &status),
                         EINVAL);
        assert_string_equal(status.message, cases[i].message);
        assert_string_equal(status.reason, "");
        assert_int_equal(status.code, 0);
    }

    large = xmalloc(100000);
    memset(large, 'x', 100000);
    assert_int_equal(kube_status_parse(large, 100000, &status), EINVAL);
    assert_true(strlen(status.message) > 200);
    assert_true(strlen(status.message) < sizeof status.message);
    free(large);
}

static void
field_of_a_wrong_type_leaves_the_rest_of_a_status(void **state OVS_UNUSED)
{
    static const char *const wrong[] = {
        "5.5", "-1", "1e3", "true", "{}", "[{}]", "null", "99999999999"
    };
    static const char *const fields[] = {
        "\"code\":%s",
        "\"reason\":%s",
        "\"metadata\":%s",
        "\"metadata\":{\"continue\":%s}",
        "\"details\":%s",
        "\"details\":{\"retryAfterSeconds\":%s}",
        "\"details\":{\"causes\":%s}",
        "\"details\":{\"causes\":[%s]}",
        "\"details\":{\"causes\":[{\"reason\":%s}]}",
    };

    for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
        for (size_t j = 0; j < ARRAY_SIZE(wrong); j++) {
            struct ds text = DS_EMPTY_INITIALIZER;
            struct kube_status status;

            ds_put_cstr(&text, "{\"kind\":\"Status\",");
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
            ds_put_format(&text, fields[i], wrong[j]);
#pragma GCC diagnostic pop
            ds_put_cstr(&text, ",\"message\":\"words\"}");
            assert_int_equal(kube_status_parse(text.string, text.length,
                                               &status),
                             0);
            assert_string_equal(status.message, "words");
            assert_string_equal(status.reason, "");
            assert_string_equal(status.cont, "");
            assert_int_equal(status.code, 0);
            assert_int_equal(status.retry_after_s, 0);
            assert_false(status.rv_too_large);
            ds_destroy(&text);
        }
    }
}

static void
continue_token_that_does_not_fit_is_absent(void **state OVS_UNUSED)
{
    for (size_t n = 1022; n <= 1025; n++) {
        struct ds text = DS_EMPTY_INITIALIZER;
        struct kube_status status;

        ds_put_cstr(&text, "{\"kind\":\"Status\",\"metadata\":{\"continue\":"
                           "\"");
        ds_put_char_multiple(&text, 'c', n);
        ds_put_cstr(&text, "\"}}");
        assert_int_equal(kube_status_parse(text.string, text.length, &status),
                         0);
        assert_int_equal(strlen(status.cont), n <= 1023 ? n : 0);
        ds_destroy(&text);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            recorded_watch_has_the_events_that_a_json_library_sees),
        cmocka_unit_test(o6_recorded_watch_is_the_same_cut_at_every_byte),
        cmocka_unit_test(recorded_watch_is_the_same_in_pieces_of_any_size),
        cmocka_unit_test(event_may_be_written_in_any_way),
        cmocka_unit_test(version_is_that_of_the_metadata_and_of_nothing_else),
        cmocka_unit_test(
            o9_only_a_bookmark_that_says_so_ends_the_initial_events),
        cmocka_unit_test(
            line_that_is_no_event_is_an_error_that_says_what_came),
        cmocka_unit_test(error_sticks),
        cmocka_unit_test(unfinished_line_is_known),
        cmocka_unit_test(
            o6_event_of_megabytes_is_read_and_one_over_the_limit_is_an_error),
        cmocka_unit_test(status_of_an_error_answer_is_read),
        cmocka_unit_test(what_is_no_status_gives_its_words),
        cmocka_unit_test(field_of_a_wrong_type_leaves_the_rest_of_a_status),
        cmocka_unit_test(continue_token_that_does_not_fit_is_absent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
