/* core/base/collective.c - the process's one collective.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/collective.h"

#include <stdatomic.h>

static _Atomic(const struct td_collective *) the_one;

void td_collective_set(const struct td_collective *c)
{
    atomic_store(&the_one, c);
}

const struct td_collective *td_collective(void)
{
    return atomic_load(&the_one);
}
