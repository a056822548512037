/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_KUBE_EVENTS_H
#define OFPROXYD_KUBE_EVENTS_H 1

/* Events (events.k8s.io/v1) about objects whose owner can do something.
 *
 * They tell what the log tells, too, to somebody who can't read the log of a
 * node.  They are sent when there is time: nothing waits for them, and
 * whatever goes wrong with them stops nothing else. */

#include <stdint.h>

struct kube;

/* Type is always Warning.
 *
 *               symbol        reason                                action */
#define EVENT_REASONS                                                 \
    EVENT_REASON(ADDRESS_CONFLICT, "AddressConflict", "ServeAddress") \
    EVENT_REASON(HEALTH_PORT, "FailedToStartServiceHealthcheck",      \
                 "StartServiceHealthcheck")                           \
    EVENT_REASON(ENDPOINT_LOOP, "EndpointLeadsRound", "ServePort")       \
    EVENT_REASON(LEFT_OUT, "InvalidPartLeftOut", "ReadObject")        \
    EVENT_REASON(REFUSED, "RefusedBySwitch", "ServePort")

enum event_reason {
#define EVENT_REASON(SYM, REASON, ACTION) EVENT_##SYM,
    EVENT_REASONS
#undef EVENT_REASON
};

/* The object that an Event is about.  "" or NULL for what is unknown; without
 * a name nothing is sent. */
struct event_ref {
    const char *api_version; /* "v1". */
    const char *kind;        /* "Service". */
    const char *ns;          /* "" of a cluster-scoped kind. */
    const char *name;
    const char *uid;
};

/* Sends an Event, or not: one that equals an earlier one (object, reason and
 * note) is counted, and the count is sent once in a few minutes at most; of
 * many at once some wait (a token bucket); of very many some are dropped.
 * So it may be called as often as the condition is noticed.  The note, which
 * is cut to 1 kB, should name what is wrong and what can be done, without
 * anything that changes from call to call.  Everything is copied; may be
 * called at any time, also before anything was listed. */
void events_emit(struct kube *, const struct event_ref *, enum event_reason,
                 const char *note);

struct kube_event_stats {
    uint64_t n_emitted;   /* Calls of events_emit(). */
    uint64_t n_created;   /* Events that the API server has taken. */
    uint64_t n_counted;   /* Updates of a count that it has taken. */
    uint64_t n_failures;  /* Requests that went wrong. */
    uint64_t n_dropped;   /* Given up, or there was no room. */
    uint64_t n_waiting;   /* At present. */
    char last_error[256]; /* "" if the last request went well. */
};
/* Sets '*ret' to how it went. */
void kube_get_event_stats(const struct kube *, struct kube_event_stats *ret);

#endif /* ofproxyd/kube/events.h */
