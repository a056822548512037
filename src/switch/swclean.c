/* SPDX-License-Identifier: Apache-2.0 */
/* Removes what is ours from the switch: the order, and the database.
 *
 * What is ours is told by the marks that ovsdb-repair.c sets.  A bridge that
 * we made keeps its mark while other ports hang on it, so that a later run
 * can remove it. */

#include "swclean-private.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <openvswitch/poll-loop.h>
#include <ovsdb-idl.h>
#include <timeval.h>
#include <util.h>

#include "ovsdb-private.h"

/* How long ovs-vswitchd, if it runs, may take to follow the database: the
 * gateway's link is then gone when the host is looked at. */
#define FOLLOW_MS 5000

/* Names of foreign ports that are told. */
#define MAX_TOLD 5

void
swclean_say(const struct swclean_cfg *cfg, struct ds *done, size_t n,
            const char *what)
{
    if (n) {
        ds_put_format(done, "removed %" PRIuSIZE " %s%s from bridge %s\n", n,
                      what, n == 1 ? "" : "s", cfg->bridge);
    }
}

/* The database. */

static void
register_columns(struct ovsdb_idl *idl)
{
    static const struct ovsdb_idl_column *const columns[] = {
        &ovsrec_open_vswitch_col_bridges,
        &ovsrec_open_vswitch_col_cur_cfg,
        &ovsrec_open_vswitch_col_next_cfg,
        &ovsrec_bridge_col_name,
        &ovsrec_bridge_col_external_ids,
        &ovsrec_bridge_col_flow_tables,
        &ovsrec_bridge_col_ports,
        &ovsrec_port_col_name,
        &ovsrec_port_col_external_ids,
        &ovsrec_flow_table_col_name,
        &ovsrec_flow_table_col_external_ids,
        &ovsrec_flow_table_col_flow_limit,
        &ovsrec_flow_table_col_groups,
        &ovsrec_flow_table_col_overflow_policy,
        &ovsrec_flow_table_col_prefixes,
    };

    for (size_t i = 0; i < ARRAY_SIZE(columns); i++) {
        ovsdb_idl_add_column(idl, columns[i]);
    }
}

/* Waits for something from the database.  False when the time is over. */
static bool
block(struct ovsdb_idl *idl, long long int end_ms)
{
    if (time_msec() >= end_ms) {
        return false;
    }
    ovsdb_idl_wait(idl);
    poll_timer_wait_until(end_ms);
    poll_block();
    return true;
}

/* Reads the contents.  '*ret' is the caller's to destroy, also on failure. */
static int
open_db(const struct swclean_cfg *cfg, long long int end_ms,
        struct ovsdb_idl **ret, struct err *err)
{
    struct ovsdb_idl *idl =
        ovsdb_idl_create(cfg->remote, &ovsrec_idl_class, false, false);

    *ret = idl;
    ovsdb_idl_set_leader_only(idl, false);
    register_columns(idl);
    for (;;) {
        int error = 0;

        ovsdb_idl_run(idl);
        if (ovsdb_idl_has_ever_connected(idl)) {
            return 0;
        }
        if (!ovsdb_idl_is_alive(idl)) {
            error = ovsdb_idl_get_last_error(idl);
            error = error > 0 ? error : ECONNRESET;
        } else if (!block(idl, end_ms)) {
            error = ETIMEDOUT;
        }
        if (error) {
            err_set(err, "the switch's database at %s: %s", cfg->remote,
                    ovs_strerror(error));
            return error;
        }
    }
}

/* A removal that is being composed. */
struct removal {
    const struct swclean_cfg *cfg;
    const struct ovsrec_bridge *bridge;
    struct ds done, left;
};

static void OVS_PRINTF_FORMAT(2, 3)
    removed(struct removal *r, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    ds_put_cstr(&r->done, "removed ");
    ds_put_format_valist(&r->done, format, args);
    ds_put_char(&r->done, '\n');
    va_end(args);
}

/* Returns our table 'id', if that is its name, or NULL. */
static const struct ovsdb_table_name *
find_ours(const struct swclean_cfg *cfg, int64_t id, const char *name)
{
    for (size_t i = 0; i < cfg->n_tables; i++) {
        if (cfg->tables[i].id == id) {
            return name && !strcmp(cfg->tables[i].name, name) ? &cfg->tables[i]
                                                              : NULL;
        }
    }
    return NULL;
}

/* True if 'row' holds nothing but what we have written. */
static bool
is_all_ours(const struct ovsrec_flow_table *row,
            const struct ovsdb_table_name *ours)
{
    bool is_free = !row->n_flow_limit && !row->overflow_policy;

    return (is_free || ovsdb_table_is_limited(row, ours->flow_limit))
           && !row->n_groups && !row->n_prefixes
           && smap_is_empty(&row->external_ids);
}

/* Takes what is ours out of a row that holds more. */
static void
clear_row(const struct ovsrec_flow_table *row,
          const struct ovsdb_table_name *ours)
{
    ovsrec_flow_table_set_name(row, NULL);
    if (ours->flow_limit && ovsdb_table_is_limited(row, ours->flow_limit)) {
        ovsrec_flow_table_set_flow_limit(row, NULL, 0);
        ovsrec_flow_table_set_overflow_policy(row, NULL);
    }
}

static void
remove_names(struct removal *r)
{
    const struct ovsrec_bridge *bridge = r->bridge;
    size_t n_max = MAX(bridge->n_flow_tables, 1);
    int64_t *ids = xmalloc(n_max * sizeof *ids);
    struct ovsrec_flow_table **rows = xmalloc(n_max * sizeof *rows);
    size_t n = 0, n_ours = 0;

    for (size_t i = 0; i < bridge->n_flow_tables; i++) {
        int64_t id = bridge->key_flow_tables[i];
        struct ovsrec_flow_table *row = bridge->value_flow_tables[i];
        const struct ovsdb_table_name *ours = find_ours(r->cfg, id, row->name);

        n_ours += ours != NULL;
        if (ours && !is_all_ours(row, ours)) {
            clear_row(row, ours);
        }
        if (!ours || !is_all_ours(row, ours)) {
            ids[n] = id;
            rows[n++] = row;
        }
    }
    if (n < bridge->n_flow_tables) {
        ovsrec_bridge_set_flow_tables(bridge, ids, rows, n);
    }
    swclean_say(r->cfg, &r->done, n_ours, "table name");
    free(ids);
    free(rows);
}

static void
remove_history(struct removal *r)
{
    static const char *const keys[] = { OVSDB_LAYOUT_KEY, OVSDB_WAS_KEY };

    for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
        if (smap_get(&r->bridge->external_ids, keys[i])) {
            ovsrec_bridge_update_external_ids_delkey(r->bridge, keys[i]);
            removed(r, "external_ids:%s from bridge %s", keys[i],
                    r->cfg->bridge);
        }
    }
}

/* Removes our ports, and appends the others' names to 'others', but not the
 * local port's. */
static size_t
remove_ports(struct removal *r, struct ds *others)
{
    size_t n_others = 0;

    for (size_t i = 0; i < r->bridge->n_ports; i++) {
        const struct ovsrec_port *port = r->bridge->ports[i];

        if (!strcmp(port->name, r->bridge->name)) {
            continue;
        }
        if (ovsdb_port_is_made(port)) {
            ovsrec_bridge_update_ports_delvalue(r->bridge, port);
            removed(r, "port %s from bridge %s", port->name, r->cfg->bridge);
        } else if (++n_others <= MAX_TOLD) {
            ds_put_format(others, "%s%s", n_others > 1 ? ", " : "",
                          port->name);
        }
    }
    if (n_others > MAX_TOLD) {
        ds_put_format(others, " and %" PRIuSIZE " more", n_others - MAX_TOLD);
    }
    return n_others;
}

/* Composes the removal of all that is ours. */
static void
remove_rows(struct removal *r, const struct ovsrec_open_vswitch *ovs)
{
    struct ds others = DS_EMPTY_INITIALIZER;
    size_t n_others = remove_ports(r, &others);

    if (!ovsdb_bridge_is_made(r->bridge)) {
        remove_names(r);
        remove_history(r);
    } else if (n_others) {
        remove_names(r);
        remove_history(r);
        ds_put_format(&r->left,
                      "left bridge %s, which ofproxyd made: %s on it: %s\n",
                      r->cfg->bridge,
                      n_others == 1 ? "a port of others hangs"
                                    : "ports of others hang",
                      ds_cstr(&others));
    } else {
        /* A port that is added just now must not go along. */
        ovsrec_bridge_verify_ports(r->bridge);
        ovsrec_open_vswitch_update_bridges_delvalue(ovs, r->bridge);
        removed(r, "bridge %s", r->cfg->bridge);
    }
    ds_destroy(&others);
}

/* Runs 'txn' to its end. */
static enum ovsdb_idl_txn_status
commit(struct ovsdb_idl *idl, struct ovsdb_idl_txn *txn, long long int end_ms)
{
    enum ovsdb_idl_txn_status status;

    for (;;) {
        status = ovsdb_idl_txn_commit(txn);
        if (status != TXN_INCOMPLETE) {
            return status;
        }
        ovsdb_idl_txn_wait(txn);
        if (!ovsdb_idl_is_alive(idl) || !block(idl, end_ms)) {
            return status;
        }
        ovsdb_idl_run(idl);
    }
}

/* Waits until ovs-vswitchd has taken in what was committed as 'cfg_no', but
 * not for long: it is nothing that a clean-up fails by. */
static void
wait_followed(struct ovsdb_idl *idl, int64_t cfg_no)
{
    long long int end_ms = time_msec() + FOLLOW_MS;

    for (;;) {
        const struct ovsrec_open_vswitch *ovs = ovsrec_open_vswitch_first(idl);

        if (!ovs || ovs->cur_cfg >= cfg_no || !ovsdb_idl_is_alive(idl)
            || !block(idl, end_ms)) {
            return;
        }
        ovsdb_idl_run(idl);
    }
}

/* What the steps of the database's part share. */
struct db {
    const struct swclean_cfg *cfg;
    struct ovsdb_idl *idl;
    bool up; /* ovs-vswitchd answers. */
    long long int end_ms;
};

static int
status_to_errno(enum ovsdb_idl_txn_status status)
{
    return status == TXN_SUCCESS || status == TXN_UNCHANGED ? 0
           : status == TXN_TRY_AGAIN                        ? EAGAIN
           : status == TXN_INCOMPLETE                       ? ETIMEDOUT
                                                            : EIO;
}

/* Tries once.  EAGAIN: somebody else has changed something meanwhile. */
static int
try_rows(const struct db *db, struct removal *r)
{
    const struct ovsrec_open_vswitch *ovs = ovsrec_open_vswitch_first(db->idl);
    struct ovsdb_idl_txn *txn;
    enum ovsdb_idl_txn_status status = TXN_UNCHANGED;

    r->bridge = ovsdb_find_bridge(db->idl, db->cfg->bridge);
    if (!ovs || !r->bridge) {
        return 0;
    }
    txn = ovsdb_idl_txn_create(db->idl);
    ovsdb_idl_txn_add_comment(txn, "ofproxyd: clean-up");
    remove_rows(r, ovs);
    if (r->done.length) {
        ovsdb_idl_txn_increment(txn, &ovs->header_,
                                &ovsrec_open_vswitch_col_next_cfg, true);
        status = commit(db->idl, txn, db->end_ms);
    } else {
        ovsdb_idl_txn_abort(txn);
    }
    if (status == TXN_SUCCESS && db->up) {
        wait_followed(db->idl, ovsdb_idl_txn_get_increment_new_value(txn));
    }
    ovsdb_idl_txn_destroy(txn);
    return status_to_errno(status);
}

static int
clean_rows(const struct db *db, struct ds *done, struct ds *left,
           struct err *err)
{
    struct removal r = {
        .cfg = db->cfg,
        .done = DS_EMPTY_INITIALIZER,
        .left = DS_EMPTY_INITIALIZER,
    };
    int error;

    for (;;) {
        unsigned int seqno = ovsdb_idl_get_seqno(db->idl);

        error = try_rows(db, &r);
        if (error != EAGAIN
            || (seqno == ovsdb_idl_get_seqno(db->idl)
                && !block(db->idl, db->end_ms))) {
            break;
        }
        ds_clear(&r.done);
        ds_clear(&r.left);
        ovsdb_idl_run(db->idl);
    }
    if (error) {
        err_set(err, "the switch's database at %s: %s", db->cfg->remote,
                error == EIO ? "it refused" : ovs_strerror(error));
    } else {
        ds_put_cstr(done, ds_cstr(&r.done));
        ds_put_cstr(left, ds_cstr(&r.left));
    }
    ds_destroy(&r.done);
    ds_destroy(&r.left);
    return error;
}

/* True if we have worked on the bridge. */
static bool
is_marked(const struct ovsdb_idl *idl, const char *name)
{
    const struct ovsrec_bridge *bridge = ovsdb_find_bridge(idl, name);

    return bridge
           && (ovsdb_bridge_is_made(bridge)
               || smap_get(&bridge->external_ids, OVSDB_LAYOUT_KEY));
}

int
swclean_run(const struct swclean_cfg *cfg, struct ds *done, struct ds *left,
            struct err *err)
{
    struct err db_err, of_err;
    struct db db = { .cfg = cfg };
    int db_error, of_error;

    db_error = open_db(cfg, time_msec() + cfg->deadline_ms, &db.idl, err);
    if (db_error) {
        ovsdb_idl_destroy(db.idl);
        return db_error;
    }
    of_error = swclean_openflow(cfg, is_marked(db.idl, cfg->bridge), done,
                                &db.up, &of_err);
    db.end_ms = time_msec() + cfg->deadline_ms;
    db_error = clean_rows(&db, done, left, &db_err);
    ovsdb_idl_destroy(db.idl);

    if (db_error && of_error) {
        err_set(err, "%s; %s", of_err.msg, db_err.msg);
    } else if (db_error || of_error) {
        *err = db_error ? db_err : of_err;
    }
    return of_error ? of_error : db_error;
}
