/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the host layer alone, for tests.  Reads lines from standard input:
 *
 *   gateway NAME            the link
 *   ready|complete|forwarding 0|1
 *   addr CIDR               one more address
 *   route DST VIA SRC       one more route ("::" for none)
 *   many N DST VIA SRC      N more, from DST upwards
 *   peer DST VIA            one more, of the underlay
 *   peers N DST VIA         N more, from DST and VIA upwards
 *   neigh IP MAC            one more neighbour
 *   uplink NAME             host_want's
 *   marked IP               next hop of marked packets
 *   localhost 0|1           host_set_localhost()
 *   nodeips not NAME|cidr CIDR     more of nodeips_want
 *   nodeips set             nodeips_set(), and follows them from now on
 *   clear                   no addresses, routes and neighbours
 *   set                     host_set(), host_set_routes(); prints
 *                           "set MICROSECONDS"
 *   state                   prints host_format_state() and "."
 *   cleanup                 host_cleanup(); prints what it says, "error TEXT"
 *                           or "ok", and "."
 *   find iface NAME|cidr CIDR|ip IP|not NAME   more of uplink_want
 *   find clear|set          none of it; uplink_set()
 *
 * and prints "in-sync MILLISECONDS" when all is there, with the time since the
 * last "set", "out-of-sync" when something is missing, and at the end of the
 * input "cpu MILLISECONDS" that it used; and with each change of it
 * "uplink NAME MTU IPV4 IPV6 SEQNO", or "nodeips SEQNO ALL NODE-PORTS", each a
 * list with "," after each address. */

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <openvswitch/poll-loop.h>
#include <openvswitch/util.h>
#include <timeval.h>
#include <util.h>

#include "../support/probearg.h"
#include "ofproxyd/host/host.h"
#include "ofproxyd/host/nodeips.h"
#include "ofproxyd/host/uplink.h"

struct probe {
    struct host *host;
    char gateway[64];
    struct host_want want;
    struct cidr *addresses;
    struct host_route *routes;
    size_t n_routes;
    struct host_neigh *neighs;
    long long int set_usec;
    bool in_sync;
    char uplink_name[64];

    struct uplink *uplink;
    char iface[64], not_iface[64];
    struct uplink_want find;
    struct cidr find_cidrs[8];
    struct ip find_ips[8];
    uint64_t seqno;

    struct nodeips *nodeips; /* Or NULL. */
    struct nodeips_want ips;
    char ips_not[64];
    const char *ips_nots[1];
    struct cidr ips_cidrs[8];
    uint64_t ips_seqno;
};

static void
add_routes(struct probe *p, size_t n, char *argv[])
{
    struct host_route r = {
        .dst = probearg_cidr(argv[0]),
        .via = probearg_ip(argv[1]),
        .src = probearg_ip(argv[2]),
    };
    struct cidr first = r.dst;

    p->routes = xrealloc(p->routes, (p->n_routes + n) * sizeof *p->routes);
    for (size_t i = 0; i < n; i++) {
        if (n > 1) {
            r.dst.ip = cidr_host(&first, i);
        }
        p->routes[p->n_routes++] = r;
    }
}

/* 'n' routes by way of other nodes, each of which has a pod network. */
static void
add_peers(struct probe *p, size_t n, char *argv[])
{
    struct host_route r = { .dst = probearg_cidr(argv[0]), .underlay = true };
    struct cidr first = r.dst;
    struct cidr via = { probearg_ip(argv[1]), 16 };
    bool v4 = ip_family(&r.dst.ip) == IP_V4;
    uint32_t begin =
        v4 ? ntohl(ip_v4(&via.ip)) & 0xffff : via.ip.in6.s6_addr[15];

    p->routes = xrealloc(p->routes, (p->n_routes + n) * sizeof *p->routes);
    for (size_t i = 0; i < n; i++) {
        r.via = n > 1 ? cidr_host(&via, begin + i) : via.ip;
        if (n > 1) {
            r.dst.ip = cidr_host(&first, i << (v4 ? 32 - first.plen : 0));
        }
        p->routes[p->n_routes++] = r;
    }
}

static void
add_neigh(struct probe *p, char *argv[])
{
    struct host_neigh *n;
    unsigned int ea[6];

    p->neighs =
        xrealloc(p->neighs, (p->want.n_neighs + 1) * sizeof *p->neighs);
    n = &p->neighs[p->want.n_neighs++];
    n->ip = probearg_ip(argv[0]);
    if (sscanf(argv[1], "%x:%x:%x:%x:%x:%x", &ea[0], &ea[1], &ea[2], &ea[3],
               &ea[4], &ea[5])
        != 6) {
        probearg_fail(argv[1]);
    }
    for (size_t i = 0; i < 6; i++) {
        n->mac.ea[i] = ea[i];
    }
}

static void
set(struct probe *p)
{
    p->want.gateway = p->gateway;
    p->want.addresses = p->addresses;
    p->want.neighs = p->neighs;

    long long int start = time_usec();
    host_set(p->host, &p->want);
    host_set_routes(p->host, p->routes, p->n_routes);
    printf("set %lld\n", time_usec() - start);
    p->set_usec = start;
    p->in_sync = false;
}

static void
print_state(const struct probe *p)
{
    struct ds ds = DS_EMPTY_INITIALIZER;

    host_format_state(p->host, &ds);
    printf("%s.\n", ds_cstr(&ds));
    ds_destroy(&ds);
}

static void
cleanup(const struct probe *p)
{
    struct ds ds = DS_EMPTY_INITIALIZER;
    struct err err;
    int error = host_cleanup(p->gateway, &ds, &ds, &err);

    printf("%s%s%s\n.\n", ds_cstr(&ds), error ? "error " : "ok",
           error ? err.msg : "");
    ds_destroy(&ds);
}

static void
find_command(struct probe *p, size_t argc, char *argv[])
{
    struct uplink_want *w = &p->find;

    if (argc == 1 && !strcmp(argv[0], "set")) {
        w->iface = p->iface;
        w->not_iface = p->not_iface[0] ? p->not_iface : NULL;
        w->cidrs = p->find_cidrs;
        w->node_ips = p->find_ips;
        uplink_set(p->uplink, w);
    } else if (argc == 1 && !strcmp(argv[0], "clear")) {
        w->n_cidrs = w->n_node_ips = 0;
        p->iface[0] = p->not_iface[0] = '\0';
    } else if (argc == 2 && !strcmp(argv[0], "iface")) {
        ovs_strlcpy(p->iface, argv[1], sizeof p->iface);
    } else if (argc == 2 && !strcmp(argv[0], "not")) {
        ovs_strlcpy(p->not_iface, argv[1], sizeof p->not_iface);
    } else if (argc == 2 && !strcmp(argv[0], "cidr")
               && w->n_cidrs < ARRAY_SIZE(p->find_cidrs)) {
        p->find_cidrs[w->n_cidrs++] = probearg_cidr(argv[1]);
    } else if (argc == 2 && !strcmp(argv[0], "ip")
               && w->n_node_ips < ARRAY_SIZE(p->find_ips)) {
        p->find_ips[w->n_node_ips++] = probearg_ip(argv[1]);
    } else {
        probearg_fail(argv[0]);
    }
}

static void
print_uplink(struct probe *p)
{
    const struct uplink_state *s = uplink_state(p->uplink);
    char v4[CIDR_STRLEN], v6[CIDR_STRLEN];

    if (s->seqno != p->seqno) {
        p->seqno = s->seqno;
        printf("uplink %s %u %s %s %llu\n", s->name, s->mtu,
               cidr_to_string(&s->addrs[IP_V4], v4),
               cidr_to_string(&s->addrs[IP_V6], v6),
               (unsigned long long int) s->seqno);
    }
}

static void
nodeips_command(struct probe *p, size_t argc, char *argv[])
{
    if (argc == 1 && !strcmp(argv[0], "set")) {
        p->nodeips = p->nodeips ? p->nodeips : nodeips_create();
        p->ips.not_ifaces = p->ips_nots;
        p->ips.cidrs = p->ips_cidrs;
        nodeips_set(p->nodeips, &p->ips);
    } else if (argc == 2 && !strcmp(argv[0], "not")) {
        ovs_strlcpy(p->ips_not, argv[1], sizeof p->ips_not);
        p->ips_nots[0] = p->ips_not;
        p->ips.n_not_ifaces = 1;
    } else if (argc == 2 && !strcmp(argv[0], "cidr")
               && p->ips.n_cidrs < ARRAY_SIZE(p->ips_cidrs)) {
        p->ips_cidrs[p->ips.n_cidrs++] = probearg_cidr(argv[1]);
    } else {
        probearg_fail(argv[0]);
    }
}

static void
print_ips(const struct ip *ips, size_t n)
{
    putchar(' ');
    for (size_t i = 0; i < n; i++) {
        char s[IP_STRLEN];

        printf("%s,", ip_to_string(&ips[i], s));
    }
}

static void
run_nodeips(struct probe *p)
{
    const struct nodeips_state *s;

    if (!p->nodeips) {
        return;
    }
    nodeips_run(p->nodeips);
    s = nodeips_state(p->nodeips);
    if (s->seqno != p->ips_seqno) {
        p->ips_seqno = s->seqno;
        printf("nodeips %llu", (unsigned long long int) s->seqno);
        print_ips(s->ips, s->n_ips);
        print_ips(s->node_ports, s->n_node_ports);
        puts(s->localhost ? "127.0.0.1," : "");
    }
    nodeips_wait(p->nodeips);
}

/* Commands about other things than what is wanted.  True if it was one. */
static bool
do_other_command(struct probe *p, size_t argc, char *argv[])
{
    if (argc == 1 && !strcmp(argv[0], "state")) {
        print_state(p);
    } else if (argc == 1 && !strcmp(argv[0], "cleanup")) {
        cleanup(p);
    } else if (argc >= 2 && !strcmp(argv[0], "find")) {
        find_command(p, argc - 1, &argv[1]);
    } else if (argc >= 2 && !strcmp(argv[0], "nodeips")) {
        nodeips_command(p, argc - 1, &argv[1]);
    } else if (argc == 2 && !strcmp(argv[0], "localhost")) {
        host_set_localhost(p->host, atoi(argv[1]));
    } else if (argc == 2 && !strcmp(argv[0], "marked")) {
        struct ip ip = probearg_ip(argv[1]);
        p->want.marked_via[ip_family(&ip)] = ip;
    } else {
        return false;
    }
    return true;
}

static void
do_command(struct probe *p, char *line)
{
    char *argv[6] = { NULL };
    size_t argc = 0;

    for (char *word = strtok(line, " "); word && argc < ARRAY_SIZE(argv);
         word = strtok(NULL, " ")) {
        argv[argc++] = word;
    }
    if (do_other_command(p, argc, argv)) {
        return;
    }
    if (argc == 2 && !strcmp(argv[0], "gateway")) {
        ovs_strlcpy(p->gateway, argv[1], sizeof p->gateway);
    } else if (argc == 2 && !strcmp(argv[0], "ready")) {
        p->want.gateway_ready = atoi(argv[1]);
    } else if (argc == 2 && !strcmp(argv[0], "complete")) {
        p->want.complete = atoi(argv[1]);
    } else if (argc == 2 && !strcmp(argv[0], "forwarding")) {
        p->want.forwarding = atoi(argv[1]);
    } else if (argc == 2 && !strcmp(argv[0], "addr")) {
        p->addresses = xrealloc(p->addresses, (p->want.n_addresses + 1)
                                                  * sizeof *p->addresses);
        p->addresses[p->want.n_addresses++] = probearg_cidr(argv[1]);
    } else if (argc == 4 && !strcmp(argv[0], "route")) {
        add_routes(p, 1, &argv[1]);
    } else if (argc == 5 && !strcmp(argv[0], "many")) {
        add_routes(p, atoi(argv[1]), &argv[2]);
    } else if (argc == 3 && !strcmp(argv[0], "peer")) {
        add_peers(p, 1, &argv[1]);
    } else if (argc == 4 && !strcmp(argv[0], "peers")) {
        add_peers(p, atoi(argv[1]), &argv[2]);
    } else if (argc == 2 && !strcmp(argv[0], "uplink")) {
        ovs_strlcpy(p->uplink_name, argv[1], sizeof p->uplink_name);
        p->want.uplink = p->uplink_name;
    } else if (argc == 3 && !strcmp(argv[0], "neigh")) {
        add_neigh(p, &argv[1]);
    } else if (argc == 1 && !strcmp(argv[0], "clear")) {
        p->want.n_addresses = p->n_routes = p->want.n_neighs = 0;
        memset(p->want.marked_via, 0, sizeof p->want.marked_via);
    } else if (argc == 1 && !strcmp(argv[0], "set")) {
        set(p);
    } else {
        probearg_fail(line);
    }
}

/* Reads and does the commands that are there.  False at the end. */
static bool
read_commands(struct probe *p, int in)
{
    static char buf[65536];
    static size_t len;
    struct pollfd pfd = { .fd = in, .events = POLLIN };

    if (poll(&pfd, 1, 0) <= 0) {
        return true;
    }

    ssize_t n = read(in, buf + len, sizeof buf - len - 1);
    if (n <= 0) {
        return false;
    }
    len += n;
    buf[len] = '\0';

    char *line = buf;
    for (char *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        do_command(p, line);
    }
    len -= line - buf;
    memmove(buf, line, len);
    return true;
}

static void
print_sync(struct probe *p)
{
    bool in_sync = host_in_sync(p->host);

    if (in_sync && !p->in_sync) {
        printf("in-sync %.1f\n", (time_usec() - p->set_usec) / 1000.0);
    } else if (!in_sync && p->in_sync) {
        printf("out-of-sync\n");
    }
    p->in_sync = in_sync;
}

int
main(int argc OVS_UNUSED, char *argv[])
{
    struct probe p = { .host = host_create(), .uplink = uplink_create() };
    int in = dup(STDIN_FILENO); /* The poll loop takes no descriptor 0. */
    struct rusage ru;

    set_program_name(argv[0]);
    while (read_commands(&p, in)) {
        host_run(p.host);
        uplink_run(p.uplink);
        print_sync(&p);
        print_uplink(&p);
        run_nodeips(&p);
        fflush(stdout);
        host_wait(p.host);
        uplink_wait(p.uplink);
        poll_fd_wait(in, POLLIN);
        poll_block();
    }
    getrusage(RUSAGE_SELF, &ru);
    printf("cpu %lld\n",
           (long long int) (ru.ru_utime.tv_sec + ru.ru_stime.tv_sec) * 1000
               + (ru.ru_utime.tv_usec + ru.ru_stime.tv_usec) / 1000);
    host_destroy(p.host);
    uplink_destroy(p.uplink);
    nodeips_destroy(p.nodeips);
    free(p.addresses);
    free(p.routes);
    free(p.neighs);
    return 0;
}
