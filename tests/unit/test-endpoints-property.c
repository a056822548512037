/* SPDX-License-Identifier: Apache-2.0 */
/* The endpoint choice against a second implementation.
 *
 * Random slices, many of whose endpoints collide, go through the model and
 * eps_choose() and, as plain records, through the naive_*() functions, which
 * follow the reference text line by line with no thought of cost.  They share
 * no code and no types with the real ones except for the input.
 *
 * SEED=N in the environment repeats a run, ROUNDS=N changes its length. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>
#include <time.h>

#include <cmocka.h>

#include <util.h>

#include "../support/envnum.h"
#include "../support/epsfix.h"
#include "ofproxyd/model/endpoints.h"

#define MAX_SLICES 4
#define MAX_EPS    6 /* In a slice. */
#define MAX_HINTS  2
#define MAX_ALL    (MAX_SLICES * MAX_EPS)

/* A generator of our own, so that a seed means the same everywhere. */
struct rng {
    uint64_t x;
};

static uint32_t
next_random(struct rng *r)
{
    r->x = r->x * 6364136223846793005 + 1442695040888963407;
    return r->x >> 33;
}

static uint32_t
below(struct rng *r, uint32_t n)
{
    return next_random(r) % n;
}

static bool
percent(struct rng *r, uint32_t p)
{
    return below(r, 100) < p;
}

/* One round's input. */

struct in_slice {
    struct slice slice;
    char name[32];
    struct slice_port ports[3];
    struct slice_endpoint eps[MAX_EPS];
    const char *zones[MAX_EPS][MAX_HINTS], *nodes[MAX_EPS][MAX_HINTS];
};

struct input {
    struct svc svc;
    struct svc_port port;
    struct ip external_ip;
    struct svc_ingress ingress;
    struct in_slice slices[MAX_SLICES];
    size_t n_slices;
    const char *node, *zone;
    enum ip_family family;
};

static const char *const zone_names[] = { "za", "zb", "zc" };
static const char *const node_names[] = { "n1", "n2", "n3" };
static const char *const port_names[] = { "", "http", "dns" };

static struct ip
random_ip(struct rng *r, enum ip_family family)
{
    uint32_t n = below(r, 8);

    if (family == IP_V4) {
        return ip_from_v4(htonl(0x0a0a0100 + n));
    }
    struct ip ip = { .in6.s6_addr = { 0x20, 0x01, 0x0d, 0xb8, [15] = n } };
    return ip;
}

static uint8_t
random_names(struct rng *r, const char *const *from, const char **to)
{
    uint8_t n = 1 + below(r, MAX_HINTS);

    for (uint8_t i = 0; i < n; i++) {
        to[i] = from[below(r, 3)];
    }
    return n;
}

/* The percentages of a round make it likely that "every one has hints" and
 * "none is ready" both happen often. */
struct odds {
    uint32_t ready, serving, terminating, zone_hints, node_hints;
};

static uint32_t
random_odds(struct rng *r)
{
    static const uint32_t odds[] = { 0, 10, 50, 90, 100 };

    return odds[below(r, ARRAY_SIZE(odds))];
}

static void
random_slice(struct rng *r, const struct odds *odds, size_t index,
             struct in_slice *s)
{
    enum ip_family family = percent(r, 80) ? IP_V4 : IP_V6;
    size_t n_eps = below(r, MAX_EPS + 1);
    size_t n_ports = percent(r, 5) ? 0 : 1 + below(r, 3);

    snprintf(s->name, sizeof s->name, "s%d", (int) index);
    for (size_t i = 0; i < n_ports; i++) {
        s->ports[i] = (struct slice_port){
            .name = port_names[i],
            .proto = percent(r, 90) ? PROTO_TCP : PROTO_UDP,
            .port = 8080 + below(r, 2),
        };
    }
    for (size_t i = 0; i < n_eps; i++) {
        struct slice_endpoint *ep = &s->eps[i];

        *ep = (struct slice_endpoint){
            .ip = random_ip(r, family),
            .node = percent(r, 10) ? NULL : node_names[below(r, 3)],
            .zones = s->zones[i],
            .hint_nodes = s->nodes[i],
            .ready = percent(r, odds->ready),
            .serving = percent(r, odds->serving),
            .terminating = percent(r, odds->terminating),
        };
        if (percent(r, odds->zone_hints)) {
            ep->n_zones = random_names(r, zone_names, s->zones[i]);
        }
        if (percent(r, odds->node_hints)) {
            ep->n_hint_nodes = random_names(r, node_names, s->nodes[i]);
        }
    }
    s->slice = (struct slice){
        .meta = { "ns1", s->name, "", below(r, 3), 0 },
        .service = percent(r, 90) ? "svc-a" : "svc-b",
        .family = family,
        .ports = s->ports,
        .n_ports = n_ports,
        .endpoints = s->eps,
        .n_endpoints = n_eps,
    };
}

static void
random_svc(struct rng *r, struct input *in)
{
    in->port = (struct svc_port){
        .name = port_names[percent(r, 80) ? 0 : below(r, 3)],
        .proto = PROTO_TCP,
        .port = 80,
        .node_port = percent(r, 40) ? 30080 : 0,
    };
    in->external_ip = random_ip(r, below(r, 2));
    in->ingress.ip = random_ip(r, below(r, 2));
    in->ingress.proxy = percent(r, 50);
    in->svc = (struct svc){
        .meta = { "ns1", "svc-a", "", 1, 1 },
        .type = below(r, 3),
        .external_policy = below(r, 2),
        .internal_policy = below(r, 2),
        .ports = &in->port,
        .n_ports = 1,
        .external_ips = &in->external_ip,
        .n_external_ips = percent(r, 20),
        .ingress = &in->ingress,
        .n_ingress = percent(r, 20),
    };
}

static void
random_input(struct rng *r, struct input *in)
{
    struct odds odds = { random_odds(r), random_odds(r), random_odds(r),
                         random_odds(r), random_odds(r) };

    memset(in, 0, sizeof *in);
    random_svc(r, in);
    in->n_slices = percent(r, 5) ? 0 : 1 + below(r, MAX_SLICES);
    for (size_t i = 0; i < in->n_slices; i++) {
        random_slice(r, &odds, i, &in->slices[i]);
    }
    in->node = percent(r, 90) ? node_names[below(r, 3)] : "";
    in->zone = percent(r, 90) ? zone_names[below(r, 3)] : "";
    in->family = percent(r, 80) ? IP_V4 : IP_V6;
}

/* The naive implementation. */

struct naive_ep {
    char address[64]; /* As kube-proxy writes it: IP:port, [IP]:port. */
    char key[64];     /* That in hexadecimal: sorts as numbers do. */
    bool ready, serving, terminating, local;
    const char **zones, **nodes;
    size_t n_zones, n_nodes;
    uint64_t version;
    size_t slice, index;
};

struct naive_set {
    struct naive_ep ep[MAX_ALL];
    size_t n;
};

/* Does the later 'b' take the place of 'a', which has the same address? */
static bool
naive_replaces(const struct naive_ep *b, const struct naive_ep *a)
{
    if (a->terminating && !b->terminating) {
        return true;
    }
    if (!a->terminating && b->terminating) {
        return false;
    }
    if (a->ready && !b->ready) {
        return false;
    }
    if (!a->ready && b->ready) {
        return true;
    }
    if (a->serving && !b->serving) {
        return false;
    }
    if (!a->serving && b->serving) {
        return true;
    }
    /* Slices are visited by name, endpoints in their order. */
    return a->slice != b->slice && b->version > a->version;
}

static void
naive_add(struct naive_set *all, const struct naive_ep *new)
{
    for (size_t i = 0; i < all->n; i++) {
        if (!strcmp(all->ep[i].address, new->address)) {
            if (naive_replaces(new, &all->ep[i])) {
                all->ep[i] = *new;
            }
            return;
        }
    }
    all->ep[all->n++] = *new;
}

static struct naive_ep
naive_endpoint(const struct slice_endpoint *from, uint16_t port,
               enum ip_family family, const char *our_node)
{
    struct naive_ep ep = {
        .ready = from->ready,
        .serving = from->serving,
        .terminating = from->terminating,
        .zones = from->zones,
        .n_zones = from->n_zones,
        .nodes = from->hint_nodes,
        .n_nodes = from->n_hint_nodes,
    };
    char ip[INET6_ADDRSTRLEN];
    size_t n = 0;

    ep.local = from->node != NULL && strcmp(our_node, "") != 0
               && strcmp(from->node, our_node) == 0;
    if (family == IP_V4) {
        inet_ntop(AF_INET, &from->ip.in6.s6_addr[12], ip, sizeof ip);
        snprintf(ep.address, sizeof ep.address, "%s:%d", ip, port);
    } else {
        inet_ntop(AF_INET6, &from->ip.in6, ip, sizeof ip);
        snprintf(ep.address, sizeof ep.address, "[%s]:%d", ip, port);
    }
    for (int i = 0; i < 16; i++) {
        n += sprintf(ep.key + n, "%02x", from->ip.in6.s6_addr[i]);
    }
    sprintf(ep.key + n, "%04x", port);
    return ep;
}

static int
naive_by_key(const void *a, const void *b)
{
    return strcmp(((const struct naive_ep *) a)->key,
                  ((const struct naive_ep *) b)->key);
}

/* From slices to the endpoints of a Service port. */
static void
naive_collect(const struct input *in, struct naive_set *all)
{
    all->n = 0;
    for (size_t i = 0; i < in->n_slices; i++) {
        const struct slice *s = &in->slices[i].slice;

        if (strcmp(s->service, "svc-a") != 0 || s->family != in->family) {
            continue;
        }
        for (size_t p = 0; p < s->n_ports; p++) {
            if (strcmp(s->ports[p].name, in->port.name) != 0
                || s->ports[p].proto != in->port.proto) {
                continue;
            }
            for (size_t e = 0; e < s->n_endpoints; e++) {
                struct naive_ep ep =
                    naive_endpoint(&s->endpoints[e], s->ports[p].port,
                                   in->family, in->node);
                ep.slice = i;
                ep.version = s->meta.version;
                naive_add(all, &ep);
            }
        }
    }
    qsort(all->ep, all->n, sizeof all->ep[0], naive_by_key);
}

static bool
naive_has(const char **names, size_t n, const char *name)
{
    bool has = false;

    for (size_t i = 0; i < n; i++) {
        if (strcmp(name, "") != 0 && strcmp(names[i], name) == 0) {
            has = true;
        }
    }
    return has;
}

/* "", "PreferSameNode" or "PreferSameZone". */
static const char *
naive_topology_mode(const struct input *in, const struct naive_set *all)
{
    size_t n_ready = 0, n_node_hints = 0, n_zone_hints = 0;
    size_t n_our_node = 0, n_our_zone = 0;

    for (size_t i = 0; i < all->n; i++) {
        const struct naive_ep *e = &all->ep[i];

        if (!e->ready) {
            continue;
        }
        n_ready++;
        n_node_hints += e->n_nodes != 0;
        n_zone_hints += e->n_zones != 0;
        n_our_node += naive_has(e->nodes, e->n_nodes, in->node);
        n_our_zone += naive_has(e->zones, e->n_zones, in->zone);
    }
    if (n_ready == 0) {
        return "";
    }
    if (n_node_hints == n_ready && n_our_node > 0) {
        return "PreferSameNode";
    }
    if (n_zone_hints == n_ready && n_our_zone > 0) {
        return "PreferSameZone";
    }
    return "";
}

static bool
naive_fits(const struct input *in, const struct naive_ep *e, const char *mode)
{
    if (strcmp(mode, "PreferSameNode") == 0) {
        return naive_has(e->nodes, e->n_nodes, in->node);
    }
    if (strcmp(mode, "PreferSameZone") == 0) {
        return naive_has(e->zones, e->n_zones, in->zone);
    }
    return true;
}

static bool
naive_external(const struct input *in)
{
    bool ext = false;

    if (in->port.node_port != 0) {
        ext = true;
    }
    if (in->svc.n_ingress == 1 && !in->ingress.proxy
        && ip_family(&in->ingress.ip) == in->family) {
        ext = true;
    }
    if (in->svc.n_external_ips == 1
        && ip_family(&in->external_ip) == in->family) {
        ext = true;
    }
    return ext;
}

static bool
naive_external_policy_local(const struct input *in)
{
    return in->svc.external_policy == SVC_POLICY_LOCAL
           && (in->svc.type == SVC_LOAD_BALANCER
               || in->svc.type == SVC_NODE_PORT
               || (in->svc.type == SVC_CLUSTER_IP
                   && in->svc.n_external_ips > 0));
}

struct naive_choice {
    bool uses_cluster, uses_local, has_any;
    struct naive_set cluster, local;
};

static void
naive_fill_cluster(const struct input *in, const struct naive_set *all,
                   struct naive_choice *c)
{
    const char *mode = naive_topology_mode(in, all);

    for (size_t i = 0; i < all->n; i++) {
        if (all->ep[i].ready && naive_fits(in, &all->ep[i], mode)) {
            c->cluster.ep[c->cluster.n++] = all->ep[i];
        }
    }
    if (c->cluster.n == 0) {
        for (size_t i = 0; i < all->n; i++) {
            if (all->ep[i].serving && all->ep[i].terminating) {
                c->cluster.ep[c->cluster.n++] = all->ep[i];
            }
        }
    }
    c->has_any = c->cluster.n > 0;
}

static void
naive_fill_local(const struct naive_set *all, struct naive_choice *c)
{
    for (size_t i = 0; i < all->n; i++) {
        const struct naive_ep *e = &all->ep[i];

        if (e->ready || (e->serving && e->terminating)) {
            c->has_any = true;
        }
        if (e->local && e->ready) {
            c->local.ep[c->local.n++] = *e;
        }
    }
    if (c->local.n == 0) {
        for (size_t i = 0; i < all->n; i++) {
            const struct naive_ep *e = &all->ep[i];

            if (e->local && !e->ready && e->serving && e->terminating) {
                c->local.ep[c->local.n++] = *e;
            }
        }
    }
}

static void
naive_choose(const struct input *in, struct naive_choice *c)
{
    struct naive_set all;
    bool ext = naive_external(in);

    naive_collect(in, &all);
    c->cluster.n = c->local.n = 0;
    c->has_any = false;
    c->uses_cluster = in->svc.internal_policy != SVC_POLICY_LOCAL || ext;
    c->uses_local = in->svc.internal_policy == SVC_POLICY_LOCAL
                    || (naive_external_policy_local(in) && ext);
    if (all.n == 0) {
        return;
    }
    if (c->uses_cluster) {
        naive_fill_cluster(in, &all, c);
    }
    if (c->uses_local) {
        naive_fill_local(&all, c);
    }
}

/* The comparison. */

static void
assert_same_list(const struct eps_list *got, const struct naive_set *expected)
{
    assert_int_equal(got->n, expected->n);
    for (size_t i = 0; i < got->n; i++) {
        char ip[IP_STRLEN], address[IP_STRLEN + 10];
        bool v4 = ip_family(&got->eps[i].ip) == IP_V4;

        snprintf(address, sizeof address, v4 ? "%s:%d" : "[%s]:%d",
                 ip_to_string(&got->eps[i].ip, ip), got->eps[i].port);
        assert_string_equal(address, expected->ep[i].address);
        assert_int_equal(got->eps[i].local, expected->ep[i].local);
    }
}

static void
put_slices(struct rng *r, struct model *m, const struct input *in)
{
    size_t order[MAX_SLICES];

    for (size_t i = 0; i < in->n_slices; i++) {
        size_t j = below(r, i + 1);

        order[i] = order[j];
        order[j] = i;
    }
    for (size_t i = 0; i < in->n_slices; i++) {
        model_put_slice(m, slice_pack(&in->slices[order[i]].slice,
                                      model_pool(m)));
    }
}

/* What a run went through, so that it can't become empty unnoticed. */
struct tally {
    size_t cluster, local, only_fallback, hinted, reject, drop, duplicates;
};

static void
count_round(const struct input *in, const struct naive_choice *c,
            struct tally *t)
{
    struct naive_set all;
    size_t n_raw = 0;

    naive_collect(in, &all);
    for (size_t i = 0; i < in->n_slices; i++) {
        n_raw += in->slices[i].slice.n_endpoints;
    }
    t->cluster += c->cluster.n > 1;
    t->local += c->local.n > 0;
    t->only_fallback += c->cluster.n && !c->cluster.ep[0].ready;
    t->hinted += strcmp(naive_topology_mode(in, &all), "") != 0;
    t->reject += !c->has_any;
    t->drop += c->uses_local && c->has_any && !c->local.n;
    t->duplicates += all.n && all.n < n_raw;
}

static void
run_round(struct rng *r, struct tally *tally)
{
    static struct input in;
    static struct naive_choice expected;

    random_input(r, &in);
    naive_choose(&in, &expected);
    count_round(&in, &expected, tally);

    struct model *m = model_create(in.node);
    struct eps_place here = { in.node, in.zone };
    struct eps_choice choice;

    put_slices(r, m, &in);
    model_put_svc(m, svc_pack(&in.svc, model_pool(m)));
    const struct model_service *ms = model_find_service(m, "ns1", "svc-a");
    eps_choose(ms, &ms->svc->ports[0], in.family, &here, &choice);
    assert_int_equal(choice.uses_cluster, expected.uses_cluster);
    assert_int_equal(choice.uses_local, expected.uses_local);
    assert_int_equal(choice.has_any, expected.has_any);
    assert_same_list(&choice.cluster, &expected.cluster);
    assert_same_list(&choice.local, &expected.local);
    epsfix_assert_explained(ms, in.family, &here, &choice);
    eps_choice_uninit(&choice);
    model_destroy(m);
}

static void
choice_equals_that_of_the_naive_implementation(void **state OVS_UNUSED)
{
    uint64_t seed = envnum("SEED", time(NULL));
    uint64_t rounds = envnum("ROUNDS", 20000);
    struct rng r = { seed };
    struct tally t = { 0 };

    print_message("seed %llu\n", (unsigned long long) seed);
    for (uint64_t i = 0; i < rounds; i++) {
        run_round(&r, &t);
    }
    print_message("rounds with cluster %zu, local %zu, fallback %zu, hints "
                  "%zu, reject %zu, drop %zu, duplicates %zu\n",
                  t.cluster, t.local, t.only_fallback, t.hinted, t.reject,
                  t.drop, t.duplicates);
    if (rounds >= 10000) {
        size_t least = rounds / 200;

        assert_true(t.cluster > least && t.local > least
                    && t.only_fallback > least && t.hinted > least
                    && t.reject > least && t.drop > least
                    && t.duplicates > least);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(choice_equals_that_of_the_naive_implementation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
