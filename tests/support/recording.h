/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_RECORDING_H
#define TESTS_SUPPORT_RECORDING_H 1

/* Answers of a real API server, from tests/data/recordings. */

#include <openvswitch/dynamic-string.h>

/* Reads the body of recording NAME into 'body', which must be initialized.
 * Of a whole HTTP response (*.http) the head and the chunking are taken off.
 * Fails the running cmocka test if that can't be done.  $TEST_DATA names
 * another directory than tests/data. */
void recording_read(const char *name, struct ds *body);

#endif /* tests/support/recording.h */
