/* SPDX-License-Identifier: Apache-2.0 */
/* Packets that flows of ours send to the daemon, and its answers. */

#include "ofconn-private.h"

#include <byte-order.h>
#include <openvswitch/ofp-actions.h>
#include <openvswitch/ofp-packet.h>
#include <packets.h>
#include <util.h>

#include "ofproxyd/flow/cookie.h"

/* Waiting to be sent.  More are dropped. */
#define MAX_PACKET_OUTS 256

/* Bytes of a packet that is sent: leaves room for the headers. */
#define MAX_PACKET_OUT 65000

static bool
decode(const struct ofp_header *oh, struct ofputil_packet_in *pin)
{
    size_t total_len;
    uint32_t buffer_id;
    return !ofputil_decode_packet_in(oh, true, NULL, NULL, pin, &total_len,
                                     &buffer_id, NULL);
}

void
ofconn_packet_recv(struct ofconn *c, const struct ofpbuf *msg)
{
    struct ofputil_packet_in pin;

    /* Every controller's packets come to every connection. */
    if (!decode(msg->data, &pin) || !cookie_is_ours(ntohll(pin.cookie))) {
        return;
    }
    c->stats.n_packet_ins++;
    if (c->n_packet_ins >= OFCONN_MAX_PACKET_INS) {
        c->stats.n_packet_ins_dropped++;
        return;
    }

    size_t last = c->first_packet_in + c->n_packet_ins++;
    c->packet_ins[last % OFCONN_MAX_PACKET_INS] =
        xmemdup(msg->data, msg->size);
}

static void *
pop(struct ofconn *c)
{
    void *msg = c->packet_ins[c->first_packet_in];

    c->first_packet_in = (c->first_packet_in + 1) % OFCONN_MAX_PACKET_INS;
    c->n_packet_ins--;
    return msg;
}

void
ofconn_packet_reset(struct ofconn *c)
{
    while (c->n_packet_ins) {
        free(pop(c));
    }
}

bool
ofconn_pop_packet_in(struct ofconn *c, struct ofputil_packet_in *pin,
                     void **ret_packet)
{
    while (c->n_packet_ins) {
        void *msg = pop(c);

        if (decode(msg, pin)) {
            *ret_packet = msg;
            return true;
        }
        free(msg);
    }
    return false;
}

static void
put_tunnel_dst(struct ofpbuf *ofpacts, const struct in6_addr *dst)
{
    if (IN6_IS_ADDR_V4MAPPED(dst)) {
        ovs_be32 v4 = in6_addr_get_mapped_ipv4(dst);

        ofpact_put_set_field(ofpacts, mf_from_id(MFF_TUN_DST), &v4, NULL);
    } else {
        ofpact_put_set_field(ofpacts, mf_from_id(MFF_TUN_IPV6_DST), dst, NULL);
    }
}

void
ofconn_packet_out(struct ofconn *c, ofp_port_t port,
                  const struct in6_addr *tun_dst, const void *packet,
                  size_t len)
{
    if (!c->rconn || len > MAX_PACKET_OUT) {
        return;
    }

    uint64_t stub[64 / 8];
    struct ofpbuf ofpacts = OFPBUF_STUB_INITIALIZER(stub);

    if (!IN6_IS_ADDR_UNSPECIFIED(tun_dst)) {
        put_tunnel_dst(&ofpacts, tun_dst);
    }
    ofpact_put_OUTPUT(&ofpacts)->port = port;

    struct ofputil_packet_out po = {
        .packet = packet,
        .packet_len = len,
        .buffer_id = UINT32_MAX,
        .ofpacts = ofpacts.data,
        .ofpacts_len = ofpacts.size,
    };
    match_init_catchall(&po.flow_metadata);
    match_set_in_port(&po.flow_metadata, OFPP_CONTROLLER);

    struct ofpbuf *msg = ofputil_encode_packet_out(&po, OFPUTIL_P_OF15_OXM);
    struct ofp_header *oh = msg->data;
    oh->xid = htonl(ofconn_take_xids(c, 1));
    rconn_send_with_limit(c->rconn, msg, c->packet_outs, MAX_PACKET_OUTS);
    ofpbuf_uninit(&ofpacts);
}
