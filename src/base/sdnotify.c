/* SPDX-License-Identifier: Apache-2.0 */

/* systemd's notification socket, as sd_notify(3) describes it.  A library of
 * systemd's would bring more along than these few lines. */

#include "ofproxyd/base/sdnotify.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <openvswitch/poll-loop.h>
#include <openvswitch/vlog.h>

#include <timeval.h>
#include <util.h>

VLOG_DEFINE_THIS_MODULE(sdnotify);

struct sdnotify {
    int fd;                 /* Connected; -1 if there is nobody. */
    long long int every_ms; /* Between two signs of life; 0: none wanted. */
    long long int next_ms;  /* When the next one is due. */
};

/* Returns a socket that is connected to 'name', or -1 with errno.  "@" begins
 * the name of an abstract socket. */
static int
connect_to(const char *name)
{
    struct sockaddr_un sun = { .sun_family = AF_UNIX };
    size_t len = strlen(name);

    if ((name[0] != '/' && name[0] != '@') || len >= sizeof sun.sun_path) {
        errno = EINVAL;
        return -1;
    }
    memcpy(sun.sun_path, name, len);
    if (name[0] == '@') {
        sun.sun_path[0] = '\0';
    }
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd >= 0
        && connect(fd, (struct sockaddr *) &sun,
                   offsetof(struct sockaddr_un, sun_path) + len)) {
        int error = errno;

        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

/* The half of $WATCHDOG_USEC in ms, or 0 if it is absent, nonsense, or
 * another process's. */
static long long int
watchdog_interval(void)
{
    const char *pid = getenv("WATCHDOG_PID");
    const char *usec = getenv("WATCHDOG_USEC");
    long long int us;

    if (!usec || (pid && atoll(pid) != getpid())) {
        return 0;
    }
    us = strtoll(usec, NULL, 10);
    return us > 0 ? MAX(us / 2000, 1) : 0;
}

struct sdnotify *
sdnotify_create(void)
{
    struct sdnotify *n = xzalloc(sizeof *n);
    const char *name = getenv("NOTIFY_SOCKET");

    n->fd = -1;
    if (name) {
        n->fd = connect_to(name);
        if (n->fd < 0) {
            VLOG_WARN("NOTIFY_SOCKET \"%s\": %s", name, ovs_strerror(errno));
        }
        unsetenv("NOTIFY_SOCKET");
    }
    if (n->fd >= 0) {
        n->every_ms = watchdog_interval();
    }
    return n;
}

void
sdnotify_destroy(struct sdnotify *n)
{
    if (n) {
        if (n->fd >= 0) {
            close(n->fd);
        }
        free(n);
    }
}

void
sdnotify_send(const struct sdnotify *n, const char *state)
{
    static struct vlog_rate_limit rl = VLOG_RATE_LIMIT_INIT(1, 1);

    if (n->fd >= 0 && send(n->fd, state, strlen(state), MSG_NOSIGNAL) < 0) {
        VLOG_WARN_RL(&rl, "systemd can't be told \"%s\": %s", state,
                     ovs_strerror(errno));
    }
}

void
sdnotify_run(struct sdnotify *n)
{
    long long int now_ms;

    if (n->every_ms) {
        now_ms = time_msec();
        if (now_ms >= n->next_ms) {
            sdnotify_send(n, "WATCHDOG=1");
            n->next_ms = now_ms + n->every_ms;
        }
    }
}

void
sdnotify_wait(const struct sdnotify *n)
{
    if (n->every_ms) {
        poll_timer_wait_until(n->next_ms);
    }
}
