/* SPDX-License-Identifier: Apache-2.0 */

/* Flows between clusters, and cluster IPs as endpoints. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <util.h>

#include "../support/golden.h"
#include "ofproxyd/pipeline/pipeline.h"

static struct ip
ip(const char *s)
{
    struct ip result;

    assert_int_equal(ip_from_string(s, &result), 0);
    return result;
}

static struct cidr
cidr(const char *s)
{
    struct cidr result;

    assert_int_equal(cidr_parse(s, &result), 0);
    return result;
}

static struct pipe_node
make_node(enum pipe_mc_role role)
{
    static struct cidr pod_cidr;
    struct pipe_node node = {
        .mode = CFG_NO_ENCAP,
        .gateway_ofport = 32769,
        .tunnel_ofport = 32768,
        .gateway_mac = { { { 0x0a, 0, 0, 0, 0, 1 } } },
        .meter_id = 3841,
        .nests = true,
        .mc_role = role,
        .pod_cidrs = &pod_cidr,
        .n_pod_cidrs = 1,
    };

    pod_cidr = cidr("10.10.1.0/24");
    if (role == PIPE_MC_GATEWAY) {
        node.mc_gateway_ip = ip("203.0.113.1");
    } else if (role == PIPE_MC_REGULAR) {
        node.mc_internal_ip = ip("192.0.2.11");
    }
    return node;
}

static void
check(const char *name, struct fout *out)
{
    struct ds ds = DS_EMPTY_INITIALIZER;

    golden_format(out, &ds);
    golden_check(name, ds_cstr(&ds));
    ds_destroy(&ds);
    fout_clear(out);
    free(out->items);
}

/* Those items of 'all' that are not in 'base', which are then freed. */
static struct fout
added(struct fout *base, struct fout *all)
{
    struct fout ret = FOUT_INIT;
    size_t i = 0;

    for (size_t j = 0; j < all->n; j++) {
        bool is_base = false;

        for (i = 0; i < base->n && !is_base; i++) {
            is_base = fitem_equals(base->items[i], all->items[j]);
        }
        if (!is_base) {
            fout_add(&ret, fitem_ref(all->items[j]));
        }
    }
    fout_clear(base);
    free(base->items);
    fout_clear(all);
    free(all->items);
    return ret;
}

static void
node_has_the_flows_of_its_role(void **state OVS_UNUSED)
{
    static const char *const names[] = {
        [PIPE_MC_REGULAR] = "mc-node-regular.txt",
        [PIPE_MC_GATEWAY] = "mc-node-gateway.txt",
    };

    for (int role = PIPE_MC_REGULAR; role <= PIPE_MC_GATEWAY; role++) {
        struct pipe_node node = make_node(role), plain = node;
        struct fout with = FOUT_INIT, without = FOUT_INIT, more;

        plain.mc_role = PIPE_MC_NONE;
        plain.nests = false;
        pipe_render_node(&node, &with);
        pipe_render_node(&plain, &without);
        more = added(&without, &with);
        check(names[role], &more);
    }
}

static void
other_cluster_is_reached_as_the_role_says(void **state OVS_UNUSED)
{
    static const char *const names[] = {
        [PIPE_MC_NONE] = "peer-none.txt",
        [PIPE_MC_REGULAR] = "mc-peer-regular.txt",
        [PIPE_MC_GATEWAY] = "mc-peer-gateway.txt",
    };
    struct cidr cidrs[] = { cidr("10.97.0.0/16"), cidr("10.20.0.0/16"),
                            cidr("2001:db8:97::/112") };
    struct ip gateways[] = { ip("203.0.113.21"), ip("203.0.113.22") };

    for (int role = PIPE_MC_NONE; role <= PIPE_MC_GATEWAY; role++) {
        struct pipe_node node = make_node(role);
        struct pipe_mc_peer peer = {
            .cidrs = cidrs,
            .n_cidrs = ARRAY_SIZE(cidrs),
            .gateways = gateways,
            .n_gateways = ARRAY_SIZE(gateways),
            .tunnel_dst = role == PIPE_MC_GATEWAY ? ip("203.0.113.21")
                                                  : ip("192.0.2.11"),
        };
        struct fout out = FOUT_INIT;

        pipe_render_mc_peer(&node, 0x123, &peer, &out);
        check(names[role], &out);

        out = (struct fout) FOUT_INIT;
        node.gateway_ofport = 0;
        pipe_render_mc_peer(&node, 0x123, &peer, &out);
        node.gateway_ofport = 32769;
        peer.tunnel_dst = ip("::");
        pipe_render_mc_peer(&node, 0x123, &peer, &out);
        assert_int_equal(out.n, 0);
    }
}

static void
gateway_gives_its_address_in_its_family(void **state OVS_UNUSED)
{
    struct cidr cidrs[] = { cidr("10.97.0.0/16"), cidr("2001:db8:97::/112") };
    struct ip gateway = ip("2001:db8:f::21");
    struct pipe_mc_peer peer = {
        .cidrs = cidrs,
        .n_cidrs = ARRAY_SIZE(cidrs),
        .gateways = &gateway,
        .n_gateways = 1,
        .tunnel_dst = gateway,
    };
    struct pipe_node node = make_node(PIPE_MC_GATEWAY);
    struct fout out = FOUT_INIT;

    node.mc_gateway_ip = ip("2001:db8:f::1");
    pipe_render_mc_peer(&node, 0x123, &peer, &out);
    check("mc-peer-gateway6.txt", &out);
}

/* What comes from other clusters takes the tunnel to other nodes' pods even
 * where the host routes what the nodes send each other. */
static void
gateway_sends_to_other_nodes_by_the_tunnel_in_any_mode(void **state OVS_UNUSED)
{
    struct pipe_peer peer = {
        .pod_cidr = cidr("198.51.100.0/25"),
        .gateway = ip("198.51.100.1"),
        .path = PIPE_ROUTED,
        .tunnel_dst = ip("192.0.2.12"),
    };
    struct pipe_node node = make_node(PIPE_MC_GATEWAY);
    struct fout out = FOUT_INIT;

    pipe_render_peer(&node, 7, &peer, 1, &out);
    check("mc-node-peer-routed.txt", &out);

    for (int i = 0; i < 3; i++) {
        node = make_node(i == 0 ? PIPE_MC_REGULAR : PIPE_MC_GATEWAY);
        peer.path = i == 1 ? PIPE_TUNNEL : PIPE_ROUTED;
        peer.tunnel_dst = i == 2 ? ip("::") : ip("192.0.2.12");
        out = (struct fout) FOUT_INIT;
        pipe_render_peer(&node, 7, &peer, 1, &out);
        assert_int_equal(out.n, i == 1 ? 2 : 1);
        fout_clear(&out);
        free(out.items);
    }
}

/* Cluster IPs as endpoints. */

static void
check_service(const char *name, enum proto proto, enum pipe_verdict verdict,
              bool nested, uint32_t affinity_s)
{
    struct pipe_frontend frontend = { .ip = ip("10.96.0.7"), .port = 80 };
    struct eps eps[] = {
        { .ip = ip("10.96.0.9"), .port = 80, .nested = nested },
        { .ip = ip("10.97.0.9"), .port = 80 },
    };
    struct pipe_service svc = {
        .object_id = 1,
        .proto = proto,
        .frontends = &frontend,
        .n_frontends = 1,
        .targets = { { verdict, eps, verdict == PIPE_SELECT ? 2 : 0 } },
        .affinity_s = affinity_s,
        .nestable = true,
    };
    struct fout out = FOUT_INIT;

    assert_int_equal(pipe_render_service(&svc, &out, NULL), 0);
    check(name, &out);
}

static void
cluster_ips_lead_to_their_own_services(void **state OVS_UNUSED)
{
    check_service("nested-endpoint.txt", PROTO_TCP, PIPE_SELECT, true, 0);
    check_service("nested-endpoint-affinity.txt", PROTO_TCP, PIPE_SELECT, true,
                  60);
    check_service("nested-target.txt", PROTO_TCP, PIPE_SELECT, false, 0);
    check_service("nested-target-affinity.txt", PROTO_TCP, PIPE_SELECT, false,
                  60);
    check_service("nested-target-reject.txt", PROTO_TCP, PIPE_REJECT, false,
                  0);
    check_service("nested-target-drop.txt", PROTO_TCP, PIPE_DROP, false, 0);
    check_service("nested-endpoint-sctp.txt", PROTO_SCTP, PIPE_SELECT, true,
                  0);
    check_service("nested-target-sctp.txt", PROTO_SCTP, PIPE_SELECT, false, 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(node_has_the_flows_of_its_role),
        cmocka_unit_test(other_cluster_is_reached_as_the_role_says),
        cmocka_unit_test(gateway_gives_its_address_in_its_family),
        cmocka_unit_test(
            gateway_sends_to_other_nodes_by_the_tunnel_in_any_mode),
        cmocka_unit_test(cluster_ips_lead_to_their_own_services),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
