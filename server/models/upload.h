/* server/models/upload.h - what came with a request to load a model: its configuration and, perhaps, its
 * files.
 *
 * The files lie below state_dir/uploads in a folder of their own that stands for the model's directory. The
 * upload is counted: the registry holds it while the model is to be loaded from it, and each version that was
 * loaded from it does; the last one to let go removes the folder. A folder whose process died without that is
 * removed by the next one that sweeps.
 *
 * Threads: written by one thread before it is shared; after that only read.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_MODELS_UPLOAD_H
#define TD_SERVER_MODELS_UPLOAD_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"

struct td_upload;

/* Returns new. config: the n bytes of a model configuration as JSON (copied). INVALID_ARGUMENT when they are
 * none. */
TD_MUST enum td_code td_upload_new(const char *config, size_t n, struct td_upload **out, struct td_err *err);

/* Writes one file at a path that is relative to the model's directory, and must stay below it: names
 * separated by '/', none of them "." or "..", at most TD_UPLOAD_DEPTH of them. No path may be given twice. */
#define TD_UPLOAD_DEPTH 16
#define TD_UPLOAD_FILES 10000
TD_MUST enum td_code td_upload_file(struct td_upload *u, const char *state_dir, const char *path,
                                    const void *bytes, size_t n, struct td_err *err);

struct td_upload *td_upload_ref(struct td_upload *u); /* accepts NULL, as the next one does */
void td_upload_unref(struct td_upload *u);

uint64_t
td_upload_id(const struct td_upload *u); /* of this one only, for the life of the process; 0 of NULL */
const char *td_upload_base(const struct td_upload *u); /* the directory; NULL when there are no files */
const char *td_upload_config(const struct td_upload *u, size_t *n); /* the JSON; a NUL stands behind it */

/* Removes what processes that are gone left below state_dir. */
void td_upload_sweep(const char *state_dir);

#endif
