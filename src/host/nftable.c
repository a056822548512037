/* SPDX-License-Identifier: Apache-2.0 */
/* A canonical form of our table: the kernel's own encoding, without what
 * changes by itself.  What the rules mean is not looked at. */

#include "nftable.h"

#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <string.h>

#include <netlink/attr.h>
#include <openvswitch/util.h>
#include <util.h>

#include "rulestext.h"

static void
put_attr(struct ds *ds, const struct nlattr *attr)
{
    uint16_t header[2] = { 0, 0 };

    if (attr) {
        header[0] = nla_type(attr) + 1;
        header[1] = nla_len(attr);
    }
    ds_put_buffer(ds, (const char *) header, sizeof header);
    if (attr) {
        ds_put_buffer(ds, nla_data(attr), nla_len(attr));
    }
}

/* The attributes that count, of each kind of message; 0 ends. */
static const struct kind {
    int msg;   /* NFT_MSG_NEW*. */
    int table; /* The attribute with the table's name. */
    int attrs[6];
} kinds[] = {
    { NFT_MSG_NEWTABLE, NFTA_TABLE_NAME, { NFTA_TABLE_FLAGS } },
    { NFT_MSG_NEWCHAIN,
      NFTA_CHAIN_TABLE,
      { NFTA_CHAIN_NAME, NFTA_CHAIN_HOOK, NFTA_CHAIN_POLICY, NFTA_CHAIN_TYPE,
        NFTA_CHAIN_FLAGS } },
    { NFT_MSG_NEWSET,
      NFTA_SET_TABLE,
      { NFTA_SET_NAME, NFTA_SET_FLAGS, NFTA_SET_KEY_TYPE, NFTA_SET_KEY_LEN,
        NFTA_SET_TIMEOUT } },
    { NFT_MSG_NEWRULE,
      NFTA_RULE_TABLE,
      { NFTA_RULE_CHAIN, NFTA_RULE_USERDATA } },
};
BUILD_ASSERT_DECL((int) NFTA_RULE_MAX <= (int) NFTA_SET_MAX
                  && (int) NFTA_CHAIN_MAX <= (int) NFTA_SET_MAX
                  && (int) NFTA_TABLE_MAX <= (int) NFTA_SET_MAX);

/* A rule's expressions; a counter counts only by being there. */
static void
put_expressions(struct ds *ds, struct nlattr *exprs)
{
    struct nlattr *elem, *tb[NFTA_EXPR_MAX + 1];
    int rem;

    if (!exprs) {
        return;
    }
    nla_for_each_nested(elem, exprs, rem)
    {
        if (nla_parse_nested(tb, NFTA_EXPR_MAX, elem, NULL)) {
            put_attr(ds, elem);
            continue;
        }
        put_attr(ds, tb[NFTA_EXPR_NAME]);
        if (strcmp(nfnl_string(tb[NFTA_EXPR_NAME]), "counter")) {
            put_attr(ds, tb[NFTA_EXPR_DATA]);
        }
    }
}

static void
take_msg(struct nlmsghdr *nlh, void *ds_)
{
    struct nlattr *tb[NFTA_SET_MAX + 1];
    struct ds *ds = ds_;

    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
        const struct kind *k = &kinds[i];

        if (k->msg != NFNL_MSG_TYPE(nlh->nlmsg_type)
            || !nfnl_attrs(nlh, tb, NFTA_SET_MAX)
            || strcmp(nfnl_string(tb[k->table]), RULES_TABLE)) {
            continue;
        }
        ds_put_char(ds, k->msg);
        for (const int *attr = k->attrs; *attr; attr++) {
            put_attr(ds, tb[*attr]);
        }
        if (k->msg == NFT_MSG_NEWRULE) {
            put_expressions(ds, tb[NFTA_RULE_EXPRESSIONS]);
        }
    }
}

int
nftable_read(struct nfnl *nl, struct ds *ds)
{
    static const int gets[] = { NFT_MSG_GETCHAIN, NFT_MSG_GETSET,
                                NFT_MSG_GETRULE };
    struct nl_msg *msg;
    int error;

    msg = nfnl_msg((NFNL_SUBSYS_NFTABLES << 8) | NFT_MSG_GETTABLE, 0,
                   NFPROTO_INET, 64);
    nla_put_string(msg, NFTA_TABLE_NAME, RULES_TABLE);
    error = nfnl_get(nl, msg, take_msg, ds);

    for (size_t i = 0; !error && i < ARRAY_SIZE(gets); i++) {
        msg = nfnl_msg((NFNL_SUBSYS_NFTABLES << 8) | gets[i], 0, NFPROTO_INET,
                       64);
        /* The name of the table is the first attribute of each; a kernel that
         * does not filter chains by it hands out those of others too. */
        nla_put_string(msg, NFTA_RULE_TABLE, RULES_TABLE);
        error = nfnl_dump(nl, msg, take_msg, ds);
    }
    return error;
}

void
nftable_remove(struct nfnl_batch *batch)
{
    struct nl_msg *msg =
        nfnl_msg((NFNL_SUBSYS_NFTABLES << 8) | NFT_MSG_DELTABLE, 0,
                 NFPROTO_INET, 64);

    nla_put_string(msg, NFTA_TABLE_NAME, RULES_TABLE);
    nfnl_batch_add(batch, msg);
}
