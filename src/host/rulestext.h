/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOST_RULESTEXT_H
#define HOST_RULESTEXT_H 1

/* Our nftables table as text: a function of what is wanted.  Pure. */

#include <openvswitch/dynamic-string.h>

#include "memberset.h"
#include "ofproxyd/host/rules.h"

#define RULES_TABLE "ofproxyd" /* Of family inet. */

/* What a set's members are. */
enum rulestext_kind {
    RULESTEXT_NETWORKS,     /* CIDRs. */
    RULESTEXT_ADDRESSES,    /* CIDRs of full length. */
    RULESTEXT_PORTS,        /* Protocol and port. */
    RULESTEXT_ADDRESS_PORTS /* Address, protocol and port. */
};
enum rulestext_kind rulestext_set_kind(enum rules_set_id);

/* The name of a set in the kernel. */
const char *rulestext_set_name(enum rules_set_id, enum ip_family);

/* Appends the commands that replace the whole table; its sets are empty. */
void rulestext_table(const struct rules_want *, struct ds *);

/* True for sets of ports, which have very many members and may be filled step
 * by step where there was no table: until then what they decide about is as it
 * was without one. */
bool rulestext_set_is_of_ports(enum rules_set_id);

/* Appends the commands that fill the sets, which are N_RULES_SETS; those of
 * ports only if 'ports'. */
void rulestext_members(const struct memberset *sets, bool ports, struct ds *);

/* True if a link's name can stand in these texts as it is. */
bool rulestext_name_is_plain(const char *);

#endif /* host/rulestext.h */
