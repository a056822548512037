/* SPDX-License-Identifier: Apache-2.0 */
/* The API client alone, for tests: prints what it makes of an API server.
 *
 * Arguments are KEY=VALUE with the members of struct kube_cfg as keys.  On
 * standard output: a "service" line for each Service that changed (with its
 * ports and endpoints), a "nodes" line when Nodes changed, a "stats" line for
 * each kind when its state or counters changed, a "published" line when a
 * patch of the own Node was sent or has ended, "synced" when all kinds have
 * been listed.  Commands on standard input: "dump" prints all again, "turn"
 * prints the most CPU time that a turn of the loop has taken so far, in
 * microseconds (what else runs on the machine doesn't count), "transport
 * ADDRESSES", separated by blanks, calls kube_set_transport(), "emit N KIND
 * NAMESPACE/NAME UID REASON NOTE" calls events_emit() N times with the number
 * of a reason, "events" prints how it went with them.  Ends when standard
 * input does. */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <openvswitch/poll-loop.h>
#include <openvswitch/vlog.h>
#include <util.h>

#include "../support/probearg.h"
#include "ofproxyd/kube/events.h"
#include "ofproxyd/kube/kube.h"

struct probe {
    struct kube_cfg cfg;
    struct model *model;
    struct kube *kube;
    struct kube_kind_stats shown[N_MODEL_KINDS];
    uint64_t nodes_seqno;
    bool synced;
    long long int max_turn_us;
    bool quiet; /* Don't print Services. */
    struct kube_publish_stats published;
};

static bool
set_option(struct probe *p, const char *key, const char *value)
{
    const struct {
        const char *key;
        const char **text;
        int *number;
    } options[] = {
        { "server", &p->cfg.server, NULL },
        { "ca_file", &p->cfg.ca_file, NULL },
        { "ca_data", &p->cfg.ca_data, NULL },
        { "client_cert_file", &p->cfg.client_cert_file, NULL },
        { "client_key_file", &p->cfg.client_key_file, NULL },
        { "client_cert_data", &p->cfg.client_cert_data, NULL },
        { "client_key_data", &p->cfg.client_key_data, NULL },
        { "token", &p->cfg.token, NULL },
        { "token_file", &p->cfg.token_file, NULL },
        { "tls_server_name", &p->cfg.tls_server_name, NULL },
        { "service_proxy_name", &p->cfg.service_proxy_name, NULL },
        { "page_limit", NULL, &p->cfg.page_limit },
        { "watch_timeout_s", NULL, &p->cfg.watch_timeout_s },
        { "silence_ms", NULL, &p->cfg.silence_ms },
        { "backoff_min_ms", NULL, &p->cfg.backoff_min_ms },
        { "backoff_max_ms", NULL, &p->cfg.backoff_max_ms },
        { "event_repeat_ms", NULL, &p->cfg.event_repeat_ms },
        { "event_every_ms", NULL, &p->cfg.event_every_ms },
    };

    for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
        if (strcmp(key, options[i].key)) {
            continue;
        } else if (options[i].text) {
            *options[i].text = value;
        } else {
            *options[i].number = atoi(value);
        }
        return true;
    }
    if (!strcmp(key, "insecure")) {
        p->cfg.insecure_skip_tls_verify = atoi(value);
    } else if (!strcmp(key, "quiet")) {
        p->quiet = atoi(value);
    } else {
        return false;
    }
    return true;
}

static void
print_service(const struct model_service *service)
{
    char buf[IP_STRLEN];

    printf("service %s/%s", service->ns, service->name);
    if (service->svc) {
        const struct svc *svc = service->svc;

        for (size_t i = 0; i < N_IP_FAMILIES; i++) {
            if (!ip_is_none(&svc->cluster_ips[i])) {
                printf(" ip=%s", ip_to_string(&svc->cluster_ips[i], buf));
            }
        }
        for (size_t i = 0; i < svc->n_ports; i++) {
            printf(" port=%d", svc->ports[i].port);
        }
    } else {
        printf(" absent");
    }
    printf(" slices=%" PRIuSIZE, service->n_slices);

    const struct model_slice *slice;
    LIST_FOR_EACH (slice, list_node, &service->slices) {
        const struct slice *s = slice->slice;

        printf(" %s:", s->meta.name);
        for (size_t i = 0; i < s->n_endpoints && i < 8; i++) {
            printf("%s%s", i ? "," : "",
                   ip_to_string(&s->endpoints[i].ip, buf));
        }
        if (s->n_endpoints > 8) {
            printf(",...%" PRIuSIZE, s->n_endpoints);
        }
    }
    putchar('\n');
}

static void
print_nodes(const struct probe *p)
{
    const struct model_node *node;

    printf("nodes");
    HMAP_FOR_EACH (node, hmap_node, model_nodes(p->model)) {
        printf(" %s:%s", node->node->meta.name, node->node->zone);
        for (size_t i = 0; i < N_IP_FAMILIES; i++) {
            char buf[IP_STRLEN];

            if (!ip_is_none(&node->node->transport[i])) {
                printf("@%s", ip_to_string(&node->node->transport[i], buf));
            }
        }
    }
    putchar('\n');
}

static void
print_stats(enum model_kind kind, const struct kube_kind_stats *s)
{
    printf("stats %s state=%s lists=%" PRIu64 " watches=%" PRIu64
           " events=%" PRIu64 " failures=%" PRIu64 " bad=%" PRIu64
           " bytes=%" PRIu64 " objects=%" PRIu64 " us=%" PRIu64 " error=%s\n",
           model_kind_name(kind), s->state, s->n_lists, s->n_watches,
           s->n_events, s->n_failures, s->n_bad_objects, s->list_bytes,
           s->list_objects, s->list_decode_us, s->last_error);
}

static void
print_published(struct probe *p)
{
    struct kube_publish_stats now;

    memset(&now, 0, sizeof now);
    kube_get_publish_stats(p->kube, &now);
    if (memcmp(&now, &p->published, sizeof now)) {
        p->published = now;
        printf("published requests=%" PRIu64 " failures=%" PRIu64
               " error=%s\n",
               now.n_requests, now.n_failures, now.last_error);
    }
}

static void
set_transport(struct probe *p, char *text)
{
    struct ip transport[N_IP_FAMILIES] = { { IN6ADDR_ANY_INIT } };
    char *save = NULL;
    struct ip ip;

    for (char *word = strtok_r(text, " \n", &save); word;
         word = strtok_r(NULL, " \n", &save)) {
        if (!ip_from_string(word, &ip)) {
            transport[ip_family(&ip)] = ip;
        }
    }
    kube_set_transport(p->kube, transport);
}

static void
print_events(const struct probe *p)
{
    struct kube_event_stats s;

    kube_get_event_stats(p->kube, &s);
    printf("events emitted=%" PRIu64 " created=%" PRIu64 " counted=%" PRIu64
           " failures=%" PRIu64 " dropped=%" PRIu64 " waiting=%" PRIu64
           " error=%s\n",
           s.n_emitted, s.n_created, s.n_counted, s.n_failures, s.n_dropped,
           s.n_waiting, s.last_error);
}

static void
emit(struct probe *p, char *text)
{
    char *word[6] = { NULL };
    struct event_ref ref = { .api_version = "v1" };

    for (size_t i = 0; i < ARRAY_SIZE(word); i++) {
        word[i] = strsep(&text, i < 5 ? " " : "\n");
        if (!word[i]) {
            return;
        }
    }
    ref.kind = word[1];
    ref.ns = strsep(&word[2], "/");
    ref.name = word[2];
    ref.uid = word[3];
    for (int i = 0; i < atoi(word[0]); i++) {
        events_emit(p->kube, &ref, atoi(word[4]), word[5]);
    }
}

static void
print_changes(struct probe *p)
{
    const struct model_service *service;

    while ((service = model_pop_dirty(p->model))) {
        if (!p->quiet) {
            print_service(service);
        }
    }
    if (p->nodes_seqno != model_nodes_seqno(p->model)) {
        p->nodes_seqno = model_nodes_seqno(p->model);
        print_nodes(p);
    }
    for (int i = 0; i < N_MODEL_KINDS; i++) {
        struct kube_kind_stats now;

        memset(&now, 0, sizeof now);
        kube_get_stats(p->kube, i, &now);
        if (memcmp(&now, &p->shown[i], sizeof now)) {
            p->shown[i] = now;
            print_stats(i, &now);
        }
    }
    print_published(p);
    if (!p->synced && model_synced(p->model)) {
        p->synced = true;
        puts("synced");
    }
}

/* Returns false at the end of the input. */
static bool
run_command(struct probe *p)
{
    char line[8192];

    if (!fgets(line, sizeof line, stdin)) {
        return false;
    }
    if (!strcmp(line, "dump\n")) {
        const struct model_service *service;
        struct model_counts n;

        HMAP_FOR_EACH (service, hmap_node, model_services(p->model)) {
            print_service(service);
        }
        print_nodes(p);
        model_count(p->model, &n);
        printf("counts services=%" PRIuSIZE " slices=%" PRIuSIZE
               " endpoints=%" PRIuSIZE " nodes=%" PRIuSIZE "\n",
               n.n[MODEL_SERVICES], n.n[MODEL_SLICES], n.n_endpoints,
               n.n[MODEL_NODES]);
    } else if (!strncmp(line, "transport ", 10)) {
        set_transport(p, line + 10);
    } else if (!strncmp(line, "emit ", 5)) {
        emit(p, line + 5);
    } else if (!strcmp(line, "events\n")) {
        print_events(p);
    } else if (!strcmp(line, "turn\n")) {
        printf("turn %lld\n", p->max_turn_us);
    }
    return true;
}

static void
loop(struct probe *p)
{
    int in_fd = dup(STDIN_FILENO); /* The poll loop takes no 0. */
    bool more = in_fd > 0;

    while (more) {
        long long int start = probearg_cpu_us();
        struct pollfd in = { .fd = in_fd, .events = POLLIN };

        kube_run(p->kube);
        print_changes(p);
        if (poll(&in, 1, 0) > 0) {
            more = run_command(p);
        }
        p->max_turn_us = MAX(p->max_turn_us, probearg_cpu_us() - start);
        kube_wait(p->kube);
        poll_fd_wait(in_fd, POLLIN);
        poll_block();
    }
    close(in_fd);
}

int
main(int argc, char *argv[])
{
    struct probe p = { .cfg = { .seed = getpid() } };
    struct err err;

    set_program_name(argv[0]);
    vlog_set_levels(NULL, VLF_SYSLOG, VLL_OFF);
    vlog_set_levels(NULL, VLF_CONSOLE, VLL_INFO);
    setvbuf(stdout, NULL, _IOLBF, 0);
    setvbuf(stdin, NULL, _IONBF, 0);
    for (int i = 1; i < argc; i++) {
        char *eq = strchr(argv[i], '=');

        if (eq) {
            *eq = '\0';
        }
        if (!eq || !set_option(&p, argv[i], eq + 1)) {
            fprintf(stderr, "what is \"%s\"?\n", argv[i]);
            return 2;
        }
    }

    p.model = model_create("node-a");
    if (kube_create(&p.cfg, p.model, &p.kube, &err)) {
        fprintf(stderr, "%s\n", err.msg);
        model_destroy(p.model);
        return 1;
    }
    loop(&p);
    kube_destroy(p.kube);
    model_destroy(p.model);
    return 0;
}
