/* kernels/cuda/math/einsum.c - rows of Einsum, as a product of matrices (cuBLASLt's, or matmul.cu) or a sum
 * (reduce.cu).
 *
 *   left [batch.., free.., contracted..]   right [batch.., contracted.., free..]
 *   product [batch.., free.., free..]
 *
 * is how an equation of two operands is read. An operand whose free labels, and whose contracted ones, are
 * each one run of equal steps is multiplied where it lies; another is first put in this order, in the
 * workspace, as is the product where the output wants another one. Labels of one operand alone are summed on
 * the way. The library takes matrices without gaps, and one step from batch to batch: what is not so is put
 * in order for it, too.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/base/mem.h"
#include "kernels/cuda/base/cuda_call.h"
#include "kernels/cuda/base/libraries.h"
#include "kernels/cuda/math/matmul.h"
#include "kernels/cuda/array/move.h"
#include "kernels/cuda/math/reduce.h"
#include "kernels/cuda/rows.h"
#include "kernels/linalg/einsum_equation.h"

enum role { BATCH, FREE, CONTRACTED, SUMMED, ROLES };
enum { ALIGNED = 256 };

/* Labels of an operand, each once; of one that is repeated the diagonal. */
struct term {
    int n, label[TD_MAX_RANK];
    int64_t dim[TD_MAX_RANK], step[TD_MAX_RANK];
};
struct equation {
    struct td_einsum e;
    int64_t size[TD_EINSUM_LABELS];
    struct term in[2];
    enum td_dtype type;
    bool by_library;
    const char *refusal;
    /* operands that are put in order first, where in the workspace, and what is summed meanwhile */
    bool moves[2], reorders;
    struct td_cuda_axes move[2];
    struct td_cuda_product product;
    struct td_cuda_steps reorder; /* from the product to the output */
    size_t at[3], bytes;          /* in the workspace: the operands, the product */
};

static const struct equation empty;

/* ------------------------------------------------------------------ labels */

static bool has(const struct td_einsum_term *t, int label)
{
    for (int i = 0; i < t->n; i++) {
        if (t->label[i] == label) {
            return true;
        }
    }
    return false;
}

static enum role role_of(const struct td_einsum *e, int operand, int label)
{
    const bool other = e->n_in == 2 && has(&e->in[1 - operand], label), out = has(&e->out, label);
    return out ? (other ? BATCH : FREE) : (other ? CONTRACTED : SUMMED);
}

static int place_of(const struct term *t, int label)
{
    int i = 0;
    while (i < t->n && t->label[i] != label) {
        i++;
    }
    return i;
}

static struct term term_of(const struct td_einsum_term *labels, const struct td_shape *shape)
{
    struct term t = {0};
    int64_t stride[TD_MAX_RANK];
    td_cuda_row_major(shape, stride);
    for (int d = 0; d < shape->rank; d++) {
        const int i = place_of(&t, labels->label[d]);
        if (i == t.n) {
            t.label[t.n++] = labels->label[d];
            t.dim[i] = shape->dim[d];
        }
        t.step[i] += shape->dim[d] == 1 ? 0 : stride[d];
    }
    return t;
}

/* Labels of operand k with this role, in the order of its canonical form. Returns how many. */
static int labels_of(const struct equation *q, int k, enum role role, int *label)
{
    const struct td_einsum *e = &q->e;
    const struct td_einsum_term *order = role == BATCH || role == FREE ? &e->out
                                         : role == CONTRACTED          ? &e->in[0]
                                                                       : &e->in[k];
    int n = 0;
    for (int i = 0; i < order->n; i++) {
        const int l = order->label[i];
        bool seen = !has(&e->in[k], l) || role_of(e, k, l) != role;
        for (int j = 0; j < n && !seen; j++) {
            seen = label[j] == l;
        }
        if (!seen) {
            label[n++] = l;
        }
    }
    return n;
}

static bool repeats(const struct td_einsum_term *t)
{
    for (int i = 0; i < t->n; i++) {
        for (int j = i + 1; j < t->n; j++) {
            if (t->label[i] == t->label[j]) {
                return true;
            }
        }
    }
    return false;
}

/* ------------------------------------------------------------------ operands */

/* The labels with this role as steps of operand k. False: more dims than a kernel takes. */
static bool steps_of(const struct equation *q, int k, enum role role, struct td_cuda_steps *s)
{
    int label[TD_MAX_RANK];
    bool fits = true;
    *s = (struct td_cuda_steps){0};
    for (int i = labels_of(q, k, role, label) - 1; i >= 0 && fits; i--) {
        const int at = place_of(&q->in[k], label[i]);
        fits = td_cuda_steps_add(s, q->in[k].dim[at], q->in[k].step[at], 0);
    }
    return fits;
}

static int64_t count_of(const struct td_cuda_steps *s)
{
    int64_t n = 1;
    for (int i = 0; i < s->rank; i++) {
        n *= s->dim[i];
    }
    return n;
}

static int64_t count_with(const struct equation *q, int k, enum role role)
{
    int label[TD_MAX_RANK];
    int64_t n = 1;
    for (int i = labels_of(q, k, role, label) - 1; i >= 0; i--) {
        n *= q->in[k].dim[place_of(&q->in[k], label[i])];
    }
    return n;
}

/* Whether operand k can be multiplied where it lies. */
static bool lies_well(const struct equation *q, int k)
{
    struct td_cuda_steps free, contracted;
    int label[TD_MAX_RANK];
    return steps_of(q, k, FREE, &free) && steps_of(q, k, CONTRACTED, &contracted) && free.rank <= 1 &&
           contracted.rank <= 1 && labels_of(q, k, SUMMED, label) == 0;
}

static int64_t step_along(const struct equation *q, int k, enum role role)
{
    struct td_cuda_steps s;
    return steps_of(q, k, role, &s) && s.rank == 1 ? s.a[0] : 1;
}

/* Whether its matrices have no gaps, and one step leads through the batches: for one that lies well. */
static bool lies_for_the_library(const struct equation *q, int k)
{
    struct td_cuda_steps batch;
    const int64_t free = count_with(q, k, FREE), contracted = count_with(q, k, CONTRACTED);
    const int64_t free_step = step_along(q, k, FREE), contracted_step = step_along(q, k, CONTRACTED);
    return (free == 1 || free_step == (contracted_step == 1 ? contracted : 1)) &&
           (contracted == 1 || contracted_step == (contracted_step == 1 ? 1 : free)) &&
           steps_of(q, k, BATCH, &batch) && batch.rank <= 1;
}

/* Operand k is put in the order of these roles first, what is summed left out: its steps become those there.
 * False: more dims than a kernel takes. */
static bool put_in_order(struct equation *q, int k, const enum role *order, int n_roles)
{
    struct td_cuda_axes *m = &q->move[k];
    struct term *t = &q->in[k], now = {0};
    bool fits = steps_of(q, k, SUMMED, &m->folded);
    int64_t step = 1;
    for (int r = n_roles - 1; r >= 0; r--) {
        int label[TD_MAX_RANK];
        for (int i = labels_of(q, k, order[r], label) - 1; i >= 0 && fits; i--) {
            const int at = place_of(t, label[i]);
            fits = td_cuda_steps_add(&m->kept, t->dim[at], t->step[at], step);
            now.label[now.n] = label[i];
            now.dim[now.n] = t->dim[at];
            now.step[now.n++] = t->dim[at] == 1 ? 0 : step;
            step *= t->dim[at];
        }
    }
    m->n_folded = count_with(q, k, SUMMED);
    m->n_kept = step;
    m->rows = m->folded.rank > 0 && m->folded.a[0] == 1;
    *t = now;
    return fits;
}

/* Room for n elements of the workspace. */
static size_t room_for(struct equation *q, int64_t n)
{
    const size_t at = q->bytes;
    q->bytes += ((size_t)n * td_dtype_size(q->type) + ALIGNED - 1) / ALIGNED * ALIGNED;
    return at;
}

/* ------------------------------------------------------------------ the product */

static bool describe_product(struct equation *q)
{
    struct td_cuda_product *p = &q->product;
    int label[TD_MAX_RANK];
    bool fits = true;
    *p = (struct td_cuda_product){.m = count_with(q, 0, FREE),
                                  .n = count_with(q, 1, FREE),
                                  .k = count_with(q, 0, CONTRACTED),
                                  .batches = 1,
                                  .a_row = step_along(q, 0, FREE),
                                  .a_k = step_along(q, 0, CONTRACTED),
                                  .b_k = step_along(q, 1, CONTRACTED),
                                  .b_col = step_along(q, 1, FREE)};
    for (int i = labels_of(q, 0, BATCH, label) - 1; i >= 0 && fits; i--) {
        fits = td_cuda_steps_add(&p->batch, q->size[label[i]], q->in[0].step[place_of(&q->in[0], label[i])],
                                 q->in[1].step[place_of(&q->in[1], label[i])]);
        p->batches *= q->size[label[i]];
    }
    return fits;
}

/* Where the output's elements are in the product. */
static bool describe_reorder(struct equation *q)
{
    int order[3 * TD_MAX_RANK];
    int n = labels_of(q, 0, BATCH, order);
    n += labels_of(q, 0, FREE, order + n);
    n += labels_of(q, 1, FREE, order + n);
    bool fits = true, same = true;
    int64_t to = 1;
    for (int i = q->e.out.n - 1; i >= 0 && fits; i--) {
        const int l = q->e.out.label[i];
        int64_t from = 1;
        for (int j = n - 1; j >= 0 && order[j] != l; j--) {
            from *= q->size[order[j]];
        }
        same = same && (q->size[l] == 1 || from == to);
        fits = td_cuda_steps_add(&q->reorder, q->size[l], from, to);
        to *= q->size[l];
    }
    q->reorders = !same;
    return fits;
}

static bool describe_pair(struct equation *q, int64_t outputs)
{
    static const enum role order[2][3] = {{BATCH, FREE, CONTRACTED}, {BATCH, CONTRACTED, FREE}};
    bool fits = true;
    if (count_with(q, 0, CONTRACTED) != count_with(q, 1, CONTRACTED)) {
        q->refusal = "a contracted axis is broadcast";
        return true;
    }
    for (int k = 0; k < 2 && fits; k++) {
        q->moves[k] = !lies_well(q, k) || (q->by_library && !lies_for_the_library(q, k));
        if (q->moves[k]) {
            fits = put_in_order(q, k, order[k], 3);
            q->at[k] = room_for(q, q->move[k].n_kept);
            q->refusal = q->move[k].n_folded != 1 && q->type != TD_FLOAT && q->type != TD_DOUBLE
                             ? "half is summed before it is multiplied"
                             : q->refusal;
        }
    }
    fits = fits && describe_product(q) && describe_reorder(q);
    if (q->reorders) {
        q->at[2] = room_for(q, outputs);
    }
    return fits;
}

static enum td_code describe(const struct td_node *n, bool by_library, const struct td_shape *const *in,
                             const struct td_shape *out, struct equation *q, struct td_err *err)
{
    bool ready;
    *q = empty;
    q->by_library = by_library;
    q->type = td_attr_type(n, "T");
    TD_TRY(td_einsum_analyse(n, in, &q->e, q->size, &ready, err));
    bool fits = ready;
    for (int k = 0; k < q->e.n_in && fits; k++) {
        q->in[k] = term_of(&q->e.in[k], in[k]);
    }
    if (fits && repeats(&q->e.out)) {
        q->refusal = "its output repeats a label";
    } else if (fits && q->e.n_in == 1) {
        fits = put_in_order(q, 0, (const enum role[]){FREE}, 1);
    } else if (fits) {
        fits = describe_pair(q, td_shape_count(out));
    }
    q->refusal = fits ? q->refusal : "more than eight dimensions";
    return TD_OK;
}

/* ------------------------------------------------------------------ our own */

static enum td_code prepare(const struct td_kernel_query *k, struct td_kernel_offer *o, struct td_err *err)
{
    struct equation q;
    const struct td_shape *in[2] = {&k->in[0], k->n_in > 1 ? &k->in[1] : NULL};
    o->refusal = k->n_in > 2 ? "more than two operands" : NULL;
    if (o->refusal == NULL) {
        TD_TRY(describe(k->node, false, in, &k->out[0], &q, err));
        o->refusal = q.refusal;
        o->workspace_bytes = q.bytes;
    }
    return TD_OK;
}

/* Operand k in order, or where it lies. */
static int put(const struct td_call *c, const struct equation *q, int k, void *to)
{
    const struct td_cuda_axes *m = &q->move[k];
    const void *x = c->in[k]->data;
    struct td_cuda_stream *stream = td_cuda_stream_of(c);
    return m->n_folded == 1
               ? td_cuda_move(td_dtype_size(q->type), &m->kept, x, to, count_of(&m->kept), stream)
               : td_cuda_reduce(TD_CUDA_SUM, td_cuda_type_of(q->type), m, x, to, stream);
}

/* The product of what lies at in[0] and in[1]. */
typedef enum td_code product_of(const struct td_call *c, const struct equation *q, const void *const *in,
                                void *z, struct td_err *err);

static enum td_code own_product(const struct td_call *c, const struct equation *q, const void *const *in,
                                void *z, struct td_err *err)
{
    return td_cuda_launched(
        c, td_cuda_matmul(td_cuda_type_of(q->type), &q->product, in[0], in[1], z, td_cuda_stream_of(c)), err);
}

static enum td_code multiply(const struct td_call *c, const struct equation *q, void *y, int64_t outputs,
                             product_of *product, struct td_err *err)
{
    char *const work = c->workspace;
    const void *in[2];
    int error = 0;
    for (int k = 0; k < 2 && error == 0; k++) {
        in[k] = q->moves[k] ? work + q->at[k] : c->in[k]->data;
        error = q->moves[k] ? put(c, q, k, work + q->at[k]) : 0;
    }
    TD_TRY(td_cuda_launched(c, error, err));
    void *const z = q->reorders ? work + q->at[2] : y;
    TD_TRY(product(c, q, in, z, err));
    return !q->reorders ? TD_OK
                        : td_cuda_launched(c,
                                           td_cuda_move(td_dtype_size(q->type), &q->reorder, z, y, outputs,
                                                        td_cuda_stream_of(c)),
                                           err);
}

static enum td_code run_by(struct td_call *c, bool by_library, product_of *product, struct td_err *err)
{
    struct td_tensor *y;
    struct equation q;
    const struct td_shape *in[2] = {&c->in[0]->shape, c->n_in > 1 ? &c->in[1]->shape : NULL};
    TD_TRY(td_out(c, 0, NULL, &y, err));
    TD_TRY(describe(c->node, by_library, in, &y->shape, &q, err));
    const int64_t n = td_tensor_count(y);
    return n == 0          ? TD_OK
           : q.e.n_in == 1 ? td_cuda_launched(c, put(c, &q, 0, y->data), err)
                           : multiply(c, &q, y->data, n, product, err);
}

static enum td_code run(struct td_call *c, struct td_err *err)
{
    return run_by(c, false, own_product, err);
}

/* ------------------------------------------------------------------ cuBLASLt */

struct plan {
    struct td_cublaslt_plan *at;
    size_t work; /* the library's part of the workspace begins there */
};

static enum td_code prepare_cublaslt(const struct td_kernel_query *k, int choice, struct td_kernel_offer *o,
                                     struct td_err *err)
{
    const struct td_cublaslt *lt = td_cuda_libraries_of(k->target.device)->cublaslt;
    const struct td_shape *in[2] = {&k->in[0], k->n_in > 1 ? &k->in[1] : NULL};
    struct td_cublaslt_plan *plan = NULL;
    struct td_cublaslt_product p;
    struct equation q;
    o->refusal = lt == NULL                         ? "cuBLASLt is not there"
                 : choice > 0 && k->fastest == NULL ? "it is tried against others alone"
                 : k->n_in != 2                     ? "it is no product of two"
                                                    : NULL;
    if (o->refusal != NULL) {
        return TD_OK;
    }
    TD_TRY(describe(k->node, true, in, &k->out[0], &q, err));
    o->refusal = q.refusal != NULL ? q.refusal
                 : !td_cuda_product_for_cublaslt(&q.product, td_cuda_type_of(q.type), &p)
                     ? "no single step walks through the batches"
                     : td_cublaslt_plan_make(lt, &p, choice, &plan);
    if (o->refusal != NULL) {
        return TD_OK;
    }
    struct plan *state = td_calloc(1, sizeof *state);
    if (state == NULL) {
        td_cublaslt_plan_free(plan);
        return td_no_memory(err, sizeof *state, "a product");
    }
    *state = (struct plan){plan, q.bytes};
    o->state = state;
    o->state_bytes = sizeof *state + td_cublaslt_plan_bytes(plan);
    o->workspace_bytes = q.bytes + td_cublaslt_plan_workspace(plan);
    return TD_OK;
}

static void release_cublaslt(void *state)
{
    td_cublaslt_plan_free(((struct plan *)state)->at);
    td_free(state);
}

static enum td_code library_product(const struct td_call *c, const struct equation *q, const void *const *in,
                                    void *z, struct td_err *err)
{
    const struct plan *plan = c->state;
    if (!td_cublaslt_aligned(in[0]) || !td_cublaslt_aligned(in[1])) { /* part of another tensor */
        return own_product(c, q, in, z, err);
    }
    const struct td_cublaslt_call call = {.a = in[0],
                                          .b = in[1],
                                          .y = z,
                                          .workspace = (char *)c->workspace + plan->work,
                                          .stream = td_cuda_stream_of(c)};
    return td_cublaslt_multiply(plan->at, &call, err) ? td_err_wrap(err, "%s", c->node->op_name) : TD_OK;
}

static enum td_code run_cublaslt(struct td_call *c, struct td_err *err)
{
    return run_by(c, true, library_product, err);
}

/* ------------------------------------------------------------------ rows */

TD_CUDA_CHOICES(prepare, prepare_cublaslt(q, choice, o, err))

static const struct td_kernel rows[] = {TD_CUDA_CHOICE_ROWS("einsum.cublaslt", prepare,
                                                            .types = {{"T", TD_CUDA_FLOATS}},
                                                            .release = release_cublaslt, .run = run_cublaslt),
                                        TD_CUDA_ROW("einsum.cuda", .types = {{"T", TD_CUDA_FLOATS}},
                                                    .competes = true, .prepare = prepare, .run = run),
                                        {.name = NULL}};

const struct td_op_rows td_cuda_rows_einsum[] = {{"Einsum", rows}, {NULL, NULL}};
