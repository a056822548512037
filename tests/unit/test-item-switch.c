/* SPDX-License-Identifier: Apache-2.0 */
/* Items against a real ovs-vswitchd: what it is told and what it says are the
 * same bytes, for every kind of match, action and group that is used. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <byte-order.h>
#include <openvswitch/ofp-flow.h>
#include <openvswitch/ofp-monitor.h>
#include <openvswitch/ofp-msgs.h>
#include <openvswitch/ofp-print.h>
#include <openvswitch/vconn.h>
#include <openvswitch/vlog.h>
#include <util.h>

#include "../support/flowtext.h"
#include "../support/vswitch.h"
#include "ofproxyd/flow/item.h"

struct fixture {
    struct vswitch *vs;
    struct vconn *vconn;
};

static struct vconn *
must_connect(const struct vswitch *vs)
{
    struct vconn *vconn;

    assert_int_equal(vconn_open_block(vswitch_target(vs), 1u << OFP15_VERSION,
                                      0, 10000, &vconn),
                     0);
    return vconn;
}

static int
set_up(void **state)
{
    struct fixture *f = xzalloc(sizeof *f);

    *state = f;
    f->vs = vswitch_start();
    vswitch_sh(f->vs, "ovs-ofctl -O OpenFlow15 add-meter unix:$D/br0.mgmt "
                      "meter=256,pktps,bands=type=drop,rate=100");
    f->vconn = must_connect(f->vs);
    return 0;
}

static int
tear_down(void **state)
{
    struct fixture *f = *state;

    vconn_close(f->vconn);
    vswitch_stop(f->vs);
    free(f);
    return 0;
}

/* Sends 'msgs' and empties the list. */
static void
must_send_all(struct fixture *f, struct ovs_list *msgs)
{
    struct ofpbuf *reply;

    assert_int_equal(vconn_transact_multiple_noreply(f->vconn, msgs, &reply),
                     0);
    if (reply) {
        struct ofpbuf refused;
        enum ofperr error = ofperr_decode_msg(reply->data, &refused);
        char *text = ofp_to_string(refused.data, refused.size, NULL, NULL, 1);
        fail_msg("%s: %s", ofperr_to_string(error), text);
    }
    ovs_list_init(msgs);
}

/* Takes 'msg'. */
static void
must_send(struct fixture *f, struct ofpbuf *msg)
{
    struct ovs_list msgs = OVS_LIST_INITIALIZER(&msgs);

    ovs_list_push_back(&msgs, &msg->list_node);
    must_send_all(f, &msgs);
}

static void
dump_flows(struct fixture *f, struct fout *out)
{
    struct ofputil_flow_stats_request request = {
        .out_port = OFPP_ANY,
        .out_group = OFPG_ANY,
        .table_id = OFPTT_ALL,
    };
    struct ofputil_flow_stats *stats;
    size_t n;

    match_init_catchall(&request.match);
    assert_int_equal(vconn_dump_flows(f->vconn, &request, OFPUTIL_P_OF15_OXM,
                                      &stats, &n),
                     0);
    for (size_t i = 0; i < n; i++) {
        const struct fitem_flow flow = {
            .table = stats[i].table_id,
            .priority = stats[i].priority,
            .cookie = ntohll(stats[i].cookie),
            .idle_timeout = stats[i].idle_timeout,
            .hard_timeout = stats[i].hard_timeout,
            .flags = (uint16_t) stats[i].flags,
            .match = &stats[i].match,
            .ofpacts = stats[i].ofpacts,
            .ofpacts_len = stats[i].ofpacts_len,
        };
        fout_flow(out, &flow);
        free(CONST_CAST(struct ofpact *, stats[i].ofpacts));
    }
    free(stats);
}

static void
multipart(struct vconn *vconn, struct ofpbuf *request,
          struct ovs_list *replies)
{
    struct ovs_list requests = OVS_LIST_INITIALIZER(&requests);

    ovs_list_push_back(&requests, &request->list_node);
    assert_int_equal(vconn_transact_multipart(vconn, &requests, replies), 0);
    ofpbuf_list_delete(&requests);
}

static void
add_group(struct fout *out, struct ofputil_group_desc *desc)
{
    struct ofputil_group_mod gm = {
        .type = desc->type,
        .group_id = desc->group_id,
        .props = desc->props,
    };

    ovs_list_move(&gm.buckets, &desc->buckets);
    assert_int_equal(fout_group(out, &gm, NULL), 0);
    ofputil_uninit_group_mod(&gm);
}

static void
dump_groups(struct fixture *f, struct fout *out)
{
    struct ovs_list replies;
    struct ofpbuf *reply;

    multipart(f->vconn,
              ofputil_encode_group_desc_request(OFP15_VERSION, OFPG_ALL),
              &replies);
    LIST_FOR_EACH (reply, list_node, &replies) {
        struct ofputil_group_desc desc;
        reply->header = NULL;
        while (!ofputil_decode_group_desc_reply(&desc, reply, OFP15_VERSION)) {
            add_group(out, &desc);
        }
    }
    ofpbuf_list_delete(&replies);
}

/* What a flow monitor says first: all flows.  On a connection of its own, for
 * it goes on speaking. */
static void
monitor_flows(struct fixture *f, struct fout *out)
{
    struct ofputil_flow_monitor_request request = {
        .flags = OFPFMF_INITIAL | OFPFMF_ADD | OFPFMF_REMOVED | OFPFMF_MODIFY
                 | OFPFMF_INSTRUCTIONS,
        .out_port = OFPP_ANY,
        .out_group = OFPG_ANY,
        .table_id = OFPTT_ALL,
        .command = OFPFMC_ADD,
    };
    struct vconn *vconn = must_connect(f->vs);
    struct ofpbuf *msg = ofpbuf_new(0);
    struct ovs_list replies;
    struct ofpbuf *reply;

    match_init_catchall(&request.match);
    ofputil_append_flow_monitor_request(&request, msg, OFPUTIL_P_OF15_OXM);
    ofpmsg_update_length(msg);
    multipart(vconn, msg, &replies);
    LIST_FOR_EACH (reply, list_node, &replies) {
        struct ofputil_flow_update update;
        struct ofpbuf ofpacts;

        ofpbuf_init(&ofpacts, 0);
        reply->header = NULL;
        while (!ofputil_decode_flow_update(&update, reply, &ofpacts)) {
            const struct fitem_flow flow = {
                .table = update.table_id,
                .priority = update.priority,
                .cookie = ntohll(update.cookie),
                .idle_timeout = update.idle_timeout,
                .hard_timeout = update.hard_timeout,
                .match = &update.match,
                .ofpacts = update.ofpacts,
                .ofpacts_len = update.ofpacts_len,
            };
            fout_flow(out, &flow);
        }
        ofpbuf_uninit(&ofpacts);
    }
    ofpbuf_list_delete(&replies);
    vconn_close(vconn);
}

static const struct fitem *
find_key(const struct fout *out, const struct fitem *item)
{
    for (size_t i = 0; i < out->n; i++) {
        if (fitem_key_equals(out->items[i], item)) {
            return out->items[i];
        }
    }
    return NULL;
}

static void
assert_held(const struct fout *out, const struct fitem *item, const char *text)
{
    const struct fitem *held = find_key(out, item);

    if (!held) {
        fail_msg("%s: not in the dump", text);
    } else if (!fitem_equals(held, item)) {
        char *a = flowtext_format(item);
        char *b = flowtext_format(held);
        fail_msg("\nwanted %s\n   had %s", a, b);
    }
}

static bool
has_flags(const char *text)
{
    return strstr(text, "send_flow_rem") || strstr(text, "no_packet_counts");
}

static void
put_all(struct fixture *f, struct fout *items)
{
    struct ovs_list msgs = OVS_LIST_INITIALIZER(&msgs);

    for (size_t i = 0; flowtext_samples[i]; i++) {
        fout_add(items, flowtext_item(flowtext_samples[i]));
        struct ofpbuf *msg = fitem_encode_put(items->items[i]);
        ovs_list_push_back(&msgs, &msg->list_node);
    }
    must_send_all(f, &msgs);
}

static void
what_the_switch_says_equals_what_it_was_told(void **state)
{
    struct fixture *f = *state;
    struct fout dump = FOUT_INIT, monitored = FOUT_INIT, items = FOUT_INIT;

    put_all(f, &items);
    dump_flows(f, &dump);
    dump_groups(f, &dump);
    monitor_flows(f, &monitored);
    assert_int_equal(dump.n, items.n);
    for (size_t i = 0; i < items.n; i++) {
        const char *text = flowtext_samples[i];
        assert_held(&dump, items.items[i], text);
        /* The flow monitor leaves the flags out. */
        if (fitem_kind(items.items[i]) == FITEM_FLOW && !has_flags(text)) {
            assert_held(&monitored, items.items[i], text);
        }
    }
    fout_clear(&items);
    fout_clear(&dump);
    fout_clear(&monitored);
}

static void
c7_items_can_be_put_again_and_again(void **state)
{
    struct fixture *f = *state;
    struct fout dump = FOUT_INIT, items = FOUT_INIT;

    put_all(f, &items);
    fout_clear(&items);
    put_all(f, &items);
    dump_flows(f, &dump);
    dump_groups(f, &dump);
    assert_int_equal(dump.n, items.n);
    fout_clear(&items);
    fout_clear(&dump);
}

static void
b8_deletion_spares_a_flow_of_another_cookie(void **state)
{
    struct fixture *f = *state;
    struct fout dump = FOUT_INIT;
    struct fitem *old = flowtext_flow("cookie=0xf901030000000001,table=99,"
                                      "priority=5,ip actions=drop");
    struct fitem *new = flowtext_flow("cookie=0xf901030000000002,table=99,"
                                      "priority=5,ip actions=drop");

    must_send(f, fitem_encode_put(old));
    must_send(f, fitem_encode_put(new));
    must_send(f, fitem_encode_delete(old));
    dump_flows(f, &dump);
    assert_held(&dump, new, "new flow");
    fout_clear(&dump);

    must_send(f, fitem_encode_delete(new));
    dump_flows(f, &dump);
    assert_null(find_key(&dump, new));
    fout_clear(&dump);
    fitem_unref(old);
    fitem_unref(new);
}

static void
delete_where(struct fixture *f, const struct fout *items, enum fitem_kind kind,
             size_t odd)
{
    struct ovs_list msgs = OVS_LIST_INITIALIZER(&msgs);

    for (size_t i = items->n; i-- > 0;) {
        if (fitem_kind(items->items[i]) == kind && i % 2 == odd) {
            struct ofpbuf *msg = fitem_encode_delete(items->items[i]);
            ovs_list_push_back(&msgs, &msg->list_node);
        }
    }
    must_send_all(f, &msgs);
}

static void
deletions_remove_what_they_name_and_nothing_else(void **state)
{
    static const struct {
        enum fitem_kind kind;
        size_t odd;
    } steps[] = {
        { FITEM_FLOW, 0 },
        { FITEM_FLOW, 1 },
        { FITEM_GROUP, 0 },
        { FITEM_GROUP, 1 },
    };
    struct fixture *f = *state;
    struct fout items = FOUT_INIT;

    put_all(f, &items);
    for (size_t step = 0; step < ARRAY_SIZE(steps); step++) {
        struct fout dump = FOUT_INIT;

        delete_where(f, &items, steps[step].kind, steps[step].odd);
        dump_flows(f, &dump);
        dump_groups(f, &dump);
        for (size_t i = 0; i < items.n; i++) {
            enum fitem_kind kind = fitem_kind(items.items[i]);
            bool gone = false;
            for (size_t past = 0; past <= step; past++) {
                gone |= kind == steps[past].kind && i % 2 == steps[past].odd;
            }
            if (gone != !find_key(&dump, items.items[i])) {
                fail_msg("step %zu: %s", step, flowtext_samples[i]);
            }
        }
        fout_clear(&dump);
    }
    fout_clear(&items);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_switch_says_equals_what_it_was_told),
        cmocka_unit_test(c7_items_can_be_put_again_and_again),
        cmocka_unit_test(b8_deletion_spares_a_flow_of_another_cookie),
        cmocka_unit_test(deletions_remove_what_they_name_and_nothing_else),
    };

    vlog_set_levels(NULL, VLF_CONSOLE, VLL_ERR);
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
