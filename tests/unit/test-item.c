/* SPDX-License-Identifier: Apache-2.0 */
/* Items: bytes that stay the same on the way to a switch and back. */

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <byte-order.h>
#include <openvswitch/ofp-flow.h>
#include <openvswitch/ofp-msgs.h>
#include <openvswitch/ofp-table.h>
#include <util.h>

#include "../support/flowtext.h"
#include "ofproxyd/flow/cookie.h"
#include "ofproxyd/flow/item.h"

static const struct ofp_header *
header(const struct ofpbuf *msg)
{
    return msg->data;
}

/* Returns the one reply in 'replies' as it would be received. */
static struct ofpbuf *
first_reply(struct ovs_list *replies)
{
    struct ofpbuf *reply = ofpbuf_from_list(ovs_list_front(replies));

    ofpmsg_update_length(reply);
    reply->header = NULL;
    return reply;
}

/* Writes the dump of a switch that has just received 'msg'. */
static void
say_flow(const struct ofpbuf *msg, struct ovs_list *replies)
{
    struct ofputil_flow_stats_request all = { .table_id = OFPTT_ALL };
    struct ofputil_flow_mod fm;
    struct ofpbuf ofpacts;

    ofpbuf_init(&ofpacts, 0);
    assert_int_equal(ofputil_decode_flow_mod(&fm, header(msg),
                                             OFPUTIL_P_OF15_OXM, NULL, NULL,
                                             &ofpacts, OFPP_MAX, 255),
                     0);
    assert_int_equal(fm.command, OFPFC_ADD);
    struct ofputil_flow_stats fs = {
        .cookie = fm.new_cookie,
        .table_id = fm.table_id,
        .priority = (uint16_t) fm.priority,
        .idle_timeout = fm.idle_timeout,
        .hard_timeout = fm.hard_timeout,
        .duration_sec = 17,
        .packet_count = 1,
        .byte_count = 2,
        .ofpacts = fm.ofpacts,
        .ofpacts_len = fm.ofpacts_len,
        .flags = fm.flags,
        .importance = fm.importance,
    };
    minimatch_expand(&fm.match, &fs.match);
    minimatch_destroy(&fm.match);

    match_init_catchall(&all.match);
    struct ofpbuf *request =
        ofputil_encode_flow_stats_request(&all, OFPUTIL_P_OF15_OXM);
    ofpmp_init(replies, request->data);
    ofpbuf_delete(request);
    ofputil_append_flow_stats_reply(&fs, replies, NULL);
    ofpbuf_uninit(&ofpacts);
}

static struct fitem *
flow_by_way_of_a_switch(const struct ofpbuf *msg)
{
    struct ofputil_flow_stats fs;
    struct ovs_list replies;
    struct ofpbuf ofpacts;

    say_flow(msg, &replies);
    ofpbuf_init(&ofpacts, 0);
    assert_int_equal(ofputil_decode_flow_stats_reply(&fs,
                                                     first_reply(&replies),
                                                     true, &ofpacts),
                     0);
    const struct fitem_flow flow = {
        .table = fs.table_id,
        .priority = fs.priority,
        .cookie = ntohll(fs.cookie),
        .idle_timeout = fs.idle_timeout,
        .hard_timeout = fs.hard_timeout,
        .flags = (uint16_t) fs.flags,
        .match = &fs.match,
        .ofpacts = fs.ofpacts,
        .ofpacts_len = fs.ofpacts_len,
    };
    struct fitem *item = fitem_from_flow(&flow);
    ofpbuf_uninit(&ofpacts);
    ofpbuf_list_delete(&replies);
    return item;
}

static struct fitem *
group_by_way_of_a_switch(const struct ofpbuf *msg)
{
    struct ofputil_group_mod gm;

    assert_int_equal(ofputil_decode_group_mod(header(msg), &gm), 0);
    assert_int_equal(gm.command, OFPGC11_ADD_OR_MOD);
    struct ofputil_group_desc out = {
        .type = gm.type,
        .group_id = gm.group_id,
        .props = gm.props,
    };
    struct ofpbuf *request =
        ofputil_encode_group_desc_request(OFP15_VERSION, OFPG_ALL);
    struct ovs_list replies;
    ofpmp_init(&replies, request->data);
    ofpbuf_delete(request);
    ofputil_append_group_desc_reply(&out, &gm.buckets, &replies);
    ofputil_uninit_group_mod(&gm);

    struct ofputil_group_desc in;
    struct ofpbuf *reply = ofpbuf_from_list(ovs_list_front(&replies));
    ofpmsg_update_length(reply);
    reply->header = NULL;
    assert_int_equal(ofputil_decode_group_desc_reply(&in, reply,
                                                     OFP15_VERSION),
                     0);
    struct ofputil_group_mod back = {
        .command = OFPGC11_ADD,
        .type = in.type,
        .group_id = in.group_id,
        .props = in.props,
    };
    ovs_list_move(&back.buckets, &in.buckets);
    struct fitem *item;
    assert_int_equal(fitem_from_group(&back, &item, NULL), 0);
    ofputil_uninit_group_mod(&back);
    ofpbuf_list_delete(&replies);
    return item;
}

static struct fitem *
by_way_of_a_switch(const struct fitem *item)
{
    struct ofpbuf *msg = fitem_encode_put(item);
    struct fitem *back = fitem_kind(item) == FITEM_FLOW
                             ? flow_by_way_of_a_switch(msg)
                             : group_by_way_of_a_switch(msg);
    ofpbuf_delete(msg);
    return back;
}

static void
assert_same_item(const struct fitem *a, const struct fitem *b)
{
    if (!fitem_equals(a, b)) {
        char *as = flowtext_format(a);
        char *bs = flowtext_format(b);
        fail_msg("\n%s\n%s", as, bs);
    }
    assert_true(fitem_key_equals(a, b));
    assert_int_equal(fitem_key_hash(a), fitem_key_hash(b));
}

static void
every_sample_comes_back_from_a_switch_unchanged(void **state OVS_UNUSED)
{
    for (size_t i = 0; flowtext_samples[i]; i++) {
        struct fitem *item = flowtext_item(flowtext_samples[i]);
        struct fitem *back = by_way_of_a_switch(item);

        assert_same_item(item, back);
        fitem_unref(item);
        fitem_unref(back);
    }
}

static void
samples_differ_from_each_other(void **state OVS_UNUSED)
{
    for (size_t i = 0; flowtext_samples[i]; i++) {
        for (size_t j = 0; j < i; j++) {
            struct fitem *a = flowtext_item(flowtext_samples[i]);
            struct fitem *b = flowtext_item(flowtext_samples[j]);

            assert_false(fitem_equals(a, b));
            assert_false(fitem_key_equals(a, b));
            fitem_unref(a);
            fitem_unref(b);
        }
    }
}

/* Rendering with the library's functions instead of its parser. */

static void
put_set_field(struct ofpbuf *ofpacts, enum mf_field_id id, const void *value,
              const void *mask)
{
    ofpact_put_set_field(ofpacts, mf_from_id(id), value, mask);
}

static void
put_ct_dnat(struct ofpbuf *ofpacts)
{
    size_t start = ofpacts->size;
    struct ofpact_conntrack *ct = ofpact_put_CT(ofpacts);

    ct->flags = NX_CT_F_COMMIT;
    ct->zone_imm = 65520;
    ct->recirc_table = 20;
    struct ofpact_nat *nat = ofpact_put_NAT(ofpacts);
    nat->flags = NX_NAT_F_DST;
    nat->range_af = AF_INET;
    nat->range.addr.ipv4.min = htonl(0x0a0a0001);
    nat->range.proto.min = 8080;
    const ovs_be32 mark = htonl(0x10);
    put_set_field(ofpacts, MFF_CT_MARK, &mark, &mark);
    struct ofpact_reg_move *move = ofpact_put_REG_MOVE(ofpacts);
    move->src = (struct mf_subfield){ mf_from_id(MFF_REG0), 0, 4 };
    move->dst = (struct mf_subfield){ mf_from_id(MFF_CT_MARK), 0, 4 };
    ct = ofpbuf_at_assert(ofpacts, start, sizeof *ct);
    ofpacts->header = ct;
    ofpact_finish_CT(ofpacts, &ct);
}

static void
put_output_reg(struct ofpbuf *ofpacts)
{
    struct ofpact_output_reg *output = ofpact_put_OUTPUT_REG(ofpacts);

    output->src = (struct mf_subfield){ mf_from_id(MFF_REG1), 0, 32 };
    output->max_len = UINT16_MAX;
}

static void
put_controller(struct ofpbuf *ofpacts)
{
    struct ofpact_controller *controller = ofpact_put_CONTROLLER(ofpacts);
    const uint8_t userdata[] = { 1, 2, 3 };

    controller->max_len = UINT16_MAX;
    controller->reason = OFPR_ACTION;
    controller->meter_id = NX_CTLR_NO_METER;
    controller->userdata_len = sizeof userdata;
    ofpbuf_put(ofpacts, userdata, sizeof userdata);
    controller = ofpacts->header;
    ofpact_finish_CONTROLLER(ofpacts, &controller);
}

static void
put_others(struct ofpbuf *ofpacts)
{
    const struct eth_addr mac = ETH_ADDR_C(aa, bb, cc, dd, ee, ff);
    const ovs_be32 value = htonl(0x200), mask = htonl(0x300);
    const ovs_be128 address = { .be32 = { htonl(0x20010db8), 0, 0,
                                          htonl(1) } };
    const ovs_be64 tun_id = htonll(0);

    ofpact_put_METER(ofpacts)->meter_id = 256;
    put_set_field(ofpacts, MFF_REG0, &value, &mask);
    put_set_field(ofpacts, MFF_REG1, &value, NULL);
    put_set_field(ofpacts, MFF_XXREG3, &address, NULL);
    put_set_field(ofpacts, MFF_TUN_DST, &value, NULL);
    put_set_field(ofpacts, MFF_TUN_ID, &tun_id, NULL);
    put_set_field(ofpacts, MFF_ETH_SRC, &mac, NULL);
    ofpact_put_SET_ETH_DST(ofpacts)->mac = mac;
    struct ofpact_resubmit *resubmit = ofpact_put_RESUBMIT(ofpacts);
    resubmit->in_port = OFPP_IN_PORT;
    resubmit->table_id = 12;
    put_ct_dnat(ofpacts);
    put_output_reg(ofpacts);
    put_controller(ofpacts);
    ofpact_put_OUTPUT(ofpacts)->port = OFPP_IN_PORT;
    ofpact_put_OUTPUT(ofpacts)->port = OFPP_NORMAL;
    ofpact_put_GROUP(ofpacts)->group_id = 0x40000200;
    ofpact_put_GOTO_TABLE(ofpacts)->table_id = 20;
}

static const char built_text[] =
    "cookie=0xf901030000000007, table=12, priority=200,ct_state=+new,"
    "ct_mark=0x10/0x10,tcp,reg4=0x10000/0x70000,in_port=7,nw_src=10.10.0.0/16,"
    "nw_dst=10.96.0.10,tp_dst=443 actions=meter:256,"
    "set_field:0x200/0x300->reg0,set_field:0x200->reg1,"
    "set_field:0x20010db8000000000000000000000001->xxreg3,"
    "set_field:0.0.2.0->tun_dst,set_field:0->tun_id,"
    "set_field:aa:bb:cc:dd:ee:ff->eth_src,"
    "set_field:aa:bb:cc:dd:ee:ff->eth_dst,resubmit(,12),"
    "ct(commit,table=20,zone=65520,nat(dst=10.10.0.1:8080),"
    "exec(set_field:0x10/0x10->ct_mark,"
    "move:NXM_NX_REG0[0..3]->NXM_NX_CT_MARK[0..3])),"
    "output:NXM_NX_REG1[],controller(userdata=01.02.03),IN_PORT,NORMAL,"
    "group:1073742336,goto_table:20";

static void
rendered_flow_comes_back_unchanged_and_equals_the_parsed_one(
    void **state OVS_UNUSED)
{
    struct match match;
    struct ofpbuf ofpacts;

    match_init_catchall(&match);
    match_set_in_port(&match, (OVS_FORCE ofp_port_t) 7);
    match_set_dl_type(&match, htons(0x0800));
    match_set_nw_proto(&match, 6);
    match_set_nw_src_masked(&match, htonl(0x0a0a1234), htonl(0xffff0000));
    match_set_nw_dst(&match, htonl(0x0a60000a));
    match_set_tp_dst(&match, htons(443));
    match_set_reg_masked(&match, 4, 0x10000, 0x70000);
    match_set_ct_state_masked(&match, 1, 1);
    match_set_ct_mark_masked(&match, 0xffffff1f, 0x10);
    ofpbuf_init(&ofpacts, 0);
    put_others(&ofpacts);
    const struct fitem_flow flow = {
        .table = 12,
        .priority = 200,
        .cookie = cookie_make(COOKIE_SERVICE, 7),
        .match = &match,
        .ofpacts = ofpacts.data,
        .ofpacts_len = ofpacts.size,
    };
    struct fitem *item = fitem_from_flow(&flow);
    struct fitem *back = by_way_of_a_switch(item);
    struct fitem *parsed = flowtext_flow(built_text);
    char *text = flowtext_format(item);

    assert_string_equal(text, built_text);
    assert_same_item(item, back);
    assert_same_item(item, parsed);
    free(text);
    fitem_unref(item);
    fitem_unref(back);
    fitem_unref(parsed);
    ofpbuf_uninit(&ofpacts);
}

/* What belongs to the key, what to the item, and what to neither. */

static const struct {
    const char *a, *b;
    bool same_key, same;
} comparisons[] = {
    { "table=1,ip actions=drop", "table=1,ip actions=drop", true, true },
    { "table=1,ip actions=drop", "table=2,ip actions=drop", false, false },
    { "priority=1,ip actions=drop", "priority=2,ip actions=drop", false,
      false },
    { "ip actions=drop", "ipv6 actions=drop", false, false },
    { "ip,nw_dst=10.1.0.0/16 actions=drop",
      "ip,nw_dst=10.1.0.0/17 "
      "actions=drop",
      false, false },
    { "ip,nw_dst=10.1.2.3/16 actions=drop",
      "ip,nw_dst=10.1.0.0/16 "
      "actions=drop",
      true, true },
    { "ip actions=drop", "ip actions=output:1", true, false },
    { "cookie=1,ip actions=drop", "cookie=2,ip actions=drop", true, false },
    { "idle_timeout=1,ip actions=drop", "ip actions=drop", true, false },
    { "hard_timeout=1,ip actions=drop", "ip actions=drop", true, false },
    { "send_flow_rem,ip actions=drop", "ip actions=drop", true, false },
    { "no_packet_counts,ip actions=drop", "ip actions=drop", true, false },
    { "check_overlap,ip actions=drop", "ip actions=drop", true, true },
    { "reset_counts,ip actions=drop", "ip actions=drop", true, true },
    { "importance=5,ip actions=drop", "ip actions=drop", true, true },
    { "group_id=1,type=select,bucket=bucket_id:1,actions=drop",
      "group_id=1,type=select,bucket=bucket_id:1,actions=drop", true, true },
    { "group_id=1,type=select,bucket=bucket_id:1,actions=drop",
      "group_id=2,type=select,bucket=bucket_id:1,actions=drop", false, false },
    { "group_id=1,type=select,bucket=bucket_id:1,actions=drop",
      "group_id=1,type=all,bucket=bucket_id:1,actions=drop", true, false },
    { "group_id=1,type=select,bucket=bucket_id:1,actions=drop",
      "group_id=1,type=select,bucket=bucket_id:2,actions=drop", true, false },
    { "group_id=1,type=select,bucket=bucket_id:1,weight:1,actions=drop",
      "group_id=1,type=select,bucket=bucket_id:1,weight:2,actions=drop", true,
      false },
    { "group_id=1,type=select,selection_method=hash",
      "group_id=1,type=select,selection_method=dp_hash", true, false },
    { "group_id=1,type=select,selection_method=hash",
      "group_id=1,type=select,selection_method=hash,selection_method_param=1",
      true, false },
    { "group_id=1,type=select,selection_method=hash,fields=ip_src",
      "group_id=1,type=select,selection_method=hash,fields=ip_dst", true,
      false },
    { "group_id=1,type=select", "ip actions=drop", false, false },
};

static void
equality_and_key_are_what_they_should_be(void **state OVS_UNUSED)
{
    for (size_t i = 0; i < ARRAY_SIZE(comparisons); i++) {
        struct fitem *a = flowtext_item(comparisons[i].a);
        struct fitem *b = flowtext_item(comparisons[i].b);

        if (fitem_equals(a, b) != comparisons[i].same
            || fitem_equals(b, a) != comparisons[i].same
            || fitem_key_equals(a, b) != comparisons[i].same_key
            || fitem_key_equals(b, a) != comparisons[i].same_key) {
            fail_msg("%s and %s", comparisons[i].a, comparisons[i].b);
        }
        fitem_unref(a);
        fitem_unref(b);
    }
}

static void
parts_of_an_item_are_read_back(void **state OVS_UNUSED)
{
    struct fitem *flow = flowtext_flow(
        "table=12,priority=300,cookie=0xf901030000000007,ip actions=drop");
    struct fitem *group = flowtext_group("group_id=1073745408,type=all");

    assert_int_equal(fitem_kind(flow), FITEM_FLOW);
    assert_int_equal(fitem_cookie(flow), cookie_make(COOKIE_SERVICE, 7));
    assert_int_equal(fitem_table(flow), 12);
    assert_int_equal(fitem_priority(flow), 300);
    assert_int_equal(fitem_group_id(flow), 0);

    assert_int_equal(fitem_kind(group), FITEM_GROUP);
    assert_int_equal(fitem_group_id(group), group_id_make(7, false, 0));
    assert_int_equal(fitem_key_hash(group),
                     fitem_group_hash(fitem_group_id(group)));
    assert_int_equal(fitem_cookie(group), 0);
    assert_int_equal(fitem_table(group), 0);
    assert_int_equal(fitem_priority(group), 0);
    assert_int_equal(fitem_nw_proto(group), 0);
    fitem_unref(flow);
    fitem_unref(group);
}

static void
protocol_is_found_wherever_it_stands(void **state OVS_UNUSED)
{
    static const struct {
        const char *match;
        uint8_t proto;
    } cases[] = {
        { "ip", 0 },
        { "arp", 0 },
        { "ip,nw_proto=255", 255 },
        { "tcp,tp_dst=80", 6 },
        { "udp6,ipv6_dst=2001:db8::1,tp_dst=53,reg4=0x10000/0x70000", 17 },
        { "sctp,reg0=6,in_port=2,nw_dst=192.0.2.1,ct_state=+trk+new", 132 },
        { "ct_nw_proto=17,ct_state=+trk+new,ip,nw_frag=yes", 0 },
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char *text = xasprintf("table=12,%s actions=drop", cases[i].match);
        struct fitem *flow = flowtext_flow(text);

        assert_int_equal(fitem_nw_proto(flow), cases[i].proto);
        fitem_unref(flow);
        free(text);
    }
}

static void
message_has_no_xid_and_its_own_length(void **state OVS_UNUSED)
{
    for (size_t i = 0; flowtext_samples[i]; i++) {
        struct fitem *item = flowtext_item(flowtext_samples[i]);
        struct ofpbuf *msgs[] = { fitem_encode_put(item),
                                  fitem_encode_delete(item) };

        assert_int_equal(msgs[0]->size, fitem_size(item));
        for (size_t j = 0; j < ARRAY_SIZE(msgs); j++) {
            assert_int_equal(header(msgs[j])->xid, 0);
            assert_int_equal(header(msgs[j])->version, OFP15_VERSION);
            assert_int_equal(ntohs(header(msgs[j])->length), msgs[j]->size);
            ofpbuf_delete(msgs[j]);
        }
        fitem_unref(item);
    }
}

static void
b8_deletion_is_strict_and_names_the_whole_cookie(void **state OVS_UNUSED)
{
    for (size_t i = 0; flowtext_samples[i]; i++) {
        struct fitem *item = flowtext_item(flowtext_samples[i]);
        struct ofpbuf *msg = fitem_encode_delete(item);

        if (fitem_kind(item) == FITEM_FLOW) {
            struct match match;
            struct ofpbuf ofpacts;
            struct fitem_flow flow;
            ofpbuf_init(&ofpacts, 0);
            flowtext_parse_flow(flowtext_samples[i], &match, &ofpacts, &flow);
            struct ofputil_flow_mod fm = {
                .priority = flow.priority,
                .cookie = htonll(flow.cookie),
                .cookie_mask = OVS_BE64_MAX,
                .table_id = flow.table,
                .command = OFPFC_DELETE_STRICT,
                .buffer_id = UINT32_MAX,
                .out_port = OFPP_ANY,
                .out_group = OFPG_ANY,
            };
            minimatch_init(&fm.match, &match);
            struct ofpbuf *expected =
                ofputil_encode_flow_mod(&fm, OFPUTIL_P_OF15_OXM);
            minimatch_destroy(&fm.match);
            ofpbuf_uninit(&ofpacts);
            ((struct ofp_header *) expected->data)->xid = 0;
            assert_int_equal(msg->size, expected->size);
            assert_memory_equal(msg->data, expected->data, msg->size);
            ofpbuf_delete(expected);
        } else {
            struct ofputil_group_mod gm;
            assert_int_equal(ofputil_decode_group_mod(header(msg), &gm), 0);
            assert_int_equal(gm.command, OFPGC11_DELETE);
            assert_int_equal(gm.group_id, fitem_group_id(item));
            ofputil_uninit_group_mod(&gm);
        }
        ofpbuf_delete(msg);
        fitem_unref(item);
    }
}

static void
flow_is_printed_as_ovs_ofctl_does(void **state OVS_UNUSED)
{
    struct ofputil_table_map names;
    struct fitem *flow = flowtext_flow(
        "cookie=0xf901030000000007,table=12,priority=200,tcp,"
        "nw_dst=10.96.0.1,tp_dst=443 actions=resubmit(,14),group:1");
    struct fitem *group =
        flowtext_group("group_id=1073745408,type=select,"
                       "selection_method=hash,fields(ip_src,ip_dst),"
                       "bucket=bucket_id:3,weight:2,actions=resubmit(,14)");
    struct ds ds = DS_EMPTY_INITIALIZER;

    ofputil_table_map_init(&names);
    ofputil_table_map_put(&names, 12, "ServiceLB");
    ofputil_table_map_put(&names, 14, "EndpointDNAT");
    fitem_format(flow, &names, &ds);
    assert_string_equal(ds_cstr(&ds),
                        "cookie=0xf901030000000007, table=ServiceLB, "
                        "priority=200,tcp,nw_dst=10.96.0.1,tp_dst=443 "
                        "actions=resubmit(,EndpointDNAT),group:1");
    ds_clear(&ds);
    fitem_format(group, &names, &ds);
    assert_string_equal(
        ds_cstr(&ds), "group_id=1073745408,type=select,selection_method=hash,"
                      "fields(ip_src,ip_dst),bucket=bucket_id:3,weight:2,"
                      "actions=resubmit(,EndpointDNAT)");
    ds_destroy(&ds);
    ofputil_table_map_destroy(&names);
    fitem_unref(flow);
    fitem_unref(group);
}

/* Groups that are named. */

static const struct {
    const char *text;
    size_t n;
    uint32_t ids[3];
} group_users[] = {
    { "ip actions=drop", 0, { 0 } },
    { "ip actions=group:5", 1, { 5 } },
    { "ip,nw_dst=10.0.0.1 actions=set_field:22->reg0,group:6,group:7",
      2,
      { 6, 7 } },
    { "tcp actions=group:8,goto_table:3", 1, { 8 } },
    { "tcp actions=write_actions(group:9)", 1, { 9 } },
    { "ip actions=ct(commit,exec(set_field:22->ct_mark)),goto_table:22",
      0,
      { 0 } },
    { "group_id=1,type=select", 0, { 0 } },
    { "group_id=1,type=select,bucket=bucket_id:1,actions=drop", 0, { 0 } },
    { "group_id=1,type=select,selection_method=hash,fields=ip_src,"
      "bucket=bucket_id:1,actions=set_field:22->reg0,group:2,"
      "bucket=bucket_id:22,actions=group:2,bucket=bucket_id:3,actions=group:4",
      3,
      { 2, 2, 4 } },
};

struct ids {
    size_t n;
    uint32_t ids[8];
};

static void
add_id(uint32_t id, void *ids_)
{
    struct ids *ids = ids_;

    assert_in_range(ids->n, 0, ARRAY_SIZE(ids->ids) - 1);
    ids->ids[ids->n++] = id;
}

static void
groups_that_an_item_names_are_found(void **state OVS_UNUSED)
{
    for (size_t i = 0; i < ARRAY_SIZE(group_users); i++) {
        struct fitem *item = flowtext_item(group_users[i].text);
        struct ids ids = { 0, { 0 } };

        fitem_for_each_group(item, add_id, &ids);
        assert_int_equal(ids.n, group_users[i].n);
        for (size_t j = 0; j < ids.n; j++) {
            assert_int_equal(ids.ids[j], group_users[i].ids[j]);
        }
        fitem_unref(item);
    }
}

/* Sizes. */

/* A group of 'n' buckets as large as DNAT in the bucket makes them (96 bytes
 * for IPv4, and IPv6 is larger). */
static void
build_group(struct ofputil_group_mod *gm, size_t n)
{
    *gm = (struct ofputil_group_mod){
        .command = OFPGC11_ADD,
        .type = OFPGT11_SELECT,
        .group_id = group_id_make(7, false, 0),
        .command_bucket_id = OFPG15_BUCKET_ALL,
    };
    ovs_list_init(&gm->buckets);
    for (size_t i = 0; i < n; i++) {
        struct ofputil_bucket *bucket = xzalloc(sizeof *bucket);
        struct ofpbuf ofpacts;

        ofpbuf_init(&ofpacts, 0);
        put_ct_dnat(&ofpacts);
        bucket->bucket_id = i;
        bucket->weight = 1;
        bucket->watch_port = OFPP_ANY;
        bucket->watch_group = OFPG_ANY;
        bucket->ofpacts_len = ofpacts.size;
        bucket->ofpacts = ofpbuf_steal_data(&ofpacts);
        ovs_list_push_back(&gm->buckets, &bucket->list_node);
    }
}

static void
d1_group_too_large_for_a_message_is_refused(void **state OVS_UNUSED)
{
    static const size_t counts[] = { 1,   100, 400,  500,  600, 744,
                                     745, 900, 1024, 1500, 5000 };
    struct ofputil_group_mod gm;
    struct fitem *item;
    size_t size_of_1, size_of_2;
    struct err err;

    build_group(&gm, 1);
    assert_int_equal(fitem_from_group(&gm, &item, &err), 0);
    size_of_1 = fitem_size(item);
    fitem_unref(item);
    ofputil_uninit_group_mod(&gm);
    build_group(&gm, 2);
    assert_int_equal(fitem_from_group(&gm, &item, &err), 0);
    size_of_2 = fitem_size(item);
    fitem_unref(item);
    ofputil_uninit_group_mod(&gm);

    for (size_t i = 0; i < ARRAY_SIZE(counts); i++) {
        size_t size = size_of_1 + (size_of_2 - size_of_1) * (counts[i] - 1);

        build_group(&gm, counts[i]);
        int error = fitem_from_group(&gm, &item, &err);
        if (size <= FITEM_GROUP_MAX_BYTES) {
            assert_int_equal(error, 0);
            assert_int_equal(fitem_size(item), size);
            struct fitem *back = by_way_of_a_switch(item);
            assert_same_item(item, back);
            fitem_unref(back);
            fitem_unref(item);
        } else {
            char expected[200];
            snprintf(expected, sizeof expected,
                     "group %u takes %zu bytes, %zu more than the 60000 that "
                     "a group may have",
                     group_id_make(7, false, 0), size,
                     size - FITEM_GROUP_MAX_BYTES);
            assert_int_equal(error, EMSGSIZE);
            assert_string_equal(err.msg, expected);
        }
        ofputil_uninit_group_mod(&gm);
    }
}

static void
d2_largest_group_fits_into_every_message_that_carries_it(
    void **state OVS_UNUSED)
{
    struct ofputil_group_mod gm;
    struct fitem *item;
    size_t n = 1;

    build_group(&gm, n);
    while (!fitem_from_group(&gm, &item, NULL)) {
        /* The description: two headers of 8 bytes for the message, one of 16
         * for the group instead of the group-mod's. */
        size_t desc = fitem_size(item) - 8 - 16 + 8 + 8 + 16;
        assert_in_range(desc, 0, UINT16_MAX);
        assert_in_range(fitem_size(item) + 16, 0, UINT16_MAX);
        fitem_unref(item);
        ofputil_uninit_group_mod(&gm);
        build_group(&gm, ++n);
    }
    ofputil_uninit_group_mod(&gm);
    assert_in_range(n, 400, 700);
}

static void
flow_too_long_for_a_message_keeps_its_key_only(void **state OVS_UNUSED)
{
    struct ofpbuf ofpacts;
    struct fitem_flow flow;
    struct match match;

    ofpbuf_init(&ofpacts, 0);
    flowtext_parse_flow("cookie=0xf901030000000007,table=9,ip,"
                        "nw_dst=10.0.0.1 actions=drop",
                        &match, &ofpacts, &flow);
    struct fitem *drop = fitem_from_flow(&flow);
    while (ofpacts.size < 200000) {
        put_ct_dnat(&ofpacts);
    }
    flow.ofpacts = ofpacts.data;
    flow.ofpacts_len = ofpacts.size;
    struct fitem *item = fitem_from_flow(&flow);

    assert_int_equal(fitem_size(item), fitem_size(drop));
    assert_true(fitem_key_equals(item, drop));
    assert_int_equal(fitem_cookie(item), flow.cookie);
    assert_false(fitem_equals(item, drop));
    ofpbuf_uninit(&ofpacts);
    fitem_unref(item);
    fitem_unref(drop);
}

static void
fout_grows_and_is_usable_again_when_cleared(void **state OVS_UNUSED)
{
    struct fout out = FOUT_INIT;
    struct ofputil_group_mod gm;
    struct err err;

    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < 100; i++) {
            fout_add(&out, flowtext_item(flowtext_samples[i % 7]));
        }
        build_group(&gm, 3);
        assert_int_equal(fout_group(&out, &gm, &err), 0);
        ofputil_uninit_group_mod(&gm);
        assert_int_equal(out.n, 101);
        build_group(&gm, 1000);
        assert_int_equal(fout_group(&out, &gm, &err), EMSGSIZE);
        ofputil_uninit_group_mod(&gm);
        assert_int_equal(out.n, 101);
        fout_clear(&out);
        assert_int_equal(out.n, 0);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_sample_comes_back_from_a_switch_unchanged),
        cmocka_unit_test(samples_differ_from_each_other),
        cmocka_unit_test(
            rendered_flow_comes_back_unchanged_and_equals_the_parsed_one),
        cmocka_unit_test(equality_and_key_are_what_they_should_be),
        cmocka_unit_test(parts_of_an_item_are_read_back),
        cmocka_unit_test(protocol_is_found_wherever_it_stands),
        cmocka_unit_test(message_has_no_xid_and_its_own_length),
        cmocka_unit_test(b8_deletion_is_strict_and_names_the_whole_cookie),
        cmocka_unit_test(flow_is_printed_as_ovs_ofctl_does),
        cmocka_unit_test(groups_that_an_item_names_are_found),
        cmocka_unit_test(d1_group_too_large_for_a_message_is_refused),
        cmocka_unit_test(
            d2_largest_group_fits_into_every_message_that_carries_it),
        cmocka_unit_test(flow_too_long_for_a_message_keeps_its_key_only),
        cmocka_unit_test(fout_grows_and_is_usable_again_when_cleared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
