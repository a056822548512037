/* SPDX-License-Identifier: Apache-2.0 */
/* How many connections a second: a server and a client that cost as little as
 * they can, so that what is between them is measured.
 *
 *     bench-connect serve FIRST-PORT PORTS WORKERS
 *     bench-connect ask ADDRESS PORT WORKERS SECONDS
 *     bench-connect sink PORT
 *     bench-connect pour ADDRESS PORT SECONDS
 *
 * Each worker of the client opens a TCP connection, sends a byte, waits for a
 * byte, and resets the connection, so that neither end keeps it; and so on.
 * It prints "DONE FAILED SECONDS".  The server prints "ready" when it
 * listens.  Workers are processes with blocking sockets.
 *
 * The last two are one connection that carries as much as it can, one way; the
 * client prints "BYTES SECONDS", as the server counted them. */

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TIMEOUT_S 1

/* Shared by the client's workers. */
struct counters {
    atomic_ulong n_done, n_failed;
};

/* An address of either family. */
struct endpoint {
    union {
        struct sockaddr sa;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    };
    socklen_t len;
};

static void
die(const char *what)
{
    fprintf(stderr, "bench-connect: %s: %s\n", what, strerror(errno));
    exit(1);
}

static double
now_s(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec + ts.tv_nsec / 1e9;
}

static struct endpoint
make_endpoint(const char *address, const char *port)
{
    struct endpoint e = { .len = 0 };

    if (inet_pton(AF_INET, address, &e.v4.sin_addr) == 1) {
        e.v4.sin_family = AF_INET;
        e.v4.sin_port = htons(atoi(port));
        e.len = sizeof e.v4;
    } else if (inet_pton(AF_INET6, address, &e.v6.sin6_addr) == 1) {
        e.v6.sin6_family = AF_INET6;
        e.v6.sin6_port = htons(atoi(port));
        e.len = sizeof e.v6;
    } else {
        errno = EINVAL;
        die(address);
    }
    return e;
}

/* Starts a process that ends with this one.  Returns 0 in it. */
static pid_t
start_worker(void)
{
    pid_t pid = fork();

    if (pid < 0) {
        die("fork");
    } else if (!pid) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    }
    return pid;
}

/* The server. */

static void
answer(int fd)
{
    char byte;

    while (recv(fd, &byte, 1, 0) == 1
           && send(fd, &byte, 1, MSG_NOSIGNAL) == 1) {
        continue;
    }
    close(fd);
}

static int
make_listener(int port)
{
    char text[16];

    snprintf(text, sizeof text, "%d", port);

    struct endpoint any = make_endpoint("::", text);
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_NONBLOCK, 0);

    if (fd < 0 || bind(fd, &any.sa, any.len) || listen(fd, SOMAXCONN)) {
        die("listen");
    }
    return fd;
}

/* Takes one connection after the other, of whatever listener has one. */
static void
serve_all(const int listeners[], int n)
{
    int epoll = epoll_create1(0);

    for (int i = 0; i < n; i++) {
        struct epoll_event event = { .events = EPOLLIN | EPOLLEXCLUSIVE,
                                     .data.fd = listeners[i] };

        if (epoll_ctl(epoll, EPOLL_CTL_ADD, listeners[i], &event)) {
            die("epoll_ctl");
        }
    }
    for (;;) {
        struct epoll_event event;
        int fd = epoll_wait(epoll, &event, 1, -1) == 1
                     ? accept(event.data.fd, NULL, NULL)
                     : -1;

        if (fd >= 0) {
            answer(fd);
        }
    }
}

static void
serve(int port, int n_ports, int n_workers)
{
    int *listeners = calloc(n_ports, sizeof *listeners);

    for (int i = 0; i < n_ports; i++) {
        listeners[i] = make_listener(port + i);
    }
    for (int i = 0; i < n_workers; i++) {
        if (!start_worker()) {
            serve_all(listeners, n_ports);
        }
    }
    puts("ready");
    fflush(stdout);
    pause();
}

/* The client. */

/* Returns 0, or -1 and sets errno. */
static int
ask_once(const struct endpoint *server)
{
    int fd = socket(server->sa.sa_family, SOCK_STREAM, 0);
    struct linger reset = { .l_onoff = 1 };
    struct timeval timeout = { .tv_sec = TIMEOUT_S };
    char byte = 'x';

    if (fd < 0) {
        die("socket");
    }
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);

    int error = connect(fd, &server->sa, server->len)
                || send(fd, &byte, 1, MSG_NOSIGNAL) != 1
                || recv(fd, &byte, 1, 0) != 1;
    close(fd);
    return error ? -1 : 0;
}

static void
ask(const struct endpoint *server, int n_workers, double seconds)
{
    struct counters *c = mmap(NULL, sizeof *c, PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    double start = now_s();

    if (c == MAP_FAILED) {
        die("mmap");
    }
    for (int i = 0; i < n_workers; i++) {
        if (!start_worker()) {
            while (now_s() < start + seconds) {
                atomic_fetch_add(ask_once(server) ? &c->n_failed : &c->n_done,
                                 1);
            }
            _exit(0);
        }
    }
    while (wait(NULL) > 0) {
        continue;
    }
    printf("%lu %lu %.3f\n", c->n_done, c->n_failed, now_s() - start);
}

/* One connection. */

/* Counts what comes and says how much it was, until the end of each
 * connection. */
static void
sink(int port)
{
    static char buf[1 << 18];
    int listener = make_listener(port);

    fcntl(listener, F_SETFL, 0);
    puts("ready");
    fflush(stdout);
    for (;;) {
        int fd = accept(listener, NULL, NULL);
        uint64_t total = 0;
        ssize_t n;

        while (fd >= 0 && (n = recv(fd, buf, sizeof buf, 0)) > 0) {
            total += n;
        }
        if (fd >= 0) {
            send(fd, &total, sizeof total, MSG_NOSIGNAL);
            close(fd);
        }
    }
}

static void
pour(const struct endpoint *server, double seconds)
{
    static char buf[1 << 18];
    int fd = socket(server->sa.sa_family, SOCK_STREAM, 0);
    uint64_t total;

    if (fd < 0 || connect(fd, &server->sa, server->len)) {
        die("connect");
    }

    double start = now_s();
    while (now_s() < start + seconds) {
        if (send(fd, buf, sizeof buf, MSG_NOSIGNAL) < 0) {
            die("send");
        }
    }
    shutdown(fd, SHUT_WR);
    if (recv(fd, &total, sizeof total, MSG_WAITALL) != sizeof total) {
        die("recv");
    }
    printf("%" PRIu64 " %.3f\n", total, now_s() - start);
}

int
main(int argc, char *argv[])
{
    if (argc == 5 && !strcmp(argv[1], "serve")) {
        serve(atoi(argv[2]), atoi(argv[3]), atoi(argv[4]));
    } else if (argc == 6 && !strcmp(argv[1], "ask")) {
        struct endpoint server = make_endpoint(argv[2], argv[3]);

        ask(&server, atoi(argv[4]), atof(argv[5]));
    } else if (argc == 3 && !strcmp(argv[1], "sink")) {
        sink(atoi(argv[2]));
    } else if (argc == 5 && !strcmp(argv[1], "pour")) {
        struct endpoint server = make_endpoint(argv[2], argv[3]);

        pour(&server, atof(argv[4]));
    } else {
        fprintf(stderr, "usage: bench-connect serve FIRST-PORT PORTS WORKERS\n"
                        "       bench-connect ask ADDRESS PORT WORKERS "
                        "SECONDS\n"
                        "       bench-connect sink PORT\n"
                        "       bench-connect pour ADDRESS PORT SECONDS\n");
        return 2;
    }
    return 0;
}
