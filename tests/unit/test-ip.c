/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses and CIDRs: what is accepted, what is refused, and arithmetic. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <arpa/inet.h>
#include <errno.h>

#include <cmocka.h>

#include <util.h>

#include "ofproxyd/base/ip.h"

static struct ip
parsed(const char *s)
{
    struct ip ip;

    if (ip_from_string(s, &ip)) {
        fail_msg("\"%s\" is refused", s);
    }
    return ip;
}

static struct cidr
parsed_cidr(const char *s)
{
    struct cidr cidr;

    if (cidr_parse(s, &cidr)) {
        fail_msg("\"%s\" is refused", s);
    }
    return cidr;
}

static void
assert_ip(struct ip ip, const char *expected)
{
    char buf[IP_STRLEN];

    assert_ptr_equal(ip_to_string(&ip, buf), buf);
    assert_string_equal(buf, expected);
}

static void
good_addresses_are_read_and_written(void **state OVS_UNUSED)
{
    static const struct {
        const char *in, *out;
        enum ip_family family;
    } rows[] = {
        { "192.0.2.1", "192.0.2.1", IP_V4 },
        { "0.0.0.0", "0.0.0.0", IP_V4 },
        { "255.255.255.255", "255.255.255.255", IP_V4 },
        { "010.1.1.1", "10.1.1.1", IP_V4 },
        { "192.000.002.0000000012", "192.0.2.12", IP_V4 },
        { "08.09.010.0255", "8.9.10.255", IP_V4 },
        { "::ffff:192.0.2.1", "192.0.2.1", IP_V4 },
        { "::ffff:192.0.02.001", "192.0.2.1", IP_V4 },
        { "::FFFF:c000:0201", "192.0.2.1", IP_V4 },
        { "0:0:0:0:0:ffff:c000:201", "192.0.2.1", IP_V4 },
        { "2001:db8::1", "2001:db8::1", IP_V6 },
        { "2001:0DB8:0000:0000:0000:0000:0000:0001", "2001:db8::1", IP_V6 },
        { "2001:db8:0:0:1:0:0:1", "2001:db8::1:0:0:1", IP_V6 },
        { "2001:db8:0:1:1:1:1:1", "2001:db8:0:1:1:1:1:1", IP_V6 },
        { "2001:db8::192.0.2.1", "2001:db8::c000:201", IP_V6 },
        { "2001:db8:1:2:3:4:010.0.0.1", "2001:db8:1:2:3:4:a00:1", IP_V6 },
        { "::", "::", IP_V6 },
        { "::1", "::1", IP_V6 },
        { "1::", "1::", IP_V6 },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct ip ip = parsed(rows[i].in);

        assert_ip(ip, rows[i].out);
        assert_int_equal(ip_family(&ip), rows[i].family);
        struct ip again = parsed(rows[i].out);
        assert_true(ip_equals(&ip, &again));
    }
}

static const char *const bad_addresses[] = {
    "",
    " ",
    ".",
    ":",
    ":::",
    "1",
    "1.2",
    "1.2.3",
    "1.2.3.",
    ".1.2.3.4",
    "1..2.3",
    "1.2.3.4.",
    "1.2.3.4.5",
    "256.1.1.1",
    "1.1.1.256",
    "1.1.1.99999999999999999999",
    "-1.1.1.1",
    "+1.1.1.1",
    "1.1.1.1 ",
    " 1.1.1.1",
    "1.1.1.1\n",
    "1.1.1.0x1",
    "1.1.1.a",
    "1,1,1,1",
    "4294967295",
    "0x7f.0.0.1",
    "1.1.1.1/32",
    "localhost",
    "db.example.com",
    "2001:db8::1%eth0",
    "fe80::1%1",
    "[2001:db8::1]",
    "2001:db8::1::2",
    "2001:db8",
    "1:2:3:4:5:6:7",
    "1:2:3:4:5:6:7:8:9",
    "12345::1",
    "00001::1",
    "g::1",
    "::ffff:1.2.3",
    "::ffff:1.2.3.256",
    "::ffff:1.2.3.4.5",
    "1:2:3:4:5:6:7:1.2.3.4",
    "::1.2.3.4:5",
    "1.2.3.4::",
    "1.2.3.4:1.2.3.4",
    ":1.2.3.4",
    "2001:db8::1 ",
    " 2001:db8::1",
    "2001:db8::1/64",
    "::ffff:1.2.3.4%1",
    "1.1.1.\xd9\xa1",
    "None",
};

static void
bad_addresses_are_refused(void **state OVS_UNUSED)
{
    for (size_t i = 0; i < ARRAY_SIZE(bad_addresses); i++) {
        struct ip ip;

        memset(&ip, 0xaa, sizeof ip);
        if (ip_from_string(bad_addresses[i], &ip) != EINVAL) {
            fail_msg("\"%s\" is accepted", bad_addresses[i]);
        }
        assert_int_equal(ip.in6.s6_addr[3], 0xaa);
    }
}

static void
very_long_addresses_are_refused(void **state OVS_UNUSED)
{
    static char text[1000000];
    struct ip ip;
    struct cidr cidr;

    memset(text, '0', sizeof text - 1);
    assert_int_equal(ip_from_string(text, &ip), EINVAL);
    memset(text, ':', sizeof text - 1);
    assert_int_equal(ip_from_string(text, &ip), EINVAL);
    memset(text, '0', sizeof text - 1);
    memcpy(text + sizeof text - 10, "1.1.1.1/8", 9);
    assert_int_equal(cidr_parse(text, &cidr), EINVAL);
    memset(text, '0', sizeof text - 1);
    memcpy(text, "1.1.1.1/", 8);
    assert_int_equal(cidr_parse(text, &cidr), EINVAL);
}

static void
ipv4_converts_both_ways(void **state OVS_UNUSED)
{
    struct ip ip = ip_from_v4(htonl(0xc0000201));
    struct ip same = parsed("192.0.2.1");

    assert_true(ip_equals(&ip, &same));
    assert_int_equal(ip_v4(&ip), htonl(0xc0000201));
    assert_string_equal(ip_family_name(ip_family(&ip)), "IPv4");
    assert_string_equal(ip_family_name(IP_V6), "IPv6");
}

static void
order_is_numeric_within_a_family(void **state OVS_UNUSED)
{
    static const char *const ordered[] = {
        "::",          "::1",         "9.0.0.1",     "10.0.0.1",  "10.0.0.2",
        "203.0.113.1", "2001:db8::1", "2001:db8::2", "2001:db9::"
    };

    for (size_t i = 0; i < ARRAY_SIZE(ordered); i++) {
        for (size_t j = 0; j < ARRAY_SIZE(ordered); j++) {
            struct ip a = parsed(ordered[i]), b = parsed(ordered[j]);
            int cmp = ip_compare(&a, &b);

            assert_int_equal((cmp > 0) - (cmp < 0), (i > j) - (i < j));
            assert_int_equal(ip_equals(&a, &b), i == j);
        }
    }
}

static void
only_the_unspecified_ipv6_address_is_none(void **state OVS_UNUSED)
{
    struct ip none = parsed("::"), v4 = parsed("0.0.0.0"), one = parsed("::1");

    assert_true(ip_is_none(&none));
    assert_false(ip_is_none(&v4));
    assert_false(ip_is_none(&one));
}

static void
hash_depends_on_address_and_basis(void **state OVS_UNUSED)
{
    struct ip a = parsed("192.0.2.1"), b = parsed("::ffff:192.0.2.1");
    struct ip c = parsed("192.0.2.2");

    assert_int_equal(ip_hash(&a, 1), ip_hash(&b, 1));
    assert_int_not_equal(ip_hash(&a, 1), ip_hash(&c, 1));
    assert_int_not_equal(ip_hash(&a, 1), ip_hash(&a, 2));
}

static void
only_unicast_addresses_are_unicast(void **state OVS_UNUSED)
{
    static const struct {
        const char *ip;
        bool unicast;
    } rows[] = {
        { "192.0.2.1", true },
        { "126.255.255.255", true },
        { "128.0.0.0", true },
        { "223.255.255.255", true },
        { "255.255.255.254", true },
        { "0.0.0.0", false },
        { "127.0.0.1", false },
        { "127.255.255.255", false },
        { "224.0.0.1", false },
        { "239.255.255.255", false },
        { "255.255.255.255", false },
        { "2001:db8::1", true },
        { "fe80::1", true },
        { "::2", true },
        { "::", false },
        { "::1", false },
        { "ff02::1", false },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct ip ip = parsed(rows[i].ip);

        if (ip_is_unicast(&ip) != rows[i].unicast) {
            fail_msg("%s is misjudged", rows[i].ip);
        }
    }
}

static void
link_local_networks_are_found(void **state OVS_UNUSED)
{
    static const struct {
        const char *net;
        bool link_local;
    } rows[] = {
        { "169.254.0.0/16", true },  { "169.254.9.0/24", true },
        { "169.254.0.0/15", false }, { "169.253.0.0/16", false },
        { "fe80::/10", true },       { "febf::1/128", true },
        { "fe80::/9", false },       { "fec0::/10", false },
        { "2001:db8::/32", false },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct cidr cidr;

        assert_int_equal(cidr_parse(rows[i].net, &cidr), 0);
        if (cidr_is_link_local(&cidr) != rows[i].link_local) {
            fail_msg("%s is misjudged", rows[i].net);
        }
    }
}

static void
good_cidrs_are_read_and_written(void **state OVS_UNUSED)
{
    static const struct {
        const char *in, *out, *network;
    } rows[] = {
        { "10.10.1.0/24", "10.10.1.0/24", "10.10.1.0/24" },
        { "10.10.1.77/24", "10.10.1.77/24", "10.10.1.0/24" },
        { "192.0.2.1/32", "192.0.2.1/32", "192.0.2.1/32" },
        { "192.0.2.255/31", "192.0.2.255/31", "192.0.2.254/31" },
        { "192.0.2.1/0", "192.0.2.1/0", "0.0.0.0/0" },
        { "010.1.2.3/08", "10.1.2.3/8", "10.0.0.0/8" },
        { "10.1.255.3/17", "10.1.255.3/17", "10.1.128.0/17" },
        { "2001:db8::5/64", "2001:db8::5/64", "2001:db8::/64" },
        { "2001:db8::5/128", "2001:db8::5/128", "2001:db8::5/128" },
        { "2001:db8:ffff::/37", "2001:db8:ffff::/37", "2001:db8:f800::/37" },
        { "::/0", "::/0", "::/0" },
        { "::ffff:192.0.2.1/120", "192.0.2.1/24", "192.0.2.0/24" },
        { "::ffff:192.0.2.1/96", "192.0.2.1/0", "0.0.0.0/0" },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct cidr cidr = parsed_cidr(rows[i].in);
        struct cidr network = cidr_network(&cidr);
        char buf[CIDR_STRLEN];

        assert_string_equal(cidr_to_string(&cidr, buf), rows[i].out);
        assert_string_equal(cidr_to_string(&network, buf), rows[i].network);
    }
}

static void
bad_cidrs_are_refused(void **state OVS_UNUSED)
{
    static const char *const bad[] = {
        "",
        "/",
        "10.0.0.0",
        "10.0.0.0/",
        "/24",
        "10.0.0.0/33",
        "10.0.0.0/-1",
        "10.0.0.0/+8",
        "10.0.0.0/ 8",
        "10.0.0.0/8 ",
        " 10.0.0.0/8",
        "10.0.0.0/8/8",
        "10.0.0.0/0008",
        "10.0.0.0/4294967304",
        "10.0.0.0/255.0.0.0",
        "10.0.0/8",
        "10.0.0.0/a",
        "2001:db8::/129",
        "2001:db8::/999",
        "2001:db8::%1/64",
        "::ffff:192.0.2.1/95",
        "::ffff:192.0.2.1/24",
    };

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        struct cidr cidr;

        memset(&cidr, 0xaa, sizeof cidr);
        if (cidr_parse(bad[i], &cidr) != EINVAL) {
            fail_msg("\"%s\" is accepted", bad[i]);
        }
        assert_int_equal(cidr.plen, 0xaa);
    }
}

static void
only_equal_cidrs_are_equal(void **state OVS_UNUSED)
{
    struct cidr a[] = { parsed_cidr("10.10.1.0/24"), parsed_cidr("::/0") };
    struct cidr c[] = { a[0], parsed_cidr("::/1") };
    struct cidr d[] = { parsed_cidr("10.10.1.1/24"), a[1] };
    struct cidr b[2];

    /* Whatever is behind them. */
    memset(b, 0xaa, sizeof b);
    for (size_t i = 0; i < ARRAY_SIZE(a); i++) {
        b[i].ip = a[i].ip;
        b[i].plen = a[i].plen;
    }
    assert_true(cidrs_equal(a, 2, b, 2));
    assert_true(cidrs_equal(a, 0, NULL, 0));
    assert_false(cidrs_equal(a, 2, b, 1));
    assert_false(cidrs_equal(a, 2, c, 2));
    assert_false(cidrs_equal(a, 2, d, 2));
}

static void
cidr_contains_its_addresses_and_no_others(void **state OVS_UNUSED)
{
    static const struct {
        const char *cidr, *ip;
        bool inside;
    } rows[] = {
        { "10.10.1.0/24", "10.10.1.0", true },
        { "10.10.1.0/24", "10.10.1.255", true },
        { "10.10.1.0/24", "10.10.2.0", false },
        { "10.10.1.99/24", "10.10.1.1", true },
        { "10.10.0.0/15", "10.11.255.255", true },
        { "10.10.0.0/15", "10.12.0.0", false },
        { "192.0.2.1/32", "192.0.2.1", true },
        { "192.0.2.1/32", "192.0.2.0", false },
        { "0.0.0.0/0", "203.0.113.9", true },
        { "0.0.0.0/0", "2001:db8::1", false },
        { "::/0", "2001:db8::1", true },
        { "::/0", "203.0.113.9", false },
        { "2001:db8::/33", "2001:db8:7fff::1", true },
        { "2001:db8::/33", "2001:db8:8000::1", false },
        { "2001:db8::1/128", "2001:db8::1", true },
        { "2001:db8::1/128", "2001:db8::2", false },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct cidr cidr = parsed_cidr(rows[i].cidr);
        struct ip ip = parsed(rows[i].ip);

        if (cidr_contains(&cidr, &ip) != rows[i].inside) {
            fail_msg("%s in %s is misjudged", rows[i].ip, rows[i].cidr);
        }
    }
}

static void
host_counts_from_the_network_address(void **state OVS_UNUSED)
{
    static const struct {
        const char *cidr;
        uint32_t n;
        const char *ip;
    } rows[] = {
        { "10.10.1.0/24", 1, "10.10.1.1" },
        { "10.10.1.77/24", 1, "10.10.1.1" },
        { "10.10.0.0/16", 256, "10.10.1.0" },
        { "2001:db8:1::/64", 1, "2001:db8:1::1" },
        { "2001:db8:1::/64", 0x12345, "2001:db8:1::1:2345" },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct cidr cidr = parsed_cidr(rows[i].cidr);

        assert_ip(cidr_host(&cidr, rows[i].n), rows[i].ip);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_addresses_are_read_and_written),
        cmocka_unit_test(bad_addresses_are_refused),
        cmocka_unit_test(very_long_addresses_are_refused),
        cmocka_unit_test(ipv4_converts_both_ways),
        cmocka_unit_test(order_is_numeric_within_a_family),
        cmocka_unit_test(only_the_unspecified_ipv6_address_is_none),
        cmocka_unit_test(hash_depends_on_address_and_basis),
        cmocka_unit_test(only_unicast_addresses_are_unicast),
        cmocka_unit_test(link_local_networks_are_found),
        cmocka_unit_test(good_cidrs_are_read_and_written),
        cmocka_unit_test(bad_cidrs_are_refused),
        cmocka_unit_test(only_equal_cidrs_are_equal),
        cmocka_unit_test(cidr_contains_its_addresses_and_no_others),
        cmocka_unit_test(host_counts_from_the_network_address),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
