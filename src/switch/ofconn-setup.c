/* SPDX-License-Identifier: Apache-2.0 */
/* What a new OpenFlow connection asks the switch for: notices of what others
 * change, packets, and the meters that limit them.  What the switch refuses
 * is done without, and said once. */

#include "ofconn-private.h"

#include <openvswitch/match.h>
#include <openvswitch/ofp-connection.h>
#include <openvswitch/ofp-meter.h>
#include <openvswitch/ofp-monitor.h>
#include <openvswitch/ofp-packet.h>
#include <openvswitch/ofp-switch.h>
#include <openvswitch/ofp-util.h>
#include <openvswitch/vlog.h>

VLOG_DEFINE_THIS_MODULE(ofconn_setup);

static const char *const missing[] = {
#define OFCONN_ASK(NAME, MISSING) [ASK_##NAME] = MISSING,
    OFCONN_ASKS
#undef OFCONN_ASK
};

static void
ask(struct ofconn *c, enum ofconn_ask what, struct ofpbuf *msg)
{
    c->ask_xids[what] = ofconn_send(c, msg);
}

static struct ofpbuf *
encode_config(void)
{
    /* A service connection gets no asynchronous message while
     * miss_send_len is 0; the maximum means whole packets. */
    struct ofputil_switch_config config = {
        .frag = OFPUTIL_FRAG_NORMAL,
        .miss_send_len = UINT16_MAX,
    };
    return ofputil_encode_set_config(&config, OFP15_VERSION);
}

/* Packet-ins and forwarded requests only: ports come from OVSDB. */
static struct ofpbuf *
encode_async(void)
{
    struct ofputil_async_cfg defaults =
        ofputil_async_cfg_default(OFP15_VERSION);
    struct ofputil_async_cfg ac = OFPUTIL_ASYNC_CFG_INIT;

    ac.primary[OAM_PACKET_IN] = defaults.primary[OAM_PACKET_IN];
    ac.primary[OAM_REQUESTFORWARD] =
        1u << OFPRFR_GROUP_MOD | 1u << OFPRFR_METER_MOD;
    return ofputil_encode_set_async_config(&ac, (1u << OAM_N_TYPES) - 1,
                                           OFP15_VERSION);
}

/* All tables, since a monitor can't be restricted to a cookie.  What is there
 * already comes with the dump, which, unlike the monitor, tells a flow's
 * flags. */
static struct ofpbuf *
encode_monitor(void)
{
    struct ofputil_flow_monitor_request rq = {
        .id = 1,
        .command = OFPFMC_ADD,
        .flags =
            OFPFMF_ADD | OFPFMF_REMOVED | OFPFMF_MODIFY | OFPFMF_INSTRUCTIONS,
        .out_port = OFPP_NONE,
        .out_group = OFPG_ANY,
        .table_id = OFPTT_ALL,
    };
    match_init_catchall(&rq.match);

    /* The buffer must be empty, or nothing is appended. */
    struct ofpbuf *msg = ofpbuf_new(0);
    ofputil_append_flow_monitor_request(&rq, msg, OFPUTIL_P_OF15_OXM);
    return msg;
}

void
ofconn_setup_start(struct ofconn *c)
{
    ask(c, ASK_CONFIG, encode_config());
    ask(c, ASK_PACKET_FORMAT,
        ofputil_encode_set_packet_in_format(OFP15_VERSION,
                                            OFPUTIL_PACKET_IN_NXT2));
    ask(c, ASK_ASYNC, encode_async());
    ask(c, ASK_MONITOR, encode_monitor());
    ofconn_setup_check_meters(c);
    c->configured_xid =
        ofconn_send(c, ofputil_encode_barrier_request(OFP15_VERSION));
}

void
ofconn_setup_reset(struct ofconn *c)
{
    memset(c->ask_xids, 0, sizeof c->ask_xids);
    c->configured_xid = 0;
}

void
ofconn_setup_check_meters(struct ofconn *c)
{
    c->meters_there = c->meters_right = 0;
    ask(c, ASK_METER_READ,
        ofputil_encode_meter_request(OFP15_VERSION, OFPUTIL_METER_CONFIG,
                                     OFPM13_ALL));
}

static struct ofputil_meter_band
wanted_band(const struct ofconn *c)
{
    return (struct ofputil_meter_band){
        .type = OFPMBT13_DROP,
        .rate = c->meter_rate_pps,
        .burst_size = 2 * c->meter_rate_pps,
    };
}

#define METER_FLAGS (OFPMF13_PKTPS | OFPMF13_BURST)

static void
set_meter(struct ofconn *c, unsigned int i)
{
    struct ofputil_meter_band band = wanted_band(c);
    struct ofputil_meter_mod mm = {
        .command = c->meters_there >> i & 1 ? OFPMC13_MODIFY : OFPMC13_ADD,
        .meter = { .meter_id = c->meter_id + i,
                   .flags = METER_FLAGS,
                   .n_bands = 1,
                   .bands = &band },
    };
    uint32_t xid =
        ofconn_send(c, ofputil_encode_meter_mod(OFP15_VERSION, &mm));

    if (!c->n_meter_mods++) {
        c->ask_xids[ASK_METER_MOD] = xid;
    }
}

static bool
meter_is_right(const struct ofconn *c, const struct ofputil_meter_config *mc)
{
    struct ofputil_meter_band want = wanted_band(c);

    /* A switch may say that it counts, too. */
    return (mc->flags & ~OFPMF13_STATS) == METER_FLAGS && mc->n_bands == 1
           && mc->bands[0].type == want.type && mc->bands[0].rate == want.rate
           && mc->bands[0].burst_size == want.burst_size;
}

static void
note_meter(struct ofconn *c, const struct ofputil_meter_config *mc)
{
    uint32_t i = mc->meter_id - c->meter_id;

    if (i < c->n_meters) {
        c->meters_there |= 1u << i;
        c->meters_right |= (uint32_t) meter_is_right(c, mc) << i;
    }
}

void
ofconn_setup_recv_meters(struct ofconn *c, struct ofpbuf *msg)
{
    const struct ofp_header *oh = msg->data;
    if (ntohl(oh->xid) != c->ask_xids[ASK_METER_READ]) {
        return;
    }

    bool more = ofpmp_more(oh);
    struct ofputil_meter_config mc;
    uint64_t stub[64 / 8];
    struct ofpbuf bands = OFPBUF_STUB_INITIALIZER(stub);
    while (!ofputil_decode_meter_config(msg, &mc, &bands)) {
        note_meter(c, &mc);
    }
    ofpbuf_uninit(&bands);
    if (more) {
        return;
    }

    c->ask_xids[ASK_METER_READ] = 0;
    c->n_meter_mods = 0;
    for (unsigned int i = 0; i < c->n_meters; i++) {
        if (!(c->meters_right >> i & 1)) {
            set_meter(c, i);
        }
    }
}

static bool
is_ask(const struct ofconn *c, uint32_t xid, enum ofconn_ask *ret_what)
{
    for (int i = 0; i < N_ASKS; i++) {
        uint32_t n = i == ASK_METER_MOD ? c->n_meter_mods : 1;

        if (c->ask_xids[i] && xid - c->ask_xids[i] < n) {
            *ret_what = i;
            return true;
        }
    }
    return false;
}

bool
ofconn_setup_recv_error(struct ofconn *c, uint32_t xid, enum ofperr error)
{
    enum ofconn_ask what;
    if (!xid) {
        return false;
    }
    if (xid == c->configured_xid) {
        ofconn_break(c, "barrier refused: %s", ofperr_to_string(error));
        return true;
    }
    if (!is_ask(c, xid, &what)) {
        return false;
    }

    if (!c->refused[what]) {
        c->refused[what] = true;
        ofconn_note_error(c, "%s (%s)", missing[what],
                          ofperr_to_string(error));
        VLOG_WARN("%s: the switch refuses a request (%s): %s", c->target,
                  ofperr_to_string(error), missing[what]);
    }
    return true;
}
