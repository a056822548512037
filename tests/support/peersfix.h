/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_PEERSFIX_H
#define TESTS_SUPPORT_PEERSFIX_H 1

/* Nodes and environments from text, for tests of src/agent/peers.c. */

#include <openvswitch/dynamic-string.h>

#include "../../src/agent/peers.h"

/* A Node in words.  Lists are separated by blanks; NULL is an empty one. */
struct peersfix_node {
    const char *name;
    int64_t created_s;
    const char *pods;      /* CIDRs. */
    const char *addresses; /* ExternalIPs with a '+' in front. */
    const char *annotated;
};

/* The API server's address. */
#define PEERSFIX_SERVER "203.0.113.250"

/* This node in words; 'transport' with prefix lengths. */
struct peersfix_env {
    enum cfg_encap_mode mode;
    const char *transport;
    const char *own;
    const char *transport_cidrs;
};

void peersfix_put(struct peers *, const struct peersfix_node *);
void peersfix_set_env(struct peers *, const struct peersfix_env *);

/* Parses up to 'max' CIDRs; returns their number. */
size_t peersfix_cidrs(const char *text, struct cidr *ret, size_t max);

/* Appends "CIDR PATH VIA". */
void peersfix_format(const struct peer *, struct ds *);

/* Takes all changes.  Appends, each on a line, "NAME", what was given back
 * with '-', what was given with '+', what got another way with '~', and what
 * is new about the problem in brackets.  Checks that each begins where the
 * Node's last one ended as far as that can be seen from the change. */
void peersfix_drain(struct peers *, struct ds *);

/* Compares what peersfix_drain() appends with 'expected'. */
void peersfix_expect(struct peers *, const char *expected);

#endif /* tests/support/peersfix.h */
