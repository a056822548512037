/* SPDX-License-Identifier: Apache-2.0 */

/* docs/pipeline.md is what tables.def, fields.def and cookie.h say. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <packets.h>
#include <util.h>

#include "../support/golden.h"
#include "ofproxyd/flow/cookie.h"
#include "ofproxyd/pipeline/pipeline.h"
#include "ofproxyd/pipeline/tables.h"

static void
put_tables(struct ds *ds)
{
    ds_put_cstr(ds, "## Tables\n\n| id | name | does | miss | rendered by |\n"
                    "|---|---|---|---|---|\n");
    for (size_t i = 0; i < n_pipe_tables; i++) {
        const struct pipe_table_info *t = &pipe_tables[i];

        ds_put_format(ds, "| %d | %s | %s | ", t->id, t->name, t->does);
        switch (t->miss) {
        case PIPE_MISS_DROP: ds_put_cstr(ds, "drop"); break;
        case PIPE_MISS_NEXT:
            ds_put_format(ds, "%s", pipe_table_name(t->next));
            break;
        case PIPE_MISS_SPECIAL: ds_put_cstr(ds, "(1)"); break;
        }
        ds_put_format(ds, " | `src/pipeline/%s.c` |\n", t->owner);
    }
    ds_put_cstr(ds,
                "\n(1) The miss flow does something: `NodePortMark` marks "
                "the connection as to be\nselected and goes on to "
                "`ServiceLB`; so does `SessionAffinity`, where `ServiceLB` "
                "goes on;\n`L3Forwarding` sends what is nobody's to the "
                "gateway.\n\n");
}

/* "reg0[4..7]" or "reg0[9]". */
static void
put_bits(struct ds *ds, const struct pipe_field_info *f)
{
    ds_put_format(ds, "%s[%d", mf_from_id(f->reg)->name, f->ofs);
    if (f->n_bits > 1) {
        ds_put_format(ds, "..%d", f->ofs + f->n_bits - 1);
    }
    ds_put_char(ds, ']');
}

static void
put_fields(struct ds *ds)
{
    static const struct {
        enum pipe_field field;
        const char *name;
        uint32_t value;
    } values[] = {
#define FIELD(SYM, REG, OFS, BITS, NAME, MEANING)
#define VALUE(FIELD_SYM, SYM, NUMBER) { PIPE_F_##FIELD_SYM, #SYM, NUMBER },
#include "ofproxyd/pipeline/fields.def"
    };

    ds_put_cstr(ds, "## Registers and marks\n\n| field | where | meaning | "
                    "values |\n|---|---|---|---|\n");
    for (size_t i = 0; i < n_pipe_fields; i++) {
        const struct pipe_field_info *f = &pipe_fields[i];
        const char *separator = "";

        ds_put_format(ds, "| %s | `", f->name);
        put_bits(ds, f);
        ds_put_format(ds, "` | %s | ", f->meaning);
        for (size_t j = 0; j < ARRAY_SIZE(values); j++) {
            if (values[j].field == f->id) {
                ds_put_format(ds, "%s%s %#" PRIx32, separator, values[j].name,
                              pipe_field_value(f->id, values[j].value));
                separator = ", ";
            }
        }
        ds_put_cstr(ds, " |\n");
    }
    ds_put_char(ds, '\n');
}

static void
put_numbers(struct ds *ds)
{
    struct ip v4 = pipe_virtual_ip(IP_V4), v6 = pipe_virtual_ip(IP_V6);
    char buf4[IP_STRLEN], buf6[IP_STRLEN];
    struct eth_addr mac = pipe_virtual_mac();

    ds_put_cstr(ds, "## Zones and addresses\n\n| what | IPv4 | IPv6 |\n"
                    "|---|---|---|\n");
    ds_put_format(ds, "| main conntrack zone (destinations) | %d | %d |\n",
                  PIPE_ZONE_V4, PIPE_ZONE_V6);
    ds_put_format(ds, "| SNAT conntrack zone (sources) | %d | %d |\n",
                  PIPE_SNAT_ZONE_V4, PIPE_SNAT_ZONE_V6);
    ds_put_format(ds, "| virtual Service address | %s | %s |\n",
                  ip_to_string(&v4, buf4), ip_to_string(&v6, buf6));
    ds_put_format(ds,
                  "\nThe virtual address has the MAC address " ETH_ADDR_FMT
                  ".\n\n",
                  ETH_ADDR_ARGS(mac));
}

static void
put_cookies(struct ds *ds)
{
    ds_put_format(ds,
                  "## Cookies and groups\n\nA flow's cookie is "
                  "`%#" PRIx64 "` | layout version (now %d) << 48 | "
                  "category << 40 | object id.\nA group's id is "
                  "`0x40000000` | object id << 9 | scope << 8 | leaf, "
                  "where scope is 0 for the\nendpoints of policy "
                  "Cluster and 1 for those of policy Local, and leaf 0 "
                  "is the group\nthat flows name. `ovs-appctl -t "
                  "ofproxyd services` shows the object ids.\n\n"
                  "| category | number | object id |\n|---|---|---|\n",
                  COOKIE_MAGIC, COOKIE_LAYOUT);
#define COOKIE_CATEGORY(SYM, VALUE, NAME, OBJECT) \
    ds_put_format(ds, "| %s | %d | %s |\n", NAME, VALUE, OBJECT);
    COOKIE_CATEGORIES
#undef COOKIE_CATEGORY
}

static void
pipeline_md_is_up_to_date(void **state)
{
    struct ds ds = DS_EMPTY_INITIALIZER;

    (void) state;
    ds_put_cstr(&ds, "# The pipeline\n\nMade from "
                     "`include/ofproxyd/pipeline/tables.def`, `fields.def` "
                     "and `flow/cookie.h`\nby `UPDATE=1 make check-unit`; a "
                     "test fails when it is out of date.  The way of a "
                     "packet\nis in [architecture.md](architecture.md).\n\n");
    put_tables(&ds);
    put_fields(&ds);
    put_numbers(&ds);
    put_cookies(&ds);
    golden_check_file("docs/pipeline.md", ds_cstr(&ds));
    ds_destroy(&ds);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pipeline_md_is_up_to_date),
    };

    return cmocka_run_group_tests_name("pipeline-doc", tests, NULL, NULL);
}
