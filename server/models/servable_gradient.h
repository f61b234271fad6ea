/* server/models/servable_gradient.h - the gradient of a signature.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_MODELS_SERVABLE_GRADIENT_H
#define TD_SERVER_MODELS_SERVABLE_GRADIENT_H

#include "core/grad/program.h"
#include "server/models/servable_run.h"

struct td_gradient_ask {
    const char *const *targets;
    int n_targets;
    const char *const *wrt;
    int n_wrt;
    enum td_grad_kind kind;
    const struct td_named *output_gradients;
    int n_output_gradients;
    bool zeros, recompute;
};
struct td_gradient_answer {
    struct td_named *outputs, *gradients; /* a gradient without dtype: unconnected */
    int n_outputs, n_gradients;
};
TD_MUST enum td_code td_servable_gradient(struct td_servable *s, const struct td_servable_call *call,
                                          const struct td_gradient_ask *ask, struct td_gradient_answer *out,
                                          struct td_err *err);
void td_gradient_answer_fini(struct td_gradient_answer *a);

#endif
