/* SPDX-License-Identifier: Apache-2.0 */

/* SIGTERM and SIGINT by signalfd(2). */

#include "ofproxyd/base/sigwatch.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <openvswitch/poll-loop.h>

#include <util.h>

struct sigwatch {
    int fd;
    sigset_t old; /* The mask before. */
};

struct sigwatch *
sigwatch_create(void)
{
    struct sigwatch *w = xzalloc(sizeof *w);
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigprocmask(SIG_BLOCK, &set, &w->old);
    w->fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (w->fd < 0) {
        sigprocmask(SIG_SETMASK, &w->old, NULL);
        free(w);
        return NULL;
    }
    return w;
}

void
sigwatch_destroy(struct sigwatch *w)
{
    if (w) {
        close(w->fd);
        sigprocmask(SIG_SETMASK, &w->old, NULL);
        free(w);
    }
}

bool
sigwatch_poll(struct sigwatch *w)
{
    struct signalfd_siginfo info;

    return read(w->fd, &info, sizeof info) == sizeof info;
}

void
sigwatch_wait(const struct sigwatch *w)
{
    poll_fd_wait(w->fd, POLLIN);
}
