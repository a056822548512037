/* SPDX-License-Identifier: Apache-2.0 */
/* Directories for tests that need files. */

#include "tmpdir.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include <util.h>

int
tmpdir_setup(void **state)
{
    const char *parent = getenv("TMPDIR");
    char *dir =
        xasprintf("%s/ofproxyd-test.XXXXXX", parent ? parent : P_tmpdir);

    if (!mkdtemp(dir)) {
        free(dir);
        return -1;
    }
    *state = dir;
    return 0;
}

int
tmpdir_teardown(void **state)
{
    char *dir = *state;
    DIR *d = opendir(dir);
    if (d) {
        for (struct dirent *e = readdir(d); e; e = readdir(d)) {
            unlinkat(dirfd(d), e->d_name, 0);
        }
        closedir(d);
    }

    int error = rmdir(dir);
    free(dir);
    return error;
}

char *
tmpdir_write(const char *dir, const char *name, const char *text, size_t len)
{
    char *path = xasprintf("%s/%s", dir, name);
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, len, f), len);
    assert_int_equal(fclose(f), 0);
    return path;
}
