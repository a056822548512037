/* SPDX-License-Identifier: Apache-2.0 */
/* Members of the sets of our table, which are changed one by one. */

#include <openvswitch/util.h>
#include <openvswitch/vlog.h>
#include <util.h>

#include "rules-private.h"
#include "rulestext.h"
#include "setelem.h"

VLOG_DEFINE_THIS_MODULE(rules_members);

static struct vlog_rate_limit rl = VLOG_RATE_LIMIT_INIT(5, 5);

void
rules_add_member(struct rules *r, enum rules_set_id id,
                 const struct cidr *cidr)
{
    uint8_t max = ip_family(&cidr->ip) == IP_V4 ? 32 : 128;

    if (rulestext_set_kind(id) != RULESTEXT_ADDRESSES || cidr->plen == max) {
        memberset_add(&r->sets[id], cidr);
    }
}

void
rules_remove_member(struct rules *r, enum rules_set_id id,
                    const struct cidr *cidr)
{
    memberset_remove(&r->sets[id], cidr);
}

void
rules_add_port(struct rules *r, enum rules_set_id id,
               const struct rules_port *port)
{
    memberset_add_port(&r->sets[id], port);
}

void
rules_remove_port(struct rules *r, enum rules_set_id id,
                  const struct rules_port *port)
{
    memberset_remove_port(&r->sets[id], port);
}

/* The members on a list that went with the last batch. */
static void
members_done(struct rules *r, enum rules_set_id id, bool add,
             enum ip_family family, size_t n)
{
    struct memberset *ms = &r->sets[id];
    struct member *m, *next;

    LIST_FOR_EACH_SAFE (m, next, pending_node,
                        add ? &ms->to_add : &ms->to_del) {
        if (!n) {
            break;
        }
        if (ip_family(&m->cidr.ip) == family) {
            rules_flush_for_member(r, id, m);
            memberset_done(ms, m);
            n--;
        }
    }
}

bool
rules_members_are_due(const struct rules *r)
{
    if (!r->exists || r->odd) {
        return false;
    }
    for (size_t i = 0; i < N_RULES_SETS; i++) {
        if (!ovs_list_is_empty(&r->sets[i].to_add)
            || (r->complete && !ovs_list_is_empty(&r->sets[i].to_del))) {
            return true;
        }
    }
    return false;
}

void
rules_run_members(struct rules *r)
{
    size_t n[2][N_RULES_SETS][N_IP_FAMILIES] = { 0 };
    struct nfnl_batch batch;

    if (!rules_members_are_due(r)) {
        return;
    }
    nfnl_batch_init(&batch);
    for (int add = !r->complete; add < 2; add++) {
        for (enum rules_set_id id = 0; id < N_RULES_SETS; id++) {
            for (enum ip_family f = 0; f < N_IP_FAMILIES; f++) {
                n[add][id][f] =
                    setelem_encode(id, f, &r->sets[id], add, &batch);
            }
        }
    }

    int error = nfnl_batch_send(r->nl, &batch, &r->err);
    nfnl_batch_uninit(&batch);
    if (error) {
        VLOG_WARN_RL(&rl, "members of sets can't be changed: %s; trying again",
                     r->err.msg);
        r->failed = true;
        return;
    }
    for (int add = 0; add < 2; add++) {
        for (enum rules_set_id id = 0; id < N_RULES_SETS; id++) {
            for (enum ip_family f = 0; f < N_IP_FAMILIES; f++) {
                members_done(r, id, add, f, n[add][id][f]);
                r->n_changes += n[add][id][f];
            }
        }
    }
}
