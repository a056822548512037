/* SPDX-License-Identifier: Apache-2.0 */

/* Names of fields.def for the bits of registers. */

#include "words.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
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

const char *
words_scan(const char *text, const char *prefix, uint32_t *ret)
{
    size_t n = strlen(prefix);
    bool begins = !strncmp(text, prefix, n);
    unsigned long long int number;
    char *end;

    if (!begins || !isdigit((unsigned char) text[n])) {
        return NULL;
    }
    errno = 0;
    number = strtoull(text + n, &end, 0);
    if (errno || number > UINT32_MAX) {
        return NULL;
    }
    *ret = (uint32_t) number;
    return end;
}

void
words_put_action(const char *action, struct ds *ds)
{
    uint32_t value, mask = UINT32_MAX;
    const char *p = words_scan(action, "set_field:", &value), *next;

    next = p ? words_scan(p, "/", &mask) : NULL;
    p = next ? next : p;
    if (p && !strncmp(p, "->", 2)) {
        words_put_bits(p + 2, value, mask, ds);
    }
}
