/* core/base/hash.c - the random start of the tables' hash.
 *
 * It is drawn once, when the program starts and before anything is hashed, so that no file can be made to
 * collide; where the system has no random bytes at hand, FNV-1a's own start stays. Written by nobody later,
 * so any thread may read it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/hash.h"

#include <sys/random.h>
#include <sys/types.h>

uint64_t td_hash_start = 0xcbf29ce484222325u;

__attribute__((constructor)) static void choose_hash_start(void)
{
    uint64_t r;
    if (getrandom(&r, sizeof r, GRND_NONBLOCK) == (ssize_t)sizeof r) {
        td_hash_start = r;
    }
}
