/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_ROUTESKERNEL_H
#define TESTS_SUPPORT_ROUTESKERNEL_H 1

/* A kernel of a few lines for the tests of routes.c, in place of hostnl.c: it
 * can be told to fail, and its notifications can come late.  To be included
 * once in a program. */

#include <errno.h>
#include <linux/rtnetlink.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <openvswitch/util.h>
#include <util.h>

#include "../../src/host/routes.h"

#define GATEWAY 7 /* Link indexes. */
#define UPLINK  8
#define PLENTY  1000

/* The kernel: in place of hostnl.c. */

struct kernel {
    struct hostnl_route routes[64];
    size_t n;
    struct {
        struct hostnl_route route;
        bool gone;
    } events[256];
    size_t n_events;
    size_t n_requests;
    char order[64]; /* '+' and '-' for what was done. */
    int add_error;  /* For routes to 10.9.0.0/16. */
    int nexthop;    /* Link of next hops, of routes without one. */
    int del_error;  /* For all. */
};
static struct kernel kernel;

static inline void
notify(const struct hostnl_route *r, bool gone)
{
    assert_true(kernel.n_events < ARRAY_SIZE(kernel.events));
    kernel.events[kernel.n_events].route = *r;
    kernel.events[kernel.n_events++].gone = gone;
}

static inline struct hostnl_route *
kernel_find(const struct hostnl_route *r)
{
    for (size_t i = 0; i < kernel.n; i++) {
        struct hostnl_route *k = &kernel.routes[i];

        if (k->dst.plen == r->dst.plen && ip_equals(&k->dst.ip, &r->dst.ip)
            && k->metric == r->metric) {
            return k;
        }
    }
    return NULL;
}

static inline void
kernel_put(const struct hostnl_route *r)
{
    struct hostnl_route *k = kernel_find(r);

    if (!k) {
        assert_true(kernel.n < ARRAY_SIZE(kernel.routes));
        k = &kernel.routes[kernel.n++];
    }
    *k = *r;
    notify(r, false);
}

static inline void
kernel_remove(struct hostnl_route *k)
{
    notify(k, true);
    *k = kernel.routes[--kernel.n];
}

static inline void
did(char what)
{
    if (kernel.n_requests < sizeof kernel.order - 1) {
        kernel.order[kernel.n_requests] = what;
    }
    kernel.n_requests++;
}

int
hostnl_route_add(struct hostnl *nl OVS_UNUSED, const struct hostnl_route *r,
                 bool replace, struct err *err)
{
    struct cidr bad;

    did('+');
    assert_int_equal(cidr_parse("10.9.0.0/16", &bad), 0);
    err_set(err, "injected");
    if (kernel.add_error && cidr_contains(&bad, &r->dst.ip)) {
        return kernel.add_error;
    }
    if (!replace && kernel_find(r)) {
        return EEXIST;
    }
    if (!r->ifindex && !kernel.nexthop) {
        return ENETUNREACH;
    }

    struct hostnl_route on_link = *r;
    on_link.ifindex = r->ifindex ? r->ifindex : kernel.nexthop;
    kernel_put(&on_link);
    return 0;
}

int
hostnl_route_del(struct hostnl *nl OVS_UNUSED, const struct hostnl_route *r,
                 struct err *err)
{
    struct hostnl_route *k = kernel_find(r);

    did('-');
    err_set(err, "injected");
    if (kernel.del_error) {
        return kernel.del_error;
    }
    if (!k || k->protocol != r->protocol) {
        return ESRCH;
    }
    kernel_remove(k);
    return 0;
}

static inline struct ip
ip(const char *s)
{
    struct ip ret;

    assert_int_equal(ip_from_string(s, &ret), 0);
    return ret;
}

/* Of a route that is wanted: "10.1.0.0/16", "10.1.0.0/16 VIA" or, of the
 * underlay, "10.1.0.0/16 VIA u". */
static inline struct host_route
wanted(const char *s)
{
    char dst[64], via[64] = "169.254.0.253", underlay[2] = "";
    struct host_route r = { .via = ip("::") };

    assert_true(sscanf(s, "%63s %63s %1s", dst, via, underlay) >= 1);
    r.underlay = underlay[0] == 'u';
    assert_int_equal(cidr_parse(dst, &r.dst), 0);
    r.via = ip(via);
    return r;
}

static inline struct hostnl_route
existing(const char *s, uint8_t protocol, uint32_t metric)
{
    struct host_route w = wanted(s);

    return (struct hostnl_route){
        .ifindex = w.underlay ? UPLINK : GATEWAY,
        .dst = w.dst,
        .via = w.via,
        .metric = metric,
        .protocol = protocol,
        .type = RTN_UNICAST,
        .onlink = !w.underlay,
    };
}

/* Wants the routes in a list "A,B,C". */
static inline bool
want(struct routes *rs, const char *list, bool complete)
{
    struct host_route routes[32];
    size_t n = 0;
    char *copy = xstrdup(list), *save = NULL;

    for (char *s = strtok_r(copy, ",", &save); s;
         s = strtok_r(NULL, ",", &save)) {
        routes[n++] = wanted(s);
    }
    free(copy);
    return routes_set(rs, routes, n, complete);
}

static inline void
dump(struct routes *rs)
{
    routes_start_dump(rs, GATEWAY);
    for (size_t i = 0; i < kernel.n; i++) {
        routes_have(rs, &kernel.routes[i]);
    }
    routes_dumped(rs);
}

/* Hands out the notifications.  True if one calls for a repair. */
static inline bool
hear(struct routes *rs)
{
    bool drift = false;

    for (size_t i = 0; i < kernel.n_events; i++) {
        drift |=
            routes_changed(rs, &kernel.events[i].route, kernel.events[i].gone);
    }
    kernel.n_events = 0;
    return drift;
}

static inline void
run(struct routes *rs)
{
    size_t budget = PLENTY;

    memset(kernel.order, 0, sizeof kernel.order);
    kernel.n_requests = 0;
    routes_run(rs, NULL, &budget);
}

/* The kernel's routes with our protocol, in order, as one string. */
static inline int
compare_strings(const void *a, const void *b)
{
    return strcmp(*(char *const *) a, *(char *const *) b);
}

static inline const char *
ours(void)
{
    static char buf[4096];
    char *s[64];
    size_t n = 0;

    for (size_t i = 0; i < kernel.n; i++) {
        const struct hostnl_route *k = &kernel.routes[i];
        char dst[CIDR_STRLEN], via[IP_STRLEN];

        if (k->protocol == HOST_RTPROT) {
            s[n++] = xasprintf("%s %s %u%s", cidr_to_string(&k->dst, dst),
                               ip_to_string(&k->via, via), k->metric,
                               k->ifindex == GATEWAY  ? ""
                               : k->ifindex == UPLINK ? " up"
                                                      : " elsewhere");
        }
    }
    if (n) {
        qsort(s, n, sizeof *s, compare_strings);
    }
    buf[0] = '\0';
    for (size_t i = 0; i < n; i++) {
        snprintf(buf + strlen(buf), sizeof buf - strlen(buf), "%s%s",
                 i ? "," : "", s[i]);
        free(s[i]);
    }
    return buf;
}

/* A route that comes with an address. */
static inline void
connect_link(const char *dst, int ifindex)
{
    struct hostnl_route r = existing(dst, RTPROT_KERNEL, 0);

    r.ifindex = ifindex;
    r.via = ip("::");
    kernel_put(&r);
}

/* A fresh kernel with an uplink. */
static inline void
boot(void)
{
    memset(&kernel, 0, sizeof kernel);
    kernel.nexthop = UPLINK;
    connect_link("192.0.2.0/24", UPLINK);
    kernel.n_events = 0;
}

static struct routes rs;

static inline int
setup(void **state OVS_UNUSED)
{
    memset(&kernel, 0, sizeof kernel);
    kernel.nexthop = UPLINK;
    routes_init(&rs);
    dump(&rs);
    return 0;
}

static inline int
teardown(void **state OVS_UNUSED)
{
    routes_uninit(&rs);
    return 0;
}

static inline bool
want_one(const char *s)
{
    struct host_route r = wanted(s);

    return routes_want(&rs, &r);
}

static inline bool
unwant_one(const char *s)
{
    struct host_route r = wanted(s);

    return routes_unwant(&rs, &r.dst);
}

#endif /* tests/support/routeskernel.h */
