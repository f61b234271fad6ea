"""Draws of ops that saved graphs carry beside those that people write: gradients of old ops, functions of matrices, and k-means."""
import numpy as np


def lstm(s):
    d, b, i, n = s.one(["float32", "float32", "float16"]), s.int(1, 3), s.int(1, 4), s.int(1, 4)
    cell = lambda lo=-1, hi=1: s.array(d, (b, n), lo, hi)
    row = lambda: s.array(d, (n,), -1, 1)
    given = {"x": s.array(d, (b, i), -1, 1), "cs_prev": cell(), "h_prev": cell(), "w": s.array(d, (i + n, 4 * n), -1, 1), "wci": row(), "wcf": row(), "wco": row(), "b": s.array(d, (4 * n,)),
             "i": cell(0, 1), "cs": cell(), "f": cell(0, 1), "o": cell(0, 1), "ci": cell(), "co": cell(), "cs_grad": cell(), "h_grad": cell()}
    return given, {"use_peephole": s.chance(0.5)}


def gru(s):
    b, i, n = s.int(1, 3), s.int(1, 4), s.int(1, 4)
    of = lambda *shape, lo=-1, hi=1: s.array("float32", shape, lo, hi)
    return {"x": of(b, i), "h_prev": of(b, n), "w_ru": of(i + n, 2 * n), "w_c": of(i + n, n), "b_ru": of(2 * n), "b_c": of(n), "r": of(b, n, lo=0), "u": of(b, n, lo=0), "c": of(b, n), "d_h": of(b, n)}, {}


def cholesky(s):
    d, n = s.one(["float32", "float64"]), s.int(1, 6)
    batch = s.shape(0, 2) if s.chance(0.5) else ()
    l = s.array(d, batch + (n, n), -1, 1) + np.eye(n, dtype=d) * 3
    return {"l": l, "grad": s.array(d, batch + (n, n), -1, 1)}, {}, {"rtol": 1e-3 if d == "float32" else 1e-8, "atol": 1e-4 if d == "float32" else 1e-9}


def eigen(s):
    d, n = s.one(["float32", "float64"]), s.int(1, 5)   # diagonal: of others the vectors' signs are anybody's
    return {"input": np.diag(np.cumsum(s.r.uniform(0.5, 2, n))).astype(d)}, {}


def global_norm(s):
    d, c = s.one(["float32", "float32", "float16"]), s.int(1, 5)
    shape = (s.int(1, 3), s.int(1, 4), s.int(1, 4), c)
    return ({"t": s.array(d, shape), "m": s.array(d, (c,)), "v": s.array(d, (c,), 0.2, 3), "gamma": s.array(d, (c,)), "backprop": s.array(d, shape)},
            {"variance_epsilon": 0.01, "scale_after_normalization": s.chance(0.5)}, {"rtol": 2e-2 if d == "float16" else 1e-3, "atol": 5e-2 if d == "float16" else 1e-4})


def exponential(s):
    d, n = s.one(["float32", "float64", "complex64", "complex128"]), s.int(0, 5)
    size = s.one([0.01, 1, 3])
    return {"input": s.array(d, (s.shape(0, 2) if s.chance(0.5) else ()) + (n, n), -size, size)}, {}, {"rtol": 1e-3 if d in ("float32", "complex64") else 1e-8, "atol": 1e-3 if d in ("float32", "complex64") else 1e-8}


def nearest(s):
    n, m, d = s.int(0, 6) if s.chance(0.1) else s.int(1, 9), s.int(0, 9), s.int(0, 4)
    whole = lambda *shape: np.rint(s.array("float32", shape, -9, 9))   # exact distances: which of two is nearer hangs on no rounding. Of k < 0 TensorFlow's process ends
    return {"points": whole(n, d), "centers": whole(m, d if s.chance(0.97) else d + 1), "k": np.int64(s.one([1, 1, 2, s.int(0, 12)]))}, {}


def plus_plus(s):
    n = s.int(1, 12)
    points = np.stack([s.r.permutation(40)[:n], *(s.r.integers(-9, 9, n) for _ in range(s.int(0, 2)))], 1).astype(np.float32)   # no point twice
    return ({"points": points, "num_to_sample": np.int64(s.int(1, n) if s.chance(0.95) else s.one([0, n + 1])), "seed": np.int64(s.int(0, 1000)),
             "num_retries_per_sample": np.int64(s.int(-1, 3))}, {})


def chain(s):
    return {"distances": s.array("float32", (s.int(0, 1) if s.chance(0.05) else s.int(1, 40),), 0, 9), "seed": np.int64(s.int(0, 1000))}, {}


def batches(s):
    """Rows that are gathered, changed, and taken apart again; ids are anybody's."""
    n, d = s.int(1, 6), s.one(["float32", "int32"])
    rows = n if s.chance(0.97) else n + 1
    name = f"batches_{s.seed}"

    def program(**tensors):
        import tensorflow as tf
        raw = tf.raw_ops
        batched, index, key = raw.Batch(in_tensors=[tensors["a"], tensors["b"]], num_batch_threads=1, max_batch_size=6, batch_timeout_micros=1, grad_timeout_micros=1, shared_name=name)
        return [raw.Unbatch(batched_tensor=batched[0] * 2, batch_index=index, id=key, timeout_micros=100000, shared_name=name + "u"), index[:, 1:], batched[1]]
    return {"a": s.array(d, (n, *s.shape(0, 2))), "b": s.array("float32", (rows, 2))}, program


DRAWS = {
    "Batch": batches, "Unbatch": batches,
    "LSTMBlockCellGrad": lstm, "GRUBlockCellGrad": gru, **{op: cholesky for op in ("CholeskyGrad", "BatchCholeskyGrad")}, **{op: eigen for op in ("SelfAdjointEig", "BatchSelfAdjointEig")},
    "BatchNormWithGlobalNormalizationGrad": global_norm, "MatrixExponential": exponential,
    "NearestNeighbors": nearest, "KmeansPlusPlusInitialization": plus_plus, "KMC2ChainInitialization": chain,
}
