/* SPDX-License-Identifier: Apache-2.0 */
/* Two rtnetlink sockets: one for requests, one for notifications.
 *
 * libnl builds and reads the messages.  Its callback machinery is passed by,
 * since it maps the kernel's errors to fewer codes of its own and drops the
 * kernel's explanations. */

#include "hostnl.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <netlink/attr.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <netlink/socket.h>
#include <openvswitch/util.h>
#include <util.h>

#include "hostnl-codec.h"
#include "nlsock.h"

/* For notifications.  What does not fit is lost, which only costs a dump. */
#define EVENT_RCVBUF (2 * 1024 * 1024)

struct hostnl {
    struct nl_sock *requests;
    struct nl_sock *events;
    uint32_t seq;
    union {
        struct nlmsghdr nlh; /* For the alignment. */
        uint8_t buf[NLSOCK_RECV_SIZE];
    };
};

/* Opening. */

static int
join_groups(struct hostnl *nl, enum hostnl_scope scope)
{
    bool failed = nl_socket_add_memberships(nl->events, RTNLGRP_LINK,
                                            RTNLGRP_IPV4_IFADDR,
                                            RTNLGRP_IPV6_IFADDR, RTNLGRP_NONE);

    if (!failed && scope == HOSTNL_ALL) {
        failed = nl_socket_add_memberships(nl->events, RTNLGRP_IPV4_ROUTE,
                                           RTNLGRP_IPV6_ROUTE, RTNLGRP_NEIGH,
                                           RTNLGRP_IPV4_RULE,
                                           RTNLGRP_IPV6_RULE, RTNLGRP_NONE);
    }
    return failed ? EPERM : 0;
}

int
hostnl_open(enum hostnl_scope scope, struct hostnl **ret)
{
    struct hostnl *nl = xzalloc(sizeof *nl);
    int error = nlsock_open(NETLINK_ROUTE, &nl->requests);

    if (!error) {
        error = nlsock_open(NETLINK_ROUTE, &nl->events);
    }
    if (!error) {
        nlsock_set_option(nl->requests, SOL_NETLINK, NETLINK_EXT_ACK, 1);
        nlsock_set_option(nl->requests, SOL_NETLINK, NETLINK_CAP_ACK, 1);
        nlsock_set_option(nl->requests, SOL_NETLINK, NETLINK_GET_STRICT_CHK,
                          1);
        nlsock_set_option(nl->events, SOL_SOCKET, SO_RCVBUF, EVENT_RCVBUF);
        nlsock_set_option(nl->events, SOL_SOCKET, SO_RCVBUFFORCE,
                          EVENT_RCVBUF);
        error = join_groups(nl, scope);
    }
    if (error) {
        hostnl_close(nl);
        return error;
    }
    *ret = nl;
    return 0;
}

void
hostnl_close(struct hostnl *nl)
{
    if (nl) {
        nl_socket_free(nl->requests);
        nl_socket_free(nl->events);
        free(nl);
    }
}

int
hostnl_fd(const struct hostnl *nl)
{
    return nl_socket_get_fd(nl->events);
}

/* Receiving. */

int
hostnl_events(struct hostnl *nl, hostnl_cb *cb, void *aux)
{
    for (;;) {
        struct nlmsghdr *nlh = &nl->nlh;
        int error, len;

        error = nlsock_receive(nl->events, nl->buf, &len);
        if (error) {
            return error == EAGAIN ? 0 : error;
        }
        for (; nlmsg_ok(nlh, len); nlh = nlmsg_next(nlh, &len)) {
            struct hostnl_event event;

            if (hostnl_decode(nlh, &event)) {
                cb(&event, aux);
            }
        }
    }
}

/* Requests. */

/* What to do with an answer's parts. */
struct answer {
    hostnl_cb *cb; /* Or NULL. */
    void *aux;
    struct err *err;
    bool dump;        /* Ends with NLMSG_DONE; else with the first part. */
    uint8_t family;   /* Of the dump: a kernel without IPv6 dumps others. */
    bool interrupted; /* Out: the dump is inconsistent. */
};

/* Takes one message of an answer.  Returns 0 to go on, EOF at the end, or a
 * positive errno value. */
static int
take_part(struct hostnl *nl, struct nlmsghdr *nlh, struct answer *a)
{
    struct hostnl_event event;

    if (nlh->nlmsg_seq != nl->seq) {
        return 0; /* Left over from a request that was given up. */
    }
    if (nlh->nlmsg_flags & NLM_F_DUMP_INTR) {
        a->interrupted = true;
    }
    if (nlh->nlmsg_type == NLMSG_ERROR) {
        int error = nlsock_decode_ack(nlh, a->err);

        return error ? error : EOF;
    } else if (nlh->nlmsg_type == NLMSG_DONE) {
        int error = nlmsg_datalen(nlh) >= (int) sizeof(int)
                        ? -*(const int *) nlmsg_data(nlh)
                        : 0;

        return error > 0 ? error : EOF;
    }
    /* All rtnetlink headers begin with the family. */
    if (a->cb && nlmsg_datalen(nlh) > 0
        && *(const uint8_t *) nlmsg_data(nlh) == a->family
        && hostnl_decode(nlh, &event)) {
        a->cb(&event, a->aux);
    }
    return a->dump ? 0 : EOF;
}

/* Sends 'msg', which is taken, and reads the answer. */
static int
transact(struct hostnl *nl, struct nl_msg *msg, struct answer *a)
{
    int error = nlsock_send_msg(nl->requests, msg, &nl->seq);

    while (!error) {
        struct nlmsghdr *nlh = &nl->nlh;
        int len;

        error = nlsock_receive(nl->requests, nl->buf, &len);
        if (error) {
            error = error == EAGAIN ? EPROTO : error;
            break;
        }
        for (; !error && nlmsg_ok(nlh, len); nlh = nlmsg_next(nlh, &len)) {
            error = take_part(nl, nlh, a);
        }
    }
    if (error > 0 && a->err && !a->err->msg[0]) {
        err_set(a->err, "%s", ovs_strerror(error));
    }
    return error == EOF ? 0 : error;
}

/* A request that is only acknowledged. */
static int
request(struct hostnl *nl, struct nl_msg *msg, struct err *err)
{
    struct answer a = { .err = err };

    if (err) {
        err->msg[0] = '\0';
    }
    nlmsg_hdr(msg)->nlmsg_flags |= NLM_F_ACK;
    return transact(nl, msg, &a);
}

/* True if a dump that failed so has nothing to say: there is no table yet, or
 * the kernel has no IPv6.  Otherwise to take it for an answer would take all
 * that there is for gone. */
static bool
means_none(int error, int family)
{
    return error == ENOENT
           || ((error == EOPNOTSUPP || error == EAFNOSUPPORT)
               && family == AF_INET6 && access("/proc/net/if_inet6", F_OK));
}

int
hostnl_dump(struct hostnl *nl, enum hostnl_kind kind, int ifindex,
            hostnl_cb *cb, void *aux)
{
    static const uint8_t families[] = { AF_INET, AF_INET6 };
    struct answer a = { .cb = cb, .aux = aux, .dump = true };

    for (size_t i = 0; i < ARRAY_SIZE(families); i++) {
        a.family = families[i];

        int error =
            transact(nl, hostnl_encode_dump(kind, families[i], ifindex), &a);

        if (error && !means_none(error, families[i])) {
            return error;
        }
    }
    return a.interrupted ? EINTR : 0;
}

static void
store_link(const struct hostnl_event *event, void *link)
{
    if (event->kind == HOSTNL_LINK) {
        *(struct hostnl_link *) link = event->link;
    }
}

static int
get_link(struct hostnl *nl, struct nl_msg *msg, struct hostnl_link *ret)
{
    struct hostnl_link link = { .ifindex = 0 };
    struct answer a = { .cb = store_link, .aux = &link, .family = AF_UNSPEC };
    int error = transact(nl, msg, &a);

    if (!error && !link.ifindex) {
        error = ENODEV;
    }
    if (!error) {
        *ret = link;
    }
    return error;
}

int
hostnl_link_get(struct hostnl *nl, const char *name, struct hostnl_link *ret)
{
    return get_link(nl, hostnl_encode_link_get(name, 0), ret);
}

int
hostnl_link_get_index(struct hostnl *nl, int ifindex, struct hostnl_link *ret)
{
    return get_link(nl, hostnl_encode_link_get(NULL, ifindex), ret);
}

int
hostnl_link_up(struct hostnl *nl, int ifindex, struct err *err)
{
    return request(nl, hostnl_encode_link_up(ifindex), err);
}

int
hostnl_addr_add(struct hostnl *nl, const struct hostnl_addr *addr,
                struct err *err)
{
    return request(nl,
                   hostnl_encode_addr(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL,
                                      addr),
                   err);
}

int
hostnl_addr_del(struct hostnl *nl, const struct hostnl_addr *addr,
                struct err *err)
{
    return request(nl, hostnl_encode_addr(RTM_DELADDR, 0, addr), err);
}

int
hostnl_route_add(struct hostnl *nl, const struct hostnl_route *route,
                 bool replace, struct err *err)
{
    int flags = NLM_F_CREATE | (replace ? NLM_F_REPLACE : NLM_F_EXCL);

    return request(nl, hostnl_encode_route(RTM_NEWROUTE, flags, route), err);
}

int
hostnl_route_del(struct hostnl *nl, const struct hostnl_route *route,
                 struct err *err)
{
    return request(nl, hostnl_encode_route(RTM_DELROUTE, 0, route), err);
}

int
hostnl_neigh_set(struct hostnl *nl, const struct hostnl_neigh *neigh,
                 struct err *err)
{
    return request(nl,
                   hostnl_encode_neigh(RTM_NEWNEIGH,
                                       NLM_F_CREATE | NLM_F_REPLACE, neigh),
                   err);
}

int
hostnl_neigh_del(struct hostnl *nl, const struct hostnl_neigh *neigh,
                 struct err *err)
{
    return request(nl, hostnl_encode_neigh(RTM_DELNEIGH, 0, neigh), err);
}

int
hostnl_rule_add(struct hostnl *nl, const struct hostnl_rule *rule,
                struct err *err)
{
    return request(nl,
                   hostnl_encode_rule(RTM_NEWRULE, NLM_F_CREATE | NLM_F_EXCL,
                                      rule),
                   err);
}

int
hostnl_rule_del(struct hostnl *nl, const struct hostnl_rule *rule,
                struct err *err)
{
    return request(nl, hostnl_encode_rule(RTM_DELRULE, 0, rule), err);
}
