/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_CONFIG_YAML_H
#define OFPROXYD_CONFIG_YAML_H 1

/* A YAML document as a tree that knows where in the file each value stands.
 *
 * Only what a configuration needs is accepted, so that no file, however
 * hostile, takes more than a little time and memory, and nothing in it is
 * silently ambiguous: one document, UTF-8, limits below, and no directives,
 * anchors, aliases, tags, merge keys or duplicate keys.  JSON is YAML. */

#include <stdbool.h>
#include <stddef.h>

#include <openvswitch/compiler.h>

#include "ofproxyd/base/err.h"

/* A ConfigMap or Secret, where such files come from, can't be larger. */
#define YDOC_MAX_BYTES 1048576
#define YDOC_MAX_DEPTH 64
#define YDOC_MAX_NODES 100000

enum ydoc_kind {
    YDOC_NULL, /* Nothing, "~" or "null". */
    YDOC_SCALAR,
    YDOC_LIST,
    YDOC_MAP
};

struct ydoc_node {
    enum ydoc_kind kind;
    int line, column; /* Where it starts, from 1. */
    bool quoted;      /* A scalar in quotes or a block: surely a string. */
    char *text;       /* Of YDOC_NULL and YDOC_SCALAR as written, without
                       * null bytes inside; NULL for the others. */

    /* Items of a list, or keys (each a YDOC_SCALAR or a YDOC_NULL) and their
     * values. */
    struct ydoc_node **keys;
    struct ydoc_node **values;
    size_t n;
};

/* Reads the regular file at 'path', at most YDOC_MAX_BYTES; a larger one is
 * refused without reading it.  Returns 0, and '*ret_text' with its null byte
 * after '*ret_len' bytes is the caller's to free(); or EINVAL, EFBIG or the
 * errno of the failure with 'err' "FILE: ...". */
int ydoc_read_file(const char *path, char **ret_text, size_t *ret_len,
                   struct err *err) OVS_WARN_UNUSED_RESULT;

/* Parses the 'len' bytes at 'text', called 'name' in messages.  A text
 * without a document gives a YDOC_NULL.  Returns 0, and '*ret' is the
 * caller's to ydoc_destroy(); or EINVAL with 'err'
 * "NAME:LINE:COLUMN: ...". */
int ydoc_parse(const char *name, const char *text, size_t len,
               struct ydoc_node **ret, struct err *err) OVS_WARN_UNUSED_RESULT;

void ydoc_destroy(struct ydoc_node *); /* NULL is allowed. */

/* Returns the value of 'key' in 'map', NULL if there is none. */
const struct ydoc_node *ydoc_get(const struct ydoc_node *map, const char *key);

/* Says what 'node' is: "\"text\"" cut to a moderate length, "nothing",
 * "a list" or "a mapping".  Returns 'buf'. */
#define YDOC_DESCRIBE_MAX 80
const char *ydoc_describe(const struct ydoc_node *node,
                          char buf[YDOC_DESCRIBE_MAX]);

#endif /* ofproxyd/config/yaml.h */
