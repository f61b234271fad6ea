"""Random functions of TensorFlow for tests/property/rows_check.c, which runs rows together and apart wherever core/batchable/batchable.c says that it may.

    build/venv/bin/python tests/property/rows_draw.py OUT [--draws 40] [--seed N]     writes OUT/1, a SavedModel with a signature a function
    build/tests/rows_check OUT/1

A function makes two to six moves: each takes a value made before (mostly one of the last) and transposes, reshapes, reduces, joins, slices, gathers, multiplies, repeats, scans or
branches, by axes, sizes and numbers of rows that are drawn. Only functions with a result a row are kept, and about half of those turn out row-wise.
"""
import argparse
import os
import random

os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")   # TensorFlow's own kernels, whatever the CPU
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

import draw_seed  # noqa: E402

F = tf.float32
SHAPES = ([-1, 4], ["N", -1], [-1, 2], [2, -1], [4, -1], [-1], [-1, 2, 2], [2, -1, 2], ["N", 2, -1], [2, "N", -1], [-1, 8], ["N", -1, 2], [3, -1])
EQUATIONS = ("ij,kj->ik", "ij,ij->i", "ij,ij->ij", "ijk,ijk->ij", "ijk,ikl->ijl", "ijk,ilk->ijl", "ij,jk->ik", "bij,bj->bi", "i,ij->ij", "...i,...i->...i")
CONSTANTS = ([1.0, 2, 3, 4], [[1.0], [2.0]], [1.0, 2.0], 3.0)
LARGEST = 20000    # elements of a result


class Draw:
    """One function while it is made: x, its number of rows n, and the values so far, further inputs among them."""

    def __init__(self, rng, x, more):
        self.rng, self.x, self.n, self.values = rng, x, tf.shape(x)[0], [x, *more]

    def pick(self, of):
        return of[self.rng.randrange(len(of))]

    def new(self):
        """One move. Whatever TensorFlow refuses is tried again by the caller."""
        self.t = self.pick(self.values[-3:])
        self.u = self.pick(self.values)
        self.rank = self.t.shape.rank
        self.axis = self.rng.randrange(max(self.rank, 1))
        y = self.pick(MOVES)(self)
        if y.dtype != F or y.shape.rank is None or y.shape.rank > 5:
            raise ValueError("not a value to go on with")
        self.values.append(y)

    def sizes(self, t):
        return tf.unstack(tf.shape(t))

    def shape(self):
        return tf.stack([self.n if d == "N" else tf.constant(d) for d in self.pick(SHAPES)])

    def shuffled(self, items):
        items = list(items)
        self.rng.shuffle(items)
        return items


def merge_axes(d):
    sizes, i = d.sizes(d.t), d.rng.randrange(max(d.rank - 1, 1))
    return tf.reshape(d.t, tf.stack(sizes[:i] + [sizes[i] * sizes[i + 1]] + sizes[i + 2:]))


def along(d):
    return d.pick((lambda: tf.cumsum(d.t, d.axis), lambda: tf.reverse(d.t, [d.axis]), lambda: tf.roll(d.t, 1, d.axis), lambda: tf.nn.softmax(d.t, d.axis)))()


def reduce(d):
    return d.pick((tf.reduce_sum, tf.reduce_max, tf.reduce_mean))(d.t, d.axis, keepdims=d.pick((True, False)))


def tile(d):
    times = [1] * d.rank
    times[d.axis] = d.pick((2, 3, d.n))
    return tf.tile(d.t, tf.stack(times))


def cut(d):
    at = [slice(None)] * d.rank
    at[d.axis] = d.pick((slice(1, None), slice(None, None, 2), slice(None, None, -1), slice(None, d.n), slice(0, 1), slice(d.n, None), slice(-1, None), slice(None, -1)))
    return d.t[tuple(at)]


def pad(d):
    edges = [tf.constant([0, 0])] * d.rank
    edges[d.axis] = tf.stack(d.pick(([1, 1], [0, 1], [0, d.n], [0, d.n % 2])))
    return tf.pad(d.t, tf.stack(edges), mode=d.pick(("CONSTANT", "SYMMETRIC")))


def equal_rows(d):
    return d.pick((lambda: tf.fill(tf.stack([d.n, 2]), 1.5), lambda: tf.ones(tf.stack([d.n])), lambda: tf.broadcast_to(tf.constant([1.0, 2, 3, 4]), tf.stack([d.n, 4])),
                   lambda: tf.tile(tf.constant([[1.0, 2]]), tf.stack([d.n, 1])), lambda: tf.cast(tf.range(d.n), F), lambda: tf.tile(tf.constant([1.0, 2]), tf.stack([d.n])),
                   lambda: tf.reshape(tf.tile(tf.constant([1.0, 2]), tf.stack([d.n])), [2, -1])))()


def branch(d):
    when = d.pick((lambda: tf.equal(d.n % 2, 0), lambda: d.n > 2, lambda: tf.equal(d.n % 3, 1), lambda: tf.equal(d.n, 4), lambda: tf.equal(tf.shape(d.t)[-1], 4),
                   lambda: tf.logical_and(d.n > 3, d.n < 6), lambda: tf.reduce_any(d.t > 1.0)))()
    other = d.pick((lambda: d.t * 3.0, lambda: tf.reverse(d.t, [0])))
    return tf.cond(when, lambda: d.t * 2.0, other)


def indices(d):
    return d.pick((lambda: tf.range(d.n), lambda: tf.range(d.n)[::-1], lambda: tf.argsort(tf.reshape(d.x, [d.n, -1])[:, 0])))()


def scan_inside(d):
    turned = [1, 0] + list(range(2, d.rank))
    return tf.transpose(tf.scan(lambda a, b: a * 0.5 + b, tf.transpose(d.t, turned)), turned)


MOVES = (
    lambda d: tf.transpose(d.t, d.shuffled(range(d.rank))),
    lambda d: tf.transpose(d.t, d.shuffled(range(d.rank))),
    lambda d: tf.reshape(d.t, d.shape()),
    lambda d: tf.reshape(d.t, tf.stack(d.shuffled(d.sizes(d.t)))),
    merge_axes, along, reduce, tile, cut, pad, equal_rows, branch, scan_inside,
    lambda d: tf.concat([d.t, d.u], d.axis),
    lambda d: tf.stack([d.t, d.t * 2.0], d.rng.randrange(d.rank + 1)),
    lambda d: tf.unstack(d.t, axis=d.axis)[-1],
    lambda d: tf.split(d.t, 2, axis=d.axis)[1],
    lambda d: tf.repeat(d.t, 2, axis=d.axis),
    lambda d: tf.expand_dims(d.t, d.rng.randrange(d.rank + 1)),
    lambda d: tf.squeeze(d.t),
    lambda d: tf.gather(d.t, d.pick(([0], [1, 0], [0, 0, 1])), axis=d.axis),
    lambda d: tf.gather(d.t, indices(d), axis=d.axis),
    lambda d: tf.gather(d.t, tf.cast(d.u > 0, tf.int32), axis=d.axis, batch_dims=d.pick((0, 1))),
    lambda d: tf.matmul(d.t, d.u, transpose_a=d.pick((True, False)), transpose_b=d.pick((True, False))),
    lambda d: tf.einsum(d.pick(EQUATIONS), d.t, d.u),
    lambda d: d.pick((tf.add, tf.multiply, tf.maximum))(d.t, d.u),
    lambda d: d.t + tf.constant(d.pick(CONSTANTS)),
    lambda d: d.pick((tf.zeros_like, tf.ones_like))(d.t),
    lambda d: tf.where(d.t > 0, d.t, d.u),
    lambda d: d.pick((tf.space_to_batch, tf.batch_to_space))(d.t, [2], [[0, 0]]),
    lambda d: tf.one_hot(tf.cast(d.t > 0, tf.int32), 2, axis=d.rng.randrange(-1, d.rank + 1)),
    lambda d: d.pick((lambda: tf.scan(lambda a, b: a * 0.5 + b, d.t), lambda: tf.map_fn(lambda b: b * 2.0, d.t)))(),
    lambda d: tf.linalg.diag(d.t),
)
ENDS = (
    lambda d, y: y, lambda d, y: y, lambda d, y: y, lambda d, y: tf.transpose(y),
    lambda d, y: tf.reshape(y, tf.stack([d.n, -1])), lambda d, y: tf.reshape(y, [-1, 4]), lambda d, y: tf.reshape(y, tf.shape(d.x)),
)


def build(rng, x, *more):
    d = Draw(rng, x, more)
    wanted = len(d.values) + rng.randrange(2, 7)
    for _ in range(60):
        if len(d.values) == wanted:
            break
        try:
            d.new()
        except Exception:    # of many kinds: the next move may do
            pass
    return {"y": d.pick(ENDS)(d, d.values[-1])}


def draw(rng):
    """A function with a result a row, or None."""
    inner = [rng.choice(([4], [4], [3, 4], [2])) for _ in range(rng.choice((1, 1, 2)))]
    specs = [tf.TensorSpec([None, *sizes], F, name=name) for name, sizes in zip("xz", inner)]
    try:
        f = tf.function(lambda *inputs: build(rng, *inputs), input_signature=specs, autograph=False).get_concrete_function()
        for n in (4, 6):
            y = f(*(tf.constant(np.random.default_rng(n).standard_normal([n, *sizes]), F) for sizes in inner))["y"]
            if y.shape.rank < 1 or y.shape[0] != n or tf.size(y) > LARGEST:
                return None
        return f
    except Exception:
        return None


def main():
    p = argparse.ArgumentParser()
    p.add_argument("out")
    p.add_argument("--draws", type=int, default=40)
    draw_seed.add_flag(p)
    args = p.parse_args()
    args.seed = draw_seed.chosen(args.seed)
    draw_seed.say(args.seed)
    rng, kept = random.Random(args.seed), []
    while len(kept) < args.draws:
        f = draw(rng)
        kept += [f] if f is not None else []
    tf.saved_model.save(tf.Module(), os.path.join(args.out, "1"), signatures={f"draw{i:04}": f for i, f in enumerate(kept)})


if __name__ == "__main__":
    main()
