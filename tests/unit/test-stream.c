/* SPDX-License-Identifier: Apache-2.0 */
/* Lists, cut into items: recordings of a real API server in pieces of every
 * size, and bodies that are no lists. */

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

/* A body as a sequence of pieces.  'size' says how large the next piece is;
 * it gets the offset. */
struct pieces {
    size_t (*size)(size_t pos, void *aux);
    void *aux;
};

static size_t
whole(size_t pos OVS_UNUSED, void *aux OVS_UNUSED)
{
    return SIZE_MAX;
}

static size_t
single_bytes(size_t pos OVS_UNUSED, void *aux OVS_UNUSED)
{
    return 1;
}

/* Two pieces, cut at '*aux'. */
static size_t
split_at(size_t pos, void *aux)
{
    const size_t *cut = aux;

    return pos < *cut ? *cut - pos : SIZE_MAX;
}

/* Pieces of up to 2000 bytes from a seed that '*aux' holds. */
static size_t
random_sizes(size_t pos OVS_UNUSED, void *aux)
{
    uint32_t *seed = aux;

    *seed = *seed * 1103515245 + 12345;
    return 1 + (*seed >> 16) % 2000;
}

/* Reads a list, and appends the items, a line each, and how it ended. */
static void
read_list(const char *body, size_t len, struct pieces pieces, struct ds *ret)
{
    struct kube_list *list = kube_list_create();
    const char *text, *rv, *cont;
    size_t pos = 0, text_len, n;
    struct err err;
    int error = 0;

    for (; !error && pos < len; pos += n) {
        char *piece;

        n = pieces.size(pos, pieces.aux);
        n = MIN(n, len - pos);
        /* A copy, so that no reading beyond its end stays unseen. */
        piece = xmemdup(body + pos, n);
        error = kube_list_feed(list, piece, n, &err);
        while (!error && kube_list_next(list, &text, &text_len)) {
            ds_put_buffer(ret, text, text_len);
            ds_put_char(ret, '\n');
        }
        free(piece);
    }
    if (!error) {
        error = kube_list_end(list, &rv, &cont, &err);
    }
    if (error) {
        assert_int_equal(error, EINVAL);
        ds_put_cstr(ret, err.msg);
    } else {
        ds_put_format(ret, "version \"%s\" continue \"%s\"", rv, cont);
    }
    kube_list_destroy(list);
}

static void
check_list(const char *body, size_t len, struct pieces pieces,
           const char *expected)
{
    struct ds found = DS_EMPTY_INITIALIZER;

    read_list(body, len, pieces, &found);
    assert_string_equal(ds_cstr(&found), expected);
    ds_destroy(&found);
}

/* Recordings. */

static const char *const list_recordings[] = {
    "services.json",
    "services-selected.json",
    "services-not-headless.json",
    "services-rv0.json",
    "services-empty.json",
    "services-page-1.json",
    "services-page-2.json",
    "services-page-3.json",
    "services-page-4.json",
    "endpointslices.json",
    "endpointslices-selected.json",
    "nodes.json",
    "node-one.json",
    "gateways.json",
    "clusterinfoimports.json",
};

/* Checks the items against those that a JSON library sees. */
static void
check_items(const struct ds *body, const char *found)
{
    json_t *list = json_loadb(body->string, body->length, 0, NULL);
    json_t *meta = json_object_get(list, "metadata"), *item;
    const char *cont = json_string_value(json_object_get(meta, "continue"));
    char *end;
    size_t i;

    json_array_foreach(json_object_get(list, "items"), i, item)
    {
        size_t n = strcspn(found, "\n");
        json_t *cut = json_loadb(found, n, 0, NULL);

        assert_true(json_equal(cut, item));
        json_decref(cut);
        found += n + 1;
    }
    end =
        xasprintf("version \"%s\" continue \"%s\"",
                  json_string_value(json_object_get(meta, "resourceVersion")),
                  cont ? cont : "");
    assert_string_equal(found, end);
    free(end);
    json_decref(list);
}

static void
recorded_list_is_cut_into_the_items_that_a_json_library_sees(
    void **state OVS_UNUSED)
{
    for (size_t i = 0; i < ARRAY_SIZE(list_recordings); i++) {
        struct ds body = DS_EMPTY_INITIALIZER, found = DS_EMPTY_INITIALIZER;

        recording_read(list_recordings[i], &body);
        read_list(body.string, body.length, (struct pieces){ whole, NULL },
                  &found);
        check_items(&body, ds_cstr(&found));
        ds_destroy(&found);
        ds_destroy(&body);
    }
}

static void
recorded_list_is_the_same_in_pieces_of_any_size(void **state OVS_UNUSED)
{
    for (size_t i = 0; i < ARRAY_SIZE(list_recordings); i++) {
        struct ds body = DS_EMPTY_INITIALIZER, once = DS_EMPTY_INITIALIZER;

        recording_read(list_recordings[i], &body);
        read_list(body.string, body.length, (struct pieces){ whole, NULL },
                  &once);
        check_list(body.string, body.length,
                   (struct pieces){ single_bytes, NULL }, ds_cstr(&once));
        for (uint32_t seed = 1; seed <= 20; seed++) {
            uint32_t random = seed;

            check_list(body.string, body.length,
                       (struct pieces){ random_sizes, &random },
                       ds_cstr(&once));
        }
        ds_destroy(&once);
        ds_destroy(&body);
    }
}

static void
d31_small_recorded_list_is_the_same_cut_at_every_byte(void **state OVS_UNUSED)
{
    static const char *const names[] = {
        "services-empty.json",     "gateways.json",
        "clusterinfoimports.json", "node-one.json",
        "error-401.json",          "error-404-group.txt",
        "error-406.txt",           "services-page-4.json",
    };

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        struct ds body = DS_EMPTY_INITIALIZER, once = DS_EMPTY_INITIALIZER;
        char *padded;

        /* The end of what an error shows depends on the piece. */
        recording_read(names[i], &body);
        read_list(body.string, body.length, (struct pieces){ whole, NULL },
                  &once);
        padded = ds_cstr(&once);
        for (size_t cut = 0; cut <= body.length; cut++) {
            struct ds found = DS_EMPTY_INITIALIZER;

            read_list(body.string, body.length,
                      (struct pieces){ split_at, &cut }, &found);
            if (strncmp(padded, "not a list: ", 12)) {
                assert_string_equal(ds_cstr(&found), padded);
            } else {
                assert_memory_equal(ds_cstr(&found), padded, 12);
            }
            ds_destroy(&found);
        }
        ds_destroy(&once);
        ds_destroy(&body);
    }
}

/* Made up lists. */

#define META "\"metadata\":{\"resourceVersion\":\"7\"}"
#define END  "version \"7\" continue \"\""

static void
list_may_be_written_in_any_way(void **state OVS_UNUSED)
{
    static const struct {
        const char *body, *expected;
    } cases[] = {
        /* Any order. */
        { "{\"items\":[{\"a\":1},{}]," META ",\"kind\":\"XList\"}",
          "{\"a\":1}\n{}\n" END },
        { "{" META ",\"kind\":\"List\",\"items\":[]}", END },
        /* No items. */
        { "{\"kind\":\"XList\"," META ",\"items\":null}", END },
        /* Blanks wherever they may be. */
        { " \r\n{ \"kind\" : \"XList\" , " META " ,\r\n\t\"items\" : [ {} , "
          "{\r\n} ] } \r\n",
          "{}\n{\r\n}\n" END },
        /* Members that are not known, with whatever in them. */
        { "{\"x\":{\"items\":[1,{\"]}\":2}]},\"y\":[[\"\\\"\"]],\"z\":-1.5e3,"
          "\"t\":true,\"n\":null,\"s\":\"}\\\\\",\"kind\":\"XList\"," META
          ",\"items\":[{}],\"u\":false}",
          "{}\n" END },
        /* Escapes, in names too. */
        { "{\"k\\u0069nd\":\"X\\u004cist\",\"metadata\":{"
          "\"resourceVersion\":\"\\u0037\"},\"\\u0069tems\":[{}]}",
          "{}\n" END },
        /* The last of several counts. */
        { "{\"kind\":\"Status\",\"kind\":\"XList\",\"metadata\":{"
          "\"resourceVersion\":\"6\",\"continue\":\"c\"}," META
          ",\"items\":[]}",
          "version \"7\" continue \"\"" },
        { "{\"kind\":\"XList\",\"metadata\":{\"resourceVersion\":\"6\","
          "\"resourceVersion\":\"7\",\"continue\":\"a\\\"b\",\"remaining"
          "ItemCount\":3,\"selfLink\":null},\"items\":[{}]}",
          "{}\nversion \"7\" continue \"a\"b\"" },
        /* What is wrong within an item is for its decoder to say. */
        { "{\"kind\":\"XList\"," META ",\"items\":[1,\"a]\",null,[],{\"a\" 1,,"
          "}, {]},{\"\xff\x01\":tru}]}",
          "1\n\"a]\"\nnull\n[]\n{\"a\" 1,,}\n{]\n" },
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct ds found = DS_EMPTY_INITIALIZER;
        size_t n = strlen(cases[i].expected);

        read_list(cases[i].body, strlen(cases[i].body),
                  (struct pieces){ whole, NULL }, &found);
        /* The last case goes wrong after its items. */
        if (found.length > n) {
            found.string[n] = '\0';
        }
        assert_string_equal(ds_cstr(&found), cases[i].expected);
        ds_destroy(&found);
    }
}

static const struct {
    const char *body, *expected;
} no_lists[] = {
    { "", "not a list: the body is empty" },
    { "<html><head><title>502 Bad Gateway</title></head></html>",
      "not a list: the body begins with \"<html><head><title>502 Bad "
      "Gateway</title></head></html>\"" },
    { "404 page not found\n",
      "not a list: the body begins with \"404 page not found?\"" },
    { "[]", "not a list: the body begins with \"[]\"" },
    { "null", "not a list: the body begins with \"null\"" },
    { "  ", "broken list: cut off after 0 items and 2 bytes, before the "
            "object of a list" },
    { "{}", "not a list: an object without a kind" },
    { "{\"kind\":\"Status\",\"message\":\"too old\",\"code\":410}",
      "not a list but of kind \"Status\": too old" },
    { "{\"kind\":\"Service\"," META "}",
      "not a list but of kind \"Service\"" },
    { "{\"kind\":\"Table\"," META ",\"items\":[{}]}",
      "not a list but of kind \"Table\"" },
    { "{\"items\":[],\"kind\":\"Table\"," META "}",
      "not a list but of kind \"Table\"" },
    { "{\"kind\":\"XList\"," META "}",
      "broken list: a \"XList\" without items" },
    { "{\"kind\":\"XList\",\"items\":[]}",
      "broken list: a \"XList\" without metadata.resourceVersion" },
    { "{\"kind\":\"XList\"," META ",\"metadata\":{},\"items\":[]}",
      "broken list: a \"XList\" without metadata.resourceVersion" },
    { "{\"kind\":\"XList\",\"metadata\":null,\"items\":[]}",
      "broken list: a \"XList\" without metadata.resourceVersion" },
    { "{\"kind\":\"XList\",\"metadata\":{\"resourceVersion\":7}",
      "broken list: metadata: resourceVersion: found 7, want a string" },
    { "{\"kind\":\"XList\",\"metadata\":[]}",
      "broken list: metadata: found an array, want an object" },
    { "{\"kind\":7,\"items\":[]}",
      "broken list: kind: found 7, want a string" },
    { "{\"kind\":\"XList\",\"items\":{}}",
      "broken list: items: found an object, want an array" },
    { "{\"kind\":\"XList\",\"items\":nul}",
      "broken list: items: found nul, want an array" },
    { "{\"kind\":\"XList\",\"items\":[],\"items\":[]}",
      "broken list: more than one \"items\"" },
    { "{\"kind\":\"XList\"," META ",\"items\":[]}x",
      "broken list: after 0 items and 62 bytes: found \"x\", want the end "
      "of the body" },
    { "{\"kind\":\"XList\"," META ",\"items\":[]}{}",
      "broken list: after 0 items and 62 bytes: found \"{}\", want the "
      "end of the body" },
    { "{\"kind\":\"XList\",\"items\":[{}{}]",
      "broken list: after 1 items and 27 bytes: found \"{}]\", want \",\" "
      "or \"]\"" },
    { "{\"kind\":\"XList\",\"items\":[{},]",
      "broken list: after 1 items and 28 bytes: found \"]\", want an "
      "item" },
    { "{\"kind\":\"XList\",\"items\":[,",
      "broken list: after 0 items and 25 bytes: found \",\", want an "
      "item" },
    { "{\"kind\":\"XList\",}",
      "broken list: after 0 items and 16 bytes: found \"}\", want a "
      "member" },
    { "{kind:1}", "broken list: after 0 items and 1 bytes: found "
                  "\"kind:1}\", want a member" },
    { "{\"kind\" \"XList\"}",
      "broken list: after 0 items and 8 bytes: found \"\"XList\"}\", want "
      "\":\"" },
    { "{\"kind\":}", "broken list: after 0 items and 8 bytes: found "
                     "\"}\", want a value" },
    { "{\"kind\":\"XList\" \"a\":1}",
      "broken list: after 0 items and 16 bytes: found \"\"a\":1}\", want "
      "\",\" or \"}\"" },
    { "{\"ki\\xnd\":1}", "broken list: found \"ki\\xnd\", want valid "
                         "UTF-8 and escapes, and no null byte" },
};

static void
what_is_no_list_is_an_error_that_says_what_came(void **state OVS_UNUSED)
{
    for (size_t i = 0; i < ARRAY_SIZE(no_lists); i++) {
        struct ds found = DS_EMPTY_INITIALIZER;
        const char *error;

        read_list(no_lists[i].body, strlen(no_lists[i].body),
                  (struct pieces){ whole, NULL }, &found);
        error = strrchr(ds_cstr(&found), '\n');
        assert_string_equal(error ? error + 1 : ds_cstr(&found),
                            no_lists[i].expected);
        ds_destroy(&found);
    }
}

static void
null_byte_between_tokens_is_an_error(void **state OVS_UNUSED)
{
    static const char body[] = "{\"kind\":\"XList\",\0";

    check_list(body, sizeof body - 1, (struct pieces){ whole, NULL },
               "broken list: after 0 items and 16 bytes: found \"\", want a "
               "member");
}

static void
list_that_is_cut_off_anywhere_is_no_list(void **state OVS_UNUSED)
{
    struct ds body = DS_EMPTY_INITIALIZER;

    recording_read("services-page-4.json", &body);
    ds_chomp(&body, '\n');
    for (size_t n = 1; n < body.length; n++) {
        struct ds found = DS_EMPTY_INITIALIZER;
        const char *end;

        read_list(body.string, n, (struct pieces){ whole, NULL }, &found);
        end = strrchr(ds_cstr(&found), '\n');
        end = end ? end + 1 : ds_cstr(&found);
        assert_memory_equal(end, "broken list: cut off after ", 27);
        ds_destroy(&found);
    }
    ds_destroy(&body);
}

static void
error_sticks(void **state OVS_UNUSED)
{
    struct kube_list *list = kube_list_create();
    const char *text, *rv, *cont;
    struct err err;
    size_t len;

    assert_false(kube_list_feed(list, "]", 1, &err));
    assert_false(kube_list_next(list, &text, &len));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(kube_list_feed(list, "{}", 2, &err), EINVAL);
        assert_string_equal(err.msg, "not a list: the body begins with \"]\"");
        assert_false(kube_list_next(list, &text, &len));
        assert_int_equal(kube_list_end(list, &rv, &cont, &err), EINVAL);
    }
    kube_list_destroy(list);
    kube_list_destroy(NULL);
}

static void
item_that_lies_in_the_piece_is_not_copied(void **state OVS_UNUSED)
{
    static const char body[] = "{\"kind\":\"XList\",\"items\":[{\"a\":1},{";
    struct kube_list *list = kube_list_create();
    struct err err;
    const char *text;
    size_t len;

    assert_false(kube_list_feed(list, body, strlen(body), &err));
    assert_true(kube_list_next(list, &text, &len));
    assert_ptr_equal(text, strstr(body, "{\"a\""));
    assert_int_equal(len, 7);
    assert_false(kube_list_next(list, &text, &len));
    kube_list_destroy(list);
}

/* Sizes. */

/* Appends an object of exactly 'n' bytes. */
static void
put_object_of(struct ds *ds, size_t n)
{
    ds_put_cstr(ds, "{\"s\":\"");
    ds_put_char_multiple(ds, 'x', n - 8);
    ds_put_cstr(ds, "\"}");
}

static void
check_size(size_t n)
{
    struct ds body = DS_EMPTY_INITIALIZER, found = DS_EMPTY_INITIALIZER;
    size_t n_kept = MIN(n, KUBE_OBJECT_MAX + 1);
    uint32_t seed = 1;

    ds_put_cstr(&body, "{\"kind\":\"XList\"," META ",\"items\":[");
    put_object_of(&body, n);
    ds_put_cstr(&body, ",{}]}");
    read_list(body.string, body.length, (struct pieces){ random_sizes, &seed },
              &found);
    assert_int_equal(strcspn(ds_cstr(&found), "\n"), n_kept);
    assert_string_equal(ds_cstr(&found) + n_kept, "\n{}\n" END);
    ds_destroy(&found);
    ds_destroy(&body);
}

static void
item_of_five_megabytes_is_read_and_one_over_the_limit_is_cut_off(
    void **state OVS_UNUSED)
{
    check_size(5 * 1024 * 1024);
    check_size(KUBE_OBJECT_MAX);
    check_size(KUBE_OBJECT_MAX + 1);
    check_size(KUBE_OBJECT_MAX + 100000);
}

static void
member_that_is_not_known_may_have_any_size(void **state OVS_UNUSED)
{
    struct ds body = DS_EMPTY_INITIALIZER;

    ds_put_cstr(&body, "{\"kind\":\"XList\",\"x\":");
    put_object_of(&body, KUBE_OBJECT_MAX + 1000);
    ds_put_cstr(&body, "," META ",\"items\":[{}]}");
    check_list(body.string, body.length, (struct pieces){ whole, NULL },
               "{}\n" END);
    ds_destroy(&body);
}

static void
check_depth(size_t depth, const char *expected)
{
    struct ds body = DS_EMPTY_INITIALIZER, found = DS_EMPTY_INITIALIZER;
    const char *end;

    ds_put_cstr(&body, "{\"kind\":\"XList\"," META ",\"items\":[");
    ds_put_char_multiple(&body, '[', depth);
    ds_put_char_multiple(&body, ']', depth);
    ds_put_cstr(&body, "]}");
    read_list(body.string, body.length, (struct pieces){ whole, NULL },
              &found);
    end = strchr(ds_cstr(&found), '\n');
    end = end ? end + 1 : ds_cstr(&found);
    assert_memory_equal(end, expected, strlen(expected));
    ds_destroy(&found);
    ds_destroy(&body);
}

static void
nesting_has_a_limit_that_no_api_server_passes(void **state OVS_UNUSED)
{
    check_depth(1000, END);
    check_depth(10000, END);
    check_depth(10001, "broken list: after 0 items and 60 bytes: found \"[[[");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            recorded_list_is_cut_into_the_items_that_a_json_library_sees),
        cmocka_unit_test(recorded_list_is_the_same_in_pieces_of_any_size),
        cmocka_unit_test(
            d31_small_recorded_list_is_the_same_cut_at_every_byte),
        cmocka_unit_test(list_may_be_written_in_any_way),
        cmocka_unit_test(what_is_no_list_is_an_error_that_says_what_came),
        cmocka_unit_test(null_byte_between_tokens_is_an_error),
        cmocka_unit_test(list_that_is_cut_off_anywhere_is_no_list),
        cmocka_unit_test(error_sticks),
        cmocka_unit_test(item_that_lies_in_the_piece_is_not_copied),
        cmocka_unit_test(
            item_of_five_megabytes_is_read_and_one_over_the_limit_is_cut_off),
        cmocka_unit_test(member_that_is_not_known_may_have_any_size),
        cmocka_unit_test(nesting_has_a_limit_that_no_api_server_passes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
