/* SPDX-License-Identifier: Apache-2.0 */
/* The host's packet rules: decides when to look at the kernel's state and when
 * to write.
 *
 * The table's rules are compared, as the kernel spells them, with what they
 * were after we had written them; the sets' members and the rules in foreign
 * chains are compared with what is wanted.  After our own writes what the
 * kernel notifies about is taken note of at once, so that only changes by
 * others lead to a check.
 *
 * As in host.c a repair waits until the notifications pause. */

#include "ofproxyd/host/rules.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <openvswitch/poll-loop.h>
#include <openvswitch/util.h>
#include <openvswitch/vlog.h>
#include <timeval.h>
#include <util.h>

#include "nftable.h"
#include "rules-private.h"
#include "rulestext.h"
#include "setelem.h"

VLOG_DEFINE_THIS_MODULE(rules);

static struct vlog_rate_limit rl = VLOG_RATE_LIMIT_INIT(5, 5);

/* In the log. */
#define TABLE_NAME "table inet " RULES_TABLE

/* A check without any notification. */
#define SLOW_CHECK_MS 60000

/* Least time between two checks.  Where somebody undoes each repair within
 * CALM_MS it doubles each time. */
#define CHECK_GAP_MS 100
#define MAX_GAP_MS   800
#define CALM_MS      2000

/* Repairs wait for so long a pause in the notifications, but not for ever. */
#define PAUSE_MS     50
#define MAX_DELAY_MS 300

/* Waits before what failed is tried again. */
#define RETRY_MIN_MS 1000
#define RETRY_MAX_MS 30000

struct rules *
rules_create(void)
{
    struct rules *r = xzalloc(sizeof *r);

    for (size_t i = 0; i < N_RULES_SETS; i++) {
        memberset_init(&r->sets[i]);
    }
    for (enum ip_family f = 0; f < N_IP_FAMILIES; f++) {
        r->chains[f].family = f;
    }
    rules_init_conntrack(r);
    ds_init(&r->text);
    ds_init(&r->written);
    ds_init(&r->kernel);
    r->exists = true; /* Until the first check says otherwise. */
    r->drift_ms = LLONG_MAX;
    r->retry_ms = LLONG_MAX;
    r->last_ms = r->repair_ms = LLONG_MIN / 2;
    r->gap_ms = CHECK_GAP_MS;
    r->backoff = (struct backoff) BACKOFF_INIT(RETRY_MIN_MS, RETRY_MAX_MS);
    return r;
}

void
rules_destroy(struct rules *r)
{
    if (r) {
        nfnl_close(r->nl);
        nftrun_uninit(&r->nftrun);
        for (size_t i = 0; i < N_RULES_SETS; i++) {
            memberset_uninit(&r->sets[i]);
        }
        rules_uninit_conntrack(r);
        ds_destroy(&r->text);
        ds_destroy(&r->written);
        ds_destroy(&r->kernel);
        free(r->gateway);
        free(r);
    }
}

/* What is wanted. */

static bool
equal(const struct ds *a, const struct ds *b)
{
    return a->length == b->length
           && !memcmp(ds_cstr_ro(a), ds_cstr_ro(b), a->length);
}

static void
check_soon(struct rules *r)
{
    r->check = true;
    r->due_ms = MAX(time_msec(), r->last_ms + r->gap_ms);
}

void
rules_set(struct rules *r, const struct rules_want *w)
{
    struct ds text = DS_EMPTY_INITIALIZER;

    if (!w->gateway || !rulestext_name_is_plain(w->gateway)) {
        if (w->gateway) {
            VLOG_WARN_RL(&rl, "no rules: \"%s\" is no name for a rule",
                         w->gateway);
        }
        r->wanted = false;
        return;
    }
    rulestext_table(w, &text);
    bool same = r->wanted && r->complete == w->complete
                && equal(&text, &r->text) && !strcmp(r->gateway, w->gateway);
    r->wanted = true;
    r->complete = w->complete;
    ds_swap(&r->text, &text);
    ds_destroy(&text);
    if (!same) {
        free(r->gateway);
        r->gateway = xstrdup(w->gateway);
        r->notrack_port = w->notrack_port;
        memcpy(r->transport, w->transport, sizeof r->transport);
        memcpy(r->gateway_ips, w->gateway_ips, sizeof r->gateway_ips);
        memcpy(r->node_port_ips, w->node_port_ips, sizeof r->node_port_ips);
        check_soon(r);
    }
}

/* Notifications. */

/* Something has to be looked at: puts it off until a pause. */
static void
drifted(struct rules *r)
{
    long long int now = time_msec();

    if (r->drift_ms == LLONG_MAX) {
        r->drift_ms = now;
    }
    r->check = true;
    r->due_ms = MAX(MIN(now + PAUSE_MS, r->drift_ms + MAX_DELAY_MS),
                    r->last_ms + r->gap_ms);
}

/* True if it is about our table, or about the chain that has rules of ours. */
static bool
concerns_us(const struct nfnl_event *e)
{
    if (e->family == NFPROTO_INET) {
        return !strcmp(e->table, RULES_TABLE);
    }
    return (e->family == NFPROTO_IPV4 || e->family == NFPROTO_IPV6)
           && (!strcmp(e->name, FWDCHAIN_NAME) || !*e->name)
           && !strcmp(e->table, FWDCHAIN_TABLE);
}

static void
take_event(const struct nfnl_event *e, void *r_)
{
    struct rules *r = r_;

    if (e->portid != nfnl_portid(r->nl) && concerns_us(e)) {
        drifted(r);
    }
}

static void
close_nl(struct rules *r, int error)
{
    VLOG_WARN_RL(&rl, "nfnetlink: %s; opening it anew", ovs_strerror(error));
    nfnl_close(r->nl);
    r->nl = NULL;
}

/* Takes 'error' of nfnl_events(). */
static void
events_read(struct rules *r, int error)
{
    if (error == ENOBUFS) {
        drifted(r); /* Some were lost. */
    } else if (error) {
        close_nl(r, error);
    }
}

/* What our own write led to, which nftrun() sends by a socket of its own. */
struct echo {
    bool any;
    uint32_t portid;
    bool several; /* Somebody else wrote at the same time. */
};

static void
take_echo(const struct nfnl_event *e, void *echo_)
{
    struct echo *echo = echo_;

    if (concerns_us(e)) {
        echo->several |= echo->any && echo->portid != e->portid;
        echo->any = true;
        echo->portid = e->portid;
    }
}

/* Carries out commands of nft's.  Returns 0 or a positive errno value. */
static int
write_commands(struct rules *r, const char *what, struct ds *commands)
{
    /* What came before concerns a check, not this write. */
    events_read(r, nfnl_events(r->nl, take_event, r));
    if (!r->nl) {
        return EAGAIN;
    }

    int error = nftrun(&r->nftrun, ds_cstr(commands), &r->err);
    if (error) {
        VLOG_WARN_RL(&rl, "%s can't be written: %s; trying again", what,
                     r->err.msg);
        VLOG_DBG("%s", ds_cstr(commands));
    }
    return error;
}

/* True if nobody else has changed what concerns us from just before the last
 * write_commands() until now, so that what was read since is our own.  Else
 * there will be a check.
 *
 * Tens of thousands of members are more notifications than the socket holds.
 * Those that are lost can't be a reason to write once more, which would lose
 * them again, and so on for ever; a check follows. */
static bool
was_alone(struct rules *r, const char *what)
{
    struct echo echo = { .any = false };
    int error = nfnl_events(r->nl, take_echo, &echo);

    events_read(r, error);
    if (echo.several) {
        VLOG_INFO_RL(&rl, "%s: changed by somebody at the same time", what);
        drifted(r);
    }
    return (!error || error == ENOBUFS) && !echo.several;
}

/* Checks. */

static int
check_sets(struct rules *r)
{
    bool odd = false;

    for (enum rules_set_id id = 0; id < N_RULES_SETS; id++) {
        memberset_have_none(&r->sets[id]);
        for (enum ip_family f = 0; r->exists && f < N_IP_FAMILIES; f++) {
            int error = setelem_read(r->nl, id, f, &r->sets[id]);

            if (error == EPROTO || error == ENOENT) {
                odd = true;
            } else if (error) {
                return error;
            }
        }
    }
    r->odd = odd;
    r->intact &= !odd;
    return 0;
}

static int
check_table(struct rules *r)
{
    struct ds ds = DS_EMPTY_INITIALIZER;
    bool was_intact = r->intact;
    int error = nftable_read(r->nl, &ds);

    r->exists = error != ENOENT;
    if (!error || error == ENOENT) {
        r->intact = r->wrote && r->exists && equal(&ds, &r->kernel);
        error = check_sets(r);
        r->n_foreign += was_intact && !r->intact;
    }
    ds_destroy(&ds);
    return error;
}

static int
check_chains(struct rules *r)
{
    for (enum ip_family f = 0; f < N_IP_FAMILIES; f++) {
        int error = fwdchain_read(&r->chains[f], r->nl, r->gateway);

        if (error) {
            return error;
        }
    }
    return 0;
}

static void
retry_later(struct rules *r)
{
    uint32_t random = 0;

    if (r->retry_ms == LLONG_MAX) {
        ignore(getrandom(&random, sizeof random, GRND_NONBLOCK));
        r->retry_ms = time_msec() + backoff_next(&r->backoff, random);
    }
}

static void
run_check(struct rules *r)
{
    r->check = false;
    r->last_ms = time_msec();

    int error = check_table(r);
    if (!error) {
        error = check_chains(r);
    }
    r->failed = error != 0;
    if (error == EINTR) {
        check_soon(r); /* It changed under the dump. */
    } else if (error) {
        err_set(&r->err, "reading the rules: %s", ovs_strerror(error));
        VLOG_WARN_RL(&rl, "%s", r->err.msg);
        if (error == EPROTO || error == EMSGSIZE) {
            close_nl(r, error);
        }
    }
}

/* Writing. */

/* Something that others changed is repaired now. */
static void
note_repair(struct rules *r)
{
    long long int now = time_msec();

    r->gap_ms = now < r->repair_ms + CALM_MS ? MIN(2 * r->gap_ms, MAX_GAP_MS)
                                             : CHECK_GAP_MS;
    r->repair_ms = now;
}

bool
rules_table_is_written(const struct rules *r)
{
    return r->intact && equal(&r->text, &r->written);
}

/* Takes note of a table that was just written, without ports if it is a new
 * one. */
static void
table_written(struct rules *r, bool new)
{
    ds_clear(&r->written);
    ds_put_buffer(&r->written, ds_cstr(&r->text), r->text.length);
    rules_flush_for_table(r);
    for (size_t i = 0; i < N_RULES_SETS; i++) {
        memberset_have_all(&r->sets[i]);
        if (new &&rulestext_set_is_of_ports(i)) {
            memberset_have_none(&r->sets[i]);
        }
    }
    r->exists = r->wrote = true;
    r->guarded = !ip_is_none(&r->node_port_ips[IP_V4]);
    r->odd = false;
    r->n_tables++;

    ds_clear(&r->kernel);
    int error = nftable_read(r->nl, &r->kernel);
    r->intact = was_alone(r, TABLE_NAME) && !error;
    if (!r->intact) {
        ds_clear(&r->kernel); /* Equal to nothing: written once more. */
        drifted(r);
    }
}

/* Replaces the whole table.  One that is there and not of this run stays until
 * all that is wanted is known. */
static void
run_table(struct rules *r)
{
    struct ds ds = DS_EMPTY_INITIALIZER;

    if (rules_table_is_written(r)
        || (r->exists && !r->wrote && !r->complete)) {
        return;
    }
    bool repair = r->wrote && equal(&r->text, &r->written);
    if (repair) {
        note_repair(r);
    }
    ds_put_buffer(&ds, ds_cstr(&r->text), r->text.length);
    bool new = !r->exists;
    rulestext_members(r->sets, !new, &ds);
    r->failed = write_commands(r, TABLE_NAME, &ds) != 0;
    if (!r->failed) {
        VLOG_INFO_RL(&rl, "%s: %s", TABLE_NAME,
                     repair      ? "somebody changed it; written again"
                     : r->exists ? "replaced"
                                 : "made");
        table_written(r, new);
    }
    ds_destroy(&ds);
}

/* Puts our rules into a chain. */
static void
run_chain(struct rules *r, struct fwdchain *fc)
{
    struct ds ds = DS_EMPTY_INITIALIZER;
    char *what = xasprintf("chain %s " FWDCHAIN_TABLE " " FWDCHAIN_NAME,
                           fwdchain_family_name(fc));

    fwdchain_repair(fc, r->gateway, r->complete, &ds);
    r->chains_failed = write_commands(r, what, &ds) != 0;
    if (!r->chains_failed) {
        VLOG_INFO_RL(&rl, "%s: accepts what comes or goes by %s", what,
                     r->gateway);
        note_repair(r);

        bool read = !fwdchain_read(fc, r->nl, r->gateway) && fc->in_place;
        if (!was_alone(r, what) || !read) {
            drifted(r);
        }
    }
    free(what);
    ds_destroy(&ds);
}

static void
run_chains(struct rules *r)
{
    for (enum ip_family f = 0; f < N_IP_FAMILIES; f++) {
        if (r->nl && !r->chains_failed
            && fwdchain_is_due(&r->chains[f], r->complete)) {
            run_chain(r, &r->chains[f]);
        }
    }
}

/* Running. */

static bool
is_open(struct rules *r)
{
    if (!r->nl) {
        int error = nfnl_open(&r->nl);

        if (error) {
            if (!r->open_named) {
                VLOG_WARN("nfnetlink can't be opened: %s",
                          ovs_strerror(error));
            }
            r->open_named = true;
            r->nl = NULL;
            r->retry_ms = LLONG_MAX;
            retry_later(r);
            return false;
        }
        r->open_named = false;
        check_soon(r);
    }
    return true;
}

/* They are looked for when there is nothing else to do. */
static void
run_leftovers(struct rules *r)
{
    if (r->nl && time_msec() >= r->look_ms && rules_in_sync(r)) {
        r->look_ms = time_msec() + SLOW_CHECK_MS;
        leftovers_check(&r->leftovers, r->nl, r->gateway);
    }
}

static void
run_due(struct rules *r)
{
    r->drift_ms = LLONG_MAX;
    if (r->check) {
        run_check(r);
    }
    if (r->nl && !r->failed) {
        run_table(r);
    }
    if (r->nl && !r->failed) {
        rules_run_members(r);
    }
    if (r->nl) {
        run_chains(r);
    }
    if (r->failed || r->chains_failed) {
        retry_later(r);
    } else if (rules_in_sync(r)) {
        backoff_reset(&r->backoff);
    }
}

void
rules_run(struct rules *r)
{
    nftrun_tidy(&r->nftrun);
    if (!r->wanted || (!r->nl && time_msec() < r->retry_ms && r->open_named)
        || !is_open(r)) {
        return;
    }
    events_read(r, nfnl_events(r->nl, take_event, r));
    if (!r->nl) {
        return;
    }

    long long int now = time_msec();
    if (now >= r->retry_ms || now >= r->last_ms + SLOW_CHECK_MS) {
        r->retry_ms = now >= r->retry_ms ? LLONG_MAX : r->retry_ms;
        r->check = true;
        r->failed = r->chains_failed = false;
        r->due_ms = now;
    }
    if (now >= r->due_ms && !r->failed) {
        run_due(r);
    }
    rules_run_conntrack(r);
    run_leftovers(r);
}

/* True if rules_run() can go on by itself. */
static bool
has_work(const struct rules *r)
{
    return r->check || rules_members_are_due(r)
           || (!rules_table_is_written(r)
               && (!r->exists || r->wrote || r->complete))
           || (!r->chains_failed
               && (fwdchain_is_due(&r->chains[IP_V4], r->complete)
                   || fwdchain_is_due(&r->chains[IP_V6], r->complete)));
}

void
rules_wait(struct rules *r)
{
    nftrun_wait(&r->nftrun);
    if (!r->wanted) {
        return;
    }
    if (r->retry_ms != LLONG_MAX) {
        poll_timer_wait_until(r->retry_ms);
    }
    if (!r->nl) {
        if (!r->open_named) {
            poll_immediate_wake();
        }
        return;
    }
    poll_fd_wait(nfnl_fd(r->nl), POLLIN);
    poll_timer_wait_until(r->last_ms + SLOW_CHECK_MS);
    if (!r->failed && has_work(r)) {
        poll_timer_wait_until(r->due_ms);
    }
    rules_wait_conntrack(r);
}

bool
rules_in_sync(const struct rules *r)
{
    return r->wanted && r->nl && !r->failed && !r->chains_failed
           && !has_work(r);
}

bool
rules_guard_localhost(const struct rules *r)
{
    /* While another one takes its place, the one that is there counts. */
    return r->wanted && r->intact && r->guarded;
}

bool
rules_are_of_earlier_run(const struct rules *r)
{
    return r->exists && !r->wrote && !r->failed;
}
