/* kernels/nn/ctc.c - connectionist temporal classification: the loss and its gradient, and the greedy
 * decoder.
 *
 *     inputs [T,B,C] logits, sparse labels, sequence_length [B]  ->  loss [B], gradient [T,B,C]
 *
 * A label sequence l of n labels is read as l' = blank l1 blank l2 .. ln blank. alpha(u,t) is the log
 * probability of all ways to have emitted l'[0..u] by step t (with t's emission), beta(u,t) of finishing from
 * there (without it), so
 *
 *     log p = sum over u of alpha(u,t) + beta(u,t)  at any t
 *     d loss / d logit = y - sum over l'[u]=c of exp(alpha+beta-log p)
 *
 * (Graves et al. 2006). All in double logarithms. blank is the last class, or class 0 for CTCLossV2. The beam
 * search is in ctc_beam.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "core/base/mem.h"
#include "kernels/formula/formula.h"
#include "kernels/ops.h"
#include "kernels/cpu/upcast.h"

/* ------------------------------------------------------------------ shapes */

static enum td_code inputs_and_lengths(const struct td_infer *c, int lengths, int64_t *batch,
                                       struct td_err *err)
{
    const struct td_shape *x = &c->in[0], *s = &c->in[lengths];
    TD_FAIL_IF(x->rank >= 0 && x->rank != 3, err, INVALID_ARGUMENT, "%s: inputs is not a 3-Tensor, got %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(x));
    TD_FAIL_IF(s->rank >= 0 && s->rank != 1, err, INVALID_ARGUMENT,
               "%s: sequence_length is not a vector, got %s", TD_NODE_STR(c->node), TD_SHAPE_STR(s));
    TD_FAIL_IF(x->rank == 3 && (x->dim[0] == 0 || x->dim[1] == 0 || x->dim[2] == 0), err, INVALID_ARGUMENT,
               "%s: inputs %s must not be empty: at least one step, one sequence and one class",
               TD_NODE_STR(c->node), TD_SHAPE_STR(x));
    *batch = x->rank == 3 ? x->dim[1] : s->rank == 1 ? s->dim[0] : -1;
    TD_FAIL_IF(x->rank == 3 && s->rank == 1 && x->dim[1] >= 0 && s->dim[0] >= 0 && x->dim[1] != s->dim[0],
               err, INVALID_ARGUMENT,
               "%s: len(sequence_length) != batch_size. len(sequence_length): %lld batch_size: %lld",
               TD_NODE_STR(c->node), (long long)s->dim[0], (long long)x->dim[1]);
    return TD_OK;
}

static enum td_code loss_infer(struct td_infer *c, struct td_err *err)
{
    int64_t batch;
    TD_TRY(inputs_and_lengths(c, 3, &batch, err));
    const struct td_shape *i = &c->in[1], *v = &c->in[2];
    TD_FAIL_IF((i->rank >= 0 && i->rank != 2) || (i->rank == 2 && i->dim[1] >= 0 && i->dim[1] != 2), err,
               INVALID_ARGUMENT, "%s: labels_indices is not a matrix of 2 columns, got %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(i));
    TD_FAIL_IF((v->rank >= 0 && v->rank != 1) || (v->rank == 1 && i->rank == 2 && v->dim[0] >= 0 &&
                                                  i->dim[0] >= 0 && v->dim[0] != i->dim[0]),
               err, INVALID_ARGUMENT, "%s: labels_values %s and labels_indices %s must have equal length",
               TD_NODE_STR(c->node), TD_SHAPE_STR(v), TD_SHAPE_STR(i));
    c->out[0] = td_shape_vector(batch);
    c->out[1] = c->in[0];
    return TD_OK;
}

static enum td_code greedy_infer(struct td_infer *c, struct td_err *err)
{
    int64_t batch, blank = td_attr_int(c->node, "blank_index");
    TD_TRY(inputs_and_lengths(c, 1, &batch, err));
    int64_t classes = c->in[0].rank == 3 ? c->in[0].dim[2] : -1;
    TD_FAIL_IF(classes >= 0 && (blank < -classes || blank >= classes), err, INVALID_ARGUMENT,
               "%s: blank_index expected to be between %lld and %lld but was %lld", TD_NODE_STR(c->node),
               (long long)-classes, (long long)(classes - 1), (long long)blank);
    c->out[0] = td_shape_matrix(-1, 2);
    c->out[1] = td_shape_of_rank(1);
    c->out[2] = td_shape_vector(2);
    c->out[3] = td_shape_matrix(batch, 1);
    return TD_OK;
}

/* ------------------------------------------------------------------ loss */

static double log_add(double a, double b)
{
    double top = fmax(a, b), low = fmin(a, b);
    return low == -INFINITY ? top : top + log1p(exp(low - top));
}

struct loss {
    int64_t steps, classes, blank;
    bool collapse, merge, ignore_longer;
    const int64_t *indices;
    const int32_t *values;
    int64_t n_labels;
    int32_t *label;           /* of the sequence at hand, then l' */
    double *alpha, *beta, *y; /* [length of l'][steps] twice, log softmax [classes][steps] */
};

/* Where the labels of sequence b lie in the sorted indices. */
static enum td_code label_range(const struct td_call *c, const struct loss *s, int64_t b, int64_t *from,
                                int64_t *to, struct td_err *err)
{
    while (*from < s->n_labels && s->indices[2 * *from] < b) {
        (*from)++;
    }
    *to = *from;
    while (*to < s->n_labels && s->indices[2 * *to] == b) {
        (*to)++;
    }
    TD_FAIL_IF(*to == *from, err, INVALID_ARGUMENT, "%s: Labels length is zero in batch %lld",
               TD_NODE_STR(c->node), (long long)b);
    return TD_OK;
}

/* l' of labels [from, to): its length, an odd number. Classes from the blank on end the sequence. */
static enum td_code expand(const struct td_call *c, const struct loss *s, int64_t b, int64_t from, int64_t to,
                           int64_t *n_out, struct td_err *err)
{
    int64_t n = 0;
    bool ended = false;
    for (int64_t i = from; i < to; i++) {
        int32_t l = s->values[i];
        TD_FAIL_IF(l < 0, err, INVALID_ARGUMENT,
                   "%s: All labels must be nonnegative integers, batch: %lld labels: %d",
                   TD_NODE_STR(c->node), (long long)b, l);
        if (s->collapse && i > from && l == s->values[i - 1]) {
            continue;
        }
        bool null = s->blank == 0 ? l == 0 || l >= s->classes : l >= s->classes - 1;
        TD_FAIL_IF(!null && ended, err, INVALID_ARGUMENT,
                   "%s: Saw a non-null label (index >= num_classes - 1) following a null label, batch: %lld "
                   "num_classes: "
                   "%lld label: %d",
                   TD_NODE_STR(c->node), (long long)b, (long long)s->classes, l);
        ended = ended || null;
        if (!null) {
            s->label[n++] = (int32_t)s->blank;
            s->label[n++] = l;
        }
    }
    s->label[n++] = (int32_t)s->blank;
    *n_out = n;

    return TD_OK;
}

static void log_softmax(const struct loss *s, const double *x, int64_t stride, int64_t steps)
{
    for (int64_t t = 0; t < steps; t++) {
        double top = -INFINITY, sum = 0;
        for (int64_t k = 0; k < s->classes; k++) {
            top = fmax(top, x[t * stride + k]);
        }
        for (int64_t k = 0; k < s->classes; k++) {
            sum += exp(x[t * stride + k] - top);
        }
        for (int64_t k = 0; k < s->classes; k++) {
            s->y[k * steps + t] = x[t * stride + k] - top - log(sum);
        }
    }
}

/* May one step from l'[u] skip l'[u+1]? Over the blank between different labels; also equal ones when not
 * merging. */
static bool may_skip(const struct loss *s, int64_t u)
{
    return s->label[u + 2] != s->blank && !(s->merge && s->label[u] == s->label[u + 2]);
}

static void forward(const struct loss *s, int64_t n, int64_t steps)
{
    for (int64_t t = 0; t < steps; t++) {
        for (int64_t u = 0; u < n; u++) {
            const double *before = s->alpha + t - 1;
            double sum = t == 0 && u < 2 ? 0 : -INFINITY;
            if (t > 0 && (s->merge || s->label[u] == s->blank)) {
                sum = before[u * steps];
            }
            if (t > 0 && u > 0) {
                sum = log_add(sum, before[(u - 1) * steps]);
            }
            if (t > 0 && u > 1 && may_skip(s, u - 2)) {
                sum = log_add(sum, before[(u - 2) * steps]);
            }
            s->alpha[u * steps + t] = sum + s->y[s->label[u] * steps + t];
        }
    }
}

static void backward(const struct loss *s, int64_t n, int64_t steps)
{
    for (int64_t t = steps - 1; t >= 0; t--) {
        for (int64_t u = n - 1; u >= 0; u--) {
            double sum = t == steps - 1 && u >= n - 2 ? 0 : -INFINITY;
            for (int64_t v = u; t < steps - 1 && v < n && v <= u + 2; v++) {
                bool stays = v == u && (s->merge || s->label[u] == s->blank);
                if (stays || v == u + 1 || (v == u + 2 && may_skip(s, u))) {
                    sum = log_add(sum, s->beta[v * steps + t + 1] + s->y[s->label[v] * steps + t + 1]);
                }
            }
            s->beta[u * steps + t] = sum;
        }
    }
}

/* Loss of one sequence of logits x (rows `stride` apart); adds nothing beyond `steps` of the gradient. */
static double one_loss(const struct loss *s, const double *x, int64_t stride, int64_t n, int64_t steps,
                       double *dx)
{
    log_softmax(s, x, stride, steps);
    forward(s, n, steps);
    backward(s, n, steps);
    double log_p = -INFINITY;
    for (int64_t u = 0; u < n; u++) {
        log_p = log_add(log_p, s->alpha[u * steps] + s->beta[u * steps]);
    }
    for (int64_t t = 0; t < steps; t++) {
        for (int64_t k = 0; k < s->classes; k++) {
            dx[t * stride + k] = exp(s->y[k * steps + t]);
        }
        for (int64_t u = 0; u < n && log_p != -INFINITY; u++) {
            dx[t * stride + s->label[u]] -= exp(s->alpha[u * steps + t] + s->beta[u * steps + t] - log_p);
        }
    }
    return -log_p;
}

static enum td_code loss_room(struct td_call *c, struct loss *s, struct td_err *err)
{
    size_t longest = 2 * (size_t)s->n_labels + 1, cells;
    void *room;
    TD_TRY(td_scratch(c, longest * sizeof(int32_t), &room, err));
    s->label = room;
    /* a sequence that is used is no longer than its time */
    size_t rows = longest < 2 * (size_t)s->steps + 1 ? longest : 2 * (size_t)s->steps + 1;
    TD_FAIL_IF(!td_size_mul(rows, (size_t)s->steps * sizeof(double), &cells), err, RESOURCE_EXHAUSTED,
               "%s: %zu labels over %lld steps do not fit memory", TD_NODE_STR(c->node), rows,
               (long long)s->steps);
    TD_TRY(td_scratch(c, cells, (void **)&s->alpha, err));
    TD_TRY(td_scratch(c, cells, (void **)&s->beta, err));
    return td_scratch(c, (size_t)(s->steps * s->classes) * sizeof(double), (void **)&s->y, err);
}

static enum td_code check_indices(const struct td_call *c, const struct loss *s, int64_t batch,
                                  struct td_err *err)
{
    for (int64_t i = 0; i < s->n_labels; i++) {
        const int64_t *at = s->indices + 2 * i;
        TD_FAIL_IF(at[0] < 0 || at[0] >= batch || at[1] < 0, err, INVALID_ARGUMENT,
                   "%s: label SparseTensor is not valid: indices[%lld] = [%lld,%lld] is out of bounds: need "
                   "0 <= index < "
                   "[%lld,..]",
                   TD_NODE_STR(c->node), (long long)i, (long long)at[0], (long long)at[1], (long long)batch);
        TD_FAIL_IF(
            i > 0 && (at[0] < at[-2] || (at[0] == at[-2] && at[1] <= at[-1])), err, INVALID_ARGUMENT,
            "%s: label SparseTensor is not valid: indices[%lld] = [%lld,%lld] is out of order or repeated",
            TD_NODE_STR(c->node), (long long)i, (long long)at[0], (long long)at[1]);
    }
    return TD_OK;
}

/* 0 <= sequence_length <= steps, or an error of the given code. */
static enum td_code length_of(const struct td_call *c, int input, int64_t b, int64_t steps, enum td_code code,
                              int64_t *out, struct td_err *err)
{
    int64_t n = td_tensor_int(c->in[input], b);
    if (n < 0) {
        return td_fail(err, code, "%s: seq_len(%lld) < 0", TD_NODE_STR(c->node), (long long)b);
    }
    if (n > steps) {
        return td_fail(err, code, "%s: sequence_length(%lld) <= %lld, got %lld", TD_NODE_STR(c->node),
                       (long long)b, (long long)steps, (long long)n);
    }
    *out = n;
    return TD_OK;
}

static enum td_code loss_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *out, *grad;
    TD_TRY(td_out(c, 0, NULL, &out, err));
    TD_TRY(td_out(c, 1, NULL, &grad, err));
    const struct td_node *n = c->node;
    const struct td_shape *shape = &c->in[0]->shape;
    struct loss s = {.steps = shape->dim[0],
                     .classes = shape->dim[2],
                     .collapse = td_attr_bool(n, "preprocess_collapse_repeated"),
                     .merge = td_attr_bool(n, "ctc_merge_repeated"),
                     .ignore_longer = td_attr_bool(n, "ignore_longer_outputs_than_inputs"),
                     .indices = c->in[1]->data,
                     .values = c->in[2]->data,
                     .n_labels = td_tensor_count(c->in[2])};
    s.blank = strcmp(n->op_name, "CTCLossV2") == 0 ? 0 : s.classes - 1;
    int64_t batch = shape->dim[1], total = td_tensor_count(grad), from = 0, to, stride = batch * s.classes;
    void *x, *dx;
    TD_TRY(check_indices(c, &s, batch, err));
    TD_TRY(loss_room(c, &s, err));
    TD_TRY(td_scratch(c, (size_t)total * sizeof(double), &x, err));
    TD_TRY(td_scratch(c, (size_t)total * sizeof(double), &dx, err));
    if (total == 0) {
        return TD_OK;
    }
    td_upcast_doubles(x, c->in[0]->data, grad->dtype, total);
    memset(dx, 0, (size_t)total * sizeof(double));
    for (int64_t b = 0; b < batch; b++, from = to) {
        int64_t steps = 0, length = 0;
        double v = 0;
        if (td_stopped(c)) {
            return td_stop_error(c, err);
        }
        TD_TRY(label_range(c, &s, b, &from, &to, err));
        TD_TRY(length_of(c, 3, b, s.steps, TD_INVALID_ARGUMENT, &steps, err));
        TD_TRY(expand(c, &s, b, from, to, &length, err));
        TD_FAIL_IF(length / 2 > steps && !s.ignore_longer, err, INVALID_ARGUMENT,
                   "%s: Not enough time for target transition sequence (required: %lld, available: %lld) You "
                   "can turn "
                   "this error into a warning by using the flag ignore_longer_outputs_than_inputs",
                   TD_NODE_STR(n), (long long)(length / 2), (long long)steps);
        const bool longer = s.ignore_longer && to - from > steps; /* before repetitions collapse */
        if (!longer && length / 2 <= steps && steps > 0) {
            v = one_loss(&s, (double *)x + b * s.classes, stride, length, steps,
                         (double *)dx + b * s.classes);
        }
        td_downcast_doubles((char *)out->data + (size_t)b * td_dtype_size(out->dtype), &v, out->dtype, 1);
    }
    td_downcast_doubles(grad->data, dx, grad->dtype, total);
    return TD_OK;
}

/* ------------------------------------------------------------------ greedy decoder */

struct greedy {
    int64_t classes, stride, blank; /* stride: from step to step */
    bool merge;                     /* repetitions count once */
};

/* Classes of one sequence without blanks (and repetitions); returns the count, and the sum of the logits
 * taken. */
static int64_t best_path(const struct greedy *g, const double *x, int64_t steps, int64_t *labels, double *sum)
{
    int64_t n = 0, last = -1;
    *sum = 0;
    for (int64_t t = 0; t < steps; t++) {
        const double *logit = x + t * g->stride;
        int64_t best = 0;
        for (int64_t k = 1; k < g->classes; k++) {
            best = logit[k] > logit[best] ? k : best;
        }
        *sum += logit[best];
        if (best != g->blank && !(g->merge && best == last)) {
            labels[n++] = best;
        }
        last = best;
    }
    return n;
}

static enum td_code greedy_run(struct td_call *c, struct td_err *err)
{
    const struct td_shape *shape = &c->in[0]->shape;
    int64_t steps = shape->dim[0], batch = shape->dim[1], classes = shape->dim[2];
    int64_t blank = td_attr_int(c->node, "blank_index"), total = td_tensor_count(c->in[0]), found = 0,
            longest = 0;
    const struct greedy g = {.classes = classes,
                             .stride = batch * classes,
                             .blank = blank < 0 ? blank + classes : blank,
                             .merge = td_attr_bool(c->node, "merge_repeated")};
    void *x, *room;
    TD_TRY(td_scratch(c, (size_t)total * sizeof(double), &x, err));
    TD_TRY(td_scratch(c, (size_t)(steps * batch + batch) * sizeof(int64_t), &room, err));
    td_upcast_doubles(x, c->in[0]->data, c->in[0]->dtype, total);
    int64_t *labels = room, *count = labels + steps * batch;
    struct td_tensor *out[4];
    TD_TRY(td_out(c, 3, NULL, &out[3], err));
    for (int64_t b = 0; b < batch; b++) {
        int64_t n;
        double sum;
        TD_TRY(length_of(c, 1, b, steps, TD_FAILED_PRECONDITION, &n, err));
        count[b] = best_path(&g, (double *)x + b * classes, n, labels + b * steps, &sum);
        sum = -sum;
        td_downcast_doubles((char *)out[3]->data + (size_t)b * td_dtype_size(out[3]->dtype), &sum,
                            out[3]->dtype, 1);
        found += count[b];
        longest = count[b] > longest ? count[b] : longest;
    }
    struct td_shape indices = td_shape_matrix(found, 2), values = td_shape_vector(found);
    TD_TRY(td_out(c, 0, &indices, &out[0], err));
    TD_TRY(td_out(c, 1, &values, &out[1], err));
    TD_TRY(td_out(c, 2, NULL, &out[2], err));
    int64_t at = 0;
    for (int64_t b = 0; b < batch; b++) {
        for (int64_t i = 0; i < count[b]; i++, at++) {
            TD_DATA(out[0], int64_t)[2 * at] = b;
            TD_DATA(out[0], int64_t)[2 * at + 1] = i;
            TD_DATA(out[1], int64_t)[at] = labels[b * steps + i];
        }
    }
    TD_DATA(out[2], int64_t)[0] = batch;
    TD_DATA(out[2], int64_t)[1] = longest;
    return TD_OK;
}

/* ------------------------------------------------------------------ gradients */

/* The loss of each row times output 1, [T,B,C]. A second order would have to go through that, and cannot. */
static void loss_grad(struct td_grad *g)
{
    struct td_emitter *e = g->e;
    const struct td_value once = td_emit(
        e, "PreventGradient", TD_IN(td_grad_out(g, 1)),
        TD_ATTRS(TD_ATTR_OF_TEXT("message", "Currently there is no way to take the second derivative of "
                                            "ctc_loss due to the fused implementation's interaction with "
                                            "tf.gradients()")));
    td_grad_give(g, 0, td_f_mul(e, td_f_expand(e, td_grad_at(g, 0), -1), once));
}

/* ------------------------------------------------------------------ table */

#define SET_CTC (TD_BIT(TD_FLOAT) | TD_BIT(TD_DOUBLE))
#define LOSS_ATTRS                                                                                           \
    "preprocess_collapse_repeated:bool=false; ctc_merge_repeated:bool=true; "                                \
    "ignore_longer_outputs_than_inputs:bool=false"

const struct td_op td_ops_ctc[] = {
    {.name = "CTCLoss",
     .sig = "(inputs:T, labels_indices:int64, labels_values:int32, sequence_length:int32) -> (loss:T, "
            "gradient:T) "
            "{" LOSS_ATTRS "; T:type=float}",
     .infer = loss_infer,
     .kernels = TD_KERNEL("ctc_loss.cpu", loss_run, {"T", SET_CTC}),
     .grad = loss_grad},
    {.name = "CTCLossV2",
     .sig =
         "(inputs:float, labels_indices:int64, labels_values:int32, sequence_length:int32) -> (loss:float, "
         "gradient:float) {" LOSS_ATTRS "}",
     .host_in = 14,
     .infer = loss_infer,
     .kernels = TD_KERNEL("ctc_loss.cpu", loss_run),
     .grad = loss_grad},
    {.name = "CTCGreedyDecoder",
     .sig = "(inputs:T, sequence_length:int32) -> (decoded_indices:int64, decoded_values:int64, "
            "decoded_shape:int64, "
            "log_probability:T) {merge_repeated:bool=false; blank_index:int=-1; T:type=float}",
     .infer = greedy_infer,
     .kernels = TD_KERNEL("ctc_greedy_decoder.cpu", greedy_run, {"T", SET_CTC}),
     .grad = td_not_differentiable},
    {.name = NULL},
};
