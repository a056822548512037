/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_SVCFIX_H
#define TESTS_SUPPORT_SVCFIX_H 1

/* Services between a model and a flow table, for tests that put objects into
 * the one and look at the other. */

#include "../../src/agent/services.h"

struct svcfix {
    struct cfg cfg; /* The defaults; a test may change them. */
    struct model *model;
    struct flowtab *ft;
    struct services *services;
};

/* cmocka's fixtures: each test finds a struct svcfix in '*state'. */
int svcfix_setup(void **state);
int svcfix_teardown(void **state);

/* Renders all that has changed. */
void svcfix_render(struct svcfix *);

#endif /* tests/support/svcfix.h */
