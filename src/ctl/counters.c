/* SPDX-License-Identifier: Apache-2.0 */

/* The daemon knows the numbers of the groups, the switch what they count. */

#include "counters.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <util.h>

#include "ask.h"
#include "bridge.h"

static int
print_group(struct bridge *bridge, uint32_t id, const char *name,
            struct err *err)
{
    struct group group;
    uint64_t n_packets = 0;
    int error = bridge_read_group(bridge, id, &group, err);

    if (error == ENOENT) {
        printf("%s: no address of this node leads there\n", name);
        return 0;
    } else if (error) {
        return error;
    }
    for (size_t i = 0; i < group.n; i++) {
        n_packets += group.members[i].n_packets;
    }
    printf("%s: %" PRIu64 " connections\n", name, n_packets);
    for (size_t i = 0; i < group.n; i++) {
        const struct member *m = &group.members[i];
        bool v6 = ip_family(&m->ip) == IP_V6;
        char ip[IP_STRLEN];

        printf("  %s%s%s:%u %" PRIu64 "\n", v6 ? "[" : "",
               ip_to_string(&m->ip, ip), v6 ? "]" : "", m->port, m->n_packets);
    }
    group_uninit(&group);
    return 0;
}

/* Of lines "GROUP: NAME". */
static int
print_groups(struct bridge *bridge, char *answer, struct err *err)
{
    int error = 0;

    for (char *line; !error && (line = strsep(&answer, "\n")) != NULL;) {
        char *end;
        unsigned long int id = strtoul(line, &end, 10);

        if (isdigit((unsigned char) *line) && !strncmp(end, ": ", 2)
            && id <= UINT32_MAX) {
            error = print_group(bridge, (uint32_t) id, end + 2, err);
        }
    }
    return error;
}

int
counters_run(const char *daemon, const char *service, struct err *err)
{
    const char *argv[] = { "groups", service, NULL };
    char *answer, *run_dir, *name;
    struct bridge *bridge;
    int error = ask(daemon, argv, &answer, err);

    if (error) {
        return error;
    }
    run_dir = ask_value(answer, "run-dir");
    name = ask_value(answer, "bridge");
    if (run_dir && name) {
        error = bridge_open(run_dir, name, &bridge, err);
    } else {
        err_set(err, "ofproxyd said something else than a bridge");
        error = EPROTO;
    }
    if (!error) {
        error = print_groups(bridge, answer, err);
        bridge_close(bridge);
    }
    free(run_dir);
    free(name);
    free(answer);
    return error;
}
