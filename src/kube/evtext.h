/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KUBE_EVTEXT_H
#define KUBE_EVTEXT_H 1

/* Events as JSON.  Pure; private to kube/.  Limits are those of
 * kube-apiserver (pkg/apis/core/validation/events.go of 1.34). */

#include <stdint.h>

#include <openvswitch/dynamic-string.h>

#include "ofproxyd/kube/events.h"

#define EVENT_NOTE_MAX     1024
#define EVENT_INSTANCE_MAX 128
#define EVENT_NAME_MAX     253

/* Returns "" for an 'event_reason' that is none. */
const char *event_reason_string(enum event_reason);

/* The namespace that an Event about 'ref' goes to. */
const char *event_namespace(const struct event_ref *);

/* Returns 'note' as it will be sent, the caller's to free(): valid UTF-8, of
 * EVENT_NOTE_MAX bytes at most. */
char *event_clean_note(const char *note);

/* Returns the name of an Event about 'ref', the caller's to free(): that of
 * the object, as far as it can be part of a name, and 'unique'. */
char *event_make_name(const struct event_ref *, uint64_t unique);

struct event_text {
    const struct event_ref *ref;
    enum event_reason reason;
    const char *name;       /* Of event_make_name(). */
    const char *note;       /* Of event_clean_note(). */
    const char *node_name;  /* Who says so. */
    long long int first_us; /* Since 1970. */
};

/* Appends the Event, to be created. */
void event_put_json(const struct event_text *, struct ds *);

/* Appends the merge patch of one that has happened 'count' times, the last
 * time at 'last_us'. */
void event_put_series(uint64_t count, long long int last_us, struct ds *);

#endif /* kube/evtext.h */
