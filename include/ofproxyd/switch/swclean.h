/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_SWITCH_SWCLEAN_H
#define OFPROXYD_SWITCH_SWCLEAN_H 1

/* Takes off the switch what the daemon has put there, for `ofproxyd
 * --cleanup`: its flows, groups and meter, its table names and marks, the
 * ports that it made, and the bridge if it made that and nothing else hangs
 * on it.  What it found and adopted stays.
 *
 * Blocks, but not beyond a deadline. */

#include <stddef.h>
#include <stdint.h>

#include <openvswitch/compiler.h>
#include <openvswitch/dynamic-string.h>

#include "ofproxyd/base/err.h"
#include "ofproxyd/switch/ovsdb.h"

struct swclean_cfg {
    const char *remote; /* Of the database, as in struct ovsdb_cfg. */
    const char *target; /* Of the bridge, as in struct ofconn_cfg. */
    const char *bridge;
    const struct ovsdb_table_name *tables; /* Names that are ours. */
    size_t n_tables;
    uint32_t meter_id;         /* The first.  Removed only with... */
    unsigned int n_meters;     /* ...other traces of ours. */
    long long int deadline_ms; /* For each of database and bridge. */
};

/* Removes what is there, in an order in which nothing of ours refers to what
 * is gone: flows, groups, meters; then in one transaction names, marks, ports
 * and bridge.
 *
 * Appends to 'done' a line for each thing that was removed ("removed port
 * antrea-gw0 from bridge br-int\n"), and to 'left' one for what is ours and
 * could not go, and why.  No bridge, or no ovs-vswitchd, is no error.
 *
 * Returns 0; or a positive errno value, with the reason in 'err', if database
 * or bridge could not be reached in time or refused; running it again does
 * the rest.  A bridge that does not answer is taken off the database all the
 * same.  Without the database nothing is done: ovs-vswitchd answers nobody
 * then. */
int swclean_run(const struct swclean_cfg *, struct ds *done, struct ds *left,
                struct err *err) OVS_WARN_UNUSED_RESULT;

#endif /* ofproxyd/switch/swclean.h */
