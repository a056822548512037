/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of the API server: objects, lists and Status bodies.
 *
 * The first byte says what the rest is, modulo 5: a Service ('d'), an
 * EndpointSlice ('e'), a Node or one of the kinds of which there are few
 * ('f'), a list ('g') or a Status ('h').  Of a list the second byte is the
 * size of its pieces. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <util.h>

#include "ofproxyd/kube/decode.h"
#include "ofproxyd/kube/stream.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
decode(enum model_kind kind, const char *text, size_t len)
{
    struct intern_pool *pool = intern_pool_create();
    struct kube_object object = { .kind = kind };
    struct err err;

    if (!kube_decode(text, len, pool, &object, &err)) {
        ovs_assert(object.name[0]);
        if (object.node) {
            ovs_assert((object.left_out.msg[0] != '\0')
                       == object.node->transport_is_bad);
        }
    } else {
        ovs_assert(!object.svc && !object.slice && !object.node);
    }
    svc_free(object.svc, pool);
    slice_free(object.slice, pool);
    node_free(object.node, pool);
    plain_free(object.plain, pool);
    intern_pool_destroy(pool);
}

/* What came out of a list, enough to compare two readings. */
struct outcome {
    int error;
    size_t n_items, n_bytes;
    uint32_t sum;
};

static struct outcome
read_list(const char *text, size_t len, size_t piece_size)
{
    struct outcome ret = { .error = 0 };
    struct kube_list *list = kube_list_create();
    const char *item, *rv, *cont;
    struct err err;
    size_t item_len;

    for (size_t pos = 0; !ret.error && pos < len; pos += piece_size) {
        size_t n = MIN(piece_size, len - pos);
        char *piece = xmemdup(text + pos, n);

        ret.error = kube_list_feed(list, piece, n, &err);
        while (!ret.error && kube_list_next(list, &item, &item_len)) {
            ret.n_items++;
            ret.n_bytes += item_len;
            for (size_t i = 0; i < item_len; i++) {
                ret.sum = ret.sum * 31 + item[i];
            }
        }
        free(piece);
    }
    if (kube_list_end(list, &rv, &cont, &err)) {
        ret.error = 1;
    } else {
        ovs_assert(rv[0] && cont);
    }
    kube_list_destroy(list);
    return ret;
}

static void
check_list(const char *text, size_t len)
{
    if (len) {
        size_t piece = 1 + (uint8_t) text[0];
        struct outcome whole = read_list(text + 1, len - 1, SIZE_MAX / 2);
        struct outcome pieces = read_list(text + 1, len - 1, piece);

        ovs_assert(whole.error == pieces.error);
        ovs_assert(whole.n_items == pieces.n_items);
        ovs_assert(whole.n_bytes == pieces.n_bytes);
        ovs_assert(whole.sum == pieces.sum);
    }
}

static void
check_status(const char *text, size_t len)
{
    struct kube_status status;

    if (kube_status_parse(text, len, &status)) {
        ovs_assert(!status.code);
    }
    ovs_assert(strlen(status.message) < sizeof status.message);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size) {
        /* A copy, so that no reading beyond its end stays unseen. */
        char *text = xmemdup(data + 1, size - 1);

        switch (data[0] % 5) {
        case 0: decode(MODEL_SERVICES, text, size - 1); break;
        case 1: decode(MODEL_SLICES, text, size - 1); break;
        case 2:
            decode(MODEL_NODES, text, size - 1);
            decode(MODEL_SERVICE_CIDRS, text, size - 1);
            decode(MODEL_MC_GATEWAYS, text, size - 1);
            decode(MODEL_MC_CLUSTERS, text, size - 1);
            break;
        case 3: check_list(text, size - 1); break;
        case 4: check_status(text, size - 1); break;
        }
        free(text);
    }
    return 0;
}
