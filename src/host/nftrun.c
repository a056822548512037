/* SPDX-License-Identifier: Apache-2.0 */
/* The only file that knows libnftables.
 *
 * The library's context, with what it reads of the host's rules into it, is
 * made for each call and freed after it, since calls are rare and it can
 * take megabytes. */

#include "nftrun.h"

#include <errno.h>
#include <malloc.h>
#include <nftables/libnftables.h>
#include <stdlib.h>
#include <string.h>

#include <openvswitch/util.h>
#include <util.h>

#include "nfnl.h"

/* The library's complaint: its first line that says something. */
static void
explain(const char *text, struct err *err)
{
    static const char error[] = "Error: ";
    const char *start = text ? strstr(text, error) : NULL;

    start = start ? start + strlen(error) : text && *text ? text : "no reason";
    err_set(err, "%.*s", (int) strcspn(start, "\n"), start);
}

int
nftrun(const char *commands, struct err *err)
{
    struct nl_sock *sock;
    int error;

    /* Without a socket the library ends the process. */
    error = nfnl_sock_open(&sock);
    if (error) {
        err_set(err, "%s", ovs_strerror(error));
        return error;
    }
    nl_socket_free(sock);

    struct nft_ctx *ctx = nft_ctx_new(NFT_CTX_DEFAULT);
    if (!ctx) {
        out_of_memory();
    }
    if (nft_ctx_buffer_output(ctx) || nft_ctx_buffer_error(ctx)) {
        error = ENOMEM;
        err_set(err, "%s", ovs_strerror(error));
    } else {
        errno = 0;
        if (nft_run_cmd_from_buffer(ctx, commands)) {
            error = errno ? errno : EINVAL;
            explain(nft_ctx_get_error_buffer(ctx), err);
        }
    }
    nft_ctx_free(ctx);
    malloc_trim(0);
    return error;
}
