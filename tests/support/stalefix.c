/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of stale connections have in common. */

#include "stalefix.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <util.h>

#include "flowtabfix.h"

int
sf_setup(void **state)
{
    struct stalefix *f = xzalloc(sizeof *f);

    f->ft = ft_ready();
    f->st = stale_create(f->ft, NULL);
    stale_adopt(f->st); /* Of an empty switch. */
    f->now_ms = 1000;
    stale_done(f->st, 0, 0); /* Requests cost nothing. */
    ds_init(&f->text);
    *state = f;
    return 0;
}

int
sf_teardown(void **state)
{
    struct stalefix *f = *state;

    stale_destroy(f->st);
    flowtab_destroy(f->ft);
    ds_destroy(&f->text);
    free(f);
    return 0;
}

struct ip
sf_cluster_ip(unsigned int n)
{
    return ip_from_v4(htonl(0x0a600000 + n));
}

static struct eps
endpoint(unsigned int n)
{
    return (struct eps){ .ip = ip_from_v4(htonl(0x0a010100 + n)),
                         .port = 8080 };
}

struct eps_list
sf_range(unsigned int first, unsigned int last)
{
    struct eps_list list = { .n = last - first + 1 };

    list.eps = xmalloc(list.n * sizeof *list.eps);
    for (size_t i = 0; i < list.n; i++) {
        list.eps[i] = endpoint(first + i);
    }
    return list;
}

static struct eps_list
letters(const char *s)
{
    struct eps_list list = { .n = strlen(s) };

    list.eps = xmalloc((list.n + 1) * sizeof *list.eps);
    for (size_t i = 0; i < list.n; i++) {
        list.eps[i] = endpoint((unsigned char) s[i]);
    }
    return list;
}

void
sf_say_lists(struct stalefix *f, uint32_t n, const uint16_t at[2],
             const struct eps_list *alive, const struct eps_list *used)
{
    struct pipe_frontend frontends[2];
    struct eps_choice choice = { .cluster = *used };
    struct stale_port port = {
        .owner = SF_OWNER(n),
        .family = IP_V4,
        .proto = PROTO_UDP,
        .frontends = frontends,
        .alive = alive,
        .choice = &choice,
    };

    if (at[0]) {
        frontends[port.n_frontends++] = (struct pipe_frontend){
            .kind = PIPE_CLUSTER_IP, .ip = sf_cluster_ip(at[0]), .port = 53
        };
    }
    if (at[1]) {
        frontends[port.n_frontends++] =
            (struct pipe_frontend){ .kind = PIPE_NODE_PORT, .port = at[1] };
    }
    stale_update(f->st, &port);
}

void
sf_say(struct stalefix *f, uint32_t n, const uint16_t *at, const char *alive_,
       const char *used_)
{
    struct eps_list alive = letters(alive_), used = letters(used_);

    sf_say_lists(f, n, at, &alive, &used);
    free(alive.eps);
    free(used.eps);
}

void
sf_have_service(struct stalefix *f, uint32_t n, uint16_t ip, const char *eps)
{
    struct pipe_frontend frontend = { .ip = sf_cluster_ip(ip), .port = 53 };
    struct eps_list list = letters(eps);
    struct pipe_service svc = {
        .object_id = n,
        .family = IP_V4,
        .proto = PROTO_UDP,
        .frontends = &frontend,
        .n_frontends = 1,
        .targets = { { list.n ? PIPE_SELECT : PIPE_REJECT, list.eps,
                       list.n } },
    };
    struct fout out = FOUT_INIT;

    assert_int_equal(pipe_render_service(&svc, &out, NULL), 0);
    for (size_t i = 0; i < out.n; i++) {
        flowtab_have(f->ft, fitem_ref(out.items[i]));
    }
    fout_clear(&out);
    free(list.eps);
}

/* Requests as text. */

static void
format_address(const struct in6_addr *in6, uint16_t port, struct ds *ds)
{
    struct ip ip = { *in6 }, virtual_ip = pipe_node_port_ip(IP_V4);
    char buf[IP_STRLEN];

    if (ip_equals(&ip, &virtual_ip)) {
        ds_put_cstr(ds, "np");
    } else if (ntohl(ip_v4(&ip)) >> 8 == 0x0a6000) {
        ds_put_format(ds, "%u", ntohl(ip_v4(&ip)) & 0xff);
    } else {
        ds_put_cstr(ds, ip_to_string(&ip, buf));
    }
    ds_put_format(ds, ":%u", port);
}

static void
format_request(const struct ofconn_ct_flush *r, struct ds *ds)
{
    struct ip src = { r->src };

    ds_put_cstr(ds, ds->length ? " " : "");
    assert_int_equal(r->zone, PIPE_ZONE_V4);
    assert_int_equal(r->proto, 17);
    if (!IN6_IS_ADDR_UNSPECIFIED(&r->from)) {
        ds_put_char(ds, '~');
        format_address(&r->from, r->from_port, ds);
        assert_true(IN6_IS_ADDR_UNSPECIFIED(&r->dst) && ip_is_none(&src));
        return;
    } else if (IN6_IS_ADDR_UNSPECIFIED(&r->dst)) {
        assert_false(ip_is_none(&src));
        ds_put_char(ds, '*');
    } else {
        format_address(&r->dst, r->dst_port, ds);
    }
    if (ip_is_none(&src)) {
        assert_int_equal(r->src_port, 0);
    } else if (!memcmp(&r->src, &r->dst, sizeof r->src)) {
        assert_int_equal(r->src_port, r->dst_port);
        ds_put_char(ds, '!');
    } else {
        assert_int_equal(r->src_port, 8080);
        ds_put_format(ds, "<%c", ntohl(ip_v4(&src)) & 0xff);
    }
}

size_t
sf_take(struct stalefix *f, struct ofconn_ct_flush *requests)
{
    size_t n = stale_take(f->st, f->now_ms, requests, OFCONN_CT_MAX);

    if (!n && stale_next_ms(f->st) <= f->now_ms + STALE_GRACE_MS) {
        f->now_ms = stale_next_ms(f->st);
        n = stale_take(f->st, f->now_ms, requests, OFCONN_CT_MAX);
    }
    ds_clear(&f->text);
    for (size_t i = 0; i < n; i++) {
        format_request(&requests[i], &f->text);
    }
    if (n) {
        stale_done(f->st, f->now_ms, 0);
    }
    return n;
}

bool
sf_is_idle(const struct stalefix *f)
{
    struct stale_stats stats;

    stale_get_stats(f->st, &stats);
    return !stats.n_active;
}

size_t
sf_drain(struct stalefix *f)
{
    struct ofconn_ct_flush requests[OFCONN_CT_MAX];
    size_t n = 0;

    for (;;) {
        size_t taken = sf_take(f, requests);

        n += taken;
        if (!taken && sf_is_idle(f)) {
            return n;
        } else if (!taken) {
            assert_true(stale_next_ms(f->st) > f->now_ms);
            f->now_ms = stale_next_ms(f->st);
        }
    }
}

void
sf_expect(struct stalefix *f, const char *expected)
{
    struct ofconn_ct_flush requests[OFCONN_CT_MAX];

    sf_take(f, requests);
    assert_string_equal(ds_cstr(&f->text), expected);
    sf_drain(f);
}
