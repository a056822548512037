/* SPDX-License-Identifier: Apache-2.0 */
/* libmicrohttpd on the poll loop, with listeners and limits of ours. */

#include "httpd.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <unistd.h>

#include <microhttpd.h>

#include <openvswitch/hmap.h>
#include <openvswitch/list.h>
#include <openvswitch/poll-loop.h>

#include <hash.h>
#include <timeval.h>
#include <util.h>

/* How long no connections are accepted when there are no descriptors. */
#define PAUSE_MS 200

/* Connections that have been told to go keep their place in the library until
 * its next turn, or its timeout. */
#define LEAVING HTTPD_CONNS

#define BACKLOG 128

/* What the kernel may keep for a connection each way, in bytes: it would let
 * pages of metrics wait for clients who don't read, some MB each. */
#define BUFFER 65536

struct httpd {
    struct MHD_Daemon *mhd;
    int epoll_fd;  /* The library's. */
    int listen_fd; /* An epoll set of all listening sockets. */
    struct ovs_list sites;
    struct ovs_list conns; /* Of struct conn, oldest request first. */
    struct hmap by_fd;     /* The same. */
    long long int pause_until_ms;
    struct httpd_stats stats;
};

struct httpd_site {
    struct ovs_list node; /* In httpd's 'sites'. */
    int fd;               /* Listens. */
    httpd_handler *handler;
    void *aux;
    struct ovs_list conns; /* Of struct conn, oldest request first. */
    size_t n_conns;
};

struct conn {
    struct ovs_list all_node;  /* In httpd's 'conns'. */
    struct ovs_list site_node; /* In its site's. */
    struct hmap_node fd_node;
    struct httpd_site *site; /* NULL when it is to go. */
    int fd;
    long long int deadline_ms;
    struct MHD_Connection *mhd; /* NULL: the library hasn't it yet. */
    bool waits;                 /* Suspended. */
};

/* Pages. */

struct httpd_page {
    struct MHD_Response *response;
    unsigned int status;
    unsigned int n_refs;
};

struct httpd_page *
httpd_page_create(unsigned int status, struct ds *body)
{
    struct httpd_page *page = xmalloc(sizeof *page);
    size_t n = body->length;
    char *text = ds_steal_cstr(body);

    page->response =
        MHD_create_response_from_buffer(n, text, MHD_RESPMEM_MUST_FREE);
    if (!page->response) {
        out_of_memory();
    }
    page->status = status;
    page->n_refs = 1;
    return page;
}

struct httpd_page *
httpd_page_ref(struct httpd_page *page)
{
    page->n_refs++;
    return page;
}

void
httpd_page_unref(struct httpd_page *page)
{
    if (page && !--page->n_refs) {
        MHD_destroy_response(page->response);
        free(page);
    }
}

void
httpd_page_add_header(struct httpd_page *page, const char *name,
                      const char *value)
{
    if (MHD_add_response_header(page->response, name, value) != MHD_YES) {
        out_of_memory();
    }
}

/* Connections. */

static struct conn *
find_conn(const struct httpd *h, int fd)
{
    struct conn *c;

    HMAP_FOR_EACH_WITH_HASH (c, fd_node, hash_int(fd, 0), &h->by_fd) {
        if (c->fd == fd) {
            return c;
        }
    }
    return NULL;
}

static struct conn *
conn_create(struct httpd *h, struct httpd_site *site, int fd)
{
    struct conn *c = xzalloc(sizeof *c);

    c->site = site;
    c->fd = fd;
    c->deadline_ms = time_msec() + HTTPD_REQUEST_MS;
    ovs_list_push_back(&h->conns, &c->all_node);
    ovs_list_push_back(&site->conns, &c->site_node);
    hmap_insert(&h->by_fd, &c->fd_node, hash_int(fd, 0));
    site->n_conns++;
    h->stats.n_conns++;
    return c;
}

/* Takes it off its site and the list: it counts no more. */
static void
conn_detach(struct httpd *h, struct conn *c)
{
    if (c->site) {
        ovs_list_remove(&c->all_node);
        ovs_list_remove(&c->site_node);
        c->site->n_conns--;
        h->stats.n_conns--;
        c->site = NULL;
    }
}

static void
conn_resume(struct conn *c)
{
    if (c->waits) {
        c->waits = false;
        MHD_resume_connection(c->mhd);
    }
}

/* Lets the library find out that it has ended: only it may close it.  Should
 * it not notice, its own timeout, in seconds, makes it look. */
static void
conn_drop(struct httpd *h, struct conn *c)
{
    conn_detach(h, c);
    shutdown(c->fd, SHUT_RDWR);
    conn_resume(c);
    if (c->mhd) {
        MHD_set_connection_option(c->mhd, MHD_CONNECTION_OPTION_TIMEOUT, 1U);
    }
}

static void
conn_destroy(struct httpd *h, struct conn *c)
{
    conn_detach(h, c);
    hmap_remove(&h->by_fd, &c->fd_node);
    free(c);
}

/* It has got an answer: it is the youngest now. */
static void
conn_renew(struct httpd *h, struct conn *c)
{
    if (c->site) {
        c->deadline_ms = time_msec() + HTTPD_IDLE_MS;
        ovs_list_remove(&c->all_node);
        ovs_list_push_back(&h->conns, &c->all_node);
        ovs_list_remove(&c->site_node);
        ovs_list_push_back(&c->site->conns, &c->site_node);
    }
}

/* What the library calls. */

static void
notify_connection(void *h_, struct MHD_Connection *mhd, void **context,
                  enum MHD_ConnectionNotificationCode code)
{
    struct httpd *h = h_;

    switch (code) {
    case MHD_CONNECTION_NOTIFY_STARTED: {
        const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);

        struct conn *c = info ? find_conn(h, info->connect_fd) : NULL;

        if (c) {
            c->mhd = mhd;
        }
        *context = c;
        break;
    }
    case MHD_CONNECTION_NOTIFY_CLOSED:
        if (*context) {
            conn_destroy(h, *context);
            *context = NULL;
        }
        break;
    }
}

static struct conn *
conn_of(struct MHD_Connection *mhd)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

    return info ? info->socket_context : NULL;
}

static void
notify_completed(void *h, struct MHD_Connection *mhd, void **context,
                 enum MHD_RequestTerminationCode code)
{
    struct conn *c = conn_of(mhd);

    (void) context;
    if (c && code == MHD_REQUEST_TERMINATED_COMPLETED_OK) {
        conn_renew(h, c);
    }
}

/* Called when the headers are there, for each part of the body, and at its
 * end; and again after a resumption.  The body is read, as far as the
 * connection's time goes, and thrown away, for an answer before its end would
 * cost the connection. */
static enum MHD_Result
/* NOLINTNEXTLINE(readability-function-size): the library's parameters. */
handle_request(void *h, struct MHD_Connection *mhd, const char *url,
               const char *method, const char *version, const char *data,
               size_t *n_data, void **context)
{
    static char seen;
    struct conn *c = conn_of(mhd);
    struct httpd_page *page;
    enum MHD_Result result;

    (void) h;
    (void) version;
    (void) data;
    if (!c || !c->site) {
        return MHD_NO;
    }
    if (!*context || *n_data) {
        *context = &seen;
        *n_data = 0;
        return MHD_YES;
    }
    page = c->site->handler(method, url, c->site->aux);
    if (!page) {
        c->waits = true;
        MHD_suspend_connection(mhd);
        return MHD_YES;
    }
    result = MHD_queue_response(mhd, page->status, page->response);
    httpd_page_unref(page);
    return result;
}

/* Sites. */

/* Moves a socket, of which there can be thousands, out of the way of those
 * who use select(), as libnftables does: a descriptor that is too high for it
 * ends the process.  Returns the descriptor that the socket has then; it stays
 * where it is if none can be that high. */
static int
move_up(int fd)
{
    int moved = fcntl(fd, F_DUPFD_CLOEXEC, FD_SETSIZE);

    if (moved < 0) {
        return fd;
    }
    close(fd);
    return moved;
}

static int
open_socket(const struct httpd_where *where, bool v6)
{
    const int on = 1, off = 0, buffer = BUFFER;
    struct sockaddr_in sin = { .sin_family = AF_INET,
                               .sin_port = htons(where->port) };
    struct sockaddr_in6 sin6 = { .sin6_family = AF_INET6,
                                 .sin6_port = htons(where->port) };
    int error;
    int fd = socket(v6 ? AF_INET6 : AF_INET,
                    SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0) {
        return -errno;
    }
    fd = move_up(fd);
    if (!where->any) {
        sin6.sin6_addr = where->ip.in6;
        sin.sin_addr.s_addr = v6 ? 0 : ip_v4(&where->ip);
    }
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on)
        || setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer)
        || setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer)
        || (v6
            && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY,
                          where->any ? &off : &on, sizeof on))
        || bind(fd,
                v6 ? (const struct sockaddr *) &sin6
                   : (const struct sockaddr *) &sin,
                v6 ? sizeof sin6 : sizeof sin)
        || listen(fd, BACKLOG)) {
        error = errno;
        close(fd);
        return -error;
    }
    return fd;
}

int
httpd_open(struct httpd *h, const struct httpd_where *where,
           httpd_handler *handler, void *aux, struct httpd_site **ret)
{
    bool v6 = where->any || ip_family(&where->ip) == IP_V6;
    struct epoll_event event = { .events = EPOLLIN };
    int fd = open_socket(where, v6);
    struct httpd_site *site;

    if (where->any && (fd == -EAFNOSUPPORT || fd == -EADDRNOTAVAIL)) {
        fd = open_socket(where, false);
    }
    if (fd < 0) {
        return -fd;
    }
    site = xzalloc(sizeof *site);
    event.data.ptr = site;
    if (epoll_ctl(h->listen_fd, EPOLL_CTL_ADD, fd, &event)) {
        int error = errno;

        close(fd);
        free(site);
        return error;
    }
    site->fd = fd;
    site->handler = handler;
    site->aux = aux;
    ovs_list_init(&site->conns);
    ovs_list_push_back(&h->sites, &site->node);
    h->stats.n_sites++;
    *ret = site;
    return 0;
}

void
httpd_close(struct httpd *h, struct httpd_site *site)
{
    struct conn *c;

    if (!site) {
        return;
    }
    LIST_FOR_EACH_SAFE (c, site_node, &site->conns) {
        conn_drop(h, c);
    }
    close(site->fd);
    ovs_list_remove(&site->node);
    h->stats.n_sites--;
    free(site);
}

void
httpd_resume(struct httpd_site *site)
{
    struct conn *c;

    LIST_FOR_EACH (c, site_node, &site->conns) {
        conn_resume(c);
    }
}

/* Running. */

struct httpd *
httpd_create(struct err *err)
{
    struct httpd *h = xzalloc(sizeof *h);
    const union MHD_DaemonInfo *info;

    ovs_list_init(&h->sites);
    ovs_list_init(&h->conns);
    hmap_init(&h->by_fd);
    h->listen_fd = -1;
    h->mhd = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME, 0,
        NULL, NULL, handle_request, h, MHD_OPTION_NOTIFY_CONNECTION,
        notify_connection, h, MHD_OPTION_NOTIFY_COMPLETED, notify_completed, h,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned int) HTTPD_CONNS + LEAVING,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t) HTTPD_MEMORY,
        MHD_OPTION_CONNECTION_TIMEOUT, HTTPD_IDLE_MS / 1000U, MHD_OPTION_END);
    info =
        h->mhd ? MHD_get_daemon_info(h->mhd, MHD_DAEMON_INFO_EPOLL_FD) : NULL;
    if (!info || info->epoll_fd < 0) {
        err_set(err, "the HTTP server can't be started: %s",
                ovs_strerror(errno));
        httpd_destroy(h);
        return NULL;
    }
    h->epoll_fd = info->epoll_fd;
    h->listen_fd = epoll_create1(EPOLL_CLOEXEC);
    if (h->listen_fd < 0) {
        err_set(err, "epoll_create1: %s", ovs_strerror(errno));
        httpd_destroy(h);
        return NULL;
    }
    return h;
}

void
httpd_destroy(struct httpd *h)
{
    struct httpd_site *site;

    if (!h) {
        return;
    }
    LIST_FOR_EACH_SAFE (site, node, &h->sites) {
        httpd_close(h, site);
    }
    if (h->mhd) {
        MHD_run(h->mhd); /* Those that waited. */
        MHD_stop_daemon(h->mhd);
    }
    if (h->listen_fd >= 0) {
        close(h->listen_fd);
    }
    hmap_destroy(&h->by_fd);
    free(h);
}

/* Makes room for one more connection of 'site'. */
static void
evict(struct httpd *h, struct httpd_site *site)
{
    struct conn *c = NULL;

    if (site->n_conns >= HTTPD_SITE_CONNS) {
        c = CONTAINER_OF(ovs_list_front(&site->conns), struct conn, site_node);
    } else if (h->stats.n_conns >= HTTPD_CONNS) {
        c = CONTAINER_OF(ovs_list_front(&h->conns), struct conn, all_node);
    }
    if (c) {
        h->stats.n_evicted++;
        conn_drop(h, c);
    }
}

/* Hands a connection to the library, which closes the descriptor if it can't
 * take it. */
static void
take_conn(struct httpd *h, struct httpd_site *site, int fd,
          const struct sockaddr_storage *ss, socklen_t n_ss)
{
    evict(h, site);
    conn_create(h, site, fd);
    h->stats.n_accepted++;
    if (MHD_add_connection(h->mhd, fd, (const struct sockaddr *) ss, n_ss)
        != MHD_YES) {
        struct conn *c = find_conn(h, fd);

        if (c) {
            conn_destroy(h, c);
        }
    }
}

/* Returns false when nobody waits any more. */
static bool
accept_one(struct httpd *h, struct httpd_site *site)
{
    struct sockaddr_storage ss;
    socklen_t n_ss = sizeof ss;
    int fd = accept4(site->fd, (struct sockaddr *) &ss, &n_ss,
                     SOCK_NONBLOCK | SOCK_CLOEXEC);

    if (fd >= 0) {
        take_conn(h, site, move_up(fd), &ss, n_ss);
        return true;
    }
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS
        || errno == ENOMEM) {
        h->pause_until_ms = time_msec() + PAUSE_MS;
        h->stats.n_pauses++;
    }
    /* Of other errors, such as ECONNABORTED, the next turn takes care. */
    return false;
}

/* One of each site in turn; epoll sees to it that all get theirs. */
static void
accept_some(struct httpd *h)
{
    struct epoll_event events[HTTPD_ACCEPTS];
    int n;

    if (time_msec() < h->pause_until_ms) {
        return;
    }
    n = epoll_wait(h->listen_fd, events, HTTPD_ACCEPTS, 0);
    for (int left = HTTPD_ACCEPTS, n_took = n; left > 0 && n_took > 0;) {
        n_took = 0;
        for (int i = 0; i < n && left > 0; i++) {
            if (events[i].data.ptr && accept_one(h, events[i].data.ptr)) {
                n_took++;
                left--;
            } else {
                events[i].data.ptr = NULL;
            }
        }
    }
}

static void
expire(struct httpd *h)
{
    long long int now_ms = time_msec();
    struct conn *c;

    LIST_FOR_EACH_SAFE (c, all_node, &h->conns) {
        if (now_ms >= c->deadline_ms) {
            h->stats.n_expired++;
            conn_drop(h, c);
        }
    }
}

void
httpd_run(struct httpd *h)
{
    expire(h);
    accept_some(h);
    MHD_run(h->mhd);
}

void
httpd_wait(struct httpd *h)
{
    MHD_UNSIGNED_LONG_LONG timeout_ms;
    const struct conn *c;

    if (time_msec() < h->pause_until_ms) {
        poll_timer_wait_until(h->pause_until_ms);
    } else {
        poll_fd_wait(h->listen_fd, POLLIN);
    }
    LIST_FOR_EACH (c, all_node, &h->conns) {
        poll_timer_wait_until(c->deadline_ms);
    }
    poll_fd_wait(h->epoll_fd, POLLIN);
    if (MHD_get_timeout(h->mhd, &timeout_ms) == MHD_YES) {
        poll_timer_wait(MIN(timeout_ms, INT_MAX));
    }
}

void
httpd_get_stats(const struct httpd *h, struct httpd_stats *ret)
{
    *ret = h->stats;
}
