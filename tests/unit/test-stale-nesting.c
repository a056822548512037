/* SPDX-License-Identifier: Apache-2.0 */
/* Stale connections that came by way of a cluster IP: they have the address
 * of the Service that was asked, and an endpoint of the one behind it. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <util.h>

#include "../../src/agent/stale.h"
#include "../support/flowtabfix.h"

/* More than all passes take. */
#define MAX_TURNS 1000

struct fixture {
    struct stale *st;
    long long int now_ms;
};

/* Service port 'n' at 10.96.0.n:53, of endpoints 10.1.1.LETTER:8080.  A digit
 * is the cluster IP of that Service port. */
static void
say(struct fixture *f, uint32_t n, const char *letters)
{
    struct pipe_frontend frontend = { .ip = ip_from_v4(htonl(0x0a600000 + n)),
                                      .port = 53 };
    struct eps eps[8];
    struct eps_list list = { .eps = eps, .n = strlen(letters) };
    struct eps_choice choice = { .cluster = list };

    for (size_t i = 0; i < list.n; i++) {
        bool nested = letters[i] <= '9';

        eps[i] = (struct eps){
            .ip =
                ip_from_v4(nested ? htonl(0x0a600000 + letters[i] - '0')
                                  : htonl(0x0a010100 + (uint8_t) letters[i])),
            .port = nested ? 53 : 8080,
            .nested = nested,
        };
    }
    stale_update(f->st, &(struct stale_port){
                            .owner = cookie_make(COOKIE_SERVICE, n),
                            .family = IP_V4,
                            .proto = PROTO_UDP,
                            .frontends = &frontend,
                            .n_frontends = 1,
                            .alive = &list,
                            .choice = &choice,
                        });
}

/* Appends a request as "ADDRESS<ENDPOINT", '*' for any. */
static void
format(const struct ofconn_ct_flush *r, struct ds *ds)
{
    struct ip dst = { r->dst }, src = { r->src };

    ds_put_cstr(ds, ds->length ? " " : "");
    if (ip_is_none(&dst)) {
        ds_put_char(ds, '*');
    } else {
        ds_put_format(ds, "%d", dst.in6.s6_addr[15]);
    }
    ds_put_format(ds, "<%c", ip_is_none(&src) ? '*' : src.in6.s6_addr[15]);
}

/* Checks the first pass, unless 'expected' is NULL, and lets the others
 * by. */
static void
expect(struct fixture *f, const char *expected)
{
    struct ofconn_ct_flush requests[OFCONN_CT_MAX];
    struct ds ds = DS_EMPTY_INITIALIZER;
    struct stale_stats stats = { .n_active = 1 };
    bool first = true;

    for (int i = 0; i < MAX_TURNS && stats.n_active; i++) {
        size_t n = stale_take(f->st, f->now_ms, requests, OFCONN_CT_MAX);

        for (size_t j = 0; first && j < n; j++) {
            format(&requests[j], &ds);
        }
        first &= !n;
        if (n) {
            stale_done(f->st, f->now_ms, 0);
        } else {
            f->now_ms += STALE_GRACE_MS;
        }
        stale_get_stats(f->st, &stats);
    }
    assert_int_equal(stats.n_active, 0);
    if (expected) {
        assert_string_equal(ds_cstr(&ds), expected);
    }
    ds_destroy(&ds);
}

static void
an_endpoint_is_forgotten_at_any_address(void **state OVS_UNUSED)
{
    struct flowtab *ft = ft_ready();
    struct fixture f = { .st = stale_create(ft, NULL), .now_ms = 1000 };

    stale_adopt(f.st);
    stale_done(f.st, 0, 0); /* Requests cost nothing. */
    say(&f, 1, "abc");
    say(&f, 2, "1");
    expect(&f, NULL); /* What went by untranslated. */
    say(&f, 1, "ac");
    expect(&f, "*<b");
    say(&f, 1, "");
    expect(&f, "1<* *<a *<c");
    say(&f, 4, "xyz"); /* Which no other one leads to. */
    expect(&f, NULL);
    say(&f, 4, "x");
    expect(&f, "4<y 4<z");
    say(&f, 4, "");
    expect(&f, "4<*");

    /* One that another Service has, too, may be in use there. */
    say(&f, 1, "ab");
    say(&f, 3, "b");
    expect(&f, NULL);
    say(&f, 1, "a");
    expect(&f, "1<b");

    /* Nobody nests any more. */
    stale_remove(f.st, cookie_make(COOKIE_SERVICE, 2));
    expect(&f, NULL);
    say(&f, 1, "");
    expect(&f, "1<*");
    stale_destroy(f.st);
    flowtab_destroy(ft);
}

/* What it had were cluster IPs, the connections have others. */
static void
what_nests_and_has_nothing_left_is_one_request(void **state OVS_UNUSED)
{
    struct flowtab *ft = ft_ready();
    struct fixture f = { .st = stale_create(ft, NULL), .now_ms = 1000 };

    stale_adopt(f.st);
    stale_done(f.st, 0, 0);
    say(&f, 1, "a");
    say(&f, 2, "1567");
    say(&f, 3, "1");
    expect(&f, NULL);
    say(&f, 2, "");
    expect(&f, "2<*");

    /* It had the pod once, and may have it still. */
    say(&f, 2, "6");
    stale_remove(f.st, cookie_make(COOKIE_SERVICE, 3));
    expect(&f, NULL);
    say(&f, 1, "");
    expect(&f, "1<* *<a");
    stale_remove(f.st, cookie_make(COOKIE_SERVICE, 2));
    say(&f, 1, "b");
    expect(&f, NULL);
    say(&f, 1, "");
    expect(&f, "1<*");
    stale_destroy(f.st);
    flowtab_destroy(ft);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_endpoint_is_forgotten_at_any_address),
        cmocka_unit_test(what_nests_and_has_nothing_left_is_one_request),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
