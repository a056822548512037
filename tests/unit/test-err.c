/* SPDX-License-Identifier: Apache-2.0 */
/* Error texts: bounded, printable, and safe to build from one another. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ofproxyd/base/err.h"

static void
text_is_formatted(void **state OVS_UNUSED)
{
    struct err err;

    err_set(&err, "%s: %d is not a port", "spec.ports[3]", 70000);
    assert_string_equal(err.msg, "spec.ports[3]: 70000 is not a port");
}

static void
prefix_stands_in_front(void **state OVS_UNUSED)
{
    struct err err;

    err_set(&err, "no address");
    err_prefix(&err, "Service \"%s\": ", "ns1/svc-a");
    assert_string_equal(err.msg, "Service \"ns1/svc-a\": no address");
}

static void
own_text_can_be_an_argument(void **state OVS_UNUSED)
{
    struct err err;

    err_set(&err, "inner");
    err_set(&err, "outer (%s)", err.msg);
    assert_string_equal(err.msg, "outer (inner)");
    err_prefix(&err, "<%s> ", err.msg);
    assert_string_equal(err.msg, "<outer (inner)> outer (inner)");
}

static void
null_is_allowed(void **state OVS_UNUSED)
{
    err_set(NULL, "%d", 1);
    err_prefix(NULL, "%d", 2);
}

static void
text_of_just_the_room_is_kept_whole(void **state OVS_UNUSED)
{
    char text[ERR_MAX];
    struct err err;

    memset(text, 'x', sizeof text);
    text[ERR_MAX - 1] = '\0';
    err_set(&err, "%s", text);
    assert_string_equal(err.msg, text);
}

static void
longer_text_ends_in_dots(void **state OVS_UNUSED)
{
    static char text[1000000];
    struct err err;

    memset(text, 'x', sizeof text - 1);
    text[ERR_MAX] = '\0';
    err_set(&err, "%s", text);
    assert_int_equal(strlen(err.msg), ERR_MAX - 1);
    assert_string_equal(err.msg + ERR_MAX - 5, "x...");

    text[ERR_MAX] = 'x';
    err_set(&err, "%s", text);
    assert_int_equal(strlen(err.msg), ERR_MAX - 1);

    err_prefix(&err, "%s", "Service: ");
    assert_int_equal(strlen(err.msg), ERR_MAX - 1);
    assert_memory_equal(err.msg, "Service: xxx", 12);
    assert_string_equal(err.msg + ERR_MAX - 4, "...");
}

static void
bytes_that_do_not_print_are_replaced(void **state OVS_UNUSED)
{
    struct err err;

    err_set(&err, "a%sb", "\n\x1b[31m\t\x7f\x80\xff~ ");
    assert_string_equal(err.msg, "a??[31m????~ b");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_formatted),
        cmocka_unit_test(prefix_stands_in_front),
        cmocka_unit_test(own_text_can_be_an_argument),
        cmocka_unit_test(null_is_allowed),
        cmocka_unit_test(text_of_just_the_room_is_kept_whole),
        cmocka_unit_test(longer_text_ends_in_dots),
        cmocka_unit_test(bytes_that_do_not_print_are_replaced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
