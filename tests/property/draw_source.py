"""What the draws of op_draws.py are made from: the random source, lists of dtypes, and the common ways to make arguments.

A draw is a function of a Source. It returns (inputs, attributes), or (inputs, attributes, options):
  inputs      {argument of the raw op: array, or list of arrays for a list argument}; text is an object array of str or bytes
  attributes  {attribute: value as tf.raw_ops takes it}
  options     {"rtol": r, "atol": a, "shape_only": ["y1"], "errors": ["INTERNAL"]}: how the result is compared; "errors" are codes that do as well as TensorFlow's own
In the place of attributes there may be a function: then the draw is a small program, traced as one function, of the tensors by the names of inputs:
it returns a tensor or a list of tensors. Resources (tables, queues, lists, variables) live inside of it.
"""
import functools

import numpy as np

F = ["float32", "float64"]
H = ["float16", "bfloat16"]
I = ["int32", "int64"]
S = ["int8", "int16", "uint8", "uint16", "uint32", "uint64"]
C = ["complex64", "complex128"]
ANY = F + H + I + S + C + ["bool", "string"]
FLOATS, REAL, NUMBERS = F + H, F + H + I + S, F + H + I + S + C
WORDS = ["", "a", "Hello World", "x,y", "naïve", "  pad ", "12", "-3.5", "\0nul"]


class Source:
    """The random source of one draw."""

    def __init__(self, seed, op=None):
        self.seed, self.op, self.r = seed, op, np.random.default_rng(seed)

    def one(self, choices):
        return choices[int(self.r.integers(len(choices)))]

    def int(self, lo, hi):
        return int(self.r.integers(lo, hi + 1))

    def dtype(self, attr="T", among=ANY):
        """A dtype of an attribute of the op for which TensorFlow has a kernel; float32 and int32 more often."""
        choices = [d for d in dtypes_of(self.op, attr) if d in among]
        return self.one(choices + [d for d in ("float32", "int32") if d in choices])

    def chance(self, p):
        return bool(self.r.random() < p)

    def shape(self, lo=0, hi=4):
        """A shape of lo..hi axes, of more at times where hi leaves that open; an axis is empty at times."""
        if hi == 4 and self.chance(0.06):
            return tuple(0 if self.chance(0.03) else self.int(1, 2) for _ in range(self.int(5, 7)))
        return tuple(0 if self.chance(0.05) else self.int(1, 5) for _ in range(self.int(lo, hi)))

    def array(self, dtype, shape, lo=-4, hi=4):
        import tensorflow as tf
        if dtype == "bool":
            return self.r.random(shape) < 0.5
        if dtype == "string":
            return np.array([self.one(WORDS) for _ in range(int(np.prod(shape)))], object).reshape(shape)
        kind = tf.as_dtype(dtype)
        if kind.is_complex:
            return np.asarray(self.r.uniform(lo, hi, shape) + 1j * self.r.uniform(lo, hi, shape)).astype(dtype)
        if kind.is_integer:
            low = max(lo, 0) if dtype.startswith("u") else lo
            return np.asarray(self.r.integers(low, max(hi, low) + 1, shape)).astype(dtype)
        return np.asarray(self.r.uniform(lo, hi, shape)).astype(kind.as_numpy_dtype)

    def wild(self, dtype, shape, lo=-4, hi=4, p=0.3):
        """An array that holds with probability p the edges of its type: NaN, infinities, -0, denormals, the extremes of integers."""
        a = np.array(self.array(dtype, shape, lo, hi))
        if dtype in ("bool", "string") or a.size == 0 or not self.chance(p):
            return a
        edges = edges_of(dtype)
        flat = a.reshape(-1)
        for i in range(a.size):
            if self.chance(0.4):
                flat[i] = self.one(edges)
        return flat.reshape(shape)

    def alike(self, shape):
        """A shape that broadcasts with the given one, mostly."""
        cut = self.int(0, len(shape))
        return tuple(1 if self.chance(0.3) else d + self.chance(0.03) for d in shape[cut:])


@functools.lru_cache(None)
def dtypes_of(op, attr):
    """The dtypes of an attribute that TensorFlow's CPU kernels of an op take, or else its definition."""
    import tensorflow as tf
    from tensorflow.python.framework import kernels, op_def_registry
    named = lambda values: {tf.as_dtype(v).name for v in values}
    definition = [a for a in op_def_registry.get(op).attr if a.name == attr][0]
    legal = named(definition.allowed_values.list.type) or set(ANY)
    rows = [k for k in kernels.get_registered_kernels_for_op(op).kernel if k.device_type == "CPU"]
    found = set()
    for k in rows:
        limits = [c.allowed_values.list.type for c in k.constraint if c.name == attr]
        found |= named(limits[0]) if limits else legal
    return sorted((found or legal) & legal & set(ANY))


def edges_of(dtype):
    """The values where kernels of a type go wrong."""
    import tensorflow as tf
    kind = tf.as_dtype(dtype)
    np_kind = kind.as_numpy_dtype
    if kind.is_complex:
        parts = [0.0, 1.0, -1.0, 1e-3, 20.0]   # with infinities TensorFlow's answer depends on the lane: vectors have no rules for them, remainders have C's
        return [np_kind(complex(a, b)) for a in parts for b in parts]
    if kind.is_integer:
        return [np_kind(v) for v in {kind.min, kind.max, kind.max - 1, 0, 1, kind.min + 1}]
    tiny = {"float16": 6e-8, "bfloat16": 1e-39, "float32": 1e-40, "float64": 1e-310}[dtype]
    return [np_kind(v) for v in (np.nan, np.inf, -np.inf, 0.0, -0.0, tiny, -tiny, kind.max, kind.min, 1.0, -1.0, 0.5, 2.5)]


def program(call):
    """A program's function from one of the raw ops and the tensors."""
    def run(**tensors):
        import tensorflow as tf
        return call(tf.raw_ops, **tensors)
    return run


def unary(lo=-4, hi=4, name="x", among=ANY, wild=0.3, **attrs):
    """A draw of one tensor of any dtype of T; attributes are drawn from the lists given."""
    return lambda s: ({name: s.wild(s.dtype(among=among), s.shape(), lo, hi, wild)}, {k: s.one(v) for k, v in attrs.items()})


def binary(lo=-4, hi=4, names=("x", "y"), among=ANY, wild=0.3, **attrs):
    """A draw of two tensors of one dtype that broadcast, mostly."""
    def draw(s):
        d, shape = s.dtype(among=among), s.shape()
        pair = [s.wild(d, shape, lo, hi, wild), s.wild(d, s.alike(shape), lo, hi, wild)]
        return dict(zip(names, pair[::-1] if s.chance(0.5) else pair)), {k: s.one(v) for k, v in attrs.items()}
    return draw


def same(names, lo=-4, hi=4, among=ANY, wild=0.3, **attrs):
    """A draw of tensors of one dtype and one shape, mostly."""
    def draw(s):
        d, shape = s.dtype(among=among), s.shape()
        given = {n: s.wild(d, shape if s.chance(0.98) else s.shape(), lo, hi, wild) for n in names}
        return given, {k: s.one(v) for k, v in attrs.items()}
    return draw


def axes_of(s, rank):
    """Some axes of a rank, as a vector or a scalar, negative at times, out of range rarely."""
    if rank == 0 or s.chance(0.1):
        return np.zeros([0], s.one(I))
    axes = s.r.permutation(rank)[:s.int(1, rank)] - (rank if s.chance(0.3) else 0)
    axes = axes + (rank + 3 if s.chance(0.02) else 0)
    return np.array(axes if len(axes) > 1 or s.chance(0.5) else axes[0], s.one(I))


def axis_of(s, rank):
    """One axis of a rank, negative at times, out of range rarely."""
    if s.chance(0.03):
        return s.one([rank, -rank - 1])
    return s.int(-rank, rank - 1) if rank else s.int(-1, 0)
