/* SPDX-License-Identifier: Apache-2.0 */
/* Turns the text of one value into the type that its option has, or says what
 * is wrong with it. */

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include <openvswitch/dynamic-string.h>
#include <util.h>

#include "load.h"
#include "server.h"

/* Limits of Linux (IFNAMSIZ) and of Kubernetes' labels and names. */
#define MAX_IFNAME 15
#define MAX_LABEL  63

/* Digits that an int64_t always holds. */
#define MAX_DIGITS 18

/* Reporting. */

static void
say_found(struct cfg_loader *l, const struct cfg_option *o, const char *key,
          const struct ydoc_node *node, const char *allowed)
{
    char buf[YDOC_DESCRIBE_MAX];
    const char *found = ydoc_describe(node, buf);

    if (o->check == CHECK_SERVER && node->text
        && server_may_hold_secret(node->text)) {
        found = SERVER_HIDDEN;
    }
    cfg_loader_say(l, CFG_ERROR, node, "%s: found %s, allowed %s", key, found,
                   allowed);
}

static void
wrong(struct cfg_loader *l, const struct cfg_option *o,
      const struct ydoc_node *node)
{
    struct ds allowed = DS_EMPTY_INITIALIZER;

    cfg_option_put_allowed(o, &allowed);
    say_found(l, o, o->key, node, ds_cstr(&allowed));
    ds_destroy(&allowed);
}

static void
wrong_item(struct cfg_loader *l, const struct cfg_option *o,
           const struct ydoc_node *list, size_t i)
{
    struct ds allowed = DS_EMPTY_INITIALIZER;
    char *key = xasprintf("%s[%" PRIuSIZE "]", o->key, i);

    cfg_option_put_item_allowed(o, &allowed);
    say_found(l, o, key, list->values[i], ds_cstr(&allowed));
    free(key);
    ds_destroy(&allowed);
}

/* Texts. */

/* As Go's YAML reader has it, and no YES or on, which other readers take for
 * booleans and again others for texts. */
static bool
parse_bool(const struct ydoc_node *node, bool *ret)
{
    if (node->kind != YDOC_SCALAR || node->quoted) {
        return false;
    }

    bool yes = !strcmp(node->text, "true");
    if (!yes && strcmp(node->text, "false") != 0) {
        return false;
    }
    *ret = yes;
    return true;
}

static bool
parse_int(const struct ydoc_node *node, int64_t *ret)
{
    if (node->kind != YDOC_SCALAR || node->quoted) {
        return false;
    }

    /* No leading zeros: YAML 1.1 takes 010 for 8. */
    bool negative = node->text[0] == '-';
    const char *s = node->text + negative;
    size_t n = strspn(s, "0123456789");
    if (!n || n > MAX_DIGITS || s[n] || (s[0] == '0' && n > 1)) {
        return false;
    }
    long long int value;
    if (!str_to_llong(node->text, 10, &value)) {
        return false;
    }
    *ret = value;
    return true;
}

/* Moves '*s' over one number with its unit and adds it to '*sum'. */
static bool
parse_duration_part(const char **s, int64_t *sum)
{
    static const struct {
        const char *name;
        int64_t ns;
    } units[] = {
        { "ns", 1 },
        { "us", 1000 },
        { "\xc2\xb5s", 1000 }, /* Micro sign. */
        { "\xce\xbcs", 1000 }, /* Greek letter mu. */
        { "ms", INT64_C(1000) * 1000 },
        { "s", INT64_C(1000) * 1000 * 1000 },
        { "m", INT64_C(60) * 1000 * 1000 * 1000 },
        { "h", INT64_C(3600) * 1000 * 1000 * 1000 },
    };
    const char *integer = *s;
    size_t n_integer = strspn(integer, "0123456789");
    const char *unit = integer + n_integer;
    const char *fraction = "";
    size_t n_fraction = 0;
    if (*unit == '.') {
        fraction = unit + 1;
        n_fraction = strspn(fraction, "0123456789");
        unit = fraction + n_fraction;
    }
    if ((!n_integer && !n_fraction) || n_integer > MAX_DIGITS) {
        return false;
    }

    size_t n_unit = strcspn(unit, ".0123456789");
    for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
        if (strlen(units[i].name) == n_unit
            && !strncmp(unit, units[i].name, n_unit)) {
            int64_t value = 0;
            int64_t scale = units[i].ns;
            for (size_t j = 0; j < n_integer; j++) {
                value = value * 10 + (integer[j] - '0');
            }
            if (__builtin_mul_overflow(value, scale, &value)) {
                return false;
            }
            /* 'scale' times a digit is far from overflowing. */
            for (size_t j = 0; j < n_fraction && scale; j++) {
                value += scale * (fraction[j] - '0') / 10;
                scale /= 10;
            }
            *s = unit + n_unit;
            return !__builtin_add_overflow(*sum, value, sum);
        }
    }
    return false;
}

/* Go's time.ParseDuration() without signs. */
static bool
parse_duration(const char *s, int64_t *ret)
{
    int64_t sum = 0;

    if (strcmp(s, "0") != 0) {
        do {
            if (!parse_duration_part(&s, &sum)) {
                return false;
            }
        } while (*s);
    }
    *ret = sum;
    return true;
}

static bool
parse_cidr(const struct cfg_option *o, const char *s, struct cidr *ret)
{
    struct cidr cidr;
    if (cidr_parse(s, &cidr)) {
        return false;
    }
    if (o->type == OPT_CIDR
        && ip_family(&cidr.ip) != (o->check == CHECK_V4 ? IP_V4 : IP_V6)) {
        return false;
    }
    *ret = cidr;
    return true;
}

static bool
parse_addr(const char *s, struct cfg_addr *ret)
{
    /* The URL parser already knows all the ways to write them. */
    char *with_scheme = xasprintf("http://%s", s);
    char *url = server_parse(with_scheme, false);
    free(with_scheme);
    if (!url) {
        return false;
    }

    char *host = url + strlen("http://");
    char *colon = strrchr(host, ':');
    char *end = strchr(host, ']');
    struct cfg_addr addr = { .port = 0 };
    unsigned int port = 0;
    bool ok = false;
    if (colon && (!end || colon > end)) {
        *(end ? end : colon) = '\0';
        ok = str_to_uint(colon + 1, 10, &port)
             && !ip_from_string(host + !!end, &addr.ip);
        addr.port = port;
    }
    free(url);
    if (ok) {
        *ret = addr;
    }
    return ok;
}

static bool
is_ifname(const char *s)
{
    size_t len = strlen(s);
    for (size_t i = 0; i < len; i++) {
        if (!isgraph((unsigned char) s[i]) || strchr("/:", s[i])) {
            return false;
        }
    }
    return len && len <= MAX_IFNAME && strcmp(s, ".") != 0
           && strcmp(s, "..") != 0;
}

static bool
is_dns_label(const char *s, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (!islower((unsigned char) s[i]) && !isdigit((unsigned char) s[i])
            && s[i] != '-') {
            return false;
        }
    }
    return len && len <= MAX_LABEL && s[0] != '-' && s[len - 1] != '-';
}

static bool
is_label_value(const char *s)
{
    size_t len = strlen(s);
    for (size_t i = 0; i < len; i++) {
        if (!isalnum((unsigned char) s[i])
            && (!strchr("-_.", s[i]) || !i || i == len - 1)) {
            return false;
        }
    }
    return len <= MAX_LABEL;
}

static bool
is_number(const char *s)
{
    size_t n = strspn(s, "0123456789");
    if (n && s[n] == '.') {
        n += 1 + strspn(s + n + 1, "0123456789");
    }
    return n && !s[n];
}

static bool
is_server(const char *s)
{
    char *url = server_parse(s, true);
    free(url);
    return url != NULL;
}

/* "NAMESPACE/NAME" or an IP address. */
static bool
is_skip(const char *s)
{
    const char *slash = strchr(s, '/');
    struct ip ip;

    return slash ? is_dns_label(s, slash - s)
                       && is_dns_label(slash + 1, strlen(slash + 1))
                 : !ip_from_string(s, &ip);
}

static bool
check_text(enum option_check check, const char *s)
{
    switch (check) {
    case CHECK_NONE: return true;
    case CHECK_NUMBER: return is_number(s);
    case CHECK_SERVER: return is_server(s);
    case CHECK_IFNAME: return is_ifname(s);
    case CHECK_PATH: return s[0] == '/';
    case CHECK_LABEL_VALUE: return is_label_value(s);
    case CHECK_DNS_LABEL: return is_dns_label(s, strlen(s));
    case CHECK_SKIP: return is_skip(s);
    case CHECK_V4:
    case CHECK_V6: break;
    }
    OVS_NOT_REACHED();
}

static bool
parse_enum(const struct cfg_option *o, const char *s, unsigned int *ret)
{
    for (unsigned int i = 0; o->names[i]; i++) {
        if (!strcasecmp(o->names[i], s)) {
            *ret = i;
            return true;
        }
    }
    return false;
}

/* Single values: each of these returns false if 'node' is not one. */

static bool
read_text(const struct cfg_option *o, const char *s, void *field)
{
    struct cfg_cidr *cidr = field;

    switch (o->type) {
    case OPT_STRING:
        if (!check_text(o->check, s)) {
            return false;
        }
        free(*(char **) field);
        *(char **) field = xstrdup(s);
        return true;
    case OPT_ENUM: return parse_enum(o, s, field);
    case OPT_CIDR:
        cidr->present = parse_cidr(o, s, &cidr->cidr);
        return cidr->present;
    case OPT_DURATION: return parse_duration(s, field);
    case OPT_ADDR: return parse_addr(s, field);
    case OPT_BOOL:
    case OPT_INT:
    case OPT_CIDRS:
    case OPT_STRINGS:
    case OPT_INTS:
    case OPT_RECORDS: break;
    }
    OVS_NOT_REACHED();
}

static bool
read_int(const struct cfg_option *o, const struct ydoc_node *node,
         int64_t *ret)
{
    int64_t value;
    if (!parse_int(node, &value) || value < o->min || value > o->max) {
        return false;
    }
    *ret = value;
    return true;
}

static bool
read_bool(const struct cfg_option *o, const struct ydoc_node *node, bool *ret)
{
    bool value;
    if (!parse_bool(node, &value) || value < o->min) {
        return false;
    }
    *ret = value;
    return true;
}

/* Lists: each of these returns false if 'node' is none or an item is wrong,
 * which has been reported then. */

static bool
read_cidrs(struct cfg_loader *l, const struct cfg_option *o,
           const struct ydoc_node *node, struct cfg_cidrs *ret)
{
    struct cfg_cidrs list = { xmalloc(node->n * sizeof *list.cidrs), 0 };

    for (size_t i = 0; i < node->n; i++) {
        const struct ydoc_node *item = node->values[i];
        if (item->kind == YDOC_SCALAR
            && parse_cidr(o, item->text, &list.cidrs[list.n])) {
            list.n++;
        } else {
            wrong_item(l, o, node, i);
        }
    }
    if (list.n < node->n) {
        free(list.cidrs);
        return false;
    }
    free(ret->cidrs);
    *ret = list;
    return true;
}

static bool
read_ints(struct cfg_loader *l, const struct cfg_option *o,
          const struct ydoc_node *node, struct cfg_ints *ret)
{
    struct cfg_ints list = { xmalloc(node->n * sizeof *list.v), 0 };

    for (size_t i = 0; i < node->n; i++) {
        if (read_int(o, node->values[i], &list.v[list.n])) {
            list.n++;
        } else {
            wrong_item(l, o, node, i);
        }
    }
    if (list.n < node->n) {
        free(list.v);
        return false;
    }
    free(ret->v);
    *ret = list;
    return true;
}

/* Copies a text; one that is an IP address in its usual spelling. */
static char *
clone_item(const struct cfg_option *o, const char *s)
{
    char buf[IP_STRLEN];
    struct ip ip;

    return xstrdup(o->check == CHECK_SKIP && !ip_from_string(s, &ip)
                       ? ip_to_string(&ip, buf)
                       : s);
}

static bool
read_strings(struct cfg_loader *l, const struct cfg_option *o,
             const struct ydoc_node *node, struct cfg_strings *ret)
{
    struct cfg_strings list = { xmalloc(node->n * sizeof *list.s), 0 };
    struct cfg_strings old = *ret;
    bool ok = true;

    for (size_t i = 0; i < node->n; i++) {
        const struct ydoc_node *item = node->values[i];
        if (item->kind == YDOC_SCALAR && check_text(o->check, item->text)) {
            list.s[list.n++] = clone_item(o, item->text);
        } else {
            wrong_item(l, o, node, i);
            ok = false;
        }
    }

    /* One of the two lists goes. */
    *ret = ok ? list : old;
    old = ok ? old : list;
    for (size_t i = 0; i < old.n; i++) {
        free(old.s[i]);
    }
    free(old.s);
    return ok;
}

/* Returns true if 'words' holds 'word'. */
static bool
has_word(const char *words, const char *word)
{
    size_t len = strlen(word);

    for (const char *p = words; *p; p += strspn(p, " ")) {
        size_t n = strcspn(p, " ");
        if (n == len && !strncmp(p, word, n)) {
            return true;
        }
        p += n;
    }
    return false;
}

static bool
read_records(struct cfg_loader *l, const struct cfg_option *o,
             const struct ydoc_node *node, struct cfg_records *ret)
{
    bool ok = true;

    for (size_t i = 0; i < node->n; i++) {
        const struct ydoc_node *item = node->values[i];
        if (item->kind != YDOC_MAP) {
            wrong_item(l, o, node, i);
            ok = false;
            continue;
        }
        for (size_t j = 0; j < item->n; j++) {
            if (!has_word(o->subkeys, item->keys[j]->text)) {
                cfg_loader_say(l, CFG_WARNING, item->keys[j],
                               "%s[%" PRIuSIZE "].%s: unknown key, ignored",
                               o->key, i, item->keys[j]->text);
            }
        }
    }
    ret->n = node->n;
    return ok;
}

static bool
read_list(struct cfg_loader *l, const struct cfg_option *o,
          const struct ydoc_node *node)
{
    void *field = cfg_option_field(o, l->cfg);

    if (node->kind != YDOC_LIST) {
        wrong(l, o, node);
        return false;
    }
    if (!node->n) {
        /* Stands for the default. */
        return false;
    }
    switch (o->type) {
    case OPT_CIDRS: return read_cidrs(l, o, node, field);
    case OPT_INTS: return read_ints(l, o, node, field);
    case OPT_STRINGS: return read_strings(l, o, node, field);
    case OPT_RECORDS: return read_records(l, o, node, field);
    case OPT_BOOL:
    case OPT_INT:
    case OPT_STRING:
    case OPT_ENUM:
    case OPT_CIDR:
    case OPT_DURATION:
    case OPT_ADDR: break;
    }
    OVS_NOT_REACHED();
}

static bool
read_number(struct cfg_loader *l, const struct cfg_option *o,
            const struct ydoc_node *node)
{
    int64_t value;
    if (parse_int(node, &value) && !value && o->min > 0) {
        /* Stands for the default. */
        return false;
    }
    if (!read_int(o, node, cfg_option_field(o, l->cfg))) {
        wrong(l, o, node);
        return false;
    }
    return true;
}

static bool
read_single(struct cfg_loader *l, const struct cfg_option *o,
            const struct ydoc_node *node)
{
    if (node->kind == YDOC_SCALAR && !*node->text) {
        /* Stands for the default. */
        return false;
    }
    if (node->kind != YDOC_SCALAR
        || !read_text(o, node->text, cfg_option_field(o, l->cfg))) {
        wrong(l, o, node);
        return false;
    }
    return true;
}

static bool
read_value(struct cfg_loader *l, const struct cfg_option *o,
           const struct ydoc_node *node)
{
    switch (o->type) {
    case OPT_BOOL:
        if (!read_bool(o, node, cfg_option_field(o, l->cfg))) {
            wrong(l, o, node);
            return false;
        }
        return true;
    case OPT_INT: return read_number(l, o, node);
    case OPT_STRING:
    case OPT_ENUM:
    case OPT_CIDR:
    case OPT_DURATION:
    case OPT_ADDR: return read_single(l, o, node);
    case OPT_CIDRS:
    case OPT_STRINGS:
    case OPT_INTS:
    case OPT_RECORDS: return read_list(l, o, node);
    }
    OVS_NOT_REACHED();
}

void
cfg_value_read(struct cfg_loader *l, const struct cfg_option *o,
               const struct ydoc_node *node)
{
    if (node->kind != YDOC_NULL && read_value(l, o, node)) {
        l->at[o - cfg_options] = node;
    }
}
