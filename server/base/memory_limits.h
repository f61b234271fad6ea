/* server/base/memory_limits.h - --max_memory and --max_request_memory: how much the process may hold, and one
 * request of it (core/base/budget.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_BASE_MEMORY_LIMITS_H
#define TD_SERVER_BASE_MEMORY_LIMITS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/status.h"

/* What this process may get: the machine's memory, or less where the control groups (memory.max and
 * memory.high of v2, memory.limit_in_bytes of v1) or the limit on its address space (ulimit -v: half of
 * what is not mapped yet) say so. In bytes. root is "" outside tests: a folder before /proc and /sys. */
uint64_t td_memory_there_is(const char *root);
/* Whether the address space has a limit (ulimit -v): what libraries make once, and do not survive the lack of
 * memory for, is then to be made before requests come. */
bool td_memory_space_is_limited(void);
/* RESOURCE_EXHAUSTED where the limit on the address space is lower than what gRPC survives: for a server that
 * takes messages of so many bytes by gRPC, before threads start. */
TD_MUST enum td_code td_memory_space_check(uint64_t largest_message, struct td_err *err);
/* "1500000000", "2GiB" (KiB, MiB, GiB) or a share of whole such as "80%"; "0" is 0, no limit.
 * INVALID_ARGUMENT for other texts, and shares above 100%; flag is named. */
TD_MUST enum td_code td_memory_parse(const char *flag, const char *text, uint64_t whole, uint64_t *out,
                                     struct td_err *err);
/* --max_resident_bytes in bytes, a share of it being one of max_memory; 0: no limit. It says what of lazily
 * loaded models may stay: INVALID_ARGUMENT without --lazy_loading. */
TD_MUST enum td_code td_memory_resident_limit(const char *text, bool lazy_loading, uint64_t *out,
                                              struct td_err *err);
/* Sets both limits, and says so in the log. A share of request is one of max_memory. Before threads start. */
TD_MUST enum td_code td_memory_limits_set(const char *max_memory, const char *max_request_memory,
                                          struct td_err *err);

#endif
