/* SPDX-License-Identifier: Apache-2.0 */

/* Names of fields.def for the bits of registers. */

#include "words.h"

#include <stdio.h>
#include <string.h>

#include <packets.h>
#include <util.h>

#include "ofproxyd/pipeline/tables.h"

/* The values that have names. */
static const struct {
    enum pipe_field field;
    uint32_t value;
    const char *name;
} values[] = {
#define FIELD(SYM, REG, OFS, BITS, NAME, MEANING)
#define VALUE(FIELD_SYM, SYM, NUMBER) { PIPE_F_##FIELD_SYM, NUMBER, #SYM },
#include "ofproxyd/pipeline/fields.def"
};

static void
put_value(enum pipe_field field, uint32_t value, struct ds *ds)
{
    for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
        if (values[i].field == field && values[i].value == value) {
            ds_put_cstr(ds, values[i].name);
            return;
        }
    }
    if (field == PIPE_F_EP_IP) {
        ds_put_format(ds, IP_FMT, IP_ARGS(htonl(value)));
    } else {
        ds_put_format(ds, "%u", value);
    }
}

void
words_put_bits(const char *reg, uint32_t value, uint32_t mask, struct ds *ds)
{
    size_t start = ds->length;

    for (size_t i = 0; i < n_pipe_fields; i++) {
        const struct pipe_field_info *f = &pipe_fields[i];

        if (!strcmp(mf_from_id(f->reg)->name, reg)
            && mask & pipe_field_mask(f->id)) {
            ds_put_format(ds, "%s%s=", ds->length > start ? ", " : "",
                          f->name);
            put_value(f->id, (value & pipe_field_mask(f->id)) >> f->ofs, ds);
        }
    }
}

void
words_put_action(const char *action, struct ds *ds)
{
    uint32_t value, mask = UINT32_MAX;
    char reg[16];

    if (sscanf(action, "set_field:%x/%x->%15[a-z_0-9]", &value, &mask, reg)
            == 3
        || sscanf(action, "set_field:%x->%15[a-z_0-9]", &value, reg) == 2) {
        words_put_bits(reg, value, mask, ds);
    }
}
