/* SPDX-License-Identifier: Apache-2.0 */
/* Cursor over JSON text: objects, arrays, numbers, errors.  Strings are in
 * jcur-string.c. */

#include "jcur.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <util.h>

#include "jscan.h"

/* Least size of a block of memory. */
#define BLOCK_MIN ((size_t) 16 * 1024)

/* Bytes of a wrong value that a message shows. */
#define SHOWN_MAX 40

struct jcur_block {
    struct jcur_block *next;
    char mem[] __attribute__((aligned(16)));
};

void
jcur_init(struct jcur *c, const char *text, size_t len, struct err *err)
{
    c->p = text;
    c->end = text + len;
    c->err = err;
    c->failed = false;
    c->depth = 0;
    c->mem = c->local;
    c->mem_left = sizeof c->local;
    c->blocks = NULL;
}

void
jcur_uninit(struct jcur *c)
{
    while (c->blocks) {
        struct jcur_block *block = c->blocks;

        c->blocks = block->next;
        free(block);
    }
}

void *
jcur_alloc(struct jcur *c, size_t size)
{
    size_t n = ROUND_UP(size, 16);
    void *ret;

    if (n > c->mem_left) {
        size_t room = MAX(n, BLOCK_MIN);
        struct jcur_block *block = xmalloc(sizeof *block + room);

        block->next = c->blocks;
        c->blocks = block;
        c->mem = block->mem;
        c->mem_left = room;
    }
    ret = c->mem;
    c->mem += n;
    c->mem_left -= n;
    return ret;
}

bool
jstr_equals(struct jstr a, const char *b)
{
    return a.n == strlen(b) && !memcmp(a.s, b, a.n);
}

static void
skip_blanks(struct jcur *c)
{
    while (c->p < c->end && jscan_is_blank(*c->p)) {
        c->p++;
    }
}

char
jcur_peek(struct jcur *c)
{
    skip_blanks(c);
    if (c->failed || c->p >= c->end) {
        return '\0';
    }
    return *c->p;
}

const char *
jcur_here(struct jcur *c)
{
    skip_blanks(c);
    return c->p;
}

void
jcur_reread(struct jcur *c, const char *at)
{
    c->p = at;
}

/* Errors. */

static bool
is_plain_key(const char *key, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!strchr("abcdefghijklmnopqrstuvwxyz"
                    "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_",
                    key[i])
            || !key[i]) {
            return false;
        }
    }
    return n > 0;
}

/* Formats the path, such as spec.ports[0].port, into 'buf'. */
static void
format_path(const struct jcur *c, char *buf, size_t size)
{
    size_t used = 0;

    buf[0] = '\0';
    for (size_t i = 0; i < c->depth && used < size; i++) {
        const struct jcur_level *level = &c->levels[i];
        int key_len = MIN(level->key_len, 80);

        if (!level->key) {
            used += snprintf(buf + used, size - used, "[%zu]", level->index);
        } else if (is_plain_key(level->key, level->key_len)) {
            used += snprintf(buf + used, size - used, "%s%.*s", i ? "." : "",
                             key_len, level->key);
        } else if (level->key_len) {
            used += snprintf(buf + used, size - used, "[\"%.*s\"]", key_len,
                             level->key);
        }
    }
}

/* Describes the value at 'at' in 'buf', which holds SHOWN_MAX + 8 bytes. */
static void
format_value(const struct jcur *c, const char *at, char *buf, size_t size)
{
    struct jscan scan = JSCAN_INIT;
    size_t n;

    if (at >= c->end) {
        snprintf(buf, size, "the end of the text");
    } else if (*at == '{') {
        snprintf(buf, size, "an object");
    } else if (*at == '[') {
        snprintf(buf, size, "an array");
    } else if (jscan_run(&scan, at, c->end - at, &n) == JSCAN_BAD) {
        snprintf(buf, size, "\"%c\"", *at);
    } else if (n > SHOWN_MAX) {
        snprintf(buf, size, "%.*s...%s", SHOWN_MAX, at,
                 *at == '"' ? "\"" : "");
    } else {
        snprintf(buf, size, "%.*s", (int) n, at);
    }
}

static void OVS_PRINTF_FORMAT(2, 0)
    fail_valist(struct jcur *c, const char *format, va_list args)
{
    char path[256], what[ERR_MAX];

    if (!c->failed) {
        c->failed = true;
        format_path(c, path, sizeof path);
        vsnprintf(what, sizeof what, format, args);
        err_set(c->err, "%s%s%s", path, path[0] ? ": " : "", what);
    }
}

void
jcur_fail(struct jcur *c, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fail_valist(c, format, args);
    va_end(args);
}

void
jcur_mismatch(struct jcur *c, const char *at, const char *format, ...)
{
    char found[SHOWN_MAX + 8], want[128];
    va_list args;

    if (!c->failed) {
        va_start(args, format);
        vsnprintf(want, sizeof want, format, args);
        va_end(args);
        format_value(c, at, found, sizeof found);
        jcur_fail(c, "found %s, want %s", found, want);
    }
}

void
jcur_missing(struct jcur *c, const char *key)
{
    if (!c->failed) {
        ovs_assert(c->depth < JCUR_DEPTH);
        c->levels[c->depth++] = (struct jcur_level){
            .key = key,
            .key_len = strlen(key),
        };
        jcur_fail(c, "is missing");
    }
}

/* Scalars. */

static bool
literal(struct jcur *c, const char *word)
{
    size_t n = strlen(word);

    if (c->end - c->p >= n && !memcmp(c->p, word, n)) {
        c->p += n;
        return true;
    }
    return false;
}

bool
jcur_null(struct jcur *c)
{
    return c->failed || (jcur_peek(c) == 'n' && literal(c, "null"));
}

bool
jcur_bool(struct jcur *c, bool absent)
{
    if (jcur_null(c)) {
        return absent;
    } else if (literal(c, "true")) {
        return true;
    } else if (!literal(c, "false")) {
        jcur_mismatch(c, c->p, "true or false");
    }
    return false;
}

/* Consumes an integer in JSON's notation. */
static bool
integer(struct jcur *c, int64_t *ret)
{
    bool negative = literal(c, "-");
    const char *digits = c->p;
    int64_t value = 0;
    bool overflow = false;

    while (c->p < c->end && *c->p >= '0' && *c->p <= '9') {
        overflow |= __builtin_mul_overflow(value, 10, &value);
        overflow |= __builtin_add_overflow(value, *c->p - '0', &value);
        c->p++;
    }
    *ret = negative && !overflow ? -value : value;
    return c->p > digits && !(*digits == '0' && c->p > digits + 1) && !overflow
           && !(c->p < c->end && strchr(".eE", *c->p));
}

int64_t
jcur_int(struct jcur *c, int64_t min, int64_t max, int64_t absent)
{
    const char *at;
    int64_t value;

    if (jcur_null(c)) {
        return absent;
    }
    at = jcur_here(c);
    if (!integer(c, &value) || value < min || value > max) {
        jcur_mismatch(c, at, "an integer from %lld to %lld",
                      (long long int) min, (long long int) max);
        return absent;
    }
    return value;
}

/* Consumes a value and returns its text. */
static struct jstr
span(struct jcur *c, struct jscan *scan)
{
    struct jstr ret = { "", 0 };
    enum jscan_result result;
    size_t n;

    skip_blanks(c);
    if (c->failed) {
        return ret;
    }
    result = jscan_run(scan, c->p, c->end - c->p, &n);
    if (result == JSCAN_BAD || scan->state == JSCAN_START) {
        jcur_mismatch(c, c->p, "a value");
    } else if (result == JSCAN_MORE && scan->state != JSCAN_SCALAR) {
        jcur_fail(c, "the text ends within this value");
    } else {
        ret = (struct jstr){ c->p, n };
        c->p += n;
    }
    return ret;
}

struct jstr
jcur_raw(struct jcur *c)
{
    struct jscan scan = JSCAN_INIT;

    return span(c, &scan);
}

void
jcur_skip(struct jcur *c)
{
    struct jscan scan = JSCAN_INIT;

    span(c, &scan);
    if (scan.deep) {
        jcur_fail(c, "nested deeper than %d levels", JSCAN_DEPTH_EXACT);
    } else if (scan.mismatch) {
        jcur_fail(c, "brackets don't match");
    }
}

/* Objects and arrays. */

bool
jcur_open(struct jcur *c, char bracket)
{
    if (jcur_peek(c) != bracket) {
        jcur_mismatch(c, c->p, "an %s", bracket == '{' ? "object" : "array");
        return false;
    }
    ovs_assert(c->depth < JCUR_DEPTH);
    c->p++;
    c->levels[c->depth++] = (struct jcur_level){
        .key = bracket == '{' ? "" : NULL,
        .first = true,
    };
    return true;
}

/* Moves on to the next element, or behind the closing bracket. */
static bool
advance(struct jcur *c, char close)
{
    struct jcur_level *level = &c->levels[c->depth - 1];
    char next = jcur_peek(c);

    if (c->failed) {
        return false;
    } else if (next == close) {
        c->p++;
        c->depth--;
        return false;
    } else if (level->first) {
        level->first = false;
        return true;
    } else if (next == ',') {
        c->p++;
        level->index++;
        return true;
    }
    jcur_mismatch(c, c->p, "\",\" or \"%c\"", close);
    return false;
}

bool
jcur_next(struct jcur *c)
{
    return advance(c, ']');
}

bool
jcur_next_key(struct jcur *c, struct jstr *ret)
{
    struct jcur_level *level = &c->levels[c->depth - 1];

    if (!advance(c, '}')) {
        return false;
    }
    *ret = jcur_key(c);
    level->key = ret->s;
    level->key_len = ret->n;
    if (jcur_peek(c) != ':') {
        jcur_mismatch(c, c->p, "\":\"");
        return false;
    }
    c->p++;
    return true;
}

static const struct jcur_member *
find_member(const struct jcur_member members[], size_t n, struct jstr key)
{
    for (size_t i = 0; i < n; i++) {
        if (members[i].key_len == key.n
            && !memcmp(members[i].key, key.s, key.n)) {
            return &members[i];
        }
    }
    return NULL;
}

void
jcur_object(struct jcur *c, const struct jcur_member members[], size_t n,
            void *aux)
{
    struct jstr key;

    if (jcur_null(c) || !jcur_open(c, '{')) {
        return;
    }
    while (jcur_next_key(c, &key)) {
        const struct jcur_member *m = find_member(members, n, key);

        if (m) {
            m->read(c, aux);
        } else {
            jcur_skip(c);
        }
    }
}

void
jcur_array(struct jcur *c, size_t max, void (*read)(struct jcur *, void *aux),
           void *aux)
{
    if (jcur_null(c) || !jcur_open(c, '[')) {
        return;
    }
    while (jcur_next(c)) {
        if (jcur_index(c) >= max) {
            jcur_fail(c, "more than %zu elements", max);
        } else if (!jcur_null(c)) {
            read(c, aux);
        }
    }
}

size_t
jcur_index(const struct jcur *c)
{
    return c->levels[c->depth - 1].index;
}

void
jcur_finish(struct jcur *c)
{
    skip_blanks(c);
    if (c->p < c->end) {
        jcur_mismatch(c, c->p, "the end of the text");
    }
}

void
jcur_locate(struct jcur *c, const char *const keys[], size_t n,
            const char *ret[])
{
    struct jstr key;

    for (size_t i = 0; i < n; i++) {
        ret[i] = NULL;
    }
    if (!jcur_open(c, '{')) {
        return;
    }
    while (jcur_next_key(c, &key)) {
        for (size_t i = 0; i < n; i++) {
            if (jstr_equals(key, keys[i])) {
                ret[i] = c->p;
            }
        }
        jcur_skip(c);
    }
}

void
jcur_goto(struct jcur *c, const char *key, const char *at)
{
    if (c->failed) {
        return;
    }
    ovs_assert(c->depth <= 1);
    c->depth = 1;
    c->levels[0] = (struct jcur_level){
        .key = key,
        .key_len = strlen(key),
    };
    c->p = at;
}
