/* SPDX-License-Identifier: Apache-2.0 */
/* Longest prefix match over the networks that links have; there are few. */

#include "onlink.h"

#include <linux/rtnetlink.h>
#include <stdlib.h>

#include <openvswitch/util.h>
#include <util.h>

/* A node with more networks has one for each pod, as some CNI plugins make
 * them; none of these has another node on it. */
#define MAX_NETS 1024

void
onlink_init(struct onlink *o)
{
    *o = (struct onlink){ .nets = NULL };
}

void
onlink_uninit(struct onlink *o)
{
    free(o->nets);
}

void
onlink_clear(struct onlink *o)
{
    o->n = 0;
}

bool
onlink_is_connected(const struct hostnl_route *r)
{
    return r->type == RTN_UNICAST && !r->multipath && ip_is_none(&r->via)
           && r->dst.plen > 0;
}

void
onlink_add(struct onlink *o, const struct hostnl_route *r)
{
    if (!onlink_is_connected(r) || o->n >= MAX_NETS) {
        return;
    }
    if (o->n >= o->allocated) {
        o->nets = x2nrealloc(o->nets, &o->allocated, sizeof *o->nets);
    }
    o->nets[o->n++] = (struct onlink_net){ r->dst, r->metric, r->ifindex };
}

/* True if the kernel prefers 'a' to 'b'. */
static bool
is_better(const struct onlink_net *a, const struct onlink_net *b)
{
    return a->dst.plen != b->dst.plen ? a->dst.plen > b->dst.plen
                                      : a->metric < b->metric;
}

bool
onlink_allows(const struct onlink *o, const struct ip *ip, int ifindex)
{
    const struct onlink_net *best = NULL;

    for (size_t i = 0; i < o->n; i++) {
        const struct onlink_net *net = &o->nets[i];

        if (cidr_contains(&net->dst, ip)
            && (!best || is_better(net, best)
                || (!is_better(best, net) && net->ifindex == ifindex))) {
            best = net;
        }
    }
    return !best || best->ifindex == ifindex;
}
