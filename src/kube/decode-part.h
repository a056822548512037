/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_KUBE_DECODE_PART_H
#define OFPROXYD_KUBE_DECODE_PART_H 1

/* What the decoders of all kinds share.
 *
 * An object is read in two steps: jcur_locate() finds where its few top-level
 * members stand, then each is read in the order that suits the reader, the
 * metadata first, so that all later errors can name the object. */

#include "ofproxyd/kube/decode.h"

#include "jcur.h"

/* Bounds.  Lists have those of the API or, where it has none, one that no
 * object of 1.5 MiB, etcd's limit, comes near. */
#define DECODE_NS_MAX          63    /* A DNS label. */
#define DECODE_NAME_MAX        253   /* A DNS subdomain. */
#define DECODE_PORTS_MAX       65536 /* Of a Service or a slice. */
#define DECODE_ENDPOINTS_MAX   65536 /* Of a slice; the API: 1000. */
#define DECODE_ADDRESSES_MAX   1000  /* Of an endpoint; the API: 100. */
#define DECODE_HINTS_MAX       255 /* Of a type of an endpoint; the API: 8. */
#define DECODE_ADDRS_MAX       16384 /* External, ingress, Node addresses... */
#define DECODE_RANGES_MAX      65536 /* ...and source ranges. */
#define DECODE_TAINTS_MAX      4096
#define DECODE_POD_CIDRS_MAX   16   /* The API: 2. */
#define DECODE_MC_CIDRS_MAX    1024 /* Pod networks of another cluster... */
#define DECODE_MC_GATEWAYS_MAX 256  /* ...and its gateways; Antrea: 1. */

/* The top-level members that anybody reads. */
#define DECODE_PARTS                  \
    PART(METADATA, "metadata")        \
    PART(SPEC, "spec")                \
    PART(STATUS, "status")            \
    PART(ADDRESS_TYPE, "addressType") \
    PART(ENDPOINTS, "endpoints")      \
    PART(PORTS, "ports")              \
    PART(GATEWAY_IP, "gatewayIP")     \
    PART(INTERNAL_IP, "internalIP")

enum decode_part {
#define PART(SYM, KEY) PART_##SYM,
    DECODE_PARTS
#undef PART
        N_DECODE_PARTS
};

/* What is read of the metadata of all kinds.  Strings are the cursor's. */
struct decode_meta {
    struct obj_meta meta;
    bool deleting;            /* deletionTimestamp. */
    const char *service_name; /* Label kubernetes.io/service-name, or "". */
    const char *proxy_name;   /* Label service-proxy-name, or NULL. */
    const char *zone;         /* Label topology.kubernetes.io/zone, or "". */
    bool mc_imported;         /* Annotation of Antrea multicluster. */
    struct jstr transport;    /* Annotation KUBE_TRANSPORT, or "". */
    struct jstr trigger;      /* Annotation last-change-trigger-time, or
                               * "". */
};

/* A document whose members have been located. */
struct decode_doc {
    struct jcur *c;
    const char *at[N_DECODE_PARTS];
    struct decode_meta meta;
    struct err *left_out; /* Gets what is left out of a good object. */
};

/* Puts the cursor before the value of a part; returns false if the document
 * has none, the path being that of the part all the same. */
bool decode_goto(struct decode_doc *, enum decode_part);

/* Each reads the rest of its kind, its meta included, into a template for
 * x_pack() whose arrays and strings are the cursor's.  Errors stick in the
 * cursor. */
void decode_svc(struct decode_doc *, struct svc *ret);
void decode_node(struct decode_doc *, struct node *ret);
void decode_service_cidr(struct decode_doc *, struct service_cidr *ret);
void decode_mc_gateway(struct decode_doc *, struct mc_gateway *ret);
void decode_mc_cluster(struct decode_doc *, struct mc_cluster *ret);
/* Returns false for a slice that is ignored. */
bool decode_slice(struct decode_doc *, struct slice *ret);

/* Readers of values.  All take a null as absent. */

/* An array of 'n' elements of 'size' bytes that were appended one by one,
 * with room for one more. */
void *decode_room(struct jcur *, void *array, size_t n, size_t size);

/* A string that is one of 'n' names; returns its index, or 'absent', also for
 * an empty one. */
int decode_choice(struct jcur *, const char *const names[], int n, int absent);

/* TCP if absent. */
enum proto decode_proto(struct jcur *);

/* Parses an IP address; false if it is none. */
bool decode_address(struct jstr, struct ip *ret);

/* Returns the text without the blanks around it. */
struct jstr decode_trim(struct jstr);

/* An IP address, which can't be absent, of a kind that packets are sent to,
 * and of '*family' if that isn't NULL. */
void decode_ip(struct jcur *, const enum ip_family *family, struct ip *ret);

/* Reads a time in RFC 3339's format into seconds since 1970, cutting off
 * fractions.  Returns false if it is none. */
bool decode_time(const char *text, int64_t *ret_s);

/* The same, into nanoseconds; false, too, if they don't fit. */
bool decode_time_ns(const char *text, int64_t *ret_ns);

/* A CIDR, with blanks around it allowed. */
void decode_cidr(struct jcur *, struct cidr *ret);

/* Says in 'left_out', unless that says something already, that instead of the
 * value that begins at 'at' and was just read there should be 'want'. */
void decode_leave_out(struct jcur *, const char *at, const char *want,
                      struct err *left_out);

/* Each reads a value that a list can do without: of the right JSON type, but
 * no host's address, no CIDR, or no integer from 'min' to 'max', it is left
 * out and false returned. */
bool decode_try_ip(struct jcur *, struct ip *ret, struct err *left_out);
bool decode_try_cidr(struct jcur *, struct cidr *ret, struct err *left_out);
bool decode_try_int(struct jcur *, int64_t min, int64_t max, int64_t *ret,
                    struct err *left_out);

#endif /* kube/decode-part.h */
