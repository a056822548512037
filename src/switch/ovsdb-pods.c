/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the local pods among the interfaces of our bridge.
 *
 * Their external_ids are written by a CNI plug-in, into the Port (Antrea's) or
 * the Interface, and are checked as any input: a value that can't be right is
 * named and leaves only its pod out.
 *
 * Two interfaces may claim one address for a while, since a port can outlive
 * its pod until the plug-in removes it.  The switch hands out port numbers
 * upwards, so the higher one is the newer and has the address. */

#include "ovsdb-private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openvswitch/util.h>
#include <util.h>

#define MAX_POD_IPS ARRAY_SIZE(((struct ovsdb_pod *) NULL)->ips)

/* Above are OpenFlow's reserved ports (OFPP_MAX), which no pod has. */
#define MAX_POD_OFPORT 0xfeff

static int
hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

bool
ovsdb_parse_mac(const char *s, struct eth_addr *ret)
{
    struct eth_addr mac;

    if (strlen(s) != 17) {
        return false;
    }
    for (size_t i = 0; i < 6; i++, s += 3) {
        int hi = hex_digit(s[0]);
        int lo = hex_digit(s[1]);

        if (hi < 0 || lo < 0 || s[2] != (i < 5 ? ':' : '\0')) {
            return false;
        }
        mac.ea[i] = hi << 4 | lo;
    }
    *ret = mac;
    return true;
}

bool
ovsdb_mac_is_unicast(const struct eth_addr *mac)
{
    static const struct eth_addr zero;

    return !(mac->ea[0] & 1) && memcmp(mac, &zero, sizeof zero);
}

/* Adds 'ip' unless 'pod' has it already.  False if there is no room. */
static bool
pod_add_ip(struct ovsdb_pod *pod, const struct ip *ip)
{
    for (size_t i = 0; i < pod->n_ips; i++) {
        if (ip_equals(&pod->ips[i], ip)) {
            return true;
        }
    }
    if (pod->n_ips >= MAX_POD_IPS) {
        return false;
    }
    pod->ips[pod->n_ips++] = *ip;
    return true;
}

/* Parses a list "a,b". */
static bool
pod_parse_ips(struct ovsdb_pod *pod, const char *list)
{
    for (;;) {
        size_t len = strcspn(list, ",");
        char buf[IP_STRLEN];
        struct ip ip;

        if (len >= sizeof buf) {
            return false;
        }
        memcpy(buf, list, len);
        buf[len] = '\0';
        if (ip_from_string(buf, &ip) || !ip_is_unicast(&ip)
            || !pod_add_ip(pod, &ip)) {
            return false;
        }
        if (!list[len]) {
            return true;
        }
        list += len + 1;
    }
}

/* Returns the external_ids that tell of a pod behind 'iface' of 'port'. */
static const struct smap *
pod_ids(const struct ovsrec_port *port, const struct ovsrec_interface *iface)
{
    const struct smap *ids = &iface->external_ids;

    return smap_get(ids, "attached-mac") || smap_get(ids, "ip-address")
                   || port->n_interfaces != 1
               ? ids
               : &port->external_ids;
}

/* Reads 'iface' of 'port' into '*pod', whose strings still belong to them.
 * Returns false if it is no pod, or not one yet, or a broken one. */
static bool
pod_read(const struct ovsrec_port *port, const struct ovsrec_interface *iface,
         struct ovsdb_named *named, struct ovsdb_pod *pod)
{
    const struct smap *ids = pod_ids(port, iface);
    const char *mac = smap_get(ids, "attached-mac");
    const char *ips = smap_get(ids, "ip-address");

    if (!mac && !ips) {
        return false;
    }
    *pod = (struct ovsdb_pod){
        .iface = iface->name,
        .ns = smap_get_def(ids, "pod-namespace", ""),
        .name = smap_get_def(ids, "pod-name", ""),
        .ofport = ovsdb_iface_ofport(iface),
    };
    if (!mac || !ips) {
        ovsdb_named_add(named,
                        "interface \"%s\": external_ids has %s but no %s; "
                        "left out",
                        iface->name, mac ? "attached-mac" : "ip-address",
                        mac ? "ip-address" : "attached-mac");
        return false;
    }
    if (!ovsdb_parse_mac(mac, &pod->mac) || !ovsdb_mac_is_unicast(&pod->mac)) {
        ovsdb_named_add(named,
                        "interface \"%s\": external_ids:attached-mac is "
                        "\"%s\", which is no unicast MAC address; left out",
                        iface->name, mac);
        return false;
    }
    if (!pod_parse_ips(pod, ips)) {
        ovsdb_named_add(named,
                        "interface \"%s\": external_ids:ip-address is "
                        "\"%s\", which is no list of one to %" PRIuSIZE
                        " unicast IP addresses; left out",
                        iface->name, ips, MAX_POD_IPS);
        return false;
    }
    if (iface->error && iface->error[0]) {
        ovsdb_named_add(named,
                        "interface \"%s\" of pod \"%s/%s\": the switch "
                        "reports \"%s\"; left out",
                        iface->name, pod->ns, pod->name, iface->error);
        return false;
    }
    return pod->ofport && pod->ofport <= MAX_POD_OFPORT;
}

/* One pod's claim to an address. */
struct claim {
    const void *key; /* 'key_len' bytes inside the pod. */
    size_t key_len;
    struct ovsdb_pod *pod;
};

/* Orders by key, and the one that wins first. */
static int
compare_claims(const void *a_, const void *b_)
{
    const struct claim *a = a_;
    const struct claim *b = b_;
    int cmp = memcmp(a->key, b->key, a->key_len);

    if (cmp) {
        return cmp;
    }
    if (a->pod->ofport != b->pod->ofport) {
        return a->pod->ofport > b->pod->ofport ? -1 : 1;
    }
    return strcmp(a->pod->iface, b->pod->iface);
}

/* Of sorted 'claims', only the first with a key wins.  Returns the one that
 * claims[i] lost to, or NULL if it won itself. */
static const struct claim *
claim_winner(const struct claim *claims, size_t i)
{
    size_t w = i;

    while (w && !memcmp(claims[w - 1].key, claims[i].key, claims[i].key_len)) {
        w--;
    }
    return w < i ? &claims[w] : NULL;
}

static void
name_loser(struct ovsdb_named *named, const struct claim *lost,
           const struct claim *won, const char *what)
{
    ovsdb_named_add(named,
                    "interfaces \"%s\" (port %u) and \"%s\" (port %u) both "
                    "have address %s; the higher port number keeps it",
                    lost->pod->iface, lost->pod->ofport, won->pod->iface,
                    won->pod->ofport, what);
}

/* A pod that lost its MAC address can't be reached at all: it loses all its
 * IP addresses. */
static void
settle_macs(struct ovsdb_pod *pods, size_t n, struct ovsdb_named *named)
{
    struct claim *claims = xmalloc(MAX(n, 1) * sizeof *claims);

    for (size_t i = 0; i < n; i++) {
        claims[i] =
            (struct claim){ &pods[i].mac, sizeof pods[i].mac, &pods[i] };
    }
    qsort(claims, n, sizeof *claims, compare_claims);
    for (size_t i = 0; i < n; i++) {
        const struct claim *won = claim_winner(claims, i);

        if (won) {
            const uint8_t *ea = claims[i].pod->mac.ea;
            char mac[18];

            snprintf(mac, sizeof mac, "%02x:%02x:%02x:%02x:%02x:%02x", ea[0],
                     ea[1], ea[2], ea[3], ea[4], ea[5]);
            name_loser(named, &claims[i], won, mac);
            claims[i].pod->n_ips = 0;
        }
    }
    free(claims);
}

static void
settle_ips(struct ovsdb_pod *pods, size_t n, struct ovsdb_named *named)
{
    struct claim *claims = xmalloc(MAX(n, 1) * MAX_POD_IPS * sizeof *claims);
    bool *lost = xcalloc(MAX(n, 1) * MAX_POD_IPS, sizeof *lost);
    size_t n_claims = 0;

    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < pods[i].n_ips; j++) {
            claims[n_claims++] =
                (struct claim){ &pods[i].ips[j], sizeof pods[i].ips[j],
                                &pods[i] };
        }
    }
    qsort(claims, n_claims, sizeof *claims, compare_claims);
    for (size_t i = 0; i < n_claims; i++) {
        const struct claim *won = claim_winner(claims, i);

        if (won) {
            struct ovsdb_pod *pod = claims[i].pod;
            size_t j = (const struct ip *) claims[i].key - pod->ips;
            char buf[IP_STRLEN];

            name_loser(named, &claims[i], won,
                       ip_to_string(&pod->ips[j], buf));
            lost[(pod - pods) * MAX_POD_IPS + j] = true;
        }
    }
    free(claims);

    for (size_t i = 0; i < n; i++) {
        size_t keep = 0;

        for (size_t j = 0; j < pods[i].n_ips; j++) {
            if (!lost[i * MAX_POD_IPS + j]) {
                pods[i].ips[keep++] = pods[i].ips[j];
            }
        }
        pods[i].n_ips = keep;
    }
    free(lost);
}

static int
compare_pods(const void *a_, const void *b_)
{
    const struct ovsdb_pod *a = a_;
    const struct ovsdb_pod *b = b_;

    return strcmp(a->iface, b->iface);
}

size_t
ovsdb_pods_read(const struct ovsrec_bridge *bridge, struct ovsdb_named *named,
                struct ovsdb_pod **ret)
{
    struct ovsdb_pod *pods = NULL;
    size_t n = 0, allocated = 0;

    for (size_t i = 0; bridge && i < bridge->n_ports; i++) {
        const struct ovsrec_port *port = bridge->ports[i];

        for (size_t j = 0; j < port->n_interfaces; j++) {
            if (n >= allocated) {
                pods = x2nrealloc(pods, &allocated, sizeof *pods);
            }
            n += pod_read(port, port->interfaces[j], named, &pods[n]);
        }
    }

    settle_macs(pods, n, named);
    settle_ips(pods, n, named);

    size_t n_kept = 0;
    for (size_t i = 0; i < n; i++) {
        if (pods[i].n_ips) {
            struct ovsdb_pod *pod = &pods[n_kept++];

            *pod = pods[i];
            pod->iface = xstrdup(pod->iface);
            pod->ns = xstrdup(pod->ns);
            pod->name = xstrdup(pod->name);
        }
    }
    if (n_kept) {
        qsort(pods, n_kept, sizeof *pods, compare_pods);
    }
    *ret = pods;
    return n_kept;
}

void
ovsdb_pods_free(struct ovsdb_pod *pods, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free(CONST_CAST(char *, pods[i].iface));
        free(CONST_CAST(char *, pods[i].ns));
        free(CONST_CAST(char *, pods[i].name));
    }
    free(pods);
}

static bool
pod_equals(const struct ovsdb_pod *a, const struct ovsdb_pod *b)
{
    return !strcmp(a->iface, b->iface) && !strcmp(a->ns, b->ns)
           && !strcmp(a->name, b->name) && a->ofport == b->ofport
           && !memcmp(&a->mac, &b->mac, sizeof a->mac) && a->n_ips == b->n_ips
           && !memcmp(a->ips, b->ips, a->n_ips * sizeof a->ips[0]);
}

bool
ovsdb_pods_equal(const struct ovsdb_pod *a, size_t n_a,
                 const struct ovsdb_pod *b, size_t n_b)
{
    if (n_a != n_b) {
        return false;
    }
    for (size_t i = 0; i < n_a; i++) {
        if (!pod_equals(&a[i], &b[i])) {
            return false;
        }
    }
    return true;
}
