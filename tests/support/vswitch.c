/* SPDX-License-Identifier: Apache-2.0 */
/* Starting and stopping a private Open vSwitch, by way of the shell. */

#include "vswitch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <util.h>

struct vswitch {
    char dir[64];
    char *target;
};

static const char environment[] =
    "set -e; D=%s; PATH=$PATH:/usr/sbin:/usr/local/sbin;"
    "export OVS_RUNDIR=$D OVS_DBDIR=$D OVS_LOGDIR=$D;"
    "vsctl() { ovs-vsctl --db=unix:$D/db.sock \"$@\"; }; "
    "exec >>$D/sh.log 2>&1; %s";

/* A file-based log keeps the daemons from writing into the test's output. */
static const char start[] =
    "ovsdb-tool create $D/conf.db "
    "/usr/share/openvswitch/vswitch.ovsschema;"
    "set -- -vconsole:off --detach --no-chdir --log-file;"
    "ovsdb-server $D/conf.db --remote=punix:$D/db.sock "
    "--pidfile=$D/db.pid --unixctl=$D/db.ctl \"$@\";"
    "vsctl --no-wait init;"
    "ovs-vswitchd unix:$D/db.sock --enable-dummy=override "
    "--pidfile=$D/vs.pid --unixctl=$D/vs.ctl \"$@\";"
    "vsctl add-br br0 -- set bridge br0 datapath_type=dummy "
    "fail-mode=secure protocols=OpenFlow15";

/* A daemon that ends removes its pidfile; one that crashed has not. */
static const char stop[] =
    "for i in vs db; do "
    "if test -e $D/$i.pid; then pid=$(cat $D/$i.pid);"
    "ovs-appctl -t $D/$i.ctl exit || kill $pid;"
    "while test -e $D/$i.pid && kill -0 $pid; do sleep 0.01; done; fi; done";

static int
run(const struct vswitch *vs, const char *command)
{
    char *script = xasprintf(environment, vs->dir, command);
    int rc = system(script); /* NOLINT(cert-env33-c): a test's own script. */

    free(script);
    return rc;
}

void
vswitch_sh(const struct vswitch *vs, const char *command)
{
    if (run(vs, command)) {
        char *show = xasprintf("cat %s/sh.log >&2", vs->dir);
        ignore(system(show)); /* NOLINT(cert-env33-c): as above. */
        free(show);
        fail_msg("%s: failed", command);
    }
}

struct vswitch *
vswitch_start(void)
{
    struct vswitch *vs = xzalloc(sizeof *vs);

    ovs_strlcpy(vs->dir, "/tmp/vswitch-XXXXXX", sizeof vs->dir);
    assert_non_null(mkdtemp(vs->dir));
    vs->target = xasprintf("unix:%s/br0.mgmt", vs->dir);
    vswitch_sh(vs, start);
    return vs;
}

void
vswitch_stop(struct vswitch *vs)
{
    if (vs) {
        run(vs, stop);
        run(vs, "rm -rf $D");
        free(vs->target);
        free(vs);
    }
}

const char *
vswitch_target(const struct vswitch *vs)
{
    return vs->target;
}
