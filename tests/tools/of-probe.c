/* SPDX-License-Identifier: Apache-2.0 */
/* Drives the flow table and the OpenFlow connection from standard input, for
 * the tests that need a real switch but no cluster.
 *
 *    of-probe TARGET [REPLY_DEADLINE_MS]
 *
 * One command a line; replies are lines of JSON.
 *
 *    want OWNER RANK     followed by lines
 *      flow TEXT           as ovs-ofctl add-flow takes it
 *      group TEXT          as ovs-ofctl add-group takes it
 *    end                 makes these all that OWNER wants
 *    complete            everything is known
 *    flush               sends what is dirty
 *    wait-sync MS        waits until nothing is to be done
 *    wait-up MS          waits until the switch has been dumped
 *    state               prints counters
 *    set-aside           prints owners that are set aside
 *    pop                 prints packets that came in
 *    packet-out PORT HEX
 *    kick
 *    quit
 */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <byte-order.h>
#include <fatal-signal.h>
#include <openvswitch/dynamic-string.h>
#include <openvswitch/ofp-flow.h>
#include <openvswitch/ofp-group.h>
#include <openvswitch/poll-loop.h>
#include <openvswitch/util.h>
#include <openvswitch/vlog.h>
#include <timeval.h>
#include <util.h>

#include "ofproxyd/flow/flowtab.h"
#include "ofproxyd/switch/ofconn.h"

enum wait {
    WAIT_NOT,
    WAIT_SYNC,
    WAIT_UP
};

struct probe {
    struct flowtab *flowtab;
    struct ofconn *ofconn;
    long long int retry_ms; /* Of the next set-aside owner. */
    long long int flushed_ms;

    enum wait wait;
    long long int wait_until_ms;

    struct flowtab_owner owner;
    struct fout items;

    struct ds input;
    int fd; /* A copy of standard input: poll_fd_wait() refuses 0. */
    bool eof, quit;
};

static void OVS_PRINTF_FORMAT(1, 2) reply(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
    fflush(stdout);
}

/* Prints 's' as a JSON string. */
static void
put_json(struct ds *ds, const char *s)
{
    ds_put_char(ds, '"');
    for (; *s; s++) {
        if (*s == '"' || *s == '\\') {
            ds_put_char(ds, '\\');
        }
        ds_put_char(ds, *s);
    }
    ds_put_char(ds, '"');
}

static void
cmd_flow(struct probe *p, const char *args)
{
    enum ofputil_protocol usable;
    struct ofputil_flow_mod fm;
    char *error =
        parse_ofp_flow_mod_str(&fm, args, NULL, NULL, OFPFC_ADD, &usable);
    if (error) {
        ovs_fatal(0, "%s: %s", args, error);
    }

    struct match match;
    minimatch_expand(&fm.match, &match);
    struct fitem_flow flow = {
        .table = fm.table_id,
        .priority = fm.priority,
        .cookie = ntohll(fm.new_cookie),
        .idle_timeout = fm.idle_timeout,
        .hard_timeout = fm.hard_timeout,
        .flags = fm.flags,
        .match = &match,
        .ofpacts = fm.ofpacts,
        .ofpacts_len = fm.ofpacts_len,
    };
    fout_flow(&p->items, &flow);
    minimatch_destroy(&fm.match);
    free(fm.ofpacts);
}

static void
cmd_group(struct probe *p, const char *args)
{
    enum ofputil_protocol usable;
    struct ofputil_group_mod gm;
    struct err err;
    char *error =
        parse_ofp_group_mod_str(&gm, OFPGC15_ADD, args, NULL, NULL, &usable);
    if (error) {
        ovs_fatal(0, "%s: %s", args, error);
    }
    if (fout_group(&p->items, &gm, &err)) {
        ovs_fatal(0, "%s", err.msg);
    }
    ofputil_uninit_group_mod(&gm);
}

static void
cmd_state(const struct probe *p)
{
    struct ofconn_stats os;
    struct flowtab_stats fs;
    struct rusage ru;
    struct ds ds = DS_EMPTY_INITIALIZER;

    ofconn_get_stats(p->ofconn, &os);
    flowtab_get_stats(p->flowtab, &fs);
    getrusage(RUSAGE_SELF, &ru);
    ds_put_format(&ds, "{\"state\": \"%s\", \"in_sync\": %s", os.state,
                  flowtab_in_sync(p->flowtab) ? "true" : "false");
#define PUT(S, FIELD) \
    ds_put_format(&ds, ", \"" #FIELD "\": %" PRIu64, (uint64_t) S.FIELD)
    PUT(os, n_connects);
    PUT(os, n_dumps);
    PUT(os, n_bundles);
    PUT(os, n_bundles_refused);
    PUT(os, n_foreign);
    PUT(os, n_packet_ins);
    PUT(os, n_packet_ins_dropped);
    PUT(fs, n_flows);
    PUT(fs, n_groups);
    PUT(fs, n_dirty);
    PUT(fs, n_in_flight);
    PUT(fs, n_set_aside);
    PUT(fs, n_unwanted);
    PUT(fs, n_flow_puts);
    PUT(fs, n_flow_deletes);
    PUT(fs, n_group_puts);
    PUT(fs, n_group_deletes);
    PUT(fs, n_refused);
#undef PUT
    ds_put_format(&ds,
                  ", \"max_rss_kb\": %ld, \"last_error\": ", ru.ru_maxrss);
    put_json(&ds, os.last_error);
    reply("%s}", ds_cstr(&ds));
    ds_destroy(&ds);
}

static void
put_set_aside(const struct flowtab_set_aside *sa, void *ds_)
{
    struct ds *ds = ds_;

    if (ds_last(ds) == '}') {
        ds_put_cstr(ds, ", ");
    }
    ds_put_format(ds, "{\"owner\": %" PRIu64 ", \"tries\": %u, \"reason\": ",
                  sa->owner, sa->n_tries);
    put_json(ds, sa->reason);
    ds_put_char(ds, '}');
}

static void
cmd_set_aside(const struct probe *p)
{
    struct ds ds = DS_EMPTY_INITIALIZER;

    ds_put_char(&ds, '[');
    flowtab_for_each_set_aside(p->flowtab, put_set_aside, &ds);
    reply("%s]", ds_cstr(&ds));
    ds_destroy(&ds);
}

static void
cmd_pop(struct probe *p)
{
    struct ds ds = DS_EMPTY_INITIALIZER;
    struct ofputil_packet_in pin;
    void *data;

    ds_put_char(&ds, '[');
    while (ofconn_pop_packet_in(p->ofconn, &pin, &data)) {
        ds_put_format(&ds, "%s{\"cookie\": \"%#" PRIx64 "\", \"in_port\": %u",
                      ds_last(&ds) == '}' ? ", " : "", ntohll(pin.cookie),
                      pin.flow_metadata.flow.in_port.ofp_port);
        ds_put_cstr(&ds, ", \"packet\": \"");
        for (size_t i = 0; i < pin.packet_len; i++) {
            ds_put_format(&ds, "%02x", ((uint8_t *) pin.packet)[i]);
        }
        ds_put_cstr(&ds, "\"}");
        free(data);
    }
    reply("%s]", ds_cstr(&ds));
    ds_destroy(&ds);
}

static void
cmd_packet_out(struct probe *p, char *args)
{
    char *hex;
    ofp_port_t port = OFP_PORT_C(strtol(args, &hex, 10));
    uint8_t packet[2048];
    size_t n = 0;

    for (hex++; hex[0] && hex[1] && n < sizeof packet; hex += 2) {
        bool ok;
        packet[n++] = hexits_value(hex, 2, &ok);
    }
    ofconn_packet_out(p->ofconn, port, &in6addr_any, packet, n);
}

static void
start_wait(struct probe *p, enum wait wait, const char *args)
{
    p->wait = wait;
    p->wait_until_ms = time_msec() + atoi(args);
}

/* Commands without a reply of their own answer nothing. */
static void
run_command(struct probe *p, char *line)
{
    char *args = strchr(line, ' ');
    if (args) {
        *args++ = '\0';
    } else {
        args = line + strlen(line);
    }

    if (!strcmp(line, "flow")) {
        cmd_flow(p, args);
    } else if (!strcmp(line, "group")) {
        cmd_group(p, args);
    } else if (!strcmp(line, "want")) {
        sscanf(args, "%" SCNu64 " %" SCNd64, &p->owner.id, &p->owner.rank);
    } else if (!strcmp(line, "end")) {
        flowtab_want(p->flowtab, &p->owner, &p->items);
    } else if (!strcmp(line, "complete")) {
        flowtab_set_complete(p->flowtab, true);
    } else if (!strcmp(line, "flush")) {
        p->flushed_ms = time_msec();
        ofconn_flush(p->ofconn);
    } else if (!strcmp(line, "wait-sync")) {
        start_wait(p, WAIT_SYNC, args);
    } else if (!strcmp(line, "wait-up")) {
        start_wait(p, WAIT_UP, args);
    } else if (!strcmp(line, "state")) {
        cmd_state(p);
    } else if (!strcmp(line, "set-aside")) {
        cmd_set_aside(p);
    } else if (!strcmp(line, "pop")) {
        cmd_pop(p);
    } else if (!strcmp(line, "packet-out")) {
        cmd_packet_out(p, args);
    } else if (!strcmp(line, "kick")) {
        ofconn_kick(p->ofconn);
    } else if (!strcmp(line, "quit")) {
        p->quit = true;
    } else if (line[0]) {
        ovs_fatal(0, "unknown command \"%s\"", line);
    }
}

static void
check_wait(struct probe *p)
{
    bool done = false;

    switch (p->wait) {
    case WAIT_SYNC:
        done = ofconn_is_up(p->ofconn) && flowtab_in_sync(p->flowtab);
        break;
    case WAIT_UP: done = ofconn_is_up(p->ofconn); break;
    case WAIT_NOT: return;
    }
    if (done || time_msec() >= p->wait_until_ms) {
        reply("{\"done\": %s, \"ms\": %lld}", done ? "true" : "false",
              time_msec() - p->flushed_ms);
        p->wait = WAIT_NOT;
    }
}

/* Runs the commands that have been read, until one of them waits. */
static void
run_commands(struct probe *p)
{
    char *start = ds_cstr(&p->input);
    char *end;

    while (p->wait == WAIT_NOT && !p->quit && (end = strchr(start, '\n'))) {
        *end = '\0';
        run_command(p, start);
        check_wait(p);
        start = end + 1;
    }
    size_t rest = strlen(start);
    memmove(p->input.string, start, rest + 1);
    p->input.length = rest;
}

static void
read_input(struct probe *p)
{
    for (;;) {
        char buf[65536];
        ssize_t n = read(p->fd, buf, sizeof buf);

        if (n <= 0) {
            p->eof = n == 0;
            return;
        }
        ds_put_buffer(&p->input, buf, n);
    }
}

static void
run(struct probe *p)
{
    long long int now = time_msec();
    bool retry = now >= p->retry_ms;

    p->retry_ms = flowtab_run(p->flowtab, now);
    if (retry) {
        ofconn_flush(p->ofconn);
    }
    ofconn_run(p->ofconn);
    check_wait(p);
    read_input(p);
    run_commands(p);
    p->quit |= p->eof && p->wait == WAIT_NOT;
}

static void
wait_for_work(struct probe *p)
{
    ofconn_wait(p->ofconn);
    poll_timer_wait_until(p->retry_ms);
    if (p->wait != WAIT_NOT) {
        poll_timer_wait_until(p->wait_until_ms);
    }
    if (!p->eof) {
        poll_fd_wait(p->fd, POLLIN);
    }
    if (p->quit) {
        poll_immediate_wake();
    }
}

int
main(int argc, char *argv[])
{
    set_program_name(argv[0]);
    if (argc < 2) {
        ovs_fatal(0, "usage: %s TARGET [REPLY_DEADLINE_MS]", argv[0]);
    }
    fatal_ignore_sigpipe();
    vlog_set_levels(NULL, VLF_SYSLOG, VLL_OFF);

    struct probe p = { .retry_ms = LLONG_MAX,
                       .items = FOUT_INIT,
                       .fd = dup(STDIN_FILENO),
                       .input = DS_EMPTY_INITIALIZER };
    fcntl(p.fd, F_SETFL, O_NONBLOCK);
    p.flowtab = flowtab_create();
    p.ofconn = ofconn_create(&(struct ofconn_cfg){
        .target = argv[1],
        .flowtab = p.flowtab,
        .meter_id = 100,
        .n_meters = 2,
        .meter_rate_pps = 500,
        .reply_deadline_ms = argc > 2 ? atoi(argv[2]) : 10000,
    });
    while (!p.quit) {
        run(&p);
        wait_for_work(&p);
        poll_block();
    }
    ofconn_destroy(p.ofconn);
    flowtab_destroy(p.flowtab);
    fout_clear(&p.items);
    ds_destroy(&p.input);
    return 0;
}
