/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOST_NFTRUN_H
#define HOST_NFTRUN_H 1

/* Commands in nft's language, by libnftables. */

#include <openvswitch/compiler.h>

#include "ofproxyd/base/err.h"

/* Carries out 'commands' as one transaction.  Returns 0 or a positive errno
 * value, then with the reason in 'err'.  No memory is kept. */
int nftrun(const char *commands, struct err *err) OVS_WARN_UNUSED_RESULT;

#endif /* host/nftrun.h */
