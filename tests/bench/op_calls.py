"""Makes a SavedModel of 270 signatures, each one op or layer on tensors of a size that models have, to find slow kernels by.

    python tests/bench/op_calls.py OUT          OUT/ops/1 and OUT/op_cases.txt (label, model directory, case file; call.h has the format)

tests/bench/run.sh --only ops makes it, times each call beside TensorFlow's C API on one thread, and prints those that are slower than there.
A call is named by its op and what is special about it. Inputs are random with a fixed seed.
"""
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import numpy as np
import tensorflow as tf

from models import signatures, write_case

R = np.random.default_rng(0)
N = 1 << 19
CALLS = {}   # label: (function, {input: array})


def real(*shape, lo=-2.0, hi=2.0, dtype=np.float32):
    return R.uniform(lo, hi, shape).astype(dtype)


def whole(below, *shape, dtype=np.int32):
    return R.integers(0, below, shape).astype(dtype)


def call(label, fn, **inputs):
    CALLS[label] = (fn, inputs)


def each(names, home, prefix="", **inputs):
    """One call of each function of the module `home`, of the same inputs."""
    for name in names.split():
        call(prefix + name, lambda *a, f=getattr(home, name): f(*a), **inputs)


def elementwise():
    unit = real(N, lo=0.01, hi=0.9)
    each("abs acos asin asinh atan atanh ceil cos cosh digamma erf erfc erfinv exp expm1 floor lgamma log log1p ndtri negative rint round rsqrt sigmoid "
         "sign sin sinh softplus softsign sqrt square tan tanh bessel_i0e", tf.math, x=unit)
    each("relu relu6 elu selu leaky_relu gelu silu softmax log_softmax", tf.nn, x=real(1024, 512))
    each("add subtract multiply divide maximum minimum pow atan2 floordiv floormod squared_difference less equal not_equal", tf.math,
         x=real(N, lo=0.1), y=real(N, lo=0.1))
    call("acosh", tf.acosh, x=real(N, lo=1.1, hi=3))
    call("add row", tf.add, x=real(1024, 512), y=real(512))
    call("add column", tf.add, x=real(1024, 512), y=real(1024, 1))
    call("add int64", tf.add, x=whole(99, N, dtype=np.int64), y=whole(99, N, dtype=np.int64))
    call("floordiv int32", tf.math.floordiv, x=whole(999, N), y=whole(9, N) + 1)
    call("logical_and", tf.logical_and, x=whole(2, N, dtype=bool), y=whole(2, N, dtype=bool))
    call("bitwise_xor", tf.bitwise.bitwise_xor, x=whole(99, N), y=whole(99, N))
    call("complex mul", lambda x, y: tf.complex(x, y) * tf.complex(y, x), x=real(N), y=real(N))
    call("complex abs", lambda x, y: tf.abs(tf.complex(x, y)), x=real(N), y=real(N))
    call("clip_by_value", lambda x: tf.clip_by_value(x, -1.0, 1.0), x=real(N))
    for dtype in (np.float16, np.float64):
        call(f"exp {np.dtype(dtype).name}", tf.exp, x=real(N, dtype=dtype))
        call(f"add {np.dtype(dtype).name}", tf.add, x=real(N, dtype=dtype), y=real(N, dtype=dtype))
    pairs = [("float32", t) for t in ("int32", "int64", "float16", "bfloat16")] + [(t, "float32") for t in ("int32", "uint8", "float64", "bool")]
    for a, b in pairs:
        call(f"cast {a} {b}", lambda x, b=b: tf.cast(x, b), x=real(N, lo=0, hi=200).astype(a))
    each("igamma zeta", tf.math, x=real(20000, lo=1.1), y=real(20000, lo=0.1))
    call("betainc", lambda x, y: tf.math.betainc(x, y, x * 0.2), x=real(20000, lo=0.1), y=real(20000, lo=0.1))


def reductions():
    for name in ("sum", "mean", "max", "min", "prod"):
        for axis in (0, 1, None):
            call(f"reduce_{name} {axis}", lambda x, n=name, a=axis: getattr(tf, "reduce_" + n)(x, a), x=real(1024, 512, lo=0.9, hi=1.1))
    call("reduce_sum middle", lambda x: tf.reduce_sum(x, 1), x=real(64, 64, 128))
    call("reduce_mean image", lambda x: tf.reduce_mean(x, [1, 2]), x=real(8, 28, 28, 64))
    call("reduce_any", lambda x: tf.reduce_any(x, 1), x=whole(2, 1024, 512, dtype=bool))
    call("reduce_logsumexp", lambda x: tf.reduce_logsumexp(x, 1), x=real(1024, 512))
    call("reduce_sum int32", lambda x: tf.reduce_sum(x, 1), x=whole(9, 1024, 512))
    call("moments", lambda x: tf.nn.moments(x, [0, 1, 2]), x=real(8, 28, 28, 64))
    for axis in (0, 1):
        call(f"argmax {axis}", lambda x, a=axis: tf.argmax(x, a), x=real(1024, 512))
        call(f"cumsum {axis}", lambda x, a=axis: tf.cumsum(x, a), x=real(1024, 512))
        call(f"sort {axis}", lambda x, a=axis: tf.sort(x, a), x=real(256, 512))
    call("top_k", lambda x: tf.math.top_k(x, 10), x=real(256, 2048))
    call("in_top_k", lambda x, y: tf.math.in_top_k(y, x, 5), x=real(512, 1000), y=whole(1000, 512))
    call("segment_sum", lambda x, i: tf.math.segment_sum(x, tf.sort(i)), x=real(5000, 64), i=whole(500, 5000))
    call("unsorted_segment_max", lambda x, i: tf.math.unsorted_segment_max(x, i, 500), x=real(5000, 64), i=whole(500, 5000))
    call("bincount", tf.math.bincount, x=whole(1000, N))
    call("histogram", lambda x: tf.histogram_fixed_width(x, [-2.0, 2.0], 100), x=real(N))
    call("searchsorted", tf.searchsorted, x=np.sort(real(10000)), y=real(100000))
    call("l2_normalize", lambda x: tf.nn.l2_normalize(x, -1), x=real(1024, 512))
    call("softmax loss", lambda x, y: tf.nn.softmax_cross_entropy_with_logits(y, x), x=real(512, 1000), y=real(512, 1000, lo=0))
    call("sparse softmax loss", lambda x, y: tf.nn.sparse_softmax_cross_entropy_with_logits(y, x), x=real(512, 1000), y=whole(1000, 512))


def movement():
    for axis in (0, 1):
        call(f"concat {axis}", lambda x, y, a=axis: tf.concat([x, y], a), x=real(512, 512), y=real(512, 512))
        call(f"stack {axis}", lambda x, y, a=axis: tf.stack([x, y], a), x=real(512, 512), y=real(512, 512))
        call(f"split {axis}", lambda x, a=axis: tf.split(x, 4, a), x=real(512, 512))
        call(f"gather {axis}", lambda x, i, a=axis: tf.gather(x, i, axis=a), x=real(1024, 512), i=whole(512, 400))
        call(f"reverse {axis}", lambda x, a=axis: tf.reverse(x, [a]), x=real(1024, 512))
    for order, shape in (((1, 0), (1024, 512)), ((0, 2, 1, 3), (8, 64, 8, 64)), ((0, 3, 1, 2), (4, 56, 56, 64)), ((0, 2, 3, 1), (4, 64, 56, 56)), ((2, 0, 1), (64, 64, 128))):
        call("transpose " + "".join(map(str, order)), lambda x, o=order: tf.transpose(x, o), x=real(*shape))
    image = real(4, 56, 56, 64)
    call("slice", lambda x: x[100:900, 50:400], x=real(1024, 512))
    call("strided slice", lambda x: x[::2, ::-2], x=real(1024, 512))
    call("pad", lambda x: tf.pad(x, [[0, 0], [3, 3], [3, 3], [0, 0]]), x=image)
    call("pad reflect", lambda x: tf.pad(x, [[0, 0], [3, 3], [3, 3], [0, 0]], "REFLECT"), x=image)
    call("tile", lambda x: tf.tile(x, [4, 2]), x=real(256, 256))
    call("broadcast_to", lambda x: tf.broadcast_to(x, [512, 1024]), x=real(1024))
    call("repeat", lambda x: tf.repeat(x, 3, axis=0), x=real(512, 256))
    call("roll", lambda x: tf.roll(x, [3, 5], [0, 1]), x=real(1024, 512))
    call("one_hot", lambda i: tf.one_hot(i, 512), i=whole(512, 1024))
    call("where", tf.where, x=whole(2, 512, 512, dtype=bool))
    call("select", tf.where, c=whole(2, N, dtype=bool), x=real(N), y=real(N))
    call("boolean_mask", lambda c, x: tf.boolean_mask(x, c), c=whole(2, 1024, dtype=bool), x=real(1024, 512))
    call("unique", tf.unique, i=whole(1000, N))
    call("gather_nd", tf.gather_nd, x=real(256, 256, 8), i=whole(256, 50000, 2))
    call("scatter_nd", lambda i, u: tf.scatter_nd(i, u, [1000, 64]), i=whole(1000, 5000, 1), u=real(5000, 64))
    call("tensor_scatter_nd_update", tf.tensor_scatter_nd_update, x=real(1000, 64), i=whole(1000, 5000, 1), u=real(5000, 64))
    call("embedding mean", lambda x, i: tf.reduce_mean(tf.gather(x, i), 1), x=real(5000, 64), i=whole(5000, 64, 50))
    call("band_part", lambda x: tf.linalg.band_part(x, 3, -1), x=real(512, 512))
    call("diag_part", tf.linalg.diag_part, x=real(64, 128, 128))
    call("space_to_depth", lambda x: tf.nn.space_to_depth(x, 2), x=image)
    call("depth_to_space", lambda x: tf.nn.depth_to_space(x, 2), x=image)
    call("space_to_batch", lambda x: tf.space_to_batch(x, [2, 2], [[0, 0], [0, 0]]), x=image)


def convolutions():
    def conv(label, x, w, **how):
        call(label, lambda x, w: tf.nn.conv2d(x, w, **how), x=real(*x), w=real(*w))
    conv("conv 3x3", (1, 56, 56, 64), (3, 3, 64, 64), strides=1, padding="SAME")
    conv("conv 3x3 stride 2", (1, 56, 56, 64), (3, 3, 64, 128), strides=2, padding="SAME")
    conv("conv 1x1", (1, 56, 56, 64), (1, 1, 64, 256), strides=1, padding="VALID")
    conv("conv 7x7 stride 2", (1, 224, 224, 3), (7, 7, 3, 64), strides=2, padding="SAME")
    conv("conv 5x5", (1, 28, 28, 96), (5, 5, 96, 96), strides=1, padding="SAME")
    conv("conv dilated", (1, 56, 56, 32), (3, 3, 32, 32), strides=1, padding="SAME", dilations=2)
    conv("conv grouped", (1, 56, 56, 64), (3, 3, 16, 64), strides=1, padding="SAME")
    for label, stride, side, multiplier in (("depthwise", 1, 56, 1), ("depthwise stride 2", 2, 112, 1), ("depthwise x2", 1, 28, 2)):
        call(label, lambda x, w, s=stride: tf.nn.depthwise_conv2d(x, w, [1, s, s, 1], "SAME"), x=real(1, side, side, 96), w=real(3, 3, 96, multiplier))
    call("conv1d", lambda x, w: tf.nn.conv1d(x, w, 1, "SAME"), x=real(8, 256, 64), w=real(5, 64, 64))
    call("conv3d", lambda x, w: tf.nn.conv3d(x, w, [1] * 5, "SAME"), x=real(1, 16, 28, 28, 16), w=real(3, 3, 3, 16, 32))
    call("conv transposed", lambda x, w: tf.nn.conv2d_transpose(x, w, [1, 56, 56, 32], 2, "SAME"), x=real(1, 28, 28, 64), w=real(3, 3, 32, 64))
    call("dilation2d", lambda x, w: tf.nn.dilation2d(x, w, [1] * 4, "SAME", "NHWC", [1] * 4), x=real(1, 28, 28, 32), w=real(3, 3, 32))
    for name, x in (("max_pool2d", (1, 112, 112, 64)), ("avg_pool2d", (1, 112, 112, 64)), ("max_pool3d", (1, 16, 28, 28, 32)), ("avg_pool3d", (1, 16, 28, 28, 32))):
        call(name, lambda x, f=getattr(tf.nn, name): f(x, 2, 2, "SAME"), x=real(*x))
    call("max_pool_with_argmax", lambda x: tf.nn.max_pool_with_argmax(x, 2, 2, "SAME"), x=real(1, 56, 56, 64))
    call("lrn", tf.nn.local_response_normalization, x=real(1, 28, 28, 96))
    call("bias_add", tf.nn.bias_add, x=real(1, 56, 56, 64), s=real(64))
    norm = lambda x, s, **k: tf.raw_ops.FusedBatchNormV3(x=x, scale=s, offset=s, **k)[0]
    call("batch norm", lambda x, s: norm(x, s, mean=s, variance=s + 3, is_training=False), x=real(1, 56, 56, 64), s=real(64))
    call("batch norm training", lambda x, s: norm(x, s, mean=tf.zeros([0]), variance=tf.zeros([0]), is_training=True), x=real(4, 56, 56, 64), s=real(64))


def products():
    for rows in (1, 2, 4, 8, 32, 128):
        call(f"matmul {rows}x1024x1024", tf.matmul, x=real(rows, 1024), w=real(1024, 1024))
    call("matmul b transposed", lambda x, w: tf.matmul(x, w, transpose_b=True), x=real(64, 1024), w=real(512, 1024))
    call("matmul a transposed", lambda x, w: tf.matmul(x, w, transpose_a=True), x=real(512, 64), w=real(512, 1024))
    call("batch matmul", tf.matmul, x=real(12, 128, 64), w=real(12, 64, 128))
    call("batch matmul 8x8", tf.matmul, x=real(512, 8, 8), w=real(512, 8, 8))
    call("matvec", tf.linalg.matvec, x=real(1024, 1024), w=real(1024))
    for dtype in ("float64", "float16", "complex64"):
        call(f"matmul {dtype}", tf.matmul, x=real(64, 256).astype(dtype), w=real(256, 256).astype(dtype))
    call("matmul int32", tf.matmul, x=whole(9, 64, 256), w=whole(9, 256, 256))
    call("einsum scores", lambda x, w: tf.einsum("bqhd,bkhd->bhqk", x, w), x=real(4, 64, 8, 32), w=real(4, 64, 8, 32))
    call("einsum mix", lambda x, w: tf.einsum("bhqk,bkhd->bqhd", x, w), x=real(4, 8, 64, 64), w=real(4, 64, 8, 32))
    call("tensordot", lambda x, w: tf.tensordot(x, w, [[2], [0]]), x=real(4, 64, 256), w=real(256, 256))
    a = real(8, 64, 64)
    square = (a @ a.swapaxes(1, 2) + 200 * np.eye(64)).astype(np.float32)
    each("inv det cholesky svd qr eigh logdet expm sqrtm lu slogdet pinv", tf.linalg, "linalg.", x=square)
    each("solve triangular_solve", tf.linalg, "linalg.", x=square, y=real(8, 64, 4))
    call("sparse dense matmul", lambda v, w: tf.sparse.sparse_dense_matmul(tf.sparse.from_dense(v), w),
         v=(real(256, 1000) * (R.random((256, 1000)) < 0.02)).astype(np.float32), w=real(1000, 64))


def signals_and_images():
    call("fft", lambda x: tf.signal.fft(tf.cast(x, tf.complex64)), x=real(256, 1024))
    call("fft2d", lambda x: tf.signal.fft2d(tf.cast(x, tf.complex64)), x=real(4, 128, 128))
    call("irfft 1000", lambda x: tf.signal.irfft(tf.signal.rfft(x)), x=real(256, 1000))
    call("stft", lambda x: tf.abs(tf.signal.stft(x, 400, 160)), x=real(4, 16000))
    call("dct", tf.signal.dct, x=real(256, 512))
    for method in ("bilinear", "nearest", "bicubic", "area", "lanczos3", "lanczos5", "gaussian", "mitchellcubic"):
        call(f"resize {method}", lambda x, m=method: tf.image.resize(x, [224, 224], m), x=real(1, 100, 120, 3))
    call("resize down", lambda x: tf.image.resize(x, [224, 224]), x=real(1, 640, 480, 3))
    call("resize down antialias", lambda x: tf.image.resize(x, [224, 224], antialias=True), x=real(1, 640, 480, 3))
    call("resize uint8", lambda x: tf.image.resize(x, [224, 224]), x=whole(255, 1, 640, 480, 3, dtype=np.uint8))
    call("crop_and_resize", lambda x, b: tf.image.crop_and_resize(x, b, tf.zeros([50], tf.int32), [14, 14]), x=real(1, 56, 56, 64), b=np.sort(real(50, 4, lo=0, hi=1), 1))
    picture = real(224, 224, 3, lo=0, hi=1)
    call("adjust_hue", lambda x: tf.image.adjust_hue(x, 0.1), x=picture)
    call("adjust_contrast", lambda x: tf.image.adjust_contrast(x, 0.5), x=picture)
    each("rgb_to_hsv per_image_standardization", tf.image, x=picture)
    call("nms", lambda b, s: tf.image.non_max_suppression(b, s, 100), b=real(2000, 4, lo=0, hi=1), s=real(2000))
    call("combined nms", lambda b, s: tf.image.combined_non_max_suppression(b, s, 50, 100)[0], b=real(1, 500, 1, 4, lo=0, hi=1), s=real(1, 500, 20))
    call("extract_patches", lambda x: tf.image.extract_patches(x, [1, 3, 3, 1], [1] * 4, [1] * 4, "SAME"), x=real(1, 56, 56, 16))
    photo = np.clip(np.cumsum(R.normal(0, 9, (480, 640, 3)), 1) + 128, 0, 255).astype(np.uint8)
    for kind, encode, decode in (("jpeg", tf.io.encode_jpeg, tf.io.decode_jpeg), ("png", tf.io.encode_png, tf.io.decode_png)):
        call(f"encode_{kind}", lambda x, f=encode: f(x), x=photo)
        call(f"decode_{kind}", lambda x, f=decode: f(x, channels=3), x=np.array(encode(photo).numpy(), object))


def strings():
    words = np.array([b"hello world %d and more" % i for i in range(4000)], object)
    each("lower length bytes_split", tf.strings, "strings.", x=words)
    for label, fn in (("split", lambda x: tf.strings.split(x).values), ("regex_replace", lambda x: tf.strings.regex_replace(x, "[aeiou]+", "_")),
                      ("hash", lambda x: tf.strings.to_hash_bucket_fast(x, 1000)), ("join", lambda x: tf.strings.join([x, x], "-")), ("reduce_join", tf.strings.reduce_join),
                      ("substr", lambda x: tf.strings.substr(x, 2, 5)), ("ngrams", lambda x: tf.strings.ngrams(x, 2)),
                      ("unicode_decode", lambda x: tf.strings.unicode_decode(x, "UTF-8").values), ("base64", lambda x: tf.io.decode_base64(tf.io.encode_base64(x))), ("unique", tf.unique)):
        call(f"strings.{label}", fn, x=words)
    call("strings.equal", tf.equal, x=words, y=words)
    call("strings.to_number", tf.strings.to_number, x=np.array([b"%f" % (i * 1.37) for i in range(4000)], object))
    call("as_string", tf.strings.as_string, x=real(4000))
    call("decode_csv", lambda x: tf.io.decode_csv(x, [0.0, 0.0, 0.0]), x=np.array([b"1.5,2.25,%d" % i for i in range(4000)], object))
    f = tf.train
    rows = [f.Example(features=f.Features(feature={"a": f.Feature(float_list=f.FloatList(value=[1, 2, 3, 4])), "b": f.Feature(int64_list=f.Int64List(value=[i])),
                                                   "c": f.Feature(bytes_list=f.BytesList(value=[b"abc%d" % i]))})).SerializeToString() for i in range(1000)]
    spec = {"a": tf.io.FixedLenFeature([4], tf.float32), "b": tf.io.FixedLenFeature([], tf.int64), "c": tf.io.FixedLenFeature([], tf.string)}
    call("parse_example", lambda x: list(tf.io.parse_example(x, spec).values()), x=np.array(rows, object))


def layers():
    L = tf.keras.layers
    for label, layer, x in (("lstm", L.LSTM(128), real(8, 50, 64)), ("gru", L.GRU(128), real(8, 50, 64)), ("bidirectional lstm", L.Bidirectional(L.LSTM(64)), real(8, 50, 64)),
                            ("layer norm", L.LayerNormalization(), real(8, 50, 64)), ("conv lstm", L.ConvLSTM2D(8, 3), real(2, 6, 16, 16, 4))):
        layer(x)
        call(label, layer, x=x)
    attention, x = L.MultiHeadAttention(8, 32), real(4, 64, 256)
    attention(x, x)
    call("attention", lambda x: attention(x, x), x=x)
    call("ctc greedy", lambda x: tf.nn.ctc_greedy_decoder(x, tf.fill([8], 100))[1], x=real(100, 8, 64))
    call("ctc beam", lambda x: tf.nn.ctc_beam_search_decoder(x, tf.fill([2], 50), 10)[1], x=real(50, 2, 32))
    call("fake_quant", tf.quantization.fake_quant_with_min_max_args, x=real(N))
    for name in ("normal", "uniform"):
        call(f"stateless_{name}", lambda s, f=getattr(tf.random, "stateless_" + name): f([N], s), s=np.array([1, 2], np.int32))
    return [layer for layer in locals().values() if isinstance(layer, L.Layer)] + [fn for fn, _ in CALLS.values() if isinstance(fn, L.Layer)]


def main(out):
    for family in (elementwise, reductions, movement, convolutions, products, signals_and_images, strings):
        family()
    module, concrete = tf.Module(), {}
    module.layers = layers()
    for i, (label, (fn, inputs)) in enumerate(CALLS.items()):
        def serve(*a, fn=fn):
            return {f"y{k}": tf.identity(t) for k, t in enumerate(tf.nest.flatten(fn(*a)))}
        specs = [tf.TensorSpec(a.shape, tf.string if a.dtype == object else a.dtype, name=k) for k, a in inputs.items()]
        concrete[f"call_{i}"] = tf.function(serve, autograph=False).get_concrete_function(*specs)
    folder = os.path.abspath(os.path.join(out, "ops", "1"))
    tf.saved_model.save(module, folder, signatures=concrete)
    made = signatures(folder)
    os.makedirs(os.path.join(out, "op_cases"), exist_ok=True)
    with open(os.path.join(out, "op_cases.txt"), "w") as listing:
        for i, (label, (_, inputs)) in enumerate(CALLS.items()):
            path = os.path.abspath(os.path.join(out, "op_cases", str(i)))
            write_case(path, made[f"call_{i}"], f"call_{i}", inputs)
            listing.write(f"{label}\t{folder}\t{path}\n")


if __name__ == "__main__":
    main(sys.argv[1])
