/* SPDX-License-Identifier: Apache-2.0 */

/* One connection for each command: there are few. */

#include "ask.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jsonrpc.h>
#include <unixctl.h>
#include <util.h>

int
ask(const char *path, const char *const argv[], char **ret, struct err *err)
{
    char *result = NULL, *text = NULL;
    int argc = 0;
    struct jsonrpc *client;
    int error = unixctl_client_create(path, &client);

    if (error) {
        err_set(err, "can't connect to %s: %s", path, ovs_strerror(error));
        return error;
    }
    while (argv[argc]) {
        argc++;
    }
    error =
        unixctl_client_transact(client, argv[0], argc - 1,
                                CONST_CAST(char **, argv + 1), &result, &text);
    jsonrpc_close(client);
    if (error) {
        err_set(err, "%s: no answer to \"%s\": %s", path, argv[0],
                ovs_retval_to_string(error));
        error = error > 0 ? error : EPIPE;
    } else if (text) {
        size_t n = strlen(text);

        err_set(err, "%.*s", (int) (n - (n && text[n - 1] == '\n')), text);
        error = EINVAL;
    } else {
        *ret = result ? result : xstrdup("");
        result = NULL;
    }
    free(result);
    free(text);
    return error;
}

char *
ask_value(const char *answer, const char *key)
{
    size_t n = strlen(key);

    for (const char *line = answer; *line;) {
        size_t len = strcspn(line, "\n");

        if (len > n + 1 && !strncmp(line, key, n) && line[n] == ':'
            && line[n + 1] == ' ') {
            return xmemdup0(line + n + 2, len - n - 2);
        }
        line += len + (line[len] == '\n');
    }
    return NULL;
}

char *
ask_find_switch(const char *run_dir)
{
    char *pidfile = xasprintf("%s/ovs-vswitchd.pid", run_dir);
    FILE *stream = fopen(pidfile, "r");
    char line[32] = "";
    unsigned int pid;
    char *path;

    if (stream && !fgets(line, sizeof line, stream)) {
        line[0] = '\0';
    }
    line[strcspn(line, "\n")] = '\0';
    path = str_to_uint(line, 10, &pid)
               ? xasprintf("%s/ovs-vswitchd.%u.ctl", run_dir, pid)
               : xasprintf("%s/ovs-vswitchd.ctl", run_dir);
    if (stream) {
        fclose(stream);
    }
    free(pidfile);
    return path;
}
