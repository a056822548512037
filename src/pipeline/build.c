/* SPDX-License-Identifier: Apache-2.0 */

/* Matches and actions in the pipeline's own terms.  The one place that knows
 * how libopenvswitch spells them. */

#include "build.h"

#include <packets.h>

void
build_init(struct build *b, struct fout *out, uint64_t cookie)
{
    b->out = out;
    b->cookie = cookie;
    ofpbuf_use_stub(&b->ofpacts, b->stub, sizeof b->stub);
}

void
build_uninit(struct build *b)
{
    ofpbuf_uninit(&b->ofpacts);
}

void
build_flow(struct build *b, enum pipe_table table, uint16_t priority)
{
    b->table = table;
    b->priority = priority;
    match_init_catchall(&b->match);
    ofpbuf_clear(&b->ofpacts);
}

void
build_done(struct build *b)
{
    struct fitem_flow flow = {
        .table = b->table,
        .priority = b->priority,
        .cookie = b->cookie,
        .match = &b->match,
        .ofpacts = b->ofpacts.data,
        .ofpacts_len = b->ofpacts.size,
    };

    fout_flow(b->out, &flow);
}

/* Matches. */

void
build_match_family(struct build *b, enum ip_family family)
{
    match_set_dl_type(&b->match,
                      htons(family == IP_V4 ? ETH_TYPE_IP : ETH_TYPE_IPV6));
}

void
build_match_proto(struct build *b, enum ip_family family, enum proto proto)
{
    build_match_family(b, family);
    match_set_nw_proto(&b->match, proto_number(proto));
}

static struct cidr
host_cidr(const struct ip *ip)
{
    struct cidr cidr = {
        .ip = *ip,
        .plen = ip_family(ip) == IP_V4 ? 32 : 128,
    };

    return cidr;
}

void
build_match_src(struct build *b, const struct ip *ip)
{
    struct cidr cidr = host_cidr(ip);

    build_match_src_cidr(b, &cidr);
}

void
build_match_src_cidr(struct build *b, const struct cidr *cidr)
{
    struct cidr net = cidr_network(cidr);
    enum ip_family family = ip_family(&net.ip);

    build_match_family(b, family);
    if (family == IP_V4) {
        ovs_be32 mask = be32_prefix_mask(net.plen);

        match_set_nw_src_masked(&b->match, ip_v4(&net.ip), mask);
    } else {
        struct in6_addr mask = ipv6_create_mask(net.plen);

        match_set_ipv6_src_masked(&b->match, &net.ip.in6, &mask);
    }
}

void
build_match_dst(struct build *b, const struct ip *ip)
{
    struct cidr cidr = host_cidr(ip);

    build_match_dst_cidr(b, &cidr);
}

void
build_match_tunnel_src(struct build *b, const struct ip *ip)
{
    if (ip_family(ip) == IP_V4) {
        match_set_tun_src(&b->match, ip_v4(ip));
    } else {
        match_set_tun_ipv6_src(&b->match, &ip->in6);
    }
}

void
build_match_dst_cidr(struct build *b, const struct cidr *cidr)
{
    struct cidr net = cidr_network(cidr);
    enum ip_family family = ip_family(&net.ip);

    build_match_family(b, family);
    if (family == IP_V4) {
        ovs_be32 mask = be32_prefix_mask(net.plen);

        match_set_nw_dst_masked(&b->match, ip_v4(&net.ip), mask);
    } else {
        struct in6_addr mask = ipv6_create_mask(net.plen);

        match_set_ipv6_dst_masked(&b->match, &net.ip.in6, &mask);
    }
}

static void
match_field_masked(struct build *b, enum pipe_field field, uint32_t value,
                   uint32_t mask)
{
    const struct pipe_field_info *f = &pipe_fields[field];

    if (f->reg == MFF_CT_MARK) {
        match_set_ct_mark_masked(&b->match, b->match.flow.ct_mark | value,
                                 b->match.wc.masks.ct_mark | mask);
    } else {
        unsigned int reg = f->reg - MFF_REG0;

        match_set_reg_masked(&b->match, reg, b->match.flow.regs[reg] | value,
                             b->match.wc.masks.regs[reg] | mask);
    }
}

void
build_match_field(struct build *b, enum pipe_field field, uint32_t value)
{
    match_field_masked(b, field, pipe_field_value(field, value),
                       pipe_field_mask(field));
}

void
build_match_bits(struct build *b, enum pipe_field field, uint32_t bits)
{
    bits = pipe_field_value(field, bits);
    match_field_masked(b, field, bits, bits);
}

void
build_match_ct_state(struct build *b, uint32_t set, uint32_t clear)
{
    match_set_ct_state_masked(&b->match, set, set | clear);
}

/* Actions. */

static void
put_set_field(struct ofpbuf *ofpacts, enum pipe_field field, uint32_t value)
{
    ovs_be32 mask = htonl(pipe_field_mask(field));
    ovs_be32 bits = htonl(pipe_field_value(field, value));

    ofpact_put_set_field(ofpacts, mf_from_id(pipe_fields[field].reg), &bits,
                         &mask);
}

void
build_set_field(struct build *b, enum pipe_field field, uint32_t value)
{
    put_set_field(&b->ofpacts, field, value);
}

void
build_move(struct build *b, enum mf_field_id src, enum mf_field_id dst)
{
    struct ofpact_reg_move *move = ofpact_put_REG_MOVE(&b->ofpacts);

    move->ofpact.raw = -1;
    move->src.field = mf_from_id(src);
    move->src.n_bits = move->src.field->n_bits;
    move->dst.field = mf_from_id(dst);
    move->dst.n_bits = move->dst.field->n_bits;
}

static struct mf_subfield
subfield(enum pipe_field field)
{
    const struct pipe_field_info *info = &pipe_fields[field];

    return (struct mf_subfield){
        .field = mf_from_id(info->reg),
        .ofs = info->ofs,
        .n_bits = info->n_bits,
    };
}

void
build_set_from_in_port(struct build *b, enum pipe_field field)
{
    struct ofpact_reg_move *move = ofpact_put_REG_MOVE(&b->ofpacts);

    move->ofpact.raw = -1;
    move->dst = subfield(field);
    move->src.field = mf_from_id(MFF_IN_PORT);
    move->src.n_bits = move->dst.n_bits;
}

void
build_set_eth_src(struct build *b, struct eth_addr mac)
{
    ofpact_put_set_field(&b->ofpacts, mf_from_id(MFF_ETH_SRC), &mac, NULL);
}

void
build_set_eth_dst(struct build *b, struct eth_addr mac)
{
    ofpact_put_set_field(&b->ofpacts, mf_from_id(MFF_ETH_DST), &mac, NULL);
}

/* What came by a tunnel over IPv4 and goes on by one over IPv6 still has the
 * destination of the first, which Open vSwitch would prefer. */
void
build_set_tunnel_dst(struct build *b, const struct ip *ip)
{
    ovs_be32 v4 = ip_family(ip) == IP_V4 ? ip_v4(ip) : 0;

    ofpact_put_set_field(&b->ofpacts, mf_from_id(MFF_TUN_DST), &v4, NULL);
    if (!v4) {
        ofpact_put_set_field(&b->ofpacts, mf_from_id(MFF_TUN_IPV6_DST),
                             &ip->in6, NULL);
    }
}

void
build_resubmit(struct build *b, enum pipe_table table)
{
    struct ofpact_resubmit *resubmit = ofpact_put_RESUBMIT(&b->ofpacts);

    resubmit->ofpact.raw = -1;
    resubmit->in_port = OFPP_IN_PORT;
    resubmit->table_id = table;
}

void
build_goto(struct build *b, enum pipe_table table)
{
    ofpact_put_GOTO_TABLE(&b->ofpacts)->table_id = table;
}

void
build_output_normal(struct build *b)
{
    ofpact_put_OUTPUT(&b->ofpacts)->port = OFPP_NORMAL;
}

/* ct(). */

static void
put_nat(struct ofpbuf *ofpacts, const struct build_ct *ct)
{
    struct ofpact_nat *nat = ofpact_put_NAT(ofpacts);

    nat->range_af = AF_UNSPEC;
    if (ct->nat == BUILD_NAT_LOOKUP) {
        return;
    }
    nat->flags = ct->nat == BUILD_NAT_SRC ? NX_NAT_F_SRC : NX_NAT_F_DST;
    if (ip_family(&ct->nat_ip) == IP_V4) {
        nat->range_af = AF_INET;
        nat->range.addr.ipv4.min = ip_v4(&ct->nat_ip);
    } else {
        nat->range_af = AF_INET6;
        nat->range.addr.ipv6.min = ct->nat_ip.in6;
    }
    nat->range.proto.min = ct->nat_port;
    nat->range.proto.max = ct->nat_port_max;
}

static void
put_copy_source(struct ofpbuf *ofpacts)
{
    struct ofpact_reg_move *move = ofpact_put_REG_MOVE(ofpacts);

    move->ofpact.raw = -1;
    move->src = subfield(PIPE_F_PKT_SOURCE);
    move->dst = subfield(PIPE_F_CT_SOURCE);
}

void
build_ct(struct ofpbuf *ofpacts, const struct build_ct *ct)
{
    size_t start = ofpacts->size;
    struct ofpact_conntrack *oc = ofpact_put_CT(ofpacts);

    oc->flags = ct->commit ? NX_CT_F_COMMIT : 0;
    oc->zone_imm = ct->zone;
    oc->recirc_table = ct->next;
    if (ct->nat != BUILD_NAT_NONE) {
        put_nat(ofpacts, ct);
    }
    for (size_t i = 0; i < ct->n_marks; i++) {
        put_set_field(ofpacts, ct->marks[i].field, ct->marks[i].value);
    }
    if (ct->copy_source) {
        put_copy_source(ofpacts);
    }
    /* The buffer may have moved. */
    oc = ofpbuf_at_assert(ofpacts, start, sizeof *oc);
    ofpacts->header = oc;
    ofpact_finish_CT(ofpacts, &oc);
}

void
build_endpoint_ct(struct ofpbuf *ofpacts, const struct pipe_service *svc,
                  const struct eps *eps)
{
    static const struct build_mark marks[] = {
        { PIPE_F_CT_SERVICE, PIPE_V_CT_SERVICE_YES },
    };
    struct build_ct ct = {
        .zone = build_zone(svc->family),
        .commit = true,
        .nat = BUILD_NAT_DST,
        .nat_ip = eps->ip,
        .nat_port = eps->port,
        .next = PIPE_T_L3_FORWARDING,
        .marks = marks,
        .n_marks = ARRAY_SIZE(marks),
    };

    build_ct(ofpacts, &ct);
}

const struct mf_field *
build_ip_register(enum ip_family family)
{
    return mf_from_id(family == IP_V4 ? pipe_fields[PIPE_F_EP_IP].reg
                                      : PIPE_EP_IP6_REG);
}

void
build_choose(struct ofpbuf *ofpacts, const struct eps *eps,
             enum pipe_value state)
{
    ovs_be32 mask = htonl(pipe_field_mask(PIPE_F_EP_PORT)
                          | pipe_field_mask(PIPE_F_EP_STATE));
    ovs_be32 port_and_state =
        htonl(pipe_field_value(PIPE_F_EP_PORT, eps->port)
              | pipe_field_value(PIPE_F_EP_STATE, state));
    enum ip_family family = ip_family(&eps->ip);
    struct ofpact_resubmit *resubmit;

    if (family == IP_V4) {
        ovs_be32 v4 = ip_v4(&eps->ip);

        ofpact_put_set_field(ofpacts, build_ip_register(family), &v4, NULL);
    } else {
        ofpact_put_set_field(ofpacts, build_ip_register(family), &eps->ip.in6,
                             NULL);
    }
    ofpact_put_set_field(ofpacts, mf_from_id(pipe_fields[PIPE_F_EP_PORT].reg),
                         &port_and_state, &mask);
    resubmit = ofpact_put_RESUBMIT(ofpacts);
    resubmit->ofpact.raw = -1;
    resubmit->in_port = OFPP_IN_PORT;
    resubmit->table_id = PIPE_T_ENDPOINT_DNAT;
}

void
build_match_chosen(struct build *b, const struct ip *ip, uint16_t port)
{
    if (ip_family(ip) == IP_V4) {
        build_match_field(b, PIPE_F_EP_IP, ntohl(ip_v4(ip)));
    } else {
        union mf_value value = { .ipv6 = ip->in6 };

        mf_set_value(build_ip_register(IP_V6), &value, &b->match, NULL);
    }
    build_match_field(b, PIPE_F_EP_PORT, port);
}
