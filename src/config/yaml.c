/* SPDX-License-Identifier: Apache-2.0 */
/* Reads YAML into a tree.  The only file that knows libyaml, which is used
 * as a source of events: its own document loader would follow aliases and
 * keep no limits. */

#include "ofproxyd/config/yaml.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <util.h>
#include <yaml.h>

/* Bytes of a scalar that ydoc_describe() shows. */
#define DESCRIBE_BYTES 60

struct reader {
    yaml_parser_t parser;
    const char *name;
    const char *text;
    size_t len;
    size_t n_nodes;
    struct err *err;
};

static int read_node(struct reader *, yaml_event_t *, int depth,
                     struct ydoc_node **ret);

/* Sets the error at a position that counts from 0, as libyaml's do. */
static int OVS_PRINTF_FORMAT(4, 5) fail(const struct reader *r, size_t line,
                                        size_t column, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = xvasprintf(format, args);
    va_end(args);

    err_set(r->err, "%s:%" PRIuSIZE ":%" PRIuSIZE ": %s", r->name, line + 1,
            column + 1, text);
    free(text);
    return EINVAL;
}

/* Reading the file. */

static int
read_all(int fd, char *buf, size_t size, size_t *ret_len)
{
    size_t len = 0;

    while (len < size) {
        ssize_t n = read(fd, buf + len, size - len);
        if (n > 0) {
            len += n;
        } else if (!n) {
            break;
        } else if (errno != EINTR) {
            return errno;
        }
    }
    *ret_len = len;
    return 0;
}

static int
read_regular_file(int fd, char **ret_text, size_t *ret_len, struct err *err)
{
    struct stat s;
    if (fstat(fd, &s)) {
        int error = errno;
        err_set(err, "%s", ovs_strerror(error));
        return error;
    }
    if (!S_ISREG(s.st_mode)) {
        err_set(err, "not a regular file");
        return EINVAL;
    }
    if (s.st_size > YDOC_MAX_BYTES) {
        err_set(err, "the file has %lld bytes, allowed at most %d",
                (long long int) s.st_size, YDOC_MAX_BYTES);
        return EFBIG;
    }

    /* One byte more than allowed, because the file may grow meanwhile. */
    char *text = xmalloc(YDOC_MAX_BYTES + 2);
    size_t len = 0;
    int error = read_all(fd, text, YDOC_MAX_BYTES + 1, &len);
    if (error) {
        err_set(err, "%s", ovs_strerror(error));
    } else if (len > YDOC_MAX_BYTES) {
        err_set(err, "the file is too large, allowed at most %d bytes",
                YDOC_MAX_BYTES);
        error = EFBIG;
    }
    if (error) {
        free(text);
        return error;
    }
    text[len] = '\0';
    *ret_text = xrealloc(text, len + 1);
    *ret_len = len;
    return 0;
}

int
ydoc_read_file(const char *path, char **ret_text, size_t *ret_len,
               struct err *err)
{
    /* Not to wait for the other side of a FIFO. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        int error = errno;
        err_set(err, "%s: %s", path, ovs_strerror(error));
        return error;
    }

    int error = read_regular_file(fd, ret_text, ret_len, err);
    if (error) {
        err_prefix(err, "%s: ", path);
    }
    close(fd);
    return error;
}

/* Characters. */

/* Decodes one UTF-8 character from the 'len' > 0 bytes at 's'.  Returns its
 * length, 0 if there is none. */
static size_t
decode_utf8(const unsigned char *s, size_t len, uint32_t *ret)
{
    static const uint32_t smallest[] = { 0, 0, 0x80, 0x800, 0x10000 };
    size_t n = s[0] < 0x80             ? 1
               : (s[0] & 0xe0) == 0xc0 ? 2
               : (s[0] & 0xf0) == 0xe0 ? 3
               : (s[0] & 0xf8) == 0xf0 ? 4
                                       : 0;
    if (!n || n > len) {
        return 0;
    }

    uint32_t c = n == 1 ? s[0] : s[0] & (0x7f >> n);
    for (size_t i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80) {
            return 0;
        }
        c = c << 6 | (s[i] & 0x3f);
    }
    if (c < smallest[n] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff)) {
        return 0;
    }
    *ret = c;
    return n;
}

/* YAML 1.1's set of printable characters. */
static bool
is_printable(uint32_t c)
{
    return c == '\t' || c == '\n' || c == '\r' || (c >= 0x20 && c <= 0x7e)
           || c == 0x85 || (c >= 0xa0 && c != 0xfffe && c != 0xffff);
}

static bool
is_break(uint32_t c)
{
    return c == '\n' || c == '\r' || c == 0x85 || c == 0x2028 || c == 0x2029;
}

/* A place in the text, counted as libyaml does. */
struct place {
    size_t offset, line, column;
};

/* Moves 'p' over the character 'c' of 'n' bytes. */
static void
place_advance(const struct reader *r, struct place *p, uint32_t c, size_t n)
{
    p->offset += n;
    if (c == '\r' && p->offset < r->len && r->text[p->offset] == '\n') {
        /* The line ends after the '\n'. */
        return;
    }
    if (is_break(c)) {
        p->line++;
        p->column = 0;
    } else {
        p->column++;
    }
}

/* libyaml also refuses most of what is refused here, but doesn't say
 * where. */
static int
check_characters(const struct reader *r)
{
    struct place p = { 0, 0, 0 };

    while (p.offset < r->len) {
        const unsigned char *s = (const unsigned char *) r->text + p.offset;
        uint32_t c;
        size_t n = decode_utf8(s, r->len - p.offset, &c);
        if (!n) {
            return fail(r, p.line, p.column,
                        "byte 0x%02x is not part of valid UTF-8", *s);
        }
        if (!c) {
            return fail(r, p.line, p.column, "null byte");
        }
        if (!is_printable(c)) {
            return fail(r, p.line, p.column, "control character U+%04X",
                        (unsigned int) c);
        }
        if (c == '%' && !p.column) {
            /* libyaml compares each %TAG with all others. */
            return fail(r, p.line, p.column, "directives are not allowed");
        }
        place_advance(r, &p, c, n);
    }
    return 0;
}

/* Returns the offset of the first character of 'line', which the text
 * has. */
static size_t
line_offset(const struct reader *r, size_t line)
{
    struct place p = { 0, 0, 0 };

    while (p.line < line && p.offset < r->len) {
        uint32_t c = 0;
        size_t n = decode_utf8((const unsigned char *) r->text + p.offset,
                               r->len - p.offset, &c);
        place_advance(r, &p, c, n ? n : 1);
    }
    return p.offset;
}

/* Returns true if there is a tab among the blanks before the character at
 * 'mark', or at 'mark', and sets '*ret_column' to the first one's column. */
static bool
tab_indents(const struct reader *r, const yaml_mark_t *mark,
            size_t *ret_column)
{
    size_t offset = line_offset(r, mark->line);

    for (size_t i = 0; i <= mark->column && offset + i < r->len; i++) {
        if (r->text[offset + i] == '\t') {
            *ret_column = i;
            return true;
        }
        if (r->text[offset + i] != ' ') {
            break;
        }
    }
    return false;
}

/* Events. */

static int
parser_error(const struct reader *r)
{
    const yaml_parser_t *p = &r->parser;
    if (p->error == YAML_MEMORY_ERROR) {
        out_of_memory();
    }

    const yaml_mark_t *mark = &p->problem_mark;
    const char *problem = p->problem ? p->problem : "unknown error";
    size_t column;
    if (p->error == YAML_SCANNER_ERROR && tab_indents(r, mark, &column)) {
        return fail(r, mark->line, column,
                    "a tab is not allowed as indentation");
    }
    if (p->context && p->context_mark.line != mark->line) {
        return fail(r, mark->line, mark->column,
                    "not valid YAML: %s %s that begins on line %" PRIuSIZE,
                    problem, p->context, p->context_mark.line + 1);
    }
    return fail(r, mark->line, mark->column, "not valid YAML: %s%s%s", problem,
                p->context ? " " : "", p->context ? p->context : "");
}

static int
next_event(struct reader *r, yaml_event_t *event)
{
    return yaml_parser_parse(&r->parser, event) ? 0 : parser_error(r);
}

/* Refuses what gives one text two meanings. */
static int
check_properties(const struct reader *r, const yaml_mark_t *mark,
                 const yaml_char_t *anchor, const yaml_char_t *tag)
{
    if (anchor) {
        return fail(r, mark->line, mark->column,
                    "anchor \"&%.60s\": anchors and aliases are not allowed",
                    (const char *) anchor);
    }
    if (tag) {
        return fail(r, mark->line, mark->column,
                    "tag \"%.60s\": tags are not allowed", (const char *) tag);
    }
    return 0;
}

static bool
is_null_text(const char *s)
{
    return !*s || !strcmp(s, "~") || !strcmp(s, "null") || !strcmp(s, "Null")
           || !strcmp(s, "NULL");
}

static int
fill_scalar(const struct reader *r, const yaml_event_t *event,
            struct ydoc_node *node)
{
    const char *value = (const char *) event->data.scalar.value;
    const yaml_mark_t *mark = &event->start_mark;
    int error = check_properties(r, mark, event->data.scalar.anchor,
                                 event->data.scalar.tag);
    if (error) {
        return error;
    }
    if (strlen(value) != event->data.scalar.length) {
        return fail(r, mark->line, mark->column, "null byte in a string");
    }

    node->text = xstrdup(value);
    node->quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    node->kind =
        !node->quoted && is_null_text(value) ? YDOC_NULL : YDOC_SCALAR;
    return 0;
}

static int
fill_list(struct reader *r, const yaml_event_t *start, int depth,
          struct ydoc_node *node)
{
    size_t allocated = 0;
    int error = check_properties(r, &start->start_mark,
                                 start->data.sequence_start.anchor,
                                 start->data.sequence_start.tag);

    node->kind = YDOC_LIST;
    while (!error) {
        yaml_event_t event;
        error = next_event(r, &event);
        if (error) {
            break;
        }
        if (event.type == YAML_SEQUENCE_END_EVENT) {
            yaml_event_delete(&event);
            break;
        }

        struct ydoc_node *item;
        error = read_node(r, &event, depth + 1, &item);
        if (!error) {
            if (node->n >= allocated) {
                node->values =
                    x2nrealloc(node->values, &allocated, sizeof *node->values);
            }
            node->values[node->n++] = item;
        }
    }
    return error;
}

static int
check_key(const struct reader *r, const struct ydoc_node *key)
{
    if (key->kind == YDOC_LIST || key->kind == YDOC_MAP) {
        return fail(r, key->line - 1, key->column - 1,
                    "a key has to be a word");
    }
    if (!*key->text) {
        return fail(r, key->line - 1, key->column - 1, "a key is missing");
    }
    if (!key->quoted && !strcmp(key->text, "<<")) {
        return fail(r, key->line - 1, key->column - 1,
                    "merge key \"<<\" is not allowed");
    }
    return 0;
}

/* Reads a key, which begins with 'event', and its value. */
static int
read_pair(struct reader *r, yaml_event_t *event, int depth,
          struct ydoc_node **ret_key, struct ydoc_node **ret_value)
{
    struct ydoc_node *key;
    int error = read_node(r, event, depth, &key);
    if (error) {
        return error;
    }

    error = check_key(r, key);
    if (!error) {
        yaml_event_t next;
        error = next_event(r, &next);
        if (!error) {
            error = read_node(r, &next, depth, ret_value);
        }
    }
    if (error) {
        ydoc_destroy(key);
        return error;
    }
    *ret_key = key;
    return 0;
}

static int
compare_keys(const void *a_, const void *b_)
{
    const struct ydoc_node *a = *(const struct ydoc_node *const *) a_;
    const struct ydoc_node *b = *(const struct ydoc_node *const *) b_;
    int cmp = strcmp(a->text, b->text);

    if (!cmp) {
        cmp = a->line != b->line
                  ? (a->line > b->line ? 1 : -1)
                  : (a->column > b->column) - (a->column < b->column);
    }
    return cmp;
}

/* Sorts instead of comparing all pairs: a mapping may have as many keys as
 * fit into the file. */
static int
check_duplicates(const struct reader *r, const struct ydoc_node *map)
{
    const struct ydoc_node *first = NULL;
    const struct ydoc_node *second = NULL;
    if (map->n < 2) {
        return 0;
    }

    struct ydoc_node **keys = xmemdup(map->keys, map->n * sizeof *keys);
    qsort(keys, map->n, sizeof *keys, compare_keys);
    for (size_t i = 1; i < map->n; i++) {
        const struct ydoc_node *k = keys[i];
        if (!strcmp(keys[i - 1]->text, k->text)
            && (!second || k->line < second->line
                || (k->line == second->line && k->column < second->column))) {
            first = keys[i - 1];
            second = k;
        }
    }
    free(keys);
    return second ? fail(r, second->line - 1, second->column - 1,
                         "duplicate key \"%.60s\", first on line %d",
                         second->text, first->line)
                  : 0;
}

static int
fill_map(struct reader *r, const yaml_event_t *start, int depth,
         struct ydoc_node *node)
{
    size_t allocated_keys = 0;
    size_t allocated_values = 0;
    int error = check_properties(r, &start->start_mark,
                                 start->data.mapping_start.anchor,
                                 start->data.mapping_start.tag);

    node->kind = YDOC_MAP;
    while (!error) {
        yaml_event_t event;
        error = next_event(r, &event);
        if (error) {
            break;
        }
        if (event.type == YAML_MAPPING_END_EVENT) {
            yaml_event_delete(&event);
            return check_duplicates(r, node);
        }

        struct ydoc_node *key, *value;
        error = read_pair(r, &event, depth + 1, &key, &value);
        if (!error) {
            if (node->n >= allocated_keys) {
                node->keys = x2nrealloc(node->keys, &allocated_keys,
                                        sizeof *node->keys);
                node->values = x2nrealloc(node->values, &allocated_values,
                                          sizeof *node->values);
            }
            node->keys[node->n] = key;
            node->values[node->n++] = value;
        }
    }
    return error;
}

static int
fill_node(struct reader *r, const yaml_event_t *event, int depth,
          struct ydoc_node *node)
{
    const yaml_mark_t *mark = &event->start_mark;

    if (event->type == YAML_ALIAS_EVENT) {
        return fail(r, mark->line, mark->column,
                    "alias \"*%.60s\": anchors and aliases are not allowed",
                    (const char *) event->data.alias.anchor);
    }
    if (depth > YDOC_MAX_DEPTH) {
        return fail(r, mark->line, mark->column,
                    "nested deeper than %d levels", YDOC_MAX_DEPTH);
    }
    if (++r->n_nodes > YDOC_MAX_NODES) {
        return fail(r, mark->line, mark->column,
                    "more than %d keys and values", YDOC_MAX_NODES);
    }
    if (event->type == YAML_SEQUENCE_START_EVENT) {
        return fill_list(r, event, depth, node);
    }
    if (event->type == YAML_MAPPING_START_EVENT) {
        return fill_map(r, event, depth, node);
    }
    return fill_scalar(r, event, node);
}

/* Reads the node that begins with 'event', which is deleted. */
static int
read_node(struct reader *r, yaml_event_t *event, int depth,
          struct ydoc_node **ret)
{
    struct ydoc_node *node = xzalloc(sizeof *node);
    /* No text is longer than YDOC_MAX_BYTES. */
    node->line = (int) event->start_mark.line + 1;
    node->column = (int) event->start_mark.column + 1;

    int error = fill_node(r, event, depth, node);
    yaml_event_delete(event);
    if (error) {
        ydoc_destroy(node);
        return error;
    }
    *ret = node;
    return 0;
}

/* Checks that the stream ends after the first document. */
static int
expect_end(struct reader *r)
{
    yaml_event_t event;
    int error = next_event(r, &event);
    if (!error) {
        if (event.type == YAML_DOCUMENT_END_EVENT) {
            yaml_event_delete(&event);
            return expect_end(r);
        }
        if (event.type != YAML_STREAM_END_EVENT) {
            error = fail(r, event.start_mark.line, event.start_mark.column,
                         "a second document begins here, only one is allowed");
        }
        yaml_event_delete(&event);
    }
    return error;
}

static struct ydoc_node *
new_null(void)
{
    struct ydoc_node *node = xzalloc(sizeof *node);

    node->kind = YDOC_NULL;
    node->line = node->column = 1;
    node->text = xstrdup("");
    return node;
}

static int
read_document(struct reader *r, struct ydoc_node **ret)
{
    yaml_event_t event;
    int error;

    do {
        error = next_event(r, &event);
        if (error) {
            return error;
        }
        if (event.type == YAML_STREAM_END_EVENT) {
            yaml_event_delete(&event);
            *ret = new_null();
            return 0;
        }
        if (event.type == YAML_STREAM_START_EVENT
            || event.type == YAML_DOCUMENT_START_EVENT) {
            yaml_event_delete(&event);
            event.type = YAML_NO_EVENT;
        }
    } while (event.type == YAML_NO_EVENT);

    struct ydoc_node *root;
    error = read_node(r, &event, 0, &root);
    if (error) {
        return error;
    }
    error = expect_end(r);
    if (error) {
        ydoc_destroy(root);
        return error;
    }
    *ret = root;
    return 0;
}

int
ydoc_parse(const char *name, const char *text, size_t len,
           struct ydoc_node **ret, struct err *err)
{
    struct reader r = { .name = name, .text = text, .len = len, .err = err };

    if (len > YDOC_MAX_BYTES) {
        err_set(err, "%s: %" PRIuSIZE " bytes, allowed at most %d", name, len,
                YDOC_MAX_BYTES);
        return EINVAL;
    }
    int error = check_characters(&r);
    if (error) {
        return error;
    }
    if (!yaml_parser_initialize(&r.parser)) {
        out_of_memory();
    }
    yaml_parser_set_input_string(&r.parser,
                                 (const unsigned char *) (len ? text : ""),
                                 len);
    yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
    error = read_document(&r, ret);
    yaml_parser_delete(&r.parser);
    return error;
}

void
ydoc_destroy(struct ydoc_node *node)
{
    if (node) {
        for (size_t i = 0; i < node->n; i++) {
            if (node->keys) {
                ydoc_destroy(node->keys[i]);
            }
            ydoc_destroy(node->values[i]);
        }
        free(node->keys);
        free(node->values);
        free(node->text);
        free(node);
    }
}

const struct ydoc_node *
ydoc_get(const struct ydoc_node *map, const char *key)
{
    if (map->kind == YDOC_MAP) {
        for (size_t i = 0; i < map->n; i++) {
            if (!strcmp(map->keys[i]->text, key)) {
                return map->values[i];
            }
        }
    }
    return NULL;
}

const char *
ydoc_describe(const struct ydoc_node *node, char buf[YDOC_DESCRIBE_MAX])
{
    switch (node->kind) {
    case YDOC_NULL: return "nothing";
    case YDOC_LIST: return "a list";
    case YDOC_MAP: return "a mapping";
    case YDOC_SCALAR: break;
    }
    snprintf(buf, YDOC_DESCRIBE_MAX, "\"%.*s%s\"", DESCRIBE_BYTES, node->text,
             strlen(node->text) > DESCRIBE_BYTES ? "..." : "");
    return buf;
}
