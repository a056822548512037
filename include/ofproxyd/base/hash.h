/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_BASE_HASH_H
#define OFPROXYD_BASE_HASH_H 1

/* A hash that is the same in every build and on every machine.
 *
 * For numbers that others see (object ids, bucket ids): all nodes derive the
 * same ones from the same names.  Open vSwitch's own hash functions depend on
 * the instruction set and serve the hash tables. */

#include <stddef.h>
#include <stdint.h>

/* FNV-1a over 'n' bytes, continued from 'basis', with the final mix of
 * MurmurHash3 so that also the low bits are good. */
static inline uint32_t
stable_hash(const void *data, size_t n, uint32_t basis)
{
    const uint8_t *p = data;
    uint32_t h = UINT32_C(2166136261) ^ basis;

    for (size_t i = 0; i < n; i++) {
        h = (h ^ p[i]) * UINT32_C(16777619);
    }
    h ^= h >> 16;
    h *= UINT32_C(0x85ebca6b);
    h ^= h >> 13;
    h *= UINT32_C(0xc2b2ae35);
    return h ^ h >> 16;
}

#endif /* ofproxyd/base/hash.h */
