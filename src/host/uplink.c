/* SPDX-License-Identifier: Apache-2.0 */
/* The uplink: found anew whenever a notification may change the answer.
 *
 * A search reads the node's addresses, so it is right whatever was missed
 * before.  It waits until the notifications pause, so that an address that
 * moves from one link to another is seen where it ends. */

#include "ofproxyd/host/uplink.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include <openvswitch/poll-loop.h>
#include <openvswitch/util.h>
#include <openvswitch/vlog.h>
#include <timeval.h>
#include <util.h>

#include "hostnl.h"
#include "ofproxyd/host/host.h"

VLOG_DEFINE_THIS_MODULE(uplink);

static struct vlog_rate_limit rl = VLOG_RATE_LIMIT_INIT(5, 5);

/* As in host.c. */
#define PAUSE_MS     50
#define MAX_DELAY_MS 300

/* Before what failed is tried again. */
#define RETRY_MS 1000

/* Links that can have an address that is looked for.  A node has a few; who
 * puts it on more has to name the link. */
#define MAX_CANDIDATES 64

struct uplink {
    struct hostnl *nl; /* NULL: not open. */

    /* Wanted. */
    char *iface; /* Or NULL. */
    char *not_iface;
    struct cidr *cidrs;
    size_t n_cidrs;
    struct ip *node_ips;
    size_t n_node_ips;

    /* Found. */
    struct uplink_state state;
    int ifindex;   /* Of 'state', or 0 if that is a former one's. */
    bool several;  /* More than one link would do. */
    int error;     /* Of the last search; named already. */
    bool too_many; /* There are more candidates than looked at; named. */
    bool held[N_IP_FAMILIES]; /* The address has gone; named already. */

    bool check; /* A search is due at 'due_ms'. */
    long long int due_ms;
    long long int first_ms; /* Of the notifications not dealt with, or
                             * LLONG_MAX. */
};

struct uplink *
uplink_create(void)
{
    struct uplink *u = xzalloc(sizeof *u);

    u->first_ms = LLONG_MAX;
    return u;
}

static void
free_want(struct uplink *u)
{
    free(u->iface);
    free(u->not_iface);
    free(u->cidrs);
    free(u->node_ips);
}

void
uplink_destroy(struct uplink *u)
{
    if (u) {
        hostnl_close(u->nl);
        free_want(u);
        free(u);
    }
}

/* What is wanted. */

static bool
wants_anything(const struct uplink *u)
{
    return u->iface || u->n_cidrs || u->n_node_ips;
}

/* A name that is configured leaves no choice to them. */
static size_t
n_cidrs_of(const struct uplink_want *w)
{
    return w->iface && w->iface[0] ? 0 : w->n_cidrs;
}

static bool
same_cidrs(const struct uplink *u, const struct uplink_want *w)
{
    if (u->n_cidrs != n_cidrs_of(w)) {
        return false;
    }
    for (size_t i = 0; i < u->n_cidrs; i++) {
        if (u->cidrs[i].plen != w->cidrs[i].plen
            || !ip_equals(&u->cidrs[i].ip, &w->cidrs[i].ip)) {
            return false;
        }
    }
    return true;
}

static bool
same_ips(const struct uplink *u, const struct uplink_want *w)
{
    if (u->n_node_ips != w->n_node_ips) {
        return false;
    }
    for (size_t i = 0; i < w->n_node_ips; i++) {
        if (!ip_equals(&u->node_ips[i], &w->node_ips[i])) {
            return false;
        }
    }
    return true;
}

void
uplink_set(struct uplink *u, const struct uplink_want *w)
{
    const char *iface = w->iface && w->iface[0] ? w->iface : NULL;

    if (nullable_string_is_equal(u->iface, iface)
        && nullable_string_is_equal(u->not_iface, w->not_iface)
        && same_cidrs(u, w) && same_ips(u, w)) {
        return;
    }
    free_want(u);
    u->iface = nullable_xstrdup(iface);
    u->not_iface = nullable_xstrdup(w->not_iface);
    u->n_cidrs = n_cidrs_of(w);
    u->cidrs = xmemdup(w->cidrs, u->n_cidrs * sizeof *w->cidrs);
    u->n_node_ips = w->n_node_ips;
    u->node_ips = xmemdup(w->node_ips, w->n_node_ips * sizeof *w->node_ips);
    u->error = 0;
    u->check = true;
    u->due_ms = time_msec();
}

/* How well addresses serve: the smaller the better, SIZE_MAX not at all. */

static size_t
cidr_rank(const struct uplink *u, const struct ip *ip)
{
    for (size_t i = 0; i < u->n_cidrs; i++) {
        if (cidr_contains(&u->cidrs[i], ip)) {
            return i;
        }
    }
    return SIZE_MAX;
}

static size_t
node_ip_rank(const struct uplink *u, const struct ip *ip)
{
    for (size_t i = 0; i < u->n_node_ips; i++) {
        if (ip_equals(&u->node_ips[i], ip)) {
            return i;
        }
    }
    return SIZE_MAX;
}

/* How well an address tells which link is wanted. */
static size_t
link_rank(const struct uplink *u, const struct hostnl_addr *addr)
{
    return u->n_cidrs ? cidr_rank(u, &addr->cidr.ip)
                      : node_ip_rank(u, &addr->cidr.ip);
}

static bool
wants_family_by_cidr(const struct uplink *u, enum ip_family family)
{
    for (size_t i = 0; i < u->n_cidrs; i++) {
        if (ip_family(&u->cidrs[i].ip) == family) {
            return true;
        }
    }
    return false;
}

/* True for what can be a source of traffic to other nodes now. */
static bool
is_usable(const struct hostnl_addr *addr)
{
    return addr->global && !addr->unusable && !addr->tentative
           && addr->protocol != HOST_RTPROT && ip_is_unicast(&addr->cidr.ip);
}

/* Finding the link. */

struct candidate {
    struct hostnl_link link;
    size_t rank;
};

struct search {
    struct uplink *u;
    struct candidate candidates[MAX_CANDIDATES];
    size_t n;
    bool too_many;
};

static void
gather_candidate(const struct hostnl_event *event, void *s_)
{
    struct search *s = s_;
    const struct hostnl_addr *addr = &event->addr;

    if (event->kind != HOSTNL_ADDR || !is_usable(addr)) {
        return;
    }

    size_t rank = link_rank(s->u, addr);
    if (rank == SIZE_MAX) {
        return;
    }
    for (size_t i = 0; i < s->n; i++) {
        struct candidate *c = &s->candidates[i];

        if (c->link.ifindex == addr->ifindex) {
            c->rank = MIN(c->rank, rank);
            return;
        }
    }
    if (s->n >= MAX_CANDIDATES) {
        s->too_many = true;
        return;
    }
    s->candidates[s->n++] = (struct candidate){
        .link.ifindex = addr->ifindex,
        .rank = rank,
    };
}

static bool
is_better(const struct candidate *a, const struct candidate *b)
{
    if (a->rank != b->rank) {
        return a->rank < b->rank;
    } else if (a->link.up != b->link.up) {
        return a->link.up;
    } else if (a->link.loopback != b->link.loopback) {
        return b->link.loopback;
    }
    return a->link.ifindex < b->link.ifindex;
}

/* Finds the link by its addresses.  ENODEV if there is none. */
static int
find_by_address(struct uplink *u, struct hostnl_link *ret)
{
    struct search s = { .u = u };
    const struct candidate *best = NULL;
    int error = hostnl_dump(u->nl, HOSTNL_ADDR, 0, gather_candidate, &s);

    if (error) {
        return error;
    }
    u->several = false;
    for (size_t i = 0; i < s.n; i++) {
        struct candidate *c = &s.candidates[i];

        error = hostnl_link_get_index(u->nl, c->link.ifindex, &c->link);
        if (error == ENODEV
            || (!error && u->not_iface
                && !strcmp(c->link.name, u->not_iface))) {
            continue;
        } else if (error) {
            return error;
        }
        u->several |= best != NULL;
        if (!best || is_better(c, best)) {
            best = c;
        }
    }
    if (s.too_many && !u->too_many) {
        VLOG_WARN("more than %d links have an address that is looked for; set "
                  "transportInterface",
                  MAX_CANDIDATES);
    }
    u->too_many = s.too_many;
    if (!best) {
        return ENODEV;
    }
    *ret = best->link;
    return 0;
}

/* Finding the addresses on it. */

struct choice {
    const struct uplink *u;
    int ifindex;
    struct hostnl_addr best[N_IP_FAMILIES];
    bool found[N_IP_FAMILIES];
};

/* True if 'a' is to be taken rather than 'b', which the kernel named
 * before. */
static bool
is_better_addr(const struct uplink *u, const struct hostnl_addr *a,
               const struct hostnl_addr *b)
{
    size_t x = cidr_rank(u, &a->cidr.ip), y = cidr_rank(u, &b->cidr.ip);

    if (x == y) {
        x = node_ip_rank(u, &a->cidr.ip);
        y = node_ip_rank(u, &b->cidr.ip);
    }
    if (x != y) {
        return x < y;
    } else if (a->deprecated != b->deprecated) {
        return b->deprecated;
    } else if (a->secondary != b->secondary) {
        return b->secondary;
    }
    /* The oldest, which one that is added does not change: the kernel names
     * IPv4 addresses in their order and IPv6 ones against it. */
    return ip_family(&a->cidr.ip) == IP_V6;
}

static void
choose_addr(const struct hostnl_event *event, void *c_)
{
    struct choice *c = c_;
    const struct hostnl_addr *addr = &event->addr;

    if (event->kind != HOSTNL_ADDR || addr->ifindex != c->ifindex
        || !is_usable(addr)) {
        return;
    }

    enum ip_family family = ip_family(&addr->cidr.ip);
    if (wants_family_by_cidr(c->u, family)
        && cidr_rank(c->u, &addr->cidr.ip) == SIZE_MAX) {
        return;
    }
    if (!c->found[family] || is_better_addr(c->u, addr, &c->best[family])) {
        c->best[family] = *addr;
        c->found[family] = true;
    }
}

/* Fills in the address of 'family'.  While the same link has none any more,
 * as an IPv6 one that is checked for duplicates after a flap, the last one
 * stays. */
static void
take_addr(struct uplink *u, const struct choice *c, enum ip_family family,
          struct uplink_state *new)
{
    const struct cidr *last = &u->state.addrs[family];
    bool hold = !c->found[family] && !ip_is_none(&last->ip)
                && !strcmp(new->name, u->state.name);

    if (c->found[family]) {
        new->addrs[family] = c->best[family].cidr;
    } else if (hold) {
        new->addrs[family] = *last;
        if (!u->held[family]) {
            char buf[CIDR_STRLEN];

            VLOG_WARN_RL(&rl,
                         "link \"%s\" for traffic between nodes has lost %s; "
                         "it is taken to come back",
                         new->name, cidr_to_string(last, buf));
        }
    }
    u->held[family] = hold;
}

static bool
same_state(const struct uplink_state *a, const struct uplink_state *b)
{
    if (strcmp(a->name, b->name) || a->mtu != b->mtu) {
        return false;
    }
    for (int i = 0; i < N_IP_FAMILIES; i++) {
        if (!ip_equals(&a->addrs[i].ip, &b->addrs[i].ip)
            || a->addrs[i].plen != b->addrs[i].plen) {
            return false;
        }
    }
    return true;
}

static void
format_state(const struct uplink_state *s, struct ds *ds)
{
    ds_put_format(ds, "\"%s\", MTU %" PRIu32, s->name, s->mtu);
    for (int i = 0; i < N_IP_FAMILIES; i++) {
        char buf[CIDR_STRLEN];

        if (!ip_is_none(&s->addrs[i].ip)) {
            ds_put_format(ds, ", %s", cidr_to_string(&s->addrs[i], buf));
        }
    }
}

static void
set_state(struct uplink *u, const struct uplink_state *new)
{
    if (!same_state(&u->state, new)) {
        uint64_t seqno = u->state.seqno;
        struct ds ds = DS_EMPTY_INITIALIZER;

        u->state = *new;
        u->state.seqno = seqno + 1;
        format_state(new, &ds);
        VLOG_INFO_RL(&rl, "traffic between nodes goes by %s", ds_cstr(&ds));
        ds_destroy(&ds);
    }
}

static int
find(struct uplink *u)
{
    struct hostnl_link link;
    int error = u->iface ? hostnl_link_get(u->nl, u->iface, &link)
                         : find_by_address(u, &link);

    if (error) {
        return error;
    }

    struct choice c = { .u = u, .ifindex = link.ifindex };
    error = hostnl_dump(u->nl, HOSTNL_ADDR, link.ifindex, choose_addr, &c);
    if (error) {
        return error;
    }

    struct uplink_state new = { .mtu = link.mtu };
    ovs_strlcpy(new.name, link.name, sizeof new.name);
    for (enum ip_family f = IP_V4; f <= IP_V6; f++) {
        take_addr(u, &c, f, &new);
    }
    u->ifindex = link.ifindex;
    set_state(u, &new);
    return 0;
}

/* Running. */

static void
retry_later(struct uplink *u, long long int delay_ms)
{
    u->check = true;
    u->due_ms = time_msec() + delay_ms;
}

static void
name_failure(struct uplink *u, int error)
{
    if (!error || error == u->error) {
        return;
    }
    if (error != ENODEV) {
        VLOG_WARN_RL(&rl, "link for traffic between nodes: %s",
                     ovs_strerror(error));
    } else if (u->state.name[0]) {
        VLOG_WARN_RL(&rl,
                     "link \"%s\" for traffic between nodes is gone; its last "
                     "state counts until there is one",
                     u->state.name);
    } else {
        VLOG_WARN_RL(&rl, "no link for traffic between nodes: %s%s",
                     u->iface ? u->iface : "none has ",
                     u->iface     ? " does not exist"
                     : u->n_cidrs ? "an address of transportInterfaceCIDRs"
                                  : "one of the node's addresses");
    }
}

static void
search(struct uplink *u)
{
    u->check = false;
    u->first_ms = LLONG_MAX;

    int error = find(u);
    if (error == EINTR) {
        retry_later(u, PAUSE_MS); /* It changed under the dump. */
        return;
    }
    name_failure(u, error);
    u->error = error;
    if (error == ENODEV) {
        u->ifindex = 0;
    } else if (error) {
        hostnl_close(u->nl);
        u->nl = NULL;
        retry_later(u, RETRY_MS);
    }
}

/* True if a notification may change the answer. */
static bool
is_of_interest(const struct uplink *u, const struct hostnl_event *event)
{
    const struct hostnl_addr *addr = &event->addr;
    const struct hostnl_link *link = &event->link;

    if (event->kind == HOSTNL_LINK) {
        return link->ifindex == u->ifindex || u->several
               || (u->iface && !strcmp(link->name, u->iface));
    }
    return event->kind == HOSTNL_ADDR
           && (addr->ifindex == u->ifindex
               || (!u->iface && link_rank(u, addr) != SIZE_MAX));
}

static void
changed(struct uplink *u)
{
    long long int now = time_msec();

    u->first_ms = MIN(u->first_ms, now);
    u->check = true;
    u->due_ms = MIN(now + PAUSE_MS, u->first_ms + MAX_DELAY_MS);
}

static void
take_event(const struct hostnl_event *event, void *u_)
{
    struct uplink *u = u_;

    if (is_of_interest(u, event)) {
        changed(u);
    }
}

static bool
is_open(struct uplink *u)
{
    if (!u->nl && time_msec() >= u->due_ms) {
        int error = hostnl_open(HOSTNL_LINKS_AND_ADDRS, &u->nl);

        if (error) {
            name_failure(u, error);
            u->error = error;
            u->nl = NULL;
            retry_later(u, RETRY_MS);
        } else {
            u->check = true;
        }
    }
    return u->nl != NULL;
}

void
uplink_run(struct uplink *u)
{
    if (!wants_anything(u) || !is_open(u)) {
        return;
    }

    int error = hostnl_events(u->nl, take_event, u);
    if (error == ENOBUFS) {
        changed(u); /* Some were lost. */
    } else if (error) {
        name_failure(u, error);
        u->error = error;
        hostnl_close(u->nl);
        u->nl = NULL;
        retry_later(u, RETRY_MS);
        return;
    }
    if (u->check && time_msec() >= u->due_ms) {
        search(u);
    }
}

void
uplink_wait(struct uplink *u)
{
    if (!wants_anything(u)) {
        return;
    }
    if (u->nl) {
        poll_fd_wait(hostnl_fd(u->nl), POLLIN);
    }
    if (u->check || !u->nl) {
        poll_timer_wait_until(u->due_ms);
    }
}

const struct uplink_state *
uplink_state(const struct uplink *u)
{
    return &u->state;
}

void
uplink_format(const struct uplink *u, struct ds *ds)
{
    ds_put_cstr(ds, "uplink: ");
    if (!u->state.name[0]) {
        ds_put_cstr(ds, wants_anything(u) ? "not found" : "not looked for");
    } else {
        format_state(&u->state, ds);
        ds_put_cstr(ds, u->ifindex ? "" : " (gone; its last state)");
    }
    if (u->error && u->error != ENODEV) {
        ds_put_format(ds, ", %s", ovs_strerror(u->error));
    }
    ds_put_char(ds, '\n');
}
