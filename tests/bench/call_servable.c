/* tests/bench/call_servable.c - loads a model as the daemon does, without one.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/bench/call_servable.h"

#include <string.h>

#include "kernels/ops.h"

enum td_code call_servable_load(const char *dir, const struct bench_case *c, struct call_servable *out,
                                struct td_err *err)
{
    TD_TRY(td_engine_init(&out->engine, td_op_families, err));
    const struct td_servable_opts o = {.ops = out->engine.ops};
    TD_TRY(td_servable_load("model", 1, dir, &o, &out->servable, err));
    out->sig = td_servable_signature(out->servable, c->signature);
    TD_FAIL_IF(out->sig == NULL, err, NOT_FOUND, "no signature '%s'", c->signature);
    for (int k = 0; k < c->n_in; k++) {
        const struct bench_tensor *t = &c->in[k];
        const enum td_dtype dtype = (enum td_dtype)t->dtype;
        struct td_shape shape;
        TD_TRY(td_shape_make(&shape, t->dims, t->rank, err));
        out->in[k].name = t->name;
        TD_TRY(td_tensor_new(&out->in[k].t, dtype, &shape, err));
        if (dtype != TD_STRING) {
            memcpy(out->in[k].t.data, t->data, t->bytes);
        }
        for (size_t i = 0; dtype == TD_STRING && i < t->count; i++) {
            const tensord_bytes *s = (const tensord_bytes *)t->data + i;
            TD_TRY(td_tensor_set_str(&out->in[k].t, (int64_t)i, s->bytes, s->length, err));
        }
    }
    out->n_in = c->n_in;
    return TD_OK;
}

enum td_code call_servable_run(struct call_servable *s, const struct td_run_opts *how, struct td_err *err)
{
    struct td_named out[BENCH_MAX_TENSORS];
    struct td_servable_call call = {.sig = s->sig, .in = s->in, .n_in = s->n_in, .run = how};
    int n = 0;
    TD_FAIL_IF(s->sig->n_out > BENCH_MAX_TENSORS, err, UNIMPLEMENTED, "too many outputs");
    TD_TRY(td_servable_run(s->servable, &call, out, &n, err));
    for (int i = 0; i < n; i++) {
        td_tensor_clear(&out[i].t);
    }
    return TD_OK;
}
