/* SPDX-License-Identifier: Apache-2.0 */
/* Writes our table as nft(8) reads it. */

#include "rulestext.h"

#include <string.h>

#include <openvswitch/util.h>

/* How nft spells what differs between the families. */
static const struct {
    const char *ip;     /* Of a match. */
    const char *type;   /* Of an address in a set. */
    const char *suffix; /* Of our sets' names. */
} families[N_IP_FAMILIES] = {
    [IP_V4] = { "ip", "ipv4_addr", "ipv4" },
    [IP_V6] = { "ip6", "ipv6_addr", "ipv6" },
};

const char *
rulestext_set_name(enum rules_set_id id, enum ip_family family)
{
    static const char *const names[N_RULES_SETS][N_IP_FAMILIES] = {
        [RULES_POD_CIDRS] = { "pod_cidrs_ipv4", "pod_cidrs_ipv6" },
        [RULES_NODES] = { "nodes_ipv4", "nodes_ipv6" },
    };

    return names[id][family];
}

bool
rulestext_name_is_plain(const char *name)
{
    return *name
           && !name[strspn(name, "abcdefghijklmnopqrstuvwxyz"
                                 "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                 "0123456789._-@+:")];
}

static void
put_sets(struct ds *ds)
{
    for (enum rules_set_id id = 0; id < N_RULES_SETS; id++) {
        for (enum ip_family f = 0; f < N_IP_FAMILIES; f++) {
            ds_put_format(ds, "  set %s {\n    type %s;%s\n  }\n",
                          rulestext_set_name(id, f), families[f].type,
                          id == RULES_POD_CIDRS ? " flags interval;" : "");
        }
    }
}

static void
open_chain(const char *name, const char *type, const char *hook,
           const char *priority, struct ds *ds)
{
    ds_put_format(ds,
                  "  chain %s {\n"
                  "    type %s hook %s priority %s; policy accept;\n",
                  name, type, hook, priority);
}

/* One direction of the tunnel; the port comes first, since it is what most
 * packets don't have. */
static void
put_notrack(const struct rules_want *w, const char *theirs, const char *ours,
            struct ds *ds)
{
    for (enum ip_family f = 0; f < N_IP_FAMILIES; f++) {
        if (!ip_is_none(&w->transport[f])) {
            char s[IP_STRLEN];

            ds_put_format(ds, "    udp dport %u %s %s @%s %s %s %s notrack\n",
                          w->notrack_port, families[f].ip, theirs,
                          rulestext_set_name(RULES_NODES, f), families[f].ip,
                          ours, ip_to_string(&w->transport[f], s));
        }
    }
}

static void
put_raw_chains(const struct rules_want *w, struct ds *ds)
{
    open_chain("prerouting_raw", "filter", "prerouting", "raw", ds);
    put_notrack(w, "saddr", "daddr", ds);
    ds_put_cstr(ds, "  }\n");
    open_chain("output_raw", "filter", "output", "raw", ds);
    put_notrack(w, "daddr", "saddr", ds);
    ds_put_cstr(ds, "  }\n");
}

/* What the bridge and the host itself send with a source that answers would
 * not come back to. */
static void
put_own_masquerade(const struct rules_want *w, enum ip_family f,
                   const char *action, struct ds *ds)
{
    const char *ip = families[f].ip;
    char s[IP_STRLEN];

    if (!ip_is_none(&w->virtual_ips[f])) {
        ds_put_format(ds, "    %s saddr %s counter %s\n", ip,
                      ip_to_string(&w->virtual_ips[f], s), action);
    }
    if (!ip_is_none(&w->gateway_ips[f])) {
        ds_put_format(ds, "    oifname \"%s\" %s saddr != %s ", w->gateway, ip,
                      ip_to_string(&w->gateway_ips[f], s));
        if (f == IP_V6) {
            ds_put_cstr(ds, "ip6 saddr != fe80::/10 ");
        }
        ds_put_format(ds, "fib saddr type local counter %s\n", action);
    }
}

static void
put_nat_chain(const struct rules_want *w, struct ds *ds)
{
    const char *action =
        w->random_ports ? "masquerade fully-random" : "masquerade";

    open_chain("postrouting_nat", "nat", "postrouting", "srcnat", ds);
    for (enum ip_family f = 0; f < N_IP_FAMILIES; f++) {
        put_own_masquerade(w, f, action, ds);
    }
    for (size_t i = 0; w->masquerade && i < w->n_pod_cidrs; i++) {
        struct cidr cidr = cidr_network(&w->pod_cidrs[i]);
        enum ip_family f = ip_family(&cidr.ip);
        char s[CIDR_STRLEN];

        ds_put_format(ds,
                      "    %s saddr %s %s daddr != @%s oifname != \"%s\" "
                      "counter %s\n",
                      families[f].ip, cidr_to_string(&cidr, s), families[f].ip,
                      rulestext_set_name(RULES_POD_CIDRS, f), w->gateway,
                      action);
    }
    ds_put_cstr(ds, "  }\n");
}

void
rulestext_table(const struct rules_want *w, struct ds *ds)
{
    /* To add it first makes the deletion one that can't fail. */
    ds_put_cstr(ds, "add table inet " RULES_TABLE "\n"
                    "delete table inet " RULES_TABLE "\n"
                    "table inet " RULES_TABLE " {\n");
    put_sets(ds);
    if (w->notrack_port) {
        put_raw_chains(w, ds);
    }
    put_nat_chain(w, ds);
    ds_put_cstr(ds, "}\n");
}

static void
put_members(const struct memberset *ms, enum rules_set_id id,
            enum ip_family family, struct ds *ds)
{
    const char *separator = "";
    struct member *m;

    HMAP_FOR_EACH (m, node, &ms->members) {
        if (member_is_due(m) && ip_family(&m->cidr.ip) == family) {
            char s[CIDR_STRLEN];

            (id == RULES_NODES ? ip_to_string(&m->cidr.ip, s)
                               : cidr_to_string(&m->cidr, s));
            if (!*separator) {
                ds_put_format(ds, "add element inet " RULES_TABLE " %s { ",
                              rulestext_set_name(id, family));
            }
            ds_put_format(ds, "%s%s", separator, s);
            separator = ", ";
        }
    }
    ds_put_cstr(ds, *separator ? " }\n" : "");
}

void
rulestext_members(const struct memberset *sets, struct ds *ds)
{
    for (enum rules_set_id id = 0; id < N_RULES_SETS; id++) {
        for (enum ip_family f = 0; f < N_IP_FAMILIES; f++) {
            put_members(&sets[id], id, f, ds);
        }
    }
}
