/* server/models/gradient_inputs.h - a gradient as JSON asks for it: the ask, and the tensors given for it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_MODELS_GRADIENT_INPUTS_H
#define TD_SERVER_MODELS_GRADIENT_INPUTS_H

#include "proto/json/gradient_json.h"
#include "server/models/gradient.h"

/* Borrows json's names. INVALID_ARGUMENT: no such kind. */
TD_MUST enum td_code td_gradient_ask_read(const struct td_gradient_json *json, struct td_gradient_ask *out,
                                          struct td_err *err);
/* Number of the input that a target's gradient from above, or a source's vector, goes to. INVALID_ARGUMENT:
 * it takes none. */
TD_MUST enum td_code td_gradient_input(const struct td_gradient *g, bool vector, const char *name, int *out,
                                       struct td_err *err);
/* Appends output_gradients and vectors to in[*n_in..), which has room for all of them, under the names that
 * the gradient's signature has for these inputs. The tensors are the caller's, those appended before a
 * failure too. INVALID_ARGUMENT in the words of td_json_inputs. */
TD_MUST enum td_code td_gradient_json_inputs(const struct td_gradient *g, struct td_servable *s,
                                             const struct td_gradient_json *json, struct td_arena *arena,
                                             struct td_named *in, int *n_in, struct td_err *err);

#endif
