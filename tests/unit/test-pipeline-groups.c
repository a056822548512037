/* SPDX-License-Identifier: Apache-2.0 */

/* Tests of groups: any number of endpoints, and what changes with one. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <util.h>

#include "../support/pipefix.h"
#include "ofproxyd/base/hash.h"

/* Numbers of endpoints around every limit, both families: no group is too
 * large, and no more groups than it takes. */
static void
check_group_sizes(const struct fout *out, size_t n_eps)
{
    size_t n_groups = 0;

    for (size_t i = 0; i < out->n; i++) {
        if (fitem_kind(out->items[i]) == FITEM_GROUP) {
            n_groups++;
            assert_true(fitem_size(out->items[i]) <= FITEM_GROUP_MAX_BYTES);
        }
    }
    if (n_eps <= 550) {
        assert_int_equal(n_groups, 1);
    } else {
        assert_true(n_groups >= 1 + DIV_ROUND_UP(n_eps, 550));
        assert_true(n_groups <= 2 + n_eps / 250);
    }
}

static void
d1_d2_any_number_of_endpoints_fits(void **state)
{
    static const size_t numbers[] = { 1,    2,    63,   64,    65,    511,
                                      512,  549,  550,  551,   600,   700,
                                      744,  745,  800,  900,   1000,  1001,
                                      1500, 5000, 9999, 10000, 100000 };

    (void) state;
    for (int family = 0; family < N_IP_FAMILIES; family++) {
        for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
            size_t n = numbers[i];
            struct eps *eps = pipefix_eps(family, n);
            struct pipe_target target = { PIPE_SELECT, eps, n };
            struct fout out = FOUT_INIT;

            assert_int_equal(pipefix_render(family, PROTO_TCP, target, &out,
                                            NULL),
                             0);
            check_group_sizes(&out, n);
            fout_clear(&out);
            assert_int_equal(pipefix_render_affine(family, PROTO_TCP, 1,
                                                   target, &out),
                             0);
            check_group_sizes(&out, n);
            fout_clear(&out);
            free(eps);
        }
    }
}

static int
compare_eps(const void *a, const void *b)
{
    return eps_compare(a, b);
}

/* Collects the endpoints of all groups of 'out'. */
static void
assert_groups_lead_to(const struct fout *out, const struct eps *eps, size_t n)
{
    struct eps *all = xmalloc(n * sizeof *all);
    size_t n_found = 0;

    for (size_t i = 0; i < out->n; i++) {
        struct eps *found;
        size_t n_here = pipe_group_endpoints(out->items[i], &found);

        assert_true(n_found + n_here <= n);
        for (size_t j = 0; j < n_here; j++) {
            all[n_found + j] = found[j];
        }
        assert_true((found != NULL) == (n_here != 0));
        n_found += n_here;
        free(found);
    }
    assert_int_equal(n_found, n);
    qsort(all, n, sizeof *all, compare_eps);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(eps_compare(&all[i], &eps[i]), 0);
    }
    free(all);
}

/* An endpoint less is a change of the one group that had it. */
static void
d4_one_endpoint_less_changes_one_group(void **state)
{
    static const size_t numbers[] = { 65, 550, 700, 5001, 10000, 99999 };

    (void) state;
    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
        size_t n = numbers[i], n_changed = 0;
        struct eps *eps = pipefix_eps(IP_V4, n);
        struct pipe_target target = { PIPE_SELECT, eps, n };
        struct fout before = FOUT_INIT, after = FOUT_INIT;

        assert_int_equal(pipefix_render(IP_V4, PROTO_TCP, target, &before,
                                        NULL),
                         0);
        memmove(&eps[n / 3], &eps[n / 3 + 1], (n - n / 3 - 1) * sizeof *eps);
        target.n_eps--;
        assert_int_equal(pipefix_render(IP_V4, PROTO_TCP, target, &after,
                                        NULL),
                         0);
        assert_int_equal(after.n, before.n);
        for (size_t j = 0; j < after.n; j++) {
            n_changed += !fitem_equals(before.items[j], after.items[j]);
        }
        assert_int_equal(n_changed, 1);
        fout_clear(&before);
        fout_clear(&after);
        free(before.items);
        free(after.items);
        free(eps);
    }
}

/* Endpoints whose hashes are all alike, as somebody may choose them. */
static void
d2_chosen_endpoints_fit_too(void **state)
{
    struct eps *all = pipefix_eps(IP_V4, 40000);
    struct eps *eps = xmalloc(2000 * sizeof *eps);
    struct pipe_target target = { PIPE_SELECT, eps, 0 };
    struct fout out = FOUT_INIT;

    (void) state;
    for (size_t i = 0; i < 40000 && target.n_eps < 2000; i++) {
        uint8_t port[2] = { (uint8_t) (all[i].port >> 8),
                            (uint8_t) all[i].port };
        uint32_t hash = stable_hash(&all[i].ip, sizeof all[i].ip, 1);

        if (stable_hash(port, sizeof port, hash) < UINT32_MAX / 12) {
            eps[target.n_eps++] = all[i];
        }
    }
    assert_int_equal(target.n_eps, 2000);
    assert_int_equal(pipefix_render(IP_V4, PROTO_TCP, target, &out, NULL), 0);
    check_group_sizes(&out, 2000);
    assert_groups_lead_to(&out, eps, 2000);
    fout_clear(&out);
    free(out.items);
    free(eps);
    free(all);
}

static void
a_group_tells_its_endpoints(void **state)
{
    static const size_t numbers[] = { 1, 2, 64, 65, 550, 1001 };

    (void) state;
    for (int family = 0; family < N_IP_FAMILIES; family++) {
        for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
            size_t n = numbers[i];
            struct eps *eps = pipefix_eps(family, n);
            struct pipe_target target = { PIPE_SELECT, eps, n };
            struct fout out = FOUT_INIT;

            assert_int_equal(pipefix_render(family, PROTO_UDP, target, &out,
                                            NULL),
                             0);
            assert_groups_lead_to(&out, eps, n);
            fout_clear(&out);
            assert_int_equal(pipefix_render_affine(family, PROTO_UDP, 9,
                                                   target, &out),
                             0);
            assert_groups_lead_to(&out, eps, n);
            fout_clear(&out);
            free(eps);
        }
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(d1_d2_any_number_of_endpoints_fits),
        cmocka_unit_test(d4_one_endpoint_less_changes_one_group),
        cmocka_unit_test(d2_chosen_endpoints_fit_too),
        cmocka_unit_test(a_group_tells_its_endpoints),
    };

    return cmocka_run_group_tests_name("pipeline-groups", tests, NULL, NULL);
}
