/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_MODEL_PLAIN_H
#define OFPROXYD_MODEL_PLAIN_H 1

/* The model's objects of one plain kind: a part of model.c. */

#include "ofproxyd/model/model.h"

struct plain {
    enum model_kind kind;
    struct intern_pool *pool;
    struct hmap objects; /* Of struct model_plain. */
    uint64_t seqno;      /* Increases with every change. */
};

void plain_init(struct plain *, enum model_kind, struct intern_pool *);
void plain_uninit(struct plain *);

/* As model_put_plain() and model_delete(). */
bool plain_put(struct plain *, struct obj_meta *, uint64_t generation);
bool plain_delete(struct plain *, const char *ns, const char *name);

/* Returns the generation of the one of that name, or NULL. */
uint64_t *plain_generation(const struct plain *, const char *ns,
                           const char *name);

/* Removes those of other generations; returns how many. */
size_t plain_sweep(struct plain *, uint64_t generation);

#endif /* src/model/plain.h */
