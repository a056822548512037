/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_AGENT_PEERS_WAY_H
#define OFPROXYD_AGENT_PEERS_WAY_H 1

/* The way to one Node's networks, without regard to other Nodes, and what is
 * wrong with networks, this node's as well. */

#include "peers.h"

/*        symbol       why a network is left out */
#define WAY_FLAWS                                                   \
    WAY_FLAW(ALL, "it is all addresses")                            \
    WAY_FLAW(LARGE, "it is larger than networks of pods can be")    \
    WAY_FLAW(SMALL, "it has no room for a gateway address")         \
    WAY_FLAW(NO_HOSTS, "its first address can't be a host's")       \
    WAY_FLAW(FAMILY, "this node has no pod network of that family") \
    WAY_FLAW(SERVER, "the API server's address is in it")           \
    WAY_FLAW(OWN_ADDRESS, "this node's own address is in it")       \
    WAY_FLAW(ADDRESS, "the node's own address is in it")

enum way_flaw {
    WAY_GOOD,
#define WAY_FLAW(SYM, TEXT) WAY_##SYM,
    WAY_FLAWS
#undef WAY_FLAW
};

/* Returns what is wrong in words, "" for WAY_GOOD. */
const char *way_flaw_text(enum way_flaw);

/* Chooses the transport address of each family of a Node with the 'annotated'
 * ones ("::" if none) and 'n' 'addresses'; "::" where there is none. */
void way_choose_transport(const struct peers_env *,
                          const struct ip annotated[N_IP_FAMILIES],
                          const struct node_address *addresses, size_t n,
                          struct ip ret[N_IP_FAMILIES]);

/* Returns what is wrong with 'net', without host bits, as the pod network of a
 * Node with these transport addresses; with NULL for both, in itself.  Doesn't
 * look at this node's own networks. */
enum way_flaw way_find_flaw(const struct peers_env *,
                            const struct ip transport[N_IP_FAMILIES],
                            const struct cidr *net);

/* Sets the way to 'peer->cidr' of a Node with these transport addresses.
 * Returns false if there is none. */
bool way_find(const struct peers_env *,
              const struct ip transport[N_IP_FAMILIES], struct peer *peer);

/* Why way_find() finds no way to the network 'net'. */
const char *way_missing_text(const struct peers_env *, const struct cidr *net);

#endif /* src/agent/peers-way.h */
