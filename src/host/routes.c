/* SPDX-License-Identifier: Apache-2.0 */
/* Routes: the difference between a wanted set and the kernel's, kept as lists
 * of what is to be done, so that its cost follows the number of changes. */

#include "routes.h"

#include <errno.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>

#include <openvswitch/util.h>
#include <openvswitch/vlog.h>
#include <util.h>

#include "ofproxyd/base/map.h"

VLOG_DEFINE_THIS_MODULE(routes);

static struct vlog_rate_limit rl = VLOG_RATE_LIMIT_INIT(60, 60);

/* How many single routes routes_format() lists. */
#define MAX_LISTED 20

/* How a route goes on. */
struct hop {
    int ifindex;
    struct ip via;
    struct ip src;
    bool underlay; /* Of 'want' only. */
    bool onlink;   /* Of 'have' only: nobody asks whether 'via' is there. */
};

/* A destination that is wanted, or that the kernel has a route of ours to. */
struct route_node {
    struct hmap_node hmap_node;
    struct ovs_list list_node; /* Or empty. */
    struct cidr dst;
    struct hop want;         /* 'ifindex' is not used. */
    struct hop have;         /* 'ifindex' is 0 until the kernel has told. */
    unsigned int n_wishes;   /* How many want it. */
    unsigned int generation; /* Of the routes_set() that named it last. */
    int error;               /* Of the last try; named already. */
    bool present;            /* The kernel has 'have', ours. */
    bool misled;             /* On a link that the next hop is not on. */
    bool asked;              /* The kernel was, and has yet to tell the link
                              * that it chose, which counts. */
    bool shadowed;           /* The kernel has one that isn't ours. */
    bool named;              /* The latter has been logged. */
};

struct stray {
    struct ovs_list list_node;
    struct hostnl_route route;
};

static uint32_t
dst_hash(const struct cidr *dst)
{
    return ip_hash(&dst->ip, dst->plen);
}

static struct route_node *
find_node(const struct routes *rs, const struct cidr *dst)
{
    struct route_node *node;

    HMAP_FOR_EACH_WITH_HASH (node, hmap_node, dst_hash(dst), &rs->nodes) {
        if (node->dst.plen == dst->plen
            && ip_equals(&node->dst.ip, &dst->ip)) {
            return node;
        }
    }
    return NULL;
}

static struct route_node *
get_node(struct routes *rs, const struct cidr *dst)
{
    struct route_node *node = find_node(rs, dst);

    if (!node) {
        node = xzalloc(sizeof *node);
        node->dst = *dst;
        ovs_list_init(&node->list_node);
        hmap_insert(&rs->nodes, &node->hmap_node, dst_hash(dst));
    }
    return node;
}

static bool
node_in_sync(const struct routes *rs, const struct route_node *node)
{
    if (!node->n_wishes) {
        return !node->present;
    }
    bool right_link = node->want.underlay ? !node->misled && !node->have.onlink
                                          : node->have.ifindex == rs->ifindex;

    return node->present && right_link
           && ip_equals(&node->have.via, &node->want.via)
           && ip_equals(&node->have.src, &node->want.src);
}

static void
unlist(struct route_node *node)
{
    ovs_list_remove(&node->list_node);
    ovs_list_init(&node->list_node);
}

/* Puts 'node' on the list where it belongs, or destroys it if it serves
 * nothing any more.  True if there is something to do for it. */
static bool
settle(struct routes *rs, struct route_node *node)
{
    unlist(node);
    if (node_in_sync(rs, node)) {
        node->error = 0;
        if (!node->n_wishes) {
            rs->n_shadowed -= node->shadowed;
            hmap_remove(&rs->nodes, &node->hmap_node);
            free(node);
        }
        return false;
    }
    if (node->n_wishes) {
        ovs_list_push_back(&rs->to_add, &node->list_node);
        return true;
    }
    ovs_list_push_back(&rs->to_del, &node->list_node);
    return rs->complete;
}

static void
clear_strays(struct routes *rs)
{
    struct stray *stray;

    LIST_FOR_EACH_POP (stray, list_node, &rs->strays) {
        free(stray);
    }
}

void
routes_init(struct routes *rs)
{
    *rs = (struct routes){ .ifindex = 0 };
    hmap_init(&rs->nodes);
    ovs_list_init(&rs->to_add);
    ovs_list_init(&rs->to_del);
    ovs_list_init(&rs->failed);
    ovs_list_init(&rs->strays);
    onlink_init(&rs->onlink);
}

void
routes_uninit(struct routes *rs)
{
    struct route_node *node;

    HMAP_FOR_EACH_POP (node, hmap_node, &rs->nodes) {
        free(node);
    }
    hmap_destroy(&rs->nodes);
    clear_strays(rs);
    onlink_uninit(&rs->onlink);
}

/* What is wanted. */

/* A route to everywhere would take the node's default route away; it can only
 * come from an error. */
static bool
is_valid(const struct host_route *r)
{
    enum ip_family family = ip_family(&r->dst.ip);
    bool valid = r->dst.plen > 0 && r->dst.plen <= (family == IP_V4 ? 32 : 128)
                 && (!r->underlay || ip_is_unicast(&r->via))
                 && (ip_is_none(&r->via) || ip_family(&r->via) == family)
                 && (ip_is_none(&r->src) || ip_family(&r->src) == family);

    if (!valid) {
        char buf[CIDR_STRLEN];

        VLOG_WARN_RL(&rl, "route to %s is impossible; left out",
                     cidr_to_string(&r->dst, buf));
    }
    return valid;
}

static void
forget_wishes(struct routes *rs, struct route_node *node)
{
    rs->n_underlay -= node->n_wishes && node->want.underlay;
    node->n_wishes = 0;
}

/* Sets how many want the route of 'node', at least one, and that it goes on
 * as in 'r'.  Returns true if that is news. */
static bool
wish(struct routes *rs, struct route_node *node, const struct host_route *r,
     unsigned int n_wishes)
{
    bool was_wanted = node->n_wishes;

    if (was_wanted && ip_equals(&node->want.via, &r->via)
        && ip_equals(&node->want.src, &r->src)
        && node->want.underlay == r->underlay) {
        node->n_wishes = n_wishes;
        return false;
    }
    forget_wishes(rs, node);
    node->n_wishes = n_wishes;
    node->want = (struct hop){ 0, r->via, r->src, r->underlay, false };
    rs->n_underlay += r->underlay;
    settle(rs, node);
    return true;
}

/* Returns true if that is news. */
static bool
set_route(struct routes *rs, const struct host_route *r)
{
    struct cidr dst = cidr_network(&r->dst);
    struct route_node *node = get_node(rs, &dst);

    if (node->generation == rs->generation) {
        node->n_wishes++;
        return false; /* The first one counts. */
    }
    node->generation = rs->generation;
    rs->n_wanted++;
    return wish(rs, node, r, 1);
}

/* Looks at all nodes anew. */
static void
settle_all(struct routes *rs)
{
    struct route_node *node;

    HMAP_FOR_EACH_SAFE (node, hmap_node, &rs->nodes) {
        settle(rs, node);
    }
    map_trim(&rs->nodes);
}

bool
routes_set(struct routes *rs, const struct host_route *routes, size_t n,
           bool complete)
{
    size_t n_before = rs->n_wanted;
    bool changed = rs->complete != complete;

    rs->generation++;
    rs->n_wanted = 0;
    for (size_t i = 0; i < n; i++) {
        if (is_valid(&routes[i]) && set_route(rs, &routes[i])) {
            changed = true;
        }
    }

    /* Without news, as many as before are the same as before. */
    rs->complete = complete;
    if (changed || rs->n_wanted != n_before) {
        struct route_node *node;

        changed = true;
        HMAP_FOR_EACH (node, hmap_node, &rs->nodes) {
            if (node->generation != rs->generation) {
                forget_wishes(rs, node);
            }
        }
        settle_all(rs);
    }
    return changed;
}

bool
routes_want(struct routes *rs, const struct host_route *r)
{
    if (!is_valid(r)) {
        return false;
    }

    struct cidr dst = cidr_network(&r->dst);
    struct route_node *node = get_node(rs, &dst);

    rs->n_wanted += !node->n_wishes;
    return wish(rs, node, r, node->n_wishes + 1);
}

bool
routes_unwant(struct routes *rs, const struct cidr *dst_)
{
    struct cidr dst = cidr_network(dst_);
    struct route_node *node = find_node(rs, &dst);

    if (!node || !node->n_wishes) {
        return false;
    }
    if (node->n_wishes > 1) {
        node->n_wishes--;
        return false;
    }
    forget_wishes(rs, node);
    rs->n_wanted--;
    settle(rs, node);
    map_trim(&rs->nodes);
    return true;
}

/* What the kernel has. */

static bool
is_ours(const struct hostnl_route *r)
{
    return r->protocol == HOST_RTPROT;
}

/* True if 'r' is one that we could have made, as opposed to what only carries
 * our protocol number. */
static bool
is_regular(const struct hostnl_route *r)
{
    return r->metric == ROUTES_METRIC && !r->multipath && !r->tos
           && r->type == RTN_UNICAST && r->dst.plen > 0;
}

static void
name_shadow(struct route_node *node, const struct hostnl_route *r)
{
    char dst[CIDR_STRLEN], name[IFNAMSIZ] = "?";

    if (node->named) {
        return;
    }
    node->named = true;
    ignore(if_indextoname(r->ifindex, name));
    VLOG_WARN_RL(&rl,
                 "route to %s through \"%s\" (protocol %u, metric %u) is not "
                 "ours and is left as it is; it takes the place of ours",
                 cidr_to_string(&node->dst, dst), name, r->protocol,
                 r->metric);
}

static void
set_shadowed(struct routes *rs, struct route_node *node, bool shadowed)
{
    rs->n_shadowed += shadowed - node->shadowed;
    node->shadowed = shadowed;
}

void
routes_start_dump(struct routes *rs, int ifindex)
{
    struct route_node *node;

    rs->ifindex = ifindex;
    rs->unsure = false;
    rs->stray_failed = false;
    HMAP_FOR_EACH (node, hmap_node, &rs->nodes) {
        node->present = false;
        set_shadowed(rs, node, false);
    }
    clear_strays(rs);
    onlink_clear(&rs->onlink);
    rs->n_links = 0;
}

static bool
is_of_link(const struct routes *rs, int ifindex)
{
    for (size_t i = 0; i < MIN(rs->n_links, ROUTES_MAX_LINKS); i++) {
        if (rs->links[i] == ifindex) {
            return true;
        }
    }
    return rs->n_links > ROUTES_MAX_LINKS;
}

static void
set_present(struct routes *rs, struct route_node *node,
            const struct hostnl_route *r)
{
    node->present = true;
    node->misled = false;
    node->have = (struct hop){ r->ifindex, r->via, r->src, false, r->onlink };
    if (r->ifindex && r->ifindex != rs->ifindex
        && !is_of_link(rs, r->ifindex)) {
        if (rs->n_links < ROUTES_MAX_LINKS) {
            rs->links[rs->n_links] = r->ifindex;
        }
        rs->n_links++;
    }
}

void
routes_have(struct routes *rs, const struct hostnl_route *r)
{
    if (!is_ours(r)) {
        struct route_node *node = find_node(rs, &r->dst);

        if (rs->n_underlay) {
            onlink_add(&rs->onlink, r);
        }
        if (node && node->n_wishes && r->metric <= ROUTES_METRIC) {
            set_shadowed(rs, node, true);
            name_shadow(node, r);
        }
        return;
    }
    if (is_regular(r)) {
        struct route_node *node = get_node(rs, &r->dst);

        if (!node->present) {
            set_present(rs, node, r);
            return;
        }
    }

    struct stray *stray = xmalloc(sizeof *stray);
    stray->route = *r;
    ovs_list_push_back(&rs->strays, &stray->list_node);
}

void
routes_dumped(struct routes *rs)
{
    struct route_node *node;

    HMAP_FOR_EACH (node, hmap_node, &rs->nodes) {
        node->named = node->shadowed;
        node->misled = node->present && node->n_wishes && node->want.underlay
                       && !onlink_allows(&rs->onlink, &node->want.via,
                                         node->have.ifindex);
    }
    settle_all(rs);
}

bool
routes_changed(struct routes *rs, const struct hostnl_route *r, bool gone)
{
    struct route_node *node = find_node(rs, &r->dst);

    if (!is_ours(r)) {
        /* It may have come or gone beside ours or instead of it, or be what
         * next hops are reached by. */
        if ((!node || !node->n_wishes)
            && !(rs->n_underlay && onlink_is_connected(r))) {
            return false;
        }
        rs->unsure = true;
        return true;
    }
    if (!is_regular(r)) {
        rs->unsure |= !gone;
        return !gone;
    }
    if (!gone) {
        node = get_node(rs, &r->dst);
        set_present(rs, node, r);
        if (node->n_wishes && node->want.underlay && !node->asked
            && !onlink_allows(&rs->onlink, &r->via, r->ifindex)) {
            rs->unsure = true;
        }
        node->asked = false;
    } else if (!node || !node->present
               || (node->have.ifindex && node->have.ifindex != r->ifindex)
               || !ip_equals(&node->have.via, &r->via)) {
        return false;
    } else {
        node->present = false;
    }
    return settle(rs, node) || rs->unsure;
}

bool
routes_link_changed(const struct routes *rs, int ifindex)
{
    const struct route_node *node;

    if (!rs->n_underlay || ifindex == rs->ifindex) {
        return false;
    }
    if (is_of_link(rs, ifindex)) {
        return true;
    }
    LIST_FOR_EACH (node, list_node, &rs->failed) {
        if (node->want.underlay) {
            return true;
        }
    }
    return false;
}

/* Changing it. */

/* What a next hop is told that is on no link that is up. */
static bool
is_unreachable(int error)
{
    return error == ENETUNREACH || error == EHOSTUNREACH || error == ENETDOWN
           || error == ENODEV;
}

static void
name_failure(struct routes *rs, const struct route_node *node, int error,
             const struct err *err)
{
    char dst[CIDR_STRLEN], via[IP_STRLEN];

    cidr_to_string(&node->dst, dst);
    if (!node->n_wishes) {
        VLOG_WARN_RL(&rl, "route to %s can't be removed: %s", dst, err->msg);
    } else if (!node->want.underlay) {
        VLOG_WARN_RL(&rl, "route to %s can't be added: %s", dst, err->msg);
    } else if (!is_unreachable(error)) {
        VLOG_WARN_RL(&rl, "route to %s via %s can't be added: %s", dst,
                     ip_to_string(&node->want.via, via), err->msg);
    } else if (!rs->lost_named) {
        /* One link that is down fails all of them. */
        rs->lost_named = true;
        VLOG_WARN_RL(&rl,
                     "route to %s via %s can't be added, and perhaps others: "
                     "%s",
                     dst, ip_to_string(&node->want.via, via), err->msg);
    }
}

static void
fail(struct routes *rs, struct route_node *node, int error,
     const struct err *err)
{
    if (error != node->error) {
        name_failure(rs, node, error, err);

        /* Something may not be as we believe. */
        rs->unsure |= error == EEXIST || is_unreachable(error);
    }
    node->error = error;
    unlist(node);
    ovs_list_push_back(&rs->failed, &node->list_node);
}

static void
add_route(struct routes *rs, struct hostnl *nl, struct route_node *node)
{
    const struct hostnl_route r = {
        .ifindex = node->want.underlay ? 0 : rs->ifindex,
        .dst = node->dst,
        .via = node->want.via,
        .src = node->want.src,
        .metric = ROUTES_METRIC,
        .protocol = HOST_RTPROT,
        .type = RTN_UNICAST,
        .onlink = !node->want.underlay && !ip_is_none(&node->want.via),
    };
    struct err err;
    int error = hostnl_route_add(nl, &r, node->present, &err);

    if (error) {
        fail(rs, node, error, &err);
    } else {
        set_present(rs, node, &r);
        node->asked = node->want.underlay;
        settle(rs, node);
    }
}

/* What is gone already is what was wanted. */
static bool
is_gone(int error)
{
    return !error || error == ESRCH || error == ENOENT || error == ENODEV;
}

static void
del_route(struct routes *rs, struct hostnl *nl, struct route_node *node)
{
    const struct hostnl_route r = {
        .ifindex = node->have.ifindex,
        .dst = node->dst,
        .via = node->have.via,
        .metric = ROUTES_METRIC,
        .protocol = HOST_RTPROT,
        .type = RTN_UNICAST,
    };
    struct err err;
    int error = hostnl_route_del(nl, &r, &err);

    if (is_gone(error)) {
        node->present = false;
        settle(rs, node);
    } else {
        fail(rs, node, error, &err);
    }
}

static void
del_stray(struct routes *rs, struct hostnl *nl, struct stray *stray)
{
    struct err err;
    int error = hostnl_route_del(nl, &stray->route, &err);

    if (!is_gone(error)) {
        char dst[CIDR_STRLEN];

        VLOG_WARN_RL(&rl, "left-over route to %s can't be removed: %s",
                     cidr_to_string(&stray->route.dst, dst), err.msg);
        rs->stray_failed = true;
    }
    free(stray);
}

/* New routes go in before old ones go. */
void
routes_run(struct routes *rs, struct hostnl *nl, size_t *budget)
{
    while (*budget && !ovs_list_is_empty(&rs->to_add)) {
        struct route_node *node = CONTAINER_OF(ovs_list_front(&rs->to_add),
                                               struct route_node, list_node);

        add_route(rs, nl, node);
        --*budget;
    }
    while (*budget && rs->complete && !ovs_list_is_empty(&rs->strays)) {
        struct stray *stray = CONTAINER_OF(ovs_list_pop_front(&rs->strays),
                                           struct stray, list_node);

        del_stray(rs, nl, stray);
        --*budget;
    }
    while (*budget && rs->complete && !ovs_list_is_empty(&rs->to_del)) {
        struct route_node *node = CONTAINER_OF(ovs_list_front(&rs->to_del),
                                               struct route_node, list_node);

        del_route(rs, nl, node);
        --*budget;
    }
    if (ovs_list_is_empty(&rs->to_add) && ovs_list_is_empty(&rs->failed)) {
        rs->lost_named = false;
    }
}

bool
routes_pending(const struct routes *rs)
{
    return !ovs_list_is_empty(&rs->to_add)
           || (rs->complete
               && (!ovs_list_is_empty(&rs->to_del)
                   || !ovs_list_is_empty(&rs->strays)));
}

bool
routes_have_failed(const struct routes *rs)
{
    return !ovs_list_is_empty(&rs->failed) || rs->stray_failed;
}

static void
format_list(const struct ovs_list *list, const char *what, struct ds *ds)
{
    const struct route_node *node;
    size_t n = 0;

    LIST_FOR_EACH (node, list_node, list) {
        char dst[CIDR_STRLEN];

        if (n++ >= MAX_LISTED) {
            continue;
        }
        ds_put_format(ds, "  route to %s: %s", cidr_to_string(&node->dst, dst),
                      what);
        if (node->error) {
            ds_put_format(ds, ", %s", ovs_strerror(node->error));
        }
        ds_put_char(ds, '\n');
    }
    if (n > MAX_LISTED) {
        ds_put_format(ds, "  and %" PRIuSIZE " more\n", n - MAX_LISTED);
    }
}

void
routes_format(const struct routes *rs, struct ds *ds)
{
    ds_put_format(ds,
                  "routes: %" PRIuSIZE " wanted (%" PRIuSIZE
                  " by way of other nodes), %" PRIuSIZE " missing, "
                  "%" PRIuSIZE " failed, %" PRIuSIZE " to be removed, "
                  "%" PRIuSIZE " behind a foreign one\n",
                  rs->n_wanted, rs->n_underlay, ovs_list_size(&rs->to_add),
                  ovs_list_size(&rs->failed),
                  ovs_list_size(&rs->to_del) + ovs_list_size(&rs->strays),
                  rs->n_shadowed);
    format_list(&rs->failed, "failed", ds);
    format_list(&rs->to_add, "missing", ds);
}
