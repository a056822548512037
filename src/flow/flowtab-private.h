/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_FLOW_FLOWTAB_PRIVATE_H
#define OFPROXYD_FLOW_FLOWTAB_PRIVATE_H 1

/* What the three files of the flow table share: flowtab.c (keys, where they
 * queue, what the switch has), flowtab-want.c (owners and their claims) and
 * flowtab-send.c (batches, owners that are set aside).
 *
 * Every key is in exactly one place, which follows from what is wanted and
 * known there (find_place() in flowtab.c).  Whoever changes anything that the
 * place or a counter depends on does it between key_lift() and key_settle().
 * So no function has to know which changes make a key dirty or clean. */

#include <openvswitch/hmap.h>
#include <openvswitch/list.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ofproxyd/base/backoff.h"
#include "ofproxyd/flow/flowtab.h"
#include "ofproxyd/flow/item.h"

enum place {
    /* Nothing to do, or nothing known. */
    PLACE_NONE,

    /* Queues, in the order in which they are sent. */
    PLACE_LEAF_PUT,
    PLACE_GROUP_PUT,
    PLACE_FLOW_PUT,
    PLACE_FLOW_DELETE,
    PLACE_GROUP_DELETE,
    PLACE_LEAF_DELETE,

    /* To be sent, but not yet: not all objects have been listed, or flows
     * still use the group. */
    PLACE_HELD,

    /* A group that nothing uses any more, but that has to stay for a while
     * (flowtab_set_linger()). */
    PLACE_LINGER,

    PLACE_ASIDE,     /* Its owner is set aside. */
    PLACE_IN_FLIGHT, /* Part of the batch that is out. */

    N_PLACES
};

#define FIRST_QUEUE PLACE_LEAF_PUT
#define LAST_PUT    PLACE_FLOW_PUT
#define LAST_QUEUE  PLACE_LEAF_DELETE

/* A change that is in flight. */
struct flight {
    struct fitem *item; /* The batch's reference. */
    enum flowtab_op op;
};

/* One key.  There may be 100 000, so members share space where they can. */
struct ftkey {
    struct hmap_node node; /* In struct flowtab's 'keys'. */

    /* Who wants 'want'.  If that is NULL: who wanted the key last, as long as
     * it wants anything, else NULL. */
    struct ftowner *owner;
    struct fitem *want;
    struct fitem *have;
    struct ftclaim *waiting;    /* Claims of owners further down. */
    struct ovs_list owner_node; /* In the owner's 'keys' or 'leaving'. */
    union {
        struct ovs_list queue_node; /* In struct flowtab's 'queues' or
                                     * 'lingering'. */
        struct flight flight;       /* In PLACE_IN_FLIGHT. */
    };

    /* Of a group: how often the items of the switch name it, counting those
     * in flight as if they had arrived. */
    uint32_t n_users : 25;
    uint32_t sent : 1;     /* 'have' is what we have put there. */
    uint32_t lingered : 1; /* Long enough. */
    uint32_t is_group : 1;
    uint32_t place : 4; /* enum place. */
    uint32_t group_id;
};

/* A claim to a key that another owner has. */
struct ftclaim {
    struct ftclaim *next; /* In the key's 'waiting'. */
    struct ftkey *key;
    struct ftowner *owner;
    struct fitem *item;
    struct ovs_list node; /* In the owner's 'waiting'. */
    bool seen;            /* Renewed by the flowtab_want() that runs. */
};

struct ftowner {
    struct hmap_node node; /* In struct flowtab's 'owners'. */
    uint64_t id;           /* 0: stands for a leftover that was refused. */
    int64_t rank;
    const char *name;        /* Not ours; may be NULL. */
    struct ovs_list keys;    /* Keys that it wants and has. */
    struct ovs_list leaving; /* Keys that it had and that must go. */
    struct ovs_list waiting; /* struct ftclaim. */
    struct aside *aside;     /* NULL if nothing was refused lately. */
    uint32_t n_pending;      /* Keys that are queued, held or in flight. */
    bool vital;
};

/* The record of an owner that was refused.  Kept until all is well, so that
 * the waits grow also while it is being tried. */
struct aside {
    struct ovs_list node; /* In struct flowtab's 'asides'. */
    struct ftowner *owner;
    struct backoff backoff;
    struct flowtab_set_aside info;
    bool active; /* Now set aside; else being tried. */
};

struct flowtab {
    struct hmap keys;
    struct hmap owners;
    struct ovs_list asides;
    struct ovs_list queues[LAST_QUEUE + 1];

    bool complete;
    bool keep; /* Deletions wait. */
    bool dumping;
    bool known;        /* A dump has ended. */
    bool found;        /* A dump, perhaps an earlier one, had flows of
                        * ours. */
    int learned_table; /* -1: none. */

    /* Predecessors. */
    struct flowtab_predecessor predecessor;
    struct fitem *normal; /* The switch's own flow. */
    bool ready;
    bool taking_over;
    size_t n_old_entries; /* Their flows in table 0. */

    struct batch *out; /* The batch that is out. */
    size_t suspects;   /* Largest next batch, 0 if not limited. */

    /* Groups in PLACE_LINGER: those that came since the last deadline, and
     * those that came before it and may go at the next one. */
    struct ovs_list lingering, leaving;
    unsigned int linger_ms;
    long long int linger_until_ms; /* LLONG_MAX: not set yet. */

    long long int retry_ms; /* When flowtab_run() has work. */

    size_t n_places[N_PLACES];
    size_t n_asides; /* Active ones. */
    size_t n_vital_asides;
    struct flowtab_stats stats;
};

/* flowtab.c */

struct ftkey *key_find(const struct flowtab *, const struct fitem *);
struct ftkey *key_find_or_create(struct flowtab *, const struct fitem *);
bool key_matches(const struct ftkey *, const struct fitem *);

/* Takes 'key' out of its place and the counters, and puts it where it now
 * belongs: at the end of a queue, or at its 'front'.  key_settle() frees a key
 * that means nothing any more. */
void key_lift(struct flowtab *, struct ftkey *);
void key_settle(struct flowtab *, struct ftkey *, bool front);

/* Changes how often the groups that 'item' (NULL: none) names are used.  No
 * key may be lifted at the time. */
void use_groups(struct flowtab *, const struct fitem *item, int delta);

/* A predecessor's flows have become fewer: if none is left, it has been taken
 * over from. */
void check_taken_over(struct flowtab *);

/* If the two are equal, makes them one. */
void key_share(struct ftkey *);

/* Takes 'key' away from its owner, if it has one. */
void key_disown(struct flowtab *, struct ftkey *);

/* flowtab-want.c */

struct ftowner *owner_find(const struct flowtab *, uint64_t id);
struct ftowner *owner_create(uint64_t id);
/* The owner has no keys and is in no table. */
void owner_free(struct flowtab *, struct ftowner *);

/* flowtab-send.c */

/* The batch that is out, if any, will never be heard of. */
void batch_abandon(struct flowtab *);
bool owner_is_aside(const struct ftowner *);
void owner_retry(struct flowtab *, struct ftowner *);
void owner_forgive(struct flowtab *, struct ftowner *);
void owner_forgive_if_well(struct flowtab *, struct ftowner *);

#endif /* flowtab-private.h */
