/* SPDX-License-Identifier: Apache-2.0 */

/* Says once in the log, and to the API server, what is wrong with a
 * Service. */

#include "notice.h"

#include <openvswitch/vlog.h>

VLOG_DEFINE_THIS_MODULE(notice);

void
notice_event(struct kube *kube, const struct model_service *ms,
             enum event_reason reason, const char *note)
{
    if (kube && ms && ms->svc) {
        struct event_ref ref = {
            .api_version = "v1",
            .kind = "Service",
            .ns = ms->ns,
            .name = ms->name,
            .uid = ms->svc->meta.uid,
        };

        events_emit(kube, &ref, reason, note);
    }
}

static const struct model_service *
find_service(const struct model *model, const struct unit *u)
{
    return model_find_service(model, u->ns, u->name);
}

void
notice_conflict(struct kube *kube, const struct model *model,
                const struct unit *u, const struct addr *lost,
                const struct unit *winner)
{
    static struct vlog_rate_limit rl = VLOG_RATE_LIMIT_INIT(10, 20);
    struct ds ds = DS_EMPTY_INITIALIZER;
    struct ip of_node = pipe_node_port_ip(ip_family(&lost->ip));
    char ip[IP_STRLEN];

    unit_format(u, &ds);
    if (ip_equals(&lost->ip, &of_node)) {
        ds_put_format(&ds,
                      ": what reaches port %u at an address of this node from "
                      "outside or from the node",
                      lost->port);
    } else if (lost->kind == PIPE_NODE_PORT) {
        ds_put_format(&ds, ": NodePort %u", lost->port);
    } else {
        ds_put_format(&ds, ": address %s, port %u",
                      ip_to_string(&lost->ip, ip), lost->port);
    }
    ds_put_cstr(&ds, " belongs to ");
    unit_format(winner, &ds);
    ds_put_cstr(&ds, ", which comes first");
    VLOG_WARN_RL(&rl, "Service %s", ds_cstr(&ds));
    ds_put_cstr(&ds, " (the older Service, or of equally old ones the first "
                     "by name); until that goes it isn't served here");
    notice_event(kube, find_service(model, u), EVENT_ADDRESS_CONFLICT,
                 ds_cstr(&ds));
    ds_destroy(&ds);
}

void
notice_loop(struct kube *kube, const struct model *model, const struct unit *u,
            const struct eps *ep, const struct unit *to)
{
    static struct vlog_rate_limit rl = VLOG_RATE_LIMIT_INIT(10, 20);
    struct ds ds = DS_EMPTY_INITIALIZER;
    char ip[IP_STRLEN];

    unit_format(u, &ds);
    ds_put_format(&ds, ": endpoint %s, port %u, is ",
                  ip_to_string(&ep->ip, ip), ep->port);
    if (to == u) {
        ds_put_cstr(&ds, "its own cluster IP");
    } else {
        ds_put_cstr(&ds, "the cluster IP of ");
        unit_format(to, &ds);
        ds_put_cstr(&ds, ", which has cluster IPs as endpoints itself");
    }
    ds_put_cstr(&ds, ": connections that get it are rejected");
    VLOG_WARN_RL(&rl, "Service %s", ds_cstr(&ds));
    notice_event(kube, find_service(model, u), EVENT_ENDPOINT_LOOP,
                 ds_cstr(&ds));
    ds_destroy(&ds);
}

void
notice_left_out(struct kube *kube, const struct model *model,
                const struct unit *u, const char *why)
{
    static struct vlog_rate_limit rl = VLOG_RATE_LIMIT_INIT(1, 5);
    struct ds ds = DS_EMPTY_INITIALIZER;

    unit_format(u, &ds);
    ds_put_format(&ds, ": %s", why);
    VLOG_WARN_RL(&rl, "Service %s", ds_cstr(&ds));
    notice_event(kube, find_service(model, u), EVENT_LEFT_OUT, ds_cstr(&ds));
    ds_destroy(&ds);
}
