/* SPDX-License-Identifier: Apache-2.0 */
/* The ways to other nodes' pod networks, case by case. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <util.h>

#include "../support/peersfix.h"
#include "ofproxyd/base/hash.h"
#include "ofproxyd/base/idpool.h"
#include "ofproxyd/flow/cookie.h"

#define OWN_V4 "192.0.2.1/24"
#define OWN_V6 "2001:db8::1/64"
#define POD_V4 "10.10.1.0/24"
#define POD_V6 "2001:db8:10:1::/64"

static const struct peersfix_env dual = { CFG_ENCAP, OWN_V4 " " OWN_V6,
                                          POD_V4 " " POD_V6, NULL };

/* Who has a network.  Nodes are reached at 192.0.2.N. */

static void
put(struct peers *p, const char *name, int64_t created_s, const char *pods)
{
    char *address = xasprintf("192.0.2.%s", name + 1);

    peersfix_put(p, &(struct peersfix_node){ .name = name,
                                             .created_s = created_s,
                                             .pods = pods,
                                             .addresses = address });
    free(address);
}

static struct peers *
make_dual(void)
{
    struct peers *p = peers_create("n1");

    peersfix_set_env(p, &dual);
    return p;
}

/* Each step puts a Node, removes it if 'created_s' is -1, or, without a name,
 * checks the networks that each has by then. */
struct step {
    const char *name;
    int64_t created_s;
    const char *pods;
};
#define REMOVE(NAME)   \
    {                  \
        NAME, -1, NULL \
    }
#define HAVE(TEXT)    \
    {                 \
        NULL, 0, TEXT \
    }

/* Who has what, according to what was handed out. */
static void
check_have(struct peers *p, const char *expected)
{
    struct ds changes = DS_EMPTY_INITIALIZER, found = DS_EMPTY_INITIALIZER;
    char *save = NULL, *text;

    peersfix_drain(p, &changes);
    ds_destroy(&changes);
    peers_format(p, &found);
    text = ds_steal_cstr(&found);
    for (char *line = strtok_r(text, "\n", &save); line;
         line = strtok_r(NULL, "\n", &save)) {
        if (!strstr(line, ": ")) {
            ds_put_format(&found, "%s%.*s", found.length ? " " : "",
                          (int) (strcspn(line, " ") + 1
                                 + strcspn(strchr(line, ' ') + 1, " ")),
                          line);
        }
    }
    assert_string_equal(ds_cstr(&found), expected);
    free(text);
    ds_destroy(&found);
}

static void
run_steps(const struct step *steps, size_t n)
{
    struct peers *p = make_dual();

    for (size_t i = 0; i < n; i++) {
        const struct step *s = &steps[i];

        if (!s->name) {
            check_have(p, s->pods);
        } else if (s->created_s < 0) {
            peers_remove(p, s->name);
        } else {
            put(p, s->name, s->created_s, s->pods);
        }
    }
    peers_destroy(p);
}
#define RUN_STEPS(STEPS) run_steps(STEPS, ARRAY_SIZE(STEPS))

static void
b10_newest_node_has_the_network_until_it_goes(void **state OVS_UNUSED)
{
    struct peers *p = make_dual();

    put(p, "n2", 1, "10.10.2.0/24");
    peersfix_expect(p, "n2 +10.10.2.0/24 tunnel 192.0.2.2\n");
    put(p, "n3", 2, "10.10.2.0/24");
    peersfix_expect(
        p, "n2 -10.10.2.0/24\n"
           "n2 [pod network 10.10.2.0/24 is left out: it belongs to node "
           "\"n3\", which is newer]\n"
           "n3 +10.10.2.0/24 tunnel 192.0.2.3\n");
    peers_remove(p, "n3");
    peersfix_expect(p, "n3 -10.10.2.0/24\n"
                       "n2 +10.10.2.0/24 tunnel 192.0.2.2 []\n");
    peers_destroy(p);
}

static void
b10_order_of_events_decides_nothing(void **state OVS_UNUSED)
{
    static const struct step steps[] = {
        { "n4", 3, "10.10.2.0/24" },
        { "n2", 1, "10.10.2.0/24" },
        { "n3", 2, "10.10.2.0/24" },
        HAVE("n4 10.10.2.0/24"),
        REMOVE("n3"),
        HAVE("n4 10.10.2.0/24"),
        REMOVE("n4"),
        HAVE("n2 10.10.2.0/24"),
        { "n3", 2, "10.10.2.0/24" },
        HAVE("n3 10.10.2.0/24"),
        REMOVE("n3"),
        REMOVE("n2"),
        HAVE(""),
        /* As old as each other. */
        { "n5", 7, "10.10.2.0/24" },
        { "n3", 7, "10.10.2.0/24" },
        HAVE("n5 10.10.2.0/24"),
        { "n6", 7, "10.10.2.0/24" },
        HAVE("n6 10.10.2.0/24"),
        /* Older than was thought. */
        { "n6", 6, "10.10.2.0/24" },
        HAVE("n5 10.10.2.0/24"),
    };

    RUN_STEPS(steps);
}

static void
overlapping_networks_count_like_equal_ones(void **state OVS_UNUSED)
{
    static const struct step steps[] = {
        { "n2", 1, "10.20.0.0/16" },
        { "n3", 2, "10.20.3.0/24" },
        { "n4", 3, "10.20.4.0/24 10.30.0.0/24" },
        HAVE("n3 10.20.3.0/24 n4 10.20.4.0/24 n4 10.30.0.0/24"),
        REMOVE("n3"),
        HAVE("n4 10.20.4.0/24 n4 10.30.0.0/24"),
        REMOVE("n4"),
        HAVE("n2 10.20.0.0/16"),
        /* The larger one is newer. */
        { "n5", 0, "10.20.5.0/24 10.40.0.0/24" },
        HAVE("n2 10.20.0.0/16 n5 10.40.0.0/24"),
        { "n6", 9, "10.16.0.0/12" },
        HAVE("n5 10.40.0.0/24 n6 10.16.0.0/12"),
        REMOVE("n6"),
        HAVE("n2 10.20.0.0/16 n5 10.40.0.0/24"),
        REMOVE("n2"),
        HAVE("n5 10.20.5.0/24 n5 10.40.0.0/24"),
        /* The families have nothing to do with each other. */
        { "n7", 9, "2001::/16 ::/0" },
        HAVE("n5 10.20.5.0/24 n5 10.40.0.0/24"),
        { "n7", 9, "2001:db8:10::/60 ::8000:0:0/81" },
        HAVE("n5 10.20.5.0/24 n5 10.40.0.0/24 n7 ::8000:0:0/81"),
    };

    RUN_STEPS(steps);
}

static void
network_that_is_left_out_takes_nothing_from_others(void **state OVS_UNUSED)
{
    static const struct step steps[] = {
        /* n4 is above n3 is above n2, but n2 and n4 don't meet. */
        { "n2", 1, "10.20.2.0/24" },
        { "n3", 2, "10.20.0.0/16" },
        HAVE("n3 10.20.0.0/16"),
        { "n4", 3, "10.20.4.0/24" },
        HAVE("n2 10.20.2.0/24 n4 10.20.4.0/24"),
        REMOVE("n4"),
        HAVE("n3 10.20.0.0/16"),
        { "n4", 3, "10.20.4.0/24" },
        REMOVE("n3"),
        HAVE("n2 10.20.2.0/24 n4 10.20.4.0/24"),
        /* This node's own is in it; and one that is bad in itself. */
        { "n5", 9, "10.0.0.0/8" },
        { "n6", 9, "0.0.0.0/0" },
        HAVE("n2 10.20.2.0/24 n4 10.20.4.0/24"),
    };

    RUN_STEPS(steps);
}

static void
b11_node_recreated_with_another_network_leaves_nothing(void **state OVS_UNUSED)
{
    static const struct step steps[] = {
        { "n2", 1, "10.10.2.0/24 10.20.2.0/24" },
        HAVE("n2 10.10.2.0/24 n2 10.20.2.0/24"),
        /* One after the other, at once, and as one change. */
        REMOVE("n2"),
        HAVE(""),
        { "n2", 2, "10.10.9.0/24" },
        HAVE("n2 10.10.9.0/24"),
        REMOVE("n2"),
        { "n2", 3, "10.10.8.0/24" },
        HAVE("n2 10.10.8.0/24"),
        { "n2", 4, "10.10.9.0/24 10.10.7.0/24" },
        HAVE("n2 10.10.9.0/24 n2 10.10.7.0/24"),
        /* It has none yet, and its old one may go to somebody else. */
        { "n2", 5, NULL },
        HAVE(""),
        { "n3", 6, "10.10.9.0/24" },
        HAVE("n3 10.10.9.0/24"),
        /* It may be gone before it was seen. */
        { "n4", 7, "10.10.4.0/24" },
        REMOVE("n4"),
        REMOVE("n4"),
        REMOVE("n9"),
        HAVE("n3 10.10.9.0/24"),
    };

    RUN_STEPS(steps);
}

static void
nodes_may_exchange_their_networks(void **state OVS_UNUSED)
{
    struct peers *p = make_dual();

    put(p, "n2", 1, "10.10.2.0/24 10.20.2.0/24");
    put(p, "n3", 1, "10.10.3.0/24 10.20.3.0/24");
    peersfix_expect(p, "n2 +10.10.2.0/24 tunnel 192.0.2.2 "
                       "+10.20.2.0/24 tunnel 192.0.2.2\n"
                       "n3 +10.10.3.0/24 tunnel 192.0.2.3 "
                       "+10.20.3.0/24 tunnel 192.0.2.3\n");
    put(p, "n2", 2, "10.10.3.0/24 10.20.2.0/24");
    put(p, "n3", 2, "10.10.2.0/24 10.20.3.0/24");
    peersfix_expect(p, "n3 -10.10.3.0/24\n"
                       "n2 -10.10.2.0/24\n"
                       "n3 +10.10.2.0/24 tunnel 192.0.2.3\n"
                       "n2 +10.10.3.0/24 tunnel 192.0.2.2\n");
    peers_destroy(p);
}

static void
events_between_two_changes_are_heeded(void **state OVS_UNUSED)
{
    struct peers *p = make_dual();
    struct peers_change c;

    put(p, "n2", 1, "10.10.2.0/24");
    put(p, "n3", 2, "10.10.3.0/24");
    peersfix_expect(p, "n2 +10.10.2.0/24 tunnel 192.0.2.2\n"
                       "n3 +10.10.3.0/24 tunnel 192.0.2.3\n");

    /* n3 takes n2's network, but goes before it gets it. */
    put(p, "n3", 2, "10.10.2.0/24");
    for (int i = 0; i < 2; i++) {
        assert_true(peers_pop_change(p, &c));
        assert_string_equal(c.name, i ? "n3" : "n2");
        assert_int_equal(c.n_now, 0);
    }
    peers_remove(p, "n3");
    peersfix_expect(p, "n2 +10.10.2.0/24 tunnel 192.0.2.2\n");

    /* n2 is back before its end was fetched. */
    peers_remove(p, "n2");
    assert_true(peers_pop_change(p, &c));
    put(p, "n2", 3, "10.10.2.0/24");
    peersfix_expect(p, "n2 +10.10.2.0/24 tunnel 192.0.2.2\n");
    peers_destroy(p);
}

static void
what_comes_to_nothing_is_not_handed_out(void **state OVS_UNUSED)
{
    struct peers *p = make_dual();

    put(p, "n2", 1, "10.10.2.0/24");
    put(p, "n3", 2, "10.10.2.0/24");
    peersfix_expect(
        p, "n2 [pod network 10.10.2.0/24 is left out: it belongs to node "
           "\"n3\", which is newer]\n"
           "n3 +10.10.2.0/24 tunnel 192.0.2.3\n");
    put(p, "n2", 1, "10.10.2.0/24");
    put(p, "n3", 2, "10.10.2.0/24");
    peersfix_set_env(p, &dual);
    assert_true(peers_has_change(p));
    peersfix_expect(p, "");
    put(p, "n2", 9, "10.10.2.0/24");
    put(p, "n2", 1, "10.10.2.0/24");
    peers_remove(p, "n3");
    put(p, "n3", 2, "10.10.2.0/24");
    peersfix_expect(p, "");
    peersfix_set_env(p, &dual);
    assert_false(peers_has_change(p));
    peers_destroy(p);
}

static void
node_that_is_being_deleted_counts_until_it_is_gone(void **state OVS_UNUSED)
{
    struct peers *p = make_dual();
    struct cidr pods[1];
    struct node_address address = { .external = false };
    struct node node = {
        .meta = { "", "n2", "", 1, 1 },
        .zone = "",
        .pod_cidrs = pods,
        .n_pod_cidrs = peersfix_cidrs("10.10.2.0/24", pods, 1),
        .addresses = &address,
        .n_addresses = 1,
        .deleting = true,
        .to_be_deleted = true,
    };

    assert_false(ip_from_string("192.0.2.2", &address.ip));
    peers_put(p, &node);
    peersfix_expect(p, "n2 +10.10.2.0/24 tunnel 192.0.2.2\n");
    peers_remove(p, "n2");
    peersfix_expect(p, "n2 -10.10.2.0/24\n");
    peers_destroy(p);
}

static void
own_node_is_passed_over(void **state OVS_UNUSED)
{
    struct peers *p = make_dual();

    put(p, "n1", 1, "10.10.1.0/24 10.10.2.0/24");
    assert_false(peers_has_change(p));
    put(p, "n2", 1, "10.10.2.0/24");
    peers_remove(p, "n1");
    peersfix_expect(p, "n2 +10.10.2.0/24 tunnel 192.0.2.2\n");
    peers_destroy(p);
}

static void
node_with_another_address_is_one_change(void **state OVS_UNUSED)
{
    struct peers *p = make_dual();

    put(p, "n2", 1, "10.10.2.0/24");
    peersfix_expect(p, "n2 +10.10.2.0/24 tunnel 192.0.2.2\n");
    peersfix_put(p, &(struct peersfix_node){ .name = "n2",
                                             .created_s = 1,
                                             .pods = "10.10.2.0/24",
                                             .addresses = "192.0.2.2",
                                             .annotated = "198.51.100.2" });
    peersfix_expect(p, "n2 ~10.10.2.0/24 tunnel 198.51.100.2\n");
    peers_destroy(p);
}

/* This node. */

static void
change_of_this_node_is_followed(void **state OVS_UNUSED)
{
    static const struct {
        struct peersfix_env env;
        const char *expected;
    } steps[] = {
        { { CFG_HYBRID, OWN_V4, POD_V4, NULL },
          "n2 +10.10.2.0/24 direct 192.0.2.2\n"
          "n3 +10.10.3.0/24 direct 192.0.2.3\n" },
        { { CFG_HYBRID, "192.0.2.1/31", POD_V4, NULL },
          "n2 ~10.10.2.0/24 tunnel 192.0.2.2\n"
          "n3 ~10.10.3.0/24 tunnel 192.0.2.3\n" },
        { { CFG_HYBRID, "192.0.2.3/31", POD_V4, NULL },
          "n3 -10.10.3.0/24\n"
          "n2 ~10.10.2.0/24 direct 192.0.2.2\n"
          "n3 [pod network 10.10.3.0/24 is left out: the node has no address "
          "that this node can use]\n" },
        /* This node's network is what n2 has, then what n3 has. */
        { { CFG_HYBRID, OWN_V4, "10.10.2.0/24", NULL },
          "n2 -10.10.2.0/24\n"
          "n2 [pod network 10.10.2.0/24 is left out: it overlaps this node's "
          "own 10.10.2.0/24]\n"
          "n3 +10.10.3.0/24 direct 192.0.2.3 []\n" },
        { { CFG_HYBRID, OWN_V4, "10.10.1.0/24 10.10.3.0/24", NULL },
          "n3 -10.10.3.0/24\n"
          "n2 +10.10.2.0/24 direct 192.0.2.2 []\n"
          "n3 [pod network 10.10.3.0/24 is left out: it overlaps this node's "
          "own 10.10.3.0/24]\n" },
        { { CFG_NETWORK_POLICY_ONLY, OWN_V4, "10.10.1.0/24", NULL },
          "n2 -10.10.2.0/24\n"
          "n3 []\n" },
        { { CFG_NO_ENCAP, OWN_V4, "10.10.1.0/24", NULL },
          "n2 +10.10.2.0/24 direct 192.0.2.2\n"
          "n3 +10.10.3.0/24 direct 192.0.2.3\n" },
        { { CFG_NO_ENCAP, OWN_V4, NULL, NULL },
          "n2 -10.10.2.0/24\n"
          "n3 -10.10.3.0/24\n" },
    };
    struct peers *p = peers_create("n1");

    put(p, "n2", 1, "10.10.2.0/24");
    put(p, "n3", 1, "10.10.3.0/24");
    peersfix_expect(p, "");
    for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
        peersfix_set_env(p, &steps[i].env);
        peersfix_expect(p, steps[i].expected);
    }
    peers_destroy(p);
}

/* Ids. */

/* Takes all changes and returns the id of Node 'name'. */
static uint32_t
id_of(struct peers *p, const char *name)
{
    uint32_t id = UINT32_MAX;
    struct peers_change c;

    while (peers_pop_change(p, &c)) {
        if (!strcmp(c.name, name)) {
            assert_true(id == UINT32_MAX || id == c.object_id);
            id = c.object_id;
        }
    }
    return id;
}

static void
id_is_that_of_the_name(void **state OVS_UNUSED)
{
    struct peers *p = make_dual();
    struct peers *other = make_dual();

    put(p, "n2", 1, "10.10.2.0/24");
    put(p, "n3", 1, "10.10.3.0/24");
    uint32_t id = id_of(p, "n2");

    put(other, "n3", 1, "10.10.4.0/24");
    put(other, "n2", 9, "10.10.5.0/24");
    assert_int_equal(id_of(other, "n2"), id);
    assert_in_range(id, 0, OBJECT_ID_MAX);

    put(p, "n2", 2, "10.10.7.0/24");
    assert_int_equal(id_of(p, "n2"), id);
    peers_remove(p, "n2");
    assert_int_equal(id_of(p, "n2"), id);
    put(p, "n2", 3, "10.10.7.0/24");
    assert_int_equal(id_of(p, "n2"), id);
    peers_destroy(p);
    peers_destroy(other);
}

struct finder {
    uint32_t id;
    unsigned int n_calls;
};

static uint32_t
find_id(const struct peer *peers, size_t n, void *finder_)
{
    struct finder *f = finder_;

    assert_int_equal(n, 1);
    assert_int_equal(peers[0].cidr.plen, 24);
    f->n_calls++;
    return f->id;
}

static void
id_that_the_switch_has_is_kept_if_it_can_be_the_nodes(void **state OVS_UNUSED)
{
    static const struct {
        uint32_t distance;
        bool kept;
    } cases[] = {
        { 0, true },
        { 1, true },
        { 7, true },
        { 8, false },
        { OBJECT_ID_MAX, false }, /* One less. */
    };
    struct peers *plain = make_dual();

    put(plain, "n2", 1, "10.10.2.0/24");
    uint32_t id = id_of(plain, "n2");
    peers_destroy(plain);

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct finder f = { (id + cases[i].distance) & OBJECT_ID_MAX, 0 };
        struct peers *p = make_dual();

        peers_set_find_id(p, find_id, &f);
        put(p, "n2", 1, "10.10.2.0/24");
        assert_int_equal(id_of(p, "n2"), cases[i].kept ? f.id : id);
        put(p, "n2", 2, "10.10.3.0/24");
        assert_int_equal(id_of(p, "n2"), cases[i].kept ? f.id : id);
        assert_int_equal(f.n_calls, 1);
        peers_destroy(p);
    }

    /* Nothing found; and found with what another Node has already. */
    struct finder f = { UINT32_MAX, 0 };
    struct peers *p = make_dual();
    peers_set_find_id(p, find_id, &f);
    put(p, "n2", 1, "10.10.2.0/24");
    assert_int_equal(id_of(p, "n2"), id);
    f.id = id;
    put(p, "n3", 1, "10.10.3.0/24");
    assert_int_not_equal(id_of(p, "n3"), id);
    peers_destroy(p);
}

/* Finds two names that prefer the same id. */
static void
find_colliding_names(char one[16], char other[16])
{
    enum {
        N = 20000
    };
    uint32_t *hashes = xmalloc(N * sizeof *hashes);

    for (int i = 0; i < N; i++) {
        snprintf(other, 16, "n%d", i);
        hashes[i] = stable_hash(other, strlen(other), 0) & OBJECT_ID_MAX;
        for (int j = 0; j < i; j++) {
            if (hashes[j] == hashes[i]) {
                snprintf(one, 16, "n%d", j);
                free(hashes);
                return;
            }
        }
    }
    fail_msg("no two of %d names collide", N);
}

static void
id_of_a_node_that_has_gone_is_free(void **state OVS_UNUSED)
{
    struct peers *p = make_dual();
    char one[16], other[16];

    find_colliding_names(one, other);
    for (int i = 0; i < 2; i++) {
        struct peersfix_node node = { .name = i ? other : one,
                                      .created_s = 1,
                                      .pods =
                                          i ? "10.10.3.0/24" : "10.10.2.0/24",
                                      .addresses = "192.0.2.2" };
        peersfix_put(p, &node);
        assert_int_equal(id_of(p, node.name),
                         (stable_hash(one, strlen(one), 0) & OBJECT_ID_MAX)
                             + i);
    }

    /* Who has the id goes with its network, then while it has none. */
    for (int i = 0; i < 2; i++) {
        const char *holder = i ? other : one, *heir = i ? one : other;

        if (i) {
            peersfix_put(p, &(struct peersfix_node){ .name = holder });
            id_of(p, holder);
        }
        peers_remove(p, one);
        peers_remove(p, other);
        id_of(p, one);
        peersfix_put(p, &(struct peersfix_node){ .name = heir,
                                                 .created_s = 1,
                                                 .pods = "10.10.3.0/24",
                                                 .addresses = "192.0.2.2" });
        assert_int_equal(id_of(p, heir),
                         stable_hash(one, strlen(one), 0) & OBJECT_ID_MAX);
    }
    peers_destroy(p);
}

static void
ids_of_many_nodes_differ(void **state OVS_UNUSED)
{
    enum {
        N = 5000
    };
    struct peers *p = make_dual();
    struct idpool *seen = idpool_create(0, OBJECT_ID_MAX);
    struct peers_change c;
    size_t n = 0;

    for (int i = 0; i < N; i++) {
        char name[16], pods[32];

        snprintf(name, sizeof name, "n%d", 100 + i);
        snprintf(pods, sizeof pods, "10.%d.%d.0/24", 20 + i / 256, i % 256);
        peersfix_put(p, &(struct peersfix_node){ .name = name,
                                                 .created_s = 1,
                                                 .pods = pods,
                                                 .addresses = "192.0.2.2" });
    }
    while (peers_pop_change(p, &c)) {
        assert_true(idpool_take(seen, c.object_id));
        n++;
    }
    assert_int_equal(n, N);
    idpool_destroy(seen);
    peers_destroy(p);
}

/* Reports. */

static void
state_can_be_printed_and_counted(void **state OVS_UNUSED)
{
    struct ds ds = DS_EMPTY_INITIALIZER;
    struct peers_counts counts;
    struct peers *p = make_dual();

    put(p, "n3", 1, "10.10.2.0/24 2001:db8:10:3::/64");
    put(p, "n2", 2, "10.10.2.0/24");
    put(p, "n4", 1, NULL);
    check_have(p, "n2 10.10.2.0/24 n3 2001:db8:10:3::/64");
    peers_format(p, &ds);
    assert_string_equal(
        ds_cstr(&ds),
        "n2 10.10.2.0/24 tunnel 192.0.2.2\n"
        "n3 2001:db8:10:3::/64 tunnel 192.0.2.3\n"
        "n3: pod network 10.10.2.0/24 is left out: it belongs to node "
        "\"n2\", which is newer\n");
    peers_count(p, &counts);
    assert_int_equal(counts.n_nodes, 3);
    assert_int_equal(counts.n_networks[PEER_TUNNEL], 2);
    assert_int_equal(counts.n_networks[PEER_DIRECT], 0);
    assert_int_equal(counts.n_networks[PEER_UNDERLAY], 0);
    assert_int_equal(counts.n_problems, 1);
    assert_string_equal(peer_path_name(PEER_UNDERLAY), "underlay");
    ds_destroy(&ds);
    peers_destroy(p);
    peers_destroy(NULL);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(b10_newest_node_has_the_network_until_it_goes),
        cmocka_unit_test(b10_order_of_events_decides_nothing),
        cmocka_unit_test(overlapping_networks_count_like_equal_ones),
        cmocka_unit_test(network_that_is_left_out_takes_nothing_from_others),
        cmocka_unit_test(
            b11_node_recreated_with_another_network_leaves_nothing),
        cmocka_unit_test(nodes_may_exchange_their_networks),
        cmocka_unit_test(events_between_two_changes_are_heeded),
        cmocka_unit_test(what_comes_to_nothing_is_not_handed_out),
        cmocka_unit_test(node_that_is_being_deleted_counts_until_it_is_gone),
        cmocka_unit_test(own_node_is_passed_over),
        cmocka_unit_test(node_with_another_address_is_one_change),
        cmocka_unit_test(change_of_this_node_is_followed),
        cmocka_unit_test(id_is_that_of_the_name),
        cmocka_unit_test(
            id_that_the_switch_has_is_kept_if_it_can_be_the_nodes),
        cmocka_unit_test(id_of_a_node_that_has_gone_is_free),
        cmocka_unit_test(ids_of_many_nodes_differ),
        cmocka_unit_test(state_can_be_printed_and_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
