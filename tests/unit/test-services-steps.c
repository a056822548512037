/* SPDX-License-Identifier: Apache-2.0 */
/* A Service of many ports, rendered step by step while it and others
 * change. */

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <sset.h>
#include <util.h>

#include "../../src/agent/services.h"
#include "../support/flowtabfix.h"

#define MAX_PORTS 100
#define N_STEPS   2000

struct fixture {
    struct cfg cfg;
    struct model *model;
    struct flowtab *ft;
    struct services *services;
};

static struct services *
start(struct fixture *f, struct flowtab **ft)
{
    *ft = flowtab_create();
    return services_create(&(struct services_cfg){
        .model = f->model, .flowtab = *ft, .cfg = &f->cfg });
}

static int
setup(void **state)
{
    struct fixture *f = xzalloc(sizeof *f);

    cfg_init_defaults(&f->cfg);
    f->cfg.antrea_proxy_proxy_all = true;
    f->model = model_create("n1");
    f->services = start(f, &f->ft);
    *state = f;
    return 0;
}

static int
teardown(void **state)
{
    struct fixture *f = *state;

    flowtab_destroy(f->ft);
    services_destroy(f->services);
    model_destroy(f->model);
    cfg_uninit(&f->cfg);
    free(f);
    return 0;
}

/* Puts a Service whose 'n' ports have the numbers from 'first' on, and names
 * that begin with 'prefix'.  All but "small" claim the same addresses. */
static void
put(struct fixture *f, const char *name, size_t n, uint16_t first,
    const char *prefix)
{
    static char names[MAX_PORTS][32];
    struct svc_port ports[MAX_PORTS];
    bool small = !strcmp(name, "small");
    struct ip external = ip_from_v4(htonl(0xc6336407));
    struct svc svc = {
        .meta = { .ns = "ns1", .name = name, .uid = "", .created_s = 1 },
        .cluster_ips = { ip_from_v4(htonl(0x0a600001 + small)) },
        .ports = ports,
        .n_ports = n,
        .external_ips = &external,
        .n_external_ips = 1,
    };

    for (size_t i = 0; i < n; i++) {
        snprintf(names[i], sizeof names[i], "%s%zu", prefix, i);
        ports[i] = (struct svc_port){ .name = names[i],
                                      .proto = PROTO_TCP,
                                      .port = (uint16_t) (first + i) };
    }
    model_put_svc(f->model, svc_pack(&svc, model_pool(f->model)));
}

/* Does as little as there may be done in a turn. */
static bool
run_slice(struct fixture *f)
{
    return services_run(f->services, LLONG_MIN);
}

static void
finish(struct fixture *f)
{
    for (int i = 0; !run_slice(f); i++) {
        assert_true(services_has_work(f->services));
        assert_in_range(i, 0, 1000);
    }
    assert_false(services_has_work(f->services));
}

/* What is wanted. */

static void
add_cb(const struct fitem *want, const struct fitem *have OVS_UNUSED,
       void *all_)
{
    struct ds ds = DS_EMPTY_INITIALIZER;

    fitem_format(want, NULL, &ds);
    sset_add_and_free(all_, ds_steal_cstr(&ds));
}

static void
get_wanted(const struct flowtab *ft, struct sset *all)
{
    sset_init(all);
    flowtab_for_each(ft, UINT64_MAX, add_cb, all);
}

/* Number of flows for 10.96.0.1 that name a port. */
static size_t
count_flows(const struct fixture *f)
{
    const char *flow;
    struct sset all;
    size_t n = 0;

    get_wanted(f->ft, &all);
    SSET_FOR_EACH (flow, &all) {
        n += strstr(flow, "nw_dst=10.96.0.1,tp_dst") != NULL;
    }
    sset_destroy(&all);
    return n;
}

static void
assert_as_after_a_cold_start(struct fixture *f)
{
    struct services *fresh;
    struct sset here, there;
    struct flowtab *ft;

    fresh = start(f, &ft);
    model_mark_all_dirty(f->model);
    assert_true(services_run(fresh, LLONG_MAX));
    get_wanted(f->ft, &here);
    get_wanted(ft, &there);
    assert_true(sset_equals(&here, &there));
    sset_destroy(&here);
    sset_destroy(&there);
    flowtab_destroy(ft);
    services_destroy(fresh);
}

static void
assert_no_conflict(const struct unit *u, void *aux OVS_UNUSED)
{
    assert_false(u->conflict);
}

/* Tests. */

static void
many_ports_take_several_turns_and_others_go_on(void **state)
{
    struct fixture *f = *state;

    put(f, "big", MAX_PORTS, 1000, "p");
    put(f, "small", 1, 80, "p");
    assert_false(run_slice(f));
    assert_false(run_slice(f));
    assert_non_null(services_cluster_ip(f->services, "ns1", "small", IP_V4));
    assert_null(services_cluster_ip(f->services, "ns1", "big", IP_V4));
    finish(f);
    assert_int_equal(count_flows(f), MAX_PORTS);
    assert_as_after_a_cold_start(f);
}

/* Each address always has a flow: the old one's or the new one's. */
static void
renamed_ports_are_made_before_they_are_broken(void **state)
{
    struct fixture *f = *state;
    bool done;

    put(f, "big", MAX_PORTS, 1000, "p");
    finish(f);
    put(f, "big", MAX_PORTS, 1000, "q");
    do {
        done = run_slice(f);
        assert_int_equal(count_flows(f), MAX_PORTS);
        services_for_each(f->services, NULL, NULL, assert_no_conflict, NULL);
    } while (!done);
    assert_as_after_a_cold_start(f);
}

/* The numbers move by one, so that each port gets the next one's. */
static void
ports_that_take_each_others_numbers_do_not_conflict(void **state)
{
    struct fixture *f = *state;
    bool done;

    put(f, "big", MAX_PORTS, 1000, "p");
    finish(f);
    put(f, "big", MAX_PORTS, 1001, "p");
    do {
        done = run_slice(f);
        services_for_each(f->services, NULL, NULL, assert_no_conflict, NULL);
    } while (!done);
    assert_as_after_a_cold_start(f);
}

static void
one_that_changes_all_the_time_gets_to_its_end(void **state)
{
    struct fixture *f = *state;

    for (int i = 0; i < 50; i++) {
        put(f, "big", MAX_PORTS - i % 2, 1000, "p");
        run_slice(f);
    }
    assert_in_range(count_flows(f), MAX_PORTS - 1, MAX_PORTS);
    finish(f);
    assert_as_after_a_cold_start(f);
}

static void
one_that_goes_and_comes_meanwhile_is_right(void **state)
{
    struct fixture *f = *state;

    put(f, "big", MAX_PORTS, 1000, "p");
    run_slice(f);
    assert_true(model_delete(f->model, MODEL_SERVICES, "ns1", "big"));
    run_slice(f);
    put(f, "big", MAX_PORTS, 1000, "p");
    finish(f);
    assert_as_after_a_cold_start(f);
    assert_true(model_delete(f->model, MODEL_SERVICES, "ns1", "big"));
    run_slice(f);
    finish(f);
    assert_int_equal(count_flows(f), 0);
    assert_as_after_a_cold_start(f);
}

static void
seed_random(void)
{
    const char *text = getenv("SEED");
    unsigned int seed = text ? strtoul(text, NULL, 10) : 1;

    print_message("SEED=%u\n", seed);
    srandom(seed);
}

/* One of two Services, which claim the same addresses. */
static const char *
random_name(void)
{
    return random() % 2 ? "big" : "other";
}

static void
put_at_random(struct fixture *f, const char *name)
{
    put(f, name, random() % (MAX_PORTS + 1), 1000 + random() % 3,
        random() % 2 ? "p" : "q");
}

/* Adds the addresses and ports for which the switch has flows. */
static void
add_served(const struct fitem *have, void *all_)
{
    struct ds ds = DS_EMPTY_INITIALIZER;
    const char *match;

    fitem_format(have, NULL, &ds);
    match = strstr(ds_cstr(&ds), "nw_dst=");
    if (match && strstr(match, "tp_dst=")) {
        sset_add_and_free(all_, xmemdup0(match, strcspn(match, " ")));
    }
    ds_destroy(&ds);
}

/* Adds to 'missing' what of 'before' the switch has no flow for. */
static void
note_missing(const struct fixture *f, const struct sset *before,
             struct sset *missing)
{
    struct sset now = SSET_INITIALIZER(&now);
    const char *match;

    flowtab_for_each_have(f->ft, add_served, &now);
    SSET_FOR_EACH (match, before) {
        if (!sset_contains(&now, match)) {
            sset_add(missing, match);
        }
    }
    sset_destroy(&now);
}

/* Renders all, a slice after the other, each of which goes to the switch.
 * What is served before and afterwards is so all the time. */
static void
check_way(struct fixture *f)
{
    struct sset before = SSET_INITIALIZER(&before);
    struct sset after = SSET_INITIALIZER(&after);
    struct sset missing = SSET_INITIALIZER(&missing);
    const char *match;
    bool done;

    flowtab_for_each_have(f->ft, add_served, &before);
    do {
        done = run_slice(f);
        flowtab_set_keep(f->ft, !done);
        ft_flush(f->ft);
        note_missing(f, &before, &missing);
    } while (!done);
    assert_true(flowtab_in_sync(f->ft));
    flowtab_for_each_have(f->ft, add_served, &after);
    SSET_FOR_EACH (match, &after) {
        if (sset_contains(&missing, match)) {
            fail_msg("%s was nobody's in between", match);
        }
    }
    sset_destroy(&before);
    sset_destroy(&after);
    sset_destroy(&missing);
}

static void
no_address_is_nobodys_in_between(void **state)
{
    struct fixture *f = *state;

    flowtab_dump_begin(f->ft);
    flowtab_dump_end(f->ft);
    flowtab_set_complete(f->ft, true);
    seed_random();
    for (int i = 0; i < 100; i++) {
        for (int n = random() % 3; n >= 0; n--) {
            if (random() % 3) {
                put_at_random(f, random_name());
            } else {
                model_delete(f->model, MODEL_SERVICES, "ns1", random_name());
            }
        }
        check_way(f);
    }
    assert_as_after_a_cold_start(f);
}

static void
random_histories_end_as_a_cold_start(void **state)
{
    struct fixture *f = *state;

    seed_random();
    for (int i = 0; i < N_STEPS; i++) {
        const char *name = random_name();

        switch (random() % 8) {
        case 0: put_at_random(f, name); break;
        case 1: model_delete(f->model, MODEL_SERVICES, "ns1", name); break;
        case 2: model_mark_dirty(f->model, "ns1", name); break;
        case 3:
            if (!(random() % 8)) {
                finish(f);
                assert_as_after_a_cold_start(f);
            }
            break;
        default: run_slice(f); break;
        }
    }
    finish(f);
    assert_as_after_a_cold_start(f);
}

#define TEST(NAME) cmocka_unit_test_setup_teardown(NAME, setup, teardown)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(many_ports_take_several_turns_and_others_go_on),
        TEST(renamed_ports_are_made_before_they_are_broken),
        TEST(ports_that_take_each_others_numbers_do_not_conflict),
        TEST(one_that_changes_all_the_time_gets_to_its_end),
        TEST(one_that_goes_and_comes_meanwhile_is_right),
        TEST(no_address_is_nobodys_in_between),
        TEST(random_histories_end_as_a_cold_start),
    };

    return cmocka_run_group_tests_name("services-steps", tests, NULL, NULL);
}
