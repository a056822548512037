/* SPDX-License-Identifier: Apache-2.0 */
/* Takes away what rules.c has made: in a process of its own, which knows
 * nothing but what the kernel says. */

#include "ofproxyd/host/rules.h"

#include <errno.h>

#include <openvswitch/util.h>
#include <util.h>

#include "fwdchain.h"
#include "nfnl.h"
#include "nftable.h"
#include "rulestext.h"

/* Rounds over a chain: others may change it meanwhile, and a round removes at
 * most FWDCHAIN_MAX_OURS rules. */
#define MAX_ROUNDS 100

/* Whether there is a table of ours: 0, ENOENT or another error. */
static int
find_table(struct nfnl *nl)
{
    struct ds ds = DS_EMPTY_INITIALIZER;
    int error = nftable_read(nl, &ds);

    ds_destroy(&ds);
    return error == EINTR ? 0 : error;
}

static int
clean_table(struct nfnl *nl, struct ds *done, struct err *err)
{
    struct nfnl_batch batch;
    int error = find_table(nl);

    if (error) {
        err_set(err, "%s", ovs_strerror(error));
        return error == ENOENT ? 0 : error;
    }
    nfnl_batch_init(&batch);
    nftable_remove(&batch);
    error = nfnl_batch_send(nl, &batch, err);
    nfnl_batch_uninit(&batch);
    if (!error) {
        ds_put_cstr(done, "removed nftables table inet " RULES_TABLE "\n");
    }
    return error;
}

static int
clean_chain(struct nfnl *nl, enum ip_family family, struct ds *done,
            struct err *err)
{
    struct fwdchain fc = { .family = family };
    size_t n = 0;
    int error = 0;

    for (int i = 0; i < MAX_ROUNDS; i++) {
        struct nfnl_batch batch;

        error = fwdchain_read(&fc, nl, NULL);
        if (error == EINTR) {
            continue;
        } else if (error || !fc.n_ours) {
            break;
        }
        nfnl_batch_init(&batch);
        fwdchain_remove(&fc, &batch);
        error = nfnl_batch_send(nl, &batch, err);
        nfnl_batch_uninit(&batch);
        if (error) {
            break;
        }
        n += fc.n_ours;
    }
    if (n) {
        ds_put_format(done,
                      "removed %" PRIuSIZE
                      " rules from nftables chain %s " FWDCHAIN_TABLE
                      " " FWDCHAIN_NAME "\n",
                      n, fwdchain_family_name(&fc));
    }
    return error;
}

int
rules_cleanup(struct ds *done, struct err *err)
{
    struct nfnl *nl;
    int error = nfnl_open(&nl);

    if (error) {
        err_set(err, "nfnetlink: %s", ovs_strerror(error));
        return error;
    }
    error = clean_table(nl, done, err);
    for (enum ip_family f = 0; f < N_IP_FAMILIES; f++) {
        struct err chain_err = { "" };
        int chain_error = clean_chain(nl, f, done, &chain_err);

        if (chain_error && !error) {
            error = chain_error;
            err_set(err, "%s", chain_err.msg);
        }
    }
    nfnl_close(nl);
    return error;
}
