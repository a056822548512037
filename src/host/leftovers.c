/* SPDX-License-Identifier: Apache-2.0 */
/* Asks for what is known by name, so that the cost does not depend on how
 * many rules the host has. */

#include "leftovers.h"

#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <net/if.h>
#include <stdbool.h>

#include <netlink/attr.h>
#include <openvswitch/util.h>
#include <openvswitch/vlog.h>
#include <util.h>

#include "legacyipt.h"
#include "ofproxyd/base/ip.h"

VLOG_DEFINE_THIS_MODULE(leftovers);

/* Each is named once for each family: its bit is shifted by the family. */
enum {
    KUBE_TABLE = 1 << 0,
    KUBE_CHAINS = 1 << 2,
    KUBE_IPVS = 1 << 4,
    ANTREA_CHAINS = 1 << 6,
    ANTREA_TABLE = 1 << 8,
    LEGACY_KUBE = 1 << 10,
    LEGACY_ANTREA = 1 << 12,
    LEGACY_DROP = 1 << 14
};

static const struct {
    int nfproto;
    const char *nft, *iptables;
} families[N_IP_FAMILIES] = {
    [IP_V4] = { NFPROTO_IPV4, "ip", "iptables" },
    [IP_V6] = { NFPROTO_IPV6, "ip6", "ip6tables" },
};

/* True if 'what' is there and has not been named yet. */
static bool
is_news(struct leftovers *lo, unsigned int what, enum ip_family family,
        bool there)
{
    unsigned int bit = what << family;
    bool news = there && !(lo->named & bit);

    lo->named |= there ? bit : 0;
    return news;
}

static void
note_found(struct nlmsghdr *nlh OVS_UNUSED, void *found)
{
    *(bool *) found = true;
}

static bool
has_table(struct nfnl *nl, enum ip_family family, const char *table)
{
    struct nl_msg *msg =
        nfnl_msg((NFNL_SUBSYS_NFTABLES << 8) | NFT_MSG_GETTABLE, 0,
                 families[family].nfproto, 64);
    bool found = false;

    nla_put_string(msg, NFTA_TABLE_NAME, table);
    return !nfnl_get(nl, msg, note_found, &found) && found;
}

static bool
has_chain(struct nfnl *nl, enum ip_family family, const char *table,
          const char *chain)
{
    struct nl_msg *msg =
        nfnl_msg((NFNL_SUBSYS_NFTABLES << 8) | NFT_MSG_GETCHAIN, 0,
                 families[family].nfproto, 128);
    bool found = false;

    nla_put_string(msg, NFTA_CHAIN_TABLE, table);
    nla_put_string(msg, NFTA_CHAIN_NAME, chain);
    return !nfnl_get(nl, msg, note_found, &found) && found;
}

static bool
has_kube_chains(struct nfnl *nl, enum ip_family family)
{
    return has_chain(nl, family, "nat", "KUBE-SERVICES")
           || has_chain(nl, family, "nat", "KUBE-POSTROUTING")
           || has_chain(nl, family, "filter", "KUBE-FORWARD");
}

static bool
has_antrea_chains(struct nfnl *nl, enum ip_family family)
{
    static const struct {
        const char *table, *chain;
    } chains[] = {
        { "raw", "ANTREA-PREROUTING" },     { "raw", "ANTREA-OUTPUT" },
        { "mangle", "ANTREA-PREROUTING" },  { "mangle", "ANTREA-OUTPUT" },
        { "mangle", "ANTREA-POSTROUTING" }, { "filter", "ANTREA-FORWARD" },
        { "filter", "ANTREA-INPUT" },       { "filter", "ANTREA-OUTPUT" },
        { "nat", "ANTREA-PREROUTING" },     { "nat", "ANTREA-OUTPUT" },
        { "nat", "ANTREA-POSTROUTING" },
    };

    for (size_t i = 0; i < ARRAY_SIZE(chains); i++) {
        if (has_chain(nl, family, chains[i].table, chains[i].chain)) {
            return true;
        }
    }
    return false;
}

static void
check_nftables(struct leftovers *lo, struct nfnl *nl, enum ip_family family)
{
    const char *nft = families[family].nft, *ipt = families[family].iptables;

    if (is_news(lo, KUBE_TABLE, family, has_table(nl, family, "kube-proxy"))) {
        VLOG_WARN("kube-proxy's table %s kube-proxy is there: it handles "
                  "Services too; to remove it: kube-proxy --cleanup, or nft "
                  "delete table %s kube-proxy",
                  nft, nft);
    }
    if (is_news(lo, KUBE_CHAINS, family, has_kube_chains(nl, family))) {
        VLOG_WARN("kube-proxy's chains KUBE-* of %s are there: they handle "
                  "Services too; to remove them: kube-proxy --cleanup",
                  ipt);
    }
    if (is_news(lo, ANTREA_CHAINS, family, has_antrea_chains(nl, family))) {
        VLOG_WARN("Antrea's chains ANTREA-* of %s are there; to remove them: "
                  "%s-save | grep -v ANTREA- | %s-restore",
                  ipt, ipt, ipt);
    }
    if (is_news(lo, ANTREA_TABLE, family, has_table(nl, family, "antrea"))) {
        VLOG_WARN("Antrea's table %s antrea is there; to remove it: nft "
                  "delete table %s antrea",
                  nft, nft);
    }
}

static void
check_legacy(struct leftovers *lo, enum ip_family family, const char *gateway)
{
    struct legacyipt l = legacyipt_read(family);
    const char *ipt = families[family].iptables;

    if (is_news(lo, LEGACY_KUBE, family, l.kube_proxy)) {
        VLOG_WARN("kube-proxy's chains KUBE-* of legacy %s are there: they "
                  "handle Services too; to remove them: kube-proxy --cleanup",
                  ipt);
    }
    if (is_news(lo, LEGACY_ANTREA, family, l.antrea)) {
        VLOG_WARN("Antrea's chains ANTREA-* of legacy %s are there; to remove "
                  "them: %s-legacy-save | grep -v ANTREA- | "
                  "%s-legacy-restore",
                  ipt, ipt, ipt);
    }
    if (is_news(lo, LEGACY_DROP, family, l.forward_drops)) {
        VLOG_WARN("legacy %s drops in chain FORWARD by policy, which nothing "
                  "of ours can overrule; to let pods through: %s-legacy -I "
                  "FORWARD -i %s -j ACCEPT; %s-legacy -I FORWARD -o %s -j "
                  "ACCEPT",
                  ipt, ipt, gateway, ipt, gateway);
    }
}

void
leftovers_check(struct leftovers *lo, struct nfnl *nl, const char *gateway)
{
    for (enum ip_family f = 0; f < N_IP_FAMILIES; f++) {
        check_nftables(lo, nl, f);
        check_legacy(lo, f, gateway);
    }
    if (is_news(lo, KUBE_IPVS, 0, if_nametoindex("kube-ipvs0") != 0)) {
        VLOG_WARN("kube-proxy's link kube-ipvs0 is there: the host takes all "
                  "cluster IPs for its own; to remove it: kube-proxy "
                  "--cleanup, or ip link del kube-ipvs0");
    }
}
