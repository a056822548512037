/* SPDX-License-Identifier: Apache-2.0 */
/* base/metric: Prometheus' text format. */

#include "ofproxyd/base/metric.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <util.h>

static void
assert_text(struct ds *ds, const char *want)
{
    assert_string_equal(ds_cstr(ds), want);
    ds_destroy(ds);
}

static void
family_is_its_help_its_type_and_its_samples(void **state OVS_UNUSED)
{
    const struct metric_label labels[] = { { "a", "1" }, { "b", "" } };
    struct ds ds = DS_EMPTY_INITIALIZER;

    metric_begin(&ds, "x_total", METRIC_COUNTER, "Some \"x\".");
    metric_put(&ds, "x_total", labels, 2, 3);
    metric_put(&ds, "x_total", NULL, 0, 0.5);
    assert_text(&ds, "# HELP x_total Some \"x\".\n"
                     "# TYPE x_total counter\n"
                     "x_total{a=\"1\",b=\"\"} 3\n"
                     "x_total 0.5\n");
}

static void
what_would_break_the_format_is_escaped(void **state OVS_UNUSED)
{
    const struct metric_label label = { "a", "\"\\\n{}" };
    struct ds ds = DS_EMPTY_INITIALIZER;

    metric_begin(&ds, "x", METRIC_GAUGE, "One\\two\nlines.");
    metric_put(&ds, "x", &label, 1, 1);
    assert_text(&ds, "# HELP x One\\\\two\\nlines.\n"
                     "# TYPE x gauge\n"
                     "x{a=\"\\\"\\\\\\n{}\"} 1\n");
}

static void
numbers_are_as_short_as_can_be(void **state OVS_UNUSED)
{
    static const struct {
        double value;
        const char *text;
    } cases[] = {
        { 0, "x 0\n" },
        { -1, "x -1\n" },
        { 0.001, "x 0.001\n" },
        { 16.384, "x 16.384\n" },
        { 1e15, "x 1000000000000000\n" },
        { 1764460800.123456, "x 1764460800.123456\n" },
        { 0.1 + 0.2, "x 0.30000000000000004\n" },
        { INFINITY, "x +Inf\n" },
        { -INFINITY, "x -Inf\n" },
        { NAN, "x NaN\n" },
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct ds ds = DS_EMPTY_INITIALIZER;

        metric_put(&ds, "x", NULL, 0, cases[i].value);
        assert_text(&ds, cases[i].text);
    }
}

static void
buckets_of_a_histogram_are_cumulative(void **state OVS_UNUSED)
{
    static const double bounds[] = { 0.5, 1, 2 };
    const struct metric_label label = { "f", "v4" };
    struct metric_histogram h;
    struct ds ds = DS_EMPTY_INITIALIZER;

    metric_histogram_init(&h, bounds, ARRAY_SIZE(bounds));
    metric_histogram_observe(&h, 0.25);
    metric_histogram_observe(&h, 1); /* A bound belongs to its bucket. */
    metric_histogram_observe(&h, 1.5);
    metric_histogram_observe(&h, 100);
    metric_begin(&ds, "x", METRIC_HISTOGRAM, "X.");
    metric_put_histogram(&ds, "x", &label, 1, &h);
    assert_text(&ds, "# HELP x X.\n"
                     "# TYPE x histogram\n"
                     "x_bucket{f=\"v4\",le=\"0.5\"} 1\n"
                     "x_bucket{f=\"v4\",le=\"1\"} 2\n"
                     "x_bucket{f=\"v4\",le=\"2\"} 3\n"
                     "x_bucket{f=\"v4\",le=\"+Inf\"} 4\n"
                     "x_sum{f=\"v4\"} 102.75\n"
                     "x_count{f=\"v4\"} 4\n");
    metric_histogram_uninit(&h);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(family_is_its_help_its_type_and_its_samples),
        cmocka_unit_test(what_would_break_the_format_is_escaped),
        cmocka_unit_test(numbers_are_as_short_as_can_be),
        cmocka_unit_test(buckets_of_a_histogram_are_cumulative),
    };

    return cmocka_run_group_tests_name("metric", tests, NULL, NULL);
}
