/* SPDX-License-Identifier: Apache-2.0 */
/* What is sent about an Event.  Names and notes come from objects and from
 * error messages that quote them, so they may hold anything. */

#include "evtext.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include <util.h>

const char *
event_reason_string(enum event_reason reason)
{
    switch (reason) {
#define EVENT_REASON(SYM, REASON, ACTION) \
    case EVENT_##SYM: return REASON;
        EVENT_REASONS
#undef EVENT_REASON
    }
    return "";
}

static const char *
action_string(enum event_reason reason)
{
    switch (reason) {
#define EVENT_REASON(SYM, REASON, ACTION) \
    case EVENT_##SYM: return ACTION;
        EVENT_REASONS
#undef EVENT_REASON
    }
    return "";
}

static const char *
or_empty(const char *s)
{
    return s ? s : "";
}

const char *
event_namespace(const struct event_ref *ref)
{
    return or_empty(ref->ns)[0] ? ref->ns : "default";
}

/* Returns the number of bytes of the UTF-8 sequence (RFC 3629) that 's'
 * begins with, or 0 if it is none. */
static size_t
utf8_length(const char *s)
{
    const unsigned char *p = (const unsigned char *) s;
    size_t n = p[0] < 0x80   ? 1
               : p[0] < 0xc2 ? 0
               : p[0] < 0xe0 ? 2
               : p[0] < 0xf0 ? 3
               : p[0] < 0xf5 ? 4
                             : 0;

    for (size_t i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    /* Overlong, surrogates, beyond U+10FFFF. */
    if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f)
        || (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f)) {
        return 0;
    }
    return n;
}

char *
event_clean_note(const char *note)
{
    struct ds ds = DS_EMPTY_INITIALIZER;

    while (*note) {
        size_t n = utf8_length(note);
        const char *s = n ? note : "?";

        if (ds.length + MAX(n, 1) > EVENT_NOTE_MAX) {
            break;
        }
        ds_put_buffer(&ds, s, MAX(n, 1));
        note += MAX(n, 1);
    }
    return ds_steal_cstr(&ds);
}

/* The name becomes a DNS subdomain, which names of Services and Nodes are
 * already unless a test, or an attacker, is about. */
char *
event_make_name(const struct event_ref *ref, uint64_t unique)
{
    char tail[32];
    struct ds ds = DS_EMPTY_INITIALIZER;

    snprintf(tail, sizeof tail, ".%016" PRIx64, unique);
    for (const char *p = or_empty(ref->name);
         *p && ds.length < EVENT_NAME_MAX - strlen(tail); p++) {
        bool ok = islower((unsigned char) *p) || isdigit((unsigned char) *p);

        ds_put_buffer(&ds, ok ? p : *p == '.' && ds.length ? "." : "-", 1);
    }
    /* Neither side of a dot may be a "-" or another dot. */
    for (size_t i = 0; i < ds.length; i++) {
        bool edge = i == 0 || i + 1 == ds.length || ds.string[i - 1] == '.'
                    || ds.string[i + 1] == '.';

        if (!isalnum((unsigned char) ds.string[i]) && edge) {
            ds.string[i] = 'x';
        }
    }
    ds_put_cstr(&ds, tail);
    return ds_steal_cstr(&ds);
}

static void
put_string(struct ds *ds, const char *s)
{
    ds_put_char(ds, '"');
    for (; *s; s++) {
        unsigned char c = *s;

        if (c == '"' || c == '\\') {
            ds_put_format(ds, "\\%c", c);
        } else if (c < 0x20 || c == 0x7f) {
            ds_put_format(ds, "\\u%04x", c);
        } else {
            ds_put_char(ds, *s);
        }
    }
    ds_put_char(ds, '"');
}

/* Appends '"key":"value"' with a comma before it. */
static void
put_member(struct ds *ds, const char *key, const char *value)
{
    ds_put_format(ds, ",\"%s\":", key);
    put_string(ds, value);
}

/* Appends a time of 'us' as a MicroTime. */
static void
put_time(struct ds *ds, long long int us)
{
    time_t s = us / 1000000;
    char text[32];
    struct tm tm;

    gmtime_r(&s, &tm);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &tm);
    ds_put_format(ds, "\"%s.%06lldZ\"", text, us % 1000000);
}

void
event_put_json(const struct event_text *e, struct ds *ds)
{
    const struct event_ref *ref = e->ref;
    char *instance =
        xmemdup0(e->node_name, MIN(strlen(e->node_name), EVENT_INSTANCE_MAX));

    ds_put_cstr(ds, "{\"apiVersion\":\"events.k8s.io/v1\",\"kind\":\"Event\","
                    "\"metadata\":{\"namespace\":");
    put_string(ds, event_namespace(ref));
    put_member(ds, "name", e->name);
    ds_put_cstr(ds, "},\"eventTime\":");
    put_time(ds, e->first_us);
    put_member(ds, "type", "Warning");
    put_member(ds, "reason", event_reason_string(e->reason));
    put_member(ds, "action", action_string(e->reason));
    put_member(ds, "reportingController", "ofproxyd");
    put_member(ds, "reportingInstance", instance);
    ds_put_cstr(ds, ",\"regarding\":{\"kind\":");
    put_string(ds, or_empty(ref->kind));
    put_member(ds, "apiVersion", or_empty(ref->api_version));
    put_member(ds, "name", or_empty(ref->name));
    if (or_empty(ref->ns)[0]) {
        put_member(ds, "namespace", ref->ns);
    }
    if (or_empty(ref->uid)[0]) {
        put_member(ds, "uid", ref->uid);
    }
    ds_put_char(ds, '}');
    put_member(ds, "note", e->note);
    ds_put_char(ds, '}');
    free(instance);
}

void
event_put_series(uint64_t count, long long int last_us, struct ds *ds)
{
    /* The API has 32 bits for it. */
    ds_put_format(ds, "{\"series\":{\"count\":%" PRIu64,
                  MIN(count, INT32_MAX));
    ds_put_cstr(ds, ",\"lastObservedTime\":");
    put_time(ds, last_us);
    ds_put_cstr(ds, "}}");
}
