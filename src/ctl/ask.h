/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CTL_ASK_H
#define CTL_ASK_H 1

/* Commands to control sockets, ofproxyd's and ovs-vswitchd's. */

#include "ofproxyd/base/err.h"

/* Sends the command argv[0] with the arguments behind it, up to a NULL, to the
 * control socket at 'path' and waits for the answer.  Returns 0 and sets
 * '*ret' to it, the caller's to free(), or a positive errno value with
 * 'err'. */
int ask(const char *path, const char *const argv[], char **ret,
        struct err *err) OVS_WARN_UNUSED_RESULT;

/* Returns the value of the line "KEY: VALUE" of an answer, the caller's to
 * free(), or NULL. */
char *ask_value(const char *answer, const char *key);

/* Returns the control socket of the ovs-vswitchd whose run directory is
 * 'run_dir', as its pidfile tells; the caller's to free(). */
char *ask_find_switch(const char *run_dir);

#endif /* src/ctl/ask.h */
