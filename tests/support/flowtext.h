/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_TESTS_FLOWTEXT_H
#define OFPROXYD_TESTS_FLOWTEXT_H 1

/* Items from text as ovs-ofctl takes it, and back. */

#include "ofproxyd/flow/item.h"

/* Return a new item, or fail the test and say why.
 *
 * flow: "cookie=0x..,table=..,priority=..,<match> actions=.."
 * group: "group_id=..,type=..,..,bucket=bucket_id:..,actions=.." */
struct fitem *flowtext_flow(const char *text);
struct fitem *flowtext_group(const char *text);

/* Whichever of the two 'text' is. */
struct fitem *flowtext_item(const char *text);

/* A match and actions from text, into what the caller has initialised. */
void flowtext_parse_flow(const char *text, struct match *match,
                         struct ofpbuf *ofpacts, struct fitem_flow *ret);

/* Returns the item as text, which the caller frees. */
char *flowtext_format(const struct fitem *);

/* Return a new, small item: a flow in table 12 whose key is (object, k), and
 * a select group of one bucket.  'version' tells two of one key apart; each
 * names a group unless that is 0. */
struct fitem *flowtext_make_flow(uint64_t cookie, uint32_t object, uint32_t k,
                                 uint32_t version, uint32_t group_id);
struct fitem *flowtext_make_group(uint32_t group_id, uint16_t version,
                                  uint32_t named);

/* Every kind of match, action and group that the pipeline uses, at least
 * once; ends with NULL.  Groups come before those that name them. */
extern const char *const flowtext_samples[];

#endif /* flowtext.h */
