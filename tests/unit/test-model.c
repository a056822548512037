/* SPDX-License-Identifier: Apache-2.0 */
/* The store of objects: what counts as a change, which Services it touches,
 * and lists that replace what was there. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <arpa/inet.h>

#include <cmocka.h>

#include <util.h>

#include "ofproxyd/model/model.h"

/* Objects of all names have the same shape; 'variant' makes them differ. */

static bool
put_svc(struct model *m, const char *name, int variant)
{
    struct svc_port port = { "http", PROTO_TCP, 80 + variant, 0 };

    return model_put_svc(m, svc_pack(
                                &(struct svc){
                                    .meta = { "ns1", name, "u-1", 7, 1 },
                                    .ports = &port,
                                    .n_ports = 1,
                                },
                                model_pool(m)));
}

static bool
put_slice_version(struct model *m, const char *name, const char *service,
                  int variant, uint64_t version)
{
    struct slice_endpoint eps[3] = {
        { .ip = ip_from_v4(htonl(0x0a0a0101)), .node = "n1", .ready = true },
        { .ip = ip_from_v4(htonl(0x0a0a0102)), .node = "n2", .ready = true },
        { .ip = ip_from_v4(htonl(0x0a0a0103)), .node = "n2", .ready = true },
    };
    struct slice_port port = { "http", PROTO_TCP, 8080 };

    return model_put_slice(m, slice_pack(
                                  &(struct slice){
                                      .meta = { "ns1", name, "", version, 1 },
                                      .service = service,
                                      .ports = &port,
                                      .n_ports = 1,
                                      .endpoints = eps,
                                      .n_endpoints = variant,
                                  },
                                  model_pool(m)));
}

static bool
put_slice(struct model *m, const char *name, const char *service, int variant)
{
    return put_slice_version(m, name, service, variant, 7);
}

static bool
put_node(struct model *m, const char *name, const char *zone, bool deleting)
{
    return model_put_node(m, node_pack(
                                 &(struct node){
                                     .meta = { "", name, "u-1", 7, 1 },
                                     .zone = zone,
                                     .deleting = deleting,
                                 },
                                 model_pool(m)));
}

/* Empties the queue; the names that stood in it, in order, with blanks. */
static const char *
pop_all(struct model *m)
{
    static char buf[4096];
    const struct model_service *ms;
    size_t n = 0;

    buf[0] = '\0';
    while ((ms = model_pop_dirty(m)) != NULL) {
        n += snprintf(buf + n, sizeof buf - n, "%s%s", n ? " " : "", ms->name);
    }
    assert_false(model_has_dirty(m));
    return buf;
}

/* The slices of a Service, with blanks. */
static const char *
slices_of(const struct model *m, const char *name)
{
    static char buf[4096];
    const struct model_service *ms = model_find_service(m, "ns1", name);
    const struct model_slice *s;
    size_t n = 0, n_slices = 0;

    buf[0] = '\0';
    if (ms) {
        LIST_FOR_EACH (s, list_node, &ms->slices) {
            n += snprintf(buf + n, sizeof buf - n, "%s%s", n ? " " : "",
                          s->slice->meta.name);
            n_slices++;
        }
        assert_int_equal(ms->n_slices, n_slices);
    }
    return buf;
}

/* Empties the queue of Nodes; the names, in order, with blanks, those that are
 * gone with a '-' in front. */
static const char *
pop_nodes(struct model *m)
{
    static char buf[4096];
    const char *name;
    size_t n = 0;

    buf[0] = '\0';
    while ((name = model_pop_dirty_node(m)) != NULL) {
        n += snprintf(buf + n, sizeof buf - n, "%s%s%s", n ? " " : "",
                      model_find_node(m, name) ? "" : "-", name);
    }
    assert_false(model_has_dirty_node(m));
    return buf;
}

static void
list_nothing(struct model *m, enum model_kind kind)
{
    model_relist_begin(m, kind);
    model_relist_end(m, kind);
}

static void
changed_service_stands_in_the_queue_once_and_in_order(void **state OVS_UNUSED)
{
    struct model *m = model_create("n1");

    assert_false(model_has_dirty(m));
    assert_null(model_pop_dirty(m));
    assert_true(put_svc(m, "b", 0));
    assert_true(put_svc(m, "a", 0));
    assert_true(put_slice(m, "b-1", "b", 1));
    assert_true(put_slice(m, "c-1", "c", 1));
    assert_true(put_svc(m, "a", 1));
    assert_true(put_svc(m, "b", 1));
    assert_true(model_has_dirty(m));
    assert_string_equal(pop_all(m), "b a c");

    assert_true(put_svc(m, "a", 2));
    assert_string_equal(pop_all(m), "a");
    model_destroy(m);
    model_destroy(NULL);
}

static void
equal_object_changes_nothing_but_the_version(void **state OVS_UNUSED)
{
    struct model *m = model_create("n1");

    put_svc(m, "a", 0);
    put_slice_version(m, "a-1", "a", 2, 7);
    put_node(m, "n1", "za", false);
    pop_all(m);
    uint64_t seqno = model_nodes_seqno(m);

    assert_false(put_svc(m, "a", 0));
    assert_false(put_slice_version(m, "a-1", "a", 2, 9));
    assert_false(put_node(m, "n1", "za", false));
    assert_false(model_has_dirty(m));
    assert_int_equal(model_nodes_seqno(m), seqno);

    const struct model_service *ms = model_find_service(m, "ns1", "a");
    struct model_slice *s = CONTAINER_OF(ovs_list_front(&ms->slices),
                                         struct model_slice, list_node);
    assert_int_equal(s->slice->meta.version, 9);
    model_destroy(m);
}

static void
version_that_overtakes_another_slice_is_a_change(void **state OVS_UNUSED)
{
    struct model *m = model_create("n1");

    put_slice_version(m, "a-1", "a", 1, 10);
    put_slice_version(m, "a-2", "a", 1, 20);
    put_slice_version(m, "b-1", "b", 1, 30);
    pop_all(m);
    assert_false(put_slice_version(m, "a-1", "a", 1, 19));
    assert_false(put_slice_version(m, "a-2", "a", 1, 40));
    assert_false(put_slice_version(m, "a-1", "a", 1, 35));
    assert_string_equal(pop_all(m), "");
    assert_true(put_slice_version(m, "a-1", "a", 1, 41));
    assert_string_equal(pop_all(m), "a");
    model_destroy(m);
}

static void
b2_recreated_service_with_another_uid_is_a_change(void **state OVS_UNUSED)
{
    struct model *m = model_create("n1");
    struct svc svc = { .meta = { "ns1", "a", "u-1", 1, 1 } };

    model_put_svc(m, svc_pack(&svc, model_pool(m)));
    put_slice(m, "a-1", "a", 1);
    pop_all(m);

    svc.meta.uid = "u-2";
    assert_true(model_put_svc(m, svc_pack(&svc, model_pool(m))));
    assert_string_equal(pop_all(m), "a");
    assert_string_equal(model_find_service(m, "ns1", "a")->svc->meta.uid,
                        "u-2");
    assert_string_equal(slices_of(m, "a"), "a-1");

    /* Deleted and added in one breath. */
    assert_true(model_delete(m, MODEL_SERVICES, "ns1", "a"));
    svc.meta.uid = "u-3";
    assert_true(model_put_svc(m, svc_pack(&svc, model_pool(m))));
    assert_string_equal(pop_all(m), "a");
    assert_string_equal(slices_of(m, "a"), "a-1");
    model_destroy(m);
}

static void
b14_slice_may_come_before_its_service(void **state OVS_UNUSED)
{
    struct model *m = model_create("n1");

    put_slice(m, "a-1", "a", 1);
    const struct model_service *ms = model_pop_dirty(m);
    assert_string_equal(ms->ns, "ns1");
    assert_string_equal(ms->name, "a");
    assert_null(ms->svc);
    assert_int_equal(ms->n_slices, 1);

    put_svc(m, "a", 0);
    ms = model_pop_dirty(m);
    assert_non_null(ms->svc);
    assert_int_equal(ms->n_slices, 1);

    model_delete(m, MODEL_SERVICES, "ns1", "a");
    ms = model_pop_dirty(m);
    assert_null(ms->svc);
    assert_int_equal(ms->n_slices, 1);
    assert_ptr_equal(model_find_service(m, "ns1", "a"), ms);
    model_destroy(m);
}

static void
b19_added_family_is_a_change_of_the_service(void **state OVS_UNUSED)
{
    struct model *m = model_create("n1");
    struct svc svc = { .meta = { "ns1", "a", "u-1", 1, 1 } };

    svc.cluster_ips[IP_V4] = ip_from_v4(htonl(0x0a600001));
    model_put_svc(m, svc_pack(&svc, model_pool(m)));
    pop_all(m);
    svc.cluster_ips[IP_V6].in6.s6_addr[0] = 0xfd;
    assert_true(model_put_svc(m, svc_pack(&svc, model_pool(m))));
    assert_string_equal(pop_all(m), "a");
    model_destroy(m);
}

static void
slice_whose_label_changes_moves_and_leaves_nothing_behind(
    void **state OVS_UNUSED)
{
    struct model *m = model_create("n1");

    put_svc(m, "a", 0);
    put_svc(m, "b", 0);
    put_slice(m, "s-1", "a", 1);
    put_slice(m, "s-2", "a", 1);
    pop_all(m);
    assert_true(put_slice(m, "s-1", "b", 1));
    assert_string_equal(pop_all(m), "a b");
    assert_string_equal(slices_of(m, "a"), "s-2");
    assert_string_equal(slices_of(m, "b"), "s-1");

    /* To a Service that doesn't exist, from the last one. */
    assert_true(put_slice(m, "s-1", "c", 2));
    model_delete(m, MODEL_SERVICES, "ns1", "b");
    assert_string_equal(pop_all(m), "b c");
    assert_null(model_find_service(m, "ns1", "b"));
    assert_string_equal(slices_of(m, "c"), "s-1");
    model_destroy(m);
}

static void
b13_slices_are_counted_one_by_one(void **state OVS_UNUSED)
{
    struct model *m = model_create("n1");

    put_slice(m, "a-3", "a", 1);
    put_slice(m, "a-1", "a", 1);
    put_slice(m, "a-2", "a", 1);
    assert_string_equal(slices_of(m, "a"), "a-1 a-2 a-3");
    pop_all(m);
    assert_true(model_delete(m, MODEL_SLICES, "ns1", "a-1"));
    assert_false(model_delete(m, MODEL_SLICES, "ns1", "a-1"));
    assert_string_equal(slices_of(m, "a"), "a-2 a-3");
    assert_string_equal(pop_all(m), "a");
    model_destroy(m);
}

static void
deleting_what_is_not_there_changes_nothing(void **state OVS_UNUSED)
{
    struct model *m = model_create("n1");

    put_slice(m, "a-1", "a", 1);
    pop_all(m);
    assert_false(model_delete(m, MODEL_SERVICES, "ns1", "a"));
    assert_false(model_delete(m, MODEL_SERVICES, "ns1", "z"));
    assert_false(model_delete(m, MODEL_SLICES, "ns2", "a-1"));
    assert_false(model_delete(m, MODEL_NODES, "", "n1"));
    assert_false(model_has_dirty(m));
    assert_int_equal(model_nodes_seqno(m), 0);
    model_destroy(m);
}

static void
names_in_two_namespaces_are_two_services(void **state OVS_UNUSED)
{
    struct model *m = model_create("n1");
    static const char *const ns[] = { "ns1", "ns2" };

    for (size_t i = 0; i < ARRAY_SIZE(ns); i++) {
        struct svc svc = { .meta = { ns[i], "a", "u-1", 1, 1 } };

        assert_true(model_put_svc(m, svc_pack(&svc, model_pool(m))));
    }
    assert_string_equal(pop_all(m), "a a");
    assert_true(model_delete(m, MODEL_SERVICES, "ns2", "a"));
    assert_non_null(model_find_service(m, "ns1", "a"));
    assert_null(model_find_service(m, "ns2", "a"));
    model_destroy(m);
}

static void
service_that_has_gone_is_told_once_more(void **state OVS_UNUSED)
{
    struct model *m = model_create("n1");
    struct model_counts counts;

    put_svc(m, "a", 0);
    put_slice(m, "a-1", "a", 1);
    pop_all(m);
    model_delete(m, MODEL_SLICES, "ns1", "a-1");
    model_delete(m, MODEL_SERVICES, "ns1", "a");
    assert_null(model_find_service(m, "ns1", "a"));

    const struct model_service *ms = model_pop_dirty(m);
    assert_string_equal(ms->name, "a");
    assert_null(ms->svc);
    assert_true(ovs_list_is_empty(&ms->slices));
    assert_true(hmap_is_empty(model_services(m)));
    assert_null(model_pop_dirty(m));

    /* Whoever has to try again asks for it by name. */
    model_mark_dirty(m, "ns1", "a");
    model_mark_dirty(m, "ns1", "a");
    assert_string_equal(pop_all(m), "a");
    assert_true(hmap_is_empty(model_services(m)));
    assert_int_equal(intern_count(model_pool(m)), 0);
    model_count(m, &counts);
    assert_int_equal(counts.n[MODEL_SERVICES] + counts.n[MODEL_SLICES]
                         + counts.n_endpoints,
                     0);
    model_destroy(m);
}

static void
service_can_come_back_while_it_is_popped(void **state OVS_UNUSED)
{
    struct model *m = model_create("n1");

    put_svc(m, "a", 0);
    model_delete(m, MODEL_SERVICES, "ns1", "a");
    const struct model_service *gone = model_pop_dirty(m);
    assert_null(gone->svc);
    put_svc(m, "a", 1);
    assert_null(gone->svc);
    const struct model_service *back = model_pop_dirty(m);
    assert_string_equal(back->name, "a");
    assert_int_equal(back->svc->ports[0].port, 81);
    model_destroy(m);
}

static void
b16_relist_removes_what_vanished_during_an_outage(void **state OVS_UNUSED)
{
    struct model *m = model_create("n1");

    put_svc(m, "a", 0);
    put_svc(m, "b", 0);
    put_svc(m, "c", 0);
    put_slice(m, "a-1", "a", 1);
    put_slice(m, "b-1", "b", 1);
    put_slice(m, "b-2", "b", 1);
    put_slice(m, "c-1", "c", 1);
    pop_all(m);

    /* Service a and one slice of b are gone, c has another port. */
    model_relist_begin(m, MODEL_SERVICES);
    assert_true(put_svc(m, "c", 1));
    assert_false(put_svc(m, "b", 0));
    assert_int_equal(model_relist_end(m, MODEL_SERVICES), 1);
    assert_string_equal(pop_all(m), "c a");

    model_relist_begin(m, MODEL_SLICES);
    assert_false(put_slice(m, "c-1", "c", 1));
    assert_false(put_slice(m, "b-2", "b", 1));
    assert_int_equal(model_relist_end(m, MODEL_SLICES), 2);
    const char *popped = pop_all(m);
    assert_true(!strcmp(popped, "a b") || !strcmp(popped, "b a"));
    assert_null(model_find_service(m, "ns1", "a"));
    assert_string_equal(slices_of(m, "b"), "b-2");
    assert_string_equal(slices_of(m, "c"), "c-1");
    model_destroy(m);
}

static void
unchanged_relist_touches_nothing(void **state OVS_UNUSED)
{
    struct model *m = model_create("n1");

    for (int round = 0; round < 3; round++) {
        for (int kind = 0; kind < N_MODEL_KINDS; kind++) {
            model_relist_begin(m, kind);
        }
        assert_int_equal(put_svc(m, "a", 0), !round);
        assert_int_equal(put_slice(m, "a-1", "a", 1), !round);
        assert_int_equal(put_node(m, "n1", "za", false), !round);
        for (int kind = 0; kind < N_MODEL_KINDS; kind++) {
            assert_int_equal(model_relist_end(m, kind), 0);
        }
        assert_string_equal(pop_all(m), round ? "" : "a");
        assert_int_equal(model_nodes_seqno(m), 1);
    }
    model_destroy(m);
}

static void
o5_half_a_list_removes_nothing(void **state OVS_UNUSED)
{
    struct model *m = model_create("n1");

    put_svc(m, "a", 0);
    put_svc(m, "b", 0);
    pop_all(m);
    model_relist_begin(m, MODEL_SERVICES);
    put_svc(m, "a", 0);
    model_relist_begin(m, MODEL_SERVICES);
    assert_false(model_has_dirty(m));
    put_svc(m, "b", 0);
    assert_int_equal(model_relist_end(m, MODEL_SERVICES), 1);
    assert_null(model_find_service(m, "ns1", "a"));
    assert_non_null(model_find_service(m, "ns1", "b"));
    model_destroy(m);
}

static void
malformed_object_is_kept_as_it_was(void **state OVS_UNUSED)
{
    struct model *m = model_create("n1");

    put_svc(m, "a", 0);
    put_slice(m, "a-1", "a", 1);
    put_node(m, "n1", "za", false);
    pop_all(m);
    for (int kind = 0; kind < N_MODEL_KINDS; kind++) {
        model_relist_begin(m, kind);
    }
    model_keep(m, MODEL_SERVICES, "ns1", "a");
    model_keep(m, MODEL_SERVICES, "ns1", "unknown");
    model_keep(m, MODEL_SLICES, "ns1", "a-1");
    model_keep(m, MODEL_SLICES, "ns1", "unknown");
    model_keep(m, MODEL_NODES, "", "n1");
    model_keep(m, MODEL_NODES, "", "unknown");
    for (int kind = 0; kind < N_MODEL_KINDS; kind++) {
        assert_int_equal(model_relist_end(m, kind), 0);
    }
    assert_false(model_has_dirty(m));
    assert_string_equal(slices_of(m, "a"), "a-1");

    /* Once is not for ever. */
    list_nothing(m, MODEL_SERVICES);
    list_nothing(m, MODEL_SLICES);
    assert_null(model_find_service(m, "ns1", "a"));
    model_destroy(m);
}

static void
optional_kinds_are_waited_for_until_given_up(void **state OVS_UNUSED)
{
    struct model *m = model_create("n1");

    for (int kind = 0; kind < N_MODEL_KINDS; kind++) {
        model_give_up(m, kind);
        assert_false(model_settled(m)); /* The others are a must. */
    }
    for (int kind = 0; kind < N_MODEL_KINDS; kind++) {
        if (!model_kind_is_optional(kind)) {
            assert_false(model_settled(m));
            list_nothing(m, kind);
        }
    }
    assert_true(model_settled(m));
    assert_false(model_kind_synced(m, MODEL_SERVICE_CIDRS));
    assert_false(model_kind_known(m, MODEL_SERVICE_CIDRS));
    assert_true(model_kind_known(m, MODEL_SERVICES));
    model_set_absent(m, MODEL_SERVICE_CIDRS);
    assert_false(model_kind_synced(m, MODEL_SERVICE_CIDRS));
    assert_true(model_kind_known(m, MODEL_SERVICE_CIDRS));
    model_destroy(m);
}

static void
synced_means_that_every_kind_was_listed(void **state OVS_UNUSED)
{
    struct model *m = model_create("n1");

    for (int kind = 0; kind < N_MODEL_KINDS; kind++) {
        assert_non_null(model_kind_name(kind));
        assert_true(model_synced(m) == model_kind_is_optional(kind));
        assert_false(model_settled(m));
        model_relist_begin(m, kind);
        assert_false(model_kind_synced(m, kind));
        model_relist_end(m, kind);
        assert_true(model_kind_synced(m, kind));
    }
    assert_true(model_synced(m));
    assert_true(model_settled(m));

    /* And it stays so during the next list. */
    model_relist_begin(m, MODEL_SLICES);
    assert_true(model_synced(m));
    model_relist_end(m, MODEL_SLICES);
    assert_string_equal(model_kind_name(MODEL_SLICES), "EndpointSlice");
    model_destroy(m);
}

static void
a7_own_zone_change_marks_all_services(void **state OVS_UNUSED)
{
    static const struct {
        const char *node, *zone; /* No zone: the node is deleted. */
        bool changed, all_dirty;
    } steps[] = {
        { "n1", "", true, false },    { "n2", "za", true, false },
        { "n1", "za", true, true },   { "n1", "za", false, false },
        { "n2", "zb", true, false },  { "n1", "zb", true, true },
        { "n2", NULL, true, false },  { "n1", NULL, true, true },
        { "n1", NULL, false, false }, { "n1", "zb", true, true },
    };
    struct model *m = model_create("n1");

    put_svc(m, "a", 0);
    put_slice(m, "b-1", "b", 1);
    pop_all(m);
    for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
        uint64_t seqno = model_nodes_seqno(m);
        bool changed = steps[i].zone
                           ? put_node(m, steps[i].node, steps[i].zone, false)
                           : model_delete(m, MODEL_NODES, "", steps[i].node);

        assert_int_equal(changed, steps[i].changed);
        assert_int_equal(model_nodes_seqno(m) - seqno, steps[i].changed);
        assert_int_equal(strlen(pop_all(m)), steps[i].all_dirty ? 3 : 0);
    }
    model_destroy(m);
}

static void
other_change_of_the_own_node_marks_none(void **state OVS_UNUSED)
{
    struct model *m = model_create("n1");

    put_svc(m, "a", 0);
    put_node(m, "n1", "za", false);
    pop_all(m);
    assert_true(put_node(m, "n1", "za", true));
    assert_false(model_has_dirty(m));
    assert_true(model_own_node(m)->deleting);
    assert_ptr_equal(model_find_node(m, "n1"), model_own_node(m));
    assert_null(model_find_node(m, "n2"));
    assert_string_equal(model_node_name(m), "n1");
    model_destroy(m);
}

static void
relist_sweeps_nodes_too(void **state OVS_UNUSED)
{
    struct model *m = model_create("n1");

    put_svc(m, "a", 0);
    put_node(m, "n1", "za", false);
    put_node(m, "n2", "za", false);
    pop_all(m);
    model_relist_begin(m, MODEL_NODES);
    put_node(m, "n2", "za", false);
    assert_int_equal(model_relist_end(m, MODEL_NODES), 1);
    assert_null(model_own_node(m));
    assert_int_equal(hmap_count(model_nodes(m)), 1);
    assert_string_equal(pop_all(m), "a");
    model_destroy(m);
}

static void
mark_all_keeps_the_order_of_what_waits(void **state OVS_UNUSED)
{
    struct model *m = model_create("n1");

    put_svc(m, "a", 0);
    put_svc(m, "b", 0);
    put_svc(m, "c", 0);
    pop_all(m);
    put_svc(m, "c", 1);
    put_svc(m, "b", 1);
    model_mark_all_dirty(m);
    assert_string_equal(pop_all(m), "c b a");
    model_destroy(m);
}

static void
counts_follow_the_objects(void **state OVS_UNUSED)
{
    struct model *m = model_create("n1");
    struct model_counts counts;

    put_svc(m, "a", 0);
    put_svc(m, "a", 1);
    put_svc(m, "b", 1);
    put_slice(m, "a-1", "a", 3);
    put_slice(m, "a-1", "a", 2);
    put_slice(m, "b-1", "a", 3);
    put_slice(m, "b-1", "b", 1);
    put_node(m, "n1", "", false);
    model_count(m, &counts);
    assert_int_equal(counts.n[MODEL_SERVICES], 2);
    assert_int_equal(counts.n[MODEL_SLICES], 2);
    assert_int_equal(counts.n_endpoints, 3);
    assert_int_equal(counts.n[MODEL_NODES], 1);

    model_delete(m, MODEL_SERVICES, "ns1", "a");
    model_delete(m, MODEL_SLICES, "ns1", "a-1");
    list_nothing(m, MODEL_NODES);
    model_count(m, &counts);
    assert_int_equal(counts.n[MODEL_SERVICES], 1);
    assert_int_equal(counts.n[MODEL_SLICES], 1);
    assert_int_equal(counts.n_endpoints, 1);
    assert_int_equal(counts.n[MODEL_NODES], 0);
    model_destroy(m);
}

static void
memory_follows_the_objects_not_the_events(void **state OVS_UNUSED)
{
    enum {
        N = 5000
    };
    struct model *m = model_create("n1");
    char name[32], slice[32];

    for (int i = 0; i < N; i++) {
        snprintf(name, sizeof name, "svc-%d", i);
        snprintf(slice, sizeof slice, "slice-%d", i);
        put_svc(m, name, 0);
        put_slice(m, slice, name, 1);
    }
    assert_true(model_services(m)->mask >= N / 2);
    list_nothing(m, MODEL_SERVICES);
    list_nothing(m, MODEL_SLICES);
    for (int i = 0; i < N; i++) {
        assert_non_null(model_pop_dirty(m));
    }
    assert_null(model_pop_dirty(m));
    assert_in_range(model_services(m)->mask, 0, 63);
    assert_int_equal(intern_count(model_pool(m)), 0);
    model_destroy(m);
}

static void
changed_node_stands_in_the_queue_once_and_in_order(void **state OVS_UNUSED)
{
    struct model *m = model_create("n1");

    assert_false(model_has_dirty_node(m));
    assert_null(model_pop_dirty_node(m));
    put_node(m, "n2", "", false);
    put_node(m, "n1", "", false); /* The own one, too. */
    put_node(m, "n3", "", false);
    put_node(m, "n2", "za", false);
    assert_true(model_has_dirty_node(m));
    assert_string_equal(pop_nodes(m), "n2 n1 n3");

    put_node(m, "n3", "", false);
    assert_string_equal(pop_nodes(m), "");
    put_node(m, "n3", "", true);
    assert_string_equal(pop_nodes(m), "n3");
    put_node(m, "n2", "zb", false); /* Left to model_destroy(). */
    model_delete(m, MODEL_NODES, "", "n3");
    model_destroy(m);
}

static void
node_that_has_gone_is_told(void **state OVS_UNUSED)
{
    struct model *m = model_create("n1");

    for (int i = 0; i < 4; i++) {
        char name[] = { 'a' + i, '\0' };
        put_node(m, name, "", false);
    }
    assert_string_equal(pop_nodes(m), "a b c d");
    model_delete(m, MODEL_NODES, "", "b");
    assert_false(model_delete(m, MODEL_NODES, "", "b"));
    assert_string_equal(pop_nodes(m), "-b");

    /* Gone and back again. */
    model_delete(m, MODEL_NODES, "", "c");
    put_node(m, "c", "", false);
    assert_string_equal(pop_nodes(m), "c");

    /* It never was, for who looks now. */
    put_node(m, "e", "", false);
    model_delete(m, MODEL_NODES, "", "e");
    assert_string_equal(pop_nodes(m), "-e");

    model_relist_begin(m, MODEL_NODES);
    put_node(m, "a", "", false);
    model_keep(m, MODEL_NODES, "", "c");
    model_relist_end(m, MODEL_NODES);
    assert_string_equal(pop_nodes(m), "-d");
    model_destroy(m);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            changed_service_stands_in_the_queue_once_and_in_order),
        cmocka_unit_test(equal_object_changes_nothing_but_the_version),
        cmocka_unit_test(version_that_overtakes_another_slice_is_a_change),
        cmocka_unit_test(b2_recreated_service_with_another_uid_is_a_change),
        cmocka_unit_test(b13_slices_are_counted_one_by_one),
        cmocka_unit_test(b14_slice_may_come_before_its_service),
        cmocka_unit_test(b16_relist_removes_what_vanished_during_an_outage),
        cmocka_unit_test(b19_added_family_is_a_change_of_the_service),
        cmocka_unit_test(
            slice_whose_label_changes_moves_and_leaves_nothing_behind),
        cmocka_unit_test(deleting_what_is_not_there_changes_nothing),
        cmocka_unit_test(names_in_two_namespaces_are_two_services),
        cmocka_unit_test(service_that_has_gone_is_told_once_more),
        cmocka_unit_test(service_can_come_back_while_it_is_popped),
        cmocka_unit_test(unchanged_relist_touches_nothing),
        cmocka_unit_test(o5_half_a_list_removes_nothing),
        cmocka_unit_test(malformed_object_is_kept_as_it_was),
        cmocka_unit_test(synced_means_that_every_kind_was_listed),
        cmocka_unit_test(optional_kinds_are_waited_for_until_given_up),
        cmocka_unit_test(a7_own_zone_change_marks_all_services),
        cmocka_unit_test(other_change_of_the_own_node_marks_none),
        cmocka_unit_test(relist_sweeps_nodes_too),
        cmocka_unit_test(mark_all_keeps_the_order_of_what_waits),
        cmocka_unit_test(counts_follow_the_objects),
        cmocka_unit_test(memory_follows_the_objects_not_the_events),
        cmocka_unit_test(changed_node_stands_in_the_queue_once_and_in_order),
        cmocka_unit_test(node_that_has_gone_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
