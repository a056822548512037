/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_BASE_ERR_H
#define OFPROXYD_BASE_ERR_H 1

/* The reason for a failure, in words.
 *
 * A function that can fail for a reason a person has to understand returns
 * an int (0 or a positive errno value) and fills a struct err that names the
 * object and the field.  The text is bounded and cut off with "..." when it
 * is longer, so that hostile input can't grow it.  Non-printable bytes are
 * replaced by '?'. */

#include <openvswitch/compiler.h>

#define ERR_MAX 512

struct err {
    char msg[ERR_MAX];
};

/* Sets 'err', which may be NULL, to the formatted text. */
void err_set(struct err *err, const char *format, ...) OVS_PRINTF_FORMAT(2, 3);

/* Puts the formatted text in front of what 'err', which may be NULL,
 * says. */
void err_prefix(struct err *err, const char *format, ...)
    OVS_PRINTF_FORMAT(2, 3);

#endif /* ofproxyd/base/err.h */
