/* server/base/access.h - who may do what: bearer tokens of a file, each with scopes and, if wanted, a pattern
 * of model names.
 *
 *   TOKEN SCOPES [MODEL-GLOB]      SCOPES of infer, gradient, manage, train, debug, with commas; # a comment
 *
 * Looking takes one read lock. Tokens are compared in a time that does not depend on what they hold.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_BASE_ACCESS_H
#define TD_SERVER_BASE_ACCESS_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/status.h"

struct td_access;

/* What a request needs: OPEN nothing, ANY any token, the others a token with that scope. DEFAULT: what its
 * kind suggests. */
enum td_scope {
    TD_SCOPE_DEFAULT,
    TD_SCOPE_OPEN,
    TD_SCOPE_ANY,
    TD_SCOPE_INFER,
    TD_SCOPE_MANAGE,
    TD_SCOPE_TRAIN,
    TD_SCOPE_DEBUG,
    TD_SCOPE_GRADIENT,
    TD_SCOPE_INFER_OR_GRADIENT /* either of them */
};

#define TD_ACCESS_ALL "*" /* in place of a model's name: all models at once */

/* Returns new. INVALID_ARGUMENT names file, line and what is wrong with it. */
TD_MUST enum td_code td_access_open(const char *path, struct td_access **out, struct td_err *err);
/* Reads the file again; when that fails the tokens stay as they are. */
TD_MUST enum td_code td_access_reread(struct td_access *a, struct td_err *err);
void td_access_close(struct td_access *a); /* accepts NULL */

/* Whether a model of that name is served. Told before the first request; without it no name holds a colon. */
typedef bool td_access_model_fn(void *ctx, const char *name);
void td_access_models(struct td_access *a, td_access_model_fn *is_model, void *ctx); /* accepts NULL */

/* authorization: the n bytes of that header, NULL for none. model: the one asked for, NULL when none is
 * named; of "NAME:SIGNATURE" NAME counts, unless that is a model's name as it stands. A NULL a allows
 * everything. UNAUTHENTICATED without a known token, PERMISSION_DENIED when it may not. */
TD_MUST enum td_code td_access_check(struct td_access *a, const char *authorization, size_t n,
                                     enum td_scope scope, const char *model, struct td_err *err);

/* Who sent it, for quotas and lists: a digest of the token, that cannot be turned back; "" without one. */
enum { TD_OWNER_CHARS = 33 };
void td_access_owner(const char *authorization, size_t n, char owner[TD_OWNER_CHARS]);

#endif
