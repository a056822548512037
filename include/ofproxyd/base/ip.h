/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_BASE_IP_H
#define OFPROXYD_BASE_IP_H 1

/* IP addresses and CIDRs of both families in one type.
 *
 * A struct ip is 16 bytes in network byte order; an IPv4 address is held as
 * its IPv4-mapped IPv6 form (::ffff:a.b.c.d), so equal addresses are equal
 * bytes and memcmp() orders them, IPv4 apart from IPv6. */

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <openvswitch/compiler.h>
#include <openvswitch/types.h>

enum ip_family {
    IP_V4,
    IP_V6
};
#define N_IP_FAMILIES 2

struct ip {
    struct in6_addr in6;
};

/* Room for any address in text, with its terminating null byte. */
#define IP_STRLEN INET6_ADDRSTRLEN

/* "IPv4" or "IPv6", as Kubernetes spells it. */
const char *ip_family_name(enum ip_family);

/* Returns the family of 'ip'; "::" is of IPv6. */
static inline enum ip_family
ip_family(const struct ip *ip)
{
    return IN6_IS_ADDR_V4MAPPED(&ip->in6) ? IP_V4 : IP_V6;
}

/* Orders by the bytes of the address: negative, 0 or positive. */
static inline int
ip_compare(const struct ip *a, const struct ip *b)
{
    return memcmp(&a->in6, &b->in6, sizeof a->in6);
}

/* Returns true if both are the same address. */
static inline bool
ip_equals(const struct ip *a, const struct ip *b)
{
    return !ip_compare(a, b);
}

/* The all-zero struct ip, "::", means "none" where an address is optional. */
static inline bool
ip_is_none(const struct ip *ip)
{
    return IN6_IS_ADDR_UNSPECIFIED(&ip->in6);
}

/* Returns an IPv4 address given in network byte order. */
struct ip ip_from_v4(ovs_be32);

/* Returns the IPv4 address of 'ip', which must be of family IP_V4. */
ovs_be32 ip_v4(const struct ip *ip);

/* Parses 's' as kube-proxy does: leading zeros in IPv4 octets are decimal,
 * an IPv4-mapped IPv6 address is the IPv4 address; no zone, no blanks.
 * Returns 0 or EINVAL; '*ret' is only set on success.  (The name ip_parse() is
 * taken by libopenvswitch.) */
int ip_from_string(const char *s, struct ip *ret) OVS_WARN_UNUSED_RESULT;

/* Formats 'ip' (RFC 5952 for IPv6) into 'buf', which is returned. */
const char *ip_to_string(const struct ip *ip, char buf[IP_STRLEN]);

/* Returns a hash of 'ip' for hash tables of this process. */
uint32_t ip_hash(const struct ip *ip, uint32_t basis);

/* True for addresses that can be a destination of unicast traffic over a
 * network: not unspecified, loopback, multicast or limited broadcast. */
bool ip_is_unicast(const struct ip *ip);

/* A block of addresses.  'plen' counts in bits of the address's family (0 to
 * 32 or 0 to 128).  'ip' keeps the host bits that it was written with. */
struct cidr {
    struct ip ip;
    uint8_t plen;
};

#define CIDR_STRLEN (IP_STRLEN + 4)

/* Parses "ADDRESS/PREFIXLEN".  Returns 0 or EINVAL; '*ret' is only set on
 * success. */
int cidr_parse(const char *s, struct cidr *ret) OVS_WARN_UNUSED_RESULT;

/* Formats 'cidr' as "ADDRESS/PREFIXLEN" into 'buf', which is returned. */
const char *cidr_to_string(const struct cidr *cidr, char buf[CIDR_STRLEN]);

/* True if 'ip' is of the family of 'cidr' and inside it. */
bool cidr_contains(const struct cidr *cidr, const struct ip *ip);

/* As written: host bits count.  There is padding in the structure. */
static inline bool
cidr_equals(const struct cidr *a, const struct cidr *b)
{
    return a->plen == b->plen && ip_equals(&a->ip, &b->ip);
}

/* True if both are the same, in the same order. */
bool cidrs_equal(const struct cidr *a, size_t n_a, const struct cidr *b,
                 size_t n_b);

/* True if all of its addresses are link-local (RFC 3927, RFC 4291 2.5.6). */
bool cidr_is_link_local(const struct cidr *cidr);

/* Returns 'cidr' with all host bits zero. */
struct cidr cidr_network(const struct cidr *cidr);

/* Returns the address 'n' places after the network address of 'cidr': with
 * 'n' == 1 the gateway address of a pod CIDR.  'n' must be small enough to
 * stay inside the low 32 bits. */
struct ip cidr_host(const struct cidr *cidr, uint32_t n);

#endif /* ofproxyd/base/ip.h */
