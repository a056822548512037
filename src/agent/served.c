/* SPDX-License-Identifier: Apache-2.0 */

/* What keeps a whole Service from being served: its type, or the
 * configuration. */

#include "served.h"

/* A Service is skipped by its name or by any of its cluster IPs. */
const char *
served_why_not(const struct cfg *cfg, const struct svc *svc)
{
    if (!cfg->antrea_proxy_enable) {
        return "antreaProxy.enable is false";
    } else if (svc->type == SVC_EXTERNAL_NAME) {
        return "it is of type ExternalName, which only DNS serves";
    } else if (svc->headless) {
        return "it is headless (clusterIP None), so that DNS gives its "
               "endpoints";
    } else if (!svc_is_served(svc)) {
        return "it has no cluster IP yet";
    }
    for (int f = 0; f < N_IP_FAMILIES; f++) {
        if (cfg_skips_service(cfg, svc->meta.ns, svc->meta.name,
                              &svc->cluster_ips[f])) {
            return "antreaProxy.skipServices has its name or its cluster IP";
        }
    }
    return NULL;
}
