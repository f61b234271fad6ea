/* kernels/cuda/nn/ctc_loss.c - rows of CTCLossV2.
 *
 * Labels and lengths come on the host (host_in of the op's row), as TensorFlow has them: what does not fit is
 * found before anything is queued, and refused in the host's words. From there they are sent into the
 * workspace.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/nn/ctc_loss.h"

#include "kernels/cuda/base/cuda_call.h"
#include "kernels/cuda/base/refuse.h"
#include "kernels/cuda/rows.h"

enum { ROOM = 1 << 28 }; /* numbers of 8 bytes in the workspace, at most */

/* Of l' of all sequences, which are one longer than twice their labels. */
static int64_t expanded(int64_t n, int64_t batch)
{
    return 2 * n + batch;
}

static enum td_code prepare(const struct td_kernel_query *q, struct td_kernel_offer *o, struct td_err *err)
{
    const struct td_shape *x = &q->in[0];
    const int64_t n = q->in[2].dim[0], batch = x->dim[1], long_labels = expanded(n, batch);
    int64_t cells, all;
    (void)err;
    if (n == 0 || td_shape_count(x) == 0) {
        o->refusal = "there are no labels";
    } else if (n >= INT32_MAX / 4 || !td_i64_mul(2 * long_labels, x->dim[0], &cells) ||
               (all = td_shape_count(x)) > ROOM || cells > ROOM - all) {
        o->refusal = "more than its workspace holds";
    } else {
        o->workspace_bytes = (size_t)(all + cells + batch + 2 * n) * sizeof(double) +
                             (size_t)(n + long_labels + 3 * batch) * sizeof(int32_t);
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ what fits */

struct labels {
    const int64_t *indices;
    const int32_t *values, *lengths;
    int64_t n, batch, steps, classes;
    bool collapse, ignore_longer;
};

/* Sorted, none twice, each of a sequence that is there. */
static bool are_indices(const struct labels *s)
{
    bool are = true;
    for (int64_t i = 0; are && i < s->n; i++) {
        const int64_t *at = s->indices + 2 * i;
        are = at[0] >= 0 && at[0] < s->batch && at[1] >= 0 &&
              (i == 0 || at[0] > at[-2] || (at[0] == at[-2] && at[1] > at[-1]));
    }
    return are;
}

/* Labels [from, to) of one sequence: no class behind one that ends it, and time for all. */
static bool is_sequence(const struct labels *s, int64_t from, int64_t to, int64_t steps)
{
    bool is = to > from && steps >= 0 && steps <= s->steps, ended = false;
    int64_t n = 0;
    for (int64_t i = from; is && i < to; i++) {
        const int32_t l = s->values[i];
        const bool repeats = s->collapse && i > from && l == s->values[i - 1];
        const bool null = l == 0 || l >= s->classes;
        is = l >= 0 && (repeats || null || !ended);
        ended = ended || (null && !repeats);
        n += !null && !repeats;
    }
    return is && (n <= steps || s->ignore_longer);
}

static bool fit(const struct labels *s)
{
    bool do_fit = are_indices(s);
    for (int64_t b = 0, from = 0, to = 0; do_fit && b < s->batch; b++, from = to) {
        while (to < s->n && s->indices[2 * to] == b) {
            to++;
        }
        do_fit = is_sequence(s, from, to, s->lengths[b]);
    }
    return do_fit;
}

/* ------------------------------------------------------------------ the call */

static void lay(const struct td_call *c, struct td_cuda_ctc *s)
{
    const int64_t rows = s->steps * s->batch, long_labels = expanded(s->n, s->batch);
    s->y = c->workspace;
    s->alpha = s->y + rows * s->classes;
    s->beta = s->alpha + long_labels * s->steps;
    s->log_p = s->beta + long_labels * s->steps;
    int64_t *const indices = (int64_t *)(void *)(s->log_p + s->batch);
    int32_t *const values = (int32_t *)(void *)(indices + 2 * s->n);
    s->indices = indices;
    s->values = values;
    s->lengths = values + s->n;
    s->begin = values + s->n + s->batch;
    s->size = s->begin + s->batch;
    s->label = s->size + s->batch;
}

static enum td_code run(struct td_call *c, struct td_err *err)
{
    const struct td_shape *x = &c->in[0]->shape;
    struct td_tensor *loss, *gradient;
    TD_TRY(td_out(c, 0, NULL, &loss, err));
    TD_TRY(td_out(c, 1, NULL, &gradient, err));
    struct td_cuda_ctc s = {.x = c->in[0]->data,
                            .steps = x->dim[0],
                            .batch = x->dim[1],
                            .classes = x->dim[2],
                            .n = td_tensor_count(c->in[2]),
                            .collapse = td_attr_bool(c->node, "preprocess_collapse_repeated"),
                            .merge = td_attr_bool(c->node, "ctc_merge_repeated"),
                            .ignore_longer = td_attr_bool(c->node, "ignore_longer_outputs_than_inputs"),
                            .loss = loss->data,
                            .gradient = gradient->data};
    const struct labels given = {c->in[1]->data, c->in[2]->data, c->in[3]->data, s.n, s.batch, s.steps,
                                 s.classes,      s.collapse,     s.ignore_longer};
    if (!fit(&given)) {
        return td_cuda_launched(c, td_cuda_refuse_call(c->fault, td_cuda_stream_of(c)), err);
    }
    lay(c, &s);
    TD_TRY(td_cuda_send(c, c->in[1], (void *)s.indices, err));
    TD_TRY(td_cuda_send(c, c->in[2], (void *)s.values, err));
    TD_TRY(td_cuda_send(c, c->in[3], (void *)s.lengths, err));
    return td_cuda_launched(c, td_cuda_ctc_loss(&s, td_cuda_stream_of(c)), err);
}

TD_CUDA_ROWS(rows_ctc_loss, "ctc_loss.cuda", .judged = 14, .prepare = prepare, .run = run);

const struct td_op_rows td_cuda_rows_ctc_loss[] = {{"CTCLossV2", rows_ctc_loss}, {NULL, NULL}};
