/* SPDX-License-Identifier: Apache-2.0 */
/* Which networks cluster IPs are of, and which can't be. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <openvswitch/vlog.h>
#include <util.h>

#include "../../src/agent/svccidrs.h"

struct fixture {
    struct cfg cfg;
    struct model *model;
    struct uplink_state uplink;
    struct svccidrs *sc;
};

static struct ip
ip(const char *s)
{
    struct ip ret;

    assert_int_equal(ip_from_string(s, &ret), 0);
    return ret;
}

static struct cidr
cidr(const char *s)
{
    struct cidr ret;

    assert_int_equal(cidr_parse(s, &ret), 0);
    return ret;
}

static int
setup(void **state)
{
    struct fixture *f = xzalloc(sizeof *f);
    struct ip server = ip("192.0.2.1");

    cfg_init_defaults(&f->cfg);
    f->model = model_create("n1");
    f->uplink.seqno = 1;
    f->uplink.addrs[IP_V4] = cidr("192.0.2.11/24");
    f->sc = svccidrs_create(f->model, &f->cfg, &server);
    *state = f;
    return 0;
}

static int
teardown(void **state)
{
    struct fixture *f = *state;

    svccidrs_destroy(f->sc);
    model_destroy(f->model);
    cfg_uninit(&f->cfg);
    free(f);
    return 0;
}

/* Puts a ServiceCIDR of one network, or two. */
static void
put(struct fixture *f, const char *name, const char *a, const char *b)
{
    struct service_cidr c = { .meta = { .ns = "", .name = name, .uid = "" } };

    c.cidrs[c.n_cidrs++] = cidr(a);
    if (b) {
        c.cidrs[c.n_cidrs++] = cidr(b);
    }
    model_put_plain(f->model, MODEL_SERVICE_CIDRS,
                    &service_cidr_pack(&c, model_pool(f->model))->meta);
}

/* Puts a Node with an address and a pod network. */
static void
put_node(struct fixture *f, const char *address, const char *pods)
{
    struct node_address a = { .ip = ip(address) };
    struct cidr pod_cidr = cidr(pods);
    struct node node = {
        .meta = { .ns = "", .name = "n2", .uid = "" },
        .zone = "",
        .pod_cidrs = &pod_cidr,
        .n_pod_cidrs = 1,
        .addresses = &a,
        .n_addresses = 1,
    };

    model_put_node(f->model, node_pack(&node, model_pool(f->model)));
}

/* Checks what status says: the networks, and those that are left out. */
static void
check(struct fixture *f, const char *expected)
{
    struct ds ds = DS_EMPTY_INITIALIZER;

    svccidrs_run(f->sc, &f->uplink);
    svccidrs_format(f->sc, &ds);
    assert_string_equal(ds_cstr(&ds), expected);
    ds_destroy(&ds);
}

static void
keys_and_objects_add_up(void **state)
{
    struct fixture *f = *state;
    uint64_t seqno;
    struct ip in = ip("10.97.1.1"), out = ip("10.128.0.1");

    check(f, "Service networks: none\n");
    f->cfg.service_cidr.present = true;
    f->cfg.service_cidr.cidr = cidr("10.97.0.0/16");
    put(f, "c1", "10.98.0.0/24", "2001:db8:96::/112");
    check(f, "Service networks: 10.97.0.0/16 10.98.0.0/24 "
             "2001:db8:96::/112\n");
    assert_true(svccidrs_contain(f->sc, &in));
    assert_false(svccidrs_contain(f->sc, &out));

    /* The same once more is no change, nor is one within another. */
    seqno = svccidrs_seqno(f->sc);
    put(f, "c2", "10.98.0.128/25", NULL);
    check(f, "Service networks: 10.97.0.0/16 10.98.0.0/24 "
             "2001:db8:96::/112\n");
    assert_int_equal(svccidrs_seqno(f->sc), seqno);

    /* Which counts when the other one goes. */
    model_delete(f->model, MODEL_SERVICE_CIDRS, "", "c1");
    check(f, "Service networks: 10.97.0.0/16 10.98.0.128/25\n");
    assert_true(svccidrs_seqno(f->sc) > seqno);
}

static void
network_with_somebody_elses_address_is_left_out(void **state)
{
    static const struct {
        const char *net, *why;
    } cases[] = {
        { "192.0.2.0/28", "the API server's address is in it" },
        { "192.0.2.8/29", "this node's own address is in it" },
        { "198.51.100.0/24", "an address of Node n2 is in it" },
        { "10.10.0.0/16", "it overlaps the pod network 10.10.2.0/24 of Node "
                          "n2" },
        { "10.10.2.128/25", "it overlaps the pod network 10.10.2.0/24 of Node "
                            "n2" },
        { "8.0.0.0/7", "it is too large" },
        { "169.254.0.0/16", "its addresses can't be those of Services" },
        { "224.0.0.0/8", "its addresses can't be those of Services" },
    };
    struct fixture *f = *state;

    put_node(f, "198.51.100.2", "10.10.2.0/24");
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char *expected =
            xasprintf("Service networks: 10.96.0.0/12\nServiceCIDR c1: %s is "
                      "not used: %s\n",
                      cases[i].net, cases[i].why);

        put(f, "c1", "10.96.0.0/12", cases[i].net);
        check(f, expected);
        free(expected);
    }
    put_node(f, "198.51.100.2", "0.0.0.0/0"); /* No pod network at all. */
    put(f, "c1", "10.10.2.128/25", NULL);
    check(f, "Service networks: 10.10.2.128/25\n");
    model_delete(f->model, MODEL_NODES, "", "n2");
    put(f, "c1", "10.10.2.128/25", NULL);
    check(f, "Service networks: 10.10.2.128/25\n");
    f->uplink.seqno++;
    f->uplink.addrs[IP_V4] = cidr("10.10.2.130/24");
    check(f, "Service networks: none\nServiceCIDR c1: 10.10.2.128/25 is not "
             "used: this node's own address is in it\n");
}

static void
api_server_behind_a_service_is_no_flaw(void **state)
{
    struct svc svc = {
        .meta = { .ns = "default", .name = "kubernetes", .uid = "" },
        .cluster_ips = { ip("192.0.2.1") }
    };
    struct fixture *f = *state;

    model_put_svc(f->model, svc_pack(&svc, model_pool(f->model)));
    put(f, "c1", "192.0.2.0/29", NULL);
    check(f, "Service networks: 192.0.2.0/29\n");
}

#define TEST(NAME) cmocka_unit_test_setup_teardown(NAME, setup, teardown)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(keys_and_objects_add_up),
        TEST(network_with_somebody_elses_address_is_left_out),
        TEST(api_server_behind_a_service_is_no_flaw),
    };

    vlog_set_levels(NULL, VLF_CONSOLE, VLL_OFF);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
