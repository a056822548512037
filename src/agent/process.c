/* SPDX-License-Identifier: Apache-2.0 */
/* What Prometheus' client libraries tell of the process they are in. */

#include "metrics.h"

#include <dirent.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

static double
cpu_seconds(void)
{
    struct rusage usage;

    if (getrusage(RUSAGE_SELF, &usage)) {
        return 0;
    }
    return (double) usage.ru_utime.tv_sec + (double) usage.ru_stime.tv_sec
           + (double) (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static void
put_memory(struct ds *ds)
{
    unsigned long int total = 0, resident = 0;
    FILE *stream = fopen("/proc/self/statm", "re");

    if (stream) {
        if (fscanf(stream, "%lu %lu", &total, &resident) != 2) {
            total = resident = 0;
        }
        fclose(stream);
    }
    metrics_put_one(ds, METRIC_RSS,
                    (double) resident * (double) sysconf(_SC_PAGESIZE));
    metrics_put_one(ds, METRIC_VSZ,
                    (double) total * (double) sysconf(_SC_PAGESIZE));
}

static size_t
count_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    size_t n = 0;

    while (dir && readdir(dir)) {
        n++;
    }
    if (dir) {
        closedir(dir);
    }
    /* Without ".", ".." and that of the directory. */
    return n > 3 ? n - 3 : 0;
}

void
metrics_put_process(struct ds *ds, int64_t start_ns)
{
    struct rlimit limit = { .rlim_cur = 0 };

    metrics_put_one(ds, METRIC_CPU, cpu_seconds());
    put_memory(ds);
    metrics_put_one(ds, METRIC_FDS, (double) count_fds());
    metrics_put_one(ds, METRIC_MAX_FDS,
                    getrlimit(RLIMIT_NOFILE, &limit)
                        ? 0
                        : (double) limit.rlim_cur);
    metrics_put_one(ds, METRIC_START, (double) start_ns / 1e9);
}
