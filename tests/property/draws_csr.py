"""Draws of ops on sparse matrices in compressed rows (CSRSparseMatrix), which are variants: each is made of a sparse tensor inside of the program, and taken apart again."""
import numpy as np

from draw_source import C, F


def matrix(s, d, rows=None, cols=None, batch=None, name=""):
    """A sparse tensor of rank 2, or 3 with a batch, as arguments."""
    shape = ((batch,) if batch is not None else ()) + (s.int(0, 5) if rows is None else rows, s.int(0, 5) if cols is None else cols)
    at = np.argwhere(s.r.random(shape) < s.one([0.2, 0.5, 0.9]))
    given = {"indices": at.astype("int64"), "values": s.array(d, (len(at),)), "dense_shape": np.array(shape, "int64")}
    return {k + name: v for k, v in given.items()}


def batch_of(s):
    return s.int(0, 3) if s.chance(0.4) else None


def made(raw, t, name=""):
    return raw.SparseTensorToCSRSparseMatrix(**{k: t[k + name] for k in ("indices", "values", "dense_shape")})


def program(call):
    def run(**tensors):
        import tensorflow as tf
        return call(tf.raw_ops, tensors)
    return run


def parts(raw, m, d):
    """All of a matrix."""
    return list(raw.CSRSparseMatrixToSparseTensor(sparse_matrix=m, type=d)) + [raw.CSRSparseMatrixToDense(sparse_input=m, type=d), raw.SparseMatrixNNZ(sparse_matrix=m)]


def from_coo(s):
    d = s.one(F + C)
    given = matrix(s, d, batch=batch_of(s))
    if s.chance(0.05) and len(given["indices"]) > 0:
        given["indices"][s.int(0, len(given["indices"]) - 1), 1] = s.one([-1, 9])
    return given, program(lambda raw, t: parts(raw, made(raw, t), d))


def from_dense(s):
    d, given = s.one(F + C), matrix(s, "float32", s.int(1, 5), s.int(1, 5), batch=batch_of(s))
    dense = s.array(d, tuple(given["dense_shape"]))
    return {"dense_input": dense, "indices": given["indices"]}, program(lambda raw, t: parts(raw, raw.DenseToCSRSparseMatrix(**t), d))


def components(s):
    d, batch = s.one(F + C), batch_of(s)
    index = np.int32(s.int(-1, batch or 1) if s.chance(0.2) else s.int(0, max((batch or 1) - 1, 0)))
    return {**matrix(s, d, batch=batch), "index": index}, program(lambda raw, t: list(raw.CSRSparseMatrixComponents(csr_sparse_matrix=made(raw, t), index=t["index"], type=d)))


def transpose(s):
    d, conjugate = s.one(F + C), s.chance(0.5)
    return matrix(s, d, batch=batch_of(s)), program(lambda raw, t: parts(raw, raw.SparseMatrixTranspose(input=made(raw, t), conjugate=conjugate, type=d), d))


def turns(s):
    """What becomes of both sides, and whether that swaps their axes."""
    names = [s.one(["", "", f"transpose_{x}", f"adjoint_{x}"]) for x in "ab"]
    return {n: True for n in names if n}, [bool(n) for n in names]


def sizes(s):
    m, k, n = (s.int(1, 6) for _ in range(3))
    return m, k, n, k if s.chance(0.97) else k + 1


def matmul(s):
    d, (attrs, turned), (m, k, n, inner), batch = s.one(F + C), turns(s), sizes(s), s.one([None, 2, 1])
    a = matrix(s, d, *((k, m) if turned[0] else (m, k)), batch=batch)
    b = s.array(d, (() if batch is None else (batch,)) + ((n, inner) if turned[1] else (inner, n)))
    attrs.update(transpose_output=s.chance(0.2), conjugate_output=s.chance(0.2))
    return {**a, "b": b}, program(lambda raw, t: [raw.SparseMatrixMatMul(a=made(raw, t), b=t["b"], **attrs)])


def sparse_matmul(s):
    d, (attrs, turned), (m, k, n, inner), batch = s.one(F + C), turns(s), sizes(s), s.one([None, 2, 1])
    a = matrix(s, d, *((k, m) if turned[0] else (m, k)), batch=batch)
    b = matrix(s, d, *((n, inner) if turned[1] else (inner, n)), batch=batch, name="_b")
    return {**a, **b}, program(lambda raw, t: parts(raw, raw.SparseMatrixSparseMatMul(a=made(raw, t), b=made(raw, t, "_b"), type=d, **attrs), d))


DRAWS = {
    **{op: from_coo for op in ("SparseTensorToCSRSparseMatrix", "CSRSparseMatrixToSparseTensor", "CSRSparseMatrixToDense", "SparseMatrixNNZ")}, "DenseToCSRSparseMatrix": from_dense,
    "CSRSparseMatrixComponents": components, "SparseMatrixTranspose": transpose, "SparseMatrixMatMul": matmul, "SparseMatrixSparseMatMul": sparse_matmul,
}
