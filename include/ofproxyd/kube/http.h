/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_KUBE_HTTP_H
#define OFPROXYD_KUBE_HTTP_H 1

/* Requests to the API server, several at a time, on the poll loop.
 *
 * Each request has a connection of its own, so that a list of many megabytes
 * doesn't stand in the way of a watch, is verified against the CA that the
 * file holds now, and carries the token that the file holds now.  The body of
 * a good answer (200 and JSON) goes to a consumer as it arrives; that of
 * anything else is kept, up to a bound, for the error message.  Long answers
 * come packed (gzip) and are unpacked as they arrive: the lists of a large
 * cluster have a twentieth of their size then.
 *
 * The work of one http_run() is bounded in time; what is left stays in the
 * socket, so that a server can't send faster than its bytes are consumed.
 *
 * libcurl stays inside: no type of its own shows here. */

#include <stdbool.h>
#include <stddef.h>

#include <openvswitch/dynamic-string.h>

#include "ofproxyd/base/err.h"

struct kube_cfg;
struct http;
struct http_req;

/* How long one http_run() may take, in microseconds, give or take the
 * consumption of one read (100 KiB, packed or not, or one object that was
 * completed by it). */
#define HTTP_TURN_US 10000

/* So much of an answer that isn't consumed is kept. */
#define HTTP_BODY_MAX (64 * 1024)

/* Time until there is a connection, including the TLS handshake. */
#define HTTP_CONNECT_MS 10000

/* Uses server and credentials of 'cfg', copying them.  Returns 0 and sets
 * '*ret', or EINVAL with 'err'. */
int http_create(const struct kube_cfg *cfg, struct http **ret, struct err *err)
    OVS_WARN_UNUSED_RESULT;

/* All requests must have been destroyed.  NULL is allowed. */
void http_destroy(struct http *);

/* Does what can be done without blocking. */
void http_run(struct http *);
/* Arranges for poll_block() to wake up when http_run() has work. */
void http_wait(struct http *);

struct http_get {
    const char *target; /* Path and query, to be put behind the server's. */

    /* Limits; a request that exceeds one ends as HTTP_SILENT. */
    long long int head_ms;    /* Until the answer's head is there. */
    long long int silence_ms; /* Without a byte after that. */
    long long int total_ms;   /* In all. */

    /* Takes 'len' bytes of the body of a good answer; returns false to end
     * the request.  May not call any http_*() function. */
    bool (*consume)(const char *data, size_t len, void *aux);
    void *aux;
};

/* Starts a request.  It never fails at once: what goes wrong is found in its
 * result. */
struct http_req *http_get(struct http *, const struct http_get *);

/* Starts a PATCH of what is at 'target', path and query as in struct http_get,
 * with the JSON merge patch (RFC 7386) 'body'; both are copied.  It may take
 * 'total_ms' in all.  Of the answer, whatever it is, the first HTTP_BODY_MAX
 * bytes are kept, so that a good one ends as HTTP_WHOLE as well.  It never
 * fails at once, either. */
struct http_req *http_patch(struct http *, const char *target,
                            const char *body, long long int total_ms);

/* The same for a POST of the JSON object 'body'. */
struct http_req *http_post(struct http *, const char *target, const char *body,
                           long long int total_ms);

/* Ends the request, if it is going on, and frees it.  NULL is allowed. */
void http_req_destroy(struct http_req *);

/* How a request ended. */
#define HTTP_ENDS                                                      \
    HTTP_END(WHOLE, "the answer was read to its end")                  \
    HTTP_END(STOPPED, "the consumer said stop")                        \
    HTTP_END(ALIEN, "the answer isn't JSON")                           \
    HTTP_END(CUT, "the connection was closed before the answer's end") \
    HTTP_END(SILENT, "nothing came for too long")                      \
    HTTP_END(FAILED, "no connection, or it broke")

enum http_end {
#define HTTP_END(SYM, MEANING) HTTP_##SYM,
    HTTP_ENDS
#undef HTTP_END
};

struct http_result {
    enum http_end end;
    int status;        /* 0 if no answer came. */
    int retry_after_s; /* Of the head; 0 if absent. */
    const char *text;  /* Of FAILED, SILENT, CUT and ALIEN: what happened. */
    const char *body;  /* What was kept of an answer that wasn't consumed. */
    size_t body_len;
};

/* Returns true and sets '*ret', whose strings live as long as the request, if
 * the request has ended. */
bool http_req_ended(const struct http_req *, struct http_result *ret);

/* Status of the answer whose head has been read; 0 before. */
int http_req_status(const struct http_req *);

#endif /* ofproxyd/kube/http.h */
