/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_BASE_SDNOTIFY_H
#define OFPROXYD_BASE_SDNOTIFY_H 1

/* What systemd wants to know of a service of Type=notify (sd_notify(3)): that
 * it is ready, that it still works, that it ends.  Datagrams to the socket
 * that $NOTIFY_SOCKET names; without that variable all of this does nothing.
 * Nothing waits for systemd, and a datagram that is lost is no failure: the
 * next sign of life follows. */

struct sdnotify;

/* Reads $NOTIFY_SOCKET, $WATCHDOG_USEC and $WATCHDOG_PID, and takes the first
 * out of the environment.  To be called by the process that serves, so after
 * it has detached.  Never NULL; what can't be reached is named in the log. */
struct sdnotify *sdnotify_create(void);
void sdnotify_destroy(struct sdnotify *); /* NULL is allowed. */

/* Sends "READY=1" and the like (sd_notify(3)), without waiting. */
void sdnotify_send(const struct sdnotify *, const char *state);

/* Gives a sign of life, if one is asked for and due: at half the time after
 * which systemd would end us. */
void sdnotify_run(struct sdnotify *);
/* Wakes up poll_block() when the next one is due. */
void sdnotify_wait(const struct sdnotify *);

#endif /* ofproxyd/base/sdnotify.h */
