/* SPDX-License-Identifier: Apache-2.0 */
/* Netlink sockets by libnl-3, but for sending and receiving: its own functions
 * wait, and count what is ours to count. */

#include "nlsock.h"

#include <errno.h>
#include <linux/netlink.h>
#include <sys/socket.h>

#include <netlink/attr.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <netlink/socket.h>
#include <openvswitch/util.h>
#include <util.h>

int
nlsock_open(int protocol, struct nl_sock **ret)
{
    struct nl_sock *sock = nl_socket_alloc();

    if (!sock) {
        out_of_memory();
    }
    errno = 0;
    if (nl_connect(sock, protocol) || nl_socket_set_nonblocking(sock)) {
        int error = errno ? errno : EIO;

        nl_socket_free(sock);
        return error;
    }
    *ret = sock;
    return 0;
}

void
nlsock_set_option(struct nl_sock *sock, int level, int option, int value)
{
    ignore(setsockopt(nl_socket_get_fd(sock), level, option, &value,
                      sizeof value));
}

int
nlsock_send(struct nl_sock *sock, const void *data, size_t size)
{
    ssize_t n;

    do {
        n = send(nl_socket_get_fd(sock), data, size, 0);
    } while (n < 0 && errno == EINTR);
    return n < 0 ? errno : 0;
}

int
nlsock_send_msg(struct nl_sock *sock, struct nl_msg *msg, uint32_t *seq)
{
    struct nlmsghdr *nlh = nlmsg_hdr(msg);

    nlh->nlmsg_seq = ++*seq;
    nlh->nlmsg_pid = nl_socket_get_local_port(sock);

    int error = nlsock_send(sock, nlh, nlh->nlmsg_len);
    nlmsg_free(msg);
    return error;
}

int
nlsock_receive(struct nl_sock *sock, void *buf, int *ret_len)
{
    ssize_t n;

    do {
        n = recv(nl_socket_get_fd(sock), buf, NLSOCK_RECV_SIZE,
                 MSG_DONTWAIT | MSG_TRUNC);
    } while (n < 0 && errno == EINTR);
    if (n < 0) {
        return errno;
    }
    *ret_len = n;
    return n > NLSOCK_RECV_SIZE ? EMSGSIZE : 0;
}

int
nlsock_decode_ack(struct nlmsghdr *nlh, struct err *err)
{
    struct nlattr *tb[NLMSGERR_ATTR_MSG + 1] = { NULL };
    const struct nlmsgerr *e = nlmsg_data(nlh);

    if (nlmsg_datalen(nlh) < (int) sizeof *e) {
        err_set(err, "an acknowledgement is cut short");
        return EPROTO;
    }

    int error = -e->error;
    if (!error) {
        return 0;
    }
    if (nlh->nlmsg_flags & NLM_F_ACK_TLVS) {
        /* With NETLINK_CAP_ACK the request is not in the answer. */
        ignore(nla_parse(tb, NLMSGERR_ATTR_MSG, nlmsg_attrdata(nlh, sizeof *e),
                         nlmsg_attrlen(nlh, sizeof *e), NULL));
    }
    if (tb[NLMSGERR_ATTR_MSG]) {
        err_set(err, "%s (%.*s)", ovs_strerror(error),
                nla_len(tb[NLMSGERR_ATTR_MSG]),
                (const char *) nla_data(tb[NLMSGERR_ATTR_MSG]));
    } else {
        err_set(err, "%s", ovs_strerror(error));
    }
    return error;
}
