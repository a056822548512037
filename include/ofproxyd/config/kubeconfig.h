/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_CONFIG_KUBECONFIG_H
#define OFPROXYD_CONFIG_KUBECONFIG_H 1

/* Where the API server is and who we are: from a kubeconfig file, or from
 * what the kubelet puts into a pod. */

#include <stdbool.h>
#include <stddef.h>

#include "ofproxyd/base/err.h"

/* Strings are owned by the struct, NULL if absent.  "-data" values are
 * decoded from base64 and hold PEM; relative paths are made relative to the
 * kubeconfig's directory, as kubectl does.  A value that takes precedence
 * displaces the other: of a file and its data there is only the data, of
 * token and token_file only token_file, which is to be read anew whenever the
 * token is needed.
 *
 * 'server' is "https://HOST", with ":PORT" and a path if given and without
 * '/' at its end; or "http://...", for which there is no token. */
struct kubeconfig {
    char *server;
    char *ca_file, *ca_data;
    char *client_cert_file, *client_cert_data;
    char *client_key_file, *client_key_data;
    char *token, *token_file;
    char *tls_server_name;
    bool insecure_skip_tls_verify;
};

/* Reads the current context of the kubeconfig at 'path' (YAML or JSON).
 * Returns 0; or EINVAL, or errno of reading the file, with 'err' that names
 * file, line and key, but never a secret.  What can't be honoured (exec,
 * auth-provider, username/password, impersonation, proxy-url) is an error
 * that says so.  On success '*ret' is the caller's to kubeconfig_uninit(). */
int kubeconfig_load(const char *path, struct kubeconfig *ret, struct err *err)
    OVS_WARN_UNUSED_RESULT;

/* A kubeconfig in memory: 'len' bytes at 'text', called 'name' in messages.
 * The parts of 'name' up to its last '/' are put in front of relative
 * paths. */
int kubeconfig_load_text(const char *name, const char *text, size_t len,
                         struct kubeconfig *ret, struct err *err)
    OVS_WARN_UNUSED_RESULT;

/* From KUBERNETES_SERVICE_HOST, KUBERNETES_SERVICE_PORT (brackets around an
 * IPv6 host) and the files token and ca.crt under 'dir' (NULL for
 * /var/run/secrets/kubernetes.io/serviceaccount).  ENOENT with 'err' if we are
 * not in a pod. */
int kubeconfig_in_cluster(const char *dir, struct kubeconfig *ret,
                          struct err *err) OVS_WARN_UNUSED_RESULT;

/* Replaces the server by 'override': "host", "host:port" or a URL (Antrea's
 * kubeAPIServerOverride; default port 443, default scheme https).  EINVAL if
 * it is none of them; the server stays as it was then. */
int kubeconfig_override_server(struct kubeconfig *, const char *override,
                               struct err *err) OVS_WARN_UNUSED_RESULT;

/* Frees what the members point to; what is secret is overwritten before. */
void kubeconfig_uninit(struct kubeconfig *);

#endif /* ofproxyd/config/kubeconfig.h */
