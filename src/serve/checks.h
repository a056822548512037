/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_SERVE_CHECKS_H
#define OFPROXYD_SERVE_CHECKS_H 1

/* Health-check node ports: for each Service and family with one a listener on
 * every address where NodePorts are served, where load balancers ask whether
 * this node has endpoints of the Service. */

#include "httpd.h"
#include "ofproxyd/base/health.h"

struct checks;

/* What checks need of others; all is called from checks_run() or
 * httpd_run(). */
struct checks_cfg {
    struct httpd *httpd;
    void *aux; /* For the functions. */
    void (*get_health)(const void *aux, struct health_state *);

    /* A port can't be listened on, for a new reason; NULL is allowed. */
    void (*failed)(void *aux, const struct health_check *, const char *why);
};

struct checks *checks_create(const struct checks_cfg *);
void checks_destroy(struct checks *); /* NULL is allowed. */

/* From now on this is what is said of this Service in this family, and on that
 * port.  What closes does so at once, what opens in checks_run(), so that a
 * port can go from one Service to another.  Copies all. */
void checks_set(struct checks *, const struct health_check *);

/* Where to listen: at 'n' addresses, or everywhere if 'all'.  Cheap if nothing
 * differs from before.  Nowhere at first. */
void checks_set_addresses(struct checks *, bool all, const struct ip *ips,
                          size_t n);

/* Opens what is missing. */
void checks_run(struct checks *);
/* Arranges for poll_block() to wake up when checks_run() has work. */
void checks_wait(struct checks *);

/* Sets '*ret_open' and '*ret_failing' to numbers of listeners. */
void checks_count(const struct checks *, size_t *ret_open,
                  size_t *ret_failing);

#endif /* src/serve/checks.h */
