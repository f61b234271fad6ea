/* kernels/data/decode.c - bytes to tensors: DecodeRaw, DecodePaddedRaw, DecodeCompressed, ParseTensor,
 * SerializeTensor.
 *
 * Raw bytes are copied into the output as they are and then mended in place: words are swapped where the
 * attribute says that they are big endian, and booleans become 0 or 1. DecodeCompressed inflates each string
 * by itself with zlib, 64 KiB at a time; the limit on the buffer that they go to (kernels/text/strbuf.h) is
 * what stops bytes that swell. ParseTensor and SerializeTensor are proto/pb/tensor_pb.h, with a limit on the
 * tensor of 2 GiB.
 *
 * Does not: images (kernels/media/image_codec.c), CSV (kernels/data/decode_csv.c), compressed bodies of
 * requests (proto/bytes/gzip.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/compile/permute.h"
#include "core/batchable/batchable_rule.h"
#include "core/base/foreign.h"
#include "core/base/mem.h"
#include "core/base/work.h"
#include "kernels/ops.h"
#include "kernels/text/strbuf.h"
#include "proto/pb/tensor_pb.h"

#include <string.h>
#include <zlib.h>

/* ------------------------------------------------------------------ DecodeRaw, DecodePaddedRaw */

/* Elements whose bytes are turned around one by one: the halves of a complex number are two. */
static size_t word_size(enum td_dtype t)
{
    size_t size = td_dtype_size(t);
    return td_dtype_in(t, TD_SET_COMPLEX) ? size / 2 : size;
}

static void swap_words(char *p, size_t bytes, size_t word)
{
    for (size_t at = 0; at + word <= bytes; at += word) {
        for (size_t i = 0; i < word / 2; i++) {
            char ch = p[at + i];
            p[at + i] = p[at + word - 1 - i];
            p[at + word - 1 - i] = ch;
        }
    }
}

static void finish_raw(const struct td_call *c, struct td_tensor *y)
{
    if (y->dtype == TD_BOOL) {
        for (int64_t i = 0, n = td_tensor_count(y); i < n; i++) {
            TD_DATA(y, td_bool)[i] = TD_DATA(y, td_bool)[i] != 0;
        }
    } else if (!td_attr_bool(c->node, "little_endian")) {
        swap_words(y->data, td_tensor_bytes(y), word_size(y->dtype));
    }
}

static enum td_code raw_infer(struct td_infer *c, struct td_err *err)
{
    struct td_shape last = td_shape_vector(-1);
    return td_shape_concat(&c->in[0], &last, &c->out[0], err);
}

static enum td_code raw_run(struct td_call *c, struct td_err *err)
{
    const struct td_tensor *x = c->in[0];
    enum td_dtype t = td_attr_type(c->node, "out_type");
    int64_t n = td_tensor_count(x);
    size_t each = 0, len, size = td_dtype_size(t);
    for (int64_t i = 0; i < n; i++) {
        td_tensor_str(x, i, &len);
        each = i ? each : len;
        TD_FAIL_IF(len != each, err, INVALID_ARGUMENT,
                   "%s: DecodeRaw requires input strings to all be the same size, but element %lld has size "
                   "%zu != %zu",
                   TD_NODE_STR(c->node), (long long)i, each, len);
    }
    TD_FAIL_IF(each % size != 0, err, INVALID_ARGUMENT,
               "%s: Input to DecodeRaw has length %zu that is not a multiple of %zu, the size of %s",
               TD_NODE_STR(c->node), each, size, td_dtype_name(t));
    struct td_shape shape, last = td_shape_vector((int64_t)(each / size));
    struct td_tensor *y;
    TD_TRY(td_shape_concat(&x->shape, &last, &shape, err));
    TD_TRY(td_out(c, 0, &shape, &y, err));
    for (int64_t i = 0; i < n && each && !td_work_spent((int64_t)each); i++) {
        memcpy((char *)y->data + (size_t)i * each, td_tensor_str(x, i, &len), each);
    }
    finish_raw(c, y);
    return TD_OK;
}

static enum td_code padded_infer(struct td_infer *c, struct td_err *err)
{
    bool known;
    int64_t n;
    size_t size = td_dtype_size(td_attr_type(c->node, "out_type"));
    TD_FAIL_IF(c->in[1].rank > 0, err, INVALID_ARGUMENT, "%s: fixed_length must be scalar, got shape %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(&c->in[1]));
    TD_TRY(td_infer_int_value(c, 1, &known, &n, err));
    TD_FAIL_IF(known && n <= 0, err, INVALID_ARGUMENT, "%s: fixed_length (%lld) must be greater than zero.",
               TD_NODE_STR(c->node), (long long)n);
    TD_FAIL_IF(known && n % (int64_t)size != 0, err, INVALID_ARGUMENT,
               "%s: fixed_length (%lld) must be a multiple of the size of out_type (%zu)",
               TD_NODE_STR(c->node), (long long)n, size);
    struct td_shape last = td_shape_vector(known ? n / (int64_t)size : -1);
    return td_shape_concat(&c->in[0], &last, &c->out[0], err);
}

static enum td_code padded_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    size_t each = (size_t)td_tensor_int(c->in[1], 0), len;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    for (int64_t i = 0, n = td_tensor_count(c->in[0]); i < n && !td_work_spent(64); i++) {
        const char *s = td_tensor_str(c->in[0], i, &len);
        char *out = (char *)y->data + (size_t)i * each;
        len = len < each ? len : each;
        memcpy(out, s, len);
        memset(out + len, 0, each - len);
    }
    finish_raw(c, y);
    return TD_OK;
}

/* ------------------------------------------------------------------ DecodeCompressed */

static enum td_code compressed_infer(struct td_infer *c, struct td_err *err)
{
    const char *t = td_attr_str(c->node, "compression_type");
    bool known = t[0] == 0 || strcmp(t, "ZLIB") == 0 || strcmp(t, "GZIP") == 0 || strcmp(t, "NONE") == 0;
    TD_FAIL_IF(strcmp(t, "ZSTD") == 0, err, UNIMPLEMENTED, "%s: this build does not read ZSTD",
               TD_NODE_STR(c->node));
    TD_FAIL_IF(!known, err, INVALID_ARGUMENT,
               "%s: Only ZLIB, GZIP or NONE are supported compressions, not %.50s", TD_NODE_STR(c->node), t);
    c->out[0] = c->in[0];
    return TD_OK;
}

/* Bytes that end early give what could be read of them. */
static enum td_code inflate_all(z_stream *z, struct td_strbuf *out, struct td_err *err)
{
    for (;;) {
        TD_TRY(td_strbuf_reserve(out, 65536, err));
        z->next_out = (Bytef *)(out->p + out->n);
        z->avail_out = 65536;
        int rc = inflate(z, Z_NO_FLUSH);
        out->n += 65536 - z->avail_out;
        if (rc == Z_STREAM_END || rc == Z_BUF_ERROR || (rc == Z_OK && z->avail_in == 0 && z->avail_out > 0)) {
            return TD_OK;
        }
        TD_FAIL_IF(rc != Z_OK, err, DATA_LOSS, "inflate() failed with error %d: %s", rc,
                   z->msg ? z->msg : "");
    }
}

static enum td_code decompress_one(const void *ctx, const char *s, size_t n, struct td_strbuf *out,
                                   struct td_err *err)
{
    z_stream z = {
        .next_in = (Bytef *)s, .avail_in = (uInt)n, .zalloc = td_foreign_zalloc, .zfree = td_foreign_zfree};
    TD_FAIL_IF(n > UINT32_MAX, err, INVALID_ARGUMENT, "decompressing %zu bytes, want at most %u", n,
               UINT32_MAX);
    if (n == 0) {
        return TD_OK;
    }
    TD_FAIL_IF(inflateInit2(&z, *(const int *)ctx) != Z_OK, err, RESOURCE_EXHAUSTED,
               "no memory for inflate()");
    enum td_code rc = inflate_all(&z, out, err);
    inflateEnd(&z);
    return rc;
}

static enum td_code copy_one(const void *ctx, const char *s, size_t n, struct td_strbuf *out,
                             struct td_err *err)
{
    (void)ctx;
    return td_strbuf_put(out, s, n, err);
}

static enum td_code compressed_run(struct td_call *c, struct td_err *err)
{
    const char *t = td_attr_str(c->node, "compression_type");
    int window = MAX_WBITS + (t[0] == 'G' ? 16 : 0);
    return td_strbuf_map(c, t[0] == 'Z' || t[0] == 'G' ? decompress_one : copy_one, &window, err);
}

/* ------------------------------------------------------------------ ParseTensor, SerializeTensor */

#define MAX_TENSOR ((uint64_t)1 << 31) /* bytes of a parsed tensor */

static enum td_code parse_infer(struct td_infer *c, struct td_err *err)
{
    TD_FAIL_IF(c->in[0].rank > 0, err, INVALID_ARGUMENT,
               "%s: Expected `serialized` to be a scalar, got shape: %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(&c->in[0]));
    return TD_OK;
}

static enum td_code parse_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor t = {0};
    enum td_dtype want = td_attr_type(c->node, "out_type");
    size_t n;
    const char *s = td_tensor_str(c->in[0], 0, &n);
    TD_FAIL_IF(n == 0, err, INVALID_ARGUMENT, "%s: Cannot parse tensor from proto: it is empty",
               TD_NODE_STR(c->node));
    struct td_err why = {0};
    TD_FAIL_IF(td_tensor_from_bytes(s, n, MAX_TENSOR, &t, &why), err, INVALID_ARGUMENT,
               "%s: Could not parse `serialized` as TensorProto: %s", TD_NODE_STR(c->node), why.msg);
    if (t.dtype != want) {
        td_fail(err, TD_INVALID_ARGUMENT, "%s: Type mismatch between parsed tensor (%s) and dtype (%s)",
                TD_NODE_STR(c->node), td_dtype_name(t.dtype), td_dtype_name(want));
        td_tensor_clear(&t);
        return TD_INVALID_ARGUMENT;
    }
    td_out_move(c, 0, &t);
    return TD_OK;
}

static enum td_code serialize_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    struct td_sink sink = {.limit = TD_STRBUF_MAX};
    TD_TRY(td_out(c, 0, NULL, &y, err));
    enum td_code rc = td_tensor_to_bytes(c->in[0], true, &sink, err);
    if (!rc) {
        rc = td_tensor_set_str(y, 0, sink.n ? sink.p : "", sink.n, err);
    }
    td_sink_fini(&sink);
    return rc;
}

#define PADDED_TYPES                                                                                         \
    (TD_BIT(TD_BFLOAT16) | TD_BIT(TD_FLOAT) | TD_BIT(TD_DOUBLE) | TD_BIT(TD_INT8) | TD_BIT(TD_INT16) |       \
     TD_SET_INDEX | TD_BIT(TD_UINT8) | TD_BIT(TD_UINT16))

const struct td_op td_ops_decode[] = {
    {.name = "DecodeRaw",
     .sig = "(bytes:string) -> (output:out_type) {out_type:type; little_endian:bool=true}",
     .permute = &td_permute_map,
     .batchable = TD_BATCHABLE(td_batchable_map),
     .infer = raw_infer,
     .kernels = TD_KERNEL("decode.cpu", raw_run,
                          {"out_type", PADDED_TYPES | TD_SET_COMPLEX | TD_BIT(TD_BOOL) | TD_BIT(TD_HALF)}),
     .grad = td_not_differentiable},
    {.name = "DecodePaddedRaw",
     .sig = "(input_bytes:string, fixed_length:int32) -> (output:out_type) {out_type:type; "
            "little_endian:bool=true}",
     .permute = &td_permute_map,
     .batchable = TD_BATCHABLE(td_batchable_map),
     .host_in = 2,
     .infer = padded_infer,
     .kernels = TD_KERNEL("decode.cpu", padded_run, {"out_type", PADDED_TYPES}),
     .grad = td_not_differentiable},
    {.name = "DecodeCompressed",
     .sig = "(bytes:string) -> (output:string) {compression_type:string=''}",
     .permute = &td_permute_map,
     .batchable = TD_BATCHABLE(td_batchable_map),
     .infer = compressed_infer,
     .kernels = TD_KERNEL("decode.cpu", compressed_run, {0})},
    {.name = "ParseTensor",
     .sig = "(serialized:string) -> (output:out_type) {out_type:type}",
     .infer = parse_infer,
     .kernels = TD_KERNEL("decode.cpu", parse_run, {0}),
     .grad = td_not_differentiable},
    {.name = "SerializeTensor",
     .sig = "(tensor:T) -> (serialized:string) {T:type}",
     .infer = td_infer_scalar,
     .kernels =
         TD_KERNEL("decode.cpu", serialize_run, {"T", TD_SET_NUMBERS | TD_BIT(TD_BOOL) | TD_BIT(TD_STRING)}),
     .grad = td_not_differentiable},
    {.name = NULL},
};
