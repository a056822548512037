/* SPDX-License-Identifier: Apache-2.0 */
/* Parses addresses of API servers. */

#include "server.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <util.h>

#include "ofproxyd/base/ip.h"

#define DEFAULT_PORT 443

/* A DNS name has at most 253 characters. */
#define MAX_HOST 253

static bool
parse_port(const char *s, unsigned int *ret)
{
    unsigned int port = 0;
    size_t n = strspn(s, "0123456789");
    if (!n || n > 5 || s[n]) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        port = port * 10 + (s[i] - '0');
    }
    if (port < 1 || port > 65535) {
        return false;
    }
    *ret = port;
    return true;
}

/* A DNS name, or an IPv4 address if it looks like one. */
static bool
is_name(const char *s)
{
    size_t len = strlen(s);
    if (!len || len > MAX_HOST || !isalnum((unsigned char) s[0])) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        if (!isalnum((unsigned char) s[i]) && !strchr("-._", s[i])) {
            return false;
        }
    }
    struct ip ip;
    return strspn(s, "0123456789.") < len || !ip_from_string(s, &ip);
}

static bool
is_v6(const char *s)
{
    struct ip ip;
    return strchr(s, ':') && !ip_from_string(s, &ip);
}

/* Splits the host and the port off "HOST", "HOST:PORT", "[IPV6]" or
 * "[IPV6]:PORT", and with 'bare' "IPV6".  '*ret_port' is 0 if there is none.
 * Returns the host with brackets where it needs them, for the caller to
 * free(), or NULL. */
static char *
parse_host_port(const char *s, bool bare, unsigned int *ret_port)
{
    *ret_port = 0;
    if (bare && is_v6(s)) {
        return xasprintf("[%s]", s);
    }

    bool brackets = s[0] == '[';
    const char *end = brackets ? strchr(s, ']') : strchrnul(s, ':');
    if (!end) {
        return NULL;
    }
    const char *rest = end + brackets;
    if (*rest && (*rest != ':' || !parse_port(rest + 1, ret_port))) {
        return NULL;
    }

    char *host = xmemdup0(s + brackets, end - s - brackets);
    if (brackets ? !is_v6(host) : !is_name(host)) {
        free(host);
        return NULL;
    }
    if (brackets) {
        char *with = xasprintf("[%s]", host);
        free(host);
        return with;
    }
    return host;
}

/* Only what needs no escaping, so that the URL is used as it is. */
static bool
is_path(const char *s)
{
    for (; *s; s++) {
        if (!isalnum((unsigned char) *s) && !strchr("/-._~%", *s)) {
            return false;
        }
    }
    return true;
}

static char *
parse_url(const char *scheme, const char *s)
{
    unsigned int port;
    const char *path = strchrnul(s, '/');
    char *authority = xmemdup0(s, path - s);
    char *host = parse_host_port(authority, false, &port);
    char *url = NULL;
    if (host && is_path(path)) {
        char suffix[16] = "";
        if (port) {
            snprintf(suffix, sizeof suffix, ":%u", port);
        }
        url = xasprintf("%s://%s%s%s", scheme, host, suffix, path);
        for (char *p = strchr(url, '\0'); p[-1] == '/'; p--) {
            p[-1] = '\0';
        }
    }
    free(host);
    free(authority);
    return url;
}

char *
server_parse(const char *s, bool bare)
{
    static const char *const schemes[] = { "https", "http" };

    for (size_t i = 0; i < ARRAY_SIZE(schemes); i++) {
        size_t len = strlen(schemes[i]);
        if (!strncasecmp(s, schemes[i], len) && !strncmp(s + len, "://", 3)) {
            return parse_url(schemes[i], s + len + 3);
        }
    }
    if (!bare) {
        return NULL;
    }

    unsigned int port;
    char *host = parse_host_port(s, true, &port);
    if (!host) {
        return NULL;
    }
    char *url = xasprintf("https://%s:%u", host, port ? port : DEFAULT_PORT);
    free(host);
    return url;
}

bool
server_may_hold_secret(const char *s)
{
    return strpbrk(s, "@?") != NULL;
}
