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

#define MAX_WORDS 16

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
    struct fout out;
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
run(struct probe *p, struct words *w)
{
    static const struct {
        const char *name;
        void (*cmd)(struct probe *, struct words *);
    } cmds[] = {
        { "node", cmd_node },       { "gateway", cmd_gateway },
        { "cidrs", cmd_cidrs },     { "pod", cmd_pod },
        { "tunnel", cmd_peer },     { "routed", cmd_peer },
        { "service", cmd_service },
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
    struct probe p = { .out = FOUT_INIT };
    struct words w;
    char line[1024];

    (void) argc;
    set_program_name(argv[0]);
    while (fgets(line, sizeof line, stdin)) {
        split(line, &w);
        if (w.n) {
            run(&p, &w);
        }
    }
    pipe_render_node(&p.node, &p.out);
    print(&p.out);
    fout_clear(&p.out);
    free(p.out.items);
    return 0;
}
