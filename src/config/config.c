/* SPDX-License-Identifier: Apache-2.0 */
/* Loads a configuration: walks the file's tree along the keys of
 * options.def. */

#include "ofproxyd/config/config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <util.h>

#include "load.h"

void
cfg_init_defaults(struct cfg *ret)
{
    struct cfg_report report;
    struct cfg_loader loader = { .name = "default", .report = &report };

    memset(ret, 0, sizeof *ret);
    loader.cfg = ret;
    cfg_report_init(&report);
    for (size_t i = 0; i < N_OPTIONS; i++) {
        const struct cfg_option *o = &cfg_options[i];
        struct ydoc_node *node;
        struct err err;

        if (o->type == OPT_STRING) {
            *(char **) cfg_option_field(o, ret) = xstrdup("");
        }
        int error = ydoc_parse(o->key, o->dflt, strlen(o->dflt), &node, &err);
        ovs_assert(!error);
        cfg_value_read(&loader, o, node);
        ydoc_destroy(node);
    }
    ovs_assert(!report.n);
    cfg_report_uninit(&report);
}

void
cfg_uninit(struct cfg *cfg)
{
    for (size_t i = 0; i < N_OPTIONS; i++) {
        cfg_option_clear(&cfg_options[i], cfg);
    }
}

static bool
is_gate(const char *key)
{
    return !strncmp(key, "featureGates.", strlen("featureGates."));
}

static bool
is_bool(const struct ydoc_node *node)
{
    return node->kind == YDOC_SCALAR && !node->quoted
           && (!strcmp(node->text, "true") || !strcmp(node->text, "false"));
}

/* Says that 'key' with 'path' means nothing here. */
static void
report_unknown(struct cfg_loader *l, const char *path,
               const struct ydoc_node *key, const struct ydoc_node *value)
{
    const char *guess = cfg_option_guess(path);
    const char *what = is_gate(path) ? "feature gate" : "key";

    if (guess) {
        cfg_loader_say(l, CFG_WARNING, key,
                       "%s: unknown %s, ignored; did you mean \"%s\"?", path,
                       what, guess);
    } else {
        cfg_loader_say(l, CFG_WARNING, key, "%s: unknown %s, ignored", path,
                       what);
    }
    if (is_gate(path) && value->kind != YDOC_NULL && !is_bool(value)) {
        char buf[YDOC_DESCRIBE_MAX];
        cfg_loader_say(l, CFG_ERROR, value,
                       "%s: found %s, allowed true or false", path,
                       ydoc_describe(value, buf));
    }
}

/* Reads all pairs of 'map', whose key is 'prefix', "" at the top.  Recurses
 * no deeper than sections stand in options.def. */
static void
read_section(struct cfg_loader *l, const char *prefix,
             const struct ydoc_node *map)
{
    for (size_t i = 0; i < map->n; i++) {
        const struct ydoc_node *key = map->keys[i];
        const struct ydoc_node *value = map->values[i];
        char *path =
            xasprintf("%s%s%s", prefix, *prefix ? "." : "", key->text);

        /* A key with a dot would look like one inside a section. */
        bool plain = !strchr(key->text, '.');
        const struct cfg_option *o = plain ? cfg_option_find(path) : NULL;

        if (o) {
            cfg_value_read(l, o, value);
            if (!o->used) {
                cfg_loader_say(l, CFG_NOTE, key, "%s: not used by ofproxyd",
                               path);
            }
        } else if (!plain || !cfg_section_find(path)) {
            report_unknown(l, path, key, value);
        } else if (value->kind == YDOC_MAP) {
            read_section(l, path, value);
        } else if (value->kind != YDOC_NULL) {
            char buf[YDOC_DESCRIBE_MAX];
            cfg_loader_say(l, CFG_ERROR, value,
                           "%s: found %s, allowed a mapping", path,
                           ydoc_describe(value, buf));
        }
        free(path);
    }
}

static void
read_root(struct cfg_loader *l, const struct ydoc_node *root)
{
    if (root->kind == YDOC_MAP) {
        read_section(l, "", root);
    } else if (root->kind != YDOC_NULL) {
        char buf[YDOC_DESCRIBE_MAX];
        cfg_loader_say(l, CFG_ERROR, root,
                       "the whole file: found %s, allowed a mapping",
                       ydoc_describe(root, buf));
    }
}

int
cfg_load_text(const char *name, const char *text, size_t len, struct cfg *ret,
              struct cfg_report *report)
{
    struct ydoc_node *root;
    struct err err;
    int error = ydoc_parse(name, text, len, &root, &err);
    if (error) {
        cfg_report_add(report, CFG_ERROR, 0, 0, err.msg);
        return error;
    }

    size_t n_errors = report->n_of[CFG_ERROR];
    struct cfg cfg;
    struct cfg_loader loader = { .name = name, .cfg = &cfg, .report = report };
    cfg_init_defaults(&cfg);
    read_root(&loader, root);
    cfg_check(&loader);
    ydoc_destroy(root);

    if (report->n_of[CFG_ERROR] > n_errors) {
        cfg_uninit(&cfg);
        return EINVAL;
    }
    *ret = cfg;
    return 0;
}

int
cfg_load(const char *path, struct cfg *ret, struct cfg_report *report)
{
    char *text;
    size_t len;
    struct err err;
    int error = ydoc_read_file(path, &text, &len, &err);
    if (error) {
        cfg_report_add(report, CFG_ERROR, 0, 0, err.msg);
        return error;
    }
    error = cfg_load_text(path, text, len, ret, report);
    free(text);
    return error;
}

bool
cfg_has_tunnel(const struct cfg *cfg)
{
    return cfg->traffic_encap_mode == CFG_ENCAP
           || cfg->traffic_encap_mode == CFG_HYBRID
           || cfg->multicluster_enable_gateway;
}

uint16_t
cfg_tunnel_udp_port(const struct cfg *cfg)
{
    static const uint16_t own[] = {
        [CFG_TUNNEL_GENEVE] = 6081,
        [CFG_TUNNEL_VXLAN] = 4789,
        [CFG_TUNNEL_GRE] = 0,
        [CFG_TUNNEL_STT] = 0,
    };
    uint16_t port = own[cfg->tunnel_type];

    if (!port || !cfg_has_tunnel(cfg)) {
        return 0;
    }
    return cfg->tunnel_port ? cfg->tunnel_port : port;
}

bool
cfg_skips_service(const struct cfg *cfg, const char *namespace,
                  const char *name, const struct ip *cluster_ip)
{
    const struct cfg_strings *skip = &cfg->antrea_proxy_skip_services;
    char buf[IP_STRLEN];
    const char *ip;
    size_t len;

    if (!skip->n) {
        return false; /* As usual; each change of a Service asks. */
    }
    ip = cluster_ip ? ip_to_string(cluster_ip, buf) : NULL;
    len = strlen(namespace);
    for (size_t i = 0; i < skip->n; i++) {
        const char *s = skip->s[i];
        const char *slash = strchr(s, '/');

        if (slash ? slash - s == len && !strncmp(s, namespace, len)
                        && !strcmp(slash + 1, name)
                  : ip && !strcmp(s, ip)) {
            return true;
        }
    }
    return false;
}
