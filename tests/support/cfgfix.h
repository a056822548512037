/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_CFGFIX_H
#define TESTS_SUPPORT_CFGFIX_H 1

/* What the tests of the configuration share. */

#include "ofproxyd/config/config.h"

/* Loads 'text' as the file "f" and appends all messages to 'messages', a line
 * each.  Returns what cfg_load_text() does.  'notes': also those on keys that
 * are not used. */
int cfgfix_load(const char *text, struct cfg *cfg, bool notes,
                struct ds *messages);

/* Loads 'text' and fails the test if there is anything to say about it. */
void cfgfix_load_ok(const char *text, struct cfg *cfg);

/* Fails the test if the two differ in any member. */
void cfgfix_assert_equal(const struct cfg *, const struct cfg *);

/* Fails the test if there is anything to say about 'text' or it gives
 * anything but the defaults. */
void cfgfix_assert_defaults(const char *text);

#endif /* tests/support/cfgfix.h */
