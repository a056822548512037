/* SPDX-License-Identifier: Apache-2.0 */

/* Commands of ours on Open vSwitch's unixctl server. */

#include "ofproxyd/serve/control.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <openvswitch/poll-loop.h>

#include <unixctl.h>
#include <util.h>

/* How long to wait for a descriptor to become free. */
#define NO_FD_WAIT_MS 1000

static void
run_command(struct unixctl_conn *conn, int argc, const char *argv[],
            void *command_)
{
    const struct control_command *command = command_;
    struct ds ds = DS_EMPTY_INITIALIZER;
    struct err err = { "" };

    if (command->run(argc, argv, command->aux, &ds, &err)) {
        unixctl_command_reply_error(conn, err.msg);
    } else {
        unixctl_command_reply(conn, ds_cstr(&ds));
    }
    ds_destroy(&ds);
}

void
control_register(const struct control_command *commands, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct control_command *c = &commands[i];

        unixctl_command_register(c->name, c->usage, c->min_args, c->max_args,
                                 run_command, CONST_CAST(void *, c));
    }
}

/* A caller who can't be let in for want of a descriptor stays at the door,
 * and the poll loop would turn without a pause. */
void
control_wait(struct unixctl_server *server)
{
    int fd = eventfd(0, EFD_CLOEXEC);

    if (fd < 0) {
        poll_timer_wait(NO_FD_WAIT_MS);
    } else {
        close(fd);
        unixctl_server_wait(server);
    }
}
