/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOST_RULES_PRIVATE_H
#define HOST_RULES_PRIVATE_H 1

/* The packet rules, for the files that make them up. */

#include <stdint.h>

#include <openvswitch/dynamic-string.h>

#include "ctflush.h"
#include "ctstale.h"
#include "fwdchain.h"
#include "leftovers.h"
#include "memberset.h"
#include "nfnl.h"
#include "nftrun.h"
#include "ofproxyd/base/backoff.h"
#include "ofproxyd/host/rules.h"

struct rules {
    struct nfnl *nl; /* NULL: not open. */
    bool open_named; /* A failure to open it has been logged. */
    struct nftrun nftrun;

    bool wanted; /* There is something to keep. */
    bool complete;
    char *gateway;
    struct ds text; /* What makes the table, without members. */
    struct memberset sets[N_RULES_SETS];
    struct fwdchain chains[N_IP_FAMILIES];
    struct ctflush ctflush; /* Of tunnels. */
    struct ctstale ctstale; /* Of Services. */
    struct leftovers leftovers;
    long long int look_ms; /* When to look for leftovers. */
    uint16_t notrack_port;
    struct ip transport[N_IP_FAMILIES];
    struct ip gateway_ips[N_IP_FAMILIES];
    struct ip node_port_ips[N_IP_FAMILIES];

    /* The table in the kernel. */
    bool exists;       /* There is one, whoever made it. */
    bool wrote;        /* We have made one in this run. */
    bool intact;       /* It is as we wrote it. */
    bool guarded;      /* It keeps others away from 127.0.0.1. */
    bool odd;          /* Its sets are not like ours. */
    struct ds written; /* 'text' as it was written last. */
    struct ds kernel;  /* How the kernel spells it since. */

    bool check;              /* One is due at 'due_ms'. */
    bool failed;             /* The last check or write did. */
    bool chains_failed;      /* A chain could not be written. */
    long long int due_ms;    /* No check or write before. */
    long long int drift_ms;  /* First notification not dealt with yet, or
                             * LLONG_MAX. */
    long long int last_ms;   /* Of the last check. */
    long long int gap_ms;    /* Until the next one, at least. */
    long long int repair_ms; /* When others' changes were repaired last. */
    long long int retry_ms;  /* What failed is tried again, or LLONG_MAX. */
    struct backoff backoff;
    struct err err; /* What failed last. */

    uint64_t n_tables, n_changes; /* Tables and members written. */
    uint64_t n_foreign;           /* Checks that found a foreign change. */
};

/* True if the table is in the kernel as wanted, but for its members. */
bool rules_table_is_written(const struct rules *);

/* rules-members.c: members of the sets. */

/* True if rules_run_members() has something to do. */
bool rules_members_are_due(const struct rules *);

/* Removes and adds members, as far as a turn goes, in one transaction. */
void rules_run_members(struct rules *);

/* rules-conntrack.c: entries that the rules make wrong. */

void rules_init_conntrack(struct rules *);
void rules_uninit_conntrack(struct rules *);
void rules_run_conntrack(struct rules *);
void rules_wait_conntrack(const struct rules *);

/* The kernel has got the table; the sets still say what it had before. */
void rules_flush_for_table(struct rules *);

/* The kernel has got or lost a member of a set. */
void rules_flush_for_member(struct rules *, enum rules_set_id,
                            const struct member *);

#endif /* host/rules-private.h */
