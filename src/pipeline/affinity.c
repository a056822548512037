/* SPDX-License-Identifier: Apache-2.0 */

/* Session affinity: a client's next connection goes where its last one went.
 *
 * ServiceLB looks a new connection up in SessionAffinity, by the id of the
 * Service port's group and the client's address: one memory for all addresses
 * of the Service port, and one each for the endpoints of policy Cluster and of
 * policy Local.  Who is not remembered is sent through the group.  Each
 * endpoint has a flow in EndpointDNAT, to which both ways lead; it translates,
 * and makes the switch learn where the client went.
 *
 * Only first packets of connections come here, so that the timeout of what is
 * learned runs from the client's last new connection (kube-proxy's rule).
 *
 * The switch forgets what a flow has taught it when the flow goes: with the
 * endpoint, exactly its clients.  It finds them by the learned flows' cookie,
 * in which therefore stands what the memory is of: group and endpoint.  The
 * timeout does not, so that another one leaves the memory as it is; a learned
 * flow keeps the timeout that it began with, and the daemon, which reviews
 * what was learned, gives it the new one. */

#include "build.h"

#include <endian.h>

#include <packets.h>
#include <util.h>

#include "ofproxyd/base/hash.h"

_Static_assert(PIPE_AFFINITY_MAX_S <= UINT16_MAX, "no flow has that timeout");

/* The bit of ServiceEPState that says that registers hold an endpoint. */
#define HAS_ENDPOINT (PIPE_V_EP_STATE_SELECTED & PIPE_V_EP_STATE_TO_LEARN)

_Static_assert(HAS_ENDPOINT && !(HAS_ENDPOINT & PIPE_V_EP_STATE_TO_SELECT)
                   && !(HAS_ENDPOINT & PIPE_V_EP_STATE_CHECKED)
                   && !(HAS_ENDPOINT & PIPE_V_EP_STATE_NESTED),
               "states don't tell whether there is an endpoint");

void
affinity_render_node(struct build *b)
{
    /* Nothing is remembered. */
    build_flow(b, PIPE_T_AFFINITY, PIPE_PRIO_MISS);
    build_set_field(b, PIPE_F_EP_STATE, PIPE_V_EP_STATE_TO_SELECT);
    build_done(b);

    /* The group's bucket is there and the endpoint's flow is not: another hand
     * has removed it.  Untranslated, the packet would go astray. */
    build_flow(b, PIPE_T_ENDPOINT_DNAT, PIPE_PRIO_LOW);
    build_match_field(b, PIPE_F_EP_STATE, PIPE_V_EP_STATE_TO_LEARN);
    build_done(b);
}

void
affinity_build_lookup(struct build *b)
{
    /* On the side: a learned flow can't go on to another table. */
    build_resubmit(b, PIPE_T_AFFINITY);
    build_goto(b, PIPE_T_ENDPOINT_DNAT);
}

/* Clients without memory, and those whose endpoint has no flow: it has gone
 * while they were between two tables. */
static void
render_select(const struct pipe_service *svc, uint32_t group_id,
              struct build *b)
{
    static const enum pipe_value states[] = {
        PIPE_V_EP_STATE_TO_SELECT,
        PIPE_V_EP_STATE_SELECTED,
    };

    for (size_t i = 0; i < ARRAY_SIZE(states); i++) {
        build_flow(b, PIPE_T_ENDPOINT_DNAT, PIPE_PRIO_NORMAL);
        build_match_family(b, svc->family);
        build_match_field(b, PIPE_F_GROUP_ID, group_id);
        build_match_field(b, PIPE_F_EP_STATE, states[i]);
        ofpact_put_GROUP(&b->ofpacts)->group_id = group_id;
        build_done(b);
    }
}

/* What is learned. */

static uint64_t
learned_cookie(uint32_t group_id, const struct eps *eps)
{
    uint8_t bytes[6];
    uint64_t hash = 0;

    for (int i = 0; i < 4; i++) {
        bytes[i] = (uint8_t) (group_id >> 8 * i);
    }
    bytes[4] = (uint8_t) (eps->port >> 8);
    bytes[5] = (uint8_t) eps->port;
    for (uint32_t basis = 0; basis < 2; basis++) {
        uint32_t half = stable_hash(&eps->ip, sizeof eps->ip, basis);

        hash = hash << 32 | stable_hash(bytes, sizeof bytes, half);
    }
    return cookie_make_affinity(hash);
}

static struct ofpact_learn_spec *
put_spec(struct ofpbuf *ofpacts, uint16_t dst_type,
         const struct mf_subfield *dst)
{
    struct ofpact_learn_spec *spec = ofpbuf_put_zeros(ofpacts, sizeof *spec);

    spec->dst_type = dst_type;
    spec->dst = *dst;
    spec->n_bits = dst->n_bits;
    return spec;
}

/* The learned flow matches or loads what the packet has in the same field. */
static void
put_same(struct ofpbuf *ofpacts, uint16_t dst_type, struct mf_subfield field)
{
    struct ofpact_learn_spec *spec = put_spec(ofpacts, dst_type, &field);

    spec->src_type = NX_LEARN_SRC_FIELD;
    spec->src = field;
}

/* It matches or loads a number of at most 16 bits. */
static void
put_number(struct ofpbuf *ofpacts, uint16_t dst_type, struct mf_subfield field,
           uint16_t number)
{
    size_t n_bytes = DIV_ROUND_UP(field.n_bits, 8);
    uint8_t *imm;

    put_spec(ofpacts, dst_type, &field)->src_type = NX_LEARN_SRC_IMMEDIATE;
    imm = ofpbuf_put_zeros(ofpacts, OFPACT_ALIGN(n_bytes));
    for (size_t i = 0; i < n_bytes; i++) {
        imm[i] = (uint8_t) (number >> 8 * (n_bytes - 1 - i));
    }
}

static struct mf_subfield
whole(const struct mf_field *field)
{
    struct mf_subfield sub = { .field = field, .n_bits = field->n_bits };

    return sub;
}

static struct mf_subfield
part(enum pipe_field field)
{
    const struct pipe_field_info *f = &pipe_fields[field];
    struct mf_subfield sub = {
        .field = mf_from_id(f->reg),
        .ofs = f->ofs,
        .n_bits = f->n_bits,
    };

    return sub;
}

static void
put_learn(struct ofpbuf *ofpacts, const struct pipe_service *svc,
          uint64_t cookie)
{
    bool v4 = svc->family == IP_V4;
    struct ofpact_learn *learn = ofpact_put_LEARN(ofpacts);

    learn->priority = PIPE_PRIO_NORMAL;
    learn->table_id = PIPE_T_AFFINITY;
    learn->flags = NX_LEARN_F_DELETE_LEARNED;
    learn->cookie = htobe64(cookie);
    if (svc->affinity_s <= PIPE_AFFINITY_MAX_S) {
        learn->idle_timeout = svc->affinity_s;
    } else {
        learn->hard_timeout = pipe_affinity_hard_s(svc->affinity_s);
    }
    put_number(ofpacts, NX_LEARN_DST_MATCH, whole(mf_from_id(MFF_ETH_TYPE)),
               v4 ? ETH_TYPE_IP : ETH_TYPE_IPV6);
    put_same(ofpacts, NX_LEARN_DST_MATCH, part(PIPE_F_GROUP_ID));
    put_same(ofpacts, NX_LEARN_DST_MATCH,
             whole(mf_from_id(v4 ? MFF_IPV4_SRC : MFF_IPV6_SRC)));
    put_same(ofpacts, NX_LEARN_DST_LOAD,
             whole(build_ip_register(svc->family)));
    put_same(ofpacts, NX_LEARN_DST_LOAD, part(PIPE_F_EP_PORT));
    put_number(ofpacts, NX_LEARN_DST_LOAD, part(PIPE_F_EP_STATE),
               PIPE_V_EP_STATE_SELECTED);
    learn = ofpacts->header;
    ofpact_finish_LEARN(ofpacts, &learn);
}

/* An endpoint that was selected now or before: a client that is remembered
 * already is learned again, so that its memory outlives an eviction from a
 * table that is full. */
static void
render_endpoint(const struct pipe_service *svc, uint32_t group_id,
                const struct eps *eps, struct build *b)
{
    build_flow(b, PIPE_T_ENDPOINT_DNAT, PIPE_PRIO_HIGH);
    build_match_family(b, svc->family);
    build_match_field(b, PIPE_F_GROUP_ID, group_id);
    build_match_chosen(b, &eps->ip, eps->port);
    build_match_bits(b, PIPE_F_EP_STATE, HAS_ENDPOINT);
    put_learn(&b->ofpacts, svc, learned_cookie(group_id, eps));
    if (eps->nested) {
        build_choose(&b->ofpacts, eps, PIPE_V_EP_STATE_NESTED);
    } else {
        build_endpoint_ct(&b->ofpacts, svc, eps);
    }
    build_done(b);
}

void
affinity_render(const struct pipe_service *svc, enum pipe_scope scope,
                struct build *b)
{
    const struct pipe_target *target = &svc->targets[scope];
    uint32_t group_id = build_group_id(svc, scope);

    render_select(svc, group_id, b);
    for (size_t i = 0; i < MIN(target->n_eps, PIPE_MAX_ENDPOINTS); i++) {
        render_endpoint(svc, group_id, &target->eps[i], b);
    }
}
