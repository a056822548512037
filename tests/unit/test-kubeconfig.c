/* SPDX-License-Identifier: Apache-2.0 */
/* Credentials from kubeconfig files and from a pod: what is read, what takes
 * precedence, what is refused by name, and that no message holds a secret. */

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <util.h>

#include "../support/tmpdir.h"
#include "ofproxyd/config/kubeconfig.h"

/* "-----BEGIN X-----\n" */
#define PEM_X "LS0tLS1CRUdJTiBYLS0tLS0K"
/* "-----BEGIN YZ-----\n" */
#define PEM_YZ "LS0tLS1CRUdJTiBZWi0tLS0tCg=="

#define HEAD                                             \
    "apiVersion: v1\nkind: Config\ncurrent-context: c\n" \
    "contexts:\n- name: c\n  context: {cluster: k, user: u}\n"

static int
load(const char *name, const char *text, struct kubeconfig *kc,
     struct err *err)
{
    return kubeconfig_load_text(name, text, strlen(text), kc, err);
}

static void
load_ok(const char *text, struct kubeconfig *kc)
{
    struct err err;
    if (load("/etc/k/config", text, kc, &err)) {
        fail_msg("%s", err.msg);
    }
}

static void
assert_error(const char *text, const char *message)
{
    struct kubeconfig kc;
    struct err err;
    assert_int_equal(load("f", text, &kc, &err), EINVAL);
    assert_string_equal(err.msg, message);
    assert_null(strstr(err.msg, "SECRET"));
}

static void
assert_string(const char *found, const char *expected)
{
    if (expected && found) {
        assert_string_equal(found, expected);
    } else {
        assert_true(!expected == !found);
    }
}

/* What is read. */

static void
files_are_relative_to_the_kubeconfig(void **state OVS_UNUSED)
{
    struct kubeconfig kc;
    load_ok(HEAD "clusters:\n"
                 "- name: k\n"
                 "  cluster:\n"
                 "    server: https://192.0.2.1:6443/\n"
                 "    certificate-authority: ca.crt\n"
                 "    tls-server-name: kubernetes.example\n"
                 "users:\n"
                 "- name: u\n"
                 "  user:\n"
                 "    client-certificate: pki/client.crt\n"
                 "    client-key: /run/client.key\n"
                 "    tokenFile: token\n"
                 "    token: SECRET\n",
            &kc);
    assert_string(kc.server, "https://192.0.2.1:6443");
    assert_string(kc.ca_file, "/etc/k/ca.crt");
    assert_string(kc.ca_data, NULL);
    assert_string(kc.client_cert_file, "/etc/k/pki/client.crt");
    assert_string(kc.client_key_file, "/run/client.key");
    /* The file wins, because it is what is renewed. */
    assert_string(kc.token_file, "/etc/k/token");
    assert_string(kc.token, NULL);
    assert_string(kc.tls_server_name, "kubernetes.example");
    assert_false(kc.insecure_skip_tls_verify);
    kubeconfig_uninit(&kc);
}

static void
data_wins_over_files(void **state OVS_UNUSED)
{
    struct kubeconfig kc;
    load_ok(HEAD "clusters:\n"
                 "- name: k\n"
                 "  cluster:\n"
                 "    server: https://k.example\n"
                 "    certificate-authority: ca.crt\n"
                 "    certificate-authority-data: " PEM_X "\n"
                 "users:\n"
                 "- name: u\n"
                 "  user:\n"
                 "    client-certificate: client.crt\n"
                 "    client-certificate-data: " PEM_YZ "\n"
                 "    client-key: client.key\n"
                 "    client-key-data: |\n"
                 "      LS0tLS1CRUdJ\n"
                 "      TiBYLS0tLS0K\n",
            &kc);
    assert_string(kc.ca_file, NULL);
    assert_string(kc.ca_data, "-----BEGIN X-----\n");
    assert_string(kc.client_cert_file, NULL);
    assert_string(kc.client_cert_data, "-----BEGIN YZ-----\n");
    assert_string(kc.client_key_file, NULL);
    assert_string(kc.client_key_data, "-----BEGIN X-----\n");
    kubeconfig_uninit(&kc);
}

static void
json_is_read_as_well(void **state OVS_UNUSED)
{
    struct kubeconfig kc;
    load_ok("{\n"
            "\t\"kind\": \"Config\",\n"
            "\t\"apiVersion\": \"v1\",\n"
            "\t\"preferences\": {},\n"
            "\t\"clusters\": [{\"name\": \"k\", \"cluster\": {\n"
            "\t\t\"server\": \"https:\\/\\/[2001:db8::1]:6443\",\n"
            "\t\t\"insecure-skip-tls-verify\": true}}],\n"
            "\t\"users\": [{\"name\": \"u\", \"user\": {\n"
            "\t\t\"token\": \"abc\", \"exec\": null}}],\n"
            "\t\"contexts\": [{\"name\": \"c\", \"context\": {\n"
            "\t\t\"cluster\": \"k\", \"user\": \"u\", "
            "\"namespace\": \"n\"}}],\n"
            "\t\"current-context\": \"c\"\n"
            "}\n",
            &kc);
    assert_string(kc.server, "https://[2001:db8::1]:6443");
    assert_string(kc.token, "abc");
    assert_true(kc.insecure_skip_tls_verify);
    kubeconfig_uninit(&kc);
}

static void
the_current_context_is_the_one_that_counts(void **state OVS_UNUSED)
{
    struct kubeconfig kc;
    load_ok("current-context: two\n"
            "contexts:\n"
            "- {name: one, context: {cluster: k1, user: u1}}\n"
            "- {name: two, context: {cluster: k2, user: u2}}\n"
            "clusters:\n"
            "- {name: k1, cluster: {server: https://k1.example}}\n"
            "- {name: k2, cluster: {server: HTTPS://k2.example/prefix//}}\n"
            "users:\n"
            "- {name: u1, user: {token: 1}}\n"
            "- {name: u2, user: {token: \" 2\\n\"}}\n",
            &kc);
    assert_string(kc.server, "https://k2.example/prefix");
    assert_string(kc.token, "2");
    kubeconfig_uninit(&kc);
}

static void
no_user_means_no_credentials(void **state OVS_UNUSED)
{
    static const char *const texts[] = {
        "current-context: c\n"
        "contexts: [{name: c, context: {cluster: k}}]\n"
        "clusters: [{name: k, cluster: {server: http://192.0.2.1:8080}}]\n",

        HEAD "clusters: [{name: k, cluster: {server: "
             "http://192.0.2.1:8080}}]\n"
             "users: [{name: u, user: }]\n",
    };

    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        struct kubeconfig kc;
        load_ok(texts[i], &kc);
        assert_string(kc.server, "http://192.0.2.1:8080");
        assert_string(kc.token, NULL);
        assert_string(kc.client_cert_file, NULL);
        kubeconfig_uninit(&kc);
    }
}

static void
names_without_a_directory_stay_as_they_are(void **state OVS_UNUSED)
{
    struct kubeconfig kc;
    struct err err;
    assert_int_equal(load("config",
                          HEAD "clusters: [{name: k, cluster: {server: "
                               "https://k.example, "
                               "certificate-authority: ca.crt}}]\n"
                               "users: [{name: u, user: {}}]\n",
                          &kc, &err),
                     0);
    assert_string(kc.ca_file, "ca.crt");
    kubeconfig_uninit(&kc);
}

/* Errors. */

static void
a_context_that_can_not_be_followed_is_named(void **state OVS_UNUSED)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        { "", "f: current-context: found nothing, allowed none, because "
              "contexts is empty" },
        { "contexts: [{name: a}, {name: b}, {}]\n",
          "f: current-context: found nothing, allowed \"a\", \"b\"" },
        { "current-context: c\ncontexts: [{name: a}]\n",
          "f:1:18: current-context: found \"c\", allowed \"a\"" },
        { "current-context: [c]\n",
          "f:1:18: current-context: found a list, allowed a text" },
        { "current-context: c\ncontexts: {c: d}\n",
          "f:2:11: contexts: found a mapping, allowed a list" },
        { "current-context: c\ncontexts: [{name: c, context: k}]\n",
          "f:2:31: contexts[\"c\"].context: found \"k\", allowed a mapping" },
        { "current-context: c\n"
          "contexts:\n- {name: c}\n- {name: c}\n",
          "f:4:3: contexts: two items have the name \"c\"" },
        { "current-context: c\ncontexts: [{name: c}]\n",
          "f: contexts[\"c\"].context.cluster: found nothing, allowed none, "
          "because clusters is empty" },
        { HEAD "clusters: [{name: x}]\n",
          "f:6:22: contexts[\"c\"].context.cluster: found \"k\", allowed "
          "\"x\"" },
        { HEAD "clusters: [{name: k, cluster: {server: https://h}}]\n",
          "f:6:31: contexts[\"c\"].context.user: found \"u\", allowed none, "
          "because users is empty" },
        { "apiVersion: v2\n", "f:1:13: apiVersion: found \"v2\", allowed v1" },
        { "kind: Pod\n", "f:1:7: kind: found \"Pod\", allowed Config" },
        { "- a\n", "f:1:1: the whole file: found a list, allowed a mapping" },
        { "SECRET\n",
          "f:1:1: the whole file: found a text, allowed a mapping" },
        { "a: [\n", "f:2:1: not valid YAML: did not find expected node "
                    "content while parsing a flow node" },
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        assert_error(cases[i].text, cases[i].message);
    }
}

#define URL ", allowed an http or https URL"
static const struct {
    const char *values, *message;
} wrong_clusters[] = {
    { "", "f: @.server: found nothing" URL },
    { "server: 192.0.2.1:6443",
      "f:10:13: @.server: found \"192.0.2.1:6443\"" URL },
    { "server: ftp://192.0.2.1",
      "f:10:13: @.server: found \"ftp://192.0.2.1\"" URL },
    { "server: https://", "f:10:13: @.server: found \"https://\"" URL },
    { "server: https://300.0.0.1",
      "f:10:13: @.server: found \"https://300.0.0.1\"" URL },
    { "server: 'https://2001:db8::1'",
      "f:10:13: @.server: found \"https://2001:db8::1\"" URL },
    { "server: 'https://[2001:db8::1'",
      "f:10:13: @.server: found \"https://[2001:db8::1\"" URL },
    { "server: 'https://[192.0.2.1]'",
      "f:10:13: @.server: found \"https://[192.0.2.1]\"" URL },
    { "server: https://h:70000",
      "f:10:13: @.server: found \"https://h:70000\"" URL },
    { "server: https://h:1x",
      "f:10:13: @.server: found \"https://h:1x\"" URL },
    { "server: 'https://a b'",
      "f:10:13: @.server: found \"https://a b\"" URL },
    { "server: 'https://h/a b'",
      "f:10:13: @.server: found \"https://h/a b\"" URL },
    { "server: https://u:SECRET@h",
      "f:10:13: @.server: found an address with \"@\" or \"?\"" URL },
    { "server: https://h/?token=SECRET",
      "f:10:13: @.server: found an address with \"@\" or \"?\"" URL },
    { "server: [https://h]",
      "f:10:13: @.server: found a list, allowed a text" },
    { "proxy-url: http://u:SECRET@h",
      "f:10:16: @.proxy-url: not supported by ofproxyd" },
    { "server: https://h\n    tls-server-name: \"a\\r\\nb\"",
      "f:11:22: @.tls-server-name: found \"a??b\", allowed a host name "
      "or an IP address" },
    { "server: https://h\n    insecure-skip-tls-verify: 1",
      "f:11:31: @.insecure-skip-tls-verify: found \"1\", allowed true or "
      "false" },
    { "server: https://h\n    insecure-skip-tls-verify: true\n"
      "    certificate-authority: ca.crt",
      "f:11:31: @.insecure-skip-tls-verify: found true, allowed false "
      "where there is a certificate-authority" },
    { "server: https://h\n    certificate-authority-data: '***'",
      "f:11:33: @.certificate-authority-data: not valid base64" },
    { "server: https://h\n    certificate-authority-data: U0VDUkVU",
      "f:11:33: @.certificate-authority-data: not PEM in base64" },
    { "server: https://h\n    certificate-authority: {a: b}",
      "f:11:28: @.certificate-authority: found a mapping, allowed a "
      "text" },
};

static void
values_of_a_cluster_are_checked(void **state OVS_UNUSED)
{
    for (size_t i = 0; i < ARRAY_SIZE(wrong_clusters); i++) {
        char *text = xasprintf(HEAD "clusters:\n- name: k\n  cluster:%s%s\n",
                               *wrong_clusters[i].values ? "\n    " : "",
                               wrong_clusters[i].values);
        const char *at = strchr(wrong_clusters[i].message, '@');
        char *message = xasprintf("%.*sclusters[\"k\"].cluster%s",
                                  (int) (at - wrong_clusters[i].message),
                                  wrong_clusters[i].message, at + 1);
        assert_error(text, message);
        free(text);
        free(message);
    }
}

static void
values_of_a_user_are_checked_and_secrets_are_kept(void **state OVS_UNUSED)
{
#define NOT_SUPPORTED ": not supported by ofproxyd"
    static const struct {
        const char *values, *message;
    } cases[] = {
        { "exec: {command: aws, env: [{value: SECRET}]}",
          "f:11:11: @.exec" NOT_SUPPORTED },
        { "auth-provider: {name: gcp}",
          "f:11:20: @.auth-provider" NOT_SUPPORTED },
        { "username: admin", "f:11:15: @.username" NOT_SUPPORTED },
        { "password: SECRET", "f:11:15: @.password" NOT_SUPPORTED },
        { "as: admin", "f:11:9: @.as" NOT_SUPPORTED },
        { "as-uid: 1", "f:11:13: @.as-uid" NOT_SUPPORTED },
        { "as-groups: [g]", "f:11:16: @.as-groups" NOT_SUPPORTED },
        { "as-user-extra: {a: [b]}",
          "f:11:20: @.as-user-extra" NOT_SUPPORTED },
        { "client-certificate: a.crt",
          "f:11:5: @: client-certificate without client-key" },
        { "client-key-data: " PEM_X,
          "f:11:5: @: client-key without client-certificate" },
        { "client-key-data: U0VDUkVU\n    client-certificate: a.crt",
          "f:11:22: @.client-key-data: not PEM in base64" },
        { "client-key-data: SECRET\n    client-certificate: a.crt",
          "f:11:22: @.client-key-data: not valid base64" },
        { "token: [SECRET]",
          "f:11:12: @.token: found a list, allowed a text" },
        { "token: \"SEC\\r\\nRET: SECRET\"",
          "f:11:12: @.token: holds characters that a token can't have" },
        { "token: SECRET SECRET",
          "f:11:12: @.token: holds characters that a token can't have" },
        { "token: ' '",
          "f:11:12: @.token: holds characters that a token can't have" },
        { "tokenFile: {a: b}",
          "f:11:16: @.tokenFile: found a mapping, allowed a text" },
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char *text =
            xasprintf(HEAD
                      "clusters: [{name: k, cluster: {server: https://h}}]\n"
                      "users:\n- name: u\n  user:\n    %s\n",
                      cases[i].values);
        const char *at = strchr(cases[i].message, '@');
        char *message =
            xasprintf("%.*susers[\"u\"].user%s", (int) (at - cases[i].message),
                      cases[i].message, at + 1);
        assert_error(text, message);
        free(text);
        free(message);
    }
}

static void
a_token_is_not_sent_in_the_clear(void **state OVS_UNUSED)
{
    static const char *const users[] = { "token: SECRET", "tokenFile: t" };

    for (size_t i = 0; i < ARRAY_SIZE(users); i++) {
        char *text =
            xasprintf(HEAD
                      "clusters: [{name: k, cluster: {server: http://h}}]\n"
                      "users: [{name: u, user: {%s}}]\n",
                      users[i]);
        assert_error(text,
                     "f:7:40: clusters[\"k\"].cluster.server: found an http "
                     "URL, allowed an https URL where there is a token");
        free(text);
    }
}

static void
base64_is_decoded_strictly(void **state OVS_UNUSED)
{
    static const struct {
        const char *data;
        bool ok;
    } cases[] = {
        { PEM_X, true },
        { PEM_YZ, true },
        { "LS0tLS1CRUdJTiBYLS0tLS0=", true }, /* One '='. */
        { "LS0tLS1CRUdJTiBYLS0tLS0", false },
        { "LS0tLS1CRUdJTiBYLS0tLS0==", false },
        { "LS0tLS1CRUdJTiBYLS0tLQ==LS0t", false },
        { "LS0tLS1CRUdJTiBYLS0t=S0K", false },
        { "LS0tLS1CRUdJTiBYLS0tL===", false },
        { "LS0tLS1CRUdJTiBYLS0t====", false },
        { "====", false },
        { "LS0tLS1CRUdJTiBYLS0tLS0-", false },
        { "LS0tLS1CRUdJTiBYAC0tLS0=", false }, /* A null byte. */
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char *text =
            xasprintf(HEAD "clusters: [{name: k, cluster: {server: https://h, "
                           "certificate-authority-data: '%s'}}]\n"
                           "users: [{name: u}]\n",
                      cases[i].data);
        struct kubeconfig kc;
        struct err err;
        assert_int_equal(load("f", text, &kc, &err), cases[i].ok ? 0 : EINVAL);
        if (cases[i].ok) {
            kubeconfig_uninit(&kc);
        }
        free(text);
    }
}

static void
a_file_is_loaded_and_named(void **state)
{
    static const char good[] =
        HEAD "clusters: [{name: k, cluster: {server: https://h, "
             "certificate-authority: ca.crt}}]\n"
             "users: [{name: u}]\n";
    char *path = tmpdir_write(*state, "good", good, strlen(good));
    char *ca = xasprintf("%s/ca.crt", (char *) *state);
    struct kubeconfig kc;
    struct err err;
    assert_int_equal(kubeconfig_load(path, &kc, &err), 0);
    assert_string(kc.ca_file, ca);
    kubeconfig_uninit(&kc);
    free(ca);
    free(path);

    assert_int_equal(kubeconfig_load("/nonexistent", &kc, &err), ENOENT);
    assert_string_equal(err.msg, "/nonexistent: No such file or directory");

    path = tmpdir_write(*state, "big", "", 0);
    assert_int_equal(truncate(path, 100 * 1024 * 1024), 0);
    assert_int_equal(kubeconfig_load(path, &kc, &err), EFBIG);
    free(path);
}

/* In a pod. */

static void
in_cluster(const char *host, const char *port, const char *dir,
           const char *server)
{
    setenv("KUBERNETES_SERVICE_HOST", host, true);
    setenv("KUBERNETES_SERVICE_PORT", port, true);

    struct kubeconfig kc;
    struct err err;
    if (server) {
        assert_int_equal(kubeconfig_in_cluster(dir, &kc, &err), 0);
        assert_string(kc.server, server);
        kubeconfig_uninit(&kc);
    } else {
        assert_int_equal(kubeconfig_in_cluster(dir, &kc, &err), EINVAL);
        char *message = xasprintf(
            "KUBERNETES_SERVICE_HOST, KUBERNETES_SERVICE_PORT: found \"%s\" "
            "and \"%s\", allowed a host and a port",
            host, port);
        assert_string_equal(err.msg, message);
        free(message);
    }
}

static void
a_pod_finds_its_server_and_service_account(void **state)
{
    char *token = tmpdir_write(*state, "token", "t", 1);
    char *ca = tmpdir_write(*state, "ca.crt", "c", 1);

    in_cluster("10.96.0.1", "443", *state, "https://10.96.0.1:443");
    in_cluster("2001:db8::1", "6443", *state, "https://[2001:db8::1]:6443");
    in_cluster("k.example", "443", *state, "https://k.example:443");
    in_cluster("10.96.0.256", "443", *state, NULL);
    in_cluster("10.96.0.1", "https", *state, NULL);
    in_cluster("10.96.0.1", "0", *state, NULL);
    in_cluster("10.96.0.1", "443/x", *state, NULL);
    in_cluster("10.96.0.1/x", "443", *state, NULL);
    in_cluster("u@h", "443", *state, NULL);

    setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1", true);
    struct kubeconfig kc;
    struct err err;
    assert_int_equal(kubeconfig_in_cluster(*state, &kc, &err), 0);
    assert_string(kc.token_file, token);
    assert_string(kc.ca_file, ca);
    assert_string(kc.token, NULL);
    assert_false(kc.insecure_skip_tls_verify);
    kubeconfig_uninit(&kc);
    free(token);
    free(ca);
}

static void
outside_a_pod_it_says_so(void **state)
{
    struct kubeconfig kc;
    struct err err;

    unsetenv("KUBERNETES_SERVICE_HOST");
    setenv("KUBERNETES_SERVICE_PORT", "443", true);
    assert_int_equal(kubeconfig_in_cluster(*state, &kc, &err), ENOENT);
    assert_string_equal(err.msg, "not in a pod: KUBERNETES_SERVICE_HOST and "
                                 "KUBERNETES_SERVICE_PORT are not set");

    setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1", true);
    setenv("KUBERNETES_SERVICE_PORT", "", true);
    assert_int_equal(kubeconfig_in_cluster(*state, &kc, &err), ENOENT);

    setenv("KUBERNETES_SERVICE_PORT", "443", true);
    assert_int_equal(kubeconfig_in_cluster("/nonexistent", &kc, &err), ENOENT);
    assert_string_equal(err.msg,
                        "/nonexistent/token: No such file or directory");

    /* The default directory, which no test machine has. */
    assert_int_equal(kubeconfig_in_cluster(NULL, &kc, &err), ENOENT);
    assert_string_equal(err.msg,
                        "/var/run/secrets/kubernetes.io/serviceaccount/token: "
                        "No such file or directory");
}

/* The override. */

static void
the_server_is_overridden_in_all_its_forms(void **state OVS_UNUSED)
{
    static const struct {
        const char *override, *server;
    } cases[] = {
        { "192.0.2.1", "https://192.0.2.1:443" },
        { "192.0.2.1:6443", "https://192.0.2.1:6443" },
        { "k.example", "https://k.example:443" },
        { "k.example:6443", "https://k.example:6443" },
        { "2001:db8::1", "https://[2001:db8::1]:443" },
        { "[2001:db8::1]", "https://[2001:db8::1]:443" },
        { "[2001:db8::1]:6443", "https://[2001:db8::1]:6443" },
        { "https://k.example", "https://k.example" },
        { "https://k.example:6443/", "https://k.example:6443" },
        { "http://127.0.0.1:8001/k8s/", "http://127.0.0.1:8001/k8s" },
        { "https://[2001:db8::1]:6443", "https://[2001:db8::1]:6443" },

        { "", NULL },
        { "a b", NULL },
        { "k.example/path", NULL },
        { "k.example:", NULL },
        { "k.example:65536", NULL },
        { "k.example:+1", NULL },
        { "1.2.3", NULL },
        { "2001:db8::g", NULL },
        { "[2001:db8::1", NULL },
        { "[2001:db8::1]6443", NULL },
        { "[k.example]:6443", NULL },
        { "fe80::1%eth0", NULL },
        { "://k.example", NULL },
        { "https:k.example", NULL },
        { "unix:///run/api.sock", NULL },
        { "https://h#f", NULL },
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct kubeconfig kc = { .server = xstrdup("https://old.example") };
        struct err err;
        int error = kubeconfig_override_server(&kc, cases[i].override, &err);
        if (cases[i].server) {
            assert_int_equal(error, 0);
            assert_string(kc.server, cases[i].server);
        } else {
            char *message = xasprintf("found \"%s\", allowed a host, "
                                      "HOST:PORT or an http or https URL",
                                      cases[i].override);
            assert_int_equal(error, EINVAL);
            assert_string_equal(err.msg, message);
            assert_string(kc.server, "https://old.example");
            free(message);
        }
        kubeconfig_uninit(&kc);
    }
}

static void
an_override_keeps_secrets(void **state OVS_UNUSED)
{
    struct kubeconfig kc = { .token = xstrdup("t") };
    struct err err;
    assert_int_equal(kubeconfig_override_server(&kc, "https://u:SECRET@h",
                                                &err),
                     EINVAL);
    assert_string_equal(err.msg,
                        "found an address with \"@\" or \"?\", allowed a "
                        "host, HOST:PORT or an http or https URL");
    assert_int_equal(kubeconfig_override_server(&kc, "http://h", &err),
                     EINVAL);
    assert_string_equal(err.msg, "found an http URL, allowed an https URL "
                                 "where there is a token");
    kubeconfig_uninit(&kc);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_are_relative_to_the_kubeconfig),
        cmocka_unit_test(data_wins_over_files),
        cmocka_unit_test(json_is_read_as_well),
        cmocka_unit_test(the_current_context_is_the_one_that_counts),
        cmocka_unit_test(no_user_means_no_credentials),
        cmocka_unit_test(names_without_a_directory_stay_as_they_are),
        cmocka_unit_test(a_context_that_can_not_be_followed_is_named),
        cmocka_unit_test(values_of_a_cluster_are_checked),
        cmocka_unit_test(values_of_a_user_are_checked_and_secrets_are_kept),
        cmocka_unit_test(a_token_is_not_sent_in_the_clear),
        cmocka_unit_test(base64_is_decoded_strictly),
        cmocka_unit_test(a_file_is_loaded_and_named),
        cmocka_unit_test(a_pod_finds_its_server_and_service_account),
        cmocka_unit_test(outside_a_pod_it_says_so),
        cmocka_unit_test(the_server_is_overridden_in_all_its_forms),
        cmocka_unit_test(an_override_keeps_secrets),
    };
    return cmocka_run_group_tests_name("kubeconfig", tests, tmpdir_setup,
                                       tmpdir_teardown);
}
