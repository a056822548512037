/* SPDX-License-Identifier: Apache-2.0 */
/* The notation of endpoints, and from it through a model to a choice. */

#include "epsfix.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <arpa/inet.h>

#include <cmocka.h>

struct ip
epsfix_ip(enum ip_family family, char name)
{
    if (family == IP_V4) {
        return ip_from_v4(htonl(0x0a0a0000 + name));
    }
    struct ip ip = { .in6.s6_addr = { 0x20, 0x01, 0x0d, 0xb8 } };
    ip.in6.s6_addr[15] = name;
    return ip;
}

/* Cuts 's' off before 'separator', and into 'names' what follows it, up to
 * commas. */
static uint8_t
parse_names(char *s, char separator, const char *names[EPSFIX_HINTS])
{
    uint8_t n = 0;
    char *list = strchr(s, separator);

    if (list) {
        *list++ = '\0';
        for (char *name; (name = strsep(&list, ",")) != NULL;) {
            assert_in_range(n, 0, EPSFIX_HINTS - 1);
            names[n++] = name;
        }
    }
    return n;
}

/* Parses "(N)", "(T)", "(RST)" or "". */
static void
parse_conditions(const char *s, struct slice_endpoint *ep)
{
    const char *c = !*s                 ? "(110)"
                    : !strcmp(s, "(N)") ? "(000)"
                    : !strcmp(s, "(T)") ? "(011)"
                                        : s;

    assert_int_equal(strspn(c, "(01)"), 5);
    ep->ready = c[1] == '1';
    ep->serving = c[2] == '1';
    ep->terminating = c[3] == '1';
}

void
epsfix_parse(char *token, enum ip_family family, const char *node,
             struct epsfix_slice *ps)
{
    struct slice_endpoint *ep = &ps->eps[ps->n];
    const char **zones = ps->hints[ps->n][0];
    const char **nodes = ps->hints[ps->n][1];

    assert_in_range(ps->n, 0, EPSFIX_MAX - 1);
    ps->n++;

    /* From the end, since each cuts off what it has read. */
    uint8_t n_nodes = parse_names(token, '/', nodes);
    uint8_t n_zones = parse_names(token, ':', zones);
    *ep = (struct slice_endpoint){
        .ip = epsfix_ip(family, *token),
        .zones = zones,
        .n_zones = n_zones,
        .hint_nodes = nodes,
        .n_hint_nodes = n_nodes,
    };
    bool local = !strncmp(token + 1, "+l", 2);
    ep->node = local ? node : "n9";
    parse_conditions(token + (local ? 3 : 1), ep);
}

static const struct slice_port http_port = { "http", PROTO_TCP, 8080 };

void
epsfix_put_slice(struct model *m, enum ip_family family, const char *name,
                 uint64_t version, const struct epsfix_slice *ps)
{
    model_put_slice(
        m, slice_pack(
               &(struct slice){
                   .meta = { "ns1", name, "", version, 0 },
                   .service = "svc-a",
                   .family = family,
                   .ports = CONST_CAST(struct slice_port *, &http_port),
                   .n_ports = 1,
                   .endpoints = CONST_CAST(struct slice_endpoint *, ps->eps),
                   .n_endpoints = ps->n,
               },
               model_pool(m)));
}

void
epsfix_put_all(struct model *m, enum ip_family family, const char *node,
               const char *text)
{
    char *copy = xstrdup(text);
    char *rest = copy;

    for (int i = 0; rest; i++) {
        char *slice = strsep(&rest, "|");
        struct epsfix_slice ps = { .n = 0 };
        char name[32];

        for (char *save, *token = strtok_r(slice, " ", &save); token;
             token = strtok_r(NULL, " ", &save)) {
            epsfix_parse(token, family, node, &ps);
        }
        snprintf(name, sizeof name, "s%d", i);
        epsfix_put_slice(m, family, name, i + 1, &ps);
    }
    free(copy);
}

static struct svc_port svc_a_port = { "http", PROTO_TCP, 80, 0 };
static struct svc_port svc_a_node_port = { "http", PROTO_TCP, 80, 30080 };

void
epsfix_put_svc(struct model *m, const char *policies)
{
    bool external = strchr(policies, 'x');

    model_put_svc(m,
                  svc_pack(
                      &(struct svc){
                          .meta = { "ns1", "svc-a", "u-1", 1, 1 },
                          .type = SVC_NODE_PORT,
                          .internal_policy = strstr(policies, "iL") != NULL,
                          .external_policy = strstr(policies, "eL") != NULL,
                          .cluster_ips = { ip_from_v4(htonl(0x0a600001)) },
                          .ports = external ? &svc_a_node_port : &svc_a_port,
                          .n_ports = 1,
                      },
                      model_pool(m)));
}

struct eps_choice
epsfix_choose(const struct model *m, enum ip_family family, const char *zone)
{
    const struct model_service *ms = model_find_service(m, "ns1", "svc-a");
    struct eps_place here = { model_node_name(m), zone };
    struct eps_choice choice;

    assert_non_null(ms);
    eps_choose(ms, &ms->svc->ports[0], family, &here, &choice);
    return choice;
}

/* The names of the endpoints in 'list', or "-" if the list isn't used. */
static const char *
list_to_string(const struct eps_list *list, bool used, char buf[64])
{
    size_t n = 0;

    if (!used) {
        assert_int_equal(list->n, 0);
        return "-";
    }
    buf[0] = '\0';
    for (size_t i = 0; i < list->n; i++) {
        if (i) {
            assert_true(eps_compare(&list->eps[i - 1], &list->eps[i]) < 0);
        }
        n += snprintf(buf + n, 64 - n, "%s%c", i ? "," : "",
                      list->eps[i].ip.in6.s6_addr[15]);
    }
    return buf;
}

void
epsfix_assert_choice(const char *what, const struct eps_choice *choice,
                     const char *cluster, const char *local, bool has_any)
{
    char c[64], l[64];
    const char *got_c =
        list_to_string(&choice->cluster, choice->uses_cluster, c);
    const char *got_l = list_to_string(&choice->local, choice->uses_local, l);

    if (strcmp(got_c, cluster) || strcmp(got_l, local)
        || choice->has_any != has_any) {
        fail_msg("%s: cluster \"%s\", local \"%s\", any %d instead of "
                 "\"%s\", \"%s\", %d",
                 what, got_c, got_l, choice->has_any, cluster, local, has_any);
    }
}

/* Is the endpoint in 'list', as often as it is 'used'? */
static void
assert_in_list(const struct eps_list *list, const struct eps *eps, bool used)
{
    size_t n = 0;

    for (size_t i = 0; i < list->n; i++) {
        n += !eps_compare(&list->eps[i], eps);
    }
    assert_int_equal(n, used);
}

void
epsfix_assert_explained(const struct model_service *ms, enum ip_family family,
                        const struct eps_place *here,
                        const struct eps_choice *choice)
{
    struct eps_explanation e;
    size_t n_cluster = 0, n_local = 0;

    eps_explain(ms, &ms->svc->ports[0], family, here, &e);
    for (size_t i = 0; i < e.n; i++) {
        const struct eps_verdict *v = &e.verdicts[i];
        bool cluster = eps_reason_is_used(v->cluster);
        bool local = eps_reason_is_used(v->local);

        assert_int_equal(v->other != NULL, v->cluster == EPS_DUPLICATE
                                               || v->local == EPS_DUPLICATE);
        if (!v->other) {
            assert_in_list(&choice->cluster, &v->eps, cluster);
            assert_in_list(&choice->local, &v->eps, local);
        }
        n_cluster += cluster;
        n_local += local;
    }
    assert_int_equal(n_cluster, choice->cluster.n);
    assert_int_equal(n_local, choice->local.n);
    eps_explanation_uninit(&e);
}

void
epsfix_check_row(const struct epsfix_row *row)
{
    const char *node = row->node ? row->node : "n1";

    for (int family = 0; family < N_IP_FAMILIES; family++) {
        struct model *m = model_create(node);
        struct eps_place here = { node, row->zone ? row->zone : "za" };
        struct eps_choice choice;

        epsfix_put_svc(m, row->policies);
        epsfix_put_all(m, family, node, row->endpoints);
        choice = epsfix_choose(m, family, row->zone ? row->zone : "za");
        epsfix_assert_choice(row->name, &choice, row->cluster, row->local,
                             row->has_any);
        epsfix_assert_explained(model_find_service(m, "ns1", "svc-a"), family,
                                &here, &choice);
        eps_choice_uninit(&choice);
        model_destroy(m);
    }
}
