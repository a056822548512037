/* SPDX-License-Identifier: Apache-2.0 */
/* Times in the API's format. */

#include "decode-part.h"

#include <string.h>

/* Takes 'n' digits at '*p' that make a number from 'min' to 'max'. */
static bool
take_number(const char **p, int n, int min, int max, int *ret)
{
    int value = 0;

    for (int i = 0; i < n; i++) {
        if (**p < '0' || **p > '9') {
            return false;
        }
        value = value * 10 + (*(*p)++ - '0');
    }
    *ret = value;
    return value >= min && value <= max;
}

static bool
take_char(const char **p, char c)
{
    return **p == c && (*p)++;
}

/* Takes "HH:MM". */
static bool
take_minutes(const char **p, int *ret)
{
    int h, m;

    if (!take_number(p, 2, 0, 23, &h) || !take_char(p, ':')
        || !take_number(p, 2, 0, 59, &m)) {
        return false;
    }
    *ret = h * 60 + m;
    return true;
}

/* Takes "YYYY-MM-DD", as days since 1970-01-01. */
static bool
take_days(const char **p, int *ret)
{
    int y, m, d;

    if (!take_number(p, 4, 0, 9999, &y) || !take_char(p, '-')
        || !take_number(p, 2, 1, 12, &m) || !take_char(p, '-')
        || !take_number(p, 2, 1, 31, &d)) {
        return false;
    }
    /* Let years begin in March, so that the leap day is their last. */
    y -= m <= 2;
    m = (m + 9) % 12;
    *ret = y * 365 + (y >= 0 ? y / 4 - y / 100 + y / 400 : -1)
           + (153 * m + 2) / 5 + d - 1 - 719468;
    return true;
}

/* Takes the zone, as minutes east of UTC. */
static bool
take_zone(const char **p, int *ret)
{
    *ret = 0;
    if (take_char(p, 'Z')) {
        return true;
    } else if (take_char(p, '+')) {
        return take_minutes(p, ret);
    } else if (take_char(p, '-') && take_minutes(p, ret)) {
        *ret = -*ret;
        return true;
    }
    return false;
}

/* Takes what may follow the seconds, as nanoseconds; more digits are cut
 * off. */
static bool
take_fraction(const char **p, int *ret_ns)
{
    int ns = 0, n = 0;

    *ret_ns = 0;
    if (!take_char(p, '.')) {
        return true;
    }
    for (; **p >= '0' && **p <= '9'; (*p)++, n++) {
        if (n < 9) {
            ns = ns * 10 + (**p - '0');
        }
    }
    for (int i = n; i < 9; i++) {
        ns *= 10;
    }
    *ret_ns = ns;
    return n > 0;
}

static bool
take_time(const char *p, int64_t *ret_s, int *ret_ns)
{
    int days, minutes, seconds, zone;

    if (!take_days(&p, &days) || !take_char(&p, 'T')
        || !take_minutes(&p, &minutes) || !take_char(&p, ':')
        || !take_number(&p, 2, 0, 60, &seconds) || !take_fraction(&p, ret_ns)
        || !take_zone(&p, &zone) || *p) {
        return false;
    }
    *ret_s = (days * INT64_C(1440) + minutes - zone) * 60 + seconds;
    return true;
}

bool
decode_time(const char *text, int64_t *ret_s)
{
    int ns;

    return take_time(text, ret_s, &ns);
}

bool
decode_time_ns(const char *text, int64_t *ret_ns)
{
    int64_t s, ns;
    int fraction;

    if (!take_time(text, &s, &fraction)
        || __builtin_mul_overflow(s, INT64_C(1000000000), &ns)
        || __builtin_add_overflow(ns, fraction, &ns)) {
        return false;
    }
    *ret_ns = ns;
    return true;
}
