/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_BASE_PROTO_H
#define OFPROXYD_BASE_PROTO_H 1

/* The transport protocols that a Service port can have (core/v1 Protocol). */

#include <stdint.h>

#include <openvswitch/compiler.h>

/*      symbol  name    IANA protocol number */
#define PROTOS            \
    PROTO(TCP, "TCP", 6)  \
    PROTO(UDP, "UDP", 17) \
    PROTO(SCTP, "SCTP", 132)

enum proto {
#define PROTO(SYM, NAME, NUMBER) PROTO_##SYM,
    PROTOS
#undef PROTO
};
#define N_PROTOS 3

/* "TCP", "UDP" or "SCTP". */
const char *proto_name(enum proto);

/* The IANA protocol number: 6, 17 or 132. */
uint8_t proto_number(enum proto);

/* Returns 0 and sets '*ret', or EINVAL for any other text (the API's names
 * are upper case). */
int proto_parse(const char *s, enum proto *ret) OVS_WARN_UNUSED_RESULT;

#endif /* ofproxyd/base/proto.h */
