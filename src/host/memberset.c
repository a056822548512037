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

static uint32_t
hash_cidr(const struct cidr *cidr)
{
    return ip_hash(&cidr->ip, cidr->plen);
}

static struct member *
find(const struct memberset *ms, const struct cidr *cidr)
{
    struct member *m;

    HMAP_FOR_EACH_WITH_HASH (m, node, hash_cidr(cidr), &ms->members) {
        if (m->cidr.plen == cidr->plen && ip_equals(&m->cidr.ip, &cidr->ip)) {
            return m;
        }
    }
    return NULL;
}

static struct member *
find_or_make(struct memberset *ms, const struct cidr *cidr)
{
    struct member *m = find(ms, cidr);

    if (!m) {
        m = xzalloc(sizeof *m);
        m->cidr = *cidr;
        ovs_list_init(&m->pending_node);
        hmap_insert(&ms->members, &m->node, hash_cidr(cidr));
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

            larger = cidr_network(&larger);
            const struct member *m = find(ms, &larger);
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

bool
memberset_add(struct memberset *ms, const struct cidr *cidr_)
{
    struct cidr cidr = cidr_network(cidr_);
    struct member *m = find_or_make(ms, &cidr);

    if (m->count++) {
        return false;
    }
    ms->n_wanted++;
    ms->n_plen[ip_family(&cidr.ip)][cidr.plen]++;
    m->shadowed = is_shadowed(ms, &cidr);
    place(ms, m);
    update_shadowed(ms, &cidr);
    return true;
}

void
memberset_remove(struct memberset *ms, const struct cidr *cidr_)
{
    struct cidr cidr = cidr_network(cidr_);
    struct member *m = find(ms, &cidr);

    if (!m || !m->count || --m->count) {
        return;
    }
    ms->n_wanted--;
    ms->n_plen[ip_family(&cidr.ip)][cidr.plen]--;
    place(ms, m);
    update_shadowed(ms, &cidr);
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

void
memberset_have(struct memberset *ms, const struct cidr *cidr)
{
    struct member *m = find_or_make(ms, cidr);

    m->installed = true;
    place(ms, m);
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

bool
memberset_wants_ip(const struct memberset *ms, const struct ip *ip)
{
    struct cidr cidr = { .ip = *ip,
                         .plen = ip_family(ip) == IP_V4 ? 32 : 128 };
    const struct member *m = find(ms, &cidr);

    return m && m->count;
}
