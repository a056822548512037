/* SPDX-License-Identifier: Apache-2.0 */
/* Watch streams.
 *
 * The first byte is the size of the first piece, the second that of all
 * others; the third says, modulo 3, of which kind the objects are. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <util.h>

#include "ofproxyd/kube/decode.h"
#include "ofproxyd/kube/stream.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What came out of a stream, enough to compare two readings. */
struct outcome {
    bool failed, partial;
    size_t n_events;
    uint32_t sum;
};

static void
add_event(struct outcome *o, enum model_kind kind,
          const struct kube_event *event)
{
    struct intern_pool *pool = intern_pool_create();
    struct kube_object object = { .kind = kind };
    struct kube_status status;
    struct err err;

    ovs_assert(event->object[0] == '{');
    ovs_assert(strlen(event->resource_version)
               < sizeof event->resource_version);
    o->n_events++;
    o->sum = o->sum * 31 + event->type * 2 + event->initial_events_end;
    for (size_t i = 0; i < event->object_len; i++) {
        o->sum = o->sum * 31 + event->object[i];
    }
    if (event->type == KUBE_EVENT_ERROR) {
        ignore(kube_status_parse(event->object, event->object_len, &status));
    } else if (!kube_decode(event->object, event->object_len, pool, &object,
                            &err)) {
        svc_free(object.svc, pool);
        slice_free(object.slice, pool);
        node_free(object.node, pool);
    }
    intern_pool_destroy(pool);
}

/* Hands in one piece, from a copy so that no reading beyond its end stays
 * unseen. */
static void
feed(struct kube_events *events, enum model_kind kind, const char *data,
     size_t n, struct outcome *o)
{
    char *piece = xmemdup(data, n);
    struct kube_event event;
    struct err err;

    o->failed = kube_events_feed(events, piece, n, &err);
    while (!o->failed && kube_events_next(events, &event)) {
        add_event(o, kind, &event);
    }
    free(piece);
}

static struct outcome
read_events(enum model_kind kind, const char *text, size_t len, size_t first,
            size_t others)
{
    struct kube_events *events = kube_events_create();
    struct outcome o = { .failed = false };
    size_t pos = 0;

    while (!o.failed && pos < len) {
        size_t n = pos ? others : first;

        n = MIN(n, len - pos);
        feed(events, kind, text + pos, n, &o);
        pos += n;
    }
    if (!o.failed) {
        feed(events, kind, "", 0, &o);
    }
    o.partial = !o.failed && kube_events_partial(events);
    kube_events_destroy(events);
    return o;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 3) {
        const char *text = (const char *) data + 3;
        enum model_kind kind = data[2] % N_MODEL_KINDS;
        struct outcome whole, pieces;

        whole = read_events(kind, text, size - 3, size, size);
        pieces = read_events(kind, text, size - 3, 1 + data[0], 1 + data[1]);
        ovs_assert(whole.failed == pieces.failed);
        ovs_assert(whole.partial == pieces.partial);
        ovs_assert(whole.n_events == pieces.n_events);
        ovs_assert(whole.sum == pieces.sum);
    }
    return 0;
}
