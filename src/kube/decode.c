/* SPDX-License-Identifier: Apache-2.0 */
/* JSON of one API object into a model object: metadata, and what the readers
 * of the kinds share. */

#include "ofproxyd/kube/decode.h"

#include <errno.h>
#include <string.h>

#include <openvswitch/dynamic-string.h>
#include <util.h>

#include "decode-part.h"
#include "ofproxyd/kube/stream.h"

static const char *const part_keys[] = {
#define PART(SYM, KEY) [PART_##SYM] = KEY,
    DECODE_PARTS
#undef PART
};

bool
decode_goto(struct decode_doc *doc, enum decode_part part)
{
    const char *at = doc->at[part];

    jcur_goto(doc->c, part_keys[part], at ? at : doc->c->end);
    return at != NULL;
}

/* Values. */

void *
decode_room(struct jcur *c, void *array, size_t n, size_t size)
{
    const size_t n_first = 4;
    void *larger;

    /* Room is made for 4, 8, 16... elements. */
    if (n && (n < n_first || !IS_POW2(n))) {
        return array;
    }
    larger = jcur_alloc(c, MAX(n_first, 2 * n) * size);
    if (n) {
        memcpy(larger, array, n * size);
    }
    return larger;
}

int
decode_choice(struct jcur *c, const char *const names[], int n, int absent)
{
    struct ds want = DS_EMPTY_INITIALIZER;
    const char *at = jcur_here(c);
    struct jstr s;

    s = jcur_string(c);
    if (!s.n) {
        return absent;
    }
    for (int i = 0; i < n; i++) {
        if (jstr_equals(s, names[i])) {
            return i;
        }
    }
    for (int i = 0; i < n; i++) {
        ds_put_format(&want, "%s\"%s\"", i ? " or " : "", names[i]);
    }
    jcur_mismatch(c, at, "%s", ds_cstr(&want));
    ds_destroy(&want);
    return absent;
}

enum proto
decode_proto(struct jcur *c)
{
    static const char *const names[] = {
#define PROTO(SYM, NAME, NUMBER) [PROTO_##SYM] = NAME,
        PROTOS
#undef PROTO
    };

    return decode_choice(c, names, ARRAY_SIZE(names), PROTO_TCP);
}

struct jstr
decode_trim(struct jstr s)
{
    while (s.n && strchr(" \t\r\n", s.s[0])) {
        s.s++;
        s.n--;
    }
    while (s.n && strchr(" \t\r\n", s.s[s.n - 1])) {
        s.n--;
    }
    return s;
}

/* Copies 's' into 'buf'.  A text that is too long to be an address becomes
 * "". */
static const char *
copy_address(struct jstr s, char *buf, size_t size)
{
    if (s.n >= size) {
        s.n = 0;
    }
    memcpy(buf, s.s, s.n);
    buf[s.n] = '\0';
    return buf;
}

bool
decode_address(struct jstr s, struct ip *ret)
{
    char buf[64];

    return !ip_from_string(copy_address(s, buf, sizeof buf), ret);
}

void
decode_ip(struct jcur *c, const enum ip_family *family, struct ip *ret)
{
    const char *at = jcur_here(c);

    if (!decode_address(jcur_string(c), ret) || !ip_is_unicast(ret)
        || (family && *family != ip_family(ret))) {
        jcur_mismatch(c, at, "the %s address of a host",
                      family ? ip_family_name(*family) : "IP");
    }
}

static bool
decode_network(struct jstr s, struct cidr *ret)
{
    char buf[80];

    return !cidr_parse(copy_address(decode_trim(s), buf, sizeof buf), ret);
}

void
decode_cidr(struct jcur *c, struct cidr *ret)
{
    const char *at = jcur_here(c);

    if (!decode_network(jcur_string(c), ret)) {
        jcur_mismatch(c, at, "ADDRESS/PREFIXLEN");
    }
}

/* Values that may be left out. */

void
decode_leave_out(struct jcur *c, const char *at, const char *want,
                 struct err *left_out)
{
    struct err *err = c->err;

    if (!c->failed) {
        c->err = left_out->msg[0] ? NULL : left_out;
        jcur_mismatch(c, at, "%s", want);
        c->err = err;
        c->failed = false;
    }
}

bool
decode_try_ip(struct jcur *c, struct ip *ret, struct err *left_out)
{
    const char *at = jcur_here(c);

    if (!decode_address(jcur_string(c), ret) || !ip_is_unicast(ret)) {
        decode_leave_out(c, at, "the IP address of a host", left_out);
        return false;
    }
    return true;
}

bool
decode_try_cidr(struct jcur *c, struct cidr *ret, struct err *left_out)
{
    const char *at = jcur_here(c);

    if (!decode_network(jcur_string(c), ret)) {
        decode_leave_out(c, at, "ADDRESS/PREFIXLEN", left_out);
        return false;
    }
    return true;
}

bool
decode_try_int(struct jcur *c, int64_t min, int64_t max, int64_t *ret,
               struct err *left_out)
{
    const char *at = jcur_here(c);
    char first = jcur_peek(c);
    bool is_number = first == '-' || (first >= '0' && first <= '9');
    struct err *err = c->err;

    if (!c->failed && is_number) {
        c->err = left_out->msg[0] ? NULL : left_out;
        *ret = jcur_int(c, min, max, min);
        c->err = err;
        if (c->failed) {
            c->failed = false;
            jcur_reread(c, at);
            jcur_skip(c);
            return false;
        }
        return true;
    }
    *ret = jcur_int(c, min, max, min);
    return !c->failed;
}

/* Metadata. */

/* Reads a name.  Nobody's names have blanks, slashes or other bytes that
 * could be mistaken where they are printed or joined. */
static const char *
read_name(struct jcur *c, size_t max)
{
    const char *at, *name;

    at = jcur_here(c);
    name = jcur_text(c, max);
    for (const char *p = name; *p; p++) {
        if (*p <= ' ' || *p >= 0x7f || *p == '/') {
            jcur_mismatch(c, at, "a name");
            return "";
        }
    }
    return name;
}

static void
read_meta_name(struct jcur *c, void *meta_)
{
    struct decode_meta *m = meta_;

    m->meta.name = read_name(c, DECODE_NAME_MAX);
}

static void
read_meta_namespace(struct jcur *c, void *meta_)
{
    struct decode_meta *m = meta_;

    m->meta.ns = read_name(c, DECODE_NS_MAX);
}

static void
read_uid(struct jcur *c, void *meta_)
{
    struct decode_meta *m = meta_;

    m->meta.uid = jcur_text(c, DECODE_NAME_MAX);
}

static void
read_resource_version(struct jcur *c, void *meta_)
{
    struct decode_meta *m = meta_;
    struct jstr s = jcur_string(c);

    m->meta.version = 0;
    for (size_t i = 0; i < s.n; i++) {
        unsigned int digit = s.s[i] - '0';

        if (digit > 9
            || __builtin_mul_overflow(m->meta.version, 10, &m->meta.version)
            || __builtin_add_overflow(m->meta.version, digit,
                                      &m->meta.version)) {
            m->meta.version = 0;
            break;
        }
    }
}

static void
read_creation(struct jcur *c, void *meta_)
{
    struct decode_meta *m = meta_;
    const char *at, *text;

    at = jcur_here(c);
    text = jcur_text(c, DECODE_NAME_MAX);
    m->meta.created_s = 0;
    if (text[0] && !decode_time(text, &m->meta.created_s)) {
        jcur_mismatch(c, at, "a time such as 2006-01-02T15:04:05Z");
    }
}

static void
read_deletion(struct jcur *c, void *meta_)
{
    struct decode_meta *m = meta_;

    m->deleting = jcur_string(c).n > 0;
}

static void
read_service_name(struct jcur *c, void *meta_)
{
    struct decode_meta *m = meta_;

    m->service_name = read_name(c, DECODE_NAME_MAX);
}

static void
read_proxy_name(struct jcur *c, void *meta_)
{
    struct decode_meta *m = meta_;

    m->proxy_name = jcur_null(c) ? NULL : jcur_text(c, DECODE_NAME_MAX);
}

static void
read_zone(struct jcur *c, void *meta_)
{
    struct decode_meta *m = meta_;

    m->zone = jcur_text(c, DECODE_NAME_MAX);
}

static void
read_labels(struct jcur *c, void *meta_)
{
    static const struct jcur_member members[] = {
        JCUR_MEMBER("kubernetes.io/service-name", read_service_name),
        JCUR_MEMBER("service.kubernetes.io/service-proxy-name",
                    read_proxy_name),
        JCUR_MEMBER("topology.kubernetes.io/zone", read_zone),
    };
    struct decode_meta *m = meta_;

    m->service_name = "";
    m->proxy_name = NULL;
    m->zone = "";
    jcur_object(c, members, ARRAY_SIZE(members), m);
}

static void
read_mc_imported(struct jcur *c, void *meta_)
{
    struct decode_meta *m = meta_;

    /* Antrea asks for the annotation, not for its value. */
    m->mc_imported = !jcur_null(c);
    if (m->mc_imported) {
        jcur_string(c);
    }
}

static void
read_transport(struct jcur *c, void *meta_)
{
    struct decode_meta *m = meta_;

    m->transport = jcur_string(c);
}

static void
read_trigger(struct jcur *c, void *meta_)
{
    struct decode_meta *m = meta_;

    m->trigger = jcur_string(c);
}

static void
read_annotations(struct jcur *c, void *meta_)
{
    static const struct jcur_member members[] = {
        JCUR_MEMBER("multicluster.antrea.io/imported-service",
                    read_mc_imported),
        JCUR_MEMBER(KUBE_TRANSPORT, read_transport),
        JCUR_MEMBER("endpoints.kubernetes.io/last-change-trigger-time",
                    read_trigger),
    };
    struct decode_meta *m = meta_;

    m->mc_imported = false;
    m->transport = (struct jstr){ "", 0 };
    m->trigger = (struct jstr){ "", 0 };
    jcur_object(c, members, ARRAY_SIZE(members), m);
}

static const struct decode_meta meta_none = {
    .meta = { .ns = "", .name = "", .uid = "" },
    .service_name = "",
    .zone = "",
    .transport = { "", 0 },
    .trigger = { "", 0 },
};

static bool
is_cluster_scoped(enum model_kind kind)
{
    return kind == MODEL_NODES || kind == MODEL_SERVICE_CIDRS;
}

static void
read_metadata(struct decode_doc *doc, enum model_kind kind)
{
    static const struct jcur_member members[] = {
        JCUR_MEMBER("name", read_meta_name),
        JCUR_MEMBER("namespace", read_meta_namespace),
        JCUR_MEMBER("uid", read_uid),
        JCUR_MEMBER("resourceVersion", read_resource_version),
        JCUR_MEMBER("creationTimestamp", read_creation),
        JCUR_MEMBER("deletionTimestamp", read_deletion),
        JCUR_MEMBER("labels", read_labels),
        JCUR_MEMBER("annotations", read_annotations),
    };
    struct decode_meta *m = &doc->meta;

    *m = meta_none;
    if (decode_goto(doc, PART_METADATA)) {
        jcur_object(doc->c, members, ARRAY_SIZE(members), m);
    }
    if (!m->meta.name[0]) {
        jcur_missing(doc->c, "name");
    } else if (is_cluster_scoped(kind)) {
        m->meta.ns = "";
    } else if (!m->meta.ns[0]) {
        jcur_missing(doc->c, "namespace");
    }
}

/* Entry. */

/* Copies the object's name, "" if it can't be read, into '*ret'.  This is all
 * that is ever read of some objects, so it bears with what else is wrong. */
static void
read_identity(const struct decode_doc *doc, struct kube_object *ret)
{
    static const struct jcur_member members[] = {
        JCUR_MEMBER("name", read_meta_name),
        JCUR_MEMBER("namespace", read_meta_namespace),
    };
    struct decode_meta m = meta_none;
    const char *at = doc->at[PART_METADATA];
    struct jcur c;

    if (at) {
        jcur_init(&c, at, doc->c->end - at, NULL);
        jcur_object(&c, members, ARRAY_SIZE(members), &m);
        if (m.meta.name[0] && (m.meta.ns[0] || is_cluster_scoped(ret->kind))) {
            ovs_strlcpy(ret->name, m.meta.name, sizeof ret->name);
            if (!is_cluster_scoped(ret->kind)) {
                ovs_strlcpy(ret->ns, m.meta.ns, sizeof ret->ns);
            }
        }
        jcur_uninit(&c);
    }
}

static void
read_kind(struct decode_doc *doc, struct intern_pool *pool,
          struct kube_object *ret)
{
    struct svc svc;
    struct slice slice;
    struct node node;
    struct service_cidr cidr;
    struct mc_gateway gateway;
    struct mc_cluster cluster;

    switch (ret->kind) {
    case MODEL_SERVICES:
        decode_svc(doc, &svc);
        if (!doc->c->failed) {
            ret->svc = svc_pack(&svc, pool);
        }
        break;
    case MODEL_SLICES:
        if (decode_slice(doc, &slice) && !doc->c->failed) {
            ret->slice = slice_pack(&slice, pool);
        }
        break;
    case MODEL_NODES:
        decode_node(doc, &node);
        if (!doc->c->failed) {
            ret->node = node_pack(&node, pool);
        }
        break;
    case MODEL_SERVICE_CIDRS:
        decode_service_cidr(doc, &cidr);
        if (!doc->c->failed) {
            ret->plain = &service_cidr_pack(&cidr, pool)->meta;
        }
        break;
    case MODEL_MC_GATEWAYS:
        decode_mc_gateway(doc, &gateway);
        if (!doc->c->failed) {
            ret->plain = &mc_gateway_pack(&gateway, pool)->meta;
        }
        break;
    case MODEL_MC_CLUSTERS:
        decode_mc_cluster(doc, &cluster);
        if (!doc->c->failed) {
            ret->plain = &mc_cluster_pack(&cluster, pool)->meta;
        }
        break;
    }
}

int
kube_decode(const char *text, size_t len, struct intern_pool *pool,
            struct kube_object *ret, struct err *err)
{
    enum model_kind kind = ret->kind;
    struct jcur c;
    struct decode_doc doc = { .c = &c, .left_out = &ret->left_out };

    memset(ret, 0, sizeof *ret);
    ret->kind = kind;
    jcur_init(&c, text, len, err);
    jcur_locate(&c, part_keys, N_DECODE_PARTS, doc.at);
    jcur_finish(&c);
    if (len > KUBE_OBJECT_MAX) {
        c.failed = true;
        err_set(err, "has more than %zu bytes", KUBE_OBJECT_MAX);
    }
    if (!c.failed) {
        read_metadata(&doc, kind);
    }
    if (!c.failed) {
        read_kind(&doc, pool, ret);
    }
    read_identity(&doc, ret);
    if (c.failed || ret->left_out.msg[0]) {
        err_prefix(c.failed ? err : &ret->left_out,
                   "%s%s%s%s%s: ", model_kind_name(kind),
                   ret->name[0] ? " " : "", ret->ns, ret->ns[0] ? "/" : "",
                   ret->name);
    }
    jcur_uninit(&c);
    return c.failed ? EINVAL : 0;
}
