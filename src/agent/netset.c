/* SPDX-License-Identifier: Apache-2.0 */

/* Since none holds another one, what overlaps a network is what it holds,
 * which begins where it does or later, or holds it, which is the last that
 * begins before. */

#include "netset.h"

#include <stdlib.h>
#include <string.h>

#include <util.h>

void
netset_clear(struct netset *set)
{
    free(set->items);
    *set = NETSET_INIT;
}

void
netset_push(struct netset *set, const struct cidr *net, const char *whose)
{
    if (set->n >= set->allocated) {
        set->items =
            x2nrealloc(set->items, &set->allocated, sizeof *set->items);
    }
    set->items[set->n++] = (struct netset_item){ *net, whose };
    set->sorted = false;
}

/* Each family by itself: as numbers, networks of IPv6 hold those of IPv4. */
static int
compare_starts(const struct ip *a, const struct ip *b)
{
    int families = (int) ip_family(a) - (int) ip_family(b);

    return families ? families : ip_compare(a, b);
}

static int
compare_items(const void *a_, const void *b_)
{
    const struct netset_item *a = a_, *b = b_;
    int cmp = compare_starts(&a->net.ip, &b->net.ip);

    return cmp                          ? cmp
           : a->net.plen != b->net.plen ? a->net.plen - b->net.plen
                                        : strcmp(a->whose, b->whose);
}

void
netset_compact(struct netset *set)
{
    size_t n = 0;

    if (set->n) {
        qsort(set->items, set->n, sizeof *set->items, compare_items);
    }
    for (size_t i = 0; i < set->n; i++) {
        if (!n
            || !cidr_contains(&set->items[n - 1].net, &set->items[i].net.ip)) {
            set->items[n++] = set->items[i];
        }
    }
    set->n = n;
    set->sorted = true;
}

void
netset_merge(struct netset *set, const struct netset *more)
{
    size_t i = set->n, j = more->n;

    for (size_t k = 0; k < more->n; k++) {
        netset_push(set, &more->items[k].net, more->items[k].whose);
    }
    /* From the end, where there is room now. */
    while (j) {
        bool is_old =
            i && compare_items(&set->items[i - 1], &more->items[j - 1]) > 0;

        set->items[i + j - 1] =
            is_old ? set->items[i - 1] : more->items[j - 1];
        i -= is_old;
        j -= !is_old;
    }
    set->sorted = true;
}

static bool
overlap(const struct cidr *a, const struct cidr *b)
{
    return cidr_contains(a, &b->ip) || cidr_contains(b, &a->ip);
}

static const struct netset_item *
find_unsorted(const struct netset *set, const struct cidr *net)
{
    for (size_t i = 0; i < set->n; i++) {
        if (overlap(&set->items[i].net, net)) {
            return &set->items[i];
        }
    }
    return NULL;
}

const struct netset_item *
netset_find(const struct netset *set, const struct cidr *net)
{
    if (!set->sorted) {
        return find_unsorted(set, net);
    }

    size_t low = 0, high = set->n;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (compare_starts(&set->items[mid].net.ip, &net->ip) < 0) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    if (low && cidr_contains(&set->items[low - 1].net, &net->ip)) {
        return &set->items[low - 1];
    }
    return low < set->n && cidr_contains(net, &set->items[low].net.ip)
               ? &set->items[low]
               : NULL;
}

bool
netset_equals(const struct netset *a, const struct netset *b)
{
    if (a->n != b->n) {
        return false;
    }
    for (size_t i = 0; i < a->n; i++) {
        if (compare_starts(&a->items[i].net.ip, &b->items[i].net.ip)
            || a->items[i].net.plen != b->items[i].net.plen) {
            return false;
        }
    }
    return true;
}
