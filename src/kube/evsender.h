/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KUBE_EVSENDER_H
#define KUBE_EVSENDER_H 1

/* Sends Events: what events_emit() promises.  Private to kube/. */

#include <stdbool.h>

#include <openvswitch/hmap.h>
#include <openvswitch/list.h>
#include <openvswitch/token-bucket.h>

#include "ofproxyd/base/backoff.h"
#include "ofproxyd/kube/events.h"
#include "watcher.h"

/* So many different Events are remembered. */
#define EVSENDER_MAX 512

struct evsender_cfg {
    int backoff_min_ms, backoff_max_ms;
    int repeat_ms; /* Between two requests about one Event. */
    int every_ms;  /* Between any two, when EVSENDER_BURST are used up. */
};

/* So many may go one after the other. */
#define EVSENDER_BURST 25

struct evsender {
    struct watcher_env *env;
    struct evsender_cfg cfg;
    struct hmap entries;   /* Of struct entry, evsender.c. */
    struct ovs_list queue; /* Those that wait to be sent, oldest first. */
    struct ovs_list idle;  /* The others, the one emitted last at the end. */
    struct token_bucket bucket;
    struct http_req *req;  /* Of the first of 'queue', or NULL. */
    bool creating;         /* 'req' is a POST. */
    long long int wake_ms; /* No request before. */
    long long int due_ms;  /* When a count should be sent, or LLONG_MAX. */
    struct backoff backoff;
    int warned_status; /* Of what was logged last; -1: nothing. */
    struct kube_event_stats stats;
};

void evsender_init(struct evsender *, struct watcher_env *,
                   const struct evsender_cfg *);
void evsender_uninit(struct evsender *);
void evsender_emit(struct evsender *, const struct event_ref *,
                   enum event_reason, const char *note);
void evsender_run(struct evsender *);
void evsender_wait(struct evsender *);

#endif /* kube/evsender.h */
