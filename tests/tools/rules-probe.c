/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the host's packet rules alone, for tests.  Reads lines from standard
 * input:
 *
 *   gateway NAME            the link
 *   gateway-ip|virtual-ip|node-port-ip|transport IP
 *   pod-cidr CIDR           one more of this node's
 *   masquerade|random|complete 0|1
 *   notrack PORT
 *   kept-mac MAC
 *   clear                   no addresses and pod networks
 *   set                     rules_set(); prints "set MICROSECONDS"
 *   add|del pods|nodes|addrs CIDR a member
 *   many|unmany pods|nodes|addrs N CIDR   N members, from CIDR upwards
 *   port|unport ports|external IP PROTO PORT [N]   a port, or N from it
 *                           upwards, with PROTO as "TCP"
 *   state                   prints rules_format_state() and "."
 *   memory                  prints "memory KIB", its anonymous memory, and
 *                           "."
 *   took                    prints "took MILLISECONDS", the CPU time of
 *                           rules_run() since the last "took", and "."
 *   cleanup                 prints rules_cleanup() and "."
 *
 * and prints "in-sync MILLISECONDS" when all is there, with the time since the
 * last change, "out-of-sync" when something is missing, and at the end of the
 * input "cpu MILLISECONDS" that it used and "turn MICROSECONDS", its longest
 * turn. */

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <openvswitch/poll-loop.h>
#include <openvswitch/util.h>
#include <packets.h>
#include <timeval.h>
#include <util.h>

#include "../support/probearg.h"
#include "ofproxyd/host/rules.h"

struct probe {
    int input;
    struct rules *rules;
    char gateway[64];
    struct rules_want want;
    struct cidr pod_cidrs[16];
    long long int since_usec; /* Of the last change. */
    long long int turn_usec;  /* The longest rules_run(). */
    long long int cpu_usec;   /* Of all since the last "took". */
    bool in_sync;
};

static long int
memory_kib(void)
{
    FILE *f = fopen("/proc/self/status", "r");
    char line[128];
    long int kib = 0;

    while (f && fgets(line, sizeof line, f)) {
        if (sscanf(line, "RssAnon: %ld", &kib) == 1) {
            break;
        }
    }
    if (f) {
        fclose(f);
    }
    return kib;
}

static void
set(struct probe *p)
{
    p->want.gateway = p->gateway[0] ? p->gateway : NULL;
    p->want.pod_cidrs = p->pod_cidrs;

    long long int start = time_usec();
    rules_set(p->rules, &p->want);
    printf("set %lld\n", time_usec() - start);
}

static void
change_members(struct probe *p, char *argv[], bool add, size_t n,
               const char *first_)
{
    enum rules_set_id id = !strcmp(argv[1], "pods")    ? RULES_POD_CIDRS
                           : !strcmp(argv[1], "addrs") ? RULES_NODE_PORT_ADDRS
                                                       : RULES_NODES;
    struct cidr first = probearg_cidr(first_), cidr = first;
    int bits = (ip_family(&first.ip) == IP_V4 ? 96 : 0) + first.plen;
    int shift = 31 - (bits - 1) % 32;
    uint8_t *word = &cidr.ip.in6.s6_addr[(bits - 1) / 32 * 4];
    uint32_t from, to;

    memcpy(&from, word, sizeof from);

    for (size_t i = 0; i < n; i++) {
        to = htonl(ntohl(from) + ((uint32_t) i << shift));
        memcpy(word, &to, sizeof to);
        (add ? rules_add_member : rules_remove_member)(p->rules, id, &cidr);
    }
}

static void
change_ports(struct probe *p, char *argv[], bool add)
{
    enum rules_set_id id =
        !strcmp(argv[1], "ports") ? RULES_NODE_PORTS : RULES_EXTERNAL;
    struct rules_port port = { .ip = probearg_ip(argv[2]),
                               .port = atoi(argv[4]) };
    size_t n = argv[5] ? atoi(argv[5]) : 1;

    if (proto_parse(argv[3], &port.proto)) {
        probearg_fail(argv[3]);
    }
    for (size_t i = 0; i < n; i++, port.port++) {
        (add ? rules_add_port : rules_remove_port)(p->rules, id, &port);
    }
}

static void
print_text(struct ds *ds)
{
    printf("%s.\n", ds_cstr(ds));
    ds_destroy(ds);
}

static void
query(struct probe *p, const char *command)
{
    struct ds ds = DS_EMPTY_INITIALIZER;
    struct err err = { "" };

    if (!strcmp(command, "state")) {
        rules_format_state(p->rules, &ds);
        print_text(&ds);
    } else if (!strcmp(command, "cleanup")) {
        if (rules_cleanup(&ds, &err)) {
            ds_put_format(&ds, "failed: %s\n", err.msg);
        }
        print_text(&ds);
    } else if (!strcmp(command, "took")) {
        ds_put_format(&ds, "took %.3f\n", p->cpu_usec / 1e3);
        p->cpu_usec = 0;
        print_text(&ds);
    } else if (!strcmp(command, "memory")) {
        ds_put_format(&ds, "memory %ld\n", memory_kib());
        print_text(&ds);
    } else {
        probearg_fail(command);
    }
}

static bool
take_want(struct probe *p, const char *key, const char *value)
{
    struct rules_want *w = &p->want;

    if (!strcmp(key, "gateway")) {
        ovs_strlcpy(p->gateway, value, sizeof p->gateway);
    } else if (!strcmp(key, "gateway-ip")) {
        struct ip ip = probearg_ip(value);
        w->gateway_ips[ip_family(&ip)] = ip;
    } else if (!strcmp(key, "virtual-ip")) {
        struct ip ip = probearg_ip(value);
        w->virtual_ips[ip_family(&ip)] = ip;
    } else if (!strcmp(key, "node-port-ip")) {
        struct ip ip = probearg_ip(value);
        w->node_port_ips[ip_family(&ip)] = ip;
    } else if (!strcmp(key, "kept-mac")) {
        if (!eth_addr_from_string(value, &w->kept_mac)) {
            return false;
        }
    } else if (!strcmp(key, "transport")) {
        struct ip ip = probearg_ip(value);
        w->transport[ip_family(&ip)] = ip;
    } else if (!strcmp(key, "pod-cidr")
               && w->n_pod_cidrs < ARRAY_SIZE(p->pod_cidrs)) {
        p->pod_cidrs[w->n_pod_cidrs++] = probearg_cidr(value);
    } else if (!strcmp(key, "masquerade")) {
        w->masquerade = atoi(value);
    } else if (!strcmp(key, "random")) {
        w->random_ports = atoi(value);
    } else if (!strcmp(key, "complete")) {
        w->complete = atoi(value);
    } else if (!strcmp(key, "notrack")) {
        w->notrack_port = atoi(value);
    } else {
        return false;
    }
    return true;
}

static void
take_line(struct probe *p, char *line)
{
    char *argv[7] = { NULL };
    size_t n = 0;

    p->since_usec = time_usec();
    for (char *save, *word = strtok_r(line, " ", &save); word && n < 6;
         word = strtok_r(NULL, " ", &save)) {
        argv[n++] = word;
    }
    if (n == 1 && !strcmp(argv[0], "set")) {
        set(p);
    } else if (n == 1 && !strcmp(argv[0], "clear")) {
        p->want = (struct rules_want){ .complete = p->want.complete };
    } else if (n == 1) {
        query(p, argv[0]);
    } else if (n == 3
               && (!strcmp(argv[0], "add") || !strcmp(argv[0], "del"))) {
        change_members(p, argv, argv[0][0] == 'a', 1, argv[2]);
    } else if (n == 4
               && (!strcmp(argv[0], "many") || !strcmp(argv[0], "unmany"))) {
        change_members(p, argv, argv[0][0] == 'm', atoi(argv[2]), argv[3]);
    } else if (n >= 5
               && (!strcmp(argv[0], "port") || !strcmp(argv[0], "unport"))) {
        change_ports(p, argv, argv[0][0] == 'p');
    } else if (n != 2 || !take_want(p, argv[0], argv[1])) {
        probearg_fail(argv[0] ? argv[0] : "");
    }
}

/* Reads and carries out what is there.  Returns false at the end. */
static bool
read_input(struct probe *p)
{
    static char buf[65536];
    static size_t used;
    ssize_t n = read(p->input, buf + used, sizeof buf - used - 1);
    char *start = buf, *end;

    if (n <= 0) {
        return false;
    }
    used += n;
    buf[used] = '\0';
    while ((end = strchr(start, '\n'))) {
        *end = '\0';
        take_line(p, start);
        start = end + 1;
    }
    used -= start - buf;
    memmove(buf, start, used);
    return true;
}

static void
run(struct probe *p)
{
    for (;;) {
        struct pollfd pfd = { .fd = p->input, .events = POLLIN };

        if (poll(&pfd, 1, 0) > 0 && !read_input(p)) {
            break;
        }
        long long int start = time_usec(), cpu = probearg_cpu_us();
        rules_run(p->rules);
        p->turn_usec = MAX(p->turn_usec, time_usec() - start);
        p->cpu_usec += probearg_cpu_us() - cpu;
        bool in_sync = rules_in_sync(p->rules);
        if (in_sync != p->in_sync) {
            if (in_sync) {
                printf("in-sync %.1f\n",
                       (time_usec() - p->since_usec) / 1000.0);
            } else {
                puts("out-of-sync");
            }
            p->in_sync = in_sync;
        }
        rules_wait(p->rules);
        poll_fd_wait(p->input, POLLIN);
        poll_block();
    }
}

int
main(int argc OVS_UNUSED, char *argv[])
{
    /* poll_fd_wait() takes descriptor 0 for none. */
    struct probe p = { .input = dup(STDIN_FILENO), .rules = rules_create() };
    struct rusage usage;

    set_program_name(argv[0]);
    setvbuf(stdout, NULL, _IOLBF, 0);
    run(&p);
    rules_destroy(p.rules);
    getrusage(RUSAGE_SELF, &usage);
    printf("cpu %.1f\n",
           (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e3
               + (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e3);
    printf("turn %lld\n", p.turn_usec);
    return 0;
}
