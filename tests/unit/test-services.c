/* SPDX-License-Identifier: Apache-2.0 */
/* Services into the flow table, case by case; test-agent-property.c has the
 * random histories. */

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <openvswitch/vlog.h>
#include <util.h>

#include "../../src/agent/services.h"

#define N_CYCLES 1000

struct fixture {
    struct cfg cfg;
    struct model *model;
    struct flowtab *ft;
    struct services *services;
};

static int
setup(void **state)
{
    struct fixture *f = xzalloc(sizeof *f);

    cfg_init_defaults(&f->cfg);
    f->model = model_create("n1");
    f->ft = flowtab_create();
    f->services = services_create(f->model, f->ft, &f->cfg);
    *state = f;
    return 0;
}

static int
teardown(void **state)
{
    struct fixture *f = *state;

    flowtab_destroy(f->ft);
    services_destroy(f->services);
    model_destroy(f->model);
    cfg_uninit(&f->cfg);
    free(f);
    return 0;
}

static void
render(struct fixture *f)
{
    assert_true(services_run(f->services, LLONG_MAX));
}

/* Puts a Service of 10.96.0.'ip' with one port. */
static void
put_svc(struct fixture *f, const char *name, int64_t created_s, uint8_t ip)
{
    struct svc_port port = { .name = "", .proto = PROTO_TCP, .port = 80 };
    struct svc svc = {
        .meta = { .ns = "ns1",
                  .name = name,
                  .uid = "",
                  .created_s = created_s },
        .cluster_ips = { ip_from_v4(htonl(0x0a600000 + ip)) },
        .ports = &port,
        .n_ports = 1,
    };

    model_put_svc(f->model, svc_pack(&svc, model_pool(f->model)));
}

static void
delete_svc(struct fixture *f, const char *name)
{
    assert_true(model_delete(f->model, MODEL_SERVICES, "ns1", name));
}

/* Units by the name of their Service. */

struct find_ctx {
    const char *name;
    const struct unit *unit;
};

static void
find_cb(const struct unit *u, void *ctx_)
{
    struct find_ctx *ctx = ctx_;

    if (!strcmp(u->name, ctx->name)) {
        assert_null(ctx->unit);
        ctx->unit = u;
    }
}

static const struct unit *
find_unit(const struct fixture *f, const char *name)
{
    struct find_ctx ctx = { name, NULL };

    services_for_each(f->services, "ns1", name, find_cb, &ctx);
    return ctx.unit;
}

static void
count_cb(const struct fitem *want OVS_UNUSED,
         const struct fitem *have OVS_UNUSED, void *n_)
{
    size_t *n = n_;

    ++*n;
}

/* Checks which of two Services has their common address. */
static void
assert_has_address(const struct fixture *f, const char *winner,
                   const char *loser)
{
    const struct unit *w = find_unit(f, winner), *l = find_unit(f, loser);
    size_t n_w = 0, n_l = 0;

    flowtab_for_each(f->ft, unit_owner(w), count_cb, &n_w);
    flowtab_for_each(f->ft, unit_owner(l), count_cb, &n_l);
    assert_int_equal(n_w, 1);
    assert_int_equal(n_l, 0);
    assert_ptr_equal(services_find_winner(f->services, &l->claims.addrs[0]),
                     w);
    assert_false(w->conflict);
    assert_true(l->conflict);
}

static void
older_service_has_an_address_that_two_claim(void **state)
{
    struct fixture *f = *state;

    put_svc(f, "svc-a", 200, 1);
    put_svc(f, "svc-b", 100, 1);
    render(f);
    assert_has_address(f, "svc-b", "svc-a");

    put_svc(f, "svc-a", 50, 1);
    render(f);
    assert_has_address(f, "svc-a", "svc-b");
}

static void
of_equally_old_services_the_name_decides(void **state)
{
    static const char *const names[] = { "svc-c", "svc-a", "svc-e", "svc-b",
                                         "svc-d" };
    struct fixture *f = *state;

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        put_svc(f, names[i], 100, 1);
        render(f);
    }
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        if (strcmp(names[i], "svc-a")) {
            assert_has_address(f, "svc-a", names[i]);
        }
    }
    delete_svc(f, "svc-a");
    render(f);
    assert_has_address(f, "svc-b", "svc-c");
    assert_has_address(f, "svc-b", "svc-e");
}

static void
second_gets_the_address_when_the_first_goes(void **state)
{
    struct fixture *f = *state;

    put_svc(f, "svc-a", 100, 1);
    put_svc(f, "svc-b", 200, 1);
    render(f);
    assert_has_address(f, "svc-a", "svc-b");

    /* It moves away, and comes back. */
    put_svc(f, "svc-a", 100, 2);
    render(f);
    assert_false(find_unit(f, "svc-b")->conflict);
    assert_false(find_unit(f, "svc-b")->claims.addrs[0].lost);
    put_svc(f, "svc-a", 100, 1);
    render(f);
    assert_has_address(f, "svc-a", "svc-b");

    delete_svc(f, "svc-a");
    render(f);
    assert_false(find_unit(f, "svc-b")->conflict);
}

static void
id_does_not_stick_to_the_address(void **state)
{
    struct fixture *f = *state;
    uint32_t id;

    put_svc(f, "svc-b", 100, 1);
    render(f);
    id = find_unit(f, "svc-b")->object_id;
    delete_svc(f, "svc-b");
    put_svc(f, "svc-a", 100, 1);
    render(f);
    assert_int_not_equal(find_unit(f, "svc-a")->object_id, id);

    /* The address changes hands while the switch has the flow. */
    flowtab_dump_begin(f->ft);
    flowtab_dump_end(f->ft);
    flowtab_batch_done(f->ft, flowtab_take(f->ft, 10, 10000));
    delete_svc(f, "svc-a");
    put_svc(f, "svc-b", 100, 1);
    render(f);
    assert_int_equal(find_unit(f, "svc-b")->object_id, id);
}

static void
b7_ids_do_not_leak(void **state)
{
    struct fixture *f = *state;
    struct flowtab_stats stats;
    uint32_t id = 0;

    for (int i = 0; i < N_CYCLES; i++) {
        put_svc(f, "svc-a", i, (uint8_t) i);
        render(f);
        if (!i) {
            id = find_unit(f, "svc-a")->object_id;
        }
        assert_int_equal(find_unit(f, "svc-a")->object_id, id);
        delete_svc(f, "svc-a");
        if (i % 2) {
            render(f);
        }
    }
    render(f);
    assert_null(find_unit(f, "svc-a"));
    flowtab_get_stats(f->ft, &stats);
    assert_int_equal(stats.n_flows + stats.n_groups, 0);
}

/* What changed in the cluster IPs, as "+1 -2": the last bytes. */
static const char *
ip_changes(struct fixture *f)
{
    static char buf[256];
    size_t n;
    struct addr_change *changes = services_take_addr_changes(f->services, &n);

    buf[0] = '\0';
    for (size_t i = 0; i < n; i++) {
        snprintf(buf + strlen(buf), sizeof buf - strlen(buf), "%s%c%d",
                 i ? " " : "", changes[i].gone ? '-' : '+',
                 ntohl(ip_v4(&changes[i].ip)) & 0xff);
    }
    free(changes);
    return buf;
}

static void
changes_of_cluster_ips_are_handed_out_once(void **state)
{
    struct fixture *f = *state;

    f->cfg.antrea_proxy_proxy_all = true;
    put_svc(f, "svc-a", 1, 1);
    put_svc(f, "svc-b", 2, 2);
    render(f);
    assert_string_equal(ip_changes(f), "+1 +2");
    assert_string_equal(ip_changes(f), "");

    model_mark_all_dirty(f->model);
    render(f);
    assert_string_equal(ip_changes(f), "");

    put_svc(f, "svc-a", 1, 3);
    render(f);
    delete_svc(f, "svc-b");
    render(f);
    assert_string_equal(ip_changes(f), "+3 -1 -2");

    f->cfg.antrea_proxy_proxy_all = false;
    put_svc(f, "svc-a", 1, 4);
    render(f);
    assert_string_equal(ip_changes(f), "");
}

int
main(void)
{
#define TEST(NAME) cmocka_unit_test_setup_teardown(NAME, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(older_service_has_an_address_that_two_claim),
        TEST(of_equally_old_services_the_name_decides),
        TEST(second_gets_the_address_when_the_first_goes),
        TEST(id_does_not_stick_to_the_address),
        TEST(b7_ids_do_not_leak),
        TEST(changes_of_cluster_ips_are_handed_out_once),
    };

    vlog_set_levels(NULL, VLF_CONSOLE, VLL_OFF);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
