/* SPDX-License-Identifier: Apache-2.0 */
/* Cookies and group ids: whose a flow or group is, read back from it. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <util.h>

#include "ofproxyd/flow/cookie.h"

static const struct {
    enum cookie_category category;
    uint32_t object_id;
    uint64_t cookie;
} cookies[] = {
    { COOKIE_PIPELINE, 0, UINT64_C(0xf901000000000000) },
    { COOKIE_POD, 1, UINT64_C(0xf901010000000001) },
    { COOKIE_SERVICE, 7, UINT64_C(0xf901030000000007) },
    { COOKIE_SERVICE, OBJECT_ID_MAX, UINT64_C(0xf9010300001fffff) },
    { COOKIE_NODE, UINT32_MAX, UINT64_C(0xf9010500ffffffff) },
    { COOKIE_MULTICLUSTER, 2, UINT64_C(0xf901060000000002) },
};

static void
cookie_leads_back_to_its_object(void **state OVS_UNUSED)
{
    for (size_t i = 0; i < ARRAY_SIZE(cookies); i++) {
        uint64_t cookie =
            cookie_make(cookies[i].category, cookies[i].object_id);

        assert_true(cookie == cookies[i].cookie);
        assert_true(cookie_is_ours(cookie));
        assert_int_equal(cookie_category(cookie), cookies[i].category);
        assert_int_equal(cookie_object_id(cookie), cookies[i].object_id);
    }
}

static void
c10_flows_of_another_layout_are_ours_and_foreign_ones_are_not(
    void **state OVS_UNUSED)
{
    static const struct {
        uint64_t cookie;
        bool ours;
    } cases[] = {
        { UINT64_C(0xf900000000000000), true },
        { UINT64_C(0xf9ff030000000007), true },
        { UINT64_C(0), false },
        { UINT64_C(0xf801030000000007), false },
        { UINT64_C(0xfa01030000000007), false },
        { UINT64_C(0x00f9030000000007), false },
        { UINT64_MAX, false },
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        assert_int_equal(cookie_is_ours(cases[i].cookie), cases[i].ours);
    }
}

static void
c10_antreas_flows_are_told_by_round_category_and_reserved_bits(
    void **state OVS_UNUSED)
{
    static const struct {
        uint64_t cookie;
        uint16_t round;
        bool antrea;
    } cases[] = {
        { UINT64_C(0x0001030000000000), 1, true },
        { UINT64_C(0x00010800ffffffff), 1, true },
        { UINT64_C(0x0001030000000000), 2, false },
        { UINT64_C(0x0001090000000000), 1, false },
        { UINT64_C(0x0001030100000000), 1, false },
        { UINT64_C(0x0000000000000000), 1, false },
        { UINT64_C(0xf901030000000000), 0xf901, false },
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        assert_int_equal(cookie_is_antrea(cases[i].cookie, cases[i].round),
                         cases[i].antrea);
    }
    assert_true(cookie_is_current(cookie_make(COOKIE_POD, 5)));
    assert_false(cookie_is_current(COOKIE_MAGIC));
}

static const struct {
    uint32_t object_id;
    bool local;
    uint32_t leaf;
    uint32_t group_id;
} groups[] = {
    { 0, false, 0, 0x40000000 },
    { 0, false, 1, 0x40000001 },
    { 0, true, 0, 0x40000100 },
    { 7, false, 0, 0x40000e00 },
    { 7, true, GROUP_LEAF_MAX, 0x40000fff },
    { OBJECT_ID_MAX, true, GROUP_LEAF_MAX, 0x7fffffff },
};

static void
group_id_leads_back_to_its_object(void **state OVS_UNUSED)
{
    for (size_t i = 0; i < ARRAY_SIZE(groups); i++) {
        uint32_t id = group_id_make(groups[i].object_id, groups[i].local,
                                    groups[i].leaf);

        assert_int_equal(id, groups[i].group_id);
        assert_true(group_id_is_ours(id));
        assert_int_equal(group_id_object_id(id), groups[i].object_id);
        assert_int_equal(group_id_is_leaf(id), groups[i].leaf != 0);
        /* The highest id that Open vSwitch takes. */
        assert_in_range(id, 0, 0xffffff00);
    }
}

static void
foreign_group_ids_are_not_ours(void **state OVS_UNUSED)
{
    static const uint32_t ids[] = { 0,          1,          0x3fffffff,
                                    0x80000000, 0xc0000000, 0xfffffffc };

    for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
        assert_false(group_id_is_ours(ids[i]));
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cookie_leads_back_to_its_object),
        cmocka_unit_test(
            c10_antreas_flows_are_told_by_round_category_and_reserved_bits),
        cmocka_unit_test(
            c10_flows_of_another_layout_are_ours_and_foreign_ones_are_not),
        cmocka_unit_test(group_id_leads_back_to_its_object),
        cmocka_unit_test(foreign_group_ids_are_not_ours),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
