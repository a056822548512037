/* SPDX-License-Identifier: Apache-2.0 */
/* A prefix tree of claims for each family.
 *
 * Networks overlap only by one being inside the other, so what is in a
 * claim's way stands above its place in the tree, at it, or below it.  Each
 * node of the tree knows the highest claim that has its network in there,
 * so that one look tells about all that is below. */

#include "claims.h"

#include <string.h>

#include <util.h>

struct claims_node {
    struct claims_node *parent, *child[2];
    struct ip prefix;
    unsigned int bits; /* Of a struct ip: 96 and more for IPv4. */
    size_t n_claims;
    struct claim *holder; /* Has the network; NULL if nobody. */
    struct claim *best;   /* Highest holder in here and below. */
};

struct claims {
    struct claims_node *roots[N_IP_FAMILIES];
    struct ovs_list changed; /* Of struct claim. */
    uint64_t n_steps;

    /* A heap of claims that have to be decided upon, the highest on top. */
    struct claim **queue;
    size_t n_queue, allocated_queue;
};

struct claims *
claims_create(void)
{
    struct claims *cs = xzalloc(sizeof *cs);

    ovs_list_init(&cs->changed);
    return cs;
}

void
claims_destroy(struct claims *cs)
{
    if (cs) {
        ovs_assert(!cs->roots[IP_V4] && !cs->roots[IP_V6]);
        free(cs->queue);
        free(cs);
    }
}

/* Returns true if 'a' is above 'b', either of which may be NULL. */
static bool
is_above(const struct claim *a, const struct claim *b)
{
    int cmp;

    if (!a || !b) {
        return a != NULL;
    }
    if (!a->owner || !b->owner) {
        return a->owner == b->owner ? a->index < b->index : !a->owner;
    }
    if (a->created_s != b->created_s) {
        return a->created_s > b->created_s;
    }
    cmp = strcmp(a->name, b->name);
    return cmp ? cmp > 0 : a->index < b->index;
}

/* The queue. */

static void
swap_queued(struct claims *cs, size_t i, size_t j)
{
    struct claim *c = cs->queue[i];

    cs->queue[i] = cs->queue[j];
    cs->queue[j] = c;
}

static void
enqueue(struct claims *cs, struct claim *c)
{
    if (c->queued) {
        return;
    }
    if (cs->n_queue >= cs->allocated_queue) {
        cs->queue =
            x2nrealloc(cs->queue, &cs->allocated_queue, sizeof *cs->queue);
    }
    c->queued = true;
    size_t i = cs->n_queue++;
    cs->queue[i] = c;
    for (; i && is_above(cs->queue[i], cs->queue[(i - 1) / 2]);
         i = (i - 1) / 2) {
        swap_queued(cs, i, (i - 1) / 2);
    }
}

static struct claim *
dequeue(struct claims *cs)
{
    if (!cs->n_queue) {
        return NULL;
    }

    struct claim *top = cs->queue[0];
    cs->queue[0] = cs->queue[--cs->n_queue];
    for (size_t i = 0, child; (child = 2 * i + 1) < cs->n_queue; i = child) {
        if (child + 1 < cs->n_queue
            && is_above(cs->queue[child + 1], cs->queue[child])) {
            child++;
        }
        if (!is_above(cs->queue[child], cs->queue[i])) {
            break;
        }
        swap_queued(cs, i, child);
    }
    top->queued = false;
    return top;
}

/* The tree. */

static unsigned int
n_bits(const struct cidr *net)
{
    return net->plen + (ip_family(&net->ip) == IP_V4 ? 96 : 0);
}

static bool
bit_of(const struct ip *ip, unsigned int i)
{
    return ip->in6.s6_addr[i / 8] >> (7 - i % 8) & 1;
}

/* Number of first bits, up to 'max', in which both agree. */
static unsigned int
n_common(const struct ip *a, const struct ip *b, unsigned int max)
{
    unsigned int n = 0;

    while (n + 8 <= max && a->in6.s6_addr[n / 8] == b->in6.s6_addr[n / 8]) {
        n += 8;
    }
    while (n < max && bit_of(a, n) == bit_of(b, n)) {
        n++;
    }
    return n;
}

static struct claims_node *
make_node(struct claims_node *parent, const struct ip *prefix,
          unsigned int bits)
{
    struct claims_node *node = xzalloc(sizeof *node);

    node->parent = parent;
    node->prefix = *prefix;
    node->bits = bits;
    return node;
}

/* Puts a node of 'bits' above the one at '*link', and returns it. */
static struct claims_node *
put_above(struct claims_node **link, unsigned int bits)
{
    struct claims_node *below = *link;
    struct claims_node *node = make_node(below->parent, &below->prefix, bits);

    node->child[bit_of(&below->prefix, bits)] = below;
    node->best = below->best;
    below->parent = node;
    *link = node;
    return node;
}

/* Returns the node of 'net', which is made if there is none. */
static struct claims_node *
get_node(struct claims *cs, const struct cidr *net)
{
    struct claims_node **link = &cs->roots[ip_family(&net->ip)];
    struct claims_node *parent = NULL;
    unsigned int bits = n_bits(net);

    while (*link) {
        struct claims_node *node = *link;
        unsigned int n =
            n_common(&node->prefix, &net->ip, MIN(node->bits, bits));

        cs->n_steps++;
        if (n < node->bits) {
            node = put_above(link, n);
        }
        if (n == bits) {
            return node;
        }
        parent = node;
        link = &node->child[bit_of(&net->ip, node->bits)];
    }
    return *link = make_node(parent, &net->ip, bits);
}

/* Frees 'node' and those above it that have become useless. */
static void
trim_nodes(struct claims *cs, struct claims_node *node)
{
    while (node && !node->n_claims && !(node->child[0] && node->child[1])) {
        struct claims_node *parent = node->parent;
        struct claims_node *child = node->child[node->child[1] != NULL];
        struct claims_node **link =
            parent ? &parent->child[parent->child[1] == node]
                   : &cs->roots[ip_family(&node->prefix)];

        *link = child;
        if (child) {
            child->parent = parent;
        }
        free(node);
        node = parent;
    }
}

static const struct claim *
best_of(const struct claims_node *node)
{
    return node ? node->best : NULL;
}

/* Sets the holder of 'node'. */
static void
set_holder(struct claims *cs, struct claims_node *node, struct claim *c)
{
    node->holder = c;
    for (; node; node = node->parent) {
        const struct claim *best = node->holder;

        cs->n_steps++;
        for (int i = 0; i < 2; i++) {
            if (is_above(best_of(node->child[i]), best)) {
                best = node->child[i]->best;
            }
        }
        node->best = CONST_CAST(struct claim *, best);
    }
}

/* Decisions. */

static void
tell(struct claims *cs, struct claim *c)
{
    if (ovs_list_is_empty(&c->changed_node)) {
        ovs_list_push_back(&cs->changed, &c->changed_node);
    }
}

static void
set_blocker(struct claims *cs, struct claim *c, struct claim *blocker)
{
    ovs_list_remove(&c->waiting_node);
    ovs_list_init(&c->waiting_node);
    if (blocker) {
        ovs_list_push_back(&blocker->waiting, &c->waiting_node);
    }
    c->blocker = blocker;
    tell(cs, c);
}

/* Who waits for 'c' waits no longer. */
static void
release_waiting(struct claims *cs, struct claim *c)
{
    struct claim *w;

    LIST_FOR_EACH_SAFE (w, waiting_node, &c->waiting) {
        cs->n_steps++;
        set_blocker(cs, w, NULL);
        enqueue(cs, w);
    }
}

/* Takes the network from 'c'. */
static void
dispossess(struct claims *cs, struct claim *c)
{
    c->has = false;
    set_holder(cs, c->node, NULL);
    release_waiting(cs, c);
}

/* Takes what 'c' is to have from all that have it in and below 'node'. */
static void
clear_below(struct claims *cs, struct claims_node *node, struct claim *c)
{
    if (!best_of(node)) {
        return;
    }
    cs->n_steps++;

    struct claim *holder = node->holder;
    if (holder) {
        dispossess(cs, holder);
        set_blocker(cs, holder, c);
    }
    clear_below(cs, node->child[0], c);
    clear_below(cs, node->child[1], c);
}

/* Returns the highest claim that has something in the way of 'c', or NULL. */
static struct claim *
find_blocker(struct claims *cs, const struct claim *c)
{
    struct claim *found = c->node->best;

    for (struct claims_node *n = c->node->parent; n; n = n->parent) {
        cs->n_steps++;
        if (is_above(n->holder, found)) {
            found = n->holder;
        }
    }
    return is_above(found, c) ? found : NULL;
}

/* Decides about 'c', which hasn't its network. */
static void
decide(struct claims *cs, struct claim *c)
{
    struct claim *blocker = find_blocker(cs, c);

    cs->n_steps++;
    if (blocker) {
        set_blocker(cs, c, blocker);
        return;
    }
    for (struct claims_node *n = c->node->parent; n; n = n->parent) {
        struct claim *holder = n->holder;

        if (holder) {
            dispossess(cs, holder);
            set_blocker(cs, holder, c);
        }
    }
    clear_below(cs, c->node, c);
    c->has = true;
    set_holder(cs, c->node, c);
    set_blocker(cs, c, NULL);
}

/* What one decision touches is always lower, so each claim is decided upon
 * once at most. */
static void
decide_all(struct claims *cs)
{
    struct claim *c;

    while ((c = dequeue(cs))) {
        decide(cs, c);
    }
}

void
claims_add(struct claims *cs, struct claim *c)
{
    c->has = c->queued = false;
    c->blocker = NULL;
    ovs_list_init(&c->waiting);
    ovs_list_init(&c->waiting_node);
    ovs_list_init(&c->changed_node);
    c->node = get_node(cs, &c->net);
    c->node->n_claims++;
    enqueue(cs, c);
    decide_all(cs);
}

void
claims_remove(struct claims *cs, struct claim *c)
{
    if (c->has) {
        dispossess(cs, c);
    }
    ovs_list_remove(&c->waiting_node);
    ovs_list_remove(&c->changed_node);
    c->node->n_claims--;
    trim_nodes(cs, c->node);
    decide_all(cs);
}

struct claim *
claims_pop_changed(struct claims *cs)
{
    if (ovs_list_is_empty(&cs->changed)) {
        return NULL;
    }

    struct claim *c = CONTAINER_OF(ovs_list_pop_front(&cs->changed),
                                   struct claim, changed_node);
    ovs_list_init(&c->changed_node);
    return c;
}

bool
claims_has_changed(const struct claims *cs)
{
    return !ovs_list_is_empty(&cs->changed);
}

uint64_t
claims_n_steps(const struct claims *cs)
{
    return cs->n_steps;
}
