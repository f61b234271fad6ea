"""tests/hlo/cases.py - functions of JAX whose exported modules the reader of StableHLO is tried with.

A case is a function and its arguments: shapes, or texts such as "(b, 4)" where a dimension is symbolic. Between them
they hold every kind of attribute, type, region and operation that JAX's own operations lead to."""
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import export, lax

F32, I32 = jnp.float32, jnp.int32
CASES = {}


def case(*args):
    """args: (shape, dtype) each"""
    def register(f):
        CASES[f.__name__] = (f, args)
        return f
    return register


@case(((2, 3), F32), ((3, 4), F32), ((4,), F32))
def mlp(x, w, b):
    return jax.nn.relu(jnp.dot(x, w) + b)


@case(("b, 8", F32), ((8, 5), F32))
def dynamic_batch(x, w):
    return jax.nn.softmax(x @ w, axis=-1)


@case(("b, t, 8", F32))
def dynamic_two(x):
    return jnp.concatenate([x, x * 2], axis=1).reshape(x.shape[0], -1)


@case(((2, 8, 8, 3), F32), ((3, 3, 3, 4), F32))
def conv(x, k):
    y = lax.conv_general_dilated(x, k, (2, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    y = lax.reduce_window(y, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return y.mean(axis=(1, 2))


@case(((1, 4, 6), F32), ((2, 2, 3), F32))
def conv_grouped(x, k):
    return lax.conv_general_dilated(x, k, (1,), [(1, 2)], lhs_dilation=(2,), rhs_dilation=(3,),
                                    feature_group_count=2, dimension_numbers=("NCH", "OIH", "NCH"))


@case(((2, 4, 2, 8), F32), ((2, 4, 2, 8), F32), ((2, 4, 2, 8), F32))
def attention(q, k, v):
    s = jnp.einsum("bthd,bshd->bhts", q, k) / np.sqrt(8)
    s = jnp.where(jnp.tril(jnp.ones((4, 4), bool)), s, -1e9)
    return jnp.einsum("bhts,bshd->bthd", jax.nn.softmax(s), v)


@case(((), I32), ((3,), F32))
def while_loop(n, x):
    return lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] * 1.5), (0, x))


@case(((5, 3), F32))
def scan(x):
    return lax.scan(lambda c, y: (c + y, jnp.sin(c)), jnp.zeros(3), x)


@case(((3,), F32))
def fori_nested(x):
    return lax.fori_loop(0, 3, lambda i, a: lax.fori_loop(0, 4, lambda j, b: b + x * i + j, a), x)


@case(((), jnp.bool_), ((2,), F32))
def cond(p, x):
    return lax.cond(p, lambda a: a + 1, lambda a: a * x.sum(), x)


@case(((), I32), ((2,), F32))
def switch(i, x):
    return lax.switch(i, [jnp.sin, jnp.cos, lambda a: a - x[0]], x)


@case(((4, 5), F32))
def sort(x):
    return jnp.sort(x), jnp.argsort(x, axis=0), lax.top_k(x, 2)


@case(((5, 4), F32), ((3,), I32))
def gather_rows(x, i):
    return x[i]


@case(((5, 4), F32), ((3,), I32))
def gather(x, i):
    return x[i], x[1:4:2, ::-1], jnp.take_along_axis(x[:3], i[:, None], axis=1)


@case(((5, 4), F32), ((3,), I32), ((3, 4), F32))
def scatter(x, i, u):
    return x.at[i].add(u), x.at[i, 0].set(1.0, unique_indices=True), x.at[0, :].max(3.0)


@case(((3, 5, 4), F32), ((3, 2), I32))
def gather_batched(x, i):
    return jax.vmap(lambda a, j: a[j])(x, i)


@case(((2,), jnp.uint32))
def rng(key):
    a, b = jax.random.split(key)
    return jax.random.uniform(a, (2, 3)), jax.random.normal(b, (4,)), jax.random.bernoulli(a, 0.25, (3,))


@case(((2,), jnp.uint64))
def rng_bits(state):
    return lax.rng_bit_generator(state, (3, 2), dtype=jnp.uint32, algorithm=lax.RandomAlgorithm.RNG_THREE_FRY)


@case(((2, 3, 4), F32), ((4, 5), F32), ((5, 3), F32))
def einsum(a, b, c):
    return jnp.einsum("ijk,kl,lj->il", a, b, c, precision=lax.Precision.HIGHEST)


@case(((4,), I32), ((4,), I32), ((4,), jnp.uint8), ((4,), jnp.bool_))
def integers(a, b, c, p):
    return (a // b, a % b, a & b, a ^ b, ~a, a << 2, a >> b, c + jnp.uint8(200), jnp.where(p, a, -7),
            lax.population_count(c), lax.clz(a), lax.shift_right_logical(a, b), a == b, a < b, p | ~p)


@case(((3, 4), jnp.bfloat16), ((4,), jnp.bfloat16))
def bfloat16(x, y):
    return (x @ y + jnp.bfloat16(1.5)).astype(F32), jnp.array([1.5, -2.25, 3], jnp.bfloat16) * x[:, 0]


@case(((3,), jnp.float16), ((3,), jnp.float64), ((3,), jnp.int64))
def widths(x, y, z):
    return x + jnp.float16(0.1), y * 1e300, z + (1 << 40), jnp.array([1, -2, 3], jnp.int16), z.astype(jnp.int8)


@case(((8,), F32), ((4,), jnp.complex64))
def complex_fft(x, z):
    return jnp.fft.fft(z), jnp.fft.rfft(x), jnp.fft.irfft(z), z * (1 + 2j), z.real, jnp.abs(z), \
        jnp.array([1 + 1j, 2 - 3j], jnp.complex64)


@case(((3,), F32))
def elementwise(x):
    return (jnp.exp(x), jnp.log(x), jnp.log1p(x), jnp.expm1(x), jnp.tanh(x), jnp.sqrt(x), lax.rsqrt(x), jnp.cbrt(x),
            jnp.floor(x), jnp.ceil(x), jnp.round(x), lax.round(x), jnp.sign(x), jnp.abs(x), -x, jnp.sin(x), jnp.tan(x),
            lax.logistic(x), x ** 2.5, jnp.arctan2(x, x), x % 2, lax.is_finite(x), jax.scipy.special.erf(x),
            jnp.clip(x, -1, 1), lax.nextafter(x, x + 1), lax.reduce_precision(x, 8, 7), jnp.arcsinh(x))


@case(((2, 3), F32))
def reductions(x):
    return x.sum(), x.max(axis=0), x.prod(axis=1), jnp.argmax(x, axis=1), jnp.any(x > 0), jnp.cumsum(x, axis=0), \
        jnp.cumprod(x, axis=1), lax.cummax(x, axis=0), jnp.var(x)


@case(((3, 3), F32), ((3, 2), F32))
def solve(a, b):
    l = lax.linalg.cholesky(a)
    return lax.linalg.triangular_solve(l, b, left_side=True, lower=True, transpose_a=True), jnp.linalg.inv(a)


@case(((4, 4), F32), ((), I32))
def slices(x, i):
    y = lax.dynamic_slice(x, (i, 0), (2, 3))
    z = lax.dynamic_update_slice(x, y, (0, i))
    return lax.pad(z, 0.0, [(1, -1, 0), (0, 2, 1)]), lax.rev(y, (0, 1)), jnp.transpose(x), jnp.iinfo(I32).max - i


@case(((2, 6, 6, 1), F32))
def pooling_gradient(x):
    return jax.grad(lambda a: lax.reduce_window(a, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "SAME").sum())(x)


@case(((2, 3), F32), ((3,), F32))
def functions(x, y):
    @jax.jit
    def inner(a):
        return jnp.tanh(a) * 2

    @functools.partial(jax.checkpoint)
    def block(a):
        return inner(inner(a)) + y

    return jax.grad(lambda a: block(a).sum())(x), inner(y)


@case(((2,), F32))
def constants(x):
    big = np.arange(40, dtype=np.float32).reshape(2, 20)
    return (x @ big, jnp.full((3, 3), 7.0), np.array([True, False, True]), np.ones((9,), bool), np.zeros((2, 9), bool),
            np.array([i % 3 == 0 for i in range(11)]), np.zeros((0, 3), np.float32), jnp.uint32(4000000000))


@case(((4, 6), F32))
def norms(x):
    mean = x.mean(axis=-1, keepdims=True)
    y = (x - mean) * lax.rsqrt(((x - mean) ** 2).mean(axis=-1, keepdims=True) + 1e-5)
    return jax.nn.gelu(y), jax.nn.silu(y), jax.nn.one_hot(jnp.argmax(y, -1), 6), jax.nn.logsumexp(y)


@case(("b, 4", F32), ("b", I32))
def dynamic_gather(x, i):
    return x[i], x.at[i].add(1.0), jnp.broadcast_to(x.sum(), (x.shape[0], 3)), jnp.arange(x.shape[0]), \
        lax.dynamic_slice_in_dim(x, 0, 1, axis=0), jnp.pad(x, ((0, 1), (0, 0)))


@case(("b, 4", F32))
def dynamic_loop(x):
    return lax.fori_loop(0, x.shape[0], lambda i, a: a.at[i].set(a[i] * 2), x), jnp.sort(x, axis=0)


@case(((4, 2), F32))
def sharded(x):
    mesh = jax.make_mesh((1,), ("rows",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("rows"))
    return lax.with_sharding_constraint(x * 2, spec)


def exported(name, **options):
    """The export of case name: what jax2tf puts into XlaCallModule is its mlir_module_serialized."""
    f, args = CASES[name]
    scope = export.SymbolicScope()
    shapes = [jax.ShapeDtypeStruct(export.symbolic_shape(s, scope=scope) if isinstance(s, str) else s, d)
              for s, d in args]
    with jax.enable_x64(any(jnp.dtype(d).itemsize == 8 and d != jnp.complex64 for _, d in args)):
        return export.export(jax.jit(f), **options)(*shapes)
