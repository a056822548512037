/* SPDX-License-Identifier: Apache-2.0 */
/* What a node does between clusters, and which of their networks it uses. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <openvswitch/vlog.h>
#include <util.h>

#include "../../src/agent/mc.h"

struct fixture {
    struct cfg cfg;
    struct model *model;
    struct flowtab *flowtab;
    struct uplink_state uplink;
    struct svccidrs *sc;
    struct mc *mc;
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
    f->cfg.multicluster_enable_gateway = true;
    f->cfg.service_cidr.present = true;
    f->cfg.service_cidr.cidr = cidr("10.96.0.0/16");
    f->model = model_create("n1");
    f->flowtab = flowtab_create();
    f->uplink.seqno = 1;
    f->uplink.addrs[IP_V4] = cidr("192.0.2.11/24");
    f->sc = svccidrs_create(f->model, &f->cfg, &server);
    f->mc = mc_create(f->model, &f->cfg, f->sc, f->flowtab);
    *state = f;
    return 0;
}

static int
teardown(void **state)
{
    struct fixture *f = *state;

    mc_destroy(f->mc);
    svccidrs_destroy(f->sc);
    flowtab_destroy(f->flowtab);
    model_destroy(f->model);
    cfg_uninit(&f->cfg);
    free(f);
    return 0;
}

static void
put_gateway(struct fixture *f, const char *name, int64_t created_s,
            const char *gateway_ip, const char *internal_ip)
{
    struct mc_gateway gw = {
        .meta = { .ns = "mc", .name = name, .uid = "" },
        .gateway_ip = ip(gateway_ip),
        .internal_ip = ip(internal_ip),
    };

    gw.meta.created_s = created_s;
    model_put_plain(f->model, MODEL_MC_GATEWAYS,
                    &mc_gateway_pack(&gw, model_pool(f->model))->meta);
}

/* As of second 1, by two gateways. */
static void
put_cluster_by(struct fixture *f, const char *name, const char *services,
               const char *gateway1, const char *gateway2)
{
    struct ip gateways[] = { ip(gateway1), ip(gateway2 ? gateway2 : "::") };
    struct mc_cluster cluster = {
        .meta = { .ns = "mc", .name = name, .uid = "", .created_s = 1 },
        .cluster_id = "id",
        .service_cidr = cidr(services),
        .gateway_ips = gateways,
        .n_gateway_ips = gateway2 ? 2 : 1,
    };

    model_put_plain(f->model, MODEL_MC_CLUSTERS,
                    &mc_cluster_pack(&cluster, model_pool(f->model))->meta);
}

static void
put_cluster(struct fixture *f, const char *name, int64_t created_s,
            const char *services, const char *pods)
{
    struct ip gateway = ip("198.51.100.1");
    struct cidr pod_cidr = cidr(pods);
    struct mc_cluster cluster = {
        .meta = { .ns = "mc", .name = name, .uid = "" },
        .cluster_id = "id",
        .service_cidr = cidr(services),
        .gateway_ips = &gateway,
        .n_gateway_ips = 1,
        .pod_cidrs = &pod_cidr,
        .n_pod_cidrs = 1,
    };

    cluster.meta.created_s = created_s;
    model_put_plain(f->model, MODEL_MC_CLUSTERS,
                    &mc_cluster_pack(&cluster, model_pool(f->model))->meta);
}

static void
put_named_node(struct fixture *f, const char *name, const char *address,
               const char *pods)
{
    struct node_address a = { .ip = ip(address) };
    struct cidr pod_cidr = cidr(pods);
    struct node node = {
        .meta = { .ns = "", .name = name, .uid = "" },
        .zone = "",
        .pod_cidrs = &pod_cidr,
        .n_pod_cidrs = 1,
        .addresses = &a,
        .n_addresses = 1,
    };

    model_put_node(f->model, node_pack(&node, model_pool(f->model)));
}

static void
put_node(struct fixture *f, const char *address, const char *pods)
{
    put_named_node(f, "n2", address, pods);
}

static void
put_service_cidr(struct fixture *f, const char *net)
{
    struct service_cidr c = { .meta = { .ns = "", .name = "c1", .uid = "" },
                              .cidrs = { cidr(net) },
                              .n_cidrs = 1 };

    model_put_plain(f->model, MODEL_SERVICE_CIDRS,
                    &service_cidr_pack(&c, model_pool(f->model))->meta);
}

static void
put_peer(const struct mc_peer *peer, void *ds)
{
    mc_format_peer(peer, ds);
}

/* Checks the lines about all, up to their first commas. */
static void
check(struct fixture *f, const char *expected)
{
    struct ds ds = DS_EMPTY_INITIALIZER, found = DS_EMPTY_INITIALIZER;
    struct mc_state mc_state;
    char *text, *save = NULL;

    svccidrs_run(f->sc, &f->uplink);
    mc_run(f->mc);
    if (mc_get_state(f->mc, &mc_state)) {
        mc_format_role(&mc_state, &ds);
        mc_for_each(f->mc, put_peer, &ds);
        ds_put_cstr(&ds, mc_state.problems);
    }
    text = ds_steal_cstr(&ds);
    for (char *line = strtok_r(text, "\n", &save); line;
         line = strtok_r(NULL, "\n", &save)) {
        ds_put_buffer(&found, line, strcspn(line, ","));
        ds_put_char(&found, '\n');
    }
    assert_string_equal(ds_cstr_ro(&found), expected);
    ds_destroy(&found);
    free(text);
}

/* Renders as the gateway's flows or another node's would be; returns how many
 * flows are wanted. */
static size_t
render(struct fixture *f)
{
    struct pipe_node node = {
        .gateway_ofport = 2,
        .mc_role = mc_role(f->mc),
        .mc_gateway_ip = *mc_gateway_ip(f->mc),
        .mc_internal_ip = *mc_internal_ip(f->mc),
    };
    struct flowtab_stats stats;

    mc_render(f->mc, &node);
    assert_false(mc_render(f->mc, &node));
    flowtab_get_stats(f->flowtab, &stats);
    return stats.n_flows;
}

static void
without_multicluster_nothing_is_done(void **state)
{
    struct fixture *f = *state;

    f->cfg.multicluster_enable_gateway = false;
    put_gateway(f, "n1", 1, "192.0.2.11", "192.0.2.11");
    put_cluster(f, "west", 1, "10.97.0.0/16", "10.20.0.0/16");
    check(f, "");
    assert_int_equal(mc_role(f->mc), PIPE_MC_NONE);
    assert_int_equal(render(f), 0);
}

static void
role_follows_the_oldest_gateway(void **state)
{
    struct fixture *f = *state;
    uint64_t seqno;

    check(f, "multicluster: no gateway\n");
    put_cluster(f, "west", 1, "10.97.0.0/16", "10.20.0.0/16");
    check(f, "multicluster: no gateway\n"
             "  west (id): 10.97.0.0/16 by 198.51.100.1\n");
    assert_int_equal(render(f), 0);

    put_gateway(f, "n2", 5, "192.0.2.12", "192.0.2.112");
    seqno = mc_seqno(f->mc);
    check(f, "multicluster: regular node; Gateway n2\n"
             "  west (id): 10.97.0.0/16 by 198.51.100.1\n");
    assert_int_equal(mc_role(f->mc), PIPE_MC_REGULAR);
    assert_true(ip_is_none(mc_gateway_ip(f->mc)));
    assert_memory_equal(mc_internal_ip(f->mc),
                        &(struct ip[]){ ip("192.0.2.112") },
                        sizeof(struct ip));
    assert_true(mc_seqno(f->mc) > seqno);
    assert_int_equal(render(f), 4);

    put_gateway(f, "n1", 4, "192.0.2.11", "192.0.2.111");
    check(f, "multicluster: gateway; Gateway n1\n"
             "  west (id): 10.97.0.0/16 by 198.51.100.1\n"
             "of 2 Gateways only the oldest\n");
    assert_int_equal(mc_role(f->mc), PIPE_MC_GATEWAY);
    assert_memory_equal(mc_gateway_ip(f->mc),
                        &(struct ip[]){ ip("192.0.2.11") }, sizeof(struct ip));
    assert_true(ip_is_none(mc_internal_ip(f->mc)));
    assert_int_equal(render(f), 5);

    model_delete(f->model, MODEL_MC_GATEWAYS, "mc", "n1");
    model_delete(f->model, MODEL_MC_CLUSTERS, "mc", "west");
    check(f, "multicluster: regular node; Gateway n2\n");
    assert_int_equal(render(f), 0);
}

/* Counts flows that send to a tunnel destination. */
struct tunnel_ctx {
    const char *tun_dst;
    size_t n;
};

static void
count_tunnel(const struct fitem *want, const struct fitem *have OVS_UNUSED,
             void *ctx_)
{
    struct tunnel_ctx *ctx = ctx_;
    struct ds ds = DS_EMPTY_INITIALIZER;

    fitem_format(want, NULL, &ds);
    ctx->n += strstr(ds_cstr(&ds), ctx->tun_dst) != NULL;
    ds_destroy(&ds);
}

static void
add_tunnels(const struct mc_peer *peer, void *pair_)
{
    void **pair = pair_;

    flowtab_for_each(pair[0], peer->owner, count_tunnel, pair[1]);
}

static size_t
n_to(struct fixture *f, const char *tun_dst)
{
    struct tunnel_ctx ctx = { .tun_dst = tun_dst };
    void *pair[] = { f->flowtab, &ctx };

    svccidrs_run(f->sc, &f->uplink);
    mc_run(f->mc);
    render(f);
    mc_for_each(f->mc, add_tunnels, pair);
    return ctx.n;
}

static void
m3_flows_follow_the_gateways_address(void **state)
{
    struct fixture *f = *state;
    uint64_t seqno;

    put_cluster(f, "west", 1, "10.97.0.0/16", "10.20.0.0/16");
    put_gateway(f, "n2", 1, "192.0.2.12", "192.0.2.112");
    assert_int_equal(n_to(f, "192.0.2.112->tun_dst"), 2);
    seqno = mc_seqno(f->mc);
    put_gateway(f, "n2", 1, "192.0.2.12", "192.0.2.113");
    assert_int_equal(n_to(f, "192.0.2.113->tun_dst"), 2);
    assert_true(mc_seqno(f->mc) > seqno);
    assert_int_equal(n_to(f, "192.0.2.112->tun_dst"), 0);
}

static void
what_there_is_is_counted(void **state)
{
    struct fixture *f = *state;
    struct mc_state counts;
    struct ip there = ip("10.97.1.1"), nowhere = ip("10.98.1.1");

    put_cluster(f, "west", 1, "10.97.0.0/16", "10.20.0.0/16");
    put_cluster(f, "north", 2, "10.97.128.0/17", "10.30.0.0/16");
    n_to(f, "");
    assert_true(mc_get_state(f->mc, &counts));
    assert_int_equal(counts.n_clusters, 2);
    assert_int_equal(counts.n_left_out, 1);
    assert_string_equal(mc_find_network(f->mc, &there), "id");
    assert_null(mc_find_network(f->mc, &nowhere));
    f->cfg.multicluster_enable_gateway = false;
    assert_false(mc_get_state(f->mc, &counts));
}

static void
networks_that_overlap_are_the_first_ones(void **state)
{
    struct fixture *f = *state;

    f->cfg.multicluster_enable_pod_to_pod_connectivity = true;
    put_cluster(f, "b", 1, "10.97.0.0/16", "10.20.0.0/16");
    put_cluster(f, "a", 2, "10.97.128.0/17", "10.20.1.0/24");
    check(f, "multicluster: no gateway\n"
             "  b (id): 10.20.0.0/16 10.97.0.0/16 by 198.51.100.1\n"
             "  a (id): no network\n"
             "ClusterInfoImport a: 10.97.128.0/17 is not used: it overlaps "
             "10.97.0.0/16 of b\n"
             "ClusterInfoImport a: 10.20.1.0/24 is not used: it overlaps "
             "10.20.0.0/16 of b\n");
    model_delete(f->model, MODEL_MC_CLUSTERS, "mc", "b");
    check(f, "multicluster: no gateway\n"
             "  a (id): 10.20.1.0/24 10.97.128.0/17 by 198.51.100.1\n");
    put_cluster(f, "c", 3, "10.96.3.0/24", "192.0.2.0/28");
    check(f, "multicluster: no gateway\n"
             "  a (id): 10.20.1.0/24 10.97.128.0/17 by 198.51.100.1\n"
             "  c (id): no network\n"
             "ClusterInfoImport c: 10.96.3.0/24 is not used: it overlaps "
             "10.96.0.0/16\n"
             "ClusterInfoImport c: 192.0.2.0/28 is not used: the API server's "
             "address is in it\n");
}

/* A gateway's address is where answers go, and where tunnels end. */
static void
gateways_are_nobody_elses(void **state)
{
    static const struct {
        const char *by, *why;
    } rows[] = {
        { "203.0.113.1", "it is this cluster's" },
        { "192.0.2.12", "it is this cluster's" },
        { "192.0.2.11", "this node's own address is in it" },
        { "10.97.0.5", "it overlaps 10.97.0.0/16 of west" },
        { "10.96.0.5", "it overlaps 10.96.0.0/16" },
        { "169.254.1.1", "its addresses are those of a link" },
        { "fe80::1", "its addresses are those of a link" },
        { "169.254.0.253", "its addresses can't be those of Services" },
    };
    struct fixture *f = *state;

    put_gateway(f, "n2", 1, "203.0.113.1", "192.0.2.12");
    put_cluster(f, "west", 1, "10.97.0.0/16", "10.20.0.0/16");
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct cidr host =
            cidr(strchr(rows[i].by, ':') ? "::/128" : "0.0.0.0/32");
        char buf[CIDR_STRLEN], *expected;

        host.ip = ip(rows[i].by);
        put_cluster_by(f, "x", "10.98.0.0/16", rows[i].by, NULL);
        expected = xasprintf("multicluster: regular node; Gateway n2\n"
                             "  west (id): 10.97.0.0/16 by 198.51.100.1\n"
                             "  x (id): no network\n"
                             "ClusterInfoImport x: gateway %s is not used: "
                             "%s\n"
                             "ClusterInfoImport x: 10.98.0.0/16 is not used: "
                             "the cluster has no gateway\n",
                             cidr_to_string(&host, buf), rows[i].why);
        check(f, expected);
        free(expected);
    }
    /* Two may have the same one. */
    put_cluster(f, "x", 2, "10.98.0.0/16", "10.30.0.0/16");
    assert_int_equal(n_to(f, "192.0.2.12->tun_dst"), 3);
}

static void
no_network_holds_a_gateway_of_others(void **state)
{
    static const struct {
        const char *net, *why;
    } rows[] = {
        { "198.51.100.0/24", "it holds 198.51.100.1" },
        { "203.0.113.0/24", "it holds 203.0.113.1" },
        { "169.254.1.0/24", "its addresses are those of a link" },
        { "fe80::/64", "its addresses are those of a link" },
    };
    struct fixture *f = *state;

    put_gateway(f, "n2", 1, "203.0.113.1", "192.0.2.12");
    put_cluster(f, "west", 1, "10.97.0.0/16", "10.20.0.0/16");
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        char *expected =
            xasprintf("multicluster: regular node; Gateway n2\n"
                      "  west (id): 10.97.0.0/16 by 198.51.100.1\n"
                      "  x (id): no network\n"
                      "ClusterInfoImport x: %s is not used: %s\n",
                      rows[i].net, rows[i].why);

        put_cluster_by(f, "x", rows[i].net, "198.51.100.9", NULL);
        check(f, expected);
        free(expected);
    }
    /* Its own may be in it. */
    put_cluster_by(f, "x", "10.98.0.0/16", "10.98.0.1", NULL);
    assert_int_equal(n_to(f, "192.0.2.12->tun_dst"), 4);
}

/* Where a node has the address of one that was the gateway. */
static void
no_tunnel_leads_to_this_node(void **state)
{
    struct fixture *f = *state;

    put_named_node(f, "n1", "192.0.2.11", "10.10.1.0/24");
    put_gateway(f, "n2", 1, "203.0.113.1", "192.0.2.11");
    put_cluster(f, "west", 1, "10.97.0.0/16", "10.20.0.0/16");
    check(f, "multicluster: regular node; Gateway n2\n"
             "  west (id): 10.97.0.0/16 by 198.51.100.1\n"
             "Gateway n2: its internalIP is this node's own\n");
    assert_int_equal(render(f), 0);
    put_gateway(f, "n2", 1, "203.0.113.1", "192.0.2.12");
    assert_int_equal(n_to(f, "192.0.2.12->tun_dst"), 2);

    /* It gets the address, and gives it away, while the other has it, too. */
    put_named_node(f, "n2", "192.0.2.12", "10.10.2.0/24");
    assert_int_equal(n_to(f, "192.0.2.12->tun_dst"), 2);
    put_named_node(f, "n3", "192.0.2.11", "10.10.3.0/24");
    put_named_node(f, "n1", "192.0.2.12", "10.10.1.0/24");
    assert_int_equal(n_to(f, ""), 0);
    put_named_node(f, "n1", "192.0.2.11", "10.10.1.0/24");
    assert_int_equal(n_to(f, "192.0.2.12->tun_dst"), 2);
}

static void
order_is_that_of_creation_whatever_comes_first(void **state)
{
    static const char expected[] =
        "multicluster: no gateway\n"
        "  c (id): 10.97.0.0/16 by 198.51.100.1\n"
        "  a (id): no network\n"
        "  b (id): no network\n"
        "ClusterInfoImport a: 10.97.0.0/17 is not used: it overlaps "
        "10.97.0.0/16 of c\n"
        "ClusterInfoImport b: 10.97.0.0/16 is not used: it overlaps "
        "10.97.0.0/16 of c\n";
    static const char *const orders[] = { "abc", "acb", "bac",
                                          "bca", "cab", "cba" };
    struct fixture *f = *state;

    for (size_t i = 0; i < ARRAY_SIZE(orders); i++) {
        for (const char *p = orders[i]; *p; p++) {
            char name[] = { *p, '\0' };

            put_cluster(f, name, *p == 'c' ? 1 : 2,
                        *p == 'a' ? "10.97.0.0/17" : "10.97.0.0/16",
                        "10.20.0.0/16");
            mc_run(f->mc);
        }
        check(f, expected);
        for (const char *p = orders[i]; *p; p++) {
            char name[] = { *p, '\0' };

            model_delete(f->model, MODEL_MC_CLUSTERS, "mc", name);
        }
    }
}

/* What appears here takes its network back, at once. */
static void
networks_of_this_cluster_that_come_later_count(void **state)
{
    struct fixture *f = *state;

    put_gateway(f, "n1", 1, "192.0.2.11", "192.0.2.11");
    put_cluster(f, "west", 1, "10.97.0.0/16", "10.20.0.0/16");
    assert_int_equal(n_to(f, "198.51.100.1->tun_dst"), 2);

    put_node(f, "192.0.2.12", "10.97.3.0/24");
    assert_int_equal(n_to(f, "198.51.100.1->tun_dst"), 1);
    check(f, "multicluster: gateway; Gateway n1\n"
             "  west (id): no network\n"
             "ClusterInfoImport west: 10.97.0.0/16 is not used: it overlaps "
             "the pod network 10.97.3.0/24 of Node n2\n");
    put_node(f, "192.0.2.12", "10.10.2.0/24");
    assert_int_equal(n_to(f, "198.51.100.1->tun_dst"), 2);

    put_service_cidr(f, "10.97.4.0/24");
    assert_int_equal(n_to(f, "198.51.100.1->tun_dst"), 1);
    model_delete(f->model, MODEL_SERVICE_CIDRS, "", "c1");
    assert_int_equal(n_to(f, "198.51.100.1->tun_dst"), 2);

    f->uplink.seqno++;
    f->uplink.addrs[IP_V4] = cidr("10.97.5.1/24");
    assert_int_equal(n_to(f, "198.51.100.1->tun_dst"), 1);
    f->uplink.seqno++;
    f->uplink.addrs[IP_V4] = cidr("192.0.2.11/24");
    assert_int_equal(n_to(f, "198.51.100.1->tun_dst"), 2);

    /* Its gateway's address is one of this cluster; an equal object takes the
     * place of the one that the name was of. */
    put_node(f, "198.51.100.1", "10.10.2.0/24");
    n_to(f, "");
    put_node(f, "198.51.100.1", "10.10.2.0/24");
    put_gateway(f, "n1", 1, "192.0.2.11", "192.0.2.12");
    assert_int_equal(n_to(f, "198.51.100.1->tun_dst"), 0);
    check(f, "multicluster: gateway; Gateway n1\n"
             "  west (id): no network\n"
             "ClusterInfoImport west: gateway 198.51.100.1/32 is not used: "
             "an address of Node n2 is in it\n"
             "ClusterInfoImport west: 10.97.0.0/16 is not used: the cluster "
             "has no gateway\n");
}

static void
changes_that_do_not_matter_change_nothing(void **state)
{
    struct fixture *f = *state;
    struct pipe_node node = { .gateway_ofport = 2,
                              .mc_role = PIPE_MC_REGULAR };

    put_gateway(f, "n2", 1, "192.0.2.12", "192.0.2.112");
    put_cluster(f, "west", 1, "10.97.0.0/16", "10.20.0.0/16");
    put_node(f, "192.0.2.12", "10.10.2.0/24");
    assert_int_equal(n_to(f, "192.0.2.112->tun_dst"), 2);
    node.gateway_ofport = 2;
    put_node(f, "192.0.2.12", "10.10.2.1/24"); /* The same network. */
    svccidrs_run(f->sc, &f->uplink);
    mc_run(f->mc);
    assert_false(mc_render(f->mc, &node));

    /* One cluster of two changes, and both are there.  (At first they have one
     * gateway.) */
    put_cluster(f, "north", 2, "10.98.0.0/16", "10.30.0.0/16");
    assert_int_equal(n_to(f, "192.0.2.112->tun_dst"), 3);
    put_cluster_by(f, "north", "10.98.0.0/16", "198.51.100.7", "198.51.100.7");
    assert_int_equal(n_to(f, "192.0.2.112->tun_dst"), 4);

    /* Node and Gateway are the same for all. */
    node.gateway_ofport = 3;
    mc_render(f->mc, &node);
    assert_false(mc_render(f->mc, &node));
    put_gateway(f, "n2", 1, "192.0.2.12", "192.0.2.113");
    assert_int_equal(n_to(f, "192.0.2.113->tun_dst"), 4);
}

static void
a_clusters_networks_may_hold_each_other(void **state)
{
    struct fixture *f = *state;

    f->cfg.multicluster_enable_pod_to_pod_connectivity = true;
    put_gateway(f, "n2", 1, "192.0.2.12", "192.0.2.112");
    put_cluster(f, "west", 1, "10.97.0.0/24", "10.97.0.0/16");
    put_cluster(f, "north", 2, "10.98.0.0/16", "10.98.0.0/16");
    put_cluster_by(f, "south", "10.99.0.0/16", "198.51.100.7", "198.51.100.7");
    check(f, "multicluster: regular node; Gateway n2\n"
             "  south (id): 10.99.0.0/16 by 198.51.100.7\n"
             "  west (id): 10.97.0.0/16 by 198.51.100.1\n"
             "  north (id): 10.98.0.0/16 by 198.51.100.1\n");
    assert_int_equal(n_to(f, "192.0.2.112->tun_dst"), 5);
}

static void
few_of_many_problems_are_said(void **state)
{
    struct fixture *f = *state;
    struct mc_state mc_state;
    size_t n_lines = 0;
    char name[16];

    for (int i = 0; i < 200; i++) {
        snprintf(name, sizeof name, "c%03d", i);
        put_cluster(f, name, 1, "10.96.0.0/16", "10.20.0.0/16");
    }
    svccidrs_run(f->sc, &f->uplink);
    mc_run(f->mc);
    assert_true(mc_get_state(f->mc, &mc_state));
    for (const char *p = mc_state.problems; (p = strstr(p, "is not used"));
         p++) {
        n_lines++;
    }
    assert_int_equal(n_lines, 50);
    assert_non_null(strstr(mc_state.problems, "\nand 150 more\n"));
}

static void
the_oldest_of_too_many_clusters_are_used(void **state)
{
    struct fixture *f = *state;
    struct mc_state mc_state;
    char name[16], net[CIDR_STRLEN];
    struct ip last = ip("10.103.231.1"), one_more = ip("10.103.232.1");

    for (int i = 0; i <= 1000; i++) {
        snprintf(name, sizeof name, "c%04d", 1000 - i);
        snprintf(net, sizeof net, "10.%d.%d.0/24", 100 + i / 256, i % 256);
        put_cluster(f, name, i, net, net);
    }
    svccidrs_run(f->sc, &f->uplink);
    mc_run(f->mc);
    assert_true(mc_get_state(f->mc, &mc_state));
    assert_int_equal(mc_state.n_clusters, 1000);
    assert_string_equal(mc_state.problems, "of 1001 ClusterInfoImports only "
                                           "the 1000 oldest are used\n");
    assert_non_null(mc_find_network(f->mc, &last));
    assert_null(mc_find_network(f->mc, &one_more));
}

#define TEST(NAME) cmocka_unit_test_setup_teardown(NAME, setup, teardown)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(without_multicluster_nothing_is_done),
        TEST(role_follows_the_oldest_gateway),
        TEST(m3_flows_follow_the_gateways_address),
        TEST(what_there_is_is_counted),
        TEST(networks_that_overlap_are_the_first_ones),
        TEST(gateways_are_nobody_elses),
        TEST(no_network_holds_a_gateway_of_others),
        TEST(no_tunnel_leads_to_this_node),
        TEST(order_is_that_of_creation_whatever_comes_first),
        TEST(networks_of_this_cluster_that_come_later_count),
        TEST(changes_that_do_not_matter_change_nothing),
        TEST(a_clusters_networks_may_hold_each_other),
        TEST(few_of_many_problems_are_said),
        TEST(the_oldest_of_too_many_clusters_are_used),
    };

    vlog_set_levels(NULL, VLF_CONSOLE, VLL_OFF);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
