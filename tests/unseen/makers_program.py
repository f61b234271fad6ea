"""tf.Module and tf.function: special functions, random numbers, control flow, decoders, graphs, recommenders, dtypes, checks, state, gradients."""
import numpy as np
from harness import B, D, F, I, J, Lazy, S, case, floats, model, save

tf = Lazy("tensorflow")


@model(rtol=1e-3, atol=1e-4)
def special_functions(folder):
    m = Lazy("tensorflow.math")
    sp = Lazy("tensorflow.math.special")

    def f(x, y):
        p = tf.abs(x) + .1
        u = tf.sigmoid(x)
        names = "bessel_i0 bessel_i0e bessel_i1 bessel_i1e bessel_j0 bessel_j1 bessel_k0 bessel_k0e bessel_k1 bessel_k1e bessel_y0 bessel_y1 dawsn expint fresnel_cos fresnel_sin spence".split()
        out = {n: getattr(sp, n)(p) for n in names}
        out.update(lgamma=m.lgamma(p), digamma=m.digamma(p), erf=m.erf(x), erfc=m.erfc(x), erfinv=m.erfinv(u * .9), erfcinv=m.erfcinv(u + .1), ndtri=m.ndtri(u), betainc=m.betainc(p, p + 1, u), igamma=m.igamma(p, tf.abs(y)), igammac=m.igammac(p, tf.abs(y)),
                   zeta=m.zeta(p + 1.5, p), polygamma=m.polygamma(tf.round(p + 1), p), lbeta=m.lbeta(tf.stack([p, p], -1)), xlogy=m.xlogy(x, p), xlog1py=m.xlog1py(x, p), xdivy=m.xdivy(x, y), atan2=m.atan2(x, y), nextafter=m.nextafter(x, y), cumsum=m.cumsum(x, -1, True, True),
                   cumprod=m.cumprod(x, 0), logcum=m.cumulative_logsumexp(x, -1, reverse=True), lse=m.reduce_logsumexp(x, -1), var=m.reduce_variance(x, 0), std=m.reduce_std(x, -1, keepdims=True), floormod=m.floormod(x, y), floordiv=m.floordiv(x, y), truncmod=tf.truncatemod(x, y),
                   rsqrt=m.rsqrt(p), expm1=m.expm1(x), log1p=m.log1p(p), softplus=m.softplus(x * 30), softsign=m.softsign(x), rint=m.rint(x * 3), sinh=m.sinh(x), acosh=m.acosh(p + 1), atanh=m.atanh(u), asin=m.asin(u), sinc=m.sin(x) / x, euclid=m.reduce_euclidean_norm(x, 1),
                   zero=m.zero_fraction(tf.nn.relu(x)), topk=m.in_top_k(tf.constant([0, 1]), x[:2], 2), is_finite=m.is_finite(x / y), is_inc=m.is_strictly_increasing(x), conf=m.confusion_matrix([1, 2, 1], [1, 0, 2]),
                   segment=m.segment_prod(x, tf.range(tf.shape(x)[0]) // 2), unsorted=m.unsorted_segment_sqrt_n(x, tf.range(tf.shape(x)[0]) % 2, 3), bincount=m.bincount(tf.cast(p * 5, tf.int32), minlength=4), hist=tf.histogram_fixed_width(x, [-1., 1.], 5),
                   bucket=tf.raw_ops.Bucketize(input=x, boundaries=[-.5, 0., .5]), search=tf.searchsorted(tf.sort(x[0]), x[1]), clip=tf.clip_by_norm(x, 1.), glob=tf.clip_by_global_norm([x, y], 2.)[0][1], quant=tf.quantization.fake_quant_with_min_max_args(x), accum=m.accumulate_n([x, y, x]))
        return out
    save(folder, {"serving_default": (f, {"x": ([None, 3], F), "y": ([None, 3], F)})})
    yield case({"x": floats(1, 4, 3, low=-3, high=3), "y": floats(2, 4, 3, low=.2, high=3)})
    yield case({"x": [[0, 1, -1], [100, -100, 1e-20]], "y": [[1, 0, 2], [3, -3, 1e20]]}, id="edges")


@model(rtol=1e-6, atol=1e-8)
def special_doubles(folder):
    m = Lazy("tensorflow.math")

    def f(x):
        p = tf.abs(x) + .1
        return {"lgamma": m.lgamma(p), "digamma": m.digamma(p), "erfinv": m.erfinv(tf.tanh(x)), "igamma": m.igamma(p, p + 1), "betainc": m.betainc(p, p, tf.sigmoid(x)), "zeta": m.zeta(p + 1, p), "i0": m.bessel_i0(x), "k1": tf.math.special.bessel_k1(p), "ndtri": m.ndtri(tf.sigmoid(x)), "pow": tf.pow(p, x)}
    save(folder, {"serving_default": (f, {"x": ([None], D)})})
    yield case({"x": floats(1, 7, low=-5, high=5, dtype="float64")})


@model
def stateless_random(folder):
    r = tf.random

    def f(seed, n):
        s = [n, 3]
        out = {"uniform": r.stateless_uniform(s, seed), "normal": r.stateless_normal(s, seed, 2., .5), "trunc": r.stateless_truncated_normal(s, seed), "ints": r.stateless_uniform(s, seed, -5, 90, tf.int32), "full": r.stateless_uniform(s, seed, None, None, tf.int64),
               "gamma": r.stateless_gamma(s, seed, .7), "poisson": r.stateless_poisson(s, seed, 4.), "cat": r.stateless_categorical([[.1, 2., .3]], n, seed), "half": r.stateless_uniform(s, seed, dtype=tf.float16), "double": r.stateless_normal(s, seed, dtype=tf.float64),
               "fold": r.experimental.stateless_fold_in(seed, 7), "split": r.split(seed, 3) if hasattr(r, "split") else r.experimental.stateless_split(seed, 3), "shuffle": r.experimental.stateless_shuffle(tf.range(n), seed) if hasattr(r.experimental, "stateless_shuffle") else tf.range(n), "philox": r.stateless_uniform(s, seed, alg="philox")}
        return out

    def images(x, seed):
        i = tf.image
        return {"bright": i.stateless_random_brightness(x, .3, seed), "crop": i.stateless_random_crop(x, [2, 4, 4, 3], seed), "flip": i.stateless_random_flip_left_right(x, seed), "hue": i.stateless_random_hue(x, .2, seed), "contrast": i.stateless_random_contrast(x, .5, 1.5, seed), "drop": tf.nn.experimental.stateless_dropout(x, .4, seed)}
    save(folder, {"serving_default": (f, {"seed": ([2], I), "n": ([], I)}), "images": (images, {"x": ([None, 6, 7, 3], F), "seed": ([2], I)})})
    yield case({"seed": [3, 9], "n": 4})
    yield case({"seed": [-1, 2**31 - 1], "n": 1}, id="other")
    yield case({"seed": [-1, 2], "n": 0}, id="no_rows")
    yield case({"seed": [-1, 2], "n": -1}, id="negative")
    yield case({"x": floats(1, 2, 6, 7, 3, low=0), "seed": [4, 5]}, signature="images")


@model(stateful=True, vary=False)
def generators(folder):
    m = tf.Module()
    m.g = tf.random.Generator.from_seed(42)
    m.t = tf.random.Generator.from_seed(9, alg="philox")

    def draw(n):
        return {"u": m.g.uniform([n, 2]), "n": m.g.normal([n]), "i": m.t.uniform([n], 0, 100, tf.int32), "t": m.t.truncated_normal([n]), "full": m.t.uniform_full_int([n], tf.uint64), "key": m.g.state}

    def reseed(s):
        m.g.reset_from_seed(5)
        m.t.skip(s)
        return {"state": m.g.state.read_value(), "t": m.t.state.read_value()}
    save(folder, {"serving_default": (draw, {"n": ([], I)}), "reseed": (reseed, {"s": ([], J)})}, m)
    yield case({"n": 3})
    yield case({"n": 2})
    yield case({"s": 7}, signature="reseed")
    yield case({"n": 3})


@model(shape_only=["u", "n", "s", "c", "g", "p"])
def op_seeds(folder):
    def f(n):
        r = tf.random
        return {"u": r.uniform([n, 2], seed=1), "n": r.normal([n]), "s": r.shuffle(tf.range(n)), "c": r.categorical([[1., 2.]], n), "g": r.gamma([n], 2.), "p": r.poisson([n], 3.), "zero": r.uniform([n, 2]) * 0}
    save(folder, {"serving_default": (f, {"n": ([], I)})})
    yield case({"n": 5})


@model
def higher_order(folder):
    def f(x):
        ta = tf.map_fn(lambda r: (tf.reduce_sum(r), r[::-1]), x, fn_output_signature=(tf.float32, tf.float32))
        v = tf.vectorized_map(lambda r: tf.linalg.matvec(tf.linalg.diag(r), r) + tf.reduce_max(r), x)
        return {"sum": ta[0], "rev": ta[1], "vec": v, "scan": tf.scan(lambda a, r: a * .5 + r, x), "scan_rev": tf.scan(lambda a, r: a + tf.reduce_sum(r), x, 0., reverse=True), "foldl": tf.foldl(lambda a, r: a - r, x), "foldr": tf.foldr(lambda a, r: a - r, x, tf.zeros([3])),
                "nested": tf.map_fn(lambda r: tf.map_fn(lambda e: e * e, r), x), "jac": tf.vectorized_map(lambda i: tf.gather(x, i, axis=0) * tf.cast(i, tf.float32), tf.range(tf.shape(x)[0]))}

    def switch(i, x):
        s = tf.switch_case(i, [lambda: x + 1, lambda: x * 10, lambda: tf.zeros_like(x)], default=lambda: -x)
        c = tf.case([(tf.reduce_sum(x) > 5, lambda: tf.constant("big")), (i > 1, lambda: tf.constant("high"))], default=lambda: tf.constant("low"))
        nest = tf.cond(i > 0, lambda: tf.cond(i > 1, lambda: tf.while_loop(lambda a: tf.reduce_sum(a) < 100, lambda a: [a * 2 + 1], [x])[0], lambda: x), lambda: x[::-1])
        return {"switch": s, "case": c, "nest": nest}
    save(folder, {"serving_default": (f, {"x": ([None, 3], F)}), "switch": (switch, {"i": ([], I), "x": ([None], F)})})
    yield case({"x": floats(1, 4, 3)})
    for i in (-3, 0, 1, 2, 3, 7):
        yield case({"i": i, "x": floats(2, 3, low=0)}, signature="switch", id=f"switch{i}")


@model
def autograph(folder):
    def collatz(n):
        steps, peak = 0, n
        while n != 1:
            if n % 2 == 0:
                n = n // 2
            else:
                n = 3 * n + 1
                if n > 10000:
                    break
            peak = tf.maximum(peak, n)
            steps += 1
            if steps > 200:
                break
        return {"steps": steps, "peak": peak, "n": n}

    def sieve(n):
        out = tf.TensorArray(tf.int32, 0, dynamic_size=True)
        k = 0
        for i in tf.range(2, n):
            prime = True
            for d in tf.range(2, i):
                if d * d > i:
                    break
                if i % d == 0:
                    prime = False
                    break
            if not prime:
                continue
            out = out.write(k, i)
            k += 1
        return {"primes": out.stack(), "n": k}

    def find(x, t):
        i, found = 0, False
        while i < tf.shape(x)[0] and not found:
            if x[i] > t:
                found = True
                continue
            i += 1
        if not found:
            return {"i": -1, "v": np.float32(np.nan)}
        return {"i": i, "v": x[i]}

    def bubble(x):
        n = tf.shape(x)[0]
        for i in tf.range(n):
            for j in tf.range(n - i - 1):
                if x[j] > x[j + 1]:
                    x = tf.tensor_scatter_nd_update(x, [[j], [j + 1]], [x[j + 1], x[j]])
        return {"x": x}
    save(folder, {"serving_default": (collatz, {"n": ([], I)}), "sieve": (sieve, {"n": ([], I)}), "find": (find, {"x": ([None], F), "t": ([], F)}), "bubble": (bubble, {"x": ([None], F)})})
    for n in (1, 7, 27, 97):
        yield case({"n": n}, id=f"n{n}")
    yield case({"n": 40}, signature="sieve")
    yield case({"n": 0}, signature="sieve", id="none")
    yield case({"x": floats(1, 6), "t": .3}, signature="find")
    yield case({"x": floats(1, 6), "t": 3}, signature="find", id="not_found")
    yield case({"x": floats(1, 9)}, signature="bubble")


@model(rtol=1e-3, atol=1e-3)
def ctc(folder):
    def f(logits, lengths):
        t = tf.transpose(logits, [1, 0, 2])
        (g,), gs = tf.nn.ctc_greedy_decoder(t, lengths)
        b, bs = tf.nn.ctc_beam_search_decoder(t, lengths, beam_width=5, top_paths=2)
        unmerged = tf.nn.ctc_greedy_decoder(t, lengths, merge_repeated=False, blank_index=0)[0][0]
        return {"greedy": tf.sparse.to_dense(g, -1), "greedy_score": gs, "beam0": tf.sparse.to_dense(b[0], -1), "beam1": tf.sparse.to_dense(b[1], -1), "beam_score": bs, "unmerged": tf.sparse.to_dense(unmerged, -1)}

    def loss(logits, labels, lengths, label_lengths):
        dense = tf.nn.ctc_loss(labels, logits, label_lengths, lengths, logits_time_major=False, blank_index=-1)
        sparse = tf.compat.v1.nn.ctc_loss(tf.sparse.from_dense(labels), logits, lengths, time_major=False)
        return {"dense": dense, "sparse": sparse}
    save(folder, {"serving_default": (f, {"logits": ([None, None, 6], F), "lengths": ([None], I)}),
                  "loss": (loss, {"logits": ([None, None, 6], F), "labels": ([None, None], I), "lengths": ([None], I), "label_lengths": ([None], I)})})
    yield case({"logits": floats(1, 3, 8, 6, low=-3, high=3), "lengths": [8, 5, 1]})
    yield case({"logits": floats(1, 1, 4, 6), "lengths": [5]}, id="too_long")
    yield case({"logits": floats(1, 2, 8, 6), "labels": [[1, 2, 2], [3, 4, 1]], "lengths": [8, 7], "label_lengths": [3, 3]}, signature="loss")


@model
def crf_viterbi(folder):
    trans = floats(5, 4, 4)

    def viterbi(x, n):
        def step(carry, e):
            score, _ = carry
            best = score[:, :, None] + trans[None]
            return tf.reduce_max(best, 1) + e, tf.argmax(best, 1, output_type=tf.int32)
        xs = tf.transpose(x, [1, 0, 2])
        scores, back = tf.scan(step, xs[1:], (xs[0], tf.zeros(tf.shape(xs[0]), tf.int32)))
        last = tf.argmax(scores[-1], 1, output_type=tf.int32)
        path = tf.scan(lambda tag, b: tf.gather(b, tag, batch_dims=1), back, last, reverse=True)
        tags = tf.transpose(tf.concat([path, last[None]], 0))
        logz = tf.reduce_logsumexp(tf.foldl(lambda a, e: tf.reduce_logsumexp(a[:, :, None] + trans[None], 1) + e, xs[1:], xs[0]), 1)
        return {"tags": tf.where(tf.sequence_mask(n, tf.shape(x)[1]), tags, -1), "best": tf.reduce_max(scores[-1], 1), "logz": logz}
    save(folder, {"serving_default": (viterbi, {"x": ([None, None, 4], F), "n": ([None], I)})})
    yield case({"x": floats(1, 3, 6, 4), "n": [6, 3, 1]})
    yield case({"x": floats(1, 3, 1, 4), "n": [1, 1, 1]}, id="one_step")


@model
def graph_network(folder):
    m = tf.Module()
    m.w, m.a = tf.Variable(floats(1, 5, 4)), tf.Variable(floats(2, 8, 1))

    def f(nodes, edges, graph):
        h = tf.matmul(nodes, m.w)
        src, dst = edges[:, 0], edges[:, 1]
        n = tf.shape(nodes)[0]
        e = tf.nn.leaky_relu(tf.matmul(tf.concat([tf.gather(h, src), tf.gather(h, dst)], 1), m.a))[:, 0]
        e = tf.exp(e - tf.gather(tf.math.unsorted_segment_max(e, dst, n), dst))
        att = e / tf.gather(tf.math.unsorted_segment_sum(e, dst, n), dst)
        out = tf.math.unsorted_segment_sum(tf.gather(h, src) * att[:, None], dst, n)
        degree = tf.math.bincount(dst, minlength=n, maxlength=n)
        return {"nodes": out, "pool": tf.math.segment_mean(out, graph), "max": tf.math.segment_max(out, graph), "min": tf.math.unsorted_segment_min(out, graph, 3), "degree": degree, "adj": tf.scatter_nd(edges, att, tf.stack([n, n])),
                "prod": tf.math.unsorted_segment_prod(out, graph, 3)}
    save(folder, {"serving_default": (f, {"nodes": ([None, 5], F), "edges": ([None, 2], I), "graph": ([None], I)})}, m)
    yield case({"nodes": floats(3, 5, 5), "edges": [[0, 1], [1, 2], [2, 0], [3, 4], [4, 3], [0, 2]], "graph": [0, 0, 0, 2, 2]})
    yield case({"nodes": floats(3, 2, 5), "edges": [[0, 1], [1, 5]], "graph": [0, 0]}, id="no_such_node")
    yield case({"nodes": floats(3, 2, 5), "edges": [[0, 1], [1, 0]], "graph": [1, 0]}, id="unsorted")
    yield case({"nodes": floats(3, 2, 5), "edges": [[0, 1], [1, -1]], "graph": [0, 1]}, id="negative")


@model
def recommender(folder):
    m = tf.Module()
    m.user, m.item = tf.Variable(floats(1, 50, 6)), tf.Variable(floats(2, 70, 6))
    m.cross = [(tf.Variable(floats(3 + k, 15, 15)), tf.Variable(floats(9 + k, 15))) for k in range(2)]
    m.top = tf.Variable(floats(20, 15 + 3, 1))

    def f(user, item, dense):
        u = tf.gather(m.user, tf.strings.to_hash_bucket_fast(user, 50))
        i = tf.nn.embedding_lookup_sparse(m.item, tf.RaggedTensor.from_tensor(tf.strings.to_hash_bucket_fast(item, 70), padding=tf.constant(0, tf.int64)).to_sparse(), None, combiner="mean")
        d = tf.math.log1p(tf.nn.relu(dense))
        x0 = x = tf.concat([u, i, d], 1)
        for w, b in m.cross:
            x = x0 * (tf.matmul(x, w) + b) + x
        z = tf.stack([u, i, tf.tile(d, [1, 2])], 1)
        dots = tf.matmul(z, z, transpose_b=True)
        pairs = tf.boolean_mask(tf.reshape(dots, [-1, 9]), np.triu(np.ones([3, 3], bool), 1).reshape(-1), axis=1)
        score = tf.sigmoid(tf.matmul(tf.concat([x, pairs], 1), m.top))[:, 0]
        return {"score": score, "rank": tf.argsort(score, direction="DESCENDING", stable=True)}

    def nearest(user, k):
        u = tf.gather(m.user, tf.strings.to_hash_bucket_fast(user, 50))
        v, i = tf.math.top_k(tf.matmul(tf.nn.l2_normalize(u, 1), tf.nn.l2_normalize(m.item, 1), transpose_b=True), k)
        return {"scores": v, "ids": i, "names": tf.strings.join(["item", tf.strings.as_string(i)], "_")}
    save(folder, {"serving_default": (f, {"user": ([None], S), "item": ([None, None], S), "dense": ([None, 3], F)}), "nearest": (nearest, {"user": ([None], S), "k": ([], I)})}, m)
    yield case({"user": ["u1", "zoë", ""], "item": [["a", "b", "c"], ["a", "a", "a"], ["q", "r", "s"]], "dense": [[0, 1, 1000], [-5, .5, 2], [3, 3, 3]]})
    yield case({"user": ["u1", "u2"], "k": 4}, signature="nearest")
    yield case({"user": ["u1", "u2"], "k": 71}, signature="nearest", id="k_too_large")
    yield case({"user": ["u1", "u2"], "k": -1}, signature="nearest", id="k_negative")


@model(rtol=2e-2, atol=2e-2, skip=("nonfinite",))
def fake_quantised(folder):
    q = Lazy("tensorflow.quantization")

    def f(x):
        lo, hi = tf.constant(-1.), tf.constant(1.5)
        qz = q.quantize(x, -1., 1., tf.quint8, mode="MIN_COMBINED")
        q8 = q.quantize(x, -2., 2., tf.qint8, mode="SCALED", round_mode="HALF_TO_EVEN")
        return {"args": q.fake_quant_with_min_max_args(x, -1, 1, 4, True), "vars": q.fake_quant_with_min_max_vars(x, lo, hi, 8), "channel": q.fake_quant_with_min_max_vars_per_channel(x, [-1., -.5, 0.], [1., .5, 2.]), "round": q.dequantize(qz[0], qz[1], qz[2]),
                "scaled": q.dequantize(q8[0], q8[1], q8[2], mode="SCALED"), "qd": q.quantize_and_dequantize_v2(x, -1., 1., num_bits=5, range_given=True), "qd_free": q.quantize_and_dequantize_v2(x, 0., 0., narrow_range=True),
                "bits": tf.bitcast(tf.cast(x * 100, tf.int8), tf.uint8), "qint": tf.bitcast(q8[0], tf.int8)}
    save(folder, {"serving_default": (f, {"x": ([None, 3], F)})})
    yield case({"x": floats(1, 5, 3, low=-1.2, high=1.2)})


@model
def many_dtypes(folder):
    def f(a, b, c, d, e, z, t):
        return {"a": tf.bitwise.bitwise_xor(a, a + 3), "b": tf.bitwise.left_shift(b, tf.cast(2, b.dtype)), "c": c // tf.cast(3, c.dtype), "d": tf.reverse(d, [0]), "e": tf.bitwise.invert(e), "z": tf.math.conj(z) * z + tf.exp(z), "angle": tf.math.angle(z), "t": tf.math.logical_xor(t, t[::-1]),
                "mix": tf.cast(a, D) + tf.cast(b, D) + tf.cast(c, D), "half": tf.cast(d, tf.float16) * tf.constant(2, tf.float16), "max": tf.reduce_max(e), "pop": tf.raw_ops.PopulationCount(x=a)}
    save(folder, {"serving_default": (f, {"a": ([None], "uint8"), "b": ([None], "int16"), "c": ([None], "uint32"), "d": ([None], "bfloat16"), "e": ([None], "uint64"), "z": ([None], "complex64"), "t": ([None], B)})})
    import ml_dtypes
    yield case({"a": [0, 255, 7], "b": [-32768, 3, 9], "c": [2**32 - 1, 0, 5], "d": np.array([1.5, -2, 3e38], ml_dtypes.bfloat16), "e": np.array([2**64 - 1, 0, 1], np.uint64), "z": np.array([1 + 2j, -1j, 0], np.complex64), "t": [True, False, False]})


@model
def checks(folder):
    d = Lazy("tensorflow.debugging")

    def f(x, y):
        with tf.control_dependencies([d.assert_positive(x, "x must be positive"), d.assert_equal(tf.shape(x), tf.shape(y), "shapes")]):
            z = x + y
        tf.print("sum of", tf.size(z), "values", x)
        return {"z": d.check_numerics(z, "z got bad"), "ensure": tf.ensure_shape(z, [None])}

    def ranked(x):
        d.assert_rank_in(x, [1, 2])
        d.assert_less(x, 10.)
        d.assert_shapes([(x, ("N",))])
        d.assert_non_negative(x)
        tf.Assert(tf.reduce_sum(x) < 20, ["sum is", tf.reduce_sum(x), x], summarize=2)
        return {"x": tf.identity(x)}
    save(folder, {"serving_default": (f, {"x": ([None], F), "y": ([None], F)}), "ranked": (ranked, {"x": (None, F)})})
    yield case({"x": [1, 2, 3], "y": [4, 5, 6]})
    yield case({"x": [1, -2, 3], "y": [4, 5, 6]}, id="negative")
    yield case({"x": [1, 2, 3], "y": [4, 5, 6, 7]}, id="shapes")
    yield case({"x": [1, 2], "y": [np.nan, 1]}, id="nan")
    yield case({"x": [1, 2]}, signature="ranked")
    yield case({"x": [9, 9, 9]}, signature="ranked", id="sum")
    yield case({"x": [11]}, signature="ranked", id="less")


@model(stateful=True, vary=False)
def running_state(folder):
    m = tf.Module()
    m.n, m.mean, m.m2 = tf.Variable(0, dtype=tf.int64), tf.Variable(tf.zeros([3])), tf.Variable(tf.zeros([3]))
    m.log = tf.Variable([], shape=[None], dtype=tf.string)
    m.list = [tf.Variable(1.), tf.Variable(2.)]
    m.dict = {"k": tf.Variable([1, 2])}

    def update(x, tag):
        for r in x:
            m.n.assign_add(1)
            d = r - m.mean
            m.mean.assign_add(d / tf.cast(m.n, tf.float32))
            m.m2.assign_add(d * (r - m.mean))
        m.log.assign(tf.concat([m.log, tag[None]], 0))
        m.list[0].assign(m.list[1] * 2)
        m.list[1].assign_sub(.5)
        m.dict["k"].scatter_nd_update([[1]], [m.dict["k"][1] + 5])
        return {"n": m.n.read_value(), "mean": m.mean + 0, "var": m.m2 / tf.cast(m.n, tf.float32)}

    def look():
        return {"log": m.log + "", "a": m.list[0] + 0, "b": m.list[1] + 0, "k": m.dict["k"] + 0, "n": m.n + 0}
    save(folder, {"serving_default": (update, {"x": ([None, 3], F), "tag": ([], S)}), "look": (look, {})}, m)
    yield case(signature="look")
    yield case({"x": floats(1, 2, 3), "tag": np.array("one", object)})
    yield case({"x": floats(2, 3, 3), "tag": np.array("zwei", object)})
    yield case(signature="look")
    yield case({"x": floats(2, 3, 4), "tag": np.array("bad", object)})


@model
def datasets_inside(folder):
    def f(x, n):
        ds = tf.data.Dataset.from_tensor_slices(x).map(lambda v: v * 2).filter(lambda v: v > 0)
        total = ds.reduce(0., lambda a, b: a + b)
        batches = tf.data.Dataset.range(tf.cast(n, tf.int64)).batch(3, drop_remainder=False)
        count, last = tf.constant(0), tf.zeros([1], tf.int64)
        for b in batches:
            tf.autograph.experimental.set_loop_options(shape_invariants=[(last, tf.TensorShape([None]))])
            count += tf.shape(b)[0]
            last = b[-1:]
        zipped = tf.data.Dataset.zip((tf.data.Dataset.range(4), tf.data.Dataset.range(10, 20))).skip(1).take(2).reduce(tf.constant(0, tf.int64), lambda a, p: a + p[0] * p[1])
        return {"total": total, "count": count, "last": last, "zipped": zipped}
    save(folder, {"serving_default": (f, {"x": ([None], F), "n": ([], I)})})
    yield case({"x": floats(1, 6), "n": 7})
    yield case({"x": floats(1, 1), "n": 0}, id="none")


@model
def numpy_function_refused(folder):
    save(folder, {"serving_default": (lambda x: {"y": tf.numpy_function(lambda v: v, [x], tf.float32)}, {"x": ([None], F)}), "ok": (lambda x: {"y": x * 2}, {"x": ([None], F)})})
    yield case({"x": floats(1, 2)}, signature="ok")
    yield case({"x": floats(1, 2)}, error={"code": ["UNIMPLEMENTED", "INVALID_ARGUMENT", "FAILED_PRECONDITION"], "contains": ["PyFunc"]})


@model
def gradients_inside(folder):
    m = tf.Module()
    m.w = tf.Variable(floats(1, 3, 3))

    @tf.custom_gradient
    def clipped(x):
        return tf.nn.relu(x), lambda dy: tf.clip_by_value(dy, -.1, .1)

    def f(x):
        with tf.GradientTape(persistent=True) as outer:
            outer.watch(x)
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = tf.reduce_sum(tf.tanh(tf.matmul(x, m.w)) ** 3)
            g = tape.gradient(y, x)
            h = clipped(tf.matmul(g, m.w))
        return {"saliency": g, "second": outer.gradient(g, x), "custom": outer.gradient(h, x), "adversarial": x + .1 * tf.sign(g), "stop": tf.stop_gradient(x) * 2}

    def conv(x):
        with tf.GradientTape() as t:
            t.watch(x)
            k = tf.reshape(tf.range(18.), [3, 3, 1, 2]) / 18
            h = tf.nn.max_pool2d(tf.nn.relu(tf.nn.conv2d(x, k, 1, "SAME")), 2, 2, "SAME")
            s = tf.reduce_sum(h[..., 1])
        cam = t.gradient(s, x)
        return {"cam": tf.image.resize(cam, [4, 4])}
    save(folder, {"serving_default": (f, {"x": ([None, 3], F)}), "conv": (conv, {"x": ([None, 5, 5, 1], F)})}, m)
    yield case({"x": floats(2, 4, 3)})
    yield case({"x": floats(2, 2, 5, 5, 1)}, signature="conv")


@model
def jit_compiled(folder):
    @tf.function(jit_compile=True)
    def inner(x, w):
        h = tf.matmul(x, w)
        for _ in range(3):
            h = tf.nn.gelu(h) + tf.reduce_mean(h, -1, keepdims=True)
        return tf.nn.softmax(h)

    @tf.function(jit_compile=True, autograph=True)
    def loop(x):
        i = tf.constant(0)
        while i < 4:
            x = x * 1.5 - tf.cast(i, tf.float32)
            i += 1
        return x
    w = tf.constant(floats(1, 4, 4))
    save(folder, {"serving_default": (lambda x: {"y": inner(x, w), "z": loop(x)}, {"x": ([None, 4], F)})})
    yield case({"x": floats(2, 3, 4)})


@model
def shapes_at_run_time(folder):
    def f(x, perm, begin, size, depth):
        y = tf.transpose(x, perm)
        s = tf.slice(y, begin, size)
        n = tf.size(s)
        return {"y": s, "hot": tf.one_hot(tf.range(depth), depth, axis=0), "grid": tf.stack(tf.meshgrid(tf.range(depth), tf.range(depth + 1), indexing="ij")), "tile": tf.tile(s, tf.ones([3], tf.int32) + tf.constant([1, 0, 0])), "roll": tf.roll(x, depth, 1), "fill": tf.fill(tf.shape(s)[:2], "s"), "n": n,
                "pad": tf.pad(s, tf.stack([begin, begin], 1), "CONSTANT", 5.), "mirror": tf.pad(x, [[0, 0], [1, 1], [1, 0]], "REFLECT"), "space": tf.space_to_batch(x[..., None], [1, 1], [[0, 0], [0, 0]]), "repeat": tf.repeat(x, tf.range(tf.shape(x)[0]) + 1, 0), "unstack": tf.add_n(tf.unstack(tf.reshape(x, [-1, 4]), axis=1)),
                "bcast": tf.broadcast_to(x[:1], tf.shape(x)), "seq": tf.sequence_mask(perm + 1, depth), "rev": tf.reverse_sequence(x, tf.ones([tf.shape(x)[0]], tf.int32) * 2, 1), "linspace": tf.linspace(0., tf.cast(n, tf.float32), depth), "gather": tf.gather(x, [1, 0], axis=1, batch_dims=0), "nd": tf.gather_nd(x, [[0, 1], [0, 0]], batch_dims=0),
                "scatter": tf.tensor_scatter_nd_add(x, [[0, 0]], [x[0, 1]]), "where": tf.where(x > 0), "bool": tf.boolean_mask(x, x[:, 0, 0] > -2), "depth": tf.nn.depth_to_space(tf.reshape(x, [-1, 1, 3, 4]), 2), "strided": x[..., tf.newaxis, ::-1, 1:-1:2], "einsum": tf.einsum("...ij,...kj->...ik", x, x)}
    save(folder, {"serving_default": (f, {"x": ([None, 3, 4], F), "perm": ([3], I), "begin": ([3], I), "size": ([3], I), "depth": ([], I)})})
    yield case({"x": floats(1, 2, 3, 4), "perm": [2, 0, 1], "begin": [1, 0, 0], "size": [-1, 1, 2], "depth": 3})
    yield case({"x": floats(1, 2, 3, 4), "perm": [2, 0, 0], "begin": [1, 0, 0], "size": [-1, 1, 2], "depth": 3}, id="perm")
    yield case({"x": floats(1, 2, 3, 4), "perm": [2, 0, 1], "begin": [1, 0, 0], "size": [4, 1, 2], "depth": 3}, id="slice")
    yield case({"x": floats(1, 2, 3, 4), "perm": [0, 1, 2], "begin": [0, 0, 0], "size": [2, 3, 4], "depth": -1}, id="depth")


@model
def gradient_of_a_loop_that_breaks(folder):
    """The gradient of a loop with break and continue, taken in the graph, and differentiated again: TensorFlow keeps the conditions of its branches as Optionals in lists."""
    def total(x):
        s, rows = tf.constant(0.), tf.TensorArray(tf.float32, 0, dynamic_size=True)
        for row in x:
            if tf.reduce_sum(row) > 2.5:
                break
            if row[0] < 0:
                continue
            s += tf.reduce_sum(row * row)
            rows = rows.write(rows.size(), row * s)
        return s + tf.reduce_sum(tf.sin(rows.stack()))

    def f(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = total(x)
        return {"y": y, "g": tape.gradient(y, x)}
    save(folder, {"serving_default": (f, {"x": ([None, 2], F)})})
    yield case({"x": floats(3, 5, 2)})
    yield case({"x": [[.5, .25], [2, 1], [.5, .5]]})
