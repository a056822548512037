/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_KUBE_JSCAN_H
#define OFPROXYD_KUBE_JSCAN_H 1

/* Finds the end of one JSON value that arrives in pieces.
 *
 * It looks at nothing but quotes, backslashes and brackets, so it is fast,
 * and it goes on over whatever else may be wrong inside: one broken object
 * of a body must not hide where the next one begins. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Deeper nesting than this is no value at all.  Go's decoder, and with it
 * every API server, has the same limit. */
#define JSCAN_DEPTH_MAX 10000

/* Brackets are matched by kind up to this depth. */
#define JSCAN_DEPTH_EXACT 64

enum jscan_result {
    JSCAN_MORE, /* All input is used up and the value goes on. */
    JSCAN_DONE, /* The value has ended. */
    JSCAN_BAD   /* No value begins here, or it is nested too deep. */
};

struct jscan {
    enum {
        JSCAN_START,  /* Before the first byte of the value. */
        JSCAN_SCALAR, /* In a number, true, false or null. */
        JSCAN_STRING, /* In a string, on any depth. */
        JSCAN_ESCAPE, /* Behind a backslash in one. */
        JSCAN_NESTED  /* Between the tokens of an object or array. */
    } state;
    unsigned int depth;
    uint64_t stack; /* Kinds of the innermost brackets, 1 is '{'. */
    bool mismatch;  /* An object was closed by ']' or an array by '}'. */
    bool deep;      /* There were more than JSCAN_DEPTH_EXACT levels. */
};

#define JSCAN_INIT           \
    {                        \
        .state = JSCAN_START \
    }

/* Goes over the 'len' bytes at 'text', the first of which, if this is the
 * first piece, must be the value's own first byte.  Sets '*ret_used' to the
 * number of bytes of 'text' that belong to the value: on JSCAN_DONE the value
 * ends there.  The end of a number or literal shows only in the byte after
 * it. */
enum jscan_result jscan_run(struct jscan *, const char *text, size_t len,
                            size_t *ret_used);

/* True for the four bytes that JSON calls white space. */
static inline bool
jscan_is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

#endif /* kube/jscan.h */
