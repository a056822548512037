/* SPDX-License-Identifier: Apache-2.0 */
/* JSON of a discovery.k8s.io/v1 EndpointSlice: ports and endpoints. */

#include "decode-part.h"

#include <string.h>

#include <util.h>

struct slice_reader {
    struct slice *slice;

    /* The endpoint that is being read. */
    struct slice_endpoint *ep;
    bool has_address;
    const char *zones[DECODE_HINTS_MAX], *nodes[DECODE_HINTS_MAX];
};

/* Ports. */

struct port_reader {
    const char *name;
    enum proto proto;
    uint16_t port; /* 0 if absent. */
};

static void
read_port_name(struct jcur *c, void *port_)
{
    struct port_reader *port = port_;

    port->name = jcur_text(c, DECODE_NAME_MAX);
}

static void
read_port_proto(struct jcur *c, void *port_)
{
    struct port_reader *port = port_;

    port->proto = decode_proto(c);
}

static void
read_port_port(struct jcur *c, void *port_)
{
    struct port_reader *port = port_;

    port->port = jcur_int(c, 0, UINT16_MAX, 0);
}

static void
read_port(struct jcur *c, void *slice_)
{
    static const struct jcur_member members[] = {
        JCUR_MEMBER("name", read_port_name),
        JCUR_MEMBER("protocol", read_port_proto),
        JCUR_MEMBER("port", read_port_port),
    };
    struct port_reader port = { .name = "", .proto = PROTO_TCP };
    struct slice *slice = slice_;

    jcur_object(c, members, ARRAY_SIZE(members), &port);
    if (port.port) {
        slice->ports =
            decode_room(c, slice->ports, slice->n_ports, sizeof *slice->ports);
        slice->ports[slice->n_ports++] = (struct slice_port){
            .name = port.name,
            .proto = port.proto,
            .port = port.port,
        };
    }
}

/* Endpoints. */

static void
read_address(struct jcur *c, void *reader_)
{
    struct slice_reader *r = reader_;

    /* The others are the same endpoint's and may not be relied on. */
    if (jcur_index(c)) {
        jcur_skip(c);
    } else {
        decode_ip(c, &r->slice->family, &r->ep->ip);
        r->has_address = true;
    }
}

static void
read_addresses(struct jcur *c, void *reader_)
{
    struct slice_reader *r = reader_;

    r->has_address = false;
    jcur_array(c, DECODE_ADDRESSES_MAX, read_address, r);
}

static void
read_node_name(struct jcur *c, void *reader_)
{
    struct slice_reader *r = reader_;
    const char *name = jcur_text(c, DECODE_NAME_MAX);

    r->ep->node = name[0] ? name : NULL;
}

static void
read_ready(struct jcur *c, void *reader_)
{
    struct slice_reader *r = reader_;

    r->ep->ready = jcur_bool(c, true);
}

static void
read_serving(struct jcur *c, void *reader_)
{
    struct slice_reader *r = reader_;

    r->ep->serving = jcur_bool(c, true);
}

static void
read_terminating(struct jcur *c, void *reader_)
{
    struct slice_reader *r = reader_;

    r->ep->terminating = jcur_bool(c, false);
}

static void
read_conditions(struct jcur *c, void *reader_)
{
    static const struct jcur_member members[] = {
        JCUR_MEMBER("ready", read_ready),
        JCUR_MEMBER("serving", read_serving),
        JCUR_MEMBER("terminating", read_terminating),
    };
    struct slice_reader *r = reader_;

    r->ep->ready = true;
    r->ep->serving = true;
    r->ep->terminating = false;
    jcur_object(c, members, ARRAY_SIZE(members), r);
}

/* Hints. */

static void
read_hint_name(struct jcur *c, void *name_)
{
    const char **name = name_;

    *name = jcur_text(c, DECODE_NAME_MAX);
}

/* Reads a hint, which is an object, and returns its name. */
static const char *
read_hint(struct jcur *c)
{
    static const struct jcur_member members[] = {
        JCUR_MEMBER("name", read_hint_name),
    };
    const char *name = "";

    jcur_object(c, members, ARRAY_SIZE(members), &name);
    return name;
}

static void
read_zone(struct jcur *c, void *reader_)
{
    struct slice_reader *r = reader_;
    const char *name = read_hint(c);

    if (name[0]) {
        r->zones[r->ep->n_zones++] = name;
    }
}

static void
read_zones(struct jcur *c, void *reader_)
{
    struct slice_reader *r = reader_;

    r->ep->n_zones = 0;
    jcur_array(c, DECODE_HINTS_MAX, read_zone, r);
}

static void
read_node(struct jcur *c, void *reader_)
{
    struct slice_reader *r = reader_;
    const char *name = read_hint(c);

    if (name[0]) {
        r->nodes[r->ep->n_hint_nodes++] = name;
    }
}

static void
read_nodes(struct jcur *c, void *reader_)
{
    struct slice_reader *r = reader_;

    r->ep->n_hint_nodes = 0;
    jcur_array(c, DECODE_HINTS_MAX, read_node, r);
}

static void
read_hints(struct jcur *c, void *reader_)
{
    static const struct jcur_member members[] = {
        JCUR_MEMBER("forZones", read_zones),
        JCUR_MEMBER("forNodes", read_nodes),
    };
    struct slice_reader *r = reader_;

    r->ep->n_zones = 0;
    r->ep->n_hint_nodes = 0;
    jcur_object(c, members, ARRAY_SIZE(members), r);
}

static const char **
keep_names(struct jcur *c, const char *const names[], size_t n)
{
    const char **ret = NULL;

    if (n) {
        ret = jcur_alloc(c, n * sizeof *ret);
        memcpy(ret, names, n * sizeof *ret);
    }
    return ret;
}

static void
read_endpoint(struct jcur *c, void *reader_)
{
    static const struct jcur_member members[] = {
        JCUR_MEMBER("addresses", read_addresses),
        JCUR_MEMBER("conditions", read_conditions),
        JCUR_MEMBER("nodeName", read_node_name),
        JCUR_MEMBER("hints", read_hints),
    };
    struct slice_reader *r = reader_;
    struct slice *slice = r->slice;

    slice->endpoints = decode_room(c, slice->endpoints, slice->n_endpoints,
                                   sizeof *slice->endpoints);
    r->ep = &slice->endpoints[slice->n_endpoints];
    *r->ep = (struct slice_endpoint){ .ready = true, .serving = true };
    r->has_address = false;
    jcur_object(c, members, ARRAY_SIZE(members), r);
    if (r->has_address) {
        r->ep->zones = keep_names(c, r->zones, r->ep->n_zones);
        r->ep->hint_nodes = keep_names(c, r->nodes, r->ep->n_hint_nodes);
        slice->n_endpoints++;
    }
}

/* Only a metric is made of it, so what is wrong in it doesn't matter. */
static int64_t
read_trigger(struct jstr s)
{
    char text[64];
    int64_t ns = 0;

    if (s.n < sizeof text) {
        memcpy(text, s.s, s.n);
        text[s.n] = '\0';
        if (!decode_time_ns(text, &ns)) {
            ns = 0;
        }
    }
    return MAX(ns, 0);
}

bool
decode_slice(struct decode_doc *doc, struct slice *ret)
{
    static const char *const types[] = {
        [IP_V4] = "IPv4",
        [IP_V6] = "IPv6",
        [N_IP_FAMILIES] = "FQDN",
    };
    struct slice_reader r = { .slice = ret };
    int type;

    *ret = (struct slice){
        .meta = doc->meta.meta,
        .service = doc->meta.service_name,
        .trigger_ns = read_trigger(doc->meta.trigger),
    };
    if (!ret->service[0]) {
        return false;
    }

    type = -1;
    if (decode_goto(doc, PART_ADDRESS_TYPE)) {
        type = decode_choice(doc->c, types, ARRAY_SIZE(types), -1);
    }
    if (type < 0) {
        jcur_fail(doc->c, "is missing");
    } else if (type == N_IP_FAMILIES) {
        return false;
    }
    ret->family = type == IP_V6 ? IP_V6 : IP_V4;
    if (decode_goto(doc, PART_ENDPOINTS)) {
        jcur_array(doc->c, DECODE_ENDPOINTS_MAX, read_endpoint, &r);
    }
    if (decode_goto(doc, PART_PORTS)) {
        jcur_array(doc->c, DECODE_PORTS_MAX, read_port, ret);
    }
    return true;
}
