/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOST_NFNL_H
#define HOST_NFNL_H 1

/* nfnetlink for the host layer: requests with their answers, dumps, batches
 * and the notifications of nf_tables.
 *
 * As with rtnetlink the kernel handles a request inside the call that sends
 * it, so nothing here waits: an answer that isn't there at once is an
 * error. */

#include <stdbool.h>
#include <stdint.h>

#include <netlink/msg.h>
#include <netlink/socket.h>
#include <openvswitch/compiler.h>
#include <openvswitch/list.h>

#include "ofproxyd/base/err.h"

struct nfnl;

/* A change of nf_tables.  The strings are "" where the message has none. */
struct nfnl_event {
    int msg;         /* NFT_MSG_*. */
    int family;      /* NFPROTO_*. */
    uint32_t portid; /* Of the socket that changed it. */
    const char *table;
    const char *name; /* Chain or set; the rule's or element's one too. */
};

typedef void nfnl_event_cb(const struct nfnl_event *, void *aux);
typedef void nfnl_msg_cb(struct nlmsghdr *, void *aux);

/* Opens one socket for requests.  Returns 0 or a positive errno value. */
int nfnl_sock_open(struct nl_sock **ret) OVS_WARN_UNUSED_RESULT;

/* Opens the sockets.  Returns 0 or a positive errno value. */
int nfnl_open(struct nfnl **ret) OVS_WARN_UNUSED_RESULT;
void nfnl_close(struct nfnl *); /* NULL is allowed. */

/* Becomes readable when there are notifications. */
int nfnl_fd(const struct nfnl *);

/* The port id of what is sent by nfnl_batch_send(). */
uint32_t nfnl_portid(const struct nfnl *);

/* Hands out all notifications that wait.  Returns 0, or ENOBUFS if some were
 * lost, or another positive errno value. */
int nfnl_events(struct nfnl *, nfnl_event_cb *, void *aux)
    OVS_WARN_UNUSED_RESULT;

/* Starts a message: 'type' is NFNL_SUBSYS_* << 8 and the subsystem's number,
 * 'flags' are NLM_F_* beyond NLM_F_REQUEST, 'size' is an upper limit of what
 * is put into it. */
struct nl_msg *nfnl_msg(int type, int flags, int family, size_t size);

/* The attributes of a message, up to 'max' (a NFTA_*_MAX), into 'tb', which
 * has 'max' + 1.  False if they are malformed. */
bool nfnl_attrs(struct nlmsghdr *, struct nlattr *tb[], int max);

/* A string attribute, bounded; "" if it is NULL or no string. */
const char *nfnl_string(const struct nlattr *);

/* The family of a message. */
int nfnl_family(const struct nlmsghdr *);

/* Sends a request, which is taken, and hands out what the answer consists of.
 * Returns 0, or EINTR if the result is inconsistent because it changed
 * meanwhile, or another positive errno value (ENOENT: no such table). */
int nfnl_dump(struct nfnl *, struct nl_msg *, nfnl_msg_cb *, void *aux)
    OVS_WARN_UNUSED_RESULT;

/* The same for one object. */
int nfnl_get(struct nfnl *, struct nl_msg *, nfnl_msg_cb *, void *aux)
    OVS_WARN_UNUSED_RESULT;

/* Messages that are carried out together or not at all. */
struct nfnl_batch {
    uint8_t *data;
    size_t size, allocated;
    size_t n; /* Messages. */
};

void nfnl_batch_init(struct nfnl_batch *);
void nfnl_batch_uninit(struct nfnl_batch *);

/* Appends a message, which is taken. */
void nfnl_batch_add(struct nfnl_batch *, struct nl_msg *);

/* Carries them out; without any it does nothing.  Returns 0 or a positive
 * errno value, then with the kernel's reason in 'err', which may be NULL. */
int nfnl_batch_send(struct nfnl *, struct nfnl_batch *, struct err *)
    OVS_WARN_UNUSED_RESULT;

#endif /* host/nfnl.h */
