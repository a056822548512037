/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_AGENT_PRIVATE_H
#define OFPROXYD_AGENT_PRIVATE_H 1

/* The agent's parts, for the files that make it up. */

#include "hchecks.h"
#include "latency.h"
#include "learned.h"
#include "local.h"
#include "mc.h"
#include "mccount.h"
#include "metrics.h"
#include "net.h"
#include "ofproxyd/agent/agent.h"
#include "ofproxyd/flow/flowtab.h"
#include "ofproxyd/host/host.h"
#include "ofproxyd/host/nodeips.h"
#include "ofproxyd/host/rules.h"
#include "ofproxyd/kube/kube.h"
#include "ofproxyd/model/model.h"
#include "ofproxyd/switch/ofconn.h"
#include "ofproxyd/switch/ovsdb.h"
#include "pacer.h"
#include "services.h"
#include "stale.h"
#include "svccidrs.h"
#include "takeover.h"
#include "ways.h"

struct agent {
    const struct cfg *cfg;
    struct model *model;
    struct kube *kube;
    struct ovsdb *ovsdb;
    struct flowtab *flowtab;
    struct ofconn *ofconn;
    struct host *host;
    struct rules *rules;
    struct nodeips *nodeips;
    struct services *services;
    struct svccidrs *svccidrs;
    struct mc *mc;
    struct mccount *mccount;
    struct local *local;
    struct net *net;
    struct ways *ways;
    struct takeover *takeover;
    struct learned *learned;
    struct hchecks *hchecks;
    struct stale *stale;

    struct pacer pacer;
    bool bridge_ok;
    bool bridge_seen;       /* The bridge has existed. */
    bool local_changed;     /* The node or a pod wants something else. */
    uint64_t ips_seqno;     /* Of the node's addresses, as Services know. */
    bool complete;          /* All was listed and rendered once. */
    long long int retry_ms; /* Of the next set-aside object, or LLONG_MAX. */

    /* Since when not all that was read is rendered, or LLONG_MAX. */
    long long int undrained_ms;

    struct latency latency;
    struct metrics metrics;

    /* health.c */
    struct health health;
    uint64_t n_done;         /* Changes confirmed, as of the last turn. */
    uint64_t n_refused_seen; /* For what 'n_refused' was counted. */
    size_t n_set_aside_seen;
    size_t n_refused[N_IP_FAMILIES]; /* Set-aside owners. */

    size_t n_kept_peak; /* See trim_memory() in agent.c. */
    uint64_t n_rounds, n_rendered, n_rejects;
    uint64_t n_refused_logged;
};

/* health.c: follows what waits; takes note of a Service. */
void agent_run_health(struct agent *);
void agent_observe_service(const struct model_service *, bool served,
                           void *agent);

/* agent.c: where the objects of multicluster are, or NULL without it. */
const char *agent_multicluster_ns(const struct cfg *);

/* mcview.c: appends the role between clusters and what is wrong; nothing
 * without multicluster. */
void mcview_format(const struct agent *, struct ds *);

/* report.c: true if bridge and host are as they should be. */
bool agent_in_sync(const struct agent *);

/* report.c: appends the name of whoever wants something of the bridge. */
void report_format_owner(const struct agent *, uint64_t owner, struct ds *);

/* report.c: says once of each object that the switch refused. */
void report_set_aside(struct agent *);

#endif /* src/agent/agent-private.h */
