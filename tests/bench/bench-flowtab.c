/* SPDX-License-Identifier: Apache-2.0 */
/* Costs of the flow table: 10 000 owners with a flow and a group of ten
 * buckets each.  Prints one figure a line: name, value, unit. */

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <util.h>

#include "ofproxyd/flow/cookie.h"
#include "ofproxyd/flow/flowtab.h"

#define N_OWNERS  10000
#define N_BUCKETS 10
#define N_ROUNDS  5

static double
now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * 1e9 + ts.tv_nsec;
}

static size_t
n_bytes_in_use(void)
{
    struct mallinfo2 mi = mallinfo2();

    return mi.uordblks + mi.hblkhd;
}

static void
print(const char *name, double value, const char *unit)
{
    printf("flowtab %-28s %12.1f %s\n", name, value, unit);
}

/* DNAT in the bucket, as a Service port's group has it. */
static void
put_dnat(struct ofpbuf *ofpacts, uint32_t address)
{
    const ovs_be32 mark = htonl(0x10);
    size_t start = ofpacts->size;

    struct ofpact_conntrack *ct = ofpact_put_CT(ofpacts);
    ct->flags = NX_CT_F_COMMIT;
    ct->zone_imm = 65520;
    ct->recirc_table = 20;
    struct ofpact_nat *nat = ofpact_put_NAT(ofpacts);
    nat->flags = NX_NAT_F_DST;
    nat->range_af = AF_INET;
    nat->range.addr.ipv4.min = htonl(address);
    nat->range.proto.min = 8080;
    ofpact_put_set_field(ofpacts, mf_from_id(MFF_CT_MARK), &mark, &mark);
    ct = ofpbuf_at_assert(ofpacts, start, sizeof *ct);
    ofpacts->header = ct;
    ofpact_finish_CT(ofpacts, &ct);
}

static void
render_group(struct fout *out, uint32_t id)
{
    struct ofputil_group_mod gm = {
        .type = OFPGT11_SELECT,
        .group_id = group_id_make(id, false, 0),
    };
    struct ofputil_bucket buckets[N_BUCKETS];
    struct ofpbuf ofpacts[N_BUCKETS];

    ovs_list_init(&gm.buckets);
    for (uint32_t i = 0; i < N_BUCKETS; i++) {
        ofpbuf_init(&ofpacts[i], 128);
        put_dnat(&ofpacts[i], UINT32_C(0x0a000000) + id * N_BUCKETS + i);
        buckets[i] = (struct ofputil_bucket){
            .weight = 25,
            .watch_port = OFPP_ANY,
            .watch_group = OFPG_ANY,
            .bucket_id = i,
            .ofpacts = ofpacts[i].data,
            .ofpacts_len = ofpacts[i].size,
        };
        ovs_list_push_back(&gm.buckets, &buckets[i].list_node);
    }
    ignore(fout_group(out, &gm, NULL));
    for (size_t i = 0; i < N_BUCKETS; i++) {
        ofpbuf_uninit(&ofpacts[i]);
    }
}

static void
render_flow(struct fout *out, uint32_t id)
{
    uint64_t stub[64];
    struct ofpbuf ofpacts = OFPBUF_STUB_INITIALIZER(stub);
    struct match match;

    match_init_catchall(&match);
    match_set_dl_type(&match, htons(0x0800));
    match_set_nw_proto(&match, 6);
    match_set_nw_dst(&match, htonl(UINT32_C(0x0a600000) + id));
    match_set_tp_dst(&match, htons(443));
    ofpact_put_GROUP(&ofpacts)->group_id = group_id_make(id, false, 0);
    const struct fitem_flow flow = {
        .table = 12,
        .priority = 200,
        .cookie = cookie_make(COOKIE_SERVICE, id),
        .match = &match,
        .ofpacts = ofpacts.data,
        .ofpacts_len = ofpacts.size,
    };
    fout_flow(out, &flow);
    ofpbuf_uninit(&ofpacts);
}

static void
render_all(struct fout *outs)
{
    for (uint32_t id = 1; id <= N_OWNERS; id++) {
        outs[id] = (struct fout) FOUT_INIT;
        render_group(&outs[id], id);
        render_flow(&outs[id], id);
    }
}

static void
want_all(struct flowtab *ft, struct fout *outs)
{
    for (uint32_t id = 1; id <= N_OWNERS; id++) {
        const struct flowtab_owner owner = { .id = id };
        flowtab_want(ft, &owner, &outs[id]);
    }
}

static void
flush(struct flowtab *ft)
{
    struct flowtab_batch *batch;

    while ((batch = flowtab_take(ft, 2000, 4000000))) {
        flowtab_batch_done(ft, batch);
    }
}

static void
bench_unchanged(struct flowtab *ft, struct fout *outs)
{
    double want_ns = 0, render_ns = 0;

    for (int i = 0; i < N_ROUNDS; i++) {
        double start = now_ns();
        render_all(outs);
        double rendered = now_ns();
        want_all(ft, outs);
        want_ns += now_ns() - rendered;
        render_ns += rendered - start;
    }
    print("render, an owner", render_ns / N_ROUNDS / N_OWNERS, "ns");
    print("want unchanged, an owner", want_ns / N_ROUNDS / N_OWNERS, "ns");
}

static void
bench_adopt(struct flowtab *ft, struct fout *outs)
{
    render_all(outs);
    double start = now_ns();
    flowtab_dump_begin(ft);
    for (uint32_t id = 1; id <= N_OWNERS; id++) {
        for (size_t i = 0; i < outs[id].n; i++) {
            flowtab_have(ft, outs[id].items[i]);
        }
        outs[id].n = 0;
        fout_clear(&outs[id]);
    }
    flowtab_dump_end(ft);
    print("adopt a dump, an item", (now_ns() - start) / N_OWNERS / 2, "ns");
    if (!flowtab_in_sync(ft)) {
        printf("flowtab: the dump was not adopted\n");
        exit(1);
    }
}

/* Lets the library allocate what it does once. */
static void
warm_up(void)
{
    struct fout out = FOUT_INIT;

    render_group(&out, 1);
    render_flow(&out, 1);
    fout_clear(&out);
}

int
main(void)
{
    struct fout *outs = xcalloc(N_OWNERS + 1, sizeof *outs);

    warm_up();
    size_t before = n_bytes_in_use();
    struct flowtab *ft = flowtab_create();
    flowtab_set_complete(ft, true);
    flowtab_dump_begin(ft);
    flowtab_dump_end(ft);
    render_all(outs);

    /* Of the items and the lists that they come in. */
    size_t rendered = n_bytes_in_use();
    size_t item_bytes = 0;
    for (uint32_t id = 1; id <= N_OWNERS; id++) {
        for (size_t i = 0; i < outs[id].n; i++) {
            item_bytes += malloc_usable_size(outs[id].items[i]) + 8;
        }
    }

    double start = now_ns();
    want_all(ft, outs);
    double wanted = now_ns();
    flush(ft);
    double flushed = now_ns();
    size_t after = n_bytes_in_use();

    print("items, a bucket", (double) item_bytes / (N_OWNERS * N_BUCKETS),
          "bytes");
    print("table, an owner with 2 keys",
          (double) (after - before - item_bytes) / N_OWNERS, "bytes");
    print("items and lists, an owner", (double) (rendered - before) / N_OWNERS,
          "bytes");
    print("want new, an owner", (wanted - start) / N_OWNERS, "ns");
    print("take and done, a change", (flushed - wanted) / N_OWNERS / 2, "ns");
    bench_unchanged(ft, outs);
    bench_adopt(ft, outs);
    flowtab_destroy(ft);
    free(outs);
    return 0;
}
