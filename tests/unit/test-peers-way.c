/* SPDX-License-Identifier: Apache-2.0 */
/* The way to one other node's pod networks: which address it is reached at,
 * and what is wrong with networks. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <util.h>

#include "../support/peersfix.h"

#define OWN_V4   "192.0.2.1/24"
#define OWN_V6   "2001:db8::1/64"
#define OWN_BOTH OWN_V4 " " OWN_V6
#define POD_V4   "10.10.1.0/24"
#define POD_V6   "2001:db8:10:1::/64"
#define POD_BOTH POD_V4 " " POD_V6

/* This node in MODE, with transport addresses and pod networks of these
 * families. */
#define ENV(MODE, TRANSPORT, PODS)                    \
    {                                                 \
        CFG_##MODE, OWN_##TRANSPORT, POD_##PODS, NULL \
    }

#define OUT(NET, WHY) "[pod network " NET " is left out: " WHY "]"
#define NO_ADDRESS    "the node has no address that this node can use"

static const struct {
    struct peersfix_env env;
    const char *pods, *addresses, *annotated;
    const char *expected; /* Of Node n2; NULL: nothing at all. */
} ways[] = {
    /* Modes, with the peer in the same subnet and in another one. */
    { ENV(ENCAP, V4, V4), "10.10.2.0/24", "192.0.2.2", NULL,
      "+10.10.2.0/24 tunnel 192.0.2.2" },
    { ENV(ENCAP, V4, V4), "10.10.2.0/24", "198.51.100.2", NULL,
      "+10.10.2.0/24 tunnel 198.51.100.2" },
    { ENV(NO_ENCAP, V4, V4), "10.10.2.0/24", "192.0.2.2", NULL,
      "+10.10.2.0/24 direct 192.0.2.2" },
    { ENV(NO_ENCAP, V4, V4), "10.10.2.0/24", "198.51.100.2", NULL,
      "+10.10.2.0/24 underlay 198.51.100.2" },
    { ENV(HYBRID, V4, V4), "10.10.2.0/24", "192.0.2.2", NULL,
      "+10.10.2.0/24 direct 192.0.2.2" },
    { ENV(HYBRID, V4, V4), "10.10.2.0/24", "198.51.100.2", NULL,
      "+10.10.2.0/24 tunnel 198.51.100.2" },
    { ENV(NETWORK_POLICY_ONLY, V4, V4), "10.10.2.0/24", "192.0.2.2", NULL,
      NULL },
    /* The subnet is that of the link, whatever its length. */
    { { CFG_HYBRID, "192.0.2.1/32", POD_V4, NULL },
      "10.10.2.0/24",
      "192.0.2.2",
      NULL,
      "+10.10.2.0/24 tunnel 192.0.2.2" },
    { { CFG_NO_ENCAP, "192.0.2.1/30", POD_V4, NULL },
      "10.10.2.0/24",
      "192.0.2.4",
      NULL,
      "+10.10.2.0/24 underlay 192.0.2.4" },
    { { CFG_NO_ENCAP, "192.0.2.1/29", POD_V4, NULL },
      "10.10.2.0/24",
      "192.0.2.4",
      NULL,
      "+10.10.2.0/24 direct 192.0.2.4" },
    /* IPv6 and both. */
    { ENV(HYBRID, V6, V6), "2001:db8:10:2::/64", "2001:db8::2", NULL,
      "+2001:db8:10:2::/64 direct 2001:db8::2" },
    { ENV(HYBRID, V6, V6), "2001:db8:10:2::/64", "2001:db8:1::2", NULL,
      "+2001:db8:10:2::/64 tunnel 2001:db8:1::2" },
    { ENV(ENCAP, BOTH, BOTH), "10.10.2.0/24 2001:db8:10:2::/64",
      "192.0.2.2 2001:db8::2", NULL,
      "+10.10.2.0/24 tunnel 192.0.2.2 "
      "+2001:db8:10:2::/64 tunnel 2001:db8::2" },
    { ENV(HYBRID, BOTH, BOTH), "2001:db8:10:2::/64 10.10.2.0/24",
      "198.51.100.2 2001:db8::2", NULL,
      "+2001:db8:10:2::/64 direct 2001:db8::2 "
      "+10.10.2.0/24 tunnel 198.51.100.2" },
    /* Tunnels, and only they, by the other family: the peer has none of the
     * network's, or this node. */
    { ENV(ENCAP, BOTH, BOTH), "10.10.2.0/24 2001:db8:10:2::/64", "192.0.2.2",
      NULL,
      "+10.10.2.0/24 tunnel 192.0.2.2 "
      "+2001:db8:10:2::/64 tunnel 192.0.2.2" },
    { ENV(ENCAP, V6, BOTH), "10.10.2.0/24 2001:db8:10:2::/64",
      "192.0.2.2 2001:db8::2", NULL,
      "+10.10.2.0/24 tunnel 2001:db8::2 "
      "+2001:db8:10:2::/64 tunnel 2001:db8::2" },
    { ENV(HYBRID, V4, BOTH), "10.10.2.0/24 2001:db8:10:2::/64",
      "192.0.2.2 2001:db8::2", NULL,
      "+10.10.2.0/24 direct 192.0.2.2 "
      "+2001:db8:10:2::/64 tunnel 192.0.2.2" },
    { ENV(NO_ENCAP, V4, BOTH), "10.10.2.0/24 2001:db8:10:2::/64",
      "192.0.2.2 2001:db8::2", NULL,
      "+10.10.2.0/24 direct 192.0.2.2 " OUT(
          "2001:db8:10:2::/64",
          "this node has no transport address of that family") },
    { ENV(NO_ENCAP, BOTH, BOTH), "10.10.2.0/24 2001:db8:10:2::/64",
      "2001:db8::2", NULL,
      "+2001:db8:10:2::/64 direct 2001:db8::2 " OUT("10.10.2.0/24",
                                                    NO_ADDRESS) },
    { ENV(ENCAP, V4, V4), "10.10.2.0/24", "2001:db8::2", NULL,
      OUT("10.10.2.0/24", NO_ADDRESS) },
    { ENV(ENCAP, V4, V4), "10.10.2.0/24", NULL, NULL,
      OUT("10.10.2.0/24", NO_ADDRESS) },
    /* Which address: the first InternalIP, else the first ExternalIP. */
    { ENV(ENCAP, V4, V4), "10.10.2.0/24", "+203.0.113.2 192.0.2.2 192.0.2.3",
      NULL, "+10.10.2.0/24 tunnel 192.0.2.2" },
    { ENV(ENCAP, V4, V4), "10.10.2.0/24",
      "+203.0.113.2 +203.0.113.3 2001:db8::2", NULL,
      "+10.10.2.0/24 tunnel 203.0.113.2" },
    /* Not this node's own (a Node that is a copy), nor a link-local one. */
    { ENV(ENCAP, V4, V4), "10.10.2.0/24", "192.0.2.1 192.0.2.2", NULL,
      "+10.10.2.0/24 tunnel 192.0.2.2" },
    { ENV(ENCAP, V4, V4), "10.10.2.0/24", "192.0.2.1", NULL,
      OUT("10.10.2.0/24", NO_ADDRESS) },
    { ENV(ENCAP, V4, V4), "10.10.2.0/24", "192.0.2.2", "192.0.2.1",
      "+10.10.2.0/24 tunnel 192.0.2.2" },
    { ENV(ENCAP, V6, V6), "2001:db8:10:2::/64", "fe80::2 +2001:db8::2",
      "fe80::3", "+2001:db8:10:2::/64 tunnel 2001:db8::2" },
    /* transportInterfaceCIDRs, in their order; else as without them. */
    { { CFG_ENCAP, OWN_V4, POD_V4, "198.51.100.0/24" },
      "10.10.2.0/24",
      "192.0.2.2 +198.51.100.2 198.51.100.3",
      NULL,
      "+10.10.2.0/24 tunnel 198.51.100.2" },
    { { CFG_ENCAP, OWN_V4, POD_V4, "198.51.100.0/24 192.0.2.0/24" },
      "10.10.2.0/24",
      "192.0.2.2 198.51.100.2",
      NULL,
      "+10.10.2.0/24 tunnel 198.51.100.2" },
    { { CFG_ENCAP, OWN_V4, POD_V4, "198.51.100.0/24" },
      "10.10.2.0/24",
      "+203.0.113.2 192.0.2.2",
      NULL,
      "+10.10.2.0/24 tunnel 192.0.2.2" },
    { { CFG_ENCAP, OWN_V4 " " OWN_V6, POD_V4 " " POD_V6, "2001:db8:1::/64" },
      "10.10.2.0/24 2001:db8:10:2::/64",
      "2001:db8::2 192.0.2.2 2001:db8:1::2",
      NULL,
      "+10.10.2.0/24 tunnel 192.0.2.2 "
      "+2001:db8:10:2::/64 tunnel 2001:db8:1::2" },
    /* The annotation before all others, each family by itself. */
    { { CFG_HYBRID, OWN_V4, POD_V4, "198.51.100.0/24" },
      "10.10.2.0/24",
      "198.51.100.2",
      "192.0.2.2",
      "+10.10.2.0/24 direct 192.0.2.2" },
    { ENV(ENCAP, BOTH, BOTH), "10.10.2.0/24 2001:db8:10:2::/64",
      "192.0.2.2 2001:db8::2", "198.51.100.2",
      "+10.10.2.0/24 tunnel 198.51.100.2 "
      "+2001:db8:10:2::/64 tunnel 2001:db8::2" },
    { ENV(ENCAP, V4, V4), "10.10.2.0/24", NULL, "198.51.100.2",
      "+10.10.2.0/24 tunnel 198.51.100.2" },
    /* Networks. */
    { ENV(ENCAP, V4, V4), "10.10.2.77/24", "192.0.2.2", NULL,
      "+10.10.2.0/24 tunnel 192.0.2.2" },
    { ENV(ENCAP, V4, V4), "10.10.2.0/31", "192.0.2.2", NULL,
      "+10.10.2.0/31 tunnel 192.0.2.2" },
    { ENV(ENCAP, V4, V4), NULL, "192.0.2.2", NULL, NULL },
    { ENV(ENCAP, V4, V4), "10.10.2.0/32", "192.0.2.2", NULL,
      OUT("10.10.2.0/32", "it has no room for a gateway address") },
    { ENV(ENCAP, V4, V4), "255.255.255.255/32", "192.0.2.2", NULL,
      OUT("255.255.255.255/32", "it has no room for a gateway address") },
    { ENV(ENCAP, V6, V6), "2001:db8::ffff:ffff/128", "2001:db8::2", NULL,
      OUT("2001:db8::ffff:ffff/128", "it has no room for a gateway address") },
    { ENV(ENCAP, BOTH, BOTH), "0.0.0.0/0 10.10.2.0/24 ::/0", "192.0.2.2", NULL,
      "+10.10.2.0/24 tunnel 192.0.2.2 "
      "[pod network 0.0.0.0/0 is left out: it is all addresses; "
      "pod network ::/0 is left out: it is all addresses]" },
    { ENV(ENCAP, V4, V4), "224.0.0.0/24", "192.0.2.2", NULL,
      OUT("224.0.0.0/24", "its first address can't be a host's") },
    { ENV(ENCAP, V4, V4), "127.0.0.0/8", "192.0.2.2", NULL,
      OUT("127.0.0.0/8", "its first address can't be a host's") },
    { ENV(ENCAP, V6, V6), "ff02::/64", "2001:db8::2", NULL,
      OUT("ff02::/64", "its first address can't be a host's") },
    { ENV(ENCAP, V6, V6), "fe80::/64", "2001:db8::2", NULL,
      OUT("fe80::/64", "its first address can't be a host's") },
    /* Link-local, or with the address that all routes lead by. */
    { ENV(ENCAP, V4, V4), "169.254.7.0/24", "192.0.2.2", NULL,
      OUT("169.254.7.0/24", "its first address can't be a host's") },
    { ENV(ENCAP, V4, V4), "169.0.0.0/8", "192.0.2.2", NULL,
      OUT("169.0.0.0/8", "its first address can't be a host's") },
    { ENV(ENCAP, V6, V6), "fc01::/16", "2001:db8::2", NULL,
      OUT("fc01::/16", "its first address can't be a host's") },
    { ENV(ENCAP, V4, V4), "10.10.2.0/24", "169.254.7.7", NULL,
      OUT("10.10.2.0/24", NO_ADDRESS) },
    /* Half of the Internet. */
    { ENV(ENCAP, V4, V4), "64.0.0.0/2", "192.0.2.2", NULL,
      OUT("64.0.0.0/2", "it is larger than networks of pods can be") },
    { ENV(ENCAP, V6, V6), "4000::/2", "2001:db8::2", NULL,
      OUT("4000::/2", "it is larger than networks of pods can be") },
    { ENV(ENCAP, V4, V4), "203.0.113.0/24", "192.0.2.2", NULL,
      OUT("203.0.113.0/24", "the API server's address is in it") },
    { ENV(ENCAP, BOTH, V4), "10.10.2.0/24 2001:db8:10:2::/64",
      "192.0.2.2 2001:db8::2", NULL,
      "+10.10.2.0/24 tunnel 192.0.2.2 " OUT(
          "2001:db8:10:2::/64",
          "this node has no pod network of that family") },
    { ENV(ENCAP, V4, V4), "192.0.0.0/16", "198.51.100.2", NULL,
      OUT("192.0.0.0/16", "this node's own address is in it") },
    { ENV(ENCAP, V4, V4), "198.51.100.0/24", "198.51.100.2", NULL,
      OUT("198.51.100.0/24", "the node's own address is in it") },
    /* This node's own networks. */
    { { CFG_ENCAP, OWN_V4, POD_V4 " 10.20.1.0/24", NULL },
      "10.20.1.0/24 10.10.1.0/25 10.20.0.0/16 10.10.2.0/24",
      "192.0.2.2",
      NULL,
      "+10.10.2.0/24 tunnel 192.0.2.2 "
      "[pod network 10.20.1.0/24 is left out: it overlaps this node's own "
      "10.20.1.0/24; "
      "pod network 10.10.1.0/25 is left out: it overlaps this node's own "
      "10.10.1.0/24; "
      "pod network 10.20.0.0/16 is left out: it overlaps this node's own "
      "10.20.1.0/24]" },
    /* The same node's; the first counts. */
    { ENV(ENCAP, V4, V4), "10.10.2.0/25 10.10.2.0/24 10.10.2.64/26",
      "192.0.2.2", NULL,
      "+10.10.2.0/25 tunnel 192.0.2.2 "
      "[pod network 10.10.2.0/24 is left out: it overlaps 10.10.2.0/25 of "
      "the same node; "
      "pod network 10.10.2.64/26 is left out: it overlaps 10.10.2.0/25 of "
      "the same node]" },
    /* Nothing is known of this node yet. */
    { { CFG_ENCAP, NULL, POD_V4, NULL },
      "10.10.2.0/24",
      "192.0.2.2",
      NULL,
      NULL },
    { { CFG_ENCAP, OWN_V4, NULL, NULL },
      "10.10.2.0/24",
      "192.0.2.2",
      NULL,
      NULL },
    { { CFG_ENCAP, OWN_V4, "0.0.0.0/0", NULL },
      "10.10.2.0/24",
      "192.0.2.2",
      NULL,
      NULL },
};

static void
way_follows_from_mode_and_addresses(void **state OVS_UNUSED)
{
    for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
        struct peers *p = peers_create("n1");
        struct peersfix_node node = {
            .name = "n2",
            .created_s = 1,
            .pods = ways[i].pods,
            .addresses = ways[i].addresses,
            .annotated = ways[i].annotated,
        };
        char *expected = ways[i].expected
                             ? xasprintf("n2 %s\n", ways[i].expected)
                             : xstrdup("");

        peersfix_set_env(p, &ways[i].env);
        peersfix_put(p, &node);
        peersfix_expect(p, expected);
        free(expected);
        peers_destroy(p);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(way_follows_from_mode_and_addresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
