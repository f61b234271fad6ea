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
QUANTIZED = {"int8": "qint8", "uint8": "quint8", "int16": "qint16", "uint16": "quint16", "int32": "qint32"}   # by the integers beneath
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
        """A shape of lo..hi axes, of more at times where hi leaves that open; an axis is empty at times, and one is long at times."""
        if hi == 4 and self.chance(0.06):
            return tuple(0 if self.chance(0.03) else self.int(1, 2) for _ in range(self.int(5, 7)))
        shape = [0 if self.chance(0.05) else self.int(1, 5) for _ in range(self.int(lo, hi))]
        if shape and self.chance(0.15):
            self.stretch(shape)
        return tuple(shape)

    def stretch(self, shape):
        """Makes an axis of a shape, mostly the last, as long as kernels need for their vectors and blocks."""
        i = len(shape) - 1 if self.chance(0.6) else self.int(0, len(shape) - 1)
        if len(shape) < 3 and self.chance(0.15):
            shape[:] = [min(n, 2) for n in shape]
            shape[i] = self.int(1000, 1100)
        else:
            shape[i] = self.int(7, 70)

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
        edges, flat, some = np.array(edges_of(dtype)), a.reshape(-1), self.r.random(a.size) < self.one([0.4, 0.4, 0.02])
        flat[some] = edges[self.r.integers(len(edges), size=int(some.sum()))]
        return flat.reshape(shape)

    def ties(self, dtype, shape, lo=-4, hi=4):
        """An array that at times holds whole numbers alone: equal ones, and zeros."""
        a = self.array(dtype, shape, lo, hi)
        return np.clip(np.rint(a), lo, hi).astype(a.dtype) if dtype in FLOATS and self.chance(0.5) else a

    def alike(self, shape):
        """A shape that broadcasts with the given one, mostly."""
        cut = self.int(0, len(shape))
        return tuple(1 if self.chance(0.3) else d + self.chance(0.03) for d in shape[cut:])


def dtypes_of(op, attr):
    """The dtypes of an attribute that TensorFlow's CPU kernels of an op take, or else its definition."""
    return [d for d in kernel_dtypes(op, attr) if d in ANY]


@functools.lru_cache(None)
def kernel_dtypes(op, attr):
    """As dtypes_of, with quantized types among them."""
    import tensorflow as tf
    from tensorflow.python.framework import kernels, op_def_registry
    named = lambda values: {tf.as_dtype(v).name for v in values}
    definition = [a for a in op_def_registry.get(op).attr if a.name == attr][0]
    legal = named(definition.allowed_values.list.type) or set(ANY) | set(QUANTIZED.values())
    rows = [k for k in kernels.get_registered_kernels_for_op(op).kernel if k.device_type == "CPU"]
    found = set()
    for k in rows:
        limits = [c.allowed_values.list.type for c in k.constraint if c.name == attr]
        found |= named(limits[0]) if limits else legal
    return sorted((found or legal) & legal & (set(ANY) | set(QUANTIZED.values())))


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


def quantized(op, inputs, attrs):
    """A call as a program of the quantized types over the integers of its arguments; as it is where the op does not take them.
    Quantized types have no numpy types of their own: they come and go as the integers beneath, through Bitcast."""
    import tensorflow as tf
    from tensorflow.python.framework import op_def_registry
    definition = op_def_registry.get(op)
    args = {a.name: a.type_attr for a in definition.input_arg if a.type_attr and not definition.is_stateful}
    first = {args[n]: np.asarray(v[0] if isinstance(v, list) else v).dtype.name for n, v in inputs.items() if n in args and not (isinstance(v, list) and not v)}
    to = {a: QUANTIZED[d] for a, d in first.items() if d in QUANTIZED and QUANTIZED[d] in kernel_dtypes(op, a)}
    if not to:
        return attrs
    each = lambda v, d: [tf.raw_ops.Bitcast(input=x, type=d) for x in v] if isinstance(v, list) else tf.raw_ops.Bitcast(input=v, type=d)

    def call(**tensors):
        y = getattr(tf.raw_ops, op)(**{n: each(v, to[args[n]]) if args.get(n) in to else v for n, v in tensors.items()}, **attrs)
        y = [y] if tf.is_tensor(y) else [x for part in y for x in (part if isinstance(part, list) else [part])]
        return [tf.raw_ops.Bitcast(input=x, type=first[a]) if x.dtype == d else x for x in y for a, d in [next(((a, d) for a, d in to.items() if x.dtype == d), (None, None))]]
    return call


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
        d, shape = s.dtype(among=among), s.shape() if s.chance(0.97) else s.shape(6, 9)
        pair = [s.wild(d, shape if s.chance(0.8) else s.alike(shape), lo, hi, wild), s.wild(d, s.alike(shape), lo, hi, wild)]
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
    if s.chance(0.02):
        axes = np.concatenate([axes, axes[:1] - s.one([0, rank])])   # an axis twice
    return np.array(axes if len(axes) > 1 or s.chance(0.5) else axes[0], s.one(I))


def axis_of(s, rank):
    """One axis of a rank, negative at times, out of range rarely."""
    if s.chance(0.03):
        return s.one([rank, -rank - 1])
    return s.int(-rank, rank - 1) if rank else s.int(-1, 0)
