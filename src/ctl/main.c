/* SPDX-License-Identifier: Apache-2.0 */

/* ofproxyctl: asks a running ofproxyd, and the switch, for an operator. */

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openvswitch/vlog.h>

#include <dirs.h>
#include <fatal-signal.h>
#include <timeval.h>
#include <util.h>

#include "ask.h"
#include "counters.h"
#include "ofproxyd/serve/control.h"
#include "trace.h"

/* Nothing that is asked takes long. */
#define DEFAULT_TIMEOUT_S 30

struct args {
    const char *socket, *vswitchd;
    unsigned int timeout_s;
    int n; /* Of what follows the options. */
    const char *const *word;
};

/* A command. */
struct command {
    const char *name, *usage, *does;
    int min, max; /* Arguments. */

    /* NULL: ofproxyd does it. */
    int (*run)(const struct args *, const char *daemon, struct err *err);
};

static int
run_trace(const struct args *args, const char *daemon, struct err *err)
{
    return trace_run(
        &(struct trace_cfg){
            .daemon = daemon,
            .vswitchd = args->vswitchd,
            .client = args->word[1],
            .target = args->word[2],
            .peer = args->n > 3 ? args->word[3] : NULL,
        },
        err);
}

static int
run_counters(const struct args *args, const char *daemon, struct err *err)
{
    return counters_run(daemon, args->word[1], err);
}

static const struct command commands[] = {
    { "services", "[NAMESPACE/NAME]",
      "all Service ports, or all addresses of one Service", 0, 1, NULL },
    { "endpoints", "NAMESPACE/NAME", "the endpoints that are used", 1, 1,
      NULL },
    { "explain", "NAMESPACE/NAME",
      "what is served, and why other addresses and endpoints aren't", 1, 1,
      NULL },
    { "trace", "CLIENT ADDRESS:PORT[/PROTOCOL] [PEER]",
      "what becomes of a new connection; CLIENT is NAMESPACE/POD or\n"
      "                       the address of a pod of this node, \"host\", or "
      "an address outside;\n"
      "                       with PEER any address, by the tunnel from that "
      "address of a node\n"
      "                       or of another cluster's gateway",
      2, 3, run_trace },
    { "counters", "NAMESPACE/NAME", "connections by endpoint", 1, 1,
      run_counters },
    { "flows", "NAMESPACE/NAME", "its flows and groups", 1, 1, NULL },
    { "nodes", "", "the other nodes", 0, 0, NULL },
    { "clusters", "",
      "the other clusters, what is exchanged with each, and what is wrong", 0,
      0, NULL },
    { "sync", "", "whether all is in order, and what isn't", 0, 0, NULL },
};

static void
usage(FILE *stream)
{
    fprintf(stream, "ofproxyctl: asks ofproxyd, on its node\n"
                    "usage: ofproxyctl [OPTIONS] COMMAND [ARGUMENTS]\n"
                    "\n");
    for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
        fprintf(stream, "  %s%s%s\n                       %s\n",
                commands[i].name, commands[i].usage[0] ? " " : "",
                commands[i].usage, commands[i].does);
    }
    fprintf(stream,
            "\nAny other command goes to ofproxyd as it is (list-commands "
            "tells which there are).\n"
            "\n"
            "  -t, --target PATH    ofproxyd's control socket [found in %s]\n"
            "  --vswitchd PATH      ovs-vswitchd's control socket [found by "
            "its pidfile]\n"
            "  -T, --timeout SECS   give up after that [%d; 0: never]\n"
            "  -V, --version        print the version\n"
            "  -h, --help           print this\n",
            ovs_rundir(), DEFAULT_TIMEOUT_S);
}

static void
parse_args(int argc, char *argv[], struct args *args)
{
    enum {
        OPT_VSWITCHD = UCHAR_MAX + 1
    };
    static const struct option options[] = {
        { "target", required_argument, NULL, 't' },
        { "vswitchd", required_argument, NULL, OPT_VSWITCHD },
        { "timeout", required_argument, NULL, 'T' },
        { "version", no_argument, NULL, 'V' },
        { "help", no_argument, NULL, 'h' },
        { NULL, 0, NULL, 0 },
    };

    for (int c;
         (c = getopt_long(argc, argv, "+t:T:Vh", options, NULL)) != -1;) {
        switch (c) {
        case 't': args->socket = optarg; break;
        case OPT_VSWITCHD: args->vswitchd = optarg; break;
        case 'T':
            if (!str_to_uint(optarg, 10, &args->timeout_s)) {
                fprintf(stderr, "ofproxyctl: \"%s\" is no number of seconds\n",
                        optarg);
                exit(EXIT_FAILURE);
            }
            break;
        case 'V': puts("ofproxyctl " OFPROXYD_VERSION); exit(EXIT_SUCCESS);
        case 'h': usage(stdout); exit(EXIT_SUCCESS);
        default: usage(stderr); exit(EXIT_FAILURE);
        }
    }
    args->n = argc - optind;
    args->word = (const char *const *) argv + optind;
}

/* What ofproxyd does itself. */
static int
pass_on(const struct args *args, const char *daemon, struct err *err)
{
    char *answer;
    int error = ask(daemon, args->word, &answer, err);

    if (!error) {
        fputs(answer, stdout);
        free(answer);
    }
    return error;
}

static int
run(const struct args *args, const char *daemon, struct err *err)
{
    for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
        const struct command *c = &commands[i];
        bool is_it = !strcmp(c->name, args->word[0]);

        if (!is_it) {
            continue;
        } else if (args->n - 1 < c->min || args->n - 1 > c->max) {
            err_set(err, "usage: ofproxyctl %s %s", c->name, c->usage);
            return EINVAL;
        } else if (c->run) {
            return c->run(args, daemon, err);
        }
    }
    return pass_on(args, daemon, err);
}

int
main(int argc, char *argv[])
{
    struct args args = { .timeout_s = DEFAULT_TIMEOUT_S };
    struct err err;
    char *daemon;
    int error;

    set_program_name("ofproxyctl");
    ovs_set_program_name("ofproxyctl", OFPROXYD_VERSION);
    vlog_set_levels(NULL, VLF_ANY_DESTINATION, VLL_OFF);
    fatal_ignore_sigpipe();
    parse_args(argc, argv, &args);
    if (!args.n) {
        usage(stderr);
        return EXIT_FAILURE;
    }
    daemon = control_find_server(args.socket);
    if (!daemon) {
        fprintf(stderr, "ofproxyctl: no ofproxyd listens %s %s\n",
                args.socket ? "on" : "in",
                args.socket ? args.socket : ovs_rundir());
        return EXIT_FAILURE;
    }
    time_alarm(args.timeout_s);
    error = run(&args, daemon, &err);
    if (error) {
        fflush(stdout);
        fprintf(stderr, "ofproxyctl: %s\n", err.msg);
    }
    free(daemon);
    return error || fflush(stdout) ? EXIT_FAILURE : EXIT_SUCCESS;
}
