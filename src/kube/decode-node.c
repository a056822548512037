/* SPDX-License-Identifier: Apache-2.0 */
/* JSON of a core/v1 Node: zone, pod CIDRs, addresses, transport addresses, and
 * whether it is to go. */

#include "decode-part.h"

#include <string.h>

#include <util.h>

/* Set by the cluster autoscaler on a Node that it is about to remove. */
#define DELETION_TAINT "ToBeDeletedByClusterAutoscaler"

struct node_reader {
    struct node *node;
    struct cidr pod_cidr;
    bool has_pod_cidr;
};

/* Metadata. */

/* One transport address, of which there is one a family. */
static void
add_transport(struct decode_doc *doc, struct node *node, struct jstr text)
{
    struct ip ip;

    if (decode_address(text, &ip) && ip_is_unicast(&ip)
        && ip_is_none(&node->transport[ip_family(&ip)])) {
        node->transport[ip_family(&ip)] = ip;
    } else if (!node->transport_is_bad) {
        node->transport_is_bad = true;
        err_set(doc->left_out,
                "metadata.annotations[\"" KUBE_TRANSPORT "\"]: found "
                "\"%.*s\", want IP addresses of hosts, one of each family",
                (int) MIN(text.n, 64), text.s);
    }
}

/* The annotation isn't the API's own, so what is wrong in it doesn't take the
 * Node with it. */
static void
split_transport(struct decode_doc *doc, struct node *node)
{
    struct jstr rest = doc->meta.transport;

    while (rest.n) {
        const char *comma = memchr(rest.s, ',', rest.n);
        size_t n = comma ? comma - rest.s : rest.n;
        struct jstr text = decode_trim((struct jstr){ rest.s, n });

        if (text.n) {
            add_transport(doc, node, text);
        }
        n += comma != NULL;
        rest = (struct jstr){ rest.s + n, rest.n - n };
    }
}

/* Spec. */

static bool
same_network(const struct cidr *a, const struct cidr *b)
{
    struct cidr net_a = cidr_network(a), net_b = cidr_network(b);

    return a->plen == b->plen && ip_equals(&net_a.ip, &net_b.ip);
}

static void
add_pod_cidr(struct jcur *c, struct node *node, const struct cidr *cidr)
{
    for (size_t i = 0; i < node->n_pod_cidrs; i++) {
        if (same_network(cidr, &node->pod_cidrs[i])) {
            return;
        }
    }
    node->pod_cidrs = decode_room(c, node->pod_cidrs, node->n_pod_cidrs,
                                  sizeof *node->pod_cidrs);
    node->pod_cidrs[node->n_pod_cidrs++] = *cidr;
}

static void
read_pod_cidr(struct jcur *c, void *reader_)
{
    struct node_reader *r = reader_;
    const char *at = jcur_here(c);

    r->has_pod_cidr = jcur_string(c).n > 0;
    if (r->has_pod_cidr) {
        jcur_reread(c, at);
        decode_cidr(c, &r->pod_cidr);
    }
}

static void
read_pod_cidrs_element(struct jcur *c, void *reader_)
{
    struct node_reader *r = reader_;
    struct cidr cidr;

    decode_cidr(c, &cidr);
    if (!c->failed) {
        add_pod_cidr(c, r->node, &cidr);
    }
}

static void
read_pod_cidrs(struct jcur *c, void *reader_)
{
    struct node_reader *r = reader_;

    r->node->n_pod_cidrs = 0;
    jcur_array(c, DECODE_POD_CIDRS_MAX, read_pod_cidrs_element, r);
}

static void
read_taint_key(struct jcur *c, void *deletion_)
{
    bool *deletion = deletion_;

    *deletion = jstr_equals(jcur_string(c), DELETION_TAINT);
}

static void
read_taint(struct jcur *c, void *reader_)
{
    static const struct jcur_member members[] = {
        JCUR_MEMBER("key", read_taint_key),
    };
    struct node_reader *r = reader_;
    bool deletion = false;

    jcur_object(c, members, ARRAY_SIZE(members), &deletion);
    r->node->to_be_deleted |= deletion;
}

static void
read_taints(struct jcur *c, void *reader_)
{
    struct node_reader *r = reader_;

    r->node->to_be_deleted = false;
    jcur_array(c, DECODE_TAINTS_MAX, read_taint, r);
}

/* Status. */

struct address_reader {
    struct jstr type, address;
};

static void
read_address_type(struct jcur *c, void *address_)
{
    struct address_reader *address = address_;

    address->type = jcur_string(c);
}

static void
read_address_address(struct jcur *c, void *address_)
{
    struct address_reader *address = address_;

    address->address = jcur_string(c);
}

static void
read_address(struct jcur *c, void *reader_)
{
    static const struct jcur_member members[] = {
        JCUR_MEMBER("type", read_address_type),
        JCUR_MEMBER("address", read_address_address),
    };
    struct address_reader a = { .type = { "", 0 }, .address = { "", 0 } };
    struct node_reader *r = reader_;
    struct node *node = r->node;
    bool external;
    struct ip ip;

    jcur_object(c, members, ARRAY_SIZE(members), &a);
    external = jstr_equals(a.type, "ExternalIP");
    /* Nothing checks these: some provider's odd address must not take the
     * Node's zone and pod CIDR with it. */
    if ((external || jstr_equals(a.type, "InternalIP"))
        && decode_address(a.address, &ip) && ip_is_unicast(&ip)) {
        node->addresses = decode_room(c, node->addresses, node->n_addresses,
                                      sizeof *node->addresses);
        node->addresses[node->n_addresses++] = (struct node_address){
            .ip = ip,
            .external = external,
        };
    }
}

static void
read_addresses(struct jcur *c, void *reader_)
{
    struct node_reader *r = reader_;

    r->node->n_addresses = 0;
    jcur_array(c, DECODE_ADDRS_MAX, read_address, r);
}

void
decode_node(struct decode_doc *doc, struct node *ret)
{
    static const struct jcur_member spec_members[] = {
        JCUR_MEMBER("podCIDR", read_pod_cidr),
        JCUR_MEMBER("podCIDRs", read_pod_cidrs),
        JCUR_MEMBER("taints", read_taints),
    };
    static const struct jcur_member status_members[] = {
        JCUR_MEMBER("addresses", read_addresses),
    };
    struct node_reader r = { .node = ret };

    *ret = (struct node){
        .meta = doc->meta.meta,
        .zone = doc->meta.zone,
        .deleting = doc->meta.deleting,
    };
    split_transport(doc, ret);
    if (decode_goto(doc, PART_SPEC)) {
        jcur_object(doc->c, spec_members, ARRAY_SIZE(spec_members), &r);
    }
    if (r.has_pod_cidr && !ret->n_pod_cidrs) {
        add_pod_cidr(doc->c, ret, &r.pod_cidr);
    }
    if (decode_goto(doc, PART_STATUS)) {
        jcur_object(doc->c, status_members, ARRAY_SIZE(status_members), &r);
    }
}
