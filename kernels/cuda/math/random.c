/* kernels/cuda/math/random.c - rows of the random ops: the generator is made, or drawn from and moved on, by
 * the host's own functions when the kernel is launched; the numbers are made on the GPU. Of stateless ops for
 * floats the seeds are read there, too: what draws by the number of a step can be recorded. So can what draws
 * from a node's own generator: where that stands is read there, too.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/math/random.h"

#include <string.h>

#include "kernels/cuda/base/cuda_call.h"
#include "kernels/cuda/rows.h"
#include "kernels/math/random_generator.h"

/* ------------------------------------------------------------------ the generator */

/* *g for n numbers, of what the host has. */
typedef enum td_code generator_fn(struct td_call *c, int64_t n, struct td_philox *g, struct td_err *err);

static enum td_code by_seeds(struct td_call *c, int64_t n, struct td_philox *g, struct td_err *err)
{
    (void)n;
    (void)err;
    *g = td_random_from_seeds(c, 1);
    return TD_OK;
}

static enum td_code by_key(struct td_call *c, int64_t n, struct td_philox *g, struct td_err *err)
{
    return n == 0 ? td_random_judge_counter(c, err) : td_random_from_key(c, g, err);
}

static enum td_code by_node(struct td_call *c, int64_t n, struct td_philox *g, struct td_err *err)
{
    return td_random_reserve(c, (uint64_t)n * TD_RANDOM_STEPS, g, err);
}

/* *from: what a launch reads. *launched: there is one. */
static enum td_code draw(struct td_call *c, generator_fn *generator, int64_t n,
                         struct td_cuda_generator *from, bool *launched, struct td_err *err)
{
    *launched = c->stream != NULL;
    if (c->drawn != NULL && *launched) {
        from->drawn = c->drawn;
        return TD_OK;
    }
    TD_TRY(generator(c, n, &from->g, err));
    if (c->drawn != NULL) {
        memcpy(c->drawn, &from->g, sizeof from->g);
    }
    return TD_OK;
}
_Static_assert(sizeof(struct td_philox) <= TD_DRAWN_BYTES, "what is drawn has room");

/* ------------------------------------------------------------------ the numbers */

static enum td_code fill(struct td_call *c, generator_fn *generator, enum td_random_kind kind,
                         struct td_err *err)
{
    struct td_tensor *y;
    struct td_cuda_generator from = {.seeds = NULL};
    TD_TRY(td_out(c, 0, NULL, &y, err));
    const int64_t n = td_tensor_count(y);
    bool launched = true;
    if (generator != NULL) {
        TD_TRY(draw(c, generator, n, &from, &launched, err));
    } else { /* seeds over there */
        from.seeds = c->in[1]->data;
        from.wide = td_dtype_size(c->in[1]->dtype) == 8;
    }
    return !launched ? TD_OK
                     : td_cuda_launched(c,
                                        td_cuda_random(td_cuda_type_of(y->dtype), kind, &from, y->data, n,
                                                       td_cuda_stream_of(c)),
                                        err);
}

/* Between inputs `bounds` and the next; negative: all integers. */
static enum td_code fill_ints(struct td_call *c, generator_fn *generator, int bounds, struct td_err *err)
{
    struct td_tensor *y;
    struct td_cuda_generator from = {.seeds = NULL};
    bool launched;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    const int64_t n = td_tensor_count(y);
    struct td_cuda_random_range s = {.wide = td_dtype_size(y->dtype) == 8};
    if (bounds >= 0) {
        TD_TRY(td_random_fill_bounds(c, c->in[bounds], c->in[bounds + 1], y, err));
        s.lo = (uint64_t)td_tensor_int(c->in[bounds], 0);
        s.range = (uint64_t)td_tensor_int(c->in[bounds + 1], 0) - s.lo;
    }
    TD_TRY(draw(c, generator, n, &from, &launched, err));
    return !launched
               ? TD_OK
               : td_cuda_launched(c, td_cuda_random_ints(&s, &from, y->data, n, td_cuda_stream_of(c)), err);
}

/* The last input is alpha. */
static enum td_code prepare_gamma(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                  struct td_err *err)
{
    const int64_t n = td_shape_count(&q->out[0]), n_alpha = td_shape_count(&q->in[q->n_in - 1]);
    (void)err;
    o->refusal = n == 0 || n_alpha == 0 || n % n_alpha != 0 ? "not so many for each parameter" : NULL;
    return TD_OK;
}

static enum td_code fill_gamma(struct td_call *c, generator_fn *generator, struct td_err *err)
{
    const struct td_tensor *alpha = c->in[c->n_in - 1];
    struct td_tensor *y;
    struct td_philox g = {0};
    TD_TRY(td_out(c, 0, NULL, &y, err));
    const int64_t n = td_tensor_count(y), n_alpha = td_tensor_count(alpha);
    TD_TRY(generator(c, n, &g, err));
    return td_cuda_launched(c,
                            td_cuda_random_gamma(td_cuda_type_of(y->dtype), g, alpha->data, n_alpha,
                                                 n / n_alpha, y->data, td_cuda_stream_of(c)),
                            err);
}

/* ------------------------------------------------------------------ rows */

#define ROWS(what, call, ...) ROWS_OF(what, call, NULL, false, __VA_ARGS__)
#define DRAWN(what, call, ...) ROWS_OF(what, call, NULL, true, __VA_ARGS__)
#define ROWS_OF(what, call, ready, recorded, ...)                                                            \
    static enum td_code run_##what(struct td_call *c, struct td_err *err)                                    \
    {                                                                                                        \
        return call;                                                                                         \
    }                                                                                                        \
    TD_CUDA_ROWS(rows_##what, "random.cuda", .types = {__VA_ARGS__}, .draws = recorded, .prepare = ready,    \
                 .run = run_##what);
#define FLOATS(rows, what, generator, ...)                                                                   \
    rows(uniform_##what, fill(c, generator, TD_RANDOM_UNIFORM, err), {"dtype", TD_CUDA_FLOATS}, __VA_ARGS__) \
        rows(normal_##what, fill(c, generator, TD_RANDOM_NORMAL, err), {"dtype", TD_CUDA_FLOATS},            \
             __VA_ARGS__) rows(truncated_##what, fill(c, generator, TD_RANDOM_TRUNCATED_NORMAL, err),        \
                               {"dtype", TD_CUDA_FLOATS}, __VA_ARGS__)
FLOATS(ROWS, by_seeds, NULL, {"Tseed", TD_SET_INDEX})
FLOATS(ROWS, by_key, by_key, {NULL, 0})
FLOATS(DRAWN, by_node, by_node, {NULL, 0})

#define FULL_SET (TD_SET_INDEX | TD_BIT(TD_UINT32) | TD_BIT(TD_UINT64))
ROWS(int_by_seeds, fill_ints(c, by_seeds, 2, err), {"dtype", TD_SET_INDEX})
ROWS(int_by_key, fill_ints(c, by_key, 4, err), {"dtype", TD_SET_INDEX})
DRAWN(int_by_node, fill_ints(c, by_node, 1, err), {"Tout", TD_SET_INDEX})
ROWS(full_by_seeds, fill_ints(c, by_seeds, -1, err), {"dtype", FULL_SET})
ROWS(full_by_key, fill_ints(c, by_key, -1, err), {"dtype", FULL_SET})

ROWS_OF(gamma_by_seeds, fill_gamma(c, by_seeds, err), prepare_gamma, false, {"dtype", TD_CUDA_FLOATS})
ROWS_OF(gamma_by_key, fill_gamma(c, by_key, err), prepare_gamma, false, {"dtype", TD_CUDA_FLOATS})

const struct td_op_rows td_cuda_rows_random[] = {{"StatelessRandomUniform", rows_uniform_by_seeds},
                                                 {"StatelessRandomNormal", rows_normal_by_seeds},
                                                 {"StatelessTruncatedNormal", rows_truncated_by_seeds},
                                                 {"StatelessRandomUniformV2", rows_uniform_by_key},
                                                 {"StatelessRandomNormalV2", rows_normal_by_key},
                                                 {"StatelessTruncatedNormalV2", rows_truncated_by_key},
                                                 {"RandomUniform", rows_uniform_by_node},
                                                 {"RandomStandardNormal", rows_normal_by_node},
                                                 {"TruncatedNormal", rows_truncated_by_node},
                                                 {"StatelessRandomUniformInt", rows_int_by_seeds},
                                                 {"StatelessRandomUniformIntV2", rows_int_by_key},
                                                 {"RandomUniformInt", rows_int_by_node},
                                                 {"StatelessRandomUniformFullInt", rows_full_by_seeds},
                                                 {"StatelessRandomUniformFullIntV2", rows_full_by_key},
                                                 {"StatelessRandomGammaV2", rows_gamma_by_seeds},
                                                 {"StatelessRandomGammaV3", rows_gamma_by_key},
                                                 {NULL, NULL}};
