/* SPDX-License-Identifier: Apache-2.0 */
/* The packet rules' state as text. */

#include <inttypes.h>

#include <openvswitch/util.h>
#include <util.h>

#include "rules-private.h"
#include "rulestext.h"

void
rules_format_state(const struct rules *r, struct ds *ds)
{
    if (!r->wanted) {
        ds_put_cstr(ds, "nothing to do: no gateway yet\n");
        return;
    }
    ds_put_format(ds, "%s\n", rules_in_sync(r) ? "in sync" : "not in sync");
    ds_put_format(ds, "table inet " RULES_TABLE ": %s\n",
                  !r->exists                  ? "missing"
                  : rules_table_is_written(r) ? "as wanted"
                  : r->wrote                  ? "to be written"
                  : r->complete ? "of an earlier run, to be replaced"
                                : "of an earlier run, kept for now");
    ds_put_format(ds, "pod networks: %" PRIuSIZE ", nodes: %" PRIuSIZE "\n",
                  r->sets[RULES_POD_CIDRS].n_wanted,
                  r->sets[RULES_NODES].n_wanted);
    ds_put_format(ds,
                  "NodePorts: %" PRIuSIZE " at %" PRIuSIZE
                  " addresses, ports at external addresses: %" PRIuSIZE "\n",
                  r->sets[RULES_NODE_PORTS].n_wanted,
                  r->sets[RULES_NODE_PORT_ADDRS].n_wanted,
                  r->sets[RULES_EXTERNAL].n_wanted);
    for (enum ip_family f = 0; f < N_IP_FAMILIES; f++) {
        const struct fwdchain *fc = &r->chains[f];

        if (fc->exists) {
            ds_put_format(ds,
                          "chain %s " FWDCHAIN_TABLE " " FWDCHAIN_NAME
                          ": %s\n",
                          fwdchain_family_name(fc),
                          fc->in_place ? "accepts the gateway"
                                       : "lacks our rules");
        }
    }
    ds_put_format(ds,
                  "written: %" PRIu64 " times the table, %" PRIu64
                  " members; changed by others: %" PRIu64 "\n",
                  r->n_tables, r->n_changes, r->n_foreign);
    if (r->ctflush.n_removed) {
        ds_put_format(ds,
                      "conntrack entries of tunnels removed: %" PRIu64 "\n",
                      r->ctflush.n_removed);
    }
    if (r->ctstale.flush.n_removed) {
        ds_put_format(ds,
                      "conntrack entries of Services removed: %" PRIu64 "\n",
                      r->ctstale.flush.n_removed);
    }
    if ((r->failed || r->chains_failed) && r->err.msg[0]) {
        ds_put_format(ds, "failed: %s\n", r->err.msg);
    }
}
