"""JAX functions that tests/hlo/jax_suite.py exports: one row each.

A row: name, function, arguments (arrays; names x0, x1 ..), and options: poly (a polymorphic shape an argument), wrt (arguments
to differentiate with regard to), rtol and atol, again (further arguments, of other sizes).
"""
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

R = np.random.RandomState(0)


def f32(*shape):
    return R.standard_normal(shape).astype(np.float32)


def i32(low, high, *shape):
    return R.randint(low, high, shape).astype(np.int32)


ROWS = []


def row(name, fn, *args, **options):
    ROWS.append((name, fn, args, options))


# ---- element-wise
SPECIAL = np.array([0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -1.5, 1e-8, -1e-8, 3.7, -3.7, 10.0, np.inf, -np.inf, np.nan], np.float32)
row("unary", lambda x: (jnp.exp(x), jnp.expm1(x), jnp.sin(x), jnp.cos(x), jnp.tan(x), jnp.tanh(x), jax.nn.sigmoid(x), jnp.floor(x), jnp.ceil(x), jnp.abs(x), jnp.sign(x)), f32(3, 5), wrt=["x0"])
row("unary_positive", lambda x: (jnp.log(x), jnp.log1p(x), jnp.sqrt(x), lax.rsqrt(x), jnp.cbrt(x)), np.abs(f32(3, 5)) + 0.1, wrt=["x0"])
row("special_values", lambda x: (jnp.round(x), lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO), jnp.isfinite(x), jnp.isnan(x), jnp.isinf(x), jnp.sign(x), jnp.trunc(x), jnp.maximum(x, 0), jnp.minimum(x, 1)), SPECIAL)
row("inverse_trigonometric", lambda x: (jnp.arcsin(x), jnp.arccos(x), jnp.arctan(x), jnp.arctanh(x), jnp.arcsinh(x), jnp.arccosh(1 + jnp.abs(x)), jnp.sinh(x), jnp.cosh(x)), R.uniform(-0.9, 0.9, (4, 3)).astype(np.float32), rtol=1e-3)
row("special_functions", lambda x: (jax.scipy.special.erf(x), jax.scipy.special.erfc(x), jax.scipy.special.gammaln(x), jax.scipy.special.digamma(x), jax.scipy.special.i0e(x), jax.scipy.special.erfinv(x / 4)), R.uniform(0.1, 3, (4, 5)).astype(np.float32), rtol=1e-3)
row("binary", lambda x, y: (x + y, x - y, x * y, x / y, jnp.maximum(x, y), jnp.minimum(x, y), jnp.arctan2(x, y), jnp.power(jnp.abs(x), y), jnp.fmod(x, y), jnp.mod(x, y), jnp.floor_divide(x, y)), f32(3, 4), f32(3, 4))
row("broadcasts", lambda x, y, z: (x + y, x * z, (x - y.mean()) / (1 + z ** 2), jnp.where(x > 0, y, z)), f32(2, 3, 4), f32(4), f32(3, 1), wrt=["x0", "x1", "x2"])
row("integers", lambda x, y: (x + y, x - y, x * y, lax.div(x, y), lax.rem(x, y), x // y, x % y, x & y, x | y, x ^ y, ~x, jnp.abs(x), jnp.sign(x), -x, lax.population_count(x), lax.clz(x)), i32(-50, 50, 3, 7), i32(1, 9, 3, 7))
row("integer_division_by_zero", lambda x, y: (lax.div(x, y), lax.rem(x, y)), i32(-50, 50, 8), i32(-2, 2, 8))
row("shifts", lambda x, y: (lax.shift_left(x, y), lax.shift_right_logical(x, y), lax.shift_right_arithmetic(x, y), x << 3, x >> 2), i32(-1000, 1000, 20), i32(0, 40, 20))
row("unsigned", lambda x, y: (x + y, x * y, x - y, x // (y + 1), lax.shift_right_logical(x, jnp.uint32(7)), x > y, jnp.maximum(x, y), x.astype(jnp.float32), lax.clz(x), -x), R.randint(0, 2 ** 32, (17,), np.uint64).astype(np.uint32), R.randint(0, 2 ** 31, (17,), np.uint64).astype(np.uint32))
row("small_integers", lambda x, y: (x + y, x * y, x.astype(jnp.int32) - 1, lax.clz(x), x < y), i32(0, 255, 9).astype(np.uint8), i32(0, 255, 9).astype(np.uint8))
row("booleans", lambda x, y: (x & y, x | y, x ^ y, ~x, jnp.all(x), jnp.any(y, axis=0), x == y, x < y, jnp.sum(x)), i32(0, 2, 4, 5) > 0, i32(0, 2, 4, 5) > 0)
row("compare", lambda x, y: (x == y, x != y, x < y, x <= y, x > y, x >= y), SPECIAL, SPECIAL[::-1].copy())
row("clamp_select", lambda x: (jnp.clip(x, -0.5, 0.5), lax.clamp(-1.0, x, 1.0), jnp.where(x > 0, x, 0.1 * x), lax.select_n(x > 0, x, -x)), f32(4, 4), wrt=["x0"])
row("convert", lambda x: (x.astype(jnp.int32), x.astype(jnp.float16), x.astype(jnp.bfloat16).astype(jnp.float32), x.astype(bool), (x > 0).astype(jnp.float32), x.astype(jnp.int8), lax.reduce_precision(x, 5, 10), lax.reduce_precision(x, 8, 7)), f32(20) * 10)
row("bits", lambda x: (lax.bitcast_convert_type(x, jnp.int32), lax.bitcast_convert_type(x, jnp.uint8), lax.bitcast_convert_type(lax.bitcast_convert_type(x, jnp.uint8), jnp.float32)), f32(6))
row("complex", lambda x, y: (jnp.real(lax.complex(x, y) * (2 + 1j)), jnp.imag(jnp.exp(lax.complex(x, y))), jnp.abs(lax.complex(x, y)), jnp.conj(lax.complex(x, y)), lax.complex(x, y) ** 2), f32(5), f32(5), rtol=1e-3)
row("half", lambda x: (x + 1, jnp.exp(x), x @ x.T, x.sum(), jax.nn.softmax(x)), f32(4, 4).astype(np.float16), rtol=1e-2, atol=1e-2)
row("bfloat16", lambda x: tuple(y.astype(jnp.float32) for y in (x.astype(jnp.bfloat16) * 2, jnp.tanh(x.astype(jnp.bfloat16)), x.astype(jnp.bfloat16) @ x.astype(jnp.bfloat16).T)), f32(4, 4), rtol=3e-2, atol=3e-2)

# ---- shapes
row("constants", lambda x: (x + np.arange(6, dtype=np.float32).reshape(2, 3), jnp.where(np.array([[True, False, True], [False, True, True]]), x, 0), jnp.zeros((2, 2)), jnp.full((3,), 7), jnp.eye(3), jnp.arange(5), jnp.linspace(0, 1, 4)), f32(2, 3))
row("reshapes", lambda x: (x.reshape(6, 4), x.T, jnp.transpose(x, (1, 2, 0)), x[:, None], jnp.squeeze(x[:, :1]), jnp.flip(x, 1), jnp.moveaxis(x, 0, -1), jnp.broadcast_to(x[:, :1], (2, 3, 4)), jnp.tile(x, (1, 2, 1)), jnp.roll(x, 1, axis=1), jnp.repeat(x, 2, axis=0)), f32(2, 3, 4), wrt=["x0"])
row("slices", lambda x: (x[1:, :2], x[:, ::2], x[..., -1], x[::-1], lax.slice(x, (0, 1), (4, 5), (2, 2)), jnp.split(x, 2, axis=0)[1], x[jnp.newaxis]), f32(4, 6))
row("dynamic_slice", lambda x, i: (lax.dynamic_slice(x, (i, i), (2, 3)), lax.dynamic_slice_in_dim(x, i, 1, axis=0), lax.dynamic_update_slice(x, jnp.ones((2, 2)), (i, i)), lax.dynamic_index_in_dim(x, i, 1)), f32(4, 5), np.int32(3), again=[(f32(4, 5), np.int32(-9)), (f32(4, 5), np.int32(99))])
row("pad", lambda x: (jnp.pad(x, ((1, 2), (0, 1))), lax.pad(x, 7.0, ((1, 0, 1), (-1, 2, 0))), lax.pad(x, 0.0, ((-1, -1, 2), (0, 0, 1))), jnp.pad(x, 1, mode="edge"), jnp.pad(x, ((1, 1), (2, 2)), mode="reflect")), f32(3, 4), wrt=["x0"])
row("concatenate", lambda x, y: (jnp.concatenate([x, y], 1), jnp.stack([x, x * 2]), jnp.vstack([x, x]), jnp.hstack([x, y])), f32(2, 3), f32(2, 2))
row("iota", lambda x: (lax.broadcasted_iota(jnp.int32, (3, 4), 1) + x.astype(jnp.int32), jnp.triu(x), jnp.tril(x, -1), jnp.arange(4) * x), f32(3, 4))

# ---- products
row("matmul", lambda x, w: (x @ w, jnp.dot(x, w), x.T @ x, w @ w.T), f32(4, 5), f32(5, 3), wrt=["x0", "x1"])
row("matmul_stacks", lambda x, y, w: (jnp.matmul(x, y), jnp.matmul(x, w), jnp.einsum("bij,bkj->bik", x, x), jnp.einsum("bij,jk->bki", x, w), jnp.einsum("bij,bij->b", x, x), jnp.tensordot(x, y, [[2], [1]])), f32(2, 3, 4), f32(2, 4, 5), f32(4, 6), wrt=["x0", "x2"])
row("vectors", lambda x, y: (jnp.dot(x, y), jnp.outer(x, y), jnp.vdot(x, x), jnp.linalg.norm(x)), f32(5), f32(5), wrt=["x0"])
row("integer_matmul", lambda x, y: (x @ y, lax.dot_general(x.astype(jnp.int8), y.astype(jnp.int8), (((1,), (0,)), ((), ())), preferred_element_type=jnp.int32)), i32(-9, 9, 3, 4), i32(-9, 9, 4, 2))
row("mixed_precision", lambda x, y: lax.dot_general(x.astype(jnp.bfloat16), y.astype(jnp.bfloat16), (((1,), (0,)), ((), ())), preferred_element_type=jnp.float32), f32(4, 8), f32(8, 3), rtol=1e-2, atol=1e-2)

# ---- convolutions
DN = ("NHWC", "HWIO", "NHWC")
row("conv_same", lambda x, w: lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=DN), f32(2, 8, 8, 3), f32(3, 3, 3, 4), wrt=["x0", "x1"], rtol=1e-3, atol=1e-4)
row("conv_strides", lambda x, w: (lax.conv_general_dilated(x, w, (2, 2), "SAME", dimension_numbers=DN), lax.conv_general_dilated(x, w, (2, 1), [(0, 1), (2, 0)], dimension_numbers=DN), lax.conv_general_dilated(x, w, (1, 1), "VALID", rhs_dilation=(2, 1), dimension_numbers=DN)), f32(2, 9, 8, 3), f32(3, 2, 3, 4), rtol=1e-3, atol=1e-4)
row("conv_channels_first", lambda x, w: lax.conv(x, w, (1, 1), "SAME"), f32(2, 3, 8, 8), f32(4, 3, 3, 3), rtol=1e-3, atol=1e-4, wrt=["x0"])
row("conv_1d", lambda x, w: lax.conv_general_dilated(x, w, (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC")), f32(2, 9, 3), f32(3, 3, 4), rtol=1e-3, atol=1e-4)
row("conv_3d", lambda x, w: lax.conv_general_dilated(x, w, (1, 2, 1), "SAME", dimension_numbers=("NDHWC", "DHWIO", "NDHWC")), f32(1, 4, 5, 6, 2), f32(2, 3, 3, 2, 3), rtol=1e-3, atol=1e-4)
row("conv_depthwise", lambda x, w: (lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=DN, feature_group_count=4), lax.conv_general_dilated(x, w, (2, 1), "SAME", dimension_numbers=DN, feature_group_count=4)), f32(2, 6, 6, 4), f32(3, 3, 1, 8), rtol=1e-3, atol=1e-4)
row("conv_groups", lambda x, w: lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=DN, feature_group_count=2), f32(2, 6, 6, 4), f32(3, 3, 2, 6), rtol=1e-3, atol=1e-4)
row("conv_transpose", lambda x, w: lax.conv_transpose(x, w, (2, 2), "SAME", dimension_numbers=DN), f32(2, 5, 5, 3), f32(3, 3, 3, 4), rtol=1e-3, atol=1e-4)

# ---- reductions and windows
row("reductions", lambda x: (x.sum(), x.sum(1), x.mean((0, 2)), x.max(2), x.min(), x.prod(1), x.var(1), x.std(), jnp.logaddexp.reduce(x, axis=0) if hasattr(jnp.logaddexp, "reduce") else x.sum(0), jax.nn.logsumexp(x, 1)), f32(3, 4, 5), wrt=["x0"])
row("argmax", lambda x, y: (x.argmax(1), x.argmin(0), jnp.argmax(x), y.argmax(0), y.argmin(1)), f32(4, 6), i32(0, 5, 4, 6))
row("reduce_initial", lambda x: (lax.reduce(x, jnp.float32(2), lax.add, (1,)), lax.reduce(x, jnp.float32(0.5), lax.max, (0,)), lax.reduce(x.astype(jnp.int32), jnp.int32(7), lax.bitwise_xor, (0, 1))), f32(3, 5))
row("reduce_pairs", lambda x, y: lax.reduce((x, y), (jnp.float32(0), jnp.float32(1)), lambda a, b: (a[0] + b[0] * a[1], a[1] * b[1]), (1,)), f32(3, 5), f32(3, 5))
row("cumulative", lambda x: (jnp.cumsum(x, 1), jnp.cumprod(x, 0), lax.cummax(x, 1), lax.cumsum(x, 0, reverse=True), lax.cumlogsumexp(x, 1)), f32(3, 7), rtol=1e-3)
row("max_pool", lambda x: (lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"), lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")), f32(2, 7, 8, 3), wrt=["x0"])
row("avg_pool", lambda x: (lax.reduce_window(x, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") / 4, lax.reduce_window(x, 0.0, lax.add, (1, 3, 3, 1), (1, 1, 1, 1), "SAME") / lax.reduce_window(jnp.ones_like(x), 0.0, lax.add, (1, 3, 3, 1), (1, 1, 1, 1), "SAME")), f32(2, 6, 6, 3), rtol=1e-3, atol=1e-4)
row("windows", lambda x: (lax.reduce_window(x, 0.0, lax.add, (3, 2), (1, 2), ((1, 1), (0, 1))), lax.reduce_window(x, jnp.inf, lax.min, (2, 2), (1, 1), "SAME", window_dilation=(1, 2)), lax.reduce_window(x, 1.0, lax.mul, (1, 3), (1, 1), "VALID", base_dilation=(1, 2))), f32(5, 6), rtol=1e-3, atol=1e-4)

# ---- gather, scatter, sort
row("take", lambda x, i: (jnp.take(x, i, axis=0), jnp.take(x, i, axis=1, mode="clip"), x[i], x[:, i], x[i, i], jnp.take_along_axis(x, i[None, :3], axis=1)), f32(5, 6), i32(0, 5, 4), wrt=["x0"])
row("take_outside", lambda x, i: (jnp.take(x, i, axis=0), jnp.take(x, i, axis=0, mode="clip"), x[i], x.at[i].get(mode="fill", fill_value=-1)), f32(5, 3), np.array([0, -1, 7, -9, 4], np.int32))
row("gather_windows", lambda x, i: (lax.gather(x, i[:, None], lax.GatherDimensionNumbers((1, 2), (), (0,)), (2, 3)), jax.vmap(lambda r, k: lax.dynamic_slice(r, (k,), (3,)))(x, i[:4])), f32(4, 6), i32(0, 5, 5))
row("take_along", lambda x, i: (jnp.take_along_axis(x, i, axis=1), jnp.take_along_axis(x, i, axis=0, mode="clip")), f32(4, 5), i32(0, 4, 4, 5))
row("scatter", lambda x, i, u: (x.at[i].set(u), x.at[i].add(u), x.at[i].max(u), x.at[i].min(u), x.at[0].set(1.0), x.at[:, 1].add(2.0), x.at[1:3].set(0)), f32(6, 3), np.array([0, 4, 2], np.int32), f32(3, 3), wrt=["x0", "x2"])
row("scatter_repeated", lambda x, i, u: (x.at[i].add(u), x.at[i].max(u), x.at[i, i].add(u)), f32(6, 6), np.array([1, 1, 5, -2, 1], np.int32), np.float32(2.5))
row("scatter_outside", lambda x, i, u: (x.at[i].set(u), x.at[i].add(u, mode="drop")), f32(4, 2), np.array([0, 9, -1], np.int32), f32(3, 2))
row("scatter_windows", lambda x, i, u: (jax.vmap(lambda r, k, v: lax.dynamic_update_slice(r, v, (k,)))(x, i, u), x.at[jnp.arange(4), i].add(1.0)), f32(4, 6), i32(0, 5, 4), f32(4, 2))
row("segments", lambda x, s: (jax.ops.segment_sum(x, s, 4), jax.ops.segment_max(x, s, 4), jnp.bincount(s, length=5), jax.nn.one_hot(s, 4)), f32(7, 3), np.array([0, 1, 1, 3, 0, 2, 3], np.int32), wrt=["x0"])
row("sort", lambda x, y: (jnp.sort(x), jnp.sort(x, axis=0), jnp.argsort(x), jnp.sort(y), jnp.argsort(y, descending=True), lax.sort((y, x), num_keys=1), lax.sort((y, x), num_keys=2), jnp.median(x, axis=1)), f32(4, 7), i32(0, 4, 4, 7))
row("sort_special", lambda x: (jnp.sort(x), jnp.argsort(x), jnp.sort(-x)), SPECIAL)
row("top_k", lambda x: lax.top_k(x, 3), f32(4, 7))
row("unique_counts", lambda x: (jnp.unique(x, size=6, fill_value=-1), jnp.searchsorted(jnp.sort(x), jnp.array([1, 3])), jnp.nonzero(x > 2, size=5)), i32(0, 6, 10))

# ---- control flow
row("while_loop", lambda x, n: lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] * 1.1 + x), (0, x)), f32(3), np.int32(5))
row("fori_loop", lambda x: lax.fori_loop(0, 4, lambda i, s: s + x[i], jnp.zeros(3)), f32(4, 3), wrt=["x0"])
row("scan", lambda x, w: lax.scan(lambda c, r: (jnp.tanh(c @ w + r), (c.sum(), r * 2)), jnp.zeros((2, 3)), x), f32(5, 2, 3), f32(3, 3), wrt=["x0", "x1"])
row("cond", lambda x, p: (lax.cond(p, lambda v: v * 2, lambda v: v - 1, x), lax.cond(x.sum() > 0, lambda: x, lambda: -x)), f32(3), np.bool_(True), again=[(f32(3), np.bool_(False))])
row("switch", lambda x, i: lax.switch(i, [lambda v: v, lambda v: v * 2, lambda v: v.sum() + v], x), f32(3), np.int32(1), again=[(f32(3), np.int32(5)), (f32(3), np.int32(-1))])
row("nested_loops", lambda x: lax.fori_loop(0, 3, lambda i, s: lax.while_loop(lambda t: t.sum() < 10 * (i + 1), lambda t: t + jnp.abs(x), s), jnp.zeros(3)), f32(3))
row("vmap_while", lambda x: jax.vmap(lambda v: lax.while_loop(lambda s: s < 10, lambda s: s * 2 + 1, v))(x), np.abs(f32(4)))

# ---- random numbers by key
row("threefry", lambda k: (jax.random.bits(k, (7,)), jax.random.uniform(k, (3, 4)), jax.random.randint(k, (5,), 0, 100), jax.random.bernoulli(k, 0.3, (9,)), jax.random.key_data(jax.random.split(jax.random.wrap_key_data(k), 3))), np.array([1, 42], np.uint32))
row("normal", lambda k: (jax.random.normal(k, (6,)), jax.random.categorical(k, jnp.log(jnp.array([[0.2, 0.3, 0.5]] * 4))), jax.random.permutation(k, 8)), np.array([3, 7], np.uint32), rtol=1e-3, atol=1e-4)
row("dropout", lambda k, x: jnp.where(jax.random.bernoulli(k, 0.8, x.shape), x / 0.8, 0), np.array([0, 5], np.uint32), f32(4, 6))

# ---- linear algebra that needs no code of JAX's own
row("fft", lambda x: (jnp.abs(jnp.fft.fft(x)), jnp.abs(jnp.fft.rfft(x)), jnp.fft.irfft(jnp.fft.rfft(x)), jnp.abs(jnp.fft.fft2(x))), f32(4, 8), rtol=1e-3, atol=1e-4)
row("polynomial", lambda x: (jnp.polyval(jnp.array([1.0, 2.0, 3.0]), x), jnp.interp(x, jnp.array([-1.0, 0.0, 1.0]), jnp.array([2.0, 3.0, 5.0])), jnp.convolve(x, jnp.array([1.0, 0.5]), mode="same"), jnp.cross(x[:3], x[1:4]), jnp.trace(jnp.outer(x, x))), f32(6), rtol=1e-3)
row("matrix_power", lambda x: (jnp.linalg.matrix_power(x, 3), jnp.kron(x, x[:2, :2]), jnp.diag(x), jnp.trace(x)), f32(3, 3), rtol=1e-3, atol=1e-3)

# ---- several at once
row("gamma", lambda k: jax.random.gamma(k, 2.0, (4,)), np.array([1, 2], np.uint32), rtol=1e-3)
row("choice", lambda k: (jax.random.choice(k, 10, (4,), replace=False), jax.random.truncated_normal(k, -1, 1, (5,)), jax.random.gumbel(k, (3,)), jax.random.exponential(k, (3,)), jax.random.fold_in(jax.random.wrap_key_data(k), 3).dtype == 0), np.array([1, 2], np.uint32), rtol=1e-3)
row("resize", lambda x: (jax.image.resize(x, (1, 6, 6, 2), "nearest"), jax.image.resize(x, (1, 7, 5, 2), "cubic"), jax.image.resize(x, (1, 2, 2, 2), "linear")), f32(1, 4, 4, 2), rtol=1e-3, atol=1e-4)
row("activations", lambda x: (jax.nn.gelu(x), jax.nn.gelu(x, approximate=False), jax.nn.silu(x), jax.nn.elu(x), jax.nn.leaky_relu(x), jax.nn.softplus(x), jax.nn.selu(x), jax.nn.hard_swish(x), jax.nn.glu(x), jax.nn.log_softmax(x), jax.nn.mish(x) if hasattr(jax.nn, "mish") else x, jax.nn.relu6(x), jax.nn.celu(x)), f32(3, 4), rtol=1e-3)
row("losses", lambda x, y: (-jnp.sum(jax.nn.one_hot(y, 5) * jax.nn.log_softmax(x)), jnp.mean(jnp.square(x)), jnp.linalg.norm(x, axis=1), jnp.cov(x), jnp.corrcoef(x)), f32(4, 5), i32(0, 5, 4), rtol=1e-3)
row("masks", lambda x: (jnp.where(jnp.tril(jnp.ones((5, 5), bool)), x @ x.T, -jnp.inf).max(1), jnp.argwhere(x > 0, size=4), jnp.count_nonzero(x > 0), jnp.nanmean(jnp.where(x > 0, x, jnp.nan)), jnp.percentile(x, 30.0), jnp.quantile(x, jnp.array([0.1, 0.5]), axis=0)), f32(5, 4), rtol=1e-3)
row("dus_grad", lambda x, u, i: lax.dynamic_update_slice(x, u * 2, (i, i)) ** 2, f32(4, 5), f32(2, 2), np.int32(9), wrt=["x0", "x1"])
row("ds_grad", lambda x, i: lax.dynamic_slice(x, (i, 1), (2, 3)) ** 2, f32(4, 5), np.int32(1), wrt=["x0"])
row("float64ish", lambda x: (x.astype(jnp.float32) * 2, jnp.int32(3) + x.astype(jnp.int32)), f32(3).astype(np.float64))
row("assoc_scan", lambda x: (lax.associative_scan(jnp.add, x), lax.associative_scan(lambda a, b: a * 0.5 + b, x, axis=1), lax.associative_scan(jnp.maximum, x, reverse=True)), f32(6, 7), rtol=1e-3)
row("many_at_once", lambda x, w: jax.vmap(lambda a, b: jnp.sort(a @ b)[::-1])(x, w), f32(3, 2, 4), f32(3, 4, 5), rtol=1e-3)
row("conv_grad", lambda x, w: jax.grad(lambda a, b: jnp.sum(lax.conv_general_dilated(a, b, (2, 2), "SAME", dimension_numbers=DN) ** 2), (0, 1))(x, w), f32(2, 6, 6, 3), f32(3, 3, 3, 4), rtol=1e-3, atol=1e-3)
row("depthwise_grad", lambda x, w: jax.grad(lambda a, b: jnp.sum(lax.conv_general_dilated(a, b, (1, 1), "SAME", dimension_numbers=DN, feature_group_count=3) ** 2), (0, 1))(x, w), f32(2, 6, 6, 3), f32(3, 3, 1, 3), rtol=1e-3, atol=1e-3)
row("pool_grad", lambda x: jax.grad(lambda a: jnp.sum(lax.reduce_window(a, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "SAME") ** 2))(x), f32(1, 5, 5, 2), rtol=1e-3, atol=1e-3)
row("gather_grad", lambda x, i: jax.grad(lambda a: jnp.sum(jnp.take_along_axis(a, i, 1) ** 2))(x), f32(3, 4), i32(0, 4, 3, 2))
row("scan_grad", lambda x, w: jax.grad(lambda v: jnp.sum(lax.scan(lambda c, r: (jnp.tanh(c @ v + r), c.sum()), jnp.zeros((2, 3)), x)[0]))(w), f32(5, 2, 3), f32(3, 3), rtol=1e-3)
row("dot_product_attention", lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=True), f32(2, 5, 2, 4), f32(2, 5, 2, 4), f32(2, 5, 2, 4), rtol=1e-3)

# ---- at the ends of what numbers and indices can be
ENDS = np.array([0, -0.5, 0.7, -1.7, 127.5, 255.9, 300, -129, 70000, -40000, 2147483648.0, 4294967296.0, 1e20, -1e20, np.inf, -np.inf, np.nan], np.float32)
row("conversions_saturate", lambda x: tuple(x.astype(t) for t in (jnp.int8, jnp.uint8, jnp.int16, jnp.uint16, jnp.int32, jnp.uint32, bool)) + (x.astype(jnp.float16).astype(jnp.int32), x.astype(jnp.bfloat16).astype(jnp.uint8)), ENDS)
row("cube_roots", lambda x: (jnp.cbrt(x.astype(jnp.bfloat16)).astype(jnp.float32), jnp.cbrt(x.astype(jnp.float16)).astype(jnp.float32)), np.array([1e30, -3e30, 0, 8, 1e-3], np.float32), rtol=1e-2)
row("scatter_infinities", lambda x, i, u: (x.at[i].max(u), x.at[i].min(u), jax.ops.segment_max(u, i, 7), jax.ops.segment_min(u, i, 7)), np.array([[-np.inf, 1, np.inf]] * 7, np.float32), np.array([1, 1, 2, 9], np.int32), f32(4, 3))
row("scatter_kinds", lambda x, i, u: (x.at[i].subtract(u), (x > 0).at[i].max(u > 0), (x > 0).at[i].min(u > 0), (x > 0).at[i].set(u > 0), x.astype(jnp.uint8).at[i].subtract(jnp.uint8(200))), f32(6), np.array([1, 1, 2, 9], np.int32), f32(4))
row("index_kinds", lambda x, i, b: (x[i], jnp.take(x, i, mode="clip"), lax.dynamic_slice(x, (i[0],), (2,)), x.at[i].set(0), x[b], lax.dynamic_slice(x, (b[0],), (2,))), f32(300), np.array([0xffffffff, 0x80000000, 3, 0x7fffffff], np.uint32), np.array([255, 130], np.uint8))


def softmax_of(x, shift, begin):
    e = jnp.exp(x - shift)
    return e / lax.broadcast_in_dim(lax.reduce(e, np.float32(begin), lax.add, (1,)), x.shape, (0,))


row("softmax_but_not_quite", lambda x: (softmax_of(x, x.max(1, keepdims=True), 1), softmax_of(x, jnp.maximum(x.max(1, keepdims=True), jnp.array([0., 1, 2, 3])), 0), softmax_of(x, jnp.maximum(x.max(1, keepdims=True), 2), 0)), f32(3, 4))
row("beginnings", lambda x: (lax.reduce_window(x, np.float32(1.5), lax.add, (2, 3), (1, 2), ((1, 1), (0, 1))), lax.reduce_window(x, np.float32(0.5), lax.max, (2, 3), (1, 1), "SAME", (1, 2)), lax.reduce(x, np.float32(2), lax.add, (0,)), lax.reduce(x, np.float32(0.5), lax.max, (1,))), f32(4, 5))

# ---- a number of rows that is not known
row("poly_elementwise", lambda x: jnp.tanh(x * 2 + 1), f32(3, 4), poly=["b, 4"], again=[(f32(7, 4),), (f32(1, 4),)], wrt=["x0"])
row("poly_normalise", lambda x: ((x - x.mean(1, keepdims=True)) / jnp.sqrt(x.var(1, keepdims=True) + 1e-5), jax.nn.softmax(x), x / x.shape[0]), f32(3, 4), poly=["b, 4"], again=[(f32(5, 4),)])
row("poly_reshape", lambda x: (x.reshape(x.shape[0], -1), x.reshape(-1, 4), jnp.concatenate([x, x], 0), jnp.ones((x.shape[0], 2)), jnp.arange(x.shape[0]), x[:, 0], x[1:], jnp.flip(x, 0)), f32(3, 2, 4), poly=["b, 2, 4"], again=[(f32(6, 2, 4),)])
row("poly_two", lambda x, y: (jnp.einsum("bth,bsh->bts", x, y), x.sum(1), jnp.pad(x, ((0, 0), (1, 0), (0, 0)))), f32(2, 3, 4), f32(2, 5, 4), poly=["b, t, 4", "b, s, 4"], again=[(f32(3, 4, 4), f32(3, 1, 4))])
row("poly_gather", lambda x, i: (jnp.take(x, i, axis=0), jnp.take_along_axis(x, i[:, None] % 4, axis=1), x[jnp.arange(x.shape[0]), i % 4]), f32(5, 4), i32(0, 5, 5), poly=["b, 4", "b"], again=[(f32(7, 4), i32(0, 7, 7))])
row("poly_sort", lambda x: (jnp.sort(x, axis=0), jnp.argsort(x, axis=1), x.argmax(0), jnp.cumsum(x, axis=1)), f32(4, 3), poly=["b, 3"], again=[(f32(6, 3),)])
row("poly_conv", lambda x, w: lax.conv_general_dilated(x, w, (2, 2), "SAME", dimension_numbers=DN), f32(2, 8, 8, 3), f32(3, 3, 3, 4), poly=["b, 8, 8, 3", None], again=[(f32(3, 8, 8, 3), f32(3, 3, 3, 4))], rtol=1e-3, atol=1e-4)
row("poly_scan", lambda x: lax.scan(lambda c, r: (jnp.tanh(c + r), c), jnp.zeros((x.shape[0], 3)), jnp.swapaxes(x, 0, 1)), f32(2, 5, 3), poly=["b, 5, 3"], again=[(f32(4, 5, 3),)])
row("poly_misc", lambda x: (x.reshape(-1), x.mean(0), jnp.where(jnp.arange(x.shape[0])[:, None] > 1, x, 0), x[::2], x[-1], jnp.stack([x, x], 1), x @ x.T, jnp.linalg.norm(x), jnp.zeros_like(x), x.at[0].set(1.0), jnp.tril(x @ x.T), jnp.pad(x, ((1, 0), (0, 0)))[:-1], jnp.repeat(x, 2, axis=0), jnp.max(x, axis=0)), f32(4, 3), poly=["b, 3"], again=[(f32(6, 3),)], rtol=1e-3, atol=1e-4)
row("poly_seq", lambda x, m: (jnp.sum(x * m[..., None], 1) / jnp.maximum(m.sum(1, keepdims=True), 1), jnp.max(jnp.where(m[..., None] > 0, x, -1e9), 1), x[:, -1], x[:, ::-1], lax.fori_loop(0, x.shape[1], lambda i, s: s + x[:, i], jnp.zeros((x.shape[0], 3)))), f32(2, 4, 3), np.ones((2, 4), np.float32), poly=["b, t, 3", "b, t"], again=[(f32(3, 6, 3), np.ones((3, 6), np.float32))], rtol=1e-3)
row("poly_conv1d", lambda x, w: lax.conv_general_dilated(x, w, (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC")), f32(2, 9, 3), f32(3, 3, 4), poly=["b, t, 3", None], again=[(f32(1, 5, 3), f32(3, 3, 4))], rtol=1e-3, atol=1e-4)
row("poly_pool", lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"), f32(2, 8, 8, 3), poly=["b, h, w, 3"], again=[(f32(1, 4, 6, 3),)])
row("poly_rng", lambda x, k: jax.random.uniform(k, x.shape) + x, f32(3, 4), np.array([1, 2], np.uint32), poly=["b, 4", None])
