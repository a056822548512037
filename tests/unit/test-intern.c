/* SPDX-License-Identifier: Apache-2.0 */
/* One copy of each string, for as long as somebody holds it. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <util.h>

#include "ofproxyd/base/intern.h"

static void
equal_strings_are_one_pointer(void **state OVS_UNUSED)
{
    struct intern_pool *pool = intern_pool_create();
    char text[] = "zone-a";
    const char *a = intern(pool, text, 6);

    text[0] = 'Z';
    assert_string_equal(a, "zone-a");
    assert_ptr_equal(intern(pool, "zone-a", 6), a);
    assert_ptr_not_equal(intern(pool, "zone-b", 6), a);
    assert_int_equal(intern_count(pool), 2);

    intern_unref(pool, a);
    intern_unref(pool, a);
    intern_unref(pool, intern_find(pool, "zone-b"));
    intern_pool_destroy(pool);
}

static void
length_decides_not_the_terminator(void **state OVS_UNUSED)
{
    struct intern_pool *pool = intern_pool_create();
    const char *longer = intern(pool, "http-alt", 8);
    const char *shorter = intern(pool, "http-alt", 4);
    const char *empty = intern(pool, "http-alt", 0);

    assert_string_equal(longer, "http-alt");
    assert_string_equal(shorter, "http");
    assert_string_equal(empty, "");
    assert_ptr_equal(intern_find(pool, "http"), shorter);
    assert_ptr_equal(intern_find(pool, ""), empty);
    intern_unref(pool, longer);
    intern_unref(pool, shorter);
    intern_unref(pool, empty);
    intern_pool_destroy(pool);
}

static void
string_lives_until_its_last_reference_goes(void **state OVS_UNUSED)
{
    struct intern_pool *pool = intern_pool_create();
    const char *s = intern(pool, "n1", 2);

    assert_ptr_equal(intern_ref(pool, s), s);
    intern_unref(pool, s);
    assert_ptr_equal(intern_find(pool, "n1"), s);
    intern_unref(pool, s);
    assert_null(intern_find(pool, "n1"));
    assert_int_equal(intern_count(pool), 0);
    intern_unref(pool, NULL);
    intern_pool_destroy(pool);
    intern_pool_destroy(NULL);
}

static void
many_strings_come_and_go(void **state OVS_UNUSED)
{
    struct intern_pool *pool = intern_pool_create();
    enum {
        N = 20000
    };
    static const char *held[N];

    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < N; i++) {
            char text[32];
            int len = snprintf(text, sizeof text, "node-%d", i);

            held[i] = intern(pool, text, len);
        }
        assert_int_equal(intern_count(pool), N);
        for (int i = 0; i < N; i++) {
            char text[32];

            snprintf(text, sizeof text, "node-%d", i);
            assert_ptr_equal(intern_find(pool, text), held[i]);
            intern_unref(pool, held[i]);
        }
        assert_int_equal(intern_count(pool), 0);
    }
    intern_pool_destroy(pool);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_strings_are_one_pointer),
        cmocka_unit_test(length_decides_not_the_terminator),
        cmocka_unit_test(string_lives_until_its_last_reference_goes),
        cmocka_unit_test(many_strings_come_and_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
