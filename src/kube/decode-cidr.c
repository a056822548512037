/* SPDX-License-Identifier: Apache-2.0 */
/* JSON of a networking.k8s.io/v1 ServiceCIDR: its networks. */

#include "decode-part.h"

#include <util.h>

static void
read_cidrs_element(struct jcur *c, void *ret_)
{
    struct service_cidr *ret = ret_;
    struct cidr cidr;

    decode_cidr(c, &cidr);
    if (!c->failed) {
        ret->cidrs[ret->n_cidrs++] = cidr_network(&cidr);
    }
}

static void
read_cidrs(struct jcur *c, void *ret_)
{
    struct service_cidr *ret = ret_;

    ret->n_cidrs = 0;
    jcur_array(c, SERVICE_CIDR_MAX, read_cidrs_element, ret);
}

void
decode_service_cidr(struct decode_doc *doc, struct service_cidr *ret)
{
    static const struct jcur_member members[] = {
        JCUR_MEMBER("cidrs", read_cidrs),
    };

    *ret = (struct service_cidr){ .meta = doc->meta.meta };
    if (decode_goto(doc, PART_SPEC)) {
        jcur_object(doc->c, members, ARRAY_SIZE(members), ret);
    }
}
