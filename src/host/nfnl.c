/* SPDX-License-Identifier: Apache-2.0 */
/* Two nfnetlink sockets: one for requests, one for nf_tables' notifications.
 *
 * libnl builds and reads the messages; its callback machinery is passed by for
 * the same reasons as in hostnl.c. */

#include "nfnl.h"

#include <errno.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <netlink/attr.h>
#include <netlink/netlink.h>
#include <openvswitch/util.h>
#include <util.h>

#include "nlsock.h"

/* For notifications.  A busy kube-proxy writes a lot, which the kernel hands
 * to everybody; what does not fit only costs a check. */
#define EVENT_RCVBUF (4 * 1024 * 1024)

/* A batch has to fit into the socket's send buffer as a whole. */
#define REQUEST_SNDBUF (4 * 1024 * 1024)

struct nfnl {
    struct nl_sock *requests;
    struct nl_sock *events;
    uint32_t seq;
    union {
        struct nlmsghdr nlh; /* For the alignment. */
        uint8_t buf[NLSOCK_RECV_SIZE];
    };
};

/* Opening. */

int
nfnl_sock_open(struct nl_sock **ret)
{
    int error = nlsock_open(NETLINK_NETFILTER, ret);

    if (!error) {
        nlsock_set_option(*ret, SOL_NETLINK, NETLINK_EXT_ACK, 1);
        nlsock_set_option(*ret, SOL_NETLINK, NETLINK_CAP_ACK, 1);
    }
    return error;
}

int
nfnl_open(struct nfnl **ret)
{
    struct nfnl *nl = xzalloc(sizeof *nl);
    int error = nfnl_sock_open(&nl->requests);

    if (!error) {
        error = nfnl_sock_open(&nl->events);
    }
    if (!error) {
        nlsock_set_option(nl->requests, SOL_SOCKET, SO_SNDBUFFORCE,
                          REQUEST_SNDBUF);
        nlsock_set_option(nl->events, SOL_SOCKET, SO_RCVBUF, EVENT_RCVBUF);
        nlsock_set_option(nl->events, SOL_SOCKET, SO_RCVBUFFORCE,
                          EVENT_RCVBUF);
        if (nl_socket_add_memberships(nl->events, NFNLGRP_NFTABLES,
                                      NFNLGRP_NONE)) {
            error = EPERM;
        }
    }
    if (error) {
        nfnl_close(nl);
        return error;
    }
    *ret = nl;
    return 0;
}

void
nfnl_close(struct nfnl *nl)
{
    if (nl) {
        nl_socket_free(nl->requests);
        nl_socket_free(nl->events);
        free(nl);
    }
}

int
nfnl_fd(const struct nfnl *nl)
{
    return nl_socket_get_fd(nl->events);
}

uint32_t
nfnl_portid(const struct nfnl *nl)
{
    return nl_socket_get_local_port(nl->requests);
}

/* Messages. */

struct nl_msg *
nfnl_msg(int type, int flags, int family, size_t size)
{
    struct nfgenmsg nfg = { .nfgen_family = family, .version = NFNETLINK_V0 };
    struct nl_msg *msg = nlmsg_alloc_size(size + NLMSG_HDRLEN + 64);

    if (!msg) {
        out_of_memory();
    }
    nlmsg_put(msg, 0, 0, type, 0, NLM_F_REQUEST | flags);
    nlmsg_append(msg, &nfg, sizeof nfg, NLMSG_ALIGNTO);
    return msg;
}

bool
nfnl_attrs(struct nlmsghdr *nlh, struct nlattr *tb[], int max)
{
    return nlmsg_valid_hdr(nlh, sizeof(struct nfgenmsg))
           && !nla_parse(tb, max, nlmsg_attrdata(nlh, sizeof(struct nfgenmsg)),
                         nlmsg_attrlen(nlh, sizeof(struct nfgenmsg)), NULL);
}

const char *
nfnl_string(const struct nlattr *attr)
{
    return attr && nla_len(attr) > 0
                   && memchr(nla_data(attr), '\0', nla_len(attr))
               ? nla_data(attr)
               : "";
}

int
nfnl_family(const struct nlmsghdr *nlh)
{
    const struct nfgenmsg *nfg = nlmsg_data(nlh);

    return nlmsg_valid_hdr(nlh, sizeof *nfg) ? nfg->nfgen_family : 0;
}

/* Receiving. */

/* All that nf_tables notifies about begins with the table and the name. */
static bool
decode_event(struct nlmsghdr *nlh, struct nfnl_event *event)
{
    struct nlattr *tb[3];

    BUILD_ASSERT_DECL(NFTA_CHAIN_TABLE == 1 && NFTA_CHAIN_NAME == 3);
    BUILD_ASSERT_DECL(NFTA_RULE_TABLE == 1 && NFTA_RULE_CHAIN == 2);
    BUILD_ASSERT_DECL(NFTA_SET_TABLE == 1 && NFTA_SET_NAME == 2);
    BUILD_ASSERT_DECL(NFTA_TABLE_NAME == 1);
    BUILD_ASSERT_DECL(NFTA_SET_ELEM_LIST_TABLE == 1
                      && NFTA_SET_ELEM_LIST_SET == 2);

    if (NFNL_SUBSYS_ID(nlh->nlmsg_type) != NFNL_SUBSYS_NFTABLES) {
        return false;
    }
    event->msg = NFNL_MSG_TYPE(nlh->nlmsg_type);
    if (event->msg == NFT_MSG_NEWGEN) {
        return false;
    }
    bool chain =
        event->msg == NFT_MSG_NEWCHAIN || event->msg == NFT_MSG_DELCHAIN;
    struct nlattr *chain_tb[NFTA_CHAIN_NAME + 1];
    struct nlattr **attrs = chain ? chain_tb : tb;

    if (!nfnl_attrs(nlh, attrs, chain ? NFTA_CHAIN_NAME : 2)) {
        return false;
    }
    event->family = nfnl_family(nlh);
    event->portid = nlh->nlmsg_pid;
    event->table = nfnl_string(attrs[1]);
    event->name =
        event->msg == NFT_MSG_NEWTABLE || event->msg == NFT_MSG_DELTABLE
            ? ""
            : nfnl_string(attrs[chain ? NFTA_CHAIN_NAME : 2]);
    return true;
}

int
nfnl_events(struct nfnl *nl, nfnl_event_cb *cb, void *aux)
{
    int lost = 0;

    for (;;) {
        struct nlmsghdr *nlh = &nl->nlh;
        int error, len;

        error = nlsock_receive(nl->events, nl->buf, &len);
        if (error == ENOBUFS) {
            lost = error; /* What came before still waits. */
            continue;
        } else if (error) {
            return error == EAGAIN ? lost : error;
        }
        for (; nlmsg_ok(nlh, len); nlh = nlmsg_next(nlh, &len)) {
            struct nfnl_event event;

            if (decode_event(nlh, &event)) {
                cb(&event, aux);
            }
        }
    }
}

/* Requests. */

/* What to do with an answer's parts. */
struct answer {
    nfnl_msg_cb *cb;
    void *aux;
    bool dump;        /* Ends with NLMSG_DONE; else with the first part. */
    bool interrupted; /* Out: the dump is inconsistent. */
};

/* Takes one message of an answer.  Returns 0 to go on, EOF at the end, or a
 * positive errno value. */
static int
take_part(struct nfnl *nl, struct nlmsghdr *nlh, struct answer *a)
{
    if (nlh->nlmsg_seq != nl->seq) {
        return 0; /* Left over from a request that was given up. */
    }
    if (nlh->nlmsg_flags & NLM_F_DUMP_INTR) {
        a->interrupted = true;
    }
    if (nlh->nlmsg_type == NLMSG_ERROR) {
        int error = nlsock_decode_ack(nlh, NULL);

        return error ? error : EOF;
    } else if (nlh->nlmsg_type == NLMSG_DONE) {
        int error = nlmsg_datalen(nlh) >= (int) sizeof(int)
                        ? -*(const int *) nlmsg_data(nlh)
                        : 0;

        return error > 0 ? error : EOF;
    }
    a->cb(nlh, a->aux);
    return a->dump ? 0 : EOF;
}

/* Sends 'msg', which is taken, and reads the answer. */
static int
transact(struct nfnl *nl, struct nl_msg *msg, struct answer *a)
{
    struct nlmsghdr *nlh = nlmsg_hdr(msg);

    nlh->nlmsg_seq = ++nl->seq;
    nlh->nlmsg_pid = nfnl_portid(nl);
    int error = nlsock_send(nl->requests, nlh, nlh->nlmsg_len);

    nlmsg_free(msg);
    while (!error) {
        int len;

        error = nlsock_receive(nl->requests, nl->buf, &len);
        if (error) {
            return error == EAGAIN ? EPROTO : error;
        }
        for (nlh = &nl->nlh; !error && nlmsg_ok(nlh, len);
             nlh = nlmsg_next(nlh, &len)) {
            error = take_part(nl, nlh, a);
        }
    }
    return error != EOF ? error : a->interrupted ? EINTR : 0;
}

int
nfnl_dump(struct nfnl *nl, struct nl_msg *msg, nfnl_msg_cb *cb, void *aux)
{
    struct answer a = { .cb = cb, .aux = aux, .dump = true };

    nlmsg_hdr(msg)->nlmsg_flags |= NLM_F_DUMP;
    return transact(nl, msg, &a);
}

int
nfnl_get(struct nfnl *nl, struct nl_msg *msg, nfnl_msg_cb *cb, void *aux)
{
    struct answer a = { .cb = cb, .aux = aux };

    return transact(nl, msg, &a);
}

/* Batches. */

static void
append(struct nfnl_batch *b, const struct nlmsghdr *nlh)
{
    size_t size = NLMSG_ALIGN(nlh->nlmsg_len);

    while (b->size + size > b->allocated) {
        b->data = x2nrealloc(b->data, &b->allocated, 1);
    }
    memset(b->data + b->size, 0, size);
    memcpy(b->data + b->size, nlh, nlh->nlmsg_len);
    b->size += size;
}

/* Begins or ends the batch. */
static void
append_mark(struct nfnl_batch *b, int type)
{
    struct nl_msg *msg = nfnl_msg(type, 0, AF_UNSPEC, 0);
    struct nfgenmsg *nfg = nlmsg_data(nlmsg_hdr(msg));

    nfg->res_id = htons(NFNL_SUBSYS_NFTABLES);
    append(b, nlmsg_hdr(msg));
    nlmsg_free(msg);
}

void
nfnl_batch_init(struct nfnl_batch *b)
{
    *b = (struct nfnl_batch){ .data = NULL };
    append_mark(b, NFNL_MSG_BATCH_BEGIN);
}

void
nfnl_batch_uninit(struct nfnl_batch *b)
{
    free(b->data);
}

void
nfnl_batch_add(struct nfnl_batch *b, struct nl_msg *msg)
{
    nlmsg_hdr(msg)->nlmsg_flags |= NLM_F_ACK;
    append(b, nlmsg_hdr(msg));
    nlmsg_free(msg);
    b->n++;
}

/* Reads the acknowledgements of the batch that was sent last.  All are there,
 * in order; the first error is the one that counts. */
static int
read_acks(struct nfnl *nl, size_t n, struct err *err)
{
    int first = 0, len;

    while (n > 0) {
        int error = nlsock_receive(nl->requests, nl->buf, &len);

        if (error) {
            /* What failed as a whole is acknowledged once only. */
            error = error == EAGAIN ? EPROTO : error;
            if (!first) {
                err_set(err, "%s", ovs_strerror(error));
            }
            return first ? first : error;
        }
        for (struct nlmsghdr *nlh = &nl->nlh; nlmsg_ok(nlh, len);
             nlh = nlmsg_next(nlh, &len)) {
            if (nlh->nlmsg_type == NLMSG_ERROR && nlh->nlmsg_seq == nl->seq) {
                error = nlsock_decode_ack(nlh, first ? NULL : err);
                first = first ? first : error;
                n -= n > 0;
            }
        }
    }
    return first;
}

int
nfnl_batch_send(struct nfnl *nl, struct nfnl_batch *b, struct err *err)
{
    if (!b->n) {
        return 0;
    }
    append_mark(b, NFNL_MSG_BATCH_END);
    nl->seq++;
    for (size_t at = 0; at < b->size;) {
        struct nlmsghdr *nlh = ALIGNED_CAST(struct nlmsghdr *, b->data + at);

        nlh->nlmsg_seq = nl->seq;
        nlh->nlmsg_pid = nfnl_portid(nl);
        at += NLMSG_ALIGN(nlh->nlmsg_len);
    }

    int error = nlsock_send(nl->requests, b->data, b->size);
    if (error) {
        err_set(err, "%s", ovs_strerror(error));
        return error;
    }
    return read_acks(nl, b->n, err);
}
