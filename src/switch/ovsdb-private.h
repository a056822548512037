/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SWITCH_OVSDB_PRIVATE_H
#define SWITCH_OVSDB_PRIVATE_H 1

/* What the parts of ovsdb.c share: ovsdb.c keeps the connection, the one
 * transaction and the snapshot; ovsdb-repair.c writes what is missing, with
 * ovsdb-tunnel.c for the tunnel port and ovsdb-gateway.c for a gateway port
 * that has lost its link; ovsdb-pods.c reads the pods. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <openvswitch/dynamic-string.h>
#include <openvswitch/shash.h>
#include <vswitch-idl.h>

#include "ofproxyd/switch/ovsdb.h"

/* Messages that are logged when they come up and not again while they hold:
 * each pass names all that it finds, and what the pass before also named
 * stays silent. */
struct ovsdb_named {
    struct shash now;    /* Of the pass that runs, or the last one. */
    struct shash before; /* Of the pass before it. */
};

void ovsdb_named_init(struct ovsdb_named *);
void ovsdb_named_uninit(struct ovsdb_named *);

/* Begins a pass. */
void ovsdb_named_begin(struct ovsdb_named *);

/* Names something that a person should know.  The arguments may be anybody's
 * data: the text is bounded and printable. */
void ovsdb_named_add(struct ovsdb_named *, const char *format, ...)
    OVS_PRINTF_FORMAT(2, 3);

/* Ends a pass: logs what is new. */
void ovsdb_named_end(struct ovsdb_named *);

/* external_ids of bridges and ports that the daemon made, and of the bridge
 * that it works on. */
#define OVSDB_MADE_KEY   "ofproxyd-made"
#define OVSDB_LAYOUT_KEY "ofproxyd-layout"
#define OVSDB_WAS_KEY    "ofproxyd-replaced-antrea-round" /* Of its agent. */

/* A pass of ovsdb_repair(): what is wanted and what it works on. */
struct ovsdb_repair {
    /* In. */
    const char *bridge;
    const char *datapath_type;
    const char *gateway;
    uint16_t gateway_ofport;
    struct eth_addr gateway_mac; /* For a new gateway; zero: a random one. */
    uint16_t gateway_mtu;        /* 0: any. */
    bool gateway_lost;           /* It is to be opened anew if it is dead. */
    const char *tunnel;          /* As in struct ovsdb_cfg. */
    const char *tunnel_type;
    uint16_t tunnel_port;
    bool tunnel_csum;
    uint16_t tunnel_ofport;
    const struct ovsdb_table_name *tables;
    size_t n_tables;
    int layout;
    bool filled; /* The switch need not wait for flows any more. */
    enum ovsdb_hold hold;
    int replaced; /* See ovsdb_set_replaced(); -1: nothing. */
    struct ovsdb_idl_txn *txn;
    struct ovsdb_named *named;

    /* Out. */
    struct ds done;      /* What was written, in words; empty if nothing. */
    bool gateway_closed; /* The gateway port is taken out of the switch, */
    bool gateway_opened; /* or put in again. */
};

/* Writes into 'r->txn' what the database lacks. */
void ovsdb_repair(struct ovsdb_repair *r, const struct ovsdb_idl *);

/* Says what was written. */
void ovsdb_repair_did(struct ovsdb_repair *r, const char *format, ...)
    OVS_PRINTF_FORMAT(2, 3);

/* True if nothing has the name of a port yet.  Otherwise the reason why there
 * is nothing to make is named, unless 'bridge', which may be NULL, has it. */
bool ovsdb_name_is_free(struct ovsdb_repair *, const struct ovsdb_idl *,
                        const struct ovsrec_bridge *bridge, const char *name);

/* The gateway port's link. */

/* True if the switch has the port, but does not find its link. */
bool ovsdb_gateway_is_dead(const struct ovsrec_bridge *,
                           const struct ovsrec_interface *);

/* True while the port is out of the switch, by ovsdb_gateway_reopen(). */
bool ovsdb_gateway_is_closed(const struct ovsrec_interface *);

/* Goes on with opening a dead gateway port anew: with the first step if
 * 'r->gateway_lost', with the second one in any case. */
void ovsdb_gateway_reopen(struct ovsdb_repair *r,
                          const struct ovsrec_bridge *bridge);

/* The tunnel port; each function does nothing if none is wanted. */

/* Makes the port.  The caller adds it to a bridge. */
struct ovsrec_port *ovsdb_tunnel_insert(struct ovsdb_repair *);

/* Makes or repairs the port on 'bridge', and takes away ports of ours that
 * aren't wanted any more. */
void ovsdb_tunnel_repair(struct ovsdb_repair *, const struct ovsdb_idl *,
                         const struct ovsrec_bridge *bridge);

/* All -1 if 'bridge' is NULL. */
struct ovsdb_history ovsdb_read_history(const struct ovsrec_bridge *bridge);

/* True if the switch forwards nothing until it is told to. */
bool ovsdb_waits_for_flows(const struct ovsrec_open_vswitch *);

/* True if the table has the limit, with eviction of what expires next. */
bool ovsdb_table_is_limited(const struct ovsrec_flow_table *, uint32_t limit);

/* Look-ups; NULL if there is none. */
const struct ovsrec_bridge *ovsdb_find_bridge(const struct ovsdb_idl *,
                                              const char *name);

/* The interface 'name' on 'bridge'. */
const struct ovsrec_interface *ovsdb_find_iface(
    const struct ovsrec_bridge *bridge, const char *name);

/* The port 'name' on 'bridge'. */
const struct ovsrec_port *ovsdb_find_port(const struct ovsrec_bridge *bridge,
                                          const char *name);

/* True if the daemon made the bridge. */
bool ovsdb_bridge_is_made(const struct ovsrec_bridge *);

/* True if the daemon made the port. */
bool ovsdb_port_is_made(const struct ovsrec_port *);

/* True for the tunnel port of Antrea's agent. */
bool ovsdb_port_is_antrea_tunnel(const struct ovsrec_port *);

/* The port number that the switch gave, or 0 if none (yet). */
uint16_t ovsdb_iface_ofport(const struct ovsrec_interface *);

/* Parses "aa:bb:cc:dd:ee:ff". */
bool ovsdb_parse_mac(const char *s, struct eth_addr *ret);

/* Writes 'mac' as the address that the interface is to have. */
void ovsdb_iface_set_mac(const struct ovsrec_interface *,
                         const struct eth_addr *mac);

/* True if 'mac' is neither zero nor a multicast address. */
bool ovsdb_mac_is_unicast(const struct eth_addr *mac);

/* Reads the pods on 'bridge', which may be NULL, sorted by interface name.
 * The caller owns '*ret', which it frees with ovsdb_pods_free(). */
size_t ovsdb_pods_read(const struct ovsrec_bridge *bridge,
                       struct ovsdb_named *, struct ovsdb_pod **ret);
void ovsdb_pods_free(struct ovsdb_pod *, size_t n);
bool ovsdb_pods_equal(const struct ovsdb_pod *, size_t n,
                      const struct ovsdb_pod *, size_t n2);

#endif /* switch/ovsdb-private.h */
