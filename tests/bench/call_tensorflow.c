/* tests/bench/call_tensorflow.c - the call on TensorFlow's C API.
 *
 * Intra-op threads are the call's, inter-op threads 1; BENCH_INTER=-1 runs the graph in the caller's thread.
 * Input tensors are made once; each call makes and frees the outputs.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>
#include <tensorflow/c/c_api.h>

#include "tests/bench/call.h"

static TF_Session *session;
static TF_Status *status;
static TF_Output feeds[BENCH_MAX_TENSORS], fetches[BENCH_MAX_TENSORS];
static TF_Tensor *inputs[BENCH_MAX_TENSORS];
static const struct bench_case *the_case;

static const char *find(TF_Graph *g, const char *node, TF_Output *out)
{
    char name[1024];
    const char *colon = strrchr(node, ':');
    const size_t n = colon == NULL ? strlen(node) : (size_t)(colon - node);
    memcpy(name, node, n);
    name[n] = '\0';
    out->oper = TF_GraphOperationByName(g, name);
    out->index = colon == NULL ? 0 : (int)strtol(colon + 1, NULL, 10);
    return out->oper == NULL ? "no such node" : NULL;
}

static TF_Tensor *make_tensor(const struct bench_tensor *t)
{
    const size_t bytes = t->dtype == BENCH_STRING ? t->count * sizeof(TF_TString) : t->bytes;
    TF_Tensor *x = TF_AllocateTensor((TF_DataType)t->dtype, t->dims, t->rank, bytes);
    if (t->dtype != BENCH_STRING) {
        memcpy(TF_TensorData(x), t->data, t->bytes);
        return x;
    }
    TF_TString *to = TF_TensorData(x);
    const tensord_bytes *from = t->data;
    for (size_t i = 0; i < t->count; i++) {
        TF_StringInit(&to[i]);
        TF_StringCopy(&to[i], from[i].bytes, from[i].length);
    }
    return x;
}

static const char *message(void)
{
    return TF_GetCode(status) != TF_OK ? TF_Message(status) : NULL;
}

const char *bench_load(const char *dir, const struct bench_case *c)
{
    const char *inter = getenv("BENCH_INTER"), *const tags[] = {"serve"};
    /* ConfigProto { intra_op_parallelism_threads: the call's, inter_op_parallelism_threads: 1 or -1 } */
    const unsigned char intra = (unsigned char)c->threads, one[] = {0x10, intra, 0x28, 1};
    const unsigned char caller[] = {0x10, intra, 0x28, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1};
    const int in_caller = inter != NULL && strcmp(inter, "-1") == 0;
    status = TF_NewStatus();
    TF_SessionOptions *opts = TF_NewSessionOptions();
    TF_SetConfig(opts, in_caller ? caller : one, in_caller ? sizeof caller : sizeof one, status);
    TF_Graph *g = TF_NewGraph();
    session = TF_LoadSessionFromSavedModel(opts, NULL, dir, tags, 1, g, NULL, status);
    const char *problem = message();
    the_case = c;
    for (int i = 0; problem == NULL && i < c->n_in; i++) {
        problem = find(g, c->in[i].node, &feeds[i]);
        inputs[i] = make_tensor(&c->in[i]);
    }
    for (int i = 0; problem == NULL && i < c->n_out; i++) {
        problem = find(g, c->out[i].node, &fetches[i]);
    }
    return problem;
}

static void write_tensor(FILE *to, const char *name, const TF_Tensor *x)
{
    int64_t dims[TENSORD_MAX_RANK];
    const int rank = TF_NumDims(x);
    for (int d = 0; d < rank; d++) {
        dims[d] = TF_Dim(x, d);
    }
    bench_write(to, name, (int)TF_TensorType(x), rank, dims, TF_TensorData(x), TF_TensorByteSize(x));
}

const char *bench_run(FILE *to)
{
    TF_Tensor *out[BENCH_MAX_TENSORS];
    TF_SessionRun(session, NULL, feeds, inputs, the_case->n_in, fetches, out, the_case->n_out, NULL, 0, NULL,
                  status);
    const char *problem = message();
    for (int i = 0; problem == NULL && i < the_case->n_out; i++) {
        if (to != NULL && TF_TensorType(out[i]) != TF_STRING) {
            write_tensor(to, the_case->out[i].name, out[i]);
        }
        TF_DeleteTensor(out[i]);
    }
    return problem;
}
