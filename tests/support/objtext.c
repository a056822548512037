/* SPDX-License-Identifier: Apache-2.0 */
/* Model objects as text: one block of lines for each, every field named. */

#include "objtext.h"

#include <inttypes.h>

#include <util.h>

static void
put_ip(struct ds *ds, const char *what, const struct ip *ip)
{
    char buf[IP_STRLEN];

    ds_put_format(ds, " %s=%s", what, ip_to_string(ip, buf));
}

static void
put_cidr(struct ds *ds, const char *what, const struct cidr *cidr)
{
    char buf[CIDR_STRLEN];

    ds_put_format(ds, " %s=%s", what, cidr_to_string(cidr, buf));
}

static void
put_meta(struct ds *ds, enum model_kind kind, const struct obj_meta *meta)
{
    ds_put_format(ds, "%s %s/%s uid=%s version=%" PRIu64 " created=%" PRId64,
                  model_kind_name(kind), meta->ns, meta->name, meta->uid,
                  meta->version, meta->created_s);
}

static void
put_svc(struct ds *ds, const struct svc *svc)
{
    static const char *const types[] = { "ClusterIP", "NodePort",
                                         "LoadBalancer", "ExternalName" };

    put_meta(ds, MODEL_SERVICES, &svc->meta);
    ds_put_format(ds, "\n  %s%s ext=%s int=%s affinity=%" PRIu32 " health=%d",
                  types[svc->type], svc->headless ? " headless" : "",
                  svc->external_policy ? "Local" : "Cluster",
                  svc->internal_policy ? "Local" : "Cluster", svc->affinity_s,
                  svc->health_port);
    ds_put_cstr(ds, svc->publish_not_ready ? " not-ready" : "");
    ds_put_cstr(ds, svc->mc_imported ? " imported" : "");
    if (svc->proxy_name) {
        ds_put_format(ds, " proxy=\"%s\"", svc->proxy_name);
    }
    for (size_t i = 0; i < N_IP_FAMILIES; i++) {
        if (!ip_is_none(&svc->cluster_ips[i])) {
            put_ip(ds, ip_family_name(i), &svc->cluster_ips[i]);
        }
    }
    for (size_t i = 0; i < svc->n_external_ips; i++) {
        put_ip(ds, "external", &svc->external_ips[i]);
    }
    for (size_t i = 0; i < svc->n_ingress; i++) {
        put_ip(ds, svc->ingress[i].proxy ? "proxied" : "ingress",
               &svc->ingress[i].ip);
    }
    for (size_t i = 0; i < svc->n_source_ranges; i++) {
        put_cidr(ds, "from", &svc->source_ranges[i]);
    }
    for (size_t i = 0; i < svc->n_ports; i++) {
        const struct svc_port *port = &svc->ports[i];

        ds_put_format(ds, "\n  port \"%s\" %s %d node=%d", port->name,
                      proto_name(port->proto), port->port, port->node_port);
    }
}

static void
put_endpoint(struct ds *ds, const struct slice_endpoint *ep)
{
    char buf[IP_STRLEN];

    ds_put_format(ds, "\n  endpoint %s", ip_to_string(&ep->ip, buf));
    ds_put_format(ds, " node=%s %s%s%s", ep->node ? ep->node : "(none)",
                  ep->ready ? "R" : "-", ep->serving ? "S" : "-",
                  ep->terminating ? "T" : "-");
    for (size_t i = 0; i < ep->n_zones; i++) {
        ds_put_format(ds, " zone=%s", ep->zones[i]);
    }
    for (size_t i = 0; i < ep->n_hint_nodes; i++) {
        ds_put_format(ds, " for-node=%s", ep->hint_nodes[i]);
    }
}

static void
put_slice(struct ds *ds, const struct slice *slice)
{
    put_meta(ds, MODEL_SLICES, &slice->meta);
    ds_put_format(ds, "\n  of %s %s", slice->service,
                  ip_family_name(slice->family));
    for (size_t i = 0; i < slice->n_ports; i++) {
        ds_put_format(ds, "\n  port \"%s\" %s %d", slice->ports[i].name,
                      proto_name(slice->ports[i].proto), slice->ports[i].port);
    }
    for (size_t i = 0; i < slice->n_endpoints; i++) {
        put_endpoint(ds, &slice->endpoints[i]);
    }
}

static void
put_node(struct ds *ds, const struct node *node)
{
    put_meta(ds, MODEL_NODES, &node->meta);
    ds_put_format(ds, "\n  zone=%s%s%s", node->zone,
                  node->deleting ? " deleting" : "",
                  node->to_be_deleted ? " to-be-deleted" : "");
    for (size_t i = 0; i < N_IP_FAMILIES; i++) {
        if (!ip_is_none(&node->transport[i])) {
            put_ip(ds, "transport", &node->transport[i]);
        }
    }
    for (size_t i = 0; i < node->n_pod_cidrs; i++) {
        put_cidr(ds, "pods", &node->pod_cidrs[i]);
    }
    for (size_t i = 0; i < node->n_addresses; i++) {
        put_ip(ds, node->addresses[i].external ? "external" : "internal",
               &node->addresses[i].ip);
    }
}

static void
put_service_cidr(struct ds *ds, const struct service_cidr *cidr)
{
    put_meta(ds, MODEL_SERVICE_CIDRS, &cidr->meta);
    for (size_t i = 0; i < cidr->n_cidrs; i++) {
        put_cidr(ds, "services", &cidr->cidrs[i]);
    }
}

static void
put_mc_gateway(struct ds *ds, const struct mc_gateway *gw)
{
    put_meta(ds, MODEL_MC_GATEWAYS, &gw->meta);
    put_ip(ds, "gateway", &gw->gateway_ip);
    put_ip(ds, "internal", &gw->internal_ip);
}

static void
put_mc_cluster(struct ds *ds, const struct mc_cluster *cluster)
{
    put_meta(ds, MODEL_MC_CLUSTERS, &cluster->meta);
    ds_put_format(ds, "\n  id=%s", cluster->cluster_id);
    put_cidr(ds, "services", &cluster->service_cidr);
    for (size_t i = 0; i < cluster->n_gateway_ips; i++) {
        put_ip(ds, "gateway", &cluster->gateway_ips[i]);
    }
    for (size_t i = 0; i < cluster->n_pod_cidrs; i++) {
        put_cidr(ds, "pods", &cluster->pod_cidrs[i]);
    }
}

void
objtext_format(const struct kube_object *object, struct ds *ds)
{
    if (object->svc) {
        put_svc(ds, object->svc);
    } else if (object->slice) {
        put_slice(ds, object->slice);
    } else if (object->node) {
        put_node(ds, object->node);
    } else if (object->kind == MODEL_SERVICE_CIDRS) {
        put_service_cidr(ds, CONTAINER_OF(object->plain, struct service_cidr,
                                          meta));
    } else if (object->kind == MODEL_MC_GATEWAYS) {
        put_mc_gateway(ds,
                       CONTAINER_OF(object->plain, struct mc_gateway, meta));
    } else if (object->kind == MODEL_MC_CLUSTERS) {
        put_mc_cluster(ds,
                       CONTAINER_OF(object->plain, struct mc_cluster, meta));
    } else {
        ds_put_format(ds, "%s %s/%s is ignored", model_kind_name(object->kind),
                      object->ns, object->name);
    }
    ds_put_char(ds, '\n');
}
