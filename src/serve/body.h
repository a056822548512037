/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_SERVE_BODY_H
#define OFPROXYD_SERVE_BODY_H 1

/* Texts of the answers to health checks, to the byte as kube-proxy (1.36)
 * gives them, where it has them.  Pure. */

#include <openvswitch/dynamic-string.h>

#include "ofproxyd/base/health.h"

/* Appends the answer of /healthz or, without what is said of the Node, of
 * /livez, and returns its status: 200 or 503. */
unsigned int body_healthz(const struct health_state *, struct ds *);
unsigned int body_livez(const struct health_state *, struct ds *);

/* As body_livez(), with the status 503 until all has been applied once. */
unsigned int body_readyz(const struct health_state *, struct ds *);

/* Appends the answer of a Service's health-check node port and returns its
 * status. */
unsigned int body_check(const struct health_check *, bool proxy_is_ok,
                        struct ds *);

/* Appends a time, us since 1970, as Go writes it in JSON: RFC 3339 in UTC with
 * as many decimals as are not zero.  0 is Go's zero time. */
void body_put_time(int64_t us, struct ds *);

/* Appends a time as HTTP's Date has it. */
void body_put_date(int64_t us, struct ds *);

#endif /* src/serve/body.h */
