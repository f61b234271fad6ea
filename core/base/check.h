/* core/base/check.h - invariants that Debug builds hold the engine to.
 *
 *   Invariant (td_plan_check): a step's inputs have smaller value numbers than its outputs.
 *
 * A check is a function  enum td_code td_<x>_check(const struct td_x *x, struct td_err *err)  that walks a
 * whole structure and says INTERNAL, and what does not hold. TD_HOLDS calls it where the structure changes
 * hands; unit tests give it broken ones. Every sentence that begins "Invariant" names its check
 * (tests/lint/invariants.py).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_BASE_CHECK_H
#define TD_CORE_BASE_CHECK_H

#include "core/base/status.h"

/* TD_HOLDS(td_plan_check, p): ends the process with the check's words. Release builds (NDEBUG) do not call
 * it. */
#ifdef NDEBUG
#define TD_HOLDS(check, ...) ((void)0)
#else
#define TD_HOLDS(check, ...)                                                                                 \
    do {                                                                                                     \
        struct td_err held_ = {0};                                                                           \
        if (check(__VA_ARGS__, &held_)) {                                                                    \
            td_panic(__FILE__, __LINE__, held_.msg);                                                         \
        }                                                                                                    \
    } while (0)
#endif

/* static, of a check that one file has for itself: Release builds have no use for it. */
#define TD_CHECK_FN __attribute__((unused)) static

/* In a check: what must be true, and the words for when it is not. */
#define TD_WANT(cond, err, ...) TD_FAIL_IF(!(cond), err, INTERNAL, __VA_ARGS__)

/* Zeroed room for a check, given back with td_free: neither counted nor refused by the tests' hook, so that
 * Debug builds fail at the same allocations as others. NULL when memory is short: then nothing is checked.
 * (core/base/mem.c) */
void *td_check_room(size_t n, size_t size);

#endif
