/* SPDX-License-Identifier: Apache-2.0 */
/* The API client: one watcher for each kind, and a publisher, over one set of
 * connections. */

#include "ofproxyd/kube/kube.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include <hash.h>
#include <openvswitch/vlog.h>
#include <util.h>

#include "evsender.h"
#include "ofproxyd/kube/http.h"
#include "ofproxyd/kube/reflector.h"
#include "publisher.h"
#include "watcher.h"

VLOG_DEFINE_THIS_MODULE(kube_client);

struct kube {
    struct watcher_env env;
    struct watcher watchers[N_MODEL_KINDS];
    struct publisher publisher;
    struct evsender evsender;
    char *proxy_name;      /* NULL if absent. */
    char *multicluster_ns; /* NULL if absent. */
};

/* Whether objects of this kind are asked for at all. */
static bool
follows(const struct kube *kube, enum model_kind kind)
{
    return kube->multicluster_ns || !reflector_needs_namespace(kind);
}

/* Whether 's' can be the value of a label. */
static bool
is_label_value(const char *s)
{
    size_t n = strlen(s);

    for (size_t i = 0; i < n; i++) {
        unsigned char c = s[i];
        bool inside = i > 0 && i < n - 1;

        if (c >= 0x80 || !(isalnum(c) || (inside && strchr("-_.", c)))) {
            return false;
        }
    }
    return n > 0 && n <= 63;
}

/* Returns 'value', or 'def' if it is 0. */
static int
or_default(int value, int def)
{
    return value ? value : def;
}

static int
check_limits(const struct reflector_cfg *cfg, int silence_ms, struct err *err)
{
    if (cfg->page_limit < 0 || cfg->watch_timeout_s < 0
        || cfg->watch_timeout_s > 86400 || silence_ms < 0
        || cfg->backoff_min_ms < 0 || cfg->backoff_max_ms < cfg->backoff_min_ms
        || cfg->backoff_max_ms > 3600000) {
        err_set(err, "a limit of the API client is out of range");
        return EINVAL;
    }
    return 0;
}

static void
init_evsender(struct kube *kube, const struct kube_cfg *cfg,
              const struct reflector_cfg *rcfg)
{
    struct evsender_cfg ecfg = {
        .backoff_min_ms = rcfg->backoff_min_ms,
        .backoff_max_ms = rcfg->backoff_max_ms,
        .repeat_ms = or_default(cfg->event_repeat_ms, 360000),
        .every_ms = or_default(cfg->event_every_ms, 10000),
    };

    evsender_init(&kube->evsender, &kube->env, &ecfg);
}

int
kube_create(const struct kube_cfg *cfg, struct model *model, struct kube **ret,
            struct err *err)
{
    const char *proxy_name = cfg->service_proxy_name;
    struct reflector_cfg rcfg = {
        .page_limit = or_default(cfg->page_limit, 500),
        .watch_timeout_s = or_default(cfg->watch_timeout_s, 300),
        .backoff_min_ms = or_default(cfg->backoff_min_ms, 800),
        .backoff_max_ms = or_default(cfg->backoff_max_ms, 30000),
    };
    int silence_ms = or_default(cfg->silence_ms, 150000);
    struct http *http;

    if (proxy_name && proxy_name[0] && !is_label_value(proxy_name)) {
        err_set(err, "service proxy name \"%s\" is no label value",
                proxy_name);
        return EINVAL;
    }
    int error = check_limits(&rcfg, silence_ms, err);
    if (error) {
        return error;
    }
    error = http_create(cfg, &http, err);
    if (error) {
        return error;
    }
    if (cfg->insecure_skip_tls_verify) {
        VLOG_WARN("the API server at %s is not verified "
                  "(insecure-skip-tls-verify)",
                  cfg->server);
    }

    struct kube *kube = xzalloc(sizeof *kube);
    kube->proxy_name =
        proxy_name && proxy_name[0] ? xstrdup(proxy_name) : NULL;
    kube->env = (struct watcher_env){
        .http = http,
        .model = model,
        .evsender = &kube->evsender,
        .random = hash_int(cfg->seed, 0) | 1, /* May not be 0. */
        .silence_ms = silence_ms,
    };
    kube->multicluster_ns = cfg->multicluster_ns && cfg->multicluster_ns[0]
                                ? xstrdup(cfg->multicluster_ns)
                                : NULL;
    rcfg.proxy_name = kube->proxy_name;
    rcfg.ns = kube->multicluster_ns;
    for (int i = 0; i < N_MODEL_KINDS; i++) {
        rcfg.kind = i;
        watcher_init(&kube->watchers[i], &kube->env, &rcfg);
        if (!follows(kube, i)) {
            model_give_up(model, i);
        }
    }
    publisher_init(&kube->publisher, &kube->env, rcfg.backoff_min_ms,
                   rcfg.backoff_max_ms);
    init_evsender(kube, cfg, &rcfg);
    *ret = kube;
    return 0;
}

void
kube_destroy(struct kube *kube)
{
    if (kube) {
        for (int i = 0; i < N_MODEL_KINDS; i++) {
            watcher_uninit(&kube->watchers[i]);
        }
        publisher_uninit(&kube->publisher);
        evsender_uninit(&kube->evsender);
        http_destroy(kube->env.http);
        free(kube->proxy_name);
        free(kube->multicluster_ns);
        free(kube);
    }
}

void
kube_run(struct kube *kube)
{
    http_run(kube->env.http);
    for (int i = 0; i < N_MODEL_KINDS; i++) {
        if (follows(kube, i)) {
            watcher_run(&kube->watchers[i]);
        }
    }
    publisher_run(&kube->publisher);
    evsender_run(&kube->evsender);
}

void
kube_wait(struct kube *kube)
{
    http_wait(kube->env.http);
    for (int i = 0; i < N_MODEL_KINDS; i++) {
        if (follows(kube, i)) {
            watcher_wait(&kube->watchers[i]);
        }
    }
    publisher_wait(&kube->publisher);
    evsender_wait(&kube->evsender);
}

void
kube_get_stats(const struct kube *kube, enum model_kind kind,
               struct kube_kind_stats *ret)
{
    const struct watcher *w = &kube->watchers[kind];

    *ret = w->stats;
    ret->state =
        follows(kube, kind) ? kube_state_name(w->reflector.state) : NULL;
}

void
kube_set_transport(struct kube *kube, const struct ip transport[N_IP_FAMILIES])
{
    publisher_set(&kube->publisher, transport);
}

void
kube_get_publish_stats(const struct kube *kube, struct kube_publish_stats *ret)
{
    *ret = kube->publisher.stats;
}

void
events_emit(struct kube *kube, const struct event_ref *ref,
            enum event_reason reason, const char *note)
{
    evsender_emit(&kube->evsender, ref, reason, note);
}

void
kube_get_event_stats(const struct kube *kube, struct kube_event_stats *ret)
{
    *ret = kube->evsender.stats;
}
