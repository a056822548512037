/* SPDX-License-Identifier: Apache-2.0 */
/* The decision table services.md 2.5: for each line what the bridge is told,
 * read as struct pipe_service is to be read; and what else of a Service gets
 * there (antrea.md 9.1). */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <util.h>

#include "../../src/agent/portsvc.h"
#include "../support/epsfix.h"

/* What a test is about: a Service with each kind of address. */
struct fixture {
    struct cfg cfg;
    struct model *model;
    struct svc_port port;
    struct ip external_ips[N_IP_FAMILIES];
    struct svc_ingress ingress[N_IP_FAMILIES];
    struct cidr range;
    struct svc svc; /* What is put into the model. */
};

static struct ip
ip(const char *s)
{
    struct ip ret;

    assert_int_equal(ip_from_string(s, &ret), 0);
    return ret;
}

static int
setup(void **state)
{
    struct fixture *f = xzalloc(sizeof *f);

    cfg_init_defaults(&f->cfg);
    f->cfg.antrea_proxy_proxy_all = true;
    f->model = model_create("n1");
    f->port = (struct svc_port){ "http", PROTO_TCP, 80, 30080 };
    f->external_ips[0] = ip("192.0.2.5");
    f->external_ips[1] = ip("2001:db8::5");
    f->ingress[0].ip = ip("192.0.2.6");
    f->ingress[1].ip = ip("2001:db8::6");
    f->svc = (struct svc){
        .meta = { "ns1", "svc-a", "u-1", 1, 1 },
        .type = SVC_LOAD_BALANCER,
        .cluster_ips = { ip("10.96.0.1"), ip("2001:db8:96::1") },
        .ports = &f->port,
        .n_ports = 1,
        .external_ips = f->external_ips,
        .n_external_ips = N_IP_FAMILIES,
        .ingress = f->ingress,
        .n_ingress = N_IP_FAMILIES,
        .source_ranges = &f->range,
    };
    *state = f;
    return 0;
}

static int
teardown(void **state)
{
    struct fixture *f = *state;

    model_destroy(f->model);
    cfg_uninit(&f->cfg);
    free(f);
    return 0;
}

/* What is made of it, with what that points to. */
struct made {
    struct frontends frontends;
    struct portsvc p;
};

static void
make(struct fixture *f, enum ip_family family, struct made *ret)
{
    struct frontends_env env = { .cfg = &f->cfg };
    struct eps_place here = { "n1", "za" };
    const struct model_service *ms;

    model_put_svc(f->model, svc_pack(&f->svc, model_pool(f->model)));
    ms = model_find_service(f->model, "ns1", "svc-a");
    frontends_choose(&env, ms->svc, family, &ret->frontends);
    frontends_set_port(&ret->frontends, &ms->svc->ports[0]);
    portsvc_make(ms, &ms->svc->ports[0], &ret->frontends, &here, &ret->p);
}

static void
made_uninit(struct made *made)
{
    portsvc_uninit(&made->p);
    frontends_uninit(&made->frontends);
}

/* Who connects. */
enum source {
    LOCAL_POD,
    HOST,
    ELSEWHERE
};
#define N_SOURCES 3

/* Reads 'svc' as the comments in pipeline.h say: "REJECT", "DROP", or the
 * endpoints' names, with "+snat" where policy Cluster gives a connection from
 * outside a source of this node.  (The host's source on the bridge is the
 * gateway's, which is this node's.) */
static const char *
read_verdict(const struct pipe_service *svc,
             const struct pipe_frontend *frontend, enum source source,
             char buf[64])
{
    bool outer = frontend->kind != PIPE_CLUSTER_IP;
    bool short_circuit =
        outer && frontend->scope == PIPE_SCOPE_LOCAL && source != ELSEWHERE;
    enum pipe_scope scope =
        short_circuit ? PIPE_SCOPE_CLUSTER : frontend->scope;
    const struct pipe_target *target = &svc->targets[scope];
    size_t n = 0;

    switch (target->verdict) {
    case PIPE_REJECT: return "REJECT";
    case PIPE_DROP: return "DROP";
    case PIPE_SELECT: break;
    }
    assert_int_not_equal(target->n_eps, 0);
    for (size_t i = 0; i < target->n_eps; i++) {
        n += snprintf(buf + n, 64 - n, "%s%c", i ? "," : "",
                      target->eps[i].ip.in6.s6_addr[15]);
    }
    if (outer && frontend->scope == PIPE_SCOPE_CLUSTER) {
        snprintf(buf + n, 64 - n, "+snat");
    }
    return buf;
}

/* A line of the table. */
struct line {
    bool internal_local, external_local;
    const char *endpoints;
    const char *inside;             /* By cluster IP, from wherever. */
    const char *outside[N_SOURCES]; /* By each of the other addresses. */
};

static void
check_line(struct fixture *f, const struct line *line, enum ip_family family)
{
    struct made made;
    char buf[64];

    f->svc.internal_policy = line->internal_local;
    f->svc.external_policy = line->external_local;
    epsfix_put_all(f->model, family, "n1", line->endpoints);
    make(f, family, &made);
    assert_int_equal(made.p.svc.n_frontends, 4);
    assert_int_equal(made.p.svc.family, family);
    for (size_t i = 0; i < made.p.svc.n_frontends; i++) {
        const struct pipe_frontend *frontend = &made.p.svc.frontends[i];

        for (int source = 0; source < N_SOURCES; source++) {
            assert_string_equal(read_verdict(&made.p.svc, frontend, source,
                                             buf),
                                frontend->kind == PIPE_CLUSTER_IP
                                    ? line->inside
                                    : line->outside[source]);
        }
    }
    made_uninit(&made);
    assert_true(model_delete(f->model, MODEL_SLICES, "ns1", "s0"));
}

#define ALL(V)  \
    {           \
        V, V, V \
    }

/* Those with source ranges and those with SNAT of hairpins are the
 * pipeline's. */
static void
each_line_of_the_decision_table_holds(void **state)
{
    static const struct line lines[] = {
        /* Nobody has an endpoint. */
        { false, false, "", "REJECT", ALL("REJECT") },
        { false, true, "", "REJECT", ALL("REJECT") },
        { true, false, "", "REJECT", ALL("REJECT") },
        { true, true, "", "REJECT", ALL("REJECT") },
        { true, true, "a+l(N) b(N)", "REJECT", ALL("REJECT") },
        /* Only other nodes have. */
        { false, false, "a b", "a,b", ALL("a,b+snat") },
        { true, false, "a b", "DROP", ALL("a,b+snat") },
        { false, true, "a b", "a,b", { "a,b", "a,b", "DROP" } },
        { true, true, "a b", "DROP", { "a,b", "a,b", "DROP" } },
        /* This node has some. */
        { false, false, "a b+l", "a,b", ALL("a,b+snat") },
        { true, false, "a b+l", "b", ALL("a,b+snat") },
        { false, true, "a b+l", "a,b", { "a,b", "a,b", "b" } },
        { true, true, "a b+l", "b", { "a,b", "a,b", "b" } },
        /* Only this node has. */
        { false, false, "b+l", "b", ALL("b+snat") },
        { true, true, "b+l", "b", ALL("b") },
        /* Those that terminate stand in for each list by itself. */
        { false, false, "a(T) b+l(T)", "a,b", ALL("a,b+snat") },
        { true, true, "a b+l(T)", "b", { "a", "a", "b" } },
        { true, true, "a(T) b", "DROP", { "b", "b", "DROP" } },
        /* Hints are for policy Cluster. */
        { true, true, "a:za b+l:zb", "b", { "a", "a", "b" } },
        { true, true, "a+l/n9 b/n1", "a", { "b", "b", "a" } },
    };

    for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
        check_line(*state, &lines[i], IP_V4);
        check_line(*state, &lines[i], IP_V6);
    }
}

static void
affinity_and_ranges_get_through(void **state)
{
    static const uint32_t timeouts[] = { 0, 1, 10800, 65535, 65536, 86400 };
    struct fixture *f = *state;
    struct made made;

    for (size_t i = 0; i < ARRAY_SIZE(timeouts); i++) {
        f->svc.affinity_s = timeouts[i];
        make(f, IP_V4, &made);
        assert_int_equal(made.p.svc.affinity_s, timeouts[i]);
        assert_int_equal(made.p.svc.n_source_ranges, 0);
        made_uninit(&made);
    }
    f->range = (struct cidr){ ip("203.0.113.0"), 24 };
    f->svc.n_source_ranges = 1;
    make(f, IP_V4, &made);
    assert_int_equal(made.p.svc.n_source_ranges, 1);
    assert_true(ip_equals(&made.p.svc.source_ranges[0].ip, &f->range.ip));
    made_uninit(&made);
    make(f, IP_V6, &made);
    assert_int_equal(made.p.svc.n_source_ranges, 0);
    made_uninit(&made);
}

static void
families_have_endpoints_of_their_own(void **state)
{
    struct fixture *f = *state;
    struct made made;
    char buf[64];

    epsfix_put_all(f->model, IP_V6, "n1", "a");
    make(f, IP_V4, &made);
    assert_string_equal(read_verdict(&made.p.svc, &made.p.svc.frontends[0],
                                     ELSEWHERE, buf),
                        "REJECT");
    made_uninit(&made);
    make(f, IP_V6, &made);
    assert_string_equal(read_verdict(&made.p.svc, &made.p.svc.frontends[0],
                                     ELSEWHERE, buf),
                        "a");
    made_uninit(&made);
}

static void
only_a_single_udp_port_takes_fragments(void **state)
{
    struct fixture *f = *state;
    struct svc_port ports[] = { { "a", PROTO_UDP, 53, 0 },
                                { "b", PROTO_TCP, 53, 0 },
                                { "http", PROTO_UDP, 54, 0 } };
    struct made made;

    f->svc.ports = ports;
    f->svc.n_ports = 2;
    make(f, IP_V4, &made);
    assert_true(made.p.svc.takes_fragments);
    made_uninit(&made);
    f->svc.n_ports = 3;
    make(f, IP_V4, &made);
    assert_false(made.p.svc.takes_fragments);
    made_uninit(&made);
}

int
main(void)
{
#define TEST(NAME) cmocka_unit_test_setup_teardown(NAME, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(each_line_of_the_decision_table_holds),
        TEST(affinity_and_ranges_get_through),
        TEST(families_have_endpoints_of_their_own),
        TEST(only_a_single_udp_port_takes_fragments),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
