/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE64_H
#define BASE64_H 1

/* Base64 (RFC 4648, section 4). */

/* Returns the text that 's' encodes, for the caller to free(); or NULL if 's'
 * is not base64 or the text would hold a null byte.  Line breaks in 's' are
 * skipped. */
char *base64_decode(const char *s);

#endif /* base64.h */
