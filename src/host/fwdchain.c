/* SPDX-License-Identifier: Apache-2.0 */
/* Reads rules as the kernel has them, whoever wrote them: iptables-restore
 * encodes ours otherwise than nft does. */

#include "fwdchain.h"

#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nf_tables_compat.h>
#include <linux/netfilter/nfnetlink.h>
#include <net/if.h>
#include <string.h>

#include <netlink/attr.h>
#include <openvswitch/util.h>
#include <util.h>

/* Of libnftnl: what a rule's user data consists of, and its comment. */
struct udata {
    uint8_t type;
    uint8_t len;
    char value[];
};
#define UDATA_COMMENT 0

/* What a rule says, as far as it can be ours. */
enum rule_kind {
    RULE_OTHER, /* Ours by its comment, but not as it should be. */
    RULE_IN,
    RULE_OUT
};

struct reading {
    struct fwdchain *fc;
    const char *gateway;
    size_t n_rules;        /* In the chain. */
    size_t n_top;          /* Of the first two, how many are right. */
    enum rule_kind at_top; /* The first one. */
};

static int
nfproto(const struct fwdchain *fc)
{
    return fc->family == IP_V4 ? NFPROTO_IPV4 : NFPROTO_IPV6;
}

const char *
fwdchain_family_name(const struct fwdchain *fc)
{
    return fc->family == IP_V4 ? "ip" : "ip6";
}

static bool
has_our_comment(const struct nlattr *attr)
{
    const char *p = attr ? nla_data(attr) : NULL;
    size_t left = attr ? nla_len(attr) : 0;

    while (left >= sizeof(struct udata)) {
        const struct udata *u = (const struct udata *) p;
        size_t size = sizeof *u + u->len;

        if (size > left) {
            break;
        }
        if (u->type == UDATA_COMMENT && u->len == sizeof RULES_COMMENT
            && !memcmp(u->value, RULES_COMMENT, sizeof RULES_COMMENT)) {
            return true;
        }
        p += size;
        left -= size;
    }
    return false;
}

/* The data of expression 'elem' if it is a 'name', with 'max' attributes. */
static bool
parse_expr(struct nlattr *elem, const char *name, struct nlattr *tb[], int max)
{
    struct nlattr *expr[NFTA_EXPR_MAX + 1];

    return !nla_parse_nested(expr, NFTA_EXPR_MAX, elem, NULL)
           && !strcmp(nfnl_string(expr[NFTA_EXPR_NAME]), name)
           && expr[NFTA_EXPR_DATA]
           && !nla_parse_nested(tb, max, expr[NFTA_EXPR_DATA], NULL);
}

static enum rule_kind
parse_meta(struct nlattr *elem)
{
    struct nlattr *tb[NFTA_META_MAX + 1];

    if (!parse_expr(elem, "meta", tb, NFTA_META_MAX) || !tb[NFTA_META_KEY]) {
        return RULE_OTHER;
    }
    uint32_t key = ntohl(nla_get_u32(tb[NFTA_META_KEY]));

    return key == NFT_META_IIFNAME   ? RULE_IN
           : key == NFT_META_OIFNAME ? RULE_OUT
                                     : RULE_OTHER;
}

/* True for a comparison with just this name: with its null byte, or it would
 * match what begins with it. */
static bool
compares_with(struct nlattr *elem, const char *name)
{
    struct nlattr *tb[NFTA_CMP_MAX + 1], *data[NFTA_DATA_MAX + 1];

    if (!name || !parse_expr(elem, "cmp", tb, NFTA_CMP_MAX) || !tb[NFTA_CMP_OP]
        || ntohl(nla_get_u32(tb[NFTA_CMP_OP])) != NFT_CMP_EQ
        || !tb[NFTA_CMP_DATA]
        || nla_parse_nested(data, NFTA_DATA_MAX, tb[NFTA_CMP_DATA], NULL)) {
        return false;
    }
    return !strcmp(nfnl_string(data[NFTA_DATA_VALUE]), name);
}

static bool
accepts(struct nlattr *elem)
{
    struct nlattr *tb[NFTA_IMMEDIATE_MAX + 1], *data[NFTA_DATA_MAX + 1];
    struct nlattr *verdict[NFTA_VERDICT_MAX + 1];

    return parse_expr(elem, "immediate", tb, NFTA_IMMEDIATE_MAX)
           && tb[NFTA_IMMEDIATE_DATA]
           && !nla_parse_nested(data, NFTA_DATA_MAX, tb[NFTA_IMMEDIATE_DATA],
                                NULL)
           && data[NFTA_DATA_VERDICT]
           && !nla_parse_nested(verdict, NFTA_VERDICT_MAX,
                                data[NFTA_DATA_VERDICT], NULL)
           && verdict[NFTA_VERDICT_CODE]
           && ntohl(nla_get_u32(verdict[NFTA_VERDICT_CODE])) == NF_ACCEPT;
}

/* What a rule consists of. */
struct rule {
    struct nlattr *exprs[4]; /* But its comment. */
    size_t n;
    bool ours;
};

/* iptables-restore writes a comment as a match of its own. */
static bool
is_our_match(struct nlattr *elem)
{
    struct nlattr *tb[NFTA_MATCH_MAX + 1];

    return parse_expr(elem, "match", tb, NFTA_MATCH_MAX)
           && !strcmp(nfnl_string(tb[NFTA_MATCH_NAME]), "comment")
           && !strcmp(nfnl_string(tb[NFTA_MATCH_INFO]), RULES_COMMENT);
}

static struct rule
parse_rule(struct nlattr *tb[])
{
    struct rule rule = { .ours = has_our_comment(tb[NFTA_RULE_USERDATA]) };
    struct nlattr *elem;
    int rem;

    if (!tb[NFTA_RULE_EXPRESSIONS]) {
        return rule;
    }
    nla_for_each_nested(elem, tb[NFTA_RULE_EXPRESSIONS], rem)
    {
        if (is_our_match(elem)) {
            rule.ours = true;
        } else if (rule.n++ < ARRAY_SIZE(rule.exprs)) {
            rule.exprs[rule.n - 1] = elem;
        }
    }
    return rule;
}

static enum rule_kind
classify(const struct rule *rule, const char *gateway)
{
    struct nlattr *counter[NFTA_COUNTER_MAX + 1];

    return rule->n == ARRAY_SIZE(rule->exprs)
                   && compares_with(rule->exprs[1], gateway)
                   && parse_expr(rule->exprs[2], "counter", counter,
                                 NFTA_COUNTER_MAX)
                   && accepts(rule->exprs[3])
               ? parse_meta(rule->exprs[0])
               : RULE_OTHER;
}

static void
take_rule(struct nlmsghdr *nlh, void *r_)
{
    struct nlattr *tb[NFTA_RULE_MAX + 1];
    struct reading *r = r_;
    struct fwdchain *fc = r->fc;

    if (NFNL_MSG_TYPE(nlh->nlmsg_type) != NFT_MSG_NEWRULE
        || !nfnl_attrs(nlh, tb, NFTA_RULE_MAX)
        || strcmp(nfnl_string(tb[NFTA_RULE_CHAIN]), FWDCHAIN_NAME)
        || !tb[NFTA_RULE_HANDLE]) {
        return;
    }
    size_t at = r->n_rules++;

    struct rule rule = parse_rule(tb);
    if (!rule.ours) {
        return;
    }
    if (fc->n_ours < ARRAY_SIZE(fc->ours)) {
        fc->ours[fc->n_ours++] = be64toh(nla_get_u64(tb[NFTA_RULE_HANDLE]));
    }
    if (at < 2) {
        enum rule_kind kind = classify(&rule, r->gateway);

        if (kind != RULE_OTHER && kind != r->at_top) {
            r->at_top = kind;
            r->n_top++;
        }
    }
}

static void
take_chain(struct nlmsghdr *nlh, void *fc_)
{
    struct nlattr *tb[NFTA_CHAIN_MAX + 1];
    struct fwdchain *fc = fc_;

    /* Without a hook no packet passes it but by a jump. */
    fc->exists = nfnl_attrs(nlh, tb, NFTA_CHAIN_MAX) && tb[NFTA_CHAIN_HOOK];
}

int
fwdchain_read(struct fwdchain *fc, struct nfnl *nl, const char *gateway)
{
    struct reading r = { .fc = fc, .gateway = gateway };
    struct nl_msg *msg;
    int error;

    fc->exists = fc->in_place = false;
    fc->n_ours = 0;

    msg = nfnl_msg((NFNL_SUBSYS_NFTABLES << 8) | NFT_MSG_GETCHAIN, 0,
                   nfproto(fc), 64);
    nla_put_string(msg, NFTA_CHAIN_TABLE, FWDCHAIN_TABLE);
    nla_put_string(msg, NFTA_CHAIN_NAME, FWDCHAIN_NAME);
    error = nfnl_get(nl, msg, take_chain, fc);
    if (error || !fc->exists) {
        return error == ENOENT ? 0 : error;
    }

    msg = nfnl_msg((NFNL_SUBSYS_NFTABLES << 8) | NFT_MSG_GETRULE, 0,
                   nfproto(fc), 64);
    nla_put_string(msg, NFTA_RULE_TABLE, FWDCHAIN_TABLE);
    nla_put_string(msg, NFTA_RULE_CHAIN, FWDCHAIN_NAME);
    error = nfnl_dump(nl, msg, take_rule, &r);
    fc->in_place = r.n_top == 2;
    return error == ENOENT ? EINTR : error;
}

bool
fwdchain_is_due(const struct fwdchain *fc, bool remove)
{
    return fc->exists && (!fc->in_place || (remove && fc->n_ours > 2));
}

void
fwdchain_repair(const struct fwdchain *fc, const char *gateway, bool remove,
                struct ds *ds)
{
    static const char *const directions[] = { "oifname", "iifname" };
    const char *family = fwdchain_family_name(fc);

    for (size_t i = 0; remove && i < fc->n_ours; i++) {
        ds_put_format(ds,
                      "delete rule %s " FWDCHAIN_TABLE " " FWDCHAIN_NAME
                      " handle %" PRIu64 "\n",
                      family, fc->ours[i]);
    }
    for (size_t i = 0; i < ARRAY_SIZE(directions); i++) {
        ds_put_format(ds,
                      "insert rule %s " FWDCHAIN_TABLE " " FWDCHAIN_NAME
                      " %s \"%s\" counter accept comment \"" RULES_COMMENT
                      "\"\n",
                      family, directions[i], gateway);
    }
}

void
fwdchain_remove(const struct fwdchain *fc, struct nfnl_batch *batch)
{
    for (size_t i = 0; i < fc->n_ours; i++) {
        struct nl_msg *msg =
            nfnl_msg((NFNL_SUBSYS_NFTABLES << 8) | NFT_MSG_DELRULE, 0,
                     nfproto(fc), 64);

        nla_put_string(msg, NFTA_RULE_TABLE, FWDCHAIN_TABLE);
        nla_put_string(msg, NFTA_RULE_CHAIN, FWDCHAIN_NAME);
        nla_put_u64(msg, NFTA_RULE_HANDLE, htobe64(fc->ours[i]));
        nfnl_batch_add(batch, msg);
    }
}
