/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOST_ONLINK_H
#define HOST_ONLINK_H 1

/* Which link the kernel takes for a next hop: that of the route to the next
 * hop's network, of those that lead to a link and not to a router. */

#include <stdbool.h>
#include <stddef.h>

#include "hostnl.h"

struct onlink_net {
    struct cidr dst;
    uint32_t metric;
    int ifindex;
};

struct onlink {
    struct onlink_net *nets;
    size_t n, allocated;
};

void onlink_init(struct onlink *);
void onlink_uninit(struct onlink *);
void onlink_clear(struct onlink *);

/* True if 'r' leads to the neighbours on a link. */
bool onlink_is_connected(const struct hostnl_route *r);

/* Is given routes of the main table; ignores those of no interest. */
void onlink_add(struct onlink *, const struct hostnl_route *);

/* True if 'ip' is on the link, or on several of which this is one, or nothing
 * is known about it. */
bool onlink_allows(const struct onlink *, const struct ip *ip, int ifindex);

#endif /* host/onlink.h */
