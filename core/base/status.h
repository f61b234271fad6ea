/* core/base/status.h - how every fallible function of tensord reports failure.
 *
 * A function that can fail returns enum td_code, is marked TD_MUST and takes a struct td_err last. The struct
 * is plain data on the caller's stack, zeroed with {0}; nothing is allocated while failing. The first error
 * wins: a second td_fail on the same struct keeps the earlier text. Texts say what was being done, the
 * object, the value, the rule.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_BASE_STATUS_H
#define TD_CORE_BASE_STATUS_H

#include <stdbool.h>
#include <stddef.h>

#define TD_MUST __attribute__((warn_unused_result))
#define TD_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))

enum td_code {
#define X(name, number, http) TD_##name = number,
#include "core/base/status.def"
#undef X
};

struct td_err {
    enum td_code code;
    char msg[1024]; /* NUL-terminated, cut at its end when longer */
};

/* Records code and text in err (unless one is set; err may be NULL) and returns the code that err then
 * holds. */
enum td_code td_fail(struct td_err *err, enum td_code code, const char *fmt, ...) TD_PRINTF(3, 4);

/* Puts "context: " in front of the text of a set error; no effect on TD_OK. Returns err->code. */
enum td_code td_err_wrap(struct td_err *err, const char *fmt, ...) TD_PRINTF(2, 3);

/* "INVALID_ARGUMENT" and the like; "UNKNOWN" for a number that is no code. */
const char *td_code_name(enum td_code code);
int td_code_http(enum td_code code);

/* A broken invariant of ours: prints where and what, then aborts. Never reachable from a request or a model
 * file. */
_Noreturn void td_panic(const char *file, int line, const char *what);

#define TD_CHECK(cond) ((cond) ? (void)0 : td_panic(__FILE__, __LINE__, #cond))
#define TD_FAIL(err, CODE, ...) return td_fail((err), TD_##CODE, __VA_ARGS__)
#define TD_FAIL_IF(cond, err, CODE, ...)                                                                     \
    do {                                                                                                     \
        if (cond) {                                                                                          \
            return td_fail((err), TD_##CODE, __VA_ARGS__);                                                   \
        }                                                                                                    \
    } while (0)
#define TD_TRY(call)                                                                                         \
    do {                                                                                                     \
        enum td_code rc_ = (call);                                                                           \
        if (rc_) {                                                                                           \
            return rc_;                                                                                      \
        }                                                                                                    \
    } while (0)

#endif
