/* SPDX-License-Identifier: Apache-2.0 */
/* The options as data, and what can be said about them from the table
 * alone. */

#include "option.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <openvswitch/dynamic-string.h>
#include <util.h>

static const char *const datapath_type_names[] = { "system", "netdev", NULL };
static const char *const encap_mode_names[] = { "encap", "noEncap", "hybrid",
                                                "networkPolicyOnly", NULL };
static const char *const tunnel_type_names[] = { "geneve", "vxlan", "gre",
                                                 "stt", NULL };
static const char *const encryption_mode_names[] = { "none", "ipsec",
                                                     "wireGuard", NULL };
static const char *const mc_encryption_mode_names[] = { "none", "wireGuard",
                                                        NULL };
static const char *const load_balancer_mode_names[] = { "nat", "dsr", NULL };
static const char *const node_type_names[] = { "k8sNode", "externalNode",
                                               NULL };
static const char *const ipsec_auth_mode_names[] = { "psk", "cert", NULL };
static const char *const host_network_mode_names[] = { "iptables", "nftables",
                                                       NULL };
static const char *const tls_version_names[] = {
    "", "VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13", NULL
};

/* A locked gate allows only true. */
#define STAGE_ALPHA_MIN  0
#define STAGE_BETA_MIN   0
#define STAGE_GA_MIN     0
#define STAGE_LOCKED_MIN 1

#define USED_YES         true
#define USED_NO          false

const struct cfg_option cfg_options[N_OPTIONS] = {
#define CFG_OPTION(FIELD, KEY, TYPE, CTYPE, DEFAULT, MIN, MAX, ARG, USED, \
                   HELP)                                                  \
    [OPTION_##FIELD] = {                                                  \
        .key = KEY,                                                       \
        .type = OPT_##TYPE,                                               \
        .offset = offsetof(struct cfg, FIELD),                            \
        .dflt = DEFAULT,                                                  \
        .min = MIN,                                                       \
        .max = MAX,                                                       \
        ARG,                                                              \
        .used = USED_##USED,                                              \
        .help = HELP,                                                     \
    },
#include "ofproxyd/config/options.def"
};

static const struct cfg_section sections[] = {
#define CFG_OPTION(FIELD, KEY, TYPE, CTYPE, DEFAULT, MIN, MAX, ARG, USED, HELP)
#define CFG_SECTION(KEY, HELP) { KEY, HELP },
#include "ofproxyd/config/options.def"
};

const struct cfg_option *
cfg_option_find(const char *key)
{
    for (size_t i = 0; i < N_OPTIONS; i++) {
        if (!strcmp(cfg_options[i].key, key)) {
            return &cfg_options[i];
        }
    }
    return NULL;
}

const struct cfg_section *
cfg_section_find(const char *key)
{
    for (size_t i = 0; i < ARRAY_SIZE(sections); i++) {
        if (!strcmp(sections[i].key, key)) {
            return &sections[i];
        }
    }
    return NULL;
}

static const char *
last_part(const char *key)
{
    const char *dot = strrchr(key, '.');
    return dot ? dot + 1 : key;
}

const char *
cfg_option_guess(const char *key)
{
    /* Wrong in upper or lower case. */
    for (size_t i = 0; i < N_OPTIONS; i++) {
        if (!strcasecmp(cfg_options[i].key, key)) {
            return cfg_options[i].key;
        }
    }
    for (size_t i = 0; i < ARRAY_SIZE(sections); i++) {
        if (!strcasecmp(sections[i].key, key)) {
            return sections[i].key;
        }
    }

    /* In the wrong section. */
    for (size_t i = 0; i < N_OPTIONS; i++) {
        if (!strcasecmp(last_part(cfg_options[i].key), last_part(key))) {
            return cfg_options[i].key;
        }
    }
    return NULL;
}

/* Appends "a, b or c". */
static void
put_names(const char *const *names, struct ds *ds)
{
    /* The text of a value that only stands for "not given" may be empty. */
    names += !**names;
    for (size_t i = 0; names[i]; i++) {
        ds_put_format(ds, "%s%s",
                      !i              ? ""
                      : !names[i + 1] ? " or "
                                      : ", ",
                      names[i]);
    }
}

static const char *
check_to_string(enum option_check check)
{
    switch (check) {
    case CHECK_NONE: return "a text";
    case CHECK_NUMBER: return "a number";
    case CHECK_SERVER: return "a host, HOST:PORT or an http or https URL";
    case CHECK_IFNAME:
        return "an interface name of up to 15 characters without blanks, "
               "'/' and ':'";
    case CHECK_PATH: return "an absolute path";
    case CHECK_LABEL_VALUE: return "the value of a Kubernetes label";
    case CHECK_DNS_LABEL: return "the name of a namespace";
    case CHECK_SKIP: return "NAMESPACE/NAME or an IP address";
    case CHECK_V4: return "an IPv4 CIDR";
    case CHECK_V6: return "an IPv6 CIDR";
    }
    OVS_NOT_REACHED();
}

void
cfg_option_put_item_allowed(const struct cfg_option *o, struct ds *ds)
{
    switch (o->type) {
    case OPT_BOOL: ds_put_cstr(ds, o->min ? "true" : "true or false"); break;
    case OPT_INT:
    case OPT_INTS:
        ds_put_format(ds, "an integer from %" PRId64 " to %" PRId64, o->min,
                      o->max);
        break;
    case OPT_STRING:
    case OPT_STRINGS:
    case OPT_CIDR: ds_put_cstr(ds, check_to_string(o->check)); break;
    case OPT_ENUM: put_names(o->names, ds); break;
    case OPT_CIDRS: ds_put_cstr(ds, "a CIDR"); break;
    case OPT_DURATION:
        ds_put_cstr(ds, "a duration such as 5s, 1m30s or 250ms");
        break;
    case OPT_ADDR: ds_put_cstr(ds, "IP:PORT"); break;
    case OPT_RECORDS: ds_put_cstr(ds, "a mapping"); break;
    }
}

static bool
is_list(enum option_type type)
{
    switch (type) {
    case OPT_CIDRS:
    case OPT_STRINGS:
    case OPT_INTS:
    case OPT_RECORDS: return true;
    case OPT_BOOL:
    case OPT_INT:
    case OPT_STRING:
    case OPT_ENUM:
    case OPT_CIDR:
    case OPT_DURATION:
    case OPT_ADDR: return false;
    }
    OVS_NOT_REACHED();
}

void
cfg_option_put_allowed(const struct cfg_option *o, struct ds *ds)
{
    if (is_list(o->type)) {
        ds_put_cstr(ds, "a list, each item ");
    }
    cfg_option_put_item_allowed(o, ds);
}

void *
cfg_option_field(const struct cfg_option *o, struct cfg *cfg)
{
    return (char *) cfg + o->offset;
}

const char *
cfg_option_value(const struct cfg_option *o, const struct cfg *cfg)
{
    const void *field = (const char *) cfg + o->offset;

    if (o->type == OPT_BOOL) {
        return *(const bool *) field ? "true" : "false";
    }
    ovs_assert(o->type == OPT_ENUM);
    return o->names[*(const unsigned int *) field];
}

void
cfg_option_clear(const struct cfg_option *o, struct cfg *cfg)
{
    void *field = cfg_option_field(o, cfg);

    switch (o->type) {
    case OPT_STRING: free(*(char **) field); break;
    case OPT_CIDRS: free(((struct cfg_cidrs *) field)->cidrs); break;
    case OPT_INTS: free(((struct cfg_ints *) field)->v); break;
    case OPT_STRINGS: {
        struct cfg_strings *strings = field;
        for (size_t i = 0; i < strings->n; i++) {
            free(strings->s[i]);
        }
        free(strings->s);
        break;
    }
    case OPT_BOOL:
    case OPT_INT:
    case OPT_ENUM:
    case OPT_CIDR:
    case OPT_DURATION:
    case OPT_ADDR:
    case OPT_RECORDS: break;
    }
}

const char *
cfg_encap_mode_to_string(enum cfg_encap_mode mode)
{
    return encap_mode_names[mode];
}

const char *
cfg_tunnel_type_to_string(enum cfg_tunnel_type type)
{
    return tunnel_type_names[type];
}

const char *
cfg_datapath_type_to_string(enum cfg_datapath_type type)
{
    return datapath_type_names[type];
}
