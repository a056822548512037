/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_FLOW_COOKIE_H
#define OFPROXYD_FLOW_COOKIE_H 1

/* The cookie of every flow that ofproxyd installs, and the number range of
 * its groups: what tells ours from a foreign hand's, and to which object a
 * flow belongs.
 *
 *    bits   63..56   55..48           47..40     39..32   31..0
 *           0xf9     layout version   category   0        object id
 *
 * Flows that the switch has learned, a client's memory each, have a cookie
 * that leads to the endpoint instead of to the object, whose group id stands
 * in the flow's match:
 *
 *    bits   63..56   55..48           47..40     39..0
 *           0xf9     layout version   7          hash of group id and endpoint
 *
 * A group id is 0x40000000 | object id << 9 | scope << 8 | leaf, where scope
 * is 0 for the endpoints of policy Cluster and 1 for those of policy Local,
 * and leaf is 0 for the group that flows name and 1 to 255 for the parts of a
 * group that is too large for one message.  So a group, too, leads back to
 * its object. */

#include <stdbool.h>
#include <stdint.h>

#define COOKIE_MAGIC      UINT64_C(0xf900000000000000)
#define COOKIE_MAGIC_MASK UINT64_C(0xff00000000000000)

/* Version of the tables' ids and of the meaning of registers.  Flows of
 * another version are ours, too, and never wanted. */
#define COOKIE_LAYOUT 1

/*              symbol      value  name        its object id */
#define COOKIE_CATEGORIES                                                  \
    COOKIE_CATEGORY(PIPELINE, 0, "pipeline", "0")                          \
    COOKIE_CATEGORY(POD, 1, "pod", "the pod's OpenFlow port")              \
    COOKIE_CATEGORY(SERVICE, 3, "service", "a Service port in one family") \
    COOKIE_CATEGORY(NODE, 5, "node", "another node")                       \
    COOKIE_CATEGORY(MULTICLUSTER, 6, "multicluster", "another cluster")    \
    COOKIE_CATEGORY(AFFINITY, 7, "affinity", "hash of group id and endpoint") \
    COOKIE_CATEGORY(CLUSTER_IP, 9, "cluster-ip", "a Service in one family")

enum cookie_category {
#define COOKIE_CATEGORY(SYM, VALUE, NAME, OBJECT) COOKIE_##SYM = VALUE,
    COOKIE_CATEGORIES
#undef COOKIE_CATEGORY
};

/* Object ids fit into 21 bits, so that group ids have room for them. */
#define OBJECT_ID_MAX ((UINT32_C(1) << 21) - 1)

/* Returns the cookie of the flows of an object. */
static inline uint64_t
cookie_make(enum cookie_category category, uint32_t object_id)
{
    return COOKIE_MAGIC | (uint64_t) COOKIE_LAYOUT << 48
           | (uint64_t) category << 40 | object_id;
}

/* Returns true for a cookie of ofproxyd, of whatever layout version. */
static inline bool
cookie_is_ours(uint64_t cookie)
{
    return (cookie & COOKIE_MAGIC_MASK) == COOKIE_MAGIC;
}

/* Returns true for a cookie of ofproxyd's present layout version: one of
 * another is in tables that meant something else. */
static inline bool
cookie_is_current(uint64_t cookie)
{
    return cookie >> 48 == (COOKIE_MAGIC >> 48 | COOKIE_LAYOUT);
}

/* The cookies of Antrea's agent (v2):
 *
 *    bits   63..48   47..40     39..32   31..0
 *           round    category   0        object id
 *
 * The round is counted up with each start of that agent. */
#define ANTREA_CATEGORY_MAX 8

/* Those of its categories that have no counterpart here. */
#define ANTREA_CATEGORIES                            \
    ANTREA_CATEGORY(POLICY, 2, "NetworkPolicy")      \
    ANTREA_CATEGORY(EGRESS, 4, "Egress")             \
    ANTREA_CATEGORY(MULTICAST, 5, "Multicast")       \
    ANTREA_CATEGORY(MULTICLUSTER, 6, "Multicluster") \
    ANTREA_CATEGORY(TRACEFLOW, 7, "Traceflow")       \
    ANTREA_CATEGORY(EXTERNAL_NODE, 8, "ExternalNode")

/* Returns true for a cookie of Antrea's agent in this round. */
static inline bool
cookie_is_antrea(uint64_t cookie, uint16_t round)
{
    return cookie >> 48 == round
           && (cookie >> 40 & 0xff) <= ANTREA_CATEGORY_MAX
           && (cookie >> 32 & 0xff) == 0 && !cookie_is_ours(cookie);
}

/* Returns the cookie of what is learned about an endpoint; the low 40 bits of
 * 'endpoint_hash' are used. */
static inline uint64_t
cookie_make_affinity(uint64_t endpoint_hash)
{
    return cookie_make(COOKIE_AFFINITY, 0)
           | (endpoint_hash & UINT64_C(0xffffffffff));
}

/* Returns true for the cookie of a flow that the switch has learned from a
 * flow of ours: it is nobody's wish, and goes with that flow. */
static inline bool
cookie_is_learned(uint64_t cookie)
{
    return cookie >> 40 == cookie_make(COOKIE_AFFINITY, 0) >> 40;
}

/* Cookies of learned flows have these bits of cookie_make_affinity(0). */
#define COOKIE_LEARNED_MASK UINT64_C(0xffffff0000000000)

/* Returns the object id in a cookie of ours. */
static inline uint32_t
cookie_object_id(uint64_t cookie)
{
    return (uint32_t) cookie;
}

/* Returns the category, an enum cookie_category if the layout is ours. */
static inline uint8_t
cookie_category(uint64_t cookie)
{
    return (uint8_t) (cookie >> 40);
}

#define GROUP_LEAF_MAX 255

/* Returns the id of an object's group: 'local' is the scope, 'leaf' up to
 * GROUP_LEAF_MAX. */
static inline uint32_t
group_id_make(uint32_t object_id, bool local, uint32_t leaf)
{
    return UINT32_C(0x40000000) | object_id << 9 | (uint32_t) local << 8
           | leaf;
}

/* Returns true for a group id in the range of ofproxyd. */
static inline bool
group_id_is_ours(uint32_t group_id)
{
    return (group_id & UINT32_C(0xc0000000)) == UINT32_C(0x40000000);
}

/* Returns the object id in a group id of ours. */
static inline uint32_t
group_id_object_id(uint32_t group_id)
{
    return (group_id & UINT32_C(0x3fffffff)) >> 9;
}

/* Returns true for a part of a larger group. */
static inline bool
group_id_is_leaf(uint32_t group_id)
{
    return (group_id & 0xff) != 0;
}

#endif /* ofproxyd/flow/cookie.h */
