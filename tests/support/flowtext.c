/* SPDX-License-Identifier: Apache-2.0 */
/* Items from text and back, and the text of one of each kind. */

#include "flowtext.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <byte-order.h>
#include <openvswitch/ofp-flow.h>

void
flowtext_parse_flow(const char *text, struct match *match,
                    struct ofpbuf *ofpacts, struct fitem_flow *ret)
{
    enum ofputil_protocol usable;
    struct ofputil_flow_mod fm;

    char *error =
        parse_ofp_flow_mod_str(&fm, text, NULL, NULL, OFPFC_ADD, &usable);
    if (error) {
        fail_msg("%s: %s", text, error);
    }
    minimatch_expand(&fm.match, match);
    ofpbuf_put(ofpacts, fm.ofpacts, fm.ofpacts_len);
    *ret = (struct fitem_flow){
        .table = fm.table_id,
        .priority = (uint16_t) fm.priority,
        .cookie = ntohll(fm.new_cookie),
        .idle_timeout = fm.idle_timeout,
        .hard_timeout = fm.hard_timeout,
        .flags = (uint16_t) fm.flags,
        .match = match,
        .ofpacts = ofpacts->data,
        .ofpacts_len = ofpacts->size,
    };
    minimatch_destroy(&fm.match);
    free(fm.ofpacts);
}

struct fitem *
flowtext_flow(const char *text)
{
    struct ofpbuf ofpacts;
    struct fitem_flow flow;
    struct match match;

    ofpbuf_init(&ofpacts, 0);
    flowtext_parse_flow(text, &match, &ofpacts, &flow);
    struct fitem *item = fitem_from_flow(&flow);
    ofpbuf_uninit(&ofpacts);
    return item;
}

struct fitem *
flowtext_group(const char *text)
{
    enum ofputil_protocol usable;
    struct ofputil_group_mod gm;
    struct fitem *item;
    struct err err;

    char *error =
        parse_ofp_group_mod_str(&gm, OFPGC15_ADD, text, NULL, NULL, &usable);
    if (error) {
        fail_msg("%s: %s", text, error);
    }
    if (fitem_from_group(&gm, &item, &err)) {
        fail_msg("%.60s: %s", text, err.msg);
    }
    ofputil_uninit_group_mod(&gm);
    return item;
}

struct fitem *
flowtext_item(const char *text)
{
    return strncmp(text, "group_id=", 9) ? flowtext_flow(text)
                                         : flowtext_group(text);
}

char *
flowtext_format(const struct fitem *item)
{
    struct ds ds = DS_EMPTY_INITIALIZER;

    fitem_format(item, NULL, &ds);
    return ds_steal_cstr(&ds);
}

struct fitem *
flowtext_make_flow(uint64_t cookie, uint32_t object, uint32_t k,
                   uint32_t version, uint32_t group_id)
{
    uint64_t stub[64];
    struct ofpbuf ofpacts = OFPBUF_STUB_INITIALIZER(stub);
    const ovs_be32 value = htonl(version);
    struct match match;

    match_init_catchall(&match);
    match_set_reg(&match, 5, object);
    match_set_reg(&match, 6, k);
    ofpact_put_set_field(&ofpacts, mf_from_id(MFF_REG0), &value, NULL);
    if (group_id) {
        ofpact_put_GROUP(&ofpacts)->group_id = group_id;
    }
    const struct fitem_flow flow = {
        .table = 12,
        .priority = 200,
        .cookie = cookie,
        .match = &match,
        .ofpacts = ofpacts.data,
        .ofpacts_len = ofpacts.size,
    };
    struct fitem *item = fitem_from_flow(&flow);
    ofpbuf_uninit(&ofpacts);
    return item;
}

struct fitem *
flowtext_make_group(uint32_t group_id, uint16_t version, uint32_t named)
{
    struct ofputil_group_mod gm = {
        .type = OFPGT11_SELECT,
        .group_id = group_id,
    };
    struct ofpact_group group;
    struct ofputil_bucket bucket = {
        .weight = version,
        .watch_port = OFPP_ANY,
        .watch_group = OFPG_ANY,
        .ofpacts = &group.ofpact,
        .ofpacts_len = named ? sizeof group : 0,
    };
    struct fitem *item;

    ofpact_init_GROUP(&group);
    group.group_id = named;
    ovs_list_init(&gm.buckets);
    ovs_list_push_back(&gm.buckets, &bucket.list_node);
    assert_int_equal(fitem_from_group(&gm, &item, NULL), 0);
    return item;
}

#define C "cookie=0xf901030000000007,"

const char *const flowtext_samples[] = {
    /* Groups.  dp_hash with the weight trick, DNAT in the bucket. */
    "group_id=1073745408,type=select,"
    "selection_method=dp_hash,"
    "bucket=bucket_id:7,weight:85,actions=ct(commit,table=20,zone=65520,"
    "nat(dst=10.10.0.1:8080),exec(set_field:0x10/0x10->ct_mark,"
    "move:NXM_NX_REG0[0..3]->NXM_NX_CT_MARK[0..3])),"
    "bucket=bucket_id:9,weight:85,actions=ct(commit,table=20,zone=65520,"
    "nat(dst=10.10.0.2:8080),exec(set_field:0x10/0x10->ct_mark)),"
    "bucket=bucket_id:10,weight:1,actions=ct(commit,table=20,zone=65520,"
    "nat(dst=10.10.0.1:8080),exec(set_field:0x10/0x10->ct_mark))",
    "group_id=1073745409,type=select,selection_method=hash,"
    "selection_method_param=77,fields(ip_src,ip_dst,tcp_src,tcp_dst),"
    "bucket=bucket_id:1,weight:100,actions=set_field:0x0a0a0001->reg3,"
    "set_field:0x1f90/0xffff->reg4,resubmit(,14),"
    "bucket=bucket_id:2,weight:100,actions=set_field:0x0a0a0002->reg3,"
    "set_field:0x1f90/0xffff->reg4,resubmit(,14)",
    "group_id=1073745410,type=select,selection_method=hash,"
    "fields(ipv6_src,ipv6_dst,udp_src,udp_dst),"
    "bucket=bucket_id:1,weight:1,actions=set_field:"
    "0x20010db8000000000000000000000001->xxreg3,resubmit(,14),"
    "bucket=bucket_id:2,weight:1,actions=ct(commit,table=20,zone=65510,"
    "nat(dst=[2001:db8::2]:53),exec(set_field:0x10/0x10->ct_mark))",
    "group_id=1073745411,type=select,selection_method=hash,fields=ip_src,"
    "bucket=bucket_id:1,actions=drop",
    /* Two levels. */
    "group_id=1073745664,type=select,selection_method=hash,"
    "selection_method_param=1,fields(ip_src,ip_dst,tcp_src,tcp_dst),"
    "bucket=bucket_id:1,weight:100,actions=group:1073745409,"
    "bucket=bucket_id:2,weight:100,actions=group:1073745411",
    "group_id=1073745920,type=select,bucket=bucket_id:4294967040,weight:0,"
    "actions=drop",
    "group_id=1073746432,type=select",
    "group_id=1073746944,type=all,bucket=bucket_id:0,actions=output:3,"
    "bucket=bucket_id:1,actions=output:LOCAL",
    "group_id=1073747456,type=indirect,bucket=bucket_id:0,"
    "actions=set_field:1->reg1,resubmit(,31)",

    /* Matches. */
    C "table=0,priority=0 actions=drop",
    C "table=0,priority=200,arp actions=goto_table:1",
    C "table=0,priority=200,ip actions=goto_table:3",
    C "table=0,priority=200,ipv6 actions=goto_table:3",
    C "table=1,priority=200,arp,in_port=7,arp_spa=10.10.1.5,"
      "arp_sha=02:00:00:00:01:05 actions=goto_table:2",
    C "table=2,priority=200,arp,arp_tpa=169.254.0.253,arp_op=1 "
      "actions=move:NXM_OF_ETH_SRC[]->NXM_OF_ETH_DST[],"
      "set_field:aa:bb:cc:dd:ee:ff->eth_src,set_field:2->arp_op,"
      "move:NXM_NX_ARP_SHA[]->NXM_NX_ARP_THA[],"
      "set_field:aa:bb:cc:dd:ee:ff->arp_sha,"
      "move:NXM_OF_ARP_SPA[]->NXM_OF_ARP_TPA[],"
      "set_field:169.254.0.253->arp_spa,IN_PORT",
    C "table=2,priority=200,arp,arp_op=1 "
      "actions=move:NXM_OF_ETH_SRC[]->NXM_OF_ETH_DST[],"
      "move:NXM_OF_ARP_SPA[]->NXM_NX_REG2[],"
      "move:NXM_OF_ARP_TPA[]->NXM_OF_ARP_SPA[],"
      "move:NXM_NX_REG2[]->NXM_OF_ARP_TPA[],IN_PORT",
    C "table=2,priority=190,arp actions=NORMAL",
    C "table=5,priority=201,icmp6,icmp_type=135,icmp_code=0 "
      "actions=move:NXM_NX_ND_TARGET[]->NXM_NX_IPV6_SRC[],"
      "set_field:3758096384->nd_reserved,set_field:2->nd_options_type,"
      "set_field:136->icmpv6_type,set_field:0x10000/0x10000->reg0,"
      "resubmit(,5)",
    C "table=5,priority=210,icmp6,reg0=0x10000/0x10000,icmp_type=136,"
      "icmp_code=0 actions=set_field:aa:bb:cc:dd:ee:ff->nd_tll,IN_PORT",
    C "table=8,priority=210,ct_state=+rel+rpl+trk,ct_mark=0x10/0x10,ipv6,"
      "reg0=0x8000/0x8000 "
      "actions=move:NXM_NX_CT_IPV6_DST[]->NXM_NX_IPV6_SRC[],"
      "set_field:0/0x8000->reg0,ct(table=8,zone=65510,nat)",
    C "table=3,priority=200,in_port=LOCAL "
      "actions=set_field:0x2/0xf->reg0,goto_table:4",
    C "table=3,priority=190,in_port=12 "
      "actions=set_field:0x3/0xf->reg0,resubmit(,4)",
    C "table=4,priority=200,ip,in_port=12,dl_src=02:00:00:00:01:05,"
      "nw_src=10.10.1.5 actions=goto_table:5",
    C "table=4,priority=200,ipv6,in_port=12,dl_src=02:00:00:00:01:05,"
      "ipv6_src=fe80::/10 actions=goto_table:5",
    C "table=5,priority=200,icmp6,icmp_type=135,icmp_code=0 actions=NORMAL",
    C "table=5,priority=200,icmp6,icmp_type=136,icmp_code=0,"
      "nd_target=2001:db8::1 actions=NORMAL",
    C "table=5,priority=200,ipv6,ipv6_dst=ff00::/8 actions=NORMAL",
    C "table=8,priority=210,ct_state=+inv+trk,ip actions=drop",
    C "table=8,priority=190,ct_state=-new+trk,ct_mark=0x10/0x10,ip "
      "actions=set_field:0x200/0x200->reg0,goto_table:20",
    C "table=10,priority=200,ip,nw_dst=192.0.2.0/24 "
      "actions=set_field:0x80000/0x80000->reg4",
    C "table=12,priority=200,sctp,reg4=0x10000/0x70000,nw_dst=10.96.0.10,"
      "tp_dst=5060 actions=group:1073745408",
    C "table=14,priority=200,udp6,xxreg3=0x20010db8000000000000000000000001,"
      "reg4=0x20035/0x7ffff actions=drop",
    C "table=24,priority=200,dl_dst=02:00:00:00:01:05 "
      "actions=set_field:12->reg1,set_field:0x100/0x100->reg0,goto_table:30",
    C "table=31,priority=210,reg0=0x100/0x100,reg1=0xc,in_port=12 "
      "actions=IN_PORT",
    C "table=31,priority=200,reg0=0x100/0x100 actions=output:NXM_NX_REG1[]",
    C "table=20,priority=200,ip,tun_id=0x7,tun_src=192.0.2.12,"
      "ip_frag=not_later actions=drop",

    /* Actions. */
    C "table=6,priority=200,ip,nw_dst=169.254.0.253 "
      "actions=ct(table=7,zone=65521,nat)",
    C "table=7,priority=200,ipv6 actions=ct(table=8,zone=65510,nat)",
    C "table=12,priority=200,tcp,nw_dst=10.96.0.10,tp_dst=443 "
      "actions=set_field:0x10000/0x70000->reg4,group:1073745664",
    C "table=14,priority=200,tcp,reg3=0xa0a0001,reg4=0x21f90/0x7ffff "
      "actions=ct(commit,table=20,zone=65520,nat(dst=10.10.0.1:8080),"
      "exec(set_field:0x10/0x10->ct_mark,"
      "move:NXM_NX_REG0[0..3]->NXM_NX_CT_MARK[0..3]))",
    C "table=14,priority=200,tcp6,reg4=0x21f90/0x7ffff "
      "actions=ct(commit,table=20,zone=65510,nat(dst=[2001:db8::1]:8080),"
      "exec(set_field:0x10/0x10->ct_mark))",
    C "table=23,priority=200,ip,ct_mark=0x20/0x20 "
      "actions=ct(commit,table=24,zone=65521,nat(src=169.254.0.253),"
      "exec(set_field:0x10/0x10->ct_mark,set_field:0x40/0x40->ct_mark))",
    C "table=23,priority=190,ip,ct_mark=0x20/0x20 "
      "actions=ct(commit,table=24,zone=NXM_NX_REG5[0..15],"
      "nat(src=192.0.2.11-192.0.2.12:1024-2047,random))",
    C "table=22,priority=200,ip "
      "actions=ct(commit,table=23,zone=65520,exec(set_field:0x20/0x20->"
      "ct_mark))",
    C "table=21,priority=200,ip actions=dec_ttl,goto_table:22",
    C "table=20,priority=200,ip,nw_dst=10.10.2.0/24 "
      "actions=set_field:02:00:00:00:00:01->eth_src,"
      "set_field:aa:bb:cc:dd:ee:ff->eth_dst,"
      "set_field:192.0.2.12->tun_dst,set_field:0->tun_id,"
      "set_field:0x10/0xf0->reg0,goto_table:21",
    C "table=20,priority=200,ipv6,ipv6_dst=2001:db8:2::/64 "
      "actions=set_field:2001:db8:ffff::1->tun_ipv6_dst,goto_table:21",
    C "table=30,priority=200,ct_state=+new+trk,ip,reg0=0x3/0xf "
      "actions=ct(commit,table=31,zone=65520,"
      "exec(move:NXM_NX_REG0[0..3]->NXM_NX_CT_MARK[0..3]))",
    C "table=31,priority=205,ip,reg4=0x4000000/0x4000000 "
      "actions=meter:256,controller(reason=no_match,id=5,"
      "userdata=01.02.03.04.05)",
    C "table=31,priority=204,ip actions=controller(max_len=128,id=3)",
    C "table=31,priority=203,ip actions=controller:65535",
    C "table=31,priority=202,ip "
      "actions=controller(userdata=00,meter_id=256,pause)",
    C "table=11,priority=190,tcp,reg4=0x30000/0x70000 "
      "actions=learn(table=11,idle_timeout=10800,priority=192,"
      "delete_learned,cookie=0xf901030000000107,eth_type=0x800,nw_proto=6,"
      "NXM_OF_IP_SRC[],NXM_OF_IP_DST[],NXM_OF_TCP_DST[],"
      "load:NXM_NX_REG3[]->NXM_NX_REG3[],"
      "load:NXM_NX_REG4[0..15]->NXM_NX_REG4[0..15],"
      "load:0x2->NXM_NX_REG4[16..18]),goto_table:14",
    C "table=11,priority=191,tcp6,idle_timeout=60,hard_timeout=600,"
      "send_flow_rem actions=set_field:0x20010db8000000000000000000000001->"
      "xxreg3,set_field:0x1f90/0xffff->reg4",
    C "table=9,priority=200,ip actions=resubmit(,10),resubmit(,12)",
    C "table=9,priority=201,ip,no_packet_counts,no_byte_counts actions=drop",
    C "table=13,priority=200,ip actions=set_field:7->nw_ttl,"
      "set_field:10.0.0.1->ip_src,set_field:2->ip_dscp,"
      "output:5,output:LOCAL",
    C "table=13,priority=201,tcp actions=set_field:80->tcp_dst,"
      "set_field:0x1234567890abcdef/0xffffffffffffffff->xreg1,"
      "move:NXM_NX_DP_HASH[0..15]->NXM_NX_REG0[16..31],"
      "multipath(symmetric_l4,0,modulo_n,100,0,NXM_NX_REG3[0..15])",
    NULL
};
