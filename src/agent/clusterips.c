/* SPDX-License-Identifier: Apache-2.0 */

/* One flow for each cluster IP. */

#include "clusterips.h"

#include <openvswitch/vlog.h>

#include <hash.h>
#include <util.h>

#include "ofproxyd/base/idpool.h"
#include "ofproxyd/flow/cookie.h"
#include "ofproxyd/pipeline/pipeline.h"
#include "unitid.h"

VLOG_DEFINE_THIS_MODULE(clusterips);

struct clusterips {
    struct flowtab *flowtab;
    struct idpool *ids;
    struct hmap all; /* Of struct clusterip, by object id. */
};

struct clusterips *
clusterips_create(struct flowtab *flowtab)
{
    struct clusterips *cs = xzalloc(sizeof *cs);

    cs->flowtab = flowtab;
    cs->ids = idpool_create(0, OBJECT_ID_MAX);
    hmap_init(&cs->all);
    return cs;
}

void
clusterips_destroy(struct clusterips *cs)
{
    if (cs) {
        hmap_destroy(&cs->all);
        idpool_destroy(cs->ids);
        free(cs);
    }
}

uint64_t
clusterip_owner(const struct clusterip *c)
{
    return cookie_make(COOKIE_CLUSTER_IP, c->object_id);
}

void
clusterip_format(const struct clusterip *c, struct ds *ds)
{
    ds_put_format(ds, "%s, other ports (%s)", c->full_name,
                  ip_family_name(ip_family(&c->ip)));
}

static bool
want(struct clusterips *cs, const struct clusterip *c, int64_t created_s,
     struct fout *items)
{
    const struct flowtab_owner owner = {
        .id = clusterip_owner(c),
        .rank = created_s,
        .name = c->full_name,
    };
    bool changed = flowtab_want(cs->flowtab, &owner, items) > 0;

    free(items->items);
    return changed;
}

/* Returns false if there is no id left. */
static bool
make_exist(struct clusterips *cs, struct clusterip *c, const char *full_name,
           const struct ip *ip)
{
    static struct vlog_rate_limit rl = VLOG_RATE_LIMIT_INIT(1, 5);

    if (!c->exists) {
        c->exists = unitid_take_cluster_ip(cs->ids, cs->flowtab, full_name, ip,
                                           &c->object_id);
        if (!c->exists) {
            VLOG_ERR_RL(&rl,
                        "Service %s: what is for none of its ports isn't "
                        "rejected: there are more than %u Services",
                        full_name, OBJECT_ID_MAX);
            return false;
        }
        c->full_name = full_name;
        hmap_insert(&cs->all, &c->id_node, hash_int(c->object_id, 0));
    }
    c->ip = *ip;
    return true;
}

bool
clusterip_set(struct clusterips *cs, struct clusterip *c,
              const char *full_name, int64_t created_s, const struct ip *ip)
{
    struct fout items = FOUT_INIT;
    bool changed;

    if (ip) {
        if (!make_exist(cs, c, full_name, ip)) {
            return false;
        }
        pipe_render_cluster_ip(c->object_id, ip, &items);
        return want(cs, c, created_s, &items);
    } else if (!c->exists) {
        return false;
    }
    changed = want(cs, c, 0, &items);
    clusterip_forget(cs, c);
    return changed;
}

void
clusterip_forget(struct clusterips *cs, struct clusterip *c)
{
    if (c->exists) {
        hmap_remove(&cs->all, &c->id_node);
        idpool_free(cs->ids, c->object_id);
        *c = (struct clusterip){ .exists = false };
    }
}

const struct clusterip *
clusterips_find_owner(const struct clusterips *cs, uint64_t owner)
{
    uint32_t id = cookie_object_id(owner);
    const struct clusterip *c;

    if (!cookie_is_ours(owner)
        || cookie_category(owner) != COOKIE_CLUSTER_IP) {
        return NULL;
    }
    HMAP_FOR_EACH_WITH_HASH (c, id_node, hash_int(id, 0), &cs->all) {
        if (c->object_id == id) {
            return c;
        }
    }
    return NULL;
}
