/* kernels/checks.c - Assert, CheckNumerics, Print and PrintV2.
 *
 * Values appear in texts as TensorFlow writes them: "[[1 2][3...]...]", the shortest of 6 or 9 (15 or 17)
 * digits that reads back equal, strings with C escapes, "?" for what has no text. Printing goes through
 * td_print, which limits its rate; a print to a file is refused unless the model may write there.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/mem.h"

/* Longest text of one message; the rest is cut. */
#define TEXT_LIMIT ((size_t)1 << 20)

/* ------------------------------------------------------------------ text of tensors */

struct text {
    char *p;
    size_t n, cap;
    bool full; /* at its limit, or out of memory: later pieces are dropped */
};

static void put(struct text *t, const char *bytes, size_t n)
{
    if (t->full || n == 0) {
        return;
    }
    if (n >= TEXT_LIMIT - t->n) {
        t->full = true;
        return;
    }
    if (t->n + n + 1 > t->cap) {
        size_t cap = (t->n + n + 1) * 2;
        char *p = td_realloc(t->p, cap, 1);
        if (!p) {
            t->full = true;
            return;
        }
        t->p = p;
        t->cap = cap;
    }
    memcpy(t->p + t->n, bytes, n);
    t->n += n;
    t->p[t->n] = 0;
}

static void put_str(struct text *t, const char *s)
{
    put(t, s, strlen(s));
}

static TD_PRINTF(2, 3) void putf(struct text *t, const char *fmt, ...)
{
    char buf[64];
    va_list args;
    va_start(args, fmt);
    vsnprintf(buf, sizeof buf, fmt, args);
    va_end(args);
    put_str(t, buf);
}

static void put_float(struct text *t, float f)
{
    char buf[32];
    snprintf(buf, sizeof buf, "%.6g", (double)f);
    if (strtof(buf, NULL) != f) {
        snprintf(buf, sizeof buf, "%.9g", (double)f);
    }
    put_str(t, isnan(f) ? "nan" : buf);
}

static void put_double(struct text *t, double f)
{
    char buf[32];
    snprintf(buf, sizeof buf, "%.15g", f);
    if (strtod(buf, NULL) != f) {
        snprintf(buf, sizeof buf, "%.17g", f);
    }
    put_str(t, isnan(f) ? "nan" : buf);
}

static void put_escaped(struct text *t, const char *s, size_t n)
{
    static const char special[] = "\n\r\t\"'\\", letter[] = "nrt\"'\\";
    for (size_t i = 0; i < n; i++) {
        unsigned char ch = (unsigned char)s[i];
        const char *hit = ch ? strchr(special, ch) : NULL;
        if (hit) {
            putf(t, "\\%c", letter[hit - special]);
        } else if (ch < 0x20 || ch == 0x7f) {
            putf(t, "\\%03o", ch);
        } else {
            put(t, &s[i], 1);
        }
    }
}

static void put_element(struct text *t, const struct td_tensor *x, int64_t i)
{
    size_t len;
    const char *s;
    switch (x->dtype) {
    case TD_FLOAT:
        put_float(t, TD_DATA(x, float)[i]);
        break;
    case TD_DOUBLE:
        put_double(t, TD_DATA(x, double)[i]);
        break;
    case TD_HALF:
        put_float(t, td_half_to_float(TD_DATA(x, td_half)[i]));
        break;
    case TD_BFLOAT16:
        put_float(t, td_bf16_to_float(TD_DATA(x, td_bf16)[i]));
        break;
    case TD_INT8:
    case TD_QINT8:
        putf(t, "%d", TD_DATA(x, int8_t)[i]);
        break;
    case TD_INT16:
    case TD_QINT16:
        putf(t, "%d", TD_DATA(x, int16_t)[i]);
        break;
    case TD_INT32:
    case TD_QINT32:
        putf(t, "%d", TD_DATA(x, int32_t)[i]);
        break;
    case TD_INT64:
        putf(t, "%lld", (long long)TD_DATA(x, int64_t)[i]);
        break;
    case TD_BOOL:
    case TD_QUINT8:
    case TD_UINT8:
        putf(t, "%u", TD_DATA(x, uint8_t)[i]);
        break;
    case TD_QUINT16:
    case TD_UINT16:
        putf(t, "%u", TD_DATA(x, uint16_t)[i]);
        break;
    case TD_UINT32:
        putf(t, "%u", TD_DATA(x, uint32_t)[i]);
        break;
    case TD_UINT64:
        putf(t, "%llu", (unsigned long long)TD_DATA(x, uint64_t)[i]);
        break;
    case TD_STRING:
        s = td_tensor_str(x, i, &len);
        put_escaped(t, s, len);
        break;
    default:
        put_str(t, "?");
        break;
    }
}

/* One axis and all inside it; *next is the index of the next element to print, of at most limit. */
static void put_axis(struct text *t, const struct td_tensor *x, int axis, int64_t limit, int64_t *next)
{
    bool last = axis == x->shape.rank - 1;
    for (int64_t i = 0; i < x->shape.dim[axis]; i++) {
        if (*next >= limit) {
            if (last && axis > 0) {
                put_str(t, "...");
            }
            return;
        }
        if (last) {
            put_str(t, i > 0 ? " " : "");
            put_element(t, x, (*next)++);
            continue;
        }
        put_str(t, "[");
        put_axis(t, x, axis + 1, limit, next);
        put_str(t, "]");
    }
}

static bool has_axes(const struct td_tensor *x)
{
    return x->shape.rank > 0 && x->dtype != TD_COMPLEX64 && x->dtype != TD_COMPLEX128 &&
           x->dtype != TD_VARIANT && x->dtype != TD_RESOURCE;
}

static void put_tensor(struct text *t, const struct td_tensor *x, int64_t summarize)
{
    int64_t n = td_tensor_count(x), limit = summarize < 0 || summarize > n ? n : summarize, next = 0;
    if (has_axes(x) && limit > 0) {
        put_axis(t, x, 0, limit, &next);
    } else {
        for (int64_t i = 0; i < limit && !t->full; i++) {
            put_str(t, i > 0 ? " " : "");
            put_element(t, x, i);
        }
    }
    put_str(t, n > limit ? "..." : "");
}

/* ------------------------------------------------------------------ Assert */

static enum td_code assert_infer(struct td_infer *c, struct td_err *err)
{
    TD_FAIL_IF(c->in[0].rank > 0, err, INVALID_ARGUMENT, "%s: In[0] should be a scalar: %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(&c->in[0]));
    return TD_OK;
}

static enum td_code assert_run(struct td_call *c, struct td_err *err)
{
    TD_FAIL_IF(c->in[0]->shape.rank != 0, err, INVALID_ARGUMENT, "%s: In[0] should be a scalar: %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(&c->in[0]->shape));
    if (TD_DATA(c->in[0], td_bool)[0]) {
        return TD_OK;
    }
    struct text t = {0};
    for (int i = 1; i < c->n_in; i++) {
        put_str(&t, " [");
        put_tensor(&t, c->in[i], td_attr_int(c->node, "summarize"));
        put_str(&t, "]");
    }
    enum td_code rc = td_fail(err, TD_INVALID_ARGUMENT, "assertion failed:%s\n\t [[%s]]", t.p ? t.p : "",
                              TD_NODE_STR(c->node));
    td_free(t.p);
    return rc;
}

/* ------------------------------------------------------------------ CheckNumerics */

struct found {
    bool nan, plus, minus;
};

static void note(struct found *f, double v)
{
    f->nan |= isnan(v);
    f->plus |= v == (double)INFINITY;
    f->minus |= v == -(double)INFINITY;
}

static struct found find_bad(const struct td_tensor *x)
{
    struct found f = {0};
    int64_t n = td_tensor_count(x);
    for (int64_t i = 0; i < n; i++) {
        switch (x->dtype) {
        case TD_FLOAT:
            note(&f, (double)TD_DATA(x, float)[i]);
            break;
        case TD_DOUBLE:
            note(&f, TD_DATA(x, double)[i]);
            break;
        case TD_HALF:
            note(&f, (double)td_half_to_float(TD_DATA(x, td_half)[i]));
            break;
        default:
            note(&f, (double)td_bf16_to_float(TD_DATA(x, td_bf16)[i]));
            break;
        }
    }
    return f;
}

/* x - x is 0 for finite numbers only, and a sum of such zeros vectorises. */
static bool all_finite(const struct td_tensor *x)
{
    int64_t n = td_tensor_count(x);
    const float *p = x->data;
    float sum = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += p[i] - p[i];
    }
    return sum == 0;
}

static enum td_code check_numerics(struct td_call *c, bool signs, struct td_err *err)
{
    TD_TRY(td_out_view(c, 0, 0, NULL, err));
    if (c->in[0]->dtype == TD_FLOAT && all_finite(c->in[0])) {
        return TD_OK;
    }
    struct found f = find_bad(c->in[0]);
    bool inf = f.plus || f.minus;
    if (!f.nan && !inf) {
        return TD_OK;
    }
    const char *what = "NaN";
    if (inf && !signs) {
        what = f.nan ? "Inf and NaN" : "Inf";
    } else if (f.plus && f.minus) {
        what = f.nan ? "-Inf, +Inf, and NaN" : "-Inf and +Inf";
    } else if (f.plus) {
        what = f.nan ? "+Inf and NaN" : "+Inf";
    } else if (f.minus) {
        what = f.nan ? "-Inf and NaN" : "-Inf";
    }
    TD_FAIL(err, INVALID_ARGUMENT, "%s : Tensor had %s values\n\t [[%s]]", td_attr_str(c->node, "message"),
            what, TD_NODE_STR(c->node));
}

static enum td_code check_numerics_run(struct td_call *c, struct td_err *err)
{
    return check_numerics(c, false, err);
}
static enum td_code check_numerics_v2_run(struct td_call *c, struct td_err *err)
{
    return check_numerics(c, true, err);
}

/* ------------------------------------------------------------------ printing */

struct print_state {
    int64_t printed;
};

static enum td_code may_print(struct td_call *c, bool *may, struct td_err *err)
{
    int64_t first_n = td_attr_int(c->node, "first_n");
    void *state, *lock;
    *may = true;
    if (first_n < 0) {
        return TD_OK;
    }
    TD_TRY(td_node_state(c, sizeof(struct print_state), &state, &lock, err));
    struct print_state *s = state;
    td_state_lock(lock);
    *may = s->printed < first_n;
    s->printed += *may;
    td_state_unlock(lock);
    return TD_OK;
}

static enum td_code print_run(struct td_call *c, struct td_err *err)
{
    bool may;
    TD_TRY(td_out_view(c, 0, 0, NULL, err));
    TD_TRY(may_print(c, &may, err));
    if (!may) {
        return TD_OK;
    }
    struct text t = {0};
    struct td_bytes message = td_attr_bytes(c->node, "message");
    put(&t, message.p, message.len);
    for (int i = 1; i < c->n_in; i++) {
        put_str(&t, "[");
        put_tensor(&t, c->in[i], td_attr_int(c->node, "summarize"));
        put_str(&t, "]");
    }
    put_str(&t, "\n");
    td_print(c, "stderr", t.p ? t.p : "", t.n);
    td_free(t.p);
    return TD_OK;
}

static enum td_code print_v2_infer(struct td_infer *c, struct td_err *err)
{
    return td_infer_rank(c, 0, 0, err);
}

static enum td_code print_to_file(struct td_call *c, const char *path, const struct text *t,
                                  struct td_err *err)
{
    char file[4096];
    TD_TRY(td_file_path(c, path, strlen(path), true, file, sizeof file, err));
    FILE *f = fopen(file, "ae");
    TD_FAIL_IF(!f, err, INVALID_ARGUMENT, "%s: cannot open '%s' for printing", TD_NODE_STR(c->node), path);
    bool good = fwrite(t->p, 1, t->n, f) == t->n;
    good &= fclose(f) == 0;
    TD_FAIL_IF(!good, err, INTERNAL, "%s: writing to '%s' fell short", TD_NODE_STR(c->node), path);
    return TD_OK;
}

static enum td_code print_v2_run(struct td_call *c, struct td_err *err)
{
    static const char *const streams[] = {"stdout", "stderr", "log(info)", "log(warning)", "log(error)"};
    const char *stream = td_attr_str(c->node, "output_stream");
    struct td_bytes end = td_attr_bytes(c->node, "end");
    struct text t = {0};
    size_t len;
    const char *s = td_tensor_str(c->in[0], 0, &len);
    put(&t, s, len);
    put(&t, end.p, end.len);
    bool known = false;
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++) {
        known |= strcmp(stream, streams[i]) == 0;
    }
    enum td_code rc = TD_OK;
    if (known) {
        td_print(c, stream, t.p ? t.p : "", t.n);
    } else if (strncmp(stream, "file://", 7) == 0) {
        rc = print_to_file(c, stream + 7, &t, err);
    } else {
        rc = td_fail(err, TD_INVALID_ARGUMENT,
                     "%s: Unknown output stream: %s, want stdout, stderr, log(...), file://",
                     TD_NODE_STR(c->node), stream);
    }
    td_free(t.p);
    return rc;
}

/* ------------------------------------------------------------------ the table */

const struct td_op td_ops_checks[] = {
    {.name = "Assert",
     .sig = "(condition:bool, data:T) -> () {T:list(type); summarize:int=3}",
     .flags = TD_OP_STATEFUL,
     .rows = TD_ROWS_CHECK,
     .host_in = 3,
     .infer = assert_infer,
     .kernels = TD_KERNEL("assert.cpu", assert_run)},
    {.name = "CheckNumerics",
     .sig = "(tensor:T) -> (output:T) {T:type; message:string}",
     .flags = TD_OP_STATEFUL | TD_OP_VIEW,
     .rows = TD_ROWS_CHECK,
     .infer = td_infer_same,
     .kernels = TD_KERNEL("check_numerics.cpu", check_numerics_run, {"T", TD_SET_FLOATS})},
    {.name = "CheckNumericsV2",
     .sig = "(tensor:T) -> (output:T) {T:type; message:string}",
     .flags = TD_OP_STATEFUL | TD_OP_VIEW,
     .rows = TD_ROWS_CHECK,
     .infer = td_infer_same,
     .kernels = TD_KERNEL("check_numerics.cpu", check_numerics_v2_run, {"T", TD_SET_FLOATS})},
    {.name = "Print",
     .sig = "(input:T, data:U) -> (output:T) {T:type; U:list(type); message:string=''; first_n:int=-1; "
            "summarize:int=3}",
     .flags = TD_OP_STATEFUL | TD_OP_VIEW,
     .host_in = 3,
     .infer = td_infer_same,
     .kernels = TD_KERNEL("print.cpu", print_run)},
    {.name = "PrintV2",
     .sig = "(input:string) -> () {output_stream:string='stderr'; end:string='\\n'}",
     .flags = TD_OP_STATEFUL,
     .host_in = 1,
     .infer = print_v2_infer,
     .kernels = TD_KERNEL("print.cpu", print_v2_run)},
    {.name = NULL},
};
