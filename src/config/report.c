/* SPDX-License-Identifier: Apache-2.0 */
/* Collects what there is to say about a configuration file. */

#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <util.h>

#include "load.h"

void
cfg_report_init(struct cfg_report *report)
{
    memset(report, 0, sizeof *report);
}

void
cfg_report_uninit(struct cfg_report *report)
{
    for (size_t i = 0; i < report->n; i++) {
        free(report->messages[i].text);
    }
    free(report->messages);
}

static bool
is_after(const struct cfg_message *a, const struct cfg_message *b)
{
    return a->line > b->line || (a->line == b->line && a->column > b->column);
}

static void
insert(struct cfg_report *report, struct cfg_message message)
{
    if (report->n >= report->allocated) {
        report->messages = x2nrealloc(report->messages, &report->allocated,
                                      sizeof *report->messages);
    }

    /* What is found later in the checks may be about an earlier line. */
    size_t i = report->n++;
    for (; i > 0 && is_after(&report->messages[i - 1], &message); i--) {
        report->messages[i] = report->messages[i - 1];
    }
    report->messages[i] = message;
}

void
cfg_report_add(struct cfg_report *report, enum cfg_severity severity, int line,
               int column, const char *text)
{
    static const char *const plurals[CFG_N_SEVERITIES] = {
        [CFG_ERROR] = "errors",
        [CFG_WARNING] = "warnings",
        [CFG_NOTE] = "unused keys",
    };
    size_t n = ++report->n_of[severity];
    struct cfg_message message = { .severity = severity,
                                   .line = line,
                                   .column = column };

    if (n <= CFG_REPORT_MAX) {
        message.text = xstrdup(text);
        insert(report, message);
    } else if (n == CFG_REPORT_MAX + 1) {
        message.line = INT_MAX;
        message.text = xasprintf("more than %d %s, the others are left out",
                                 CFG_REPORT_MAX, plurals[severity]);
        insert(report, message);
    }
}

void
cfg_loader_say(struct cfg_loader *l, enum cfg_severity severity,
               const struct ydoc_node *at, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = xvasprintf(format, args);
    va_end(args);

    struct err err;
    if (at) {
        err_set(&err, "%s:%d:%d: %s", l->name, at->line, at->column, text);
    } else {
        err_set(&err, "%s: %s", l->name, text);
    }
    free(text);
    cfg_report_add(l->report, severity, at ? at->line : 0, at ? at->column : 0,
                   err.msg);
}
