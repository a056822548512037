/* SPDX-License-Identifier: Apache-2.0 */
/* Health-check node ports of Services and the number of local endpoints. */

#include "hchecks.h"

#include <stdlib.h>
#include <string.h>

#include <openvswitch/list.h>
#include <openvswitch/shash.h>

#include <util.h>

struct hchecks {
    struct shash entries;  /* "ns/name" to struct entry. */
    struct ovs_list queue; /* Of struct entry. */
    char *popped;          /* The names of what was handed out last. */
};

struct state {
    uint16_t port; /* 0: none. */
    size_t n_local;
};

struct entry {
    struct ovs_list queue_node; /* Points to itself when not in the queue. */
    char *ns;                   /* Followed by the name. */
    struct state now[N_IP_FAMILIES];
    struct state said[N_IP_FAMILIES];
};

struct hchecks *
hchecks_create(void)
{
    struct hchecks *h = xzalloc(sizeof *h);

    shash_init(&h->entries);
    ovs_list_init(&h->queue);
    return h;
}

static void
entry_destroy(struct hchecks *h, struct shash_node *node)
{
    struct entry *e = node->data;

    ovs_list_remove(&e->queue_node);
    shash_delete(&h->entries, node);
    free(e->ns);
    free(e);
}

void
hchecks_destroy(struct hchecks *h)
{
    struct shash_node *node;

    if (!h) {
        return;
    }
    SHASH_FOR_EACH_SAFE (node, &h->entries) {
        entry_destroy(h, node);
    }
    shash_destroy(&h->entries);
    free(h->popped);
    free(h);
}

/* Counting. */

static int
compare_ips(const void *a, const void *b)
{
    return ip_compare(a, b);
}

static bool
is_local(const struct slice_endpoint *ep, const char *node_name)
{
    return ep->ready && ep->node && *node_name && !strcmp(ep->node, node_name);
}

/* Sets '*ret' to the addresses, for the caller to free(). */
static size_t
collect(const struct model_service *ms, enum ip_family family,
        const char *node_name, struct ip **ret)
{
    const struct model_slice *m;
    size_t n = 0, allocated = 0;

    *ret = NULL;
    LIST_FOR_EACH (m, list_node, &ms->slices) {
        const struct slice *slice = m->slice;
        bool counts = slice->family == family && slice->n_ports;

        for (size_t i = 0; counts && i < slice->n_endpoints; i++) {
            if (is_local(&slice->endpoints[i], node_name)) {
                if (n == allocated) {
                    *ret = x2nrealloc(*ret, &allocated, sizeof **ret);
                }
                (*ret)[n++] = slice->endpoints[i].ip;
            }
        }
    }
    return n;
}

size_t
hchecks_count_local(const struct model_service *ms, enum ip_family family,
                    const char *node_name)
{
    size_t n_different = 0;
    struct ip *ips;
    size_t n = collect(ms, family, node_name, &ips);

    if (n) {
        qsort(ips, n, sizeof *ips, compare_ips);
    }
    for (size_t i = 0; i < n; i++) {
        n_different += !i || !ip_equals(&ips[i], &ips[i - 1]);
    }
    free(ips);
    return n_different;
}

/* The queue. */

static bool
has_check(const struct svc *svc)
{
    return svc->type == SVC_LOAD_BALANCER
           && svc->external_policy == SVC_POLICY_LOCAL && svc->health_port;
}

static struct entry *
entry_create(struct hchecks *h, const char *key, const char *ns)
{
    struct entry *e = xzalloc(sizeof *e);

    e->ns = xstrdup(key);
    e->ns[strlen(ns)] = '\0';
    ovs_list_init(&e->queue_node);
    shash_add(&h->entries, key, e);
    return e;
}

static void
entry_set(struct entry *e, const struct model_service *ms, bool has,
          const char *node_name)
{
    for (int f = 0; f < N_IP_FAMILIES; f++) {
        struct state *s = &e->now[f];

        *s = (struct state){ 0, 0 };
        if (has && !ip_is_none(&ms->svc->cluster_ips[f])) {
            s->port = ms->svc->health_port;
            s->n_local = hchecks_count_local(ms, f, node_name);
        }
    }
}

static bool
same_state(const struct state *a, const struct state *b)
{
    return a->port == b->port && a->n_local == b->n_local;
}

void
hchecks_update(struct hchecks *h, const struct model_service *ms, bool served,
               const char *node_name)
{
    bool has = served && has_check(ms->svc);
    struct entry *e;
    char *key;

    if (!has && shash_is_empty(&h->entries)) {
        return;
    }
    key = xasprintf("%s/%s", ms->ns, ms->name);
    e = shash_find_data(&h->entries, key);
    if (!e && has) {
        e = entry_create(h, key, ms->ns);
    }
    if (e) {
        entry_set(e, ms, has, node_name);
        if (ovs_list_is_empty(&e->queue_node)) {
            ovs_list_push_back(&h->queue, &e->queue_node);
        }
    }
    free(key);
}

static char *
entry_key(const struct entry *e)
{
    return xasprintf("%s/%s", e->ns, strchr(e->ns, '\0') + 1);
}

/* Nothing of it is left to say. */
static void
entry_finish(struct hchecks *h, struct entry *e)
{
    bool gone = true;

    ovs_list_remove(&e->queue_node);
    ovs_list_init(&e->queue_node);
    for (int f = 0; f < N_IP_FAMILIES; f++) {
        gone &= !e->said[f].port;
    }
    if (gone) {
        char *key = entry_key(e);

        entry_destroy(h, shash_find(&h->entries, key));
        free(key);
    }
}

/* Says the next thing of an entry, or returns false. */
static bool
entry_say(struct hchecks *h, struct entry *e, struct health_check *ret)
{
    for (int f = 0; f < N_IP_FAMILIES; f++) {
        if (!same_state(&e->now[f], &e->said[f])) {
            e->said[f] = e->now[f];
            h->popped = entry_key(e);
            h->popped[strlen(e->ns)] = '\0';
            *ret = (struct health_check){
                .ns = h->popped,
                .name = h->popped + strlen(e->ns) + 1,
                .family = f,
                .port = e->now[f].port,
                .n_local = e->now[f].n_local,
            };
            return true;
        }
    }
    return false;
}

bool
hchecks_pop(struct hchecks *h, struct health_check *ret)
{
    struct entry *e;

    free(h->popped);
    h->popped = NULL;
    LIST_FOR_EACH_SAFE (e, queue_node, &h->queue) {
        if (entry_say(h, e, ret)) {
            return true;
        }
        entry_finish(h, e);
    }
    return false;
}
