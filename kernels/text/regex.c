/* kernels/text/regex.c - StaticRegexReplace, RegexReplace, StaticRegexFullMatch, RegexFullMatch: RE2 over
 * string tensors.
 *
 * The static forms compile their pattern once a bound plan (prepare); the others once a call, when the
 * pattern is known. A rewrite that names a group the pattern lacks leaves the text as it is. An RE2 object is
 * safe to use from several threads.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/compile/permute.h"
#include "core/batchable/batchable_rule.h"
#include "core/base/mem.h"
#include "core/base/work.h"
#include "kernels/ops.h"
#include "kernels/text/regex_shim.h"

#include <string.h>

static enum td_code compile(const struct td_node *n, const char *pattern, size_t len, struct td_regex **out,
                            struct td_err *err)
{
    char why[256];
    *out = td_regex_new(pattern, len, why, sizeof(why));
    TD_FAIL_IF(!*out, err, INVALID_ARGUMENT, "%s: Invalid pattern: %.200s, error: %s", TD_NODE_STR(n),
               pattern, why);
    return TD_OK;
}

static enum td_code static_prepare(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                   struct td_err *err)
{
    struct td_bytes pattern = td_attr_bytes(q->node, "pattern");
    struct td_regex *r;
    TD_TRY(compile(q->node, pattern.p, pattern.len, &r, err));
    o->state = r;
    return TD_OK;
}

static void regex_release(void *state)
{
    td_regex_free(state);
}

/* ------------------------------------------------------------------ replacing */

static bool is_over(void)
{
    return td_work_over() != TD_OK;
}

static enum td_code replace_all(struct td_call *c, const struct td_regex *r, struct td_bytes rewrite,
                                struct td_err *err)
{
    const struct td_tensor *x = c->in[0];
    const struct td_regex_rewrite to = {rewrite.p, rewrite.len, td_attr_bool(c->node, "replace_global"),
                                        TD_STR_MAX, is_over};
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    for (int64_t i = 0, n = td_tensor_count(x); i < n; i++) {
        size_t len, out_len;
        char *out;
        const char *s = td_tensor_str(x, i, &len);
        int hit = td_regex_replace(r, s, len, &to, &out, &out_len);
        if (hit == TD_REGEX_OVER) {
            return td_work_error(td_work_over(), err);
        }
        TD_FAIL_IF(hit == TD_REGEX_TOO_LONG, err, RESOURCE_EXHAUSTED,
                   "%s: rewriting %zu bytes makes more than %zu, the most that a string may have",
                   TD_NODE_STR(c->node), len, TD_STR_MAX);
        TD_FAIL_IF(hit < 0, err, RESOURCE_EXHAUSTED, "%s: no memory to rewrite %zu bytes",
                   TD_NODE_STR(c->node), len);
        if (hit == 0) {
            td_elems_copy(TD_STRING, (td_objp *)y->data + i, (td_objp *)x->data + i, 1);
            continue;
        }
        enum td_code rc = td_tensor_set_str(y, i, out, out_len, err);
        td_regex_release(out);
        TD_TRY(rc);
        if (td_stopped(c)) {
            return td_stop_error(c, err);
        }
    }
    return TD_OK;
}

static enum td_code static_replace_run(struct td_call *c, struct td_err *err)
{
    return replace_all(c, c->state, td_attr_bytes(c->node, "rewrite"), err);
}

static enum td_code scalar_input(const struct td_infer *c, int i, const char *what, struct td_err *err)
{
    TD_FAIL_IF(c->in[i].rank > 0, err, INVALID_ARGUMENT, "%s: %s must be scalar, but received %s",
               TD_NODE_STR(c->node), what, TD_SHAPE_STR(&c->in[i]));
    return TD_OK;
}

static enum td_code replace_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(scalar_input(c, 1, "Pattern", err));
    TD_TRY(scalar_input(c, 2, "Rewrite", err));
    return td_infer_same(c, err);
}

static enum td_code replace_run(struct td_call *c, struct td_err *err)
{
    struct td_regex *r;
    struct td_bytes pattern, rewrite;
    pattern.p = td_tensor_str(c->in[1], 0, &pattern.len);
    rewrite.p = td_tensor_str(c->in[2], 0, &rewrite.len);
    TD_TRY(compile(c->node, pattern.p, pattern.len, &r, err));
    enum td_code rc = replace_all(c, r, rewrite, err);
    td_regex_free(r);
    return rc;
}

/* ------------------------------------------------------------------ full match */

static enum td_code match_all(struct td_call *c, const struct td_regex *r, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    for (int64_t i = 0, n = td_tensor_count(y); i < n && !td_work_spent(64); i++) {
        size_t len;
        const char *s = td_tensor_str(c->in[0], i, &len);
        int hit = td_regex_full_match(r, s, len);
        TD_FAIL_IF(hit < 0, err, RESOURCE_EXHAUSTED, "%s: no memory to match %zu bytes", TD_NODE_STR(c->node),
                   len);
        TD_DATA(y, td_bool)[i] = (td_bool)hit;
    }
    return TD_OK;
}

static enum td_code static_match_run(struct td_call *c, struct td_err *err)
{
    return match_all(c, c->state, err);
}

static enum td_code match_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(scalar_input(c, 1, "Pattern", err));
    return td_infer_same(c, err);
}

static enum td_code match_run(struct td_call *c, struct td_err *err)
{
    struct td_regex *r;
    size_t n;
    const char *pattern = td_tensor_str(c->in[1], 0, &n);
    TD_TRY(compile(c->node, pattern, n, &r, err));
    enum td_code rc = match_all(c, r, err);
    td_regex_free(r);
    return rc;
}

static const struct td_kernel static_replace_kernels[] = {
    {.name = "regex.re2", .prepare = static_prepare, .release = regex_release, .run = static_replace_run},
    {.name = NULL},
};

static const struct td_kernel static_match_kernels[] = {
    {.name = "regex.re2", .prepare = static_prepare, .release = regex_release, .run = static_match_run},
    {.name = NULL},
};

const struct td_op td_ops_regex[] = {
    {.name = "StaticRegexReplace",
     .sig = "(input:string) -> (output:string) {pattern:string; rewrite:string; replace_global:bool=true}",
     .permute = &td_permute_map,
     .batchable = TD_BATCHABLE(td_batchable_map),
     .infer = td_infer_same,
     .kernels = static_replace_kernels},
    {.name = "RegexReplace",
     .sig = "(input:string, pattern:string, rewrite:string) -> (output:string) {replace_global:bool=true}",
     .permute = &td_permute_map,
     .batchable = TD_BATCHABLE(td_batchable_map),
     .infer = replace_infer,
     .kernels = TD_KERNEL("regex.re2", replace_run, {0}),
     .grad = td_not_differentiable},
    {.name = "StaticRegexFullMatch",
     .sig = "(input:string) -> (output:bool) {pattern:string}",
     .permute = &td_permute_map,
     .batchable = TD_BATCHABLE(td_batchable_map),
     .infer = td_infer_same,
     .kernels = static_match_kernels},
    {.name = "RegexFullMatch",
     .sig = "(input:string, pattern:string) -> (output:bool) {}",
     .permute = &td_permute_map,
     .batchable = TD_BATCHABLE(td_batchable_map),
     .infer = match_infer,
     .kernels = TD_KERNEL("regex.re2", match_run, {0})},
    {.name = NULL},
};
