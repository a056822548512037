/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CTL_BRIDGE_H
#define CTL_BRIDGE_H 1

/* Groups as the switch has them, read over OpenFlow 1.5. */

#include <stddef.h>
#include <stdint.h>

#include "ofproxyd/base/err.h"
#include "ofproxyd/base/ip.h"

struct bridge;

/* Connects to the bridge 'name' of the switch with that run directory.
 * Returns 0 and sets '*ret', the caller's to bridge_close(), or a positive
 * errno value with 'err'. */
int bridge_open(const char *run_dir, const char *name, struct bridge **ret,
                struct err *err) OVS_WARN_UNUSED_RESULT;
void bridge_close(struct bridge *); /* NULL is allowed. */

/* An endpoint that a group leads to. */
struct member {
    struct ip ip;
    uint16_t port;
    uint64_t n_packets, n_bytes; /* That went there by way of the group. */
};

struct group {
    struct member *members; /* In ascending order. */
    size_t n;
};

/* Reads a group with its parts and their counters.  Returns 0 and sets
 * '*ret', the caller's to group_uninit(), ENOENT if the switch doesn't have
 * it, or another positive errno value with 'err'. */
int bridge_read_group(struct bridge *, uint32_t id, struct group *ret,
                      struct err *err) OVS_WARN_UNUSED_RESULT;
void group_uninit(struct group *);

#endif /* src/ctl/bridge.h */
