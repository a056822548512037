/* SPDX-License-Identifier: Apache-2.0 */
/* Endpoints that are cluster IPs: what they lead to, and who is told of those
 * that lead round. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <openvswitch/vlog.h>
#include <util.h>

#include "../support/svcfix.h"

/* Puts a Service of 10.96.0.'ip' with one port. */
static void
put_svc(struct svcfix *f, const char *name, uint8_t ip)
{
    struct svc_port port = { .name = "", .proto = PROTO_TCP, .port = 80 };
    struct svc svc = {
        .meta = { .ns = "ns1", .name = name, .uid = "" },
        .cluster_ips = { ip_from_v4(htonl(0x0a600000 + ip)) },
        .ports = &port,
        .n_ports = 1,
    };

    model_put_svc(f->model, svc_pack(&svc, model_pool(f->model)));
}

static void
delete_svc(struct svcfix *f, const char *name)
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
find_unit(const struct svcfix *f, const char *name)
{
    struct find_ctx ctx = { name, NULL };

    services_for_each(f->services, "ns1", name, find_cb, &ctx);
    return ctx.unit;
}

static void
put_slice(struct svcfix *f, const char *svc, uint8_t cluster_ip)
{
    const struct ip ip = ip_from_v4(htonl(0x0a600000 + cluster_ip));
    struct slice_endpoint ep = { .ip = ip, .ready = true, .serving = true };
    struct slice_port port = { .name = "", .proto = PROTO_TCP, .port = 80 };
    struct slice slice = {
        .meta = { .ns = "ns1", .name = svc, .uid = "" },
        .service = svc,
        .family = IP_V4,
        .endpoints = &ep,
        .n_endpoints = 1,
        .ports = &port,
        .n_ports = 1,
    };

    model_put_slice(f->model, slice_pack(&slice, model_pool(f->model)));
}

/* Checks where the endpoint 10.96.0.'cluster_ip' of 'svc' leads to, and
 * whether the Service's owner was told. */
static void
assert_nested(struct svcfix *f, const char *svc, uint8_t cluster_ip,
              enum nesting expected, bool told)
{
    struct eps eps = { .ip = ip_from_v4(htonl(0x0a600000 + cluster_ip)),
                       .port = 80,
                       .nested = true };
    const struct unit *to;

    svcfix_render(f);
    assert_int_equal(services_find_nested(f->services, find_unit(f, svc), &eps,
                                          &to),
                     expected);
    assert_int_equal(to == NULL, expected == NESTING_NOBODY);
    assert_int_equal(find_unit(f, svc)->told_nesting, told);
}

static void
endpoints_that_lead_round_are_told(void **state)
{
    struct svcfix *f = *state;
    struct cidr services = { ip_from_v4(htonl(0x0a600000)), 16 };

    services_set_nesting(f->services, &services, 1);
    put_svc(f, "svc-a", 1);
    put_slice(f, "svc-a", 1);
    assert_nested(f, "svc-a", 1, NESTING_ITSELF, true);

    put_slice(f, "svc-a", 2);
    assert_nested(f, "svc-a", 2, NESTING_NOBODY, false);
    put_svc(f, "svc-b", 2);
    assert_nested(f, "svc-a", 2, NESTING_SERVICE, false);

    /* The other one becomes what leads round, and this one is not rendered. */
    put_slice(f, "svc-b", 3);
    assert_nested(f, "svc-a", 2, NESTING_ROUND, true);
    assert_false(find_unit(f, "svc-b")->told_nesting);
    put_slice(f, "svc-b", 1);
    assert_nested(f, "svc-b", 1, NESTING_ROUND, true);
    assert_true(model_delete(f->model, MODEL_SLICES, "ns1", "svc-b"));
    assert_nested(f, "svc-a", 2, NESTING_SERVICE, false);
    delete_svc(f, "svc-a");
    delete_svc(f, "svc-b");
    svcfix_render(f);
}

/* What has gone, or has another address, and comes back is told of again,
 * though the one that names it is not rendered. */
static void
what_comes_back_is_told_again(void **state)
{
    struct svcfix *f = *state;
    struct cidr services = { ip_from_v4(htonl(0x0a600000)), 16 };

    services_set_nesting(f->services, &services, 1);
    put_svc(f, "svc-a", 1);
    put_slice(f, "svc-a", 2);
    put_svc(f, "svc-b", 2);
    put_slice(f, "svc-b", 3);
    assert_nested(f, "svc-a", 2, NESTING_ROUND, true);

    delete_svc(f, "svc-b");
    assert_nested(f, "svc-a", 2, NESTING_NOBODY, false);
    put_svc(f, "svc-b", 2);
    assert_nested(f, "svc-a", 2, NESTING_ROUND, true);

    put_svc(f, "svc-b", 4);
    assert_nested(f, "svc-a", 2, NESTING_NOBODY, false);
    put_svc(f, "svc-b", 2);
    assert_nested(f, "svc-a", 2, NESTING_ROUND, true);

    delete_svc(f, "svc-a");
    delete_svc(f, "svc-b");
    svcfix_render(f);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(endpoints_that_lead_round_are_told,
                                        svcfix_setup, svcfix_teardown),
        cmocka_unit_test_setup_teardown(what_comes_back_is_told_again,
                                        svcfix_setup, svcfix_teardown),
    };

    vlog_set_levels(NULL, VLF_CONSOLE, VLL_OFF);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
