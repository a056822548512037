/* SPDX-License-Identifier: Apache-2.0 */
/* Reads legacy iptables' tables as the kernel hands them out. */

#include "legacyipt.h"

#include <linux/netfilter.h>
#include <linux/netfilter_ipv4/ip_tables.h>
#include <linux/netfilter_ipv6/ip6_tables.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openvswitch/util.h>
#include <util.h>

/* A larger table is not read: it is somebody's kube-proxy that still runs. */
#define MAX_TABLE (64 * 1024 * 1024)

/* How the families differ.  The structs for the requests are the same. */
static const struct layout {
    const char *names; /* File with the tables that exist. */
    int domain, level, get_info, get_entries;
    size_t target_offset, next_offset; /* In an entry, both of 16 bits. */
    size_t entry_size;
} layouts[N_IP_FAMILIES] = {
    [IP_V4] = { "/proc/net/ip_tables_names", AF_INET, IPPROTO_IP,
                IPT_SO_GET_INFO, IPT_SO_GET_ENTRIES,
                offsetof(struct ipt_entry, target_offset),
                offsetof(struct ipt_entry, next_offset),
                sizeof(struct ipt_entry) },
    [IP_V6] = { "/proc/net/ip6_tables_names", AF_INET6, IPPROTO_IPV6,
                IP6T_SO_GET_INFO, IP6T_SO_GET_ENTRIES,
                offsetof(struct ip6t_entry, target_offset),
                offsetof(struct ip6t_entry, next_offset),
                sizeof(struct ip6t_entry) },
};
BUILD_ASSERT_DECL(sizeof(struct ipt_getinfo) == sizeof(struct ip6t_getinfo));
BUILD_ASSERT_DECL(offsetof(struct ipt_get_entries, entrytable)
                  == offsetof(struct ip6t_get_entries, entrytable));

static uint16_t
get_u16(const uint8_t *p)
{
    uint16_t value;

    memcpy(&value, p, sizeof value);
    return value;
}

/* The target of the entry at 'at', or NULL if that is malformed.  '*next' is
 * where the next entry begins. */
static const struct xt_entry_target *
target_at(const struct layout *l, const uint8_t *table, size_t size, size_t at,
          size_t *next)
{
    if (at > size || size - at < l->entry_size) {
        return NULL;
    }
    size_t target = get_u16(table + at + l->target_offset);
    size_t length = get_u16(table + at + l->next_offset);

    if (length < target + sizeof(struct xt_entry_target)
        || length > size - at) {
        return NULL;
    }
    *next = at + length;
    return (const struct xt_entry_target *) (table + at + target);
}

/* True if the entry at 'at' drops all. */
static bool
drops(const struct layout *l, const uint8_t *table, size_t size, size_t at)
{
    size_t next;
    const struct xt_entry_target *t = target_at(l, table, size, at, &next);
    int verdict;

    if (!t || t->u.user.name[0]
        || (const uint8_t *) t + sizeof(struct xt_standard_target)
               > table + next) {
        return false;
    }
    memcpy(&verdict,
           (const uint8_t *) t + offsetof(struct xt_standard_target, verdict),
           sizeof verdict);
    return verdict == -NF_DROP - 1;
}

/* A chain begins with an entry whose target is an error with its name. */
static void
find_chains(const struct layout *l, const uint8_t *table, size_t size,
            struct legacyipt *ret)
{
    const struct xt_entry_target *t;

    for (size_t at = 0, next; (t = target_at(l, table, size, at, &next));
         at = next) {
        const char *name =
            (const char *) t + offsetof(struct xt_error_target, errorname);

        if (!strncmp(t->u.user.name, XT_ERROR_TARGET, sizeof t->u.user.name)
            && name + strlen("ANTREA-") < (const char *) table + next) {
            ret->kube_proxy |= !strncmp(name, "KUBE-", 5);
            ret->antrea |= !strncmp(name, "ANTREA-", 7);
        }
    }
}

static void
read_table(const struct layout *l, int fd, const char *name,
           struct legacyipt *ret)
{
    struct ipt_getinfo info = { .size = 0 };
    socklen_t len = sizeof info;

    ovs_strlcpy(info.name, name, sizeof info.name);
    if (getsockopt(fd, l->level, l->get_info, &info, &len)
        || info.size > MAX_TABLE) {
        return;
    }
    len = offsetof(struct ipt_get_entries, entrytable) + info.size;

    struct ipt_get_entries *e = xzalloc(len);

    ovs_strlcpy(e->name, name, sizeof e->name);
    e->size = info.size;
    if (!getsockopt(fd, l->level, l->get_entries, e, &len)) {
        const uint8_t *table = (const uint8_t *) e->entrytable;

        find_chains(l, table, info.size, ret);
        if (!strcmp(name, "filter")) {
            ret->forward_drops =
                drops(l, table, info.size, info.underflow[NF_INET_FORWARD]);
        }
    }
    free(e);
}

struct legacyipt
legacyipt_read(enum ip_family family)
{
    const struct layout *l = &layouts[family];
    struct legacyipt result = { .antrea = false };
    char name[XT_TABLE_MAXNAMELEN + 1];
    FILE *names = fopen(l->names, "re");

    if (!names) {
        return result;
    }
    int fd = socket(l->domain, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    while (fd >= 0 && fgets(name, sizeof name, names)) {
        name[strcspn(name, "\n")] = '\0';
        read_table(l, fd, name, &result);
    }
    if (fd >= 0) {
        close(fd);
    }
    fclose(names);
    return result;
}
