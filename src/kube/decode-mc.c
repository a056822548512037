/* SPDX-License-Identifier: Apache-2.0 */
/* JSON of the objects of Antrea Multi-cluster (multicluster.crd.antrea.io
 * v1alpha1): Gateway and ClusterInfoImport.
 *
 * The API server checks little of them, and half of one leads packets
 * astray: what is wrong makes the object bad.  But for further gateways of a
 * cluster and its pod networks, which it can do without. */

#include "decode-part.h"

#include <ctype.h>

#include <util.h>

/* Gateway. */

static void
read_part_ip(struct decode_doc *doc, enum decode_part part, struct ip *ret)
{
    if (decode_goto(doc, part)) {
        decode_ip(doc->c, NULL, ret);
    } else {
        jcur_fail(doc->c, "is missing");
    }
}

void
decode_mc_gateway(struct decode_doc *doc, struct mc_gateway *ret)
{
    *ret = (struct mc_gateway){ .meta = doc->meta.meta };
    read_part_ip(doc, PART_GATEWAY_IP, &ret->gateway_ip);
    read_part_ip(doc, PART_INTERNAL_IP, &ret->internal_ip);
}

/* ClusterInfoImport. */

struct cluster_reader {
    struct mc_cluster *cluster;
    struct err *left_out;
    bool has_service_cidr;
};

/* Its own cluster has chosen it, and terminals here will show it. */
static void
read_cluster_id(struct jcur *c, void *reader_)
{
    struct cluster_reader *r = reader_;
    const char *at = jcur_here(c);
    const char *id = jcur_text(c, DECODE_NAME_MAX);

    for (const char *p = id; *p; p++) {
        if (!isgraph((unsigned char) *p)) {
            jcur_mismatch(c, at, "letters, digits and signs");
            return;
        }
    }
    r->cluster->cluster_id = id;
}

static void
read_service_cidr(struct jcur *c, void *reader_)
{
    struct cluster_reader *r = reader_;
    struct cidr cidr;

    decode_cidr(c, &cidr);
    if (!c->failed) {
        r->cluster->service_cidr = cidr_network(&cidr);
        r->has_service_cidr = true;
    }
}

static void
read_pod_cidr(struct jcur *c, void *reader_)
{
    struct cluster_reader *r = reader_;
    struct mc_cluster *cluster = r->cluster;
    struct cidr cidr;

    if (decode_try_cidr(c, &cidr, r->left_out)) {
        cluster->pod_cidrs =
            decode_room(c, cluster->pod_cidrs, cluster->n_pod_cidrs,
                        sizeof *cluster->pod_cidrs);
        cluster->pod_cidrs[cluster->n_pod_cidrs++] = cidr_network(&cidr);
    }
}

static void
read_pod_cidrs(struct jcur *c, void *reader_)
{
    struct cluster_reader *r = reader_;

    r->cluster->n_pod_cidrs = 0;
    jcur_array(c, DECODE_MC_CIDRS_MAX, read_pod_cidr, r);
}

static void
read_gateway_ip(struct jcur *c, void *reader_)
{
    struct cluster_reader *r = reader_;
    struct mc_cluster *cluster = r->cluster;
    struct ip ip;

    if (decode_try_ip(c, &ip, r->left_out)) {
        cluster->gateway_ips =
            decode_room(c, cluster->gateway_ips, cluster->n_gateway_ips,
                        sizeof *cluster->gateway_ips);
        cluster->gateway_ips[cluster->n_gateway_ips++] = ip;
    }
}

static void
read_gateway_info(struct jcur *c, void *reader_)
{
    static const struct jcur_member members[] = {
        JCUR_MEMBER("gatewayIP", read_gateway_ip),
    };

    jcur_object(c, members, ARRAY_SIZE(members), reader_);
}

static void
read_gateway_infos(struct jcur *c, void *reader_)
{
    struct cluster_reader *r = reader_;

    r->cluster->n_gateway_ips = 0;
    jcur_array(c, DECODE_MC_GATEWAYS_MAX, read_gateway_info, r);
}

void
decode_mc_cluster(struct decode_doc *doc, struct mc_cluster *ret)
{
    static const struct jcur_member members[] = {
        JCUR_MEMBER("clusterID", read_cluster_id),
        JCUR_MEMBER("serviceCIDR", read_service_cidr),
        JCUR_MEMBER("podCIDRs", read_pod_cidrs),
        JCUR_MEMBER("gatewayInfos", read_gateway_infos),
    };
    struct cluster_reader r = { .cluster = ret, .left_out = doc->left_out };

    *ret = (struct mc_cluster){ .meta = doc->meta.meta, .cluster_id = "" };
    if (decode_goto(doc, PART_SPEC)) {
        jcur_object(doc->c, members, ARRAY_SIZE(members), &r);
    }
    if (!r.has_service_cidr) {
        jcur_missing(doc->c, "serviceCIDR");
    } else if (!ret->n_gateway_ips) {
        jcur_missing(doc->c, "gatewayInfos");
    }
}
