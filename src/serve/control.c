/* SPDX-License-Identifier: Apache-2.0 */

/* Commands of ours on Open vSwitch's unixctl server. */

#include "ofproxyd/serve/control.h"

#include <unixctl.h>
#include <util.h>

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
