/* SPDX-License-Identifier: Apache-2.0 */
/* Parsing, formatting and arithmetic of addresses and CIDRs. */

#include "ofproxyd/base/ip.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>

#include <hash.h>
#include <util.h>

/* Prefix length of the IPv4-mapped part of the IPv6 address space. */
#define V4_MAPPED_PLEN 96

/* Longest address text that is looked at.  Leading zeros make an IPv4 address
 * longer than any that this program would write. */
#define MAX_TEXT 63

const char *
ip_family_name(enum ip_family family)
{
    switch (family) {
    case IP_V4: return "IPv4";
    case IP_V6: return "IPv6";
    }
    OVS_NOT_REACHED();
}

struct ip
ip_from_v4(ovs_be32 v4)
{
    struct ip ip = { .in6.s6_addr = { [10] = 0xff, [11] = 0xff } };

    memcpy(&ip.in6.s6_addr[12], &v4, sizeof v4);
    return ip;
}

ovs_be32
ip_v4(const struct ip *ip)
{
    ovs_be32 v4;

    memcpy(&v4, &ip->in6.s6_addr[12], sizeof v4);
    return v4;
}

static bool
parse_v4(const char *s, uint32_t *ret_v4)
{
    uint32_t v4 = 0;

    for (int i = 0; i < 4; i++) {
        unsigned int octet = 0;
        const char *start = s;

        for (; *s >= '0' && *s <= '9'; s++) {
            octet = octet * 10 + (*s - '0');
            if (octet > 255) {
                return false;
            }
        }
        if (s == start || *s != (i < 3 ? '.' : '\0')) {
            return false;
        }
        s++;
        v4 = v4 << 8 | octet;
    }
    *ret_v4 = v4;
    return true;
}

static bool
parse_v6(const char *s, struct in6_addr *ret)
{
    if (!strchr(s, '.')) {
        return inet_pton(AF_INET6, s, ret) == 1;
    }

    /* inet_pton() would refuse leading zeros in the IPv4 part: give it two
     * groups of hexadecimal digits instead. */
    const char *tail = strrchr(s, ':') + 1;
    uint32_t v4;
    if (!parse_v4(tail, &v4)) {
        return false;
    }

    char text[MAX_TEXT + 16];
    snprintf(text, sizeof text, "%.*s%x:%x", (int) (tail - s), s, v4 >> 16,
             v4 & 0xffff);
    return inet_pton(AF_INET6, text, ret) == 1;
}

int
ip_from_string(const char *s, struct ip *ret)
{
    if (strnlen(s, MAX_TEXT + 1) > MAX_TEXT) {
        return EINVAL;
    }
    if (strchr(s, ':')) {
        struct ip ip;
        if (!parse_v6(s, &ip.in6)) {
            return EINVAL;
        }
        *ret = ip;
    } else {
        uint32_t v4;
        if (!parse_v4(s, &v4)) {
            return EINVAL;
        }
        *ret = ip_from_v4(htonl(v4));
    }
    return 0;
}

const char *
ip_to_string(const struct ip *ip, char buf[IP_STRLEN])
{
    if (ip_family(ip) == IP_V4) {
        return inet_ntop(AF_INET, &ip->in6.s6_addr[12], buf, IP_STRLEN);
    }
    return inet_ntop(AF_INET6, &ip->in6, buf, IP_STRLEN);
}

uint32_t
ip_hash(const struct ip *ip, uint32_t basis)
{
    return hash_bytes(&ip->in6, sizeof ip->in6, basis);
}

bool
ip_is_unicast(const struct ip *ip)
{
    if (ip_family(ip) == IP_V4) {
        uint32_t v4 = ntohl(ip_v4(ip));

        return v4 != INADDR_ANY && v4 >> 24 != IN_LOOPBACKNET
               && !IN_MULTICAST(v4) && v4 != INADDR_BROADCAST;
    }
    return !IN6_IS_ADDR_UNSPECIFIED(&ip->in6)
           && !IN6_IS_ADDR_LOOPBACK(&ip->in6)
           && !IN6_IS_ADDR_MULTICAST(&ip->in6);
}

int
cidr_parse(const char *s, struct cidr *ret)
{
    const char *slash = strchr(s, '/');
    if (!slash || slash - s > MAX_TEXT) {
        return EINVAL;
    }

    char text[MAX_TEXT + 1];
    ovs_strlcpy(text, s, slash - s + 1);

    struct cidr cidr;
    if (ip_from_string(text, &cidr.ip)) {
        return EINVAL;
    }

    /* At most three digits, of which the first may be zero as in octets. */
    unsigned int plen = 0;
    size_t n_digits = strspn(slash + 1, "0123456789");
    if (n_digits < 1 || n_digits > 3 || slash[1 + n_digits]) {
        return EINVAL;
    }
    for (size_t i = 1; i <= n_digits; i++) {
        plen = plen * 10 + (slash[i] - '0');
    }

    bool v4 = ip_family(&cidr.ip) == IP_V4;
    if (v4 && strchr(text, ':')) {
        /* Written as an IPv6 block: the IPv4 one that it equals, if any. */
        if (plen < V4_MAPPED_PLEN) {
            return EINVAL;
        }
        plen -= V4_MAPPED_PLEN;
    }
    if (plen > (v4 ? 32 : 128)) {
        return EINVAL;
    }
    cidr.plen = plen;
    *ret = cidr;
    return 0;
}

const char *
cidr_to_string(const struct cidr *cidr, char buf[CIDR_STRLEN])
{
    char ip[IP_STRLEN];

    snprintf(buf, CIDR_STRLEN, "%s/%u", ip_to_string(&cidr->ip, ip),
             cidr->plen);
    return buf;
}

/* The address bits that 'cidr' fixes, counted in a struct ip. */
static unsigned int
fixed_bits(const struct cidr *cidr)
{
    return cidr->plen + (ip_family(&cidr->ip) == IP_V4 ? V4_MAPPED_PLEN : 0);
}

bool
cidr_contains(const struct cidr *cidr, const struct ip *ip)
{
    if (ip_family(ip) != ip_family(&cidr->ip)) {
        return false;
    }

    unsigned int bits = fixed_bits(cidr);
    unsigned int bytes = bits / 8;
    const uint8_t *a = cidr->ip.in6.s6_addr;
    const uint8_t *b = ip->in6.s6_addr;

    return !memcmp(a, b, bytes)
           && (bits % 8 == 0 || !((a[bytes] ^ b[bytes]) >> (8 - bits % 8)));
}

bool
cidrs_equal(const struct cidr *a, size_t n_a, const struct cidr *b, size_t n_b)
{
    bool equal = n_a == n_b;

    for (size_t i = 0; equal && i < n_a; i++) {
        equal = cidr_equals(&a[i], &b[i]);
    }
    return equal;
}

bool
cidr_is_link_local(const struct cidr *cidr)
{
    if (ip_family(&cidr->ip) == IP_V4) {
        return cidr->plen >= 16 && ntohl(ip_v4(&cidr->ip)) >> 16 == 0xa9fe;
    }
    return cidr->plen >= 10 && IN6_IS_ADDR_LINKLOCAL(&cidr->ip.in6);
}

struct cidr
cidr_network(const struct cidr *cidr)
{
    struct cidr network = *cidr;
    unsigned int bits = fixed_bits(cidr);

    for (unsigned int i = 0; i < 16; i++) {
        unsigned int keep = bits > 8 * i ? MIN(bits - 8 * i, 8) : 0;
        network.ip.in6.s6_addr[i] &= (uint8_t) (0xff00 >> keep);
    }
    return network;
}

struct ip
cidr_host(const struct cidr *cidr, uint32_t n)
{
    struct ip ip = cidr_network(cidr).ip;
    ovs_be32 low;

    memcpy(&low, &ip.in6.s6_addr[12], sizeof low);
    low = htonl(ntohl(low) + n);
    memcpy(&ip.in6.s6_addr[12], &low, sizeof low);
    return ip;
}
