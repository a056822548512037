/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_TESTS_STALEFIX_H
#define OFPROXYD_TESTS_STALEFIX_H 1

/* What the tests of stale connections have in common: Service ports in a few
 * words, and a switch that answers at once.
 *
 * An endpoint is a letter: 'a' is 10.1.1.97:8080.  A request is written
 * "ADDRESS:PORT", of all connections to it, or "ADDRESS:PORT<a", of those to
 * one endpoint, "*<a", to that at any address, "ADDRESS:PORT!", of
 * untranslated ones, or "~ADDRESS:PORT", of those the wrong way round.
 * Cluster IP 'n' is 10.96.0.n and shown as "n"; "np" is the virtual NodePort
 * address. */

#include <openvswitch/dynamic-string.h>

#include "../../src/agent/stale-private.h"

#define SF_OWNER(N) cookie_make(COOKIE_SERVICE, N)

struct stalefix {
    struct flowtab *ft;
    struct stale *st;
    long long int now_ms;
    struct ds text;
};

/* Of an empty switch.  For cmocka; '*state' is the struct. */
int sf_setup(void **state);
int sf_teardown(void **state);

struct ip sf_cluster_ip(unsigned int n);

/* Endpoints 'first' to 'last'; the caller frees them. */
struct eps_list sf_range(unsigned int first, unsigned int last);

/* Where a Service port is: a cluster IP (0: none) with port 53, and a NodePort
 * (0: none). */
#define AT(IP, NODE_PORT) ((const uint16_t[]){ IP, NODE_PORT })

/* Service port 'n' is at 'at', and has these endpoints: alive, and those that
 * new connections get. */
void sf_say_lists(struct stalefix *, uint32_t n, const uint16_t at[2],
                  const struct eps_list *alive, const struct eps_list *used);
void sf_say(struct stalefix *, uint32_t n, const uint16_t *at,
            const char *alive, const char *used);

/* The switch has what was rendered for a Service port. */
void sf_have_service(struct stalefix *, uint32_t n, uint16_t ip,
                     const char *eps);

/* Takes once, after the grace that the connections have. */
size_t sf_take(struct stalefix *, struct ofconn_ct_flush *requests);

bool sf_is_idle(const struct stalefix *);

/* Lets time pass until all passes are through.  Returns how many requests
 * there were. */
size_t sf_drain(struct stalefix *);

/* The first pass is 'expected'; the others are the same and are let by. */
void sf_expect(struct stalefix *, const char *expected);

#endif /* tests/support/stalefix.h */
