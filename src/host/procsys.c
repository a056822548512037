/* SPDX-License-Identifier: Apache-2.0 */
/* Settings under /proc/sys: compared, and written if they differ. */

#include "procsys.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <openvswitch/util.h>
#include <openvswitch/vlog.h>
#include <util.h>

VLOG_DEFINE_THIS_MODULE(procsys);

static const struct {
    const char *before; /* Of the path; the link's name follows... */
    const char *after;  /* ...and this, or NULL if it is of no link. */
    const char *value;
} settings[PROCSYS_N_SETTINGS] = {
    /* The host asks for pods with the gateway's address, which they know. */
    [PROCSYS_ARP_ANNOUNCE] = { "net/ipv4/conf/", "/arp_announce", "1" },
    /* The host doesn't answer for the gateway's address with the MAC address
     * of the link that the question came by. */
    [PROCSYS_ARP_IGNORE] = { "net/ipv4/conf/", "/arp_ignore", "1" },
    /* Answers of Services come from addresses that no route leads to. */
    [PROCSYS_RP_FILTER] = { "net/ipv4/conf/", "/rp_filter", "2" },
    /* NodePorts at 127.0.0.1. */
    [PROCSYS_ROUTE_LOCALNET] = { "net/ipv4/conf/", "/route_localnet", "1" },
    [PROCSYS_NO_LOCALNET] = { "net/ipv4/conf/", "/route_localnet", "0" },
    [PROCSYS_DISABLE_IPV6] = { "net/ipv6/conf/", "/disable_ipv6", "0" },
    /* Addresses are usable at once; nobody else is on the link. */
    [PROCSYS_ACCEPT_DAD] = { "net/ipv6/conf/", "/accept_dad", "0" },
    [PROCSYS_IPV4_FORWARD] = { "net/ipv4/ip_forward", NULL, "1" },
    [PROCSYS_LINK_FORWARD] = { "net/ipv4/conf/", "/forwarding", "1" },
    [PROCSYS_IPV6_FORWARD] = { "net/ipv6/conf/all/forwarding", NULL, "1" },
};

static char *
setting_path(enum procsys_setting s, const char *link)
{
    return xasprintf("/proc/sys/%s%s%s", settings[s].before,
                     settings[s].after ? link : "",
                     settings[s].after ? settings[s].after : "");
}

/* Reads a short text without its line end.  Returns 0 or a positive errno
 * value. */
static int
read_value(const char *path, char buf[16])
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0) {
        return errno;
    }
    ssize_t n = read(fd, buf, 15);
    int error = n < 0 ? errno : 0;

    close(fd);
    if (!error) {
        buf[n] = '\0';
        buf[strcspn(buf, "\n")] = '\0';
    }
    return error;
}

/* Where a container has what it may write, since runtimes give it a /proc/sys
 * that is read-only even if its network is the host's. */
#define HOST "/host"

static int
write_value(const char *path, const char *value)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);

    if (fd < 0 && errno == EROFS) {
        char *host = xasprintf(HOST "%s", path);

        fd = open(host, O_WRONLY | O_CLOEXEC);
        if (fd < 0) {
            errno = EROFS;
        }
        free(host);
    }
    if (fd < 0) {
        return errno;
    }
    int error = write(fd, value, strlen(value)) < 0 ? errno : 0;

    close(fd);
    return error;
}

static void
apply(struct procsys *ps, enum procsys_setting s, const char *link)
{
    char *path = setting_path(s, link);
    const char *value = settings[s].value;
    char have[16];
    int error = read_value(path, have);

    if (!error && strcmp(have, value)) {
        error = write_value(path, value);
        if (!error) {
            /* There may be hundreds of pods. */
            VLOG(s == PROCSYS_ARP_IGNORE ? VLL_DBG : VLL_INFO, "%s set to %s",
                 path, value);
        }
    }
    if (error && !ps->named[s]) {
        VLOG_WARN("%s can't be set to %s: %s", path, value,
                  ovs_strerror(error));
    }
    ps->named[s] = error != 0;
    free(path);
}

void
procsys_tune_link(struct procsys *ps, const char *name, bool ipv6)
{
    apply(ps, PROCSYS_ARP_ANNOUNCE, name);
    apply(ps, PROCSYS_RP_FILTER, name);
    if (ipv6) {
        apply(ps, PROCSYS_DISABLE_IPV6, name);
        apply(ps, PROCSYS_ACCEPT_DAD, name);
    }
}

void
procsys_set_localhost(struct procsys *ps, const char *name, bool on)
{
    apply(ps, on ? PROCSYS_ROUTE_LOCALNET : PROCSYS_NO_LOCALNET, name);
}

void
procsys_forward_ipv4(struct procsys *ps, const char *name)
{
    apply(ps, PROCSYS_IPV4_FORWARD, NULL);
    if (!ps->named[PROCSYS_IPV4_FORWARD]) {
        apply(ps, PROCSYS_LINK_FORWARD, name);
    }
}

/* The value of a setting of a link, or 'unknown': the link may just have gone,
 * or got another name. */
static int
link_value(const char *link, const char *name, int unknown)
{
    char *path = xasprintf("/proc/sys/net/ipv4/conf/%s/%s", link, name);
    char value[16];
    int n = read_value(path, value) ? unknown : atoi(value);

    free(path);
    return n;
}

/* Names of links come from the switch's database here. */
static bool
is_link_name(const char *name)
{
    return name[0] && strlen(name) < IFNAMSIZ && !strchr(name, '/')
           && strcmp(name, ".") && strcmp(name, "..");
}

void
procsys_tune_pod_link(struct procsys *ps, const char *name)
{
    /* The kernel takes the larger one, and larger ones ignore more. */
    if (is_link_name(name) && if_nametoindex(name)
        && !link_value("all", "arp_ignore", 0)
        && !link_value(name, "arp_ignore", 0)) {
        apply(ps, PROCSYS_ARP_IGNORE, name);
    }
}

void
procsys_check_uplink(struct procsys *ps, const char *name)
{
    /* The kernel takes the larger one. */
    bool strict = MAX(link_value("all", "rp_filter", 0),
                      link_value(name, "rp_filter", 0))
                  == 1;
    bool no_forward = !link_value(name, "forwarding", 1)
                      && link_value("all", "forwarding", 0);

    if (strict && !ps->uplink_strict) {
        VLOG_INFO("net.ipv4.conf.%s.rp_filter is 1 (strict): packets from "
                  "pods of other nodes are dropped unless the routes to these "
                  "pods lead to \"%s\", too; 2 is safe",
                  name, name);
    }
    if (no_forward && !ps->uplink_no_forward) {
        VLOG_WARN("net.ipv4.conf.%s.forwarding is 0: packets from pods of "
                  "other nodes are dropped; set it to 1",
                  name);
    }
    ps->uplink_strict = strict;
    ps->uplink_no_forward = no_forward;
}

/* accept_ra: 0 no, 1 unless forwarding, 2 always. */
static bool
loses_ra_route(const char *link)
{
    char *path = xasprintf("/proc/sys/net/ipv6/conf/%s/accept_ra", link);
    char value[16];
    bool loses = !read_value(path, value) && !strcmp(value, "1");

    free(path);
    return loses;
}

void
procsys_forward_ipv6(struct procsys *ps, const char *ra_link)
{
    const enum procsys_setting s = PROCSYS_IPV6_FORWARD;
    char *path = setting_path(s, NULL);
    char have[16];

    if (!read_value(path, have) && !strcmp(have, "0") && ra_link
        && loses_ra_route(ra_link)) {
        if (!ps->named[s]) {
            VLOG_WARN("%s stays 0, since with 1 the kernel would drop the "
                      "default route through \"%s\", which comes from a "
                      "router advertisement; set accept_ra of \"%s\" to 2",
                      path, ra_link, ra_link);
        }
        ps->named[s] = true;
    } else {
        apply(ps, s, NULL);
    }
    free(path);
}
