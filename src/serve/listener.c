/* SPDX-License-Identifier: Apache-2.0 */
/* Listening, again and again until it succeeds. */

#include "listener.h"

#include <errno.h>
#include <limits.h>

#include <timeval.h>

#define RETRY_MIN_MS 500
#define RETRY_MAX_MS 15000

void
listener_init(struct listener *l, const struct httpd_where *where,
              httpd_handler *handler, void *aux)
{
    *l = (struct listener){
        .where = *where,
        .handler = handler,
        .aux = aux,
        .backoff = BACKOFF_INIT(RETRY_MIN_MS, RETRY_MAX_MS),
    };
}

void
listener_uninit(struct listener *l, struct httpd *h)
{
    httpd_close(h, l->site);
    l->site = NULL;
}

bool
listener_run(struct listener *l, struct httpd *h, uint32_t random)
{
    int before = l->error;

    if (l->site || time_msec() < l->next_ms) {
        return false;
    }
    l->error = httpd_open(h, &l->where, l->handler, l->aux, &l->site);
    if (l->error) {
        l->next_ms = time_msec() + backoff_next(&l->backoff, random);
    }
    return l->error != before;
}

long long int
listener_next(const struct listener *l)
{
    return l->site ? LLONG_MAX : l->next_ms;
}

void
listener_format(const struct listener *l, struct ds *ds)
{
    bool v6 = !l->where.any && ip_family(&l->where.ip) == IP_V6;
    char text[IP_STRLEN];

    ds_put_format(ds, v6 ? "[%s]:%u" : "%s:%u",
                  l->where.any ? "*" : ip_to_string(&l->where.ip, text),
                  l->where.port);
}
