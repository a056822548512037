/* SPDX-License-Identifier: Apache-2.0 */
/* The only file that knows libnftables. */

#include "nftrun.h"

#include <errno.h>
#include <malloc.h>
#include <nftables/libnftables.h>
#include <stdlib.h>
#include <string.h>

#include <openvswitch/poll-loop.h>
#include <openvswitch/util.h>
#include <timeval.h>
#include <util.h>

#include "nfnl.h"

/* How long a context is kept after its last use. */
#define KEEP_MS 1000

/* The library's complaint: its first line that says something. */
static void
explain(const char *text, struct err *err)
{
    static const char error[] = "Error: ";
    const char *start = text ? strstr(text, error) : NULL;

    start = start ? start + strlen(error) : text && *text ? text : "no reason";
    err_set(err, "%.*s", (int) strcspn(start, "\n"), start);
}

/* Makes a context.  Returns 0 or a positive errno value. */
static int
make_ctx(struct nftrun *run)
{
    struct nl_sock *sock;
    int error;

    /* Without a socket the library ends the process. */
    error = nfnl_sock_open(&sock);
    if (error) {
        return error;
    }
    nl_socket_free(sock);

    run->ctx = nft_ctx_new(NFT_CTX_DEFAULT);
    if (!run->ctx || nft_ctx_buffer_output(run->ctx)
        || nft_ctx_buffer_error(run->ctx)) {
        out_of_memory();
    }
    return 0;
}

int
nftrun(struct nftrun *run, const char *commands, struct err *err)
{
    int error = run->ctx ? 0 : make_ctx(run);

    if (error) {
        err_set(err, "%s", ovs_strerror(error));
        return error;
    }
    run->tidy_ms = time_msec() + KEEP_MS;
    errno = 0;
    if (nft_run_cmd_from_buffer(run->ctx, commands)) {
        error = errno ? errno : EINVAL;
        explain(nft_ctx_get_error_buffer(run->ctx), err);
        nftrun_uninit(run); /* Whatever state it is in. */
    }
    return error;
}

void
nftrun_uninit(struct nftrun *run)
{
    if (run->ctx) {
        nft_ctx_free(run->ctx);
        run->ctx = NULL;
        /* It can have been a lot, in small pieces. */
        malloc_trim(0);
    }
}

void
nftrun_tidy(struct nftrun *run)
{
    if (run->ctx && time_msec() >= run->tidy_ms) {
        nftrun_uninit(run);
    }
}

void
nftrun_wait(const struct nftrun *run)
{
    if (run->ctx) {
        poll_timer_wait_until(run->tidy_ms);
    }
}
