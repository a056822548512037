/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_EPSFIX_H
#define TESTS_SUPPORT_EPSFIX_H 1

/* Tests of the endpoint choice as rows of a table.
 *
 * Every row is about Service ns1/svc-a with one port, "http" of TCP.  Its
 * endpoints are written in a small notation, with blanks between them:
 *
 *     a+l(T):za,zb/n1,n2
 *
 * A letter is the name and gives the address; "+l" puts it on our node; the
 * conditions are (N), neither ready nor serving nor terminating, (T), serving
 * and terminating, or three digits, ready serving terminating, and without any
 * it is ready and serving; zone hints follow ":", node hints "/".  A "|"
 * starts the next slice.
 *
 * Policies: "iL" internalTrafficPolicy Local, "eL" externalTrafficPolicy
 * Local, "x" a node port. */

#include <util.h>

#include "ofproxyd/model/endpoints.h"

struct epsfix_row {
    const char *name;
    const char *policies;
    const char *endpoints;
    const char *cluster, *local; /* Names with "," between, "-" if unused. */
    bool has_any;
    const char *node, *zone; /* Ours; "n1" and "za" if NULL. */
};

/* Fails the test unless eps_choose() chooses what 'row' says, in both
 * families, and eps_explain() agrees with it. */
void epsfix_check_row(const struct epsfix_row *row);

#define EPSFIX_CHECK(ROWS)                          \
    for (size_t i = 0; i < ARRAY_SIZE(ROWS); i++) { \
        epsfix_check_row(&(ROWS)[i]);               \
    }

/* The same in steps, for tests that aren't rows. */

#define EPSFIX_MAX   32
#define EPSFIX_HINTS 8

/* What the notation is parsed into. */
struct epsfix_slice {
    struct slice_endpoint eps[EPSFIX_MAX];
    const char *hints[EPSFIX_MAX][2][EPSFIX_HINTS];
    size_t n;
};

/* Appends the endpoint in 'token', which is cut up and must stay as long as
 * 'slice' is used.  'node' is our node. */
void epsfix_parse(char *token, enum ip_family, const char *node,
                  struct epsfix_slice *slice);

/* The address of the endpoint that is called 'name'. */
struct ip epsfix_ip(enum ip_family, char name);

/* Puts a slice of ns1/svc-a whose port is "http", 8080 of TCP. */
void epsfix_put_slice(struct model *, enum ip_family, const char *name,
                      uint64_t version, const struct epsfix_slice *);

/* Puts the slices that 'endpoints' describes, named s0, s1 and so on, of
 * versions 1, 2 and so on. */
void epsfix_put_all(struct model *, enum ip_family, const char *node,
                    const char *endpoints);

/* Puts the Service. */
void epsfix_put_svc(struct model *, const char *policies);

/* Chooses for the first port of the Service. */
struct eps_choice epsfix_choose(const struct model *, enum ip_family,
                                const char *zone);

/* Fails the test, naming 'what', unless the lists of 'choice' are as in a
 * row. */
void epsfix_assert_choice(const char *what, const struct eps_choice *choice,
                          const char *cluster, const char *local,
                          bool has_any);

/* Fails the test unless eps_explain(), asked about the same, gives the
 * endpoints of each list of 'choice' a reason to be in it, and no other
 * one. */
void epsfix_assert_explained(const struct model_service *ms,
                             enum ip_family family,
                             const struct eps_place *here,
                             const struct eps_choice *choice);

#endif /* tests/support/epsfix.h */
