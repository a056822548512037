/* SPDX-License-Identifier: Apache-2.0 */
/* The connection to the switch's database: follows its contents, keeps the
 * snapshot, and carries the one transaction at a time that ovsdb-repair.c
 * composes.
 *
 * All work is triggered by the IDL's sequence number, which moves with every
 * change of a column that is read here, so an idle database costs nothing. */

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <openvswitch/poll-loop.h>
#include <openvswitch/util.h>
#include <openvswitch/vlog.h>
#include <ovsdb-idl.h>
#include <timeval.h>
#include <util.h>

#include "ofproxyd/base/backoff.h"
#include "ofproxyd/base/err.h"

#include "ovsdb-private.h"

VLOG_DEFINE_THIS_MODULE(ovsdb);

static struct vlog_rate_limit rl = VLOG_RATE_LIMIT_INIT(60, 300);

/* Waits after a transaction that the database refused. */
#define BACKOFF_MIN_MS 100
#define BACKOFF_MAX_MS 30000

/* Least time between two transactions: should another program insist on
 * other values than ours, neither burns a processor. */
#define TXN_GAP_MS 50

/* Least value of Interface.mtu_request (vswitch.ovsschema, from RFC 791). */
#define MTU_MIN 68

/* Pauses between requests to try again to open a port. */
#define REOPEN_MIN_MS 100
#define REOPEN_MAX_MS 60000

/* How long the gateway's link has to be missing before the port is opened
 * anew, and the pauses between tries.  The least one covers the time that the
 * switch needs for it. */
#define LOST_MS     100
#define LOST_MIN_MS 1000
#define LOST_MAX_MS 60000

/* How long the switch may take to bring up the bridge before that is
 * named. */
#define BRIDGE_UP_MS 10000

struct ovsdb {
    /* Configuration. */
    char *bridge;
    char *datapath_type;
    char *gateway;
    uint16_t gateway_ofport;
    uint16_t gateway_mtu; /* Wanted; 0: any. */
    char *tunnel;         /* NULL: none. */
    char *tunnel_type;
    uint16_t tunnel_port;
    bool tunnel_csum;
    uint16_t tunnel_ofport;
    struct ovsdb_table_name *tables;
    size_t n_tables;
    int layout;

    struct ovsdb_idl *idl;
    unsigned int seen_seqno; /* Of the contents that the snapshot shows. */
    bool resync;             /* Reconnected, contents not read again yet. */
    bool filled;             /* The bridge has its flows. */
    enum ovsdb_hold hold;
    int replaced;

    /* Repairing. */
    struct ovsdb_idl_txn *txn; /* In flight, or NULL. */
    unsigned int txn_seqno;    /* seen_seqno when it was composed. */
    char *txn_does;            /* In words, for the log; NULL: not worth a
                                * line. */
    bool txn_again;            /* As one before, which has been logged. */
    bool check;                /* Contents not compared yet. */
    long long int next_txn_ms; /* No transaction before. */
    struct backoff backoff;
    struct ovsdb_named repair_named;

    /* A gateway port without a link. */
    bool gateway_lost;          /* The host has none. */
    bool gateway_dead;          /* The switch does not find it. */
    long long int lost_ms;      /* When to do something about it. */
    long long int lost_last_ms; /* When something was done. */
    unsigned int n_lost;        /* Tries that have not helped. */
    struct backoff lost_backoff;

    /* The switch says of the gateway or tunnel port that it can't open it, and
     * does not try again until something changes.  It may have been for the
     * time being only: another tunnel of the same options is forgotten after
     * new ones have been tried.  Or it isn't so any more: it leaves out of a
     * transaction what its own view of the database has already, and when that
     * was before its last transaction, what that one said stays. */
    bool refused;
    long long int reopen_ms; /* When to have it tried again. */
    struct backoff reopen_backoff;

    /* The snapshot. */
    struct ovsdb_state state;
    struct ovsdb_pod *pods;
    struct ovsdb_named read_named;
    struct eth_addr gateway_mac; /* The last one known, for a gateway that
                                  * has to be made anew. */
    bool bridge_waits;           /* The bridge is there, but not up. */
    long long int bridge_due_ms; /* When to name that, or LLONG_MAX. */
};

/* Messages. */

void
ovsdb_named_init(struct ovsdb_named *n)
{
    shash_init(&n->now);
    shash_init(&n->before);
}

void
ovsdb_named_uninit(struct ovsdb_named *n)
{
    shash_destroy(&n->now);
    shash_destroy(&n->before);
}

void
ovsdb_named_begin(struct ovsdb_named *n)
{
    shash_swap(&n->now, &n->before);
    shash_clear(&n->now);
}

void
ovsdb_named_add(struct ovsdb_named *n, const char *format, ...)
{
    char *text;
    struct err err;
    va_list args;

    va_start(args, format);
    text = xvasprintf(format, args);
    va_end(args);

    err_set(&err, "%s", text);
    shash_add_once(&n->now, err.msg, NULL);
    free(text);
}

void
ovsdb_named_end(struct ovsdb_named *n)
{
    struct shash_node *node;

    SHASH_FOR_EACH (node, &n->now) {
        if (!shash_find(&n->before, node->name)) {
            VLOG_WARN_RL(&rl, "%s", node->name);
        }
    }
    shash_clear(&n->before);
}

/* Set-up. */

static void
register_columns(struct ovsdb_idl *idl)
{
    static const struct ovsdb_idl_column *const columns[] = {
        &ovsrec_open_vswitch_col_bridges,
        &ovsrec_open_vswitch_col_other_config,
        &ovsrec_open_vswitch_col_ovs_version,
        &ovsrec_bridge_col_name,
        &ovsrec_bridge_col_datapath_id,
        &ovsrec_bridge_col_datapath_type,
        &ovsrec_bridge_col_external_ids,
        &ovsrec_bridge_col_fail_mode,
        &ovsrec_bridge_col_flow_tables,
        &ovsrec_bridge_col_ports,
        &ovsrec_bridge_col_protocols,
        &ovsrec_port_col_name,
        &ovsrec_port_col_external_ids,
        &ovsrec_port_col_interfaces,
        &ovsrec_interface_col_name,
        &ovsrec_interface_col_error,
        &ovsrec_interface_col_external_ids,
        &ovsrec_interface_col_mac,
        &ovsrec_interface_col_mac_in_use,
        &ovsrec_interface_col_mtu_request,
        &ovsrec_interface_col_ofport,
        &ovsrec_interface_col_options,
        &ovsrec_interface_col_type,
        &ovsrec_flow_table_col_flow_limit,
        &ovsrec_flow_table_col_name,
        &ovsrec_flow_table_col_overflow_policy,
    };
    /* Written into new rows only; what others write there later is of no
     * interest. */
    static const struct ovsdb_idl_column *const quiet[] = {
        &ovsrec_interface_col_ofport_request,
        &ovsrec_open_vswitch_col_next_cfg,
    };

    for (size_t i = 0; i < ARRAY_SIZE(columns); i++) {
        ovsdb_idl_add_column(idl, columns[i]);
    }
    for (size_t i = 0; i < ARRAY_SIZE(quiet); i++) {
        ovsdb_idl_add_column(idl, quiet[i]);
        ovsdb_idl_omit_alert(idl, quiet[i]);
    }
}

struct ovsdb *
ovsdb_create(const struct ovsdb_cfg *cfg)
{
    struct ovsdb *o = xzalloc(sizeof *o);

    o->bridge = xstrdup(cfg->bridge);
    o->datapath_type = xstrdup(cfg->datapath_type);
    o->gateway = xstrdup(cfg->gateway);
    o->gateway_ofport = cfg->gateway_ofport;
    o->tunnel = nullable_xstrdup(cfg->tunnel);
    o->tunnel_type = nullable_xstrdup(cfg->tunnel_type);
    o->tunnel_port = cfg->tunnel_port;
    o->tunnel_csum = cfg->tunnel_csum;
    o->tunnel_ofport = cfg->tunnel_ofport;
    o->layout = cfg->layout;
    o->replaced = -1;
    o->state.history = ovsdb_read_history(NULL);
    o->n_tables = cfg->n_tables;
    o->tables = xcalloc(MAX(cfg->n_tables, 1), sizeof *o->tables);
    for (size_t i = 0; i < cfg->n_tables; i++) {
        o->tables[i].id = cfg->tables[i].id;
        o->tables[i].name = xstrdup(cfg->tables[i].name);
        o->tables[i].flow_limit = cfg->tables[i].flow_limit;
    }
    o->backoff = (struct backoff) BACKOFF_INIT(BACKOFF_MIN_MS, BACKOFF_MAX_MS);
    o->reopen_backoff =
        (struct backoff) BACKOFF_INIT(REOPEN_MIN_MS, REOPEN_MAX_MS);
    o->lost_backoff = (struct backoff) BACKOFF_INIT(LOST_MIN_MS, LOST_MAX_MS);
    o->lost_last_ms = LLONG_MIN / 2;
    o->bridge_due_ms = LLONG_MAX;
    ovsdb_named_init(&o->repair_named);
    ovsdb_named_init(&o->read_named);

    o->idl = ovsdb_idl_create(cfg->remote, &ovsrec_idl_class, false, true);
    ovsdb_idl_set_leader_only(o->idl, false);
    register_columns(o->idl);
    return o;
}

void
ovsdb_destroy(struct ovsdb *o)
{
    if (!o) {
        return;
    }
    if (o->txn) {
        ovsdb_idl_txn_destroy(o->txn);
    }
    ovsdb_idl_destroy(o->idl);
    ovsdb_pods_free(o->pods, o->state.n_pods);
    ovsdb_named_uninit(&o->repair_named);
    ovsdb_named_uninit(&o->read_named);
    for (size_t i = 0; i < o->n_tables; i++) {
        free(CONST_CAST(char *, o->tables[i].name));
    }
    free(o->tables);
    free(o->txn_does);
    free(o->bridge);
    free(o->datapath_type);
    free(o->gateway);
    free(o->tunnel);
    free(o->tunnel_type);
    free(o);
}

/* The snapshot. */

/* Returns the address of an interface that the switch has.
 *
 * The switch gives an internal port the address that the database wants.  What
 * it says about the one in use can lag behind that: under load 3.1 has been
 * seen to leave the one that the device was born with there until something
 * else about the port changes. */
static struct eth_addr
iface_mac(const struct ovsrec_bridge *bridge,
          const struct ovsrec_interface *iface)
{
    struct eth_addr mac = { .ea = { 0 } };

    if (iface->mac && !strcmp(iface->type, "internal")
        && strcmp(iface->name, bridge->name)
        && ovsdb_parse_mac(iface->mac, &mac) && ovsdb_mac_is_unicast(&mac)) {
        return mac;
    }
    memset(&mac, 0, sizeof mac);
    if (iface->mac_in_use) {
        ignore(ovsdb_parse_mac(iface->mac_in_use, &mac));
    }
    return mac;
}

/* Notes what the switch objects to in a port, 'what' it is in words. */
static void
read_refusal(struct ovsdb *o, const struct ovsrec_interface *iface,
             const char *what)
{
    if (iface->error && iface->error[0]) {
        ovsdb_named_add(&o->read_named, "%s: the switch reports \"%s\"", what,
                        iface->error);
        o->refused = true;
    }
    o->refused |= iface->n_ofport && iface->ofport[0] < 0;
}

/* Fills what the switch says of the gateway port. */
static void
read_gateway(struct ovsdb *o, const struct ovsrec_bridge *bridge,
             struct ovsdb_state *s)
{
    const struct ovsrec_interface *iface =
        ovsdb_find_iface(bridge, o->gateway);

    if (!iface) {
        return;
    }
    o->gateway_dead = ovsdb_gateway_is_dead(bridge, iface);
    s->gateway_ofport = ovsdb_iface_ofport(iface);
    if (s->gateway_ofport) {
        struct eth_addr mac = iface_mac(bridge, iface);

        /* Without a link there may be none. */
        if (ovsdb_mac_is_unicast(&mac)) {
            o->gateway_mac = mac;
        }
        s->gateway_mac = o->gateway_mac;
    }
    if (ovsdb_gateway_is_closed(iface)) {
        return; /* What the switch says of it is to be expected. */
    }

    char *what = xasprintf("gateway port \"%s\"", o->gateway);

    read_refusal(o, iface, what);
    free(what);
}

/* Fills what the switch says of the tunnel port. */
static void
read_tunnel(struct ovsdb *o, const struct ovsrec_bridge *bridge,
            struct ovsdb_state *s)
{
    const struct ovsrec_interface *iface =
        o->tunnel ? ovsdb_find_iface(bridge, o->tunnel) : NULL;

    if (!iface || strcmp(iface->type, o->tunnel_type)) {
        return;
    }
    s->tunnel_ofport = ovsdb_iface_ofport(iface);

    char *what =
        xasprintf("tunnel port \"%s\" of type %s", o->tunnel, o->tunnel_type);

    read_refusal(o, iface, what);
    free(what);
}

/* The switch fills datapath_id when it makes the bridge, and numbers the
 * local port when its datapath is there. */
static bool
bridge_is_up(const struct ovsrec_bridge *bridge)
{
    const struct ovsrec_interface *local =
        ovsdb_find_iface(bridge, bridge->name);

    return bridge->datapath_id && local && ovsdb_iface_ofport(local);
}

bool
ovsdb_history_equals(const struct ovsdb_history *a,
                     const struct ovsdb_history *b)
{
    return a->layout == b->layout && a->antrea == b->antrea
           && a->antrea_was == b->antrea_was && a->secure == b->secure;
}

static bool
state_equals(const struct ovsdb_state *a, const struct ovsdb_state *b)
{
    return a->connected == b->connected && a->bridge_ok == b->bridge_ok
           && a->gateway_ofport == b->gateway_ofport
           && !memcmp(&a->gateway_mac, &b->gateway_mac, sizeof a->gateway_mac)
           && a->tunnel_ofport == b->tunnel_ofport
           && ovsdb_history_equals(&a->history, &b->history)
           && !strcmp(a->ovs_version, b->ovs_version)
           && ovsdb_pods_equal(a->pods, a->n_pods, b->pods, b->n_pods);
}

static void
read_state(struct ovsdb *o)
{
    const struct ovsrec_open_vswitch *ovs = ovsrec_open_vswitch_first(o->idl);
    const struct ovsrec_bridge *bridge = ovsdb_find_bridge(o->idl, o->bridge);
    struct ovsdb_state new = { .connected = true, .seqno = o->state.seqno };
    struct ovsdb_pod *pods;

    ovsdb_named_begin(&o->read_named);
    o->refused = o->gateway_dead = false;
    if (ovs && ovs->ovs_version) {
        ovs_strlcpy(new.ovs_version, ovs->ovs_version, sizeof new.ovs_version);
    }
    if (bridge) {
        new.bridge_ok = bridge_is_up(bridge);
        read_gateway(o, bridge, &new);
        read_tunnel(o, bridge, &new);
    }
    new.history = ovsdb_read_history(bridge);
    new.n_pods = ovsdb_pods_read(bridge, &o->read_named, &pods);
    new.pods = pods;
    ovsdb_named_end(&o->read_named);

    bool waits = bridge && !new.bridge_ok;
    if (waits != o->bridge_waits) {
        o->bridge_waits = waits;
        o->bridge_due_ms = waits ? time_msec() + BRIDGE_UP_MS : LLONG_MAX;
    }

    if (state_equals(&new, &o->state)) {
        ovsdb_pods_free(pods, new.n_pods);
        return;
    }
    ovsdb_pods_free(o->pods, o->state.n_pods);
    new.seqno++;
    o->state = new;
    o->pods = pods;
}

static void
check_bridge_due(struct ovsdb *o)
{
    if (time_msec() >= o->bridge_due_ms) {
        VLOG_WARN("bridge \"%s\" is not up after %d s: is ovs-vswitchd "
                  "running, and what does its log say?",
                  o->bridge, BRIDGE_UP_MS / 1000);
        o->bridge_due_ms = LLONG_MAX;
    }
}

/* Repairing. */

/* The time after the next pause of 'backoff'. */
static long long int
next_time(struct backoff *backoff)
{
    uint32_t random = 0;

    ignore(getrandom(&random, sizeof random, GRND_NONBLOCK));
    return time_msec() + backoff_next(backoff, random);
}

static void
retry_later(struct ovsdb *o)
{
    o->next_txn_ms = next_time(&o->backoff);
    o->check = true;
}

static void
note_success(struct ovsdb *o)
{
    if (o->txn_does && !o->txn_again) {
        VLOG_INFO_RL(&rl, "%s", o->txn_does);
    }
    backoff_reset(&o->backoff);
    o->next_txn_ms = time_msec() + TXN_GAP_MS;
    o->check = true;
}

/* Goes on with the transaction in flight. */
static void
run_txn(struct ovsdb *o)
{
    enum ovsdb_idl_txn_status status = ovsdb_idl_txn_commit(o->txn);

    if (status == TXN_INCOMPLETE) {
        return;
    }
    if (status == TXN_SUCCESS) {
        note_success(o);
    } else if (status == TXN_TRY_AGAIN && o->txn_seqno != o->seen_seqno) {
        /* Somebody else was faster; what he wrote is here already. */
        o->check = true;
        o->next_txn_ms = time_msec() + TXN_GAP_MS;
    } else if (status == TXN_TRY_AGAIN) {
        retry_later(o);
    } else if (status != TXN_UNCHANGED) {
        retry_later(o);
        VLOG_WARN_RL(&rl, "the switch's database refused \"%s\": %s",
                     o->txn_does ? o->txn_does : "next_cfg",
                     ovsdb_idl_txn_get_error(o->txn));
    }
    ovsdb_idl_txn_destroy(o->txn);
    o->txn = NULL;
    free(o->txn_does);
    o->txn_does = NULL;
}

static bool
gateway_is_due(const struct ovsdb *o)
{
    return o->gateway_lost && o->gateway_dead;
}

/* The gateway port is taken out of the switch in this pass. */
static void
note_lost(struct ovsdb *o)
{
    o->lost_ms = next_time(&o->lost_backoff);
    o->lost_last_ms = time_msec();
    o->n_lost++;
    if (o->n_lost == 2) {
        VLOG_WARN("port %s still has no link; trying again, at longer and "
                  "longer intervals",
                  o->gateway);
    }
}

static void
check_contents(struct ovsdb *o)
{
    struct ovsdb_repair r = {
        .bridge = o->bridge,
        .datapath_type = o->datapath_type,
        .gateway = o->gateway,
        .gateway_ofport = o->gateway_ofport,
        .gateway_mac = o->gateway_mac,
        .gateway_mtu = o->gateway_mtu,
        .gateway_lost = gateway_is_due(o) && time_msec() >= o->lost_ms,
        .tunnel = o->tunnel,
        .tunnel_type = o->tunnel_type,
        .tunnel_port = o->tunnel_port,
        .tunnel_csum = o->tunnel_csum,
        .tunnel_ofport = o->tunnel_ofport,
        .tables = o->tables,
        .n_tables = o->n_tables,
        .layout = o->layout,
        .filled = o->filled,
        .hold = o->hold,
        .replaced = o->replaced,
        .txn = ovsdb_idl_txn_create(o->idl),
        .named = &o->repair_named,
        .done = DS_EMPTY_INITIALIZER,
    };

    o->check = false;
    ovsdb_named_begin(&o->repair_named);
    ovsdb_repair(&r, o->idl);
    ovsdb_named_end(&o->repair_named);

    if (r.gateway_closed) {
        note_lost(o);
    }
    if (!r.done.length) {
        ovsdb_idl_txn_abort(r.txn);
        ovsdb_idl_txn_destroy(r.txn);
        ds_destroy(&r.done);
        return;
    }
    ovsdb_idl_txn_add_comment(r.txn, "ofproxyd: %s", ds_cstr(&r.done));
    o->txn = r.txn;
    o->txn_seqno = o->seen_seqno;
    o->txn_does = ds_steal_cstr(&r.done);
    o->txn_again = (r.gateway_closed || r.gateway_opened) && o->n_lost > 1;
    run_txn(o);
}

/* Makes the switch go over its configuration, as any change of it does. */
static void
ask_again(struct ovsdb *o)
{
    const struct ovsrec_open_vswitch *ovs = ovsrec_open_vswitch_first(o->idl);

    o->reopen_ms = next_time(&o->reopen_backoff);
    if (ovs) {
        o->txn = ovsdb_idl_txn_create(o->idl);
        o->txn_seqno = o->seen_seqno;
        ovsdb_idl_txn_increment(o->txn, &ovs->header_,
                                &ovsrec_open_vswitch_col_next_cfg, true);
        run_txn(o);
    }
}

/* Running. */

/* Returns true if the IDL's contents are those of a living connection.  After
 * a reconnect they still are the old ones until the sequence number moves. */
static bool
run_connection(struct ovsdb *o)
{
    unsigned int seqno = ovsdb_idl_get_seqno(o->idl);

    if (!ovsdb_idl_is_connected(o->idl)) {
        o->resync = true;
    } else if (seqno != o->seen_seqno) {
        o->resync = false;
    }
    if (o->resync || !seqno) {
        if (o->state.connected) {
            o->state.connected = false;
            o->state.seqno++;
        }
        return false;
    }
    return true;
}

void
ovsdb_run(struct ovsdb *o)
{
    ovsdb_idl_run(o->idl);

    if (run_connection(o)) {
        unsigned int seqno = ovsdb_idl_get_seqno(o->idl);

        if (seqno != o->seen_seqno) {
            o->seen_seqno = seqno;
            o->check = true;
            read_state(o);
            backoff_reset(&o->reopen_backoff);
            o->reopen_ms = next_time(&o->reopen_backoff);
        }
        check_bridge_due(o);
    }
    if (o->txn) {
        run_txn(o);
    }
    o->check |= gateway_is_due(o) && time_msec() >= o->lost_ms;
    if (!o->txn && o->state.connected && o->check
        && time_msec() >= o->next_txn_ms) {
        check_contents(o);
    }
    if (!o->txn && o->state.connected && o->refused
        && time_msec() >= o->reopen_ms) {
        ask_again(o);
    }
}

void
ovsdb_wait(struct ovsdb *o)
{
    ovsdb_idl_wait(o->idl);
    if (o->txn) {
        ovsdb_idl_txn_wait(o->txn);
    } else if (o->check && o->state.connected) {
        poll_timer_wait_until(o->next_txn_ms);
    }
    if (!o->txn && o->state.connected && o->refused) {
        poll_timer_wait_until(o->reopen_ms);
    }
    if (!o->txn && o->state.connected && gateway_is_due(o)) {
        poll_timer_wait_until(MAX(o->lost_ms, o->next_txn_ms));
    }
    if (o->state.connected && o->bridge_due_ms != LLONG_MAX) {
        poll_timer_wait_until(o->bridge_due_ms);
    }
}

void
ovsdb_set_filled(struct ovsdb *o, bool filled)
{
    o->check |= filled && !o->filled;
    o->filled = filled;
}

void
ovsdb_set_gateway_mtu(struct ovsdb *o, uint16_t mtu)
{
    mtu = mtu >= MTU_MIN ? mtu : 0;
    o->check |= mtu != o->gateway_mtu;
    o->gateway_mtu = mtu;
}

void
ovsdb_set_gateway_lost(struct ovsdb *o, bool lost)
{
    long long int now = time_msec();

    if (!lost && !o->gateway_dead && o->state.gateway_ofport) {
        /* It has helped.  The next loss is another one. */
        backoff_reset(&o->lost_backoff);
        o->n_lost = 0;
        o->lost_ms = o->lost_last_ms + LOST_MIN_MS;
    }
    if (lost && !o->gateway_lost) {
        o->lost_ms = MAX(o->lost_ms, now + LOST_MS);
    }
    o->gateway_lost = lost;
}

void
ovsdb_set_hold(struct ovsdb *o, enum ovsdb_hold hold)
{
    o->check |= hold < o->hold;
    o->hold = hold;
}

void
ovsdb_set_replaced(struct ovsdb *o, int round)
{
    o->check |= round != o->replaced;
    o->replaced = round;
}

const struct ovsdb_state *
ovsdb_state(const struct ovsdb *o)
{
    return &o->state;
}
