#!/usr/bin/env python3
"""The numbers that tests/unit/kernels/test_train_*.c compare with, computed by Keras 3 on TensorFlow.

    tests/train_tables.py tests/unit/kernels          writes train_losses.inc, train_metrics.inc, train_updates.inc, train_layers.inc

Values are drawn by a fixed seed; corners (kinks, clipped probabilities, ties) are put in by hand.
"""
import os
import sys

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

L, M, O, S, C = keras.losses, keras.metrics, keras.optimizers, keras.optimizers.schedules, keras.constraints
rng = np.random.default_rng(14)


def f(v):
    """The shortest decimal that float32 reads back."""
    v = np.float32(v)
    return "NAN" if np.isnan(v) else "%d" % v if v == int(v) and abs(v) < 1e6 else str(v)


def array(a):
    a = np.asarray(a).reshape(-1)
    return "(const double[]){" + ", ".join(f(v) for v in a) + "}" if a.size else "NULL"


def dims(a):
    a = np.asarray(a)
    return "{.rank = %d, .dim = {%s}}" % (a.ndim, ", ".join(map(str, a.shape)) or "0")


def tensor(a):
    """struct given: shape and values; none."""
    return "{.v = NULL}" if a is None else "{%s, %s}" % (dims(a), array(a))


def write(folder, name, what, lines):
    with open(os.path.join(folder, name), "w") as out:
        out.write("/* %s: %s\n * Made by tests/train_tables.py.\n *\n * SPDX-License-Identifier: Apache-2.0 */\n" % (name, what))
        out.write("/* clang-format off */\n" + "\n".join(wrapped(x) for x in lines) + "\n/* clang-format on */\n")


def wrapped(line):
    out, width = [], 0
    for word in line.split(" "):
        if width + len(word) > 105:
            out.append("\n    ")
            width = 4
        out.append(word + " ")
        width += len(word) + 1
    return "".join(out).replace(" \n", "\n").rstrip()


# ---------------------------------------------------------------- losses

def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return (e / e.sum(-1, keepdims=True)).astype(np.float32)


def normal(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def loss_rows():
    rows = []

    def add(name, made, y, p, fields=(), w=None, reduction="sum_over_batch_size"):
        loss = made(reduction=reduction)
        t = tf.constant(p)
        with tf.GradientTape() as tape:
            tape.watch(t)
            q = tf.cast(t, tf.float32)
            q = q[:, None] if len(q.shape) == 1 else q
            classes = name.startswith("sparse")
            target = tf.constant(np.asarray(y, np.int64 if classes else np.float32))
            target = target[:, None] if len(target.shape) == 1 else target
            total = loss(target, q, sample_weight=None if w is None else tf.constant(np.asarray(w, np.float32)))
        g = tape.gradient(total, t)
        dtype = {"float32": "TD_FLOAT", "float64": "TD_DOUBLE", "float16": "TD_HALF"}[p.dtype.name]
        kind = {"sum_over_batch_size": "TD_SUM_OVER_BATCH_SIZE", "mean_with_sample_weight": "TD_MEAN_WITH_SAMPLE_WEIGHT", "sum": "TD_SUM"}[reduction]
        rows.append('{"%s", {%s}, %s, %s, %s, %s, %s, %s, %s},' % (
            name, ", ".join(f(v) for v in fields) or "0", dtype, tensor(y), tensor(p), tensor(w), kind, f(total), array(g)))

    y, p = normal(4, 3), normal(4, 3)
    p[0, 0] = y[0, 0]  # |x| at 0
    y[1, 1] = 0
    column_y, column_p = normal(5), normal(5)
    seq_y, seq_p = normal(2, 3, 2), normal(2, 3, 2)
    row_w, seq_w = np.array([0.5, 2, 0, 1], np.float32), np.array([[1, 0, 2], [0.5, 1, 1]], np.float32)
    plain = {"mse": L.MeanSquaredError, "mae": L.MeanAbsoluteError, "mape": L.MeanAbsolutePercentageError, "msle": L.MeanSquaredLogarithmicError,
             "log_cosh": L.LogCosh, "cosine_similarity": L.CosineSimilarity}
    for name, made in plain.items():
        add(name, made, y, p)
        add(name, made, column_y, column_p)
        add(name, made, seq_y, seq_p, w=seq_w)
        add(name, made, y, p, w=row_w, reduction="mean_with_sample_weight")
        add(name, made, seq_y, seq_p, w=np.array([[2.0], [0.25]], np.float32), reduction="mean_with_sample_weight")
    add("mse", L.MeanSquaredError, y, p.astype(np.float64), reduction="sum")
    add("mae", L.MeanAbsoluteError, y.astype(np.float16), p.astype(np.float16), w=row_w)
    add("mse", L.MeanSquaredError, y, p, w=np.zeros(4, np.float32), reduction="mean_with_sample_weight")
    far = np.array([[0.5, -0.5, 1.0, -1.0, 3.0, 0.0]], np.float32)
    for delta in (1.0, 0.5, 2.5):
        add("huber", lambda reduction, d=delta: L.Huber(delta=d, reduction=reduction), np.zeros((1, 6), np.float32), far, [delta])
    add("log_cosh", L.LogCosh, np.zeros((2, 3), np.float32), np.array([[0, 40, -40], [1e-3, -1e-3, 5]], np.float32))
    add("poisson", L.Poisson, np.array([[0, 1, 2], [3, 0, 1]], np.float32), np.array([[0.1, 1, 2.5], [2, 0, 1e-3]], np.float32))
    dist, probs = softmax(normal(3, 4)), softmax(normal(3, 4))
    probs[0] = [0, 1, 0, 0]
    dist[1] = [0, 0, 1, 0]
    add("kl_divergence", L.KLDivergence, dist, probs)
    add("kl_divergence", L.KLDivergence, softmax(normal(2, 3, 4)), softmax(normal(2, 3, 4)), w=seq_w)
    margin = np.array([[1.0, -1.0, 0.5], [2.0, 0.0, -3.0]], np.float32)
    for name, made in (("hinge", L.Hinge), ("squared_hinge", L.SquaredHinge)):
        add(name, made, np.array([[1, 0, 1], [0, 0, 1]], np.float32), margin)
        add(name, made, np.array([[1, -1, 1], [-1, 1, 1]], np.float32), margin, w=np.array([1, 3], np.float32))
        add(name, made, np.array([[1, 0, 1], [-1, 0, 1]], np.float32), margin)  # one -1: nothing is turned
        add(name, made, np.array([1, 0, 1], np.float32), np.array([1.0, -1.0, 0.2], np.float32))
    hot = np.eye(4, dtype=np.float32)[[1, 3, 0]]
    tied = np.array([[1, 2, 0, 1], [0.5, 0.5, 0.5, 0.2], [3, 1, 2, 2]], np.float32)
    add("categorical_hinge", L.CategoricalHinge, hot, tied)

    def entropy(made, logits, s):
        return lambda reduction: made(from_logits=logits, label_smoothing=s, reduction=reduction)

    bits = np.array([[1, 0, 0.25], [0, 1, 1]], np.float32)
    x = np.array([[0, 30, -2], [-40, 0, 20]], np.float32)
    half = np.array([[0, 0.5, 1], [0.2, 1, 1e-9]], np.float32)
    for s in (0.0, 0.1):
        add("binary_crossentropy", entropy(L.BinaryCrossentropy, True, s), bits, x, [1, s])
        add("binary_crossentropy", entropy(L.BinaryCrossentropy, False, s), bits, half, [0, s], w=np.array([2, 0.5], np.float32))
        add("binary_crossentropy", entropy(L.BinaryCrossentropy, False, s), np.array([1, 0, 1], np.float32), np.array([0.9, 0.2, 0.4], np.float32), [0, s])
        add("categorical_crossentropy", entropy(L.CategoricalCrossentropy, True, s), hot, tied * 8, [1, s])
        add("categorical_crossentropy", entropy(L.CategoricalCrossentropy, False, s), hot, probs * 0.7, [0, s])
        add("categorical_crossentropy", entropy(L.CategoricalCrossentropy, False, s), softmax(normal(2, 3, 4)), softmax(normal(2, 3, 4)), [0, s], w=seq_w)
        add("categorical_crossentropy", entropy(L.CategoricalCrossentropy, True, s), softmax(normal(2, 3, 4)), normal(2, 3, 4), [1, s], w=seq_w)

    def sparse(logits, ignore):
        return lambda reduction: L.SparseCategoricalCrossentropy(from_logits=logits, ignore_class=ignore, reduction=reduction)

    name = "sparse_categorical_crossentropy"
    nan = float("nan")
    add(name, sparse(False, None), np.array([1, 2, 0]), probs * 0.7, [0, nan])
    add(name, sparse(True, None), np.array([1, 2, 0]), tied * 8, [1, nan], w=np.array([1, 0, 3], np.float32))
    steps = np.array([[0, -1, 3], [1, 2, -1]])
    for logits in (True, False):
        out = normal(2, 3, 4) if logits else softmax(normal(2, 3, 4))
        for reduction in ("sum_over_batch_size", "mean_with_sample_weight", "sum"):
            add(name, sparse(logits, -1), steps, out, [logits, -1], reduction=reduction)
            add(name, sparse(logits, -1), steps, out, [logits, -1], w=seq_w, reduction=reduction)
            add(name, sparse(logits, -1), steps, out, [logits, -1], w=np.array([[2.0], [0.5]], np.float32), reduction=reduction)
    add(name, sparse(True, None), np.array([[0, 1, 3], [1, 2, 0]]), normal(2, 3, 4), [1, nan], w=seq_w)
    add(name, sparse(True, 1), np.array([1, 1]), normal(2, 3), [1, 1])  # nothing counts
    return rows


# ---------------------------------------------------------------- metrics

def metric_rows():
    rows = []

    def add(name, made, batches, fields=(), classes=False):
        text, plain, weighted = [], made(), made()
        for y, p, w in batches:
            yt = tf.constant(np.asarray(y, np.int64 if classes else np.float32))
            pt = tf.constant(p)
            yt, pt = (t[:, None] if len(t.shape) == 1 else t for t in (yt, pt))
            plain.update_state(yt, pt)
            weighted.update_state(yt, pt, sample_weight=tf.constant(w))
            text.append("{%s, %s, %s}" % (tensor(y), tensor(p), tensor(w)))
        rows.append('{"%s", {%s}, %d, {%s}, {%s, %s}},' % (
            name, ", ".join(f(v) for v in fields) or "0", classes, ", ".join(text), f(plain.result()), f(weighted.result())))

    def weights(n):
        return rng.uniform(0, 2, n).astype(np.float32)

    pairs = [(normal(n, 3), normal(n, 3), weights(n)) for n in (4, 2)]
    seqs = [(normal(n, 3, 2), normal(n, 3, 2), weights((n, 3))) for n in (2, 3)]
    for name, made in {"mse": M.MeanSquaredError, "mae": M.MeanAbsoluteError, "mape": M.MeanAbsolutePercentageError, "msle": M.MeanSquaredLogarithmicError,
                       "rmse": M.RootMeanSquaredError, "cosine_similarity": M.CosineSimilarity}.items():
        add(name, made, pairs)
        add(name, made, seqs)
    add("mae", M.MeanAbsoluteError, [(normal(n), normal(n), weights(n)) for n in (5, 3)])
    add("rmse", M.RootMeanSquaredError, [(normal(n), normal(n), weights(n)) for n in (5, 3)])
    add("poisson", M.Poisson, [(rng.poisson(2, (n, 2)).astype(np.float32), rng.uniform(0, 3, (n, 2)).astype(np.float32), weights(n)) for n in (4, 3)])
    add("kl_divergence", M.KLDivergence, [(softmax(normal(n, 4)), softmax(normal(n, 4)), weights(n)) for n in (4, 3)])

    def bits(*shape):
        return rng.integers(0, 2, shape).astype(np.float32)

    def unit(*shape):
        v = rng.uniform(0, 1, shape).astype(np.float32)
        v.reshape(-1)[:3] = [0.5, 0.0, 1.0]
        return v

    flat = [(bits(n), unit(n), weights(n)) for n in (9, 6)]
    wide = [(bits(n, 3), unit(n, 3), weights(n)) for n in (7, 4)]
    long = [(bits(n, 3, 2), unit(n, 3, 2), weights((n, 3))) for n in (3, 2)]
    for batches in (flat, wide, long):
        add("binary_accuracy", M.BinaryAccuracy, batches, [0.5])
        add("precision", M.Precision, batches)
        add("recall", M.Recall, batches)
        add("auc", M.AUC, batches)
    add("binary_accuracy", lambda: M.BinaryAccuracy(threshold=0.7), flat, [0.7])
    add("accuracy", M.BinaryAccuracy, flat, [0.5])
    add("auc", M.AUC, [(bits(n), (normal(n) * 2).astype(np.float32), weights(n)) for n in (20, 11)])  # outside [0, 1]
    add("precision", M.Precision, [(np.zeros(3, np.float32), np.zeros(3, np.float32), weights(3))] * 2)

    def hot(n, *more):
        return np.eye(6, dtype=np.float32)[rng.integers(0, 6, (n, *more))]

    def tied(*shape):
        return rng.integers(0, 4, shape).astype(np.float32)

    dense = [(hot(n), tied(n, 6), weights(n)) for n in (8, 5)]
    dense_seq = [(hot(n, 3), tied(n, 3, 6), weights((n, 3))) for n in (4, 2)]
    sparse = [(rng.integers(0, 6, n), tied(n, 6), weights(n)) for n in (8, 5)]
    sparse_seq = [(rng.integers(-1, 6, (n, 3)), tied(n, 3, 6), weights((n, 3))) for n in (4, 2)]
    for batches in (dense, dense_seq):
        add("categorical_accuracy", M.CategoricalAccuracy, batches)
        add("top_k_accuracy", lambda: M.TopKCategoricalAccuracy(k=2), batches, [2])
    for batches in (sparse, sparse_seq):
        add("sparse_categorical_accuracy", M.SparseCategoricalAccuracy, batches, classes=True)
        add("top_k_accuracy", lambda: M.SparseTopKCategoricalAccuracy(k=3), batches, [3], classes=True)
    add("top_k_accuracy", lambda: M.SparseTopKCategoricalAccuracy(k=9), sparse, [9], classes=True)
    add("accuracy", M.CategoricalAccuracy, dense, [0.5])
    add("accuracy", M.SparseCategoricalAccuracy, sparse_seq, [0.5], classes=True)
    add("mae", M.MeanAbsoluteError, sparse, classes=True)  # classes are numbers to it
    return rows


# ---------------------------------------------------------------- updates

def optimizer_rows():
    rows = []
    w0 = np.array([0.5, -1.5, 2.0, 0.0, 1e-3], np.float32)
    gs = np.array([[0.1, -2, 0, 1e-4, 30], [0.3, 1, 0, -1e-4, 0], [-0.2, 1, 0.5, 0, 1], [0, 0, -4, 2, -1]], np.float32)

    def add(name, made, fields=(), rate=0.05, dtype="float32", decay=0.0, clip="TD_NO_CLIP, 0", ema=0.0, **kw):
        opt = made(learning_rate=rate, **({"weight_decay": decay} if decay else {}), **({"use_ema": True, "ema_momentum": ema} if ema else {}), **kw)
        v = keras.Variable(w0, dtype=dtype)
        opt.build([v])
        want = []
        for g in gs:
            opt.apply([tf.constant(g, dtype)], [v])
            want.append(v.numpy())
        average = opt._model_variables_moving_average[0].numpy() if ema else []
        rows.append('{"%s", {%s}, %s, TD_%s, %s, %s, %s, %s, %s, %s, %s},' % (
            name, ", ".join(f(x) for x in fields) or "0", f(rate), dtype.upper().replace("32", "").replace("FLOAT64", "DOUBLE"), f(decay), clip, f(ema),
            array(w0), array(gs), array(want), array(average)))

    add("sgd", O.SGD, [0, 0])
    add("sgd", O.SGD, [0.9, 0], momentum=0.9)
    add("sgd", O.SGD, [0.9, 1], momentum=0.9, nesterov=True, decay=0.1)
    add("rmsprop", O.RMSprop, [0.9, 0, 1e-7, 0])
    add("rmsprop", O.RMSprop, [0.8, 0.5, 1e-5, 1], rho=0.8, momentum=0.5, epsilon=1e-5, centered=True)
    add("rmsprop", O.RMSprop, [0.9, 0.5, 1e-7, 0], momentum=0.5)
    add("adam", O.Adam, [0.9, 0.999, 1e-7, 0])
    add("adam", O.Adam, [0.8, 0.99, 1e-5, 1], beta_1=0.8, beta_2=0.99, epsilon=1e-5, amsgrad=True)
    add("adam", O.Adam, [0.9, 0.999, 1e-7, 0], dtype="float64", decay=0.02)
    add("adamw", O.AdamW, [0.9, 0.999, 1e-7, 0], decay=0.004)
    add("nadam", O.Nadam, [0.9, 0.999, 1e-7])
    add("nadam", O.Nadam, [0.7, 0.9, 1e-3], beta_1=0.7, beta_2=0.9, epsilon=1e-3)
    add("adamax", O.Adamax, [0.9, 0.999, 1e-7])
    add("adamax", O.Adamax, [0.7, 0.9, 1e-3], beta_1=0.7, beta_2=0.9, epsilon=1e-3)
    add("adagrad", O.Adagrad, [0.1, 1e-7])
    add("adagrad", O.Adagrad, [0.5, 1e-3], initial_accumulator_value=0.5, epsilon=1e-3)
    add("adadelta", O.Adadelta, [0.95, 1e-7])
    add("adadelta", O.Adadelta, [0.7, 1e-3], rho=0.7, epsilon=1e-3)
    add("ftrl", O.Ftrl, [-0.5, 0.1, 0, 0, 0, 0])
    add("ftrl", O.Ftrl, [-0.3, 0.2, 0.01, 0.02, 0.03, 0.5], learning_rate_power=-0.3, initial_accumulator_value=0.2, l1_regularization_strength=0.01,
        l2_regularization_strength=0.02, l2_shrinkage_regularization_strength=0.03, beta=0.5)
    add("lion", O.Lion, [0.9, 0.99])
    add("lion", O.Lion, [0.5, 0.8], beta_1=0.5, beta_2=0.8)
    add("sgd", O.SGD, [0, 0], clip="TD_CLIP_NORM, 1.5", clipnorm=1.5)
    add("sgd", O.SGD, [0, 0], clip="TD_CLIP_GLOBAL_NORM, 1.5", global_clipnorm=1.5)
    add("adam", O.Adam, [0.9, 0.999, 1e-7, 0], clip="TD_CLIP_VALUE, 0.4", clipvalue=0.4, ema=0.6)
    return rows


def schedule_rows():
    rows = []

    def add(name, made, fields, lists=(), first=0.1, steps=(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 14, 15, 20, 21, 30, 45, 75, 100, 1000)):
        want = [float(made(tf.constant(s, tf.int64))) for s in steps]
        rows.append('{"%s", {%s}, {%s}, {%s}, %s, %d, %s, %s},' % (
            name, ", ".join(f(x) for x in fields) or "0", ", ".join(array(x) for x in lists) or "NULL", ", ".join(str(len(x)) for x in lists) or "0",
            f(first), len(steps), array(steps), array(want)))

    nan = float("nan")
    for stairs in (False, True):
        add("exponential", S.ExponentialDecay(0.1, 5, 0.7, staircase=stairs), [5, 0.7, stairs])
        add("inverse_time", S.InverseTimeDecay(0.1, 3, 0.5, staircase=stairs), [3, 0.5, stairs])
    add("polynomial", S.PolynomialDecay(0.1, 20), [20, 0.0001, 1])
    add("polynomial", S.PolynomialDecay(0.1, 20, 0.01, 2.5), [20, 0.01, 2.5])
    add("piecewise", S.PiecewiseConstantDecay([2, 5, 20], [0.3, 0.2, 0.1, 0.05]), [nan, nan], ([2, 5, 20], [0.3, 0.2, 0.1, 0.05]))
    add("cosine", S.CosineDecay(0.1, 20), [20, 0, nan, 0])
    add("cosine", S.CosineDecay(0.1, 20, 0.1, warmup_target=0.4, warmup_steps=5), [20, 0.1, 0.4, 5])
    add("cosine", S.CosineDecay(0.1, 20, warmup_target=0.4, warmup_steps=0), [20, 0, 0.4, 0])
    add("cosine", S.CosineDecay(0.1, 20, warmup_steps=7), [20, 0, nan, 7])
    for t, m in ((2.0, 1.0), (1.0, 0.5), (1.5, 0.9), (3.0, 0.8)):
        add("cosine_restarts", S.CosineDecayRestarts(0.1, 5, t_mul=t, m_mul=m, alpha=0.05), [5, t, m, 0.05])
    return rows


def constraint_rows():
    rows = []
    w = normal(3, 2, 4)
    w[:, 0, 0] = 0
    for name, made, fields, axes in (("max_norm", C.MaxNorm(0.7), [0.7, 0], None), ("max_norm", C.MaxNorm(1.5, axis=[0, 1]), [1.5, nan_()], [0, 1]),
                                     ("non_neg", C.NonNeg(), [], None), ("unit_norm", C.UnitNorm(axis=-1), [nan_()], [-1]),
                                     ("unit_norm", C.UnitNorm(), [0], None),
                                     ("min_max_norm", C.MinMaxNorm(0.5, 1.2, 0.8, axis=1), [0.5, 1.2, 0.8, nan_()], [1])):
        rows.append('{"%s", {%s}, %s, %d, %s, %s},' % (name, ", ".join(f(x) for x in fields) or "0", array(axes or []), len(axes or []), tensor(w), array(made(w))))
    return rows


def nan_():
    return float("nan")


# ---------------------------------------------------------------- layers of a head

ACTIVATIONS = ("celu elu exponential gelu hard_sigmoid hard_silu hard_swish hard_tanh leaky_relu linear log_sigmoid log_softmax mish relu relu6 selu "
               "sigmoid silu softmax softplus softsign squareplus swish tanh tanh_shrink").split()
INITIALIZERS = ("glorot_normal glorot_uniform he_normal he_uniform identity lecun_normal lecun_uniform ones orthogonal random_normal random_uniform "
                "truncated_normal variance_scaling zeros").split()


def activation_rows():
    x = np.asarray([[-3.5, -1, -0.25, 0, 0.5, 2, 7]], np.float32)
    return ['{"%s", %s, %s},' % (name, tensor(x), array(keras.activations.get(name)(x))) for name in ACTIVATIONS]


def initializer_rows():
    rows = []
    for name in INITIALIZERS:
        for shape, seed in (((2, 3), 7), ((5, 2), -5), ((3, 3), 2**40 + 3)):
            made = keras.initializers.get(name)
            if hasattr(made, "seed"):
                made = type(made)(seed=seed)
            rows.append('{"%s", %d, %s},' % (name, seed, tensor(made(shape))))
    return rows


def main(folder):
    write(folder, "train_losses.inc", "losses and their gradients", ["static const struct loss_case losses[] = {"] + loss_rows() + ["};"])
    write(folder, "train_metrics.inc", "metrics of two batches", ["static const struct metric_case metrics[] = {"] + metric_rows() + ["};"])
    write(folder, "train_updates.inc", "optimizers, schedules, constraints",
          ["static const struct optimizer_case optimizers[] = {"] + optimizer_rows() + ["};", "static const struct schedule_case schedules[] = {"] + schedule_rows()
          + ["};", "static const struct constraint_case constraints[] = {"] + constraint_rows() + ["};"])
    write(folder, "train_layers.inc", "activations and initializers", ["static const struct activation_case activations[] = {"] + activation_rows()
          + ["};", "static const struct initializer_case initializers[] = {"] + initializer_rows() + ["};"])


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
