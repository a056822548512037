/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_AGENT_ADDRSET_H
#define OFPROXYD_AGENT_ADDRSET_H 1

/* A set of addresses with ports, in an array in ascending order. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ofproxyd/base/ip.h"

struct addr {
    struct ip ip;
    uint16_t port;
};

struct addrset {
    struct addr *a;
    size_t n, allocated;
};

#define ADDRSET_INIT \
    {                \
        NULL, 0, 0   \
    }

int addr_compare(const struct addr *, const struct addr *);

/* Adds an address; the set is to be put in order with addrset_sort() before
 * anything else is done with it. */
void addrset_push(struct addrset *, const struct ip *, uint16_t port);
void addrset_sort(struct addrset *);

/* Adds all of 'other'. */
void addrset_add(struct addrset *, const struct addrset *other);

bool addrset_has(const struct addrset *, const struct addr *);

/* Adds what of 'a' is not in 'b' to 'ret', which is empty. */
void addrset_subtract(const struct addrset *a, const struct addrset *b,
                      struct addrset *ret);

/* Makes 'set' what 'other' is, and 'other' empty. */
void addrset_move(struct addrset *set, struct addrset *other);

/* Frees the memory; the set is empty and usable again. */
void addrset_clear(struct addrset *);

#endif /* src/agent/addrset.h */
