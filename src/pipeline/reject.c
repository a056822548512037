/* SPDX-License-Identifier: Apache-2.0 */

/* The answer to a packet that found a Service port without endpoints, or none
 * of a Service's ports: a frame of our own that the daemon sends back out of
 * the port that it came from. */

#include <netinet/in.h>

#include <util.h>

#include "ofproxyd/pipeline/pipeline.h"

#define ETH_LEN   14
#define TTL       64
#define TYPE_IPV4 0x0800
#define TYPE_IPV6 0x86dd

/* Headers are read and written byte by byte, at their RFC's offsets: frames
 * are not aligned. */
#define IPV4_LEN 20 /* Without options. */
#define IPV6_LEN 40
#define TCP_LEN  20 /* Without options. */
#define ICMP_LEN 8

#define TCP_FIN  0x01
#define TCP_SYN  0x02
#define TCP_RST  0x04
#define TCP_ACK  0x10

/* Type and code of "port unreachable". */
#define ICMP4_UNREACH 3, 3
#define ICMP6_UNREACH 1, 4

/* Types of queries. */
#define ICMP4_ECHO      8
#define ICMP4_TIMESTAMP 13
#define ICMP6_ECHO      128

/* How much of the packet an ICMP error quotes: RFC 1812 4.3.2.3 lets the whole
 * datagram have 576 bytes; RFC 4443 2.4 (c) the minimum MTU, 1280. */
#define QUOTE_MAX_V4 (576 - IPV4_LEN - ICMP_LEN)
#define QUOTE_MAX_V6 (1280 - IPV6_LEN - ICMP_LEN)

/* The packet that is answered. */
struct question {
    const uint8_t *eth;
    const uint8_t *l3; /* Everything from the IP header on, without padding. */
    size_t l3_len;
    enum ip_family family;
    uint8_t proto;
    const uint8_t *l4;
    size_t l4_len;
};

static uint32_t
csum_add(uint32_t sum, const void *data_, size_t len)
{
    const uint8_t *data = data_;

    for (; len > 1; data += 2, len -= 2) {
        sum += (uint32_t) data[0] << 8 | data[1];
    }
    return len ? sum + ((uint32_t) data[0] << 8) : sum;
}

static uint16_t
csum_finish(uint32_t sum)
{
    while (sum >> 16) {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    return (uint16_t) ~sum;
}

static uint16_t
read_16(const uint8_t *p)
{
    return (uint16_t) (p[0] << 8 | p[1]);
}

static uint32_t
read_32(const uint8_t *p)
{
    return (uint32_t) read_16(p) << 16 | read_16(p + 2);
}

static void
write_16(uint8_t *p, uint16_t x)
{
    p[0] = (uint8_t) (x >> 8);
    p[1] = (uint8_t) x;
}

static void
write_32(uint8_t *p, uint32_t x)
{
    write_16(p, (uint16_t) (x >> 16));
    write_16(p + 2, (uint16_t) x);
}

/* Reading. */

static bool
parse_ipv4(struct question *q, size_t avail)
{
    const uint8_t *h = q->l3;
    size_t hlen, total;

    if (avail < IPV4_LEN || h[0] >> 4 != 4) {
        return false;
    }
    hlen = (size_t) (h[0] & 0xf) * 4;
    total = read_16(h + 2);
    /* No fragments: more to come, or not the first. */
    if (hlen < IPV4_LEN || total < hlen || avail < hlen
        || read_16(h + 6) & 0x3fff) {
        return false;
    }
    q->family = IP_V4;
    q->proto = h[9];
    q->l3_len = MIN(total, avail);
    q->l4 = h + hlen;
    q->l4_len = q->l3_len - hlen;
    return true;
}

static bool
parse_ipv6(struct question *q, size_t avail)
{
    const uint8_t *h = q->l3;

    if (avail < IPV6_LEN || h[0] >> 4 != 6) {
        return false;
    }
    q->family = IP_V6;
    /* Behind extension headers (fragments among them) nobody looks: nothing
     * that opens a connection to a Service carries one. */
    q->proto = h[6];
    q->l3_len = MIN(IPV6_LEN + read_16(h + 4), avail);
    q->l4 = h + IPV6_LEN;
    q->l4_len = q->l3_len - IPV6_LEN;
    return true;
}

static struct ip
question_ip(const struct question *q, bool src)
{
    struct ip ip = { .in6 = IN6ADDR_ANY_INIT };

    if (q->family == IP_V4) {
        ovs_be32 v4;

        memcpy(&v4, q->l3 + (src ? 12 : 16), sizeof v4);
        return ip_from_v4(v4);
    }
    memcpy(&ip.in6, q->l3 + (src ? 8 : 24), sizeof ip.in6);
    return ip;
}

static bool
parse(struct question *q, const void *packet, size_t len)
{
    struct ip src, dst;
    uint16_t type;
    bool ok;

    if (len < ETH_LEN) {
        return false;
    }
    q->eth = packet;
    q->l3 = q->eth + ETH_LEN;
    type = read_16(q->eth + 12);
    ok = type == TYPE_IPV4   ? parse_ipv4(q, len - ETH_LEN)
         : type == TYPE_IPV6 ? parse_ipv6(q, len - ETH_LEN)
                             : false;
    if (!ok || q->l4_len < 8 || q->eth[6] & 1) {
        return false;
    }
    src = question_ip(q, true);
    dst = question_ip(q, false);
    return ip_is_unicast(&src) && ip_is_unicast(&dst);
}

/* Writing. */

static void
put_eth(const struct question *q, uint8_t *reply)
{
    memcpy(reply, q->eth + 6, 6);
    memcpy(reply + 6, q->eth, 6);
    memcpy(reply + 12, q->eth + 12, 2);
}

static size_t
l3_header_len(const struct question *q)
{
    return q->family == IP_V4 ? IPV4_LEN : IPV6_LEN;
}

/* Writes the IP header in front of 'l4_len' bytes of 'proto', from the
 * question's destination to its source. */
static void
put_l3(const struct question *q, uint8_t *h, uint8_t proto, size_t l4_len)
{
    memset(h, 0, l3_header_len(q));
    if (q->family == IP_V4) {
        h[0] = 0x45;
        write_16(h + 2, (uint16_t) (IPV4_LEN + l4_len));
        write_16(h + 6, 0x4000); /* Don't fragment. */
        h[8] = TTL;
        h[9] = proto;
        memcpy(h + 12, q->l3 + 16, 4);
        memcpy(h + 16, q->l3 + 12, 4);
        write_16(h + 10, csum_finish(csum_add(0, h, IPV4_LEN)));
    } else {
        h[0] = 0x60;
        write_16(h + 4, (uint16_t) l4_len);
        h[6] = proto;
        h[7] = TTL;
        memcpy(h + 8, q->l3 + 24, 16);
        memcpy(h + 24, q->l3 + 8, 16);
    }
}

/* The checksum with the pseudo header; source and destination add up to the
 * same either way round. */
static uint16_t
l4_csum(const struct question *q, uint8_t proto, const uint8_t *l4,
        size_t l4_len)
{
    uint32_t sum = csum_add(0, l4, l4_len);

    if (q->family == IP_V4) {
        sum = csum_add(sum, q->l3 + 12, 8);
    } else {
        sum = csum_add(sum, q->l3 + 8, 32);
    }
    return csum_finish(sum + proto + (uint32_t) l4_len);
}

static size_t
put_rst(const struct question *q, uint8_t *reply)
{
    size_t l3_len = l3_header_len(q);
    uint8_t *l3 = reply + ETH_LEN;
    uint8_t *out = l3 + l3_len;
    const uint8_t *in = q->l4;
    size_t in_len;
    uint8_t flags;

    if (q->l4_len < TCP_LEN) {
        return 0;
    }
    in_len = (size_t) (in[12] >> 4) * 4;
    flags = in[13];
    if (flags & TCP_RST || in_len < TCP_LEN || in_len > q->l4_len) {
        return 0;
    }
    memset(out, 0, TCP_LEN);
    memcpy(out, in + 2, 2);
    memcpy(out + 2, in, 2);
    out[12] = TCP_LEN / 4 << 4;
    if (flags & TCP_ACK) {
        memcpy(out + 4, in + 8, 4);
        out[13] = TCP_RST;
    } else {
        uint32_t used = (uint32_t) (q->l4_len - in_len) + !!(flags & TCP_SYN)
                        + !!(flags & TCP_FIN);

        write_32(out + 8, read_32(in + 4) + used);
        out[13] = TCP_RST | TCP_ACK;
    }
    write_16(out + 16, l4_csum(q, IPPROTO_TCP, out, TCP_LEN));
    put_l3(q, l3, IPPROTO_TCP, TCP_LEN);
    return ETH_LEN + l3_len + TCP_LEN;
}

static size_t
put_unreachable(const struct question *q, uint8_t *reply)
{
    static const uint8_t unreach[][2] = {
        [IP_V4] = { ICMP4_UNREACH },
        [IP_V6] = { ICMP6_UNREACH },
    };
    bool v4 = q->family == IP_V4;
    size_t quote = MIN(q->l3_len, v4 ? QUOTE_MAX_V4 : QUOTE_MAX_V6);
    uint8_t proto = v4 ? IPPROTO_ICMP : IPPROTO_ICMPV6;
    uint8_t *l3 = reply + ETH_LEN;
    uint8_t *icmp = l3 + l3_header_len(q);
    size_t icmp_len = ICMP_LEN + quote;

    memset(icmp, 0, ICMP_LEN);
    memcpy(icmp, unreach[q->family], 2);
    memcpy(icmp + ICMP_LEN, q->l3, quote);
    write_16(icmp + 2, v4 ? csum_finish(csum_add(0, icmp, icmp_len))
                          : l4_csum(q, proto, icmp, icmp_len));
    put_l3(q, l3, proto, icmp_len);
    return (size_t) (icmp - reply) + icmp_len;
}

/* No error answers an error (RFC 1122 3.2.2, RFC 4443 2.4 (e)), nor what
 * answers a query: nobody waits for that. */
static bool
is_icmp_query(const struct question *q)
{
    uint8_t type = q->l4[0];

    return q->family == IP_V4 ? type == ICMP4_ECHO || type == ICMP4_TIMESTAMP
                              : type == ICMP6_ECHO;
}

/* Is the protocol number 'proto' an extension header of IPv6 (IANA's list),
 * or none? */
static bool
is_extension(uint8_t proto)
{
    switch (proto) {
    case IPPROTO_HOPOPTS:
    case IPPROTO_ROUTING:
    case IPPROTO_FRAGMENT:
    case IPPROTO_AH:
    case IPPROTO_NONE:
    case IPPROTO_DSTOPTS:
    case IPPROTO_MH: return true;
    default: return false;
    }
}

static bool
may_answer(const struct question *q)
{
    bool v4 = q->family == IP_V4;

    if (q->proto == (v4 ? IPPROTO_ICMP : IPPROTO_ICMPV6)) {
        return is_icmp_query(q);
    }
    return v4 || !is_extension(q->proto);
}

size_t
pipe_build_reject(const void *packet, size_t len,
                  uint8_t reply[PIPE_REJECT_MAX])
{
    struct question q;

    if (!parse(&q, packet, len)) {
        return 0;
    }
    put_eth(&q, reply);
    if (q.proto == IPPROTO_TCP) {
        return put_rst(&q, reply);
    }
    return may_answer(&q) ? put_unreachable(&q, reply) : 0;
}
