/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_KUBE_DECODE_H
#define OFPROXYD_KUBE_DECODE_H 1

/* JSON of one API object into a packed model object.
 *
 * Everything is untrusted: a wrong type in a field that is read, a number out
 * of range, an address that is none make the object bad, with a message that
 * names the object and the field by its JSON path; a null is an absent field,
 * of a name that occurs twice the last value counts.  Fields that are not
 * read are skipped, whatever they hold.  An object of more than
 * KUBE_OBJECT_MAX bytes (stream.h) is bad, and need not be whole.
 *
 * Some fields are filled by programs that nobody checks, and what serves part
 * of an object is better than nothing.  Of a Service, these are left out
 * without the rest of the object: a port whose number is none or that has name
 * and protocol of an earlier one, a NodePort that is none, an external or
 * load-balancer address that is no host's, a source range that is no CIDR, a
 * cluster IP that is not of the family that it should be, and an affinity
 * timeout out of range (there is a default).  Of a Node: an address that is
 * none, and what is none in the annotation of transport addresses. */

#include <stddef.h>

#include "ofproxyd/base/err.h"
#include "ofproxyd/model/model.h"

/* The annotation of a Node's transport addresses, as Antrea's agents write
 * it. */
#define KUBE_TRANSPORT "node.antrea.io/transport-addresses"

/* Result of decoding: one of them, as 'kind' says. */
struct kube_object {
    enum model_kind kind;
    struct svc *svc;
    struct slice *slice; /* NULL if of a kind that is ignored (address type
                          * FQDN, no service name): then only 'ns' and 'name'
                          * below are set. */
    struct node *node;
    struct obj_meta *plain; /* Of a plain kind. */
    char ns[64], name[254]; /* Of the object, also when it is bad and they
                             * could be read; else "". */
    struct err left_out;    /* Of a good object: what an operator should know
                             * to be left out of it, beginning as 'err' of
                             * kube_decode() does; "" if nothing. */
};

/* Decodes 'len' bytes of JSON at 'text', which is one object of ret->kind,
 * the only member that the caller sets.  Returns 0, or
 * EINVAL with 'err' and, where they could be read, ret->ns and ret->name
 * set; nothing of '*ret' is to be freed then.  On success the object belongs
 * to the caller.  The message begins with the kind and the name: "Service
 * ns1/web: spec.ports[0].port: found ..., want ...". */
int kube_decode(const char *text, size_t len, struct intern_pool *pool,
                struct kube_object *ret, struct err *err)
    OVS_WARN_UNUSED_RESULT;

#endif /* ofproxyd/kube/decode.h */
