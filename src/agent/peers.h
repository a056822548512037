/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_AGENT_PEERS_H
#define OFPROXYD_AGENT_PEERS_H 1

/* The other nodes: which way to each of their pod networks.
 *
 * A function of the Nodes and of what this node is; the order of events
 * doesn't matter.  Pure: no socket, no clock, no log; what an operator should
 * know is handed out as text.
 *
 * Who has a network.  Two Nodes may name one network, or networks that
 * overlap: during an outage a Node that is long gone is still listed.  The
 * one with the later creationTimestamp has it, of equal ones the one with the
 * greater name; the other one gets it when that has gone.  (The
 * resourceVersion tells nothing about age: it changes whenever a kubelet
 * reports.)  A network that overlaps this node's own is never anybody else's.
 * A network that is left out takes nothing from others.
 *
 * Where a node is reached.  Its transport address of a family is the one in
 * its annotation; else, with transportInterfaceCIDRs, its first Node address
 * in the first of them that holds one; else its first InternalIP, else its
 * first ExternalIP.
 * Link-local addresses and this node's own don't count.  A pod network uses
 * the transport addresses of its own family if both nodes have one, else, for
 * tunnels only, those of the other family. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <openvswitch/dynamic-string.h>

#include "ofproxyd/base/ip.h"
#include "ofproxyd/config/config.h"
#include "ofproxyd/model/objects.h"

/*        symbol     name        meaning */
#define PEER_PATHS                                                  \
    PEER_PATH(TUNNEL, "tunnel", "by the tunnel port, to 'via'")     \
    PEER_PATH(DIRECT, "direct", "by a route to 'via', a neighbour") \
    PEER_PATH(UNDERLAY, "underlay", "the network between knows the way")

enum peer_path {
#define PEER_PATH(SYM, NAME, MEANING) PEER_##SYM,
    PEER_PATHS
#undef PEER_PATH
};

#define N_PEER_PATHS 3

/* Returns "tunnel", "direct" or "underlay". */
const char *peer_path_name(enum peer_path);

/* One pod network of another node. */
struct peer {
    struct cidr cidr;  /* Without host bits. */
    struct ip gateway; /* Its first address, of the same family. */
    enum peer_path path;
    struct ip via; /* The node's transport address; of a family other than
                    * the network's for some tunnels. */
};

/* What this node is. */
struct peers_env {
    enum cfg_encap_mode mode; /* CFG_NETWORK_POLICY_ONLY: no peers. */

    /* This node's transport addresses with their link's prefix length; "::"
     * if none.  While both are none there are no peers, so one that is lost
     * for a moment had better be kept. */
    struct cidr transport[N_IP_FAMILIES];

    /* The API server's; "::" if it is not known.  A network that it is in is
     * left out: nobody could tell us better from behind it. */
    struct ip server;
    /* This node's pod networks; networks of a family that isn't among them
     * are left out.  While there is none there are no peers. */
    const struct cidr *own_cidrs;
    size_t n_own_cidrs;

    const struct cidr *transport_cidrs; /* transportInterfaceCIDRs. */
    size_t n_transport_cidrs;
};

struct peers;

/* Peers without any Node or environment, for the node 'own_node', whose own
 * Node object may be put but is passed over. */
struct peers *peers_create(const char *own_node);
void peers_destroy(struct peers *); /* NULL is allowed. */

/* Finds the object id in the cookie that the switch has on a flow of the
 * networks 'peers', or returns UINT32_MAX.  'object_id' is what the flows
 * that are looked for may be rendered with.
 *
 * An id is the hash of the Node's name.  Where two hashes collide, who comes
 * first has it; by asking for what was installed a restart gives each the one
 * that it had. */
typedef uint32_t peers_find_id_fn(const struct peer *peers, size_t n,
                                  void *aux);
/* Sets the function that is asked, once for each Node.  NULL: none. */
void peers_set_find_id(struct peers *, peers_find_id_fn *, void *aux);

/* Sets what this node is; copied.  An equal one changes nothing. */
void peers_set_env(struct peers *, const struct peers_env *);

/* Adds or changes a Node; what is needed of it is copied.  One that is being
 * deleted counts until it is gone.  One without pod networks has none, even
 * if it had some before: the API never takes a podCIDR away, so it is another
 * Node of the same name. */
void peers_put(struct peers *, const struct node *);

/* Removes a Node; one that isn't known is none. */
void peers_remove(struct peers *, const char *name);

/* One Node's pod networks have changed, or what is wrong with them. */
struct peers_change {
    const char *name;
    uint32_t object_id; /* Of the Node's flows, up to OBJECT_ID_MAX; the same
                         * for all changes of a Node until it has gone.  0 if
                         * both lists are empty. */

    /* In the order of the Node's pod networks.  Empty lists are NULL. */
    const struct peer *was; /* 'now' of its last change. */
    size_t n_was;
    const struct peer *now;
    size_t n_now;

    /* Which networks are left out, and why; "" if none is. */
    const char *problem;
    /* 'problem' isn't what the Node's last change said: worth a line in the
     * log.  An empty one then means that all is well again.  That a Node with
     * a problem has gone is no news. */
    bool news;
};

/* Takes the next change.  Nothing is handed out that comes to nothing.  A
 * network that goes from one Node to another is taken from the one before it
 * is given to the other, in whatever way they exchange networks, so that no
 * two Nodes ever overlap in what was handed out last.  What '*ret' points to
 * is valid until the next call of any function that changes 'peers'. */
bool peers_pop_change(struct peers *, struct peers_change *ret);

/* False if there is surely no change. */
bool peers_has_change(const struct peers *);

/* Appends a line for each network that was handed out, and each problem,
 * ordered by name. */
void peers_format(const struct peers *, struct ds *);

struct peers_counts {
    size_t n_nodes;                  /* Other Nodes that are known. */
    size_t n_networks[N_PEER_PATHS]; /* Handed out, by enum peer_path. */
    size_t n_problems;               /* Nodes with a problem. */
};
/* Sets '*ret' to the numbers of what was handed out. */
void peers_count(const struct peers *, struct peers_counts *ret);

/* Elementary steps done so far, for tests of cost. */
uint64_t peers_n_steps(const struct peers *);

#endif /* src/agent/peers.h */
