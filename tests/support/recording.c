/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of a real API server. */

#include "recording.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include <util.h>

static void
read_file(const char *path, struct ds *ds)
{
    FILE *file = fopen(path, "r");
    char buf[4096];
    size_t n;

    if (!file) {
        fail_msg("%s: cannot be read", path);
        return;
    }
    while ((n = fread(buf, 1, sizeof buf, file)) > 0) {
        ds_put_buffer(ds, buf, n);
    }
    fclose(file);
}

/* Appends the data of the chunks at 'p' to 'body'. */
static void
read_chunks(const char *p, const char *end, struct ds *body)
{
    for (;;) {
        char *data;
        size_t n = strtoul(p, &data, 16);

        data += 2;
        assert_true(n <= end - data - 2);
        if (!n) {
            break;
        }
        ds_put_buffer(body, data, n);
        p = data + n + 2;
    }
}

void
recording_read(const char *name, struct ds *body)
{
    const char *data = getenv("TEST_DATA");
    char *path =
        xasprintf("%s/recordings/%s", data ? data : "tests/data", name);
    struct ds raw = DS_EMPTY_INITIALIZER;
    size_t n = strlen(name);

    if (n > 5 && !strcmp(name + n - 5, ".http")) {
        const char *head_end;

        read_file(path, &raw);
        head_end = strstr(ds_cstr(&raw), "\r\n\r\n");
        assert_non_null(head_end);
        read_chunks(head_end + 4, raw.string + raw.length, body);
    } else {
        read_file(path, body);
    }
    ds_destroy(&raw);
    free(path);
}
