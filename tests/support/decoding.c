/* SPDX-License-Identifier: Apache-2.0 */
/* Decoding of JSON into text. */

#include "decoding.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <util.h>

#include "objtext.h"

/* The name must be told also of what is bad. */
static void
check_identity(const struct kube_object *object, const char *message)
{
    struct ds start = DS_EMPTY_INITIALIZER;

    ds_put_cstr(&start, model_kind_name(object->kind));
    if (object->name[0]) {
        ds_put_format(&start, " %s%s%s", object->ns, object->ns[0] ? "/" : "",
                      object->name);
    } else {
        assert_string_equal(object->ns, "");
    }
    ds_put_cstr(&start, ": ");
    assert_memory_equal(message, ds_cstr(&start), start.length);
    ds_destroy(&start);
}

static void
check_meta(const struct kube_object *object, const struct obj_meta *meta)
{
    assert_string_equal(object->ns, meta->ns);
    assert_string_equal(object->name, meta->name);
}

static void
check_object(const struct kube_object *object)
{
    if (object->svc) {
        check_meta(object, &object->svc->meta);
    } else if (object->slice) {
        check_meta(object, &object->slice->meta);
    } else if (object->node) {
        check_meta(object, &object->node->meta);
    } else if (object->plain) {
        check_meta(object, object->plain);
    } else {
        assert_int_equal(object->kind, MODEL_SLICES);
    }
}

/* What is left out of a good object must name it as well. */
static void
check_left_out(const struct kube_object *object, struct ds *ds)
{
    const char *message = object->left_out.msg;

    if (!object->svc && object->kind != MODEL_MC_CLUSTERS) {
        assert_int_equal(object->node && object->node->transport_is_bad,
                         message[0] != '\0');
    }
    if (message[0]) {
        check_identity(object, message);
        ds_put_format(ds, "left out: %s\n", message);
    }
}

void
decoding_format(enum model_kind kind, const char *text, size_t len,
                struct ds *ds)
{
    struct intern_pool *pool = intern_pool_create();
    /* A copy, so that no reading beyond its end stays unseen. */
    char *copy = xmemdup(text, len);
    struct kube_object object = { .kind = kind };
    struct err err;
    int error;

    error = kube_decode(copy, len, pool, &object, &err);
    free(copy);
    assert_int_equal(object.kind, kind);
    if (error) {
        assert_int_equal(error, EINVAL);
        check_identity(&object, err.msg);
        assert_null(object.svc);
        assert_null(object.slice);
        assert_null(object.node);
        ds_put_format(ds, "error: %s\n", err.msg);
    } else {
        check_object(&object);
        objtext_format(&object, ds);
        check_left_out(&object, ds);
    }
    svc_free(object.svc, pool);
    slice_free(object.slice, pool);
    node_free(object.node, pool);
    plain_free(object.plain, pool);
    assert_int_equal(intern_count(pool), 0);
    intern_pool_destroy(pool);
}

void
decoding_check(enum model_kind kind, const char *json, const char *expected)
{
    struct ds found = DS_EMPTY_INITIALIZER;

    decoding_format(kind, json, strlen(json), &found);
    assert_string_equal(ds_cstr(&found), expected);
    ds_destroy(&found);
}
