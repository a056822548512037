/* SPDX-License-Identifier: Apache-2.0 */
/* Watches, cut into events.
 *
 * An event is a line, so that whatever is wrong within one object can't hide
 * where the next event begins. */

#include "ofproxyd/kube/stream.h"

#include <errno.h>

#include <util.h>

#include "jcur.h"
#include "jscan.h"
#include "stream-buf.h"

/* An event is an object and a little around it. */
#define EVENT_MAX (KUBE_OBJECT_MAX + 1024)

/* Bytes of an unexpected line that a message shows. */
#define SHOWN_MAX 60

struct kube_events {
    struct piece in;
    struct gather line;
    bool line_taken; /* 'line' is what was handed out last. */
    bool failed;
    struct err err;
};

struct kube_events *
kube_events_create(void)
{
    return xzalloc(sizeof(struct kube_events));
}

void
kube_events_destroy(struct kube_events *e)
{
    if (e) {
        free(e->line.data);
        free(e);
    }
}

static int
events_error(const struct kube_events *e, struct err *err)
{
    err_set(err, "%s", e->err.msg);
    return EINVAL;
}

/* What is read of the event's object. */
static void
read_resource_version(struct jcur *c, void *event_)
{
    struct kube_event *event = event_;
    const char *s = jcur_text(c, sizeof event->resource_version - 1);

    ovs_strlcpy(event->resource_version, s, sizeof event->resource_version);
}

static void
read_initial_events_end(struct jcur *c, void *event_)
{
    struct kube_event *event = event_;

    event->initial_events_end = jstr_equals(jcur_string(c), "true");
}

static void
read_annotations(struct jcur *c, void *event_)
{
    static const struct jcur_member members[] = {
        JCUR_MEMBER("k8s.io/initial-events-end", read_initial_events_end),
    };
    struct kube_event *event = event_;

    event->initial_events_end = false;
    if (event->type == KUBE_EVENT_BOOKMARK) {
        jcur_object(c, members, ARRAY_SIZE(members), event);
    } else {
        jcur_skip(c);
    }
}

/* Reads what the watch itself needs of the object.  An object that is broken
 * has no version here; that is for its decoder to complain about. */
static void
read_object(struct kube_event *event)
{
    static const struct jcur_member members[] = {
        JCUR_MEMBER("resourceVersion", read_resource_version),
        JCUR_MEMBER("annotations", read_annotations),
    };
    struct jcur c;
    struct jstr key;
    bool found = false;

    jcur_init(&c, event->object, event->object_len, NULL);
    if (jcur_open(&c, '{')) {
        /* The metadata stands before what is large, so stop behind it. */
        while (!found && jcur_next_key(&c, &key)) {
            found = jstr_equals(key, "metadata");
            if (found) {
                jcur_object(&c, members, ARRAY_SIZE(members), event);
            } else {
                jcur_skip(&c);
            }
        }
    }
    jcur_uninit(&c);
}

static bool
parse_type(struct jstr s, enum kube_event_type *ret)
{
    static const char *const names[] = {
        [KUBE_EVENT_ADDED] = "ADDED",     [KUBE_EVENT_MODIFIED] = "MODIFIED",
        [KUBE_EVENT_DELETED] = "DELETED", [KUBE_EVENT_BOOKMARK] = "BOOKMARK",
        [KUBE_EVENT_ERROR] = "ERROR",
    };

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        if (jstr_equals(s, names[i])) {
            *ret = i;
            return true;
        }
    }
    return false;
}

/* Reads the members of the event's own object, which may be in any order. */
static void
read_event(struct jcur *c, struct kube_event *ret)
{
    struct jstr key, type = { "", 0 }, object = { "", 0 };

    if (!jcur_open(c, '{')) {
        return;
    }
    while (jcur_next_key(c, &key)) {
        if (jstr_equals(key, "type")) {
            type = jcur_string(c);
        } else if (jstr_equals(key, "object")) {
            object = jcur_raw(c);
        } else {
            jcur_skip(c);
        }
    }
    jcur_finish(c);
    if (c->failed) {
        /* Said already. */
    } else if (!parse_type(type, &ret->type)) {
        jcur_fail(c, "unknown type \"%.*s\"", (int) MIN(type.n, SHOWN_MAX),
                  type.s);
    } else if (!object.n || object.s[0] != '{') {
        jcur_fail(c, "no object");
    }
    ret->object = object.s;
    ret->object_len = object.n;
}

static bool
parse_event(struct kube_events *e, struct jstr line, struct kube_event *ret)
{
    struct jcur c;

    *ret = (struct kube_event){ .object = NULL };
    jcur_init(&c, line.s, line.n, &e->err);
    read_event(&c, ret);
    e->failed = c.failed;
    jcur_uninit(&c);
    if (e->failed) {
        err_prefix(&e->err, "broken watch event: ");
        return false;
    }
    read_object(ret);
    return true;
}

int
kube_events_feed(struct kube_events *e, const char *data, size_t len,
                 struct err *err)
{
    if (e->failed) {
        return events_error(e, err);
    }
    piece_set(&e->in, data, len);
    return 0;
}

/* Takes the next whole line, or keeps what there is of it. */
static bool
next_line(struct kube_events *e, struct jstr *ret)
{
    const char *p = e->in.data + e->in.pos;
    size_t left = e->in.n - e->in.pos;
    const char *end = memchr(p, '\n', left);
    size_t n = end ? end - p : left;

    if (n > EVENT_MAX - e->line.n) {
        e->failed = true;
        err_set(&e->err, "broken watch event: more than %zu bytes", EVENT_MAX);
        return false;
    }
    e->in.pos += n + (end != NULL);
    if (!end || e->line.n) {
        gather_append(&e->line, p, n);
        p = e->line.data;
        n = e->line.n;
    }
    *ret = (struct jstr){ p, n };
    return end != NULL;
}

static struct jstr
trim(struct jstr s)
{
    while (s.n && jscan_is_blank(s.s[0])) {
        s.s++;
        s.n--;
    }
    while (s.n && jscan_is_blank(s.s[s.n - 1])) {
        s.n--;
    }
    return s;
}

bool
kube_events_next(struct kube_events *e, struct kube_event *ret)
{
    if (e->line_taken) {
        gather_clear(&e->line);
        e->line_taken = false;
    }
    while (!e->failed && e->in.pos < e->in.n) {
        struct jstr line = { "", 0 };
        bool whole = next_line(e, &line);

        line = trim(line);
        if (line.n && line.s[0] != '{') {
            /* A page of HTML may have no line's end for long. */
            e->failed = true;
            err_set(&e->err, "no watch event: \"%.*s\"",
                    (int) MIN(line.n, SHOWN_MAX), line.s);
        } else if (whole && line.n) {
            e->line_taken = true;
            return parse_event(e, line, ret);
        } else if (whole) {
            gather_clear(&e->line);
        }
    }
    return false;
}

bool
kube_events_partial(const struct kube_events *e)
{
    return e->line.n > 0 && !e->line_taken;
}
