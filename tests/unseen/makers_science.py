"""Numerical models and old graphs: processes, filters, solvers, chains, complex numbers, quantized and nested graphs of TensorFlow 1."""
import numpy as np
from harness import D, F, I, Lazy, case, floats, ints, model, save
from makers_v1 import Graph, v1, variable

tf = Lazy("tensorflow")


@model(rtol=1e-3, atol=1e-3, skip=("nonfinite",))
def gaussian_process(folder):
    m = tf.Module()
    m.x, m.y = tf.Variable(floats(1, 8, 2)), tf.Variable(floats(2, 8))
    kernel = lambda a, b: tf.exp(-.5 * tf.reduce_sum(tf.math.squared_difference(a[..., :, None, :], b[..., None, :, :]), -1))

    def f(x):
        l = tf.linalg.cholesky(kernel(m.x, m.x) + .1 * tf.eye(8))
        k = kernel(m.x, x)
        alpha = tf.linalg.cholesky_solve(l, m.y[:, None])
        v = tf.linalg.triangular_solve(l, k)
        cov = kernel(x, x) - tf.matmul(v, v, transpose_a=True)
        return {"mean": tf.matmul(k, alpha, transpose_a=True)[:, 0], "var": tf.linalg.diag_part(cov), "ei": tf.nn.relu(tf.math.ndtri(tf.sigmoid(x[:, 0]))), "evidence": -tf.reduce_sum(tf.math.log(tf.linalg.diag_part(l)))}
    save(folder, {"serving_default": (f, {"x": ([None, 2], F)})}, m)
    yield case({"x": floats(3, 5, 2)})


@model(rtol=1e-3, atol=1e-4, skip=("nonfinite",))
def adaptive_solver(folder):
    """An ODE by Runge and Kutta with a step that adapts, until the time that is asked for."""
    def f(y0, until):
        slope = lambda t, y: tf.stack([y[:, 1], -y[:, 0] - .1 * y[:, 1] + tf.sin(t)], 1)

        def step(t, y, h, n):
            h = tf.minimum(h, until - t)
            k1 = slope(t, y)
            k2 = slope(t + h / 2, y + h / 2 * k1)
            k3 = slope(t + .75 * h, y + .75 * h * k2)
            new = y + h / 9 * (2 * k1 + 3 * k2 + 4 * k3)
            k4 = slope(t + h, new)
            error = tf.reduce_max(tf.abs(h * (-5 / 72 * k1 + k2 / 12 + k3 / 9 - k4 / 8)))
            good = error < 1e-3
            return tf.where(good, t + h, t), tf.where(good, new, y), h * tf.clip_by_value(.9 * tf.pow(1e-3 / (error + 1e-9), 1 / 3), .2, 4.), n + 1
        t, y, h, n = tf.while_loop(lambda t, y, h, n: (t < until) & (n < 200), step, (tf.zeros([]), y0, tf.constant(.5), tf.constant(0)))
        return {"y": y, "done": t >= until, "steps": n}
    save(folder, {"serving_default": (f, {"y0": ([None, 2], F), "until": ([], F)})})
    yield case({"y0": floats(1, 3, 2), "until": 2.5})


@model(rtol=1e-3, atol=1e-3, skip=("nonfinite",))
def kalman_smoother(folder):
    """Filter and smoother over time by tf.scan forwards and backwards, in double."""
    a, q, h, r = (tf.constant(v, tf.float64) for v in ([[1., 1.], [0., 1.]], [[.1, 0.], [0., .1]], [[1., 0.]], [[.5]]))

    def f(z):
        def forward(s, z_t):
            x, p = s[0], s[1]
            x, p = tf.linalg.matvec(a, x), a @ p @ tf.transpose(a) + q
            gain = tf.transpose(tf.linalg.solve(h @ p @ tf.transpose(h) + r, h @ p))
            return x + tf.linalg.matvec(gain, z_t - tf.linalg.matvec(h, x)), p - gain @ h @ p
        xs, ps = tf.scan(forward, z, (tf.zeros([2], tf.float64), tf.eye(2, dtype=tf.float64)))

        def back(s, e):
            x, p = e
            p_next = a @ p @ tf.transpose(a) + q
            c = p @ tf.transpose(a) @ tf.linalg.inv(p_next)
            return x + tf.linalg.matvec(c, s[0] - tf.linalg.matvec(a, x)), p + c @ (s[1] - p_next) @ tf.transpose(c)
        sx, sp = tf.scan(back, (xs[:-1], ps[:-1]), (xs[-1], ps[-1]), reverse=True)
        return {"filtered": xs, "smoothed": tf.concat([sx, xs[-1:]], 0), "logdet": tf.linalg.slogdet(ps).log_abs_determinant}
    save(folder, {"serving_default": (f, {"z": ([None, 1], D)})})
    yield case({"z": floats(1, 6, 1, dtype=np.float64)})


@model(vary=False, rtol=1e-3, atol=1e-4)
def markov_chain(folder):
    """Metropolis steps with stateless random numbers: the same seed, the same chain."""
    def f(seed, scale):
        log_p = lambda x: -.5 * tf.reduce_sum(x * x, -1) + tf.math.log(1.5 + tf.sin(3 * x[..., 0]))

        def step(state, i):
            x, accepted = state
            new = x + scale * tf.random.stateless_normal([4, 2], tf.stack([seed[0], seed[1] + 2 * i]))
            u = tf.random.stateless_uniform([4], tf.stack([seed[0], seed[1] + 2 * i + 1]))
            go = tf.math.log(u) < log_p(new) - log_p(x)
            return tf.where(go[:, None], new, x), accepted + tf.cast(go, tf.int32)
        xs, accepted = tf.scan(step, tf.range(20), (tf.zeros([4, 2]), tf.zeros([4], tf.int32)))
        pick = tf.random.stateless_categorical(tf.math.log([[.2, .5, .3]]), 7, tf.random.experimental.stateless_fold_in(seed, 5))
        return {"last": xs[-1], "accepted": accepted[-1], "mean": tf.reduce_mean(xs, [0, 1]), "pick": pick, "gamma": tf.random.stateless_gamma([3], seed, 2.0), "split": tf.random.experimental.stateless_split(seed, 3), "order": tf.random.experimental.stateless_shuffle(tf.range(7), seed)}
    save(folder, {"serving_default": (f, {"seed": ([2], I), "scale": ([], F)})})
    for i in range(3):
        yield case({"seed": [i, 99 - i], "scale": .5 + i})


@model(rtol=1e-3, atol=1e-3, skip=("nonfinite",))
def filters_of_signals(folder):
    """Complex numbers: analytic signals, filters in frequency, cross-correlation, phases."""
    def f(x):
        n = tf.shape(x)[-1]
        z = tf.signal.fft(tf.cast(x, tf.complex64))
        at = tf.range(n)
        gain = tf.where(at == 0, 1., tf.where(at * 2 < n, 2., tf.where(at * 2 == n, 1., 0.)))
        analytic = tf.signal.ifft(z * tf.cast(gain, tf.complex64))
        band = tf.signal.irfft(tf.signal.rfft(x) * tf.cast(tf.range(n // 2 + 1) < 3, tf.complex64), [n])
        cross = tf.math.real(tf.signal.ifft(z * tf.math.conj(tf.roll(z, 1, 0))))
        return {"envelope": tf.abs(analytic), "band": band, "cross": cross, "power": tf.math.real(z * tf.math.conj(z)), "dct": tf.signal.dct(x), "back": tf.signal.idct(tf.signal.dct(x, norm="ortho"), norm="ortho"), "parts": tf.complex(x, -x) / tf.complex(x + 3, x), "cut": tf.signal.overlap_and_add(tf.signal.frame(x, 4, 2), 2)}
    save(folder, {"serving_default": (f, {"x": ([None, None], F)})})
    yield case({"x": floats(1, 3, 16)})


@model
def capsules_and_hypernets(folder):
    """Routing by agreement, and a layer whose weights another makes: einsum, tf.vectorized_map, tf.map_fn."""
    m = tf.Module()
    m.w, m.h = tf.Variable(floats(1, 5, 3, 4, 6)), tf.Variable(floats(2, 4, 20))

    def f(x):
        u = tf.einsum("bid,ijde->bije", x, m.w)
        b = tf.zeros_like(u[..., 0])
        squash = lambda s: s * (tf.norm(s, axis=-1, keepdims=True) / (1 + tf.reduce_sum(s * s, -1, keepdims=True)))
        for _ in range(3):
            v = squash(tf.einsum("bij,bije->bje", tf.nn.softmax(b, 2), u))
            b += tf.einsum("bije,bje->bij", u, v)
        weights = tf.reshape(tf.matmul(x[:, 0], m.h), [-1, 4, 5])
        own = tf.vectorized_map(lambda a: tf.tanh(tf.matmul(a[0], a[1])), (x, weights))
        return {"length": tf.norm(v, axis=-1), "own": own, "each": tf.map_fn(lambda a: tf.linalg.matvec(a[0], a[1][0], transpose_a=True), (weights, x), fn_output_signature=tf.float32), "gram": tf.vectorized_map(lambda a: tf.tensordot(a, a, [[0], [0]]), x)}
    save(folder, {"serving_default": (f, {"x": ([None, 5, 4], F)})}, m)
    yield case({"x": floats(3, 2, 5, 4)})


@model
def messages_on_graphs(folder):
    """A graph network on several graphs at once: softmax over edges of a node, pooling by graph, several reductions."""
    m = tf.Module()
    m.w, m.a = tf.Variable(floats(1, 4, 6)), tf.Variable(floats(2, 12))

    def f(nodes, source, target, graph):
        h = tf.matmul(nodes, m.w)
        n = tf.shape(nodes)[0]
        e = tf.nn.leaky_relu(tf.linalg.matvec(tf.concat([tf.gather(h, source), tf.gather(h, target)], 1), m.a))
        e = tf.exp(e - tf.gather(tf.math.unsorted_segment_max(e, target, n), target))
        alpha = e / tf.gather(tf.math.unsorted_segment_sum(e, target, n), target)
        new = tf.tensor_scatter_nd_add(h, target[:, None], alpha[:, None] * tf.gather(h, source))
        g = tf.reduce_max(graph) + 1
        u, index, count = tf.unique_with_counts(target)
        return {"nodes": new, "sum": tf.math.segment_sum(new, graph), "mean": tf.math.unsorted_segment_mean(new, graph, g), "max": tf.math.segment_max(new, graph), "sqrt": tf.math.unsorted_segment_sqrt_n(new, graph, g), "degree": tf.math.bincount(target, minlength=n), "u": u, "index": index, "count": count, "adjacent": tf.scatter_nd(tf.stack([source, target], 1), tf.ones_like(source), tf.stack([n, n]))}
    save(folder, {"serving_default": (f, {"nodes": ([None, 4], F), "source": ([None], I), "target": ([None], I), "graph": ([None], I)})}, m)
    yield case({"nodes": floats(1, 6, 4), "source": [0, 1, 2, 4, 5, 3, 0], "target": [1, 2, 0, 5, 4, 5, 2], "graph": [0, 0, 0, 1, 1, 1]}, id="two")


@model(vary=False)
def quantized_graph_v1(folder):
    """What quantize_graph made of a convolutional net: levels through every layer, a range requantized behind each."""
    with Graph() as g:
        q = tf.raw_ops
        x = v1.placeholder(tf.float32, [None, 6, 6, 2], "x")
        k, b = tf.constant(floats(1, 3, 3, 2, 4)), tf.constant(floats(2, 4))
        levels = lambda t: q.QuantizeV2(input=t, min_range=tf.reduce_min(t), max_range=tf.reduce_max(t), T="quint8", mode="MIN_FIRST")

        def narrow(t):
            lo, hi = q.RequantizationRange(input=t[0], input_min=t[1], input_max=t[2])
            return q.Requantize(input=t[0], input_min=t[1], input_max=t[2], requested_output_min=lo, requested_output_max=tf.maximum(hi, lo + .01), out_type="quint8")
        a, c = levels(x), levels(k)
        y = narrow(q.QuantizedConv2D(input=a[0], filter=c[0], min_input=a[1], max_input=a[2], min_filter=c[1], max_filter=c[2], strides=[1, 1, 1, 1], padding="SAME"))
        d = levels(b)
        y = narrow(q.QuantizedBiasAdd(input=y[0], bias=d[0], min_input=y[1], max_input=y[2], min_bias=d[1], max_bias=d[2], out_type="qint32"))
        y = q.QuantizedRelu(features=y[0], min_features=y[1], max_features=y[2])
        y = q.QuantizedMaxPool(input=y[0], min_input=y[1], max_input=y[2], ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="VALID")
        z = q.QuantizedAvgPool(input=y[0], min_input=y[1], max_input=y[2], ksize=[1, 2, 2, 1], strides=[1, 1, 1, 1], padding="SAME")
        both = q.QuantizedConcat(concat_dim=3, values=[y[0], z[0]], input_mins=[y[1], z[1]], input_maxes=[y[2], z[2]])
        flat = q.QuantizedReshape(tensor=both[0], shape=[-1, 72], input_min=both[1], input_max=both[2])
        w = levels(tf.constant(floats(3, 72, 5)))
        out = q.QuantizedMatMul(a=flat[0], b=w[0], min_a=flat[1], max_a=flat[2], min_b=w[1], max_b=w[2], Toutput="qint32")
        out = narrow(out)
        g.start()
        g.save(folder, {"serving_default": ({"x": x}, {"y": q.Dequantize(input=out[0], min_range=out[1], max_range=out[2], mode="MIN_FIRST"), "max": out[2]})})
    yield case({"x": floats(4, 2, 6, 6, 2)})
    yield case({"x": floats(5, 1, 6, 6, 2, low=-3, high=9)})


@model(vary=False)
def nested_conditions_v1(folder):
    """cond in while in cond of TensorFlow 1's own control flow, with a switch_case and TensorArrays."""
    with Graph() as g:
        x, n = v1.placeholder(tf.float32, [None, 3], "x"), v1.placeholder(tf.int32, [], "n")
        w = variable("w", 3, 3)

        def loop(limit):
            def body(i, h, ta):
                h = v1.cond(tf.equal(i % 2, 0), lambda: tf.tanh(tf.matmul(h, w)), lambda: v1.cond(tf.reduce_sum(h) > 0, lambda: h * .5, lambda: -h))
                return i + 1, h, ta.write(i, tf.reduce_sum(h, 1))
            _, h, ta = v1.while_loop(lambda i, h, ta: i < limit, body, [0, x, tf.TensorArray(tf.float32, limit)])
            return h, ta.stack()
        h, trace = v1.cond(n > 0, lambda: loop(n), lambda: (x, tf.zeros([1, tf.shape(x)[0]])))
        s = v1.case([(n < 1, lambda: tf.constant("none")), (n < 3, lambda: tf.constant("few"))], default=lambda: tf.constant("many"))
        g.start()
        g.save(folder, {"serving_default": ({"x": x, "n": n}, {"h": h, "trace": trace, "s": s})})
    for n in (0, 1, 4):
        yield case({"x": floats(1, 2, 3), "n": n}, id=f"n{n}")


@model(vary=False)
def layouts_of_axes(folder):
    """DataFormat ops, which a layout optimizer leaves behind."""
    q = tf.raw_ops

    def f(axes, pads):
        return {"axes": q.DataFormatDimMap(x=axes), "back": q.DataFormatDimMap(x=axes, src_format="NCHW", dst_format="NHWC"), "pads": q.DataFormatVecPermute(x=pads), "sizes": q.DataFormatVecPermute(x=pads[:, 0], src_format="NCHW", dst_format="NHWC"), "spatial": q.DataFormatVecPermute(x=pads[1:3, 0], src_format="NHWC", dst_format="NCHW")}
    save(folder, {"serving_default": (f, {"axes": ([None], I), "pads": ([4, 2], I)})})
    yield case({"axes": [0, 1, 2, 3, -1, -4], "pads": ints(1, 4, 2)})
