/* SPDX-License-Identifier: Apache-2.0 */
/* Counted members, and which of them the kernel has to have. */

#include "memberset.h"

#include <stdlib.h>

#include <hash.h>
#include <openvswitch/util.h>
#include <util.h>

void
memberset_init(struct memberset *ms)
{
    *ms = (struct memberset){ .members = HMAP_INITIALIZER(&ms->members) };
    ovs_list_init(&ms->to_add);
    ovs_list_init(&ms->to_del);
}

void
memberset_uninit(struct memberset *ms)
{
    struct member *m;

    HMAP_FOR_EACH_POP (m, node, &ms->members) {
        free(m);
    }
    hmap_destroy(&ms->members);
}

/* What tells members apart. */
struct key {
    struct cidr cidr; /* Host bits zero. */
    uint8_t proto;
    uint16_t port;
};

static struct key
cidr_key(const struct cidr *cidr)
{
    return (struct key){ .cidr = cidr_network(cidr) };
}

static struct key
port_key(const struct rules_port *p)
{
    return (struct key){
        .cidr = { p->ip, ip_family(&p->ip) == IP_V4 ? 32 : 128 },
        .proto = proto_number(p->proto),
        .port = p->port,
    };
}

static uint32_t
hash_key(const struct key *key)
{
    return ip_hash(&key->cidr.ip, key->cidr.plen | (uint32_t) key->proto << 8
                                      | (uint32_t) key->port << 16);
}

static struct member *
find(const struct memberset *ms, const struct key *key)
{
    struct member *m;

    HMAP_FOR_EACH_WITH_HASH (m, node, hash_key(key), &ms->members) {
        if (cidr_equals(&m->cidr, &key->cidr) && m->port == key->port
            && m->proto == key->proto) {
            return m;
        }
    }
    return NULL;
}

static struct member *
find_or_make(struct memberset *ms, const struct key *key)
{
    struct member *m = find(ms, key);

    if (!m) {
        m = xzalloc(sizeof *m);
        m->cidr = key->cidr;
        m->proto = key->proto;
        m->port = key->port;
        ovs_list_init(&m->pending_node);
        hmap_insert(&ms->members, &m->node, hash_key(key));
    }
    return m;
}

/* Puts 'm' on the list that it belongs on, or on none, or away. */
static void
place(struct memberset *ms, struct member *m)
{
    bool due = member_is_due(m);

    ovs_list_remove(&m->pending_node);
    ovs_list_init(&m->pending_node);
    if (due != m->installed) {
        ovs_list_push_back(due ? &ms->to_add : &ms->to_del, &m->pending_node);
    } else if (!m->count) {
        hmap_remove(&ms->members, &m->node);
        free(m);
    }
}

/* True if a wanted network that is larger contains 'cidr'. */
static bool
is_shadowed(const struct memberset *ms, const struct cidr *cidr)
{
    const unsigned int *n_plen = ms->n_plen[ip_family(&cidr->ip)];

    for (unsigned int plen = 0; plen < cidr->plen; plen++) {
        if (n_plen[plen]) {
            struct cidr larger = { .ip = cidr->ip, .plen = plen };
            struct key key = cidr_key(&larger);
            const struct member *m = find(ms, &key);

            if (m && m->count) {
                return true;
            }
        }
    }
    return false;
}

/* Looks anew at the wanted members inside 'cidr', which has come or gone. */
static void
update_shadowed(struct memberset *ms, const struct cidr *cidr)
{
    const unsigned int *n_plen = ms->n_plen[ip_family(&cidr->ip)];
    bool any = false;

    for (unsigned int plen = cidr->plen + 1; plen < 129 && !any; plen++) {
        any = n_plen[plen] > 0;
    }
    if (any) {
        struct member *m;

        HMAP_FOR_EACH_SAFE (m, node, &ms->members) {
            if (m->count && m->cidr.plen > cidr->plen
                && cidr_contains(cidr, &m->cidr.ip)) {
                m->shadowed = is_shadowed(ms, &m->cidr);
                place(ms, m);
            }
        }
    }
}

static bool
add(struct memberset *ms, const struct key *key)
{
    struct member *m = find_or_make(ms, key);

    if (m->count++) {
        return false;
    }
    ms->n_wanted++;
    ms->n_plen[ip_family(&m->cidr.ip)][m->cidr.plen]++;
    m->shadowed = is_shadowed(ms, &m->cidr);
    place(ms, m);
    update_shadowed(ms, &key->cidr);
    return true;
}

bool
memberset_add(struct memberset *ms, const struct cidr *cidr)
{
    struct key key = cidr_key(cidr);

    return add(ms, &key);
}

bool
memberset_add_port(struct memberset *ms, const struct rules_port *port)
{
    struct key key = port_key(port);

    return add(ms, &key);
}

static void
remove_one(struct memberset *ms, const struct key *key)
{
    struct member *m = find(ms, key);

    if (!m || !m->count || --m->count) {
        return;
    }
    ms->n_wanted--;
    ms->n_plen[ip_family(&key->cidr.ip)][key->cidr.plen]--;
    place(ms, m);
    update_shadowed(ms, &key->cidr);
}

void
memberset_remove(struct memberset *ms, const struct cidr *cidr)
{
    struct key key = cidr_key(cidr);

    remove_one(ms, &key);
}

void
memberset_remove_port(struct memberset *ms, const struct rules_port *port)
{
    struct key key = port_key(port);

    remove_one(ms, &key);
}

void
memberset_have_none(struct memberset *ms)
{
    struct member *m;

    HMAP_FOR_EACH_SAFE (m, node, &ms->members) {
        m->installed = false;
        place(ms, m);
    }
}

static void
have(struct memberset *ms, const struct key *key)
{
    struct member *m = find_or_make(ms, key);

    m->installed = true;
    place(ms, m);
}

void
memberset_have(struct memberset *ms, const struct cidr *cidr)
{
    struct key key = cidr_key(cidr);

    have(ms, &key);
}

void
memberset_have_port(struct memberset *ms, const struct rules_port *port)
{
    struct key key = port_key(port);

    have(ms, &key);
}

void
memberset_have_all(struct memberset *ms)
{
    struct member *m;

    HMAP_FOR_EACH_SAFE (m, node, &ms->members) {
        m->installed = member_is_due(m);
        place(ms, m);
    }
}

void
memberset_done(struct memberset *ms, struct member *m)
{
    m->installed = member_is_due(m);
    place(ms, m);
}

static bool
wants(const struct memberset *ms, const struct key *key)
{
    const struct member *m = find(ms, key);

    return m && m->count;
}

bool
memberset_wants_ip(const struct memberset *ms, const struct ip *ip)
{
    struct key key = { .cidr = { *ip, ip_family(ip) == IP_V4 ? 32 : 128 } };

    return wants(ms, &key);
}

bool
memberset_wants_port(const struct memberset *ms, const struct rules_port *port)
{
    struct key key = port_key(port);

    return wants(ms, &key);
}
