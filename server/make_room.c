/* server/make_room.c - the caches of engine and kernels, one after the other.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/make_room.h"

#include "core/function/callable.h"
#include "kernels/ops.h"

void td_make_room(bool (*is_enough)(void *ctx), void *ctx)
{
    td_callables_trim(is_enough, ctx);
    if (!is_enough(ctx)) {
        td_kernels_trim();
    }
}
