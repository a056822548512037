/* SPDX-License-Identifier: Apache-2.0 */
/* List and watch of one kind: requests, bodies, the model and the log. */

#include "watcher.h"

#include <inttypes.h>
#include <limits.h>
#include <string.h>

#include <hash.h>
#include <openvswitch/poll-loop.h>
#include <openvswitch/vlog.h>
#include <timeval.h>
#include <util.h>

#include "evsender.h"
#include "ofproxyd/kube/decode.h"
#include "ofproxyd/kube/stream.h"

VLOG_DEFINE_THIS_MODULE(kube);

/* Nobody waits longer for a kind that the server need not have, when all
 * others have been listed, nor for the head of its list. */
#define OPTIONAL_MS 5000

/* Limits of a list: the API server itself gives up after a minute of
 * preparing its answer, and one in a single piece can be long. */
#define LIST_SILENCE_MS 60000
#define LIST_TOTAL_MS   900000

/* A watch is answered at once. */
#define WATCH_HEAD_MS 30000

/* A server that doesn't end its watch in time is no longer there. */
#define WATCH_SLACK_MS 30000

/* A watch that was answered works if it brought something, or lasted. */
#define PROVEN_MS 1000

/* The same trouble is logged once in this time. */
#define WARN_MS 60000

uint32_t
watcher_random(struct watcher_env *env)
{
    env->random ^= env->random << 13;
    env->random ^= env->random >> 17;
    env->random ^= env->random << 5;
    return env->random;
}

static const char *
name_of(const struct watcher *w)
{
    return reflector_name(&w->reflector);
}

void
watcher_init(struct watcher *w, struct watcher_env *env,
             const struct reflector_cfg *cfg)
{
    *w = (struct watcher){ .env = env, .warned_ms = LLONG_MIN / 2 };
    reflector_init(&w->reflector, cfg);
    w->stats.state_since_ms = time_msec();
}

/* Drops the request and what belongs to it. */
static void
drop_request(struct watcher *w)
{
    http_req_destroy(w->req);
    w->req = NULL;
    kube_list_destroy(w->list);
    w->list = NULL;
    kube_events_destroy(w->events);
    w->events = NULL;
}

void
watcher_uninit(struct watcher *w)
{
    drop_request(w);
    reflector_uninit(&w->reflector);
}

/* Objects. */

/* The uid of the stored object of that name, or "". */
static const char *
find_uid(const struct watcher *w, const char *ns, const char *name)
{
    const struct model *model = w->env->model;
    const struct model_service *ms;
    const struct node *node;

    switch (w->reflector.cfg.kind) {
    case MODEL_SERVICES:
        ms = model_find_service(model, ns, name);
        return ms && ms->svc ? ms->svc->meta.uid : "";
    case MODEL_NODES:
        node = model_find_node(model, name);
        return node ? node->meta.uid : "";
    case MODEL_SLICES:
    case MODEL_SERVICE_CIDRS:
    case MODEL_MC_GATEWAYS:
    case MODEL_MC_CLUSTERS: break;
    }
    return "";
}

/* Tells the owner of an object that it, or a part of it, is left out. */
static void
emit_left_out(struct watcher *w, const char *ns, const char *name,
              const char *note)
{
    enum model_kind kind = w->reflector.cfg.kind;
    struct event_ref ref = {
        .api_version = reflector_api_version(kind),
        .kind = model_kind_name(kind),
        .ns = ns,
        .name = name,
        .uid = find_uid(w, ns, name),
    };

    if (name[0]) {
        evsender_emit(w->env->evsender, &ref, EVENT_LEFT_OUT, note);
    }
}

/* An object couldn't be read.  What is stored under its name stays. */
static void
leave_out(struct watcher *w, const char *ns, const char *name,
          const struct err *err)
{
    static struct vlog_rate_limit rl = VLOG_RATE_LIMIT_INIT(10, 10);

    w->stats.n_bad_objects++;
    VLOG_WARN_RL(&rl, "%s: an object is left out: %s", name_of(w), err->msg);
    emit_left_out(w, ns, name, err->msg);
    if (name[0]) {
        model_keep(w->env->model, w->reflector.cfg.kind, ns, name);
    }
}

static void
put_object(struct watcher *w, const char *text, size_t len)
{
    static struct vlog_rate_limit rl = VLOG_RATE_LIMIT_INIT(10, 10);
    struct model *model = w->env->model;
    struct kube_object object = { .kind = w->reflector.cfg.kind };
    bool changed = false;
    struct err err;

    if (kube_decode(text, len, model_pool(model), &object, &err)) {
        leave_out(w, object.ns, object.name, &err);
        return;
    }
    switch (object.kind) {
    case MODEL_SERVICES: changed = model_put_svc(model, object.svc); break;
    case MODEL_SLICES:
        if (object.slice) {
            changed = model_put_slice(model, object.slice);
        } else {
            /* One that is ignored now may have counted before. */
            model_delete(model, MODEL_SLICES, object.ns, object.name);
        }
        break;
    case MODEL_NODES: changed = model_put_node(model, object.node); break;
    case MODEL_SERVICE_CIDRS:
    case MODEL_MC_GATEWAYS:
    case MODEL_MC_CLUSTERS:
        changed = model_put_plain(model, object.kind, object.plain);
        break;
    }
    /* A Node is sent again every few minutes; of a Service, what is left out
     * may be all that has changed. */
    if (object.left_out.msg[0] && (changed || object.kind != MODEL_NODES)) {
        VLOG_WARN_RL(&rl, "%s: a value is left out: %s", name_of(w),
                     object.left_out.msg);
        emit_left_out(w, object.ns, object.name, object.left_out.msg);
    }
}

/* Only the name counts: what has gone may be as malformed as it likes.
 * Returns false if there is no name. */
static bool
delete_object(struct watcher *w, const char *text, size_t len)
{
    struct model *model = w->env->model;
    struct kube_object object = { .kind = w->reflector.cfg.kind };

    if (!kube_decode(text, len, model_pool(model), &object, &w->err)) {
        switch (object.kind) {
        case MODEL_SERVICES: svc_free(object.svc, model_pool(model)); break;
        case MODEL_SLICES: slice_free(object.slice, model_pool(model)); break;
        case MODEL_NODES: node_free(object.node, model_pool(model)); break;
        case MODEL_SERVICE_CIDRS:
        case MODEL_MC_GATEWAYS:
        case MODEL_MC_CLUSTERS:
            plain_free(object.plain, model_pool(model));
            break;
        }
    } else if (!object.name[0]) {
        return false;
    }
    model_delete(model, w->reflector.cfg.kind, object.ns, object.name);
    return true;
}

/* Bodies. */

static bool
consume_list(const char *data, size_t len, void *w_)
{
    struct watcher *w = w_;
    long long int start = time_usec();
    const char *text;
    size_t text_len;

    w->page_cost.bytes += len;
    w->garbled = kube_list_feed(w->list, data, len, &w->err) != 0;
    while (!w->garbled && kube_list_next(w->list, &text, &text_len)) {
        put_object(w, text, text_len);
        w->page_cost.objects++;
    }
    w->page_cost.us += time_usec() - start;
    return !w->garbled;
}

/* The watch works; whatever was wrong is over. */
static void
set_proven(struct watcher *w)
{
    w->proven = true;
    w->stats.last_error[0] = '\0';
    if (w->failing_ms) {
        VLOG(w->warned ? VLL_INFO : VLL_DBG,
             "%s: in order again, after %u failures in %.1f s", name_of(w),
             w->n_failing, (time_msec() - w->failing_ms) / 1000.0);
    }
    w->failing_ms = 0;
    w->n_failing = 0;
    w->warned = false;
}

/* Reads a Status, or, if it is none, the words of whatever it is. */
static void
read_status(const char *text, size_t len, struct kube_status *ret)
{
    if (kube_status_parse(text, len, ret)) {
        ret->code = 0;
    }
}

/* Returns false if the watch is to end. */
static bool
process_event(struct watcher *w, const struct kube_event *event)
{
    switch (event->type) {
    case KUBE_EVENT_ADDED:
    case KUBE_EVENT_MODIFIED:
        put_object(w, event->object, event->object_len);
        break;
    case KUBE_EVENT_DELETED:
        if (!delete_object(w, event->object, event->object_len)) {
            /* Something is gone, and only a list tells what. */
            w->garbled = true;
            return false;
        }
        break;
    case KUBE_EVENT_ERROR:
        w->error_event = true;
        read_status(event->object, event->object_len, &w->status);
        return false;
    case KUBE_EVENT_BOOKMARK: break;
    }
    if (event->type != KUBE_EVENT_BOOKMARK) {
        w->n_changes++;
        w->stats.n_events++;
    }
    reflector_seen(&w->reflector, event->resource_version);
    if (!w->proven) {
        set_proven(w);
    }
    return true;
}

static bool
consume_events(const char *data, size_t len, void *w_)
{
    struct watcher *w = w_;
    struct kube_event event;

    w->garbled = kube_events_feed(w->events, data, len, &w->err) != 0;
    while (!w->garbled && kube_events_next(w->events, &event)) {
        if (!process_event(w, &event)) {
            return false;
        }
    }
    return !w->garbled;
}

/* Requests. */

static void
send_request(struct watcher *w)
{
    struct watcher_env *env = w->env;
    struct ds target = DS_EMPTY_INITIALIZER;
    int timeout_s =
        reflector_request(&w->reflector, watcher_random(env), &target);
    struct http_get get = { .target = ds_cstr(&target), .aux = w };

    w->start_ms = time_msec();
    w->head_ms = 0;
    w->n_changes = 0;
    w->proven = w->garbled = w->error_event = false;
    if (w->reflector.state == KUBE_LIST) {
        if (!w->reflector.cont) {
            model_relist_begin(env->model, w->reflector.cfg.kind);
            w->list_cost = (struct watcher_cost){ 0 };
        }
        w->page_cost = (struct watcher_cost){ 0 };
        w->list = kube_list_create();
        get.consume = consume_list;
        get.head_ms = model_kind_is_optional(w->reflector.cfg.kind)
                          ? OPTIONAL_MS
                          : LIST_SILENCE_MS;
        get.silence_ms = LIST_SILENCE_MS;
        get.total_ms = LIST_TOTAL_MS;
    } else {
        w->events = kube_events_create();
        w->stats.n_watches++;
        get.consume = consume_events;
        get.head_ms = MIN(WATCH_HEAD_MS, env->silence_ms);
        get.silence_ms = env->silence_ms;
        get.total_ms = timeout_s * 1000LL + WATCH_SLACK_MS;
    }
    VLOG_DBG("%s: GET %s", name_of(w), ds_cstr(&target));
    w->req = http_get(env->http, &get);
    ds_destroy(&target);
}

/* Fills '*end' from 'result'; its strings live as long as the request. */
static void
judge(struct watcher *w, const struct http_result *result,
      struct reflector_end *end)
{
    bool watch = w->reflector.state == KUBE_WATCH;

    *end = (struct reflector_end){
        .status = result->status,
        .retry_after_s = result->retry_after_s,
        .lived_ms = time_msec() - w->start_ms,
        .n_changes = w->n_changes,
    };
    switch (result->end) {
    case HTTP_WHOLE:
    case HTTP_STOPPED: break;
    case HTTP_ALIEN: w->garbled = true; break;
    case HTTP_CUT:
        /* A watch needs no end, and one that has fallen silent is asked for
         * again as if it had ended. */
    case HTTP_SILENT: end->broken = !watch || !result->status; break;
    case HTTP_FAILED: end->broken = true; break;
    }

    if (result->status && result->status != 200) {
        read_status(result->body, result->body_len, &w->status);
        end->error = &w->status;
    } else if (w->error_event) {
        end->error = &w->status;
    } else if (!watch && result->end == HTTP_WHOLE) {
        w->garbled =
            kube_list_end(w->list, &end->version, &end->cont, &w->err) != 0;
    }
    end->garbled = w->garbled;
}

/* Says in words how the request ended. */
static void
describe(const struct watcher *w, const struct http_result *result,
         const struct reflector_end *end, struct err *ret)
{
    const char *what = w->reflector.state == KUBE_WATCH ? "watch" : "list";

    if (end->error) {
        int code = w->error_event ? end->error->code : result->status;

        err_set(ret, "%s: %s %d: %s", what,
                w->error_event ? "ERROR event" : "HTTP", code,
                end->error->message);
    } else if (result->end == HTTP_ALIEN) {
        struct kube_status words;

        read_status(result->body, result->body_len, &words);
        err_set(ret, "%s: %s: %s", what, result->text, words.message);
    } else if (w->garbled) {
        err_set(ret, "%s: %s", what, w->err.msg);
    } else if (end->broken) {
        err_set(ret, "%s: %s", what, result->text);
    } else {
        err_set(ret, "%s: the server ended it at once", what);
    }
}

/* A hash that is the same for messages that differ in numbers only, such as
 * times and ports. */
static uint32_t
text_hash(const char *s)
{
    uint32_t hash = 1;

    for (; *s; s++) {
        if (*s < '0' || *s > '9') {
            hash = hash_add(hash, *s);
        }
    }
    return hash_finish(hash, 0);
}

static void
report_failure(struct watcher *w, const struct reflector_verdict *v,
               const struct err *text)
{
    static struct vlog_rate_limit rl = VLOG_RATE_LIMIT_INIT(30, 30);
    long long int now = time_msec();
    uint32_t hash = text_hash(text->msg);
    bool repeated = hash == w->warned_hash && now - w->warned_ms < WARN_MS;

    w->stats.n_failures++;
    ovs_strlcpy(w->stats.last_error, text->msg, sizeof w->stats.last_error);
    if (!w->failing_ms) {
        w->failing_ms = now;
    }
    w->n_failing++;

    if (v->cause == KUBE_CAUSE_ABSENT) {
        if (!w->absent) {
            VLOG_INFO("%s: %s; the server has no such objects and need not "
                      "have them (they come with %s); asking again every "
                      "%.0f s or so",
                      name_of(w), text->msg,
                      reflector_comes_with(w->reflector.cfg.kind),
                      v->wait_ms / 1000.0);
        }
        w->absent = true;
    } else if (v->expected) {
        VLOG_INFO_RL(&rl, "%s: %s; asking again in %.1f s", name_of(w),
                     text->msg, v->wait_ms / 1000.0);
    } else if (!repeated) {
        VLOG_WARN_RL(&rl,
                     "%s: %s; what is known stays in use, next try in %.1f s",
                     name_of(w), text->msg, v->wait_ms / 1000.0);
        w->warned = true;
        w->warned_hash = hash;
        w->warned_ms = now;
    }
}

static void
finish_list(struct watcher *w)
{
    const struct watcher_cost *cost = &w->list_cost;
    enum model_kind kind = w->reflector.cfg.kind;
    bool first = !model_kind_synced(w->env->model, kind);
    size_t n_gone = model_relist_end(w->env->model, kind);

    w->absent = false;
    w->stats.n_lists++;
    w->stats.list_bytes = cost->bytes;
    w->stats.list_decode_us = cost->us;
    w->stats.list_objects = cost->objects;
    w->stats.last_error[0] = '\0';
    VLOG_INFO("%s: %s, %" PRIu64 " objects in %" PRIu64 " kB, %" PRIuSIZE
              " have gone",
              name_of(w), first ? "listed" : "listed again", cost->objects,
              cost->bytes / 1000, n_gone);
}

/* A server that is out of order for all kinds will have this one, too, when it
 * is back. */
static void
give_up(struct watcher *w, enum kube_cause cause)
{
    struct model *model = w->env->model;

    if (cause == KUBE_CAUSE_ABSENT) {
        model_set_absent(model, w->reflector.cfg.kind);
    } else if (cause == KUBE_CAUSE_FORBIDDEN || model_synced(model)) {
        model_give_up(model, w->reflector.cfg.kind);
    }
}

/* Nor does anybody wait for a list that goes on and on. */
static void
check_patience(struct watcher *w)
{
    struct model *model = w->env->model;

    if (!w->patience_ms && model_synced(model)) {
        w->patience_ms = time_msec() + OPTIONAL_MS;
    }
    if (w->patience_ms && time_msec() >= w->patience_ms) {
        model_give_up(model, w->reflector.cfg.kind);
    }
}

static bool
is_waited_for(const struct watcher *w)
{
    enum model_kind kind = w->reflector.cfg.kind;

    return model_kind_is_optional(kind)
           && !model_kind_synced(w->env->model, kind);
}

/* The request has ended. */
static void
finish_request(struct watcher *w, const struct http_result *result)
{
    struct reflector_end end;
    struct err text;

    judge(w, result, &end);
    describe(w, result, &end, &text);

    struct reflector_verdict v =
        reflector_end(&w->reflector, &end, time_msec(),
                      watcher_random(w->env));
    if (v.failure) {
        report_failure(w, &v, &text);
        give_up(w, v.cause);
    } else if (w->list) {
        w->list_cost.bytes += w->page_cost.bytes;
        w->list_cost.us += w->page_cost.us;
        w->list_cost.objects += w->page_cost.objects;
        if (v.cause == KUBE_CAUSE_LISTED) {
            finish_list(w);
        }
    }
    drop_request(w);
}

/* Notes whether the watch has shown that it works by lasting. */
static void
check_watch(struct watcher *w)
{
    if (!w->head_ms && http_req_status(w->req) == 200) {
        w->head_ms = time_msec();
    }
    if (w->head_ms && !w->proven && time_msec() - w->head_ms >= PROVEN_MS) {
        set_proven(w);
    }
}

void
watcher_run(struct watcher *w)
{
    enum kube_state before = w->reflector.state;
    struct http_result result;

    if (w->req && http_req_ended(w->req, &result)) {
        finish_request(w, &result);
    } else if (w->events) {
        check_watch(w);
    }
    if (is_waited_for(w)) {
        check_patience(w);
    }
    reflector_tick(&w->reflector, time_msec());
    if (!w->req && w->reflector.state != KUBE_BACKOFF) {
        send_request(w);
    }
    if (w->reflector.state != before) {
        w->stats.state_since_ms = time_msec();
    }
}

void
watcher_wait(struct watcher *w)
{
    struct http_result result;

    if (!w->req) {
        poll_timer_wait_until(w->reflector.wake_ms);
    } else if (http_req_ended(w->req, &result)) {
        poll_immediate_wake();
    } else if (w->head_ms && !w->proven) {
        poll_timer_wait_until(w->head_ms + PROVEN_MS);
    }
    if (is_waited_for(w) && w->patience_ms > time_msec()) {
        poll_timer_wait_until(w->patience_ms);
    }
}
