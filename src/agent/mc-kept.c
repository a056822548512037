/* SPDX-License-Identifier: Apache-2.0 */

/* They have one owner, after all others. */

#include "mc-kept.h"

#include <stdlib.h>

#include "ofproxyd/flow/cookie.h"
#include "ofproxyd/pipeline/tables.h"

struct search {
    struct fout gateway; /* What a gateway has. */
    struct fout *kept;
};

static void
keep_flow(const struct fitem *have, void *search_)
{
    struct search *s = search_;

    if (pipe_is_mc(have, &s->gateway)) {
        fout_add(s->kept, fitem_ref(have));
    }
}

/* Anybody else comes first. */
static size_t
want(const struct fout *kept, struct flowtab *flowtab)
{
    struct flowtab_owner owner = {
        .id = cookie_make(COOKIE_MULTICLUSTER, OBJECT_ID_MAX),
        .rank = INT64_MAX,
    };
    struct fout out = FOUT_INIT;
    size_t changed;

    for (size_t i = 0; i < kept->n; i++) {
        fout_add(&out, fitem_ref(kept->items[i]));
    }
    changed = flowtab_want(flowtab, &owner, &out);
    free(out.items);
    return changed;
}

void
mc_kept_take(struct fout *kept, struct flowtab *flowtab,
             const struct pipe_node *node)
{
    struct pipe_node gateway = *node;
    struct search s = { .gateway = FOUT_INIT, .kept = kept };

    gateway.mc_role = PIPE_MC_GATEWAY;
    pipe_render_node(&gateway, &s.gateway);
    flowtab_for_each_have(flowtab, keep_flow, &s);
    want(kept, flowtab);
    fout_clear(&s.gateway);
    free(s.gateway.items);
}

bool
mc_kept_lead_away(const struct fout *kept)
{
    bool away = false;

    for (size_t i = 0; i < kept->n; i++) {
        const struct fitem *item = kept->items[i];

        if (cookie_category(fitem_cookie(item)) == COOKIE_MULTICLUSTER) {
            if (fitem_table(item) == PIPE_T_CLASSIFIER) {
                return false; /* Only a gateway has these. */
            }
            away = true;
        }
    }
    return away;
}

bool
mc_kept_release(struct fout *kept, struct flowtab *flowtab)
{
    size_t changed = 0;

    if (kept->n) {
        fout_clear(kept);
        changed = want(kept, flowtab);
    }
    return changed > 0;
}
