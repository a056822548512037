/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_RANDOBJ_H
#define TESTS_SUPPORT_RANDOBJ_H 1

/* Random objects: few names, addresses and ports, so that they meet. */

#include <stdbool.h>
#include <stdint.h>

#include "ofproxyd/model/objects.h"

#define RANDOBJ_N_SVCS 8 /* Service names, in one namespace. */
#define RANDOBJ_NS     "ns1"

struct randobj {
    uint64_t seed;
    uint64_t version; /* Of the last object. */
    const char *names[RANDOBJ_N_SVCS];

    /* No two Services have an address or a port in common.  With no flow on
     * the switch that tells its id, a unit may come out of a restart with
     * another one. */
    bool apart;

    struct intern_pool *pool; /* Objects are packed with it. */
};

/* A number below 'n'. */
uint32_t randobj_draw(struct randobj *, uint32_t n);

/* The 'n'-th address there is; from 500 on some that Services have as external
 * ones. */
struct ip randobj_ip(enum ip_family, uint32_t n);
#define RANDOBJ_OUTER 500

/* Each returns another object, which is the caller's. */
struct svc *randobj_svc(struct randobj *, uint32_t i);
struct slice *randobj_slice(struct randobj *, uint32_t i);
struct node *randobj_node(struct randobj *); /* "n1". */

#define RANDOBJ_N_SLICES 12

#endif /* support/randobj.h */
