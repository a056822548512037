/* SPDX-License-Identifier: Apache-2.0 */

/* Jobs into requests, one pass after the other.
 *
 * What is asked for is decided when it is asked for, from the Service ports
 * as they are then: an endpoint may have come back, and an address have become
 * another Service's, between two passes.
 *
 * How many passes?  A walk misses entries only if the table shrinks under it,
 * which it does each time that the entries have become half as many.  So two
 * passes are enough unless they halve meanwhile; and then a walk costs half as
 * much.  As long as a pass is cheap, MAX_PASSES are made (measured: 12 are
 * needed for 20 000 entries, all of them stale).  If one is not, they end when
 * the cost of a walk, which is measured, has stopped to fall. */

#include <limits.h>
#include <string.h>

#include <hash.h>
#include <util.h>

#include "stale-private.h"

/* One in so many of the switch's time, at most. */
#define DUTY         4
#define MAX_PAUSE_MS 1000

/* For how long the switch may be busy without doing anything else. */
#define CHUNK_US 10000

/* An owner that wants nothing. */
#define NOBODY 0

/* Jobs in passes: more wait. */
#define MAX_ACTIVE 1000

/* Half of them at once, the others over STALE_SPREAD_MS; */
#define MAX_PASSES 16
#define N_SPREAD   (MAX_PASSES / 2)
/* which takes no longer if the switch is busy with one for so long. */
#define CHEAP_US (STALE_SPREAD_MS * 1000 / DUTY / N_SPREAD)
/* So often its cost is measured while it seems not to fall: each time the
 * switch may have had something else to do. */
#define N_FLAT 3

/* Claims. */

/* How far 'ep' (or, if NULL, any endpoint) is alive at 'addr' as 'claimed'
 * there. */
static bool
is_claimed(const struct stale *st, const struct job *job,
           const struct addr *claimed, const struct addr *ep)
{
    uint32_t hash = stale_hash_claim(job->family, job->proto, claimed);
    const struct claim *claim;

    HMAP_FOR_EACH_WITH_HASH (claim, node, hash, &st->claims) {
        if (claim->port->family == job->family
            && claim->port->proto == job->proto
            && !addr_compare(claim->addr, claimed)
            && (ep ? addrset_has(&claim->port->alive, ep)
                   : claim->port->alive.n)) {
            return true;
        }
    }
    return false;
}

static bool
is_alive(const struct stale *st, const struct job *job,
         const struct addr *addr, const struct addr *ep)
{
    const struct addr node_port = { .port = addr->port };

    return is_claimed(st, job, addr, ep)
           || (stale_is_node_ip(st, &addr->ip)
               && is_claimed(st, job, &node_port, ep));
}

/* Is 'ep' alive at any address? */
static bool
lives_anywhere(const struct stale *st, const struct job *job,
               const struct addr *ep)
{
    const struct port *port;

    HMAP_FOR_EACH (port, node, &st->ports) {
        if (port->family == job->family && port->proto == job->proto
            && addrset_has(&port->alive, ep)) {
            return true;
        }
    }
    return false;
}

/* Jobs that come later. */

static bool
job_covers(const struct job *job, const struct job *like,
           const struct addr *addr, const struct addr *ep)
{
    return job != like && job->owner == like->owner
           && job->family == like->family && job->proto == like->proto
           && (!addr || addrset_has(&job->addrs, addr))
           && (!ep || addrset_has(&job->eps, ep));
}

/* Will another job see to it?  What was there again in between has gone later
 * than 'job' says, and has the grace of then. */
static bool
is_for_later(const struct stale *st, const struct job *job,
             const struct addr *addr, const struct addr *ep)
{
    const struct job *other;

    HMAP_FOR_EACH_WITH_HASH (other, node, hash_uint64(job->owner),
                             &st->waiting) {
        if (job_covers(other, job, addr, ep)) {
            return true;
        }
    }
    LIST_FOR_EACH (other, list, &st->active) {
        if (!other->began_ms && job_covers(other, job, addr, ep)) {
            return true;
        }
    }
    return false;
}

/* Requests. */

/* 'addr' or 'ep' may be NULL. */
static void
make_request(const struct job *job, const struct addr *addr,
             const struct addr *ep, struct ofconn_ct_flush *ret)
{
    *ret = (struct ofconn_ct_flush){
        .zone = job->family == IP_V4 ? PIPE_ZONE_V4 : PIPE_ZONE_V6,
        .proto = proto_number(job->proto),
    };
    if (addr) {
        ret->dst = addr->ip.in6;
        ret->dst_port = addr->port;
    }
    if (ep) {
        ret->src = ep->ip.in6;
        ret->src_port = ep->port;
    }
}

/* First, addresses where nothing is alive: one request each, whatever the
 * endpoints were. */
static bool
next_address(const struct stale *st, const struct job *job, struct cursor *c,
             struct ofconn_ct_flush *ret)
{
    while (c->address < job->addrs.n) {
        const struct addr *addr = &job->addrs.a[c->address++];

        if (is_alive(st, job, addr, NULL)) {
            c->n_alive++;
        } else if (is_for_later(st, job, addr, NULL)) {
            c->n_later++;
        } else {
            make_request(job, addr, NULL, ret);
            return true;
        }
    }
    return false;
}

/* Did another Service port lead to one of the job's addresses?  A connection
 * that came by way of it was opened to that one's address. */
static bool
is_nested(const struct stale *st, const struct job *job)
{
    const struct port *port;

    if (!st->n_nesting) {
        return false;
    }
    HMAP_FOR_EACH (port, node, &st->ports) {
        for (size_t i = 0; port->nested.n && i < job->addrs.n; i++) {
            if (port->family == job->family && port->proto == job->proto
                && addrset_has(&port->nested, &job->addrs.a[i])) {
                return true;
            }
        }
    }
    return false;
}

/* Then, at all others, endpoints that are gone: one request each if there are
 * several addresses, also of ports that nest this one, and no Service port at
 * all has the endpoint any more. */
static bool
next_endpoint(const struct stale *st, const struct job *job, struct cursor *c,
              struct ofconn_ct_flush *ret)
{
    bool at_others = c->n_alive > 1 || is_nested(st, job);

    for (; (c->n_alive || at_others) && c->ep < job->eps.n;
         c->ep++, c->ep_address = 0) {
        const struct addr *ep = &job->eps.a[c->ep];

        if (!c->ep_address && at_others && !lives_anywhere(st, job, ep)
            && !is_for_later(st, job, NULL, ep)) {
            c->ep++;
            make_request(job, NULL, ep, ret);
            return true;
        }
        while (c->ep_address < job->addrs.n) {
            const struct addr *addr = &job->addrs.a[c->ep_address++];

            if (!is_alive(st, job, addr, NULL)
                || is_alive(st, job, addr, ep)) {
                continue;
            } else if (is_for_later(st, job, addr, ep)) {
                c->n_later++;
            } else {
                make_request(job, addr, ep, ret);
                return true;
            }
        }
    }
    return false;
}

/* Last, what went by untranslated: what is answered from where it was sent
 * to; and what seems to come from there, for an answer that was on its way
 * when the former was removed begins a connection the wrong way round. */
static bool
next_fresh(const struct job *job, struct cursor *c,
           struct ofconn_ct_flush *ret)
{
    const struct addr *addr;

    if (c->fresh >= 2 * job->fresh.n) {
        return false;
    }
    addr = &job->fresh.a[c->fresh / 2];
    if (c->fresh++ % 2) {
        make_request(job, NULL, NULL, ret);
        ret->from = addr->ip.in6;
        ret->from_port = addr->port;
    } else {
        make_request(job, addr, addr, ret);
    }
    return true;
}

/* Sources that this node gives no more; answers to them come nowhere. */
static bool
next_source(const struct stale *st, const struct job *job, struct cursor *c,
            struct ofconn_ct_flush *ret)
{
    while (c->source < job->sources.n) {
        const struct ip *source = &job->sources.a[c->source++].ip;

        if (!ip_equals(source, &st->source)) {
            *ret = (struct ofconn_ct_flush){
                .zone = job->family == IP_V4 ? PIPE_SNAT_ZONE_V4
                                             : PIPE_SNAT_ZONE_V6,
                .to = source->in6,
            };
            return true;
        }
    }
    return false;
}

/* What other clusters' gateways have opened, in the first pass; in all of them
 * what seems to be opened to those, see next_fresh(). */
static bool
next_peer(const struct job *job, struct cursor *c, struct ofconn_ct_flush *ret)
{
    size_t n_opened = job->n_done ? 0 : job->peers.n, i = c->peer;

    if (i >= n_opened + job->peers.n) {
        return false;
    }
    c->peer++;
    make_request(job, NULL, NULL, ret);
    if (i < n_opened) {
        ret->from = job->peers.a[i].ip.in6;
    } else {
        ret->dst = job->peers.a[i - n_opened].ip.in6;
    }
    return true;
}

/* Returns true and sets '*ret' to the next request of the pass, moving 'c' on,
 * or false at the pass's end. */
static bool
next_request(const struct stale *st, const struct job *job, struct cursor *c,
             struct ofconn_ct_flush *ret)
{
    return next_address(st, job, c, ret) || next_endpoint(st, job, c, ret)
           || next_fresh(job, c, ret) || next_source(st, job, c, ret)
           || next_peer(job, c, ret);
}

bool
stale_job_is_void(const struct stale *st, const struct job *job)
{
    struct ofconn_ct_flush request;
    struct cursor cursor = { 0 };

    return !next_request(st, job, &cursor, &request);
}

/* Beginning. */

/* Whether flows still give one of a job's sources. */
struct source_search {
    const struct stale *st;
    const struct job *job;
    bool found;
};

static void
note_source_flow(const struct fitem *have, void *search_)
{
    struct source_search *search = search_;
    struct addr source = { .port = 0 };

    if (stale_read_source(search->st, have, &source.ip)
        && addrset_has(&search->job->sources, &source)) {
        search->found = true;
    }
}

static bool
is_given(const struct stale *st, const struct job *job)
{
    struct source_search search = { .st = st, .job = job };

    if (job->sources.n) {
        flowtab_for_each_have(st->flowtab, note_source_flow, &search);
    }
    return search.found;
}

/* The switch has confirmed what the job's owner wants, and has no flow of it
 * any more at an address that it has lost, to nobody or to another one; nor
 * one, of any owner, with a source that is given no more. */
static bool
is_confirmed(const struct stale *st, const struct job *job)
{
    const struct port like = {
        .owner = job->owner,
        .family = job->family,
        .proto = job->proto,
    };
    const struct port *port = stale_find_port(st, job->owner);

    if (!flowtab_is_settled(st->flowtab, job->owner) || is_given(st, job)) {
        return false;
    }
    for (size_t i = 0; i < job->addrs.n; i++) {
        const struct addr *addr = &job->addrs.a[i];
        const struct fitem *have;

        if (stale_is_node_ip(st, &addr->ip)
            || (port && addrset_has(&port->addrs, addr))) {
            continue;
        }
        have = stale_find_flow(st, &like, addr);
        if (have && fitem_cookie(have) == job->owner) {
            return false;
        }
    }
    return true;
}

/* New addresses, of which there may be thousands at once, come behind what
 * has gone. */
static bool
is_urgent(const struct job *job)
{
    return job->addrs.n || job->sources.n || job->peers.n;
}

/* What is spared now may go later. */
static void
inherit(struct stale *st, const struct job *job)
{
    const struct port was = {
        .family = job->family,
        .proto = job->proto,
        .addrs = job->addrs,
        .used = job->eps,
    };

    stale_inherit(st, &was);
}

static void
begin(struct stale *st, struct job *job, long long int now_ms)
{
    hmap_remove(&st->waiting, &job->node);
    stale_expand(st, &job->addrs, job->family, false);
    stale_expand(st, &job->fresh, job->family, false);
    inherit(st, job);
    job->cursor = (struct cursor){ 0 };
    job->n_requests = 0;
    job->n_done = 0;
    job->costs_us[1] = 0;
    job->flat_from = UINT64_MAX;
    job->measured_from = st->n_measured;
    job->began_ms = 0;
    job->first_ms = job->next_ms = now_ms + STALE_GRACE_MS;
    if (is_urgent(job)) {
        ovs_list_push_front(&st->active, &job->list);
    } else {
        ovs_list_push_back(&st->active, &job->list);
    }
    st->n_active++;
}

/* Has anything changed since the last call? */
static bool
has_news(struct stale *st)
{
    bool known = flowtab_is_settled(st->flowtab, NOBODY);
    bool news = st->dirty || known != st->checked_known;
    struct flowtab_stats stats;

    flowtab_get_stats(st->flowtab, &stats);
    news = news || memcmp(&stats, &st->checked, sizeof stats) != 0;
    st->checked = stats;
    st->checked_known = known;
    st->dirty = false;
    return news && known;
}

/* Looks which jobs can begin, if anything has changed. */
static void
begin_some(struct stale *st, long long int now_ms)
{
    struct job *job;

    if (hmap_is_empty(&st->waiting) || st->n_active >= MAX_ACTIVE
        || !has_news(st)) {
        return;
    }
    HMAP_FOR_EACH_SAFE (job, node, &st->waiting) {
        size_t max = is_urgent(job) ? MAX_ACTIVE : MAX_ACTIVE / 2;

        if (st->n_active >= max) {
            st->dirty = true;
        } else if (is_confirmed(st, job)) {
            begin(st, job, now_ms);
        }
    }
}

/* Passes. */

/* Has the pass, which began late enough, not made walks cheaper by nearly a
 * half since the one before began? */
static bool
is_flat(const struct stale *st, const struct job *job)
{
    return job->n_done > 1 && job->began_ms >= job->first_ms + STALE_SPREAD_MS
           && st->cost_us > job->costs_us[0] * 2 / 3;
}

/* One that is not cheap is the last if it is flat, and enough was measured to
 * say so: by requests of other jobs, or by more flat passes. */
static bool
is_last_pass(const struct stale *st, const struct job *job, bool cheap)
{
    return (!job->n_requests && !job->cursor.n_later)
           || job->n_done >= MAX_PASSES
           || (!cheap && st->n_measured >= job->flat_from
               && st->n_measured - job->flat_from >= N_FLAT);
}

static void
end_pass(struct stale *st, struct job *job, long long int now_ms)
{
    size_t n_jobs = st->n_active + hmap_count(&st->waiting);
    size_t n_requests = MAX(job->n_requests, n_jobs);
    bool cheap = n_requests * st->cost_us <= CHEAP_US;

    inherit(st, job);
    job->n_done++;
    if (!is_flat(st, job)) {
        job->flat_from = UINT64_MAX;
    } else if (job->flat_from == UINT64_MAX) {
        job->flat_from = job->measured_from;
    }
    job->measured_from = st->n_measured;
    ovs_list_remove(&job->list);
    if (is_last_pass(st, job, cheap)) {
        stale_job_destroy(job);
        st->n_active--;
        st->unsaved |= n_jobs == 1;
        return;
    }
    if (!cheap) {
        job->next_ms = MAX(now_ms, job->first_ms + STALE_SPREAD_MS);
    } else if (job->n_done < N_SPREAD) {
        job->next_ms = now_ms;
    } else {
        job->next_ms =
            job->first_ms
            + STALE_SPREAD_MS * (job->n_done - N_SPREAD + 1) / N_SPREAD;
    }
    job->cursor = (struct cursor){ 0 };
    job->n_requests = 0;
    ovs_list_push_back(&st->active, &job->list);
}

/* Writes requests of 'job' until 'max' or its pass's end.  A pass ends with
 * the first call that has none to write: by then their cost is known. */
static size_t
take_from(struct stale *st, struct job *job, long long int now_ms,
          struct ofconn_ct_flush *ret, size_t max)
{
    size_t n = 0;

    if (!job->n_requests) {
        job->began_ms = now_ms;
        job->costs_us[0] = job->costs_us[1];
        job->costs_us[1] = 0;
    }
    job->costs_us[1] = MAX(job->costs_us[1], st->cost_us);
    while (n < max && next_request(st, job, &job->cursor, &ret[n])) {
        n++;
    }
    job->n_requests += n;
    if (!n) {
        end_pass(st, job, now_ms);
    }
    return n;
}

/* A job whose pass ends goes to the list's end: each is looked at once. */
static size_t
take_from_all(struct stale *st, long long int now_ms,
              struct ofconn_ct_flush *ret, size_t max)
{
    size_t n_jobs = st->n_active, n = 0;
    struct job *job;

    LIST_FOR_EACH_SAFE (job, list, &st->active) {
        if (!n_jobs-- || n >= max) {
            break;
        }
        if (job->next_ms <= now_ms) {
            n += take_from(st, job, now_ms, ret + n, max - n);
        }
    }
    return n;
}

size_t
stale_take(struct stale *st, long long int now_ms, struct ofconn_ct_flush *ret,
           size_t max)
{
    begin_some(st, now_ms);
    if (!max || now_ms < st->not_before_ms) {
        return 0;
    }
    max = MIN(max, MAX(CHUNK_US / MAX(st->cost_us, 1), 1));
    do {
        st->n_taken = take_from_all(st, now_ms, ret, max);
    } while (!st->n_taken && stale_next_ms(st) <= now_ms);
    st->n_requests += st->n_taken;
    return st->n_taken;
}

void
stale_done(struct stale *st, long long int now_ms, long long int elapsed_us)
{
    long long int n = MAX(st->n_taken, 1);
    long long int cost_us = elapsed_us / n;

    /* What it took may be what these took, or what else the switch or we had
     * to do: what is less is nearer to the truth. */
    st->cost_us = cost_us < st->cost_us
                      ? cost_us
                      : st->cost_us + (cost_us - st->cost_us + 3) / 4;
    st->n_measured++;
    elapsed_us = MIN(elapsed_us, DUTY * n * st->cost_us);
    st->not_before_ms =
        now_ms + MIN(elapsed_us * (DUTY - 1) / 1000, MAX_PAUSE_MS);
    st->n_taken = 0;
}

void
stale_lost(struct stale *st)
{
    struct job *job;

    LIST_FOR_EACH_SAFE (job, list, &st->active) {
        ovs_list_remove(&job->list);
        hmap_insert(&st->waiting, &job->node, hash_uint64(job->owner));
    }
    st->n_active = 0;
    st->n_taken = 0;
    st->not_before_ms = LLONG_MIN;
    st->dirty = true;
}

void
stale_give_up(struct stale *st)
{
    struct job *job;

    LIST_FOR_EACH_SAFE (job, list, &st->active) {
        stale_job_destroy(job);
    }
    ovs_list_init(&st->active);
    st->unsaved = true;
    st->n_active = 0;
    st->n_taken = 0;
}

long long int
stale_next_ms(const struct stale *st)
{
    long long int next_ms = LLONG_MAX;
    const struct job *job;

    LIST_FOR_EACH (job, list, &st->active) {
        next_ms = MIN(next_ms, job->next_ms);
    }
    return next_ms == LLONG_MAX ? next_ms : MAX(next_ms, st->not_before_ms);
}
