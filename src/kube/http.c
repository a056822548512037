/* SPDX-License-Identifier: Apache-2.0 */
/* libcurl's multi interface on the poll loop.
 *
 * libcurl tells which sockets it waits for, and until when; http_wait() hands
 * that to the poll loop.  The loop gives no events back, so http_run() asks
 * poll() again, without waiting, and lets libcurl act on what is ready, one
 * socket after the other until the turn's time is up.  (curl_multi_fdset()
 * fails on descriptors above 1023, curl_multi_waitfds() came with 8.8.)
 *
 * Traps of libcurl that the options below avoid: a CA given as a blob doesn't
 * replace the built-in CA directory; the parsed CA store is cached for a day;
 * a resumed TLS session isn't verified again; HTTP/2 requests share one
 * connection and so hold each other up; a name that is being resolved is
 * waited for when its request is ended, which blocks for as long as the
 * resolver likes; proxies are taken from the environment. */

#include "ofproxyd/kube/http.h"

#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include <hash.h>
#include <openvswitch/hmap.h>
#include <openvswitch/list.h>
#include <openvswitch/poll-loop.h>
#include <timeval.h>
#include <util.h>

#include "ofproxyd/kube/creds.h"
#include "ofproxyd/kube/kube.h"

/* A connection that has gone dead without a word is noticed in 30 to 35 s:
 * probes start after 15 s of quiet, one each 5 s, and what isn't acknowledged
 * for 30 s breaks it. */
#define KEEPALIVE_IDLE_S     15L
#define KEEPALIVE_INTERVAL_S 5L
#define USER_TIMEOUT_MS      30000U

struct http {
    CURLM *multi;
    struct creds creds;
    char *base; /* URL without a '/' at its end. */
    bool insecure;

    /* If the server is verified by another name than it is reached by, then
     * that name stands in 'base' and these say where it really is. */
    struct curl_slist *connect_to;
    char *host_header;

    struct hmap socks;      /* Of struct http_sock. */
    long long int timer_ms; /* When libcurl wants to run; LLONG_MAX: not. */
    struct ovs_list reqs;   /* Of struct http_req that haven't ended. */
    size_t turn;            /* Who is first this time. */
    bool more;              /* The turn ended before the work. */
};

/* A socket that libcurl waits for. */
struct http_sock {
    struct hmap_node hmap_node;
    int fd;
    short int events; /* POLLIN, POLLOUT. */
};

/* Where the body goes. */
enum http_sink {
    SINK_UNKNOWN,
    SINK_CONSUMER,
    SINK_KEEP
};

struct http_req {
    struct ovs_list list_node; /* In http->reqs until it has ended. */
    struct http *http;
    struct http_get get; /* 'target' isn't valid any more.  Without a
                          * consumer the answer is kept, whatever it is. */

    CURL *easy; /* NULL when ended. */
    struct curl_slist *headers;
    char curl_error[CURL_ERROR_SIZE];

    long long int start_ms, last_ms; /* Of the request; of its last byte. */
    int status;                      /* 0 until the head is complete. */
    enum http_sink sink;
    bool stopped; /* By the consumer. */
    bool kept_enough;
    struct ds body;

    bool ended;
    enum http_end end;
    int retry_after_s;
    struct err text;
};

/* Server and TLS name. */

/* Puts the name to verify by into 'url' and notes where to connect to
 * instead. */
static int
set_tls_name(struct http *http, CURLU *url, const char *name, struct err *err)
{
    bool v6 = strchr(name, ':') != NULL;
    char *bracketed = xasprintf("%s%s%s", v6 ? "[" : "", name, v6 ? "]" : "");
    char *host = NULL, *port = NULL;
    int error = 0;

    if (curl_url_get(url, CURLUPART_HOST, &host, 0)
        || curl_url_get(url, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT)
        || curl_url_set(url, CURLUPART_HOST, bracketed, 0)) {
        err_set(err, "tls-server-name \"%s\" is no host name", name);
        error = EINVAL;
    } else {
        char *to = xasprintf("::%s:%s", host, port);
        http->connect_to = curl_slist_append(NULL, to);
        http->host_header = xasprintf("Host: %s:%s", host, port);
        free(to);
    }
    curl_free(host);
    curl_free(port);
    free(bracketed);
    return error;
}

/* Returns true if 'url' has the part. */
static bool
has_part(CURLU *url, CURLUPart part)
{
    char *value = NULL;
    bool has = !curl_url_get(url, part, &value, 0);

    curl_free(value);
    return has;
}

static int
check_url(const struct http *http, CURLU *url, const char *server,
          struct err *err)
{
    char *scheme = NULL;
    int error = EINVAL;

    if (curl_url_set(url, CURLUPART_URL, server, CURLU_NON_SUPPORT_SCHEME)
        || curl_url_get(url, CURLUPART_SCHEME, &scheme, 0)) {
        /* One with an '@' may hold a password. */
        err_set(err, "server \"%s\" is no URL",
                strchr(server, '@') ? "...@..." : server);
    } else if (has_part(url, CURLUPART_USER)
               || has_part(url, CURLUPART_PASSWORD)) {
        /* It isn't repeated here: there is a secret in it. */
        err_set(err, "the server's URL may not hold user or password");
    } else if (has_part(url, CURLUPART_QUERY)
               || has_part(url, CURLUPART_FRAGMENT)) {
        err_set(err, "server \"%s\" may not hold a query or fragment", server);
    } else if (!strcmp(scheme, "https")) {
        error = 0;
    } else if (strcmp(scheme, "http")) {
        err_set(err, "server \"%s\" is neither https nor http", server);
    } else if (http->creds.token.file || http->creds.token.value) {
        err_set(err, "server \"%s\": a token is not sent without TLS", server);
    } else {
        error = 0;
    }
    curl_free(scheme);
    return error;
}

static int
set_server(struct http *http, const struct kube_cfg *cfg, struct err *err)
{
    CURLU *url = curl_url();
    char *base = NULL;
    int error = check_url(http, url, cfg->server ? cfg->server : "", err);

    if (!error && cfg->tls_server_name && cfg->tls_server_name[0]) {
        error = set_tls_name(http, url, cfg->tls_server_name, err);
    }
    if (!error && curl_url_get(url, CURLUPART_URL, &base, 0)) {
        err_set(err, "server \"%s\" is no URL", cfg->server);
        error = EINVAL;
    }
    if (!error) {
        http->base = xstrdup(base);
        size_t n = strlen(http->base);
        while (n && http->base[n - 1] == '/') {
            http->base[--n] = '\0';
        }
    }
    curl_free(base);
    curl_url_cleanup(url);
    return error;
}

/* Life. */

static int
socket_cb(CURL *easy OVS_UNUSED, curl_socket_t fd, int what, void *http_,
          void *aux OVS_UNUSED)
{
    struct http *http = http_;
    struct http_sock *sock;

    HMAP_FOR_EACH_WITH_HASH (sock, hmap_node, hash_int(fd, 0), &http->socks) {
        if (sock->fd == fd) {
            break;
        }
    }
    if (what == CURL_POLL_REMOVE) {
        if (sock) {
            hmap_remove(&http->socks, &sock->hmap_node);
            free(sock);
        }
        return 0;
    }
    if (!sock) {
        sock = xzalloc(sizeof *sock);
        sock->fd = fd;
        hmap_insert(&http->socks, &sock->hmap_node, hash_int(fd, 0));
    }
    sock->events = (what & CURL_POLL_IN ? POLLIN : 0)
                   | (what & CURL_POLL_OUT ? POLLOUT : 0);
    return 0;
}

static int
timer_cb(CURLM *multi OVS_UNUSED, long int timeout_ms, void *http_)
{
    struct http *http = http_;

    http->timer_ms = timeout_ms < 0 ? LLONG_MAX : time_msec() + timeout_ms;
    return 0;
}

int
http_create(const struct kube_cfg *cfg, struct http **ret, struct err *err)
{
    struct http *http = xzalloc(sizeof *http);
    struct creds *creds = &http->creds;
    int error;

    http->insecure = cfg->insecure_skip_tls_verify;
    http->timer_ms = LLONG_MAX;
    hmap_init(&http->socks);
    ovs_list_init(&http->reqs);
    creds_init(creds);
    creds_item_set(&creds->ca, cfg->ca_data,
                   cfg->ca_data && cfg->ca_data[0] ? NULL : cfg->ca_file);
    creds_item_set(&creds->cert, cfg->client_cert_data,
                   cfg->client_cert_data && cfg->client_cert_data[0]
                       ? NULL
                       : cfg->client_cert_file);
    creds_item_set(&creds->key, cfg->client_key_data,
                   cfg->client_key_data && cfg->client_key_data[0]
                       ? NULL
                       : cfg->client_key_file);
    creds_item_set(&creds->token, cfg->token, cfg->token_file);

    curl_global_init(CURL_GLOBAL_DEFAULT);
    error = creds_check(creds, err);
    if (!error) {
        error = set_server(http, cfg, err);
    }
    if (error) {
        http_destroy(http);
        return error;
    }

    http->multi = curl_multi_init();
    curl_multi_setopt(http->multi, CURLMOPT_SOCKETFUNCTION, socket_cb);
    curl_multi_setopt(http->multi, CURLMOPT_SOCKETDATA, http);
    curl_multi_setopt(http->multi, CURLMOPT_TIMERFUNCTION, timer_cb);
    curl_multi_setopt(http->multi, CURLMOPT_TIMERDATA, http);
    curl_multi_setopt(http->multi, CURLMOPT_PIPELINING, CURLPIPE_NOTHING);
    *ret = http;
    return 0;
}

void
http_destroy(struct http *http)
{
    struct http_sock *sock;

    if (!http) {
        return;
    }
    ovs_assert(ovs_list_is_empty(&http->reqs));
    curl_multi_cleanup(http->multi);
    HMAP_FOR_EACH_POP (sock, hmap_node, &http->socks) {
        free(sock);
    }
    hmap_destroy(&http->socks);
    creds_uninit(&http->creds);
    curl_slist_free_all(http->connect_to);
    free(http->host_header);
    free(http->base);
    free(http);
    curl_global_cleanup();
}

/* A request's answer. */

/* Looks at the head of the answer: where is the body to go? */
static enum http_sink
choose_sink(const struct http_req *req)
{
    const char *json = "application/json";
    char *type = NULL;

    curl_easy_getinfo(req->easy, CURLINFO_CONTENT_TYPE, &type);
    return req->get.consume && req->status == 200 && type
                   && !strncasecmp(type, json, strlen(json))
                   && strchr("; ", type[strlen(json)])
               ? SINK_CONSUMER
               : SINK_KEEP;
}

/* Called by libcurl with each line of a head, also that of a "100 Continue",
 * and with trailers. */
static size_t
header_cb(char *line, size_t size, size_t n, void *req_)
{
    struct http_req *req = req_;

    req->last_ms = time_msec();
    if (!req->status && (line[0] == '\r' || line[0] == '\n')) {
        long int status = 0;

        curl_easy_getinfo(req->easy, CURLINFO_RESPONSE_CODE, &status);
        if (status >= 200) {
            req->status = status;
            req->sink = choose_sink(req);
        }
    }
    return size * n;
}

/* Called by libcurl with bytes of the body.  A return of less than was given
 * ends the request. */
static size_t
body_cb(char *data, size_t size, size_t n, void *req_)
{
    struct http_req *req = req_;
    size_t len = size * n;

    req->last_ms = time_msec();
    if (req->sink == SINK_CONSUMER) {
        req->stopped = !req->get.consume(data, len, req->get.aux);
        return req->stopped ? 0 : len;
    }

    size_t room = HTTP_BODY_MAX - req->body.length;
    ds_put_buffer(&req->body, data, MIN(len, room));
    req->kept_enough = len >= room;
    return req->kept_enough ? 0 : len;
}

/* Ends 'req', which lets go of its connection. */
static void
end_req(struct http_req *req, enum http_end end, const char *text)
{
    req->ended = true;
    req->end = end;
    err_set(&req->text, "%s", text);
    ovs_list_remove(&req->list_node);
    ovs_list_init(&req->list_node);

    if (req->easy) {
        curl_multi_remove_handle(req->http->multi, req->easy);
        curl_easy_cleanup(req->easy);
        req->easy = NULL;
    }
    for (struct curl_slist *h = req->headers; h; h = h->next) {
        explicit_bzero(h->data, strlen(h->data)); /* The token. */
    }
    curl_slist_free_all(req->headers);
    req->headers = NULL;
}

/* libcurl is done with 'req'. */
static void
finish(struct http_req *req, CURLcode code)
{
    const char *text =
        req->curl_error[0] ? req->curl_error : curl_easy_strerror(code);
    curl_off_t retry_after = 0;
    enum http_end end;

    curl_easy_getinfo(req->easy, CURLINFO_RETRY_AFTER, &retry_after);
    req->retry_after_s = MAX(0, MIN(retry_after, INT_MAX));
    if (req->stopped) {
        end = HTTP_STOPPED;
    } else if (code == CURLE_OK || req->kept_enough) {
        bool alien = req->get.consume && req->status == 200
                     && req->sink != SINK_CONSUMER;

        end = alien ? HTTP_ALIEN : HTTP_WHOLE;
        text = end == HTTP_ALIEN ? "the answer isn't JSON" : "";
    } else {
        end = code == CURLE_PARTIAL_FILE ? HTTP_CUT : HTTP_FAILED;
    }
    end_req(req, end, text);
}

/* A request's start. */

/* Bytes that libcurl reads at a time: all of a TLS record.  If it reads less,
 * it may come back while it holds the rest, of which neither its socket nor
 * its timer tells, and a list never ends.  (It reads up to 100 times before it
 * comes back, and what is packed may have twenty times the size: that is the
 * longest turn there is.) */
#define READ_SIZE 16384L

/* Marks the sockets of libcurl. */
static int
sockopt_cb(void *aux OVS_UNUSED, curl_socket_t fd,
           curlsocktype purpose OVS_UNUSED)
{
    unsigned int timeout_ms = USER_TIMEOUT_MS;

    if (setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms,
                   sizeof timeout_ms)
        || fcntl(fd, F_SETFD, FD_CLOEXEC)) {
        return CURL_SOCKOPT_ERROR;
    }
    return CURL_SOCKOPT_OK;
}

static void
set_transport(CURL *easy)
{
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "https,http");
    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION,
                     (long) CURL_HTTP_VERSION_2TLS);
    curl_easy_setopt(easy, CURLOPT_ACCEPT_ENCODING, "gzip");
    curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, READ_SIZE);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long) HTTP_CONNECT_MS);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPIDLE, KEEPALIVE_IDLE_S);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S);
    curl_easy_setopt(easy, CURLOPT_SOCKOPTFUNCTION, sockopt_cb);
}

static void
set_blob(CURL *easy, CURLoption option, const struct creds_item *item)
{
    if (item->value) {
        struct curl_blob blob = { item->value, item->len, CURL_BLOB_COPY };
        curl_easy_setopt(easy, option, &blob);
    }
}

static void
set_tls(CURL *easy, const struct http *http)
{
    curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long) CURL_SSLVERSION_TLSv1_2);
    curl_easy_setopt(easy, CURLOPT_SSL_SESSIONID_CACHE, 0L);
    curl_easy_setopt(easy, CURLOPT_CA_CACHE_TIMEOUT, 0L);
    if (http->creds.ca.value) {
        set_blob(easy, CURLOPT_CAINFO_BLOB, &http->creds.ca);
        curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
    }
    set_blob(easy, CURLOPT_SSLCERT_BLOB, &http->creds.cert);
    set_blob(easy, CURLOPT_SSLKEY_BLOB, &http->creds.key);
    if (http->insecure) {
        curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 0L);
        curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 0L);
    }
}

static void
set_head(struct http_req *req)
{
    const struct http *http = req->http;
    const struct creds_item *token = &http->creds.token;
    CURL *easy = req->easy;

    req->headers = curl_slist_append(NULL, "Accept: application/json");
    if (http->host_header) {
        req->headers = curl_slist_append(req->headers, http->host_header);
    }
    if (token->value) {
        char *line = xasprintf("Authorization: Bearer %s", token->value);
        req->headers = curl_slist_append(req->headers, line);
        explicit_bzero(line, strlen(line));
        free(line);
    }
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, req->headers);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "ofproxyd/" OFPROXYD_VERSION);
}

/* What a request sends. */
struct upload {
    const char *method, *content_type, *body;
};

/* Makes 'req' one that sends something. */
static void
set_upload(struct http_req *req, const struct upload *upload)
{
    req->headers = curl_slist_append(req->headers, upload->content_type);
    curl_easy_setopt(req->easy, CURLOPT_HTTPHEADER, req->headers);
    curl_easy_setopt(req->easy, CURLOPT_COPYPOSTFIELDS, upload->body);
    curl_easy_setopt(req->easy, CURLOPT_CUSTOMREQUEST, upload->method);
}

/* Starts a request, which is a GET if 'upload' is NULL. */
static struct http_req *
start_req(struct http *http, const struct http_get *get,
          const struct upload *upload)
{
    struct http_req *req = xzalloc(sizeof *req);
    struct err err;

    req->http = http;
    req->get = *get;
    req->get.target = NULL;
    req->start_ms = req->last_ms = time_msec();
    ds_init(&req->body);
    ovs_list_push_back(&http->reqs, &req->list_node);
    if (creds_refresh(&http->creds, &err)) {
        end_req(req, HTTP_FAILED, err.msg);
        return req;
    }

    CURL *easy = req->easy = curl_easy_init();
    char *url = xasprintf("%s%s", http->base, get->target);

    set_transport(easy);
    set_tls(easy, http);
    set_head(req);
    if (upload) {
        set_upload(req, upload);
    }
    curl_easy_setopt(easy, CURLOPT_URL, url);
    if (http->connect_to) {
        curl_easy_setopt(easy, CURLOPT_CONNECT_TO, http->connect_to);
    }
    curl_easy_setopt(easy, CURLOPT_PRIVATE, req);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, req->curl_error);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, header_cb);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, req);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, body_cb);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, req);
    curl_multi_add_handle(http->multi, easy);
    free(url);
    return req;
}

struct http_req *
http_get(struct http *http, const struct http_get *get)
{
    return start_req(http, get, NULL);
}

static struct http_req *
start_upload(struct http *http, const char *target,
             const struct upload *upload, long long int total_ms)
{
    return start_req(http,
                     &(struct http_get){
                         .target = target,
                         .head_ms = total_ms,
                         .silence_ms = total_ms,
                         .total_ms = total_ms,
                     },
                     upload);
}

struct http_req *
http_patch(struct http *http, const char *target, const char *body,
           long long int total_ms)
{
    struct upload upload = {
        .method = "PATCH",
        .content_type = "Content-Type: application/merge-patch+json",
        .body = body,
    };

    return start_upload(http, target, &upload, total_ms);
}

struct http_req *
http_post(struct http *http, const char *target, const char *body,
          long long int total_ms)
{
    struct upload upload = {
        .method = "POST",
        .content_type = "Content-Type: application/json",
        .body = body,
    };

    return start_upload(http, target, &upload, total_ms);
}

void
http_req_destroy(struct http_req *req)
{
    if (req) {
        if (!req->ended) {
            end_req(req, HTTP_STOPPED, "");
        }
        ds_destroy(&req->body);
        free(req);
    }
}

bool
http_req_ended(const struct http_req *req, struct http_result *ret)
{
    if (req->ended) {
        *ret = (struct http_result){
            .end = req->end,
            .status = req->status,
            .retry_after_s = req->retry_after_s,
            .text = req->text.msg,
            .body = req->body.string ? req->body.string : "",
            .body_len = req->body.length,
        };
    }
    return req->ended;
}

int
http_req_status(const struct http_req *req)
{
    return req->status;
}

/* Run and wait. */

/* When 'req' has been going on, or has been silent, for too long. */
static long long int
req_deadline(const struct http_req *req)
{
    long long int silence = req->status ? req->last_ms + req->get.silence_ms
                                        : req->start_ms + req->get.head_ms;

    return MIN(silence, req->start_ms + req->get.total_ms);
}

static void
end_silent(struct http *http)
{
    long long int now = time_msec();
    struct http_req *req;

    LIST_FOR_EACH_SAFE (req, list_node, &http->reqs) {
        if (now >= req_deadline(req)) {
            end_req(req, HTTP_SILENT,
                    req->status ? "the server has fallen silent"
                                : "the server doesn't answer");
        }
    }
}

static void
reap(struct http *http)
{
    CURLMsg *msg;
    int left;

    while ((msg = curl_multi_info_read(http->multi, &left))) {
        CURLcode code = msg->data.result;
        struct http_req *req = NULL;

        curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, &req);
        finish(req, code);
    }
}

static bool
over_budget(long long int start_us)
{
    return time_usec() - start_us >= HTTP_TURN_US;
}

/* Lets libcurl act on the sockets that are ready.  Returns false if none
 * was. */
static bool
run_sockets(struct http *http, long long int start_us)
{
    size_t n = hmap_count(&http->socks), i = 0;
    struct pollfd *fds = xcalloc(n, sizeof *fds);
    const struct http_sock *sock;
    bool ready;

    HMAP_FOR_EACH (sock, hmap_node, &http->socks) {
        fds[i++] = (struct pollfd){ .fd = sock->fd, .events = sock->events };
    }
    ready = n && poll(fds, n, 0) > 0;
    for (i = 0; ready && i < n && !over_budget(start_us); i++) {
        const struct pollfd *fd = &fds[(http->turn + i) % n];
        bool trouble = fd->revents & ~(POLLIN | POLLOUT);

        if (fd->revents) {
            int running, mask = 0;

            mask |= trouble || fd->revents & POLLIN ? CURL_CSELECT_IN : 0;
            mask |= trouble || fd->revents & POLLOUT ? CURL_CSELECT_OUT : 0;
            curl_multi_socket_action(http->multi, fd->fd, mask, &running);
        }
    }
    http->turn += i;
    free(fds);
    return ready;
}

static bool
run_timer(struct http *http)
{
    int running;

    if (time_msec() < http->timer_ms) {
        return false;
    }
    http->timer_ms = LLONG_MAX;
    curl_multi_socket_action(http->multi, CURL_SOCKET_TIMEOUT, 0, &running);
    return true;
}

void
http_run(struct http *http)
{
    long long int start_us = time_usec();
    bool busy = true;

    while (busy && !over_budget(start_us)) {
        busy = run_timer(http);
        busy = run_sockets(http, start_us) || busy;
        reap(http);
    }
    http->more = busy;
    end_silent(http);
}

void
http_wait(struct http *http)
{
    const struct http_sock *sock;
    const struct http_req *req;

    if (http->more) {
        poll_immediate_wake();
        return;
    }
    HMAP_FOR_EACH (sock, hmap_node, &http->socks) {
        poll_fd_wait(sock->fd, sock->events);
    }
    if (http->timer_ms != LLONG_MAX) {
        poll_timer_wait_until(http->timer_ms);
    }
    LIST_FOR_EACH (req, list_node, &http->reqs) {
        poll_timer_wait_until(req_deadline(req));
    }
}
