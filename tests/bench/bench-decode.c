/* SPDX-License-Identifier: Apache-2.0 */
/* How fast lists are cut and decoded.
 *
 * Makes the list answers of a cluster as an API server would send them
 * (managedFields, owner references, a target for each endpoint), feeds them in
 * pieces as they come from the network, and prints what cutting alone and
 * cutting with decoding cost.
 *
 *     bench-decode [SERVICES [ENDPOINTS-PER-SERVICE [PIECE-BYTES]]] */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <openvswitch/dynamic-string.h>
#include <util.h>

#include "ofproxyd/kube/decode.h"
#include "ofproxyd/kube/stream.h"

static void
put_meta(struct ds *s, const char *kind, int i, const char *labels)
{
    ds_put_format(
        s,
        "{\"metadata\":{\"name\":\"%s-%d\",\"namespace\":\"ns-%d\",\"uid\":"
        "\"80c9be92-347f-498e-9708-%012d\",\"resourceVersion\":\"%d\","
        "\"creationTimestamp\":\"2026-11-29T13:53:13Z\",\"labels\":{%s\"app\":"
        "\"app-%d\"},",
        kind, i, i % 100, i, 1000 + i, labels, i);
}

static void
put_service(struct ds *s, int i)
{
    put_meta(s, "svc", i, "");
    ds_put_format(
        s,
        "\"managedFields\":[{\"manager\":\"kubectl-create\",\"operation\":"
        "\"Update\",\"apiVersion\":\"v1\",\"time\":\"2026-11-29T13:53:13Z\","
        "\"fieldsType\":\"FieldsV1\",\"fieldsV1\":{\"f:metadata\":{"
        "\"f:labels\":{\".\":{},\"f:app\":{}}},\"f:spec\":{"
        "\"f:internalTrafficPolicy\":{},\"f:ipFamilyPolicy\":{},\"f:ports\":{"
        "\".\":{},\"k:{\\\"port\\\":80,\\\"protocol\\\":\\\"TCP\\\"}\":{"
        "\".\":{},\"f:name\":{},\"f:port\":{},\"f:protocol\":{},"
        "\"f:targetPort\":{}}},\"f:selector\":{},\"f:sessionAffinity\":{},"
        "\"f:type\":{}}}}]},\"spec\":{\"ports\":[{\"name\":\"http\","
        "\"protocol\":\"TCP\",\"port\":80,\"targetPort\":8080}],\"selector\":{"
        "\"app\":\"app-%d\"},\"clusterIP\":\"10.96.%d.%d\",\"clusterIPs\":["
        "\"10.96.%d.%d\"],\"type\":\"ClusterIP\",\"sessionAffinity\":\"None\","
        "\"ipFamilies\":[\"IPv4\"],\"ipFamilyPolicy\":\"SingleStack\","
        "\"internalTrafficPolicy\":\"Cluster\"},\"status\":{\"loadBalancer\":"
        "{}}}",
        i, i / 250 % 250, i % 250 + 1, i / 250 % 250, i % 250 + 1);
}

static void
put_endpoint(struct ds *s, int service, int i)
{
    int node = (service + i) % 200;

    ds_put_format(
        s,
        "{\"addresses\":[\"10.%d.%d.%d\"],\"conditions\":{\"ready\":true,"
        "\"serving\":true,\"terminating\":false},\"nodeName\":"
        "\"worker-%d.example.com\",\"targetRef\":{\"kind\":\"Pod\","
        "\"namespace\":\"ns-%d\",\"name\":\"app-%d-7c5ddbdf54-%05d\",\"uid\":"
        "\"8a6e0804-2bd0-4672-b79d-%012d\"},\"zone\":\"zone-%d\"}",
        128 + node / 250, node % 250, (service * 7 + i) % 250 + 1, node,
        service % 100, service, i, service * 100 + i, node % 3);
}

static void
put_slice(struct ds *s, int i, int n_endpoints)
{
    char labels[160];

    snprintf(labels, sizeof labels,
             "\"endpointslice.kubernetes.io/managed-by\":\"endpointslice-"
             "controller.k8s.io\",\"kubernetes.io/service-name\":\"svc-%d\",",
             i);
    put_meta(s, "slice", i, labels);
    ds_put_format(
        s,
        "\"annotations\":{\"endpoints.kubernetes.io/last-change-trigger-time\""
        ":\"2026-11-29T13:50:00Z\"},\"ownerReferences\":[{\"apiVersion\":"
        "\"v1\",\"kind\":\"Service\",\"name\":\"svc-%d\",\"uid\":"
        "\"80c9be92-347f-498e-9708-%012d\",\"controller\":true,"
        "\"blockOwnerDeletion\":true}],\"managedFields\":[{\"manager\":"
        "\"kube-controller-manager\",\"operation\":\"Update\",\"apiVersion\":"
        "\"discovery.k8s.io/v1\",\"time\":\"2026-11-29T13:53:14Z\","
        "\"fieldsType\":\"FieldsV1\",\"fieldsV1\":{\"f:addressType\":{},"
        "\"f:endpoints\":{},\"f:metadata\":{\"f:annotations\":{\".\":{},"
        "\"f:endpoints.kubernetes.io/last-change-trigger-time\":{}},"
        "\"f:generateName\":{},\"f:labels\":{\".\":{},\"f:app\":{},"
        "\"f:endpointslice.kubernetes.io/managed-by\":{},"
        "\"f:kubernetes.io/service-name\":{}},\"f:ownerReferences\":{\".\":{},"
        "\"k:{\\\"uid\\\":\\\"80c9be92-347f-498e-9708-%012d\\\"}\":{}}},"
        "\"f:ports\":{}}}]},\"addressType\":\"IPv4\",\"endpoints\":[",
        i, i, i);
    for (int j = 0; j < n_endpoints; j++) {
        ds_put_cstr(s, j ? "," : "");
        put_endpoint(s, i, j);
    }
    ds_put_cstr(s, "],\"ports\":[{\"name\":\"http\",\"protocol\":\"TCP\","
                   "\"port\":8080}]}");
}

static void
make_list(struct ds *s, enum model_kind kind, int n, int n_endpoints)
{
    ds_put_format(s,
                  "{\"kind\":\"%sList\",\"apiVersion\":\"v1\",\"metadata\":{"
                  "\"resourceVersion\":\"99999\"},\"items\":[",
                  model_kind_name(kind));
    for (int i = 0; i < n; i++) {
        ds_put_cstr(s, i ? "," : "");
        if (kind == MODEL_SERVICES) {
            put_service(s, i);
        } else {
            put_slice(s, i, n_endpoints);
        }
    }
    ds_put_cstr(s, "]}");
}

static double
now_s(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return ts.tv_sec + ts.tv_nsec / 1e9;
}

static void
check(int error, const struct err *err)
{
    if (error) {
        fprintf(stderr, "bench-decode: %s\n", err->msg);
        exit(1);
    }
}

/* Cuts the list and, with a pool, decodes its items into 'objects'.  Returns
 * the number of items. */
static size_t
read_list(const struct ds *body, size_t piece, enum model_kind kind,
          struct intern_pool *pool, struct kube_object objects[])
{
    struct kube_list *list = kube_list_create();
    const char *text, *rv, *cont;
    struct err err;
    size_t len, n = 0;

    for (size_t pos = 0; pos < body->length; pos += piece) {
        check(kube_list_feed(list, body->string + pos,
                             MIN(piece, body->length - pos), &err),
              &err);
        while (kube_list_next(list, &text, &len)) {
            if (pool) {
                objects[n].kind = kind;
                check(kube_decode(text, len, pool, &objects[n], &err), &err);
            }
            n++;
        }
    }
    check(kube_list_end(list, &rv, &cont, &err), &err);
    kube_list_destroy(list);
    return n;
}

static void
print_cost(const char *what, double s, size_t n_bytes, size_t n)
{
    printf("%-24s %7zu objects %7.2f MB %7.1f ms %7.1f MB/s %7.2f us/object\n",
           what, n, n_bytes / 1e6, s * 1e3, n_bytes / 1e6 / s, s * 1e6 / n);
}

/* Prints the costs of one list, and returns the time to cut and decode it. */
static double
bench_list(const struct ds *body, size_t piece, enum model_kind kind,
           size_t n_max)
{
    struct kube_object *objects = xcalloc(n_max, sizeof *objects);
    struct intern_pool *pool = intern_pool_create();
    double start, cut, all;
    char what[64];
    size_t n;

    start = now_s();
    n = read_list(body, piece, kind, NULL, NULL);
    cut = now_s() - start;
    start = now_s();
    n = read_list(body, piece, kind, pool, objects);
    all = now_s() - start;
    snprintf(what, sizeof what, "%s cut", model_kind_name(kind));
    print_cost(what, cut, body->length, n);
    snprintf(what, sizeof what, "%s all", model_kind_name(kind));
    print_cost(what, all, body->length, n);
    for (size_t i = 0; i < n; i++) {
        svc_free(objects[i].svc, pool);
        slice_free(objects[i].slice, pool);
    }
    intern_pool_destroy(pool);
    free(objects);
    return all;
}

int
main(int argc, char *argv[])
{
    int n = argc > 1 ? atoi(argv[1]) : 10000;
    int n_endpoints = argc > 2 ? atoi(argv[2]) : 10;
    int piece = argc > 3 ? atoi(argv[3]) : 16384;
    struct ds services = DS_EMPTY_INITIALIZER, slices = DS_EMPTY_INITIALIZER;
    double total;

    if (n < 1 || n_endpoints < 0 || piece < 1) {
        fprintf(stderr,
                "usage: bench-decode [SERVICES [ENDPOINTS [PIECE]]]\n");
        return 2;
    }
    make_list(&services, MODEL_SERVICES, n, 0);
    make_list(&slices, MODEL_SLICES, n, n_endpoints);
    total = bench_list(&services, piece, MODEL_SERVICES, n)
            + bench_list(&slices, piece, MODEL_SLICES, n);
    print_cost("both", total, services.length + slices.length, 2 * n);
    ds_destroy(&services);
    ds_destroy(&slices);
    return 0;
}
