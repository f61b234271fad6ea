/* server/http/duration_hint.h - remembers how long requests of a kind take, to tell short ones from long ones
 * beforehand.
 *
 * A kind is a hash of method, target and magnitude of the body; it picks a slot that holds a slowly falling
 * maximum of the times measured, a single one that is long among short ones left out. A kind never seen, or
 * pushed out by another, counts as long. Any thread; no locks: a lost update costs one wrong guess.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_HTTP_DURATION_HINT_H
#define TD_SERVER_HTTP_DURATION_HINT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TD_DURATION_HINT_SLOTS 1024

struct td_duration_hints {
    struct {
        _Atomic uint64_t kind;
        _Atomic uint32_t ns, last_ns;
    } slots[TD_DURATION_HINT_SLOTS];
};

uint64_t td_duration_hint_kind(const char *method, const char *target, size_t body_bytes);
bool td_duration_hint_is_short(const struct td_duration_hints *p, uint64_t kind, int64_t limit_ns);
void td_duration_hint_remember(struct td_duration_hints *p, uint64_t kind, int64_t ns);

#endif
