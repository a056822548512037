/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the example configuration and the documentation of all keys from
 * options.def, so that neither can say anything else than the code does. */

#include <string.h>

#include <openvswitch/dynamic-string.h>
#include <util.h>

#include "option.h"

#define WIDTH  79
#define INDENT 2

/* Texts. */

static const char example_head[] =
    "# Configuration of ofproxyd, with the keys of Antrea's agent.\n"
    "#\n"
    "# Every key stands here, commented out at its default. To set one, "
    "remove the\n"
    "# '#' in front of it and change the value; leave the blanks in front as "
    "they\n"
    "# are. Check the result with `ofproxyd --check-config FILE`.\n";

static const char md_head[] =
    "# Configuration\n"
    "\n"
    "This page is written from the table of options in the source "
    "(`options.def`), like `conf/antrea-agent.conf`, which holds every key, "
    "commented out at its default.\n"
    "\n"
    "ofproxyd reads `antrea-agent.conf` as Antrea's agent does: the same "
    "keys, defaults and meanings. An Antrea cluster's file can be used as it "
    "is, unless it asks for what is named below as not supported.\n"
    "\n"
    "* The file is YAML, UTF-8, at most 1 MiB. Directives, anchors, "
    "aliases, tags, merge keys, duplicate keys and a second document are "
    "errors.\n"
    "* Booleans are `true` and `false`. Integers are decimal. Named values "
    "may be written in upper or lower case.\n"
    "* A missing value, `null`, `\"\"` and `[]` stand for the default, and so "
    "does `0` where 0 is not allowed.\n"
    "* A wrong type or value is an error. All errors of a file are reported "
    "at once, each as `FILE:LINE:COLUMN: KEY: found WHAT, allowed WHAT`, and "
    "ofproxyd does not start. `ofproxyd --check-config FILE` reports the "
    "same and exits with status 1.\n"
    "* An unknown key or feature gate is a warning.\n"
    "* A key of Antrea's that is no business of a Service proxy is accepted "
    "and named once at start as \"not used by ofproxyd\".\n"
    "\n"
    "What follows from more than one key:\n"
    "\n"
    "* `noSNAT: true` is allowed with `noEncap` only; `networkPolicyOnly` "
    "implies it.\n"
    "* `noEncap`, `hybrid` and `networkPolicyOnly` need `antreaProxy.enable: "
    "true`; `multicluster.enableGateway` is not allowed with "
    "`networkPolicyOnly`.\n"
    "* With `antreaProxy.enable: false`, `serviceCIDR` is `10.96.0.0/12` if "
    "it is not given.\n"
    "* `tunnelPort` is ignored with `tunnelType: gre`, and "
    "`transportInterfaceCIDRs` with `transportInterface`: a warning each.\n"
    "* `ovsBridge` and `hostGateway` are different names, none of them is "
    "`antrea-tun0`, the port for tunnels, and `transportInterface` is none of "
    "the three.\n"
    "* Antrea's environment variable that allows `noEncap` without "
    "`antreaProxy.enable` is not read.\n"
    "* Not supported by ofproxyd, and thus errors: `trafficEncryptionMode` "
    "and `multicluster.trafficEncryptionMode` other than `none`, "
    "`enableIPSecTunnel: true`, `enableBridgingMode: true`, "
    "`antreaProxy.defaultLoadBalancerMode: dsr`, `nodeType: externalNode`.\n";

/* Appends 'text' as a comment, filled to WIDTH. */
static void
put_comment(struct ds *ds, int indent, const char *text)
{
    size_t start = ds->length;

    ds_put_format(ds, "%*s#", indent, "");
    for (const char *p = text; *p; p += strspn(p, " ")) {
        size_t n = strcspn(p, " ");
        if (ds->length - start + 1 + n > WIDTH) {
            ds_put_char(ds, '\n');
            start = ds->length;
            ds_put_format(ds, "%*s#", indent, "");
        }
        ds_put_char(ds, ' ');
        ds_put_buffer(ds, p, n);
        p += n;
    }
    ds_put_char(ds, '\n');
}

static void
put_allowed(struct ds *ds, const struct cfg_option *o)
{
    cfg_option_put_allowed(o, ds);
    if (o->type == OPT_INT && o->min > 0) {
        ds_put_cstr(ds, "; 0 stands for the default");
    }
}

/* The example. */

/* Number of sections that 'key' stands in. */
static int
depth(const char *key)
{
    int n = 0;
    for (; *key; key++) {
        n += *key == '.';
    }
    return n;
}

/* Appends the headers of the sections of 'key' that 'previous', the key
 * before it, doesn't stand in. */
static void
put_sections(struct ds *ds, const char *previous, const char *key)
{
    const char *part = key;

    for (const char *dot = strchr(key, '.'); dot; dot = strchr(part, '.')) {
        size_t len = dot + 1 - key;
        if (strncmp(previous, key, len) != 0) {
            char *path = xmemdup0(key, len - 1);
            int indent = depth(path) * INDENT;
            ds_put_char(ds, '\n');
            put_comment(ds, indent, cfg_section_find(path)->help);
            ds_put_format(ds, "%*s%.*s:\n", indent, "", (int) (dot - part),
                          part);
            free(path);
        }
        part = dot + 1;
    }
}

static void
put_option(struct ds *ds, const struct cfg_option *o)
{
    const char *dot = strrchr(o->key, '.');
    int indent = depth(o->key) * INDENT;
    struct ds allowed = DS_EMPTY_INITIALIZER;

    ds_put_char(ds, '\n');
    put_comment(ds, indent, o->help);
    ds_put_cstr(&allowed, "Allowed: ");
    put_allowed(&allowed, o);
    put_comment(ds, indent, ds_cstr(&allowed));
    ds_destroy(&allowed);
    if (!o->used) {
        put_comment(ds, indent, "Not used by ofproxyd.");
    }
    ds_put_format(ds, "%*s#%s:%s%s\n", indent, "", dot ? dot + 1 : o->key,
                  *o->dflt ? " " : "", o->dflt);
}

void
cfg_print_example(struct ds *ds)
{
    const char *previous = "";

    ds_put_cstr(ds, example_head);
    for (size_t i = 0; i < N_OPTIONS; i++) {
        put_sections(ds, previous, cfg_options[i].key);
        put_option(ds, &cfg_options[i]);
        previous = cfg_options[i].key;
    }
}

/* The documentation. */

static bool
is_gate(const struct cfg_option *o)
{
    return !strncmp(o->key, "featureGates.", strlen("featureGates."));
}

static void
put_table(struct ds *ds, const char *title, bool gates, bool used)
{
    ds_put_format(ds, "\n## %s\n\n", title);
    ds_put_cstr(ds, "| Key | Default | Allowed | Meaning |\n"
                    "|---|---|---|---|\n");
    for (size_t i = 0; i < N_OPTIONS; i++) {
        const struct cfg_option *o = &cfg_options[i];
        if (is_gate(o) == gates && o->used == used) {
            ds_put_format(ds, "| `%s` | ", o->key);
            if (*o->dflt) {
                ds_put_format(ds, "`%s`", o->dflt);
            }
            ds_put_cstr(ds, " | ");
            put_allowed(ds, o);
            ds_put_format(ds, " | %s |\n", o->help);
        }
    }
}

void
cfg_print_reference_md(struct ds *ds)
{
    ds_put_cstr(ds, md_head);
    put_table(ds, "Keys", false, true);
    put_table(ds, "Feature gates", true, true);
    put_table(ds, "Keys that are accepted and not used", false, false);
    put_table(ds, "Feature gates that are accepted and not used", true, false);
}
