/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KUBE_PUBLISHER_H
#define KUBE_PUBLISHER_H 1

/* Keeps one annotation of the own Node as it is wanted: what
 * kube_set_transport() promises.  Private to kube/. */

#include <stdbool.h>

#include "ofproxyd/base/backoff.h"
#include "watcher.h"

struct publisher {
    struct watcher_env *env;
    bool wanted; /* publisher_set() was called. */
    struct ip transport[N_IP_FAMILIES];

    struct http_req *req;     /* The patch that is going on, or NULL. */
    char sent[2 * IP_STRLEN]; /* Value of the last one. */
    int pause_ms;             /* That followed the last one... */
    long long int wake_ms;    /* ...and ends here. */
    struct backoff backoff;
    int warned_status; /* Of what was logged last; -1: nothing. */
    struct kube_publish_stats stats;
};

void publisher_init(struct publisher *, struct watcher_env *,
                    int backoff_min_ms, int backoff_max_ms);
void publisher_uninit(struct publisher *);
void publisher_set(struct publisher *,
                   const struct ip transport[N_IP_FAMILIES]);
void publisher_run(struct publisher *);
void publisher_wait(struct publisher *);

#endif /* kube/publisher.h */
