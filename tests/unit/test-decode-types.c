/* SPDX-License-Identifier: Apache-2.0 */
/* Every field that is read of Services, EndpointSlices and Nodes, set to a
 * value of every type: either it may hold that, or the object is bad and the
 * message names it and the field. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include <util.h>

#include "../support/decoding.h"

/* What a field is set to, with a letter to name it by. */
static const struct {
    char letter;
    const char *json;
} values[] = {
    { 'n', "null" },
    { 't', "true" },
    { 's', "\"text\"" },
    { 'e', "\"\"" },
    { 'a', "[]" },
    { 'o', "{}" },
    { '5', "5" },
    { '-', "-1" },
    { '.', "1.5" },
    { 'E', "1.0e3" },
    { '7', "70000" },
    { '9', "99999999999999999999999" },
    { 'A', "[[]]" },
    { 'O', "[{}]" },
    { 'I', "[5]" },
    { 'S', "[\"text\"]" },
    { 'X', "{\"text\":1}" },
};
#define ANY \
    "ntsea" \
    "o5-.E79AOISX"

/* A field by its path and the letters of the values that it may have, some of
 * which are left out; with all others the object is bad, and the message tells
 * the path. */
struct field {
    const char *path, *allowed;
};

static const char service_json[] =
    "{\"kind\":\"Service\",\"apiVersion\":\"v1\",\"metadata\":{"
    "\"name\":\"web\",\"namespace\":\"ns1\",\"uid\":\"u\","
    "\"resourceVersion\":\"5\",\"creationTimestamp\":"
    "\"2026-11-29T13:53:13Z\",\"generation\":1,\"labels\":{\"app\":\"a\","
    "\"service.kubernetes.io/service-proxy-name\":\"x\"},\"annotations\":{"
    "\"other\":\"b\",\"multicluster.antrea.io/imported-service\":\"true\"},"
    "\"managedFields\":[]},\"spec\":{\"type\":\"LoadBalancer\",\"clusterIP\":"
    "\"10.96.0.9\",\"clusterIPs\":[\"10.96.0.9\"],\"ipFamilies\":[\"IPv4\"],"
    "\"selector\":{},\"ports\":[{\"name\":\"http\",\"protocol\":\"TCP\","
    "\"port\":80,\"targetPort\":8080,\"nodePort\":30080}],\"externalIPs\":["
    "\"203.0.113.9\"],\"loadBalancerSourceRanges\":[\"203.0.113.0/24\"],"
    "\"sessionAffinity\":\"ClientIP\",\"sessionAffinityConfig\":{\"clientIP\":"
    "{\"timeoutSeconds\":60}},\"externalTrafficPolicy\":\"Local\","
    "\"internalTrafficPolicy\":\"Local\",\"healthCheckNodePort\":31000,"
    "\"publishNotReadyAddresses\":true},\"status\":{\"loadBalancer\":{"
    "\"ingress\":[{\"ip\":\"203.0.113.10\",\"ipMode\":\"VIP\",\"hostname\":"
    "\"lb\"}]}}}";

static const struct field service_fields[] = {
    { "metadata.uid", "nse" },
    { "metadata.resourceVersion", "nse" },
    { "metadata.creationTimestamp", "ne" },
    { "metadata.labels", "noX" },
    { "metadata.labels[\"service.kubernetes.io/service-proxy-name\"]", "nse" },
    { "metadata.annotations", "noX" },
    { "metadata.annotations[\"multicluster.antrea.io/imported-service\"]",
      "nse" },
    { "spec", "noX" },
    { "spec.type", "ne" },
    { "spec.clusterIP", "ne" },
    { "spec.clusterIPs", "na" },
    { "spec.clusterIPs[0]", "ne" },
    { "spec.ipFamilies", "na" },
    { "spec.ipFamilies[0]", "ne" },
    { "spec.ports", "na" },
    { "spec.ports[0]", "n" },
    { "spec.ports[0].name", "nse" },
    { "spec.ports[0].protocol", "ne" },
    { "spec.ports[0].port", "5-.E79" },
    { "spec.ports[0].nodePort", "n5-.E79" },
    { "spec.externalIPs", "naS" },
    { "spec.externalIPs[0]", "nse" },
    { "spec.loadBalancerSourceRanges", "naS" },
    { "spec.loadBalancerSourceRanges[0]", "nse" },
    { "spec.sessionAffinity", "ne" },
    { "spec.sessionAffinityConfig", "noX" },
    { "spec.sessionAffinityConfig.clientIP", "noX" },
    { "spec.sessionAffinityConfig.clientIP.timeoutSeconds", "n57-.E9" },
    { "spec.externalTrafficPolicy", "ne" },
    { "spec.internalTrafficPolicy", "ne" },
    { "spec.healthCheckNodePort", "n5" },
    { "spec.publishNotReadyAddresses", "nt" },
    { "status", "noX" },
    { "status.loadBalancer", "noX" },
    { "status.loadBalancer.ingress", "naO" },
    { "status.loadBalancer.ingress[0]", "noX" },
    { "status.loadBalancer.ingress[0].ip", "nse" },
    { "status.loadBalancer.ingress[0].ipMode", "nse" },
    /* What is not read. */
    { "kind", ANY },
    { "apiVersion", ANY },
    { "metadata.generation", ANY },
    { "metadata.managedFields", ANY },
    { "metadata.labels.app", ANY },
    { "metadata.annotations.other", ANY },
    { "spec.selector", ANY },
    { "spec.ports[0].targetPort", ANY },
    { "status.loadBalancer.ingress[0].hostname", ANY },
};

static const char slice_json[] =
    "{\"metadata\":{\"name\":\"web\",\"namespace\":\"ns1\",\"labels\":{"
    "\"kubernetes.io/service-name\":\"web\"}},\"addressType\":\"IPv4\","
    "\"endpoints\":[{\"addresses\":[\"10.10.1.5\",\"10.10.1.6\"],"
    "\"conditions\":{\"ready\":true,\"serving\":true,\"terminating\":true},"
    "\"nodeName\":\"n1\",\"zone\":\"za\",\"targetRef\":{},\"hints\":{"
    "\"forZones\":[{\"name\":\"za\"}],\"forNodes\":[{\"name\":\"n1\"}]}}],"
    "\"ports\":[{\"name\":\"http\",\"protocol\":\"TCP\",\"port\":8080,"
    "\"appProtocol\":\"x\"}]}";

static const struct field slice_fields[] = {
    { "metadata.labels", "noX" },
    { "metadata.labels[\"kubernetes.io/service-name\"]", "nse" },
    { "addressType", "" },
    { "endpoints", "naO" },
    { "endpoints[0]", "noX" },
    { "endpoints[0].addresses", "na" },
    { "endpoints[0].addresses[0]", "n" },
    { "endpoints[0].conditions", "noX" },
    { "endpoints[0].conditions.ready", "nt" },
    { "endpoints[0].conditions.serving", "nt" },
    { "endpoints[0].conditions.terminating", "nt" },
    { "endpoints[0].nodeName", "nse" },
    { "endpoints[0].hints", "noX" },
    { "endpoints[0].hints.forZones", "naO" },
    { "endpoints[0].hints.forZones[0]", "noX" },
    { "endpoints[0].hints.forZones[0].name", "nse" },
    { "endpoints[0].hints.forNodes", "naO" },
    { "endpoints[0].hints.forNodes[0]", "noX" },
    { "endpoints[0].hints.forNodes[0].name", "nse" },
    { "ports", "naO" },
    { "ports[0]", "noX" },
    { "ports[0].name", "nse" },
    { "ports[0].protocol", "ne" },
    { "ports[0].port", "n5" },
    { "endpoints[0].addresses[1]", ANY },
    { "endpoints[0].zone", ANY },
    { "endpoints[0].targetRef", ANY },
    { "ports[0].appProtocol", ANY },
};

static const char node_json[] =
    "{\"metadata\":{\"name\":\"n1\",\"deletionTimestamp\":\"x\",\"labels\":{"
    "\"topology.kubernetes.io/zone\":\"za\"},\"annotations\":{\"other\":"
    "\"b\",\"node.antrea.io/transport-addresses\":\"192.0.2.11\"}},\"spec\":{"
    "\"podCIDR\":"
    "\"10.10.1.0/24\",\"podCIDRs\":[\"10.10.1.0/24\"],\"taints\":[{\"key\":"
    "\"k\",\"effect\":\"NoSchedule\"}]},\"status\":{\"addresses\":[{\"type\":"
    "\"InternalIP\",\"address\":\"192.0.2.11\"}],\"conditions\":[]}}";

static const struct field node_fields[] = {
    { "metadata.deletionTimestamp", "nse" },
    { "metadata.labels[\"topology.kubernetes.io/zone\"]", "nse" },
    { "spec", "noX" },
    { "metadata.annotations", "noX" },
    { "metadata.annotations[\"node.antrea.io/transport-addresses\"]", "nse" },
    { "metadata.annotations.other", ANY },
    { "spec.podCIDR", "ne" },
    { "spec.podCIDRs", "na" },
    { "spec.podCIDRs[0]", "n" },
    { "spec.taints", "naO" },
    { "spec.taints[0]", "noX" },
    { "spec.taints[0].key", "nse" },
    { "status", "noX" },
    { "status.addresses", "naO" },
    { "status.addresses[0]", "noX" },
    { "status.addresses[0].type", "nse" },
    { "status.addresses[0].address", "nse" },
    { "spec.taints[0].effect", ANY },
    { "status.conditions", ANY },
};

static const char cidr_json[] =
    "{\"metadata\":{\"name\":\"c1\",\"deletionTimestamp\":\"x\","
    "\"finalizers\":[\"networking.k8s.io/service-cidr-finalizer\"]},"
    "\"spec\":{\"cidrs\":[\"10.96.0.0/12\",\"2001:db8:96::/64\"]},"
    "\"status\":{\"conditions\":[]}}";

static const struct field cidr_fields[] = {
    { "metadata.finalizers", ANY }, { "spec", "noX" },
    { "spec.cidrs", "na" },         { "spec.cidrs[0]", "n" },
    { "spec.cidrs[1]", "n" },       { "status.conditions", ANY },
};

static const char gateway_json[] =
    "{\"metadata\":{\"name\":\"web\",\"namespace\":\"ns1\"},"
    "\"gatewayIP\":\"192.0.2.11\",\"internalIP\":\"198.51.100.11\","
    "\"serviceCIDR\":\"10.96.0.0/16\",\"wireGuard\":{}}";

static const struct field gateway_fields[] = {
    { "gatewayIP", "" },
    { "internalIP", "" },
    { "serviceCIDR", ANY },
    { "wireGuard", ANY },
};

static const char cluster_json[] =
    "{\"metadata\":{\"name\":\"web\",\"namespace\":\"ns1\"},\"spec\":{"
    "\"clusterID\":\"west\",\"serviceCIDR\":\"10.97.0.0/16\","
    "\"podCIDRs\":[\"10.20.0.0/16\"],\"gatewayInfos\":[{\"gatewayIP\":"
    "\"192.0.2.21\"},{\"gatewayIP\":\"192.0.2.22\"}],"
    "\"wireGuard\":{}},\"status\":{}}";

static const struct field cluster_fields[] = {
    { "spec", "" },
    { "spec.clusterID", "nse" },
    { "spec.serviceCIDR", "" },
    { "spec.podCIDRs", "naS" },
    { "spec.podCIDRs[0]", "nse" },
    { "spec.gatewayInfos", "" },
    { "spec.gatewayInfos[1]", "noX" },
    { "spec.gatewayInfos[1].gatewayIP", "nse" },
    { "spec.wireGuard", ANY },
    { "status", ANY },
};

/* Takes one step of '*path' from 'json'.  Sets '*ret_key' to the member's
 * name, malloc()ed, or to NULL for an element of an array. */
static void
next_step(const char **path, char **ret_key, size_t *ret_index)
{
    const char *p = *path + (**path == '.');
    size_t n;

    *ret_key = NULL;
    if (!strncmp(p, "[\"", 2)) {
        n = strcspn(p + 2, "\"");
        *ret_key = xmemdup0(p + 2, n);
        *path = p + 2 + n + 2;
    } else if (*p == '[') {
        *ret_index = strtoul(p + 1, CONST_CAST(char **, path), 10);
        (*path)++;
    } else {
        n = strcspn(p, ".[");
        *ret_key = xmemdup0(p, n);
        *path = p + n;
    }
}

/* Sets what is at 'path' in 'json' to 'value', which is taken. */
static void
set_at(json_t *json, const char *path, json_t *value)
{
    size_t index = 0;
    char *key;

    next_step(&path, &key, &index);
    if (*path) {
        json_t *child =
            key ? json_object_get(json, key) : json_array_get(json, index);

        assert_non_null(child);
        set_at(child, path, value);
    } else if (key) {
        assert_non_null(json_object_get(json, key));
        json_object_set_new(json, key, value);
    } else {
        json_array_set_new(json, index, value);
    }
    free(key);
}

/* Returns 'json' with what is at 'path' replaced by the text 'value', which
 * need not be one that a JSON library can hold. */
static char *
replace(const char *json, const char *path, const char *value)
{
    json_t *root = json_loads(json, 0, NULL);
    char *text, *mark, *ret;

    set_at(root, path, json_string("@"));
    text = json_dumps(root, JSON_COMPACT);
    mark = strstr(text, "\"@\"");
    ret = xasprintf("%.*s%s%s", (int) (mark - text), text, value, mark + 3);
    free(text);
    json_decref(root);
    return ret;
}

static void
check_value(enum model_kind kind, const char *json, const struct field *field,
            size_t i)
{
    char *changed = replace(json, field->path, values[i].json);
    bool good = strchr(field->allowed, values[i].letter) != NULL;
    struct ds found = DS_EMPTY_INITIALIZER, error = DS_EMPTY_INITIALIZER;

    decoding_format(kind, changed, strlen(changed), &found);
    ds_put_format(&error, "error: %s %s: ", model_kind_name(kind),
                  kind == MODEL_NODES           ? "n1"
                  : kind == MODEL_SERVICE_CIDRS ? "c1"
                                                : "ns1/web");
    ds_put_cstr(&error, field->path);
    if (good != (strncmp(ds_cstr(&found), "error", 5) != 0)
        || (!good
            && strncmp(ds_cstr(&found), ds_cstr(&error), error.length))) {
        fail_msg("%s = %s: %s", field->path, values[i].json, ds_cstr(&found));
    }
    ds_destroy(&error);
    ds_destroy(&found);
    free(changed);
}

static void
d22_field_of_a_wrong_type_makes_the_object_bad_and_is_named(
    void **state OVS_UNUSED)
{
    static const struct {
        enum model_kind kind;
        const char *json;
        const struct field *fields;
        size_t n_fields;
    } kinds[] = {
        { MODEL_SERVICES, service_json, service_fields,
          ARRAY_SIZE(service_fields) },
        { MODEL_SLICES, slice_json, slice_fields, ARRAY_SIZE(slice_fields) },
        { MODEL_NODES, node_json, node_fields, ARRAY_SIZE(node_fields) },
        { MODEL_SERVICE_CIDRS, cidr_json, cidr_fields,
          ARRAY_SIZE(cidr_fields) },
        { MODEL_MC_GATEWAYS, gateway_json, gateway_fields,
          ARRAY_SIZE(gateway_fields) },
        { MODEL_MC_CLUSTERS, cluster_json, cluster_fields,
          ARRAY_SIZE(cluster_fields) },
    };

    for (size_t k = 0; k < ARRAY_SIZE(kinds); k++) {
        for (size_t f = 0; f < kinds[k].n_fields; f++) {
            for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
                check_value(kinds[k].kind, kinds[k].json, &kinds[k].fields[f],
                            i);
            }
        }
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            d22_field_of_a_wrong_type_makes_the_object_bad_and_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
