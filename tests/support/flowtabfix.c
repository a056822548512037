/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the flow table have in common. */

#include "flowtabfix.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <util.h>

#include "flowtext.h"

struct fitem *
ft_flow(uint32_t object, uint32_t k, uint32_t version, uint32_t group_id)
{
    return flowtext_make_flow(cookie_make(COOKIE_SERVICE, object), object, k,
                              version, group_id);
}

struct fitem *
ft_shared_flow(uint32_t object, uint32_t k)
{
    return flowtext_make_flow(cookie_make(COOKIE_SERVICE, object), 1000, k, 0,
                              0);
}

struct fitem *
ft_group(uint32_t group_id, uint16_t version, uint32_t named)
{
    return flowtext_make_group(group_id, version, named);
}

size_t
ft_want(struct flowtab *ft, uint64_t id, int64_t rank, ...)
{
    const struct flowtab_owner owner = { id, rank, NULL };
    struct fout items = FOUT_INIT;
    struct fitem *item;
    va_list args;

    va_start(args, rank);
    while ((item = va_arg(args, struct fitem *))) {
        fout_add(&items, item);
    }
    va_end(args);
    return flowtab_want(ft, &owner, &items);
}

struct flowtab *
ft_ready(void)
{
    struct flowtab *ft = flowtab_create();

    flowtab_set_complete(ft, true);
    flowtab_dump_begin(ft);
    flowtab_dump_end(ft);
    return ft;
}

size_t
ft_flush(struct flowtab *ft)
{
    struct flowtab_batch *batch;
    size_t n = 0;

    while ((batch = flowtab_take(ft, 100, 100000))) {
        n += batch->n;
        flowtab_batch_done(ft, batch);
    }
    return n;
}

static char *
describe(const struct flowtab_change *change)
{
    uint32_t group_id = fitem_group_id(change->item);
    const char *op = change->op == FLOWTAB_PUT ? "+" : "-";

    if (!group_id) {
        return xasprintf("%sflow", op);
    }
    return xasprintf("%s%s", op,
                     group_id_is_leaf(group_id) ? "leaf" : "group");
}

void
ft_assert_order(struct flowtab *ft, const char *expected)
{
    struct ds ds = DS_EMPTY_INITIALIZER;
    struct flowtab_batch *batch;

    while ((batch = flowtab_take(ft, 1, 100000))) {
        assert_int_equal(batch->n, 1);
        char *text = describe(&batch->changes[0]);
        ds_put_format(&ds, " %s", text);
        free(text);
        flowtab_batch_done(ft, batch);
    }
    assert_string_equal(ds_cstr(&ds), expected);
    ds_destroy(&ds);
}

void
ft_refuse(struct flowtab *ft, struct flowtab_batch *batch, size_t bad,
          long long int now_ms)
{
    const struct flowtab_refusal refusal = { bad, "no", now_ms, 0 };

    flowtab_batch_refused(ft, batch, &refusal);
}

struct flowtab_stats
ft_stats(const struct flowtab *ft)
{
    struct flowtab_stats s;

    flowtab_get_stats(ft, &s);
    return s;
}
