/* SPDX-License-Identifier: Apache-2.0 */
/* Ids by preference: stable, unique, and in range. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <hash.h>
#include <util.h>

#include "ofproxyd/base/idpool.h"

static void
preferred_id_is_first_plus_hash(void **state OVS_UNUSED)
{
    struct idpool *pool = idpool_create(100, 199);
    uint32_t id;

    assert_true(idpool_alloc(pool, 7, &id));
    assert_int_equal(id, 107);
    assert_true(idpool_alloc(pool, 1042, &id));
    assert_int_equal(id, 142);
    assert_int_equal(idpool_n_used(pool), 2);
    idpool_destroy(pool);
}

static void
taken_id_gives_the_next_free_one(void **state OVS_UNUSED)
{
    struct idpool *pool = idpool_create(10, 19);
    uint32_t id;

    assert_true(idpool_take(pool, 18));
    assert_true(idpool_take(pool, 19));
    assert_true(idpool_take(pool, 10));
    assert_true(idpool_alloc(pool, 8, &id));
    assert_int_equal(id, 11);

    idpool_free(pool, 19);
    assert_true(idpool_alloc(pool, 8, &id));
    assert_int_equal(id, 19);
    idpool_destroy(pool);
}

static void
same_names_get_the_same_ids_in_any_order(void **state OVS_UNUSED)
{
    struct idpool *a = idpool_create(1, UINT32_MAX - 1);
    struct idpool *b = idpool_create(1, UINT32_MAX - 1);
    uint32_t ids[500];

    for (int i = 0; i < 500; i++) {
        assert_true(idpool_alloc(a, hash_int(i, 0), &ids[i]));
    }
    for (int i = 499; i >= 0; i--) {
        uint32_t id;

        assert_true(idpool_alloc(b, hash_int(i, 0), &id));
        assert_int_equal(id, ids[i]);
    }
    idpool_destroy(a);
    idpool_destroy(b);
}

static void
taking_refuses_what_is_taken_or_out_of_range(void **state OVS_UNUSED)
{
    struct idpool *pool = idpool_create(10, 12);

    assert_false(idpool_take(pool, 9));
    assert_false(idpool_take(pool, 13));
    assert_false(idpool_take(pool, 0));
    assert_false(idpool_take(pool, UINT32_MAX));
    assert_true(idpool_take(pool, 12));
    assert_false(idpool_take(pool, 12));
    idpool_free(pool, 12);
    assert_true(idpool_take(pool, 12));
    idpool_destroy(pool);
}

static void
full_pool_hands_out_nothing(void **state OVS_UNUSED)
{
    struct idpool *pool = idpool_create(5, 7);
    uint32_t id = 99;
    bool seen[8] = { false };

    for (int i = 0; i < 3; i++) {
        assert_true(idpool_alloc(pool, 1, &id));
        assert_in_range(id, 5, 7);
        assert_false(seen[id]);
        seen[id] = true;
    }
    id = 99;
    assert_false(idpool_alloc(pool, 1, &id));
    assert_int_equal(id, 99);
    idpool_free(pool, 6);
    assert_true(idpool_alloc(pool, 2, &id));
    assert_int_equal(id, 6);
    idpool_destroy(pool);
}

static void
whole_32_bit_range_works(void **state OVS_UNUSED)
{
    struct idpool *pool = idpool_create(0, UINT32_MAX);
    uint32_t id;

    assert_true(idpool_alloc(pool, UINT32_MAX, &id));
    assert_int_equal(id, UINT32_MAX);
    assert_true(idpool_alloc(pool, UINT32_MAX, &id));
    assert_int_equal(id, 0);
    idpool_destroy(pool);
}

static void
b7_thousand_cycles_leave_nothing_in_use(void **state OVS_UNUSED)
{
    struct idpool *pool = idpool_create(1, 1000000);

    for (uint32_t i = 0; i < 1000; i++) {
        uint32_t ids[20];

        for (int j = 0; j < 20; j++) {
            assert_true(idpool_alloc(pool, hash_2words(i, j), &ids[j]));
        }
        for (int j = 0; j < 20; j++) {
            idpool_free(pool, ids[j]);
        }
    }
    assert_int_equal(idpool_n_used(pool), 0);
    idpool_destroy(pool);
    idpool_destroy(NULL);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(preferred_id_is_first_plus_hash),
        cmocka_unit_test(taken_id_gives_the_next_free_one),
        cmocka_unit_test(same_names_get_the_same_ids_in_any_order),
        cmocka_unit_test(taking_refuses_what_is_taken_or_out_of_range),
        cmocka_unit_test(full_pool_hands_out_nothing),
        cmocka_unit_test(whole_32_bit_range_works),
        cmocka_unit_test(b7_thousand_cycles_leave_nothing_in_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
