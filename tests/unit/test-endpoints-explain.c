/* SPDX-License-Identifier: Apache-2.0 */
/* Why endpoints are used or not.  That the explanation agrees with the choice
 * is checked with every row of test-endpoints.c (epsfix.c); here is which
 * reason is given. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <openvswitch/dynamic-string.h>
#include <util.h>

#include "../support/epsfix.h"
#include "ofproxyd/model/endpoints.h"

static const char *
symbol(enum eps_reason reason)
{
    switch (reason) {
#define EPS_REASON(SYM, WORDS) \
    case EPS_##SYM: return #SYM;
        EPS_REASONS
#undef EPS_REASON
    }
    return "?";
}

/* "a CLUSTER/LOCAL" for each endpoint, in order. */
static void
format(const struct eps_explanation *e, struct ds *ds)
{
    for (size_t i = 0; i < e->n; i++) {
        const struct eps_verdict *v = &e->verdicts[i];

        ds_put_format(ds, "%s%c %s/%s", i ? ", " : "",
                      v->eps.ip.in6.s6_addr[15], symbol(v->cluster),
                      symbol(v->local));
    }
}

struct row {
    const char *policies, *endpoints, *reasons;
};

static void
check_row(const struct row *row)
{
    struct model *m = model_create("n1");
    struct eps_place here = { "n1", "za" };
    const struct model_service *ms;
    struct eps_explanation e;
    struct ds ds = DS_EMPTY_INITIALIZER;

    epsfix_put_svc(m, row->policies);
    epsfix_put_all(m, IP_V4, "n1", row->endpoints);
    ms = model_find_service(m, "ns1", "svc-a");
    eps_explain(ms, &ms->svc->ports[0], IP_V4, &here, &e);
    format(&e, &ds);
    assert_string_equal(ds_cstr(&ds), row->reasons);
    eps_explanation_uninit(&e);
    ds_destroy(&ds);
    model_destroy(m);
}

static void
each_endpoint_has_its_reason(void **state OVS_UNUSED)
{
    static const struct row rows[] = {
        { "", "", "" },
        { "", "a b(N)", "a USED/UNNEEDED, b UNREADY/UNNEEDED" },
        { "iL", "a+l b+l(N) c",
          "a UNNEEDED/USED, b UNNEEDED/UNREADY, c UNNEEDED/REMOTE" },
        /* Terminating. */
        { "", "a b(T) c(001)",
          "a USED/UNNEEDED, b SPARED/UNNEEDED, c ENDED/UNNEEDED" },
        { "", "a(T) b(001) c(N)",
          "a DRAINING/UNNEEDED, b ENDED/UNNEEDED, c UNREADY/UNNEEDED" },
        { "eL x", "a b+l(T)", "a USED/REMOTE, b SPARED/DRAINING" },
        { "eL x", "a+l b+l(T)", "a USED/USED, b SPARED/SPARED" },
        { "eL x", "a+l(N)", "a UNREADY/UNREADY" },
        /* Hints. */
        { "", "a:za b:zb c(T):za",
          "a USED/UNNEEDED, b OTHER_ZONE/UNNEEDED, c SPARED/UNNEEDED" },
        { "", "a:za/n1 b:za/n2", "a USED/UNNEEDED, b OTHER_NODE/UNNEEDED" },
        { "", "a:zb b:zc", "a USED/UNNEEDED, b USED/UNNEEDED" },
        { "eL x", "a:za b+l:zb", "a USED/REMOTE, b OTHER_ZONE/USED" },
        /* Duplicates. */
        { "", "a(001) | a", "a USED/UNNEEDED, a DUPLICATE/UNNEEDED" },
        { "eL x", "a+l | a(T) b",
          "a USED/USED, a DUPLICATE/DUPLICATE, b USED/REMOTE" },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        check_row(&rows[i]);
    }
}

/* Puts a slice "odd" with one endpoint "z" and 'port'. */
static void
put_odd_slice(struct model *m, enum ip_family family, struct slice_port *port)
{
    struct slice_endpoint ep = {
        .ip = epsfix_ip(family, 'z'),
        .ready = true,
        .serving = true,
    };

    model_put_slice(m, slice_pack(
                           &(struct slice){
                               .meta = { "ns1", "odd", "", 9, 0 },
                               .service = "svc-a",
                               .family = family,
                               .ports = port,
                               .n_ports = port ? 1 : 0,
                               .endpoints = &ep,
                               .n_endpoints = 1,
                           },
                           model_pool(m)));
}

static void
slices_that_do_not_match_are_told(void **state OVS_UNUSED)
{
    static const struct {
        enum ip_family family;
        struct slice_port port;
        bool no_port;
        const char *reasons;
    } rows[] = {
        { IP_V4,
          { "http", PROTO_TCP, 8081 },
          false,
          "a UNNEEDED/REMOTE, z UNNEEDED/NODELESS" },
        { IP_V4,
          { "web", PROTO_TCP, 8080 },
          false,
          "a UNNEEDED/REMOTE, z NO_PORT/NO_PORT" },
        { IP_V4,
          { "http", PROTO_UDP, 8080 },
          false,
          "a UNNEEDED/REMOTE, z OTHER_PROTO/OTHER_PROTO" },
        { IP_V4,
          { "", PROTO_TCP, 8080 },
          true,
          "a UNNEEDED/REMOTE, z NO_PORT/NO_PORT" },
        { IP_V6,
          { "http", PROTO_TCP, 8080 },
          false,
          "a UNNEEDED/REMOTE, z OTHER_FAMILY/OTHER_FAMILY" },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct model *m = model_create("n1");
        struct eps_place here = { "n1", "za" };
        const struct model_service *ms;
        struct slice_port port = rows[i].port;
        struct eps_explanation e;
        struct ds ds = DS_EMPTY_INITIALIZER;

        epsfix_put_svc(m, "iL");
        epsfix_put_all(m, IP_V4, "n1", "a");
        put_odd_slice(m, rows[i].family, rows[i].no_port ? NULL : &port);
        ms = model_find_service(m, "ns1", "svc-a");
        eps_explain(ms, &ms->svc->ports[0], IP_V4, &here, &e);
        format(&e, &ds);
        assert_string_equal(ds_cstr(&ds), rows[i].reasons);
        eps_explanation_uninit(&e);
        ds_destroy(&ds);
        model_destroy(m);
    }
}

/* Where the endpoint is that stands for a duplicate. */
static void
a_duplicate_names_the_other_slice(void **state OVS_UNUSED)
{
    struct model *m = model_create("n1");
    struct eps_place here = { "n1", "za" };
    const struct model_service *ms;
    struct eps_explanation e;

    epsfix_put_svc(m, "");
    epsfix_put_all(m, IP_V4, "n1", "a(N) | a | a(001) b");
    ms = model_find_service(m, "ns1", "svc-a");
    eps_explain(ms, &ms->svc->ports[0], IP_V4, &here, &e);
    assert_int_equal(e.n, 4);
    assert_null(e.verdicts[0].other);
    assert_string_equal(e.verdicts[0].slice->meta.name, "s1");
    for (int i = 1; i < 3; i++) {
        assert_int_equal(e.verdicts[i].cluster, EPS_DUPLICATE);
        assert_string_equal(e.verdicts[i].other->meta.name, "s1");
    }
    assert_string_equal(e.verdicts[1].slice->meta.name, "s0");
    assert_string_equal(e.verdicts[2].slice->meta.name, "s2");
    eps_explanation_uninit(&e);
    model_destroy(m);
}

static void
every_reason_has_words(void **state OVS_UNUSED)
{
    for (int i = EPS_USED; i <= EPS_OTHER_ZONE; i++) {
        assert_true(eps_reason_string(i)[0]);
        assert_int_equal(eps_reason_is_used(i), i <= EPS_DRAINING);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_endpoint_has_its_reason),
        cmocka_unit_test(slices_that_do_not_match_are_told),
        cmocka_unit_test(a_duplicate_names_the_other_slice),
        cmocka_unit_test(every_reason_has_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
