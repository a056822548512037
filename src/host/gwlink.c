/* SPDX-License-Identifier: Apache-2.0 */
/* The gateway link, its addresses and its neighbours. */

#include "gwlink.h"

#include <errno.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <string.h>

#include <openvswitch/util.h>
#include <openvswitch/vlog.h>
#include <util.h>

VLOG_DEFINE_THIS_MODULE(gwlink);

static struct vlog_rate_limit rl = VLOG_RATE_LIMIT_INIT(60, 60);

/* What the kernel gives the routes that come with an IPv6 address. */
#define IPV6_CONNECTED_METRIC 256

static uint8_t
max_plen(const struct cidr *cidr)
{
    return ip_family(&cidr->ip) == IP_V4 ? 32 : 128;
}

void
gwlink_init(struct gwlink *gw)
{
    *gw = (struct gwlink){ .name = NULL };
}

void
gwlink_uninit(struct gwlink *gw)
{
    free(gw->name);
    free(gw->addrs);
    free(gw->neighs);
    free(gw->found);
    free(gw->named);
}

static struct gwlink_addr *
find_addr(const struct gwlink *gw, const struct ip *ip)
{
    for (size_t i = 0; i < gw->n_addrs; i++) {
        if (ip_equals(&gw->addrs[i].cidr.ip, ip)) {
            return &gw->addrs[i];
        }
    }
    return NULL;
}

static struct gwlink_neigh *
find_neigh(const struct gwlink *gw, const struct ip *ip)
{
    for (size_t i = 0; i < gw->n_neighs; i++) {
        if (ip_equals(&gw->neighs[i].neigh.ip, ip)) {
            return &gw->neighs[i];
        }
    }
    return NULL;
}

/* What is wanted. */

/* Takes over what 'w' says, without looking at what was before. */
static void
copy_want(struct gwlink *gw, const struct host_want *w)
{
    gw->name = xstrdup(w->gateway);
    gw->complete = w->complete;
    gw->addrs = xcalloc(MAX(w->n_addresses, 1), sizeof *gw->addrs);
    for (size_t i = 0; i < w->n_addresses; i++) {
        const struct cidr *cidr = &w->addresses[i];

        /* A node may be given the same range twice. */
        if (!find_addr(gw, &cidr->ip) && cidr->plen <= max_plen(cidr)) {
            gw->addrs[gw->n_addrs++].cidr = *cidr;
        }
    }
    gw->neighs = xcalloc(MAX(w->n_neighs, 1), sizeof *gw->neighs);
    for (size_t i = 0; i < w->n_neighs; i++) {
        if (!find_neigh(gw, &w->neighs[i].ip)) {
            gw->neighs[gw->n_neighs++].neigh = w->neighs[i];
        }
    }
}

static bool
wants_same(const struct gwlink *a, const struct gwlink *b)
{
    if (!nullable_string_is_equal(a->name, b->name)
        || a->complete != b->complete || a->n_addrs != b->n_addrs
        || a->n_neighs != b->n_neighs) {
        return false;
    }
    for (size_t i = 0; i < a->n_addrs; i++) {
        const struct cidr *x = &a->addrs[i].cidr, *y = &b->addrs[i].cidr;

        if (!ip_equals(&x->ip, &y->ip) || x->plen != y->plen) {
            return false;
        }
    }
    for (size_t i = 0; i < a->n_neighs; i++) {
        const struct host_neigh *x = &a->neighs[i].neigh;
        const struct host_neigh *y = &b->neighs[i].neigh;

        if (!ip_equals(&x->ip, &y->ip)
            || memcmp(&x->mac, &y->mac, sizeof x->mac)) {
            return false;
        }
    }
    return true;
}

bool
gwlink_set(struct gwlink *gw, const struct host_want *w)
{
    struct gwlink new;

    gwlink_init(&new);
    copy_want(&new, w);
    if (wants_same(gw, &new)) {
        gwlink_uninit(&new);
        return false;
    }
    if (nullable_string_is_equal(gw->name, new.name)) {
        new.ifindex = gw->ifindex;
        new.up = gw->up;
        new.error = gw->error;
        new.named = gw->named;
        new.n_named = gw->n_named;
        gw->named = NULL;
    }
    gwlink_uninit(gw);
    *gw = new;
    return true;
}

bool
gwlink_wants_ipv6(const struct gwlink *gw)
{
    for (size_t i = 0; i < gw->n_addrs; i++) {
        if (ip_family(&gw->addrs[i].cidr.ip) == IP_V6) {
            return true;
        }
    }
    return false;
}

/* The link. */

/* Keeps the state of the link in words of errno. */
static int
link_result(struct gwlink *gw, int error, const struct err *err)
{
    if (error && error != gw->error) {
        VLOG_WARN_RL(&rl, "link \"%s\": %s", gw->name, err->msg);
    }
    gw->error = error;
    return error;
}

int
gwlink_find(struct gwlink *gw, struct hostnl *nl)
{
    struct hostnl_link link;
    struct err err;
    int error = hostnl_link_get(nl, gw->name, &link);

    gw->ifindex = error ? 0 : link.ifindex;
    gw->up = !error && link.up;
    if (!error) {
        return 0;
    }
    err_set(&err, "%s", ovs_strerror(error));
    return link_result(gw, error, &err);
}

int
gwlink_get_up(struct gwlink *gw, struct hostnl *nl)
{
    struct err err;
    int error = gw->up ? 0 : hostnl_link_up(nl, gw->ifindex, &err);

    gw->up = !error;
    return link_result(gw, error, &err);
}

/* Addresses. */

static void
gather_addr(const struct hostnl_event *event, void *gw_)
{
    struct gwlink *gw = gw_;
    const struct hostnl_addr *addr = &event->addr;

    if (event->kind != HOSTNL_ADDR || addr->ifindex != gw->ifindex) {
        return;
    }

    struct gwlink_addr *want = find_addr(gw, &addr->cidr.ip);
    if (want && want->cidr.plen == addr->cidr.plen && !addr->unusable) {
        want->present = true;
        return;
    }
    if (gw->n_found >= gw->allocated_found) {
        gw->found =
            x2nrealloc(gw->found, &gw->allocated_found, sizeof *gw->found);
    }
    gw->found[gw->n_found++] = *addr;
}

static bool
is_named(const struct gwlink *gw, const struct cidr *cidr)
{
    for (size_t i = 0; i < gw->n_named; i++) {
        if (cidr_equals(&gw->named[i], cidr)) {
            return true;
        }
    }
    return false;
}

/* Names the addresses found that are not ours, once.  Not before it is known
 * which are: an agent of Antrea's has given the link the same as we will. */
static void
name_foreign(struct gwlink *gw)
{
    if (!gw->complete) {
        return;
    }

    struct cidr *foreign = xcalloc(MAX(gw->n_found, 1), sizeof *foreign);
    size_t n = 0;

    for (size_t i = 0; i < gw->n_found; i++) {
        const struct hostnl_addr *addr = &gw->found[i];
        char buf[CIDR_STRLEN];

        if (!addr->global || addr->protocol == HOST_RTPROT
            || find_addr(gw, &addr->cidr.ip)) {
            continue;
        }
        if (!is_named(gw, &addr->cidr)) {
            VLOG_WARN_RL(&rl,
                         "link \"%s\" has address %s, which is not ours and "
                         "is left as it is",
                         gw->name, cidr_to_string(&addr->cidr, buf));
        }
        foreign[n++] = addr->cidr;
    }
    free(gw->named);
    gw->named = foreign;
    gw->n_named = n;
}

static void
report(const struct gwlink *gw, const struct cidr *cidr, const char *what,
       const struct err *err)
{
    char buf[CIDR_STRLEN];

    VLOG_WARN_RL(&rl, "link \"%s\": address %s can't be %s: %s", gw->name,
                 cidr_to_string(cidr, buf), what, err->msg);
}

/* Removes wanted addresses that are wrong and ours that aren't wanted. */
static void
remove_wrong(struct gwlink *gw, struct hostnl *nl)
{
    for (size_t i = 0; i < gw->n_found; i++) {
        const struct hostnl_addr *addr = &gw->found[i];
        bool wrong = find_addr(gw, &addr->cidr.ip) != NULL;
        bool left_over = !wrong && addr->protocol == HOST_RTPROT;

        /* One that failed its check for duplicates serves nobody. */
        if ((wrong && addr->unusable)
            || (gw->complete && (wrong || left_over))) {
            struct err err;
            int error = hostnl_addr_del(nl, addr, &err);

            if (error && error != EADDRNOTAVAIL && error != ENODEV) {
                report(gw, &addr->cidr, "removed", &err);
            }
        }
    }
}

static void
add_addr(struct gwlink *gw, struct hostnl *nl, struct gwlink_addr *a)
{
    const struct hostnl_addr addr = {
        .ifindex = gw->ifindex,
        .cidr = a->cidr,
        .protocol = HOST_RTPROT,
    };
    struct err err;
    int error = hostnl_addr_add(nl, &addr, &err);

    if (error && error != a->error) {
        report(gw, &a->cidr, "added", &err);
    }
    a->error = error;
    a->present = !error;
}

int
gwlink_repair_addrs(struct gwlink *gw, struct hostnl *nl)
{
    for (size_t i = 0; i < gw->n_addrs; i++) {
        struct gwlink_addr *a = &gw->addrs[i];

        a->present = false;
        a->connected = a->cidr.plen == max_plen(&a->cidr);
    }
    gw->n_found = 0;

    int error = hostnl_dump(nl, HOSTNL_ADDR, gw->ifindex, gather_addr, gw);
    if (error) {
        return error;
    }
    name_foreign(gw);
    remove_wrong(gw, nl);
    for (size_t i = 0; i < gw->n_addrs; i++) {
        if (!gw->addrs[i].present) {
            add_addr(gw, nl, &gw->addrs[i]);
        }
    }
    return 0;
}

/* The routes that come with the addresses: the kernel makes them with the
 * address, but does not watch over them. */

static bool
is_connected_route(const struct gwlink *gw, const struct gwlink_addr *a,
                   const struct hostnl_route *r)
{
    struct cidr net = cidr_network(&a->cidr);

    return r->ifindex == gw->ifindex && ip_is_none(&r->via)
           && cidr_equals(&r->dst, &net);
}

void
gwlink_have_route(struct gwlink *gw, const struct hostnl_route *r)
{
    for (size_t i = 0; i < gw->n_addrs; i++) {
        if (is_connected_route(gw, &gw->addrs[i], r)) {
            gw->addrs[i].connected = true;
        }
    }
}

/* Makes the route as the kernel would have, so that it goes with the
 * address. */
static void
add_connected(struct gwlink *gw, struct hostnl *nl, struct gwlink_addr *a)
{
    bool v4 = ip_family(&a->cidr.ip) == IP_V4;
    const struct hostnl_route r = {
        .ifindex = gw->ifindex,
        .dst = cidr_network(&a->cidr),
        .src = v4 ? a->cidr.ip : (struct ip){ .in6 = IN6ADDR_ANY_INIT },
        .metric = v4 ? 0 : IPV6_CONNECTED_METRIC,
        .protocol = RTPROT_KERNEL,
        .type = RTN_UNICAST,
    };
    struct err err;
    int error = hostnl_route_add(nl, &r, false, &err);

    if (error == EEXIST) {
        error = 0;
    }
    if (error && error != a->error) {
        report(gw, &a->cidr, "given its route", &err);
    }
    a->error = error;
    a->connected = !error;
}

void
gwlink_repair_connected(struct gwlink *gw, struct hostnl *nl)
{
    for (size_t i = 0; i < gw->n_addrs; i++) {
        struct gwlink_addr *a = &gw->addrs[i];

        if (a->present && !a->connected) {
            add_connected(gw, nl, a);
        }
    }
}

/* Neighbours. */

static bool
is_right(const struct gwlink_neigh *want, const struct hostnl_neigh *have)
{
    return have->permanent
           && !memcmp(&want->neigh.mac, &have->mac, sizeof have->mac);
}

/* Where neighbours are gathered that are ours and not wanted. */
struct gather_neighs {
    struct gwlink *gw;
    struct hostnl_neigh *left_over;
    size_t n, allocated;
};

static void
gather_neigh(const struct hostnl_event *event, void *g_)
{
    struct gather_neighs *g = g_;
    const struct hostnl_neigh *have = &event->neigh;

    if (event->kind != HOSTNL_NEIGH || have->ifindex != g->gw->ifindex) {
        return;
    }

    struct gwlink_neigh *want = find_neigh(g->gw, &have->ip);
    if (want) {
        want->present |= is_right(want, have);
    } else if (have->protocol == HOST_RTPROT) {
        if (g->n >= g->allocated) {
            g->left_over =
                x2nrealloc(g->left_over, &g->allocated, sizeof *g->left_over);
        }
        g->left_over[g->n++] = *have;
    }
}

static void
set_neigh(struct gwlink *gw, struct hostnl *nl, struct gwlink_neigh *n)
{
    const struct hostnl_neigh neigh = {
        .ifindex = gw->ifindex,
        .ip = n->neigh.ip,
        .mac = n->neigh.mac,
        .permanent = true,
        .protocol = HOST_RTPROT,
    };
    struct err err;
    int error = hostnl_neigh_set(nl, &neigh, &err);

    if (error && error != n->error) {
        char buf[IP_STRLEN];

        VLOG_WARN_RL(&rl, "link \"%s\": neighbour %s can't be set: %s",
                     gw->name, ip_to_string(&n->neigh.ip, buf), err.msg);
    }
    n->error = error;
    n->present = !error;
}

int
gwlink_repair_neighs(struct gwlink *gw, struct hostnl *nl)
{
    struct gather_neighs g = { .gw = gw };

    for (size_t i = 0; i < gw->n_neighs; i++) {
        gw->neighs[i].present = false;
    }

    int error = hostnl_dump(nl, HOSTNL_NEIGH, gw->ifindex, gather_neigh, &g);
    for (size_t i = 0; !error && gw->complete && i < g.n; i++) {
        /* One that can't be removed is tried again with the next check. */
        ignore(hostnl_neigh_del(nl, &g.left_over[i], NULL));
    }
    free(g.left_over);
    if (error) {
        return error;
    }
    for (size_t i = 0; i < gw->n_neighs; i++) {
        if (!gw->neighs[i].present) {
            set_neigh(gw, nl, &gw->neighs[i]);
        }
    }
    return 0;
}

/* Notifications. */

static bool
link_changed(const struct gwlink *gw, const struct hostnl_link *link,
             bool gone)
{
    bool is_ours = !strcmp(link->name, gw->name);

    if (gw->ifindex && link->ifindex == gw->ifindex) {
        return gone || !is_ours || link->up != gw->up;
    }
    return is_ours && !gone;
}

static bool
addr_changed(const struct gwlink *gw, const struct hostnl_addr *addr,
             bool gone)
{
    const struct gwlink_addr *want = find_addr(gw, &addr->cidr.ip);

    if (want) {
        return gone || addr->unusable || !want->present
               || addr->cidr.plen != want->cidr.plen;
    }
    return !gone
           && (addr->protocol == HOST_RTPROT
               || (addr->global && !is_named(gw, &addr->cidr)));
}

static bool
neigh_changed(const struct gwlink *gw, const struct hostnl_neigh *neigh,
              bool gone)
{
    const struct gwlink_neigh *want = find_neigh(gw, &neigh->ip);

    return want && (gone || !is_right(want, neigh));
}

static bool
route_changed(const struct gwlink *gw, const struct hostnl_route *r, bool gone)
{
    for (size_t i = 0; gone && i < gw->n_addrs; i++) {
        if (is_connected_route(gw, &gw->addrs[i], r)) {
            return true;
        }
    }
    return false;
}

bool
gwlink_changed(struct gwlink *gw, const struct hostnl_event *event)
{
    switch (event->kind) {
    case HOSTNL_LINK: return link_changed(gw, &event->link, event->gone);
    case HOSTNL_ADDR:
        return event->addr.ifindex == gw->ifindex
               && addr_changed(gw, &event->addr, event->gone);
    case HOSTNL_ROUTE: return route_changed(gw, &event->route, event->gone);
    case HOSTNL_NEIGH:
        return event->neigh.ifindex == gw->ifindex
               && neigh_changed(gw, &event->neigh, event->gone);
    case HOSTNL_OWN_ROUTE:
    case HOSTNL_RULE: return false;
    }
    OVS_NOT_REACHED();
}

/* State. */

bool
gwlink_in_sync(const struct gwlink *gw)
{
    if (!gw->ifindex || !gw->up) {
        return false;
    }
    for (size_t i = 0; i < gw->n_addrs; i++) {
        if (!gw->addrs[i].present || !gw->addrs[i].connected) {
            return false;
        }
    }
    for (size_t i = 0; i < gw->n_neighs; i++) {
        if (!gw->neighs[i].present) {
            return false;
        }
    }
    return true;
}

static void
format_item(struct ds *ds, const char *what, const char *name, bool present,
            int error)
{
    ds_put_format(ds, "  %s %s: %s", what, name,
                  present ? "present" : "missing");
    if (error) {
        ds_put_format(ds, ", %s", ovs_strerror(error));
    }
    ds_put_char(ds, '\n');
}

void
gwlink_format(const struct gwlink *gw, struct ds *ds)
{
    ds_put_format(ds, "link %s: ", gw->name);
    if (gw->error) {
        ds_put_format(ds, "%s\n", ovs_strerror(gw->error));
    } else {
        ds_put_format(ds, "%s\n",
                      !gw->ifindex ? "not looked for yet"
                      : gw->up     ? "up"
                                   : "down");
    }
    for (size_t i = 0; i < gw->n_addrs; i++) {
        const struct gwlink_addr *a = &gw->addrs[i];
        char buf[CIDR_STRLEN];

        format_item(ds, "address", cidr_to_string(&a->cidr, buf), a->present,
                    a->error);
    }
    for (size_t i = 0; i < gw->n_neighs; i++) {
        const struct gwlink_neigh *n = &gw->neighs[i];
        char buf[IP_STRLEN];

        format_item(ds, "neighbour", ip_to_string(&n->neigh.ip, buf),
                    n->present, n->error);
    }
}
