/* server/request/repository.h - the registry as the model repository of the Open Inference Protocol: an index
 * of versions, loading and unloading by name, and walks over what serves. Both wires tell it in their own
 * form.
 *
 * Loading is looking for versions now, and loading those again whose files have changed; a model that was
 * unloaded stays so until it is loaded by name. A load may bring a configuration, and with it files, which
 * then stand for the model's folder.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_REQUEST_REPOSITORY_H
#define TD_SERVER_REQUEST_REPOSITORY_H

#include "server/request/infer_request.h"
#include "server/models/upload.h"

struct td_repository_row {
    const char *name;
    int64_t version; /* 0: the model has none */
    const char *state, *reason;
};
typedef enum td_code td_repository_row_fn(void *ctx, const struct td_repository_row *row, struct td_err *err);
/* Every version of every model, whatever its state (ready_only: those that serve). */
TD_MUST enum td_code td_repository_index(struct td_registry *reg, bool ready_only, td_repository_row_fn *fn,
                                         void *ctx, struct td_err *err);

/* A parameter of a load: what its key says. INTERNAL for one that means nothing (as Triton has it). */
enum td_load_key { TD_LOAD_CONFIG, TD_LOAD_FILE /* its path is behind the colon */ };
TD_MUST enum td_code td_repository_load_key(const char *key, enum td_load_key *out, struct td_err *err);
/* INVALID_ARGUMENT for files that come without a configuration. */
TD_MUST enum td_code td_repository_check_upload(const struct td_upload *u, bool files, struct td_err *err);

/* The parameter of an unload that is known: a flag. */
#define TD_UNLOAD_DEPENDENTS "unload_dependents"

/* u: what came with the request; NULL: nothing. Both return when it is done. NOT_FOUND for unknown names;
 * what a load failed of. */
TD_MUST enum td_code td_repository_load(struct td_registry *reg, const char *name, struct td_upload *u,
                                        struct td_err *err);
TD_MUST enum td_code td_repository_unload(struct td_registry *reg, const char *name, struct td_err *err);

typedef enum td_code td_repository_serving_fn(void *ctx, const char *name, struct td_servable *s,
                                              struct td_err *err);
/* The versions that serve, lowest first: of all models when ref has no name, of one otherwise, or just the
 * one that ref names. A model that is named must serve. */
TD_MUST enum td_code td_repository_serving(struct td_registry *reg, const struct td_infer_ref *ref,
                                           td_repository_serving_fn *fn, void *ctx, struct td_err *err);

#endif
