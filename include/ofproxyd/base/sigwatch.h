/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_BASE_SIGWATCH_H
#define OFPROXYD_BASE_SIGWATCH_H 1

/* Signals that ask the process to end, as an event of the poll loop. */

#include <stdbool.h>

struct sigwatch;

/* From now on SIGTERM and SIGINT no longer end the process: they are told by
 * sigwatch_poll().  To be called before other threads exist, which inherit
 * this.  Returns NULL if the kernel refuses. */
struct sigwatch *sigwatch_create(void);
void sigwatch_destroy(struct sigwatch *); /* NULL is allowed. */

/* Returns true if such a signal has come. */
bool sigwatch_poll(struct sigwatch *);
/* Wakes up poll_block() when one comes. */
void sigwatch_wait(const struct sigwatch *);

#endif /* ofproxyd/base/sigwatch.h */
