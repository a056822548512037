/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_KUBE_STREAM_BUF_H
#define OFPROXYD_KUBE_STREAM_BUF_H 1

/* Buffers that list and watch share: the piece of the body that the caller
 * owns, and a copy of what began in earlier pieces. */

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <util.h>

/* A gathering buffer larger than this is given back after use. */
#define GATHER_KEEP ((size_t) 256 * 1024)

/* What goes over the border of two pieces. */
struct gather {
    char *data;
    size_t n, allocated;
};

static inline void
gather_append(struct gather *g, const char *data, size_t n)
{
    if (n > g->allocated - g->n) {
        g->allocated = MAX(g->n + n, 2 * g->allocated);
        g->data = xrealloc(g->data, g->allocated);
    }
    if (n) {
        memcpy(g->data + g->n, data, n);
        g->n += n;
    }
}

static inline void
gather_clear(struct gather *g)
{
    g->n = 0;
    if (g->allocated > GATHER_KEEP) {
        free(g->data);
        *g = (struct gather){ .data = NULL };
    }
}

/* The piece that the caller has handed in, and what was read of it. */
struct piece {
    const char *data;
    size_t n, pos;
};

static inline void
piece_set(struct piece *piece, const char *data, size_t n)
{
    ovs_assert(piece->pos == piece->n);
    *piece = (struct piece){ .data = data, .n = n };
}

#endif /* kube/stream-buf.h */
