/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_BASE_CONFINE_H
#define OFPROXYD_BASE_CONFINE_H 1

/* What the process gives up at its start, so that whoever gets hold of it
 * gets little: docs/decisions/0009.  The lists of what it keeps are
 * CONFINE_CAPS and calls.def; docs/security.md shows both. */

#include <stddef.h>

#include "ofproxyd/base/err.h"

/* Capabilities that are kept.  CAP(NAME, REQUIRED, WHY). */
#define CONFINE_CAPS                                                  \
    CAP(NET_ADMIN, true, "routes, links, packet rules, net settings") \
    CAP(NET_BIND_SERVICE, false, "health checks on ports below 1024")

/* For all programs, as the first thing: files are nobody else's to write or
 * to read but the group's, and descriptors that were inherited are closed. */
void confine_files(void);

/* Drops all capabilities but CONFINE_CAPS, for good: no program that is
 * executed gets them again.  The process leaves no core dumps, and others of
 * its user can't look into it.
 *
 * To be called while there is one thread.  Returns 0, or fills 'err', which
 * names the capability (EPERM) that is needed and not there. */
int confine_privileges(struct err *err);

/* From now on the kernel refuses (ENOSYS) system calls that aren't in
 * calls.def, to this thread and those that it makes.  To be called after
 * confine_privileges().  Returns 0 or a positive errno value, with 'err'. */
int confine_calls(struct err *err);

/* The filter of confine_calls() as the kernel would get it, for the machine
 * with the libseccomp token 'arch' (SCMP_ARCH_AARCH64), written to 'fd'.
 * Returns 0 or a positive errno value. */
int confine_export(unsigned int arch, int fd);

#endif /* ofproxyd/base/confine.h */
