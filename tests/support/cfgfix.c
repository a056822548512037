/* SPDX-License-Identifier: Apache-2.0 */
/* Loading and comparing configurations in tests. */

#include "cfgfix.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <openvswitch/dynamic-string.h>

int
cfgfix_load(const char *text, struct cfg *cfg, bool notes, struct ds *messages)
{
    struct cfg_report report;
    cfg_report_init(&report);
    int error = cfg_load_text("f", text, strlen(text), cfg, &report);
    for (size_t i = 0; i < report.n; i++) {
        if (notes || report.messages[i].severity != CFG_NOTE) {
            ds_put_format(messages, "%s\n", report.messages[i].text);
        }
    }
    cfg_report_uninit(&report);
    return error;
}

void
cfgfix_load_ok(const char *text, struct cfg *cfg)
{
    struct ds messages = DS_EMPTY_INITIALIZER;
    int error = cfgfix_load(text, cfg, false, &messages);
    assert_string_equal(ds_cstr(&messages), "");
    assert_int_equal(error, 0);
    ds_destroy(&messages);
}

/* Comparison of whole configurations, one function a type. */

#define compare_BOOL(A, B)     assert_int_equal(A, B)
#define compare_INT(A, B)      assert_int_equal(A, B)
#define compare_DURATION(A, B) assert_int_equal(A, B)
#define compare_ENUM(A, B)     assert_int_equal(A, B)
#define compare_STRING(A, B)   assert_string_equal(A, B)

static void
compare_CIDR(struct cfg_cidr a, struct cfg_cidr b)
{
    assert_int_equal(a.present, b.present);
    if (a.present) {
        assert_true(ip_equals(&a.cidr.ip, &b.cidr.ip));
        assert_int_equal(a.cidr.plen, b.cidr.plen);
    }
}

static void
compare_CIDRS(struct cfg_cidrs a, struct cfg_cidrs b)
{
    assert_int_equal(a.n, b.n);
    for (size_t i = 0; i < a.n; i++) {
        assert_true(ip_equals(&a.cidrs[i].ip, &b.cidrs[i].ip));
        assert_int_equal(a.cidrs[i].plen, b.cidrs[i].plen);
    }
}

static void
compare_STRINGS(struct cfg_strings a, struct cfg_strings b)
{
    assert_int_equal(a.n, b.n);
    for (size_t i = 0; i < a.n; i++) {
        assert_string_equal(a.s[i], b.s[i]);
    }
}

static void
compare_INTS(struct cfg_ints a, struct cfg_ints b)
{
    assert_int_equal(a.n, b.n);
    for (size_t i = 0; i < a.n; i++) {
        assert_int_equal(a.v[i], b.v[i]);
    }
}

static void
compare_ADDR(struct cfg_addr a, struct cfg_addr b)
{
    assert_true(ip_equals(&a.ip, &b.ip));
    assert_int_equal(a.port, b.port);
}

static void
compare_RECORDS(struct cfg_records a, struct cfg_records b)
{
    assert_int_equal(a.n, b.n);
}

void
cfgfix_assert_equal(const struct cfg *a, const struct cfg *b)
{
#define CFG_OPTION(FIELD, KEY, TYPE, CTYPE, DEFAULT, MIN, MAX, ARG, USED, \
                   HELP)                                                  \
    compare_##TYPE(a->FIELD, b->FIELD);
#include "ofproxyd/config/options.def"
}

void
cfgfix_assert_defaults(const char *text)
{
    struct cfg defaults, cfg;
    cfg_init_defaults(&defaults);
    cfgfix_load_ok(text, &cfg);
    cfgfix_assert_equal(&cfg, &defaults);
    cfg_uninit(&cfg);
    cfg_uninit(&defaults);
}
