/* kernels/control/checks.c - Assert, CheckNumerics, Print and PrintV2.
 *
 * Values appear in texts as TensorFlow writes them (kernels/text/summarize.h). Printing goes through
 * td_print, which limits its rate; a print to a file is refused unless the model may write there.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/disk.h"
#include "core/batchable/batchable_rule.h"
#include "kernels/control/pass_grad.h"
#include "kernels/ops.h"
#include "kernels/text/summarize.h"
#include "kernels/cpu/upcast.h"

#include <math.h>
#include <stdio.h>

/* Longest text of one message; the rest is cut. */
#define TEXT_LIMIT ((size_t)1 << 20)

/* Appends the inputs from the second on, each behind `open` and before "]". */
static enum td_code put_inputs(const struct td_call *c, const char *open, struct td_strbuf *b,
                               struct td_err *err)
{
    for (int i = 1; i < c->n_in; i++) {
        TD_TRY(td_strbuf_puts(b, open, err));
        TD_TRY(td_summarize_v1(b, c->in[i], td_attr_int(c->node, "summarize"), err));
        TD_TRY(td_strbuf_putc(b, ']', err));
    }
    return TD_OK;
}

/* A message that does not fit is printed as far as it does. */
static void or_cut(enum td_code rc)
{
    (void)rc;
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
    struct td_strbuf b = {.limit = TEXT_LIMIT};
    struct td_err cut = {0};
    or_cut(put_inputs(c, " [", &b, &cut));
    enum td_code rc = td_fail(err, TD_INVALID_ARGUMENT, "assertion failed:%.*s\n\t [[%s]]", (int)b.n,
                              b.n > 0 ? b.p : "", TD_NODE_STR(c->node));
    td_strbuf_fini(&b);
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
        note(&f, td_upcast_at(x, i));
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

static enum td_code put_line(struct td_call *c, struct td_strbuf *b, struct td_err *cut)
{
    struct td_bytes message = td_attr_bytes(c->node, "message");
    TD_TRY(td_strbuf_put(b, message.p, message.len, cut));
    TD_TRY(put_inputs(c, "[", b, cut));
    return td_strbuf_putc(b, '\n', cut);
}

static enum td_code print_run(struct td_call *c, struct td_err *err)
{
    bool may;
    TD_TRY(td_out_view(c, 0, 0, NULL, err));
    TD_TRY(may_print(c, &may, err));
    if (!may) {
        return TD_OK;
    }
    struct td_strbuf b = {.limit = TEXT_LIMIT};
    struct td_err cut = {0};
    or_cut(put_line(c, &b, &cut));
    td_print(c, "stderr", b.n > 0 ? b.p : "", b.n);
    td_strbuf_fini(&b);
    return TD_OK;
}

static enum td_code print_v2_infer(struct td_infer *c, struct td_err *err)
{
    return td_infer_rank(c, 0, 0, err);
}

static enum td_code print_to_file(struct td_call *c, const char *path, const struct td_strbuf *b,
                                  struct td_err *err)
{
    char file[4096];
    TD_TRY(td_file_path(c, path, strlen(path), true, file, sizeof file, err));
    FILE *f = fopen(file, "ae");
    TD_FAIL_IF(!f, err, INVALID_ARGUMENT, "%s: cannot open '%s' for printing", TD_NODE_STR(c->node), path);
    bool good = b->n == 0 || fwrite(b->p, 1, b->n, f) == b->n;
    good &= fclose(f) == 0;
    TD_FAIL_IF(!good, err, INTERNAL, "%s: writing to '%s' fell short", TD_NODE_STR(c->node), path);
    return TD_OK;
}

static enum td_code print_v2_run(struct td_call *c, struct td_err *err)
{
    static const char *const streams[] = {"stdout", "stderr", "log(info)", "log(warning)", "log(error)"};
    const char *stream = td_attr_str(c->node, "output_stream");
    struct td_bytes end = td_attr_bytes(c->node, "end");
    struct td_strbuf b = {.limit = TEXT_LIMIT};
    struct td_err cut = {0};
    size_t len;
    const char *s = td_tensor_str(c->in[0], 0, &len);
    enum td_code rc = td_strbuf_put(&b, s, len, &cut);
    or_cut(rc ? rc : td_strbuf_put(&b, end.p, end.len, &cut));
    bool known = false;
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++) {
        known |= strcmp(stream, streams[i]) == 0;
    }
    rc = TD_OK;
    if (known) {
        td_print(c, stream, b.n > 0 ? b.p : "", b.n);
    } else if (strncmp(stream, "file://", 7) == 0) {
        rc = print_to_file(c, stream + 7, &b, err);
    } else {
        rc = td_fail(err, TD_INVALID_ARGUMENT,
                     "%s: Unknown output stream: %s, want stdout, stderr, log(...), file://",
                     TD_NODE_STR(c->node), stream);
    }
    td_strbuf_fini(&b);
    return rc;
}

/* ------------------------------------------------------------------ batches */

static bool check_rows(struct td_batchable_step *s)
{
    if (s->in[0].kind == TD_VALUE_UNSET) {
        return true;
    }
    for (int o = 0; o < s->n_out; o++) {
        s->out[o].kind = TD_VALUE_CONST;
    }
    return s->in[0].kind == TD_VALUE_CONST ||
           td_batchable_no(s, "it may fail for one request, and with it all others of a batch");
}

/* ------------------------------------------------------------------ the table */

const struct td_op td_ops_checks[] = {
    {.name = "Assert",
     .sig = "(condition:bool, data:T) -> () {T:list(type); summarize:int=3}",
     .flags = TD_OP_STATEFUL | TD_OP_CHECKS,
     .batchable = TD_BATCHABLE(check_rows, .any_input = true),
     .host_in = 3,
     .infer = assert_infer,
     .kernels = TD_KERNEL("assert.cpu", assert_run),
     .grad = td_not_differentiable},
    {.name = "CheckNumerics",
     .sig = "(tensor:T) -> (output:T) {T:type; message:string}",
     .flags = TD_OP_STATEFUL | TD_OP_VIEW | TD_OP_CHECKS,
     .batchable = TD_BATCHABLE(check_rows, .any_input = true),
     .infer = td_infer_same,
     .kernels = TD_KERNEL("check_numerics.cpu", check_numerics_run, {"T", TD_SET_FLOATS}),
     .grad = td_check_numerics_grad},
    {.name = "CheckNumericsV2",
     .sig = "(tensor:T) -> (output:T) {T:type; message:string}",
     .flags = TD_OP_STATEFUL | TD_OP_VIEW | TD_OP_CHECKS,
     .batchable = TD_BATCHABLE(check_rows, .any_input = true),
     .infer = td_infer_same,
     .kernels = TD_KERNEL("check_numerics.cpu", check_numerics_v2_run, {"T", TD_SET_FLOATS}),
     .grad = td_check_numerics_grad},
    {.name = "Print",
     .sig = "(input:T, data:U) -> (output:T) {T:type; U:list(type); message:string=''; first_n:int=-1; "
            "summarize:int=3}",
     .flags = TD_OP_STATEFUL | TD_OP_VIEW,
     .host_in = 3,
     .infer = td_infer_same,
     .kernels = TD_KERNEL("print.cpu", print_run),
     .grad = td_print_grad},
    {.name = "PrintV2",
     .sig = "(input:string) -> () {output_stream:string='stderr'; end:string='\\n'}",
     .flags = TD_OP_STATEFUL,
     .host_in = 1,
     .infer = print_v2_infer,
     .kernels = TD_KERNEL("print.cpu", print_v2_run),
     .grad = td_not_differentiable},
    {.name = NULL},
};
