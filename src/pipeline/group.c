/* SPDX-License-Identifier: Apache-2.0 */

/* The select group of a set of endpoints.
 *
 * A bucket carries the whole decision: it translates the destination and
 * commits the connection in one ct() action.  How the switch chooses a bucket
 * depends on their number (docs/decisions/0002, with measurements):
 *
 *   up to 64     dp_hash over the 5-tuple: a bounded number of datapath
 *                flows.  Open vSwitch divides at most 256 slots by weight,
 *                and evens them out only if it has all 256: so each endpoint
 *                has weight floor(255/n), and one more bucket of weight 1
 *                makes the switch take 256 slots.
 *   up to 550    hash over the 5-tuple, equal weights: exact, at the price of
 *                one upcall a connection.
 *   above        a group of groups, each of its own hash basis: a group's
 *                description has to fit into one message.  An endpoint's
 *                hash says which one it is in, so that an endpoint that
 *                comes or goes changes a single one.  They differ in size,
 *                as chance has it: of 300 endpoints by 6 % (one sigma).
 *
 * With session affinity buckets lead to the endpoint's flow, which translates
 * and lets the switch learn (affinity.c), and all methods are hash.  dp_hash
 * would come back for each packet's own choice after the look-up of what is
 * learned, so that the first connections of a client, made at once, were
 * spread.  With hash, look-up, choice and learning are one step, and the next
 * packet finds what was learned.  Hash over the client's address alone would
 * do as well, but send a client back to the same endpoint whenever it was
 * forgotten, which is not what a timeout is for.
 *
 * An endpoint that is a cluster IP leads on to that Service's own group
 * (nested.c).  The switch would give the second choice the first one's
 * dp_hash, so that some endpoints were never chosen: the method is hash.
 *
 * Bucket ids derive from the endpoint, so that a change elsewhere moves no
 * connection and all nodes choose alike. */

#include "build.h"

#include <errno.h>

#include <util.h>

#include "ofproxyd/base/hash.h"

#define DP_HASH_MAX   64
#define GROUP_MAX     550
#define LEAF_SIZE     392
#define DP_HASH_SLOTS 256
#define EQUAL_WEIGHT  100

/* Another one than that of bucket ids. */
#define LEAF_BASIS 1

/* In order, 100 000 fill the leaves; by hash, LEAF_SIZE and eight sigma are
 * below GROUP_MAX. */
_Static_assert(PIPE_MAX_ENDPOINTS <= GROUP_LEAF_MAX * GROUP_MAX,
               "leaf numbers don't fit into group ids");

/* A group in the making. */
struct group {
    struct ofputil_group_mod gm;
    struct ofpbuf ofpacts; /* Of one bucket. */
    uint64_t stub[32];
};

static void
group_init(struct group *g, uint32_t group_id)
{
    memset(&g->gm, 0, sizeof g->gm);
    g->gm.type = OFPGT11_SELECT;
    g->gm.group_id = group_id;
    ovs_list_init(&g->gm.buckets);
    ofpbuf_use_stub(&g->ofpacts, g->stub, sizeof g->stub);
}

static void
group_uninit(struct group *g)
{
    ofputil_bucket_list_destroy(&g->gm.buckets);
    free(g->gm.props.fields.values);
    ofpbuf_uninit(&g->ofpacts);
}

/* Adds a bucket with the actions in 'g->ofpacts', which it empties. */
static void
group_put_bucket(struct group *g, uint32_t bucket_id, uint16_t weight)
{
    struct ofputil_bucket *bucket = xzalloc(sizeof *bucket);

    bucket->weight = weight;
    bucket->watch_port = OFPP_ANY;
    bucket->watch_group = OFPG_ANY;
    bucket->bucket_id = bucket_id;
    bucket->ofpacts = xmemdup(g->ofpacts.data, g->ofpacts.size);
    bucket->ofpacts_len = g->ofpacts.size;
    ovs_list_push_back(&g->gm.buckets, &bucket->list_node);
    ofpbuf_clear(&g->ofpacts);
}

/* Selection methods. */

static bool
uses_dp_hash(const struct pipe_service *svc, const struct pipe_target *target)
{
    return !svc->affinity_s && target->n_eps <= DP_HASH_MAX
           && !nested_has(target);
}

static void
use_dp_hash(struct group *g)
{
    /* Parameter 0: the algorithm is the datapath's L4 hash, which, other
     * than the symmetric one, looks at UDP ports. */
    ovs_strlcpy(g->gm.props.selection_method, "dp_hash",
                sizeof g->gm.props.selection_method);
}

static void
use_hash(struct group *g, const struct pipe_service *svc, uint64_t basis)
{
    static const enum mf_field_id tp_src[] = {
        [PROTO_TCP] = MFF_TCP_SRC,
        [PROTO_UDP] = MFF_UDP_SRC,
        [PROTO_SCTP] = MFF_SCTP_SRC,
    };
    static const enum mf_field_id tp_dst[] = {
        [PROTO_TCP] = MFF_TCP_DST,
        [PROTO_UDP] = MFF_UDP_DST,
        [PROTO_SCTP] = MFF_SCTP_DST,
    };
    bool v4 = svc->family == IP_V4;
    enum mf_field_id fields[] = {
        v4 ? MFF_IPV4_SRC : MFF_IPV6_SRC,
        v4 ? MFF_IPV4_DST : MFF_IPV6_DST,
        tp_src[svc->proto],
        tp_dst[svc->proto],
    };
    union mf_value mask;

    ovs_strlcpy(g->gm.props.selection_method, "hash",
                sizeof g->gm.props.selection_method);
    g->gm.props.selection_method_param = basis;
    memset(&mask, 0xff, sizeof mask);
    for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
        field_array_set(fields[i], &mask, &g->gm.props.fields);
    }
}

/* Buckets. */

static void
put_endpoint(struct group *g, const struct pipe_service *svc,
             const struct eps *eps)
{
    if (svc->affinity_s) {
        build_choose(&g->ofpacts, eps, PIPE_V_EP_STATE_TO_LEARN);
    } else if (eps->nested) {
        build_choose(&g->ofpacts, eps, PIPE_V_EP_STATE_NESTED);
    } else {
        build_endpoint_ct(&g->ofpacts, svc, eps);
    }
}

static uint32_t
endpoint_hash(const struct eps *eps, uint32_t basis)
{
    uint32_t hash = stable_hash(&eps->ip, sizeof eps->ip, basis);
    uint8_t port[2] = { (uint8_t) (eps->port >> 8), (uint8_t) eps->port };

    return stable_hash(port, sizeof port, hash);
}

struct hashed {
    uint32_t hash;
    size_t index;
};

static int
compare_hashed(const void *a_, const void *b_)
{
    const struct hashed *a = a_, *b = b_;

    if (a->hash != b->hash) {
        return a->hash < b->hash ? -1 : 1;
    }
    return a->index < b->index ? -1 : a->index > b->index;
}

/* Returns an id for each endpoint, below 2^31 (OpenFlow's reserved ids begin
 * at 0xffffff00).  The caller frees the array. */
static uint32_t *
assign_bucket_ids(const struct eps *eps, size_t n)
{
    struct hashed *h = xmalloc(n * sizeof *h);
    uint32_t *ids = xmalloc(n * sizeof *ids);
    uint32_t next = 0;

    for (size_t i = 0; i < n; i++) {
        h[i].hash = endpoint_hash(&eps[i], 0) >> 2;
        h[i].index = i;
    }
    qsort(h, n, sizeof *h, compare_hashed);
    for (size_t i = 0; i < n; i++) {
        uint32_t id = h[i].hash < next ? next : h[i].hash;

        ids[h[i].index] = id;
        next = id + 1;
    }
    free(h);
    return ids;
}

/* The id of the bucket that only evens out the slots: above all others. */
#define EXTRA_BUCKET_ID UINT32_C(0x7fffffff)

static void
put_endpoints(struct group *g, const struct pipe_service *svc,
              const struct pipe_target *target)
{
    const struct eps *eps = target->eps;
    size_t n = target->n_eps;
    bool dp_hash = uses_dp_hash(svc, target);
    uint16_t weight =
        dp_hash && n > 1 ? (DP_HASH_SLOTS - 1) / n : EQUAL_WEIGHT;
    uint32_t *ids = assign_bucket_ids(eps, n);

    for (size_t i = 0; i < n; i++) {
        put_endpoint(g, svc, &eps[i]);
        group_put_bucket(g, ids[i], weight);
    }
    free(ids);
    if (dp_hash && n > 1) {
        put_endpoint(g, svc, &eps[0]);
        group_put_bucket(g, EXTRA_BUCKET_ID, 1);
    }
}

static int
render_one(const struct pipe_service *svc, uint32_t group_id,
           const struct pipe_target *part, struct fout *out)
{
    struct group g;
    int error;

    group_init(&g, group_id);
    if (uses_dp_hash(svc, part)) {
        use_dp_hash(&g);
    } else {
        /* Every leaf its own basis: what chose the leaf must not choose
         * again. */
        use_hash(&g, svc, 1 + (group_id & GROUP_LEAF_MAX));
    }
    put_endpoints(&g, svc, part);
    error = fout_group(out, &g.gm, NULL);
    group_uninit(&g);
    return error;
}

/* Leaves. */

/* How many leaves there are; few numbers, since from one to the next nearly
 * all endpoints change places. */
static size_t
count_leaves(size_t n_eps)
{
    static const uint8_t steps[] = { 2,  3,  4,   6,   8,
                                     12, 16, 24,  32,  48,
                                     64, 96, 128, 192, GROUP_LEAF_MAX };
    size_t i = 0;

    while (i < ARRAY_SIZE(steps) - 1
           && n_eps > (size_t) steps[i] * LEAF_SIZE) {
        i++;
    }
    return steps[i];
}

static size_t
leaf_of(const struct eps *eps, size_t n_leaves)
{
    return (uint64_t) endpoint_hash(eps, LEAF_BASIS) * n_leaves >> 32;
}

/* Sorts endpoints by leaf, without changing their order in it, into 'sorted';
 * leaf i ends before ends[i].  Where a leaf would be empty or too large, which
 * is somebody's work and not chance, it is their order that says. */
static void
sort_by_leaf(const struct pipe_target *target, size_t n_leaves,
             struct eps *sorted, size_t *ends)
{
    size_t starts[GROUP_LEAF_MAX + 1] = { 0 };
    bool fits = true;

    for (size_t i = 0; i < target->n_eps; i++) {
        starts[leaf_of(&target->eps[i], n_leaves) + 1]++;
    }
    for (size_t i = 0; i < n_leaves; i++) {
        fits &= starts[i + 1] && starts[i + 1] <= GROUP_MAX;
        starts[i + 1] += starts[i];
        ends[i] = starts[i + 1];
    }
    for (size_t i = 0; i < target->n_eps; i++) {
        const struct eps *eps = &target->eps[i];

        sorted[fits ? starts[leaf_of(eps, n_leaves)]++ : i] = *eps;
    }
    for (size_t i = 0; !fits && i < n_leaves; i++) {
        ends[i] = target->n_eps * (i + 1) / n_leaves;
    }
}

static int
render_leaves(const struct pipe_service *svc, enum pipe_scope scope,
              const struct pipe_target *target, struct fout *out)
{
    bool local = scope == PIPE_SCOPE_LOCAL;
    size_t n_leaves = count_leaves(target->n_eps);
    struct eps *eps = xmalloc(target->n_eps * sizeof *eps);
    size_t ends[GROUP_LEAF_MAX];
    struct group top;
    int error = 0;

    sort_by_leaf(target, n_leaves, eps, ends);
    group_init(&top, build_group_id(svc, scope));
    use_hash(&top, svc, 0);
    for (size_t i = 0; i < n_leaves && !error; i++) {
        uint32_t leaf_id = group_id_make(svc->object_id, local, i + 1);
        size_t start = i ? ends[i - 1] : 0;
        struct pipe_target leaf = {
            .verdict = PIPE_SELECT,
            .eps = eps + start,
            .n_eps = ends[i] - start,
        };

        error = render_one(svc, leaf_id, &leaf, out);
        ofpact_put_GROUP(&top.ofpacts)->group_id = leaf_id;
        group_put_bucket(&top, i, EQUAL_WEIGHT);
    }
    if (!error) {
        error = fout_group(out, &top.gm, NULL);
    }
    group_uninit(&top);
    free(eps);
    return error;
}

int
group_render(const struct pipe_service *svc, enum pipe_scope scope,
             struct fout *out, struct err *err)
{
    struct pipe_target target = svc->targets[scope];
    size_t n = target.n_eps;
    int error;

    target.n_eps = MIN(n, PIPE_MAX_ENDPOINTS);
    if (target.n_eps <= GROUP_MAX) {
        error = render_one(svc, build_group_id(svc, scope), &target, out);
    } else {
        error = render_leaves(svc, scope, &target, out);
    }
    ovs_assert(!error); /* Sizes follow from the constants above. */

    if (n > target.n_eps) {
        err_set(err, "%zu endpoints are more than %d: the rest is left out", n,
                PIPE_MAX_ENDPOINTS);
        return E2BIG;
    }
    return 0;
}
