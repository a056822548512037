/* SPDX-License-Identifier: Apache-2.0 */
/* Which API servers are accepted at all.  What requests do is tested against
 * a real socket, in tests/integration/test_kube.py. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <errno.h>

#include <cmocka.h>

#include <util.h>

#include "ofproxyd/kube/http.h"
#include "ofproxyd/kube/kube.h"

static void
servers_are_checked(void **state OVS_UNUSED)
{
    static const struct {
        struct kube_cfg cfg;
        const char *message; /* NULL: accepted. */
    } cases[] = {
        { { .server = "https://192.0.2.1:6443" }, NULL },
        { { .server = "https://[2001:db8::1]:6443/k8s/c-1/" }, NULL },
        { { .server = "https://api.example.com", .token = "t" }, NULL },
        { { .server = "http://127.0.0.1:8001" }, NULL },
        { { .server = "https://192.0.2.1", .tls_server_name = "kubernetes" },
          NULL },
        { { .server = "https://192.0.2.1", .tls_server_name = "2001:db8::1" },
          NULL },
        { { .server = "http://127.0.0.1:8001", .token = "t" },
          "a token is not sent without TLS" },
        { { .server = "http://127.0.0.1:8001", .token_file = "/f" },
          "a token is not sent without TLS" },
        { { .server = NULL }, "is no URL" },
        { { .server = "" }, "is no URL" },
        { { .server = "192.0.2.1 6443" }, "is no URL" },
        { { .server = "https://192.0.2.1:99999" }, "is no URL" },
        { { .server = "https://[2001:db8::1" }, "is no URL" },
        { { .server = "ftp://192.0.2.1" }, "neither https nor http" },
        { { .server = "file:///etc/passwd" }, "neither https nor http" },
        { { .server = "https://me:secret@192.0.2.1" },
          "may not hold user or password" },
        { { .server = "https://me:secret@192.0.2.1:99999" }, "is no URL" },
        { { .server = "https://192.0.2.1/?a=b" },
          "may not hold a query or fragment" },
        { { .server = "https://192.0.2.1/#a" },
          "may not hold a query or fragment" },
        { { .server = "https://192.0.2.1", .tls_server_name = "a b" },
          "is no host name" },
        { { .server = "https://192.0.2.1", .client_cert_file = "/c" },
          "not its key" },
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct http *http = NULL;
        struct err err = { "" };

        int error = http_create(&cases[i].cfg, &http, &err);
        if (cases[i].message) {
            print_message("%s\n", err.msg);
            assert_int_equal(error, EINVAL);
            assert_non_null(strstr(err.msg, cases[i].message));
            assert_null(strstr(err.msg, "secret"));
            assert_null(http);
        } else {
            assert_string_equal(err.msg, "");
            assert_int_equal(error, 0);
            http_destroy(http);
        }
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(servers_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
