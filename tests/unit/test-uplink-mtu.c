/* SPDX-License-Identifier: Apache-2.0 */
/* The MTU of the pods: mode, tunnel type, family of the underlay, limits. */

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include <openvswitch/util.h>
#include <util.h>

#include "ofproxyd/config/config.h"
#include "ofproxyd/host/uplink.h"

struct mtu_case {
    enum cfg_encap_mode mode;
    enum cfg_tunnel_type tunnel;
    int default_mtu;
    uint32_t uplink;
    bool v6_underlay;
    uint16_t want;
};

#define N     CFG_NO_ENCAP
#define E     CFG_ENCAP
#define H     CFG_HYBRID
#define P     CFG_NETWORK_POLICY_ONLY
#define GEN   CFG_TUNNEL_GENEVE
#define VXLAN CFG_TUNNEL_VXLAN
#define GRE   CFG_TUNNEL_GRE
#define STT   CFG_TUNNEL_STT

static const struct mtu_case cases[] = {
    /* What tunnels take. */
    { E, GEN, 0, 1500, false, 1450 },
    { E, VXLAN, 0, 1500, false, 1450 },
    { E, GRE, 0, 1500, false, 1458 },
    { E, STT, 0, 1500, false, 1428 },
    { E, GEN, 0, 1500, true, 1430 },
    { E, VXLAN, 0, 1500, true, 1430 },
    { E, GRE, 0, 1500, true, 1438 },
    { E, STT, 0, 1500, true, 1408 },
    { E, GEN, 0, 9000, false, 8950 },

    /* Hybrid: some peers are behind tunnels. */
    { H, GEN, 0, 1500, false, 1450 },
    { H, GRE, 0, 1500, true, 1438 },

    /* No tunnels. */
    { N, GEN, 0, 1500, false, 1500 },
    { N, GRE, 0, 1500, true, 1500 },
    { N, GEN, 0, 9001, false, 9001 },
    { P, GEN, 0, 1500, false, 1500 },
    { P, VXLAN, 0, 8951, true, 8951 },

    /* K1: a loopback uplink, or a larger one. */
    { E, GEN, 0, 65536, false, 64950 },
    { H, GEN, 0, 65536, true, 64930 },
    { N, GEN, 0, 65536, false, 65000 },
    { P, GEN, 0, 65536, false, 65000 },
    { E, GEN, 0, 65000, false, 64950 },
    { E, GEN, 0, 64999, false, 64949 },
    { N, GEN, 0, UINT32_MAX, false, 65000 },

    /* What is configured counts, known uplink or not. */
    { E, GEN, 1400, 1500, false, 1400 },
    { H, GEN, 1400, 0, true, 1400 },
    { N, GEN, 9000, 1500, false, 9000 },
    { P, GEN, 65535, 65536, false, 65535 },
    { E, GEN, 576, 65536, false, 576 },

    /* Unknown. */
    { E, GEN, 0, 0, false, 0 },
    { N, GEN, 0, 0, true, 0 },

    /* Never less than IPv4 needs. */
    { E, GEN, 0, 626, false, 576 },
    { E, GEN, 0, 625, false, 576 },
    { E, GEN, 0, 627, false, 577 },
    { E, STT, 0, 68, true, 576 },
    { N, GEN, 0, 68, false, 576 },
};

/* A configuration that is freed by cfg_uninit(). */
static void
init_cfg(struct cfg *cfg, const struct mtu_case *c)
{
    cfg_init_defaults(cfg);
    cfg->traffic_encap_mode = c->mode;
    cfg->tunnel_type = c->tunnel;
    cfg->default_mtu = c->default_mtu;
}

static void
k1_mtu_follows_mode_tunnel_and_family(void **state OVS_UNUSED)
{
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        const struct mtu_case *c = &cases[i];
        struct cfg cfg;

        init_cfg(&cfg, c);

        uint16_t mtu = uplink_mtu(&cfg, c->uplink, c->v6_underlay);
        if (mtu != c->want) {
            fail_msg("case %" PRIuSIZE ": %u, wanted %u", i, mtu, c->want);
        }
        cfg_uninit(&cfg);
    }
}

/* A pod can't know which of its packets go to another cluster. */
static void
tunnels_to_other_clusters_take_room_in_any_mode(void **state OVS_UNUSED)
{
    for (int mode = 0; mode < 4; mode++) {
        const struct mtu_case c = { .mode = mode, .tunnel = GEN };
        struct cfg cfg;

        init_cfg(&cfg, &c);
        cfg.multicluster_enable_gateway = true;
        assert_int_equal(uplink_mtu(&cfg, 1500, false), 1450);
        cfg_uninit(&cfg);
    }
}

static void
uplinks_that_are_large_enough_carry_what_pods_send(void **state OVS_UNUSED)
{
    /* Steps that meet each combination; each takes a while under valgrind. */
    for (uint32_t uplink = 700; uplink <= 65536;
         uplink += uplink < 1600 ? 1 : 1237) {
        const struct mtu_case c = {
            .mode = uplink % 4,
            .tunnel = uplink / 4 % 4,
            .uplink = uplink,
            .v6_underlay = uplink / 16 % 2,
        };
        struct cfg cfg;

        init_cfg(&cfg, &c);
        assert_true(uplink_mtu(&cfg, uplink, c.v6_underlay) >= 576);
        assert_null(uplink_mtu_trouble(&cfg, uplink, c.v6_underlay, false));
        cfg_uninit(&cfg);
    }
}

static void
trouble_is_named(void **state OVS_UNUSED)
{
    static const struct {
        struct mtu_case c;
        bool v6_pods;
        const char *want; /* Part of it, or NULL. */
    } troubles[] = {
        { { E, GEN, 0, 1500, true }, true, NULL },
        { { E, GEN, 0, 1330, false }, true, NULL },
        { { E, GEN, 0, 1329, false }, true, "1280" },
        { { E, GEN, 0, 1329, false }, false, NULL },
        { { N, GEN, 0, 1279, false }, true, "1280" },
        { { N, GEN, 1279, 0, false }, true, "1280" },
        { { E, GEN, 0, 625, false }, false, "do not fit" },
        { { E, GEN, 1451, 1500, false }, false, "do not fit" },
        { { E, GEN, 1450, 1500, false }, false, NULL },
        { { E, GEN, 1450, 1500, true }, false, "do not fit" },
        { { N, GEN, 1500, 1500, false }, false, NULL },
        { { N, GEN, 1501, 1500, false }, false, "do not fit" },
        { { E, GEN, 9000, 0, false }, false, NULL },
        { { E, GEN, 0, 0, false }, true, NULL },
    };

    for (size_t i = 0; i < ARRAY_SIZE(troubles); i++) {
        const struct mtu_case *c = &troubles[i].c;
        const char *want = troubles[i].want;
        struct cfg cfg;

        init_cfg(&cfg, c);

        const char *s = uplink_mtu_trouble(&cfg, c->uplink, c->v6_underlay,
                                           troubles[i].v6_pods);
        if (!s != !want || (want && !strstr(s, want))) {
            fail_msg("case %" PRIuSIZE ": %s", i, s ? s : "none");
        }
        cfg_uninit(&cfg);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(k1_mtu_follows_mode_tunnel_and_family),
        cmocka_unit_test(tunnels_to_other_clusters_take_room_in_any_mode),
        cmocka_unit_test(uplinks_that_are_large_enough_carry_what_pods_send),
        cmocka_unit_test(trouble_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
