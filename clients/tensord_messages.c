/* clients/tensord_messages.c - tensors to and from TensorProto, and Predict, on the client's side.
 *
 * Outputs are handed over as one block that the caller frees: read_tensors runs twice over the unpacked
 * answer, first with no block, to measure, then to fill it. Each part begins at a multiple of 16 bytes.
 *
 *   block   [ struct tdc_tensor x n ][ name ][ data ][ name ][ data: struct tdc_bytes x n ][ bytes ] ...
 *
 * Requests are messages of protobuf-c that point at the caller's own memory; only arrays of pointers are
 * allocated. Typed fields of an answer are filled up as TensorFlow does: the last value repeats. The answer
 * comes from a server, so shapes are bounded before they are multiplied.
 *
 * Nothing is shared between calls, so any thread may make one. Does not: open connections
 * (clients/tensord_client.c), know JSON.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "clients/tensord_messages.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INVALID_ARGUMENT 3
#define RESOURCE_EXHAUSTED 8
#define INTERNAL 13
#define STRING 7
#define SHAPE_MAX ((int64_t)INT32_MAX) /* elements: more than any message holds */

typedef Tensorflow__TensorProto tensor_pb;

int tdc_fail(struct tdc_error *err, int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    err->code = code;
    vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
    return code;
}

void *tdc_take(struct tdc_block *b, size_t n)
{
    void *at = b->p != NULL ? b->p + b->n : NULL;
    b->n += (n + 15) & ~(size_t)15;
    return at;
}

const char *tdc_take_text(struct tdc_block *b, const char *text)
{
    size_t n = strlen(text) + 1;
    char *to = tdc_take(b, n);
    return to != NULL ? memcpy(to, text, n) : NULL;
}

/* ---- dtypes: size, name, and the typed field that carries it ---- */

enum field {
    F_NONE,
    F_FLOAT,
    F_DOUBLE,
    F_INT,
    F_STRING,
    F_SCOMPLEX,
    F_INT64,
    F_BOOL,
    F_DCOMPLEX,
    F_HALF,
    F_UINT32,
    F_UINT64
};
static const struct {
    const char *name;
    size_t size;
    enum field field;
} dtypes[] = {
    [1] = {"float", 4, F_FLOAT},   [2] = {"double", 8, F_DOUBLE},      [3] = {"int32", 4, F_INT},
    [4] = {"uint8", 1, F_INT},     [5] = {"int16", 2, F_INT},          [6] = {"int8", 1, F_INT},
    [7] = {"string", 0, F_STRING}, [8] = {"complex64", 8, F_SCOMPLEX}, [9] = {"int64", 8, F_INT64},
    [10] = {"bool", 1, F_BOOL},    [11] = {"qint8", 1, F_INT},         [12] = {"quint8", 1, F_INT},
    [13] = {"qint32", 4, F_INT},   [14] = {"bfloat16", 2, F_HALF},     [15] = {"qint16", 2, F_INT},
    [16] = {"quint16", 2, F_INT},  [17] = {"uint16", 2, F_INT},        [18] = {"complex128", 16, F_DCOMPLEX},
    [19] = {"half", 2, F_HALF},    [22] = {"uint32", 4, F_UINT32},     [23] = {"uint64", 8, F_UINT64},
};

static bool known(int dtype)
{
    return dtype > 0 && dtype < (int)(sizeof dtypes / sizeof dtypes[0]) && dtypes[dtype].name != NULL;
}

size_t tdc_dtype_size(int dtype)
{
    return known(dtype) ? dtypes[dtype].size : 0;
}

const char *tdc_dtype_name(int dtype)
{
    return known(dtype) ? dtypes[dtype].name : "?";
}

int64_t tdc_count(const struct tdc_tensor *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++) {
        n *= t->dims[i];
    }
    return n;
}

/* ---- reading ---- */

bool tdc_read_shape(const Tensorflow__TensorShapeProto *s, struct tdc_tensor *t)
{
    t->rank = 0;
    if (s == NULL) {
        return true;
    }
    if (s->unknown_rank) {
        t->rank = -1;
        return true;
    }
    if (s->n_dim > TDC_MAX_RANK) {
        return false;
    }
    int64_t n = 1;
    for (size_t i = 0; i < s->n_dim; i++) {
        int64_t d = s->dim[i]->size;
        t->dims[t->rank++] = d;
        if (d > 0 && n > SHAPE_MAX / d) {
            return false;
        }
        n *= d > 0 ? d : 1;
    }
    return true;
}

/* The typed field of p: its values, how many, and the bytes of one value as it lies there and as the tensor
 * wants it. */
struct values {
    const void *p;
    size_t n, from, to;
};

static struct values typed(const tensor_pb *p)
{
    const size_t size = tdc_dtype_size((int)p->dtype);
    switch (dtypes[p->dtype].field) {
    case F_FLOAT:
        return (struct values){p->float_val, p->n_float_val, 4, 4};
    case F_DOUBLE:
        return (struct values){p->double_val, p->n_double_val, 8, 8};
    case F_INT:
        return (struct values){p->int_val, p->n_int_val, 4, size};
    case F_INT64:
        return (struct values){p->int64_val, p->n_int64_val, 8, 8};
    case F_UINT32:
        return (struct values){p->uint32_val, p->n_uint32_val, 4, 4};
    case F_UINT64:
        return (struct values){p->uint64_val, p->n_uint64_val, 8, 8};
    case F_BOOL:
        return (struct values){p->bool_val, p->n_bool_val, sizeof(protobuf_c_boolean), 1};
    case F_HALF:
        return (struct values){p->half_val, p->n_half_val, 4, 2};
    case F_SCOMPLEX:
        return (struct values){p->scomplex_val, p->n_scomplex_val / 2, 8, 8};
    case F_DCOMPLEX:
        return (struct values){p->dcomplex_val, p->n_dcomplex_val / 2, 16, 16};
    default:
        return (struct values){NULL, 0, 1, 1};
    }
}

/* Fewer values than elements: the last one repeats; none: zeros. Integers are little-endian, so their low
 * bytes lead. */
static void fill(const tensor_pb *p, char *to, size_t n)
{
    const struct values v = typed(p);
    const size_t size = tdc_dtype_size((int)p->dtype);
    if (n > 0 && p->tensor_content.len == n * size) {
        memcpy(to, p->tensor_content.data, n * size);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        if (v.n == 0) {
            memset(to + i * size, 0, size);
        } else {
            memcpy(to + i * size, (const char *)v.p + (i < v.n ? i : v.n - 1) * v.from, v.to);
        }
    }
}

static void fill_strings(const tensor_pb *p, struct tdc_bytes *to, size_t n, struct tdc_block *b)
{
    for (size_t i = 0; i < n; i++) {
        ProtobufCBinaryData s = {0};
        if (p->n_string_val > 0) {
            s = p->string_val[i < p->n_string_val ? i : p->n_string_val - 1];
        }
        char *bytes = tdc_take(b, s.len + 1);
        if (bytes != NULL) {
            memcpy(bytes, s.len ? (const char *)s.data : "", s.len);
            bytes[s.len] = 0;
            to[i] = (struct tdc_bytes){bytes, s.len};
        }
    }
}

static bool read_tensor(const tensor_pb *p, const char *name, struct tdc_tensor *t, struct tdc_block *b)
{
    if (p == NULL || !known((int)p->dtype)) {
        return false;
    }
    struct tdc_tensor r = {.name = tdc_take_text(b, name), .dtype = (int)p->dtype};
    if (!tdc_read_shape(p->tensor_shape, &r) || r.rank < 0 || tdc_count(&r) < 0) {
        return false;
    }
    const size_t n = (size_t)tdc_count(&r);
    r.bytes = n * (r.dtype == STRING ? sizeof(struct tdc_bytes) : tdc_dtype_size(r.dtype));
    void *data = tdc_take(b, r.bytes);
    r.data = data;
    if (r.dtype == STRING) {
        fill_strings(p, data, n, b);
    } else if (data != NULL) {
        fill(p, data, n);
    }
    if (t != NULL) {
        *t = r;
    }
    return true;
}

static bool read_tensors(const struct tdc_answered *from, size_t n, struct tdc_block *b)
{
    struct tdc_tensor *t = tdc_take(b, (n + 1) * sizeof *t);
    for (size_t i = 0; i < n; i++) {
        if (from[i].none && t != NULL) {
            t[i] = (struct tdc_tensor){.name = tdc_take_text(b, from[i].name)};
        } else if (from[i].none) {
            (void)tdc_take_text(b, from[i].name);
        } else if (!read_tensor(from[i].tensor, from[i].name, t != NULL ? &t[i] : NULL, b)) {
            return false;
        }
    }
    return true;
}

int tdc_take_tensors(const struct tdc_answered *from, size_t n, struct tdc_tensor **out,
                     struct tdc_error *err)
{
    struct tdc_block b = {0};
    if (!read_tensors(from, n, &b)) {
        return tdc_fail(err, INTERNAL, "the answer holds a tensor of unknown type or shape");
    }
    b = (struct tdc_block){.p = malloc(b.n)};
    if (b.p == NULL) {
        return tdc_fail(err, RESOURCE_EXHAUSTED, "no memory for the answer");
    }
    *out = (struct tdc_tensor *)b.p;
    read_tensors(from, n, &b);
    return 0;
}

static int take_outputs(const Tensorflow__Serving__PredictResponse *m, struct tdc_tensor **outputs, int *n,
                        struct tdc_error *err)
{
    struct tdc_answered *from = calloc(m->n_outputs + 1, sizeof *from);
    if (from == NULL) {
        return tdc_fail(err, RESOURCE_EXHAUSTED, "no memory for the answer");
    }
    for (size_t i = 0; i < m->n_outputs; i++) {
        from[i] = (struct tdc_answered){.name = m->outputs[i]->key, .tensor = m->outputs[i]->value};
    }
    const int rc = tdc_take_tensors(from, m->n_outputs, outputs, err);
    *n = rc == 0 ? (int)m->n_outputs : 0;
    free(from);
    return rc;
}

/* ---- writing ---- */

bool tdc_write_tensor(struct tdc_sent *to, const struct tdc_tensor *t)
{
    *to = (struct tdc_sent){.tensor = TENSORFLOW__TENSOR_PROTO__INIT,
                            .shape = TENSORFLOW__TENSOR_SHAPE_PROTO__INIT};
    if (t->rank < 0 || t->rank > TDC_MAX_RANK) {
        return false;
    }
    to->tensor.dtype = (Tensorflow__DataType)t->dtype;
    to->tensor.tensor_shape = &to->shape;
    to->shape.dim = to->dims;
    to->shape.n_dim = (size_t)t->rank;
    for (int i = 0; i < t->rank; i++) {
        to->dim[i] = (Tensorflow__TensorShapeProto__Dim)TENSORFLOW__TENSOR_SHAPE_PROTO__DIM__INIT;
        to->dim[i].size = t->dims[i];
        to->dims[i] = &to->dim[i];
    }
    if (t->dtype != STRING) {
        to->tensor.tensor_content = (ProtobufCBinaryData){t->bytes, (uint8_t *)t->data};
        return true;
    }
    const size_t n = t->bytes / sizeof(struct tdc_bytes);
    const struct tdc_bytes *from = t->data;
    to->strings = calloc(n + 1, sizeof *to->strings);
    if (to->strings == NULL) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        to->strings[i] = (ProtobufCBinaryData){from[i].n, (uint8_t *)from[i].p};
    }
    to->tensor.string_val = to->strings;
    to->tensor.n_string_val = n;
    return true;
}

/* One input, all parts in one struct. */
struct input {
    Tensorflow__Serving__PredictRequest__InputsEntry entry;
    struct tdc_sent sent;
};

static bool write_input(struct input *in, const struct tdc_tensor *t)
{
    in->entry = (Tensorflow__Serving__PredictRequest__InputsEntry)
        TENSORFLOW__SERVING__PREDICT_REQUEST__INPUTS_ENTRY__INIT;
    in->entry.key = (char *)t->name;
    in->entry.value = &in->sent.tensor;
    return tdc_write_tensor(&in->sent, t);
}

int tdc_exchange(struct tdc_client *c, const char *path, const ProtobufCMessage *m,
                 const ProtobufCMessageDescriptor *type, ProtobufCMessage **reply, struct tdc_error *err)
{
    const size_t n = protobuf_c_message_get_packed_size(m);
    uint8_t *bytes = malloc(n + 1);
    if (bytes == NULL) {
        return tdc_fail(err, RESOURCE_EXHAUSTED, "no memory for a request of %zu bytes", n);
    }
    protobuf_c_message_pack(m, bytes);
    void *answer = NULL;
    size_t len = 0;
    const int rc = tdc_call(c, path, bytes, n, &answer, &len, err);
    free(bytes);
    if (rc != 0) {
        return rc;
    }
    *reply = protobuf_c_message_unpack(type, NULL, len, answer);
    tdc_free(answer);
    return *reply != NULL ? 0 : tdc_fail(err, INTERNAL, "the answer of %s is not a %s", path, type->name);
}

/* What a caller of tdc_predict wants back. */
struct wanted {
    struct tdc_tensor **outputs;
    int *n_outputs;
    int64_t *version;
};

static int predict(struct tdc_client *c, const Tensorflow__Serving__PredictRequest *m, void *ctx,
                   struct tdc_error *err)
{
    const struct wanted *w = ctx;
    ProtobufCMessage *reply;
    const int rc = tdc_exchange(c, "/tensorflow.serving.PredictionService/Predict", &m->base,
                                &tensorflow__serving__predict_response__descriptor, &reply, err);
    if (rc != 0) {
        return rc;
    }
    const Tensorflow__Serving__PredictResponse *r = (const Tensorflow__Serving__PredictResponse *)reply;
    const Tensorflow__Serving__ModelSpec *spec = r->model_spec;
    if (w->version != NULL) {
        const bool has = spec != NULL &&
                         spec->version_choice_case == TENSORFLOW__SERVING__MODEL_SPEC__VERSION_CHOICE_VERSION;
        *w->version = has ? spec->version->value : 0;
    }
    const int got = take_outputs(r, w->outputs, w->n_outputs, err);
    protobuf_c_message_free_unpacked(reply, NULL);
    return got;
}

void tdc_fill_spec(const struct tdc_ask *ask, Tensorflow__Serving__ModelSpec *spec,
                   Google__Protobuf__Int64Value *number)
{
    *spec = (Tensorflow__Serving__ModelSpec)TENSORFLOW__SERVING__MODEL_SPEC__INIT;
    *number = (Google__Protobuf__Int64Value)GOOGLE__PROTOBUF__INT64_VALUE__INIT;
    spec->name = (char *)ask->model;
    spec->signature_name = (char *)(ask->signature != NULL ? ask->signature : "");
    if (ask->version != 0) {
        number->value = ask->version;
        spec->version = number;
        spec->version_choice_case = TENSORFLOW__SERVING__MODEL_SPEC__VERSION_CHOICE_VERSION;
    } else if (ask->label != NULL) {
        spec->version_label = (char *)ask->label;
        spec->version_choice_case = TENSORFLOW__SERVING__MODEL_SPEC__VERSION_CHOICE_VERSION_LABEL;
    }
}

int tdc_send(struct tdc_client *c, const struct tdc_ask *ask, tdc_send_fn *send, void *ctx,
             struct tdc_error *err)
{
    const size_t n = (size_t)ask->n_inputs;
    Tensorflow__Serving__PredictRequest m = TENSORFLOW__SERVING__PREDICT_REQUEST__INIT;
    Tensorflow__Serving__ModelSpec spec;
    Google__Protobuf__Int64Value number;
    tdc_fill_spec(ask, &spec, &number);
    m.model_spec = &spec;
    m.n_output_filter = (size_t)ask->n_outputs;
    m.output_filter = (char **)ask->outputs;
    struct input *in = calloc(n + 1, sizeof *in);
    Tensorflow__Serving__PredictRequest__InputsEntry **entries = calloc(n + 1, sizeof *entries);
    bool ok = in != NULL && entries != NULL;
    for (size_t i = 0; ok && i < n; i++) {
        ok = write_input(&in[i], &ask->inputs[i]);
        entries[i] = &in[i].entry;
    }
    m.inputs = entries;
    m.n_inputs = n;
    const int rc =
        ok ? send(c, &m, ctx, err)
           : tdc_fail(err, INVALID_ARGUMENT, "an input has too many dimensions, or memory is short");
    for (size_t i = 0; in != NULL && i < n; i++) {
        free(in[i].sent.strings);
    }
    free(in);
    free(entries);
    return rc;
}

int tdc_predict(struct tdc_client *c, const struct tdc_ask *ask, struct tdc_tensor **outputs, int *n_outputs,
                int64_t *version, struct tdc_error *err)
{
    return tdc_send(c, ask, predict, &(struct wanted){outputs, n_outputs, version}, err);
}
