/* SPDX-License-Identifier: Apache-2.0 */
/* The annotation of the own Node by which other nodes find this one.
 *
 * The model, which the watch keeps equal to the API server, tells whether the
 * Node says what it should; a patch is only ever the answer to a difference.
 * A pause follows each, a successful one, too: the watch needs a moment to
 * bring the result, and if somebody else keeps writing something different
 * the two shall not chase each other. */

#include "publisher.h"

#include <ctype.h>
#include <string.h>

#include <openvswitch/poll-loop.h>
#include <openvswitch/vlog.h>
#include <timeval.h>
#include <util.h>

#include "ofproxyd/kube/decode.h"
#include "ofproxyd/kube/stream.h"

VLOG_DEFINE_THIS_MODULE(kube_publisher);

/* For connecting, too. */
#define PATCH_TOTAL_MS 30000

/* What is refused is tried again after so many of the longest pauses: five to
 * six minutes. */
#define SLOWER 10

void
publisher_init(struct publisher *pub, struct watcher_env *env,
               int backoff_min_ms, int backoff_max_ms)
{
    *pub = (struct publisher){
        .env = env,
        .backoff = BACKOFF_INIT(backoff_min_ms, backoff_max_ms),
        .warned_status = -1,
    };
}

void
publisher_uninit(struct publisher *pub)
{
    http_req_destroy(pub->req);
    pub->req = NULL;
}

void
publisher_set(struct publisher *pub, const struct ip transport[N_IP_FAMILIES])
{
    pub->wanted = true;
    memcpy(pub->transport, transport, sizeof pub->transport);
}

/* Notes what the annotation shall be, "" if it shall not be, as what is sent.
 * Antrea separates by a comma. */
static const char *
format_value(struct publisher *pub)
{
    struct ds ds = DS_EMPTY_INITIALIZER;
    char buf[IP_STRLEN];

    for (size_t f = 0; f < N_IP_FAMILIES; f++) {
        if (!ip_is_none(&pub->transport[f])) {
            ds_put_format(&ds, "%s%s", ds.length ? "," : "",
                          ip_to_string(&pub->transport[f], buf));
        }
    }
    ovs_strlcpy(pub->sent, ds_cstr(&ds), sizeof pub->sent);
    ds_destroy(&ds);
    return pub->sent;
}

/* Does the Node say something else than it should, as far as is known? */
static bool
differs(const struct publisher *pub)
{
    const struct model *model = pub->env->model;
    const struct node *node = model_own_node(model);

    if (!pub->wanted || !node || !model_kind_synced(model, MODEL_NODES)) {
        return false;
    }
    for (size_t f = 0; f < N_IP_FAMILIES; f++) {
        if (!ip_equals(&node->transport[f], &pub->transport[f])) {
            return true;
        }
    }
    return node->transport_is_bad;
}

/* Appends the path of the own Node, whose name may be any that the API server
 * told. */
static void
put_target(const struct publisher *pub, struct ds *ds)
{
    ds_put_cstr(ds, "/api/v1/nodes/");
    for (const char *p = model_node_name(pub->env->model); *p; p++) {
        if (isalnum((unsigned char) *p) || strchr("-._", *p)) {
            ds_put_char(ds, *p);
        } else {
            ds_put_format(ds, "%%%02X", (unsigned char) *p);
        }
    }
}

static void
send_patch(struct publisher *pub)
{
    struct ds target = DS_EMPTY_INITIALIZER, body = DS_EMPTY_INITIALIZER;
    const char *value = format_value(pub), *quote = value[0] ? "\"" : "";
    long long int now = time_msec();

    put_target(pub, &target);
    ds_put_format(&body,
                  "{\"metadata\":{\"annotations\":{\"" KUBE_TRANSPORT
                  "\":%s%s%s}}}",
                  quote, value[0] ? value : "null", quote);
    VLOG_DBG("PATCH %s %s", ds_cstr(&target), ds_cstr(&body));
    pub->req = http_patch(pub->env->http, ds_cstr(&target), ds_cstr(&body),
                          PATCH_TOTAL_MS);
    pub->stats.n_requests++;
    if (now - pub->wake_ms > 2LL * pub->pause_ms) {
        /* All was well for some time. */
        backoff_reset(&pub->backoff);
    }
    ds_destroy(&target);
    ds_destroy(&body);
}

/* Is a status one that trying again soon doesn't help?  Of others, a conflict
 * is over at once, and a Node that isn't there is waited for by way of the
 * model. */
static bool
is_refusal(int status)
{
    return status >= 300 && status < 500 && status != 401 && status != 404
           && status != 408 && status != 409 && status != 429;
}

static void
report_success(struct publisher *pub)
{
    static struct vlog_rate_limit rl = VLOG_RATE_LIMIT_INIT(6, 6);

    VLOG_INFO_RL(&rl, "Node \"%s\": transport addresses %s",
                 model_node_name(pub->env->model),
                 pub->sent[0] ? pub->sent : "taken away");
    pub->stats.last_error[0] = '\0';
    pub->warned_status = -1;
}

/* Says what went wrong, once for each status in a row of failures. */
static void
report_failure(struct publisher *pub, const struct http_result *result,
               int pause_ms)
{
    static struct vlog_rate_limit rl = VLOG_RATE_LIMIT_INIT(6, 6);
    bool quiet = result->status == 404 || result->status == 409;
    struct kube_status status;
    struct err text;

    if (!result->status) {
        err_set(&text, "%s", result->text);
    } else {
        if (kube_status_parse(result->body, result->body_len, &status)) {
            status.code = 0;
        }
        err_set(&text, "HTTP %d: %s", result->status, status.message);
    }
    pub->stats.n_failures++;
    ovs_strlcpy(pub->stats.last_error, text.msg, sizeof pub->stats.last_error);
    if (quiet || pub->warned_status == result->status) {
        VLOG_DBG("patch of the Node: %s", text.msg);
    } else {
        VLOG_WARN_RL(&rl,
                     "Node \"%s\": transport addresses can't be written, so "
                     "other nodes may use another address of this node: %s; "
                     "next try in %.1f s",
                     model_node_name(pub->env->model), text.msg,
                     pause_ms / 1000.0);
        pub->warned_status = result->status;
    }
}

static void
finish_patch(struct publisher *pub, const struct http_result *result)
{
    int pause_ms = backoff_next(&pub->backoff, watcher_random(pub->env));
    bool ok = result->end == HTTP_WHOLE && result->status >= 200
              && result->status < 300;

    if (is_refusal(result->status)) {
        pause_ms += pub->backoff.max_ms * SLOWER;
    }
    if (result->retry_after_s) {
        pause_ms =
            MAX(pause_ms,
                MIN(result->retry_after_s, REFLECTOR_ASKED_MAX_S) * 1000);
    }
    if (ok) {
        report_success(pub);
    } else {
        report_failure(pub, result, pause_ms);
    }
    pub->pause_ms = pause_ms;
    pub->wake_ms = time_msec() + pause_ms;
    http_req_destroy(pub->req);
    pub->req = NULL;
}

void
publisher_run(struct publisher *pub)
{
    struct http_result result;

    if (pub->req && http_req_ended(pub->req, &result)) {
        finish_patch(pub, &result);
    }
    if (!pub->req && differs(pub) && time_msec() >= pub->wake_ms) {
        send_patch(pub);
    }
}

void
publisher_wait(struct publisher *pub)
{
    struct http_result result;

    if (pub->req) {
        if (http_req_ended(pub->req, &result)) {
            poll_immediate_wake();
        }
    } else if (differs(pub)) {
        poll_timer_wait_until(pub->wake_ms);
    }
}
