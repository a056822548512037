/* SPDX-License-Identifier: Apache-2.0 */
/* The YAML reader: the tree that it builds, where it says that things stand,
 * and every kind of text that it refuses. */

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include <openvswitch/dynamic-string.h>
#include <util.h>

#include "../support/tmpdir.h"
#include "ofproxyd/config/yaml.h"

static int
parse(const char *text, size_t len, struct ydoc_node **ret, struct err *err)
{
    /* Exactly as large as the text, for the sanitizer. */
    char *copy = xmemdup(text, len ? len : 1);
    int error = ydoc_parse("f", copy, len, ret, err);
    free(copy);
    return error;
}

static struct ydoc_node *
parse_ok(const char *text)
{
    struct ydoc_node *root;
    struct err err;
    if (parse(text, strlen(text), &root, &err)) {
        fail_msg("%s", err.msg);
    }
    return root;
}

static void
assert_error(const char *text, size_t len, const char *message)
{
    struct ydoc_node *root;
    struct err err;
    assert_int_equal(parse(text, len, &root, &err), EINVAL);
    assert_string_equal(err.msg, message);
}

/* Writes 'node' in one line: kind, place, text. */
static void
dump(const struct ydoc_node *node, struct ds *ds)
{
    ds_put_format(ds, "%d:%d", node->line, node->column);
    switch (node->kind) {
    case YDOC_NULL: ds_put_cstr(ds, "null"); break;
    case YDOC_SCALAR:
        ds_put_format(ds, node->quoted ? "\"%s\"" : "%s", node->text);
        break;
    case YDOC_LIST:
        ds_put_char(ds, '[');
        for (size_t i = 0; i < node->n; i++) {
            ds_put_cstr(ds, i ? " " : "");
            dump(node->values[i], ds);
        }
        ds_put_char(ds, ']');
        break;
    case YDOC_MAP:
        ds_put_char(ds, '{');
        for (size_t i = 0; i < node->n; i++) {
            ds_put_cstr(ds, i ? " " : "");
            dump(node->keys[i], ds);
            ds_put_char(ds, '=');
            dump(node->values[i], ds);
        }
        ds_put_char(ds, '}');
        break;
    }
}

static void
trees_know_where_each_value_stands(void **state OVS_UNUSED)
{
    static const struct {
        const char *text, *tree;
    } cases[] = {
        /* Nothing at all is a document, too. */
        { "", "1:1null" },
        { "# only a comment\n", "1:1null" },
        { "---\n", "2:1null" },
        { "--- ~\n...\n", "1:5null" },
        { "\n\n", "1:1null" },

        { "a: b\n", "1:1{1:1a=1:4b}" },
        { "a:\n  b: 'c'\n  d: \"e\"\n",
          "1:1{1:1a=2:3{2:3b=2:6\"c\" 3:3d=3:6\"e\"}}" },
        { "a: [x, 1, [], {}]\n", "1:1{1:1a=1:4[1:5x 1:8"
                                 "1 1:11[] 1:15{}]}" },
        { "- a\n- b: c\n", "1:1[1:3a 2:3{2:3b=2:6c}]" },
        { "a:\nb: ~\nc: null\nd: 'null'\n",
          "1:1{1:1a=1:3null 2:1b=2:4null 3:1c=3:4null 4:1d=4:4\"null\"}" },
        { "a: |\n  x\n  y\n", "1:1{1:1a=1:4\"x\ny\n\"}" },
        { "null: 1\n", "1:1{1:1null=1:7"
                       "1}" },

        /* JSON, also indented by tabs. */
        { "{\n\t\"a\": {\n\t\t\"b\": [true, null]\n\t}\n}\n",
          "1:1{2:2\"a\"=2:7{3:3\"b\"=3:8[3:9true 3:15null]}}" },

        /* Line ends of other systems, a byte order mark, UTF-8. */
        { "a: 5%\n", "1:1{1:1a=1:4"
                     "5%}" },
        { "a: b\r\nc: d\r\n", "1:1{1:1a=1:4b 2:1c=2:4d}" },
        { "a: b\rc: d\r", "1:1{1:1a=1:4b 2:1c=2:4d}" },
        { "\xef\xbb\xbf"
          "a: b\n",
          "1:2{1:2a=1:5b}" },
        { "\xc3\xa4: \xf0\x9f\x98\x80\n",
          "1:1{1:1\xc3\xa4=1:4\xf0\x9f\x98\x80}" },

        /* Tabs that indent nothing. */
        { "a:\tb\t# c\n", "1:1{1:1a=1:4b}" },
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct ydoc_node *root = parse_ok(cases[i].text);
        struct ds ds = DS_EMPTY_INITIALIZER;
        dump(root, &ds);
        assert_string_equal(ds_cstr(&ds), cases[i].tree);
        ds_destroy(&ds);
        ydoc_destroy(root);
    }
}

#define TEXT(LITERAL) LITERAL, sizeof LITERAL - 1
static const struct {
    const char *text;
    size_t len;
    const char *message;
} refused_texts[] = {
    /* What YAML allows and a configuration doesn't need. */
    { TEXT("a: &x 1\n"),
      "f:1:4: anchor \"&x\": anchors and aliases are not allowed" },
    { TEXT("a:\n  - &x {}\n"),
      "f:2:5: anchor \"&x\": anchors and aliases are not allowed" },
    { TEXT("&x [1]\n"),
      "f:1:1: anchor \"&x\": anchors and aliases are not allowed" },
    { TEXT("&k a: 1\n"),
      "f:1:1: anchor \"&k\": anchors and aliases are not allowed" },
    { TEXT("a: 1\nb: *x\n"),
      "f:2:4: alias \"*x\": anchors and aliases are not allowed" },
    { TEXT("a: !!str 1\n"), "f:1:4: tag \"tag:yaml.org,2002:str\": tags "
                            "are not allowed" },
    { TEXT("a: !x {}\n"), "f:1:4: tag \"!x\": tags are not allowed" },
    { TEXT("a: !x []\n"), "f:1:4: tag \"!x\": tags are not allowed" },
    { TEXT("a:\n  <<: {b: c}\n"), "f:2:3: merge key \"<<\" is not allowed" },
    { TEXT("? [a]\n: b\n"), "f:1:3: a key has to be a word" },
    { TEXT("{a: b}: c\n"), "f:1:1: a key has to be a word" },
    { TEXT("? a\n? {}\n"), "f:2:3: a key has to be a word" },
    { TEXT("?\n: b\n"), "f:1:2: a key is missing" },
    { TEXT("\"\": b\n"), "f:1:1: a key is missing" },
    { TEXT("a: 1\n---\nb: 2\n"),
      "f:2:1: a second document begins here, only one is allowed" },
    { TEXT("a: 1\n...\n---\n"),
      "f:3:1: a second document begins here, only one is allowed" },

    /* Twice the same key. */
    { TEXT("a: 1\nb: 2\na: 3\n"),
      "f:3:1: duplicate key \"a\", first on line 1" },
    { TEXT("{a: 1, 'a': 3}\n"),
      "f:1:8: duplicate key \"a\", first on line 1" },
    { TEXT("x:\n  b: 1\n  a: 2\n  b: 3\n  a: 4\n"),
      "f:4:3: duplicate key \"b\", first on line 2" },

    /* Characters. */
    { TEXT("a: 1\nb: \0\n"), "f:2:4: null byte" },
    { TEXT("\0"), "f:1:1: null byte" },
    { TEXT("a: \"\\0\"\n"), "f:1:4: null byte in a string" },
    { TEXT("a:\n  b: \x01\n"), "f:2:6: control character U+0001" },
    { TEXT("a: \x7f"), "f:1:4: control character U+007F" },
    { TEXT("a: \xc2\x80"), "f:1:4: control character U+0080" },
    { TEXT("a: \xef\xbf\xbf"), "f:1:4: control character U+FFFF" },
    { TEXT("\xc3\xa4\xc3\xa4: \xff\n"),
      "f:1:5: byte 0xff is not part of valid UTF-8" },
    { TEXT("a: \xc3"), "f:1:4: byte 0xc3 is not part of valid UTF-8" },
    { TEXT("a: \xc3x"), "f:1:4: byte 0xc3 is not part of valid UTF-8" },
    { TEXT("a: \xc0\x80"), "f:1:4: byte 0xc0 is not part of valid UTF-8" },
    { TEXT("a: \xc1\xbf"), "f:1:4: byte 0xc1 is not part of valid UTF-8" },
    { TEXT("a: \xe0\x9f\xbf"), "f:1:4: byte 0xe0 is not part of valid UTF-8" },
    { TEXT("a: \xe0\x80\x80"), "f:1:4: byte 0xe0 is not part of valid UTF-8" },
    { TEXT("a: \xed\xa0\x80"), "f:1:4: byte 0xed is not part of valid UTF-8" },
    { TEXT("a: \xf4\x90\x80\x80"),
      "f:1:4: byte 0xf4 is not part of valid UTF-8" },
    { TEXT("\r\n\r\xe2\x80\xa8\xff"),
      "f:4:1: byte 0xff is not part of valid UTF-8" },
    /* UTF-16. */
    { TEXT("\xff\xfe"
           "a\0"),
      "f:1:1: byte 0xff is not part of valid UTF-8" },

    /* Tabs. */
    { TEXT("a:\n\tb: 1\n"), "f:2:1: a tab is not allowed as indentation" },
    { TEXT("a:\n  b: 1\n\tc: 2\n"),
      "f:3:1: a tab is not allowed as indentation" },
    { TEXT("a:\n  b: 1\n \t c: 2\n"),
      "f:3:2: a tab is not allowed as indentation" },

    /* No YAML. */
    { TEXT("a: [1, 2\n"), "f:2:1: not valid YAML: did not find expected "
                          "',' or ']' while parsing a flow sequence that "
                          "begins on line 1" },
    { TEXT("a: \"b\n"),
      "f:2:1: not valid YAML: found unexpected end of stream while "
      "scanning a quoted scalar that begins on line 1" },
    { TEXT("a: b: c\n"),
      "f:1:5: not valid YAML: mapping values are not allowed in this "
      "context" },
    { TEXT("a: 1\n b: 2\n"),
      "f:2:3: not valid YAML: mapping values are not allowed in this "
      "context" },
    { TEXT("a:\n  - b\n c: d\n"),
      "f:3:2: not valid YAML: did not find expected key while parsing a "
      "block mapping that begins on line 1" },
    { TEXT("@a\n"),
      "f:1:1: not valid YAML: found character that cannot start any "
      "token while scanning for the next token" },
    { TEXT("%YAML 1.1\n---\na: 1\n"), "f:1:1: directives are not allowed" },
    { TEXT("a: 1\n...\n%TAG ! x\n"), "f:3:1: directives are not allowed" },
};

static void
texts_that_are_refused_are_named_with_line_and_column(void **state OVS_UNUSED)
{
    for (size_t i = 0; i < ARRAY_SIZE(refused_texts); i++) {
        assert_error(refused_texts[i].text, refused_texts[i].len,
                     refused_texts[i].message);
    }
}

/* Returns 'n' times 'piece'. */
static char *
repeat(const char *piece, size_t n)
{
    struct ds ds = DS_EMPTY_INITIALIZER;
    for (size_t i = 0; i < n; i++) {
        ds_put_cstr(&ds, piece);
    }
    return ds_steal_cstr(&ds);
}

static void
ten_thousand_levels_are_refused_without_a_crash(void **state OVS_UNUSED)
{
    static const char *const pieces[] = { "[", "{a: ", "- ", "? ", "[{a: " };

    for (size_t i = 0; i < ARRAY_SIZE(pieces); i++) {
        char *text = repeat(pieces[i], 10000);
        struct ydoc_node *root;
        struct err err;
        assert_int_equal(parse(text, strlen(text), &root, &err), EINVAL);
        assert_non_null(strstr(err.msg, ": nested deeper than 64 levels"));
        free(text);
    }
}

static void
a_thousand_indented_levels_are_refused_without_a_crash(void **state OVS_UNUSED)
{
    struct ds ds = DS_EMPTY_INITIALIZER;
    for (int i = 0; i < 1000; i++) {
        ds_put_format(&ds, "%*sa:\n", i, "");
    }
    assert_error(ds_cstr(&ds), ds.length,
                 "f:65:65: nested deeper than 64 levels");
    ds_destroy(&ds);
}

static void
sixty_four_levels_are_accepted(void **state OVS_UNUSED)
{
    char *open = repeat("[", YDOC_MAX_DEPTH);
    char *close = repeat("]", YDOC_MAX_DEPTH);
    char *text = xasprintf("%sx%s", open, close);
    ydoc_destroy(parse_ok(text));
    free(text);

    text = xasprintf("[%sx%s]", open, close);
    assert_error(text, strlen(text), "f:1:66: nested deeper than 64 levels");
    free(text);
    free(open);
    free(close);
}

static void
more_values_than_allowed_are_refused(void **state OVS_UNUSED)
{
    char *items = repeat("- a\n", YDOC_MAX_NODES);
    assert_error(items, strlen(items),
                 "f:100000:3: more than 100000 keys and values");

    /* The list itself counts, too. */
    items[strlen(items) - strlen("- a\n")] = '\0';
    ydoc_destroy(parse_ok(items));
    free(items);
}

static void
many_keys_take_little_time(void **state OVS_UNUSED)
{
    /* The comparison of all pairs would take minutes. */
    struct ds ds = DS_EMPTY_INITIALIZER;
    for (int i = 0; i < 49998; i++) {
        ds_put_format(&ds, "key-number-%d:\n", i);
    }
    ydoc_destroy(parse_ok(ds_cstr(&ds)));
    ds_put_cstr(&ds, "key-number-17:\n");
    assert_error(ds_cstr(&ds), ds.length,
                 "f:49999:1: duplicate key \"key-number-17\", first on line "
                 "18");
    ds_destroy(&ds);
}

static void
a_text_over_the_limit_is_refused(void **state OVS_UNUSED)
{
    char *text = repeat("#", YDOC_MAX_BYTES + 1);
    assert_error(text, YDOC_MAX_BYTES + 1,
                 "f: 1048577 bytes, allowed at most 1048576");
    struct ydoc_node *root;
    struct err err;
    assert_int_equal(parse(text, YDOC_MAX_BYTES, &root, &err), 0);
    ydoc_destroy(root);
    free(text);
}

static void
long_scalars_are_kept_whole(void **state OVS_UNUSED)
{
    char *word = repeat("x", 1000000);
    struct ydoc_node *root = parse_ok(word);
    assert_string_equal(root->text, word);

    char buf[YDOC_DESCRIBE_MAX];
    assert_string_equal(
        ydoc_describe(root, buf),
        "\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...\"");
    ydoc_destroy(root);
    free(word);
}

static void
values_are_found_by_key_and_described(void **state OVS_UNUSED)
{
    struct ydoc_node *root = parse_ok("a: b\nl: [1]\nm: {x: y}\nn:\n");
    char buf[YDOC_DESCRIBE_MAX];
    assert_string_equal(ydoc_describe(ydoc_get(root, "a"), buf), "\"b\"");
    assert_string_equal(ydoc_describe(ydoc_get(root, "l"), buf), "a list");
    assert_string_equal(ydoc_describe(ydoc_get(root, "m"), buf), "a mapping");
    assert_string_equal(ydoc_describe(ydoc_get(root, "n"), buf), "nothing");
    assert_null(ydoc_get(root, "b"));
    assert_null(ydoc_get(ydoc_get(root, "a"), "a"));
    ydoc_destroy(root);
    ydoc_destroy(NULL);
}

/* Files. */

static void
assert_read_error(const char *path, int error, const char *format)
{
    char *text;
    size_t len;
    struct err err;
    assert_int_equal(ydoc_read_file(path, &text, &len, &err), error);
    char *message = xasprintf("%s: %s", path, format);
    assert_string_equal(err.msg, message);
    free(message);
}

static void
a_file_of_100_mb_is_refused_without_reading_it(void **state)
{
    char *path = tmpdir_write(*state, "big", "", 0);
    assert_int_equal(truncate(path, 100 * 1024 * 1024), 0);
    assert_read_error(path, EFBIG,
                      "the file has 104857600 bytes, allowed at most "
                      "1048576");
    free(path);
}

static void
what_is_no_regular_file_is_refused(void **state)
{
    char *path = xasprintf("%s/fifo", (char *) *state);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_read_error(path, EINVAL, "not a regular file");
    free(path);
    assert_read_error(*state, EINVAL, "not a regular file");
    assert_read_error("/dev/zero", EINVAL, "not a regular file");
    assert_read_error("/nonexistent/file", ENOENT,
                      "No such file or directory");
}

static void
a_file_is_read_whole(void **state)
{
    char *path = tmpdir_write(*state, "file", "a: b\n", 5);
    char *text;
    size_t len;
    struct err err;
    assert_int_equal(ydoc_read_file(path, &text, &len, &err), 0);
    assert_int_equal(len, 5);
    assert_string_equal(text, "a: b\n");
    free(text);
    free(path);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trees_know_where_each_value_stands),
        cmocka_unit_test(
            texts_that_are_refused_are_named_with_line_and_column),
        cmocka_unit_test(ten_thousand_levels_are_refused_without_a_crash),
        cmocka_unit_test(
            a_thousand_indented_levels_are_refused_without_a_crash),
        cmocka_unit_test(sixty_four_levels_are_accepted),
        cmocka_unit_test(more_values_than_allowed_are_refused),
        cmocka_unit_test(many_keys_take_little_time),
        cmocka_unit_test(a_text_over_the_limit_is_refused),
        cmocka_unit_test(long_scalars_are_kept_whole),
        cmocka_unit_test(values_are_found_by_key_and_described),
        cmocka_unit_test(a_file_of_100_mb_is_refused_without_reading_it),
        cmocka_unit_test(what_is_no_regular_file_is_refused),
        cmocka_unit_test(a_file_is_read_whole),
    };
    return cmocka_run_group_tests_name("yaml", tests, tmpdir_setup,
                                       tmpdir_teardown);
}
