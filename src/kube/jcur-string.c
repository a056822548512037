/* SPDX-License-Identifier: Apache-2.0 */
/* Cursor over JSON text: strings.
 *
 * Nearly all strings are plain ASCII and are handed out as they stand in the
 * text; the rest is checked and, where it has escapes, decoded. */

#include "jcur.h"

#include <string.h>

#include "jscan.h"

/* Bytes that end the plain part of a string. */
static bool
is_special(unsigned char c)
{
    return c < 0x20 || c == '"' || c == '\\' || c >= 0x80;
}

static bool
in_range(unsigned char c, unsigned char min, unsigned char max)
{
    return c >= min && c <= max;
}

/* Returns the length of the UTF-8 sequence of two to four bytes at 'p' (RFC
 * 3629: shortest form, no surrogates, at most U+10FFFF), or 0. */
static size_t
utf8_sequence(const char *text, size_t left)
{
    const unsigned char *p = (const unsigned char *) text;
    unsigned char lead = p[0], min = 0x80, max = 0xbf;
    size_t n = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;

    if (!in_range(lead, 0xc2, 0xf4) || n > left) {
        return 0;
    }
    switch (lead) {
    case 0xe0: min = 0xa0; break;
    case 0xed: max = 0x9f; break;
    case 0xf0: min = 0x90; break;
    case 0xf4: max = 0x8f; break;
    }
    if (!in_range(p[1], min, max)) {
        return 0;
    }
    for (size_t i = 2; i < n; i++) {
        if (!in_range(p[i], 0x80, 0xbf)) {
            return 0;
        }
    }
    return n;
}

static size_t
utf8_encode(uint32_t code, unsigned char *out)
{
    if (code < 0x80) {
        out[0] = code;
        return 1;
    } else if (code < 0x800) {
        out[0] = 0xc0 | code >> 6;
        out[1] = 0x80 | (code & 0x3f);
        return 2;
    } else if (code < 0x10000) {
        out[0] = 0xe0 | code >> 12;
        out[1] = 0x80 | (code >> 6 & 0x3f);
        out[2] = 0x80 | (code & 0x3f);
        return 3;
    }
    out[0] = 0xf0 | code >> 18;
    out[1] = 0x80 | (code >> 12 & 0x3f);
    out[2] = 0x80 | (code >> 6 & 0x3f);
    out[3] = 0x80 | (code & 0x3f);
    return 4;
}

/* Reads the four hexadecimal digits of a \u at 'p'.  Returns false if they
 * are not that. */
static bool
hex4(const char *p, const char *end, uint32_t *ret)
{
    uint32_t value = 0;

    if (end - p < 4) {
        return false;
    }
    for (size_t i = 0; i < 4; i++) {
        unsigned char c = p[i];

        value <<= 4;
        if (in_range(c, '0', '9')) {
            value |= c - '0';
        } else if (in_range(c | 0x20, 'a', 'f')) {
            value |= (c | 0x20) - 'a' + 10;
        } else {
            return false;
        }
    }
    *ret = value;
    return true;
}

/* Decodes the \u escape at 'p', which stands behind "\u", and its second
 * half if it is one of a pair.  Returns the place behind, or NULL. */
static const char *
decode_unicode(const char *p, const char *end, uint32_t *ret)
{
    uint32_t code, low;

    if (!hex4(p, end, &code)) {
        return NULL;
    }
    p += 4;
    if (code >= 0xd800 && code <= 0xdfff) {
        if (code >= 0xdc00 || end - p < 6 || p[0] != '\\' || p[1] != 'u'
            || !hex4(p + 2, end, &low) || low < 0xdc00 || low > 0xdfff) {
            return NULL;
        }
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
        p += 6;
    }
    *ret = code;
    return p;
}

/* Decodes the escape at 'p', behind its backslash, to '*out' and moves that
 * on.  Returns the place behind the escape, or NULL. */
static const char *
decode_escape(const char *p, const char *end, unsigned char **out)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char *known;
    uint32_t code;

    if (p >= end) {
        return NULL;
    }
    if (*p == 'u') {
        p = decode_unicode(p + 1, end, &code);
        /* A null byte can't be in any name that matters here. */
        if (!p || !code) {
            return NULL;
        }
        *out += utf8_encode(code, *out);
        return p;
    }
    known = *p ? strchr(from, *p) : NULL;
    if (!known) {
        return NULL;
    }
    *(*out)++ = to[known - from];
    return p + 1;
}

/* Decodes the inside of a string, from 'p' to its closing quote 'end'.  No
 * escape is shorter than what it stands for. */
static bool
decode(struct jcur *c, const char *p, const char *end, struct jstr *ret)
{
    unsigned char *start = jcur_alloc(c, end - p + 1), *out = start;

    while (p < end) {
        size_t n = 1;

        if (*p == '\\') {
            p = decode_escape(p + 1, end, &out);
            if (!p) {
                return false;
            }
            continue;
        } else if ((unsigned char) *p >= 0x80) {
            n = utf8_sequence(p, end - p);
        } else if ((unsigned char) *p < 0x20) {
            n = 0;
        }
        if (!n) {
            return false;
        }
        memcpy(out, p, n);
        out += n;
        p += n;
    }
    *ret = (struct jstr){ (const char *) start, out - start };
    return true;
}

struct jstr
jcur_string(struct jcur *c)
{
    struct jstr none = { "", 0 }, ret;
    struct jscan scan = JSCAN_INIT;
    const char *at, *p;
    size_t n;

    if (jcur_null(c)) {
        return none;
    } else if (jcur_peek(c) != '"') {
        jcur_mismatch(c, c->p, "a string");
        return none;
    }
    at = c->p;
    p = at + 1;
    while (p < c->end && !is_special(*p)) {
        p++;
    }
    if (p < c->end && *p == '"') {
        c->p = p + 1;
        return (struct jstr){ at + 1, p - at - 1 };
    }
    if (jscan_run(&scan, at, c->end - at, &n) != JSCAN_DONE) {
        jcur_fail(c, "the text ends within this string");
        return none;
    } else if (!decode(c, at + 1, at + n - 1, &ret)) {
        jcur_mismatch(c, at, "valid UTF-8 and escapes, and no null byte");
        return none;
    }
    c->p = at + n;
    return ret;
}

struct jstr
jcur_key(struct jcur *c)
{
    const char *at = jcur_here(c), *p;

    if (jcur_peek(c) != '"') {
        jcur_mismatch(c, at, "the name of a member");
        return (struct jstr){ "", 0 };
    }
    p = at + 1;
    while (p < c->end && *p != '"' && *p != '\\') {
        p++;
    }
    if (p < c->end && *p == '"') {
        c->p = p + 1;
        return (struct jstr){ at + 1, p - at - 1 };
    }
    return jcur_string(c);
}

const char *
jcur_text(struct jcur *c, size_t max)
{
    const char *at;
    struct jstr s;
    char *ret;

    at = jcur_here(c);
    s = jcur_string(c);
    if (s.n > max) {
        jcur_mismatch(c, at, "a string of at most %zu bytes", max);
    }
    if (!s.n || c->failed) {
        return "";
    }
    ret = jcur_alloc(c, s.n + 1);
    memcpy(ret, s.s, s.n);
    ret[s.n] = '\0';
    return ret;
}
