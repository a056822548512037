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

#include "../support/svcfix.h"

#define N_CYCLES 1000

/* Puts a Service of 10.96.0.'ip' with one port. */
static void
put_svc(struct svcfix *f, const char *name, int64_t created_s, uint8_t ip)
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
count_cb(const struct fitem *want OVS_UNUSED,
         const struct fitem *have OVS_UNUSED, void *n_)
{
    size_t *n = n_;

    ++*n;
}

/* Checks which of two Services has their common address. */
static void
assert_has_address(const struct svcfix *f, const char *winner,
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
    struct svcfix *f = *state;

    put_svc(f, "svc-a", 200, 1);
    put_svc(f, "svc-b", 100, 1);
    svcfix_render(f);
    assert_has_address(f, "svc-b", "svc-a");

    put_svc(f, "svc-a", 50, 1);
    svcfix_render(f);
    assert_has_address(f, "svc-a", "svc-b");
}

static void
of_equally_old_services_the_name_decides(void **state)
{
    static const char *const names[] = { "svc-c", "svc-a", "svc-e", "svc-b",
                                         "svc-d" };
    struct svcfix *f = *state;

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        put_svc(f, names[i], 100, 1);
        svcfix_render(f);
    }
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        if (strcmp(names[i], "svc-a")) {
            assert_has_address(f, "svc-a", names[i]);
        }
    }
    delete_svc(f, "svc-a");
    svcfix_render(f);
    assert_has_address(f, "svc-b", "svc-c");
    assert_has_address(f, "svc-b", "svc-e");
}

static void
second_gets_the_address_when_the_first_goes(void **state)
{
    struct svcfix *f = *state;

    put_svc(f, "svc-a", 100, 1);
    put_svc(f, "svc-b", 200, 1);
    svcfix_render(f);
    assert_has_address(f, "svc-a", "svc-b");

    /* It moves away, and comes back. */
    put_svc(f, "svc-a", 100, 2);
    svcfix_render(f);
    assert_false(find_unit(f, "svc-b")->conflict);
    assert_false(find_unit(f, "svc-b")->claims.addrs[0].lost);
    put_svc(f, "svc-a", 100, 1);
    svcfix_render(f);
    assert_has_address(f, "svc-a", "svc-b");

    delete_svc(f, "svc-a");
    svcfix_render(f);
    assert_false(find_unit(f, "svc-b")->conflict);
}

static void
id_does_not_stick_to_the_address(void **state)
{
    struct svcfix *f = *state;
    uint32_t id;

    put_svc(f, "svc-b", 100, 1);
    svcfix_render(f);
    id = find_unit(f, "svc-b")->object_id;
    delete_svc(f, "svc-b");
    put_svc(f, "svc-a", 100, 1);
    svcfix_render(f);
    assert_int_not_equal(find_unit(f, "svc-a")->object_id, id);

    /* The address changes hands while the switch has the flow. */
    flowtab_dump_begin(f->ft);
    flowtab_dump_end(f->ft);
    flowtab_batch_done(f->ft, flowtab_take(f->ft, 10, 10000));
    delete_svc(f, "svc-a");
    put_svc(f, "svc-b", 100, 1);
    svcfix_render(f);
    assert_int_equal(find_unit(f, "svc-b")->object_id, id);
}

static void
b7_ids_do_not_leak(void **state)
{
    struct svcfix *f = *state;
    struct flowtab_stats stats;
    uint32_t id = 0;

    for (int i = 0; i < N_CYCLES; i++) {
        put_svc(f, "svc-a", i, (uint8_t) i);
        svcfix_render(f);
        if (!i) {
            id = find_unit(f, "svc-a")->object_id;
        }
        assert_int_equal(find_unit(f, "svc-a")->object_id, id);
        delete_svc(f, "svc-a");
        if (i % 2) {
            svcfix_render(f);
        }
    }
    svcfix_render(f);
    assert_null(find_unit(f, "svc-a"));
    flowtab_get_stats(f->ft, &stats);
    assert_int_equal(stats.n_flows + stats.n_groups, 0);
}

/* What changed in the addresses, as "+1 -2 -n30080": the last bytes, or
 * NodePorts.  Those of IPv6 begin with "6". */
static const char *
ip_changes(struct svcfix *f)
{
    static char buf[512];
    size_t n;
    struct addr_change *changes = services_take_addr_changes(f->services, &n);

    buf[0] = '\0';
    for (size_t i = 0; i < n; i++) {
        const struct addr_change *c = &changes[i];
        bool is_node_port = c->kind == PIPE_NODE_PORT;

        assert_int_equal(ip_is_none(&c->ip), is_node_port);
        snprintf(buf + strlen(buf), sizeof buf - strlen(buf), "%s%c%s%s%d",
                 i ? " " : "", c->gone ? '-' : '+',
                 c->family == IP_V6 ? "6" : "", is_node_port ? "n" : "",
                 is_node_port ? c->port : c->ip.in6.s6_addr[15]);
    }
    free(changes);
    return buf;
}

static void
changes_of_cluster_ips_are_handed_out_once(void **state)
{
    struct svcfix *f = *state;

    f->cfg.antrea_proxy_proxy_all = true;
    put_svc(f, "svc-a", 1, 1);
    put_svc(f, "svc-b", 2, 2);
    svcfix_render(f);
    assert_string_equal(ip_changes(f), "+1 +2");
    assert_string_equal(ip_changes(f), "");

    model_mark_all_dirty(f->model);
    svcfix_render(f);
    assert_string_equal(ip_changes(f), "");

    put_svc(f, "svc-a", 1, 3);
    svcfix_render(f);
    delete_svc(f, "svc-b");
    svcfix_render(f);
    assert_string_equal(ip_changes(f), "+3 -1 -2");

    f->cfg.antrea_proxy_proxy_all = false;
    put_svc(f, "svc-a", 1, 4);
    svcfix_render(f);
    assert_string_equal(ip_changes(f), "");
}

/* Services of all kinds. */

static struct ip
make_ip(enum ip_family family, uint8_t n)
{
    struct ip v6 = { .in6.s6_addr = { 0x20, 0x01, 0x0d, 0xb8, [15] = n } };

    return family == IP_V6 ? v6 : ip_from_v4(htonl(0xc0000200 + n));
}

/* A Service that a test changes and puts again.  Lists are those of one
 * element that are not 0. */
struct spec {
    const char *name;
    int64_t created_s;
    enum svc_type type;
    uint8_t ip, ip6; /* Cluster IPs. */
    const char *port_name;
    uint16_t port, node_port;
    uint8_t external_ips[4], vips[4], proxied[4];
    uint8_t range; /* A /32. */
    bool external_local, internal_local;
    uint32_t affinity_s;
};

static void
put_spec(struct svcfix *f, const struct spec *spec)
{
    struct svc_port port = { .name = spec->port_name ? spec->port_name : "",
                             .port = spec->port ? spec->port : 80,
                             .node_port = spec->node_port };
    struct ip external_ips[4];
    struct svc_ingress ingress[8];
    struct cidr range = { make_ip(IP_V4, spec->range), 32 };
    struct svc svc = {
        .meta = { .ns = "ns1",
                  .name = spec->name ? spec->name : "svc-a",
                  .uid = "",
                  .created_s = spec->created_s },
        .type = spec->type,
        .internal_policy = spec->internal_local,
        .external_policy = spec->external_local,
        .affinity_s = spec->affinity_s,
        .ports = &port,
        .n_ports = 1,
        .external_ips = external_ips,
        .ingress = ingress,
        .source_ranges = &range,
        .n_source_ranges = spec->range != 0,
    };

    if (spec->ip) {
        svc.cluster_ips[IP_V4] = ip_from_v4(htonl(0x0a600000 + spec->ip));
    }
    if (spec->ip6) {
        svc.cluster_ips[IP_V6] = make_ip(IP_V6, spec->ip6);
    }
    for (size_t i = 0; i < 4; i++) {
        if (spec->external_ips[i]) {
            external_ips[svc.n_external_ips++] =
                make_ip(IP_V4, spec->external_ips[i]);
        }
        if (spec->vips[i]) {
            ingress[svc.n_ingress++] =
                (struct svc_ingress){ make_ip(IP_V4, spec->vips[i]), false };
        }
        if (spec->proxied[i]) {
            ingress[svc.n_ingress++] =
                (struct svc_ingress){ make_ip(IP_V4, spec->proxied[i]), true };
        }
    }
    model_put_svc(f->model, svc_pack(&svc, model_pool(f->model)));
    svcfix_render(f);
}

static void
changes_are_right_over_every_transition(void **state)
{
    struct svcfix *f = *state;
    struct spec s = { .type = SVC_LOAD_BALANCER,
                      .ip = 1,
                      .node_port = 30080,
                      .vips = { 11, 12 },
                      .external_ips = { 21 } };

    f->cfg.antrea_proxy_proxy_all = true;
    put_spec(f, &s);
    assert_string_equal(ip_changes(f), "+1 +n30080 +11 +12 +21");

    s.node_port = 30081;
    put_spec(f, &s);
    assert_string_equal(ip_changes(f), "+n30081 -n30080");

    s.vips[0] = 13;
    put_spec(f, &s);
    assert_string_equal(ip_changes(f), "+13 -11");
    s.vips[0] = 0;
    s.proxied[0] = 13;
    put_spec(f, &s);
    assert_string_equal(ip_changes(f), "-13");
    /* From external IP to balancer's and back nothing is new. */
    s.vips[0] = 21;
    put_spec(f, &s);
    s.external_ips[0] = 0;
    put_spec(f, &s);
    assert_string_equal(ip_changes(f), "");

    /* The type alone makes no difference to what is there. */
    s.type = SVC_NODE_PORT;
    s.external_local = s.internal_local = true;
    s.affinity_s = 60;
    s.range = 7;
    put_spec(f, &s);
    assert_string_equal(ip_changes(f), "");
    s = (struct spec){ .type = SVC_CLUSTER_IP, .ip = 1 };
    put_spec(f, &s);
    assert_string_equal(ip_changes(f), "-n30081 -12 -21");

    s.external_ips[0] = 21;
    put_spec(f, &s);
    assert_string_equal(ip_changes(f), "+21");
    s.type = SVC_EXTERNAL_NAME;
    put_spec(f, &s);
    assert_string_equal(ip_changes(f), "-1 -21");
    s.type = SVC_CLUSTER_IP;
    put_spec(f, &s);
    assert_string_equal(ip_changes(f), "+1 +21");
    delete_svc(f, "svc-a");
    svcfix_render(f);
    assert_string_equal(ip_changes(f), "-1 -21");
}

static void
changes_of_ports_and_families_are_right(void **state)
{
    struct svcfix *f = *state;
    struct spec s = { .type = SVC_NODE_PORT,
                      .ip = 1,
                      .node_port = 30080,
                      .external_ips = { 21 } };

    f->cfg.antrea_proxy_proxy_all = true;
    put_spec(f, &s);
    assert_string_equal(ip_changes(f), "+1 +n30080 +21");

    /* Another number: another address for the host. */
    s.port = 81;
    put_spec(f, &s);
    assert_string_equal(ip_changes(f), "+1 +21 -1 -21");
    /* Another name: another unit, which has it all before the first goes. */
    s.port_name = "web";
    put_spec(f, &s);
    assert_string_equal(ip_changes(f), "+1 +n30080 +21 -1 -n30080 -21");

    s.ip6 = 6;
    put_spec(f, &s);
    assert_string_equal(ip_changes(f), "+66 +6n30080");
    s.ip = 0;
    put_spec(f, &s);
    assert_string_equal(ip_changes(f), "-1 -n30080 -21");

    /* Deleted and created with other addresses in one round. */
    delete_svc(f, "svc-a");
    s.ip6 = 7;
    s.node_port = 30082;
    put_spec(f, &s);
    assert_string_equal(ip_changes(f), "+67 +6n30082 -66 -6n30080");
}

static void
skipped_service_gives_back_its_addresses(void **state)
{
    struct svcfix *f = *state;
    char *skip[] = { CONST_CAST(char *, "ns1/svc-a") };
    struct spec s = { .type = SVC_NODE_PORT, .ip = 1, .node_port = 30080 };

    f->cfg.antrea_proxy_proxy_all = true;
    put_spec(f, &s);
    put_spec(f, &(struct spec){ .name = "svc-b", .ip = 2 });
    assert_string_equal(ip_changes(f), "+1 +n30080 +2");
    f->cfg.antrea_proxy_skip_services = (struct cfg_strings){ skip, 1 };
    model_mark_all_dirty(f->model);
    svcfix_render(f);
    assert_string_equal(ip_changes(f), "-1 -n30080");
    assert_null(find_unit(f, "svc-a"));
    f->cfg.antrea_proxy_skip_services = (struct cfg_strings){ NULL, 0 };
}

/* Addresses that two claim. */

/* Of the unit's addresses, those that it has, as in ip_changes(). */
static const char *
has_addrs(const struct svcfix *f, const char *name)
{
    static char buf[256];
    const struct addr_owner *claims = &find_unit(f, name)->claims;

    buf[0] = '\0';
    for (size_t i = 0; i < claims->n; i++) {
        const struct addr *addr = &claims->addrs[i];
        bool is_node_port = addr->kind == PIPE_NODE_PORT;

        if (!addr->lost) {
            snprintf(buf + strlen(buf), sizeof buf - strlen(buf), "%s%s%d",
                     buf[0] ? " " : "", is_node_port ? "n" : "",
                     is_node_port ? addr->port : addr->ip.in6.s6_addr[15]);
        }
    }
    return buf;
}

static size_t
n_wanted(const struct svcfix *f, const char *name)
{
    size_t n = 0;

    flowtab_for_each(f->ft, unit_owner(find_unit(f, name)), count_cb, &n);
    return n;
}

static void
conflict_costs_one_address_and_not_the_unit(void **state)
{
    struct svcfix *f = *state;
    struct spec a = {
        .name = "svc-a", .created_s = 1, .ip = 1, .external_ips = { 21, 22 }
    };
    struct spec b = {
        .name = "svc-b", .created_s = 2, .ip = 2, .external_ips = { 22, 23 }
    };

    f->cfg.antrea_proxy_proxy_all = true;
    put_spec(f, &b);
    put_spec(f, &a);
    assert_string_equal(has_addrs(f, "svc-a"), "1 21 22");
    assert_string_equal(has_addrs(f, "svc-b"), "2 23");
    assert_true(find_unit(f, "svc-b")->conflict);
    assert_int_equal(n_wanted(f, "svc-a"), 3);
    assert_int_equal(n_wanted(f, "svc-b"), 2);
    /* The host knows both claims. */
    assert_string_equal(ip_changes(f), "+2 +22 +23 +1 +21 +22");

    /* On another port it is another address. */
    b.port = 81;
    put_spec(f, &b);
    assert_string_equal(has_addrs(f, "svc-b"), "2 22 23");
    assert_false(find_unit(f, "svc-b")->conflict);
    b.port = 80;
    put_spec(f, &b);
    assert_true(find_unit(f, "svc-b")->conflict);

    a.external_ips[1] = 0;
    put_spec(f, &a);
    assert_string_equal(has_addrs(f, "svc-b"), "2 22 23");
    assert_int_equal(n_wanted(f, "svc-b"), 3);
    a.external_ips[1] = 2; /* 192.0.2.2, no cluster IP. */
    put_spec(f, &a);
    assert_string_equal(has_addrs(f, "svc-b"), "2 22 23");
}

/* With policy Local there are more flows than with policy Cluster: none of
 * them may be there for who lost the address. */
static void
who_lost_an_address_has_no_flow_there(void **state)
{
    struct svcfix *f = *state;
    struct spec a = { .name = "svc-a",
                      .created_s = 1,
                      .ip = 1,
                      .type = SVC_LOAD_BALANCER,
                      .node_port = 30080,
                      .vips = { 22 } };
    struct spec b = { .name = "svc-b",
                      .created_s = 2,
                      .ip = 2,
                      .type = SVC_LOAD_BALANCER,
                      .node_port = 30080,
                      .vips = { 22 },
                      .range = 9,
                      .external_local = true };

    f->cfg.antrea_proxy_proxy_all = true;
    put_spec(f, &a);
    put_spec(f, &b);
    assert_string_equal(has_addrs(f, "svc-b"), "2");
    assert_int_equal(n_wanted(f, "svc-b"), 1);
    /* Nor does it wait for one. */
    assert_int_equal(flowtab_conflict(f->ft,
                                      unit_owner(find_unit(f, "svc-b"))),
                     0);
    delete_svc(f, "svc-a");
    svcfix_render(f);
    assert_string_equal(has_addrs(f, "svc-b"), "2 n30080 22");
    assert_true(n_wanted(f, "svc-b") >= 3);
    assert_false(find_unit(f, "svc-b")->conflict);
}

static void
ports_of_a_service_may_swap_their_numbers(void **state)
{
    struct svcfix *f = *state;
    struct svc_port ports[] = { { .name = "a", .port = 80 },
                                { .name = "b", .port = 81 } };
    struct svc svc = { .meta = { .ns = "ns1", .name = "svc-a", .uid = "" },
                       .cluster_ips = { make_ip(IP_V4, 1) },
                       .ports = ports,
                       .n_ports = 2 };
    struct flowtab_stats stats;

    for (int i = 0; i < 4; i++) {
        ports[0].port = 80 + i % 2;
        ports[1].port = 81 - i % 2;
        model_put_svc(f->model, svc_pack(&svc, model_pool(f->model)));
        svcfix_render(f);
        flowtab_get_stats(f->ft, &stats);
        assert_int_equal(stats.n_flows, 2 + 1); /* The other ports. */
    }
}

/* Addresses of the node. */

static void
only_services_that_depend_on_the_nodes_addresses_follow_them(void **state)
{
    struct svcfix *f = *state;
    struct ip ips[] = { make_ip(IP_V4, 21), make_ip(IP_V4, 22) };
    const struct model_service *ms;
    size_t n = 0;

    f->cfg.antrea_proxy_proxy_all = true;
    put_spec(f,
             &(struct spec){ .name = "svc-a", .ip = 1, .node_port = 30080 });
    put_spec(f, &(struct spec){
                    .name = "svc-b", .ip = 2, .external_ips = { 21 } });
    put_spec(f, &(struct spec){ .name = "svc-c",
                                .ip = 3,
                                .port = 81,
                                .vips = { 31 },
                                .range = 22 });
    ip_changes(f);
    services_set_node_ips(f->services, ips, 2);
    while ((ms = model_pop_dirty(f->model))) {
        assert_string_not_equal(ms->name, "svc-a");
        n++;
    }
    assert_int_equal(n, 2);

    services_set_node_ips(f->services, NULL, 0);
    services_set_node_ips(f->services, ips, 2);
    svcfix_render(f);
    assert_string_equal(has_addrs(f, "svc-b"), "2 252 21");
    assert_int_equal(n_wanted(f, "svc-b"), 3);
    assert_string_equal(has_addrs(f, "svc-c"), "3 31");
    /* The host makes the other address by itself. */
    assert_string_equal(ip_changes(f), "");

    services_set_node_ips(f->services, ips, 2);
    assert_false(model_has_dirty(f->model));
    services_set_node_ips(f->services, NULL, 0);
    svcfix_render(f);
    assert_string_equal(has_addrs(f, "svc-b"), "2 21");
    assert_string_equal(ip_changes(f), "");
}

/* It is one of the host's, too. */
static void
gateways_address_may_be_an_external_one(void **state)
{
    struct svcfix *f = *state;
    const struct ip none[N_IP_FAMILIES] = { 0 };
    const struct ip ips[N_IP_FAMILIES] = { make_ip(IP_V4, 21),
                                           make_ip(IP_V6, 21) };

    f->cfg.antrea_proxy_proxy_all = true;
    put_spec(f, &(struct spec){
                    .name = "svc-a", .ip = 1, .external_ips = { 21 } });
    ip_changes(f);
    services_set_gateway_ips(f->services, none);
    assert_false(model_has_dirty(f->model));
    services_set_gateway_ips(f->services, ips);
    svcfix_render(f);
    assert_string_equal(has_addrs(f, "svc-a"), "1 252 21");

    services_set_gateway_ips(f->services, ips);
    assert_false(model_has_dirty(f->model));
    services_set_gateway_ips(f->services, none);
    svcfix_render(f);
    assert_string_equal(has_addrs(f, "svc-a"), "1 21");
    /* The host makes the other address by itself. */
    assert_string_equal(ip_changes(f), "");
}

/* Ids. */

/* The switch has one address of a unit, with id 'id'. */
static void
have_address(struct svcfix *f, const struct pipe_frontend *frontend,
             uint32_t id)
{
    struct pipe_service svc = { .object_id = id,
                                .frontends = frontend,
                                .n_frontends = 1 };
    struct fout out = FOUT_INIT;

    assert_int_equal(pipe_render_service(&svc, &out, NULL), 0);
    flowtab_dump_begin(f->ft);
    for (size_t i = 0; i < out.n; i++) {
        flowtab_have(f->ft, fitem_ref(out.items[i]));
    }
    flowtab_dump_end(f->ft);
    fout_clear(&out);
    free(out.items);
}

/* Two hashes collided, and the other unit has gone since. */
static void
id_is_found_at_any_address_whatever_is_wanted_there(void **state)
{
    struct svcfix *f = *state;
    struct spec s = { .ip = 1,
                      .node_port = 30080,
                      .external_ips = { 21 },
                      .affinity_s = 60,
                      .external_local = true,
                      .internal_local = true };
    struct pipe_frontend frontends[] = {
        { .kind = PIPE_CLUSTER_IP,
          .ip = ip_from_v4(htonl(0x0a600001)),
          .port = 80 },
        { .kind = PIPE_NODE_PORT, .port = 30080 },
        { .kind = PIPE_EXTERNAL, .ip = make_ip(IP_V4, 21), .port = 80 },
    };
    uint32_t preferred;

    f->cfg.antrea_proxy_proxy_all = true;
    s.type = SVC_NODE_PORT;
    put_spec(f, &s);
    preferred = find_unit(f, "svc-a")->object_id;
    for (size_t i = 0; i < ARRAY_SIZE(frontends); i++) {
        uint32_t id = (preferred + 1 + i) & OBJECT_ID_MAX;

        delete_svc(f, "svc-a");
        svcfix_render(f);
        have_address(f, &frontends[i], id);
        put_spec(f, &s);
        assert_int_equal(find_unit(f, "svc-a")->object_id, id);
    }
}

int
main(void)
{
#define TEST(NAME) \
    cmocka_unit_test_setup_teardown(NAME, svcfix_setup, svcfix_teardown)
    const struct CMUnitTest tests[] = {
        TEST(older_service_has_an_address_that_two_claim),
        TEST(of_equally_old_services_the_name_decides),
        TEST(second_gets_the_address_when_the_first_goes),
        TEST(id_does_not_stick_to_the_address),
        TEST(b7_ids_do_not_leak),
        TEST(changes_of_cluster_ips_are_handed_out_once),
        TEST(changes_are_right_over_every_transition),
        TEST(changes_of_ports_and_families_are_right),
        TEST(skipped_service_gives_back_its_addresses),
        TEST(conflict_costs_one_address_and_not_the_unit),
        TEST(who_lost_an_address_has_no_flow_there),
        TEST(ports_of_a_service_may_swap_their_numbers),
        TEST(only_services_that_depend_on_the_nodes_addresses_follow_them),
        TEST(gateways_address_may_be_an_external_one),
        TEST(id_is_found_at_any_address_whatever_is_wanted_there),
    };

    vlog_set_levels(NULL, VLF_CONSOLE, VLL_OFF);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
