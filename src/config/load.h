/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LOAD_H
#define LOAD_H 1

/* What the steps of loading one configuration share. */

#include "ofproxyd/config/yaml.h"

#include "option.h"

struct cfg_loader {
    const char *name; /* Of the file. */
    struct cfg *cfg;
    struct cfg_report *report;

    /* The value of each option that the file gives one other than "the
     * default". */
    const struct ydoc_node *at[N_OPTIONS];
};

/* Adds "FILE:LINE:COLUMN: ..." about 'at', or "FILE: ..." if that is NULL.
 * The formatted text begins with the key. */
void cfg_loader_say(struct cfg_loader *, enum cfg_severity,
                    const struct ydoc_node *at, const char *format, ...)
    OVS_PRINTF_FORMAT(4, 5);

/* Adds a message whose text has been formatted by somebody else. */
void cfg_report_add(struct cfg_report *, enum cfg_severity, int line,
                    int column, const char *text);

/* Reads the value of 'option' from 'node', or reports why that can't be
 * done and leaves it as it was. */
void cfg_value_read(struct cfg_loader *, const struct cfg_option *option,
                    const struct ydoc_node *node);

/* Completes the values that depend on others, then reports those that don't
 * go together and those that ofproxyd can't obey. */
void cfg_check(struct cfg_loader *);

#endif /* load.h */
