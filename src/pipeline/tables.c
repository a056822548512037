/* SPDX-License-Identifier: Apache-2.0 */

/* tables.def and fields.def as arrays, with the checks that the compiler can
 * make. */

#include "ofproxyd/pipeline/tables.h"

#define DROP      PIPE_MISS_DROP, 0
#define SPECIAL   PIPE_MISS_SPECIAL, 0
#define NEXT(SYM) PIPE_MISS_NEXT, PIPE_T_##SYM

const struct pipe_table_info pipe_tables[] = {
#define TABLE(SYM, ID, NAME, MISS, OWNER, DOES) \
    { PIPE_T_##SYM, NAME, MISS, OWNER, DOES },
#include "ofproxyd/pipeline/tables.def"
};
const size_t n_pipe_tables = sizeof pipe_tables / sizeof pipe_tables[0];

/* OpenFlow tables 0 to 253 are for flows; 254 is Open vSwitch's own. */
#define TABLE(SYM, ID, NAME, MISS, OWNER, DOES) \
    _Static_assert((ID) >= 0 && (ID) <= 253, "bad table id for " NAME);
#include "ofproxyd/pipeline/tables.def"

const struct pipe_field_info pipe_fields[] = {
#define FIELD(SYM, REG, OFS, BITS, NAME, MEANING) \
    { PIPE_F_##SYM, REG, OFS, BITS, NAME, MEANING },
#define VALUE(FIELD_SYM, SYM, NUMBER)
#include "ofproxyd/pipeline/fields.def"
};
const size_t n_pipe_fields = sizeof pipe_fields / sizeof pipe_fields[0];

#define FIELD(SYM, REG, OFS, BITS, NAME, MEANING)               \
    _Static_assert((OFS) + (BITS) <= 32, "bad bits for " NAME); \
    enum {                                                      \
        BITS_OF_##SYM = BITS                                    \
    };
#define VALUE(FIELD_SYM, SYM, NUMBER)                               \
    _Static_assert((uint64_t) (NUMBER) >> BITS_OF_##FIELD_SYM == 0, \
                   "value " #SYM " is too large");
#include "ofproxyd/pipeline/fields.def"

const char *
pipe_table_name(unsigned int table)
{
    for (size_t i = 0; i < n_pipe_tables; i++) {
        if ((unsigned int) pipe_tables[i].id == table) {
            return pipe_tables[i].name;
        }
    }
    return "?";
}

uint32_t
pipe_field_mask(enum pipe_field field)
{
    const struct pipe_field_info *f = &pipe_fields[field];

    return (uint32_t) (((UINT64_C(1) << f->n_bits) - 1) << f->ofs);
}

uint32_t
pipe_field_value(enum pipe_field field, uint32_t value)
{
    return value << pipe_fields[field].ofs;
}
