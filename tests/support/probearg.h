/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SUPPORT_PROBEARG_H
#define SUPPORT_PROBEARG_H 1

/* What the programs have in common that tests steer by lines of text. */

#include <openvswitch/compiler.h>

#include "ofproxyd/base/ip.h"

/* Ends the program: the test is wrong. */
OVS_NO_RETURN void probearg_fail(const char *line);

/* The address or network that 's' is; anything else ends the program. */
struct ip probearg_ip(const char *s);
struct cidr probearg_cidr(const char *s);

/* CPU time of this thread, in us. */
long long int probearg_cpu_us(void);

#endif /* support/probearg.h */
