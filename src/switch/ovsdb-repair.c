/* SPDX-License-Identifier: Apache-2.0 */
/* Compares the bridge, the gateway port and the tables' names and limits with
 * what is wanted and writes the difference.
 *
 * What exists is adopted: a value is only written if it is wrong, and only
 * the values that the daemon depends on.  What the daemon makes is marked in
 * external_ids, so that a clean-up can tell it from what it found.
 *
 * Sets that others write too (a bridge's ports, a switch's bridges) are
 * changed by mutations, which don't conflict with theirs. */

#include "ovsdb-private.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <openvswitch/util.h>
#include <util.h>

/* Round numbers of Antrea's agent. */
#define ANTREA_KEY "roundNum"

/* Flow_Table's overflow_policy. */
#define EVICT "evict"

/* What the OpenFlow connection needs. */
#define PROTOCOL "OpenFlow15"

/* other_config of the switch. */
#define RESTORE_WAIT_KEY "flow-restore-wait"

const struct ovsrec_bridge *
ovsdb_find_bridge(const struct ovsdb_idl *idl, const char *name)
{
    const struct ovsrec_bridge *bridge;

    OVSREC_BRIDGE_FOR_EACH(bridge, idl)
    {
        if (!strcmp(bridge->name, name)) {
            return bridge;
        }
    }
    return NULL;
}

const struct ovsrec_interface *
ovsdb_find_iface(const struct ovsrec_bridge *bridge, const char *name)
{
    for (size_t i = 0; i < bridge->n_ports; i++) {
        const struct ovsrec_port *port = bridge->ports[i];

        for (size_t j = 0; j < port->n_interfaces; j++) {
            if (!strcmp(port->interfaces[j]->name, name)) {
                return port->interfaces[j];
            }
        }
    }
    return NULL;
}

bool
ovsdb_bridge_is_made(const struct ovsrec_bridge *bridge)
{
    return smap_get_bool(&bridge->external_ids, OVSDB_MADE_KEY, false);
}

uint16_t
ovsdb_iface_ofport(const struct ovsrec_interface *iface)
{
    return iface->n_ofport && iface->ofport[0] > 0
                   && iface->ofport[0] <= UINT16_MAX
               ? iface->ofport[0]
               : 0;
}

const struct ovsrec_port *
ovsdb_find_port(const struct ovsrec_bridge *bridge, const char *name)
{
    for (size_t i = 0; i < bridge->n_ports; i++) {
        if (!strcmp(bridge->ports[i]->name, name)) {
            return bridge->ports[i];
        }
    }
    return NULL;
}

/* Returns the bridge with a port or an interface 'name', or NULL: names of
 * both are unique in the whole database. */
static const struct ovsrec_bridge *
find_holder(const struct ovsdb_idl *idl, const char *name)
{
    const struct ovsrec_bridge *bridge;

    OVSREC_BRIDGE_FOR_EACH(bridge, idl)
    {
        if (ovsdb_find_port(bridge, name) || ovsdb_find_iface(bridge, name)) {
            return bridge;
        }
    }
    return NULL;
}

bool
ovsdb_name_is_free(struct ovsdb_repair *r, const struct ovsdb_idl *idl,
                   const struct ovsrec_bridge *bridge, const char *name)
{
    if (bridge && ovsdb_find_iface(bridge, name)) {
        return false;
    }

    const struct ovsrec_bridge *holder = find_holder(idl, name);
    if (holder) {
        ovsdb_named_add(r->named,
                        "port \"%s\" can't be added to bridge \"%s\": bridge "
                        "\"%s\" has a port of that name, which is left as it "
                        "is",
                        name, r->bridge, holder->name);
    }
    return !holder;
}

void
ovsdb_repair_did(struct ovsdb_repair *r, const char *format, ...)
{
    va_list args;

    if (r->done.length) {
        ds_put_cstr(&r->done, ", ");
    }
    va_start(args, format);
    ds_put_format_valist(&r->done, format, args);
    va_end(args);
}

static struct ovsrec_port *
insert_internal_port(struct ovsdb_repair *r, const char *name,
                     struct ovsrec_interface **ret_iface)
{
    struct ovsrec_interface *iface = ovsrec_interface_insert(r->txn);
    struct ovsrec_port *port = ovsrec_port_insert(r->txn);

    ovsrec_interface_set_name(iface, name);
    ovsrec_interface_set_type(iface, "internal");
    ovsrec_port_set_name(port, name);
    ovsrec_port_set_interfaces(port, &iface, 1);
    *ret_iface = iface;
    return port;
}

void
ovsdb_iface_set_mac(const struct ovsrec_interface *iface,
                    const struct eth_addr *mac)
{
    const uint8_t *ea = mac->ea;
    char s[sizeof "aa:bb:cc:dd:ee:ff"];

    snprintf(s, sizeof s, "%02x:%02x:%02x:%02x:%02x:%02x", ea[0], ea[1], ea[2],
             ea[3], ea[4], ea[5]);
    ovsrec_interface_set_mac(iface, s);
}

/* The address stands in the database, so that the port keeps it when the
 * switch restarts. */
static void
set_gateway_mac(struct ovsdb_repair *r, struct ovsrec_interface *iface)
{
    static const struct eth_addr none;
    struct eth_addr mac = r->gateway_mac;

    if (!memcmp(&mac, &none, sizeof mac)) {
        if (getrandom(&mac, sizeof mac, GRND_NONBLOCK) != sizeof mac) {
            return; /* The switch will choose one. */
        }
        mac.ea[0] = (mac.ea[0] & ~1) | 2; /* Unicast, locally administered. */
    }

    ovsdb_iface_set_mac(iface, &mac);
}

/* Returns false if there is nothing to change. */
static bool
set_mtu(const struct ovsdb_repair *r, const struct ovsrec_interface *iface)
{
    int64_t mtu = r->gateway_mtu;

    if (!mtu || (iface->n_mtu_request && *iface->mtu_request == mtu)) {
        return false;
    }
    ovsrec_interface_set_mtu_request(iface, &mtu, 1);
    return true;
}

static struct ovsrec_port *
insert_gateway(struct ovsdb_repair *r)
{
    const struct smap made = SMAP_CONST1(&made, OVSDB_MADE_KEY, "true");
    int64_t ofport = r->gateway_ofport;
    struct ovsrec_interface *iface;
    struct ovsrec_port *port = insert_internal_port(r, r->gateway, &iface);

    set_gateway_mac(r, iface);
    set_mtu(r, iface);
    if (ofport) {
        ovsrec_interface_set_ofport_request(iface, &ofport, 1);
    }
    ovsrec_port_set_external_ids(port, &made);
    ovsdb_repair_did(r, "made port %s", r->gateway);
    return port;
}

/* The table names. */

/* True if another table than 'id' of 'bridge' uses 'row' too: to rename it
 * would rename both. */
static bool
row_is_shared(const struct ovsdb_idl *idl, const struct ovsrec_bridge *bridge,
              int64_t id, const struct ovsrec_flow_table *row)
{
    const struct ovsrec_bridge *b;

    OVSREC_BRIDGE_FOR_EACH(b, idl)
    {
        for (size_t i = 0; i < b->n_flow_tables; i++) {
            if (b->value_flow_tables[i] == row
                && (b != bridge || b->key_flow_tables[i] != id)) {
                return true;
            }
        }
    }
    return false;
}

static const struct ovsdb_table_name *
table_by_id(const struct ovsdb_repair *r, int64_t id)
{
    for (size_t i = 0; i < r->n_tables; i++) {
        if (r->tables[i].id == id) {
            return &r->tables[i];
        }
    }
    return NULL;
}

/* The name that the table 'id', now called 'name' or NULL, should have.  A
 * table that isn't ours keeps its name, unless it is one of ours: names that
 * stand for two tables are used for neither. */
static const char *
wanted_name(const struct ovsdb_repair *r, int64_t id, const char *name)
{
    const struct ovsdb_table_name *ours = table_by_id(r, id);

    if (ours) {
        return ours->name;
    }
    for (size_t i = 0; name && i < r->n_tables; i++) {
        if (!strcmp(r->tables[i].name, name)) {
            return NULL;
        }
    }
    return name;
}

/* The limit that the table 'id' should have, or 0. */
static uint32_t
wanted_limit(const struct ovsdb_repair *r, int64_t id)
{
    const struct ovsdb_table_name *ours = table_by_id(r, id);

    return ours ? ours->flow_limit : 0;
}

bool
ovsdb_table_is_limited(const struct ovsrec_flow_table *row, uint32_t limit)
{
    return row->n_flow_limit && *row->flow_limit == limit
           && nullable_string_is_equal(row->overflow_policy, EVICT);
}

static void
set_limit(const struct ovsrec_flow_table *row, uint32_t limit)
{
    int64_t value = limit;

    if (limit) {
        ovsrec_flow_table_set_flow_limit(row, &value, 1);
        ovsrec_flow_table_set_overflow_policy(row, EVICT);
    }
}

static struct ovsrec_flow_table *
insert_table(struct ovsdb_repair *r, const char *name, uint32_t limit)
{
    struct ovsrec_flow_table *row = ovsrec_flow_table_insert(r->txn);

    ovsrec_flow_table_set_name(row, name);
    set_limit(row, limit);
    return row;
}

/* The tables of a bridge, as they should be. */
struct table_map {
    int64_t *ids;
    struct ovsrec_flow_table **rows;
    size_t n;
    size_t n_renamed, n_limited;
    bool changed; /* The map, not only names in its rows. */
};

static void
repair_row(struct ovsdb_repair *r, const struct ovsrec_bridge *bridge,
           const struct ovsdb_idl *idl, struct table_map *map, size_t i)
{
    int64_t id = map->ids[i];
    struct ovsrec_flow_table *row = map->rows[i];
    const char *want = wanted_name(r, id, row->name);
    uint32_t limit = wanted_limit(r, id);
    bool rename = !nullable_string_is_equal(want, row->name);
    bool set = limit && !ovsdb_table_is_limited(row, limit);

    map->n_renamed += rename;
    map->n_limited += set;
    if ((rename || set) && row_is_shared(idl, bridge, id, row)) {
        map->rows[i] = insert_table(r, want, limit);
        map->changed = true;
        return;
    }
    if (rename) {
        ovsrec_flow_table_set_name(row, want);
    }
    if (set) {
        set_limit(row, limit);
    }
}

/* 'bridge' may have been inserted in this transaction. */
static void
repair_tables(struct ovsdb_repair *r, const struct ovsrec_bridge *bridge,
              const struct ovsdb_idl *idl, bool is_new)
{
    size_t n_old = is_new ? 0 : bridge->n_flow_tables;
    size_t n_max = n_old + r->n_tables;
    struct table_map map = {
        .ids = xmalloc(MAX(n_max, 1) * sizeof *map.ids),
        .rows = xmalloc(MAX(n_max, 1) * sizeof *map.rows),
        .n = n_old,
    };
    bool seen[UINT8_MAX + 1] = { false };

    for (size_t i = 0; i < n_old; i++) {
        int64_t id = bridge->key_flow_tables[i];

        map.ids[i] = id;
        map.rows[i] = bridge->value_flow_tables[i];
        seen[id & UINT8_MAX] = true; /* The schema allows 0 to 254. */
        repair_row(r, bridge, idl, &map, i);
    }
    for (size_t i = 0; i < r->n_tables; i++) {
        if (!seen[r->tables[i].id]) {
            map.ids[map.n] = r->tables[i].id;
            map.rows[map.n++] =
                insert_table(r, r->tables[i].name, r->tables[i].flow_limit);
            map.n_renamed++;
            map.changed = true;
        }
    }
    if (map.changed) {
        if (!is_new) {
            ovsrec_bridge_verify_flow_tables(bridge);
        }
        ovsrec_bridge_set_flow_tables(bridge, map.ids, map.rows, map.n);
    }
    if (map.n_renamed) {
        ovsdb_repair_did(r, "named %" PRIuSIZE " tables", map.n_renamed);
    }
    if (map.n_limited) {
        ovsdb_repair_did(r, "limited %" PRIuSIZE " tables", map.n_limited);
    }
    free(map.ids);
    free(map.rows);
}

/* The bridge. */

static void
insert_bridge(struct ovsdb_repair *r, const struct ovsdb_idl *idl,
              const struct ovsrec_open_vswitch *ovs)
{
    if (!ovsdb_name_is_free(r, idl, NULL, r->bridge)) {
        return;
    }
    ovsdb_repair_did(r, "made bridge %s", r->bridge);

    struct ovsrec_bridge *bridge = ovsrec_bridge_insert(r->txn);
    struct ovsrec_interface *local;
    struct ovsrec_port *ports[3];
    size_t n_ports = 0;

    ports[n_ports++] = insert_internal_port(r, r->bridge, &local);
    if (strcmp(r->gateway, r->bridge)
        && ovsdb_name_is_free(r, idl, NULL, r->gateway)) {
        ports[n_ports++] = insert_gateway(r);
    }
    if (r->tunnel && ovsdb_name_is_free(r, idl, NULL, r->tunnel)) {
        ports[n_ports++] = ovsdb_tunnel_insert(r);
    }

    struct smap ids = SMAP_INITIALIZER(&ids);
    smap_add(&ids, OVSDB_MADE_KEY, "true");
    smap_add_format(&ids, OVSDB_LAYOUT_KEY, "%d", r->layout);

    ovsrec_bridge_set_name(bridge, r->bridge);
    ovsrec_bridge_set_datapath_type(bridge, r->datapath_type);
    ovsrec_bridge_set_fail_mode(bridge, "secure");
    ovsrec_bridge_set_external_ids(bridge, &ids);
    ovsrec_bridge_set_ports(bridge, ports, n_ports);
    smap_destroy(&ids);

    repair_tables(r, bridge, idl, true);
    ovsrec_open_vswitch_update_bridges_addvalue(ovs, bridge);
}

/* "" is the database's default and means "system". */
static const char *
datapath_name(const char *type)
{
    return type[0] ? type : "system";
}

static void
repair_ports(struct ovsdb_repair *r, const struct ovsdb_idl *idl,
             const struct ovsrec_bridge *bridge)
{
    if (ovsdb_name_is_free(r, idl, bridge, r->bridge)) {
        struct ovsrec_interface *local;

        ovsrec_bridge_update_ports_addvalue(bridge,
                                            insert_internal_port(r, r->bridge,
                                                                 &local));
        ovsdb_repair_did(r, "made port %s", r->bridge);
    }
    if (strcmp(r->gateway, r->bridge)
        && ovsdb_name_is_free(r, idl, bridge, r->gateway)) {
        ovsrec_bridge_update_ports_addvalue(bridge, insert_gateway(r));
    }

    const struct ovsrec_interface *gateway =
        ovsdb_find_iface(bridge, r->gateway);
    if (gateway && set_mtu(r, gateway)) {
        ovsdb_repair_did(r, "set the MTU of port %s to %u", r->gateway,
                         r->gateway_mtu);
    }
    ovsdb_gateway_reopen(r, bridge);
    ovsdb_tunnel_repair(r, idl, bridge);
}

/* An empty set means all versions. */
static bool
speaks_protocol(const struct ovsrec_bridge *bridge)
{
    for (size_t i = 0; i < bridge->n_protocols; i++) {
        if (!strcmp(bridge->protocols[i], PROTOCOL)) {
            return true;
        }
    }
    return !bridge->n_protocols;
}

static bool
is_secure(const struct ovsrec_bridge *bridge)
{
    return nullable_string_is_equal(bridge->fail_mode, "secure");
}

/* The number under 'key', or -1 if there is none of 16 bits. */
static int
read_number(const struct ovsrec_bridge *bridge, const char *key)
{
    int value = smap_get_int(&bridge->external_ids, key, -1);

    return value >= 0 && value <= UINT16_MAX ? value : -1;
}

struct ovsdb_history
ovsdb_read_history(const struct ovsrec_bridge *bridge)
{
    return (struct ovsdb_history){
        .layout = bridge ? read_number(bridge, OVSDB_LAYOUT_KEY) : -1,
        .antrea = bridge ? read_number(bridge, ANTREA_KEY) : -1,
        .antrea_was = bridge ? read_number(bridge, OVSDB_WAS_KEY) : -1,
        .secure = bridge && is_secure(bridge),
    };
}

static void
set_external_id(const struct ovsrec_bridge *bridge, const char *key, int value)
{
    char s[16];

    snprintf(s, sizeof s, "%d", value);
    ovsrec_bridge_update_external_ids_setkey(bridge, key, s);
}

static void
repair_history(struct ovsdb_repair *r, const struct ovsrec_bridge *bridge)
{
    struct ovsdb_history h = ovsdb_read_history(bridge);

    if (h.layout != r->layout) {
        set_external_id(bridge, OVSDB_LAYOUT_KEY, r->layout);
        ovsdb_repair_did(r, "set external_ids:" OVSDB_LAYOUT_KEY);
    }
    if (h.antrea >= 0 && h.antrea == r->replaced) {
        ovsrec_bridge_update_external_ids_delkey(bridge, ANTREA_KEY);
        set_external_id(bridge, OVSDB_WAS_KEY, h.antrea);
        ovsdb_repair_did(r, "removed external_ids:" ANTREA_KEY "=%d",
                         h.antrea);
    }
}

static void
repair_bridge(struct ovsdb_repair *r, const struct ovsdb_idl *idl,
              const struct ovsrec_bridge *bridge)
{
    if (strcmp(datapath_name(bridge->datapath_type),
               datapath_name(r->datapath_type))) {
        ovsdb_named_add(r->named,
                        "bridge \"%s\" has datapath_type \"%s\" and not "
                        "\"%s\"; it is left as it is",
                        r->bridge, datapath_name(bridge->datapath_type),
                        datapath_name(r->datapath_type));
    }
    if (!is_secure(bridge) && r->hold == OVSDB_HOLD_NONE) {
        ovsrec_bridge_set_fail_mode(bridge, "secure");
        ovsdb_repair_did(r, "set fail_mode to secure");
    }
    if (!speaks_protocol(bridge)) {
        ovsrec_bridge_update_protocols_addvalue(bridge, PROTOCOL);
        ovsdb_repair_did(r, "added " PROTOCOL " to protocols");
    }
    repair_ports(r, idl, bridge);
    if (r->hold != OVSDB_HOLD_ALL) {
        repair_history(r, bridge);
        repair_tables(r, bridge, idl, false);
    }
}

bool
ovsdb_waits_for_flows(const struct ovsrec_open_vswitch *ovs)
{
    return smap_get_bool(&ovs->other_config, RESTORE_WAIT_KEY, false);
}

void
ovsdb_repair(struct ovsdb_repair *r, const struct ovsdb_idl *idl)
{
    const struct ovsrec_open_vswitch *ovs = ovsrec_open_vswitch_first(idl);
    const struct ovsrec_bridge *bridge = ovsdb_find_bridge(idl, r->bridge);

    if (!ovs) {
        ovsdb_named_add(r->named,
                        "the switch's database has not been initialized "
                        "(\"ovs-vsctl init\" does it)");
    } else if (bridge) {
        repair_bridge(r, idl, bridge);
    } else {
        insert_bridge(r, idl, ovs);
    }
    if (ovs && r->filled && ovsdb_waits_for_flows(ovs)) {
        ovsrec_open_vswitch_update_other_config_delkey(ovs, RESTORE_WAIT_KEY);
        ovsdb_repair_did(r, "ended " RESTORE_WAIT_KEY);
    }
}
