/* SPDX-License-Identifier: Apache-2.0 */
/* Reads credentials from kubeconfig files and from a pod's service account.
 * Secrets appear in no message. */

#include "ofproxyd/config/kubeconfig.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <openvswitch/dynamic-string.h>
#include <util.h>

#include "ofproxyd/config/yaml.h"

#include "base64.h"
#include "server.h"

#define SERVICE_ACCOUNT "/var/run/secrets/kubernetes.io/serviceaccount"

#define SERVER_ALLOWED  "a host, HOST:PORT or an http or https URL"

/* Bytes of a name that messages show. */
#define SHOWN "%.60s"

/* One mapping of the file.  'map' is NULL if there is nothing in it. */
struct section {
    const char *file;
    char *path; /* As in messages: "users[\"admin\"].user". */
    const struct ydoc_node *map;
    struct err *err;
};

/* Sets the error "FILE:LINE:COLUMN: PATH.KEY: ...".  'at' may be NULL. */
static int OVS_PRINTF_FORMAT(4, 5)
    fail(const struct section *s, const struct ydoc_node *at, const char *key,
         const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = xvasprintf(format, args);
    va_end(args);

    err_set(s->err, "%s%s%s: %s", s->path, *s->path && *key ? "." : "", key,
            text);
    free(text);
    if (at) {
        err_prefix(s->err, "%s:%d:%d: ", s->file, at->line, at->column);
    } else {
        err_prefix(s->err, "%s: ", s->file);
    }
    return EINVAL;
}

static const struct ydoc_node *
get(const struct section *s, const char *key)
{
    return s->map ? ydoc_get(s->map, key) : NULL;
}

static bool
is_empty(const struct ydoc_node *node)
{
    return !node || node->kind == YDOC_NULL
           || (node->kind == YDOC_SCALAR ? !*node->text : !node->n);
}

/* Values. */

/* Sets '*ret' to the text at 'key', which lives as long as the tree; to NULL
 * if there is none. */
static int
get_text(const struct section *s, const char *key, const char **ret)
{
    const struct ydoc_node *node = get(s, key);

    *ret = NULL;
    if (is_empty(node)) {
        return 0;
    }
    if (node->kind != YDOC_SCALAR) {
        char buf[YDOC_DESCRIBE_MAX];
        return fail(s, node, key, "found %s, allowed a text",
                    ydoc_describe(node, buf));
    }
    *ret = node->text;
    return 0;
}

static int
get_bool(const struct section *s, const char *key, bool *ret)
{
    const struct ydoc_node *node = get(s, key);

    *ret = false;
    if (!node || node->kind == YDOC_NULL) {
        return 0;
    }
    *ret = node->kind == YDOC_SCALAR && !node->quoted
           && !strcmp(node->text, "true");
    if (!*ret
        && (node->kind != YDOC_SCALAR || node->quoted
            || strcmp(node->text, "false") != 0)) {
        char buf[YDOC_DESCRIBE_MAX];
        return fail(s, node, key, "found %s, allowed true or false",
                    ydoc_describe(node, buf));
    }
    return 0;
}

static char *
join_path(const char *file, const char *path)
{
    const char *slash = strrchr(file, '/');

    return path[0] == '/' || !slash
               ? xstrdup(path)
               : xasprintf("%.*s%s", (int) (slash + 1 - file), file, path);
}

static int
get_path(const struct section *s, const char *key, char **ret)
{
    const char *text;
    int error = get_text(s, key, &text);
    if (!error && text) {
        *ret = join_path(s->file, text);
    }
    return error;
}

/* Reads a file name at 'key' or else the contents at 'key'-data. */
static int
get_pem(const struct section *s, const char *key, char **ret_file,
        char **ret_data)
{
    char *data_key = xasprintf("%s-data", key);
    const char *text;
    int error = get_text(s, data_key, &text);

    if (!error && text) {
        *ret_data = base64_decode(text);
        if (!*ret_data) {
            error = fail(s, get(s, data_key), data_key, "not valid base64");
        } else if (!strstr(*ret_data, "-----BEGIN ")) {
            error = fail(s, get(s, data_key), data_key, "not PEM in base64");
        }
    } else if (!error) {
        error = get_path(s, key, ret_file);
    }
    free(data_key);
    return error;
}

/* Refuses those of the keys in 'keys' that the file has. */
static int
refuse_keys(const struct section *s, const char *const keys[])
{
    for (size_t i = 0; keys[i]; i++) {
        const struct ydoc_node *node = get(s, keys[i]);
        if (!is_empty(node)) {
            return fail(s, node, keys[i], "not supported by ofproxyd");
        }
    }
    return 0;
}

/* Finding the parts. */

/* Returns the name of an item of a list, NULL if it has none. */
static const char *
item_name(const struct ydoc_node *item)
{
    const struct ydoc_node *name = ydoc_get(item, "name");
    return name && name->kind == YDOC_SCALAR ? name->text : NULL;
}

/* Appends the names in the list at 'key', for a message. */
static void
put_names(const struct section *root, const char *key, struct ds *ds)
{
    const struct ydoc_node *list = get(root, key);
    const char *separator = "";

    for (size_t i = 0; list && list->kind == YDOC_LIST && i < list->n; i++) {
        const char *name = item_name(list->values[i]);
        if (name) {
            ds_put_format(ds, "%s\"" SHOWN "\"", separator, name);
            separator = ", ";
        }
    }
    if (!*separator) {
        ds_put_format(ds, "none, because %s is empty", key);
    }
}

/* Finds the item called 'name' in the list at 'list_key' of 'root' and makes
 * its member 'key' the section '*ret', whose path is the caller's to free().
 * 'at', of the key 'at_key', is what refers to it. */
static int
find_item(const struct section *root, const char *list_key, const char *key,
          const char *name, struct section *ret)
{
    const struct ydoc_node *list = get(root, list_key);
    const struct ydoc_node *found = NULL;

    if (!is_empty(list) && list->kind != YDOC_LIST) {
        char buf[YDOC_DESCRIBE_MAX];
        return fail(root, list, list_key, "found %s, allowed a list",
                    ydoc_describe(list, buf));
    }
    for (size_t i = 0; list && i < list->n; i++) {
        const char *n = item_name(list->values[i]);
        if (n && !strcmp(n, name)) {
            if (found) {
                return fail(root, list->values[i], list_key,
                            "two items have the name \"" SHOWN "\"", name);
            }
            found = list->values[i];
        }
    }
    if (!found) {
        return ENOENT;
    }

    *ret = (struct section){
        .file = root->file,
        .path = xasprintf("%s[\"" SHOWN "\"].%s", list_key, name, key),
        .map = ydoc_get(found, key),
        .err = root->err,
    };
    if (is_empty(ret->map)) {
        ret->map = NULL;
    } else if (ret->map->kind != YDOC_MAP) {
        char buf[YDOC_DESCRIBE_MAX];
        fail(ret, ret->map, "", "found %s, allowed a mapping",
             ydoc_describe(ret->map, buf));
        free(ret->path);
        return EINVAL;
    }
    return 0;
}

/* Finds the item of the list at 'list_key' that 'from' names at 'from_key'.
 * Sets '*ret' as find_item() does. */
static int
follow(const struct section *root, const struct section *from,
       const char *from_key, const char *list_key, struct section *ret)
{
    const char *name;
    int error = get_text(from, from_key, &name);
    if (error) {
        return error;
    }

    /* "clusters" hold a "cluster" each. */
    char *key = xmemdup0(list_key, strlen(list_key) - 1);
    error = name ? find_item(root, list_key, key, name, ret) : ENOENT;
    free(key);
    if (error == ENOENT) {
        struct ds names = DS_EMPTY_INITIALIZER;
        char buf[YDOC_DESCRIBE_MAX];
        const struct ydoc_node *at = get(from, from_key);

        put_names(root, list_key, &names);
        error = fail(from, at, from_key, "found %s, allowed %s",
                     at ? ydoc_describe(at, buf) : "nothing", ds_cstr(&names));
        ds_destroy(&names);
    }
    return error;
}

/* The parts. */

static int
check_constant(const struct section *root, const char *key, const char *value)
{
    const char *text;
    int error = get_text(root, key, &text);
    if (!error && text && strcmp(text, value) != 0) {
        error = fail(root, get(root, key), key,
                     "found \"" SHOWN "\", allowed %s", text, value);
    }
    return error;
}

static int
read_server(const struct section *s, struct kubeconfig *kc)
{
    const struct ydoc_node *node = get(s, "server");
    const char *text;
    int error = get_text(s, "server", &text);
    if (error) {
        return error;
    }
    kc->server = text ? server_parse(text, false) : NULL;
    if (!kc->server) {
        char buf[YDOC_DESCRIBE_MAX];
        return fail(s, node, "server",
                    "found %s, allowed an http or https URL",
                    !text                          ? "nothing"
                    : server_may_hold_secret(text) ? SERVER_HIDDEN
                                                   : ydoc_describe(node, buf));
    }
    return 0;
}

static int
read_tls_server_name(const struct section *s, struct kubeconfig *kc)
{
    const char *key = "tls-server-name";
    const char *text;
    int error = get_text(s, key, &text);
    if (error || !text) {
        return error;
    }
    for (const char *p = text; *p; p++) {
        if (!isalnum((unsigned char) *p) && !strchr(".-_:", *p)) {
            char buf[YDOC_DESCRIBE_MAX];
            return fail(s, get(s, key), key,
                        "found %s, allowed a host name or an IP address",
                        ydoc_describe(get(s, key), buf));
        }
    }
    kc->tls_server_name = xstrdup(text);
    return 0;
}

static int
read_cluster(const struct section *s, struct kubeconfig *kc)
{
    static const char *const refused[] = { "proxy-url", NULL };
    int error = refuse_keys(s, refused);
    if (!error) {
        error = read_server(s, kc);
    }
    if (!error) {
        error =
            get_pem(s, "certificate-authority", &kc->ca_file, &kc->ca_data);
    }
    if (!error) {
        error = read_tls_server_name(s, kc);
    }
    if (!error) {
        error = get_bool(s, "insecure-skip-tls-verify",
                         &kc->insecure_skip_tls_verify);
    }
    if (!error && kc->insecure_skip_tls_verify
        && (kc->ca_file || kc->ca_data)) {
        error = fail(s, get(s, "insecure-skip-tls-verify"),
                     "insecure-skip-tls-verify",
                     "found true, allowed false where there is a "
                     "certificate-authority");
    }
    return error;
}

/* Only what may stand in an HTTP header. */
static bool
is_token(const char *s)
{
    for (; *s; s++) {
        if (!isgraph((unsigned char) *s)) {
            return false;
        }
    }
    return true;
}

static int
read_token(const struct section *s, struct kubeconfig *kc)
{
    const char *text;
    int error = get_path(s, "tokenFile", &kc->token_file);
    if (!error) {
        error = get_text(s, "token", &text);
    }
    if (error || !text || kc->token_file) {
        return error;
    }

    size_t start = strspn(text, " \t\r\n");
    size_t end = strlen(text);
    while (end > start && strchr(" \t\r\n", text[end - 1])) {
        end--;
    }
    char *token = xmemdup0(text + start, end - start);
    if (!*token || !is_token(token)) {
        free(token);
        return fail(s, get(s, "token"), "token",
                    "holds characters that a token can't have");
    }
    kc->token = token;
    return 0;
}

static int
read_user(const struct section *s, struct kubeconfig *kc)
{
    static const char *const refused[] = {
        "exec",   "auth-provider", "username",      "password", "as",
        "as-uid", "as-groups",     "as-user-extra", NULL
    };
    int error = refuse_keys(s, refused);
    if (!error) {
        error = get_pem(s, "client-certificate", &kc->client_cert_file,
                        &kc->client_cert_data);
    }
    if (!error) {
        error = get_pem(s, "client-key", &kc->client_key_file,
                        &kc->client_key_data);
    }
    if (!error) {
        error = read_token(s, kc);
    }
    if (error) {
        return error;
    }

    bool cert = kc->client_cert_file || kc->client_cert_data;
    bool key = kc->client_key_file || kc->client_key_data;
    if (cert != key) {
        return fail(s, s->map, "",
                    cert ? "client-certificate without client-key"
                         : "client-key without client-certificate");
    }
    return 0;
}

/* A token that is sent in the clear is everybody's. */
static bool
sends_token_in_clear(const struct kubeconfig *kc, const char *server)
{
    return !strncmp(server, "http:", 5) && (kc->token || kc->token_file);
}

/* Reads the cluster and the user that the context 's' names. */
static int
read_context(const struct section *root, const struct section *s,
             struct kubeconfig *kc)
{
    struct section cluster = { .path = NULL };
    int error = follow(root, s, "cluster", "clusters", &cluster);
    if (error) {
        return error;
    }
    error = read_cluster(&cluster, kc);

    /* Without a user there are no credentials, which is for the API server to
     * judge. */
    if (!error && !is_empty(get(s, "user"))) {
        struct section user = { .path = NULL };
        error = follow(root, s, "user", "users", &user);
        if (!error) {
            error = read_user(&user, kc);
            free(user.path);
        }
    }
    if (!error && sends_token_in_clear(kc, kc->server)) {
        error = fail(&cluster, get(&cluster, "server"), "server",
                     "found an http URL, allowed an https URL where there is "
                     "a token");
    }
    free(cluster.path);
    return error;
}

static int
read_root(const struct section *root, struct kubeconfig *kc)
{
    int error = check_constant(root, "apiVersion", "v1");
    if (!error) {
        error = check_constant(root, "kind", "Config");
    }
    if (error) {
        return error;
    }

    struct section context = { .path = NULL };
    error = follow(root, root, "current-context", "contexts", &context);
    if (!error) {
        error = read_context(root, &context, kc);
        free(context.path);
    }
    return error;
}

int
kubeconfig_load_text(const char *name, const char *text, size_t len,
                     struct kubeconfig *ret, struct err *err)
{
    struct ydoc_node *tree;
    int error = ydoc_parse(name, text, len, &tree, err);
    if (error) {
        return error;
    }

    char no_path[] = "";
    struct section root = {
        .file = name, .path = no_path, .map = tree, .err = err
    };
    struct kubeconfig kc = { .server = NULL };
    if (tree->kind == YDOC_MAP || tree->kind == YDOC_NULL) {
        error = read_root(&root, &kc);
    } else {
        char buf[YDOC_DESCRIBE_MAX];
        error =
            fail(&root, tree, "the whole file", "found %s, allowed a mapping",
                 tree->kind == YDOC_LIST ? ydoc_describe(tree, buf)
                                         : "a text");
    }
    ydoc_destroy(tree);
    if (error) {
        kubeconfig_uninit(&kc);
        return error;
    }
    *ret = kc;
    return 0;
}

int
kubeconfig_load(const char *path, struct kubeconfig *ret, struct err *err)
{
    char *text;
    size_t len;
    int error = ydoc_read_file(path, &text, &len, err);
    if (!error) {
        error = kubeconfig_load_text(path, text, len, ret, err);
        explicit_bzero(text, len);
        free(text);
    }
    return error;
}

/* In a pod. */

static int
in_cluster_server(char **ret, struct err *err)
{
    const char *host = getenv("KUBERNETES_SERVICE_HOST");
    const char *port = getenv("KUBERNETES_SERVICE_PORT");
    if (!host || !*host || !port || !*port) {
        err_set(err, "not in a pod: KUBERNETES_SERVICE_HOST and "
                     "KUBERNETES_SERVICE_PORT are not set");
        return ENOENT;
    }

    char *text =
        xasprintf(strchr(host, ':') ? "https://[%s]:%s" : "https://%s:%s",
                  host, port);
    char *server = strpbrk(host, "/[]") || strchr(port, '/')
                       ? NULL
                       : server_parse(text, false);
    free(text);
    if (!server) {
        err_set(err,
                "KUBERNETES_SERVICE_HOST, KUBERNETES_SERVICE_PORT: found "
                "\"" SHOWN "\" and \"" SHOWN "\", allowed a host and a port",
                host, port);
        return EINVAL;
    }
    *ret = server;
    return 0;
}

static int
check_readable(const char *file, struct err *err)
{
    if (access(file, R_OK)) {
        int error = errno;
        err_set(err, "%s: %s", file, ovs_strerror(error));
        return error;
    }
    return 0;
}

int
kubeconfig_in_cluster(const char *dir, struct kubeconfig *ret, struct err *err)
{
    struct kubeconfig kc = { .server = NULL };
    int error = in_cluster_server(&kc.server, err);
    if (error) {
        return error;
    }

    dir = dir ? dir : SERVICE_ACCOUNT;
    kc.token_file = xasprintf("%s/token", dir);
    kc.ca_file = xasprintf("%s/ca.crt", dir);
    error = check_readable(kc.token_file, err);
    if (!error) {
        error = check_readable(kc.ca_file, err);
    }
    if (error) {
        kubeconfig_uninit(&kc);
        return error;
    }
    *ret = kc;
    return 0;
}

int
kubeconfig_override_server(struct kubeconfig *kc, const char *override,
                           struct err *err)
{
    char *server = server_parse(override, true);
    if (!server) {
        if (server_may_hold_secret(override)) {
            err_set(err, "found " SERVER_HIDDEN ", allowed " SERVER_ALLOWED);
        } else {
            err_set(err, "found \"" SHOWN "\", allowed " SERVER_ALLOWED,
                    override);
        }
        return EINVAL;
    }
    if (sends_token_in_clear(kc, server)) {
        free(server);
        err_set(err, "found an http URL, allowed an https URL where there is "
                     "a token");
        return EINVAL;
    }
    free(kc->server);
    kc->server = server;
    return 0;
}

static void
free_secret(char *s)
{
    if (s) {
        explicit_bzero(s, strlen(s));
        free(s);
    }
}

void
kubeconfig_uninit(struct kubeconfig *kc)
{
    free(kc->server);
    free(kc->ca_file);
    free(kc->ca_data);
    free(kc->client_cert_file);
    free(kc->client_cert_data);
    free(kc->client_key_file);
    free_secret(kc->client_key_data);
    free_secret(kc->token);
    free(kc->token_file);
    free(kc->tls_server_name);
}
