/* SPDX-License-Identifier: Apache-2.0 */
/* Credentials that are renewed under our feet. */

#include "ofproxyd/kube/creds.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openvswitch/vlog.h>
#include <util.h>

VLOG_DEFINE_THIS_MODULE(kube_creds);

/* Frees a secret and leaves nothing of it in memory. */
static void
forget(char *value, size_t len)
{
    if (value) {
        explicit_bzero(value, len);
        free(value);
    }
}

void
creds_init(struct creds *creds)
{
    *creds = (struct creds){ { NULL, NULL, 0 } };
}

static void
item_uninit(struct creds_item *item)
{
    free(item->file);
    forget(item->value, item->len);
}

void
creds_uninit(struct creds *creds)
{
#define CREDS_ITEM(MEMBER, NAME) item_uninit(&creds->MEMBER);
    CREDS_ITEMS
#undef CREDS_ITEM
    creds_init(creds);
}

void
creds_item_set(struct creds_item *item, const char *text, const char *file)
{
    item_uninit(item);
    item->file = file && file[0] ? xstrdup(file) : NULL;
    item->value = text && text[0] ? xstrdup(text) : NULL;
    item->len = text ? strlen(text) : 0;
}

/* Reads from 'fd' until 'buf' of 'size' is full or the file ends.  Returns
 * the length, or -1 with errno set. */
static ssize_t
read_all(int fd, char *buf, size_t size)
{
    size_t n = 0;

    while (n < size) {
        ssize_t got = read(fd, buf + n, size - n);
        if (got < 0 && errno != EINTR) {
            return -1;
        } else if (!got) {
            break;
        }
        n += got > 0 ? got : 0;
    }
    return n;
}

/* Reads 'file' into memory that the caller has to forget().  Returns 0 or
 * errno.  What is no regular file (a pipe that nobody writes to) isn't
 * read. */
static int
read_file(const char *file, char **ret_text, size_t *ret_len)
{
    int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;
    int error = 0;

    if (fd < 0) {
        return errno;
    }
    if (fstat(fd, &st)) {
        error = errno;
    } else if (!S_ISREG(st.st_mode)) {
        error = EINVAL;
    } else if (st.st_size > CREDS_FILE_MAX) {
        error = EFBIG;
    } else {
        /* A file that grows meanwhile is cut off, and read again whole the
         * next time. */
        char *text = xmalloc(st.st_size + 1);
        ssize_t n = read_all(fd, text, st.st_size);

        if (n < 0) {
            error = errno;
            forget(text, st.st_size);
        } else {
            text[n] = '\0';
            *ret_text = text;
            *ret_len = n;
        }
    }
    close(fd);
    return error;
}

/* Cuts white space off both ends. */
static void
trim(char *s, size_t *len)
{
    const char *space = " \t\r\n";
    size_t start = 0;

    while (*len && strchr(space, s[*len - 1])) {
        s[--*len] = '\0';
    }
    while (start < *len && strchr(space, s[start])) {
        start++;
    }
    memmove(s, s + start, *len - start + 1);
    *len -= start;
}

/* Whether 'value' can be sent as a bearer token: a blank or control character
 * in it would change the request's head. */
static bool
is_token(const char *value, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (value[i] <= 0x20 || value[i] >= 0x7f) {
            return false;
        }
    }
    return len > 0;
}

static bool
is_text(const char *value, size_t len)
{
    return len > 0 && !memchr(value, '\0', len);
}

/* Reads the item's file again, if it has one.  'valid' tells whether what it
 * holds can be used. */
static int
item_refresh(struct creds_item *item, const char *name,
             bool (*valid)(const char *, size_t), struct err *err)
{
    static struct vlog_rate_limit rl = VLOG_RATE_LIMIT_INIT(1, 4);
    const char *problem = NULL;
    char *value = NULL;
    size_t len = 0;
    int error;

    if (!item->file) {
        return 0;
    }

    error = read_file(item->file, &value, &len);
    if (!error) {
        trim(value, &len);
        if (valid(value, len)) {
            forget(item->value, item->len);
            item->value = value;
            item->len = len;
            return 0;
        }
        problem = len ? "holds no usable text" : "is empty";
        forget(value, len);
        error = EINVAL;
    } else {
        problem = ovs_strerror(error);
    }

    if (item->value) {
        VLOG_WARN_RL(&rl, "%s file \"%s\": %s; what was read before stays",
                     name, item->file, problem);
        return 0;
    }
    err_set(err, "%s file \"%s\": %s", name, item->file, problem);
    return error;
}

int
creds_check(const struct creds *creds, struct err *err)
{
    const struct creds_item *cert = &creds->cert;
    const struct creds_item *key = &creds->key;
    const struct creds_item *token = &creds->token;

    if (token->value && !is_token(token->value, token->len)) {
        err_set(err, "the token holds a blank or a control character");
    } else if ((cert->file || cert->value) && !key->file && !key->value) {
        err_set(err, "a client certificate is given, but not its key");
    } else if ((key->file || key->value) && !cert->file && !cert->value) {
        err_set(err, "a client key is given, but not its certificate");
    } else {
        return 0;
    }
    return EINVAL;
}

int
creds_refresh(struct creds *creds, struct err *err)
{
    int error = 0;

#define CREDS_ITEM(MEMBER, NAME)                                        \
    if (!error) {                                                       \
        error = item_refresh(&creds->MEMBER, NAME,                      \
                             &creds->MEMBER == &creds->token ? is_token \
                                                             : is_text, \
                             err);                                      \
    }
    CREDS_ITEMS
#undef CREDS_ITEM
    return error;
}
