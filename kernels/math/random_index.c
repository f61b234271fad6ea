/* kernels/math/random_index.c - RandomIndexShuffle: where an index comes to lie when [0, max_index] is
 * shuffled, without shuffling it.
 *
 *   index, max_index: scalars or [n];  seed [3] or [n, 3]  ->  output: a scalar, or [n]
 *
 * A cipher (Simon, of words just long enough, of so many rounds) makes of the index another of as many bits,
 * again and again until it is one of those asked for: so no two indices meet.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "core/graph/graph.h"
#include "kernels/ops.h"

enum { MOST_ROUNDS = 4096, STOP_EVERY = 0xfff };

struct cipher {
    int bits; /* of a word; a block has two */
    uint64_t mask;
    int rounds;
    uint64_t *keys;
};

static uint64_t rotated(const struct cipher *c, uint64_t x, int by)
{
    return (x << by | x >> (c->bits - by)) & c->mask;
}

static uint64_t mixed(const struct cipher *c, uint64_t x)
{
    return (rotated(c, x, 1) & rotated(c, x, 8)) ^ rotated(c, x, 2);
}

static void schedule(struct cipher *c, const uint32_t seed[3])
{
    uint64_t z = 0x7369f885192c0ef5u & c->mask;
    for (int i = 0; i < c->rounds; i++) {
        if (i < 3) {
            c->keys[i] = seed[i] & c->mask;
            continue;
        }
        const uint64_t last = c->keys[i - 1];
        const uint64_t rotation = rotated(c, last, c->bits - 3) ^ rotated(c, last, c->bits - 4);
        c->keys[i] = (0xfffffffcu & c->mask) ^ (z & 1) ^ c->keys[i - 3] ^ rotation;
        z >>= 1;
    }
}

static uint64_t enciphered(const struct cipher *c, uint64_t v)
{
    uint64_t left = v >> c->bits & c->mask, right = v & c->mask;
    for (int i = 0; i < c->rounds; i += 2) {
        left ^= mixed(c, right) ^ c->keys[i];
        right ^= mixed(c, left) ^ c->keys[i + 1];
    }
    return left << c->bits | right;
}

/* Sixteen bits at least, and even. */
static int block_bits(uint64_t most)
{
    int bits = (int)ceil(log2((double)most));
    bits += bits % 2;
    return bits < 16 ? 16 : bits > 64 ? 64 : bits;
}

static enum td_code shuffled(const struct td_call *c, struct cipher *k, uint64_t index, uint64_t most,
                             uint64_t *out, struct td_err *err)
{
    uint64_t v = index;
    for (int64_t tries = 1;; tries++) {
        v = enciphered(k, v);
        if (v <= most) {
            *out = v;
            return TD_OK;
        }
        if ((tries & STOP_EVERY) == 0 && td_stopped(c)) {
            return td_stop_error(c, err);
        }
    }
}

/* ------------------------------------------------------------------ the op */

static bool is_vector_of(const struct td_shape *s, int64_t n)
{
    return s->rank == 1 && s->dim[0] == n;
}

/* With all shapes known: how many indices, or -1 for one that is no vector. */
static enum td_code count_of(const struct td_infer *c, int64_t *n, struct td_err *err)
{
    const struct td_shape *index = &c->in[0], *seed = &c->in[1], *most = &c->in[2];
    const int64_t counts[] = {td_shape_count(index), td_shape_count(most), td_shape_count(seed) / 3};
    int64_t many = 0;
    for (int i = 0; i < 3; i++) {
        many = counts[i] > many ? counts[i] : many;
    }
    TD_FAIL_IF(index->rank > 0 && !is_vector_of(index, many), err, INVALID_ARGUMENT,
               "%s: Index must be a scalar or vector of %lld, is %s", TD_NODE_STR(c->node), (long long)many,
               TD_SHAPE_STR(index));
    TD_FAIL_IF(!is_vector_of(seed, 3) && !(seed->rank == 2 && seed->dim[0] == many && seed->dim[1] == 3), err,
               INVALID_ARGUMENT,
               "%s: Seed must be a vector of size [3] or a matrix of size [%lld, 3] but got %s.",
               TD_NODE_STR(c->node), (long long)many, TD_SHAPE_STR(seed));
    TD_FAIL_IF(most->rank > 0 && !is_vector_of(most, many), err, INVALID_ARGUMENT,
               "%s: Maxval must be a scalar or a vector of the same size as index but got %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(most));
    *n = index->rank == 0 && seed->rank == 1 && most->rank == 0 ? -1 : many;
    return TD_OK;
}

static enum td_code shuffle_infer(struct td_infer *c, struct td_err *err)
{
    int64_t n = 0;
    const int64_t rounds = td_attr_int(c->node, "rounds");
    TD_FAIL_IF(rounds < 4 || rounds % 2 != 0 || rounds > MOST_ROUNDS, err, INVALID_ARGUMENT,
               "%s: rounds must be an even number of at least 4, is %lld", TD_NODE_STR(c->node),
               (long long)rounds);
    for (int i = 0; i < 3; i++) {
        if (!td_shape_known(&c->in[i])) {
            return TD_OK;
        }
    }
    TD_TRY(count_of(c, &n, err));
    c->out[0] = n < 0 ? td_shape_scalar() : td_shape_vector(n);
    return TD_OK;
}

static void put(struct td_tensor *y, int64_t i, uint64_t v)
{
    if (td_dtype_size(y->dtype) == 4) {
        TD_DATA(y, uint32_t)[i] = (uint32_t)v;
    } else {
        TD_DATA(y, uint64_t)[i] = v;
    }
}

static uint64_t number_of(const struct td_tensor *t, int64_t i)
{
    return (uint64_t)td_tensor_int(t, t->shape.rank == 0 ? 0 : i);
}

static enum td_code shuffle_run(struct td_call *c, struct td_err *err)
{
    const struct td_tensor *index = c->in[0], *seed = c->in[1], *most = c->in[2];
    struct td_tensor *y;
    struct cipher k = {.rounds = (int)td_attr_int(c->node, "rounds")};
    void *keys;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    TD_TRY(td_scratch(c, (size_t)k.rounds * sizeof(uint64_t), &keys, err));
    k.keys = keys;
    const int64_t n = td_tensor_count(y);
    for (int64_t i = 0; i < n; i++) {
        const uint64_t at = number_of(index, i), limit = number_of(most, i);
        uint64_t v = 0;
        uint32_t seeds[3];
        TD_FAIL_IF(at > limit, err, INVALID_ARGUMENT, "%s: index %llu is above max_index, %llu",
                   TD_NODE_STR(c->node), (unsigned long long)at, (unsigned long long)limit);
        for (int j = 0; j < 3; j++) {
            seeds[j] = (uint32_t)td_tensor_int(seed, (seed->shape.rank == 2 ? 3 * i : 0) + j);
        }
        k.bits = block_bits(limit) / 2;
        k.mask = (UINT64_C(1) << k.bits) - 1;
        schedule(&k, seeds);
        if (limit > 0) {
            TD_TRY(shuffled(c, &k, at, limit, &v, err));
        }
        put(y, i, v);
    }
    return TD_OK;
}

#define INT_SET (TD_SET_INDEX | TD_BIT(TD_UINT32) | TD_BIT(TD_UINT64))

const struct td_op td_ops_random_index[] = {
    {.name = "RandomIndexShuffle",
     .sig = "(index:dtype, seed:Tseed, max_index:dtype) -> (output:dtype) {rounds:int=4; dtype:type; "
            "Tseed:type}",
     .infer = shuffle_infer,
     .kernels = TD_KERNEL("random_index.cpu", shuffle_run, {"dtype", INT_SET}, {"Tseed", INT_SET})},
    {.name = NULL},
};
