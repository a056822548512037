/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KUBE_WATCHER_H
#define KUBE_WATCHER_H 1

/* Keeps the model's objects of one kind equal to the API server's: carries
 * out what a reflector decides.  Private to kube/. */

#include <stdbool.h>
#include <stdint.h>

#include "ofproxyd/kube/http.h"
#include "ofproxyd/kube/kube.h"
#include "ofproxyd/kube/reflector.h"
#include "ofproxyd/model/model.h"

/* What reading a list takes. */
struct watcher_cost {
    uint64_t bytes, us, objects;
};

struct evsender;

/* What all watchers share. */
struct watcher_env {
    struct http *http;
    struct model *model;
    struct evsender *evsender;
    uint32_t random; /* State of the generator. */
    int silence_ms;
};

/* Returns the next number of the generator, each once before they repeat
 * (Marsaglia's xorshift32). */
uint32_t watcher_random(struct watcher_env *);

struct watcher {
    struct watcher_env *env;
    struct reflector reflector;

    /* The request that is going on; NULL in BACKOFF. */
    struct http_req *req;
    long long int start_ms;
    long long int head_ms;      /* When its answer's head was seen, or 0. */
    struct kube_list *list;     /* Of a list. */
    struct kube_events *events; /* Of a watch. */
    uint64_t n_changes;         /* Events processed. */
    bool proven;                /* The watch works. */
    bool garbled;               /* 'err' says what is wrong with the body. */
    bool error_event;           /* 'status' came as an event. */
    struct kube_status status;
    struct err err;

    struct watcher_cost page_cost; /* The page that is going on. */
    struct watcher_cost list_cost; /* The pages of its list before it. */

    /* What the log was told. */
    uint32_t warned_hash;     /* Of the last warning, see text_hash(). */
    long long int warned_ms;  /* LLONG_MIN / 2: never. */
    bool warned;              /* Of the failure that lasts. */
    bool absent;              /* It was said that there is no such kind. */
    long long int failing_ms; /* Since when; 0: not. */
    unsigned int n_failing;   /* Failures since then. */

    long long int patience_ms; /* When nobody waits any longer, or 0. */

    struct kube_kind_stats stats; /* Without 'state'. */
};

void watcher_init(struct watcher *, struct watcher_env *,
                  const struct reflector_cfg *);
void watcher_uninit(struct watcher *);
void watcher_run(struct watcher *);
void watcher_wait(struct watcher *);

#endif /* kube/watcher.h */
