/* SPDX-License-Identifier: Apache-2.0 */
/* Texts of the answers to health checks. */

#include "body.h"

#include <inttypes.h>
#include <time.h>

#define OK          200
#define UNAVAILABLE 503

static struct tm
to_tm(int64_t us)
{
    time_t s = us / 1000000;
    struct tm tm = { 0 };

    gmtime_r(&s, &tm);
    return tm;
}

void
body_put_time(int64_t us, struct ds *ds)
{
    unsigned int fraction = us % 1000000;
    struct tm tm = to_tm(us);
    char text[64];

    if (us <= 0) {
        ds_put_cstr(ds, "0001-01-01T00:00:00Z");
        return;
    }
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &tm);
    ds_put_cstr(ds, text);
    if (fraction) {
        ds_put_format(ds, ".%06u", fraction);
        while (ds_last(ds) == '0') {
            ds_truncate(ds, ds->length - 1);
        }
    }
    ds_put_char(ds, 'Z');
}

void
body_put_date(int64_t us, struct ds *ds)
{
    static const char days[][4] = {
        "Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat",
    };
    static const char months[][4] = {
        "Jan", "Feb", "Mar", "Apr", "May", "Jun",
        "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    };
    struct tm tm = to_tm(us);

    ds_put_format(ds, "%s, %02d %s %d %02d:%02d:%02d GMT", days[tm.tm_wday],
                  tm.tm_mday, months[tm.tm_mon], tm.tm_year + 1900, tm.tm_hour,
                  tm.tm_min, tm.tm_sec);
}

static const char *
bool_name(bool b)
{
    return b ? "true" : "false";
}

/* Of several families that are ill, or well, the last one that was updated. */
static int64_t
last_updated(const struct health_state *h, bool ok)
{
    int64_t last_us = 0;

    for (int i = 0; i < N_IP_FAMILIES; i++) {
        if (h->families[i].healthy == ok
            && h->families[i].updated_us > last_us) {
            last_us = h->families[i].updated_us;
        }
    }
    return last_us;
}

static void
put_families(const struct health_state *h, struct ds *ds)
{
    const char *sep = "";

    ds_put_cstr(ds, ",\"status\":{");
    for (int i = 0; i < N_IP_FAMILIES; i++) {
        bool healthy = h->families[i].healthy;

        if (h->families[i].known) {
            ds_put_format(ds, "%s\"%s\":{\"lastUpdated\":\"", sep,
                          ip_family_name(i));
            body_put_time(healthy ? h->now_us : h->families[i].updated_us, ds);
            ds_put_format(ds, "\",\"healthy\":%s}", bool_name(healthy));
            sep = ",";
        }
    }
    ds_put_char(ds, '}');
}

/* 'lastUpdated' is now as long as all is well: older readers take an old time
 * for an illness. */
static unsigned int
put_health(const struct health_state *h, bool with_node, struct ds *ds)
{
    bool proxy_ok = health_state_is_ok(h);
    bool ok = proxy_ok && (!with_node || h->node_eligible);

    ds_put_cstr(ds, "{\"lastUpdated\":\"");
    body_put_time(ok ? h->now_us : last_updated(h, proxy_ok), ds);
    ds_put_cstr(ds, "\",\"currentTime\":\"");
    body_put_time(h->now_us, ds);
    ds_put_char(ds, '"');
    if (with_node) {
        ds_put_format(ds, ",\"nodeEligible\":%s", bool_name(h->node_eligible));
    }
    ds_put_format(ds, ",\"healthy\":%s", bool_name(ok));
    put_families(h, ds);
    ds_put_char(ds, '}');
    return ok ? OK : UNAVAILABLE;
}

unsigned int
body_healthz(const struct health_state *h, struct ds *ds)
{
    return put_health(h, true, ds);
}

unsigned int
body_livez(const struct health_state *h, struct ds *ds)
{
    return put_health(h, false, ds);
}

unsigned int
body_readyz(const struct health_state *h, struct ds *ds)
{
    unsigned int status = put_health(h, false, ds);

    for (int i = 0; i < N_IP_FAMILIES; i++) {
        if (!h->families[i].updated_us) {
            return UNAVAILABLE;
        }
    }
    return status;
}

/* A name in quotes.  The decoder lets nothing but printable ASCII pass. */
static void
put_quoted(const char *s, struct ds *ds)
{
    ds_put_char(ds, '"');
    for (; *s; s++) {
        if (*s == '"' || *s == '\\') {
            ds_put_char(ds, '\\');
        }
        ds_put_char(ds, *s);
    }
    ds_put_char(ds, '"');
}

unsigned int
body_check(const struct health_check *c, bool proxy_is_ok, struct ds *ds)
{
    ds_put_cstr(ds, "{\n\t\"service\": {\n\t\t\"namespace\": ");
    put_quoted(c->ns, ds);
    ds_put_cstr(ds, ",\n\t\t\"name\": ");
    put_quoted(c->name, ds);
    ds_put_format(ds,
                  "\n\t},\n\t\"localEndpoints\": %zu,\n"
                  "\t\"serviceProxyHealthy\": %s\n}",
                  c->n_local, bool_name(proxy_is_ok));
    return c->n_local && proxy_is_ok ? OK : UNAVAILABLE;
}
