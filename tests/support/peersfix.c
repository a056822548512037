/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes and environments from text, and changes into text. */

#include "peersfix.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <util.h>

#define MAX_WORDS 32

/* Cuts 'text' into words, up to 'max'; the caller frees the return value,
 * which they point into. */
static char *
split(const char *text, char *words[], size_t max, size_t *ret_n)
{
    char *copy = xstrdup(text ? text : ""), *save = NULL;

    *ret_n = 0;
    for (char *w = strtok_r(copy, " ", &save); w;
         w = strtok_r(NULL, " ", &save)) {
        assert_true(*ret_n < max);
        words[(*ret_n)++] = w;
    }
    return copy;
}

size_t
peersfix_cidrs(const char *text, struct cidr *ret, size_t max)
{
    char *words[MAX_WORDS];
    size_t n;
    char *copy = split(text, words, MIN(max, MAX_WORDS), &n);

    for (size_t i = 0; i < n; i++) {
        assert_false(cidr_parse(words[i], &ret[i]));
    }
    free(copy);
    return n;
}

static size_t
parse_addresses(const char *text, struct node_address *ret)
{
    char *words[MAX_WORDS];
    size_t n;
    char *copy = split(text, words, MAX_WORDS, &n);

    for (size_t i = 0; i < n; i++) {
        ret[i].external = words[i][0] == '+';
        assert_false(ip_from_string(words[i] + ret[i].external, &ret[i].ip));
    }
    free(copy);
    return n;
}

void
peersfix_put(struct peers *p, const struct peersfix_node *n)
{
    struct node_address addresses[MAX_WORDS], annotated[MAX_WORDS];
    struct cidr pods[MAX_WORDS];
    struct node node = {
        .meta = { "", n->name, "", 1, n->created_s },
        .zone = "",
        .pod_cidrs = pods,
        .n_pod_cidrs = peersfix_cidrs(n->pods, pods, MAX_WORDS),
        .addresses = addresses,
        .n_addresses = parse_addresses(n->addresses, addresses),
    };
    size_t n_annotated = parse_addresses(n->annotated, annotated);

    for (size_t i = 0; i < n_annotated; i++) {
        node.transport[ip_family(&annotated[i].ip)] = annotated[i].ip;
    }
    peers_put(p, &node);
}

void
peersfix_set_env(struct peers *p, const struct peersfix_env *e)
{
    struct cidr transport[N_IP_FAMILIES], own[MAX_WORDS], cidrs[MAX_WORDS];
    size_t n = peersfix_cidrs(e->transport, transport, N_IP_FAMILIES);
    struct peers_env env = {
        .mode = e->mode,
        .own_cidrs = own,
        .n_own_cidrs = peersfix_cidrs(e->own, own, MAX_WORDS),
        .transport_cidrs = cidrs,
        .n_transport_cidrs =
            peersfix_cidrs(e->transport_cidrs, cidrs, MAX_WORDS),
    };

    for (size_t i = 0; i < n; i++) {
        env.transport[ip_family(&transport[i].ip)] = transport[i];
    }
    assert_int_equal(ip_from_string(PEERSFIX_SERVER, &env.server), 0);
    peers_set_env(p, &env);
}

void
peersfix_format(const struct peer *peer, struct ds *ds)
{
    char buf[CIDR_STRLEN];

    ds_put_cstr(ds, cidr_to_string(&peer->cidr, buf));
    ds_put_format(ds, " %s", peer_path_name(peer->path));
    ds_put_format(ds, " %s", ip_to_string(&peer->via, buf));
}

static const struct peer *
find_net(const struct peer *peers, size_t n, const struct cidr *cidr)
{
    for (size_t i = 0; i < n; i++) {
        if (peers[i].cidr.plen == cidr->plen
            && ip_equals(&peers[i].cidr.ip, &cidr->ip)) {
            return &peers[i];
        }
    }
    return NULL;
}

static bool
same_way(const struct peer *a, const struct peer *b)
{
    return a->path == b->path && ip_equals(&a->via, &b->via);
}

static void
put_change(const struct peers_change *c, struct ds *ds)
{
    char buf[CIDR_STRLEN];

    ds_put_cstr(ds, c->name);
    for (size_t i = 0; i < c->n_was; i++) {
        if (!find_net(c->now, c->n_now, &c->was[i].cidr)) {
            ds_put_format(ds, " -%s", cidr_to_string(&c->was[i].cidr, buf));
        }
    }
    for (size_t i = 0; i < c->n_now; i++) {
        const struct peer *was = find_net(c->was, c->n_was, &c->now[i].cidr);
        struct ip gateway = cidr_host(&c->now[i].cidr, 1);

        assert_true(ip_equals(&c->now[i].gateway, &gateway));
        if (!was || !same_way(was, &c->now[i])) {
            ds_put_format(ds, " %c", was ? '~' : '+');
            peersfix_format(&c->now[i], ds);
        }
    }
    if (c->news) {
        ds_put_format(ds, " [%s]", c->problem);
    }
    ds_put_char(ds, '\n');
}

void
peersfix_drain(struct peers *p, struct ds *ds)
{
    struct peers_change c;

    while (peers_pop_change(p, &c)) {
        size_t length = ds->length;

        put_change(&c, ds);
        assert_true((c.was == NULL) == (c.n_was == 0));
        assert_true((c.now == NULL) == (c.n_now == 0));
        /* It comes to something. */
        assert_true(ds->length > length + strlen(c.name) + 1
                    || c.n_now == c.n_was);
    }
    assert_false(peers_has_change(p));
}

void
peersfix_expect(struct peers *p, const char *expected)
{
    struct ds found = DS_EMPTY_INITIALIZER;

    peersfix_drain(p, &found);
    assert_string_equal(ds_cstr(&found), expected);
    ds_destroy(&found);
}
