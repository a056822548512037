/* SPDX-License-Identifier: Apache-2.0 */
/* Services from the model to a simulated switch, in random histories: after
 * every step the incremental result equals the full rendering by a fresh
 * daemon, whatever order that one hears of the objects in; and a daemon that
 * restarts on what is installed has nothing to change.
 *
 * Two thirds of the histories are about Services whose object ids, those of
 * their ports or those of their cluster IPs, all want to be the same: there
 * ids depend on who came first, and "equal" leaves them out.
 *
 * AGENT_SEED=<seed> repeats a history (each prints its own), AGENT_RUNS=<n>
 * runs more of them. */

#include <ctype.h>
#include <inttypes.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <openvswitch/vlog.h>
#include <svec.h>
#include <util.h>

#include "../../src/agent/services.h"
#include "../support/envnum.h"
#include "../support/flowtext.h"
#include "../support/randobj.h"
#include "../support/simswitch.h"
#include "ofproxyd/base/hash.h"

#define N_STEPS 150
#define CROWD   8 /* Ids that the units of a crowd prefer. */
#define N_SVCS  RANDOBJ_N_SVCS
#define NS      RANDOBJ_NS

/* Whose ids want to be the same. */
enum crowd {
    NOBODY,
    UNITS,
    CLUSTER_IPS
};

struct names {
    char name[N_SVCS][16];
    enum crowd crowd;
};

/* What a daemon consists of here. */
struct daemon {
    struct model *model;
    struct flowtab *ft;
    struct services *services;
};

struct world {
    struct randobj rand;
    const struct names *names;
    struct cfg cfg;
    struct daemon d;
    struct simswitch *sim;
    struct ip node_ips[2 * N_IP_FAMILIES];
    size_t n_node_ips;

    /* The connection. */
    enum {
        DOWN,
        DUMP_FLOWS,
        DUMP_GROUPS,
        UP
    } state;
    struct flowtab_batch *batch;
    bool sent;
    uint64_t n_foreign_seen; /* Foreign changes heard of. */
    uint64_t n_foreign_at_take;
    long long int now_ms;
};

static uint32_t
draw(struct world *w, uint32_t n)
{
    return randobj_draw(&w->rand, n);
}

/* Daemons. */

static void
daemon_init(struct daemon *d, const struct cfg *cfg)
{
    d->model = model_create("n1");
    d->ft = flowtab_create();
    d->services = services_create(&(struct services_cfg){
        .model = d->model, .flowtab = d->ft, .cfg = cfg });
}

static void
daemon_uninit(struct daemon *d)
{
    flowtab_destroy(d->ft);
    services_destroy(d->services);
    model_destroy(d->model);
}

static void
daemon_render(struct daemon *d)
{
    assert_true(services_run(d->services, LLONG_MAX));
}

/* Objects. */

static void
put_svc(struct world *w, uint32_t i)
{
    w->rand.pool = model_pool(w->d.model);
    model_put_svc(w->d.model, randobj_svc(&w->rand, i));
}

static void
put_slice(struct world *w, uint32_t i)
{
    w->rand.pool = model_pool(w->d.model);
    model_put_slice(w->d.model, randobj_slice(&w->rand, i));
}

static void
put_node(struct world *w)
{
    w->rand.pool = model_pool(w->d.model);
    model_put_node(w->d.model, randobj_node(&w->rand));
}

static int
compare_ips(const void *a, const void *b)
{
    return ip_compare(a, b);
}

/* Some of the external addresses are this node's, others now than before. */
static void
set_node_ips(struct world *w)
{
    w->n_node_ips = 0;
    for (int f = 0; f < N_IP_FAMILIES; f++) {
        for (uint32_t n = 0; n < 2; n++) {
            if (draw(w, 2)) {
                w->node_ips[w->n_node_ips++] =
                    randobj_ip(f ? IP_V4 : IP_V6, RANDOBJ_OUTER + n);
            }
        }
    }
    qsort(w->node_ips, w->n_node_ips, sizeof *w->node_ips, compare_ips);
    services_set_node_ips(w->d.services, w->node_ips, w->n_node_ips);
}

/* Deletes an object of the model, if there is any that 'n' leads to. */
static void
delete_object(struct world *w)
{
    const struct model_service *ms;
    uint32_t n = draw(w, N_SVCS);

    if (draw(w, 2)) {
        model_delete(w->d.model, MODEL_SERVICES, NS, w->names->name[n]);
        return;
    }
    ms = model_find_service(w->d.model, NS, w->names->name[n]);
    if (ms && !ovs_list_is_empty(&ms->slices)) {
        const struct model_slice *s =
            CONTAINER_OF(ovs_list_front(&ms->slices), const struct model_slice,
                         list_node);
        char *name = xstrdup(s->slice->meta.name);

        model_delete(w->d.model, MODEL_SLICES, NS, name);
        free(name);
    }
}

static void
change_objects(struct world *w)
{
    for (uint32_t n = 1 + draw(w, 3); n; n--) {
        uint32_t what = draw(w, 100);

        if (what < 45) {
            put_svc(w, draw(w, N_SVCS));
        } else if (what < 75) {
            put_slice(w, draw(w, RANDOBJ_N_SLICES));
        } else if (what < 93) {
            delete_object(w);
        } else if (what < 97) {
            put_node(w);
        } else {
            set_node_ips(w);
        }
    }
}

/* Copies all objects of 'from' into 'to', in a random order. */

struct copy {
    const struct svc *svc;
    const struct slice *slice;
};

static size_t
collect_objects(const struct model *from, struct copy **ret)
{
    const struct model_service *ms;
    struct model_counts counts;
    size_t n = 0;

    model_count(from, &counts);
    *ret = xcalloc(counts.n[MODEL_SERVICES] + counts.n[MODEL_SLICES] + 1,
                   sizeof **ret);
    HMAP_FOR_EACH (ms, hmap_node, model_services(from)) {
        const struct model_slice *s;

        if (ms->svc) {
            (*ret)[n++].svc = ms->svc;
        }
        LIST_FOR_EACH (s, list_node, &ms->slices) {
            (*ret)[n++].slice = s->slice;
        }
    }
    return n;
}

static void
copy_objects(struct world *w, const struct model *from, struct model *to)
{
    const struct node *node = model_own_node(from);
    struct copy *copies;
    size_t n = collect_objects(from, &copies);

    for (size_t i = n; i > 1; i--) {
        uint32_t k = draw(w, i);
        struct copy swap = copies[k];

        copies[k] = copies[i - 1];
        copies[i - 1] = swap;
    }
    for (size_t i = 0; i < n; i++) {
        if (copies[i].svc) {
            model_put_svc(to, svc_pack(copies[i].svc, model_pool(to)));
        } else {
            model_put_slice(to, slice_pack(copies[i].slice, model_pool(to)));
        }
    }
    if (node) {
        model_put_node(to, node_pack(node, model_pool(to)));
    }
    free(copies);
}

/* What is wanted, as text. */

struct describe_ctx {
    const struct daemon *d;
    bool without_ids;
    struct svec *lines;
    const struct unit *unit;
};

/* Appends 'number' from a flow's text, if it depends on the object id without
 * that.  Returns true if it does. */
static bool
put_dependent(struct ds *ds, uint64_t number, uint32_t object_id)
{
    if (number <= UINT32_MAX && group_id_is_ours(number)
        && group_id_object_id(number) == object_id) {
        ds_put_format(ds, "+%" PRIu64,
                      number - group_id_make(object_id, false, 0));
        return true;
    } else if (cookie_is_learned(number)) {
        ds_put_cstr(ds, "learned");
        return true;
    }
    return false;
}

/* Appends 'text' with the numbers of a unit's groups counted from its object
 * id, and without the cookie. */
static void
put_without_ids(struct ds *ds, const char *text, uint32_t object_id)
{
    const char *p = strstr(text, "cookie=");

    text = p ? p + strcspn(p, ",") : text;
    while (*text) {
        bool number = isdigit((unsigned char) *text)
                      && !isalnum((unsigned char) text[-1]);
        char *end;

        if (number && put_dependent(ds, strtoull(text, &end, 0), object_id)) {
            text = end;
        } else {
            ds_put_char(ds, *text++);
        }
    }
}

static void
describe_item(const struct fitem *want, const struct fitem *have OVS_UNUSED,
              void *ctx_)
{
    struct describe_ctx *ctx = ctx_;
    struct ds line = DS_EMPTY_INITIALIZER;
    char *text = flowtext_format(want);

    unit_format(ctx->unit, &line);
    ds_put_cstr(&line, ": ");
    if (ctx->without_ids) {
        put_without_ids(&line, text, ctx->unit->object_id);
    } else {
        ds_put_cstr(&line, text);
    }
    svec_add(ctx->lines, ds_cstr(&line));
    ds_destroy(&line);
    free(text);
}

static void
describe_unit(const struct unit *u, void *ctx_)
{
    struct describe_ctx *ctx = ctx_;

    ctx->unit = u;
    flowtab_for_each(ctx->d->ft, unit_owner(u), describe_item, ctx);
}

/* Of each owner's flow for the rest of its cluster IP. */
static void
describe_cluster_ip(const struct fitem *want,
                    const struct fitem *have OVS_UNUSED, void *ctx_)
{
    struct describe_ctx *ctx = ctx_;
    const struct clusterip *c =
        services_find_cluster_ip(ctx->d->services, fitem_cookie(want));

    if (c) {
        struct ds line = DS_EMPTY_INITIALIZER;
        char *text = flowtext_format(want);

        ds_put_format(&line, "%s: ", c->full_name);
        if (ctx->without_ids) {
            put_without_ids(&line, text, c->object_id);
        } else {
            ds_put_cstr(&line, text);
        }
        svec_add(ctx->lines, ds_cstr(&line));
        ds_destroy(&line);
        free(text);
    }
}

static void
describe(const struct daemon *d, bool without_ids, struct svec *lines)
{
    struct describe_ctx ctx = { d, without_ids, lines, NULL };
    struct flowtab_stats stats;

    svec_init(lines);
    services_for_each(d->services, NULL, NULL, describe_unit, &ctx);
    flowtab_for_each(d->ft, UINT64_MAX, describe_cluster_ip, &ctx);
    svec_sort(lines);

    /* Nothing is wanted but by a unit or a cluster IP. */
    flowtab_get_stats(d->ft, &stats);
    assert_int_equal(lines->n, stats.n_flows + stats.n_groups);
}

static void
assert_same_wishes(const struct daemon *a, const struct daemon *b,
                   bool without_ids)
{
    struct svec a_lines, b_lines;

    describe(a, without_ids, &a_lines);
    describe(b, without_ids, &b_lines);
    for (size_t i = 0; i < MIN(a_lines.n, b_lines.n); i++) {
        assert_string_equal(a_lines.names[i], b_lines.names[i]);
    }
    assert_int_equal(a_lines.n, b_lines.n);
    svec_destroy(&a_lines);
    svec_destroy(&b_lines);
}

/* Comparing with fresh daemons. */

static void
check_cold_start(struct world *w)
{
    struct daemon fresh;

    daemon_init(&fresh, &w->cfg);
    copy_objects(w, w->d.model, fresh.model);
    services_set_node_ips(fresh.services, w->node_ips, w->n_node_ips);
    daemon_render(&fresh);
    assert_same_wishes(&w->d, &fresh, w->names->crowd);
    daemon_uninit(&fresh);
}

static void
have_wanted(const struct fitem *want, const struct fitem *have OVS_UNUSED,
            void *ft_)
{
    flowtab_have(ft_, fitem_ref(want));
}

/* On a switch that has all that is wanted. */
static void
check_restart(struct world *w)
{
    struct daemon fresh;

    daemon_init(&fresh, &w->cfg);
    copy_objects(w, w->d.model, fresh.model);
    flowtab_dump_begin(fresh.ft);
    flowtab_for_each(w->d.ft, UINT64_MAX, have_wanted, fresh.ft);
    flowtab_dump_end(fresh.ft);
    services_set_node_ips(fresh.services, w->node_ips, w->n_node_ips);
    daemon_render(&fresh);
    flowtab_set_complete(fresh.ft, true);
    assert_same_wishes(&w->d, &fresh, false);
    assert_true(flowtab_in_sync(fresh.ft));
    daemon_uninit(&fresh);
}

/* The connection to the simulated switch. */

static void
send_batch(struct world *w)
{
    sim_send(w->sim, w->batch, w->n_foreign_at_take != sim_n_foreign(w->sim));
    w->sent = true;
}

static void
go_down(struct world *w)
{
    if (w->batch && !w->sent && draw(w, 2)) {
        send_batch(w);
    }
    sim_disconnect(w->sim);
    w->state = DOWN;
    if (w->batch) {
        flowtab_batch_lost(w->d.ft, w->batch);
        w->batch = NULL;
    }
    flowtab_forget(w->d.ft);
}

static void
go_up(struct world *w)
{
    sim_connect(w->sim);
    w->n_foreign_seen = sim_n_foreign(w->sim);
    flowtab_dump_begin(w->d.ft);
    sim_dump(w->sim, FITEM_FLOW);
    w->state = DUMP_FLOWS;
}

static void
hear_dumped(struct world *w)
{
    if (w->state == DUMP_FLOWS) {
        sim_dump(w->sim, FITEM_GROUP);
        w->state = DUMP_GROUPS;
    } else {
        flowtab_dump_end(w->d.ft);
        w->state = UP;
    }
}

static void
hear_result(struct world *w, const struct sim_msg *msg)
{
    if (msg->refused) {
        const struct flowtab_refusal refusal = { msg->bad, "no", w->now_ms,
                                                 draw(w, UINT32_MAX) };
        flowtab_batch_refused(w->d.ft, w->batch, &refusal);
    } else {
        flowtab_batch_done(w->d.ft, w->batch);
    }
    w->batch = NULL;
}

/* Returns false if there was nothing to hear. */
static bool
hear(struct world *w)
{
    struct sim_msg msg;

    if (w->state == DOWN) {
        go_up(w);
        return true;
    }
    if (!sim_pop(w->sim, &msg)) {
        w->n_foreign_seen = sim_n_foreign(w->sim);
        return false;
    }
    switch (msg.type) {
    case SIM_HAVE: flowtab_have(w->d.ft, fitem_ref(msg.item)); break;
    case SIM_HAVE_NOT: flowtab_have_not(w->d.ft, fitem_ref(msg.item)); break;
    case SIM_DUMPED: hear_dumped(w); break;
    case SIM_RESULT: hear_result(w, &msg); break;
    }
    fitem_unref(msg.item);
    return true;
}

/* Something happens on the way to the switch. */
static void
step_switch(struct world *w)
{
    w->now_ms += draw(w, 1000);
    flowtab_run(w->d.ft, w->now_ms);
    if (!w->batch && w->state == UP) {
        w->batch = flowtab_take(w->d.ft, 1 + draw(w, 50), 100000);
        w->n_foreign_at_take = w->n_foreign_seen;
        w->sent = false;
    }
    if (w->batch && !w->sent && draw(w, 2)) {
        send_batch(w);
    }
    for (uint32_t n = draw(w, 100); n && hear(w); n--) {
        continue;
    }
}

/* Trouble. */
static void
step_trouble(struct world *w)
{
    struct fitem *item;

    if (!sim_count(w->sim) || !draw(w, 4)) {
        if (w->state != DOWN) {
            go_down(w);
        }
        return;
    }
    item = fitem_ref(sim_get(w->sim, draw(w, sim_count(w->sim))));
    if (draw(w, 2)) {
        sim_refuse(w->sim, item, 1 + draw(w, 3), draw(w, 2));
    } else {
        sim_foreign_delete(w->sim, item);
    }
    fitem_unref(item);
}

/* The daemon dies and comes back; 'objects' change in between. */
static void
step_restart(struct world *w, bool objects)
{
    struct daemon old = w->d;

    if (w->state != DOWN) {
        go_down(w);
    }
    daemon_init(&w->d, &w->cfg);
    copy_objects(w, old.model, w->d.model);
    services_set_node_ips(w->d.services, w->node_ips, w->n_node_ips);
    daemon_uninit(&old);
    if (objects) {
        change_objects(w);
    }
    do {
        hear(w);
    } while (w->state != UP);
    daemon_render(&w->d);
    flowtab_set_complete(w->d.ft, true);
}

/* Histories. */

static void
calm_down(struct world *w)
{
    struct flowtab_stats stats;

    sim_refuse_no_more(w->sim);
    for (int i = 0; !flowtab_in_sync(w->d.ft) || w->batch || hear(w); i++) {
        if (i > 20000) {
            fail_msg("never in sync");
        }
        step_switch(w);
    }
    flowtab_get_stats(w->d.ft, &stats);
    assert_int_equal(sim_count(w->sim), stats.n_flows + stats.n_groups);
}

static void
step(struct world *w)
{
    uint32_t what = draw(w, 100);

    if (what < 60) {
        change_objects(w);
        if (draw(w, 4)) {
            daemon_render(&w->d);
        }
    } else if (what < 90) {
        step_switch(w);
    } else if (what < 98) {
        step_trouble(w);
    } else {
        step_restart(w, draw(w, 2));
    }
    if (!model_has_dirty(w->d.model)) {
        check_cold_start(w);
        if (!draw(w, 4)) {
            check_restart(w);
        }
    }
}

static void
run_history(uint64_t seed, const struct names *names)
{
    struct world w = {
        .rand = { .seed = seed, .apart = names->crowd != NOBODY },
        .names = names,
    };

    for (size_t i = 0; i < N_SVCS; i++) {
        w.rand.names[i] = names->name[i];
    }
    cfg_init_defaults(&w.cfg);
    w.cfg.antrea_proxy_proxy_all = draw(&w, 4);
    w.cfg.antrea_proxy_proxy_load_balancer_ips = draw(&w, 4);
    daemon_init(&w.d, &w.cfg);
    flowtab_set_complete(w.d.ft, true);
    w.sim = sim_create();
    for (int i = 0; i < N_STEPS; i++) {
        step(&w);
    }
    daemon_render(&w.d);
    calm_down(&w);
    step_restart(&w, false);
    assert_true(flowtab_in_sync(w.d.ft));

    go_down(&w);
    daemon_uninit(&w.d);
    sim_destroy(w.sim);
    cfg_uninit(&w.cfg);
}

/* Names. */

/* The id that a unit of a port without name, of TCP and IPv4, or a cluster
 * IP of IPv4, prefers (docs/decisions/0003). */
static uint32_t
preferred_id(const char *name, enum crowd crowd)
{
    static const uint8_t tail[2] = { PROTO_TCP, IP_V4 };
    char full_name[64];
    uint32_t hash;

    if (crowd == CLUSTER_IPS) {
        snprintf(full_name, sizeof full_name, NS "/%s", name);
        hash = stable_hash(full_name, strlen(full_name) + 1, 0);
        return stable_hash(&tail[1], 1, hash) & OBJECT_ID_MAX;
    }
    hash = stable_hash(NS, sizeof NS, 0);
    hash = stable_hash(name, strlen(name) + 1, hash);
    hash = stable_hash("", 1, hash);
    return stable_hash(tail, sizeof tail, hash) & OBJECT_ID_MAX;
}

static void
make_names(struct names *names, enum crowd crowd)
{
    uint32_t k = 0;

    names->crowd = crowd;
    for (size_t i = 0; i < N_SVCS; i++) {
        do {
            snprintf(names->name[i], sizeof names->name[i], "svc-%" PRIu32,
                     k++);
        } while (crowd && preferred_id(names->name[i], crowd) >= CROWD);
    }
}

static void
run_histories(enum crowd crowd)
{
    uint64_t seed = envnum("AGENT_SEED", 1);
    uint64_t n = envnum("AGENT_RUNS", 20);
    struct names names;

    make_names(&names, crowd);
    print_message("seeds:");
    for (uint64_t i = 0; i < n; i++) {
        print_message(" %" PRIu64, seed + i);
        run_history(seed + i, &names);
    }
    print_message("\n");
}

static void
incremental_equals_full_rendering(void **state OVS_UNUSED)
{
    run_histories(NOBODY);
}

static void
c22_units_that_prefer_one_id_each_get_one_and_keep_it(void **state OVS_UNUSED)
{
    run_histories(UNITS);
}

static void
c22_so_do_cluster_ips(void **state OVS_UNUSED)
{
    run_histories(CLUSTER_IPS);
}

int
main(void)
{
    vlog_set_levels(NULL, VLF_CONSOLE, VLL_OFF);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(incremental_equals_full_rendering),
        cmocka_unit_test(
            c22_units_that_prefer_one_id_each_get_one_and_keep_it),
        cmocka_unit_test(c22_so_do_cluster_ips),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
