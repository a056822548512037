/* SPDX-License-Identifier: Apache-2.0 */
/* What was on the bridge before us: what an agent of Antrea's left is told
 * apart from what belongs to others, and goes; what such an agent puts while
 * ours is in force goes, too.
 *
 * Groups and meters have no cookies.  That agent takes all of the bridge for
 * its own and clears it when it starts, so all that no flow of others needs
 * is its. */

#include "ofconn-private.h"

#include <limits.h>
#include <stdlib.h>

#include <byte-order.h>
#include <openvswitch/match.h>
#include <openvswitch/ofp-actions.h>
#include <openvswitch/ofp-flow.h>
#include <openvswitch/ofp-meter.h>
#include <openvswitch/ofp-table.h>
#include <openvswitch/ofp-util.h>
#include <random.h>
#include <timeval.h>
#include <util.h>

#include "ofproxyd/flow/cookie.h"

/* Waits before flows of an agent that goes on are removed: it will not put one
 * again that is gone, so usually there are few. */
#define INTRUDER_MIN_MS 100
#define INTRUDER_MAX_MS 30000

/* After so long without any, the next one is removed at once. */
#define INTRUDER_QUIET_MS 60000

/* Beyond, groups of predecessors are left where they are. */
#define MAX_GROUPS 1000000

/* Numbers in use. */

static void
used_add(struct ofconn_used *used, uint32_t id)
{
    if (used->n >= used->allocated) {
        used->ids = x2nrealloc(used->ids, &used->allocated, sizeof *used->ids);
    }
    used->ids[used->n++] = id;
}

static int
compare_u32(const void *a_, const void *b_)
{
    const uint32_t *a = a_, *b = b_;

    return *a < *b ? -1 : *a > *b;
}

static void
used_sort(struct ofconn_used *used)
{
    if (used->n) {
        qsort(used->ids, used->n, sizeof *used->ids, compare_u32);
    }
}

/* 'used' is sorted. */
static bool
used_has(const struct ofconn_used *used, uint32_t id)
{
    return used->n && bsearch(&id, used->ids, used->n, sizeof id, compare_u32);
}

static void
add_group(uint32_t group_id, void *used)
{
    used_add(used, group_id);
}

/* Life. */

bool
ofconn_old_is_expected(const struct ofconn *c)
{
    const struct flowtab_predecessor *p = flowtab_predecessor(c->flowtab);

    return p->n_rounds || p->groups || p->normal;
}

void
ofconn_old_init(struct ofconn *c)
{
    c->old.backoff =
        (struct backoff) BACKOFF_INIT(INTRUDER_MIN_MS, INTRUDER_MAX_MS);
}

void
ofconn_old_uninit(struct ofconn *c)
{
    fout_clear(&c->old.groups);
    free(c->old.groups.items);
    free(c->old.used_groups.ids);
    free(c->old.used_meters.ids);
}

void
ofconn_old_reset(struct ofconn *c)
{
    c->old.meters_xid = 0;
    c->old.tables_xid = 0;
}

/* The dump. */

void
ofconn_old_begin(struct ofconn *c)
{
    fout_clear(&c->old.groups);
    c->old.used_groups.n = 0;
    c->old.used_meters.n = 0;
    c->old.meters_gone = false;
}

void
ofconn_old_note_flow(struct ofconn *c, const struct fitem *item,
                     const struct ofputil_flow_stats *fs)
{
    const struct ofpact *a;

    fitem_for_each_group(item, add_group, &c->old.used_groups);
    OFPACT_FOR_EACH_FLATTENED(a, fs->ofpacts, fs->ofpacts_len)
    {
        if (a->type == OFPACT_METER) {
            used_add(&c->old.used_meters, ofpact_get_METER(a)->meter_id);
        }
    }
}

void
ofconn_old_note_group(struct ofconn *c, struct fitem *item)
{
    if (flowtab_concerns(c->flowtab, item) && c->old.groups.n < MAX_GROUPS) {
        fout_add(&c->old.groups, item);
    } else {
        fitem_unref(item);
    }
}

/* Takes those groups that others use out of 'groups'; what their buckets name
 * is used as well.  Returns how many were taken out. */
static size_t
take_used_groups(struct ofconn_old *old)
{
    size_t n = 0;

    for (size_t i = 0; i < old->groups.n; i++) {
        struct fitem *item = old->groups.items[i];

        if (used_has(&old->used_groups, fitem_group_id(item))) {
            struct ofconn_used more = { NULL, 0, 0 };
            fitem_for_each_group(item, add_group, &more);
            for (size_t j = 0; j < more.n; j++) {
                used_add(&old->used_groups, more.ids[j]);
            }
            free(more.ids);
            used_sort(&old->used_groups);
            fitem_unref(item);
        } else {
            old->groups.items[n++] = item;
        }
    }

    size_t n_taken = old->groups.n - n;
    old->groups.n = n;
    return n_taken;
}

void
ofconn_old_end(struct ofconn *c)
{
    struct ofconn_old *old = &c->old;

    used_sort(&old->used_groups);
    used_sort(&old->used_meters);
    while (take_used_groups(old)) {
        /* Groups may name groups that came before them. */
    }
    for (size_t i = 0; i < old->groups.n; i++) {
        flowtab_have(c->flowtab, fitem_ref(old->groups.items[i]));
    }
    fout_clear(&old->groups);
}

/* The takeover. */

void
ofconn_old_send_deletes(struct ofconn *c)
{
    /* Categories 0 to 7, and 8. */
    static const struct {
        uint64_t cookie, mask;
    } parts[] = {
        { 0, UINT64_C(0xfffff8ff00000000) },
        { UINT64_C(8) << 40, UINT64_C(0xffffffff00000000) },
    };
    const struct flowtab_predecessor *p = flowtab_predecessor(c->flowtab);
    size_t n = p->n_rounds * ARRAY_SIZE(parts);

    BUILD_ASSERT_DECL(ANTREA_CATEGORY_MAX == 8);
    c->bundle.deletes_xid = ofconn_take_xids(c, n);
    c->bundle.n_deletes = n;
    for (size_t i = 0; i < n; i++) {
        uint64_t round = p->rounds[i / ARRAY_SIZE(parts)];
        size_t part = i % ARRAY_SIZE(parts);
        struct ofputil_flow_mod fm = {
            .cookie = htonll(round << 48 | parts[part].cookie),
            .cookie_mask = htonll(parts[part].mask),
            .command = OFPFC_DELETE,
            .table_id = OFPTT_ALL,
            .buffer_id = UINT32_MAX,
            .out_port = OFPP_ANY,
            .out_group = OFPG_ANY,
        };
        struct match match;

        match_init_catchall(&match);
        minimatch_init(&fm.match, &match);
        struct ofpbuf *msg = ofputil_encode_flow_mod(&fm, OFPUTIL_P_OF15_OXM);
        minimatch_destroy(&fm.match);
        struct ofp_header *oh = msg->data;
        oh->xid = htonl(c->bundle.deletes_xid + i);
        ofpmsg_update_length(msg);
        ofconn_bundle_add(c, msg);
    }
}

int
ofconn_old_note_intruder(struct ofconn *c)
{
    long long int now_ms = time_msec();

    c->stats.n_intruders++;
    if (now_ms > c->old.intruded_ms + INTRUDER_QUIET_MS) {
        backoff_reset(&c->old.backoff);
    }
    c->old.intruded_ms = now_ms;
    if (c->repair_ms == LLONG_MAX) {
        c->old.wait_ms = backoff_next(&c->old.backoff, random_uint32());
    }
    return c->old.wait_ms;
}

/* Meters. */

void
ofconn_delete_meters(struct ofconn *c, uint32_t first, unsigned int n)
{
    if (c->state != S_FOLLOW || c->old.meters_xid || c->old.meters_gone) {
        return;
    }
    for (uint32_t id = first; id < first + n; id++) {
        struct ofputil_meter_mod mm = {
            .command = OFPMC13_DELETE,
            .meter = { .meter_id = id },
        };

        if (!used_has(&c->old.used_meters, id)) {
            ofconn_send(c, ofputil_encode_meter_mod(OFP15_VERSION, &mm));
        }
    }
    if (c->table_is_ours) {
        c->old.tables_xid =
            ofconn_send(c,
                        ofputil_encode_table_features_request(OFP15_VERSION));
    }
    c->old.meters_xid =
        ofconn_send(c, ofputil_encode_barrier_request(OFP15_VERSION));
}

/* Table names.  (Those in the database go before those that a controller
 * gives, so that ours are safe.) */

void
ofconn_old_recv_tables(struct ofconn *c, struct ofpbuf *msg)
{
    const struct ofp_header *oh = msg->data;
    struct ovs_list requests = OVS_LIST_INITIALIZER(&requests);
    struct ofputil_table_features tf;
    struct ofpbuf *request;
    bool any = false;

    /* The answer to the change below says nothing new. */
    if (!c->old.tables_xid || ntohl(oh->xid) != c->old.tables_xid) {
        return;
    }
    request = ofputil_encode_table_features_request(OFP15_VERSION);
    ovs_list_push_back(&requests, &request->list_node);
    while (!ofputil_decode_table_features(msg, &tf, NULL)) {
        if (tf.name[0] && !c->table_is_ours(tf.table_id)) {
            tf.command = OFPTFC15_MODIFY;
            tf.any_properties = false;
            tf.name[0] = '\0';
            ofputil_append_table_features(&tf, NULL, &requests);
            any = true;
        }
    }

    uint32_t xid = ofconn_take_xids(c, 1);
    LIST_FOR_EACH_POP (request, list_node, &requests) {
        struct ofp_header *header = request->data;
        header->xid = htonl(xid);
        if (any) {
            rconn_send(c->rconn, request, NULL);
        } else {
            ofpbuf_delete(request);
        }
    }
}

bool
ofconn_old_recv_barrier(struct ofconn *c, uint32_t xid)
{
    if (!c->old.meters_xid || xid != c->old.meters_xid) {
        return false;
    }
    c->old.meters_xid = 0;
    c->old.meters_gone = true;
    return true;
}

bool
ofconn_meters_are_gone(const struct ofconn *c)
{
    return c->old.meters_gone;
}
