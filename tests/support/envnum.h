/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_ENVNUM_H
#define TESTS_SUPPORT_ENVNUM_H 1

/* Numbers that whoever runs a test may choose, such as SEED=7. */

#include <stdint.h>

/* Returns the number in the environment variable 'name', or 'otherwise' if
 * there is none. */
uint64_t envnum(const char *name, uint64_t otherwise);

#endif /* tests/support/envnum.h */
