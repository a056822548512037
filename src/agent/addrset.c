/* SPDX-License-Identifier: Apache-2.0 */

/* Sets of addresses with ports. */

#include "addrset.h"

#include <stdlib.h>

#include <util.h>

int
addr_compare(const struct addr *a, const struct addr *b)
{
    int cmp = ip_compare(&a->ip, &b->ip);

    return cmp ? cmp : (a->port > b->port) - (a->port < b->port);
}

static int
compare(const void *a, const void *b)
{
    return addr_compare(a, b);
}

void
addrset_push(struct addrset *set, const struct ip *ip, uint16_t port)
{
    if (set->n >= set->allocated) {
        set->a = x2nrealloc(set->a, &set->allocated, sizeof *set->a);
    }
    set->a[set->n++] = (struct addr){ *ip, port };
}

void
addrset_sort(struct addrset *set)
{
    size_t n = 0, i = 1;

    while (i < set->n && addr_compare(&set->a[i - 1], &set->a[i]) < 0) {
        i++;
    }
    if (i >= set->n) {
        return; /* As nearly always. */
    }
    qsort(set->a, set->n, sizeof *set->a, compare);
    for (i = 0; i < set->n; i++) {
        if (!n || addr_compare(&set->a[n - 1], &set->a[i])) {
            set->a[n++] = set->a[i];
        }
    }
    set->n = n;
}

void
addrset_add(struct addrset *set, const struct addrset *other)
{
    for (size_t i = 0; i < other->n; i++) {
        addrset_push(set, &other->a[i].ip, other->a[i].port);
    }
    addrset_sort(set);
}

bool
addrset_has(const struct addrset *set, const struct addr *addr)
{
    return set->n && bsearch(addr, set->a, set->n, sizeof *set->a, compare);
}

void
addrset_subtract(const struct addrset *a, const struct addrset *b,
                 struct addrset *ret)
{
    for (size_t i = 0; i < a->n; i++) {
        if (!addrset_has(b, &a->a[i])) {
            addrset_push(ret, &a->a[i].ip, a->a[i].port);
        }
    }
}

void
addrset_move(struct addrset *set, struct addrset *other)
{
    addrset_clear(set);
    *set = *other;
    *other = (struct addrset) ADDRSET_INIT;
}

void
addrset_clear(struct addrset *set)
{
    free(set->a);
    *set = (struct addrset) ADDRSET_INIT;
}
