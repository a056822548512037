/* SPDX-License-Identifier: Apache-2.0 */
/* To be preloaded: makes one talk with the kernel's routing or packet rules
 * fail, so that tests need no hook in the program.
 *
 * Calls that send to a netlink socket of NETLINK_ROUTE or NETLINK_NETFILTER,
 * or receive from one what was asked for, are counted from 1 on, by
 * environment variables:
 *
 *   NETFAULT_AT=N      the first one that fails; without it none does
 *   NETFAULT_COUNT=N   how many fail, 1 by default
 *   NETFAULT_HOW=      send     a send fails with NETFAULT_ERRNO; nothing goes
 *                               out
 *                      refuse   what is sent is spoiled, so that the kernel
 *                               refuses it (EOPNOTSUPP or EINVAL)
 *                      receive  a receive fails with NETFAULT_ERRNO, though
 *                               the kernel has done what was asked for
 *   NETFAULT_ERRNO=N   a number; ENOBUFS by default
 *   NETFAULT_LOG=FILE  a line is appended for each failure
 *   NETFAULT_COMM=NAME only in programs of this name (as in /proc/PID/comm)
 *
 * Sockets that are members of a multicast group are left alone while
 * receiving: what they get are notifications. */

#define _GNU_SOURCE 1

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* A type that no family has: NETLINK_ROUTE takes it for no message of its
 * own, NETLINK_NETFILTER for one of a subsystem that isn't there. */
#define NO_TYPE 0x7f7f

/* Where a batch of nf_tables names its subsystem: in the header of
 * NFNL_MSG_BATCH_BEGIN, behind family and version. */
#define BATCH_BEGIN  0x10
#define BATCH_RES_ID (NLMSG_HDRLEN + 2)

static atomic_ulong n_calls;

/* The C library's functions have more parameters than ours may. */
#define ADDRESS const struct sockaddr *to, socklen_t to_len
#define RET_ADDRESS \
    struct sockaddr *restrict from, socklen_t *restrict from_len

static const char *
setting(const char *name, const char *without)
{
    const char *value = getenv(name);

    return value && value[0] ? value : without;
}

static bool
is_this_program(void)
{
    const char *want = setting("NETFAULT_COMM", "");
    char comm[32] = "";
    int fd;

    if (!want[0]) {
        return true;
    }
    fd = open("/proc/self/comm", O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    ssize_t n = read(fd, comm, sizeof comm - 1);
    close(fd);
    comm[n > 0 ? n : 0] = '\0';
    comm[strcspn(comm, "\n")] = '\0';
    return !strcmp(comm, want);
}

static int
option(int fd, int level, int name)
{
    int value = -1;
    socklen_t len = sizeof value;

    return getsockopt(fd, level, name, &value, &len) ? -1 : value;
}

static bool
is_netlink(int fd)
{
    if (option(fd, SOL_SOCKET, SO_DOMAIN) != AF_NETLINK) {
        return false;
    }

    int protocol = option(fd, SOL_SOCKET, SO_PROTOCOL);
    return protocol == NETLINK_ROUTE || protocol == NETLINK_NETFILTER;
}

static bool
is_member(int fd)
{
    uint32_t groups[8] = { 0 };
    socklen_t len = sizeof groups;

    if (getsockopt(fd, SOL_NETLINK, NETLINK_LIST_MEMBERSHIPS, groups, &len)) {
        return false;
    }
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
        if (groups[i]) {
            return true;
        }
    }
    return false;
}

static void
log_fault(const char *how, unsigned long n, const void *data, size_t size)
{
    const char *file = setting("NETFAULT_LOG", "");
    char line[128];
    int type = size >= NLMSG_HDRLEN
                   ? ((const struct nlmsghdr *) data)->nlmsg_type
                   : -1;
    int fd = file[0]
                 ? open(file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666)
                 : -1;

    if (fd >= 0) {
        int len =
            snprintf(line, sizeof line, "%s %lu type %d\n", how, n, type);

        if (write(fd, line, len) != len) {
            perror(file);
        }
        close(fd);
    }
}

/* True if this call is to fail in the way 'how'. */
static bool
is_due(int fd, const char *how, const void *data, size_t size)
{
    int saved = errno;
    unsigned long at = strtoul(setting("NETFAULT_AT", "0"), NULL, 10);
    unsigned long count = strtoul(setting("NETFAULT_COUNT", "1"), NULL, 10);
    bool due = false;

    if (at && !strcmp(setting("NETFAULT_HOW", "send"), how) && is_netlink(fd)
        && is_this_program()) {
        unsigned long n = atomic_fetch_add(&n_calls, 1) + 1;

        due = n >= at && n - at < count;
        if (due) {
            log_fault(how, n, data, size);
        }
    }
    errno = saved;
    return due;
}

static ssize_t
fail(void)
{
    errno = atoi(setting("NETFAULT_ERRNO", "105")); /* ENOBUFS. */
    return -1;
}

/* A spoiled copy of a message, to be freed. */
static void *
spoil(const void *data, size_t size)
{
    char *copy = malloc(size);

    if (!copy) {
        abort();
    }
    memcpy(copy, data, size);

    struct nlmsghdr *nlh = (struct nlmsghdr *) copy;
    if (size > BATCH_RES_ID + 2 && nlh->nlmsg_type == BATCH_BEGIN) {
        memset(copy + BATCH_RES_ID, 0x7f, 2);
    } else if (size >= sizeof *nlh) {
        nlh->nlmsg_type = NO_TYPE;
    }
    return copy;
}

/* The C library's function. */
static void *
next(const char *name)
{
    void *f = dlsym(RTLD_NEXT, name);

    if (!f) {
        abort();
    }
    return f;
}

ssize_t
sendto(int fd, const void *data, size_t size, int flags, ADDRESS)
{
    typedef ssize_t f(int, const void *, size_t, int, const struct sockaddr *,
                      socklen_t);
    f *real = (f *) next("sendto");

    if (is_due(fd, "send", data, size)) {
        return fail();
    }
    if (is_due(fd, "refuse", data, size)) {
        void *copy = spoil(data, size);
        ssize_t n = real(fd, copy, size, flags, to, to_len);

        free(copy);
        return n;
    }
    return real(fd, data, size, flags, to, to_len);
}

ssize_t
send(int fd, const void *data, size_t size, int flags)
{
    return sendto(fd, data, size, flags, NULL, 0);
}

ssize_t
sendmsg(int fd, const struct msghdr *msg, int flags)
{
    typedef ssize_t f(int, const struct msghdr *, int);
    f *real = (f *) next("sendmsg");
    const struct iovec *iov = msg->msg_iov;

    if (msg->msg_iovlen < 1) {
        return real(fd, msg, flags);
    }
    if (is_due(fd, "send", iov->iov_base, iov->iov_len)) {
        return fail();
    }
    if (is_due(fd, "refuse", iov->iov_base, iov->iov_len)) {
        struct msghdr copy = *msg;
        struct iovec *parts = calloc(msg->msg_iovlen, sizeof *parts);

        if (!parts) {
            abort();
        }
        memcpy(parts, iov, msg->msg_iovlen * sizeof *parts);
        parts[0].iov_base = spoil(iov->iov_base, iov->iov_len);
        copy.msg_iov = parts;

        ssize_t n = real(fd, &copy, flags);
        free(parts[0].iov_base);
        free(parts);
        return n;
    }
    return real(fd, msg, flags);
}

ssize_t
recvmsg(int fd, struct msghdr *msg, int flags)
{
    typedef ssize_t f(int, struct msghdr *, int);
    f *real = (f *) next("recvmsg");
    ssize_t n = real(fd, msg, flags);

    /* What is only looked at will be received later. */
    if (n > 0 && !(flags & MSG_PEEK) && is_netlink(fd) && !is_member(fd)
        && is_due(fd, "receive", msg->msg_iov->iov_base, n)) {
        return fail();
    }
    return n;
}

ssize_t
recvfrom(int fd, void *restrict data, size_t size, int flags, RET_ADDRESS)
{
    typedef ssize_t f(int, void *, size_t, int, struct sockaddr *,
                      socklen_t *);
    f *real = (f *) next("recvfrom");
    ssize_t n = real(fd, data, size, flags, from, from_len);

    if (n > 0 && !(flags & MSG_PEEK) && is_netlink(fd) && !is_member(fd)
        && is_due(fd, "receive", data, n)) {
        return fail();
    }
    return n;
}

ssize_t
recv(int fd, void *data, size_t size, int flags)
{
    return recvfrom(fd, data, size, flags, NULL, NULL);
}
