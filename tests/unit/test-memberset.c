/* SPDX-License-Identifier: Apache-2.0 */
/* Members of the packet rules' sets: which the kernel has to have, and the
 * difference from what it has. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include <openvswitch/util.h>
#include <util.h>

#include "../../src/host/memberset.h"
#include "../support/envnum.h"

static struct cidr
cidr(const char *s)
{
    struct cidr c;

    assert_int_equal(cidr_parse(s, &c), 0);
    return c;
}

static void
add(struct memberset *ms, const char *s)
{
    struct cidr c = cidr(s);

    memberset_add(ms, &c);
}

static void
del(struct memberset *ms, const char *s)
{
    struct cidr c = cidr(s);

    memberset_remove(ms, &c);
}

/* Carries out what the lists say; checks that it was wanted. */
static void
install(struct memberset *ms)
{
    while (!ovs_list_is_empty(&ms->to_del)) {
        struct member *m = CONTAINER_OF(ovs_list_front(&ms->to_del),
                                        struct member, pending_node);
        assert_true(m->installed && !member_is_due(m));
        memberset_done(ms, m);
    }
    while (!ovs_list_is_empty(&ms->to_add)) {
        struct member *m = CONTAINER_OF(ovs_list_front(&ms->to_add),
                                        struct member, pending_node);
        assert_true(!m->installed && member_is_due(m));
        memberset_done(ms, m);
    }
}

/* Whether the kernel would have it. */
static bool
has(const struct memberset *ms, const char *s)
{
    struct cidr c = cidr(s);
    const struct member *m;

    HMAP_FOR_EACH (m, node, &ms->members) {
        if (m->installed && m->cidr.plen == c.plen
            && ip_equals(&m->cidr.ip, &c.ip)) {
            return true;
        }
    }
    return false;
}

static void
members_are_counted(void **state OVS_UNUSED)
{
    struct memberset ms;

    memberset_init(&ms);
    add(&ms, "10.10.1.0/24");
    add(&ms, "10.10.1.7/24"); /* The same network. */
    install(&ms);
    assert_true(has(&ms, "10.10.1.0/24"));
    assert_int_equal(ms.n_wanted, 1);
    del(&ms, "10.10.1.0/24");
    install(&ms);
    assert_true(has(&ms, "10.10.1.0/24"));
    del(&ms, "10.10.1.0/24");
    del(&ms, "10.10.1.0/24"); /* One too many. */
    install(&ms);
    assert_int_equal(hmap_count(&ms.members), 0);
    assert_int_equal(ms.n_wanted, 0);
    memberset_uninit(&ms);
}

static void
a_network_inside_another_waits_for_it_to_go(void **state OVS_UNUSED)
{
    struct memberset ms;

    memberset_init(&ms);
    add(&ms, "10.10.1.0/24");
    add(&ms, "2001:db8::/64");
    install(&ms);
    add(&ms, "10.10.0.0/16");
    add(&ms, "10.10.2.0/24");
    install(&ms);
    assert_true(has(&ms, "10.10.0.0/16") && has(&ms, "2001:db8::/64"));
    assert_false(has(&ms, "10.10.1.0/24") || has(&ms, "10.10.2.0/24"));
    del(&ms, "10.10.0.0/16");
    install(&ms);
    assert_true(has(&ms, "10.10.1.0/24") && has(&ms, "10.10.2.0/24"));
    assert_false(has(&ms, "10.10.0.0/16"));
    memberset_uninit(&ms);
}

static void
what_the_kernel_has_too_many_is_to_be_removed(void **state OVS_UNUSED)
{
    struct cidr foreign = cidr("192.0.2.0/24"), known = cidr("10.10.1.0/24");
    struct memberset ms;

    memberset_init(&ms);
    add(&ms, "10.10.1.0/24");
    install(&ms);
    memberset_have_none(&ms);
    memberset_have(&ms, &foreign);
    assert_false(ovs_list_is_empty(&ms.to_add));
    memberset_have(&ms, &known);
    assert_true(ovs_list_is_empty(&ms.to_add));
    assert_int_equal(ovs_list_size(&ms.to_del), 1);
    install(&ms);
    assert_false(has(&ms, "192.0.2.0/24"));
    assert_int_equal(hmap_count(&ms.members), 1);

    memberset_have(&ms, &foreign);
    memberset_have_all(&ms); /* Written as a whole. */
    assert_int_equal(hmap_count(&ms.members), 1);
    memberset_uninit(&ms);
}

static void
an_address_is_found_by_its_full_length_only(void **state OVS_UNUSED)
{
    struct ip ip;
    struct memberset ms;

    memberset_init(&ms);
    add(&ms, "192.0.2.0/24");
    add(&ms, "192.0.2.9/32");
    assert_int_equal(ip_from_string("192.0.2.9", &ip), 0);
    assert_true(memberset_wants_ip(&ms, &ip));
    assert_int_equal(ip_from_string("192.0.2.8", &ip), 0);
    assert_false(memberset_wants_ip(&ms, &ip));
    memberset_uninit(&ms);
}

/* Random histories. */

#define N_POOL 40

struct model {
    struct cidr pool[N_POOL];
    unsigned int count[N_POOL];
};

static void
fill_pool(struct model *model)
{
    for (size_t i = 0; i < N_POOL; i++) {
        char s[64];

        /* Few bits that differ, so that many are inside others. */
        if (i % 2) {
            snprintf(s, sizeof s, "10.%d.%d.0/%d", rand() % 2, rand() % 4 * 64,
                     8 + rand() % 17);
        } else {
            snprintf(s, sizeof s, "2001:db8:%x::/%d", rand() % 4,
                     32 + rand() % 33);
        }
        model->pool[i] = cidr(s);
        model->pool[i] = cidr_network(&model->pool[i]);
        model->count[i] = 0;
    }
}

/* Whether the model wants a network, or one that is larger, by name. */
static bool
model_wants(const struct model *model, const struct cidr *c, bool larger)
{
    for (size_t i = 0; i < N_POOL; i++) {
        const struct cidr *p = &model->pool[i];

        if (model->count[i]
            && (larger ? p->plen < c->plen && cidr_contains(p, &c->ip)
                       : p->plen == c->plen && ip_equals(&p->ip, &c->ip))) {
            return true;
        }
    }
    return false;
}

static void
check_against(const struct memberset *ms, const struct model *model)
{
    for (size_t i = 0; i < N_POOL; i++) {
        char s[CIDR_STRLEN];

        cidr_to_string(&model->pool[i], s);
        assert_int_equal(has(ms, s),
                         model_wants(model, &model->pool[i], false)
                             && !model_wants(model, &model->pool[i], true));
    }
}

static void
random_histories_end_as_the_rule_says(void **state OVS_UNUSED)
{
    unsigned int seed = envnum("SEED", time(NULL));
    int rounds = envnum("ROUNDS", 300);

    print_message("SEED=%u\n", seed);
    srand(seed);
    for (int round = 0; round < rounds; round++) {
        struct memberset ms;
        struct model model;

        memberset_init(&ms);
        fill_pool(&model);
        for (int step = 0; step < 200; step++) {
            size_t i = rand() % N_POOL;

            if (rand() % 2) {
                memberset_add(&ms, &model.pool[i]);
                model.count[i]++;
            } else if (model.count[i]) {
                memberset_remove(&ms, &model.pool[i]);
                model.count[i]--;
            }
            if (rand() % 20 == 0) {
                memberset_have_none(&ms);
                memberset_have(&ms, &model.pool[rand() % N_POOL]);
            }
            if (rand() % 4 == 0) {
                install(&ms);
                check_against(&ms, &model);
            }
        }
        memberset_uninit(&ms);
    }
}

static struct rules_port
port(const char *s, enum proto proto, uint16_t number)
{
    struct rules_port p = { .ip = cidr(s).ip, .proto = proto, .port = number };

    return p;
}

static void
ports_are_told_apart_by_all_that_they_are(void **state OVS_UNUSED)
{
    struct rules_port ports[] = {
        port("192.0.2.1/32", PROTO_TCP, 80),
        port("192.0.2.1/32", PROTO_UDP, 80),
        port("192.0.2.1/32", PROTO_TCP, 81),
        port("192.0.2.2/32", PROTO_TCP, 80),
        port("0.0.0.0/32", PROTO_TCP, 80),
        port("::/128", PROTO_TCP, 80),
    };
    struct memberset ms;

    memberset_init(&ms);
    for (size_t i = 0; i < ARRAY_SIZE(ports); i++) {
        assert_true(memberset_add_port(&ms, &ports[i]));
        assert_false(memberset_add_port(&ms, &ports[i]));
    }
    add(&ms, "192.0.2.1/32");
    install(&ms);
    assert_int_equal(ms.n_wanted, ARRAY_SIZE(ports) + 1);
    for (size_t i = 0; i < ARRAY_SIZE(ports); i++) {
        memberset_remove_port(&ms, &ports[i]);
        assert_true(memberset_wants_port(&ms, &ports[i]));
        memberset_remove_port(&ms, &ports[i]);
        memberset_remove_port(&ms, &ports[i]); /* One too many. */
        for (size_t j = 0; j < ARRAY_SIZE(ports); j++) {
            assert_int_equal(memberset_wants_port(&ms, &ports[j]), j > i);
        }
    }
    install(&ms);
    assert_int_equal(hmap_count(&ms.members), 1);
    assert_true(memberset_wants_ip(&ms, &ports[0].ip));
    memberset_uninit(&ms);
}

static void
a_foreign_port_is_to_be_removed(void **state OVS_UNUSED)
{
    struct rules_port wanted = port("192.0.2.1/32", PROTO_SCTP, 5060);
    struct rules_port foreign = port("192.0.2.1/32", PROTO_SCTP, 5061);
    struct memberset ms;

    memberset_init(&ms);
    memberset_add_port(&ms, &wanted);
    memberset_have_port(&ms, &wanted);
    memberset_have_port(&ms, &foreign);
    assert_true(ovs_list_is_empty(&ms.to_add));
    assert_int_equal(ovs_list_size(&ms.to_del), 1);
    memberset_have_none(&ms);
    assert_int_equal(ovs_list_size(&ms.to_add), 1);
    install(&ms);
    assert_int_equal(hmap_count(&ms.members), 1);
    memberset_uninit(&ms);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_are_counted),
        cmocka_unit_test(a_network_inside_another_waits_for_it_to_go),
        cmocka_unit_test(what_the_kernel_has_too_many_is_to_be_removed),
        cmocka_unit_test(an_address_is_found_by_its_full_length_only),
        cmocka_unit_test(ports_are_told_apart_by_all_that_they_are),
        cmocka_unit_test(a_foreign_port_is_to_be_removed),
        cmocka_unit_test(random_histories_end_as_the_rule_says),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
