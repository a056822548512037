/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_SERVE_WEB_H
#define OFPROXYD_SERVE_WEB_H 1

/* All that is answered over HTTP:
 *
 *   - at antreaProxy.serviceHealthCheckServerBindAddress, with
 *     antreaProxy.proxyAll: /healthz, /livez and /readyz, for load balancers
 *     and the kubelet;
 *   - on the health-check node ports of Services, under the same condition;
 *   - at ofproxyd.metricsBindAddress: /metrics, and kube-proxy's /healthz and
 *     /proxyMode.
 *
 * An address that can't be listened on is named in the log and tried again.
 * Slow, many and hostile clients take nothing but their share (httpd.h). */

#include "ofproxyd/base/err.h"
#include "ofproxyd/base/health.h"
#include "ofproxyd/config/config.h"

struct web;

/* Where answers come from. */
struct web_cfg {
    const struct cfg *cfg; /* Must outlive the web. */
    void *aux;             /* For the functions. */

    /* Sets '*ret' to the present state. */
    void (*get_health)(const void *aux, struct health_state *ret);

    /* Appends all metrics but the web's own.  Returns false instead if they
     * have to be waited for, until 'metrics_ready' returns true. */
    bool (*format_metrics)(void *aux, struct ds *);
    bool (*metrics_ready)(void *aux);

    /* A health-check node port can't be listened on; NULL is allowed. */
    void (*check_failed)(void *aux, const struct health_check *,
                         const char *why);
};

/* Returns 0 and sets '*ret', or a positive errno value, '*ret' being NULL
 * then, and says why in 'err'.
 * Listens nowhere yet. */
int web_create(const struct web_cfg *, struct web **ret, struct err *err)
    OVS_WARN_UNUSED_RESULT;
void web_destroy(struct web *); /* NULL is allowed. */

/* A Service's health check is as said here, from now on.  Copied. */
void web_set_check(struct web *, const struct health_check *);

/* Addresses of this node on which NodePorts are served, if not on all; copied.
 * Cheap if nothing differs from before. */
void web_set_addresses(struct web *, const struct ip *, size_t n);

/* Does what can be done without waiting, a bounded amount of it. */
void web_run(struct web *);
/* Arranges for poll_block() to wake up when web_run() has work. */
void web_wait(struct web *);

#endif /* ofproxyd/serve/web.h */
