/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOST_CTSTALE_H
#define HOST_CTSTALE_H 1

/* Removes entries of the host's own conntrack zone that keep packets of a
 * Service on the wrong way: for UDP and SCTP a client may go on for ever as
 * it began, and the rules for translation see only first packets.
 *
 * What began before a NodePort, an external address or a node's address was
 * served is not translated, and what began while it was served, still is.
 * Only entries are looked at whose destination has changed in this respect
 * since the last pass; connections that are on the right way stay. */

#include "ctflush.h"
#include "memberset.h"

/* What is right now. */
struct ctstale_want {
    const struct memberset *sets;         /* N_RULES_SETS of them. */
    struct ip gateway_ips[N_IP_FAMILIES]; /* "::" for none, also below. */
    struct ip node_port_ips[N_IP_FAMILIES];
};

struct ctstale {
    struct memberset changed; /* Ports at an address, ports at any, and
                               * addresses. */
    bool sctp;                /* Some of them are of SCTP. */
    struct ctflush flush;
};

void ctstale_init(struct ctstale *, int gap_max_ms);
void ctstale_uninit(struct ctstale *);

/* The kernel has got or lost a member of RULES_NODE_PORT_ADDRS,
 * RULES_NODE_PORTS or RULES_EXTERNAL. */
void ctstale_note(struct ctstale *, const struct member *);

/* Goes on with a pass: with a step of it a turn. */
void ctstale_run(struct ctstale *, const struct ctstale_want *);

#endif /* host/ctstale.h */
