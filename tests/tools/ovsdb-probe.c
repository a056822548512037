/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the ovsdb module alone, for tests: keeps the bridge that the arguments
 * name and prints the snapshot as a line of JSON whenever it changes, until
 * standard input ends.  A line on standard input is "mtu N", "lost
 * N", "filled", or anything else, which does nothing.
 *
 *   ovsdb-probe REMOTE BRIDGE DATAPATH_TYPE GATEWAY OFPORT LAYOUT TUNNEL
 *               [ID:NAME[:FLOW_LIMIT]...]
 *
 * TUNNEL is NAME,TYPE,PORT,CSUM,OFPORT or "" for none. */

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <openvswitch/poll-loop.h>
#include <openvswitch/util.h>
#include <openvswitch/vlog.h>
#include <util.h>

#include "ofproxyd/switch/ovsdb.h"

static void
print_mac(const char *key, const struct eth_addr *mac)
{
    const uint8_t *ea = mac->ea;

    printf("\"%s\": \"%02x:%02x:%02x:%02x:%02x:%02x\", ", key, ea[0], ea[1],
           ea[2], ea[3], ea[4], ea[5]);
}

static void
print_state(const struct ovsdb_state *s)
{
    printf("{\"connected\": %s, \"bridge_ok\": %s, \"gateway_ofport\": %u, ",
           s->connected ? "true" : "false", s->bridge_ok ? "true" : "false",
           s->gateway_ofport);
    print_mac("gateway_mac", &s->gateway_mac);
    printf("\"tunnel_ofport\": %u, ", s->tunnel_ofport);
    printf("\"ovs_version\": \"%s\", \"seqno\": %llu, \"pods\": [",
           s->ovs_version, (unsigned long long int) s->seqno);
    for (size_t i = 0; i < s->n_pods; i++) {
        const struct ovsdb_pod *pod = &s->pods[i];

        printf("%s{\"iface\": \"%s\", \"ns\": \"%s\", \"name\": \"%s\", ",
               i ? ", " : "", pod->iface, pod->ns, pod->name);
        print_mac("mac", &pod->mac);
        printf("\"ofport\": %u, \"ips\": [", pod->ofport);
        for (size_t j = 0; j < pod->n_ips; j++) {
            char buf[IP_STRLEN];

            printf("%s\"%s\"", j ? ", " : "", ip_to_string(&pod->ips[j], buf));
        }
        printf("]}");
    }
    printf("]}\n");
    fflush(stdout);
}

/* Waits for something to do.  False at the end of standard input. */
static bool
wait_for_work(struct ovsdb *ovsdb, int in)
{
    char buf[64];
    ssize_t n;

    ovsdb_wait(ovsdb);
    poll_fd_wait(in, POLLIN);
    poll_block();

    struct pollfd pfd = { .fd = in, .events = POLLIN };
    if (poll(&pfd, 1, 0) <= 0) {
        return true;
    }
    n = read(in, buf, sizeof buf - 1);
    if (n <= 0) {
        return false;
    }
    buf[n] = '\0';
    if (!strncmp(buf, "mtu ", 4)) {
        ovsdb_set_gateway_mtu(ovsdb, atoi(buf + 4));
    } else if (!strncmp(buf, "lost ", 5)) {
        ovsdb_set_gateway_lost(ovsdb, atoi(buf + 5));
    } else if (!strncmp(buf, "filled", 6)) {
        ovsdb_set_filled(ovsdb, true);
    }
    return true;
}

/* Reads "NAME,TYPE,PORT,CSUM,OFPORT", which it changes. */
static void
parse_tunnel(char *s, struct ovsdb_cfg *cfg)
{
    const char *fields[5] = { NULL };

    for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
        fields[i] = strsep(&s, ",");
        if (!fields[i]) {
            return;
        }
    }
    cfg->tunnel = fields[0];
    cfg->tunnel_type = fields[1];
    cfg->tunnel_port = atoi(fields[2]);
    cfg->tunnel_csum = atoi(fields[3]);
    cfg->tunnel_ofport = atoi(fields[4]);
}

int
main(int argc, char *argv[])
{
    set_program_name(argv[0]);
    if (argc < 8) {
        fprintf(stderr, "usage: see the head of the source\n");
        return 2;
    }

    size_t n_tables = argc - 8;
    struct ovsdb_table_name *tables = xcalloc(n_tables + 1, sizeof *tables);
    for (size_t i = 0; i < n_tables; i++) {
        char *name = strchr(argv[8 + i], ':');

        if (!name) {
            fprintf(stderr, "%s: no ID:NAME\n", argv[8 + i]);
            return 2;
        }
        tables[i].id = atoi(argv[8 + i]);
        tables[i].name = name + 1;

        char *limit = strchr(name + 1, ':');
        if (limit) {
            *limit = '\0';
            tables[i].flow_limit = atoi(limit + 1);
        }
    }

    struct ovsdb_cfg cfg = {
        .remote = argv[1],
        .bridge = argv[2],
        .datapath_type = argv[3],
        .gateway = argv[4],
        .gateway_ofport = atoi(argv[5]),
        .layout = atoi(argv[6]),
        .tables = tables,
        .n_tables = n_tables,
    };
    parse_tunnel(argv[7], &cfg);

    struct ovsdb *ovsdb = ovsdb_create(&cfg);
    uint64_t seqno = UINT64_MAX;
    int in = dup(STDIN_FILENO); /* The poll loop takes no descriptor 0. */

    free(tables);
    do {
        ovsdb_run(ovsdb);
        if (ovsdb_state(ovsdb)->seqno != seqno) {
            seqno = ovsdb_state(ovsdb)->seqno;
            print_state(ovsdb_state(ovsdb));
        }
    } while (wait_for_work(ovsdb, in));
    ovsdb_destroy(ovsdb);
    return 0;
}
