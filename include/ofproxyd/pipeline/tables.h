/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_PIPELINE_TABLES_H
#define OFPROXYD_PIPELINE_TABLES_H 1

/* The tables and fields of tables.def and fields.def as C. */

#include <stddef.h>
#include <stdint.h>

#include <openvswitch/meta-flow.h>

/* Flow tables; the values are OpenFlow table ids. */
enum pipe_table {
#define TABLE(SYM, ID, NAME, MISS, OWNER, DOES) PIPE_T_##SYM = ID,
#include "ofproxyd/pipeline/tables.def"
};

enum pipe_miss_kind {
    PIPE_MISS_DROP,
    PIPE_MISS_NEXT,
    PIPE_MISS_SPECIAL
};

struct pipe_table_info {
    enum pipe_table id;
    const char *name; /* In Flow_Table, dumps, logs and docs. */
    enum pipe_miss_kind miss;
    enum pipe_table next; /* Of PIPE_MISS_NEXT. */
    const char *owner;    /* The file of src/pipeline that writes its flows. */
    const char *does;     /* For docs. */
};

extern const struct pipe_table_info pipe_tables[];
extern const size_t n_pipe_tables;

/* Registers and marks. */
enum pipe_field {
#define FIELD(SYM, REG, OFS, BITS, NAME, MEANING) PIPE_F_##SYM,
#define VALUE(FIELD_SYM, SYM, NUMBER)
#include "ofproxyd/pipeline/fields.def"
};

enum pipe_value {
#define FIELD(SYM, REG, OFS, BITS, NAME, MEANING)
#define VALUE(FIELD_SYM, SYM, NUMBER) PIPE_V_##FIELD_SYM##_##SYM = NUMBER,
#include "ofproxyd/pipeline/fields.def"
};

/* The register of an endpoint's IPv6 address: Antrea's, reg12 to reg15. */
#define PIPE_EP_IP6_REG MFF_XXREG3

struct pipe_field_info {
    enum pipe_field id;
    enum mf_field_id reg;
    uint8_t ofs, n_bits;
    const char *name;
    const char *meaning;
};

extern const struct pipe_field_info pipe_fields[];
extern const size_t n_pipe_fields;

/* Returns the name of 'table', or "?" for a number that is no table. */
const char *pipe_table_name(unsigned int table);

/* The bits of 'field' in its register, and 'value' moved to them. */
uint32_t pipe_field_mask(enum pipe_field);
uint32_t pipe_field_value(enum pipe_field, uint32_t value);

#endif /* ofproxyd/pipeline/tables.h */
