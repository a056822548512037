/* SPDX-License-Identifier: Apache-2.0 */
/* Events on their way to the API server, one request at a time.
 *
 * Each (object, reason, note) is an entry.  A new one is queued to be
 * created; one that was sent is only counted, and queued again, as a patch of
 * its count, when its last request is long enough ago.  The first of the
 * queue is sent when the token bucket lets it; a failure leaves it there, and
 * the queue waits.  What the server refuses for reasons of that Event alone
 * is dropped; what it refuses for every one (no right, no such API) stops the
 * queue for half an hour. */

#include "evsender.h"

#include <ctype.h>
#include <limits.h>
#include <string.h>

#include <hash.h>
#include <openvswitch/poll-loop.h>
#include <openvswitch/vlog.h>
#include <timeval.h>
#include <util.h>

#include "evtext.h"
#include "ofproxyd/base/hash.h"
#include "ofproxyd/kube/stream.h"

VLOG_DEFINE_THIS_MODULE(kube_events);

/* For connecting, too. */
#define REQUEST_TOTAL_MS 30000

/* A right that is missing isn't given soon. */
#define REFUSED_MS (1000LL * 60 * 30)

/* The API server forgets an Event an hour after its last change. */
#define FORGET_MS (1000LL * 60 * 60)

/* After so many answers that promise better times an Event is given up. */
#define MAX_TRIES 12

struct entry {
    struct hmap_node hmap_node;
    struct ovs_list list_node; /* In 'queue' or in 'idle'. */
    bool queued;

    struct event_ref ref; /* Its strings are owned. */
    enum event_reason reason;
    char *note; /* As it is sent. */
    char *name; /* Of the Event, or NULL before it was created. */

    uint64_t count, n_sent;         /* Times noticed, and of these told. */
    long long int first_us;         /* When it was noticed first... */
    long long int last_us;          /* ...and last, on the wall's clock. */
    long long int last_ms, sent_ms; /* Noticed and told last. */
    unsigned int n_tries;
};

void
evsender_init(struct evsender *s, struct watcher_env *env,
              const struct evsender_cfg *cfg)
{
    *s = (struct evsender){
        .env = env,
        .cfg = *cfg,
        .entries = HMAP_INITIALIZER(&s->entries),
        /* One token a millisecond, and an Event costs 'every_ms' of them. */
        .bucket = TOKEN_BUCKET_INIT(1, EVSENDER_BURST * cfg->every_ms),
        .due_ms = LLONG_MAX,
        .backoff = BACKOFF_INIT(cfg->backoff_min_ms, cfg->backoff_max_ms),
        .warned_status = -1,
    };
    ovs_list_init(&s->queue);
    ovs_list_init(&s->idle);
}

static void
entry_destroy(struct evsender *s, struct entry *e)
{
    hmap_remove(&s->entries, &e->hmap_node);
    ovs_list_remove(&e->list_node);
    free(CONST_CAST(char *, e->ref.api_version));
    free(CONST_CAST(char *, e->ref.kind));
    free(CONST_CAST(char *, e->ref.ns));
    free(CONST_CAST(char *, e->ref.name));
    free(CONST_CAST(char *, e->ref.uid));
    free(e->note);
    free(e->name);
    free(e);
}

void
evsender_uninit(struct evsender *s)
{
    struct entry *e;

    http_req_destroy(s->req);
    s->req = NULL;
    HMAP_FOR_EACH_SAFE (e, hmap_node, &s->entries) {
        entry_destroy(s, e);
    }
    hmap_destroy(&s->entries);
}

/* Emitting. */

static char *
copy(const char *s)
{
    return xstrdup(s ? s : "");
}

static uint32_t
hash_entry(const struct event_ref *ref, enum event_reason reason,
           const char *note)
{
    uint32_t hash = hash_string(ref->name, reason);

    hash = hash_string(ref->ns ? ref->ns : "", hash);
    hash = hash_string(ref->uid ? ref->uid : "", hash);
    return hash_string(note, hash);
}

static bool
equals(const char *a, const char *b)
{
    return !strcmp(a, b ? b : "");
}

static struct entry *
find_entry(struct evsender *s, const struct event_ref *ref,
           enum event_reason reason, const char *note)
{
    struct entry *e;

    HMAP_FOR_EACH_WITH_HASH (e, hmap_node, hash_entry(ref, reason, note),
                             &s->entries) {
        if (e->reason == reason && equals(e->ref.name, ref->name)
            && equals(e->ref.ns, ref->ns) && equals(e->ref.uid, ref->uid)
            && equals(e->ref.kind, ref->kind) && equals(e->note, note)) {
            return e;
        }
    }
    return NULL;
}

/* Makes room for one more entry; returns false if there is none. */
static bool
make_room(struct evsender *s)
{
    static struct vlog_rate_limit rl = VLOG_RATE_LIMIT_INIT(1, 1);

    if (hmap_count(&s->entries) < EVSENDER_MAX) {
        return true;
    } else if (!ovs_list_is_empty(&s->idle)) {
        entry_destroy(s, CONTAINER_OF(ovs_list_front(&s->idle), struct entry,
                                      list_node));
        return true;
    }
    s->stats.n_dropped++;
    VLOG_INFO_RL(&rl, "%d Events wait to be sent; others are dropped",
                 EVSENDER_MAX);
    return false;
}

static void
queue_entry(struct evsender *s, struct entry *e)
{
    ovs_list_remove(&e->list_node);
    ovs_list_push_back(&s->queue, &e->list_node);
    e->queued = true;
    e->n_tries = 0;
}

static void
unqueue_entry(struct evsender *s, struct entry *e)
{
    ovs_list_remove(&e->list_node);
    ovs_list_push_back(&s->idle, &e->list_node);
    e->queued = false;
}

/* Takes over 'note'. */
static void
add_entry(struct evsender *s, const struct event_ref *ref,
          enum event_reason reason, char *note)
{
    struct entry *e = xzalloc(sizeof *e);

    e->ref = (struct event_ref){
        .api_version = copy(ref->api_version),
        .kind = copy(ref->kind),
        .ns = copy(ref->ns),
        .name = copy(ref->name),
        .uid = copy(ref->uid),
    };
    e->reason = reason;
    e->note = note;
    e->count = 1;
    e->first_us = e->last_us = time_wall_usec();
    e->last_ms = time_msec();
    hmap_insert(&s->entries, &e->hmap_node, hash_entry(ref, reason, note));
    ovs_list_init(&e->list_node);
    queue_entry(s, e);
}

void
evsender_emit(struct evsender *s, const struct event_ref *ref,
              enum event_reason reason, const char *note)
{
    char *clean;
    struct entry *e;

    s->stats.n_emitted++;
    if (!ref->name || !ref->name[0]) {
        s->stats.n_dropped++;
        return;
    }
    clean = event_clean_note(note);
    e = find_entry(s, ref, reason, clean);
    if (e) {
        e->count++;
        e->last_us = time_wall_usec();
        e->last_ms = time_msec();
        if (!e->queued) {
            unqueue_entry(s, e); /* To the end of the list. */
            s->due_ms = MIN(s->due_ms, e->sent_ms + s->cfg.repeat_ms);
        }
        free(clean);
    } else if (make_room(s)) {
        add_entry(s, ref, reason, clean);
    } else {
        free(clean);
    }
}

/* Sending. */

static void
put_escaped(struct ds *ds, const char *s)
{
    for (; *s; s++) {
        if (isalnum((unsigned char) *s) || strchr("-._", *s)) {
            ds_put_char(ds, *s);
        } else {
            ds_put_format(ds, "%%%02X", (unsigned char) *s);
        }
    }
}

/* Other nodes may say the same about the same object at the same time. */
static uint64_t
make_unique(const struct evsender *s, const struct entry *e)
{
    const char *node = model_node_name(s->env->model);
    uint32_t hash = stable_hash(node, strlen(node), 0);

    hash = stable_hash(e->note, strlen(e->note), hash);
    return (uint64_t) e->first_us ^ (uint64_t) hash << 32;
}

static void
send_first(struct evsender *s, struct entry *e)
{
    struct ds target = DS_EMPTY_INITIALIZER, body = DS_EMPTY_INITIALIZER;

    ds_put_cstr(&target, "/apis/events.k8s.io/v1/namespaces/");
    put_escaped(&target, event_namespace(&e->ref));
    ds_put_cstr(&target, "/events");
    s->creating = !e->name;
    if (s->creating) {
        e->name = event_make_name(&e->ref, make_unique(s, e));
        event_put_json(
            &(struct event_text){
                .ref = &e->ref,
                .reason = e->reason,
                .name = e->name,
                .note = e->note,
                .node_name = model_node_name(s->env->model),
                .first_us = e->first_us,
            },
            &body);
        e->n_sent = 1;
        s->req = http_post(s->env->http, ds_cstr(&target), ds_cstr(&body),
                           REQUEST_TOTAL_MS);
    } else {
        ds_put_char(&target, '/');
        put_escaped(&target, e->name);
        event_put_series(e->count, e->last_us, &body);
        e->n_sent = e->count;
        s->req = http_patch(s->env->http, ds_cstr(&target), ds_cstr(&body),
                            REQUEST_TOTAL_MS);
    }
    VLOG_DBG("%s %s", ds_cstr(&target), ds_cstr(&body));
    ds_destroy(&target);
    ds_destroy(&body);
}

/* The answer. */

enum verdict {
    DONE,
    AGAIN,    /* Later. */
    RECREATE, /* What was to be patched isn't there any more. */
    DROP,     /* Never this one. */
    REFUSED   /* None at all. */
};

/* Is a status one that may be another next time?  A conflict of a patch is. */
static bool
is_transient(int code)
{
    return code == 401 || code == 408 || code == 409 || code == 429
           || code >= 500;
}

/* A namespace that is going takes no new Events, one that has gone none. */
static bool
is_namespace_gone(const struct http_result *result,
                  const struct kube_status *status)
{
    static const char going[] = "is being terminated";

    return memmem(result->body, result->body_len, going, strlen(going))
           || !strncmp(status->message, "namespaces ", 11);
}

static enum verdict
judge(const struct evsender *s, const struct http_result *result,
      const struct kube_status *status)
{
    int code = result->status;
    bool lost = code == 409 && s->creating; /* The answer to an earlier try. */

    if (result->end != HTTP_WHOLE || (is_transient(code) && !lost)) {
        return AGAIN;
    } else if ((code >= 200 && code < 300) || lost) {
        return DONE;
    } else if (code == 404 && !s->creating) {
        return RECREATE;
    } else if (code == 403 || code == 404) {
        return is_namespace_gone(result, status) ? DROP : REFUSED;
    }
    return code == 405 || code < 400 ? REFUSED : DROP;
}

/* Says what went wrong, once for each status in a row of failures. */
static void
report_failure(struct evsender *s, const struct http_result *result,
               const struct kube_status *status)
{
    static struct vlog_rate_limit rl = VLOG_RATE_LIMIT_INIT(6, 6);
    struct err text;

    if (!result->status) {
        err_set(&text, "%s", result->text);
    } else {
        err_set(&text, "HTTP %d: %s", result->status, status->message);
    }
    s->stats.n_failures++;
    ovs_strlcpy(s->stats.last_error, text.msg, sizeof s->stats.last_error);
    if (s->warned_status != result->status) {
        VLOG_INFO_RL(&rl,
                     "an Event couldn't be sent, which harms nothing else: "
                     "%s",
                     text.msg);
        s->warned_status = result->status;
    }
}

static void
report_success(struct evsender *s)
{
    s->stats.last_error[0] = '\0';
    s->warned_status = -1;
    backoff_reset(&s->backoff);
    if (s->creating) {
        s->stats.n_created++;
    } else {
        s->stats.n_counted++;
    }
}

/* The pause that follows a failure. */
static long long int
next_pause(struct evsender *s, const struct http_result *result)
{
    long long int pause_ms = backoff_next(&s->backoff, watcher_random(s->env));
    int asked_s = MIN(result->retry_after_s, REFLECTOR_ASKED_MAX_S);

    return MAX(pause_ms, asked_s * 1000LL);
}

static void
take_answer(struct evsender *s, struct entry *e, enum verdict verdict,
            long long int pause_ms)
{
    long long int now = time_msec();

    if (s->creating && verdict != DONE) {
        free(e->name);
        e->name = NULL;
    }
    switch (verdict) {
    case DONE:
        e->sent_ms = now;
        unqueue_entry(s, e);
        if (e->count > e->n_sent) {
            s->due_ms = MIN(s->due_ms, now + s->cfg.repeat_ms);
        }
        break;
    case RECREATE:
        free(e->name);
        e->name = NULL;
        e->first_us = e->last_us;
        e->count = 1;
        break;
    case AGAIN: s->wake_ms = now + pause_ms; break;
    case DROP:
        s->stats.n_dropped++;
        entry_destroy(s, e);
        break;
    case REFUSED: s->wake_ms = now + REFUSED_MS; break;
    }
}

static void
finish(struct evsender *s, const struct http_result *result)
{
    struct entry *e =
        CONTAINER_OF(ovs_list_front(&s->queue), struct entry, list_node);
    long long int pause_ms = 0;
    struct kube_status status;
    enum verdict verdict;

    if (kube_status_parse(result->body, result->body_len, &status)) {
        status.code = 0;
    }
    verdict = judge(s, result, &status);
    if (verdict == AGAIN && result->status && ++e->n_tries >= MAX_TRIES) {
        verdict = DROP;
    }
    if (verdict == DONE) {
        report_success(s);
    } else if (verdict != RECREATE) {
        report_failure(s, result, &status);
        pause_ms = next_pause(s, result);
    }
    http_req_destroy(s->req);
    s->req = NULL;
    take_answer(s, e, verdict, pause_ms);
}

/* Queues those whose count should be told, and forgets those that are old. */
static void
look_at_idle(struct evsender *s)
{
    long long int now = time_msec();
    struct entry *e;

    s->due_ms = LLONG_MAX;
    LIST_FOR_EACH_SAFE (e, list_node, &s->idle) {
        long long int due_ms = e->sent_ms + s->cfg.repeat_ms;

        if (now >= e->last_ms + FORGET_MS) {
            entry_destroy(s, e);
        } else if (e->count > e->n_sent && now >= due_ms) {
            queue_entry(s, e);
        } else if (e->count > e->n_sent) {
            s->due_ms = MIN(s->due_ms, due_ms);
        }
    }
}

void
evsender_run(struct evsender *s)
{
    struct http_result result;

    if (s->req && http_req_ended(s->req, &result)) {
        finish(s, &result);
    }
    if (time_msec() >= s->due_ms) {
        look_at_idle(s);
    }
    if (!s->req && !ovs_list_is_empty(&s->queue) && time_msec() >= s->wake_ms
        && token_bucket_withdraw(&s->bucket, s->cfg.every_ms)) {
        send_first(s, CONTAINER_OF(ovs_list_front(&s->queue), struct entry,
                                   list_node));
    }
    s->stats.n_waiting = ovs_list_size(&s->queue);
}

void
evsender_wait(struct evsender *s)
{
    struct http_result result;

    if (s->req) {
        if (http_req_ended(s->req, &result)) {
            poll_immediate_wake();
        }
    } else if (!ovs_list_is_empty(&s->queue)) {
        if (time_msec() < s->wake_ms) {
            poll_timer_wait_until(s->wake_ms);
        } else {
            token_bucket_wait(&s->bucket, s->cfg.every_ms);
        }
    }
    if (s->due_ms != LLONG_MAX) {
        poll_timer_wait_until(s->due_ms);
    }
}
