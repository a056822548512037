/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_TESTS_VSWITCH_H
#define OFPROXYD_TESTS_VSWITCH_H 1

/* A real ovs-vswitchd with its ovsdb-server in a directory of its own, on the
 * dummy datapath, with a bridge "br0": for tests of what only a switch can
 * tell. */

struct vswitch;

/* Start, or fail the test; stop, and remove the directory (NULL is
 * allowed). */
struct vswitch *vswitch_start(void);
void vswitch_stop(struct vswitch *);

/* "unix:<dir>/br0.mgmt". */
const char *vswitch_target(const struct vswitch *);

/* Runs a shell command with $D set to the directory and Open vSwitch's tools
 * pointed to it; fails the test if the command fails. */
void vswitch_sh(const struct vswitch *, const char *command);

#endif /* vswitch.h */
