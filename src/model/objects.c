/* SPDX-License-Identifier: Apache-2.0 */
/* Packing, comparing and freeing of objects.
 *
 * x_lay() copies all that an object holds into the block behind it.  x_pack()
 * runs it twice: once to learn the size, once to copy, so that size and layout
 * can't disagree.  The block starts aligned for anything; arrays are laid in
 * the order of falling alignment and strings come last, so that nothing needs
 * padding. */

#include "ofproxyd/model/objects.h"

#include <string.h>

#include <util.h>

struct block {
    struct intern_pool *pool;
    char *mem; /* NULL while only counting. */
    size_t used;
};

/* Appends 'n' elements of 'size' bytes each and returns where they stand, or
 * NULL if there are none or 'b' only counts. */
static void *
lay_array(struct block *b, const void *data, size_t n, size_t size)
{
    char *p = NULL;

    if (n && b->mem) {
        p = b->mem + b->used;
        memcpy(p, data, n * size);
    }
    b->used += n * size;
    return p;
}

static const char *
lay_string(struct block *b, const char *s)
{
    return s ? lay_array(b, s, strlen(s) + 1, 1) : NULL;
}

static const char *
lay_interned(struct block *b, const char *s)
{
    return s && b->mem ? intern(b->pool, s, strlen(s)) : NULL;
}

/* An array of pointers to interned strings. */
static const char **
lay_names(struct block *b, const char *const *names, size_t n)
{
    const char **copy = lay_array(b, names, n, sizeof *names);

    for (size_t i = 0; copy && i < n; i++) {
        copy[i] = lay_interned(b, names[i]);
    }
    return copy;
}

static void
lay_meta(struct block *b, struct obj_meta *dst, const struct obj_meta *src)
{
    dst->ns = lay_interned(b, src->ns);
    dst->name = lay_string(b, src->name);
    dst->uid = lay_string(b, src->uid);
}

/* Makes room for what was counted behind an object of 'size' bytes. */
static void *
block_alloc(struct block *b, size_t size)
{
    b->mem = xmalloc(b->used);
    b->used = size;
    return b->mem;
}

static void
unref_names(struct intern_pool *pool, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        intern_unref(pool, names[i]);
    }
}

static bool
strings_equal(const char *a, const char *b)
{
    return a == b || (a && b && !strcmp(a, b));
}

static bool
names_equal(const char *const *a, const char *const *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!strings_equal(a[i], b[i])) {
            return false;
        }
    }
    return true;
}

static bool
meta_equals(const struct obj_meta *a, const struct obj_meta *b)
{
    return strings_equal(a->ns, b->ns) && strings_equal(a->name, b->name)
           && strings_equal(a->uid, b->uid) && a->created_s == b->created_s;
}

static bool
ips_equal(const struct ip *a, const struct ip *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!ip_equals(&a[i], &b[i])) {
            return false;
        }
    }
    return true;
}

/* Services. */

static void
svc_lay(struct block *b, struct svc *dst, const struct svc *src)
{
    *dst = *src;
    dst->ports = lay_array(b, src->ports, src->n_ports, sizeof *src->ports);
    for (size_t i = 0; b->mem && i < src->n_ports; i++) {
        dst->ports[i].name = lay_interned(b, src->ports[i].name);
    }
    dst->external_ips = lay_array(b, src->external_ips, src->n_external_ips,
                                  sizeof *src->external_ips);
    dst->ingress =
        lay_array(b, src->ingress, src->n_ingress, sizeof *src->ingress);
    dst->source_ranges = lay_array(b, src->source_ranges, src->n_source_ranges,
                                   sizeof *src->source_ranges);
    lay_meta(b, &dst->meta, &src->meta);
    dst->proxy_name = lay_string(b, src->proxy_name);
}

struct svc *
svc_pack(const struct svc *tmpl, struct intern_pool *pool)
{
    struct block b = { .pool = pool, .used = sizeof *tmpl };
    struct svc counted;

    svc_lay(&b, &counted, tmpl);
    struct svc *svc = block_alloc(&b, sizeof *svc);
    svc_lay(&b, svc, tmpl);
    return svc;
}

void
svc_free(struct svc *svc, struct intern_pool *pool)
{
    if (svc) {
        for (size_t i = 0; i < svc->n_ports; i++) {
            intern_unref(pool, svc->ports[i].name);
        }
        intern_unref(pool, svc->meta.ns);
        free(svc);
    }
}

static bool
svc_ports_equal(const struct svc_port *a, const struct svc_port *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!strings_equal(a[i].name, b[i].name) || a[i].proto != b[i].proto
            || a[i].port != b[i].port || a[i].node_port != b[i].node_port) {
            return false;
        }
    }
    return true;
}

static bool
ingress_equal(const struct svc_ingress *a, const struct svc_ingress *b,
              size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!ip_equals(&a[i].ip, &b[i].ip) || a[i].proxy != b[i].proxy) {
            return false;
        }
    }
    return true;
}

static bool
svc_scalars_equal(const struct svc *a, const struct svc *b)
{
    return a->type == b->type && a->headless == b->headless
           && a->external_policy == b->external_policy
           && a->internal_policy == b->internal_policy
           && a->affinity_s == b->affinity_s
           && a->health_port == b->health_port
           && a->publish_not_ready == b->publish_not_ready
           && a->mc_imported == b->mc_imported;
}

bool
svc_equals(const struct svc *a, const struct svc *b)
{
    return svc_scalars_equal(a, b) && a->n_ports == b->n_ports
           && a->n_external_ips == b->n_external_ips
           && a->n_ingress == b->n_ingress
           && a->n_source_ranges == b->n_source_ranges
           && meta_equals(&a->meta, &b->meta)
           && strings_equal(a->proxy_name, b->proxy_name)
           && ips_equal(a->cluster_ips, b->cluster_ips, N_IP_FAMILIES)
           && svc_ports_equal(a->ports, b->ports, a->n_ports)
           && ips_equal(a->external_ips, b->external_ips, a->n_external_ips)
           && ingress_equal(a->ingress, b->ingress, a->n_ingress)
           && cidrs_equal(a->source_ranges, a->n_source_ranges,
                          b->source_ranges, b->n_source_ranges);
}

bool
svc_is_served(const struct svc *svc)
{
    return svc->type != SVC_EXTERNAL_NAME && !svc->headless
           && (!ip_is_none(&svc->cluster_ips[IP_V4])
               || !ip_is_none(&svc->cluster_ips[IP_V6]));
}

/* EndpointSlices. */

static void
slice_lay(struct block *b, struct slice *dst, const struct slice *src)
{
    *dst = *src;
    dst->ports = lay_array(b, src->ports, src->n_ports, sizeof *src->ports);
    for (size_t i = 0; b->mem && i < src->n_ports; i++) {
        dst->ports[i].name = lay_interned(b, src->ports[i].name);
    }
    dst->endpoints =
        lay_array(b, src->endpoints, src->n_endpoints, sizeof *src->endpoints);
    for (size_t i = 0; i < src->n_endpoints; i++) {
        const struct slice_endpoint *ep = &src->endpoints[i];
        const char **zones = lay_names(b, ep->zones, ep->n_zones);
        const char **nodes = lay_names(b, ep->hint_nodes, ep->n_hint_nodes);

        if (b->mem) {
            dst->endpoints[i].node = lay_interned(b, ep->node);
            dst->endpoints[i].zones = zones;
            dst->endpoints[i].hint_nodes = nodes;
        }
    }
    lay_meta(b, &dst->meta, &src->meta);
    dst->service = lay_string(b, src->service);
}

struct slice *
slice_pack(const struct slice *tmpl, struct intern_pool *pool)
{
    struct block b = { .pool = pool, .used = sizeof *tmpl };
    struct slice counted;

    slice_lay(&b, &counted, tmpl);
    struct slice *slice = block_alloc(&b, sizeof *slice);
    slice_lay(&b, slice, tmpl);
    return slice;
}

void
slice_free(struct slice *slice, struct intern_pool *pool)
{
    if (slice) {
        for (size_t i = 0; i < slice->n_ports; i++) {
            intern_unref(pool, slice->ports[i].name);
        }
        for (size_t i = 0; i < slice->n_endpoints; i++) {
            const struct slice_endpoint *ep = &slice->endpoints[i];

            intern_unref(pool, ep->node);
            unref_names(pool, ep->zones, ep->n_zones);
            unref_names(pool, ep->hint_nodes, ep->n_hint_nodes);
        }
        intern_unref(pool, slice->meta.ns);
        free(slice);
    }
}

static bool
slice_ports_equal(const struct slice_port *a, const struct slice_port *b,
                  size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!strings_equal(a[i].name, b[i].name) || a[i].proto != b[i].proto
            || a[i].port != b[i].port) {
            return false;
        }
    }
    return true;
}

static bool
slice_endpoint_equals(const struct slice_endpoint *a,
                      const struct slice_endpoint *b)
{
    return ip_equals(&a->ip, &b->ip) && a->ready == b->ready
           && a->serving == b->serving && a->terminating == b->terminating
           && a->n_zones == b->n_zones && a->n_hint_nodes == b->n_hint_nodes
           && strings_equal(a->node, b->node)
           && names_equal(a->zones, b->zones, a->n_zones)
           && names_equal(a->hint_nodes, b->hint_nodes, a->n_hint_nodes);
}

static bool
slice_endpoints_equal(const struct slice_endpoint *a,
                      const struct slice_endpoint *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!slice_endpoint_equals(&a[i], &b[i])) {
            return false;
        }
    }
    return true;
}

bool
slice_equals(const struct slice *a, const struct slice *b)
{
    return a->family == b->family && a->n_ports == b->n_ports
           && a->n_endpoints == b->n_endpoints
           && meta_equals(&a->meta, &b->meta)
           && strings_equal(a->service, b->service)
           && slice_ports_equal(a->ports, b->ports, a->n_ports)
           && slice_endpoints_equal(a->endpoints, b->endpoints,
                                    a->n_endpoints);
}

/* Nodes. */

static void
node_lay(struct block *b, struct node *dst, const struct node *src)
{
    *dst = *src;
    dst->zone = lay_interned(b, src->zone);
    dst->pod_cidrs =
        lay_array(b, src->pod_cidrs, src->n_pod_cidrs, sizeof *src->pod_cidrs);
    dst->addresses =
        lay_array(b, src->addresses, src->n_addresses, sizeof *src->addresses);
    lay_meta(b, &dst->meta, &src->meta);
}

struct node *
node_pack(const struct node *tmpl, struct intern_pool *pool)
{
    struct block b = { .pool = pool, .used = sizeof *tmpl };
    struct node counted;

    node_lay(&b, &counted, tmpl);
    struct node *node = block_alloc(&b, sizeof *node);
    node_lay(&b, node, tmpl);
    return node;
}

void
node_free(struct node *node, struct intern_pool *pool)
{
    if (node) {
        intern_unref(pool, node->zone);
        intern_unref(pool, node->meta.ns);
        free(node);
    }
}

static bool
node_addresses_equal(const struct node_address *a,
                     const struct node_address *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!ip_equals(&a[i].ip, &b[i].ip) || a[i].external != b[i].external) {
            return false;
        }
    }
    return true;
}

bool
node_has_address(const struct node *node, const struct ip *ip)
{
    for (size_t i = 0; node && i < node->n_addresses; i++) {
        if (ip_equals(&node->addresses[i].ip, ip)) {
            return true;
        }
    }
    return false;
}

bool
node_equals(const struct node *a, const struct node *b)
{
    return a->deleting == b->deleting && a->to_be_deleted == b->to_be_deleted
           && a->transport_is_bad == b->transport_is_bad
           && a->n_pod_cidrs == b->n_pod_cidrs
           && a->n_addresses == b->n_addresses
           && meta_equals(&a->meta, &b->meta)
           && strings_equal(a->zone, b->zone)
           && ips_equal(a->transport, b->transport, N_IP_FAMILIES)
           && cidrs_equal(a->pod_cidrs, a->n_pod_cidrs, b->pod_cidrs,
                          b->n_pod_cidrs)
           && node_addresses_equal(a->addresses, b->addresses, a->n_addresses);
}

/* ServiceCIDRs. */

static void
service_cidr_lay(struct block *b, struct service_cidr *dst,
                 const struct service_cidr *src)
{
    *dst = *src;
    lay_meta(b, &dst->meta, &src->meta);
}

struct service_cidr *
service_cidr_pack(const struct service_cidr *tmpl, struct intern_pool *pool)
{
    struct block b = { .pool = pool, .used = sizeof *tmpl };
    struct service_cidr counted;

    service_cidr_lay(&b, &counted, tmpl);
    struct service_cidr *cidr = block_alloc(&b, sizeof *cidr);
    service_cidr_lay(&b, cidr, tmpl);
    return cidr;
}

void
plain_free(struct obj_meta *meta, struct intern_pool *pool)
{
    if (meta) {
        intern_unref(pool, meta->ns);
        free(meta);
    }
}

bool
service_cidr_equals(const struct service_cidr *a, const struct service_cidr *b)
{
    return meta_equals(&a->meta, &b->meta)
           && cidrs_equal(a->cidrs, a->n_cidrs, b->cidrs, b->n_cidrs);
}

/* Multicluster. */

struct mc_gateway *
mc_gateway_pack(const struct mc_gateway *tmpl, struct intern_pool *pool)
{
    struct block b = { .pool = pool, .used = sizeof *tmpl };
    struct mc_gateway counted = *tmpl;

    lay_meta(&b, &counted.meta, &tmpl->meta);
    struct mc_gateway *gw = block_alloc(&b, sizeof *gw);
    *gw = *tmpl;
    lay_meta(&b, &gw->meta, &tmpl->meta);
    return gw;
}

bool
mc_gateway_equals(const struct mc_gateway *a, const struct mc_gateway *b)
{
    return meta_equals(&a->meta, &b->meta)
           && ip_equals(&a->gateway_ip, &b->gateway_ip)
           && ip_equals(&a->internal_ip, &b->internal_ip);
}

static void
mc_cluster_lay(struct block *b, struct mc_cluster *dst,
               const struct mc_cluster *src)
{
    *dst = *src;
    dst->gateway_ips = lay_array(b, src->gateway_ips, src->n_gateway_ips,
                                 sizeof *src->gateway_ips);
    dst->pod_cidrs =
        lay_array(b, src->pod_cidrs, src->n_pod_cidrs, sizeof *src->pod_cidrs);
    lay_meta(b, &dst->meta, &src->meta);
    dst->cluster_id = lay_string(b, src->cluster_id);
}

struct mc_cluster *
mc_cluster_pack(const struct mc_cluster *tmpl, struct intern_pool *pool)
{
    struct block b = { .pool = pool, .used = sizeof *tmpl };
    struct mc_cluster counted;

    mc_cluster_lay(&b, &counted, tmpl);
    struct mc_cluster *cluster = block_alloc(&b, sizeof *cluster);
    mc_cluster_lay(&b, cluster, tmpl);
    return cluster;
}

bool
mc_cluster_equals(const struct mc_cluster *a, const struct mc_cluster *b)
{
    return a->n_gateway_ips == b->n_gateway_ips
           && a->n_pod_cidrs == b->n_pod_cidrs
           && meta_equals(&a->meta, &b->meta)
           && strings_equal(a->cluster_id, b->cluster_id)
           && cidr_equals(&a->service_cidr, &b->service_cidr)
           && ips_equal(a->gateway_ips, b->gateway_ips, a->n_gateway_ips)
           && cidrs_equal(a->pod_cidrs, a->n_pod_cidrs, b->pod_cidrs,
                          b->n_pod_cidrs);
}
