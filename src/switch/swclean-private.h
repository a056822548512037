/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SWITCH_SWCLEAN_PRIVATE_H
#define SWITCH_SWCLEAN_PRIVATE_H 1

/* What the parts of the clean-up share: swclean.c has the order and the
 * database, swclean-of.c the bridge's OpenFlow side. */

#include <stdbool.h>

#include "ofproxyd/switch/swclean.h"

/* Appends "removed N WHATs from bridge BRIDGE", unless 'n' is 0. */
void swclean_say(const struct swclean_cfg *, struct ds *done, size_t n,
                 const char *what);

/* Removes flows, groups, and the meter if 'marked' says that the bridge was
 * worked on by us or if there were flows or groups of ours.  Sets '*ret_up' to
 * whether the switch answers.  Returns as swclean_run(). */
int swclean_openflow(const struct swclean_cfg *, bool marked, struct ds *done,
                     bool *ret_up, struct err *err) OVS_WARN_UNUSED_RESULT;

#endif /* switch/swclean-private.h */
