/* SPDX-License-Identifier: Apache-2.0 */
/* This node's addresses: read as a whole whenever a notification may change
 * the answer, so that it is right whatever was missed before. */

#include "ofproxyd/host/nodeips.h"

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

VLOG_DEFINE_THIS_MODULE(nodeips);

static struct vlog_rate_limit rl = VLOG_RATE_LIMIT_INIT(5, 5);

/* As in host.c. */
#define PAUSE_MS     50
#define MAX_DELAY_MS 300

/* Before what failed is tried again. */
#define RETRY_MS 1000

/* What an address is good for. */
struct found_ip {
    struct ip ip;
    int ifindex;
};

/* A link that has addresses. */
struct known_link {
    int ifindex;
    char name[IFNAMSIZ]; /* "" if it is gone. */
};

struct nodeips {
    struct hostnl *nl; /* NULL: not open. */

    /* Wanted. */
    char **not_ifaces;
    size_t n_not_ifaces;
    struct cidr *cidrs;
    size_t n_cidrs;

    /* Found. */
    struct nodeips_state state; /* Its arrays are these: */
    struct ip *ips, *node_ports;
    struct known_link *links; /* By index. */
    size_t n_links, allocated_links;
    int error;     /* Of the last reading; named already. */
    bool too_many; /* Named already. */

    bool check; /* A reading is due at 'due_ms'. */
    long long int due_ms;
    long long int first_ms; /* Of the notifications not dealt with, or
                             * LLONG_MAX. */
};

struct nodeips *
nodeips_create(void)
{
    struct nodeips *n = xzalloc(sizeof *n);

    n->first_ms = LLONG_MAX;
    return n;
}

static void
free_want(struct nodeips *n)
{
    for (size_t i = 0; i < n->n_not_ifaces; i++) {
        free(n->not_ifaces[i]);
    }
    free(n->not_ifaces);
    free(n->cidrs);
}

void
nodeips_destroy(struct nodeips *n)
{
    if (n) {
        hostnl_close(n->nl);
        free_want(n);
        free(n->ips);
        free(n->node_ports);
        free(n->links);
        free(n);
    }
}

void
nodeips_set(struct nodeips *n, const struct nodeips_want *w)
{
    free_want(n);
    n->n_not_ifaces = w->n_not_ifaces;
    n->not_ifaces = xmalloc(MAX(w->n_not_ifaces, 1) * sizeof *n->not_ifaces);
    for (size_t i = 0; i < w->n_not_ifaces; i++) {
        n->not_ifaces[i] = xstrdup(w->not_ifaces[i]);
    }
    n->n_cidrs = w->n_cidrs;
    n->cidrs = xmemdup(w->cidrs, w->n_cidrs * sizeof *w->cidrs);
    n->check = true;
    n->due_ms = time_msec();
}

/* Reading. */

/* What a dump fills. */
struct reading {
    struct found_ip *found;
    size_t n, allocated;
    bool localhost; /* 127.0.0.1 is there. */
    bool too_many;
};

/* True for an address that packets over a network can have.  (Those that the
 * kernel still examines, or would not use for anything new, are; those that
 * somebody else has are not.) */
static bool
is_usable(const struct hostnl_addr *addr)
{
    return !addr->unusable && ip_is_unicast(&addr->cidr.ip)
           && !IN6_IS_ADDR_LINKLOCAL(&addr->cidr.ip.in6);
}

static bool
is_localhost(const struct ip *ip)
{
    return ip_family(ip) == IP_V4 && ip_v4(ip) == htonl(INADDR_LOOPBACK);
}

static void
take_addr(const struct hostnl_event *event, void *r_)
{
    struct reading *r = r_;
    const struct hostnl_addr *addr = &event->addr;

    if (event->kind != HOSTNL_ADDR) {
        return;
    }
    r->localhost |= is_localhost(&addr->cidr.ip);
    if (!is_usable(addr)) {
        return;
    }
    if (r->n >= NODEIPS_MAX) {
        r->too_many = true;
        return;
    }
    if (r->n >= r->allocated) {
        r->found = x2nrealloc(r->found, &r->allocated, sizeof *r->found);
    }
    r->found[r->n++] = (struct found_ip){ addr->cidr.ip, addr->ifindex };
}

static int
compare_found(const void *a_, const void *b_)
{
    const struct found_ip *a = a_, *b = b_;
    int cmp = ip_compare(&a->ip, &b->ip);

    return cmp ? cmp : a->ifindex - b->ifindex;
}

static const struct known_link *
find_link(const struct nodeips *n, int ifindex)
{
    for (size_t i = 0; i < n->n_links; i++) {
        if (n->links[i].ifindex == ifindex) {
            return &n->links[i];
        }
    }
    return NULL;
}

/* Reads the name of a link, unless it is known. */
static int
learn_link(struct nodeips *n, int ifindex)
{
    struct hostnl_link link;

    if (find_link(n, ifindex)) {
        return 0;
    }

    int error = hostnl_link_get_index(n->nl, ifindex, &link);
    if (error && error != ENODEV) {
        return error;
    }
    if (n->n_links >= n->allocated_links) {
        n->links = x2nrealloc(n->links, &n->allocated_links, sizeof *n->links);
    }
    struct known_link *known = &n->links[n->n_links++];
    known->ifindex = ifindex;
    ovs_strlcpy(known->name, error ? "" : link.name, sizeof known->name);
    return 0;
}

static bool
is_ours(const struct nodeips *n, const char *name)
{
    for (size_t i = 0; i < n->n_not_ifaces; i++) {
        if (!strcmp(n->not_ifaces[i], name)) {
            return true;
        }
    }
    return false;
}

/* True for a link whose addresses are no node addresses, as of kube-proxy's
 * mode ipvs (those of Services) and of Antrea's Egress. */
static bool
is_without_node_ports(const char *name)
{
    static const char *const names[] = { "kube-ipvs0", "antrea-egress0",
                                         "antrea-ingress0" };

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        if (!strcmp(names[i], name)) {
            return true;
        }
    }
    return false;
}

static bool
is_in_cidrs(const struct nodeips *n, const struct ip *ip)
{
    for (size_t i = 0; i < n->n_cidrs; i++) {
        if (cidr_contains(&n->cidrs[i], ip)) {
            return true;
        }
    }
    return !n->n_cidrs;
}

/* Appends 'ip', unless it is the last one of 'ips'. */
static void
append(struct ip *ips, size_t *n, const struct ip *ip)
{
    if (!*n || !ip_equals(&ips[*n - 1], ip)) {
        ips[(*n)++] = *ip;
    }
}

static bool
same_ips(const struct ip *a, size_t n_a, const struct ip *b, size_t n_b)
{
    return n_a == n_b && (!n_a || !memcmp(a, b, n_a * sizeof *a));
}

static void
format_ips(const struct ip *ips, size_t n, struct ds *ds)
{
    for (size_t i = 0; i < MIN(n, 20); i++) {
        char s[IP_STRLEN];

        ds_put_format(ds, " %s", ip_to_string(&ips[i], s));
    }
    if (n > 20) {
        ds_put_format(ds, " and %" PRIuSIZE " more", n - 20);
    }
}

static void
format_state(const struct nodeips_state *s, struct ds *ds)
{
    ds_put_format(ds, "%" PRIuSIZE ", with NodePorts:", s->n_ips);
    format_ips(s->node_ports, s->n_node_ports, ds);
    ds_put_cstr(ds, s->localhost      ? " 127.0.0.1"
                    : s->n_node_ports ? ""
                                      : " none");
}

/* Takes over what was found, if it is news. */
static void
set_state(struct nodeips *n, const struct nodeips_state *new, struct ip *ips,
          struct ip *node_ports)
{
    struct nodeips_state *s = &n->state;

    if (s->seqno
        && s->localhost
               == new->localhost &&same_ips(s->ips, s->n_ips, ips, new->n_ips)
        && same_ips(s->node_ports, s->n_node_ports, node_ports,
                    new->n_node_ports)) {
        free(ips);
        free(node_ports);
        return;
    }

    struct ds ds = DS_EMPTY_INITIALIZER;
    uint64_t seqno = s->seqno + 1;
    free(n->ips);
    free(n->node_ports);
    *s = *new;
    s->ips = n->ips = ips;
    s->node_ports = n->node_ports = node_ports;
    s->seqno = seqno;
    format_state(s, &ds);
    VLOG_INFO_RL(&rl, "this node's addresses: %s", ds_cstr(&ds));
    ds_destroy(&ds);
}

static void
sort_out(struct nodeips *n, const struct reading *r)
{
    struct ip *ips = xmalloc(MAX(r->n, 1) * sizeof *ips);
    struct ip *node_ports = xmalloc(MAX(r->n, 1) * sizeof *node_ports);
    struct ip localhost = ip_from_v4(htonl(INADDR_LOOPBACK));
    struct nodeips_state new = {
        .localhost = r->localhost && is_in_cidrs(n, &localhost),
    };

    for (size_t i = 0; i < r->n; i++) {
        const struct found_ip *f = &r->found[i];
        const struct known_link *link = find_link(n, f->ifindex);

        if (!link || is_ours(n, link->name)) {
            continue;
        }
        append(ips, &new.n_ips, &f->ip);
        if (!is_without_node_ports(link->name) && is_in_cidrs(n, &f->ip)) {
            append(node_ports, &new.n_node_ports, &f->ip);
        }
    }
    set_state(n, &new, ips, node_ports);
}

static int
read_into(struct nodeips *n, struct reading *r)
{
    int error = hostnl_dump(n->nl, HOSTNL_ADDR, 0, take_addr, r);

    n->n_links = 0;
    for (size_t i = 0; !error && i < r->n; i++) {
        error = learn_link(n, r->found[i].ifindex);
    }
    if (error) {
        return error;
    }
    if (r->too_many && !n->too_many) {
        VLOG_WARN("this node has more than %d addresses; the others are left "
                  "out",
                  NODEIPS_MAX);
    }
    n->too_many = r->too_many;
    if (r->n) {
        qsort(r->found, r->n, sizeof *r->found, compare_found);
    }
    sort_out(n, r);
    return 0;
}

static void
retry_later(struct nodeips *n, long long int delay_ms)
{
    n->check = true;
    n->due_ms = time_msec() + delay_ms;
}

/* Closes the sockets for an error, which is named once. */
static void
fail(struct nodeips *n, int error)
{
    if (error != n->error) {
        VLOG_WARN_RL(&rl, "this node's addresses: %s", ovs_strerror(error));
    }
    n->error = error;
    hostnl_close(n->nl);
    n->nl = NULL;
    retry_later(n, RETRY_MS);
}

static void
read_all(struct nodeips *n)
{
    struct reading r = { .n = 0 };

    n->check = false;
    n->first_ms = LLONG_MAX;

    int error = read_into(n, &r);
    if (error == EINTR) {
        retry_later(n, PAUSE_MS); /* It changed under the dump. */
    } else if (error) {
        fail(n, error);
    } else {
        n->error = 0;
    }
    free(r.found);
}

/* Running. */

/* True if a notification may change the answer. */
static bool
is_of_interest(const struct nodeips *n, const struct hostnl_event *event)
{
    if (event->kind == HOSTNL_LINK) {
        const struct known_link *link = find_link(n, event->link.ifindex);

        return link && (event->gone || strcmp(link->name, event->link.name));
    }
    return event->kind == HOSTNL_ADDR
           && (is_usable(&event->addr) || event->addr.unusable
               || is_localhost(&event->addr.cidr.ip));
}

static void
changed(struct nodeips *n)
{
    long long int now = time_msec();

    n->first_ms = MIN(n->first_ms, now);
    n->check = true;
    n->due_ms = MIN(now + PAUSE_MS, n->first_ms + MAX_DELAY_MS);
}

static void
take_event(const struct hostnl_event *event, void *n_)
{
    struct nodeips *n = n_;

    if (is_of_interest(n, event)) {
        changed(n);
    }
}

static bool
is_open(struct nodeips *n)
{
    if (!n->nl && time_msec() >= n->due_ms) {
        int error = hostnl_open(HOSTNL_LINKS_AND_ADDRS, &n->nl);

        if (error) {
            n->nl = NULL;
            fail(n, error);
        } else {
            n->check = true;
        }
    }
    return n->nl != NULL;
}

void
nodeips_run(struct nodeips *n)
{
    if (!is_open(n)) {
        return;
    }

    int error = hostnl_events(n->nl, take_event, n);
    if (error == ENOBUFS) {
        changed(n); /* Some were lost. */
    } else if (error) {
        fail(n, error);
        return;
    }
    if (n->check && time_msec() >= n->due_ms) {
        read_all(n);
    }
}

void
nodeips_wait(struct nodeips *n)
{
    if (n->nl) {
        poll_fd_wait(hostnl_fd(n->nl), POLLIN);
    }
    if (n->check || !n->nl) {
        poll_timer_wait_until(n->due_ms);
    }
}

const struct nodeips_state *
nodeips_state(const struct nodeips *n)
{
    return &n->state;
}

void
nodeips_format(const struct nodeips *n, struct ds *ds)
{
    ds_put_cstr(ds, "addresses: ");
    if (n->state.seqno) {
        format_state(&n->state, ds);
    } else {
        ds_put_cstr(ds, "not read");
    }
    if (n->error) {
        ds_put_format(ds, ", %s", ovs_strerror(n->error));
    }
    ds_put_char(ds, '\n');
}
