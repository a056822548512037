/* SPDX-License-Identifier: Apache-2.0 */

/* Commands of ours on Open vSwitch's unixctl server. */

#include "ofproxyd/serve/control.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <openvswitch/poll-loop.h>

#include <dirs.h>
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

/* True if somebody listens on the socket 'name' in 'dir'.  The way through
 * /proc makes any path fit into a socket address. */
static bool
is_served(const char *dir, const char *name)
{
    struct sockaddr_un sun = { .sun_family = AF_UNIX };
    int dirfd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool served = false;

    if (dirfd >= 0 && fd >= 0
        && snprintf(sun.sun_path, sizeof sun.sun_path, "/proc/self/fd/%d/%s",
                    dirfd, name)
               < sizeof sun.sun_path) {
        /* EAGAIN: he is there, and busy. */
        served = !connect(fd, (const struct sockaddr *) &sun, sizeof sun)
                 || errno == EAGAIN;
    }
    if (fd >= 0) {
        close(fd);
    }
    if (dirfd >= 0) {
        close(dirfd);
    }
    return served;
}

/* "ofproxyd.123.ctl". */
static bool
is_our_socket(const char *name)
{
    const char *rest = name + strlen("ofproxyd.");

    return !strncmp(name, "ofproxyd.", strlen("ofproxyd."))
           && strspn(rest, "0123456789")
           && !strcmp(rest + strspn(rest, "0123456789"), ".ctl");
}

static char *
find_in_rundir(void)
{
    DIR *dir = opendir(ovs_rundir());
    char *path = NULL;

    if (dir) {
        for (struct dirent *de = readdir(dir); de && !path;
             de = readdir(dir)) {
            if (is_our_socket(de->d_name)
                && is_served(ovs_rundir(), de->d_name)) {
                path = xasprintf("%s/%s", ovs_rundir(), de->d_name);
            }
        }
        closedir(dir);
    }
    return path;
}

char *
control_find_server(const char *path)
{
    if (!path) {
        return find_in_rundir();
    }

    char *abs = abs_file_name(ovs_rundir(), path);
    char *dir = dir_name(abs);
    char *base = base_name(abs);
    bool served = is_served(dir, base);

    free(base);
    free(dir);
    if (!served) {
        free(abs);
        return NULL;
    }
    return abs;
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
