/* SPDX-License-Identifier: Apache-2.0 */

/* Answers to packets that found no endpoint. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <util.h>

#include "ofproxyd/pipeline/pipeline.h"

#define ETH      14
#define SRC_PORT 40000
#define DST_PORT 80

struct frame {
    uint8_t data[2048];
    size_t len;
    bool v6;
};

static const uint8_t src4[] = { 192, 0, 2, 7 }, dst4[] = { 203, 0, 113, 10 };
static const uint8_t src6[] = { 0x20, 1, 0xd, 0xb8, 1, [15] = 7 };
static const uint8_t dst6[] = { 0x20, 1, 0xd, 0xb8, 3, [15] = 0x10 };

static void
write_16(uint8_t *p, uint16_t x)
{
    p[0] = x >> 8;
    p[1] = x;
}

static uint16_t
read_16(const uint8_t *p)
{
    return p[0] << 8 | p[1];
}

static uint32_t
read_32(const uint8_t *p)
{
    return (uint32_t) read_16(p) << 16 | read_16(p + 2);
}

static size_t
l3_len(const struct frame *f)
{
    return f->v6 ? 40 : 20;
}

static uint8_t *
l4(struct frame *f)
{
    return f->data + ETH + l3_len(f);
}

/* An Ethernet frame with 'l4_len' bytes of 'proto' behind its IP header. */
static void
make_frame(struct frame *f, bool v6, uint8_t proto, size_t l4_len)
{
    uint8_t *l3 = f->data + ETH;

    memset(f, 0, sizeof *f);
    f->v6 = v6;
    memcpy(f->data, "\x0a\0\0\0\0\1", 6);
    memcpy(f->data + 6, "\x0a\x58\xc0\0\2\7", 6);
    write_16(f->data + 12, v6 ? 0x86dd : 0x0800);
    if (v6) {
        l3[0] = 0x60;
        write_16(l3 + 4, l4_len);
        l3[6] = proto;
        l3[7] = 63;
        memcpy(l3 + 8, src6, 16);
        memcpy(l3 + 24, dst6, 16);
    } else {
        l3[0] = 0x45;
        write_16(l3 + 2, 20 + l4_len);
        l3[8] = 63;
        l3[9] = proto;
        memcpy(l3 + 12, src4, 4);
        memcpy(l3 + 16, dst4, 4);
    }
    write_16(l4(f), SRC_PORT);
    write_16(l4(f) + 2, DST_PORT);
    f->len = ETH + l3_len(f) + l4_len;
}

static void
make_tcp(struct frame *f, bool v6, uint8_t flags, size_t data_len)
{
    make_frame(f, v6, 6, 20 + data_len);
    memcpy(l4(f) + 4, "\x11\x22\x33\x44", 4);
    memcpy(l4(f) + 8, "\x55\x66\x77\x88", 4);
    l4(f)[12] = 0x50;
    l4(f)[13] = flags;
}

/* The one's complement sum, which is 0xffff over a whole checksummed part. */
static uint16_t
sum(uint32_t s, const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        s += i % 2 ? p[i] : p[i] << 8;
    }
    while (s >> 16) {
        s = (s & 0xffff) + (s >> 16);
    }
    return s;
}

/* Checks MACs, IP header and checksums of an answer, of 'proto'. */
static void
check_reply(struct frame *q, struct frame *r, uint8_t proto)
{
    const uint8_t *l3 = r->data + ETH;
    size_t l4_len = r->len - ETH - l3_len(r);
    uint32_t pseudo = proto + l4_len;

    assert_memory_equal(r->data, q->data + 6, 6);
    assert_memory_equal(r->data + 6, q->data, 6);
    assert_memory_equal(r->data + 12, q->data + 12, 2);
    if (r->v6) {
        assert_int_equal(l3[0] >> 4, 6);
        assert_int_equal(read_16(l3 + 4), l4_len);
        assert_int_equal(l3[6], proto);
        assert_memory_equal(l3 + 8, dst6, 16);
        assert_memory_equal(l3 + 24, src6, 16);
        pseudo = sum(pseudo, l3 + 8, 32);
    } else {
        assert_int_equal(l3[0], 0x45);
        assert_int_equal(read_16(l3 + 2), r->len - ETH);
        assert_int_equal(l3[9], proto);
        assert_memory_equal(l3 + 12, dst4, 4);
        assert_memory_equal(l3 + 16, src4, 4);
        assert_int_equal(sum(0, l3, 20), 0xffff);
        pseudo = proto == 1 ? 0 : sum(pseudo, l3 + 12, 8);
    }
    assert_int_equal(sum(pseudo, l4(r), l4_len), 0xffff);
}

static bool
reject(struct frame *q, struct frame *r)
{
    uint8_t reply[PIPE_REJECT_MAX];
    /* Exactly as long as the frame, so that sanitizers see a read behind. */
    uint8_t *packet = xmemdup(q->data, MAX(q->len, 1));

    memset(r, 0, sizeof *r);
    r->v6 = q->v6;
    r->len = pipe_build_reject(packet, q->len, reply);
    assert_true(r->len <= sizeof reply);
    memcpy(r->data, reply, r->len);
    free(packet);
    return r->len > 0;
}

static void
q1_syn_gets_a_rst_that_acknowledges_it(void **state)
{
    (void) state;
    for (int v6 = 0; v6 < 2; v6++) {
        struct frame q, r;

        make_tcp(&q, v6, 0x02, 0);
        assert_true(reject(&q, &r));
        check_reply(&q, &r, 6);
        assert_int_equal(read_16(l4(&r)), DST_PORT);
        assert_int_equal(read_16(l4(&r) + 2), SRC_PORT);
        assert_int_equal(read_32(l4(&r) + 4), 0);
        assert_int_equal(read_32(l4(&r) + 8), 0x11223345);
        assert_int_equal(l4(&r)[13], 0x14);
    }
}

static void
segment_with_ack_gets_a_rst_with_its_number(void **state)
{
    struct frame q, r;

    (void) state;
    make_tcp(&q, false, 0x10, 5);
    assert_true(reject(&q, &r));
    check_reply(&q, &r, 6);
    assert_int_equal(read_32(l4(&r) + 4), 0x55667788);
    assert_int_equal(l4(&r)[13], 0x04);

    make_tcp(&q, false, 0x03, 5); /* SYN and FIN with data count all. */
    assert_true(reject(&q, &r));
    assert_int_equal(read_32(l4(&r) + 8), 0x11223344 + 7);
}

static void
q1_datagram_gets_port_unreachable_with_its_beginning(void **state)
{
    static const uint8_t protos[] = { 17, 132 };

    (void) state;
    for (int v6 = 0; v6 < 2; v6++) {
        for (size_t i = 0; i < ARRAY_SIZE(protos); i++) {
            struct frame q, r;

            make_frame(&q, v6, protos[i], 30);
            assert_true(reject(&q, &r));
            check_reply(&q, &r, v6 ? 58 : 1);
            assert_int_equal(l4(&r)[0], v6 ? 1 : 3);
            assert_int_equal(l4(&r)[1], v6 ? 4 : 3);
            assert_memory_equal(l4(&r) + 8, q.data + ETH, q.len - ETH);
            assert_int_equal(r.len, ETH + l3_len(&r) + 8 + q.len - ETH);
        }
    }
}

static void
long_datagram_is_quoted_up_to_the_limit(void **state)
{
    struct frame q, r;

    (void) state;
    make_frame(&q, false, 17, 1400);
    assert_true(reject(&q, &r));
    check_reply(&q, &r, 1);
    assert_int_equal(r.len, ETH + 576);

    make_frame(&q, true, 17, 1400);
    assert_true(reject(&q, &r));
    check_reply(&q, &r, 58);
    assert_int_equal(r.len, ETH + 1280);
}

/* Ethernet pads short frames; the padding is not part of the packet. */
static void
padding_does_not_count(void **state)
{
    struct frame q, r;

    (void) state;
    make_tcp(&q, false, 0x02, 0);
    q.len = 60;
    assert_true(reject(&q, &r));
    assert_int_equal(read_32(l4(&r) + 8), 0x11223345);
}

static void
what_must_not_be_answered_is_not(void **state)
{
    struct frame q, r;

    (void) state;
    make_tcp(&q, false, 0x04, 0); /* RST. */
    assert_false(reject(&q, &r));
    make_frame(&q, false, 17, 30);
    write_16(q.data + ETH + 6, 0x2000); /* More fragments. */
    assert_false(reject(&q, &r));
    write_16(q.data + ETH + 6, 1); /* Not the first. */
    assert_false(reject(&q, &r));
    write_16(q.data + ETH + 6, 0x4000); /* Don't fragment: fine. */
    assert_true(reject(&q, &r));
    make_frame(&q, true, 44, 30); /* IPv6 fragment. */
    assert_false(reject(&q, &r));
    make_frame(&q, false, 17, 30);
    memset(q.data + ETH + 12, 0, 4); /* From 0.0.0.0. */
    assert_false(reject(&q, &r));
    memset(q.data + ETH + 12, 255, 4); /* From broadcast. */
    assert_false(reject(&q, &r));
    make_frame(&q, false, 17, 30);
    q.data[6] |= 1; /* From a multicast MAC address. */
    assert_false(reject(&q, &r));
    make_frame(&q, false, 17, 30);
    write_16(q.data + 12, 0x0806); /* ARP. */
    assert_false(reject(&q, &r));
}

static void
queries_and_other_protocols_get_port_unreachable(void **state)
{
    struct frame q, r;

    (void) state;
    for (int type = 0; type < 256; type++) {
        make_frame(&q, false, 1, 30);
        l4(&q)[0] = type;
        assert_int_equal(reject(&q, &r), type == 8 || type == 13);
        make_frame(&q, true, 58, 30);
        l4(&q)[0] = type;
        assert_int_equal(reject(&q, &r), type == 128);
    }
    make_frame(&q, true, 58, 30);
    l4(&q)[0] = 128;
    assert_true(reject(&q, &r));
    check_reply(&q, &r, 58);
    assert_int_equal(l4(&r)[0], 1);
    for (int v6 = 0; v6 < 2; v6++) {
        make_frame(&q, v6, 47, 30); /* GRE. */
        assert_true(reject(&q, &r));
        check_reply(&q, &r, v6 ? 58 : 1);
        assert_int_equal(l4(&r)[0], v6 ? 1 : 3);
        assert_int_equal(l4(&r)[1], v6 ? 4 : 3);
        /* IPv6 destination options: what follows is not looked for. */
        make_frame(&q, v6, 60, 30);
        assert_int_equal(reject(&q, &r), !v6);
    }
}

/* Every prefix of a frame and random bytes: no crash, no reading behind. */
static void
cut_and_random_frames_are_survived(void **state)
{
    struct frame q, r, cut;

    (void) state;
    for (int v6 = 0; v6 < 2; v6++) {
        make_tcp(&q, v6, 0x02, 40);
        for (size_t len = 0; len < q.len; len++) {
            cut = q;
            cut.len = len;
            reject(&cut, &r);
        }
    }
    srandom(1);
    for (int i = 0; i < 20000; i++) {
        make_tcp(&q, i % 2, random(), random() % 100);
        for (int j = random() % 6; j > 0; j--) {
            q.data[12 + random() % 64] = random();
        }
        q.len = random() % (q.len + 1);
        reject(&q, &r);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(q1_syn_gets_a_rst_that_acknowledges_it),
        cmocka_unit_test(segment_with_ack_gets_a_rst_with_its_number),
        cmocka_unit_test(q1_datagram_gets_port_unreachable_with_its_beginning),
        cmocka_unit_test(long_datagram_is_quoted_up_to_the_limit),
        cmocka_unit_test(padding_does_not_count),
        cmocka_unit_test(what_must_not_be_answered_is_not),
        cmocka_unit_test(queries_and_other_protocols_get_port_unreachable),
        cmocka_unit_test(cut_and_random_frames_are_survived),
    };

    return cmocka_run_group_tests_name("reject", tests, NULL, NULL);
}
