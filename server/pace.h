/* server/pace.h - remembers how long requests of a kind take, to tell short ones from long ones beforehand.
 *
 * A kind is a hash of method, target and magnitude of the body; it picks a slot that holds a slowly falling maximum of
 * the times measured. A kind never seen, or pushed out by another, counts as long. Any thread; no locks: a lost update
 * costs one wrong guess.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_PACE_H
#define TD_SERVER_PACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TD_PACE_SLOTS 1024

struct td_pace {
    struct { _Atomic uint64_t kind; _Atomic uint32_t ns; } slots[TD_PACE_SLOTS];
};

uint64_t td_pace_kind(const char *method, const char *target, size_t body_bytes);
bool td_pace_is_short(const struct td_pace *p, uint64_t kind, int64_t limit_ns);
void td_pace_remember(struct td_pace *p, uint64_t kind, int64_t ns);

#endif
