/* kernels/data/dataset_next.c - how each kind of dataset makes its next element.
 *
 * Numbers are the op's scalar inputs in order: Range start, stop, step; Batch size, drop_remainder; Take,
 * Skip, Repeat count; Shard num_shards, index; Interleave cycle_length, block_length;
 * AssertCardinality cardinality.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/data/dataset.h"

#include "core/base/mem.h"

/* ------------------------------------------------------------------ sources */

enum td_code td_dataset_next_once(struct td_call *c, struct td_dataset_iter *it, struct td_tensor *out,
                                  bool *end, struct td_err *err)
{
    (void)c;
    (void)err;
    *end = it->at++ > 0;
    for (int k = 0; k < it->ds->n_out && !*end; k++) {
        td_tensor_ref(&out[k], &it->ds->arg[k]);
    }
    return TD_OK;
}

void td_dataset_row(struct td_tensor *dst, const struct td_tensor *src, int64_t i)
{
    td_tensor_rows(dst, src, i, i + 1);
    dst->shape.rank--;
    memmove(dst->shape.dim, dst->shape.dim + 1, (size_t)dst->shape.rank * sizeof *dst->shape.dim);
}

enum td_code td_dataset_next_slice(struct td_call *c, struct td_dataset_iter *it, struct td_tensor *out,
                                   bool *end, struct td_err *err)
{
    (void)c;
    (void)err;
    *end = it->ds->n_args == 0 || it->at >= it->ds->arg[0].shape.dim[0];
    for (int k = 0; k < it->ds->n_out && !*end; k++) {
        td_dataset_row(&out[k], &it->ds->arg[k], it->at);
    }
    it->at++;
    return TD_OK;
}

enum td_code td_dataset_next_range(struct td_call *c, struct td_dataset_iter *it, struct td_tensor *out,
                                   bool *end, struct td_err *err)
{
    (void)c;
    struct td_shape scalar = td_shape_scalar();
    *end = it->at >= it->ds->cardinality;
    if (*end) {
        return TD_OK;
    }
    TD_TRY(td_tensor_new(&out[0], TD_INT64, &scalar, err));
    uint64_t v = (uint64_t)it->ds->number[0] + (uint64_t)it->at++ * (uint64_t)it->ds->number[2];
    TD_DATA(&out[0], int64_t)[0] = (int64_t)v;
    return TD_OK;
}

/* ------------------------------------------------------------------ elements of the input */

static struct td_tensor *new_element(int n, struct td_err *err)
{
    struct td_tensor *t = td_calloc((size_t)n + 1, sizeof *t);
    if (!t) {
        td_no_memory(err, (size_t)n * sizeof *t, "dataset element");
    }
    return t;
}

/* Pulls one element of the first input into *in, which the caller gives to drop_input. */
static enum td_code pull(struct td_call *c, struct td_dataset_iter *it, struct td_tensor **in, bool *end,
                         struct td_err *err)
{
    *in = new_element(it->ds->from[0]->n_out, err);
    if (!*in) {
        return TD_RESOURCE_EXHAUSTED;
    }
    enum td_code rc = td_dataset_next(c, it->from[0], *in, end, err);
    if (rc || *end) {
        td_free(*in);
        *in = NULL;
    }
    return rc;
}

static void drop_input(struct td_dataset_iter *it, struct td_tensor *in)
{
    td_dataset_clear(in, it->ds->from[0]->n_out);
    td_free(in);
}

void td_dataset_move(struct td_tensor *out, struct td_tensor *in, int n)
{
    memcpy(out, in, (size_t)n * sizeof *out);
    memset(in, 0, (size_t)n * sizeof *in);
}

/* f(element, captured arguments) */
static enum td_code call_on(struct td_call *c, const struct td_dataset_iter *it, const struct td_tensor *in,
                            struct td_tensor *out, int n_out, struct td_err *err)
{
    const struct td_dataset *ds = it->ds;
    const struct td_tensor *const parts[3] = {in, ds->arg, NULL};
    return td_dataset_call(c, ds->function, parts, (const int[3]){ds->from[0]->n_out, ds->n_args, 0}, out,
                           n_out, err);
}

enum td_code td_dataset_next_map(struct td_call *c, struct td_dataset_iter *it, struct td_tensor *out,
                                 bool *end, struct td_err *err)
{
    struct td_tensor *in;
    TD_TRY(pull(c, it, &in, end, err));
    if (*end) {
        return TD_OK;
    }
    enum td_code rc = call_on(c, it, in, out, it->ds->n_out, err);
    drop_input(it, in);
    return rc;
}

/* *yes = predicate(element) */
static enum td_code ask(struct td_call *c, const struct td_dataset_iter *it, const struct td_tensor *in,
                        bool *yes, struct td_err *err)
{
    struct td_tensor answer = {0};
    TD_TRY(call_on(c, it, in, &answer, 1, err));
    enum td_code rc = TD_OK;
    if (answer.dtype == TD_BOOL && td_tensor_count(&answer) == 1) {
        *yes = TD_DATA(&answer, td_bool)[0];
    } else {
        rc = td_fail(err, TD_INVALID_ARGUMENT, "%s: the predicate must return a scalar bool, but gave %s %s",
                     it->ds->function, td_dtype_name(answer.dtype), TD_SHAPE_STR(&answer.shape));
    }
    td_tensor_clear(&answer);
    return rc;
}

enum td_code td_dataset_next_filter(struct td_call *c, struct td_dataset_iter *it, struct td_tensor *out,
                                    bool *end, struct td_err *err)
{
    for (bool yes = false; !yes;) {
        struct td_tensor *in;
        TD_TRY(pull(c, it, &in, end, err));
        if (*end) {
            return TD_OK;
        }
        enum td_code rc = ask(c, it, in, &yes, err);
        if (!rc && yes) {
            td_dataset_move(out, in, it->ds->n_out);
        }
        drop_input(it, in);
        if (rc) {
            return rc;
        }
    }
    return TD_OK;
}

enum td_code td_dataset_next_take_while(struct td_call *c, struct td_dataset_iter *it, struct td_tensor *out,
                                        bool *end, struct td_err *err)
{
    struct td_tensor *in;
    bool yes = false;
    TD_TRY(pull(c, it, &in, end, err));
    if (*end) {
        return TD_OK;
    }
    enum td_code rc = ask(c, it, in, &yes, err);
    if (!rc && yes) {
        td_dataset_move(out, in, it->ds->n_out);
    }
    drop_input(it, in);
    *end = !rc && !yes;
    return rc;
}

/* f(state, element, captured arguments) -> (new state, output) */
enum td_code td_dataset_next_scan(struct td_call *c, struct td_dataset_iter *it, struct td_tensor *out,
                                  bool *end, struct td_err *err)
{
    const struct td_dataset *ds = it->ds;
    struct td_tensor *in, *result = new_element(ds->n_state + ds->n_out, err);
    if (!result) {
        return TD_RESOURCE_EXHAUSTED;
    }
    enum td_code rc = pull(c, it, &in, end, err);
    if (!rc && !*end) {
        const struct td_tensor *const parts[3] = {it->state, in, ds->arg + ds->n_state};
        const int n_part[3] = {ds->n_state, ds->from[0]->n_out, ds->n_args - ds->n_state};
        rc = td_dataset_call(c, ds->function, parts, n_part, result, ds->n_state + ds->n_out, err);
        drop_input(it, in);
    }
    if (!rc && !*end) {
        td_dataset_clear(it->state, ds->n_state);
        td_dataset_move(it->state, result, ds->n_state);
        td_dataset_move(out, result + ds->n_state, ds->n_out);
    }
    td_free(result);
    return rc;
}

/* ------------------------------------------------------------------ datasets of datasets */

static enum td_code open_made(const struct td_dataset *ds, const struct td_tensor *made,
                              struct td_dataset_iter **open, struct td_err *err)
{
    struct td_dataset *given;
    TD_TRY(td_dataset_given(made, ds->function, ds->n_out, &given, err));
    return td_dataset_iter_new(given, open, err);
}

/* f(element) is a dataset; *open = an iterator of it. */
static enum td_code open_next(struct td_call *c, struct td_dataset_iter *it, struct td_dataset_iter **open,
                              bool *end, struct td_err *err)
{
    struct td_tensor *in, made = {0};
    TD_TRY(pull(c, it, &in, end, err));
    if (*end) {
        return TD_OK;
    }
    enum td_code rc = call_on(c, it, in, &made, 1, err);
    drop_input(it, in);
    if (rc) {
        return rc;
    }
    rc = open_made(it->ds, &made, open, err);
    td_tensor_clear(&made);
    return rc;
}

static void pass_on(struct td_dataset_iter *it)
{
    it->at = 0;
    it->front = (it->front + 1) % it->n_open;
}

/* The places of it->open take turns, `block` elements each; `at` counts those of the one whose turn it is. A
 * place without an iterator opens the next when its turn comes, not before: only then does an error on the
 * way count. */
static enum td_code interleave(struct td_call *c, struct td_dataset_iter *it, int64_t block,
                               struct td_tensor *out, bool *end, struct td_err *err)
{
    for (int empty = 0;
         empty < it->n_open;) { /* places found empty in a row, when there is nothing to open */
        struct td_dataset_iter **mine = &it->open[it->front];
        bool over = false;
        if (*mine == NULL && !it->from[0]->over) {
            TD_TRY(open_next(c, it, mine, &over, err));
            continue;
        }
        if (*mine != NULL) {
            TD_TRY(td_dataset_next(c, *mine, out, &over, err));
            if (!over) {
                if (++it->at >= block) {
                    pass_on(it);
                }
                *end = false;
                return TD_OK;
            }
            td_dataset_iter_free(*mine);
            *mine = NULL;
            empty = -1;
        }
        pass_on(it);
        empty++;
    }
    *end = true;
    return TD_OK;
}

static enum td_code make_open(struct td_dataset_iter *it, int64_t cycle, struct td_err *err)
{
    if (!it->open) {
        it->open = td_calloc((size_t)cycle, sizeof *it->open);
        it->n_open = it->open ? (int)cycle : 0;
    }
    return it->open ? TD_OK : td_no_memory(err, (size_t)cycle * sizeof *it->open, "interleaved datasets");
}

enum td_code td_dataset_next_flat_map(struct td_call *c, struct td_dataset_iter *it, struct td_tensor *out,
                                      bool *end, struct td_err *err)
{
    TD_TRY(make_open(it, 1, err));
    return interleave(c, it, INT64_MAX, out, end, err);
}

enum td_code td_dataset_next_interleave(struct td_call *c, struct td_dataset_iter *it, struct td_tensor *out,
                                        bool *end, struct td_err *err)
{
    TD_TRY(make_open(it, it->ds->number[0], err));
    return interleave(c, it, it->ds->number[1], out, end, err);
}

/* ------------------------------------------------------------------ batches */

enum td_code td_dataset_stack(const struct td_tensor *items, int64_t n, int width, int k,
                              struct td_tensor *out, struct td_err *err)
{
    const struct td_tensor *first = &items[k];
    struct td_shape vector = td_shape_vector(n), shape;
    TD_TRY(td_shape_concat(&vector, &first->shape, &shape, err));
    TD_TRY(td_tensor_new(out, first->dtype, &shape, err));
    int64_t count = td_tensor_count(first);
    size_t bytes = (size_t)count * td_dtype_size(first->dtype);
    for (int64_t i = 0; i < n; i++) {
        const struct td_tensor *t = &items[i * width + k];
        TD_FAIL_IF(t->dtype != first->dtype || !td_shape_equal(&t->shape, &first->shape), err,
                   INVALID_ARGUMENT,
                   "Cannot batch tensors with different shapes in component %d. First element had shape %s "
                   "and element "
                   "%lld had shape %s.",
                   k, TD_SHAPE_STR(&first->shape), (long long)i, TD_SHAPE_STR(&t->shape));
        if (count > 0) {
            td_elems_copy(t->dtype, (char *)out->data + (size_t)i * bytes, t->data, count);
        }
    }
    return TD_OK;
}

static enum td_code buffer_grow(struct td_dataset_iter *it, int64_t *cap, struct td_err *err)
{
    int width = it->ds->n_out;
    if (it->front + it->n_buffered < *cap) {
        return TD_OK;
    }
    if (it->front > it->n_buffered) {
        memcpy(it->buffer, it->buffer + it->front * width,
               (size_t)it->n_buffered * (size_t)width * sizeof *it->buffer);
        it->front = 0;
        return TD_OK;
    }
    int64_t more = *cap ? *cap * 2 : 16;
    struct td_tensor *p = td_realloc(it->buffer, (size_t)more * (size_t)(width + 1), sizeof *p);
    if (!p) {
        return td_no_memory(err, (size_t)more * sizeof *p, "buffered dataset elements");
    }
    it->buffer = p;
    *cap = more;
    return TD_OK;
}

enum td_code td_dataset_buffer_fill(struct td_call *c, struct td_dataset_iter *it, int64_t n, int64_t *cap,
                                    struct td_err *err)
{
    int width = it->ds->n_out;
    bool end = false;
    while (it->n_buffered < n && !end && !it->from[0]->over) {
        TD_TRY(buffer_grow(it, cap, err));
        struct td_tensor *slot = it->buffer + (it->front + it->n_buffered) * width;
        memset(slot, 0, (size_t)width * sizeof *slot);
        TD_TRY(td_dataset_next(c, it->from[0], slot, &end, err));
        it->n_buffered += !end;
    }
    return TD_OK;
}

enum td_code td_dataset_next_batch(struct td_call *c, struct td_dataset_iter *it, struct td_tensor *out,
                                   bool *end, struct td_err *err)
{
    int64_t size = it->ds->number[0], drop = it->ds->number[1];
    enum td_code rc = td_dataset_buffer_fill(c, it, size, &it->at, err); /* at: capacity of the buffer */
    int64_t n = it->n_buffered;
    *end = !rc && (n == 0 || (drop && n < size));
    for (int k = 0; k < it->ds->n_out && !rc && !*end; k++) {
        rc = td_dataset_stack(it->buffer, n, it->ds->n_out, k, &out[k], err);
    }
    td_dataset_clear(it->buffer, n * it->ds->n_out);
    it->n_buffered = 0;
    return rc;
}

/* The element under way is in the buffer; `at` is the next row of it. */
enum td_code td_dataset_next_unbatch(struct td_call *c, struct td_dataset_iter *it, struct td_tensor *out,
                                     bool *end, struct td_err *err)
{
    int width = it->ds->n_out;
    while (it->n_buffered == 0 || it->at >= it->buffer[0].shape.dim[0]) {
        td_dataset_clear(it->buffer, it->n_buffered * width);
        it->n_buffered = 0;
        td_free(it->buffer);
        it->buffer = NULL;
        TD_TRY(pull(c, it, &it->buffer, end, err));
        if (*end) {
            return TD_OK;
        }
        it->n_buffered = 1;
        it->at = 0;
        for (int k = 0; k < width; k++) {
            const struct td_shape *s = &it->buffer[k].shape;
            TD_FAIL_IF(s->rank < 1 || s->dim[0] != it->buffer[0].shape.dim[0], err, INVALID_ARGUMENT,
                       "Cannot unbatch component %d of shape %s: want rows, as many as component 0 has", k,
                       TD_SHAPE_STR(s));
        }
    }
    for (int k = 0; k < width; k++) {
        td_dataset_row(&out[k], &it->buffer[k], it->at);
    }
    it->at++;
    return TD_OK;
}

/* ------------------------------------------------------------------ choosing elements */

enum td_code td_dataset_next_take(struct td_call *c, struct td_dataset_iter *it, struct td_tensor *out,
                                  bool *end, struct td_err *err)
{
    *end = it->ds->number[0] >= 0 && it->at >= it->ds->number[0];
    it->at++;
    return *end ? TD_OK : td_dataset_next(c, it->from[0], out, end, err);
}

/* Drops elements until `at` is what was asked for. */
static enum td_code skip_to(struct td_call *c, struct td_dataset_iter *it, int64_t to, struct td_tensor *out,
                            bool *end, struct td_err *err)
{
    for (; it->at < to && !*end; it->at++) {
        TD_TRY(td_dataset_next(c, it->from[0], out, end, err));
        td_dataset_clear(out, it->ds->n_out);
    }
    return TD_OK;
}

enum td_code td_dataset_next_skip(struct td_call *c, struct td_dataset_iter *it, struct td_tensor *out,
                                  bool *end, struct td_err *err)
{
    *end = it->ds->number[0] < 0;
    TD_TRY(skip_to(c, it, it->ds->number[0], out, end, err));
    return *end ? TD_OK : td_dataset_next(c, it->from[0], out, end, err);
}

enum td_code td_dataset_next_shard(struct td_call *c, struct td_dataset_iter *it, struct td_tensor *out,
                                   bool *end, struct td_err *err)
{
    int64_t shards = it->ds->number[0], index = it->ds->number[1];
    int64_t to = it->at + (index - it->at % shards + shards) % shards;
    TD_TRY(skip_to(c, it, to, out, end, err));
    it->at++;
    return *end ? TD_OK : td_dataset_next(c, it->from[0], out, end, err);
}

/* As many elements as were promised, no more and no fewer. */
enum td_code td_dataset_next_counted(struct td_call *c, struct td_dataset_iter *it, struct td_tensor *out,
                                     bool *end, struct td_err *err)
{
    int64_t want = it->ds->number[0];
    TD_TRY(td_dataset_next(c, it->from[0], out, end, err));
    it->at += !*end;
    TD_FAIL_IF(*end ? it->at != want && want != TD_DATASET_UNKNOWN
                    : want != TD_DATASET_UNKNOWN && want != TD_DATASET_INFINITE && it->at > want,
               err, FAILED_PRECONDITION,
               "Input dataset was expected to contain %lld elements but contained %s%lld.", (long long)want,
               *end ? "only " : "at least ", (long long)it->at);
    return TD_OK;
}

/* `at` counts the passes that ended; n_buffered is 1 once this pass gave an element (nothing is buffered).
 * After the last of a number of passes TensorFlow makes an iterator that it does not use: shufflings get
 * their seeds then. */
enum td_code td_dataset_next_repeat(struct td_call *c, struct td_dataset_iter *it, struct td_tensor *out,
                                    bool *end, struct td_err *err)
{
    int64_t count = it->ds->number[0];
    *end = count == 0;
    while (!*end) {
        struct td_dataset_iter *again;
        TD_TRY(td_dataset_next(c, it->from[0], out, end, err));
        if (!*end) {
            it->n_buffered = 1;
            return TD_OK;
        }
        bool last = count > 0 && ++it->at >= count;
        if (!last && it->n_buffered == 0) {
            return TD_OK; /* an input without elements */
        }
        TD_TRY(td_dataset_iter_new(it->ds->from[0], &again, err));
        td_dataset_iter_free(it->from[0]);
        it->from[0] = again;
        it->n_buffered = 0;
        *end = last;
    }
    return TD_OK;
}

enum td_code td_dataset_next_concatenate(struct td_call *c, struct td_dataset_iter *it, struct td_tensor *out,
                                         bool *end, struct td_err *err)
{
    *end = true;
    for (; it->at < it->ds->n_from && *end; it->at += *end) {
        TD_TRY(td_dataset_next(c, it->from[it->at], out, end, err));
    }
    return TD_OK;
}

enum td_code td_dataset_next_zip(struct td_call *c, struct td_dataset_iter *it, struct td_tensor *out,
                                 bool *end, struct td_err *err)
{
    int k = 0;
    for (int i = 0; i < it->ds->n_from && !*end; i++) {
        TD_TRY(td_dataset_next(c, it->from[i], out + k, end, err));
        k += it->ds->from[i]->n_out;
    }
    return TD_OK;
}
