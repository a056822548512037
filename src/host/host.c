/* SPDX-License-Identifier: Apache-2.0 */
/* The host layer: decides when to look at the kernel's state and when to
 * repair it.
 *
 * A check reads everything and repairs what is few at once; routes, which can
 * be many, are repaired a bounded number a turn.  Between checks the routes
 * follow the kernel's notifications.
 *
 * A repair waits until the notifications pause.  Who flushes addresses or
 * routes deletes until nothing is left: to answer each deletion at once would
 * keep him busy for ever. */

#include "ofproxyd/host/host.h"

#include <errno.h>
#include <limits.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/random.h>

#include <openvswitch/poll-loop.h>
#include <openvswitch/util.h>
#include <openvswitch/vlog.h>
#include <timeval.h>
#include <util.h>

#include "gwlink.h"
#include "hostnl.h"
#include "markway.h"
#include "ofproxyd/base/backoff.h"
#include "procsys.h"
#include "routes.h"

VLOG_DEFINE_THIS_MODULE(host);

static struct vlog_rate_limit rl = VLOG_RATE_LIMIT_INIT(5, 5);

/* A check without any notification, for what the kernel does silently. */
#define SLOW_CHECK_MS 60000

/* Least time between two checks. */
#define CHECK_GAP_MS 100

/* Repairs wait for so long a pause in the notifications, but not for ever. */
#define PAUSE_MS     50
#define MAX_DELAY_MS 300

/* Route changes a turn: some milliseconds. */
#define ROUTES_PER_TURN 500

/* Waits before what failed is tried again. */
#define RETRY_MIN_MS 1000
#define RETRY_MAX_MS 30000

struct host {
    struct hostnl *nl; /* NULL: not open. */
    bool open_named;   /* A failure to open it has been logged. */

    bool wanted; /* There is something to keep. */
    bool forwarding;
    bool localhost;
    bool localhost_known; /* False: it stays as it is. */
    char *uplink;         /* Or NULL. */
    struct gwlink gw;
    struct markway markway;
    struct routes routes;
    struct procsys procsys;

    bool check;             /* One is due at 'due_ms'. */
    bool failed;            /* The last one did. */
    long long int due_ms;   /* No check or route change before. */
    long long int drift_ms; /* First notification not dealt with yet, or
                                 * LLONG_MAX. */
    long long int last_ms;  /* Of the last check. */
    long long int retry_ms; /* What failed is tried again, or
                                 * LLONG_MAX. */
    struct backoff backoff;
};

struct host *
host_create(void)
{
    struct host *h = xzalloc(sizeof *h);

    gwlink_init(&h->gw);
    routes_init(&h->routes);
    markway_init(&h->markway);
    h->drift_ms = LLONG_MAX;
    h->retry_ms = LLONG_MAX;
    h->last_ms = LLONG_MIN / 2;
    h->backoff = (struct backoff) BACKOFF_INIT(RETRY_MIN_MS, RETRY_MAX_MS);
    return h;
}

void
host_destroy(struct host *h)
{
    if (h) {
        hostnl_close(h->nl);
        gwlink_uninit(&h->gw);
        routes_uninit(&h->routes);
        markway_uninit(&h->markway);
        free(h->uplink);
        free(h);
    }
}

static void
check_soon(struct host *h)
{
    h->check = true;
    h->due_ms = MAX(time_msec(), h->last_ms + CHECK_GAP_MS);
}

void
host_set(struct host *h, const struct host_want *w)
{
    bool was_wanted = h->wanted;

    h->wanted = w->gateway_ready && w->gateway;
    if (!h->wanted) {
        return;
    }

    bool marked = markway_set(&h->markway, w);
    bool check = gwlink_set(&h->gw, w) || marked || !was_wanted
                 || w->forwarding != h->forwarding
                 || !nullable_string_is_equal(h->uplink, w->uplink);
    h->forwarding = w->forwarding;
    free(h->uplink);
    h->uplink = nullable_xstrdup(w->uplink);
    if (h->routes.complete != w->complete) {
        h->routes.complete = w->complete;
        h->due_ms = time_msec();
    }
    if (check) {
        /* At once: what is wanted changes rarely, and pods wait for it. */
        h->check = true;
        h->due_ms = time_msec();
    }
}

/* Routes that the kernel has to be given, or not to have any more. */
static void
routes_due(struct host *h, bool changed)
{
    if (changed) {
        h->due_ms = time_msec();
    }
}

void
host_set_routes(struct host *h, const struct host_route *routes, size_t n)
{
    routes_due(h, routes_set(&h->routes, routes, n, h->routes.complete));
}

void
host_want_route(struct host *h, const struct host_route *route)
{
    routes_due(h, routes_want(&h->routes, route));
}

void
host_unwant_route(struct host *h, const struct cidr *dst)
{
    routes_due(h, routes_unwant(&h->routes, dst));
}

void
host_add_pod_link(struct host *h, const char *link)
{
    procsys_tune_pod_link(&h->procsys, link);
}

void
host_set_localhost(struct host *h, bool localhost)
{
    if (!h->localhost_known || h->localhost != localhost) {
        h->localhost_known = true;
        h->localhost = localhost;
        h->check = true;
        h->due_ms = time_msec();
    }
}

/* Notifications. */

/* Something has to be repaired: puts it off until a pause. */
static void
drifted(struct host *h)
{
    long long int now = time_msec();

    if (h->drift_ms == LLONG_MAX) {
        h->drift_ms = now;
    }
    h->due_ms = MIN(now + PAUSE_MS, h->drift_ms + MAX_DELAY_MS);
}

static void
take_event(const struct hostnl_event *event, void *h_)
{
    struct host *h = h_;

    if (gwlink_changed(&h->gw, event) || markway_changed(&h->markway, event)) {
        h->check = true;
        drifted(h);
    }
    if ((event->kind == HOSTNL_LINK
         && routes_link_changed(&h->routes, event->link.ifindex))
        || (event->kind == HOSTNL_ADDR
            && routes_link_changed(&h->routes, event->addr.ifindex))) {
        h->check = true;
        drifted(h);
    }
    if (event->kind == HOSTNL_ROUTE
        && routes_changed(&h->routes, &event->route, event->gone)) {
        h->check |= h->routes.unsure;
        drifted(h);
    }
}

static void
close_nl(struct host *h, int error)
{
    VLOG_WARN_RL(&rl, "rtnetlink: %s; opening it anew", ovs_strerror(error));
    hostnl_close(h->nl);
    h->nl = NULL;
}

static void
read_events(struct host *h)
{
    int error = hostnl_events(h->nl, take_event, h);

    if (error == ENOBUFS) {
        h->check = true; /* Some were lost. */
        drifted(h);
    } else if (error) {
        close_nl(h, error);
    }
}

/* Checks. */

/* What a dump of the routes fills. */
struct route_dump {
    struct host *h;
    int ra_ifindex; /* Of a default route from a router advertisement. */
};

static void
take_route(const struct hostnl_event *event, void *d_)
{
    struct route_dump *d = d_;
    const struct hostnl_route *r = &event->route;

    if (event->kind != HOSTNL_ROUTE) {
        return;
    }
    if (!r->dst.plen && ip_family(&r->dst.ip) == IP_V6
        && r->protocol == RTPROT_RA) {
        d->ra_ifindex = r->ifindex;
    }
    gwlink_have_route(&d->h->gw, r);
    routes_have(&d->h->routes, r);
}

static void
set_forwarding(struct host *h, int ra_ifindex)
{
    char name[IFNAMSIZ];

    procsys_forward_ipv4(&h->procsys, h->gw.name);
    if (h->uplink) {
        procsys_check_uplink(&h->procsys, h->uplink);
    }
    if (gwlink_wants_ipv6(&h->gw)) {
        procsys_forward_ipv6(&h->procsys, if_indextoname(ra_ifindex, name));
    }
}

/* Addresses come before routes: routes use them as their source, and the
 * kernel removes routes silently with an address. */
static int
check_all(struct host *h)
{
    struct route_dump d = { .h = h };
    int error = gwlink_find(&h->gw, h->nl);

    if (!error) {
        procsys_tune_link(&h->procsys, h->gw.name, gwlink_wants_ipv6(&h->gw));
        if (h->localhost_known) {
            procsys_set_localhost(&h->procsys, h->gw.name, h->localhost);
        }
        error = gwlink_get_up(&h->gw, h->nl);
    }
    if (error) {
        routes_start_dump(&h->routes, 0);
        routes_dumped(&h->routes);
        return error;
    }
    error = gwlink_repair_addrs(&h->gw, h->nl);
    if (!error) {
        routes_start_dump(&h->routes, h->gw.ifindex);
        error = hostnl_dump(h->nl, HOSTNL_ROUTE, 0, take_route, &d);
        routes_dumped(&h->routes);
    }
    if (!error) {
        gwlink_repair_connected(&h->gw, h->nl);
        error = gwlink_repair_neighs(&h->gw, h->nl);
    }
    if (!error) {
        error = markway_repair(&h->markway, h->nl, h->gw.ifindex);
    }
    if (!error && h->forwarding) {
        set_forwarding(h, d.ra_ifindex);
    }
    return error;
}

static void
retry_later(struct host *h)
{
    uint32_t random = 0;

    if (h->retry_ms == LLONG_MAX) {
        ignore(getrandom(&random, sizeof random, GRND_NONBLOCK));
        h->retry_ms = time_msec() + backoff_next(&h->backoff, random);
    }
}

static void
run_check(struct host *h)
{
    h->check = false;
    h->last_ms = time_msec();

    int error = check_all(h);
    h->failed = error != 0;
    if (error == EINTR) {
        check_soon(h); /* It changed under the dump. */
    } else if (error == EPROTO || error == EMSGSIZE) {
        close_nl(h, error);
        retry_later(h);
    }
}

/* Running. */

static bool
is_open(struct host *h)
{
    if (!h->nl) {
        int error = hostnl_open(HOSTNL_ALL, &h->nl);

        if (error) {
            if (!h->open_named) {
                VLOG_WARN("rtnetlink can't be opened: %s",
                          ovs_strerror(error));
            }
            h->open_named = true;
            h->nl = NULL;
            h->retry_ms = LLONG_MAX;
            retry_later(h);
            return false;
        }
        h->open_named = false;
        check_soon(h);
    }
    return true;
}

/* Changes routes, as far as a turn goes. */
static void
run_routes(struct host *h)
{
    size_t budget = ROUTES_PER_TURN;

    routes_run(&h->routes, h->nl, &budget);
    if (h->routes.unsure) {
        check_soon(h);
    }
}

void
host_run(struct host *h)
{
    if (!h->wanted || (!h->nl && time_msec() < h->retry_ms && h->open_named)
        || !is_open(h)) {
        return;
    }
    read_events(h);
    if (!h->nl) {
        return;
    }

    long long int now = time_msec();
    if (now >= h->retry_ms) {
        h->retry_ms = LLONG_MAX;
        h->check = true;
        h->due_ms = now;
    }
    if (now >= h->last_ms + SLOW_CHECK_MS) {
        h->check = true;
        h->due_ms = now;
    }
    if (now < h->due_ms) {
        return;
    }
    h->drift_ms = LLONG_MAX;
    if (h->check) {
        run_check(h);
    }
    if (h->nl && h->gw.ifindex && h->gw.up) {
        run_routes(h);
    }
    if (host_in_sync(h)) {
        backoff_reset(&h->backoff);
    } else if (h->failed || routes_have_failed(&h->routes)
               || !gwlink_in_sync(&h->gw) || !markway_in_sync(&h->markway)) {
        retry_later(h);
    }
}

void
host_wait(struct host *h)
{
    if (!h->wanted) {
        return;
    }
    if (h->retry_ms != LLONG_MAX) {
        poll_timer_wait_until(h->retry_ms);
    }
    if (!h->nl) {
        if (!h->open_named) {
            poll_immediate_wake();
        }
        return;
    }
    poll_fd_wait(hostnl_fd(h->nl), POLLIN);
    poll_timer_wait_until(h->last_ms + SLOW_CHECK_MS);
    if (h->check
        || (h->gw.ifindex && h->gw.up && routes_pending(&h->routes))) {
        poll_timer_wait_until(h->due_ms);
    }
}

bool
host_in_sync(const struct host *h)
{
    return h->wanted && h->nl && !h->check && !h->failed
           && gwlink_in_sync(&h->gw) && markway_in_sync(&h->markway)
           && !routes_pending(&h->routes) && !routes_have_failed(&h->routes);
}

bool
host_gateway_is_lost(const struct host *h)
{
    return h->wanted && h->nl && !h->check && h->failed && !h->gw.ifindex
           && h->gw.error == ENODEV;
}

void
host_format_state(const struct host *h, struct ds *ds)
{
    if (!h->wanted) {
        ds_put_cstr(ds, "nothing to do: no gateway port yet\n");
        return;
    }
    ds_put_format(ds, "%s\n", host_in_sync(h) ? "in sync" : "not in sync");
    gwlink_format(&h->gw, ds);
    routes_format(&h->routes, ds);
    markway_format(&h->markway, ds);
}
