/* SPDX-License-Identifier: Apache-2.0 */

/* The clean-up's parts in order: first the packet rules, so that nothing is
 * led to a bridge without flows while another proxy's rules could serve it;
 * then the bridge, since the routes that lead there go with the gateway port;
 * then what is left on the host. */

#include "ofproxyd/agent/cleanup.h"

#include <stdlib.h>
#include <unistd.h>

#include <util.h>

#include "affinity.h"
#include "local.h"
#include "ofproxyd/host/host.h"
#include "ofproxyd/host/rules.h"
#include "ofproxyd/pipeline/tables.h"
#include "ofproxyd/switch/swclean.h"
#include "stale.h"

/* For each of the switch's database and the bridge. */
#define DEADLINE_MS 10000

void
cleanup_report_init(struct cleanup_report *r)
{
    ds_init(&r->done);
    ds_init(&r->left);
    ds_init(&r->failed);
}

void
cleanup_report_uninit(struct cleanup_report *r)
{
    ds_destroy(&r->done);
    ds_destroy(&r->left);
    ds_destroy(&r->failed);
}

static int
clean_switch(const struct cfg *cfg, struct cleanup_report *r, struct err *err)
{
    struct ovsdb_table_name *tables = xmalloc(n_pipe_tables * sizeof *tables);
    char *remote = xasprintf("unix:%s/db.sock", cfg->ovs_run_dir);
    char *target =
        xasprintf("unix:%s/%s.mgmt", cfg->ovs_run_dir, cfg->ovs_bridge);
    const struct swclean_cfg swclean = {
        .remote = remote,
        .target = target,
        .bridge = cfg->ovs_bridge,
        .tables = tables,
        .n_tables = n_pipe_tables,
        .meter_id = LOCAL_METER_ID,
        .n_meters = PIPE_N_METERS,
        .deadline_ms = DEADLINE_MS,
    };
    int error;

    for (size_t i = 0; i < n_pipe_tables; i++) {
        tables[i].id = pipe_tables[i].id;
        tables[i].name = pipe_tables[i].name;
        tables[i].flow_limit =
            pipe_tables[i].id == PIPE_T_AFFINITY ? AFFINITY_MAX_CLIENTS : 0;
    }
    error = swclean_run(&swclean, &r->done, &r->left, err);
    free(target);
    free(remote);
    free(tables);
    return error;
}

static void
clean_file(const struct cfg *cfg, struct cleanup_report *r)
{
    char *path = stale_path(cfg);

    if (!unlink(path)) {
        ds_put_format(&r->done, "removed file %s\n", path);
    }
    free(path);
}

/* Notes how a part ended.  Returns the first failure. */
static int
note(struct cleanup_report *r, int before, int error, const struct err *err)
{
    if (error) {
        ds_put_format(&r->failed, "%s\n", err->msg);
    }
    return before ? before : error;
}

int
cleanup_run(const struct cfg *cfg, struct cleanup_report *r)
{
    struct err err;
    int error = 0;

    error = note(r, error, rules_cleanup(&r->done, &err), &err);
    error = note(r, error, clean_switch(cfg, r, &err), &err);
    clean_file(cfg, r);
    error =
        note(r, error,
             host_cleanup(cfg->host_gateway, &r->done, &r->left, &err), &err);
    return error;
}
