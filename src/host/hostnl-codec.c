/* SPDX-License-Identifier: Apache-2.0 */
/* Encodes and decodes rtnetlink messages.
 *
 * Requests are built so that they mean exactly one thing: a deletion names
 * all that the kernel compares, so it can't hit somebody else's object. */

#include "hostnl-codec.h"

#include <linux/fib_rules.h>
#include <linux/if_addr.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/socket.h>

#include <netlink/attr.h>
#include <openvswitch/util.h>
#include <util.h>

#include "ofproxyd/host/host.h"

/* Both came late to the kernel's headers; older kernels ignore them. */
#define ATTR_IFA_PROTO    11
#define ATTR_NDA_PROTOCOL 12
#define ATTR_NDA_IFINDEX  8
#define N_IFA_ATTRS       (ATTR_IFA_PROTO + 1)
#define N_NDA_ATTRS       (ATTR_NDA_PROTOCOL + 1)

static int
af(const struct ip *ip)
{
    return ip_family(ip) == IP_V4 ? AF_INET : AF_INET6;
}

static uint8_t
full_plen(int family)
{
    return family == AF_INET ? 32 : 128;
}

/* Decoding. */

static bool
get_ip(const struct nlattr *attr, int family, struct ip *ret)
{
    if (family == AF_INET && nla_len(attr) == sizeof(ovs_be32)) {
        ovs_be32 v4;

        memcpy(&v4, nla_data(attr), sizeof v4);
        *ret = ip_from_v4(v4);
        return true;
    }
    if (family == AF_INET6 && nla_len(attr) == sizeof ret->in6) {
        memcpy(&ret->in6, nla_data(attr), sizeof ret->in6);
        return true;
    }
    return false;
}

static bool
decode_link(struct nlmsghdr *nlh, struct hostnl_link *link)
{
    struct nlattr *tb[IFLA_MTU + 1];
    const struct ifinfomsg *ifi = nlmsg_data(nlh);

    /* Bridges and IPv6 send messages of their own family about the link. */
    if (nlmsg_parse(nlh, sizeof *ifi, tb, IFLA_MTU, NULL) < 0
        || ifi->ifi_family != AF_UNSPEC || !tb[IFLA_IFNAME]) {
        return false;
    }
    *link = (struct hostnl_link){
        .ifindex = ifi->ifi_index,
        .mtu = tb[IFLA_MTU] ? nla_get_u32(tb[IFLA_MTU]) : 0,
        .up = (ifi->ifi_flags & IFF_UP) != 0,
        .loopback = (ifi->ifi_flags & IFF_LOOPBACK) != 0,
    };
    nla_strlcpy(link->name, tb[IFLA_IFNAME], sizeof link->name);
    return true;
}

static bool
decode_addr(struct nlmsghdr *nlh, struct hostnl_addr *addr)
{
    struct nlattr *tb[N_IFA_ATTRS];
    const struct ifaddrmsg *ifa = nlmsg_data(nlh);

    if (nlmsg_parse(nlh, sizeof *ifa, tb, N_IFA_ATTRS - 1, NULL) < 0) {
        return false;
    }

    /* Of a point-to-point link, IFA_ADDRESS is the peer. */
    const struct nlattr *local =
        tb[IFA_LOCAL] ? tb[IFA_LOCAL] : tb[IFA_ADDRESS];
    uint32_t flags =
        tb[IFA_FLAGS] ? nla_get_u32(tb[IFA_FLAGS]) : ifa->ifa_flags;
    *addr = (struct hostnl_addr){
        .ifindex = ifa->ifa_index,
        .cidr.plen = ifa->ifa_prefixlen,
        .global = ifa->ifa_scope == RT_SCOPE_UNIVERSE,
        .unusable = (flags & IFA_F_DADFAILED) != 0,
        .tentative =
            (flags & (IFA_F_TENTATIVE | IFA_F_OPTIMISTIC)) == IFA_F_TENTATIVE,
        .deprecated = (flags & IFA_F_DEPRECATED) != 0,
        .secondary = (flags & IFA_F_SECONDARY) != 0,
        .protocol = tb[ATTR_IFA_PROTO] ? nla_get_u8(tb[ATTR_IFA_PROTO]) : 0,
    };
    return local && get_ip(local, ifa->ifa_family, &addr->cidr.ip)
           && ifa->ifa_prefixlen <= full_plen(ifa->ifa_family);
}

static bool
decode_route(struct nlmsghdr *nlh, struct hostnl_route *r)
{
    struct nlattr *tb[RTA_MAX + 1];
    const struct rtmsg *rtm = nlmsg_data(nlh);

    if (nlmsg_parse(nlh, sizeof *rtm, tb, RTA_MAX, NULL) < 0
        || (rtm->rtm_family != AF_INET && rtm->rtm_family != AF_INET6)
        || rtm->rtm_flags & RTM_F_CLONED
        || rtm->rtm_dst_len > full_plen(rtm->rtm_family)) {
        return false;
    }
    uint32_t table =
        tb[RTA_TABLE] ? nla_get_u32(tb[RTA_TABLE]) : rtm->rtm_table;
    if (table != RT_TABLE_MAIN && table != HOST_RT_TABLE) {
        return false;
    }

    *r = (struct hostnl_route){
        .ifindex = tb[RTA_OIF] ? nla_get_u32(tb[RTA_OIF]) : 0,
        .dst.plen = rtm->rtm_dst_len,
        .metric = tb[RTA_PRIORITY] ? nla_get_u32(tb[RTA_PRIORITY]) : 0,
        .protocol = rtm->rtm_protocol,
        .type = rtm->rtm_type,
        .tos = rtm->rtm_tos,
        .own_table = table != RT_TABLE_MAIN,
        .multipath = tb[RTA_MULTIPATH] != NULL,
        .onlink = (rtm->rtm_flags & RTNH_F_ONLINK) != 0,
    };
    if (rtm->rtm_family == AF_INET) {
        r->dst.ip = ip_from_v4(0);
    }
    return (!tb[RTA_DST] || get_ip(tb[RTA_DST], rtm->rtm_family, &r->dst.ip))
           && (!tb[RTA_GATEWAY]
               || get_ip(tb[RTA_GATEWAY], rtm->rtm_family, &r->via))
           && (!tb[RTA_PREFSRC]
               || get_ip(tb[RTA_PREFSRC], rtm->rtm_family, &r->src));
}

static bool
decode_neigh(struct nlmsghdr *nlh, struct hostnl_neigh *n)
{
    struct nlattr *tb[N_NDA_ATTRS];
    const struct ndmsg *ndm = nlmsg_data(nlh);

    if (nlmsg_parse(nlh, sizeof *ndm, tb, N_NDA_ATTRS - 1, NULL) < 0
        || ndm->ndm_flags & NTF_PROXY || !tb[NDA_DST]) {
        return false;
    }
    *n = (struct hostnl_neigh){
        .ifindex = ndm->ndm_ifindex,
        .permanent = (ndm->ndm_state & NUD_PERMANENT) != 0,
        .protocol =
            tb[ATTR_NDA_PROTOCOL] ? nla_get_u8(tb[ATTR_NDA_PROTOCOL]) : 0,
    };
    if (tb[NDA_LLADDR] && nla_len(tb[NDA_LLADDR]) == sizeof n->mac) {
        memcpy(&n->mac, nla_data(tb[NDA_LLADDR]), sizeof n->mac);
    }
    return get_ip(tb[NDA_DST], ndm->ndm_family, &n->ip);
}

/* The attributes that our rules have. */
static bool
is_of_our_rules(int attr)
{
    return attr == FRA_PRIORITY || attr == FRA_FWMARK || attr == FRA_FWMASK
           || attr == FRA_TABLE || attr == FRA_PROTOCOL;
}

/* These, the kernel tells of every rule: -1 stands for none. */
static bool
says_nothing(const struct nlattr *attr)
{
    return (nla_type(attr) == FRA_SUPPRESS_PREFIXLEN
            || nla_type(attr) == FRA_SUPPRESS_IFGROUP)
           && nla_get_u32(attr) == UINT32_MAX;
}

static bool
decode_rule(struct nlmsghdr *nlh, struct hostnl_rule *rule)
{
    struct nlattr *tb[FRA_MAX + 1];
    const struct fib_rule_hdr *frh = nlmsg_data(nlh);

    if (nlmsg_parse(nlh, sizeof *frh, tb, FRA_MAX, NULL) < 0
        || (frh->family != AF_INET && frh->family != AF_INET6)
        || !tb[FRA_PROTOCOL] || nla_get_u8(tb[FRA_PROTOCOL]) != HOST_RTPROT) {
        return false;
    }
    *rule = (struct hostnl_rule){
        .family = frh->family == AF_INET ? IP_V4 : IP_V6,
        .priority = tb[FRA_PRIORITY] ? nla_get_u32(tb[FRA_PRIORITY]) : 0,
        .mark = tb[FRA_FWMARK] ? nla_get_u32(tb[FRA_FWMARK]) : 0,
        .mask = tb[FRA_FWMASK] ? nla_get_u32(tb[FRA_FWMASK]) : 0,
        .table = tb[FRA_TABLE] ? nla_get_u32(tb[FRA_TABLE]) : frh->table,
        .other = frh->src_len || frh->dst_len || frh->tos
                 || frh->action != FR_ACT_TO_TBL
                 || frh->flags & FIB_RULE_INVERT,
    };
    for (int i = 0; i <= FRA_MAX; i++) {
        rule->other |= tb[i] && !is_of_our_rules(i) && !says_nothing(tb[i]);
    }
    return true;
}

bool
hostnl_decode(struct nlmsghdr *nlh, struct hostnl_event *event)
{
    int type = nlh->nlmsg_type;

    memset(event, 0, sizeof *event);
    event->gone = type == RTM_DELLINK || type == RTM_DELADDR
                  || type == RTM_DELROUTE || type == RTM_DELNEIGH
                  || type == RTM_DELRULE;
    switch (type) {
    case RTM_NEWLINK:
    case RTM_DELLINK:
        event->kind = HOSTNL_LINK;
        return decode_link(nlh, &event->link);
    case RTM_NEWADDR:
    case RTM_DELADDR:
        event->kind = HOSTNL_ADDR;
        return decode_addr(nlh, &event->addr);
    case RTM_NEWROUTE:
    case RTM_DELROUTE:
        if (!decode_route(nlh, &event->route)) {
            return false;
        }
        event->kind = event->route.own_table ? HOSTNL_OWN_ROUTE : HOSTNL_ROUTE;
        return true;
    case RTM_NEWNEIGH:
    case RTM_DELNEIGH:
        event->kind = HOSTNL_NEIGH;
        return decode_neigh(nlh, &event->neigh);
    case RTM_NEWRULE:
    case RTM_DELRULE:
        event->kind = HOSTNL_RULE;
        return decode_rule(nlh, &event->rule);
    default: return false;
    }
}

/* Encoding.  A message has room for a page, far more than any of these
 * needs. */

static struct nl_msg *
new_msg(int type, int flags, const void *header, size_t len)
{
    struct nl_msg *msg = nlmsg_alloc_simple(type, NLM_F_REQUEST | flags);

    if (!msg) {
        out_of_memory();
    }
    ovs_assert(
        !nlmsg_append(msg, CONST_CAST(void *, header), len, NLMSG_ALIGNTO));
    return msg;
}

static void
put_ip(struct nl_msg *msg, int attr, const struct ip *ip)
{
    if (ip_family(ip) == IP_V4) {
        ovs_be32 v4 = ip_v4(ip);

        ovs_assert(!nla_put(msg, attr, sizeof v4, &v4));
    } else {
        ovs_assert(!nla_put(msg, attr, sizeof ip->in6, &ip->in6));
    }
}

static void
put_u32(struct nl_msg *msg, int attr, uint32_t value)
{
    ovs_assert(!nla_put_u32(msg, attr, value));
}

struct nl_msg *
hostnl_encode_dump(enum hostnl_kind kind, int family, int ifindex)
{
    switch (kind) {
    case HOSTNL_ADDR: {
        const struct ifaddrmsg ifa = { .ifa_family = family,
                                       .ifa_index = ifindex };
        return new_msg(RTM_GETADDR, NLM_F_DUMP, &ifa, sizeof ifa);
    }
    case HOSTNL_ROUTE: {
        const struct rtmsg rtm = { .rtm_family = family,
                                   .rtm_table = RT_TABLE_MAIN };
        return new_msg(RTM_GETROUTE, NLM_F_DUMP, &rtm, sizeof rtm);
    }
    case HOSTNL_OWN_ROUTE: {
        const struct rtmsg rtm = { .rtm_family = family,
                                   .rtm_table = RT_TABLE_UNSPEC };
        struct nl_msg *msg =
            new_msg(RTM_GETROUTE, NLM_F_DUMP, &rtm, sizeof rtm);
        put_u32(msg, RTA_TABLE, HOST_RT_TABLE);
        return msg;
    }
    case HOSTNL_RULE: {
        const struct fib_rule_hdr frh = { .family = family };
        return new_msg(RTM_GETRULE, NLM_F_DUMP, &frh, sizeof frh);
    }
    case HOSTNL_NEIGH: {
        const struct ndmsg ndm = { .ndm_family = family };
        struct nl_msg *msg =
            new_msg(RTM_GETNEIGH, NLM_F_DUMP, &ndm, sizeof ndm);
        if (ifindex) {
            put_u32(msg, ATTR_NDA_IFINDEX, ifindex);
        }
        return msg;
    }
    case HOSTNL_LINK: break;
    }
    OVS_NOT_REACHED();
}

struct nl_msg *
hostnl_encode_link_get(const char *name, int ifindex)
{
    const struct ifinfomsg ifi = { .ifi_family = AF_UNSPEC,
                                   .ifi_index = ifindex };
    struct nl_msg *msg = new_msg(RTM_GETLINK, 0, &ifi, sizeof ifi);

    if (name) {
        ovs_assert(!nla_put_string(msg, IFLA_IFNAME, name));
    }
    return msg;
}

struct nl_msg *
hostnl_encode_link_up(int ifindex)
{
    const struct ifinfomsg ifi = {
        .ifi_family = AF_UNSPEC,
        .ifi_index = ifindex,
        .ifi_flags = IFF_UP,
        .ifi_change = IFF_UP,
    };
    return new_msg(RTM_NEWLINK, 0, &ifi, sizeof ifi);
}

struct nl_msg *
hostnl_encode_addr(int type, int flags, const struct hostnl_addr *addr)
{
    const struct ip *ip = &addr->cidr.ip;
    const struct ifaddrmsg ifa = {
        .ifa_family = af(ip),
        .ifa_prefixlen = addr->cidr.plen,
        .ifa_scope = RT_SCOPE_UNIVERSE,
        .ifa_index = addr->ifindex,
    };
    struct nl_msg *msg = new_msg(type, flags, &ifa, sizeof ifa);

    put_ip(msg, IFA_LOCAL, ip);
    put_ip(msg, IFA_ADDRESS, ip);
    if (type == RTM_NEWADDR) {
        if (ip_family(ip) == IP_V6) {
            put_u32(msg, IFA_FLAGS, IFA_F_NODAD);
        }
        ovs_assert(!nla_put_u8(msg, ATTR_IFA_PROTO, addr->protocol));
    }
    return msg;
}

struct nl_msg *
hostnl_encode_route(int type, int flags, const struct hostnl_route *r)
{
    bool has_via = !ip_is_none(&r->via);
    const struct rtmsg rtm = {
        .rtm_family = af(&r->dst.ip),
        .rtm_dst_len = r->dst.plen,
        .rtm_tos = r->tos,
        .rtm_table = r->own_table ? RT_TABLE_UNSPEC : RT_TABLE_MAIN,
        .rtm_protocol = r->protocol,
        .rtm_type = r->type,
        .rtm_scope = type == RTM_DELROUTE ? RT_SCOPE_NOWHERE
                     : has_via            ? RT_SCOPE_UNIVERSE
                                          : RT_SCOPE_LINK,
        .rtm_flags = r->onlink ? RTNH_F_ONLINK : 0,
    };
    struct nl_msg *msg = new_msg(type, flags, &rtm, sizeof rtm);

    if (r->dst.plen) {
        put_ip(msg, RTA_DST, &r->dst.ip);
    }
    if (r->own_table) {
        put_u32(msg, RTA_TABLE, HOST_RT_TABLE);
    }
    put_u32(msg, RTA_PRIORITY, r->metric);
    if (r->ifindex) {
        put_u32(msg, RTA_OIF, r->ifindex);
    }
    if (has_via) {
        put_ip(msg, RTA_GATEWAY, &r->via);
    }
    if (!ip_is_none(&r->src)) {
        put_ip(msg, RTA_PREFSRC, &r->src);
    }
    return msg;
}

struct nl_msg *
hostnl_encode_neigh(int type, int flags, const struct hostnl_neigh *n)
{
    const struct ndmsg ndm = {
        .ndm_family = af(&n->ip),
        .ndm_ifindex = n->ifindex,
        .ndm_state = NUD_PERMANENT,
        .ndm_type = RTN_UNICAST,
    };
    struct nl_msg *msg = new_msg(type, flags, &ndm, sizeof ndm);

    put_ip(msg, NDA_DST, &n->ip);
    if (type == RTM_NEWNEIGH) {
        ovs_assert(!nla_put(msg, NDA_LLADDR, sizeof n->mac, &n->mac));
        ovs_assert(!nla_put_u8(msg, ATTR_NDA_PROTOCOL, n->protocol));
    }
    return msg;
}

struct nl_msg *
hostnl_encode_rule(int type, int flags, const struct hostnl_rule *rule)
{
    const struct fib_rule_hdr frh = {
        .family = rule->family == IP_V4 ? AF_INET : AF_INET6,
        .table = RT_TABLE_UNSPEC,
        .action = FR_ACT_TO_TBL,
    };
    struct nl_msg *msg = new_msg(type, flags, &frh, sizeof frh);

    put_u32(msg, FRA_PRIORITY, rule->priority);
    put_u32(msg, FRA_FWMARK, rule->mark);
    put_u32(msg, FRA_FWMASK, rule->mask);
    put_u32(msg, FRA_TABLE, rule->table);
    ovs_assert(!nla_put_u8(msg, FRA_PROTOCOL, HOST_RTPROT));
    return msg;
}
