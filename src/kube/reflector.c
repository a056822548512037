/* SPDX-License-Identifier: Apache-2.0 */
/* What to ask the API server next, and when: the decisions of the
 * list-then-watch machine, without its input and output.
 *
 * The first list asks for resourceVersion=0, that is for what the server has
 * in its cache: when a whole cluster starts, thousands of nodes list at once,
 * and the watch brings what the cache lacked.  Every later list asks for the
 * newest state (no resourceVersion), because one out of a cache could go back
 * in time.  A page that can't be had any more means that the pages read so
 * far are of a state that nobody can complete: the list starts again, in one
 * piece. */

#include "ofproxyd/kube/reflector.h"

#include <ctype.h>
#include <limits.h>
#include <string.h>

#include <util.h>

/* A watch that ended sooner than this, and brought nothing, has failed; taken
 * for a good one it would be asked for again and again without a pause. */
#define SHORT_MS 1000

/* So many watches in vain mean that watching from this version is
 * hopeless. */
#define LOST_WATCHES_MAX 3

/* A server gets a new kind with a new version, which takes some time. */
#define RARE_FACTOR 20

/* Others are installed by whoever has switched us on to use them. */
static int
rare_factor(enum model_kind kind)
{
    return reflector_needs_namespace(kind) ? 1 : RARE_FACTOR;
}

enum wait {
    WAIT_NOW,
    WAIT_ONCE,
    WAIT_SPREAD,
    WAIT_BACKOFF,
    WAIT_ASKED,
    WAIT_SLOW,
    WAIT_RARE
};

static const struct {
    enum wait wait;
    const char *meaning;
} causes[] = {
#define KUBE_CAUSE(SYM, WAIT, MEANING) { WAIT_##WAIT, MEANING },
    KUBE_CAUSES
#undef KUBE_CAUSE
};

static const struct {
    const char *name, *api_version, *path, *labels, *field;
    bool by_proxy;
    const char *comes_with;
} resources[N_MODEL_KINDS] = {
#define RESOURCE(KIND, NAME, API, PATH, LABELS, FIELD, BY_PROXY, COMES_WITH) \
    [MODEL_##KIND] = { NAME, API, PATH, LABELS, FIELD, BY_PROXY, COMES_WITH },
#include "ofproxyd/kube/resources.def"
#undef RESOURCE
};

const char *
kube_state_name(enum kube_state state)
{
    switch (state) {
#define KUBE_STATE(SYM, MEANING) \
    case KUBE_##SYM: return #SYM;
        KUBE_STATES
#undef KUBE_STATE
    }
    OVS_NOT_REACHED();
}

const char *
kube_cause_meaning(enum kube_cause cause)
{
    return causes[cause].meaning;
}

const char *
reflector_name(const struct reflector *r)
{
    return resources[r->cfg.kind].name;
}

const char *
reflector_api_version(enum model_kind kind)
{
    return resources[kind].api_version;
}

const char *
reflector_comes_with(enum model_kind kind)
{
    return resources[kind].comes_with;
}

bool
reflector_needs_namespace(enum model_kind kind)
{
    return strstr(resources[kind].path, "{}") != NULL;
}

void
reflector_init(struct reflector *r, const struct reflector_cfg *cfg)
{
    *r = (struct reflector){
        .cfg = *cfg,
        .state = KUBE_LIST,
        .next = KUBE_LIST,
        .backoff = BACKOFF_INIT(cfg->backoff_min_ms, cfg->backoff_max_ms),
        .free_ms = LLONG_MIN / 2,
    };
}

void
reflector_uninit(struct reflector *r)
{
    free(r->cont);
    r->cont = NULL;
}

/* Appends "KEY=VALUE" with all of VALUE encoded that isn't unreserved in RFC
 * 3986, and the separator that is due. */
static void
put_param(struct ds *url, const char *key, const char *value)
{
    ds_put_char(url, strchr(ds_cstr(url), '?') ? '&' : '?');
    ds_put_format(url, "%s=", key);
    for (const unsigned char *p = (const unsigned char *) value; *p; p++) {
        if ((*p < 0x80 && isalnum(*p)) || strchr("-._~", *p)) {
            ds_put_char(url, *p);
        } else {
            ds_put_format(url, "%%%02X", *p);
        }
    }
}

static void
put_path(struct ds *url, const struct reflector *r)
{
    const char *path = resources[r->cfg.kind].path;
    const char *gap = strstr(path, "{}");

    if (gap) {
        ds_put_buffer(url, path, gap - path);
        ds_put_cstr(url, r->cfg.ns);
        path = gap + 2;
    }
    ds_put_cstr(url, path);
}

static void
put_selectors(struct ds *url, const struct reflector *r)
{
    const char *key = "service.kubernetes.io/service-proxy-name";
    struct ds labels = DS_EMPTY_INITIALIZER;

    ds_put_cstr(&labels, resources[r->cfg.kind].labels);
    if (resources[r->cfg.kind].by_proxy) {
        ds_put_cstr(&labels, labels.length ? "," : "");
        if (r->cfg.proxy_name) {
            ds_put_format(&labels, "%s=%s", key, r->cfg.proxy_name);
        } else {
            ds_put_format(&labels, "!%s", key);
        }
    }
    if (labels.length) {
        put_param(url, "labelSelector", ds_cstr(&labels));
    }
    ds_destroy(&labels);

    if (resources[r->cfg.kind].field[0] && !r->no_field) {
        put_param(url, "fieldSelector", resources[r->cfg.kind].field);
    }
}

/* Returns a number from [0, n). */
static int
scale(uint32_t random, int n)
{
    return ((uint64_t) random * n) >> 32;
}

int
reflector_request(const struct reflector *r, uint32_t random, struct ds *url)
{
    char number[16];

    put_path(url, r);
    put_selectors(url, r);
    if (r->state == KUBE_WATCH) {
        int timeout_s =
            r->cfg.watch_timeout_s + scale(random, r->cfg.watch_timeout_s);

        put_param(url, "watch", "1");
        put_param(url, "allowWatchBookmarks", "true");
        put_param(url, "resourceVersion", r->version);
        snprintf(number, sizeof number, "%d", timeout_s);
        put_param(url, "timeoutSeconds", number);
        return timeout_s;
    }

    if (!r->no_limit) {
        snprintf(number, sizeof number, "%d", r->cfg.page_limit);
        put_param(url, "limit", number);
    }
    if (r->cont) {
        /* The token holds the version; another one beside it is an error. */
        put_param(url, "continue", r->cont);
    } else if (!r->latest) {
        put_param(url, "resourceVersion", "0");
    }
    return 0;
}

void
reflector_seen(struct reflector *r, const char *version)
{
    if (version[0] && strlen(version) < sizeof r->version) {
        ovs_strlcpy(r->version, version, sizeof r->version);
    }
}

static enum kube_cause
classify_code(const struct reflector *r, int code,
              const struct kube_status *error)
{
    if (code == 404 && model_kind_is_optional(r->cfg.kind)) {
        return KUBE_CAUSE_ABSENT;
    }
    switch (code) {
    case 400:
    case 422: return KUBE_CAUSE_REJECTED;
    case 401: return KUBE_CAUSE_UNAUTHORIZED;
    case 403:
    case 404:
    case 405:
    case 406: return KUBE_CAUSE_FORBIDDEN;
    case 410: return KUBE_CAUSE_EXPIRED;
    case 429: return KUBE_CAUSE_BUSY;
    default:
        return error && error->rv_too_large ? KUBE_CAUSE_FUTURE
                                            : KUBE_CAUSE_SERVER;
    }
}

/* What a list that was read to the end of its body is. */
static enum kube_cause
classify_list(const struct reflector *r, const struct reflector_end *end)
{
    if (strlen(end->version) >= sizeof r->version) {
        return KUBE_CAUSE_GARBLED;
    } else if (!end->cont[0]) {
        return KUBE_CAUSE_LISTED;
    } else if ((r->cont && !strcmp(r->cont, end->cont))
               || r->n_pages >= REFLECTOR_PAGES_MAX) {
        /* It would go on for ever. */
        return KUBE_CAUSE_GARBLED;
    } else {
        return KUBE_CAUSE_PAGE;
    }
}

static enum kube_cause
classify(const struct reflector *r, const struct reflector_end *end)
{
    if (end->status && end->status != 200) {
        return classify_code(r, end->status, end->error);
    } else if (end->status && end->error) {
        const char *reason = end->error->reason;

        if (!strcmp(reason, "Expired") || !strcmp(reason, "Gone")) {
            return KUBE_CAUSE_EXPIRED;
        }
        return classify_code(r, end->error->code, end->error);
    } else if (end->status && end->garbled) {
        return KUBE_CAUSE_GARBLED;
    } else if (!end->status || end->broken) {
        return KUBE_CAUSE_BROKEN;
    } else if (r->state == KUBE_LIST) {
        return classify_list(r, end);
    } else if (end->lived_ms < SHORT_MS && !end->n_changes) {
        return KUBE_CAUSE_SHORT;
    } else {
        return KUBE_CAUSE_ENDED;
    }
}

/* Makes the next list start with its first page. */
static void
start_list(struct reflector *r)
{
    free(r->cont);
    r->cont = NULL;
    r->n_pages = 0;
    r->next = KUBE_LIST;
}

static void
next_page(struct reflector *r, const char *cont)
{
    free(r->cont);
    r->cont = xstrdup(cont);
    r->n_pages++;
    r->next = KUBE_LIST;
}

/* Gives up the field selector; returns false if there was none. */
static bool
drop_field(struct reflector *r)
{
    bool had_one = resources[r->cfg.kind].field[0] && !r->no_field;

    r->no_field = true;
    return had_one;
}

/* Decides what comes after a list request. */
static void
plan_after_list(struct reflector *r, enum kube_cause cause,
                const struct reflector_end *end)
{
    bool had_pages = r->cont != NULL;

    r->next = KUBE_LIST;
    switch (cause) {
    case KUBE_CAUSE_PAGE: next_page(r, end->cont); break;
    case KUBE_CAUSE_LISTED:
        reflector_seen(r, end->version);
        start_list(r);
        r->latest = true;
        r->no_limit = false;
        r->next = KUBE_WATCH;
        break;
    case KUBE_CAUSE_EXPIRED:
        start_list(r);
        r->latest = true;
        r->no_limit |= had_pages;
        break;
    case KUBE_CAUSE_REJECTED:
        r->no_limit |= !drop_field(r) && had_pages;
        start_list(r);
        break;
    case KUBE_CAUSE_FUTURE:
    case KUBE_CAUSE_ABSENT:
    case KUBE_CAUSE_GARBLED: start_list(r); break;
    case KUBE_CAUSE_BROKEN:
    case KUBE_CAUSE_UNAUTHORIZED:
    case KUBE_CAUSE_FORBIDDEN:
    case KUBE_CAUSE_BUSY:
    case KUBE_CAUSE_SERVER:
        /* The same page again: its token lives for minutes, and all pages are
         * of one state. */
        break;
    case KUBE_CAUSE_ENDED:
    case KUBE_CAUSE_SHORT: OVS_NOT_REACHED();
    }
}

/* Decides what comes after a watch. */
static void
plan_after_watch(struct reflector *r, enum kube_cause cause)
{
    r->next = KUBE_WATCH;
    switch (cause) {
    case KUBE_CAUSE_ABSENT:
    case KUBE_CAUSE_EXPIRED: start_list(r); break;
    case KUBE_CAUSE_REJECTED:
        drop_field(r);
        start_list(r);
        break;
    case KUBE_CAUSE_FUTURE:
        if (++r->n_future > 1) {
            start_list(r);
        }
        break;
    case KUBE_CAUSE_SHORT:
    case KUBE_CAUSE_GARBLED:
    case KUBE_CAUSE_SERVER:
        if (++r->n_lost_watches >= LOST_WATCHES_MAX) {
            start_list(r);
        }
        break;
    case KUBE_CAUSE_ENDED:
    case KUBE_CAUSE_BROKEN:
    case KUBE_CAUSE_UNAUTHORIZED:
    case KUBE_CAUSE_FORBIDDEN:
    case KUBE_CAUSE_BUSY: break;
    case KUBE_CAUSE_PAGE:
    case KUBE_CAUSE_LISTED: OVS_NOT_REACHED();
    }
    if (r->next == KUBE_LIST) {
        r->n_lost_watches = 0;
        r->n_future = 0;
    }
}

/* The wait that the server asked for, in ms, plus something that keeps the
 * nodes apart; 0 if it didn't ask. */
static int
asked_wait(const struct reflector_end *end, uint32_t random)
{
    int s =
        MAX(end->retry_after_s, end->error ? end->error->retry_after_s : 0);

    return s > 0 ? MIN(s, REFLECTOR_ASKED_MAX_S) * 1000 + scale(random, 1000)
                 : 0;
}

/* Whether a retry without a wait is due, which then counts as taken. */
static bool
take_free_retry(struct reflector *r, long long int now_ms)
{
    if (r->free_taken || now_ms - r->free_ms < REFLECTOR_CALM_MS) {
        return false;
    }
    r->free_taken = true;
    r->free_ms = now_ms;
    return true;
}

static void
choose_wait(struct reflector *r, const struct reflector_end *end,
            long long int now_ms, uint32_t random, struct reflector_verdict *v)
{
    switch (causes[v->cause].wait) {
    case WAIT_NOW: v->wait_ms = 0; return;
    case WAIT_ONCE:
        if (take_free_retry(r, now_ms)) {
            v->expected = true;
            v->wait_ms = 0;
            return;
        }
        break;
    case WAIT_SPREAD:
        if (take_free_retry(r, now_ms)) {
            v->expected = true;
            v->wait_ms = scale(random, r->cfg.backoff_min_ms);
            return;
        }
        break;
    case WAIT_ASKED:
        v->wait_ms = asked_wait(end, random);
        if (v->wait_ms) {
            return;
        }
        break;
    case WAIT_SLOW:
        v->wait_ms =
            r->cfg.backoff_max_ms + scale(random, r->cfg.backoff_max_ms);
        return;
    case WAIT_RARE:
        v->wait_ms =
            rare_factor(r->cfg.kind)
            * (r->cfg.backoff_max_ms + scale(random, r->cfg.backoff_max_ms));
        return;
    case WAIT_BACKOFF: break;
    }
    v->wait_ms = backoff_next(&r->backoff, random);
}

struct reflector_verdict
reflector_end(struct reflector *r, const struct reflector_end *end,
              long long int now_ms, uint32_t random)
{
    struct reflector_verdict v = { .cause = classify(r, end) };

    v.failure = v.cause != KUBE_CAUSE_PAGE && v.cause != KUBE_CAUSE_LISTED
                && v.cause != KUBE_CAUSE_ENDED;
    if (r->state == KUBE_WATCH) {
        if (end->n_changes || v.cause == KUBE_CAUSE_ENDED) {
            r->n_lost_watches = 0;
            r->n_future = 0;
        }
        if (end->status == 200 && end->lived_ms >= REFLECTOR_CALM_MS) {
            backoff_reset(&r->backoff);
            r->free_taken = false;
        }
        plan_after_watch(r, v.cause);
    } else {
        plan_after_list(r, v.cause, end);
    }
    if (!v.failure) {
        r->free_taken = false;
    }

    choose_wait(r, end, now_ms, random, &v);
    r->wake_ms = now_ms + v.wait_ms;
    r->state = v.wait_ms ? KUBE_BACKOFF : r->next;
    return v;
}

void
reflector_tick(struct reflector *r, long long int now_ms)
{
    if (r->state == KUBE_BACKOFF && now_ms >= r->wake_ms) {
        r->state = r->next;
    }
}
