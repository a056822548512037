/* SPDX-License-Identifier: Apache-2.0 */
/* Which address a Node is reached at, which networks can be reached there,
 * and how. */

#include "peers-way.h"

#include <string.h>

#include <util.h>

#include "ofproxyd/pipeline/pipeline.h"

/* A shorter prefix is an error: no network for private use is larger. */
#define MIN_PLEN 8

const char *
way_flaw_text(enum way_flaw flaw)
{
    switch (flaw) {
    case WAY_GOOD: return "";
#define WAY_FLAW(SYM, TEXT) \
    case WAY_##SYM: return TEXT;
        WAY_FLAWS
#undef WAY_FLAW
    }
    OVS_NOT_REACHED();
}

/* Transport addresses. */

static bool
is_link_local(const struct ip *ip)
{
    return ip_family(ip) == IP_V4
               ? ntohl(ip_v4(ip)) >> 16 == 0xa9fe /* 169.254.0.0/16 */
               : IN6_IS_ADDR_LINKLOCAL(&ip->in6);
}

/* Can this node reach another one at 'ip'?  A link-local address says nothing
 * without its link. */
static bool
is_reachable(const struct peers_env *env, const struct ip *ip)
{
    return ip_is_unicast(ip) && !is_link_local(ip)
           && !ip_equals(ip, &env->transport[ip_family(ip)].ip);
}

/* How good a Node address is as a transport address: less is better, SIZE_MAX
 * is not at all.  The first of transportInterfaceCIDRs counts most, as it
 * does when the other node chooses its link. */
static size_t
rank_address(const struct peers_env *env, const struct node_address *address)
{
    size_t n = env->n_transport_cidrs;

    if (!is_reachable(env, &address->ip)) {
        return SIZE_MAX;
    }
    for (size_t i = 0; i < n; i++) {
        if (cidr_contains(&env->transport_cidrs[i], &address->ip)) {
            return i;
        }
    }
    return n + address->external;
}

void
way_choose_transport(const struct peers_env *env,
                     const struct ip annotated[N_IP_FAMILIES],
                     const struct node_address *addresses, size_t n,
                     struct ip ret[N_IP_FAMILIES])
{
    size_t best[N_IP_FAMILIES] = { SIZE_MAX, SIZE_MAX };

    memset(ret, 0, N_IP_FAMILIES * sizeof *ret);
    for (size_t i = 0; i < n; i++) {
        enum ip_family f = ip_family(&addresses[i].ip);
        size_t rank = rank_address(env, &addresses[i]);

        if (rank < best[f]) {
            best[f] = rank;
            ret[f] = addresses[i].ip;
        }
    }
    for (size_t f = 0; f < N_IP_FAMILIES; f++) {
        if (is_reachable(env, &annotated[f])) {
            ret[f] = annotated[f];
        }
    }
}

/* Networks. */

static bool
contains_any(const struct cidr *net, const struct ip *ips)
{
    for (size_t f = 0; f < N_IP_FAMILIES; f++) {
        if (!ip_is_none(&ips[f]) && cidr_contains(net, &ips[f])) {
            return true;
        }
    }
    return false;
}

/* Routes lead by the virtual address: it can't be in one of them. */
static bool
can_have_hosts(const struct cidr *net, const struct ip *gateway)
{
    struct ip virtual_ip = pipe_virtual_ip(ip_family(gateway));

    return ip_is_unicast(gateway) && !is_link_local(gateway)
           && !cidr_contains(net, &virtual_ip);
}

enum way_flaw
way_find_flaw(const struct peers_env *env,
              const struct ip transport[N_IP_FAMILIES], const struct cidr *net)
{
    struct ip gateway = cidr_host(net, 1);

    if (!net->plen) {
        return WAY_ALL;
    }
    if (net->plen < MIN_PLEN) {
        return WAY_LARGE;
    }
    if (!cidr_contains(net, &gateway)) {
        return WAY_SMALL;
    }
    if (!can_have_hosts(net, &gateway)) {
        return WAY_NO_HOSTS;
    }
    if (!env) {
        return WAY_GOOD;
    }
    if (!ip_is_none(&env->server) && cidr_contains(net, &env->server)) {
        return WAY_SERVER;
    }

    /* A route to a network that holds the address at which it is reached
     * would lead tunnel packets into the tunnel. */
    struct ip own[N_IP_FAMILIES] = { env->transport[IP_V4].ip,
                                     env->transport[IP_V6].ip };
    return contains_any(net, own)         ? WAY_OWN_ADDRESS
           : contains_any(net, transport) ? WAY_ADDRESS
                                          : WAY_GOOD;
}

/* Sets the way that leads by the transport addresses of family 'f'. */
static bool
find_by_family(const struct peers_env *env, const struct ip *via,
               enum ip_family f, struct peer *peer)
{
    const struct cidr *own = &env->transport[f];
    bool routed = f == ip_family(&peer->cidr.ip) && env->mode != CFG_ENCAP;

    if (ip_is_none(&own->ip) || ip_is_none(via)) {
        return false;
    }
    peer->via = *via;
    if (routed && cidr_contains(own, via)) {
        peer->path = PEER_DIRECT;
        return true;
    }
    if (env->mode != CFG_NO_ENCAP) {
        peer->path = PEER_TUNNEL;
        return true;
    }
    peer->path = PEER_UNDERLAY;
    return routed;
}

bool
way_find(const struct peers_env *env, const struct ip transport[N_IP_FAMILIES],
         struct peer *peer)
{
    enum ip_family f = ip_family(&peer->cidr.ip);
    enum ip_family other = f == IP_V4 ? IP_V6 : IP_V4;

    return find_by_family(env, &transport[f], f, peer)
           || find_by_family(env, &transport[other], other, peer);
}

const char *
way_missing_text(const struct peers_env *env, const struct cidr *net)
{
    return env->mode == CFG_NO_ENCAP
                   && ip_is_none(&env->transport[ip_family(&net->ip)].ip)
               ? "this node has no transport address of that family"
               : "the node has no address that this node can use";
}
