/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes the "-data" values of kubeconfig files. */

#include "base64.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <util.h>

/* Returns the value of the digit 'c', -1 if it is none. */
static int
digit(char c)
{
    return c >= 'A' && c <= 'Z'   ? c - 'A'
           : c >= 'a' && c <= 'z' ? c - 'a' + 26
           : c >= '0' && c <= '9' ? c - '0' + 52
           : c == '+'             ? 62
           : c == '/'             ? 63
                                  : -1;
}

char *
base64_decode(const char *s)
{
    char *out = xmalloc(strlen(s) / 4 * 3 + 4);
    size_t len = 0;
    size_t n_digits = 0;
    size_t n_pads = 0;
    uint32_t bits = 0;

    for (; *s; s++) {
        if (*s == '\n' || *s == '\r') {
            continue;
        }
        int value = *s == '=' ? 0 : digit(*s);
        n_pads += *s == '=';
        if (value < 0 || (n_pads && *s != '=')) {
            goto error;
        }
        bits = bits << 6 | value;
        if (++n_digits % 4 == 0) {
            out[len++] = (char) (bits >> 16 & 0xff);
            out[len++] = (char) (bits >> 8 & 0xff);
            out[len++] = (char) (bits & 0xff);
        }
    }
    if (n_digits % 4 || n_pads > 2 || n_pads > len) {
        goto error;
    }
    len -= n_pads;
    out[len] = '\0';
    if (memchr(out, 0, len)) {
        goto error;
    }
    return out;

error:
    free(out);
    return NULL;
}
