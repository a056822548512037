/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOST_NLSOCK_H
#define HOST_NLSOCK_H 1

/* A netlink socket, of whatever family, as the host layer uses them: never
 * blocking, with requests as they were built and answers as they came. */

#include <stddef.h>
#include <stdint.h>

#include <openvswitch/compiler.h>

#include "ofproxyd/base/err.h"

struct nl_msg;
struct nl_sock;
struct nlmsghdr;

/* The kernel fills at most so many bytes in one go. */
#define NLSOCK_RECV_SIZE 32768

/* Opens a socket of 'protocol', NETLINK_ROUTE or the like; the caller owes an
 * nl_socket_free().  Returns 0 or a positive errno value. */
int nlsock_open(int protocol, struct nl_sock **ret) OVS_WARN_UNUSED_RESULT;

/* Sets a socket option, without which an old kernel says less or some is
 * lost: a failure is none. */
void nlsock_set_option(struct nl_sock *, int level, int option, int value);

/* Sends 'size' bytes of messages.  Returns 0 or a positive errno value. */
int nlsock_send(struct nl_sock *, const void *data, size_t size)
    OVS_WARN_UNUSED_RESULT;

/* Sends 'msg' with the next sequence number, '*seq', and frees it.  Returns 0
 * or a positive errno value. */
int nlsock_send_msg(struct nl_sock *, struct nl_msg *msg, uint32_t *seq)
    OVS_WARN_UNUSED_RESULT;

/* Receives up to NLSOCK_RECV_SIZE bytes into 'buf' and sets '*ret_len'.
 * Returns 0, EAGAIN if there is nothing, EMSGSIZE if there was more, or
 * another positive errno value. */
int nlsock_receive(struct nl_sock *, void *buf, int *ret_len)
    OVS_WARN_UNUSED_RESULT;

/* Decodes an acknowledgement (NLMSG_ERROR).  Returns 0, or the positive errno
 * value in it with the kernel's own words, if any, in 'err', which may be
 * NULL; EPROTO if it is cut short. */
int nlsock_decode_ack(struct nlmsghdr *, struct err *err)
    OVS_WARN_UNUSED_RESULT;

#endif /* host/nlsock.h */
