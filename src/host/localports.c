/* SPDX-License-Identifier: Apache-2.0 */
/* The node's range of source ports, and what is left beside it. */

#include "ofproxyd/host/localports.h"

#include <stdio.h>

#include <util.h>

#define PATH "/proc/sys/net/ipv4/ip_local_port_range"

/* Ports that need no privilege (the kernel's NAT keeps to them, too). */
#define FIRST 1024
#define LAST  65535

struct localports
localports_default(void)
{
    return (struct localports){ .first = 32768, .last = 60999 };
}

struct localports
localports_read(void)
{
    FILE *file = fopen(PATH, "re");
    unsigned int first, last;
    bool good = file && fscanf(file, "%5u %5u", &first, &last) == 2 && first
                && first <= last && last <= LAST;

    if (file) {
        fclose(file);
    }
    return good ? (struct localports){ (uint16_t) first, (uint16_t) last }
                : localports_default();
}

struct localports
localports_left(struct localports used, bool *apart)
{
    int below = used.first - 1, above = MAX(used.last + 1, FIRST);
    int n_below = below - FIRST + 1, n_above = LAST - above + 1;

    *apart = n_below >= LOCALPORTS_LEAST || n_above >= LOCALPORTS_LEAST;
    if (!*apart) {
        return (struct localports){ FIRST, LAST };
    }
    return n_below >= n_above
               ? (struct localports){ FIRST, (uint16_t) below }
               : (struct localports){ (uint16_t) above, LAST };
}
