/* SPDX-License-Identifier: Apache-2.0 */
/* Random objects by a generator of 64 bits (splitmix64). */

#include "randobj.h"

#include <stdlib.h>

#include <util.h>

#define N_IPS     5 /* Cluster IPs of a family: fewer than Services. */
#define N_OUTER   6 /* External addresses of a family, some of the node's. */
#define MAX_EPS   40
#define LARGE_EPS 600

static const char *const port_names[] = { "", "dns", "web" };
static const char *const nodes[] = { NULL, "n1", "n2", "n3" };
static const char *const zones[] = { "za", "zb" };

uint32_t
randobj_draw(struct randobj *r, uint32_t n)
{
    uint64_t z = r->seed += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t) ((z ^ z >> 31) % n);
}

struct ip
randobj_ip(enum ip_family family, uint32_t n)
{
    if (family == IP_V4) {
        return ip_from_v4(htonl(0x0a600000 + n));
    }
    struct ip ip = { .in6.s6_addr = { 0x20, 0x01, 0x0d, 0xb8 } };
    ip.in6.s6_addr[14] = (uint8_t) (n >> 8);
    ip.in6.s6_addr[15] = (uint8_t) n;
    return ip;
}

/* An external address, which Services may clash in, unless apart. */
static struct ip
make_outer(struct randobj *r, uint32_t i)
{
    uint32_t n = randobj_draw(r, N_OUTER);

    return randobj_ip(randobj_draw(r, N_IP_FAMILIES),
                      RANDOBJ_OUTER + (r->apart ? i * N_OUTER + n : n));
}

/* The lists of a Service. */
struct lists {
    struct ip external_ips[3];
    struct svc_ingress ingress[3];
    struct cidr ranges[3];
};

/* What there is of a Service besides its ports and its cluster IPs. */
static void
draw_rest(struct randobj *r, uint32_t i, struct lists *lists, struct svc *svc)
{
    static const enum svc_type types[] = { SVC_CLUSTER_IP, SVC_NODE_PORT,
                                           SVC_LOAD_BALANCER };

    svc->type = randobj_draw(r, 12) ? types[randobj_draw(r, ARRAY_SIZE(types))]
                                    : SVC_EXTERNAL_NAME;
    svc->headless = !randobj_draw(r, 12);
    svc->internal_policy = !randobj_draw(r, 3);
    svc->external_policy = !randobj_draw(r, 2);
    svc->publish_not_ready = !randobj_draw(r, 6);
    svc->affinity_s = randobj_draw(r, 3) ? 0 : 1 + randobj_draw(r, 86400);
    svc->external_ips = lists->external_ips;
    svc->ingress = lists->ingress;
    svc->source_ranges = lists->ranges;
    if (randobj_draw(r, 2)) {
        svc->n_external_ips = randobj_draw(r, 4);
        svc->n_ingress = randobj_draw(r, 4);
        svc->n_source_ranges = randobj_draw(r, 4);
    }
    for (size_t k = 0; k < 3; k++) {
        lists->external_ips[k] = make_outer(r, i);
        lists->ingress[k].ip = make_outer(r, i);
        lists->ingress[k].proxy = !randobj_draw(r, 4);
        lists->ranges[k].ip = make_outer(r, i);
        lists->ranges[k].plen =
            randobj_draw(r, 8) ? 24 + randobj_draw(r, 9) : 0;
    }
}

/* Ports may clash in number, and Services in address, unless apart. */
struct svc *
randobj_svc(struct randobj *r, uint32_t i)
{
    struct lists lists;
    uint32_t first_name = randobj_draw(r, ARRAY_SIZE(port_names));
    struct svc_port ports[3];
    struct svc svc = {
        .meta = { .ns = RANDOBJ_NS,
                  .name = r->names[i],
                  .uid = "",
                  .version = ++r->version,
                  .created_s = randobj_draw(r, 3) },
        .ports = ports,
        .n_ports = randobj_draw(r, ARRAY_SIZE(ports) + 1),
    };

    draw_rest(r, i, &lists, &svc);
    for (int f = 0; f < N_IP_FAMILIES; f++) {
        if (randobj_draw(r, 3)) {
            svc.cluster_ips[f] =
                randobj_ip(f, r->apart ? 1 + i : 1 + randobj_draw(r, N_IPS));
        }
    }
    for (size_t p = 0; p < svc.n_ports; p++) {
        ports[p] = (struct svc_port){
            .name = port_names[(first_name + p) % ARRAY_SIZE(port_names)],
            .proto = randobj_draw(r, 2) ? PROTO_TCP : PROTO_UDP,
            .port = 80 + (r->apart ? p : randobj_draw(r, 2)),
            .node_port = randobj_draw(r, 2) ? 0
                         : r->apart         ? 30000 + i * ARRAY_SIZE(ports) + p
                                            : 30000 + randobj_draw(r, 3),
        };
    }
    return svc_pack(&svc, r->pool);
}

static void
make_endpoint(struct randobj *r, enum ip_family family, uint32_t range,
              struct slice_endpoint *ep)
{
    *ep = (struct slice_endpoint){
        .ip = randobj_ip(family, 1000 + randobj_draw(r, range)),
        .node = nodes[randobj_draw(r, ARRAY_SIZE(nodes))],
        .ready = randobj_draw(r, 4),
        .serving = randobj_draw(r, 3),
        .terminating = !randobj_draw(r, 4),
    };
    if (randobj_draw(r, 3)) {
        ep->zones = CONST_CAST(const char **, &zones[randobj_draw(r, 2)]);
        ep->n_zones = 1;
    }
}

struct slice *
randobj_slice(struct randobj *r, uint32_t i)
{
    static const char *const names[] = {
        "s0", "s1", "s2", "s3", "s4",  "s5",
        "s6", "s7", "s8", "s9", "s10", "s11"
    };
    size_t n = randobj_draw(r, 40)
                   ? randobj_draw(r, randobj_draw(r, MAX_EPS) + 1)
                   : LARGE_EPS;
    struct slice_endpoint *eps = xcalloc(MAX(n, 1), sizeof *eps);
    struct slice_port ports[2];
    struct slice *ret;
    struct slice slice = {
        .meta = { .ns = RANDOBJ_NS,
                  .name = names[i],
                  .uid = "",
                  .version = ++r->version },
        .service = r->names[randobj_draw(r, RANDOBJ_N_SVCS)],
        .family = i % N_IP_FAMILIES,
        .endpoints = eps,
        .n_endpoints = n,
        .ports = ports,
        .n_ports = randobj_draw(r, ARRAY_SIZE(ports) + 1),
    };

    for (size_t k = 0; k < n; k++) {
        make_endpoint(r, slice.family, 2 * n, &eps[k]);
    }
    for (size_t k = 0; k < slice.n_ports; k++) {
        ports[k] = (struct slice_port){
            .name = port_names[randobj_draw(r, ARRAY_SIZE(port_names))],
            .proto = randobj_draw(r, 2) ? PROTO_TCP : PROTO_UDP,
            .port = 8080 + randobj_draw(r, 2),
        };
    }
    ret = slice_pack(&slice, r->pool);
    free(eps);
    return ret;
}

struct node *
randobj_node(struct randobj *r)
{
    struct node node = {
        .meta = { .ns = "", .name = "n1", .uid = "" },
        .zone = randobj_draw(r, 3) ? zones[randobj_draw(r, 2)] : "",
    };

    return node_pack(&node, r->pool);
}
