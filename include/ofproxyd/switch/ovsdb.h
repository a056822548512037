/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_SWITCH_OVSDB_H
#define OFPROXYD_SWITCH_OVSDB_H 1

/* The switch's configuration database: makes and repairs the bridge, the
 * gateway port and the tunnel port, names the tables, and finds the pods.
 *
 * Level-triggered: each change is compared with what the configuration wants
 * and the difference is written in one transaction, with a backoff when the
 * database refuses.  Never blocks.
 *
 * What exists is adopted as it is but for what the daemon depends on:
 * fail_mode secure, OpenFlow15 among the protocols if they are limited, a
 * local port, the tables' names and limits, the tunnel port's type and
 * options.  A bridge
 * and ports that the daemon has made carry external_ids:ofproxyd-made=true (a
 * port's stand in Port).  A port that it made under another configuration, and
 * a tunnel port of Antrea's agent that is not wanted, are removed when the
 * bridge is filled, or at once if they are in the way of the new one.
 * What can't be done, and what is wrong with a pod, is logged once. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <openvswitch/types.h>

#include "ofproxyd/base/ip.h"

struct ovsdb;

struct ovsdb_table_name {
    uint8_t id;
    const char *name;
    uint32_t flow_limit; /* The switch then makes room for a new flow by
                          * evicting the one that would expire next; flows
                          * without timeout are never evicted.  0: none, and
                          * what the database says is left as it is. */
};

/* Everything is copied. */
struct ovsdb_cfg {
    const char *remote;        /* "unix:/var/run/openvswitch/db.sock" */
    const char *bridge;        /* E.g. "br-int". */
    const char *datapath_type; /* "system" or "netdev"; applied when the
                                * bridge is made, and reported if an existing
                                * bridge has another. */
    const char *gateway;       /* Internal port, e.g. "antrea-gw0". */
    uint16_t gateway_ofport;   /* Wanted for a port that we make. */
    const char *tunnel;        /* Port for the tunnels to all other nodes, e.g.
                                * "antrea-tun0"; NULL: none is wanted. */
    const char *tunnel_type;   /* "geneve", "vxlan", "gre" or "stt". */
    uint16_t tunnel_port;      /* Destination port; 0: the type's own. */
    bool tunnel_csum;          /* Checksums on tunnelled packets. */
    uint16_t tunnel_ofport;    /* Wanted for a port that we make. */
    const struct ovsdb_table_name *tables; /* Flow_Table names to keep. */
    size_t n_tables;
    int layout; /* Kept in the bridge's external_ids. */
};

/* What external_ids of the bridge tell of who programmed it. */
struct ovsdb_history {
    int layout;     /* The layout version of ours, -1: we never did. */
    int antrea;     /* Antrea's agent did, in this round (roundNum). */
    int antrea_was; /* As above, but we have taken over from it since. */
    bool secure;    /* fail_mode. */
};

/* True if both tell the same. */
bool ovsdb_history_equals(const struct ovsdb_history *,
                          const struct ovsdb_history *);

/* A local pod's interface: an Interface of our bridge with a port number whose
 * external_ids carry attached-mac and ip-address.  Antrea's CNI plug-in writes
 * them into the Port, which counts where the Interface has neither.
 * No address belongs to two pods: of two interfaces with the same IP or MAC
 * address the one with the higher port number, the newer one, has it. */
struct ovsdb_pod {
    const char *iface;     /* Interface name. */
    const char *ns, *name; /* pod-namespace, pod-name; "" if absent. */
    uint16_t ofport;
    struct eth_addr mac;
    struct ip ips[4]; /* The first 'n_ips'. */
    size_t n_ips;
};

/* A snapshot.  Valid until the next call of ovsdb_run(). */
struct ovsdb_state {
    bool connected;          /* The database's contents have been read once and
                           * the connection lives. */
    bool bridge_ok;          /* The bridge exists with its datapath. */
    uint16_t gateway_ofport; /* 0 while the switch has not given one. */
    struct eth_addr gateway_mac; /* Zero then. */
    uint16_t tunnel_ofport; /* 0 while there is none, or one of another type
                             * than the configured. */
    struct ovsdb_history history; /* All -1 without a bridge. */
    char ovs_version[32];
    const struct ovsdb_pod *pods; /* Sorted by 'iface'. */
    size_t n_pods;
    uint64_t seqno; /* Increases with each change of the above. */
};

/* Returns a client that connects when ovsdb_run() is called. */
struct ovsdb *ovsdb_create(const struct ovsdb_cfg *);
void ovsdb_destroy(struct ovsdb *); /* NULL is allowed. */
void ovsdb_run(struct ovsdb *);
void ovsdb_wait(struct ovsdb *);

/* Tells whether the bridge has all flows that it can get.  A switch that was
 * started with other_config:flow-restore-wait=true (Antrea's start script does
 * so) forwards nothing until somebody takes that away: this does, when the
 * bridge is filled. */
void ovsdb_set_filled(struct ovsdb *, bool filled);

/* Sets the MTU that the gateway port is to have (Interface.mtu_request), in
 * bytes.  Less than 68, which the database refuses, leaves it alone. */
void ovsdb_set_gateway_mtu(struct ovsdb *, uint16_t mtu);

/* Tells whether the gateway port's link is missing from the host.  Somebody
 * can delete the link of an internal port of the userspace datapath, and the
 * switch keeps the port, without a word and for ever.  If that lasts and the
 * switch knows no address of the port any more, the port is taken out of the
 * switch and put in again, with all that the database has of it and the MAC
 * address that it had, also if somebody else made it: without its link the
 * node is cut off anyway.  Tried with a backoff for as long as it holds. */
void ovsdb_set_gateway_lost(struct ovsdb *, bool lost);

/* What is not to be changed on an existing bridge. */
enum ovsdb_hold {
    OVSDB_HOLD_NONE,

    /* fail_mode, unless it is secure already: a change makes the switch take
     * all flows away. */
    OVSDB_HOLD_FAIL_MODE,

    /* Also table names, layout version and whatever else belongs to flows that
     * are not yet there: a predecessor's are in force. */
    OVSDB_HOLD_ALL
};

/* Changes what is held; OVSDB_HOLD_NONE at first. */
void ovsdb_set_hold(struct ovsdb *, enum ovsdb_hold);

/* The flows of Antrea's agent, which called its last round 'round', are gone:
 * that round is taken out of roundNum, so that the next start of that agent is
 * one on a bridge that is new to it, and kept under a name of ours, since
 * flows of it may turn up if it still runs. */
void ovsdb_set_replaced(struct ovsdb *, int round);

/* Returns the snapshot; see there for how long it is valid. */
const struct ovsdb_state *ovsdb_state(const struct ovsdb *);

#endif /* ofproxyd/switch/ovsdb.h */
