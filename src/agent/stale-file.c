/* SPDX-License-Identifier: Apache-2.0 */

/* What is due, in a file as long as it is.
 *
 * Once the switch has new flows, nothing there tells what its connections had
 * been given before.  A daemon that ends between that and the last pass would
 * leave them as they are for as long as their clients send; so what is due is
 * written before the flows can leave, and read by the next daemon.
 *
 * A file that is old or wrong does no harm: whether an endpoint is gone from
 * an address is decided anew when it is asked for.  So what was done stays in
 * it until more comes or all is done: to write thousands of jobs each time
 * that one ends takes longer than what they ask for. */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <openvswitch/dynamic-string.h>
#include <openvswitch/vlog.h>

#include <util.h>

#include "stale-private.h"

VLOG_DEFINE_THIS_MODULE(stale_file);

/* The first line. */
#define MAGIC "ofproxyd stale connections 1\n"

/* Some 25 000 addresses; what is more is lost with the daemon. */
#define MAX_BYTES 1000000

/* Room for a line. */
#define LINE_SIZE 100

char *
stale_path(const struct cfg *cfg)
{
    return xasprintf("%s/%s.ofproxyd-stale", cfg->ovs_run_dir,
                     cfg->ovs_bridge);
}

/* Writing. */

static void
format_set(const char *kind, const struct addrset *set, struct ds *ds)
{
    char buf[IP_STRLEN];

    for (size_t i = 0; i < set->n && ds->length < MAX_BYTES; i++) {
        ds_put_format(ds, "%s %s %u\n", kind, ip_to_string(&set->a[i].ip, buf),
                      set->a[i].port);
    }
}

static void
format_job(const struct job *job, struct ds *ds)
{
    if (ds->length < MAX_BYTES) {
        ds_put_format(ds, "job %" PRIx64 " %d %d\n", job->owner,
                      (int) job->family, (int) job->proto);
        format_set("at", &job->addrs, ds);
        format_set("to", &job->eps, ds);
        format_set("new", &job->fresh, ds);
        format_set("src", &job->sources, ds);
        format_set("gw", &job->peers, ds);
    }
}

/* The directory is Open vSwitch's, whose user may be another one than ours:
 * what has the file's name there (it is left over, or leads elsewhere) isn't
 * written to. */
static int
write_file(const char *path, const char *text)
{
    FILE *file;
    bool ok;

    ignore(unlink(path));
    file = fopen(path, "wxe");
    if (!file) {
        return errno;
    }
    ok = fputs(text, file) >= 0;
    return fclose(file) || !ok ? EIO : 0;
}

static int
replace_file(const char *path, const char *text)
{
    char *new = xasprintf("%s~", path);
    int error = write_file(new, text);

    if (!error && rename(new, path)) {
        error = errno;
    }
    free(new);
    return error;
}

bool
stale_is_unsaved(const struct stale *st)
{
    return st->unsaved && st->adopted && st->path;
}

void
stale_save(struct stale *st)
{
    static struct vlog_rate_limit rl = VLOG_RATE_LIMIT_INIT(1, 1);
    struct ds ds = DS_EMPTY_INITIALIZER;
    const struct job *job;
    int error = 0;

    if (!stale_is_unsaved(st)) {
        return;
    }
    st->unsaved = false;
    ds_put_cstr(&ds, MAGIC);
    LIST_FOR_EACH (job, list, &st->active) {
        format_job(job, &ds);
    }
    HMAP_FOR_EACH (job, node, &st->waiting) {
        format_job(job, &ds);
    }
    if (ds.length > strlen(MAGIC)) {
        error = replace_file(st->path, ds_cstr(&ds));
    } else if (unlink(st->path) && errno != ENOENT) {
        error = errno;
    }
    if (error) {
        VLOG_WARN_RL(&rl,
                     "%s: %s: if ofproxyd ends within a second after an "
                     "endpoint has gone, its connections of UDP and SCTP "
                     "stay until they time out",
                     st->path, ovs_strerror(error));
    }
    ds_destroy(&ds);
}

/* Reading. */

/* Returns the job that a line begins, or NULL if it is none. */
static struct job *
read_job(struct stale *st, const char *line)
{
    unsigned int family, proto;
    struct port like = { 0 };

    if (sscanf(line, "job %" SCNx64 " %u %u", &like.owner, &family, &proto)
            != 3
        || family >= N_IP_FAMILIES || proto >= N_PROTOS
        || proto == PROTO_TCP) {
        return NULL;
    }
    like.family = (enum ip_family) family;
    like.proto = (enum proto) proto;
    return stale_get_job(st, &like);
}

static void
read_address(struct job *job, const char *line)
{
    char kind[4], address[IP_STRLEN];
    unsigned int port;
    struct ip ip;

    if (sscanf(line, "%3s %45s %u", kind, address, &port) != 3
        || ip_from_string(address, &ip) || port > UINT16_MAX
        || (!ip_is_none(&ip) && ip_family(&ip) != job->family)) {
        return;
    }
    if (!strcmp(kind, "at")) {
        addrset_push(&job->addrs, &ip, (uint16_t) port);
    } else if (!strcmp(kind, "to") && !ip_is_none(&ip)) {
        addrset_push(&job->eps, &ip, (uint16_t) port);
    } else if (!strcmp(kind, "new")) {
        addrset_push(&job->fresh, &ip, (uint16_t) port);
    } else if (!strcmp(kind, "src") && !ip_is_none(&ip)) {
        addrset_push(&job->sources, &ip, 0);
    } else if (!strcmp(kind, "gw") && !ip_is_none(&ip)) {
        addrset_push(&job->peers, &ip, 0);
    }
}

static void
read_file(struct stale *st, FILE *file)
{
    char line[LINE_SIZE];
    struct job *job = NULL;

    if (!fgets(line, sizeof line, file) || strcmp(line, MAGIC)) {
        return;
    }
    for (size_t n = 0; n < MAX_BYTES && fgets(line, sizeof line, file);
         n += strlen(line)) {
        if (!strncmp(line, "job ", 4)) {
            job = read_job(st, line);
        } else if (job) {
            read_address(job, line);
        }
    }
}

void
stale_load(struct stale *st)
{
    /* No link is followed, and a pipe not waited for. */
    int fd = st->path ? open(st->path,
                             O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
                      : -1;
    struct job *job;
    FILE *file;

    if (fd < 0) {
        return;
    }
    file = fdopen(fd, "r");
    if (!file) {
        close(fd);
        return;
    }
    read_file(st, file);
    fclose(file);
    st->unsaved = true;
    HMAP_FOR_EACH (job, node, &st->waiting) {
        addrset_sort(&job->addrs);
        addrset_sort(&job->eps);
        addrset_sort(&job->fresh);
        addrset_sort(&job->sources);
        addrset_sort(&job->peers);
    }
}
