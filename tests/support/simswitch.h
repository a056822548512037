/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_TESTS_SIMSWITCH_H
#define OFPROXYD_TESTS_SIMSWITCH_H 1

/* A switch as far as flow tables see one: flows and groups, OpenFlow's rules
 * between them, bundles that are carried out whole or not at all, foreign
 * hands, and one ordered stream of all that it says.
 *
 * It fails the test at once when a batch breaks a rule that the flow table has
 * to keep: a flow or group that names a missing group, a group that is deleted
 * while something names it, a touched item that is not ours. */

#include "ofproxyd/flow/flowtab.h"

struct simswitch;

struct simswitch *sim_create(void);
void sim_destroy(struct simswitch *); /* NULL is allowed. */

/* Returns the switch's item at the key of 'item', or NULL. */
const struct fitem *sim_find(const struct simswitch *, const struct fitem *);

size_t sim_count(const struct simswitch *);
/* The i-th of sim_count() items, in no order, until the next change. */
const struct fitem *sim_get(const struct simswitch *, size_t i);

enum sim_msg_type {
    SIM_HAVE,
    SIM_HAVE_NOT,
    SIM_DUMPED, /* All of a dump has been said. */
    SIM_RESULT, /* Of a batch. */
};

struct sim_msg {
    enum sim_msg_type type;
    struct fitem *item; /* HAVE, HAVE_NOT: a reference of the caller's. */

    /* Of a batch. */
    bool refused;
    size_t bad; /* SIZE_MAX if the switch does not say which. */
};

/* Events are only said while connected; disconnecting loses what has not been
 * popped. */
void sim_connect(struct simswitch *);
void sim_disconnect(struct simswitch *);
/* Says all that the switch has of 'kind', then SIM_DUMPED. */
void sim_dump(struct simswitch *, enum fitem_kind);
/* The next thing said, or false. */
bool sim_pop(struct simswitch *, struct sim_msg *);

/* A foreign hand puts 'item' (a reference that this takes), or deletes what is
 * at its key.  Flows that name a missing group can't be put, and groups take
 * their flows along. */
void sim_foreign_put(struct simswitch *, struct fitem *item);
void sim_foreign_delete(struct simswitch *, const struct fitem *item);
/* How many foreign changes there have been. */
uint64_t sim_n_foreign(const struct simswitch *);

/* Refuses the next 'n_times' batches that hold a change at the key of
 * 'item', and says which change it was unless 'nameless'. */
void sim_refuse(struct simswitch *, const struct fitem *item, size_t n_times,
                bool nameless);
void sim_refuse_no_more(struct simswitch *);

/* Carries 'batch' out and says the result.  'disturbed': foreign hands have
 * changed something that the batch could not know of, so that it may break
 * rules, and is then refused. */
void sim_send(struct simswitch *, const struct flowtab_batch *batch,
              bool disturbed);

#endif /* simswitch.h */
