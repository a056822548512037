/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_KUBE_REFLECTOR_H
#define OFPROXYD_KUBE_REFLECTOR_H 1

/* The list-then-watch machine of one kind: what to ask next, and when.
 *
 * Pure: no socket, no clock, no log.  The caller sends the request that
 * reflector_request() words, tells with reflector_seen() which versions it
 * has processed, and hands the way in which the request ended to
 * reflector_end(), which decides what comes next.  There is no final state:
 * whatever happens is waited out. */

#include <stdbool.h>
#include <stdint.h>

#include <openvswitch/dynamic-string.h>

#include "ofproxyd/base/backoff.h"
#include "ofproxyd/kube/stream.h"
#include "ofproxyd/model/model.h"

/*             symbol   what the machine does in it */
#define KUBE_STATES                                        \
    KUBE_STATE(LIST, "reads the pages of a complete list") \
    KUBE_STATE(WATCH, "reads the changes since the list")  \
    KUBE_STATE(BACKOFF, "waits before the next request")

enum kube_state {
#define KUBE_STATE(SYM, MEANING) KUBE_##SYM,
    KUBE_STATES
#undef KUBE_STATE
};

/* Returns the name of a state, as shown to operators. */
const char *kube_state_name(enum kube_state);

/* How a request can end, and how long to wait then.
 *
 *     NOW      not at all
 *     ONCE     not at all, but once only until a request goes well, and not
 *              twice in REFLECTOR_CALM_MS; else BACKOFF
 *     SPREAD   as ONCE, but a short random time, so that not all nodes list in
 *              the same instant
 *     BACKOFF  exponentially longer
 *     ASKED    as long as the server says (Retry-After), else BACKOFF
 *     SLOW     long: only an operator can mend it
 *
 *             symbol        wait     what happened */
#define KUBE_CAUSES                                                       \
    KUBE_CAUSE(PAGE, NOW, "a page of a list was read, there are more")    \
    KUBE_CAUSE(LISTED, NOW, "a list was read to its end")                 \
    KUBE_CAUSE(ENDED, NOW, "a watch ended as watches do")                 \
    KUBE_CAUSE(SHORT, BACKOFF, "a watch ended at once, without an event") \
    KUBE_CAUSE(BROKEN, BACKOFF, "no answer, or one that broke off")       \
    KUBE_CAUSE(GARBLED, BACKOFF, "the answer is not what was asked for")  \
    KUBE_CAUSE(EXPIRED, SPREAD, "410: the version or page is gone")       \
    KUBE_CAUSE(UNAUTHORIZED, ONCE, "401: not, or no longer, believed")    \
    KUBE_CAUSE(FORBIDDEN, SLOW, "403 to 406: not allowed or not there")   \
    KUBE_CAUSE(ABSENT, RARE, "404 of a kind that a server need not have") \
    KUBE_CAUSE(REJECTED, ONCE, "400, 422: the request is not understood") \
    KUBE_CAUSE(BUSY, ASKED, "429: later")                                 \
    KUBE_CAUSE(FUTURE, ASKED, "504: the server is behind our version")    \
    KUBE_CAUSE(SERVER, ASKED, "5xx and all else that a server may say")

enum kube_cause {
#define KUBE_CAUSE(SYM, WAIT, MEANING) KUBE_CAUSE_##SYM,
    KUBE_CAUSES
#undef KUBE_CAUSE
};

/* What 'cause' means, for tests and debugging. */
const char *kube_cause_meaning(enum kube_cause);

/* A failure this long after the last one starts the backoff anew, if a watch
 * ran in between; and retries without a wait are at least so far apart. */
#define REFLECTOR_CALM_MS 10000

/* The longest wait that a server's Retry-After can impose. */
#define REFLECTOR_ASKED_MAX_S 300

/* A list of more pages than this has no end. */
#define REFLECTOR_PAGES_MAX 100000

struct reflector_cfg {
    enum model_kind kind;
    const char *proxy_name; /* NULL for Services without the label; must live
                             * as long as the machine. */
    const char *ns; /* Of multicluster; NULL for kinds that need none.  Must
                     * live as long, too. */
    int page_limit;
    int watch_timeout_s;
    int backoff_min_ms, backoff_max_ms;
};

/* Read-only for others than reflector_*(). */
struct reflector {
    struct reflector_cfg cfg;

    enum kube_state state;
    enum kube_state next;  /* In BACKOFF: the state after it. */
    long long int wake_ms; /* In BACKOFF: when it ends. */

    /* What to ask. */
    char version[64]; /* To watch from. */
    char *cont;       /* Of the next page, NULL for the first. */
    int n_pages;      /* Read of this list. */
    bool latest;      /* List what is newest, not what is cached. */
    bool no_limit;    /* List in one piece. */
    bool no_field;    /* The server doesn't know the field selector. */

    /* How it went. */
    struct backoff backoff;
    bool free_taken;       /* No request went well since that retry. */
    long long int free_ms; /* Of the last retry without a wait. */
    int n_lost_watches;    /* Answered, but in vain, one after the other. */
    int n_future;          /* Answers "FUTURE", one after the other. */
};

/* Makes 'r' ready for its first list; the caller owes reflector_uninit(). */
void reflector_init(struct reflector *, const struct reflector_cfg *);
/* Frees what the machine holds. */
void reflector_uninit(struct reflector *);

/* In LIST and WATCH: appends to 'url' path and query of the request to send.
 * Returns the seconds after which the server will end it, 0 for a list. */
int reflector_request(const struct reflector *, uint32_t random,
                      struct ds *url);

/* An event of this version, which may be "", was processed. */
void reflector_seen(struct reflector *, const char *version);

/* The end of a request. */
struct reflector_end {
    int status;   /* HTTP status, 0 if there was no answer. */
    bool broken;  /* The connection failed, or never came about. */
    bool garbled; /* The body wasn't a list or stream of events. */
    const struct kube_status *error; /* Of an error answer or ERROR event, or
                                      * NULL; a code of 0 means 'status'. */
    int retry_after_s;               /* Of the answer's head, 0 if absent. */
    long long int lived_ms;          /* From the request to the end. */
    uint64_t n_changes; /* Events processed, bookmarks not counted. */

    /* Of a list that was read well. */
    const char *version;
    const char *cont; /* "" on the last page. */
};

/* What follows from it. */
struct reflector_verdict {
    enum kube_cause cause;
    int wait_ms;
    bool failure;  /* Something an operator may want to know. */
    bool expected; /* A failure that was answered with a free retry. */
};

/* A request ended at 'now_ms' like 'end'.  Moves to the next state. */
struct reflector_verdict reflector_end(struct reflector *,
                                       const struct reflector_end *end,
                                       long long int now_ms, uint32_t random);

/* Leaves BACKOFF if it is time. */
void reflector_tick(struct reflector *, long long int now_ms);

/* "services" and the like. */
const char *reflector_name(const struct reflector *);

/* The group and version of a kind, "v1" and the like. */
const char *reflector_api_version(enum model_kind);

/* What brings an optional kind to a server, for messages. */
const char *reflector_comes_with(enum model_kind);

/* True for a kind that is followed in one namespace, 'ns' of the
 * configuration. */
bool reflector_needs_namespace(enum model_kind);

#endif /* ofproxyd/kube/reflector.h */
