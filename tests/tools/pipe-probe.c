/* SPDX-License-Identifier: Apache-2.0 */
/* Renders what standard input describes, for the tests that need the
 * pipeline's flows on a switch but no daemon.
 *
 *    pipe-probe <DESCRIPTION >BUNDLE
 *
 * The output is for ovs-ofctl bundle.  Lines of the description, the node's
 * first; addresses of both families, separated by blanks:
 *
 *    node MODE OFPORT MAC TUNNEL-OFPORT
 *    gateway ADDRESS...
 *    cidrs CIDR...
 *    pod OFPORT MAC ADDRESS...
 *    tunnel OBJECT-ID TUNNEL-DST CIDR...
 *    routed OBJECT-ID CIDR...
 *    service OBJECT-ID PROTOCOL PORT ENDPOINT-PORT ADDRESS ENDPOINT...
 *    node-ports ADDRESS...
 *
 * A Service with more than a cluster IP is in several lines.  The first names
 * its number, and "render" ends it; those between may repeat.  An endpoint set
 * that is not named is DROP, or REJECT if neither is:
 *
 *    begin OBJECT-ID PROTOCOL FAMILY AFFINITY-SECONDS
 *    frontend cluster-ip|node-port|external ADDRESS|- PORT cluster|local
 *    restricted ADDRESS PORT cluster|local
 *    endpoints cluster|local PORT ADDRESS...
 *    ranges CIDR...
 *    node-in-ranges
 *    render
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openvswitch/dynamic-string.h>
#include <openvswitch/util.h>
#include <packets.h>
#include <util.h>

#include "ofproxyd/pipeline/pipeline.h"

#define MAX_WORDS     16
#define MAX_FRONTENDS 8
#define MAX_ENDPOINTS 2000
#define MAX_RANGES    2000

/* One line of the description, as it is taken apart. */
struct words {
    char *word[MAX_WORDS];
    size_t n, next;
};

static void
split(char *line, struct words *w)
{
    char *save = NULL;

    w->n = w->next = 0;
    for (char *s = strtok_r(line, " \n", &save); s;
         s = strtok_r(NULL, " \n", &save)) {
        if (w->n == MAX_WORDS) {
            ovs_fatal(0, "too many words");
        }
        w->word[w->n++] = s;
    }
}

static const char *
take(struct words *w)
{
    if (w->next == w->n) {
        ovs_fatal(0, "%s: a word is missing", w->word[0]);
    }
    return w->word[w->next++];
}

static unsigned int
take_number(struct words *w)
{
    const char *s = take(w);
    int value;

    if (!str_to_int(s, 10, &value) || value < 0) {
        ovs_fatal(0, "%s: no number", s);
    }
    return (unsigned int) value;
}

static struct ip
take_ip(struct words *w)
{
    const char *s = take(w);
    struct ip ip;

    if (ip_from_string(s, &ip)) {
        ovs_fatal(0, "%s: no address", s);
    }
    return ip;
}

static struct cidr
take_cidr(struct words *w)
{
    const char *s = take(w);
    struct cidr cidr;

    if (cidr_parse(s, &cidr)) {
        ovs_fatal(0, "%s: no CIDR", s);
    }
    return cidr;
}

static struct eth_addr
take_mac(struct words *w)
{
    const char *s = take(w);
    struct eth_addr mac;

    if (!eth_addr_from_string(s, &mac)) {
        ovs_fatal(0, "%s: no MAC address", s);
    }
    return mac;
}

/* The lines. */

struct probe {
    struct pipe_node node;
    struct cidr cidrs[MAX_WORDS];
    struct ip node_port_ips[MAX_WORDS];
    struct fout out;

    /* Between "begin" and "render". */
    struct pipe_service svc;
    struct pipe_frontend frontends[MAX_FRONTENDS];
    struct eps eps[N_PIPE_SCOPES][MAX_ENDPOINTS];
    struct cidr ranges[MAX_RANGES];
};

static void
cmd_node(struct probe *p, struct words *w)
{
    const char *mode = take(w);

    for (int i = CFG_ENCAP; i <= CFG_NETWORK_POLICY_ONLY; i++) {
        if (!strcmp(mode, cfg_encap_mode_to_string(i))) {
            p->node.mode = i;
        }
    }
    p->node.gateway_ofport = take_number(w);
    p->node.gateway_mac = take_mac(w);
    p->node.tunnel_ofport = take_number(w);
}

static void
cmd_gateway(struct probe *p, struct words *w)
{
    while (w->next < w->n) {
        struct ip ip = take_ip(w);

        p->node.gateway_ips[ip_family(&ip)] = ip;
    }
}

static void
cmd_cidrs(struct probe *p, struct words *w)
{
    p->node.pod_cidrs = p->cidrs;
    while (w->next < w->n) {
        p->cidrs[p->node.n_pod_cidrs++] = take_cidr(w);
    }
}

static void
cmd_pod(struct probe *p, struct words *w)
{
    struct ip ips[MAX_WORDS];
    struct pipe_pod pod = {
        .ofport = take_number(w),
        .mac = take_mac(w),
        .ips = ips,
    };

    while (w->next < w->n) {
        ips[pod.n_ips++] = take_ip(w);
    }
    pipe_render_pod(&p->node, &pod, &p->out);
}

static void
cmd_peer(struct probe *p, struct words *w)
{
    enum pipe_path path =
        !strcmp(w->word[0], "tunnel") ? PIPE_TUNNEL : PIPE_ROUTED;
    uint32_t object_id = take_number(w);
    struct ip tunnel_dst = { .in6 = IN6ADDR_ANY_INIT };
    struct pipe_peer peers[MAX_WORDS];
    size_t n = 0;

    if (path == PIPE_TUNNEL) {
        tunnel_dst = take_ip(w);
    }
    while (w->next < w->n) {
        struct cidr cidr = take_cidr(w);

        peers[n++] = (struct pipe_peer){
            .pod_cidr = cidr,
            .gateway = cidr_host(&cidr, 1),
            .path = path,
            .tunnel_dst = tunnel_dst,
        };
    }
    pipe_render_peer(&p->node, object_id, peers, n, &p->out);
}

static void
cmd_service(struct probe *p, struct words *w)
{
    struct eps eps[MAX_WORDS];
    struct pipe_service svc = { .object_id = take_number(w) };
    struct pipe_frontend frontend = { .scope = PIPE_SCOPE_CLUSTER };
    struct pipe_target *target = &svc.targets[PIPE_SCOPE_CLUSTER];
    uint16_t port;

    if (proto_parse(take(w), &svc.proto)) {
        ovs_fatal(0, "no protocol");
    }
    frontend.port = take_number(w);
    port = take_number(w);
    frontend.ip = take_ip(w);
    svc.family = ip_family(&frontend.ip);
    svc.frontends = &frontend;
    svc.n_frontends = 1;
    memset(eps, 0, sizeof eps);
    target->eps = eps;
    while (w->next < w->n) {
        eps[target->n_eps].ip = take_ip(w);
        eps[target->n_eps++].port = port;
    }
    if (!target->n_eps) {
        target->verdict = PIPE_REJECT;
    }
    if (pipe_render_service(&svc, &p->out, NULL)) {
        ovs_fatal(0, "endpoints were left out");
    }
}

static void
cmd_node_ports(struct probe *p, struct words *w)
{
    p->node.serves_node_ports = true;
    p->node.node_port_ips = p->node_port_ips;
    while (w->next < w->n) {
        p->node_port_ips[p->node.n_node_port_ips++] = take_ip(w);
    }
}

/* Services in several lines. */

static enum pipe_scope
take_scope(struct words *w)
{
    return !strcmp(take(w), "local") ? PIPE_SCOPE_LOCAL : PIPE_SCOPE_CLUSTER;
}

static void
cmd_begin(struct probe *p, struct words *w)
{
    p->svc = (struct pipe_service){ .object_id = take_number(w) };
    if (proto_parse(take(w), &p->svc.proto)) {
        ovs_fatal(0, "no protocol");
    }
    p->svc.family = take_number(w) == 4 ? IP_V4 : IP_V6;
    p->svc.affinity_s = take_number(w);
    p->svc.takes_fragments = p->svc.proto == PROTO_UDP;
    p->svc.frontends = p->frontends;
    p->svc.source_ranges = p->ranges;
    memset(p->eps, 0, sizeof p->eps);
    for (int i = 0; i < N_PIPE_SCOPES; i++) {
        p->svc.targets[i].eps = p->eps[i];
    }
}

static void
add_frontend(struct probe *p, enum pipe_frontend_kind kind, struct words *w)
{
    struct pipe_frontend *frontend;

    if (p->svc.n_frontends == MAX_FRONTENDS) {
        ovs_fatal(0, "too many frontends");
    }
    frontend = &p->frontends[p->svc.n_frontends++];
    memset(frontend, 0, sizeof *frontend);
    frontend->kind = kind;
    if (kind == PIPE_NODE_PORT) {
        take(w);
    } else {
        frontend->ip = take_ip(w);
    }
    frontend->port = take_number(w);
    frontend->scope = take_scope(w);
}

static void
cmd_frontend(struct probe *p, struct words *w)
{
    const char *kind = take(w);

    add_frontend(p,
                 !strcmp(kind, "node-port")  ? PIPE_NODE_PORT
                 : !strcmp(kind, "external") ? PIPE_EXTERNAL
                                             : PIPE_CLUSTER_IP,
                 w);
}

static void
cmd_restricted(struct probe *p, struct words *w)
{
    add_frontend(p, PIPE_EXTERNAL, w);
    p->frontends[p->svc.n_frontends - 1].restricted = true;
}

static void
cmd_endpoints(struct probe *p, struct words *w)
{
    enum pipe_scope scope = take_scope(w);
    struct pipe_target *target = &p->svc.targets[scope];
    unsigned int port = take_number(w);

    while (w->next < w->n && target->n_eps < MAX_ENDPOINTS) {
        struct eps *eps = &p->eps[scope][target->n_eps++];

        eps->ip = take_ip(w);
        eps->port = port;
    }
}

static void
cmd_ranges(struct probe *p, struct words *w)
{
    while (w->next < w->n && p->svc.n_source_ranges < MAX_RANGES) {
        p->ranges[p->svc.n_source_ranges++] = take_cidr(w);
    }
}

static void
cmd_node_in_ranges(struct probe *p, struct words *w)
{
    (void) w;
    p->svc.node_in_ranges = true;
}

static void
cmd_render(struct probe *p, struct words *w)
{
    struct pipe_target *targets = p->svc.targets;
    bool has_any = targets[0].n_eps || targets[1].n_eps;

    (void) w;
    for (int i = 0; i < N_PIPE_SCOPES; i++) {
        targets[i].verdict = targets[i].n_eps ? PIPE_SELECT
                             : has_any        ? PIPE_DROP
                                              : PIPE_REJECT;
    }
    if (pipe_render_service(&p->svc, &p->out, NULL)) {
        ovs_fatal(0, "endpoints were left out");
    }
}

static void
run(struct probe *p, struct words *w)
{
    static const struct {
        const char *name;
        void (*cmd)(struct probe *, struct words *);
    } cmds[] = {
        { "node", cmd_node },
        { "gateway", cmd_gateway },
        { "cidrs", cmd_cidrs },
        { "pod", cmd_pod },
        { "tunnel", cmd_peer },
        { "routed", cmd_peer },
        { "service", cmd_service },
        { "node-ports", cmd_node_ports },
        { "begin", cmd_begin },
        { "frontend", cmd_frontend },
        { "restricted", cmd_restricted },
        { "endpoints", cmd_endpoints },
        { "ranges", cmd_ranges },
        { "node-in-ranges", cmd_node_in_ranges },
        { "render", cmd_render },
    };
    const char *name = take(w);

    for (size_t i = 0; i < ARRAY_SIZE(cmds); i++) {
        if (!strcmp(name, cmds[i].name)) {
            cmds[i].cmd(p, w);
            return;
        }
    }
    ovs_fatal(0, "%s: unknown", name);
}

/* Groups come first, since flows name them. */
static void
print(const struct fout *out)
{
    for (int kind = FITEM_GROUP; kind >= FITEM_FLOW; kind--) {
        for (size_t i = 0; i < out->n; i++) {
            struct ds ds = DS_EMPTY_INITIALIZER;

            if ((int) fitem_kind(out->items[i]) == kind) {
                fitem_format(out->items[i], NULL, &ds);
                printf("%s add %s\n", kind == FITEM_GROUP ? "group" : "flow",
                       ds_cstr(&ds));
            }
            ds_destroy(&ds);
        }
    }
}

int
main(int argc, char *argv[])
{
    struct probe *p = xzalloc(sizeof *p);
    struct words w;
    char line[1024];

    (void) argc;
    set_program_name(argv[0]);
    while (fgets(line, sizeof line, stdin)) {
        split(line, &w);
        if (w.n) {
            run(p, &w);
        }
    }
    pipe_render_node(&p->node, &p->out);
    print(&p->out);
    fout_clear(&p->out);
    free(p);
    return 0;
}
