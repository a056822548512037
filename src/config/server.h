/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVER_H
#define SERVER_H 1

/* Addresses of API servers. */

#include <stdbool.h>

/* Reads "http://..." or "https://..." with a host and perhaps a port and a
 * path; and if 'bare' also "HOST" and "HOST:PORT", which get https and port
 * 443.  An IPv6 address stands in brackets, without a port they may be
 * missing in the bare form.  Returns the URL in its usual spelling and
 * without '/' at its end, for the caller to free(); or NULL if it is none,
 * or has a user, a password, a query or a fragment. */
char *server_parse(const char *s, bool bare);

/* True if 's', which is no address that server_parse() takes, may hold a
 * password or the like, so that messages show SERVER_HIDDEN instead. */
bool server_may_hold_secret(const char *s);
#define SERVER_HIDDEN "an address with \"@\" or \"?\""

#endif /* server.h */
