/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOST_HOSTNL_CODEC_H
#define HOST_HOSTNL_CODEC_H 1

/* rtnetlink messages from and to the structs of hostnl.h. */

#include <stdbool.h>

#include <netlink/msg.h>

#include "hostnl.h"

/* Decodes any rtnetlink message.  False if it is none of interest. */
bool hostnl_decode(struct nlmsghdr *, struct hostnl_event *);

/* A request for hostnl_dump(); the family is an AF_*. */
struct nl_msg *hostnl_encode_dump(enum hostnl_kind, int family, int ifindex);

/* Requests.  'type' is an RTM_*, 'flags' are NLM_F_* beyond NLM_F_REQUEST. */
struct nl_msg *hostnl_encode_link_get(const char *name, int ifindex);
struct nl_msg *hostnl_encode_link_up(int ifindex);
struct nl_msg *hostnl_encode_addr(int type, int flags,
                                  const struct hostnl_addr *);
struct nl_msg *hostnl_encode_route(int type, int flags,
                                   const struct hostnl_route *);
struct nl_msg *hostnl_encode_neigh(int type, int flags,
                                   const struct hostnl_neigh *);
struct nl_msg *hostnl_encode_rule(int type, int flags,
                                  const struct hostnl_rule *);

#endif /* host/hostnl-codec.h */
