/* SPDX-License-Identifier: Apache-2.0 */
/* Takes away what the host layer leaves on a node. */

#include <errno.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>

#include <openvswitch/util.h>
#include <util.h>

#include "hostnl.h"
#include "ofproxyd/host/host.h"
#include "procsys.h"

/* Dumps that another program's changes made inconsistent are repeated so
 * often. */
#define MAX_DUMPS 10

/* What a dump found to be ours. */
struct found {
    int gateway; /* Its index. */
    struct hostnl_event *events;
    size_t n, allocated;
};

struct cleanup {
    struct hostnl *nl;
    const char *gateway;
    struct ds *done, *left;
    struct err *err;
    int error; /* The first one; 'err' is about it. */
};

static void
fail(struct cleanup *c, int error, const char *what, const struct err *err)
{
    if (!c->error) {
        c->error = error;
        err_set(c->err, "%s: %s", what, err ? err->msg : ovs_strerror(error));
    }
}

static void
gather(const struct hostnl_event *event, void *f_)
{
    struct found *f = f_;
    bool ours = false;

    switch (event->kind) {
    case HOSTNL_ROUTE:
    case HOSTNL_OWN_ROUTE: ours = event->route.protocol == HOST_RTPROT; break;
    case HOSTNL_RULE: ours = true; break;
    case HOSTNL_NEIGH:
        ours = event->neigh.protocol == HOST_RTPROT
               && event->neigh.ifindex == f->gateway;
        break;
    case HOSTNL_ADDR:
        /* Those without a mark are taken along, to be named. */
        ours =
            event->addr.ifindex == f->gateway && event->addr.global
            && (event->addr.protocol == HOST_RTPROT || !event->addr.protocol);
        break;
    case HOSTNL_LINK: break;
    }
    if (ours) {
        if (f->n >= f->allocated) {
            f->events =
                x2nrealloc(f->events, &f->allocated, sizeof *f->events);
        }
        f->events[f->n++] = *event;
    }
}

/* "route to 10.10.2.0/24" and the like. */
static char *
name_of(const struct cleanup *c, const struct hostnl_event *event)
{
    char buf[CIDR_STRLEN];

    switch (event->kind) {
    case HOSTNL_ROUTE:
        return xasprintf("route to %s",
                         cidr_to_string(&event->route.dst, buf));
    case HOSTNL_OWN_ROUTE:
        return xasprintf("route to %s of table %d",
                         cidr_to_string(&event->route.dst, buf),
                         HOST_RT_TABLE);
    case HOSTNL_RULE:
        return xasprintf("%s routing rule %u to table %u",
                         ip_family_name(event->rule.family),
                         event->rule.priority, event->rule.table);
    case HOSTNL_ADDR:
        return xasprintf("address %s of link %s",
                         cidr_to_string(&event->addr.cidr, buf), c->gateway);
    case HOSTNL_NEIGH:
        return xasprintf("neighbour %s of link %s",
                         ip_to_string(&event->neigh.ip, buf), c->gateway);
    case HOSTNL_LINK: break;
    }
    OVS_NOT_REACHED();
}

static int
del(struct hostnl *nl, const struct hostnl_event *event, struct err *err)
{
    switch (event->kind) {
    case HOSTNL_ROUTE:
    case HOSTNL_OWN_ROUTE: return hostnl_route_del(nl, &event->route, err);
    case HOSTNL_RULE: return hostnl_rule_del(nl, &event->rule, err);
    case HOSTNL_ADDR: return hostnl_addr_del(nl, &event->addr, err);
    case HOSTNL_NEIGH: return hostnl_neigh_del(nl, &event->neigh, err);
    case HOSTNL_LINK: break;
    }
    OVS_NOT_REACHED();
}

/* Somebody else may have been faster. */
static bool
is_gone(int error)
{
    return error == ESRCH || error == ENOENT || error == ENODEV
           || error == EADDRNOTAVAIL;
}

static void
remove_one(struct cleanup *c, const struct hostnl_event *event)
{
    char *name = name_of(c, event);

    if (event->kind == HOSTNL_ADDR && event->addr.protocol != HOST_RTPROT) {
        ds_put_format(c->left, "left %s: nothing tells whether it is ours\n",
                      name);
    } else {
        struct err err;
        int error = del(c->nl, event, &err);

        if (!error) {
            ds_put_format(c->done, "removed %s\n", name);
        } else if (!is_gone(error)) {
            fail(c, error, name, &err);
        }
    }
    free(name);
}

/* What is left of an answer that was not read would be in the way of the next
 * one. */
static void
open_anew(struct cleanup *c)
{
    struct hostnl *nl;

    if (!hostnl_open(HOSTNL_LINKS_AND_ADDRS, &nl)) {
        hostnl_close(c->nl);
        c->nl = nl;
    }
}

static void
remove_all(struct cleanup *c, enum hostnl_kind kind, int gateway)
{
    struct found f = { .gateway = gateway };
    int error = EINTR;

    for (int i = 0; i < MAX_DUMPS && error == EINTR; i++) {
        f.n = 0;
        error = hostnl_dump(c->nl, kind, gateway, gather, &f);
    }
    if (error && error != EINTR) {
        fail(c, error, "reading what there is", NULL);
        open_anew(c);
    }
    for (size_t i = 0; i < f.n; i++) {
        remove_one(c, &f.events[i]);
    }
    free(f.events);
}

int
host_cleanup(const char *gateway, struct ds *done, struct ds *left,
             struct err *err)
{
    struct cleanup c = {
        .gateway = gateway,
        .done = done,
        .left = left,
        .err = err,
    };
    struct hostnl_link link;
    int error = hostnl_open(HOSTNL_LINKS_AND_ADDRS, &c.nl);

    if (error) {
        err_set(err, "rtnetlink can't be opened: %s", ovs_strerror(error));
        return error;
    }

    /* Rules before their table; routes before the addresses, which are their
     * source. */
    remove_all(&c, HOSTNL_RULE, 0);
    remove_all(&c, HOSTNL_OWN_ROUTE, 0);
    remove_all(&c, HOSTNL_ROUTE, 0);
    error = hostnl_link_get(c.nl, gateway, &link);
    if (!error) {
        struct procsys ps = { .uplink_strict = false };

        procsys_set_localhost(&ps, gateway, false);
        remove_all(&c, HOSTNL_NEIGH, link.ifindex);
        remove_all(&c, HOSTNL_ADDR, link.ifindex);
    } else if (error != ENODEV) {
        fail(&c, error, gateway, NULL);
    }
    hostnl_close(c.nl);
    return c.error;
}
