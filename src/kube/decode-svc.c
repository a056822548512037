/* SPDX-License-Identifier: Apache-2.0 */
/* JSON of a core/v1 Service: all that a proxy reads of spec and status. */

#include "decode-part.h"

#include <stdlib.h>
#include <string.h>

#include <util.h>

/* The API's limits of an affinity's timeout, and its default. */
#define AFFINITY_MAX_S     86400
#define AFFINITY_DEFAULT_S 10800

/* One of the clusterIPs. */
struct cluster_ip {
    enum {
        CLUSTER_IP_ABSENT,
        CLUSTER_IP_NONE, /* "None" of a headless Service. */
        CLUSTER_IP_ADDRESS
    } kind;
    struct ip ip;
};

struct svc_reader {
    struct svc *svc;
    struct err *left_out;
    bool affine; /* sessionAffinity is ClientIP. */
    uint32_t timeout_s;

    /* By index: ipFamilies[i] says of which family clusterIPs[i] is. */
    struct cluster_ip cluster_ip, cluster_ips[N_IP_FAMILIES];
    enum ip_family families[N_IP_FAMILIES];
    size_t n_families;
};

static void
read_type(struct jcur *c, void *reader_)
{
    static const char *const names[] = {
        [SVC_CLUSTER_IP] = "ClusterIP",
        [SVC_NODE_PORT] = "NodePort",
        [SVC_LOAD_BALANCER] = "LoadBalancer",
        [SVC_EXTERNAL_NAME] = "ExternalName",
    };
    struct svc_reader *r = reader_;

    r->svc->type = decode_choice(c, names, ARRAY_SIZE(names), SVC_CLUSTER_IP);
}

/* Cluster addresses. */

static struct cluster_ip
read_one_cluster_ip(struct jcur *c)
{
    struct cluster_ip ret = { .kind = CLUSTER_IP_ABSENT };
    const char *at = jcur_here(c);
    struct jstr s = jcur_string(c);

    if (jstr_equals(s, "None")) {
        ret.kind = CLUSTER_IP_NONE;
    } else if (s.n) {
        jcur_reread(c, at);
        ret.kind = CLUSTER_IP_ADDRESS;
        decode_ip(c, NULL, &ret.ip);
    }
    return ret;
}

static void
read_cluster_ip(struct jcur *c, void *reader_)
{
    struct svc_reader *r = reader_;

    r->cluster_ip = read_one_cluster_ip(c);
}

static void
read_cluster_ips_element(struct jcur *c, void *reader_)
{
    struct svc_reader *r = reader_;

    r->cluster_ips[jcur_index(c)] = read_one_cluster_ip(c);
}

static void
read_cluster_ips(struct jcur *c, void *reader_)
{
    struct svc_reader *r = reader_;

    memset(r->cluster_ips, 0, sizeof r->cluster_ips);
    jcur_array(c, N_IP_FAMILIES, read_cluster_ips_element, r);
}

static void
read_family(struct jcur *c, void *reader_)
{
    static const char *const names[] = {
        [IP_V4] = "IPv4",
        [IP_V6] = "IPv6",
    };
    struct svc_reader *r = reader_;

    r->families[jcur_index(c)] =
        decode_choice(c, names, ARRAY_SIZE(names), IP_V4);
    r->n_families = jcur_index(c) + 1;
}

static void
read_families(struct jcur *c, void *reader_)
{
    struct svc_reader *r = reader_;

    memset(r->families, 0, sizeof r->families);
    r->n_families = 0;
    jcur_array(c, N_IP_FAMILIES, read_family, r);
}

/* Brings together what the three fields say.  As for kube-proxy, a Service
 * without a clusterIP has none whatever clusterIPs hold, and ipFamilies may
 * be missing in an old object. */
static void
choose_cluster_ips(struct svc_reader *r)
{
    struct svc *svc = r->svc;

    svc->headless = r->cluster_ip.kind == CLUSTER_IP_NONE;
    if (r->cluster_ip.kind != CLUSTER_IP_ADDRESS) {
        return;
    } else if (!r->n_families) {
        svc->cluster_ips[ip_family(&r->cluster_ip.ip)] = r->cluster_ip.ip;
        return;
    }
    for (size_t i = 0; i < r->n_families; i++) {
        const struct cluster_ip *cip = &r->cluster_ips[i];

        if (cip->kind != CLUSTER_IP_ADDRESS) {
            continue;
        } else if (ip_family(&cip->ip) == r->families[i]) {
            svc->cluster_ips[r->families[i]] = cip->ip;
        } else if (!r->left_out->msg[0]) {
            err_set(r->left_out,
                    "spec.clusterIPs[%zu] is no %s address, as ipFamilies "
                    "has it",
                    i, ip_family_name(r->families[i]));
        }
    }
}

/* Ports. */

struct port_reader {
    struct svc_port port;
    bool has_number, is_bad;
    struct err *left_out;
};

static void
read_port_name(struct jcur *c, void *reader_)
{
    struct port_reader *r = reader_;

    r->port.name = jcur_text(c, DECODE_NAME_MAX);
}

static void
read_port_proto(struct jcur *c, void *reader_)
{
    struct port_reader *r = reader_;

    r->port.proto = decode_proto(c);
}

static void
read_port_port(struct jcur *c, void *reader_)
{
    struct port_reader *r = reader_;
    int64_t port;

    r->has_number = !jcur_null(c);
    if (r->has_number) {
        r->is_bad = !decode_try_int(c, 1, UINT16_MAX, &port, r->left_out);
        r->port.port = r->is_bad ? 0 : port;
    }
}

static void
read_port_node_port(struct jcur *c, void *reader_)
{
    struct port_reader *r = reader_;
    int64_t port;

    r->port.node_port =
        decode_try_int(c, 0, UINT16_MAX, &port, r->left_out) ? port : 0;
}

static void
read_port(struct jcur *c, void *reader_)
{
    static const struct jcur_member members[] = {
        JCUR_MEMBER("name", read_port_name),
        JCUR_MEMBER("protocol", read_port_proto),
        JCUR_MEMBER("port", read_port_port),
        JCUR_MEMBER("nodePort", read_port_node_port),
    };
    struct svc_reader *r = reader_;
    struct svc *svc = r->svc;
    struct port_reader pr = {
        .port = { .name = "", .proto = PROTO_TCP },
        .left_out = r->left_out,
    };

    jcur_object(c, members, ARRAY_SIZE(members), &pr);
    if (!pr.has_number) {
        jcur_missing(c, "port");
    } else if (!pr.is_bad) {
        svc->ports =
            decode_room(c, svc->ports, svc->n_ports, sizeof *svc->ports);
        svc->ports[svc->n_ports++] = pr.port;
    }
}

static void
read_ports(struct jcur *c, void *reader_)
{
    struct svc_reader *r = reader_;

    r->svc->n_ports = 0;
    jcur_array(c, DECODE_PORTS_MAX, read_port, r);
}

/* By name and protocol, which identify a port, then by place. */
static int
compare_ports(const void *a_, const void *b_)
{
    const struct svc_port *const *a = a_, *const *b = b_;
    int cmp = strcmp((*a)->name, (*b)->name);

    return cmp                          ? cmp
           : (*a)->proto != (*b)->proto ? ((*a)->proto > (*b)->proto) * 2 - 1
                                        : (*a > *b) - (*a < *b);
}

/* Of ports with the same name and protocol the first stays. */
static void
drop_duplicate_ports(struct jcur *c, struct svc_reader *r)
{
    struct svc *svc = r->svc;
    struct svc_port **sorted;
    size_t n = 0;

    if (svc->n_ports < 2) {
        return;
    }
    sorted = jcur_alloc(c, svc->n_ports * sizeof *sorted);
    for (size_t i = 0; i < svc->n_ports; i++) {
        sorted[i] = &svc->ports[i];
    }
    qsort(sorted, svc->n_ports, sizeof *sorted, compare_ports);
    for (size_t i = svc->n_ports - 1; i > 0; i--) {
        if (!strcmp(sorted[i]->name, sorted[i - 1]->name)
            && sorted[i]->proto == sorted[i - 1]->proto) {
            sorted[i]->port = 0;
            if (!r->left_out->msg[0]) {
                err_set(r->left_out,
                        "spec.ports: found name \"%s\" and protocol %s more "
                        "than once",
                        sorted[i]->name, proto_name(sorted[i]->proto));
            }
        }
    }
    for (size_t i = 0; i < svc->n_ports; i++) {
        if (svc->ports[i].port) {
            svc->ports[n++] = svc->ports[i];
        }
    }
    svc->n_ports = n;
}

/* External addresses. */

static void
read_external_ip(struct jcur *c, void *reader_)
{
    struct svc_reader *r = reader_;
    struct svc *svc = r->svc;
    struct ip ip;

    if (decode_try_ip(c, &ip, r->left_out)) {
        svc->external_ips =
            decode_room(c, svc->external_ips, svc->n_external_ips, sizeof ip);
        svc->external_ips[svc->n_external_ips++] = ip;
    }
}

static void
read_external_ips(struct jcur *c, void *reader_)
{
    struct svc_reader *r = reader_;

    r->svc->n_external_ips = 0;
    jcur_array(c, DECODE_ADDRS_MAX, read_external_ip, r);
}

static void
read_source_range(struct jcur *c, void *reader_)
{
    struct svc_reader *r = reader_;
    struct svc *svc = r->svc;
    struct cidr range;

    if (decode_try_cidr(c, &range, r->left_out)) {
        svc->source_ranges = decode_room(c, svc->source_ranges,
                                         svc->n_source_ranges, sizeof range);
        svc->source_ranges[svc->n_source_ranges++] = range;
    }
}

static void
read_source_ranges(struct jcur *c, void *reader_)
{
    struct svc_reader *r = reader_;

    r->svc->n_source_ranges = 0;
    jcur_array(c, DECODE_RANGES_MAX, read_source_range, r);
}

/* Affinity. */

static void
read_affinity(struct jcur *c, void *reader_)
{
    static const char *const names[] = { "None", "ClientIP" };
    struct svc_reader *r = reader_;

    r->affine = decode_choice(c, names, ARRAY_SIZE(names), 0);
}

static void
read_timeout(struct jcur *c, void *reader_)
{
    struct svc_reader *r = reader_;
    int64_t timeout_s = 0;

    r->timeout_s = AFFINITY_DEFAULT_S;
    if (!jcur_null(c)
        && decode_try_int(c, 1, AFFINITY_MAX_S, &timeout_s, r->left_out)) {
        r->timeout_s = timeout_s;
    }
}

static void
read_client_ip(struct jcur *c, void *reader_)
{
    static const struct jcur_member members[] = {
        JCUR_MEMBER("timeoutSeconds", read_timeout),
    };
    struct svc_reader *r = reader_;

    r->timeout_s = AFFINITY_DEFAULT_S;
    jcur_object(c, members, ARRAY_SIZE(members), r);
}

static void
read_affinity_config(struct jcur *c, void *reader_)
{
    static const struct jcur_member members[] = {
        JCUR_MEMBER("clientIP", read_client_ip),
    };
    struct svc_reader *r = reader_;

    r->timeout_s = AFFINITY_DEFAULT_S;
    jcur_object(c, members, ARRAY_SIZE(members), r);
}

/* The rest of the spec. */

static enum svc_policy
read_policy(struct jcur *c)
{
    static const char *const names[] = {
        [SVC_POLICY_CLUSTER] = "Cluster",
        [SVC_POLICY_LOCAL] = "Local",
    };

    return decode_choice(c, names, ARRAY_SIZE(names), SVC_POLICY_CLUSTER);
}

static void
read_external_policy(struct jcur *c, void *reader_)
{
    struct svc_reader *r = reader_;

    r->svc->external_policy = read_policy(c);
}

static void
read_internal_policy(struct jcur *c, void *reader_)
{
    struct svc_reader *r = reader_;

    r->svc->internal_policy = read_policy(c);
}

static void
read_health_port(struct jcur *c, void *reader_)
{
    struct svc_reader *r = reader_;

    r->svc->health_port = jcur_int(c, 0, UINT16_MAX, 0);
}

static void
read_publish_not_ready(struct jcur *c, void *reader_)
{
    struct svc_reader *r = reader_;

    r->svc->publish_not_ready = jcur_bool(c, false);
}

/* An external IP needs a cluster IP of its family. */
static void
check_families(const struct svc_reader *r)
{
    const struct svc *svc = r->svc;

    for (size_t i = 0; i < svc->n_external_ips; i++) {
        enum ip_family family = ip_family(&svc->external_ips[i]);
        char buf[IP_STRLEN];

        if (ip_is_none(&svc->cluster_ips[family])
            && !ip_is_none(&svc->cluster_ips[!family])
            && !r->left_out->msg[0]) {
            err_set(r->left_out,
                    "spec.externalIPs: found \"%s\" in a Service without "
                    "%s cluster IP",
                    ip_to_string(&svc->external_ips[i], buf),
                    ip_family_name(family));
        }
    }
}

static void
read_spec(struct jcur *c, struct svc_reader *r)
{
    static const struct jcur_member members[] = {
        JCUR_MEMBER("ports", read_ports),
        JCUR_MEMBER("clusterIP", read_cluster_ip),
        JCUR_MEMBER("clusterIPs", read_cluster_ips),
        JCUR_MEMBER("ipFamilies", read_families),
        JCUR_MEMBER("type", read_type),
        JCUR_MEMBER("externalIPs", read_external_ips),
        JCUR_MEMBER("loadBalancerSourceRanges", read_source_ranges),
        JCUR_MEMBER("sessionAffinity", read_affinity),
        JCUR_MEMBER("sessionAffinityConfig", read_affinity_config),
        JCUR_MEMBER("externalTrafficPolicy", read_external_policy),
        JCUR_MEMBER("internalTrafficPolicy", read_internal_policy),
        JCUR_MEMBER("healthCheckNodePort", read_health_port),
        JCUR_MEMBER("publishNotReadyAddresses", read_publish_not_ready),
    };

    jcur_object(c, members, ARRAY_SIZE(members), r);
    if (c->failed) {
        return;
    }
    choose_cluster_ips(r);
    drop_duplicate_ports(c, r);
    check_families(r);
    r->svc->affinity_s = r->affine ? r->timeout_s : 0;
}

/* Status. */

struct ingress_reader {
    struct svc_ingress ingress;
    struct err *left_out;
};

/* An entry may have a host name only, and nobody keeps a load balancer from
 * reporting an address such as 127.0.0.1. */
static void
read_ingress_ip(struct jcur *c, void *reader_)
{
    struct ingress_reader *r = reader_;
    const char *at = jcur_here(c);

    memset(&r->ingress.ip, 0, sizeof r->ingress.ip);
    if (jcur_string(c).n) {
        jcur_reread(c, at);
        if (!decode_try_ip(c, &r->ingress.ip, r->left_out)) {
            memset(&r->ingress.ip, 0, sizeof r->ingress.ip);
        }
    }
}

static void
read_ingress_mode(struct jcur *c, void *reader_)
{
    struct ingress_reader *r = reader_;
    struct jstr mode = jcur_string(c);

    /* A mode of the future, too, is somebody else's. */
    r->ingress.proxy = mode.n && !jstr_equals(mode, "VIP");
}

static void
read_ingress(struct jcur *c, void *reader_)
{
    static const struct jcur_member members[] = {
        JCUR_MEMBER("ip", read_ingress_ip),
        JCUR_MEMBER("ipMode", read_ingress_mode),
    };
    struct svc_reader *r = reader_;
    struct svc *svc = r->svc;
    struct ingress_reader ir = { .left_out = r->left_out };

    jcur_object(c, members, ARRAY_SIZE(members), &ir);
    if (!ip_is_none(&ir.ingress.ip)) {
        svc->ingress =
            decode_room(c, svc->ingress, svc->n_ingress, sizeof *svc->ingress);
        svc->ingress[svc->n_ingress++] = ir.ingress;
    }
}

static void
read_ingresses(struct jcur *c, void *reader_)
{
    struct svc_reader *r = reader_;

    r->svc->n_ingress = 0;
    jcur_array(c, DECODE_ADDRS_MAX, read_ingress, r);
}

static void
read_load_balancer(struct jcur *c, void *reader_)
{
    static const struct jcur_member members[] = {
        JCUR_MEMBER("ingress", read_ingresses),
    };
    struct svc_reader *r = reader_;

    r->svc->n_ingress = 0;
    jcur_object(c, members, ARRAY_SIZE(members), r);
}

void
decode_svc(struct decode_doc *doc, struct svc *ret)
{
    static const struct jcur_member status_members[] = {
        JCUR_MEMBER("loadBalancer", read_load_balancer),
    };
    struct svc_reader r = {
        .svc = ret,
        .left_out = doc->left_out,
        .timeout_s = AFFINITY_DEFAULT_S,
    };

    *ret = (struct svc){
        .meta = doc->meta.meta,
        .proxy_name = doc->meta.proxy_name,
        .mc_imported = doc->meta.mc_imported,
    };
    if (decode_goto(doc, PART_SPEC)) {
        read_spec(doc->c, &r);
    }
    if (decode_goto(doc, PART_STATUS)) {
        jcur_object(doc->c, status_members, ARRAY_SIZE(status_members), &r);
    }
}
