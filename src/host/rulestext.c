/* SPDX-License-Identifier: Apache-2.0 */
/* Writes our table as nft(8) reads it. */

#include "rulestext.h"

#include <string.h>

#include <openvswitch/util.h>
#include <packets.h>
#include <util.h>

#include "ofproxyd/host/host.h"

/* How nft spells what differs between the families. */
static const struct {
    const char *ip;     /* Of a match. */
    const char *type;   /* Of an address in a set. */
    const char *suffix; /* Of our sets' names. */
} families[N_IP_FAMILIES] = {
    [IP_V4] = { "ip", "ipv4_addr", "ipv4" },
    [IP_V6] = { "ip6", "ipv6_addr", "ipv6" },
};

static const struct {
    const char *names[N_IP_FAMILIES];
    enum rulestext_kind kind;
} sets_of_ours[N_RULES_SETS] = {
    [RULES_POD_CIDRS] = { { "pod_cidrs_ipv4", "pod_cidrs_ipv6" },
                          RULESTEXT_NETWORKS },
    [RULES_NODES] = { { "nodes_ipv4", "nodes_ipv6" }, RULESTEXT_ADDRESSES },
    [RULES_NODE_PORT_ADDRS] = { { "node_port_addrs_ipv4",
                                  "node_port_addrs_ipv6" },
                                RULESTEXT_ADDRESSES },
    [RULES_NODE_PORTS] = { { "node_ports_ipv4", "node_ports_ipv6" },
                           RULESTEXT_PORTS },
    [RULES_EXTERNAL] = { { "external_ipv4", "external_ipv6" },
                         RULESTEXT_ADDRESS_PORTS },
};

const char *
rulestext_set_name(enum rules_set_id id, enum ip_family family)
{
    return sets_of_ours[id].names[family];
}

enum rulestext_kind
rulestext_set_kind(enum rules_set_id id)
{
    return sets_of_ours[id].kind;
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
put_set_type(enum rulestext_kind kind, const char *address, struct ds *ds)
{
    switch (kind) {
    case RULESTEXT_NETWORKS:
        ds_put_format(ds, "%s; flags interval", address);
        break;
    case RULESTEXT_ADDRESSES: ds_put_cstr(ds, address); break;
    case RULESTEXT_PORTS: ds_put_cstr(ds, "inet_proto . inet_service"); break;
    case RULESTEXT_ADDRESS_PORTS:
        ds_put_format(ds, "%s . inet_proto . inet_service", address);
        break;
    }
}

static void
put_sets(struct ds *ds)
{
    for (enum rules_set_id id = 0; id < N_RULES_SETS; id++) {
        for (enum ip_family f = 0; f < N_IP_FAMILIES; f++) {
            ds_put_format(ds, "  set %s {\n    type ",
                          rulestext_set_name(id, f));
            put_set_type(rulestext_set_kind(id), families[f].type, ds);
            ds_put_cstr(ds, ";\n  }\n");
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

/* NodePorts and external addresses are led into the bridge. */
static bool
leads(const struct rules_want *w)
{
    return !ip_is_none(&w->node_port_ips[IP_V4])
           || !ip_is_none(&w->node_port_ips[IP_V6]);
}

/* What the bridge gives back with the client's address. */
static void
put_kept(const struct rules_want *w, struct ds *ds)
{
    ds_put_format(ds, "    iifname \"%s\" ether saddr " ETH_ADDR_FMT " ",
                  w->gateway, ETH_ADDR_ARGS(w->kept_mac));
}

static void
put_raw_chains(const struct rules_want *w, struct ds *ds)
{
    if (!w->notrack_port && !leads(w)) {
        return;
    }
    open_chain("prerouting_raw", "filter", "prerouting", "raw", ds);
    if (leads(w)) {
        /* The kernel's own guard of 127.0.0.0/8 is off on this link. */
        ds_put_format(ds,
                      "    iifname \"%s\" ip daddr 127.0.0.0/8 counter drop\n"
                      "    iifname \"%s\" ip saddr 127.0.0.0/8 counter "
                      "drop\n",
                      w->gateway, w->gateway);
        /* It may have the same client and the same address as the connection
         * that it belongs to, or as another one; answers are in no zone. */
        put_kept(w, ds);
        ds_put_format(ds, "ct original zone set %u\n", HOST_KEPT_ZONE);
    }
    if (w->notrack_port) {
        put_notrack(w, "saddr", "daddr", ds);
        ds_put_cstr(ds, "  }\n");
        open_chain("output_raw", "filter", "output", "raw", ds);
        put_notrack(w, "daddr", "saddr", ds);
    }
    ds_put_cstr(ds, "  }\n");
}

/* Services: what is marked is routed to the gateway by a rule (markway.h).
 * What comes from there has been there, and neither it nor the mark must go
 * that way again; the switch and its tunnels would keep the mark. */

/* 'packet' and 'connection': which of them is marked. */
static void
put_external(enum ip_family f, const char *condition, bool packet,
             bool connection, struct ds *ds)
{
    ds_put_format(ds, "    %s%s daddr . meta l4proto . th dport @%s counter",
                  condition, families[f].ip,
                  rulestext_set_name(RULES_EXTERNAL, f));
    if (packet) {
        ds_put_format(ds, " meta mark set meta mark | 0x%x", HOST_FWMARK);
    }
    if (connection) {
        ds_put_format(ds, " ct mark set ct mark | 0x%x", HOST_FWMARK);
    }
    ds_put_char(ds, '\n');
}

/* A TCP connection stays where it began, whatever becomes of the address: the
 * load balancer's with the balancer, ours in the switch; so its first packet
 * decides.  Of the others entries are removed instead (ctstale.h).  ICMP
 * errors, as about packets that are too big, go where their connection
 * does.  Answers are led in by us only where the bridge has given requests
 * back; so are errors about these. */
static void
put_marking(const struct rules_want *w, struct ds *ds)
{
    for (enum ip_family f = 0; f < N_IP_FAMILIES; f++) {
        if (!ip_is_none(&w->node_port_ips[f])) {
            put_external(f, "meta l4proto tcp ct state new ", false, true, ds);
            put_external(f, "meta l4proto tcp ct state untracked ", true,
                         false, ds);
            put_external(f, "meta l4proto != tcp ", true, true, ds);
        }
    }
    ds_put_format(ds,
                  "    meta l4proto != udp meta l4proto != sctp "
                  "ct direction original ct mark & 0x%x != 0 "
                  "meta mark set meta mark | 0x%x\n"
                  "    ct direction reply ct mark & 0x%x != 0 "
                  "meta mark set meta mark | 0x%x\n  }\n",
                  HOST_FWMARK, HOST_FWMARK, HOST_KEPT_CTMARK, HOST_FWMARK);
}

static void
put_mark_chains(const struct rules_want *w, struct ds *ds)
{
    open_chain("prerouting_mark", "filter", "prerouting", "mangle", ds);
    put_kept(w, ds);
    ds_put_format(ds, "ct state new counter ct mark set ct mark | 0x%x\n",
                  HOST_KEPT_CTMARK);
    ds_put_format(ds, "    iifname \"%s\" accept\n", w->gateway);
    put_marking(w, ds);
    open_chain("output_mark", "route", "output", "mangle", ds);
    put_marking(w, ds);
    open_chain("postrouting_mark", "filter", "postrouting", "mangle", ds);
    ds_put_format(ds,
                  "    oifname \"%s\" meta mark & 0x%x != 0 "
                  "meta mark set meta mark & 0x%x\n  }\n",
                  w->gateway, HOST_FWMARK, ~HOST_FWMARK);
}

/* The address comes first: most packets are for others. */
static void
put_redirection(const struct rules_want *w, const char *not_localhost,
                struct ds *ds)
{
    for (enum ip_family f = 0; f < N_IP_FAMILIES; f++) {
        const char *ip = families[f].ip;
        char s[IP_STRLEN];

        if (ip_is_none(&w->node_port_ips[f])) {
            continue;
        }
        ip_to_string(&w->node_port_ips[f], s);
        ds_put_format(ds,
                      "    %s daddr . meta l4proto . th dport @%s "
                      "fib daddr type local counter dnat %s to %s\n"
                      "    %s%s daddr @%s meta l4proto . th dport @%s "
                      "counter dnat %s to %s\n",
                      ip, rulestext_set_name(RULES_EXTERNAL, f), ip, s,
                      f == IP_V4 ? not_localhost : "", ip,
                      rulestext_set_name(RULES_NODE_PORT_ADDRS, f),
                      rulestext_set_name(RULES_NODE_PORTS, f), ip, s);
    }
    ds_put_cstr(ds, "  }\n");
}

/* One before kube-proxy, which a translation of ours then leaves alone. */
static void
put_redirection_chains(const struct rules_want *w, struct ds *ds)
{
    open_chain("prerouting_nat", "nat", "prerouting", "dstnat - 1", ds);
    ds_put_format(ds, "    iifname \"%s\" accept\n", w->gateway);
    put_redirection(w, "ip daddr != 127.0.0.0/8 ", ds);
    open_chain("output_nat", "nat", "output", "-101", ds);
    put_redirection(w, "", ds);
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
    put_raw_chains(w, ds);
    if (leads(w)) {
        put_mark_chains(w, ds);
        put_redirection_chains(w, ds);
    }
    put_nat_chain(w, ds);
    ds_put_cstr(ds, "}\n");
}

static void
put_member(const struct member *m, enum rulestext_kind kind, struct ds *ds)
{
    char s[CIDR_STRLEN];

    switch (kind) {
    case RULESTEXT_NETWORKS:
        ds_put_cstr(ds, cidr_to_string(&m->cidr, s));
        break;
    case RULESTEXT_ADDRESSES:
        ds_put_cstr(ds, ip_to_string(&m->cidr.ip, s));
        break;
    case RULESTEXT_PORTS:
        ds_put_format(ds, "%u . %u", m->proto, m->port);
        break;
    case RULESTEXT_ADDRESS_PORTS:
        ds_put_format(ds, "%s . %u . %u", ip_to_string(&m->cidr.ip, s),
                      m->proto, m->port);
        break;
    }
}

static void
put_members(const struct memberset *ms, enum rules_set_id id,
            enum ip_family family, struct ds *ds)
{
    const char *separator = "";
    struct member *m;

    HMAP_FOR_EACH (m, node, &ms->members) {
        if (member_is_due(m) && ip_family(&m->cidr.ip) == family) {
            if (!*separator) {
                ds_put_format(ds, "add element inet " RULES_TABLE " %s { ",
                              rulestext_set_name(id, family));
            }
            ds_put_cstr(ds, separator);
            put_member(m, rulestext_set_kind(id), ds);
            separator = ", ";
        }
    }
    ds_put_cstr(ds, *separator ? " }\n" : "");
}

bool
rulestext_set_is_of_ports(enum rules_set_id id)
{
    switch (rulestext_set_kind(id)) {
    case RULESTEXT_NETWORKS:
    case RULESTEXT_ADDRESSES: return false;
    case RULESTEXT_PORTS:
    case RULESTEXT_ADDRESS_PORTS: return true;
    }
    OVS_NOT_REACHED();
}

void
rulestext_members(const struct memberset *sets, bool ports, struct ds *ds)
{
    for (enum rules_set_id id = 0; id < N_RULES_SETS; id++) {
        if (!ports && rulestext_set_is_of_ports(id)) {
            continue;
        }
        for (enum ip_family f = 0; f < N_IP_FAMILIES; f++) {
            put_members(&sets[id], id, f, ds);
        }
    }
}
