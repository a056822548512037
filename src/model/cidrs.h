/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_MODEL_CIDRS_H
#define OFPROXYD_MODEL_CIDRS_H 1

/* The model's ServiceCIDRs: a part of model.c. */

#include "ofproxyd/model/model.h"

struct cidrs {
    struct intern_pool *pool;
    struct hmap cidrs; /* Of struct model_service_cidr. */
    uint64_t seqno;    /* Increases with every change. */
};

void cidrs_init(struct cidrs *, struct intern_pool *);
void cidrs_uninit(struct cidrs *);

/* As model_put_service_cidr() and model_delete(). */
bool cidrs_put(struct cidrs *, struct service_cidr *, uint64_t generation);
bool cidrs_delete(struct cidrs *, const char *name);

/* Returns the generation of the one of that name, or NULL. */
uint64_t *cidrs_generation(const struct cidrs *, const char *name);

/* Removes those of other generations; returns how many. */
size_t cidrs_sweep(struct cidrs *, uint64_t generation);

#endif /* src/model/cidrs.h */
