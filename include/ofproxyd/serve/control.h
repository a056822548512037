/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_SERVE_CONTROL_H
#define OFPROXYD_SERVE_CONTROL_H 1

/* The control socket: what `ovs-appctl -t ofproxyd COMMAND` asks. */

#include <openvswitch/dynamic-string.h>

#include "ofproxyd/base/err.h"

struct unixctl_server;

/* A command.  'run' appends the answer to 'ds' and returns 0, or fills 'err'
 * and returns a positive errno value. */
struct control_command {
    const char *name;
    const char *usage; /* Of its arguments. */
    int min_args, max_args;
    int (*run)(int argc, const char *argv[], void *aux, struct ds *ds,
               struct err *err);
    void *aux;
};

/* Registers 'n' commands, which must stay in place.  They appear in
 * `list-commands` beside those of the libraries (vlog/set and so on). */
void control_register(const struct control_command *, size_t n);

/* Looks for a running daemon: whether somebody listens on the control socket
 * at 'path' (as given to --unixctl), or if that is NULL, on one in Open
 * vSwitch's run directory that is named as ofproxyd names its own,
 * "ofproxyd.PID.ctl".  Returns the path of the socket, which the caller owes a
 * free(), or NULL. */
char *control_find_server(const char *path);

/* Wakes the poll loop up when unixctl_server_run() has work. */
void control_wait(struct unixctl_server *);

#endif /* ofproxyd/serve/control.h */
