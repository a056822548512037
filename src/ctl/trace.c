/* SPDX-License-Identifier: Apache-2.0 */

/* The switch traces the first packet of the connection up to the group, whose
 * choice it can't foresee (it hashes in the datapath).  Then the members of
 * the group are read, and a later packet of the connection is traced as it is
 * after the translation to one of them: it takes the same way out.
 *
 * What the switch prints stays as it is; words stand behind it. */

#include "trace.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openvswitch/dynamic-string.h>
#include <util.h>

#include "ask.h"
#include "bridge.h"
#include "ofproxyd/pipeline/tables.h"
#include "words.h"

/* Members of a group that are printed. */
#define MAX_MEMBERS 20

struct trace {
    const struct trace_cfg *cfg;
    char *vswitchd, *bridge, *run_dir;
    char *flow;

    /* Read in the switch's answer. */
    uint32_t group;      /* The last one that was executed; 0: none. */
    bool no_live_bucket; /* There the trace ends. */
    bool external;       /* ToExternal was set. */
    struct ds out;       /* Where the last packet leaves, */
    uint32_t out_port;   /* the number of that port, */
    struct ds packet;    /* and what it is then, as a flow. */
    bool rejected;       /* It goes to ofproxyd. */
};

/* Names. */

/* Appends whose 'word' ("group:1") is, as the daemon says. */
static void
put_name(const struct trace *t, const char *word, struct ds *ds)
{
    const char *argv[] = { "names", word, NULL };
    struct err err;
    char *answer, *name;

    if (ask(t->cfg->daemon, argv, &answer, &err)) {
        ds_put_format(ds, "? (%s)", err.msg);
        return;
    }
    name = ask_value(answer, word);
    ds_put_cstr(ds, name ? name : "?");
    free(name);
    free(answer);
}

/* Lines. */

/* "12. tcp,..., priority 200, cookie 0xf901030000124982". */
static bool
put_flow_words(const struct trace *t, const char *line, struct ds *ds)
{
    const char *cookie = strstr(line, ", cookie 0x");
    uint32_t table;
    const char *rest = words_scan(line, "", &table);
    char word[32];

    if (!rest || rest[0] != '.' || rest[1] != ' ') {
        return false;
    }
    ds_put_format(ds, "%s: ", pipe_table_name(table));
    if (cookie) {
        snprintf(word, sizeof word, "cookie:%.18s", cookie + 9);
        word[strcspn(word, ", \n")] = '\0';
        put_name(t, word, ds);
    } else {
        ds_put_cstr(ds, "no flow matches");
    }
    return true;
}

static void
put_output(struct trace *t, uint32_t ofport, struct ds *ds)
{
    char word[32];

    snprintf(word, sizeof word, "port:%" PRIu32, ofport);
    put_name(t, word, ds);
    ds_clear(&t->out);
    ds_put_cstr(&t->out, ds_cstr(ds));
    t->out_port = ofport;
}

/* Takes what the packet is, from a line that tells it. */
static bool
put_packet(struct trace *t, const char *line)
{
    const char *flow = !strncmp(line, "Flow: ", 6)          ? line + 6
                       : !strncmp(line, "Final flow: ", 12) ? line + 12
                                                            : NULL;

    if (flow && strcmp(flow, "unchanged")) {
        ds_clear(&t->packet);
        ds_put_cstr(&t->packet, flow);
    }
    return flow != NULL;
}

static void
put_line_words(struct trace *t, const char *line, struct ds *ds)
{
    char word[32];
    uint32_t n;

    if (put_flow_words(t, line, ds)) {
        return;
    } else if (words_scan(line, "group:", &n)) {
        t->group = n;
        t->no_live_bucket = false;
        snprintf(word, sizeof word, "group:%" PRIu32, n);
        put_name(t, word, ds);
    } else if (!strncmp(line, "-> no live bucket", 17)) {
        t->no_live_bucket = true;
        ds_put_cstr(ds, "the datapath chooses by a hash of the packet");
    } else if (words_scan(line, "-> output port is ", &n)) {
        put_output(t, n, ds);
    } else if (!strcmp(line, "IN_PORT")
               && words_scan(t->flow, "in_port=", &n)) {
        put_output(t, n, ds);
    } else if (!strcmp(line, ">> Not tunneling to our own address")) {
        ds_put_cstr(ds, "in traces behind ct(); packets are sent");
    } else if (!strncmp(line, "controller(", 11)) {
        t->rejected = true;
        ds_put_cstr(ds, "to ofproxyd");
    } else if (!put_packet(t, line)) {
        words_put_action(line, ds);
        t->external |= strstr(ds_cstr(ds), "ToExternalAddress=YES") != NULL;
    }
}

/* Lines about the datapath's cache, that tell nothing about Services, and
 * about translations that aren't any. */
static bool
is_noise(const char *line)
{
    return !strncmp(line, "Megaflow:", 9)
           || !strncmp(line, "Replacing src/dst IP", 20)
           || !strcmp(line, "Initial flow: ")
           || !strcmp(line, "Modified flow: ");
}

static void
print_words(struct trace *t, char *text)
{
    for (char *line; (line = strsep(&text, "\n")) != NULL;) {
        const char *content = line + strspn(line, " ");
        struct ds ds = DS_EMPTY_INITIALIZER;

        if (!is_noise(content)) {
            put_line_words(t, content, &ds);
            printf("%s%s%s\n", line, ds.length ? "    <- " : "", ds_cstr(&ds));
        }
        ds_destroy(&ds);
    }
}

/* Asks the switch, and prints. */
static int
trace_flow(struct trace *t, const char *flow, bool established,
           struct err *err)
{
    const char *argv[] = { "ofproto/trace",
                           t->bridge,
                           flow,
                           established ? "--ct-next" : NULL,
                           "trk,est",
                           "--ct-next",
                           "trk,est",
                           NULL };
    char *answer;
    int error = ask(t->vswitchd, argv, &answer, err);

    if (!error) {
        t->group = 0;
        t->no_live_bucket = t->rejected = false;
        ds_clear(&t->out);
        ds_clear(&t->packet);
        t->out_port = 0;
        print_words(t, answer);
        free(answer);
    }
    return error;
}

/* Groups. */

static void
format_member(const struct member *m, struct ds *ds)
{
    bool v6 = ip_family(&m->ip) == IP_V6;
    char ip[IP_STRLEN];

    ds_put_format(ds, "%s%s%s:%u", v6 ? "[" : "", ip_to_string(&m->ip, ip),
                  v6 ? "]" : "", m->port);
}

/* Appends what is special about an endpoint, as the daemon says. */
static void
put_place(const struct trace *t, const struct member *m, struct ds *ds)
{
    char word[IP_STRLEN + 3], ip[IP_STRLEN];
    struct ds place = DS_EMPTY_INITIALIZER;

    snprintf(word, sizeof word, "ip:%s", ip_to_string(&m->ip, ip));
    put_name(t, word, &place);
    if (place.length) {
        ds_put_format(ds, ": %s", ds_cstr(&place));
    }
    ds_destroy(&place);
}

static void
print_members(const struct trace *t, const struct group *group)
{
    printf("The group has %zu endpoint%s:\n", group->n,
           group->n == 1 ? "" : "s");
    for (size_t i = 0; i < MIN(group->n, MAX_MEMBERS); i++) {
        struct ds ds = DS_EMPTY_INITIALIZER;

        format_member(&group->members[i], &ds);
        put_place(t, &group->members[i], &ds);
        printf("  %s\n", ds_cstr(&ds));
        ds_destroy(&ds);
    }
    if (group->n > MAX_MEMBERS) {
        printf("  and %zu more\n", group->n - MAX_MEMBERS);
    }
}

/* Appends 'flow' with 'value' instead of the value of 'key'. */
static void
put_replaced(const char *flow, const char *key, const char *value,
             struct ds *ds)
{
    const char *at = strstr(flow, key);

    if (!at) {
        ds_put_cstr(ds, flow);
        return;
    }
    at += strlen(key);
    ds_put_format(ds, "%.*s%s%s", (int) (at - flow), flow, value,
                  at + strcspn(at, ","));
}

/* Returns the flow of a later packet, translated to 'm'. */
static char *
make_later_flow(const struct trace *t, const struct member *m)
{
    bool v6 = ip_family(&m->ip) == IP_V6;
    uint32_t mark = pipe_field_mask(PIPE_F_CT_SERVICE)
                    | (t->external ? pipe_field_mask(PIPE_F_CT_SNAT) : 0);
    struct ds with_ip = DS_EMPTY_INITIALIZER;
    struct ds ds = DS_EMPTY_INITIALIZER;
    char ip[IP_STRLEN], port[8];

    put_replaced(t->flow,
                 v6 ? "ipv6_dst=" : "nw_dst=", ip_to_string(&m->ip, ip),
                 &with_ip);
    snprintf(port, sizeof port, "%u", m->port);
    put_replaced(ds_cstr(&with_ip),
                 strstr(t->flow, "tcp_dst=")   ? "tcp_dst="
                 : strstr(t->flow, "udp_dst=") ? "udp_dst="
                                               : "sctp_dst=",
                 port, &ds);
    ds_put_format(&ds, ",ct_mark=0x%x", mark);
    ds_destroy(&with_ip);
    return ds_steal_cstr(&ds);
}

static int
trace_later(struct trace *t, struct err *err)
{
    struct bridge *bridge;
    struct group group;
    int error = bridge_open(t->run_dir, t->bridge, &bridge, err);

    if (error) {
        return error;
    }
    error = bridge_read_group(bridge, t->group, &group, err);
    bridge_close(bridge);
    if (error) {
        return error;
    }
    print_members(t, &group);
    if (group.n) {
        struct ds ds = DS_EMPTY_INITIALIZER;
        char *flow = make_later_flow(t, &group.members[0]);

        format_member(&group.members[0], &ds);
        printf("\nA later packet of a connection that got %s, after its "
               "translation:\n\n",
               ds_cstr(&ds));
        error = trace_flow(t, flow, true, err);
        free(flow);
        ds_destroy(&ds);
    }
    group_uninit(&group);
    return error;
}

/* Returns the value of a field of 'flow', the caller's to free(), or NULL. */
static char *
get_value(const char *flow, const char *field)
{
    size_t n = strlen(field);

    for (const char *p = flow; *p;) {
        size_t len = strcspn(p, ",");

        if (len > n && !strncmp(p, field, n) && p[n] == '=') {
            return xmemdup0(p + n + 1, len - n - 1);
        }
        p += len + (p[len] == ',');
    }
    return NULL;
}

/* The same of whichever of two fields is there and isn't 'none'. */
static char *
get_address(const char *flow, const char *v4, const char *v6)
{
    char *value = get_value(flow, v4);

    if (!value || !strcmp(value, "0.0.0.0")) {
        free(value);
        value = get_value(flow, v6);
    }
    return value;
}

/* "TCP", say. */
static const char *
get_proto(const struct trace *t)
{
    return strstr(t->flow, "tcp_dst=")   ? "TCP"
           : strstr(t->flow, "udp_dst=") ? "UDP"
                                         : "SCTP";
}

static void
print_answer(const char *answer)
{
    char *to = ask_value(answer, "to");
    char *next = ask_value(answer, "next");

    if (to) {
        printf("To: %s\n", to);
    }
    if (next) {
        printf("Next, %s\n", next);
    }
    free(to);
    free(next);
}

/* Where a tunnel leads to, and how to go on there. */
static void
print_next(const struct trace *t)
{
    const char *flow = ds_cstr_ro(&t->packet);
    char *peer = get_address(flow, "tun_dst", "tun_ipv6_dst");
    char *src = get_address(flow, "nw_src", "ipv6_src");
    char *dst = get_address(flow, "nw_dst", "ipv6_dst");
    char *port = get_value(flow, "tp_dst");
    char ofport[12], *answer = NULL;
    struct err err;

    if (peer && src && dst && port) {
        bool v6 = strchr(dst, ':') != NULL;
        char *target = xasprintf("%s%s%s:%s/%s", v6 ? "[" : "", dst,
                                 v6 ? "]" : "", port, get_proto(t));
        const char *argv[] = { "trace-next", ofport, peer, src, target, NULL };

        snprintf(ofport, sizeof ofport, "%" PRIu32, t->out_port);
        if (!ask(t->cfg->daemon, argv, &answer, &err)) {
            print_answer(answer);
            free(answer);
        }
        free(target);
    }
    free(peer);
    free(src);
    free(dst);
    free(port);
}

static void
print_result(struct trace *t)
{
    if (t->no_live_bucket) {
        puts("Result: not known");
    } else if (t->rejected) {
        puts("Result: rejected by ofproxyd (TCP RST, or port unreachable)");
    } else if (t->out.length) {
        printf("Result: leaves by %s\n", ds_cstr(&t->out));
        print_next(t);
    } else {
        puts("Result: dropped");
    }
}

/* Entry. */

static int
read_input(struct trace *t, const char *answer, struct err *err)
{
    char *client = ask_value(answer, "client");
    char *host = ask_value(answer, "host");

    t->bridge = ask_value(answer, "bridge");
    t->run_dir = ask_value(answer, "run-dir");
    t->flow = ask_value(answer, "flow");
    if (client) {
        printf("From %s, to %s\n", client, t->cfg->target);
    }
    if (host) {
        printf("The host %s\n", host);
    }
    free(client);
    free(host);
    if (!t->bridge || !t->run_dir || !t->flow) {
        err_set(err, "ofproxyd said something else than a flow");
        return EPROTO;
    }
    t->vswitchd = t->cfg->vswitchd ? xstrdup(t->cfg->vswitchd)
                                   : ask_find_switch(t->run_dir);
    return 0;
}

int
trace_run(const struct trace_cfg *cfg, struct err *err)
{
    const char *argv[] = { "trace-input", cfg->client, cfg->target, cfg->peer,
                           NULL };
    struct trace t = {
        .cfg = cfg,
        .out = DS_EMPTY_INITIALIZER,
        .packet = DS_EMPTY_INITIALIZER,
    };
    char *answer;
    int error = ask(cfg->daemon, argv, &answer, err);

    if (error) {
        return error;
    }
    error = read_input(&t, answer, err);
    if (!error) {
        error = trace_flow(&t, t.flow, false, err);
    }
    if (!error && t.group && t.no_live_bucket) {
        error = trace_later(&t, err);
    }
    if (!error) {
        print_result(&t);
    }
    ds_destroy(&t.out);
    ds_destroy(&t.packet);
    free(answer);
    free(t.vswitchd);
    free(t.bridge);
    free(t.run_dir);
    free(t.flow);
    return error;
}
