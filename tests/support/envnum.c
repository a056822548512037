/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers from the environment; see envnum.h. */

#include "envnum.h"

#include <stdlib.h>

uint64_t
envnum(const char *name, uint64_t otherwise)
{
    const char *s = getenv(name);

    return s ? strtoull(s, NULL, 0) : otherwise;
}
