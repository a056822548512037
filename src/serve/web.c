/* SPDX-License-Identifier: Apache-2.0 */
/* The sites, and which path leads to what. */

#include "ofproxyd/serve/web.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include <openvswitch/poll-loop.h>
#include <openvswitch/vlog.h>

#include <random.h>
#include <timeval.h>
#include <util.h>

#include "body.h"
#include "checks.h"
#include "httpd.h"
#include "listener.h"
#include "ofproxyd/base/metric.h"

VLOG_DEFINE_THIS_MODULE(web);

/* A page of metrics serves all who ask so soon after another: with many
 * Services it takes some ten milliseconds to write. */
#define METRICS_KEPT_MS 500

/* How often to look for what a page waits for, if nothing else happens. */
#define METRICS_POLL_MS 50

/* What /proxyMode says.  Those who ask (Kubernetes' own tests) do special
 * things for kube-proxy's modes; none of them fits. */
#define PROXY_MODE "ofproxyd"

#define TEXT       "text/plain; charset=utf-8"
#define PROMETHEUS "text/plain; version=0.0.4; charset=utf-8"

enum site_id {
    SITE_HEALTH,
    SITE_METRICS,
    N_SITES
};

static const char *const site_names[] = {
    [SITE_HEALTH] = "/healthz, /livez and /readyz",
    [SITE_METRICS] = "/metrics",
};

/* How often which status was the answer. */
struct tally {
    uint64_t ok, unavailable;
};

struct web {
    struct web_cfg cfg;
    struct httpd *httpd;
    struct checks *checks; /* NULL: not served. */
    struct listener sites[N_SITES];
    bool wanted[N_SITES];

    struct tally healthz, livez;
    struct httpd_page *metrics; /* The last one, or NULL. */
    long long int metrics_ms;   /* When it was made. */
    bool metrics_wait;          /* Somebody waits for one. */
};

/* Pages. */

static struct httpd_page *
create_page(unsigned int status, const char *type, struct ds *body)
{
    struct httpd_page *page = httpd_page_create(status, body);
    struct ds date = DS_EMPTY_INITIALIZER;

    httpd_page_add_header(page, "Content-Type", type);
    httpd_page_add_header(page, "X-Content-Type-Options", "nosniff");
    body_put_date(time_wall_msec() * INT64_C(1000), &date);
    httpd_page_add_header(page, "Date", ds_cstr(&date));
    ds_destroy(&date);
    return page;
}

static struct httpd_page *
text_page(unsigned int status, const char *text)
{
    struct ds body = DS_EMPTY_INITIALIZER;

    ds_put_cstr(&body, text);
    return create_page(status, TEXT, &body);
}

static struct httpd_page *
health_page(const struct web *w,
            unsigned int (*format)(const struct health_state *, struct ds *),
            struct tally *tally)
{
    struct ds body = DS_EMPTY_INITIALIZER;
    struct health_state health;
    unsigned int status;

    w->cfg.get_health(w->cfg.aux, &health);
    status = format(&health, &body);
    if (status == 200) {
        tally->ok++;
    } else {
        tally->unavailable++;
    }
    return create_page(status, "application/json", &body);
}

static struct httpd_page *
answer_health(const char *method, const char *path, void *web_)
{
    struct web *w = web_;

    (void) method;
    if (!strcmp(path, "/healthz")) {
        return health_page(w, body_healthz, &w->healthz);
    } else if (!strcmp(path, "/livez")) {
        return health_page(w, body_livez, &w->livez);
    } else if (!strcmp(path, "/readyz")) {
        struct tally unused = { 0 };

        return health_page(w, body_readyz, &unused);
    }
    return text_page(404, "404 page not found\n");
}

/* Metrics. */

static void
put_tally(const char *name, const char *help, const struct tally *tally,
          struct ds *ds)
{
    struct metric_label code = { "code", "200" };

    metric_begin(ds, name, METRIC_COUNTER, help);
    metric_put(ds, name, &code, 1, tally->ok);
    code.value = "503";
    metric_put(ds, name, &code, 1, tally->unavailable);
}

static void
put_number(const char *name, enum metric_type type, const char *help,
           double value, struct ds *ds)
{
    metric_begin(ds, name, type, help);
    metric_put(ds, name, NULL, 0, value);
}

static void
put_own_metrics(const struct web *w, struct ds *ds)
{
    size_t n_open = 0, n_failing = 0;
    struct httpd_stats s;

    put_tally("kubeproxy_proxy_healthz_total",
              "Answers of /healthz, by status.", &w->healthz, ds);
    put_tally("kubeproxy_proxy_livez_total", "Answers of /livez, by status.",
              &w->livez, ds);
    if (w->checks) {
        checks_count(w->checks, &n_open, &n_failing);
    }
    put_number("ofproxyd_health_check_listeners", METRIC_GAUGE,
               "Addresses on which Services' health checks are answered.",
               n_open, ds);
    put_number("ofproxyd_health_check_listeners_failing", METRIC_GAUGE,
               "Addresses on which Services' health checks should be answered "
               "but can't be.",
               n_failing, ds);
    httpd_get_stats(w->httpd, &s);
    put_number("ofproxyd_http_connections", METRIC_GAUGE,
               "Open connections of HTTP clients.", s.n_conns, ds);
    put_number("ofproxyd_http_connections_total", METRIC_COUNTER,
               "Connections of HTTP clients.", s.n_accepted, ds);
    put_number("ofproxyd_http_connections_evicted_total", METRIC_COUNTER,
               "Connections of HTTP clients that had to give way to newer "
               "ones.",
               s.n_evicted, ds);
    put_number("ofproxyd_http_connections_expired_total", METRIC_COUNTER,
               "Connections of HTTP clients that were too slow.", s.n_expired,
               ds);
}

static struct httpd_page *
metrics_page(struct web *w)
{
    struct ds body = DS_EMPTY_INITIALIZER;
    long long int now_ms = time_msec();

    if (w->metrics && now_ms < w->metrics_ms + METRICS_KEPT_MS) {
        return httpd_page_ref(w->metrics);
    }
    if (!w->cfg.format_metrics(w->cfg.aux, &body)) {
        w->metrics_wait = true;
        ds_destroy(&body);
        return NULL;
    }
    put_own_metrics(w, &body);
    httpd_page_unref(w->metrics);
    w->metrics = create_page(200, PROMETHEUS, &body);
    w->metrics_ms = now_ms;
    return httpd_page_ref(w->metrics);
}

static struct httpd_page *
answer_metrics(const char *method, const char *path, void *web_)
{
    (void) method;
    if (!strcmp(path, "/metrics")) {
        return metrics_page(web_);
    } else if (!strcmp(path, "/healthz")) {
        return text_page(200, "ok");
    } else if (!strcmp(path, "/proxyMode")) {
        return text_page(200, PROXY_MODE);
    }
    return text_page(404, "404 page not found\n");
}

/* Sites. */

static void
want_site(struct web *w, enum site_id id, const struct cfg_addr *addr,
          httpd_handler *handler)
{
    struct httpd_where where = { .ip = addr->ip, .port = addr->port };

    /* As Go takes it: everywhere, whatever the family. */
    where.any = ip_is_none(&addr->ip)
                || (ip_family(&addr->ip) == IP_V4 && !ip_v4(&addr->ip));
    listener_init(&w->sites[id], &where, handler, w);
    w->wanted[id] = true;
}

int
web_create(const struct web_cfg *cfg, struct web **ret, struct err *err)
{
    const struct cfg *c = cfg->cfg;
    struct httpd *httpd = httpd_create(err);
    struct web *w;

    *ret = NULL;
    if (!httpd) {
        return EIO;
    }
    w = xzalloc(sizeof *w);
    w->cfg = *cfg;
    w->httpd = httpd;
    if (c->antrea_proxy_proxy_all
        && !c->antrea_proxy_disable_service_health_check_server) {
        want_site(w, SITE_HEALTH,
                  &c->antrea_proxy_service_health_check_server_bind_address,
                  answer_health);
        w->checks = checks_create(&(struct checks_cfg){
            .httpd = httpd,
            .aux = cfg->aux,
            .get_health = cfg->get_health,
            .failed = cfg->check_failed,
        });
        web_set_addresses(w, NULL, 0);
    }
    if (c->enable_prometheus_metrics) {
        want_site(w, SITE_METRICS, &c->ofproxyd_metrics_bind_address,
                  answer_metrics);
    }
    *ret = w;
    return 0;
}

void
web_destroy(struct web *w)
{
    if (!w) {
        return;
    }
    checks_destroy(w->checks);
    for (int i = 0; i < N_SITES; i++) {
        listener_uninit(&w->sites[i], w->httpd);
    }
    httpd_destroy(w->httpd);
    httpd_page_unref(w->metrics);
    free(w);
}

void
web_set_check(struct web *w, const struct health_check *c)
{
    if (w->checks) {
        checks_set(w->checks, c);
    }
}

void
web_set_addresses(struct web *w, const struct ip *ips, size_t n)
{
    if (w->checks) {
        bool all = !w->cfg.cfg->antrea_proxy_node_port_addresses.n;

        checks_set_addresses(w->checks, all, all ? NULL : ips, all ? 0 : n);
    }
}

static void
run_site(struct web *w, enum site_id id)
{
    struct listener *l = &w->sites[id];
    struct ds ds = DS_EMPTY_INITIALIZER;

    if (!w->wanted[id] || !listener_run(l, w->httpd, random_uint32())) {
        return;
    }
    listener_format(l, &ds);
    if (l->error) {
        VLOG_WARN("%s: can't listen on %s: %s; it will be tried again",
                  site_names[id], ds_cstr(&ds), ovs_strerror(l->error));
    } else {
        VLOG_INFO("%s: on %s now", site_names[id], ds_cstr(&ds));
    }
    ds_destroy(&ds);
}

void
web_run(struct web *w)
{
    for (int i = 0; i < N_SITES; i++) {
        run_site(w, i);
    }
    if (w->checks) {
        checks_run(w->checks);
    }
    if (w->metrics_wait && w->cfg.metrics_ready(w->cfg.aux)) {
        w->metrics_wait = false;
        httpd_resume(w->sites[SITE_METRICS].site);
    }
    httpd_run(w->httpd);
}

void
web_wait(struct web *w)
{
    for (int i = 0; i < N_SITES; i++) {
        if (w->wanted[i] && listener_next(&w->sites[i]) != LLONG_MAX) {
            poll_timer_wait_until(listener_next(&w->sites[i]));
        }
    }
    if (w->checks) {
        checks_wait(w->checks);
    }
    if (w->metrics_wait) {
        poll_timer_wait(METRICS_POLL_MS);
    }
    httpd_wait(w->httpd);
}
