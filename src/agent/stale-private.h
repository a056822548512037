/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_AGENT_STALE_PRIVATE_H
#define OFPROXYD_AGENT_STALE_PRIVATE_H 1

/* What the files of the stale connections share:
 *
 *    stale.c         Service ports as they are, and the jobs that changes make
 *    stale-adopt.c   what a predecessor has left on the switch
 *    stale-file.c    and in a file
 *    stale-pass.c    jobs into requests, passes, their times
 *    stale-run.c     over the connection */

#include <openvswitch/hmap.h>
#include <openvswitch/list.h>

#include "addrset.h"
#include "stale.h"

/* An address of NodePorts has no IP address here. */

/* A Service port. */
struct port {
    struct hmap_node node; /* In struct stale's 'ports', by 'owner'. */
    uint64_t owner;
    enum ip_family family;
    enum proto proto;
    struct addrset addrs;
    struct claim *claims;  /* One for each of 'addrs'. */
    struct addrset alive;  /* Endpoints. */
    struct addrset used;   /* Those of them that connections may have. */
    struct addrset nested; /* Cluster IPs that are or were endpoints: as long
                            * as the port lives, connections to its addresses
                            * may have what is behind them. */
};

/* A port has an address; several may have the same. */
struct claim {
    struct hmap_node node; /* In struct stale's 'claims'. */
    struct port *port;
    const struct addr *addr;
};

/* Where a pass is. */
struct cursor {
    size_t address;    /* The next in 'addrs'; */
    size_t n_alive;    /* how many before it have a living endpoint. */
    size_t ep;         /* The next in 'eps', */
    size_t ep_address; /* at the next in 'addrs'. */
    size_t fresh;      /* The next in 'fresh', which come twice. */
    size_t source;     /* The next in 'sources', */
    size_t peer;       /* in 'peers'. */
    size_t n_later;    /* Left to jobs that begin later. */
};

/* Something to be flushed: connections from any of 'addrs' to any of 'eps'
 * that is not alive there any more, and untranslated ones to 'fresh'.  That
 * the pairs are more than ever were does no harm: no others match.  And, of
 * all protocols, those that were given any of 'sources'; and those that any of
 * 'peers' opened. */
struct job {
    struct hmap_node node; /* While waiting: in 'waiting', by 'owner'. */
    struct ovs_list list;  /* Then: in 'active'. */
    uint64_t owner;
    enum ip_family family;
    enum proto proto;
    struct addrset addrs, eps, fresh, sources, peers;

    /* Passes. */
    struct cursor cursor;
    size_t n_requests;   /* In this pass. */
    unsigned int n_done; /* Passes. */
    long long int first_ms, next_ms;
    long long int began_ms;    /* This pass; 0 before the first. */
    long long int costs_us[2]; /* A request's, at most, in the last pass and
                                * in this one. */
    uint64_t measured_from;    /* 'n_measured' when the last pass ended; */
    uint64_t flat_from;        /* and when the passes began that have had no
                             * effect on the cost so far, or UINT64_MAX. */
};

struct stale {
    const struct flowtab *flowtab;
    struct hmap ports, claims;
    size_t n_nesting;        /* Ports that nest, or did. */
    struct addrset node_ips; /* Port 0.  With the virtual ones. */
    struct ip source;
    bool took_over; /* Became the gateway, and was not yet asked. */
    bool adopted;

    /* The switch had flows of Service ports when the first was seen: then
     * packets may have gone by.  -1: not known yet. */
    int was_warm;

    struct hmap waiting;
    bool dirty;                   /* New in 'waiting'. */
    struct flowtab_stats checked; /* When 'waiting' was last looked through; */
    bool checked_known;           /* and what the switch has was known. */
    struct ovs_list active;
    size_t n_active;

    char *path;   /* What is due is in a file, or NULL, */
    bool unsaved; /* unless it has changed. */

    size_t n_taken; /* Requests that are out. */
    long long int not_before_ms;
    long long int cost_us; /* Of one request, about. */
    uint64_t n_measured;   /* How often. */
    long long int sent_us; /* When. */
    uint64_t n_requests;
};

/* stale.c */
struct port *stale_find_port(const struct stale *, uint64_t owner);
/* Returns the job for a port like 'like' that has not begun, or NULL if there
 * are too many. */
struct job *stale_get_job(struct stale *, const struct port *like);
/* Connections from the addresses of 'was' to the endpoints that it used are
 * stale, as far as those are not alive. */
void stale_add_job(struct stale *, const struct port *was);

/* Connections from the addresses of 'was' to the endpoints that it used are,
 * as far as those are alive, now those of the ports that have the
 * addresses. */
void stale_inherit(struct stale *, const struct port *was);

/* Puts in place of each NodePort address in 'set' itself and that port of each
 * address of this node; without those themselves if not 'keep'. */
void stale_expand(const struct stale *, struct addrset *set,
                  enum ip_family family, bool keep);
/* NodePorts are served on 'ips' no longer, or from now on. */
void stale_change_node_ips(struct stale *, const struct addrset *ips,
                           bool gone);
/* Connections that were given 'source' are stale. */
void stale_note_source(struct stale *, const struct ip *source);
/* If 'have' gives connections to another cluster a source that is not wanted
 * now, returns true and sets '*source'. */
bool stale_read_source(const struct stale *, const struct fitem *have,
                       struct ip *source);
void stale_job_destroy(struct job *);
/* The flow at 'addr' that the switch has, or NULL. */
const struct fitem *stale_find_flow(const struct stale *,
                                    const struct port *like,
                                    const struct addr *addr);
bool stale_is_node_ip(const struct stale *, const struct ip *);
uint32_t stale_hash_claim(enum ip_family, enum proto, const struct addr *);

/* stale-file.c */
/* Adds what was due when a predecessor ended. */
void stale_load(struct stale *);

/* True if stale_save() has something to do. */
bool stale_is_unsaved(const struct stale *);

/* stale-pass.c */
/* Would 'job' ask for anything? */
bool stale_job_is_void(const struct stale *, const struct job *);

#endif /* src/agent/stale-private.h */
