/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_SERVE_HTTPD_H
#define OFPROXYD_SERVE_HTTPD_H 1

/* An HTTP server for many addresses on the poll loop.
 *
 * libmicrohttpd does the protocol, with its epoll set as one descriptor of
 * ours.  The listening sockets are ours, and so are the limits, which clients
 * of every kind can come up against without harm to others:
 *
 *   - a connection has HTTPD_REQUEST_MS for its first request and answer, and
 *     HTTPD_IDLE_MS for each further one, the time in between included;
 *   - a site has HTTPD_SITE_CONNS connections at most, and all together
 *     HTTPD_CONNS: a new one takes the place of that which has been without a
 *     complete request for longest, so that those who only hold connections
 *     lock nobody out;
 *   - a turn accepts HTTPD_ACCEPTS connections at most;
 *   - one that ended right behind its last request may not be noticed (the
 *     library takes a short read for the end of what has come), and is kept
 *     until one of the above applies;
 *   - request line and headers have to fit into HTTPD_MEMORY bytes. */

#include <stdbool.h>
#include <stdint.h>

#include <openvswitch/dynamic-string.h>

#include "ofproxyd/base/err.h"
#include "ofproxyd/base/ip.h"

#define HTTPD_REQUEST_MS 10000
#define HTTPD_IDLE_MS    60000
#define HTTPD_SITE_CONNS 64
#define HTTPD_CONNS      512
#define HTTPD_ACCEPTS    64
#define HTTPD_MEMORY     16384

struct httpd;
struct httpd_site;

/* An answer, which several requests may share. */
struct httpd_page;

/* Returns a page with the text of 'body', which is emptied. */
struct httpd_page *httpd_page_create(unsigned int status, struct ds *body);
struct httpd_page *httpd_page_ref(struct httpd_page *);
void httpd_page_unref(struct httpd_page *); /* NULL is allowed. */

/* Headers go out in the order in which they were added; the server itself
 * adds Content-Length at the end. */
void httpd_page_add_header(struct httpd_page *, const char *name,
                           const char *value);

/* Returns a reference to the page that answers a request, whose body is not
 * looked at; or NULL, if the answer takes until httpd_resume(). */
typedef struct httpd_page *httpd_handler(const char *method, const char *path,
                                         void *aux);

/* Returns a server without sites, or NULL with the reason. */
struct httpd *httpd_create(struct err *);
void httpd_destroy(struct httpd *); /* NULL is allowed; closes all sites. */

/* Does what can be done without waiting, a bounded amount of it. */
void httpd_run(struct httpd *);
/* Arranges for poll_block() to wake up when httpd_run() has work. */
void httpd_wait(struct httpd *);

struct httpd_where {
    struct ip ip;  /* "0.0.0.0" or "::": all of that family. */
    bool any;      /* All of both families, whatever 'ip' says. */
    uint16_t port; /* Not 0. */
};

/* Listens at an address.  Returns 0 and sets '*ret', or a positive errno value
 * (EAFNOSUPPORT if the host has no such family). */
int httpd_open(struct httpd *, const struct httpd_where *, httpd_handler *,
               void *aux, struct httpd_site **ret) OVS_WARN_UNUSED_RESULT;

/* Stops listening and closes the site's connections, answered or not.  NULL is
 * allowed. */
void httpd_close(struct httpd *, struct httpd_site *);

/* Asks the handler again about all requests of the site that wait. */
void httpd_resume(struct httpd_site *);

struct httpd_stats {
    size_t n_sites, n_conns;
    uint64_t n_accepted;
    uint64_t n_evicted; /* Gave way to a newer one. */
    uint64_t n_expired; /* Took too long. */
    uint64_t n_pauses;  /* No more could be accepted for a while, for want of
                         * descriptors. */
};
/* Sets '*ret' to the present numbers. */
void httpd_get_stats(const struct httpd *, struct httpd_stats *ret);

#endif /* src/serve/httpd.h */
