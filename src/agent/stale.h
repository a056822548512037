/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_AGENT_STALE_H
#define OFPROXYD_AGENT_STALE_H 1

/* Connections of UDP and SCTP that lead nowhere useful any more.
 *
 * A tracked connection keeps the endpoint that it was given, and one of UDP
 * has no end: it lives as long as somebody sends.  So what was given an
 * endpoint that is gone, or an address that is no Service's any more, has to
 * be taken from the switch's connection tracking; and what was sent to an
 * address before a Service had it, and went by untranslated.
 *
 * An endpoint is gone when it neither serves nor is ready.  One that does is
 * left alone even if policy, topology or better endpoints keep new
 * connections away, as TCP's are (services.md 1.2 "Stale UDP"); so is one that
 * only publishNotReadyAddresses makes ready.  TCP connections end by
 * themselves, and may end gracefully.
 *
 * Only what is known to be stale is named: an address and an endpoint that is
 * gone.  Where an address has no living endpoint at all, or is no Service's,
 * the address alone says the same in one request.
 *
 * When:  after the switch has confirmed the flows of the Service port that
 * changed (an earlier removal would only let the next packet choose the old
 * endpoint again), so a port that the switch refuses keeps its debt, and so
 * does a lost connection.  And several times: Open vSwitch 3.1 leaves up to
 * half of the entries when they are a large part of all (its table shrinks
 * under the walk; fixed in 3.4), and what its datapath has cached leads to the
 * old endpoint for up to some tenths of a second.  Half of the passes follow
 * each other at once, the others are spread over STALE_SPREAD_MS; where a pass
 * costs much, it is two of them.
 *
 * Not before STALE_GRACE_MS: an answer whose connection is forgotten while it
 * is on its way is lost.
 *
 * Cost: each request is a walk over the whole table by the switch's main
 * thread (0.35 us an entry).  How long it takes is measured; the requests are
 * so few at a time, and so far apart, that it is busy with them for at most a
 * quarter of the time.
 *
 * The same for a source: a connection to another cluster keeps the address of
 * this node that it was given, also when that is another one now and answers
 * to the old one come nowhere.  There TCP's are forgotten, too: what comes
 * next has the new source, and is reset soon by who doesn't know it.
 *
 * And a node that becomes the gateway may have connections of UDP that other
 * clusters' gateways opened twice: as the gateway that it has been before, and
 * as the node of a pod to which another gateway has translated them.  Both are
 * answered from the same address to the same one; where the latter is found,
 * answers go back untranslated for as long as they keep it alive.  So all of
 * them are forgotten. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ofproxyd/config/config.h"
#include "ofproxyd/flow/flowtab.h"
#include "ofproxyd/model/endpoints.h"
#include "ofproxyd/pipeline/pipeline.h"
#include "ofproxyd/switch/ofconn.h"

struct stale;

/* Returns the name of the file for stale_create(), beside the switch's
 * sockets.  The caller frees it. */
char *stale_path(const struct cfg *);

/* From the confirmation to the first pass: for answers that are on their way,
 * and the switch's caches. */
#define STALE_GRACE_MS 50

/* From a job's first pass to its last, at least. */
#define STALE_SPREAD_MS 1000

/* The flow table must live longer.  What is due is kept in the file 'path',
 * which may be NULL. */
struct stale *stale_create(const struct flowtab *, const char *path);
void stale_destroy(struct stale *); /* NULL is allowed. */

/* What changes. */

/* A Service port as it is now.  Pointers are the caller's. */
struct stale_port {
    uint64_t owner; /* In the flow table. */
    enum ip_family family;
    enum proto proto; /* Nothing is done for TCP. */
    const struct pipe_frontend *frontends;
    size_t n_frontends;
    const struct eps_list *alive; /* As eps_list_alive() makes it. */
    const struct eps_choice *choice;
};

/* A Service port is or has become as said.  To be called before what it wants
 * of the switch can have been sent: at first it is looked up whether the
 * switch knew its addresses. */
void stale_update(struct stale *, const struct stale_port *);

/* The Service port of 'owner', which may be unknown, is gone. */
void stale_remove(struct stale *, uint64_t owner);

/* The addresses of this node that serve NodePorts, copied; those of
 * pipe_node_port_ip() do without being named. */
void stale_set_node_ips(struct stale *, const struct ip *, size_t n);

/* The address that connections to other clusters get as their source, or "::"
 * if they get none here. */
void stale_set_source(struct stale *, const struct ip *);

/* Returns true once after this node has become the gateway to other clusters;
 * then stale_note_peer() is due with the gateways of each. */
bool stale_has_taken_over(struct stale *);
void stale_note_peer(struct stale *, const struct ip *);

/* To be called once, when all Service ports are known for the first time and
 * nothing has been removed yet: finds out what has gone while the daemon was
 * away from what the switch still has, and what was due when it ended from
 * the file. */
void stale_adopt(struct stale *);

/* Writes what is due, if it has changed, so that it outlives the daemon.  To
 * be called before what changes the flows can be sent. */
void stale_save(struct stale *);

/* What is to be done. */

/* Writes the next up to 'max' requests to 'ret' and returns their number, 0 if
 * none is due.  To be followed by stale_done() or stale_lost(). */
size_t stale_take(struct stale *, long long int now_ms,
                  struct ofconn_ct_flush *ret, size_t max);

/* The switch has done what was taken last, which took it 'elapsed_us'. */
void stale_done(struct stale *, long long int now_ms,
                long long int elapsed_us);

/* The connection to the switch is gone: all that was begun begins again. */
void stale_lost(struct stale *);

/* The switch can't: what is due is given up. */
void stale_give_up(struct stale *);

/* When stale_take() may have something to give, if nothing else happens, or
 * LLONG_MAX. */
long long int stale_next_ms(const struct stale *);

/* Sends what is due over 'ofconn' and hears what became of it. */
void stale_run(struct stale *, struct ofconn *);
void stale_wait(const struct stale *);

struct stale_stats {
    size_t n_waiting, n_active; /* Jobs: unconfirmed, and in passes. */
    uint64_t n_requests;        /* Sent since the creation. */
};
void stale_get_stats(const struct stale *, struct stale_stats *ret);

#endif /* src/agent/stale.h */
