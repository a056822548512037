/* SPDX-License-Identifier: Apache-2.0 */

/* What ofproxyctl asks in order to trace a packet and to read counters: the
 * first packet of a connection as it comes to the bridge, and what numbers in
 * the switch stand for. */

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>

#include <packets.h>
#include <util.h>

#include "agent-private.h"

/* Source port of the packets that are traced; any will do. */
#define CLIENT_PORT 40000

struct target {
    struct ip ip;
    uint16_t port;
    enum proto proto;
};

/* A sender, and its packet when it comes to the bridge. */
struct sender {
    struct ds name;
    uint16_t in_port;
    struct eth_addr src_mac, dst_mac;
    struct ip src;
    bool on_host;         /* The host sees the packet first. */
    struct ip tunnel_src; /* It comes by the tunnel, from there; or "::". */
};

/* Arguments. */

static int
parse_port(const char *s, uint16_t *ret)
{
    char *end;
    unsigned long int n = strtoul(s, &end, 10);

    if (!isdigit((unsigned char) *s) || *end || !n || n > 65535) {
        return EINVAL;
    }
    *ret = (uint16_t) n;
    return 0;
}

/* Cuts 'text' up. */
static int
parse_target(char *text, struct target *ret)
{
    char *slash = strrchr(text, '/');
    char *colon, *address = text;

    ret->proto = PROTO_TCP;
    if (slash) {
        *slash = '\0';
        for (char *p = slash + 1; *p; p++) {
            *p = (char) toupper((unsigned char) *p);
        }
        if (proto_parse(slash + 1, &ret->proto)) {
            return EINVAL;
        }
    }
    colon = strrchr(text, ':');
    if (!colon || parse_port(colon + 1, &ret->port)) {
        return EINVAL;
    }
    *colon = '\0';
    if (*address == '[' && colon[-1] == ']') {
        colon[-1] = '\0';
        address++;
    }
    return ip_from_string(address, &ret->ip);
}

/* Senders. */

static const struct ovsdb_pod *
find_pod(const struct agent *a, const char *name)
{
    const struct ovsdb_state *db = ovsdb_state(a->ovsdb);
    size_t n = strcspn(name, "/");

    for (size_t i = 0; i < db->n_pods; i++) {
        const struct ovsdb_pod *pod = &db->pods[i];

        if (name[n] && strlen(pod->ns) == n && !strncmp(pod->ns, name, n)
            && !strcmp(pod->name, name + n + 1)) {
            return pod;
        }
    }
    return NULL;
}

static const struct ovsdb_pod *
find_pod_by_ip(const struct agent *a, const struct ip *ip)
{
    const struct ovsdb_state *db = ovsdb_state(a->ovsdb);

    for (size_t i = 0; i < db->n_pods; i++) {
        for (size_t j = 0; j < db->pods[i].n_ips; j++) {
            if (ip_equals(&db->pods[i].ips[j], ip)) {
                return &db->pods[i];
            }
        }
    }
    return NULL;
}

/* The gateway's MAC address for pods, for the host that of whoever answers
 * for the address. */
static struct eth_addr
next_hop(const struct agent *a, const struct sender *sender,
         const struct target *target)
{
    const struct ovsdb_pod *pod = find_pod_by_ip(a, &target->ip);

    return pod               ? pod->mac
           : sender->on_host ? pipe_virtual_mac()
                             : ovsdb_state(a->ovsdb)->gateway_mac;
}

static int
send_from_pod(const struct ovsdb_pod *pod, enum ip_family family,
              struct sender *ret, struct err *err)
{
    char ip[IP_STRLEN];

    for (size_t i = 0; i < pod->n_ips; i++) {
        if (ip_family(&pod->ips[i]) == family) {
            ret->src = pod->ips[i];
            ret->in_port = pod->ofport;
            ret->src_mac = pod->mac;
            ds_put_format(&ret->name, "pod %s/%s, %s, on port %u", pod->ns,
                          pod->name, ip_to_string(&ret->src, ip),
                          ret->in_port);
            return 0;
        }
    }
    err_set(err, "pod %.64s/%.253s has no %s address", pod->ns, pod->name,
            ip_family_name(family));
    return ENOENT;
}

/* Both the host and who is outside come in by the gateway. */
static int
send_by_gateway(const struct agent *a, const struct ip *src, const char *name,
                struct sender *ret, struct err *err)
{
    const struct ovsdb_state *db = ovsdb_state(a->ovsdb);
    char ip[IP_STRLEN];

    if (!db->gateway_ofport || ip_is_none(src)) {
        err_set(err, "the gateway has no port, or no address of the family, "
                     "yet");
        return ENOENT;
    }
    ret->on_host = true;
    ret->src = *src;
    ret->in_port = db->gateway_ofport;
    ret->src_mac = db->gateway_mac;
    ds_put_format(&ret->name, "%s, %s, by the gateway port %u", name,
                  ip_to_string(src, ip), ret->in_port);
    return 0;
}

static int
find_sender(const struct agent *a, const char *client, enum ip_family family,
            struct sender *ret, struct err *err)
{
    const struct pipe_node *node = local_node(a->local);
    const struct ovsdb_pod *pod;
    struct ip ip;

    if (!strcmp(client, "host")) {
        return send_by_gateway(a, &node->gateway_ips[family], "this node", ret,
                               err);
    }
    if (!ip_from_string(client, &ip)) {
        if (ip_family(&ip) != family) {
            err_set(err, "client and target are of different families");
            return EINVAL;
        }
        pod = find_pod_by_ip(a, &ip);
        return pod ? send_from_pod(pod, family, ret, err)
                   : send_by_gateway(a, &ip, "outside", ret, err);
    }
    pod = find_pod(a, client);
    if (!pod) {
        err_set(err,
                "\"%.320s\" is neither NAMESPACE/POD of a pod of this node, "
                "nor an address, nor \"host\"",
                client);
        return ENOENT;
    }
    return send_from_pod(pod, family, ret, err);
}

/* Tunnels. */

/* How 'ip' names who is at the other end of a tunnel. */
struct end {
    const char *node;    /* Name of a Node of this cluster, or NULL. */
    const char *cluster; /* ID of another cluster of which it is a gateway, or
                          * NULL. */
    const struct ip *ip;
};

static void
find_gateway(const struct mc_peer *peer, void *end_)
{
    struct end *end = end_;

    for (size_t i = 0; i < peer->n_gateways && !end->cluster; i++) {
        if (ip_equals(&peer->gateways[i], end->ip)) {
            end->cluster = peer->cluster_id;
        }
    }
}

static struct end
find_end(const struct agent *a, const struct ip *ip)
{
    struct end end = { .ip = ip };
    struct mc_state mc;

    end.node = net_find_by_address(a->net, ip);
    if (mc_get_state(a->mc, &mc)) {
        if (!end.node && mc.gateway && ip_equals(&mc.internal_ip, ip)) {
            end.node = mc.gateway;
        }
        mc_for_each(a->mc, find_gateway, &end);
    }
    return end;
}

static void
put_end(const struct end *end, struct ds *ds)
{
    char ip[IP_STRLEN];

    ds_put_cstr(ds, ip_to_string(end->ip, ip));
    if (end->cluster) {
        ds_put_format(ds, ", a gateway of cluster %s", end->cluster);
    } else if (end->node) {
        ds_put_format(ds, ", Node %s", end->node);
    } else {
        ds_put_cstr(ds, ", no node or gateway that is known");
    }
}

/* Nodes of this cluster send what is for another one as that one would. */
static bool
is_between_clusters(const struct agent *a, const struct end *from,
                    const struct target *target)
{
    return !from->node || mc_find_network(a->mc, &target->ip);
}

static int
find_tunnel_sender(const struct agent *a, const char *const client[2],
                   const struct target *target, struct sender *ret,
                   struct err *err)
{
    const struct ovsdb_state *db = ovsdb_state(a->ovsdb);
    struct end from = { .ip = &ret->tunnel_src };

    if (ip_from_string(client[0], &ret->src)
        || ip_from_string(client[1], &ret->tunnel_src)
        || ip_family(&ret->src) != ip_family(&target->ip)) {
        err_set(err, "what comes by the tunnel has an address, of the "
                     "target's family, and another node's or gateway's");
        return EINVAL;
    } else if (!db->tunnel_ofport) {
        err_set(err, "the bridge has no tunnel port");
        return ENOENT;
    }
    from = find_end(a, &ret->tunnel_src);
    ret->in_port = db->tunnel_ofport;
    ret->src_mac = pipe_virtual_mac();
    ret->dst_mac = is_between_clusters(a, &from, target) ? pipe_mc_mac()
                                                         : pipe_virtual_mac();
    ds_put_format(&ret->name, "%s, by the tunnel port %u from ", client[0],
                  ret->in_port);
    put_end(&from, &ret->name);
    return 0;
}

/* What the host makes of an address of its own. */

struct find_ctx {
    const struct target *target;
    bool node_port, external;
};

static void
find_claim(const struct unit *u, void *ctx_)
{
    struct find_ctx *ctx = ctx_;
    struct ip of_node = pipe_node_port_ip(u->family);

    if (u->family != ip_family(&ctx->target->ip)
        || u->proto != ctx->target->proto) {
        return;
    }
    for (size_t i = 0; i < u->claims.n; i++) {
        const struct addr *addr = &u->claims.addrs[i];

        if (addr->port == ctx->target->port) {
            ctx->node_port |= addr->kind == PIPE_NODE_PORT;
            ctx->external |=
                addr->kind == PIPE_EXTERNAL && ip_equals(&addr->ip, &of_node);
        }
    }
}

static bool
is_node_port_ip(const struct pipe_node *node, const struct ip *ip)
{
    for (size_t i = 0; i < node->n_node_port_ips; i++) {
        if (ip_equals(&node->node_port_ips[i], ip)) {
            return true;
        }
    }
    return false;
}

/* Sets 'target' to what the host makes of it; returns true if it does. */
static bool
translate_on_host(const struct agent *a, struct target *target)
{
    const struct pipe_node *node = local_node(a->local);
    struct find_ctx ctx = { .target = target };

    if (!node->serves_node_ports || !is_node_port_ip(node, &target->ip)) {
        return false;
    }
    services_for_each(a->services, NULL, NULL, find_claim, &ctx);
    if (!ctx.node_port && !ctx.external) {
        return false;
    }
    target->ip = pipe_node_port_ip(ip_family(&target->ip));
    return true;
}

/* The answer. */

static const char *
flow_proto(enum proto proto)
{
    switch (proto) {
    case PROTO_TCP: return "tcp";
    case PROTO_UDP: return "udp";
    case PROTO_SCTP: return "sctp";
    }
    OVS_NOT_REACHED();
}

static void
format_flow(const struct sender *s, const struct target *t, struct ds *ds)
{
    bool v6 = ip_family(&t->ip) == IP_V6;
    const char *proto = flow_proto(t->proto), *ip = v6 ? "ipv6" : "nw";
    char src[IP_STRLEN], dst[IP_STRLEN];

    ds_put_format(ds, "flow: in_port=%u,", s->in_port);
    if (!ip_is_none(&s->tunnel_src)) {
        ds_put_format(ds, "%s=%s,",
                      ip_family(&s->tunnel_src) == IP_V6 ? "tun_ipv6_src"
                                                         : "tun_src",
                      ip_to_string(&s->tunnel_src, src));
    }
    ds_put_format(ds,
                  "%s%s,dl_src=" ETH_ADDR_FMT ",dl_dst=" ETH_ADDR_FMT
                  ",%s_src=%s,%s_dst=%s,%s_src=%d,"
                  "%s_dst=%u,nw_ttl=64\n",
                  proto, v6 ? "6" : "", ETH_ADDR_ARGS(s->src_mac),
                  ETH_ADDR_ARGS(s->dst_mac), ip, ip_to_string(&s->src, src),
                  ip, ip_to_string(&t->ip, dst), proto, CLIENT_PORT, proto,
                  t->port);
}

static void
format_trace(const struct agent *a, struct sender *s, struct target *t,
             struct ds *ds)
{
    char ip[IP_STRLEN];

    ds_put_format(ds, "bridge: %s\nrun-dir: %s\nclient: %s\n",
                  a->cfg->ovs_bridge, a->cfg->ovs_run_dir, ds_cstr(&s->name));
    if (s->on_host && translate_on_host(a, t)) {
        ds_put_format(ds,
                      "host: translates the address, its own, to %s before "
                      "the packet comes to the bridge\n",
                      ip_to_string(&t->ip, ip));
    }
    if (ip_is_none(&s->tunnel_src)) {
        s->dst_mac = next_hop(a, s, t);
    }
    format_flow(s, t, ds);
}

int
agent_format_trace(const struct agent *a, const char *const client[2],
                   const char *target, struct ds *ds, struct err *err)
{
    struct sender sender = { .name = DS_EMPTY_INITIALIZER };
    struct target t;
    char *copy = xstrdup(target);
    int error = parse_target(copy, &t);

    if (error) {
        err_set(err,
                "\"%.80s\" is no ADDRESS:PORT[/PROTOCOL], such as "
                "10.96.0.10:80, [2001:db8::10]:53/UDP",
                target);
    } else if (client[1]) {
        error = find_tunnel_sender(a, client, &t, &sender, err);
    } else {
        error = find_sender(a, client[0], ip_family(&t.ip), &sender, err);
    }
    if (!error) {
        format_trace(a, &sender, &t, ds);
    }
    ds_destroy(&sender.name);
    free(copy);
    return error;
}

/* The next node. */

/* Appends where to go on from a tunnel to 'to', and how. */
static void
format_next(const struct agent *a, const char *src, const struct target *t,
            const struct end *to, struct ds *ds)
{
    const char *cluster = mc_find_network(a->mc, &t->ip);
    enum ip_family family = ip_family(to->ip);
    const struct ip *self = to->cluster
                                ? mc_gateway_ip(a->mc)
                                : &net_uplink(a->net)->addrs[family].ip;
    bool v6 = ip_family(&t->ip) == IP_V6;
    char ip[IP_STRLEN];

    ds_put_cstr(ds, "to: ");
    put_end(to, ds);
    if (cluster && !to->cluster) {
        ds_put_format(ds, ", which sends it on to cluster %s", cluster);
    }
    ds_put_format(ds, "\nnext: on %s %s: ofproxyctl trace %s ",
                  to->cluster ? "the gateway" : "Node",
                  to->cluster ? ip_to_string(to->ip, ip) : to->node, src);
    ds_put_format(ds, "%s%s%s:%u/%s", v6 ? "[" : "", ip_to_string(&t->ip, ip),
                  v6 ? "]" : "", t->port, proto_name(t->proto));
    ds_put_format(ds, " %s\n", ip_to_string(self, ip));
}

int
agent_format_trace_next(const struct agent *a,
                        const struct agent_trace_hop *hop, struct ds *ds,
                        struct err *err)
{
    struct target target;
    struct ip to, src;
    uint16_t port;
    char *copy = xstrdup(hop->target);
    bool bad = parse_port(hop->port, &port) || parse_target(copy, &target)
               || ip_from_string(hop->tunnel_dst, &to)
               || ip_from_string(hop->src, &src);

    free(copy);
    if (bad) {
        err_set(err, "no port, or no addresses");
        return EINVAL;
    } else if (port == ovsdb_state(a->ovsdb)->tunnel_ofport) {
        struct end end = find_end(a, &to);

        if (end.node || end.cluster) {
            format_next(a, hop->src, &target, &end, ds);
        } else {
            ds_put_cstr(ds, "to: ");
            put_end(&end, ds);
            ds_put_char(ds, '\n');
        }
    }
    return 0;
}

/* Names. */

static void
format_group(const struct agent *a, uint32_t id, struct ds *ds)
{
    uint64_t owner = cookie_make(COOKIE_SERVICE, group_id_object_id(id));
    const struct unit *u = services_find_owner(a->services, owner);

    if (!group_id_is_ours(id)) {
        ds_put_cstr(ds, "not ours");
        return;
    } else if (!u) {
        ds_put_cstr(ds, "of no Service any more");
        return;
    }
    ds_put_cstr(ds, "Service ");
    unit_format(u, ds);
    ds_put_format(ds, ", policy %s%s", id & 0x100 ? "Local" : "Cluster",
                  group_id_is_leaf(id) ? ", a part of it" : "");
}

static void
format_cookie(const struct agent *a, uint64_t cookie, struct ds *ds)
{
    if (cookie_is_learned(cookie)) {
        ds_put_cstr(ds, "a client that is remembered (session affinity)");
    } else if (!cookie_is_ours(cookie)) {
        ds_put_cstr(ds, "not ours");
    } else {
        report_format_owner(a, cookie, ds);
    }
}

static void
format_port(const struct agent *a, uint32_t ofport, struct ds *ds)
{
    const struct ovsdb_state *db = ovsdb_state(a->ovsdb);

    if (ofport && ofport == db->gateway_ofport) {
        ds_put_cstr(ds, "the gateway port, to the host");
    } else if (ofport && ofport == db->tunnel_ofport) {
        ds_put_cstr(ds, "the tunnel port, to another node or cluster");
    } else {
        report_format_owner(a, cookie_make(COOKIE_POD, ofport), ds);
    }
}

/* What is special about an address that a Service leads to, if anything. */
static void
format_ip(const struct agent *a, const struct ip *ip, struct ds *ds)
{
    const char *cluster = mc_find_network(a->mc, ip);

    if (cluster) {
        ds_put_format(ds, "in cluster %s", cluster);
    }
}

static int
format_name(const struct agent *a, const char *word, struct ds *ds)
{
    const char *colon = strchr(word, ':');
    unsigned long long int n;
    struct ip ip;
    char *end;

    if (!strncmp(word, "ip:", 3) && !ip_from_string(word + 3, &ip)) {
        ds_put_format(ds, "%s: ", word);
        format_ip(a, &ip, ds);
        ds_put_char(ds, '\n');
        return 0;
    } else if (!colon || !isdigit((unsigned char) colon[1])) {
        return EINVAL;
    }
    errno = 0;
    n = strtoull(colon + 1, &end, 0);
    if (*end || errno) {
        return EINVAL;
    }
    ds_put_format(ds, "%s: ", word);
    if (!strncmp(word, "cookie:", 7)) {
        format_cookie(a, n, ds);
    } else if (!strncmp(word, "group:", 6) && n <= UINT32_MAX) {
        format_group(a, n, ds);
    } else if (!strncmp(word, "port:", 5) && n <= UINT16_MAX) {
        format_port(a, n, ds);
    } else {
        return EINVAL;
    }
    ds_put_char(ds, '\n');
    return 0;
}

int
agent_format_names(const struct agent *a, const char *const words[], size_t n,
                   struct ds *ds, struct err *err)
{
    for (size_t i = 0; i < n; i++) {
        if (format_name(a, words[i], ds)) {
            err_set(err,
                    "\"%.80s\" is no cookie:NUMBER, group:NUMBER, "
                    "port:NUMBER or ip:ADDRESS",
                    words[i]);
            return EINVAL;
        }
    }
    return 0;
}

/* Groups. */

struct groups_ctx {
    struct ds *ds;
};

static void
format_unit_groups(const struct unit *u, void *ctx_)
{
    struct groups_ctx *ctx = ctx_;

    for (int local = 0; local < 2; local++) {
        if (local ? u->n_local : u->n_cluster) {
            ds_put_format(ctx->ds, "%" PRIu32 ": ",
                          group_id_make(u->object_id, local, 0));
            unit_format(u, ctx->ds);
            ds_put_format(ctx->ds, ", policy %s\n",
                          local ? "Local" : "Cluster");
        }
    }
}

int
agent_format_groups(const struct agent *a, const char *ns, const char *name,
                    struct ds *ds)
{
    const struct model_service *ms = model_find_service(a->model, ns, name);
    struct groups_ctx ctx = { ds };

    if (!ms || !ms->svc) {
        return ENOENT;
    }
    ds_put_format(ds, "bridge: %s\nrun-dir: %s\n", a->cfg->ovs_bridge,
                  a->cfg->ovs_run_dir);
    services_for_each(a->services, ns, name, format_unit_groups, &ctx);
    return 0;
}
