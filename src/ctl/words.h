/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CTL_WORDS_H
#define CTL_WORDS_H 1

/* Numbers of the pipeline in words.  Pure. */

#include <stdint.h>

#include <openvswitch/dynamic-string.h>

/* Reads a number, in decimal or with 0x, behind 'prefix' at the start of
 * 'text'.  Returns what follows it, or NULL if there is none. */
const char *words_scan(const char *text, const char *prefix, uint32_t *ret);

/* Appends what the bits 'mask' of the register or mark called 'reg' ("reg0",
 * "ct_mark") mean when they are 'value': "PktSource=POD, ...".  Nothing if
 * they mean nothing. */
void words_put_bits(const char *reg, uint32_t value, uint32_t mask,
                    struct ds *ds);

/* Appends what is written into registers and marks by 'action', an action as
 * Open vSwitch prints it ("set_field:0x3/0xf->reg0"); nothing for any other
 * action. */
void words_put_action(const char *action, struct ds *ds);

#endif /* src/ctl/words.h */
