/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_DECODING_H
#define TESTS_SUPPORT_DECODING_H 1

/* Decoding of JSON into text, for tests of what comes out. */

#include <openvswitch/dynamic-string.h>

#include "ofproxyd/kube/decode.h"

/* Decodes the 'len' bytes at 'text' and appends the object as
 * objtext_format() prints it, or "error: " and the message.  Fails the
 * running cmocka test if an interned string is left, or if the result says of
 * the object's name something else than the object or the message. */
void decoding_format(enum model_kind, const char *text, size_t len,
                     struct ds *);

/* Fails the running cmocka test unless decoding_format() of 'json' gives
 * 'expected'. */
void decoding_check(enum model_kind, const char *json, const char *expected);

#endif /* tests/support/decoding.h */
