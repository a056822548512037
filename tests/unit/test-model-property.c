/* SPDX-License-Identifier: Apache-2.0 */
/* Random sequences of puts, deletes, lists and aborted lists against plain
 * arrays: after every step the same objects, the same dirty Services, in the
 * same order as far as an order is promised.
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
#include "ofproxyd/model/model.h"

#define N_NAMES    3 /* Services of a namespace. */
#define N_SERVICES (2 * N_NAMES)
#define N_SLICES   8
#define N_NODES    3
#define N_ZONES    3
#define N_PLAIN    2   /* Objects of each plain kind. */
#define N_STEPS    300 /* In a round. */

static const char *const namespaces[] = { "ns1", "ns2" };
static const char *const names[] = { "a", "b", "c" };
static const char *const slice_names[] = { "s0", "s1", "s2", "s3",
                                           "s4", "s5", "s6", "s7" };
static const char *const node_names[] = { "n1", "n2", "n3" };
static const char *const plain_names[] = { "c0", "c1" };
static const char *const zones[] = { "", "za", "zb" };

/* The plain arrays.  -1 stands for "there is none". */
struct naive {
    int svc[N_SERVICES]; /* Variant. */
    struct {
        int variant;
        int service;
        uint64_t version;
    } slice[N_SLICES];
    int zone[N_NODES];
    uint64_t nodes_seqno;
    int plain[N_MODEL_KINDS][N_PLAIN]; /* Variant, of the plain kinds. */
    uint64_t plain_seqnos[N_MODEL_KINDS];
    bool synced[N_MODEL_KINDS];

    /* When the Service was enqueued, 0 if it isn't.  What one step enqueued
     * comes in any order. */
    uint64_t enqueued[N_SERVICES];
    uint64_t nodes_enqueued[N_NODES];
    uint64_t step;
};

struct run {
    uint64_t rng;
    struct model *m;
    struct naive naive;
};

static uint32_t
below(struct run *r, uint32_t n)
{
    r->rng = r->rng * 6364136223846793005 + 1442695040888963407;
    return (r->rng >> 33) % n;
}

/* Service 'i' is the name i % N_NAMES in one of the namespaces; slice 'i' is
 * in the namespace and of the family that follow from its number. */

static const char *
service_ns(int i)
{
    return namespaces[i / N_NAMES];
}

static int
slice_ns(int i)
{
    return i % 2;
}

static enum ip_family
slice_family(int i)
{
    return i / 2 % 2;
}

static void
naive_enqueue(struct naive *n, int service)
{
    if (!n->enqueued[service]) {
        n->enqueued[service] = n->step;
    }
}

/* Does the Service have anything? */
static bool
naive_exists(const struct naive *n, int service)
{
    bool exists = n->svc[service] >= 0;

    for (int i = 0; i < N_SLICES; i++) {
        exists |= n->slice[i].variant >= 0 && n->slice[i].service == service;
    }
    return exists;
}

static void
naive_enqueue_all(struct naive *n)
{
    for (int i = 0; i < N_SERVICES; i++) {
        if (naive_exists(n, i)) {
            naive_enqueue(n, i);
        }
    }
}

static int
compare_versions(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b ? 1 : 0;
}

static bool
naive_overtakes(const struct naive *n, int slice, uint64_t version)
{
    for (int i = 0; i < N_SLICES; i++) {
        if (i != slice && n->slice[i].variant >= 0
            && n->slice[i].service == n->slice[slice].service
            && slice_family(i) == slice_family(slice)
            && compare_versions(n->slice[slice].version, n->slice[i].version)
                   != compare_versions(version, n->slice[i].version)) {
            return true;
        }
    }
    return false;
}

/* Each of these does the same to both and compares what was said. */

static void
put_svc(struct run *r, int i, int variant)
{
    struct naive *n = &r->naive;
    struct svc svc = { .meta = { service_ns(i), names[i % N_NAMES], "", 1, 1 },
                       .affinity_s = variant };
    bool expected = n->svc[i] != variant;

    assert_int_equal(model_put_svc(r->m, svc_pack(&svc, model_pool(r->m))),
                     expected);
    n->svc[i] = variant;
    if (expected) {
        naive_enqueue(n, i);
    }
}

static bool
naive_put_slice(struct naive *n, int i, int service, int variant,
                uint64_t version)
{
    bool there = n->slice[i].variant >= 0;
    int old = n->slice[i].service;
    bool changed = !there || old != service || n->slice[i].variant != variant
                   || naive_overtakes(n, i, version);

    if (changed) {
        if (there) {
            naive_enqueue(n, old);
        }
        naive_enqueue(n, service);
    }
    n->slice[i].service = service;
    n->slice[i].variant = variant;
    n->slice[i].version = version;
    return changed;
}

static void
put_slice(struct run *r, int i, int name, int variant, uint64_t version)
{
    struct slice_endpoint eps[4] = { { .ready = true } };
    struct slice slice = {
        .meta = { namespaces[slice_ns(i)], slice_names[i], "", version, 1 },
        .service = names[name],
        .family = slice_family(i),
        .endpoints = eps,
        .n_endpoints = variant,
    };

    assert_int_equal(model_put_slice(r->m,
                                     slice_pack(&slice, model_pool(r->m))),
                     naive_put_slice(&r->naive, i,
                                     slice_ns(i) * N_NAMES + name, variant,
                                     version));
}

/* A zone of -1 takes the Node away. */
static void
naive_set_zone(struct naive *n, int i, int zone)
{
    int old = n->zone[i];

    n->nodes_seqno += old != zone;
    if (old != zone && !n->nodes_enqueued[i]) {
        n->nodes_enqueued[i] = n->step;
    }
    n->zone[i] = zone;
    if (i == 0 && strcmp(zones[MAX(old, 0)], zones[MAX(zone, 0)])) {
        naive_enqueue_all(n);
    }
}

static void
put_node(struct run *r, int i, int zone)
{
    struct node node = { .meta = { "", node_names[i], "", 1, 1 },
                         .zone = zones[zone] };

    assert_int_equal(model_put_node(r->m, node_pack(&node, model_pool(r->m))),
                     r->naive.zone[i] != zone);
    naive_set_zone(&r->naive, i, zone);
}

static void
naive_set_plain(struct naive *n, enum model_kind kind, int i, int variant)
{
    n->plain_seqnos[kind] += n->plain[kind][i] != variant;
    n->plain[kind][i] = variant;
}

static const char *
plain_ns(enum model_kind kind)
{
    return kind == MODEL_SERVICE_CIDRS ? "" : namespaces[0];
}

/* Each kind shows its variant in another member. */
static struct obj_meta *
plain_make(struct run *r, enum model_kind kind, int i, int variant)
{
    struct obj_meta meta = { plain_ns(kind), plain_names[i], "", 1, 1 };
    struct intern_pool *pool = model_pool(r->m);
    struct cidr cidrs[2] = { { .plen = 8 }, { .plen = 8 } };
    struct service_cidr cidr = { .meta = meta, .n_cidrs = variant };
    struct mc_gateway gateway = { .meta = meta };
    struct mc_cluster cluster = {
        .meta = meta,
        .cluster_id = "",
        .pod_cidrs = cidrs,
        .n_pod_cidrs = variant,
    };

    gateway.internal_ip.in6.s6_addr[15] = variant;
    return kind == MODEL_SERVICE_CIDRS ? &service_cidr_pack(&cidr, pool)->meta
           : kind == MODEL_MC_GATEWAYS
               ? &mc_gateway_pack(&gateway, pool)->meta
               : &mc_cluster_pack(&cluster, pool)->meta;
}

static int
plain_variant(enum model_kind kind, const struct obj_meta *meta)
{
    return kind == MODEL_SERVICE_CIDRS
               ? CONTAINER_OF(meta, struct service_cidr, meta)->n_cidrs
           : kind == MODEL_MC_GATEWAYS
               ? CONTAINER_OF(meta, struct mc_gateway, meta)
                     ->internal_ip.in6.s6_addr[15]
               : CONTAINER_OF(meta, struct mc_cluster, meta)->n_pod_cidrs;
}

static void
put_plain(struct run *r, enum model_kind kind, int i, int variant)
{
    assert_int_equal(model_put_plain(r->m, kind,
                                     plain_make(r, kind, i, variant)),
                     r->naive.plain[kind][i] != variant);
    naive_set_plain(&r->naive, kind, i, variant);
}

/* Takes object 'i' out of the arrays; false if there is none. */
static bool
naive_delete(struct naive *n, enum model_kind kind, int i)
{
    bool there;

    switch (kind) {
    case MODEL_SERVICES:
        there = n->svc[i] >= 0;
        n->svc[i] = -1;
        if (there) {
            naive_enqueue(n, i);
        }
        return there;
    case MODEL_SLICES:
        there = n->slice[i].variant >= 0;
        n->slice[i].variant = -1;
        if (there) {
            naive_enqueue(n, n->slice[i].service);
        }
        return there;
    case MODEL_NODES:
        there = n->zone[i] >= 0;
        naive_set_zone(n, i, -1);
        return there;
    case MODEL_SERVICE_CIDRS:
    case MODEL_MC_GATEWAYS:
    case MODEL_MC_CLUSTERS:
        there = n->plain[kind][i] >= 0;
        naive_set_plain(n, kind, i, -1);
        return there;
    }
    OVS_NOT_REACHED();
}

static int
n_objects(enum model_kind kind)
{
    switch (kind) {
    case MODEL_SERVICES: return N_SERVICES;
    case MODEL_SLICES: return N_SLICES;
    case MODEL_NODES: return N_NODES;
    case MODEL_SERVICE_CIDRS:
    case MODEL_MC_GATEWAYS:
    case MODEL_MC_CLUSTERS: return N_PLAIN;
    }
    OVS_NOT_REACHED();
}

static const char *
object_ns(enum model_kind kind, int i)
{
    switch (kind) {
    case MODEL_SERVICES: return service_ns(i);
    case MODEL_SLICES: return namespaces[slice_ns(i)];
    case MODEL_NODES: return "";
    case MODEL_SERVICE_CIDRS:
    case MODEL_MC_GATEWAYS:
    case MODEL_MC_CLUSTERS: return plain_ns(kind);
    }
    OVS_NOT_REACHED();
}

static const char *
object_name(enum model_kind kind, int i)
{
    switch (kind) {
    case MODEL_SERVICES: return names[i % N_NAMES];
    case MODEL_SLICES: return slice_names[i];
    case MODEL_NODES: return node_names[i];
    case MODEL_SERVICE_CIDRS:
    case MODEL_MC_GATEWAYS:
    case MODEL_MC_CLUSTERS: return plain_names[i];
    }
    OVS_NOT_REACHED();
}

static void
put_random(struct run *r, enum model_kind kind, int i)
{
    switch (kind) {
    case MODEL_SERVICES: put_svc(r, i, below(r, 3)); return;
    case MODEL_SLICES:
        put_slice(r, i, below(r, N_NAMES), below(r, 4), below(r, 5));
        return;
    case MODEL_NODES: put_node(r, i, below(r, N_ZONES)); return;
    case MODEL_SERVICE_CIDRS:
    case MODEL_MC_GATEWAYS:
    case MODEL_MC_CLUSTERS: put_plain(r, kind, i, below(r, 3)); return;
    }
    OVS_NOT_REACHED();
}

/* Puts the object that is there once more, as a list does. */
static void
put_again(struct run *r, enum model_kind kind, int i)
{
    struct naive *n = &r->naive;

    switch (kind) {
    case MODEL_SERVICES:
        if (n->svc[i] >= 0) {
            put_svc(r, i, n->svc[i]);
        }
        return;
    case MODEL_SLICES:
        if (n->slice[i].variant >= 0) {
            put_slice(r, i, n->slice[i].service % N_NAMES, n->slice[i].variant,
                      n->slice[i].version);
        }
        return;
    case MODEL_NODES:
        if (n->zone[i] >= 0) {
            put_node(r, i, n->zone[i]);
        }
        return;
    case MODEL_SERVICE_CIDRS:
    case MODEL_MC_GATEWAYS:
    case MODEL_MC_CLUSTERS:
        if (n->plain[kind][i] >= 0) {
            put_plain(r, kind, i, n->plain[kind][i]);
        }
        return;
    }
    OVS_NOT_REACHED();
}

/* A list of random content, cut off in the middle if 'aborted'. */
static void
relist(struct run *r, enum model_kind kind, bool aborted)
{
    bool listed[N_SERVICES + N_SLICES + N_NODES] = { false };
    int n = aborted ? below(r, n_objects(kind)) : n_objects(kind);
    size_t n_removed = 0;

    model_relist_begin(r->m, kind);
    for (int i = 0; i < n; i++) {
        uint32_t action = below(r, 6);

        listed[i] = action > 0;
        if (action == 1) {
            put_random(r, kind, i);
        } else if (action == 2) {
            model_keep(r->m, kind, object_ns(kind, i), object_name(kind, i));
        } else if (action > 2) {
            put_again(r, kind, i);
        }
    }
    if (!aborted) {
        for (int i = 0; i < n; i++) {
            n_removed += !listed[i] && naive_delete(&r->naive, kind, i);
        }
        assert_int_equal(model_relist_end(r->m, kind), n_removed);
        r->naive.synced[kind] = true;
    }
}

static int
find_service(const char *ns, const char *name)
{
    for (int i = 0; i < N_SERVICES; i++) {
        if (!strcmp(ns, service_ns(i)) && !strcmp(name, names[i % N_NAMES])) {
            return i;
        }
    }
    fail_msg("unknown Service %s/%s", ns, name);
    return -1;
}

static void
check_service(const struct run *r, int i, const struct model_service *ms)
{
    const struct naive *n = &r->naive;
    const struct model_slice *s;
    size_t n_slices = 0;
    int last = -1;

    assert_int_equal(ms->svc != NULL, n->svc[i] >= 0);
    if (ms->svc) {
        assert_int_equal(ms->svc->affinity_s, n->svc[i]);
    }
    LIST_FOR_EACH (s, list_node, &ms->slices) {
        int number = atoi(s->slice->meta.name + 1);

        assert_true(number > last);
        last = number;
        assert_string_equal(s->slice->meta.ns, ms->ns);
        assert_int_equal(n->slice[number].service, i);
        assert_int_equal(s->slice->n_endpoints, n->slice[number].variant);
        assert_int_equal(s->slice->meta.version, n->slice[number].version);
        n_slices++;
    }
    for (int j = 0; j < N_SLICES; j++) {
        n_slices -= n->slice[j].variant >= 0 && n->slice[j].service == i;
    }
    assert_int_equal(n_slices, 0);
}

/* Takes a Service from the queue: one of those that have waited longest. */
static void
pop(struct run *r)
{
    struct naive *n = &r->naive;
    const struct model_service *ms = model_pop_dirty(r->m);
    uint64_t oldest = UINT64_MAX;

    for (int i = 0; i < N_SERVICES; i++) {
        if (n->enqueued[i]) {
            oldest = MIN(oldest, n->enqueued[i]);
        }
    }
    assert_int_equal(ms != NULL, oldest != UINT64_MAX);
    if (ms) {
        int i = find_service(ms->ns, ms->name);

        assert_int_equal(n->enqueued[i], oldest);
        n->enqueued[i] = 0;
        check_service(r, i, ms);
    }
}

/* The same with a Node. */
static void
pop_node(struct run *r)
{
    struct naive *n = &r->naive;
    const char *name = model_pop_dirty_node(r->m);
    uint64_t oldest = UINT64_MAX;

    for (int i = 0; i < N_NODES; i++) {
        if (n->nodes_enqueued[i]) {
            oldest = MIN(oldest, n->nodes_enqueued[i]);
        }
    }
    assert_int_equal(name != NULL, oldest != UINT64_MAX);
    for (int i = 0; name && i < N_NODES; i++) {
        if (!strcmp(name, node_names[i])) {
            assert_int_equal(n->nodes_enqueued[i], oldest);
            n->nodes_enqueued[i] = 0;
        }
    }
}

static void
check_plain(const struct run *r, enum model_kind kind, size_t n)
{
    const struct model_plain *mp;

    HMAP_FOR_EACH (mp, hmap_node, model_plain(r->m, kind)) {
        assert_int_equal(plain_variant(kind, mp->meta),
                         r->naive.plain[kind][mp->meta->name[1] - '0']);
    }
    for (int i = 0; i < N_PLAIN; i++) {
        n -= r->naive.plain[kind][i] >= 0;
    }
    assert_int_equal(n, 0);
    assert_int_equal(model_plain_seqno(r->m, kind),
                     r->naive.plain_seqnos[kind]);
}

static void
check_all(const struct run *r)
{
    const struct naive *n = &r->naive;
    struct model_counts counts;
    size_t expected[4] = { 0 };
    bool dirty = false, dirty_node = false;

    for (int i = 0; i < N_SERVICES; i++) {
        const struct model_service *ms =
            model_find_service(r->m, service_ns(i), names[i % N_NAMES]);

        assert_int_equal(ms != NULL, naive_exists(n, i));
        if (ms) {
            check_service(r, i, ms);
        }
        expected[0] += n->svc[i] >= 0;
        dirty |= n->enqueued[i] != 0;
    }
    for (int i = 0; i < N_SLICES; i++) {
        expected[1] += n->slice[i].variant >= 0;
        expected[2] += MAX(n->slice[i].variant, 0);
    }
    for (int i = 0; i < N_NODES; i++) {
        const struct node *node = model_find_node(r->m, node_names[i]);

        assert_int_equal(node != NULL, n->zone[i] >= 0);
        if (node) {
            assert_string_equal(node->zone, zones[n->zone[i]]);
        }
        expected[3] += n->zone[i] >= 0;
        dirty_node |= n->nodes_enqueued[i] != 0;
    }
    assert_int_equal(model_has_dirty_node(r->m), dirty_node);
    model_count(r->m, &counts);
    assert_int_equal(counts.n[MODEL_SERVICES], expected[0]);
    assert_int_equal(counts.n[MODEL_SLICES], expected[1]);
    assert_int_equal(counts.n_endpoints, expected[2]);
    assert_int_equal(counts.n[MODEL_NODES], expected[3]);
    assert_int_equal(model_has_dirty(r->m), dirty);
    assert_int_equal(model_nodes_seqno(r->m), n->nodes_seqno);
    for (int kind = MODEL_SERVICE_CIDRS; kind < N_MODEL_KINDS; kind++) {
        check_plain(r, kind, counts.n[kind]);
    }
    for (int kind = 0; kind < N_MODEL_KINDS; kind++) {
        assert_int_equal(model_kind_synced(r->m, kind), n->synced[kind]);
    }
}

static void
run_step(struct run *r)
{
    enum model_kind kind = below(r, 10) < 5   ? MODEL_SLICES
                           : below(r, 10) < 7 ? MODEL_SERVICES
                           : below(r, 10) < 5 ? MODEL_NODES
                           : below(r, 10) < 5 ? MODEL_SERVICE_CIDRS
                           : below(r, 10) < 5 ? MODEL_MC_GATEWAYS
                                              : MODEL_MC_CLUSTERS;
    int i = below(r, n_objects(kind));
    int service = below(r, N_SERVICES);

    r->naive.step++;
    switch (below(r, 13)) {
    case 0:
    case 1:
    case 2:
    case 3: put_random(r, kind, i); break;
    case 4: put_again(r, kind, i); break;
    case 5:
    case 6:
        assert_int_equal(model_delete(r->m, kind, object_ns(kind, i),
                                      object_name(kind, i)),
                         naive_delete(&r->naive, kind, i));
        break;
    case 7: relist(r, kind, below(r, 3) == 0); break;
    case 8:
        model_mark_dirty(r->m, service_ns(service), names[service % N_NAMES]);
        naive_enqueue(&r->naive, service);
        break;
    case 9: pop_node(r); break;
    default: pop(r); break;
    }
    check_all(r);
}

static void
run_round(struct run *r)
{
    struct naive *n = &r->naive;

    memset(n, 0, sizeof *n);
    for (int i = 0; i < N_SERVICES; i++) {
        n->svc[i] = -1;
    }
    for (int i = 0; i < N_SLICES; i++) {
        n->slice[i].variant = -1;
    }
    for (int i = 0; i < N_NODES; i++) {
        n->zone[i] = -1;
    }
    for (int i = 0; i < N_MODEL_KINDS * N_PLAIN; i++) {
        n->plain[i / N_PLAIN][i % N_PLAIN] = -1;
    }
    r->m = model_create(node_names[0]);
    for (int i = 0; i < N_STEPS; i++) {
        run_step(r);
    }
    while (model_has_dirty(r->m)) {
        pop(r);
    }
    check_all(r);

    /* Nothing is left of what has gone. */
    size_t n_left = 0;
    for (int i = 0; i < N_SERVICES; i++) {
        n_left += naive_exists(n, i);
    }
    assert_int_equal(hmap_count(model_services(r->m)), n_left);
    model_destroy(r->m);
}

static void
store_equals_plain_arrays(void **state OVS_UNUSED)
{
    struct run r = { .rng = envnum("SEED", time(NULL)) };
    uint64_t rounds = envnum("ROUNDS", 200);

    print_message("seed %llu\n", (unsigned long long) r.rng);
    for (uint64_t i = 0; i < rounds; i++) {
        run_round(&r);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(store_equals_plain_arrays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
