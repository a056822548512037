/* SPDX-License-Identifier: Apache-2.0 */
/* Names and numbers of the transport protocols, expanded from PROTOS. */

#include "ofproxyd/base/proto.h"

#include <errno.h>
#include <string.h>

#include <util.h>

const char *
proto_name(enum proto proto)
{
    switch (proto) {
#define PROTO(SYM, NAME, NUMBER) \
    case PROTO_##SYM: return NAME;
        PROTOS
#undef PROTO
    }
    OVS_NOT_REACHED();
}

uint8_t
proto_number(enum proto proto)
{
    switch (proto) {
#define PROTO(SYM, NAME, NUMBER) \
    case PROTO_##SYM: return NUMBER;
        PROTOS
#undef PROTO
    }
    OVS_NOT_REACHED();
}

int
proto_parse(const char *s, enum proto *ret)
{
#define PROTO(SYM, NAME, NUMBER) \
    if (!strcmp(s, NAME)) {      \
        *ret = PROTO_##SYM;      \
        return 0;                \
    }
    PROTOS
#undef PROTO
    return EINVAL;
}
