/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_BASE_METRIC_H
#define OFPROXYD_BASE_METRIC_H 1

/* Metrics in Prometheus' text format 0.0.4, and histograms.  Pure. */

#include <stddef.h>
#include <stdint.h>

#include <openvswitch/dynamic-string.h>

enum metric_type {
    METRIC_COUNTER,
    METRIC_GAUGE,
    METRIC_HISTOGRAM
};

struct metric_label {
    const char *name, *value;
};

/* Begins a family, all of whose samples follow: its HELP and TYPE. */
void metric_begin(struct ds *, const char *name, enum metric_type,
                  const char *help);

/* Appends one sample of the family that was begun last. */
void metric_put(struct ds *, const char *name, const struct metric_label *,
                size_t n_labels, double value);

/* Cumulative only when it is written. */
struct metric_histogram {
    const double *bounds; /* Of the buckets, ascending; +Inf is left out. */
    size_t n_bounds;
    uint64_t *counts; /* 'n_bounds' + 1. */
    uint64_t n;
    double sum;
};

/* 'bounds' must stay. */
void metric_histogram_init(struct metric_histogram *, const double *bounds,
                           size_t n_bounds);
void metric_histogram_uninit(struct metric_histogram *);

/* Counts one value. */
void metric_histogram_observe(struct metric_histogram *, double value);

/* Appends buckets, sum and count, each with 'labels'. */
void metric_put_histogram(struct ds *, const char *name,
                          const struct metric_label *labels, size_t n_labels,
                          const struct metric_histogram *);

#endif /* ofproxyd/base/metric.h */
