"""Draws of products of matrices, decompositions and solvers, Fourier transforms, and diagonals. Where an answer is only known up to signs or an order, a draw is
a small program whose result does not depend on them."""
import numpy as np

from draw_source import C, F, H, I

NEAR = {"float32": (2e-3, 2e-3), "complex64": (2e-3, 2e-3), "float64": (1e-6, 1e-7), "complex128": (1e-6, 1e-7), "float16": (5e-2, 5e-2)}


def near(d):
    """Tolerances of ill-posed results."""
    return {"rtol": NEAR[d][0], "atol": NEAR[d][1]} if d in NEAR else {}


def product_tolerance(d):
    return {"rtol": 2e-2, "atol": 5e-2} if d == "float16" else {"rtol": 5e-2, "atol": 0.2} if d == "bfloat16" else {}


def matmul(s):
    d, ta, tb = s.dtype(), s.chance(0.5), s.chance(0.5)
    m, k, n = (s.int(0 if s.chance(0.3) else 1, 6) if s.chance(0.7) else s.int(7, 70) for _ in range(3))
    a, b = (k, m) if ta else (m, k + s.chance(0.05)), (n, k) if tb else (k, n)
    return {"a": s.array(d, a), "b": s.array(d, b)}, {"transpose_a": ta, "transpose_b": tb}, product_tolerance(d)


def sparse_matmul(s):
    ta, tb = s.chance(0.5), s.chance(0.5)
    m, k, n = (s.int(0, 6) if s.chance(0.8) else s.int(7, 140) for _ in range(3))
    a, b = s.array(s.dtype("Ta"), (k, m) if ta else (m, k)), s.array(s.dtype("Tb"), (n, k) if tb else (k, n))
    sparse = [s.chance(0.5), s.chance(0.5)]
    thin = lambda x: np.where(s.r.random(x.shape) < 0.8, 0, x).astype(x.dtype)
    return {"a": thin(a) if sparse[0] else a, "b": thin(b) if sparse[1] else b}, {"transpose_a": ta, "transpose_b": tb, "a_is_sparse": sparse[0], "b_is_sparse": sparse[1]}, {"rtol": 1e-2, "atol": 1e-2}


def batch_matmul(s):
    d = s.dtype("Ta") if s.op == "BatchMatMulV3" else s.dtype()
    (m, k, n), batch, ax, ay = (s.int(0 if s.chance(0.3) else 1, 4) if s.chance(0.75) else s.int(5, 40) for _ in range(3)), s.shape(0, 2) if s.chance(0.8) else s.shape(3, 4), s.chance(0.5), s.chance(0.5)
    other = batch if s.op == "BatchMatMul" else s.alike(batch)
    if s.op != "BatchMatMul" and s.chance(0.3):   # the second broadcasts, or both do
        batch, other = (other, batch) if s.chance(0.5) else (s.alike(batch), other)
    e, attrs = d, {"adj_x": ax, "adj_y": ay}
    if s.op == "BatchMatMulV3":
        if d in ("int8", "uint8"):
            e = s.one(["int8", "uint8"])
        attrs["Tout"] = "int32" if d in ("int8", "uint8") else d
    return {"x": s.array(d, batch + ((k, m) if ax else (m, k))), "y": s.array(e, other + ((n, k + s.chance(0.02)) if ay else (k, n)))}, attrs, product_tolerance(d)


def einsum(s):
    """Labels of one size each; sums, batches, transposes, diagonals and an ellipsis."""
    size = {c: s.int(0 if s.chance(0.03) else 1, 3) if s.chance(0.92) else s.int(7, 20) for c in "abcdef"}
    d, two, dots = s.dtype(among=F + H + I + C), s.chance(0.8), s.chance(0.25)
    label = lambda: "".join(s.one("abcdef") for _ in range(s.int(0, 3)))
    terms = [label() for _ in range(2 if two else 1)]
    if s.chance(0.9):   # a label twice in one term is legal, and rare
        terms = ["".join(dict.fromkeys(t)) for t in terms]
    seen = list(dict.fromkeys("".join(terms)))
    out = "".join(c for c in s.r.permutation(seen) if s.chance(0.6)) if seen else ""
    batch, arrays, written = s.shape(0, 2), [], []
    for t in terms:
        own = dots and s.chance(0.8)
        cut = s.int(0, len(t)) if own else 0
        arrays.append(s.array(d, tuple(size[c] for c in t[:cut]) + (s.alike(batch) if own else ()) + tuple(size[c] for c in t[cut:]), -2, 2))
        written.append(t[:cut] + "..." + t[cut:] if own else t)
    cut = s.int(0, len(out))
    right = out[:cut] + "..." + out[cut:] if any("..." in w for w in written) else out
    if s.chance(0.03):   # not as it should be
        right = s.one([right + "z", right + right[:1], right.replace("...", ""), right + "..."])
    return {"inputs": arrays}, {"equation": ",".join(written) + "->" + right}, product_tolerance(d)


def square(s, n=None, spread=1.0):
    """Batches of matrices that are far from singular."""
    d, n = s.dtype(), (s.int(0 if s.chance(0.05) else 1, 5) if s.chance(0.85) else s.int(6, 24)) if n is None else n
    spread = spread * (1 if n < 6 else n / 3)
    a = s.array(d, s.shape(0, 2) + (n, n), -1, 1)
    return (a + spread * 3 * np.eye(n)).astype(a.dtype)


def of_square(name="input", **attrs):
    def draw(s):
        a = square(s)
        return {name: a}, {k: s.one(v) for k, v in attrs.items()}, near(a.dtype.name)
    return draw


def singular(s):
    """Matrices that may be singular: inverses are refused, determinants 0."""
    a = square(s)
    if a.shape[-1] > 1 and s.chance(0.2):
        a[..., 1, :] = a[..., 0, :]
    if s.chance(0.03):
        a = a[..., :1]
    return a


def inverse(s):
    a, adjoint = (singular(s), False) if s.chance(0.1) else (square(s), s.chance(0.5))   # equal columns: whether a pivot is 0 hangs on the last bit
    return {"input": a}, {"adjoint": adjoint}, near(a.dtype.name)


def determinant(s):
    a = square(s)
    return {"input": a}, {}, near(a.dtype.name)


def cholesky(s):
    a = square(s)
    if s.chance(0.05):   # not positive: NaN below the diagonal, and whatever lay in the memory above it
        return {"input": -a}, {}, {"shape_only": ["y0"]}
    return {"input": (a @ np.conj(np.swapaxes(a, -1, -2))).astype(a.dtype)}, {}, near(a.dtype.name)


def solve(s):
    a = square(s)
    rhs = s.array(a.dtype.name, a.shape[:-1] + (s.int(0, 3) if s.chance(0.9) else s.int(4, 30),))
    return {"matrix": a, "rhs": rhs}, {"adjoint": s.chance(0.5)}, near(a.dtype.name)


def triangular(s):
    given, attrs, options = solve(s)
    if s.op == "MatrixTriangularSolve" and s.chance(0.4):   # batches broadcast
        given["rhs"] = given["rhs"].reshape((1,) + given["rhs"].shape) if s.chance(0.5) else s.array(given["rhs"].dtype.name, given["rhs"].shape[-2:])
    return given, {"lower": s.chance(0.5), **attrs}, options


def least_squares(s):
    d, m, n = s.dtype(), s.int(1, 5), s.int(1, 5)   # of no rows TensorFlow leaves its output unwritten
    batch, fast = s.shape(0, 1), s.chance(0.6)
    eye = np.eye(m, n) * 4
    a = (s.array(d, batch + (m, n), -1, 1) + eye).astype(d)
    return {"matrix": a, "rhs": s.array(d, batch + (m, s.int(1, 3))), "l2_regularizer": np.float64(s.one([0.0, 0.1, 1.0]))}, {"fast": fast}, near(d)


def banded(s):
    a = s.array(s.dtype(), s.shape(2, 4))
    index = "int64" if s.op.startswith("Batch") else s.dtype("Tindex")
    m, n = a.shape[-2:] if a.ndim >= 2 else (1, 1)
    return {"input": a, "num_lower": s.array(index, (), -1, m + s.chance(0.02)), "num_upper": s.array(index, (), -1, n + s.chance(0.02))}, {}


def raw(op):
    import tensorflow as tf
    return getattr(tf.raw_ops, op)


def svd(s):
    """Singular values; of the vectors, the product that gives the matrix back, and the projections."""
    import tensorflow as tf
    most = 5 if s.chance(0.85) else 20
    d, m, n = s.dtype(), s.int(0 if s.chance(0.03) else 1, most), s.int(1, most)
    full, vectors, op = s.chance(0.3), s.chance(0.7), s.op

    def program(x):
        sv, u, v = raw(op)(input=x, compute_uv=vectors, full_matrices=full)
        if not vectors:
            return [sv]
        k = min(m, n)
        return [sv, tf.matmul(u[..., :k] * tf.cast(sv, x.dtype)[..., None, :], v[..., :k], adjoint_b=True), tf.shape(u), tf.shape(v)]
    return {"x": s.array(d, s.shape(0, 2) + (m, n))}, program, near(d)


def qr(s):
    import tensorflow as tf
    most = 5 if s.chance(0.85) else 20
    d, m, n, full = s.dtype(), s.int(1, most), s.int(1, most), s.chance(0.4)

    def program(x):
        q, r = raw("Qr")(input=x, full_matrices=full)
        return [tf.matmul(q, r), tf.abs(r), tf.shape(q)]
    return {"x": s.array(d, s.shape(0, 2) + (m, n))}, program, near(d)


def self_adjoint(s):
    import tensorflow as tf
    a, vectors, op = square(s, spread=0), s.chance(0.7), s.op
    a = (a + np.conj(np.swapaxes(a, -1, -2))).astype(a.dtype)

    def program(x):
        e, v = raw(op)(input=x, compute_v=vectors)
        return [e, tf.matmul(v * e[..., None, :], v, adjoint_b=True)] if vectors else [e]
    return {"x": a}, program, near(a.dtype.name)


def eig(s):
    """Eigenvalues come in no order: sums of their powers are compared, and A v = v e."""
    import tensorflow as tf
    a, vectors = square(s), s.chance(0.7)
    out = "complex64" if a.dtype.name in ("float32", "complex64") else "complex128"

    def program(x):
        e, v = raw("Eig")(input=x, compute_v=vectors, Tout=out)
        power = [tf.reduce_sum(e, -1), tf.reduce_sum(e * e, -1), tf.shape(v)]
        return power + ([tf.matmul(tf.cast(x, out), v) - v * e[..., None, :]] if vectors else [])
    return {"x": a}, program, {"rtol": 5e-3, "atol": 5e-3}


def lu(s):
    a = square(s)
    if a.shape[-1] > 1 and s.chance(0.7):   # rows change places
        a = a[..., s.r.permutation(a.shape[-1]), :]
    return {"input": a}, {"output_idx_type": s.one(I)}, near(a.dtype.name)


def fft(rank):
    def draw(s):
        shape = s.shape(rank, rank + 1) if s.chance(0.97) else ()
        if rank == 1 and shape and s.chance(0.2):   # primes, powers of two, and between
            shape = shape[:-1] + (s.one([7, 11, 13, 16, 17, 31, 64, 97, 100, 128, 240, 1009]),)
        x = s.array("complex64" if s.op.startswith("Batch") else s.dtype("Tcomplex"), shape)
        return {"input": x}, {}, {"rtol": 1e-4, "atol": 1e-3} if x.dtype == np.complex64 else {}
    return draw


def rfft(rank, back):
    def draw(s):
        real = s.one(F)
        name = "complex64" if real == "float32" else "complex128"
        most = 6 if s.chance(0.85) else 40
        shape = s.shape(0, 2) + tuple(s.int(1, most) for _ in range(rank))   # of no input TensorFlow leaves its output unwritten
        length = [n if s.chance(0.5) else s.int(0 if s.chance(0.03) else 1, most + 2) for n in shape[len(shape) - rank:]]
        if back and s.chance(0.8):
            length[-1] = max(1, 2 * (shape[-1] - 1) + s.int(0, 1))
        given = {"input": s.array(name if back else real, shape), "fft_length": np.array(length, "int32")}
        return given, {"Treal": real} if back else {"Tcomplex": name}, {"rtol": 1e-4, "atol": 1e-3} if real == "float32" else {}
    return draw


def diag(s):
    shape = tuple(min(n, 12) for n in s.shape(0 if s.chance(0.05) else 1, 3))
    return {"diagonal": s.array(s.dtype(), shape)}, {}


def diag_part(s):
    half = tuple(min(n, 12) for n in s.shape(1, 3))
    return {"input": s.array(s.dtype(), half + half if s.chance(0.95) else half + half[:-1] + (9,))}, {}


def matrix_diag(s):
    return {"diagonal": s.array(s.dtype(), tuple(min(n, 70) for n in s.shape(0 if s.chance(0.03) else 1, 4)))}, {}


def matrix_diag_part(s):
    return {"input": s.array(s.dtype(), s.shape(1 if s.chance(0.03) else 2, 5))}, {}


def matrix_set_diag(s):
    shape = s.shape(0, 2) + (s.int(0 if s.chance(0.05) else 1, 4 if s.chance(0.9) else 20), s.int(1, 4 if s.chance(0.9) else 20))
    d = s.dtype()
    return {"input": s.array(d, shape), "diagonal": s.array(d, shape[:-2] + (min(shape[-2:]) + s.chance(0.03),))}, {}


ALIGN = ["RIGHT_LEFT", "RIGHT_LEFT", "LEFT_RIGHT", "LEFT_LEFT", "RIGHT_RIGHT"]


def sides(s):
    return s.int(1, 4 if s.chance(0.85) else 20), s.int(1, 4 if s.chance(0.85) else 20)


def band(s, m, n):
    """k: one diagonal, or a range of them, of an m x n matrix; and the shape of what holds them."""
    low = s.int(-m + 1, n - 1)
    high = s.int(low, n - 1) if s.chance(0.6) else low
    if s.chance(0.03):
        high = s.one([n, low - 1])
    k = np.array([low, high], np.int32) if high != low or s.chance(0.3) else np.array(s.one([low, [low]]), np.int32)
    width = min(m + min(high, 0), n - max(low, 0))
    return k, ((high - low + 1,) if high > low else ()) + (max(width, 0),)


def align(s):
    return {"align": s.one(ALIGN)} if s.op.endswith("V3") else {}


def diag_part_v2(s):
    (m, n), d = sides(s), s.dtype()
    return {"input": s.array(d, s.shape(0, 2) + (m, n)), "k": band(s, m, n)[0], "padding_value": s.array(d, ())}, align(s)


def set_diag_v2(s):
    (m, n), d, batch = sides(s), s.dtype(), s.shape(0, 2)
    k, shape = band(s, m, n)
    return {"input": s.array(d, batch + (m, n)), "diagonal": s.array(d, batch + shape), "k": k}, align(s)


def diag_v2(s):
    (m, n), d = sides(s), s.dtype()
    k, shape = band(s, m, n)
    known = lambda size: np.int32(size if s.chance(0.6) else -1 if s.chance(0.9) else size + 1)
    return {"diagonal": s.array(d, s.shape(0, 2) + shape), "k": k, "num_rows": known(m), "num_cols": known(n), "padding_value": s.array(d, ())}, align(s)


def tridiagonal(s):
    d, m, k, batch = s.dtype(), s.int(1, 5), s.int(1, 3), s.shape(0, 2)
    other = s.array(d, batch + (m + s.chance(0.03), k))
    if s.op == "TridiagonalMatMul":
        return {**{n: s.array(d, batch + (1, m)) for n in ("superdiag", "maindiag", "subdiag")}, "rhs": other}, {}, near(d)
    main = s.array(d, batch + (1, m), 3, 5)
    return {"diagonals": np.concatenate([s.array(d, batch + (1, m), -1, 1), main, s.array(d, batch + (1, m), -1, 1)], -2), "rhs": other}, {"partial_pivoting": s.chance(0.5)}, near(d)


def banded_triangular(s):
    d, m, k, batch, lower = s.dtype(), s.int(1, 5), s.int(1, 3), tuple(s.int(1, 3) for _ in range(s.int(0, 2))), s.chance(0.5)
    rest = s.array(d, batch + (s.int(0, m - 1), m), -1, 1)
    main = s.array(d, batch + (1, m), 0 if s.chance(0.1) else 2, 3)
    return {"matrix": np.concatenate([main, rest] if lower else [rest, main], -2), "rhs": s.array(d, (batch if s.chance(0.6) else ()) + (m + s.chance(0.03), k))}, {"lower": lower, "adjoint": s.chance(0.4)}, near(d)


def matrix_function(s):
    """Of a matrix with eigenvalues right of the imaginary axis."""
    d, n = s.dtype(), s.int(0, 4)
    a = s.array(d, s.shape(0, 2) + (n, n), -1, 1)
    return {"input": (a @ np.conj(np.swapaxes(a, -1, -2)) + np.eye(n) + 0.2 * a).astype(a.dtype)}, {}, near(d)


DRAWS = {
    "TridiagonalSolve": tridiagonal, "TridiagonalMatMul": tridiagonal, "BandedTriangularSolve": banded_triangular, "MatrixSquareRoot": matrix_function, "MatrixLogarithm": matrix_function,
    "MatMul": matmul, "SparseMatMul": sparse_matmul, "BatchMatMul": batch_matmul, "BatchMatMulV2": batch_matmul, "BatchMatMulV3": batch_matmul, "Einsum": einsum,
    "Cholesky": cholesky, "BatchCholesky": cholesky, "MatrixDeterminant": determinant, "BatchMatrixDeterminant": determinant, "LogMatrixDeterminant": determinant,
    "MatrixInverse": inverse, "BatchMatrixInverse": inverse, "MatrixSolve": solve, "BatchMatrixSolve": solve, "MatrixTriangularSolve": triangular,
    "BatchMatrixTriangularSolve": triangular, "MatrixSolveLs": least_squares, "BatchMatrixSolveLs": least_squares, "MatrixBandPart": banded, "BatchMatrixBandPart": banded,
    "Svd": svd, "Qr": qr, "SelfAdjointEigV2": self_adjoint, "Eig": eig, "Lu": lu,
    **{op: fft(1) for op in "FFT IFFT BatchFFT BatchIFFT".split()}, **{op: fft(2) for op in "FFT2D IFFT2D BatchFFT2D BatchIFFT2D".split()},
    **{op: fft(3) for op in "FFT3D IFFT3D BatchFFT3D BatchIFFT3D".split()},
    "RFFT": rfft(1, False), "RFFT2D": rfft(2, False), "RFFT3D": rfft(3, False), "IRFFT": rfft(1, True), "IRFFT2D": rfft(2, True), "IRFFT3D": rfft(3, True),
    "Diag": diag, "DiagPart": diag_part, "MatrixDiag": matrix_diag, "BatchMatrixDiag": matrix_diag, "MatrixDiagPart": matrix_diag_part, "BatchMatrixDiagPart": matrix_diag_part,
    "MatrixSetDiag": matrix_set_diag, "BatchMatrixSetDiag": matrix_set_diag, "MatrixDiagPartV2": diag_part_v2, "MatrixDiagPartV3": diag_part_v2,
    "MatrixSetDiagV2": set_diag_v2, "MatrixSetDiagV3": set_diag_v2, "MatrixDiagV2": diag_v2, "MatrixDiagV3": diag_v2,
}
EXEMPT = {
    "BatchSvd": "gone from GraphDef since version 13, and its vectors have any sign: drawn as Svd", "BatchSelfAdjointEigV2": "gone from GraphDef since version 13: drawn as SelfAdjointEigV2",
}
KNOWN = {"Qr": (lambda inputs, attrs: inputs["x"].dtype == np.float16 and inputs["x"].size > 2000, "of thousands of matrices in half precision one is near singular")}
