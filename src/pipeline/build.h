/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_PIPELINE_BUILD_H
#define OFPROXYD_PIPELINE_BUILD_H 1

/* Writes one flow after the other into a list of items, in the terms of
 * tables.def and fields.def.
 *
 *    struct build b;
 *    build_init(&b, out, cookie);
 *    build_flow(&b, PIPE_T_ROOT, PIPE_PRIO_NORMAL);
 *    build_match_family(&b, IP_V4);
 *    build_goto(&b, PIPE_T_CLASSIFIER);
 *    build_done(&b);
 *    ...
 *    build_uninit(&b);
 */

#include <openvswitch/match.h>
#include <openvswitch/ofp-actions.h>
#include <openvswitch/ofpbuf.h>

#include "ofproxyd/base/ip.h"
#include "ofproxyd/base/proto.h"
#include "ofproxyd/flow/cookie.h"
#include "ofproxyd/flow/item.h"
#include "ofproxyd/pipeline/pipeline.h"
#include "ofproxyd/pipeline/tables.h"

/* Antrea's three priorities, one between, one above, and two for what is left
 * over; a table's miss flow has 0. */
#define PIPE_PRIO_MISS   0
#define PIPE_PRIO_LAST   170
#define PIPE_PRIO_REST   180
#define PIPE_PRIO_LOW    190
#define PIPE_PRIO_MIDDLE 195
#define PIPE_PRIO_NORMAL 200
#define PIPE_PRIO_HIGH   210
#define PIPE_PRIO_TOP    220

struct build {
    struct fout *out;
    uint64_t cookie;
    uint8_t table;
    uint16_t priority;
    struct match match;    /* Of the flow in the making; open to match_*(). */
    struct ofpbuf ofpacts; /* Its actions; open to ofpact_put_*(). */
    uint64_t stub[64];
};

void build_init(struct build *, struct fout *out, uint64_t cookie);
void build_uninit(struct build *);

/* Begins a flow that matches everything and does nothing. */
void build_flow(struct build *, enum pipe_table, uint16_t priority);
/* Hands it over. */
void build_done(struct build *);

/* Matches. */
void build_match_family(struct build *, enum ip_family);
void build_match_proto(struct build *, enum ip_family, enum proto);
void build_match_src(struct build *, const struct ip *);
void build_match_src_cidr(struct build *, const struct cidr *);
void build_match_dst(struct build *, const struct ip *);
void build_match_dst_cidr(struct build *, const struct cidr *);
/* Of what comes by a tunnel, who sent it. */
void build_match_tunnel_src(struct build *, const struct ip *);
/* Any number of different fields of one register add up. */
void build_match_field(struct build *, enum pipe_field, uint32_t value);
/* Of the field, 'bits' are 1. */
void build_match_bits(struct build *, enum pipe_field, uint32_t bits);
/* All of 'set' are 1 and all of 'clear' are 0 (CS_* of packets.h). */
void build_match_ct_state(struct build *, uint32_t set, uint32_t clear);

/* Actions. */
void build_set_field(struct build *, enum pipe_field, uint32_t value);
/* All of 'src' to 'dst', which is as long. */
void build_move(struct build *, enum mf_field_id src, enum mf_field_id dst);
/* The end of the number of the port that the packet came from. */
void build_set_from_in_port(struct build *, enum pipe_field);
void build_set_eth_src(struct build *, struct eth_addr);
void build_set_eth_dst(struct build *, struct eth_addr);
void build_set_tunnel_dst(struct build *, const struct ip *);
void build_resubmit(struct build *, enum pipe_table);
void build_goto(struct build *, enum pipe_table);
void build_output_normal(struct build *);

/* A ct() action.  What is set by exec is a list of ct_mark fields. */
struct build_mark {
    enum pipe_field field;
    uint32_t value;
};

struct build_ct {
    uint16_t zone;
    bool commit;
    enum pipe_table next;
    enum {
        BUILD_NAT_NONE,
        BUILD_NAT_LOOKUP,
        BUILD_NAT_SRC,
        BUILD_NAT_DST
    } nat;
    struct ip nat_ip;      /* Of _SRC and _DST. */
    uint16_t nat_port;     /* Of _DST; 0 keeps the port.  Of _SRC with... */
    uint16_t nat_port_max; /* ...this: another one of this range. */
    const struct build_mark *marks;
    size_t n_marks;
    bool copy_source; /* PktSource into ConnSource. */
};

void build_ct(struct ofpbuf *ofpacts, const struct build_ct *);

/* Zones of a family. */
static inline uint16_t
build_zone(enum ip_family family)
{
    return family == IP_V4 ? PIPE_ZONE_V4 : PIPE_ZONE_V6;
}

static inline uint16_t
build_snat_zone(enum ip_family family)
{
    return family == IP_V4 ? PIPE_SNAT_ZONE_V4 : PIPE_SNAT_ZONE_V6;
}

/* The stages: each renders the flows of its tables (tables.def, "owner"). */
void classify_render_node(const struct pipe_node *, struct build *);
void classify_render_peer(const struct pipe_peer *, struct build *);
void classify_render_pod(const struct pipe_node *, const struct pipe_pod *,
                         struct build *);
void conntrack_render_node(const struct pipe_node *, struct build *);
void conntrack_render_pod(const struct pipe_pod *, struct build *);
void routing_render_node(const struct pipe_node *, struct build *);
void routing_render_peer(const struct pipe_node *, const struct pipe_peer *,
                         struct build *);
void routing_render_pod(const struct pipe_node *, const struct pipe_pod *,
                        struct build *);
void service_render_node(const struct pipe_node *, struct build *);
void nodeport_render_node(const struct pipe_node *, struct build *);
void affinity_render_node(struct build *);
void nested_render_node(const struct pipe_node *, struct build *);
void mc_render_node(const struct pipe_node *, struct build *);
/* What other clusters send to the pods of another node. */
void mc_render_node_peer(const struct pipe_node *, const struct pipe_peer *,
                         struct build *);
void mc_render_peer(const struct pipe_node *, const struct pipe_mc_peer *,
                    struct build *);

/* The group that flows name of a Service port's endpoints. */
static inline uint32_t
build_group_id(const struct pipe_service *svc, enum pipe_scope scope)
{
    return group_id_make(svc->object_id, scope == PIPE_SCOPE_LOCAL, 0);
}

/* The translation to an endpoint, as a Service's connection. */
void build_endpoint_ct(struct ofpbuf *ofpacts, const struct pipe_service *,
                       const struct eps *);

/* The endpoint and the state of its selection into registers, and on to the
 * flow in EndpointDNAT that is for both. */
void build_choose(struct ofpbuf *ofpacts, const struct eps *,
                  enum pipe_value state);

/* The register of an endpoint's address. */
const struct mf_field *build_ip_register(enum ip_family);

/* Matches a register's endpoint. */
void build_match_chosen(struct build *, const struct ip *, uint16_t port);

/* The connection is committed as one that gets another source, and as a
 * 'hairpin'. */
void build_snat_commit(struct build *, enum ip_family, bool hairpin);

/* What is sent to 'ip' gets its client back, if it has one. */
void build_unsnat(struct build *, const struct ip *);

/* nested.c: true if one of the endpoints is a cluster IP; the flow that other
 * Services' connections to this one come by. */
bool nested_has(const struct pipe_target *);
void nested_render(const struct pipe_service *, struct build *);

/* group.c: the group or groups of one set of endpoints.  Returns what
 * pipe_render_service() does. */
int group_render(const struct pipe_service *, enum pipe_scope, struct fout *,
                 struct err *) OVS_WARN_UNUSED_RESULT;

/* affinity.c: the actions of a flow of ServiceLB whose clients are remembered;
 * the flows behind, with those of all endpoints. */
void affinity_build_lookup(struct build *);
void affinity_render(const struct pipe_service *, enum pipe_scope,
                     struct build *);

/* ranges.c: the actions of a flow of ServiceLB for a restricted frontend, and
 * the ranges. */
void ranges_build_check(struct build *, const struct pipe_service *);
void ranges_render(const struct pipe_service *, struct build *);

#endif /* src/pipeline/build.h */
