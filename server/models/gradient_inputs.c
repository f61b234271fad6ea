/* server/models/gradient_inputs.c - what JSON says of a gradient, in the terms of the model.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/models/gradient_inputs.h"

#include "core/base/mem.h"

enum td_code td_gradient_ask_read(const struct td_gradient_json *json, struct td_gradient_ask *out,
                                  struct td_err *err)
{
    *out = (struct td_gradient_ask){.targets = json->target.name,
                                    .n_targets = json->target.n,
                                    .wrt = json->wrt.name,
                                    .n_wrt = json->wrt.n,
                                    .seeded = json->output_gradients.names.name,
                                    .n_seeded = json->output_gradients.names.n,
                                    .vectors = json->vector.names.name,
                                    .n_vectors = json->vector.names.n,
                                    .recompute = json->recompute};
    return td_gradient_kind(json->kind, &out->kind, err);
}

enum td_code td_gradient_input(const struct td_gradient *g, bool vector, const char *name, int *out,
                               struct td_err *err)
{
    *out = vector ? td_gradient_vector_input(g, name) : td_gradient_seed_input(g, name);
    TD_FAIL_IF(*out < 0, err, INVALID_ARGUMENT, "'%.200s' takes no %s", name,
               vector ? "vector" : "output gradient");
    return TD_OK;
}

struct reader {
    const struct td_gradient *g;
    struct td_servable *s;
    struct td_arena *arena;
    struct td_named *in;
    int *n_in;
    struct td_err *err;
};

static enum td_code append(const struct reader *r, const struct td_gradient_json_tensors *t, bool vector)
{
    const int n = t->names.n;
    const struct td_signature *sig = td_gradient_signature(r->g);
    struct td_json_field *fields = td_arena_alloc(r->arena, (size_t)n + 1, sizeof *fields);
    struct td_named *made = td_arena_alloc(r->arena, (size_t)n + 1, sizeof *made);
    int *input = td_arena_alloc(r->arena, (size_t)n + 1, sizeof *input), n_made = 0;
    if (fields == NULL || made == NULL || input == NULL) {
        return td_no_memory(r->err, (size_t)n * sizeof *made, "a request");
    }
    for (int i = 0; i < n; i++) {
        TD_TRY(td_gradient_input(r->g, vector, t->names.name[i], &input[i], r->err));
        fields[i] = (struct td_json_field){.name = t->names.name[i],
                                           .dtype = td_servable_fed_dtype(r->s, sig, input[i])};
    }
    if (n > 0 && td_json_inputs(&t->body, fields, n, made, &n_made, r->err)) {
        return td_err_wrap(r->err, "'%s'", vector ? "vector" : "output_gradients");
    }
    for (int i = 0; i < n_made; i++) { /* as many as fields, in their order */
        r->in[(*r->n_in)++] = (struct td_named){sig->in[input[i]].key, made[i].t};
    }
    return TD_OK;
}

enum td_code td_gradient_json_inputs(const struct td_gradient *g, struct td_servable *s,
                                     const struct td_gradient_json *json, struct td_arena *arena,
                                     struct td_named *in, int *n_in, struct td_err *err)
{
    const struct reader r = {g, s, arena, in, n_in, err};
    TD_TRY(append(&r, &json->output_gradients, false));
    return append(&r, &json->vector, true);
}
