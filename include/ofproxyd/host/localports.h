/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_HOST_LOCALPORTS_H
#define OFPROXYD_HOST_LOCALPORTS_H 1

/* Source ports: those that the kernel gives to this node's programs
 * (net.ipv4.ip_local_port_range, for IPv6 as well; ip-sysctl.rst), and those
 * that are left for connections of others behind the same address. */

#include <stdbool.h>
#include <stdint.h>

struct localports {
    uint16_t first, last; /* Both included. */
};

/* Fewer are not kept apart: an endpoint can have no more connections from one
 * address, and what is beyond is dropped, which is worse than what they are
 * kept apart for.  A quarter of all ports. */
#define LOCALPORTS_LEAST 16384

/* Linux's default, 32768 to 60999. */
struct localports localports_default(void);

/* Reads what programs get.  If it can't be read, or is none, the default. */
struct localports localports_read(void);

/* The longer part of 1024 to 65535 below or above what programs get; the one
 * below if they are equal.  If it has fewer than LOCALPORTS_LEAST, all of 1024
 * to 65535, and 'apart' is set to false. */
struct localports localports_left(struct localports used, bool *apart);

#endif /* ofproxyd/host/localports.h */
