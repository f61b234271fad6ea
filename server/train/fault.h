/* server/train/fault.h - what is wrong with a job: a sentence, and where a client finds it.
 *
 *   return TD_FAULT(f, "invalid_value", "tensord.optimizer.momentum", "momentum is %g, want [0, 1)", m);
 *
 * Of an error from below (the engine, a file), td_fault_of says what it is for the client:
 *
 *   return td_fault_of(f, td_callable_run(.., &f->err), "training_error", "");
 *
 * A fault begins as {0}; the first one wins, as in a td_err. The codes are
 * OpenAI's and FORMAT's: invalid_value, unknown_field, missing_field, model_not_found, file_not_found,
 * invalid_training_file, invalid_validation_file, training_error, server_error.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_TRAIN_FAULT_H
#define TD_SERVER_TRAIN_FAULT_H

#include "core/base/status.h"

struct td_fault {
    struct td_err err; /* err.code is what the call returned, err.msg the sentence */
    char code[32];     /* of the table above */
    char param[256];   /* dotted path of the field in the job; "": none */
};

/* Sets all three; returns INVALID_ARGUMENT (server_error: INTERNAL). param may be NULL: none. */
enum td_code td_fault_set(struct td_fault *f, const char *code, const char *param, const char *fmt, ...)
    TD_PRINTF(4, 5);
#define TD_FAULT(f, code, param, ...) td_fault_set((f), (code), (param), __VA_ARGS__)
/* f->err is set by a call that gave rc: code and param of it, unless rc is TD_OK or f says already what it
 * is. Returns rc. */
enum td_code td_fault_of(struct td_fault *f, enum td_code rc, const char *code, const char *param);

#endif
