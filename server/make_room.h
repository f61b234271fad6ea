/* server/make_room.h - memory is short: what is compiled for shapes of requests goes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_MAKE_ROOM_H
#define TD_SERVER_MAKE_ROOM_H

#include <stdbool.h>

/* As td_trim_start wants it (server/base/trim.h): plans that have not been used for longest go first, the
 * machine code that oneDNN keeps goes last, until is_enough(ctx). By a thread that holds no lock. */
void td_make_room(bool (*is_enough)(void *ctx), void *ctx);

#endif
