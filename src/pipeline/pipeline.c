/* SPDX-License-Identifier: Apache-2.0 */

/* The node, a pod and another node, stage by stage, and the addresses of the
 * pipeline's own. */

#include "ofproxyd/pipeline/pipeline.h"

#include <util.h>

#include "build.h"

struct ip
pipe_virtual_ip(enum ip_family family)
{
    if (family == IP_V4) {
        return ip_from_v4(htonl(0xa9fe00fd)); /* 169.254.0.253 */
    } else {
        struct ip ip = { .in6.s6_addr = { 0xfc, 0x01, [10] = 0xaa, 0xbb, 0xcc,
                                          0xdd, 0xee, 0xff } };
        return ip;
    }
}

struct ip
pipe_node_port_ip(enum ip_family family)
{
    if (family == IP_V4) {
        return ip_from_v4(htonl(0xa9fe00fc)); /* 169.254.0.252 */
    } else {
        struct ip ip = { .in6.s6_addr = { 0xfc, 0x01, [10] = 0xaa, 0xbb, 0xcc,
                                          0xdd, 0xee, 0xfe } };
        return ip;
    }
}

/* The difference is never short, or flows of clients that come often would be
 * put anew as often. */
#define MIN_IDLE_S 3600

uint16_t
pipe_affinity_hard_s(uint32_t affinity_s)
{
    return MIN(affinity_s - MIN_IDLE_S, PIPE_AFFINITY_MAX_S);
}

struct eth_addr
pipe_virtual_mac(void)
{
    struct eth_addr mac = { { { 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff } } };

    return mac;
}

struct eth_addr
pipe_mc_mac(void)
{
    struct eth_addr mac = { { { 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xf0 } } };

    return mac;
}

static void
render_misses(struct build *b)
{
    for (size_t i = 0; i < n_pipe_tables; i++) {
        const struct pipe_table_info *t = &pipe_tables[i];

        switch (t->miss) {
        case PIPE_MISS_NEXT:
            build_flow(b, t->id, PIPE_PRIO_MISS);
            build_goto(b, t->next);
            build_done(b);
            break;
        case PIPE_MISS_DROP:
            /* OpenFlow drops without a flow; with one it is seen and
             * counted. */
            build_flow(b, t->id, PIPE_PRIO_MISS);
            build_done(b);
            break;
        case PIPE_MISS_SPECIAL: break;
        }
    }
}

void
pipe_render_node(const struct pipe_node *node, struct fout *out)
{
    struct build b;

    build_init(&b, out, cookie_make(COOKIE_PIPELINE, 0));
    render_misses(&b);
    classify_render_node(node, &b);
    conntrack_render_node(node, &b);
    nodeport_render_node(node, &b);
    service_render_node(node, &b);
    affinity_render_node(&b);
    routing_render_node(node, &b);
    nested_render_node(node, &b);
    mc_render_node(node, &b);
    build_uninit(&b);
}

void
pipe_render_peer(const struct pipe_node *node, uint32_t object_id,
                 const struct pipe_peer *peers, size_t n, struct fout *out)
{
    struct build b;

    if (!node->gateway_ofport || node->mode == CFG_NETWORK_POLICY_ONLY) {
        return;
    }
    build_init(&b, out, cookie_make(COOKIE_NODE, object_id));
    for (size_t i = 0; i < n; i++) {
        if (peers[i].path == PIPE_TUNNEL && ip_is_none(&peers[i].tunnel_dst)) {
            continue;
        }
        classify_render_peer(&peers[i], &b);
        routing_render_peer(node, &peers[i], &b);
        mc_render_node_peer(node, &peers[i], &b);
    }
    build_uninit(&b);
}

void
pipe_render_mc_peer(const struct pipe_node *node, uint32_t object_id,
                    const struct pipe_mc_peer *peer, struct fout *out)
{
    struct build b;

    if (!node->gateway_ofport || node->mc_role == PIPE_MC_NONE
        || ip_is_none(&peer->tunnel_dst)) {
        return;
    }
    build_init(&b, out, cookie_make(COOKIE_MULTICLUSTER, object_id));
    mc_render_peer(node, peer, &b);
    build_uninit(&b);
}

void
pipe_render_pod(const struct pipe_node *node, const struct pipe_pod *pod,
                struct fout *out)
{
    struct build b;

    if (!node->gateway_ofport) {
        return;
    }
    build_init(&b, out, cookie_make(COOKIE_POD, pod->ofport));
    classify_render_pod(node, pod, &b);
    conntrack_render_pod(pod, &b);
    routing_render_pod(node, pod, &b);
    build_uninit(&b);
}
