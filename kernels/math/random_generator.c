/* kernels/math/random_generator.c - the generators that random ops make, or keep between calls.
 *
 * Each node that keeps one has it in each model version, made of its seeds at the first call; a call takes
 * the present state and moves it on by 256 steps an element. Seeds both 0: seeded by the system. Nothing here
 * is of the host's memory: kernels of devices call it when they are launched (kernels/cuda/math/random.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/math/random_generator.h"

#include <sys/random.h>

#include "core/graph/graph.h"

/* ------------------------------------------------------------------ the node's generator */

struct state {
    uint64_t ready;
    struct td_philox g;
};

static enum td_code seed(const struct td_node *n, struct td_philox *g, struct td_err *err)
{
    uint64_t seeds[2] = {(uint64_t)td_attr_int(n, "seed"), (uint64_t)td_attr_int(n, "seed2")};
    if (seeds[0] == 0 && seeds[1] == 0) {
        TD_FAIL_IF(getrandom(seeds, sizeof seeds, 0) != sizeof seeds, err, INTERNAL,
                   "%s: the system gives no random seed", TD_NODE_STR(n));
    }
    *g = td_philox_make(seeds[0], 0, seeds[1]);
    return TD_OK;
}

enum td_code td_random_reserve(struct td_call *c, uint64_t steps, struct td_philox *g, struct td_err *err)
{
    void *mem, *lock;
    enum td_code rc = TD_OK;
    TD_TRY(td_node_state(c, sizeof(struct state), &mem, &lock, err));
    struct state *s = mem;
    td_state_lock(lock);
    if (!s->ready) {
        rc = seed(c->node, &s->g, err);
        s->ready = rc == TD_OK;
    }
    if (!rc) {
        *g = s->g;
        td_philox_skip(&s->g, steps);
    }
    td_state_unlock(lock);
    return rc;
}

/* ------------------------------------------------------------------ of the inputs */

struct td_philox td_random_from_seeds(const struct td_call *c, int i)
{
    return td_philox_from_seeds((uint64_t)td_tensor_int(c->in[i], 0), (uint64_t)td_tensor_int(c->in[i], 1));
}

/* All that is judged when no numbers are asked for: an algorithm that is not Philox wants as many words as
 * its number says (TensorFlow's GetCounterSize, whether it exists or not). */
enum td_code td_random_judge_counter(const struct td_call *c, struct td_err *err)
{
    const int64_t alg = td_tensor_int(c->in[3], 0);
    TD_FAIL_IF(
        alg != 3 && td_tensor_count(c->in[2]) < alg, err, INVALID_ARGUMENT,
        "%s: counter must be a vector with length at least %lld; got shape: %s. (Note that batched counters "
        "are not supported yet.)",
        TD_NODE_STR(c->node), (long long)alg, TD_SHAPE_STR(&c->in[2]->shape));
    return TD_OK;
}

enum td_code td_random_from_key(const struct td_call *c, struct td_philox *g, struct td_err *err)
{
    int64_t alg = td_tensor_int(c->in[3], 0);
    TD_TRY(td_random_judge_counter(c, err));
    TD_FAIL_IF(alg != 1 && alg != 3, err, INVALID_ARGUMENT,
               "%s: Unsupported algorithm id: %lld, want 1 (Philox) or 3", TD_NODE_STR(c->node),
               (long long)alg);
    const uint64_t *counter = c->in[2]->data;
    uint64_t hi = td_tensor_count(c->in[2]) > 1 ? counter[1] : 0;
    *g = td_philox_make(TD_DATA(c->in[1], uint64_t)[0], counter[0], hi);
    return TD_OK;
}

/* ------------------------------------------------------------------ bounds */

enum td_code td_random_fill_bounds(const struct td_call *c, const struct td_tensor *minval,
                                   const struct td_tensor *maxval, const struct td_tensor *out,
                                   struct td_err *err)
{
    TD_FAIL_IF(minval->shape.rank != 0, err, INVALID_ARGUMENT, "%s: minval must be 0-D, got shape %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(&minval->shape));
    TD_FAIL_IF(maxval->shape.rank != 0, err, INVALID_ARGUMENT, "%s: maxval must be 0-D, got shape %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(&maxval->shape));
    int64_t lo = td_tensor_int(minval, 0), hi = td_tensor_int(maxval, 0);
    TD_FAIL_IF(td_tensor_count(out) > 0 && lo >= hi, err, INVALID_ARGUMENT,
               "%s: Need minval < maxval, got %lld >= %lld", TD_NODE_STR(c->node), (long long)lo,
               (long long)hi);
    return TD_OK;
}
