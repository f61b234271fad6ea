/* kernels/nn/ctc_beam.c - CTCBeamSearchDecoder: the most probable label sequences, summed over their
 * alignments.
 *
 * Beams are nodes of a tree of prefixes. Each node has the log probability of its prefix ending in a blank,
 * ending in its label, and their sum, for the step before and the present one:
 *
 *     label(t) = (label(t-1) + parent's) * y[label]      parent's: blank(t-1) if it ends in the same label,
 *     blank(t) = total(t-1) * y[blank]                             else total
 *
 * A step first carries the leaves over, then lets every old leaf try one more label; the `beam_width` best
 * remain. A node that falls out stays in the tree (others may hang below it), marked dead by a probability of
 * zero.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "core/base/mem.h"
#include "kernels/ops.h"
#include "kernels/cpu/upcast.h"

struct chance {
    double total, blank, label;
};

static const struct chance none = {-INFINITY, -INFINITY, -INFINITY};

struct beam {
    int32_t parent, child, sibling, label;
    struct chance before, now;
};

struct tree {
    struct beam *node;
    int32_t n, cap;
};

struct search {
    struct tree tree;
    int32_t *leaf, *old; /* leaves, best first */
    int64_t n_leaf, width;
    int64_t classes, blank;
};

static double log_add(double a, double b)
{
    double top = fmax(a, b), low = fmin(a, b);
    return low == -INFINITY ? top : top + log1p(exp(low - top));
}

static enum td_code grow(struct tree *t, int32_t parent, int32_t label, int32_t *out, struct td_err *err)
{
    if (t->n == t->cap) {
        TD_FAIL_IF(t->cap > 1 << 26, err, RESOURCE_EXHAUSTED, "beam search tree of more than %d prefixes",
                   t->cap);
        int32_t cap = t->cap == 0 ? 1024 : 2 * t->cap;
        struct beam *grown = td_realloc(t->node, (size_t)cap, sizeof *grown);
        if (grown == NULL) {
            return td_no_memory(err, (size_t)cap * sizeof *grown, "beam search tree");
        }
        t->node = grown;
        t->cap = cap;
    }
    struct beam *b = &t->node[t->n];
    *b = (struct beam){
        .parent = parent, .child = -1, .sibling = -1, .label = label, .before = none, .now = none};
    if (parent >= 0) {
        b->sibling = t->node[parent].child;
        t->node[parent].child = t->n;
    }
    *out = t->n++;
    return TD_OK;
}

static int32_t child_of(const struct tree *t, int32_t parent, int32_t label)
{
    int32_t i = t->node[parent].child;
    while (i >= 0 && t->node[i].label != label) {
        i = t->node[i].sibling;
    }
    return i;
}

/* Puts a node in its place among the leaves; the last one falls out of a full list. */
static void insert(struct search *s, int32_t node)
{
    double total = s->tree.node[node].now.total;
    int64_t i = s->n_leaf < s->width ? s->n_leaf++ : s->n_leaf - 1;
    if (i == s->width - 1 && s->leaf[i] >= 0) {
        s->tree.node[s->leaf[i]].now = none;
    }
    while (i > 0 && s->tree.node[s->leaf[i - 1]].now.total < total) {
        s->leaf[i] = s->leaf[i - 1];
        i--;
    }
    s->leaf[i] = node;
}

static bool worthy(const struct search *s, double total)
{
    return total > -INFINITY &&
           (s->n_leaf < s->width || total > s->tree.node[s->leaf[s->n_leaf - 1]].now.total);
}

/* The old leaves one step on, without a new label. */
static void carry(struct search *s, int64_t n_old, const double *y)
{
    for (int64_t i = 0; i < n_old; i++) {
        struct beam *b = &s->tree.node[s->old[i]];
        b->before = b->now;
    }
    for (int64_t i = 0; i < n_old; i++) {
        struct beam *b = &s->tree.node[s->old[i]];
        double label = -INFINITY;
        if (b->parent >= 0) {
            const struct beam *p = &s->tree.node[b->parent];
            label = b->before.label;
            if (p->before.total > -INFINITY) {
                label = log_add(label, b->label == p->label ? p->before.blank : p->before.total);
            }
            label += y[b->label];
        }
        double blank = b->before.total + y[s->blank];
        b->now = (struct chance){log_add(blank, label), blank, label};
    }
    for (int64_t i = 0; i < n_old; i++) {
        insert(s, s->old[i]);
    }
}

static enum td_code extend(struct search *s, int32_t from, const double *y, struct td_err *err)
{
    for (int32_t label = 0; label < s->classes; label++) {
        const struct beam *b = &s->tree.node[from];
        double total = (b->label == label ? b->before.blank : b->before.total) + y[label];
        int32_t child = label == s->blank ? -1 : child_of(&s->tree, from, label);
        if (label == s->blank || (child >= 0 && s->tree.node[child].now.total > -INFINITY)) {
            continue;
        }
        if (!worthy(s, total)) { /* a child that fell out in this step is not extended in it either */
            if (child >= 0) {
                s->tree.node[child].before = none;
            }
            continue;
        }
        if (child < 0) {
            TD_TRY(grow(&s->tree, from, label, &child, err));
        }
        s->tree.node[child].now = (struct chance){total, -INFINITY, total};
        insert(s, child);
    }
    return TD_OK;
}

static enum td_code step(struct search *s, const double *y, struct td_err *err)
{
    int64_t n_old = s->n_leaf;
    memcpy(s->old, s->leaf, (size_t)n_old * sizeof *s->old);
    for (int64_t i = 0; i < s->width; i++) {
        s->leaf[i] = -1;
    }
    s->n_leaf = 0;
    carry(s, n_old, y);
    for (int64_t i = 0; i < n_old; i++) {
        if (worthy(s, s->tree.node[s->old[i]].before.total)) {
            TD_TRY(extend(s, s->old[i], y, err));
        }
    }
    for (int64_t i = 0; i < n_old; i++) { /* what died keeps no past either */
        struct beam *b = &s->tree.node[s->old[i]];
        if (b->now.total == -INFINITY) {
            b->before = none;
        }
    }
    return TD_OK;
}

static void log_softmax(const double *x, double *y, int64_t n)
{
    double top = -INFINITY, sum = 0;
    for (int64_t k = 0; k < n; k++) {
        top = fmax(top, x[k]);
    }
    for (int64_t k = 0; k < n; k++) {
        sum += exp(x[k] - top);
    }
    for (int64_t k = 0; k < n; k++) {
        y[k] = x[k] - top - log(sum);
    }
}

/* ------------------------------------------------------------------ the op */

struct decode {
    int64_t steps, batch, classes, paths;
    bool merge;
    const double *x;
    double *y;
    int64_t *labels, *count; /* [paths][batch][steps], [paths][batch] */
    struct td_tensor *score;
};

static enum td_code search_one(struct td_call *c, struct search *s, const struct decode *d, int64_t b,
                               int64_t steps, struct td_err *err)
{
    int32_t root;
    s->tree.n = 0;
    s->n_leaf = 0;
    TD_TRY(grow(&s->tree, -1, -1, &root, err));
    s->tree.node[root].now = (struct chance){0, 0, -INFINITY};
    s->leaf[s->n_leaf++] = root;
    for (int64_t t = 0; t < steps; t++) {
        if (td_stopped(c)) {
            return td_stop_error(c, err);
        }
        log_softmax(d->x + (t * d->batch + b) * d->classes, d->y, d->classes);
        TD_TRY(step(s, d->y, err));
    }
    TD_FAIL_IF(s->n_leaf < d->paths, err, INVALID_ARGUMENT,
               "%s: Less leaves in the beam search than requested: %lld of %lld", TD_NODE_STR(c->node),
               (long long)s->n_leaf, (long long)d->paths);
    for (int64_t p = 0; p < d->paths; p++) {
        int64_t n = 0, *out = d->labels + (p * d->batch + b) * d->steps;
        for (int32_t i = s->leaf[p], last = -1; s->tree.node[i].parent >= 0; i = s->tree.node[i].parent) {
            int32_t label = s->tree.node[i].label;
            if (!(d->merge && label == last)) {
                out[n++] = label;
            }
            last = label;
        }
        for (int64_t i = 0; i < n / 2; i++) { /* found from the end */
            int64_t t = out[i];
            out[i] = out[n - 1 - i];
            out[n - 1 - i] = t;
        }
        d->count[p * d->batch + b] = n;
        double total = s->tree.node[s->leaf[p]].now.total;
        td_downcast_doubles((char *)d->score->data +
                                (size_t)(b * d->paths + p) * td_dtype_size(d->score->dtype),
                            &total, d->score->dtype, 1);
    }
    return TD_OK;
}

static enum td_code write_path(struct td_call *c, const struct decode *d, int64_t p, struct td_err *err)
{
    int64_t found = 0, longest = 0, at = 0;
    const int64_t *count = d->count + p * d->batch;
    for (int64_t b = 0; b < d->batch; b++) {
        found += count[b];
        longest = count[b] > longest ? count[b] : longest;
    }
    struct td_shape shape = td_shape_matrix(found, 2), line = td_shape_vector(found);
    struct td_tensor *indices, *values, *dense;
    TD_TRY(td_out(c, (int)p, &shape, &indices, err));
    TD_TRY(td_out(c, (int)(d->paths + p), &line, &values, err));
    TD_TRY(td_out(c, (int)(2 * d->paths + p), NULL, &dense, err));
    for (int64_t b = 0; b < d->batch; b++) {
        for (int64_t i = 0; i < count[b]; i++, at++) {
            TD_DATA(indices, int64_t)[2 * at] = b;
            TD_DATA(indices, int64_t)[2 * at + 1] = i;
            TD_DATA(values, int64_t)[at] = d->labels[(p * d->batch + b) * d->steps + i];
        }
    }
    TD_DATA(dense, int64_t)[0] = d->batch;
    TD_DATA(dense, int64_t)[1] = longest;
    return TD_OK;
}

static enum td_code decode_room(struct td_call *c, struct decode *d, struct search *s, struct td_err *err)
{
    int64_t total = td_tensor_count(c->in[0]);
    void *x;
    size_t cells;
    TD_TRY(td_scratch(c, (size_t)total * sizeof(double), &x, err));
    td_upcast_doubles(x, c->in[0]->data, c->in[0]->dtype, total);
    d->x = x;
    TD_FAIL_IF(
        !td_size_mul((size_t)(d->steps * d->batch + d->batch), (size_t)d->paths * sizeof(int64_t), &cells) ||
            s->width > INT32_MAX,
        err, RESOURCE_EXHAUSTED, "%s: %lld paths of beam width %lld do not fit memory", TD_NODE_STR(c->node),
        (long long)d->paths, (long long)s->width);
    TD_TRY(td_scratch(c, (size_t)d->classes * sizeof(double), (void **)&d->y, err));
    TD_TRY(td_scratch(c, cells, (void **)&d->labels, err));
    d->count = d->labels + d->steps * d->batch * d->paths;
    TD_TRY(td_scratch(c, (size_t)s->width * sizeof(int32_t), (void **)&s->leaf, err));
    return td_scratch(c, (size_t)s->width * sizeof(int32_t), (void **)&s->old, err);
}

static enum td_code decode_run(struct td_call *c, struct td_err *err)
{
    const struct td_shape *shape = &c->in[0]->shape;
    struct decode d = {.steps = shape->dim[0],
                       .batch = shape->dim[1],
                       .classes = shape->dim[2],
                       .paths = td_attr_int(c->node, "top_paths"),
                       .merge = td_attr_bool(c->node, "merge_repeated")};
    struct search s = {
        .width = td_attr_int(c->node, "beam_width"), .classes = d.classes, .blank = d.classes - 1};
    TD_TRY(decode_room(c, &d, &s, err));
    TD_TRY(td_out(c, (int)(3 * d.paths), NULL, &d.score, err));
    enum td_code rc = TD_OK;
    for (int64_t b = 0; rc == TD_OK && b < d.batch; b++) {
        int64_t n = td_tensor_int(c->in[1], b);
        rc = n < 0 || n > d.steps
                 ? td_fail(err, TD_FAILED_PRECONDITION, "%s: sequence_length(%lld) is %lld, want 0 to %lld",
                           TD_NODE_STR(c->node), (long long)b, (long long)n, (long long)d.steps)
                 : search_one(c, &s, &d, b, n, err);
    }
    td_free(s.tree.node);
    for (int64_t p = 0; rc == TD_OK && p < d.paths; p++) {
        rc = write_path(c, &d, p, err);
    }
    return rc;
}

static enum td_code decode_infer(struct td_infer *c, struct td_err *err)
{
    const struct td_shape *x = &c->in[0], *s = &c->in[1];
    int64_t paths = td_attr_int(c->node, "top_paths"), width = td_attr_int(c->node, "beam_width");
    TD_FAIL_IF(x->rank >= 0 && x->rank != 3, err, INVALID_ARGUMENT, "%s: inputs is not a 3-Tensor, got %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(x));
    TD_FAIL_IF(x->rank == 3 && (x->dim[0] == 0 || x->dim[2] == 0), err, INVALID_ARGUMENT,
               "%s: inputs %s must have at least one step and one class", TD_NODE_STR(c->node),
               TD_SHAPE_STR(x));
    TD_FAIL_IF((s->rank >= 0 && s->rank != 1) || (s->rank == 1 && x->rank == 3 && s->dim[0] >= 0 &&
                                                  x->dim[1] >= 0 && s->dim[0] != x->dim[1]),
               err, FAILED_PRECONDITION, "%s: len(sequence_length) != batch_size: %s and inputs %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(s), TD_SHAPE_STR(x));
    TD_FAIL_IF(paths > width, err, INVALID_ARGUMENT,
               "%s: requested more paths than the beam width: %lld and %lld", TD_NODE_STR(c->node),
               (long long)paths, (long long)width);
    for (int64_t p = 0; p < paths; p++) {
        c->out[p] = td_shape_matrix(-1, 2);
        c->out[paths + p] = td_shape_of_rank(1);
        c->out[2 * paths + p] = td_shape_vector(2);
    }
    c->out[3 * paths] = td_shape_matrix(x->rank == 3 ? x->dim[1] : -1, paths);
    return TD_OK;
}

const struct td_op td_ops_ctc_beam[] = {
    {.name = "CTCBeamSearchDecoder",
     .sig = "(inputs:T, sequence_length:int32) -> (decoded_indices:top_paths*int64, "
            "decoded_values:top_paths*int64, "
            "decoded_shape:top_paths*int64, log_probability:T) {beam_width:int; top_paths:int; "
            "merge_repeated:bool=true; T:type=float}",
     .infer = decode_infer,
     .kernels = TD_KERNEL("ctc_beam_search.cpu", decode_run, {"T", TD_BIT(TD_FLOAT) | TD_BIT(TD_DOUBLE)}),
     .grad = td_not_differentiable},
    {.name = NULL},
};
