/* kernels/text/regex.c - StaticRegexReplace, RegexReplace, StaticRegexFullMatch, RegexFullMatch: RE2 over
 * string tensors.
 *
 * The static forms' patterns are compiled once in the process, as long as a bound plan has them (prepare);
 * the others once a call, when the pattern is known. A rewrite that names a group the pattern lacks, or for
 * one match is none, leaves the text as it is. An RE2 object is safe to use from several threads.
 *
 * RE2 finds the matches; what becomes of them is put together here, so that it is charged, bounded and
 * stopped as other strings are.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/compile/permute.h"
#include "core/batchable/batchable_rule.h"
#include "core/base/foreign.h"
#include "core/base/mem.h"
#include "core/base/work.h"
#include "kernels/ops.h"
#include "kernels/text/regex_shim.h"
#include "kernels/text/strbuf.h"

#include <pthread.h>
#include <string.h>

/* ------------------------------------------------------------------ patterns */

static enum td_code compile(const struct td_node *n, struct td_bytes pattern, struct td_regex **out,
                            struct td_err *err)
{
    char why[256];
    *out = td_regex_new(pattern.p, pattern.len, why, sizeof(why));
    TD_FAIL_IF(!*out, err, INVALID_ARGUMENT, "%s: Invalid pattern: %.200s, error: %s", TD_NODE_STR(n),
               pattern.p, why);
    return TD_OK;
}

/* Patterns that a model's nodes spell out, each there once for all who have it: the automata that RE2 builds
 * while it matches are shared as well, and charged by nobody. */
struct kept {
    struct kept *next;
    struct td_regex *regex;
    size_t charged, len;
    int users;
    char pattern[];
};

static struct {
    pthread_mutex_t mu; /* guards the list, and all users */
    struct kept *first;
} all = {.mu = PTHREAD_MUTEX_INITIALIZER};

/* Caller holds all.mu. */
static enum td_code keep(const struct td_node *n, struct td_bytes pattern, struct kept **out,
                         struct td_err *err)
{
    struct kept *k = td_calloc(1, sizeof *k + pattern.len + 1);
    if (k == NULL) {
        return td_no_memory(err, pattern.len, "a pattern");
    }
    memcpy(k->pattern, pattern.p, pattern.len);
    k->len = pattern.len;
    enum td_code rc = compile(n, pattern, &k->regex, err);
    const size_t bytes = rc == TD_OK ? td_regex_program_bytes(k->regex) : 0;
    if (rc == TD_OK && !td_budget_take(bytes)) {
        rc = td_no_memory(err, bytes, "a regular expression");
    }
    if (rc) {
        td_regex_free(k->regex);
        td_free(k);
        return rc;
    }
    k->charged = bytes;
    td_budget_note(TD_MEMORY_LIBRARIES, (int64_t)bytes);
    k->next = all.first;
    all.first = k;
    *out = k;
    return TD_OK;
}

static enum td_code static_prepare(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                   struct td_err *err)
{
    const struct td_bytes pattern = td_attr_bytes(q->node, "pattern");
    enum td_code rc = TD_OK;
    pthread_mutex_lock(&all.mu);
    struct kept *k = all.first;
    while (k != NULL && (k->len != pattern.len || memcmp(k->pattern, pattern.p, pattern.len) != 0)) {
        k = k->next;
    }
    rc = k == NULL ? keep(q->node, pattern, &k, err) : TD_OK;
    if (rc == TD_OK) {
        k->users++;
        o->state = k;
    }
    pthread_mutex_unlock(&all.mu);
    return rc;
}

static void regex_release(void *state)
{
    struct kept *k = state;
    pthread_mutex_lock(&all.mu);
    const bool last = --k->users == 0;
    struct kept **at = &all.first;
    while (last && *at != k) {
        at = &(*at)->next;
    }
    if (last) {
        *at = k->next;
    }
    pthread_mutex_unlock(&all.mu);
    if (last) {
        td_regex_free(k->regex);
        td_budget_give(k->charged);
        td_budget_note(TD_MEMORY_LIBRARIES, -(int64_t)k->charged);
        td_free(k);
    }
}

static const struct td_regex *kept_regex(const struct td_call *c)
{
    return ((const struct kept *)c->state)->regex;
}

/* A pattern that came with the call, charged with all that it may take. */
struct passing {
    struct td_regex *regex;
    struct td_foreign memory;
};

static enum td_code passing_open(const struct td_call *c, struct passing *p, struct td_err *err)
{
    struct td_bytes pattern;
    pattern.p = td_tensor_str(c->in[1], 0, &pattern.len);
    *p = (struct passing){0};
    TD_TRY(td_foreign_take(&p->memory, TD_REGEX_BYTES, "a regular expression", err));
    const enum td_code rc = compile(c->node, pattern, &p->regex, err);
    if (rc) {
        td_foreign_give(&p->memory);
    }
    return rc;
}

static void passing_close(struct passing *p)
{
    td_regex_free(p->regex);
    td_foreign_give(&p->memory);
}

/* ------------------------------------------------------------------ replacing */

/* What each match becomes: \1 is its first group. */
struct rewriting {
    const struct td_regex *regex;
    struct td_bytes to;
    int n_groups; /* 1 + the largest that it names */
    bool all;     /* else the first match only */
};

static int groups_named(struct td_bytes to)
{
    int most = 0;
    for (size_t i = 0; i + 1 < to.len; i++) {
        if (to.p[i] == '\\') {
            i++;
            most = to.p[i] >= '0' && to.p[i] <= '9' && to.p[i] - '0' > most ? to.p[i] - '0' : most;
        }
    }
    return most;
}

/* A backslash with a digit or a backslash behind it. */
static bool is_escape(const char *slash, const char *end)
{
    return slash + 1 < end && (slash[1] == '\\' || (slash[1] >= '0' && slash[1] <= '9'));
}

static bool is_rewrite(struct td_bytes to)
{
    const char *p = to.p, *const end = to.p + to.len;
    while (p < end && (*p != '\\' || is_escape(p, end))) {
        p += *p == '\\' ? 2 : 1;
    }
    return p >= end;
}

/* Up to what is no escape: RE2 stops there, and goes on with the next match. */
static enum td_code put_rewrite(struct td_bytes to, const struct td_regex_span *group, struct td_strbuf *out,
                                struct td_err *err)
{
    for (size_t i = 0; i < to.len;) {
        const char *slash = memchr(to.p + i, '\\', to.len - i);
        const size_t n = slash == NULL ? to.len - i : (size_t)(slash - (to.p + i));
        TD_TRY(td_strbuf_put(out, to.p + i, n, err));
        i += n;
        if (slash != NULL && !is_escape(slash, to.p + to.len)) {
            break;
        }
        if (slash != NULL) {
            const struct td_regex_span one = {slash + 1, 1};
            const struct td_regex_span *s = slash[1] == '\\' ? &one : &group[slash[1] - '0'];
            TD_TRY(td_strbuf_put(out, s->p, s->n, err));
            i += 2;
        }
    }
    return TD_OK;
}

/* Bytes of the character that begins at p: what an empty match steps over. 1 where there is no UTF-8. */
static size_t step_bytes(const char *p, size_t left)
{
    const unsigned char c = (unsigned char)*p, second = left > 1 ? (unsigned char)p[1] : 0;
    const bool longer_than_need_be = (c == 0xe0 && second < 0xa0) || (c == 0xf0 && second < 0x90);
    const bool beyond_unicode = c > 0xf4 || (c == 0xf4 && second > 0x8f);
    const size_t n = c < 0xc2 || longer_than_need_be || beyond_unicode ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
    for (size_t i = 1; i < n; i++) {
        if (i >= left || ((unsigned char)p[i] & 0xc0) != 0x80) {
            return 1;
        }
    }
    return n;
}

/* RE2::Replace and RE2::GlobalReplace: *hit tells whether anything matched; out is then what s becomes. */
static enum td_code rewrite(const struct rewriting *w, const char *s, size_t n, struct td_strbuf *out,
                            bool *hit, struct td_err *err)
{
    struct td_regex_span group[TD_REGEX_GROUPS];
    size_t at = 0, last = SIZE_MAX; /* last: where a match ended */
    *hit = false;
    while (at <= n && (w->all || !*hit)) {
        const int found = td_regex_match(w->regex, s, n, at, group, w->n_groups);
        TD_FAIL_IF(found < 0, err, RESOURCE_EXHAUSTED, "matching a regular expression: no memory");
        if (found == 0) {
            break;
        }
        if (td_work_over()) {
            return td_work_error(td_work_over(), err);
        }
        const size_t begin = (size_t)(group[0].p - s);
        TD_TRY(td_strbuf_put(out, s + at, begin - at, err));
        at = begin;
        if (begin == last && group[0].n == 0) { /* not again where the last match ended: one character on */
            const size_t step = at < n ? step_bytes(s + at, n - at) : 1;
            TD_TRY(td_strbuf_put(out, s + at, at < n ? step : 0, err));
            at += step;
            continue;
        }
        TD_TRY(put_rewrite(w->to, group, out, err));
        at += group[0].n;
        last = at;
        *hit = true;
    }
    return *hit && at < n ? td_strbuf_put(out, s + at, n - at, err) : TD_OK;
}

static enum td_code replace_elements(struct td_call *c, const struct rewriting *w, struct td_tensor *y,
                                     struct td_strbuf *text, struct td_err *err)
{
    const struct td_tensor *x = c->in[0];
    const bool can = w->n_groups <= 1 + td_regex_groups(w->regex) && (w->all || is_rewrite(w->to));
    for (int64_t i = 0, n = td_tensor_count(x); i < n; i++) {
        size_t len;
        const char *s = td_tensor_str(x, i, &len);
        bool hit = false;
        text->n = 0;
        TD_TRY(can ? rewrite(w, s, len, text, &hit, err) : TD_OK);
        if (hit) {
            TD_TRY(td_tensor_set_str(y, i, text->p, text->n, err));
        } else {
            td_elems_copy(TD_STRING, (td_objp *)y->data + i, (td_objp *)x->data + i, 1);
        }
        if (td_stopped(c)) {
            return td_stop_error(c, err);
        }
    }
    return TD_OK;
}

static enum td_code replace_all(struct td_call *c, const struct td_regex *r, struct td_bytes to,
                                struct td_err *err)
{
    const struct rewriting w = {r, to, 1 + groups_named(to), td_attr_bool(c->node, "replace_global")};
    struct td_strbuf text = {0};
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    const enum td_code rc = replace_elements(c, &w, y, &text, err);
    td_strbuf_fini(&text);
    return rc;
}

static enum td_code static_replace_run(struct td_call *c, struct td_err *err)
{
    return replace_all(c, kept_regex(c), td_attr_bytes(c->node, "rewrite"), err);
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
    struct passing p;
    struct td_bytes to;
    to.p = td_tensor_str(c->in[2], 0, &to.len);
    TD_TRY(passing_open(c, &p, err));
    enum td_code rc = replace_all(c, p.regex, to, err);
    passing_close(&p);
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
    return match_all(c, kept_regex(c), err);
}

static enum td_code match_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(scalar_input(c, 1, "Pattern", err));
    return td_infer_same(c, err);
}

static enum td_code match_run(struct td_call *c, struct td_err *err)
{
    struct passing p;
    TD_TRY(passing_open(c, &p, err));
    enum td_code rc = match_all(c, p.regex, err);
    passing_close(&p);
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
