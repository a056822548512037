/* SPDX-License-Identifier: Apache-2.0 */
/* Takes note of what others do to flows and groups of ours, and of flows
 * that they put in the place of ours.
 *
 * Our own changes come back as OFPFME_ABBREV, or, while the switch has paused
 * the monitor, in full: they are then written down a second time, which
 * changes nothing. */

#include "ofconn-private.h"

#include <byte-order.h>
#include <openflow/openflow-1.5.h>
#include <openvswitch/ofp-flow.h>
#include <openvswitch/ofp-group.h>
#include <openvswitch/ofp-meter.h>
#include <openvswitch/ofp-monitor.h>
#include <openvswitch/vlog.h>
#include <timeval.h>

#include "ofproxyd/flow/cookie.h"

VLOG_DEFINE_THIS_MODULE(ofconn_watch);

static struct vlog_rate_limit rl = VLOG_RATE_LIMIT_INIT(5, 5);

/* How long to wait for more before repairing what others changed: long
 * enough that a fight over one flow costs little, and well below a second. */
#define REPAIR_DELAY_MS 100

static void
schedule_repair(struct ofconn *c)
{
    c->repair_ms = MIN(c->repair_ms, time_msec() + REPAIR_DELAY_MS);
}

/* A flow is on the switch: a reference that this takes. */
static void
have_flow(struct ofconn *c, struct fitem *item)
{
    bool intruder =
        flowtab_is_antrea(c->flowtab, item) && !flowtab_takes_over(c->flowtab);
    bool in_the_way = flowtab_find_have(c->flowtab, item);

    /* A flow that isn't ours may stand in the place of one of ours: the table
     * finds out. */
    flowtab_have(c->flowtab, item);
    if (intruder) {
        int wait_ms = ofconn_old_note_intruder(c);
        if (!in_the_way) {
            c->repair_ms = MIN(c->repair_ms, time_msec() + wait_ms);
            return;
        }
    }
    schedule_repair(c);
}

static void
note_unreadable(const struct ofconn *c, const char *what, enum ofperr error)
{
    VLOG_DBG_RL(&rl, "%s: unreadable notice of %s: %s", c->target, what,
                ofperr_to_string(error));
}

/* The flow is there (with its actions, but its flags aren't told). */
static struct fitem *
item_from_update(const struct ofputil_flow_update *fu)
{
    struct fitem_flow flow = {
        .table = fu->table_id,
        .priority = fu->priority,
        .cookie = ntohll(fu->cookie),
        .idle_timeout = fu->idle_timeout,
        .hard_timeout = fu->hard_timeout,
        .match = &fu->match,
        .ofpacts = fu->ofpacts,
        .ofpacts_len = fu->ofpacts_len,
    };
    return fitem_from_flow(&flow);
}

static void
recv_update(struct ofconn *c, const struct ofputil_flow_update *fu)
{
    switch (fu->event) {
    case OFPFME_ABBREV:
    case OFPFME_PAUSED:
    case OFPFME_RESUMED: return;

    case OFPFME_INITIAL:
    case OFPFME_ADDED:
    case OFPFME_MODIFIED: have_flow(c, item_from_update(fu)); break;

    case OFPFME_REMOVED:
        flowtab_have_not(c->flowtab, item_from_update(fu));
        schedule_repair(c);
        break;

    default: /* A value from outside. */ return;
    }
    c->stats.n_foreign += cookie_is_ours(ntohll(fu->cookie));
}

void
ofconn_watch_recv_flows(struct ofconn *c, struct ofpbuf *msg)
{
    uint64_t stub[1024 / 8];
    struct ofpbuf ofpacts = OFPBUF_STUB_INITIALIZER(stub);
    struct ofpbuf entry;

    ofpraw_pull_assert(msg);
    while (ofconn_pull_entry(msg, &entry)) {
        struct ofputil_flow_update fu;

        if (ofconn_learned_is_update(c, &entry)) {
            continue;
        }
        int error = ofputil_decode_flow_update(&fu, &entry, &ofpacts);
        if (error) {
            note_unreadable(c, "a flow", error);
        } else {
            recv_update(c, &fu);
        }
    }
    ofpbuf_uninit(&ofpacts);
}

/* All groups are gone. */
static void
forget_group(const struct fitem *have, void *list_)
{
    struct fout *list = list_;

    if (fitem_kind(have) == FITEM_GROUP) {
        fout_add(list, fitem_ref(have));
    }
}

static void
recv_all_groups_deleted(struct ofconn *c)
{
    struct fout gone = FOUT_INIT;

    flowtab_for_each_have(c->flowtab, forget_group, &gone);
    for (size_t i = 0; i < gone.n; i++) {
        flowtab_have_not(c->flowtab, fitem_ref(gone.items[i]));
    }
    fout_clear(&gone);
}

static void
recv_group_deleted(struct ofconn *c, const struct ofputil_group_mod *gm)
{
    struct fitem *item;

    if (!fitem_from_group(gm, &item, NULL)) {
        flowtab_have_not(c->flowtab, item);
    }
}

static void
recv_group_mod(struct ofconn *c, const struct ofputil_group_mod *gm)
{
    if (gm->command == OFPGC15_DELETE && gm->group_id == OFPG_ALL) {
        recv_all_groups_deleted(c);
    } else if (!group_id_is_ours(gm->group_id)) {
        return;
    } else if (gm->command == OFPGC15_DELETE) {
        recv_group_deleted(c, gm);
    } else {
        ofconn_have_group(c, gm);
    }
    c->stats.n_foreign++;
    schedule_repair(c);
}

/* Returns the request about a group inside a forwarded one, or NULL. */
static const struct ofp15_group_mod *
peek_group_mod(const struct ofp_header *oh)
{
    struct ofpbuf b = ofpbuf_const_initializer(oh, ntohs(oh->length));
    enum ofptype type;

    ofpraw_pull_assert(&b);
    const struct ofp_header *inner = ofpbuf_at(&b, 0, sizeof *inner);
    if (!inner || inner->version != oh->version
        || ntohs(inner->length) < sizeof *inner
        || ntohs(inner->length) > b.size || ofptype_decode(&type, inner)
        || type != OFPTYPE_GROUP_MOD) {
        return NULL;
    }
    return ofpbuf_at(&b, sizeof *inner, sizeof(struct ofp15_group_mod));
}

/* A request from which the group can't be told as it is now.  The library
 * refuses to decode these two if the group has a selection method. */
static bool
is_difference(const struct ofp15_group_mod *ogm)
{
    uint16_t command = ntohs(ogm->command);
    return command == OFPGC15_INSERT_BUCKET
           || command == OFPGC15_REMOVE_BUCKET;
}

static void
recv_unknown_group_mod(struct ofconn *c, const struct ofp15_group_mod *ogm)
{
    uint32_t group_id = ntohl(ogm->group_id);

    if (group_id_is_ours(group_id)) {
        ofconn_have_some_group(c, group_id);
        c->stats.n_foreign++;
        schedule_repair(c);
    }
}

static void
recv_meter_mod(struct ofconn *c, const struct ofputil_meter_mod *mm)
{
    if (mm->meter.meter_id - c->meter_id < c->n_meters
        || mm->meter.meter_id == OFPM13_ALL) {
        schedule_repair(c);
    }
}

void
ofconn_watch_recv_forward(struct ofconn *c, const struct ofp_header *oh)
{
    const struct ofp15_group_mod *ogm = peek_group_mod(oh);
    if (ogm && is_difference(ogm)) {
        recv_unknown_group_mod(c, ogm);
        return;
    }

    struct ofputil_requestforward rf;
    enum ofperr error = ofputil_decode_requestforward(oh, &rf);
    if (error) {
        note_unreadable(c, "a request", error);
        if (ogm) {
            recv_unknown_group_mod(c, ogm);
        }
        return;
    }
    if (rf.reason == OFPRFR_GROUP_MOD) {
        recv_group_mod(c, rf.group_mod);
    } else if (rf.reason == OFPRFR_METER_MOD) {
        recv_meter_mod(c, rf.meter_mod);
    }
    ofputil_destroy_requestforward(&rf);
}
