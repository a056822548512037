/* SPDX-License-Identifier: Apache-2.0 */
/* What is for a cluster IP but none of its ports: whose flow it is. */

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <openvswitch/vlog.h>
#include <util.h>

#include "../support/svcfix.h"

/* Puts a Service of 10.96.0.1 with one port, or none if 'number' is 0. */
static void
put_svc(struct svcfix *f, const char *name, int64_t created_s, uint16_t number)
{
    struct svc_port port = { .name = "", .proto = PROTO_TCP, .port = number };
    struct svc svc = {
        .meta = { .ns = "ns1",
                  .name = name,
                  .uid = "",
                  .created_s = created_s },
        .cluster_ips = { ip_from_v4(htonl(0x0a600001)) },
        .ports = &port,
        .n_ports = number != 0,
    };

    model_put_svc(f->model, svc_pack(&svc, model_pool(f->model)));
    svcfix_render(f);
}

static void
delete_svc(struct svcfix *f, const char *name)
{
    assert_true(model_delete(f->model, MODEL_SERVICES, "ns1", name));
    svcfix_render(f);
}

static void
find_cookie(const struct fitem *want, const struct fitem *have OVS_UNUSED,
            void *cookie_)
{
    uint64_t *cookie = cookie_;

    if (cookie_category(fitem_cookie(want)) == COOKIE_CLUSTER_IP) {
        assert_int_equal(*cookie, 0);
        *cookie = fitem_cookie(want);
    }
}

/* Returns whose flow the only one for a cluster IP is, or "-" if there is
 * none. */
static const char *
owner(const struct svcfix *f)
{
    const struct clusterip *c;
    uint64_t cookie = 0;

    flowtab_for_each(f->ft, UINT64_MAX, find_cookie, &cookie);
    c = services_find_cluster_ip(f->services, cookie);
    assert_int_equal(c != NULL, cookie != 0);
    return c ? c->full_name : "-";
}

static void
older_service_has_the_address_of_two(void **state)
{
    struct svcfix *f = *state;

    put_svc(f, "svc-b", 2, 81);
    assert_string_equal(owner(f), "ns1/svc-b");
    put_svc(f, "svc-a", 1, 80);
    assert_string_equal(owner(f), "ns1/svc-a");
    put_svc(f, "svc-a", 3, 80);
    assert_string_equal(owner(f), "ns1/svc-b");
    put_svc(f, "svc-b", 3, 81);
    assert_string_equal(owner(f), "ns1/svc-a"); /* By name. */
    delete_svc(f, "svc-a");
    assert_string_equal(owner(f), "ns1/svc-b");
    delete_svc(f, "svc-b");
    assert_string_equal(owner(f), "-");
}

/* Both claim the same port; the rest goes by the same rule. */
static void
service_that_lost_its_port_waits_for_the_rest_too(void **state)
{
    struct svcfix *f = *state;

    put_svc(f, "svc-a", 1, 80);
    put_svc(f, "svc-b", 2, 80);
    assert_string_equal(owner(f), "ns1/svc-a");
    delete_svc(f, "svc-a");
    assert_string_equal(owner(f), "ns1/svc-b");
}

static void
service_without_ports_rejects_nothing(void **state)
{
    struct svcfix *f = *state;

    put_svc(f, "svc-a", 1, 80);
    assert_string_equal(owner(f), "ns1/svc-a");
    put_svc(f, "svc-a", 1, 0);
    assert_string_equal(owner(f), "-");
    assert_null(services_cluster_ip(f->services, "ns1", "svc-a", IP_V4));
}

static void
skipped_service_gives_the_address_back(void **state)
{
    struct svcfix *f = *state;

    put_svc(f, "svc-a", 1, 80);
    f->cfg.antrea_proxy_enable = false;
    model_mark_all_dirty(f->model);
    svcfix_render(f);
    assert_string_equal(owner(f), "-");
}

#define TEST(NAME) \
    cmocka_unit_test_setup_teardown(NAME, svcfix_setup, svcfix_teardown)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(older_service_has_the_address_of_two),
        TEST(service_that_lost_its_port_waits_for_the_rest_too),
        TEST(service_without_ports_rejects_nothing),
        TEST(skipped_service_gives_the_address_back),
    };

    vlog_set_levels(NULL, VLF_CONSOLE, VLL_OFF);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
