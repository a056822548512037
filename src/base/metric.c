/* SPDX-License-Identifier: Apache-2.0 */
/* Prometheus' text format, and histograms. */

#include "ofproxyd/base/metric.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <openvswitch/util.h>
#include <util.h>

#define MAX_EXACT 9007199254740992.0 /* 2^53 */

static const char *
type_name(enum metric_type type)
{
    switch (type) {
    case METRIC_COUNTER: return "counter";
    case METRIC_GAUGE: return "gauge";
    case METRIC_HISTOGRAM: return "histogram";
    }
    return "untyped";
}

/* A help text may hold quotes as they are, a label's value may not. */
static void
put_escaped(struct ds *ds, const char *s, bool in_quotes)
{
    for (; *s; s++) {
        if (*s == '\n') {
            ds_put_cstr(ds, "\\n");
        } else if (*s == '\\' || (in_quotes && *s == '"')) {
            ds_put_char(ds, '\\');
            ds_put_char(ds, *s);
        } else {
            ds_put_char(ds, *s);
        }
    }
}

void
metric_begin(struct ds *ds, const char *name, enum metric_type type,
             const char *help)
{
    ds_put_format(ds, "# HELP %s ", name);
    put_escaped(ds, help, false);
    ds_put_format(ds, "\n# TYPE %s %s\n", name, type_name(type));
}

/* The shortest text that reads back as the same number. */
static void
format_number(double value, char *buf, size_t size)
{
    if (isnan(value)) {
        snprintf(buf, size, "NaN");
    } else if (isinf(value)) {
        snprintf(buf, size, value > 0 ? "+Inf" : "-Inf");
    } else if (value == floor(value) && fabs(value) < MAX_EXACT) {
        snprintf(buf, size, "%.0f", value);
    } else {
        snprintf(buf, size, "%.15g", value);
        if (strtod(buf, NULL) != value) {
            snprintf(buf, size, "%.17g", value);
        }
    }
}

static void
put_labels(struct ds *ds, const struct metric_label *labels, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        ds_put_char(ds, i ? ',' : '{');
        ds_put_cstr(ds, labels[i].name);
        ds_put_cstr(ds, "=\"");
        put_escaped(ds, labels[i].value, true);
        ds_put_char(ds, '"');
    }
    if (n) {
        ds_put_char(ds, '}');
    }
}

void
metric_put(struct ds *ds, const char *name, const struct metric_label *labels,
           size_t n_labels, double value)
{
    char number[64];

    format_number(value, number, sizeof number);
    ds_put_cstr(ds, name);
    put_labels(ds, labels, n_labels);
    ds_put_char(ds, ' ');
    ds_put_cstr(ds, number);
    ds_put_char(ds, '\n');
}

void
metric_histogram_init(struct metric_histogram *h, const double *bounds,
                      size_t n_bounds)
{
    *h = (struct metric_histogram){
        .bounds = bounds,
        .n_bounds = n_bounds,
        .counts = xcalloc(n_bounds + 1, sizeof *h->counts),
    };
}

void
metric_histogram_uninit(struct metric_histogram *h)
{
    free(h->counts);
}

void
metric_histogram_observe(struct metric_histogram *h, double value)
{
    size_t i = 0;

    while (i < h->n_bounds && value > h->bounds[i]) {
        i++;
    }
    h->counts[i]++;
    h->n++;
    h->sum += value;
}

void
metric_put_histogram(struct ds *ds, const char *name,
                     const struct metric_label *labels, size_t n_labels,
                     const struct metric_histogram *h)
{
    struct metric_label *all = xmalloc((n_labels + 1) * sizeof *all);
    char *part = xasprintf("%s_bucket", name);
    char bound[64] = "+Inf";
    uint64_t n = 0;

    for (size_t i = 0; i < n_labels; i++) {
        all[i] = labels[i];
    }
    all[n_labels] = (struct metric_label){ "le", bound };
    for (size_t i = 0; i <= h->n_bounds; i++) {
        format_number(i < h->n_bounds ? h->bounds[i] : INFINITY, bound,
                      sizeof bound);
        n += h->counts[i];
        metric_put(ds, part, all, n_labels + 1, n);
    }
    free(part);
    free(all);

    part = xasprintf("%s_sum", name);
    metric_put(ds, part, labels, n_labels, h->sum);
    free(part);
    part = xasprintf("%s_count", name);
    metric_put(ds, part, labels, n_labels, h->n);
    free(part);
}
