/* SPDX-License-Identifier: Apache-2.0 */
/* Services between a model and a flow table; see svcfix.h. */

#include "svcfix.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <util.h>

int
svcfix_setup(void **state)
{
    struct svcfix *f = xzalloc(sizeof *f);

    cfg_init_defaults(&f->cfg);
    f->model = model_create("n1");
    f->ft = flowtab_create();
    f->services = services_create(&(struct services_cfg){
        .model = f->model, .flowtab = f->ft, .cfg = &f->cfg });
    *state = f;
    return 0;
}

int
svcfix_teardown(void **state)
{
    struct svcfix *f = *state;

    flowtab_destroy(f->ft);
    services_destroy(f->services);
    model_destroy(f->model);
    cfg_uninit(&f->cfg);
    free(f);
    return 0;
}

void
svcfix_render(struct svcfix *f)
{
    assert_true(services_run(f->services, LLONG_MAX));
}
