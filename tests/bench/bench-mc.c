/* SPDX-License-Identifier: Apache-2.0 */
/* Costs of a pass over the clusters of a cluster set: 500 of them, beside
 * 1 000 Nodes of this one.  Prints one figure a line: name, value, unit. */

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <openvswitch/vlog.h>
#include <util.h>

#include "../../src/agent/mc.h"

#define N_NODES    1000
#define N_CLUSTERS 500
#define N_ROUNDS   200

struct bench {
    struct cfg cfg;
    struct model *model;
    struct flowtab *flowtab;
    struct uplink_state uplink;
    struct svccidrs *sc;
    struct mc *mc;
};

static double
now_us(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * 1e6 + ts.tv_nsec / 1e3;
}

static struct ip
ip_of(uint32_t v4)
{
    return ip_from_v4(htonl(v4));
}

/* The 'i'-th Node; its address depends on 'round'. */
static void
put_node(struct bench *b, uint32_t i, uint32_t round)
{
    char name[16];
    struct cidr pods = { ip_of(0x0a400000 + (i << 8)), 24 };
    struct node_address address = { ip_of(0xc0000400 + i
                                          + (round % 2 << 16)) };
    struct node node = {
        .meta = { .ns = "", .name = name, .uid = "" },
        .zone = "",
        .pod_cidrs = &pods,
        .n_pod_cidrs = 1,
        .addresses = &address,
        .n_addresses = 1,
    };

    snprintf(name, sizeof name, "node-%u", i);
    model_put_node(b->model, node_pack(&node, model_pool(b->model)));
}

/* Another zone of it: nothing that matters here. */
static void
put_zone(struct bench *b, uint32_t round)
{
    struct cidr pods = { ip_of(0x0a400000), 24 };
    struct node_address address = { ip_of(0xc0000400) };
    struct node node = {
        .meta = { .ns = "", .name = "node-0", .uid = "" },
        .zone = round % 2 ? "a" : "b",
        .pod_cidrs = &pods,
        .n_pod_cidrs = 1,
        .addresses = &address,
        .n_addresses = 1,
    };

    model_put_node(b->model, node_pack(&node, model_pool(b->model)));
}

/* The 'i'-th cluster; its gateway depends on 'round'. */
static void
put_cluster(struct bench *b, uint32_t i, uint32_t round)
{
    char name[16];
    struct ip gateway = ip_of(0xc6120000 + 2 * i + round % 2);
    struct mc_cluster cluster = {
        .meta = { .ns = "mc", .name = name, .uid = "", .created_s = i },
        .cluster_id = name,
        .service_cidr = { ip_of(0x0b000000 + (i << 8)), 24 },
        .gateway_ips = &gateway,
        .n_gateway_ips = 1,
    };

    snprintf(name, sizeof name, "member-%u", i);
    model_put_plain(b->model, MODEL_MC_CLUSTERS,
                    &mc_cluster_pack(&cluster, model_pool(b->model))->meta);
}

static void
run(struct bench *b)
{
    struct pipe_node node = { .gateway_ofport = 2 };

    svccidrs_run(b->sc, &b->uplink);
    mc_run(b->mc);
    node.mc_role = mc_role(b->mc);
    node.mc_gateway_ip = *mc_gateway_ip(b->mc);
    mc_render(b->mc, &node);
}

static void
set_up(struct bench *b)
{
    struct mc_gateway gateway = {
        .meta = { .ns = "mc", .name = "node-0", .uid = "" },
        .gateway_ip = ip_of(0xcb007101),
        .internal_ip = ip_of(0xc0000400),
    };
    struct ip server = ip_of(0xc0000201);

    cfg_init_defaults(&b->cfg);
    b->cfg.multicluster_enable_gateway = true;
    b->cfg.service_cidr.present = true;
    b->cfg.service_cidr.cidr = (struct cidr){ ip_of(0x0a600000), 16 };
    b->model = model_create("node-0");
    b->flowtab = flowtab_create();
    b->uplink = (struct uplink_state){ .seqno = 1 };
    b->sc = svccidrs_create(b->model, &b->cfg, &server);
    b->mc = mc_create(b->model, &b->cfg, b->sc, b->flowtab);
    model_put_plain(b->model, MODEL_MC_GATEWAYS,
                    &mc_gateway_pack(&gateway, model_pool(b->model))->meta);
    for (uint32_t i = 0; i < N_NODES; i++) {
        put_node(b, i, 0);
    }
    for (uint32_t i = 0; i < N_CLUSTERS; i++) {
        put_cluster(b, i, 0);
    }
}

/* What one of many changes costs, with what 'change' itself does. */
static void
measure(struct bench *b, const char *name,
        void (*change)(struct bench *, uint32_t round))
{
    double start;

    run(b);
    start = now_us();
    for (uint32_t round = 1; round <= N_ROUNDS; round++) {
        change(b, round);
        run(b);
    }
    printf("mc %-33s %12.1f us\n", name, (now_us() - start) / N_ROUNDS);
}

static void
change_nothing(struct bench *b, uint32_t round OVS_UNUSED)
{
    put_node(b, 7, 0);
}

static void
change_address(struct bench *b, uint32_t round)
{
    put_node(b, 7, round);
}

static void
change_gateway(struct bench *b, uint32_t round)
{
    put_cluster(b, 7, round);
}

int
main(void)
{
    struct bench b;

    vlog_set_levels(NULL, VLF_CONSOLE, VLL_OFF);
    set_up(&b);
    measure(&b, "Node's heartbeat", change_nothing);
    measure(&b, "Node's zone", put_zone);
    measure(&b, "Node's address", change_address);
    measure(&b, "cluster's gateway", change_gateway);
    mc_destroy(b.mc);
    svccidrs_destroy(b.sc);
    flowtab_destroy(b.flowtab);
    model_destroy(b.model);
    cfg_uninit(&b.cfg);
    return 0;
}
