/* SPDX-License-Identifier: Apache-2.0 */
/* Passes over the kernel's conntrack table, by ctnetlink. */

#include "ctflush.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <netlink/attr.h>
#include <netlink/netlink.h>
#include <openvswitch/poll-loop.h>
#include <openvswitch/util.h>
#include <openvswitch/vlog.h>
#include <timeval.h>
#include <util.h>

#include "nfnl.h"
#include "nlsock.h"

VLOG_DEFINE_THIS_MODULE(ctflush);

static struct vlog_rate_limit rl = VLOG_RATE_LIMIT_INIT(5, 5);

/* Parts of the table that are read, and entries that are removed, a turn. */
#define PARTS_PER_TURN   8
#define REMOVED_PER_TURN 100

/* Its reasons come one after the other, and the kernel needs 10 ms to look at
 * the 262144 buckets of an empty table, in one go.  So a pass waits for more
 * of them, and while they go on to come the passes become rarer. */
#define SETTLE_MS  200
#define GAP_MIN_MS 1000

/* A request that comes so long after a pass could have been is the first one
 * again. */
#define CALM_MS 30000

/* Found in one pass; what is beyond is found by the next one. */
#define MAX_ENTRIES 10000

/* Of the kernel's net/netfilter/nf_internals.h: what a filter looks at. */
#define FILTER_PROTO_NUM      (1 << 3)
#define FILTER_PROTO_DST_PORT (1 << 5)

void
ctflush_init(struct ctflush *cf, const char *what, int gap_max_ms)
{
    *cf = (struct ctflush){ .what = what,
                            .gap = BACKOFF_INIT(GAP_MIN_MS, gap_max_ms) };
}

static void
end_pass(struct ctflush *cf)
{
    nl_socket_free(cf->sock);
    free(cf->entries);
    free(cf->buf);
    cf->sock = NULL;
    cf->entries = NULL;
    cf->buf = NULL;
    cf->n = cf->allocated = 0;
    cf->dumping = false;
    cf->next_ms = time_msec() + backoff_next(&cf->gap, 0);
}

void
ctflush_uninit(struct ctflush *cf)
{
    end_pass(cf);
}

void
ctflush_request(struct ctflush *cf)
{
    long long int now = time_msec();

    if (cf->due) {
        return;
    }
    if (now >= cf->next_ms + CALM_MS) {
        backoff_reset(&cf->gap);
    }
    cf->due = true;
    cf->next_ms = MAX(cf->next_ms, now + SETTLE_MS);
}

bool
ctflush_is_busy(const struct ctflush *cf)
{
    return cf->due || cf->sock;
}

/* Ends a pass that can't go on; there will be another one. */
static void
give_up(struct ctflush *cf, const char *what, int error)
{
    VLOG_WARN_RL(&rl, "conntrack entries of %s: %s: %s; trying again",
                 cf->what, what, ovs_strerror(error));
    end_pass(cf);
    cf->due = true;
}

static int
nfproto(enum ip_family family)
{
    return family == IP_V4 ? AF_INET : AF_INET6;
}

/* Sending. */

static void
put_filter(struct nl_msg *msg, const struct ctflush_filter *f)
{
    struct nlattr *tuple = nla_nest_start(msg, CTA_TUPLE_ORIG | NLA_F_NESTED);
    struct nlattr *proto = nla_nest_start(msg, CTA_TUPLE_PROTO | NLA_F_NESTED);

    nla_put_u8(msg, CTA_PROTO_NUM, f->proto);
    if (f->port) {
        nla_put_u16(msg, CTA_PROTO_DST_PORT, htons(f->port));
    }
    nla_nest_end(msg, proto);
    nla_nest_end(msg, tuple);

    struct nlattr *filter = nla_nest_start(msg, CTA_FILTER | NLA_F_NESTED);
    nla_put_u32(msg, CTA_FILTER_ORIG_FLAGS,
                FILTER_PROTO_NUM | (f->port ? FILTER_PROTO_DST_PORT : 0));
    nla_nest_end(msg, filter);
}

static enum ip_family
present_family(const struct ctflush *cf)
{
    return cf->step % N_IP_FAMILIES;
}

static const struct ctflush_filter *
present_filter(const struct ctflush *cf, const struct ctflush_want *w)
{
    return &w->filters[cf->step / N_IP_FAMILIES];
}

/* Asks for the table of the present family. */
static int
start_dump(struct ctflush *cf, const struct ctflush_want *w)
{
    struct nl_msg *msg =
        nfnl_msg((NFNL_SUBSYS_CTNETLINK << 8) | IPCTNL_MSG_CT_GET, NLM_F_DUMP,
                 nfproto(present_family(cf)), 256);

    if (!cf->unfiltered) {
        put_filter(msg, present_filter(cf, w));
    }
    cf->dumping = true;
    return nlsock_send_msg(cf->sock, msg, &cf->seq);
}

static void
put_address(struct nl_msg *msg, int v4_type, int v6_type, const struct ip *ip)
{
    if (ip_family(ip) == IP_V4) {
        ovs_be32 v4 = ip_v4(ip);

        nla_put(msg, v4_type, sizeof v4, &v4);
    } else {
        nla_put(msg, v6_type, sizeof ip->in6, &ip->in6);
    }
}

static int
send_removal(struct ctflush *cf, const struct ctflush_entry *e)
{
    struct nl_msg *msg =
        nfnl_msg((NFNL_SUBSYS_CTNETLINK << 8) | IPCTNL_MSG_CT_DELETE,
                 NLM_F_ACK, nfproto(ip_family(&e->src)), 256);
    struct nlattr *tuple = nla_nest_start(msg, CTA_TUPLE_ORIG | NLA_F_NESTED);
    struct nlattr *part = nla_nest_start(msg, CTA_TUPLE_IP | NLA_F_NESTED);

    put_address(msg, CTA_IP_V4_SRC, CTA_IP_V6_SRC, &e->src);
    put_address(msg, CTA_IP_V4_DST, CTA_IP_V6_DST, &e->dst);
    nla_nest_end(msg, part);
    part = nla_nest_start(msg, CTA_TUPLE_PROTO | NLA_F_NESTED);
    nla_put_u8(msg, CTA_PROTO_NUM, e->proto);
    nla_put_u16(msg, CTA_PROTO_SRC_PORT, htons(e->sport));
    nla_put_u16(msg, CTA_PROTO_DST_PORT, htons(e->dport));
    nla_nest_end(msg, part);
    nla_nest_end(msg, tuple);
    nla_put_u32(msg, CTA_ID, e->id);
    return nlsock_send_msg(cf->sock, msg, &cf->seq);
}

/* Receiving. */

static bool
get_address(struct nlattr *tb[], int v4_type, int v6_type, struct ip *ret)
{
    if (tb[v4_type] && nla_len(tb[v4_type]) == 4) {
        ovs_be32 v4;

        memcpy(&v4, nla_data(tb[v4_type]), sizeof v4);
        *ret = ip_from_v4(v4);
        return true;
    } else if (tb[v6_type] && nla_len(tb[v6_type]) == 16) {
        memcpy(&ret->in6, nla_data(tb[v6_type]), 16);
        return true;
    }
    return false;
}

/* The addresses of a tuple, and where it says which ports. */
static bool
decode_tuple(struct nlattr *attr, struct ip *src, struct ip *dst,
             struct nlattr *proto[])
{
    struct nlattr *tuple[CTA_TUPLE_MAX + 1], *ip[CTA_IP_MAX + 1];

    return attr && !nla_parse_nested(tuple, CTA_TUPLE_MAX, attr, NULL)
           && !tuple[CTA_TUPLE_ZONE] && tuple[CTA_TUPLE_IP]
           && tuple[CTA_TUPLE_PROTO]
           && !nla_parse_nested(ip, CTA_IP_MAX, tuple[CTA_TUPLE_IP], NULL)
           && !nla_parse_nested(proto, CTA_PROTO_MAX, tuple[CTA_TUPLE_PROTO],
                                NULL)
           && get_address(ip, CTA_IP_V4_SRC, CTA_IP_V6_SRC, src)
           && get_address(ip, CTA_IP_V4_DST, CTA_IP_V6_DST, dst);
}

/* Decodes an entry of the host's own zone; false for others. */
static bool
decode(struct nlmsghdr *nlh, struct ctflush_entry *e)
{
    struct nlattr *tb[CTA_MAX + 1], *proto[CTA_PROTO_MAX + 1];
    struct nlattr *reply[CTA_PROTO_MAX + 1];

    if (!nfnl_attrs(nlh, tb, CTA_MAX) || tb[CTA_ZONE] || !tb[CTA_ID]
        || !decode_tuple(tb[CTA_TUPLE_REPLY], &e->reply_src, &e->reply_dst,
                         reply)
        || !decode_tuple(tb[CTA_TUPLE_ORIG], &e->src, &e->dst, proto)
        || !proto[CTA_PROTO_NUM] || !proto[CTA_PROTO_SRC_PORT]
        || !proto[CTA_PROTO_DST_PORT] || !reply[CTA_PROTO_SRC_PORT]) {
        return false;
    }
    e->proto = nla_get_u8(proto[CTA_PROTO_NUM]);
    e->sport = ntohs(nla_get_u16(proto[CTA_PROTO_SRC_PORT]));
    e->dport = ntohs(nla_get_u16(proto[CTA_PROTO_DST_PORT]));
    e->reply_sport = ntohs(nla_get_u16(reply[CTA_PROTO_SRC_PORT]));
    e->id = nla_get_u32(tb[CTA_ID]);
    return true;
}

/* What a kernel that knows of filters would not have sent. */
static bool
passes(const struct ctflush_entry *e, const struct ctflush_filter *f)
{
    return e->proto == f->proto && (!f->port || e->dport == f->port);
}

static void
take_entry(struct ctflush *cf, struct nlmsghdr *nlh,
           const struct ctflush_want *w)
{
    struct ctflush_entry e;

    if (!decode(nlh, &e) || !passes(&e, present_filter(cf, w))
        || !w->is_stale(&e, w->aux)) {
        return;
    }
    if (cf->n >= MAX_ENTRIES) {
        cf->due = true;
        return;
    }
    if (cf->n >= cf->allocated) {
        cf->entries =
            x2nrealloc(cf->entries, &cf->allocated, sizeof *cf->entries);
    }
    cf->entries[cf->n++] = e;
}

/* The error in a message that ends an answer. */
static int
decode_end(const struct nlmsghdr *nlh)
{
    return nlmsg_datalen(nlh) >= (int) sizeof(int)
               ? -*(const int *) nlmsg_data(nlh)
               : 0;
}

/* Reads one part of the table.  Returns 0 to go on, EOF at the end, or a
 * positive errno value. */
static int
read_part(struct ctflush *cf, const struct ctflush_want *w)
{
    struct nlmsghdr *nlh = ALIGNED_CAST(struct nlmsghdr *, cf->buf);
    int len;
    int error = nlsock_receive(cf->sock, cf->buf, &len);

    if (error) {
        return error == EAGAIN ? EPROTO : error;
    }
    for (; nlmsg_ok(nlh, len); nlh = nlmsg_next(nlh, &len)) {
        if (nlh->nlmsg_seq != cf->seq) {
            continue;
        }
        if (nlh->nlmsg_type == NLMSG_DONE || nlh->nlmsg_type == NLMSG_ERROR) {
            error = decode_end(nlh);
            return error > 0 ? error : EOF;
        }
        take_entry(cf, nlh, w);
    }
    return 0;
}

/* Passes. */

/* Begins with the next part of the table, from 'step' on, that is wanted. */
static void
next_step(struct ctflush *cf, const struct ctflush_want *w, size_t step)
{
    for (; step < w->n_filters * N_IP_FAMILIES; step++) {
        cf->step = step;
        if (w->families[present_family(cf)]) {
            int error = start_dump(cf, w);
            if (error) {
                give_up(cf, "asking for them", error);
            }
            return;
        }
    }
    cf->dumping = false;
}

static void
start_pass(struct ctflush *cf, const struct ctflush_want *w)
{
    int error = nfnl_sock_open(&cf->sock);

    cf->due = false;
    if (error) {
        cf->sock = NULL;
        give_up(cf, "opening a socket", error);
        return;
    }
    cf->buf = xmalloc(NLSOCK_RECV_SIZE);
    next_step(cf, w, 0);
}

static void
run_dump(struct ctflush *cf, const struct ctflush_want *w)
{
    for (int i = 0; i < PARTS_PER_TURN && cf->dumping; i++) {
        int error = read_part(cf, w);

        if (error == EOF) {
            next_step(cf, w, cf->step + 1);
            return;
        } else if ((error == EINVAL || error == EOPNOTSUPP)
                   && !cf->unfiltered) {
            cf->unfiltered = true;
            next_step(cf, w, cf->step);
        } else if (error) {
            give_up(cf, "reading them", error);
        }
    }
}

/* Removes some of what was found.  One that is gone is as good. */
static void
run_removals(struct ctflush *cf)
{
    for (int i = 0; i < REMOVED_PER_TURN && cf->n; i++) {
        struct nlmsghdr *nlh = ALIGNED_CAST(struct nlmsghdr *, cf->buf);
        int error = send_removal(cf, &cf->entries[cf->n - 1]);
        int len;

        if (!error) {
            error = nlsock_receive(cf->sock, cf->buf, &len);
        }
        if (!error && nlmsg_ok(nlh, len) && nlh->nlmsg_type == NLMSG_ERROR) {
            error = decode_end(nlh);
        }
        if (error && error != ENOENT) {
            give_up(cf, "removing one", error);
            return;
        }
        cf->n_removed += !error;
        cf->n--;
    }
    if (!cf->n) {
        end_pass(cf);
    }
}

bool
ctflush_run(struct ctflush *cf, const struct ctflush_want *w)
{
    uint64_t before = cf->n_removed;
    bool was_busy = ctflush_is_busy(cf);

    if (!w->n_filters) {
        if (cf->sock) {
            end_pass(cf);
        }
        cf->due = false;
        return was_busy;
    }
    if (cf->due && !cf->sock && time_msec() >= cf->next_ms) {
        start_pass(cf, w);
    }
    if (cf->dumping) {
        run_dump(cf, w);
    } else if (cf->sock) {
        run_removals(cf);
    }
    if (cf->n_removed > before && !cf->sock) {
        VLOG_INFO("removed conntrack entries of %s: %" PRIu64
                  " since the start",
                  cf->what, cf->n_removed);
    }
    return was_busy && !ctflush_is_busy(cf);
}

void
ctflush_wait(const struct ctflush *cf)
{
    if (cf->sock) {
        poll_immediate_wake();
    } else if (cf->due) {
        poll_timer_wait_until(cf->next_ms);
    }
}
