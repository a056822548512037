/* SPDX-License-Identifier: Apache-2.0 */
/* Random histories of Nodes and of this node: what was handed out equals, at
 * the end, what a plain reading of the rules gives for the final objects; on
 * the way no network is ever with two Nodes.  And the cost of many Nodes,
 * counted in steps.
 *
 * SEED=N in the environment repeats a run, ROUNDS=N changes its length. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include <util.h>

#include "../support/envnum.h"
#include "../support/peersfix.h"

#define N_NODES   8
#define MAX_PODS  4
#define MAX_ADDRS 3
#define N_STEPS   120 /* In a round. */

static const char *const names[N_NODES] = { "n2", "n3", "n4",  "n5",
                                            "a",  "b",  "n10", "n1" };
#define OWN_NAME "n1"

/* Networks that meet in every way. */
static const char *const pod_cidrs[] = {
    "10.20.0.0/16",   "10.20.1.0/24",       "10.20.1.128/25",
    "10.20.1.200/24", "10.20.2.0/24",       "10.20.0.0/15",
    "10.21.0.0/24",   "10.21.0.0/31",       "10.21.1.1/32",
    "10.10.0.0/16",   "10.10.1.0/24",       "10.10.2.0/24",
    "0.0.0.0/0",      "192.0.0.0/16",       "203.0.113.0/28",
    "224.0.0.0/4",    "2001:db8:20::/60",   "2001:db8:20:1::/64",
    "2001:db8::/64",  "2001:db8:10:1::/64", "::8000:0:0/81",
    "fe80::/64",
};
static const char *const addresses[] = {
    "192.0.2.1",   "192.0.2.2",     "192.0.2.200",    "198.51.100.2",
    "203.0.113.2", "+203.0.113.3",  "+198.51.100.3",  "2001:db8::1",
    "2001:db8::2", "2001:db8:1::2", "+2001:db8:2::2", "fe80::2",
};
static const char *const own_transports[] = {
    "",
    "192.0.2.1/24",
    "192.0.2.1/24",
    "192.0.2.1/25",
    "2001:db8::1/64",
    "192.0.2.1/24 2001:db8::1/64",
    "192.0.2.1/24 2001:db8::1/64",
};
static const char *const own_pods[] = {
    "",
    "10.10.1.0/24",
    "10.10.1.0/24 2001:db8:10:1::/64",
    "10.10.1.0/24 2001:db8:10:1::/64",
    "2001:db8:10:1::/64",
    "10.20.1.0/24 10.20.1.0/32 2001:db8:20:2::/64",
};
static const char *const transport_cidrs[] = {
    "",
    "",
    "198.51.100.0/24",
    "203.0.113.0/24 192.0.2.0/24 2001:db8:1::/64",
};

/* The plain reading. */

struct plain_node {
    bool there;
    int64_t created_s;
    struct cidr pods[MAX_PODS];
    size_t n_pods;
    struct node_address addrs[MAX_ADDRS];
    size_t n_addrs;
    struct ip annotated[N_IP_FAMILIES];
};

struct plain_env {
    struct peers_env env;
    struct cidr own[MAX_PODS], cidrs[MAX_PODS];
};

struct run {
    uint64_t rng;
    struct peers *p;
    struct plain_node nodes[N_NODES];
    struct plain_env env;

    /* What was handed out last. */
    struct peer shown[N_NODES][MAX_PODS];
    size_t n_shown[N_NODES];
    char *problems[N_NODES]; /* NULL after a Node had gone. */
    uint32_t ids[N_NODES];
};

static uint32_t
below(struct run *r, uint32_t n)
{
    r->rng = r->rng * 6364136223846793005 + 1442695040888963407;
    return (r->rng >> 33) % n;
}

static bool
overlap(const struct cidr *a, const struct cidr *b)
{
    return cidr_contains(a, &b->ip) || cidr_contains(b, &a->ip);
}

static bool
usable(const struct run *r, const struct ip *ip)
{
    return !ip_is_none(ip) && !(ip->in6.s6_addr[0] == 0xfe)
           && !ip_equals(ip, &r->env.env.transport[ip_family(ip)].ip);
}

/* The transport address of a Node, by going through the rules one by one. */
static struct ip
plain_transport(const struct run *r, const struct plain_node *n,
                enum ip_family f)
{
    const struct peers_env *env = &r->env.env;

    if (usable(r, &n->annotated[f])) {
        return n->annotated[f];
    }
    for (size_t c = 0; c < env->n_transport_cidrs; c++) {
        for (size_t i = 0; i < n->n_addrs; i++) {
            if (usable(r, &n->addrs[i].ip) && ip_family(&n->addrs[i].ip) == f
                && cidr_contains(&env->transport_cidrs[c], &n->addrs[i].ip)) {
                return n->addrs[i].ip;
            }
        }
    }
    for (int external = 0; external < 2; external++) {
        for (size_t i = 0; i < n->n_addrs; i++) {
            if (usable(r, &n->addrs[i].ip) && ip_family(&n->addrs[i].ip) == f
                && n->addrs[i].external == external) {
                return n->addrs[i].ip;
            }
        }
    }
    return (struct ip){ .in6 = IN6ADDR_ANY_INIT };
}

/* Is a network fit for pods at all? */
static bool
plain_fit(const struct cidr *net)
{
    struct cidr first = { cidr_host(net, 1), 128 };

    return net->plen > 0 && cidr_contains(net, &first.ip)
           && ip_is_unicast(&first.ip) && first.ip.in6.s6_addr[0] != 0xfe;
}

static bool
plain_has_family(const struct run *r, enum ip_family f)
{
    for (size_t i = 0; i < r->env.env.n_own_cidrs; i++) {
        if (plain_fit(&r->env.own[i]) && ip_family(&r->env.own[i].ip) == f) {
            return true;
        }
    }
    return false;
}

/* May the Node have the network, as far as others don't count? */
static bool
plain_good(const struct run *r, const struct plain_node *n,
           const struct cidr *net)
{
    const struct peers_env *env = &r->env.env;

    for (size_t i = 0; i < env->n_own_cidrs; i++) {
        if (plain_fit(&env->own_cidrs[i])
            && overlap(&env->own_cidrs[i], net)) {
            return false;
        }
    }
    for (size_t f = 0; f < N_IP_FAMILIES; f++) {
        struct ip via = plain_transport(r, n, f);

        if ((!ip_is_none(&via) && cidr_contains(net, &via))
            || (!ip_is_none(&env->transport[f].ip)
                && cidr_contains(net, &env->transport[f].ip))) {
            return false;
        }
    }
    return plain_fit(net) && plain_has_family(r, ip_family(&net->ip));
}

/* Is network 'a' of Node 'i' above network 'b' of Node 'j'? */
static bool
plain_above(const struct run *r, int i, size_t a, int j, size_t b)
{
    if (i == j) {
        return a < b;
    }
    return r->nodes[i].created_s != r->nodes[j].created_s
               ? r->nodes[i].created_s > r->nodes[j].created_s
               : strcmp(names[i], names[j]) > 0;
}

/* Has Node 'i' its network 'a'?  Has nobody who is above it? */
static bool
plain_has(const struct run *r, int i, size_t a)
{
    const struct plain_node *n = &r->nodes[i];

    if (!plain_good(r, n, &n->pods[a])) {
        return false;
    }
    for (int j = 0; j < N_NODES; j++) {
        const struct plain_node *other = &r->nodes[j];

        for (size_t b = 0; other->there && b < other->n_pods; b++) {
            if (strcmp(names[j], OWN_NAME) && plain_above(r, j, b, i, a)
                && overlap(&n->pods[a], &other->pods[b])
                && plain_has(r, j, b)) {
                return false;
            }
        }
    }
    return true;
}

static bool
plain_way(const struct run *r, const struct plain_node *n, struct peer *peer)
{
    const struct peers_env *env = &r->env.env;
    enum ip_family f = ip_family(&peer->cidr.ip), g = f;
    struct ip via = plain_transport(r, n, f);
    bool usable_f = !ip_is_none(&via) && !ip_is_none(&env->transport[f].ip);

    if (!usable_f) {
        g = 1 - f;
        via = plain_transport(r, n, g);
        if (env->mode == CFG_NO_ENCAP || ip_is_none(&via)
            || ip_is_none(&env->transport[g].ip)) {
            return false;
        }
    }
    bool near = usable_f && cidr_contains(&env->transport[f], &via);
    peer->via = via;
    peer->path = env->mode == CFG_ENCAP    ? PEER_TUNNEL
                 : near                    ? PEER_DIRECT
                 : env->mode == CFG_HYBRID ? PEER_TUNNEL
                                           : PEER_UNDERLAY;
    return true;
}

/* What Node 'i' should have; returns whether all is well. */
static bool
plain_expect(const struct run *r, int i, struct ds *ds)
{
    const struct plain_node *n = &r->nodes[i];
    const struct peers_env *env = &r->env.env;
    bool well = true;

    if (!n->there || !strcmp(names[i], OWN_NAME)
        || env->mode == CFG_NETWORK_POLICY_ONLY
        || (!plain_has_family(r, IP_V4) && !plain_has_family(r, IP_V6))
        || (ip_is_none(&env->transport[IP_V4].ip)
            && ip_is_none(&env->transport[IP_V6].ip))) {
        return true;
    }
    for (size_t a = 0; a < n->n_pods; a++) {
        struct peer peer = { .cidr = cidr_network(&n->pods[a]) };

        if (plain_has(r, i, a) && plain_way(r, n, &peer)) {
            peersfix_format(&peer, ds);
            ds_put_char(ds, ' ');
        } else {
            well = false;
        }
    }
    return well;
}

/* Events. */

static void
put_node(struct peers *p, const struct plain_node *n, const char *name,
         uint64_t version)
{
    struct node node = {
        .meta = { "", name, "", version, n->created_s },
        .zone = "",
        .pod_cidrs = CONST_CAST(struct cidr *, n->pods),
        .n_pod_cidrs = n->n_pods,
        .addresses = CONST_CAST(struct node_address *, n->addrs),
        .n_addresses = n->n_addrs,
    };

    memcpy(node.transport, n->annotated, sizeof node.transport);
    peers_put(p, &node);
}

static struct node_address
random_address(struct run *r)
{
    const char *text = addresses[below(r, ARRAY_SIZE(addresses))];
    struct node_address a = { .external = text[0] == '+' };

    assert_false(ip_from_string(text + a.external, &a.ip));
    return a;
}

/* A Node with some networks, none of them twice, as the decoder sees to. */
static void
make_node(struct run *r, struct plain_node *n)
{
    size_t n_pods = below(r, MAX_PODS + 1);

    *n = (struct plain_node){ .there = true, .created_s = below(r, 4) };
    for (size_t i = 0; i < n_pods; i++) {
        struct cidr net;
        bool twice = false;

        peersfix_cidrs(pod_cidrs[below(r, ARRAY_SIZE(pod_cidrs))], &net, 1);
        for (size_t j = 0; j < n->n_pods; j++) {
            twice |= n->pods[j].plen == net.plen && overlap(&n->pods[j], &net);
        }
        if (!twice) {
            n->pods[n->n_pods++] = net;
        }
    }
    n->n_addrs = below(r, MAX_ADDRS + 1);
    for (size_t i = 0; i < n->n_addrs; i++) {
        n->addrs[i] = random_address(r);
    }
    if (!below(r, 3)) {
        struct ip ip = random_address(r).ip;
        n->annotated[ip_family(&ip)] = ip;
    }
}

static void
random_env(struct run *r)
{
    struct plain_env *e = &r->env;
    struct cidr transport[N_IP_FAMILIES];
    size_t n =
        peersfix_cidrs(own_transports[below(r, ARRAY_SIZE(own_transports))],
                       transport, N_IP_FAMILIES);

    memset(e, 0, sizeof *e);
    e->env.mode = below(r, 10) ? below(r, 3) : CFG_NETWORK_POLICY_ONLY;
    for (size_t i = 0; i < n; i++) {
        e->env.transport[ip_family(&transport[i].ip)] = transport[i];
    }
    e->env.own_cidrs = e->own;
    e->env.n_own_cidrs =
        peersfix_cidrs(own_pods[below(r, ARRAY_SIZE(own_pods))], e->own,
                       MAX_PODS);
    e->env.transport_cidrs = e->cidrs;
    e->env.n_transport_cidrs =
        peersfix_cidrs(transport_cidrs[below(r, ARRAY_SIZE(transport_cidrs))],
                       e->cidrs, MAX_PODS);
}

static int
find_name(const char *name)
{
    for (int i = 0; i < N_NODES; i++) {
        if (!strcmp(names[i], name)) {
            return i;
        }
    }
    fail_msg("unknown Node %s", name);
    return -1;
}

/* No network is with two Nodes, nor an id. */
static void
check_disjoint(const struct run *r, int i)
{
    for (int j = 0; j < N_NODES; j++) {
        for (size_t a = 0; j != i && a < r->n_shown[i]; a++) {
            for (size_t b = 0; b < r->n_shown[j]; b++) {
                assert_false(
                    overlap(&r->shown[i][a].cidr, &r->shown[j][b].cidr));
                assert_int_not_equal(r->ids[i], r->ids[j]);
            }
        }
    }
}

/* Takes one change and notes it. */
static bool
pop(struct run *r)
{
    struct peers_change c;

    if (!peers_pop_change(r->p, &c)) {
        assert_false(peers_has_change(r->p));
        return false;
    }

    int i = find_name(c.name);
    assert_int_equal(c.n_was, r->n_shown[i]);
    for (size_t a = 0; a < c.n_was; a++) {
        const struct peer *was = &r->shown[i][a];

        assert_true(ip_equals(&c.was[a].cidr.ip, &was->cidr.ip));
        assert_true(ip_equals(&c.was[a].via, &was->via));
        assert_int_equal(c.was[a].path, was->path);
    }
    if (c.n_was) {
        assert_int_equal(c.object_id, r->ids[i]);
    }
    assert_true(c.n_now <= MAX_PODS);
    r->n_shown[i] = c.n_now;
    if (c.n_now) {
        memcpy(r->shown[i], c.now, c.n_now * sizeof *c.now);
    }
    r->ids[i] = c.object_id;
    if (r->problems[i]) {
        assert_int_equal(c.news, strcmp(c.problem, r->problems[i]) != 0);
        free(r->problems[i]);
    }
    r->problems[i] = r->nodes[i].there ? xstrdup(c.problem) : NULL;
    check_disjoint(r, i);
    return true;
}

/* Is there a line that says so? */
static bool
has_problem(const struct run *r, const char *name)
{
    struct ds ds = DS_EMPTY_INITIALIZER;
    char *start = xasprintf("\n%s: ", name);

    ds_put_char(&ds, '\n');
    peers_format(r->p, &ds);
    bool found = strstr(ds_cstr(&ds), start) != NULL;
    ds_destroy(&ds);
    free(start);
    return found;
}

static void
check_all(struct run *r)
{
    for (int i = 0; i < N_NODES; i++) {
        struct ds expected = DS_EMPTY_INITIALIZER;
        struct ds found = DS_EMPTY_INITIALIZER;
        bool well = plain_expect(r, i, &expected);

        for (size_t a = 0; a < r->n_shown[i]; a++) {
            peersfix_format(&r->shown[i][a], &found);
            ds_put_char(&found, ' ');
        }
        assert_string_equal(ds_cstr(&found), ds_cstr(&expected));
        assert_int_equal(has_problem(r, names[i]), !well);
        ds_destroy(&expected);
        ds_destroy(&found);
    }
}

/* Fresh peers that only see the final objects, in a random order. */
static void
check_cold_start(struct run *r)
{
    struct peers *cold = peers_create(OWN_NAME), *warm = r->p;
    struct peers_counts one, other;
    int first = below(r, N_NODES), stride = 1 + 2 * below(r, N_NODES / 2);

    if (below(r, 2)) {
        peers_set_env(cold, &r->env.env);
    }
    for (int k = 0; k < N_NODES; k++) {
        int i = (first + k * stride) % N_NODES;

        if (r->nodes[i].there) {
            put_node(cold, &r->nodes[i], names[i], 99);
        }
    }
    peers_set_env(cold, &r->env.env);

    struct run fresh = *r;
    fresh.p = cold;
    for (int i = 0; i < N_NODES; i++) {
        fresh.n_shown[i] = 0;
        fresh.problems[i] = xstrdup("");
    }
    while (pop(&fresh)) {
        continue;
    }
    check_all(&fresh);
    peers_count(warm, &one);
    peers_count(cold, &other);
    assert_memory_equal(&one, &other, sizeof one);
    for (int i = 0; i < N_NODES; i++) {
        free(fresh.problems[i]);
    }
    peers_destroy(cold);
}

static void
run_step(struct run *r, uint64_t step)
{
    int i = below(r, N_NODES);

    switch (below(r, 12)) {
    case 0:
    case 1:
    case 2:
    case 3:
        make_node(r, &r->nodes[i]);
        put_node(r->p, &r->nodes[i], names[i], step);
        break;
    case 4:
    case 5:
        r->nodes[i].there = false;
        free(r->problems[i]);
        r->problems[i] = NULL;
        peers_remove(r->p, names[i]);
        break;
    case 6:
        if (r->nodes[i].there) {
            put_node(r->p, &r->nodes[i], names[i], step);
        }
        break;
    case 7:
        random_env(r);
        peers_set_env(r->p, &r->env.env);
        break;
    case 8:
        while (pop(r)) {
            continue;
        }
        check_all(r);
        break;
    default: pop(r); break;
    }
}

static void
run_round(struct run *r)
{
    memset(r->nodes, 0, sizeof r->nodes);
    memset(r->n_shown, 0, sizeof r->n_shown);
    memset(&r->env, 0, sizeof r->env);
    for (int i = 0; i < N_NODES; i++) {
        r->problems[i] = xstrdup("");
    }
    r->p = peers_create(OWN_NAME);
    for (int i = 0; i < N_STEPS; i++) {
        run_step(r, i);
    }
    while (pop(r)) {
        continue;
    }
    check_all(r);
    check_cold_start(r);
    for (int i = 0; i < N_NODES; i++) {
        free(r->problems[i]);
    }
    peers_destroy(r->p);
}

static void
every_history_ends_like_a_cold_start(void **state OVS_UNUSED)
{
    struct run r = { .rng = envnum("SEED", time(NULL)) };
    uint64_t rounds = envnum("ROUNDS", 2000);

    print_message("seed %llu\n", (unsigned long long) r.rng);
    for (uint64_t i = 0; i < rounds; i++) {
        run_round(&r);
    }
}

/* Cost. */

static void
drain(struct peers *p)
{
    struct peers_change c;

    while (peers_pop_change(p, &c)) {
        continue;
    }
}

/* Puts Node number 'i' with a network of each family. */
static void
put_number(struct peers *p, int i)
{
    char name[16], pods[64], addrs[64];

    snprintf(name, sizeof name, "node-%d", i);
    snprintf(pods, sizeof pods, "10.%d.%d.0/24 2001:db8:1:%x::/64", i / 256,
             i % 256, i);
    snprintf(addrs, sizeof addrs, "198.18.%d.%d 2001:db8::%x", i / 250,
             i % 250 + 1, i + 2);
    peersfix_put(p, &(struct peersfix_node){ .name = name,
                                             .created_s = 100 + i,
                                             .pods = pods,
                                             .addresses = addrs });
}

static void
shuffle(struct run *r, int *numbers, int n)
{
    for (int i = 0; i < n; i++) {
        int j = below(r, i + 1);

        numbers[i] = numbers[j];
        numbers[j] = i;
    }
}

/* Returns the steps that it takes to add 'n' Nodes in a random order, to
 * change them and to remove them in another, all changes being taken after
 * every 'batch' events; besides them is a Node created at 'wide_s', if that
 * isn't negative, with a network that holds all of theirs. */
static uint64_t
count_steps(int n, int batch, int64_t wide_s)
{
    struct run r = { .rng = 7 };
    struct peers *p = peers_create("n1");
    int *numbers = xmalloc(n * sizeof *numbers);
    struct peers_counts counts;

    peersfix_set_env(p, &(struct peersfix_env){
                            CFG_HYBRID, "192.0.2.1/24 2001:db8::1/64",
                            "172.16.1.0/24 2001:db8:ffff::/64", NULL });
    if (wide_s >= 0) {
        peersfix_put(p, &(struct peersfix_node){ .name = "wide",
                                                 .created_s = wide_s,
                                                 .pods = "10.0.0.0/8",
                                                 .addresses = "192.0.2.9" });
    }
    for (int pass = 0; pass < 3; pass++) {
        shuffle(&r, numbers, n);
        for (int i = 0; i < n; i++) {
            if (pass < 2) {
                put_number(p, numbers[i]);
            } else {
                char name[16];

                snprintf(name, sizeof name, "node-%d", numbers[i]);
                peers_remove(p, name);
            }
            if (i % batch == 0) {
                drain(p);
            }
        }
        drain(p);
        peers_count(p, &counts);
        if (pass < 2 && wide_s < 0) {
            assert_int_equal(counts.n_networks[PEER_TUNNEL]
                                 + counts.n_networks[PEER_DIRECT],
                             2 * n);
        }
    }
    assert_int_equal(counts.n_nodes, wide_s >= 0);
    uint64_t steps = peers_n_steps(p);
    free(numbers);
    peers_destroy(p);
    return steps;
}

static void
cost_is_linear_in_the_nodes(void **state OVS_UNUSED)
{
    /* Without and with a Node whose network is in everybody's way, older and
     * newer than all. */
    static const int64_t wide[] = { -1, 1, 1000000, 100 + 500 };
    static const int batches[] = { 1, 100 };

    for (size_t w = 0; w < ARRAY_SIZE(wide); w++) {
        for (size_t b = 0; b < ARRAY_SIZE(batches); b++) {
            uint64_t few = count_steps(1000, batches[b], wide[w]);
            uint64_t many = count_steps(5000, batches[b], wide[w]);

            print_message("%llu steps for 1000 Nodes, %llu for 5000\n",
                          (unsigned long long) few, (unsigned long long) many);
            /* The tree is a little deeper. */
            assert_in_range(many, 4 * few, 7 * few);
            assert_in_range(few, 1000, 1000 * 200);
        }
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_history_ends_like_a_cold_start),
        cmocka_unit_test(cost_is_linear_in_the_nodes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
