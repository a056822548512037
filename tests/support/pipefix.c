/* SPDX-License-Identifier: Apache-2.0 */

/* Services for tests of the pipeline. */

#include "pipefix.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <util.h>

static struct ip
ip(const char *s)
{
    struct ip result;

    assert_int_equal(ip_from_string(s, &result), 0);
    return result;
}

struct eps *
pipefix_eps(enum ip_family family, size_t n)
{
    struct eps *eps = xcalloc(n, sizeof *eps);

    for (size_t i = 0; i < n; i++) {
        if (family == IP_V4) {
            eps[i].ip = ip_from_v4(htonl(0xc6120000 + i)); /* 198.18/15 */
        } else {
            eps[i].ip = ip("2001:db8:2::");
            eps[i].ip.in6.s6_addr[13] = i >> 16;
            eps[i].ip.in6.s6_addr[14] = i >> 8;
            eps[i].ip.in6.s6_addr[15] = i;
        }
        eps[i].port = 8080;
    }
    return eps;
}

void
pipefix_service(enum ip_family family, enum proto proto,
                struct pipe_target target, struct pipe_frontend *frontend,
                struct pipe_service *svc)
{
    *frontend = (struct pipe_frontend){
        .ip = family == IP_V4 ? ip("203.0.113.10") : ip("2001:db8:3::10"),
        .port = 80,
        .scope = PIPE_SCOPE_CLUSTER,
    };
    *svc = (struct pipe_service){
        .object_id = 0x12345,
        .family = family,
        .proto = proto,
        .frontends = frontend,
        .n_frontends = 1,
        .targets = { target },
        .takes_fragments = proto == PROTO_UDP,
    };
}

int
pipefix_render_affine(enum ip_family family, enum proto proto,
                      uint32_t affinity_s, struct pipe_target target,
                      struct fout *out)
{
    struct pipe_service svc;
    struct pipe_frontend frontend;

    pipefix_service(family, proto, target, &frontend, &svc);
    svc.affinity_s = affinity_s;
    return pipe_render_service(&svc, out, NULL);
}

int
pipefix_render(enum ip_family family, enum proto proto,
               struct pipe_target target, struct fout *out, struct err *err)
{
    struct pipe_service svc;
    struct pipe_frontend frontend;

    pipefix_service(family, proto, target, &frontend, &svc);
    return pipe_render_service(&svc, out, err);
}
