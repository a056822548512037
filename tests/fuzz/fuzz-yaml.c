/* SPDX-License-Identifier: Apache-2.0 */
/* Reads arbitrary bytes as a YAML document, as antrea-agent.conf and as a
 * kubeconfig. */

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <openvswitch/dynamic-string.h>
#include <util.h>

#include "ofproxyd/config/config.h"
#include "ofproxyd/config/kubeconfig.h"
#include "ofproxyd/config/yaml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ydoc_get() looks at one key after the other. */
#define MAX_LOOKED_UP 100

/* Checks what the header promises of a tree.  Returns the number of nodes. */
static size_t
check_tree(const struct ydoc_node *node, int depth)
{
    size_t n = 1;

    ovs_assert(node->line > 0 && node->column > 0);
    ovs_assert(depth <= YDOC_MAX_DEPTH);
    ovs_assert(!node->text
               == (node->kind == YDOC_LIST || node->kind == YDOC_MAP));
    ovs_assert(!node->keys || node->kind == YDOC_MAP);
    for (size_t i = 0; i < node->n; i++) {
        if (node->keys) {
            ovs_assert(node->keys[i]->text[0]);
            ovs_assert(i >= MAX_LOOKED_UP
                       || ydoc_get(node, node->keys[i]->text)
                              == node->values[i]);
            n += check_tree(node->keys[i], depth + 1);
        }
        n += check_tree(node->values[i], depth + 1);
    }
    return n;
}

static void
check_err(const struct err *err)
{
    ovs_assert(!strncmp(err->msg, "f:", 2));
    ovs_assert(!strchr(err->msg, '\n'));
}

static void
read_yaml(const char *text, size_t size)
{
    struct ydoc_node *root;
    struct err err;

    if (ydoc_parse("f", text, size, &root, &err)) {
        check_err(&err);
    } else {
        ovs_assert(check_tree(root, 0) <= YDOC_MAX_NODES);
        ydoc_destroy(root);
    }
}

static void
read_config(const char *text, size_t size)
{
    struct cfg_report report;
    struct cfg cfg;

    cfg_report_init(&report);
    if (!cfg_load_text("f", text, size, &cfg, &report)) {
        ovs_assert(!report.n_of[CFG_ERROR]);
        ovs_assert(cfg.ovs_bridge[0] && cfg.host_gateway[0]);
        cfg_uninit(&cfg);
    } else {
        ovs_assert(report.n_of[CFG_ERROR]);
    }
    for (size_t i = 1; i < report.n; i++) {
        ovs_assert(report.messages[i - 1].line <= report.messages[i].line);
    }
    cfg_report_uninit(&report);
}

static void
read_kubeconfig(const char *text, size_t size)
{
    struct kubeconfig kc;
    struct err err;

    if (kubeconfig_load_text("f", text, size, &kc, &err)) {
        check_err(&err);
    } else {
        ovs_assert(!strncmp(kc.server, "http", 4));
        kubeconfig_uninit(&kc);
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *) data;

    read_yaml(text, size);
    read_config(text, size);
    read_kubeconfig(text, size);
    return 0;
}
