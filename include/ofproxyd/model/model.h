/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_MODEL_MODEL_H
#define OFPROXYD_MODEL_MODEL_H 1

/* The store of what the API server has told, and what changed in it.
 *
 * Pure: no socket, no clock.  The API client puts and deletes objects; the
 * agent takes the names of Services that changed, one at a time, and reads
 * the present state of each.  How many events led there doesn't matter: a
 * Service stands in the queue once, and an object put that equals the stored
 * one changes nothing.
 *
 * A list (at start, and after the resume version expired) is bracketed by
 * model_relist_begin() and model_relist_end(); only a list that was read to
 * its end removes the objects that were not in it.  Until each kind has been
 * listed once, model_synced() is false and nobody may shrink anything.  Kinds
 * that a server need not have are waited for, too, but only until they were
 * asked for in vain: see model_settled(). */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <openvswitch/hmap.h>
#include <openvswitch/list.h>

#include "ofproxyd/model/objects.h"

/*      symbol      name in messages */
#define MODEL_KINDS                          \
    MODEL_KIND(SERVICES, "Service")          \
    MODEL_KIND(SLICES, "EndpointSlice")      \
    MODEL_KIND(NODES, "Node")                \
    MODEL_KIND(SERVICE_CIDRS, "ServiceCIDR") \
    MODEL_KIND(MC_GATEWAYS, "Gateway")       \
    MODEL_KIND(MC_CLUSTERS, "ClusterInfoImport")

enum model_kind {
#define MODEL_KIND(SYM, NAME) MODEL_##SYM,
    MODEL_KINDS
#undef MODEL_KIND
};
#define N_MODEL_KINDS 6

/* Returns the name of a kind in messages, e.g. "EndpointSlice". */
const char *model_kind_name(enum model_kind);

/* True for a kind that a server need not have, and a client need not be
 * allowed to read: ServiceCIDRs are new in Kubernetes 1.33, those of
 * multicluster are there only if Antrea Multi-cluster is installed. */
bool model_kind_is_optional(enum model_kind);

/* All that is known under one Service name.  Either half may be missing:
 * slices come before their Service, after it, and without one. */
struct model_service {
    const char *ns, *name;
    const struct svc *svc;  /* NULL if there is none. */
    struct ovs_list slices; /* Of struct model_slice. */
    size_t n_slices;

    /* The store's own. */
    struct hmap_node hmap_node;
    struct ovs_list dirty_node;
    uint64_t generation;
};

struct model_slice {
    struct ovs_list list_node; /* In its struct model_service's 'slices',
                                * ordered by slice name. */
    const struct slice *slice;

    /* The store's own. */
    struct hmap_node hmap_node;
    struct model_service *service;
    uint64_t generation;
};

struct model_node {
    const struct node *node;

    /* The store's own. */
    struct hmap_node hmap_node;
    uint64_t generation;
};

/* An object of a plain kind: one of which there are few, for whose changes
 * nobody queues, and that begins with its metadata. */
struct model_plain {
    const struct obj_meta *meta;

    /* The store's own. */
    struct hmap_node hmap_node;
    uint64_t generation;
};

struct model;

/* 'node_name' is the node that the daemon runs on. */
struct model *model_create(const char *node_name);
void model_destroy(struct model *); /* NULL is allowed. */

/* The pool to pack objects of this model with. */
struct intern_pool *model_pool(struct model *);
const char *model_node_name(const struct model *);

/* Each takes ownership of its object, which was packed with model_pool(), and
 * returns true if the model changed.  An equal object replaces the stored one,
 * for its 'meta.version', but isn't a change; unless a slice thereby overtakes
 * another one of its Service, since the newer of two slices decides about an
 * endpoint that stands in both. */
bool model_put_svc(struct model *, struct svc *);
bool model_put_slice(struct model *, struct slice *);
bool model_put_node(struct model *, struct node *);
bool model_put_plain(struct model *, enum model_kind, struct obj_meta *);

/* Removes an object; returns false if there was none.  'ns' is "" for kinds
 * that belong to the whole cluster. */
bool model_delete(struct model *, enum model_kind, const char *ns,
                  const char *name);

/* A malformed object: keeps the stored one of that name, if any, alive over
 * the relist that is going on, so that an object that is out of order is left
 * as it was instead of being removed. */
void model_keep(struct model *, enum model_kind, const char *ns,
                const char *name);

/* Brackets a complete list.  A second begin before the end starts over.  The
 * end removes what was neither put nor kept since the begin, and returns how
 * many. */
void model_relist_begin(struct model *, enum model_kind);
size_t model_relist_end(struct model *, enum model_kind);

/* True once every kind that is not optional has been listed to its end. */
bool model_synced(const struct model *);
bool model_kind_synced(const struct model *, enum model_kind);

/* A kind was asked for in vain: if it is optional, nobody waits for it any
 * longer. */
void model_give_up(struct model *, enum model_kind);

/* The server has no such kind.  Includes model_give_up(). */
void model_set_absent(struct model *, enum model_kind);

/* True once it is known which objects of a kind there are: it was listed, or
 * the server doesn't have it. */
bool model_kind_known(const struct model *, enum model_kind);

/* True once model_synced(), and every optional kind has been listed or given
 * up. */
bool model_settled(const struct model *);

/* Takes the next Service whose objects changed since it was taken last, in
 * the order in which they changed, or returns NULL.  The pointer is valid
 * until the next call of any function that changes the model.  The object may
 * have gone altogether: then 'svc' is NULL and 'slices' is empty. */
const struct model_service *model_pop_dirty(struct model *);
bool model_has_dirty(const struct model *);

/* Puts a Service back into the queue, even one that has gone altogether, or
 * all of them (after a change that bears on every one, such as the own node's
 * zone). */
void model_mark_dirty(struct model *, const char *ns, const char *name);
void model_mark_all_dirty(struct model *);

/* Takes the name of the next Node that was added, changed or removed since it
 * was taken last, in the order in which that happened first, or returns NULL.
 * The own node is among them.  What has become of it, model_find_node()
 * tells: NULL if it has gone.  One that was deleted and added again meanwhile
 * is taken once, as a change.  The name is valid until the next call of any
 * function that changes the model. */
const char *model_pop_dirty_node(struct model *);
/* True if model_pop_dirty_node() has another name. */
bool model_has_dirty_node(const struct model *);

/* Increases with every change of any Node object.  A change of the own
 * node's zone marks all Services dirty by itself. */
uint64_t model_nodes_seqno(const struct model *);

/* Look-ups; NULL if there is none. */
const struct model_service *model_find_service(const struct model *,
                                               const char *ns,
                                               const char *name);
const struct node *model_find_node(const struct model *, const char *name);
const struct node *model_own_node(const struct model *);

/* Increases with every change of any object of a plain kind. */
uint64_t model_plain_seqno(const struct model *, enum model_kind);

/* Iteration in no particular order, as HMAP_FOR_EACH over the 'hmap_node' of
 * struct model_service, struct model_node and struct model_plain.  A
 * Service that has gone is among them, without its halves, until it is taken
 * from the queue. */
const struct hmap *model_services(const struct model *);
const struct hmap *model_nodes(const struct model *);
const struct hmap *model_plain(const struct model *, enum model_kind);

/* When something happened in the cluster that made a slice change. */
struct model_trigger {
    enum ip_family family;
    int64_t ns; /* Since 1970. */
};

/* More than so many at a time are not kept. */
#define MODEL_TRIGGERS_MAX 65536

/* Hands out what slices that were put and changed the model since the last
 * call said of their cause, in order: an array that is the caller's to free(),
 * or NULL.  Most of those of a first list happened long ago. */
struct model_trigger *model_take_triggers(struct model *, size_t *ret_n);

struct model_counts {
    size_t n[N_MODEL_KINDS]; /* Objects. */
    size_t n_endpoints;      /* Sum over the slices. */
};
/* Sets '*ret' to the numbers of objects stored. */
void model_count(const struct model *, struct model_counts *ret);

#endif /* ofproxyd/model/model.h */
