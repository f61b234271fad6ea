/* server/models/precision_file.h - the file that asks for a model to be computed in lower precision.
 *
 *   VERSION/assets.extra/precision.json
 *     {"precision": "bfloat16"}
 *     {"precision": "int8", "ranges": {"dense/kernel": [-1.5, 3.25], ..}}
 *
 * ranges: by weights (core/run/precision.h), the least and the largest of what they are multiplied with.
 * `tensord quantize` writes it (server/quantize_command.h); it is read when the version is loaded.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_MODELS_PRECISION_FILE_H
#define TD_SERVER_MODELS_PRECISION_FILE_H

#include "core/run/precision.h"

#define TD_PRECISION_FILE "assets.extra/precision.json"

/* What the file says: returns new. INVALID_ARGUMENT names the key and the rule. */
TD_MUST enum td_code td_precision_parse(const char *text, size_t n, struct td_precision **out,
                                        struct td_err *err);
/* *out NULL: dir has no such file; else new. INVALID_ARGUMENT names the file, the key and the rule. */
TD_MUST enum td_code td_precision_file_read(const char *dir, struct td_precision **out, struct td_err *err);
/* In place of one that is there, at once. */
TD_MUST enum td_code td_precision_file_write(const char *dir, const struct td_precision *p,
                                             struct td_err *err);

#endif
