/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_FLOW_ITEM_H
#define OFPROXYD_FLOW_ITEM_H 1

/* One flow or one group, rendered: an immutable block of bytes.
 *
 * The bytes are those of the OpenFlow 1.5 message that would install it, so
 * two items are equal exactly if their bytes are, to send one is to copy it,
 * and a flow that was read from the switch and encoded again compares with
 * one that was rendered.  Items are reference counted: what is wanted and
 * what is installed are usually the same item. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <openvswitch/dynamic-string.h>
#include <openvswitch/match.h>
#include <openvswitch/ofp-actions.h>
#include <openvswitch/ofp-group.h>
#include <openvswitch/ofpbuf.h>

#include "ofproxyd/base/err.h"

enum fitem_kind {
    FITEM_FLOW,
    FITEM_GROUP
};

struct fitem;
struct ip;

/* What a flow is made of.  Pointers are the caller's and are copied. */
struct fitem_flow {
    uint8_t table;
    uint16_t priority;
    uint64_t cookie;
    uint16_t idle_timeout; /* Seconds, 0 none. */
    uint16_t hard_timeout; /* Seconds, 0 none. */
    uint16_t flags;        /* OFPUTIL_FF_*, those that a flow keeps. */
    const struct match *match;
    const struct ofpact *ofpacts;
    size_t ofpacts_len;
};

/* Never more than this for one group, so that its description fits into one
 * multipart reply and no message overflows its 16-bit length
 * (ovs-vswitchd aborts on larger ones: ofpmp_postappend). */
#define FITEM_GROUP_MAX_BYTES 60000

/* Returns a new item with one reference.  Of the flags only those count that
 * change what a flow does (SEND_FLOW_REM, NO_PKT_COUNTS, NO_BYT_COUNTS).
 *
 * A flow whose message would be too long to be sent, which only a foreign
 * hand can have made, loses its actions and gets an importance of 65535
 * instead, so that it has the key and the cookie of the flow and is equal to
 * nothing that is wanted. */
struct fitem *fitem_from_flow(const struct fitem_flow *);

/* Returns a new item with one reference: the flow 'like', which matches one
 * destination address, for 'dst' of the same family instead.  The same as to
 * encode that flow, at a tenth of the cost: a Service can have thousands of
 * addresses. */
struct fitem *fitem_with_dst(const struct fitem *like, const struct ip *dst);

/* 'gm' is read as the contents of a group: id, type, buckets, properties;
 * its command is ignored.  Returns 0 and sets '*ret' to a new item with one
 * reference, or EMSGSIZE and says in 'err' by how much the group is too
 * large.
 *
 * A group that a foreign hand made under an id of ours may be too large, too.
 * For flowtab_have() it is enough to read it as a group without buckets: that
 * has the key and is equal to nothing that is wanted. */
int fitem_from_group(const struct ofputil_group_mod *gm, struct fitem **ret,
                     struct err *err) OVS_WARN_UNUSED_RESULT;

/* Returns the item with one more reference. */
struct fitem *fitem_ref(const struct fitem *);
void fitem_unref(struct fitem *); /* NULL is allowed. */

/* What an item is and names; numbers are 0 where they make no sense. */
enum fitem_kind fitem_kind(const struct fitem *);
uint64_t fitem_cookie(const struct fitem *);   /* 0 for a group. */
uint32_t fitem_group_id(const struct fitem *); /* 0 for a flow. */
uint8_t fitem_table(const struct fitem *);     /* 0 for a group. */
uint16_t fitem_priority(const struct fitem *); /* 0 for a group. */
uint8_t fitem_nw_proto(const struct fitem *);  /* That it matches; or 0. */
size_t fitem_size(const struct fitem *);       /* Of the message, bytes. */

/* The key is (table, priority, match) for a flow, the id for a group. */
uint32_t fitem_key_hash(const struct fitem *);
uint32_t fitem_group_hash(uint32_t group_id); /* That of the group's key. */
bool fitem_key_equals(const struct fitem *, const struct fitem *);
bool fitem_equals(const struct fitem *, const struct fitem *);

/* Calls 'cb' for every group that the actions of the item name, as often as
 * it is named. */
void fitem_for_each_group(const struct fitem *,
                          void (*cb)(uint32_t group_id, void *aux), void *aux);

/* Return a message, without xid, that installs the item whether or not one
 * of its key is there (OFPFC_ADD, OFPGC_ADD_OR_MOD), or that removes exactly
 * it (OFPFC_DELETE_STRICT restricted to the item's cookie, OFPGC_DELETE). */
struct ofpbuf *fitem_encode_put(const struct fitem *);
struct ofpbuf *fitem_encode_delete(const struct fitem *);

/* Appends the item as ovs-ofctl prints it, with table names from
 * 'table_names' (NULL for numbers), without statistics; no newline. */
struct ofputil_table_map;
void fitem_format(const struct fitem *, const struct ofputil_table_map *,
                  struct ds *);

/* The result of rendering one object: a growing list of items. */
struct fout {
    struct fitem **items;
    size_t n, allocated;
};

#define FOUT_INIT  \
    {              \
        NULL, 0, 0 \
    }

/* Adds an item; takes the reference. */
void fout_add(struct fout *, struct fitem *);
/* True if an item is at the place of 'item': the same table, priority and
 * match, or the same group. */
bool fout_has_key(const struct fout *, const struct fitem *);
void fout_flow(struct fout *, const struct fitem_flow *);
/* As fitem_from_group(). */
int fout_group(struct fout *, const struct ofputil_group_mod *, struct err *)
    OVS_WARN_UNUSED_RESULT;
/* Releases all items; the list is empty and usable again. */
void fout_clear(struct fout *);

#endif /* ofproxyd/flow/item.h */
