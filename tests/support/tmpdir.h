/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_TMPDIR_H
#define TESTS_SUPPORT_TMPDIR_H 1

/* A directory of its own for a group of tests, as cmocka's group fixtures:
 * each test finds its path, a char *, in '*state'. */

#include <stddef.h>

int tmpdir_setup(void **state);

/* Removes it with the files in it, which may not be directories. */
int tmpdir_teardown(void **state);

/* Writes the 'len' bytes at 'text' to the file 'name' in 'dir'.  Returns its
 * path, for the caller to free(). */
char *tmpdir_write(const char *dir, const char *name, const char *text,
                   size_t len);

#endif /* tests/support/tmpdir.h */
