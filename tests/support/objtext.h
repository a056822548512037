/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_OBJTEXT_H
#define TESTS_SUPPORT_OBJTEXT_H 1

/* Model objects as text, every field that was decoded, for golden files and
 * for comparing. */

#include <openvswitch/dynamic-string.h>

#include "ofproxyd/kube/decode.h"

void objtext_format(const struct kube_object *, struct ds *);

#endif /* tests/support/objtext.h */
