/* SPDX-License-Identifier: Apache-2.0 */

/* ofproxyd: arguments, the start in order, the loop, the stop in reverse. */

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <openvswitch/poll-loop.h>
#include <openvswitch/vlog.h>

#include <command-line.h>
#include <daemon.h>
#include <fatal-signal.h>
#include <random.h>
#include <timeval.h>
#include <unixctl.h>
#include <util.h>
#include <uuid.h>

#include "ofproxyd/agent/agent.h"
#include "ofproxyd/agent/cleanup.h"
#include "ofproxyd/base/confine.h"
#include "ofproxyd/base/sdnotify.h"
#include "ofproxyd/base/sigwatch.h"
#include "ofproxyd/config/config.h"
#include "ofproxyd/config/kubeconfig.h"
#include "ofproxyd/serve/control.h"
#include "ofproxyd/serve/web.h"

VLOG_DEFINE_THIS_MODULE(main);

#define DEFAULT_CONFIG "/etc/ofproxyd/antrea-agent.conf"

struct args {
    const char *config;
    const char *node_name;
    const char *unixctl;
    bool cleanup;
};

static void
usage(FILE *stream)
{
    fprintf(stream,
            "ofproxyd: serves Kubernetes Services on an Open vSwitch bridge\n"
            "usage: ofproxyd [OPTIONS]\n"
            "       ofproxyd --cleanup [--config FILE]\n"
            "       ofproxyd --check-config FILE\n"
            "\n"
            "  --config FILE        antrea-agent.conf [" DEFAULT_CONFIG "]\n"
            "  --node NAME          this node's name [$NODE_NAME, or the host"
            " name]\n"
            "  --unixctl PATH       control socket\n"
            "  --cleanup            remove from bridge and host what ofproxyd"
            " has put there,\n"
            "                       say what, and exit\n"
            "  --check-config FILE  read FILE, say what is wrong with it, and"
            " exit\n"
            "  --print-config       print the configuration file with all"
            " defaults\n"
            "  --print-reference    print docs/configuration.md\n"
            "  -V, --version        print the version\n"
            "  -h, --help           print this\n");
    if (stream == stdout) {
        fflush(stdout);
        daemon_usage();
        vlog_usage();
    }
}

static int
check_config(const char *path)
{
    struct cfg_report report;
    struct cfg cfg;
    int error;

    cfg_report_init(&report);
    error = cfg_load(path, &cfg, &report);
    for (size_t i = 0; i < report.n; i++) {
        fprintf(stderr, "%s\n", report.messages[i].text);
    }
    if (!error) {
        cfg_uninit(&cfg);
        printf("%s: ok\n", path);
    }
    cfg_report_uninit(&report);
    return error ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int
print(void (*format)(struct ds *))
{
    struct ds ds = DS_EMPTY_INITIALIZER;

    format(&ds);
    fputs(ds_cstr(&ds), stdout);
    ds_destroy(&ds);
    return EXIT_SUCCESS;
}

/* Fills '*args', or does what was asked and exits. */
static void
/* NOLINTNEXTLINE(readability-function-size): two macros of options. */
parse_args(int argc, char *argv[], struct args *args)
{
    enum {
        OPT_CONFIG = UCHAR_MAX + 1,
        OPT_NODE,
        OPT_UNIXCTL,
        OPT_CLEANUP,
        OPT_CHECK_CONFIG,
        OPT_PRINT_CONFIG,
        OPT_PRINT_REFERENCE,
        VLOG_OPTION_ENUMS,
        DAEMON_OPTION_ENUMS
    };
    static const struct option options[] = {
        { "config", required_argument, NULL, OPT_CONFIG },
        { "node", required_argument, NULL, OPT_NODE },
        { "unixctl", required_argument, NULL, OPT_UNIXCTL },
        { "cleanup", no_argument, NULL, OPT_CLEANUP },
        { "check-config", required_argument, NULL, OPT_CHECK_CONFIG },
        { "print-config", no_argument, NULL, OPT_PRINT_CONFIG },
        { "print-reference", no_argument, NULL, OPT_PRINT_REFERENCE },
        { "version", no_argument, NULL, 'V' },
        { "help", no_argument, NULL, 'h' },
        VLOG_LONG_OPTIONS,
        DAEMON_LONG_OPTIONS,
        { NULL, 0, NULL, 0 },
    };

    for (;;) {
        int c = getopt_long(argc, argv, "hVv::", options, NULL);

        switch (c) {
        case -1:
            if (optind < argc) {
                fprintf(stderr, "ofproxyd: unexpected argument \"%s\"\n",
                        argv[optind]);
                exit(EXIT_FAILURE);
            }
            return;
        case OPT_CONFIG: args->config = optarg; break;
        case OPT_NODE: args->node_name = optarg; break;
        case OPT_UNIXCTL: args->unixctl = optarg; break;
        case OPT_CLEANUP:
            args->cleanup = true;
            vlog_set_levels(NULL, VLF_CONSOLE, VLL_WARN);
            break;
        case OPT_CHECK_CONFIG: exit(check_config(optarg));
        case OPT_PRINT_CONFIG: exit(print(cfg_print_example));
        case OPT_PRINT_REFERENCE: exit(print(cfg_print_reference_md));
        case 'V': puts("ofproxyd " OFPROXYD_VERSION); exit(EXIT_SUCCESS);
        case 'h':
            usage(stdout);
            exit(EXIT_SUCCESS);
            VLOG_OPTION_HANDLERS
            DAEMON_OPTION_HANDLERS
        default: usage(stderr); exit(EXIT_FAILURE);
        }
    }
}

/* What the command line, the environment and the files say. */
struct setup {
    struct cfg cfg;
    struct kubeconfig kubeconfig;
    char *node_name;
};

static enum vlog_level
log_level(enum cfg_severity severity)
{
    switch (severity) {
    case CFG_NOTE: return VLL_INFO;
    case CFG_WARNING: return VLL_WARN;
    case CFG_ERROR: return VLL_ERR;
    }
    return VLL_ERR;
}

static int
load_config(const struct args *args, struct cfg *cfg)
{
    struct cfg_report report;
    int error;

    cfg_report_init(&report);
    error = cfg_load(args->config, cfg, &report);
    for (size_t i = 0; i < report.n; i++) {
        const struct cfg_message *m = &report.messages[i];

        VLOG(log_level(m->severity), "%s", m->text);
    }
    cfg_report_uninit(&report);
    return error;
}

static int
load_kubeconfig(const struct cfg *cfg, struct kubeconfig *k, struct err *err)
{
    const char *path = cfg->client_connection_kubeconfig;
    const char *override = cfg->kube_api_server_override;
    int error = path[0] ? kubeconfig_load(path, k, err)
                        : kubeconfig_in_cluster(NULL, k, err);

    if (!error && override[0]) {
        error = kubeconfig_override_server(k, override, err);
        if (error) {
            kubeconfig_uninit(k);
        }
    }
    return error;
}

static char *
find_node_name(const struct args *args)
{
    const char *env = getenv("NODE_NAME");
    char host[256];

    if (args->node_name && args->node_name[0]) {
        return xstrdup(args->node_name);
    } else if (env && env[0]) {
        return xstrdup(env);
    } else if (gethostname(host, sizeof host)) {
        return xstrdup("localhost");
    }
    host[sizeof host - 1] = '\0';
    return xstrdup(host);
}

/* Cleaning up. */

/* Does what --cleanup promises, unless a daemon runs. */
static int
clean_up(const struct cfg *cfg, const struct args *args)
{
    struct cleanup_report report;
    char *running = control_find_server(args->unixctl);
    int error;

    if (running) {
        fprintf(stderr,
                "ofproxyd: a daemon is running (%s); nothing is removed\n",
                running);
        free(running);
        return EBUSY;
    }
    cleanup_report_init(&report);
    error = cleanup_run(cfg, &report);
    fputs(ds_cstr(&report.done), stdout);
    fputs(ds_cstr(&report.left), stdout);
    if (!report.done.length && !error) {
        puts("nothing to remove");
    }
    fputs(ds_cstr(&report.failed), stderr);
    cleanup_report_uninit(&report);
    return error;
}

/* Control commands. */

struct stop {
    bool asked;
};

static int
cmd_nodes(int argc, const char *argv[], void *agent, struct ds *ds,
          struct err *err)
{
    (void) argc;
    (void) argv;
    (void) err;
    agent_format_nodes(agent, ds);
    return 0;
}

static int
cmd_clusters(int argc, const char *argv[], void *agent, struct ds *ds,
             struct err *err)
{
    (void) argc;
    (void) argv;
    (void) err;
    agent_format_clusters(agent, ds);
    return 0;
}

static int
cmd_sync(int argc, const char *argv[], void *agent, struct ds *ds,
         struct err *err)
{
    (void) argc;
    (void) argv;
    (void) err;
    agent_format_sync(agent, ds);
    return 0;
}

/* Runs 'format' on the Service that 'arg' names. */
static int
with_service(const char *arg, void *agent, struct ds *ds, struct err *err,
             int (*format)(const struct agent *, const char *, const char *,
                           struct ds *))
{
    const char *slash = strchr(arg, '/');
    char *ns;
    int error;

    if (!slash) {
        err_set(err, "\"%.80s\" is no NAMESPACE/NAME", arg);
        return EINVAL;
    }
    ns = xmemdup0(arg, slash - arg);
    error = format(agent, ns, slash + 1, ds);
    if (error) {
        err_set(err, "there is no Service %.320s", arg);
    }
    free(ns);
    return error;
}

static int
cmd_services(int argc, const char *argv[], void *agent, struct ds *ds,
             struct err *err)
{
    if (argc > 1) {
        return with_service(argv[1], agent, ds, err, agent_format_service);
    }
    agent_format_services(agent, ds);
    return 0;
}

static int
cmd_explain(int argc, const char *argv[], void *agent, struct ds *ds,
            struct err *err)
{
    (void) argc;
    return with_service(argv[1], agent, ds, err, agent_format_explanation);
}

static int
cmd_endpoints(int argc, const char *argv[], void *agent, struct ds *ds,
              struct err *err)
{
    (void) argc;
    return with_service(argv[1], agent, ds, err, agent_format_endpoints);
}

static int
cmd_flows(int argc, const char *argv[], void *agent, struct ds *ds,
          struct err *err)
{
    (void) argc;
    return with_service(argv[1], agent, ds, err, agent_format_flows);
}

/* For ofproxyctl. */

static int
cmd_trace_input(int argc, const char *argv[], void *agent, struct ds *ds,
                struct err *err)
{
    const char *client[] = { argv[1], argc > 3 ? argv[3] : NULL };

    return agent_format_trace(agent, client, argv[2], ds, err);
}

static int
cmd_trace_next(int argc, const char *argv[], void *agent, struct ds *ds,
               struct err *err)
{
    struct agent_trace_hop hop = {
        .port = argv[1],
        .tunnel_dst = argv[2],
        .src = argv[3],
        .target = argv[4],
    };

    (void) argc;
    return agent_format_trace_next(agent, &hop, ds, err);
}

static int
cmd_names(int argc, const char *argv[], void *agent, struct ds *ds,
          struct err *err)
{
    return agent_format_names(agent, &argv[1], argc - 1, ds, err);
}

static int
cmd_groups(int argc, const char *argv[], void *agent, struct ds *ds,
           struct err *err)
{
    (void) argc;
    return with_service(argv[1], agent, ds, err, agent_format_groups);
}

static int
cmd_exit(int argc, const char *argv[], void *stop_, struct ds *ds,
         struct err *err)
{
    struct stop *stop = stop_;

    (void) argc;
    (void) argv;
    (void) ds;
    (void) err;
    stop->asked = true;
    return 0;
}

/* What is served over HTTP. */

static void
get_health(const void *agent, struct health_state *ret)
{
    agent_get_health(agent, ret);
}

static bool
format_metrics(void *agent, struct ds *ds)
{
    return agent_format_metrics(agent, ds);
}

static bool
metrics_ready(void *agent)
{
    return agent_metrics_ready(agent);
}

static void
check_failed(void *agent, const struct health_check *check, const char *why)
{
    agent_check_failed(agent, check, why);
}

static int
create_web(const struct cfg *cfg, struct agent *agent, struct web **ret)
{
    struct web_cfg web_cfg = {
        .cfg = cfg,
        .aux = agent,
        .get_health = get_health,
        .format_metrics = format_metrics,
        .metrics_ready = metrics_ready,
        .check_failed = check_failed,
    };
    struct err err;
    int error = web_create(&web_cfg, ret, &err);

    if (error) {
        VLOG_ERR("%s", err.msg);
    }
    return error;
}

static void
run_web(struct web *web, struct agent *agent)
{
    struct health_check check;
    const struct ip *ips;
    size_t n_ips;

    ips = agent_node_port_ips(agent, &n_ips);
    web_set_addresses(web, ips, n_ips);
    while (agent_pop_health_check(agent, &check)) {
        web_set_check(web, &check);
    }
    web_run(web);
}

struct servers {
    struct unixctl_server *unixctl;
    struct web *web;
    struct sdnotify *sdnotify;
};

static void
loop(struct agent *agent, const struct servers *servers,
     struct sigwatch *signals, const struct stop *stop)
{
    struct unixctl_server *unixctl = servers->unixctl;

    /* Not only when all is in sync: the API server may be a pod of this node,
     * and so wait for a kubelet that is to be started after this. */
    sdnotify_send(servers->sdnotify, "READY=1");
    while (!stop->asked && !sigwatch_poll(signals)) {
        long long int start_us = time_usec();

        agent_run(agent);
        run_web(servers->web, agent);
        unixctl_server_run(unixctl);
        sdnotify_run(servers->sdnotify);
        if (stop->asked) {
            break;
        }
        agent_count_turn(agent, time_usec() - start_us);
        agent_wait(agent);
        web_wait(servers->web);
        control_wait(unixctl);
        sdnotify_wait(servers->sdnotify);
        sigwatch_wait(signals);
        poll_block();
    }
    sdnotify_send(servers->sdnotify, "STOPPING=1");
    /* The last answer has to leave before the socket closes. */
    unixctl_server_run(unixctl);
}

static int
serve(const struct setup *setup, const struct args *args, struct agent *agent,
      struct sigwatch *signals)
{
    struct stop stop = { false };
    const struct control_command commands[] = {
        { "services", "[NAMESPACE/NAME]", 0, 1, cmd_services, agent },
        { "explain", "NAMESPACE/NAME", 1, 1, cmd_explain, agent },
        { "endpoints", "NAMESPACE/NAME", 1, 1, cmd_endpoints, agent },
        { "flows", "NAMESPACE/NAME", 1, 1, cmd_flows, agent },
        { "nodes", "", 0, 0, cmd_nodes, agent },
        { "clusters", "", 0, 0, cmd_clusters, agent },
        { "sync", "", 0, 0, cmd_sync, agent },
        { "trace-input", "CLIENT ADDRESS:PORT[/PROTOCOL] [PEER]", 2, 3,
          cmd_trace_input, agent },
        { "trace-next", "PORT PEER CLIENT ADDRESS:PORT/PROTOCOL", 4, 4,
          cmd_trace_next, agent },
        { "names", "KIND:NUMBER...", 1, 1000, cmd_names, agent },
        { "groups", "NAMESPACE/NAME", 1, 1, cmd_groups, agent },
        { "exit", "", 0, 0, cmd_exit, &stop },
    };
    struct servers servers = { .sdnotify = sdnotify_create() };
    int error = create_web(&setup->cfg, agent, &servers.web);

    if (!error) {
        error = unixctl_server_create(args->unixctl, &servers.unixctl);
    }
    if (!error) {
        control_register(commands, ARRAY_SIZE(commands));
        VLOG_INFO("ofproxyd " OFPROXYD_VERSION " on node %s, bridge %s%s",
                  setup->node_name, setup->cfg.ovs_bridge,
                  daemon_should_self_confine() ? "" : ", not confined");
        loop(agent, &servers, signals, &stop);
        VLOG_INFO("stopping; bridge and host stay as they are");
        unixctl_server_destroy(servers.unixctl);
    }
    web_destroy(servers.web);
    sdnotify_destroy(servers.sdnotify);
    return error;
}

static int
run(const struct setup *setup, const struct args *args)
{
    struct agent_cfg agent_cfg = {
        .cfg = &setup->cfg,
        .kubeconfig = &setup->kubeconfig,
        .node_name = setup->node_name,
        .seed = random_uint32(),
    };
    struct sigwatch *signals = sigwatch_create();
    struct agent *agent;
    struct err err;
    int error;

    if (!signals) {
        VLOG_ERR("signalfd: %s", ovs_strerror(errno));
        return errno;
    }
    error = agent_create(&agent_cfg, &agent, &err);
    if (!error) {
        error = serve(setup, args, agent, signals);
        agent_destroy(agent);
    } else {
        VLOG_ERR("%s", err.msg);
    }
    sigwatch_destroy(signals);
    return error;
}

/* Two listening sockets for each Service with a health check are more than the
 * usual limit, which only is what it is for those who use select(). */
static void
raise_fd_limit(void)
{
    struct rlimit limit;

    if (!getrlimit(RLIMIT_NOFILE, &limit)) {
        limit.rlim_cur = limit.rlim_max;
        if (setrlimit(RLIMIT_NOFILE, &limit)) {
            VLOG_INFO("setrlimit: %s", ovs_strerror(errno));
        }
    }
}

/* Gives up what 'give_up' says, unless it is not to. */
static void
confine(int (*give_up)(struct err *))
{
    struct err err;

    if (daemon_should_self_confine() && give_up(&err)) {
        VLOG_ERR("%s", err.msg);
        exit(EXIT_FAILURE);
    }
}

int
main(int argc, char *argv[])
{
    struct args args = { .config = DEFAULT_CONFIG };
    struct setup setup;
    struct err err;
    int error;

    confine_files();
    ovs_cmdl_proctitle_init(argc, argv);
    set_program_name("ofproxyd");
    ovs_set_program_name("ofproxyd", OFPROXYD_VERSION);
    fatal_ignore_sigpipe();
    parse_args(argc, argv, &args);

    /* Before anything is read: what can't be read without privileges could
     * not be read again either. */
    confine(confine_privileges);
    if (load_config(&args, &setup.cfg)) {
        return EXIT_FAILURE;
    }
    if (args.cleanup) {
        daemonize(); /* Fails if the daemon of a --pidfile runs. */
        confine(confine_calls);
        error = clean_up(&setup.cfg, &args);
        cfg_uninit(&setup.cfg);
        return error ? EXIT_FAILURE : EXIT_SUCCESS;
    }
    error = load_kubeconfig(&setup.cfg, &setup.kubeconfig, &err);
    if (error) {
        VLOG_ERR("%s", err.msg);
        cfg_uninit(&setup.cfg);
        return EXIT_FAILURE;
    }
    setup.node_name = find_node_name(&args);
    if (setup.cfg.antrea_proxy_proxy_all) {
        raise_fd_limit();
    }
    daemonize();
    confine(confine_calls); /* No process is to be made any more. */
    uuid_init(); /* Ends the process if there is no descriptor for it. */
    error = run(&setup, &args);
    free(setup.node_name);
    kubeconfig_uninit(&setup.kubeconfig);
    cfg_uninit(&setup.cfg);
    return error ? EXIT_FAILURE : EXIT_SUCCESS;
}
