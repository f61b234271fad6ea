"""Ops behind public functions that few models use, one model each."""
import numpy as np
from harness import F, I, Lazy, case, floats, model, save

tf = Lazy("tensorflow")


@model(rtol=1e-3, atol=1e-3, skip=("nonfinite",))
def matrix_logarithm(folder):
    def f(x):
        spd = tf.matmul(x, x, transpose_b=True) + 3 * tf.eye(4)
        return {"log": tf.math.real(tf.linalg.logm(tf.cast(spd, tf.complex64))), "root": tf.linalg.sqrtm(spd), "complex": tf.abs(tf.linalg.sqrtm(tf.cast(x + 5 * tf.eye(4), tf.complex64)))}
    save(folder, {"serving_default": (f, {"x": ([None, 4, 4], F)})})
    yield case({"x": floats(1, 3, 4, 4)})


@model(rtol=1e-3, atol=1e-4, skip=("nonfinite",))
def bands(folder):
    l = tf.linalg

    def f(x):
        return {"solve": l.tridiagonal_solve(tf.stack([x, x + 4, x], -2), x), "free": l.tridiagonal_solve(tf.stack([x, x + 4, x], -2), x[..., None], partial_pivoting=False), "product": l.tridiagonal_matmul(tf.stack([x, x + 1, x], -2), x[..., None]),
                "lower": l.banded_triangular_solve(tf.stack([x + 3, x], -2), x[..., None]), "upper": l.banded_triangular_solve(tf.stack([x, x + 3], -2), x[..., None], lower=False), "adjoint": l.banded_triangular_solve(tf.stack([x + 3, x], -2), x[..., None], adjoint=True)}
    save(folder, {"serving_default": (f, {"x": ([None, 4], F)})})
    yield case({"x": floats(1, 2, 4)})


@model(rtol=1e-3)
def glimpses(folder):
    def f(x, at):
        g = tf.image.extract_glimpse
        return {"centred": g(x, [3, 4], at, noise="zero"), "corner": g(x, [4, 3], at * 2 + 3, centered=False, normalized=False, noise="zero"), "plain": g(x, [5, 5], at, centered=False, noise="zero"), "middle": g(x, [2, 2], at * 0., noise="zero")}
    save(folder, {"serving_default": (f, {"x": ([None, 8, 9, 3], F), "at": ([None, 2], F)})})
    yield case({"x": floats(1, 2, 8, 9, 3), "at": [[.2, -.3], [-.9, .8]]})


@model(vary=False)
def datasets_of_all_kinds(folder):
    zero = np.int64(0)
    fold = lambda a, v: a * 3 + v

    def numbers(n):
        return tf.data.Dataset.range(tf.cast(n, tf.int64))
    kinds = {
        "interleave": lambda r: r.interleave(lambda i: tf.data.Dataset.range(i), cycle_length=2, block_length=2), "scan": lambda r: r.map(lambda i: i * i).scan(zero, lambda s, v: (s + v, s)),
        "shards": lambda r: r.concatenate(r).shard(2, 1).repeat(2), "pairs": lambda r: r.enumerate(5).map(lambda a, b: a * b), "cache": lambda r: r.cache().prefetch(2).batch(2, drop_remainder=True).unbatch(),
        "parallel": lambda r: r.map(lambda i: i + 1, num_parallel_calls=2), "flat": lambda r: r.flat_map(lambda i: tf.data.Dataset.from_tensors(i).repeat(i)), "while": lambda r: r.take_while(lambda i: i < 4),
        "skip": lambda r: r.skip(2).take(3).filter(lambda v: v % 2 == 1)}
    save(folder, {k: ((lambda make: lambda n: {"y": make(numbers(n)).reduce(zero, fold)})(make), {"n": ([], I)}) for k, make in kinds.items()})
    for k in kinds:
        yield case({"n": 7}, signature=k, id=k)
        yield case({"n": 0}, signature=k, id=k + "0")


@model(vary=False)
def sparse_rows_through_loops(folder):
    def f(i, v, n):
        s = tf.SparseTensor(i, v, tf.stack([n, tf.constant(5, tf.int64)]))
        one = tf.io.serialize_sparse(s)
        many = tf.io.serialize_many_sparse(s)
        back = tf.io.deserialize_many_sparse(many, tf.float32)
        mapped = tf.map_fn(lambda r: tf.sparse.reduce_sum(r) * 2, s, fn_output_signature=tf.float32)
        return {"back": tf.sparse.to_dense(back), "mapped": mapped, "n": tf.shape(many), "kind": tf.strings.length(one) > 0}
    save(folder, {"serving_default": (f, {"i": ([None, 2], "int64"), "v": ([None], F), "n": ([], "int64")})})
    yield case({"i": [[0, 1], [1, 4], [3, 0]], "v": [1, 2, 3], "n": 4})


@model(rtol=1e-3, atol=1e-4, skip=("nonfinite",))   # oneDNN's Relu behind a convolution makes 0 of NaN
def windows_in_the_padding(folder):
    """Convolutions whose first windows see padding alone, with a tensor added behind."""
    kinds = {"rows": ([[2, 1], [0, 0]], 3, (2, 1)), "step": ([[2, 2], [1, 1]], 1, (7, 3)), "columns": ([[0, 0], [4, 1]], 1, (3, 6))}
    add = lambda pads, stride: lambda x, w, z: {"y": tf.nn.conv2d(x, w, stride, [[0, 0], *pads, [0, 0]]) + z, "relu": tf.nn.relu(tf.nn.conv2d(x, w * 0.5, stride, [[0, 0], *pads, [0, 0]]) + z)}
    specs = {"x": ([None, 4, 3, 22], F), "w": ([2, 3, 22, 40], F), "z": ([None, None, None, 40], F)}
    save(folder, {k: (add(*how[:2]), specs) for k, how in kinds.items()})
    for k, how in kinds.items():
        yield case({"x": floats(3, 2, 4, 3, 22), "w": floats(1, 2, 3, 22, 40), "z": floats(2, 2, *how[2], 40)}, signature=k)


@model(rtol=1e-4, atol=1e-4, vary=False)
def many_indices(folder):
    """More of them than one pass of a sort holds, slices of more than a block's threads, and indices that are made where they are used; some are wrong."""
    raw = tf.raw_ops

    def sums(x, at):
        seen = tf.nn.relu(x)
        row = tf.reduce_sum(seen, 1)
        return {"scatter": tf.scatter_nd(at[:, None], seen, [1000, 3]), "last": tf.tensor_scatter_nd_update(tf.zeros([1000, 3]), at[:, None], seen), "most": tf.tensor_scatter_nd_max(tf.zeros([1000, 3]), at[:, None], seen),
                "segments": tf.math.unsorted_segment_sum(seen, at, 1000), "means": tf.math.unsorted_segment_mean(seen, at % 7 - 1, 6), "one": tf.math.unsorted_segment_max(row, at * 0, 2),
                "ordered": tf.math.segment_mean(seen, tf.sort(at)), "root": tf.sparse.segment_sqrt_n(seen, tf.range(tf.shape(at)[0]), at * 0, num_segments=2),
                "grad": raw.SparseSegmentMeanGrad(grad=seen[:1000], indices=at, segment_ids=tf.sort(at), output_dim0=1000)}

    def slices(x, at):
        wide = tf.nn.relu(tf.tile(x, [1, 4000]))
        return {"rows": tf.gather(wide, at), "columns": tf.gather(wide, at * 1000, axis=1), "batched": tf.gather(tf.reshape(wide, [3, 4, 3000]), tf.stack([at, at + 1, at]), axis=2, batch_dims=1), "nd": tf.gather_nd(wide, tf.stack([at, at * 1000], 1)),
                "halves": tf.gather(tf.cast(wide, tf.float16), at)}

    def computed(x, by):
        at = tf.cast(tf.nn.relu(x) * by, tf.int32)
        return {"rows": tf.gather(x, at), "nd": tf.gather_nd(x, at[:, None]), "sums": tf.math.unsorted_segment_sum(x, at, tf.shape(x)[0])}
    def chain(x, at, wrong):
        """More gathers than a run has words for what is refused; one of them may be."""
        n = tf.shape(x)[0]
        for k in range(80):
            x = tf.gather(x * 1.01 + 0.5, tf.math.floormod(at + k, n) + (wrong if k == 70 else 0))
        return {"y": x}
    save(folder, {"chain": (chain, {"x": ([None, 4], F), "at": ([None], I), "wrong": ([], I)}), "sums": (sums, {"x": ([None, 3], F), "at": ([None], I)}), "slices": (slices, {"x": ([3, 3], F), "at": ([None], I)}), "computed": (computed, {"x": ([None], F), "by": ([], F)})})
    draw = np.random.default_rng(5)
    for n in (1500, 2048, 2049, 9000):
        yield case({"x": floats(n, n, 3), "at": np.append(draw.integers(0, 1000, n - 1), 999).astype(np.int32)}, signature="sums", id=f"sums{n}")
    yield case({"x": floats(1, 2000, 3), "at": np.append(np.full(1999, 999), -1).astype(np.int32)}, signature="sums", id="wrong")
    yield case({"x": floats(2, 3, 3), "at": [0, 2, 1, 1, 2]}, signature="slices")
    yield case({"x": floats(2, 3, 3), "at": [0, 2, 3]}, signature="slices", id="past")
    yield case({"x": floats(3, 100), "by": 99.0}, signature="computed")
    yield case({"x": floats(3, 100), "by": 120.0}, signature="computed", id="too_far")
    for wrong in (0, 9):
        yield case({"x": floats(4, 5, 4), "at": [3, 0, 4, 1, 1], "wrong": wrong}, signature="chain", id=f"chain{wrong}")


@model(vary=False)
def no_sequences(folder):
    """Edit distances of no sequences at all: refused; of sequences that are empty on one side: not."""
    f = lambda x, y: {"y": tf.edit_distance(tf.sparse.from_dense(x), tf.sparse.from_dense(y), normalize=False)}
    save(folder, {"serving_default": (f, {"x": ([None, None], I), "y": ([None, None], I)})})
    for x, y in (([[1, 2], [3, 0]], [[1, 2, 3], [0, 0, 0]]), (np.zeros((0, 2)), np.zeros((0, 2))), (np.zeros((2, 0)), [[1], [2]])):
        yield case({"x": np.array(x, np.int32), "y": np.array(y, np.int32)})


@model(vary=False)
def sums_of_many(folder):
    """AddN adds eights up by themselves: where terms cancel, the order is what is left of them."""
    f = lambda **x: {"y": tf.add_n(list(x.values()))}
    save(folder, {f"of_{n}": (f, {f"x{k}": ([None], F) for k in range(n)}) for n in (7, 8, 9, 10, 17, 20, 33)})
    for n in (7, 8, 9, 10, 17, 20, 33):
        x = floats(n, n, 60)
        x[np.arange(n), np.arange(n)], x[(np.arange(n) * 5 + 3) % n, np.arange(n)] = 3e38, -3e38
        yield case({f"x{k}": row for k, row in enumerate(x)}, signature=f"of_{n}")
