/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_KUBE_STREAM_H
#define OFPROXYD_KUBE_STREAM_H 1

/* Bodies of list and watch answers, cut into objects while they arrive.
 *
 * A body comes in pieces of any size.  A list is read as a stream: the items
 * of its "items" array are handed out one at a time, so that the memory is
 * that of one object; a watch is newline-separated events.  Neither parses
 * the objects: it only finds where one ends (strings, escapes and nesting
 * are understood), and bounds what one may take.  A body that is not what it
 * should be (HTML, a Status, an item that is cut off, garbage after the end)
 * is an error, never a list. */

#include <stdbool.h>
#include <stddef.h>

#include "ofproxyd/base/err.h"

/* The largest object that is accepted, in bytes of JSON.  etcd's own limit is
 * 1.5 MiB of protobuf; the same in JSON is a few times that. */
#define KUBE_OBJECT_MAX ((size_t) 8 * 1024 * 1024)

/* List. */

struct kube_list;

/* Returns a reader for one body, the caller's to kube_list_destroy(). */
struct kube_list *kube_list_create(void);
void kube_list_destroy(struct kube_list *); /* NULL is allowed. */

/* Hands in the next 'len' bytes of the body.  They must stay until
 * kube_list_next() returned false.  Returns 0 or EINVAL with 'err'; after an
 * error the list is dead. */
int kube_list_feed(struct kube_list *, const char *data, size_t len,
                   struct err *err) OVS_WARN_UNUSED_RESULT;

/* Takes the text of the next whole item, valid until the next call on the
 * list; returns false when more data is needed (or after an error, which the
 * next feed or end reports).  One that is larger than KUBE_OBJECT_MAX is cut
 * off behind KUBE_OBJECT_MAX + 1 bytes. */
bool kube_list_next(struct kube_list *, const char **ret_text,
                    size_t *ret_len);

/* The body has ended.  Returns 0 if it was one whole list (its kind ends in
 * "List"), or EINVAL with 'err'.  '*ret_resource_version' (never "" on
 * success) and '*ret_continue' ("" on the last page) live as long as the
 * list. */
int kube_list_end(struct kube_list *, const char **ret_resource_version,
                  const char **ret_continue, struct err *err)
    OVS_WARN_UNUSED_RESULT;

/* Watch. */

enum kube_event_type {
    KUBE_EVENT_ADDED,
    KUBE_EVENT_MODIFIED,
    KUBE_EVENT_DELETED,
    KUBE_EVENT_BOOKMARK,
    KUBE_EVENT_ERROR
};

struct kube_event {
    enum kube_event_type type;
    const char *object; /* The object's JSON text. */
    size_t object_len;
    /* Of a bookmark, and of every object where it can be read cheaply: its
     * metadata.resourceVersion, "" if none. */
    char resource_version[64];
    bool initial_events_end; /* Bookmark that closes a streaming list. */
};

struct kube_events;

/* Returns a reader for one stream, the caller's to kube_events_destroy(). */
struct kube_events *kube_events_create(void);
void kube_events_destroy(struct kube_events *); /* NULL is allowed. */

/* As for the list. A line that is no event is an EINVAL: the stream can't be
 * trusted any more and is to be started again. */
int kube_events_feed(struct kube_events *, const char *data, size_t len,
                     struct err *err) OVS_WARN_UNUSED_RESULT;
bool kube_events_next(struct kube_events *, struct kube_event *ret);

/* True if an unfinished line is held, which is dropped when the stream
 * ends. */
bool kube_events_partial(const struct kube_events *);

/* Status. */

/* metav1.Status of an error answer or ERROR event. */
struct kube_status {
    int code; /* 0 if absent. */
    char reason[64];
    char message[256];
    int retry_after_s; /* details.retryAfterSeconds, 0 if absent. */
    bool rv_too_large; /* A cause is ResourceVersionTooLarge. */
    char cont[1024];   /* metadata.continue, "" if absent or too long. */
};

/* Reads a Status; returns 0, or EINVAL if the text is none (an HTML page, a
 * plain text): then '*ret' holds the first printable words as its message. */
int kube_status_parse(const char *text, size_t len, struct kube_status *ret)
    OVS_WARN_UNUSED_RESULT;

#endif /* ofproxyd/kube/stream.h */
