/* server/models/servable_gradient.c - finds targets and sources in a signature, makes the program, runs it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/models/servable_gradient.h"

#include <string.h>

#include "core/base/mem.h"
#include "core/function/callable_impl.h"

static int find(const struct td_tensor_info *list, int n, const char *name)
{
    for (int i = 0; i < n; i++) {
        if (strcmp(list[i].key, name) == 0) {
            return i;
        }
    }
    return -1;
}

enum td_code td_servable_gradient(struct td_servable *s, const struct td_servable_call *call,
                                  const struct td_gradient_ask *ask, struct td_gradient_answer *out,
                                  struct td_err *err)
{
    const struct td_signature *sig = call->sig;
    enum { MOST = 64 };
    int target[MOST];
    struct td_grad_source source[MOST];
    const char *variable[MOST];
    bool seeded[MOST] = {false};
    struct td_program_opts o = {.name = sig->key,
                                .kind = ask->kind,
                                .target = target,
                                .n_targets = ask->n_targets,
                                .target_name = ask->targets,
                                .seeded = seeded,
                                .source = source,
                                .n_sources = ask->n_wrt,
                                .recompute = ask->recompute};
    struct td_tensor in[MOST] = {{0}}, made[MOST] = {{0}};
    TD_TRY(td_servable_closed(s, sig, err));
    td_callable_graph(td_servable_callable(s, sig), &o.part);
    for (int i = 0; i < ask->n_targets; i++) {
        target[i] = find(sig->out, sig->n_out, ask->targets[i]);
        TD_FAIL_IF(target[i] < 0, err, INVALID_ARGUMENT, "target '%s' is no output of the signature",
                   ask->targets[i]);
        seeded[i] = ask->n_output_gradients > 0;
    }
    for (int i = 0; i < ask->n_wrt; i++) {
        const bool var = strncmp(ask->wrt[i], "var:", 4) == 0;
        variable[i] = ask->wrt[i] + (var ? 4 : 0);
        source[i] = (struct td_grad_source){.feed = var ? -1 : find(sig->in, sig->n_in, ask->wrt[i]),
                                            .variables = &variable[i],
                                            .n_variables = 1};
        TD_FAIL_IF(!var && source[i].feed < 0, err, INVALID_ARGUMENT,
                   "source '%s' is no input of the signature", ask->wrt[i]);
    }
    struct td_program *p;
    TD_TRY(td_program_new(td_servable_engine(s), &o, &p, err));
    enum td_code rc = td_servable_bind(s, call, in, err);
    for (int i = 0; i < ask->n_output_gradients; i++) {
        in[sig->n_in + i] = ask->output_gradients[i].t;
    }
    rc = rc ? rc : td_callable_run(td_program_callable(p), in, made, call->run, err);
    out->outputs = td_calloc(MOST, sizeof *out->outputs);
    out->gradients = td_calloc(MOST, sizeof *out->gradients);
    for (int i = 0; rc == TD_OK && i < sig->n_out; i++) {
        out->outputs[out->n_outputs++] = (struct td_named){sig->out[i].key, made[i]};
    }
    for (int i = 0; rc == TD_OK && i < ask->n_wrt; i++) {
        const int f = td_program_fetch(p, i);
        out->gradients[out->n_gradients++] =
            (struct td_named){ask->wrt[i], f < 0 ? (struct td_tensor){0} : made[f]};
    }
    td_program_unref(p);
    return rc;
}

void td_gradient_answer_fini(struct td_gradient_answer *a)
{
    for (int i = 0; i < a->n_outputs; i++) {
        td_tensor_clear(&a->outputs[i].t);
    }
    for (int i = 0; i < a->n_gradients; i++) {
        td_tensor_clear(&a->gradients[i].t);
    }
    td_free(a->outputs);
    td_free(a->gradients);
}
