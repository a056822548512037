/* SPDX-License-Identifier: Apache-2.0 */
/* Objects of a real API server, decoded whole, cut off, rewritten and
 * damaged; names, strings, numbers, times and sizes. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include <util.h>

#include "../support/decoding.h"
#include "../support/golden.h"
#include "../support/recording.h"
#include "ofproxyd/kube/stream.h"

/* Recordings. */

static const struct {
    const char *file;
    enum model_kind kind;
} lists[] = {
    { "services.json", MODEL_SERVICES },
    { "endpointslices.json", MODEL_SLICES },
    { "nodes.json", MODEL_NODES },
};

/* Calls 'f' for each item of the list in recording 'file'. */
static void
for_each_item(const char *file, enum model_kind kind,
              void (*f)(enum model_kind, const char *text, size_t len,
                        void *aux),
              void *aux)
{
    struct kube_list *list = kube_list_create();
    struct ds body = DS_EMPTY_INITIALIZER;
    const char *text;
    struct err err;
    size_t len;

    recording_read(file, &body);
    assert_false(kube_list_feed(list, body.string, body.length, &err));
    while (kube_list_next(list, &text, &len)) {
        f(kind, text, len, aux);
    }
    kube_list_destroy(list);
    ds_destroy(&body);
}

static void
format_item(enum model_kind kind, const char *text, size_t len, void *ds)
{
    decoding_format(kind, text, len, ds);
}

static void
recorded_lists_decode_to_the_golden_objects(void **state OVS_UNUSED)
{
    for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
        struct ds found = DS_EMPTY_INITIALIZER;
        char *golden =
            xasprintf("decode-%.*s.txt", (int) strcspn(lists[i].file, "."),
                      lists[i].file);

        for_each_item(lists[i].file, lists[i].kind, format_item, &found);
        golden_check(golden, ds_cstr(&found));
        free(golden);
        ds_destroy(&found);
    }
}

static void
recorded_watches_decode_to_the_golden_objects(void **state OVS_UNUSED)
{
    static const struct {
        const char *file;
        enum model_kind kind;
    } watches[] = {
        { "watch-services.http", MODEL_SERVICES },
        { "watch-endpointslices.http", MODEL_SLICES },
        { "watch-nodes.http", MODEL_NODES },
    };
    struct ds found = DS_EMPTY_INITIALIZER;

    for (size_t i = 0; i < ARRAY_SIZE(watches); i++) {
        struct kube_events *events = kube_events_create();
        struct ds body = DS_EMPTY_INITIALIZER;
        struct kube_event event;
        struct err err;

        recording_read(watches[i].file, &body);
        assert_false(kube_events_feed(events, body.string, body.length, &err));
        while (kube_events_next(events, &event)) {
            if (event.type != KUBE_EVENT_BOOKMARK) {
                decoding_format(watches[i].kind, event.object,
                                event.object_len, &found);
            }
        }
        kube_events_destroy(events);
        ds_destroy(&body);
    }
    golden_check("decode-watches.txt", ds_cstr(&found));
    ds_destroy(&found);
}

/* Decodes an item as other programs might have written it. */
static void
check_rewritten(enum model_kind kind, const char *text, size_t len,
                void *aux OVS_UNUSED)
{
    static const size_t styles[] = {
        JSON_COMPACT | JSON_SORT_KEYS,
        JSON_COMPACT | JSON_ENSURE_ASCII | JSON_ESCAPE_SLASH,
        JSON_INDENT(3),
    };
    struct ds once = DS_EMPTY_INITIALIZER;
    json_t *json = json_loadb(text, len, 0, NULL);

    decoding_format(kind, text, len, &once);
    for (size_t i = 0; i < ARRAY_SIZE(styles); i++) {
        char *rewritten = json_dumps(json, styles[i]);

        decoding_check(kind, rewritten, ds_cstr(&once));
        free(rewritten);
    }
    json_decref(json);
    ds_destroy(&once);
}

static void
object_is_the_same_however_its_json_is_written(void **state OVS_UNUSED)
{
    for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
        for_each_item(lists[i].file, lists[i].kind, check_rewritten, NULL);
    }
}

static void
check_cut_off(enum model_kind kind, const char *text, size_t len,
              void *aux OVS_UNUSED)
{
    for (size_t n = 0; n < MIN(len, 3000); n++) {
        struct ds found = DS_EMPTY_INITIALIZER;

        decoding_format(kind, text, n, &found);
        assert_memory_equal(ds_cstr(&found), "error: ", 7);
        ds_destroy(&found);
    }
}

static void
object_that_is_cut_off_anywhere_is_bad(void **state OVS_UNUSED)
{
    for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
        for_each_item(lists[i].file, lists[i].kind, check_cut_off, NULL);
    }
}

static uint32_t
next_random(uint32_t *seed)
{
    *seed = *seed * 1103515245 + 12345;
    return *seed >> 16;
}

/* Decodes an item with a few bytes changed: it must come out as something or
 * be bad, and nothing else. */
static void
check_damaged(enum model_kind kind, const char *text, size_t len, void *seed_)
{
    static const char bytes[] = "\"\\{}[]:,0-. nulltrue\0\x01\x80\xff";
    size_t n_used = MIN(len, 5000);
    uint32_t *seed = seed_;

    for (int i = 0; i < 200; i++) {
        struct ds found = DS_EMPTY_INITIALIZER;
        char *damaged = xmemdup(text, n_used);

        for (int j = next_random(seed) % 4; j >= 0; j--) {
            damaged[next_random(seed) % n_used] =
                bytes[next_random(seed) % (sizeof bytes - 1)];
        }
        decoding_format(kind, damaged, n_used, &found);
        free(damaged);
        ds_destroy(&found);
    }
}

static void
damaged_object_does_no_harm(void **state OVS_UNUSED)
{
    uint32_t seed = 20261129;

    print_message("seed %u\n", seed);
    for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
        for_each_item(lists[i].file, lists[i].kind, check_damaged, &seed);
    }
}

/* What every object has. */

#define SVC(META, SPEC) "{\"metadata\":{" META "},\"spec\":{" SPEC "}}"
#define NAMES           "\"name\":\"web\",\"namespace\":\"ns1\""
/* How a Service prints that has nothing but a name. */
#define PLAIN "  ClusterIP ext=Cluster int=Cluster affinity=0 health=0\n"

static void
names_are_there_and_are_names(void **state OVS_UNUSED)
{
    static const struct {
        enum model_kind kind;
        const char *json, *expected;
    } cases[] = {
        { MODEL_SERVICES, SVC(NAMES, ""),
          "Service ns1/web uid= version=0 created=0\n" PLAIN },
        { MODEL_NODES, SVC("\"name\":\"n1\"", ""),
          "Node /n1 uid= version=0 created=0\n  zone=\n" },
        /* A Node is in no namespace. */
        { MODEL_NODES, SVC("\"name\":\"n1\",\"namespace\":\"x\"", ""),
          "Node /n1 uid= version=0 created=0\n  zone=\n" },
        { MODEL_SERVICES, "{}",
          "error: Service: metadata.name: is missing\n" },
        { MODEL_SERVICES, "{\"metadata\":null}",
          "error: Service: metadata.name: is missing\n" },
        { MODEL_SERVICES, SVC("\"namespace\":\"ns1\"", ""),
          "error: Service: metadata.name: is missing\n" },
        { MODEL_SERVICES, SVC("\"name\":\"\",\"namespace\":\"ns1\"", ""),
          "error: Service: metadata.name: is missing\n" },
        { MODEL_SERVICES, SVC("\"name\":\"web\"", ""),
          "error: Service: metadata.namespace: is missing\n" },
        { MODEL_SLICES, SVC("\"name\":\"web\",\"namespace\":null", ""),
          "error: EndpointSlice: metadata.namespace: is missing\n" },
        { MODEL_SERVICES, "{\"metadata\":5}",
          "error: Service: metadata: found 5, want an object\n" },
        { MODEL_SERVICES, SVC("\"name\":5,\"namespace\":\"ns1\"", ""),
          "error: Service: metadata.name: found 5, want a string\n" },
        { MODEL_SERVICES, SVC("\"name\":\"web\",\"namespace\":[]", ""),
          "error: Service: metadata.namespace: found an array, want a "
          "string\n" },
        { MODEL_SERVICES, SVC("\"name\":\"a b\",\"namespace\":\"ns1\"", ""),
          "error: Service: metadata.name: found \"a b\", want a name\n" },
        { MODEL_SERVICES, SVC("\"name\":\"a/b\",\"namespace\":\"ns1\"", ""),
          "error: Service: metadata.name: found \"a/b\", want a name\n" },
        { MODEL_SERVICES, SVC("\"name\":\"a\\nb\",\"namespace\":\"ns1\"", ""),
          "error: Service: metadata.name: found \"a\\nb\", want a name\n" },
        { MODEL_SERVICES, SVC("\"name\":\"\\u00e9\",\"namespace\":\"n\"", ""),
          "error: Service: metadata.name: found \"\\u00e9\", want a name\n" },
        { MODEL_SERVICES, "[]",
          "error: Service: found an array, want an object\n" },
        { MODEL_SERVICES, "null",
          "error: Service: found null, want an object\n" },
        { MODEL_SERVICES, "",
          "error: Service: found the end of the text, want an object\n" },
        { MODEL_SERVICES, SVC(NAMES, "") "x",
          "error: Service ns1/web: found x, want the end of the text\n" },
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        decoding_check(cases[i].kind, cases[i].json, cases[i].expected);
    }
}

static void
names_have_the_lengths_of_the_api(void **state OVS_UNUSED)
{
    static const struct {
        int n_name, n_ns;
        bool good;
    } cases[] = {
        { 253, 63, true },
        { 254, 63, false },
        { 253, 64, false },
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct ds json = DS_EMPTY_INITIALIZER, found = DS_EMPTY_INITIALIZER;

        ds_put_cstr(&json, "{\"metadata\":{\"name\":\"");
        ds_put_char_multiple(&json, 'a', cases[i].n_name);
        ds_put_cstr(&json, "\",\"namespace\":\"");
        ds_put_char_multiple(&json, 'b', cases[i].n_ns);
        ds_put_cstr(&json, "\"}}");
        decoding_format(MODEL_SERVICES, json.string, json.length, &found);
        assert_int_equal(strncmp(ds_cstr(&found), "error", 5) != 0,
                         cases[i].good);
        ds_destroy(&found);
        ds_destroy(&json);
    }
}

static void
bad_object_is_named_wherever_its_metadata_stands(void **state OVS_UNUSED)
{
    static const char *const jsons[] = {
        SVC(NAMES, "\"ports\":[{\"port\":\"eighty\"}]"),
        "{\"spec\":{\"ports\":[{\"port\":\"eighty\"}]},\"metadata\":{" NAMES
        "}}",
        /* The names may stand behind what is wrong in the metadata, too. */
        "{\"spec\":{\"ports\":[{\"port\":\"eighty\"}]},\"metadata\":{"
        "\"namespace\":\"ns1\",\"labels\":{},\"name\":\"web\"}}",
    };

    for (size_t i = 0; i < ARRAY_SIZE(jsons); i++) {
        decoding_check(MODEL_SERVICES, jsons[i],
                       "error: Service ns1/web: spec.ports[0].port: found "
                       "\"eighty\", want an integer from 1 to 65535\n");
    }
    decoding_check(MODEL_SERVICES, SVC("\"uid\":5," NAMES, ""),
                   "error: Service ns1/web: metadata.uid: found 5, want a "
                   "string\n");
    /* Broken behind the metadata. */
    decoding_check(MODEL_SERVICES, "{\"metadata\":{" NAMES "},\"spec\":{",
                   "error: Service ns1/web: spec: the text ends within this "
                   "value\n");
    decoding_check(MODEL_SERVICES, "{\"metadata\":{" NAMES "},}",
                   "error: Service ns1/web: metadata: found \"}\", want the "
                   "name of a member\n");
}

/* Strings, by the uid. */
static const struct {
    const char *json, *text; /* NULL if it is bad. */
} string_cases[] = {
    { "plain", "plain" },
    { "\\\" \\\\ \\/ \\b \\f \\n \\r \\t", "\" \\ / \b \f \n \r \t" },
    { "\\u0041\\u00e9\\u4E2D", "A\xc3\xa9\xe4\xb8\xad" },
    { "\\ud83d\\ude00", "\xf0\x9f\x98\x80" },
    { "\\uDBFF\\uDFFF", "\xf4\x8f\xbf\xbf" },
    { "\\uffff", "\xef\xbf\xbf" },
    { "\xc3\xa9\xe4\xb8\xad\xf0\x9f\x98\x80",
      "\xc3\xa9\xe4\xb8\xad\xf0\x9f\x98\x80" },
    { "\x7f", "\x7f" },
    /* Half a pair, or two halves that don't make one. */
    { "\\ud83d", NULL },
    { "\\ud83dx", NULL },
    { "\\ud83d\\n", NULL },
    { "\\ud83d\\u0041", NULL },
    { "\\ud83d\\ud83d", NULL },
    { "\\ude00", NULL },
    { "\\ude00\\ud83d", NULL },
    /* No escapes. */
    { "\\x41", NULL },
    { "\\u12", NULL },
    { "\\u12g4", NULL },
    { "\\u", NULL },
    { "\\U0041", NULL },
    { "\\'", NULL },
    { "\\u0000", NULL },
    /* Control characters stand as escapes. */
    { "a\nb", NULL },
    { "\x01", NULL },
    { "\\n\x1f", NULL },
    /* No UTF-8: alone, cut off, not the shortest, surrogates, beyond. */
    { "\x80", NULL },
    { "\xc3", NULL },
    { "\xc3(", NULL },
    { "\xe4\xb8", NULL },
    { "\xf0\x9f\x98", NULL },
    { "\xc0\x80", NULL },
    { "\xc1\xbf", NULL },
    { "\xe0\x9f\xbf", NULL },
    { "\xf0\x8f\xbf\xbf", NULL },
    { "\xed\xa0\x80", NULL },
    { "\xf4\x90\x80\x80", NULL },
    { "\xf5\x80\x80\x80", NULL },
    { "\xff", NULL },
    { "\xe4\xb8\xad\xb8", NULL },
};

static void
strings_are_utf8_with_whole_escapes(void **state OVS_UNUSED)
{
    for (size_t i = 0; i < ARRAY_SIZE(string_cases); i++) {
        char *json =
            xasprintf(SVC(NAMES ",\"uid\":\"%s\"", ""), string_cases[i].json);
        struct ds found = DS_EMPTY_INITIALIZER;
        char *expected;

        decoding_format(MODEL_SERVICES, json, strlen(json), &found);
        if (string_cases[i].text) {
            expected =
                xasprintf("Service ns1/web uid=%s version=0 created=0\n" PLAIN,
                          string_cases[i].text);
            assert_string_equal(ds_cstr(&found), expected);
        } else {
            expected = xstrdup("error: Service ns1/web: metadata.uid: found ");
            assert_memory_equal(ds_cstr(&found), expected, strlen(expected));
            assert_non_null(strstr(ds_cstr(&found),
                                   ", want valid UTF-8 and escapes, and no "
                                   "null byte\n"));
        }
        free(expected);
        ds_destroy(&found);
        free(json);
    }
}

static void
null_byte_in_a_string_is_bad(void **state OVS_UNUSED)
{
    static const char json[] = SVC(NAMES ",\"uid\":\"a\0b\"", "");
    struct ds found = DS_EMPTY_INITIALIZER;

    decoding_format(MODEL_SERVICES, json, sizeof json - 1, &found);
    assert_memory_equal(ds_cstr(&found),
                        "error: Service ns1/web: metadata.uid: ", 38);
    ds_destroy(&found);
}

static void
what_is_not_read_may_hold_anything(void **state OVS_UNUSED)
{
    static const char *const values[] = {
        "\"\\ud800 \\u0000 \\q \xff\x01\"",
        "{\"\xff\":\"\xff\",\"a\" 1,,}",
        "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]",
        "1e99999",
        "-",
        "truth",
    };

    for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
        char *json = xasprintf(
            "{\"x\":%s,\"metadata\":{\"managedFields\":%s," NAMES
            ",\"annotations\":{\"a\":%s}},\"spec\":{\"selector\":%s}}",
            values[i], values[i], values[i], values[i]);

        decoding_check(MODEL_SERVICES, json,
                       "Service ns1/web uid= version=0 created=0\n" PLAIN);
        free(json);
    }
}

static void
brackets_have_to_match(void **state OVS_UNUSED)
{
    struct ds json = DS_EMPTY_INITIALIZER;

    decoding_check(MODEL_SERVICES, SVC(NAMES, "\"selector\":{[}]"),
                   "error: Service ns1/web: spec: brackets don't match\n");
    decoding_check(MODEL_SERVICES,
                   "{\"metadata\":{" NAMES "},\"x\":[{\"a\":[1}]]}",
                   "error: Service ns1/web: x: brackets don't match\n");
    for (int depth = 64; depth <= 10100; depth += 10036) {
        ds_clear(&json);
        ds_put_cstr(&json, "{\"metadata\":{" NAMES "},\"x\":");
        ds_put_char_multiple(&json, '[', depth);
        ds_put_char_multiple(&json, ']', depth);
        ds_put_char(&json, '}');
        decoding_check(MODEL_SERVICES, ds_cstr(&json),
                       depth == 64
                           ? "Service ns1/web uid= version=0 created=0\n" PLAIN
                           : "error: Service ns1/web: x: found an array, want "
                             "a value\n");
    }
    ds_clear(&json);
    ds_put_cstr(&json, "{\"metadata\":{" NAMES "},\"x\":");
    ds_put_char_multiple(&json, '[', 65);
    ds_put_char_multiple(&json, ']', 65);
    ds_put_char(&json, '}');
    decoding_check(MODEL_SERVICES, ds_cstr(&json),
                   "error: Service ns1/web: x: nested deeper than 64 "
                   "levels\n");
    ds_destroy(&json);
}

/* Integers, by a port. */
static void
integers_are_in_range_and_have_no_fraction(void **state OVS_UNUSED)
{
    static const struct {
        const char *json;
        int port; /* 0 if it is bad. */
    } cases[] = {
        { "1", 1 },
        { "65535", 65535 },
        { "0", 0 },
        { "65536", 0 },
        { "-1", 0 },
        { "-80", 0 },
        { "080", 0 },
        { "00", 0 },
        { "+80", 0 },
        { "80.0", 0 },
        { "8e1", 0 },
        { "1.0e3", 0 },
        { "80.", 0 },
        { "0x50", 0 },
        { "4294967376", 0 },
        { "18446744073709551696", 0 },
        { "99999999999999999999999999999999999999999999", 0 },
        { "-9223372036854775808", 0 },
        { "true", 0 },
        { "\"80\"", 0 },
        { "-", 0 },
        { "", 0 },
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char *json =
            xasprintf(SVC(NAMES, "\"ports\":[{\"port\":%s}]"), cases[i].json);
        struct ds found = DS_EMPTY_INITIALIZER;

        decoding_format(MODEL_SERVICES, json, strlen(json), &found);
        if (cases[i].port) {
            char *line =
                xasprintf("  port \"\" TCP %d node=0\n", cases[i].port);

            assert_non_null(strstr(ds_cstr(&found), line));
            free(line);
        } else {
            /* Left out, or the whole object is bad. */
            assert_null(strstr(ds_cstr(&found), "\n  port"));
            assert_non_null(
                strstr(ds_cstr(&found), ": Service ns1/web: spec.ports[0]"));
        }
        ds_destroy(&found);
        free(json);
    }
}

static void
wrong_value_is_shown_up_to_a_limit(void **state OVS_UNUSED)
{
    decoding_check(
        MODEL_SERVICES,
        SVC(NAMES, "\"ports\":[{},{\"port\":\"0123456789012345678901234567890"
                   "1234567890123456789\"}]"),
        "error: Service ns1/web: spec.ports[0].port: is missing\n");
    decoding_check(
        MODEL_SERVICES,
        SVC(NAMES, "\"ports\":[{\"port\":1},{\"port\":\"0123456789012345678901"
                   "2345678901234567890123456789\"}]"),
        "error: Service ns1/web: spec.ports[1].port: found "
        "\"012345678901234567890123456789012345678...\", want an integer from "
        "1 to 65535\n");
}

/* Times, by the creation. */
static void
times_are_in_the_format_of_the_api(void **state OVS_UNUSED)
{
    static const struct {
        const char *json;
        long long int s; /* -1 if it is bad. */
    } cases[] = {
        { "1970-01-01T00:00:00Z", 0 },
        { "2026-11-29T13:53:13Z", 1795960393 },
        { "2000-02-29T23:59:59Z", 951868799 },
        { "2100-03-01T00:00:00Z", 4107542400 },
        { "2026-11-29T13:53:13.999999999Z", 1795960393 },
        { "2026-11-29T15:23:13+01:30", 1795960393 },
        { "2026-11-29T05:53:13-08:00", 1795960393 },
        { "1969-12-31T23:59:58Z", -2 },
        { "0001-01-01T00:00:00Z", -62135596800 },
        { "0000-01-01T00:00:00Z", -62167219200 },
        { "2026-11-29T13:53:60Z", 1795960440 },
        { "2026-11-29", -1 },
        { "2026-11-29 13:53:13Z", -1 },
        { "2026-11-29T13:53:13", -1 },
        { "2026-11-29T13:53:13z", -1 },
        { "2026-11-29T13:53:13.Z", -1 },
        { "2026-11-29T13:53:13Z ", -1 },
        { "2026-11-29T13:53:13+0100", -1 },
        { "2026-13-29T13:53:13Z", -1 },
        { "2026-00-29T13:53:13Z", -1 },
        { "2026-11-32T13:53:13Z", -1 },
        { "2026-11-00T13:53:13Z", -1 },
        { "2026-11-29T24:00:00Z", -1 },
        { "2026-11-29T13:60:13Z", -1 },
        { "2026-11-29T13:53:61Z", -1 },
        { "26-11-29T13:53:13Z", -1 },
        { "yesterday", -1 },
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char *json = xasprintf(SVC(NAMES ",\"creationTimestamp\":\"%s\"", ""),
                               cases[i].json);
        char *expected =
            cases[i].s != -1
                ? xasprintf(
                    "Service ns1/web uid= version=0 created=%lld\n" PLAIN,
                    cases[i].s)
                : xasprintf("error: Service ns1/web: metadata."
                            "creationTimestamp: found \"%s\", want a time "
                            "such as 2006-01-02T15:04:05Z\n",
                            cases[i].json);

        decoding_check(MODEL_SERVICES, json, expected);
        free(expected);
        free(json);
    }
}

static void
version_that_is_no_decimal_number_is_zero(void **state OVS_UNUSED)
{
    static const struct {
        const char *json, *version;
    } cases[] = {
        { "0", "0" },
        { "42", "42" },
        { "18446744073709551615", "18446744073709551615" },
        { "18446744073709551616", "0" },
        { "", "0" },
        { "4a", "0" },
        { "-4", "0" },
        { "a-b:7", "0" },
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char *json = xasprintf(SVC(NAMES ",\"resourceVersion\":\"%s\"", ""),
                               cases[i].json);
        char *expected =
            xasprintf("Service ns1/web uid= version=%s created=0\n" PLAIN,
                      cases[i].version);

        decoding_check(MODEL_SERVICES, json, expected);
        free(expected);
        free(json);
    }
}

static void
object_of_five_megabytes_is_decoded(void **state OVS_UNUSED)
{
    struct ds json = DS_EMPTY_INITIALIZER;

    ds_put_cstr(&json, "{\"metadata\":{" NAMES ",\"annotations\":{\"a\":\"");
    ds_put_char_multiple(&json, 'x', 5 * 1024 * 1024);
    ds_put_cstr(&json, "\"}}}");
    decoding_check(MODEL_SERVICES, ds_cstr(&json),
                   "Service ns1/web uid= version=0 created=0\n" PLAIN);
    ds_destroy(&json);
}

static void
object_over_the_limit_is_bad_and_named_though_it_is_cut_off(
    void **state OVS_UNUSED)
{
    struct ds json = DS_EMPTY_INITIALIZER, found = DS_EMPTY_INITIALIZER;

    ds_put_cstr(&json, "{\"metadata\":{" NAMES ",\"annotations\":{\"a\":\"");
    ds_put_char_multiple(&json, 'x', KUBE_OBJECT_MAX);
    ds_put_cstr(&json, "\"}}}");
    decoding_check(MODEL_SERVICES, ds_cstr(&json),
                   "error: Service ns1/web: has more than 8388608 bytes\n");
    decoding_format(MODEL_SERVICES, ds_cstr(&json), KUBE_OBJECT_MAX + 1,
                    &found);
    assert_string_equal(ds_cstr(&found), "error: Service ns1/web: has more "
                                         "than 8388608 bytes\n");
    ds_destroy(&found);
    ds_destroy(&json);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recorded_lists_decode_to_the_golden_objects),
        cmocka_unit_test(recorded_watches_decode_to_the_golden_objects),
        cmocka_unit_test(object_is_the_same_however_its_json_is_written),
        cmocka_unit_test(object_that_is_cut_off_anywhere_is_bad),
        cmocka_unit_test(damaged_object_does_no_harm),
        cmocka_unit_test(names_are_there_and_are_names),
        cmocka_unit_test(names_have_the_lengths_of_the_api),
        cmocka_unit_test(bad_object_is_named_wherever_its_metadata_stands),
        cmocka_unit_test(strings_are_utf8_with_whole_escapes),
        cmocka_unit_test(null_byte_in_a_string_is_bad),
        cmocka_unit_test(what_is_not_read_may_hold_anything),
        cmocka_unit_test(brackets_have_to_match),
        cmocka_unit_test(integers_are_in_range_and_have_no_fraction),
        cmocka_unit_test(wrong_value_is_shown_up_to_a_limit),
        cmocka_unit_test(times_are_in_the_format_of_the_api),
        cmocka_unit_test(version_that_is_no_decimal_number_is_zero),
        cmocka_unit_test(object_of_five_megabytes_is_decoded),
        cmocka_unit_test(
            object_over_the_limit_is_bad_and_named_though_it_is_cut_off),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
