/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_KUBE_KUBE_H
#define OFPROXYD_KUBE_KUBE_H 1

/* The API client: keeps a model equal to the API server's Services,
 * EndpointSlices, Nodes, ServiceCIDRs and objects of multicluster, and
 * publishes where this node is reached by others.
 *
 * One list-then-watch machine for each kind, on libcurl's multi interface
 * driven from the poll loop.  Failures of any kind are waited out, each kind
 * on its own, for ever; the model meanwhile stays as it was.  Logs what an
 * operator can act on (which resource, what the server said, when it will be
 * tried again), each once and then at most once a minute.  Never logs a
 * credential. */

#include <stdbool.h>
#include <stdint.h>

#include <openvswitch/dynamic-string.h>

#include "ofproxyd/base/err.h"
#include "ofproxyd/model/model.h"

/* How to reach and convince the API server.  All strings are copied; NULL or
 * "" means absent.  Files are read again whenever they may have changed. */
struct kube_cfg {
    const char *server; /* "https://host:port[/path]" */
    const char *ca_file;
    const char *ca_data; /* PEM text; wins over the file. */
    const char *client_cert_file, *client_key_file;
    const char *client_cert_data, *client_key_data; /* PEM text. */
    const char *token;
    const char *token_file; /* Wins over 'token'; read per request. */
    const char *tls_server_name;
    bool insecure_skip_tls_verify;
    const char *service_proxy_name; /* Label value to select Services by;
                                     * absent: those without the label. */
    const char *multicluster_ns;    /* Where the objects of multicluster are;
                                  * absent: they are not followed. */
    uint32_t seed;                  /* Of the jitter. */
    /* For tests; 0 means the default. */
    int page_limit;      /* Objects a page; default 500. */
    int watch_timeout_s; /* Lower bound of the random timeoutSeconds, which is
                          * less than twice as much; default 300. */
    int silence_ms; /* A watch without a byte for so long is asked for again;
                     * default 150000, as bookmarks come once a minute. */
    int backoff_min_ms, backoff_max_ms; /* Default 800 and 30000. */
    int event_repeat_ms; /* Between two requests about one Event; default
                          * 360000. */
    int event_every_ms;  /* Between any two, when a burst of 25 is used up;
                          * default 10000, up to 3600000. */
};

struct kube;

/* Checks 'cfg'.  Returns 0 and sets '*ret', or EINVAL with 'err'.  'model'
 * must live longer. */
int kube_create(const struct kube_cfg *cfg, struct model *model,
                struct kube **ret, struct err *err) OVS_WARN_UNUSED_RESULT;
void kube_destroy(struct kube *); /* NULL is allowed. */

/* Does what can be done without blocking, a bounded amount of it. */
void kube_run(struct kube *);
/* Arranges for poll_block() to wake up when kube_run() has work. */
void kube_wait(struct kube *);

struct kube_kind_stats {
    const char *state;            /* "LIST", "WATCH" or "BACKOFF"; NULL for
                                   * a kind that isn't followed. */
    long long int state_since_ms; /* On time_msec()'s clock. */
    uint64_t n_lists;             /* Lists read to their end. */
    uint64_t n_watches;           /* Watches asked for. */
    uint64_t n_events;            /* Events processed, without bookmarks. */
    uint64_t n_failures;          /* Requests that went wrong. */
    uint64_t n_bad_objects;       /* Objects that were left out. */
    uint64_t list_bytes;          /* Of the last complete list... */
    uint64_t list_decode_us;      /* ...and the time spent decoding and storing
                              * it. */
    uint64_t list_objects;
    char last_error[256]; /* "" if the last request went well. */
};
/* Sets '*ret' to the present state of one kind's machine. */
void kube_get_stats(const struct kube *, enum model_kind,
                    struct kube_kind_stats *ret);

/* Makes the annotation node.antrea.io/transport-addresses of the own Node,
 * model_node_name(), say 'transport' ("::" where there is none); with none at
 * all the Node shall not have it.  From then on it is written, by a merge
 * patch that touches nothing else, whenever the Node in the model says
 * something else: not before Nodes have been listed, not while there is no
 * such Node, and with a growing pause after each attempt.  A refusal is
 * logged once, and tried again every few minutes.
 *
 * Without this call nothing is ever written.  While an address is looked for,
 * and so isn't known yet, don't call it: other nodes go by what was said
 * last. */
void kube_set_transport(struct kube *,
                        const struct ip transport[N_IP_FAMILIES]);

struct kube_publish_stats {
    uint64_t n_requests;  /* Patches sent. */
    uint64_t n_failures;  /* Those that went wrong. */
    char last_error[256]; /* "" if the last one went well. */
};
/* Sets '*ret' to how it went. */
void kube_get_publish_stats(const struct kube *,
                            struct kube_publish_stats *ret);

#endif /* ofproxyd/kube/kube.h */
