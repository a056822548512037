/* SPDX-License-Identifier: Apache-2.0 */
/* base/memory: what is given back, and that nothing is lost by it. */

#include "ofproxyd/base/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <curl/curl.h>

/* A line of /proc/self/status, in KiB. */
static unsigned long
status_kib(const char *key)
{
    FILE *f = fopen("/proc/self/status", "r");
    unsigned long kib = 0;
    char line[128];

    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        if (!strncmp(line, key, strlen(key))) {
            kib = strtoul(line + strlen(key), NULL, 10);
        }
    }
    fclose(f);
    return kib;
}

/* Changed since it was read from the file. */
static char written[] = "before";

static void
start_leaves_fewer_pages_of_files_and_all_data(void **state)
{
    unsigned long before;

    (void) state;
    assert_int_equal(curl_global_init(CURL_GLOBAL_DEFAULT), CURLE_OK);
    memcpy(written, "after", 6);
    before = status_kib("RssFile:");
    memory_trim_after_start();
    assert_true(status_kib("RssFile:") < before);
    assert_string_equal(written, "after");

    /* The libraries work. */
    assert_string_equal(curl_easy_strerror(CURLE_OK), "No error");
    curl_global_cleanup();
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(start_leaves_fewer_pages_of_files_and_all_data),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
