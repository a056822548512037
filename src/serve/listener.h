/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_SERVE_LISTENER_H
#define OFPROXYD_SERVE_LISTENER_H 1

/* A site that is to be there, tried again as long as it can't be: its port
 * may belong to another program, its address may not have come yet. */

#include <stdint.h>

#include "httpd.h"
#include "ofproxyd/base/backoff.h"

struct listener {
    struct httpd_where where;
    httpd_handler *handler;
    void *aux;

    struct httpd_site *site; /* NULL: not there. */
    int error;               /* Why not; 0: not tried yet. */
    struct backoff backoff;
    long long int next_ms; /* Of the next try. */
};

void listener_init(struct listener *, const struct httpd_where *,
                   httpd_handler *, void *aux);
void listener_uninit(struct listener *, struct httpd *);

/* Tries, if it is missing and the time for it has come.  Returns true if there
 * is something to say: it failed for a new reason, or, when 'error' is 0 now,
 * there it is after it had failed. */
bool listener_run(struct listener *, struct httpd *, uint32_t random);

/* When listener_run() has something to do, or LLONG_MAX. */
long long int listener_next(const struct listener *);

/* Appends "ADDRESS:PORT". */
void listener_format(const struct listener *, struct ds *);

#endif /* src/serve/listener.h */
