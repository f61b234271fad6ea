/* kernels/text/string_split.c - StringSplit, StringSplitV2 and StringNGrams: strings into ragged rows of
 * strings.
 *
 * The splits count tokens in a first pass and store them in a second, so that nothing is kept in between:
 *   input [n]  ->  indices [tokens, 2], values [tokens], shape [2] = [n, longest row]
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/mem.h"
#include "kernels/ops.h"
#include "kernels/text/strbuf.h"

#include <string.h>

/* ------------------------------------------------------------------ one string into tokens */

struct splitter {
    const char *sep;
    size_t n_sep;
    int64_t maxsplit; /* < 0: no limit */
    bool set[256];    /* version 1: bytes that separate */
    bool skip_empty;
    bool any; /* version 1: sep was not empty */
};

struct cursor {
    const char *s;
    size_t n, at;
    int64_t splits;
    bool done;
};

/* Next token of cu; false at the end. */
typedef bool next_fn(const struct splitter *sp, struct cursor *cu, const char **token, size_t *n);

static bool is_space(char ch)
{
    return ch == ' ' || (ch >= '\t' && ch <= '\r');
}

/* Runs of white space separate; nothing empty comes out, but for the rest behind the last split allowed. */
static bool next_word(const struct splitter *sp, struct cursor *cu, const char **token, size_t *n)
{
    if (cu->done) {
        return false;
    }
    while (cu->at < cu->n && is_space(cu->s[cu->at])) {
        cu->at++;
    }
    *token = cu->s + cu->at;
    if (sp->maxsplit > 0 && cu->splits == sp->maxsplit) {
        cu->done = true;
        *n = cu->n - cu->at;
        return true;
    }
    size_t from = cu->at;
    while (cu->at < cu->n && !is_space(cu->s[cu->at])) {
        cu->at++;
    }
    *n = cu->at - from;
    cu->splits++;
    return *n > 0;
}

static bool next_sep(const struct splitter *sp, struct cursor *cu, const char **token, size_t *n)
{
    if (cu->done) {
        return false;
    }
    size_t left = cu->n - cu->at;
    const char *from = cu->s + cu->at;
    const char *hit =
        sp->maxsplit > 0 && cu->splits == sp->maxsplit ? NULL : memmem(from, left, sp->sep, sp->n_sep);
    *token = from;
    *n = hit ? (size_t)(hit - from) : left;
    cu->done = !hit;
    cu->at += *n + sp->n_sep;
    cu->splits++;
    return true;
}

/* No split allowed: the string as it is. */
static bool next_whole(const struct splitter *sp, struct cursor *cu, const char **token, size_t *n)
{
    (void)sp;
    bool more = !cu->done;
    *token = cu->s;
    *n = cu->n;
    cu->done = true;
    return more;
}

/* Version 1: an empty delimiter gives single bytes, else each byte of it separates. */
static bool next_v1(const struct splitter *sp, struct cursor *cu, const char **token, size_t *n)
{
    while (!cu->done && cu->at <= cu->n) {
        size_t from = cu->at;
        if (!sp->any) {
            cu->at++;
            *token = cu->s + from;
            *n = 1;
            return from < cu->n;
        }
        while (cu->at < cu->n && !sp->set[(unsigned char)cu->s[cu->at]]) {
            cu->at++;
        }
        *token = cu->s + from;
        *n = cu->at - from;
        cu->done = cu->at == cu->n;
        cu->at++;
        if (*n > 0 || !sp->skip_empty) {
            return cu->n > 0;
        }
    }
    return false;
}

/* ------------------------------------------------------------------ the two ops */

static enum td_code split_infer(struct td_infer *c, struct td_err *err)
{
    TD_FAIL_IF(c->in[0].rank >= 0 && c->in[0].rank != 1, err, INVALID_ARGUMENT,
               "%s: input must be a vector, got shape: %s", TD_NODE_STR(c->node), TD_SHAPE_STR(&c->in[0]));
    TD_FAIL_IF(c->in[1].rank > 0, err, INVALID_ARGUMENT, "%s: %s must be a scalar, got shape: %s",
               TD_NODE_STR(c->node), c->node->def->in[1].name, TD_SHAPE_STR(&c->in[1]));
    c->out[0] = td_shape_matrix(-1, 2);
    c->out[1] = td_shape_vector(-1);
    c->out[2] = td_shape_vector(2);
    return TD_OK;
}

static void count_chunks(const struct td_tensor *x, const struct splitter *sp, next_fn *next, int64_t *total,
                         int64_t *longest)
{
    const char *token;
    size_t n;
    *total = *longest = 0;
    for (int64_t i = 0, rows = td_tensor_count(x); i < rows; i++) {
        struct cursor cu = {0};
        int64_t here = 0;
        cu.s = td_tensor_str(x, i, &cu.n);
        while (next(sp, &cu, &token, &n)) {
            here++;
        }
        *total += here;
        *longest = here > *longest ? here : *longest;
    }
}

static enum td_code split(struct td_call *c, const struct splitter *sp, next_fn *next, struct td_err *err)
{
    const struct td_tensor *x = c->in[0];
    struct td_tensor *indices, *values, *shape;
    int64_t total, longest, at = 0;
    count_chunks(x, sp, next, &total, &longest);
    TD_TRY(td_out(c, 0, &(struct td_shape){2, {total, 2}}, &indices, err));
    TD_TRY(td_out(c, 1, &(struct td_shape){1, {total}}, &values, err));
    TD_TRY(td_out(c, 2, NULL, &shape, err));
    TD_DATA(shape, int64_t)[0] = td_tensor_count(x);
    TD_DATA(shape, int64_t)[1] = longest;
    for (int64_t i = 0, rows = td_tensor_count(x); i < rows; i++) {
        struct cursor cu = {0};
        const char *token;
        size_t n;
        cu.s = td_tensor_str(x, i, &cu.n);
        for (int64_t k = 0; next(sp, &cu, &token, &n); k++, at++) {
            TD_DATA(indices, int64_t)[2 * at] = i;
            TD_DATA(indices, int64_t)[2 * at + 1] = k;
            TD_TRY(td_tensor_set_str(values, at, token, n, err));
        }
    }
    return TD_OK;
}

static enum td_code split_v1_run(struct td_call *c, struct td_err *err)
{
    struct splitter sp = {.skip_empty = td_attr_bool(c->node, "skip_empty")};
    sp.sep = td_tensor_str(c->in[1], 0, &sp.n_sep);
    sp.any = sp.n_sep > 0;
    for (size_t i = 0; i < sp.n_sep; i++) {
        sp.set[(unsigned char)sp.sep[i]] = true;
    }
    return split(c, &sp, next_v1, err);
}

static enum td_code split_v2_run(struct td_call *c, struct td_err *err)
{
    struct splitter sp = {.maxsplit = td_attr_int(c->node, "maxsplit")};
    sp.sep = td_tensor_str(c->in[1], 0, &sp.n_sep);
    return split(c, &sp, sp.maxsplit == 0 ? next_whole : sp.n_sep ? next_sep : next_word, err);
}

/* ------------------------------------------------------------------ StringNGrams
 *
 * data [n], splits [rows + 1]  ->  ngrams [m], splits of them. Each row counts as if pad left pads stood
 * before and pad right pads behind it; every window of each width over that is one n-gram. */

struct ngrams {
    struct td_bytes sep, left, right;
    const int64_t *widths;
    int n_widths;
    int64_t pad;
    bool preserve;
};

static int64_t pad_of(const struct ngrams *g, int64_t width)
{
    return g->pad < 0 || g->pad > width - 1 ? width - 1 : g->pad;
}

/* INT64_MAX / 4 bounds every width, so that nothing here overflows. */
static int64_t windows(const struct ngrams *g, int64_t length, int64_t width)
{
    int64_t n = length + 2 * pad_of(g, width) - width + 1;
    return n > 0 ? n : 0;
}

static enum td_code ngrams_infer(struct td_infer *c, struct td_err *err)
{
    int n;
    const int64_t *w = td_attr_ints(c->node, "ngram_widths", &n);
    for (int i = 0; i < n; i++) {
        TD_FAIL_IF(w[i] < 1 || w[i] > INT64_C(1) << 31, err, INVALID_ARGUMENT,
                   "%s: ngram_widths must contain positive values, got %lld", TD_NODE_STR(c->node),
                   (long long)w[i]);
    }
    c->out[0] = td_shape_vector(-1);
    c->out[1] = c->in[1];
    return TD_OK;
}

static enum td_code check_splits(const struct td_call *c, struct td_err *err)
{
    const struct td_tensor *splits = c->in[1];
    int64_t n = td_tensor_count(c->in[0]), rows = td_tensor_count(splits) - 1;
    int64_t last = td_tensor_int(splits, 0);
    TD_FAIL_IF(last != 0, err, INVALID_ARGUMENT, "%s: First split value must be 0, got %lld",
               TD_NODE_STR(c->node), (long long)last);
    for (int64_t i = 1; i <= rows; i++) {
        int64_t v = td_tensor_int(splits, i);
        TD_FAIL_IF(v < last || v > n, err, INVALID_ARGUMENT,
                   "%s: Invalid split value %lld, must be in [%lld, %lld]", TD_NODE_STR(c->node),
                   (long long)v, (long long)last, (long long)n);
        last = v;
    }
    TD_FAIL_IF(last != n, err, INVALID_ARGUMENT,
               "%s: Last split value must be data size. Expected %lld, got %lld", TD_NODE_STR(c->node),
               (long long)n, (long long)last);
    return TD_OK;
}

static enum td_code put_part(struct td_strbuf *b, bool *first, struct td_bytes sep, const char *s, size_t n,
                             struct td_err *err)
{
    if (!*first) {
        TD_TRY(td_strbuf_put(b, sep.p, sep.len, err));
    }
    *first = false;
    return td_strbuf_put(b, s, n, err);
}

/* All windows of one width over a row of tokens: data[from..). */
struct row_windows {
    const struct td_tensor *data;
    int64_t from, width, n; /* n: windows */
};

/* Where n-grams go: to y from element `at` on. */
struct writer {
    struct td_tensor *y;
    int64_t at;
    struct td_strbuf text; /* scratch */
};

/* Window i: pads, tokens, pads, joined. */
static enum td_code join_window(const struct ngrams *g, const struct row_windows *w, int64_t i,
                                struct td_strbuf *b, struct td_err *err)
{
    int64_t pad = pad_of(g, w->width), behind = w->n - i - 1;
    int64_t left = pad > i ? pad - i : 0, right = pad > behind ? pad - behind : 0;
    int64_t tokens = w->width - left - right, start = left > 0 ? 0 : i - pad;
    bool first = true;
    b->n = 0;
    for (int64_t k = 0; k < left; k++) {
        TD_TRY(put_part(b, &first, g->sep, g->left.p, g->left.len, err));
    }
    for (int64_t k = 0; k < tokens; k++) {
        size_t len;
        const char *s = td_tensor_str(w->data, w->from + start + k, &len);
        TD_TRY(put_part(b, &first, g->sep, s, len, err));
    }
    for (int64_t k = 0; k < right; k++) {
        TD_TRY(put_part(b, &first, g->sep, g->right.p, g->right.len, err));
    }
    return TD_OK;
}

static enum td_code put_windows(const struct ngrams *g, const struct row_windows *w, struct writer *to,
                                struct td_err *err)
{
    const struct td_strbuf *b = &to->text;
    for (int64_t i = 0; i < w->n; i++) {
        TD_TRY(join_window(g, w, i, &to->text, err));
        TD_TRY(td_tensor_set_str(to->y, to->at++, b->n ? b->p : "", b->n, err));
    }
    return TD_OK;
}

/* N-grams of a row of `length` tokens; *short_width is set when it yields only the whole padded row. */
static enum td_code count_row(const struct td_call *c, const struct ngrams *g, int64_t length, int64_t *count,
                              int64_t *short_width, struct td_err *err)
{
    *count = *short_width = 0;
    for (int k = 0; k < g->n_widths; k++) {
        *count += windows(g, length, g->widths[k]);
    }
    if (*count == 0 && g->preserve && length > 0) {
        TD_FAIL_IF(
            g->pad < 0, err, INVALID_ARGUMENT,
            "%s: Pad width should be >= 0 when preserve_short_sequences is True and ngram_widths are not "
            "provided, got %lld",
            TD_NODE_STR(c->node), (long long)g->pad);
        *short_width = length + 2 * g->pad;
        *count = 1;
    }
    return TD_OK;
}

static enum td_code fill_rows(struct td_call *c, const struct ngrams *g, struct writer *to,
                              struct td_err *err)
{
    int64_t rows = td_tensor_count(c->in[1]) - 1;
    for (int64_t i = 0; i < rows; i++) {
        int64_t from = td_tensor_int(c->in[1], i), length = td_tensor_int(c->in[1], i + 1) - from, count,
                whole;
        TD_TRY(count_row(c, g, length, &count, &whole, err));
        if (whole) {
            TD_TRY(put_windows(g, &(struct row_windows){c->in[0], from, whole, 1}, to, err));
            continue;
        }
        for (int k = 0; k < g->n_widths; k++) {
            struct row_windows w = {c->in[0], from, g->widths[k], windows(g, length, g->widths[k])};
            TD_TRY(put_windows(g, &w, to, err));
        }
        if (td_stopped(c)) {
            return td_stop_error(c, err);
        }
    }
    return TD_OK;
}

/* Nothing to do without data, or without splits (then TensorFlow answers an empty string for each element of
 * data). */
static enum td_code ngrams_empty(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y, *splits;
    TD_TRY(td_out(c, 0, &(struct td_shape){1, {td_tensor_count(c->in[0])}}, &y, err));
    TD_TRY(td_out(c, 1, NULL, &splits, err));
    if (td_tensor_bytes(splits)) {
        memset(splits->data, 0, td_tensor_bytes(splits));
    }
    return TD_OK;
}

static enum td_code ngrams_run(struct td_call *c, struct td_err *err)
{
    struct ngrams g = {.sep = td_attr_bytes(c->node, "separator"),
                       .left = td_attr_bytes(c->node, "left_pad"),
                       .right = td_attr_bytes(c->node, "right_pad"),
                       .pad = td_attr_int(c->node, "pad_width"),
                       .preserve = td_attr_bool(c->node, "preserve_short_sequences")};
    g.widths = td_attr_ints(c->node, "ngram_widths", &g.n_widths);
    g.pad = g.pad > INT64_C(1) << 31 ? INT64_C(1) << 31 : g.pad;
    int64_t rows = td_tensor_count(c->in[1]) - 1, total = 0;
    if (rows >= 0) {
        TD_TRY(check_splits(c, err));
    }
    if (rows < 0 || td_tensor_count(c->in[0]) == 0) {
        return ngrams_empty(c, err);
    }
    struct td_tensor *y, *splits;
    TD_TRY(td_out(c, 1, NULL, &splits, err));
    td_tensor_set_int(splits, 0, 0);
    for (int64_t i = 0; i < rows; i++) {
        int64_t count, whole;
        TD_TRY(count_row(c, &g, td_tensor_int(c->in[1], i + 1) - td_tensor_int(c->in[1], i), &count, &whole,
                         err));
        total += count;
        TD_FAIL_IF(splits->dtype == TD_INT32 && total > INT32_MAX, err, INVALID_ARGUMENT,
                   "%s: %lld n-grams, more than splits of type int32 can count", TD_NODE_STR(c->node),
                   (long long)total);
        td_tensor_set_int(splits, i + 1, total);
    }
    TD_TRY(td_out(c, 0, &(struct td_shape){1, {total}}, &y, err));
    struct writer to = {.y = y};
    enum td_code rc = fill_rows(c, &g, &to, err);
    td_strbuf_fini(&to.text);
    return rc;
}

const struct td_op td_ops_string_split[] = {
    {.name = "StringSplit",
     .sig = "(input:string, delimiter:string) -> (indices:int64, values:string, shape:int64) "
            "{skip_empty:bool=true}",
     .infer = split_infer,
     .kernels = TD_KERNEL("string_split.cpu", split_v1_run, {0}),
     .grad = td_not_differentiable},
    {.name = "StringSplitV2",
     .sig = "(input:string, sep:string) -> (indices:int64, values:string, shape:int64) {maxsplit:int=-1}",
     .infer = split_infer,
     .kernels = TD_KERNEL("string_split.cpu", split_v2_run, {0})},
    {.name = "StringNGrams",
     .sig = "(data:string, data_splits:Tsplits) -> (ngrams:string, ngrams_splits:Tsplits) {separator:string; "
            "ngram_widths:list(int); left_pad:string; right_pad:string; pad_width:int; "
            "preserve_short_sequences:bool; Tsplits:type=int64}",
     .infer = ngrams_infer,
     .kernels = TD_KERNEL("string_split.cpu", ngrams_run, {"Tsplits", TD_SET_INDEX})},
    {.name = NULL},
};
