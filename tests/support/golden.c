/* SPDX-License-Identifier: Apache-2.0 */

/* Comparison with golden files. */

#include "golden.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <openvswitch/ofp-table.h>

#include <svec.h>
#include <util.h>

#include "ofproxyd/pipeline/tables.h"

static char *
golden_path(const char *name)
{
    const char *data = getenv("TEST_DATA");

    return xasprintf("%s/golden/%s", data ? data : "tests/data", name);
}

static void
write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");

    if (!file || fputs(text, file) < 0 || fclose(file)) {
        fail_msg("%s: cannot be written", path);
    }
}

static void
compare(const char *path, FILE *file, const char *text)
{
    struct ds line = DS_EMPTY_INITIALIZER;

    for (int n = 1; *text; n++) {
        size_t len = strcspn(text, "\n");

        if (ds_get_line(&line, file)) {
            fail_msg("%s:%d: nothing more expected, found: %.*s", path, n,
                     (int) len, text);
        } else if (line.length != len || memcmp(ds_cstr(&line), text, len)) {
            fail_msg("%s:%d: expected: %s\nfound: %.*s", path, n,
                     ds_cstr(&line), (int) len, text);
        }
        text += len + (text[len] == '\n');
    }
    if (!ds_get_line(&line, file)) {
        fail_msg("%s: missing: %s", path, ds_cstr(&line));
    }
    ds_destroy(&line);
}

void
golden_check_file(const char *path, const char *text)
{
    const char *update = getenv("UPDATE");
    FILE *file;

    if (update && !strcmp(update, "1")) {
        write_file(path, text);
        return;
    }
    file = fopen(path, "r");
    if (!file) {
        fail_msg("%s: cannot be read (UPDATE=1 writes it)", path);
        return;
    }
    compare(path, file, text);
    fclose(file);
}

void
golden_check(const char *name, const char *text)
{
    char *path = golden_path(name);

    golden_check_file(path, text);
    free(path);
}

void
golden_format(const struct fout *out, struct ds *ds)
{
    struct ofputil_table_map tables;
    struct svec lines = SVEC_EMPTY_INITIALIZER;
    const char *line;
    size_t i;

    ofputil_table_map_init(&tables);
    for (i = 0; i < n_pipe_tables; i++) {
        ofputil_table_map_put(&tables, pipe_tables[i].id, pipe_tables[i].name);
    }
    for (i = 0; i < out->n; i++) {
        struct ds item = DS_EMPTY_INITIALIZER;

        if (fitem_kind(out->items[i]) == FITEM_FLOW) {
            ds_put_format(&item, "%02d ", fitem_table(out->items[i]));
        }
        fitem_format(out->items[i], &tables, &item);
        svec_add_nocopy(&lines, ds_steal_cstr(&item));
    }
    svec_sort(&lines);
    SVEC_FOR_EACH(i, line, &lines)
    {
        ds_put_format(ds, "%s\n", line);
    }
    svec_destroy(&lines);
    ofputil_table_map_destroy(&tables);
}
