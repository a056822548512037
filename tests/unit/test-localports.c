/* SPDX-License-Identifier: Apache-2.0 */
/* Source ports beside those of the node's programs. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <util.h>

#include "ofproxyd/host/localports.h"
#include "ofproxyd/pipeline/pipeline.h"

struct example {
    struct localports used, left;
    bool apart;
};

static void
what_is_left_is_the_longer_part(void **state OVS_UNUSED)
{
    static const struct example examples[] = {
        { { 32768, 60999 }, { 1024, 32767 }, true },
        { { 32768, 65535 }, { 1024, 32767 }, true },
        { { 10000, 20000 }, { 20001, 65535 }, true },
        { { 1, 1 }, { 1024, 65535 }, true },
        { { 1, 1023 }, { 1024, 65535 }, true },
        { { 1, 1024 }, { 1025, 65535 }, true },
        { { 1024, 40999 }, { 41000, 65535 }, true },
        /* As long as each other, */
        { { 21024, 45535 }, { 1024, 21023 }, true },
        /* just long enough, */
        { { 17408, 65535 }, { 1024, 17407 }, true },
        { { 1024, 49151 }, { 49152, 65535 }, true },
        /* and too short. */
        { { 17407, 49152 }, { 1024, 65535 }, false },
        { { 1024, 60999 }, { 1024, 65535 }, false },
        { { 1024, 65535 }, { 1024, 65535 }, false },
        { { 1, 65535 }, { 1024, 65535 }, false },
    };

    for (size_t i = 0; i < ARRAY_SIZE(examples); i++) {
        const struct example *e = &examples[i];
        bool apart;
        struct localports left = localports_left(e->used, &apart);

        assert_int_equal(left.first, e->left.first);
        assert_int_equal(left.last, e->left.last);
        assert_int_equal(apart, e->apart);
    }
}

static void
the_default_is_linuxs(void **state OVS_UNUSED)
{
    struct localports ports = localports_default();
    bool apart;

    assert_int_equal(ports.first, 32768);
    assert_int_equal(ports.last, 60999);
    ports = localports_left(ports, &apart);
    assert_int_equal(ports.first, PIPE_SNAT_PORT_MIN);
    assert_int_equal(ports.last, PIPE_SNAT_PORT_MAX);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_left_is_the_longer_part),
        cmocka_unit_test(the_default_is_linuxs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
