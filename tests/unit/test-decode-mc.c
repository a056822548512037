/* SPDX-License-Identifier: Apache-2.0 */
/* The fields that are read of the objects of Antrea Multi-cluster. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <util.h>

#include "../support/decoding.h"

static void
check_mc(enum model_kind kind, const char *rest, const char *expected)
{
    char *json = xasprintf("{\"metadata\":{\"name\":\"a\",\"namespace\":"
                           "\"mc\"},%s}",
                           rest);
    char *text = !strncmp(expected, "error", 5)
                     ? xasprintf("%s\n", expected)
                     : xasprintf("%s mc/a uid= version=0 created=0%s\n",
                                 model_kind_name(kind), expected);

    decoding_check(kind, json, text);
    free(text);
    free(json);
}

static void
multicluster_gateway_has_two_addresses(void **state OVS_UNUSED)
{
    check_mc(MODEL_MC_GATEWAYS,
             "\"gatewayIP\":\"192.0.2.1\",\"internalIP\":\"198.51.100.1\"",
             " gateway=192.0.2.1 internal=198.51.100.1");
    check_mc(MODEL_MC_GATEWAYS, "\"internalIP\":\"198.51.100.1\"",
             "error: Gateway mc/a: gatewayIP: is missing");
    check_mc(MODEL_MC_GATEWAYS, "\"gatewayIP\":\"192.0.2.1\"",
             "error: Gateway mc/a: internalIP: is missing");
    check_mc(MODEL_MC_GATEWAYS,
             "\"gatewayIP\":\"224.0.0.1\",\"internalIP\":\"198.51.100.1\"",
             "error: Gateway mc/a: gatewayIP: found \"224.0.0.1\", want the "
             "IP address of a host");
}

static void
multicluster_cluster_has_networks_and_gateways(void **state OVS_UNUSED)
{
    check_mc(MODEL_MC_CLUSTERS,
             "\"spec\":{\"clusterID\":\"west\",\"serviceCIDR\":"
             "\"10.97.0.1/16\",\"podCIDRs\":[\"10.20.0.0/16\",\"x\"],"
             "\"gatewayInfos\":[{\"gatewayIP\":\"192.0.2.21\"},{},"
             "{\"gatewayIP\":\"192.0.2.22\"}]}",
             "\n  id=west services=10.97.0.0/16 gateway=192.0.2.21 "
             "gateway=192.0.2.22 pods=10.20.0.0/16\n"
             "left out: ClusterInfoImport mc/a: spec.podCIDRs[1]: found "
             "\"x\", want ADDRESS/PREFIXLEN");
    check_mc(MODEL_MC_CLUSTERS,
             "\"spec\":{\"gatewayInfos\":[{\"gatewayIP\":\"192.0.2.21\"}]}",
             "error: ClusterInfoImport mc/a: spec.serviceCIDR: is missing");
    check_mc(MODEL_MC_CLUSTERS, "\"spec\":{\"serviceCIDR\":\"10.97.0.0/16\"}",
             "error: ClusterInfoImport mc/a: spec.gatewayInfos: is "
             "missing");
    check_mc(MODEL_MC_CLUSTERS,
             "\"spec\":{\"clusterID\":\"west\\u001b[2J\",\"serviceCIDR\":"
             "\"10.97.0.0/16\",\"gatewayInfos\":[{\"gatewayIP\":"
             "\"192.0.2.21\"}]}",
             "error: ClusterInfoImport mc/a: spec.clusterID: found "
             "\"west\\u001b[2J\", want letters, digits and signs");
}

/* A switch takes a second and more to forget what has thousands of flows. */
static void
multicluster_cluster_has_a_thousand_networks(void **state OVS_UNUSED)
{
    struct ds json = DS_EMPTY_INITIALIZER;

    ds_put_cstr(&json, "\"spec\":{\"serviceCIDR\":\"10.97.0.0/16\","
                       "\"gatewayInfos\":[{\"gatewayIP\":\"192.0.2.21\"}],"
                       "\"podCIDRs\":[");
    for (int i = 0; i <= 1024; i++) {
        ds_put_format(&json, "%s\"10.20.%d.%d/32\"", i ? "," : "", i / 256,
                      i % 256);
    }
    ds_put_cstr(&json, "]}");
    check_mc(MODEL_MC_CLUSTERS, ds_cstr(&json),
             "error: ClusterInfoImport mc/a: spec.podCIDRs[1024]: more than "
             "1024 elements");
    ds_destroy(&json);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(multicluster_gateway_has_two_addresses),
        cmocka_unit_test(multicluster_cluster_has_networks_and_gateways),
        cmocka_unit_test(multicluster_cluster_has_a_thousand_networks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
