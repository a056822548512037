/* SPDX-License-Identifier: Apache-2.0 */

/* From one master of the bridge to the next. */

#include "takeover.h"

#include <inttypes.h>
#include <stdlib.h>

#include <openvswitch/vlog.h>

#include <timeval.h>
#include <util.h>

#include "ofproxyd/flow/cookie.h"

VLOG_DEFINE_THIS_MODULE(takeover);

/* Meters of Antrea's agent: of its packets to the controller. */
#define ANTREA_METER    256
#define N_ANTREA_METERS 3

/* The round in which Antrea's agent starts on a bridge that is new to it. */
#define ANTREA_FIRST_ROUND 1

struct takeover {
    struct takeover_cfg cfg;

    bool began;                   /* What is below was read once. */
    struct ovsdb_history history; /* As it was last. */
    uint64_t n_dumps;             /* That were looked at. */
    bool looked;                  /* At one since the history changed. */
    bool taking_over;             /* As it was last. */
    bool ready;                   /* As it was last. */
    long long int ready_ms;       /* Since when. */
    bool may_flush;               /* There was no flow to be lost. */
    int replaced;                 /* Round of an agent that is done with. */
    uint64_t n_intruders;
};

struct takeover *
takeover_create(const struct takeover_cfg *cfg)
{
    struct takeover *t = xzalloc(sizeof *t);

    t->cfg = *cfg;
    t->replaced = -1;
    ovsdb_set_hold(cfg->ovsdb, OVSDB_HOLD_ALL);
    return t;
}

void
takeover_destroy(struct takeover *t)
{
    free(t);
}

/* What to look for. */

/* A round whose cookies are ours in the first place is not looked for. */
static void
add_round(struct flowtab_predecessor *p, int round)
{
    if (round < 0 || cookie_is_ours((uint64_t) round << 48)) {
        return;
    }
    for (size_t i = 0; i < p->n_rounds; i++) {
        if (p->rounds[i] == round) {
            return;
        }
    }
    if (p->n_rounds < ARRAY_SIZE(p->rounds)) {
        p->rounds[p->n_rounds++] = round;
    }
}

/* The round after 'round': one that was begun, but not finished.  Never 0:
 * that would be the cookies of those who have none. */
static int
next_round(int round)
{
    return round >= 0 && round < UINT16_MAX ? round + 1 : -1;
}

static void
set_predecessor(struct takeover *t)
{
    const struct ovsdb_history *h = &t->history;
    struct flowtab_predecessor p = {
        .groups = h->antrea >= 0,
        .normal = h->layout < 0,
    };

    add_round(&p, h->antrea);
    add_round(&p, next_round(h->antrea));
    add_round(&p, h->antrea_was);
    if (h->antrea < 0 && h->antrea_was >= 0) {
        add_round(&p, next_round(h->antrea_was));
        add_round(&p, ANTREA_FIRST_ROUND);
    }
    flowtab_set_predecessor(t->cfg.flowtab, &p);
}

static void
follow_history(struct takeover *t, const struct ovsdb_history *h)
{
    int old = t->history.antrea;

    if (t->began && ovsdb_history_equals(h, &t->history)) {
        return;
    }
    t->history = *h;
    set_predecessor(t);
    if (t->began && h->antrea != old
        && (h->antrea >= 0 || old != t->replaced)) {
        if (h->antrea >= 0) {
            VLOG_WARN("bridge %s: Antrea's agent programs it (roundNum %d) "
                      "while ofproxyd does: it has to be removed from this "
                      "node",
                      t->cfg.bridge, h->antrea);
        }
        t->replaced = -1;
        t->looked = false;
        ofconn_redump(t->cfg.ofconn);
    }
    t->began = true;
}

/* What was found. */

struct census {
    const struct flowtab *flowtab;
    size_t n[ANTREA_CATEGORY_MAX + 1];
};

static void
count_flow(const struct fitem *have, void *census_)
{
    struct census *census = census_;

    if (fitem_kind(have) == FITEM_FLOW
        && flowtab_is_antrea(census->flowtab, have)) {
        census->n[cookie_category(fitem_cookie(have))]++;
    }
}

/* Flows of features that nobody goes on with, policies before all. */
static void
name_what_ends(const struct takeover *t)
{
    struct census census = { .flowtab = t->cfg.flowtab };
    struct ds ds = DS_EMPTY_INITIALIZER;

    flowtab_for_each_have(t->cfg.flowtab, count_flow, &census);
#define ANTREA_CATEGORY(SYM, VALUE, NAME)                           \
    if (census.n[VALUE]) {                                          \
        ds_put_format(&ds, "%s%zu of " NAME, ds.length ? ", " : "", \
                      census.n[VALUE]);                             \
    }
    ANTREA_CATEGORIES
#undef ANTREA_CATEGORY
    if (ds.length) {
        VLOG_WARN("bridge %s: flows of features of Antrea's that ofproxyd "
                  "has not will end with the takeover: %s",
                  t->cfg.bridge, ds_cstr(&ds));
    }
    ds_destroy(&ds);
}

static void
format_predecessor(const struct takeover *t, const struct flowtab_stats *s,
                   struct ds *ds)
{
    if (t->history.antrea >= 0) {
        ds_put_format(ds, "was programmed by Antrea's agent (roundNum %d)",
                      t->history.antrea);
    } else if (t->history.layout >= 0) {
        ds_put_format(ds,
                      "was programmed by an ofproxyd with another layout of "
                      "tables (%d)",
                      t->history.layout);
    } else {
        ds_put_cstr(ds, "forwards by itself");
    }
    ds_put_format(ds, ", %zu flows, %zu groups", s->n_old_flows,
                  s->n_old_groups);
}

static void
look_at_dump(struct takeover *t, const struct flowtab_stats *s)
{
    struct ofconn_stats o;

    ofconn_get_stats(t->cfg.ofconn, &o);
    if (o.n_dumps == t->n_dumps) {
        return;
    }
    t->n_dumps = o.n_dumps;
    t->looked = true;
    t->may_flush |= !o.n_dumped || t->history.secure;
    if (flowtab_takes_over(t->cfg.flowtab)) {
        struct ds ds = DS_EMPTY_INITIALIZER;

        t->taking_over = true;
        t->ready_ms = time_msec();
        format_predecessor(t, s, &ds);
        VLOG_INFO("bridge %s %s: they stay in force until "
                  "all of ours can take their place at once",
                  t->cfg.bridge, ds_cstr(&ds));
        ds_destroy(&ds);
        name_what_ends(t);
    }
}

static void
set_ready(struct takeover *t, bool ready)
{
    flowtab_set_ready(t->cfg.flowtab, ready);
    if (ready && !t->ready) {
        t->ready_ms = time_msec();
        ofconn_flush(t->cfg.ofconn);
    }
    t->ready = ready;
}

static void
note_end(struct takeover *t)
{
    if (t->taking_over && !flowtab_takes_over(t->cfg.flowtab)) {
        t->taking_over = false;
        VLOG_INFO("bridge %s: taken over in one transaction, %lld ms after "
                  "all was there for it",
                  t->cfg.bridge, time_msec() - t->ready_ms);
    }
}

/* Behind the flows. */

/* Groups have gone when nothing was on the way to them any more; then
 * meters, and last the mark by which the rest would be found again. */
static void
clean_up(struct takeover *t, const struct flowtab_stats *s)
{
    if (t->history.antrea < 0 || t->replaced == t->history.antrea || !t->ready
        || !t->looked || s->n_old_flows || s->n_old_groups) {
        return;
    }
    ofconn_delete_meters(t->cfg.ofconn, ANTREA_METER, N_ANTREA_METERS);
    if (ofconn_meters_are_gone(t->cfg.ofconn)) {
        t->replaced = t->history.antrea;
        ovsdb_set_replaced(t->cfg.ovsdb, t->replaced);
    }
}

static void
set_hold(struct takeover *t)
{
    ovsdb_set_hold(t->cfg.ovsdb, t->taking_over  ? OVSDB_HOLD_ALL
                                 : !t->may_flush ? OVSDB_HOLD_FAIL_MODE
                                                 : OVSDB_HOLD_NONE);
}

static void
note_intruders(struct takeover *t)
{
    static struct vlog_rate_limit rl = VLOG_RATE_LIMIT_INIT(1, 1);
    struct ofconn_stats o;

    ofconn_get_stats(t->cfg.ofconn, &o);
    if (o.n_intruders != t->n_intruders) {
        VLOG_WARN_RL(&rl,
                     "bridge %s: %" PRIu64 " flows of Antrea's agent have "
                     "appeared among ours and are removed: it still runs and "
                     "has to be removed from this node",
                     t->cfg.bridge, o.n_intruders);
        t->n_intruders = o.n_intruders;
    }
}

void
takeover_run(struct takeover *t, bool ready)
{
    const struct ovsdb_state *db = ovsdb_state(t->cfg.ovsdb);
    struct flowtab_stats s;

    if (db->connected && db->bridge_ok) {
        follow_history(t, &db->history);
    }
    set_ready(t, ready);
    if (!ofconn_is_up(t->cfg.ofconn)) {
        return;
    }
    flowtab_get_stats(t->cfg.flowtab, &s);
    look_at_dump(t, &s);
    note_end(t);
    clean_up(t, &s);
    set_hold(t);
    note_intruders(t);
}

bool
takeover_is_done(const struct takeover *t)
{
    return t->looked && !t->taking_over && t->history.antrea < 0;
}

void
takeover_format(const struct takeover *t, struct ds *ds)
{
    if (t->taking_over) {
        struct flowtab_stats s;

        flowtab_get_stats(t->cfg.flowtab, &s);
        ds_put_cstr(ds, "predecessor: the bridge ");
        format_predecessor(t, &s, ds);
        ds_put_format(ds, "; %s\n", t->ready ? "being replaced" : "in force");
    }
}
