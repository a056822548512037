/* SPDX-License-Identifier: Apache-2.0 */
/* Packed objects: whole, independent of their template, comparable, small. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <arpa/inet.h>
#include <malloc.h>

#include <cmocka.h>

#include <util.h>

#include "ofproxyd/model/objects.h"

static struct ip
v4(uint32_t n)
{
    return ip_from_v4(htonl(n));
}

static struct ip
v6(uint16_t n)
{
    struct ip ip = { .in6.s6_addr = { 0x20, 0x01, 0x0d, 0xb8 } };

    ip.in6.s6_addr[14] = n >> 8;
    ip.in6.s6_addr[15] = n;
    return ip;
}

/* Full templates, in memory that a test may overwrite. */

struct svc_parts {
    struct svc svc;
    char ns[8], name[8], uid[8], port_names[2][8], proxy_name[8];
    struct svc_port ports[2];
    struct ip external_ips[2];
    struct svc_ingress ingress[2];
    struct cidr source_ranges[2];
};

static void
svc_parts_init(struct svc_parts *p)
{
    *p = (struct svc_parts) {
        .ns = "ns1", .name = "svc-a", .uid = "u-1", .proxy_name = "other",
        .port_names = { "http", "dns" },
        .ports = { { p->port_names[0], PROTO_TCP, 80, 30080 },
                   { p->port_names[1], PROTO_UDP, 53, 0 } },
        .external_ips = { v4(0xcb007109), v6(9) },
        .ingress = { { v4(0xcb00710a), false }, { v6(10), true } },
        .source_ranges = { { v4(0xcb007100), 24 }, { v6(0), 64 } },
        .svc = {
            .meta = { p->ns, p->name, p->uid, 100, 1700000000 },
            .type = SVC_LOAD_BALANCER,
            .external_policy = SVC_POLICY_LOCAL,
            .internal_policy = SVC_POLICY_CLUSTER,
            .affinity_s = 10800,
            .health_port = 32074,
            .publish_not_ready = true,
            .proxy_name = p->proxy_name,
            .cluster_ips = { v4(0x0a600001), v6(1) },
            .ports = p->ports, .n_ports = 2,
            .external_ips = p->external_ips, .n_external_ips = 2,
            .ingress = p->ingress, .n_ingress = 2,
            .source_ranges = p->source_ranges, .n_source_ranges = 2,
        },
    };
}

struct slice_parts {
    struct slice slice;
    char ns[8], name[8], uid[8], service[8];
    char port_name[8], nodes[2][4], zones[2][4];
    const char *zone_list[2], *node_list[2];
    struct slice_port ports[2];
    struct slice_endpoint endpoints[2];
};

static void
slice_parts_init(struct slice_parts *p)
{
    *p = (struct slice_parts) {
        .ns = "ns1", .name = "svc-a-1", .uid = "u-2", .service = "svc-a",
        .port_name = "http", .nodes = { "n1", "n2" }, .zones = { "za", "zb" },
        .zone_list = { p->zones[0], p->zones[1] },
        .node_list = { p->nodes[0], p->nodes[1] },
        .ports = { { p->port_name, PROTO_TCP, 8080 },
                   { "", PROTO_UDP, 5353 } },
        .endpoints = {
            { .ip = v4(0x0a0a0105), .node = p->nodes[0],
              .zones = p->zone_list, .n_zones = 2,
              .hint_nodes = p->node_list, .n_hint_nodes = 2,
              .ready = true, .serving = true },
            { .ip = v4(0x0a0a0106), .terminating = true },
        },
        .slice = {
            .meta = { p->ns, p->name, p->uid, 200, 1700000001 },
            .service = p->service,
            .family = IP_V4,
            .ports = p->ports, .n_ports = 2,
            .endpoints = p->endpoints, .n_endpoints = 2,
        },
    };
}

struct node_parts {
    struct node node;
    char name[4], uid[8], zone[4];
    struct cidr pod_cidrs[2];
    struct node_address addresses[2];
};

static void
node_parts_init(struct node_parts *p)
{
    *p = (struct node_parts) {
        .name = "n1", .uid = "u-3", .zone = "za",
        .pod_cidrs = { { v4(0x0a0a0100), 24 }, { v6(0x100), 120 } },
        .addresses = { { v4(0xc000020b), false }, { v4(0xcb007105), true } },
        .node = {
            .meta = { "", p->name, p->uid, 300, 1700000002 },
            .zone = p->zone,
            .pod_cidrs = p->pod_cidrs, .n_pod_cidrs = 2,
            .addresses = p->addresses, .n_addresses = 2,
        },
    };
}

/* For each member that bears on equality, a change to the template after
 * which a packed object has to differ. */

#define SVC_CHANGES                                    \
    CHANGE(p.ns[0] = 'x')                              \
    CHANGE(p.name[0] = 'x')                            \
    CHANGE(p.uid[0] = 'x')                             \
    CHANGE(p.svc.meta.created_s++)                     \
    CHANGE(p.svc.type = SVC_NODE_PORT)                 \
    CHANGE(p.svc.headless = true)                      \
    CHANGE(p.svc.external_policy = SVC_POLICY_CLUSTER) \
    CHANGE(p.svc.internal_policy = SVC_POLICY_LOCAL)   \
    CHANGE(p.svc.affinity_s = 60)                      \
    CHANGE(p.svc.health_port = 0)                      \
    CHANGE(p.svc.publish_not_ready = false)            \
    CHANGE(p.svc.mc_imported = true)                   \
    CHANGE(p.proxy_name[0] = 'x')                      \
    CHANGE(p.svc.proxy_name = NULL)                    \
    CHANGE(p.svc.cluster_ips[IP_V4] = v4(1))           \
    CHANGE(p.svc.cluster_ips[IP_V6] = v6(0xffff))      \
    CHANGE(p.svc.n_ports = 1)                          \
    CHANGE(p.port_names[1][0] = 'x')                   \
    CHANGE(p.ports[1].proto = PROTO_SCTP)              \
    CHANGE(p.ports[1].port++)                          \
    CHANGE(p.ports[1].node_port++)                     \
    CHANGE(p.svc.n_external_ips = 1)                   \
    CHANGE(p.external_ips[1] = v6(77))                 \
    CHANGE(p.svc.n_ingress = 0)                        \
    CHANGE(p.ingress[1].ip = v6(77))                   \
    CHANGE(p.ingress[1].proxy = false)                 \
    CHANGE(p.svc.n_source_ranges = 0)                  \
    CHANGE(p.source_ranges[1].ip = v6(77))             \
    CHANGE(p.source_ranges[1].plen++)

#define SLICE_CHANGES                       \
    CHANGE(p.ns[0] = 'x')                   \
    CHANGE(p.name[0] = 'x')                 \
    CHANGE(p.uid[0] = 'x')                  \
    CHANGE(p.slice.meta.created_s++)        \
    CHANGE(p.service[0] = 'x')              \
    CHANGE(p.slice.family = IP_V6)          \
    CHANGE(p.slice.n_ports = 1)             \
    CHANGE(p.port_name[0] = 'x')            \
    CHANGE(p.ports[1].proto = PROTO_SCTP)   \
    CHANGE(p.ports[1].port++)               \
    CHANGE(p.slice.n_endpoints = 1)         \
    CHANGE(p.endpoints[1].ip = v4(77))      \
    CHANGE(p.endpoints[0].node = NULL)      \
    CHANGE(p.endpoints[0].node = "n9")      \
    CHANGE(p.endpoints[1].node = "n9")      \
    CHANGE(p.endpoints[0].n_zones = 1)      \
    CHANGE(p.zones[1][0] = 'x')             \
    CHANGE(p.endpoints[0].n_hint_nodes = 0) \
    CHANGE(p.node_list[1] = "n9")           \
    CHANGE(p.endpoints[0].ready = false)    \
    CHANGE(p.endpoints[0].serving = false)  \
    CHANGE(p.endpoints[1].terminating = false)

#define NODE_CHANGES                                  \
    CHANGE(p.name[0] = 'x')                           \
    CHANGE(p.uid[0] = 'x')                            \
    CHANGE(p.node.meta.created_s++)                   \
    CHANGE(p.zone[0] = 'x')                           \
    CHANGE(p.node.zone = "")                          \
    CHANGE(p.node.deleting = true)                    \
    CHANGE(p.node.to_be_deleted = true)               \
    CHANGE(p.node.transport_is_bad = true)            \
    CHANGE(p.node.transport[IP_V4] = v4(0xc0000201))  \
    CHANGE(p.node.transport[IP_V6].in6.s6_addr[15]++) \
    CHANGE(p.node.n_pod_cidrs = 1)                    \
    CHANGE(p.pod_cidrs[0].ip = v4(77))                \
    CHANGE(p.pod_cidrs[1].plen++)                     \
    CHANGE(p.node.n_addresses = 1)                    \
    CHANGE(p.addresses[1].ip = v4(77))                \
    CHANGE(p.addresses[1].external = false)

/* Defines a test that packs KIND with each of the changes. */
#define DEFINE_EQUALITY_TEST(KIND, CHANGES)                               \
    static void KIND##_equality_sees_each_member(void **state OVS_UNUSED) \
    {                                                                     \
        struct intern_pool *pool = intern_pool_create();                  \
        struct KIND##_parts p;                                            \
                                                                          \
        KIND##_parts_init(&p);                                            \
        struct KIND *a = KIND##_pack(&p.KIND, pool);                      \
        p.KIND.meta.version++;                                            \
        struct KIND *same = KIND##_pack(&p.KIND, pool);                   \
        assert_true(KIND##_equals(a, same));                              \
        assert_int_equal(same->meta.version, a->meta.version + 1);        \
        KIND##_free(same, pool);                                          \
        CHANGES                                                           \
        KIND##_free(a, pool);                                             \
        KIND##_free(NULL, pool);                                          \
        assert_int_equal(intern_count(pool), 0);                          \
        intern_pool_destroy(pool);                                        \
    }

#define CHANGE(STATEMENT)                           \
    {                                               \
        svc_parts_init(&p);                         \
        STATEMENT;                                  \
        struct svc *b = svc_pack(&p.svc, pool);     \
        if (svc_equals(a, b) || svc_equals(b, a)) { \
            fail_msg("equal after %s", #STATEMENT); \
        }                                           \
        svc_free(b, pool);                          \
    }
DEFINE_EQUALITY_TEST(svc, SVC_CHANGES)
#undef CHANGE

#define CHANGE(STATEMENT)                               \
    {                                                   \
        slice_parts_init(&p);                           \
        STATEMENT;                                      \
        struct slice *b = slice_pack(&p.slice, pool);   \
        if (slice_equals(a, b) || slice_equals(b, a)) { \
            fail_msg("equal after %s", #STATEMENT);     \
        }                                               \
        slice_free(b, pool);                            \
    }
DEFINE_EQUALITY_TEST(slice, SLICE_CHANGES)
#undef CHANGE

#define CHANGE(STATEMENT)                             \
    {                                                 \
        node_parts_init(&p);                          \
        STATEMENT;                                    \
        struct node *b = node_pack(&p.node, pool);    \
        if (node_equals(a, b) || node_equals(b, a)) { \
            fail_msg("equal after %s", #STATEMENT);   \
        }                                             \
        node_free(b, pool);                           \
    }
DEFINE_EQUALITY_TEST(node, NODE_CHANGES)
#undef CHANGE

static void
object_does_not_depend_on_its_template(void **state OVS_UNUSED)
{
    struct intern_pool *pool = intern_pool_create();
    struct svc_parts sp, sp2;
    struct slice_parts ep, ep2;
    struct node_parts np, np2;

    svc_parts_init(&sp);
    slice_parts_init(&ep);
    node_parts_init(&np);
    struct svc *svc = svc_pack(&sp.svc, pool);
    struct slice *slice = slice_pack(&ep.slice, pool);
    struct node *node = node_pack(&np.node, pool);
    memset(&sp, 0xee, sizeof sp);
    memset(&ep, 0xee, sizeof ep);
    memset(&np, 0xee, sizeof np);

    svc_parts_init(&sp2);
    slice_parts_init(&ep2);
    node_parts_init(&np2);
    assert_true(svc_equals(svc, &sp2.svc));
    assert_true(slice_equals(slice, &ep2.slice));
    assert_true(node_equals(node, &np2.node));
    assert_int_equal(svc->meta.version, 100);

    svc_free(svc, pool);
    slice_free(slice, pool);
    node_free(node, pool);
    assert_int_equal(intern_count(pool), 0);
    intern_pool_destroy(pool);
}

static void
repeating_strings_are_interned(void **state OVS_UNUSED)
{
    struct intern_pool *pool = intern_pool_create();
    struct slice_parts p;
    struct svc_parts sp;

    slice_parts_init(&p);
    svc_parts_init(&sp);
    struct slice *a = slice_pack(&p.slice, pool);
    struct slice *b = slice_pack(&p.slice, pool);
    struct svc *svc = svc_pack(&sp.svc, pool);
    assert_ptr_equal(a->endpoints[0].node, b->endpoints[0].node);
    assert_ptr_equal(a->endpoints[0].hint_nodes[0], a->endpoints[0].node);
    assert_ptr_equal(a->endpoints[0].zones[1], b->endpoints[0].zones[1]);
    assert_ptr_equal(a->ports[0].name, svc->ports[0].name);
    assert_ptr_equal(a->meta.ns, svc->meta.ns);

    slice_free(a, pool);
    slice_free(b, pool);
    svc_free(svc, pool);
    intern_pool_destroy(pool);
}

static void
a8_empty_arrays_are_null(void **state OVS_UNUSED)
{
    struct intern_pool *pool = intern_pool_create();
    static const struct slice empty = { .meta = { "ns1", "s", "", 0, 0 },
                                        .service = "svc-a" };
    static const struct svc bare = { .meta = { "ns1", "svc-a", "", 0, 0 } };
    static const struct node blank = { .meta = { "", "n1", "", 0, 0 },
                                       .zone = "" };

    struct slice *slice = slice_pack(&empty, pool);
    struct svc *svc = svc_pack(&bare, pool);
    struct node *node = node_pack(&blank, pool);
    assert_null(slice->endpoints);
    assert_null(slice->ports);
    assert_null(svc->ports);
    assert_null(svc->external_ips);
    assert_null(svc->ingress);
    assert_null(svc->source_ranges);
    assert_null(svc->proxy_name);
    assert_null(node->pod_cidrs);
    assert_null(node->addresses);
    assert_true(slice_equals(slice, &empty));
    assert_true(svc_equals(svc, &bare));
    assert_true(node_equals(node, &blank));

    slice_free(slice, pool);
    svc_free(svc, pool);
    node_free(node, pool);
    intern_pool_destroy(pool);
}

static void
endpoint_costs_at_most_64_bytes(void **state OVS_UNUSED)
{
    enum {
        N = 1000
    };
    static struct slice_endpoint eps[N];
    struct intern_pool *pool = intern_pool_create();
    const char *zones[] = { "zone-a" };
    struct slice_port port = { "http", PROTO_TCP, 8080 };

    for (int i = 0; i < N; i++) {
        eps[i] = (struct slice_endpoint){
            .ip = v4(0x0a0a0000 + i),
            .node = "node-with-a-rather-long-name-1",
            .zones = zones,
            .n_zones = 1,
            .ready = true,
        };
    }
    struct slice *slice = slice_pack(
        &(struct slice){
            .meta = { "namespace-1", "service-with-a-long-name-abcde",
                      "3f2504e0-4f89-11d3-9a0c-0305e82c3301", 1, 1 },
            .service = "service-with-a-long-name",
            .ports = &port,
            .n_ports = 1,
            .endpoints = eps,
            .n_endpoints = N,
        },
        pool);
    assert_in_range(malloc_usable_size(slice), 0, 64 * N);
    slice_free(slice, pool);
    intern_pool_destroy(pool);
}

static void
a25_headless_and_external_name_are_not_served(void **state OVS_UNUSED)
{
    struct ip none = { .in6 = IN6ADDR_ANY_INIT };
    struct ip ext = v4(0xcb007109), a = v4(0x0a600001), b = v6(1);
    struct svc headless = { .headless = true,
                            .external_ips = &ext,
                            .n_external_ips = 1 };
    const struct {
        struct svc svc;
        bool served;
    } rows[] = {
        { { .cluster_ips = { a, b } }, true },
        { { .cluster_ips = { a, none } }, true },
        { { .cluster_ips = { none, b } }, true },
        { { .cluster_ips = { none, none } }, false },
        { { .cluster_ips = { a, b }, .headless = true }, false },
        { headless, false },
        { { .cluster_ips = { a, b }, .type = SVC_EXTERNAL_NAME }, false },
        { { .cluster_ips = { a, b }, .type = SVC_LOAD_BALANCER }, true },
        { { .cluster_ips = { a, b }, .type = SVC_NODE_PORT }, true },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        if (svc_is_served(&rows[i].svc) != rows[i].served) {
            fail_msg("row %zu is misjudged", i);
        }
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(svc_equality_sees_each_member),
        cmocka_unit_test(slice_equality_sees_each_member),
        cmocka_unit_test(node_equality_sees_each_member),
        cmocka_unit_test(object_does_not_depend_on_its_template),
        cmocka_unit_test(repeating_strings_are_interned),
        cmocka_unit_test(a8_empty_arrays_are_null),
        cmocka_unit_test(endpoint_costs_at_most_64_bytes),
        cmocka_unit_test(a25_headless_and_external_name_are_not_served),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
