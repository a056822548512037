/* SPDX-License-Identifier: Apache-2.0 */
/* Credentials in files that change. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include <openvswitch/vlog.h>
#include <util.h>

#include "ofproxyd/kube/creds.h"

static char dir[] = "/tmp/test-creds-XXXXXX";

static const char *
path(const char *name)
{
    static char buf[128];

    snprintf(buf, sizeof buf, "%s/%s", dir, name);
    return buf;
}

static void
write_file(const char *name, const char *text, size_t len)
{
    int fd = open(path(name), O_WRONLY | O_CREAT | O_TRUNC, 0600);

    assert_int_not_equal(fd, -1);
    assert_int_equal(write(fd, text, len), len);
    close(fd);
}

static void
assert_token(struct creds *creds, const char *expected)
{
    struct err err;

    assert_int_equal(creds_refresh(creds, &err), 0);
    assert_string_equal(creds->token.value, expected);
    assert_int_equal(creds->token.len, strlen(expected));
}

static void
a_token_is_read_again_through_its_symbolic_link(void **state OVS_UNUSED)
{
    struct creds creds;

    creds_init(&creds);
    assert_int_equal(mkdir(path("1"), 0700), 0);
    assert_int_equal(mkdir(path("2"), 0700), 0);
    write_file("1/token", "first", 5);
    write_file("2/token", "  second\r\n", 10);
    assert_int_equal(symlink("1", path("..data")), 0);
    assert_int_equal(symlink("..data/token", path("token")), 0);

    creds_item_set(&creds.token, NULL, path("token"));
    assert_token(&creds, "first");

    char *new = xstrdup(path("..new"));
    assert_int_equal(symlink("2", new), 0);
    assert_int_equal(rename(new, path("..data")), 0);
    free(new);
    assert_token(&creds, "second");

    assert_int_equal(unlink(path("..data")), 0);
    assert_token(&creds, "second");
    creds_uninit(&creds);
}

static void
a_file_that_holds_no_token_does_not_take_the_last_one_away(
    void **state OVS_UNUSED)
{
    static const struct {
        const char *text;
        size_t len;
    } bad[] = {
        { "", 0 },          { "\n \t\r\n", 5 }, { "two words", 9 },
        { "a\r\nX: y", 8 }, { "nul\0byte", 8 }, { "\xff\xfe", 2 },
    };
    struct creds creds;

    creds_init(&creds);
    write_file("t", "good\n", 5);
    creds_item_set(&creds.token, NULL, path("t"));
    assert_token(&creds, "good");
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        write_file("t", bad[i].text, bad[i].len);
        assert_token(&creds, "good");
    }
    assert_int_equal(unlink(path("t")), 0);
    assert_token(&creds, "good");
    assert_int_equal(mkfifo(path("t"), 0600), 0);
    assert_token(&creds, "good");
    assert_int_equal(unlink(path("t")), 0);
    write_file("t", "newer", 5);
    assert_token(&creds, "newer");
    creds_uninit(&creds);
}

static void
what_was_never_read_is_an_error_that_names_the_file(void **state OVS_UNUSED)
{
    struct creds creds;
    struct err err;

    creds_init(&creds);
    creds_item_set(&creds.token, NULL, path("none"));
    assert_int_equal(creds_refresh(&creds, &err), ENOENT);
    assert_non_null(strstr(err.msg, "token file"));
    assert_non_null(strstr(err.msg, path("none")));

    creds_item_set(&creds.token, NULL, NULL);
    creds_item_set(&creds.ca, NULL, dir);
    assert_int_equal(creds_refresh(&creds, &err), EINVAL);
    assert_non_null(strstr(err.msg, "CA file"));

    write_file("empty", "", 0);
    creds_item_set(&creds.ca, NULL, path("empty"));
    assert_int_equal(creds_refresh(&creds, &err), EINVAL);
    assert_non_null(strstr(err.msg, "is empty"));

    write_file("large", "x", 1);
    assert_int_equal(truncate(path("large"), CREDS_FILE_MAX + 1), 0);
    creds_item_set(&creds.ca, NULL, path("large"));
    assert_int_equal(creds_refresh(&creds, &err), EFBIG);
    creds_uninit(&creds);
}

static void
the_text_serves_until_the_file_can_be_read(void **state OVS_UNUSED)
{
    struct creds creds;

    creds_init(&creds);
    creds_item_set(&creds.token, "given", path("late"));
    assert_token(&creds, "given");
    write_file("late", "from-file", 9);
    assert_token(&creds, "from-file");
    creds_uninit(&creds);
}

static void
contradictions_are_found(void **state OVS_UNUSED)
{
    static const struct {
        const char *cert, *key, *token;
        const char *message; /* NULL: fine. */
    } sets[] = {
        { NULL, NULL, NULL, NULL },
        { "c", "k", "t", NULL },
        { "", "", "", NULL },
        { "c", NULL, NULL, "not its key" },
        { NULL, "k", NULL, "not its certificate" },
        { NULL, NULL, "a b", "a blank or a control character" },
        { NULL, NULL, "a\nHost: x", "a blank or a control character" },
    };

    for (size_t i = 0; i < ARRAY_SIZE(sets); i++) {
        struct creds creds;
        struct err err = { "" };
        int error;

        creds_init(&creds);
        creds_item_set(&creds.cert, sets[i].cert, NULL);
        creds_item_set(&creds.key, NULL, sets[i].key);
        creds_item_set(&creds.token, sets[i].token, NULL);
        error = creds_check(&creds, &err);
        assert_int_equal(error, sets[i].message ? EINVAL : 0);
        if (sets[i].message) {
            assert_non_null(strstr(err.msg, sets[i].message));
            assert_null(strstr(err.msg, "Host"));
        }
        creds_uninit(&creds);
    }
}

static int
make_dir(void **state OVS_UNUSED)
{
    vlog_set_levels(NULL, VLF_ANY_DESTINATION, VLL_OFF);
    return mkdtemp(dir) ? 0 : -1;
}

static int
remove_dir(void **state OVS_UNUSED)
{
    char *command = xasprintf("rm -rf '%s'", dir);
    int status = system(command);

    free(command);
    return status;
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_is_read_again_through_its_symbolic_link),
        cmocka_unit_test(
            a_file_that_holds_no_token_does_not_take_the_last_one_away),
        cmocka_unit_test(what_was_never_read_is_an_error_that_names_the_file),
        cmocka_unit_test(the_text_serves_until_the_file_can_be_read),
        cmocka_unit_test(contradictions_are_found),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
