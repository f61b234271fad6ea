/* server/models/model_warmup.c - makes the inputs of each sample once, runs the signature with them as often
 * as it says.
 *
 * Data are zeros, random numbers or the bytes of a file below warmup/ beside the configuration, in the raw
 * form of the Open Inference Protocol. Random numbers come from a fixed series (xorshift), small and not
 * negative, so that they suit indices too and two starts do the same. The batch size stands in front of the
 * dims where the model has rows. Outputs are dropped; the first failure ends it.
 *
 * Runs on the loader's thread, before the version is published. Does not: read TF Serving's warm-up records
 * (server/request/warmup.c), go through the scheduler.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/models/model_warmup.h"

#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "proto/bytes/file.h"
#include "proto/request/infer_pb.h"
#include "proto/schema/model_config.pb-c.h"
#include "server/models/servable_run.h"

#define MAX_BYTES ((size_t)1 << 30) /* of one tensor */
#define MAX_RUNS 100000

typedef Inference__ModelWarmup__Input input_pb;

/* Small numbers of a fixed series: floats in [0, 1), integers in [0, 128), as most models take. */
static void fill_random(struct td_tensor *t)
{
    uint64_t x = 88172645463325252u;
    const bool is_float = t->dtype == TD_FLOAT, is_double = t->dtype == TD_DOUBLE;
    const size_t size = td_dtype_size(t->dtype);
    for (int64_t i = 0; i < td_tensor_count(t); i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        const uint64_t whole = t->dtype == TD_BOOL ? x & 1 : x & 127;
        if (is_float) {
            TD_DATA(t, float)[i] = (float)(x >> 40) * 0x1p-24f;
        } else if (is_double) {
            TD_DATA(t, double)[i] = (double)(x >> 11) * 0x1p-53;
        } else {
            memcpy((char *)t->data + (size_t)i * size, &whole, size); /* of 16-bit floats: near zero */
        }
    }
}

static enum td_code read_file(const struct td_model_settings *m, const input_pb *p,
                              const struct td_infer_in *in, struct td_tensor *out, struct td_err *err)
{
    char path[TD_FILE_PATH];
    char *bytes = NULL;
    size_t n = 0;
    TD_FAIL_IF(strstr(p->input_data_file, "..") != NULL || p->input_data_file[0] == '/', err,
               INVALID_ARGUMENT, "input_data_file '%s' must lie below warmup/", p->input_data_file);
    const int len = snprintf(path, sizeof path, "%s/warmup/%s", m->dir, p->input_data_file);
    TD_FAIL_IF(len < 0 || (size_t)len >= sizeof path, err, INVALID_ARGUMENT,
               "input_data_file '%.100s': the path is too long", p->input_data_file);
    TD_TRY(td_file_read_beneath(m->dir, path, MAX_BYTES, &bytes, &n, err));
    struct td_infer_in raw = *in;
    const struct td_seg seg = {(const uint8_t *)bytes, n};
    td_wire_init(&raw.data, &seg, 1);
    const enum td_code rc = td_infer_tensor(&raw, MAX_BYTES, out, err);
    td_free(bytes);
    return rc;
}

static enum td_code empty_strings(struct td_tensor *t, struct td_err *err)
{
    for (int64_t i = 0; i < td_tensor_count(t); i++) {
        TD_TRY(td_tensor_set_str(t, i, "", 0, err));
    }
    return TD_OK;
}

/* The tensor of one input; the batch size stands in front of its dims. */
static enum td_code make_input(const struct td_model_settings *m, const Inference__ModelWarmup *w,
                               const char *name, const input_pb *p, struct td_tensor *out, struct td_err *err)
{
    const bool rows = m->max_batch_size > 0;
    const enum td_dtype dtype = td_model_config_dtype((int)p->data_type);
    int64_t dims[TD_MAX_RANK] = {w->batch_size > 0 ? w->batch_size : 1};
    TD_FAIL_IF(dtype == TD_DTYPE_NONE, err, INVALID_ARGUMENT, "input '%s' has no data_type", name);
    TD_FAIL_IF(p->n_dims + rows > TD_MAX_RANK, err, INVALID_ARGUMENT, "input '%s' has more than %d dims",
               name, TD_MAX_RANK);
    for (size_t i = 0; i < p->n_dims; i++) {
        dims[i + rows] = p->dims[i];
        TD_FAIL_IF(p->dims[i] < 0, err, INVALID_ARGUMENT, "input '%s': dims must be known, one is %lld", name,
                   (long long)p->dims[i]);
    }
    struct td_infer_in in = {.name = name, .datatype = td_v2_name(dtype)};
    TD_TRY(td_shape_make(&in.shape, dims, (int)p->n_dims + rows, err));
    if (p->input_data_type_case == INFERENCE__MODEL_WARMUP__INPUT__INPUT_DATA_TYPE_INPUT_DATA_FILE) {
        return read_file(m, p, &in, out, err);
    }
    const int64_t n = td_shape_count(&in.shape);
    TD_FAIL_IF(n < 0 || (size_t)n > MAX_BYTES / td_dtype_size(dtype), err, INVALID_ARGUMENT,
               "input '%s': %s elements exceed %zu bytes", name, TD_SHAPE_STR(&in.shape), MAX_BYTES);
    TD_TRY(td_tensor_new(out, dtype, &in.shape, err));
    if (dtype == TD_STRING) {
        return empty_strings(out, err);
    }
    if (td_tensor_bytes(out) > 0) {
        memset(out->data, 0, td_tensor_bytes(out));
    }
    if (p->input_data_type_case == INFERENCE__MODEL_WARMUP__INPUT__INPUT_DATA_TYPE_RANDOM_DATA) {
        fill_random(out);
    }
    return TD_OK;
}

static enum td_code run_once(struct td_servable *s, const struct td_signature *sig, const struct td_named *in,
                             int n_in, struct td_err *err)
{
    struct td_named *out = td_calloc((size_t)sig->n_out + 1, sizeof *out);
    int n_out = 0;
    if (out == NULL) {
        return td_no_memory(err, (size_t)sig->n_out * sizeof *out, "the outputs of a warm-up");
    }
    const struct td_servable_call call = {.sig = sig, .in = in, .n_in = n_in};
    const enum td_code rc = td_servable_run(s, &call, out, &n_out, err);
    for (int i = 0; rc == TD_OK && i < n_out; i++) {
        td_tensor_clear(&out[i].t);
    }
    td_free(out);
    return rc;
}

static enum td_code run_sample(struct td_servable *s, const struct td_signature *sig,
                               const Inference__ModelWarmup *w, struct td_err *err)
{
    const uint32_t runs = w->count > 0 ? w->count : 1;
    int n = 0;
    enum td_code rc = TD_OK;
    TD_FAIL_IF(runs > MAX_RUNS, err, INVALID_ARGUMENT, "count %u must be at most %d", runs, MAX_RUNS);
    struct td_named *in = td_calloc(w->n_inputs + 1, sizeof *in);
    if (in == NULL) {
        return td_no_memory(err, w->n_inputs * sizeof *in, "a warm-up");
    }
    for (size_t i = 0; rc == TD_OK && i < w->n_inputs; i++) {
        const Inference__ModelWarmup__InputsEntry *e = w->inputs[i];
        in[n].name = e->key;
        rc = e->value != NULL ? make_input(td_servable_settings(s), w, e->key, e->value, &in[n++].t, err)
                              : td_fail(err, TD_INVALID_ARGUMENT, "input '%s' says nothing", e->key);
    }
    for (uint32_t i = 0; rc == TD_OK && i < runs; i++) {
        rc = run_once(s, sig, in, n, err);
    }
    for (int i = 0; i < n; i++) {
        td_tensor_clear(&in[i].t);
    }
    td_free(in);
    return rc;
}

enum td_code td_model_warmup_run(struct td_servable *s, struct td_err *err)
{
    const struct td_model_settings *m = td_servable_settings(s);
    const struct td_signature *sig = td_servable_signature(s, "");
    for (size_t i = 0; m->pb != NULL && i < m->pb->n_model_warmup; i++) {
        const Inference__ModelWarmup *w = m->pb->model_warmup[i];
        TD_FAIL_IF(sig == NULL, err, FAILED_PRECONDITION,
                   "model_warmup '%s': the model has no default signature", w->name);
        if (run_sample(s, sig, w, err)) {
            return td_err_wrap(err, "model_warmup '%s'", w->name);
        }
    }
    return TD_OK;
}
