/* SPDX-License-Identifier: Apache-2.0 */
/* Scanner for the end of a JSON value: three tight loops over byte tables. */

#include "jscan.h"

#include <string.h>

/* What a byte means between tokens, ... */
enum {
    C_OPEN = 1,
    C_CLOSE,
    C_QUOTE
};
static const uint8_t between[256] = {
    ['{'] = C_OPEN,  ['['] = C_OPEN,  ['}'] = C_CLOSE,
    [']'] = C_CLOSE, ['"'] = C_QUOTE,
};

/* ...which bytes a number or literal is made of. */
static bool
is_scalar(unsigned char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z')
           || (c >= 'A' && c <= 'Z') || c == '-' || c == '+' || c == '.';
}

/* Returns the first quote or backslash from 'p' on, or 'end'.  Strings are
 * short (a dozen bytes), so a plain loop beats memchr(). */
static const char *
string_stop(const char *p, const char *end)
{
    while (p < end && *p != '"' && *p != '\\') {
        p++;
    }
    return p;
}

static bool
start(struct jscan *s, char c)
{
    if (c == '"') {
        s->state = JSCAN_STRING;
    } else if (c == '{' || c == '[') {
        s->state = JSCAN_NESTED;
        s->depth = 1;
        s->stack = c == '{';
    } else if (is_scalar(c)) {
        s->state = JSCAN_SCALAR;
    } else {
        return false;
    }
    return true;
}

/* Goes on in a string.  Returns the place behind its closing quote, or 'end'
 * with the state still that of a string. */
static const char *
run_string(struct jscan *s, const char *p, const char *end)
{
    while (p < end) {
        if (s->state == JSCAN_ESCAPE) {
            s->state = JSCAN_STRING;
            p++;
            continue;
        }
        p = string_stop(p, end);
        if (p < end) {
            if (*p++ == '"') {
                s->state = JSCAN_NESTED;
                break;
            }
            s->state = JSCAN_ESCAPE;
        }
    }
    return p;
}

/* Returns true if the value ends here as too deep. */
static inline bool
open_bracket(struct jscan *s, char c)
{
    s->stack = s->stack << 1 | (c == '{');
    s->depth++;
    s->deep |= s->depth > JSCAN_DEPTH_EXACT;
    return s->depth > JSCAN_DEPTH_MAX;
}

/* Returns true if the value ends here. */
static inline bool
close_bracket(struct jscan *s, char c)
{
    s->mismatch |= (s->stack & 1) != (c == '}');
    s->stack >>= 1;
    s->depth--;
    return !s->depth;
}

/* Goes on between tokens up to the next quote, the end of the value or the
 * end of the input, and says by the state and the depth which it was. */
static const char *
run_nested(struct jscan *s, const char *p, const char *end)
{
    bool stop = false;

    while (p < end && !stop) {
        unsigned char c = *p++;

        switch (between[c]) {
        case C_OPEN: stop = open_bracket(s, *(p - 1)); break;
        case C_CLOSE: stop = close_bracket(s, *(p - 1)); break;
        case C_QUOTE:
            s->state = JSCAN_STRING;
            stop = true;
            break;
        }
    }
    return p;
}

enum jscan_result
jscan_run(struct jscan *s, const char *text, size_t len, size_t *ret_used)
{
    const char *p = text, *end = text + len;
    enum jscan_result result = JSCAN_MORE;

    *ret_used = 0;
    if (s->state == JSCAN_START && p < end && !start(s, *p++)) {
        return JSCAN_BAD;
    }
    if (s->state == JSCAN_SCALAR) {
        while (p < end && is_scalar(*p)) {
            p++;
        }
        *ret_used = p - text;
        return p < end ? JSCAN_DONE : JSCAN_MORE;
    }
    while (p < end && result == JSCAN_MORE) {
        if (s->state == JSCAN_NESTED) {
            p = run_nested(s, p, end);
            if (s->state == JSCAN_NESTED && !s->depth) {
                result = JSCAN_DONE;
            } else if (s->depth > JSCAN_DEPTH_MAX) {
                result = JSCAN_BAD;
            }
        } else {
            p = run_string(s, p, end);
            if (s->state == JSCAN_NESTED && !s->depth) {
                result = JSCAN_DONE;
            }
        }
    }
    *ret_used = p - text;
    return result;
}
