/* SPDX-License-Identifier: Apache-2.0 */
/* Bounded, printable error texts. */

#include "ofproxyd/base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Formats into 'buf'.  A text that doesn't fit ends in "...". */
static void OVS_PRINTF_FORMAT(2, 0)
    format_bounded(char buf[ERR_MAX], const char *format, va_list args)
{
    int n = vsnprintf(buf, ERR_MAX, format, args);
    if (n < 0) {
        buf[0] = '\0';
    } else if (n >= ERR_MAX) {
        memcpy(buf + ERR_MAX - 4, "...", 4);
    }

    /* isprint() depends on the locale, the log doesn't. */
    for (char *p = buf; *p; p++) {
        if (*p < 0x20 || *p > 0x7e) {
            *p = '?';
        }
    }
}

void
err_set(struct err *err, const char *format, ...)
{
    if (err) {
        /* The arguments may point into 'err'. */
        struct err new;
        va_list args;

        va_start(args, format);
        format_bounded(new.msg, format, args);
        va_end(args);
        *err = new;
    }
}

void
err_prefix(struct err *err, const char *format, ...)
{
    if (err) {
        char prefix[ERR_MAX];
        va_list args;

        va_start(args, format);
        format_bounded(prefix, format, args);
        va_end(args);
        err_set(err, "%s%s", prefix, err->msg);
    }
}
