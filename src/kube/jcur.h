/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_KUBE_JCUR_H
#define OFPROXYD_KUBE_JCUR_H 1

/* A cursor over JSON text, for readers that know what they look for.
 *
 * Half of every API object is bookkeeping that nobody here reads, so no tree
 * is built: the reader asks for the members that it knows and the rest is
 * skipped at the speed of a scan.  The cursor keeps the path to where it
 * stands, so that every complaint names the field.
 *
 * The first error sticks: after it every call returns at once, with "" or 0
 * or no more elements, so that a reader needs no checks between two calls
 * and one at its end.  A null is an absent value; a name that occurs twice
 * counts with its last value, provided that readers start their result from
 * scratch, as they must. */

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <openvswitch/compiler.h>

#include "ofproxyd/base/err.h"

/* Objects and arrays that a reader may be in at once. */
#define JCUR_DEPTH 12

/* Some bytes, without a null byte at their end. */
struct jstr {
    const char *s;
    size_t n;
};

/* Where the cursor stands in one object or array. */
struct jcur_level {
    const char *key; /* Of the present member; NULL in an array. */
    size_t key_len;
    size_t index; /* Of the present element. */
    bool first;   /* Nothing was read yet. */
};

struct jcur {
    const char *p, *end;
    struct err *err;
    bool failed;
    unsigned int depth;
    struct jcur_level levels[JCUR_DEPTH];

    /* Memory handed out by jcur_alloc(): first 'local', then blocks. */
    char *mem;
    size_t mem_left;
    struct jcur_block *blocks;
    char local[1024] __attribute__((aligned(16)));
};

/* Puts the cursor before the value that is 'len' bytes at 'text'.  'err' gets
 * the first error; it may be NULL.  Text, 'err' and cursor must stay where
 * they are until jcur_uninit(), which frees what jcur_alloc() handed out. */
void jcur_init(struct jcur *, const char *text, size_t len, struct err *err);
void jcur_uninit(struct jcur *);

/* Memory until jcur_uninit(), aligned for any type. */
void *jcur_alloc(struct jcur *, size_t size);

/* Errors. */

/* Fails, unless the cursor has failed before, with the path and 'format'. */
void jcur_fail(struct jcur *, const char *format, ...) OVS_PRINTF_FORMAT(2, 3);

/* Fails with "PATH: found VALUE, want " and 'format', where VALUE is the one
 * that begins at 'at'. */
void jcur_mismatch(struct jcur *, const char *at, const char *format, ...)
    OVS_PRINTF_FORMAT(3, 4);

/* Fails because the object that was read last has no member 'key'. */
void jcur_missing(struct jcur *, const char *key);

/* Where the next value begins. */
const char *jcur_here(struct jcur *);

/* Puts the cursor back to a value 'at' that it has just read. */
void jcur_reread(struct jcur *, const char *at);

/* Values.  Each consumes one value. */

/* Consumes the value if it is a null. */
bool jcur_null(struct jcur *);

/* Skips a value of any kind.  Of what is in it only the brackets are
 * checked. */
void jcur_skip(struct jcur *);

/* Skips a value, even if brackets in it don't match, and returns its text. */
struct jstr jcur_raw(struct jcur *);

/* A string that is UTF-8 and has no null byte in it.  Points into the text,
 * or, if it has escapes, into the cursor's memory; "" if null. */
struct jstr jcur_string(struct jcur *);

/* The same with a null byte behind it and of at most 'max' bytes. */
const char *jcur_text(struct jcur *, size_t max);

/* An integer from 'min' to 'max'; 'absent' if null. */
int64_t jcur_int(struct jcur *, int64_t min, int64_t max, int64_t absent);

bool jcur_bool(struct jcur *, bool absent);

/* First byte of the next value: '{', '[', '"', 't', 'f', 'n' or one of a
 * number; 0 at the end of the text. */
char jcur_peek(struct jcur *);

/* Objects and arrays. */

/* A member that a reader knows: 'read' must consume the value, which may be
 * null. */
struct jcur_member {
    const char *key;
    size_t key_len;
    void (*read)(struct jcur *, void *aux);
};
#define JCUR_MEMBER(KEY, READ)         \
    {                                  \
        (KEY), sizeof(KEY) - 1, (READ) \
    }

/* Reads an object, calling the reader of each of its known members in the
 * order of the text and skipping others.  A null has no members. */
void jcur_object(struct jcur *, const struct jcur_member members[], size_t n,
                 void *aux);

/* Reads an array of at most 'max' elements, calling 'read' for each that is
 * not null.  A null is an empty array. */
void jcur_array(struct jcur *, size_t max,
                void (*read)(struct jcur *, void *aux), void *aux);

/* Index of the element that is being read by jcur_array(). */
size_t jcur_index(const struct jcur *);

/* Name of the next member, whose bytes are not checked unless it has escapes:
 * one that is not UTF-8 is none that a reader knows. */
struct jstr jcur_key(struct jcur *);

/* Walks an object or array step by step. */
bool jcur_open(struct jcur *, char bracket); /* '{' or '['; false on error. */
bool jcur_next_key(struct jcur *, struct jstr *ret); /* False at the '}'. */
bool jcur_next(struct jcur *);                       /* False at the ']'. */

/* Fails if anything but white space is left. */
void jcur_finish(struct jcur *);

/* Random access. */

/* Skips an object and notes in ret[i] where the value of its last member
 * keys[i] begins, or NULL if there is none.  What was found before an error
 * is noted. */
void jcur_locate(struct jcur *, const char *const keys[], size_t n,
                 const char *ret[]);

/* Puts the cursor before the value of member 'key' of the outermost object,
 * which jcur_locate() found at 'at'. */
void jcur_goto(struct jcur *, const char *key, const char *at);

bool jstr_equals(struct jstr, const char *);

#endif /* kube/jcur.h */
