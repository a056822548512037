/* SPDX-License-Identifier: Apache-2.0 */
/* Lists, cut into items.
 *
 * An item is handed out where it stands in the caller's buffer when it lies
 * in it as a whole, which is the usual case, and is else gathered. */

#include "ofproxyd/kube/stream.h"

#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <util.h>

#include "jcur.h"
#include "jscan.h"
#include "stream-buf.h"

/* A token that says where the next page begins. */
#define CONTINUE_MAX ((size_t) 64 * 1024)

/* Bytes of an unexpected text that a message shows. */
#define SHOWN_MAX 60

/* List. */

/*          symbol     what is wanted next, for messages */
#define LIST_STATES                            \
    LIST_STATE(START, "the object of a list")  \
    LIST_STATE(FIRST_KEY, "a member or \"}\"") \
    LIST_STATE(KEY, "a member")                \
    LIST_STATE(COLON, "\":\"")                 \
    LIST_STATE(VALUE, "a value")               \
    LIST_STATE(MORE, "\",\" or \"}\"")         \
    LIST_STATE(FIRST_ITEM, "an item or \"]\"") \
    LIST_STATE(ITEM, "an item")                \
    LIST_STATE(MORE_ITEMS, "\",\" or \"]\"")   \
    LIST_STATE(END, "the end of the body")

enum list_state {
#define LIST_STATE(SYM, WANT) LIST_##SYM,
    LIST_STATES
#undef LIST_STATE
};

static const char *const list_wants[] = {
#define LIST_STATE(SYM, WANT) WANT,
    LIST_STATES
#undef LIST_STATE
};

/* The members of the list's own object. */
enum list_member {
    MEMBER_UNKNOWN,
    MEMBER_KIND,
    MEMBER_METADATA,
    MEMBER_ITEMS,
    MEMBER_MESSAGE /* Of a Status, to tell what came instead of a list. */
};

static const char *const list_members[] = { "", "kind", "metadata", "items",
                                            "message" };

struct kube_list {
    enum list_state state;
    struct piece in;
    uint64_t n_bytes; /* Of the body, before 'in'. */
    uint64_t n_items;

    struct jscan scan; /* Of the key, value or item that is being read. */
    struct gather text;
    bool text_taken; /* 'text' is what was handed out last. */
    enum list_member member;

    bool has_items;
    char kind[64];
    char message[200];
    char resource_version[64];
    char *cont; /* NULL or malloc()ed. */

    bool failed;
    struct err err;
};

struct kube_list *
kube_list_create(void)
{
    return xzalloc(sizeof(struct kube_list));
}

void
kube_list_destroy(struct kube_list *l)
{
    if (l) {
        free(l->text.data);
        free(l->cont);
        free(l);
    }
}

/* Tells what stands at 'text' instead of what the state wants. */
static void
list_fail_here(struct kube_list *l, const char *text, size_t n)
{
    int shown = MIN(n, SHOWN_MAX);

    l->failed = true;
    if (l->state == LIST_START) {
        err_set(&l->err, "not a list: the body begins with \"%.*s\"", shown,
                text);
    } else {
        err_set(&l->err,
                "broken list: after %" PRIu64 " items and %" PRIu64 " bytes: "
                "found \"%.*s\", want %s",
                l->n_items, l->n_bytes + l->in.pos, shown, text,
                list_wants[l->state]);
    }
}

/* Reading of the small values of the list's own object. */

static void
read_resource_version(struct jcur *c, void *list_)
{
    struct kube_list *l = list_;

    ovs_strlcpy(l->resource_version,
                jcur_text(c, sizeof l->resource_version - 1),
                sizeof l->resource_version);
}

static void
read_continue(struct jcur *c, void *list_)
{
    struct kube_list *l = list_;

    free(l->cont);
    l->cont = xstrdup(jcur_text(c, CONTINUE_MAX));
}

static void
read_message(struct jcur *c, struct kube_list *l)
{
    struct jstr s = jcur_string(c);
    size_t n = MIN(s.n, sizeof l->message - 1);

    memcpy(l->message, s.s, n);
    l->message[n] = '\0';
}

static void
read_list_member(struct kube_list *l, struct jcur *c)
{
    static const struct jcur_member meta_members[] = {
        JCUR_MEMBER("resourceVersion", read_resource_version),
        JCUR_MEMBER("continue", read_continue),
    };

    switch (l->member) {
    case MEMBER_UNKNOWN: break;
    case MEMBER_KIND:
        ovs_strlcpy(l->kind, jcur_text(c, sizeof l->kind - 1), sizeof l->kind);
        break;
    case MEMBER_METADATA:
        l->resource_version[0] = '\0';
        free(l->cont);
        l->cont = NULL;
        jcur_object(c, meta_members, ARRAY_SIZE(meta_members), l);
        break;
    case MEMBER_ITEMS:
        if (!jcur_null(c)) {
            jcur_mismatch(c, c->p, "an array");
        }
        l->has_items = true;
        break;
    case MEMBER_MESSAGE: read_message(c, l); break;
    }
}

static void
list_read_value(struct kube_list *l, const char *text, size_t n)
{
    struct jcur c;

    jcur_init(&c, text, n, &l->err);
    read_list_member(l, &c);
    if (c.failed) {
        l->failed = true;
        err_prefix(&l->err, "broken list: %s: ", list_members[l->member]);
    }
    jcur_uninit(&c);
}

static void
list_read_key(struct kube_list *l, const char *text, size_t n)
{
    struct jcur c;
    struct jstr key;

    jcur_init(&c, text, n, &l->err);
    key = jcur_key(&c);
    l->member = MEMBER_UNKNOWN;
    for (size_t i = 0; i < ARRAY_SIZE(list_members); i++) {
        if (jstr_equals(key, list_members[i])) {
            l->member = i;
        }
    }
    if (c.failed) {
        l->failed = true;
        err_prefix(&l->err, "broken list: ");
    } else if (l->member == MEMBER_ITEMS && l->has_items) {
        l->failed = true;
        err_set(&l->err, "broken list: more than one \"items\"");
    }
    jcur_uninit(&c);
}

static bool
is_list_kind(const char *kind)
{
    size_t n = strlen(kind);

    return n >= 4 && !strcmp(kind + n - 4, "List");
}

/* What came in place of a list. */
static void
fail_no_list(struct kube_list *l)
{
    l->failed = true;
    if (!l->kind[0]) {
        err_set(&l->err, "not a list: an object without a kind");
    } else {
        err_set(&l->err, "not a list but of kind \"%s\"%s%s", l->kind,
                l->message[0] ? ": " : "", l->message);
    }
}

/* Reads on in the value, key or item that is next.  Returns true and its
 * text once it is whole.  The text of unknown members is not kept, nor the
 * rest of an item that is too large. */
static bool
list_capture(struct kube_list *l, const char **ret_text, size_t *ret_len)
{
    const char *p = l->in.data + l->in.pos;
    bool keep = l->state != LIST_VALUE || l->member != MEMBER_UNKNOWN;
    size_t n, n_kept, room = KUBE_OBJECT_MAX + 1 - l->text.n;
    enum jscan_result result;

    result = jscan_run(&l->scan, p, l->in.n - l->in.pos, &n);
    n_kept = MIN(n, room);
    if (result == JSCAN_BAD) {
        list_fail_here(l, p, l->in.n - l->in.pos);
        return false;
    } else if (keep && n >= room && l->state != LIST_ITEM) {
        l->failed = true;
        err_set(&l->err,
                "broken list: after %" PRIu64 " items: %s has more than "
                "%zu bytes",
                l->n_items, list_wants[l->state], KUBE_OBJECT_MAX);
        return false;
    }
    l->in.pos += n;
    if (keep && (result == JSCAN_MORE || l->text.n)) {
        gather_append(&l->text, p, n_kept);
    }
    *ret_text = l->text.n ? l->text.data : p;
    *ret_len = l->text.n ? l->text.n : n_kept;
    if (result == JSCAN_DONE) {
        l->scan = (struct jscan) JSCAN_INIT;
    }
    return result == JSCAN_DONE;
}

/* Takes the punctuation mark 'c', which is next.  Returns false if it is
 * none that the state knows: then something longer begins here. */
static bool
list_punctuation(struct kube_list *l, char c)
{
    static const struct {
        enum list_state from;
        char c;
        enum list_state to;
    } moves[] = {
        { LIST_START, '{', LIST_FIRST_KEY },
        { LIST_FIRST_KEY, '}', LIST_END },
        { LIST_COLON, ':', LIST_VALUE },
        { LIST_MORE, ',', LIST_KEY },
        { LIST_MORE, '}', LIST_END },
        { LIST_FIRST_ITEM, ']', LIST_MORE },
        { LIST_MORE_ITEMS, ',', LIST_ITEM },
        { LIST_MORE_ITEMS, ']', LIST_MORE },
    };

    for (size_t i = 0; i < ARRAY_SIZE(moves); i++) {
        if (moves[i].from == l->state && moves[i].c == c) {
            l->state = moves[i].to;
            l->in.pos++;
            return true;
        }
    }
    return false;
}

/* Enters the array of items if 'c', the first byte of a value, opens it. */
static bool
list_enter_items(struct kube_list *l, char c)
{
    if (l->state != LIST_VALUE || l->member != MEMBER_ITEMS || c != '[') {
        return false;
    } else if (l->kind[0] && !is_list_kind(l->kind)) {
        fail_no_list(l);
        return true;
    }
    l->has_items = true;
    l->state = LIST_FIRST_ITEM;
    l->in.pos++;
    return true;
}

/* Deals with 'c', which is next, between two tokens.  Returns false if a key,
 * value or item begins with it, which is to be captured. */
static bool
list_between(struct kube_list *l, char c)
{
    if (jscan_is_blank(c)) {
        l->in.pos++;
        return true;
    } else if (list_punctuation(l, c) || list_enter_items(l, c)) {
        return true;
    } else if (l->state == LIST_FIRST_KEY) {
        l->state = LIST_KEY;
    } else if (l->state == LIST_FIRST_ITEM) {
        l->state = LIST_ITEM;
    }
    if (l->state == LIST_VALUE || l->state == LIST_ITEM
        || (l->state == LIST_KEY && c == '"')) {
        return false;
    }
    list_fail_here(l, l->in.data + l->in.pos, l->in.n - l->in.pos);
    return true;
}

/* Reads on by one token.  Returns true if that ended an item. */
static bool
list_step(struct kube_list *l, const char **ret_text, size_t *ret_len)
{
    if ((l->scan.state == JSCAN_START
         && list_between(l, l->in.data[l->in.pos]))
        || !list_capture(l, ret_text, ret_len)) {
        return false;
    } else if (l->state == LIST_ITEM) {
        l->state = LIST_MORE_ITEMS;
        l->n_items++;
        l->text_taken = true;
        return true;
    } else if (l->state == LIST_KEY) {
        l->state = LIST_COLON;
        list_read_key(l, *ret_text, *ret_len);
    } else {
        l->state = LIST_MORE;
        list_read_value(l, *ret_text, *ret_len);
    }
    gather_clear(&l->text);
    return false;
}

static int
list_error(const struct kube_list *l, struct err *err)
{
    err_set(err, "%s", l->err.msg);
    return EINVAL;
}

int
kube_list_feed(struct kube_list *l, const char *data, size_t len,
               struct err *err)
{
    if (l->failed) {
        return list_error(l, err);
    }
    l->n_bytes += l->in.n;
    piece_set(&l->in, data, len);
    return 0;
}

bool
kube_list_next(struct kube_list *l, const char **ret_text, size_t *ret_len)
{
    if (l->text_taken) {
        gather_clear(&l->text);
        l->text_taken = false;
    }
    while (!l->failed && l->in.pos < l->in.n) {
        if (list_step(l, ret_text, ret_len)) {
            return true;
        }
    }
    return false;
}

int
kube_list_end(struct kube_list *l, const char **ret_resource_version,
              const char **ret_continue, struct err *err)
{
    if (l->failed) {
        /* Said already. */
    } else if (l->state != LIST_END) {
        uint64_t n_bytes = l->n_bytes + l->in.n;

        l->failed = true;
        if (!n_bytes) {
            err_set(&l->err, "not a list: the body is empty");
        } else {
            err_set(&l->err,
                    "broken list: cut off after %" PRIu64 " items and "
                    "%" PRIu64 " bytes, before %s",
                    l->n_items, n_bytes, list_wants[l->state]);
        }
    } else if (!is_list_kind(l->kind)) {
        fail_no_list(l);
    } else if (!l->has_items || !l->resource_version[0]) {
        l->failed = true;
        err_set(&l->err, "broken list: a \"%s\" without %s", l->kind,
                l->has_items ? "metadata.resourceVersion" : "items");
    }
    if (l->failed) {
        return list_error(l, err);
    }
    *ret_resource_version = l->resource_version;
    *ret_continue = l->cont ? l->cont : "";
    return 0;
}
