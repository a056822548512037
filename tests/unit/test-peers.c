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

#define OWN_V4 "192.0.2.1/24"
#define OWN_V6 "2001:db8::1/64"
#define POD_V4 "10.10.1.0/24"
#define POD_V6 "2001:db8:10:1::/64"

static const struct peersfix_env dual = { CFG_ENCAP, OWN_V4 " " OWN_V6,
                                          POD_V4 " " POD_V6, NULL };

/* Compares the changes since the last call with 'expected'. */
static void
expect(struct peers *p, const char *expected)
{
    struct ds found = DS_EMPTY_INITIALIZER;

    peersfix_drain(p, &found);
    assert_string_equal(ds_cstr(&found), expected);
    ds_destroy(&found);
}

/* Ways. */

static const struct {
    struct peersfix_env env;
    const char *pods, *addresses, *annotated;
    const char *expected;
} ways[] = {
    /* Modes. */
    { { CFG_ENCAP, OWN_V4, POD_V4, NULL },
      "10.10.2.0/24",
      "192.0.2.2",
      NULL,
      "+10.10.2.0/24 tunnel 192.0.2.2" },
    { { CFG_ENCAP, OWN_V4, POD_V4, NULL },
      "10.10.2.0/24",
      "198.51.100.2",
      NULL,
      "+10.10.2.0/24 tunnel 198.51.100.2" },
    { { CFG_NO_ENCAP, OWN_V4, POD_V4, NULL },
      "10.10.2.0/24",
      "192.0.2.2",
      NULL,
      "+10.10.2.0/24 direct 192.0.2.2" },
    { { CFG_NO_ENCAP, OWN_V4, POD_V4, NULL },
      "10.10.2.0/24",
      "198.51.100.2",
      NULL,
      "+10.10.2.0/24 underlay 198.51.100.2" },
    { { CFG_HYBRID, OWN_V4, POD_V4, NULL },
      "10.10.2.0/24",
      "192.0.2.2",
      NULL,
      "+10.10.2.0/24 direct 192.0.2.2" },
    { { CFG_HYBRID, OWN_V4, POD_V4, NULL },
      "10.10.2.0/24",
      "198.51.100.2",
      NULL,
      "+10.10.2.0/24 tunnel 198.51.100.2" },
    { { CFG_NETWORK_POLICY_ONLY, OWN_V4, POD_V4, NULL },
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
            "n2", 1, ways[i].pods, ways[i].addresses, ways[i].annotated, 1
        };
        char *expected = ways[i].expected
                             ? xasprintf("n2 %s\n", ways[i].expected)
                             : xstrdup("");

        peersfix_set_env(p, &ways[i].env);
        peersfix_put(p, &node);
        expect(p, expected);
        free(expected);
        peers_destroy(p);
    }
}

/* Who has a network. */

static void
newest_node_has_the_network_until_it_goes(void **state OVS_UNUSED)
{
    struct peers *p = peers_create("n1");

    peersfix_set_env(p, &dual);
    peersfix_put(p, &(struct peersfix_node){ "n2", 1, "10.10.2.0/24",
                                             "192.0.2.2", NULL, 5 });
    expect(p, "n2 +10.10.2.0/24 tunnel 192.0.2.2\n");
    peersfix_put(p, &(struct peersfix_node){ "n3", 2, "10.10.2.0/24",
                                             "192.0.2.3", NULL, 4 });
    expect(p, "n2 -10.10.2.0/24\n"
              "n2 [pod network 10.10.2.0/24 is left out: it belongs to node "
              "\"n3\", which is newer]\n"
              "n3 +10.10.2.0/24 tunnel 192.0.2.3\n");
    peers_remove(p, "n3");
    expect(p, "n3 -10.10.2.0/24\n"
              "n2 +10.10.2.0/24 tunnel 192.0.2.2 []\n");
    peers_destroy(p);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(way_follows_from_mode_and_addresses),
        cmocka_unit_test(newest_node_has_the_network_until_it_goes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
