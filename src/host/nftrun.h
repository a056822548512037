/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOST_NFTRUN_H
#define HOST_NFTRUN_H 1

/* Commands in nft's language, by libnftables.
 *
 * The library's context, with what it reads of the host's rules into it, can
 * take megabytes, and calls are rare: it is made for a call and freed a second
 * after it.  Not at once, since to close its socket the kernel waits until
 * what was deleted is gone for good, some tens of milliseconds. */

#include <openvswitch/compiler.h>

#include "ofproxyd/base/err.h"

struct nft_ctx;

struct nftrun {
    struct nft_ctx *ctx;   /* Or NULL. */
    long long int tidy_ms; /* When to free it. */
};

#define NFTRUN_INIT \
    {               \
        NULL, 0     \
    }
void nftrun_uninit(struct nftrun *);

/* Carries out 'commands' as one transaction.  Returns 0 or a positive errno
 * value, then with the reason in 'err'. */
int nftrun(struct nftrun *, const char *commands, struct err *err)
    OVS_WARN_UNUSED_RESULT;

/* Frees what is not needed any more. */
void nftrun_tidy(struct nftrun *);
/* Arranges for poll_block() to wake up when nftrun_tidy() has work. */
void nftrun_wait(const struct nftrun *);

#endif /* host/nftrun.h */
