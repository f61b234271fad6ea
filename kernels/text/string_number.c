/* kernels/text/string_number.c - AsString, StringToNumber, StringFormat: numbers to text and back.
 *
 * AsString builds one printf format for the node: % fill width .precision conversion; the pieces come from
 * checked attributes, never from the model's bytes themselves.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/compile/permute.h"
#include "core/batchable/batchable_rule.h"
#include "core/base/mem.h"
#include "core/base/work.h"
#include "kernels/ops.h"
#include "kernels/text/parse_number.h"
#include "kernels/text/summarize.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------ AsString */

#define MAX_WIDTH 65536 /* of a field; a wider one is a mistake or an attack */
#define UNSIGNED_TYPES (TD_BIT(TD_UINT8) | TD_BIT(TD_UINT16) | TD_BIT(TD_UINT32) | TD_BIT(TD_UINT64))
#define FLOATLIKE (TD_SET_FLOATS | TD_SET_COMPLEX | TD_BIT(TD_STRING) | TD_BIT(TD_VARIANT))

static enum td_code as_string_infer(struct td_infer *c, struct td_err *err)
{
    const struct td_node *n = c->node;
    enum td_dtype t = td_attr_type(n, "T");
    bool sci = td_attr_bool(n, "scientific"), shortest = td_attr_bool(n, "shortest");
    int64_t precision = td_attr_int(n, "precision"), width = td_attr_int(n, "width");
    struct td_bytes fill = td_attr_bytes(n, "fill");
    if (!td_dtype_in(t, FLOATLIKE)) {
        TD_FAIL_IF(sci || shortest, err, INVALID_ARGUMENT,
                   "%s: scientific and shortest format not supported for datatype %s", TD_NODE_STR(n),
                   td_dtype_name(t));
        TD_FAIL_IF(precision >= 0, err, INVALID_ARGUMENT, "%s: precision not supported for datatype %s",
                   TD_NODE_STR(n), td_dtype_name(t));
    }
    TD_FAIL_IF(fill.len > 1, err, INVALID_ARGUMENT, "%s: Fill string must be one or fewer characters",
               TD_NODE_STR(n));
    TD_FAIL_IF(sci && shortest, err, INVALID_ARGUMENT,
               "%s: Cannot select both scientific and shortest notation", TD_NODE_STR(n));
    TD_FAIL_IF(fill.len == 1 && (fill.p[0] == 0 || !strchr(" +-0#", fill.p[0])), err, INVALID_ARGUMENT,
               "%s: Fill argument not supported: \"%.1s\"", TD_NODE_STR(n), fill.p);
    TD_FAIL_IF(width > MAX_WIDTH || precision > MAX_WIDTH, err, INVALID_ARGUMENT,
               "%s: width %lld, precision %lld, want at most %d", TD_NODE_STR(n), (long long)width,
               (long long)precision, MAX_WIDTH);
    c->out[0] = c->in[0];
    return TD_OK;
}

/* "%", fill, width, precision; the conversion is appended by the caller. */
static void format_head(const struct td_node *n, char *buf, size_t bytes, const char *conversion)
{
    char width[24] = "", precision[24] = "";
    if (td_attr_int(n, "width") > -1) {
        snprintf(width, sizeof(width), "%" PRId64, td_attr_int(n, "width"));
    }
    if (td_attr_int(n, "precision") > -1) {
        snprintf(precision, sizeof(precision), ".%" PRId64, td_attr_int(n, "precision"));
    }
    snprintf(buf, bytes, "%%%s%s%s%s", td_attr_str(n, "fill"), width, precision, conversion);
}

static double real_at(const struct td_tensor *t, int64_t i)
{
    switch (t->dtype) {
    case TD_FLOAT:
        return (double)TD_DATA(t, float)[i];
    case TD_HALF:
        return (double)td_half_to_float(TD_DATA(t, td_half)[i]);
    case TD_BFLOAT16:
        return (double)td_bf16_to_float(TD_DATA(t, td_bf16)[i]);
    case TD_COMPLEX64:
        return (double)TD_DATA(t, td_c64)[i].re;
    case TD_COMPLEX128:
        return TD_DATA(t, td_c128)[i].re;
    default:
        return TD_DATA(t, double)[i];
    }
}

/* The digits of v, so many at least, before `end`. */
static char *put_digits(char *end, uint64_t v, int least)
{
    for (; v > 0 || least > 0; v /= 10, least--) {
        *--end = (char)('0' + v % 10);
    }
    return end;
}

/* v as "%f" has it, before `end`: six places, exactly rounded, ties to even. NULL: too large, or no
 * number. */
static char *put_fixed(char *end, double v)
{
    enum { PLACES = 6, MILLION = 1000000, MANTISSA = 53, FARTHEST = 126 };
    const double size = fabs(v);
    if (!(size < 0x1p53)) {
        return NULL;
    }
    uint64_t whole = (uint64_t)size, part = 0;
    int exponent;
    const double fraction = frexp(size - (double)whole, &exponent);
    const int shift = MANTISSA - exponent; /* the rest is so many binary places of an integer */
    if (fraction > 0 && shift <= FARTHEST) {
        const unsigned __int128 product = (unsigned __int128)(uint64_t)ldexp(fraction, MANTISSA) * MILLION;
        const unsigned __int128 half = (unsigned __int128)1 << (shift - 1), rest = product & (2 * half - 1);
        part = (uint64_t)(product >> shift);
        part += rest > half || (rest == half && part % 2 == 1);
    }
    whole += part / MILLION;
    end = put_digits(end, part % MILLION, PLACES);
    *--end = '.';
    end = put_digits(end, whole, 1);
    *(end - 1) = '-';
    return signbit(v) ? end - 1 : end;
}

/* Element i of the usual types in the usual format; false: it is none. */
static bool put_usual(const struct td_tensor *x, int64_t i, struct td_strbuf *b, enum td_code *rc,
                      struct td_err *err)
{
    char text[48], *const end = text + sizeof text, *at = NULL;
    if (x->dtype == TD_FLOAT || x->dtype == TD_DOUBLE) {
        at = put_fixed(end, real_at(x, i));
    } else if (x->dtype == TD_INT32 || x->dtype == TD_INT64) {
        const int64_t v = td_tensor_int(x, i);
        at = put_digits(end, v < 0 ? -(uint64_t)v : (uint64_t)v, 1);
        *(at - 1) = '-';
        at -= v < 0;
    }
    *rc = at == NULL ? TD_OK : td_strbuf_put(b, at, (size_t)(end - at), err);
    return at != NULL;
}

/* The functions below print through a format made by format_head. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-security"

static enum td_code put_complex(const struct td_tensor *x, int64_t i, const char *fmt, struct td_strbuf *b,
                                struct td_err *err)
{
    double im = x->dtype == TD_COMPLEX64 ? (double)TD_DATA(x, td_c64)[i].im : TD_DATA(x, td_c128)[i].im;
    TD_TRY(td_strbuf_putc(b, '(', err));
    TD_TRY(td_strbuf_printf(b, err, fmt, real_at(x, i)));
    TD_TRY(td_strbuf_putc(b, ',', err));
    TD_TRY(td_strbuf_printf(b, err, fmt, im));
    return td_strbuf_putc(b, ')', err);
}

static enum td_code put_string(const struct td_tensor *x, int64_t i, int64_t width, int64_t precision,
                               bool left, struct td_strbuf *b, struct td_err *err)
{
    size_t n;
    const char *s = td_tensor_str(x, i, &n);
    n = width > 0 && precision >= 0 && precision < (int64_t)n ? (size_t)precision : n;
    int64_t pad = width > (int64_t)n ? width - (int64_t)n : 0;
    for (int64_t k = 0; k < pad && !left; k++) {
        TD_TRY(td_strbuf_putc(b, ' ', err));
    }
    TD_TRY(td_strbuf_put(b, s, n, err));
    for (int64_t k = 0; k < pad && left; k++) {
        TD_TRY(td_strbuf_putc(b, ' ', err));
    }
    return TD_OK;
}

static enum td_code as_string_one(const struct td_node *node, const struct td_tensor *x, int64_t i,
                                  const char *fmt, struct td_strbuf *b, struct td_err *err)
{
    enum td_code rc;
    b->n = 0;
    if ((strcmp(fmt, "%f") == 0 || strcmp(fmt, "%" PRId64) == 0) && put_usual(x, i, b, &rc, err)) {
        return rc;
    }
    switch (x->dtype) {
    case TD_BOOL:
        return td_strbuf_puts(b, TD_DATA(x, td_bool)[i] ? "true" : "false", err);
    case TD_STRING:
        return put_string(x, i, td_attr_int(node, "width"), td_attr_int(node, "precision"),
                          td_attr_str(node, "fill")[0] == '-', b, err);
    case TD_VARIANT:
        return td_strbuf_puts(b, "<variant>", err);
    case TD_COMPLEX64:
    case TD_COMPLEX128:
        return put_complex(x, i, fmt, b, err);
    case TD_UINT64:
        return td_strbuf_printf(b, err, fmt, TD_DATA(x, uint64_t)[i]);
    default:
        return td_dtype_in(x->dtype, TD_SET_FLOATS) ? td_strbuf_printf(b, err, fmt, real_at(x, i))
                                                    : td_strbuf_printf(b, err, fmt, td_tensor_int(x, i));
    }
}
#pragma GCC diagnostic pop

static enum td_code as_string_run(struct td_call *c, struct td_err *err)
{
    const struct td_node *n = c->node;
    const struct td_tensor *x = c->in[0];
    char fmt[80];
    format_head(n, fmt, sizeof(fmt),
                td_dtype_in(x->dtype, TD_SET_FLOATS | TD_SET_COMPLEX)
                    ? (td_attr_bool(n, "shortest")     ? "g"
                       : td_attr_bool(n, "scientific") ? "e"
                                                       : "f")
                : td_dtype_in(x->dtype, UNSIGNED_TYPES) ? PRIu64
                                                        : PRId64);
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    struct td_strbuf b = {0};
    enum td_code rc = TD_OK;
    for (int64_t i = 0, count = td_tensor_count(y); i < count && !rc; i++) {
        rc = as_string_one(n, x, i, fmt, &b, err);
        if (!rc) {
            rc = td_tensor_set_str(y, i, b.n ? b.p : "", b.n, err);
        }
    }
    td_strbuf_fini(&b);
    return rc;
}

/* ------------------------------------------------------------------ StringToNumber */

static enum td_code to_number_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    size_t size = td_dtype_size(y->dtype);
    for (int64_t i = 0, n = td_tensor_count(y); i < n && !td_work_spent(64); i++) {
        size_t len;
        const char *s = td_tensor_str(c->in[0], i, &len);
        bool ok = td_parse_number(s, len, y->dtype, (char *)y->data + (size_t)i * size);
        TD_FAIL_IF(!ok, err, INVALID_ARGUMENT,
                   "StringToNumberOp could not correctly convert string: %.200s (%s)", s,
                   TD_NODE_STR(c->node));
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ StringFormat */

static const char *find(const char *s, size_t n, struct td_bytes what)
{
    return what.len ? memmem(s, n, what.p, what.len) : NULL;
}

static int64_t count_placeholders(struct td_bytes t, struct td_bytes p)
{
    int64_t n = 0;
    if (p.len == 0) {
        return 1; /* an empty placeholder stands once, at the front */
    }
    for (const char *at = t.p, *hit; (hit = find(at, (size_t)(t.p + t.len - at), p)); at = hit + p.len) {
        n++;
    }
    return n;
}

static enum td_code format_infer(struct td_infer *c, struct td_err *err)
{
    int64_t n = count_placeholders(td_attr_bytes(c->node, "template"), td_attr_bytes(c->node, "placeholder"));
    TD_FAIL_IF(n != c->n_in, err, INVALID_ARGUMENT,
               "%s: num placeholders in template and num inputs must match: %lld vs. %d",
               TD_NODE_STR(c->node), (long long)n, c->n_in);
    c->out[0] = td_shape_scalar();
    return TD_OK;
}

static enum td_code format_text(struct td_call *c, struct td_strbuf *b, struct td_err *err)
{
    struct td_bytes t = td_attr_bytes(c->node, "template"), p = td_attr_bytes(c->node, "placeholder");
    int64_t ends = td_attr_int(c->node, "summarize");
    const char *at = t.p, *end = t.p + t.len;
    for (int i = 0; i < c->n_in; i++) {
        const char *hit = p.len ? find(at, (size_t)(end - at), p) : at;
        if (!hit) {
            break;
        }
        TD_TRY(td_strbuf_put(b, at, (size_t)(hit - at), err));
        TD_TRY(td_summarize_v2(b, c->in[i], ends, err));
        at = hit + p.len;
    }
    return td_strbuf_put(b, at, (size_t)(end - at), err);
}

static enum td_code format_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    struct td_strbuf b = {0};
    enum td_code rc = format_text(c, &b, err);
    if (!rc) {
        rc = td_tensor_set_str(y, 0, b.n ? b.p : "", b.n, err);
    }
    td_strbuf_fini(&b);
    return rc;
}

#define AS_STRING_TYPES (TD_SET_NUMBERS | TD_BIT(TD_BOOL) | TD_BIT(TD_STRING) | TD_BIT(TD_VARIANT))
#define NUMBER_TYPES                                                                                         \
    (TD_BIT(TD_FLOAT) | TD_BIT(TD_DOUBLE) | TD_SET_INDEX | TD_BIT(TD_UINT32) | TD_BIT(TD_UINT64))

const struct td_op td_ops_string_number[] = {
    {.name = "AsString",
     .sig = "(input:T) -> (output:string) {T:type; precision:int=-1; scientific:bool=false; "
            "shortest:bool=false; "
            "width:int=-1; fill:string=''}",
     .permute = &td_permute_map,
     .batchable = TD_BATCHABLE(td_batchable_map),
     .infer = as_string_infer,
     .kernels = TD_KERNEL("string_number.cpu", as_string_run, {"T", AS_STRING_TYPES}),
     .grad = td_not_differentiable},
    {.name = "StringToNumber",
     .sig = "(string_tensor:string) -> (output:out_type) {out_type:type=float}",
     .permute = &td_permute_map,
     .batchable = TD_BATCHABLE(td_batchable_map),
     .infer = td_infer_same,
     .kernels = TD_KERNEL("string_number.cpu", to_number_run, {"out_type", NUMBER_TYPES}),
     .grad = td_not_differentiable},
    {.name = "StringFormat",
     .sig = "(inputs:T) -> (output:string) {T:list(type); template:string='%s'; placeholder:string='%s'; "
            "summarize:int=3}",
     .infer = format_infer,
     .kernels = TD_KERNEL("string_number.cpu", format_run, {0})},
    {.name = NULL},
};
