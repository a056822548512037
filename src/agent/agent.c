/* SPDX-License-Identifier: Apache-2.0 */

/* Owns the machines and runs them in the order in which data flows. */

#include "ofproxyd/agent/agent.h"

#include <openvswitch/poll-loop.h>
#include <openvswitch/vlog.h>

#include <random.h>
#include <timeval.h>
#include <util.h>

#include "affinity.h"
#include "agent-private.h"
#include "ofproxyd/base/memory.h"
#include "ofproxyd/pipeline/tables.h"

VLOG_DEFINE_THIS_MODULE(agent);

/* The numbers of ports that we make (Antrea's). */
#define GATEWAY_OFPORT 32769
#define TUNNEL_OFPORT  32768

/* The register whose value learned flows match: ServiceGroupID. */
#define LEARNED_REG 7

/* How long one turn may render: probes, echo requests and the control socket
 * are to be answered within 100 ms. */
#define RENDER_MS         20

#define REPLY_DEADLINE_MS 10000

/* How long deletions wait for a picture that takes several turns. */
#define KEEP_MS 1000

/* Open vSwitch revalidates what its datapath has cached within milliseconds,
 * or tenths of a second with very many entries. */
#define GROUP_LINGER_MS 300

/* Fewer objects, endpoints, flows and groups, about half a MB, are not worth
 * looking for. */
#define TRIM_MIN 1000

/* Of a URL that names none (RFC 9110 4.2.1 and 4.2.2). */
#define DEFAULT_HTTP_PORT  80
#define DEFAULT_HTTPS_PORT 443

/* Rejects answered in one turn. */
#define REJECTS_PER_TURN 64

static void
create_ovsdb(struct agent *a)
{
    struct ovsdb_table_name *tables = xmalloc(n_pipe_tables * sizeof *tables);
    char *remote = xasprintf("unix:%s/db.sock", a->cfg->ovs_run_dir);
    struct ovsdb_cfg cfg = {
        .remote = remote,
        .bridge = a->cfg->ovs_bridge,
        .datapath_type = a->cfg->ovs_datapath_type == CFG_DATAPATH_NETDEV
                             ? "netdev"
                             : "system",
        .gateway = a->cfg->host_gateway,
        .gateway_ofport = GATEWAY_OFPORT,
        .tables = tables,
        .n_tables = n_pipe_tables,
        .layout = COOKIE_LAYOUT,
        .tunnel_type = cfg_tunnel_type_to_string(a->cfg->tunnel_type),
        .tunnel_port = a->cfg->tunnel_port,
        .tunnel_csum = a->cfg->tunnel_csum,
        .tunnel_ofport = TUNNEL_OFPORT,
    };

    if (cfg_has_tunnel(a->cfg)) {
        cfg.tunnel = CFG_TUNNEL_PORT_NAME;
    }

    for (size_t i = 0; i < n_pipe_tables; i++) {
        tables[i].id = pipe_tables[i].id;
        tables[i].name = pipe_tables[i].name;
        tables[i].flow_limit =
            pipe_tables[i].id == PIPE_T_AFFINITY ? AFFINITY_MAX_CLIENTS : 0;
    }
    a->ovsdb = ovsdb_create(&cfg);
    free(tables);
    free(remote);
}

static bool
table_is_ours(uint8_t table_id)
{
    for (size_t i = 0; i < n_pipe_tables; i++) {
        if (pipe_tables[i].id == table_id) {
            return true;
        }
    }
    return false;
}

static void
create_ofconn(struct agent *a)
{
    char *target =
        xasprintf("unix:%s/%s.mgmt", a->cfg->ovs_run_dir, a->cfg->ovs_bridge);
    struct ofconn_cfg cfg = {
        .target = target,
        .flowtab = a->flowtab,
        .meter_id = LOCAL_METER_ID,
        .n_meters = PIPE_N_METERS,
        .meter_rate_pps = DIV_ROUND_UP(a->cfg->packet_in_rate, PIPE_N_METERS),
        .reply_deadline_ms = REPLY_DEADLINE_MS,
        .table_is_ours = table_is_ours,
        .learned_reg = LEARNED_REG,
    };

    a->ofconn = ofconn_create(&cfg);
    free(target);
}

static void
create_nodeips(struct agent *a)
{
    const char *ours[] = { a->cfg->host_gateway, a->cfg->ovs_bridge,
                           CFG_TUNNEL_PORT_NAME };

    a->nodeips = nodeips_create();
    nodeips_set(a->nodeips,
                &(struct nodeips_want){
                    .not_ifaces = ours,
                    .n_not_ifaces = ARRAY_SIZE(ours),
                    .cidrs = a->cfg->antrea_proxy_node_port_addresses.cidrs,
                    .n_cidrs = a->cfg->antrea_proxy_node_port_addresses.n,
                });
}

const char *
agent_multicluster_ns(const struct cfg *cfg)
{
    const char *own = getenv("POD_NAMESPACE");

    if (!cfg->multicluster_enable_gateway) {
        return NULL;
    }
    if (cfg->multicluster_namespace[0]) {
        return cfg->multicluster_namespace;
    }
    return own && own[0] ? own : "kube-system";
}

static int
create_kube(struct agent *a, const struct agent_cfg *cfg, struct err *err)
{
    const struct kubeconfig *k = cfg->kubeconfig;
    struct kube_cfg kube = {
        .server = k->server,
        .ca_file = k->ca_file,
        .ca_data = k->ca_data,
        .client_cert_file = k->client_cert_file,
        .client_cert_data = k->client_cert_data,
        .client_key_file = k->client_key_file,
        .client_key_data = k->client_key_data,
        .token = k->token,
        .token_file = k->token_file,
        .tls_server_name = k->tls_server_name,
        .insecure_skip_tls_verify = k->insecure_skip_tls_verify,
        .service_proxy_name = a->cfg->antrea_proxy_service_proxy_name,
        .multicluster_ns = agent_multicluster_ns(a->cfg),
        .seed = cfg->seed,
    };

    return kube_create(&kube, a->model, &a->kube, err);
}

/* The address in "https://HOST:PORT/PATH", "::" if HOST is a name, and the
 * port.  The URL has been checked when it was read. */
static struct ip
server_addr(const char *url, uint16_t *port)
{
    const char *host = strstr(url, "://");
    const char *end;
    char text[IP_STRLEN];
    struct ip ip;

    host = host ? host + strlen("://") : url;
    host += *host == '[';
    end = host + strcspn(host, host[-1] == '[' ? "]" : ":/");
    ovs_strlcpy(text, host, MIN(sizeof text, (size_t) (end - host) + 1));
    if (ip_from_string(text, &ip)) {
        memset(&ip, 0, sizeof ip);
    }
    end += *end == ']';
    *port = *end == ':'                   ? atoi(end + 1)
            : !strncmp(url, "http://", 7) ? DEFAULT_HTTP_PORT
                                          : DEFAULT_HTTPS_PORT;
    return ip;
}

static struct stale *
create_stale(const struct agent *a)
{
    char *path = stale_path(a->cfg);
    struct stale *stale = stale_create(a->flowtab, path);

    free(path);
    return stale;
}

/* Services, and those who want to know of each. */
static void
create_services(struct agent *a, const struct ip *server, uint16_t port)
{
    a->hchecks = hchecks_create();
    a->stale = create_stale(a);
    a->services = services_create(&(struct services_cfg){
        .model = a->model,
        .flowtab = a->flowtab,
        .cfg = a->cfg,
        .kube = a->kube,
        .stale = a->stale,
        .observer = agent_observe_service,
        .observer_aux = a,
        .server = *server,
        .server_port = port,
    });
}

/* This node and the others, and the ways between them. */
static void
create_network(struct agent *a, const struct ip *server)
{
    a->svccidrs = svccidrs_create(a->model, a->cfg, server);
    a->mc = mc_create(a->model, a->cfg, a->svccidrs, a->flowtab);
    a->mccount = mccount_create();
    a->local = local_create(&(struct local_cfg){
        .model = a->model,
        .flowtab = a->flowtab,
        .host = a->host,
        .cfg = a->cfg,
        .svccidrs = a->svccidrs,
        .mc = a->mc,
        .server = *server,
    });
    a->net = net_create(&(struct net_cfg){
        .model = a->model,
        .flowtab = a->flowtab,
        .rules = a->rules,
        .kube = a->kube,
        .cfg = a->cfg,
        .server = *server,
    });
    a->ways = ways_create(&(struct ways_cfg){
        .host = a->host,
        .rules = a->rules,
        .nodeips = a->nodeips,
        .services = a->services,
        .net = a->net,
        .local = a->local,
        .svccidrs = a->svccidrs,
        .cfg = a->cfg,
    });
}

int
agent_create(const struct agent_cfg *cfg, struct agent **ret, struct err *err)
{
    struct agent *a = xzalloc(sizeof *a);
    uint16_t port;
    struct ip server = server_addr(cfg->kubeconfig->server, &port);
    int error;

    a->cfg = cfg->cfg;
    a->pacer = (struct pacer) PACER_INIT;
    a->retry_ms = LLONG_MAX;
    a->undrained_ms = LLONG_MAX;
    metrics_init(&a->metrics, time_wall_usec() * INT64_C(1000));
    a->model = model_create(cfg->node_name);
    error = create_kube(a, cfg, err);
    if (error) {
        model_destroy(a->model);
        metrics_uninit(&a->metrics);
        free(a);
        return error;
    }
    a->flowtab = flowtab_create();
    flowtab_set_linger(a->flowtab, GROUP_LINGER_MS);
    a->host = host_create();
    a->rules = rules_create();
    create_nodeips(a);
    create_services(a, &server, port);
    create_network(a, &server);
    create_ovsdb(a);
    create_ofconn(a);
    a->takeover = takeover_create(&(struct takeover_cfg){
        .bridge = a->cfg->ovs_bridge,
        .flowtab = a->flowtab,
        .ofconn = a->ofconn,
        .ovsdb = a->ovsdb,
    });
    a->learned = learned_create(a->services, a->flowtab, a->ofconn);
    *ret = a;
    return 0;
}

void
agent_destroy(struct agent *a)
{
    if (!a) {
        return;
    }
    kube_destroy(a->kube);
    takeover_destroy(a->takeover);
    learned_destroy(a->learned);
    ofconn_destroy(a->ofconn);
    ovsdb_destroy(a->ovsdb);
    ways_destroy(a->ways);
    local_destroy(a->local);
    flowtab_destroy(a->flowtab);
    net_destroy(a->net);
    mc_destroy(a->mc);
    mccount_destroy(a->mccount);
    svccidrs_destroy(a->svccidrs);
    services_destroy(a->services);
    nodeips_destroy(a->nodeips);
    stale_destroy(a->stale);
    rules_destroy(a->rules);
    host_destroy(a->host);
    hchecks_destroy(a->hchecks);
    model_destroy(a->model);
    metrics_uninit(&a->metrics);
    free(a);
}

/* Services and other nodes are rendered when everything has been listed and,
 * the first time, the switch was read: it knows the object ids that were in
 * use. */
static bool
may_render(const struct agent *a)
{
    return model_settled(a->model) && (a->complete || ofconn_is_up(a->ofconn));
}

/* Who sent a packet by a tunnel; "::" if it came by none. */
static struct in6_addr
tunnel_sender(const struct flow_tnl *tunnel)
{
    return tunnel->ip_src ? ip_from_v4(tunnel->ip_src).in6 : tunnel->ipv6_src;
}

/* Rejects: packets that found a Service without endpoints. */
static void
answer_rejects(struct agent *a)
{
    for (int i = 0; i < REJECTS_PER_TURN; i++) {
        struct ofputil_packet_in pin;
        uint8_t reply[PIPE_REJECT_MAX];
        void *packet;
        size_t len;

        if (!ofconn_pop_packet_in(a->ofconn, &pin, &packet)) {
            return;
        }
        len = pipe_build_reject(pin.packet, pin.packet_len, reply);
        if (len) {
            const struct flow *flow = &pin.flow_metadata.flow;
            struct in6_addr sender = tunnel_sender(&flow->tunnel);

            ofconn_packet_out(a->ofconn, flow->in_port.ofp_port, &sender,
                              reply, len);
            a->n_rejects++;
        }
        free(packet);
    }
    poll_immediate_wake();
}

/* There is nothing to connect to before the bridge exists; and when it was
 * made anew, no need to wait out the backoff of a connection that broke. */
static void
run_ofconn(struct agent *a, const struct ovsdb_state *db)
{
    if (db->bridge_ok && !a->bridge_ok) {
        ofconn_kick(a->ofconn);
    }
    a->bridge_ok = db->bridge_ok;
    a->bridge_seen |= db->bridge_ok;
    if (a->bridge_seen) {
        ofconn_run(a->ofconn);
    }
}

/* The first picture is complete also if there are no Services in it. */
static bool
has_work(const struct agent *a)
{
    return (may_render(a) && (services_has_work(a->services) || !a->complete))
           || a->local_changed;
}

/* The first picture waits for nothing that may come yet. */
static bool
round_is_due(const struct agent *a)
{
    return pacer_is_due(&a->pacer, time_msec())
           || (may_render(a) && !a->complete);
}

/* What the next confirmation of the switch will be about. */
static void
take_measures(struct agent *a)
{
    uint64_t n_events[N_MODEL_KINDS];
    size_t n_triggers;
    struct model_trigger *triggers =
        model_take_triggers(a->model, &n_triggers);

    for (int kind = 0; kind < N_MODEL_KINDS; kind++) {
        struct kube_kind_stats s;

        kube_get_stats(a->kube, kind, &s);
        n_events[kind] = s.n_events;
    }
    metrics_taken(&a->metrics, n_events, triggers, n_triggers);
}

/* An address that one Service, or port of a Service, has given away may be
 * another's by the time that all is rendered, which can take several turns.
 * Where changes come faster than that, there may be no such time. */
static void
keep_undrained(struct agent *a, bool drained, long long int now_ms)
{
    a->undrained_ms = drained ? LLONG_MAX : MIN(a->undrained_ms, now_ms);
    flowtab_set_keep(a->flowtab,
                     !drained && now_ms < a->undrained_ms + KEEP_MS);
}

/* One round: the newest state of everything that changed goes to the flow
 * table, and from there to the switch. */
static void
run_round(struct agent *a)
{
    long long int start_ms = time_msec();
    uint64_t before = services_n_changes(a->services);
    bool drained = true;

    if (may_render(a)) {
        drained = services_run(a->services, start_ms + RENDER_MS)
                  && net_is_drained(a->net);
        if (drained && !a->complete) {
            a->complete = true;
            local_adopt(a->local);
            net_adopt(a->net);
            mc_adopt(a->mc, local_node(a->local));
            stale_adopt(a->stale);
            flowtab_set_complete(a->flowtab, true);
            VLOG_INFO("first complete picture: from now on what is not "
                      "wanted is removed");
            if (!model_own_node(a->model)) {
                VLOG_WARN("there is no Node \"%s\": is that this node's name "
                          "(--node)?",
                          model_node_name(a->model));
            }
        }
    }
    a->local_changed = false;
    a->n_rounds++;
    a->n_rendered += services_n_changes(a->services) - before;
    keep_undrained(a, drained, time_msec());
    ofconn_flush(a->ofconn);
    if (drained) {
        take_measures(a);
        latency_sent(&a->latency);
        pacer_done(&a->pacer, time_msec());
    } else {
        poll_immediate_wake();
    }
}

static void
run_takeover(struct agent *a)
{
    takeover_run(a->takeover, a->complete && local_is_ready(a->local));
}

/* Objects that the switch refused, and whose time to be tried again has come,
 * and groups that may go now.  (What others change on the bridge the
 * connection repairs by itself.) */
static void
run_flowtab(struct agent *a)
{
    long long int now_ms = time_msec();
    bool due = now_ms >= a->retry_ms;

    a->retry_ms = flowtab_run(a->flowtab, now_ms);
    if (due) {
        ofconn_flush(a->ofconn);
    }
}

/* When most of what was kept has gone, its memory goes back to the system,
 * which free() alone leaves undone. */
static void
trim_memory(struct agent *a)
{
    struct model_counts m;
    struct flowtab_stats f;
    size_t n;

    model_count(a->model, &m);
    flowtab_get_stats(a->flowtab, &f);
    n = m.n[MODEL_SERVICES] + m.n[MODEL_SLICES] + m.n_endpoints + f.n_flows
        + f.n_groups + f.n_unwanted;
    a->n_kept_peak = MAX(a->n_kept_peak, n);
    if (a->n_kept_peak - n > MAX(n, TRIM_MIN)) {
        memory_trim();
        a->n_kept_peak = n;
    }
}

/* The switch has confirmed all that was read. */
static void
measure(struct agent *a)
{
    struct flowtab_stats stats;
    bool sent;

    /* Groups that linger are no reason to wait. */
    flowtab_get_stats(a->flowtab, &stats);
    sent = ofconn_is_up(a->ofconn) && !stats.n_dirty && !stats.n_in_flight;

    /* Nor is what the switch refused one not to forward the rest. */
    ovsdb_set_filled(a->ovsdb, sent && a->complete);
    if (sent && a->complete) {
        metrics_confirmed(&a->metrics, time_usec(), time_wall_usec());
    }
    if (sent && !stats.n_set_aside) {
        latency_confirmed(&a->latency, time_usec());
        if (a->complete && latency_first_sync(&a->latency, time_usec())) {
            memory_trim_after_start();
        }
    }
}

/* This node and the others. */
static void
run_network(struct agent *a, const struct ovsdb_state *db)
{
    const struct nodeips_state *ips = nodeips_state(a->nodeips);

    nodeips_run(a->nodeips);
    if (ips->seqno != a->ips_seqno) {
        a->ips_seqno = ips->seqno;
        services_set_node_ips(a->services, ips->ips, ips->n_ips);
    }
    net_run_uplink(a->net);
    if (may_render(a)) {
        size_t n;
        const struct cidr *cidrs;

        svccidrs_run(a->svccidrs, net_uplink(a->net));
        cidrs = svccidrs_get(a->svccidrs, &n);
        if (a->cfg->multicluster_enable_gateway) {
            services_set_nesting(a->services, cidrs, n);
        }
        mc_run(a->mc);
    }
    a->local_changed |= local_run(a->local, db, net_uplink(a->net), ips,
                                  a->complete && net_is_known(a->net));
    services_set_gateway_ips(a->services, local_node(a->local)->gateway_ips);
    stale_set_node_ips(a->stale, local_node(a->local)->node_port_ips,
                       local_node(a->local)->n_node_port_ips);
    stale_set_source(a->stale, &local_node(a->local)->mc_gateway_ip);
    a->local_changed |=
        net_run(a->net, local_node(a->local), may_render(a), a->complete);
    if (may_render(a)) {
        a->local_changed |= mc_render(a->mc, local_node(a->local));
    }
    ovsdb_set_gateway_mtu(a->ovsdb, net_mtu(a->net));
}

static void
note_stale_peer(const struct mc_peer *peer, void *stale)
{
    for (size_t i = 0; i < peer->n_gateways; i++) {
        stale_note_peer(stale, &peer->gateways[i]);
    }
}

void
agent_run(struct agent *a)
{
    const struct ovsdb_state *db;
    long long int start_us = time_usec();

    kube_run(a->kube);
    if (model_settled(a->model) && latency_listed(&a->latency, time_usec())) {
        /* The most is in use when all is rendered: not with this, too. */
        memory_trim_after_start();
    }
    ovsdb_run(a->ovsdb);
    db = ovsdb_state(a->ovsdb);
    run_network(a, db);

    if (has_work(a)) {
        pacer_ask(&a->pacer, time_msec());
        latency_read(&a->latency, start_us);
        metrics_read(&a->metrics, start_us, time_wall_usec());
    }
    if (round_is_due(a)) {
        run_round(a);
    }
    if (a->complete) {
        /* Not only with a round: when the gateway's addresses change, routes
         * with the old ones as their source must not stay wanted. */
        ways_run(a->ways);
    }
    run_takeover(a); /* What to look for, before it is looked at. */
    if (stale_has_taken_over(a->stale)) {
        mc_for_each(a->mc, note_stale_peer, a->stale);
    }
    stale_save(a->stale);
    run_ofconn(a, db);
    run_flowtab(a);
    stale_run(a->stale, a->ofconn); /* As soon as flows are confirmed. */
    run_takeover(a); /* What came of it: the next turn may be far. */
    learned_run(a->learned, a->complete && !has_work(a));
    answer_rejects(a);
    mccount_run(a->mccount, a->mc, a->ofconn);
    host_run(a->host);
    ovsdb_set_gateway_lost(a->ovsdb, host_gateway_is_lost(a->host));
    rules_run(a->rules);
    report_set_aside(a);
    measure(a);
    agent_run_health(a);
    trim_memory(a);
}

void
agent_wait(struct agent *a)
{
    kube_wait(a->kube);
    ovsdb_wait(a->ovsdb);
    if (a->bridge_seen) {
        ofconn_wait(a->ofconn);
    }
    learned_wait(a->learned);
    host_wait(a->host);
    rules_wait(a->rules);
    nodeips_wait(a->nodeips);
    net_wait(a->net);
    stale_wait(a->stale);
    mccount_wait(a->mccount, a->mc, a->ofconn);
    if (a->pacer.due_ms != LLONG_MAX) {
        poll_timer_wait_until(a->pacer.due_ms);
    }
    if (a->retry_ms != LLONG_MAX) {
        poll_timer_wait_until(a->retry_ms);
    }
}
