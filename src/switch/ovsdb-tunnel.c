/* SPDX-License-Identifier: Apache-2.0 */
/* The tunnel port: one for all other nodes, since its flows say where a packet
 * goes (options remote_ip and key are "flow").
 *
 * A port of the wanted name is ours to repair if we or Antrea's agent made it:
 * by its mark, or as one that is a tunnel whose flows choose the remote
 * address.  Anything else of that name is left as it is.
 *
 * The switch takes no two tunnel ports with the same remote and local
 * address, key and destination port, and 3.1 forgets a deleted one only after
 * it has tried to add others.  So one of ours or of Antrea's under another
 * name leaves first, in a transaction of its own. */

#include "ovsdb-private.h"

#include <stdio.h>
#include <string.h>

#include <openvswitch/util.h>
#include <util.h>

/* external_ids of a port of Antrea's. */
#define ANTREA_TYPE_KEY "antrea-type"

bool
ovsdb_port_is_made(const struct ovsrec_port *port)
{
    return smap_get_bool(&port->external_ids, OVSDB_MADE_KEY, false);
}

bool
ovsdb_port_is_antrea_tunnel(const struct ovsrec_port *port)
{
    return nullable_string_is_equal(smap_get(&port->external_ids,
                                             ANTREA_TYPE_KEY),
                                    "tunnel");
}

/* What the options have to be.  Those that aren't named here are tuning (ttl,
 * tos, df_default) and anybody's. */
static void
wanted_options(const struct ovsdb_repair *r, struct smap *options)
{
    /* These would restrict the port to some packets, or encrypt. */
    static const char *const unwanted[] = { "local_ip", "in_key", "out_key",
                                            "remote_name", "psk" };

    for (size_t i = 0; i < ARRAY_SIZE(unwanted); i++) {
        smap_remove(options, unwanted[i]);
    }
    smap_replace(options, "remote_ip", "flow");
    smap_replace(options, "key", "flow");
    smap_remove(options, "csum");
    if (r->tunnel_csum) {
        smap_add(options, "csum", "true");
    }
    smap_remove(options, "dst_port");
    if (r->tunnel_port && strcmp(r->tunnel_type, "gre")) {
        smap_add_format(options, "dst_port", "%u", r->tunnel_port);
    }
}

struct ovsrec_port *
ovsdb_tunnel_insert(struct ovsdb_repair *r)
{
    const struct smap made = SMAP_CONST1(&made, OVSDB_MADE_KEY, "true");
    struct ovsrec_interface *iface = ovsrec_interface_insert(r->txn);
    struct ovsrec_port *port = ovsrec_port_insert(r->txn);
    struct smap options = SMAP_INITIALIZER(&options);
    int64_t ofport = r->tunnel_ofport;

    wanted_options(r, &options);
    ovsrec_interface_set_name(iface, r->tunnel);
    ovsrec_interface_set_type(iface, r->tunnel_type);
    ovsrec_interface_set_options(iface, &options);
    if (ofport) {
        ovsrec_interface_set_ofport_request(iface, &ofport, 1);
    }
    smap_destroy(&options);

    ovsrec_port_set_name(port, r->tunnel);
    ovsrec_port_set_interfaces(port, &iface, 1);
    ovsrec_port_set_external_ids(port, &made);
    ovsdb_repair_did(r, "made port %s of type %s", r->tunnel, r->tunnel_type);
    return port;
}

/* Ports that aren't wanted. */

static bool
is_wanted(const struct ovsdb_repair *r, const char *name)
{
    return !strcmp(name, r->bridge) || !strcmp(name, r->gateway)
           || (r->tunnel && !strcmp(name, r->tunnel));
}

/* True if the port and the wanted one can't both be: of one type, and so
 * perhaps of one destination port. */
static bool
is_in_the_way(const struct ovsdb_repair *r, const struct ovsrec_port *port)
{
    return r->tunnel && port->n_interfaces == 1
           && !strcmp(port->interfaces[0]->type, r->tunnel_type);
}

/* Returns true if the way is not free yet. */
static bool
remove_unwanted(struct ovsdb_repair *r, const struct ovsrec_bridge *bridge)
{
    bool wait = false;

    for (size_t i = 0; i < bridge->n_ports; i++) {
        const struct ovsrec_port *port = bridge->ports[i];

        if (!is_wanted(r, port->name)
            && (ovsdb_port_is_made(port) || ovsdb_port_is_antrea_tunnel(port))
            && (r->filled || is_in_the_way(r, port))) {
            wait |= is_in_the_way(r, port);
            ovsrec_bridge_update_ports_delvalue(bridge, port);
            ovsdb_repair_did(r,
                             "removed port %s, which is not wanted any "
                             "more",
                             port->name);
        }
    }
    return wait;
}

/* The port that is wanted. */

/* Older versions of Antrea's agent mark nothing. */
static bool
is_tunnel_by_flow(const struct ovsrec_interface *iface)
{
    static const char *const types[] = { "geneve", "vxlan", "gre", "stt" };

    for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
        if (!strcmp(iface->type, types[i])) {
            return nullable_string_is_equal(smap_get(&iface->options,
                                                     "remote_ip"),
                                            "flow");
        }
    }
    return false;
}

static void
repair_iface(struct ovsdb_repair *r, const struct ovsrec_interface *iface)
{
    struct smap options;

    if (strcmp(iface->type, r->tunnel_type)) {
        ovsdb_repair_did(r, "changed the type of port %s from \"%s\" to %s",
                         r->tunnel, iface->type, r->tunnel_type);
        ovsrec_interface_set_type(iface, r->tunnel_type);
    }
    smap_clone(&options, &iface->options);
    wanted_options(r, &options);
    if (!smap_equal(&options, &iface->options)) {
        ovsrec_interface_set_options(iface, &options);
        ovsdb_repair_did(r, "set the options of port %s", r->tunnel);
    }
    smap_destroy(&options);
}

static void
repair_wanted(struct ovsdb_repair *r, const struct ovsrec_bridge *bridge)
{
    const struct ovsrec_interface *iface = ovsdb_find_iface(bridge, r->tunnel);
    const struct ovsrec_port *port = ovsdb_find_port(bridge, r->tunnel);

    if (iface && port && port->n_interfaces == 1
        && port->interfaces[0] == iface
        && (ovsdb_port_is_made(port) || ovsdb_port_is_antrea_tunnel(port)
            || is_tunnel_by_flow(iface))) {
        repair_iface(r, iface);
    } else {
        ovsdb_named_add(r->named,
                        "port \"%s\" of bridge \"%s\" is of type \"%s\" and "
                        "was not made by ofproxyd or Antrea; it is left as it "
                        "is, and there is no tunnel to other nodes",
                        r->tunnel, r->bridge, iface ? iface->type : "");
    }
}

void
ovsdb_tunnel_repair(struct ovsdb_repair *r, const struct ovsdb_idl *idl,
                    const struct ovsrec_bridge *bridge)
{
    if (remove_unwanted(r, bridge) || !r->tunnel) {
        return;
    }
    if (ovsdb_find_iface(bridge, r->tunnel)
        || ovsdb_find_port(bridge, r->tunnel)) {
        repair_wanted(r, bridge);
    } else if (ovsdb_name_is_free(r, idl, bridge, r->tunnel)) {
        ovsrec_bridge_update_ports_addvalue(bridge, ovsdb_tunnel_insert(r));
    }
}
