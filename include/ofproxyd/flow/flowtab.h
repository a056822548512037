/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_FLOW_FLOWTAB_H
#define OFPROXYD_FLOW_FLOWTAB_H 1

/* What the bridge shall hold, what it holds, and the difference.
 *
 * For every key (see item.h) the table knows the items that owners want
 * there, and the item that the switch is known to have.  "Want" is written by
 * the renderers, a whole owner at a time; "have" only by what the switch
 * said: its dump at connect, its flow monitor, a confirmed transaction.  A key
 * where the two differ is dirty; dirty keys leave in batches, in an order in
 * which no flow ever names a missing group:
 *
 *     leaf groups put, groups put, flows put,
 *     flows deleted, groups deleted, leaf groups deleted
 *
 * Until flowtab_set_complete(true), only items whose key the switch does not
 * hold leave: nothing is changed or removed while the picture is partial.
 *
 * What a predecessor left (Antrea's agent, an older layout of ours, the flow
 * with which a switch of its own accord forwards everything) has tables that
 * mean something else, so no packet may meet some of its flows and some of
 * ours.  If a dump finds the entry to such a pipeline, a flow in table 0,
 * nothing at all is sent before flowtab_set_ready(true), and then everything
 * in one batch, for the switch to carry out as a whole: all flows and groups
 * of ours put, all flows of the predecessor deleted.  Its groups follow when
 * they have lingered.
 *
 * Two owners may want the same key (two Services that claim one address and
 * port): the one with the lower rank, or of equal ranks the one whose name
 * comes first, has it, the other waits its turn.
 *
 * An item that the switch refused sets its owner aside: none of its items is
 * sent until a time that grows with each refusal; the other owners go on.
 *
 * Pure: time comes in as an argument, in ms of a monotonic clock. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ofproxyd/flow/item.h"

struct flowtab;

/* Returns an empty table that knows nothing of the switch. */
struct flowtab *flowtab_create(void);
void flowtab_destroy(struct flowtab *); /* NULL is allowed. */

/* Who wants items.  'id' is unique and neither 0 nor UINT64_MAX; 'rank', then
 * 'name' (NULL before all others), then 'id' order two owners of one key, the
 * lower first.  The name is not copied: it has to stay as long as the owner
 * wants anything, or until the table is destroyed. */
struct flowtab_owner {
    uint64_t id;
    int64_t rank;
    const char *name;
    bool vital; /* A predecessor stays in force while this is set aside.  Does
                 * not change. */
};

/* Makes 'items' all that 'owner' wants, instead of what it wanted before, and
 * empties 'items'.  No items: the owner is forgotten.  Within 'items' every
 * key is there once.  A flow may name groups of its own owner only.  A
 * set-aside owner that changes its wishes is tried again at once.  Returns the
 * number of keys whose wanted item changed.
 *
 * Costs least when an owner's items come in the same order each time. */
size_t flowtab_want(struct flowtab *, const struct flowtab_owner *owner,
                    struct fout *items);

/* Returns 0 if 'owner' has the keys of all of its items, else the id of one
 * owner of lower rank that is in its way. */
uint64_t flowtab_conflict(const struct flowtab *, uint64_t owner);

/* Returns the id of the owner that waits next for a key of 'owner', or 0. */
uint64_t flowtab_successor(const struct flowtab *, uint64_t owner);

/* See above.  False at first. */
void flowtab_set_complete(struct flowtab *, bool complete);

/* Whose flows count as a predecessor's, besides those of other layouts of
 * ours.  Such flows, and groups, are known and unwanted as if they were
 * ours. */
struct flowtab_predecessor {
    uint16_t rounds[3]; /* Of Antrea's agent: the first 'n_rounds'. */
    size_t n_rounds;
    bool groups; /* Groups, whatever their id. */
    bool normal; /* The flow that sends everything to NORMAL. */
};

/* To be followed by a dump.  Nobody's at first. */
void flowtab_set_predecessor(struct flowtab *,
                             const struct flowtab_predecessor *);

/* Returns what was set. */
const struct flowtab_predecessor *flowtab_predecessor(const struct flowtab *);

/* Tells whether all that is to take over from a predecessor is wanted by now
 * ("complete" is not enough: a gateway may be missing).  False at first. */
void flowtab_set_ready(struct flowtab *, bool ready);

/* True from the dump that found a predecessor's pipeline in force until the
 * switch has none of its flows any more. */
bool flowtab_takes_over(const struct flowtab *);

/* Flows that the switch has learned (cookie.h) in this table are neither
 * wanted nor unwanted: they come and go with the flows that they were learned
 * from, are not known to the table, and leave with no batch.  In other tables
 * nothing is learned, so that such a cookie there is a foreign hand's doing.
 * At first that is so in all tables. */
void flowtab_set_learned_table(struct flowtab *, uint8_t table);

/* Returns what was set, or -1. */
int flowtab_learned_table(const struct flowtab *);

/* True for the flow of such a table, priority and cookie.  Flows of priority 0
 * are not learned: a table's miss flow is somebody's wish. */
bool flowtab_is_learned(const struct flowtab *, uint8_t table,
                        uint16_t priority, uint64_t cookie);

/* True if 'item', of whoever, counts as ours or as the predecessor's.  A
 * learned flow does not. */
bool flowtab_concerns(const struct flowtab *, const struct fitem *item);

/* True if the flow 'item' counts as Antrea's. */
bool flowtab_is_antrea(const struct flowtab *, const struct fitem *item);

/* What the switch holds. */

/* A dump begins, continues with each flow and group of ours that was read,
 * and ends: keys that were not named in between are absent.  A dump that
 * broke off is simply begun again. */
void flowtab_dump_begin(struct flowtab *);
void flowtab_dump_end(struct flowtab *);

/* The switch has 'item', or has nothing at the key of 'item' (only the key is
 * looked at).  Takes the reference.  Used between dump_begin and dump_end and
 * for what the flow monitor and REQUESTFORWARD report.  An item that is not
 * ours by its cookie or group id counts as nothing: it gives way where its key
 * is wanted, and is left alone where not.
 *
 * To be called in the order in which the switch said it, also in relation to
 * the functions for batches below.  What it says while a batch is out became
 * true before the batch was carried out, so that the batch's success overrides
 * it (except that the deletion of a flow spares one of another cookie), and
 * its refusal does not. */
void flowtab_have(struct flowtab *, struct fitem *item);
void flowtab_have_not(struct flowtab *, struct fitem *item);

/* The connection is gone: nothing is known, nothing is sent before the next
 * dump ended.  A batch that is out will change nothing any more, but still has
 * to come back.  flowtab_dump_begin() includes this. */
void flowtab_forget(struct flowtab *);

/* Sending. */

enum flowtab_op {
    FLOWTAB_PUT,
    FLOWTAB_DELETE
};

struct flowtab_change {
    enum flowtab_op op;
    struct fitem *item; /* A reference of the batch's. */

    /* Who wants the item or, of a deletion, wanted the key last.  0 if that
     * owner is gone or not known. */
    uint64_t owner;
};

struct flowtab_batch {
    struct flowtab_change *changes;
    size_t n;
};

/* Takes up to 'max_changes' changes of at most 'max_bytes' in all (but at
 * least one), in the order above.  Returns NULL if nothing is to be sent.
 * The keys count as in flight until the batch comes back to one of the
 * functions below, which free it.  At most one batch is out at a time, and
 * none when the table is destroyed.
 *
 * While taking over, all changes, whatever the limits.
 *
 * The deletion of a group waits until no flow or group that the switch has
 * names it, whoever owns them, for with the group the flows would go. */
struct flowtab_batch *flowtab_take(struct flowtab *, size_t max_changes,
                                   size_t max_bytes);

/* The switch confirmed all of it. */
void flowtab_batch_done(struct flowtab *, struct flowtab_batch *);

/* How the switch refused a batch. */
struct flowtab_refusal {
    size_t bad;         /* Index of the change to blame, SIZE_MAX: unknown. */
    const char *reason; /* For a person. */
    long long int now_ms; /* These two set the time of the next try. */
    uint32_t random;
};

/* The switch refused one change, and with it the whole batch: the owner of
 * that change is set aside, the rest is dirty again and leaves with the next
 * batch.  An owner that has a different wish by now is not set aside for what
 * it wanted before; a deletion without an owner is set aside alone.
 *
 * If it is not known which change is to blame, the next batches are smaller,
 * down to a single change, until the guilty one is found, and then grow again
 * with each success. */
void flowtab_batch_refused(struct flowtab *, struct flowtab_batch *,
                           const struct flowtab_refusal *);

/* What became of it is unknown (the connection was lost).  Includes
 * flowtab_forget(), unless that was called since the batch was taken. */
void flowtab_batch_lost(struct flowtab *, struct flowtab_batch *);

/* Makes set-aside owners whose time has come dirty again, and groups that have
 * lingered.  Returns when there will be the next, or LLONG_MAX; that may
 * change with whatever else is called. */
long long int flowtab_run(struct flowtab *, long long int now_ms);

/* While 'keep', nothing that the switch has is deleted, unless it takes over
 * from a predecessor.  For a picture that is being changed in several turns:
 * what nobody wants any more may be wanted by another one in the next. */
void flowtab_set_keep(struct flowtab *, bool keep);

/* Lets groups stay for 'ms' milliseconds (up to twice that) after their last
 * user has gone.  Not at all if 0, which is so at first.
 *
 * A packet may be on its way to a group that no flow names any more: what the
 * switch's datapath has cached leads there until it has been revalidated, and
 * a group that selects by dp_hash is looked up a second time when the hash is
 * known.  Without the group these packets would be dropped in silence. */
void flowtab_set_linger(struct flowtab *, unsigned int ms);

/* State, for the operator and the tests. */

struct flowtab_stats {
    size_t n_flows, n_groups; /* Wanted. */
    size_t n_dirty;           /* Keys where want and have differ and that may
                               * be sent now. */
    size_t n_held; /* Keys that have to wait until all is complete, or, of
                     * groups, until no flow names them or they have
                     * lingered. */
    size_t n_in_flight;
    size_t n_set_aside; /* Owners. */
    size_t n_unwanted;  /* Keys of ours that nobody wants but the switch
                         * has. */
    size_t n_old_flows, n_old_groups; /* Of a predecessor, on the switch. */
    /* Since creation.  Changes that were confirmed, batches refused. */
    uint64_t n_flow_puts, n_flow_deletes, n_group_puts, n_group_deletes;
    uint64_t n_refused;
};
/* Sets '*ret' to the present numbers. */
void flowtab_get_stats(const struct flowtab *, struct flowtab_stats *ret);

/* True if a dump has ended since the connection came up, the switch has all
 * that 'owner' wants, and none of its flows that it wants no more.  (Groups
 * that it wants no more may linger; nothing leads there.)  Of an owner that
 * wants nothing nothing is known: then it is true once a dump has ended.
 * False while the owner is set aside. */
bool flowtab_is_settled(const struct flowtab *, uint64_t owner);

/* True if a dump has ended since the connection came up, the switch has what
 * is wanted and nothing else, and nobody is set aside. */
bool flowtab_in_sync(const struct flowtab *);

struct flowtab_set_aside {
    uint64_t owner;         /* 0: a leftover that nobody wants. */
    const char *reason;     /* Of the last refusal. */
    long long int since_ms; /* Of the first refusal. */
    long long int retry_ms;
    unsigned int n_tries; /* That were refused. */
    uint64_t refusal;     /* The last one: n_refused of the stats then. */
};
/* Returns the set-aside record of 'owner', or NULL if it is not set aside or
 * just being tried again.  Valid until the table changes. */
const struct flowtab_set_aside *flowtab_find_set_aside(const struct flowtab *,
                                                       uint64_t owner);

/* The callbacks below may not change the table. */

/* Calls 'cb' for every set-aside owner. */
void flowtab_for_each_set_aside(const struct flowtab *,
                                void (*cb)(const struct flowtab_set_aside *,
                                           void *aux),
                                void *aux);

/* Calls 'cb' for every item that 'owner' wants and has the key of (all owners
 * if 'owner' is UINT64_MAX), flows and groups, in no particular order. */
void flowtab_for_each(const struct flowtab *, uint64_t owner,
                      void (*cb)(const struct fitem *want,
                                 const struct fitem *have, void *aux),
                      void *aux);

/* Calls 'cb' for every item of ours that the switch is known to have: how a
 * restarted daemon finds the object ids that it used before. */
void flowtab_for_each_have(const struct flowtab *,
                           void (*cb)(const struct fitem *have, void *aux),
                           void *aux);

/* The same without what was put there through this table since the last dump:
 * what a predecessor has left. */
void flowtab_for_each_found(const struct flowtab *,
                            void (*cb)(const struct fitem *have, void *aux),
                            void *aux);

/* Returns the item that the switch is known to have at the key of 'item', or
 * NULL.  Valid until the table changes. */
const struct fitem *flowtab_find_have(const struct flowtab *,
                                      const struct fitem *item);

/* True if a dump has ever brought a flow with a cookie of ours: only then can
 * the switch have one from before this table was made. */
bool flowtab_has_found(const struct flowtab *);

/* True if 'item' names groups, and the switch is known to have all of them. */
bool flowtab_has_groups_of(const struct flowtab *, const struct fitem *item);

#endif /* ofproxyd/flow/flowtab.h */
