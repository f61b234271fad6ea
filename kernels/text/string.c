/* kernels/text/string.c - byte strings: joining, case, stripping, length, substrings, hash buckets.
 *
 * Strings are bytes and may hold NULs; only the ops with a unit or encoding attribute look at UTF-8. Case
 * mapping of UTF-8 is ICU's full mapping in the root locale; bytes that are no UTF-8 become U+FFFD there, as
 * they do in TensorFlow.
 *
 * Splitting is in string_split.c, numbers in string_number.c, joins along axes in string_reduce.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/compile/permute.h"
#include "core/batchable/batchable_rule.h"
#include "core/base/mem.h"
#include "core/base/work.h"
#include "kernels/text/string_hash.h"
#include "kernels/ops.h"
#include "kernels/text/strbuf.h"
#include "kernels/text/unicode.h"

#include <string.h>

/* ------------------------------------------------------------------ StringJoin */

/* inputs N x [shape] or scalars -> [shape] */
static enum td_code join_infer(struct td_infer *c, struct td_err *err)
{
    struct td_shape s = td_shape_scalar();
    bool seen = false;
    for (int i = 0; i < c->n_in; i++) {
        if (c->in[i].rank == 0) {
            continue;
        }
        if (c->in[i].rank < 0) {
            c->out[0] = td_shape_unknown();
            return TD_OK;
        }
        if (!seen) {
            s = c->in[i];
            seen = true;
        } else if (td_shape_compatible(&s, &c->in[i])) {
            TD_TRY(td_shape_merge(&s, &c->in[i], &s, err));
        } else {
            TD_FAIL(err, INVALID_ARGUMENT,
                    "%s: Input shapes do not match: %s vs. %s; every input must be a scalar or of one shape",
                    TD_NODE_STR(c->node), TD_SHAPE_STR(&s), TD_SHAPE_STR(&c->in[i]));
        }
    }
    c->out[0] = s;
    return TD_OK;
}

static enum td_code join_one(struct td_call *c, int64_t i, struct td_bytes sep, struct td_strbuf *b,
                             struct td_err *err)
{
    b->n = 0;
    for (int j = 0; j < c->n_in; j++) {
        size_t n;
        const char *s = td_tensor_str(c->in[j], c->in[j]->shape.rank == 0 ? 0 : i, &n);
        if (j > 0) {
            TD_TRY(td_strbuf_put(b, sep.p, sep.len, err));
        }
        TD_TRY(td_strbuf_put(b, s, n, err));
    }
    return TD_OK;
}

static enum td_code join_run(struct td_call *c, struct td_err *err)
{
    struct td_bytes sep = td_attr_bytes(c->node, "separator");
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    struct td_strbuf b = {0};
    enum td_code rc = TD_OK;
    for (int64_t i = 0, n = td_tensor_count(y); i < n && !rc; i++) {
        rc = join_one(c, i, sep, &b, err);
        if (!rc) {
            rc = td_tensor_set_str(y, i, b.n ? b.p : "", b.n, err);
        }
    }
    td_strbuf_fini(&b);
    return rc;
}

/* ------------------------------------------------------------------ StringLower, StringUpper, StringStrip */

static enum td_code case_infer(struct td_infer *c, struct td_err *err)
{
    const char *e = td_attr_str(c->node, "encoding");
    TD_FAIL_IF(e[0] != 0 && strcmp(e, "utf-8") != 0, err, INVALID_ARGUMENT,
               "%s: only utf-8 or '' (no encoding) is supported, received %s", TD_NODE_STR(c->node), e);
    c->out[0] = c->in[0];
    return TD_OK;
}

static enum td_code ascii_case(const void *ctx, const char *s, size_t n, struct td_strbuf *out,
                               struct td_err *err)
{
    bool upper = *(const bool *)ctx;
    const int from = upper ? 'a' : 'A', flip = 'a' ^ 'A';
    TD_TRY(td_strbuf_put(out, s, n, err));
    char *restrict to = out->p;
    for (size_t i = 0; i < n; i++) {
        to[i] = (char)(s[i] ^ ((uint8_t)(s[i] - from) < 26 ? flip : 0));
    }
    return TD_OK;
}

static enum td_code utf8_case(const void *ctx, const char *s, size_t n, struct td_strbuf *out,
                              struct td_err *err)
{
    return td_unicode_case(s, n, *(const bool *)ctx, out, err);
}

static enum td_code case_run(struct td_call *c, bool upper, struct td_err *err)
{
    return td_strbuf_map(c, td_attr_str(c->node, "encoding")[0] ? utf8_case : ascii_case, &upper, err);
}

static enum td_code lower_run(struct td_call *c, struct td_err *err)
{
    return case_run(c, false, err);
}

static enum td_code upper_run(struct td_call *c, struct td_err *err)
{
    return case_run(c, true, err);
}

static bool is_space(char ch)
{
    return ch == ' ' || (ch >= '\t' && ch <= '\r');
}

static enum td_code strip_one(const void *ctx, const char *s, size_t n, struct td_strbuf *out,
                              struct td_err *err)
{
    (void)ctx;
    size_t from = 0;
    while (from < n && is_space(s[from])) {
        from++;
    }
    while (n > from && is_space(s[n - 1])) {
        n--;
    }
    return td_strbuf_put(out, s + from, n - from, err);
}

static enum td_code strip_run(struct td_call *c, struct td_err *err)
{
    return td_strbuf_map(c, strip_one, NULL, err);
}

/* ------------------------------------------------------------------ StringLength */

static bool utf8_unit(const struct td_node *n)
{
    return strcmp(td_attr_str(n, "unit"), "UTF8_CHAR") == 0;
}

static bool is_trail(char ch)
{
    return ((unsigned char)ch & 0xC0) == 0x80;
}

static enum td_code length_run(struct td_call *c, struct td_err *err)
{
    bool utf8 = utf8_unit(c->node);
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    for (int64_t i = 0, n = td_tensor_count(y); i < n && !td_work_spent(64); i++) {
        size_t len, count = 0;
        const char *s = td_tensor_str(c->in[0], i, &len);
        for (size_t k = 0; utf8 && k < len; k++) {
            count += !is_trail(s[k]);
        }
        TD_DATA(y, int32_t)[i] = (int32_t)(utf8 ? count : len);
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ Substr */

/* input [A]  pos, len [B] of one shape  ->  output broadcast(A, B); a scalar pos serves any shape */
static enum td_code substr_infer(struct td_infer *c, struct td_err *err)
{
    TD_FAIL_IF(!td_shape_compatible(&c->in[1], &c->in[2]), err, INVALID_ARGUMENT,
               "%s: pos and len should have the same shape, got: %s vs. %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(&c->in[1]), TD_SHAPE_STR(&c->in[2]));
    return td_shape_broadcast(&c->in[0], &c->in[1], &c->out[0], err);
}

/* Moves *at by `chars` UTF-8 characters; false when the string ends before. */
static bool skip_chars(const char *s, size_t n, size_t *at, int64_t chars)
{
    for (; chars > 0; chars--) {
        if (*at >= n) {
            return false;
        }
        (*at)++;
        while (*at < n && is_trail(s[*at])) {
            (*at)++;
        }
    }
    return true;
}

static bool skip_back(const char *s, size_t *at, int64_t chars)
{
    for (; chars > 0; chars--) {
        if (*at == 0) {
            return false;
        }
        (*at)--;
        while (*at > 0 && is_trail(s[*at])) {
            (*at)--;
        }
    }
    return true;
}

/* Byte range [*from, *to) that pos and len name; false when pos is outside the string. */
static bool substr_range(const char *s, size_t n, int64_t pos, int64_t len, bool utf8, size_t *from,
                         size_t *to)
{
    int64_t size = (int64_t)n;
    if (utf8) {
        *from = pos < 0 ? n : 0;
        if (pos < 0 ? pos < -size || !skip_back(s, from, -pos) : !skip_chars(s, n, from, pos)) {
            return false;
        }
        *to = *from;
        (void)skip_chars(s, n, to, len < 0 ? 0 : len);
        return true;
    }
    if (pos < -size || pos > size) {
        return false;
    }
    pos = pos < 0 ? pos + size : pos;
    *from = (size_t)pos;
    *to = len < 0 || len > size - pos ? n : (size_t)(pos + len);
    return true;
}

/* Flat index into a tensor of shape `s` of element i of shape `out`, which s broadcasts to. */
static int64_t broadcast_index(const struct td_shape *s, const struct td_shape *out, int64_t i)
{
    int64_t at = 0, step = 1;
    for (int d = out->rank - 1, k = s->rank - 1; k >= 0; d--, k--) {
        if (s->dim[k] != 1) {
            at += i % out->dim[d] * step;
        }
        i /= out->dim[d];
        step *= s->dim[k];
    }
    return at;
}

static enum td_code substr_run(struct td_call *c, struct td_err *err)
{
    bool utf8 = utf8_unit(c->node);
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    for (int64_t i = 0, n = td_tensor_count(y); i < n; i++) {
        size_t len, from = 0, to = 0;
        int64_t k = broadcast_index(&c->in[1]->shape, &y->shape, i);
        const char *s = td_tensor_str(c->in[0], broadcast_index(&c->in[0]->shape, &y->shape, i), &len);
        int64_t pos = td_tensor_int(c->in[1], k), want = td_tensor_int(c->in[2], k);
        TD_FAIL_IF(!substr_range(s, len, pos, want, utf8, &from, &to), err, INVALID_ARGUMENT,
                   "%s: pos %lld out of range for string of %zu bytes at index %lld", TD_NODE_STR(c->node),
                   (long long)pos, len, (long long)i);
        TD_TRY(td_tensor_set_str(y, i, s + from, to - from, err));
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ StringToHashBucket* */

static enum td_code bucket_infer(struct td_infer *c, struct td_err *err)
{
    TD_FAIL_IF(td_attr_int(c->node, "num_buckets") < 1, err, INVALID_ARGUMENT,
               "%s: num_buckets is %lld, want at least 1", TD_NODE_STR(c->node),
               (long long)td_attr_int(c->node, "num_buckets"));
    c->out[0] = c->in[0];
    return TD_OK;
}

static enum td_code strong_infer(struct td_infer *c, struct td_err *err)
{
    TD_FAIL_IF(td_attr_len(c->node, "key") != 2, err, INVALID_ARGUMENT,
               "%s: Key must have 2 elements, got %d", TD_NODE_STR(c->node), td_attr_len(c->node, "key"));
    return bucket_infer(c, err);
}

static enum td_code bucket_run(struct td_call *c, uint64_t (*hash)(const void *, size_t), struct td_err *err)
{
    uint64_t buckets = (uint64_t)td_attr_int(c->node, "num_buckets");
    int n_key = 0;
    const int64_t *key = hash ? NULL : td_attr_ints(c->node, "key", &n_key);
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    for (int64_t i = 0, n = td_tensor_count(y); i < n && !td_work_spent(64); i++) {
        size_t len;
        const char *s = td_tensor_str(c->in[0], i, &len);
        uint64_t h = hash ? hash(s, len) : td_hash_siphash((uint64_t)key[0], (uint64_t)key[1], s, len);
        TD_DATA(y, int64_t)[i] = (int64_t)(h % buckets);
    }
    return TD_OK;
}

static enum td_code bucket_legacy_run(struct td_call *c, struct td_err *err)
{
    return bucket_run(c, td_hash_legacy64, err);
}

static enum td_code bucket_fast_run(struct td_call *c, struct td_err *err)
{
    return bucket_run(c, td_hash_fingerprint64, err);
}

static enum td_code bucket_strong_run(struct td_call *c, struct td_err *err)
{
    return bucket_run(c, NULL, err);
}

const struct td_op td_ops_string[] = {
    {.name = "StringJoin",
     .sig = "(inputs:N*string) -> (output:string) {N:int; separator:string=''}",
     .permute = &td_permute_elementwise,
     .batchable = TD_BATCHABLE(td_batchable_broadcast),
     .infer = join_infer,
     .kernels = TD_KERNEL("string.cpu", join_run, {0}),
     .grad = td_not_differentiable},
    {.name = "StringLower",
     .sig = "(input:string) -> (output:string) {encoding:string=''}",
     .permute = &td_permute_map,
     .batchable = TD_BATCHABLE(td_batchable_map),
     .infer = case_infer,
     .kernels = TD_KERNEL("string.cpu", lower_run, {0})},
    {.name = "StringUpper",
     .sig = "(input:string) -> (output:string) {encoding:string=''}",
     .permute = &td_permute_map,
     .batchable = TD_BATCHABLE(td_batchable_map),
     .infer = case_infer,
     .kernels = TD_KERNEL("string.cpu", upper_run, {0})},
    {.name = "StringStrip",
     .sig = "(input:string) -> (output:string) {}",
     .permute = &td_permute_map,
     .batchable = TD_BATCHABLE(td_batchable_map),
     .infer = td_infer_same,
     .kernels = TD_KERNEL("string.cpu", strip_run, {0})},
    {.name = "StringLength",
     .sig = "(input:string) -> (output:int32) {unit:string='BYTE' in ['BYTE','UTF8_CHAR']}",
     .permute = &td_permute_map,
     .batchable = TD_BATCHABLE(td_batchable_map),
     .infer = td_infer_same,
     .kernels = TD_KERNEL("string.cpu", length_run, {0})},
    {.name = "Substr",
     .sig = "(input:string, pos:T, len:T) -> (output:string) {T:type; unit:string='BYTE' in "
            "['BYTE','UTF8_CHAR']}",
     .permute = &td_permute_elementwise,
     .batchable = TD_BATCHABLE(td_batchable_broadcast),
     .infer = substr_infer,
     .kernels = TD_KERNEL("string.cpu", substr_run, {"T", TD_SET_INDEX})},
    {.name = "StringToHashBucket",
     .sig = "(string_tensor:string) -> (output:int64) {num_buckets:int}",
     .permute = &td_permute_map,
     .batchable = TD_BATCHABLE(td_batchable_map),
     .infer = bucket_infer,
     .kernels = TD_KERNEL("string.cpu", bucket_legacy_run, {0}),
     .grad = td_not_differentiable},
    {.name = "StringToHashBucketFast",
     .sig = "(input:string) -> (output:int64) {num_buckets:int}",
     .permute = &td_permute_map,
     .batchable = TD_BATCHABLE(td_batchable_map),
     .infer = bucket_infer,
     .kernels = TD_KERNEL("string.cpu", bucket_fast_run, {0}),
     .grad = td_not_differentiable},
    {.name = "StringToHashBucketStrong",
     .sig = "(input:string) -> (output:int64) {num_buckets:int; key:list(int)}",
     .permute = &td_permute_map,
     .batchable = TD_BATCHABLE(td_batchable_map),
     .infer = strong_infer,
     .kernels = TD_KERNEL("string.cpu", bucket_strong_run, {0}),
     .grad = td_not_differentiable},
    {.name = NULL},
};
