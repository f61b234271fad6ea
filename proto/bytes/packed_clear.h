/* proto/bytes/packed_clear.h - what is removed from a folder of packed weights
 * (proto/bytes/packed_folder.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_BYTES_PACKED_CLEAR_H
#define TD_PROTO_BYTES_PACKED_CLEAR_H

#include <stdbool.h>
#include <stdint.h>

enum { TD_PACKED_NAME = 80 }; /* bytes of a name in it at most, its NUL included */

/* Removes what processes that are gone left half written. */
void td_packed_sweep(const char *path);
/* Removes files, those that were used the longest time ago first and none of which is_held says yes,
 * until more bytes have room within `most`. False: they have none, though nothing but what is held is
 * left. */
bool td_packed_make_room(const char *path, uint64_t more, uint64_t most,
                         bool (*is_held)(void *ctx, const char *name), void *ctx);

#endif
