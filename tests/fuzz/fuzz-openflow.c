/* SPDX-License-Identifier: Apache-2.0 */
/* Feeds the bytes of a switch, after its HELLO, to the OpenFlow connection:
 * configuring, dump, changes by others, a bundle and packets.
 *
 * There is no socket: what the connection sends is lost.  Its xids count from
 * 1, so that what a real switch once said to a daemon with the same wishes
 * (want_things() below; of-probe can have them, too) drives the states as it
 * did then.  tests/data/corpus/openflow holds such recordings. */

#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <openvswitch/ofp-flow.h>
#include <openvswitch/ofp-group.h>
#include <openvswitch/vlog.h>

#include "../../src/switch/ofconn-private.h"
#include "ofproxyd/flow/cookie.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Longer sessions have nothing new. */
#define MAX_MESSAGES 4096

/* A group with one bucket and a flow that uses it. */
static void
want_things(struct flowtab *flowtab)
{
    struct flowtab_owner owner = { .id = 1 };
    struct fout items = FOUT_INIT;
    struct ofputil_group_mod gm = {
        .group_id = group_id_make(1, false, 0),
        .type = OFPGT11_SELECT,
        .command_bucket_id = OFPG15_BUCKET_ALL,
    };
    struct ofputil_bucket bucket = {
        .weight = 100,
        .watch_port = OFPP_ANY,
        .watch_group = OFPG_ANY,
    };
    ovs_list_init(&gm.buckets);
    ovs_list_push_back(&gm.buckets, &bucket.list_node);
    if (fout_group(&items, &gm, NULL)) {
        abort();
    }

    uint64_t stub[64 / 8];
    struct ofpbuf ofpacts = OFPBUF_STUB_INITIALIZER(stub);
    ofpact_put_GROUP(&ofpacts)->group_id = gm.group_id;
    struct match match;
    match_init_catchall(&match);
    struct fitem_flow flow = {
        .table = 12,
        .priority = 200,
        .cookie = cookie_make(COOKIE_SERVICE, 1),
        .match = &match,
        .ofpacts = ofpacts.data,
        .ofpacts_len = ofpacts.size,
    };
    fout_flow(&items, &flow);
    ofpbuf_uninit(&ofpacts);

    flowtab_want(flowtab, &owner, &items);
    flowtab_set_complete(flowtab, true);
}

/* A connection that has just been made. */
static struct ofconn *
connect_nowhere(struct flowtab *flowtab)
{
    struct ofconn *c = ofconn_create(&(struct ofconn_cfg){
        .target = "unix:nowhere",
        .flowtab = flowtab,
        .meter_id = 100,
        .n_meters = 2,
        .meter_rate_pps = 500,
        .reply_deadline_ms = 1000000,
    });
    c->rconn = rconn_create(0, 0, 0, 1u << OFP15_VERSION);
    c->state = S_CONFIGURE;
    ofconn_setup_start(c);
    return c;
}

/* As the library does, lets only complete messages of version 1.5 through. */
static struct ofpbuf *
next_message(const uint8_t **data, size_t *size)
{
    if (*size < sizeof(struct ofp_header)) {
        return NULL;
    }
    uint8_t version = (*data)[0];
    size_t length = (*data)[2] << 8 | (*data)[3];
    if (version != OFP15_VERSION || length < sizeof(struct ofp_header)
        || length > *size) {
        return NULL;
    }
    struct ofpbuf *msg = ofpbuf_clone_data(*data, length);
    *data += length;
    *size -= length;
    return msg;
}

static void
pop_packets(struct ofconn *c)
{
    struct ofputil_packet_in pin;
    void *packet;

    while (ofconn_pop_packet_in(c, &pin, &packet)) {
        unsigned int sum = 0;

        for (size_t i = 0; i < pin.packet_len; i++) {
            sum += ((uint8_t *) pin.packet)[i];
        }
        ofconn_packet_out(c, pin.flow_metadata.flow.in_port.ofp_port,
                          &in6addr_any, pin.packet, pin.packet_len);
        free(packet);
        if (sum == UINT_MAX) {
            abort();
        }
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    vlog_set_levels(NULL, VLF_ANY_DESTINATION, VLL_OFF);

    struct flowtab *flowtab = flowtab_create();
    want_things(flowtab);
    struct ofconn *c = connect_nowhere(flowtab);
    for (int i = 0; i < MAX_MESSAGES && !c->broken; i++) {
        struct ofpbuf *msg = next_message(&data, &size);
        if (!msg) {
            break;
        }
        ofconn_recv(c, msg);
        ofpbuf_delete(msg);
        ofconn_run_states(c);
        if (c->repair_ms != LLONG_MAX) {
            c->repair_ms = LLONG_MIN; /* Time flies. */
        }
    }
    pop_packets(c);

    struct ofconn_stats stats;
    ofconn_get_stats(c, &stats);
    ofconn_destroy(c);
    flowtab_destroy(flowtab);
    return 0;
}
