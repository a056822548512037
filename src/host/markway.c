/* SPDX-License-Identifier: Apache-2.0 */
/* Rules and routes for marked packets: read, compared, repaired. */

#include "markway.h"

#include <errno.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>

#include <openvswitch/util.h>
#include <openvswitch/vlog.h>
#include <util.h>

VLOG_DEFINE_THIS_MODULE(markway);

static struct vlog_rate_limit rl = VLOG_RATE_LIMIT_INIT(5, 5);

/* After the kernel's own table, at 0, and before what people add. */
#define RULE_PRIORITY 201

void
markway_init(struct markway *mw)
{
    *mw = (struct markway){ .ifindex = 0 };
}

void
markway_uninit(struct markway *mw)
{
    free(mw->found);
}

bool
markway_set(struct markway *mw, const struct host_want *w)
{
    bool changed = mw->complete != w->complete;

    mw->complete = w->complete;
    for (enum ip_family f = 0; f < N_IP_FAMILIES; f++) {
        struct markway_family *mf = &mw->families[f];

        if (!ip_equals(&mf->via, &w->marked_via[f])) {
            mf->via = w->marked_via[f];
            changed = true;
        }
    }
    return changed;
}

static bool
is_wanted(const struct markway_family *mf)
{
    return !ip_is_none(&mf->via);
}

static struct hostnl_rule
make_rule(enum ip_family f)
{
    return (struct hostnl_rule){
        .family = f,
        .priority = RULE_PRIORITY,
        .mark = HOST_FWMARK,
        .mask = HOST_FWMARK,
        .table = HOST_RT_TABLE,
    };
}

static struct hostnl_route
make_route(const struct markway *mw, enum ip_family f)
{
    struct hostnl_route r = {
        .ifindex = mw->ifindex,
        .via = mw->families[f].via,
        .protocol = HOST_RTPROT,
        .type = RTN_UNICAST,
        .own_table = true,
        .onlink = true,
    };

    if (f == IP_V4) {
        r.dst.ip = ip_from_v4(0);
    }
    return r;
}

/* Checks. */

static void
add_found(struct markway *mw, const struct hostnl_event *event)
{
    if (mw->n_found >= mw->allocated_found) {
        mw->found =
            x2nrealloc(mw->found, &mw->allocated_found, sizeof *mw->found);
    }
    mw->found[mw->n_found++] = *event;
}

static void
take_rule(const struct hostnl_event *event, void *mw_)
{
    struct markway *mw = mw_;
    const struct hostnl_rule *r = &event->rule;

    if (event->kind != HOSTNL_RULE) {
        return;
    }

    struct markway_family *mf = &mw->families[r->family];
    struct hostnl_rule w = make_rule(r->family);
    if (is_wanted(mf) && !mf->has_rule && !r->other
        && r->priority == w.priority && r->mark == w.mark && r->mask == w.mask
        && r->table == w.table) {
        mf->has_rule = true;
    } else {
        add_found(mw, event);
    }
}

static void
take_route(const struct hostnl_event *event, void *mw_)
{
    struct markway *mw = mw_;
    const struct hostnl_route *r = &event->route;

    if (event->kind != HOSTNL_OWN_ROUTE || r->protocol != HOST_RTPROT) {
        return;
    }

    enum ip_family f = ip_family(&r->dst.ip);
    struct markway_family *mf = &mw->families[f];
    if (is_wanted(mf) && !mf->has_route && !r->dst.plen && !r->multipath
        && r->type == RTN_UNICAST && r->ifindex == mw->ifindex
        && ip_equals(&r->via, &mf->via)) {
        mf->has_route = true;
    } else {
        add_found(mw, event);
    }
}

static int
read_all(struct markway *mw, struct hostnl *nl)
{
    mw->n_found = 0;
    for (enum ip_family f = 0; f < N_IP_FAMILIES; f++) {
        mw->families[f].has_rule = mw->families[f].has_route = false;
    }

    int error = hostnl_dump(nl, HOSTNL_RULE, 0, take_rule, mw);
    if (!error) {
        error = hostnl_dump(nl, HOSTNL_OWN_ROUTE, 0, take_route, mw);
    }
    return error;
}

/* Repairs. */

/* The route first: a rule that leads to nothing is passed over. */
static int
add_missing(struct markway *mw, struct hostnl *nl, enum ip_family f,
            struct err *err)
{
    struct markway_family *mf = &mw->families[f];
    int error = 0;

    if (!mf->has_route) {
        struct hostnl_route r = make_route(mw, f);

        error = hostnl_route_add(nl, &r, true, err);
        mf->has_route = !error;
    }
    if (!error && !mf->has_rule) {
        struct hostnl_rule r = make_rule(f);

        error = hostnl_rule_add(nl, &r, err);
        error = error == EEXIST ? 0 : error;
        mf->has_rule = !error;
    }
    return error;
}

static void
repair_family(struct markway *mw, struct hostnl *nl, enum ip_family f)
{
    struct markway_family *mf = &mw->families[f];
    struct err err = { "" };
    int error = is_wanted(mf) ? add_missing(mw, nl, f, &err) : 0;

    if (error && error != mf->error) {
        VLOG_WARN_RL(&rl,
                     "%s: the way of external addresses can't be made: %s",
                     ip_family_name(f), err.msg);
    }
    mf->error = error;
}

/* What is gone already is what was wanted. */
static bool
is_gone(int error)
{
    return !error || error == ESRCH || error == ENOENT || error == ENODEV;
}

/* Rules before routes, for the same reason as above. */
static void
remove_found(struct markway *mw, struct hostnl *nl)
{
    mw->has_more = false;
    for (size_t i = 0; i < mw->n_found; i++) {
        const struct hostnl_event *e = &mw->found[i];
        struct err err;
        int error = e->kind == HOSTNL_RULE
                        ? hostnl_rule_del(nl, &e->rule, &err)
                        : hostnl_route_del(nl, &e->route, &err);

        if (!is_gone(error)) {
            VLOG_WARN_RL(&rl, "left-over %s can't be removed: %s",
                         e->kind == HOSTNL_RULE ? "routing rule" : "route",
                         err.msg);
            mw->has_more = true;
        }
    }
}

int
markway_repair(struct markway *mw, struct hostnl *nl, int ifindex)
{
    mw->ifindex = ifindex;

    int error = read_all(mw, nl);
    if (error) {
        return error;
    }
    for (enum ip_family f = 0; f < N_IP_FAMILIES; f++) {
        repair_family(mw, nl, f);
    }
    if (mw->complete) {
        remove_found(mw, nl);
    }
    return 0;
}

/* Notifications. */

static bool
rule_changed(const struct markway *mw, const struct hostnl_event *event)
{
    const struct hostnl_rule *r = &event->rule;
    const struct markway_family *mf = &mw->families[r->family];
    struct hostnl_rule w = make_rule(r->family);
    bool same = !r->other && r->priority == w.priority && r->mark == w.mark
                && r->mask == w.mask && r->table == w.table;

    return same && is_wanted(mf) ? mf->has_rule == event->gone : !event->gone;
}

static bool
route_changed(const struct markway *mw, const struct hostnl_event *event)
{
    const struct hostnl_route *r = &event->route;
    const struct markway_family *mf = &mw->families[ip_family(&r->dst.ip)];
    bool same = r->protocol == HOST_RTPROT && !r->dst.plen && !r->multipath
                && r->type == RTN_UNICAST && r->ifindex == mw->ifindex
                && ip_equals(&r->via, &mf->via);

    return same ? mf->has_route == event->gone
                : r->protocol == HOST_RTPROT && !event->gone;
}

bool
markway_changed(const struct markway *mw, const struct hostnl_event *event)
{
    switch (event->kind) {
    case HOSTNL_RULE: return rule_changed(mw, event);
    case HOSTNL_OWN_ROUTE: return route_changed(mw, event);
    case HOSTNL_LINK:
    case HOSTNL_ADDR:
    case HOSTNL_ROUTE:
    case HOSTNL_NEIGH: break;
    }
    return false;
}

/* State. */

bool
markway_in_sync(const struct markway *mw)
{
    for (enum ip_family f = 0; f < N_IP_FAMILIES; f++) {
        const struct markway_family *mf = &mw->families[f];

        if (is_wanted(mf) && !(mf->has_rule && mf->has_route)) {
            return false;
        }
    }
    return !mw->has_more;
}

void
markway_format(const struct markway *mw, struct ds *ds)
{
    for (enum ip_family f = 0; f < N_IP_FAMILIES; f++) {
        const struct markway_family *mf = &mw->families[f];

        if (is_wanted(mf)) {
            ds_put_format(ds, "%s external addresses: rule %s, route %s",
                          ip_family_name(f),
                          mf->has_rule ? "in place" : "missing",
                          mf->has_route ? "in place" : "missing");
            if (mf->error) {
                ds_put_format(ds, ", %s", ovs_strerror(mf->error));
            }
            ds_put_char(ds, '\n');
        }
    }
}
