/* kernels/media/summary.c - Summaries and Timestamp. Summaries are serialized tensorflow.Summary messages
 * (proto/pb/summary_pb.h); those of images and sounds are summary_media.c's. Ops that write summaries to
 * files through a writer resource accept and drop what they are given.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "core/base/mem.h"
#include "kernels/media/summary.h"
#include "kernels/cpu/upcast.h"
#include "proto/pb/wire.h"

/* ------------------------------------------------------------------ the output */

static enum td_code out_message(struct td_call *c, const struct td_sink *s, struct td_err *err)
{
    struct td_tensor *out;
    TD_TRY(td_out(c, 0, NULL, &out, err));
    return td_tensor_set_str(out, 0, s->p ? s->p : "", s->n, err);
}

/* Output 0 becomes the message; s is freed, also on failure. */
enum td_code td_summary_out(struct td_call *c, struct td_sink *s, enum td_code rc, struct td_err *err)
{
    if (rc == TD_OK) {
        rc = out_message(c, s, err);
    }
    td_sink_fini(s);
    return rc;
}

/* ------------------------------------------------------------------ scalars */

/* A float of 32 bits or fewer goes on as it is: by way of double a denormal would become zero. */
static float float_at(const struct td_tensor *t, int64_t i)
{
    switch (t->dtype) {
    case TD_FLOAT:
        return TD_DATA(t, float)[i];
    case TD_HALF:
        return td_half_to_float(TD_DATA(t, td_half)[i]);
    case TD_BFLOAT16:
        return td_bf16_to_float(TD_DATA(t, td_bf16)[i]);
    default:
        return (float)td_upcast_at(t, i);
    }
}

static enum td_code scalar_infer(struct td_infer *c, struct td_err *err)
{
    const struct td_shape *tags = &c->in[0], *values = &c->in[1];
    TD_FAIL_IF(!td_shape_compatible(tags, values), err, INVALID_ARGUMENT,
               "%s: tags and values are not the same shape: %s != %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(tags), TD_SHAPE_STR(values));
    c->out[0] = td_shape_scalar();
    return TD_OK;
}

static enum td_code put_scalars(const struct td_call *c, struct td_sink *s, struct td_err *err)
{
    for (int64_t i = 0; i < td_tensor_count(c->in[0]); i++) {
        size_t len;
        float v = float_at(c->in[1], i);
        const char *tag = td_tensor_str(c->in[0], i, &len);
        TD_TRY(td_summary_scalar(s, tag, len, v, err));
    }
    return TD_OK;
}

static enum td_code scalar_run(struct td_call *c, struct td_err *err)
{
    struct td_sink s = {.limit = TD_SUMMARY_LIMIT};
    enum td_code rc = put_scalars(c, &s, err);
    return td_summary_out(c, &s, rc, err);
}

/* ------------------------------------------------------------------ histograms */

static enum td_code histogram_infer(struct td_infer *c, struct td_err *err)
{
    TD_FAIL_IF(c->in[0].rank > 0, err, INVALID_ARGUMENT, "%s: tags must be scalar", TD_NODE_STR(c->node));
    c->out[0] = td_shape_scalar();
    return TD_OK;
}

static enum td_code histogram_run(struct td_call *c, struct td_err *err)
{
    void *mem;
    size_t len;
    TD_TRY(td_scratch(c, sizeof(struct td_histogram), &mem, err));
    struct td_histogram *h = mem;
    td_histogram_init(h);
    for (int64_t i = 0; i < td_tensor_count(c->in[1]); i++) {
        double v = td_upcast_at(c->in[1], i);
        TD_FAIL_IF(!isfinite(v), err, INVALID_ARGUMENT, "%s: %s in summary histogram for: %s",
                   TD_NODE_STR(c->node), isnan(v) ? "Nan" : "Infinity", c->node->name);
        td_histogram_add(h, v);
    }
    const char *tag = td_tensor_str(c->in[0], 0, &len);
    struct td_sink s = {.limit = TD_SUMMARY_LIMIT};
    return td_summary_out(c, &s, td_summary_histogram(&s, tag, len, h, err), err);
}

/* ------------------------------------------------------------------ tensors, merging, the rest */

/* The fields of Value but for the tag; t is scratch. */
static enum td_code put_tensor(const struct td_call *c, struct td_sink *inner, struct td_sink *t,
                               struct td_err *err)
{
    size_t len;
    const char *metadata = td_tensor_str(c->in[2], 0, &len);
    TD_TRY(td_tensor_to_bytes(c->in[1], true, t, err));
    TD_TRY(td_put_bytes(inner, 8, t->p, t->n, err));
    return td_put_bytes(inner, 9, metadata, len, err);
}

static enum td_code tensor_run(struct td_call *c, struct td_err *err)
{
    struct td_sink s = {.limit = TD_SUMMARY_LIMIT}, inner = {.limit = TD_SUMMARY_LIMIT},
                   t = {.limit = TD_SUMMARY_LIMIT};
    size_t len;
    const char *tag = td_tensor_str(c->in[0], 0, &len);
    enum td_code rc = put_tensor(c, &inner, &t, err);
    if (rc == TD_OK) {
        rc = td_summary_value(&s, tag, len, &inner, err);
    }
    td_sink_fini(&t);
    td_sink_fini(&inner);
    return td_summary_out(c, &s, rc, err);
}

static enum td_code tensor_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(td_infer_rank(c, 0, 0, err));
    TD_TRY(td_infer_rank(c, 2, 0, err));
    c->out[0] = td_shape_scalar();
    return TD_OK;
}

/* Tags of the values merged so far. */
struct tags {
    struct td_bytes *row;
    size_t n, cap;
};

static enum td_code add_tag(struct tags *t, struct td_wire w, struct td_err *err)
{
    if (t->n == t->cap) {
        size_t cap = t->cap ? t->cap * 2 : 64;
        struct td_bytes *grown = td_realloc(t->row, cap, sizeof *grown);
        if (!grown) {
            return td_no_memory(err, cap * sizeof *grown, "tags of summaries");
        }
        t->row = grown;
        t->cap = cap;
    }
    t->row[t->n++] = (struct td_bytes){(const char *)w.seg->p + w.at, w.left};
    return TD_OK;
}

/* Adds the tags of one serialized Summary, which lies in one block. */
static enum td_code find_tags(struct tags *t, const char *p, size_t len, struct td_err *err)
{
    const struct td_seg seg = {(const uint8_t *)p, len};
    struct td_wire message;
    struct td_field value, part;
    td_wire_init(&message, &seg, 1);
    for (;;) {
        TD_TRY(td_wire_next(&message, &value, err));
        if (value.number == 0) {
            return TD_OK;
        }
        struct td_wire tag = {0};
        while (value.number == 1 && value.type == TD_WIRE_BYTES) {
            TD_TRY(td_wire_next(&value.sub, &part, err));
            if (part.number == 0) {
                break;
            }
            if (part.number == 1 && part.type == TD_WIRE_BYTES) {
                tag = part.sub;
            }
        }
        if (tag.left > 0) {
            TD_TRY(add_tag(t, tag, err));
        }
    }
}

static int by_tag(const void *a, const void *b)
{
    const struct td_bytes *x = a, *y = b;
    if (x->len != y->len) {
        return x->len < y->len ? -1 : 1;
    }
    return memcmp(x->p, y->p, x->len);
}

/* A tag is in all messages once; values without one are not looked at. */
static enum td_code check_tags(struct td_call *c, struct tags *t, struct td_err *err)
{
    for (int i = 0; i < c->n_in; i++) {
        for (int64_t k = 0; k < td_tensor_count(c->in[i]); k++) {
            size_t len;
            const char *p = td_tensor_str(c->in[i], k, &len);
            if (find_tags(t, p, len, err)) {
                return td_err_wrap(err, "%s: Could not parse one of the summary inputs",
                                   TD_NODE_STR(c->node));
            }
        }
    }
    if (t->n > 1) {
        qsort(t->row, t->n, sizeof *t->row, by_tag);
    }
    for (size_t i = 1; i < t->n; i++) {
        TD_FAIL_IF(by_tag(&t->row[i - 1], &t->row[i]) == 0, err, INVALID_ARGUMENT,
                   "%s: Duplicate tag %.*s found in summary inputs", TD_NODE_STR(c->node),
                   (int)(t->row[i].len > 256 ? 256 : t->row[i].len), t->row[i].p);
    }
    return TD_OK;
}

/* Concatenated messages are the merged message. */
static enum td_code merge_run(struct td_call *c, struct td_err *err)
{
    struct td_sink s = {.limit = TD_SUMMARY_LIMIT};
    struct tags tags = {0};
    enum td_code rc = check_tags(c, &tags, err);
    td_free(tags.row);
    for (int i = 0; i < c->n_in; i++) {
        for (int64_t k = 0; k < td_tensor_count(c->in[i]) && !rc; k++) {
            size_t len;
            const char *p = td_tensor_str(c->in[i], k, &len);
            rc = len > 0 ? td_sink_put(&s, p, len, err) : TD_OK;
        }
    }
    return td_summary_out(c, &s, rc, err);
}

static enum td_code dropped_run(struct td_call *c, struct td_err *err)
{
    (void)c;
    (void)err;
    return TD_OK;
}

static enum td_code timestamp_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *out;
    struct timespec t;
    TD_TRY(td_out(c, 0, NULL, &out, err));
    clock_gettime(CLOCK_REALTIME, &t);
    TD_DATA(out, double)[0] = (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
    return TD_OK;
}

/* The writer: a resource that takes everything and keeps nothing. */
static void writer_destroy(struct td_obj *o)
{
    td_free(o);
}

static const struct td_obj_type writer_type = {.name = "SummaryWriter", .destroy = writer_destroy};

static enum td_code create_writer(const void *arg, struct td_obj **out, struct td_err *err)
{
    (void)arg;
    struct td_obj *o = td_calloc(1, sizeof *o);
    if (!o) {
        return td_no_memory(err, sizeof *o, "summary writer");
    }
    td_obj_init(o, &writer_type);
    *out = o;
    return TD_OK;
}

static enum td_code writer_run(struct td_call *c, struct td_err *err)
{
    struct td_obj *o;
    struct td_tensor *out;
    const char *name = td_attr_str(c->node, "shared_name");
    struct td_resource_key key = {&writer_type, td_attr_str(c->node, "container"),
                                  name[0] ? name : c->node->name};
    TD_TRY(td_resource_get(c, &key, create_writer, NULL, &o, err));
    TD_TRY(td_out(c, 0, NULL, &out, err));
    td_tensor_set_obj(out, 0, td_obj_ref(o));
    return TD_OK;
}

/* ------------------------------------------------------------------ the table */

#define ROW(opname, signature, more, shapes, fn, ...)                                                        \
    {                                                                                                        \
        .name = opname, .sig = signature, .flags = more, .infer = shapes,                                    \
        .kernels = TD_KERNEL("summary.cpu", fn, __VA_ARGS__), .grad = td_not_differentiable                  \
    }
#define DROP(opname, signature) ROW(opname, signature, TD_OP_STATEFUL, NULL, dropped_run)

const struct td_op td_ops_summary[] = {
    ROW("ScalarSummary", "(tags:string, values:T) -> (summary:string) {T:type}", 0, scalar_infer, scalar_run,
        {"T", TD_SET_REALS}),
    ROW("HistogramSummary", "(tag:string, values:T) -> (summary:string) {T:type=float}", 0, histogram_infer,
        histogram_run, {"T", TD_SET_REALS}),
    ROW("TensorSummaryV2",
        "(tag:string, tensor:T, serialized_summary_metadata:string) -> (summary:string) {T:type}", 0,
        tensor_infer, tensor_run, {"T", TD_SET_PLAIN | TD_BIT(TD_STRING)}),
    ROW("MergeSummary", "(inputs:N*string) -> (summary:string) {N:int}", 0, td_infer_scalar, merge_run),
    ROW("Timestamp", "() -> (ts:double) {}", TD_OP_STATEFUL, td_infer_scalar, timestamp_run),
    ROW("SummaryWriter", "() -> (writer:resource) {shared_name:string=''; container:string=''}",
        TD_OP_STATEFUL | TD_OP_HANDLE, td_infer_scalar, writer_run),
    DROP("CreateSummaryFileWriter", "(writer:resource, logdir:string, max_queue:int32, flush_millis:int32, "
                                    "filename_suffix:string) -> () {}"),
    DROP("FlushSummaryWriter", "(writer:resource) -> () {}"),
    DROP("CloseSummaryWriter", "(writer:resource) -> () {}"),
    DROP("WriteSummary",
         "(writer:resource, step:int64, tensor:T, tag:string, summary_metadata:string) -> () {T:type}"),
    DROP("WriteScalarSummary", "(writer:resource, step:int64, tag:string, value:T) -> () {T:type}"),
    DROP("WriteHistogramSummary", "(writer:resource, step:int64, tag:string, values:T) -> () {T:type=float}"),
    DROP("WriteImageSummary", "(writer:resource, step:int64, tag:string, tensor:T, bad_color:uint8) -> () "
                              "{max_images:int=3; T:type=float}"),
    DROP("WriteAudioSummary", "(writer:resource, step:int64, tag:string, tensor:float, sample_rate:float) -> "
                              "() {max_outputs:int=3}"),
    DROP("WriteGraphSummary", "(writer:resource, step:int64, tensor:string) -> () {}"),
    DROP("WriteRawProtoSummary", "(writer:resource, step:int64, tensor:string) -> () {}"),
    {.name = NULL},
};
