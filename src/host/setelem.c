/* SPDX-License-Identifier: Apache-2.0 */
/* Set elements as nfnetlink messages. */

#include "setelem.h"

#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <stdlib.h>
#include <string.h>

#include <netlink/attr.h>
#include <openvswitch/util.h>
#include <util.h>

#include "rulestext.h"

/* An attribute's length has 16 bits; two elements with IPv6 addresses take 84
 * bytes. */
#define MSG_SIZE (SETELEM_MAX * 96 + 256)
BUILD_ASSERT_DECL(MSG_SIZE < UINT16_MAX);

/* Who else may have filled the set: more is not read. */
#define MAX_ELEMENTS 1000000

/* A key as the kernel has it: each part of a concatenation begins at a
 * multiple of 4 bytes, and what is behind its last byte is 0. */
#define KEY_ALIGN 4
#define MAX_KEY   (16 + 2 * KEY_ALIGN)

static size_t
address_len(enum ip_family family)
{
    return family == IP_V4 ? 4 : 16;
}

static bool
has_address(enum rulestext_kind kind)
{
    return kind != RULESTEXT_PORTS;
}

static bool
has_port(enum rulestext_kind kind)
{
    return kind == RULESTEXT_PORTS || kind == RULESTEXT_ADDRESS_PORTS;
}

static size_t
key_len(enum rulestext_kind kind, enum ip_family family)
{
    return (has_address(kind) ? address_len(family) : 0)
           + (has_port(kind) ? 2 * KEY_ALIGN : 0);
}

/* Reading. */

struct element {
    struct ip ip;
    uint8_t proto;
    uint16_t port;
    bool end;
};

struct reading {
    enum ip_family family;
    enum rulestext_kind kind;
    struct element *elements;
    size_t n, allocated;
    bool odd; /* Something that can be none of ours. */
};

static void
get_address(const uint8_t *data, enum ip_family family, struct ip *ret)
{
    if (family == IP_V4) {
        ovs_be32 v4;

        memcpy(&v4, data, sizeof v4);
        *ret = ip_from_v4(v4);
    } else {
        memcpy(&ret->in6, data, sizeof ret->in6);
    }
}

static bool
decode_key(const struct nlattr *key, const struct reading *r,
           struct element *ret)
{
    struct nlattr *tb[NFTA_DATA_MAX + 1];

    if (!key || nla_parse_nested(tb, NFTA_DATA_MAX, (void *) key, NULL)
        || !tb[NFTA_DATA_VALUE]
        || (size_t) nla_len(tb[NFTA_DATA_VALUE])
               != key_len(r->kind, r->family)) {
        return false;
    }

    const uint8_t *data = nla_data(tb[NFTA_DATA_VALUE]);
    if (has_address(r->kind)) {
        get_address(data, r->family, &ret->ip);
        data += address_len(r->family);
    } else if (r->family == IP_V4) {
        ret->ip = ip_from_v4(0);
    }
    if (has_port(r->kind)) {
        ret->proto = data[0];
        ret->port = data[KEY_ALIGN] << 8 | data[KEY_ALIGN + 1];
    }
    return true;
}

static void
take_element(struct nlattr *elem, struct reading *r)
{
    struct nlattr *tb[NFTA_SET_ELEM_MAX + 1];
    struct element e = { .end = false };

    if (nla_parse_nested(tb, NFTA_SET_ELEM_MAX, elem, NULL)
        || !decode_key(tb[NFTA_SET_ELEM_KEY], r, &e) || r->n >= MAX_ELEMENTS) {
        r->odd = true;
        return;
    }
    if (tb[NFTA_SET_ELEM_FLAGS]) {
        e.end = (ntohl(nla_get_u32(tb[NFTA_SET_ELEM_FLAGS]))
                 & NFT_SET_ELEM_INTERVAL_END)
                != 0;
    }
    if (r->n >= r->allocated) {
        r->elements =
            x2nrealloc(r->elements, &r->allocated, sizeof *r->elements);
    }
    r->elements[r->n++] = e;
}

static void
take_elements(struct nlmsghdr *nlh, void *r_)
{
    struct nlattr *tb[NFTA_SET_ELEM_LIST_MAX + 1], *elem;
    struct reading *r = r_;
    int rem;

    if (!nfnl_attrs(nlh, tb, NFTA_SET_ELEM_LIST_MAX)) {
        r->odd = true;
    } else if (tb[NFTA_SET_ELEM_LIST_ELEMENTS]) {
        nla_for_each_nested(elem, tb[NFTA_SET_ELEM_LIST_ELEMENTS], rem)
        {
            take_element(elem, r);
        }
    }
}

/* By address; an interval that ends goes before one that begins there. */
static int
compare_elements(const void *a_, const void *b_)
{
    const struct element *a = a_, *b = b_;
    int cmp = ip_compare(&a->ip, &b->ip);

    return cmp ? cmp : b->end - a->end;
}

/* The address after the last one of 'cidr', which has no host bits.  False if
 * there is none. */
static bool
cidr_end(const struct cidr *cidr, struct ip *ret)
{
    int bits = ip_family(&cidr->ip) == IP_V4 ? 96 + cidr->plen : cidr->plen;
    int first = 128 - bits; /* Bits below the network part. */

    *ret = cidr->ip;
    for (int i = 15 - first / 8; i >= 0; i--) {
        unsigned int add = i == 15 - first / 8 ? 1u << first % 8 : 1;
        unsigned int sum = ret->in6.s6_addr[i] + add;

        ret->in6.s6_addr[i] = sum;
        if (sum < 256) {
            return ip_family(ret) == ip_family(&cidr->ip);
        }
    }
    return false;
}

/* The network from 'first' up to, but not including 'end', or NULL for up to
 * the last address there is.  False if it is not one network. */
static bool
to_cidr(const struct ip *first, const struct ip *end, struct cidr *ret)
{
    int max = ip_family(first) == IP_V4 ? 32 : 128;

    for (int plen = 0; plen <= max; plen++) {
        struct cidr cidr = { .ip = *first, .plen = plen }, network;
        struct ip next;

        network = cidr_network(&cidr);
        if (!ip_equals(&network.ip, first)) {
            continue;
        }
        bool has_end = cidr_end(&network, &next);
        if (end ? has_end && ip_equals(&next, end) : !has_end) {
            *ret = network;
            return true;
        }
    }
    return false;
}

static void
take_intervals(struct reading *r, struct memberset *ms)
{
    if (r->n) {
        qsort(r->elements, r->n, sizeof *r->elements, compare_elements);
    }
    for (size_t i = 0; i < r->n; i++) {
        const struct element *e = &r->elements[i];
        const struct ip *end = i + 1 < r->n ? &e[1].ip : NULL;
        struct cidr cidr;

        if (e->end) {
            continue; /* Of the one before, or nft's own mark at 0. */
        } else if (to_cidr(&e->ip, end, &cidr)) {
            memberset_have(ms, &cidr);
        } else {
            r->odd = true;
        }
    }
}

static void
take_addresses(struct reading *r, struct memberset *ms)
{
    for (size_t i = 0; i < r->n; i++) {
        struct cidr cidr = { .ip = r->elements[i].ip,
                             .plen = r->family == IP_V4 ? 32 : 128 };

        memberset_have(ms, &cidr);
    }
}

static bool
find_proto(uint8_t number, enum proto *ret)
{
    for (enum proto p = 0; p < N_PROTOS; p++) {
        if (proto_number(p) == number) {
            *ret = p;
            return true;
        }
    }
    return false;
}

static void
take_ports(struct reading *r, struct memberset *ms)
{
    for (size_t i = 0; i < r->n; i++) {
        const struct element *e = &r->elements[i];
        struct rules_port port = { .ip = e->ip, .port = e->port };

        if (!find_proto(e->proto, &port.proto)) {
            r->odd = true;
        } else {
            memberset_have_port(ms, &port);
        }
    }
}

static void
take_all(struct reading *r, struct memberset *ms)
{
    switch (r->kind) {
    case RULESTEXT_NETWORKS: take_intervals(r, ms); break;
    case RULESTEXT_ADDRESSES: take_addresses(r, ms); break;
    case RULESTEXT_PORTS:
    case RULESTEXT_ADDRESS_PORTS: take_ports(r, ms); break;
    }
}

static struct nl_msg *
start_msg(int msg, int flags, enum rules_set_id id, enum ip_family family,
          size_t size)
{
    struct nl_msg *m =
        nfnl_msg((NFNL_SUBSYS_NFTABLES << 8) | msg, flags, NFPROTO_INET, size);

    nla_put_string(m, NFTA_SET_ELEM_LIST_TABLE, RULES_TABLE);
    nla_put_string(m, NFTA_SET_ELEM_LIST_SET, rulestext_set_name(id, family));
    return m;
}

int
setelem_read(struct nfnl *nl, enum rules_set_id id, enum ip_family family,
             struct memberset *ms)
{
    struct reading r = { .family = family, .kind = rulestext_set_kind(id) };
    struct nl_msg *msg = start_msg(NFT_MSG_GETSETELEM, 0, id, family, 256);
    int error = nfnl_dump(nl, msg, take_elements, &r);

    if (!error) {
        take_all(&r, ms);
        error = r.odd ? EPROTO : 0;
    }
    free(r.elements);
    return error;
}

/* Writing. */

static void
put_element(struct nl_msg *m, const void *key_, size_t len, bool end)
{
    struct nlattr *elem = nla_nest_start(m, NFTA_LIST_ELEM | NLA_F_NESTED);
    struct nlattr *key = nla_nest_start(m, NFTA_SET_ELEM_KEY | NLA_F_NESTED);

    nla_put(m, NFTA_DATA_VALUE, len, key_);
    nla_nest_end(m, key);
    if (end) {
        nla_put_u32(m, NFTA_SET_ELEM_FLAGS, htonl(NFT_SET_ELEM_INTERVAL_END));
    }
    nla_nest_end(m, elem);
}

static void
put_address(uint8_t *data, const struct ip *ip)
{
    if (ip_family(ip) == IP_V4) {
        ovs_be32 v4 = ip_v4(ip);

        memcpy(data, &v4, sizeof v4);
    } else {
        memcpy(data, &ip->in6, sizeof ip->in6);
    }
}

static void
put_member(struct nl_msg *m, enum rulestext_kind kind, const struct member *mb)
{
    enum ip_family family = ip_family(&mb->cidr.ip);
    uint8_t key[MAX_KEY] = { 0 }, *data = key;
    size_t len = key_len(kind, family);
    struct ip end;

    if (has_address(kind)) {
        put_address(data, &mb->cidr.ip);
        data += address_len(family);
    }
    if (has_port(kind)) {
        data[0] = mb->proto;
        data[KEY_ALIGN] = mb->port >> 8;
        data[KEY_ALIGN + 1] = mb->port;
    }
    put_element(m, key, len, false);
    if (kind == RULESTEXT_NETWORKS && cidr_end(&mb->cidr, &end)) {
        put_address(key, &end);
        put_element(m, key, len, true);
    }
}

size_t
setelem_encode(enum rules_set_id id, enum ip_family family,
               const struct memberset *ms, bool add, struct nfnl_batch *batch)
{
    const struct ovs_list *list = add ? &ms->to_add : &ms->to_del;
    struct nlattr *elements = NULL;
    struct nl_msg *msg = NULL;
    const struct member *m;
    size_t n = 0;

    LIST_FOR_EACH (m, pending_node, list) {
        if (n >= SETELEM_MAX) {
            break;
        }
        if (ip_family(&m->cidr.ip) != family) {
            continue;
        }
        if (!msg) {
            msg = start_msg(add ? NFT_MSG_NEWSETELEM : NFT_MSG_DELSETELEM,
                            add ? NLM_F_CREATE : 0, id, family, MSG_SIZE);
            elements = nla_nest_start(msg, NFTA_SET_ELEM_LIST_ELEMENTS
                                               | NLA_F_NESTED);
        }
        put_member(msg, rulestext_set_kind(id), m);
        n++;
    }
    if (msg) {
        nla_nest_end(msg, elements);
        nfnl_batch_add(batch, msg);
    }
    return n;
}
