/* SPDX-License-Identifier: Apache-2.0 */

/* Other clusters, a line each. */

#include "mc.h"

#include <inttypes.h>

#include <util.h>

void
mc_format_peer(const struct mc_peer *c, struct ds *ds)
{
    char buf[CIDR_STRLEN];

    ds_put_format(ds, "  %s (%s):", c->name, c->cluster_id);
    for (size_t i = 0; i < c->n_cidrs; i++) {
        ds_put_format(ds, " %s", cidr_to_string(&c->cidrs[i], buf));
    }
    ds_put_cstr(ds, c->n_cidrs ? "" : " no network,");
    ds_put_cstr(ds, c->n_gateways ? " by" : " no gateway");
    for (size_t i = 0; i < c->n_gateways; i++) {
        ds_put_format(ds, " %s", ip_to_string(&c->gateways[i], buf));
    }
    ds_put_format(ds, ", id %" PRIu32 "\n", c->object_id);
}

void
mc_format_role(const struct mc_state *state, struct ds *ds)
{
    static const char *const roles[] = {
        [PIPE_MC_NONE] = "no gateway",
        [PIPE_MC_REGULAR] = "regular node",
        [PIPE_MC_GATEWAY] = "gateway",
    };
    char buf[IP_STRLEN];

    ds_put_format(ds, "multicluster: %s", roles[state->role]);
    if (state->gateway) {
        ds_put_format(ds, "; Gateway %s, for other clusters %s",
                      state->gateway, ip_to_string(&state->gateway_ip, buf));
        if (!ip_is_none(&state->internal_ip)) {
            ds_put_format(ds, ", for nodes %s",
                          ip_to_string(&state->internal_ip, buf));
        }
    }
    ds_put_format(ds, ", other clusters: %" PRIuSIZE "\n", state->n_clusters);
}
