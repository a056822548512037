/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPTION_H
#define OPTION_H 1

/* The table of options that options.def describes, as data. */

#include "ofproxyd/config/config.h"

enum option_type {
    OPT_BOOL,
    OPT_INT,
    OPT_STRING,
    OPT_ENUM,
    OPT_CIDR,
    OPT_CIDRS,
    OPT_STRINGS,
    OPT_INTS,
    OPT_DURATION,
    OPT_ADDR,
    OPT_RECORDS
};

/* What a text has to be. */
enum option_check {
    CHECK_NONE,
    CHECK_NUMBER,
    CHECK_SERVER,
    CHECK_IFNAME,
    CHECK_PATH,
    CHECK_LABEL_VALUE,
    CHECK_DNS_LABEL,
    CHECK_SKIP,
    CHECK_V4,
    CHECK_V6
};

/* How far a feature gate has come; STAGE_NONE for all other options. */
enum option_stage {
    STAGE_NONE,
    STAGE_ALPHA,
    STAGE_BETA,
    STAGE_GA,
    STAGE_LOCKED /* Can't be switched off. */
};

enum option_id {
#define CFG_OPTION(FIELD, KEY, TYPE, CTYPE, DEFAULT, MIN, MAX, ARG, USED, \
                   HELP)                                                  \
    OPTION_##FIELD,
#include "ofproxyd/config/options.def"
    N_OPTIONS
};

struct cfg_option {
    const char *key;
    const char *dflt; /* As in the file. */
    const char *help;
    const char *const *names; /* OPT_ENUM: texts by value, then NULL. */
    const char *subkeys;      /* OPT_RECORDS: keys of an item, by blanks. */
    size_t offset;            /* Of its member in struct cfg. */
    int64_t min, max;
    enum option_type type;
    enum option_check check; /* OPT_STRING, OPT_STRINGS, OPT_CIDR. */
    enum option_stage stage;
    bool used;
};
extern const struct cfg_option cfg_options[N_OPTIONS];

/* A key that only holds other keys. */
struct cfg_section {
    const char *key;
    const char *help;
};

/* Returns the option or the section with exactly this key, or NULL. */
const struct cfg_option *cfg_option_find(const char *key);
const struct cfg_section *cfg_section_find(const char *key);

/* Returns the key of the option or section that somebody who wrote 'key' may
 * have meant, or NULL. */
const char *cfg_option_guess(const char *key);

/* Appends what may stand in the file for 'option', or for one item of its
 * list. */
void cfg_option_put_allowed(const struct cfg_option *option, struct ds *);
void cfg_option_put_item_allowed(const struct cfg_option *option, struct ds *);

/* The member of 'cfg' that belongs to 'option'. */
void *cfg_option_field(const struct cfg_option *option, struct cfg *cfg);

/* Returns the value that an OPT_BOOL or OPT_ENUM has in 'cfg', as in the
 * file. */
const char *cfg_option_value(const struct cfg_option *option,
                             const struct cfg *cfg);

/* Frees what the member of 'cfg' that belongs to 'option' points to. */
void cfg_option_clear(const struct cfg_option *option, struct cfg *cfg);

#endif /* option.h */
