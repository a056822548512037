/* SPDX-License-Identifier: Apache-2.0 */
/* Health-check node ports out of the model. */

#include "../../src/agent/hchecks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>

#include <cmocka.h>

#include <openvswitch/dynamic-string.h>
#include <util.h>

static struct ip
v4(uint32_t address)
{
    return ip_from_v4(htonl(address));
}

static struct ip
v6(uint8_t last)
{
    struct ip ip = { .in6.s6_addr = { 0x20, 1, 0xd, 0xb8 } };

    ip.in6.s6_addr[15] = last;
    return ip;
}

/* Service ns1/'name' with both families, of type LoadBalancer unless
 * 'other'. */
static void
put_svc(struct model *m, const char *name, uint16_t port, bool other)
{
    model_put_svc(m, svc_pack(
                         &(struct svc){
                             .meta = { "ns1", name, "", 1, 1 },
                             .type = other ? SVC_NODE_PORT : SVC_LOAD_BALANCER,
                             .external_policy = SVC_POLICY_LOCAL,
                             .health_port = port,
                             .cluster_ips = { v4(0x0a600001), v6(1) },
                         },
                         model_pool(m)));
}

/* A slice of svc-a: 'n' endpoints from address 'first' on, the last one of
 * them on n2 and the one before not ready: only that decides, whatever else
 * their states are (services.md 2.4). */
static void
put_slice(struct model *m, const char *name, enum ip_family family, int first,
          int n)
{
    struct slice_port port = { "http", PROTO_TCP, 8080 };
    struct slice_endpoint eps[16];

    for (int i = 0; i < n; i++) {
        eps[i] = (struct slice_endpoint){
            .ip = family == IP_V4 ? v4(0x0a0a0100 + first + i) : v6(first + i),
            .node = i == n - 1 ? "n2" : "n1",
            .ready = i != n - 2,
            .serving = i & 1,
            .terminating = i != 2,
        };
    }
    model_put_slice(m, slice_pack(
                           &(struct slice){
                               .meta = { "ns1", name, "", 1, 1 },
                               .service = "svc-a",
                               .family = family,
                               .ports = &port,
                               .n_ports = 1,
                               .endpoints = eps,
                               .n_endpoints = n,
                           },
                           model_pool(m)));
}

/* All that there is to say, as text. */
static void
assert_says(struct hchecks *h, struct model *m, const char *want)
{
    struct ds ds = DS_EMPTY_INITIALIZER;
    const struct model_service *ms;
    struct health_check c;

    while ((ms = model_pop_dirty(m))) {
        hchecks_update(h, ms, ms->svc != NULL, "n1");
    }
    while (hchecks_pop(h, &c)) {
        ds_put_format(&ds, "%s/%s %s %u %zu\n", c.ns, c.name,
                      ip_family_name(c.family), c.port, c.n_local);
    }
    assert_string_equal(ds_cstr(&ds), want);
    ds_destroy(&ds);
}

struct fixture {
    struct model *m;
    struct hchecks *h;
};

static int
setup(void **state)
{
    static struct fixture f;

    f = (struct fixture){ model_create("n1"), hchecks_create() };
    *state = &f;
    return 0;
}

static int
teardown(void **state)
{
    struct fixture *f = *state;

    hchecks_destroy(f->h);
    model_destroy(f->m);
    return 0;
}

static void
p5_d26_addresses_are_counted_once_over_all_slices(void **state)
{
    struct fixture *f = *state;

    put_slice(f->m, "a", IP_V4, 1, 5); /* 1 to 3 count. */
    put_slice(f->m, "b", IP_V4, 3, 4); /* 3 again, and 4. */
    put_slice(f->m, "c", IP_V6, 1, 3); /* 1. */
    put_svc(f->m, "svc-a", 32074, false);
    assert_says(f->h, f->m,
                "ns1/svc-a IPv4 32074 4\n"
                "ns1/svc-a IPv6 32074 1\n");
    assert_says(f->h, f->m, "");
    put_slice(f->m, "a", IP_V4, 1, 2);
    assert_says(f->h, f->m, "ns1/svc-a IPv4 32074 2\n");
}

static void
only_changes_are_said(void **state)
{
    struct fixture *f = *state;

    put_svc(f->m, "svc-a", 32074, false);
    put_svc(f->m, "svc-b", 0, false);
    put_svc(f->m, "svc-c", 32075, true);
    assert_says(f->h, f->m,
                "ns1/svc-a IPv4 32074 0\n"
                "ns1/svc-a IPv6 32074 0\n");
    put_slice(f->m, "a", IP_V4, 1, 2); /* Neither of them counts. */
    put_svc(f->m, "svc-b", 0, true);
    assert_says(f->h, f->m, "");
}

static void
p4_ports_move_and_go(void **state)
{
    struct fixture *f = *state;

    put_svc(f->m, "svc-a", 32074, false);
    assert_says(f->h, f->m,
                "ns1/svc-a IPv4 32074 0\n"
                "ns1/svc-a IPv6 32074 0\n");
    put_svc(f->m, "svc-a", 32075, false);
    assert_says(f->h, f->m,
                "ns1/svc-a IPv4 32075 0\n"
                "ns1/svc-a IPv6 32075 0\n");
    put_svc(f->m, "svc-a", 32075, true);
    assert_says(f->h, f->m,
                "ns1/svc-a IPv4 0 0\n"
                "ns1/svc-a IPv6 0 0\n");
    put_svc(f->m, "svc-a", 32075, false);
    assert_says(f->h, f->m,
                "ns1/svc-a IPv4 32075 0\n"
                "ns1/svc-a IPv6 32075 0\n");
    assert_true(model_delete(f->m, MODEL_SERVICES, "ns1", "svc-a"));
    assert_says(f->h, f->m,
                "ns1/svc-a IPv4 0 0\n"
                "ns1/svc-a IPv6 0 0\n");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            p5_d26_addresses_are_counted_once_over_all_slices, setup,
            teardown),
        cmocka_unit_test_setup_teardown(only_changes_are_said, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(p4_ports_move_and_go, setup, teardown),
    };

    return cmocka_run_group_tests_name("hchecks", tests, NULL, NULL);
}
