/* SPDX-License-Identifier: Apache-2.0 */
/* Names and numbers of transport protocols. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <errno.h>

#include <cmocka.h>

#include <util.h>

#include "ofproxyd/base/proto.h"

static void
each_protocol_has_name_and_number(void **state OVS_UNUSED)
{
    static const struct {
        enum proto proto;
        const char *name;
        uint8_t number;
    } rows[] = {
        { PROTO_TCP, "TCP", 6 },
        { PROTO_UDP, "UDP", 17 },
        { PROTO_SCTP, "SCTP", 132 },
    };

    assert_int_equal(ARRAY_SIZE(rows), N_PROTOS);
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        enum proto proto;

        assert_string_equal(proto_name(rows[i].proto), rows[i].name);
        assert_int_equal(proto_number(rows[i].proto), rows[i].number);
        assert_int_equal(proto_parse(rows[i].name, &proto), 0);
        assert_int_equal(proto, rows[i].proto);
    }
}

static void
other_texts_are_refused(void **state OVS_UNUSED)
{
    static const char *const bad[] = { "",     "tcp",  "TCP ", " TCP", "TC",
                                       "TCPX", "ICMP", "6",    "Udp" };

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        enum proto proto = PROTO_SCTP;

        assert_int_equal(proto_parse(bad[i], &proto), EINVAL);
        assert_int_equal(proto, PROTO_SCTP);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_protocol_has_name_and_number),
        cmocka_unit_test(other_texts_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
