/* SPDX-License-Identifier: Apache-2.0 */
/* Reads arguments of probes, which tests write, so that what is wrong with one
 * ends the program. */

#include "probearg.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

void
probearg_fail(const char *line)
{
    fprintf(stderr, "bad input: %s\n", line);
    exit(2);
}

struct ip
probearg_ip(const char *s)
{
    struct ip ip;

    if (ip_from_string(s, &ip)) {
        probearg_fail(s);
    }
    return ip;
}

struct cidr
probearg_cidr(const char *s)
{
    struct cidr cidr;

    if (cidr_parse(s, &cidr)) {
        probearg_fail(s);
    }
    return cidr;
}

long long int
probearg_cpu_us(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return ts.tv_sec * 1000000LL + ts.tv_nsec / 1000;
}
