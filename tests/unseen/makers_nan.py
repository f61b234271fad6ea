"""NaN and infinities through ops and through what a compiler makes of them: maxima, clips, pools, sorts, segments, resizes, fused products."""
import numpy as np
from harness import F, Lazy, case, floats, model, save

tf = Lazy("tensorflow")


def holes(v, step=5):
    v = v.copy()
    v.reshape(-1)[::step] = np.nan
    v.reshape(-1)[3::step * 2] = np.inf
    v.reshape(-1)[4::step * 3] = -np.inf
    return v


@model(vary=False)
def nan_elements(folder):
    def f(x):
        n, m = tf.nn, tf.math
        y = {k: getattr(n, k)(x) for k in "relu relu6 elu selu softplus softsign leaky_relu gelu silu swish tanh sigmoid log_softmax softmax l2_loss crelu".split()}
        y.update({k: getattr(m, k)(x) for k in "abs sign round rint ceil floor exp log sqrt rsqrt square sin cos tan atan sinh cosh erf lgamma digamma expm1 log1p is_nan is_inf is_finite".split()})
        y.update(max0=tf.maximum(x, 0.), max0r=tf.maximum(0., x), min1=tf.minimum(x, 1.), clip=tf.clip_by_value(x, -1., 1.), pow2=x ** 2, pow0=x ** 0., div=x / 0., floordiv=x // 2., mod=x % 2., gt=x > 0, eq=tf.equal(x, x), ne=tf.not_equal(x, x), where=tf.where(x > 0, x, -x), mul0=x * 0.,
                 no_nan=m.divide_no_nan(x, 0.), mul_no_nan=m.multiply_no_nan(x, tf.zeros_like(x)), atan2=m.atan2(x, x), sqdiff=m.squared_difference(x, 1.), hard=tf.clip_by_value(x * .2 + .5, 0., 1.), relu_n=tf.minimum(tf.nn.relu(x), 2.), cast=tf.cast(x, tf.float64), to_bool=tf.cast(x, tf.bool), half=tf.cast(x, tf.float16),
                 xlogy=m.xlogy(x, x), text=tf.strings.as_string(x), next=m.nextafter(x, 0.), fake=tf.quantization.fake_quant_with_min_max_args(x), heaviside=tf.cast(x >= 0, tf.float32), bucket=tf.raw_ops.Bucketize(input=x, boundaries=[-.5, 0., .5]))
        return y
    save(folder, {"serving_default": (f, {"x": ([None, 7], F)})})
    yield case({"x": holes(floats(1, 6, 7, low=-3, high=3))})


@model(vary=False)
def nan_reductions(folder):
    def f(x):
        m = tf.math
        ids = tf.constant([0, 0, 1, 1, 3, 3])
        y = {k + str(a): getattr(tf, "reduce_" + k)(x, a) for k in ("max", "min", "sum", "mean", "prod", "logsumexp") for a in (0, 1)}
        y.update({"seg_" + k: getattr(m, "segment_" + k)(x, ids) for k in ("max", "min", "sum", "prod", "mean")})
        y.update({"un_" + k: getattr(m, "unsorted_segment_" + k)(x, ids, 5) for k in ("max", "min", "sum", "prod", "mean", "sqrt_n")})
        y.update(argmax=tf.argmax(x, 1), argmin=tf.argmin(x, 0), cumsum=m.cumsum(x, 1), euclid=m.reduce_euclidean_norm(x, 1), all=tf.reduce_all(x > 0, 1), var=m.reduce_variance(x, 0), std=m.reduce_std(x, 1), zero=m.zero_fraction(x), norm=tf.linalg.norm(x, axis=1),
                 l2=tf.nn.l2_normalize(x, 1), scatter_max=tf.tensor_scatter_nd_max(x, [[0], [1]], x[2:4]), scatter_min=tf.tensor_scatter_nd_min(x, [[0], [1]], x[2:4]), top=tf.math.top_k(tf.where(m.is_nan(x), 0., x), 3)[0], sort=tf.sort(tf.where(m.is_nan(x), 0., x), 1), count=m.count_nonzero(x, 0),
                 allmax=tf.reduce_max(x), allmin=tf.reduce_min(x), unique=tf.unique(tf.reshape(tf.where(m.is_nan(x), 0., x), [-1]))[0])
        return y
    save(folder, {"serving_default": (f, {"x": ([None, 7], F)})})
    yield case({"x": holes(floats(1, 6, 7, low=-3, high=3))})
    yield case({"x": holes(floats(1, 6, 7, low=-3, high=3), 13)})


@model(vary=False)
def nan_fused(folder):
    w, b, k = floats(1, 40, 48), floats(2, 48), floats(3, 3, 3, 16, 24)

    def products(x):
        h = tf.matmul(x, w) + b
        y = {n: getattr(tf.nn, n)(h) for n in ("relu", "relu6", "elu", "leaky_relu", "tanh", "sigmoid", "gelu", "swish", "selu", "softplus")}
        y.update(clip=tf.clip_by_value(h, -1., 1.), max=tf.maximum(h, .5), hard=tf.clip_by_value(h * .2 + .5, 0., 1.), hard_swish=h * tf.nn.relu6(h + 3.) / 6.)
        return y

    def convolutions(x):
        h = tf.nn.conv2d(x, k, 1, "SAME") + b[:24]
        y = {n: getattr(tf.nn, n)(h) for n in ("relu", "relu6", "elu", "leaky_relu", "swish")}
        d = tf.nn.depthwise_conv2d(x, k[..., :2], [1, 1, 1, 1], "SAME")
        y.update(hard_swish=h * tf.nn.relu6(h + 3.) / 6., depth=d, bn=tf.nn.relu6(tf.compat.v1.nn.fused_batch_norm(h, b[:24], b[:24], b[:24], tf.abs(b[:24]), is_training=False)[0]))
        return y

    def pools(x):
        n = tf.nn
        return {"max": n.max_pool2d(x, 2, 2, "SAME"), "max3": n.max_pool2d(x, 3, 1, "VALID"), "avg": n.avg_pool2d(x, 3, 2, "SAME"), "arg": n.max_pool_with_argmax(x, 2, 2, "SAME")[0], "max3d": n.max_pool3d(x[:, None], 2, 1, "SAME"), "gmax": tf.reduce_max(x, [1, 2]), "gavg": tf.reduce_mean(x, [1, 2]),
                "erode": n.dilation2d(x, floats(1, 2, 2, 16), [1, 1, 1, 1], "SAME", "NHWC", [1, 1, 1, 1]), "ln": (x - tf.reduce_mean(x, -1, keepdims=True)) * tf.math.rsqrt(tf.math.reduce_variance(x, -1, keepdims=True) + 1e-3), "soft": n.softmax(x), "pad": tf.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]], constant_values=-np.inf)}
    save(folder, {"serving_default": (products, {"x": ([None, 40], F)}), "convolutions": (convolutions, {"x": ([None, 20, 20, 16], F)}), "pools": (pools, {"x": ([None, 20, 20, 16], F)})})
    x = floats(1, 33, 40)
    x[0, 3], x[5, 7], x[9, 1], x[12, :] = np.nan, np.inf, -np.inf, np.nan
    yield case({"x": x}, rtol=1e-3, atol=1e-4)
    image = floats(1, 2, 20, 20, 16)
    image[0, 3, 3, 2], image[0, 15, 15, 0], image[1, 10, 2, 7] = np.nan, np.inf, -np.inf
    yield case({"x": image}, signature="convolutions", rtol=1e-3, atol=1e-4)
    yield case({"x": image}, signature="pools", rtol=1e-3, atol=1e-4)


@model(vary=False)
def nan_sparse(folder):
    """A sum of sparse tensors that is NaN does not reach any magnitude, so it is dropped; the larger of two is kept."""
    def f(i, v, w):
        a, b = (tf.SparseTensor(i, x, [3, 4]) for x in (v, w))
        y = {"add": tf.sparse.add(a, b), "some": tf.sparse.add(a, b, 1.5), "max": tf.sparse.maximum(a, b), "min": tf.sparse.minimum(a, b)}
        return {**{k: s.values for k, s in y.items()}, **{k + "_at": s.indices for k, s in y.items()}}
    save(folder, {"serving_default": (f, {"i": ([None, 2], "int64"), "v": ([None], F), "w": ([None], F)})})
    yield case({"i": [[0, 1], [1, 0], [1, 3], [2, 2], [2, 3]], "v": [np.nan, 1, np.inf, np.inf, 2], "w": [1, .25, 2, -np.inf, 3]})


@model(vary=False)
def nan_pivots(folder):
    """A matrix whose first pivot is NaN is refused as one that has no inverse; a NaN elsewhere comes out as NaN."""
    l = tf.linalg
    save(folder, {k: ((lambda make: lambda x: {"y": make(x)})(make), {"x": ([None, None], d)}) for k, make, d in (
        ("inverse", l.inv, F), ("adjoint", lambda x: l.inv(x, adjoint=True), F), ("solve", lambda x: l.solve(x, x), F), ("lu", lambda x: l.lu(x)[0], "float64"))})
    for k in ("inverse", "adjoint", "solve", "lu"):
        for row, column in ((0, 0), (2, 0), (0, 2), (1, 1), (2, 2)):
            x = floats(row * 3 + column, 3, 3)
            x[row, column] = np.nan
            yield case({"x": x}, signature=k)
