/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of networks against a search through all of them. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <util.h>

#include "../../src/agent/netset.h"

#define ROUNDS   300
#define NETWORKS 24
#define QUERIES  60

static uint32_t
rnd(uint32_t *state)
{
    *state = *state * 1664525 + 1013904223;
    return *state >> 8;
}

/* Few bits, so that networks meet; IPv6 ones that hold all of IPv4 if families
 * are mixed up, too. */
static struct cidr
random_net(uint32_t *state)
{
    uint32_t kind = rnd(state) % 4;
    struct cidr net = { ip_from_v4(htonl(rnd(state) % 64 << 24)),
                        2 + rnd(state) % 7 };

    if (kind == 0) {
        net.ip.in6.s6_addr[10] = net.ip.in6.s6_addr[11] = 0;
        net.ip.in6.s6_addr[0] = rnd(state) % 4;
        net.plen = rnd(state) % 2 ? 8 : 104 + rnd(state) % 3;
    }
    return cidr_network(&net);
}

static bool
overlap(const struct cidr *a, const struct cidr *b)
{
    return cidr_contains(a, &b->ip) || cidr_contains(b, &a->ip);
}

static bool
any_overlaps(const struct cidr *nets, size_t n, const struct cidr *net)
{
    for (size_t i = 0; i < n; i++) {
        if (overlap(&nets[i], net)) {
            return true;
        }
    }
    return false;
}

static void
check_queries(const struct netset *set, const struct cidr *nets, size_t n,
              uint32_t *state)
{
    for (int i = 0; i < QUERIES; i++) {
        struct cidr net = random_net(state);
        const struct netset_item *found = netset_find(set, &net);

        assert_int_equal(found != NULL, any_overlaps(nets, n, &net));
        assert_true(!found || overlap(&found->net, &net));
    }
}

static void
what_overlaps_is_found(void **state OVS_UNUSED)
{
    uint32_t seed = 7;

    for (int round = 0; round < ROUNDS; round++) {
        struct netset set = NETSET_INIT, more = NETSET_INIT;
        struct cidr nets[2 * NETWORKS];
        size_t n = 0;

        for (; n < rnd(&seed) % NETWORKS; n++) {
            nets[n] = random_net(&seed);
            netset_push(&set, &nets[n], "");
        }
        check_queries(&set, nets, n, &seed);
        netset_compact(&set);
        check_queries(&set, nets, n, &seed);

        for (int i = 0; i < NETWORKS; i++) {
            struct cidr net = random_net(&seed);

            if (!any_overlaps(nets, n, &net)) {
                netset_push(&more, &net, "");
            }
        }
        netset_compact(&more);
        for (size_t i = 0; i < more.n; i++) {
            nets[n++] = more.items[i].net;
        }
        netset_merge(&set, &more);
        check_queries(&set, nets, n, &seed);
        netset_clear(&set);
        netset_clear(&more);
    }
}

static void
equal_networks_are_the_first_ones_by_name(void **state OVS_UNUSED)
{
    struct netset set = NETSET_INIT, same = NETSET_INIT;
    struct cidr net = { ip_from_v4(htonl(0x0a000000)), 8 };
    struct cidr part = { ip_from_v4(htonl(0x0a010000)), 16 };

    netset_push(&set, &part, "a");
    netset_push(&set, &net, "c");
    netset_push(&set, &net, "b");
    netset_compact(&set);
    assert_int_equal(set.n, 1);
    assert_string_equal(netset_find(&set, &part)->whose, "b");
    netset_push(&same, &net, "x");
    assert_true(netset_equals(&set, &same));
    same.items[0].net = part;
    assert_false(netset_equals(&set, &same));
    netset_clear(&set);
    assert_false(netset_equals(&set, &same));
    assert_null(netset_find(&set, &part));
    netset_clear(&same);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_overlaps_is_found),
        cmocka_unit_test(equal_networks_are_the_first_ones_by_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
