/* tests/bench/call_tensord.c - the call on libtensord.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "tests/bench/call.h"

static tensord_model *model;
static tensord_error err;
static const char *signature;
static tensord_tensor inputs[BENCH_MAX_TENSORS];
static int n_inputs;

const char *bench_load(const char *dir, const struct bench_case *c)
{
    signature = c->signature;
    n_inputs = c->n_in;
    for (int i = 0; i < c->n_in; i++) {
        const struct bench_tensor *t = &c->in[i];
        inputs[i] = (tensord_tensor){
            .name = t->name, .dtype = t->dtype, .rank = t->rank, .data = t->data, .bytes = t->bytes};
        memcpy(inputs[i].dims, t->dims, sizeof t->dims);
    }
    const tensord_options opts = {.threads = c->threads};
    return tensord_load(dir, &opts, &model, &err) ? err.message : NULL;
}

const char *bench_run(FILE *to)
{
    tensord_tensor *out;
    int n_out;
    if (tensord_run(model, signature, inputs, n_inputs, &out, &n_out, &err)) {
        return err.message;
    }
    for (int i = 0; to != NULL && i < n_out; i++) {
        if (out[i].dtype != BENCH_STRING) {
            bench_write(to, out[i].name, out[i].dtype, out[i].rank, out[i].dims, out[i].data, out[i].bytes);
        }
    }
    tensord_results_free(out, n_out);
    return NULL;
}
