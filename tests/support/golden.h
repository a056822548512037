/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_GOLDEN_H
#define TESTS_SUPPORT_GOLDEN_H 1

/* Golden files: what a test prints is compared with a file of the tree. */

#include <openvswitch/dynamic-string.h>

#include "ofproxyd/flow/item.h"

/* Fails the running cmocka test if 'text' differs from the file
 * tests/data/golden/NAME, showing the first line that does; with UPDATE=1 in
 * the environment writes the file instead.  $TEST_DATA names another
 * directory than tests/data. */
void golden_check(const char *name, const char *text);

/* The same with a file of the documentation, made from the code: 'path' is
 * relative to the top of the tree. */
void golden_check_file(const char *path, const char *text);

/* Appends all items, sorted, one a line, with the pipeline's table names. */
void golden_format(const struct fout *, struct ds *);

#endif /* tests/support/golden.h */
