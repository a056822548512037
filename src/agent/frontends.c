/* SPDX-License-Identifier: Apache-2.0 */

/* Collects a Service's addresses; sorting brings duplicates together. */

#include "frontends.h"

#include <stdlib.h>

#include <util.h>

#include "ofproxyd/model/endpoints.h"

struct chooser {
    const struct frontends_env *env;
    const struct svc *svc;
    enum ip_family family;
    size_t max; /* External addresses, and ranges, of one port. */
    struct frontends *ret;
};

/* Source ranges. */

static int
compare_cidrs(const void *a_, const void *b_)
{
    const struct cidr *a = a_, *b = b_;
    int cmp = ip_compare(&a->ip, &b->ip);

    return cmp ? cmp : a->plen - b->plen;
}

/* Sorts, and leaves out what an earlier one holds: neither duplicates nor
 * ranges in ranges are worth a flow each. */
static size_t
compact_ranges(struct cidr *ranges, size_t n)
{
    size_t n_kept = 0;

    qsort(ranges, n, sizeof *ranges, compare_cidrs);
    for (size_t i = 0; i < n; i++) {
        if (!n_kept || !cidr_contains(&ranges[n_kept - 1], &ranges[i].ip)) {
            ranges[n_kept++] = ranges[i];
        }
    }
    return n_kept;
}

/* No node sends from a loopback address to a load balancer's. */
static bool
node_is_in(const struct frontends_env *env, const struct cidr *range)
{
    for (size_t i = 0; i < env->n_node_ips; i++) {
        if (ip_is_unicast(&env->node_ips[i])
            && cidr_contains(range, &env->node_ips[i])) {
            return true;
        }
    }
    return false;
}

/* Sets the ranges of a load balancer's addresses; without any of the family
 * all may come. */
static void
choose_ranges(const struct chooser *c)
{
    struct frontends *ret = c->ret;
    const struct svc *svc = c->svc;
    struct cidr *ranges;
    size_t n = 0;

    if (!svc->n_source_ranges) {
        return;
    }
    ranges = xmalloc(svc->n_source_ranges * sizeof *ranges);
    for (size_t i = 0; i < svc->n_source_ranges; i++) {
        if (ip_family(&svc->source_ranges[i].ip) != c->family) {
            continue;
        } else if (!svc->source_ranges[i].plen) {
            n = 0;
            break;
        }
        ranges[n++] = cidr_network(&svc->source_ranges[i]);
    }
    if (!n) {
        free(ranges);
        return;
    }
    ret->source_ranges = ranges;
    n = compact_ranges(ranges, n);
    ret->n_source_ranges = MIN(n, c->max);
    ret->n_left_out += n - ret->n_source_ranges;
    ret->uses_node_ips = true;
    for (size_t i = 0; i < ret->n_source_ranges && !ret->node_in_ranges; i++) {
        ret->node_in_ranges = node_is_in(c->env, &ranges[i]);
    }
}

static void
drop_ranges(struct frontends *f)
{
    free(f->source_ranges);
    f->source_ranges = NULL;
    f->n_source_ranges = 0;
    f->node_in_ranges = false;
}

/* Frontends. */

static int
compare_frontends(const void *a_, const void *b_)
{
    const struct pipe_frontend *a = a_, *b = b_;

    return ip_compare(&a->ip, &b->ip);
}

/* Is 'ip' one by which the host leads packets to the bridge?  A Service that
 * claimed it would get what belongs to others.  Or one that means something
 * else on each link, so that nobody's packets to it are led anywhere? */
static bool
is_reserved(const struct ip *ip)
{
    struct ip node_port = pipe_node_port_ip(ip_family(ip));
    struct ip virtual = pipe_virtual_ip(ip_family(ip));

    return ip_equals(ip, &node_port) || ip_equals(ip, &virtual)
           || IN6_IS_ADDR_LINKLOCAL(&ip->in6);
}

/* Would the Service stand between this node and the API server? */
static bool
is_of_server(const struct chooser *c, const struct ip *ip)
{
    const struct frontends_env *env = c->env;

    if (ip_is_none(&env->server) || !ip_equals(ip, &env->server)) {
        return false;
    }
    for (size_t i = 0; i < c->svc->n_ports; i++) {
        const struct svc_port *port = &c->svc->ports[i];

        if (port->proto == PROTO_TCP && port->port == env->server_port) {
            return true;
        }
    }
    return false;
}

/* Adds an external address, which may be there already. */
static void
add_external(const struct chooser *c, const struct ip *ip, bool restricted)
{
    struct frontends *ret = c->ret;

    if (ip_family(ip) != c->family
        || ip_equals(ip, &c->svc->cluster_ips[c->family])) {
        return;
    } else if (is_reserved(ip) || is_of_server(c, ip)) {
        ret->n_left_out++;
        return;
    }
    ret->frontends[ret->n++] = (struct pipe_frontend){
        .kind = PIPE_EXTERNAL,
        .ip = *ip,
        .scope = ret->external_scope,
        .restricted = restricted,
    };
}

/* Sorts the external addresses, which come after the cluster IP, and makes
 * one of those that are equal. */
static void
compact_externals(const struct chooser *c)
{
    struct frontends *ret = c->ret;
    struct pipe_frontend *externals = &ret->frontends[1];
    size_t n = ret->n - 1, n_kept = 0;

    qsort(externals, n, sizeof *externals, compare_frontends);
    for (size_t i = 0; i < n; i++) {
        if (n_kept && ip_equals(&externals[n_kept - 1].ip, &externals[i].ip)) {
            externals[n_kept - 1].restricted |= externals[i].restricted;
        } else if (n_kept == c->max) {
            ret->n_left_out++;
        } else {
            externals[n_kept++] = externals[i];
        }
    }
    ret->n = 1 + n_kept;
}

static void
choose_externals(const struct chooser *c)
{
    const struct cfg *cfg = c->env->cfg;
    const struct svc *svc = c->svc;
    bool restricted = c->ret->n_source_ranges > 0;

    if (cfg->antrea_proxy_proxy_all) {
        for (size_t i = 0; i < svc->n_external_ips; i++) {
            add_external(c, &svc->external_ips[i], false);
        }
    }
    if (cfg->antrea_proxy_proxy_load_balancer_ips) {
        for (size_t i = 0; i < svc->n_ingress; i++) {
            if (!svc->ingress[i].proxy) {
                add_external(c, &svc->ingress[i].ip, restricted);
            }
        }
    }
    compact_externals(c);
}

static int
compare_ips(const void *a, const void *b)
{
    return ip_compare(a, b);
}

static bool
is_of_host(const struct frontends_env *env, const struct ip *ip)
{
    return ip_equals(ip, &env->gateway_ips[ip_family(ip)])
           || (env->n_node_ips
               && bsearch(ip, env->node_ips, env->n_node_ips, sizeof *ip,
                          compare_ips));
}

/* The host's own addresses can't be routed elsewhere: it translates what is
 * sent to them. */
static void
choose_of_node(const struct chooser *c)
{
    struct frontends *ret = c->ret;
    struct pipe_frontend *f = &ret->frontends[ret->n];
    size_t n = ret->n;

    ret->uses_node_ips |= n > 1;
    for (size_t i = 1; i < n; i++) {
        const struct pipe_frontend *external = &ret->frontends[i];

        if (is_of_host(c->env, &external->ip)) {
            if (ret->n == n) {
                *f = *external;
                f->ip = pipe_node_port_ip(c->family);
                ret->n++;
            }
            f->restricted |= external->restricted;
        }
    }
}

static size_t
count_udp_ports(const struct svc *svc)
{
    size_t n = 0;

    for (size_t i = 0; i < svc->n_ports; i++) {
        n += svc->ports[i].proto == PROTO_UDP;
    }
    return n;
}

static bool
is_restricted(const struct frontends *f)
{
    for (size_t i = 0; i < f->n; i++) {
        if (f->frontends[i].restricted) {
            return true;
        }
    }
    return false;
}

void
frontends_choose(const struct frontends_env *env, const struct svc *svc,
                 enum ip_family family, struct frontends *ret)
{
    size_t max = MAX(FRONTENDS_MAX / svc->n_ports, 1);
    struct chooser c = { env, svc, family, max, ret };

    *ret = (struct frontends){
        .n_udp_ports = count_udp_ports(svc),
        .serves_node_ports = env->cfg->antrea_proxy_proxy_all,
        .external_scope = svc_external_policy_is_local(svc)
                              ? PIPE_SCOPE_LOCAL
                              : PIPE_SCOPE_CLUSTER,
    };
    /* Three more: the cluster IP, the node's, and the NodePort. */
    ret->frontends = xmalloc((svc->n_external_ips + svc->n_ingress + 3)
                             * sizeof *ret->frontends);
    ret->frontends[ret->n++] = (struct pipe_frontend){
        .kind = PIPE_CLUSTER_IP,
        .ip = svc->cluster_ips[family],
        .scope = svc->internal_policy == SVC_POLICY_LOCAL ? PIPE_SCOPE_LOCAL
                                                          : PIPE_SCOPE_CLUSTER,
    };
    choose_ranges(&c);
    choose_externals(&c);
    if (env->cfg->antrea_proxy_proxy_all) {
        choose_of_node(&c);
    }
    if (!is_restricted(ret)) {
        drop_ranges(ret);
    }
    ret->n_of_all_ports = ret->n;
    frontends_set_port(ret, &svc->ports[0]);
}

void
frontends_set_port(struct frontends *f, const struct svc_port *port)
{
    f->n = f->n_of_all_ports;
    for (size_t i = 0; i < f->n; i++) {
        f->frontends[i].port = port->port;
    }
    if (port->node_port && f->serves_node_ports) {
        f->frontends[f->n++] = (struct pipe_frontend){
            .kind = PIPE_NODE_PORT,
            .port = port->node_port,
            .scope = f->external_scope,
        };
    }
}

void
frontends_uninit(struct frontends *f)
{
    free(f->frontends);
    free(f->source_ranges);
}
