/* SPDX-License-Identifier: Apache-2.0 */
/* What size of packets the pods may send, from what the uplink carries. */

#include <openvswitch/util.h>
#include <util.h>

#include "ofproxyd/config/config.h"
#include "ofproxyd/host/uplink.h"

/* A loopback link has 65536, which no IPv4 packet can have, and no other link
 * of a bridge more than this. */
#define MAX_UPLINK_MTU    65000

#define MIN_MTU_IPV4      576
#define MIN_MTU_IPV6      1280
#define IPV6_EXTRA_HEADER 20

static unsigned int
tunnel_overhead(enum cfg_tunnel_type type)
{
    switch (type) {
    case CFG_TUNNEL_GENEVE:
    case CFG_TUNNEL_VXLAN: return 50;
    case CFG_TUNNEL_GRE: return 42;
    case CFG_TUNNEL_STT: return 72;
    }
    OVS_NOT_REACHED();
}

/* What tunnels take away. */
static unsigned int
deduction(const struct cfg *cfg, bool v6_underlay)
{
    return !cfg_has_tunnel(cfg) ? 0
                                : tunnel_overhead(cfg->tunnel_type)
                                      + (v6_underlay ? IPV6_EXTRA_HEADER : 0);
}

uint16_t
uplink_mtu(const struct cfg *cfg, uint32_t mtu, bool v6_underlay)
{
    unsigned int less = deduction(cfg, v6_underlay);

    if (cfg->default_mtu) {
        return cfg->default_mtu;
    }
    if (!mtu) {
        return 0;
    }
    mtu = MIN(mtu, MAX_UPLINK_MTU);
    return mtu >= MIN_MTU_IPV4 + less ? mtu - less : MIN_MTU_IPV4;
}

const char *
uplink_mtu_trouble(const struct cfg *cfg, uint32_t mtu, bool v6_underlay,
                   bool v6_pods)
{
    uint16_t ours = uplink_mtu(cfg, mtu, v6_underlay);

    if (!ours) {
        return NULL;
    }
    if (mtu && ours + deduction(cfg, v6_underlay) > mtu) {
        return "packets of that size do not fit the uplink";
    }
    if (v6_pods && ours < MIN_MTU_IPV6) {
        return "IPv6 needs 1280 at least";
    }
    return NULL;
}
