/* SPDX-License-Identifier: Apache-2.0 */
/* Listeners and answers of health-check node ports. */

#include "checks.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include <openvswitch/poll-loop.h>
#include <openvswitch/shash.h>
#include <openvswitch/vlog.h>

#include <random.h>
#include <timeval.h>
#include <util.h>

#include "body.h"
#include "listener.h"

VLOG_DEFINE_THIS_MODULE(checks);

struct checks {
    struct checks_cfg cfg;
    struct shash checks; /* By "ns/name/family", of struct check. */
    bool all;
    struct ip *ips;
    size_t n_ips;
    long long int next_ms; /* When to look for what is missing. */
};

struct check {
    struct checks *checks;
    char *ns, *name;
    struct health_check c; /* Its strings are those above. */
    struct listener *listeners;
    size_t n_listeners;
};

struct checks *
checks_create(const struct checks_cfg *cfg)
{
    struct checks *cs = xzalloc(sizeof *cs);

    cs->cfg = *cfg;
    shash_init(&cs->checks);
    cs->next_ms = LLONG_MAX;
    return cs;
}

/* Answers. */

static struct httpd_page *
answer(const char *method, const char *path, void *check_)
{
    const struct check *check = check_;
    const struct checks_cfg *cfg = &check->checks->cfg;
    struct ds body = DS_EMPTY_INITIALIZER;
    struct ds date = DS_EMPTY_INITIALIZER;
    struct health_state health;
    struct httpd_page *page;
    char weight[32];
    unsigned int status;

    (void) method;
    (void) path;
    cfg->get_health(cfg->aux, &health);
    status = body_check(&check->c, health_state_is_ok(&health), &body);
    page = httpd_page_create(status, &body);
    httpd_page_add_header(page, "Content-Type", "application/json");
    httpd_page_add_header(page, "X-Content-Type-Options", "nosniff");
    snprintf(weight, sizeof weight, "%zu", check->c.n_local);
    httpd_page_add_header(page, "X-Load-Balancing-Endpoint-Weight", weight);
    body_put_date(health.now_us, &date);
    httpd_page_add_header(page, "Date", ds_cstr(&date));
    ds_destroy(&date);
    return page;
}

/* Listeners. */

static void
check_close(struct check *check)
{
    for (size_t i = 0; i < check->n_listeners; i++) {
        listener_uninit(&check->listeners[i], check->checks->cfg.httpd);
    }
    free(check->listeners);
    check->listeners = NULL;
    check->n_listeners = 0;
}

static void
add_listener(struct check *check, const struct ip *ip)
{
    const struct httpd_where where = { .ip = *ip, .port = check->c.port };

    check->listeners =
        xrealloc(check->listeners,
                 (check->n_listeners + 1) * sizeof *check->listeners);
    listener_init(&check->listeners[check->n_listeners++], &where, answer,
                  check);
    check->checks->next_ms = 0;
}

static bool
listens_at(const struct check *check, const struct ip *ip)
{
    for (size_t i = 0; i < check->n_listeners; i++) {
        if (ip_equals(&check->listeners[i].where.ip, ip)) {
            return true;
        }
    }
    return false;
}

/* Addresses where 'check' is to be found. */
static size_t
wanted_ips(const struct check *check, struct ip *ips)
{
    const struct checks *cs = check->checks;
    size_t n = 0;

    if (cs->all) {
        memset(&ips[0], 0, sizeof ips[0]);
        if (check->c.family == IP_V4) {
            ips[0] = ip_from_v4(0);
        }
        return 1;
    }
    for (size_t i = 0; i < cs->n_ips; i++) {
        if (ip_family(&cs->ips[i]) == check->c.family) {
            ips[n++] = cs->ips[i];
        }
    }
    return n;
}

static bool
contains(const struct ip *ips, size_t n, const struct ip *ip)
{
    for (size_t i = 0; i < n; i++) {
        if (ip_equals(&ips[i], ip)) {
            return true;
        }
    }
    return false;
}

/* What listens at an address that stays isn't touched. */
static void
check_move(struct check *check)
{
    struct ip *ips = xmalloc(MAX(check->checks->n_ips, 1) * sizeof *ips);
    size_t n_ips = wanted_ips(check, ips);
    size_t n = 0;

    for (size_t i = 0; i < check->n_listeners; i++) {
        struct listener *l = &check->listeners[i];

        if (contains(ips, n_ips, &l->where.ip)) {
            check->listeners[n++] = *l;
        } else {
            listener_uninit(l, check->checks->cfg.httpd);
        }
    }
    check->n_listeners = n;
    for (size_t i = 0; i < n_ips; i++) {
        if (!listens_at(check, &ips[i])) {
            add_listener(check, &ips[i]);
        }
    }
    free(ips);
}

/* Checks. */

static void
check_destroy(struct checks *cs, struct shash_node *node)
{
    struct check *check = node->data;

    check_close(check);
    shash_delete(&cs->checks, node);
    free(check->ns);
    free(check->name);
    free(check);
}

void
checks_destroy(struct checks *cs)
{
    struct shash_node *node;

    if (!cs) {
        return;
    }
    SHASH_FOR_EACH_SAFE (node, &cs->checks) {
        check_destroy(cs, node);
    }
    shash_destroy(&cs->checks);
    free(cs->ips);
    free(cs);
}

static struct check *
check_create(struct checks *cs, const char *key, const struct health_check *c)
{
    struct check *check = xzalloc(sizeof *check);

    check->checks = cs;
    check->ns = xstrdup(c->ns);
    check->name = xstrdup(c->name);
    check->c = (struct health_check){
        .ns = check->ns,
        .name = check->name,
        .family = c->family,
    };
    shash_add(&cs->checks, key, check);
    return check;
}

void
checks_set(struct checks *cs, const struct health_check *c)
{
    char *key =
        xasprintf("%s/%s/%s", c->ns, c->name, ip_family_name(c->family));
    struct shash_node *node = shash_find(&cs->checks, key);
    struct check *check = node ? node->data : NULL;

    if (!c->port) {
        if (node) {
            check_destroy(cs, node);
        }
    } else {
        if (!check) {
            check = check_create(cs, key, c);
        }
        if (c->port != check->c.port) {
            check_close(check);
            check->c.port = c->port;
            check_move(check);
        }
        check->c.n_local = c->n_local;
    }
    free(key);
}

void
checks_set_addresses(struct checks *cs, bool all, const struct ip *ips,
                     size_t n)
{
    struct shash_node *node;

    if (all == cs->all && n == cs->n_ips
        && (!n || !memcmp(ips, cs->ips, n * sizeof *ips))) {
        return;
    }
    free(cs->ips);
    cs->all = all;
    cs->ips = n ? xmemdup(ips, n * sizeof *ips) : NULL;
    cs->n_ips = n;
    SHASH_FOR_EACH (node, &cs->checks) {
        check_move(node->data);
    }
}

static void
report(const struct check *check, const struct listener *l)
{
    static struct vlog_rate_limit rl = VLOG_RATE_LIMIT_INIT(10, 20);
    const struct checks_cfg *cfg = &check->checks->cfg;
    struct ds ds = DS_EMPTY_INITIALIZER;

    listener_format(l, &ds);
    if (!l->error) {
        VLOG_INFO_RL(&rl, "Service %s/%s: health checks are answered on %s",
                     check->ns, check->name, ds_cstr(&ds));
    } else if (l->error == EAFNOSUPPORT) {
        VLOG_INFO_RL(&rl,
                     "Service %s/%s: no health checks on %s, since the host "
                     "has no such addresses",
                     check->ns, check->name, ds_cstr(&ds));
    } else {
        ds_put_format(&ds, ": %s", ovs_strerror(l->error));
        VLOG_WARN_RL(&rl,
                     "Service %s/%s: health checks can't be answered on %s; "
                     "it will be tried again",
                     check->ns, check->name, ds_cstr(&ds));
        if (cfg->failed) {
            cfg->failed(cfg->aux, &check->c, ds_cstr(&ds));
        }
    }
    ds_destroy(&ds);
}

void
checks_run(struct checks *cs)
{
    const struct shash_node *node;

    if (time_msec() < cs->next_ms) {
        return;
    }
    cs->next_ms = LLONG_MAX;
    SHASH_FOR_EACH (node, &cs->checks) {
        const struct check *check = node->data;

        for (size_t i = 0; i < check->n_listeners; i++) {
            struct listener *l = &check->listeners[i];

            if (listener_run(l, cs->cfg.httpd, random_uint32())) {
                report(check, l);
            }
            cs->next_ms = MIN(cs->next_ms, listener_next(l));
        }
    }
}

void
checks_wait(struct checks *cs)
{
    if (cs->next_ms != LLONG_MAX) {
        poll_timer_wait_until(cs->next_ms);
    }
}

void
checks_count(const struct checks *cs, size_t *ret_open, size_t *ret_failing)
{
    const struct shash_node *node;

    *ret_open = *ret_failing = 0;
    SHASH_FOR_EACH (node, &cs->checks) {
        const struct check *check = node->data;

        for (size_t i = 0; i < check->n_listeners; i++) {
            *ret_open += check->listeners[i].site != NULL;
            *ret_failing += !check->listeners[i].site;
        }
    }
}
