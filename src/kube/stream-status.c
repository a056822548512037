/* SPDX-License-Identifier: Apache-2.0 */
/* Status bodies, and what proxies and load balancers send in their place.
 *
 * The text is only reported and looked into for hints, so a field of a wrong
 * type is as good as absent. */

#include "ofproxyd/kube/stream.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include <util.h>

#include "jcur.h"

/* Causes that are looked at; the API server gives a few. */
#define CAUSES_MAX 1000

struct reader {
    struct kube_status *status;
    bool is_status;
};

/* Puts 'text' into 'dst' as one line of words: blanks and control characters
 * become single spaces, markup is left out of a text that is markup. */
static void
copy_words(struct jstr text, char *dst, size_t size)
{
    bool markup = text.n && text.s[0] == '<', in_tag = false, gap = false;
    size_t used = 0;

    for (size_t i = 0; i < text.n && used + 2 < size; i++) {
        unsigned char c = text.s[i];

        if (markup && (c == '<' || c == '>')) {
            in_tag = c == '<';
            gap = true;
        } else if (c <= ' ' || c == 0x7f) {
            gap = true;
        } else if (!in_tag) {
            if (gap && used) {
                dst[used++] = ' ';
            }
            gap = false;
            if (c >= 0x7f) {
                c = '?';
            }
            dst[used++] = (char) c;
        }
    }
    dst[used] = '\0';
}

/* Reads a string; anything else is skipped and none. */
static struct jstr
read_string(struct jcur *c)
{
    if (jcur_peek(c) == '"') {
        return jcur_string(c);
    }
    jcur_skip(c);
    return (struct jstr){ "", 0 };
}

/* Reads a number from 0 to INT_MAX; anything else is skipped and 0. */
static int
read_number(struct jcur *c)
{
    struct jstr text = jcur_raw(c);
    struct jcur number;
    int value;

    jcur_init(&number, text.s, text.n, NULL);
    value = (int) jcur_int(&number, 0, INT_MAX, 0);
    jcur_uninit(&number);
    return value;
}

static void
read_object(struct jcur *c, const struct jcur_member members[], size_t n,
            struct reader *r)
{
    if (jcur_peek(c) == '{') {
        jcur_object(c, members, n, r);
    } else {
        jcur_skip(c);
    }
}

static void
read_kind(struct jcur *c, void *reader_)
{
    struct reader *r = reader_;

    r->is_status = jstr_equals(read_string(c), "Status");
}

static void
read_code(struct jcur *c, void *reader_)
{
    struct reader *r = reader_;

    r->status->code = read_number(c);
}

static void
read_reason(struct jcur *c, void *reader_)
{
    struct reader *r = reader_;

    copy_words(read_string(c), r->status->reason, sizeof r->status->reason);
}

static void
read_message(struct jcur *c, void *reader_)
{
    struct reader *r = reader_;

    copy_words(read_string(c), r->status->message, sizeof r->status->message);
}

static void
read_continue(struct jcur *c, void *reader_)
{
    struct reader *r = reader_;
    struct jstr s = read_string(c);

    if (s.n >= sizeof r->status->cont) {
        s.n = 0;
    }
    memcpy(r->status->cont, s.s, s.n);
    r->status->cont[s.n] = '\0';
}

static void
read_metadata(struct jcur *c, void *reader_)
{
    static const struct jcur_member members[] = {
        JCUR_MEMBER("continue", read_continue),
    };

    read_object(c, members, ARRAY_SIZE(members), reader_);
}

static void
read_cause_reason(struct jcur *c, void *reader_)
{
    struct reader *r = reader_;

    if (jstr_equals(read_string(c), "ResourceVersionTooLarge")) {
        r->status->rv_too_large = true;
    }
}

static void
read_cause(struct jcur *c, void *reader_)
{
    static const struct jcur_member members[] = {
        JCUR_MEMBER("reason", read_cause_reason),
    };

    read_object(c, members, ARRAY_SIZE(members), reader_);
}

static void
read_causes(struct jcur *c, void *reader_)
{
    if (jcur_peek(c) == '[') {
        jcur_array(c, CAUSES_MAX, read_cause, reader_);
    } else {
        jcur_skip(c);
    }
}

static void
read_retry_after(struct jcur *c, void *reader_)
{
    struct reader *r = reader_;

    r->status->retry_after_s = read_number(c);
}

static void
read_details(struct jcur *c, void *reader_)
{
    static const struct jcur_member members[] = {
        JCUR_MEMBER("retryAfterSeconds", read_retry_after),
        JCUR_MEMBER("causes", read_causes),
    };

    read_object(c, members, ARRAY_SIZE(members), reader_);
}

int
kube_status_parse(const char *text, size_t len, struct kube_status *ret)
{
    static const struct jcur_member members[] = {
        JCUR_MEMBER("kind", read_kind),
        JCUR_MEMBER("metadata", read_metadata),
        JCUR_MEMBER("message", read_message),
        JCUR_MEMBER("reason", read_reason),
        JCUR_MEMBER("details", read_details),
        JCUR_MEMBER("code", read_code),
    };
    struct reader r = { .status = ret };
    struct jcur c;
    bool ok;

    memset(ret, 0, sizeof *ret);
    jcur_init(&c, text, len, NULL);
    jcur_object(&c, members, ARRAY_SIZE(members), &r);
    jcur_finish(&c);
    ok = !c.failed && r.is_status;
    jcur_uninit(&c);
    if (!ok) {
        memset(ret, 0, sizeof *ret);
        copy_words((struct jstr){ text, len }, ret->message,
                   sizeof ret->message);
        return EINVAL;
    }
    return 0;
}
