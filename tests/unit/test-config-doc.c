/* SPDX-License-Identifier: Apache-2.0 */
/* conf/antrea-agent.conf and docs/configuration.md say what the code does.
 * Both are compared byte for byte; UPDATE=1 in the environment writes them
 * anew. */

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <openvswitch/dynamic-string.h>
#include <util.h>

#include "../support/cfgfix.h"
#include "../support/golden.h"
#include "ofproxyd/config/config.h"

static void
the_example_is_up_to_date(void **state OVS_UNUSED)
{
    struct ds ds = DS_EMPTY_INITIALIZER;
    cfg_print_example(&ds);
    golden_check_file("conf/antrea-agent.conf", ds_cstr(&ds));
    ds_destroy(&ds);
}

static void
the_reference_is_up_to_date(void **state OVS_UNUSED)
{
    struct ds ds = DS_EMPTY_INITIALIZER;
    cfg_print_reference_md(&ds);
    golden_check_file("docs/configuration.md", ds_cstr(&ds));
    ds_destroy(&ds);
}

static void
the_example_as_it_is_gives_the_defaults(void **state OVS_UNUSED)
{
    struct ds ds = DS_EMPTY_INITIALIZER;
    cfg_print_example(&ds);
    cfgfix_assert_defaults(ds_cstr(&ds));
    ds_destroy(&ds);
}

/* Removes each '#' that a key follows, as the example's head tells its reader
 * to do.  Returns how many there were. */
static size_t
uncomment(struct ds *ds)
{
    size_t n = 0;
    size_t to = 0;
    bool blank = true;

    for (size_t i = 0; i < ds->length; i++) {
        char c = ds->string[i];
        if (blank && c == '#' && isalpha((unsigned char) ds->string[i + 1])) {
            n++;
        } else {
            ds->string[to++] = c;
        }
        blank = c == '\n' || (blank && c == ' ');
    }
    ds_truncate(ds, to);
    return n;
}

static size_t
count_options(void)
{
    size_t n = 0;
#define CFG_OPTION(FIELD, KEY, TYPE, CTYPE, DEFAULT, MIN, MAX, ARG, USED, \
                   HELP)                                                  \
    n++;
#include "ofproxyd/config/options.def"
    return n;
}

static void
the_example_with_every_key_uncommented_gives_the_defaults(
    void **state OVS_UNUSED)
{
    struct ds ds = DS_EMPTY_INITIALIZER;
    struct ds messages = DS_EMPTY_INITIALIZER;
    struct cfg cfg, defaults;

    cfg_print_example(&ds);
    assert_int_equal(uncomment(&ds), count_options());
    assert_int_equal(cfgfix_load(ds_cstr(&ds), &cfg, true, &messages), 0);
    cfg_init_defaults(&defaults);
    cfgfix_assert_equal(&cfg, &defaults);

    /* All that is said is which keys are not used. */
    for (char *save, *line = strtok_r(ds_cstr(&messages), "\n", &save); line;
         line = strtok_r(NULL, "\n", &save)) {
        assert_non_null(strstr(line, ": not used by ofproxyd"));
    }
    cfg_uninit(&cfg);
    cfg_uninit(&defaults);
    ds_destroy(&messages);
    ds_destroy(&ds);
}

static void
every_key_stands_in_the_reference(void **state OVS_UNUSED)
{
    static const char *const keys[] = {
#define CFG_OPTION(FIELD, KEY, TYPE, CTYPE, DEFAULT, MIN, MAX, ARG, USED, \
                   HELP)                                                  \
    KEY,
#include "ofproxyd/config/options.def"
    };
    struct ds ds = DS_EMPTY_INITIALIZER;

    cfg_print_reference_md(&ds);
    for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
        char *row = xasprintf("\n| `%s` | ", keys[i]);
        assert_non_null(strstr(ds_cstr(&ds), row));
        free(row);
    }
    ds_destroy(&ds);
}

static void
lines_of_the_example_fit_a_terminal(void **state OVS_UNUSED)
{
    struct ds ds = DS_EMPTY_INITIALIZER;
    cfg_print_example(&ds);
    for (char *save, *line = strtok_r(ds_cstr(&ds), "\n", &save); line;
         line = strtok_r(NULL, "\n", &save)) {
        assert_true(strlen(line) <= 79);
    }
    ds_destroy(&ds);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_example_is_up_to_date),
        cmocka_unit_test(the_reference_is_up_to_date),
        cmocka_unit_test(the_example_as_it_is_gives_the_defaults),
        cmocka_unit_test(
            the_example_with_every_key_uncommented_gives_the_defaults),
        cmocka_unit_test(every_key_stands_in_the_reference),
        cmocka_unit_test(lines_of_the_example_fit_a_terminal),
    };
    return cmocka_run_group_tests_name("config-doc", tests, NULL, NULL);
}
