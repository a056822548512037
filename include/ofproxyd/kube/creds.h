/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_KUBE_CREDS_H
#define OFPROXYD_KUBE_CREDS_H 1

/* What convinces the API server of us, and us of the API server: bearer
 * token, CA bundle, client certificate and key.
 *
 * What stands in a file is read again for each request, by its path: the
 * kubelet replaces a token by swapping a symbolic link, and CA and client
 * certificates are renewed in place.  A file that is missing, empty or holds
 * nonsense for a moment doesn't take away what was read before.  Contents are
 * never part of a message. */

#include <stddef.h>

#include "ofproxyd/base/err.h"

/* The largest file that is taken. */
#define CREDS_FILE_MAX (1024 * 1024)

/*    member       what it is called in messages */
#define CREDS_ITEMS                        \
    CREDS_ITEM(ca, "CA")                   \
    CREDS_ITEM(cert, "client certificate") \
    CREDS_ITEM(key, "client key")          \
    CREDS_ITEM(token, "token")

/* One of them.  All strings are owned. */
struct creds_item {
    char *file;  /* Where it is read from; NULL if it isn't. */
    char *value; /* What was given or read last; NULL if nothing, never "". */
    size_t len;
};

struct creds {
#define CREDS_ITEM(MEMBER, NAME) struct creds_item MEMBER;
    CREDS_ITEMS
#undef CREDS_ITEM
};

/* Initialises to nothing at all. */
void creds_init(struct creds *);
void creds_uninit(struct creds *);

/* Sets 'item' from text and name of a file, either of which may be NULL or
 * "".  The file wins over the text when it can be read. */
void creds_item_set(struct creds_item *item, const char *text,
                    const char *file);

/* Checks what was set for contradictions.  Returns 0, or EINVAL with
 * 'err'. */
int creds_check(const struct creds *, struct err *err) OVS_WARN_UNUSED_RESULT;

/* Reads all files again.  Returns 0; or, if something that stands in a file
 * was never read, errno of the first such with 'err' that names the file. */
int creds_refresh(struct creds *, struct err *err) OVS_WARN_UNUSED_RESULT;

#endif /* ofproxyd/kube/creds.h */
