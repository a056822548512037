/* SPDX-License-Identifier: Apache-2.0 */

/* The pipeline's flows and groups, as golden text. */

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <byte-order.h>
#include <openvswitch/ofp-flow.h>
#include <sset.h>
#include <util.h>

#include "../support/golden.h"
#include "../support/pipefix.h"
#include "ofproxyd/base/hash.h"
#include "ofproxyd/flow/cookie.h"
#include "ofproxyd/pipeline/pipeline.h"
#include "ofproxyd/pipeline/tables.h"

static struct ip
ip(const char *s)
{
    struct ip result;

    assert_int_equal(ip_from_string(s, &result), 0);
    return result;
}

static const struct eth_addr gateway_mac = { { { 0x0a, 0, 0, 0, 0, 1 } } };

static struct cidr pod_cidrs[2];

static struct pipe_node
make_node(void)
{
    struct pipe_node node = {
        .mode = CFG_ENCAP,
        .gateway_ofport = 32769,
        .tunnel_ofport = 32768,
        .gateway_mac = gateway_mac,
        .gateway_ips = { ip("192.0.2.1"), ip("2001:db8:1::1") },
        .pod_cidrs = pod_cidrs,
        .n_pod_cidrs = 2,
        .meter_id = 3841,
    };

    assert_int_equal(cidr_parse("192.0.2.0/24", &pod_cidrs[0]), 0);
    assert_int_equal(cidr_parse("2001:db8:1::/64", &pod_cidrs[1]), 0);
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

static void
tables_have_increasing_ids_and_their_names(void **state)
{
    (void) state;
    for (size_t i = 0; i < n_pipe_tables; i++) {
        assert_string_equal(pipe_table_name(pipe_tables[i].id),
                            pipe_tables[i].name);
        assert_true(!i || pipe_tables[i - 1].id < pipe_tables[i].id);
        if (pipe_tables[i].miss == PIPE_MISS_NEXT) {
            assert_true(pipe_tables[i].next > pipe_tables[i].id);
        }
    }
    assert_string_equal(pipe_table_name(200), "?");
}

static void
fields_of_one_register_do_not_overlap(void **state)
{
    (void) state;
    for (size_t i = 0; i < n_pipe_fields; i++) {
        for (size_t j = 0; j < i; j++) {
            if (pipe_fields[i].reg == pipe_fields[j].reg) {
                assert_int_equal(pipe_field_mask(i) & pipe_field_mask(j), 0);
            }
        }
    }
}

static void
node_renders_as_expected_in_each_mode(void **state)
{
    static const struct {
        const char *name;
        enum cfg_encap_mode mode;
        uint16_t tunnel_ofport;
    } cases[] = {
        { "node.txt", CFG_ENCAP, 32768 },
        { "node.txt", CFG_HYBRID, 32768 },
        { "node-without-tunnel.txt", CFG_NO_ENCAP, 0 },
        { "node-without-tunnel.txt", CFG_ENCAP, 0 }, /* Yet. */
        { "node-network-policy-only.txt", CFG_NETWORK_POLICY_ONLY, 0 },
    };

    (void) state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct pipe_node node = make_node();
        struct fout out = FOUT_INIT;

        node.mode = cases[i].mode;
        node.tunnel_ofport = cases[i].tunnel_ofport;
        pipe_render_node(&node, &out);
        check(cases[i].name, &out);
    }
}

/* The gateway has the node's own address, and there is no pod network. */
static void
k4_a_node_without_pod_networks_renders_the_same(void **state)
{
    struct pipe_node node = make_node();
    struct fout out = FOUT_INIT;

    (void) state;
    node.mode = CFG_NETWORK_POLICY_ONLY;
    node.tunnel_ofport = 0;
    node.pod_cidrs = NULL;
    node.n_pod_cidrs = 0;
    pipe_render_node(&node, &out);
    check("node-network-policy-only.txt", &out);
}

static void
node_without_gateway_renders_what_does_not_name_it(void **state)
{
    struct pipe_node node = { .meter_id = 3841 };
    struct fout out = FOUT_INIT;

    (void) state;
    pipe_render_node(&node, &out);
    check("node-without-gateway.txt", &out);
}

static void
pod_renders_as_expected_in_each_mode(void **state)
{
    static const char *const names[] = {
        [CFG_ENCAP] = "pod.txt",
        [CFG_NO_ENCAP] = "pod.txt",
        [CFG_HYBRID] = "pod.txt",
        [CFG_NETWORK_POLICY_ONLY] = "pod-network-policy-only.txt",
    };
    struct pipe_node node = make_node();
    struct ip ips[] = { ip("192.0.2.7"), ip("2001:db8:1::7") };
    struct pipe_pod pod = {
        .ofport = 5,
        .mac = { { { 0x0a, 0x58, 0xc0, 0, 2, 7 } } },
        .ips = ips,
        .n_ips = 2,
    };
    struct fout out = FOUT_INIT;

    (void) state;
    for (size_t mode = 0; mode < ARRAY_SIZE(names); mode++) {
        node.mode = mode;
        pipe_render_pod(&node, &pod, &out);
        check(names[mode], &out);
        out = (struct fout) FOUT_INIT;
    }

    node.gateway_ofport = 0;
    pipe_render_pod(&node, &pod, &out);
    assert_int_equal(out.n, 0);
}

/* Other nodes. */

static struct pipe_peer
make_peer(const char *cidr, enum pipe_path path, const char *tunnel_dst)
{
    struct pipe_peer peer = { .path = path };

    assert_int_equal(cidr_parse(cidr, &peer.pod_cidr), 0);
    peer.gateway = cidr_host(&peer.pod_cidr, 1);
    if (tunnel_dst) {
        peer.tunnel_dst = ip(tunnel_dst);
    }
    return peer;
}

static void
peer_renders_as_expected_in_each_mode(void **state)
{
    static const struct {
        const char *name;
        enum cfg_encap_mode mode;
        enum pipe_path path4, path6;
        const char *dst4, *dst6;
    } cases[] = {
        { "peer-tunnel.txt", CFG_ENCAP, PIPE_TUNNEL, PIPE_TUNNEL,
          "203.0.113.2", "203.0.113.2" },
        { "peer-tunnel6.txt", CFG_ENCAP, PIPE_TUNNEL, PIPE_TUNNEL,
          "2001:db8:f::2", "2001:db8:f::2" },
        { "peer-routed.txt", CFG_NO_ENCAP, PIPE_ROUTED, PIPE_ROUTED },
        { "peer-tunnel.txt", CFG_HYBRID, PIPE_TUNNEL, PIPE_TUNNEL,
          "203.0.113.2", "203.0.113.2" },
        { "peer-routed.txt", CFG_HYBRID, PIPE_ROUTED, PIPE_ROUTED },
        { "peer-both.txt", CFG_HYBRID, PIPE_ROUTED, PIPE_TUNNEL, NULL,
          "2001:db8:f::2" },
        { "peer-none.txt", CFG_NETWORK_POLICY_ONLY, PIPE_ROUTED, PIPE_ROUTED },
        { "peer-none.txt", CFG_ENCAP, PIPE_TUNNEL, PIPE_TUNNEL },
    };

    (void) state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct pipe_peer peers[] = {
            make_peer("198.51.100.128/25", cases[i].path4, cases[i].dst4),
            make_peer("2001:db8:2::/64", cases[i].path6, cases[i].dst6),
        };
        struct pipe_node node = make_node();
        struct fout out = FOUT_INIT;

        node.mode = cases[i].mode;
        pipe_render_peer(&node, 0x12345, peers, ARRAY_SIZE(peers), &out);
        check(cases[i].name, &out);

        node.gateway_ofport = 0;
        out = (struct fout) FOUT_INIT;
        pipe_render_peer(&node, 0x12345, peers, ARRAY_SIZE(peers), &out);
        assert_int_equal(out.n, 0);
    }
}

/* What there is to send when a node comes or the tunnel port gets its number
 * does not grow with the number of the others. */
static void
peers_do_not_depend_on_the_tunnel_port_nor_on_each_other(void **state)
{
    struct pipe_peer peers[] = {
        make_peer("198.51.100.0/25", PIPE_TUNNEL, "203.0.113.1"),
        make_peer("198.51.100.128/25", PIPE_TUNNEL, "203.0.113.2"),
    };
    struct pipe_node node = make_node();
    struct fout with = FOUT_INIT, without = FOUT_INIT;

    (void) state;
    pipe_render_peer(&node, 1, peers, 2, &with);
    node.tunnel_ofport = 0;
    node.n_pod_cidrs = 0;
    for (size_t i = 0; i < 2; i++) {
        pipe_render_peer(&node, 1, &peers[i], 1, &without);
    }
    assert_int_equal(with.n, 4);
    assert_int_equal(without.n, with.n);
    for (size_t i = 0; i < with.n; i++) {
        assert_true(fitem_equals(with.items[i], without.items[i]));
    }
    fout_clear(&with);
    fout_clear(&without);
    free(with.items);
    free(without.items);
}

/* Services. */

#define MAX_EPS (PIPE_MAX_ENDPOINTS + 1)

static void
service_renders_as_expected(void **state)
{
    static const struct {
        const char *name;
        enum ip_family family;
        enum proto proto;
        enum pipe_verdict verdict;
        size_t n_eps;
    } cases[] = {
        { "service-tcp4.txt", IP_V4, PROTO_TCP, PIPE_SELECT, 3 },
        { "service-udp4.txt", IP_V4, PROTO_UDP, PIPE_SELECT, 1 },
        { "service-sctp4.txt", IP_V4, PROTO_SCTP, PIPE_SELECT, 2 },
        { "service-tcp6.txt", IP_V6, PROTO_TCP, PIPE_SELECT, 2 },
        { "service-udp6.txt", IP_V6, PROTO_UDP, PIPE_SELECT, 2 },
        { "service-sctp6.txt", IP_V6, PROTO_SCTP, PIPE_SELECT, 2 },
        { "service-reject.txt", IP_V4, PROTO_TCP, PIPE_REJECT, 0 },
        { "service-drop.txt", IP_V6, PROTO_UDP, PIPE_DROP, 0 },
        { "service-65.txt", IP_V4, PROTO_UDP, PIPE_SELECT, 65 },
    };

    (void) state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct eps *eps = pipefix_eps(cases[i].family, cases[i].n_eps);
        struct pipe_target target = {
            .verdict = cases[i].verdict,
            .eps = eps,
            .n_eps = cases[i].n_eps,
        };
        struct fout out = FOUT_INIT;

        assert_int_equal(pipefix_render(cases[i].family, cases[i].proto,
                                        target, &out, NULL),
                         0);
        check(cases[i].name, &out);
        free(eps);
    }
}

static void
scopes_have_groups_of_their_own(void **state)
{
    struct eps *eps = pipefix_eps(IP_V4, 3);
    struct pipe_frontend frontends[] = {
        { .ip = ip("203.0.113.10"), .port = 80, PIPE_SCOPE_CLUSTER },
        { .ip = ip("203.0.113.11"), .port = 80, PIPE_SCOPE_LOCAL },
        { .ip = ip("203.0.113.12"), .port = 80, PIPE_SCOPE_LOCAL },
    };
    struct pipe_service svc = {
        .object_id = 1,
        .proto = PROTO_TCP,
        .frontends = frontends,
        .n_frontends = 3,
        .targets = { { PIPE_SELECT, eps, 3 }, { PIPE_SELECT, eps, 1 } },
    };
    struct fout out = FOUT_INIT;

    (void) state;
    assert_int_equal(pipe_render_service(&svc, &out, NULL), 0);
    check("service-two-scopes.txt", &out);
    free(eps);
}

/* A Service port of both scopes. */
struct outside {
    const char *name;
    enum ip_family family;
    enum proto proto;
    enum pipe_scope scope; /* Of all that is for clients outside. */
    enum pipe_verdict local;
    uint32_t affinity_s;
    bool node_in_ranges;
};

/* Everything beyond the cluster IP: a NodePort, an external IP and a
 * restricted address of a load balancer. */
/* A switch keeps actions decoded: what it says is encoded once more. */
static struct fitem *
as_the_switch_says(const struct fitem *item)
{
    struct ofpbuf *msg = fitem_encode_put(item);
    struct fitem *result;

    if (fitem_kind(item) == FITEM_FLOW) {
        struct ofputil_flow_mod fm;
        struct ofpbuf ofpacts;
        struct match match;

        ofpbuf_init(&ofpacts, 0);
        assert_int_equal(ofputil_decode_flow_mod(&fm, msg->data,
                                                 OFPUTIL_P_OF15_OXM, NULL,
                                                 NULL, &ofpacts, OFPP_MAX,
                                                 UINT8_MAX),
                         0);
        minimatch_expand(&fm.match, &match);
        result = fitem_from_flow(&(struct fitem_flow){
            .table = fm.table_id,
            .priority = fm.priority,
            .cookie = ntohll(fm.new_cookie),
            .match = &match,
            .ofpacts = fm.ofpacts,
            .ofpacts_len = fm.ofpacts_len,
        });
        minimatch_destroy(&fm.match);
        ofpbuf_uninit(&ofpacts);
    } else {
        struct ofputil_group_mod gm;

        assert_int_equal(ofputil_decode_group_mod(msg->data, &gm), 0);
        assert_int_equal(fitem_from_group(&gm, &result, NULL), 0);
        ofputil_uninit_group_mod(&gm);
    }
    ofpbuf_delete(msg);
    return result;
}

static void
assert_switch_says_the_same(const struct fout *out)
{
    for (size_t i = 0; i < out->n; i++) {
        struct fitem *said = as_the_switch_says(out->items[i]);

        assert_true(fitem_equals(said, out->items[i]));
        fitem_unref(said);
    }
}

static void
check_outside(const struct outside *c)
{
    bool v4 = c->family == IP_V4;
    struct eps *eps = pipefix_eps(c->family, 3);
    struct pipe_frontend frontends[] = {
        { .port = 80 },
        { .kind = PIPE_NODE_PORT, .port = 30080, .scope = c->scope },
        { .kind = PIPE_EXTERNAL, .port = 80, .scope = c->scope },
        { PIPE_EXTERNAL, { .in6 = in6addr_any }, 80, c->scope, true },
    };
    struct cidr ranges[2];
    struct pipe_service svc = {
        .object_id = 0x12345,
        .family = c->family,
        .proto = c->proto,
        .frontends = frontends,
        .n_frontends = ARRAY_SIZE(frontends),
        .targets = { { PIPE_SELECT, eps, 3 },
                     { c->local, eps, c->local == PIPE_SELECT } },
        .affinity_s = c->affinity_s,
        .source_ranges = ranges,
        .n_source_ranges = 2,
        .node_in_ranges = c->node_in_ranges,
        .takes_fragments = c->proto == PROTO_UDP,
    };
    struct fout out = FOUT_INIT;

    frontends[0].ip = ip(v4 ? "203.0.113.10" : "2001:db8:3::10");
    frontends[2].ip = ip(v4 ? "203.0.113.11" : "2001:db8:3::11");
    frontends[3].ip = ip(v4 ? "203.0.113.12" : "2001:db8:3::12");
    assert_int_equal(cidr_parse(v4 ? "198.51.100.0/24" : "2001:db8:9::/48",
                                &ranges[0]),
                     0);
    assert_int_equal(cidr_parse(v4 ? "192.0.2.99/32" : "2001:db8:a::9/128",
                                &ranges[1]),
                     0);
    assert_int_equal(pipe_render_service(&svc, &out, NULL), 0);
    assert_switch_says_the_same(&out);
    check(c->name, &out);
    free(eps);
}

static void
frontends_for_outside_render_as_expected(void **state)
{
    static const struct outside cases[] = {
        { "outside-cluster.txt", IP_V4, PROTO_TCP, PIPE_SCOPE_CLUSTER },
        { "outside-local.txt", IP_V6, PROTO_UDP, PIPE_SCOPE_LOCAL, PIPE_SELECT,
          0, true },
        { "outside-local-drop.txt", IP_V4, PROTO_SCTP, PIPE_SCOPE_LOCAL,
          PIPE_DROP },
        { "outside-affinity.txt", IP_V4, PROTO_UDP, PIPE_SCOPE_CLUSTER,
          PIPE_SELECT, 10800, true },
        { "outside-affinity-local.txt", IP_V6, PROTO_TCP, PIPE_SCOPE_LOCAL,
          PIPE_SELECT, 65536 },
    };

    (void) state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        check_outside(&cases[i]);
    }
}

static void
node_ports_are_marked_on_the_addresses_of_the_node(void **state)
{
    struct ip ips[] = { ip("203.0.113.1"), ip("2001:db8:f::1") };
    struct pipe_node node = make_node();
    struct fout all = FOUT_INIT, out = FOUT_INIT;

    (void) state;
    node.node_port_ips = ips;
    node.n_node_port_ips = ARRAY_SIZE(ips);
    node.serves_node_ports = true;
    pipe_render_node(&node, &all);
    for (size_t i = 0; i < all.n; i++) {
        if (fitem_table(all.items[i]) == PIPE_T_NODE_PORT) {
            fout_add(&out, fitem_ref(all.items[i]));
        }
    }
    fout_clear(&all);
    check("node-ports.txt", &out);
}

static void
too_many_endpoints_are_cut_off_and_said_so(void **state)
{
    struct eps *eps = pipefix_eps(IP_V4, MAX_EPS);
    struct pipe_target target = { PIPE_SELECT, eps, MAX_EPS };
    struct fout out = FOUT_INIT;
    struct err err;

    (void) state;
    assert_int_equal(pipefix_render(IP_V4, PROTO_TCP, target, &out, &err),
                     E2BIG);
    assert_string_equal(err.msg, "100001 endpoints are more than 100000: the "
                                 "rest is left out");
    assert_true(out.n > 200);
    fout_clear(&out);
    free(out.items);
    free(eps);
}

static void
rendering_twice_gives_the_same_bytes(void **state)
{
    struct eps *eps = pipefix_eps(IP_V6, 700);
    struct pipe_target target = { PIPE_SELECT, eps, 700 };
    struct fout a = FOUT_INIT, b = FOUT_INIT;

    (void) state;
    assert_int_equal(pipefix_render(IP_V6, PROTO_TCP, target, &a, NULL), 0);
    assert_int_equal(pipefix_render(IP_V6, PROTO_TCP, target, &b, NULL), 0);
    assert_int_equal(a.n, b.n);
    for (size_t i = 0; i < a.n; i++) {
        assert_true(fitem_equals(a.items[i], b.items[i]));
    }
    fout_clear(&a);
    fout_clear(&b);
    free(a.items);
    free(b.items);
    free(eps);
}

/* What a flow has taught the switch is found by its cookie: no two endpoints,
 * scopes, timeouts or Service ports share one. */
static void
what_is_learned_has_the_cookie_of_its_endpoint(void **state)
{
    struct eps *eps = pipefix_eps(IP_V4, 4);
    struct pipe_target target = { PIPE_SELECT, eps, 4 };
    struct fout out = FOUT_INIT;
    struct sset cookies = SSET_INITIALIZER(&cookies);
    size_t n_learning = 0;

    (void) state;
    eps[1].ip = eps[0].ip;
    eps[1].port++;
    for (int i = 0; i < 6; i++) {
        struct pipe_frontend frontend;
        struct pipe_service svc;

        pipefix_service(IP_V4, PROTO_TCP, target, &frontend, &svc);
        svc.affinity_s = i == 1 ? 86400 : i == 2 ? 86399 : 7; /* Not in it. */
        svc.object_id += i == 3;
        frontend.scope = i == 4 ? PIPE_SCOPE_LOCAL : PIPE_SCOPE_CLUSTER;
        svc.targets[frontend.scope] = target;
        svc.takes_fragments = i == 5; /* The same as the first. */
        assert_int_equal(pipe_render_service(&svc, &out, NULL), 0);
    }
    for (size_t i = 0; i < out.n; i++) {
        struct ds ds = DS_EMPTY_INITIALIZER;
        char *learned;

        fitem_format(out.items[i], NULL, &ds);
        learned = strstr(ds_cstr(&ds), ",cookie=0x");
        if (learned) {
            uint64_t cookie = strtoull(learned + 8, NULL, 16);
            char *s = xasprintf("%#" PRIx64, cookie);

            assert_true(cookie_is_learned(cookie));
            sset_add_and_free(&cookies, s);
            n_learning++;
        }
        ds_destroy(&ds);
    }
    assert_int_equal(n_learning, 6 * 4);
    assert_int_equal(sset_count(&cookies), 3 * 4);
    sset_destroy(&cookies);
    fout_clear(&out);
    free(eps);
}

/* Others see these numbers. */
static void
the_stable_hash_does_not_change(void **state)
{
    (void) state;
    assert_int_equal(stable_hash("", 0, 0), 0xab3e7c0b);
}

static bool
has_item(const struct fout *out, const struct fitem *item)
{
    for (size_t i = 0; i < out->n; i++) {
        if (fitem_equals(out->items[i], item)) {
            return true;
        }
    }
    return false;
}

/* Of each family, policy, with and without source ranges and affinity; the two
 * addresses differ in every byte. */
static void
addresses_render_together_as_they_do_alone(void **state)
{
    static const char *const ips[N_IP_FAMILIES][2] = {
        [IP_V4] = { "198.51.100.7", "203.0.113.250" },
        [IP_V6] = { "2001:db8:3::10", "fd12:3456:789a:bcde:f012:3456:789a:1" },
    };

    (void) state;
    for (unsigned int i = 0; i < 16; i++) {
        enum ip_family family = i & 1 ? IP_V6 : IP_V4;
        struct eps *eps = pipefix_eps(family, 3);
        struct pipe_target target = { PIPE_SELECT, eps, 3 };
        struct pipe_frontend f[2], unused;
        struct fout both = FOUT_INIT, alone = FOUT_INIT;
        struct pipe_service svc;

        pipefix_service(family, PROTO_TCP, target, &unused, &svc);
        svc.targets[PIPE_SCOPE_LOCAL] = target;
        svc.affinity_s = i & 2 ? 600 : 0;
        for (size_t j = 0; j < 2; j++) {
            f[j] = (struct pipe_frontend){
                .kind = PIPE_EXTERNAL,
                .ip = ip(ips[family][j]),
                .port = 443,
                .scope = i & 4 ? PIPE_SCOPE_LOCAL : PIPE_SCOPE_CLUSTER,
                .restricted = i & 8,
            };
        }
        svc.frontends = f;
        svc.n_frontends = 2;
        assert_int_equal(pipe_render_service(&svc, &both, NULL), 0);
        svc.n_frontends = 1;
        for (size_t j = 0; j < 2; j++) {
            svc.frontends = &f[j];
            assert_int_equal(pipe_render_service(&svc, &alone, NULL), 0);
            for (size_t k = 0; k < alone.n; k++) {
                assert_true(has_item(&both, alone.items[k]));
            }
            fout_clear(&alone);
        }
        fout_clear(&both);
        free(eps);
    }
}

static void
rest_of_a_cluster_ip_is_rejected(void **state)
{
    struct ip v4 = ip("203.0.113.10"), v6 = ip("2001:db8:3::10");
    struct fout out = FOUT_INIT;

    (void) state;
    pipe_render_cluster_ip(0x12345, &v4, &out);
    pipe_render_cluster_ip(0x12345, &v6, &out);
    assert_switch_says_the_same(&out);
    check("cluster-ip.txt", &out);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_have_increasing_ids_and_their_names),
        cmocka_unit_test(fields_of_one_register_do_not_overlap),
        cmocka_unit_test(node_renders_as_expected_in_each_mode),
        cmocka_unit_test(k4_a_node_without_pod_networks_renders_the_same),
        cmocka_unit_test(node_without_gateway_renders_what_does_not_name_it),
        cmocka_unit_test(pod_renders_as_expected_in_each_mode),
        cmocka_unit_test(peer_renders_as_expected_in_each_mode),
        cmocka_unit_test(
            peers_do_not_depend_on_the_tunnel_port_nor_on_each_other),
        cmocka_unit_test(service_renders_as_expected),
        cmocka_unit_test(scopes_have_groups_of_their_own),
        cmocka_unit_test(frontends_for_outside_render_as_expected),
        cmocka_unit_test(addresses_render_together_as_they_do_alone),
        cmocka_unit_test(rest_of_a_cluster_ip_is_rejected),
        cmocka_unit_test(node_ports_are_marked_on_the_addresses_of_the_node),
        cmocka_unit_test(too_many_endpoints_are_cut_off_and_said_so),
        cmocka_unit_test(rendering_twice_gives_the_same_bytes),
        cmocka_unit_test(what_is_learned_has_the_cookie_of_its_endpoint),
        cmocka_unit_test(the_stable_hash_does_not_change),
    };

    return cmocka_run_group_tests_name("pipeline", tests, NULL, NULL);
}
